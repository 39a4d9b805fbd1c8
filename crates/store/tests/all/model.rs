//! The store is a map: against a map of the standard library, with restarts between.

use proptest::prelude::*;

use crate::world::{World, settings};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_map_and_remains_one_from_process_to_process(seed: u64, lives in prop::collection::vec((1..60usize, any::<bool>()), 1..6)) {
        let mut world = World::new(seed);
        for (steps, closes) in lives {
            world.steps(steps);
            if closes {
                prop_assert!(world.store.close(world.now));
            } else {
                world.settle();
            }
            let expected = world.model.now.clone();
            world.poll();
            world = world.after_end(true).expect("a disk that works");
            prop_assert_eq!(&world.model.now, &expected);
        }
        world.settle();
        world.assert_exact();
    }

    /// Whatever is written, and wherever the live records are.
    #[test]
    fn there_is_never_more_garbage_than_is_allowed(seed: u64, hot in 1..40usize) {
        let mut world = World::new(seed);
        world.keys = 300;
        world.steps(120);
        world.keys = hot;
        for _ in 0..400 {
            world.step();
            let progress = world.store.progress();
            // A batch may begin in an allowed state, and may be one of removals, which lower what is allowed.
            let most = 2 * progress.live_octets + 3 * settings().segment_octets + 4 * 8_000;
            prop_assert!(progress.octets <= most, "{progress:?}");
        }
        world.settle();
        let progress = world.store.progress();
        prop_assert!(progress.octets <= 2 * progress.live_octets + 3 * settings().segment_octets, "{progress:?}");
        prop_assert!(progress.removed_segments > 20);
        world.assert_exact();
    }
}
