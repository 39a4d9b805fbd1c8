//! What a host sends.

use flow::PortId;

use super::answers::SealedAnswers;
use super::fields::{ANSWERS, FRAME_LENGTH, FROM_HOST, SEND, THROUGH, frame_of, put_start, take_start};
use super::marker::Marker;
use super::through::SealedThrough;
use crate::codec::{CodecError, Field, PORT, Reader, Writer};

const RESERVED: Field = Field::zero("reserved");

/// The header in front of a frame that leaves the accelerator as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The channel.
    pub channel: u8,
    /// The port that it leaves by.
    pub port: PortId,
    /// Octets of the frame.
    pub length: u16,
}

impl Send {
    /// Octets of the header.
    pub const LEN: usize = 8;

    /// Writes the header to the beginning of `out`, in front of the frame, and returns its length in octets.
    ///
    /// # Errors
    ///
    /// When a field is out of its bound, or there is no room.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        let mut to = Writer::new(out);
        put_start(&FROM_HOST, SEND, self.channel, (&RESERVED, 0), &mut to);
        to.u16(&PORT, self.port.0);
        to.u16(&FRAME_LENGTH, self.length);
        to.end()
    }

    fn take(channel: u8, from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.u8(&RESERVED)?;
        let port = PortId(from.u16(&PORT)?);
        let length = from.u16(&FRAME_LENGTH)?;
        Ok(Self {
            channel,
            port,
            length,
        })
    }
}

/// What is in an exception frame of a host, behind the EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromHost<'a> {
    /// A frame that leaves.
    Send(Send, &'a [u8]),
    /// A frame as it was received, with its flow.
    Through(SealedThrough<'a>),
    /// A marker that comes back.
    Marker(Marker),
    /// Answers to questions.
    Answers(SealedAnswers<'a>),
}

impl<'a> FromHost<'a> {
    /// Reads what is behind the EtherType. Octets behind the frame are padding.
    ///
    /// # Errors
    ///
    /// What is wrong with the octets.
    pub fn read(octets: &'a [u8]) -> Result<Self, CodecError> {
        let mut from = Reader::new(octets);
        let (frame_type, channel) = take_start(&FROM_HOST, &mut from)?;
        match frame_type {
            SEND => {
                let header = Send::take(channel, &mut from)?;
                Ok(Self::Send(header, frame_of(from.rest(), header.length)?))
            }
            THROUGH => Ok(Self::Through(SealedThrough::take(octets, channel, &mut from)?)),
            ANSWERS => Ok(Self::Answers(SealedAnswers::take(octets, channel, &mut from)?)),
            _ => Ok(Self::Marker(Marker::take(channel, &mut from)?)),
        }
    }
}
