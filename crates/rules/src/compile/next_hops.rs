//! The next hops of one image: their numbers, and references that keep those.

use std::net::IpAddr;

use flow::AdjacencyId;
use smallvec::SmallVec;

use crate::adjacencies::{Adjacencies, AdjacencyRef};
use crate::network::multipath::{GroupId, NextHop, Spread};
use crate::network::{InstanceId, Network, VrfId};

/// A GTP-U peer in its address space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) vrf: VrfId,
    pub(super) address: IpAddr,
}

/// The next hops of one image.
pub(super) struct NextHops<'a> {
    adjacencies: &'a dyn Adjacencies,
    held: SmallVec<[AdjacencyRef; 2]>,
    /// The last peer, and where packets to it go: a session's tunnels lead to one peer as a rule.
    last: Option<(Peer, Option<NextHop>)>,
}

impl<'a> NextHops<'a> {
    /// None yet.
    pub(super) fn new(adjacencies: &'a dyn Adjacencies) -> Self {
        Self {
            adjacencies,
            held: SmallVec::new(),
            last: None,
        }
    }

    /// References to all that were resolved.
    pub(super) fn into_held(self) -> SmallVec<[AdjacencyRef; 2]> {
        self.held
    }

    /// Where packets to a peer go.
    pub(super) fn next_hop(&mut self, network: &Network, peer: Peer) -> Option<NextHop> {
        if let Some((_, next_hop)) = self.last.filter(|(known, _)| *known == peer) {
            return next_hop;
        }
        let next_hop = network.next_hop(peer.vrf, peer.address);
        self.last = Some((peer, next_hop));
        next_hop
    }

    /// The number of a next hop, held before another one is resolved.
    pub(super) fn resolve(&mut self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        let id = self.adjacencies.resolve(instance, next_hop)?;
        self.held.push(self.adjacencies.hold(id));
        Some(id)
    }

    /// The number of a path of a group.
    pub(super) fn path(&self, group: GroupId, spread: Spread) -> Option<AdjacencyId> {
        self.adjacencies.path(group, spread.path())
    }
}
