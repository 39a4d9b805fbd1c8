//! Why rules cannot be compiled.

use core::fmt;
use std::net::IpAddr;

use flow::InstanceId;

use crate::model::{FarId, PdrId, PoolFault, RuleRef, SdfFilterId, UrrId};

/// Rules that cannot be compiled: the rule to name in a Failed Rule ID, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompileError {
    /// The rule at fault.
    pub rule: RuleRef,
    /// What is wrong with it.
    pub reason: CompileFault,
}

/// Why rules cannot be compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompileFault {
    /// A PDR names no FAR (TS 29.244 Table 7.5.2.2-1).
    NoFar,
    /// A PDR names a rule that does not exist.
    Missing(RuleRef),
    /// A URR is linked to one that does not exist.
    NoLinkedUrr(UrrId),
    /// A URR's FAR ID for Quota Action names a FAR that does not exist.
    NoQuotaAction(FarId),
    /// A credit pool asks for what it cannot have.
    Pool(PoolFault),
    /// A URR counts events, and a PDR that names it looks for no application of which any are configured.
    NoEvents(PdrId),
    /// URRs exempt more flows from their quotas than `max` in all.
    TooManyExempt {
        /// The most there may be.
        max: u16,
    },
    /// A FAR has not exactly one of DROP, FORW, BUFF, IPMA and IPMD (TS 29.244 §8.2.26).
    ApplyAction,
    /// An SDF filter has only an id, which nothing defines (TS 29.244 §8.2.5).
    UndefinedFilter(SdfFilterId),
    /// A PDR's F-TEID has TEID 0 or no address.
    FTeidIncomplete,
    /// A PDR's F-TEID has an address that is no GTP-U address of this node.
    NotLocal(IpAddr),
    /// A PDR or FAR names a network instance that is not configured.
    UnknownInstance(InstanceId),
    /// No PDR of the session has an F-TEID or a UE address (TS 29.244 §5.2.1): nothing can lead to it.
    Unreachable,
    /// A FAR says DUPL, and has no Duplicating Parameters, or none that lead into a tunnel.
    NoDuplicate,
    /// A FAR that redirects says DUPL: what would be duplicated is not said.
    RedirectedDuplicate,
    /// A FAR's Outer Header Creation asks for a header that this node does not make.
    UnsupportedHeader,
    /// A FAR's Outer Header Creation lacks the address or the TEID that its description announces.
    HeaderIncomplete,
    /// A FAR's peer is an address that no other node has: a martian, a broadcast address, or one of this node's where
    /// no tunnels end.
    NoPeer(IpAddr),
    /// A PDR's Outer Header Removal removes a header that this node does not handle.
    UnsupportedRemoval,
    /// No network instance fits the FAR's destination interface, or none has an address of the peer's family.
    NoEgress,
    /// No route leads to the FAR's peer.
    NoRoute(IpAddr),
    /// There is no room for another next hop, this one.
    NoAdjacency(IpAddr),
    /// A QER guarantees more than it lets pass.
    GbrAboveMbr,
    /// A QER that is correlated with those of other sessions has a guaranteed bit rate, a packet rate, or the
    /// correlation of another QER of its session.
    Correlated,
    /// A QER marks packets with a QFI and with a Service Class Indicator.
    TwoMarks,
    /// The session has more rules of this kind than `max`.
    TooMany {
        /// The most there may be.
        max: u16,
    },
}

impl CompileFault {
    /// Whether the node's limits are at fault, not the request (TS 29.244 §8.2.1: cause 75).
    pub const fn is_resource(self) -> bool {
        matches!(
            self,
            Self::TooMany { .. } | Self::TooManyExempt { .. } | Self::NoAdjacency(_)
        )
    }
}

impl fmt::Display for CompileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFar => f.write_str("names no FAR"),
            Self::Missing(rule) => write!(f, "names {rule}, which does not exist"),
            Self::NoLinkedUrr(urr) => write!(f, "is linked to URR {urr}, which does not exist"),
            Self::NoQuotaAction(far) => write!(f, "has FAR {far} for Quota Action, which does not exist"),
            Self::Pool(fault) => write!(f, "is a credit pool {fault}"),
            Self::NoEvents(pdr) => write!(
                f,
                "counts events, and {pdr} looks for no application of which events are configured"
            ),
            Self::TooManyExempt { max } => write!(
                f,
                "exempts more from its quota than the {max} flows that a session may exempt"
            ),
            Self::ApplyAction => f.write_str("must have exactly one of DROP, FORW, BUFF, IPMA, IPMD"),
            Self::UndefinedFilter(id) => write!(f, "uses SDF filter {id}, which nothing defines"),
            Self::FTeidIncomplete => f.write_str("has an F-TEID with TEID 0 or without an address"),
            Self::NotLocal(address) => {
                write!(f, "has an F-TEID at {address}, which is not a GTP-U address here")
            }
            Self::UnknownInstance(id) => write!(f, "names network instance {id}, which is not configured"),
            Self::Unreachable => {
                f.write_str("identifies no session, nor does any other PDR: no F-TEID, no UE address")
            }
            Self::NoDuplicate => f.write_str("duplicates packets, and does not say into which tunnel"),
            Self::RedirectedDuplicate => f.write_str("redirects packets, and duplicates them"),
            Self::UnsupportedHeader => f.write_str("asks for an outer header other than GTP-U"),
            Self::HeaderIncomplete => f.write_str("asks for an outer header without its address or TEID"),
            Self::NoPeer(peer) => write!(f, "has the peer {peer}, which is no other node's address"),
            Self::UnsupportedRemoval => f.write_str("removes an outer header other than GTP-U"),
            Self::NoEgress => f.write_str("leaves by no configured network instance"),
            Self::NoRoute(peer) => write!(f, "has the peer {peer}, to which no route leads"),
            Self::NoAdjacency(hop) => write!(f, "has the next hop {hop}, for which there is no room"),
            Self::TwoMarks => f.write_str("has a QFI beside a service class"),
            Self::GbrAboveMbr => f.write_str("has a guaranteed above its maximum bit rate"),
            Self::Correlated => f.write_str(
                "is correlated with other sessions' and has a guaranteed bit rate, a packet rate, or another's correlation",
            ),
            Self::TooMany { max } => write!(
                f,
                "is one more than the {max} of its kind that a session may have"
            ),
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rule, self.reason)
    }
}

impl core::error::Error for CompileError {}
