//! The machine, or the process, stops at any operation.

use proptest::prelude::*;

use crate::world::{World, key};

/// Steps, then an end at this operation, then a few more; at last everything is there.
fn end_at(seed: u64, operation: u32, steps: usize) -> bool {
    let mut world = World::new(seed);
    world.keys = 14;
    world.disk.state().stops_at = Some(operation);
    world.steps(steps);
    let has_ended = world.disk.state().operations > operation;
    let is_power_cut = seed.wrapping_add(u64::from(operation)) % 3 > 0;
    let mut next = world.after_end(is_power_cut).expect("a disk that works");
    next.steps(3);
    next.settle();
    next.assert_exact();
    has_ended
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_survives_an_end_at_every_operation(seed: u64) {
        let mut operation = 4;
        while end_at(seed, operation, 60) {
            operation += 1;
        }
        prop_assert!(operation > 100);
    }
}

/// What the last batch of a process has is written again by the next one. Of a key that has two values in it the first
/// one must not be what a torn write leaves.
#[test]
fn a_torn_copy_of_the_last_batch_brings_no_older_value_back() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        for number in [4, 6, 8, 6, 4] {
            world.put(key(number));
            world.put(key(number + 20));
        }
        world.remove(key(8));
        world.poll();
        let mut next = world.after_end(false).expect("a disk that works");
        {
            // Creation, header, batch; then the machine stops at the sync.
            let mut state = next.disk.state();
            state.stops_at = Some(state.operations + 3);
        }
        next.poll();
        let next = next.after_end(true).expect("a disk that works");
        next.assert_exact();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Several times over, also while the store is opened.
    #[test]
    fn what_was_acknowledged_survives_end_after_end(
        seed: u64,
        lives in prop::collection::vec((0..50usize, 0..80u32, any::<bool>()), 1..8),
    ) {
        let mut world = World::new(seed);
        for (steps, operations, is_power_cut) in lives {
            let World { store, disk, model, dice, next_value, .. } = world;
            drop(store);
            let disk = if is_power_cut { disk.after_power_cut() } else { disk.after_kill() };
            {
                let mut state = disk.state();
                state.stops_at = Some(state.operations + operations);
            }
            // In half of the lives the disk fails now and then before.
            if operations % 2 == 0 {
                disk.state().fails_one_in = 12;
            }
            world = match World::on(disk.clone(), model.clone(), dice.clone(), next_value) {
                Some(mut world) => {
                    world.steps(steps);
                    world
                }
                None => {
                    let disk = if is_power_cut { disk.after_power_cut() } else { disk.after_kill() };
                    World::on(disk, model, dice, next_value).expect("a disk that works")
                }
            };
        }
        let mut world = world.after_end(true).expect("a disk that works");
        world.settle();
        world.assert_exact();
    }
}
