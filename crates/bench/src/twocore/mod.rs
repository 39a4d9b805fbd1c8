//! The two-core harness: a generator and a device on a core each, with rings in memory between them.
//!
//! The device is a worker with a model's sessions and flows, an accelerator that passes them, or DPDK's bare
//! forwarding. A trial is *void*, and said to
//! be, when others took more than a two-hundredth of either thread's time, when the generator was late with more than a
//! hundredth of the packets, or when it could not have made half as many packets again. Its undisturbed intervals,
//! those without an absence of either thread, are void when they are fewer than half.

mod absence;
mod accelerating;
mod delays;
mod device;
mod echo;
mod generator;
mod intervals;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use dpdk::{
    Burst, Eal, MemoryPeer, Mempool, PoolConfig, Port, Registration, RxQueue, TxQueue, pin_current_thread,
};
use flow::cycles;
use worker::dpdk::DpdkIo;
use worker::{Stats, Worker};

pub use self::absence::AbsenceCount;
use self::absence::Watch;
use self::accelerating::Accelerating;
pub use self::delays::{Delays, Variation};
use self::device::{Polled, Queues, memory_port};
pub use self::echo::Echoed;
pub use self::generator::{Device, RING, Trial, TrialRates};
use self::generator::{DeviceTime, Generator};
pub use self::intervals::{IntervalReport, StreamDelays};
use super::clock::Moment;
use super::error::BenchError;
use super::model::Model;
use super::progress::Progress;
use super::selffed::Counted;
use super::settings;
use super::settings::Setting;
use super::world::Bare;
use runtime::Clock;

/// The share of a thread's time that others may take.
pub const MOST_TAKEN: f64 = 0.005;
/// The share of packets that the generator may make late.
pub const MOST_LATE: f64 = 0.01;
/// How many times the offered rate the generator must be able to make.
pub const HEADROOM: f64 = 1.5;
/// The share of intervals that absences may disturb.
pub const MOST_DISTURBED: f64 = 0.5;

/// A question to the device's thread.
enum Ask {
    /// Report what was done since the last question.
    Report(Sender<DeviceReport>),
    /// Let as many packets of a port wait; of a worker.
    SetBacklog(usize),
    /// End.
    End,
}

/// What a device did between two questions.
struct DeviceReport {
    /// Its thread's time.
    time: DeviceTime,
    /// Of a worker: what it counted.
    counted: Option<Counted>,
}

/// A trial with Echo Requests.
#[derive(Clone, Debug)]
pub struct EchoTrial {
    /// The user packets.
    pub trial: Trial,
    /// The Echo Requests.
    pub echoed: Echoed,
    /// Of a worker: what it counted.
    pub counted: Option<Counted>,
}

/// A device that runs, and the generator before it.
pub struct Bench {
    device: Device,
    generator: Generator,
    asks: Sender<Ask>,
    thread: JoinHandle<Result<Option<Stats>, BenchError>>,
    /// Packets a second that the generator can make.
    pub most: f64,
    /// Packets a second that the device can forward, once that is known.
    capacity: Option<f64>,
    /// Stays open while the device uses it.
    _ports: [Port; 2],
}

/// A worker of the harness.
#[must_use]
pub const fn setting(model: Model, backlog: usize) -> Setting {
    Setting {
        backlog,
        ..Setting::new(model)
    }
}

/// Two memory ports, N3's and N6's.
struct MemoryPorts {
    ports: [Port; 2],
    /// The device's ends.
    queues: Queues,
    /// The generator's ends.
    peers: [MemoryPeer; 2],
}

fn memory_ports(eal: &Eal, pool: &Mempool) -> Result<MemoryPorts, BenchError> {
    let (n3, n6) = (memory_port(eal, pool)?, memory_port(eal, pool)?);
    Ok(MemoryPorts {
        ports: [n3.port, n6.port],
        queues: vec![n3.queues, n6.queues],
        peers: [n3.peer, n6.peer],
    })
}

impl Bench {
    /// A worker with the sessions of `model`, with room for `backlog` waiting packets of a port, an accelerator of such
    /// a worker, or bare forwarding of the same frames.
    ///
    /// # Errors
    /// DPDK's, memory, or rules that do not compile.
    pub fn start(
        eal: &'static Eal,
        device: Device,
        model: Model,
        backlog: usize,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        let daemon = settings::daemon()?;
        let pool = Mempool::new(eal, PoolConfig::with_buffers(daemon.dpdk.buffers.value() as u32))
            .map_err(BenchError::of)?;
        let mut rings = daemon.ports.iter().map(|port| daemon.descriptors(port).receive);
        if rings.any(|ring| u32::from(ring) != RING) {
            return Err(BenchError("the daemon's rings are of another length".into()));
        }
        let MemoryPorts { ports, queues, peers } = memory_ports(eal, &pool)?;
        let setting = setting(model, backlog);
        let bare = Bare::new(&setting)?;
        let mut generator = Generator::new(model, bare.identities(), peers, pool.clone())?;
        let most = generator.most(eal, 0.25)?;
        let (asks, questions) = channel();
        let thread = match device {
            Device::Plain => {
                let mut plain = Plain::new(queues);
                thread::spawn(move || run(eal, &questions, &mut plain).map(|()| None))
            }
            Device::Accelerator => {
                let mut accelerating = Accelerating::start(eal, &setting, queues, &pool, progress)?;
                thread::spawn(move || {
                    run(eal, &questions, &mut accelerating)?;
                    Ok(accelerating.stats().cloned())
                })
            }
            Device::Worker => {
                let io = DpdkIo::new(queues, pool, None, Vec::new());
                let worker = bare.worker(io, progress)?;
                let clock = Clock::starting_now(eal.tsc_hz());
                let mut working = Working { worker, clock };
                thread::spawn(move || {
                    run(eal, &questions, &mut working)?;
                    Ok(Some(working.worker.stats().clone()))
                })
            }
        };
        let bench = Self {
            device,
            generator,
            asks,
            thread,
            most,
            capacity: None,
            _ports: ports,
        };
        // The device has to run before the generator, which never sleeps, takes a core that both may be on yet.
        bench.report()?;
        Ok(bench)
    }

    /// Lets the worker meet each flow.
    pub fn introduce_flows(&mut self) -> u64 {
        self.generator.introduce_flows(self.device)
    }

    /// Packets a second that the device can forward: how long it needs after an absence follows from it.
    pub const fn set_capacity(&mut self, capacity: f64) {
        self.capacity = Some(capacity);
    }

    /// Lets `packets` of a port wait from now on, where the device is a worker, and no more than it was started with.
    ///
    /// # Errors
    /// When the device's thread has ended.
    pub fn set_backlog(&self, packets: usize) -> Result<(), BenchError> {
        let gone = |_| BenchError("the device's thread ended".into());
        self.asks.send(Ask::SetBacklog(packets)).map_err(gone)
    }

    /// One trial.
    ///
    /// # Errors
    /// When the device's thread has ended.
    pub fn trial(&mut self, rate: f64, seconds: f64) -> Result<Trial, BenchError> {
        Ok(self.counted_trial(rate, seconds)?.0)
    }

    /// The same, with what a worker or an accelerator has counted meanwhile.
    ///
    /// # Errors
    /// When the device's thread has ended.
    pub fn counted_trial(&mut self, rate: f64, seconds: f64) -> Result<(Trial, Option<Counted>), BenchError> {
        self.report()?;
        let mut trial = self.generator.trial(self.device, rate, seconds)?;
        let (_, counted) = self.finish(&mut trial)?;
        Ok((trial, counted))
    }

    /// One trial of a worker with Echo Requests beside the packets.
    ///
    /// # Errors
    /// When the device's thread has ended.
    pub fn trial_with_echoes(&mut self, rates: TrialRates, seconds: f64) -> Result<EchoTrial, BenchError> {
        self.report()?;
        self.generator.ask_echoes(rates.echoes, seconds)?;
        let mut trial = self.generator.trial(self.device, rates.packets, seconds)?;
        let (echoed, counted) = self.finish(&mut trial)?;
        Ok(EchoTrial {
            trial,
            echoed,
            counted,
        })
    }

    /// Completes a trial; the Echo Requests beside it, and what a worker counted.
    fn finish(&mut self, trial: &mut Trial) -> Result<(Echoed, Option<Counted>), BenchError> {
        let DeviceReport { time, counted } = self.report()?;
        let recovery = recovery(trial.rate, self.capacity);
        Ok((self.generator.finish(trial, &time, recovery)?, counted))
    }

    /// Why a trial is void; `None`: it is not.
    #[must_use]
    pub fn void(&self, trial: &Trial) -> Option<String> {
        let taken = trial.generator.taken().max(trial.device.taken());
        if taken > MOST_TAKEN {
            Some(format!("others took {:.1}% of a thread's time", taken * 100.0))
        } else {
            late(trial.late, trial.sent + trial.refused).or_else(|| self.beyond(trial))
        }
    }

    /// Why the undisturbed intervals of a trial are void; `None`: they are not.
    #[must_use]
    pub fn void_intervals(&self, trial: &Trial) -> Option<String> {
        let (intervals, of) = (&trial.intervals, &trial.intervals.undisturbed);
        if intervals.share() < 1.0 - MOST_DISTURBED {
            Some(format!(
                "a thread lost its core in or before {} of {} intervals",
                intervals.disturbed, intervals.intervals
            ))
        } else {
            late(of.late, of.offered).or_else(|| self.beyond(trial))
        }
    }

    /// Why a rate is beyond the generator.
    fn beyond(&self, trial: &Trial) -> Option<String> {
        (self.most < HEADROOM * trial.rate).then(|| {
            format!(
                "the generator makes only {:.2} times the offered rate",
                self.most / trial.rate
            )
        })
    }

    /// Ends the device; a worker and an accelerator give their statistics.
    ///
    /// # Errors
    /// Errors of its thread.
    pub fn end(self) -> Result<Option<Stats>, BenchError> {
        let _ = self.asks.send(Ask::End);
        self.thread
            .join()
            .map_err(|_| BenchError("the device's thread panicked".into()))?
    }

    fn report(&self) -> Result<DeviceReport, BenchError> {
        let (answer, answered) = channel();
        let gone = || BenchError("the device's thread ended".into());
        self.asks.send(Ask::Report(answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())
    }
}

/// Why late packets make a trial void.
fn late(late: u64, of: u64) -> Option<String> {
    let share = late as f64 / of.max(1) as f64;
    (share > MOST_LATE).then(|| format!("the generator was late with {:.1}% of the packets", share * 100.0))
}

/// The time that a device needs after an absence for what arrived meanwhile, as a multiple of the absence: the offered
/// rate over what is left beside it. As long as the absence where that is not known.
fn recovery(rate: f64, capacity: Option<f64>) -> f64 {
    let left = capacity
        .map(|capacity| capacity - rate)
        .filter(|left| *left > 0.0);
    left.map_or(1.0, |left| rate / left)
}

/// Forwarding as bare as it gets: from each port to the other.
struct Plain {
    receivers: Vec<RxQueue>,
    senders: Vec<TxQueue>,
    burst: Burst,
}

impl Plain {
    fn new(queues: Queues) -> Self {
        let (receivers, mut senders): (Vec<_>, Vec<_>) = queues.into_iter().unzip();
        senders.reverse();
        Self {
            receivers,
            senders,
            burst: Burst::new(),
        }
    }
}

impl Polled for Plain {
    fn poll(&mut self) {
        for (from, to) in self.receivers.iter_mut().zip(&mut self.senders) {
            if from.rx_burst(&mut self.burst) > 0 {
                to.tx_burst(&mut self.burst);
                self.burst.clear();
            }
        }
    }
}

/// A worker with its clock.
struct Working {
    worker: Worker<DpdkIo>,
    clock: Clock,
}

impl Polled for Working {
    fn poll(&mut self) {
        self.worker.poll(self.clock.now());
    }

    fn stats(&self) -> Option<&Stats> {
        Some(self.worker.stats())
    }

    fn set_backlog(&mut self, packets: usize) {
        self.worker.set_backlog(packets);
    }
}

/// The thread of a device: works until [`Ask::End`], and reports its processor time and its counts.
fn run(eal: &'static Eal, questions: &Receiver<Ask>, device: &mut impl Polled) -> Result<(), BenchError> {
    let _lcore = Registration::new(eal).map_err(BenchError::of)?;
    // Where that is refused, the scheduler does what it can.
    let _pinned = pin_current_thread(0);
    let (mut moment, mut watch) = (Moment::now(), Watch::new(absence::DEVICE));
    let mut stats = device.stats().cloned();
    loop {
        for _ in 0..64 {
            device.poll();
            watch.see(cycles::now());
        }
        match questions.try_recv() {
            Ok(Ask::Report(answer)) => {
                let time = DeviceTime {
                    passed: moment.elapsed(),
                    absences: watch.take(),
                };
                let before = std::mem::replace(&mut stats, device.stats().cloned());
                let counted = before
                    .zip(stats.as_ref())
                    .map(|(before, after)| Counted::between(&before, after));
                moment = Moment::now();
                let _ = answer.send(DeviceReport { time, counted });
            }
            Ok(Ask::SetBacklog(packets)) => device.set_backlog(packets),
            Ok(Ask::End) => return Ok(()),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
            Err(std::sync::mpsc::TryRecvError::Empty) => {}
        }
    }
}

/// Runs `body` on a thread of its own on the second core, registered with DPDK.
///
/// # Errors
/// Errors of `body`, and of the registration.
pub fn on_second_core<T: Send>(
    eal: &'static Eal,
    body: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _lcore = Registration::new(eal).map_err(BenchError::of)?;
            let _pinned = pin_current_thread(1);
            body()
        });
        thread
            .join()
            .map_err(|_| BenchError("the generator's thread panicked".into()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_recovers_by_what_it_can_do_beside_the_load() {
        let of = |load: f64| recovery(load * 1e6, Some(1e6));
        assert!((of(0.5) - 1.0).abs() < 1e-9 && (of(0.9) - 9.0).abs() < 1e-6);
        assert_eq!(recovery(1e6, None), 1.0);
        assert_eq!(of(1.5), 1.0);
    }

    #[test]
    fn a_hundredth_of_late_packets_is_allowed() {
        assert_eq!(late(10, 1_000), None);
        assert_eq!(late(0, 0), None);
        let why = late(11, 1_000).unwrap();
        assert_eq!(why, "the generator was late with 1.1% of the packets");
    }
}
