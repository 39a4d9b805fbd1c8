//! The Flow Description of an SDF filter: an IPFilterRule (RFC 6733 §4.3.1) within the limits that 3GPP sets
//! (TS 29.212 §5.4.2, TS 29.214 §5.3.8): the action is `permit`, nothing is negated, there are no options.
//!
//! ```text
//! permit out|in ip|0-255 from any|assigned|ADDRESS[/BITS] [PORTS] to any|assigned|ADDRESS[/BITS] [PORTS]
//! ```
//!
//! PORTS is a list such as `80,443,1000-2000`. Keywords may be in either case, and words may have any white space
//! between, before and behind them. The parser takes octets as a peer sent them, is bounded, and does not panic.

mod filter;
mod filter_index;
mod filter_table;
mod matching;
mod packed;
mod prefix_filter;
mod reader;

use core::fmt;
use core::ops::Deref;
use core::str::FromStr;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::prefix::IpPrefix;

pub use self::filter::{SdfFilter, SdfFilterId, TosTrafficClass};
pub(crate) use self::filter_table::{FilterSet, FilterTable, TableEntry};
pub(crate) use self::matching::{matches, pack_filter, pack_flow};
pub(crate) use self::packed::{
    PackedFilter, PatternBuilder, PatternView, Span, TooManyPatterns, find_or_append, words_of,
};
pub(crate) use self::reader::{FieldReader, has_long_prefix, has_spi, is_spi, key_fields, ue_end};

/// The most ports and ranges that one side may list.
pub const MAX_PORT_RANGES: usize = 64;

/// Which way the description is written. TS 29.212 §5.4.2 wants `out`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Written {
    /// `out`: to the UE; the destination is the UE's side.
    Out,
    /// `in`: from the UE; the source is the UE's side.
    In,
}

/// An address in a description.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Address {
    /// `any`: all of both families.
    Any,
    /// `assigned`: the UE's own addresses.
    Assigned,
    /// Those in a prefix.
    Prefix(IpPrefix),
}

/// An inclusive range of ports, `first <= last`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// The ports from `first` to `last`; `None` when `first` is above `last`.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first <= last {
            Some(Self { first, last })
        } else {
            None
        }
    }

    /// One port.
    pub const fn single(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// The lowest port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether `port` is in the range.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// The ports and ranges that one side lists: a few are stored in the description itself.
pub type PortRanges = SmallVec<[PortRange; 4]>;

/// One side of a description.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    /// Its addresses.
    pub address: Address,
    /// Its ports, at most [`MAX_PORT_RANGES`] entries; empty is every port, and packets without ports.
    pub ports: PortRanges,
}

impl Endpoint {
    /// Every address and port.
    pub const ANY: Self = Self {
        address: Address::Any,
        ports: PortRanges::new_const(),
    };
}

/// A parsed Flow Description. Copies of one have it in common: an SMF writes the same few for very many sessions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowDescription(Arc<Description>);

/// What a Flow Description says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Description {
    /// Which way it is written.
    pub written: Written,
    /// The IP protocol; `None` is any (`ip`).
    pub protocol: Option<u8>,
    /// The side after `from`.
    pub source: Endpoint,
    /// The side after `to`.
    pub destination: Endpoint,
}

impl From<Description> for FlowDescription {
    fn from(description: Description) -> Self {
        Self(Arc::new(description))
    }
}

impl Deref for FlowDescription {
    type Target = Description;

    fn deref(&self) -> &Description {
        &self.0
    }
}

impl FlowDescription {
    /// Parses the Flow Description of an SDF Filter IE.
    ///
    /// # Errors
    /// What is wrong, and at which octet.
    pub fn parse(octets: &[u8]) -> Result<Self, SdfError> {
        Parser::new(octets).description().map(Self::from)
    }
}

impl Description {
    /// The UE's side: the destination of what is written `out`, the source of what is written `in`. `assigned` as
    /// a destination is the UE's side in any case.
    pub fn ue_side(&self) -> &Endpoint {
        if self.is_written_downlink() {
            &self.destination
        } else {
            &self.source
        }
    }

    /// The other side.
    pub fn remote_side(&self) -> &Endpoint {
        if self.is_written_downlink() {
            &self.source
        } else {
            &self.destination
        }
    }

    fn is_written_downlink(&self) -> bool {
        self.written == Written::Out || self.destination.address == Address::Assigned
    }
}

impl FromStr for FlowDescription {
    type Err = SdfError;

    fn from_str(text: &str) -> Result<Self, SdfError> {
        Self::parse(text.as_bytes())
    }
}

/// A Flow Description that cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SdfError {
    /// The octet, counted from 0, at which the trouble starts; the length of the text when something is missing.
    pub position: usize,
    /// What the trouble is.
    pub reason: SdfFault,
}

/// What is wrong with a Flow Description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SdfFault {
    /// The text ends where this was still to come.
    Missing(&'static str),
    /// Another word is in the place of this one.
    Expected(&'static str),
    /// The action is `deny`, or another than `permit`.
    Action,
    /// The protocol is neither `ip` nor 0..=255.
    Protocol,
    /// `!`, which 3GPP does not allow.
    Negation,
    /// Neither `any`, `assigned` nor an IP address.
    Address,
    /// The prefix length is not 0..=32 or 0..=128.
    PrefixLength,
    /// A port is not 0..=65535, or the list has an empty place.
    Port,
    /// A range of ports ends before it starts.
    PortOrder,
    /// One side lists more than [`MAX_PORT_RANGES`] ports and ranges.
    TooManyPorts,
    /// One side is IPv4 and the other IPv6.
    MixedFamilies,
    /// Something follows the description; options are not allowed.
    Trailing,
}

impl fmt::Display for SdfFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "{what} is missing"),
            Self::Expected(what) => write!(f, "{what} expected"),
            Self::Action => f.write_str("the action must be 'permit'"),
            Self::Protocol => f.write_str("the protocol must be 'ip' or 0..=255"),
            Self::Negation => f.write_str("'!' is not allowed"),
            Self::Address => f.write_str("the address must be 'any', 'assigned', IPv4 or IPv6"),
            Self::PrefixLength => f.write_str("the prefix length must be 0..=32 for IPv4, 0..=128 for IPv6"),
            Self::Port => f.write_str("a port must be 0..=65535"),
            Self::PortOrder => f.write_str("a range of ports must not end before it starts"),
            Self::TooManyPorts => write!(f, "at most {MAX_PORT_RANGES} ports and ranges may be listed"),
            Self::MixedFamilies => f.write_str("both sides must be IPv4 or both IPv6"),
            Self::Trailing => f.write_str("nothing may follow the destination"),
        }
    }
}

impl fmt::Display for SdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow description, octet {}: {}", self.position, self.reason)
    }
}

impl core::error::Error for SdfError {}

/// A word and the octet that it starts at.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a [u8],
    at: usize,
}

impl Word<'_> {
    fn is(self, keyword: &str) -> bool {
        self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }

    fn error(self, reason: SdfFault) -> SdfError {
        SdfError {
            position: self.at,
            reason,
        }
    }
}

/// Takes a description word by word.
struct Parser<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    fn description(mut self) -> Result<Description, SdfError> {
        let action = self.word("'permit'")?;
        if !action.is("permit") {
            return Err(action.error(SdfFault::Action));
        }
        let written = self.written()?;
        let protocol = self.protocol()?;
        self.keyword("from", "'from'")?;
        let source = self.endpoint("the source")?;
        self.keyword("to", "'to'")?;
        let before = self.at;
        let destination = self.endpoint("the destination")?;
        if let Some(word) = self.next_word() {
            return Err(word.error(SdfFault::Trailing));
        }
        check_families(&source, &destination, before)?;
        Ok(Description {
            written,
            protocol,
            source,
            destination,
        })
    }

    fn written(&mut self) -> Result<Written, SdfError> {
        let word = self.word("'out'")?;
        if word.is("out") {
            Ok(Written::Out)
        } else if word.is("in") {
            Ok(Written::In)
        } else {
            Err(word.error(SdfFault::Expected("'out' or 'in'")))
        }
    }

    fn protocol(&mut self) -> Result<Option<u8>, SdfError> {
        let word = self.word("the protocol")?;
        if word.is("ip") {
            return Ok(None);
        }
        decimal(word.text).map(Some).ok_or(word.error(SdfFault::Protocol))
    }

    fn keyword(&mut self, keyword: &'static str, quoted: &'static str) -> Result<(), SdfError> {
        let word = self.word(quoted)?;
        if word.is(keyword) {
            Ok(())
        } else {
            Err(word.error(SdfFault::Expected(quoted)))
        }
    }

    fn endpoint(&mut self, what: &'static str) -> Result<Endpoint, SdfError> {
        let address = address(self.word(what)?)?;
        Ok(Endpoint {
            address,
            ports: self.ports()?,
        })
    }

    /// The port list, if the next word starts like one.
    fn ports(&mut self) -> Result<PortRanges, SdfError> {
        let before = self.at;
        match self.next_word() {
            Some(word)
                if word
                    .text
                    .first()
                    .is_some_and(|octet| octet.is_ascii_digit() || *octet == b',') =>
            {
                ports(word)
            }
            _ => {
                self.at = before;
                Ok(PortRanges::new())
            }
        }
    }

    fn word(&mut self, what: &'static str) -> Result<Word<'a>, SdfError> {
        let end = SdfError {
            position: self.octets.len(),
            reason: SdfFault::Missing(what),
        };
        self.next_word().ok_or(end)
    }

    fn next_word(&mut self) -> Option<Word<'a>> {
        let rest = self.octets.get(self.at..)?;
        let start = self.at + rest.iter().position(|&octet| !is_space(octet))?;
        let rest = self.octets.get(start..)?;
        let len = rest
            .iter()
            .position(|&octet| is_space(octet))
            .unwrap_or(rest.len());
        self.at = start + len;
        Some(Word {
            text: rest.get(..len)?,
            at: start,
        })
    }
}

/// White space, and the NUL with which some senders close a string.
fn is_space(octet: u8) -> bool {
    octet.is_ascii_whitespace() || octet == 0 || octet == 0x0b
}

/// A decimal number without a sign.
fn decimal<T: FromStr>(digits: &[u8]) -> Option<T> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn address(word: Word<'_>) -> Result<Address, SdfError> {
    if word.is("any") {
        return Ok(Address::Any);
    }
    if word.is("assigned") {
        return Ok(Address::Assigned);
    }
    if word.text.first() == Some(&b'!') {
        return Err(word.error(SdfFault::Negation));
    }
    let slash = word.text.iter().position(|&octet| octet == b'/');
    let (address, len) = word.text.split_at(slash.unwrap_or(word.text.len()));
    let text = str::from_utf8(address).map_err(|_| word.error(SdfFault::Address))?;
    let address: IpAddr = text.parse().map_err(|_| word.error(SdfFault::Address))?;
    let prefix = match len.split_first() {
        None => Some(IpPrefix::host(address)),
        Some((_slash, len)) => decimal(len).and_then(|len| IpPrefix::new(address, len)),
    };
    let bad_len = SdfError {
        position: word.at + text.len() + 1,
        reason: SdfFault::PrefixLength,
    };
    prefix.map(Address::Prefix).ok_or(bad_len)
}

fn ports(word: Word<'_>) -> Result<PortRanges, SdfError> {
    let mut ranges = PortRanges::new();
    let mut at = word.at;
    for item in word.text.split(|&octet| octet == b',') {
        let item = Word { text: item, at };
        if ranges.len() == MAX_PORT_RANGES {
            return Err(item.error(SdfFault::TooManyPorts));
        }
        ranges.push(port_range(item)?);
        at += item.text.len() + 1;
    }
    Ok(ranges)
}

fn port_range(item: Word<'_>) -> Result<PortRange, SdfError> {
    let bad = item.error(SdfFault::Port);
    let mut ends = item.text.splitn(2, |&octet| octet == b'-');
    let first = ends.next().and_then(decimal).ok_or(bad)?;
    let last = match ends.next() {
        None => first,
        Some(last) => decimal(last).ok_or(bad)?,
    };
    PortRange::new(first, last).ok_or(item.error(SdfFault::PortOrder))
}

fn check_families(source: &Endpoint, destination: &Endpoint, position: usize) -> Result<(), SdfError> {
    match (source.address, destination.address) {
        (Address::Prefix(a), Address::Prefix(b)) if a.is_ipv4() != b.is_ipv4() => Err(SdfError {
            position,
            reason: SdfFault::MixedFamilies,
        }),
        _ => Ok(()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Assigned => f.write_str("assigned"),
            Self::Prefix(prefix) => fmt::Display::fmt(prefix, f),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.address, f)?;
        for (place, range) in self.ports.iter().enumerate() {
            f.write_str(if place == 0 { " " } else { "," })?;
            fmt::Display::fmt(range, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for FlowDescription {
    /// Writes the description so that it parses to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.written {
            Written::Out => "permit out ",
            Written::In => "permit in ",
        })?;
        match self.protocol {
            None => f.write_str("ip")?,
            Some(protocol) => write!(f, "{protocol}")?,
        }
        write!(f, " from {} to {}", self.source, self.destination)
    }
}

#[cfg(test)]
mod tests;
