//! OAI (smf_procedure.cpp): uplink first, the downlink by modification, a QER for each direction.

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
