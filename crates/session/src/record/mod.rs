//! Session records: a session, or an association, as octets that outlive the process (docs/adr/0006).
//!
//! One versioned form for all that needs one: a store, a standby, an upgrade, a bucket that moves to another node. A
//! record names nothing that only one process knows: network instances go by name, moments by date, associations by
//! Node ID; indexes, slots and counters of workers are not in it. SEIDs, TEIDs and UE addresses are: peers hold on to
//! them. Each record is sealed by itself ([`envelope`]), so that a file of many is read one by one.
//!
//! Values only: [`transfer`](crate::transfer) makes records of sessions and sessions of records.

mod envelope;
mod plain;
mod session_v1;

use flow::{Bucket, UrrCount};
use packet::{Qfi, Teid};
use rules::Predefined;
use rules::image::{DataStatus, DroppedCount, PacketsLeft, TokensLeft};
use rules::model::{EditError, PdrId, SessionRules, UrrId};
use rules::network::Network;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::account::Account;
use crate::f_teid_choice::ChosenFTeids;
use crate::ids::{CpFSeid, Seid};
use crate::sets::Sets;
use crate::ue_addresses::UeAddress;
use usage::{UrrCheckpoint, UsageReport, WallClock};

use envelope::Kind;
pub use envelope::LONGEST_RECORD;

/// What the numbers of a process mean: without it, a record is not to be read or written.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The network instances, with their names.
    pub network: &'a Network,
    /// The predefined rules, with the names of the rulebases.
    pub predefined: &'a Predefined,
    /// Which dates moments of the process's clock have.
    pub wall: &'a WallClock,
}

/// A session on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The association that it belongs to: the octets of its Node ID (TS 29.244 §8.2.38).
    pub association: Vec<u8>,
    /// The local SEID.
    pub seid: Seid,
    /// The control plane's F-SEID.
    pub cp: CpFSeid,
    /// The bucket that it lives in, from which its TEIDs were drawn.
    pub bucket: Bucket,
    /// The sets that it belongs to, and where its reports go.
    pub sets: Sets,
    /// The rules as given, in the order of their slots.
    pub rules: Arc<SessionRules>,
    /// UE addresses that came from pools.
    pub leases: Vec<UeAddress>,
    /// The F-TEIDs that its CHOOSE IDs stand for.
    pub(crate) shared: ChosenFTeids,
    /// Where its URRs stand.
    pub checkpoints: Vec<UrrCheckpoint>,
    /// Whom it is for, and what was entered of it.
    pub(crate) account: Account,
    /// What is left of its packet rates; a unit of time that ends at 0 has not begun.
    pub packets: Vec<PacketsLeft>,
    /// What the meters of its bit rates hold.
    pub tokens: Vec<TokensLeft>,
    /// What was dropped of URRs that tell of it, since they told.
    pub dropped: Vec<DroppedCount>,
    /// What its control plane has yet to acknowledge.
    pub pending: PendingReports,
}

/// What of a session is reported and not acknowledged, or about to be reported (TS 29.244 §7.5.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingReports {
    /// Usage, with the numbers that it has got.
    pub usage: Vec<UsageReport>,
    /// The queries that some of them answer: URR, UR-SEQN, and the Query URR Reference (§8.2.90).
    pub queries: Vec<(UrrId, u32, u32)>,
    /// Downlink data.
    pub downlink: Vec<DownlinkMark>,
    /// Peers' tunnel endpoints that there are no more.
    pub errors: Vec<(IpAddr, Teid)>,
    /// Inactivity.
    pub inactive: bool,
}

/// The packet that a Downlink Data Report is about (TS 29.244 §7.5.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownlinkMark {
    /// The PDR that it matched.
    pub pdr: PdrId,
    /// Paging Policy Indication: its DSCP, 0 to 63.
    pub ppi: Option<u8>,
    /// Its QoS flow.
    pub qfi: Option<Qfi>,
    /// What became of it, where the delivery status is followed.
    pub status: Option<DataStatus>,
}

/// An association on its way: what sessions that belong to it need to be reported and controlled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationRecord {
    /// The octets of the peer's Node ID (TS 29.244 §8.2.38).
    pub node: Vec<u8>,
    /// When the peer started: seconds since 1900 (§8.2.65).
    pub recovery: u32,
    /// What the peer can do: the flags of CP Function Features (§8.2.58), octet 5 in the low byte.
    pub features: u64,
    /// Where the set-up came from.
    pub peer: SocketAddr,
    /// Other addresses of the peer or its set.
    pub others: Vec<IpAddr>,
    /// The SMF set (§8.2.131), in DNS labels.
    pub set: Option<Vec<u8>>,
    /// The address of ours that it reached.
    pub local: SocketAddr,
}

/// What the node itself carries on in another process: it comes before everything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The octets of our own Node ID (TS 29.244 §8.2.38).
    pub node: Vec<u8>,
    /// Our Recovery Time Stamp (§8.2.65), in seconds since 1970. Peers whose sessions go on must not see another one:
    /// they would take it for a restart, and their sessions for lost (TS 23.527 §4).
    pub recovery_unix: u64,
    /// The version of Sluice that wrote it, for people.
    pub version: String,
}

/// An application's Packet Flow Descriptions (TS 29.244 §6.2.5), for all sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationRecord {
    /// The Application ID.
    pub id: Vec<u8>,
    /// Its flow descriptions, as in PFD Contents.
    pub flows: Vec<String>,
}

/// Any record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A session.
    Session(Box<SessionRecord>),
    /// An association.
    Association(Box<AssociationRecord>),
    /// The node itself.
    Node(Box<NodeRecord>),
    /// An application.
    Application(Box<ApplicationRecord>),
}

/// What follows on the record that `octets` begin with, which is whole and undamaged.
///
/// # Errors
/// What is wrong with its envelope.
pub fn behind_record(octets: &[u8]) -> Result<&[u8], RecordError> {
    envelope::open(octets).map(|(_, rest)| rest)
}

impl Record {
    /// Reads the record that `octets` begin with, and gives what follows on it.
    ///
    /// # Errors
    /// What is wrong with it. Nothing is believed that the check sum does not cover; no more memory is taken than a
    /// small multiple of the record's own length.
    pub fn decode<'o>(octets: &'o [u8], frame: Frame<'_>) -> Result<(Record, &'o [u8]), RecordError> {
        let (sealed, rest) = envelope::open(octets)?;
        let record = match sealed.kind {
            Kind::Session => session_v1::decode(sealed.body, frame)
                .map(Box::new)
                .map(Record::Session),
            Kind::Association => plain::decode(sealed.body, "association").map(Record::Association),
            Kind::Node => plain::decode(sealed.body, "node").map(Record::Node),
            Kind::Application => plain::decode(sealed.body, "application").map(Record::Application),
        };
        Ok((record?, rest))
    }
}

impl SessionRecord {
    /// The session as octets.
    ///
    /// # Errors
    /// What no live session is: longer than [`LONGEST_RECORD`], or with a network instance that there is not.
    pub fn encode(&self, frame: Frame<'_>) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Session, &session_v1::encode(self, frame)?)
    }
}

impl AssociationRecord {
    /// The association as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Association, &plain::encode(self, "association")?)
    }
}

impl NodeRecord {
    /// The node as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Node, &plain::encode(self, "node")?)
    }
}

impl ApplicationRecord {
    /// The application as octets.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        envelope::seal(Kind::Application, &plain::encode(self, "application")?)
    }
}

/// Octets that are no record that can be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// They end before the record does.
    Truncated,
    /// They do not begin as a record does.
    NoRecord,
    /// The record is of a kind that is not known here, by this number.
    Kind(u8),
    /// A newer Sluice wrote it.
    Newer {
        /// The version of the record's kind.
        version: u8,
        /// The newest that is known here.
        known: u8,
    },
    /// Another Sluice wrote it, before or since the content of its version changed.
    Revision {
        /// The revision of the record's content.
        revision: u8,
        /// The one that is known here.
        known: u8,
    },
    /// It says that it is longer than any record may be, octets.
    TooLong(usize),
    /// The check sum is another: it was damaged on its way.
    CheckSum,
    /// What it says cannot be: the field.
    Malformed(&'static str),
    /// A network instance that is not configured here.
    UnknownInstance(String),
    /// A forwarding policy that is not configured here.
    UnknownPolicy(String),
    /// A rulebase of predefined rules that is not configured here.
    UnknownRulebase(String),
    /// Its rules contradict each other.
    Rules(EditError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Truncated => f.write_str("the record is cut off"),
            RecordError::NoRecord => f.write_str("this is no session record"),
            RecordError::Kind(kind) => write!(f, "records of kind {kind} are not known here"),
            RecordError::Newer { version, known } => write!(
                f,
                "the record is of version {version}, and the newest one known here is {known}: a newer Sluice wrote it"
            ),
            RecordError::Revision { revision, known } => write!(
                f,
                "the record has content of revision {revision}, and revision {known} alone is read here: another build of Sluice wrote it"
            ),
            RecordError::TooLong(octets) => {
                write!(f, "the record has {octets} octets; {LONGEST_RECORD} is the most")
            }
            RecordError::CheckSum => f.write_str("the record is damaged: its check sum is another"),
            RecordError::Malformed(field) => write!(f, "the record's {field} cannot be"),
            RecordError::UnknownInstance(name) => {
                write!(
                    f,
                    "the record names network instance {name:?}, which is not configured"
                )
            }
            RecordError::UnknownPolicy(name) => {
                write!(
                    f,
                    "the record names forwarding policy {name:?}, which is not configured"
                )
            }
            RecordError::UnknownRulebase(name) => {
                write!(f, "the record names rulebase {name:?}, which is not configured")
            }
            RecordError::Rules(error) => write!(f, "the record's rules: {error}"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<EditError> for RecordError {
    fn from(error: EditError) -> RecordError {
        RecordError::Rules(error)
    }
}

/// A count as it is written: of uplink packets and octets, of downlink packets and octets, and events.
type Octets = ([u64; 4], u64);

fn octets(count: UrrCount) -> Octets {
    let UrrCount {
        ul_packets,
        ul_octets,
        dl_packets,
        dl_octets,
        events,
    } = count;
    ([ul_packets, ul_octets, dl_packets, dl_octets], events)
}

fn count(([ul_packets, ul_octets, dl_packets, dl_octets], events): Octets) -> UrrCount {
    UrrCount {
        ul_packets,
        ul_octets,
        dl_packets,
        dl_octets,
        events,
    }
}
