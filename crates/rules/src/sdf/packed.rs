//! SDF filters packed in one piece of memory.
//!
//! The slow path reads filters that no cache has, so what counts is how many cache lines there are and how many must
//! arrive before the next. All records have a fixed size; equal runs of records are stored once. A [`Span`] names a
//! run. [`PatternBuilder`] writes the piece, [`PatternView`] reads it; no other module knows the layout:
//!
//! ```text
//! Head, filters, prefixes, ranges of ports
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use smallvec::{Array, SmallVec};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{PortRange, TosTrafficClass};
use crate::prefix::IpPrefix;

/// The number of records of each kind.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Head {
    filters: u16,
    prefixes: u16,
    ports: u16,
    /// The session's UE addresses: the first of the prefixes.
    ue_prefixes: u16,
}

/// A run of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Span {
    start: u16,
    count: u16,
}

impl Span {
    /// No record. What has a span may keep a number in one without.
    pub(crate) const fn without_records(number: u16) -> Self {
        Self {
            start: number,
            count: 0,
        }
    }

    /// The number of one [without records](Self::without_records).
    pub(crate) const fn number(self) -> u16 {
        self.start
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The place of its first record.
    pub(crate) const fn start(self) -> u16 {
        self.start
    }

    /// The places of its records.
    pub(crate) fn places(self) -> impl Iterator<Item = u16> {
        (self.start..).take(usize::from(self.count))
    }

    /// The records of this run.
    pub(crate) fn of<T>(self, records: &[T]) -> &[T] {
        let start = usize::from(self.start);
        records
            .get(start..start + usize::from(self.count))
            .unwrap_or_default()
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
            IpAddr::V4(address) => [address.to_bits(), 0, 0, 0],
            IpAddr::V6(address) => {
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
            return IpPrefix::masked(Ipv4Addr::from_bits(self.words[0]).into(), self.len);
        }
        let bits = self
            .words
            .iter()
            .fold(0, |bits, &word| bits << 32 | u128::from(word));
        IpPrefix::masked(Ipv6Addr::from_bits(bits).into(), self.len)
    }
}

/// An SDF filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct PackedFilter {
    spi: u32,
    flow_label: u32,
    /// The UE's end of a flow description.
    pub ue: PackedEnd,
    /// The other one.
    pub remote: PackedEnd,
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
pub(crate) struct Fields {
    pub protocol: Option<u8>,
    pub tos: Option<TosTrafficClass>,
    pub spi: Option<u32>,
    pub flow_label: Option<u32>,
}

impl PackedFilter {
    pub(crate) fn new([ue, remote]: [PackedEnd; 2], fields: &Fields) -> Self {
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
    pub(crate) const fn port_ranges(&self) -> usize {
        self.ue.ports.count as usize + self.remote.ports.count as usize
    }

    pub(crate) fn fields(&self) -> Fields {
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
pub(crate) struct PackedEnd {
    kind: u16,
    prefix: u16,
    /// Empty: every port.
    pub ports: Span,
}

/// The addresses of a [`PackedEnd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    Any,
    Assigned,
    Prefix(IpPrefix),
}

impl PackedEnd {
    const ASSIGNED: u16 = 1;
    const PREFIX: u16 = 2;

    pub(crate) fn addresses(&self, view: &PatternView<'_>) -> Addresses {
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManyPatterns;

/// Collects the records: those of a usual session on the stack.
#[derive(Default)]
pub(crate) struct PatternBuilder {
    filters: SmallVec<[PackedFilter; 4]>,
    prefixes: SmallVec<[Prefix; 4]>,
    ports: SmallVec<[Ports; 8]>,
    ue_prefixes: u16,
}

/// How many records at the end are searched for equal ones: a bound on the work, not on the number of records.
const LOOKBACK: usize = 256;

/// The place of `items` in `records`: an equal run, or where they are appended.
pub(crate) fn find_or_append<A: Array>(
    records: &mut SmallVec<A>,
    items: &[A::Item],
) -> Result<Span, TooManyPatterns>
where
    A::Item: Copy + PartialEq,
{
    if items.is_empty() {
        return Ok(Span::default());
    }
    let far = records.len().saturating_sub(LOOKBACK);
    let near = records.get(far..).unwrap_or_default();
    let known = near.windows(items.len()).position(|run| run == items);
    let start = known.map(|place| far + place).unwrap_or_else(|| {
        records.extend_from_slice(items);
        records.len() - items.len()
    });
    if records.len() > usize::from(u16::MAX) {
        return Err(TooManyPatterns);
    }
    Ok(Span {
        start: start as u16,
        count: items.len() as u16,
    })
}

impl PatternBuilder {
    /// With the UE addresses of the session.
    pub(crate) fn new(ue_prefixes: &[IpPrefix]) -> Result<Self, TooManyPatterns> {
        let prefixes: SmallVec<[Prefix; 4]> = ue_prefixes.iter().copied().map(Prefix::new).collect();
        Ok(Self {
            ue_prefixes: u16::try_from(prefixes.len()).map_err(|_| TooManyPatterns)?,
            prefixes,
            ..Self::default()
        })
    }

    pub(crate) fn prefixes(&mut self, prefixes: &[IpPrefix]) -> Result<Span, TooManyPatterns> {
        let prefixes: SmallVec<[Prefix; 4]> = prefixes.iter().copied().map(Prefix::new).collect();
        find_or_append(&mut self.prefixes, &prefixes)
    }

    pub(crate) fn side(
        &mut self,
        addresses: Addresses,
        ports: &[PortRange],
    ) -> Result<PackedEnd, TooManyPatterns> {
        let ports: SmallVec<[Ports; 4]> = ports
            .iter()
            .map(|range| Ports {
                first: range.first(),
                last: range.last(),
            })
            .collect();
        let (kind, prefix) = match addresses {
            Addresses::Any => (0, 0),
            Addresses::Assigned => (PackedEnd::ASSIGNED, 0),
            Addresses::Prefix(prefix) => (PackedEnd::PREFIX, self.prefixes(&[prefix])?.start),
        };
        Ok(PackedEnd {
            kind,
            prefix,
            ports: find_or_append(&mut self.ports, &ports)?,
        })
    }

    pub(crate) fn filters(&mut self, filters: &[PackedFilter]) -> Result<Span, TooManyPatterns> {
        find_or_append(&mut self.filters, filters)
    }

    /// The head of the packed form.
    pub(crate) fn head(&self) -> Head {
        Head {
            filters: self.filters.len() as u16,
            prefixes: self.prefixes.len() as u16,
            ports: self.ports.len() as u16,
            ue_prefixes: self.ue_prefixes,
        }
    }

    /// The parts of the packed form, in their order: `head`, which is [`head`](Self::head), and the records.
    pub(crate) fn parts<'a>(&'a self, head: &'a Head) -> [&'a [u8]; 4] {
        [
            head.as_bytes(),
            self.filters.as_slice().as_bytes(),
            self.prefixes.as_slice().as_bytes(),
            self.ports.as_slice().as_bytes(),
        ]
    }

    /// The packed form in a piece of memory of its own.
    pub(crate) fn pack(&self) -> Arc<[u64]> {
        words_of(&self.parts(&self.head()))
    }
}

/// These parts in one piece of memory, padded with zeros.
pub(crate) fn words_of(parts: &[&[u8]]) -> Arc<[u64]> {
    let octets: usize = parts.iter().map(|part| part.len()).sum();
    let mut words: Arc<[u64]> = std::iter::repeat_n(0, octets.div_ceil(size_of::<u64>())).collect();
    // No other reference exists yet.
    let mut rest = Arc::make_mut(&mut words).as_mut_bytes();
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = behind;
    }
    words
}

/// The packed form, to be read.
#[derive(Clone, Copy)]
pub(crate) struct PatternView<'a> {
    filters: &'a [PackedFilter],
    prefixes: &'a [Prefix],
    ports: &'a [Ports],
    ue_prefixes: u16,
}

impl<'a> PatternView<'a> {
    pub(crate) const EMPTY: Self = Self {
        filters: &[],
        prefixes: &[],
        ports: &[],
        ue_prefixes: 0,
    };

    #[inline]
    pub(crate) fn of(words: &'a [u64]) -> Self {
        Self::read(words.as_bytes()).unwrap_or(Self::EMPTY)
    }

    #[inline]
    pub(crate) fn read(octets: &'a [u8]) -> Option<Self> {
        let (head, rest) = Head::ref_from_prefix(octets).ok()?;
        let (filters, rest) = <[PackedFilter]>::ref_from_prefix_with_elems(rest, head.filters.into()).ok()?;
        let (prefixes, rest) = <[Prefix]>::ref_from_prefix_with_elems(rest, head.prefixes.into()).ok()?;
        let (ports, _) = <[Ports]>::ref_from_prefix_with_elems(rest, head.ports.into()).ok()?;
        Some(Self {
            filters,
            prefixes,
            ports,
            ue_prefixes: head.ue_prefixes,
        })
    }

    /// The session's UE addresses.
    pub(crate) fn ue_prefixes(&self) -> impl Iterator<Item = IpPrefix> + Clone + use<'a> {
        let own = self.prefixes.get(..self.ue_prefixes.into()).unwrap_or_default();
        own.iter().map(Prefix::get)
    }

    pub(crate) fn prefixes(&self, span: Span) -> impl Iterator<Item = IpPrefix> + use<'a> {
        span.of(self.prefixes).iter().map(Prefix::get)
    }

    pub(crate) fn filters(&self, span: Span) -> &'a [PackedFilter] {
        span.of(self.filters)
    }

    /// The filter at a place of [`Span::places`].
    pub(crate) fn filter(&self, place: u16) -> Option<&'a PackedFilter> {
        self.filters.get(usize::from(place))
    }

    /// Whether `port` is in one of the ranges.
    pub(crate) fn has_port(&self, span: Span, port: u16) -> bool {
        let mut ranges = span.of(self.ports).iter();
        ranges.any(|range| range.first <= port && port <= range.last)
    }

    /// Whether the session has UE addresses.
    pub(crate) const fn has_ue_prefixes(&self) -> bool {
        self.ue_prefixes > 0
    }
}
