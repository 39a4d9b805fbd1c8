//! Flow set-up (T4): rate of first packets through the slow path alone, beside established flows at a moderate rate,
//! and in a flood.

use flow::cycles;
use packet::DropReason;
use serde::Serialize;
use worker::Stage;

use super::check::Checked;
use super::clock::{Moment, Passed, nanos};
use super::error::BenchError;
use super::load::{Counts, Load};
use super::model::Model;
use super::progress::Progress;
use super::selffed::{Counted, Effort, Figure, Null, measure, null_run};
use super::settings::{self, Setting};
use super::world::{World, deadline};

/// New flows a second beside established ones.
pub const MODERATE: f64 = 300_000.0;
/// New flows a second in the flood.
pub const FLOOD: f64 = 10_000_000.0;

/// One span of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    /// Name of the span.
    pub name: String,
    /// Packets that the worker took.
    pub packets: u64,
    /// Entries made.
    pub installed: u64,
    /// Ticks, from first to last.
    pub ticks: u64,
    /// Seconds of the worker's own time: without making frames, and without absences.
    pub own_seconds: f64,
    /// Counts of the port.
    pub port: PortCounts,
    /// Time.
    #[serde(flatten)]
    pub passed: Passed,
    /// Counts of the worker.
    pub counted: Counted,
    /// Whether packets in are packets out and dropped.
    pub sums_hold: bool,
}

/// [`Counts`] as written to JSON.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PortCounts {
    /// Packets given to the worker.
    pub given: u64,
    /// Packets of established flows sent, dropped by the worker, lost by a full ring.
    pub established: [u64; 3],
    /// Packets of new flows sent, dropped by the worker, lost by a full ring.
    pub fresh: [u64; 3],
    /// Ticks that making frames took, and in an open loop moving them.
    pub port_ticks: u64,
    /// Ticks of absences from the core.
    pub absent_ticks: u64,
}

impl From<Counts> for PortCounts {
    fn from(counts: Counts) -> Self {
        let class = |class: usize| [counts.sent[class], counts.freed[class], counts.lost[class]];
        Self {
            given: counts.given,
            established: class(0),
            fresh: class(1),
            port_ticks: counts.port_ticks,
            absent_ticks: counts.absent_ticks,
        }
    }
}

impl Span {
    /// The part of the stages' time that was spent in one.
    #[must_use]
    pub fn share_of(&self, stage: Stage) -> f64 {
        let cycles = |wanted: &str| {
            let stages = self.counted.stages.iter();
            stages
                .filter(|count| count.stage == wanted || wanted.is_empty())
                .map(|count| count.cycles)
                .sum::<u64>()
        };
        // Making frames happens inside the stage `rx`.
        let all = cycles("").saturating_sub(self.port.port_ticks);
        cycles(stage.label()) as f64 / all.max(1) as f64
    }

    /// New flows a second that got their entry.
    #[must_use]
    pub fn set_up(&self) -> f64 {
        self.installed as f64 / self.own_seconds.max(1e-9)
    }

    /// The share of packets of established flows that were dropped or lost.
    #[must_use]
    pub fn established_lost(&self) -> f64 {
        let [sent, dropped, lost] = self.port.established;
        (dropped + lost) as f64 / (sent + dropped + lost).max(1) as f64
    }

    /// Packets dropped by the slow path's budget.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        let label = DropReason::SlowPathBudget.label();
        self.counted.drops.get(label).copied().unwrap_or_default()
    }
}

/// Watches a world while it is polled.
struct Watch {
    stats: worker::Stats,
    counts: Counts,
    moment: Moment,
    start: u64,
}

impl Watch {
    fn start(world: &mut World) -> Self {
        Self {
            stats: world.stats(),
            counts: world.feed().counts(),
            moment: Moment::now(),
            start: cycles::now(),
        }
    }

    /// Ends when the worker has finished what it has.
    fn end(self, world: &mut World, name: &str) -> Span {
        let own_seconds = world.feed().load().own_seconds();
        world.settle();
        let (ticks, passed) = (cycles::now().wrapping_sub(self.start), self.moment.elapsed());
        let counted = Counted::between(&self.stats, world.worker.stats());
        let counts = world.feed().counts().since(&self.counts);
        Span {
            name: name.into(),
            packets: counted.rx,
            installed: counted.installed,
            ticks,
            own_seconds,
            sums_hold: counted.agrees_with(&counts),
            port: counts.into(),
            passed,
            counted,
        }
    }
}

/// Flow set-up alone.
#[derive(Clone, Debug, Serialize)]
pub struct Alone {
    /// The table's load, of its slots, as it is filled: each span ends there.
    pub loads: Vec<f64>,
    /// The spans.
    pub spans: Vec<Span>,
    /// The port alone.
    pub null: Null,
    /// The samples.
    pub checked: Checked,
}

impl Alone {
    /// Nanoseconds for each flow in a span, by processor time, the port subtracted.
    #[must_use]
    pub fn nanos(&self, span: &Span) -> f64 {
        span.passed.busy_nanos as f64 / span.packets.max(1) as f64 - self.null.nanos_per_packet
    }

    /// Flows a second in the last span, that ends with a full table.
    #[must_use]
    pub fn rate_at_full_load(&self) -> f64 {
        self.spans.last().map_or(0.0, |span| 1e9 / self.nanos(span))
    }

    /// Flows a second over all spans.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let packets: u64 = self.spans.iter().map(|span| span.packets).sum();
        let busy: u64 = self.spans.iter().map(|span| span.passed.busy_nanos).sum();
        1e9 / (busy as f64 / packets.max(1) as f64 - self.null.nanos_per_packet)
    }
}

/// Fills the table of `world`, which has no flow yet, through the slow path: to half, to nine tenths, to the end.
///
/// # Errors
/// When flows found no place.
pub fn alone(world: &mut World, progress: &Progress) -> Result<Alone, BenchError> {
    let model = world.setting.model;
    let flows = model.flows();
    // The port makes frames at the same cost for each load.
    let null = null_run(world.feed(), Load::saturated(&model, flows), 0.25);
    let mut alone = Alone {
        loads: Vec::new(),
        spans: Vec::new(),
        null,
        checked: Checked::default(),
    };
    let even = |share: f64| (f64::from(flows) * share) as u32 & !1;
    let mut from = 0;
    for (name, to) in [
        ("empty to half", even(0.5)),
        ("half to nine tenths", even(0.9)),
        ("nine tenths to full", flows),
    ] {
        let watch = Watch::start(world);
        world.install_flows(from, to, progress)?;
        alone.spans.push(watch.end(world, name));
        alone
            .loads
            .push(0.95 * world.worker.flows() as f64 / f64::from(world.setting.room.max(1)));
        alone.checked = std::mem::take(&mut alone.checked).plus(world.check_samples());
        from = to;
    }
    Ok(alone)
}

/// New flows beside established ones.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// New flows offered a second.
    pub offered: f64,
    /// Established flows alone, as fast as they go.
    pub before: Figure,
    /// Established and new flows: both as fast as they go, the new ones at their rate.
    pub moderate: Span,
    /// The flood: established flows at half of their rate, open loop.
    pub flood: Span,
    /// Established flows at half of their rate, open loop, and nothing else.
    pub half: Span,
    /// The packets a second of established flows that half of the rate is.
    pub half_rate: f64,
}

impl Beside {
    /// The rate of established flows beside new ones, of that alone, by processor time, the port subtracted.
    #[must_use]
    pub fn kept(&self) -> f64 {
        let span = &self.moderate;
        let port = self.before.null.nanos_per_packet * span.packets as f64;
        let established: u64 = span.port.established[..2].iter().sum();
        let nanos = (span.passed.busy_nanos as f64 - port) / established.max(1) as f64;
        self.before.net_nanos.median / nanos.max(1e-9)
    }
}

/// Measures new flows beside established ones in a new world of `model`: half of its flows are established.
///
/// # Errors
/// As [`World::new`] and [`World::install_flows`].
pub fn beside(model: Model, effort: Effort, progress: &Progress) -> Result<Beside, BenchError> {
    // No packet of an established flow is to be red here. The new flows are shared out: what the moderate rate needs,
    // the rest for the flood.
    let mut policy = model.policy;
    policy.limits = false;
    let model = model.with_policy(policy);
    let mut world = World::new(
        Setting {
            backlog: settings::backlog()?,
            ..Setting::new(model)
        },
        progress,
    )?;
    world.set_backlog(0);
    let established = (model.flows() / 2) & !1;
    world.install_flows(0, established, progress)?;
    let saturated = Load::saturated(&model, established);
    let before = measure(&mut world, "established flows alone", saturated, effort, progress)?;

    let fresh = model.flows() - established;
    let moderate_flows = ((MODERATE * effort.seconds * 2.0) as u32).min(fresh / 2) & !1;
    let moderate = Load::saturated(&model, established).with_fresh(
        established,
        established + moderate_flows,
        Some(MODERATE),
    );
    let moderate = span(
        &mut world,
        "beside 300,000 a second",
        moderate,
        effort.seconds,
        progress,
    );

    // In an open loop the worker has the daemon's backlog.
    world.set_backlog(settings::backlog()?);
    let half_rate = 0.5e9 / before.round_nanos.max(1.0);
    let half = Load::open_loop(&model, established, half_rate);
    let half = span(&mut world, "half of the rate", half, effort.seconds, progress);
    let flood = Load::open_loop(&model, established, half_rate).with_fresh(
        established + moderate_flows,
        model.flows(),
        Some(FLOOD),
    );
    let flood = span(
        &mut world,
        "half of the rate in the flood",
        flood,
        effort.seconds,
        progress,
    );
    Ok(Beside {
        offered: MODERATE,
        before,
        moderate,
        flood,
        half,
        half_rate,
    })
}

/// One span under `load`; it ends early when there are no new flows left where there were some.
fn span(world: &mut World, name: &'static str, load: Load, seconds: f64, progress: &Progress) -> Span {
    progress.begin(name, 1);
    let had_fresh = load.fresh_left() > 0;
    world.load(load);
    let (watch, done) = (Watch::start(world), deadline(seconds));
    world.poll_until(|world| done() || (had_fresh && world.feed().load().fresh_left() == 0));
    watch.end(world, name)
}

/// Nanoseconds of the worker's own time for each packet of a span.
#[must_use]
pub fn own_nanos(span: &Span) -> f64 {
    let own = span
        .ticks
        .saturating_sub(span.port.port_ticks + span.port.absent_ticks);
    nanos(own) / span.packets.max(1) as f64
}
