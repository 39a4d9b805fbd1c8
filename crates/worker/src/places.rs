//! Where a frame can come in: the network instance of each port and VLAN, and which addresses are ours there.
//!
//! Made once from the [`Network`]; small tables that are searched in order.

use std::net::IpAddr;

use flow::{InstanceId, LocalId, PortId, VrfId};
use packet::eth::Vlan;
use packet::{MacAddr, VlanId};
use rules::network::{Instance, Network, Roles};
use transport::Interface;

/// One of our addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub address: IpAddr,
    pub id: LocalId,
    /// GTP-U tunnels end here.
    pub gtpu: bool,
}

/// A port and VLAN as its frames see it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub interface: Interface,
    pub vrf: VrfId,
    /// Plain packets to UEs come in here, and those of UEs leave.
    pub plain: bool,
    /// The largest IP packet that leaves here, octets.
    pub mtu: u16,
    /// Our addresses that packets may be addressed to: those of the whole VRF.
    locals: Vec<Local>,
}

impl Place {
    /// Which of our addresses this is.
    #[inline]
    pub fn local(&self, address: IpAddr) -> Option<Local> {
        self.locals.iter().find(|local| local.address == address).copied()
    }

    /// Whether another node can have sent from `address`, so that an answer there reaches one node and not ourselves.
    pub fn may_answer(&self, address: IpAddr) -> bool {
        self.interface.may_have_neighbour(address) && self.local(address).is_none()
    }

    pub fn instance(&self) -> InstanceId {
        self.interface.instance
    }
}

/// All places.
pub(crate) struct Places {
    /// By [`InstanceId`].
    instances: Vec<Place>,
    /// By [`PortId`]: the instances on it.
    ports: Vec<Vec<InstanceId>>,
}

impl Places {
    /// The places of `network` on ports with these addresses; an instance on a port beyond them is unreachable.
    pub fn new(network: &Network, macs: &[MacAddr]) -> Self {
        let place = |instance: &Instance| Place {
            interface: interface(instance, macs),
            vrf: instance.vrf,
            plain: instance.roles.intersects(Roles::N6),
            mtu: instance.mtu,
            locals: locals(network, instance),
        };
        let instances: Vec<Place> = network.instances().iter().map(place).collect();
        let on = |port: usize| {
            let here = |place: &&Place| place.interface.port.index() == port;
            instances.iter().filter(here).map(Place::instance).collect()
        };
        let ports = (0..macs.len()).map(on).collect();
        Self { instances, ports }
    }

    /// Where a frame with these tags came in.
    #[inline]
    pub fn find(&self, port: PortId, vlan: Option<Vlan>) -> Option<&Place> {
        let vid = match vlan {
            None => None,
            // Priority tags belong to no VLAN (IEEE 802.1Q §9.6).
            Some(Vlan { outer, inner: None }) => Some(outer.vid()).filter(|vid| vid.get() != 0),
            Some(Vlan { inner: Some(_), .. }) => return None,
        };
        let here = self.ports.get(port.index())?.iter();
        here.filter_map(|id| self.instances.get(id.index()))
            .find(|place| place.interface.vlan == vid)
    }

    /// The place of an instance.
    #[inline]
    pub fn at(&self, instance: InstanceId) -> Option<&Place> {
        self.instances.get(instance.index())
    }
}

/// How `instance` looks like on its link; `macs` are those of the ports.
pub fn interface(instance: &Instance, macs: &[MacAddr]) -> Interface {
    let vlan: Option<VlanId> = instance.vlan;
    Interface {
        instance: instance.id,
        port: instance.port,
        vlan,
        mac: macs.get(instance.port.index()).copied().unwrap_or(MacAddr::ZERO),
        ipv4: instance.ipv4.map(|(address, _)| address),
        broadcast: instance.broadcast(),
        ipv6: instance.ipv6.map(|(address, _)| address),
    }
}

/// Our addresses as seen from `here`. Tunnels end only at packets that come in where tunnels are: what a data network
/// sends to an N3 address is no GTP-U.
fn locals(network: &Network, here: &Instance) -> Vec<Local> {
    let mut locals = Vec::new();
    let tunnels = here.roles.intersects(Roles::GTPU);
    for (place, &(owner, address)) in network.local_addresses().iter().enumerate() {
        let Some(instance) = network
            .instance(owner)
            .filter(|instance| instance.vrf == here.vrf)
        else {
            continue;
        };
        let gtpu = tunnels && instance.roles.intersects(Roles::GTPU);
        locals.push(Local {
            address,
            id: LocalId(place as u16),
            gtpu,
        });
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
        }
    }
}
