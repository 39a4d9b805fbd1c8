//! Queries that wait for what a worker says of a session.

use session::Seid;
use tokio::sync::oneshot;
use upf::{Control, InspectError, Inspection, identifiers};
use worker::{MappingsWanted, SessionNatStatus};

use crate::values::{MOST_MAPPINGS, NatMappingList, NatOwner, SessionDetail};
use crate::views::{self, NoOwner, PublicEndpoint};

/// A session in full.
pub(super) type Shown = Result<Box<SessionDetail>, InspectError>;
/// The session that has a public address and port.
pub(super) type Owner = Result<Box<NatOwner>, NoOwner>;
/// The mappings of a session.
pub(super) type Mappings = Result<NatMappingList, InspectError>;

/// Who waits, and for what.
pub(super) enum Waiter {
    Session(oneshot::Sender<Shown>),
    NatMappings(oneshot::Sender<Mappings>),
    NatOwner {
        /// Without its mapping.
        owner: Box<NatOwner>,
        reply: oneshot::Sender<Owner>,
    },
}

impl Waiter {
    /// Whether the client has gone away.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Session(reply) => reply.is_closed(),
            Self::NatMappings(reply) => reply.is_closed(),
            Self::NatOwner { reply, .. } => reply.is_closed(),
        }
    }

    /// Answers what the worker has said.
    pub(super) fn answer(self, control: &Control, inspection: &Inspection) {
        match self {
            Self::Session(reply) => drop(reply.send(shown(control, inspection))),
            Self::NatMappings(reply) => drop(reply.send(mappings(control, inspection))),
            Self::NatOwner { mut owner, reply } => {
                let mapping = nat_of(inspection).and_then(|nat| nat.mappings.first());
                owner.mapping = mapping.and_then(|mapping| views::nat_mapping(control, mapping));
                let _ = reply.send(Ok(owner));
            }
        }
    }

    /// Answers that nothing can be asked of a worker.
    fn refuse(self, error: InspectError) {
        match self {
            Self::Session(reply) => drop(reply.send(Err(error))),
            Self::NatMappings(reply) => drop(reply.send(Err(error))),
            Self::NatOwner { reply, .. } => {
                let error = match error {
                    InspectError::UnknownSession => NoOwner::NoSession,
                    InspectError::Busy => NoOwner::Busy,
                };
                let _ = reply.send(Err(error));
            }
        }
    }
}

/// Asks the worker of a session. Gives the number of the inspection, under which the waiter is to wait.
pub(super) fn begin(control: &mut Control, seid: Seid, waiter: Waiter) -> Option<(u64, Waiter)> {
    let wanted = match waiter {
        Waiter::NatMappings(_) => MappingsWanted::Live { most: MOST_MAPPINGS },
        Waiter::Session(_) | Waiter::NatOwner { .. } => MappingsWanted::None,
    };
    ask(control, (seid, wanted), waiter)
}

/// Says who has a public address and port; with a protocol, the session's worker is asked.
pub(super) fn begin_owner(
    control: &mut Control,
    endpoint: &PublicEndpoint,
    reply: oneshot::Sender<Owner>,
) -> Option<(u64, Waiter)> {
    let (owner, block) = match views::nat_owner(control, endpoint) {
        Ok(found) => found,
        Err(error) => {
            let _ = reply.send(Err(error));
            return None;
        }
    };
    let owner = Box::new(owner);
    let seid = owner
        .seid
        .as_ref()
        .and_then(|seid| identifiers::read_seid(seid).ok());
    let (Some(protocol), Some(seid)) = (endpoint.protocol, seid) else {
        let _ = reply.send(Ok(owner));
        return None;
    };
    let wanted = MappingsWanted::OfPort {
        block,
        port: endpoint.port,
        protocol,
    };
    ask(control, (seid, wanted), Waiter::NatOwner { owner, reply })
}

fn ask(
    control: &mut Control,
    (seid, wanted): (Seid, MappingsWanted),
    waiter: Waiter,
) -> Option<(u64, Waiter)> {
    match control.inspect(seid, wanted) {
        Ok(number) => Some((number, waiter)),
        Err(error) => {
            waiter.refuse(error);
            None
        }
    }
}

fn nat_of(inspection: &Inspection) -> Option<&SessionNatStatus> {
    inspection.status.as_ref()?.nat.as_ref()
}

/// The session of an inspection in full, unless it has ended meanwhile.
fn shown(control: &Control, inspection: &Inspection) -> Shown {
    let session = control.endpoint().sessions().session(inspection.seid);
    let session = session.ok_or(InspectError::UnknownSession)?;
    let status = inspection.status.as_deref();
    Ok(Box::new(views::session_detail(control, &session, status)))
}

/// The mappings of the session of an inspection, unless it has ended meanwhile.
fn mappings(control: &Control, inspection: &Inspection) -> Mappings {
    let session = control.endpoint().sessions().session(inspection.seid);
    let session = session.ok_or(InspectError::UnknownSession)?;
    Ok(views::nat_mappings(control, &session, nat_of(inspection)))
}
