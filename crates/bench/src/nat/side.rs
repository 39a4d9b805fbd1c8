//! A worker with the sessions, with NAT or without.

use std::sync::Arc;
use std::time::Instant;

use ::nat::pools::BlockId;
use ::rules::compile::compile;
use ::rules::image::SessionChange;
use ::rules::model::LocalPolicy;
use ::rules::network::Network;
use flow::{Direction, Nanos, OpId, PortId, SessionIndex, cycles};
use packet::DropReason;
use worker::{Batch, Command, ControlEnd, Io, NatSettings, Stats, Worker, control_channel};

use super::super::clock::{Presence, Rounds, Spread, nanos};
use super::super::error::BenchError;
use super::super::load::{Counts, Load};
use super::super::model::Model;
use super::super::network::{self, Routers};
use super::super::rules::{Identity, session_rules};
use super::super::settings::{Setting, WorkerOf};
use super::super::world::{deadline, tell};
use super::arguments::Arguments;
use super::frames::WIRE;
use super::outcome::{Kind, Run, Spent};
use super::pool::{POOL, public};
use super::port::Port;

/// Packets of a round.
const ROUND: u64 = 4_096;
/// The key of the mappings' hashes.
const SEED: u64 = 20_261_127;

/// The model: sessions of one bearer, a QER and a URR each, frames of 256 octets.
pub fn model(arguments: &Arguments, kind: Kind) -> Model {
    Model {
        name: "NAT",
        flows_per_bearer: arguments.mappings * 2,
        sizes: [256; 2],
        force_five_tuple: kind.is_tuple,
        ..Model::open().with_sessions(arguments.sessions)
    }
}

/// Sessions that a worker gets, by number: those of `own`, each with its block where there is NAT.
pub struct Sessions<'a> {
    pub network: &'a Arc<Network>,
    pub identities: &'a [Identity],
    pub blocks: Option<&'a [BlockId]>,
}

/// A worker that has these sessions, of those that share their buckets.
///
/// # Errors
/// When memory runs out.
pub fn worker_with<I: Io>(
    (model, of): (&Model, WorkerOf),
    sessions: &Sessions<'_>,
    mappings: u32,
    io: I,
) -> Result<(Worker<I>, ControlEnd), BenchError> {
    let setting = Setting {
        wire: WIRE,
        worker: of,
        ..Setting::new(*model)
    };
    let mut config = setting.config(sessions.network)?;
    // First packets alone come at times: all of them are to be served.
    config.slow_share_percent = 100;
    config.nat = NatSettings {
        mappings: mappings as usize,
        seed: SEED,
        ..NatSettings::default()
    };
    let (mut control, end) = control_channel(64, 256);
    let mut worker = Worker::new(config, io, end).map_err(BenchError::of)?;
    for command in network::neighbours(sessions.network, WIRE) {
        tell(&mut worker, &mut control, command)?;
    }
    for (session, identity) in (0..).zip(sessions.identities) {
        let mut rules = session_rules(model, session, *identity).map_err(BenchError::of)?;
        let block = sessions.blocks.and_then(|blocks| blocks.get(session as usize));
        rules.set_local_policy(LocalPolicy {
            nat: block.map(|_| POOL),
            ..LocalPolicy::default()
        });
        let mut image = compile(&Arc::new(rules), sessions.network, &Routers).map_err(BenchError::of)?;
        (image.session, image.seid) = (SessionIndex(session), u64::from(session) + 1);
        if let Some(block) = block {
            image.bring_port_blocks(&[*block], Vec::new());
        }
        let change = SessionChange::Install(Box::new(image));
        let op = OpId(session.into());
        tell(&mut worker, &mut control, Command::Session { op, change })?;
    }
    Ok((worker, control))
}

/// A worker.
pub struct Side {
    worker: Worker<Port>,
    model: Model,
    /// The worker's time stands still while another is measured.
    passed: u64,
    since: Instant,
    /// Nanoseconds a packet of the port alone.
    null: f64,
}

impl Side {
    /// A worker with the sessions, and no flow.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn new(arguments: &Arguments, kind: Kind, sessions: &Sessions<'_>) -> Result<Self, BenchError> {
        let model = model(arguments, kind);
        let outside = match sessions.blocks {
            Some(_) => public(),
            None => 0..=u32::MAX,
        };
        let port = Port::new(model, sessions.identities.into(), outside);
        let of = WorkerOf { id: 0, workers: 1 };
        let mappings = arguments.all_mappings();
        let (worker, _) = worker_with((&model, of), sessions, mappings, port)?;
        Ok(Self {
            worker,
            model,
            passed: 0,
            since: Instant::now(),
            null: 0.0,
        })
    }

    /// Sends a first packet of each flow: UEs' ports from number `from` to `to`, then the answers to them.
    ///
    /// # Errors
    /// When a packet did not come out, or with a wrong end.
    pub fn begin(&mut self, from: u32, to: u32) -> Result<(), BenchError> {
        self.fill(from, to)?;
        let down = Model {
            uplink_per_mille: 0,
            ..self.model
        };
        self.all_of(&down, (from, to), false).map(|_| ())
    }

    /// Sends a first packet from each of the UEs' ports from number `from` to `to`.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn fill(&mut self, from: u32, to: u32) -> Result<Run, BenchError> {
        let up = Model {
            uplink_per_mille: 1_000,
            ..self.model
        };
        self.all_of(&up, (from, to), true)
    }

    /// Sends packets of one direction until there is none left. All have to come out.
    fn all_of(&mut self, model: &Model, (from, to): (u32, u32), are_first: bool) -> Result<Run, BenchError> {
        let before = (self.stats(), self.counts());
        let load = Load::saturated(model, model.flows()).with_fresh(from * 2, to * 2, None);
        self.worker.io_mut().set_load(load, are_first);
        // Those of the other direction stay.
        let stay = u64::from(to - from);
        let run = self.run_until(|side| side.worker.io_mut().fresh_left() <= stay && side.is_dry());
        self.worker.io_mut().set_load(Load::none(), false);
        let wanted = u64::from(to - from);
        let sent = self.counts().sent[0] - before.1.sent[0];
        if sent != wanted || run.spent.wrong > 0 {
            let drops = drops(&before.0, &self.stats());
            return Err(BenchError(format!(
                "{sent} of {wanted} first packets came out, {} of them with a wrong end; dropped {drops:?}",
                run.spent.wrong
            )));
        }
        Ok(run)
    }

    /// Whether nothing was given to the worker in some polls.
    fn is_dry(&mut self) -> bool {
        let before = self.counts().given;
        for _ in 0..4 {
            self.poll();
        }
        self.counts().given == before
    }

    /// The port alone, with the same bursts as the worker.
    pub fn measure_null(&mut self, seconds: f64) {
        let load = Load::saturated(&self.model, self.model.flows());
        let port = self.worker.io_mut();
        port.set_load(load, false);
        let (done, mut batch) = (deadline(seconds), Batch::new());
        let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
        while !done() {
            let (before, start) = (port.counts(), cycles::now());
            let mut counts = Counts::default();
            while counts.given < ROUND {
                for direction in Direction::BOTH {
                    port.rx(PortId(direction as u16), &mut batch);
                    port.tx(PortId(1 - direction as u16), &mut batch);
                }
                counts = port.counts().since(&before);
            }
            rounds.add(per_packet(start, &counts), presence.was_kept());
        }
        port.set_load(Load::none(), false);
        port.take_wrong();
        self.null = rounds.spread().median;
    }

    /// Nanoseconds a packet of the port alone.
    pub const fn null(&self) -> f64 {
        self.null
    }

    /// Packets of all flows, half each way, for a time.
    pub fn run(&mut self, seconds: f64) -> Run {
        let load = Load::saturated(&self.model, self.model.flows());
        self.worker.io_mut().set_load(load, false);
        let warm = deadline((seconds / 8.0).min(0.25));
        self.run_until(|_| warm());
        let done = deadline(seconds);
        let run = self.run_until(|_| done());
        self.worker.io_mut().set_load(Load::none(), false);
        while !self.is_dry() {}
        run
    }

    fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) -> Run {
        self.since = Instant::now();
        self.worker.io_mut().take_wrong();
        let (stats, before) = (self.stats(), self.counts());
        let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
        while !done(self) {
            let nanos = self.round();
            rounds.add(nanos, presence.was_kept());
        }
        self.passed += self.since.elapsed().as_nanos() as u64;
        self.since = Instant::now();
        let counts = self.counts().since(&before);
        let disturbed = rounds.left_out();
        let round: Spread = rounds.spread();
        Run {
            nanos: round.median - self.null,
            spent: Spent {
                packets: counts.given,
                sent: counts.sent[0],
                dropped: counts.freed[0],
                wrong: self.worker.io_mut().take_wrong(),
                port_ticks: counts.port_ticks,
                rounds: round.count,
                disturbed,
            },
            drops: drops(&stats, &self.stats()),
        }
    }

    fn poll(&mut self) {
        let now = self.passed + self.since.elapsed().as_nanos() as u64;
        self.worker.poll(Nanos(now));
    }

    fn round(&mut self) -> f64 {
        let (before, start) = (self.counts(), cycles::now());
        let mut counts = Counts::default();
        for _ in 0..ROUND {
            self.poll();
            counts = self.counts().since(&before);
            if counts.given >= ROUND {
                break;
            }
        }
        per_packet(start, &counts)
    }

    fn counts(&mut self) -> Counts {
        self.worker.io_mut().counts()
    }

    fn stats(&self) -> Stats {
        self.worker.stats().clone()
    }

    /// Flow entries.
    pub fn entries(&self) -> usize {
        self.worker.flows()
    }
}

/// Nanoseconds a packet since `start`, less the time of making frames.
fn per_packet(start: u64, counts: &Counts) -> f64 {
    let ticks = cycles::now().wrapping_sub(start);
    nanos(ticks.saturating_sub(counts.port_ticks)) / counts.given.max(1) as f64
}

fn drops(before: &Stats, after: &Stats) -> std::collections::BTreeMap<&'static str, u64> {
    let all = DropReason::ALL.into_iter();
    all.map(|reason| (reason.label(), after.dropped(reason) - before.dropped(reason)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
