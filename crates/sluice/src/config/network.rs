//! Checks over several fields, and the network that all parts of the program read.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_saphyr::Spanned;

use super::error::Fault;
use super::{Config, Driver, InstanceConfig, Prefix, Role};

/// The most ports and instances one process serves.
const MOST_PORTS: usize = 16;
const MOST_INSTANCES: usize = 1_024;
const MOST_N4_ADDRESSES: usize = 8;

/// Finds the first value that contradicts another.
pub(super) fn check(config: &Config) -> Result<(), Fault> {
    check_n4(config)?;
    check_ports(config)?;
    let mut seen = Seen::default();
    for (place, instance) in config.instances.iter().enumerate() {
        if place >= MOST_INSTANCES {
            return Err(Fault::new(&instance.name, format!("instances: more than {MOST_INSTANCES}")));
        }
        seen.check(config, instance)?;
    }
    Ok(())
}

fn check_n4(config: &Config) -> Result<(), Fault> {
    let addresses = &config.n4.addresses;
    for (place, address) in addresses.iter().enumerate() {
        if place >= MOST_N4_ADDRESSES {
            return Err(Fault::new(address, format!("n4.addresses: more than {MOST_N4_ADDRESSES}")));
        }
        if address.value.is_unspecified() || address.value.is_multicast() {
            let message = format!("n4.addresses: {} is no address of one host; SMFs are told it", address.value);
            return Err(Fault::new(address, message));
        }
        if addresses[..place].iter().any(|other| other.value == address.value) {
            return Err(Fault::new(address, format!("n4.addresses: {} stands here twice", address.value)));
        }
    }
    Ok(())
}

fn check_ports(config: &Config) -> Result<(), Fault> {
    let mut names = HashSet::new();
    for (place, port) in config.ports.iter().enumerate() {
        if place >= MOST_PORTS {
            return Err(Fault::new(&port.name, format!("ports: more than {MOST_PORTS}")));
        }
        if !names.insert(port.name.value.as_str()) {
            return Err(Fault::new(&port.name, format!("ports: two are named `{}`", port.name.value)));
        }
        let fault = match &port.driver {
            Driver::AfPacket { interface } | Driver::AfXdp { interface, .. } => interface_fault(interface),
            Driver::Pci { address } if !Driver::is_pci_address(address) => {
                Some(format!("`{address}` is no PCI address such as 0000:3b:00.1"))
            }
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(Fault::new(&port.name, format!("port `{}`: {fault}", port.name.value)));
        }
    }
    Ok(())
}

/// The kernel's bound on interface names (IFNAMSIZ), and what would break a DPDK device argument.
fn interface_fault(interface: &str) -> Option<String> {
    if !(1..=15).contains(&interface.len()) {
        return Some(format!("interface: `{interface}` has {} characters, 1 to 15 are possible", interface.len()));
    }
    let bad = interface.chars().find(|c| c.is_whitespace() || matches!(c, ',' | '/' | '='))?;
    Some(format!("interface: `{interface}` contains `{bad}`"))
}

/// What earlier instances took.
#[derive(Default)]
struct Seen {
    names: HashSet<String>,
    addresses: HashSet<(u64, IpAddr)>,
}

impl Seen {
    fn check(&mut self, config: &Config, instance: &InstanceConfig) -> Result<(), Fault> {
        let name = &instance.name;
        let fault = |message: String| Fault::new(name, format!("instance `{}`: {message}", name.value));
        if !(1..=100).contains(&name.value.len()) {
            return Err(fault(format!("the name has {} characters, 1 to 100 are possible", name.value.len())));
        }
        if !self.names.insert(name.value.to_ascii_lowercase()) {
            return Err(fault("another has this name".into()));
        }
        if instance.roles.is_empty() {
            return Err(fault("roles: names none of n3, n6, n9, n4u".into()));
        }
        if !config.ports.iter().any(|port| port.name.value == instance.port.value) {
            return Err(Fault::new(&instance.port, format!("port: no port is named `{}`", instance.port.value)));
        }
        check_addresses(instance)?;
        let vrf = instance.vrf.map_or(0, super::Bounded::value);
        for address in &instance.addresses {
            if !self.addresses.insert((vrf, address.value.address)) {
                let message = format!("addresses: {} is in VRF {vrf} already", address.value.address);
                return Err(Fault::new(address, message));
            }
        }
        instance.routes.iter().try_for_each(|route| {
            check_next_hop(instance, &route.to, &route.via)?;
            route.mac.as_ref().map_or(Ok(()), check_mac)
        })
    }
}

fn check_addresses(instance: &InstanceConfig) -> Result<(), Fault> {
    let Some(_) = instance.addresses.first() else {
        return Err(Fault::new(&instance.name, format!("instance `{}`: addresses: none", instance.name.value)));
    };
    for (place, address) in instance.addresses.iter().enumerate() {
        let family = address.value.address.is_ipv4();
        if instance.addresses[..place].iter().any(|other| other.value.address.is_ipv4() == family) {
            let message = format!("addresses: {} is the second of its family", address.value);
            return Err(Fault::new(address, message));
        }
        if address.value.address.is_unspecified() || address.value.address.is_multicast() {
            return Err(Fault::new(address, format!("addresses: {} is no address of one host", address.value)));
        }
    }
    let tunnels = instance.roles.iter().any(|role| *role != Role::N6);
    if tunnels && !instance.addresses.iter().any(|a| a.value.address.is_ipv4()) {
        let message = format!("instance `{}`: n3, n9 and n4u need an IPv4 address", instance.name.value);
        return Err(Fault::new(&instance.name, message));
    }
    Ok(())
}

fn check_next_hop(instance: &InstanceConfig, to: &Spanned<Prefix>, via: &Spanned<IpAddr>) -> Result<(), Fault> {
    if to.value.address.is_ipv4() != via.value.is_ipv4() {
        return Err(Fault::new(via, format!("via: {} is not of the family of {}", via.value, to.value)));
    }
    if instance.addresses.iter().any(|address| address.value.address == via.value) {
        return Err(Fault::new(via, format!("via: {} is our own address", via.value)));
    }
    if !instance.addresses.iter().any(|address| address.value.contains(via.value)) {
        return Err(Fault::new(via, format!("via: {} is on none of the instance's links", via.value)));
    }
    Ok(())
}

fn check_mac(mac: &Spanned<String>) -> Result<(), Fault> {
    match super::instance::parse_mac(&mac.value) {
        Some(octets) if octets[0] & 1 == 0 => Ok(()),
        Some(_) => Err(Fault::new(mac, format!("mac: {} is a group address", mac.value))),
        None => Err(Fault::new(mac, format!("mac: `{}` is no MAC address such as 02:00:00:00:00:01", mac.value))),
    }
}
