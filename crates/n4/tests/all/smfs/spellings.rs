//! What the one or the other sends, and what must be understood in every spelling.

use super::*;

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
    let header =
        |description: u8, addresses: &[u8]| ie(84, [&[description, 0, 0, 0, 0x10, 0], addresses].concat());
    let vendor = |length: u16| ie(0x8000 + length, [0x12, 0x34, 1, 2, 3]);
    let far_2 =
        |action: &[u8], more: &[Octets]| create_far(&[&[far_id(2), apply_action(action)], more].concat());
    let far = |header: Octets| far_2(&[FORW], &[forwarding(&[destination_if(ACCESS), header])]);
    let to_access = [forwarding(&[destination_if(ACCESS)])];
    let qer = |ies: &[Octets]| create_qer(&[&[qer_id(1)], ies].concat());
    let urr = |ies: &[Octets]| create_urr(&[&[urr_id(1)], ies].concat());
    let seconds = |ie_type, seconds: u32| ie(ie_type, seconds.to_be_bytes());
    let replacing: Vec<(usize, Octets)> = vec![
        (2, pdr(&[ie(95, [0])])),
        (2, pdr(&[ie(95, [1])])),
        (2, pdr(&[ie(95, [6])])),
        (2, pdr(&[ie(95, [6, 1])])),
        (2, pdr(&[ie(95, [0]), ie(9999, b"later"), vendor(1)])),
        (5, far(header(1, &GNB.octets()))),
        (5, far(header(2, &ipv6_peer))),
        (5, far(header(3, &[&GNB.octets()[..], &ipv6_peer].concat()))),
        (5, far_2(&[FORW], &[])),
        (5, far_2(&[FORW, 0], &to_access)),
        (5, far_2(&[BUFF], &[])),
        (5, far_2(&[BUFF | NOCP, 2], &to_access)),
        (5, far_2(&[DROP, 0], &[])),
        (6, qer(&[gate(0, 0)])),
        (6, qer(&[gate(2, 3), qfi(63)])),
        (
            6,
            qer(&[gate(0, 0), qfi(9), ie(123, [1]), ie(158, [5]), seconds(157, 2)]),
        ),
        (7, urr(&[method(2), triggers(&[2, 0])])),
        (7, urr(&[method(1), triggers(&[4, 0, 0]), seconds(32, 60)])),
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
}

#[test]
fn node_ids_of_every_spelling_are_accepted() {
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
    let moved = |teid: u32, flags: &[Octets]| {
        let parameters = [&[outer_header_creation(teid, GNB)], flags].concat();
        update_far(&[far_id(2), update_forwarding(&parameters)])
    };
    let flags = |bits: u8| ie(49, [bits]);
    for (ies, sends) in [
        (vec![moved(0x300, &[flags(2)])], true),
        (vec![moved(0x301, &[]), flags(2)], true),
        (vec![moved(0x302, &[flags(0)]), flags(0)], false),
    ] {
        world.ask(52, Some(seid), &ies).assert_accepted();
        let immediate_actions = world
            .fleet
            .workers
            .iter()
            .flat_map(|worker| &worker.immediate_actions);
        let expected = if sends { vec![FarId(2)] } else { Vec::new() };
        assert_eq!(immediate_actions.last().expect("a change").end_markers, expected);
        world
            .fleet
            .workers
            .iter_mut()
            .for_each(|worker| worker.immediate_actions.clear());
    }
    world.ask(52, Some(seid), &[flags(1)]).assert_accepted();
    let mut immediate_actions = world
        .fleet
        .workers
        .iter()
        .flat_map(|worker| &worker.immediate_actions);
    assert!(
        immediate_actions.next().expect("a change").discards_buffered,
        "DROBU alone is a change"
    );
}

/// The flag of a whole request means the FARs whose tunnel it changes (TS 29.244 §5.3.2).
#[test]
fn end_markers_go_only_into_tunnels_that_are_left() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    // A flow of its own in the tunnel of FAR 2, and another tunnel.
    for (id, teid) in [(3, 0x101), (4, 0x104)] {
        let pdr = [
            pdr_id(id),
            precedence(u32::from(id)),
            pdi(&[source_if(CORE), ue_ip(true, UE), qfi(id as u8)]),
        ];
        ies.push(create_pdr(&[&pdr[..], &[far_id(u32::from(id))]].concat()));
        ies.push(downlink_far(u32::from(id), teid));
    }
    let seid = world.ask(50, Some(0), &ies).up_seid();
    let to = |far: u32, teid: u32| {
        update_far(&[
            far_id(far),
            update_forwarding(&[outer_header_creation(teid, GNB)]),
        ])
    };
    let marked = update_forwarding(&[ie(30, [0xb8, 0xfc])]);
    let removed = update_forwarding(&[ie(84, [])]);
    for (updates, expected) in [
        // As it was, and with another mark.
        (vec![to(2, 0x101), update_far(&[far_id(4), marked])], vec![]),
        // FAR 3 continues to send into the tunnel.
        (vec![to(2, 0x202)], vec![]),
        (vec![to(3, 0x202)], vec![FarId(3)]),
        (
            vec![to(2, 0x303), to(3, 0x303), to(4, 0x104)],
            vec![FarId(2), FarId(3)],
        ),
        // FAR 2 no longer forwards, but has the tunnel still.
        (
            vec![update_far(&[
                far_id(2),
                apply_action(&[BUFF]),
                update_forwarding(&[destination_if(ACCESS)]),
            ])],
            vec![],
        ),
        (vec![update_far(&[far_id(4), removed])], vec![FarId(4)]),
    ] {
        let ies = [&updates[..], &[ie(49, [2])]].concat();
        world.ask(52, Some(seid), &ies).assert_accepted();
        let mut workers = world.fleet.workers.iter_mut();
        let immediate = workers
            .find_map(|worker| worker.immediate_actions.pop())
            .expect("a change");
        assert_eq!(immediate.end_markers, expected);
    }
}
