//! Requests to trace or mirror packets.

use std::net::IpAddr;
use std::time::Duration;

use flow::PortId;
use packet::Teid;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::trace::copying::{CopyTerms, MOST_COPIED};
use crate::trace::report::Traced;

/// Which packets are selected: those for which each given condition holds. None given: every packet.
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

/// Which packets a request selects, and how much of them is reported.
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

/// A request to trace packets.
#[derive(Debug)]
pub struct TraceRequest {
    pub(crate) terms: TraceTerms,
    pub(crate) copies: Option<CopyTerms>,
    pub(crate) ring: Producer<TraceItem>,
}

/// A trace request for one worker, and the end of its ring where reports come out; `room` packets fit. The request ends
/// when that end is dropped.
pub fn trace(terms: TraceTerms, room: usize) -> (TraceRequest, Consumer<TraceItem>) {
    let (ring, told) = RingBuffer::new(room.max(2));
    let copies = None;
    (TraceRequest { terms, copies, ring }, told)
}

/// A mirror request: packets are copied, at most [`MOST_COPIED`] octets of each. Only its end is reported.
pub fn mirror(terms: TraceTerms, copies: CopyTerms) -> (TraceRequest, Consumer<TraceItem>) {
    let (ring, told) = RingBuffer::new(2);
    let snap = terms.snap.min(MOST_COPIED);
    let order = TraceRequest {
        terms: TraceTerms { snap, ..terms },
        copies: Some(copies),
        ring,
    };
    (order, told)
}

/// What comes out of a request's ring.
#[derive(Debug)]
pub enum TraceItem {
    /// A packet.
    Packet(Box<Traced>),
    /// There will be no more.
    End(TraceEnd),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceEnd {
    /// Packets that were selected.
    pub wanted: u64,
    /// Of them, those above the rate, which were not reported.
    pub over_rate: u64,
    /// Of them, those that found no room in the ring.
    pub lost: u64,
}
