//! Checks over several fields, and the network that all parts of the program read.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use flow::{InstanceId, PortId, VrfId};
use packet::{Dscp, MacAddr, Qfi, VlanTags};
use rules::network::{
    DscpMark, DscpTable, Fragmentation, Hairpin, Instance, Network, NetworkError, Roles, Route,
};
use rules::prefix::IpPrefix;
use serde_saphyr::Spanned;

use crate::bounded::Bounded;
use crate::error::Fault;
use crate::schema::{
    Config, Driver, DscpConfig, FragmentConfig, Groups, HairpinConfig, InstanceConfig, PortConfig, Prefix,
    Role, RouteConfig, VlanConfig, is_special, parse_mac,
};

/// The most ports and instances one process serves.
pub(crate) const MOST_PORTS: usize = 16;
const MOST_INSTANCES: usize = 1_024;

/// A neighbour whose address is configured rather than resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// The instance on whose link it is.
    pub instance: InstanceId,
    /// Its IP address.
    pub address: IpAddr,
    /// Its link layer address.
    pub mac: MacAddr,
}

impl Config {
    /// The network that the configuration makes; instances and ports keep their order.
    ///
    /// # Errors
    /// None for a configuration that [`Config::parse`] gave: it has checked all of it.
    pub fn network(&self) -> Result<Network, NetworkError> {
        let instances = self.instances.iter().enumerate();
        let instances = instances.map(|(place, instance)| self.instance(place, instance));
        Network::new(instances.collect())?
            .with_egress(self.egress())
            .with_policies(self.policies())?
            .with_policers(self.policers())?
            .with_access_lists(self.access_lists())?
            .with_nat(self.nat_pools())?
            .with_events(self.event_logic())
    }

    fn instance(&self, place: usize, instance: &InstanceConfig) -> Instance {
        let place_of = |name: &str| self.ports.iter().position(|port| port.name.value == name);
        let port = place_of(&instance.port.value).unwrap_or_default();
        let mirror = instance.mirror.as_ref().and_then(|name| place_of(&name.value));
        let address = |wanted_v4: bool| {
            instance
                .addresses
                .iter()
                .map(|a| a.value)
                .find(|prefix| prefix.address.is_ipv4() == wanted_v4)
        };
        Instance {
            id: InstanceId(place as u16),
            name: instance.name.value.clone(),
            roles: instance
                .roles
                .iter()
                .fold(Roles::default(), |roles, role| roles.with(role.bit())),
            vrf: VrfId(instance.vrf.map_or(0, |vrf| vrf.value() as u16)),
            port: PortId(port as u16),
            vlan: instance.vlan.map(VlanConfig::tags),
            mtu: self.ports.get(port).map_or(1500, |port| port.mtu.value() as u16),
            ipv4: address(true).and_then(Prefix::ipv4),
            ipv6: address(false).and_then(Prefix::ipv6),
            routes: instance.routes.iter().filter_map(route).collect(),
            dscp: dscp_table(&instance.dscp),
            mirror: mirror.map(|place| PortId(place as u16)),
            hairpin: hairpin(instance),
            fragmentation: match instance.fragment {
                FragmentConfig::Inner => Fragmentation::Inner,
                FragmentConfig::Outer => Fragmentation::Outer,
                FragmentConfig::Never => Fragmentation::Never,
            },
            mss: instance.mss.mss(),
            egress: instance.egress.as_ref().map(Into::into),
        }
    }

    /// The next hops whose link layer addresses are configured.
    pub fn static_neighbours(&self) -> impl Iterator<Item = StaticNeighbour> + '_ {
        self.instances.iter().enumerate().flat_map(|(place, instance)| {
            instance.routes.iter().filter_map(move |route| {
                let octets = parse_mac(&route.mac.as_ref()?.value)?;
                let (instance, address) = (InstanceId(place as u16), route.via.value);
                Some(StaticNeighbour {
                    instance,
                    address,
                    mac: MacAddr(octets),
                })
            })
        })
    }
}

fn route(route: &RouteConfig) -> Option<Route> {
    let prefix = IpPrefix::new(route.to.value.address, route.to.value.length)?;
    Some(Route {
        prefix,
        next_hop: route.via.value,
    })
}

fn hairpin(instance: &InstanceConfig) -> Hairpin {
    let prefixes = instance.ue_prefixes.iter();
    let prefixes = prefixes.filter_map(|prefix| IpPrefix::new(prefix.value.address, prefix.value.length));
    match instance.hairpin {
        HairpinConfig::Router => Hairpin::Router,
        HairpinConfig::Local => Hairpin::Local(prefixes.collect()),
        HairpinConfig::Drop => Hairpin::Drop(prefixes.collect()),
    }
}

/// Finds the first value that contradicts another.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    config.n4.check()?;
    check_ports(config)?;
    check_n4_device(config)?;
    check_buffering(config)?;
    let mut seen = Seen::default();
    for (place, instance) in config.instances.iter().enumerate() {
        if place >= MOST_INSTANCES {
            return Err(Fault::new(
                &instance.name,
                format!("instances: more than {MOST_INSTANCES}"),
            ));
        }
        seen.check(config, instance)?;
    }
    Ok(())
}

/// Packets that wait are missing where packets come in.
fn check_buffering(config: &Config) -> Result<(), Fault> {
    let most = config.dpdk.buffers.value() / 2;
    match &config.buffering.packets {
        Some(packets) if packets.value.value() > most => Err(Fault::new(
            packets,
            format!(
                "buffering.packets: {} is more than half of dpdk.buffers, which is {most}",
                packets.value.value()
            ),
        )),
        _ => Ok(()),
    }
}

/// N4 is the host's: nothing comes to it by an interface whose frames are not.
fn check_n4_device(config: &Config) -> Result<(), Fault> {
    let Some(device) = &config.n4.device else {
        return Ok(());
    };
    let is_kept = |port: &&PortConfig| {
        let driver = port.driver.as_ref();
        driver.and_then(Driver::kept_from_host) == Some(device.value.as_str())
    };
    let fault = match config.ports.iter().find(is_kept) {
        Some(port) => Some(format!(
            "`{}` is port `{}`: the host gets nothing by it",
            device.value, port.name.value
        )),
        None => interface_fault(&device.value),
    };
    fault.map_or(Ok(()), |fault| {
        Err(Fault::new(device, format!("n4.device: {fault}")))
    })
}

fn check_ports(config: &Config) -> Result<(), Fault> {
    let mut names = HashSet::new();
    let mut interfaces = Interfaces::default();
    for (place, port) in config.ports.iter().enumerate() {
        if place >= MOST_PORTS {
            return Err(Fault::new(&port.name, format!("ports: more than {MOST_PORTS}")));
        }
        if !names.insert(port.name.value.as_str()) {
            return Err(Fault::new(
                &port.name,
                format!("ports: two are named `{}`", port.name.value),
            ));
        }
        interfaces.check(port)?;
    }
    super::lag::check(config)
}

/// Interfaces of the kernel and PCI devices, and the ports that they are.
#[derive(Default)]
pub(crate) struct Interfaces<'a>(HashMap<String, &'a str>);

impl<'a> Interfaces<'a> {
    /// Finds what is wrong with the driver of a port, and whether another port has its interface.
    pub(crate) fn check(&mut self, port: &'a PortConfig) -> Result<(), Fault> {
        let fault = match &port.driver {
            Some(Driver::AfPacket { interface, .. } | Driver::AfXdp { interface, .. }) => {
                interface_fault(interface)
                    .or_else(|| loopback_fault(interface))
                    .or_else(|| self.fault("interface", interface, &port.name.value))
            }
            Some(Driver::Pci { address }) if !Driver::is_pci_address(address) => {
                Some(format!("`{address}` is no PCI address such as 0000:3b:00.1"))
            }
            Some(Driver::Pci { address }) => {
                self.fault("address", &Driver::whole_pci_address(address), &port.name.value)
            }
            _ => None,
        };
        fault.map_or(Ok(()), |fault| {
            Err(Fault::new(
                &port.name,
                format!("port `{}`: {fault}", port.name.value),
            ))
        })
    }

    /// Notes one; what is wrong if another port has it.
    fn fault(&mut self, field: &str, device: &str, port: &'a str) -> Option<String> {
        let other = self.0.insert(device.to_owned(), port)?;
        Some(format!("{field}: `{device}` is port `{other}` already"))
    }
}

/// The host's loopback is no link: its frames have no stations, and the ingress drop would cut off the host's own
/// programs.
fn loopback_fault(interface: &str) -> Option<String> {
    (interface == "lo").then(|| "interface: `lo` is the host's loopback, which cannot be a port".into())
}

/// The kernel's bound on interface names (IFNAMSIZ), and what would break a DPDK device argument.
pub(crate) fn interface_fault(interface: &str) -> Option<String> {
    if !(1..=15).contains(&interface.len()) {
        return Some(format!(
            "interface: `{interface}` has {} characters, 1 to 15 are possible",
            interface.len()
        ));
    }
    let bad = interface
        .chars()
        .find(|c| c.is_whitespace() || matches!(c, ',' | '/' | '='))?;
    Some(format!("interface: `{interface}` contains `{bad}`"))
}

/// What earlier instances took.
#[derive(Default)]
struct Seen {
    names: HashSet<String>,
    /// With the instances that have them.
    addresses: HashMap<IpAddr, String>,
    /// Ports, and the VLANs on them ([`VlanTags::key`]).
    links: HashSet<(String, u32)>,
    groups: Groups,
}

impl Seen {
    fn check(&mut self, config: &Config, instance: &InstanceConfig) -> Result<(), Fault> {
        let name = &instance.name;
        let fault = |message: String| Fault::new(name, format!("instance `{}`: {message}", name.value));
        if !(1..=100).contains(&name.value.len()) {
            return Err(fault(format!(
                "the name has {} characters, 1 to 100 are possible",
                name.value.len()
            )));
        }
        if !self.names.insert(name.value.to_ascii_lowercase()) {
            return Err(fault("another has this name".into()));
        }
        if instance.roles.is_empty() {
            return Err(fault("roles: names none of n3, n6, n9, n4u".into()));
        }
        if instance.roles.contains(&Role::N6) && instance.roles.iter().any(|role| *role != Role::N6) {
            return Err(fault(
                "roles: n6 beside n3, n9 or n4u, by which UEs would reach gNBs; give each an instance of its own, on a VLAN or port"
                    .into(),
            ));
        }
        check_port(config, "port", &instance.port)?;
        if let Some(mirror) = &instance.mirror {
            check_port(config, "mirror", mirror)?;
            if mirror.value == instance.port.value {
                let message = format!("mirror: `{}` is the port of the instance itself", mirror.value);
                return Err(Fault::new(mirror, message));
            }
        }
        check_addresses(instance)?;
        check_dscp(instance)?;
        check_hairpin(instance)?;
        let vlan = instance.vlan.map(VlanConfig::tags);
        let key = vlan.map_or(0, VlanTags::key);
        if !self.links.insert((instance.port.value.clone(), key)) {
            let vlan = vlan.map_or_else(|| "untagged".into(), |vlan| vlan.to_string());
            let message = format!("port: another instance is on `{}` {vlan}", instance.port.value);
            return Err(Fault::new(&instance.port, message));
        }
        for address in &instance.addresses {
            let own = address.value.address;
            if let Some(other) = self.addresses.insert(own, name.value.clone()) {
                let message =
                    format!("addresses: {own} is another instance's, `{other}`, whatever their VRFs");
                return Err(Fault::new(address, message));
            }
        }
        instance.routes.iter().try_for_each(|route| {
            check_next_hop(instance, &route.to, &route.via)?;
            route.mac.as_ref().map_or(Ok(()), check_mac)
        })?;
        self.groups.check(instance)
    }
}

fn check_addresses(instance: &InstanceConfig) -> Result<(), Fault> {
    let Some(_) = instance.addresses.first() else {
        return Err(Fault::new(
            &instance.name,
            format!("instance `{}`: addresses: none", instance.name.value),
        ));
    };
    for (place, address) in instance.addresses.iter().enumerate() {
        let family = address.value.address.is_ipv4();
        if instance.addresses[..place]
            .iter()
            .any(|other| other.value.address.is_ipv4() == family)
        {
            let message = format!("addresses: {} is the second of its family", address.value);
            return Err(Fault::new(address, message));
        }
        if let Some(fault) = host_fault(address.value) {
            return Err(Fault::new(
                address,
                format!("addresses: {} {fault}", address.value),
            ));
        }
    }
    Ok(())
}

/// Why no host on a link has this address, if none has.
fn host_fault(own: Prefix) -> Option<String> {
    let address = own.address;
    let is_of_all =
        |other: Prefix| other.address == address && other.ipv4().is_some_and(|(_, length)| length <= 30);
    match is_special(address) {
        _ if address.is_unspecified() || address.is_multicast() => Some("is no address of one host".into()),
        Some(what) => Some(format!("is {what}")),
        None if own.length == 0 => {
            Some("has a link to everywhere: give it the length of the link's prefix".into())
        }
        None if is_of_all(own.masked()) => Some("is the network's own address".into()),
        None if own.broadcast() == Some(address) => Some("is the broadcast address of the link".into()),
        None => None,
    }
}

fn check_port(config: &Config, field: &str, name: &Spanned<String>) -> Result<(), Fault> {
    if let Some(lag) = config.lag_of(&name.value) {
        let message = format!(
            "{field}: `{}` is a member of `{}`: name that one",
            name.value, lag.name.value
        );
        return Err(Fault::new(name, message));
    }
    if config.ports.iter().any(|port| port.name.value == name.value) {
        return Ok(());
    }
    Err(Fault::new(
        name,
        format!("{field}: no port is named `{}`", name.value),
    ))
}

/// `None` when nothing is marked, so that packets need not be looked at.
fn dscp_table(marks: &[DscpConfig]) -> Option<DscpTable> {
    let code = |value: Bounded<0, 63>| Dscp::from_low_bits(value.value() as u8);
    let mut table = DscpTable::new();
    for mark in marks {
        let yellow = code(mark.yellow.unwrap_or(mark.dscp));
        let green = code(mark.dscp);
        let qfi = Qfi::from_low_bits(mark.qfi.value.value() as u8);
        let pcp = mark.pcp.map_or(0, |pcp| pcp.value() as u8);
        table.set(qfi, DscpMark { green, yellow, pcp });
    }
    (!marks.is_empty()).then_some(table)
}

fn check_dscp(instance: &InstanceConfig) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    if let Some(mark) = instance.dscp.iter().find(|mark| mark.pcp.is_some())
        && instance.vlan.is_none()
    {
        let message = format!(
            "dscp: pcp of QFI {}: the instance has no vlan",
            mark.qfi.value.value()
        );
        return Err(Fault::new(&mark.qfi, message));
    }
    let twice = instance
        .dscp
        .iter()
        .find(|mark| !seen.insert(mark.qfi.value.value()));
    twice.map_or(Ok(()), |mark| {
        let message = format!("dscp: QFI {} is configured twice", mark.qfi.value.value());
        Err(Fault::new(&mark.qfi, message))
    })
}

fn check_hairpin(instance: &InstanceConfig) -> Result<(), Fault> {
    let name = &instance.name;
    let fault = |message: &str| Fault::new(name, format!("instance `{}`: {message}", name.value));
    if instance.hairpin == HairpinConfig::Router {
        return Ok(());
    }
    if !instance.roles.contains(&Role::N6) {
        return Err(fault("hairpin: only data networks, with role n6, have UEs"));
    }
    if instance.ue_prefixes.is_empty() {
        return Err(fault(
            "hairpin: ue_prefixes does not say which addresses UEs have",
        ));
    }
    for prefix in &instance.ue_prefixes {
        if let Some(fault) = prefix.value.network_fault() {
            return Err(Fault::new(prefix, format!("ue_prefixes: {fault}")));
        }
        let addresses = || instance.addresses.iter().map(|own| own.value.address);
        if addresses().any(|own| prefix.value.contains(own)) {
            let message = format!("ue_prefixes: {} holds our own address", prefix.value);
            return Err(Fault::new(prefix, message));
        }
        if !addresses().any(|own| own.is_ipv4() == prefix.value.address.is_ipv4()) {
            let message = format!(
                "ue_prefixes: {}: the instance has no address of that family",
                prefix.value
            );
            return Err(Fault::new(prefix, message));
        }
    }
    Ok(())
}

fn check_next_hop(
    instance: &InstanceConfig,
    to: &Spanned<Prefix>,
    via: &Spanned<IpAddr>,
) -> Result<(), Fault> {
    if let Some(fault) = to.value.network_fault() {
        return Err(Fault::new(to, format!("to: {fault}")));
    }
    let is_link_local = matches!(via.value, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if let Some(what) = is_special(via.value).filter(|_| !is_link_local) {
        let message = format!(
            "via: {} is {what}: a router has an address of the link's prefix, or a link-local one",
            via.value
        );
        return Err(Fault::new(via, message));
    }
    if to.value.address.is_ipv4() != via.value.is_ipv4() {
        return Err(Fault::new(
            via,
            format!("via: {} is not of the family of {}", via.value, to.value),
        ));
    }
    if instance
        .addresses
        .iter()
        .any(|address| address.value.address == via.value)
    {
        return Err(Fault::new(via, format!("via: {} is our own address", via.value)));
    }
    if instance
        .addresses
        .iter()
        .any(|address| address.value.broadcast() == Some(via.value))
    {
        return Err(Fault::new(
            via,
            format!("via: {} is the broadcast address of the link", via.value),
        ));
    }
    if is_link_local {
        return check_link_local(instance, via);
    }
    if !instance
        .addresses
        .iter()
        .any(|address| address.value.contains(via.value))
    {
        return Err(Fault::new(
            via,
            format!("via: {} is on none of the instance's links", via.value),
        ));
    }
    Ok(())
}

/// A link-local next hop is on the instance's own link, and is asked for from our IPv6 address there (RFC 4861 §7.2.2).
fn check_link_local(instance: &InstanceConfig, via: &Spanned<IpAddr>) -> Result<(), Fault> {
    if instance.addresses.iter().any(|own| own.value.address.is_ipv6()) {
        return Ok(());
    }
    let message = format!(
        "via: {} is asked for by Neighbour Discovery, and the instance has no IPv6 address",
        via.value
    );
    Err(Fault::new(via, message))
}

pub(crate) fn check_mac(mac: &Spanned<String>) -> Result<(), Fault> {
    match parse_mac(&mac.value) {
        Some(octets) if octets == [0; 6] => Err(Fault::new(mac, "mac: no station has the address of zeros")),
        Some(octets) if octets[0] & 1 == 0 => Ok(()),
        Some(_) => Err(Fault::new(mac, format!("mac: {} is a group address", mac.value))),
        None => Err(Fault::new(
            mac,
            format!("mac: `{}` is no MAC address such as 02:00:00:00:00:01", mac.value),
        )),
    }
}
