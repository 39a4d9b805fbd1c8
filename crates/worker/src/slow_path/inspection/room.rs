//! Room for inspections: flows that are looked into at a time, and the parts of messages that these keep.
//!
//! Each session has its share. Where all sessions together leave no room, others give way, so that a flood makes
//! inspections short and keeps none from beginning: the one that began first for another flow, and for the parts of a
//! message that of a session that has many of those.

use dpi::{FlowIndex, NotOpened, Transport};
use flow::Nanos;
use packet::tuple::proto;

use super::flow_records::{FlowState, RecordPlace};
use super::{InspectedPacket, Inspection};
use crate::stats::Stats;

impl Inspection {
    /// Begins an inspection for a record, if there is room.
    pub(super) fn open(
        &mut self,
        RecordPlace(token): RecordPlace,
        packet: &InspectedPacket<'_>,
        stats: &mut Stats,
    ) -> Option<FlowIndex> {
        let transport = match packet.tuple.proto {
            proto::TCP => Transport::Tcp,
            _ => Transport::Udp,
        };
        let (session, now) = (packet.session.0, packet.now.0);
        let mut opened = self.inspector.open(session, token, transport, now);
        if opened == Err(NotOpened::NoState)
            && let Some(oldest) = self.inspector.close_oldest()
        {
            self.end_undetected(oldest, stats);
            opened = self.inspector.open(session, token, transport, now);
        }
        match opened {
            Ok(_) => stats.inspections += 1,
            Err(_) => stats.inspections_refused += 1,
        }
        opened.ok()
    }

    /// Makes room for parts of what a flow's client says.
    pub(super) fn make_room(&mut self, flow: FlowIndex, stats: &mut Stats) {
        if let Some(other) = self.inspector.make_room_for(flow) {
            self.end_undetected(other, stats);
        }
    }

    /// Ends inspections that have taken too long.
    pub fn expire(&mut self, now: Nanos, stats: &mut Stats) {
        while let Some(token) = self.inspector.expire(now.0) {
            self.end_undetected(token, stats);
        }
    }

    /// The inspection of a record's flow, or of a request in it, has ended before anything was found.
    fn end_undetected(&mut self, token: u32, stats: &mut Stats) {
        let Some(own) = self.records.at_mut(RecordPlace(token)) else {
            return;
        };
        own.state = match own.state {
            FlowState::Undecided(_) => {
                stats.undetected_flows += 1;
                FlowState::Undetected
            }
            FlowState::Requests { host, .. } => {
                // The request whose head has come in part may be for another host.
                host.into_iter()
                    .for_each(|old| self.hosts.give_back(own.session, old));
                FlowState::Requests {
                    host: None,
                    next: None,
                }
            }
            other => other,
        };
    }
}
