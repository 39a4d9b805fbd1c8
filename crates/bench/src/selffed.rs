//! The self-fed harness: throughput of one worker whose port makes and takes the packets on the same core.
//!
//! A *null run*, the port alone with identical work, gives the port's cost, which is subtracted and shown. Time is the
//! thread's processor time. The time of rounds of 4,096 packets, less the port's, is kept as well: the median of the
//! rounds in which the thread kept its core is compared with the floors, which are measured alike. Other work of the
//! machine hardly changes that median.

use flow::{Direction, PortId, cycles};
use packet::DropReason;
use serde::Serialize;
use worker::{Batch, Io, Stage, Stats};

use super::check::Checked;
use super::clock::{Moment, Passed, Presence, Rounds, Spread, nanos};
use super::error::BenchError;
use super::feed::Feed;
use super::load::{Counts, Load};
use super::progress::Progress;
use super::settings::Difference;
use super::world::{World, deadline};

/// Packets of a round: few enough to pass while the thread keeps its core on a busy machine.
const ROUND: u64 = 4_096;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each point.
    pub runs: usize,
    /// Seconds of each run.
    pub seconds: f64,
}

/// Cost of the port alone.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Null {
    /// Packets that went from `rx` to `tx`.
    pub packets: u64,
    /// Processor time.
    pub busy_nanos: u64,
    /// Nanoseconds per packet, all of it.
    pub nanos_per_packet: f64,
    /// Nanoseconds per packet in which no frames were made.
    pub moving_nanos_per_packet: f64,
}

/// Runs the port alone under `load`, with the same bursts as a worker.
pub fn null_run(feed: &mut Feed, load: Load, seconds: f64) -> Null {
    feed.set_load(load);
    let (before, done) = (feed.counts(), deadline(seconds));
    let (moment, start) = (Moment::now(), cycles::now());
    let mut batch = Batch::new();
    while !done() {
        for _ in 0..64 {
            for direction in Direction::BOTH {
                feed.rx(PortId(direction as u16), &mut batch);
                feed.tx(PortId(1 - direction as u16), &mut batch);
            }
        }
    }
    let ticks = cycles::now().wrapping_sub(start);
    let passed = moment.elapsed();
    let counts = feed.counts().since(&before);
    let packets = counts.given.max(1) as f64;
    let wall_ticks = (ticks - counts.port_ticks.min(ticks)) as f64;
    // Off its core a thread moves nothing: the share of its time that it was on it is that of its moving, too.
    let present = passed.busy_nanos as f64 / passed.wall_nanos.max(1) as f64;
    Null {
        packets: counts.given,
        busy_nanos: passed.busy_nanos,
        nanos_per_packet: passed.busy_nanos as f64 / packets,
        moving_nanos_per_packet: nanos(wall_ticks as u64) * present.min(1.0) / packets,
    }
}

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Packets that the worker took.
    pub packets: u64,
    /// Ticks from the first to the last.
    pub ticks: u64,
    /// Ticks in which the port made frames.
    pub port_ticks: u64,
    /// Time.
    #[serde(flatten)]
    pub passed: Passed,
    /// Nanoseconds per packet in the rounds, less the time of making frames.
    pub round: Spread,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
}

/// One point of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of the point.
    pub name: String,
    /// Flows, entries in the table, sessions.
    pub flows: u32,
    /// Entries in the flow table.
    pub entries: usize,
    /// Sessions installed.
    pub sessions: u32,
    /// Frame sizes, uplink and downlink.
    pub sizes: [u16; 2],
    /// Nanoseconds per packet, by processor time, the port subtracted.
    pub net_nanos: Spread,
    /// Million packets a second, from those.
    pub mpps: Spread,
    /// Nanoseconds per packet of the median round, the port subtracted.
    pub round_nanos: f64,
    /// Nanoseconds per packet of the fastest round, the port subtracted.
    pub best_round_nanos: f64,
    /// The port alone.
    pub null: Null,
    /// The runs.
    pub runs: Vec<Run>,
    /// Settings that differ from the daemon's defaults.
    pub settings: Vec<Difference>,
    /// The worker's counts in the runs.
    pub counted: Counted,
    /// Whether packets in are packets out and dropped, by the worker's counts and by the port's.
    pub sums_hold: bool,
    /// The samples.
    pub checked: Checked,
}

impl Figure {
    /// Whether the figure is sound: every packet is accounted for, and every sample equals the interpreter's result.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.sums_hold && self.checked.is_sound()
    }
}

/// A worker's counts in a measurement.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counted {
    /// Packets received.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets that found their entry.
    pub hits: u64,
    /// Packets that found none.
    pub misses: u64,
    /// Packets that found an old one.
    pub stale: u64,
    /// Entries made.
    pub installed: u64,
    /// Entries that found no room.
    pub not_installed: u64,
    /// Drops by reason.
    pub drops: std::collections::BTreeMap<&'static str, u64>,
    /// The stages.
    pub stages: Vec<StageCount>,
}

/// Counts of one stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageCount {
    /// Its name.
    pub stage: &'static str,
    /// Bursts.
    pub calls: u64,
    /// Packets in them.
    pub packets: u64,
    /// Ticks.
    pub cycles: u64,
}

impl Counted {
    /// The difference of two copies of a worker's statistics.
    #[must_use]
    pub fn between(before: &Stats, after: &Stats) -> Self {
        let drops = DropReason::ALL
            .into_iter()
            .map(|reason| (reason.label(), after.dropped(reason) - before.dropped(reason)));
        let stage = |stage: &Stage| {
            let (then, now) = (before.stages[*stage as usize], after.stages[*stage as usize]);
            StageCount {
                stage: stage.label(),
                calls: now.calls - then.calls,
                packets: now.packets - then.packets,
                cycles: now.ticks - then.ticks,
            }
        };
        Self {
            rx: after.rx() - before.rx(),
            tx: after.tx() - before.tx(),
            hits: after.hits - before.hits,
            misses: after.misses - before.misses,
            stale: after.stale - before.stale,
            installed: after.installed - before.installed,
            not_installed: after.not_installed - before.not_installed,
            drops: drops.filter(|(_, count)| *count > 0).collect(),
            stages: Stage::ALL.iter().map(stage).collect(),
        }
    }

    /// The share of packets that were dropped: in these harnesses, by meters, budgets and nothing else.
    #[must_use]
    pub fn drop_share(&self) -> f64 {
        self.dropped() as f64 / self.rx.max(1) as f64
    }

    /// All drops.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Whether received packets are sent and dropped packets, and the port counted the same.
    #[must_use]
    pub fn agrees_with(&self, port: &Counts) -> bool {
        self.rx == self.tx + self.dropped()
            && self.rx == port.given
            && self.tx == port.sent.iter().sum::<u64>()
            && self.dropped() == port.freed.iter().sum::<u64>()
    }
}

/// Measures a world whose flows are installed under `load`: a null run, a short warming up, the runs.
///
/// # Errors
/// None of the measurement; [`Figure::is_sound`] is whether the figure is valid.
pub fn measure(
    world: &mut World,
    name: impl Into<String>,
    load: Load,
    effort: Effort,
    progress: &Progress,
) -> Result<Figure, BenchError> {
    progress.begin("null run", effort.runs as u64 + 1);
    let null = null_run(world.feed(), load, effort.seconds.min(1.0));
    world.load(load);
    let warm = deadline((effort.seconds / 4.0).min(1.0));
    world.poll_until(|_| warm());
    world.settle();
    world.load(load);
    let (stats, counts) = (world.stats(), world.feed().counts());
    let mut runs = Vec::new();
    for number in 0..effort.runs {
        progress.begin("runs", effort.runs as u64 + 1);
        progress.at(number as u64 + 1);
        runs.push(run(world, effort.seconds));
    }
    world.settle();
    let counted = Counted::between(&stats, world.worker.stats());
    let port = world.feed().counts().since(&counts);
    let model = world.setting.model;
    let net = |run: &Run| run.passed.busy_nanos as f64 / run.packets.max(1) as f64 - null.nanos_per_packet;
    let net_nanos = Spread::of(runs.iter().map(net).collect());
    let rounds = |of: fn(&Spread) -> f64| Spread::of(runs.iter().map(|run| of(&run.round)).collect());
    Ok(Figure {
        name: name.into(),
        net_nanos,
        mpps: net_nanos.map(|nanos| 1_000.0 / nanos.max(0.001)),
        round_nanos: rounds(|round| round.median).median - null.moving_nanos_per_packet,
        best_round_nanos: rounds(|round| round.min).min - null.moving_nanos_per_packet,
        flows: model.flows(),
        entries: world.worker.flows(),
        sessions: model.sessions,
        sizes: model.sizes,
        null,
        runs,
        settings: world.setting.differences()?,
        sums_hold: counted.agrees_with(&port),
        counted,
        checked: world.check_samples(),
    })
}

/// One run of a world that has its load.
pub fn run(world: &mut World, seconds: f64) -> Run {
    let done = deadline(seconds);
    let before = world.feed().counts();
    let (moment, start) = (Moment::now(), cycles::now());
    let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
    while !done() {
        let nanos = round(world);
        rounds.add(nanos, presence.was_kept());
    }
    let ticks = cycles::now().wrapping_sub(start);
    let passed = moment.elapsed();
    let counts = world.feed().counts().since(&before);
    let (disturbed, round) = (rounds.left_out(), rounds.spread());
    Run {
        packets: counts.given,
        ticks,
        port_ticks: counts.port_ticks,
        passed,
        round,
        disturbed,
    }
}

/// Nanoseconds per packet of one round, less the time of making frames.
fn round(world: &mut World) -> f64 {
    let (before, start) = (world.feed().counts(), cycles::now());
    let mut counts = Counts::default();
    // A load that gives nothing must not hold the round up for ever.
    for _ in 0..ROUND {
        let now = world.now();
        world.worker.poll(now);
        counts = world.feed().counts().since(&before);
        if counts.given >= ROUND {
            break;
        }
    }
    let ticks = cycles::now().wrapping_sub(start);
    nanos(ticks.saturating_sub(counts.port_ticks)) / counts.given.max(1) as f64
}
