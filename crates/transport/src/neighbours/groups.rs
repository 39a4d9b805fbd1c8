//! Groups of routers ([`rules::network::multipath`]): each path has a slot of its own, and in it the way to one that
//! answers. Workers see slots like all others change; no flow and no forward does.

use flow::{AdjacencyId, Nanos};
use rules::network::multipath::{self, GroupId, PATHS, next_of};

use super::Neighbours;
use crate::adjacencies::{AdjacencyChange, Paths};

/// All groups, by [`GroupId`].
pub(super) struct Groups {
    all: Vec<Group>,
    slots: Paths,
}

struct Group {
    /// The routers' slots.
    routers: Box<[AdjacencyId]>,
    /// Whose way each path has.
    paths: [Option<AdjacencyId>; PATHS as usize],
}

impl Groups {
    pub(super) const fn behind(capacity: usize) -> Self {
        Self {
            all: Vec::new(),
            slots: Paths::behind(capacity),
        }
    }
}

impl Neighbours {
    /// Takes in all groups, in the order of their ids, and asks for their routers from now on. One that cannot be a
    /// neighbour, or that there is no room for, has no paths.
    pub fn balance(&mut self, now: Nanos, groups: &[multipath::Group]) {
        for group in groups {
            let pin = |&(instance, address): &_| self.pin(now, instance, address).ok();
            let routers: Vec<AdjacencyId> = group.iter().filter_map(pin).collect();
            self.groups.all.push(Group {
                routers: routers.into(),
                paths: [None; PATHS as usize],
            });
            self.publish_paths(self.groups.all.len() - 1, None);
        }
    }

    /// The slot of a path; `None` without that group.
    pub fn path(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        self.groups.all.get(usize::from(group.0))?;
        (path < PATHS).then(|| self.groups.slots.slot(group, path))
    }

    /// The router that a path leads to now.
    pub fn router_of_path(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        let group = self.groups.all.get(usize::from(group.0))?;
        *group.paths.get(usize::from(path))?
    }

    /// Workers are told of the paths that a change of a router changes.
    pub(super) fn publish_paths_by(&mut self, changed: AdjacencyId) {
        for number in 0..self.groups.all.len() {
            if self.groups.all[number].routers.contains(&changed) {
                self.publish_paths(number, Some(changed));
            }
        }
    }

    fn publish_paths(&mut self, number: usize, changed: Option<AdjacencyId>) {
        let id = GroupId(number as u16);
        for path in 0..PATHS {
            let router = self.router_for(number, path);
            let before = &mut self.groups.all[number].paths[usize::from(path)];
            let is_other = std::mem::replace(before, router) != router;
            if !is_other && router != changed {
                continue;
            }
            let way = router.and_then(|router| {
                let entry = self.entry(router)?;
                Some(self.way(entry, self.interface(entry.instance)?))
            });
            self.changes.push_back(AdjacencyChange {
                id: self.groups.slots.slot(id, path),
                neighbour: None,
                adjacency: way,
            });
        }
    }

    /// The router that a path is to lead to: one that answers; if none does, the one that it would be if all did.
    fn router_for(&self, number: usize, path: u8) -> Option<AdjacencyId> {
        let routers = &self.groups.all[number].routers;
        let answers = next_of(path, routers.len(), |place| self.is_resolved(routers[place]));
        let place = answers.or_else(|| next_of(path, routers.len(), |_| true))?;
        routers.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use flow::InstanceId;
    use packet::MacAddr;

    use super::super::{Heard, NeighboursConfig};
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

    /// A table with the group of the routers 192.0.2.2 and 192.0.2.3, and what its workers know of the paths.
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

        /// Lets a tenth of a second pass, in which these routers answer what they are asked.
        fn pass(&mut self, now: Nanos, answering: &[u8]) {
            self.table.handle_timeout(now);
            while let Some(frame) = self.table.poll_transmit() {
                // The target of an ARP request.
                let asked = frame.bytes[41];
                if answering.contains(&asked) {
                    let (instance, address) = router(asked);
                    self.table
                        .heard(now, instance, address, station(asked), Heard::Answer);
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
        // Six questions, one a second.
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
        assert_eq!(trial.shares(), [0, 0, 64], "nobody is asked while it is");
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
