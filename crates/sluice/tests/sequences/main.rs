//! Sequences of procedures from two SMFs over a bad network, with restarts, against a model of the sessions that ought
//! to exist; see [`machine`]. What goes wrong here is kept below as a case with a name.
//!
//! `SLUICE_SEQUENCES` is how many sequences are played (default 48), `SLUICE_SEQUENCES_SEED` what they are drawn from.

mod machine;

use machine::{Step, run};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: setting("SLUICE_SEQUENCES", 48) as u32,
        rng_seed: RngSeed::Fixed(setting("SLUICE_SEQUENCES_SEED", 1)),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<[u8; 8]>().prop_map(Step::decode), 1..60)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn workers_hold_what_smfs_were_told_and_in_the_end_nothing(seed in any::<u64>().no_shrink(), steps in steps()) {
        run(seed, &steps);
    }
}
