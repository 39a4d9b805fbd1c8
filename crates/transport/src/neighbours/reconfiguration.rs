//! Times, configured neighbours and routers that change while the table is in use.
//!
//! What a new configuration wants is entered before it takes effect ([`Neighbours::pin`], [`Neighbours::add_group`]),
//! so that its next hops are resolved by then. What the old one wanted is given up when no worker uses it any more
//! ([`Neighbours::keep`]): an entry then stays as long as it replies.

use std::collections::BTreeSet;
use std::net::IpAddr;

use flow::{InstanceId, Nanos};
use rules::network::multipath::{self, GroupId};

use super::entry::{State, WantedBy};
use super::{Neighbours, NeighboursConfig};

impl Neighbours {
    /// Adds groups, each with the id of its place, and requests their routers from now on.
    pub fn balance(&mut self, now: Nanos, groups: &[multipath::Group]) {
        for (id, group) in (0..).map(GroupId).zip(groups) {
            self.add_group(now, id, group);
        }
    }

    /// Adds a group, and requests its routers from now on. A router that cannot be a neighbour, or that there is no
    /// room for, has no paths.
    pub fn add_group(&mut self, now: Nanos, id: GroupId, group: &multipath::Group) {
        let pin = |&(instance, address): &_| self.pin(now, instance, address).ok();
        let routers = group.iter().filter_map(pin).collect();
        self.groups.set(id, routers);
        self.publish_paths(id, None);
    }

    /// Whether frames can be sent to a neighbour, or it has not replied to as many requests as one gets.
    pub fn is_settled(&self, instance: InstanceId, address: IpAddr) -> bool {
        let entry = self.find(instance, address).and_then(|id| self.table.get(id));
        let cannot_be_asked = |entry| self.is_cut_off(entry) || self.is_without_contact(entry);
        entry.is_none_or(|entry| !matches!(entry.state, State::Incomplete { .. }) || cannot_be_asked(entry))
    }

    /// How many entries there is room for beside those of the configuration.
    pub fn room(&self) -> usize {
        self.config.capacity - self.table.count(WantedBy::Configuration)
    }

    /// Times are these from now on; capacities stay. What waits longer waits as long as these say, from `now` on. Own
    /// addresses that are verified at this moment are verified as before.
    pub fn set_times(&mut self, now: Nanos, config: &NeighboursConfig) {
        self.config = NeighboursConfig {
            capacity: self.config.capacity,
            transmits: self.config.transmits,
            ..*config
        };
        self.own.set_times(config.dad_transmits, config.retry);
        for id in self.table.slots() {
            let Some(entry) = self.table.get(id) else { continue };
            let times = self.timers(entry);
            let mut state = entry.state;
            match &mut state {
                State::Incomplete { at, .. } | State::Checking { at, .. } => {
                    *at = (*at).min(now + times.retry)
                }
                State::Reachable { at, .. } => *at = (*at).min(now + times.reachable),
                State::Failed { at } if *at != Nanos::MAX => *at = (*at).min(now + times.hold),
                State::Failed { .. } | State::Static(_) | State::Ourselves(_) => {}
            }
            if state != entry.state {
                self.table.set(id, state);
            }
        }
    }

    /// Of all that configurations wanted, these routers (`wanted`) and these neighbours with configured addresses
    /// (`fixed`) are wanted from now on, and the groups with ids below `groups.len()` that are not empty. An address
    /// that was configured is verified from now on, and used meanwhile.
    pub fn keep(
        &mut self,
        now: Nanos,
        groups: &[multipath::Group],
        wanted: &BTreeSet<(InstanceId, IpAddr)>,
        fixed: &BTreeSet<(InstanceId, IpAddr)>,
    ) {
        for id in self.groups.ids() {
            let is_kept = groups
                .get(usize::from(id.0))
                .is_some_and(|group| !group.is_empty());
            if !is_kept && !self.groups.routers(id).is_empty() {
                self.groups.set(id, Box::default());
                self.publish_paths(id, None);
            }
        }
        for id in self.table.slots() {
            let Some(entry) = self.table.get(id) else { continue };
            let key = (entry.instance, entry.address);
            let is_fixed = fixed.contains(&key);
            if let State::Static(mac) = entry.state
                && !is_fixed
            {
                self.table.set(
                    id,
                    State::Checking {
                        mac,
                        asked: 0,
                        at: now,
                    },
                );
            }
            if !is_fixed && !wanted.contains(&key) {
                self.table.give_up(id);
            }
        }
    }

    /// Whether there is a group with this id.
    pub fn has_group(&self, id: GroupId) -> bool {
        !self.groups.routers(id).is_empty()
    }
}
