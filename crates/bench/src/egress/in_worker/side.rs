//! A worker with the sessions, with queues or without. Its time is simulated, and passes with the packets that are
//! given.

use std::collections::BTreeMap;

use flow::meter::MeterSpec;
use flow::{Nanos, cycles};
use packet::DropReason;
use worker::{Batch, Io, Worker};

use super::super::super::clock::{Presence, Rounds, nanos};
use super::super::super::error::BenchError;
use super::super::super::load::Counts;
use super::super::super::network::{N3_PORT, N6_PORT};
use super::super::super::world::deadline;
use super::port::{BEARERS, OCTETS, Port};
use super::session::{KBIT, worker};

/// Packets of a round.
const ROUND: u64 = 4_096;
/// Nanoseconds of a step in which no packet comes.
const STEP: u64 = 10_000;

/// A worker.
pub struct Side {
    worker: Worker<Port>,
    sessions: u32,
    /// In picoseconds.
    now: u64,
    /// Between two packets, in picoseconds.
    between: u64,
    /// Nanoseconds a packet of the port alone.
    null: f64,
}

/// Medians of a time.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Nanoseconds a packet, those of the port subtracted.
    pub nanos: f64,
    /// Rounds that count.
    pub kept_rounds: usize,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
}

impl Side {
    /// A worker whose flows have all begun, and are paused.
    ///
    /// # Errors
    /// When memory runs out, or a packet did not come out.
    pub fn new(sessions: u32, has_queues: bool) -> Result<Self, BenchError> {
        let mut side = Self {
            worker: worker(sessions, has_queues)?,
            sessions,
            now: 1_000_000,
            between: 0,
            null: 0.0,
        };
        side.set_load(500);
        side.offer(side.queues());
        side.pause();
        let counts = side.counts();
        if counts.sent[0] != side.queues() {
            return Err(BenchError(format!(
                "{} of {} first packets came out; dropped {:?}",
                counts.sent[0],
                side.queues(),
                side.drops()
            )));
        }
        Ok(side)
    }

    /// Queues that there would be.
    pub const fn queues(&self) -> u64 {
        (self.sessions * BEARERS) as u64
    }

    /// What is offered from now on, in thousandths of the rates of all sessions.
    pub const fn set_load(&mut self, load: u64) {
        // Picoseconds in which a session of 1 kbit/s may send a packet.
        let of_session = OCTETS as u64 * 8_000_000_000;
        self.between = (of_session * 1_000).div_ceil(KBIT * self.sessions as u64 * load);
    }

    /// Packets without a pause between them, so that as many wait in each queue but for those of bursts.
    pub fn fill(&mut self, each: u32) {
        let between = std::mem::take(&mut self.between);
        self.offer(self.queues() * u64::from(each));
        self.between = between;
    }

    /// Gives as many packets.
    pub fn offer(&mut self, packets: u64) {
        let before = self.counts().given;
        self.worker.io_mut().give(packets);
        while self.counts().given < before + packets {
            self.poll();
        }
    }

    /// Gives packets for as many nanoseconds of the worker's time.
    pub fn offer_for(&mut self, nanos: u64) {
        self.offer(nanos * 1_000 / self.between);
    }

    /// Lets time pass without packets until all that wait have left, and buckets are full again.
    pub fn pause(&mut self) {
        let full = self.now + 2 * MeterSpec::BURST_MILLIS * 1_000_000_000;
        while self.held() > 0 || self.now < full {
            self.now += STEP * 1_000;
            self.poll();
        }
    }

    /// Packets that wait.
    pub fn held(&self) -> u64 {
        self.worker.egress_counts().packets as u64
    }

    /// The port alone, with the same bursts as the worker.
    pub fn measure_null(&mut self, seconds: f64) {
        let port = self.worker.io_mut();
        port.give(u64::MAX);
        let (done, mut batch) = (deadline(seconds), Batch::new());
        let (mut rounds, mut presence) = (Rounds::default(), Presence::new());
        while !done() || rounds.is_empty() {
            let (before, start) = (port.counts(), cycles::now());
            let mut counts = Counts::default();
            while counts.given < ROUND {
                port.rx(N6_PORT, &mut batch);
                port.tx(N3_PORT, &mut batch);
                counts = port.counts().since(&before);
            }
            rounds.add(per_packet(start, &counts), presence.was_kept());
        }
        port.give(0);
        self.null = rounds.spread().median;
    }

    /// Packets as fast as the worker takes them, for as many seconds of the processor.
    pub fn run(&mut self, seconds: f64) -> Run {
        self.worker.io_mut().give(u64::MAX);
        let warm = deadline(seconds / 8.0);
        while !warm() {
            self.round();
        }
        let (mut rounds, mut presence, done) = (Rounds::default(), Presence::new(), deadline(seconds));
        presence.was_kept();
        while !done() || rounds.is_empty() {
            rounds.add(self.round(), presence.was_kept());
        }
        self.worker.io_mut().give(0);
        let (disturbed, spread) = (rounds.left_out(), rounds.spread());
        Run {
            nanos: spread.median - self.null,
            kept_rounds: spread.count,
            disturbed,
        }
    }

    /// The octets that leave in as many nanoseconds of the worker's time, by session.
    pub fn octets_in(&mut self, nanos: u64) -> Box<[u64]> {
        self.worker.io_mut().count_octets();
        self.offer_for(nanos);
        self.worker.io_mut().take_octets()
    }

    /// What the port did so far.
    pub fn counts(&mut self) -> Counts {
        self.worker.io_mut().counts()
    }

    /// What was dropped so far, by reason.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        let stats = self.worker.stats();
        let all = DropReason::ALL
            .into_iter()
            .map(|reason| (reason.label(), stats.dropped(reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    fn poll(&mut self) {
        let before = self.counts().given;
        self.worker.poll(Nanos(self.now / 1_000));
        self.now += (self.counts().given - before) * self.between;
    }

    fn round(&mut self) -> f64 {
        let (before, start) = (self.counts(), cycles::now());
        let mut counts = Counts::default();
        while counts.given < ROUND {
            self.poll();
            counts = self.counts().since(&before);
        }
        per_packet(start, &counts)
    }
}

/// Nanoseconds a packet since `start`, less the time of making frames.
fn per_packet(start: u64, counts: &Counts) -> f64 {
    let ticks = cycles::now().wrapping_sub(start);
    nanos(ticks.saturating_sub(counts.port_ticks)) / counts.given.max(1) as f64
}
