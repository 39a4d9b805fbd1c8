//! Where a frame can come in: the network instance of each port and VLAN, and which addresses are ours there.
//!
//! Made once from the [`Network`]; small tables that are searched in order.

use std::net::{IpAddr, Ipv6Addr};

use flow::{InstanceId, LocalId, PortId, VrfId};
use packet::eth::Vlan;
use packet::{Addrs, MacAddr, VlanTags};
use rules::network::{DscpTable, Instance, Mss, Network, Roles};
use transport::Interface;
use transport::replies::OwnIpv6;

use crate::LagPorts;
use crate::local::host::HostRates;

/// One of our addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub id: LocalId,
    /// GTP-U tunnels end here.
    pub gtpu: bool,
}

/// A port and VLAN as its frames see it.
#[derive(Clone, Debug)]
pub(crate) struct L3Interface {
    pub interface: Interface,
    /// Which frames are its own ([`Vlan::key`]).
    vlan_key: u32,
    pub vrf: VrfId,
    /// Plain packets to UEs come in here, and those of UEs leave.
    pub plain: bool,
    /// GTP-U peers are here.
    pub tunnels: bool,
    /// The host's own network stack gets what is for it.
    pub host: bool,
    /// DSCPs of packets that may not wait behind others: bit n is DSCP n.
    pub urgent_dscps: u64,
    /// How what rules send here is marked, where they do not say it.
    pub dscp: Option<Box<DscpTable>>,
    /// What TCP connections may agree on whose packets pass here.
    pub mss: Mss,
    /// Our addresses that packets may be addressed to: those of the whole VRF.
    locals_v4: Vec<([u8; 4], Local)>,
    locals_v6: Vec<([u8; 16], Local)>,
    /// Those of them that are tentative or duplicates (RFC 4862 §5.4): packets to them are not for us.
    unusable_v6: Vec<([u8; 16], Local)>,
    /// The interface's own IPv6 address, usable or not; `interface` has it while it is usable.
    pub own_v6: Option<OwnIpv6>,
}

#[inline(always)]
fn find<A: PartialEq>(locals: &[(A, Local)], address: &A) -> Option<Local> {
    locals
        .iter()
        .find(|(own, _)| own == address)
        .map(|&(_, local)| local)
}

impl L3Interface {
    /// Which of our addresses a packet is sent to.
    #[inline(always)]
    pub fn local(&self, addrs: &Addrs) -> Option<Local> {
        match addrs {
            Addrs::V4 { dst, .. } => self.local_v4(*dst),
            Addrs::V6 { dst, .. } => self.local_v6(*dst),
        }
    }

    /// Whether another node can have sent from `address`, so that an answer there reaches one node and not ourselves.
    pub fn may_answer(&self, address: IpAddr) -> bool {
        self.interface.may_have_neighbour(address) && !self.owns(address)
    }

    /// Which of our addresses this is.
    #[inline(always)]
    pub fn local_v4(&self, address: [u8; 4]) -> Option<Local> {
        find(&self.locals_v4, &address)
    }

    /// Which of our addresses this is.
    #[inline(always)]
    pub fn local_v6(&self, address: [u8; 16]) -> Option<Local> {
        find(&self.locals_v6, &address)
    }

    /// Whether the address is one of ours.
    fn owns(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.local_v4(address.octets()).is_some(),
            IpAddr::V6(address) => self.local_v6(address.octets()).is_some(),
        }
    }

    /// The identifiers of its frames' tags, the outer one first; 0 where they have none.
    pub fn vlan_ids(&self) -> (u16, Option<u16>) {
        match (self.vlan_key >> 16) as u16 {
            0 => (self.vlan_key as u16, None),
            outer => (outer, Some(self.vlan_key as u16)),
        }
    }

    /// Our IPv4 addresses that packets may be addressed to.
    pub fn own_v4(&self) -> impl Iterator<Item = [u8; 4]> {
        self.locals_v4.iter().map(|(address, _)| *address)
    }

    /// Whether GTP-U peers send to one of our addresses here.
    pub fn takes_gtpu(&self) -> bool {
        let locals = self.locals_v4.iter().map(|(_, local)| local);
        let locals = locals.chain(self.locals_v6.iter().map(|(_, local)| local));
        locals
            .chain(self.unusable_v6.iter().map(|(_, local)| local))
            .any(|local| local.gtpu)
    }

    /// Our IPv6 addresses that packets may be addressed to, usable or not.
    pub fn own_v6(&self) -> impl Iterator<Item = [u8; 16]> {
        let all = self.locals_v6.iter().chain(&self.unusable_v6);
        all.map(|(address, _)| *address)
    }

    /// Whether packets may be addressed to an own address from now on. Allocates nothing.
    fn set_usable(&mut self, address: Ipv6Addr, is_usable: bool) {
        let octets = address.octets();
        let (from, to) = match is_usable {
            true => (&mut self.unusable_v6, &mut self.locals_v6),
            false => (&mut self.locals_v6, &mut self.unusable_v6),
        };
        if let Some(at) = from.iter().position(|(own, _)| *own == octets) {
            to.push(from.swap_remove(at));
        }
    }

    pub fn instance(&self) -> InstanceId {
        self.interface.instance
    }
}

/// The L3 interfaces of a worker.
pub(crate) struct L3Interfaces {
    /// By [`InstanceId`].
    instances: Vec<L3Interface>,
    /// By [`PortId`]: the instances on it.
    ports: Vec<Vec<InstanceId>>,
    /// Members of LAGs, with their own addresses.
    members: Vec<(PortId, MacAddr)>,
    /// Whether any instance bounds what TCP connections agree on.
    pub clamps: bool,
    /// DSCPs of packets that may not wait behind others in any instance: bit n is DSCP n.
    pub urgent_dscps: u64,
}

impl L3Interfaces {
    /// The L3 interfaces of `network` on ports with these addresses; an instance on a port beyond them is unreachable.
    pub fn new(network: &Network, macs: &[MacAddr]) -> Self {
        let of_instance = |instance: &Instance| {
            let interface = interface(instance, macs);
            let own_v6 = interface.ipv6.map(|address| OwnIpv6 {
                address,
                mac: interface.mac,
                is_usable: true,
            });
            let mut l3_interface = L3Interface {
                interface,
                vlan_key: instance.vlan.map_or(0, VlanTags::key),
                vrf: instance.vrf,
                plain: instance.roles.intersects(Roles::N6),
                tunnels: instance.roles.intersects(Roles::GTPU),
                host: false,
                urgent_dscps: 0,
                dscp: instance.dscp.clone().map(Box::new),
                mss: instance.mss,
                locals_v4: Vec::new(),
                locals_v6: Vec::new(),
                unusable_v6: Vec::new(),
                own_v6,
            };
            for (address, local) in locals(network, instance) {
                match address {
                    IpAddr::V4(address) => l3_interface.locals_v4.push((address.octets(), local)),
                    IpAddr::V6(address) => l3_interface.locals_v6.push((address.octets(), local)),
                }
            }
            l3_interface.unusable_v6.reserve(l3_interface.locals_v6.len());
            l3_interface
        };
        let instances: Vec<L3Interface> = network.instances().iter().map(of_instance).collect();
        let on = |port: usize| {
            let here = |l3_interface: &&L3Interface| l3_interface.interface.port.index() == port;
            instances.iter().filter(here).map(L3Interface::instance).collect()
        };
        let ports = (0..macs.len()).map(on).collect();
        Self {
            instances,
            ports,
            members: Vec::new(),
            clamps: network
                .instances()
                .iter()
                .any(|instance| instance.mss != Mss::Off),
            urgent_dscps: 0,
        }
    }

    /// The same, where these ports make others.
    pub fn with_lags(mut self, lags: &[LagPorts], macs: &[MacAddr]) -> Self {
        let mac = |port: PortId| macs.get(port.index()).copied().unwrap_or(MacAddr::ZERO);
        let members = lags.iter().flat_map(|lag| &lag.members);
        self.members = members.map(|&port| (port, mac(port))).collect();
        self
    }

    /// The address of a port that is a member of a LAG.
    pub fn member(&self, port: PortId) -> Option<MacAddr> {
        let found = self.members.iter().find(|(member, _)| *member == port);
        found.map(|(_, mac)| *mac)
    }

    /// The same, of which these, by instance, have a host's network stack, and these DSCPs may not wait.
    pub fn with_host(mut self, rates: &[Option<HostRates>], urgent_dscps: &[u64]) -> Self {
        for (l3_interface, rates) in self.instances.iter_mut().zip(rates) {
            l3_interface.host = rates.is_some();
        }
        for (l3_interface, dscps) in self.instances.iter_mut().zip(urgent_dscps) {
            l3_interface.urgent_dscps = *dscps;
            self.urgent_dscps |= *dscps;
        }
        self
    }

    /// The same, of an accelerator: its host says the link layer addresses of instances, and the numbers of own
    /// addresses.
    pub fn with_numbers(
        mut self,
        macs: impl IntoIterator<Item = (InstanceId, MacAddr)>,
        number: impl Fn(IpAddr) -> Option<LocalId>,
    ) -> Self {
        for (id, mac) in macs {
            if let Some(l3_interface) = self.instances.get_mut(id.index()) {
                l3_interface.interface.mac = mac;
                if let Some(own) = &mut l3_interface.own_v6 {
                    own.mac = mac;
                }
            }
        }
        for l3_interface in &mut self.instances {
            for (address, local) in &mut l3_interface.locals_v4 {
                local.id = number(IpAddr::from(*address)).unwrap_or(local.id);
            }
            for (address, local) in &mut l3_interface.locals_v6 {
                local.id = number(IpAddr::from(*address)).unwrap_or(local.id);
            }
        }
        self
    }

    /// An own address of an instance becomes usable or unusable: in all instances of its VRF packets may be addressed
    /// to it, or not, and the instance answers for it and sends from it, or not.
    pub fn set_usable(&mut self, owner: InstanceId, address: Ipv6Addr, is_usable: bool) {
        let Some(l3_interface) = self.instances.get_mut(owner.index()) else {
            return;
        };
        if let Some(own) = l3_interface.own_v6.as_mut().filter(|own| own.address == address) {
            own.is_usable = is_usable;
            l3_interface.interface.ipv6 = is_usable.then_some(address);
        }
        let vrf = l3_interface.vrf;
        let of_vrf = self
            .instances
            .iter_mut()
            .filter(|l3_interface| l3_interface.vrf == vrf);
        of_vrf.for_each(|l3_interface| l3_interface.set_usable(address, is_usable));
    }

    /// Where a frame with these tags came in.
    #[inline]
    pub fn find(&self, port: PortId, vlan: Option<Vlan>) -> Option<&L3Interface> {
        let key = vlan.map_or(0, Vlan::key);
        let here = match self.ports.get(port.index()) {
            Some(here) => here.iter(),
            None => self.of_recirculated(port)?.iter(),
        };
        here.filter_map(|id| self.instances.get(id.index()))
            .find(|l3_interface| l3_interface.vlan_key == key)
    }

    /// The instances of a port that packets come in by that we have sent to ourselves.
    #[cold]
    fn of_recirculated(&self, port: PortId) -> Option<&Vec<InstanceId>> {
        self.ports.get(port.with_recirculations(0).index())
    }

    /// Gives the instances of a port more addresses.
    #[cfg(test)]
    pub(crate) fn add_own_v4(&mut self, port: PortId, addresses: impl Iterator<Item = [u8; 4]> + Clone) {
        let (id, gtpu) = (LocalId(0), false);
        let here = self.instances.iter_mut();
        for l3_interface in here.filter(|of| of.interface.port == port) {
            let locals = addresses.clone().map(|address| (address, Local { id, gtpu }));
            l3_interface.locals_v4.extend(locals);
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// Those of a port.
    pub fn on(&self, port: PortId) -> impl Iterator<Item = &L3Interface> {
        let here = self.ports.get(port.index()).into_iter().flatten();
        here.filter_map(|id| self.at(*id))
    }

    /// The L3 interface of an instance.
    #[inline]
    pub fn at(&self, instance: InstanceId) -> Option<&L3Interface> {
        self.instances.get(instance.index())
    }
}

/// How `instance` looks like on its link; `macs` are those of the ports.
pub fn interface(instance: &Instance, macs: &[MacAddr]) -> Interface {
    Interface {
        instance: instance.id,
        port: instance.port,
        vlan: instance.vlan,
        mac: macs.get(instance.port.index()).copied().unwrap_or(MacAddr::ZERO),
        ipv4: instance.ipv4.map(|(address, _)| address),
        broadcast: instance.broadcast(),
        ipv6: instance.ipv6.map(|(address, _)| address),
        mtu: instance.mtu,
        fragmentation: instance.fragmentation,
        tunnels: instance.roles.intersects(Roles::GTPU),
    }
}

/// Our addresses as seen from `here`. Tunnels end only at packets that come in where tunnels are: what a data network
/// sends to an N3 address is no GTP-U.
fn locals(network: &Network, here: &Instance) -> Vec<(IpAddr, Local)> {
    let mut locals = Vec::new();
    let tunnels = here.roles.intersects(Roles::GTPU);
    for (number, &(owner, address)) in network.local_addresses().iter().enumerate() {
        let Some(instance) = network
            .instance(owner)
            .filter(|instance| instance.vrf == here.vrf)
        else {
            continue;
        };
        let gtpu = tunnels && instance.roles.intersects(Roles::GTPU);
        let id = LocalId(number as u16);
        locals.push((address, Local { id, gtpu }));
    }
    locals
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An instance's look on a link, for tests.
    pub(crate) fn interface() -> Interface {
        Interface {
            instance: InstanceId(0),
            port: PortId(0),
            vlan: None,
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            ipv4: None,
            broadcast: None,
            ipv6: None,
            mtu: 1500,
            fragmentation: rules::network::Fragmentation::Inner,
            tunnels: false,
        }
    }
}
