//! What a record has of a flow that the inspector has found.

use dpi::{Found, Protocol};

use super::flow_records::{FlowRecords, FlowState, RecordPlace, Requests};
use super::host_shares::HostShares;
use super::inspected_packet::InspectedPacket;
use super::questions::Questions;
use crate::stats::Stats;

/// The state of the flow of a packet's record of which this was found.
pub(super) fn state_of(
    packet: &InspectedPacket<'_>,
    record: RecordPlace,
    found: &Found,
    (hosts, records): (&mut HostShares, &mut FlowRecords),
    stats: &mut Stats,
) -> FlowState {
    if found.protocol == Protocol::Dns {
        // Each query says by itself what it asks for.
        stats.hosts_found += 1;
        return FlowState::Queries(Questions::default());
    }
    // Of several requests it is not known which one is the last.
    let place = match found.host.as_ref().filter(|_| !found.has_more) {
        Some(host) => {
            let path = found.path.as_ref().filter(|_| packet.reads.paths);
            let place = hosts.take((record, packet.session), (host, path), records);
            stats.hosts_found += u64::from(place.is_some());
            stats.hosts_lost += u64::from(place.is_none());
            place
        }
        None => {
            stats.undetected_flows += 1;
            None
        }
    };
    match found.protocol {
        Protocol::Http1 => FlowState::Requests(Requests {
            host: place,
            next: None,
            begins_at: found.next_request.filter(|_| !found.has_more),
        }),
        protocol => FlowState::Known(protocol, place),
    }
}
