//! The trace requests of a worker, and what it keeps of a burst for them.

use flow::{Nanos, PortId};
use packet::PacketBuf;
use rtrb::Producer;

use crate::Event;
use crate::burst::batch::BURST;
use crate::io::Ingress;
use crate::link::event_queue::EventQueue;
use crate::stats::Stats;
use crate::trace::copying::CopyTerms;
use crate::trace::report::{Traced, TracedFrame, TracedLookup, keep};
use crate::trace::request::{TraceEnd, TraceItem, TraceRequest, TraceTerms};
use flow::TokenBucket;

/// Requests that a worker carries out at a time; one more is rejected.
pub const MAX_TRACES: usize = 4;

/// A packet of the burst as it came in.
pub(crate) struct Head {
    pub frame: TracedFrame,
    pub ingress: PortId,
    pub lookup: TracedLookup,
}

impl Head {
    fn new() -> Self {
        Self {
            frame: TracedFrame {
                port: PortId(0),
                len: 0,
                octets: Vec::new(),
            },
            ingress: PortId(0),
            lookup: TracedLookup::None,
        }
    }
}

/// An order that is carried out.
pub(crate) struct Running {
    pub terms: TraceTerms,
    pub copies: Option<CopyTerms>,
    until: Nanos,
    ring: Producer<TraceItem>,
    bucket: TokenBucket,
    told: u64,
    /// Nobody holds the far end of the ring.
    is_given_up: bool,
    end: TraceEnd,
}

impl Running {
    /// Takes the number of a packet that is wanted, if it may be told.
    pub fn admit(&mut self, now: Nanos) -> Option<u64> {
        self.end.wanted += 1;
        if self.told >= self.terms.count {
            self.end.over_rate += 1;
            return None;
        }
        if self.copies.is_none() && self.ring.is_full() {
            self.end.lost += 1;
            return None;
        }
        if !self.bucket.take(now) {
            self.end.over_rate += 1;
            return None;
        }
        self.told += 1;
        Some(self.end.wanted)
    }

    /// A packet that was admitted was not copied.
    pub fn lose(&mut self) {
        self.end.lost += 1;
    }

    /// Tells of a packet that was admitted.
    pub fn tell(&mut self, traced: Box<Traced>) {
        if self.ring.push(TraceItem::Packet(traced)).is_err() {
            self.end.lost += 1;
        }
    }

    /// Whether no packets are wanted any more.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.is_given_up || now > self.until || self.told >= self.terms.count
    }

    /// Says that it is over, if it is, once there is room. Whether nobody waits for any word any more.
    fn finish(&mut self, now: Nanos) -> bool {
        self.is_given_up || self.is_over(now) && self.ring.push(TraceItem::End(self.end)).is_ok()
    }
}

/// A report that waits for its burst to be sent.
pub(crate) struct Pending {
    /// The index of its request.
    pub request: usize,
    pub traced: Box<Traced>,
}

/// A frame that is copied when its burst has been sent.
pub(crate) struct Copied {
    /// The index of its request.
    pub request: usize,
    pub frame: Vec<u8>,
}

/// The requests of a worker, and what of the burst they need.
pub(crate) struct Tracer {
    pub running: Vec<Running>,
    /// By place in the burst.
    pub heads: Vec<Head>,
    /// What is told when the burst has left, by order; empty between bursts.
    pub pending: Vec<Pending>,
    /// Frames that are copied when the burst has left, by order; empty between bursts.
    pub copies: Vec<Copied>,
}

impl Tracer {
    /// Without orders.
    pub fn new() -> Self {
        Self {
            running: Vec::with_capacity(MAX_TRACES),
            heads: (0..BURST).map(|_| Head::new()).collect(),
            pending: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// Takes an order, unless there are too many.
    pub fn take(&mut self, order: TraceRequest, now: Nanos) {
        if self.running.len() < MAX_TRACES {
            let TraceRequest { terms, copies, ring } = order;
            self.running.push(Running {
                terms,
                copies,
                until: now + terms.lasts,
                ring,
                bucket: TokenBucket::new(terms.rate),
                told: 0,
                is_given_up: false,
                end: TraceEnd::default(),
            });
        }
    }

    /// Ends what is over, and leaves the rest to Control, once there is room. Whether any order is left.
    pub fn tidy(&mut self, events: &mut EventQueue, stats: &mut Stats, now: Nanos) -> bool {
        let mut place = 0;
        while let Some(running) = self.running.get_mut(place) {
            running.is_given_up |= running.ring.is_abandoned();
            // Nothing lies in the ring of copies.
            let has_room = running.copies.is_some() || events.has_room();
            if !(has_room && running.finish(now)) {
                place += 1;
                continue;
            }
            let Running { copies, ring, .. } = self.running.remove(place);
            if copies.is_none() {
                events.push(stats, Event::TraceOver { ring });
            }
        }
        !self.running.is_empty()
    }

    /// Keeps what a burst looks like before anything is done to it.
    pub fn keep<B: PacketBuf + Ingress>(&mut self, burst: &[B]) {
        let snap = self.running.iter().map(|running| running.terms.snap).max();
        let snap = usize::from(snap.unwrap_or(0));
        for (head, buf) in self.heads.iter_mut().zip(burst) {
            head.ingress = buf.ingress();
            head.lookup = TracedLookup::None;
            keep(&mut head.frame, buf, snap);
        }
    }
}
