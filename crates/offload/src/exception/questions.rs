//! Questions of an accelerator: the first octets of packets that it keeps until the host has answered.

use flow::PortId;

use super::fields::{FRAME_LENGTH, QUESTIONS, VERSION, layer4_within, user_packet_within};
use crate::codec::{Bound, CodecError, Field, PORT, Reader, Writer};

const COUNT: Field = Field::new("questions", Bound::Range(1, u8::MAX as u64));
const NUMBER: Field = Field::any("number");
const RESERVED: Field = Field::zero("reserved");

/// A packet that the accelerator keeps: what the host needs to decide about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// What the answer names it by.
    pub number: u32,
    /// The port that received the frame.
    pub port: PortId,
    /// Octets of the whole frame.
    pub length: u16,
    /// Where the user packet begins, an IP header, in octets from the frame's beginning.
    pub user_packet: u16,
    /// Where the header of its layer 4 begins; `None` where the accelerator does not know.
    pub layer4: Option<u16>,
    /// The first octets of the frame, with all headers down to layer 4's.
    pub head: &'a [u8],
}

impl Question<'_> {
    /// Octets before the head.
    const FIXED: usize = 16;
    /// The most octets of a head.
    pub const MAX_HEAD: usize = 256;

    const fn len(&self) -> usize {
        Self::FIXED + self.head.len().next_multiple_of(4)
    }

    fn put(&self, to: &mut Writer<'_>) {
        to.u32(&NUMBER, self.number);
        to.u16(&PORT, self.port.0);
        to.u16(&FRAME_LENGTH, self.length);
        to.u16(&must(user_packet_within(self.length)), self.user_packet);
        to.check(&Field::zero("layer 4"), (self.layer4 == Some(0)).into());
        to.u16(
            &layer4_within(Some(self.user_packet), self.length),
            self.layer4.unwrap_or(0),
        );
        to.u16(&head_within(self), self.head.len() as u16);
        to.u16(&RESERVED, 0);
        to.array(self.head);
        to.reserved(self.head.len().next_multiple_of(4) - self.head.len());
    }
}

/// A user packet that is there.
const fn must(field: Field) -> Field {
    field.without_other()
}

/// A head has a part of the user packet, and no more than the frame.
const fn head_within(question: &Question<'_>) -> Field {
    let most = if (question.length as usize) < Question::MAX_HEAD {
        question.length as u64
    } else {
        Question::MAX_HEAD as u64
    };
    Field::new("head", Bound::Range(question.user_packet as u64 + 1, most))
}

/// The questions of a frame, one after the other; what cannot be read ends them with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Questions<'a> {
    /// The channel, which is that of the host's worker.
    pub channel: u8,
    left: u8,
    rest: &'a [u8],
}

impl<'a> Questions<'a> {
    /// Reads what is behind the channel.
    pub(super) fn take(channel: u8, from: &mut Reader<'a>) -> Result<Self, CodecError> {
        Ok(Self {
            channel,
            left: from.u8(&COUNT)?,
            rest: from.rest(),
        })
    }

    fn read(&mut self) -> Result<Question<'a>, CodecError> {
        let mut from = Reader::new(self.rest);
        let number = from.u32(&NUMBER)?;
        let port = PortId(from.u16(&PORT)?);
        let length = from.u16(&FRAME_LENGTH)?;
        let user_packet = from.u16(&must(user_packet_within(length)))?;
        let layer4 = from.u16(&layer4_within(Some(user_packet), length))?;
        let mut question = Question {
            number,
            port,
            length,
            user_packet,
            layer4: (layer4 != 0).then_some(layer4),
            head: &[],
        };
        let octets = usize::from(from.u16(&head_within(&question))?);
        from.u16(&RESERVED)?;
        let short = CodecError::Short { field: "head" };
        let (head, _) = from.rest().split_at_checked(octets).ok_or(short)?;
        question.head = head;
        let mut padding = Reader::new(from.rest().get(octets..).unwrap_or_default());
        padding.reserved(octets.next_multiple_of(4) - octets)?;
        self.rest = padding.rest();
        Ok(question)
    }
}

impl<'a> Iterator for Questions<'a> {
    type Item = Result<Question<'a>, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let question = self.read();
        if question.is_err() {
            self.left = 0;
        }
        Some(question)
    }
}

/// Writes questions into frames.
#[derive(Clone, Debug, Default)]
pub struct QuestionsWriter {
    octets: Vec<u8>,
}

impl QuestionsWriter {
    /// Octets before the first question.
    const HEADER: usize = 4;

    /// Adds a question behind those that are there. False, and no change, where it makes the frame's part behind the
    /// EtherType longer than `most`, or is none.
    pub fn add(&mut self, channel: u8, question: &Question<'_>, most: usize) -> bool {
        let begin = self.octets.len().max(Self::HEADER);
        let end = begin + question.len();
        let count = self.octets.get(3).copied().unwrap_or(0);
        if end > most || count == u8::MAX {
            return false;
        }
        self.octets.resize(end, 0);
        let mut to = Writer::new(self.octets.get_mut(begin..).unwrap_or_default());
        question.put(&mut to);
        if to.end().is_err() {
            self.octets.truncate(if count == 0 { 0 } else { begin });
            return false;
        }
        let start = [VERSION, QUESTIONS, channel, count + 1];
        if let Some(header) = self.octets.first_chunk_mut() {
            *header = start;
        }
        true
    }

    /// What is behind the EtherType; nothing where no question was added.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Begins another frame.
    pub fn clear(&mut self) {
        self.octets.clear();
    }
}
