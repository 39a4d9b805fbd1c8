//! The body of a session's record, version 1.

use std::borrow::Cow;

use usage::{UsageReport, WallClock};

use super::error::RecordError;
use super::types::{Frame, SessionRecord};
use convert::{Dates, Form};
use form::Body;
use read::Reader;
pub(super) use urr::Usage;
use write::Writer;

mod convert;
mod form;
mod nat;
mod read;
mod urr;
mod write;

/// Writes a session.
pub(super) fn encode(record: &SessionRecord, frame: Frame<'_>) -> Result<Vec<u8>, RecordError> {
    let body = Writer::new(frame).body(record)?;
    postcard::to_allocvec(&body).map_err(|_| RecordError::Malformed("session"))
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

/// Usage reports in the form that they have in this version.
pub(super) fn write_usage(reports: &[UsageReport], wall: &WallClock) -> Vec<Usage> {
    let dates = Dates { wall };
    reports.iter().map(|report| Form::write(report, dates)).collect()
}

/// Reads what [`write_usage`] has written.
pub(super) fn read_usage(reports: &[Usage], wall: &WallClock) -> Result<Vec<UsageReport>, RecordError> {
    let dates = Dates { wall };
    reports.iter().map(|report| report.read(dates)).collect()
}
