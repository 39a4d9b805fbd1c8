//! The generator: packets at a set rate, each with the time at which it was due.
//!
//! An open loop: a packet that is made late keeps the time at which it was due, so that a late generator shows as
//! delay; late packets are counted. A packet that finds the ring full is lost.

use std::sync::Arc;

use dpdk::{Burst, Consumer, MemoryPeer, Mempool, Producer};
use flow::{Direction, cycles};
use serde::Serialize;

use super::super::clock::{Moment, Passed, nanos, ticks_per_second};
use super::super::error::BenchError;
use super::super::frame::{HEADERS, LINK, Template};
use super::super::load::Load;
use super::super::model::Model;
use super::super::rules::Identity;
use super::absence::{self, AbsenceCount, Absences, Watch};
use super::delays::{Delays, Neighbours, Variation};
use super::echo::{Echoed, Echoes};
use super::intervals::{IntervalReport, Intervals};

/// Packets that each ring holds: a port's descriptors by default, which [`Bench::start`](super::Bench::start) holds it
/// to.
pub const RING: u32 = 8_192;

/// Packets that are made before the others are looked at.
const TURN: usize = 32;
/// Ticks of this many seconds behind its time a packet is late by the generator's fault.
const LATE: f64 = 5e-6;
/// Packets that are on their way at a time while flows are introduced.
const ON_THEIR_WAY: u64 = 256;
/// Seconds without a packet from the device after which those on their way count as lost.
const LOST: f64 = 0.1;
/// Seconds that late packets are waited for at the end.
const DRAIN: f64 = 0.02;
/// Octets of the longest headers and of the time behind them.
const STAMPED: usize = HEADERS + 8;

/// The device, which decides where the time is in a frame that leaves, by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A worker: packets leave decapsulated or encapsulated.
    Worker,
    /// An accelerator: the same.
    Accelerator,
    /// Bare forwarding: packets leave unchanged.
    Plain,
}

impl Device {
    /// The offset of the time in a frame that leaves by the port of `direction`'s far end.
    const fn stamp(self, direction: Direction) -> usize {
        let user = LINK + 28;
        match (self, direction) {
            (Self::Worker | Self::Accelerator, Direction::Uplink) | (Self::Plain, Direction::Downlink) => {
                user
            }
            (Self::Worker | Self::Accelerator, Direction::Downlink) | (Self::Plain, Direction::Uplink) => {
                HEADERS
            }
        }
    }
}

/// The result of one trial.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trial {
    /// Packets offered a second.
    pub rate: f64,
    /// Packets put into rings.
    pub sent: u64,
    /// Packets that found a ring full.
    pub refused: u64,
    /// Packets received from the device.
    pub received: u64,
    /// Packets that the generator made more than 5 us after they were due.
    pub late: u64,
    /// Delays of all packets, those beside absences among them.
    pub delays: Delays,
    /// Their variation.
    pub variation: Variation,
    /// The packets of intervals that an absence touches, and of those that none does.
    pub intervals: IntervalReport,
    /// Absences of the generator.
    pub generator_absences: AbsenceCount,
    /// Absences of the device.
    pub device_absences: AbsenceCount,
    /// The generator's time.
    pub generator: Passed,
    /// The device's.
    pub device: Passed,
}

/// The device's part of a trial.
#[derive(Clone, Debug)]
pub struct DeviceTime {
    /// Its time.
    pub passed: Passed,
    /// When it was away.
    pub absences: Absences,
}

impl Trial {
    /// The share of offered packets that did not come back.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let offered = self.sent + self.refused;
        (offered - self.received.min(offered)) as f64 / offered.max(1) as f64
    }
}

/// Offered rates of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TrialRates {
    /// User packets a second.
    pub packets: f64,
    /// Echo Requests a second.
    pub echoes: f64,
}

/// One direction's rings: where its packets go in, and where they come out.
struct Wire {
    to: Producer,
    from: Consumer,
    waiting: Burst,
}

/// The generator.
pub struct Generator {
    model: Model,
    identities: Arc<[Identity]>,
    templates: [Template; 2],
    wires: [Wire; 2],
    pool: Mempool,
    load: Load,
    came: Burst,
    intervals: Intervals,
    /// By direction.
    neighbours: [Neighbours; 2],
    watch: Watch,
    echoes: Option<Echoes>,
}

impl Generator {
    /// A generator at the far ends of two memory ports, N3's and N6's.
    ///
    /// # Errors
    /// When a port has no queue.
    pub fn new(
        model: Model,
        identities: Arc<[Identity]>,
        [access, core]: [MemoryPeer; 2],
        pool: Mempool,
    ) -> Result<Self, BenchError> {
        let missing = || BenchError("a port without queues".into());
        let (mut access, mut core) = (access, core);
        let wire = |to: Option<Producer>, from: Option<Consumer>| {
            Ok(Wire {
                to: to.ok_or_else(missing)?,
                from: from.ok_or_else(missing)?,
                waiting: Burst::new(),
            })
        };
        // What goes in by one port comes out by the other.
        let uplink = wire(access.to_port.pop(), core.from_port.pop())?;
        let downlink = wire(core.to_port.pop(), access.from_port.pop())?;
        Ok(Self {
            templates: Direction::BOTH.map(|direction| Template::new(direction, model.size(direction))),
            load: Load::saturated(&model, model.flows()),
            model,
            identities,
            wires: [uplink, downlink],
            pool,
            came: Burst::new(),
            intervals: Intervals::new(),
            neighbours: [Neighbours::default(); 2],
            watch: Watch::new(absence::GENERATOR),
            echoes: None,
        })
    }

    /// One trial at `rate` packets a second, both directions together; [`finish`](Self::finish) adds the device's part.
    ///
    /// # Errors
    /// None.
    pub fn trial(&mut self, device: Device, rate: f64, seconds: f64) -> Result<Trial, BenchError> {
        let mut trial = Trial {
            rate,
            ..Trial::default()
        };
        self.intervals.prepare(seconds)?;
        let uplink = rate * f64::from(self.model.uplink_per_mille) / 1_000.0;
        let step = [uplink, rate - uplink].map(|rate| ticks_per_second() / rate.max(1e-3));
        self.neighbours = step.map(Neighbours::new);
        let (moment, start) = (Moment::now(), cycles::now());
        self.intervals.start_at(start);
        self.echoes.iter_mut().for_each(|echoes| echoes.start_at(start));
        self.watch.take();
        let end = start + (seconds * ticks_per_second()) as u64;
        let mut next = step.map(|step| start as f64 + step);
        loop {
            let now = cycles::now();
            self.watch.see(now);
            if now >= end {
                break;
            }
            for direction in Direction::BOTH {
                let side = direction as usize;
                let mut made = 0;
                while next[side] <= now as f64 && made < TURN {
                    self.make(direction, next[side] as u64, now, &mut trial);
                    next[side] += step[side];
                    made += 1;
                }
                self.flush(direction, &mut trial);
                self.receive(device, direction, &mut trial);
            }
            self.ask(now);
        }
        self.drain(device, &mut trial);
        trial.generator = moment.elapsed();
        Ok(trial)
    }

    /// Completes a trial with the device's part, and gives the Echo Requests beside it. `recovery` is the time that the
    /// device needs after an absence, as a multiple of its length.
    ///
    /// # Errors
    /// None.
    pub fn finish(
        &mut self,
        trial: &mut Trial,
        device: &DeviceTime,
        recovery: f64,
    ) -> Result<Echoed, BenchError> {
        let own = self.watch.take();
        let absences = [&own, &device.absences];
        let cut = self.intervals.end(absences, recovery)?;
        (trial.delays, trial.variation) = (cut.all.delays, cut.all.variation);
        trial.intervals = cut.report;
        (trial.generator_absences, trial.device_absences) = (own.count(), device.absences.count());
        trial.device = device.passed;
        let echoes = self.echoes.take();
        echoes.map_or(Ok(Echoed::default()), |echoes| echoes.end(absences, recovery))
    }

    /// Sends `rate` Echo Requests a second beside the packets of the next trial.
    ///
    /// # Errors
    /// None.
    pub fn ask_echoes(&mut self, rate: f64, seconds: f64) -> Result<(), BenchError> {
        self.echoes = Some(Echoes::new(rate, seconds)?);
        Ok(())
    }

    /// Sends an Echo Request, if one is due.
    fn ask(&mut self, now: u64) {
        let Some(echoes) = &mut self.echoes else { return };
        let Some(frame) = echoes.next(now) else { return };
        let wire = &mut self.wires[Direction::Uplink as usize];
        let mbuf = self.pool.alloc_with(&frame);
        let is_made = mbuf.is_some_and(|mbuf| wire.waiting.push(mbuf).is_ok());
        let is_sent = is_made && wire.to.enqueue(&mut wire.waiting) > 0;
        wire.waiting.clear();
        echoes.echoed.refused += u64::from(!is_sent);
    }

    /// Each flow once, at the pace of the device, so that it knows all flows: few packets at a time are on their way,
    /// fewer than any device drops.
    pub fn introduce_flows(&mut self, device: Device) -> u64 {
        let mut trial = Trial::default();
        self.load = Load::saturated(&self.model, self.model.flows()).with_fresh(0, self.model.flows(), None);
        let patience = (LOST * ticks_per_second()) as u64;
        let (mut received, mut lost, mut given_up) = (0, cycles::now() + patience, 0);
        while self.load.fresh_left() > 0 {
            for direction in Direction::BOTH {
                if trial.received != received {
                    (received, lost) = (trial.received, cycles::now() + patience);
                } else if cycles::now() > lost {
                    given_up = trial.sent - trial.received;
                }
                let has_room = trial.sent - trial.received < given_up + ON_THEIR_WAY;
                for _ in 0..if has_room { TURN } else { 0 } {
                    let now = cycles::now();
                    self.make(direction, now, now, &mut trial);
                }
                self.flush(direction, &mut trial);
                self.receive(device, direction, &mut trial);
            }
        }
        self.drain(device, &mut trial);
        self.load = Load::saturated(&self.model, self.model.flows());
        trial.received
    }

    /// Packets a second that the generator can make, put into a ring, take out again and read, by itself.
    ///
    /// # Errors
    /// When there is no memory for a ring.
    pub fn most(&mut self, eal: &dpdk::Eal, seconds: f64) -> Result<f64, BenchError> {
        let (mut to, mut from) = dpdk::spsc(eal, RING).map_err(BenchError::of)?;
        let mut trial = Trial::default();
        let (moment, done) = (Moment::now(), super::super::world::deadline(seconds));
        let mut packets = 0;
        while !done() {
            for direction in Direction::BOTH {
                for _ in 0..TURN {
                    let now = cycles::now();
                    self.make(direction, now, now, &mut trial);
                }
                packets += to.enqueue(&mut self.wires[direction as usize].waiting);
                from.dequeue(&mut self.came);
                self.read(Device::Plain, direction, &mut trial);
            }
        }
        Ok(packets as f64 * 1e9 / moment.elapsed().busy_nanos.max(1) as f64)
    }

    /// Makes a packet that was due at `due`; without buffers it is lost.
    fn make(&mut self, direction: Direction, due: u64, now: u64, trial: &mut Trial) {
        let side = direction as usize;
        let is_late = now.saturating_sub(due) as f64 > LATE * ticks_per_second();
        trial.late += u64::from(is_late);
        let Some(drawn) = self.load.draw(&self.model, direction) else {
            return;
        };
        self.intervals.offer(due, is_late);
        let flow = self.model.flow(drawn.number);
        let template = &self.templates[side];
        let size = usize::from(template.size()).max(STAMPED);
        let buffer = self.pool.alloc().zip(self.identities.get(flow.session as usize));
        let Some((mut mbuf, identity)) = buffer else {
            trial.refused += 1;
            return;
        };
        let Some(frame) = mbuf.append(size) else { return };
        template.write(frame, &flow, flow.session, *identity);
        let at = Template::header_length(direction);
        if let Some(stamp) = frame.get_mut(at..at + 8) {
            stamp.copy_from_slice(&due.to_be_bytes());
        }
        if self.wires[side].waiting.push(mbuf).is_err() {
            trial.refused += 1;
        }
    }

    fn flush(&mut self, direction: Direction, trial: &mut Trial) {
        let wire = &mut self.wires[direction as usize];
        if wire.waiting.is_empty() {
            return;
        }
        trial.sent += wire.to.enqueue(&mut wire.waiting) as u64;
        trial.refused += wire.waiting.len() as u64;
        wire.waiting.clear();
    }

    fn receive(&mut self, device: Device, direction: Direction, trial: &mut Trial) {
        if self.wires[direction as usize].from.dequeue(&mut self.came) > 0 {
            self.read(device, direction, trial);
        }
    }

    fn read(&mut self, device: Device, direction: Direction, trial: &mut Trial) {
        let (now, at) = (cycles::now(), device.stamp(direction));
        trial.received += self.came.len() as u64;
        for mbuf in self.came.iter() {
            let echoes = self.echoes.as_mut().filter(|_| direction == Direction::Downlink);
            if echoes.is_some_and(|echoes| echoes.hear(mbuf.data(), now)) {
                trial.received -= 1;
                continue;
            }
            let stamp = mbuf.data().get(at..).and_then(|rest| rest.first_chunk());
            let due = stamp.map_or(now, |octets| u64::from_be_bytes(*octets));
            let delay = nanos(now.saturating_sub(due)) as u64;
            let difference = self.neighbours[direction as usize].difference(due, delay);
            self.intervals.receive(due, delay, difference);
        }
        self.came.clear();
    }

    fn drain(&mut self, device: Device, trial: &mut Trial) {
        let done = super::super::world::deadline(DRAIN);
        while trial.received < trial.sent && !done() {
            for direction in Direction::BOTH {
                self.receive(device, direction, trial);
            }
        }
    }
}
