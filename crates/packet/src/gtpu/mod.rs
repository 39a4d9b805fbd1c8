//! GTP-U (TS 29.281): header, extension headers, information elements.
//!
//! [`Message::parse`] reads a whole message of any type; the packet path takes the shortcut in [`crate::frame`], which
//! is held to the same results by test. What a message means to a tunnel or a path is for the worker to say.

mod extension;
mod ie;

pub use extension::{
    Comprehension, ExtensionHeader, ExtensionHeaders, ExtensionIter, ExtensionType, SUPPORTED_EXTENSIONS,
    Unknown,
};
pub use ie::{ErrorIndication, Ie, IeType, Ies, PrivateExtension};

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DropReason, Teid};

/// The registered UDP port (TS 29.281 §4.4.2).
pub const PORT: u16 = 2152;
/// Octets of the mandatory part of the header.
pub const HEADER_LEN: usize = 8;
/// Octets that follow it when any of E, S and PN is set.
pub const OPTIONAL_LEN: usize = 4;
/// Most extension headers of one message; a longer chain is dropped.
pub const MAX_EXTENSIONS: usize = 8;

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

/// The mandatory part of a GTP-U header as it lies on the wire.
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

/// A whole GTP-U message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Message type.
    pub message_type: MessageType,
    /// Tunnel endpoint identifier of the receiver.
    pub teid: Teid,
    /// Sequence number, when S is set.
    pub sequence: Option<u16>,
    /// N-PDU number, when PN is set.
    pub npdu: Option<u8>,
    /// The chain of extension headers, walked once: every one of them is whole.
    pub extensions: ExtensionHeaders<'a>,
    /// Octet at which the payload (user packet or information elements) starts, from the start of the header.
    pub payload_offset: usize,
    /// Octets of payload that the length announces; `bytes` may hold fewer.
    pub payload_len: usize,
    bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads the message that starts at `bytes[0]`. `available` is how many octets the datagram has from there on, of
    /// which `bytes` holds at least the headers. Octets behind the announced length are ignored.
    ///
    /// # Errors
    /// [`DropReason::TruncatedGtpu`], [`DropReason::BadGtpuVersion`], [`DropReason::BadGtpuLength`],
    /// [`DropReason::BadGtpuExtension`].
    pub fn parse(bytes: &'a [u8], available: usize) -> Result<Self, DropReason> {
        // Beyond `available` may lie the link layer's padding.
        let header = Header::ref_from_prefix(bytes)
            .ok()
            .filter(|_| available >= HEADER_LEN);
        let (header, rest) = header.ok_or(DropReason::TruncatedGtpu)?;
        if header.flags & flags::VERSION_MASK != flags::VERSION_1 {
            return Err(DropReason::BadGtpuVersion);
        }
        let end = HEADER_LEN + usize::from(header.length.get());
        if end > available {
            return Err(DropReason::BadGtpuLength);
        }
        let mut message = Message {
            message_type: MessageType(header.message_type),
            teid: Teid(header.teid.get()),
            sequence: None,
            npdu: None,
            extensions: ExtensionHeaders::NONE,
            payload_offset: HEADER_LEN,
            payload_len: end - HEADER_LEN,
            bytes,
        };
        if header.flags & flags::OPTIONAL != 0 {
            message.read_optional(header.flags, rest)?;
        }
        Ok(message)
    }

    fn read_optional(&mut self, flags: u8, rest: &'a [u8]) -> Result<(), DropReason> {
        if self.payload_len < OPTIONAL_LEN {
            return Err(DropReason::BadGtpuLength);
        }
        let (fields, rest) = OptionalFields::ref_from_prefix(rest).map_err(|_| DropReason::TruncatedGtpu)?;
        self.sequence = (flags & flags::S != 0).then(|| fields.sequence.get());
        self.npdu = (flags & flags::PN != 0).then_some(fields.npdu);
        self.payload_offset += OPTIONAL_LEN;
        self.payload_len -= OPTIONAL_LEN;
        if flags & flags::E != 0 {
            let chain = rest.get(..self.payload_len.min(rest.len())).unwrap_or_default();
            let (extensions, len) = ExtensionHeaders::parse(fields.next_extension, chain)?;
            self.extensions = extensions;
            self.payload_offset += len;
            self.payload_len -= len;
        }
        Ok(())
    }

    /// The contiguous part of the payload.
    pub fn payload(&self) -> &'a [u8] {
        let rest = self.bytes.get(self.payload_offset..).unwrap_or_default();
        rest.get(..self.payload_len).unwrap_or(rest)
    }

    /// The information elements of a signalling message.
    pub fn ies(&self) -> Ies<'a> {
        Ies::new(self.payload())
    }
}
