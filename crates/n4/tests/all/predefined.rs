//! Predefined rules: activated by name and by number, deactivated, and the causes that an SMF receives for wrong
//! requests.

use crate::support;

use std::net::Ipv4Addr;
use std::sync::Arc;

use flow::UrrCount;
use pfcp::IeType;
use pfcp::ie::{self, Cause, FailedRuleId, UpFunctionFeatures};
use pfcp::message::Message;
use rules::Predefined;
use rules::model::PredefinedRule;
use rules::model::{ApplyAction, Far, FarId, PdrId, Precedence, Qer, QerId, SdfFilter, Urr, UrrId};

use support::fleet::network;
use support::traffic::{Fate, downlink};
use support::wire::*;
use support::*;

const FAR: u32 = 0x8000_0001;
const QER: u32 = 0x8000_0001;
const URR: u32 = 0x8000_0001;
const VIDEO: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 5);

fn rule(precedence: u32, flow: Option<&str>) -> PredefinedRule {
    let filter = |text: &str| SdfFilter {
        flow_description: text.parse().ok(),
        ..SdfFilter::default()
    };
    PredefinedRule {
        precedence: Precedence(precedence),
        filters: flow.map(filter).into_iter().collect(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: None,
    }
}

/// "video": packets of 203.0.113.0/24 in QoS flow 5, counted. "blocked": they are dropped where the PDR has no FAR.
fn predefined() -> Predefined {
    let far = Far {
        id: FarId(FAR),
        action: ApplyAction::DROP,
        forwarding: None,
        optional: Default::default(),
        bar: None,
    };
    let qer = Qer {
        qfi: packet::Qfi::new(5),
        ..Qer::new(QerId(QER))
    };
    let mut all = Predefined::new([far], [qer], [Urr::volume(UrrId(URR))]).unwrap();
    let video = PredefinedRule {
        qers: vec![QerId(QER)],
        urrs: vec![UrrId(URR)],
        ..rule(10, Some("permit out ip from 203.0.113.0/24 to assigned"))
    };
    all.add(b"video", vec![video.clone()]).unwrap();
    let blocked = PredefinedRule {
        far: Some(FarId(FAR)),
        ..video
    };
    all.add(b"blocked", vec![blocked]).unwrap();
    all.add(b"rest", vec![rule(20, None)]).unwrap();
    all
}

fn world() -> World {
    let mut world = World::with(with_rulebases());
    world.associate();
    world
}

fn activate(name: &str) -> Octets {
    ie(106, name)
}

fn deactivate(name: &str) -> Octets {
    ie(107, name)
}

/// A session with another downlink PDR, before the others, that has these IEs, too.
fn session(world: &mut World, ies: &[Octets]) -> Reply {
    let mut pdr = vec![
        pdr_id(3),
        precedence(50),
        pdi(&[source_if(CORE), ue_ip(true, UE)]),
    ];
    pdr.extend_from_slice(ies);
    let mut request = plain_session(1, UE);
    request.push(create_pdr(&pdr));
    world.ask(50, Some(0), &request)
}

/// What the packets of the two servers become.
fn fates(world: &World) -> [Fate; 2] {
    let session = world.only_session();
    [VIDEO, OTHER].map(|from| downlink(session.rules(), UE, from))
}

fn tunnel(qfi: Option<u8>) -> Fate {
    Fate::Tunnel(0x101, qfi)
}

#[test]
fn what_is_activated_applies_until_it_is_deactivated() {
    let mut world = world();
    let seid = session(&mut world, &[far_id(2), activate("video")]).up_seid();
    assert_eq!(fates(&world), [tunnel(Some(5)), tunnel(Some(9))]);
    let update = |world: &mut World, ies: &[Octets]| {
        let pdr = [&[pdr_id(3)], ies].concat();
        world.ask(52, Some(seid), &[update_pdr(&pdr)])
    };
    update(&mut world, &[activate("rest")]).assert_accepted();
    assert_eq!(fates(&world), [tunnel(Some(5)), tunnel(None)]);
    // The usage that a predefined URR counted is reported when it goes (TS 29.244 §5.2.2.3.1).
    let reply = update(&mut world, &[deactivate("video")]);
    reply.assert_accepted();
    assert_eq!(fates(&world), [tunnel(None), tunnel(None)]);
    assert!(world.only_session().rules().urr(UrrId(URR)).is_none());
    update(&mut world, &[deactivate("rest"), activate("video")]).assert_accepted();
    assert_eq!(fates(&world), [tunnel(Some(5)), tunnel(Some(9))]);
    let usage = world.ask(54, Some(seid), &[]).usage();
    assert!(usage.iter().any(|(urr, ..)| *urr == URR), "{usage:?}");
    world.assert_clean();
}

#[test]
fn the_far_of_a_rule_is_for_pdrs_without_one() {
    let mut world = world();
    session(&mut world, &[activate("blocked")]).assert_accepted();
    assert_eq!(fates(&world), [Fate::Dropped, tunnel(Some(9))]);
}

#[test]
fn rules_are_used_by_number_and_removed_by_number() {
    let mut world = world();
    let seid = session(&mut world, &[far_id(FAR), qer_id(QER), urr_id(URR)]).up_seid();
    assert_eq!(fates(&world), [Fate::Dropped, Fate::Dropped]);
    let update = update_pdr(&[pdr_id(3), far_id(2)]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    assert_eq!(fates(&world), [tunnel(Some(5)), tunnel(Some(5))]);
    let remove_qer = group(18, &[qer_id(QER)]);
    world.ask(52, Some(seid), &[remove_qer]).assert_accepted();
    assert_eq!(fates(&world), [tunnel(None), tunnel(None)]);
    // Removed by number it reports what it counted.
    let index = world.only_session().index();
    let count = UrrCount {
        dl_packets: 2,
        dl_octets: 300,
        ..UrrCount::default()
    };
    world.fleet.count(index, UrrId(URR), count);
    let reply = world.ask(52, Some(seid), &[group(17, &[urr_id(URR)])]);
    reply.assert_accepted();
    assert_eq!(reply.usage(), [(URR, 0, Some(300))]);
}

#[test]
fn what_is_not_predefined_is_refused_and_changes_nothing() {
    let mut world = world();
    let unknown = Cause::UNKNOWN_PREDEFINED_RULE;
    for ies in [
        [far_id(2), activate("nothing")],
        [far_id(2), activate("")],
        [far_id(2), qer_id(QER + 7)],
        [far_id(2), urr_id(URR + 7)],
        [far_id(FAR + 7), urr_id(1)],
    ] {
        let reply = session(&mut world, &ies);
        assert_eq!(reply.cause(), Some(unknown));
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Pdr(ie::PdrId(3))));
    }
    assert_eq!(world.sessions(), 0);
    let seid = session(&mut world, &[far_id(2), activate("video")]).up_seid();
    let before = world.only_session().rules().clone();
    let reply = world.ask(52, Some(seid), &[update_pdr(&[pdr_id(3), deactivate("nothing")])]);
    assert_eq!(reply.cause(), Some(unknown));
    assert_eq!(*world.only_session().rules(), before);
}

#[test]
fn a_rule_of_a_request_has_no_predefined_number() {
    let mut world = world();
    let seid = world.establish(1, UE);
    let reply = world.ask(52, Some(seid), &[create_qer(&[qer_id(QER), gate(0, 0)])]);
    assert_eq!(reply.cause(), Some(Cause::RULE_CREATION_MODIFICATION_FAILURE));
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Qer(ie::QerId(QER))));
    let far = update_far(&[far_id(FAR), apply_action(&[FORW])]);
    let reply = world.ask(52, Some(seid), &[far]);
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Far(ie::FarId(FAR))));
}

#[test]
fn a_rule_without_any_far_is_refused() {
    let mut world = world();
    let reply = session(&mut world, &[activate("video")]);
    assert_eq!(
        reply.verdict(),
        because(Cause::CONDITIONAL_IE_MISSING, Some(IeType::FAR_ID))
    );
}

#[test]
fn a_pdr_keeps_its_rules_when_it_is_changed() {
    let mut world = world();
    let seid = session(&mut world, &[far_id(2), activate("video"), activate("video")]).up_seid();
    world
        .ask(52, Some(seid), &[update_pdr(&[pdr_id(3), precedence(200)])])
        .assert_accepted();
    let rulebases = |world: &World| {
        world
            .only_session()
            .rules()
            .pdr(PdrId(3))
            .unwrap()
            .rulebases
            .len()
    };
    assert_eq!(rulebases(&world), 1);
    // The PDRs for all packets come first now.
    assert_eq!(fates(&world), [tunnel(Some(9)), tunnel(Some(9))]);
}

#[test]
fn activation_is_announced_where_there_are_rulebases() {
    for (config, is_announced) in [(World::config(2), false), (with_rulebases(), true)] {
        let mut world = World::with(config);
        let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100)]);
        let Message::AssociationSetupResponse(response) = reply.message() else {
            panic!("{reply:?}")
        };
        let features = response.up_function_features.unwrap();
        assert_eq!(features.contains(UpFunctionFeatures::ADPDP), is_announced);
    }
}

fn with_rulebases() -> n4::Config {
    let mut config = World::config(2);
    config.sessions.predefined = Arc::new(predefined());
    config
}

/// What is predefined in a later configuration: "video" is of other packets and another QoS flow, "blocked" is gone.
fn changed() -> Predefined {
    let qer = Qer {
        qfi: packet::Qfi::new(6),
        ..Qer::new(QerId(QER))
    };
    let mut all = Predefined::new([], [qer], [Urr::volume(UrrId(URR))]).unwrap();
    let video = PredefinedRule {
        qers: vec![QerId(QER)],
        urrs: vec![UrrId(URR)],
        ..rule(10, Some("permit out ip from 198.51.100.0/24 to assigned"))
    };
    all.add(b"video", vec![video]).unwrap();
    all.add(b"rest", vec![rule(20, None)]).unwrap();
    all
}

/// Has a configuration take effect, and the sessions follow.
fn reconfigure(world: &mut World, predefined: Predefined) -> session::Recompiled {
    let mut config = world.n4.config().clone();
    let predefined = predefined.succeeding(&config.sessions.predefined).unwrap();
    config.sessions.predefined = Arc::new(predefined);
    world.n4.reconfigure(world.now, &network(), config);
    for _ in 0..200_000 {
        if let Some(all) = world.n4.poll_recompilation(world.now, 4_096) {
            return all;
        }
        world.run();
    }
    panic!("sessions do not follow");
}

#[test]
fn sessions_follow_what_has_changed_of_what_they_activated() {
    let mut world = world();
    let seid = session(&mut world, &[far_id(2), activate("video")]).up_seid();
    let before = world.only_session().rules().urr(UrrId(URR)).cloned();
    let followed = reconfigure(&mut world, changed());
    assert_eq!((followed.changed, followed.failed), (1, 0));
    assert_eq!(fates(&world), [tunnel(Some(9)), tunnel(Some(6))]);
    assert_eq!(
        world.only_session().rules().urr(UrrId(URR)).cloned(),
        before,
        "it counts on"
    );
    // What has not changed is not touched, and the SMF's requests find what there is.
    let again = reconfigure(&mut world, changed());
    assert_eq!((again.changed, again.failed), (0, 0));
    let update = |world: &mut World, ies: &[Octets]| {
        let pdr = [&[pdr_id(3)], ies].concat();
        world.ask(52, Some(seid), &[update_pdr(&pdr)])
    };
    update(&mut world, &[deactivate("video")]).assert_accepted();
    assert_eq!(fates(&world), [tunnel(None), tunnel(None)]);
    assert!(update(&mut world, &[activate("blocked")]).cause() != Some(Cause::REQUEST_ACCEPTED));
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn what_is_removed_is_hidden_and_its_users_are_found() {
    let mut world = world();
    let seid = session(&mut world, &[activate("blocked")]).up_seid();
    let own = Arc::clone(&world.n4.config().sessions.predefined);
    let departing = session::Departing {
        predefined: own.without(&changed()),
        ..Default::default()
    };
    world
        .n4
        .find_names_in(&network(), &Arc::new(own.hiding(&departing.predefined)));
    let search = |world: &World| {
        let mut search = session::Search::default();
        while !world.n4.sessions().search(&mut search, &departing, 4_096) {}
        search.users
    };
    let users = search(&world);
    let blocked = session::Departed::Rulebase(b"blocked"[..].into());
    assert_eq!(users.into_iter().collect::<Vec<_>>(), [(blocked, 1)]);
    let update = |world: &mut World, ies: &[Octets]| {
        let pdr = [&[pdr_id(3)], ies].concat();
        world.ask(52, Some(seid), &[update_pdr(&pdr)])
    };
    update(&mut world, &[far_id(2), deactivate("rest"), activate("video")]).assert_accepted();
    assert!(update(&mut world, &[activate("blocked")]).cause() != Some(Cause::REQUEST_ACCEPTED));
    // All is as it was when the change is given up.
    world.n4.find_names_in(&network(), &own);
    update(&mut world, &[deactivate("blocked")]).assert_accepted();
    assert!(search(&world).is_empty());
    update(&mut world, &[activate("blocked")]).assert_accepted();
    assert_eq!(search(&world).len(), 1);
}
