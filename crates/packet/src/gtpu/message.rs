//! A whole GTP-U message: header, extension headers, payload (TS 29.281 §5, §6).

use zerocopy::FromBytes;

use crate::{DropReason, Teid};

use super::extension::ExtensionHeaders;
use super::header::{HEADER_LEN, Header, MessageType, OPTIONAL_LEN, OptionalFields, flags};
use super::ie::Ies;

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
        // Octets beyond `available` may be padding of the link layer.
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
