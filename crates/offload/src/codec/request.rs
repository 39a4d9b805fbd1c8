//! Requests.

use flow::contract::{Epoch, FlowOp, Request, Subject};
use flow::{OpId, SessionIndex};

use super::field::{CodecError, Field, Reader, Writer};
use super::objects::{NAME_KIND, OBJECT_KIND, kind_of, put_name, put_object, take_name, take_object};
use super::types;

const NO_KIND: Field = Field::zero("object kind");
const FLAGS: Field = Field::bits("request flags", 1);
const OF_SESSION: u8 = 1;
const ID: Field = Field::any("request");
const EPOCH: Field = Field::any("epoch");
const SESSION: Field = Field::any("session");

/// The number of its type.
pub(super) const fn type_of(request: &Request) -> u8 {
    match request.op {
        FlowOp::Install(_) => types::INSTALL,
        FlowOp::Update(_) => types::UPDATE,
        FlowOp::Put(_) => types::PUT,
        FlowOp::Remove(_) => types::REMOVE,
        FlowOp::Query(_) => types::QUERY,
        FlowOp::Fence => types::FENCE,
    }
}

/// Writes what is behind the type.
pub(super) fn put(request: &Request, to: &mut Writer<'_>) {
    let session = match request.subject {
        Subject::Node => None,
        Subject::Session(session) => Some(session.0),
    };
    match &request.op {
        FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => {
            to.u8(&OBJECT_KIND, kind_of(&object.id()));
        }
        FlowOp::Remove(name) | FlowOp::Query(name) => to.u8(&NAME_KIND, kind_of(name)),
        FlowOp::Fence => to.u8(&NO_KIND, 0),
    }
    to.u8(&FLAGS, u8::from(session.is_some()) * OF_SESSION);
    to.u64(&ID, request.id.0);
    to.u32(&EPOCH, request.epoch.0);
    to.u32(&SESSION, session.unwrap_or(0));
    match &request.op {
        FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => put_object(object, to),
        FlowOp::Remove(name) | FlowOp::Query(name) => put_name(name, to),
        FlowOp::Fence => {}
    }
}

/// Reads what is behind the type.
pub(super) fn take(message_type: u8, from: &mut Reader<'_>) -> Result<Request, CodecError> {
    let kind = from.u8(match message_type {
        types::INSTALL | types::UPDATE | types::PUT => &OBJECT_KIND,
        types::REMOVE | types::QUERY => &NAME_KIND,
        _ => &NO_KIND,
    })?;
    let is_of_session = from.u8(&FLAGS)? & OF_SESSION != 0;
    let id = OpId(from.u64(&ID)?);
    let epoch = Epoch(from.u32(&EPOCH)?);
    let session = SessionIndex(from.u32(&SESSION.only_if(is_of_session))?);
    let op = match message_type {
        types::INSTALL => FlowOp::Install(take_object(kind, from)?),
        types::UPDATE => FlowOp::Update(take_object(kind, from)?),
        types::PUT => FlowOp::Put(take_object(kind, from)?),
        types::REMOVE => FlowOp::Remove(take_name(kind, from)?),
        types::QUERY => FlowOp::Query(take_name(kind, from)?),
        _ => FlowOp::Fence,
    };
    Ok(Request {
        id,
        epoch,
        subject: match is_of_session {
            true => Subject::Session(session),
            false => Subject::Node,
        },
        op,
    })
}
