//! Ports that are several (link aggregation): which member a packet leaves by, and which LAG a packet of a member came
//! in by. Whether a link carries anything is Control's decision ([`transport::lag`]).
//!
//! A packet's member follows from its user packet's addresses and ports, so that packets of a flow keep their order.
//! There are 64 paths; when a member goes, its paths are dealt out to the others, and theirs stay where they are.
//!
//! Messages of our own, and those that a tunnel hands on, have no user packet: their outer addresses and the TEID
//! choose, or the ports. So End Markers of many tunnels spread over the members. No choice could keep them behind all
//! packets of their tunnels, whose flows take all members.

use flow::{FlowKey4, FlowKey6, PortId, prefetch};
use packet::Fragment;
use packet::eth::{L2, ether_type};
use packet::{Addrs, IpFrame, IpTuple, PacketBuf};
use rules::network::multipath::{PATHS, next_of};
use transport::lag::LagShare;

use crate::burst::descriptor::{Descriptor, Family, Fate, Keys};
use crate::io::PacketMetadata;

/// Octets of a UDP datagram before the TEID of its GTP-U message.
const TEID_AT: usize = packet::udp::HEADER_LEN + 4;

/// The header fields whose hash selects the member of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LagHash {
    /// Addresses and ports of user packets.
    #[default]
    L34,
    /// Addresses alone: fragments keep the order of their datagram.
    L3,
}

/// A LAG as a worker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagPorts {
    /// The port that it is; packets neither come in nor leave by its own queues.
    pub port: PortId,
    /// Its members, 1 to [`transport::lag::MOST_MEMBERS`].
    pub members: Vec<PortId>,
    /// Whether members run LACP.
    pub lacp: bool,
    /// The header fields whose hash selects the member.
    pub hash: LagHash,
}

/// What a port is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Alone,
    /// The LAG at this index, and the index among its members.
    Member(u8, u8),
    /// The LAG at this index.
    Lag(u8),
}

struct Lag {
    ports: LagPorts,
    collecting: u8,
    /// The member that each path takes.
    paths: [Option<PortId>; PATHS as usize],
}

/// All LAGs.
pub(crate) struct Lags {
    all: Vec<Lag>,
    /// By port.
    roles: Vec<Role>,
}

impl Lags {
    /// No member carries anything before Control says so.
    pub fn new(ports: usize, all: &[LagPorts]) -> Self {
        let mut roles = vec![Role::Alone; ports];
        let mut note = |port: PortId, role| {
            if let Some(index) = roles.get_mut(port.index()) {
                *index = role;
            }
        };
        for (number, lag) in (0..).zip(all) {
            note(lag.port, Role::Lag(number));
            (0..)
                .zip(&lag.members)
                .for_each(|(index, member)| note(*member, Role::Member(number, index)));
        }
        let all = all.iter().map(|ports| Lag {
            ports: ports.clone(),
            collecting: 0,
            paths: [None; PATHS as usize],
        });
        Self {
            all: all.collect(),
            roles,
        }
    }

    /// Whether there are none, so that nothing has to be done for a burst.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The members of a LAG; none of another port.
    #[cold]
    pub fn members(&self, port: PortId) -> &[PortId] {
        let lag = self.all.iter().find(|lag| lag.ports.port == port);
        lag.map_or(&[], |lag| &lag.ports.members)
    }

    /// Takes over which members carry; gives the member for what has no flow.
    pub fn set(&mut self, port: PortId, share: LagShare) -> Option<PortId> {
        let lag = self.all.iter_mut().find(|lag| lag.ports.port == port)?;
        lag.collecting = share.collecting;
        let members = &lag.ports.members;
        for (path, member) in (0..).zip(&mut lag.paths) {
            let index = next_of(path, members.len(), |index| share.distributing >> index & 1 == 1);
            *member = index.map(|index| members[index]);
        }
        lag.paths[0]
    }

    /// The LAG that a port is.
    fn at(&self, port: PortId) -> Option<&Lag> {
        match self.roles.get(port.index()) {
            Some(&Role::Lag(lag)) => self.all.get(usize::from(lag)),
            _ => None,
        }
    }

    /// Where a packet of our own to `port` leaves: by a member of a LAG, if one carries.
    #[inline]
    pub fn way<B: PacketBuf>(&self, port: PortId, buf: &B) -> PortId {
        match self.at(port) {
            Some(lag) => lag.paths[path_of(buf, lag.ports.hash == LagHash::L34)].unwrap_or(port),
            None => port,
        }
    }

    /// By which port packets leave that were to leave by this one: by another member of its LAG, if it carries nothing
    /// any more; by the LAG itself, which leads nowhere, if none does.
    pub fn carrier(&self, port: PortId) -> PortId {
        let Some(&Role::Member(lag, _)) = self.roles.get(port.index()) else {
            return port;
        };
        match self.all.get(usize::from(lag)) {
            Some(lag) if !lag.paths.contains(&Some(port)) => lag.paths[0].unwrap_or(lag.ports.port),
            _ => port,
        }
    }

    /// What came in by `port`, as if it had come in by its LAG. Slow protocols stay the member's own, and what a member
    /// may not take: that has no network instance.
    #[cold]
    #[inline(never)]
    pub fn receive<B: PacketBuf + PacketMetadata>(&self, port: PortId, burst: &mut [B]) {
        let Some(&Role::Member(lag, index)) = self.roles.get(port.index()) else {
            return;
        };
        let Some(lag) = self.all.get(usize::from(lag)) else {
            return;
        };
        if lag.collecting >> index & 1 == 0 {
            return;
        }
        if !lag.ports.lacp {
            return burst.iter_mut().for_each(|buf| buf.set_ingress(lag.ports.port));
        }
        // They are not in the cache yet, and each would be waited for.
        burst.iter().for_each(|buf| prefetch::read(buf.data()));
        for buf in burst {
            if !is_slow(buf.data()) {
                buf.set_ingress(lag.ports.port);
            }
        }
    }

    /// Chooses members for packets that leave by LAGs. What finds none goes to the LAG's own port, which has no queues.
    #[cold]
    #[inline(never)]
    pub fn distribute<B: PacketBuf>(&self, burst: &[B], descriptors: &mut [Descriptor], keys: &Keys) {
        // Most packets of a burst leave by one.
        let mut last = (PortId(u16::MAX), None);
        for (index, (buf, descriptor)) in burst.iter().zip(descriptors).enumerate() {
            let Fate::Send(port) = descriptor.fate else {
                continue;
            };
            if port != last.0 {
                last = (port, self.at(port));
            }
            let Some(lag) = last.1 else {
                continue;
            };
            let ports = lag.ports.hash == LagHash::L34;
            let path = match descriptor.family {
                Family::V4 => path_v4(&keys.v4[index % crate::BURST], ports),
                Family::V6 => path_v6(&keys.v6[index % crate::BURST], ports),
                Family::None => path_of(buf, ports),
            };
            if let Some(member) = lag.paths[path] {
                descriptor.fate = Fate::Send(member);
            }
        }
    }
}

/// The path of a frame without a user packet that keys are known of: by its addresses, and the TEID of a GTP-U message,
/// or the ports of others if they are wanted. What is no IP takes the first.
#[cold]
fn path_of<B: PacketBuf>(buf: &B, ports: bool) -> usize {
    let frame = buf.data();
    let ip = L2::parse(frame).and_then(|l2| IpFrame::parse(frame, buf.len(), &l2));
    let Ok(ip) = ip else { return 0 };
    let IpTuple {
        src_port, dst_port, ..
    } = ip.tuple;
    let teid = ip.ip_offset() + usize::from(ip.tuple.l4_offset) + TEID_AT;
    let ends = match frame.get(teid..teid + 4) {
        Some(&[a, b, c, d]) if ip.may_be_gtpu() => [[a, b], [c, d]].map(u16::from_be_bytes),
        _ if ports && ip.tuple.fragment == Fragment::None => [src_port, dst_port],
        _ => [0; 2],
    };
    match ip.tuple.addrs {
        Addrs::V4 { src, dst } => {
            let key = FlowKey4 {
                source: src,
                destination: dst,
                ports: ends,
                ..FlowKey4::default()
            };
            path_v4(&key, true)
        }
        Addrs::V6 { src, dst } => {
            let key = FlowKey6 {
                source: src,
                destination: dst,
                ports: ends,
                ..FlowKey6::default()
            };
            path_v6(&key, true)
        }
    }
}

fn is_slow(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&ether_type::SLOW.to_be_bytes())
}

/// The upper 6 bits of a product hang on all bits of the value (D. Knuth, Fibonacci hashing).
#[inline(always)]
const fn path(value: u64) -> usize {
    const _: () = assert!(PATHS == 64);
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[inline(always)]
fn ports_of(ports: [u16; 2], protocol: u8, wanted: bool) -> u64 {
    let [source, destination] = ports;
    if wanted {
        (u64::from(source) << 16 | u64::from(destination)) << 8 | u64::from(protocol)
    } else {
        0
    }
}

#[inline(always)]
fn path_v4(key: &FlowKey4, ports: bool) -> usize {
    let half = |address: [u8; 4]| u64::from(u32::from_be_bytes(address));
    let addresses = half(key.source) << 32 | half(key.destination);
    path(addresses.wrapping_add(ports_of(key.ports, key.protocol, ports).wrapping_mul(0xff51_afd7_ed55_8ccd)))
}

#[inline(always)]
fn path_v6(key: &FlowKey6, ports: bool) -> usize {
    let fold = |address: [u8; 16]| {
        let bits = u128::from_be_bytes(address);
        (bits >> 64) as u64 ^ (bits as u64).rotate_left(29)
    };
    let addresses = fold(key.source)
        .wrapping_mul(0xff51_afd7_ed55_8ccd)
        .wrapping_add(fold(key.destination));
    let mixed =
        addresses.wrapping_add(ports_of(key.ports, key.protocol, ports).wrapping_mul(0xc4ce_b9fe_1a85_ec53));
    // UEs' prefixes differ in bits that one product does not spread.
    path(mixed ^ mixed >> 32)
}

#[cfg(test)]
mod tests {
    use packet::DropReason;

    use super::*;
    use crate::io::mem::MemBuf;

    const LAG: PortId = PortId(3);

    fn lags() -> Lags {
        let ports = LagPorts {
            port: LAG,
            members: vec![PortId(0), PortId(1), PortId(2)],
            lacp: true,
            hash: LagHash::L34,
        };
        Lags::new(5, &[ports])
    }

    const fn share(mask: u8) -> LagShare {
        LagShare {
            collecting: mask,
            distributing: mask,
        }
    }

    fn key(flow: u32) -> FlowKey4 {
        FlowKey4 {
            source: (0x0a2d_0000 + flow % 251).to_be_bytes(),
            destination: [203, 0, 113, (flow % 7) as u8],
            ports: [(40_000 + flow % 13) as u16, 443],
            protocol: 6,
            ..FlowKey4::default()
        }
    }

    fn member_of(lags: &Lags, key: FlowKey4) -> Option<PortId> {
        let mut keys = Keys::new();
        keys.v4[1] = key;
        let burst = [MemBuf::new(&[]), MemBuf::new(&[])];
        let mut descriptors = [Descriptor::NEW, Descriptor::NEW];
        descriptors[0].fate = Fate::Drop(DropReason::NoRoute);
        (descriptors[1].fate, descriptors[1].family) = (Fate::Send(LAG), Family::V4);
        lags.distribute(&burst, &mut descriptors, &keys);
        assert_eq!(descriptors[0].fate, Fate::Drop(DropReason::NoRoute));
        match descriptors[1].fate {
            Fate::Send(port) => Some(port).filter(|port| *port != LAG),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flows_are_spread_and_stay_where_they_are() {
        let mut lags = lags();
        assert_eq!(member_of(&lags, key(1)), None, "no member carries yet");
        assert_eq!(lags.set(LAG, share(7)), Some(PortId(0)));
        let with_all: Vec<_> = (0..3_000).map(|flow| member_of(&lags, key(flow))).collect();
        for member in 0..3 {
            let of_it = with_all
                .iter()
                .filter(|port| **port == Some(PortId(member)))
                .count();
            assert!((700..1_300).contains(&of_it), "member {member}: {of_it} of 3000");
        }
        lags.set(LAG, share(5));
        for (flow, before) in (0..).zip(&with_all) {
            let now = member_of(&lags, key(flow));
            match before {
                Some(PortId(1)) => assert!(now.is_some_and(|port| port != PortId(1))),
                _ => assert_eq!(now, *before),
            }
        }
        lags.set(LAG, share(0));
        assert_eq!(member_of(&lags, key(1)), None);
        assert_eq!(lags.set(PortId(4), share(1)), None, "that is no LAG");
    }

    #[test]
    fn ports_count_where_they_are_to() {
        let with = |port| FlowKey4 {
            ports: [port, 443],
            ..key(1)
        };
        let paths = |ports: bool| {
            let mut all: Vec<_> = (0..64).map(|port| path_v4(&with(port), ports)).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        assert_eq!(paths(false), 1);
        assert!(paths(true) > 30, "{}", paths(true));
        let v6 = |host: u32| FlowKey6 {
            source: (0x2001_0db8_u128 << 96 | u128::from(host) << 64).to_be_bytes(),
            destination: [0x20; 16],
            ..FlowKey6::default()
        };
        let mut all: Vec<_> = (0..64).map(|host| path_v6(&v6(host), true)).collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 30, "{}", all.len());
    }

    /// A message of a tunnel, in Ethernet.
    fn message(teid: u32) -> MemBuf {
        let end = |last| std::net::SocketAddr::new([10, 0, 3, last].into(), 2152);
        let gtpu = [&[0x30, 254, 0, 0][..], &teid.to_be_bytes()].concat();
        let packet = packet::build::packet::udp(end(1), end(7), &gtpu).expect("a packet");
        MemBuf::new(&[&[2; 12][..], &[8, 0], &packet].concat())
    }

    #[test]
    fn messages_of_tunnels_are_spread_and_keep_to_their_members() {
        let mut lags = lags();
        assert_eq!(lags.way(LAG, &message(1)), LAG, "no member carries yet");
        lags.set(LAG, share(7));
        let ways: Vec<_> = (0..300).map(|teid| lags.way(LAG, &message(teid))).collect();
        for member in 0..3 {
            let of_it = ways.iter().filter(|way| **way == PortId(member)).count();
            assert!((60..140).contains(&of_it), "member {member}: {of_it} of 300");
        }
        // What a tunnel hands on goes as what we make for it.
        for (teid, way) in (0..).zip(&ways) {
            let mut descriptors = [Descriptor::NEW];
            descriptors[0].fate = Fate::Send(LAG);
            lags.distribute(&[message(teid)], &mut descriptors, &Keys::new());
            assert_eq!(descriptors[0].fate, Fate::Send(*way));
        }
        assert_eq!(lags.way(PortId(4), &message(1)), PortId(4), "a port of its own");
        assert_eq!(lags.way(PortId(1), &message(1)), PortId(1), "a member");
        assert_eq!(lags.way(LAG, &MemBuf::new(&[2; 60])), PortId(0), "no IP");
        assert_eq!(lags.way(LAG, &MemBuf::new(&[])), PortId(0));
    }

    #[test]
    fn what_members_take_is_the_lags() {
        let mut lags = lags();
        lags.set(
            LAG,
            LagShare {
                collecting: 2,
                distributing: 0,
            },
        );
        let came_by = |port: u16, ether_type: u16| {
            let frame = [&[2; 12][..], &ether_type.to_be_bytes(), &[0; 46]].concat();
            let mut burst = [MemBuf::new(&frame)];
            burst[0].set_ingress(PortId(port));
            lags.receive(PortId(port), &mut burst);
            burst[0].ingress()
        };
        assert_eq!(came_by(1, 0x0800), LAG);
        assert_eq!(came_by(1, ether_type::SLOW), PortId(1));
        assert_eq!(came_by(0, 0x0800), PortId(0), "not one that is not collecting");
        assert_eq!(came_by(4, 0x0800), PortId(4), "not a port of its own");
    }
}
