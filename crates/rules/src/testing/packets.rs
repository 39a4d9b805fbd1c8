//! Packets, octet by octet: no builder of the product is used, so that none is tested against itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::tuple::proto;
use packet::{Fragment, IpTuple, redirect};
use proptest::prelude::*;

use super::{N3, N3_ADDRESS, N6, N9, N9_ADDRESS, OTHER_N6, UE, UE_V6};
use crate::network::InstanceId;

/// A user's IP packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserPacket {
    /// Source.
    pub src: IpAddr,
    /// Destination, of the same family.
    pub dst: IpAddr,
    /// Protocol.
    pub proto: u8,
    /// Source port, or the upper half of an SPI.
    pub src_port: u16,
    /// Destination port, or the lower half of an SPI.
    pub dst_port: u16,
    /// TOS or Traffic Class.
    pub tos: u8,
    /// Flow label; not used in IPv4.
    pub flow_label: u32,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Whether it is a fragment behind the first.
    pub is_later_fragment: bool,
    /// Octets behind the first 24 of the transport header.
    pub payload: Vec<u8>,
}

impl UserPacket {
    /// A UDP packet with some octets in it.
    pub fn udp(src: impl Into<IpAddr>, dst: impl Into<IpAddr>, src_port: u16, dst_port: u16) -> Self {
        Self {
            src: src.into(),
            dst: dst.into(),
            proto: proto::UDP,
            src_port,
            dst_port,
            tos: 0,
            flow_label: 0,
            ttl: 64,
            is_later_fragment: false,
            payload: vec![0xab; 16],
        }
    }

    /// Its octets.
    pub fn bytes(&self) -> Vec<u8> {
        let transport = self.transport();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.ipv4(src, dst, &transport),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.ipv6(src, dst, &transport),
            _ => Vec::new(),
        }
    }

    /// Its octets, those of TCP with a checksum and as a client sends them that is somewhere in a connection with a
    /// server that redirects (TS 29.244 §5.4.7), or nowhere; the first octet of the payload says where. Only the
    /// product knows what the server begins with.
    pub fn as_client(&self) -> Vec<u8> {
        use packet::tcp::flags::{ACK, FIN, PSH, RST, SYN};
        let mut octets = self.bytes();
        let tuple = IpTuple::parse(&octets, octets.len());
        let Some(tuple) = tuple
            .ok()
            .filter(|tuple| tuple.proto == proto::TCP && tuple.fragment == Fragment::None)
        else {
            return octets;
        };
        let where_to = usize::from(self.payload.first().copied().unwrap_or(self.tos));
        let flags = [SYN, ACK, ACK | PSH, ACK | FIN, ACK, RST, SYN | ACK, FIN][where_to % 8];
        // Of a response of 129 octets.
        let had = [1, 1, 2, 3, 130, 131, 132, 7000][where_to / 8 % 8];
        let short = redirect::TAKES_SHORT * u32::from(where_to & 64 != 0);
        let start = redirect::initial_sequence(redirect::Secret::default(), &tuple) | short;
        let segment = &mut octets[tuple.l4_offset.into()..];
        segment[4..8].copy_from_slice(&[0xff, 0xff, 0xff, where_to as u8]);
        segment[8..12].copy_from_slice(&start.wrapping_add(had).to_be_bytes());
        segment[13] = flags;
        // The payload as options, and a size among them.
        if where_to & 128 != 0 && segment.len().is_multiple_of(4) && segment.len() <= 60 {
            segment[12] = (segment.len() as u8 / 4) << 4;
            let [high, low] = [536u16, 1219, 1220, 1460][where_to / 8 % 4].to_be_bytes();
            segment[20..24].copy_from_slice(&[2, 4, high, low]);
        }
        let _ = packet::tcp::fill_checksum(&tuple.addrs, segment);
        segment[16] ^= u8::from(where_to == 9);
        octets
    }

    /// 24 octets that hold a header of any of the protocols, and the payload.
    fn transport(&self) -> Vec<u8> {
        let [a, b] = self.src_port.to_be_bytes();
        let [c, d] = self.dst_port.to_be_bytes();
        let mut octets = vec![0; 24];
        // AH has its SPI four octets further on.
        let at = if self.proto == proto::AH { 4 } else { 0 };
        octets[at..at + 4].copy_from_slice(&[a, b, c, d]);
        match self.proto {
            proto::UDP => octets[4..6].copy_from_slice(&(24 + self.payload.len() as u16).to_be_bytes()),
            proto::TCP => octets[12] = 0x50,
            _ => {}
        }
        octets.extend(&self.payload);
        octets
    }

    fn ipv4(&self, src: Ipv4Addr, dst: Ipv4Addr, transport: &[u8]) -> Vec<u8> {
        let len = (20 + transport.len()) as u16;
        let offset = if self.is_later_fragment { 3u16 } else { 0 };
        let mut header = vec![0x45, self.tos];
        header.extend(len.to_be_bytes());
        header.extend([0x12, 0x34]);
        header.extend(offset.to_be_bytes());
        header.extend([self.ttl, self.proto, 0, 0]);
        header.extend(src.octets());
        header.extend(dst.octets());
        let checksum = checksum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header.extend(transport);
        header
    }

    fn ipv6(&self, src: Ipv6Addr, dst: Ipv6Addr, transport: &[u8]) -> Vec<u8> {
        let first = 6 << 28 | u32::from(self.tos) << 20 | self.flow_label & 0xf_ffff;
        let fragment = if self.is_later_fragment { 8 } else { 0 };
        let mut octets = first.to_be_bytes().to_vec();
        octets.extend(((transport.len() + fragment) as u16).to_be_bytes());
        octets.extend([if self.is_later_fragment { 44 } else { self.proto }, self.ttl]);
        octets.extend(src.octets());
        octets.extend(dst.octets());
        if self.is_later_fragment {
            octets.extend([self.proto, 0, 0, 0x18, 0, 0, 0, 1]);
        }
        octets.extend(transport);
        octets
    }
}

/// The IPv4 header checksum of `header`, whose own field is zero.
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// A packet as it reaches the node: from its outermost IP header on.
#[derive(Clone, PartialEq, Eq)]
pub struct Sent {
    /// The network instance that it comes in by.
    pub ingress: InstanceId,
    /// Its octets.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instance {}: ", self.ingress)?;
        self.bytes.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// `payload` in GTP-U in UDP in IPv4, as a peer sends it to `local`: with a PDU Session Container if `container`
/// holds one's two octets, then with `others`, extension headers by type and content of 4n-2 octets.
pub fn tunnelled(
    local: Ipv4Addr,
    teid: u32,
    message_type: u8,
    container: Option<[u8; 2]>,
    others: &[(u8, Vec<u8>)],
    payload: &[u8],
) -> Vec<u8> {
    let mut extensions: Vec<(u8, Vec<u8>)> = container
        .into_iter()
        .map(|octets| (0x85, octets.to_vec()))
        .collect();
    extensions.extend(others.iter().cloned());
    let mut body = Vec::new();
    if let Some((first, _)) = extensions.first() {
        body.extend([0, 0, 0, *first]);
    }
    for (place, (_, content)) in extensions.iter().enumerate() {
        body.push(((content.len() + 2) / 4) as u8);
        body.extend(content);
        body.push(extensions.get(place + 1).map_or(0, |(kind, _)| *kind));
    }
    body.extend(payload);
    let mut octets = vec![0; 20];
    octets.extend([0x08, 0x68, 0x08, 0x68]);
    octets.extend(((body.len() + 16) as u16).to_be_bytes());
    octets.extend([
        0,
        0,
        if extensions.is_empty() { 0x30 } else { 0x34 },
        message_type,
    ]);
    octets.extend((body.len() as u16).to_be_bytes());
    octets.extend(teid.to_be_bytes());
    octets.extend(body);
    let len = (octets.len() as u16).to_be_bytes();
    octets[..12].copy_from_slice(&[0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, proto::UDP, 0, 0]);
    octets[12..16].copy_from_slice(&Ipv4Addr::new(10, 0, 3, 7).octets());
    octets[16..20].copy_from_slice(&local.octets());
    let checksum = checksum(&octets[..20]);
    octets[10..12].copy_from_slice(&checksum.to_be_bytes());
    octets
}

pub(super) const REMOTES: [&str; 4] = ["192.0.2.1", "198.51.100.7", "192.0.2.1", "239.1.1.1"];
pub(super) const REMOTES_V6: [&str; 3] = ["2001:db8:ffff::1", "2001:db8:ffff::2", "ff02::2"];

fn user_v4() -> BoxedStrategy<IpAddr> {
    prop_oneof![4 => Just(UE), 1 => Just(Ipv4Addr::new(10, 45, 0, 3)), 1 => Just(Ipv4Addr::new(10, 99, 0, 1))]
        .prop_map(IpAddr::V4)
        .boxed()
}

fn user_v6() -> BoxedStrategy<IpAddr> {
    let host = |bits: u128| Ipv6Addr::from_bits(UE_V6.to_bits() | bits);
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let other = Ipv6Addr::new(0x2001, 0xdb8, 0x45, 9, 0, 0, 0, 1);
    prop_oneof![3 => Just(host(1)), 2 => Just(host(7)), 1 => Just(other), 1 => Just(link_local)]
        .prop_map(IpAddr::V6)
        .boxed()
}

fn remote(pool: &'static [&'static str]) -> BoxedStrategy<IpAddr> {
    prop::sample::select(pool)
        .prop_map(|text| text.parse().expect("an address"))
        .boxed()
}

/// A packet between a UE's address (mostly) and a remote one, which may be a UE's: uplink if `is_uplink`.
pub fn any_user_packet(is_uplink: bool) -> BoxedStrategy<UserPacket> {
    let v4 = (user_v4(), prop_oneof![5 => remote(&REMOTES), 1 => user_v4()]);
    let v6 = (user_v6(), prop_oneof![5 => remote(&REMOTES_V6), 1 => user_v6()]);
    let protocols = [
        proto::TCP,
        proto::UDP,
        proto::ICMP,
        proto::ICMPV6,
        proto::ESP,
        proto::AH,
        proto::SCTP,
    ];
    let fields = (
        prop::sample::select(protocols.to_vec()),
        prop::sample::select(&[0u16, 53, 80, 1500][..]),
        prop::sample::select(&[0u16, 53, 80, 1500][..]),
        prop::sample::select(&[0u8, 0xb8, 0xb9, 0x28][..]),
        0..2u32,
        prop_oneof![9 => Just(64u8), 1 => 0..3u8],
        prop::bool::weighted(0.1),
        any_payload(),
    );
    (prop_oneof![v4, v6], fields)
        .prop_map(move |((user, remote), fields)| {
            let (src, dst) = if is_uplink { (user, remote) } else { (remote, user) };
            let (proto, src_port, dst_port, tos, flow_label, ttl, is_later_fragment, payload) = fields;
            UserPacket {
                src,
                dst,
                proto,
                src_port,
                dst_port,
                tos,
                flow_label,
                ttl,
                is_later_fragment,
                payload,
            }
        })
        .boxed()
}

/// Short or long; a few of the long ones empty the smallest bucket of a meter.
fn any_payload() -> BoxedStrategy<Vec<u8>> {
    let len = prop_oneof![0..32usize, 1000..1300usize];
    (any::<u8>(), len)
        .prop_map(|(first, len)| (0..len).map(|place| first.wrapping_add(place as u8)).collect())
        .boxed()
}

pub(super) const TEIDS: [u32; 3] = [0x1001, 0x1002, 0x1003];

/// Extension headers besides the PDU Session Container, mostly none: known ones, and an unknown one of each kind of
/// comprehension.
fn other_extensions() -> BoxedStrategy<Vec<(u8, Vec<u8>)>> {
    let one = (
        prop::sample::select(&[0x20u8, 0xc0, 0x84, 0x0f, 0x41, 0x9f, 0xdf][..]),
        1..3usize,
        any::<u8>(),
    );
    let one = one.prop_map(|(kind, words, fill)| (kind, vec![fill; 4 * words - 2]));
    prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(one, 1..3)].boxed()
}

fn any_container() -> BoxedStrategy<Option<[u8; 2]>> {
    let uplink = (0..3u8).prop_map(|qfi| Some([0x10, qfi + 8]));
    let downlink = (0..3u8, any::<bool>()).prop_map(|(qfi, rqi)| Some([0, u8::from(rqi) << 6 | (qfi + 8)]));
    prop_oneof![1 => Just(None), 2 => uplink, 2 => downlink].boxed()
}

fn any_tunnelled() -> BoxedStrategy<Sent> {
    let local = prop_oneof![3 => Just((N3, N3_ADDRESS)), 1 => Just((N9, N9_ADDRESS))];
    let kind = prop_oneof![8 => Just(255u8), 1 => Just(254u8), 1 => Just(253u8)];
    let user = any::<bool>().prop_flat_map(any_user_packet);
    let padding = prop_oneof![9 => Just(0usize), 1 => 1..5usize];
    let parts = (
        local,
        prop::sample::select(&TEIDS[..]),
        kind,
        any_container(),
        other_extensions(),
        user,
        (padding, prop::bool::weighted(0.8)),
    );
    parts
        .prop_map(
            |((ingress, local), teid, kind, container, others, user, (padding, has_elements))| {
                let mut payload = match kind {
                    254 => Vec::new(),
                    // Tunnel Status Information (TS 29.281 §8), or what is none.
                    253 if has_elements => vec![230, 0, 1, 1],
                    _ => user.as_client(),
                };
                payload.extend(vec![0; if kind == 255 { padding } else { 0 }]);
                Sent {
                    ingress,
                    bytes: tunnelled(local, teid, kind, container, &others, &payload),
                }
            },
        )
        .boxed()
}

fn any_plain() -> BoxedStrategy<Sent> {
    let ingress = prop_oneof![4 => Just(N6), 1 => Just(OTHER_N6)];
    let padding = prop_oneof![9 => Just(0usize), 1 => 1..20usize];
    (ingress, any_user_packet(false), padding)
        .prop_map(|(ingress, user, padding)| {
            let mut bytes = user.bytes();
            bytes.extend(vec![0; padding]);
            Sent { ingress, bytes }
        })
        .boxed()
}

/// A packet that often belongs to a session of [`runnable_rules`](super::runnable_rules).
pub fn any_sent() -> BoxedStrategy<Sent> {
    prop_oneof![3 => any_tunnelled(), 2 => any_plain()].boxed()
}
