//! The GTP-U paths that sessions send into, and who they belong to (TS 29.281 §4.4.2, TS 23.007 §20).

use flow::{Forward, OuterAddresses};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use crate::compact_list::Compact;
use crate::ids::AssociationId;
use crate::keyed_map::{Keyed, keyed};

/// A GTP-U path: an address of ours and an address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtpuPath {
    /// Ours.
    pub local: IpAddr,
    /// The peer's.
    pub peer: IpAddr,
}

impl GtpuPath {
    /// The path that a compiled FAR sends into, if it sends into a tunnel.
    pub(crate) fn of(forward: &Forward) -> Option<GtpuPath> {
        let (local, peer): (IpAddr, IpAddr) = match forward.template?.addresses {
            OuterAddresses::V4 { source, destination } => (source.into(), destination.into()),
            OuterAddresses::V6 { source, destination } => (source.into(), destination.into()),
        };
        Some(GtpuPath { local, peer })
    }
}

impl Compact for GtpuPath {
    type Short = [Ipv4Addr; 2];

    fn shortened(&self) -> Option<[Ipv4Addr; 2]> {
        match (self.local, self.peer) {
            (IpAddr::V4(local), IpAddr::V4(peer)) => Some([local, peer]),
            _ => None,
        }
    }

    fn of_short([local, peer]: [Ipv4Addr; 2]) -> GtpuPath {
        GtpuPath {
            local: local.into(),
            peer: peer.into(),
        }
    }
}

/// A path that came into use, or went out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// The first session uses it.
    Used(GtpuPath),
    /// No session uses it any more.
    Unused(GtpuPath),
}

/// Paths by the number of sessions of each association, in the order of the associations: few have a path in common.
/// Each change is polled once.
#[derive(Debug)]
pub(crate) struct Paths {
    uses: Keyed<GtpuPath, Vec<(AssociationId, usize)>>,
    changes: VecDeque<PathChange>,
}

impl Paths {
    /// None are used. Peers choose addresses: the seed is unknown to them.
    pub(crate) fn new(seed: u64) -> Paths {
        Paths {
            uses: keyed(seed),
            changes: VecDeque::new(),
        }
    }

    /// A session of this association uses a path.
    pub(crate) fn add(&mut self, association: AssociationId, path: GtpuPath) {
        let users = self.uses.entry(path).or_default();
        if users.is_empty() {
            self.changes.push_back(PathChange::Used(path));
        }
        match users.binary_search_by_key(&association, |(user, _)| *user) {
            Ok(place) => users[place].1 += 1,
            Err(place) => users.insert(place, (association, 1)),
        }
    }

    /// A session of this association does not use a path any more.
    pub(crate) fn remove(&mut self, association: AssociationId, path: GtpuPath) {
        let Some(users) = self.uses.get_mut(&path) else {
            return;
        };
        if let Ok(place) = users.binary_search_by_key(&association, |(user, _)| *user) {
            users[place].1 -= 1;
            if users[place].1 == 0 {
                users.remove(place);
            }
        }
        if users.is_empty() {
            self.uses.remove(&path);
            self.changes.push_back(PathChange::Unused(path));
        }
    }

    pub(crate) fn poll(&mut self) -> Option<PathChange> {
        self.changes.pop_front()
    }

    /// The associations whose sessions use a path.
    pub(crate) fn users(&self, path: &GtpuPath) -> impl Iterator<Item = AssociationId> + '_ {
        self.uses
            .get(path)
            .into_iter()
            .flat_map(|users| users.iter().map(|(user, _)| *user))
    }

    /// All that are used.
    pub(crate) fn all(&self) -> impl Iterator<Item = GtpuPath> + '_ {
        self.uses.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.uses.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMF: AssociationId = AssociationId(1);
    const OTHER: AssociationId = AssociationId(2);

    #[test]
    fn a_path_is_used_from_its_first_session_to_its_last() {
        let path = GtpuPath {
            local: [192, 0, 2, 1].into(),
            peer: [192, 0, 2, 2].into(),
        };
        let mut paths = Paths::new(1);
        paths.add(SMF, path);
        paths.add(SMF, path);
        paths.add(OTHER, path);
        assert_eq!(paths.poll(), Some(PathChange::Used(path)));
        assert_eq!(paths.users(&path).collect::<Vec<_>>(), [SMF, OTHER]);
        paths.remove(SMF, path);
        paths.remove(OTHER, path);
        assert_eq!((paths.poll(), paths.len()), (None, 1));
        assert_eq!(paths.users(&path).collect::<Vec<_>>(), [SMF]);
        paths.remove(SMF, path);
        assert_eq!((paths.poll(), paths.len()), (Some(PathChange::Unused(path)), 0));
        paths.remove(SMF, path);
        assert_eq!(paths.poll(), None);
    }
}
