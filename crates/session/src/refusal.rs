//! Why a request on a session is refused, by fault. `n4` maps each to a PFCP cause.

use rules::image::{CompileError, CompileFault};
use rules::model::{EditError, EditFault, RuleRef};
use std::fmt;

/// Why a request was refused. Nothing of it took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such session.
    NotFound,
    /// This rule cannot be applied.
    Rule {
        /// The first rule at fault.
        rule: RuleRef,
        /// What is wrong with it.
        fault: RuleFault,
    },
    /// All sessions, TEIDs or places in a worker are taken, or the association's share of them.
    NoResources,
    /// All addresses of the pools are taken.
    NoAddress,
    /// Too many requests wait for this session or for the workers.
    Busy,
    /// Its slice would be another, whose sessions other workers serve.
    OtherWorkers,
    /// The worker did not confirm in time. What it does late is undone.
    TooLate,
    /// The worker could not do it.
    Worker,
    /// The session went away while the request waited: its association ended or its peer restarted.
    Gone,
}

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleFault {
    /// It cannot be created, updated or removed.
    Edit(EditFault),
    /// It cannot be compiled.
    Compile(CompileFault),
    /// Its F-TEID was chosen by the control plane, which the configuration does not allow.
    ChosenByPeer,
    /// Another session has its F-TEID.
    TunnelTaken,
    /// Another session has its UE address.
    AddressTaken,
    /// No local address suits the F-TEID that is wanted.
    NoLocalAddress,
    /// It wants the F-TEID of another rule of the request (equal CHOOSE IDs), which is at another local address than
    /// its own would be.
    ChosenElsewhere,
    /// An update asks for an F-TEID of a PDR that has none.
    ChooseInUpdate,
    /// No pool has UE addresses as they are wanted.
    NoPool,
    /// A usage report of it is wanted, and it does not exist.
    UnknownUrr,
    /// Its Packet Rate Status is wanted, and it does not exist.
    UnknownQer,
}

impl Refusal {
    /// A refusal for the sake of one rule.
    pub(crate) fn rule(rule: impl Into<RuleRef>, fault: RuleFault) -> Refusal {
        Refusal::Rule {
            rule: rule.into(),
            fault,
        }
    }
}

impl From<EditError> for Refusal {
    fn from(error: EditError) -> Refusal {
        Refusal::rule(error.rule, RuleFault::Edit(error.fault))
    }
}

impl From<CompileError> for Refusal {
    fn from(error: CompileError) -> Refusal {
        Refusal::rule(error.rule, RuleFault::Compile(error.reason))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotFound => f.write_str("no such session"),
            Refusal::Rule { rule, fault } => write!(f, "{rule} {fault}"),
            Refusal::NoResources => f.write_str("all sessions, TEIDs or worker memory are taken"),
            Refusal::NoAddress => f.write_str("all UE addresses of the pools are taken"),
            Refusal::Busy => f.write_str("too many requests are waiting"),
            Refusal::OtherWorkers => f.write_str("other workers serve the slice that it would be of"),
            Refusal::TooLate => f.write_str("the worker did not confirm in time"),
            Refusal::Worker => f.write_str("the worker refused"),
            Refusal::Gone => f.write_str("the session went away meanwhile"),
        }
    }
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleFault::Edit(EditFault::Exists) => f.write_str("exists already"),
            RuleFault::Edit(EditFault::Unknown) => f.write_str("does not exist"),
            RuleFault::Edit(EditFault::Predefined) => f.write_str("is predefined"),
            RuleFault::Edit(EditFault::NoEndpoint(id)) => {
                write!(f, "names Traffic Endpoint {id}, which does not exist")
            }
            RuleFault::Edit(EditFault::Unmeasured(_)) => {
                f.write_str("has a threshold or a quota of what it does not measure")
            }
            RuleFault::Edit(EditFault::NoMonitoringTime) => f.write_str("has no Monitoring Time"),
            RuleFault::Compile(fault) => fault.fmt(f),
            RuleFault::ChosenByPeer => f.write_str("has an F-TEID chosen by the control plane"),
            RuleFault::TunnelTaken => f.write_str("has the F-TEID of another session"),
            RuleFault::AddressTaken => f.write_str("has the UE address of another session"),
            RuleFault::ChosenElsewhere => {
                f.write_str("wants the F-TEID of another rule, at another local address than its own")
            }
            RuleFault::NoLocalAddress => f.write_str(
                "wants an F-TEID of an address family that its network instance has no address of",
            ),
            RuleFault::ChooseInUpdate => f.write_str("has no F-TEID that an update could keep"),
            RuleFault::NoPool => f.write_str("wants a UE address that no pool has the like of"),
            RuleFault::Edit(EditFault::OtherNat(other)) => {
                write!(f, "chooses other public addresses than FAR {}", other.0)
            }
            RuleFault::UnknownUrr | RuleFault::UnknownQer => f.write_str("does not exist"),
        }
    }
}

impl core::error::Error for Refusal {}
