//! Port blocks of sessions: one owner at a time, whatever comes between; the log says who at every instant.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Nanos, SessionIndex, WorkerId};
use nat::blocks::QUARANTINE;
use nat::pools::{BlockId, NatPoolId, PortBlock};
use proptest::prelude::*;
use rules::model::LocalPolicy;
use rules::network::{InstanceId, Network};
use session::*;

use support::fleet;
use support::*;

/// One address of eight blocks, and another; a session may have three.
fn with_pools(network: &Network) -> Arc<Network> {
    let addresses = Ipv4Addr::new(203, 0, 113, 101)..=Ipv4Addr::new(203, 0, 113, 102);
    let mut bound = rules::testing::public_pool(network, n6(network), addresses);
    bound.pool.ports = 1_024..=2_047;
    bound.pool.block_bits = 7;
    bound.pool.limits.blocks = 3;
    Arc::new(network.clone().with_nat(vec![bound]).expect("a pool"))
}

fn n6(network: &Network) -> InstanceId {
    let instance = network.first_with(rules::network::Roles::N6);
    instance.expect("a data network").id
}

fn config(workers: u16) -> Config {
    Config {
        accept_cp_f_teids: true,
        port_block_log: true,
        ..Config::for_workers(workers)
    }
}

fn world(workers: u16) -> World {
    World::over(config(workers), with_pools(&fleet::network()))
}

fn translated(number: u32) -> Changes {
    Changes {
        local_policy: Some(LocalPolicy {
            nat: Some(NatPoolId(0)),
            ..LocalPolicy::default()
        }),
        ..chosen_session(Ipv4Addr::from_bits(UE.to_bits() + number))
    }
}

/// Who holds what by control, and whether the workers know the same.
fn holders(world: &mut World, sessions: &[Seid]) -> BTreeMap<PortBlock, Seid> {
    world.run();
    let mut holders = BTreeMap::new();
    for seid in sessions {
        let view = world.sessions.session(*seid).expect("a session");
        let (index, bucket) = (view.index(), view.bucket());
        let blocks = world.sessions.port_blocks(index);
        let addresses: BTreeSet<Ipv4Addr> = blocks.iter().map(|block| block.address).collect();
        assert!(addresses.len() <= 1, "paired: {blocks:?}");
        for block in blocks {
            assert_eq!(holders.insert(block, *seid), None, "two owners of {block:?}");
            let id = block_id(block);
            assert_eq!(world.sessions.port_block_owner(id), Some(index));
            let holder = world.sessions.port_block_holder(id);
            assert_eq!(holder.map(|holder| holder.seid), Some(*seid));
            for worker in &world.fleet.workers {
                assert_eq!(
                    worker.block_buckets.get(&id),
                    Some(&bucket),
                    "every worker knows whose it is"
                );
            }
        }
    }
    for worker in &world.fleet.workers {
        assert_eq!(worker.block_buckets.len(), holders.len(), "and of no others");
    }
    holders
}

fn block_id(block: PortBlock) -> BlockId {
    let network = with_pools(&fleet::network());
    network.nat().pools().id_of(NatPoolId(0), block).expect("a block")
}

fn log(world: &mut World) -> Vec<PortBlockEvent> {
    std::iter::from_fn(|| world.sessions.poll_port_block_event()).collect()
}

#[test]
fn a_session_has_a_block_as_long_as_it_lives() {
    let mut world = world(2);
    let seid = world.establish(1, translated(0)).unwrap().seid;
    assert_eq!(holders(&mut world, &[seid]).len(), 1);
    let index = world.sessions.session(seid).unwrap().index();
    for blocks in [2, 3, 3] {
        world.sessions.port_block_wanted(world.now, index);
        assert_eq!(holders(&mut world, &[seid]).len(), blocks);
    }
    let returned = world.sessions.port_blocks(index)[1];
    world
        .sessions
        .port_block_returned(world.now, index, block_id(returned));
    assert_eq!(holders(&mut world, &[seid]).len(), 2);
    world.delete(seid).unwrap();
    assert_eq!(holders(&mut world, &[]).len(), 0);
    let events = log(&mut world);
    assert_eq!(events.iter().filter(|event| event.is_assigned).count(), 3);
    assert_eq!(events.len(), 6);
    assert!(
        events
            .iter()
            .all(|event| event.holder.inside == UE && event.holder.seid == seid)
    );
    world.assert_clean();
}

#[test]
fn a_session_without_a_pool_has_none() {
    let mut world = world(1);
    let seid = world.establish(1, chosen_session(UE)).unwrap().seid;
    assert!(holders(&mut world, &[seid]).is_empty());
    assert_eq!(log(&mut world), []);
}

#[test]
fn a_pool_that_is_exhausted_takes_from_nobody() {
    let mut world = world(1);
    let seids: Vec<Seid> = (0..17)
        .map(|number| world.establish(number.into(), translated(number)).unwrap().seid)
        .collect();
    let before = holders(&mut world, &seids);
    assert_eq!(before.len(), 16);
    let status = world.sessions.nat_status(world.now)[0];
    assert_eq!((status.blocks.held, status.exhausted), (16, 1));
    let last = world.sessions.session(seids[16]).unwrap().index();
    world.sessions.port_block_wanted(world.now, last);
    assert_eq!(holders(&mut world, &seids), before);
    world.delete(seids[0]).unwrap();
    world.sessions.port_block_wanted(world.now, last);
    assert_eq!(holders(&mut world, &seids[1..]).len(), 15, "its block rests");
    world.pass(QUARANTINE + Duration::from_millis(100));
    world.sessions.port_block_wanted(world.now, last);
    assert_eq!(holders(&mut world, &seids[1..]).len(), 16);
}

#[test]
fn a_session_that_comes_from_elsewhere_brings_its_blocks() {
    let mut world = world(2);
    let seid = world.establish(1, translated(0)).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    world.sessions.port_block_wanted(world.now, index);
    world.run();
    let blocks = world.sessions.port_blocks(index);
    let kept = world.sessions.to_keep(seid).expect("it is live").1.record;
    assert_eq!(kept.port_blocks, blocks);
    let network = with_pools(&fleet::network());
    let read = world.read_back(&kept, &network);
    assert_eq!(read.port_blocks, blocks);
    let mut there = World::over(config(2), Arc::clone(&network));
    let ticket = there.ticket();
    there.sessions.import(there.now, ticket, SMF, &read).unwrap();
    assert_eq!(holders(&mut there, &[seid]).len(), 2);
    let index = there.sessions.session(seid).unwrap().index();
    assert_eq!(there.sessions.port_blocks(index), blocks);
    let image = there.fleet.images()[0];
    assert_eq!(
        image.installation.nat.blocks,
        blocks.iter().map(|block| block_id(*block)).collect::<Vec<_>>()
    );
}

#[derive(Clone, Debug)]
enum Step {
    Establish(u32),
    Delete(usize),
    Want(usize),
    Return(usize, usize),
    Move(usize, u16),
    EndAssociation,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40u32).prop_map(Step::Establish),
        2 => any::<usize>().prop_map(Step::Delete),
        4 => any::<usize>().prop_map(Step::Want),
        2 => any::<(usize, usize)>().prop_map(|(session, block)| Step::Return(session, block)),
        1 => (any::<usize>(), 0..2u16).prop_map(|(session, worker)| Step::Move(session, worker)),
        1 => Just(Step::EndAssociation),
        3 => (0..90_000u64).prop_map(Step::Pass),
    ]
}

/// When which session held a block, as control had it after each step.
type Truth = Vec<(Nanos, BTreeMap<PortBlock, Seid>)>;

proptest! {
    #[test]
    fn blocks_have_one_owner_and_the_log_says_which(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = world(2);
        let mut live: Vec<Seid> = Vec::new();
        let mut events = Vec::new();
        let mut truth: Truth = Vec::new();
        let mut freed: BTreeMap<PortBlock, (Seid, Nanos)> = BTreeMap::new();
        let mut before = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            let at = |place: usize, live: &[Seid]| (!live.is_empty()).then(|| live[place % live.len()]);
            let index_of = |world: &World, seid| world.sessions.session(seid).unwrap().index();
            match step {
                Step::Establish(ue) => {
                    if let Ok(done) = world.establish(number as u64 + 1, translated(ue)) {
                        live.push(done.seid);
                    }
                }
                Step::Delete(place) => if let Some(seid) = at(place, &live) {
                    world.delete(seid).unwrap();
                    live.retain(|one| *one != seid);
                },
                Step::Want(place) => if let Some(seid) = at(place, &live) {
                    let index = index_of(&world, seid);
                    world.sessions.port_block_wanted(world.now, index);
                },
                Step::Return(place, block) => if let Some(seid) = at(place, &live) {
                    let index = index_of(&world, seid);
                    let blocks = world.sessions.port_blocks(index);
                    if blocks.len() > 1 {
                        let id = block_id(blocks[block % blocks.len()]);
                        world.sessions.port_block_returned(world.now, index, id);
                    }
                },
                Step::Move(place, worker) => if let Some(seid) = at(place, &live) {
                    let bucket = world.sessions.session(seid).unwrap().bucket();
                    let _ = world.sessions.move_bucket(world.now, bucket, WorkerId(worker));
                },
                Step::EndAssociation => {
                    world.end_association();
                    live.clear();
                }
                Step::Pass(millis) => world.pass(Duration::from_millis(millis)),
            }
            let holds = holders(&mut world, &live);
            for (block, seid) in &holds {
                if let Some((other, until)) = freed.get(block) {
                    let is_new = before.get(block) != Some(seid);
                    prop_assert!(!is_new || other == seid || world.now.since(*until) >= QUARANTINE, "quarantine");
                }
            }
            for (block, seid) in &before {
                if holds.get(block) != Some(seid) {
                    freed.insert(*block, (*seid, world.now));
                }
            }
            before = holds.clone();
            truth.push((world.now, holds));
            events.extend(log(&mut world));
            // The log so far, replayed.
            let mut open: BTreeMap<PortBlock, Seid> = BTreeMap::new();
            for event in &events {
                match event.is_assigned {
                    true => prop_assert_eq!(open.insert(event.block, event.holder.seid), None),
                    false => prop_assert_eq!(open.remove(&event.block), Some(event.holder.seid)),
                }
            }
            prop_assert_eq!(&open, &before);
        }
        prop_assert!(events.is_sorted_by_key(|event| event.at));
        let _ = SessionIndex(0);
    }
}

/// Lets one worker do all that it has to do.
fn step_worker(world: &mut World, worker: WorkerId) {
    world.hand_over();
    while let Some(answer) = world.fleet.worker(worker).step() {
        if let Some((op, result)) = answer {
            world.sessions.applied(world.now, op, result);
        }
    }
    world.hand_over();
}

/// A worker lets a session that leaves make no mappings (`MeterShare::Leaving`): where it does not leave after all, the
/// worker gets that, also if the session has no meters.
#[test]
fn a_session_makes_mappings_again_when_its_move_is_undone() {
    let mut world = world(2);
    let seid = world.establish(1, translated(0)).unwrap().seid;
    world.run();
    let bucket = world.sessions.session(seid).unwrap().bucket();
    let from = world.sessions.owner(bucket);
    world
        .sessions
        .move_bucket(world.now, bucket, WorkerId(1 - from.0))
        .unwrap();
    step_worker(&mut world, from);
    world.pass(Duration::from_secs(5));
    world.run();
    let moved = world.sessions.poll_moved().expect("the move has an end");
    assert_eq!(moved.result, Err(MoveFault::TooLate));
    let images = world.fleet.workers[from.index()].sessions.values();
    let shares: Vec<_> = images.map(|image| image.meter_share).collect();
    assert_eq!(shares, [rules::image::MeterShare::Whole]);
}

#[test]
fn a_session_without_ipv4_takes_no_block() {
    let mut world = world(1);
    let mut changes = translated(0);
    for pdr in &mut changes.create_pdrs {
        pdr.pdi.ue_ip = vec![rules::model::UeIpAddress {
            ipv4: None,
            ipv6: Some(("2001:db8:45::".parse().unwrap(), 64)),
            is_destination: true,
        }]
        .into();
    }
    let seid = world.establish(1, changes).unwrap().seid;
    assert_eq!(holders(&mut world, &[seid]).len(), 0);
}

#[test]
fn no_block_is_drawn_while_sessions_are_yet_to_come() {
    let mut world = world(1);
    world.sessions.hold_port_blocks(true);
    let seid = world.establish(1, translated(0)).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    world.sessions.port_block_wanted(world.now, index);
    assert_eq!(holders(&mut world, &[seid]).len(), 0);
    world.sessions.hold_port_blocks(false);
    world.sessions.port_block_wanted(world.now, index);
    assert_eq!(
        holders(&mut world, &[seid]).len(),
        1,
        "its worker asks until it has one"
    );
}
