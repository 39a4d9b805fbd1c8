//! The requests of a connection of HTTP/1, each of which may be for something else.
//!
//! What the client sends is followed from one request to the next, by their heads and the lengths of their bodies, so
//! that a request is found wherever it begins in a segment, whatever bodies look like, and whether segments come once
//! and in order or not. Of a segment the last request counts that begins in it; a segment with requests for several
//! hosts is for none. Where the length of a body is not known ([`dpi::http1::Body`]), a request is looked for where a
//! segment begins like one.

use dpi::http1::may_start_request;
use dpi::{FlowIndex, Layer4, Reason, Sender, Transport, Verdict};
use flow::SessionIndex;

use super::flow_records::{FlowRecords, FlowState, Notes, RecordPlace, Requests};
use super::found::state_of;
use super::host_pool::HostPlace;
use super::host_shares::HostShares;
use super::inspected_packet::InspectedPacket;
use super::inspections::Inspections;
use crate::stats::Stats;

/// Requests of one segment that are read at most.
const MOST: usize = 16;

/// What a segment says of the request that comes next.
enum Next {
    /// Nothing: none begins in it.
    None,
    /// What looked like one is none.
    NoRequest,
    /// The head of one has come in part.
    Incomplete(FlowIndex),
    /// One is there.
    Found(Requests),
    /// One is there, or may be, and it is not known what it is for.
    Unknown,
}

/// Follows the requests of the flow of a record.
pub(super) struct RequestReader<'a> {
    pub(super) inspections: &'a mut Inspections,
    pub(super) hosts: &'a mut HostShares,
    pub(super) records: &'a mut FlowRecords,
    pub(super) record: RecordPlace,
}

impl RequestReader<'_> {
    /// The client sends behind a request that was not read to its end, or what cannot be read and may be one: the flow
    /// is for no host that is known. Whether it was for one.
    pub(super) fn forget_lost(&mut self, is_unread: bool) -> bool {
        let Some(own) = self.records.at_mut(self.record) else {
            return false;
        };
        let has_lost_request = is_unread || own.notes.has(Notes::HAS_LOST_REQUEST);
        own.notes.set(Notes::HAS_LOST_REQUEST, false);
        let FlowState::Requests(requests) = own.state else {
            return false;
        };
        if !has_lost_request {
            return false;
        }
        own.state = FlowState::Requests(Requests::default());
        let session = own.session;
        self.give_back(session, requests.host);
        if let Some(flow) = requests.next {
            self.inspections.close(flow);
        }
        requests.host.is_some()
    }

    fn give_back(&mut self, session: SessionIndex, host: Option<HostPlace>) {
        if let Some(host) = host {
            self.hosts.give_back(session, host);
        }
    }

    /// Reads what a client sends behind its first request.
    pub(super) fn read(
        &mut self,
        requests: Requests,
        layer4: &Layer4<'_>,
        packet: &InspectedPacket<'_>,
        stats: &mut Stats,
    ) -> Requests {
        match self.read_next(requests, layer4, packet, stats) {
            Next::None => requests,
            Next::NoRequest => Requests {
                next: None,
                ..requests
            },
            Next::Incomplete(next) => Requests {
                next: Some(next),
                ..requests
            },
            Next::Unknown => {
                self.give_back(packet.session, requests.host);
                Requests::default()
            }
            Next::Found(found) => {
                self.give_back(packet.session, requests.host);
                self.read_behind(found, layer4, packet, stats)
            }
        }
    }

    /// Reads what a segment has behind its `first` request.
    pub(super) fn read_behind(
        &mut self,
        first: Requests,
        layer4: &Layer4<'_>,
        packet: &InspectedPacket<'_>,
        stats: &mut Stats,
    ) -> Requests {
        let mut requests = first;
        for _ in 1..MOST {
            if requests.begins_at.is_none() {
                return requests;
            }
            match self.read_next(requests, layer4, packet, stats) {
                Next::None => return requests,
                Next::Incomplete(next) => {
                    return Requests {
                        next: Some(next),
                        ..requests
                    };
                }
                Next::Found(found) if found.host == requests.host => {
                    self.give_back(packet.session, found.host);
                    requests.begins_at = found.begins_at;
                }
                // The segment is for both.
                Next::Found(found) => {
                    self.give_back(packet.session, found.host);
                    self.give_back(packet.session, requests.host.take());
                    requests.begins_at = found.begins_at;
                }
                Next::NoRequest | Next::Unknown => break,
            }
        }
        self.give_back(packet.session, requests.host);
        Requests::default()
    }

    /// Reads the next request, as far as a segment has it.
    fn read_next(
        &mut self,
        requests: Requests,
        layer4: &Layer4<'_>,
        packet: &InspectedPacket<'_>,
        stats: &mut Stats,
    ) -> Next {
        if requests.next.is_none() && !may_have_request(layer4, requests.begins_at) {
            return Next::None;
        }
        let opened = match requests.next {
            None => {
                let of = (&mut *self.records, self.record);
                self.inspections
                    .open(of, packet.session, Transport::Tcp, packet.now, stats)
            }
            next => next,
        };
        let Some(flow) = opened else {
            // There is no room to read it.
            return Next::Unknown;
        };
        if let Some(begins_at) = requests.begins_at {
            self.inspections.start_at(flow, begins_at);
        }
        let sent = (Sender::Initiator, layer4);
        let found = match self.inspections.inspect(flow, sent, self.records, stats) {
            Verdict::Undecided => return Next::Incomplete(flow),
            Verdict::Found(found) => found,
            // A body that looks like a request.
            Verdict::Undetected(Reason::Malformed | Reason::Unknown) if requests.begins_at.is_none() => {
                return Next::NoRequest;
            }
            Verdict::Undetected(_) => return Next::Unknown,
        };
        let room = (&mut *self.hosts, &mut *self.records);
        match state_of(packet, self.record, found, room, stats) {
            FlowState::Requests(requests) => Next::Found(requests),
            FlowState::Known(_, host) => {
                self.give_back(packet.session, host);
                Next::Unknown
            }
            _ => Next::Unknown,
        }
    }
}

/// Whether a request may begin in a segment: at the sequence number where the next one does, or where the segment does.
fn may_have_request(layer4: &Layer4<'_>, begins_at: Option<u32>) -> bool {
    let Layer4::Tcp {
        sequence, payload, ..
    } = *layer4
    else {
        return false;
    };
    match begins_at {
        _ if payload.is_empty() => false,
        None => may_start_request(payload),
        Some(begins_at) => {
            let end = sequence.wrapping_add(payload.len() as u32);
            end.wrapping_sub(begins_at) as i32 > 0
        }
    }
}
