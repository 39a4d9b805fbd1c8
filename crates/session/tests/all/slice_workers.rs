//! Slices that have workers of their own: where their sessions are, what is drawn for them, and what a restart, a move
//! and another slice do.

use crate::support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use flow::{BUCKETS, Bucket, InstanceId, WorkerId, bucket};
use proptest::prelude::*;
use rules::model::*;
use session::*;

use support::*;

/// Of these workers slice 1 has the last, and slice 2 the last but one too where there are four.
fn lists(workers: u16) -> SliceWorkers {
    let last = WorkerId(workers - 1);
    let second = (workers > 3).then(|| (s_nssai(2), vec![WorkerId(workers - 2), last]));
    SliceWorkers::new([(s_nssai(1), vec![last])].into_iter().chain(second))
}

fn pools() -> Vec<Pool> {
    let all = PoolRange::ipv4([10, 46, 0, 1].into(), [10, 46, 255, 254].into()).unwrap();
    vec![Pool {
        name: "all".into(),
        instance: InstanceId(1),
        ranges: vec![all],
    }]
}

fn config(workers: u16, slice_workers: SliceWorkers) -> Config {
    Config {
        accept_cp_f_teids: true,
        pools: pools(),
        slice_workers,
        ..Config::for_workers(workers)
    }
}

fn world(workers: u16) -> World {
    World::with(config(workers, lists(workers)))
}

fn of_slice(sst: u8, changes: Changes) -> Changes {
    Changes {
        subscriber: subscriber_of(sst),
        ..changes
    }
}

/// A session whose address is to be drawn from the pool.
fn without_address() -> Changes {
    let mut changes = chosen_session(UE);
    changes
        .create_pdrs
        .iter_mut()
        .for_each(|pdr| pdr.pdi.ue_ip.clear());
    let wish = |to: PdrId| ChooseUeIp {
        to: to.into(),
        ipv4: true,
        ipv6: None,
        is_delegated: false,
        is_destination: true,
        pools: Vec::new(),
    };
    Changes {
        choose_ue_ip: vec![wish(UL), wish(DL)],
        ..changes
    }
}

fn owner_of(world: &World, seid: Seid) -> WorkerId {
    world
        .sessions
        .owner(world.sessions.session(seid).unwrap().bucket())
}

fn slice_of(view: &SessionView<'_>) -> Option<SNssai> {
    view.subscriber().and_then(|of| of.s_nssai)
}

/// That all sessions are at workers of their slices, and all workers have the exceptions that they need and no others.
fn check(world: &World) {
    let sessions = &world.sessions;
    let mut exceptions = BTreeMap::new();
    for view in sessions.iter() {
        let owner = sessions.owner(view.bucket());
        assert!(sessions.slice_workers().serves(owner, slice_of(&view)));
        assert!(
            world.fleet.workers[owner.index()]
                .sessions
                .contains_key(&view.index())
        );
        let tunnels = view.tunnels().into_iter();
        let tunnels = tunnels.map(|(local, teid)| WorkerSelectionKey::Tunnel(local, teid));
        let addresses = view.ue_addresses().into_iter();
        let keys = tunnels.chain(addresses.map(|(vrf, ue)| WorkerSelectionKey::Address(vrf, ue)));
        exceptions.extend(
            keys.filter(|key| key.bucket() != view.bucket())
                .map(|key| (key, view.bucket())),
        );
    }
    for worker in &world.fleet.workers {
        assert_eq!(worker.exceptions, exceptions);
    }
}

#[test]
fn a_slice_has_its_workers_and_no_other_session_has_them() {
    let mut world = world(4);
    for number in 0..60 {
        let slice = number as u8 % 4;
        let changes = match number % 3 {
            0 => chosen_session(neighbour(number)),
            _ => without_address(),
        };
        let done = world
            .establish(u64::from(number), of_slice(slice, changes))
            .unwrap();
        let owner = owner_of(&world, done.seid).0;
        match slice {
            1 => assert_eq!(owner, 3),
            2 => assert!([2, 3].contains(&owner), "{owner}"),
            // Without S-NSSAI, and of one that lists none.
            _ => assert!([0, 1].contains(&owner), "{owner}"),
        }
        // What is drawn needs no exception.
        let session = world.sessions.session(done.seid).unwrap();
        for (_, f_teid) in &done.created {
            assert_eq!(bucket::of_teid(f_teid.teid.0), session.bucket());
        }
        for assigned in &done.assigned {
            let address = assigned.address.ipv4.unwrap();
            assert_eq!(home(address), session.bucket());
        }
    }
    check(&world);
}

#[test]
fn what_the_control_plane_chooses_comes_by_exceptions() {
    let mut world = world(2);
    let foreign = ue_in(Bucket::new(2).unwrap(), 0);
    let own = ue_in(Bucket::new(3).unwrap(), 0);
    for (cp, ue, expected) in [(1, foreign, 2), (2, own, 1)] {
        let mut changes = of_slice(1, session(ue));
        changes.create_pdrs[0].pdi.f_teid = Some(given(stray_teid(ue) + cp as u32 * 1024));
        let done = world.establish(cp, changes).unwrap();
        assert_eq!(owner_of(&world, done.seid), WorkerId(1));
        assert_eq!(world.fleet.workers[0].exceptions.len(), expected);
        check(&world);
        world.delete(done.seid).unwrap();
        assert_eq!(world.fleet.workers[0].exceptions.len(), 0);
    }
    // Without a UE address it is where its TEID is, or in the place of that.
    for (cp, teid) in (1..=20).zip(1..) {
        let mut changes = of_slice(1, session(UE));
        changes
            .create_pdrs
            .iter_mut()
            .for_each(|pdr| pdr.pdi.ue_ip.clear());
        changes.create_pdrs[0].pdi.f_teid = Some(given(teid));
        changes.choose = vec![choose(DL, None)];
        let done = world.establish(cp, changes).unwrap();
        assert_eq!(owner_of(&world, done.seid), WorkerId(1));
    }
    check(&world);
}

#[test]
fn without_room_for_exceptions_a_request_that_needs_one_is_refused() {
    let mut world = World::with(Config {
        exceptions: 2,
        ..config(2, lists(2))
    });
    let foreign = |number| of_slice(1, chosen_session(ue_in(Bucket::new(2).unwrap(), number)));
    let own = |number| of_slice(1, chosen_session(ue_in(Bucket::new(3).unwrap(), number)));
    let first = world.establish(1, foreign(0)).unwrap();
    world.establish(2, foreign(1)).unwrap();
    assert_eq!(world.establish(3, foreign(2)), Err(Refusal::NoResources));
    world.establish(4, own(0)).unwrap();
    world.establish(5, of_slice(1, without_address())).unwrap();
    world.delete(first.seid).unwrap();
    world.establish(6, foreign(2)).unwrap();
    check(&world);
}

#[test]
fn a_session_does_not_change_to_a_slice_of_other_workers() {
    let mut world = world(4);
    let seid = world.establish(1, of_slice(1, chosen_session(UE))).unwrap().seid;
    let before = owner_of(&world, seid);
    for other in [0, 3] {
        let changes = Changes {
            subscriber: Some(subscriber_of(other).unwrap_or_default()),
            ..drop_downlink()
        };
        assert_eq!(world.modify(seid, changes), Err(Refusal::OtherWorkers));
        let alone = Changes {
            subscriber: Some(subscriber_of(other).unwrap_or_default()),
            ..Changes::default()
        };
        assert_eq!(world.modify(seid, alone), Err(Refusal::OtherWorkers));
    }
    let view = world.sessions.session(seid).unwrap();
    assert_eq!(slice_of(&view), Some(s_nssai(1)));
    // Worker 3 serves both.
    world.modify(seid, of_slice(2, drop_downlink())).unwrap();
    let view = world.sessions.session(seid).unwrap();
    assert_eq!(slice_of(&view), Some(s_nssai(2)));
    assert_eq!(owner_of(&world, seid), before);
    check(&world);
    world.delete(seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_successor_of_another_slice_is_set_up_at_its_workers() {
    let mut world = world(2);
    let old = world.establish(1, of_slice(1, chosen_session(UE))).unwrap();
    let f_teid = old.created[0].1;
    // The same address and the same F-TEID, which are free as soon as the old one is removed.
    let mut changes = of_slice(0, session(UE));
    changes.create_pdrs[0].pdi.f_teid = Some(f_teid);
    let new = world.establish(1, changes).unwrap();
    assert_eq!(owner_of(&world, new.seid), WorkerId(0));
    assert!(world.sessions.session(old.seid).is_none());
    check(&world);
    assert_eq!(world.sessions.count().sessions, 1);
    assert!(world.fleet.workers[1].sessions.is_empty());
    world.delete(new.seid).unwrap();
    world.assert_clean();
}

#[test]
fn successors_that_wait_come_one_after_the_other() {
    let mut world = world(2);
    world.establish(1, of_slice(1, chosen_session(UE))).unwrap();
    let begin = |world: &mut World, sst: u8| {
        let ticket = world.ticket();
        let changes = of_slice(sst, chosen_session(UE));
        world
            .sessions
            .establish(world.now, ticket, SMF, cp_f_seid(1), changes);
        ticket
    };
    let tickets = [0, 1, 1, 0].map(|sst| begin(&mut world, sst));
    let outcomes = world.run();
    let results: Vec<(Ticket, bool)> = outcomes
        .iter()
        .map(|outcome| (outcome.ticket, outcome.result.is_ok()))
        .collect();
    assert_eq!(results, tickets.map(|ticket| (ticket, true)));
    let left: Vec<Seid> = world.sessions.iter().map(|view| view.seid()).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(owner_of(&world, left[0]), WorkerId(0));
    check(&world);
    world.delete(left[0]).unwrap();
    world.assert_clean();
}

/// Where lists overlap, a bucket of one slice goes to a worker that serves another one, too, and back; one that
/// both are in goes nowhere else.
#[test]
fn a_bucket_moves_to_a_worker_that_serves_more_slices_and_back() {
    let mut world = world(4);
    let mut seids = Vec::new();
    let mut of_worker = |world: &mut World, worker: u16, sst: u8| {
        loop {
            let cp = seids.len() as u64 + 1;
            let seid = world
                .establish(cp, of_slice(sst, without_address()))
                .unwrap()
                .seid;
            seids.push(seid);
            if owner_of(world, seid) == WorkerId(worker) {
                return seid;
            }
        }
    };
    let (narrow, broad) = (of_worker(&mut world, 2, 2), of_worker(&mut world, 3, 1));
    let bucket_of = |world: &World, seid| world.sessions.session(seid).unwrap().bucket();
    let (narrow_bucket, broad_bucket) = (bucket_of(&world, narrow), bucket_of(&world, broad));
    for to in [3, 2] {
        let begun = world.sessions.move_bucket(world.now, broad_bucket, WorkerId(2));
        assert_eq!(begun, Err(MoveFault::OtherSlices));
        world
            .sessions
            .move_bucket(world.now, narrow_bucket, WorkerId(to))
            .unwrap();
        world.run();
        assert!(world.sessions.poll_moved().unwrap().result.is_ok());
        assert_eq!(owner_of(&world, narrow), WorkerId(to));
        check(&world);
        // What is drawn is in the buckets that slices had at the start, and at workers that serve them.
        for sst in [1, 2] {
            let seid = of_worker(&mut world, 3, sst);
            assert!(sst == 2 || bucket_of(&world, seid) != narrow_bucket);
        }
        check(&world);
    }
    for seid in seids {
        world.delete(seid).unwrap();
    }
    world.assert_clean();
}

#[test]
fn buckets_move_only_to_workers_that_serve_their_slices() {
    let mut world = World::with(config(
        4,
        SliceWorkers::new([(s_nssai(1), vec![WorkerId(2), WorkerId(3)])]),
    ));
    let seid = world.establish(1, of_slice(1, chosen_session(UE))).unwrap().seid;
    let bucket = world.sessions.session(seid).unwrap().bucket();
    let from = owner_of(&world, seid);
    for to in [0, 1] {
        let begun = world.sessions.move_bucket(world.now, bucket, WorkerId(to));
        assert_eq!(begun, Err(MoveFault::OtherSlices));
    }
    let to = WorkerId(5 - from.0);
    world.sessions.move_bucket(world.now, bucket, to).unwrap();
    world.run();
    assert_eq!(world.sessions.poll_moved().unwrap().result, Ok(1));
    assert_eq!(owner_of(&world, seid), to);
    check(&world);
    // What is drawn after it is in the buckets that the slice had at the start.
    for cp in 2..40 {
        let seid = world.establish(cp, of_slice(1, without_address())).unwrap().seid;
        assert!(owner_of(&world, seid).0 >= 2);
    }
    check(&world);
}

#[test]
fn a_session_that_a_control_plane_sets_up_again_after_a_restart_is_known_by_its_shape() {
    let config = || Config {
        accept_cp_f_teids: false,
        restoration: std::time::Duration::from_secs(60),
        ..config(2, lists(2))
    };
    let foreign = ue_in(Bucket::new(2).unwrap(), 0);
    let mut before = World::with(config());
    let done = before.establish(1, of_slice(1, chosen_session(foreign))).unwrap();
    let mut changes = of_slice(1, session(foreign));
    changes.create_pdrs[0].pdi.f_teid = Some(done.created[0].1);
    let mut after = World::with(config());
    let done = after.establish(1, changes).unwrap();
    assert_eq!(owner_of(&after, done.seid), WorkerId(1));
    let mut changes = of_slice(1, session(UE));
    changes.create_pdrs[0].pdi.f_teid = Some(given(stray_teid(UE)));
    assert!(matches!(after.establish(2, changes), Err(Refusal::Rule { .. })));
    check(&after);
}

/// What one session is like: its slice, and whether its address and its TEID are the control plane's choice.
type Kind = (u8, bool, bool);

fn changes_of(number: u32, (slice, chooses_address, chooses_teid): Kind) -> Changes {
    let mut changes = match chooses_address {
        true => chosen_session(neighbour(number)),
        false => without_address(),
    };
    if chooses_teid {
        changes.choose.clear();
        changes.create_pdrs[0].pdi.f_teid = Some(given(0x0100_0000 + number * 7));
    }
    of_slice(slice, changes)
}

fn neighbour(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a2d_0000 + number)
}

fn slice_lists() -> impl Strategy<Value = (u16, SliceWorkers)> {
    (2_u16..6).prop_flat_map(|count| {
        let list = || proptest::collection::vec(1..count, 1..3);
        (Just(count), list(), proptest::option::of(list())).prop_map(|(count, first, second)| {
            let ids = |own: Vec<u16>| own.into_iter().map(WorkerId).collect::<Vec<_>>();
            let second = second.map(|own| (s_nssai(2), ids(own)));
            let first = (s_nssai(1), ids(first));
            (count, SliceWorkers::new([first].into_iter().chain(second)))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Sessions come back from the store of a process with other workers, and other lists: each to a worker of its
    /// slice, there with all that it had, and what is drawn for it then is in its bucket. It stays so over moves.
    #[test]
    fn a_restart_with_other_workers_brings_each_session_to_a_worker_of_its_slice(
        kinds in proptest::collection::vec((0_u8..4, any::<bool>(), any::<bool>()), 1..24),
        (before, after) in (slice_lists(), slice_lists()),
        moves in proptest::collection::vec((0..BUCKETS as u16, 0_u16..6), 0..6),
    ) {
        let mut first = World::with(config(before.0, before.1));
        let mut second = World::with(config(after.0, after.1));
        let mut seids = Vec::new();
        for (number, kind) in (0..).zip(&kinds) {
            let done = first.establish(u64::from(number), changes_of(number, *kind)).unwrap();
            seids.push(done.seid);
        }
        check(&first);
        for seid in &seids {
            let ticket = first.ticket();
            first.sessions.export(first.now, ticket, *seid, Export::Copy);
            let outcome = first.run().pop().unwrap().result.unwrap();
            let (_, record) = outcome.record.unwrap();
            let ticket = second.ticket();
            second.sessions.restore(second.now, ticket, SMF, &record).unwrap();
            prop_assert!(second.run().pop().unwrap().result.is_ok());
            let had = first.sessions.session(*seid).unwrap();
            let has = second.sessions.session(*seid).unwrap();
            prop_assert_eq!((had.tunnels(), had.ue_addresses()), (has.tunnels(), has.ue_addresses()));
            prop_assert_eq!(slice_of(&had), slice_of(&has));
        }
        check(&second);
        for (bucket, to) in moves {
            let bucket = Bucket::new(bucket).unwrap();
            let (from, to) = (second.sessions.owner(bucket), WorkerId(to));
            let home = WorkerId(bucket.index() as u16 % after.0);
            let begun = second.sessions.move_bucket(second.now, bucket, to);
            let may = to.0 < after.0 && second.sessions.slice_workers().serves_all_of(to, home) && from != to;
            prop_assert_eq!(begun.is_ok(), may);
            second.run();
            prop_assert!(second.sessions.poll_moved().is_none_or(|moved| moved.result.is_ok()));
            check(&second);
        }
        for seid in &seids {
            let done = second.modify(*seid, added_pdr(choose(PdrId(9), None))).unwrap();
            let bucket = second.sessions.session(*seid).unwrap().bucket();
            prop_assert_eq!(bucket::of_teid(done.created[0].1.teid.0), bucket);
        }
        check(&second);
        for seid in seids {
            second.delete(seid).unwrap();
        }
        second.assert_clean();
    }
}
