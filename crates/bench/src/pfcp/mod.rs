//! PFCP (T7): procedures of one control thread in a second of its processor time, response times, and memory of 600,000
//! sessions. Over UDP sockets of the kernel on loopback, through the daemon's own control loop, with a worker that
//! applies every change: alone, and while the worker has all packets that it can take.

mod generator;
mod messages;
mod user_plane;

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
pub(crate) use generator::{CONGESTION, Generator, Pace, session};
pub use generator::{Procedure, Round, SMFS};
pub use messages::RULES;
use user_plane::UserPlane;
pub use user_plane::{ControlReport, Cores};

/// Requests that wait for their answers in a closed loop, of all SMFs: as many as the smallest buffer of a socket
/// holds.
pub(crate) const WINDOW: u32 = 64;
/// Half of the rate that the target asks for, a second.
pub const HALF_RATE: f64 = 25_000.0;
/// How long the worker has traffic before anything is measured beside it.
const WARM: Duration = Duration::from_millis(500);

/// Numbers of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Sessions, those of [`churn`](Self::churn) included.
    pub sessions: u32,
    /// Sessions that are established and deleted in turn.
    pub churn: u32,
    /// Sessions with traffic, of those that stay.
    pub traffic: u32,
}

/// Settings of the user plane that differ from the daemon's defaults.
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
    /// The size of T7, or that of a quick look.
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
    /// The procedure.
    pub procedure: Procedure,
    /// In an open loop, how often a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// Its results.
    #[serde(flatten)]
    pub round: Round,
    /// Control's thread meanwhile.
    pub control: ControlReport,
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

/// The procedures under one condition: without traffic, or beside traffic.
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

/// The worker's packets during the procedures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Traffic {
    /// Seconds.
    pub seconds: f64,
    /// Packets received.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Results of T7.
#[derive(Clone, Debug, Serialize)]
pub struct Pfcp {
    /// The core of each thread.
    pub cores: Cores,
    /// SMFs, each with an association and a socket.
    pub smfs: u32,
    /// Sessions resident.
    pub sessions: u32,
    /// Rules of each session: PDR, FAR, QER, URR.
    pub rules: [u32; 4],
    /// Octets of a Session Establishment Request.
    pub request_octets: usize,
    /// Establishment of the sessions that stay.
    pub filling: Span,
    /// While the worker waits for packets.
    pub alone: Procedures,
    /// While the worker has all packets that it can take.
    pub beside: Procedures,
    /// The worker's packets meanwhile.
    pub traffic: Traffic,
    /// Octets that all sessions added to the resident set, in control's tables and the worker's.
    pub memory_octets: u64,
}

impl Pfcp {
    /// Measures T7.
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

/// The procedures beside traffic.
struct Beside {
    procedures: Procedures,
    traffic: Traffic,
}

/// A measurement under way.
struct Run<'a> {
    cores: Cores,
    size: Size,
    user_plane: UserPlane,
    generator: Generator,
    /// Octets resident before the user plane was there.
    before: u64,
    progress: &'a Progress,
}

/// The loopback address of this process with this last octet: two runs on a machine have different ones.
pub(crate) fn loopback(last: u8) -> Ipv4Addr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | high & 63, low, last)
}

impl<'a> Run<'a> {
    fn start(
        eal: &'static Eal,
        cores: Cores,
        size: Size,
        progress: &'a Progress,
    ) -> Result<Self, BenchError> {
        let upf = loopback(1);
        let smfs: Vec<_> = (0..SMFS).map(|smf| loopback(11 + smf as u8)).collect();
        let generator = Generator::new(&smfs, (upf, pfcp::PORT).into(), size.sessions)?;
        let before = resident();
        let user_plane = UserPlane::start(eal, cores, upf, size.sessions, size.model())?;
        Ok(Self {
            cores,
            size,
            user_plane,
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
        let Beside { procedures, traffic } = self.beside()?;
        let pfcp = Pfcp {
            cores: self.cores,
            smfs: SMFS,
            sessions: self.size.sessions,
            rules: RULES,
            request_octets: self.generator.request_octets(),
            filling,
            alone,
            beside: procedures,
            traffic,
            memory_octets,
        };
        self.user_plane.end().map(|_| pfcp)
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

    /// The procedures while the worker has traffic.
    fn beside(&mut self) -> Result<Beside, BenchError> {
        let closed = Pace::Window(WINDOW);
        let model = self.size.model();
        let identities: Arc<[_]> = self.generator.identities(self.size.traffic).into();
        self.user_plane
            .load(Arc::clone(&identities), Load::saturated(&model, model.flows()));
        thread::sleep(WARM);
        let (begin, before) = (Instant::now(), self.user_plane.stats());
        self.churn("making room", Procedure::Deletion, closed)?;
        let establishment = self.churn("establishments beside", Procedure::Establishment, closed)?;
        let procedures = self.procedures(establishment)?;
        let (seconds, after) = (begin.elapsed().as_secs_f64(), self.user_plane.stats());
        self.user_plane.load(identities, Load::none());
        let dropped = |stats: &Stats| DropReason::ALL.iter().map(|why| stats.dropped(*why)).sum::<u64>();
        let traffic = Traffic {
            seconds,
            packets: after.rx() - before.rx(),
            dropped: dropped(&after) - dropped(&before),
        };
        Ok(Beside { procedures, traffic })
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
        self.user_plane.report()?;
        let round = self.generator.run(procedure, range, pace, self.progress)?;
        let control = self.user_plane.report()?;
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
