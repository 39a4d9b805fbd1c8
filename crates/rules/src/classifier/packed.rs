//! A session's PDRs, SDF filters, tunnels and prefixes in one piece of memory: a first packet of a flow finds them in
//! memory that no cache has, and that is a matter of how many lines there are and of how many must come before the
//! next.
//!
//! All is of fixed size, in the order of matching; what several rules have alike is there once. A [`Span`] names a run
//! of records. [`Builder`] writes it, [`View`] reads it; nothing else knows the layout.

use std::sync::Arc;

use flow::{ContentId, Direction};
use packet::Teid;
use smallvec::{Array, SmallVec};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Interfaces, Tunnel};
use crate::image::{Decision, SourceCheck};
use crate::model::{SourceInterface, TosTrafficClass};
use crate::network::{LocalId, VrfId};
use crate::prefix::IpPrefix;
use crate::sdf::PortRange;

/// How many records of each kind there are.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Head {
    rules: u16,
    filters: u16,
    tunnels: u16,
    prefixes: u16,
    ports: u16,
    /// The session's own tunnels, each once: the first of them.
    own_tunnels: u16,
    /// The session's UE addresses: the first of the prefixes.
    own_prefixes: u16,
    /// One of those is longer than what a key's ADDRESS holds: 1.
    has_long: u16,
}

/// A run of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Span {
    start: u16,
    count: u16,
}

impl Span {
    pub(super) const fn is_empty(self) -> bool {
        self.count == 0
    }

    fn of<T>(self, records: &[T]) -> &[T] {
        let start = usize::from(self.start);
        records
            .get(start..start + usize::from(self.count))
            .unwrap_or_default()
    }
}

/// One PDR and what it leads to.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Rule {
    /// Bit n: QFI n. Zero: the PDI has none.
    pub qfis: u64,
    qers: u64,
    urrs: u64,
    tunnels: Span,
    /// Empty: the PDI has none.
    pub ue: Span,
    /// Empty: the PDI has none.
    pub filters: Span,
    vrf: u16,
    slot: u16,
    interface: u8,
    forward: u8,
    marking: u8,
    flags: u8,
    /// The flows of the application, if the PDI names one.
    pub application: Span,
}

const HAS_TUNNELS: u8 = 1;
const HAS_VRF: u8 = 1 << 1;
const IS_DOWNLINK: u8 = 1 << 2;
const REMOVES_OUTER: u8 = 1 << 3;
const DELETES_PSC: u8 = 1 << 4;
const CHECKS_UE: u8 = 1 << 5;
const CHECKS_LINK_LOCAL: u8 = 1 << 6;
const HAS_APPLICATION: u8 = 1 << 7;

/// What one PDR looks for, before it is packed.
pub(super) struct Wanted<'a> {
    pub interface: SourceInterface,
    /// `None`: the PDI has no F-TEID.
    pub tunnels: Option<&'a [Tunnel]>,
    pub vrf: Option<VrfId>,
    pub qfis: u64,
    pub ue: Span,
    pub filters: Span,
    /// `None`: the PDI names no application.
    pub application: Option<Span>,
}

impl Rule {
    pub(super) fn new(wanted: &Wanted<'_>, tunnels: Span, decision: &Decision) -> Self {
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let check = match decision.source_check {
            SourceCheck::Anyone => 0,
            SourceCheck::Ue => CHECKS_UE,
            SourceCheck::UeOrLinkLocal => CHECKS_UE | CHECKS_LINK_LOCAL,
        };
        Self {
            qfis: wanted.qfis,
            qers: decision.qers,
            urrs: decision.urrs,
            tunnels,
            ue: wanted.ue,
            filters: wanted.filters,
            vrf: wanted.vrf.map_or(0, |vrf| vrf.0),
            slot: decision.pdr,
            interface: wanted.interface.value(),
            forward: decision.forward,
            marking: decision.marking,
            flags: check
                | flag(HAS_TUNNELS, wanted.tunnels.is_some())
                | flag(HAS_VRF, wanted.vrf.is_some())
                | flag(IS_DOWNLINK, decision.direction == Direction::Downlink)
                | flag(REMOVES_OUTER, decision.removes_outer)
                | flag(DELETES_PSC, decision.deletes_psc)
                | flag(HAS_APPLICATION, wanted.application.is_some()),
            application: wanted.application.unwrap_or_default(),
        }
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) const fn interface(&self) -> SourceInterface {
        SourceInterface::from_value(self.interface)
    }

    pub(super) fn vrf(&self) -> Option<VrfId> {
        self.has(HAS_VRF).then_some(VrfId(self.vrf))
    }

    /// Whether the PDI names an application.
    pub(super) const fn has_application(&self) -> bool {
        self.has(HAS_APPLICATION)
    }

    /// Whether the PDI names a tunnel, of those in `view`: this one, or for `None` none at all.
    pub(super) fn takes(&self, tunnel: Option<Tunnel>, view: &View<'_>) -> bool {
        match tunnel {
            _ if !self.has(HAS_TUNNELS) => true,
            None => false,
            Some(tunnel) => self.names(tunnel, view),
        }
    }

    /// Whether the PDI names this tunnel.
    pub(super) fn names(&self, tunnel: Tunnel, view: &View<'_>) -> bool {
        self.tunnels
            .of(view.tunnels)
            .iter()
            .any(|own| own.tunnel() == tunnel)
    }

    pub(super) fn decision(&self) -> Decision {
        Decision {
            pdr: self.slot,
            forward: self.forward,
            qers: self.qers,
            urrs: self.urrs,
            marking: self.marking,
            direction: if self.has(IS_DOWNLINK) {
                Direction::Downlink
            } else {
                Direction::Uplink
            },
            removes_outer: self.has(REMOVES_OUTER),
            deletes_psc: self.has(DELETES_PSC),
            content: ContentId::NONE,
            source_check: if self.has(CHECKS_LINK_LOCAL) {
                SourceCheck::UeOrLinkLocal
            } else if self.has(CHECKS_UE) {
                SourceCheck::Ue
            } else {
                SourceCheck::Anyone
            },
        }
    }
}

/// A tunnel, and the source interfaces that PDRs name with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct OwnTunnel {
    teid: u32,
    local: u16,
    interfaces: u16,
}

impl OwnTunnel {
    pub(super) fn new((local, teid): Tunnel, interfaces: Interfaces) -> Self {
        Self {
            teid: teid.0,
            local: local.0,
            interfaces: interfaces.0,
        }
    }

    pub(super) fn tunnel(&self) -> Tunnel {
        (LocalId(self.local), Teid(self.teid))
    }

    pub(super) fn interfaces(&self) -> Interfaces {
        Interfaces(self.interfaces)
    }
}

/// An [`IpPrefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Prefix {
    /// As a number: of IPv4 the first word is the address.
    words: [u32; 4],
    len: u8,
    is_ipv4: u8,
    reserved: [u8; 2],
}

impl Prefix {
    fn new(prefix: IpPrefix) -> Self {
        let words = match prefix.address() {
            std::net::IpAddr::V4(address) => [address.to_bits(), 0, 0, 0],
            std::net::IpAddr::V6(address) => {
                let bits = address.to_bits();
                [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
            }
        };
        Self {
            words,
            len: prefix.len(),
            is_ipv4: prefix.is_ipv4().into(),
            reserved: [0; 2],
        }
    }

    #[inline]
    fn get(&self) -> IpPrefix {
        if self.is_ipv4 != 0 {
            return IpPrefix::masked(std::net::Ipv4Addr::from_bits(self.words[0]).into(), self.len);
        }
        let bits = self
            .words
            .iter()
            .fold(0, |bits, &word| bits << 32 | u128::from(word));
        IpPrefix::masked(std::net::Ipv6Addr::from_bits(bits).into(), self.len)
    }
}

/// An SDF filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Filter {
    spi: u32,
    flow_label: u32,
    /// The UE's end of a flow description.
    pub ue: Side,
    /// The other one.
    pub remote: Side,
    protocol: u8,
    tos: u8,
    tos_mask: u8,
    flags: u8,
    reserved: u32,
}

const HAS_TOS: u8 = 1;
const HAS_SPI: u8 = 1 << 1;
const HAS_LABEL: u8 = 1 << 2;
const HAS_PROTOCOL: u8 = 1 << 3;

/// What a filter wants besides addresses and ports.
pub(super) struct Fields {
    pub protocol: Option<u8>,
    pub tos: Option<TosTrafficClass>,
    pub spi: Option<u32>,
    pub flow_label: Option<u32>,
}

impl Filter {
    pub(super) fn new([ue, remote]: [Side; 2], fields: &Fields) -> Self {
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let tos = fields.tos.unwrap_or(TosTrafficClass { value: 0, mask: 0 });
        Self {
            spi: fields.spi.unwrap_or(0),
            flow_label: fields.flow_label.unwrap_or(0),
            ue,
            remote,
            protocol: fields.protocol.unwrap_or(0),
            tos: tos.value,
            tos_mask: tos.mask,
            flags: flag(HAS_TOS, fields.tos.is_some())
                | flag(HAS_SPI, fields.spi.is_some())
                | flag(HAS_LABEL, fields.flow_label.is_some())
                | flag(HAS_PROTOCOL, fields.protocol.is_some()),
            reserved: 0,
        }
    }

    /// The ranges of ports that a packet's ports are compared with.
    pub(super) const fn port_ranges(&self) -> usize {
        self.ue.ports.count as usize + self.remote.ports.count as usize
    }

    pub(super) fn fields(&self) -> Fields {
        let has = |flag: u8| self.flags & flag != 0;
        Fields {
            protocol: has(HAS_PROTOCOL).then_some(self.protocol),
            tos: has(HAS_TOS).then_some(TosTrafficClass {
                value: self.tos,
                mask: self.tos_mask,
            }),
            spi: has(HAS_SPI).then_some(self.spi),
            flow_label: has(HAS_LABEL).then_some(self.flow_label),
        }
    }
}

/// One end of a flow description; all zeros takes everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Side {
    kind: u16,
    prefix: u16,
    /// Empty: every port.
    pub ports: Span,
}

/// The addresses of a [`Side`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Addresses {
    Any,
    Assigned,
    Prefix(IpPrefix),
}

impl Side {
    const ASSIGNED: u16 = 1;
    const PREFIX: u16 = 2;

    pub(super) fn addresses(&self, view: &View<'_>) -> Addresses {
        match (self.kind, view.prefixes.get(usize::from(self.prefix))) {
            (Self::ASSIGNED, _) => Addresses::Assigned,
            (Self::PREFIX, Some(prefix)) => Addresses::Prefix(prefix.get()),
            _ => Addresses::Any,
        }
    }
}

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Ports {
    first: u16,
    last: u16,
}

/// More records than a [`Span`] can name.
pub(super) struct TooMany;

/// Gathers the records: those of a usual session on the stack.
#[derive(Default)]
pub(super) struct Builder {
    rules: SmallVec<[Rule; 4]>,
    filters: SmallVec<[Filter; 4]>,
    tunnels: SmallVec<[OwnTunnel; 4]>,
    prefixes: SmallVec<[Prefix; 4]>,
    ports: SmallVec<[Ports; 8]>,
    own_tunnels: u16,
    own_prefixes: u16,
    has_long: bool,
}

/// How far back it is looked whether records are there already: a bound on the work, not on what there may be.
const LOOKED_BACK: usize = 256;

/// `items` among `records`: where they are already, or added at the end.
fn place<A: Array>(records: &mut SmallVec<A>, items: &[A::Item]) -> Result<Span, TooMany>
where
    A::Item: Copy + PartialEq,
{
    if items.is_empty() {
        return Ok(Span::default());
    }
    let far = records.len().saturating_sub(LOOKED_BACK);
    let near = records.get(far..).unwrap_or_default();
    let known = near.windows(items.len()).position(|run| run == items);
    let start = known.map(|place| far + place).unwrap_or_else(|| {
        records.extend_from_slice(items);
        records.len() - items.len()
    });
    if records.len() > usize::from(u16::MAX) {
        return Err(TooMany);
    }
    Ok(Span {
        start: start as u16,
        count: items.len() as u16,
    })
}

impl Builder {
    /// With the session's UE addresses, one of which may be longer than what a key's ADDRESS holds.
    /// There will be so many rules.
    pub(super) fn new(prefixes: &[IpPrefix], has_long: bool, rules: usize) -> Result<Self, TooMany> {
        let prefixes: SmallVec<[Prefix; 4]> = prefixes.iter().copied().map(Prefix::new).collect();
        Ok(Self {
            own_prefixes: u16::try_from(prefixes.len()).map_err(|_| TooMany)?,
            prefixes,
            has_long,
            rules: SmallVec::with_capacity(rules),
            ..Self::default()
        })
    }

    /// The session's tunnels, each once. To be told before the rules.
    pub(super) fn own_tunnels(&mut self, tunnels: SmallVec<[OwnTunnel; 4]>) -> Result<(), TooMany> {
        self.own_tunnels = u16::try_from(tunnels.len()).map_err(|_| TooMany)?;
        self.tunnels = tunnels;
        Ok(())
    }

    pub(super) fn prefixes(&mut self, prefixes: &[IpPrefix]) -> Result<Span, TooMany> {
        let prefixes: SmallVec<[Prefix; 4]> = prefixes.iter().copied().map(Prefix::new).collect();
        place(&mut self.prefixes, &prefixes)
    }

    pub(super) fn side(&mut self, addresses: Addresses, ports: &[PortRange]) -> Result<Side, TooMany> {
        let ports: SmallVec<[Ports; 4]> = ports
            .iter()
            .map(|range| Ports {
                first: range.first(),
                last: range.last(),
            })
            .collect();
        let (kind, prefix) = match addresses {
            Addresses::Any => (0, 0),
            Addresses::Assigned => (Side::ASSIGNED, 0),
            Addresses::Prefix(prefix) => (Side::PREFIX, self.prefixes(&[prefix])?.start),
        };
        Ok(Side {
            kind,
            prefix,
            ports: place(&mut self.ports, &ports)?,
        })
    }

    pub(super) fn filters(&mut self, filters: &[Filter]) -> Result<Span, TooMany> {
        place(&mut self.filters, filters)
    }

    /// The next rule, in the order of matching. Its tunnels are of those that the session has.
    pub(super) fn rule(&mut self, wanted: &Wanted<'_>, decision: &Decision) -> Result<(), TooMany> {
        let own = |tunnel: &Tunnel| self.tunnels.iter().find(|own| own.tunnel() == *tunnel).copied();
        let tunnels: SmallVec<[OwnTunnel; 4]> = wanted
            .tunnels
            .unwrap_or_default()
            .iter()
            .filter_map(own)
            .collect();
        let tunnels = place(&mut self.tunnels, &tunnels)?;
        self.rules.push(Rule::new(wanted, tunnels, decision));
        Ok(())
    }

    /// All of it in one piece.
    pub(super) fn pack(&self) -> Arc<[u64]> {
        let head = Head {
            rules: self.rules.len() as u16,
            filters: self.filters.len() as u16,
            tunnels: self.tunnels.len() as u16,
            prefixes: self.prefixes.len() as u16,
            ports: self.ports.len() as u16,
            own_tunnels: self.own_tunnels,
            own_prefixes: self.own_prefixes,
            has_long: self.has_long.into(),
        };
        let parts = [
            head.as_bytes(),
            self.rules.as_slice().as_bytes(),
            self.filters.as_slice().as_bytes(),
            self.tunnels.as_slice().as_bytes(),
            self.prefixes.as_slice().as_bytes(),
            self.ports.as_slice().as_bytes(),
        ];
        let octets: usize = parts.iter().map(|part| part.len()).sum();
        let mut words: Arc<[u64]> = std::iter::repeat_n(0, octets.div_ceil(size_of::<u64>())).collect();
        // It is nobody else's yet.
        let mut rest = Arc::make_mut(&mut words).as_mut_bytes();
        for part in parts {
            let (here, behind) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = behind;
        }
        words
    }
}

/// What [`Builder::pack`] made, to be read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub rules: &'a [Rule],
    filters: &'a [Filter],
    tunnels: &'a [OwnTunnel],
    prefixes: &'a [Prefix],
    ports: &'a [Ports],
    own_tunnels: u16,
    own_prefixes: u16,
    pub has_long: bool,
}

impl<'a> View<'a> {
    const EMPTY: Self = Self {
        rules: &[],
        filters: &[],
        tunnels: &[],
        prefixes: &[],
        ports: &[],
        own_tunnels: 0,
        own_prefixes: 0,
        has_long: false,
    };

    #[inline]
    pub(super) fn of(words: &'a [u64]) -> Self {
        Self::read(words.as_bytes()).unwrap_or(Self::EMPTY)
    }

    #[inline]
    fn read(octets: &'a [u8]) -> Option<Self> {
        let (head, rest) = Head::ref_from_prefix(octets).ok()?;
        let (rules, rest) = <[Rule]>::ref_from_prefix_with_elems(rest, head.rules.into()).ok()?;
        let (filters, rest) = <[Filter]>::ref_from_prefix_with_elems(rest, head.filters.into()).ok()?;
        let (tunnels, rest) = <[OwnTunnel]>::ref_from_prefix_with_elems(rest, head.tunnels.into()).ok()?;
        let (prefixes, rest) = <[Prefix]>::ref_from_prefix_with_elems(rest, head.prefixes.into()).ok()?;
        let (ports, _) = <[Ports]>::ref_from_prefix_with_elems(rest, head.ports.into()).ok()?;
        Some(Self {
            rules,
            filters,
            tunnels,
            prefixes,
            ports,
            own_tunnels: head.own_tunnels,
            own_prefixes: head.own_prefixes,
            has_long: head.has_long != 0,
        })
    }

    /// The session's tunnels, each once.
    pub(super) fn own_tunnels(&self) -> &'a [OwnTunnel] {
        self.tunnels.get(..self.own_tunnels.into()).unwrap_or_default()
    }

    /// The session's UE addresses.
    pub(super) fn own_prefixes(&self) -> impl Iterator<Item = IpPrefix> + Clone + use<'a> {
        let own = self.prefixes.get(..self.own_prefixes.into()).unwrap_or_default();
        own.iter().map(Prefix::get)
    }

    pub(super) fn prefixes(&self, span: Span) -> impl Iterator<Item = IpPrefix> + use<'a> {
        span.of(self.prefixes).iter().map(Prefix::get)
    }

    pub(super) fn filters(&self, span: Span) -> &'a [Filter] {
        span.of(self.filters)
    }

    /// Whether `port` is in one of the ranges.
    pub(super) fn has_port(&self, span: Span, port: u16) -> bool {
        let mut ranges = span.of(self.ports).iter();
        ranges.any(|range| range.first <= port && port <= range.last)
    }
}
