//! The link layer header of packets that a worker sends: each worker's copy of Control's
//! [`Neighbours`](crate::Neighbours).
//!
//! A worker owns it and changes it by Control's commands alone. All slots are allocated at the start.

use std::net::IpAddr;

use flow::{AdjacencyId, InstanceId, PortId};
use hashbrown::HashMap;
use packet::martian::is_martian;
use packet::{MacAddr, VlanTags};
use rules::network::Fragmentation;
use rules::network::multipath::{GroupId, PATHS, Spread};

/// This node on the link of one network instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The instance.
    pub instance: InstanceId,
    /// The port that its frames leave by.
    pub port: PortId,
    /// The tags of its frames.
    pub vlan: Option<VlanTags>,
    /// The port's address.
    pub mac: MacAddr,
    /// Our IPv4 address on the link.
    pub ipv4: Option<std::net::Ipv4Addr>,
    /// The link's IPv4 broadcast address, if it has one.
    pub broadcast: Option<std::net::Ipv4Addr>,
    /// Our IPv6 address on the link.
    pub ipv6: Option<std::net::Ipv6Addr>,
    /// The largest IP packet on the link, octets.
    pub mtu: u16,
    /// What becomes of packets that are longer.
    pub fragmentation: Fragmentation,
    /// Whether tunnels leave by it, so that there are paths with MTUs of their own.
    pub tunnels: bool,
}

impl Interface {
    /// Whether the address is an own one on the link.
    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.ipv4 == Some(v4),
            IpAddr::V6(v6) => self.ipv6 == Some(v6),
        }
    }

    /// Whether a neighbour can have this address: it is a unicast address and not an own one.
    pub fn may_have_neighbour(&self, address: IpAddr) -> bool {
        match address {
            _ if self.has(address) => false,
            _ if is_martian(address) => false,
            IpAddr::V4(v4) => self.broadcast != Some(v4),
            IpAddr::V6(_) => true,
        }
    }
}

/// The most octets of a header without the EtherType of what follows: addresses and two tags.
const MOST: usize = 12 + VlanTags::MAX_LEN;

/// The Ethernet header towards one neighbour, but for the EtherType of what follows it. Half a cache line, so that none
/// of them takes two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Adjacency {
    /// Destination and source, and then one tag if `length` is 16, two if it is 20.
    header: [u8; MOST],
    port: PortId,
    mtu: u16,
    link_mtu: u16,
    length: u8,
    state: State,
    fragmentation: Fragmentation,
    tunnels: bool,
}

const _: () = assert!(size_of::<Adjacency>() == 32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Absent,
    Unresolved,
    Resolved,
}

impl Adjacency {
    /// Frames of `interface` to the station `mac`.
    pub fn resolved(interface: &Interface, mac: MacAddr) -> Self {
        let mut header = [0; MOST];
        header[..6].copy_from_slice(&mac.0);
        header[6..12].copy_from_slice(&interface.mac.0);
        let (tags, octets) = interface
            .vlan
            .map_or(([0; VlanTags::MAX_LEN], 0), VlanTags::octets);
        header[12..].copy_from_slice(&tags);
        let length = 12 + octets as u8;
        Self {
            header,
            port: interface.port,
            mtu: interface.mtu,
            link_mtu: interface.mtu,
            length,
            state: State::Resolved,
            fragmentation: interface.fragmentation,
            tunnels: interface.tunnels,
        }
    }

    /// Packets to this node itself: they enter at `interface` as if a station on its link had sent them, in their first
    /// recirculation. There is no link, so no bound on its length but that of any packet.
    pub fn to_ourselves(interface: &Interface) -> Self {
        Self {
            port: interface.port.with_recirculations(1),
            mtu: u16::MAX,
            link_mtu: u16::MAX,
            tunnels: false,
            ..Self::resolved(interface, interface.mac)
        }
    }

    /// Nothing in its slot.
    const ABSENT: Self = Self {
        header: [0; MOST],
        port: PortId(0),
        mtu: 0,
        link_mtu: 0,
        length: 12,
        state: State::Absent,
        fragmentation: Fragmentation::Inner,
        tunnels: false,
    };

    /// A neighbour of `interface` that is not known yet, or not any more.
    pub fn unresolved(interface: &Interface) -> Self {
        Self {
            state: State::Unresolved,
            ..Self::resolved(interface, MacAddr::ZERO)
        }
    }

    /// Whether frames can be sent.
    #[inline(always)]
    pub fn is_resolved(&self) -> bool {
        self.state == State::Resolved
    }

    /// The port to send by.
    #[inline(always)]
    pub fn port(&self) -> PortId {
        self.port
    }

    /// The largest IP packet that is sent there without a closer look, octets: the link's MTU, or less if a path's is
    /// less ([`Adjacencies::narrow`]).
    #[inline(always)]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The largest IP packet on that link, octets.
    pub fn link_mtu(&self) -> u16 {
        self.link_mtu
    }

    /// The same, if the MTU of some path is `least` octets.
    const fn narrowed(self, least: u16) -> Self {
        let is_narrow = self.tunnels && least < self.link_mtu;
        Self {
            mtu: if is_narrow { least } else { self.link_mtu },
            ..self
        }
    }

    /// What becomes of packets that are longer.
    pub fn fragmentation(&self) -> Fragmentation {
        self.fragmentation
    }

    /// Destination, source and tags: 12, 16 or 20 octets; the EtherType comes next.
    #[inline(always)]
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.length).min(MOST)]
    }
}

/// A change of one slot that every worker carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjacencyChange {
    /// The slot that changes.
    pub id: AdjacencyId,
    /// The neighbour, and the instance on whose link it is; `None` for a path of a group, which is found by its slot
    /// alone.
    pub neighbour: Option<(InstanceId, IpAddr)>,
    /// The header of frames to it; `None` removes the entry.
    pub adjacency: Option<Adjacency>,
}

/// Which slots the paths of groups have: behind all neighbours'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    first: u32,
}

impl Paths {
    pub(crate) const fn behind(capacity: usize) -> Self {
        let first = capacity as u32;
        Self { first }
    }

    pub(crate) const fn slot(self, group: GroupId, path: u8) -> AdjacencyId {
        AdjacencyId(self.first + group.0 as u32 * PATHS as u32 + path as u32)
    }

    /// How many slots there are with those of `groups` groups.
    const fn end(self, groups: usize) -> usize {
        self.first as usize + groups * PATHS as usize
    }
}

/// Adjacencies by slot, and slots by neighbour. Behind the neighbours' slots are those of the paths of groups.
pub struct Adjacencies {
    slots: Box<[Adjacency]>,
    paths: Paths,
    index: HashMap<(InstanceId, IpAddr), AdjacencyId, foldhash::fast::RandomState>,
    /// The least MTU of any path.
    least: u16,
}

impl Adjacencies {
    /// Room for `capacity` neighbours (`NeighboursConfig::capacity`) and for the paths of `groups` groups.
    pub fn new(capacity: usize, groups: usize) -> Self {
        let paths = Paths::behind(capacity);
        Self {
            slots: vec![Adjacency::ABSENT; paths.end(groups)].into_boxed_slice(),
            paths,
            index: HashMap::with_capacity_and_hasher(capacity, foldhash::fast::RandomState::default()),
            least: u16::MAX,
        }
    }

    /// Packets of more than `least` octets that leave where tunnels do have to be looked at: some path takes no more.
    pub fn narrow(&mut self, least: u16) {
        if self.least != least {
            self.least = least;
            for slot in &mut self.slots {
                *slot = slot.narrowed(least);
            }
        }
    }

    /// Carries out Control's change. False, and no change, when its slot is beyond the capacity. What leads to
    /// an own address is found by its slot alone: a packet's destination address does not lead there.
    pub fn apply(&mut self, change: &AdjacencyChange) -> bool {
        let Some(slot) = self.slots.get_mut(change.id.0 as usize) else {
            return false;
        };
        *slot = change.adjacency.unwrap_or(Adjacency::ABSENT).narrowed(self.least);
        match (change.neighbour, change.adjacency) {
            (None, _) => None,
            (Some(_), Some(adjacency)) if adjacency.port.recirculations() > 0 => None,
            (Some(neighbour), Some(_)) => self.index.insert(neighbour, change.id),
            (Some(neighbour), None) => self.index.remove(&neighbour),
        };
        true
    }

    /// What is in a slot; `None` also for a slot that does not exist.
    #[inline]
    pub fn at(&self, id: AdjacencyId) -> Option<&Adjacency> {
        let slot = self.slots.get(id.0 as usize)?;
        (slot.state != State::Absent).then_some(slot)
    }

    /// What is in a slot, if frames can be sent there.
    #[inline(always)]
    pub fn resolved(&self, id: AdjacencyId) -> Option<&Adjacency> {
        let slot = self.slots.get(id.0 as usize)?;
        slot.is_resolved().then_some(slot)
    }

    /// The slot of a path.
    #[inline]
    pub const fn path(&self, group: GroupId, spread: Spread) -> AdjacencyId {
        self.paths.slot(group, spread.path())
    }

    /// The slot of the first path of a group, where there is room for this number of `neighbours`; those of the others
    /// follow.
    pub const fn first_path(neighbours: usize, group: GroupId) -> AdjacencyId {
        Paths::behind(neighbours).slot(group, 0)
    }

    /// The slot of a neighbour.
    pub fn find(&self, instance: InstanceId, address: IpAddr) -> Option<AdjacencyId> {
        self.index.get(&(instance, address)).copied()
    }
}

#[cfg(test)]
mod tests {
    use packet::VlanId;

    use super::*;

    fn interface(vlan: Option<u16>) -> Interface {
        Interface {
            instance: InstanceId(1),
            port: PortId(2),
            vlan: vlan.and_then(VlanId::new).map(VlanTags::from),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            ipv4: None,
            broadcast: None,
            ipv6: None,
            mtu: 1500,
            fragmentation: Fragmentation::Inner,
            tunnels: false,
        }
    }

    #[test]
    fn the_header_has_the_tag_of_the_instance() {
        let peer = MacAddr([2, 0, 0, 0, 0, 9]);
        let plain = Adjacency::resolved(&interface(None), peer);
        assert_eq!(plain.header(), [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1]);
        let tagged = Adjacency::resolved(&interface(Some(300)), peer);
        assert_eq!(
            tagged.header(),
            [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x81, 0, 1, 44]
        );
        assert_eq!(tagged.port(), PortId(2));
        let stacked = Interface {
            vlan: Some(VlanTags::stacked(
                VlanId::from_low_bits(200),
                VlanId::from_low_bits(30),
            )),
            ..interface(None)
        };
        assert_eq!(
            Adjacency::resolved(&stacked, peer).header()[12..],
            [0x88, 0xa8, 0, 200, 0x81, 0, 0, 30]
        );
        assert!(tagged.is_resolved() && !Adjacency::unresolved(&interface(None)).is_resolved());
    }

    #[test]
    fn what_leads_to_ourselves_is_found_by_its_slot_alone() {
        let mut adjacencies = Adjacencies::new(4, 0);
        let address = IpAddr::from([192, 0, 2, 1]);
        let adjacency = Adjacency::to_ourselves(&interface(None));
        assert_eq!(adjacency.header(), [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1]);
        assert_eq!(
            (
                adjacency.port().recirculations(),
                adjacency.port().with_recirculations(0)
            ),
            (1, PortId(2))
        );
        let change = AdjacencyChange {
            id: AdjacencyId(3),
            neighbour: Some((InstanceId(1), address)),
            adjacency: Some(adjacency),
        };
        assert!(adjacencies.apply(&change));
        assert_eq!(adjacencies.find(InstanceId(1), address), None);
        assert_eq!(adjacencies.resolved(AdjacencyId(3)), Some(&adjacency));
    }

    #[test]
    fn a_narrow_path_bounds_where_tunnels_leave() {
        let mut adjacencies = Adjacencies::new(4, 0);
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let with_tunnels = Interface {
            tunnels: true,
            ..interface(None)
        };
        let of = |id, adjacency| AdjacencyChange {
            id: AdjacencyId(id),
            neighbour: None,
            adjacency: Some(adjacency),
        };
        assert!(adjacencies.apply(&of(0, Adjacency::resolved(&with_tunnels, mac))));
        adjacencies.narrow(1400);
        assert!(adjacencies.apply(&of(1, Adjacency::resolved(&with_tunnels, mac))));
        assert!(adjacencies.apply(&of(2, Adjacency::resolved(&interface(None), mac))));
        assert!(adjacencies.apply(&of(3, Adjacency::to_ourselves(&with_tunnels))));
        let mtus = |adjacencies: &Adjacencies| {
            [0, 1, 2, 3].map(|id| {
                let adjacency = adjacencies.at(AdjacencyId(id)).expect("it is there");
                (adjacency.mtu(), adjacency.link_mtu())
            })
        };
        let all = (u16::MAX, u16::MAX);
        assert_eq!(
            mtus(&adjacencies),
            [(1400, 1500), (1400, 1500), (1500, 1500), all]
        );
        adjacencies.narrow(u16::MAX);
        assert_eq!(
            mtus(&adjacencies),
            [(1500, 1500), (1500, 1500), (1500, 1500), all]
        );
    }

    #[test]
    fn changes_come_and_go() {
        let mut adjacencies = Adjacencies::new(4, 0);
        let adjacency = Some(Adjacency::resolved(&interface(None), MacAddr([2, 0, 0, 0, 0, 9])));
        let address = IpAddr::from([192, 0, 2, 9]);
        let mut change = AdjacencyChange {
            id: AdjacencyId(3),
            neighbour: Some((InstanceId(1), address)),
            adjacency,
        };
        assert!(adjacencies.apply(&change));
        assert_eq!(adjacencies.find(InstanceId(1), address), Some(AdjacencyId(3)));
        assert_eq!(adjacencies.at(AdjacencyId(3)), adjacency.as_ref());
        change.adjacency = None;
        assert!(adjacencies.apply(&change));
        assert_eq!(adjacencies.find(InstanceId(1), address), None);
        assert_eq!(adjacencies.at(AdjacencyId(3)), None);
        change.id = AdjacencyId(4);
        assert!(!adjacencies.apply(&change));
    }
}
