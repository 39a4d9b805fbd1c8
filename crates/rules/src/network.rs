//! The configured world: network instances, their addresses and static routes.
//!
//! Made once from the configuration, then shared unchanged (`Arc<Network>`) by control and all workers. The lookups
//! here are plain scans for control and for the interpreter; a worker has tables of its own.

use core::fmt;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use flow::{InstanceId, LocalId, PortId, VrfId};
use packet::redirect::Secret;
use packet::{VlanTags, ipv4, ipv6};

use crate::prefix::IpPrefix;
use multipath::{Group, MOST_NEXT_HOPS, NextHop, Spread};

mod dscp;
mod events;
mod hairpin;
mod mss;
pub mod multipath;
mod policer;
mod policy;

pub use dscp::{DscpMark, DscpTable};
pub use events::EventLogic;
pub use hairpin::{Hairpin, PlainRoute, UeRoute};
pub use mss::{Leg, Mss};
pub use policer::{Policer, Policers};
pub use policy::{ForwardingPolicy, PolicyId};

/// The reference points that an instance serves (TS 23.501 §4.2.7), a set of flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Roles(pub u8);

impl Roles {
    /// Towards the gNB (or S1-U, Iu).
    pub const N3: Self = Self(0x01);
    /// Towards the data network (or SGi).
    pub const N6: Self = Self(0x02);
    /// Between user planes (or S5/S8-U).
    pub const N9: Self = Self(0x04);
    /// Towards the control plane function's GTP-U endpoint (or Sx-u).
    pub const N4U: Self = Self(0x08);
    /// The ones that end GTP-U tunnels.
    pub const GTPU: Self = Self(0x01 | 0x04 | 0x08);

    /// Whether one of `roles` is among these.
    pub const fn intersects(self, roles: Self) -> bool {
        self.0 & roles.0 != 0
    }

    /// These and those of `roles`.
    #[must_use]
    pub const fn with(self, roles: Self) -> Self {
        Self(self.0 | roles.0)
    }
}

/// What becomes of user packets that are longer than their way out allows and that may be fragmented: IPv4 without
/// "don't fragment". The senders of others are told how long packets may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Fragmentation {
    /// The user packet is fragmented, and each fragment goes into the tunnel for itself: the UE or the host puts them
    /// together, and no GTP-U peer has to (TS 29.281 §4.2.2: fragments of outer packets are to be avoided).
    #[default]
    Inner,
    /// The outer packet is, IPv4 or IPv6: the GTP-U peer puts it together. What leaves without a tunnel is fragmented as
    /// with `Inner`.
    Outer,
    /// They are dropped.
    Never,
}

/// A static route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Where it leads; the default route is 0.0.0.0/0 or ::/0.
    pub prefix: IpPrefix,
    /// The router, of the same family, on the instance's own link.
    pub next_hop: IpAddr,
}

/// A network instance: an attachment to a network, on a port and perhaps a VLAN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Its place in the configuration: `network.instances()[id]`.
    pub id: InstanceId,
    /// Its name, as the Network Instance IE has it (TS 29.244 §8.2.4).
    pub name: String,
    /// What it is used for.
    pub roles: Roles,
    /// Its routing table.
    pub vrf: VrfId,
    /// Its port.
    pub port: PortId,
    /// Its VLAN, of one tag or two; `None` is untagged.
    pub vlan: Option<VlanTags>,
    /// The largest IP packet, octets.
    pub mtu: u16,
    /// Its IPv4 address and the length of the prefix on the link, 0..=32.
    pub ipv4: Option<(Ipv4Addr, u8)>,
    /// Its IPv6 address and the length of the prefix on the link, 0..=128.
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// Its static routes.
    pub routes: Vec<Route>,
    /// How packets that rules send to it are marked, where their FAR does not say it.
    pub dscp: Option<DscpTable>,
    /// The port that gets copies of the user packets that rules send to it.
    pub mirror: Option<PortId>,
    /// What becomes of packets from UE to UE.
    pub hairpin: Hairpin,
    /// What becomes of packets that are too long to leave here.
    pub fragmentation: Fragmentation,
    /// What TCP connections may agree on whose packets come in or leave here.
    pub mss: Mss,
}

impl Instance {
    /// Its own addresses, IPv4 first: none, one or two.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let v4 = self.ipv4.map(|(address, _)| IpAddr::V4(address));
        v4.into_iter()
            .chain(self.ipv6.map(|(address, _)| IpAddr::V6(address)))
    }

    /// The prefixes on its link, IPv4 first.
    pub fn connected(&self) -> impl Iterator<Item = IpPrefix> + use<> {
        let v4 = self
            .ipv4
            .and_then(|(address, len)| IpPrefix::new(IpAddr::V4(address), len));
        let v6 = self
            .ipv6
            .and_then(|(address, len)| IpPrefix::new(IpAddr::V6(address), len));
        v4.into_iter().chain(v6)
    }

    /// The broadcast address of its IPv4 link (RFC 922 §7); a link of one or two addresses has none (RFC 3021 §2.1).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        let (address, len) = self.ipv4.filter(|&(_, len)| len <= 30)?;
        Some(address | Ipv4Addr::from_bits(u32::MAX >> len))
    }

    /// Whether `address` is one of its own or its link's broadcast address.
    fn takes(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address) || self.broadcast().map(IpAddr::V4) == Some(address)
    }

    /// Its own address of the same family as `peer`.
    pub fn address_towards(&self, peer: IpAddr) -> Option<IpAddr> {
        self.addresses().find(|own| own.is_ipv4() == peer.is_ipv4())
    }
}

/// A configuration that makes no network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkError {
    /// An instance's id is not its place in the list.
    Misplaced(InstanceId),
    /// Two instances have the same name, or one has none.
    Name(String),
    /// An address with its prefix length out of range.
    PrefixLength {
        /// The instance's name.
        instance: String,
        /// Its address.
        address: IpAddr,
        /// The length, above 32 or 128.
        len: u8,
    },
    /// Two instances have the same own address.
    Address(IpAddr),
    /// A route whose next hop is of the other family, or no other node on the instance's link.
    NextHop {
        /// The instance's name.
        instance: String,
        /// The route.
        route: Route,
    },
    /// A route that stands twice in an instance.
    RouteTwice {
        /// The instance's name.
        instance: String,
        /// The route.
        route: Route,
    },
    /// A prefix with more next hops in its VRF than [`MOST_NEXT_HOPS`].
    NextHops(VrfId, IpPrefix),
    /// A prefix with next hops both on instances towards data networks and on those where tunnels end: neither's packets
    /// may take the others' way.
    MixedNextHops(VrfId, IpPrefix),
    /// An instance towards a data network where tunnels end, too: UEs would reach the other ends of the tunnels.
    MixedRoles(String),
    /// An instance, and a prefix of its UEs that holds an address of its own, or of whose family it has none.
    UePrefix(String, IpPrefix),
    /// A forwarding policy without a name of its own, or that leads nowhere: by its name.
    Policy(String),
    /// A policer without a name of its own or sessions of its own.
    Policer(String),
    /// Events of an application without an identifier of its own, or of no kind: by that identifier.
    Event(String),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misplaced(id) => write!(f, "network instance {} is not at its place in the list", id.0),
            Self::Name(name) => write!(f, "network instance name {name:?} is empty or used twice"),
            Self::PrefixLength {
                instance,
                address,
                len,
            } => {
                write!(
                    f,
                    "{instance}: {address}/{len}: a prefix has at most 32 (IPv4) or 128 (IPv6) bits"
                )
            }
            Self::Address(address) => write!(f, "{address} is the address of two network instances"),
            Self::NextHop { instance, route } => {
                write!(
                    f,
                    "{instance}: next hop {} of {} is no other node on the link",
                    route.next_hop, route.prefix
                )
            }
            Self::RouteTwice { instance, route } => {
                write!(
                    f,
                    "{instance}: the route to {} by {} stands here twice",
                    route.prefix, route.next_hop
                )
            }
            Self::NextHops(vrf, prefix) => write!(
                f,
                "VRF {}: {prefix} has more than {MOST_NEXT_HOPS} next hops",
                vrf.0
            ),
            Self::MixedNextHops(vrf, prefix) => write!(
                f,
                "VRF {}: routes to {prefix} by instances with role n6 and by others: give them VRFs of their own",
                vrf.0
            ),
            Self::Policy(name) => write!(
                f,
                "forwarding policy {name:?}: the name is empty or used twice, or its instance or next hop is none"
            ),
            Self::Policer(name) => write!(
                f,
                "policer {name:?}: the name is empty or used twice, or it is for all sessions or for the same as another"
            ),
            Self::Event(application) => write!(
                f,
                "events of application \"{application}\": the identifier is empty or used twice, or nothing is detected"
            ),
            Self::MixedRoles(name) => write!(
                f,
                "{name}: role n6 beside n3, n9 or n4u: UEs would reach gNBs; give each an instance of its own, on a VLAN or port"
            ),
            Self::UePrefix(instance, prefix) => write!(
                f,
                "{instance}: UEs' prefix {prefix} holds its own address, or it has no address of that family"
            ),
        }
    }
}

impl core::error::Error for NetworkError {}

/// All network instances, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Network {
    instances: Vec<Instance>,
    locals: Vec<(InstanceId, IpAddr)>,
    groups: Vec<Group>,
    policies: Vec<ForwardingPolicy>,
    policers: Policers,
    events: BTreeMap<Box<[u8]>, EventLogic>,
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
        network.group()?;
        Ok(network)
    }

    fn add(&mut self, instance: Instance) -> Result<(), NetworkError> {
        if usize::from(instance.id.0) != self.instances.len() {
            return Err(NetworkError::Misplaced(instance.id));
        }
        if instance.name.is_empty() || self.instance_by_name(instance.name.as_bytes()).is_some() {
            return Err(NetworkError::Name(instance.name));
        }
        if instance.roles.intersects(Roles::N6) && instance.roles.intersects(Roles::GTPU) {
            return Err(NetworkError::MixedRoles(instance.name));
        }
        check_prefix_lengths(&instance)?;
        check_routes(&instance)?;
        if let Some(prefix) = instance.impossible_ue_prefix() {
            return Err(NetworkError::UePrefix(instance.name, prefix));
        }
        check_doubles(&instance)?;
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
            self.instances.iter().find(|instance| {
                let name = instance.name.as_bytes();
                name.eq_ignore_ascii_case(octets) || labels_spell(octets, name)
            })
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

    /// Whether another node can have `address` in `vrf`: it is no martian, none of ours, and no broadcast address of a
    /// link of ours.
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
        let reach = self.reach(vrf, destination);
        let link = reach.and_then(|reach| reach.link);
        let length = reach
            .filter(|reach| reach.link.is_none())
            .map(|reach| reach.length);
        let fits =
            move |route: &&Route| Some(route.prefix.len()) == length && route.prefix.contains(destination);
        let routed = self.members(vrf).flat_map(move |instance| {
            let routes = instance.routes.iter().filter(fits);
            routes.map(|route| (instance.id, route.next_hop))
        });
        link.map(|link| (link, destination)).into_iter().chain(routed)
    }

    /// Where the packets of `spread` to `destination` go in `vrf` while every next hop answers.
    pub fn route(&self, vrf: VrfId, destination: IpAddr, spread: Spread) -> Option<(InstanceId, IpAddr)> {
        match self.next_hop(vrf, destination)? {
            NextHop::Neighbour(instance, address) => Some((instance, address)),
            NextHop::Group(group) => self.hop_of_path(group, spread.path()),
        }
    }

    /// The longest prefix of links and static routes in `vrf` that holds `destination`.
    fn reach(&self, vrf: VrfId, destination: IpAddr) -> Option<Reach> {
        let mut best: Option<Reach> = None;
        let mut offer = |prefix: IpPrefix, link: Option<InstanceId>| {
            if prefix.contains(destination) && best.is_none_or(|best| prefix.len() > best.length) {
                let length = prefix.len();
                best = Some(Reach { length, link });
            }
        };
        for instance in self.members(vrf) {
            instance
                .connected()
                .for_each(|prefix| offer(prefix, Some(instance.id)));
        }
        for route in self.members(vrf).flat_map(|instance| &instance.routes) {
            offer(route.prefix, None);
        }
        best
    }

    fn members(&self, vrf: VrfId) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(move |instance| instance.vrf == vrf)
    }
}

/// The longest prefix towards a destination.
#[derive(Clone, Copy)]
struct Reach {
    length: u8,
    /// The instance whose link it is; `None` for static routes.
    link: Option<InstanceId>,
}

fn check_prefix_lengths(instance: &Instance) -> Result<(), NetworkError> {
    let v4 = instance.ipv4.map(|(address, len)| (IpAddr::V4(address), len));
    let v6 = instance.ipv6.map(|(address, len)| (IpAddr::V6(address), len));
    for (address, len) in v4.into_iter().chain(v6) {
        if IpPrefix::new(address, len).is_none() {
            return Err(NetworkError::PrefixLength {
                instance: instance.name.clone(),
                address,
                len,
            });
        }
    }
    Ok(())
}

fn is_martian(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => ipv4::is_martian(v4.octets()),
        IpAddr::V6(v6) => ipv6::is_martian(v6.octets()),
    }
}

/// A next hop is a neighbour: another node on the link, or an IPv6 link-local address.
fn check_routes(instance: &Instance) -> Result<(), NetworkError> {
    for &route in &instance.routes {
        let same_family = route.prefix.is_ipv4() == route.next_hop.is_ipv4();
        let link_local = matches!(route.next_hop, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let on_link = link_local || instance.connected().any(|prefix| prefix.contains(route.next_hop));
        let is_node = !is_martian(route.next_hop) && !instance.takes(route.next_hop);
        if !same_family || !on_link || !is_node {
            return Err(NetworkError::NextHop {
                instance: instance.name.clone(),
                route,
            });
        }
    }
    Ok(())
}

fn check_doubles(instance: &Instance) -> Result<(), NetworkError> {
    for (place, route) in instance.routes.iter().enumerate() {
        if instance.routes[..place].contains(route) {
            return Err(NetworkError::RouteTwice {
                instance: instance.name.clone(),
                route: *route,
            });
        }
    }
    Ok(())
}

/// Whether `octets` are the DNS labels (RFC 1035 §3.1: a length octet before each) of the dotted `name`. A closing
/// root label is accepted.
fn labels_spell(octets: &[u8], name: &[u8]) -> bool {
    let mut rest = octets;
    for part in name.split(|&octet| octet == b'.') {
        let Some((&len, tail)) = rest.split_first() else {
            return false;
        };
        if usize::from(len) != part.len() || len == 0 {
            return false;
        }
        match tail.split_at_checked(part.len()) {
            Some((label, tail)) if label.eq_ignore_ascii_case(part) => rest = tail,
            _ => return false,
        }
    }
    rest.is_empty() || rest == [0]
}

#[cfg(test)]
mod tests {
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
