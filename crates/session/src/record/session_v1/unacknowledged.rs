//! The body of the record of usage that is not acknowledged, version 1. Its reports have the form that they have in a
//! session's record: where that changes, the revision of this record changes, too.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::super::plain;
use super::super::types::UnacknowledgedUsage;
use super::convert::{Dates, Form, Result};
use super::urr::Usage;
use crate::ids::{CpFSeid, Seid};

#[derive(Serialize, Deserialize)]
struct Body {
    association: Vec<u8>,
    seid: u64,
    part: u16,
    cp: Option<(u64, Option<Ipv4Addr>, Option<Ipv6Addr>)>,
    peer: SocketAddr,
    request: Vec<u8>,
    usage: Vec<Usage>,
}

pub(super) fn append(to: Vec<u8>, record: &UnacknowledgedUsage, dates: Dates<'_>) -> Result<Vec<u8>> {
    let UnacknowledgedUsage {
        association,
        seid,
        part,
        cp,
        peer,
        request,
        usage,
    } = record;
    let body = Body {
        association: association.clone(),
        seid: seid.0,
        part: *part,
        cp: cp.map(|cp| (cp.seid, cp.ipv4, cp.ipv6)),
        peer: *peer,
        request: request.clone(),
        usage: usage.iter().map(|report| Form::write(report, dates)).collect(),
    };
    plain::append(to, &body, "usage")
}

pub(super) fn decode(octets: &[u8], dates: Dates<'_>) -> Result<UnacknowledgedUsage> {
    let body: Body = plain::borrow(octets, "usage")?;
    let usage = body.usage.iter().map(|report| report.read(dates));
    Ok(UnacknowledgedUsage {
        association: body.association,
        seid: Seid(body.seid),
        part: body.part,
        cp: body.cp.map(|(seid, ipv4, ipv6)| CpFSeid { seid, ipv4, ipv6 }),
        peer: body.peer,
        request: body.request,
        usage: usage.collect::<Result<_>>()?,
    })
}
