//! The trace requests of a worker, and what it keeps of a burst for them.

use flow::{Nanos, PortId, TokenBucket};
use packet::PacketBuf;
use rtrb::Producer;

use crate::Event;
use crate::burst::batch::BURST;
use crate::control_channel::event_queue::EventQueue;
use crate::egress::queueing::reports::QueueReport;
use crate::io::PacketMetadata;
use crate::stats::Stats;
use crate::trace::copying::CopyTerms;
use crate::trace::report::{Traced, TracedFrame, TracedLookup, keep};
use crate::trace::request::{TraceEnd, TraceItem, TraceRequest, TraceTerms};

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

/// A request that is carried out.
pub(crate) struct Running {
    pub terms: TraceTerms,
    pub copies: Option<CopyTerms>,
    until: Nanos,
    ring: Producer<TraceItem>,
    bucket: TokenBucket,
    admitted: u64,
    /// Its number among all requests of the worker.
    pub id: u64,
    /// Packets that were admitted and whose reports are complete when they have left their queue.
    pub waiting: u32,
    /// The far end of the ring was dropped.
    is_given_up: bool,
    end: TraceEnd,
}

impl Running {
    /// Takes the number of a selected packet, if it may be reported.
    pub fn admit(&mut self, now: Nanos) -> Option<u64> {
        self.end.wanted += 1;
        if self.admitted >= self.terms.count {
            self.end.over_rate += 1;
            return None;
        }
        // There is to be room for those that wait in queues, too.
        if self.copies.is_none() && self.ring.slots() <= self.waiting as usize {
            self.end.lost += 1;
            return None;
        }
        if !self.bucket.take(now) {
            self.end.over_rate += 1;
            return None;
        }
        self.admitted += 1;
        Some(self.end.wanted)
    }

    /// A packet that was admitted was not copied.
    pub fn lose(&mut self) {
        self.end.lost += 1;
    }

    /// Reports a packet that was admitted.
    pub fn push(&mut self, traced: Box<Traced>) {
        if self.ring.push(TraceItem::Packet(traced)).is_err() {
            self.end.lost += 1;
        }
    }

    /// Whether the request has ended.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.is_given_up || now > self.until || self.admitted >= self.terms.count
    }

    /// Whether it has ended, and takes no reports of packets that wait any more.
    const fn is_late(&self, now: Nanos) -> bool {
        self.is_given_up || now.0 > self.until.0
    }

    /// Pushes its end, if it is over, once there is room and no packet of it waits. Whether nothing more is expected of
    /// it.
    fn finish(&mut self, now: Nanos) -> bool {
        let has_ended = self.is_over(now) && self.waiting == 0;
        self.is_given_up || has_ended && self.ring.push(TraceItem::End(self.end)).is_ok()
    }
}

/// A report that waits for its burst to be sent.
pub(crate) struct Pending {
    /// The index of its request.
    pub request: usize,
    /// Its index in the burst.
    pub index: usize,
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
    /// By index in the burst.
    pub heads: Vec<Head>,
    /// Reports that are pushed when the burst has left; empty between bursts.
    pub pending: Vec<Pending>,
    /// Frames that are copied when the burst has left; empty between bursts.
    pub copies: Vec<Copied>,
}

impl Tracer {
    /// Without requests.
    pub fn new() -> Self {
        Self {
            running: Vec::with_capacity(MAX_TRACES),
            heads: (0..BURST).map(|_| Head::new()).collect(),
            pending: Vec::new(),
            copies: Vec::new(),
        }
    }

    /// Takes a request with this number, unless there are too many.
    pub fn take(&mut self, order: TraceRequest, id: u64, now: Nanos) {
        if self.running.len() < MAX_TRACES {
            let TraceRequest { terms, copies, ring } = order;
            self.running.push(Running {
                terms,
                copies,
                until: now + terms.lasts,
                ring,
                bucket: TokenBucket::new(terms.rate),
                admitted: 0,
                id,
                waiting: 0,
                is_given_up: false,
                end: TraceEnd::default(),
            });
        }
    }

    /// Ends requests that are over and pushes what is left of them to Control, once there is room. Whether any is left.
    pub fn tidy(&mut self, events: &mut EventQueue, stats: &mut Stats, now: Nanos) -> bool {
        let mut index = 0;
        while let Some(running) = self.running.get_mut(index) {
            running.is_given_up |= running.ring.is_abandoned();
            // The ring of a mirror request holds no packets.
            let has_room = running.copies.is_some() || events.has_room();
            if !(has_room && running.finish(now)) {
                index += 1;
                continue;
            }
            let Running { copies, ring, .. } = self.running.remove(index);
            if copies.is_none() {
                events.push(stats, Event::TraceOver { ring });
            }
        }
        !self.running.is_empty()
    }

    /// Packets of the burst that are reported: bit n is index n.
    pub fn selected(&self) -> u64 {
        let all = self.pending.iter().map(|pending| 1 << (pending.index % BURST));
        all.fold(0, |selected, one: u64| selected | one)
    }

    /// Whether there is a request with this number.
    pub fn has(&self, request: u64) -> bool {
        self.running.iter().any(|running| running.id == request)
    }

    /// The numbers of requests that have ended while packets of them wait.
    pub fn late(&self, now: Nanos) -> impl Iterator<Item = u64> {
        let late = move |running: &&Running| running.waiting > 0 && running.is_late(now);
        self.running.iter().filter(late).map(|running| running.id)
    }

    /// The packet of a report waits no more.
    pub fn complete(&mut self, report: QueueReport) {
        let mut all = self.running.iter_mut();
        if let Some(running) = all.find(|running| running.id == report.request) {
            running.waiting = running.waiting.saturating_sub(1);
            running.push(report.traced);
        }
    }

    /// Keeps what a burst looks like before anything is done to it.
    pub fn keep<B: PacketBuf + PacketMetadata>(&mut self, burst: &[B]) {
        let snap = self.running.iter().map(|running| running.terms.snap).max();
        let snap = usize::from(snap.unwrap_or(0));
        for (head, buf) in self.heads.iter_mut().zip(burst) {
            head.ingress = buf.ingress();
            head.lookup = TracedLookup::None;
            keep(&mut head.frame, buf, snap);
        }
    }
}
