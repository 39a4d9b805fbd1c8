//! The configured world of the benchmarks: N3 on port 0 and N6 on port 1, each on a VLAN, with one router each; or
//! otherwise wired ([`Wire`]).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use flow::meter::{Rate, SharedId};
use flow::{AdjacencyId, Direction, InstanceId, PortId, VrfId};
use packet::{MacAddr, VlanId};
use rules::Adjacencies;
use rules::network::{Instance, Network, NetworkError, Roles, Route};
use rules::prefix::IpPrefix;
use transport::lag::LagShare;
use transport::{Adjacency, AdjacencyChange};
use worker::{Command, LagHash, LagPorts, LeaseHolder, interface};

use super::model::AMPLE_RATE;

/// The port of N3.
pub const N3_PORT: PortId = PortId(0);
/// The port of N6.
pub const N6_PORT: PortId = PortId(1);
/// This node's address on N3.
pub const N3_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
/// The VLANs of both.
pub const VLANS: [u16; 2] = [100, 200];
/// This node's link layer addresses, by port.
pub const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
/// The routers'.
pub const ROUTER: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);

/// How the network instances are on the two ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// A VLAN each, on a port each.
    #[default]
    Tagged,
    /// A port each, without VLANs.
    Plain,
    /// A VLAN each, on one LAG of both ports with LACP. Received packets are divided by direction, sent packets by
    /// flow.
    Bundle,
}

impl Wire {
    /// The port that a LAG of the other two is.
    const LAG: PortId = PortId(2);

    /// Whether frames have a VLAN tag.
    #[must_use]
    pub const fn is_tagged(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// The ports of a worker; the LAG has no queues.
    #[must_use]
    pub const fn ports(self) -> usize {
        match self {
            Self::Tagged | Self::Plain => 2,
            Self::Bundle => 3,
        }
    }

    /// This node's link layer addresses, by port. A LAG has that of its first member.
    #[must_use]
    pub fn macs(self) -> Vec<MacAddr> {
        let lag = (self == Self::Bundle).then_some(MACS[0]);
        MACS.into_iter().chain(lag).collect()
    }

    /// This node's address on the link of an instance.
    #[must_use]
    pub const fn mac(self, instance: usize) -> MacAddr {
        match self {
            Self::Tagged | Self::Plain => MACS[instance % 2],
            Self::Bundle => MACS[0],
        }
    }

    /// The port that an instance is on.
    const fn port(self, instance: u16) -> PortId {
        match self {
            Self::Tagged | Self::Plain => PortId(instance),
            Self::Bundle => Self::LAG,
        }
    }

    /// Whether a frame of an instance may leave by this port.
    #[must_use]
    pub fn may_leave_by(self, port: PortId, instance: InstanceId) -> bool {
        self == Self::Bundle || port.0 == instance.0
    }

    /// The octets before the IPv4 header of an instance's frame.
    #[must_use]
    pub fn link(self, instance: usize, [to, from]: [MacAddr; 2]) -> Vec<u8> {
        let [high, low] = VLANS[instance % 2].to_be_bytes();
        let tag = [0x81, 0, high, low];
        let tag = if self.is_tagged() { &tag[..] } else { &[] };
        [&to.0[..], &from.0, tag, &[8, 0]].concat()
    }

    /// The LAGs in a worker's configuration.
    #[must_use]
    pub fn lags(self) -> Vec<LagPorts> {
        let lag = LagPorts {
            port: Self::LAG,
            members: vec![N3_PORT, N6_PORT],
            lacp: true,
            hash: LagHash::L34,
        };
        (self == Self::Bundle).then_some(lag).into_iter().collect()
    }

    /// The commands about a worker's LAGs: both members carry.
    pub fn shares(self) -> impl Iterator<Item = Command> {
        let share = LagShare {
            collecting: 3,
            distributing: 3,
        };
        let told = move |lag: LagPorts| Command::Lag {
            port: lag.port,
            share,
        };
        self.lags().into_iter().map(told)
    }
}

const N3_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 254);
const N6_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 254);
/// gNBs, beyond the router of N3.
const GNBS: u32 = 0x0ac8_0000;
const GNB_COUNT: u32 = 200;

/// The gNB of a session.
#[inline]
pub const fn gnb(session: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(GNBS + 1 + session % GNB_COUNT)
}

/// The network of every benchmark.
///
/// # Errors
/// None that configuration could cause.
pub fn network(wire: Wire) -> Result<Network, NetworkError> {
    let instance = |id: u16, name: &str, roles, address, to: Option<IpPrefix>, router: Ipv4Addr| Instance {
        id: InstanceId(id),
        name: name.into(),
        roles,
        vrf: VrfId(0),
        port: wire.port(id),
        vlan: VlanId::new(VLANS[usize::from(id)])
            .filter(|_| wire.is_tagged())
            .map(packet::VlanTags::from),
        mtu: 9_216,
        ipv4: Some((address, 24)),
        ipv6: None,
        routes: to
            .into_iter()
            .map(|prefix| Route {
                prefix,
                next_hop: router.into(),
            })
            .collect(),
        dscp: None,
        mirror: None,
        hairpin: rules::network::Hairpin::Router,
        fragmentation: rules::network::Fragmentation::Inner,
        mss: rules::network::Mss::Off,
        egress: None,
    };
    let gnbs = IpPrefix::new(Ipv4Addr::from_bits(GNBS).into(), 16);
    let anywhere = IpPrefix::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    Network::new(vec![
        instance(0, "access", Roles::N3, N3_ADDRESS, gnbs, N3_ROUTER),
        instance(
            1,
            "internet",
            Roles::N6,
            Ipv4Addr::new(10, 0, 6, 1),
            anywhere,
            N6_ROUTER,
        ),
    ])
}

/// Next hop n is the router on the link of instance n.
pub struct Routers;

impl Adjacencies for Routers {
    fn resolve(&self, instance: InstanceId, _next_hop: IpAddr) -> Option<AdjacencyId> {
        Some(AdjacencyId(instance.0.into()))
    }
}

/// The commands about a worker's slices: rates that no packet ever reaches.
pub fn slices(count: u16) -> impl Iterator<Item = Command> {
    let rate = Rate::from_bits_per_second(AMPLE_RATE);
    let of_slice = move |id: u16| {
        Direction::BOTH.map(|direction| Command::SharedMeter {
            holder: LeaseHolder::Worker,
            id: SharedId(id),
            direction,
            rate,
            burst: AMPLE_RATE / 8 / 20,
        })
    };
    (1..=count).flat_map(of_slice)
}

/// The commands about the routers.
pub fn neighbours(network: &Arc<Network>, wire: Wire) -> impl Iterator<Item = Command> + '_ {
    neighbours_at(network, wire.macs())
}

/// The same, of a node whose ports have these link layer addresses.
pub fn neighbours_at(network: &Arc<Network>, macs: Vec<MacAddr>) -> impl Iterator<Item = Command> + use<'_> {
    let routers = [N3_ROUTER, N6_ROUTER];
    network
        .instances()
        .iter()
        .zip(routers)
        .map(move |(instance, address)| {
            let home = interface(instance, &macs);
            Command::Adjacency(AdjacencyChange {
                id: AdjacencyId(instance.id.0.into()),
                neighbour: Some((instance.id, address.into())),
                adjacency: Some(Adjacency::resolved(&home, ROUTER)),
            })
        })
}
