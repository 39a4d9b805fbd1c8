//! Associations: the control plane functions that we serve (TS 29.244 §6.2.6).
//!
//! An association is its peer's Node ID. Its addresses say where our own requests go, and who may speak for it: the one
//! that it was set up from, that which the Node ID is, and those that the peer named as alternatives (TS 29.244 §5.22).
//! Ports do not count: peers send from any.

use flow::Nanos;
use pfcp::ie::{AlternativeSmfIpAddress, CpFunctionFeatures, RecoveryTimeStamp, SmfSetId};
use session::AssociationId;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::load::SentLoad;
use crate::node::{LONGEST_NAME, NodeName};

/// One association.
#[derive(Clone, Debug)]
pub struct Association {
    /// Our number for it.
    pub id: AssociationId,
    /// The peer.
    pub node: NodeName,
    /// When the peer started.
    pub recovery: RecoveryTimeStamp,
    /// What the peer can do.
    pub features: CpFunctionFeatures,
    /// Where the set-up came from.
    pub peer: SocketAddr,
    /// Other addresses of the peer, or of its set: that of its Node ID, and Alternative SMF IP Addresses (§8.2.129),
    /// the preferred ones first.
    pub others: Vec<IpAddr>,
    /// The SMF set that the peer belongs to (§8.2.131): a name in DNS labels.
    pub set: Option<Vec<u8>>,
    /// The address of ours that it reached.
    pub local: SocketAddr,
    /// Since when.
    pub since: Nanos,
    /// Whether the last heartbeat was answered; true before the first.
    pub reachable: bool,
    /// Whether the peer has shown that it gets what is sent to it, by the answer to a heartbeat, or need not.
    pub verified: bool,
    /// Whether a heartbeat of ours is on its way.
    pub(crate) is_asked: bool,
    /// The load information that the peer has received.
    pub(crate) sent_load: SentLoad,
}

impl Association {
    /// Whether the peer is known to send from `address`.
    pub fn is_at(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.peer.ip().to_canonical() == address || self.others.contains(&address)
    }

    /// Whether the sessions of this association can be controlled by others than its peer.
    pub(crate) fn is_of_set(&self) -> bool {
        let has = |feature| self.features.contains(feature);
        has(CpFunctionFeatures::SSET) || has(CpFunctionFeatures::MPAS) && self.set.is_some()
    }

    /// Whether both peers say that they are members of one set.
    pub(crate) fn is_of_same_set(&self, other: &Association) -> bool {
        self.set.is_some() && self.set == other.set
    }
}

/// What a peer says of itself when an association is set up, whichever side begins.
pub(crate) struct Introduction {
    pub(crate) node: NodeName,
    pub(crate) recovery: RecoveryTimeStamp,
    pub(crate) features: Option<CpFunctionFeatures>,
    pub(crate) others: Vec<IpAddr>,
    pub(crate) set: Option<Vec<u8>>,
}

/// The name of a set that outlives its datagram; `None` for an empty one, and for one that is longer than names are.
pub(crate) fn set_name(id: Option<SmfSetId<'_>>) -> Option<Vec<u8>> {
    id.map(|id| id.fqdn.to_ascii_lowercase())
        .filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME)
}

/// Alternative addresses kept of one peer; those beyond it are as if they were not there.
const MOST_OTHERS: usize = 16;

/// The addresses that a peer has by what it says of itself.
pub(crate) fn other_addresses(
    node: &NodeName,
    alternatives: impl IntoIterator<Item = AlternativeSmfIpAddress>,
) -> Vec<IpAddr> {
    let own = match node {
        NodeName::Ipv4(address) => Some(IpAddr::V4(*address)),
        NodeName::Ipv6(address) => Some(IpAddr::V6(*address)),
        NodeName::Fqdn(_) => None,
    };
    let mut alternatives: Vec<_> = alternatives.into_iter().collect();
    alternatives.sort_by_key(|one| !one.is_preferred);
    let both = |one: AlternativeSmfIpAddress| [one.ipv4.map(IpAddr::V4), one.ipv6.map(IpAddr::V6)];
    let named = alternatives.into_iter().flat_map(both).flatten();
    own.into_iter()
        .chain(named.take(MOST_OTHERS))
        .map(|address| address.to_canonical())
        .collect()
}

/// All associations.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    by_id: BTreeMap<AssociationId, Association>,
    by_node: BTreeMap<NodeName, AssociationId>,
    last: u32,
}

impl Associations {
    pub(crate) fn by_node(&self, node: &NodeName) -> Option<&Association> {
        self.by_id.get(self.by_node.get(node)?)
    }

    pub(crate) fn get(&self, id: AssociationId) -> Option<&Association> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Association> {
        self.by_id.values()
    }

    /// The numbers of all, in their order.
    pub(crate) fn ids(&self) -> Vec<AssociationId> {
        self.by_id.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// A number for an association with `node`: that of the one it has, else a new one.
    pub(crate) fn id_for(&mut self, node: &NodeName) -> AssociationId {
        match self.by_node.get(node) {
            Some(id) => *id,
            None => {
                self.last = self.last.wrapping_add(1);
                AssociationId(self.last)
            }
        }
    }

    /// Sets an association up, in the place of an earlier one with the same number.
    pub(crate) fn put(&mut self, association: Association) {
        self.by_node.insert(association.node.clone(), association.id);
        self.by_id.insert(association.id, association);
    }

    pub(crate) fn remove(&mut self, id: AssociationId) -> Option<Association> {
        let association = self.by_id.remove(&id)?;
        self.by_node.remove(&association.node);
        Some(association)
    }

    /// The association that a datagram without a Node ID may come from: the one that was set up from the same address
    /// and port, else the only one with that address. Another node may share the address: what the datagram says is
    /// believed only once the peer has confirmed it.
    pub(crate) fn by_source(&self, source: SocketAddr) -> Option<&Association> {
        let exact = self.iter().find(|association| association.peer == source);
        exact.or_else(|| {
            let mut near = self.iter().filter(|association| association.is_at(source.ip()));
            near.next().filter(|_| near.next().is_none())
        })
    }

    /// Whether a peer has this address.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        self.iter().any(|association| association.is_at(address))
    }
}

/// A peer with an association that would not be received any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPeer {
    /// Its address.
    pub address: IpAddr,
    /// The sessions of its association.
    pub sessions: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn association(associations: &mut Associations, node: &str, peer: &str) -> AssociationId {
        let node = NodeName::fqdn(node).unwrap();
        let id = associations.id_for(&node);
        associations.put(Association {
            id,
            node,
            recovery: RecoveryTimeStamp(1),
            features: CpFunctionFeatures::from_bits(0),
            peer: peer.parse().unwrap(),
            others: Vec::new(),
            set: None,
            local: "192.0.2.9:8805".parse().unwrap(),
            since: Nanos::ZERO,
            reachable: true,
            verified: true,
            is_asked: false,
            sent_load: SentLoad::default(),
        });
        id
    }

    #[test]
    fn a_peer_is_its_node_id_and_a_heartbeat_is_known_by_its_source() {
        let mut all = Associations::default();
        let a = association(&mut all, "a", "192.0.2.1:8805");
        let b = association(&mut all, "b", "192.0.2.1:9805");
        let c = association(&mut all, "c", "192.0.2.3:8805");
        let from = |source: &str| {
            all.by_source(source.parse().unwrap())
                .map(|association| association.id)
        };
        assert_eq!(from("192.0.2.1:9805"), Some(b));
        assert_eq!(from("192.0.2.1:1"), None, "a or b");
        assert_eq!(from("192.0.2.3:1"), Some(c));
        assert_eq!(from("192.0.2.4:8805"), None);
        assert_eq!(association(&mut all, "a", "192.0.2.7:8805"), a);
        assert_eq!(all.len(), 3);
        all.remove(a);
        assert!(all.by_node(&NodeName::fqdn("a").unwrap()).is_none());
        assert_ne!(
            association(&mut all, "a", "192.0.2.7:8805"),
            a,
            "numbers are not used twice"
        );
    }
}
