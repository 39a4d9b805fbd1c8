//! One session in full, as the REST API has it. Named as in TS 29.244; what is said in words is said by
//! [`crate::views`], so that machines and people read the same.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{SessionNat, SessionQueue};

/// Whether anything is under way in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// Nothing is.
    Live,
    /// A request is, or the session is on its way to another worker.
    Changing,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionDetail {
    /// The local SEID.
    #[schema(example = "0x8f3c21b09d4e7a65")]
    pub seid: String,
    /// Whether anything is under way.
    pub state: SessionState,
    /// Requests that wait for the one under way.
    pub waiting: usize,
    /// The worker that has it.
    pub worker: u16,
    /// The bucket that it lives in, 0 to 511.
    pub bucket: u16,
    /// Its flow entries; absent where the worker does not have it just now, as all that is read in the worker.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flows: Option<u32>,
    /// The Node ID of its association.
    pub node: String,
    /// The control plane's F-SEID.
    pub cp_f_seid: CpFSeid,
    /// The sets that it belongs to (FQ-CSID, Group Id), in words.
    pub sets: Vec<String>,
    /// The UE's addresses and prefixes, and the networks behind it.
    pub ue: Vec<String>,
    /// The IMSI of whom it is for, if its control plane has said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub imsi: Option<String>,
    /// The DNN or APN, if its control plane has said it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dnn: Option<String>,
    /// The tunnels that lead to it.
    pub tunnels: Vec<Tunnel>,
    /// What it has of its pool of public addresses (CG-NAT); absent without one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nat: Option<SessionNat>,
    /// Its queues before ports; absent where it has none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queues: Vec<SessionQueue>,
    /// The PDRs, in the order in which a packet is held against them.
    pub pdrs: Vec<Pdr>,
    /// The FARs.
    pub fars: Vec<Far>,
    /// The QERs.
    pub qers: Vec<Qer>,
    /// The URRs.
    pub urrs: Vec<Urr>,
    /// What was counted of each content of predefined rules since the last record of it; absent where there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub contents: Vec<ContentCounts>,
    /// The BARs.
    pub bars: Vec<Bar>,
    /// The Traffic Endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// The control plane's F-SEID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CpFSeid {
    /// Its SEID.
    pub seid: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// A tunnel endpoint of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tunnel {
    /// The TEID.
    #[schema(example = "0x6d2a91c4")]
    pub teid: String,
    /// Our address.
    pub address: String,
    /// The network instance that the address is of.
    pub instance: String,
}

/// A PDR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pdr {
    /// Its number.
    pub id: u16,
    /// Its precedence: the lower is tried first.
    pub precedence: u32,
    /// Where packets come from.
    #[schema(example = "Access")]
    pub source: String,
    /// What packets must have, in words: one of each line, all lines.
    pub matches: Vec<String>,
    /// What comes off them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub removes: Option<String>,
    /// The rulebases of predefined rules that it activates, by name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rulebases: Vec<String>,
    /// The FAR.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub far: Option<u32>,
    /// What the FAR does now, in words; without one, what becomes of packets.
    pub action: String,
    /// The QERs.
    pub qers: Vec<u32>,
    /// The URRs.
    pub urrs: Vec<u32>,
}

/// A FAR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Far {
    /// Its number.
    pub id: u32,
    /// The flags of Apply Action.
    pub apply_action: Vec<String>,
    /// What it does, in words.
    pub action: String,
    /// Its BAR.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bar: Option<u8>,
    /// Packets that wait, where it buffers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub buffered: Option<u16>,
}

/// A pair of rates, bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rates {
    /// Uplink.
    pub uplink: u64,
    /// Downlink.
    pub downlink: u64,
}

/// What QERs of several sessions have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Correlation {
    /// The QER Correlation ID.
    pub id: u32,
    /// How many sessions keep their rate together by it, this one among them; 0 while the UE is in 5GC.
    pub sessions: usize,
}

/// A QER.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Qer {
    /// Its number.
    pub id: u32,
    /// The QER Correlation ID: with which sessions of its control plane function the maximum bit rate is kept together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub correlation: Option<Correlation>,
    /// Whether uplink packets pass.
    pub uplink_open: bool,
    /// Whether downlink packets pass.
    pub downlink_open: bool,
    /// The maximum bit rate; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mbr: Option<Rates>,
    /// The guaranteed bit rate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gbr: Option<Rates>,
    /// The QoS flow that packets are marked with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub qfi: Option<u8>,
    /// Whether downlink packets carry the Reflective QoS Indication.
    pub rqi: bool,
    /// The Paging Policy Indicator of downlink packets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ppi: Option<u8>,
    /// The Service Class Indicator of downlink packets in tunnels.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_class: Option<u8>,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Uplink packets.
    pub uplink_packets: u64,
    /// Uplink octets.
    pub uplink_octets: u64,
    /// Downlink packets.
    pub downlink_packets: u64,
    /// Downlink octets.
    pub downlink_octets: u64,
}

/// Octets, by direction; what is absent has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Both together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<u64>,
    /// Uplink.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uplink: Option<u64>,
    /// Downlink.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub downlink: Option<u64>,
}

/// A URR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Urr {
    /// Its number.
    pub id: u32,
    /// What it measures.
    #[schema(example = json!(["volume"]))]
    pub measures: Vec<String>,
    /// What was counted since the last report; absent where the worker does not have the session just now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since_last_report: Option<Counts>,
    /// Events among these packets, of a URR that counts them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub events: Option<u64>,
    /// When that measurement began (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<String>,
    /// UR-SEQN of the next report, which is how many there were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_ur_seqn: Option<u32>,
    /// Octets after which to report.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume_threshold: Option<Volume>,
    /// Octets after which to stop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume_quota: Option<Volume>,
    /// Seconds after which to report.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_threshold: Option<u32>,
    /// Seconds after which to stop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_quota: Option<u32>,
    /// Events after which to report.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_threshold: Option<u32>,
    /// Events after which to stop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_quota: Option<u32>,
}

/// What was counted of a content of predefined rules (a PCC rule, an application), since the last record of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentCounts {
    /// The content's name; absent for those together that found no room for a counter of their own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<String>,
    /// Its rating group.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rating_group: Option<u32>,
    /// Its service identifier.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_id: Option<u32>,
    /// What was counted.
    pub counts: Counts,
    /// When the first of these packets came (RFC 3339).
    pub since: String,
}

/// A BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bar {
    /// Its number.
    pub id: u8,
    /// Downlink Data Notification Delay, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notification_delay_ms: Option<u32>,
    /// How many packets are enough.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suggested_packets: Option<u16>,
}

/// A Traffic Endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Endpoint {
    /// Its number.
    pub id: u8,
    /// What packets must have, in words: one of each line, all lines.
    pub matches: Vec<String>,
}
