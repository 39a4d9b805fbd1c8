//! Packet Detection Rules and what they look for (TS 29.244 §5.2.1A, Tables 7.5.2.2-1 and 7.5.2.2-2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flow::InstanceId;
use packet::Teid;
use smallvec::SmallVec;

use super::application::Application;
use super::ids::{FarId, PdrId, Precedence, QerId, TrafficEndpointId, UrrId};
use super::interfaces::SourceInterface;
use super::qfis::Qfis;
use super::rule_ids::RuleIds;
use super::rulebase::Rulebase;
use crate::boxed_option::{Absent, BoxedOption};
use crate::prefix::IpPrefix;
use crate::sdf::SdfFilter;

/// A local tunnel endpoint (TS 29.244 §8.2.3), already allocated: CHOOSE is the session's matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FTeid {
    /// The tunnel endpoint identifier.
    pub teid: Teid,
    /// The local IPv4 address, if the tunnel can be reached over IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// The local IPv6 address, if the tunnel can be reached over IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

impl FTeid {
    /// The local addresses of the tunnel, IPv4 first: none, one or two.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.ipv4
            .map(IpAddr::V4)
            .into_iter()
            .chain(self.ipv6.map(IpAddr::V6))
    }
}

/// The UE's addresses in one rule. Most rules have one, which is stored in the rule itself, as in all short lists:
/// there are very many sessions, and a list elsewhere is allocated, copied and freed with each.
pub type UeIpAddresses = SmallVec<[UeIpAddress; 1]>;

/// A UE's address (TS 29.244 §8.2.62), already allocated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UeIpAddress {
    /// The IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// The IPv6 prefix: an address in it, and its length in bits, 0..=128 (64 where the peer gave none).
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// The S/D bit. Kept, and not trusted: peers set it wrongly, and the source interface says what it would.
    pub is_destination: bool,
}

impl UeIpAddress {
    /// The addresses as prefixes: IPv4 as /32. An IPv6 length above 128 counts as 128.
    pub fn prefixes(&self) -> impl Iterator<Item = IpPrefix> + use<> {
        let v4 = self.ipv4.map(|address| IpPrefix::host(IpAddr::V4(address)));
        let v6 = self
            .ipv6
            .and_then(|(address, len)| IpPrefix::new(IpAddr::V6(address), len.min(128)));
        v4.into_iter().chain(v6)
    }
}

/// Packet Detection Information (TS 29.244 Table 7.5.2.2-2). Fields of different kinds must all match; of several
/// values in one field any may; an empty field matches everything (§5.2.1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pdi {
    /// Where the packet comes from.
    pub source_interface: SourceInterface,
    /// The Traffic Endpoint that the fields from here to `ue_ip` are of, the framed routes, and `qfis` if it has any.
    pub endpoint: Option<TrafficEndpointId>,
    /// The tunnel that the packet comes in.
    pub f_teid: Option<FTeid>,
    /// The network instance that a packet without a tunnel comes from; a tunnel's is its local address's.
    pub instance: Option<InstanceId>,
    /// The UE's addresses: source of a packet from Access, destination of any other.
    pub ue_ip: UeIpAddresses,
    /// Patterns over the user packet.
    pub sdf_filters: Box<[SdfFilter]>,
    /// What few PDIs say.
    pub optional: BoxedOption<OptionalPdi>,
    /// QoS flows, as the PDU Session Container of the received packet names them.
    pub qfis: Qfis,
}

/// What few PDIs say.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OptionalPdi {
    /// The networks behind the UE (Framed-Route, Framed-IPv6-Route, TS 29.244 §5.16): beside its addresses, any of all.
    pub framed_routes: Vec<IpPrefix>,
    /// The application that the packet is of.
    pub application: Option<Application>,
}

impl Absent for OptionalPdi {
    const ABSENT: &'static Self = &Self {
        framed_routes: Vec::new(),
        application: None,
    };
}

impl From<OptionalPdi> for BoxedOption<OptionalPdi> {
    /// Nothing is absent.
    fn from(fields: OptionalPdi) -> Self {
        let mut boxed = Self::NONE;
        if fields != OptionalPdi::default() {
            *boxed.get_or_insert_default() = fields;
        }
        boxed
    }
}

impl Pdi {
    /// Detects everything from `source_interface`.
    pub fn new(source_interface: SourceInterface) -> Self {
        Self {
            source_interface,
            endpoint: None,
            f_teid: None,
            instance: None,
            ue_ip: UeIpAddresses::new_const(),
            sdf_filters: Box::default(),
            optional: BoxedOption::NONE,
            qfis: Qfis::NONE,
        }
    }

    /// How many [`ue_prefixes`](Self::ue_prefixes) there are.
    pub fn ue_prefix_count(&self) -> usize {
        let of = |ue: &UeIpAddress| usize::from(ue.ipv4.is_some()) + usize::from(ue.ipv6.is_some());
        self.ue_ip.iter().map(of).sum::<usize>() + self.optional.framed_routes.len()
    }

    /// All its UE addresses as prefixes, and the networks behind the UE (TS 29.244 Table 7.5.2.2-2, NOTE 5: either
    /// matches). None where the fields are empty, or hold no address.
    pub fn ue_prefixes(&self) -> impl Iterator<Item = IpPrefix> + '_ {
        let own = self.ue_ip.iter().flat_map(|ue| ue.prefixes());
        own.chain(self.optional.framed_routes.iter().copied())
    }
}

/// The header that comes off a detected packet (TS 29.244 Table 8.2.64-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OuterHeader {
    /// GTP-U/UDP/IPv4 (0).
    GtpuUdpIpv4,
    /// GTP-U/UDP/IPv6 (1).
    GtpuUdpIpv6,
    /// UDP/IPv4 (2).
    UdpIpv4,
    /// UDP/IPv6 (3).
    UdpIpv6,
    /// IPv4 (4).
    Ipv4,
    /// IPv6 (5).
    Ipv6,
    /// GTP-U/UDP over either IP (6).
    GtpuUdpIp,
    /// The outer VLAN tag (7).
    VlanPop,
    /// Two VLAN tags (8).
    VlanPopPop,
}

impl OuterHeader {
    /// The header with this value; `None` from 9 on, which a request must not use (Table 8.2.64-1, NOTE 7).
    pub const fn from_value(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::GtpuUdpIpv4,
            1 => Self::GtpuUdpIpv6,
            2 => Self::UdpIpv4,
            3 => Self::UdpIpv6,
            4 => Self::Ipv4,
            5 => Self::Ipv6,
            6 => Self::GtpuUdpIp,
            7 => Self::VlanPop,
            8 => Self::VlanPopPop,
            _ => return None,
        })
    }

    /// The value on the wire, 0..=8.
    pub const fn value(self) -> u8 {
        self as u8
    }

    /// Whether it is GTP-U over whichever IP.
    pub const fn is_gtpu(self) -> bool {
        matches!(self, Self::GtpuUdpIpv4 | Self::GtpuUdpIpv6 | Self::GtpuUdpIp)
    }
}

/// Outer Header Removal (TS 29.244 §8.2.64).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OuterHeaderRemoval {
    /// What comes off.
    pub header: OuterHeader,
    /// Whether the received PDU Session Container is not to be put back into a next tunnel (octet 6, bit 1).
    pub deletes_psc: bool,
}

/// A Packet Detection Rule (TS 29.244 Table 7.5.2.2-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pdr {
    /// Its number in the session.
    pub id: PdrId,
    /// Its place in the order of matching.
    pub precedence: Precedence,
    /// What it looks for.
    pub pdi: Pdi,
    /// What comes off a packet that it detects.
    pub outer_header_removal: Option<OuterHeaderRemoval>,
    /// What happens to the packet.
    pub far: Option<FarId>,
    /// The QoS rules that the packet must pass, all of them.
    pub qers: RuleIds<QerId>,
    /// The usage rules that the packet counts in, all of them.
    pub urrs: RuleIds<UrrId>,
    /// The rulebases that it activates, each once, in the order of their activation (TS 29.244 §5.19). With any, it
    /// detects what one of their rules describes, too; that rule's QERs and URRs are beside its own, and that rule's
    /// FAR is there where it has none itself.
    pub rulebases: BoxedOption<Vec<Arc<Rulebase>>>,
}

const _: () = assert!(size_of::<Pdr>() <= 160, "there are very many");

impl Pdr {
    /// The FAR of packets of which no more is known than that the PDR detects them: its own, else that of the first
    /// predefined rule that it activates.
    pub fn first_far(&self) -> Option<FarId> {
        let rules = self
            .rulebases
            .iter()
            .filter_map(|rulebase| rulebase.rules().first());
        let first = rules.min_by_key(|rule| rule.precedence);
        self.far.or_else(|| first.and_then(|rule| rule.far))
    }

    /// Whether a FAR may be that of packets that it detects: its own, or that of a predefined rule where it has none.
    pub fn may_follow(&self, far: FarId) -> bool {
        match self.far {
            Some(own) => own == far,
            None => self
                .rulebases
                .iter()
                .any(|rulebase| rulebase.fars().contains(&far)),
        }
    }

    /// Whether packets that it detects may count in a URR: its own, or that of a predefined rule.
    pub fn may_count_in(&self, urr: UrrId) -> bool {
        self.urrs.contains(&urr)
            || self
                .rulebases
                .iter()
                .any(|rulebase| rulebase.urrs().contains(&urr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_their_values() {
        for value in 0..=8 {
            assert_eq!(
                OuterHeader::from_value(value).map(OuterHeader::value),
                Some(value)
            );
        }
        assert_eq!(OuterHeader::from_value(9), None);
    }

    #[test]
    fn a_ue_address_is_a_host_and_a_prefix() {
        let ue = UeIpAddress {
            ipv4: Some(Ipv4Addr::new(10, 45, 0, 2)),
            ipv6: Some(("2001:db8:0:1::5".parse().unwrap(), 64)),
            is_destination: true,
        };
        let prefixes: Vec<String> = ue.prefixes().map(|prefix| prefix.to_string()).collect();
        assert_eq!(prefixes, ["10.45.0.2/32", "2001:db8:0:1::/64"]);
    }
}
