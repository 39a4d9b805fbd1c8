//! The user plane that is measured: the daemon's control loop on a thread and sockets of its own, and a worker on the
//! daemon's worker thread, whose port makes and takes packets itself.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpdk::{Eal, pin_current_thread};
use flow::{PortId, WorkerId};
use serde::Serialize;
use session::Random;
use worker::{Batch, Io, Stats, Worker};

use super::super::clock::{Moment, Passed};
use super::super::error::BenchError;
use super::super::feed::{Buf, Feed};
use super::super::load::Load;
use super::super::model::Model;
use super::super::network::{MACS, N3_ADDRESS, ROUTER, VLANS, Wire};
use super::super::rules::Identity;
use config::Config;
use runtime::Clock;
use runtime::{ControlLoop, Idle, Sockets, ThreadConfig, WakeTargets, WorkerThread, spawn_prefault_thread};
use upf::{Assembly, Surroundings, assemble};

/// The core of each thread.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cores {
    /// The worker.
    pub worker: u32,
    /// Control.
    pub control: u32,
    /// The load generator: a core of its own, or the worker's where there are only two.
    pub generator: u32,
}

impl Cores {
    /// Chooses among the cores of this process.
    ///
    /// # Errors
    /// When there are not two.
    pub fn choose() -> Result<Self, BenchError> {
        let all = dpdk::thread_cpus().map_err(BenchError::of)?;
        match all[..] {
            [worker, control, ref rest @ ..] => Ok(Self {
                worker,
                control,
                generator: rest.first().copied().unwrap_or(worker),
            }),
            _ => Err(BenchError("PFCP takes two cores".into())),
        }
    }
}

/// The next load of the port.
struct Order {
    /// The sessions of its packets, by number.
    identities: Arc<[Identity]>,
    load: Load,
}

/// A port that receives nothing until the first order.
struct OrderedFeed {
    feed: Feed,
    orders: Receiver<Order>,
    model: Model,
}

impl OrderedFeed {
    #[cold]
    fn follow(&mut self, order: Order) {
        self.feed = Feed::new(self.model, Wire::Tagged, order.identities);
        self.feed.set_load(order.load);
    }
}

impl Io for OrderedFeed {
    type Buf = Buf;

    fn ports(&self) -> usize {
        self.feed.ports()
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        if port == PortId(0)
            && let Ok(order) = self.orders.try_recv()
        {
            self.follow(order);
        }
        self.feed.rx(port, out);
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        self.feed.tx(port, out);
    }

    fn alloc(&mut self) -> Option<Buf> {
        self.feed.alloc()
    }

    fn hand_over(&mut self, to: WorkerId, out: &mut Batch<Buf>) {
        self.feed.hand_over(to, out);
    }

    fn inbox_len(&self) -> usize {
        self.feed.inbox_len()
    }

    fn inbox(&mut self, out: &mut Batch<Buf>) {
        self.feed.inbox(out);
    }

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.feed.free(out);
    }
}

/// Report of control's thread.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ControlReport {
    /// Its time since the last report.
    #[serde(flatten)]
    pub passed: Passed,
    /// Sessions that are resident.
    pub sessions: usize,
    /// Establishments rejected by load since the start.
    pub throttled: u64,
}

enum Ask {
    Report(Sender<ControlReport>),
    End,
}

/// Ends the worker's thread when it is dropped.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The running user plane. Its threads end with it.
pub struct UserPlane {
    stop: Stop,
    asks: Sender<Ask>,
    control: JoinHandle<Result<(), BenchError>>,
    worker: WorkerThread,
    orders: Sender<Order>,
}

impl UserPlane {
    /// A user plane at `address`, with room for `sessions` sessions, of which those of `model` may have traffic.
    ///
    /// # Errors
    /// The socket's, DPDK's, and those of memory.
    pub fn start(
        eal: &'static Eal,
        cores: Cores,
        address: Ipv4Addr,
        sessions: u32,
        model: Model,
    ) -> Result<Self, BenchError> {
        let config =
            Config::parse(&configuration(address, sessions, &model), "bench").map_err(BenchError::of)?;
        let sockets = Sockets::open([address.into()].into_iter(), pfcp::PORT).map_err(BenchError::of)?;
        spawn_prefault_thread(sessions as usize);
        let clock = Clock::starting_now(eal.tsc_hz());
        let network = Arc::new(config.network().map_err(BenchError::of)?);
        let seed = Random::system_seed().map_err(BenchError::of)?;
        let instances = network.instances().iter();
        let around = Surroundings {
            now: clock.now(),
            clock_unix: clock.unix_at_zero(),
            random: Random::from_seed(seed),
            interfaces: instances.map(|one| worker::interface(one, &MACS)).collect(),
            macs: MACS.to_vec(),
        };
        let Assembly { control, workers } = assemble(&config, &network, around);
        let (stop, (orders, received)) = (Arc::new(AtomicBool::new(false)), channel());
        let io = OrderedFeed {
            feed: Feed::new(model, Wire::Tagged, Arc::new([])),
            orders: received,
            model,
        };
        let (worker_config, link) = workers
            .into_iter()
            .next()
            .ok_or_else(|| BenchError("no worker".into()))?;
        let worker = move || Worker::new(worker_config, io, link);
        let thread_config = ThreadConfig {
            core: Some(cores.worker),
            idle: Idle::adaptive(Duration::from_micros(50)),
            wakes: WakeTargets::default(),
        };
        let mut worker = WorkerThread::start(
            eal,
            clock.clone(),
            thread_config,
            Arc::clone(&stop),
            (worker, Worker::poll),
            |_| false,
        );
        worker.ready().map_err(BenchError::of)?;
        let (asks, questions) = channel();
        let turns = ControlLoop::new(control, sockets, clock);
        let control = thread::Builder::new().name("control".into());
        let control = control
            .spawn(move || run(turns, cores.control, &questions))
            .map_err(BenchError::of)?;
        Ok(Self {
            stop: Stop(stop),
            asks,
            control,
            worker,
            orders,
        })
    }

    /// Report of control's thread since the last report.
    ///
    /// # Errors
    /// When it has ended.
    pub fn report(&self) -> Result<ControlReport, BenchError> {
        let (answer, answered) = channel();
        let gone = || BenchError("control's thread ended".into());
        self.asks.send(Ask::Report(answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())
    }

    /// Sets the worker's load of packets of these sessions.
    pub fn load(&self, identities: Arc<[Identity]>, load: Load) {
        // The end of a worker's thread is reported when it is joined.
        let _ = self.orders.send(Order { identities, load });
    }

    /// The worker's counts, as of the last fifty milliseconds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.worker.published().read()
    }

    /// Ends it.
    ///
    /// # Errors
    /// Errors of its threads.
    pub fn end(self) -> Result<Stats, BenchError> {
        let _ = self.asks.send(Ask::End);
        let control = self
            .control
            .join()
            .map_err(|_| BenchError("control's thread panicked".into()));
        drop(self.stop);
        let stats = self.worker.join();
        control??;
        Ok(stats)
    }
}

/// Control's thread.
fn run(mut turns: ControlLoop, core: u32, questions: &Receiver<Ask>) -> Result<(), BenchError> {
    // Where that is refused, the scheduler does what it can.
    let _pinned = pin_current_thread(core);
    let mut moment = Moment::now();
    loop {
        turns.turn().map_err(BenchError::of)?;
        match questions.try_recv() {
            Ok(Ask::Report(answer)) => {
                let endpoint = turns.control().endpoint();
                let report = ControlReport {
                    passed: moment.elapsed(),
                    sessions: endpoint.sessions().count().sessions,
                    throttled: endpoint.counters().throttled,
                };
                let _ = answer.send(report);
                moment = Moment::now();
            }
            Ok(Ask::End) | Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {}
        }
    }
}

/// The user plane's configuration file: the network of all benchmarks.
fn configuration(address: Ipv4Addr, sessions: u32, model: &Model) -> String {
    let flows = (model.entries() * 2).max(1_024);
    let [access, core] = VLANS;
    format!(
        "node: {{id: {address}}}\n\
         n4: {{addresses: [{address}], peers: [127.0.0.0/8], heartbeat_s: 3600}}\n\
         limits: {{sessions: {sessions}, flows_ipv4: {flows}, flows_ipv6: 1024}}\n\
         ports: [{{name: ran, driver: {{memory: {{}}}}}}, {{name: dn, driver: {{memory: {{}}}}}}]\n\
         instances:\n\
         \x20 - {{name: access, roles: [n3], port: ran, vlan: {access}, addresses: [{N3_ADDRESS}/24],\n\
         \x20    routes: [{{to: 10.200.0.0/16, via: 10.0.3.254, mac: \"{ROUTER}\"}}]}}\n\
         \x20 - {{name: internet, roles: [n6], port: dn, vlan: {core}, addresses: [10.0.6.1/24],\n\
         \x20    routes: [{{to: 0.0.0.0/0, via: 10.0.6.254, mac: \"{ROUTER}\"}}]}}\n"
    )
}
