//! GTP-U header: message types, flags, mandatory and optional part (TS 29.281 §5.1, §6.1).

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The registered UDP port (TS 29.281 §4.4.2).
pub const PORT: u16 = 2152;
/// Octets of the mandatory part of the header.
pub const HEADER_LEN: usize = 8;
/// Octets that follow it when any of E, S and PN is set.
pub const OPTIONAL_LEN: usize = 4;

/// A GTP-U message type (TS 29.281 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Echo Request (§7.2.1).
    pub const ECHO_REQUEST: Self = Self(1);
    /// Echo Response (§7.2.2).
    pub const ECHO_RESPONSE: Self = Self(2);
    /// Error Indication (§7.3.1).
    pub const ERROR_INDICATION: Self = Self(26);
    /// Supported Extension Headers Notification (§7.2.3).
    pub const SUPPORTED_EXTENSION_HEADERS_NOTIFICATION: Self = Self(31);
    /// Tunnel Status (§7.3.3).
    pub const TUNNEL_STATUS: Self = Self(253);
    /// End Marker (§7.3.2).
    pub const END_MARKER: Self = Self(254);
    /// G-PDU: a user packet in its tunnel.
    pub const G_PDU: Self = Self(255);

    /// The name that TS 29.281 gives it; `None` for a type that GTP-U does not have.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::ECHO_REQUEST => "Echo Request",
            Self::ECHO_RESPONSE => "Echo Response",
            Self::ERROR_INDICATION => "Error Indication",
            Self::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION => "Supported Extension Headers Notification",
            Self::TUNNEL_STATUS => "Tunnel Status",
            Self::END_MARKER => "End Marker",
            Self::G_PDU => "G-PDU",
            _ => return None,
        })
    }

    /// Whether the message belongs to a tunnel: its TEID is one and it takes the tunnel's way.
    #[inline]
    pub const fn is_of_a_tunnel(self) -> bool {
        matches!(self, Self::G_PDU | Self::END_MARKER | Self::TUNNEL_STATUS)
    }
}

impl core::fmt::Debug for MessageType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "MessageType({})", self.0),
        }
    }
}

/// The first octet of a GTP-U header (TS 29.281 §5.1).
pub mod flags {
    /// Version 1, protocol type GTP, nothing optional.
    pub const VERSION_1: u8 = 0x30;
    /// Version (3 bits) and protocol type: what must equal [`VERSION_1`].
    pub const VERSION_MASK: u8 = 0xf0;
    /// An extension header follows.
    pub const E: u8 = 0x04;
    /// The sequence number is meaningful.
    pub const S: u8 = 0x02;
    /// The N-PDU number is meaningful.
    pub const PN: u8 = 0x01;
    /// Any of them: four more octets follow the mandatory part.
    pub const OPTIONAL: u8 = E | S | PN;
}

/// The mandatory part of a GTP-U header in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Version, protocol type and the flags E, S, PN.
    pub flags: u8,
    /// Message type.
    pub message_type: u8,
    /// Octets behind the mandatory part, optional fields and extension headers included.
    pub length: U16,
    /// Tunnel endpoint identifier of the receiver.
    pub teid: U32,
}

/// The optional part, present as a whole when any of E, S and PN is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OptionalFields {
    /// Sequence number, of use only with S.
    pub sequence: U16,
    /// N-PDU number, of use only with PN.
    pub npdu: u8,
    /// Type of the first extension header, of use only with E; 0 is none.
    pub next_extension: u8,
}
