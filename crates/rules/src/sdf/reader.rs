//! Reads fields of a packet for SDF filters and PDRs, and records which.

use std::net::IpAddr;

use flow::{Direction, KeyFields};
use packet::tuple::proto;
use packet::{IpTuple, ipv6};

use super::packed::PatternView;
use crate::packet_view::{DetectedFlow, Detection, PacketView, Side};
use crate::prefix::{IpPrefix, is_link_local, owns};

/// Bits of an IPv6 address that a key's ADDRESS holds.
const KEY_PREFIX_BITS: u8 = 64;

/// Whether an IPv6 prefix is longer than what a key's ADDRESS holds.
fn is_long(prefix: &IpPrefix) -> bool {
    !prefix.is_ipv4() && is_long_ipv6(prefix.len())
}

/// Whether IPv6 prefixes of this length are longer than what a key's ADDRESS holds.
pub(crate) const fn is_long_ipv6(len: u8) -> bool {
    len > KEY_PREFIX_BITS
}

/// Whether one of the prefixes is longer than what a key's ADDRESS holds.
pub(crate) fn has_long_prefix(prefixes: &[IpPrefix]) -> bool {
    prefixes.iter().any(is_long)
}

/// The fields of a key without those that others imply: TUPLE has both addresses.
pub(crate) fn key_fields(fields: KeyFields) -> KeyFields {
    if fields.contains(KeyFields::TUPLE) {
        KeyFields::from_bits(fields.bits() & !KeyFields::ADDRESS.bits())
    } else {
        fields
    }
}

/// One end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Source,
    Destination,
}

/// The UE's end: the source of uplink packets.
pub(crate) const fn ue_end(direction: Direction) -> End {
    match direction {
        Direction::Uplink => End::Source,
        Direction::Downlink => End::Destination,
    }
}

/// The other end.
pub(crate) const fn remote_end(direction: Direction) -> End {
    match direction {
        Direction::Uplink => End::Destination,
        Direction::Downlink => End::Source,
    }
}

/// A packet whose fields can be read only together with a record of it.
pub(crate) struct FieldReader<'a> {
    tuple: &'a IpTuple,
    patterns: &'a PatternView<'a>,
    has_long_prefix: bool,
    is_plain: bool,
    has_read_ports: bool,
    detection: Detection<'a>,
    has_read_detection: bool,
    fields: KeyFields,
}

impl<'a> FieldReader<'a> {
    /// A packet of a session with the UE addresses in `patterns`; `has_long_prefix`: one of them is longer than what a
    /// key's ADDRESS holds.
    pub(crate) fn new(packet: &PacketView<'a>, patterns: &'a PatternView<'a>, has_long_prefix: bool) -> Self {
        let is_plain = matches!(packet.side, Side::Plain { .. });
        let mut reads = Self {
            tuple: packet.tuple,
            patterns,
            has_long_prefix,
            is_plain,
            has_read_ports: false,
            detection: Detection::Undecided,
            has_read_detection: false,
            fields: KeyFields::NONE,
        };
        if is_plain {
            // The session itself was found by the destination.
            reads.note_ue_address();
        }
        reads
    }

    /// The same packet, of a flow of which this is known.
    pub(crate) fn with_detection(self, detection: Detection<'a>) -> Self {
        Self { detection, ..self }
    }

    /// Whether the answer depends on what the packet's flow is found to be.
    pub(crate) fn has_read_detection(&self) -> bool {
        self.has_read_detection
    }

    /// Whether it does, and nothing is known of the flow yet.
    pub(crate) fn is_undecided(&self) -> bool {
        self.has_read_detection && self.detection == Detection::Undecided
    }

    /// What the packet's flow is found to be, if it is. Only flows of TCP and UDP are looked into; a fragment behind
    /// the first is of the flow of the first.
    pub(crate) fn detected(&mut self) -> Option<DetectedFlow<'a>> {
        if !matches!(self.protocol(), proto::TCP | proto::UDP) {
            return None;
        }
        self.has_read_ports = true;
        self.has_read_detection = true;
        self.detection.flow()
    }

    /// What was read, as the fields of a key.
    pub(crate) fn fields(&self) -> KeyFields {
        key_fields(self.fields)
    }

    /// Whether a port or an SPI was read, of which fragments behind the first have none. (Where an IPv6 fragment's
    /// chain of headers continues, its protocol is not visible either.)
    pub(crate) fn has_read_ports(&self) -> bool {
        self.has_read_ports
    }

    pub(crate) fn note(&mut self, fields: KeyFields) {
        self.fields |= fields;
    }

    /// Both ends of the packet will be looked for among the UE's connections.
    pub(crate) fn note_connection(&mut self) {
        self.note(KeyFields::TUPLE);
        self.has_read_ports = true;
    }

    /// The source was, or will be, compared with the UE's addresses.
    pub(crate) fn note_source(&mut self) {
        if self.is_plain {
            self.note(KeyFields::TUPLE)
        } else {
            self.note_ue_address()
        }
    }

    /// The address of ADDRESS was compared with the UE's.
    fn note_ue_address(&mut self) {
        let is_long = self.has_long_prefix && !self.is_ipv4();
        self.note(if is_long {
            KeyFields::TUPLE
        } else {
            KeyFields::ADDRESS
        });
    }

    /// The IP version: part of every key, so nothing to note.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.tuple.addrs.is_v4()
    }

    /// Whether the address at `end` is in `prefix`.
    pub(crate) fn is_in(&mut self, end: End, prefix: &IpPrefix) -> bool {
        if prefix.is_ipv4() != self.is_ipv4() {
            return false;
        }
        if prefix.len() > 0 {
            self.note_address(end, is_long(prefix));
        }
        prefix.contains(self.address(end))
    }

    /// The address at `end`, to be looked up among prefixes. `has_long_prefix`: one of those of IPv6 is longer than
    /// what a key's ADDRESS holds.
    pub(crate) fn address_for_lookup(&mut self, end: End, has_long_prefix: bool) -> IpAddr {
        self.note_address(end, has_long_prefix && !self.is_ipv4());
        self.address(end)
    }

    /// Whether the address at `end` is the UE's: one of its prefixes, or link-local, as the source of what it sends.
    /// True in a session that knows no UE address.
    pub(crate) fn is_ue(&mut self, end: End) -> bool {
        let prefixes = self.patterns.ue_prefixes();
        if prefixes.clone().next().is_none() {
            return true;
        }
        self.note_address(end, self.has_long_prefix);
        let address = self.address(end);
        owns(prefixes.clone(), address) || (end == End::Source && is_link_local(prefixes, address))
    }

    fn note_address(&mut self, end: End, is_long: bool) {
        let in_key = match end {
            End::Source => !self.is_plain,
            End::Destination => self.is_plain,
        };
        self.note(if in_key && !is_long {
            KeyFields::ADDRESS
        } else {
            KeyFields::TUPLE
        });
    }

    fn address(&self, end: End) -> IpAddr {
        match end {
            End::Source => self.tuple.addrs.src(),
            End::Destination => self.tuple.addrs.dst(),
        }
    }

    pub(crate) fn protocol(&mut self) -> u8 {
        self.note(KeyFields::TUPLE);
        self.has_read_ports |= !self.is_ipv4() && ipv6::is_extension(self.tuple.proto);
        self.tuple.proto
    }

    /// The port at `end`; 0 in packets without ports, fragments behind the first among them.
    pub(crate) fn port(&mut self, end: End) -> u16 {
        self.has_read_ports = true;
        self.note(KeyFields::TUPLE);
        match end {
            End::Source => self.tuple.src_port,
            End::Destination => self.tuple.dst_port,
        }
    }

    /// Type of Service or Traffic Class.
    pub(crate) fn tos(&mut self) -> u8 {
        self.note(KeyFields::TOS);
        self.tuple.tos
    }

    /// The SPI of ESP or AH. Fragments behind the first have none.
    pub(crate) fn spi(&mut self) -> Option<u32> {
        self.has_read_ports = true;
        self.note(KeyFields::TUPLE);
        has_spi(self.tuple).then_some(self.tuple.spi)
    }

    /// The flow label of an IPv6 packet.
    pub(crate) fn flow_label(&mut self) -> Option<u32> {
        if self.is_ipv4() {
            return None;
        }
        self.note(KeyFields::FLOW_LABEL);
        Some(self.tuple.flow_label)
    }
}

/// Whether the packet is ESP or AH. (A fragment of one has SPI 0, which no security association uses.)
pub(crate) fn has_spi(tuple: &IpTuple) -> bool {
    is_spi(tuple.proto)
}

/// Whether packets of this protocol have an SPI in the place of ports.
pub(crate) const fn is_spi(protocol: u8) -> bool {
    matches!(protocol, proto::ESP | proto::AH)
}
