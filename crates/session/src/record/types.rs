//! The values that records hold.

use flow::meter::Tokens;
use flow::{Bucket, Nanos};
use nat::mappings::MovedMapping;
use nat::pools::PortBlock;
use packet::{Qfi, Teid};
use rules::Predefined;
use rules::image::{DataStatus, DroppedCount, PacketsLeft, TokensLeft};
use rules::model::{PdrId, Qer, SessionRules, UrrId};
use rules::network::Network;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use usage::{UrrCheckpoint, UsageReport, WallClock};

use crate::f_teid_choice::ChosenFTeids;
use crate::ids::{CpFSeid, Seid};
use crate::session_accounting::SessionAccounting;
use crate::sets::Sets;
use crate::ue_addresses::UeAddress;

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

/// A session as a record.
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
    /// The checkpoints of its URRs.
    pub checkpoints: Vec<UrrCheckpoint>,
    /// Whom it is for, and what was entered of it.
    pub(crate) accounting: SessionAccounting,
    /// What is left of its packet rates; a unit of time that ends at 0 has not begun.
    pub packets: Vec<PacketsLeft>,
    /// What the meters of its bit rates hold.
    pub tokens: Vec<TokensLeft>,
    /// Dropped packets of URRs that report them, since their last report.
    pub dropped: Vec<DroppedCount>,
    /// Its port blocks of the pool that its rules have, in the order in which it got them.
    pub port_blocks: Vec<PortBlock>,
    /// The mappings to them, where it ended in its worker for this record. Blocks have the numbers of this process.
    pub mappings: Vec<MovedMapping>,
    /// What its control plane has yet to acknowledge.
    pub pending: PendingReports,
}

impl SessionRecord {
    /// What the meters of its bit rates hold is not known: they hold nothing, and no burst is granted again.
    pub fn empty_meters(&mut self, now: Nanos) {
        let empty = Tokens {
            left: [0; 2],
            at: i64::try_from(now.0).unwrap_or(i64::MAX),
        };
        let has_meter = |qer: &&Qer| qer.mbr.is_some() && qer.correlation.is_none();
        let qers = self.rules.qers().iter().filter(has_meter);
        let empty = |qer: &Qer| TokensLeft {
            qer: qer.id,
            tokens: [Some(empty); 2],
        };
        self.tokens = qers.map(empty).collect();
    }
}

/// What of a session is reported and not acknowledged, or about to be reported (TS 29.244 §7.5.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingReports {
    /// Usage, with the numbers that it has got.
    pub usage: Vec<UsageReport>,
    /// The queries that some of them answer.
    pub queries: Vec<AnsweredQuery>,
    /// Downlink data.
    pub downlink: Vec<DownlinkMark>,
    /// Peers' tunnel endpoints that there are no more.
    pub errors: Vec<(IpAddr, Teid)>,
    /// Inactivity.
    pub inactive: bool,
    /// The last response to a modification, while its request may be repeated.
    pub response: Option<ResponseRecord>,
}

/// A response to a request on a session, for when the request is repeated (TS 29.244 §6.4): it alone has the usage that
/// it reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseRecord {
    /// Where the request came from.
    pub peer: SocketAddr,
    /// Its sequence number, 24 bits.
    pub sequence: u32,
    /// Its message type (§7.3).
    pub message_type: u8,
    /// The local SEID of the session.
    pub seid: u64,
    /// When the response was made: milliseconds since 1970.
    pub unix_ms: u64,
    /// The octets of the response.
    pub octets: Vec<u8>,
}

/// Usage reports of a session that is gone, in one request that its control plane has not acknowledged: they exist
/// nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnacknowledgedUsage {
    /// The octets of the Node ID of its association's peer (TS 29.244 §8.2.38).
    pub association: Vec<u8>,
    /// The local SEID of the session.
    pub seid: Seid,
    /// Which of the requests about the session, from 0.
    pub part: u16,
    /// The control plane's F-SEID, if it is known.
    pub cp: Option<CpFSeid>,
    /// Where the request goes.
    pub peer: SocketAddr,
    /// The octets of the request (§7.5.8): sent again, it says the same under each UR-SEQN.
    pub request: Vec<u8>,
    /// The usage that it reports, for a record if the control plane does not accept it.
    pub usage: Vec<UsageReport>,
}

/// A usage report that answers a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredQuery {
    /// The URR.
    pub urr: UrrId,
    /// UR-SEQN of the report (TS 29.244 §8.2.71).
    pub sequence: u32,
    /// Query URR Reference of the query (§8.2.90).
    pub query: u32,
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

/// An association as a record: what sessions that belong to it need to be reported and controlled.
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
    /// Our Recovery Time Stamp (§8.2.65), in seconds since 1970. Peers whose sessions continue must not get another
    /// one: they would take it for a restart, and their sessions for lost (TS 23.527 §4).
    pub recovery_unix: u64,
    /// The version of Sluice that wrote it, for people.
    pub version: String,
}

/// An application's Packet Flow Descriptions (TS 29.244 §6.2.5), for all sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationRecord {
    /// The Application ID.
    pub id: Vec<u8>,
    /// The flow descriptions of PFDs without names, as in PFD Contents.
    pub flows: Vec<String>,
    /// The PFDs with names, as [`NamedPfd`](rules::model::NamedPfd) writes them.
    pub named: Vec<String>,
}
