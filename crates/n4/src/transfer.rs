//! Associations and sessions that leave for another process, and those that come from one, as records
//! ([`session::SessionRecord`]).
//!
//! An endpoint adds to a session's record what only it knows: the association by its Node ID, and the reports that the
//! control plane has not acknowledged. They keep their UR-SEQNs: one that was on its way is sent again by whoever has
//! the session next, and the control plane knows it by its number. Answers that were kept for retransmissions, and how
//! long a control plane wants no word of downlink packets, do not go along.

use flow::Nanos;
use pfcp::ie::{CpFunctionFeatures, Ie, NodeId, QueryUrrReference, RecoveryTimeStamp};
use rules::network::Network;
use rules::sdf::FlowDescription;
use session::{
    ApplicationRecord, AssociationRecord, Done, DownlinkMark, Export, Frame, NodeRecord, Outcome,
    PendingReports, Record, RecordError, Refusal, Seid, Ticket, WallClock,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::association::Association;
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::event_log::AssociationEnd;
use crate::node::NodeName;
use crate::pfds::MOST_FLOWS;
use crate::report_outbox::{DownlinkData, Events};

/// Sessions on their way out at the same time: what one turn has to do is bounded by it.
const WINDOW: usize = 64;

/// What came of the export of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The session.
    pub seid: Seid,
    /// Its record; or why there is none.
    pub record: Result<Vec<u8>, ExportError>,
}

/// Why there is no record of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportError {
    /// The session did not get to it.
    Refused(Refusal),
    /// It cannot be written down.
    Record(RecordError),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Refused(refusal) => refusal.fmt(f),
            ExportError::Record(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ExportError {}

/// What a record became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imported {
    /// An association with this node; the one that there was, if there was one.
    Association(NodeName),
    /// A session, once its worker has it: told by [`Endpoint::poll_imported`].
    Session(Seid),
    /// This node goes on as that which wrote the record, with its Recovery Time Stamp: seconds since 1970.
    Node(u64),
    /// An application is known by its PFDs, as it was there.
    Application(Vec<u8>),
}

/// Why a record became nothing. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// It cannot be read.
    Record(RecordError),
    /// There is no association with the node that its session belongs to.
    NoAssociation(NodeName),
    /// There are as many associations as there may be.
    TooManyAssociations,
    /// Peers have been told when this process started, and cannot be told otherwise.
    TooLate,
    /// The records are those of another node.
    OtherNode(NodeName),
    /// There are as many applications as there may be.
    TooManyApplications,
    /// The session has no place here.
    Session(session::ImportError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Record(error) => error.fmt(f),
            ImportError::NoAssociation(node) => write!(f, "there is no association with {node}"),
            ImportError::TooManyAssociations => f.write_str("there are as many associations as there may be"),
            ImportError::TooLate => f.write_str(
                "there are associations: their peers know this process's own Recovery Time Stamp, and would take another one for a restart",
            ),
            ImportError::OtherNode(node) => write!(f, "the records are those of another node, {node}"),
            ImportError::TooManyApplications => f.write_str("there are as many applications as there may be"),
            ImportError::Session(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ImportError {}

impl From<RecordError> for ImportError {
    fn from(error: RecordError) -> ImportError {
        ImportError::Record(error)
    }
}

/// Records under way.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// An export of all sessions: behind which SEID it goes on, and how.
    all: Option<(Option<Seid>, Export)>,
    leaving: BTreeMap<Ticket, Seid>,
    exported: VecDeque<Exported>,
    /// Sessions that have yet to be confirmed, with what is to be reported of them then.
    arriving: BTreeMap<Ticket, (Seid, PendingReports)>,
    imported: VecDeque<(Seid, Result<(), Refusal>)>,
    /// Whether another process is about to go on with everything: peers hear nothing from here any more.
    is_handing_over: bool,
}

impl Endpoint {
    /// From now on nothing is received, and nothing is sent, so that another process can go on with the sessions and
    /// peers only see requests that they have to repeat (TS 29.244 §6.4).
    pub fn begin_hand_over(&mut self) {
        self.transfers.is_handing_over = true;
    }

    /// Another process will not go on: this one does. The records of sessions that left are to be imported again.
    pub fn end_hand_over(&mut self) {
        self.transfers.is_handing_over = false;
    }

    /// Another process goes on with everything: associations are forgotten here, and their peers hear nothing of it. What
    /// was on its way of sessions that are gone has not been taken by anybody.
    pub fn handed_over(&mut self, now: Nanos) {
        self.begin_hand_over();
        self.is_ending = true;
        self.setups.stop();
        let all: Vec<_> = self.associations.iter().map(|one| one.id).collect();
        for id in all {
            let sessions = self.sessions.sessions_of(id);
            self.drop_association(now, id, (AssociationEnd::HandedOver, sessions));
        }
        self.forget_last_usage(now);
        self.transmits.clear();
    }

    /// Whether another process is about to go on.
    pub(crate) fn is_handing_over(&self) -> bool {
        self.transfers.is_handing_over
    }

    /// The records of the node itself and of the applications that it knows: to be imported before all others.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn export_node(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        let node = NodeRecord {
            node: octets_of(&self.config.node),
            recovery_unix: self.config.recovery_unix,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let applications = self.pfds.all().map(|(id, flows)| ApplicationRecord {
            id: id.to_vec(),
            flows: flows.iter().map(ToString::to_string).collect(),
        });
        let applications = applications.map(|application| application.encode());
        std::iter::once(node.encode()).chain(applications).collect()
    }

    /// Goes on as the node whose record it is: with its Recovery Time Stamp, so that peers see no restart.
    fn import_node(&mut self, record: &NodeRecord) -> Result<u64, ImportError> {
        let node = node_of(&record.node)?;
        if node != self.config.node {
            return Err(ImportError::OtherNode(node));
        }
        if self.associations.len() > 0 {
            return Err(ImportError::TooLate);
        }
        self.config.recovery_unix = record.recovery_unix;
        Ok(record.recovery_unix)
    }

    fn import_application(&mut self, record: ApplicationRecord) -> Result<Vec<u8>, ImportError> {
        if record.flows.len() > MOST_FLOWS {
            return Err(RecordError::Malformed("flow descriptions").into());
        }
        let parse = |text: &String| FlowDescription::parse(text.as_bytes());
        let flows: Result<Vec<_>, _> = record.flows.iter().map(parse).collect();
        let flows = flows.map_err(|_| RecordError::Malformed("flow description"))?;
        if !self.pfds.set(&record.id, flows.into()) {
            return Err(ImportError::TooManyApplications);
        }
        Ok(record.id)
    }

    /// The records of all associations: to be imported before those of their sessions.
    ///
    /// # Errors
    /// [`RecordError::TooLong`].
    pub fn export_associations(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        self.associations
            .iter()
            .map(|one| record_of(one).encode())
            .collect()
    }

    /// Makes a record of a session, told by [`poll_exported`](Self::poll_exported).
    pub fn export(&mut self, now: Nanos, seid: Seid, how: Export) {
        let ticket = self.new_ticket();
        self.transfers.leaving.insert(ticket, seid);
        self.sessions.export(now, ticket, seid, how);
        self.settle(now);
    }

    /// Makes records of all sessions, told one by one by [`poll_exported`](Self::poll_exported) in about the order of
    /// their SEIDs. Of sessions that are set up meanwhile some are left out: no new ones should come.
    pub fn export_all(&mut self, now: Nanos, how: Export) {
        self.transfers.all = Some((None, how));
        self.advance_exports(now);
    }

    /// What came of an export. A few are under way at a time: the rest waits until these are taken.
    pub fn poll_exported(&mut self, now: Nanos) -> Option<Exported> {
        self.advance_exports(now);
        self.transfers.exported.pop_front()
    }

    /// Whether more will come of [`poll_exported`](Self::poll_exported).
    pub fn is_exporting(&self) -> bool {
        let Transfers {
            all,
            leaving,
            exported,
            ..
        } = &self.transfers;
        all.is_some() || !leaving.is_empty() || !exported.is_empty()
    }

    fn advance_exports(&mut self, now: Nanos) {
        while let Some((after, how)) = self.transfers.all
            && self.transfers.leaving.len() + self.transfers.exported.len() < WINDOW
        {
            let next = self.sessions.page(after).next().map(|session| session.seid());
            self.transfers.all = next.map(|seid| (Some(seid), how));
            if let Some(seid) = next {
                self.export(now, seid, how);
            }
        }
    }

    /// Takes in what the first record of `octets` is of. Gives what it becomes, and the octets behind it.
    ///
    /// # Errors
    /// Why it becomes nothing.
    pub fn import<'o>(&mut self, now: Nanos, octets: &'o [u8]) -> Result<(Imported, &'o [u8]), ImportError> {
        let (record, rest) =
            Record::decode(octets, frame(&self.network, &self.config, self.sessions.wall()))?;
        let imported = match record {
            Record::Association(record) => Imported::Association(self.import_association(now, *record)?),
            Record::Node(record) => Imported::Node(self.import_node(&record)?),
            Record::Application(record) => Imported::Application(self.import_application(*record)?),
            Record::Session(record) => {
                let node = node_of(&record.association)?;
                let association = self.associations.by_node(&node).map(|one| one.id);
                let association = association.ok_or(ImportError::NoAssociation(node))?;
                let ticket = self.new_ticket();
                let taken = self.sessions.import(now, ticket, association, &record);
                taken.map_err(ImportError::Session)?;
                self.transfers
                    .arriving
                    .insert(ticket, (record.seid, record.pending));
                self.settle(now);
                Imported::Session(record.seid)
            }
        };
        Ok((imported, rest))
    }

    /// A session of an [`import`](Self::import) that is live now, or that its worker could not take.
    pub fn poll_imported(&mut self) -> Option<(Seid, Result<(), Refusal>)> {
        self.transfers.imported.pop_front()
    }

    fn import_association(&mut self, now: Nanos, record: AssociationRecord) -> Result<NodeName, ImportError> {
        let AssociationRecord {
            node,
            recovery,
            features,
            peer,
            others,
            set,
            local,
        } = record;
        let node = node_of(&node)?;
        if self.associations.by_node(&node).is_some() {
            return Ok(node);
        }
        if self.associations.len() >= self.config.max_associations {
            return Err(ImportError::TooManyAssociations);
        }
        let id = self.associations.id_for(&node);
        let verified = self.begins_verified(now, peer.ip());
        self.associations.put(Association {
            id,
            node: node.clone(),
            recovery: RecoveryTimeStamp(recovery),
            features: CpFunctionFeatures::from_bits(features),
            peer,
            others,
            set,
            local,
            // That matters for nothing but who has to make room first: from now on it is ours.
            since: now,
            reachable: true,
            verified,
            is_asked: false,
            knows: Default::default(),
        });
        // Nobody is asked for an association that there is: it would be a new one, and its sessions would end.
        if let Some(association) = self.associations.get(id) {
            self.setups.associated(association);
        }
        self.share_out();
        if let Some(interval) = self.config.heartbeat_interval {
            self.heartbeats.push_back((now + interval, id));
        }
        Ok(node)
    }

    /// A request of ours on a session has come to its end.
    pub(crate) fn transferred(&mut self, now: Nanos, outcome: Outcome) {
        let ticket = outcome.ticket;
        if let Some(seid) = self.transfers.leaving.remove(&ticket) {
            let record = match outcome.result {
                Ok(done) => self.finish_record(done),
                Err(refusal) => Err(ExportError::Refused(refusal)),
            };
            self.transfers.exported.push_back(Exported { seid, record });
        } else if let Some((seid, pending)) = self.transfers.arriving.remove(&ticket) {
            let result = outcome.result.map(drop);
            if result.is_ok() {
                self.note_applications(seid);
                self.report_pending(now, seid, pending);
            }
            self.transfers.imported.push_back((seid, result));
        }
    }

    /// Adds to a record what the endpoint knows.
    fn finish_record(&mut self, done: Done) -> Result<Vec<u8>, ExportError> {
        let (owner, mut record) = done.record.ok_or(ExportError::Refused(Refusal::NotFound))?;
        record.pending = pending_of(self.reports.unsaid(record.seid));
        if self.sessions.session(record.seid).is_none() {
            self.reports.end(record.seid);
        }
        let owner = self.associations.get(owner).map(|one| octets_of(&one.node));
        record.association = owner.ok_or(ExportError::Refused(Refusal::Gone))?;
        let frame = frame(&self.network, &self.config, self.sessions.wall());
        record.encode(frame).map_err(ExportError::Record)
    }

    /// What was to be reported of a session before it came here.
    fn report_pending(&mut self, now: Nanos, seid: Seid, pending: PendingReports) {
        let known = self.sessions.session(seid);
        if let Some(association) = known.map(|session| session.association()) {
            self.reports.restore(now, (seid, association), events_of(pending));
            self.send_reports(now);
        }
    }
}

fn frame<'a>(network: &'a Network, config: &'a Config, wall: &'a WallClock) -> Frame<'a> {
    Frame {
        network,
        predefined: &config.sessions.predefined,
        wall,
    }
}

fn pending_of(events: Events) -> PendingReports {
    let Events {
        downlink,
        inactive,
        errors,
        usage,
        settled: _,
        queries,
    } = events;
    let mark = |DownlinkData {
                    pdr,
                    ppi,
                    qfi,
                    status,
                }| DownlinkMark {
        pdr,
        ppi,
        qfi,
        status,
    };
    PendingReports {
        usage,
        queries: queries
            .into_iter()
            .map(|(urr, sequence, query)| (urr, sequence, query.0))
            .collect(),
        downlink: downlink.into_iter().map(mark).collect(),
        errors,
        inactive,
    }
}

fn events_of(pending: PendingReports) -> Events {
    let PendingReports {
        usage,
        queries,
        downlink,
        errors,
        inactive,
    } = pending;
    let data = |DownlinkMark {
                    pdr,
                    ppi,
                    qfi,
                    status,
                }| DownlinkData {
        pdr,
        ppi,
        qfi,
        status,
    };
    Events {
        downlink: downlink.into_iter().map(data).collect(),
        inactive,
        errors,
        settled: usage.len(),
        queries: queries
            .into_iter()
            .map(|(urr, sequence, query)| (urr, sequence, QueryUrrReference(query)))
            .collect(),
        usage,
    }
}

fn record_of(association: &Association) -> AssociationRecord {
    let Association {
        id: _,
        node,
        recovery,
        features,
        peer,
        others,
        set,
        local,
        // What is found out anew.
        since: _,
        reachable: _,
        verified: _,
        is_asked: _,
        knows: _,
    } = association;
    AssociationRecord {
        node: octets_of(node),
        recovery: recovery.0,
        features: features.bits(),
        peer: *peer,
        others: others.clone(),
        set: set.clone(),
        local: *local,
    }
}

/// The octets of a Node ID (TS 29.244 §8.2.38): its type, then its value.
fn octets_of(node: &NodeName) -> Vec<u8> {
    let with_type = |number: u8, value: &[u8]| [&[number], value].concat();
    match node {
        NodeName::Ipv4(address) => with_type(0, &address.octets()),
        NodeName::Ipv6(address) => with_type(1, &address.octets()),
        NodeName::Fqdn(labels) => with_type(2, labels),
    }
}

fn node_of(octets: &[u8]) -> Result<NodeName, RecordError> {
    let node = NodeId::decode(octets).ok().and_then(NodeName::of);
    node.ok_or(RecordError::Malformed("Node ID"))
}
