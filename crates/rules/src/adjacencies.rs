//! The numbers of next hops: what control provides to the compiler, and images keep.

use std::net::IpAddr;
use std::sync::Arc;

use flow::AdjacencyId;

use crate::network::InstanceId;
use crate::network::multipath::GroupId;

/// The table of next hops, which control owns.
pub trait Adjacencies {
    /// The number of the next hop `next_hop` on the link of `instance`, new or known; its link layer address may
    /// still be unknown. `None` when there is no room for another.
    fn resolve(&self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId>;

    /// The number of a path of a group; it is the group's for good. `None` where there is no such group, which is the
    /// default.
    fn path(&self, _group: GroupId, _path: u8) -> Option<AdjacencyId> {
        None
    }

    /// Keeps the number of a next hop that was just resolved. By default numbers are kept anyway.
    fn hold(&self, _next_hop: AdjacencyId) -> AdjacencyRef {
        AdjacencyRef::default()
    }
}

/// A reference to an adjacency: its number is not reused while this or a copy of it exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdjacencyRef(Arc<()>);

impl AdjacencyRef {
    /// Whether there is a copy.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
