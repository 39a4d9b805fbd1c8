//! What is of Sxa and Sxb alone: a user plane function serves SGW-C, PGW-C and SMF alike and cannot distinguish them,
//! so what only one of them sends is understood from all (TS 29.244 §6.2.6.2). Forwarding: golden cases sgw_u, pgw_u.

use crate::support;

use pfcp::IeType;
use pfcp::ie::{Cause, FailedRuleId, QerId};
use rules::model::{self, Precedence};

use support::wire::*;
use support::*;

/// By a ToS or Traffic Class, as a TDF does.
fn flow_level_marking() -> Octets {
    ie(97, [1, 0x80, 0xfc])
}

#[test]
fn pdrs_need_no_precedence() {
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session[2] = create_pdr(&[
        pdr_id(1),
        pdi(&[source_if(ACCESS), choose(V4, None)]),
        outer_header_removal(0),
        far_id(1),
    ]);
    world.ask(50, Some(0), &session).assert_accepted();
    assert_eq!(
        world.only_session().rules().pdrs()[0].precedence,
        Precedence::LOWEST
    );
}

/// TS 29.244 §5.4.12, for GERAN.
#[test]
fn a_service_class_comes_changes_and_goes_and_not_beside_a_qos_flow() {
    let class = |octets: [u8; 3]| ie(97, octets);
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.push(create_qer(&[qer_id(2), gate(0, 0), class([2, 0x85, 0])]));
    let seid = world.ask(50, Some(0), &session).up_seid();
    let marked = |world: &World| {
        let qer = world.only_session().rules().qer(model::QerId(2)).unwrap();
        (qer.sci, qer.qfi)
    };
    assert_eq!(marked(&world), (Some(0x85), None));
    let update = |ies: &[Octets]| group(14, &[&[qer_id(2)], ies].concat());
    world
        .ask(52, Some(seid), &[update(&[class([2, 7, 0])])])
        .assert_accepted();
    assert_eq!(marked(&world), (Some(7), None));
    let both = world.ask(52, Some(seid), &[update(&[qfi(5)])]);
    let refused = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::DL_FLOW_LEVEL_MARKING),
    );
    let rule = Some(FailedRuleId::Qer(QerId(2)));
    assert_eq!((both.verdict(), both.failed_rule()), (refused, rule));
    assert_eq!(marked(&world), (Some(7), None));
    world
        .ask(52, Some(seid), &[update(&[ie(97, [])])])
        .assert_accepted();
    assert_eq!(marked(&world), (None, None));
}

#[test]
fn marking_of_downlink_flows_by_dscp_is_refused() {
    let refused = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::DL_FLOW_LEVEL_MARKING),
    );
    let of = |id| Some(FailedRuleId::Qer(QerId(id)));
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.push(create_qer(&[qer_id(2), gate(0, 0), flow_level_marking()]));
    let reply = world.ask(50, Some(0), &session);
    assert_eq!((reply.verdict(), reply.failed_rule()), (refused, of(2)));
    world.assert_clean();

    let seid = world.establish(1, UE);
    let marks = group(14, &[qer_id(1), flow_level_marking()]);
    let reply = world.ask(52, Some(seid), &[marks]);
    assert_eq!((reply.verdict(), reply.failed_rule()), (refused, of(1)));
    let marks_no_more = group(14, &[qer_id(1), ie(97, [])]);
    world.ask(52, Some(seid), &[marks_no_more]).assert_accepted();
}

/// Which of the session's URRs are paused, in the order of their numbers.
fn paused(world: &World) -> Vec<bool> {
    let session = world.only_session();
    let urrs = session.rules().urrs().iter();
    urrs.map(model::Urr::is_paused).collect()
}

fn measure(urr: u32, flags: u8) -> Octets {
    group(13, &[urr_id(urr), ie(100, [flags])])
}

fn create_pausable(urr: u32, flags: u8) -> Octets {
    group(
        6,
        &[urr_id(urr), ie(62, [2]), triggers(&[0, 0, 0]), ie(100, [flags])],
    )
}

#[test]
fn a_urr_is_paused_alone() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    for (flags, expected) in [(2, true), (0x12, true), (0x10, false), (2, true), (0, false)] {
        world.ask(52, Some(seid), &[measure(1, flags)]).assert_accepted();
        assert_eq!(paused(&world), [expected]);
    }
    // "The measurement shall be performed if the bit is set to 0 or if the Measurement Information IE is not present in
    // the Update URR IE" (Table 7.5.4.4-1).
    world.ask(52, Some(seid), &[measure(1, 2)]).assert_accepted();
    world
        .ask(52, Some(seid), &[update_far(&[far_id(2), apply_action(&[FORW])])])
        .assert_accepted();
    assert_eq!(paused(&world), [true], "another rule's update");
    let update = group(13, &[urr_id(1), triggers(&[2, 0])]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    assert_eq!(paused(&world), [false]);
}

/// TS 29.244 §5.30: SUMPC and RUMUC for all that have ASPOC, CIAM with INAM for one.
#[test]
fn charging_is_paused_for_all_that_are_for_it_and_for_one() {
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.push(create_pausable(2, 0x40));
    session.push(create_pausable(3, 0xc2));
    // Without CIAM a rule for charging begins with measuring, whatever INAM says.
    session.push(create_pausable(4, 0x42));
    let seid = world.ask(50, Some(0), &session).up_seid();
    assert_eq!(paused(&world), [false, false, true, false]);
    let mut modify = |ies: &[Octets], expected: [bool; 4]| {
        world.ask(52, Some(seid), ies).assert_accepted();
        assert_eq!(paused(&world), expected, "{ies:?}");
    };
    let (stop, resume) = (ie(49, [0x08]), ie(49, [0x10]));
    modify(std::slice::from_ref(&stop), [false, true, true, true]);
    modify(&[measure(2, 0x40)], [false, true, true, true]);
    modify(&[measure(2, 0xc0)], [false, false, true, true]);
    modify(&[measure(2, 0x42)], [false, false, true, true]);
    modify(
        &[group(13, &[urr_id(3), triggers(&[2, 0])])],
        [false, false, true, true],
    );
    modify(&[measure(2, 0xc2)], [false, true, true, true]);
    modify(std::slice::from_ref(&resume), [false; 4]);
    // The flags of the request have the last word; one that is for charging no more does as INAM says.
    modify(&[stop.clone(), measure(2, 0xc0)], [false, true, true, true]);
    modify(&[measure(2, 0x02), resume.clone()], [false, true, false, false]);
    modify(&[measure(1, 0x02), stop.clone()], [true, true, true, true]);
    modify(&[resume, measure(3, 0xc2)], [true, true, false, false]);
    let both = world.ask(52, Some(seid), &[ie(49, [0x18])]).verdict();
    assert_eq!(
        both,
        because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::PFCPSMREQ_FLAGS))
    );
    assert_eq!(paused(&world), [true, true, false, false]);
}

#[test]
fn a_session_is_set_up_with_charging_paused() {
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.extend([create_pausable(2, 0x40), create_pausable(3, 0xc0), ie(186, [2])]);
    let seid = world.ask(50, Some(0), &session).up_seid();
    assert_eq!(paused(&world), [false, true, true]);
    // A rule that comes later measures from the beginning.
    world
        .ask(52, Some(seid), &[create_pausable(4, 0x40)])
        .assert_accepted();
    assert_eq!(paused(&world), [false, true, true, false]);
}

/// A worker reports a Tunnel Status: all that are for charging stop, no report comes, and counts are kept.
#[test]
fn the_node_downstream_pauses_charging() {
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.push(create_pausable(2, 0x40));
    let seid = world.ask(50, Some(0), &session).up_seid();
    let index = world.only_session().index();
    for _ in 0..2 {
        world.n4.handle_pause_of_charging(world.now, index);
        assert!(world.run().is_empty());
        assert_eq!(paused(&world), [false, true]);
    }
    world.ask(52, Some(seid), &[ie(49, [0x10])]).assert_accepted();
    assert_eq!(paused(&world), [false, false]);
    // It comes while a request is under way, and has effect behind it.
    let sequence = world.next_sequence();
    let request = message(52, Some(seid), sequence, &[ie(49, [0x10])]);
    world.n4.handle_datagram(world.now, smf(), upf(), &request);
    world.n4.handle_pause_of_charging(world.now, index);
    world.n4.handle_pause_of_charging(world.now, index);
    world.run();
    assert_eq!(paused(&world), [false, true]);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.n4.handle_pause_of_charging(world.now, index);
    world.assert_clean();
}
