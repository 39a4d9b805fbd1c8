//! Values that say nothing, or nothing that there is: null lengths, reserved and spare values, names that are none
//! (TS 29.244 §5.6.3, §7.6.7, §7.6.8). Taken as absent they would let through what they were to stop.

use crate::support;

use pfcp::ie::{Cause, FailedRuleId};
use pfcp::{IeType, ie};
use rules::model::{self, DestinationInterface, FarId, ForwardingParameters, PdrId};

use support::wire::*;
use support::*;

const NULL: [u8; 0] = [];

fn null(ie_type: u16) -> Octets {
    ie(ie_type, NULL)
}

/// A plain session with another IE in one place.
fn with(place: usize, changed: Octets) -> Vec<Octets> {
    let mut ies = plain_session(1, UE);
    ies[place] = changed;
    ies
}

fn endpoint(more: &[Octets]) -> Octets {
    group(127, &[&[ie(131, [1])], more].concat())
}

#[track_caller]
fn assert_refused(world: &mut World, ies: &[Octets], cause: Cause, offending: u16) {
    let verdict = world.ask(50, Some(0), ies).verdict();
    assert_eq!(verdict, (cause.value(), Some(offending)));
    world.assert_clean();
}

fn pdr_1(inner: &[Octets], more: &[Octets]) -> Octets {
    let common = [pdr_id(1), precedence(100), pdi(inner), far_id(1)];
    create_pdr(&[&common, more].concat())
}

fn far_2(parameters: &[Octets]) -> Octets {
    create_far(&[far_id(2), apply_action(&[FORW]), forwarding(parameters)])
}

#[test]
fn a_null_length_in_a_new_rule_is_an_invalid_length() {
    let mut world = World::associated();
    let uplink = |more: Octets| pdr_1(&[source_if(ACCESS), choose(V4, None), more], &[]);
    let cases = [
        (far_2(&[destination_if(ACCESS), null(84)]), 5, 84),
        (far_2(&[destination_if(ACCESS), null(30)]), 5, 30),
        (create_qer(&[qer_id(1), gate(0, 0), null(26)]), 6, 26),
        (create_qer(&[qer_id(1), gate(0, 0), null(27)]), 6, 27),
        (create_qer(&[qer_id(1), gate(0, 0), null(124)]), 6, 124),
        (uplink(null(93)), 2, 93),
        (uplink(null(23)), 2, 23),
        (uplink(null(124)), 2, 124),
        (uplink(null(153)), 2, 153),
        (uplink(null(155)), 2, 155),
        (pdr_1(&[source_if(ACCESS), null(21)], &[]), 2, 21),
        (
            pdr_1(&[source_if(ACCESS), choose(V4, None)], &[null(109)]),
            2,
            109,
        ),
        (pdr_1(&[source_if(ACCESS), choose(V4, None)], &[null(81)]), 2, 81),
        (pdr_1(&[source_if(ACCESS), choose(V4, None)], &[null(95)]), 2, 95),
        (
            create_urr(&[urr_id(1), method(2), triggers(&[2, 0, 0]), null(31)]),
            7,
            31,
        ),
    ];
    for (changed, place, offending) in cases {
        assert_refused(
            &mut world,
            &with(place, changed),
            Cause::INVALID_LENGTH,
            offending,
        );
    }
    for (added, offending) in [
        (create_bar(&[bar_id(1), null(140)]), 140),
        (endpoint(&[choose(V4, None), null(93)]), 93),
        (endpoint(&[null(21)]), 21),
        (null(113), 113),
        (null(117), 117),
    ] {
        let ies = [&plain_session(1, UE)[..], &[added]].concat();
        assert_refused(&mut world, &ies, Cause::INVALID_LENGTH, offending);
    }
    // In a group that is empty what is mandatory is missing.
    let ies = [&plain_session(1, UE)[..], &[null(6)]].concat();
    assert_refused(&mut world, &ies, Cause::CONDITIONAL_IE_MISSING, 81);
    // In a modification, too.
    let seid = world.establish(1, UE);
    let far = create_far(&[
        far_id(9),
        apply_action(&[FORW]),
        forwarding(&[destination_if(ACCESS), null(84)]),
    ]);
    let verdict = world.ask(52, Some(seid), &[far]).verdict();
    assert_eq!(
        verdict,
        because(Cause::INVALID_LENGTH, Some(IeType::OUTER_HEADER_CREATION))
    );
    assert!(world.only_session().rules().far(FarId(9)).is_none());
}

#[test]
fn names_may_be_empty() {
    // SD-Core's Network Instance, where it has none.
    let mut world = World::associated();
    let mut ies = with(
        5,
        far_2(&[destination_if(ACCESS), null(22), outer_header_creation(7, GNB)]),
    );
    ies.extend([null(159), null(291)]);
    world.ask(50, Some(0), &ies).assert_accepted();
}

#[test]
fn what_a_rule_cannot_be_without_is_not_removed() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let before = format!("{:?}", world.only_session().rules());
    let far = |more: Octets| update_far(&[far_id(2), more]);
    for (update, offending) in [
        (update_pdr(&[pdr_id(1), null(29)]), 29),
        (far(null(44)), 44),
        (far(update_forwarding(&[null(42)])), 42),
        (group(14, &[qer_id(1), null(25)]), 25),
        (group(13, &[urr_id(1), null(62)]), 62),
        (group(13, &[urr_id(1), null(37)]), 37),
    ] {
        let verdict = world.ask(52, Some(seid), &[update]).verdict();
        assert_eq!(verdict, (Cause::MANDATORY_IE_INCORRECT.value(), Some(offending)));
    }
    assert_eq!(format!("{:?}", world.only_session().rules()), before);
}

#[test]
fn a_null_length_takes_a_part_out_of_a_pdi() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    let filter = sdf("permit out 17 from any to assigned");
    ies[3] = create_pdr(&[
        pdr_id(2),
        precedence(100),
        pdi(&[
            source_if(CORE),
            network_instance("internet"),
            ue_ip(true, UE),
            filter,
            qfi(9),
        ]),
        far_id(2),
    ]);
    let seid = world.ask(50, Some(0), &ies).up_seid();
    let pdi_of = |world: &World| world.only_session().rules().pdr(PdrId(2)).unwrap().pdi.clone();
    let before = pdi_of(&world);
    assert!(before.instance.is_some() && !before.sdf_filters.is_empty() && !before.qfis.is_empty());
    let update = update_pdr(&[pdr_id(2), pdi(&[source_if(CORE), null(22), null(23), null(124)])]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    let after = pdi_of(&world);
    assert!(after.instance.is_none() && after.sdf_filters.is_empty() && after.qfis.is_empty());
    assert_eq!(after.ue_ip, before.ue_ip);
    // Without its F-TEID a PDR on the access side detects what nothing else distinguishes; it is deleted as requested.
    let update = update_pdr(&[pdr_id(1), pdi(&[source_if(ACCESS), null(21)])]);
    world.ask(52, Some(seid), &[update]).assert_accepted();
    assert_eq!(
        world.only_session().rules().pdr(PdrId(1)).unwrap().pdi.f_teid,
        None
    );
}

#[test]
fn null_lengths_remove_what_a_rule_may_be_without() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    ies[6] = create_qer(&[
        qer_id(1),
        gate(0, 0),
        mbr(9, 9),
        gbr(1, 1),
        qfi(9),
        ie(123, [1]),
        ie(158, [5]),
    ]);
    let there = [
        destination_if(ACCESS),
        network_instance("access"),
        ie(30, [0xb8, 0xfc]),
    ];
    let with_header = [&there[..], &[outer_header_creation(7, GNB)]].concat();
    let copy = [
        destination_if(4),
        outer_header_creation(9, GNB),
        ie(30, [0xb8, 0xfc]),
    ];
    let bodies = [
        far_id(2),
        apply_action(&[FORW]),
        forwarding(&with_header),
        group(5, &copy),
        bar_id(1),
    ];
    ies[5] = create_far(&bodies);
    ies.push(create_bar(&[bar_id(1), ie(140, [9])]));
    ies.push(endpoint(&[
        choose(V4, None),
        network_instance("access"),
        ue_ip(false, UE),
        qfi(9),
    ]));
    let seid = world.ask(50, Some(0), &ies).up_seid();
    let far = |ies: &[Octets]| update_far(&[&[far_id(2)], ies].concat());
    let updates = [
        group(
            14,
            &[qer_id(1), null(26), null(27), null(124), null(123), null(158)],
        ),
        far(&[
            update_forwarding(&[null(22), null(30), null(84)]),
            group(105, &[null(30), null(84)]),
            null(88),
        ]),
        group(86, &[bar_id(1), null(140)]),
        group(129, &[ie(131, [1]), null(21), null(22), null(93), null(124)]),
        update_pdr(&[pdr_id(1), null(95), null(81), null(109)]),
    ];
    // What is not there any more may be removed again.
    for _ in 0..2 {
        world.ask(52, Some(seid), &updates).assert_accepted();
    }
    let session = world.only_session();
    let rules = session.rules();
    let qer = &rules.qers()[0];
    assert_eq!(
        (qer.mbr, qer.optional.gbr, qer.qfi, qer.rqi, qer.ppi),
        (None, None, None, false, None)
    );
    let far = rules.far(FarId(2)).unwrap();
    let plain = |to| Some(ForwardingParameters::new(to));
    assert_eq!(
        (far.forwarding, far.bar),
        (plain(DestinationInterface::Access), None)
    );
    assert_eq!(far.optional.duplicating, plain(DestinationInterface::Other(4)));
    assert_eq!(rules.bars()[0].suggested_packets, None);
    let endpoint = &rules.endpoints()[0];
    assert_eq!((endpoint.f_teid, endpoint.instance), (None, None));
    assert!(endpoint.ue_ip.is_empty() && endpoint.qfis.is_empty());
    let pdr = rules.pdr(PdrId(1)).unwrap();
    assert_eq!(pdr.outer_header_removal, None);
    assert!(pdr.urrs.is_empty() && pdr.qers.is_empty());
}

/// TS 29.244 (Release 19) §5.38.1, §8.2.216.
#[test]
fn marks_for_l4s_come_and_go_and_other_indications_are_refused() {
    let indications = |flags: u8| ie(319, [flags]);
    let mut world = World::associated();
    let mut session = plain_session(1, UE);
    session.push(create_qer(&[qer_id(2), gate(0, 0), qfi(9), indications(0x04)]));
    let seid = world.ask(50, Some(0), &session).up_seid();
    let marks = |world: &World| {
        let qer = world.only_session().rules().qer(model::QerId(2)).unwrap();
        qer.optional.marks_l4s
    };
    assert!(marks(&world));
    let update = |ies: &[Octets]| group(14, &[&[qer_id(2)], ies].concat());
    // What is not in an update stays.
    world
        .ask(52, Some(seid), &[update(&[gate(1, 0)])])
        .assert_accepted();
    assert!(marks(&world));
    for (sent, marked) in [
        (indications(0), false),
        (indications(4), true),
        (null(319), false),
    ] {
        world.ask(52, Some(seid), &[update(&[sent])]).assert_accepted();
        assert_eq!(marks(&world), marked);
    }
    let refused = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::QER_INDICATIONS),
    );
    for flag in [0x01, 0x02, 0x08, 0x10, 0x20] {
        let reply = world.ask(52, Some(seid), &[update(&[indications(4 | flag)])]);
        let rule = Some(FailedRuleId::Qer(ie::QerId(2)));
        assert_eq!((reply.verdict(), reply.failed_rule()), (refused, rule), "{flag}");
        let new = group(7, &[qer_id(3), gate(0, 0), indications(flag)]);
        let reply = world.ask(52, Some(seid), &[new]);
        let rule = Some(FailedRuleId::Qer(ie::QerId(3)));
        assert_eq!((reply.verdict(), reply.failed_rule()), (refused, rule), "{flag}");
    }
    assert!(!marks(&world));
}

#[test]
fn a_pdr_without_a_far_is_refused_and_keeps_the_one_it_has() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let reply = world.ask(52, Some(seid), &[update_pdr(&[pdr_id(2), null(108)])]);
    assert_eq!(
        reply.verdict(),
        because(Cause::CONDITIONAL_IE_MISSING, Some(IeType::FAR_ID))
    );
    assert_eq!(reply.failed_rule(), Some(FailedRuleId::Pdr(ie::PdrId(2))));
    assert_eq!(
        world.only_session().rules().pdr(PdrId(2)).unwrap().far,
        Some(FarId(2))
    );
}

#[test]
fn a_flow_description_that_is_empty_is_incorrect() {
    let mut world = World::associated();
    for octets in [
        &[1, 0, 0, 0][..],
        &[0x11, 0, 0, 0, 0, 0, 0, 7],
        &[3, 0, 0, 0, 0xb8, 0xfc],
    ] {
        let filtered = pdr_1(&[source_if(ACCESS), choose(V4, None), ie(23, octets)], &[]);
        assert_refused(&mut world, &with(2, filtered), Cause::MANDATORY_IE_INCORRECT, 23);
    }
}

/// V4 and CHV4, V6 and CHV6 exclude each other (TS 29.244 §8.2.62).
#[test]
fn a_ue_address_that_is_none_or_contradicts_itself_is_incorrect() {
    let mut world = World::associated();
    let v4 = UE.octets();
    let v6 = "2001:db8:45::2".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let both = [&v4[..], &v6].concat();
    for (flags, rest) in [
        (0x00, vec![]),
        (0x04, vec![]),
        (0x12, v4.to_vec()),
        (0x21, v6.to_vec()),
        (0x13, both),
        (0x09, [&v6[..], &[64]].concat()),
        (0x41, [&v6[..], &[129]].concat()),
    ] {
        let address = ie(93, [&[flags], &rest[..]].concat());
        let pdr = pdr_1(&[source_if(ACCESS), choose(V4, None), address.clone()], &[]);
        assert_refused(&mut world, &with(2, pdr), Cause::MANDATORY_IE_INCORRECT, 93);
        let ies = [
            &plain_session(1, UE)[..],
            &[endpoint(&[choose(V4, None), address])],
        ]
        .concat();
        assert_refused(&mut world, &ies, Cause::MANDATORY_IE_INCORRECT, 93);
    }
    // Of bits for delegation and a length the bits count: /60.
    let address = ie(93, [&[0x49], &v6[..], &[4, 48]].concat());
    let pdr = pdr_1(&[source_if(ACCESS), choose(V4, None), address], &[]);
    world.ask(50, Some(0), &with(2, pdr)).assert_accepted();
    let length = world.only_session().rules().pdr(PdrId(1)).unwrap().pdi.ue_ip[0].ipv6;
    assert_eq!(length.map(|(_, length)| length), Some(60));
}

/// At least one bit is set (TS 29.244 §8.2.56); spare ones say nothing.
#[test]
fn an_outer_header_of_no_kind_is_incorrect() {
    let mut world = World::associated();
    for octets in [[0, 0], [0, 0xf8]] {
        let far = far_2(&[destination_if(ACCESS), ie(84, octets)]);
        assert_refused(&mut world, &with(5, far), Cause::MANDATORY_IE_INCORRECT, 84);
    }
    // UDP alone is a kind, but none that is done here; so is the removal of it.
    let udp = ie(84, [&[4, 0], &GNB.octets()[..], &[0x12, 0x34]].concat());
    let far = far_2(&[destination_if(ACCESS), udp]);
    assert_refused(
        &mut world,
        &with(5, far),
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        84,
    );
    let removing = |description| {
        pdr_1(
            &[source_if(ACCESS), choose(V4, None)],
            &[outer_header_removal(description)],
        )
    };
    assert_refused(
        &mut world,
        &with(2, removing(2)),
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        95,
    );
    assert_refused(
        &mut world,
        &with(2, removing(9)),
        Cause::MANDATORY_IE_INCORRECT,
        95,
    );
}

/// What a modification names by a null length goes, or is missing.
#[test]
fn null_lengths_in_a_modification_itself() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    ies.push(ie(117, 30u32.to_be_bytes()));
    let seid = world.ask(50, Some(0), &ies).up_seid();
    for (null_of, cause, offending) in [
        (15, Cause::CONDITIONAL_IE_MISSING, 56),
        (16, Cause::CONDITIONAL_IE_MISSING, 108),
        (9, Cause::CONDITIONAL_IE_MISSING, 56),
        (77, Cause::CONDITIONAL_IE_MISSING, 81),
        (49, Cause::INVALID_LENGTH, 49),
        (57, Cause::INVALID_LENGTH, 57),
    ] {
        let verdict = world.ask(52, Some(seid), &[null(null_of)]).verdict();
        assert_eq!(verdict, (cause.value(), Some(offending)));
    }
    assert!(world.only_session().rules().inactivity_timer().is_some());
    world
        .ask(52, Some(seid), &[null(117), null(152)])
        .assert_accepted();
    assert!(world.only_session().rules().inactivity_timer().is_none());
}

#[test]
fn interfaces_that_are_not_there_are_refused() {
    let mut world = World::associated();
    // The LI function, to which copies go alone, and 5G VN groups: what this node does not do fails the rule.
    for (side, cause) in [
        (4, Cause::RULE_CREATION_MODIFICATION_FAILURE),
        (5, Cause::RULE_CREATION_MODIFICATION_FAILURE),
        (6, Cause::MANDATORY_IE_INCORRECT),
        (15, Cause::MANDATORY_IE_INCORRECT),
    ] {
        let far = far_2(&[destination_if(side), outer_header_creation(7, GNB)]);
        assert_refused(&mut world, &with(5, far), cause, 42);
    }
    for (side, cause) in [
        (4, Cause::RULE_CREATION_MODIFICATION_FAILURE),
        (5, Cause::MANDATORY_IE_INCORRECT),
        (15, Cause::MANDATORY_IE_INCORRECT),
    ] {
        let pdr = pdr_1(&[source_if(side), choose(V4, None)], &[]);
        assert_refused(&mut world, &with(2, pdr), cause, 20);
    }
    let seid = world.establish(1, UE);
    let update = update_far(&[far_id(2), update_forwarding(&[destination_if(5)])]);
    let reply = world.ask(52, Some(seid), &[update]);
    let failed = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::DESTINATION_INTERFACE),
    );
    assert_eq!(
        (reply.verdict(), reply.failed_rule()),
        (failed, Some(FailedRuleId::Far(ie::FarId(2))))
    );
    // What is above the four bits is spare, and not looked at.
    let far = far_2(&[destination_if(0xf0), outer_header_creation(7, GNB)]);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.ask(50, Some(0), &with(5, far)).assert_accepted();
}

/// TS 29.244 Table 7.5.2.2-2, NOTE 2: the Network Instance relates to the address of the F-TEID.
#[test]
fn an_f_teid_of_a_family_that_its_network_instance_has_no_address_of_is_refused() {
    let mut world = World::associated();
    let asking = |family| {
        pdr_1(
            &[
                source_if(ACCESS),
                choose(family, None),
                network_instance("n9.example.org"),
            ],
            &[],
        )
    };
    let reply = world.ask(50, Some(0), &with(2, asking(V6)));
    let failed = because(Cause::RULE_CREATION_MODIFICATION_FAILURE, None);
    assert_eq!(
        (reply.verdict(), reply.failed_rule()),
        (failed, Some(FailedRuleId::Pdr(ie::PdrId(1))))
    );
    world.assert_clean();
    world.ask(50, Some(0), &with(2, asking(V4))).assert_accepted();
    world
        .ask(50, Some(0), &with(2, asking(V4 | V6)))
        .assert_accepted();
}

#[test]
fn pdn_types_that_shall_not_be_sent_are_incorrect() {
    let mut world = World::associated();
    for value in [0, 6, 7, 0xff] {
        let ies = [&plain_session(1, UE)[..], &[ie(113, [value])]].concat();
        assert_refused(&mut world, &ies, Cause::MANDATORY_IE_INCORRECT, 113);
    }
    // The upper five bits are spare.
    let ies = [&plain_session(1, UE)[..], &[ie(113, [0xf9])]].concat();
    world.ask(50, Some(0), &ies).assert_accepted();
}

#[test]
fn a_node_whose_name_is_none_is_refused() {
    let mut world = World::associated();
    for name in [
        &b"\x03smf\x09short"[..],
        b"\x03smf\xc0\x0c",
        b"\xff\xfe",
        b"smf..example",
        b"",
    ] {
        let setup = [node_name(name), recovery(1)];
        let reply = world.ask(5, None, &setup);
        assert_eq!(
            reply.cause(),
            Some(Cause::MANDATORY_IE_INCORRECT),
            "{}",
            name.escape_ascii()
        );
        let ies = with(0, node_name(name));
        assert_refused(&mut world, &ies, Cause::MANDATORY_IE_INCORRECT, 60);
    }
    assert_eq!(world.n4.associations().count(), 1);
}
