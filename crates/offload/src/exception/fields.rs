//! The fields that several headers have.

use crate::codec::{Bound, CodecError, Field, Reader, Writer};

/// The version of exception frames.
pub const VERSION: u8 = 1;
/// How often a packet may be exchanged, at most.
pub const MAX_HOPS: u8 = 7;

pub(super) const EXCEPTION: u8 = 1;
pub(super) const MARKER: u8 = 2;
pub(super) const QUESTIONS: u8 = 3;
pub(super) const STEERED: u8 = 4;
pub(super) const SEND: u8 = 0x81;
pub(super) const THROUGH: u8 = 0x82;
pub(super) const MARKER_BACK: u8 = 0x83;
pub(super) const ANSWERS: u8 = 0x84;

const VERSION_FIELD: Field = Field::new("version", Bound::Range(VERSION as u64, VERSION as u64));
/// The types of an accelerator's frames.
pub(super) const FROM_ACCELERATOR: Field = Field::new("frame type", Bound::OneOf(&[1, 2, 3, 4]));
/// The types of a host's frames.
pub(super) const FROM_HOST: Field = Field::new("frame type", Bound::OneOf(&[0x81, 0x82, 0x83, 0x84]));
pub(super) const CHANNEL: Field = Field::any("channel");
pub(super) const HOPS: Field = Field::most("hops", MAX_HOPS as u64);
/// At least an Ethernet header.
pub(super) const FRAME_LENGTH: Field = Field::new("frame length", Bound::Range(14, u16::MAX as u64));

/// Four octets: version, type, channel, and one that is the type's own.
pub(super) fn put_start(of: &Field, frame_type: u8, channel: u8, own: (&Field, u8), to: &mut Writer<'_>) {
    to.u8(&VERSION_FIELD, VERSION);
    to.u8(of, frame_type);
    to.u8(&CHANNEL, channel);
    to.u8(own.0, own.1);
}

/// The type and the channel.
pub(super) fn take_start(of: &Field, from: &mut Reader<'_>) -> Result<(u8, u8), CodecError> {
    from.u8(&VERSION_FIELD)?;
    Ok((from.u8(of)?, from.u8(&CHANNEL)?))
}

/// The frame behind a header; what is behind it is padding.
pub(super) fn frame_of(octets: &[u8], length: u16) -> Result<&[u8], CodecError> {
    octets
        .get(..usize::from(length))
        .ok_or(CodecError::Short { field: "frame" })
}

/// Behind the Ethernet header, and within the frame.
pub(super) const fn user_packet_within(length: u16) -> Field {
    Field::new(
        "user packet",
        Bound::RangeOr(14, (length as u64).saturating_sub(1), 0),
    )
}

/// Behind the beginning of the user packet, and within the frame.
pub(super) const fn layer4_within(user_packet: Option<u16>, length: u16) -> Field {
    match user_packet {
        None => Field::zero("layer 4"),
        Some(begin) => Field::new(
            "layer 4",
            Bound::RangeOr(begin as u64 + 1, (length as u64).saturating_sub(1), 0),
        ),
    }
}
