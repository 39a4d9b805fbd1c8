//! What an accelerator sends.

use flow::{BUCKETS, Bucket, Nanos, PortId};

use super::fields::{
    EXCEPTION, FRAME_LENGTH, FROM_ACCELERATOR, HOPS, MARKER, STEERED, frame_of, layer4_within, put_start,
    take_start, user_packet_within,
};
use super::marker::Marker;
use super::questions::Questions;
use super::reason::Reason;
use crate::codec::{CodecError, Field, PORT, Reader, Writer};

const CLASS: Field = Field::most("class", 2);
const CLASSES: &[Class] = &[Class::Urgent, Class::High, Class::Normal];
const REASON: Field = Field::most("reason", Reason::COUNT as u64 - 1);
const TAGS: Field = Field::most("VLAN tags", 2);
const RESERVED: Field = Field::zero("reserved");
const HINT: Field = Field::any("flow hint");
const RECEIVED: Field = Field::any("time");
const BUCKET: Field = Field::most("bucket", BUCKETS as u64 - 1);

/// In which order the host's queue serves frames, and drops them last to first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// What keeps the network up: ARP, Neighbour Discovery, ICMP errors, GTP-U signalling, LACP.
    Urgent = 0,
    /// User packets whose outer or only header has a DSCP of 32 or above (class selectors 4 to 7, EF, AF4).
    High = 1,
    /// All others.
    Normal = 2,
}

/// The header in front of a frame that the accelerator gives to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The channel, which is that of the host's worker.
    pub channel: u8,
    /// The class, which chooses the queue.
    pub class: Class,
    /// Why it comes.
    pub reason: Reason,
    /// How many VLAN tags the frame has, 0 to 2: they are in it as they were received.
    pub tags: u8,
    /// How often the packet has been exchanged before, 0 to [`MAX_HOPS`](super::MAX_HOPS): 0 from the wire, one more
    /// than in the [`Through`](super::Through) that it came in.
    pub hops: u8,
    /// The port that received the frame.
    pub port: PortId,
    /// Octets of the frame.
    pub length: u16,
    /// Where the user packet begins, an IP header, in octets from the frame's beginning; `None` where the accelerator
    /// does not know, or there is none.
    pub user_packet: Option<u16>,
    /// Where the header of the user packet's layer 4 begins, likewise.
    pub layer4: Option<u16>,
    /// A hash of the flow: packets with the same key have the same one.
    pub hint: u32,
    /// When the frame was received, nanoseconds of the accelerator's clock.
    pub received: Nanos,
}

impl Exception {
    /// Octets of the header.
    pub const LEN: usize = 28;

    /// Writes the header to the beginning of `out`, in front of the frame, and returns its length in octets.
    ///
    /// # Errors
    ///
    /// When a field is out of its bound, or there is no room.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        let mut to = Writer::new(out);
        self.put(EXCEPTION, &mut to);
        to.end()
    }

    fn put(&self, frame_type: u8, to: &mut Writer<'_>) {
        let class = (&CLASS, self.class as u8);
        put_start(&FROM_ACCELERATOR, frame_type, self.channel, class, to);
        to.u8(&REASON, self.reason.number());
        to.u8(&TAGS, self.tags);
        to.u8(&HOPS, self.hops);
        to.u8(&RESERVED, 0);
        to.u16(&PORT, self.port.0);
        to.u16(&FRAME_LENGTH, self.length);
        for (offset, field) in [
            (self.user_packet, user_packet_within(self.length)),
            (self.layer4, layer4_within(self.user_packet, self.length)),
        ] {
            // 0 says that there is none.
            to.check(&Field::zero("offset"), (offset == Some(0)).into());
            to.u16(&field, offset.unwrap_or(0));
        }
        to.u32(&HINT, self.hint);
        to.u64(&RECEIVED, self.received.0);
    }

    fn take(channel: u8, from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let class = from.place(&CLASS, CLASSES)?;
        let reason = from.place(&REASON, &Reason::ALL)?;
        let (tags, hops) = (from.u8(&TAGS)?, from.u8(&HOPS)?);
        from.u8(&RESERVED)?;
        let port = PortId(from.u16(&PORT)?);
        let length = from.u16(&FRAME_LENGTH)?;
        let some = |offset| (offset != 0).then_some(offset);
        let user_packet = some(from.u16(&user_packet_within(length))?);
        let layer4 = some(from.u16(&layer4_within(user_packet, length))?);
        Ok(Self {
            channel,
            class,
            reason,
            tags,
            hops,
            port,
            length,
            user_packet,
            layer4,
            hint: from.u32(&HINT)?,
            received: Nanos(from.u64(&RECEIVED)?),
        })
    }
}

/// The same, of a packet of a UE, with the bucket that the host may find its worker by: that of its TEID, or of its
/// destination ([`flow::bucket`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steered {
    /// As of an exception.
    pub header: Exception,
    /// The bucket.
    pub bucket: Bucket,
}

impl Steered {
    /// Octets of the header.
    pub const LEN: usize = Exception::LEN + 4;

    /// Writes the header to the beginning of `out`, in front of the frame, and returns its length in octets.
    ///
    /// # Errors
    ///
    /// When a field is out of its bound, or there is no room.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        let mut to = Writer::new(out);
        self.header.put(STEERED, &mut to);
        to.u16(&BUCKET, self.bucket.index() as u16);
        to.reserved(2);
        to.end()
    }

    fn take(channel: u8, from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let header = Exception::take(channel, from)?;
        let number = from.u16(&BUCKET)?;
        from.reserved(2)?;
        Ok(Self {
            header,
            // It is within its bound.
            bucket: Bucket::of_rss_hash(number.into()),
        })
    }
}

/// What is in an exception frame of an accelerator, behind the EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromAccelerator<'a> {
    /// A frame, as it was received.
    Exception(Exception, &'a [u8]),
    /// The same with its bucket.
    Steered(Steered, &'a [u8]),
    /// A marker.
    Marker(Marker),
    /// Questions.
    Questions(Questions<'a>),
}

impl<'a> FromAccelerator<'a> {
    /// Reads what is behind the EtherType. Octets behind the frame are padding.
    ///
    /// # Errors
    ///
    /// What is wrong with the octets.
    pub fn read(octets: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Reader::new(octets);
        let (frame_type, channel) = take_start(&FROM_ACCELERATOR, &mut from)?;
        match frame_type {
            EXCEPTION => {}
            STEERED => {
                let steered = Steered::take(channel, &mut from)?;
                let frame = frame_of(from.rest(), steered.header.length)?;
                return Ok(Self::Steered(steered, frame));
            }
            MARKER => return Ok(Self::Marker(Marker::take(channel, &mut from)?)),
            _ => return Ok(Self::Questions(Questions::take(channel, &mut from)?)),
        }
        let header = Exception::take(channel, &mut from)?;
        Ok(Self::Exception(header, frame_of(from.rest(), header.length)?))
    }
}
