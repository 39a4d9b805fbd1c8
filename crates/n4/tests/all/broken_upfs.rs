//! Messages that broke other user planes, from their public issue trackers: each must be survived, answered with the
//! right cause, and leave nothing behind.

use crate::support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use n4::Config;
use pfcp::IeType;
use pfcp::ie::{self, Cause, FailedRuleId};
use rules::model::{QerId, UrrId};

use support::traffic::{Fate, downlink, uplink};
use support::wire::*;
use support::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);

fn not_found() -> (u8, Option<u16>) {
    because(Cause::SESSION_CONTEXT_NOT_FOUND, None)
}

fn rule_failure() -> (u8, Option<u16>) {
    because(Cause::RULE_CREATION_MODIFICATION_FAILURE, None)
}

#[test]
fn free5gc_798_a_create_pdr_without_its_mandatory_ies_in_a_modification() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    for (ies, missing) in [
        (create_pdr(&[]), IeType::PDR_ID),
        (create_pdr(&[pdr_id(3)]), IeType::PDI),
        (create_pdr(&[pdr_id(3), pdi(&[])]), IeType::SOURCE_INTERFACE),
        (
            create_pdr(&[precedence(1), pdi(&[source_if(ACCESS)]), far_id(1)]),
            IeType::PDR_ID,
        ),
    ] {
        let reply = world.ask(52, Some(seid), std::slice::from_ref(&ies));
        assert_eq!(
            reply.verdict(),
            because(Cause::CONDITIONAL_IE_MISSING, Some(missing)),
            "{ies:02x?}"
        );
    }
    let no_far = create_pdr(&[
        pdr_id(3),
        precedence(1),
        pdi(&[source_if(ACCESS), choose(V4, None)]),
    ]);
    let verdict = world.ask(52, Some(seid), &[no_far]).verdict();
    assert_eq!(
        verdict,
        because(Cause::CONDITIONAL_IE_MISSING, Some(IeType::FAR_ID))
    );
    assert_eq!(world.only_session().rules().pdrs().len(), 2);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn free5gc_799_an_update_pdr_of_an_unknown_id() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let update = update_pdr(&[pdr_id(999), precedence(1), pdi(&[source_if(ACCESS)])]);
    let reply = world.ask(52, Some(seid), &[update]);
    assert_eq!(
        (reply.verdict(), reply.failed_rule()),
        (rule_failure(), Some(FailedRuleId::Pdr(ie::PdrId(999))))
    );
}

#[test]
fn free5gc_800_a_query_urr_of_an_unknown_id() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let reply = world.ask(52, Some(seid), &[group(77, &[urr_id(999)])]);
    assert_eq!(
        (reply.verdict(), reply.failed_rule()),
        (rule_failure(), Some(FailedRuleId::Urr(ie::UrrId(999))))
    );
    let reply = world.ask(52, Some(seid), &[group(77, &[])]);
    assert_eq!(
        reply.verdict(),
        because(Cause::CONDITIONAL_IE_MISSING, Some(IeType::URR_ID))
    );
}

#[test]
fn free5gc_802_a_modification_of_an_unknown_seid() {
    let mut world = World::associated();
    let reply = world.ask(
        52,
        Some(0x1234_5678),
        &[update_far(&[far_id(1), apply_action(&[DROP])])],
    );
    assert_eq!(reply.verdict(), not_found());
    assert_eq!(reply.header().seid, Some(pfcp::Seid(0)));
}

#[test]
fn free5gc_483_496_746_a_deletion_with_seid_0() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    assert_eq!(world.ask(54, Some(0), &[]).verdict(), not_found());
    assert_eq!(world.sessions(), 1);
    world.ask(54, Some(seid), &[]).assert_accepted();
    assert_eq!(
        world.ask(54, Some(seid), &[]).verdict(),
        not_found(),
        "deleted twice"
    );
}

#[test]
fn open5gs_3497_3964_ie_lengths_that_lie() {
    let mut world = World::associated();
    let good = plain_session(1, UE);
    let whole = message(50, Some(0), 1, &good);
    let ie_starts: Vec<usize> = (0..good.len()).map(|n| 16 + good[..n].concat().len()).collect();
    for (number, start) in ie_starts.iter().enumerate() {
        for length in [0xffff, 0x7fff, (whole.len() - start - 3) as u16] {
            let mut lying = whole.clone();
            lying[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
            lying[13..16].copy_from_slice(&(1000 + number as u32 * 10).to_be_bytes()[1..]);
            lying[12] = length as u8;
            let reply = world.datagram(&lying);
            assert_eq!(
                reply.verdict().0,
                Cause::INVALID_LENGTH.value(),
                "IE {number}, length {length}"
            );
        }
    }
    world.assert_clean();
}

#[test]
fn open5gs_4152_4153_4154_grouped_ies_cut_anywhere() {
    let mut world = World::associated();
    let pdr = uplink_pdr(1, UE, choose(V4, None));
    for cut in 5..pdr.len() {
        let mut ies = plain_session(1, UE);
        let mut short = pdr[..cut].to_vec();
        short[2..4].copy_from_slice(&((cut - 4) as u16).to_be_bytes());
        ies[2] = short;
        let reply = world.ask(50, Some(0), &ies);
        if let Some(seid) = reply
            .cause()
            .filter(|cause| cause.is_accepted())
            .map(|_| reply.up_seid())
        {
            world.ask(54, Some(seid), &[]).assert_accepted();
        }
    }
    world.assert_clean();
}

#[test]
fn open5gs_4181_4423_unknown_types_and_unsolicited_responses() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let known = [1, 3, 5, 7, 9, 14, 16, 50, 52, 54];
    for message_type in (0..=255).filter(|message_type| !known.contains(message_type)) {
        for seid in [None, Some(0), Some(seid)] {
            let bare = message(message_type, seid, 7, &[]);
            assert_eq!(world.send(smf(), &bare), [], "message type {message_type}");
            let with_cause = message(
                message_type,
                seid,
                7,
                &[node_v4(SMF_ADDRESS), ie(19, [1]), ie(39, [0xff])],
            );
            assert_eq!(world.send(smf(), &with_cause), [], "message type {message_type}");
        }
    }
    assert_eq!(world.sessions(), 1);
}

#[test]
fn open5gs_4699_a_session_report_is_not_for_a_user_plane() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let report = message(56, Some(seid), 9, &[ie(39, [1]), group(83, &[pdr_id(999)])]);
    assert_eq!(world.send(smf(), &report), []);
    assert_eq!(world.n4.counters().unexpected, 1);
}

#[test]
fn omec_895_an_association_setup_without_optional_ies() {
    let mut world = World::new();
    world
        .ask(5, None, &[node_v4(SMF_ADDRESS), recovery(1)])
        .assert_accepted();
    let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS)]);
    assert_eq!(reply.cause(), Some(Cause::MANDATORY_IE_MISSING));
    let reply = world.ask(5, None, &[]);
    assert_eq!(reply.cause(), Some(Cause::MANDATORY_IE_MISSING));
}

#[test]
fn omec_937_an_empty_establishment() {
    let mut world = World::associated();
    let reply = world.ask(50, Some(0), &[]);
    assert_eq!(
        reply.verdict(),
        because(Cause::MANDATORY_IE_MISSING, Some(IeType::NODE_ID))
    );
    assert_eq!(reply.header().seid, Some(pfcp::Seid(0)));
    let reply = world.ask(
        50,
        Some(0),
        &[node_v4(SMF_ADDRESS), f_seid(5, IpAddr::V4(SMF_ADDRESS))],
    );
    assert_eq!(
        reply.verdict(),
        because(Cause::MANDATORY_IE_MISSING, Some(IeType::CREATE_PDR))
    );
    assert_eq!(reply.header().seid, Some(pfcp::Seid(5)));
    world.assert_clean();
}

#[test]
fn eupf_630_sdf_filters_that_break_parsers() {
    let mut world = World::associated();
    let with_filter = |filter: Octets| {
        let mut ies = plain_session(1, UE);
        ies[2] = create_pdr(&[
            pdr_id(1),
            precedence(1),
            pdi(&[source_if(ACCESS), choose(V4, None), filter]),
            far_id(1),
        ]);
        ies
    };
    let bad = because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::SDF_FILTER));
    for text in [
        "permit",
        "permit out",
        "permit out ip",
        "permit out ip from",
        "permit out ip from any to",
        "deny out ip from any to any",
        "permit out ip from !10.0.0.0/8 to any",
        "permit out ip from 10.0.0.0/33 to any",
        "permit out ip from any to assigned 99999",
        "permit out 6 from any 80,,90 to any",
        "permit out 6 from any 90-80 to any",
        "permit out 256 from any to any",
        "permit out ip from any to any frag",
        "\u{0}\u{0}\u{0}",
        "permit out ip from ::1/129 to any",
        "é",
    ] {
        assert_eq!(
            world.ask(50, Some(0), &with_filter(sdf(text))).verdict(),
            bad,
            "{text:?}"
        );
    }
    let lying = ie(23, [1, 0, 0xff, 0xff, b'p']);
    let verdict = world.ask(50, Some(0), &with_filter(lying)).verdict();
    assert_eq!(verdict, because(Cause::INVALID_LENGTH, Some(IeType::SDF_FILTER)));
    world.assert_clean();
}

#[test]
fn eupf_537_an_empty_sdf_filter_and_one_that_is_only_an_id() {
    let mut world = World::associated();
    let filtered = |id: u16, source, filter| {
        create_pdr(&[
            pdr_id(id),
            precedence(1),
            pdi(&[
                source_if(source),
                if source == ACCESS {
                    choose(V4, None)
                } else {
                    ue_ip(true, UE)
                },
                filter,
            ]),
            far_id(u32::from(id)),
        ])
    };
    let mut ies = plain_session(1, UE);
    ies[2] = filtered(1, ACCESS, ie(23, [0, 0]));
    let reply = world.ask(50, Some(0), &ies);
    let (seid, teid) = (reply.up_seid(), reply.created()[0].1);
    let rules = world.only_session().rules().clone();
    assert_ne!(
        uplink(&rules, teid, UE, SERVER, 9),
        Fate::Dropped,
        "says nothing, forbids nothing"
    );
    world.ask(54, Some(seid), &[]).assert_accepted();

    ies[2] = filtered(1, ACCESS, sdf_id(7));
    let reply = world.ask(50, Some(0), &ies);
    let undefined = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::SDF_FILTER),
    );
    assert_eq!(
        (reply.verdict(), reply.failed_rule()),
        (undefined, Some(FailedRuleId::Pdr(ie::PdrId(1))))
    );

    let text = b"permit out 17 from 8.8.8.8 to assigned";
    let defining = ie(
        23,
        [&[0x11, 0, 0, text.len() as u8][..], text, &7u32.to_be_bytes()].concat(),
    );
    ies[3] = filtered(2, CORE, defining);
    let reply = world.ask(50, Some(0), &ies);
    let teid = reply.created()[0].1;
    let rules = world.only_session().rules().clone();
    assert_ne!(
        uplink(&rules, teid, UE, SERVER, 9),
        Fate::Dropped,
        "the filter of the downlink, turned round"
    );
    assert_eq!(
        uplink(&rules, teid, UE, Ipv4Addr::new(1, 1, 1, 1), 9),
        Fate::Dropped
    );
    assert_ne!(downlink(&rules, UE, SERVER), Fate::Dropped);
}

/// free5gc #791 #1005 #1012 #1096, go-upf #63, eupf #633, omec-upf #1290 #1293.
#[test]
fn accepted_means_applied_else_no_ghost_and_no_free_ride() {
    let mut world = World::associated();
    let downlink = |id, detects: &[Octets], refers: &[Octets]| {
        let detects = [&[source_if(CORE), ue_ip(true, UE)], detects].concat();
        create_pdr(&[&[pdr_id(id), precedence(1), pdi(&detects)], refers].concat())
    };
    let redirecting = forwarding(&[destination_if(CORE), ie(41, [1, b'x'])]);
    let breaking: [(usize, Octets); 9] = [
        (2, uplink_pdr(1, UE, f_teid(0, N3))),
        (3, downlink(2, &[], &[far_id(99)])),
        (3, downlink(2, &[], &[far_id(2), qer_id(99)])),
        (3, downlink(2, &[], &[far_id(2), urr_id(99)])),
        (3, downlink(1, &[], &[far_id(2)])),
        (5, create_far(&[far_id(1), apply_action(&[DROP])])),
        (5, create_far(&[far_id(2), apply_action(&[FORW | 0x10])])),
        (5, create_far(&[far_id(2), apply_action(&[FORW]), redirecting])),
        (3, downlink(2, &[ie(24, b"youtube")], &[far_id(2)])),
    ];
    for (place, ies) in breaking {
        let mut session = plain_session(1, UE);
        session[place] = ies.clone();
        let reply = world.ask(50, Some(0), &session);
        assert!(
            reply.failed_rule().is_some(),
            "{:?} for {ies:02x?}",
            reply.message()
        );
        world.assert_clean();
    }
    world
        .fleet
        .workers
        .iter_mut()
        .for_each(|worker| worker.room = Some(0));
    let reply = world.ask(50, Some(0), &plain_session(1, UE));
    assert_eq!(
        reply.cause(),
        Some(Cause::NO_RESOURCES_AVAILABLE),
        "the worker could not"
    );
    world.assert_clean();
}

#[test]
fn eupf_330_a_qer_without_mbr_is_no_limit_and_mbr_0_is_another_thing() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    ies.push(create_qer(&[qer_id(2), gate(0, 0), mbr(0, 0), qfi(9)]));
    let reply = world.ask(50, Some(0), &ies);
    let teid = reply.created()[0].1;
    let rules = world.only_session().rules().clone();
    assert_eq!(rules.qer(QerId(1)).unwrap().mbr, None);
    assert_eq!(rules.qer(QerId(2)).unwrap().mbr.unwrap().ul.0, 0);
    assert_ne!(uplink(&rules, teid, UE, SERVER, 9), Fate::Dropped);
    assert_ne!(downlink(&rules, UE, SERVER), Fate::Dropped);
}

#[test]
fn a_qer_that_guarantees_more_than_it_lets_pass_is_refused_and_nothing_changes() {
    let mut world = World::associated();
    let refusal = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, Some(IeType::GBR));
    let asking = |ies: &[Octets]| {
        let mut session = plain_session(1, UE);
        session.push(create_qer(ies));
        session
    };
    for (mbr_kbit, gbr_kbit) in [((10, 10), (11, 0)), ((10, 10), (0, 11)), ((0, 0), (1, 0))] {
        let rates = [mbr(mbr_kbit.0, mbr_kbit.1), gbr(gbr_kbit.0, gbr_kbit.1)].concat();
        let reply = world.ask(50, Some(0), &asking(&[qer_id(2), gate(0, 0), rates]));
        assert_eq!(reply.verdict(), refusal, "{mbr_kbit:?} {gbr_kbit:?}");
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Qer(ie::QerId(2))));
        assert_eq!(world.sessions(), 0);
    }
    let good = [mbr(10, 10), gbr(10, 9)].concat();
    let seid = world
        .ask(50, Some(0), &asking(&[qer_id(2), gate(0, 0), good]))
        .up_seid();
    let before = world.only_session().rules().clone();
    for rates in [mbr(9, 10), gbr(0, 11)] {
        let reply = world.ask(52, Some(seid), &[group(14, &[qer_id(2), rates])]);
        assert_eq!(reply.verdict(), refusal);
        assert_eq!(reply.failed_rule(), Some(FailedRuleId::Qer(ie::QerId(2))));
    }
    assert_eq!(*world.only_session().rules(), before);
}

/// SMFs write a very high AMBR for none. A rate that no meter can reach costs no packet anything, and is logged once
/// for each QER.
#[test]
fn rates_that_nothing_reaches_are_no_limit_and_are_counted() {
    let mut world = World::associated();
    let huge = (1 << 40) - 1;
    let mut ies = plain_session(1, UE);
    ies.push(create_qer(&[qer_id(2), gate(0, 0), mbr(huge, huge), qfi(9)]));
    ies.push(create_qer(&[
        qer_id(3),
        gate(0, 0),
        mbr(1_000_000_000, 5),
        qfi(9),
    ]));
    let seid = world.ask(50, Some(0), &ies).up_seid();
    assert_eq!(world.n4.counters().unreachable_rates, 1);
    world.ask(52, Some(seid), &[group(14, &[qer_id(3), mbr(5, 1_000_000_001)])]);
    world.ask(52, Some(seid), &[group(14, &[qer_id(3), gate(0, 1)])]);
    assert_eq!(world.n4.counters().unreachable_rates, 2);
}

#[test]
fn eupf_643_a_dynamic_rule_whose_pdr_has_only_an_sdf_filter() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let dynamic = [
        create_pdr(&[
            pdr_id(3),
            precedence(10),
            pdi(&[source_if(CORE), sdf("permit out 6 from 10.9.9.9 80 to assigned")]),
            far_id(2),
        ]),
        create_qer(&[qer_id(3), gate(0, 0)]),
    ];
    world.ask(52, Some(seid), &dynamic).assert_accepted();
    assert_eq!(world.only_session().rules().pdrs().len(), 3);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn free5gc_136_nothing_is_left_after_many_cycles_of_a_buffering_session() {
    let mut world = World::associated();
    for cycle in 0..200 {
        let mut ies = plain_session(cycle, UE);
        ies[5] = create_far(&[far_id(2), apply_action(&[BUFF | NOCP, 0])]);
        let seid = world.ask(50, Some(0), &ies).up_seid();
        let wake = [update_far(&[
            far_id(2),
            apply_action(&[FORW]),
            update_forwarding(&[
                destination_if(ACCESS),
                outer_header_creation(1 + cycle as u32, GNB),
            ]),
        ])];
        world.ask(52, Some(seid), &wake).assert_accepted();
        let sleep = [update_far(&[far_id(2), apply_action(&[BUFF | NOCP, 0])])];
        world.ask(52, Some(seid), &sleep).assert_accepted();
        world.ask(54, Some(seid), &[]).assert_accepted();
    }
    world.assert_clean();
    assert!(world.n4.response_cache().0 < 1 << 20);
    world.pass(Duration::from_secs(60));
    world.ask(54, Some(1), &[]);
    assert!(world.n4.response_cache().0 < 1 << 10, "answers are forgotten");
}

#[test]
fn a_threshold_of_1000_bytes_makes_no_storm_of_reports() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    let threshold = ie(31, [&[4], &1000u64.to_be_bytes()[..]].concat());
    ies[7] = create_urr(&[
        urr_id(1),
        method(3),
        triggers(&[7, 0]),
        ie(64, 10u32.to_be_bytes()),
        threshold,
    ]);
    let seid = world.ask(50, Some(0), &ies).up_seid();
    let index = world.only_session().index();
    let counted = |packets: u64| flow::UrrCount {
        dl_packets: packets,
        dl_octets: packets * 1000,
        ..Default::default()
    };
    let reached = flow::Reached {
        watermark: true,
        limits: 0,
        ..flow::Reached::NOTHING
    };
    let (mut reported, mut messages) = (0, 0);
    for packets in 1..=1000 {
        world.fleet.count(index, UrrId(1), counted(1));
        let now = world.now;
        world
            .n4
            .handle_counter_reached(now, index, counter_reached((UrrId(1), counted(packets)), reached));
        let mut sent = world.run();
        while let Some(reply) = sent.pop() {
            let request = reply.session_report();
            let usage = request.usage_report.iter();
            reported += usage
                .map(|one| one.volume_measurement.unwrap().total.unwrap())
                .sum::<u64>();
            messages += 1;
            let sequence = reply.header().sequence.get();
            sent.extend(world.send(smf(), &message(57, Some(seid), sequence, &[ie(19, [1])])));
        }
    }
    assert!((1..=4).contains(&messages), "{messages} in one moment");
    let last = world.ask(54, Some(seid), &[]).usage();
    let last: u64 = last.iter().map(|(_, _, octets)| octets.unwrap()).sum();
    assert_eq!(reported + last, 1_000_000, "nothing is lost");
}

#[test]
fn omec_1226_a_report_goes_to_the_sessions_own_association() {
    let mut world = World::associated();
    let other: SocketAddr = "10.100.0.3:8805".parse().unwrap();
    world.send(
        other,
        &message(5, None, 1, &[node_name(&labels("other")), recovery(1)]),
    );
    let mut theirs = plain_session(9, Ipv4Addr::new(10, 45, 0, 9));
    theirs[0] = node_name(&labels("other"));
    theirs[1] = f_seid(9, other.ip());
    world.send(other, &message(50, Some(0), 2, &theirs));
    world.establish(1, UE);
    for (cp, address) in [(9, other), (1, smf())] {
        world
            .n4
            .handle_error_indication(world.now, GNB.into(), packet::Teid(0x100 + cp));
        let sent = world.transmits();
        assert_eq!(
            (sent[0].0.to, sent[0].header().seid),
            (address, Some(pfcp::Seid(u64::from(cp))))
        );
    }
}

#[test]
fn free5gc_590_signalling_is_answered_whatever_the_workers_do() {
    let mut world = World::with(Config {
        max_in_work: 8,
        ..World::config(1)
    });
    world.associate();
    for cp in 0..100u8 {
        let ies = plain_session(u64::from(cp), Ipv4Addr::new(10, 45, 1, cp));
        world.n4.handle_datagram(
            world.now,
            smf(),
            upf(),
            &message(50, Some(0), 1000 + u32::from(cp), &ies),
        );
    }
    world
        .n4
        .handle_datagram(world.now, smf(), upf(), &message(1, None, 7, &[recovery(1)]));
    let at_once = world.transmits();
    assert_eq!(
        at_once
            .iter()
            .filter(|reply| reply.header().message_type.0 == 2)
            .count(),
        1,
        "the heartbeat"
    );
    let congested = at_once
        .iter()
        .filter(|reply| reply.cause() == Some(Cause::PFCP_ENTITY_IN_CONGESTION));
    assert_eq!(congested.count(), 92);
    world.now = world.now + Duration::from_secs(1);
    world.n4.handle_timeout(world.now);
    assert_eq!(
        world.transmits().len(),
        8,
        "the rest in time, though the worker hangs"
    );
    world.assert_clean();
}

#[test]
fn omec_smf_626_after_a_restart_of_either_side_old_sessions_are_no_more_and_new_ones_work() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let first = world.ask(1, None, &[recovery(100)]);

    let mut config = World::config(2);
    config.recovery_unix = UPF_START + 1000;
    let mut restarted = World::with(config);
    let second = restarted.ask(1, None, &[recovery(100)]);
    assert_ne!(first.0.bytes, second.0.bytes, "the time stamp shows the restart");
    let cause = restarted.ask(52, Some(seid), &[]).cause();
    assert_eq!(
        cause,
        Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION),
        "not 'accepted'"
    );
    restarted.associate();
    assert_eq!(restarted.ask(52, Some(seid), &[]).verdict(), not_found());
    let reply = restarted.ask(50, Some(0), &plain_session(1, UE));
    let teid = reply.created()[0].1;
    assert_ne!(
        uplink(restarted.only_session().rules(), teid, UE, SERVER, 9),
        Fate::Dropped
    );
}
