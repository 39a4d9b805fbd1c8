//! What is known of a flow, as rules take it.

use std::net::IpAddr;

use dpi::{HostName, PathStart, Protocol};
use flow::Nanos;
use packet::IpTuple;
use rules::classifier::{DetectedFlow, Detection, NameSource};

use super::address_names::Owner;
use super::flow_records::{FlowState, Notes, RecordPlace};
use super::host_pool::HostAndPath;
use super::inspected_packet::{InspectedPacket, other_end};
use super::{Asked, Inspected, Inspection};

/// What is known of a flow. Names are in a place that the one who asks gives.
pub(crate) enum KnownFlow<'n> {
    /// Nothing, and nothing of the UE's has come: it is not inspected yet.
    Unseen,
    /// Nothing yet but what a resolver has answered: the host that it is for.
    Undecided(Option<&'n HostName>),
    /// Nothing, and nothing will be.
    Undetected,
    /// What it is, or for.
    Found(DetectedFlow<'n>),
}

impl<'n> KnownFlow<'n> {
    /// As rules take it. As long as the UE has sent nothing, nothing passes because of what it may turn out to be.
    pub fn as_detection(&self) -> Detection<'n> {
        match *self {
            Self::Undecided(None) => Detection::Undecided,
            Self::Undecided(Some(host)) => Detection::Presumed(resolved_flow(None, host)),
            Self::Unseen | Self::Undetected => Detection::Undetected,
            Self::Found(found) => Detection::Found(found),
        }
    }
}

/// A flow of which an answer of a resolver says the host.
fn resolved_flow(protocol: Option<Protocol>, host: &HostName) -> DetectedFlow<'_> {
    DetectedFlow {
        protocol,
        name: Some(host),
        path: None,
        source: NameSource::Resolver,
    }
}

impl Inspection {
    /// What is known of a packet's flow now. Its name is written to `name`.
    pub fn known<'n>(
        &self,
        packet: &InspectedPacket<'_>,
        inspected: &Inspected,
        name: &'n mut Option<HostAndPath>,
    ) -> KnownFlow<'n> {
        let resolved = || self.resolved(packet.owner(), packet.other_end(), packet.now);
        match inspected.asks_for {
            Asked::Nothing => self.known_of(inspected.record, resolved, name),
            Asked::Name => {
                *name = self.asked_name.map(|host| HostAndPath { host, path: None });
                KnownFlow::Found(DetectedFlow {
                    protocol: Some(Protocol::Dns),
                    name: name.as_ref().map(|name| &name.host),
                    path: None,
                    source: NameSource::Client,
                })
            }
            Asked::NoQuery => KnownFlow::Undetected,
        }
    }

    /// What is known of the flow of a packet of this session; `None`: there is no record of it. Its name is written to
    /// `name`.
    pub fn known_of_flow<'n>(
        &self,
        owner: Owner,
        (tuple, is_uplink): (&IpTuple, bool),
        now: Nanos,
        name: &'n mut Option<HostAndPath>,
    ) -> Option<KnownFlow<'n>> {
        let record = self.records.peek(self.id(owner, tuple))?;
        let resolved = || self.resolved(owner, other_end(tuple, is_uplink), now);
        Some(self.known_of(record, resolved, name))
    }

    /// What is known of a record's flow. `resolved`: the host that it is for by an answer of a resolver, which counts
    /// where its client names none. A flow in which the UE has sent nothing is for none.
    fn known_of<'n>(
        &self,
        record: RecordPlace,
        resolved: impl FnOnce() -> Option<HostAndPath>,
        name: &'n mut Option<HostAndPath>,
    ) -> KnownFlow<'n> {
        let state = self.records.at(record).map(|record| record.state);
        if state == Some(FlowState::Unseen) {
            return KnownFlow::Unseen;
        }
        let (protocol, place) = state.and_then(FlowState::found).unzip();
        *name = place.flatten().and_then(|place| self.hosts.pool.at(place));
        let says_itself = name.is_some() || protocol == Some(Protocol::Dns);
        if !says_itself {
            *name = resolved();
        }
        let named = name.as_ref();
        if matches!(state, Some(FlowState::Undecided(_))) {
            return KnownFlow::Undecided(named.map(|named| &named.host));
        }
        match named.filter(|_| !says_itself) {
            Some(resolved) => KnownFlow::Found(resolved_flow(protocol, &resolved.host)),
            None if protocol.is_none() => KnownFlow::Undetected,
            None => KnownFlow::Found(DetectedFlow {
                protocol,
                name: named.map(|named| &named.host),
                path: named
                    .and_then(|named| named.path.as_ref())
                    .map(PathStart::as_bytes),
                source: self.source(record),
            }),
        }
    }

    /// The name that the other end of a session's flow has by an answer of a resolver.
    fn resolved(&self, owner: Owner, address: IpAddr, now: Nanos) -> Option<HostAndPath> {
        let place = self.resolvers.names.name(owner, address, now)?;
        self.resolvers.hosts.at(place)
    }

    /// Who names what a record's flow is for, if its client does.
    fn source(&self, record: RecordPlace) -> NameSource {
        let record = self.records.at(record);
        let is_confirmed = record.is_some_and(|record| record.notes.has(Notes::IS_CONFIRMED));
        match is_confirmed {
            true => NameSource::Confirmed,
            false => NameSource::Client,
        }
    }
}
