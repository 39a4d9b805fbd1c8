//! One worker on one core, fed from memory: nanoseconds per packet and each stage's share.
//!
//!     cargo run --release -p worker --example worker_bench -- [--sessions N] [--seconds N] [--payload N] [--five-tuple]
//!
//! The port synthesises headers into recycled buffers on the worker's own core, in random order of sessions; a null
//! run of the same port alone gives its cost, which is subtracted. There is no NIC driver in any of these figures.
//! Time is the thread's processor time.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::{AdjacencyId, InstanceId, Nanos, PortId, Seed, SessionIndex, WorkerId, prefetch};
use packet::{DropReason, MacAddr, PacketBuf, Teid};
use rules::SessionRules;
use rules::compile::{Adjacencies, compile};
use rules::image::SessionChange;
use rules::model::{FTeid, OuterHeaderCreation, PdiUpdate, PdrId, PdrUpdate, UeIpAddress};
use rules::testing::{self, N3_ADDRESS, UserPacket, pdu_session, tunnelled};
use transport::{Adjacency, AdjacencyChange};
use worker::{BURST, Batch, Command, ControlLink, Ingress, Io, Stage, Worker, WorkerConfig, interface, link};

const ROOM: usize = 2048;
const HEADROOM: usize = 128;

/// A buffer like an mbuf: fixed room, headroom, nothing else.
struct Buf {
    bytes: Box<[u8; ROOM]>,
    start: usize,
    end: usize,
    port: PortId,
}

impl PacketBuf for Buf {
    #[inline]
    fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    #[inline]
    fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(n)?;
        self.bytes.get_mut(self.start..self.start + n)
    }

    #[inline]
    fn trim_front(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        self.start += if fits { n } else { 0 };
        fits
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        let fits = len <= self.len();
        self.end = if fits { self.start + len } else { self.end };
        fits
    }

    fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        let (from, to) = (self.end, self.end.checked_add(n)?);
        let room = self.bytes.get_mut(from..to)?;
        self.end = to;
        Some(room)
    }

    fn headroom(&self) -> usize {
        self.start
    }

    #[inline]
    fn reframe(&mut self, offset: usize, len: usize, head: usize) -> Result<&mut [u8], DropReason> {
        let start = self.start + offset;
        if start + len > self.end {
            return Err(DropReason::BadIpLength);
        }
        (self.start, self.end) = (
            start.checked_sub(head).ok_or(DropReason::NoHeadroom)?,
            start + len,
        );
        self.bytes
            .get_mut(self.start..self.end)
            .ok_or(DropReason::NoHeadroom)
    }
}

impl Ingress for Buf {
    fn ingress(&self) -> PortId {
        self.port
    }

    fn set_ingress(&mut self, port: PortId) {
        self.port = port;
    }
}

/// What one port receives: a frame for each session, of which the first octets differ.
#[derive(Default)]
struct Traffic {
    headers: Vec<Vec<u8>>,
    len: usize,
}

/// Ports that receive what they make up and count what they send.
struct SelfFed {
    pool: Vec<Buf>,
    traffic: Vec<Traffic>,
    random: u64,
    sent: u64,
    /// The only port that receives.
    active: usize,
}

impl SelfFed {
    fn new(ports: usize) -> Self {
        let buf = || Buf {
            bytes: Box::new([0; ROOM]),
            start: HEADROOM,
            end: HEADROOM,
            port: PortId(0),
        };
        Self {
            pool: (0..4096).map(|_| buf()).collect(),
            traffic: (0..ports).map(|_| Traffic::default()).collect(),
            random: 0x9e37_79b9_7f4a_7c15,
            sent: 0,
            active: usize::MAX,
        }
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Io for SelfFed {
    type Buf = Buf;

    fn ports(&self) -> usize {
        self.traffic.len()
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        if port.index() != self.active {
            return;
        }
        let mut numbers = [0; BURST];
        for number in numbers.iter_mut().take(out.room()) {
            *number = self.random() as usize % self.traffic[self.active].headers.len();
            // A NIC has put the headers into the cache.
            let header = &self.traffic[self.active].headers[*number];
            prefetch::read(&header[..]);
            prefetch::read(&header[64..]);
        }
        for number in numbers.into_iter().take(out.room()) {
            let Some(mut buf) = self.pool.pop() else { return };
            let traffic = &self.traffic[self.active];
            let header = &traffic.headers[number];
            (buf.start, buf.end, buf.port) = (HEADROOM, HEADROOM + traffic.len, port);
            buf.bytes[HEADROOM..HEADROOM + header.len()].copy_from_slice(header);
            let _ = out.push(buf);
        }
    }

    fn tx(&mut self, _port: PortId, out: &mut Batch<Buf>) {
        self.sent += out.len() as u64;
        self.pool.extend(out.drain().inspect(|buf| {
            black_box(buf.data().first());
        }));
    }

    fn alloc(&mut self) -> Option<Buf> {
        let mut buf = self.pool.pop()?;
        (buf.start, buf.end) = (HEADROOM, HEADROOM);
        Some(buf)
    }

    fn hand_over(&mut self, _to: WorkerId, _out: &mut Batch<Buf>) {}

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.pool.extend(out.drain());
    }
}

/// Next hops 0 (the gNBs' router) and 1 (the data network's).
struct TwoHops;

impl Adjacencies for TwoHops {
    fn resolve(&self, instance: InstanceId, _next_hop: IpAddr) -> Option<AdjacencyId> {
        Some(AdjacencyId(instance.0.into()))
    }
}

struct Options {
    sessions: u32,
    seconds: f64,
    payload: usize,
    five_tuple: bool,
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)?.parse::<f64>().ok()
    };
    Options {
        sessions: value("--sessions").unwrap_or(10_000.0) as u32,
        seconds: value("--seconds").unwrap_or(3.0),
        payload: value("--payload").unwrap_or(64.0) as usize,
        five_tuple: arguments.iter().any(|argument| argument == "--five-tuple"),
    }
}

fn ue(session: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a2d_0000 + session)
}

fn teid(session: u32) -> u32 {
    0x1000_0000 | session.wrapping_mul(0x9e37) & 0x0fff_ffff
}

/// The rules of one session: two PDRs, two FARs, a QER, a URR.
fn rules_of(session: u32) -> SessionRules {
    let gnb = Ipv4Addr::from_bits(0x0ac8_0000 + session % 200);
    let mut rules = pdu_session(1, OuterHeaderCreation::gtpu_ipv4(Teid(session + 1), gnb));
    let f_teid = FTeid {
        teid: Teid(teid(session)),
        ipv4: Some(N3_ADDRESS),
        ipv6: None,
    };
    let ue_ip = UeIpAddress {
        ipv4: Some(ue(session)),
        ipv6: None,
        is_destination: true,
    };
    let mut uplink = PdrUpdate::new(PdrId(1));
    uplink.pdi = Some(PdiUpdate {
        f_teid: rules::model::Edit::Set(f_teid),
        ..PdiUpdate::default()
    });
    let mut downlink = PdrUpdate::new(PdrId(2));
    downlink.pdi = Some(PdiUpdate {
        ue_ip: Some(vec![ue_ip]),
        ..PdiUpdate::default()
    });
    for change in [uplink, downlink] {
        rules.update_pdr(change).expect("it is there");
    }
    rules
}

fn frame(port: u16, packet: &[u8]) -> Vec<u8> {
    let header = [[2, 0, 0, 0, 0, port as u8], [2, 0xee, 0, 0, 0, 1]].concat();
    [&header[..], &[8, 0], packet].concat()
}

fn user(from: Ipv4Addr, to: Ipv4Addr, payload: usize) -> Vec<u8> {
    let mut packet = UserPacket::udp(from, to, 1000, 2000);
    packet.payload = vec![0x55; payload.saturating_sub(16)];
    packet.bytes()
}

fn traffic(options: &Options) -> [Traffic; 2] {
    let remote = Ipv4Addr::new(192, 0, 2, 1);
    let mut both = [Traffic::default(), Traffic::default()];
    for session in 0..options.sessions {
        let inner = user(ue(session), remote, options.payload);
        let uplink = frame(
            0,
            &tunnelled(N3_ADDRESS, teid(session), 255, Some([0x10, 9]), &[], &inner),
        );
        let downlink = frame(1, &user(remote, ue(session), options.payload));
        for (traffic, mut frame) in both.iter_mut().zip([uplink, downlink]) {
            traffic.len = frame.len();
            frame.truncate(128);
            traffic.headers.push(frame);
        }
    }
    both
}

fn worker(options: &Options) -> (Worker<SelfFed>, ControlLink) {
    let network = Arc::new(testing::network());
    let macs: Vec<MacAddr> = (0..4).map(|port| MacAddr([2, 0, 0, 0, 0, port])).collect();
    let mut io = SelfFed::new(4);
    let [uplink, downlink] = traffic(options);
    (io.traffic[0], io.traffic[1]) = (uplink, downlink);
    let mut config = WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), macs.clone(), Seed([3, 5]));
    (config.max_sessions, config.own_sessions) = (options.sessions as usize, options.sessions as usize);
    config.max_flows_v4 = options.sessions as usize * 2 + 1024;
    config.force_five_tuple = options.five_tuple;
    let (mut control, end) = link(64, 256);
    let mut worker = Worker::new(config, io, end).expect("there is memory");
    for (instance, address) in [
        (0, Ipv4Addr::new(10, 0, 3, 254)),
        (1, Ipv4Addr::new(10, 0, 6, 254)),
    ] {
        let home = interface(&network.instances()[instance as usize], &macs);
        let change = AdjacencyChange {
            id: AdjacencyId(instance.into()),
            instance: InstanceId(instance),
            address: address.into(),
            adjacency: Some(Adjacency::resolved(&home, MacAddr([2, 9, 9, 9, 9, 9]))),
        };
        control
            .commands
            .push(Command::Adjacency(change))
            .expect("there is room");
    }
    for session in 0..options.sessions {
        let mut image = compile(&Arc::new(rules_of(session)), &network, &TwoHops).expect("it compiles");
        (image.session, image.seid) = (SessionIndex(session), session.into());
        let change = SessionChange::Install(Box::new(image));
        let command = Command::Session {
            op: flow::OpId(session.into()),
            change,
        };
        control.commands.push(command).expect("there is room");
        worker.poll(Nanos::ZERO);
        while control.events.pop().is_ok() {}
    }
    (worker, control)
}

/// The processor time that this thread has had, where the system tells it: others' load does not count.
fn busy(start: Instant) -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat
        .split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Nanoseconds per packet that the port alone costs.
fn null_run(io: &mut SelfFed, seconds: f64) -> f64 {
    let (start, before) = (Instant::now(), io.sent);
    let idle = busy(start);
    let mut batch = Batch::new();
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..64 {
            io.rx(PortId(io.active as u16), &mut batch);
            io.tx(PortId(0), &mut batch);
        }
    }
    (busy(start) - idle).as_nanos() as f64 / (io.sent - before) as f64
}

/// What a measurement took: processor time in all, and the nanoseconds of the fastest round.
struct Took {
    busy: Duration,
    best: u64,
}

/// Polls of a round: as many packets as a round of the floors has.
const ROUND: u64 = 256;

fn poll_for(worker: &mut Worker<SelfFed>, seconds: f64) -> Took {
    let start = Instant::now();
    let idle = busy(start);
    let mut best = u64::MAX;
    while start.elapsed().as_secs_f64() < seconds {
        let round = Instant::now();
        let now = Nanos(start.elapsed().as_nanos() as u64);
        (0..ROUND).for_each(|_| {
            worker.poll(now);
        });
        best = best.min(round.elapsed().as_nanos() as u64);
    }
    let busy = busy(start) - idle;
    Took { busy, best }
}

fn run(name: &str, port: usize, options: &Options, worker: &mut Worker<SelfFed>) {
    worker.io_mut().active = port;
    let null = null_run(worker.io_mut(), options.seconds / 4.0);
    poll_for(worker, options.seconds / 4.0);
    let (before, sent) = (worker.stats().clone(), worker.io_mut().sent);
    let time = poll_for(worker, options.seconds);
    let after = worker.stats();
    let packets = after.rx() - before.rx();
    let gross = time.busy.as_nanos() as f64 / packets as f64;
    let best = time.best as f64 / (ROUND * BURST as u64) as f64;
    let ticks = |stage: Stage| after.stages[stage as usize].ticks - before.stages[stage as usize].ticks;
    let all: u64 = Stage::ALL.iter().map(|stage| ticks(*stage)).sum();
    let share = |stage: &Stage| {
        (
            stage.label(),
            format!("{:.1}", gross * ticks(*stage) as f64 / all as f64),
        )
    };
    let shares: BTreeMap<_, _> = Stage::ALL.iter().map(share).collect();
    let hits = after.hits - before.hits;
    let dropped: u64 = after.drops.iter().sum::<u64>() - before.drops.iter().sum::<u64>();
    println!(
        "{name}: {:.1} ns per packet net of the port ({gross:.1} gross, port {null:.1}; no NIC driver): {:.1} Mpps; \
         {packets} packets, hits {hits}, dropped {dropped}",
        gross - null,
        1000.0 / (gross - null),
    );
    println!("    fastest round: {best:.1} ns gross; gross ns by stage: {shares:?}");
    assert_eq!(
        worker.io_mut().sent - sent,
        packets - dropped,
        "every packet is accounted"
    );
}

fn main() {
    let options = options();
    let (mut worker, _control) = worker(&options);
    println!(
        "{} sessions, {} flows' room, payload {} octets, {}",
        worker.sessions(),
        options.sessions * 2 + 1024,
        options.payload,
        if options.five_tuple {
            "5-tuple entries"
        } else {
            "widest entries"
        },
    );
    for (name, port) in [("uplink", 0), ("downlink", 1)] {
        run(name, port, &options, &mut worker);
    }
    println!("{} flows", worker.flows());
}
