//! Any sequence of procedures from two SMFs over a bad network, with restarts, against a model of the sessions that
//! ought to exist: the machine of crates/upf/tests/sequences. The input is a seed (8 octets), then steps of 8
//! octets.
#![no_main]

#[path = "../../crates/upf/tests/sequences/machine/mod.rs"]
mod machine;

use libfuzzer_sys::fuzz_target;
use machine::{Step, run};

/// Steps of one input: a run stays below a second.
const MOST: usize = 64;

fuzz_target!(|input: &[u8]| {
    let Some((seed, rest)) = input.split_first_chunk::<8>() else {
        return;
    };
    let (steps, _) = rest.as_chunks::<8>();
    let steps: Vec<Step> = steps.iter().take(MOST).copied().map(Step::decode).collect();
    run(u64::from_le_bytes(*seed), &steps);
});
