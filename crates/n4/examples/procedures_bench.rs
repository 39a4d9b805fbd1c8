//! What PFCP procedures cost control without sockets and workers: sessions of 4 PDR, 4 FAR, 2 QER, 2 URR come, change
//! and go while others stay.
//!
//! `cargo run --release -p n4 --example procedures_bench [RESIDENT [CHURN [ROUNDS]]]`: RESIDENT sessions stay (20,000),
//! CHURN come and go (10,000), ROUNDS times (3). Prints how often each procedure is done in a second of the thread's
//! processor time, and how often it calls the allocator; the resident memory of a session, images included, what of it
//! was asked for, and in which pieces. Under `valgrind --tool=callgrind` two runs with different ROUNDS give the
//! instructions of the difference.
//!
//! Requests come sixteen at a time through the intake; then a worker that does nothing but keep the images answers all.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::VecDeque;
use std::fs::read_to_string;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use flow::{Nanos, UrrCount};
use libmimalloc_sys::{mi_free, mi_malloc, mi_malloc_aligned};
use n4::{AdmissionLimits, AdmissionQueue, Endpoint};
use rules::image::{SessionChange, SessionImage, UsageSnapshot};
use session::{Effect, KeepNothing, Random};

#[path = "../tests/support/mod.rs"]
mod support;

use support::fleet::{EveryNextHop, network};
use support::wire::*;
use support::{GNB, SMF_ADDRESS, World, smf, upf};

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

/// Values that stand for what differs from session to session, and occur nowhere else.
const MARK_SEID: u64 = 0xa5c3_96e1_d2b4_8778;
const MARK_UE: u32 = 0xe7d1_c9b3;
const MARK_TEID: u32 = 0x9d8b_e3f5;
/// Requests that come at a time.
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

/// An encoded request, and the places of what differs.
struct Template {
    octets: Vec<u8>,
    seids: Vec<usize>,
    ues: Vec<usize>,
    teids: Vec<usize>,
}

impl Template {
    fn new(octets: Vec<u8>) -> Template {
        let places = |mark: &[u8]| {
            let windows = octets.windows(mark.len()).enumerate();
            windows
                .filter(|(_, window)| *window == mark)
                .map(|(at, _)| at)
                .collect()
        };
        Template {
            seids: places(&MARK_SEID.to_be_bytes()),
            ues: places(&MARK_UE.to_be_bytes()),
            teids: places(&MARK_TEID.to_be_bytes()),
            octets,
        }
    }

    fn write(&mut self, sequence: u32, up: u64, number: u32) -> &[u8] {
        let octets = &mut self.octets;
        let mut put = |places: &[usize], value: &[u8]| {
            places
                .iter()
                .for_each(|at| octets[*at..at + value.len()].copy_from_slice(value));
        };
        put(&[4], &up.to_be_bytes());
        put(&[12], &sequence.to_be_bytes()[1..]);
        put(&self.seids, &u64::from(number + 1).to_be_bytes());
        put(&self.ues, &(0x0a40_0000 + number).to_be_bytes());
        put(&self.teids, &(0x100 + sequence).to_be_bytes());
        octets
    }
}

struct Bench {
    now: Nanos,
    n4: Endpoint,
    admission: AdmissionQueue,
    images: Vec<Option<Box<SessionImage>>>,
    effects: VecDeque<Effect>,
    /// The SEIDs of the user plane.
    seids: Vec<u64>,
    /// Which session a sequence number is of, with this number of sessions at a time.
    pending: Vec<u32>,
    sequence: u32,
    templates: [Template; 3],
}

impl Bench {
    fn new() -> Bench {
        let random = Random::from_number(11);
        let config = World::config(1);
        let store = Box::new(KeepNothing);
        let mut n4 = Endpoint::new(config, network(), Box::new(EveryNextHop), store, random);
        let now = Nanos::from_secs(1);
        let setup = message(5, None, 1, &[node_v4(SMF_ADDRESS), recovery(100)]);
        n4.handle_datagram(now, smf(), upf(), &setup);
        while n4.poll_transmit().is_some() {}
        Bench {
            now,
            n4,
            admission: AdmissionQueue::new(AdmissionLimits::default()),
            images: Vec::new(),
            effects: VecDeque::new(),
            seids: Vec::new(),
            pending: vec![0; TURN as usize],
            sequence: 1,
            templates: [
                message(50, Some(0), 0, &establishment()),
                message(52, Some(0), 0, &modification()),
                message(54, Some(0), 0, &[]),
            ]
            .map(Template::new),
        }
    }

    fn round(&mut self, name: &str, procedure: Procedure, sessions: Range<u32>) {
        let count = sessions.len();
        self.seids.resize(self.seids.len().max(sessions.end as usize), 0);
        let (begin, calls) = (processor_nanos(), CALLS.load(Relaxed));
        let mut numbers = sessions.peekable();
        while numbers.peek().is_some() {
            for number in numbers.by_ref().take(TURN as usize) {
                self.request(procedure, number);
            }
            while self.admission.serve(self.now, &mut self.n4) {}
            self.work();
            self.take_answers();
        }
        let took = processor_nanos() - begin;
        let rate = count as f64 * 1e9 / took.max(1) as f64;
        let calls = (CALLS.load(Relaxed) - calls) as f64 / count.max(1) as f64;
        println!("{name}: {rate:.0} a second, {calls:.1} allocations each");
    }

    fn request(&mut self, procedure: Procedure, number: u32) {
        self.sequence = (self.sequence + 1) & 0x00ff_ffff;
        self.now = Nanos(self.now.0 + STEP);
        self.pending[(self.sequence % TURN) as usize] = number;
        let up = match procedure {
            Procedure::Establishment => 0,
            Procedure::Modification | Procedure::Deletion => self.seids[number as usize],
        };
        let octets = self.templates[procedure as usize].write(self.sequence, up, number);
        self.admission.offer(self.now, &mut self.n4, smf(), upf(), octets);
    }

    /// The worker applies all of its commands, and control receives the results.
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

    fn take_answers(&mut self) {
        while let Some(transmit) = self.n4.poll_transmit() {
            let octets = &transmit.bytes;
            let sequence = u32::from_be_bytes([0, octets[12], octets[13], octets[14]]);
            let number = self.pending[(sequence % TURN) as usize] as usize;
            let cause = octets.windows(5).find(|ie| ie[..4] == [0, 19, 0, 1]);
            assert_eq!(cause.map(|ie| ie[4]), Some(1), "{octets:02x?}");
            if octets[1] == 51 {
                let f_seid = octets.windows(5).position(|ie| ie[..4] == [0, 57, 0, 13]);
                let at = f_seid.expect("an F-SEID") + 5;
                self.seids[number] = u64::from_be_bytes(octets[at..at + 8].try_into().expect("eight octets"));
            }
        }
    }
}

fn establishment() -> Vec<Octets> {
    let pdr = |id: u16, is_uplink: bool, flow: u32| {
        let side = source_if(if is_uplink { ACCESS } else { CORE });
        let instance = network_instance(if is_uplink { "access" } else { "internet" });
        let mut detects = vec![side];
        if is_uplink {
            detects.push(choose(V4, Some(1)));
        }
        detects.extend([instance, ue_ip(!is_uplink, Ipv4Addr::from_bits(MARK_UE))]);
        if flow > 1 {
            detects.push(sdf("permit out 17 from any 5000 to assigned"));
        }
        if is_uplink {
            detects.push(qfi(flow as u8));
        }
        let mut ies = vec![pdr_id(id), precedence(255 - flow), pdi(&detects)];
        if is_uplink {
            ies.push(outer_header_removal(0));
        }
        ies.extend([far_id(id.into()), urr_id(flow), qer_id(flow)]);
        create_pdr(&ies)
    };
    let far = |id: u32, is_uplink: bool| {
        let to = if is_uplink {
            forwarding(&[destination_if(CORE), network_instance("internet")])
        } else {
            let header = outer_header_creation(MARK_TEID, GNB);
            forwarding(&[destination_if(ACCESS), network_instance("access"), header])
        };
        create_far(&[far_id(id), apply_action(&[FORW]), to])
    };
    let qer = |id: u32| create_qer(&[qer_id(id), gate(0, 0), mbr(1_000_000, 1_000_000), qfi(id as u8)]);
    let threshold = ie(31, [&[1][..], &(1_u64 << 50).to_be_bytes()].concat());
    let urr = |id: u32| create_urr(&[urr_id(id), method(2), triggers(&[2, 0, 0]), threshold.clone()]);
    vec![
        node_v4(SMF_ADDRESS),
        f_seid(MARK_SEID, SMF_ADDRESS.into()),
        pdr(1, true, 1),
        pdr(2, false, 1),
        pdr(3, true, 2),
        pdr(4, false, 2),
        far(1, true),
        far(2, false),
        far(3, true),
        far(4, false),
        urr(1),
        urr(2),
        qer(1),
        qer(2),
        ie(113, [1]),
    ]
}

fn modification() -> Vec<Octets> {
    let to = [outer_header_creation(MARK_TEID, GNB)];
    let far = |id| update_far(&[far_id(id), apply_action(&[FORW]), update_forwarding(&to)]);
    vec![far(2), far(4)]
}

/// What there is for each session, of a number of sessions.
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
