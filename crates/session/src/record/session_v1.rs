//! The body of a session's record, version 1.

use std::borrow::Cow;

use usage::WallClock;

use super::error::RecordError;
use super::plain;
use super::types::{Frame, SessionRecord, UnacknowledgedUsage};
use convert::Dates;
use form::Body;
use read::Reader;
use write::Writer;

mod convert;
mod form;
mod nat;
mod read;
mod unacknowledged;
mod urr;
mod write;

/// `to` with a session behind what it has.
pub(super) fn append(to: Vec<u8>, record: &SessionRecord, frame: Frame<'_>) -> Result<Vec<u8>, RecordError> {
    plain::append(to, &Writer::new(frame).body(record)?, "session")
}

/// The revision of the content in which no QER marked packets for L4S: it ended before that.
const WITHOUT_L4S: u8 = 5;
/// No such QERs, as they are written.
const NO_L4S: [u8; 1] = [0];

/// Reads a session, of the newest revision or the one before.
pub(super) fn decode(octets: &[u8], revision: u8, frame: Frame<'_>) -> Result<SessionRecord, RecordError> {
    let octets = match revision {
        WITHOUT_L4S => Cow::Owned([octets, &NO_L4S].concat()),
        _ => Cow::Borrowed(octets),
    };
    read(&octets, frame)
}

fn read(octets: &[u8], frame: Frame<'_>) -> Result<SessionRecord, RecordError> {
    let (body, rest): (Body, _) =
        postcard::take_from_bytes(octets).map_err(|_| RecordError::Malformed("session"))?;
    if !rest.is_empty() {
        return Err(RecordError::Malformed("end"));
    }
    Reader::new(frame, &body)?.record(body)
}

/// `to` with usage that is not acknowledged behind what it has.
pub(super) fn append_usage(
    to: Vec<u8>,
    record: &UnacknowledgedUsage,
    wall: &WallClock,
) -> Result<Vec<u8>, RecordError> {
    unacknowledged::append(to, record, Dates { wall })
}

/// Reads what [`append_usage`] has written.
pub(super) fn decode_usage(octets: &[u8], wall: &WallClock) -> Result<UnacknowledgedUsage, RecordError> {
    unacknowledged::decode(octets, Dates { wall })
}
