//! Replies and events.
//!
//! Behind the type there are two octets: in lists the number of entries and whether a part follows, else what is said
//! of each type.

use flow::contract::{AnyKey, Epoch, Event, Notice, Outcome, Refusal, Reply};
use flow::meter::MeterState;
use flow::{ContentUsage, OpId, SessionIndex, UrrCount};

use super::counters::{COUNTS_LEN, USAGE_LEN};
use super::field::{Bound, CodecError, Field, MAX_MESSAGE, RESERVED, Reader, Wire, Writer};
use super::queues::{put_tokens, put_tokens_header, take_tokens, take_tokens_header};
use super::slots::{COUNTER_SLOT, DIRECTION, DIRECTIONS};
use super::types;

/// Octets before the list of a reply, at most: version to the request's number.
const HEADER_LEN: usize = 12;
const ENTRIES: Field = Field::most("entries", (MAX_MESSAGE / COUNTS_LEN) as u64);
const USAGES: Field = Field::most("entries", (MAX_MESSAGE / USAGE_LEN) as u64);
/// A part has an entry at least.
const ENTRIES_OF_PART: Field = Field::new("entries", Bound::Range(1, (MAX_MESSAGE / COUNTS_LEN) as u64));
const MORE: Field = Field::most("more", 1);
const ID: Field = Field::any("request");
const SESSION: Field = Field::any("session");
const EPOCH: Field = Field::any("epoch");
const PORTS_DOWN: Field = Field::any("ports without a link");
const OCTETS: Field = Field::any("octets");
const REFUSAL: Field = Field::most("refusal", 6);
const REFUSALS: &[Refusal] = &[
    Refusal::Unsupported,
    Refusal::Full,
    Refusal::Exists,
    Refusal::Missing,
    Refusal::InUse,
    Refusal::Stale,
    Refusal::OtherEpoch,
];

/// What is carried in one message of a reply or an event.
pub(super) struct Part {
    pub notice: Notice,
    /// Another part follows.
    pub more: bool,
}

/// How many entries of the list of `notice` fit into a message of `room` octets: one at least. `None`: it has no
/// list.
pub(super) fn entries_in(notice: &Notice, room: usize) -> Option<usize> {
    let (before, entry) = match notice {
        Notice::Reply(Reply { outcome, .. }) => match outcome {
            Ok(Outcome::Counts(_)) => (HEADER_LEN, COUNTS_LEN),
            Ok(Outcome::Contents(_)) => (HEADER_LEN, USAGE_LEN),
            _ => return None,
        },
        Notice::Event(Event::Counts { .. }) => (8, COUNTS_LEN),
        Notice::Event(Event::Aged { key, .. }) => (8 + key_len(key), COUNTS_LEN),
        Notice::Event(_) => return None,
    };
    Some((room.min(MAX_MESSAGE).saturating_sub(before) / entry).max(1))
}

/// Octets of a key, or more.
const fn key_len(key: &AnyKey) -> usize {
    match key {
        AnyKey::V4(_) => 24,
        AnyKey::V6(_) => 52,
    }
}

/// The number of a reply's type.
pub(super) const fn type_of_reply(reply: &Reply) -> u8 {
    match reply.outcome {
        Ok(Outcome::Done) => types::DONE,
        Ok(Outcome::Counts(_)) => types::COUNTS,
        Ok(Outcome::Meter(_)) => types::METER,
        Ok(Outcome::Contents(_)) => types::CONTENTS,
        Ok(Outcome::Demand(_)) => types::DEMAND,
        Ok(Outcome::Tokens(_)) => types::TOKENS,
        Err(_) => types::REFUSED,
    }
}

/// The number of an event's type.
pub(super) const fn type_of_event(event: &Event) -> u8 {
    match event {
        Event::Aged { .. } => types::AGED,
        Event::Watermark { .. } => types::WATERMARK,
        Event::Limit { .. } => types::LIMIT,
        Event::Counts { .. } => types::COUNTS_EVENT,
        Event::Miss { .. } => types::MISS,
        Event::BackendReset { .. } => types::BACKEND_RESET,
        Event::Unreachable => types::UNREACHABLE,
        Event::Links { .. } => types::LINKS,
    }
}

/// Two octets: how long a list is, and whether another part of it follows.
fn put_list_header(entries: usize, field: &Field, more: bool, to: &mut Writer<'_>) {
    let entries = u8::try_from(entries).unwrap_or(u8::MAX);
    if more {
        to.check(&ENTRIES_OF_PART, entries.into());
    }
    to.u8(field, entries);
    to.u8(&MORE, more.into());
}

/// How many entries a list has, and whether another part of it follows.
fn take_list_header(field: &Field, from: &mut Reader<'_>) -> Result<(u8, bool), CodecError> {
    let entries = from.u8(field)?;
    let more = from.u8(&MORE)? != 0;
    if more {
        ENTRIES_OF_PART.check(entries.into())?;
    }
    Ok((entries, more))
}

fn take_list<T: Wire>(entries: u8, from: &mut Reader<'_>) -> Result<Vec<T>, CodecError> {
    (0..entries).map(|_| T::take(from)).collect()
}

/// Writes what is behind the type.
pub(super) fn put_reply(reply: &Reply, more: bool, to: &mut Writer<'_>) {
    match &reply.outcome {
        Ok(Outcome::Counts(counts)) => put_list_header(counts.len(), &ENTRIES, more, to),
        Ok(Outcome::Contents(usages)) => put_list_header(usages.len(), &USAGES, more, to),
        Err(refusal) => {
            to.u8(&REFUSAL, *refusal as u8);
            to.u8(&RESERVED, more.into());
        }
        Ok(Outcome::Tokens(tokens)) => {
            put_tokens_header(tokens, to);
            to.check(&RESERVED, more.into());
        }
        Ok(Outcome::Done | Outcome::Meter(_) | Outcome::Demand(_)) => {
            to.u8(&RESERVED, 0);
            to.u8(&RESERVED, more.into());
        }
    }
    to.u64(&ID, reply.id.0);
    match &reply.outcome {
        Ok(Outcome::Done) | Err(_) => {}
        Ok(Outcome::Counts(counts)) => counts.iter().for_each(|of_slot| of_slot.put(to)),
        Ok(Outcome::Contents(usages)) => usages.iter().for_each(|usage| usage.put(to)),
        Ok(Outcome::Meter(state)) => state.put(to),
        Ok(Outcome::Tokens(tokens)) => put_tokens(tokens, to),
        Ok(Outcome::Demand(octets)) => octets.iter().for_each(|octets| to.u64(&OCTETS, *octets)),
    }
}

/// Writes what is behind the type.
pub(super) fn put_event(event: &Event, more: bool, to: &mut Writer<'_>) {
    match event {
        Event::Aged { counts, .. } | Event::Counts { counts, .. } => {
            put_list_header(counts.len(), &ENTRIES, more, to);
        }
        Event::Watermark { counter, .. } => {
            to.u8(&COUNTER_SLOT, *counter);
            to.u8(&RESERVED, more.into());
        }
        Event::Limit {
            counter, direction, ..
        } => {
            to.u8(&COUNTER_SLOT, *counter);
            to.u8(&DIRECTION, *direction as u8);
            to.check(&RESERVED, more.into());
        }
        Event::Miss { .. } | Event::BackendReset { .. } | Event::Unreachable | Event::Links { .. } => {
            to.u8(&RESERVED, 0);
            to.u8(&RESERVED, more.into());
        }
    }
    match event {
        Event::Aged { session, key, counts } => {
            to.u32(&SESSION, session.0);
            key.put(to);
            counts.iter().for_each(|of_slot| of_slot.put(to));
        }
        Event::Counts { session, counts } => {
            to.u32(&SESSION, session.0);
            counts.iter().for_each(|of_slot| of_slot.put(to));
        }
        Event::Watermark { session, .. } | Event::Limit { session, .. } => to.u32(&SESSION, session.0),
        Event::Miss { key } => key.put(to),
        Event::BackendReset { epoch } => to.u32(&EPOCH, epoch.0),
        Event::Links { down } => to.u64(&PORTS_DOWN, *down),
        Event::Unreachable => {}
    }
}

/// Reads what is behind the type of a reply.
pub(super) fn take_reply(message_type: u8, from: &mut Reader<'_>) -> Result<Part, CodecError> {
    let mut more = false;
    let mut entries = 0;
    let mut refusal = Refusal::Unsupported;
    let mut of_tokens = (0, 0);
    match message_type {
        types::COUNTS => (entries, more) = take_list_header(&ENTRIES, from)?,
        types::CONTENTS => (entries, more) = take_list_header(&USAGES, from)?,
        types::REFUSED => {
            refusal = from.place(&REFUSAL, REFUSALS)?;
            from.reserved(1)?;
        }
        types::TOKENS => of_tokens = take_tokens_header(from)?,
        _ => from.reserved(2)?,
    }
    let id = OpId(from.u64(&ID)?);
    let outcome = match message_type {
        types::DONE => Ok(Outcome::Done),
        types::COUNTS => Ok(Outcome::Counts(take_list::<(u8, UrrCount)>(entries, from)?)),
        types::CONTENTS => Ok(Outcome::Contents(take_list::<ContentUsage>(entries, from)?)),
        types::METER => Ok(Outcome::Meter(MeterState::take(from)?)),
        types::TOKENS => Ok(Outcome::Tokens(take_tokens(of_tokens.0, of_tokens.1, from)?)),
        types::DEMAND => Ok(Outcome::Demand([from.u64(&OCTETS)?, from.u64(&OCTETS)?])),
        _ => Err(refusal),
    };
    let notice = Notice::Reply(Reply { id, outcome });
    Ok(Part { notice, more })
}

/// Reads what is behind the type of an event.
pub(super) fn take_event(message_type: u8, from: &mut Reader<'_>) -> Result<Part, CodecError> {
    let mut more = false;
    let event = match message_type {
        types::AGED | types::COUNTS_EVENT => {
            let entries;
            (entries, more) = take_list_header(&ENTRIES, from)?;
            let session = SessionIndex(from.u32(&SESSION)?);
            match message_type {
                types::AGED => Event::Aged {
                    session,
                    key: AnyKey::take(from)?,
                    counts: take_list(entries, from)?,
                },
                _ => Event::Counts {
                    session,
                    counts: take_list(entries, from)?,
                },
            }
        }
        types::WATERMARK => {
            let counter = from.u8(&COUNTER_SLOT)?;
            from.reserved(1)?;
            let session = SessionIndex(from.u32(&SESSION)?);
            Event::Watermark { session, counter }
        }
        types::LIMIT => {
            let counter = from.u8(&COUNTER_SLOT)?;
            let direction = from.place(&DIRECTION, DIRECTIONS)?;
            let session = SessionIndex(from.u32(&SESSION)?);
            Event::Limit {
                session,
                counter,
                direction,
            }
        }
        types::MISS => {
            from.reserved(2)?;
            let key = AnyKey::take(from)?;
            Event::Miss { key }
        }
        types::UNREACHABLE => {
            from.reserved(2)?;
            Event::Unreachable
        }
        types::LINKS => {
            from.reserved(2)?;
            let down = from.u64(&PORTS_DOWN)?;
            Event::Links { down }
        }
        _ => {
            from.reserved(2)?;
            let epoch = Epoch(from.u32(&EPOCH)?);
            Event::BackendReset { epoch }
        }
    };
    let notice = Notice::Event(event);
    Ok(Part { notice, more })
}
