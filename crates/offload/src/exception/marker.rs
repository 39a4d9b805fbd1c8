//! Markers in the stream of exception frames.

use super::fields::{FROM_ACCELERATOR, FROM_HOST, MARKER, MARKER_BACK, put_start};
use crate::codec::{CodecError, Field, Reader, Writer};

const NUMBER: Field = Field::any("number");
const RESERVED: Field = Field::zero("reserved");

/// A number that the accelerator sends among its exception frames of a channel, and the host sends back in order: when
/// it comes back, all that was sent before it has been processed, and what the host sent for it has arrived before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The channel whose stream it is in.
    pub channel: u8,
    /// The number.
    pub number: u64,
}

impl Marker {
    /// Octets of the header, which nothing follows.
    pub const LEN: usize = 12;

    /// Writes the accelerator's form to the beginning of `out`, and returns its length in octets.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn write(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        self.put(&FROM_ACCELERATOR, MARKER, out)
    }

    /// Writes the host's form, which brings it back.
    ///
    /// # Errors
    ///
    /// When there is no room.
    pub fn write_back(&self, out: &mut [u8]) -> Result<usize, CodecError> {
        self.put(&FROM_HOST, MARKER_BACK, out)
    }

    fn put(&self, of: &Field, frame_type: u8, out: &mut [u8]) -> Result<usize, CodecError> {
        let mut to = Writer::new(out);
        put_start(of, frame_type, self.channel, (&RESERVED, 0), &mut to);
        to.u64(&NUMBER, self.number);
        to.end()
    }

    /// Reads what is behind the channel.
    pub(super) fn take(channel: u8, from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.u8(&RESERVED)?;
        let number = from.u64(&NUMBER)?;
        Ok(Self { channel, number })
    }
}
