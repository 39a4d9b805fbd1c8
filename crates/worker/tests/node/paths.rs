//! Routes over several routers: which path a packet takes, and what becomes of it where the path leads nowhere.

use flow::contract::Backend;
use rules::network::multipath::{PATHS, Spread};

use super::*;

const FIRST: u32 = 100;

/// A path leads to this station, or to none that is known.
fn path(number: u8, is_known: bool) -> Object {
    let mac = is_known.then_some([2, 0, 0, 0, 5, number]);
    Object::Adjacency {
        id: AdjacencyId(FIRST + u32::from(number)),
        adjacency: Adjacency {
            instance: InstanceId(2),
            address: None,
            mac,
        },
    }
}

fn server(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, number)
}

/// The path of the UE's packets to a server.
fn path_to(number: u8) -> u8 {
    Spread::between(UE.into(), server(number).into()).path()
}

/// A world with a flow of all packets of the UE, whose route leads over these paths.
fn world(first: u32) -> World {
    let mut world = World::new();
    let of_ue = AnyKey::V4(FlowKey4 {
        scope: Scope::tunnel(flow::LocalId(7)),
        teid: TEID,
        source: UE.octets(),
        fields: KeyFields::ADDRESS,
        ..FlowKey4::default()
    });
    world.give(
        Subject::Session(SESSION),
        Object::Flow(Flow {
            key: of_ue,
            ..flow(1)
        }),
    );
    let target = RouteTarget::Paths(InstanceId(2), AdjacencyId(first));
    world.give(Subject::Node, route(target));
    assert!(world.ask(Subject::Node, FlowOp::Fence).is_ok());
    world
}

/// Lets a packet to a server arrive: the station that it leaves to, or why it is an exception.
fn pass(world: &mut World, number: u8) -> Result<[u8; 6], Reason> {
    world.arrive(&uplink_to(server(number)));
    world.step();
    match (&world.sent()[..], &world.take_exceptions()[..]) {
        ([frame], []) => Ok(frame[..6].try_into().expect("6 octets")),
        ([], [(header, _)]) => Err(header.reason),
        other => panic!("one packet, and not {other:?}"),
    }
}

#[test]
fn a_packet_takes_the_path_that_its_addresses_say() {
    let mut world = world(FIRST);
    for number in 0..PATHS {
        world.give(Subject::Node, path(number, true));
    }
    for number in 0..=255 {
        let station = pass(&mut world, number);
        assert_eq!(station, Ok([2, 0, 0, 0, 5, path_to(number)]), "server {number}");
    }
}

#[test]
fn a_packet_whose_path_leads_nowhere_is_the_hosts() {
    let mut world = world(FIRST);
    let [silent, unknown] = [path_to(1), path_to(2)];
    assert_ne!(silent, unknown);
    for number in (0..PATHS).filter(|number| *number != unknown) {
        world.give(Subject::Node, path(number, number != silent));
    }
    for number in 0..=255 {
        let expected = match path_to(number) {
            path if path == silent || path == unknown => Err(Reason::Adjacency),
            path => Ok([2, 0, 0, 0, 5, path]),
        };
        assert_eq!(pass(&mut world, number), expected, "server {number}");
    }
    for number in [silent, unknown] {
        world.give(Subject::Node, path(number, true));
    }
    for number in [1, 2] {
        assert_eq!(pass(&mut world, number), Ok([2, 0, 0, 0, 5, path_to(number)]));
    }
}

#[test]
fn paths_beyond_the_room_lead_nowhere() {
    let most = World::new().host.capabilities().adjacencies;
    for first in [most - 1, most, u32::MAX - 1, u32::MAX] {
        let mut world = world(first);
        for number in 0..=255 {
            assert_eq!(
                pass(&mut world, number),
                Err(Reason::Adjacency),
                "from {first} on"
            );
        }
    }
}
