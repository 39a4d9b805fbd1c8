//! What resolvers answer: for which hosts flows are that do not say it, for how long, and whose answers count.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use dpi::Protocol;
use flow::SessionIndex;
use packet::build::packet::udp;
use packet::checksum;
use packet::tcp::flags::{ACK, SYN};
use rules::model::{AccessAction, AccessList, AccessRule, DetectionPattern, HostRule, SdfFilter, UrrId};
use rules::network::{Hairpin, Network};
use rules::testing::{N3_ADDRESS, UE, tunnelled};
use rules::{IpPrefix, SessionRules};
use worker::{InspectionLimits, ResolverLimits, Stats, WorkerConfig};

use crate::common::World;
use crate::common::first_payloads::{client_hello, query, response, segment};
use crate::common::one_session::{TEID, network_with, session_in};
use crate::inspection::{API, REST, VIDEO, rules_after, rules_where, rules_with};
use crate::recirculation;

const RESOLVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
const HOST: &str = "cdn.video.example";
const SESSION: SessionIndex = SessionIndex(1);

fn resolvers() -> ResolverLimits {
    ResolverLimits {
        prefixes: vec![IpPrefix::host(RESOLVER.into())],
        ..ResolverLimits::default()
    }
}

/// A worker with a session, and the ports of its UE.
struct Case {
    world: World,
    /// That of what asks resolvers, and of connections.
    asking: u16,
    port: u16,
}

impl Case {
    fn new() -> Self {
        Self::with(rules_with("*.video.example"), |_| ())
    }

    fn with(rules: SessionRules, configure: impl Fn(&mut WorkerConfig)) -> Self {
        Self::in_network(rules::testing::network(), rules, configure)
    }

    fn in_network(network: Network, rules: SessionRules, configure: impl Fn(&mut WorkerConfig)) -> Self {
        let mut world = World::with(network, 1, |config| {
            config.inspection = InspectionLimits::default();
            config.resolvers = resolvers();
            configure(config);
        });
        world.install(1, rules);
        Self {
            world,
            asking: 50_000,
            port: 40_000,
        }
    }

    /// Sends a packet of the UE; whether it passes.
    fn send(&mut self, packet: &[u8]) -> bool {
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], packet);
        self.world.send(0, &packet).len() == 1
    }

    fn up(&mut self, flags: u8, payload: &[u8]) -> bool {
        let sequence = if flags & SYN == 0 { 1_001 } else { 1_000 };
        let ends = ((UE, self.port), (SERVER, 443));
        self.send(&segment(ends.0, ends.1, (sequence, flags), payload))
    }

    fn down(&mut self, flags: u8, payload: &[u8]) -> bool {
        let packet = segment((SERVER, 443), (UE, self.port), (77, flags), payload);
        self.world.send(1, &packet).len() == 1
    }

    fn ask_at(&mut self, resolver: Ipv4Addr, name: &str) -> bool {
        self.ask(resolver, &query(name))
    }

    fn ask(&mut self, resolver: Ipv4Addr, message: &[u8]) -> bool {
        let from = SocketAddr::from((UE, self.asking));
        let to = SocketAddr::from((resolver, 53));
        self.send(&udp(from, to, message).expect("a packet"))
    }

    fn answer_from(&mut self, from: (Ipv4Addr, u16), message: &[u8]) -> bool {
        let to = SocketAddr::from((UE, self.asking));
        let packet = udp(SocketAddr::from(from), to, message).expect("a packet");
        self.world.send(1, &packet).len() == 1
    }

    /// The UE asks for a name, and is given the server's address for it.
    fn resolve(&mut self, name: &str, ttl_s: u32) {
        assert!(self.ask_at(RESOLVER, name));
        assert!(self.answer_from((RESOLVER, 53), &response(name, ttl_s, &[SERVER])));
    }

    fn wait(&mut self, seconds: u64) {
        self.world.now = self.world.now + Duration::from_secs(seconds);
        self.world.poll();
    }

    /// What is counted for video, API, and the rest: octets both ways.
    fn octets(&mut self) -> [u64; 3] {
        let usage = self.world.query(0, SESSION);
        [VIDEO, API, REST].map(|id: UrrId| {
            let count = usage.counters.iter().find(|(own, _)| *own == id);
            let (_, count) = count.expect("it counts");
            count.ul_octets + count.dl_octets
        })
    }

    /// Whether a new connection's SYN counts as video.
    fn is_video(&mut self) -> bool {
        self.port += 1;
        let before = self.octets();
        assert!(self.up(SYN, &[]));
        let after = self.octets();
        assert_eq!(after[0] + after[2], before[0] + before[2] + 40);
        after[0] > before[0]
    }

    fn stats(&self) -> &Stats {
        self.world.workers[0].stats()
    }

    fn flows(&self) -> usize {
        self.world.workers[0].holdings().flows
    }
}

#[test]
fn a_flow_that_says_nothing_is_for_the_name_of_its_address_from_its_first_packet_on() {
    let mut case = Case::new();
    assert!(!case.is_video());
    case.resolve(HOST, 300);
    assert_eq!(
        (case.stats().addresses_bound, case.stats().addresses_refused),
        (1, 0)
    );
    case.port += 1;
    let before = case.octets();
    assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]) && case.up(ACK, &[]));
    for _ in 0..20 {
        assert!(case.up(ACK, &[1; 60]) && case.down(ACK, &[2; 60]));
    }
    let after = case.octets();
    assert_eq!([after[0] - before[0], after[2] - before[2]], [120 + 20 * 200, 0]);
    let looked_at = case.stats().inspected;
    assert!(case.up(ACK, &[1; 60]) && case.down(ACK, &[2; 60]));
    assert_eq!(case.stats().inspected, looked_at, "it is decided");
    case.world.assert_conserved();
}

#[test]
fn a_datagram_to_the_address_counts_as_the_name() {
    let mut case = Case::new();
    case.resolve(HOST, 300);
    let before = case.octets();
    let (from, to) = (SocketAddr::from((UE, 7_000)), SocketAddr::from((SERVER, 7_001)));
    assert!(case.send(&udp(from, to, &[9; 72]).expect("a packet")));
    let back = udp(to, from, &[9; 72]).expect("a packet");
    assert_eq!(case.world.send(1, &back).len(), 1);
    assert_eq!(case.octets()[0], before[0] + 200);
}

#[test]
fn what_the_client_names_counts_more() {
    let mut case = Case::new();
    case.resolve(HOST, 300);
    case.port += 1;
    assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
    let before = case.octets();
    let hello = client_hello("www.example");
    assert!(case.up(ACK, &hello) && case.down(ACK, &[0x16; 60]) && case.down(ACK, &[]));
    let after = case.octets();
    assert_eq!(after[0], before[0]);
    assert_eq!(after[2], before[2] + 40 + hello.len() as u64 + 100 + 40);
}

#[test]
fn a_flow_in_which_the_ue_has_sent_nothing_is_for_no_host() {
    let mut case = Case::new();
    case.resolve(HOST, 300);
    case.port += 1;
    let before = case.octets();
    assert!(case.down(SYN, &[]) && case.down(ACK, &[1; 60]));
    assert_eq!(case.octets()[0], before[0]);
}

#[test]
fn an_address_is_kept_for_its_ttl_within_bounds() {
    for (ttl_s, kept, gone) in [(0, 59, 60), (300, 299, 300), (1 << 30, 3_599, 3_600)] {
        let mut case = Case::new();
        case.resolve(HOST, ttl_s);
        case.wait(kept);
        assert!(case.is_video(), "{ttl_s}");
        case.wait(gone - kept);
        assert!(!case.is_video(), "{ttl_s}");
        (0..80).for_each(|_| case.wait(1));
        assert_eq!(case.world.workers[0].holdings().resolved_addresses, 0);
    }
}

/// A query or response with this number and type.
fn with_question(message: &[u8], number: u8, kind: u8) -> Vec<u8> {
    let mut message = message.to_vec();
    let end = 12
        + message[12..]
            .iter()
            .position(|octet| *octet == 0)
            .expect("the root");
    message[1] = number;
    message[end + 2] = kind;
    message
}

/// An alias of a name, and its only address.
fn response_with_alias(name: &str, of: &str, ttls: [u32; 2]) -> Vec<u8> {
    let encoded = |name: &str| query(name)[12..][..name.len() + 2].to_vec();
    let mut message = query(name);
    message[2..4].copy_from_slice(&[0x81, 0x80]);
    message[7] = 2;
    let alias = encoded("alias.example");
    message.extend(encoded(of));
    message.extend([0, 5, 0, 1]);
    message.extend(ttls[0].to_be_bytes());
    message.extend([0, alias.len() as u8]);
    message.extend(&alias);
    message.extend(alias);
    message.extend([0, 1, 0, 1]);
    message.extend(ttls[1].to_be_bytes());
    message.extend([0, 4]);
    message.extend(SERVER.octets());
    message
}

type Act<'a> = &'a dyn Fn(&mut Case);

#[test]
fn an_answer_counts_that_the_ue_has_asked_for_and_a_resolver_gives() {
    let answer = response(HOST, 300, &[SERVER]);
    let other = Ipv4Addr::new(192, 0, 2, 54);
    let cases: [(&str, Act<'_>); 14] = [
        ("no question", &|case| {
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("another name", &|case| {
            assert!(case.ask_at(RESOLVER, "www.example"));
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("another host", &|case| {
            assert!(case.ask_at(other, HOST));
            assert!(case.answer_from((other, 53), &answer));
        }),
        ("another port of the resolver", &|case| {
            assert!(case.ask_at(RESOLVER, HOST));
            assert!(case.answer_from((RESOLVER, 5_353), &answer));
        }),
        ("another port of the UE", &|case| {
            assert!(case.ask_at(RESOLVER, HOST));
            case.asking += 1;
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("no answer", &|case| {
            assert!(case.ask_at(RESOLVER, HOST));
            assert!(case.answer_from((RESOLVER, 53), &query(HOST)));
        }),
        ("another number", &|case| {
            assert!(case.ask(RESOLVER, &with_question(&query(HOST), 9, 1)));
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("another type", &|case| {
            assert!(case.ask(RESOLVER, &with_question(&query(HOST), 0x34, 28)));
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("other letters", &|case| {
            assert!(case.ask_at(RESOLVER, "CDN.video.example"));
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("no query of the UE", &|case| {
            assert!(case.ask(RESOLVER, &answer));
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("a truncated one", &|case| {
            assert!(case.ask_at(RESOLVER, HOST));
            let mut answer = answer.clone();
            answer[2] |= 2;
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("an error", &|case| {
            assert!(case.ask_at(RESOLVER, HOST));
            let mut answer = answer.clone();
            answer[3] |= 3;
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("an alias of another name", &|case| {
            assert!(case.ask_at(RESOLVER, HOST));
            let answer = response_with_alias(HOST, "www.example", [300; 2]);
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
        ("questions too long ago", &|case| {
            for number in [0x34, 1, 2, 3] {
                assert!(case.ask(RESOLVER, &with_question(&query(HOST), number, 1)));
            }
            assert!(case.answer_from((RESOLVER, 53), &answer));
        }),
    ];
    for (what, act) in cases {
        let mut case = Case::new();
        act(&mut case);
        assert_eq!(case.stats().addresses_bound, 0, "{what}");
        assert!(!case.is_video(), "{what}");
    }
}

/// Clients ask for IPv4 and IPv6 addresses at once, in one flow.
#[test]
fn questions_that_wait_at_the_same_time_are_answered_once_each() {
    let mut case = Case::new();
    for (number, kind) in [(1, 1), (2, 28), (3, 65)] {
        assert!(case.ask(RESOLVER, &with_question(&query(HOST), number, kind)));
    }
    let other = Ipv4Addr::new(192, 0, 2, 81);
    for (number, kind, address, bound) in [
        (3, 65, None, 0),
        (2, 28, Some(SERVER), 1),
        (2, 28, Some(other), 1),
        (1, 1, Some(other), 2),
        (1, 1, Some(SERVER), 2),
    ] {
        let answer = response(HOST, 300, address.as_slice());
        assert!(case.answer_from((RESOLVER, 53), &with_question(&answer, number, kind)));
        assert_eq!(case.stats().addresses_bound, bound, "{number} {address:?}");
    }
    case.world.assert_conserved();
}

#[test]
fn an_address_behind_an_alias_is_of_the_name_that_was_asked_for() {
    let mut case = Case::new();
    assert!(case.ask_at(RESOLVER, HOST));
    assert!(case.answer_from((RESOLVER, 53), &response_with_alias(HOST, HOST, [100, 300])));
    assert!(case.is_video());
    case.wait(99);
    assert!(case.is_video());
    case.wait(1);
    assert!(!case.is_video(), "the alias has ended");
}

/// The first fragment of an answer is not read, whatever it holds.
#[test]
fn an_answer_in_fragments_does_not_count() {
    let mut case = Case::new();
    assert!(case.ask_at(RESOLVER, HOST));
    let ends = [(RESOLVER, 53), (UE, case.asking)].map(SocketAddr::from);
    let mut packet = udp(ends[0], ends[1], &response(HOST, 300, &[SERVER])).expect("a packet");
    packet[6] = 0x20;
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    case.world.send(1, &packet);
    assert_eq!(case.stats().addresses_bound, 0);
    assert!(!case.is_video());
}

/// A UE whose address is a resolver's answers another UE.
#[test]
fn what_a_ue_answers_does_not_count() {
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 3);
    let of_ue = |config: &mut WorkerConfig| config.resolvers.prefixes = vec![IpPrefix::host(OTHER.into())];
    let network = recirculation::network(Hairpin::Local);
    let mut case = Case::in_network(network, rules_with("*.video.example"), of_ue);
    case.world
        .install(2, recirculation::pdu_session(OTHER, 0x1002, 0xb1));
    assert!(case.ask_at(OTHER, HOST));
    let ends = [(OTHER, 53), (UE, case.asking)].map(SocketAddr::from);
    let answer = udp(ends[0], ends[1], &response(HOST, 300, &[SERVER])).expect("a packet");
    let answer = tunnelled(N3_ADDRESS, 0x1002, 255, Some([0x10, 9]), &[], &answer);
    assert_eq!(case.world.send(0, &answer).len(), 1, "it passes");
    assert_eq!(case.stats().addresses_bound, 0);
    assert!(case.answer_from((OTHER, 53), &response(HOST, 300, &[SERVER])));
    assert_eq!(case.stats().addresses_bound, 1, "the same from the data network");
}

/// Each answer of a flow of DNS is read, also where other rules or entries have had its packets.
#[test]
fn answers_are_read_whatever_entries_there_are() {
    let of_dns = SdfFilter {
        flow_description: "permit out 17 from any 53 to assigned".parse().ok(),
        ..SdfFilter::default()
    };
    for first in [None, Some(of_dns), Some(SdfFilter::default())] {
        let rules = rules_after("*.video.example", first.clone());
        let mut case = Case::with(rules, |_| ());
        // Entries of other flows.
        assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
        for number in 0..3 {
            case.resolve(&format!("host{number}.example"), 300);
            case.resolve(&format!("host{number}.example"), 300);
        }
        assert_eq!(case.stats().addresses_bound, 6, "{first:?}");
        assert_eq!(case.world.workers[0].holdings().resolved_addresses, 3);
        case.world.assert_conserved();
    }
}

#[test]
fn without_resolvers_nothing_is_otherwise() {
    let open_all = || rules_after("*.video.example", Some(SdfFilter::default()));
    let off = |config: &mut WorkerConfig| config.resolvers.prefixes.clear();
    let mut case = Case::with(rules_with("*.video.example"), off);
    case.resolve(HOST, 300);
    assert!(!case.is_video());
    assert_eq!(case.stats().addresses_bound, 0);
    let mut flows = [0; 2];
    for (number, has_resolvers) in [false, true].into_iter().enumerate() {
        let mut case = Case::with(open_all(), |config| {
            if !has_resolvers {
                off(config);
            }
        });
        for _ in 0..5 {
            case.port += 1;
            assert!(case.up(ACK, &[]) && case.down(ACK, &[]));
        }
        flows[number] = case.flows();
    }
    assert_eq!(
        flows,
        [2, 10],
        "with resolvers each connection has its own entries"
    );
}

#[test]
fn a_session_has_its_share() {
    let few = |config: &mut WorkerConfig| {
        config.resolvers.addresses = 64;
        config.resolvers.per_session = 2;
    };
    let mut case = Case::with(rules_with("*.video.example"), few);
    case.resolve(HOST, 300);
    assert!(case.is_video());
    let others: Vec<Ipv4Addr> = (1..=40)
        .map(|number| Ipv4Addr::new(198, 51, 100, number))
        .collect();
    assert!(case.ask_at(RESOLVER, "many.example"));
    assert!(case.answer_from((RESOLVER, 53), &response("many.example", 300, &others)));
    assert_eq!(case.world.workers[0].holdings().resolved_addresses, 2);
    assert!(!case.is_video(), "what came last pushed it out");
}

#[test]
fn a_session_ends_with_what_it_was_answered() {
    let mut case = Case::new();
    case.resolve(HOST, 3_000);
    case.world
        .apply(0, rules::SessionChange::Remove(SESSION))
        .expect("it is there");
    (0..80).for_each(|_| case.wait(1));
    assert_eq!(case.world.workers[0].holdings().resolved_addresses, 0);
    case.world.install(1, rules_with("*.video.example"));
    assert!(!case.is_video());
}

fn access_rule(name: &str, action: AccessAction) -> AccessRule {
    AccessRule {
        name: name.into(),
        action,
        direction: None,
        filters: Vec::new(),
        detection: DetectionPattern::default(),
    }
}

/// With a rule for video, and behind it one that permits DNS.
fn with_list(video: AccessAction, otherwise: AccessAction) -> Case {
    let hosts = vec![HostRule::parse("*.video.example").expect("a host")];
    let video = AccessRule {
        detection: DetectionPattern::of_hosts(hosts),
        ..access_rule("video", video)
    };
    let dns = AccessRule {
        filters: vec![SdfFilter {
            flow_description: "permit out 17 from any 53 to assigned".parse().ok(),
            ..SdfFilter::default()
        }],
        ..access_rule("dns", AccessAction::Permit)
    };
    let list = AccessList::new("list", vec![video, dns], otherwise).expect("few");
    let network = network_with(list);
    let rules = session_in(&network);
    Case::in_network(network, rules, |_| ())
}

/// What an access list denies shows nothing more: it waits for what the flow shows itself.
#[test]
fn an_access_list_takes_the_name_once_nothing_else_will_be_known() {
    let mut case = with_list(AccessAction::Deny, AccessAction::Permit);
    case.resolve(HOST, 300);
    assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
    assert!(
        case.up(ACK, &client_hello("www.example")),
        "another host behind the same address"
    );
    case.port += 1;
    assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
    assert!(!case.up(ACK, b"SSH-2.0-client\r\n"), "nothing else will be known");
    assert!(!case.down(ACK, b"SSH-2.0-server\r\n"));
    let mut case = with_list(AccessAction::Permit, AccessAction::Deny);
    for is_resolved in [false, true] {
        if is_resolved {
            case.resolve(HOST, 300);
        }
        case.port += 1;
        assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
        assert_eq!(case.up(ACK, b"SSH-2.0-client\r\n"), is_resolved);
        assert_eq!(case.down(ACK, b"SSH-2.0-server\r\n"), is_resolved);
    }
    case.world.assert_conserved();
}

/// An answer that does not reach the UE says nothing.
#[test]
fn an_answer_that_is_denied_does_not_count() {
    let to_ue = AccessRule {
        direction: Some(flow::Direction::Downlink),
        filters: vec![SdfFilter {
            flow_description: "permit out 17 from any 53 to assigned".parse().ok(),
            ..SdfFilter::default()
        }],
        ..access_rule("dns", AccessAction::Deny)
    };
    let hosts = vec![HostRule::parse("bad.example").expect("a host")];
    let asks = AccessRule {
        detection: DetectionPattern::of_hosts(hosts),
        ..access_rule("bad", AccessAction::Deny)
    };
    let list = AccessList::new("list", vec![to_ue, asks], AccessAction::Permit).expect("few");
    let network = network_with(list);
    let rules = session_in(&network);
    let mut case = Case::in_network(network, rules, |_| ());
    assert!(case.ask_at(RESOLVER, HOST));
    assert!(!case.answer_from((RESOLVER, 53), &response(HOST, 300, &[SERVER])));
    assert_eq!(case.stats().addresses_bound, 0);
}

/// What is not looked at of a flow does not pass because of what an answer says, as long as it may show something else.
#[test]
fn a_fragment_of_a_flow_that_may_still_show_a_host_passes_by_no_answer() {
    let mut case = with_list(AccessAction::Permit, AccessAction::Deny);
    case.resolve(HOST, 300);
    assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
    let mut fragment = segment((UE, case.port), (SERVER, 443), (1_001, ACK), &[1; 80]);
    fragment[6] = 0x20;
    fragment[10..12].fill(0);
    let sum = checksum::of(&fragment[..20]);
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    assert!(!case.send(&fragment));
    assert!(case.up(ACK, b"SSH-2.0-client\r\n"));
    case.world.assert_conserved();
}

/// What a list denies is not asked.
#[test]
fn a_question_that_is_denied_is_answered_by_nobody() {
    let hosts = vec![HostRule::parse("denied.example").expect("a host")];
    let denied = AccessRule {
        detection: DetectionPattern {
            protocols: [Protocol::Dns].into_iter().collect(),
            ..DetectionPattern::of_hosts(hosts)
        },
        ..access_rule("denied", AccessAction::Deny)
    };
    let list = AccessList::new("list", vec![denied], AccessAction::Permit).expect("few");
    let network = network_with(list);
    let rules = session_in(&network);
    let mut case = Case::in_network(network, rules, |_| ());
    assert!(!case.ask_at(RESOLVER, "denied.example"));
    assert!(case.answer_from((RESOLVER, 53), &response("denied.example", 300, &[SERVER])));
    assert_eq!(case.stats().addresses_bound, 0);
    case.resolve(HOST, 300);
    assert_eq!(case.stats().addresses_bound, 1);
}

/// The rules of a session whose video has to be confirmed.
fn confirmed_rules() -> SessionRules {
    rules_where("*.video.example", None, true)
}

/// What of a connection counts as video: all of its octets, or none.
fn is_hello_video(case: &mut Case, host: &str) -> bool {
    case.port += 1;
    assert!(case.up(SYN, &[]) && case.down(SYN | ACK, &[]));
    let before = case.octets();
    let hello = client_hello(host);
    assert!(case.up(ACK, &hello) && case.down(ACK, &[0x16; 60]));
    let counted = 40 + hello.len() as u64 + 100;
    let after = case.octets();
    assert_eq!(after[0] + after[2], before[0] + before[2] + counted);
    assert!([0, counted].contains(&(after[0] - before[0])));
    after[0] > before[0]
}

#[test]
fn a_host_that_has_to_be_confirmed_counts_at_an_address_that_a_resolver_gave_for_it() {
    let mut case = Case::with(confirmed_rules(), |_| ());
    assert!(!is_hello_video(&mut case, HOST), "the client alone says so");
    case.resolve("www.video.example", 60);
    assert!(!is_hello_video(&mut case, HOST), "another name");
    case.resolve(HOST, 120);
    assert!(is_hello_video(&mut case, HOST));
    assert!(
        is_hello_video(&mut case, "www.video.example"),
        "an address has several"
    );
    assert!(!is_hello_video(&mut case, "other.video.example"));
    assert!(!case.is_video(), "the resolver alone says so");
    case.wait(60);
    assert!(!is_hello_video(&mut case, "www.video.example") && is_hello_video(&mut case, HOST));
    case.wait(60);
    assert!(!is_hello_video(&mut case, HOST));
    case.world.assert_conserved();
}

#[test]
fn what_is_confirmed_once_stays_so_for_its_flow() {
    let mut case = Case::with(confirmed_rules(), |_| ());
    case.resolve(HOST, 60);
    assert!(is_hello_video(&mut case, HOST));
    case.wait(61);
    case.world.tell_all(|| worker::Command::Revalidate);
    let before = case.octets();
    assert!(case.up(ACK, &[1; 60]) && case.down(ACK, &[2; 60]));
    assert_eq!(case.octets()[0], before[0] + 200);
}

#[test]
fn without_resolvers_nothing_is_confirmed() {
    let mut case = Case::with(confirmed_rules(), |config| config.resolvers.prefixes.clear());
    case.resolve(HOST, 300);
    assert!(!is_hello_video(&mut case, HOST));
}
