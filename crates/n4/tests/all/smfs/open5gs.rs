//! Open5GS (src/smf/n4-build.c): everything by CHOOSE, idle first, one tunnel for all flows.

use super::*;

fn dnn() -> Octets {
    network_instance(labels("internet"))
}

fn establishment() -> Vec<Octets> {
    let smf_gtpu = Ipv4Addr::new(203, 0, 114, 2);
    vec![
        node_name(&labels("smf.open5gs.org")),
        f_seid(0x1d1, IpAddr::V4(SMF_ADDRESS)),
        create_pdr(&[
            pdr_id(1),
            precedence(65535),
            pdi(&[source_if(CORE), dnn(), ue_ip(true, UE), interface_type(17)]),
            far_id(1),
            urr_id(1),
            qer_id(1),
        ]),
        create_pdr(&[
            pdr_id(2),
            precedence(65535),
            pdi(&[
                source_if(ACCESS),
                choose(V4 | V6, Some(5)),
                dnn(),
                qfi(1),
                interface_type(11),
            ]),
            outer_header_removal(6),
            far_id(2),
            qer_id(1),
        ]),
        create_pdr(&[
            pdr_id(3),
            precedence(255),
            pdi(&[source_if(CP), choose(V4 | V6, None)]),
            outer_header_removal(6),
            far_id(1),
        ]),
        create_pdr(&[
            pdr_id(4),
            precedence(255),
            pdi(&[
                source_if(ACCESS),
                choose(V4 | V6, Some(5)),
                dnn(),
                sdf("permit out 58 from ff02::2/128 to assigned"),
            ]),
            outer_header_removal(6),
            far_id(3),
        ]),
        create_far(&[far_id(1), action(BUFF | NOCP), bar_id(1)]),
        create_far(&[
            far_id(2),
            action(FORW),
            forwarding(&[destination_if(CORE), dnn(), interface_type(17)]),
        ]),
        create_far(&[
            far_id(3),
            action(FORW),
            forwarding(&[destination_if(CP), outer_header_creation(1, smf_gtpu)]),
        ]),
        create_urr(&[
            urr_id(1),
            method(2),
            triggers(&[2, 0, 0]),
            ie(31, [&[1], &104_857_600u64.to_be_bytes()[..]].concat()),
        ]),
        create_qer(&[qer_id(1), gate(0, 0), mbr(1_000_000, 1_000_000), qfi(1)]),
        create_bar(&[bar_id(1)]),
        ie(113, [1]),
        ie(141, [1, 8, 0x99, 0x09, 0x07, 0, 0, 0, 0, 0xf1]),
        ie(159, labels("internet")),
        ie(257, [1, 0xff, 0xff, 0xff]),
    ]
}

fn associated() -> World {
    let mut world = World::new();
    let setup = [
        node_name(&labels("smf.open5gs.org")),
        recovery(100),
        cp_features(0),
    ];
    world.ask(5, None, &setup).assert_accepted();
    world
}

#[test]
fn a_session_starts_idle_is_activated_goes_idle_and_ends() {
    let mut world = associated();
    let reply = world.ask(50, Some(0), &establishment());
    let seid = reply.up_seid();
    let created = reply.created();
    assert_eq!(created.iter().map(|pdr| pdr.0).collect::<Vec<_>>(), [2, 3, 4]);
    let (teid, address) = (created[0].1, created[0].2);
    assert_eq!(
        (created[2].1, address),
        (teid, Some(N3)),
        "choose-id 5 is one tunnel"
    );
    assert_ne!(created[1].1, teid);
    assert_eq!(world.uplink(teid, 1), INTERNET);
    assert_eq!(
        world.downlink(),
        Fate::Dropped,
        "held: BUFF before the gNB is known"
    );

    let activate = |teid, flags: &[u8]| {
        let flags: Vec<Octets> = flags.iter().map(|flags| ie(49, [*flags])).collect();
        let parameters = [
            destination_if(ACCESS),
            network_instance(labels("internet")),
            outer_header_creation(teid, GNB),
        ];
        update_far(&[
            far_id(1),
            action(FORW),
            update_forwarding(&[&parameters[..], &flags].concat()),
        ])
    };
    world
        .ask(52, Some(seid), &[activate(0x501, &[])])
        .assert_accepted();
    assert_eq!(world.downlink(), Fate::Tunnel(0x501, Some(1)));
    world
        .ask(52, Some(seid), &[activate(0x502, &[SEND_END_MARKER])])
        .assert_accepted();
    assert_eq!(world.downlink(), Fate::Tunnel(0x502, Some(1)), "handed over");

    let idle = update_far(&[far_id(1), action(BUFF | NOCP), bar_id(1)]);
    world.ask(52, Some(seid), &[idle]).assert_accepted();
    assert_eq!(world.downlink(), Fate::Dropped);

    let index = world.only_session().index();
    world.fleet.count(
        index,
        UrrId(1),
        UrrCount {
            dl_packets: 3,
            dl_octets: 300,
            ..UrrCount::default()
        },
    );
    assert_eq!(world.ask(54, Some(seid), &[]).usage(), [(1, 0, Some(300))]);
    world.assert_clean();
}

#[test]
fn a_dedicated_flow_shares_the_tunnel_and_its_filters_are_updated_by_a_part_of_the_pdi() {
    let mut world = associated();
    let reply = world.ask(50, Some(0), &establishment());
    let (seid, teid) = (reply.up_seid(), reply.created()[0].1);
    let added = |filter: &str| {
        [
            create_pdr(&[
                pdr_id(5),
                precedence(10),
                pdi(&[
                    source_if(ACCESS),
                    choose(V4 | V6, Some(5)),
                    dnn(),
                    sdf(filter),
                    qfi(2),
                ]),
                outer_header_removal(6),
                far_id(5),
                qer_id(2),
            ]),
            create_far(&[far_id(5), action(FORW), forwarding(&[destination_if(CORE)])]),
            create_qer(&[qer_id(2), gate(0, 0), qfi(2)]),
        ]
    };
    let refused = world.ask(52, Some(seid), &added("permit out udp from 8.8.4.4 to assigned"));
    assert_eq!(
        refused.verdict().0,
        69,
        "'udp' is a name: protocols are numbers or 'ip'"
    );
    let added = added("permit out 17 from 8.8.4.4 to assigned");
    let reply = world.ask(52, Some(seid), &added);
    assert_eq!(reply.created(), [(5, teid, Some(N3))]);
    assert_eq!(
        world.uplink(teid, 2),
        Fate::Dropped,
        "no rule for 8.8.8.8 on QFI 2"
    );

    let part = pdi(&[source_if(ACCESS), sdf("permit out 17 from 8.8.8.8 to assigned")]);
    world
        .ask(52, Some(seid), &[update_pdr(&[pdr_id(5), part])])
        .assert_accepted();
    assert_eq!(world.uplink(teid, 2), INTERNET, "the F-TEID and the QFI stayed");

    let removed = [
        group(15, &[pdr_id(5)]),
        group(16, &[far_id(5)]),
        group(18, &[qer_id(2)]),
    ];
    world.ask(52, Some(seid), &removed).assert_accepted();
    assert_eq!(world.uplink(teid, 1), INTERNET);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn indirect_forwarding_comes_and_goes() {
    let mut world = associated();
    let seid = world.ask(50, Some(0), &establishment()).up_seid();
    let forwarding_rules = [
        create_pdr(&[
            pdr_id(6),
            precedence(255),
            pdi(&[source_if(ACCESS), choose(V4 | V6, Some(10)), interface_type(28)]),
            outer_header_removal(6),
            far_id(6),
        ]),
        create_far(&[
            far_id(6),
            action(FORW),
            forwarding(&[destination_if(ACCESS), outer_header_creation(0x900, GNB)]),
        ]),
    ];
    let created = world.ask(52, Some(seid), &forwarding_rules).created();
    assert_eq!(world.uplink(created[0].1, 1), Fate::Tunnel(0x900, Some(1)));
    world
        .ask(
            52,
            Some(seid),
            &[group(15, &[pdr_id(6)]), group(16, &[far_id(6)])],
        )
        .assert_accepted();
    assert_eq!(
        world.n4.sessions().count().tunnels,
        3,
        "N3 at both families, N4-u at one"
    );
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

/// With Gy (src/smf/gy-handler.c): the Volume Threshold is what is granted less the OCS's threshold, and may be 0;
/// times are measured at once, and the method goes when nothing of it is granted, with its bounds left standing.
#[test]
fn a_grant_of_no_more_than_the_threshold_is_a_threshold_of_0() {
    let mut world = associated();
    let seid = world.ask(50, Some(0), &establishment()).up_seid();
    let volume = |ie_type, octets: u64| ie(ie_type, [&[1], &octets.to_be_bytes()[..]].concat());
    let granted = |threshold| {
        group(
            13,
            &[
                urr_id(1),
                method(3),
                triggers(&[2, 3, 0]),
                volume(31, threshold),
                volume(73, 1000),
                ie(74, 3600u32.to_be_bytes()),
                ie(100, [0x18]),
            ],
        )
    };
    for threshold in [0, 800, 0] {
        world.ask(52, Some(seid), &[granted(threshold)]).assert_accepted();
        let octets = world
            .only_session()
            .rules()
            .urr(UrrId(1))
            .unwrap()
            .volume_threshold
            .clone();
        assert_eq!(octets.unwrap().total, Some(threshold));
    }
    let index = world.only_session().index();
    let used = |octets| UrrCount {
        dl_packets: 1,
        dl_octets: octets,
        ..UrrCount::default()
    };
    world.fleet.count(index, UrrId(1), used(1000));
    let reached = flow::Reached {
        limits: 1,
        ..flow::Reached::NOTHING
    };
    let now = world.now;
    world
        .n4
        .handle_counter_reached(now, index, counter_reached((UrrId(1), used(1000)), reached));
    let sent = world.run();
    let request = sent[0].session_report();
    let one = request.usage_report.first().unwrap();
    assert_eq!(one.usage_report_trigger, UsageReportTrigger::VOLQU);
    assert_eq!(one.volume_measurement.unwrap().total, Some(1000));
}
