//! Network instances: what each is attached to, and its addresses and routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::{InstanceId, PortId, VrfId};
use packet::VlanTags;

use super::dscp::DscpTable;
use super::egress::InstanceEgress;
use super::hairpin::{Hairpin, UeRoute};
use super::mss::Mss;
use crate::prefix::IpPrefix;

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
/// "don't fragment". The senders of others receive the MTU (ICMP).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Fragmentation {
    /// The user packet is fragmented, and each fragment goes into the tunnel for itself: the UE or the host puts them
    /// together, and no GTP-U peer has to (TS 29.281 §4.2.2: fragments of outer packets are to be avoided).
    #[default]
    Inner,
    /// The outer packet is, IPv4 or IPv6: the GTP-U peer puts it together. What leaves without a tunnel is fragmented
    /// as with `Inner`.
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
    /// The queues in which packets wait that rules send to it; `None`: they wait for nothing.
    pub egress: Option<InstanceEgress>,
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
    pub(super) fn takes(&self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address) || self.broadcast().map(IpAddr::V4) == Some(address)
    }

    /// Its own address of the same family as `peer`.
    pub fn address_towards(&self, peer: IpAddr) -> Option<IpAddr> {
        self.addresses().find(|own| own.is_ipv4() == peer.is_ipv4())
    }

    /// The ways to the UEs of this instance, where they are not those of its routes.
    pub(super) fn ue_routes(&self) -> impl Iterator<Item = (IpPrefix, UeRoute)> + '_ {
        let way = |prefix: &IpPrefix| match self.hairpin {
            Hairpin::Drop(_) => Some(UeRoute::Nowhere),
            _ => {
                let mut own = self.addresses();
                own.find(|own| own.is_ipv4() == prefix.is_ipv4())
                    .map(UeRoute::Ourselves)
            }
        };
        let prefixes = self.hairpin.prefixes().iter();
        prefixes.filter_map(move |prefix| Some((*prefix, way(prefix)?)))
    }

    /// The first prefix of UEs that cannot be one: an address of the instance is in it, or no address of it is of
    /// that family, to which packets could be sent.
    pub(super) fn impossible_ue_prefix(&self) -> Option<IpPrefix> {
        let mut prefixes = self.hairpin.prefixes().iter();
        let is_impossible = |prefix: &&IpPrefix| {
            let fits = self.addresses().any(|own| own.is_ipv4() == prefix.is_ipv4());
            !fits || self.addresses().any(|own| prefix.contains(own))
        };
        prefixes.find(is_impossible).copied()
    }
}
