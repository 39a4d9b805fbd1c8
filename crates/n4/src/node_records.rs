//! The node, its applications and associations as records, for another process and for a store.

use pfcp::ie::{Ie, NodeId};
use session::{ApplicationRecord, AssociationRecord, NodeRecord, RecordError};

use crate::association::Association;
use crate::config::Config;
use crate::node::NodeName;
use crate::pfds::Pfds;

/// The record of the node itself.
pub(crate) fn node_record(config: &Config) -> NodeRecord {
    NodeRecord {
        node: octets_of(&config.node),
        recovery_unix: config.recovery_unix,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The records of all applications.
pub(crate) fn application_records(pfds: &Pfds) -> impl Iterator<Item = ApplicationRecord> {
    pfds.all().map(|(id, known)| known.record(id))
}

/// The record of an association.
pub(crate) fn record_of(association: &Association) -> AssociationRecord {
    let Association {
        id: _,
        node,
        recovery,
        features,
        peer,
        others,
        set,
        local,
        // What is found out anew.
        since: _,
        reachable: _,
        verified: _,
        is_asked: _,
        sent_load: _,
    } = association;
    AssociationRecord {
        node: octets_of(node),
        recovery: recovery.0,
        features: features.bits(),
        peer: *peer,
        others: others.clone(),
        set: set.clone(),
        local: *local,
    }
}

/// The octets of a Node ID (TS 29.244 §8.2.38): its type, then its value.
pub(crate) fn octets_of(node: &NodeName) -> Vec<u8> {
    let with_type = |number: u8, value: &[u8]| [&[number], value].concat();
    match node {
        NodeName::Ipv4(address) => with_type(0, &address.octets()),
        NodeName::Ipv6(address) => with_type(1, &address.octets()),
        NodeName::Fqdn(labels) => with_type(2, labels),
    }
}

pub(crate) fn node_of(octets: &[u8]) -> Result<NodeName, RecordError> {
    let node = NodeId::decode(octets).ok().and_then(NodeName::of);
    node.ok_or(RecordError::Malformed("Node ID"))
}
