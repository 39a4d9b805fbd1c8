//! A network that takes the place of another while sessions are live: what they name by number keeps its number.
//!
//! Instances stay as they are but for their routes, the marks of packets, mirrors, UEs' prefixes and MSS clamping.
//! Groups, forwarding policies, policers and rules of access lists come and go. A number that is given up is not used
//! again by the network that gives it up, but by one that succeeds that: until then sessions and workers may still name
//! it.

use core::fmt;
use std::collections::BTreeSet;

use super::access_lists::TooManyAccessRules;
use super::hairpin::Hairpin;
use super::instance::Instance;
use super::mss::Mss;
use super::multipath::Group;
use super::policer::NoMeter;
use super::policy::ForwardingPolicy;
use super::{Network, PolicyId};

/// Why a network cannot take the place of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SuccessionError {
    /// This instance came, went, or has another place, role, VRF, port, VLAN, MTU, address or way with long packets.
    Instance(String),
    /// The events of applications are others.
    Events,
    /// The classes of queues, or the rates of ports, are others.
    Egress,
    /// The pools of public addresses are others.
    Nat,
    /// There are more groups of routes than this.
    Groups {
        /// How many workers have paths for.
        room: usize,
    },
    /// There are more policers, and chains of them, than this.
    Policers(NoMeter),
    /// There are more rules of access lists than can be numbered beside those before.
    AccessRules,
    /// There are more forwarding policies than can be numbered.
    Policies,
}

impl fmt::Display for SuccessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(name) => write!(
                f,
                "instances: {name}: only routes, dscp, mirror, hairpin, ue_prefixes and mss can change in a running daemon"
            ),
            Self::Events => f.write_str("events: cannot change in a running daemon"),
            Self::Egress => f.write_str("egress: cannot change in a running daemon"),
            Self::Nat => f.write_str("nat_pools: cannot change in a running daemon"),
            Self::Groups { room } => write!(
                f,
                "instances: routes: more than {room} groups of routes to one prefix; a restart makes room for more"
            ),
            Self::Policers(NoMeter { room }) => write!(
                f,
                "policers: they and their combinations are more than {room}; a restart makes room for more"
            ),
            Self::AccessRules => write!(
                f,
                "access_lists: more than {} rules with those that they take the place of; commit fewer at a time",
                u16::MAX
            ),
            Self::Policies => write!(f, "forwarding_policies: more than {}", u16::MAX),
        }
    }
}

impl core::error::Error for SuccessionError {}

impl Network {
    /// This network, numbered so that it can take the place of `older` under live sessions.
    ///
    /// # Errors
    /// What has changed that cannot, or what there is no room for.
    pub fn succeeding(mut self, older: &Self) -> Result<Self, SuccessionError> {
        check_instances(&self.instances, &older.instances)?;
        if self.events != older.events {
            return Err(SuccessionError::Events);
        }
        if self.egress != older.egress {
            return Err(SuccessionError::Egress);
        }
        if self.nat != older.nat {
            return Err(SuccessionError::Nat);
        }
        self.nat = older.nat.clone();
        self.groups = groups(self.groups, older)?;
        self.group_room = older.group_room;
        self.policies = policies(self.policies, &older.policies)?;
        self.policers = self
            .policers
            .succeeding(&older.policers)
            .map_err(SuccessionError::Policers)?;
        self.access_lists = self
            .access_lists
            .succeeding(&older.access_lists)
            .map_err(|TooManyAccessRules| SuccessionError::AccessRules)?;
        self.redirect_secret = older.redirect_secret;
        Ok(self)
    }

    /// The same network, in which no request finds these forwarding policies: their numbers still mean what they did.
    #[must_use]
    pub fn hiding(&self, policies: &BTreeSet<PolicyId>) -> Self {
        let mut hiding = self.clone();
        hiding.hidden.extend(policies);
        hiding
    }
}

fn check_instances(newer: &[Instance], older: &[Instance]) -> Result<(), SuccessionError> {
    let differs = |newer: &Instance, older: &Instance| without_live(newer) != without_live(older);
    let mut both = newer.iter().zip(older);
    let other = both
        .find(|(newer, older)| differs(newer, older))
        .map(|(newer, _)| newer);
    let surplus = newer.get(older.len()).or_else(|| older.get(newer.len()));
    match other.or(surplus) {
        Some(instance) => Err(SuccessionError::Instance(instance.name.clone())),
        None => Ok(()),
    }
}

/// What of an instance cannot change.
fn without_live(instance: &Instance) -> Instance {
    Instance {
        name: instance.name.clone(),
        routes: Vec::new(),
        dscp: None,
        mirror: None,
        hairpin: Hairpin::Router,
        mss: Mss::Off,
        ..*instance
    }
}

/// The groups, those that `older` has at its places, the others at places that it does not use.
fn groups(newer: Vec<Group>, older: &Network) -> Result<Vec<Group>, SuccessionError> {
    let room = older.group_room;
    let (known, new): (Vec<Group>, Vec<Group>) =
        newer.into_iter().partition(|group| older.groups.contains(group));
    let mut placed: Vec<Group> = older.groups.clone();
    for place in &mut placed {
        if !known.contains(place) {
            *place = Group::default();
        }
    }
    let is_free = |place: &usize| older.groups.get(*place).is_none_or(|group| group.is_empty());
    let mut free = (0..room).filter(is_free);
    for group in new {
        let place = free.next().ok_or(SuccessionError::Groups { room })?;
        if placed.len() <= place {
            placed.resize(place + 1, Group::default());
        }
        placed[place] = group;
    }
    Ok(placed)
}

/// The policies, those with names that `older` ones have at their places, the others at places without one.
fn policies(
    newer: Vec<ForwardingPolicy>,
    older: &[ForwardingPolicy],
) -> Result<Vec<ForwardingPolicy>, SuccessionError> {
    let vacant = || ForwardingPolicy {
        name: String::new(),
        instance: None,
        next_hop: None,
        dscp: None,
        nat: None,
    };
    let mut placed: Vec<ForwardingPolicy> = older.iter().map(|_| vacant()).collect();
    let mut free =
        (0..usize::from(u16::MAX)).filter(|place| older.get(*place).is_none_or(|old| old.name.is_empty()));
    for policy in newer {
        let known = older.iter().position(|old| old.name == policy.name);
        let place = known.or_else(|| free.next()).ok_or(SuccessionError::Policies)?;
        if placed.len() <= place {
            placed.resize_with(place + 1, vacant);
        }
        placed[place] = policy;
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::network::multipath::GroupId;
    use crate::network::{Route, VrfId};
    use crate::testing;

    const VRF: VrfId = VrfId(0);

    /// The small network with these routes in instance N6 in place of its own.
    fn network(routes: &[(&str, u8)]) -> Network {
        let mut instances = testing::network().instances().to_vec();
        let route = |(prefix, hop): &(&str, u8)| Route {
            prefix: prefix.parse().expect("a prefix"),
            next_hop: IpAddr::from([10, 0, 6, *hop]),
        };
        instances[testing::N6.index()].routes = routes.iter().map(route).collect();
        Network::new(instances).expect("no contradictions")
    }

    fn group(network: &Network, prefix: &str) -> Option<GroupId> {
        network.group_of(VRF, prefix.parse().expect("a prefix"))
    }

    #[test]
    fn groups_that_stay_keep_their_ids_and_free_ones_are_used_one_network_later() {
        let (a, b, c) = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24");
        let first = network(&[(a, 2), (a, 3), (b, 4), (b, 5)]);
        assert_eq!(
            (group(&first, a), group(&first, b)),
            (Some(GroupId(0)), Some(GroupId(1)))
        );
        let second = network(&[(c, 6), (c, 7), (b, 4), (b, 5)]).succeeding(&first);
        let second = second.expect("there is room");
        assert_eq!(group(&second, b), Some(GroupId(1)));
        assert_eq!(group(&second, c), Some(GroupId(2)), "0 may still be in use");
        assert_eq!(group(&second, a), None);
        assert!(second.groups()[0].is_empty() && second.hop_of_path(GroupId(0), 0).is_none());
        let third = network(&[(a, 8), (a, 9), (c, 6), (c, 7)]).succeeding(&second);
        let third = third.expect("there is room");
        assert_eq!(
            (group(&third, a), group(&third, c)),
            (Some(GroupId(0)), Some(GroupId(2)))
        );
        let unchanged = network(&[(a, 8), (a, 9), (c, 6), (c, 7)]).succeeding(&third);
        assert_eq!(unchanged.as_ref(), Ok(&third));
    }

    #[test]
    fn only_so_many_groups_have_paths() {
        let prefixes: Vec<String> = (0..66).map(|n| format!("192.0.{n}.0/24")).collect();
        let both = |count: usize| {
            let hop = |n: usize| (3 + 2 * n) as u8;
            let each = prefixes.iter().take(count).enumerate();
            let routes =
                each.flat_map(|(n, prefix)| [(prefix.as_str(), hop(n)), (prefix.as_str(), hop(n) + 1)]);
            network(&routes.collect::<Vec<_>>())
        };
        let none = network(&[]);
        assert!(both(64).succeeding(&none).is_ok());
        assert_eq!(
            both(65).succeeding(&none),
            Err(SuccessionError::Groups { room: 64 })
        );
    }

    #[test]
    fn policies_keep_the_ids_of_their_names() {
        let policy = |name: &str| ForwardingPolicy {
            name: name.into(),
            instance: None,
            next_hop: None,
            dscp: None,
            nat: None,
        };
        let with = |names: &[&str]| {
            let policies = names.iter().map(|name| policy(name)).collect();
            network(&[]).with_policies(policies).expect("no contradictions")
        };
        let first = with(&["a", "b"]);
        let second = with(&["c", "b"]).succeeding(&first).expect("there is room");
        let id = |network: &Network, name: &str| network.policy_by_name(name.as_bytes()).map(|id| id.0);
        assert_eq!(
            (id(&second, "a"), id(&second, "b"), id(&second, "c")),
            (None, Some(1), Some(2))
        );
        assert_eq!((second.policy(PolicyId(0)), id(&second, "")), (None, None));
        let hiding = second.hiding(&BTreeSet::from([PolicyId(1)]));
        assert_eq!(id(&hiding, "b"), None);
        assert!(hiding.policy(PolicyId(1)).is_some());
        let third = with(&[]).succeeding(&second).expect("there is room");
        assert!(!third.has_policies());
        assert_eq!(
            id(&with(&["d"]).succeeding(&third).expect("there is room"), "d"),
            Some(0)
        );
    }

    #[test]
    fn instances_stay_as_they_are() {
        let first = network(&[]);
        let changed = |change: fn(&mut Instance)| {
            let mut instances = first.instances().to_vec();
            change(&mut instances[testing::N6.index()]);
            Network::new(instances)
                .expect("no contradictions")
                .succeeding(&first)
        };
        let refused = Err(SuccessionError::Instance(
            first.instances()[testing::N6.index()].name.clone(),
        ));
        assert_eq!(changed(|instance| instance.mtu = 1400), refused);
        assert!(changed(|instance| instance.mss = Mss::Auto).is_ok());
        let fewer = Network::new(first.instances()[..1].to_vec()).expect("no contradictions");
        assert!(matches!(
            fewer.succeeding(&first),
            Err(SuccessionError::Instance(_))
        ));
    }
}
