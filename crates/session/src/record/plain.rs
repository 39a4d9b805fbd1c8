//! The bodies of all records but those of sessions, version 1: the record's fields in their order. When one is added,
//! what version 1 had becomes a shape of its own here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::RecordError;

pub(super) fn encode(record: &impl Serialize, what: &'static str) -> Result<Vec<u8>, RecordError> {
    postcard::to_allocvec(record).map_err(|_| RecordError::Malformed(what))
}

pub(super) fn decode<T: DeserializeOwned>(octets: &[u8], what: &'static str) -> Result<Box<T>, RecordError> {
    borrow(octets, what).map(Box::new)
}

/// The same, of what may stay where it is.
pub(super) fn borrow<'o, T: Deserialize<'o>>(octets: &'o [u8], what: &'static str) -> Result<T, RecordError> {
    match postcard::take_from_bytes(octets) {
        Ok((record, [])) => Ok(record),
        Ok(_) => Err(RecordError::Malformed("end")),
        Err(_) => Err(RecordError::Malformed(what)),
    }
}
