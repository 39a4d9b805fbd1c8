//! What a packet costs on its whole way through a worker, with queues and without, in turn.
//!
//! The same packets go to two workers with the same sessions: one has queues before the port towards gNBs, which shape
//! the Session-AMBR; the other has none, and polices it. Headers, rules, counters and transmission are in both. Time is
//! simulated for both, and passes with the packets that are given, so that a load is exact.

mod port;
mod session;
mod side;

use super::super::clock::{Moment, Spread};
use super::super::error::BenchError;
use super::super::progress::Progress;
use super::Arguments;
use super::outcome::{InWorker, Rates, WorkerCost};
pub use port::frames;
use port::{BEARERS, OCTETS};
use session::KBIT;
use side::Side;

/// Queues of this number of sessions, each of which has a flow.
#[must_use]
pub const fn queues(sessions: u32) -> u32 {
    sessions * BEARERS
}

/// Packets of each queue that come at once, so that all sessions have some that wait.
const FILL: u32 = 2;

/// Measures it.
///
/// # Errors
/// When there is too little memory, or a packet did not come out.
pub fn measure(arguments: &Arguments, progress: &Progress) -> Result<InWorker, BenchError> {
    let sessions = arguments.queues / 2;
    let mut with = Side::new(sessions, true)?;
    let mut without = Side::new(sessions, false)?;
    for side in [&mut with, &mut without] {
        side.measure_null(arguments.seconds.min(0.5));
    }
    let mut costs = vec![compare((&mut with, &mut without), 500, arguments, progress)?];
    with.pause();
    with.fill(FILL);
    costs.push(compare((&mut with, &mut without), 1_000, arguments, progress)?);
    progress.stage("rates of sessions");
    Ok(InWorker {
        sessions,
        frames: frames(),
        costs,
        rates: rates(&mut with, arguments),
    })
}

/// The same packets with queues and without, in turn.
fn compare(
    (with, without): (&mut Side, &mut Side),
    load: u64,
    arguments: &Arguments,
    progress: &Progress,
) -> Result<WorkerCost, BenchError> {
    for side in [&mut *with, &mut *without] {
        side.set_load(load);
        // Two packets of each queue, so that nothing of what was before is left.
        side.offer(2 * side.queues());
    }
    let before = [with.counts(), without.counts()];
    let held = with.held();
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let (begin, mut rounds) = (Moment::now(), [0; 2]);
    progress.begin("pairs", arguments.pairs.into());
    for pair in 0..arguments.pairs {
        progress.at(pair.into());
        let runs = if pair % 2 == 0 {
            [with.run(arguments.seconds), without.run(arguments.seconds)]
        } else {
            let without = without.run(arguments.seconds);
            [with.run(arguments.seconds), without]
        };
        for run in &runs {
            rounds[0] += run.kept_rounds;
            rounds[1] += run.disturbed;
        }
        on.push(runs[0].nanos);
        off.push(runs[1].nanos);
    }
    let passed = begin.elapsed();
    let [of_with, of_without] = [
        with.counts().since(&before[0]),
        without.counts().since(&before[1]),
    ];
    let lost = of_with.freed[0];
    if of_with.given + held != of_with.sent[0] + lost + with.held() || of_without.given != of_without.sent[0]
    {
        return Err(BenchError(format!(
            "packets are missing: with queues {of_with:?}, {:?}; without {of_without:?}, {:?}",
            with.drops(),
            without.drops()
        )));
    }
    let more = on.iter().zip(&off).map(|(on, off)| on - off).collect();
    Ok(WorkerCost {
        load: load as f64 / 1e3,
        with: Spread::of(on),
        without: Spread::of(off),
        more: Spread::of(more),
        offered: of_with.given,
        lost,
        held: with.held(),
        kept_rounds: rounds[0],
        disturbed: rounds[1],
        passed,
    })
}

/// The octets of sessions that always have packets, over ten seconds.
fn rates(side: &mut Side, arguments: &Arguments) -> Rates {
    let window = (arguments.window * 1e9) as u64;
    let earned = (KBIT * window / 8_000_000) as f64;
    let octets = side.octets_in(window);
    let errors = octets.iter().map(|sent| (*sent as f64 - earned).abs() / earned);
    Rates {
        ues: octets.len() as u32,
        kbit: KBIT,
        worst: errors.fold(0.0, f64::max),
        of_a_packet: f64::from(OCTETS) / earned,
    }
}
