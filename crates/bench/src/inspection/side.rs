//! One worker with the connections, with or without rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::rules::compile::compile;
use ::rules::image::SessionChange;
use flow::{Nanos, OpId, SessionIndex, cycles};
use worker::{Command, ConnectionLimits, IdleTimes, InspectionLimits, Stats, Worker, control_channel};

use super::super::clock::{Presence, Rounds, nanos};
use super::super::error::BenchError;
use super::super::model::Model;
use super::super::network::{self, Routers, Wire};
use super::super::settings::{Setting, WorkerOf};
use super::super::world::{deadline, identities, tell};
use super::arguments::Arguments;
use super::connections::{Connections, Counts, Mix};
use super::rules::{Added, of_session};

/// Packets of a round.
const ROUND: u64 = 4_096;
/// Room for flow entries, and how long they idle: connections come and go faster than entries age by default.
const FLOWS: u32 = 4 << 20;
const IDLE: Duration = Duration::from_secs(2);
/// Room for connections of UEs.
const CONNECTIONS: usize = 8 << 20;

/// What flow entries are of where no rule asks for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A tunnel.
    Tunnel,
    /// A 5-tuple.
    Tuple,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Nanoseconds a packet of the median round, less the time of making frames.
    pub nanos: f64,
    /// Rounds that count.
    pub kept_rounds: usize,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
}

/// A worker.
pub struct Side {
    worker: Worker<Connections>,
    start: Instant,
}

impl Side {
    /// A worker with the sessions, which has met its connections for a while.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn new(
        arguments: &Arguments,
        (mix, hosts): (Mix, u32),
        added: &Added,
        base: Base,
    ) -> Result<Self, BenchError> {
        let model = Model {
            sessions: arguments.sessions,
            active: arguments.active,
            ..Model::open()
        };
        let setting = Setting {
            room: FLOWS,
            wire: Wire::Plain,
            ..Setting::new(model)
        };
        let network = Arc::new(network::network(setting.wire).map_err(BenchError::of)?);
        let mut config = setting.config(&network)?;
        config.force_five_tuple = base == Base::Tuple;
        config.idle = IdleTimes::all(IDLE);
        // They live for a minute and more behind the last packet: there are as many as the measurement has.
        config.connections = ConnectionLimits {
            connections: CONNECTIONS,
            per_session: u32::MAX,
            lifetimes: IdleTimes::all(IDLE),
        };
        // A tenth of all packets take the slow path, which is what is measured.
        config.slow_share_percent = 100;
        config.content_counters = arguments.active as usize * 50;
        if matches!(added, Added::Rulebase(_)) {
            config.inspection = InspectionLimits::default();
        }
        let all = identities(model.sessions, WorkerOf { id: 0, workers: 1 })?;
        let port = Connections::new(Arc::clone(&all), model.active, hosts, mix);
        let (mut control, end) = control_channel(64, 256);
        let mut worker = Worker::new(config, port, end).map_err(BenchError::of)?;
        for command in network::neighbours(&network, setting.wire) {
            tell(&mut worker, &mut control, command)?;
        }
        for (session, identity) in (0..model.sessions).zip(all.iter()) {
            let rules = of_session(&model, (session, *identity), added).map_err(BenchError::of)?;
            let mut image = compile(&Arc::new(rules), &network, &Routers).map_err(BenchError::of)?;
            (image.session, image.seid) = (SessionIndex(session), u64::from(session) + 1);
            let change = SessionChange::Install(Box::new(image));
            let op = OpId(session.into());
            tell(&mut worker, &mut control, Command::Session { op, change })?;
        }
        worker.io_mut().open();
        let mut side = Self {
            worker,
            start: Instant::now(),
        };
        side.warm_up();
        Ok(side)
    }

    /// Runs until every connection has begun while the worker looked, twice.
    fn warm_up(&mut self) {
        let wanted = u64::from(self.worker.io_mut().connections()) * 2;
        while self.counts().connections < wanted {
            self.round();
        }
    }

    fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Runs for a time.
    pub fn run(&mut self, seconds: f64) -> Run {
        let done = deadline(seconds);
        let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
        while !done() {
            let nanos = self.round();
            rounds.add(nanos, presence.was_kept());
        }
        let (disturbed, spread) = (rounds.left_out(), rounds.spread());
        Run {
            nanos: spread.median,
            kept_rounds: spread.count,
            disturbed,
        }
    }

    fn round(&mut self) -> f64 {
        let (before, start) = (self.counts(), cycles::now());
        let mut after = before;
        for _ in 0..ROUND {
            let now = self.now();
            self.worker.poll(now);
            after = self.counts();
            if after.given - before.given >= ROUND {
                break;
            }
        }
        let ticks = cycles::now().wrapping_sub(start);
        let ticks = ticks.saturating_sub(after.port_ticks - before.port_ticks);
        nanos(ticks) / (after.given - before.given).max(1) as f64
    }

    /// What the port did.
    pub fn counts(&mut self) -> Counts {
        self.worker.io_mut().counts()
    }

    /// What the worker counted.
    pub fn stats(&self) -> Stats {
        self.worker.stats().clone()
    }
}
