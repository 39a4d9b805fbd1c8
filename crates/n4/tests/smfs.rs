//! What the SMFs of Open5GS, free5GC, SD-Core and OAI send, with their quirks, and whether traffic flows then.

mod support;

use std::net::{IpAddr, Ipv4Addr};

use flow::{InstanceId, UrrCount};
use rules::model::{ApplyAction, FarId, PdrId, QerId, UrrId};
use rules::sdf::FlowDescription;

use support::traffic::{Fate, downlink, uplink};
use support::wire::*;
use support::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
const INTERNET: Fate = Fate::Plain(InstanceId(1));
const SEND_END_MARKER: u8 = 2;

impl World {
    fn uplink(&self, teid: u32, qfi: u8) -> Fate {
        uplink(self.only_session().rules(), teid, UE, SERVER, qfi)
    }

    fn downlink(&self) -> Fate {
        downlink(self.only_session().rules(), UE, SERVER)
    }
}

/// Apply Action on two octets, as from release 16.
fn action(flags: u8) -> Octets {
    apply_action(&[flags, 0])
}

mod open5gs {
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
        let added = [
            create_pdr(&[
                pdr_id(5),
                precedence(10),
                pdi(&[
                    source_if(ACCESS),
                    choose(V4 | V6, Some(5)),
                    network_instance(labels("internet")),
                    sdf("permit out udp from 8.8.4.4 to assigned"),
                    qfi(2),
                ]),
                outer_header_removal(6),
                far_id(5),
                qer_id(2),
            ]),
            create_far(&[far_id(5), action(FORW), forwarding(&[destination_if(CORE)])]),
            create_qer(&[qer_id(2), gate(0, 0), qfi(2)]),
        ];
        let refused = world.ask(52, Some(seid), &added);
        assert_eq!(
            refused.verdict().0,
            69,
            "'udp' is a name: protocols are numbers or 'ip'"
        );
        let mut added = added;
        added[0] = create_pdr(&[
            pdr_id(5),
            precedence(10),
            pdi(&[
                source_if(ACCESS),
                choose(V4 | V6, Some(5)),
                network_instance(labels("internet")),
                sdf("permit out 17 from 8.8.4.4 to assigned"),
                qfi(2),
            ]),
            outer_header_removal(6),
            far_id(5),
            qer_id(2),
        ]);
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
}

mod free5gc {
    use super::*;

    const TEID: u32 = 1;
    const PDR: u16 = 4711;

    fn associated() -> World {
        let mut config = World::config(2);
        config.sessions.accept_cp_f_teids = true;
        let mut world = World::with(config);
        world.associate();
        world
    }

    /// Identifiers come from pools of the whole UPF: large and sparse.
    fn establishment() -> Vec<Octets> {
        let urr = |id: u32| {
            create_urr(&[
                urr_id(id),
                method(2),
                triggers(&[3, 1, 0]),
                ie(64, 10u32.to_be_bytes()),
                ie(
                    31,
                    [&[6], &1000u64.to_be_bytes()[..], &1000u64.to_be_bytes()].concat(),
                ),
                ie(
                    73,
                    [
                        &[7],
                        &9u64.to_be_bytes()[..],
                        &9u64.to_be_bytes(),
                        &9u64.to_be_bytes(),
                    ]
                    .concat(),
                ),
                ie(100, [0x10]),
                ie(181, 3_900_000_000u32.to_be_bytes()),
            ])
        };
        vec![
            node_v4(SMF_ADDRESS),
            f_seid(1, IpAddr::V4(SMF_ADDRESS)),
            create_pdr(&[
                pdr_id(PDR),
                precedence(128),
                pdi(&[
                    source_if(ACCESS),
                    f_teid(TEID, N3),
                    network_instance("internet"),
                    ue_ip(false, UE),
                ]),
                outer_header_removal(0),
                far_id(70_001),
                urr_id(90_001),
                urr_id(90_002),
                qer_id(80_001),
                qer_id(80_002),
            ]),
            create_pdr(&[
                pdr_id(PDR + 1),
                precedence(128),
                pdi(&[source_if(CORE), network_instance("internet"), ue_ip(true, UE)]),
                far_id(70_002),
                urr_id(90_001),
                qer_id(80_001),
                qer_id(80_002),
            ]),
            create_far(&[
                far_id(70_001),
                action(FORW),
                forwarding(&[destination_if(CORE), network_instance("internet")]),
            ]),
            create_far(&[
                far_id(70_002),
                action(FORW),
                forwarding(&[destination_if(ACCESS)]),
            ]),
            create_qer(&[qer_id(80_001), gate(0, 0), qfi(1)]),
            create_qer(&[qer_id(80_002), gate(0, 0), mbr(200_000, 100_000), qfi(1)]),
            urr(90_001),
            urr(90_002),
            create_bar(&[bar_id(1), ie(46, [0])]),
            ie(113, [1]),
        ]
    }

    fn update(flags: u8, far: &[Octets]) -> Octets {
        let parameters = [
            destination_if(ACCESS),
            network_instance("internet"),
            outer_header_creation(0x601, GNB),
            ie(49, [flags]),
        ];
        update_far(&[&[far_id(70_002)], far, &[update_forwarding(&parameters)]].concat())
    }

    #[test]
    fn a_session_with_teids_of_the_smf() {
        let mut world = associated();
        let reply = world.ask(50, Some(0), &establishment());
        let seid = reply.up_seid();
        assert_eq!(reply.created(), []);
        assert_eq!(world.uplink(TEID, 1), INTERNET);
        assert_eq!(world.downlink(), Fate::Dropped, "FORW to Access without a tunnel");

        let whole_pdi = pdi(&[source_if(CORE), network_instance("internet"), ue_ip(true, UE)]);
        let reply = world.ask(
            52,
            Some(seid),
            &[
                f_seid(1, IpAddr::V4(SMF_ADDRESS)),
                update_pdr(&[
                    pdr_id(PDR + 1),
                    precedence(128),
                    whole_pdi,
                    far_id(70_002),
                    urr_id(90_001),
                    qer_id(80_001),
                    qer_id(80_002),
                ]),
                update(0, &[action(FORW)]),
            ],
        );
        reply.assert_accepted();
        assert_eq!(world.downlink(), Fate::Tunnel(0x601, Some(1)));

        let idle = [update_far(&[far_id(70_002), action(BUFF | NOCP), bar_id(1)])];
        world.ask(52, Some(seid), &idle).assert_accepted();
        let forwarding = world
            .only_session()
            .rules()
            .far(FarId(70_002))
            .unwrap()
            .forwarding
            .unwrap();
        assert!(
            forwarding.outer_header_creation.is_some(),
            "idle keeps the tunnel"
        );
        world
            .ask(52, Some(seid), &[update(SEND_END_MARKER, &[action(FORW)])])
            .assert_accepted();
        assert_eq!(world.downlink(), Fate::Tunnel(0x601, Some(1)));
        world.ask(54, Some(seid), &[]).assert_accepted();
        world.assert_clean();
    }

    #[test]
    fn usage_is_queried_and_quotas_are_updated_with_a_validity_that_is_a_date() {
        let mut world = associated();
        let seid = world.ask(50, Some(0), &establishment()).up_seid();
        let index = world.only_session().index();
        world.fleet.count(
            index,
            UrrId(90_001),
            UrrCount {
                ul_packets: 1,
                ul_octets: 99,
                ..UrrCount::default()
            },
        );
        let quota = ie(73, [&[1], &5000u64.to_be_bytes()[..]].concat());
        let update = group(
            13,
            &[
                urr_id(90_001),
                method(2),
                triggers(&[2, 1, 0]),
                quota,
                ie(181, 0u32.to_be_bytes()),
            ],
        );
        let reply = world.ask(52, Some(seid), &[update, group(77, &[urr_id(90_001)])]);
        assert_eq!(reply.usage(), [(90_001, 0, Some(99))]);
        let urr = *world.only_session().rules().urr(UrrId(90_001)).unwrap();
        assert_eq!(urr.volume_quota.unwrap().total, Some(5000));
        let removal = [
            group(17, &[urr_id(90_002)]),
            update_pdr(&[pdr_id(PDR), urr_id(90_001)]),
        ];
        world.ask(52, Some(seid), &removal).assert_accepted();
        assert_eq!(world.ask(54, Some(seid), &[]).usage(), [(90_001, 1, Some(0))]);
    }

    #[test]
    fn one_teid_for_all_data_paths_of_the_session() {
        let mut world = associated();
        let seid = world.ask(50, Some(0), &establishment()).up_seid();
        let branch = [
            create_pdr(&[
                pdr_id(PDR + 2),
                precedence(100),
                pdi(&[
                    source_if(ACCESS),
                    f_teid(TEID, N3),
                    network_instance("internet"),
                    ue_ip(false, UE),
                    sdf("permit out ip from 10.200.0.0/16 to assigned"),
                ]),
                outer_header_removal(0),
                far_id(70_003),
                qer_id(80_001),
            ]),
            create_far(&[
                far_id(70_003),
                action(FORW),
                forwarding(&[
                    destination_if(CORE),
                    outer_header_creation(0x700, Ipv4Addr::new(203, 0, 113, 20)),
                ]),
            ]),
        ];
        world.ask(52, Some(seid), &branch).assert_accepted();
        let rules = world.only_session().rules().clone();
        assert_eq!(
            uplink(&rules, TEID, UE, Ipv4Addr::new(10, 200, 0, 1), 1),
            Fate::Tunnel(0x700, Some(1))
        );
        assert_eq!(world.uplink(TEID, 1), INTERNET);
        assert_eq!(world.n4.sessions().count().tunnels, 1);
    }
}

mod sd_core {
    use super::*;

    /// CHOOSE alone: neither family nor CHOOSE ID. S/D is 0 on the downlink too; the N6-LAN is meant as the core.
    fn establishment() -> Vec<Octets> {
        vec![
            node_v4(SMF_ADDRESS),
            f_seid(1, IpAddr::V4(SMF_ADDRESS)),
            create_pdr(&[
                pdr_id(1),
                precedence(255),
                pdi(&[
                    source_if(ACCESS),
                    choose(0, None),
                    network_instance("internet"),
                    ue_ip(false, UE),
                    sdf("permit out ip from any to assigned"),
                ]),
                outer_header_removal(0),
                far_id(1),
                qer_id(1),
                qer_id(2),
            ]),
            create_pdr(&[
                pdr_id(2),
                precedence(255),
                pdi(&[
                    source_if(CORE),
                    network_instance("internet"),
                    ue_ip(false, UE),
                    sdf("permit out ip from any to assigned"),
                ]),
                far_id(2),
                qer_id(1),
                qer_id(2),
            ]),
            create_far(&[
                far_id(1),
                apply_action(&[FORW]),
                forwarding(&[destination_if(SGI_LAN), network_instance("internet")]),
            ]),
            create_far(&[far_id(2), apply_action(&[DROP])]),
            create_qer(&[qer_id(1), gate(0, 0), mbr(100, 100), ie(27, [0; 10]), qfi(9)]),
            create_qer(&[qer_id(2), gate(0, 0), mbr(100, 100), qfi(9)]),
            ie(113, [1]),
        ]
    }

    #[test]
    fn a_session_with_choose_and_nothing_else() {
        let mut world = World::associated();
        let reply = world.ask(50, Some(0), &establishment());
        let seid = reply.up_seid();
        let [(1, teid, Some(N3))] = reply.created()[..] else {
            panic!("{:?}", reply.created())
        };
        assert_eq!(world.uplink(teid, 9), INTERNET);
        assert_eq!(world.downlink(), Fate::Dropped);

        let parameters = [
            destination_if(ACCESS),
            network_instance(""),
            outer_header_creation(0x801, GNB),
            ie(49, [SEND_END_MARKER]),
        ];
        let activate = update_far(&[far_id(2), apply_action(&[FORW]), update_forwarding(&parameters)]);
        world.ask(52, Some(seid), &[activate]).assert_accepted();
        assert_eq!(world.downlink(), Fate::Tunnel(0x801, Some(9)));

        let closed = group(14, &[qer_id(1), gate(1, 1), mbr(100, 100), qfi(9)]);
        world.ask(52, Some(seid), &[closed]).assert_accepted();
        assert_eq!(
            (world.uplink(teid, 9), world.downlink()),
            (Fate::Dropped, Fate::Dropped)
        );
        assert!(
            world
                .only_session()
                .rules()
                .qer(QerId(1))
                .unwrap()
                .gate_ul
                .is_closed()
        );

        let sequence = world.next_sequence();
        let mut deletion = message(54, Some(seid), sequence, &[f_seid(1, IpAddr::V4(SMF_ADDRESS))]);
        deletion[0] |= 0x02;
        deletion[15] = 12 << 4;
        let reply = world.datagram(&deletion);
        reply.assert_accepted();
        assert_eq!(reply.usage(), [], "no URR was ever created");
        world.assert_clean();
    }

    #[test]
    fn n9_without_network_instance_held_with_its_parameters() {
        let mut world = World::associated();
        let mut ies = establishment();
        ies[3] = create_pdr(&[
            pdr_id(2),
            precedence(255),
            pdi(&[source_if(CORE), choose(0, None), network_instance("")]),
            outer_header_removal(0),
            far_id(2),
        ]);
        ies[5] = create_far(&[
            far_id(2),
            apply_action(&[BUFF | NOCP]),
            forwarding(&[
                destination_if(ACCESS),
                network_instance(""),
                outer_header_creation(0x802, GNB),
            ]),
        ]);
        let reply = world.ask(50, Some(0), &ies);
        reply.assert_accepted();
        let core = Some(Ipv4Addr::new(203, 0, 113, 10));
        assert_eq!(
            reply.created().iter().map(|pdr| pdr.2).collect::<Vec<_>>(),
            [Some(N3), core]
        );
        let far = *world.only_session().rules().far(FarId(2)).unwrap();
        assert_eq!(far.action, ApplyAction::BUFF.with(ApplyAction::NOCP));
        assert!(far.forwarding.unwrap().outer_header_creation.is_some());
    }
}

mod oai {
    use super::*;

    fn qer(id: u32, uplink_kbps: u64, downlink_kbps: u64) -> Octets {
        create_qer(&[qer_id(id), gate(0, 0), mbr(uplink_kbps, downlink_kbps), qfi(9)])
    }

    #[test]
    fn uplink_first_and_the_downlink_by_modification() {
        let mut world = World::new();
        let name = node_name(&labels("oai-smf.oai.org"));
        world
            .ask(5, None, &[name.clone(), recovery(100)])
            .assert_accepted();
        let reply = world.ask(
            50,
            Some(0),
            &[
                name,
                f_seid(1, IpAddr::V4(SMF_ADDRESS)),
                create_pdr(&[
                    pdr_id(1),
                    precedence(0),
                    pdi(&[
                        source_if(ACCESS),
                        choose(V4, Some(42)),
                        ue_ip(false, UE),
                        qfi(9),
                        sdf("permit out ip from any to assigned"),
                        interface_type(0),
                    ]),
                    outer_header_removal(0),
                    far_id(1),
                    urr_id(1),
                    qer_id(1),
                ]),
                create_far(&[
                    far_id(1),
                    apply_action(&[FORW]),
                    forwarding(&[destination_if(CORE)]),
                ]),
                create_far(&[far_id(2), apply_action(&[DROP])]),
                create_urr(&[
                    urr_id(1),
                    method(3),
                    triggers(&[7, 0]),
                    ie(64, 10u32.to_be_bytes()),
                    ie(31, [&[4], &1000u64.to_be_bytes()[..]].concat()),
                    ie(32, 5u32.to_be_bytes()),
                ]),
                qer(1, 1000, 0),
            ],
        );
        let seid = reply.up_seid();
        let [(1, teid, Some(N3))] = reply.created()[..] else {
            panic!("{:?}", reply.created())
        };
        assert_eq!(world.uplink(teid, 9), INTERNET);

        let downlink_rules = [
            create_pdr(&[
                pdr_id(2),
                precedence(0),
                pdi(&[source_if(CORE), ue_ip(true, UE), interface_type(0)]),
                far_id(2),
                qer_id(2),
            ]),
            update_far(&[
                far_id(2),
                apply_action(&[FORW]),
                update_forwarding(&[destination_if(ACCESS), outer_header_creation(0x901, GNB)]),
            ]),
            qer(2, 0, 1000),
        ];
        world.ask(52, Some(seid), &downlink_rules).assert_accepted();
        assert_eq!(
            world.downlink(),
            Fate::Tunnel(0x901, Some(9)),
            "a PDR with a FAR that was there before"
        );

        let reply = world.ask(54, Some(seid), &[]);
        reply.assert_accepted();
        assert_eq!(reply.usage(), [(1, 0, Some(0))]);
        world.assert_clean();
    }

    #[test]
    fn a_choose_without_id_on_the_core_side() {
        let mut world = World::associated();
        let mut ies = plain_session(1, UE);
        ies[3] = create_pdr(&[
            pdr_id(2),
            precedence(0),
            pdi(&[
                source_if(CORE),
                choose(V4, None),
                network_instance("n9.example.org"),
            ]),
            outer_header_removal(0),
            far_id(2),
        ]);
        let reply = world.ask(50, Some(0), &ies);
        let core = Some(Ipv4Addr::new(203, 0, 113, 10));
        assert_eq!(
            reply.created().iter().map(|pdr| pdr.2).collect::<Vec<_>>(),
            [Some(N3), core]
        );
    }
}

#[test]
fn filters_are_kept_as_they_were_sent() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    let text = "permit out 17 from 10.0.0.0/8 80,443,1000-2000 to assigned 5000";
    ies[2] = create_pdr(&[
        pdr_id(1),
        precedence(1),
        pdi(&[source_if(ACCESS), choose(V4, None), ue_ip(false, UE), sdf(text)]),
        far_id(1),
    ]);
    world.ask(50, Some(0), &ies).assert_accepted();
    let filters = world
        .only_session()
        .rules()
        .pdr(PdrId(1))
        .unwrap()
        .pdi
        .sdf_filters
        .clone();
    assert_eq!(
        filters[0].flow_description,
        Some(FlowDescription::parse(text.as_bytes()).unwrap())
    );
}

/// What the one or the other sends, each alone in a plain session.
#[test]
fn spellings_that_must_all_be_accepted() {
    let pdr = |ies: &[Octets]| {
        let common = [
            pdr_id(1),
            precedence(1),
            pdi(&[source_if(ACCESS), choose(V4, None), ue_ip(false, UE)]),
            far_id(1),
        ];
        create_pdr(&[&common[..], ies].concat())
    };
    let ipv6_peer = "2001:db8:3::20".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let far = |header: Octets| {
        create_far(&[
            far_id(2),
            apply_action(&[FORW]),
            forwarding(&[destination_if(ACCESS), header]),
        ])
    };
    let header =
        |description: u8, addresses: &[u8]| ie(84, [&[description, 0, 0, 0, 0x10, 0], addresses].concat());
    let vendor = |length: u16| ie(0x8000 + length, [0x12, 0x34, 1, 2, 3]);
    let replacing: Vec<(usize, Octets)> = vec![
        (2, pdr(&[ie(95, [0])])),
        (2, pdr(&[ie(95, [1])])),
        (2, pdr(&[ie(95, [6])])),
        (2, pdr(&[ie(95, [6, 1])])),
        (2, pdr(&[ie(95, [0]), ie(9999, b"later"), vendor(1)])),
        (5, far(header(1, &GNB.octets()))),
        (5, far(header(2, &ipv6_peer))),
        (5, far(header(3, &[&GNB.octets()[..], &ipv6_peer].concat()))),
        (5, create_far(&[far_id(2), apply_action(&[FORW])])),
        (
            5,
            create_far(&[
                far_id(2),
                apply_action(&[FORW, 0]),
                forwarding(&[destination_if(ACCESS)]),
            ]),
        ),
        (5, create_far(&[far_id(2), apply_action(&[BUFF])])),
        (
            5,
            create_far(&[
                far_id(2),
                apply_action(&[BUFF | NOCP, 2]),
                forwarding(&[destination_if(ACCESS)]),
            ]),
        ),
        (5, create_far(&[far_id(2), apply_action(&[DROP, 0])])),
        (6, create_qer(&[qer_id(1), gate(0, 0)])),
        (6, create_qer(&[qer_id(1), gate(2, 3), qfi(63)])),
        (
            6,
            create_qer(&[
                qer_id(1),
                gate(0, 0),
                qfi(9),
                ie(123, [1]),
                ie(158, [5]),
                ie(157, 2u32.to_be_bytes()),
            ]),
        ),
        (7, create_urr(&[urr_id(1), method(2), triggers(&[2, 0])])),
        (
            7,
            create_urr(&[
                urr_id(1),
                method(1),
                triggers(&[4, 0, 0]),
                ie(32, 60u32.to_be_bytes()),
            ]),
        ),
    ];
    for (place, octets) in replacing {
        let mut world = World::associated();
        let mut ies = plain_session(1, UE);
        ies[place] = octets.clone();
        ies.extend([
            ie(9999, b"unknown"),
            vendor(2),
            ie(117, 600u32.to_be_bytes()),
            ie(275, [10]),
        ]);
        let reply = world.ask(50, Some(0), &ies);
        assert!(
            reply.cause().unwrap().is_accepted(),
            "{:?} to {octets:02x?}",
            reply.message()
        );
        world
            .ask(54, Some(reply.up_seid()), &[ie(9999, b"unknown")])
            .assert_accepted();
        world.assert_clean();
    }
    let mut world = World::new();
    let nodes = [
        node_v4(SMF_ADDRESS),
        node_v6("2001:db8::2".parse().unwrap()),
        node_name(&labels("smf.example")),
        node_name(b"smf2.example"),
    ];
    for node in &nodes {
        world
            .ask(5, None, &[node.clone(), recovery(1), ie(9999, b"unknown")])
            .assert_accepted();
    }
    assert_eq!(world.n4.associations().count(), nodes.len());
}

#[test]
fn end_marker_flags_are_understood_in_both_places() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let moved = |flags: &[Octets]| {
        let parameters = [&[outer_header_creation(0x300, GNB)], flags].concat();
        update_far(&[far_id(2), update_forwarding(&parameters)])
    };
    world
        .ask(52, Some(seid), &[moved(&[ie(49, [2])])])
        .assert_accepted();
    world
        .ask(52, Some(seid), &[moved(&[]), ie(49, [2])])
        .assert_accepted();
    world
        .ask(52, Some(seid), &[moved(&[]), ie(49, [0])])
        .assert_accepted();
}
