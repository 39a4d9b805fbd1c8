//! The bodies of all records but those of sessions, version 1: the record's fields in their order. When one is added,
//! what version 1 had becomes a shape of its own here.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::RecordError;
use super::types::ApplicationRecord;

/// Octets that most of what is no record has room in.
const USUAL: usize = 128;

pub(super) fn encode(record: &impl Serialize, what: &'static str) -> Result<Vec<u8>, RecordError> {
    append(Vec::with_capacity(USUAL), record, what)
}

/// `to` with the octets of `record` behind what it has.
pub(super) fn append(
    to: Vec<u8>,
    record: &impl Serialize,
    what: &'static str,
) -> Result<Vec<u8>, RecordError> {
    postcard::to_extend(record, to).map_err(|_| RecordError::Malformed(what))
}

pub(super) fn decode<T: DeserializeOwned>(octets: &[u8], what: &'static str) -> Result<Box<T>, RecordError> {
    borrow(octets, what).map(Box::new)
}

/// An application of the build before, which knew no names.
#[derive(Deserialize)]
struct Application0 {
    id: Vec<u8>,
    flows: Vec<String>,
}

/// An application, of this revision of its content.
pub(super) fn application(octets: &[u8], revision: u8) -> Result<Box<ApplicationRecord>, RecordError> {
    let what = "application";
    if revision > 0 {
        return decode(octets, what);
    }
    let Application0 { id, flows } = borrow(octets, what)?;
    let named = Vec::new();
    Ok(Box::new(ApplicationRecord { id, flows, named }))
}

/// What `octets` say, of what may stay where it is.
pub(super) fn borrow<'o, T: Deserialize<'o>>(octets: &'o [u8], what: &'static str) -> Result<T, RecordError> {
    match postcard::take_from_bytes(octets) {
        Ok((record, [])) => Ok(record),
        Ok(_) => Err(RecordError::Malformed("end")),
        Err(_) => Err(RecordError::Malformed(what)),
    }
}
