//! PFD Management (TS 29.244 §6.2.5): applications are known, change and are forgotten, and the sessions that name them
//! follow; what would not be detected is refused.

use crate::support;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use dpi::{HostName, Protocol};
use n4::Config;
use pfcp::IeType;
use pfcp::ie::{Cause, FailedRuleId, UsageReportTrigger};
use pfcp::message::Message;
use rules::model::Application;
use rules::{DetectedFlow, NameSource};
use session::Export;

use support::traffic::{Fate, downlink, uplink};
use support::wire::*;
use support::*;

const VIDEO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 8);
pub(super) const TO_VIDEO: &str = "permit out ip from 198.51.100.7 to assigned";
pub(super) const TO_OTHER: &str = "permit out ip from 198.51.100.8 to assigned";
const REFUSED: Cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;

/// Octets behind their length.
pub(super) fn counted(octets: &[u8]) -> Octets {
    [&(octets.len() as u16).to_be_bytes()[..], octets].concat()
}

/// PFD Contents with these flags and fields.
pub(super) fn contents(flags: u8, fields: &[Octets]) -> Octets {
    ie(61, [&[flags, 0][..], &fields.concat()].concat())
}

pub(super) fn flow(text: &str) -> Octets {
    contents(1, &[counted(text.as_bytes())])
}

/// An application with one PFD for each of these.
pub(super) fn application(id: &str, pfds: &[Octets]) -> Octets {
    let contexts = pfds.iter().map(|pfd| group(59, std::slice::from_ref(pfd)));
    let ies: Vec<_> = [ie(24, id)].into_iter().chain(contexts).collect();
    group(58, &ies)
}

/// A session whose first two PDRs are of the application, and two behind them drop the rest.
fn session(cp: u64, ue: Ipv4Addr) -> Vec<Octets> {
    let id = || ie(24, "video");
    let far = |number, verb: u8| create_far(&[far_id(number), apply_action(&[verb])]);
    vec![
        node_v4(SMF_ADDRESS),
        f_seid(cp, SMF_ADDRESS.into()),
        create_pdr(&[
            pdr_id(1),
            precedence(100),
            pdi(&[source_if(ACCESS), choose(V4, Some(1)), ue_ip(false, ue), id()]),
            outer_header_removal(0),
            far_id(1),
        ]),
        create_pdr(&[
            pdr_id(2),
            precedence(100),
            pdi(&[source_if(CORE), ue_ip(true, ue), id()]),
            far_id(2),
        ]),
        create_pdr(&[
            pdr_id(3),
            precedence(200),
            pdi(&[source_if(ACCESS), choose(V4, Some(1)), ue_ip(false, ue)]),
            outer_header_removal(0),
            far_id(3),
        ]),
        create_pdr(&[
            pdr_id(4),
            precedence(200),
            pdi(&[source_if(CORE), ue_ip(true, ue)]),
            far_id(3),
        ]),
        create_far(&[
            far_id(1),
            apply_action(&[FORW]),
            forwarding(&[destination_if(CORE)]),
        ]),
        downlink_far(2, 0x222),
        far(3, DROP),
    ]
}

impl World {
    pub(super) fn provision(&mut self, applications: &[Octets]) -> Reply {
        self.ask(3, None, applications)
    }

    /// With an application and a session that names it.
    pub(super) fn with_video() -> World {
        let mut world = World::associated();
        world
            .provision(&[application("video", &[flow(TO_VIDEO)])])
            .assert_accepted();
        world.ask(50, Some(0), &session(1, UE)).up_seid();
        world
    }

    /// Which of the two servers the only session exchanges packets with, up and down.
    pub(super) fn reaches(&self) -> [[bool; 2]; 2] {
        let session = self.only_session();
        let rules = session.rules();
        let teid = rules.pdrs()[0].pdi.f_teid.unwrap().teid.0;
        [VIDEO, OTHER].map(|server| {
            [
                uplink(rules, teid, UE, server, 9) != Fate::Dropped,
                downlink(rules, UE, server) != Fate::Dropped,
            ]
        })
    }
}

pub(super) const YES: [bool; 2] = [true; 2];
pub(super) const NO: [bool; 2] = [false; 2];

#[test]
fn an_application_is_its_flows_in_both_directions() {
    let world = World::with_video();
    assert_eq!(world.reaches(), [YES, NO]);
}

#[test]
fn an_application_without_pfds_is_unknown() {
    let mut world = World::associated();
    let reply = world.ask(50, Some(0), &session(1, UE));
    assert_eq!(reply.verdict(), because(REFUSED, Some(IeType::APPLICATION_ID)));
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Pdr(pfcp::ie::PdrId(1))));
    world.assert_clean();
}

#[test]
fn new_pfds_take_the_place_of_those_before_and_sessions_follow() {
    let mut world = World::with_video();
    let reply = world.provision(&[application("video", &[flow(TO_OTHER)])]);
    reply.assert_accepted();
    assert_eq!(world.reaches(), [NO, YES]);
    let both = application("video", &[flow(TO_VIDEO), flow(TO_OTHER)]);
    world.provision(&[both]).assert_accepted();
    assert_eq!(world.reaches(), [YES, YES]);
    let several = [counted(TO_OTHER.as_bytes()), counted(TO_VIDEO.as_bytes())].concat();
    let fields = [counted(b"permit out 1 from any to assigned"), counted(&several)];
    let one = application("video", &[contents(0x21, &fields)]);
    world.provision(&[one]).assert_accepted();
    assert_eq!(world.reaches(), [YES, YES], "additional flow descriptions");
    world
        .provision(&[application("music", &[flow(TO_OTHER)])])
        .assert_accepted();
    assert_eq!(world.reaches(), [YES, YES], "another application");
}

#[test]
fn an_application_that_is_forgotten_has_no_packets_until_it_is_known_again() {
    for forgets in [vec![application("video", &[])], Vec::new()] {
        let mut world = World::with_video();
        world.provision(&forgets).assert_accepted();
        assert_eq!(world.reaches(), [NO, NO]);
        let reply = world.ask(50, Some(0), &session(2, Ipv4Addr::new(10, 45, 0, 9)));
        assert_eq!(reply.cause(), Some(REFUSED));
        world
            .provision(&[application("video", &[flow(TO_VIDEO)])])
            .assert_accepted();
        assert_eq!(world.reaches(), [YES, NO]);
    }
}

#[test]
fn where_nothing_is_inspected_names_are_refused_and_all_else_with_them() {
    let mut world = World::with_video();
    for (flags, fields) in [
        (0x02, vec![counted(b"^https?://video")]),
        (0x04, vec![counted(b"video.example")]),
        (0x08, vec![counted(b"of our own")]),
        (
            0x03,
            vec![counted(TO_OTHER.as_bytes()), counted(b"^https?://video")],
        ),
    ] {
        let reply = world.provision(&[
            application("music", &[flow(TO_OTHER)]),
            application("video", &[contents(flags, &fields)]),
        ]);
        assert_eq!(
            reply.verdict(),
            because(Cause::SERVICE_NOT_SUPPORTED, Some(IeType::PFD_CONTENTS))
        );
        assert_eq!(world.reaches(), [YES, NO], "nothing has changed");
    }
    for bad in [flow("deny out ip from any to assigned"), contents(0, &[])] {
        let reply = world.provision(&[application("video", &[bad])]);
        assert_eq!(
            reply.verdict(),
            because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::PFD_CONTENTS))
        );
    }
    assert_eq!(world.reaches(), [YES, NO]);
}

fn inspection() -> Config {
    let mut config = World::config(2);
    config.inspects = true;
    config
}

/// A world whose workers look into packets, with a session that names the application.
fn inspecting() -> World {
    let mut world = World::with(inspection());
    world.associate();
    world
        .provision(&[application("video", &[flow(TO_VIDEO)])])
        .assert_accepted();
    world.ask(50, Some(0), &session(1, UE)).up_seid();
    world
}

/// The places of the PFDs with names that a flow for this host and path is of, in the only session.
fn named(world: &World, host: &str, path: Option<&str>) -> Vec<u32> {
    let protocol = path.map_or(Protocol::Tls, |_| Protocol::Http1);
    found(world, protocol, host, path)
}

/// The same of a flow of this protocol.
fn found(world: &World, protocol: Protocol, host: &str, path: Option<&str>) -> Vec<u32> {
    let host = HostName::parse(host.as_bytes()).expect("a host");
    let pdrs = world.only_session().rules().pdrs();
    let application = pdrs[0].pdi.optional.application.as_ref().expect("an application");
    let flow = DetectedFlow {
        protocol: Some(protocol),
        name: Some(&host),
        path: path.map(str::as_bytes),
        source: NameSource::Client,
    };
    let places = application.named.places(flow);
    let mut places: Vec<u32> = places.collect();
    places.sort_unstable();
    places
}

/// Octets of several, each behind its length, behind the length of all.
fn several(all: &[&str]) -> Octets {
    let all: Vec<_> = all.iter().map(|one| counted(one.as_bytes())).collect();
    counted(&all.concat())
}

#[test]
fn names_of_all_kinds_are_known_and_sessions_follow() {
    let mut world = inspecting();
    let urls = contents(
        0x42,
        &[
            counted(br"^http://test.example.com(/\S*)?$"),
            several(&["http://www.example/video", "https://secure.example/"]),
        ],
    );
    let domains = contents(
        0x94,
        &[
            counted(b"*.video.example"),
            counted(b"TLS_SNI"),
            several(&[
                "cdn.example",
                "",
                r"^c\d+\.example$",
                "TLS_SNI",
                "asked.example",
                "DNS_QNAME",
            ]),
        ],
    );
    let music = contents(0x04, &[counted(b"music.example")]);
    let with_flow = contents(0x05, &[counted(TO_OTHER.as_bytes()), counted(b"only.example")]);
    let all = [urls, domains, music, with_flow, flow(TO_VIDEO)];
    world.provision(&[application("video", &all)]).assert_accepted();
    assert_eq!(named(&world, "test.example.com", Some("/a")), [0]);
    assert_eq!(named(&world, "www.example", Some("/video/1")), [0]);
    assert_eq!(named(&world, "secure.example", None), [0]);
    assert_eq!(named(&world, "a.video.example", None), [1]);
    assert_eq!(named(&world, "cdn.example", Some("/")), [1]);
    assert_eq!(named(&world, "c12.example", None), [1]);
    assert_eq!(found(&world, Protocol::Dns, "asked.example", None), [1]);
    assert_eq!(named(&world, "music.example", None), [2]);
    assert_eq!(named(&world, "only.example", None), [3]);
    for (host, path) in [
        ("test.example.com", None),
        ("secure.example", Some("/")),
        ("a.video.example", Some("/")),
        ("c12.example", Some("/")),
        ("asked.example", None),
    ] {
        assert_eq!(named(&world, host, path), [0; 0], "{host} {path:?}");
    }
    assert_eq!(found(&world, Protocol::Dns, "cdn.example", None), [0; 0]);
    assert_eq!(world.reaches(), [YES, NO], "the PFD with a flow alone");
    world
        .provision(&[application("video", &[flow(TO_OTHER)])])
        .assert_accepted();
    assert_eq!(named(&world, "music.example", None), [0; 0]);
}

#[test]
fn a_configured_application_is_named_as_others_are_and_described_by_nobody_else() {
    let configured = |flow: &str| -> Arc<[Application]> {
        let application = Application {
            id: b"video".as_slice().into(),
            flows: [flow.parse().unwrap()].into(),
            named: Arc::default(),
        };
        [application].into()
    };
    let mut config = World::config(2);
    config.applications = configured(TO_VIDEO);
    let mut world = World::with(config.clone());
    world.associate();
    world.ask(50, Some(0), &session(1, UE)).up_seid();
    assert_eq!(world.reaches(), [YES, NO]);
    let reply = world.provision(&[application("video", &[flow(TO_OTHER)])]);
    let refused = because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::APPLICATION_ID));
    assert_eq!(reply.verdict(), refused);
    // A request that forgets all is about what control planes describe.
    world.provision(&[]).assert_accepted();
    assert_eq!(world.reaches(), [YES, NO]);
    for (applications, expected) in [(configured(TO_OTHER), [NO, YES]), (Arc::default(), [NO, NO])] {
        config.applications = applications;
        world.n4.reconfigure(world.now, &fleet::network(), config.clone());
        world.run();
        assert_eq!(world.reaches(), expected);
    }
    world
        .provision(&[application("video", &[flow(TO_VIDEO)])])
        .assert_accepted();
    assert_eq!(world.reaches(), [YES, NO]);
}

/// Names are not in the records of sessions: their applications have them.
#[test]
fn a_session_in_another_process_has_the_names_of_its_application() {
    let mut first = inspecting();
    let pfds = [contents(0x04, &[counted(b"music.example")]), flow(TO_VIDEO)];
    first.provision(&[application("video", &pfds)]).assert_accepted();
    let seid = first.only_session().seid();
    let records = [
        first.n4.export_node().unwrap(),
        first.n4.export_associations().unwrap(),
    ];
    first.n4.export(first.now, seid, Export::Take);
    first.run();
    let session = first
        .n4
        .poll_exported(first.now)
        .expect("a record")
        .record
        .expect("a session");
    let mut second = World::with(inspection());
    for record in records.iter().flatten().chain([&session]) {
        second.n4.import(second.now, record).expect("a record");
    }
    second.run();
    assert_eq!(named(&second, "music.example", None), [0]);
    assert_eq!(second.reaches(), [YES, NO]);
    assert_eq!(second.n4.export_node().unwrap(), records[0]);
}

#[test]
fn names_that_cannot_be_looked_for_are_refused_with_what_is_wrong() {
    let mut world = inspecting();
    let domain = |name: &str, protocol: &str| {
        contents(0x14, &[counted(name.as_bytes()), counted(protocol.as_bytes())])
    };
    let not_supported = [
        contents(0x08, &[counted(b"of our own")]),
        domain("a.example", "TLS_SAN"),
        domain("a.example", "TLS_SCN"),
    ];
    let bad = [
        domain("a.example", "SNI"),
        // A protocol without a name; a pair without its second half; a string that is cut.
        contents(0x10, &[counted(b"TLS_SNI")]),
        contents(0x80, &[several(&["a.example"])]),
        contents(0x40, &[counted(&[0, 9, b'a'])]),
        contents(0x02, &[counted(b"http://(a.example/")]),
        contents(0x04, &[counted(b"a.example/path")]),
        contents(0x04, &[counted(b"a\n.example")]),
        contents(0x04, &[counted(b"(a{1000}){1000}")]),
    ];
    let cases = not_supported
        .map(|one| (Cause::SERVICE_NOT_SUPPORTED, one))
        .into_iter();
    for (cause, contents) in cases.chain(bad.map(|one| (Cause::MANDATORY_IE_INCORRECT, one))) {
        let reply = world.provision(&[application("video", &[contents])]);
        assert_eq!(reply.verdict(), because(cause, Some(IeType::PFD_CONTENTS)));
        assert_eq!(world.reaches(), [YES, NO], "nothing has changed");
    }
}

#[test]
fn names_are_bounded_in_one_application_and_in_all() {
    let mut world = inspecting();
    let full = Some(Cause::NO_RESOURCES_AVAILABLE);
    let domains = |names: &[String]| {
        let pairs: Vec<&str> = names.iter().flat_map(|name| [name.as_str(), ""]).collect();
        contents(0x80, &[several(&pairs)])
    };
    let numbered = |count, form: &dyn Fn(u32) -> String| -> Vec<String> { (0..count).map(form).collect() };
    let hosts = numbered(4_097, &|number| format!("h{number}.a"));
    world
        .provision(&[application("video", &[domains(&hosts[1..])])])
        .assert_accepted();
    assert_eq!(named(&world, "h77.a", None), [0]);
    let reply = world.provision(&[application("video", &[domains(&hosts)])]);
    assert_eq!(reply.cause(), full);
    let expressions = numbered(33, &|number| format!("^h{number}$"));
    let with = |id: &str, count: usize| application(id, &[domains(&expressions[..count])]);
    assert_eq!(
        world.provision(&[with("a", 33)]).cause(),
        full,
        "in an application"
    );
    let ids: Vec<String> = (0..33).map(|number| number.to_string()).collect();
    let many: Vec<_> = ids[..5].iter().map(|id| with(id, 32)).collect();
    assert_eq!(world.provision(&many).cause(), full, "in a request");
    for four in ids[..32].chunks(4) {
        let four: Vec<_> = four.iter().map(|id| with(id, 32)).collect();
        world.provision(&four).assert_accepted();
    }
    assert_eq!(world.provision(&[with("32", 1)]).cause(), full, "in all");
    world
        .provision(&[application("0", &[flow(TO_VIDEO)]), with("32", 1)])
        .assert_accepted();
    let long = application(&"x".repeat(257), &[flow(TO_VIDEO)]);
    let reply = world.provision(&[long]);
    assert_eq!(
        reply.verdict(),
        because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::APPLICATION_ID))
    );
}

/// Sessions are compared by what they share with the application.
#[test]
fn what_says_the_same_again_changes_nothing() {
    let mut world = inspecting();
    let pfds = || {
        application(
            "video",
            &[contents(0x04, &[counted(b"music.example")]), flow(TO_VIDEO)],
        )
    };
    world.provision(&[pfds()]).assert_accepted();
    let own = |world: &World| {
        let pdrs = world.only_session().rules().pdrs();
        let application = pdrs[0].pdi.optional.application.as_ref().expect("an application");
        Arc::clone(&application.named)
    };
    let before = own(&world);
    world.provision(&[pfds()]).assert_accepted();
    world
        .ask(50, Some(0), &session(2, Ipv4Addr::new(10, 45, 0, 9)))
        .up_seid();
    for session in world.n4.sessions().iter() {
        let application = session.rules().pdrs()[0].pdi.optional.application.as_ref();
        assert!(Arc::ptr_eq(&application.expect("an application").named, &before));
    }
}

#[test]
fn applications_and_their_flows_are_bounded() {
    let mut world = World::associated();
    let flows = |count| vec![flow(TO_VIDEO); count];
    let full = Some(Cause::NO_RESOURCES_AVAILABLE);
    assert_eq!(world.provision(&[application("a", &flows(257))]).cause(), full);
    world
        .provision(&[application("a", &flows(256))])
        .assert_accepted();
    for first in (1..4_096).step_by(65) {
        let many: Vec<_> = (first..first + 65)
            .map(|number| application(&number.to_string(), &flows(1)))
            .collect();
        world.provision(&many).assert_accepted();
    }
    let reply = world.provision(&[application("one more", &flows(1))]);
    assert_eq!(reply.cause(), full);
    world.provision(&[application("1", &flows(2))]).assert_accepted();
    world.provision(&[]).assert_accepted();
    world
        .provision(&[application("one more", &flows(1))])
        .assert_accepted();
}

#[test]
fn unauthorised_peers_provision_nothing() {
    let mut world = World::new();
    let reply = world.provision(&[]);
    assert_eq!(reply.cause(), Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION));
    world.associate();
    let unknown = node_v4(Ipv4Addr::new(10, 100, 0, 77));
    let reply = world.provision(&[unknown]);
    assert_eq!(reply.cause(), Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION));
    world.provision(&[node_v4(SMF_ADDRESS)]).assert_accepted();
}

#[test]
fn a_request_that_was_read_before_a_change_ends_with_the_applications_of_after_it() {
    let mut world = World::associated();
    world
        .provision(&[application("video", &[flow(TO_VIDEO)])])
        .assert_accepted();
    let now = world.now;
    let establishment = message(50, Some(0), 0x1001, &session(1, UE));
    world.n4.handle_datagram(now, smf(), upf(), &establishment);
    let change = message(3, None, 0x1002, &[application("video", &[flow(TO_OTHER)])]);
    world.n4.handle_datagram(now, smf(), upf(), &change);
    assert_eq!(world.run().len(), 2);
    assert_eq!(world.reaches(), [NO, YES]);
}

#[test]
fn many_sessions_follow_in_turn() {
    let mut world = World::associated();
    world
        .provision(&[application("video", &[flow(TO_VIDEO)])])
        .assert_accepted();
    for number in 0..600u16 {
        let [a, b] = number.to_be_bytes();
        world
            .ask(
                50,
                Some(0),
                &session(u64::from(number), Ipv4Addr::new(10, 45, a, b)),
            )
            .up_seid();
    }
    let change = message(3, None, 0x1002, &[application("video", &[flow(TO_OTHER)])]);
    world.n4.handle_datagram(world.now, smf(), upf(), &change);
    assert!(world.n4.sessions().count().ops <= 256);
    let replies = world.run();
    assert!(matches!(replies[0].message(), Message::PfdManagementResponse(_)));
    world.pass(Duration::from_secs(2));
    for session in world.n4.sessions().iter() {
        let application = session.rules().pdrs()[0]
            .pdi
            .optional
            .application
            .clone()
            .unwrap();
        assert_eq!(application.flows[..], [TO_OTHER.parse().unwrap()]);
    }
    assert_eq!(world.n4.counters().stale_applications, 0);
}

/// A URR of events that reports every second one, and its PDRs.
fn counts_events(pdrs: &[u16]) -> Vec<Octets> {
    let eveth_evequ = [0, 0x30, 0];
    let threshold = ie(149, 2u32.to_be_bytes());
    let urr = create_urr(&[urr_id(7), method(4), triggers(&eveth_evequ), threshold]);
    let pdrs = pdrs.iter().map(|id| update_pdr(&[pdr_id(*id), urr_id(7)]));
    std::iter::once(urr).chain(pdrs).collect()
}

/// With events of video, if they are configured.
fn with_events(configured: bool) -> (World, u64) {
    let network = Arc::unwrap_or_clone(fleet::network());
    let logic = rules::network::EventLogic::TCP_CONNECTION;
    let events = configured.then(|| (b"video".as_slice().into(), logic));
    let network = network.with_events(events.into_iter().collect()).unwrap();
    let mut world = World::with_network(World::config(2), Arc::new(network));
    world.associate();
    let video = application("video", &[flow(TO_VIDEO)]);
    world.provision(&[video]).assert_accepted();
    let seid = world.ask(50, Some(0), &session(1, UE)).up_seid();
    (world, seid)
}

#[test]
fn events_are_counted_of_applications_that_have_some_and_of_nothing_else() {
    let urr = Some(FailedRuleId::Urr(pfcp::ie::UrrId(7)));
    let refused = because(REFUSED, Some(IeType::MEASUREMENT_METHOD));
    for (configured, pdrs) in [(true, &[1, 3][..]), (false, &[1])] {
        let (mut world, seid) = with_events(configured);
        let before = world.only_session().rules().clone();
        let reply = world.ask(52, Some(seid), &counts_events(pdrs));
        assert_eq!((reply.verdict(), reply.failed_rule()), (refused, urr));
        assert_eq!(world.only_session().rules(), &before);
    }
    let (mut world, seid) = with_events(true);
    world
        .ask(52, Some(seid), &counts_events(&[1, 2]))
        .assert_accepted();
    // It would have events of what no application is.
    let without = update_pdr(&[pdr_id(3), urr_id(7)]);
    let reply = world.ask(52, Some(seid), &[without]);
    assert_eq!((reply.verdict(), reply.failed_rule()), (refused, urr));
    // Bounds of what it does not measure, and of nothing.
    for (wrong, offending) in [
        (
            ie(31, [&[1][..], &9u64.to_be_bytes()].concat()),
            IeType::VOLUME_THRESHOLD,
        ),
        (ie(149, 0u32.to_be_bytes()), IeType::EVENT_THRESHOLD),
    ] {
        let reply = world.ask(52, Some(seid), &[group(13, &[urr_id(7), wrong])]);
        assert_eq!(reply.verdict(), because(REFUSED, Some(offending)));
    }
}

#[test]
fn each_threshold_of_events_has_a_report_with_a_time_and_no_volume() {
    let (mut world, seid) = with_events(true);
    world
        .ask(52, Some(seid), &counts_events(&[1, 2]))
        .assert_accepted();
    let index = world.only_session().index();
    let five = flow::UrrCount {
        ul_packets: 9,
        ul_octets: 900,
        events: 5,
        ..flow::UrrCount::default()
    };
    let urr = rules::model::UrrId(7);
    world.fleet.count(index, urr, five);
    let reached = |limits| flow::Reached {
        watermark: true,
        limits,
        ..flow::Reached::NOTHING
    };
    // The worker reports it once more under each new set of bounds, until they are not reached.
    let mut reports = Vec::new();
    for _ in 0..2 {
        let now = world.now;
        world
            .n4
            .handle_counter_reached(now, index, counter_reached((urr, five), reached(0)));
        for sent in world.run() {
            let request = sent.session_report();
            for one in request.usage_report.iter() {
                assert_eq!(one.usage_report_trigger, UsageReportTrigger::EVETH);
                assert_eq!((one.volume_measurement, one.duration_measurement), (None, None));
                reports.push((one.ur_seqn.0, one.event_time_stamp.iter().count()));
            }
            assert!(world.accept(&sent).is_empty());
        }
        world.pass(Duration::from_secs(2));
    }
    assert_eq!(reports, [(0, 1), (1, 1)], "of two events each");
    // One is left, and a quota of one is used up with it.
    let quota = group(13, &[urr_id(7), ie(148, 1u32.to_be_bytes())]);
    world.ask(52, Some(seid), &[quota]).assert_accepted();
    let now = world.now;
    world
        .n4
        .handle_counter_reached(now, index, counter_reached((urr, five), reached(8)));
    let sent = world.run();
    let request = sent[0].session_report();
    let one = request.usage_report.first().unwrap();
    assert_eq!(one.usage_report_trigger, UsageReportTrigger::EVEQU);
    assert_eq!((one.ur_seqn.0, one.event_time_stamp.iter().count()), (2, 1));
}

/// The session reports of the start and the stop of an application with these flows: PDRs `pdrs` have URR 7, the URR
/// has the flags `information` of Measurement Information, and one packet of 60 octets is counted.
fn start_and_stop_reports(flows: &[Octets], pdrs: &[u16], information: u8) -> [Reply; 2] {
    let mut world = World::associated();
    world.provision(&[application("video", flows)]).assert_accepted();
    let mut ies = session(1, UE);
    let flags = ie(100, [information]);
    ies.push(create_urr(&[
        urr_id(7),
        method(2),
        triggers(&[0x30, 0, 0]),
        flags,
    ]));
    let seid = world.ask(50, Some(0), &ies).up_seid();
    let counted = pdrs.iter().map(|id| update_pdr(&[pdr_id(*id), urr_id(7)]));
    world
        .ask(52, Some(seid), &counted.collect::<Vec<_>>())
        .assert_accepted();
    let index = world.only_session().index();
    let first = flow::UrrCount {
        ul_packets: 1,
        ul_octets: 60,
        ..flow::UrrCount::default()
    };
    let counted = (rules::model::UrrId(7), first);
    world.fleet.count(index, counted.0, first);
    let reached = flow::Reached {
        watermark: true,
        ..flow::Reached::NOTHING
    };
    let now = world.now;
    world
        .n4
        .handle_counter_reached(now, index, counter_reached(counted, reached));
    let mut start = world.run();
    assert_eq!(start.len(), 1);
    assert!(world.accept(&start[0]).is_empty());
    [start.remove(0), world.pass(Duration::from_secs(70)).remove(0)]
}

#[test]
fn the_start_and_the_stop_of_an_application_are_reported_with_its_identifier() {
    let reported = start_and_stop_reports(&[flow(TO_VIDEO)], &[1, 2], 0).map(|reply| {
        let one = reply.session_report().usage_report.first().unwrap();
        let application = one.application_detection_information.unwrap();
        assert_eq!(application.application_id.0, b"video");
        assert_eq!((one.start_time, one.end_time), (None, None));
        let octets = one.volume_measurement.map(|volume| volume.total.unwrap());
        (one.ur_seqn.0, one.usage_report_trigger, octets)
    });
    let stop = (1, UsageReportTrigger::STOPT, Some(60));
    assert_eq!(reported, [(0, UsageReportTrigger::START, None), stop]);
}

/// The instance, the direction and the description of the flow, and the PDR, of a report about an application.
type Flow = (Option<Vec<u8>>, Option<(u8, Vec<u8>)>, Option<u16>);

/// The application in [`start_and_stop_reports`].
fn start_and_stop(flows: &[Octets], pdrs: &[u16], information: u8) -> [Flow; 2] {
    start_and_stop_reports(flows, pdrs, information).map(|reply| {
        let one = reply.session_report().usage_report.first().unwrap();
        let application = one.application_detection_information.unwrap();
        assert_eq!(application.application_id.0, b"video");
        let flow = application
            .flow_information
            .map(|flow| (flow.direction, flow.flow_description.0.to_vec()));
        let instance = application.application_instance_id.map(|id| id.0.to_vec());
        (instance, flow, application.pdr_id.map(|pdr| pdr.0))
    })
}

/// TS 29.244 §5.4.11, Table 7.5.8.3-2: flow and instance at the start "if the traffic flow information is deducible",
/// the instance at the stop if it was reported at the start, and with RADI the Application ID alone.
#[test]
fn the_flow_of_an_application_is_reported_where_it_can_be_no_other() {
    let instance = || Some(vec![0, 0, 0, 7]);
    let as_it_is_kept = b"permit out ip from 198.51.100.7/32 to assigned".to_vec();
    let flow_reported = |direction| Some((direction, as_it_is_kept.clone()));
    let one = [flow(TO_VIDEO)];
    for (pdrs, direction, pdr) in [(&[1, 2][..], 3, None), (&[1], 2, Some(1)), (&[2], 1, Some(2))] {
        let [start, stop] = start_and_stop(&one, pdrs, 0);
        assert_eq!(start, (instance(), flow_reported(direction), pdr));
        assert_eq!(stop, (instance(), None, pdr));
    }
    for reported in start_and_stop(&one, &[1], 0x04) {
        assert_eq!(reported, (None, None, None), "reduced");
    }
    let two = [
        flow(TO_VIDEO),
        flow("permit out 17 from 203.0.113.77 to assigned"),
    ];
    for reported in start_and_stop(&two, &[1, 2], 0) {
        assert_eq!(reported, (None, None, None), "one of two flows");
    }
}
