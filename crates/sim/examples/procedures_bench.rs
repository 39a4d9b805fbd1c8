//! Cost of PFCP procedures in `n4`, without sockets and workers: sessions of 4 PDR, 4 FAR, 2 QER, 2 URR are
//! established, modified and deleted while others stay.
//!
//! `cargo run --release -p sim --example procedures_bench [RESIDENT [CHURN [ROUNDS]]]`: sessions that stay (20,000),
//! sessions that are established and deleted (10,000), rounds (3). Prints procedures in a second of the thread's
//! processor time, and calls of the allocator of each; octets of resident memory of a session, images included, octets
//! of them that are allocated, and sizes of the allocations. Under `valgrind --tool=callgrind` two runs with different
//! ROUNDS give the instructions of the difference.
//!
//! Requests arrive sixteen at a time through the admission queue; then a fake worker keeps the images and confirms.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::VecDeque;
use std::fs::read_to_string;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use flow::{Nanos, UrrCount};
use libmimalloc_sys::{mi_free, mi_malloc, mi_malloc_aligned};
use n4::{AdmissionLimits, AdmissionQueue, Config, Endpoint, NodeName};
use packet::Teid;
use pfcp::{Seid, SequenceNumber};
use rules::image::{SessionChange, SessionImage, UsageSnapshot};
use session::{Effect, Random};
use sim::smf::{
    DownlinkSetup, EstablishedSession, QosFlow, RequestTemplates, ResponseSummary, SessionProfile,
    SessionValues,
};

#[path = "../../session/tests/support/fleet.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod fleet;

use fleet::{EveryNextHop, network};

const UPF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 1);
const SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 2);
const GNB: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);

/// The daemon's allocator, with its calls counted.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Pieces that were asked for.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// How many pieces there are of each number of eight octets; the last are all that are larger.
static PIECES: [AtomicI64; 513] = [const { AtomicI64::new(0) }; 513];
/// Octets that are asked for and not given back.
static OCTETS: AtomicI64 = AtomicI64::new(0);

fn note(layout: Layout, by: i64) {
    PIECES[layout.size().div_ceil(8).min(512)].fetch_add(by, Relaxed);
    OCTETS.fetch_add(by * layout.size() as i64, Relaxed);
}

// SAFETY: every call is mimalloc's own for what the layout asks; counting touches nothing but statics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        note(layout, 1);
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: mimalloc takes any size, and the alignment is a power of two. A piece of sixteen octets is aligned to
        // as many without being asked.
        unsafe {
            match align <= size.min(16) {
                true => mi_malloc(size).cast(),
                false => mi_malloc_aligned(size, align).cast(),
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(layout, -1);
        // SAFETY: `memory` came from mimalloc, as the caller promises.
        unsafe { mi_free(memory.cast()) }
    }
}

/// Requests that arrive at a time.
const TURN: u32 = 16;
/// Nanoseconds between requests: 40,000 a second.
const STEP: u64 = 25_000;

fn main() {
    let number = |place, usual| match std::env::args().nth(place) {
        Some(number) => number.parse().expect("a number"),
        None => usual,
    };
    let (resident, churn, rounds) = (number(1, 20_000), number(2, 10_000), number(3, 3));
    let before = resident_octets();
    let mut bench = Bench::new();
    bench.round("filling", Procedure::Establishment, 0..resident);
    let octets = resident_octets().saturating_sub(before);
    println!("{} octets a session", octets / u64::from(resident.max(1)));
    print_pieces(i64::from(resident.max(1)));
    for _ in 0..rounds {
        let churned = resident..resident + churn;
        bench.round("establishments", Procedure::Establishment, churned.clone());
        bench.round("modifications", Procedure::Modification, churned.clone());
        bench.round("deletions", Procedure::Deletion, churned);
    }
}

#[derive(Clone, Copy)]
enum Procedure {
    Establishment,
    Modification,
    Deletion,
}

struct Bench {
    now: Nanos,
    n4: Endpoint,
    admission: AdmissionQueue,
    images: Vec<Option<Box<SessionImage>>>,
    effects: VecDeque<Effect>,
    /// SEIDs of the UP function, by number of the session.
    seids: Vec<Seid>,
    /// Numbers of sessions, by sequence number modulo [`TURN`].
    pending: Vec<u32>,
    sequence: SequenceNumber,
    templates: RequestTemplates,
}

impl Bench {
    fn new() -> Bench {
        let random = Random::from_number(11);
        let mut config = Config::new(NodeName::Ipv4(UPF), 1);
        config.heartbeat_interval = None;
        config.unverified_percent = 100;
        let mut n4 = Endpoint::new(config, network(), Box::new(EveryNextHop), random);
        let now = Nanos::from_secs(1);
        let templates = RequestTemplates::new(SMF, profile()).expect("a profile within its bounds");
        n4.handle_datagram(now, at(SMF), at(UPF), templates.association());
        while n4.poll_transmit().is_some() {}
        Bench {
            now,
            n4,
            admission: AdmissionQueue::new(AdmissionLimits::default()),
            images: Vec::new(),
            effects: VecDeque::new(),
            seids: Vec::new(),
            pending: vec![0; TURN as usize],
            sequence: SequenceNumber::new(1),
            templates,
        }
    }

    fn round(&mut self, name: &str, procedure: Procedure, sessions: Range<u32>) {
        let count = sessions.len();
        self.seids
            .resize(self.seids.len().max(sessions.end as usize), Seid(0));
        let (begin, calls) = (processor_nanos(), CALLS.load(Relaxed));
        let mut numbers = sessions.peekable();
        while numbers.peek().is_some() {
            for number in numbers.by_ref().take(TURN as usize) {
                self.request(procedure, number);
            }
            while self.admission.serve(self.now, &mut self.n4) {}
            self.work();
            self.take_responses();
        }
        let took = processor_nanos() - begin;
        let rate = count as f64 * 1e9 / took.max(1) as f64;
        let calls = (CALLS.load(Relaxed) - calls) as f64 / count.max(1) as f64;
        println!("{name}: {rate:.0} a second, {calls:.1} allocations each");
    }

    fn request(&mut self, procedure: Procedure, number: u32) {
        self.sequence = self.sequence.next();
        self.now = Nanos(self.now.0 + STEP);
        self.pending[(self.sequence.get() % TURN) as usize] = number;
        let session = SessionValues {
            cp_seid: Seid(u64::from(number) + 1),
            ue: Ipv4Addr::from_bits(0x0a40_0000 + number),
            gnb: GNB,
            gnb_teid: Teid(0x100 + self.sequence.get()),
        };
        let up_seid = self.seids[number as usize];
        let octets = match procedure {
            Procedure::Establishment => self.templates.establishment(self.sequence, &session),
            Procedure::Modification => self.templates.modification(self.sequence, up_seid, &session),
            Procedure::Deletion => self.templates.deletion(self.sequence, up_seid, &session),
        };
        self.admission
            .offer(self.now, &mut self.n4, at(SMF), at(UPF), octets);
    }

    /// The worker applies all effects and confirms them.
    fn work(&mut self) {
        while let Some(effect) = self.n4.poll_effect() {
            self.effects.push_back(effect);
        }
        while let Some(effect) = self.effects.pop_front() {
            let Effect::Apply { op, change, .. } = effect else {
                panic!("{effect:?}");
            };
            let index = change.session().index();
            self.images.resize_with(self.images.len().max(index + 1), || None);
            let place = &mut self.images[index];
            let (retired, usage) = match change {
                SessionChange::Install(mut image) | SessionChange::Replace(mut image, _) => {
                    // It is in the worker's own memory then.
                    image.block.clear();
                    (place.replace(image), None)
                }
                SessionChange::Bound(..) => (None, None),
                SessionChange::Remove(session) => {
                    let image = place.take();
                    let ids = image.iter().flat_map(|image| &image.urr_ids);
                    let counters = ids.map(|urr| (*urr, UrrCount::default())).collect();
                    (
                        image,
                        Some(UsageSnapshot {
                            session,
                            counters,
                            ..UsageSnapshot::default()
                        }),
                    )
                }
            };
            self.n4.handle_applied(self.now, op, Ok(usage));
            drop(retired);
        }
        if self.n4.poll_timeout().is_some_and(|at| at <= self.now) {
            self.n4.handle_timeout(self.now);
        }
    }

    fn take_responses(&mut self) {
        while let Some(transmit) = self.n4.poll_transmit() {
            let octets = &transmit.bytes;
            let response = ResponseSummary::read(octets).expect("a response");
            assert_eq!(response.cause, 1, "{octets:02x?}");
            let number = self.pending[(response.sequence.get() % TURN) as usize] as usize;
            if let Some(session) = EstablishedSession::read(octets) {
                self.seids[number] = session.up_seid;
            }
        }
    }
}

fn at(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::new(address.into(), pfcp::PORT)
}

/// Two QoS flows in one tunnel.
fn profile() -> SessionProfile {
    SessionProfile {
        choose_id: Some(1),
        downlink: DownlinkSetup::AtOnce,
        qfi: 1,
        mbr: Some((1_000_000, 1_000_000)),
        volume_threshold: Some(1 << 50),
        second_flow: Some(QosFlow {
            qfi: 2,
            sdf: "permit out 17 from any 5000 to assigned".into(),
        }),
        ..SessionProfile::default()
    }
}

/// Prints the allocations of each of `sessions` sessions, by size.
fn print_pieces(sessions: i64) {
    println!(
        "{} octets of it asked for, in pieces of",
        OCTETS.load(Relaxed) / sessions
    );
    for (eights, pieces) in PIECES.iter().enumerate() {
        let each = pieces.load(Relaxed) as f64 / sessions as f64;
        if each >= 0.01 {
            println!("{:>6} octets: {each:.2}", eights * 8);
        }
    }
}

/// The thread's processor time.
fn processor_nanos() -> u64 {
    let text = read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel with schedstat");
    let nanos = text.split_whitespace().next();
    nanos.and_then(|nanos| nanos.parse().ok()).expect("a number")
}

fn resident_octets() -> u64 {
    let text = read_to_string("/proc/self/statm").expect("a Linux kernel");
    let pages = text.split_whitespace().nth(1);
    pages
        .and_then(|pages| pages.parse::<u64>().ok())
        .expect("a number")
        * 4_096
}
