//! Groups of routers ([`rules::network::multipath`]): each path has a slot of its own with the adjacency of a resolved
//! router. A change of a path changes its slot only; flows and forwards refer to the slot and stay.

use flow::AdjacencyId;
use rules::network::multipath::{GroupId, PATHS, next_of};

use crate::adjacencies::Paths;

/// All groups, by [`GroupId`].
pub(super) struct Groups {
    all: Vec<Group>,
    slots: Paths,
}

#[derive(Clone)]
struct Group {
    /// The routers' slots; none: there is no such group.
    routers: Box<[AdjacencyId]>,
    /// The router of each path.
    paths: [Option<AdjacencyId>; PATHS as usize],
}

impl Default for Group {
    fn default() -> Self {
        Self {
            routers: Box::default(),
            paths: [None; PATHS as usize],
        }
    }
}

/// A path whose slot gets a new adjacency.
pub(super) struct PathChange {
    pub slot: AdjacencyId,
    pub router: Option<AdjacencyId>,
}

impl Groups {
    /// No groups. Slots of paths follow those of `capacity` neighbours.
    pub const fn behind(capacity: usize) -> Self {
        Self {
            all: Vec::new(),
            slots: Paths::behind(capacity),
        }
    }

    /// Sets the routers of a group, which is none without any. Its paths are still to be [assigned](Self::assign).
    pub fn set(&mut self, id: GroupId, routers: Box<[AdjacencyId]>) {
        let place = usize::from(id.0);
        if self.all.len() <= place {
            self.all.resize_with(place + 1, Group::default);
        }
        self.all[place].routers = routers;
    }

    /// The slot of a path; `None` without that group.
    pub fn slot(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        let group_at = self.all.get(usize::from(group.0))?;
        (path < PATHS && !group_at.routers.is_empty()).then(|| self.slots.slot(group, path))
    }

    /// The ids of all places, also those without a group.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.all.len() as u16).map(GroupId)
    }

    /// The router of a path.
    pub fn router(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        let group = self.all.get(usize::from(group.0))?;
        *group.paths.get(usize::from(path))?
    }

    /// The routers of a group.
    pub fn routers(&self, group: GroupId) -> &[AdjacencyId] {
        self.all
            .get(usize::from(group.0))
            .map_or(&[], |group| &group.routers)
    }

    /// The groups that a router is in.
    pub fn of_router(&self, router: AdjacencyId) -> Vec<GroupId> {
        let groups = (0..).map(GroupId).zip(&self.all);
        let groups = groups.filter(|(_, group)| group.routers.contains(&router));
        groups.map(|(id, _)| id).collect()
    }

    /// Assigns routers to the paths of a group: a path gets a resolved router. If none is resolved, it gets the router
    /// that it would have if all were. `resolved` has the index of [`routers`](Self::routers). Returns the paths whose
    /// router changed or is `changed`.
    pub fn assign(
        &mut self,
        id: GroupId,
        resolved: &[bool],
        changed: Option<AdjacencyId>,
    ) -> Vec<PathChange> {
        let Some(group) = self.all.get_mut(usize::from(id.0)) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        for (path, before) in (0..).zip(&mut group.paths) {
            let count = group.routers.len();
            let index =
                next_of(path, count, |index| resolved[index]).or_else(|| next_of(path, count, |_| true));
            let router = index.and_then(|index| group.routers.get(index).copied());
            let is_other = std::mem::replace(before, router) != router;
            if is_other || (changed.is_some() && router == changed) {
                let slot = self.slots.slot(id, path);
                changes.push(PathChange { slot, router });
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use flow::{InstanceId, Nanos};
    use packet::MacAddr;

    use super::super::{NeighbourMessage, Neighbours, NeighboursConfig};
    use super::*;
    use crate::{Adjacency, Interface};

    const N6: InstanceId = InstanceId(1);
    const CAPACITY: usize = 8;

    fn router(last: u8) -> (InstanceId, IpAddr) {
        (N6, IpAddr::from([192, 0, 2, last]))
    }

    const fn station(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    /// A table with the group of the routers 192.0.2.2 and 192.0.2.3, and the workers' copy of its paths.
    struct Trial {
        table: Neighbours,
        known: BTreeMap<u32, Option<Adjacency>>,
        changes: usize,
    }

    impl Trial {
        fn new() -> Self {
            let interface = Interface {
                instance: N6,
                port: flow::PortId(0),
                vlan: None,
                mac: station(1),
                ipv4: Some([192, 0, 2, 1].into()),
                broadcast: None,
                ipv6: None,
                mtu: 1500,
                fragmentation: rules::network::Fragmentation::Inner,
                tunnels: false,
            };
            let config = NeighboursConfig {
                capacity: CAPACITY,
                ..NeighboursConfig::default()
            };
            let mut table = Neighbours::new(config, vec![interface]);
            let group = [router(2), router(3)];
            table.balance(Nanos(0), &[group.into()]);
            let known = BTreeMap::new();
            Self {
                table,
                known,
                changes: 0,
            }
        }

        /// Handles timeouts, and replies for these routers.
        fn pass(&mut self, now: Nanos, answering: &[u8]) {
            self.table.handle_timeout(now);
            while let Some(frame) = self.table.poll_transmit() {
                // The target of an ARP request.
                let asked = frame.bytes[41];
                if answering.contains(&asked) {
                    let (instance, address) = router(asked);
                    self.table.handle_message(
                        now,
                        instance,
                        address,
                        station(asked),
                        NeighbourMessage::Reply,
                    );
                }
            }
            while let Some(change) = self.table.poll_change() {
                if change.neighbour.is_none() {
                    self.known.insert(change.id.0, change.adjacency);
                    self.changes += 1;
                }
            }
        }

        fn run(&mut self, tenths: std::ops::Range<u64>, answering: &[u8]) {
            tenths.for_each(|tenth| self.pass(Nanos::from_millis(100 * tenth), answering));
        }

        /// How many paths lead to the stations of 192.0.2.2 and .3, and how many nowhere.
        fn shares(&self) -> [usize; 3] {
            let count = |last: u8| {
                let leads_there = |way: &&Option<Adjacency>| {
                    way.is_some_and(|way| way.is_resolved() && way.header()[..6] == station(last).0)
                };
                self.known.values().filter(leads_there).count()
            };
            let (two, three) = (count(2), count(3));
            [two, three, self.known.len() - two - three]
        }
    }

    #[test]
    fn paths_lead_to_routers_that_answer() {
        let mut trial = Trial::new();
        trial.run(0..1, &[]);
        assert_eq!(
            trial.shares(),
            [0, 0, 64],
            "workers know every path from the start"
        );
        trial.run(1..15, &[2]);
        assert_eq!(trial.shares(), [64, 0, 0]);
        trial.run(15..100, &[2, 3]);
        assert_eq!(trial.shares(), [32, 32, 0]);
        // Six requests, one a second.
        trial.run(100..175, &[3]);
        assert_eq!(trial.shares(), [0, 64, 0]);
        trial.run(175..200, &[2, 3]);
        assert_eq!(trial.shares(), [32, 32, 0]);
        trial.run(200..300, &[]);
        assert_eq!(trial.shares(), [0, 0, 64]);
    }

    #[test]
    fn routers_of_a_link_that_is_down_are_silent_at_once() {
        let mut trial = Trial::new();
        trial.run(0..20, &[2, 3]);
        let port = flow::PortId(0);
        trial.table.set_link(Nanos::from_millis(2000), port, false);
        trial.run(20..21, &[]);
        assert_eq!(trial.shares(), [0, 0, 64]);
        trial.run(21..100, &[2, 3]);
        assert_eq!(trial.shares(), [0, 0, 64], "no requests while it is down");
        trial.table.set_link(Nanos::from_millis(10_000), port, true);
        // At once, not when their time would have come.
        trial.run(100..101, &[2, 3]);
        assert_eq!(trial.shares(), [32, 32, 0]);
    }

    #[test]
    fn paths_change_only_where_their_router_does() {
        let mut trial = Trial::new();
        trial.run(0..20, &[2, 3]);
        trial.changes = 0;
        trial.run(20..100, &[2, 3]);
        assert_eq!(trial.changes, 0, "checks that are answered change nothing");
        trial.run(100..175, &[2]);
        assert_eq!(trial.changes, 32, "only the silent one's paths move");
    }

    #[test]
    fn paths_have_slots_behind_all_neighbours() {
        let trial = Trial::new();
        let slot = |group, path| trial.table.path(GroupId(group), path);
        assert_eq!(slot(0, 0), Some(AdjacencyId(CAPACITY as u32)));
        assert_eq!(slot(0, 63), Some(AdjacencyId(CAPACITY as u32 + 63)));
        assert_eq!((slot(0, 64), slot(1, 0)), (None, None));
        let (two, three) = (
            trial.table.router_of_path(GroupId(0), 0),
            trial.table.router_of_path(GroupId(0), 1),
        );
        assert!(two.is_some() && three.is_some() && two != three);
    }
}
