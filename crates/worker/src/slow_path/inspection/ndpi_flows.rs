//! The flows that nDPI looks at, where it is configured: those whose packets begin nothing that the inspector knows.
//!
//! A fixed number at a time, of each session at most its share. Where there is no room, one of some gives way that
//! began first. One ends with what nDPI says, after as many packets as it is shown, or when it is too old.

use std::time::Duration;

use dpi::NdpiProtocol;
use dpi::shares::Shares;
use flow::slab::OutOfMemory;
use flow::{Nanos, SessionIndex};
use ndpi::{Detector, FlowIndex};

use super::flow_records::{FlowRecords, FlowState, RecordPlace};
use super::looks::{Looks, NdpiLook};
use crate::NdpiLimits;
use crate::stats::Stats;

/// Flows that are compared for one that gives way.
const COMPARED: usize = 8;
/// Flows whose age is looked at each time.
const AGED: usize = 2;
/// Octets of a module of nDPI, some.
const MODULE_OCTETS: usize = 7 << 20;

/// A packet as nDPI is shown it.
pub(super) struct ShownPacket<'p> {
    /// From its IP header on, to its end.
    pub(super) bytes: &'p [u8],
    pub(super) now: Nanos,
}

/// A flow that nDPI looks at.
#[derive(Clone, Copy)]
struct LookedAt {
    record: RecordPlace,
    session: SessionIndex,
    since: Nanos,
    /// Packets that it is still shown.
    packets: u8,
}

/// The flows that nDPI looks at.
pub(super) struct NdpiFlows {
    detector: Detector,
    /// By their numbers in `detector`.
    flows: Box<[Option<LookedAt>]>,
    shares: Shares,
    packets: u8,
    longest: Duration,
    /// The one that is looked at next, whether it is too old or gives way.
    hand: usize,
}

impl NdpiFlows {
    /// With all its memory. Sessions are numbers below `sessions`; each has at most `share` flows, for `longest`.
    pub(super) fn new(
        limits: &NdpiLimits,
        sessions: usize,
        (share, longest): (u16, Duration),
    ) -> Result<Self, OutOfMemory> {
        let octets = MODULE_OCTETS;
        let detector = Detector::new(&limits.library, limits.flows).ok_or(OutOfMemory { octets })?;
        Ok(Self {
            detector,
            flows: vec![None; limits.flows as usize].into(),
            shares: Shares::new(u32::try_from(sessions).unwrap_or(u32::MAX), share),
            packets: limits.packets.max(1),
            longest,
            hand: 0,
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.detector.flows() as usize
    }

    /// What nDPI has allocated by itself, octets.
    pub(super) fn octets(&self) -> u64 {
        self.detector.octets()
    }

    /// What nDPI calls it.
    pub(super) fn name(&self, protocol: NdpiProtocol) -> String {
        self.detector.library().name(protocol)
    }

    /// Shows nDPI a packet with a payload of the flow of a session's record, from its IP header on.
    pub(super) fn show(
        &mut self,
        look: NdpiLook,
        of: (RecordPlace, SessionIndex),
        packet: &ShownPacket<'_>,
        (records, stats): (&mut FlowRecords, &mut Stats),
    ) -> NdpiLook {
        let opened = match look {
            NdpiLook::None => self.open(of, packet.now, records, stats),
            NdpiLook::Open(flow) => Some(flow),
            known @ (NdpiLook::Found(_) | NdpiLook::Over) => return known,
        };
        let Some(flow) = opened else {
            return NdpiLook::Over;
        };
        if let Some(found) = self.detector.look(flow, packet.bytes, packet.now.0 / 1_000_000) {
            self.close(flow);
            return NdpiLook::Found(found);
        }
        let own = self.flows.get_mut(flow.0 as usize).and_then(Option::as_mut);
        let left = own.map_or(0, |own| {
            own.packets = own.packets.saturating_sub(1);
            own.packets
        });
        if left == 0 {
            self.close(flow);
            return NdpiLook::Over;
        }
        NdpiLook::Open(flow)
    }

    /// Begins a flow, if there is room.
    fn open(
        &mut self,
        (record, session): (RecordPlace, SessionIndex),
        now: Nanos,
        records: &mut FlowRecords,
        stats: &mut Stats,
    ) -> Option<FlowIndex> {
        let opened = self.take(session, records, stats);
        match opened {
            Some(_) => stats.ndpi_flows += 1,
            None => stats.ndpi_refused += 1,
        }
        let flow = opened?;
        *self.flows.get_mut(flow.0 as usize)? = Some(LookedAt {
            record,
            session,
            since: now,
            packets: self.packets,
        });
        Some(flow)
    }

    /// A place for a flow of a session; another one may give way for it.
    fn take(
        &mut self,
        session: SessionIndex,
        records: &mut FlowRecords,
        stats: &mut Stats,
    ) -> Option<FlowIndex> {
        if !self.shares.take(session.0) {
            return None;
        }
        let mut opened = self.detector.open();
        if opened.is_none() && self.len() == self.flows.len() {
            self.end_an_old_one(records, stats);
            opened = self.detector.open();
        }
        if opened.is_none() {
            self.shares.give_back(session.0);
        }
        opened
    }

    /// Ends one, of some the one that began first.
    fn end_an_old_one(&mut self, records: &mut FlowRecords, stats: &mut Stats) {
        let some = (0..COMPARED).filter_map(|_| self.next());
        if let Some((flow, _)) = some.min_by_key(|(_, looked_at)| looked_at.since) {
            self.end(flow, records, stats);
        }
    }

    /// The one at the hand, if there is one, which is moved on.
    fn next(&mut self) -> Option<(FlowIndex, LookedAt)> {
        let place = self.hand;
        self.hand = (place + 1) % self.flows.len().max(1);
        let looked_at = (*self.flows.get(place)?)?;
        Some((FlowIndex(place as u32), looked_at))
    }

    /// Ends those that have taken too long: of all a few are looked at each time.
    pub(super) fn expire(&mut self, records: &mut FlowRecords, now: Nanos, stats: &mut Stats) {
        if self.len() == 0 {
            return;
        }
        for _ in 0..AGED {
            let next = self.next();
            let is_old = |of: &LookedAt| now.0.saturating_sub(of.since.0) >= self.longest.as_nanos() as u64;
            if let Some((flow, _)) = next.filter(|(_, looked_at)| is_old(looked_at)) {
                self.end(flow, records, stats);
            }
        }
    }

    /// Ends one before nDPI has said anything.
    fn end(&mut self, flow: FlowIndex, records: &mut FlowRecords, stats: &mut Stats) {
        let record = self.close(flow);
        let own = record.and_then(|record| records.at_mut(record));
        if let Some(own) = own
            && let FlowState::Undecided(looks) = own.state
        {
            let looks = Looks {
                ndpi: NdpiLook::Over,
                ..looks
            };
            own.state = FlowState::after(looks, stats);
        }
    }

    /// The flow is decided without it, or over.
    pub(super) fn end_look(&mut self, look: NdpiLook) {
        if let NdpiLook::Open(flow) = look {
            self.close(flow);
        }
    }

    /// Ends one: it is decided, or over. Gives the record whose flow it was.
    fn close(&mut self, flow: FlowIndex) -> Option<RecordPlace> {
        let looked_at = self.flows.get_mut(flow.0 as usize)?.take()?;
        self.shares.give_back(looked_at.session.0);
        self.detector.close(flow);
        Some(looked_at.record)
    }
}
