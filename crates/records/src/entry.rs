//! What a record says. Units are in the names: octets, packets, seconds, milliseconds since 1970.

use rules::model::SNssai;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::json;

/// One record. Its number ([`seal`](crate::seal)) is beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// What a URR measured, from one report to the next.
    Usage(Box<Usage>),
    /// What a session counted of one content of predefined rules.
    Content(Box<Content>),
    /// A usage report that its control plane function has not taken.
    Unreported(Box<Unreported>),
    /// A session has begun here.
    SessionStart(Box<SessionStart>),
    /// A session has gone to another process, where it continues.
    SessionLeft(Box<SessionLeft>),
    /// A session has ended.
    SessionEnd(Box<SessionEnd>),
    /// A process has begun to write records: sessions that began before and have not ended are not its own.
    ProcessStart(ProcessStart),
    /// Records that there are not.
    Lost(Lost),
}

impl Entry {
    /// The session that the record is of; none when it is about records.
    pub fn subject(&self) -> Option<&Subject> {
        match self {
            Entry::Usage(usage) => Some(&usage.subject),
            Entry::Content(content) => Some(&content.subject),
            Entry::Unreported(report) => Some(&report.subject),
            Entry::SessionStart(start) => Some(&start.subject),
            Entry::SessionLeft(left) => Some(&left.subject),
            Entry::SessionEnd(end) => Some(&end.subject),
            Entry::ProcessStart(_) | Entry::Lost(_) => None,
        }
    }

    /// When what it reports was over, or when it happened: milliseconds since 1970.
    pub fn time_ms(&self) -> u64 {
        match self {
            Entry::Usage(usage) => usage.end_ms,
            Entry::Content(content) => content.end_ms,
            Entry::Unreported(report) => report.time_ms,
            Entry::SessionStart(start) => start.time_ms,
            Entry::SessionLeft(left) => left.time_ms,
            Entry::ProcessStart(start) => start.time_ms,
            Entry::SessionEnd(end) => end.end_ms,
            Entry::Lost(lost) => lost.time_ms,
        }
    }
}

/// Whose usage it is. What the control plane has not said is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// The Node ID of this user plane function.
    pub node: String,
    /// The Node ID of the control plane function that the session belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smf: Option<String>,
    /// The SEID here.
    #[serde(with = "json::seid")]
    pub seid: u64,
    /// The SEID there.
    #[serde(with = "json::seid")]
    pub cp_seid: u64,
    /// Its IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cp_ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cp_ipv6: Option<Ipv6Addr>,
    /// IMSI, digits (TS 23.003 §2.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imsi: Option<String>,
    /// IMEI or IMEISV, digits (TS 23.003 §6.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imei: Option<String>,
    /// MSISDN, digits (TS 23.003 §3.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msisdn: Option<String>,
    /// Network Access Identifier (RFC 7542).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nai: Option<String>,
    /// SUPI that is no IMSI (TS 29.571).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supi: Option<String>,
    /// GPSI that is no MSISDN (TS 29.571).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpsi: Option<String>,
    /// PEI that is no IMEI (TS 29.571).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pei: Option<String>,
    /// DNN or APN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnn: Option<String>,
    /// The slice.
    #[serde(with = "json::s_nssai", skip_serializing_if = "Option::is_none")]
    pub s_nssai: Option<SNssai>,
    /// The UE's addresses and prefixes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ue: Vec<String>,
    /// The network instances that the session's rules name, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<String>,
}

/// Octets and packets, as they were counted (inner IP packets).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volumes {
    /// Uplink octets.
    pub ul_octets: u64,
    /// Downlink octets.
    pub dl_octets: u64,
    /// Both together.
    pub total_octets: u64,
    /// Uplink packets.
    pub ul_packets: u64,
    /// Downlink packets.
    pub dl_packets: u64,
}

impl Volumes {
    /// From both directions.
    pub fn new([ul_octets, dl_octets]: [u64; 2], [ul_packets, dl_packets]: [u64; 2]) -> Volumes {
        Volumes {
            ul_octets,
            dl_octets,
            total_octets: ul_octets.wrapping_add(dl_octets),
            ul_packets,
            dl_packets,
        }
    }
}

/// One usage report of a URR (TS 29.244 §7.5.8.3), whether or not the control plane has received it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Whose usage.
    #[serde(rename = "session")]
    pub subject: Subject,
    /// The URR: what the control plane has given its rating group to.
    pub urr: u32,
    /// UR-SEQN: the report's number among those of the URR.
    pub ur_seqn: u32,
    /// Why the report was made: the Usage Report Triggers (TS 29.244 §8.2.41).
    pub triggers: Vec<Cow<'static, str>>,
    /// What was counted.
    pub volumes: Volumes,
    /// When the measurement began.
    pub start_ms: u64,
    /// When it ended.
    pub end_ms: u64,
    /// The time used, of a URR that measures it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_s: Option<u64>,
    /// The events counted, of a URR that counts them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub events: Option<u64>,
    /// When the first packet of the measurement was counted, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_packet_ms: Option<u64>,
    /// When the last one was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_packet_ms: Option<u64>,
}

/// What a session counted of one content of predefined rules (a PCC rule, an application), since the record before of
/// the same content. All such records of a session and a content together are all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Whose usage.
    #[serde(rename = "session")]
    pub subject: Subject,
    /// The content's name. Nothing: of contents that found no room for a counter of their own, together.
    #[serde(rename = "content", skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Its rating group.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rating_group: Option<u32>,
    /// Its service identifier.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_id: Option<u32>,
    /// What was counted.
    pub volumes: Volumes,
    /// When the first packet was counted; of contents without counters, when the record was made.
    pub start_ms: u64,
    /// When the last one was.
    pub end_ms: u64,
}

/// A usage report that its control plane function has not taken: there is a record of type `usage` of what it says, or
/// several, where reports were added to each other before they were sent. It is not sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreported {
    /// Whose usage. Of a session that is gone only the SEIDs and the control plane function are known.
    #[serde(rename = "session")]
    pub subject: Subject,
    /// The URR.
    pub urr: u32,
    /// UR-SEQN.
    pub ur_seqn: u32,
    /// Why the report was made.
    pub triggers: Vec<Cow<'static, str>>,
    /// What it says was counted.
    pub volumes: Volumes,
    /// When the measurement began.
    pub start_ms: u64,
    /// When it ended.
    pub end_ms: u64,
    /// When it was known that the report is not taken.
    pub time_ms: u64,
    /// Why it was not.
    pub outcome: Outcome,
    /// The cause of the answer (TS 29.244 §8.2.1), of a report that was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<u8>,
}

/// Why a usage report was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The control plane function has answered with a cause other than acceptance.
    Refused,
    /// Its answer cannot be read.
    Unreadable,
    /// The session or its association was gone before an answer came.
    Unanswered,
}

/// The beginning of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    /// Whose session.
    #[serde(rename = "session")]
    pub subject: Subject,
    /// When it began here.
    pub time_ms: u64,
    /// When the session was set up: earlier than `time_ms` if it comes from another process.
    pub start_ms: u64,
    /// Whether it comes from another process.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub imported: bool,
    /// How many PDRs it has.
    pub pdrs: u32,
    /// How many QERs.
    pub qers: u32,
    /// Its URRs: what usage there will be records of.
    pub urrs: Vec<u32>,
}

/// A session has gone to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLeft {
    /// Whose session.
    #[serde(rename = "session")]
    pub subject: Subject,
    /// When it went.
    pub time_ms: u64,
    /// When the session was set up.
    pub start_ms: u64,
    /// How many usage records there are of it so far.
    pub usage_records: u64,
    /// What they have in sum.
    pub volumes: Volumes,
}

/// A process has begun to write records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStart {
    /// When.
    pub time_ms: u64,
    /// Its Node ID.
    pub node: String,
    /// The version of Sluice.
    pub version: String,
}

/// The end of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// Whose session.
    #[serde(rename = "session")]
    pub subject: Subject,
    /// Why it ended.
    pub cause: EndCause,
    /// When the session was set up.
    pub start_ms: u64,
    /// When it ended.
    pub end_ms: u64,
    /// How many usage records there are of it.
    pub usage_records: u64,
    /// What they have in sum. Traffic that several URRs count is in it several times.
    pub volumes: Volumes,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// It was deleted in order: by the control plane, or when the association was released with a last report.
    Deleted,
    /// The control plane has set up another in its place, under the same F-SEID.
    Superseded,
    /// Its association ended without it being deleted.
    AssociationEnded,
    /// The control plane has started anew, or has set its association up anew.
    CpRestarted,
    /// The control plane has deleted a set that it belonged to.
    SetDeleted,
    /// Something went wrong here: a worker, or an answer that could not be given.
    Fault,
}

/// Records that were made and are not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// When that was found out.
    pub time_ms: u64,
    /// The number of the first of them; the last has the number before that of this record.
    pub first: u64,
    /// How many.
    pub records: u64,
    /// Why.
    pub cause: LossCause,
}

/// Why records are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// More came than memory holds, while the disk took none.
    NoRoom,
    /// The process ended with records that were not written.
    UncleanEnd,
}
