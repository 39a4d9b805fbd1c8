//! SD-Core (pfcp/message/build.go): CHOOSE and nothing else, network instances of length zero, DROP until activated.

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
    let far = world.only_session().rules().far(FarId(2)).unwrap().clone();
    assert_eq!(far.action, ApplyAction::BUFF.with(ApplyAction::NOCP));
    assert!(far.forwarding.unwrap().outer_header_creation.is_some());
}
