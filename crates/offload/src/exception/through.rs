//! A packet that brings its flow along.

use core::fmt;

use flow::contract::Flow;
use flow::{PortId, SessionIndex};

use super::fields::{FRAME_LENGTH, FROM_HOST, HOPS, THROUGH, frame_of, put_start};
use crate::codec::{Bound, CodecError, Field, PORT, Reader, Wire, Writer};

/// Octets of the message authentication code.
pub const MAC_LEN: usize = 16;
/// Octets before the flow.
const FIXED_LEN: usize = 24;
/// Octets of the longest flow.
pub(super) const MAX_FLOW: usize = 104;

const SESSION: Field = Field::any("session");
const COUNTER: Field = Field::new("counter", Bound::Range(1, u64::MAX));
const FLOW_LENGTH: Field = Field::new("flow length", Bound::Range(1, MAX_FLOW as u64));
const RESERVED: Field = Field::zero("reserved");

/// The header in front of a frame whose flow the accelerator is to have: it puts the flow, and passes the packet
/// through it as if it had received the frame just now. Header and flow are authenticated; the frame is not, as no
/// other frame that the accelerator receives is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Through {
    /// The channel.
    pub channel: u8,
    /// How often the packet has been exchanged before, 0 to [`MAX_HOPS`](super::MAX_HOPS): that of its exception
    /// frame.
    pub hops: u8,
    /// Whose flow it is. The accelerator takes it only if it is of the session's generation.
    pub session: SessionIndex,
    /// Above that of each frame before in this contact, from 1.
    pub counter: u64,
    /// The port that received the frame.
    pub port: PortId,
    /// Octets of the frame.
    pub length: u16,
    /// The flow.
    pub flow: Flow,
}

impl Through {
    /// Octets of the longest header.
    pub const MAX_LEN: usize = FIXED_LEN + MAX_FLOW + MAC_LEN;

    /// Octets of the header, a multiple of 4.
    pub fn header_len(&self) -> usize {
        let mut counted = Writer::new(&mut []);
        self.flow.put(&mut counted);
        FIXED_LEN + counted.len() + MAC_LEN
    }

    /// Writes the header to the beginning of `out`, in front of the frame, and returns its length in octets. `seal`
    /// gives the message authentication code of what it is given: all of the header before it.
    ///
    /// # Errors
    ///
    /// When a field is out of its bound, or there is no room.
    pub fn write(
        &self,
        out: &mut [u8],
        seal: impl FnOnce(&[u8]) -> [u8; MAC_LEN],
    ) -> Result<usize, CodecError> {
        let most = out.len();
        let too_long = |octets| CodecError::TooLong { octets, most };
        let (fixed, behind) = out.split_at_mut_checked(FIXED_LEN).ok_or(too_long(FIXED_LEN))?;
        let mut flow = Writer::new(behind);
        self.flow.put(&mut flow);
        let flow_length = flow.end()?;
        let mut to = Writer::new(fixed);
        put_start(&FROM_HOST, THROUGH, self.channel, (&HOPS, self.hops), &mut to);
        to.u32(&SESSION, self.session.0);
        to.u64(&COUNTER, self.counter);
        to.u16(&PORT, self.port.0);
        to.u16(&FRAME_LENGTH, self.length);
        to.u16(&FLOW_LENGTH, flow_length as u16);
        to.u16(&RESERVED, 0);
        to.end()?;
        let octets = FIXED_LEN + flow_length + MAC_LEN;
        let header = out.get_mut(..octets).ok_or(too_long(octets))?;
        let (sealed, mac) = header.split_last_chunk_mut::<MAC_LEN>().ok_or(too_long(octets))?;
        *mac = seal(sealed);
        Ok(octets)
    }
}

/// A [`Through`] and its frame that are not authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedThrough<'a> {
    channel: u8,
    hops: u8,
    session: SessionIndex,
    counter: u64,
    port: PortId,
    flow: &'a [u8],
    sealed: &'a [u8],
    mac: &'a [u8; MAC_LEN],
    frame: &'a [u8],
}

impl<'a> SealedThrough<'a> {
    /// Reads what is behind the channel; `octets` is all that is behind the EtherType.
    pub(super) fn take(octets: &'a [u8], channel: u8, from: &mut Reader<'a>) -> Result<Self, CodecError> {
        let hops = from.u8(&HOPS)?;
        let session = SessionIndex(from.u32(&SESSION)?);
        let counter = from.u64(&COUNTER)?;
        let port = PortId(from.u16(&PORT)?);
        let length = from.u16(&FRAME_LENGTH)?;
        let flow_length = usize::from(from.u16(&FLOW_LENGTH)?);
        from.u16(&RESERVED)?;
        let short = |field| CodecError::Short { field };
        let (flow, rest) = from.rest().split_at_checked(flow_length).ok_or(short("flow"))?;
        let (mac, rest) = rest.split_first_chunk().ok_or(short("MAC"))?;
        Ok(Self {
            channel,
            hops,
            session,
            counter,
            port,
            flow,
            sealed: octets.get(..FIXED_LEN + flow_length).ok_or(short("flow"))?,
            mac,
            frame: frame_of(rest, length)?,
        })
    }

    /// Octets of the header.
    pub const fn header_len(&self) -> usize {
        self.sealed.len() + MAC_LEN
    }

    /// The channel that it says it is of, so that it can be given to its end.
    pub const fn channel(&self) -> u8 {
        self.channel
    }

    /// Reads the header, if `verifies` says that the code is that of the octets, in a time that does not depend on
    /// where they differ. Whether the counter is new, [`ReplayWindow`](super::ReplayWindow) says then.
    ///
    /// # Errors
    ///
    /// When it is not authentic, or the flow is none.
    pub fn open(
        &self,
        verifies: impl FnOnce(&[u8], &[u8; MAC_LEN]) -> bool,
    ) -> Result<(Through, &'a [u8]), OpenError> {
        if !verifies(self.sealed, self.mac) {
            return Err(OpenError::Mac);
        }
        let mut from = Reader::new(self.flow);
        let flow = Flow::take(&mut from)?;
        from.end()?;
        let header = Through {
            channel: self.channel,
            hops: self.hops,
            session: self.session,
            counter: self.counter,
            port: self.port,
            length: self.frame.len() as u16,
            flow,
        };
        Ok((header, self.frame))
    }
}

/// Why a [`SealedThrough`] is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// It is not authentic.
    Mac,
    /// The peer, which has the key, encoded something else than a flow.
    Flow(CodecError),
}

impl From<CodecError> for OpenError {
    fn from(error: CodecError) -> Self {
        Self::Flow(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mac => f.write_str("the message authentication code is not that of header and flow"),
            Self::Flow(error) => write!(f, "flow: {error}"),
        }
    }
}

impl core::error::Error for OpenError {}
