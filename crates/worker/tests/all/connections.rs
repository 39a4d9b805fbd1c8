//! Access lists that let pass to a UE only what belongs to a connection that it has begun.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::SessionIndex;
use packet::DropReason;
use packet::tuple::proto;
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{AccessAction, AccessList, ApplyAction, ConnectionPolicy, FarId, FarUpdate, Filtering};
use rules::network::Network;
use rules::testing::{N3_ADDRESS, UE, UserPacket, tunnelled};
use worker::WorkerConfig;

use crate::common::World;
use crate::common::buffering::{BUFF, LIMITS};
use crate::common::one_session::{REMOTE, TEID, events, network_with, session, session_in};

/// Another host of the data network.
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// A minute is added to each lifetime, and a little.
const PERIOD: Duration = Duration::from_secs(70);

fn network(filtering: Filtering, rejects: bool) -> Network {
    let list = AccessList::new("list", Vec::new(), AccessAction::Solicited).expect("few");
    network_with(list.with_policy(ConnectionPolicy { filtering, rejects }))
}

fn world_with(filtering: Filtering, configure: impl Fn(&mut WorkerConfig)) -> World {
    let network = network(filtering, false);
    let rules = session_in(&network);
    let mut world = World::with(network, 1, configure);
    world.install(1, rules);
    world
}

fn world() -> World {
    world_with(Filtering::AddressDependent, |_| ())
}

fn tunnel(user: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], user)
}

/// Whether a packet of the UE passes.
fn sends(world: &mut World, user: &[u8]) -> bool {
    !world.send(0, &tunnel(user)).is_empty()
}

/// Whether a packet to the UE passes.
fn gets(world: &mut World, user: &[u8]) -> bool {
    !world.send(1, user).is_empty()
}

fn wait(world: &mut World, time: Duration) {
    // In steps, so that workers age what they have.
    for _ in 0..20 {
        world.now = world.now + time / 20;
        world.poll();
    }
}

fn udp_to(remote: Ipv4Addr, port: u16) -> Vec<u8> {
    UserPacket::udp(UE, remote, 4000, port).bytes()
}

fn udp_from(remote: Ipv4Addr, port: u16) -> Vec<u8> {
    UserPacket::udp(remote, UE, port, 4000).bytes()
}

const SYN: u8 = 2;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const RST: u8 = 4;

/// A segment between port 4000 of the UE and port 443 of the host.
fn tcp(is_uplink: bool, flags: u8) -> Vec<u8> {
    let mut packet = match is_uplink {
        true => UserPacket::udp(UE, REMOTE, 4000, 443),
        false => UserPacket::udp(REMOTE, UE, 443, 4000),
    };
    packet.proto = proto::TCP;
    let mut octets = packet.bytes();
    octets[20 + 13] = flags;
    octets
}

/// An ICMP message that begins with these octets.
fn icmp(src: Ipv4Addr, dst: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let mut octets = UserPacket {
        proto: proto::ICMP,
        payload: vec![0; 64],
        ..UserPacket::udp(src, dst, 0, 0)
    }
    .bytes();
    octets[20..20 + message.len()].copy_from_slice(message);
    octets
}

#[test]
fn only_what_the_ue_has_asked_for_comes_to_it() {
    let mut world = world();
    for _ in 0..2 {
        assert!(!gets(&mut world, &udp_from(REMOTE, 53)));
    }
    let stats = world.workers[0].stats().clone();
    assert_eq!((stats.dropped(DropReason::AccessList), stats.installed), (2, 0));
    // Of each packet that was dropped there is a count.
    let counts = world.workers[0].access_counts().to_vec();
    assert_eq!((counts[1].packets, counts[1].flows), (2, 2));

    assert!(sends(&mut world, &udp_to(REMOTE, 53)));
    for _ in 0..2 {
        assert!(gets(&mut world, &udp_from(REMOTE, 53)));
    }
    let stats = world.workers[0].stats().clone();
    assert_eq!((stats.installed, stats.hits), (2, 1));
    assert!(!gets(&mut world, &udp_from(OTHER, 53)));
    assert!(!gets(&mut world, &UserPacket::udp(REMOTE, UE, 53, 4001).bytes()));
    assert_eq!(world.workers[0].holdings().connections, 1);
    world.assert_conserved();
}

#[test]
fn the_filtering_says_who_may_answer() {
    use Filtering::{AddressAndPortDependent, AddressDependent, EndpointIndependent};
    for (filtering, same_port, same_address, other) in [
        (EndpointIndependent, true, true, true),
        (AddressDependent, true, true, false),
        (AddressAndPortDependent, true, false, false),
    ] {
        let mut world = world_with(filtering, |_| ());
        sends(&mut world, &udp_to(REMOTE, 53));
        assert_eq!(
            gets(&mut world, &udp_from(REMOTE, 53)),
            same_port,
            "{filtering:?}"
        );
        assert_eq!(
            gets(&mut world, &udp_from(REMOTE, 54)),
            same_address,
            "{filtering:?}"
        );
        assert_eq!(gets(&mut world, &udp_from(OTHER, 53)), other, "{filtering:?}");
    }
}

#[test]
fn who_is_unsolicited_gets_an_icmp_error_if_the_list_says_so() {
    let network = network(Filtering::AddressDependent, true);
    let rules = session_in(&network);
    let mut world = World::with(network, 1, |_| ());
    world.install(1, rules);
    let answers = world.send(1, &udp_from(REMOTE, 53));
    let [(port, error)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((port.0, &error[14 + 20..14 + 22]), (1, &[3, 13][..]));
}

/// RFC 5382 REQ-5, RFC 6092 REC-35: a connection that was established and is idle lives for two hours and four minutes.
#[test]
fn a_connection_of_tcp_lives_long_once_it_is_established() {
    let mut world = world();
    assert!(!gets(&mut world, &tcp(false, SYN)));
    assert!(sends(&mut world, &tcp(true, SYN)));
    assert_eq!(world.workers[0].flows(), 0, "a SYN leaves no entry");
    establish(&mut world);
    wait(&mut world, Duration::from_secs(7_400));
    assert!(gets(&mut world, &tcp(false, ACK)), "after two hours");
    wait(&mut world, Duration::from_secs(7_440) + PERIOD);
    assert!(!gets(&mut world, &tcp(false, ACK)), "after four more");

    // What was never established is forgotten after four minutes.
    assert!(sends(&mut world, &tcp(true, SYN)));
    wait(&mut world, Duration::from_secs(239));
    assert!(gets(&mut world, &tcp(false, SYN_ACK)));
    wait(&mut world, PERIOD + Duration::from_secs(2));
    assert!(!gets(&mut world, &tcp(false, SYN_ACK)));
}

#[test]
fn a_connection_of_tcp_that_was_closed_ends_soon_whatever_its_ends_send() {
    for (filtering, is_uplink, flags) in [
        (Filtering::AddressAndPortDependent, true, FIN),
        (Filtering::AddressAndPortDependent, false, FIN),
        (Filtering::AddressAndPortDependent, true, RST),
        (Filtering::AddressAndPortDependent, false, RST),
        (Filtering::AddressDependent, true, FIN),
        (Filtering::EndpointIndependent, true, FIN),
        (Filtering::AddressDependent, true, RST),
    ] {
        let mut world = world_with(filtering, |_| ());
        establish(&mut world);
        match is_uplink {
            true => assert!(sends(&mut world, &tcp(true, flags))),
            false => assert!(gets(&mut world, &tcp(false, flags))),
        }
        // Its other end sends all the time, and the UE has only RST for that.
        let passed = (0..60)
            .take_while(|_| {
                wait(&mut world, Duration::from_secs(10));
                sends(&mut world, &tcp(true, RST));
                gets(&mut world, &tcp(false, ACK))
            })
            .count();
        assert!((24..=37).contains(&passed), "{is_uplink} {flags:x}: {passed}");
        assert!(sends(&mut world, &tcp(true, SYN)) && gets(&mut world, &tcp(false, SYN_ACK)));
    }
}

fn establish(world: &mut World) {
    assert!(sends(world, &tcp(true, SYN)) && gets(world, &tcp(false, SYN_ACK)));
    assert!(sends(world, &tcp(true, ACK)));
}

/// Where others may send to the UE's port, none of them ends what it has with another.
#[test]
fn a_segment_from_outside_shortens_no_connection_that_others_may_belong_to() {
    for filtering in [Filtering::AddressDependent, Filtering::EndpointIndependent] {
        let mut world = world_with(filtering, |_| ());
        establish(&mut world);
        assert!(gets(&mut world, &tcp(false, RST)) && gets(&mut world, &tcp(false, FIN)));
        // A second connection of the same port opens.
        let mut other = tcp(true, SYN);
        other[20 + 3] ^= 1;
        assert!(sends(&mut world, &other));
        wait(&mut world, Duration::from_secs(7_400));
        assert!(gets(&mut world, &tcp(false, ACK)), "{filtering:?}");
    }
}

/// A UE whose flows find no room for entries closes its connections all the same.
#[test]
fn a_fin_of_a_flow_without_an_entry_closes() {
    let mut world = world_with(Filtering::AddressDependent, |config| {
        config.flow_limits.per_session = 1;
        config.connections.connections = 100;
    });
    assert!(sends(&mut world, &udp_to(REMOTE, 53)));
    establish(&mut world);
    assert!(sends(&mut world, &tcp(true, FIN)));
    for _ in 0..5 {
        wait(&mut world, Duration::from_secs(100));
    }
    assert_eq!(world.workers[0].holdings().connections, 0);
}

/// What the UE answers to others begins nothing: they cannot use up what it may have.
#[test]
fn answers_of_the_ue_begin_no_connection() {
    let mut world = world();
    for flags in [RST, RST | ACK, SYN_ACK, FIN] {
        assert!(sends(&mut world, &tcp(true, flags)));
    }
    assert!(sends(&mut world, &icmp(UE, REMOTE, &[0, 0])));
    assert!(sends(&mut world, &icmp(UE, REMOTE, &[3, 3])));
    assert_eq!(world.workers[0].holdings().connections, 0);
    // What is not answered is not established.
    assert!(sends(&mut world, &tcp(true, ACK)));
    wait(&mut world, Duration::from_secs(240) + PERIOD);
    assert!(!gets(&mut world, &tcp(false, ACK)));
}

/// A connection lives as long as its flows, whose packets are never looked for among the connections.
#[test]
fn flows_in_use_keep_their_connection() {
    let mut world = world_with(Filtering::AddressDependent, |config| {
        config.connections.connections = 100;
    });
    sends(&mut world, &udp_to(REMOTE, 53));
    for _ in 0..60 {
        wait(&mut world, Duration::from_secs(20));
        assert!(sends(&mut world, &udp_to(REMOTE, 53)));
    }
    // Each period one of its packets is decided anew, none is dropped.
    let stats = world.workers[0].stats().clone();
    assert!((15..=30).contains(&stats.revalidated), "{}", stats.revalidated);
    wait(&mut world, Duration::from_secs(290));
    assert!(gets(&mut world, &udp_from(REMOTE, 53)));
    // What comes keeps it, too.
    for _ in 0..60 {
        wait(&mut world, Duration::from_secs(20));
        assert!(gets(&mut world, &udp_from(REMOTE, 53)));
    }
    wait(&mut world, Duration::from_secs(300) + PERIOD);
    assert!(!gets(&mut world, &udp_from(REMOTE, 53)));
    for _ in 0..3 {
        wait(&mut world, Duration::from_secs(300));
    }
    assert_eq!(world.workers[0].holdings().connections, 0, "it is forgotten");
}

/// RFC 4787 REQ-6: where anyone may send to the UE's port, only the UE keeps it open.
#[test]
fn others_keep_no_port_open() {
    let mut world = world_with(Filtering::EndpointIndependent, |_| ());
    sends(&mut world, &udp_to(REMOTE, 53));
    let passed = (0..60)
        .take_while(|_| {
            wait(&mut world, Duration::from_secs(10));
            gets(&mut world, &udp_from(OTHER, 53))
        })
        .count();
    assert!((30..=44).contains(&passed), "{passed}");
}

#[test]
fn of_icmp_answers_pass_and_errors_about_what_the_ue_has_sent() {
    let mut world = world();
    let (request, reply) = ([8, 0], [0, 0]);
    assert!(!gets(&mut world, &icmp(REMOTE, UE, &reply)));
    assert!(sends(&mut world, &icmp(UE, REMOTE, &request)));
    for _ in 0..2 {
        assert!(gets(&mut world, &icmp(REMOTE, UE, &reply)));
        assert!(!gets(&mut world, &icmp(REMOTE, UE, &request)));
        assert!(!gets(&mut world, &icmp(OTHER, UE, &reply)));
    }
    // An error comes from anywhere. It quotes the header and eight octets (RFC 792).
    let error = |about: &[u8]| {
        let mut message = vec![3, 1, 0, 0, 0, 0, 0, 0];
        message.extend(&about[..28]);
        icmp(OTHER, UE, &message)
    };
    assert!(gets(&mut world, &error(&icmp(UE, REMOTE, &request))));
    assert!(!gets(&mut world, &error(&udp_to(REMOTE, 53))));
    assert!(sends(&mut world, &udp_to(REMOTE, 53)));
    assert!(gets(&mut world, &error(&udp_to(REMOTE, 53))));
    assert!(!gets(&mut world, &error(&udp_to(OTHER, 53))));
    assert!(!gets(&mut world, &error(&udp_from(REMOTE, 53))), "not the UE's");
    assert!(!gets(
        &mut world,
        &icmp(OTHER, UE, &[3, 1, 0, 0, 0, 0, 0, 0, 0x45])
    ));
    world.assert_conserved();
}

#[test]
fn a_session_has_a_highest_number() {
    let mut world = world_with(Filtering::AddressAndPortDependent, |config| {
        config.connections.per_session = 4;
    });
    for port in 0..10 {
        assert_eq!(sends(&mut world, &udp_to(REMOTE, port)), port < 4);
    }
    let stats = world.workers[0].stats().clone();
    assert_eq!(stats.dropped(DropReason::ConnectionLimit), 6);
    assert_eq!(stats.connections_refused, 6);
    assert!(gets(&mut world, &udp_from(REMOTE, 3)) && !gets(&mut world, &udp_from(REMOTE, 4)));
    // When they have ended there is room: within a round through the map, which takes 80 polls.
    for _ in 0..9 {
        wait(&mut world, Duration::from_secs(200));
    }
    assert!(sends(&mut world, &udp_to(REMOTE, 5)));
    world.assert_conserved();
}

/// A session may have a sixteenth of what is left, and 64 where that is less.
#[test]
fn one_session_leaves_room_for_others() {
    for (connections, own) in [(3_200, 188), (640, 64), (40, 40)] {
        let mut world = world_with(Filtering::AddressAndPortDependent, |config| {
            config.connections.connections = connections;
        });
        let begun = (0..1_000).take_while(|port| sends(&mut world, &udp_to(REMOTE, *port)));
        assert_eq!(begun.count(), own, "of {connections}");
    }
}

/// A session's connections end with it, also for the next one with its number and address.
#[test]
fn a_session_takes_its_connections_with_it() {
    let mut world = world_with(Filtering::AddressDependent, |config| {
        config.connections.connections = 4;
    });
    let rules = session_in(&world.network);
    for _ in 0..10 {
        for port in 0..4 {
            let user = UserPacket::udp(UE, REMOTE, 5000 + port, 53).bytes();
            assert!(sends(&mut world, &user), "{port}");
        }
        world
            .apply(0, SessionChange::Remove(SessionIndex(1)))
            .expect("it is there");
        // Those that were are forgotten bit by bit.
        wait(&mut world, Duration::from_secs(140));
        world.install(1, rules.clone());
        assert!(!gets(&mut world, &UserPacket::udp(REMOTE, UE, 53, 5000).bytes()));
    }
}

/// A list that is given another filtering counts no connection twice, and ends none that is in use.
#[test]
fn another_filtering_takes_the_place_of_the_one_before() {
    let mut world = world_with(Filtering::AddressDependent, |config| {
        config.connections.per_session = 4;
    });
    let image = world
        .image(1, &Arc::new(session_in(&world.network)), None)
        .expect("good rules");
    for port in 0..4 {
        assert!(sends(
            &mut world,
            &UserPacket::udp(UE, REMOTE, 5000 + port, 53).bytes()
        ));
    }
    let other = session_in(&network(Filtering::AddressAndPortDependent, false));
    world.change(&image, ImmediateActions::default(), |rules| *rules = other);
    assert!(gets(&mut world, &UserPacket::udp(REMOTE, UE, 53, 5000).bytes()));
    for port in 0..4 {
        assert!(sends(
            &mut world,
            &UserPacket::udp(UE, REMOTE, 5000 + port, 53).bytes()
        ));
    }
    assert_eq!(world.workers[0].stats().connections_refused, 0);
}

/// What a session had before it came to this worker is not known: what does not open a connection passes for as long as
/// one may live, and no longer.
#[test]
fn a_session_from_elsewhere_goes_on() {
    let network = network(Filtering::AddressDependent, false);
    let rules = session_in(&network);
    let mut world = World::with(network, 1, |_| ());
    let rules = Arc::new(rules);
    let install = |world: &mut World, comes_from_elsewhere: bool| {
        let mut image = world.image(1, &rules, None).expect("good rules");
        if comes_from_elsewhere {
            image.comes_from_elsewhere();
        }
        world
            .apply(0, SessionChange::Install(image))
            .expect("there is room");
    };
    install(&mut world, true);
    // What comes begins nothing: the UE's own packets do.
    for port in 1..200 {
        assert!(gets(&mut world, &UserPacket::udp(OTHER, UE, 53, port).bytes()));
    }
    assert_eq!(world.workers[0].holdings().connections, 0);
    assert!(!gets(&mut world, &tcp(false, SYN)));
    assert!(!gets(&mut world, &icmp(REMOTE, UE, &[8, 0])));
    assert!(gets(&mut world, &tcp(false, ACK)) && gets(&mut world, &udp_from(REMOTE, 53)));
    wait(&mut world, Duration::from_secs(300) + PERIOD);
    assert!(!gets(&mut world, &udp_from(OTHER, 53)), "none of UDP is so old");
    let late = UserPacket {
        proto: proto::TCP,
        ..UserPacket::udp(OTHER, UE, 443, 4000)
    };
    assert!(gets(&mut world, &late.bytes()));
    wait(&mut world, Duration::from_secs(7_440) + PERIOD);
    wait(&mut world, Duration::from_secs(7_440) + PERIOD);
    assert!(!gets(&mut world, &late.bytes()), "none of TCP is so old");

    world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    install(&mut world, false);
    assert!(!gets(&mut world, &tcp(false, ACK)), "a new session has none");
}

/// A list that a session gets while it is in use does not end what it has.
#[test]
fn a_list_that_comes_later_ends_no_connection() {
    let with_list = network(Filtering::AddressDependent, false);
    let (before, after) = (session(), session_in(&with_list));
    let mut world = World::with(with_list, 1, |_| ());
    let old = world.install(1, before);
    assert!(gets(&mut world, &tcp(false, ACK)));
    world.change(&old, ImmediateActions::default(), |rules| *rules = after);
    assert!(!gets(&mut world, &tcp(false, SYN)));
    assert!(gets(&mut world, &tcp(false, ACK)));
}

/// An idle UE is not paged for what it has not asked for.
#[test]
fn what_is_unsolicited_pages_no_ue() {
    let network = network(Filtering::AddressDependent, false);
    let rules = session_in(&network);
    let mut world = World::with(network, 1, |config| config.buffers = LIMITS);
    let image = world.install(1, rules);
    assert!(sends(&mut world, &udp_to(REMOTE, 53)));
    world.change(&image, ImmediateActions::default(), |rules| {
        let update = FarUpdate {
            action: Some(BUFF.with(ApplyAction::NOCP)),
            ..FarUpdate::new(FarId(2))
        };
        rules.update_far(update).expect("it is there");
    });
    events(&mut world);
    assert!(!gets(&mut world, &udp_from(OTHER, 53)));
    assert_eq!(events(&mut world).len(), 0);
    assert!(!gets(&mut world, &udp_from(REMOTE, 53)), "it waits");
    assert_eq!(world.workers[0].stats().buffered, 1);
    assert_eq!(events(&mut world).len(), 1);
    world.assert_conserved();
}
