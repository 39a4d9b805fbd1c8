//! The body of an association's record, version 1.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

use super::{AssociationRecord, Frame, RecordError};
use crate::usage::Moment;

#[derive(Serialize, Deserialize)]
struct Body {
    node: Vec<u8>,
    recovery: u32,
    features: u64,
    peer: SocketAddr,
    others: Vec<IpAddr>,
    set: Option<Vec<u8>>,
    local: SocketAddr,
    /// Nanoseconds since 1970.
    since: u64,
}

pub(super) fn encode(record: &AssociationRecord, frame: Frame<'_>) -> Result<Vec<u8>, RecordError> {
    let AssociationRecord {
        node,
        recovery,
        features,
        peer,
        others,
        set,
        local,
        since,
    } = record.clone();
    let body = Body {
        node,
        recovery,
        features,
        peer,
        others,
        set,
        local,
        since: since.unix_nanos(frame.clock_unix),
    };
    postcard::to_allocvec(&body).map_err(|_| RecordError::Malformed("association"))
}

pub(super) fn decode(octets: &[u8], frame: Frame<'_>) -> Result<AssociationRecord, RecordError> {
    let (body, rest): (Body, _) =
        postcard::take_from_bytes(octets).map_err(|_| RecordError::Malformed("association"))?;
    if !rest.is_empty() {
        return Err(RecordError::Malformed("end"));
    }
    let Body {
        node,
        recovery,
        features,
        peer,
        others,
        set,
        local,
        since,
    } = body;
    Ok(AssociationRecord {
        node,
        recovery,
        features,
        peer,
        others,
        set,
        local,
        since: Moment::from_unix_nanos(since, frame.clock_unix),
    })
}
