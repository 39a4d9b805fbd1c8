//! free5GC (internal/pfcp/message/build.go): TEIDs of its own, identifiers from pools, quotas that are dates.

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
    let urr = world.only_session().rules().urr(UrrId(90_001)).unwrap().clone();
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
