//! Long lists of rules of 5-tuples, and packets that they describe: drawn from a seed, so that a list of very many
//! rules is written down in one number. A rule is also there as entries of a classifier that has neither UEs nor
//! directions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::{Direction, LocalId, VrfId};
use packet::tuple::proto;
use packet::{IpTuple, Teid};

use super::{UE, UE_V6, UserPacket};
use crate::model::{Content, Precedence, PredefinedRule, SdfFilter};
use crate::packet_view::Side;
use crate::prefix::IpPrefix;
use crate::sdf::{Address, Description, Endpoint, FlowDescription, PortRange, PortRanges, Written};

/// The tunnel of what the UE sends.
pub const TEID: Teid = Teid(0x1001);

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// The same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A pattern over 5-tuples by the ends that it is about.
#[derive(Clone, Debug)]
struct Pattern {
    protocol: Option<u8>,
    ue: Endpoint,
    remote: Endpoint,
    written: Written,
}

/// A rule of a long list.
#[derive(Clone, Debug)]
pub struct LongRule {
    /// It rises with the places in the list, and several rules may have one.
    pub precedence: u32,
    /// Which way its packets go; `None`: either.
    pub direction: Option<Direction>,
    patterns: Vec<Pattern>,
}

/// A pattern as a classifier of 5-tuples takes it.
#[derive(Clone, Copy, Debug)]
pub struct AclEntry {
    /// The place of the rule in its list, from 1.
    pub id: u32,
    /// None is all.
    pub protocol: Option<u8>,
    /// Of the packet's source.
    pub source: IpPrefix,
    /// Of its destination.
    pub destination: IpPrefix,
    /// Of its source; packets without ports have port 0.
    pub source_ports: PortRange,
    /// Of its destination.
    pub destination_ports: PortRange,
}

/// A list of rules in the order of matching. Narrow ones mostly come before wide ones, so that these leave them
/// something.
pub fn long_list(draw: &mut Draw, count: usize) -> Vec<LongRule> {
    let mut rules: Vec<LongRule> = (0..count).map(|_| any_rule(draw, count)).collect();
    rules.sort_by_key(|rule| rule.precedence);
    rules
}

/// A list in which a rule is of one server: prefixes of four lengths that are next to each other, and one port.
pub fn server_list(count: usize) -> Vec<LongRule> {
    let server = |number: usize| Endpoint {
        address: prefix(server_address(number), 32 - (number % 4) as u8),
        ports: [PortRange::single(443)].into_iter().collect(),
    };
    let rule = |number: usize| LongRule {
        precedence: number as u32,
        direction: None,
        patterns: vec![Pattern {
            protocol: Some(proto::TCP),
            ue: Endpoint {
                address: Address::Assigned,
                ..Endpoint::ANY
            },
            remote: server(number),
            written: Written::Out,
        }],
    };
    (0..count).map(rule).collect()
}

fn server_address(number: usize) -> IpAddr {
    Ipv4Addr::from_bits(0x6440_0000 + number as u32).into()
}

/// A packet that a UE sends to one of twice as many servers as [`server_list`] has rules of.
pub fn packet_to_server(draw: &mut Draw, count: usize) -> UserPacket {
    UserPacket {
        proto: proto::TCP,
        payload: Vec::new(),
        ..UserPacket::udp(UE, server_address(draw.below(2 * count)), 40_000, 443)
    }
}

/// The list as rules of a rulebase, for packets of both directions. Their contents are their places, from 1.
pub fn predefined_rules(rules: &[LongRule]) -> Vec<PredefinedRule> {
    let rule = |(place, rule): (usize, &LongRule)| PredefinedRule {
        precedence: Precedence(rule.precedence),
        filters: rule.filters(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: Some(Content {
            name: (place + 1).to_string().into(),
            rating_group: None,
            service_id: None,
        }),
    };
    rules.iter().enumerate().map(rule).collect()
}

fn any_rule(draw: &mut Draw, count: usize) -> LongRule {
    let is_ipv4 = !draw.one_in(3);
    let patterns = 1 + draw.below(8) / 6 + draw.below(16) / 15;
    let patterns: Vec<Pattern> = (0..patterns).map(|_| any_pattern(draw, is_ipv4)).collect();
    let breadth = patterns.iter().map(breadth).max().unwrap_or(0);
    LongRule {
        precedence: (count * breadth + draw.below(2 * count)) as u32,
        direction: draw.of(&[None, None, Some(Direction::Uplink), Some(Direction::Downlink)]),
        patterns,
    }
}

/// How much a pattern describes, roughly.
fn breadth(pattern: &Pattern) -> usize {
    let steps = |is_ipv4| if is_ipv4 { [30, 24, 16] } else { [112, 56, 40] };
    let of = |end: &Endpoint| match end.address {
        Address::Prefix(prefix) => {
            let wider = steps(prefix.is_ipv4())
                .into_iter()
                .filter(|len| prefix.len() < *len);
            wider.count()
        }
        _ => 3,
    };
    of(&pattern.remote) + usize::from(pattern.remote.ports.is_empty())
}

fn any_pattern(draw: &mut Draw, is_ipv4: bool) -> Pattern {
    let [tcp, udp] = [Some(proto::TCP), Some(proto::UDP)];
    let others = [Some(proto::SCTP), Some(proto::ESP), Some(proto::ICMP)];
    let remote = match draw.below(40) {
        0 => Address::Any,
        1 => Address::Assigned,
        _ => any_remote(draw, is_ipv4),
    };
    let ue = match draw.below(8) {
        0 => Address::Any,
        1 => ue_prefix(draw, is_ipv4),
        _ => Address::Assigned,
    };
    let is_out = remote == Address::Assigned || !draw.one_in(4);
    Pattern {
        protocol: if draw.one_in(8) {
            draw.of(&others)
        } else {
            draw.of(&[None, tcp, tcp, udp])
        },
        ue: Endpoint {
            address: ue,
            ports: if draw.one_in(6) {
                any_ports(draw)
            } else {
                PortRanges::new()
            },
        },
        remote: Endpoint {
            address: remote,
            ports: if draw.one_in(3) {
                PortRanges::new()
            } else {
                any_ports(draw)
            },
        },
        written: if is_out { Written::Out } else { Written::In },
    }
}

/// Prefixes that lie within each other.
fn any_remote(draw: &mut Draw, is_ipv4: bool) -> Address {
    let address = remote_address(draw, is_ipv4);
    let lengths: &[u8] = match is_ipv4 {
        true => &[0, 8, 14, 17, 20, 22, 24, 24, 26, 28, 30, 31, 32, 32, 32, 32],
        false => &[0, 29, 32, 44, 48, 56, 60, 64, 64, 65, 96, 120, 126, 128, 128, 128],
    };
    prefix(address, draw.of(lengths))
}

fn prefix(address: IpAddr, len: u8) -> Address {
    Address::Prefix(IpPrefix::new(address, len).expect("a length of this family"))
}

fn remote_address(draw: &mut Draw, is_ipv4: bool) -> IpAddr {
    let number = draw.number();
    match is_ipv4 {
        // Of 128 networks with 128 hosts each.
        true => Ipv4Addr::from_bits(0x6440_0000 | number as u32 & 0x7_f07f).into(),
        false => {
            let network = u128::from(number as u32 & 0x0f03) << 72 | u128::from(number >> 32 & 0x0703) << 48;
            Ipv6Addr::from_bits(0x2001_0db8 << 96 | network | u128::from(number >> 48 & 0xff)).into()
        }
    }
}

fn ue_prefix(draw: &mut Draw, is_ipv4: bool) -> Address {
    match is_ipv4 {
        true => prefix(UE.into(), draw.of(&[0, 8, 16, 31, 32])),
        false => prefix(
            Ipv6Addr::from_bits(UE_V6.to_bits() | 1).into(),
            draw.of(&[0, 32, 63, 64, 127, 128]),
        ),
    }
}

const PORTS: [u16; 8] = [0, 53, 80, 443, 1024, 5060, 40_000, u16::MAX];

fn any_ports(draw: &mut Draw) -> PortRanges {
    let ranges = 1 + draw.below(6) / 5;
    (0..ranges)
        .map(|_| {
            let (one, other) = (draw.of(&PORTS), draw.of(&PORTS));
            match draw.below(4) {
                0 => PortRange::new(one.min(other), one.max(other)).expect("in their order"),
                1 => {
                    PortRange::new(one, one.saturating_add(draw.below(1000) as u16)).expect("in their order")
                }
                _ => PortRange::single(one),
            }
        })
        .collect()
}

impl Pattern {
    fn filter(&self) -> SdfFilter {
        let (source, destination) = match self.written {
            Written::Out => (&self.remote, &self.ue),
            Written::In => (&self.ue, &self.remote),
        };
        let description = FlowDescription::from(Description {
            written: self.written,
            protocol: self.protocol,
            source: source.clone(),
            destination: destination.clone(),
        });
        SdfFilter {
            // As a configuration has it.
            flow_description: Some(description.to_string().parse().expect("a description")),
            ..SdfFilter::default()
        }
    }

    /// Of the packets of this family and direction: an entry for each pair of prefixes and each pair of ranges.
    fn entries(&self, id: u32, (is_ipv4, direction): (bool, Direction)) -> Vec<AclEntry> {
        let (source, destination) = match direction {
            Direction::Uplink => (&self.ue, &self.remote),
            Direction::Downlink => (&self.remote, &self.ue),
        };
        let mut entries = Vec::new();
        for from in prefixes(source.address, is_ipv4, true) {
            for to in prefixes(destination.address, is_ipv4, false) {
                for source_ports in ranges(source) {
                    entries.extend(ranges(destination).map(|destination_ports| AclEntry {
                        id,
                        protocol: self.protocol,
                        source: from,
                        destination: to,
                        source_ports,
                        destination_ports,
                    }));
                }
            }
        }
        entries
    }
}

/// The prefixes of this family that an address stands for. What a UE sends may have a link-local source.
fn prefixes(address: Address, is_ipv4: bool, is_source: bool) -> Vec<IpPrefix> {
    let texts: &[&str] = match (address, is_ipv4, is_source) {
        (Address::Prefix(prefix), ..) if prefix.is_ipv4() == is_ipv4 => return vec![prefix],
        (Address::Prefix(_), ..) => &[],
        (Address::Any, true, _) => &["0.0.0.0/0"],
        (Address::Any, false, _) => &["::/0"],
        (Address::Assigned, true, _) => &["10.45.0.2/32"],
        (Address::Assigned, false, false) => &["2001:db8:45:2::/64"],
        (Address::Assigned, false, true) => &["2001:db8:45:2::/64", "fe80::/10"],
    };
    texts.iter().map(|text| text.parse().expect("a prefix")).collect()
}

/// Its ranges of ports: all ports, where it lists none.
fn ranges(end: &Endpoint) -> impl Iterator<Item = PortRange> {
    let all = end
        .ports
        .is_empty()
        .then(|| PortRange::new(0, u16::MAX).expect("in their order"));
    end.ports.iter().copied().chain(all)
}

impl LongRule {
    /// What it describes.
    pub fn filters(&self) -> Vec<SdfFilter> {
        self.patterns.iter().map(Pattern::filter).collect()
    }

    /// The same, of the packets of one IP version that go one way.
    pub fn entries(&self, id: u32, is_ipv4: bool, direction: Direction) -> Vec<AclEntry> {
        let patterns = self.patterns.iter();
        patterns
            .flat_map(|pattern| pattern.entries(id, (is_ipv4, direction)))
            .collect()
    }
}

/// A packet of one IP version that goes one way. One of `rules` describes it in most cases, if none does before.
pub fn packet_of(draw: &mut Draw, rules: &[LongRule], is_ipv4: bool, direction: Direction) -> UserPacket {
    let rule = &rules[draw.below(rules.len())];
    let pattern = draw.of(&rule.patterns);
    let is_apart = draw.one_in(6);
    let mut remote = match pattern.remote.address {
        Address::Prefix(prefix) if prefix.is_ipv4() == is_ipv4 && !is_apart => within(draw, &prefix),
        Address::Assigned => ue_address(draw, is_ipv4, false),
        _ => remote_address(draw, is_ipv4),
    };
    // Past the end of the prefix, or into another one.
    if draw.one_in(20) {
        remote = match remote {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() ^ 1 << draw.below(20)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() ^ 1 << draw.below(90)).into(),
        };
    }
    let ue = ue_address(draw, is_ipv4, direction == Direction::Uplink);
    let [ue_port, remote_port] = [&pattern.ue, &pattern.remote].map(|end| port(draw, end));
    let protocols = [
        proto::TCP,
        proto::UDP,
        proto::SCTP,
        proto::UDP_LITE,
        proto::ICMP,
        proto::ESP,
        proto::AH,
    ];
    let any_protocol = draw.of(&protocols);
    let packet = UserPacket {
        proto: pattern.protocol.filter(|_| !is_apart).unwrap_or(any_protocol),
        is_later_fragment: draw.one_in(20),
        payload: Vec::new(),
        ..UserPacket::udp(ue, remote, ue_port, remote_port)
    };
    match direction {
        Direction::Uplink => packet,
        Direction::Downlink => UserPacket {
            src: packet.dst,
            dst: packet.src,
            src_port: packet.dst_port,
            dst_port: packet.src_port,
            ..packet
        },
    }
}

fn within(draw: &mut Draw, prefix: &IpPrefix) -> IpAddr {
    // What the prefix leaves open is that of other addresses of the pool, so that the packet is in longer ones, too.
    let other = remote_address(draw, prefix.is_ipv4());
    match (prefix.address(), other) {
        (IpAddr::V4(own), IpAddr::V4(other)) => {
            let open = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            Ipv4Addr::from_bits(own.to_bits() | other.to_bits() & open).into()
        }
        (IpAddr::V6(own), IpAddr::V6(other)) => {
            let open = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            Ipv6Addr::from_bits(own.to_bits() | other.to_bits() & open).into()
        }
        (own, _) => own,
    }
}

/// An address of the UE's; as a source at times one that is not its own.
fn ue_address(draw: &mut Draw, is_ipv4: bool, is_source: bool) -> IpAddr {
    let is_other = is_source && draw.one_in(8);
    let texts = match (is_ipv4, is_other) {
        (true, false) => return UE.into(),
        (true, true) => ["10.45.0.3", "10.9.0.1", "11.45.0.2"],
        (false, false) => ["2001:db8:45:2::1", "2001:db8:45:2::1", "2001:db8:45:2:8000::1"],
        (false, true) => ["fe80::1", "fec0::1", "2001:db8:45:3::1"],
    };
    draw.of(&texts).parse().expect("an address")
}

fn port(draw: &mut Draw, end: &Endpoint) -> u16 {
    let range = (!end.ports.is_empty() && !draw.one_in(8)).then(|| draw.of(&end.ports));
    match range {
        Some(range) => draw.of(&[range.first(), range.last(), range.first() / 2 + range.last() / 2]),
        None => draw.of(&PORTS).wrapping_add(draw.below(3) as u16),
    }
}

/// What it is to rules; `bytes` are its octets.
///
/// # Panics
/// If it is not well formed.
pub fn seen(packet: &UserPacket, direction: Direction) -> (Side, IpTuple) {
    let bytes = packet.bytes();
    let tuple = IpTuple::parse(&bytes, bytes.len()).expect("well formed");
    let tunnel = Side::Tunnel {
        local: LocalId(0),
        teid: TEID,
        qfi: None,
    };
    match direction {
        Direction::Uplink => (tunnel, tuple),
        Direction::Downlink => (Side::Plain { vrf: VrfId(0) }, tuple),
    }
}
