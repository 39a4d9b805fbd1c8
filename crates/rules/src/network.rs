//! The network as configured: network instances, their addresses and static routes; forwarding policies, policers, and
//! events of applications.
//!
//! Made from the configuration, then shared unchanged (`Arc<Network>`) by control and all workers. A changed
//! configuration makes another, that takes its place ([`Network::succeeding`]). The lookups here are plain scans for
//! control and for the interpreter; a worker has tables of its own.

mod access_lists;
mod check;
mod dscp;
mod egress;
mod error;
mod events;
mod hairpin;
mod instance;
mod mss;
pub mod multipath;
mod name;
mod nat;
mod nat_choice;
mod policer;
mod policy;
mod routes;
mod scope;
mod succession;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

pub use flow::{InstanceId, LocalId, PortId, VrfId};
use packet::martian::is_martian;
use packet::redirect::Secret;

pub use self::access_lists::{AccessLists, BoundAccessList, TooManyAccessRules};
use self::check::check;
pub use self::dscp::{DscpMark, DscpTable};
pub use self::egress::{
    Egress, EgressClass, EgressClassError, EgressClasses, InstanceEgress, QueueManagement, Wred, WredCurve,
};
pub use self::error::NetworkError;
pub use self::events::EventLogic;
use self::events::EventTable;
pub use self::hairpin::{Hairpin, PlainRoute, UeRoute};
pub use self::instance::{Fragmentation, Instance, Roles, Route};
pub use self::mss::{Leg, Mss};
use self::multipath::{Group, GroupId, NextHop, Spread, next_of};
use self::name::is_name;
pub use self::nat::{BoundPool, Nat, ue_of_addresses};
pub use self::policer::{NoMeter, Policer, Policers};
pub use self::policy::ForwardingPolicy;
pub use self::scope::SessionScope;
pub use self::succession::SuccessionError;
pub use crate::model::PolicyId;
use crate::model::{LocalPolicy, SNssai};
use crate::prefix::IpPrefix;

/// The groups that later configurations may have beside those of the first one, until one of them is given up.
const SPARE_GROUPS: usize = 64;

/// All network instances, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Network {
    instances: Vec<Instance>,
    locals: Vec<(InstanceId, IpAddr)>,
    /// One without next hops is vacant.
    groups: Vec<Group>,
    /// How many groups workers have paths for.
    group_room: usize,
    /// One without a name is vacant.
    policies: Vec<ForwardingPolicy>,
    /// The policies that no request finds.
    hidden: BTreeSet<PolicyId>,
    policers: Policers,
    access_lists: AccessLists,
    nat: Nat,
    events: EventTable,
    egress: Option<Egress>,
    redirect_secret: Secret,
}

impl Network {
    /// The same with what hashes the sequence numbers of redirected connections.
    #[must_use]
    pub fn with_redirect_secret(self, redirect_secret: Secret) -> Self {
        Self {
            redirect_secret,
            ..self
        }
    }

    /// What hashes the sequence numbers of redirected connections (TS 29.244 §5.4.7).
    pub fn redirect_secret(&self) -> Secret {
        self.redirect_secret
    }

    /// The network of these instances, in the order of their ids from 0.
    ///
    /// # Errors
    /// The first instance that contradicts itself or another.
    pub fn new(instances: Vec<Instance>) -> Result<Self, NetworkError> {
        let mut network = Self::default();
        for instance in instances {
            network.add(instance)?;
        }
        network.groups = routes::groups(&network.instances)?;
        network.group_room = network.groups.len() + SPARE_GROUPS;
        Ok(network)
    }

    fn add(&mut self, instance: Instance) -> Result<(), NetworkError> {
        if usize::from(instance.id.0) != self.instances.len() {
            return Err(NetworkError::Misplaced(instance.id));
        }
        if instance.name.is_empty() || self.instance_by_name(instance.name.as_bytes()).is_some() {
            return Err(NetworkError::Name(instance.name));
        }
        check(&instance)?;
        for address in instance.addresses() {
            if self.local(address).is_some() {
                return Err(NetworkError::Address(address));
            }
            self.locals.push((instance.id, address));
        }
        self.instances.push(instance);
        Ok(())
    }

    /// All instances, each at the place of its id.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// The instance with this id.
    pub fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.instances.get(usize::from(id.0))
    }

    /// The instance that a Network Instance IE names. The octets are the name as it is, or as a sequence of DNS
    /// labels (both occur: TS 29.244 §8.2.4); case does not count. An empty field names none.
    pub fn instance_by_name(&self, octets: &[u8]) -> Option<&Instance> {
        // Nearly always it is the name to the octet, and each rule of a session names one.
        let is_it = |instance: &&Instance| instance.name.as_bytes() == octets;
        self.instances.iter().find(is_it).or_else(|| {
            let mut instances = self.instances.iter();
            instances.find(|instance| is_name(octets, &instance.name))
        })
    }

    /// The first instance with one of these roles.
    pub fn first_with(&self, roles: Roles) -> Option<&Instance> {
        self.instances
            .iter()
            .find(|instance| instance.roles.intersects(roles))
    }

    /// The instance that plain packets leave by or come from: the one that a rule names, if it leads to a data network,
    /// else the first that does. (SMFs write the DNN into every rule, those towards Access included, and the like.)
    pub(crate) fn data_network_instance(&self, named: Option<InstanceId>) -> Option<&Instance> {
        let named = named.and_then(|id| self.instance(id));
        named
            .filter(|instance| instance.roles.intersects(Roles::N6))
            .or_else(|| self.first_with(Roles::N6))
    }

    /// This node's own addresses, each at the place of its [`LocalId`].
    pub fn local_addresses(&self) -> &[(InstanceId, IpAddr)] {
        &self.locals
    }

    /// Whose own address this is, and its number.
    pub fn local(&self, address: IpAddr) -> Option<(InstanceId, LocalId)> {
        let place = self.locals.iter().position(|&(_, own)| own == address)?;
        let (instance, _) = self.locals[place];
        Some((instance, LocalId(place as u16)))
    }

    /// Whether another node can have `address` in `vrf`: it is no martian, no own address, and no broadcast address of
    /// an own link.
    pub fn may_be_another(&self, vrf: VrfId, address: IpAddr) -> bool {
        let mut members = self.instances.iter().filter(|instance| instance.vrf == vrf);
        !is_martian(address) && !members.any(|instance| instance.takes(address))
    }

    /// Whether tunnels may end at this instance's addresses.
    pub fn ends_tunnels(&self, id: InstanceId) -> bool {
        self.instance(id)
            .is_some_and(|instance| instance.roles.intersects(Roles::GTPU))
    }

    /// This node's own addresses that GTP-U tunnels end at.
    pub fn gtpu_addresses(&self) -> impl Iterator<Item = (InstanceId, LocalId, IpAddr)> + '_ {
        self.locals
            .iter()
            .enumerate()
            .filter_map(|(place, &(instance, address))| {
                self.ends_tunnels(instance)
                    .then_some((instance, LocalId(place as u16), address))
            })
    }

    /// Where packets to `destination` go in `vrf`: the instances that they leave by and the next hops. The longest
    /// prefix wins; of equal ones the first connected link, where the destination is its own next hop, else all static
    /// routes share its packets.
    pub fn next_hops(
        &self,
        vrf: VrfId,
        destination: IpAddr,
    ) -> impl Iterator<Item = (InstanceId, IpAddr)> + '_ {
        routes::next_hops(&self.instances, vrf, destination)
    }

    /// Where the packets of `spread` to `destination` go in `vrf` while every next hop answers.
    pub fn route(&self, vrf: VrfId, destination: IpAddr, spread: Spread) -> Option<(InstanceId, IpAddr)> {
        match self.next_hop(vrf, destination)? {
            NextHop::Neighbour(instance, address) => Some((instance, address)),
            NextHop::Group(group) => self.hop_of_path(group, spread.path()),
        }
    }

    /// Where a plain packet between `source` and `destination` goes in `vrf`: like [`route`](Self::route), but that
    /// UEs' prefixes count as routes, behind all others of the same length.
    pub fn plain_route(&self, vrf: VrfId, source: IpAddr, destination: IpAddr) -> Option<PlainRoute> {
        let routed = routes::longest_prefix(&self.instances, vrf, destination);
        let ue = routes::longest_ue_prefix(&self.instances, &self.nat, vrf, destination);
        let ue = ue.filter(|ue| routed.is_none_or(|routed| ue.length > routed.length));
        if let Some(ue) = ue {
            return Some(PlainRoute::ToUe(ue.instance, ue.route));
        }
        let spread = Spread::between(source, destination);
        let (instance, hop) = self.route(vrf, destination, spread)?;
        Some(PlainRoute::Out(instance, hop))
    }

    /// Whose own address `peer` is, if a packet that is sent to it in `vrf` arrives at a local F-TEID.
    pub fn tunnel_to_ourselves(&self, vrf: VrfId, peer: IpAddr) -> Option<InstanceId> {
        let mut ends = self.gtpu_addresses();
        let (owner, ..) = ends.find(|&(_, _, own)| own == peer)?;
        self.instance(owner).filter(|owner| owner.vrf == vrf)?;
        Some(owner)
    }

    /// The groups, each at the place of its id. One without next hops is none: its id is free.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// How many groups workers have paths for: ids are below this.
    pub const fn group_room(&self) -> usize {
        self.group_room
    }

    /// Where packets to `destination` go in `vrf`.
    pub fn next_hop(&self, vrf: VrfId, destination: IpAddr) -> Option<NextHop> {
        let mut hops = self.next_hops(vrf, destination);
        let (instance, address) = hops.next()?;
        if hops.next().is_none() {
            return Some(NextHop::Neighbour(instance, address));
        }
        self.group_with(|| self.next_hops(vrf, destination))
            .map(NextHop::Group)
    }

    /// The group that the static routes to `prefix` in `vrf` are, if there are several.
    pub fn group_of(&self, vrf: VrfId, prefix: IpPrefix) -> Option<GroupId> {
        self.group_with(|| routes::routes_to(&self.instances, vrf, prefix))
    }

    fn group_with<I: Iterator<Item = (InstanceId, IpAddr)>>(&self, hops: impl Fn() -> I) -> Option<GroupId> {
        // Most routes have one next hop.
        hops().nth(1)?;
        let has_these = |group: &Group| group.iter().copied().eq(hops());
        let place = self.groups.iter().position(has_these)?;
        Some(GroupId(place as u16))
    }

    /// The next hop of a path of a group, while all answer.
    pub fn hop_of_path(&self, group: GroupId, path: u8) -> Option<(InstanceId, IpAddr)> {
        let group = self.groups.get(usize::from(group.0))?;
        group.get(next_of(path, group.len(), |_| true)?).copied()
    }

    /// The same network with these policies, in the order of their ids from 0.
    ///
    /// # Errors
    /// [`NetworkError::Policy`]: the first whose name another has or is empty, or whose next hop no neighbour on its
    /// instance's link can have.
    pub fn with_policies(mut self, policies: Vec<ForwardingPolicy>) -> Result<Self, NetworkError> {
        for policy in policies {
            let is_known = self.policy_by_name(policy.name.as_bytes()).is_some();
            let on_link = |hop| {
                let instance = policy.instance.and_then(|id| self.instance(id));
                instance.is_some_and(|instance| {
                    instance.connected().any(|prefix| prefix.contains(hop))
                        && self.may_be_another(instance.vrf, hop)
                })
            };
            let leads_out = |id| {
                let instance = self.instance(id);
                instance.is_some_and(|instance| instance.roles.intersects(Roles::N6))
            };
            let is_bad = policy.name.is_empty() || is_known;
            if is_bad || !policy.instance.is_none_or(leads_out) || !policy.next_hop.is_none_or(on_link) {
                return Err(NetworkError::Policy(policy.name));
            }
            self.policies.push(policy);
        }
        Ok(self)
    }

    /// Whether there are any forwarding policies.
    pub fn has_policies(&self) -> bool {
        self.policies().next().is_some()
    }

    /// All forwarding policies, with their ids.
    pub fn policies(&self) -> impl Iterator<Item = (PolicyId, &ForwardingPolicy)> {
        let numbered = (0..).map(PolicyId).zip(&self.policies);
        numbered.filter(|(_, policy)| !policy.name.is_empty())
    }

    /// The policy with this id.
    pub fn policy(&self, id: PolicyId) -> Option<&ForwardingPolicy> {
        let policy = self.policies.get(usize::from(id.0))?;
        (!policy.name.is_empty()).then_some(policy)
    }

    /// The policy that a Forwarding Policy Identifier names, to the octet.
    pub fn policy_by_name(&self, identifier: &[u8]) -> Option<PolicyId> {
        let mut policies = self.policies();
        let is_it = |(id, policy): &(PolicyId, &ForwardingPolicy)| {
            policy.name.as_bytes() == identifier && !self.hidden.contains(id)
        };
        policies.find(is_it).map(|(id, _)| id)
    }

    /// The same network with these policers.
    ///
    /// # Errors
    /// [`NetworkError::Policer`], as of [`Policers::new`].
    pub fn with_policers(self, policers: Vec<Policer>) -> Result<Self, NetworkError> {
        Ok(Self {
            policers: Policers::new(policers)?,
            ..self
        })
    }

    /// The policers of slices and data networks.
    pub const fn policers(&self) -> &Policers {
        &self.policers
    }

    /// What there is for a session of this slice and data network. Without a data network's name it is that of the
    /// first instance towards one that its rules name (`named`), else of the first there is.
    pub fn local_policy(
        &self,
        slice: Option<SNssai>,
        dnn: Option<&[u8]>,
        named: impl Iterator<Item = InstanceId>,
    ) -> LocalPolicy {
        let dnn = dnn.or_else(|| self.data_network_of(named));
        LocalPolicy {
            policers: self.policers.of(slice, dnn),
            access_list: self.access_lists.of(slice, dnn).cloned(),
            nat: self.nat.of(slice, dnn),
        }
    }

    /// The same network with these access lists.
    ///
    /// # Errors
    /// [`NetworkError::AccessList`], [`NetworkError::AccessRules`], as of [`AccessLists::new`].
    pub fn with_access_lists(self, access_lists: Vec<BoundAccessList>) -> Result<Self, NetworkError> {
        Ok(Self {
            access_lists: AccessLists::new(access_lists)?,
            ..self
        })
    }

    /// The access lists of slices and data networks.
    pub const fn access_lists(&self) -> &AccessLists {
        &self.access_lists
    }

    /// The same network with these pools of public addresses.
    ///
    /// # Errors
    /// [`NetworkError::NatPools`], [`NetworkError::NatScope`], as of [`Nat::new`]; [`NetworkError::NatInstance`]: the
    /// first pool whose instance leads to no data network, has no IPv4 address, or has another address space; or that
    /// has one of this node's own addresses.
    pub fn with_nat(self, pools: Vec<BoundPool>) -> Result<Self, NetworkError> {
        for BoundPool { pool, .. } in &pools {
            let fits = |instance: &Instance| {
                instance.roles.intersects(Roles::N6) && instance.ipv4.is_some() && instance.vrf == pool.vrf
            };
            let is_taken = |own: &IpAddr| {
                let holds =
                    |range: &RangeInclusive<Ipv4Addr>| range.clone().any(|one| IpAddr::V4(one) == *own);
                pool.addresses.iter().any(holds)
            };
            let members = self.instances.iter().filter(|instance| instance.vrf == pool.vrf);
            let is_own = members.flat_map(Instance::addresses).any(|own| is_taken(&own));
            if is_own || !self.instance(pool.instance).is_some_and(fits) {
                return Err(NetworkError::NatInstance(pool.name.clone()));
            }
        }
        Ok(Self {
            nat: Nat::new(pools)?,
            ..self
        })
    }

    /// The pools of public addresses.
    pub const fn nat(&self) -> &Nat {
        &self.nat
    }

    /// The ways to UEs by one of the instances, where they are not those of its routes.
    pub fn ue_routes<'a>(&'a self, instance: &'a Instance) -> impl Iterator<Item = (IpPrefix, UeRoute)> + 'a {
        instance.ue_routes().chain(self.nat.ue_routes(instance))
    }

    /// The name of the first instance towards a data network of those that a session's rules name, else of the first
    /// there is.
    fn data_network_of(&self, named: impl Iterator<Item = InstanceId>) -> Option<&[u8]> {
        let instance = named
            .filter_map(|id| self.instance(id))
            .filter(|instance| instance.roles.intersects(Roles::N6))
            .chain(self.first_with(Roles::N6))
            .next();
        instance.map(|instance| instance.name.as_bytes())
    }

    /// The same network with these events, each by the Application ID whose packets it is among.
    ///
    /// # Errors
    /// [`NetworkError::Event`]: the first whose application has no identifier or another's, or that detects nothing.
    pub fn with_events(self, events: Vec<(Box<[u8]>, EventLogic)>) -> Result<Self, NetworkError> {
        Ok(Self {
            events: EventTable::new(events)?,
            ..self
        })
    }

    /// The same network, where packets wait in queues of these classes which leave by instances that ask for it.
    #[must_use]
    pub fn with_egress(self, egress: Option<Egress>) -> Self {
        Self { egress, ..self }
    }

    /// How packets wait that leave by instances which ask for queues; `None`: they do not.
    pub const fn egress(&self) -> Option<&Egress> {
        self.egress.as_ref()
    }

    /// The events among the packets of the application with this identifier, if any are configured.
    pub fn events(&self, application: &[u8]) -> Option<EventLogic> {
        self.events.of(application)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn instance(id: u16, name: &str, roles: Roles, ipv4: &str) -> Instance {
        let (address, len) = ipv4.split_once('/').unwrap();
        Instance {
            id: InstanceId(id),
            name: name.into(),
            roles,
            vrf: VrfId(0),
            port: PortId(id),
            vlan: None,
            mtu: 1500,
            ipv4: Some((address.parse().unwrap(), len.parse().unwrap())),
            ipv6: None,
            routes: Vec::new(),
            dscp: None,
            mirror: None,
            hairpin: Hairpin::Router,
            fragmentation: Fragmentation::Inner,
            mss: Mss::Off,
            egress: None,
        }
    }

    fn route(prefix: &str, next_hop: &str) -> Route {
        Route {
            prefix: prefix.parse().unwrap(),
            next_hop: next_hop.parse().unwrap(),
        }
    }

    #[test]
    fn a_name_is_found_in_both_spellings() {
        let network = Network::new(vec![instance(0, "core.example.org", Roles::N6, "10.0.0.1/24")]).unwrap();
        for spelling in [
            &b"core.example.org"[..],
            b"CORE.example.org",
            b"\x04core\x07example\x03org",
            b"\x04Core\x07example\x03org\0",
        ] {
            assert!(network.instance_by_name(spelling).is_some(), "{spelling:?}");
        }
        for other in [
            &b""[..],
            b"core",
            b"\x04core",
            b"\x04core\x07example\x03or",
            b"\x05core",
            b"\xff",
            b"\0",
        ] {
            assert!(network.instance_by_name(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn own_addresses_are_numbered_and_gtpu_ones_listed() {
        let network = Network::new(vec![
            instance(0, "n6", Roles::N6, "10.0.0.1/24"),
            instance(1, "n3", Roles::N3, "10.0.1.1/24"),
        ])
        .unwrap();
        let n3 = "10.0.1.1".parse().unwrap();
        assert_eq!(network.local(n3), Some((InstanceId(1), LocalId(1))));
        assert_eq!(network.local("10.0.1.2".parse().unwrap()), None);
        assert_eq!(
            network.gtpu_addresses().collect::<Vec<_>>(),
            [(InstanceId(1), LocalId(1), n3)]
        );
    }

    #[test]
    fn the_longest_prefix_wins_and_a_link_beats_a_route() {
        let mut n6 = instance(0, "n6", Roles::N6, "10.0.0.1/24");
        n6.routes = vec![
            route("0.0.0.0/0", "10.0.0.254"),
            route("10.0.0.0/24", "10.0.0.253"),
        ];
        let mut other = instance(1, "n9", Roles::N9, "10.0.1.1/24");
        other.routes = vec![route("192.0.2.0/24", "10.0.1.254")];
        let network = Network::new(vec![n6, other]).unwrap();
        let spread = Spread::of_tunnel(IpAddr::from([192, 0, 2, 7]), 1);
        let hop = |to: &str| network.route(VrfId(0), to.parse().unwrap(), spread);
        let via = |id, ip: &str| Some((InstanceId(id), ip.parse().unwrap()));
        assert_eq!(hop("8.8.8.8"), via(0, "10.0.0.254"));
        assert_eq!(hop("192.0.2.7"), via(1, "10.0.1.254"));
        assert_eq!(hop("10.0.0.9"), via(0, "10.0.0.9"));
        assert_eq!(hop("2001:db8::1"), None);
        assert_eq!(network.route(VrfId(1), "8.8.8.8".parse().unwrap(), spread), None);
    }

    #[test]
    fn contradictions_are_named() {
        let a = instance(0, "a", Roles::N3, "10.0.0.1/24");
        let mut misplaced = a.clone();
        misplaced.id = InstanceId(4);
        assert_eq!(
            Network::new(vec![misplaced]),
            Err(NetworkError::Misplaced(InstanceId(4)))
        );
        let mut mixed = a.clone();
        mixed.roles = Roles(Roles::N3.0 | Roles::N6.0);
        assert_eq!(
            Network::new(vec![mixed]),
            Err(NetworkError::MixedRoles("a".into()))
        );
        let twice = vec![a.clone(), instance(1, "A", Roles::N6, "10.0.1.1/24")];
        assert_eq!(Network::new(twice), Err(NetworkError::Name("A".into())));
        let same = vec![a.clone(), instance(1, "b", Roles::N6, "10.0.0.1/16")];
        assert_eq!(
            Network::new(same),
            Err(NetworkError::Address("10.0.0.1".parse().unwrap()))
        );
        let mut long = a.clone();
        long.ipv4 = Some((Ipv4Addr::LOCALHOST, 33));
        assert!(matches!(
            Network::new(vec![long]),
            Err(NetworkError::PrefixLength { len: 33, .. })
        ));
        for next_hop in ["10.0.0.1", "10.0.0.255"] {
            let mut looped = a.clone();
            looped.routes = vec![route("0.0.0.0/0", next_hop)];
            assert!(matches!(
                Network::new(vec![looped]),
                Err(NetworkError::NextHop { .. })
            ));
        }
        let mut astray = a;
        astray.routes = vec![route("0.0.0.0/0", "10.9.0.1")];
        assert!(matches!(
            Network::new(vec![astray]),
            Err(NetworkError::NextHop { .. })
        ));
    }
}
