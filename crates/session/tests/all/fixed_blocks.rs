//! Port blocks that are a UE's by configuration: those that follow from its address, and those of port forwards.

use crate::support;

use std::net::Ipv4Addr;
use std::sync::Arc;

use nat::pools::fixed::{Fixed, Forward};
use nat::pools::{NatPoolId, PortBlock};
use packet::tuple::proto;
use proptest::prelude::*;
use rules::model::LocalPolicy;
use rules::network::Network;
use session::*;

use support::fleet;
use support::*;

const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 101);

/// Two addresses of eight blocks each; a session may have three.
fn network(fixed: Fixed) -> Arc<Network> {
    let network = Network::clone(&fleet::network());
    let n6 = network
        .first_with(rules::network::Roles::N6)
        .expect("a data network")
        .id;
    let addresses = PUBLIC..=Ipv4Addr::new(203, 0, 113, 102);
    let mut bound = rules::testing::public_pool(&network, n6, addresses);
    bound.pool.ports = 1_024..=2_047;
    bound.pool.block_bits = 7;
    bound.pool.limits.blocks = 3;
    bound.pool.fixed = fixed;
    Arc::new(network.with_nat(vec![bound]).expect("a pool"))
}

fn world(workers: u16, network: &Arc<Network>) -> World {
    let config = Config {
        accept_cp_f_teids: true,
        port_block_log: true,
        ..Config::for_workers(workers)
    };
    World::over(config, Arc::clone(network))
}

fn ue(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(UE.to_bits() + number)
}

fn translated(number: u32) -> Changes {
    Changes {
        local_policy: Some(LocalPolicy {
            nat: Some(NatPoolId(0)),
            ..LocalPolicy::default()
        }),
        ..chosen_session(ue(number))
    }
}

fn deterministic() -> Fixed {
    Fixed {
        deterministic: Some((ue(0), 29)),
        ..Fixed::default()
    }
}

fn forward(of: u32, port: u16, public_port: u16) -> Forward {
    Forward {
        ue: ue(of),
        port,
        protocol: proto::TCP,
        public: PUBLIC,
        public_port,
    }
}

/// Two blocks are of UE 1: ports 1152 to 1279, and 1920 to 2047.
fn forwards() -> Fixed {
    Fixed {
        forwards: vec![
            forward(1, 80, 1_200),
            forward(1, 81, 2_000),
            forward(1, 82, 1_201),
        ],
        ..Fixed::default()
    }
}

fn block(address: Ipv4Addr, first: u16) -> PortBlock {
    PortBlock {
        address,
        first,
        bits: 7,
    }
}

fn blocks(world: &mut World, seid: Seid) -> Vec<PortBlock> {
    world.run();
    let index = world.sessions.session(seid).expect("a session").index();
    let network_blocks = world.sessions.port_blocks(index);
    for block in &network_blocks {
        let known = world.fleet.workers.iter().filter(|worker| {
            let buckets = &worker.block_buckets;
            buckets.len() >= network_blocks.len()
        });
        assert_eq!(
            known.count(),
            world.fleet.workers.len(),
            "every worker knows {block:?}"
        );
    }
    network_blocks
}

fn wants(world: &mut World, seid: Seid) {
    let index = world.sessions.session(seid).expect("a session").index();
    world.sessions.port_block_wanted(world.now, index);
}

#[test]
fn a_block_that_follows_from_an_address_is_the_only_one_and_not_logged() {
    let mut world = world(2, &network(deterministic()));
    // It is address number 2 of the prefix.
    let own = |number: u16| vec![block(PUBLIC, 1_024 + (2 + number) * 128)];
    for _ in 0..3 {
        // No rest between two sessions of a UE.
        let first = world.establish(1, translated(0)).unwrap().seid;
        let second = world.establish(2, translated(1)).unwrap().seid;
        assert_eq!(blocks(&mut world, first), own(0));
        assert_eq!(blocks(&mut world, second), own(1));
        wants(&mut world, first);
        assert_eq!(blocks(&mut world, first), own(0), "no further one");
        world.delete(first).unwrap();
        world.delete(second).unwrap();
    }
    let status = world.sessions.nat_status(world.now)[0];
    assert_eq!((status.blocks.held, status.blocks.resting), (0, 0));
    assert_eq!(world.sessions.poll_port_block_event(), None);
    world.assert_clean();
}

#[test]
fn a_ue_outside_of_the_prefix_has_no_block() {
    let mut world = world(1, &network(deterministic()));
    let seid = world.establish(1, translated(8)).unwrap().seid;
    assert_eq!(blocks(&mut world, seid), []);
    wants(&mut world, seid);
    assert_eq!(blocks(&mut world, seid), []);
    assert_eq!(world.sessions.nat_exhausted(), [2]);
}

#[test]
fn a_ue_with_forwards_has_their_blocks_before_any_other() {
    let mut world = world(2, &network(forwards()));
    // Others take all that they can get.
    for number in 2..16 {
        let seid = world.establish(number.into(), translated(number)).unwrap().seid;
        wants(&mut world, seid);
        for block in blocks(&mut world, seid) {
            assert!(
                ![1_152, 1_920].contains(&block.first) || block.address != PUBLIC,
                "{block:?}"
            );
        }
    }
    let status = world.sessions.nat_status(world.now)[0].blocks;
    assert_eq!((status.held, status.reserved), (14, 2));
    let own = [block(PUBLIC, 1_152), block(PUBLIC, 1_920)];
    for _ in 0..2 {
        let seid = world.establish(1, translated(1)).unwrap().seid;
        assert_eq!(blocks(&mut world, seid), own);
        world.delete(seid).unwrap();
    }
    // Whose it was is logged: which session it was does not follow from the port.
    let events = std::iter::from_fn(|| world.sessions.poll_port_block_event());
    let of_ue = events.filter(|event| event.holder.inside == ue(1)).count();
    assert_eq!(of_ue, 8);
}

/// What a session of one configuration has after a restart with another.
fn restarted(from: Fixed, to: Fixed, number: u32) -> (Vec<PortBlock>, Vec<PortBlock>) {
    let mut world = world(1, &network(from));
    let seid = world.establish(1, translated(number)).unwrap().seid;
    let before = blocks(&mut world, seid);
    let record = world.sessions.to_keep(seid).expect("it is live").1.record;
    let mut there = self::world(1, &network(to));
    let ticket = there.ticket();
    there.sessions.import(there.now, ticket, SMF, &record).unwrap();
    (before, blocks(&mut there, seid))
}

#[test]
fn a_session_has_after_a_restart_what_the_configuration_gives_it() {
    let own = vec![block(PUBLIC, 1_152), block(PUBLIC, 1_920)];
    assert_eq!(restarted(forwards(), forwards(), 1), (own.clone(), own.clone()));
    let (before, after) = restarted(deterministic(), deterministic(), 1);
    assert_eq!((before.len(), &before), (1, &after));
    // From drawn ones to forwards: the ones of the forwards' address stay beside them.
    let (drawn, after) = restarted(Fixed::default(), forwards(), 1);
    assert!(own.iter().all(|block| after.contains(block)), "{after:?}");
    assert!(
        after
            .iter()
            .all(|block| block.address == PUBLIC && (own.contains(block) || drawn.contains(block)))
    );
    // To another UE's: it is not taken away from that.
    let (drawn, after) = restarted(Fixed::default(), deterministic(), 2);
    assert_eq!((drawn.len(), after.len()), (1, 1));
    assert_eq!(after, restarted(deterministic(), deterministic(), 2).0);
}

proptest! {
    #[test]
    fn sessions_never_share_a_block_and_forwards_are_their_ues(
        steps in prop::collection::vec((0u32..6, 0u8..3), 1..60), workers in 1u16..3,
    ) {
        let mut world = world(workers, &network(forwards()));
        let mut live: Vec<(u32, Seid)> = Vec::new();
        for (number, kind) in steps {
            let known = live.iter().find(|(of, _)| *of == number).map(|(_, seid)| *seid);
            match (known, kind) {
                (None, _) => live.push((number, world.establish(number.into(), translated(number)).unwrap().seid)),
                (Some(seid), 0) => {
                    world.delete(seid).unwrap();
                    live.retain(|(_, other)| *other != seid);
                }
                (Some(seid), _) => wants(&mut world, seid),
            }
            let mut all = Vec::new();
            for (number, seid) in live.clone() {
                let own = blocks(&mut world, seid);
                let reserved = own.iter().filter(|one| {
                    one.address == PUBLIC && [1_152, 1_920].contains(&one.first)
                });
                prop_assert_eq!(reserved.count(), if number == 1 { 2 } else { 0 });
                prop_assert!(own.windows(2).all(|two| two[0].address == two[1].address));
                all.extend(own);
            }
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len(), count);
        }
    }
}
