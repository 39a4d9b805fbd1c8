//! What a worker tells of single packets, to who explains them.
//!
//! An order ([`TraceOrder`]) comes as a command and has its own ring; it ends by time, by number, or when nobody holds
//! the far end of the ring any more. Without an order a burst pays one comparison for all of this. With one, the first
//! octets of each packet are copied before the stages write over them, and what the stages have decided is told before
//! the packet leaves: what became of it, not what should have. Only here memory is taken while packets flow: for those
//! that are told, of which there are no more in a second than the order says. What nobody has read of them when the order
//! ends is Control's to free ([`Event::TraceOver`]).

pub(crate) mod copying;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Direction, InstanceId, KeyFields, Nanos, PortId, SessionIndex, TokenBucket, UrrCount, WorkerId};
use packet::{DropReason, PacketBuf, Teid};
use rtrb::{Consumer, Producer, RingBuffer};
use rules::SessionRules;
use rules::model::{PdrId, QerId, UrrId};

use crate::Event;
use crate::burst::batch::BURST;
use crate::io::Ingress;
use crate::link::event_queue::EventQueue;
use crate::stats::Stats;
use crate::trace::copying::{CopyTerms, MOST_COPIED};

/// Orders that a worker carries out at a time; one more is given up.
pub const MAX_TRACES: usize = 4;

/// Which packets are told: those for which everything holds that is said. Nothing said: every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// The user packet is from or for this address, or its session has this UE address.
    pub ue: Option<IpAddr>,
    /// It came in the tunnel with this TEID, or leaves in one.
    pub teid: Option<Teid>,
    /// It is of the session with this local SEID.
    pub seid: Option<u64>,
    /// The user packet is of this flow, in either direction.
    pub flow: Option<TraceFlow>,
    /// It came in by this port, or leaves by it.
    pub port: Option<PortId>,
}

/// A 5-tuple, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// The protocol.
    pub proto: u8,
    /// Addresses and ports; port 0: any.
    pub ends: [(IpAddr, u16); 2],
}

impl TraceFlow {
    /// Whether a packet between these is of it.
    pub fn is(&self, proto: u8, source: (IpAddr, u16), destination: (IpAddr, u16)) -> bool {
        let at = |end: (IpAddr, u16), of: (IpAddr, u16)| end.0 == of.0 && (of.1 == 0 || end.1 == of.1);
        let [one, other] = self.ends;
        proto == self.proto
            && (at(source, one) && at(destination, other) || at(source, other) && at(destination, one))
    }
}

/// What an order asks for.
#[derive(Clone, Copy, Debug)]
pub struct TraceTerms {
    /// Which packets.
    pub filter: TraceFilter,
    /// Octets of each packet that are kept, from its first on, as it came and as it leaves.
    pub snap: u16,
    /// Packets a second at most, on this worker.
    pub rate: u32,
    /// Packets at most, on this worker.
    pub count: u64,
    /// For how long.
    pub lasts: Duration,
}

/// An order to tell of packets.
#[derive(Debug)]
pub struct TraceOrder {
    terms: TraceTerms,
    copies: Option<CopyTerms>,
    ring: Producer<TraceItem>,
}

/// An order for one worker, and where what it tells comes out: the ring holds so many packets. Who drops that end ends
/// the order.
pub fn trace(terms: TraceTerms, room: usize) -> (TraceOrder, Consumer<TraceItem>) {
    let (ring, told) = RingBuffer::new(room.max(2));
    let copies = None;
    (TraceOrder { terms, copies, ring }, told)
}

/// An order to copy packets, at most [`MOST_COPIED`] octets of each: they are not told, but its end is.
pub fn mirror(terms: TraceTerms, copies: CopyTerms) -> (TraceOrder, Consumer<TraceItem>) {
    let (ring, told) = RingBuffer::new(2);
    let snap = terms.snap.min(MOST_COPIED);
    let order = TraceOrder {
        terms: TraceTerms { snap, ..terms },
        copies: Some(copies),
        ring,
    };
    (order, told)
}

/// What comes out of an order's ring.
#[derive(Debug)]
pub enum TraceItem {
    /// A packet.
    Packet(Box<Traced>),
    /// There will be no more.
    End(TraceEnd),
}

/// How an order ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceEnd {
    /// Packets that were wanted.
    pub wanted: u64,
    /// Of them, those that were not told since the rate was reached.
    pub over_rate: u64,
    /// Of them, those that found no room in the ring.
    pub lost: u64,
}

/// Where a worker had a packet from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceSource {
    /// A port.
    Port,
    /// Another worker.
    Inbox,
    /// It was a fragment that has waited for its first one.
    Held,
    /// It was put together from the fragments of its GTP-U packet.
    Reassembled,
    /// It has waited for its FAR or its next hop.
    Waited,
    /// It was sent to an address of our own, so many times.
    Round(u8),
}

/// What `lookup` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedLookup {
    /// The packet can have no flow entry, or did not come so far.
    None,
    /// Its flow's entry.
    Hit {
        /// It was decided under older rules of those that all sessions share, and so decided again if there was time
        /// ([`TracedFlow::is_put_off`]).
        outdated: bool,
    },
    /// No entry.
    Miss,
    /// An entry from before the session's rules changed, which is gone now.
    Stale,
}

/// What the tables say of the packet's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedFlow {
    /// What was found.
    pub lookup: TracedLookup,
    /// There was no time to decide an outdated entry again: the packet went by it.
    pub is_put_off: bool,
    /// The fields of the key of the entry that is there now, and its direction.
    pub entry: Option<(KeyFields, Direction)>,
}

/// The session of a packet, as its worker has it.
#[derive(Clone, Debug)]
pub struct TracedSession {
    /// Its number.
    pub session: SessionIndex,
    /// The local SEID.
    pub seid: u64,
    /// Its rules at this moment.
    pub rules: Arc<SessionRules>,
    /// What its URRs have counted, this packet included, and those that came in one burst with it.
    pub counters: Vec<(UrrId, UrrCount)>,
    /// Those of them whose quotas are used up now, in the packet's direction.
    pub exhausted: Vec<UrrId>,
}

/// What was decided about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedDecision {
    /// The PDR.
    pub pdr: PdrId,
    /// The way that it goes.
    pub direction: Direction,
    /// The QERs that act.
    pub qers: Vec<QerId>,
    /// The URRs that count.
    pub urrs: Vec<UrrId>,
    /// A NAT rewrites it.
    pub is_translated: bool,
}

/// Octets of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFrame {
    /// The port, without laps and marks; the LAG where it is a member of one.
    pub port: PortId,
    /// The length of the whole frame.
    pub len: u32,
    /// Its first octets.
    pub octets: Vec<u8>,
}

impl TracedFrame {
    /// At most so many octets of it, from the first on.
    pub(crate) fn start(&self, most: usize) -> &[u8] {
        self.octets.get(..most).unwrap_or(&self.octets)
    }
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedEnd {
    /// It leaves.
    Sent {
        /// As what.
        frame: TracedFrame,
        /// To ourselves: it comes in again, as the next packet.
        goes_round: bool,
        /// In several fragments, of which this is the whole.
        in_fragments: bool,
        /// Packets of this burst have found no room at a port, this one perhaps.
        port_was_full: bool,
    },
    /// It goes no further.
    Dropped(DropReason),
    /// It goes to its owner.
    HandedOver(WorkerId),
    /// It has done its work: control has what it said, or nobody needs it.
    Consumed,
    /// To the host's own network stack.
    ToHost,
    /// It is a fragment of a GTP-U packet, and waits for the others.
    Reassembling,
    /// It waits for the first fragment of its datagram.
    Held,
    /// It waits for its FAR or its next hop.
    Buffered,
}

/// What happened to one packet.
#[derive(Clone, Debug)]
pub struct Traced {
    /// At this worker.
    pub worker: WorkerId,
    /// The number of the packet among those wanted at this worker, from 1: what is missing was not told.
    pub number: u64,
    /// When its burst was taken.
    pub time: Nanos,
    /// Where it came from.
    pub source: TraceSource,
    /// As it came in.
    pub received: TracedFrame,
    /// The instance that it came in by.
    pub instance: Option<InstanceId>,
    /// What the tables said.
    pub flow: TracedFlow,
    /// Its session, if it has one.
    pub session: Option<TracedSession>,
    /// What was decided.
    pub decision: Option<TracedDecision>,
    /// It is beyond its guaranteed rates.
    pub is_yellow: bool,
    /// It is what a redirected UE is told.
    pub is_answer: bool,
    /// It is a fragment whose ports were known from the first one.
    pub borrowed_ports: bool,
    /// It may tell how long segments may be, and MTUs of paths are known, which that is reckoned with.
    pub heeds_paths: bool,
    /// What became of it.
    pub end: TracedEnd,
}

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

/// The orders of a worker, and what of the burst they need.
pub(crate) struct Tracer {
    pub running: Vec<Running>,
    /// By place in the burst.
    pub heads: Vec<Head>,
    /// What is told when the burst has left, by order; empty between bursts.
    pub pending: Vec<(usize, Box<Traced>)>,
    /// Frames that are copied when the burst has left, by order; empty between bursts.
    pub copies: Vec<(usize, Vec<u8>)>,
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
    pub fn take(&mut self, order: TraceOrder, now: Nanos) {
        if self.running.len() < MAX_TRACES {
            let TraceOrder { terms, copies, ring } = order;
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

/// The first octets of a packet, and its length.
pub(crate) fn keep<B: PacketBuf>(frame: &mut TracedFrame, buf: &B, snap: usize) {
    let data = buf.data();
    frame.octets.clear();
    frame.octets.extend_from_slice(&data[..data.len().min(snap)]);
    frame.len = buf.len() as u32;
}
