//! A fixed run of one worker for `tools/instructions.py`, which counts the instructions of each stage.
//!
//! This number of bursts of uplink, then of downlink, over sessions in random order from a fixed seed. The port makes
//! headers in recycled buffers. Nothing is timed; the number of forwarded packets is printed.
//!
//! Sessions have a QER without a rate and a URR; with the argument `full` the QER has a rate, with `bare` there is no
//! URR. The difference of these two is what a rate and a counter cost. With `v6` what goes down leaves in tunnels over
//! IPv6, whose UDP checksum covers the payload.

mod common;

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flow::{Nanos, PortId, Seed, WorkerId, prefetch};
use packet::{DropReason, PacketBuf, Teid};
use rules::SessionRules;
use rules::model::{
    BitRates, BitsPerSecond, Edit, FarId, FarUpdate, ForwardingParametersUpdate, OuterHeaderCreation,
    OuterHeaderKind, PdrId, PdrUpdate, QerId, QerUpdate,
};
use rules::testing::{self, N3_ADDRESS, UserPacket, tunnelled};
use worker::{BURST, Batch, ChargeId, ControlEnd, Io, PacketMetadata, Worker, WorkerConfig, control_channel};

use common::rules_of;

const ROOM: usize = 2048;
const HEADROOM: usize = 128;

/// A buffer like an mbuf: fixed room, headroom, nothing else.
struct Buf {
    bytes: Box<[u8; ROOM]>,
    start: usize,
    end: usize,
    port: PortId,
    charge: ChargeId,
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

    fn tailroom(&self) -> usize {
        self.bytes.len() - self.end
    }

    fn link(&mut self, tail: Self) -> Result<(), Self> {
        match self.append(tail.len()) {
            Some(room) => {
                room.copy_from_slice(tail.data());
                Ok(())
            }
            None => Err(tail),
        }
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

impl PacketMetadata for Buf {
    fn ingress(&self) -> PortId {
        self.port
    }

    fn set_ingress(&mut self, port: PortId) {
        self.port = port;
    }

    #[inline]
    fn charge(&self) -> ChargeId {
        self.charge
    }

    #[inline]
    fn set_charge(&mut self, charge: ChargeId) {
        self.charge = charge;
    }
}

/// Received frames of one port: one for each session, of which the first octets differ.
#[derive(Default)]
struct Traffic {
    headers: Vec<Vec<u8>>,
    len: usize,
}

/// Ports that generate received frames and count sent frames.
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
            charge: ChargeId::NONE,
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

    fn inbox_len(&self) -> usize {
        0
    }

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.pool.extend(out.drain());
    }
}

const SESSIONS: u32 = 64;
/// Octets of UDP payload.
const PAYLOAD: usize = 64;
/// Bursts of each direction.
const BURSTS: u64 = 1000;

fn ue(session: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a2d_0000 + session)
}

fn teid(session: u32) -> u32 {
    0x1000_0000 | session.wrapping_mul(0x9e37) & 0x0fff_ffff
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

fn traffic() -> [Traffic; 2] {
    let remote = Ipv4Addr::new(192, 0, 2, 1);
    let mut both = [Traffic::default(), Traffic::default()];
    for session in 0..SESSIONS {
        let inner = user(ue(session), remote, PAYLOAD);
        let uplink = frame(
            0,
            &tunnelled(N3_ADDRESS, teid(session), 255, Some([0x10, 9]), &[], &inner),
        );
        let downlink = frame(1, &user(remote, ue(session), PAYLOAD));
        for (traffic, mut frame) in both.iter_mut().zip([uplink, downlink]) {
            traffic.len = frame.len();
            frame.truncate(128);
            traffic.headers.push(frame);
        }
    }
    both
}

/// QERs and URRs of the sessions, and the family of their tunnels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Usual,
    Full,
    Bare,
    OverIpv6,
}

impl Policy {
    fn of_arguments() -> Self {
        match std::env::args().nth(1).as_deref() {
            None => Self::Usual,
            Some("full") => Self::Full,
            Some("bare") => Self::Bare,
            Some("v6") => Self::OverIpv6,
            Some(other) => panic!("full, bare, v6, or nothing, but not {other}"),
        }
    }

    fn put_into(self, rules: &mut SessionRules) {
        if self == Self::OverIpv6 {
            let tunnel = OuterHeaderCreation {
                kind: OuterHeaderKind::GTPU_IPV6,
                teid: Teid(7),
                ipv4: None,
                ipv6: Some(Ipv6Addr::new(0x2001, 0xdb8, 0x200, 0, 0, 0, 0, 1)),
                port: None,
            };
            let mut change = FarUpdate::new(FarId(2));
            change.forwarding = Edit::Set(ForwardingParametersUpdate {
                outer_header_creation: Edit::Set(tunnel),
                ..ForwardingParametersUpdate::default()
            });
            rules.update_far(change).expect("it is there");
        }
        if self == Self::Full {
            let rate = BitsPerSecond(100_000_000_000);
            let mut change = QerUpdate::new(QerId(1));
            change.mbr = Edit::Set(BitRates { ul: rate, dl: rate });
            rules.update_qer(change).expect("it is there");
        }
        for pdr in [1, 2].map(PdrId).into_iter().filter(|_| self == Self::Bare) {
            let mut change = PdrUpdate::new(pdr);
            change.urrs = Some(Vec::new());
            rules.update_pdr(change).expect("it is there");
        }
    }
}

fn worker(five_tuple: bool, policy: Policy) -> (Worker<SelfFed>, ControlEnd) {
    let network = Arc::new(testing::network());
    let mut io = SelfFed::new(4);
    let [uplink, downlink] = traffic();
    (io.traffic[0], io.traffic[1]) = (uplink, downlink);
    let mut config = WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), common::macs(), Seed([3, 5]));
    (config.max_sessions, config.own_sessions) = (SESSIONS as usize, SESSIONS as usize);
    config.max_flows_v4 = SESSIONS as usize * 2 + 1024;
    config.force_five_tuple = five_tuple;
    let (mut control, end) = control_channel(64, 256);
    let mut worker = Worker::new(config, io, end).expect("there is memory");
    common::meet_next_hops(&mut control, &network);
    for session in 0..SESSIONS {
        let mut rules = rules_of(session, teid(session), ue(session), None);
        policy.put_into(&mut rules);
        common::install(&mut worker, &mut control, &network, session, rules);
    }
    (worker, control)
}

fn main() {
    let policy = Policy::of_arguments();
    for five_tuple in [false, true] {
        let (mut worker, _control) = worker(five_tuple, policy);
        for port in [0, 1] {
            worker.io_mut().active = port;
            (0..BURSTS).for_each(|_| {
                worker.poll(Nanos::ZERO);
            });
        }
        let (sent, stats) = (worker.io_mut().sent, worker.stats());
        assert_eq!(sent, BURSTS * 2 * BURST as u64, "{:?}", stats.drops);
        println!("{sent} packets forwarded, {} hits", stats.hits);
    }
}
