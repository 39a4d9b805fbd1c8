//! What the look at the counters of a worker's sessions costs, for each session: of idle ones, and of those that have
//! counted.
//!
//!     cargo run --release -p worker --example checkpoint_bench -- [--sessions N] [--rounds N] [--active N]
//!
//! The worker has nothing else to do. Each poll has a slice of the sessions, as at 600,000 sessions a second.

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{Nanos, PortId, Seed, WorkerId};
use rules::testing::{self, N3_ADDRESS, UserPacket, tunnelled};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{COUNTS_BUFFERS, Command, ControlEnd, Event, Worker, WorkerConfig, control_channel};

use common::rules_of;

/// A prime that no usual number of sessions is a multiple of.
const STEP: u64 = 48_271;
/// Counts in a list.
const LIST: usize = 128;

fn option(name: &str, default: usize) -> usize {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|argument| argument == name);
    let given = place.and_then(|place| arguments.get(place + 1)?.parse().ok());
    given.unwrap_or(default)
}

fn ue(session: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a40_0000 + session)
}

fn teid(session: u32) -> u32 {
    0x1000_0000 + session
}

struct Bench {
    worker: Worker<MemIo>,
    control: ControlEnd,
    wires: Wires,
    now: Nanos,
}

impl Bench {
    fn new(sessions: usize) -> Self {
        let network = Arc::new(testing::network());
        let (wires, mut ios) = Wires::new(1, 4, 1024);
        let mut config =
            WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), common::macs(), Seed([1, 2]));
        (config.max_sessions, config.own_sessions) = (sessions, sessions);
        config.checkpoint_interval = Some(Duration::from_secs(1));
        let (mut control, end) = control_channel(256, 256);
        let mut worker = Worker::new(config, ios.remove(0), end).expect("there is memory");
        common::meet_next_hops(&mut control, &network);
        // In an order that leaves neighbours in the table far apart in memory, as years of changes do.
        for number in 0..sessions as u64 {
            let session = (number * STEP % sessions as u64) as u32;
            let rules = rules_of(session, teid(session), ue(session), None);
            common::install(&mut worker, &mut control, &network, session, rules);
        }
        let mut bench = Self {
            worker,
            control,
            wires,
            now: Nanos::ZERO,
        };
        (0..COUNTS_BUFFERS).for_each(|_| bench.give(Vec::with_capacity(LIST)));
        bench
    }

    fn give(&mut self, list: Vec<worker::SessionCount>) {
        let given = self.control.commands.push(Command::CountsRoom(list));
        given.expect("there is room");
    }

    /// A packet of each of the first sessions.
    fn send(&mut self, active: u32) {
        for session in 0..active {
            let user = UserPacket::udp(ue(session), Ipv4Addr::new(192, 0, 2, 1), 1000, 2000).bytes();
            let packet = tunnelled(N3_ADDRESS, teid(session), 255, Some([0x10, 9]), &[], &user);
            let header = [[2, 0, 0, 0, 0, 0], [2, 0xee, 0, 0, 0, 1]].concat();
            let frame = [&header[..], &[8, 0], &packet].concat();
            let queue = self.wires.to(WorkerId(0), PortId(0));
            queue.push(MemBuf::new(&frame)).expect("there is room");
            if session % 64 == 63 || session + 1 == active {
                self.worker.poll(self.now);
                (0..4).for_each(|port| while self.wires.from(PortId(port)).pop().is_some() {});
            }
        }
    }

    /// One second in polls of 100 microseconds. The time that they took, and how many counts were pushed.
    fn round(&mut self) -> (Duration, usize) {
        let (mut time, mut counts) = (Duration::ZERO, 0);
        for _ in 0..10_000 {
            self.now = self.now + Duration::from_micros(100);
            let start = Instant::now();
            self.worker.poll(self.now);
            time += start.elapsed();
            while let Ok(event) = self.control.events.pop() {
                if let Event::Counted { counts: list } = event {
                    counts += list.len();
                    self.give(list);
                }
            }
        }
        (time, counts)
    }
}

fn main() {
    let sessions = option("--sessions", 600_000);
    let active = option("--active", 10_000).min(sessions);
    assert!(
        !(sessions as u64).is_multiple_of(STEP),
        "each session is installed once"
    );
    let rounds = option("--rounds", 3);
    let mut none = Bench::new(1);
    none.round();
    let polls = none.round().0;
    let mut bench = Bench::new(sessions);
    bench.round();
    for _ in 0..rounds {
        let (idle, pushed) = bench.round();
        let each = idle.saturating_sub(polls).as_nanos() as f64 / sessions as f64;
        println!("idle: {each:.1} ns a session, {pushed} counts pushed");
        bench.send(active as u32);
        let (busy, pushed) = bench.round();
        let more = busy.saturating_sub(idle).as_nanos() as f64 / pushed.max(1) as f64;
        println!("active: {more:.1} ns more for each of {pushed} counts pushed");
    }
}
