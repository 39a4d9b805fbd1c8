//! The body of a session's record, version 1.

use super::error::RecordError;
use super::types::{Frame, SessionRecord};
use form::Body;
use read::Reader;
use write::Writer;

mod convert;
mod form;
mod read;
mod urr;
mod write;

/// Writes a session.
pub(super) fn encode(record: &SessionRecord, frame: Frame<'_>) -> Result<Vec<u8>, RecordError> {
    let body = Writer::new(frame).body(record)?;
    postcard::to_allocvec(&body).map_err(|_| RecordError::Malformed("session"))
}

/// Reads a session.
pub(super) fn decode(octets: &[u8], frame: Frame<'_>) -> Result<SessionRecord, RecordError> {
    let (body, rest): (Body, _) =
        postcard::take_from_bytes(octets).map_err(|_| RecordError::Malformed("session"))?;
    if !rest.is_empty() {
        return Err(RecordError::Malformed("end"));
    }
    Reader::new(frame, &body)?.record(body)
}
