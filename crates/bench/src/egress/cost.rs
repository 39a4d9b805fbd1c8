//! What a packet costs: the processor's time, at a load of simulated time.

use super::super::clock::{Presence, Rounds};
use super::super::error::BenchError;
use super::super::world::deadline;
use super::load::{Load, Shape};
use super::outcome::Cost;
use flow::cycles;

/// Packets of a round, at least: one for each queue, so that all rounds do the same.
const ROUND: u32 = 16_384;

/// Measures one point of the sweeps.
pub fn cost(shape: Shape, seconds: f64) -> Result<Cost, BenchError> {
    let mut load = Load::new(shape).map_err(BenchError::of)?;
    // Until no queue has its burst any more, and as many packets leave as come; in overload, until queues are full.
    let rounds = if shape.load > 1_000 { 24 } else { 4 };
    load.offer(u64::from(shape.queues) * rounds);
    let before = (load.offered, load.left, load.lost);
    let (mut rounds, mut presence, done) = (Rounds::default(), Presence::new(), deadline(seconds));
    while !done() || rounds.is_empty() {
        rounds.add(round(&mut load), presence.was_kept());
    }
    Ok(Cost {
        queues: shape.queues,
        octets: shape.octets,
        load: f64::from(shape.load) / 1e3,
        disturbed: rounds.left_out(),
        nanos: rounds.spread(),
        offered: load.offered - before.0,
        left: load.left - before.1,
        lost: load.lost - before.2,
        held: load.held(),
    })
}

/// Nanoseconds a packet that is offered, over one for each queue.
pub fn round(load: &mut Load) -> f64 {
    let packets = u64::from(load.queues().max(ROUND));
    let start = cycles::now();
    load.offer(packets);
    super::super::clock::nanos(cycles::now().wrapping_sub(start)) / packets as f64
}
