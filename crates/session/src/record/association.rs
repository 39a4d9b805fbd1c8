//! The body of an association's record, version 1: the record's fields in their order. When one is added, what
//! version 1 had becomes a shape of its own here.

use super::{AssociationRecord, RecordError};

pub(super) fn encode(record: &AssociationRecord) -> Result<Vec<u8>, RecordError> {
    postcard::to_allocvec(record).map_err(|_| RecordError::Malformed("association"))
}

pub(super) fn decode(octets: &[u8]) -> Result<AssociationRecord, RecordError> {
    match postcard::take_from_bytes(octets) {
        Ok((record, [])) => Ok(record),
        Ok(_) => Err(RecordError::Malformed("end")),
        Err(_) => Err(RecordError::Malformed("association")),
    }
}
