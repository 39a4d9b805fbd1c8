//! `Message`, and its octets.

use flow::contract::{Capabilities, Event, Notice, Reply, Request};

use super::capabilities::HostCapabilities;
use super::field::{Bound, CodecError, Field, MAX_MESSAGE, Reader, Wire, Writer};
use super::{notice, request, types};

/// The version of the form of messages.
pub const FORM: u8 = 1;
const VERSION: Field = Field::new("version", Bound::Range(FORM as u64, FORM as u64));

/// A message of the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Host to accelerator.
    Request(Request),
    /// Accelerator to host: the only part of a reply, or the last one.
    Reply(Reply),
    /// Accelerator to host: the only part of an event, or the last one.
    Event(Event),
    /// What an end can do: in the handshake of the channel.
    Capabilities(Capabilities),
    /// What a host can do: in the handshake of the channel.
    HostCapabilities(HostCapabilities),
    /// Accelerator to host: a reply or an event of which the list continues in the next message.
    Part(Notice),
}

impl From<Notice> for Message {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::Reply(reply) => Self::Reply(reply),
            Notice::Event(event) => Self::Event(event),
        }
    }
}

/// Writes a message behind what is in `out`; where it fails, `out` is as before.
///
/// # Errors
///
/// [`CodecError::TooLong`] for a list that has to be divided ([`parts`](super::parts())), [`CodecError::Value`] and
/// [`CodecError::Twice`] for what no backend could be given.
pub fn encode(message: &Message, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let begin = out.len();
    out.resize(begin + MAX_MESSAGE, 0);
    let written = encode_to(message, out.get_mut(begin..).unwrap_or_default());
    out.truncate(begin + *written.as_ref().unwrap_or(&0));
    written.map(drop)
}

/// Writes a message to the beginning of `out`, and returns its length in octets.
///
/// # Errors
///
/// As [`encode`]; [`CodecError::TooLong`] also where `out` is shorter than the message.
pub fn encode_to(message: &Message, out: &mut [u8]) -> Result<usize, CodecError> {
    let room = out.len();
    let mut to = Writer::new(out.get_mut(..room.min(MAX_MESSAGE)).unwrap_or_default());
    to.u8(&VERSION, FORM);
    to.u8(&types::TYPE, type_of(message));
    match message {
        Message::Request(request) => request::put(request, &mut to),
        Message::Reply(reply) => notice::put_reply(reply, false, &mut to),
        Message::Part(Notice::Reply(reply)) => notice::put_reply(reply, true, &mut to),
        Message::Event(event) => notice::put_event(event, false, &mut to),
        Message::Part(Notice::Event(event)) => notice::put_event(event, true, &mut to),
        Message::Capabilities(capabilities) => capabilities.put(&mut to),
        Message::HostCapabilities(capabilities) => capabilities.put(&mut to),
    }
    to.end()
}

const fn type_of(message: &Message) -> u8 {
    match message {
        Message::Request(request) => request::type_of(request),
        Message::Reply(reply) | Message::Part(Notice::Reply(reply)) => notice::type_of_reply(reply),
        Message::Event(event) | Message::Part(Notice::Event(event)) => notice::type_of_event(event),
        Message::Capabilities(_) => types::CAPABILITIES,
        Message::HostCapabilities(_) => types::HOST_CAPABILITIES,
    }
}

/// Reads a message.
///
/// # Errors
///
/// What is wrong with the octets. What encodes to the same octets again is all that is read.
pub fn decode(octets: &[u8]) -> Result<Message, CodecError> {
    if octets.len() > MAX_MESSAGE {
        return Err(CodecError::TooLong {
            octets: octets.len(),
            most: MAX_MESSAGE,
        });
    }
    let mut from = Reader::new(octets);
    from.u8(&VERSION)?;
    let message_type = from.u8(&types::TYPE)?;
    let message = match message_type >> 4 {
        1 => Message::Request(request::take(message_type, &mut from)?),
        2 => of_part(notice::take_reply(message_type, &mut from)?),
        3 => of_part(notice::take_event(message_type, &mut from)?),
        _ if message_type == types::HOST_CAPABILITIES => {
            Message::HostCapabilities(HostCapabilities::take(&mut from)?)
        }
        _ => Message::Capabilities(Capabilities::take(&mut from)?),
    };
    from.end()?;
    Ok(message)
}

fn of_part(part: notice::Part) -> Message {
    match part.more {
        true => Message::Part(part.notice),
        false => part.notice.into(),
    }
}
