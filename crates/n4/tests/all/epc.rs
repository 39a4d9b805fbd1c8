//! What is of Sxa and Sxb alone: a user plane function serves SGW-C, PGW-C and SMF alike and cannot tell them apart, so
//! what only one of them sends is understood from all (TS 29.244 §6.2.6.2). Forwarding: golden cases sgw_u, pgw_u.

use crate::support;

use pfcp::IeType;
use pfcp::ie::{Cause, FailedRuleId, QerId};
use rules::model::{self, Precedence, UrrId};

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

#[test]
fn a_urr_is_paused_alone_and_not_with_all_that_are_for_charging() {
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.push(ie(186, [2]));
    assert_eq!(
        world.ask(50, Some(0), &session).verdict(),
        because(Cause::SERVICE_NOT_SUPPORTED, Some(IeType::PFCPSEREQ_FLAGS))
    );
    let seid = world.establish(1, UE);
    let paused = |world: &World| world.only_session().rules().urr(UrrId(1)).unwrap().is_paused();
    for flags in [0x08, 0x10] {
        let reply = world.ask(52, Some(seid), &[ie(49, [flags])]);
        assert_eq!(
            reply.verdict(),
            because(Cause::SERVICE_NOT_SUPPORTED, Some(IeType::PFCPSMREQ_FLAGS))
        );
    }
    assert!(!paused(&world));
    let measure = |flags: u8| group(13, &[urr_id(1), ie(100, [flags])]);
    for (flags, expected) in [(2, true), (0x12, true), (0x10, false), (2, true), (0, false)] {
        world.ask(52, Some(seid), &[measure(flags)]).assert_accepted();
        assert_eq!(paused(&world), expected);
    }
}
