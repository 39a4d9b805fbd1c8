//! A full disk: what was acknowledged stays, removals are written, and room makes the store work again by itself.

use std::io::ErrorKind;

use crate::world::{MS, World, key, settings};

fn full() -> World {
    let mut world = World::new(3);
    world.keys = 60;
    world.steps(120);
    world.settle();
    let used = world.disk.state().used();
    world.disk.state().room = used;
    let mut number = 0;
    while world.store.fault().is_none() {
        world.put(key(4 + number % 56));
        number += 1;
        world.poll();
        assert!(number < 100_000);
    }
    world
}

#[test]
fn it_is_reported_and_puts_are_to_wait() {
    let mut world = full();
    let fault = world.store.fault().map(std::io::Error::kind);
    assert_eq!(fault, Some(ErrorKind::StorageFull));
    assert!(!world.store.has_room() && world.store.takes_more());
    assert!(world.store.progress().reserve_octets < settings().reserve_octets);
    // The put that met it was written all the same: the reserve was given up for it.
    assert_eq!(world.store.durable(), world.store.last());
    world.poll();
    world.assert_exact();
}

#[test]
fn removals_are_durable_on_a_full_disk_and_make_room() {
    let mut world = full();
    for number in 4..50 {
        world.remove(key(number));
        world.now += MS;
        world.poll();
        assert_eq!(world.store.durable(), world.store.last());
    }
    for _ in 0..2_000 {
        world.now += MS;
        world.poll();
    }
    // Compaction has made the room that the reserve needs: no other one came.
    assert!(world.store.fault().is_none(), "{:?}", world.store.progress());
    assert!(world.store.has_room());
    assert_eq!(world.store.progress().reserve_octets, settings().reserve_octets);
    world.put(key(5));
    world.poll();
    assert_eq!(world.store.durable(), world.store.last());
    world.assert_exact();
}

#[test]
fn with_room_it_works_again() {
    let mut world = full();
    // All of it is given up, and taken by others.
    while world.store.progress().reserve_octets > 0 {
        for number in 4..40 {
            world.remove(key(number));
            world.put(key(number));
        }
        world.now += MS;
        world.poll();
        let used = world.disk.state().used();
        world.disk.state().room = used;
    }
    world.disk.state().room = 0;
    for number in 0..20 {
        world.put(key(number));
    }
    world.now += 60 * MS;
    world.poll();
    assert!(world.store.durable() < world.store.last());
    world.disk.state().room = u64::MAX;
    world.now += 60 * MS;
    world.poll();
    assert_eq!(world.store.durable(), world.store.last());
    world.settle();
    assert!(world.store.fault().is_none());
    assert_eq!(world.store.progress().reserve_octets, settings().reserve_octets);
    world.assert_exact();
}

#[test]
fn without_room_for_the_reserve_the_store_opens_and_says_so() {
    let world = full();
    let used = world.disk.state().used();
    let disk = world.disk.after_kill();
    disk.remove_file("reserve");
    disk.state().room = used - settings().reserve_octets / 2;
    let mut world = World::on(disk, world.model, world.dice, world.next_value).expect("a disk that works");
    assert!(world.store.fault().is_some() && !world.store.has_room());
    world.remove(key(10));
    world.poll();
    world.disk.state().room = u64::MAX;
    world.now += 200 * MS;
    world.settle();
    assert!(world.store.fault().is_none() && world.store.has_room());
    world.assert_exact();
}
