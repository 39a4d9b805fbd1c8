//! Lists that are longer than a message: divided by who sends them, joined by who receives them.
//!
//! The parts of a list follow each other directly. Each but the last says that there is more.

use core::fmt;

use flow::contract::{Event, Notice, Outcome, Reply};

use super::field::MAX_MESSAGE;
use super::message::Message;
use super::notice::entries_in;

/// The messages of a reply or an event, none of which is longer than [`MAX_MESSAGE`]: most often one.
pub fn parts(notice: Notice) -> Parts {
    parts_within(notice, MAX_MESSAGE)
}

/// The same for messages of at most `room` octets. Neither an entry nor what has no list is divided: 212 octets are
/// enough for each, and no part is longer than that or `room`.
pub fn parts_within(notice: Notice, room: usize) -> Parts {
    Parts {
        room,
        rest: Some(notice),
    }
}

/// See [`parts()`].
#[derive(Clone, Debug)]
pub struct Parts {
    room: usize,
    rest: Option<Notice>,
}

impl Iterator for Parts {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let mut notice = self.rest.take()?;
        let Some(rest) = entries_in(&notice, self.room).and_then(|most| split_off(&mut notice, most)) else {
            return Some(notice.into());
        };
        self.rest = Some(rest);
        Some(Message::Part(notice))
    }
}

/// Leaves `most` entries of a list, and returns the others; `None` where there are none, or there is no list.
fn split_off(notice: &mut Notice, most: usize) -> Option<Notice> {
    Some(match notice {
        Notice::Reply(Reply { id, outcome }) => Notice::Reply(Reply {
            id: *id,
            outcome: Ok(match outcome {
                Ok(Outcome::Counts(counts)) => Outcome::Counts(tail(counts, most)?),
                Ok(Outcome::Contents(usages)) => Outcome::Contents(tail(usages, most)?),
                _ => return None,
            }),
        }),
        Notice::Event(event) => Notice::Event(match event {
            Event::Aged { session, key, counts } => Event::Aged {
                session: *session,
                key: *key,
                counts: tail(counts, most)?,
            },
            Event::Counts { session, counts } => Event::Counts {
                session: *session,
                counts: tail(counts, most)?,
            },
            _ => return None,
        }),
    })
}

fn tail<T>(list: &mut Vec<T>, most: usize) -> Option<Vec<T>> {
    (list.len() > most).then(|| {
        let rest = list.split_off(most);
        list.shrink_to_fit();
        rest
    })
}

/// Why a message is not what follows a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// It is not a part of the same list.
    Interrupted,
    /// The list has more than [`Joiner::MOST`] entries.
    TooMany,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("a part of a list is followed by what is not the next part"),
            Self::TooMany => write!(f, "a list of more than {} entries", Joiner::MOST),
        }
    }
}

impl core::error::Error for JoinError {}

/// Joins the parts of lists, of one channel in its order. It holds one list, and no more than [`Joiner::MOST`] entries.
#[derive(Clone, Debug, Default)]
pub struct Joiner {
    open: Option<Notice>,
}

impl Joiner {
    /// The most entries of a list: a session has a counter for each of as many contents.
    pub const MOST: usize = 65_536;

    /// Takes the next message, and gives it back when it is whole; `None`: its list continues.
    ///
    /// # Errors
    ///
    /// When the message cannot follow the one before, or makes the list too long. Message and list are gone then: the
    /// peer does not keep to the protocol, and a new contact begins.
    pub fn join(&mut self, message: Message) -> Result<Option<Message>, JoinError> {
        let open = self.open.take();
        let (next, is_last) = match message {
            Message::Part(notice) => (notice, false),
            Message::Reply(reply) => (Notice::Reply(reply), true),
            Message::Event(event) => (Notice::Event(event), true),
            other if open.is_none() => return Ok(Some(other)),
            _ => return Err(JoinError::Interrupted),
        };
        let joined = match open {
            None => next,
            Some(mut list) => {
                append(&mut list, next)?;
                list
            }
        };
        if is_last {
            return Ok(Some(joined.into()));
        }
        self.open = Some(joined);
        Ok(None)
    }
}

/// Puts the entries of `next` behind those of `list`, if it is of the same reply or event.
fn append(list: &mut Notice, next: Notice) -> Result<(), JoinError> {
    match (list, next) {
        (Notice::Reply(list), Notice::Reply(next)) if list.id == next.id => {
            match (&mut list.outcome, next.outcome) {
                (Ok(Outcome::Counts(list)), Ok(Outcome::Counts(next))) => extend(list, next),
                (Ok(Outcome::Contents(list)), Ok(Outcome::Contents(next))) => extend(list, next),
                _ => Err(JoinError::Interrupted),
            }
        }
        (
            Notice::Event(Event::Aged { session, key, counts }),
            Notice::Event(Event::Aged {
                session: same_session,
                key: same_key,
                counts: next,
            }),
        ) if *session == same_session && *key == same_key => extend(counts, next),
        (
            Notice::Event(Event::Counts { session, counts }),
            Notice::Event(Event::Counts {
                session: same_session,
                counts: next,
            }),
        ) if *session == same_session => extend(counts, next),
        _ => Err(JoinError::Interrupted),
    }
}

fn extend<T>(list: &mut Vec<T>, next: Vec<T>) -> Result<(), JoinError> {
    if list.len() + next.len() > Joiner::MOST {
        return Err(JoinError::TooMany);
    }
    list.extend(next);
    Ok(())
}
