//! `sluice demo`: a UPF and its whole surroundings in one process. A simulated SMF sets sessions up over PFCP, gNBs and
//! a data network send and check user packets over memory ports, and a view shows what happens.
//!
//! Control, SMF and view are on the starting thread. Each worker has a thread, and the simulator's packets are made
//! and checked on that same thread between two polls of the worker, so that the load does not depend on the scheduler.

mod feeder;
mod plan;
mod port;
mod view;
mod watch;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flow::bucket;
use oam::totals;
use serde_json::{Value, json};
use session::Random;
use sim::path::Path;
use sim::report::{DirectionReport, Report, Totals};
use sim::smf::{Smf, State};
use sim::{Shard, ShardConfig};
use worker::{Stats, Worker, poll_over_dpdk};

use config::Config;
use feeder::{Director, feeder};
use oam::rest::QueryServer;
pub use plan::Options;
use port::MemoryPort;
use ports::Ports;
use runtime::{Clock, Idle, ThreadConfig, WakeTargets, WorkerThread};
use trace::Explainer;
use upf::{Assembly, Control, Surroundings, assemble};
use view::{Snapshot, View};
use watch::Watch;
pub use watch::program;

/// Addresses of the two PFCP entities, inside this process alone.
const N4_UPF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8)), 8805);
const N4_SMF: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 8805);
/// How long the sessions may take, and the addresses of gateways.
const PATIENCE: Duration = Duration::from_secs(60);
/// After the last packet is sent, how long late ones are waited for.
const DRAIN: Duration = Duration::from_millis(500);

/// Why the demo ended early.
#[derive(Debug)]
pub struct DemoError(String);

impl DemoError {
    fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DemoError {}

/// Result of the demo.
pub struct Outcome {
    /// The simulator's view.
    pub report: Report,
    /// The workers'.
    pub stats: Vec<Stats>,
    /// How long the sessions took.
    pub setup: Duration,
    /// Octets that the URRs reported when the sessions were deleted.
    pub usage: (u64, u64),
}

/// Runs the demo until its time is over or `stop` is set.
///
/// # Errors
/// DPDK, memory, or sessions that did not come up.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<Outcome, DemoError> {
    let config = Config::parse(&plan::configuration(options), "demo").map_err(DemoError::of)?;
    let end = Arc::new(AtomicBool::new(false));
    let mut demo = Demo::start(options, &config, &end)?;
    if let Some((watch, _)) = &demo.watch {
        println!("{}", watch.words());
    }
    let mut view = View::open();
    let outcome = demo.play(options, &mut view, stop);
    view.close();
    end.store(true, Ordering::Relaxed);
    let stats = demo.threads.into_iter().map(WorkerThread::join).collect();
    let mut outcome = outcome?;
    outcome.stats = stats;
    Ok(outcome)
}

struct Demo {
    clock: Clock,
    control: Control,
    smf: Smf,
    directors: Vec<Director>,
    threads: Vec<WorkerThread>,
    watch: Option<(Watch, QueryServer)>,
    // Closes the ports last.
    _ports: Ports,
}

impl Demo {
    fn start(options: &Options, config: &Config, end: &Arc<AtomicBool>) -> Result<Self, DemoError> {
        let eal = ports::start_eal(config).map_err(DemoError::of)?;
        let mut ports = Ports::start(eal, config).map_err(DemoError::of)?;
        let clock = Clock::starting_now(eal.tsc_hz());
        let network = Arc::new(config.network().map_err(DemoError::of)?);
        let explainer = Explainer::of(config, Arc::clone(&network), clock.unix_at_zero() * 1_000_000_000);
        let seed = Random::system_seed().map_err(DemoError::of)?;
        let around = Surroundings {
            now: clock.now(),
            clock_unix: clock.unix_at_zero(),
            random: Random::from_seed(seed),
            interfaces: ports.interfaces(&network),
            macs: ports.macs(),
        };
        let Assembly { control, workers } = assemble(config, &network, around);
        let wires = MemoryPort::for_workers(ports.take_peers(), ports.pools());
        let ios = ports.take_io(eal).map_err(DemoError::of)?;
        let (mut directors, mut threads) = (Vec::new(), Vec::new());
        for (((worker_config, link), io), wire) in workers.into_iter().zip(ios).zip(wires) {
            let worker = move || Worker::new(worker_config, io, link);
            let (director, mut feeder) = feeder(wire);
            let thread_config = ThreadConfig {
                core: None,
                idle: Idle::adaptive(Duration::from_micros(50)),
                wakes: WakeTargets::default(),
            };
            let feed = move |now| feeder.poll(now);
            threads.push(WorkerThread::start(
                eal,
                clock.clone(),
                thread_config,
                Arc::clone(end),
                (worker, poll_over_dpdk),
                feed,
            ));
            directors.push(director);
        }
        for thread in &mut threads {
            thread.ready().map_err(DemoError::of)?;
        }
        let watch = options.ui.then(|| Watch::open(&threads, explainer)).transpose();
        let smf = Smf::new(plan::smf(options.sessions, N4_SMF.ip())).map_err(DemoError::of)?;
        Ok(Self {
            clock,
            control,
            smf,
            directors,
            threads,
            watch: watch.map_err(DemoError::of)?,
            _ports: ports,
        })
    }

    fn play(&mut self, options: &Options, view: &mut View, stop: &AtomicBool) -> Result<Outcome, DemoError> {
        let begin = Instant::now();
        self.smf.start(self.clock.now());
        self.until(options, Some(view), stop, "sessions", |smf| {
            smf.state() == State::Established
        })?;
        let (setup, progress) = (begin.elapsed(), self.smf.progress());
        if progress.up == 0 {
            return Err(DemoError("no session came up".into()));
        }
        self.hand_out_shards(options)?;
        let (totals, time) = self.traffic(options, view, stop)?;
        self.smf.release(self.clock.now());
        let released = |smf: &Smf| matches!(smf.state(), State::Released | State::Failed(_));
        self.until(options, None, &AtomicBool::new(false), "release", released)?;
        let usage = self.smf.progress().usage;
        let report = Report::new(progress.up, time, &totals);
        Ok(Outcome {
            report,
            stats: Vec::new(),
            setup,
            usage: (usage.uplink_octets, usage.downlink_octets),
        })
    }

    /// Exchanges PFCP messages of SMF and UPF once: whether there were any.
    fn talk(&mut self) -> bool {
        let now = self.clock.now();
        let mut busy = false;
        if self.smf.poll_timeout().is_some_and(|at| at <= now) {
            self.smf.handle_timeout(now);
        }
        while let Some(datagram) = self.smf.poll_transmit() {
            self.control.handle_datagram(now, N4_SMF, N4_UPF, &datagram);
            busy = true;
        }
        busy |= self.control.poll(now);
        if let Some((_, server)) = &mut self.watch {
            busy |= server.serve(now, &mut self.control);
        }
        while let Some(answer) = self.control.poll_transmit() {
            self.smf.handle(now, &answer.bytes);
            busy = true;
        }
        busy
    }

    /// Lets them talk until `done`.
    fn until(
        &mut self,
        options: &Options,
        mut view: Option<&mut View>,
        stop: &AtomicBool,
        phase: &'static str,
        done: impl Fn(&Smf) -> bool,
    ) -> Result<(), DemoError> {
        let (begin, mut shown) = (Instant::now(), Instant::now());
        while !done(&self.smf) {
            if let State::Failed(failure) = self.smf.state() {
                return Err(DemoError(format!("the SMF gave up: {failure:?}")));
            }
            if begin.elapsed() > PATIENCE {
                return Err(DemoError(format!(
                    "{phase}: not done after {} s",
                    PATIENCE.as_secs()
                )));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(DemoError("stopped before there was traffic".into()));
            }
            if !self.talk() {
                thread::yield_now();
            }
            if let Some(view) = &mut view
                && shown.elapsed() >= view.interval()
            {
                shown = Instant::now();
                let quiet = Report::new(0, Duration::ZERO, &Totals::default());
                view.show(&self.snapshot(options, phase, Duration::ZERO, &quiet));
            }
        }
        Ok(())
    }

    /// Gives each worker's feeder its share of the flows and waits until all know their gateways.
    fn hand_out_shards(&mut self, options: &Options) -> Result<(), DemoError> {
        let mut flows = self.smf.paths(&plan::SERVERS);
        let shards = self.directors.len();
        let mut ends = vec![0; shards];
        if options.scatter {
            (1..=shards).for_each(|place| ends[place - 1] = flows.len() * place / shards);
        } else {
            flows.sort_by_key(|flow| self.landing(flow.ue));
            (0..shards)
                .for_each(|place| ends[place] = flows.partition_point(|flow| self.landing(flow.ue) <= place));
        }
        let paths: Arc<[Path]> = flows
            .into_iter()
            .map(Path::new)
            .collect::<Result<_, _>>()
            .map_err(DemoError::of)?;
        let mut begin = 0;
        for ((place, director), end) in self.directors.iter().enumerate().zip(ends) {
            let share = begin..end as u32;
            begin = share.end;
            let (access, core) = (plan::gnb_station(), plan::dn_station());
            let traffic = plan::traffic(options, place as u32, &share, paths.len() as u32);
            let shard = Shard::new(ShardConfig {
                access,
                core,
                paths: Arc::clone(&paths),
                share,
                traffic,
                hops: 1,
            });
            director.take(shard.map_err(DemoError::of)?);
        }
        let begin = Instant::now();
        while !self.directors.iter().all(Director::is_ready) {
            if begin.elapsed() > PATIENCE {
                return Err(DemoError("the UPF does not answer ARP".into()));
            }
            self.talk();
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The worker that a NIC which hashes inner headers lands the packets of a UE on: the owner of its bucket.
    fn landing(&self, ue: IpAddr) -> usize {
        let bucket = match ue {
            IpAddr::V4(ue) => bucket::of_ipv4(ue.octets()),
            IpAddr::V6(ue) => {
                let [a, b, c, d, e, f, g, h, ..] = ue.octets();
                bucket::of_ipv6_prefix([a, b, c, d, e, f, g, h])
            }
        };
        self.control.owner(bucket).index()
    }

    fn traffic(
        &mut self,
        options: &Options,
        view: &mut View,
        stop: &AtomicBool,
    ) -> Result<(Totals, Duration), DemoError> {
        let (begin, length) = (Instant::now(), Duration::from_secs(options.seconds));
        self.directors.iter().for_each(Director::start);
        let mut before = Sample {
            time: Duration::ZERO,
            totals: self.totals(),
        };
        while begin.elapsed() < length && !stop.load(Ordering::Relaxed) {
            self.wait(view.interval().min(length.saturating_sub(begin.elapsed())))?;
            let after = Sample {
                time: begin.elapsed(),
                totals: self.totals(),
            };
            let interval = rates_between(self.smf.progress().up, &before, &after);
            view.show(&self.snapshot(options, "traffic", after.time, &interval));
            before = after;
        }
        self.directors.iter().for_each(Director::stop);
        let time = begin.elapsed();
        self.wait(DRAIN)?;
        let totals = self.totals();
        view.show(&self.snapshot(
            options,
            "done",
            time,
            &Report::new(self.smf.progress().up, time, &totals),
        ));
        Ok((totals, time))
    }

    /// Keeps N4 going for a while.
    fn wait(&mut self, while_: Duration) -> Result<(), DemoError> {
        let begin = Instant::now();
        while begin.elapsed() < while_ {
            if self.threads.iter().any(WorkerThread::is_finished) {
                return Err(DemoError("a worker's thread ended".into()));
            }
            self.talk();
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.directors
            .iter()
            .for_each(|director| totals.merge(&director.totals()));
        totals
    }

    fn snapshot(&self, options: &Options, phase: &'static str, time: Duration, report: &Report) -> Snapshot {
        let stats: Vec<Stats> = self
            .threads
            .iter()
            .map(|thread| thread.published().read())
            .collect();
        let sum = |value: fn(&Stats) -> u64| stats.iter().map(value).sum::<u64>();
        let (hits, misses) = (sum(|stats| stats.hits), sum(|stats| stats.misses));
        Snapshot {
            phase,
            time: (time, Duration::from_secs(options.seconds)),
            sessions: (self.smf.progress().up, options.sessions),
            workers: self.threads.len(),
            uplink: report.uplink,
            downlink: report.downlink,
            handed_over: sum(|stats| stats.handed_over),
            hit_rate: if hits + misses == 0 {
                0.0
            } else {
                hits as f64 * 100.0 / (hits + misses) as f64
            },
            drops: totals::drops(&stats),
        }
    }
}

/// Totals at a time since the start of the traffic.
struct Sample {
    time: Duration,
    totals: Totals,
}

/// Counts and delays since the start, with the rates of the time between two sums.
fn rates_between(sessions: u32, before: &Sample, after: &Sample) -> Report {
    let mut report = Report::new(sessions, after.time, &after.totals);
    let seconds = (after.time - before.time).as_secs_f64();
    let rate = |direction: &mut DirectionReport, then: &sim::tracker::Meter, now: &sim::tracker::Meter| {
        if seconds > 0.0 {
            direction.mpps = (now.counts.received - then.counts.received) as f64 / seconds / 1e6;
            direction.gbps = (now.received_octets - then.received_octets) as f64 * 8.0 / seconds / 1e9;
        }
        // What is on its way is not lost while the traffic runs.
        direction.lost = now.counts.corrupted + now.counts.misdirected;
    };
    rate(&mut report.uplink, &before.totals.uplink, &after.totals.uplink);
    rate(
        &mut report.downlink,
        &before.totals.downlink,
        &after.totals.downlink,
    );
    report
}

impl Outcome {
    /// The machine-readable summary.
    #[must_use]
    pub fn json(&self) -> Value {
        let us = |ns: u64| ns as f64 / 1e3;
        let worse = |value: fn(&DirectionReport) -> u64| {
            us(value(&self.report.uplink).max(value(&self.report.downlink)))
        };
        json!({
            "sessions": self.report.sessions,
            "ul_mpps": self.report.uplink.mpps,
            "dl_mpps": self.report.downlink.mpps,
            "ul_gbps": self.report.uplink.gbps,
            "dl_gbps": self.report.downlink.gbps,
            "ul_lost": self.report.uplink.lost,
            "dl_lost": self.report.downlink.lost,
            "latency_us": {
                "p50": worse(|d| d.latency.p50),
                "p99": worse(|d| d.latency.p99),
                "p999": worse(|d| d.latency.p999),
            },
            "drops": totals::drops_json(&self.stats),
            "workers": self.stats.len(),
            "setup_seconds": self.setup.as_secs_f64(),
            "seconds": self.report.time.as_secs_f64(),
            "usage_octets": {"uplink": self.usage.0, "downlink": self.usage.1},
            "counters": totals::totals(&self.stats),
        })
    }

    /// The summary that a person reads.
    #[must_use]
    pub fn text(&self) -> String {
        let drops: Vec<String> = totals::drops(&self.stats)
            .into_iter()
            .map(|(reason, count)| format!("  {count} {}: {}\n", reason.label(), reason.explain()))
            .collect();
        format!(
            "{}\nsessions set up in {:.3} s; URRs reported {} octets up, {} down\ndrops: {}\n{}",
            self.report,
            self.setup.as_secs_f64(),
            self.usage.0,
            self.usage.1,
            if drops.is_empty() { "none" } else { "" },
            drops.concat()
        )
    }
}
