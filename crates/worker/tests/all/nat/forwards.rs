//! Port forwards: the public port of a UE's is there before it sends anything.

use super::*;
use nat::pools::fixed::Forward;

/// A port of block 3, which stands for port 8080 of the UE.
const FORWARDED: End = (PUBLIC, 2_600);
const SERVER: End = (UE, 8_080);
const VISITOR: End = (Ipv4Addr::new(192, 0, 2, 99), 40_000);

fn forwarding(filtering: Filtering) -> Network {
    let network = network(filtering, limits());
    let pools = network.nat().pools();
    let mut pool = pools.all()[0].clone();
    pool.fixed.forwards = [proto::TCP, proto::UDP]
        .map(|protocol| Forward {
            ue: SERVER.0,
            port: SERVER.1,
            protocol,
            public: FORWARDED.0,
            public_port: FORWARDED.1,
        })
        .into();
    let bound = rules::network::BoundPool {
        pool,
        scope: Some(SessionScope::default()),
        untranslated: Vec::new(),
    };
    testing::network().with_nat(vec![bound]).expect("a pool")
}

fn world_of(filtering: Filtering) -> World {
    let mut world = World::with(forwarding(filtering), 1, |_| {});
    world.install(1, translated(session()));
    give(&mut world, 1, 3);
    world
}

/// A sender that the UE knows nothing of reaches the server, and gets answers of the address that it has sent to.
fn assert_reached(world: &mut World) {
    for protocol in [proto::TCP, proto::UDP] {
        let received = only_in_tunnel(world, 1, &packet(protocol, VISITOR, FORWARDED));
        assert_eq!(received, routed(packet(protocol, VISITOR, SERVER)));
        assert_sums(&received);
        let sent = only(world, 0, &in_tunnel(&packet(protocol, SERVER, VISITOR)));
        assert_eq!(source(&sent), FORWARDED);
        assert_sums(&sent);
    }
}

#[test]
fn what_is_unsolicited_reaches_a_forwarded_port_alone() {
    for filtering in [Filtering::EndpointIndependent, Filtering::AddressDependent] {
        let mut world = world_of(filtering);
        assert_reached(&mut world);
        // Longer than any mapping lives.
        world.now = world.now + Duration::from_secs(100_000);
        assert_reached(&mut world);
        let beside = packet(proto::UDP, VISITOR, (PUBLIC, FORWARDED.1 + 1));
        assert_eq!(reason(&mut world, 1, &beside), Some(DropReason::NatNoMapping));
        // Other ports of the UE have others of the block.
        let other = public(&mut world, proto::UDP, 1_000);
        assert!(other.0 == PUBLIC && other.1 != FORWARDED.1, "{other:?}");
    }
}

#[test]
fn a_forward_moves_with_its_session() {
    let mut world = world_of(Filtering::AddressDependent);
    let leaving = world
        .image(1, &Arc::new(translated(session())), None)
        .expect("it compiles");
    let leaving = Box::new(leaving.with_share(MeterShare::Leaving));
    let left = world.apply(0, SessionChange::Replace(leaving, ImmediateActions::default()));
    let left = left.expect("it is there").expect("what it has");
    assert_reached(&mut world);
    let mut there = World::with(forwarding(Filtering::AddressDependent), 1, |_| {});
    bring(&mut there, left.mappings);
    assert_reached(&mut there);
}

#[test]
fn an_operator_sees_that_a_forward_has_no_end() {
    let mut world = world_of(Filtering::EndpointIndependent);
    let status = inspected(&mut world, MappingsWanted::Live { most: 10 });
    let ends: Vec<_> = status
        .mappings
        .iter()
        .map(|one| (one.port, one.remaining))
        .collect();
    assert_eq!(ends, [(FORWARDED.1, Duration::MAX); 2]);
}
