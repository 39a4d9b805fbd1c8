//! The threads of the workers: with what they are started, whom they wake, how they wait. Their tables are made before
//! there are ports, by threads that end then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use config::{Config, IdlePolicy};
use dpdk::Eal;
use flow::WorkerId;
use flow::slab::OutOfMemory;
use ports::Ports;
use rules::network::Network;
use runtime::{
    Clock, Idle, PollWorker, ThreadConfig, Waiter, WakeTargets, Wakeup, WorkerThread, sockets_of_workers,
};
use session::Random;
use tracing::warn;
use upf::{worker_config, worker_seed};
use worker::dpdk::{DpdkIo, HostEnd};
use worker::{Io, Worker, WorkerTables, poll_over_dpdk};

#[cfg(feature = "accelerator")]
use super::accelerator::TowardsAccelerator;
use super::host::HostPath;

/// What workers are made with, in the order of their numbers.
pub type Made = Vec<(worker::WorkerConfig, worker::WorkerEnd)>;

/// Whom the threads of workers wake.
pub struct Wakes {
    control: Wakeup,
    /// By worker, as far as they wait in the kernel.
    workers: Vec<Option<Wakeup>>,
    host: Option<Wakeup>,
}

impl Wakes {
    /// Control, the workers as far as they wait in the kernel, and the thread of the host's packets.
    pub fn new(control: Wakeup, workers: Vec<Option<Wakeup>>, host: Option<&HostPath>) -> Self {
        let host = host.map(|host| host.wakeup().clone());
        Self {
            control,
            workers,
            host,
        }
    }

    /// Whom the worker at `place` wakes.
    fn of(&self, place: usize) -> WakeTargets {
        let others = self.workers.iter().enumerate();
        let others = others.filter(|(other, _)| *other != place);
        WakeTargets {
            control: Some(self.control.clone()),
            peers: others.filter_map(|(_, wakeup)| wakeup.clone()).collect(),
            host: self.host.clone(),
        }
    }
}

/// A thread that makes the tables of a worker, on the worker's core if that has one.
pub struct TablesThread(JoinHandle<Result<WorkerTables, OutOfMemory>>);

impl TablesThread {
    /// Starts one for each worker of the UPF that is to be assembled with random numbers of this seed.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start_all(config: &Config, network: &Arc<Network>, seed: [u8; 32]) -> io::Result<Vec<Self>> {
        let seed = worker_seed(&mut Random::from_seed(seed));
        let start = |id| {
            let core = config.workers.cores.get(usize::from(id));
            let core = core.map(|core| core.value() as u32);
            let sizes = worker_config(config, WorkerId(id), network, &[], seed);
            let make = move || {
                if let Some(core) = core {
                    // The worker's own thread says what is wrong with a core that cannot be had.
                    let _ = dpdk::pin_current_thread(core);
                }
                WorkerTables::new(&sizes)
            };
            thread::Builder::new().name("tables".into()).spawn(make).map(Self)
        };
        (0..config.workers.count.value() as u16).map(start).collect()
    }

    /// Waits for the tables.
    ///
    /// # Errors
    /// When the memory cannot be had.
    fn end(self) -> Result<WorkerTables, OutOfMemory> {
        self.0
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A worker that has not started.
pub struct Unstarted {
    config: worker::WorkerConfig,
    tables: TablesThread,
    link: worker::WorkerEnd,
    io: DpdkIo,
    idle: Idle,
}

/// The workers with what is theirs, in the order of their numbers; the first have the ends towards the host.
pub fn unstarted_workers(
    workers: Made,
    tables: Vec<TablesThread>,
    ios: Vec<DpdkIo>,
    idles: Vec<Idle>,
    host_ends: Vec<HostEnd>,
) -> Vec<Unstarted> {
    let mut ends = host_ends.into_iter();
    let parts = workers.into_iter().zip(tables).zip(ios).zip(idles);
    let unstarted = parts.map(|((((config, link), tables), io), idle)| Unstarted {
        config,
        tables,
        link,
        io: match ends.next() {
            Some(end) => io.with_host(end),
            None => io,
        },
        idle,
    });
    unstarted.collect()
}

/// What the threads of workers have beside them.
#[cfg_attr(
    not(feature = "accelerator"),
    expect(dead_code, reason = "ports are asked for an accelerator alone")
)]
pub struct WorkerSurroundings<'a> {
    config: &'a Config,
    ports: &'a Ports,
    wakes: Wakes,
    clock: &'a Clock,
    halt: &'a Arc<AtomicBool>,
}

impl<'a> WorkerSurroundings<'a> {
    /// The configuration and its ports, whom they wake, their clock, and what ends them.
    pub const fn new(
        (config, ports): (&'a Config, &'a Ports),
        wakes: Wakes,
        clock: &'a Clock,
        halt: &'a Arc<AtomicBool>,
    ) -> Self {
        Self {
            config,
            ports,
            wakes,
            clock,
            halt,
        }
    }
}

/// Starts a thread for each worker.
///
/// # Errors
/// The accelerator that ports are behind cannot be driven.
pub fn start_workers(
    eal: &'static Eal,
    around: &WorkerSurroundings<'_>,
    workers: Vec<Unstarted>,
) -> Result<Vec<WorkerThread>, String> {
    let mut towards = towards_accelerator(around.config)?;
    let start = |(place, unstarted): (usize, Unstarted)| {
        let Unstarted {
            config: own,
            tables,
            link,
            io,
            idle,
        } = unstarted;
        let cores = &around.config.workers.cores;
        let thread_config = ThreadConfig {
            core: cores.get(place).map(|core| core.value() as u32),
            idle,
            wakes: around.wakes.of(place),
        };
        match &mut towards {
            None => {
                let made = move || Worker::with_tables(own, tables.end()?, io, link);
                Ok(worker_thread(eal, around, thread_config, (made, poll_over_dpdk)))
            }
            Some(towards) => {
                let io = behind_accelerator(towards, io, around)?;
                let made = move || Worker::with_tables(own, tables.end()?, io, link);
                Ok(worker_thread(eal, around, thread_config, (made, Worker::poll)))
            }
        }
    };
    workers.into_iter().enumerate().map(start).collect()
}

/// Starts one.
fn worker_thread<I: Io + 'static>(
    eal: &'static Eal,
    around: &WorkerSurroundings<'_>,
    config: ThreadConfig,
    worker: (
        impl FnOnce() -> Result<Worker<I>, OutOfMemory> + Send + 'static,
        PollWorker<I>,
    ),
) -> WorkerThread {
    let (clock, halt) = (around.clock.clone(), Arc::clone(around.halt));
    WorkerThread::start(eal, clock, config, halt, worker, |_| false)
}

/// What the workers have of the accelerator; `None` without one.
#[cfg(feature = "accelerator")]
fn towards_accelerator(config: &Config) -> Result<Option<TowardsAccelerator>, String> {
    let of = |_| TowardsAccelerator::new(config).map_err(|error| error.to_string());
    config.accelerator.as_ref().map(of).transpose()
}

#[cfg(feature = "accelerator")]
fn behind_accelerator(
    towards: &mut TowardsAccelerator,
    io: DpdkIo,
    around: &WorkerSurroundings<'_>,
) -> Result<super::accelerator::AcceleratedIo, String> {
    let io = towards.behind(io, around.config, around.ports);
    io.map_err(|error| error.to_string())
}

/// There are no accelerators in this program.
#[cfg(not(feature = "accelerator"))]
fn towards_accelerator(config: &Config) -> Result<Option<()>, String> {
    match config.accelerator {
        None => Ok(None),
        Some(_) => {
            Err("accelerator: this program was built without accelerators (feature `accelerator`)".into())
        }
    }
}

#[cfg(not(feature = "accelerator"))]
fn behind_accelerator(_: &mut (), io: DpdkIo, _: &WorkerSurroundings<'_>) -> Result<DpdkIo, String> {
    Ok(io)
}

/// What each worker does when there is nothing to do.
///
/// # Errors
/// The sockets that a worker is to wait for cannot be waited for.
pub fn idle_workers(config: &Config, ios: &[DpdkIo]) -> Result<Vec<Idle>, String> {
    let workers = ios.len();
    let policy = config.idle_policy();
    let sleeping = |_| Idle::adaptive(config.idle_sleep());
    match policy {
        IdlePolicy::Busy => Ok((0..workers).map(|_| Idle::busy()).collect()),
        IdlePolicy::Adaptive => Ok((0..workers).map(sleeping).collect()),
        IdlePolicy::Interrupt => match sockets_of_workers(config, ios) {
            Ok(sockets) => {
                let idle = |sockets| Waiter::new(sockets).map(Idle::interrupt);
                let idles = sockets.into_iter().map(idle).collect::<Result<_, _>>();
                idles.map_err(|error| format!("waiting for the sockets of the ports: {error}"))
            }
            Err(reason) => {
                warn!(
                    reason,
                    "workers.idle adaptive: workers cannot wait for their sockets"
                );
                Ok((0..workers).map(sleeping).collect())
            }
        },
    }
}
