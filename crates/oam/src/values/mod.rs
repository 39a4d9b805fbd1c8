//! What an operator sees of a UPF: the values of the REST API, and what `sluice show` makes of them.
//!
//! One set of types serves both ends: the daemon fills them in ([`crate::views`]) and sends them as JSON, `sluice show`
//! reads them and writes tables for people. Numbers of 64 bits that are names and not counts (SEIDs) are texts in
//! hexadecimal, since JSON readers round them. Nothing here queries control or workers.

mod accelerator_node;
mod access_lists;
mod alarms;
mod applications;
mod configuration;
mod contents;
mod detail;
mod drop_advice;
mod facts;
mod live;
mod n4;
mod nat;
mod network;
mod offload;
mod paths;
mod ports;
mod queues;
mod records;
mod runtime;
mod slices;
mod store;
mod table;
mod text;
mod tokens;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[cfg(test)]
pub(crate) use accelerator_node::tests::status as accelerator_node_status;
pub use accelerator_node::{
    AcceleratorNodeStatus, AcceleratorNodeUse, ChannelStatus, ForwardedPackets, NodePackets, QuestionCounts,
    TableUse,
};
pub use access_lists::{AccessListStatus, AccessLists, AccessRuleStatus};
pub use alarms::{AlarmChange, AlarmEvent, AlarmEventList, AlarmList, AlarmNotification, AlarmRow, Severity};
pub use applications::{ApplicationList, ApplicationRow};
pub use configuration::{
    CommitReport, CommitState, ConfigChange, ConfigDifferences, ConfigStatus, ConfigVersion,
    ConfigVersionList, ConfigVersionText, RolledBackVersion, UnconfirmedVersion,
};
pub use contents::{ContentList, ContentRow, InspectedFlows};
pub use detail::{
    Bar, ContentCounts, Correlation, Counts, CpFSeid, Endpoint, Far, Pdr, Qer, Rates, SessionDetail,
    SessionState, Tunnel, Urr, Volume,
};
pub use drop_advice::drop_advice;
pub use live::{
    Flow, Live, LiveControl, LiveDrop, LiveInstance, LiveMoment, LiveNode, LivePort, LiveSessions, LiveSmf,
    LiveStage, LiveWorker, PlacedInstance, Rate,
};
pub use n4::{LogStatus, N4Cause, N4Message, N4Status};
pub use nat::{
    MOST_MAPPINGS, NatBlock, NatMappingCounts, NatMappingList, NatMappingRow, NatOwner, NatPoolRow,
    NatStatus, NatUnsolicited, SessionNat,
};
pub use network::{NeighbourList, NeighbourRow, NextHopRow, OwnAddressRow, RouteKind, RouteList, RouteRow};
#[cfg(test)]
pub(crate) use offload::tests::view as accelerator_view;
pub use offload::{
    AcceleratorCapabilities, AcceleratorChannel, AcceleratorPackets, AcceleratorRequests,
    AcceleratorSessions, AcceleratorStatus, OffloadStatus,
};
pub use paths::{PathList, PathRow};
pub use ports::{PortList, PortRow};
pub use queues::{QueueList, QueuePlan, QueuePriority, SessionQueue, ShaperPart, ShaperStatus};
pub(crate) use queues::{label, way};
pub use records::{RecordsState, RecordsStatus, UnreportedCounts};
pub use runtime::{
    HostLink, MemoryResidency, NodeShare, PageShare, Runtime, StageRuntime, WorkerMemory, WorkerRuntime,
};
pub use slices::{SliceList, SliceRow, SliceWorkersRow};
pub use store::{RestoredSessions, StoreState, StoreStatus};
pub use table::clean;
pub use tokens::{NewToken, TokenList, TokenRow};

/// The most rows of one page.
pub const LONGEST_PAGE: usize = 500;
/// The rows of one page unless the request says otherwise.
pub const USUAL_PAGE: usize = 100;

/// A page of associations, in the order in which they were set up first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AssociationList {
    /// The associations.
    pub associations: Vec<Association>,
    /// What `after` is for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<u32>,
    /// How many there are in all.
    pub total: usize,
}

/// A PFCP association (TS 29.244 §6.2.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Association {
    /// The peer's Node ID.
    #[schema(example = "smf.5gc.example")]
    pub node: String,
    /// Where it was set up from: address and port.
    #[schema(example = "10.100.0.2:8805")]
    pub peer: String,
    /// The address of ours that it reached.
    #[schema(example = "10.100.0.1:8805")]
    pub local: String,
    /// Other addresses of the peer, or of its set.
    pub others: Vec<String>,
    /// The SMF set that the peer belongs to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub set: Option<String>,
    /// The reference points that the peer speaks over, as it is configured: of n4, sxa and sxb; absent where it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "sxa, sxb")]
    pub interface: Option<String>,
    /// Whether it answered the last heartbeat.
    pub reachable: bool,
    /// When the association was set up (RFC 3339).
    pub since: String,
    /// When the peer started: its Recovery Time Stamp, seconds since 1900.
    pub recovery: u32,
    /// Its sessions.
    pub sessions: usize,
    /// Tunnels that its sessions hold.
    pub tunnels: usize,
}

/// A page of sessions, in the order of their SEIDs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionRow>,
    /// What `after` is for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
    /// How many sessions there are in all, whatever was asked for.
    pub total: usize,
}

/// A session in few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionRow {
    /// The local SEID.
    #[schema(example = "0x8f3c21b09d4e7a65")]
    pub seid: String,
    /// The control plane's SEID.
    pub cp_seid: String,
    /// The Node ID of its association.
    pub node: String,
    /// The UE's addresses and prefixes.
    pub ue: Vec<String>,
    /// The IMSI of whom it is for, if its control plane has said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "001010000000001")]
    pub imsi: Option<String>,
    /// The DNN or APN, if its control plane has said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "internet")]
    pub dnn: Option<String>,
    /// The TEIDs that lead to it, each once.
    pub teids: Vec<String>,
    /// How many PDRs it has.
    pub pdrs: usize,
    /// Whether anything is under way.
    pub state: SessionState,
    /// The worker that has it.
    pub worker: u16,
    /// The bucket that it lives in, 0 to 511.
    pub bucket: u16,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallerStatus {
    /// Its name: `uid:` and a number on the Unix socket, else that of its token or certificate.
    #[schema(example = "uid:0")]
    pub name: String,
    /// Its role: `viewer`, `operator` or `admin`.
    #[schema(example = "admin")]
    pub role: String,
    /// Where it asks from: `unix`, or an address and port.
    #[schema(example = "unix")]
    pub address: String,
}

/// Why a request was not served (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The status in words.
    pub title: String,
    /// What is wrong.
    pub detail: String,
    /// The parameter that is at fault.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub field: Option<String>,
    /// The role that the caller lacks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "operator")]
    pub role: Option<String>,
}
