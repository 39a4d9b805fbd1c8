//! What a backend holds of the node's network, so that it can receive and send packets by itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flags::flags;
use crate::{AdjacencyId, InstanceId, LocalId, PortId, VrfId};

flags! {
    /// What packets of an instance are.
    InstanceUses(u8) {
        /// Tunnels of GTP-U end at its own addresses, and leave by it (N3, N9, N4-u).
        TUNNELS = 1;
        /// Packets without a tunnel come and leave by it (N6).
        PLAIN = 1 << 1;
        /// Packets that leave by it wait, where their session has queues.
        QUEUES = 1 << 2;
    }
}

/// What becomes of packets that are longer than their way out allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TooLong {
    /// Of IPv4 without "don't fragment" the user packet is fragmented, each fragment in its own tunnel packet.
    #[default]
    FragmentInner = 0,
    /// The outer packet is fragmented.
    FragmentOuter = 1,
    /// They trap.
    Trap = 2,
}

/// The maximum segment size that an instance lets SYNs and SYN-ACKs of users announce that arrive or leave by it: each
/// is lowered to the least that both of its instances ask for, with the checksum to match (RFC 9293 §3.7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mss {
    /// What they like.
    #[default]
    Off,
    /// What fits the MTU of the links that it comes in and leaves by, and of known paths, behind the headers of its
    /// tunnels; 536 at least. It is computed without options (RFC 6691 §2).
    Auto,
    /// At most this number of octets, from 1.
    AtMost(u16),
}

/// An own address of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress<A> {
    /// The address.
    pub address: A,
    /// The length of the prefix on the link.
    pub length: u8,
    /// Its number in keys of tunnels.
    pub local: LocalId,
}

/// How packets of a QoS flow are marked that leave by an instance, where their forward says that it marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QfiMark {
    /// The QoS flow, 0 to 63.
    pub qfi: u8,
    /// The DSCP of green packets, 0 to 63.
    pub green: u8,
    /// That of yellow ones.
    pub yellow: u8,
    /// The Priority Code Point of their frames, 0 to 7.
    pub pcp: u8,
}

/// A network instance: where its packets come in, and what is to be known of its own packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The backend's port.
    pub port: PortId,
    /// The VLAN identifiers of its frames, outer first, 1 to 4094; none where it is untagged.
    pub vlans: [Option<u16>; 2],
    /// The EtherType of the outer tag of what is sent: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Its address space.
    pub vrf: VrfId,
    /// The link layer address of its frames.
    pub mac: [u8; 6],
    /// The longest IP packet on its link, octets.
    pub mtu: u16,
    /// Its IPv4 address.
    pub ipv4: Option<OwnAddress<Ipv4Addr>>,
    /// Its IPv6 address.
    pub ipv6: Option<OwnAddress<Ipv6Addr>>,
    /// What its packets are.
    pub uses: InstanceUses,
    /// What becomes of packets that are too long to leave by it.
    pub too_long: TooLong,
    /// What segments of its packets may announce. Other than [`Mss::Off`] it is given only where the backend has
    /// [`Actions::CLAMP_MSS`](super::Actions::CLAMP_MSS).
    pub mss: Mss,
    /// How packets are marked that leave by it: one a QoS flow, at most 64.
    pub marks: Vec<QfiMark>,
}

/// Where a prefix is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoutePrefix {
    /// In which address space.
    pub vrf: VrfId,
    /// The prefix; octets behind its length are 0.
    pub prefix: IpAddr,
    /// Its length, bits.
    pub length: u8,
}

/// A route of packets without a tunnel, and of the outer packets of tunnels. The longest prefix counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Of what.
    pub prefix: RoutePrefix,
    /// Whereto.
    pub target: RouteTarget,
}

/// Whereto a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// The destination is on the link of this instance; its adjacency is found by its address.
    Link(InstanceId),
    /// By a router. Without an adjacency packets trap.
    Router(InstanceId, Option<AdjacencyId>),
    /// By one of 64 adjacencies from this one on: which one, the addresses of the packet say.
    Paths(InstanceId, AdjacencyId),
    /// Packets trap: the host knows what becomes of them.
    Host,
}

/// A neighbour, or one path of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// By whose link.
    pub instance: InstanceId,
    /// The neighbour's IP address; `None` for a path, which is found by its number alone.
    pub address: Option<IpAddr>,
    /// Its link layer address; `None` while it is not known: packets to it trap.
    pub mac: Option<[u8; 6]>,
}

/// How long packets to a GTP-U peer may be, if that is less than its link says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Our address.
    pub local: IpAddr,
    /// The peer's, of the same family.
    pub peer: IpAddr,
    /// The longest outer packet, octets.
    pub mtu: u16,
}
