//! Outcomes of requests.

use nat::pools::{NatPoolId, PortBlock};
use rules::model::FTeid;
use usage::UsageReport;

use crate::ids::{AssociationId, CpFSeid, Seid, Ticket};
use crate::packet_rate::PacketRateStatus;
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use crate::rule_changes::{Assigned, Recipient};

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The request.
    pub ticket: Ticket,
    /// Done, live in the workers; or refused, with nothing changed.
    pub result: Result<Done, Refusal>,
}

/// A port block that a session got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedBlock {
    /// The pool.
    pub pool: NatPoolId,
    /// The block.
    pub block: PortBlock,
}

/// A request that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The local SEID.
    pub seid: Seid,
    /// The control plane's F-SEID, after the request.
    pub cp: CpFSeid,
    /// The F-TEIDs that the user plane allocated.
    pub created: Vec<(Recipient, FTeid)>,
    /// The UE addresses that the user plane has allocated to what asked for one now.
    pub assigned: Vec<Assigned>,
    /// The first port block that the session has, if it got it by this request.
    pub port_block: Option<AssignedBlock>,
    /// Usage to report in the response.
    pub usage: Vec<UsageReport>,
    /// The Packet Rate Status of QERs, for the response.
    pub packets: Vec<PacketRateStatus>,
    /// The record of an export, with the association that the session belongs or belonged to.
    pub record: Option<(AssociationId, Box<SessionRecord>)>,
}

impl Done {
    /// A request with no results.
    pub(crate) fn of(seid: Seid, cp: CpFSeid) -> Done {
        Done {
            seid,
            cp,
            created: Vec::new(),
            assigned: Vec::new(),
            port_block: None,
            usage: Vec::new(),
            packets: Vec::new(),
            record: None,
        }
    }
}
