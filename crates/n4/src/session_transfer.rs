//! Session transfer: export of associations and sessions to another process, and import from one, as records
//! ([`session::SessionRecord`]).
//!
//! An endpoint adds to a session's record what only it knows: the association by its Node ID, and the reports that the
//! control plane has not acknowledged. They keep their UR-SEQNs: one that was on its way is sent again by the process
//! that has the session next, and the control plane knows it by its number. Answers that were kept for retransmissions,
//! and how long a control plane wants no word of downlink packets, do not go along.

use flow::Nanos;
use pfcp::ie::{CpFunctionFeatures, QueryUrrReference, RecoveryTimeStamp};
use rules::network::Network;
use session::{
    AnsweredQuery, ApplicationRecord, AssociationRecord, Done, DownlinkMark, Export, Frame, NodeRecord,
    Outcome, PendingReports, Record, RecordError, Refusal, Seid, SessionProgress, SessionRecord, Sessions,
    Ticket, WallClock,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::association::Association;
use crate::association_control::AssociationControl;
use crate::config::Config;
use crate::endpoint_state::Shared;
use crate::node::NodeName;
use crate::node_records::{application_records, node_of, node_record, octets_of, record_of};
use crate::pfd_management::{self, PfdManagement};
use crate::pfds::Pfds;
use crate::report_outbox::{DownlinkData, Events, QueriedReport, RemoteTunnel, ReportOutbox};
use crate::session_reports::SessionReports;

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
    /// A session, once its worker has it: given by [`Endpoint::poll_imported`](crate::Endpoint::poll_imported).
    Session(Seid),
    /// This node continues as that which wrote the record, with its Recovery Time Stamp: seconds since 1970.
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
    /// Peers have received the Recovery Time Stamp of this process.
    TooLate,
    /// The records are those of another node.
    OtherNode(NodeName),
    /// There are as many applications as there may be.
    TooManyApplications,
    /// The session has no place here.
    Session(session::ImportError),
    /// The record cannot be read from the store.
    Unreadable,
    /// The record is damaged in the store.
    Damaged,
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
            ImportError::Unreadable => f.write_str("its record cannot be read from the store"),
            ImportError::Damaged => f.write_str("its record is damaged in the store"),
        }
    }
}

impl core::error::Error for ImportError {}

impl From<RecordError> for ImportError {
    fn from(error: RecordError) -> ImportError {
        ImportError::Record(error)
    }
}

/// An export of all sessions.
#[derive(Clone, Copy, Debug)]
struct ExportOfAll {
    /// It continues with the SEID behind this one.
    after: Option<Seid>,
    how: Export,
}

/// Records under way.
#[derive(Debug, Default)]
pub(crate) struct SessionTransfer {
    all: Option<ExportOfAll>,
    leaving: BTreeMap<Ticket, Seid>,
    exported: VecDeque<Exported>,
    /// Sessions that have yet to be confirmed, with what is to be reported of them then.
    arriving: BTreeMap<Ticket, (Seid, PendingReports)>,
    imported: VecDeque<(Seid, Result<(), Refusal>)>,
    /// Whether another process is about to take over: nothing is received or sent any more.
    pub(crate) is_transferring: bool,
}

impl SessionTransfer {
    /// Begins to make a record of a session.
    pub(crate) fn begin_export(&mut self, shared: &mut Shared, now: Nanos, seid: Seid, how: Export) {
        let ticket = shared.new_ticket();
        self.leaving.insert(ticket, seid);
        shared.sessions.export(now, ticket, seid, how);
    }

    /// Begins to make records of all sessions; each is given by [`next_export`](Self::next_export).
    pub(crate) fn export_all(&mut self, how: Export) {
        self.all = Some(ExportOfAll { after: None, how });
    }

    /// The next session whose export is to begin, while few are under way.
    pub(crate) fn next_export(&mut self, sessions: &Sessions) -> Option<(Seid, Export)> {
        let ExportOfAll { after, how } = self.all?;
        if self.leaving.len() + self.exported.len() >= WINDOW {
            return None;
        }
        let next = sessions.page(after).next().map(|session| session.seid());
        self.all = next.map(|seid| ExportOfAll {
            after: Some(seid),
            how,
        });
        next.map(|seid| (seid, how))
    }

    pub(crate) fn poll_exported(&mut self) -> Option<Exported> {
        self.exported.pop_front()
    }

    /// Whether workers have yet to take sessions that were imported or restored.
    pub(crate) fn is_importing(&self) -> bool {
        !self.arriving.is_empty()
    }

    pub(crate) fn poll_imported(&mut self) -> Option<(Seid, Result<(), Refusal>)> {
        self.imported.pop_front()
    }

    /// Whether [`poll_exported`](Self::poll_exported) will give more.
    pub(crate) fn is_exporting(&self) -> bool {
        self.all.is_some() || !self.leaving.is_empty() || !self.exported.is_empty()
    }

    /// Imports the first record of `octets`. Gives what it has become, and the octets behind it.
    ///
    /// # Errors
    /// Why it is not imported.
    pub(crate) fn import<'o>(
        &mut self,
        shared: &mut Shared,
        control: &mut AssociationControl,
        pfds: &mut Pfds,
        now: Nanos,
        octets: &'o [u8],
    ) -> Result<(Imported, &'o [u8]), ImportError> {
        let (record, rest) = Record::decode(
            octets,
            frame(&shared.network, &shared.config, shared.sessions.wall()),
        )?;
        let imported = match record {
            Record::Association(record) => {
                Imported::Association(import_association(shared, control, now, *record)?)
            }
            Record::Node(record) => Imported::Node(import_node(shared, &record)?),
            Record::Application(record) => Imported::Application(import_application(pfds, *record)?),
            Record::Session(record) => {
                Imported::Session(self.import_session(shared, pfds, now, (*record, false))?)
            }
            Record::Response(_) => return Err(RecordError::Malformed("response").into()),
            Record::Usage(_) => return Err(RecordError::Malformed("usage").into()),
        };
        Ok((imported, rest))
    }

    /// Takes a session up from its record in the store, and what was counted since. Its meters hold nothing.
    ///
    /// # Errors
    /// Why it is not taken up.
    pub(crate) fn restore(
        &mut self,
        shared: &mut Shared,
        pfds: &Pfds,
        now: Nanos,
        (record, progress): (&[u8], Option<&[u8]>),
    ) -> Result<Seid, ImportError> {
        let wall = shared.sessions.wall();
        let (record, _) = Record::decode(record, frame(&shared.network, &shared.config, wall))?;
        let Record::Session(mut record) = record else {
            return Err(RecordError::Malformed("session").into());
        };
        if let Some(octets) = progress {
            record.advance(&SessionProgress::decode(octets, wall)?);
        }
        record.empty_meters(now);
        self.import_session(shared, pfds, now, (*record, true))
    }

    fn import_session(
        &mut self,
        shared: &mut Shared,
        pfds: &Pfds,
        now: Nanos,
        (mut record, is_stored): (SessionRecord, bool),
    ) -> Result<Seid, ImportError> {
        pfd_management::renew(&mut record.rules, pfds);
        let node = node_of(&record.association)?;
        let association = shared.associations.by_node(&node).map(|one| one.id);
        let association = association.ok_or(ImportError::NoAssociation(node))?;
        let ticket = shared.new_ticket();
        let taken = match is_stored {
            true => shared.sessions.restore(now, ticket, association, &record),
            false => shared.sessions.import(now, ticket, association, &record),
        };
        taken.map_err(ImportError::Session)?;
        let response = record.pending.response.take();
        if let Some(response) = response.filter(|one| one.unix_ms >= shared.oldest_response_ms(now)) {
            shared.transactions.restore(now, &response);
            shared.kept_responses.keep_live(now, record.seid, response);
        }
        self.arriving.insert(ticket, (record.seid, record.pending));
        Ok(record.seid)
    }

    /// A request of ours on a session has come to its end.
    pub(crate) fn transferred(
        &mut self,
        shared: &mut Shared,
        reports: &mut SessionReports,
        pfds: &mut PfdManagement,
        now: Nanos,
        outcome: Outcome,
    ) {
        let ticket = outcome.ticket;
        if let Some(seid) = self.leaving.remove(&ticket) {
            let record = match outcome.result {
                Ok(done) => finish_record(shared, &mut reports.outbox, done),
                Err(refusal) => Err(ExportError::Refused(refusal)),
            };
            self.exported.push_back(Exported { seid, record });
        } else if let Some((seid, pending)) = self.arriving.remove(&ticket) {
            let result = outcome.result.map(drop);
            if result.is_ok() {
                pfds.arrived(shared, now, seid);
                report_pending(shared, reports, now, seid, pending);
            }
            self.imported.push_back((seid, result));
        }
    }
}

/// The records of the node itself and of the applications that it knows: to be imported before all others.
///
/// # Errors
/// [`RecordError::TooLong`].
pub(crate) fn export_node(shared: &Shared, pfds: &Pfds) -> Result<Vec<Vec<u8>>, RecordError> {
    let node = node_record(&shared.config).encode();
    let applications = application_records(pfds).map(|application| application.encode());
    std::iter::once(node).chain(applications).collect()
}

/// Continues as the node whose record it is: with its Recovery Time Stamp, so that peers see no restart.
fn import_node(shared: &mut Shared, record: &NodeRecord) -> Result<u64, ImportError> {
    let node = node_of(&record.node)?;
    if node != shared.config.node {
        return Err(ImportError::OtherNode(node));
    }
    if shared.associations.len() > 0 {
        return Err(ImportError::TooLate);
    }
    shared.config.recovery_unix = record.recovery_unix;
    Ok(record.recovery_unix)
}

fn import_application(pfds: &mut Pfds, record: ApplicationRecord) -> Result<Vec<u8>, ImportError> {
    match pfds.restore(&record) {
        Some(true) => Ok(record.id),
        Some(false) => Err(ImportError::TooManyApplications),
        None => Err(RecordError::Malformed("PFD").into()),
    }
}

/// The records of all associations: to be imported before those of their sessions.
///
/// # Errors
/// [`RecordError::TooLong`].
pub(crate) fn export_associations(shared: &Shared) -> Result<Vec<Vec<u8>>, RecordError> {
    shared
        .associations
        .iter()
        .map(|one| record_of(one).encode())
        .collect()
}

fn import_association(
    shared: &mut Shared,
    control: &mut AssociationControl,
    now: Nanos,
    record: AssociationRecord,
) -> Result<NodeName, ImportError> {
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
    if shared.associations.by_node(&node).is_some() {
        return Ok(node);
    }
    if shared.associations.len() >= shared.config.max_associations {
        return Err(ImportError::TooManyAssociations);
    }
    let id = shared.associations.id_for(&node);
    let verified = control.sources.begins_verified(&shared.config, now, peer.ip());
    shared.associations.put(Association {
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
        sent_load: Default::default(),
    });
    // No setup is requested for an association that there is: it would be a new one, and its sessions would end.
    if let Some(association) = shared.associations.get(id) {
        control.setups.associated(association);
    }
    control.associations_changed(shared);
    if let Some(interval) = shared.config.heartbeat_interval {
        control.heartbeats.start(now + interval, id);
    }
    Ok(node)
}

/// Adds to a record what the endpoint knows.
fn finish_record(shared: &mut Shared, outbox: &mut ReportOutbox, done: Done) -> Result<Vec<u8>, ExportError> {
    let (owner, mut record) = done.record.ok_or(ExportError::Refused(Refusal::NotFound))?;
    record.pending = pending_of(outbox.unsaid(record.seid));
    if shared.sessions.session(record.seid).is_none() {
        outbox.end(record.seid);
    }
    let owner = shared.associations.get(owner).map(|one| octets_of(&one.node));
    record.association = owner.ok_or(ExportError::Refused(Refusal::Gone))?;
    let frame = frame(&shared.network, &shared.config, shared.sessions.wall());
    record.encode(frame).map_err(ExportError::Record)
}

/// What was to be reported of a session before it came here.
fn report_pending(
    shared: &mut Shared,
    reports: &mut SessionReports,
    now: Nanos,
    seid: Seid,
    pending: PendingReports,
) {
    let known = shared.sessions.session(seid);
    if let Some(association) = known.map(|session| session.association()) {
        reports.outbox.restore(now, seid, association, events_of(pending));
        reports.send_reports(shared, now);
    }
}

fn frame<'a>(network: &'a Network, config: &'a Config, wall: &'a WallClock) -> Frame<'a> {
    Frame {
        network,
        predefined: &config.sessions.predefined,
        wall,
    }
}

pub(crate) fn pending_of(events: Events) -> PendingReports {
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
            .map(|one| AnsweredQuery {
                urr: one.urr,
                sequence: one.sequence,
                query: one.query.0,
            })
            .collect(),
        downlink: downlink.into_iter().map(mark).collect(),
        errors: errors.into_iter().map(|one| (one.peer, one.teid)).collect(),
        inactive,
        response: None,
    }
}

fn events_of(pending: PendingReports) -> Events {
    let PendingReports {
        usage,
        queries,
        downlink,
        errors,
        inactive,
        response: _,
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
        errors: errors
            .into_iter()
            .map(|(peer, teid)| RemoteTunnel { peer, teid })
            .collect(),
        settled: usage.len(),
        queries: queries
            .into_iter()
            .map(|one| QueriedReport {
                urr: one.urr,
                sequence: one.sequence,
                query: QueryUrrReference(one.query),
            })
            .collect(),
        usage,
    }
}
