//! Peers whose reference point is configured: what is mandatory there is asked for, and what has no place there is
//! discarded (TS 29.244 §7.2.3.2, §7.6.6, §7.6.9; the column "Appl." of the tables of §7.5).

use crate::support;

use n4::{Interfaces, Peers};
use pfcp::IeType;
use pfcp::ie::{Cause, FailedRuleId, FarId};
use rules::model::{Precedence, QerId};
use rules::prefix::IpPrefix;

use support::wire::*;
use support::*;

const DUPL: u8 = 0x10;

/// The SMF's own address speaks over `interfaces`, and its network over any.
fn speaking(interfaces: Interfaces) -> World {
    let mut config = World::config(2);
    let around: IpPrefix = "10.100.0.0/16".parse().expect("a prefix");
    let own = Peers {
        prefix: IpPrefix::host(SMF_ADDRESS.into()),
        interfaces,
        usage_information: true,
        retain_sessions: false,
    };
    config.peers = vec![own, around.into()];
    let mut world = World::with(config);
    world.associate();
    world
}

fn without_precedence(id: u16) -> Octets {
    create_pdr(&[
        pdr_id(id),
        pdi(&[source_if(ACCESS), choose(V4, None)]),
        outer_header_removal(0),
        far_id(1),
    ])
}

/// Two tunnels, with all that an SGW-U has no use for.
fn sgw_session() -> Vec<Octets> {
    let tunnelled = |id, side, far| {
        create_pdr(&[
            pdr_id(id),
            precedence(7),
            pdi(&[
                source_if(side),
                choose(V4, None),
                ue_ip(side == CORE, UE),
                sdf("permit out ip from 198.51.100.0/24 to assigned"),
                qfi(5),
            ]),
            outer_header_removal(0),
            far_id(far),
            qer_id(1),
        ])
    };
    let onward = |id, side| {
        create_far(&[
            far_id(id),
            apply_action(&[FORW]),
            forwarding(&[destination_if(side), outer_header_creation(id + 40, GNB)]),
        ])
    };
    vec![
        node_v4(SMF_ADDRESS),
        f_seid(1, SMF_ADDRESS.into()),
        tunnelled(1, ACCESS, 1),
        tunnelled(2, CORE, 2),
        onward(1, CORE),
        onward(2, ACCESS),
        create_qer(&[qer_id(1), gate(0, 0), qfi(9)]),
    ]
}

#[test]
fn what_has_no_place_on_sxa_is_discarded_and_counted() {
    let mut world = speaking(Interfaces::SXA);
    world.ask(50, Some(0), &sgw_session()).assert_accepted();
    let rules = world.only_session().rules();
    assert!(rules.qers().is_empty());
    for pdr in rules.pdrs() {
        assert_eq!((pdr.precedence, pdr.qers.len()), (Precedence::LOWEST, 0));
        let pdi = &pdr.pdi;
        assert!(pdi.ue_ip.is_empty() && pdi.sdf_filters.is_empty() && pdi.qfis.is_empty());
        assert!(pdi.f_teid.is_some());
    }
    // The QER, and of each PDR five IEs.
    assert_eq!(world.n4.counters().misplaced_ies, 11);
    let mut both = speaking(Interfaces::SXA_SXB);
    both.ask(50, Some(0), &sgw_session()).assert_accepted();
    // What is of N4 alone: a QFI of each PDI, and the QER's.
    assert_eq!(both.n4.counters().misplaced_ies, 3);
}

#[test]
fn a_qos_flow_has_no_place_on_sxb_and_its_gates_have() {
    let mut world = speaking(Interfaces::SXB);
    let seid = world.establish(1, UE);
    let qer = |world: &World| world.only_session().rules().qer(QerId(1)).cloned().unwrap();
    assert_eq!(qer(&world).qfi, None);
    let update = group(14, &[qer_id(1), gate(1, 0), qfi(3)]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    assert_eq!(qer(&world).qfi, None);
    assert!(qer(&world).gate_ul.is_closed());
    assert_eq!(world.n4.counters().misplaced_ies, 2);
}

#[test]
fn precedence_is_mandatory_but_on_sxa() {
    let missing = |cause| because(cause, Some(IeType::PRECEDENCE));
    for (interfaces, is_needed) in [
        (Interfaces::N4, true),
        (Interfaces::SXB, true),
        (Interfaces::SXA, false),
        (Interfaces::SXA_SXB, false),
        (Interfaces::ANY, false),
    ] {
        let mut world = speaking(interfaces);
        let mut session = plain_session(1, UE);
        session[2] = without_precedence(1);
        if interfaces == Interfaces::SXA {
            session.remove(3);
        }
        let reply = world.ask(50, Some(0), &session);
        if !is_needed {
            reply.assert_accepted();
            continue;
        }
        assert_eq!(reply.verdict(), missing(Cause::MANDATORY_IE_MISSING));
        world.assert_clean();
        let seid = world.establish(1, UE);
        let reply = world.ask(52, Some(seid), &[without_precedence(3)]);
        assert_eq!(reply.verdict(), missing(Cause::CONDITIONAL_IE_MISSING));
        assert_eq!(world.only_session().rules().pdrs().len(), 2);
    }
}

#[test]
fn packets_are_duplicated_over_sxa_and_sxb_alone() {
    let duplicating = create_far(&[
        far_id(7),
        apply_action(&[FORW | DUPL]),
        forwarding(&[destination_if(CORE)]),
        group(5, &[destination_if(CORE), outer_header_creation(9, GNB)]),
    ]);
    for (interfaces, is_done) in [
        (Interfaces::N4, false),
        (Interfaces::SXB, true),
        (Interfaces::SXA_SXB, true),
        (Interfaces::ANY, true),
    ] {
        let mut world = speaking(interfaces);
        let seid = world.establish(1, UE);
        let reply = world.ask(52, Some(seid), std::slice::from_ref(&duplicating));
        if is_done {
            reply.assert_accepted();
            continue;
        }
        let refused = because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::APPLY_ACTION));
        let rule = Some(FailedRuleId::Far(FarId(7)));
        assert_eq!((reply.verdict(), reply.failed_rule()), (refused, rule));
        let switched = update_far(&[far_id(1), apply_action(&[FORW | DUPL])]);
        assert_eq!(world.ask(52, Some(seid), &[switched]).verdict(), refused);
        assert_eq!(world.only_session().rules().fars().len(), 2);
    }
}

#[test]
fn an_operator_sees_which_interfaces_a_peer_speaks_over() {
    for (interfaces, shown) in [
        (Interfaces::N4, "n4"),
        (Interfaces::SXA, "sxa"),
        (Interfaces::SXA_SXB, "sxa, sxb"),
        (Interfaces::ANY, "n4, sxa, sxb"),
    ] {
        let world = speaking(interfaces);
        let association = world.n4.associations().next().unwrap();
        let reported = world.n4.interfaces_of(association);
        assert_eq!((reported, reported.to_string().as_str()), (interfaces, shown));
    }
}
