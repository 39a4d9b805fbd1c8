//! PFCP (T7): what one control thread does in a second of its processor time, how long SMFs wait for their answers, and
//! what 600,000 sessions take in memory. Over UDP sockets of the kernel on loopback, through the daemon's own control
//! loop, with a worker that applies every change: alone, and while the worker has all the packets it can take.

mod generator;
mod messages;
mod plant;

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dpdk::{Eal, pin_current_thread};
use packet::DropReason;
use serde::Serialize;
use worker::Stats;

use super::clock::resident;
use super::error::BenchError;
use super::load::Load;
use super::model::Model;
use super::progress::Progress;
use super::settings::Difference;
use generator::{Generator, Pace};
pub use generator::{Procedure, Round, SMFS};
pub use messages::RULES;
use plant::Plant;
pub use plant::{Cores, Told};

/// Requests that wait for their answers in a closed loop, of all SMFs: as many as the smallest buffer of a socket
/// holds.
const WINDOW: u32 = 64;
/// Half of the rate that the target asks for, a second.
pub const HALF_RATE: f64 = 25_000.0;
/// How long the worker has traffic before anything is measured beside it.
const WARM: Duration = Duration::from_millis(500);

/// How much there is of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Sessions that are resident while the last ones come and go.
    pub sessions: u32,
    /// Sessions that come and go.
    pub churn: u32,
    /// Sessions that have traffic, of those that stay.
    pub traffic: u32,
}

/// What is not the daemon's default in the user plane that is measured.
#[must_use]
pub fn differences(size: &Size) -> Vec<Difference> {
    let one = |setting, daemon: &str, here: String| Difference {
        setting,
        daemon: daemon.into(),
        here,
    };
    vec![
        one("limits.sessions", "10000", size.sessions.to_string()),
        one(
            "limits.flows_ipv4, limits.flows_ipv6",
            "65536",
            "as the traffic needs".into(),
        ),
        one("n4.heartbeat_s", "10", "3600".into()),
        one(
            "workers.idle",
            "adaptive, 250 us at most",
            "adaptive, 50 us at most".into(),
        ),
    ]
}

impl Size {
    /// What T7 asks for, or a quick look.
    #[must_use]
    pub const fn new(quick: bool) -> Self {
        if quick {
            Self {
                sessions: 20_000,
                churn: 10_000,
                traffic: 1_000,
            }
        } else {
            Self {
                sessions: 600_000,
                churn: 100_000,
                traffic: 10_000,
            }
        }
    }

    /// Octets of memory that it may take, generously.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.sessions as u64 * 14_000 + (128 << 20)
    }

    const fn churned(&self) -> Range<u32> {
        self.sessions - self.churn..self.sessions
    }

    /// Two flows each way in every session with traffic: one of each of its QoS flows.
    fn model(&self) -> Model {
        Model {
            name: "T7",
            bearers: 2,
            flows_per_bearer: 2,
            sizes: [256; 2],
            ..Model::open()
        }
        .with_sessions(self.traffic)
    }
}

/// One procedure for many sessions.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    /// What was asked.
    pub procedure: Procedure,
    /// In an open loop, how often a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// What came of it.
    #[serde(flatten)]
    pub round: Round,
    /// Control's thread meanwhile.
    pub control: Told,
}

impl Span {
    /// Accepted requests for each second of processor time that control's thread had.
    #[must_use]
    pub fn per_cpu_second(&self) -> f64 {
        self.round.accepted as f64 * 1e9 / self.control.passed.busy_nanos.max(1) as f64
    }

    /// Accepted requests a second by the clock on the wall.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.round.accepted as f64 * 1e9 / self.round.wall_nanos.max(1) as f64
    }

    /// Whether every request was accepted.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.round.accepted == self.round.requests
    }
}

/// The procedures under one condition, with as many sessions as the size says but for those that come and go.
#[derive(Clone, Debug, Serialize)]
pub struct Procedures {
    /// Closed loop.
    pub establishment: Span,
    /// Closed loop.
    pub modification: Span,
    /// Closed loop.
    pub deletion: Span,
    /// Establishments in an open loop, at half of the rate that T7 asks for.
    pub half: Span,
}

impl Procedures {
    /// All of them.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        [
            &self.establishment,
            &self.modification,
            &self.deletion,
            &self.half,
        ]
        .into_iter()
    }
}

/// What the worker had to do beside.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Traffic {
    /// Seconds.
    pub seconds: f64,
    /// Packets received.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Pfcp {
    /// Who ran where.
    pub cores: Cores,
    /// SMFs, each with an association and a socket.
    pub smfs: u32,
    /// Sessions resident.
    pub sessions: u32,
    /// Of each: PDR, FAR, QER, URR.
    pub rules: [u32; 4],
    /// Octets of a Session Establishment Request.
    pub request_octets: usize,
    /// The first sessions, until those that come and go.
    pub filling: Span,
    /// While the worker waits for packets.
    pub alone: Procedures,
    /// While it has all that it can take.
    pub beside: Procedures,
    /// The worker's packets meanwhile.
    pub traffic: Traffic,
    /// What was added to the resident set by all sessions: control's books, and the worker's.
    pub memory_octets: u64,
}

impl Pfcp {
    /// Measures it.
    ///
    /// # Errors
    /// Sockets, DPDK, memory, the end of a thread.
    pub fn measure(eal: &'static Eal, size: Size, progress: &Progress) -> Result<Self, BenchError> {
        let cores = Cores::choose()?;
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // Where that is refused, the scheduler does what it can.
                let _pinned = pin_current_thread(cores.generator);
                Run::start(eal, cores, size, progress)?.measure()
            });
            thread
                .join()
                .map_err(|_| BenchError("the generator's thread panicked".into()))?
        })
    }

    /// Establishments for each second of processor time beside traffic, of those alone.
    #[must_use]
    pub fn kept(&self) -> f64 {
        self.beside.establishment.per_cpu_second() / self.alone.establishment.per_cpu_second().max(1e-9)
    }

    /// Octets of resident memory for each session.
    #[must_use]
    pub fn per_session(&self) -> f64 {
        self.memory_octets as f64 / f64::from(self.sessions.max(1))
    }

    /// Every span with its condition.
    pub fn spans(&self) -> impl Iterator<Item = (&'static str, &Span)> {
        let alone = self.alone.spans().map(|span| ("alone", span));
        let beside = self.beside.spans().map(|span| ("beside traffic", span));
        std::iter::once(("filling", &self.filling))
            .chain(alone)
            .chain(beside)
    }
}

/// A measurement under way.
struct Run<'a> {
    cores: Cores,
    size: Size,
    plant: Plant,
    generator: Generator,
    /// Octets resident before the user plane was there.
    before: u64,
    progress: &'a Progress,
}

/// Addresses of this process's own on the loopback interface, so that two runs on a machine do not meet: the user
/// plane's, and the SMFs'.
fn addresses() -> (Ipv4Addr, Vec<Ipv4Addr>) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = |last| Ipv4Addr::new(127, 64 | high & 63, low, last);
    (address(1), (0..SMFS).map(|smf| address(11 + smf as u8)).collect())
}

impl<'a> Run<'a> {
    fn start(
        eal: &'static Eal,
        cores: Cores,
        size: Size,
        progress: &'a Progress,
    ) -> Result<Self, BenchError> {
        let (upf, smfs) = addresses();
        let generator = Generator::new(&smfs, (upf, pfcp::PORT).into(), size.sessions)?;
        let before = resident();
        let plant = Plant::start(eal, cores, upf, (size.sessions, size.model()))?;
        Ok(Self {
            cores,
            size,
            plant,
            generator,
            before,
            progress,
        })
    }

    fn measure(mut self) -> Result<Pfcp, BenchError> {
        self.generator.associate()?;
        let closed = Pace::Window(WINDOW);
        let filled = 0..self.size.sessions - self.size.churn;
        let filling = self.span("filling", Procedure::Establishment, filled, closed)?;
        // One round, so that what comes and goes has come once, and memory is what it is with all sessions.
        let establishment = self.churn("establishments", Procedure::Establishment, closed)?;
        let memory_octets = resident().saturating_sub(self.before);
        let alone = self.procedures(establishment)?;
        let (beside, traffic) = self.beside()?;
        let pfcp = Pfcp {
            cores: self.cores,
            smfs: SMFS,
            sessions: self.size.sessions,
            rules: RULES,
            request_octets: self.generator.request_octets(),
            filling,
            alone,
            beside,
            traffic,
            memory_octets,
        };
        self.plant.end().map(|_| pfcp)
    }

    /// The other procedures after an establishment; in the end all sessions are there.
    fn procedures(&mut self, establishment: Span) -> Result<Procedures, BenchError> {
        let closed = Pace::Window(WINDOW);
        let modification = self.churn("modifications", Procedure::Modification, closed)?;
        let deletion = self.churn("deletions", Procedure::Deletion, closed)?;
        let half = Pace::Rate(HALF_RATE);
        let half = self.churn("half of the rate", Procedure::Establishment, half)?;
        Ok(Procedures {
            establishment,
            modification,
            deletion,
            half,
        })
    }

    /// The same while the worker has traffic.
    fn beside(&mut self) -> Result<(Procedures, Traffic), BenchError> {
        let closed = Pace::Window(WINDOW);
        let model = self.size.model();
        let identities: Arc<[_]> = self.generator.identities(self.size.traffic).into();
        self.plant
            .load(Arc::clone(&identities), Load::saturated(&model, model.flows()));
        thread::sleep(WARM);
        let (begin, before) = (Instant::now(), self.plant.stats());
        self.churn("making room", Procedure::Deletion, closed)?;
        let establishment = self.churn("establishments beside", Procedure::Establishment, closed)?;
        let procedures = self.procedures(establishment)?;
        let (seconds, after) = (begin.elapsed().as_secs_f64(), self.plant.stats());
        self.plant.load(identities, Load::none());
        let dropped = |stats: &Stats| DropReason::ALL.iter().map(|why| stats.dropped(*why)).sum::<u64>();
        let traffic = Traffic {
            seconds,
            packets: after.rx() - before.rx(),
            dropped: dropped(&after) - dropped(&before),
        };
        Ok((procedures, traffic))
    }

    fn churn(&mut self, part: &'static str, procedure: Procedure, pace: Pace) -> Result<Span, BenchError> {
        self.span(part, procedure, self.size.churned(), pace)
    }

    fn span(
        &mut self,
        part: &'static str,
        procedure: Procedure,
        range: Range<u32>,
        pace: Pace,
    ) -> Result<Span, BenchError> {
        self.progress.begin(part, (range.end - range.start).into());
        self.plant.tell()?;
        let round = self.generator.run(procedure, range, pace, self.progress)?;
        let control = self.plant.tell()?;
        let offered = match pace {
            Pace::Rate(rate) => Some(rate),
            Pace::Window(_) => None,
        };
        Ok(Span {
            procedure,
            offered,
            round,
            control,
        })
    }
}
