//! Set-up of flows on one core: every packet is the first of its flow.
//!
//!     cargo run --release -p worker --example setup_bench -- [--sessions N] [--flows N] [--rounds N] [--filters N]
//!
//! The table is filled to 95%, then held there: as many flows age as come. Figures are those of the worker's own
//! stages, from `parse` to `tx`, so the harness that makes packets up is not in them; the slow path alone is the
//! stage `slow`. Under `valgrind --tool=callgrind` the same run gives
//! instructions.

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Nanos, PortId, Seed, Tick, WorkerId, cycles};
use packet::checksum;
use rules::model::SdfFilter;
use rules::testing::{self, N3_ADDRESS, UserPacket, tunnelled};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{BURST, IdleTimes, Stage, Worker, WorkerConfig, control_channel};

use common::rules_of;

struct Options {
    sessions: u32,
    flows: usize,
    rounds: usize,
    filters: usize,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: usize| {
        let place = arguments.iter().position(|argument| argument == name);
        let given = place.and_then(|place| arguments.get(place + 1)?.parse().ok());
        given.unwrap_or(default)
    };
    Options {
        sessions: value("--sessions", 10_000) as u32,
        flows: value("--flows", 1 << 20),
        rounds: value("--rounds", 2),
        filters: value("--filters", 2),
    }
}

fn ue(session: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a40_0000 + session)
}

fn teid(session: u32) -> u32 {
    0x1000_0000 + session
}

/// Filters that read ports: the last one takes every packet.
fn filters(count: usize) -> Option<Vec<SdfFilter>> {
    let filter = |text: String| SdfFilter {
        flow_description: Some(text.parse().expect("a description")),
        ..SdfFilter::default()
    };
    let ports = (1..count).map(|port| filter(format!("permit out 6 from any {port} to assigned")));
    let all = filter("permit out ip from any 0-65535 to assigned".into());
    (count > 0).then(|| ports.chain([all]).collect())
}

/// Makes first packets of flows up.
struct Source {
    frame: Vec<u8>,
    sessions: u32,
    random: u64,
}

impl Source {
    fn new(sessions: u32) -> Self {
        let user = UserPacket::udp(ue(0), Ipv4Addr::new(192, 0, 2, 1), 1000, 2000).bytes();
        let packet = tunnelled(N3_ADDRESS, teid(0), 255, Some([0x10, 9]), &[], &user);
        let header = [[2, 0, 0, 0, 0, 0], [2, 0xee, 0, 0, 0, 1]].concat();
        Self {
            frame: [&header[..], &[8, 0], &packet].concat(),
            sessions,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn next(&mut self) -> MemBuf {
        const GTPU: usize = 14 + 20 + 8;
        const INNER: usize = GTPU + 16;
        let session = (self.random() % u64::from(self.sessions)) as u32;
        let tuple = self.random().to_be_bytes();
        self.frame[GTPU + 4..GTPU + 8].copy_from_slice(&teid(session).to_be_bytes());
        let inner = &mut self.frame[INNER..];
        inner[12..16].copy_from_slice(&ue(session).octets());
        inner[17..24].copy_from_slice(&tuple[..7]);
        inner[10..12].fill(0);
        let sum = checksum::of(&inner[..20]);
        inner[10..12].copy_from_slice(&sum.to_be_bytes());
        MemBuf::new(&self.frame)
    }
}

fn worker(options: &Options) -> (Worker<MemIo>, Wires, worker::ControlEnd) {
    let network = Arc::new(testing::network());
    let (wires, mut ios) = Wires::new(1, 4, 256);
    let mut config = WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), common::macs(), Seed([3, 5]));
    (config.max_sessions, config.own_sessions) = (options.sessions as usize, options.sessions as usize);
    (config.max_flows_v4, config.max_flows_v6) = (options.flows, 1024);
    config.force_five_tuple = true;
    config.idle = IdleTimes::all(Tick::LENGTH * IDLE_TICKS);
    config.aging_per_poll = options.flows / 8 * BURST * IDLE_TICKS as usize / (options.flows * 95 / 100) * 2;
    let (mut control, end) = control_channel(64, 256);
    let mut worker = Worker::new(config, ios.remove(0), end).expect("there is memory");
    common::meet_next_hops(&mut control, &network);
    for session in 0..options.sessions {
        let rules = rules_of(session, teid(session), ue(session), filters(options.filters));
        common::install(&mut worker, &mut control, &network, session, rules);
    }
    (worker, wires, control)
}

/// How long a flow idles before it goes.
const IDLE_TICKS: u32 = 64;

/// The stages that a burst goes through, without the port.
const STAGES: [Stage; 6] = [
    Stage::Parse,
    Stage::SelectWorker,
    Stage::Lookup,
    Stage::Slow,
    Stage::ApplyRules,
    Stage::Tx,
];

/// State of a run.
struct State {
    worker: Worker<MemIo>,
    wires: Wires,
    source: Source,
    now: Nanos,
    /// Time that passes with each burst.
    step: Duration,
    /// Nanoseconds of a tick of [`cycles`].
    tick: f64,
}

/// Bursts of a round. The fastest one is the best estimate where others use the machine, too.
const ROUND: usize = 64;

impl State {
    /// Ticks that each stage took for a number of bursts.
    fn bursts(&mut self, bursts: usize) -> [f64; STAGES.len()] {
        let ticks = |worker: &Worker<MemIo>| STAGES.map(|stage| worker.stats().stages[stage as usize].ticks);
        let before = ticks(&self.worker);
        for _ in 0..bursts {
            let queue = self.wires.to(WorkerId(0), PortId(0));
            (0..BURST).for_each(|_| queue.push(self.source.next()).expect("there is room"));
            self.now = self.now + self.step;
            self.worker.poll(self.now);
            while self.wires.from(PortId(1)).pop().is_some() {}
        }
        let after = ticks(&self.worker);
        std::array::from_fn(|stage| (after[stage] - before[stage]) as f64)
    }

    fn run(&mut self, name: &str, bursts: usize) {
        let before = self.worker.stats().clone();
        let rounds: Vec<_> = (0..bursts / ROUND).map(|_| self.bursts(ROUND)).collect();
        let sum = |round: &[f64; STAGES.len()]| round.iter().sum::<f64>();
        let fastest = rounds
            .iter()
            .min_by(|a, b| sum(a).total_cmp(&sum(b)))
            .expect("there is one");
        let each = |ticks: f64| ticks * self.tick / (ROUND * BURST) as f64;
        let stages = STAGES.iter().zip(fastest);
        let stages: Vec<_> = stages
            .map(|(stage, ticks)| format!("{} {:.0}", stage.label(), each(*ticks)))
            .collect();
        let (best, mean) = (
            each(sum(fastest)),
            each(rounds.iter().map(sum).sum::<f64>() / rounds.len() as f64),
        );
        let after = self.worker.stats();
        println!(
            "{name}: mean {mean:.0} ns a set-up, fastest round {best:.0} ns ({}), {:.2} M/s; {} made, {} found no \
             room, {} aged, {} flows",
            stages.join(", "),
            1000.0 / best,
            after.installed - before.installed,
            after.not_installed - before.not_installed,
            after.aged - before.aged,
            self.worker.flows(),
        );
    }
}

/// Nanoseconds of one tick of [`cycles`].
fn nanos_per_tick() -> f64 {
    let (start, from) = (Instant::now(), cycles::now());
    while start.elapsed() < Duration::from_millis(50) {}
    start.elapsed().as_nanos() as f64 / cycles::now().wrapping_sub(from) as f64
}

fn main() {
    let options = options();
    let tick = nanos_per_tick();
    let (worker, wires, _control) = worker(&options);
    let bursts = options.flows * 95 / 100 / BURST;
    let mut state = State {
        worker,
        wires,
        source: Source::new(options.sessions),
        now: Nanos::from_millis(1),
        step: Tick::LENGTH * IDLE_TICKS / bursts as u32,
        tick,
    };
    println!(
        "{} sessions, room for {} flows, {} filters",
        options.sessions, options.flows, options.filters
    );
    state.run("filling to 95%", bursts);
    for round in 0..options.rounds {
        state.run(&format!("held, round {round}"), bursts / 4);
    }
}
