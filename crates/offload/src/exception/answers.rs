//! Answers of a host to [questions](super::Questions): what becomes of packets that the accelerator keeps.

use flow::SessionIndex;
use flow::contract::Flow;

use super::fields::{ANSWERS, VERSION};
use super::through::{MAC_LEN, MAX_FLOW, OpenError};
use crate::codec::{Bound, CodecError, Field, Reader, Wire, Writer};

/// Octets before the first answer.
const FIXED_LEN: usize = 16;

const COUNT: Field = Field::new("answers", Bound::Range(1, u8::MAX as u64));
const COUNTER: Field = Field::new("counter", Bound::Range(1, u64::MAX));
const LENGTH: Field = Field::new("length of answers", Bound::Range(8, u16::MAX as u64));
const RESERVED: Field = Field::zero("reserved");
const NUMBER: Field = Field::any("number");
const KIND: Field = Field::most("answer", 1);
const WHOLE: u8 = 0;
const BY_FLOW: u8 = 1;
const NO_FLOW: Field = Field::zero("flow length");
const FLOW_LENGTH: Field = Field::new("flow length", Bound::Range(1, MAX_FLOW as u64));
const SESSION: Field = Field::any("session");

/// What becomes of a packet that the accelerator keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It goes to the host as an exception, with those behind it.
    Whole,
    /// The accelerator puts this flow of a session, and passes the packet and those behind it.
    ByFlow(SessionIndex, Flow),
}

/// What is in front of the answers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswersHeader {
    /// The channel.
    pub channel: u8,
    /// Above that of each frame before in this contact, [`Through`](super::Through) among them, from 1.
    pub counter: u64,
}

/// Writes answers into frames.
#[derive(Clone, Debug, Default)]
pub struct AnswersWriter {
    octets: Vec<u8>,
    count: u8,
}

impl AnswersWriter {
    /// Adds an answer to the question of this number. False, and no change, where it makes the frame's part behind the
    /// EtherType longer than `most`.
    ///
    /// # Errors
    /// When the flow cannot be written.
    pub fn add(&mut self, number: u32, answer: &Answer, most: usize) -> Result<bool, CodecError> {
        let begin = self.octets.len().max(FIXED_LEN);
        if self.count == u8::MAX || begin + 12 + MAX_FLOW + MAC_LEN > most.min(usize::from(u16::MAX)) {
            return Ok(false);
        }
        self.octets.resize(begin + 12 + MAX_FLOW, 0);
        let written = write(number, answer, self.octets.get_mut(begin..).unwrap_or_default());
        self.octets.truncate(begin + *written.as_ref().unwrap_or(&0));
        written?;
        self.count += 1;
        Ok(true)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What is behind the EtherType, and begins another frame. `seal` gives the message authentication code of what it
    /// is given.
    ///
    /// # Errors
    /// When a field is out of its bound.
    pub fn finish(
        &mut self,
        header: &AnswersHeader,
        seal: impl FnOnce(&[u8]) -> [u8; MAC_LEN],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (count, length) = (self.count, self.octets.len().saturating_sub(FIXED_LEN) as u16);
        let mut to = Writer::new(self.octets.get_mut(..FIXED_LEN).unwrap_or_default());
        to.array(&[VERSION, ANSWERS, header.channel]);
        to.u8(&COUNT, count);
        to.u64(&COUNTER, header.counter);
        to.u16(&LENGTH, length);
        to.u16(&RESERVED, 0);
        let written = to.end();
        if written.is_ok() {
            out.extend_from_slice(&self.octets);
            out.extend_from_slice(&seal(&self.octets));
        }
        self.octets.clear();
        self.count = 0;
        written.map(drop)
    }
}

fn write(number: u32, answer: &Answer, out: &mut [u8]) -> Result<usize, CodecError> {
    let (fixed, behind) = out.split_at_mut_checked(8).unwrap_or_default();
    let mut to = Writer::new(fixed);
    to.u32(&NUMBER, number);
    let length = match answer {
        Answer::Whole => {
            to.u8(&KIND, WHOLE);
            to.u8(&RESERVED, 0);
            to.u16(&NO_FLOW, 0);
            0
        }
        Answer::ByFlow(session, flow) => {
            let mut of_flow = Writer::new(behind);
            of_flow.u32(&SESSION, session.0);
            flow.put(&mut of_flow);
            let length = of_flow.end()?;
            to.u8(&KIND, BY_FLOW);
            to.u8(&RESERVED, 0);
            to.u16(&FLOW_LENGTH, length as u16 - 4);
            length
        }
    };
    Ok(to.end()? + length)
}

/// The answers of a frame that are not authenticated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedAnswers<'a> {
    header: AnswersHeader,
    count: u8,
    answers: &'a [u8],
    sealed: &'a [u8],
    mac: &'a [u8; MAC_LEN],
}

impl<'a> SealedAnswers<'a> {
    /// Reads what is behind the channel; `octets` is all that is behind the EtherType.
    pub(super) fn take(octets: &'a [u8], channel: u8, from: &mut Reader<'a>) -> Result<Self, CodecError> {
        let count = from.u8(&COUNT)?;
        let counter = from.u64(&COUNTER)?;
        let length = usize::from(from.u16(&LENGTH)?);
        from.u16(&RESERVED)?;
        let short = |field| CodecError::Short { field };
        let (answers, rest) = from.rest().split_at_checked(length).ok_or(short("answers"))?;
        Ok(Self {
            header: AnswersHeader { channel, counter },
            count,
            answers,
            sealed: octets.get(..FIXED_LEN + length).ok_or(short("answers"))?,
            mac: rest.first_chunk().ok_or(short("MAC"))?,
        })
    }

    /// The channel that it says it is of.
    pub const fn channel(&self) -> u8 {
        self.header.channel
    }

    /// The answers, if `verifies` says that the code is that of the octets, in a time that does not depend on where
    /// they differ. Whether the counter is new, [`ReplayWindow`](super::ReplayWindow) says then.
    ///
    /// # Errors
    /// When they are not authentic.
    pub fn open(
        &self,
        verifies: impl FnOnce(&[u8], &[u8; MAC_LEN]) -> bool,
    ) -> Result<(AnswersHeader, Answers<'a>), OpenError> {
        if !verifies(self.sealed, self.mac) {
            return Err(OpenError::Mac);
        }
        let answers = Answers {
            left: self.count,
            rest: self.answers,
        };
        Ok((self.header, answers))
    }
}

/// Authentic answers, one after the other; what cannot be read ends them with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers<'a> {
    left: u8,
    rest: &'a [u8],
}

impl Answers<'_> {
    fn read(&mut self) -> Result<(u32, Answer), CodecError> {
        let mut from = Reader::new(self.rest);
        let number = from.u32(&NUMBER)?;
        let kind = from.u8(&KIND)?;
        from.u8(&RESERVED)?;
        if kind == WHOLE {
            from.u16(&NO_FLOW)?;
            self.rest = from.rest();
            return Ok((number, Answer::Whole));
        }
        let length = usize::from(from.u16(&FLOW_LENGTH)?);
        let session = SessionIndex(from.u32(&SESSION)?);
        let short = CodecError::Short { field: "flow" };
        let (flow, rest) = from.rest().split_at_checked(length).ok_or(short)?;
        let mut of_flow = Reader::new(flow);
        let flow = Flow::take(&mut of_flow)?;
        of_flow.end()?;
        self.rest = rest;
        Ok((number, Answer::ByFlow(session, flow)))
    }
}

impl Iterator for Answers<'_> {
    type Item = Result<(u32, Answer), CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 && !self.rest.is_empty() {
            let octets = self.rest.len();
            self.rest = &[];
            return Some(Err(CodecError::Trailing { octets }));
        }
        self.left = self.left.checked_sub(1)?;
        let answer = self.read();
        if answer.is_err() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(answer)
    }
}
