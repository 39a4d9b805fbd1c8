use std::net::Ipv4Addr;

use flow::PortId;

use super::*;

const N6: InstanceId = InstanceId(1);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);

fn peer() -> IpAddr {
    IpAddr::from([192, 0, 2, 9])
}

fn at(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

fn neighbours(capacity: usize) -> Neighbours {
    let interface = Interface {
        instance: N6,
        port: PortId(0),
        vlan: None,
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        ipv4: Some(Ipv4Addr::new(192, 0, 2, 1)),
        broadcast: Some(Ipv4Addr::new(192, 0, 2, 255)),
        ipv6: None,
        mtu: 1500,
        fragmentation: rules::network::Fragmentation::Inner,
        tunnels: false,
    };
    Neighbours::new(
        NeighboursConfig {
            capacity,
            ..NeighboursConfig::default()
        },
        vec![interface],
    )
}

/// Lets time pass second by second; the destinations of the frames that were sent.
fn run(table: &mut Neighbours, from: u64, to: u64) -> Vec<MacAddr> {
    let mut sent = Vec::new();
    for second in from..=to {
        table.handle_timeout(at(second));
        while let Some(frame) = table.poll_transmit() {
            sent.push(MacAddr(
                frame.bytes[..6].try_into().expect("a frame has a destination"),
            ));
        }
    }
    sent
}

fn last_change(table: &mut Neighbours) -> Option<AdjacencyChange> {
    std::iter::from_fn(|| table.poll_change()).last()
}

fn mac_of(change: Option<AdjacencyChange>) -> Option<[u8; 6]> {
    let adjacency = change?.adjacency.filter(Adjacency::is_resolved)?;
    adjacency.header()[..6].try_into().ok()
}

#[test]
fn an_answer_resolves_and_an_announcement_does_not() {
    let mut table = neighbours(8);
    let id = table.resolve(at(0), N6, peer()).expect("there is room");
    assert_eq!(run(&mut table, 0, 0), [MacAddr::BROADCAST]);
    assert!(last_change(&mut table).is_some_and(|change| change.adjacency.is_some_and(|a| !a.is_resolved())));
    table.handle_message(at(0), N6, peer(), OTHER, NeighbourMessage::Announcement);
    assert!(!table.is_resolved(id));
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    assert!(table.is_resolved(id));
    assert_eq!(mac_of(last_change(&mut table)), Some(PEER.0));
}

#[test]
fn only_requested_neighbours_are_learnt() {
    let mut table = neighbours(8);
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Announcement);
    assert!(table.is_empty());
    assert_eq!(table.poll_change(), None);
}

#[test]
fn a_silent_neighbour_is_given_up_and_forgotten() {
    let mut table = neighbours(8);
    let id = table.resolve(at(0), N6, peer()).expect("there is room");
    assert_eq!(run(&mut table, 0, 3), [MacAddr::BROADCAST; 3]);
    assert!(!table.is_resolved(id));
    assert_eq!(table.len(), 1);
    table.resolve(at(4), N6, peer()).expect("it is there");
    assert_eq!(run(&mut table, 4, 8), []);
    assert_eq!(table.len(), 0);
    assert!(last_change(&mut table).is_some_and(|change| change.adjacency.is_none()));
    assert_eq!(table.poll_timeout(), None);
}

#[test]
fn a_silent_gateway_is_asked_for_ever() {
    let mut table = neighbours(8);
    let id = table.pin(at(0), N6, peer()).expect("there is room");
    assert!(run(&mut table, 0, 100).len() > 30);
    assert_eq!(table.find(N6, peer()), Some(id));
    assert_eq!(
        run(&mut table, 101, 104).len(),
        3,
        "once a second, but for the one in which it is given up"
    );
    table.handle_message(at(104), N6, peer(), PEER, NeighbourMessage::Reply);
    assert!(table.is_resolved(id));
}

#[test]
fn what_is_known_is_checked_before_it_is_doubted() {
    let mut table = neighbours(8);
    table.resolve(at(0), N6, peer()).expect("there is room");
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    run(&mut table, 0, 0);
    assert_eq!(run(&mut table, 1, 29), []);
    assert_eq!(run(&mut table, 30, 31), [PEER; 2]);
    table.handle_message(at(31), N6, peer(), PEER, NeighbourMessage::Reply);
    assert_eq!(run(&mut table, 32, 60), []);
    assert_eq!(
        run(&mut table, 61, 66),
        [
            PEER,
            PEER,
            PEER,
            MacAddr::BROADCAST,
            MacAddr::BROADCAST,
            MacAddr::BROADCAST
        ]
    );
    assert!(last_change(&mut table).is_some_and(|change| change.adjacency.is_some_and(|a| a.is_resolved())));
    run(&mut table, 67, 67);
    assert!(last_change(&mut table).is_some_and(|change| change.adjacency.is_some_and(|a| !a.is_resolved())));
}

#[test]
fn a_spoofer_cannot_take_over_a_neighbour_that_answers() {
    let mut table = neighbours(8);
    table.pin(at(0), N6, peer()).expect("there is room");
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    run(&mut table, 0, 0);
    last_change(&mut table);
    for second in 1..100 {
        table.handle_message(at(second), N6, peer(), OTHER, NeighbourMessage::Reply);
        table.handle_message(at(second), N6, peer(), OTHER, NeighbourMessage::Announcement);
        for to in run(&mut table, second, second) {
            assert_eq!(to, PEER);
            table.handle_message(at(second), N6, peer(), PEER, NeighbourMessage::Reply);
        }
    }
    assert_eq!(last_change(&mut table), None);
}

#[test]
fn a_neighbour_that_moved_is_found_again() {
    let mut table = neighbours(8);
    table.resolve(at(0), N6, peer()).expect("there is room");
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    table.handle_message(at(10), N6, peer(), OTHER, NeighbourMessage::Announcement);
    let mut second = 10;
    while !run(&mut table, second, second).contains(&MacAddr::BROADCAST) || second == 10 {
        second += 1;
        assert!(second < 20, "everyone is asked within ten seconds");
    }
    table.handle_message(at(second), N6, peer(), OTHER, NeighbourMessage::Reply);
    assert_eq!(mac_of(last_change(&mut table)), Some(OTHER.0));
}

#[test]
fn static_entries_never_change() {
    let mut table = neighbours(8);
    let id = table.add_static(N6, peer(), PEER).expect("there is room");
    assert_eq!(mac_of(last_change(&mut table)), Some(PEER.0));
    table.handle_message(at(1), N6, peer(), OTHER, NeighbourMessage::Reply);
    table.handle_message(at(1), N6, peer(), OTHER, NeighbourMessage::Announcement);
    assert_eq!(run(&mut table, 0, 100), []);
    assert_eq!(table.poll_change(), None);
    assert_eq!(table.pin(at(1), N6, peer()), Ok(id));
}

#[test]
fn a_full_table_forgets_the_unreachable_first_and_then_refuses() {
    let mut table = neighbours(2);
    let host = |last| IpAddr::from([192, 0, 2, last]);
    table.resolve(at(0), N6, host(11)).expect("there is room");
    table.pin(at(0), N6, host(12)).expect("there is room");
    assert_eq!(table.resolve(at(0), N6, host(13)), Err(NeighbourError::Full));
    run(&mut table, 0, 4);
    table
        .resolve(at(4), N6, host(13))
        .expect("host 11 was unreachable");
    assert_eq!(
        (table.find(N6, host(11)), table.find(N6, host(12)).is_some()),
        (None, true)
    );
}

#[test]
fn groups_are_no_neighbours() {
    let mut table = neighbours(8);
    let id = table.resolve(at(0), N6, peer()).expect("there is room");
    for mac in [MacAddr::BROADCAST, MacAddr::ZERO, MacAddr([1, 0, 0, 0, 0, 1])] {
        table.handle_message(at(0), N6, peer(), mac, NeighbourMessage::Reply);
    }
    assert!(!table.is_resolved(id));
}

#[test]
fn own_addresses_are_announced_to_all_stations() {
    let mut table = neighbours(8);
    table.announce();
    assert_eq!(run(&mut table, 0, 0), [MacAddr::BROADCAST]);
}

#[test]
fn a_request_for_an_own_address_is_verified_by_a_request() {
    let mut table = neighbours(4);
    table.handle_message(at(0), N6, peer(), OTHER, NeighbourMessage::Request);
    let id = table.find(N6, peer()).expect("it is asked for");
    assert_eq!(run(&mut table, 0, 0), [MacAddr::BROADCAST]);
    assert!(!table.is_resolved(id));
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    assert_eq!(mac_of(last_change(&mut table)), Some(PEER.0));
    for last in 20..30 {
        table.handle_message(
            at(0),
            N6,
            IpAddr::from([192, 0, 2, last]),
            OTHER,
            NeighbourMessage::Request,
        );
    }
    assert_eq!(table.len(), 2);
}

#[test]
fn no_question_goes_out_for_an_address_that_no_neighbour_has() {
    let mut table = neighbours(8);
    for text in [
        "192.0.2.1",
        "192.0.2.255",
        "255.255.255.255",
        "224.0.0.5",
        "127.0.0.1",
        "0.0.0.0",
        "::1",
        "ff02::2",
    ] {
        let address = text.parse().expect("an address");
        assert_eq!(
            table.resolve(at(0), N6, address),
            Err(NeighbourError::NoNeighbour),
            "{text}"
        );
        table.handle_message(at(0), N6, address, OTHER, NeighbourMessage::Request);
        if text == "192.0.2.1" {
            // An own address: rules may lead there.
            continue;
        }
        assert_eq!(
            table.refer(at(0), N6, address),
            Err(NeighbourError::NoNeighbour),
            "{text}"
        );
    }
    assert!(table.is_empty());
    assert_eq!(run(&mut table, 0, 9), []);
}

#[test]
fn rules_and_routes_lead_to_ourselves_and_packets_do_not() {
    let mut table = neighbours(8);
    let ours = "192.0.2.1".parse().expect("an address");
    let id = table.refer(at(0), N6, ours).expect("there is room");
    assert!(table.is_resolved(id));
    let change = last_change(&mut table).expect("workers receive it");
    assert_eq!((change.id, change.neighbour), (id, Some((N6, ours))));
    assert!(
        change
            .adjacency
            .is_some_and(|a| a.is_resolved() && a.port().recirculations() == 1)
    );
    assert_eq!(table.pin(at(0), N6, ours), Ok(id));
    assert_eq!(table.resolve(at(0), N6, ours), Err(NeighbourError::NoNeighbour));
    // Another station claims it.
    table.handle_message(at(1), N6, ours, OTHER, NeighbourMessage::Reply);
    assert_eq!(last_change(&mut table), None);
    assert_eq!(run(&mut table, 1, 99), []);
}

#[test]
fn what_rules_name_stays_while_it_is_held_and_then_goes() {
    let mut table = neighbours(8);
    let id = table.refer(at(0), N6, peer()).expect("there is room");
    let holds = [table.hold(id), table.hold(id)];
    // Silent, it is asked for again and again; found, it is kept.
    assert!(run(&mut table, 0, 29).len() > 10);
    table.handle_message(at(30), N6, peer(), PEER, NeighbourMessage::Announcement);
    assert_eq!(run(&mut table, 30, 30), [MacAddr::BROADCAST]);
    table.handle_message(at(30), N6, peer(), PEER, NeighbourMessage::Reply);
    let [first, second] = holds;
    drop(first);
    assert_eq!(run(&mut table, 31, 60), [PEER]);
    table.handle_message(at(60), N6, peer(), PEER, NeighbourMessage::Reply);
    last_change(&mut table);
    drop(second);
    assert_eq!(run(&mut table, 61, 91), []);
    assert!(table.is_empty());
    assert!(last_change(&mut table).is_some_and(|change| change.id == id && change.adjacency.is_none()));
}

#[test]
fn what_rules_named_and_packets_go_to_stays() {
    let mut table = neighbours(8);
    let id = table.refer(at(0), N6, peer()).expect("there is room");
    assert_eq!(table.resolve(at(0), N6, peer()), Ok(id));
    table.handle_message(at(0), N6, peer(), PEER, NeighbourMessage::Reply);
    run(&mut table, 0, 29);
    assert_eq!(run(&mut table, 30, 30), [PEER]);
    assert_eq!(table.len(), 1);
}

#[test]
fn rules_and_traffic_leave_each_other_room() {
    let mut table = neighbours(8);
    let host = |last| IpAddr::from([192, 0, 2, last]);
    for last in 10..14 {
        table.resolve(at(0), N6, host(last)).expect("half is for traffic");
    }
    assert_eq!(table.resolve(at(0), N6, host(14)), Err(NeighbourError::Full));
    let mut holds = Vec::new();
    for last in 20..24 {
        let id = table
            .refer(at(0), N6, host(last))
            .expect("the other half is free");
        holds.push(table.hold(id));
    }
    assert_eq!(table.refer(at(0), N6, host(24)), Err(NeighbourError::Full));
    // Nothing refers to it any more, so it makes room at once, for one neighbour.
    let freed = table.find(N6, host(20));
    holds.remove(0);
    assert_eq!(table.refer(at(0), N6, host(24)).ok(), freed);
    holds.push(table.hold(freed.expect("it was there")));
    assert_eq!(table.refer(at(0), N6, host(25)), Err(NeighbourError::Full));
    assert_eq!((table.len(), table.find(N6, host(20))), (8, None));
}

#[test]
fn what_makes_room_is_found_at_once_however_many_do_not_answer() {
    let mut table = neighbours(1_024);
    let host = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0xc000_0200 + number));
    let mut holds = Vec::new();
    for number in 1..200 {
        let id = table.refer(at(0), N6, host(number)).expect("there is room");
        holds.push(table.hold(id));
    }
    for number in 1_000..1_512 {
        table
            .resolve(at(0), N6, host(number))
            .expect("half is for traffic");
    }
    assert_eq!(
        table.resolve(at(0), N6, host(2_000)),
        Err(NeighbourError::Full),
        "all are being asked for"
    );
    // What rules hold and does not answer is passed over; each packet's neighbour takes the place of another.
    run(&mut table, 0, 4);
    for number in 2_000..2_512 {
        table
            .resolve(at(4), N6, host(number))
            .expect("one that does not answer goes");
        assert!(table.find(N6, host(number)).is_some());
    }
    assert_eq!(table.len(), 199 + 512);
    assert!((1..200).all(|number| table.find(N6, host(number)).is_some()));
    assert_eq!(table.resolve(at(4), N6, host(3_000)), Err(NeighbourError::Full));
}
