//! The PFCP endpoint of a user plane function: datagrams and time in, datagrams and effects out.
//!
//! Owned by control. It composes the parts of N4, each with its own state, and routes to them: messages by type,
//! responses by the purpose of the request, outcomes of the sessions by ticket. The checks of a received message are
//! made in the order of TS 29.244 §7.6: header, version, length, type, then retransmission, then IEs, then association,
//! then session.

mod keeping;
mod reconfiguration;
mod transfer;
use flow::{Bucket, ContentUsage, Nanos, OpId, SessionIndex, WorkerId};
use nat::pools::BlockId;
use packet::Teid;
use pfcp::message::Message;
use pfcp::{Frame, Frames, Header, HeaderError, Interfaces, MessageType};
use rules::Adjacencies;
use rules::image::UsageSnapshot;
use rules::model::{FarId, PdrId, UrrId};
use rules::network::Network;
use session::PortBlockEvent;
use session::{
    AssociationId, CounterReached, Effect, Export, GtpuPath, MoveFault, Moved, NatPoolStatus, Outcome,
    PathChange, Random, Seid, Sessions, SharedRate, Unreported, WallChange, WorkerFault,
};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::absent_lists::AbsentLists;
use crate::association::{Association, Associations};
use crate::association_control::AssociationControl;
use crate::association_release::AssociationRelease;
use crate::cause::Reject;
use crate::config::Config;
use crate::datagram::Transmit;
use crate::datagram_counters::Counters;
use crate::endpoint_state::Shared;
use crate::event_log::{EventLog, LogEvent};
use crate::journal::Journal;
use crate::kept_responses::KeptResponses;
use crate::kept_usage::KeptUsage;
use crate::load::Load;
use crate::message_counters::MessageCounters;
use crate::node_reports::NodeReports;
use crate::own_requests::Purpose;
use crate::path_supervision::Echo;
use crate::pending_requests::PendingRequests;
use crate::pfd_management::PfdManagement;
use crate::pfds::ApplicationSummary;
use crate::report_outbox::{DownlinkData, SessionEvent};
use crate::reporting::Reporting;
use crate::restoring::{Restoring, Service};
use crate::session_procedures::SessionProcedures;
use crate::session_reports::{SessionReports, verdict};
use crate::session_sets::{serve_set_deletion, serve_set_modification};
use crate::session_transfer::{ImportError, SessionTransfer};
use crate::transactions::{Limits, Path, Received, Request, Seeds, Transactions};
use crate::usage_record_owners::{UnacceptedUsage, UsageEntry, UsageRecordOwners};

/// The endpoint.
pub struct Endpoint {
    shared: Shared,
    absent: AbsentLists,
    failed_restorations: VecDeque<(Seid, ImportError)>,
    control: AssociationControl,
    reporting: Reporting,
    pfds: PfdManagement,
    session_transfer: SessionTransfer,
}

impl Endpoint {
    /// An endpoint without associations. `random` decides every identifier and every hash.
    pub fn new(
        config: Config,
        network: Arc<Network>,
        adjacencies: Box<dyn Adjacencies + Send>,
        mut random: Random,
    ) -> Endpoint {
        let [a, b, c, d, e, f] = [0; 6].map(|_: u64| random.next_u64());
        let sessions = session::Config {
            clock_unix: config.clock_unix,
            ..config.sessions.clone()
        };
        let seeds = Seeds {
            responses: a,
            requests: b,
            digests: e,
            sequence: random.next_u32(),
        };
        let limits = Limits {
            response_cache_octets: config.response_cache_octets,
            response_cache_age: config.response_cache_age,
            t1: config.t1,
            n1: config.n1,
        };
        Endpoint {
            absent: AbsentLists::default(),
            failed_restorations: VecDeque::new(),
            control: AssociationControl::new(&config, e.rotate_left(32)),
            reporting: Reporting {
                sessions: SessionReports::new(d, f, config.reports),
                nodes: NodeReports::new(&config),
            },
            pfds: PfdManagement::new(c.rotate_left(32), &config.applications),
            session_transfer: SessionTransfer::default(),
            shared: Shared {
                sessions: Sessions::new(sessions, Arc::clone(&network), adjacencies, random.split()),
                associations: Associations::default(),
                transactions: Transactions::new(&seeds, &limits),
                pending: PendingRequests::new(c),
                load: Load::new(config.recovery_unix),
                usage_record_owners: UsageRecordOwners::default(),
                log: EventLog::default(),
                journal: Journal::default(),
                kept_responses: KeptResponses::new(f.rotate_left(16), config.response_cache_age),
                kept_usage: KeptUsage::default(),
                keeping_fails: false,
                is_restoring: false,
                counters: Counters::default(),
                last_ticket: 0,
                refuses_sessions: false,
                network,
                config,
            },
        }
    }

    /// A datagram has come from `from`, at our address `to` (that which the sender used, not a wildcard).
    pub fn handle_datagram(&mut self, now: Nanos, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        if self.session_transfer.is_transferring {
            return;
        }
        self.shared.counters.datagrams += 1;
        let path = Path { from, to };
        for frame in Frames::new(datagram) {
            match frame {
                Ok(frame) => self.handle_message(now, path, &frame),
                Err(error) => self.handle_header_error(now, path, error, datagram),
            }
        }
        self.settle(now);
    }

    /// To be called when [`poll_timeout`](Endpoint::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.shared.sessions.handle_timeout(now);
        if self.session_transfer.is_transferring {
            return self.settle(now);
        }
        let (retransmitted, failed) = self.shared.transactions.handle_timeout(now);
        self.shared.counters.retransmissions += retransmitted as u64;
        for purpose in failed {
            self.handle_failed_request(now, purpose);
        }
        self.control.setups.handle_timeout(&mut self.shared, now);
        self.association_release().end_releases(now);
        self.pfds.follow_pfds(&mut self.shared, now);
        self.control.heartbeats.handle_timeout(&mut self.shared, now);
        self.reporting.sessions.handle_timeout(&mut self.shared, now);
        self.reporting.nodes.supervise(&mut self.shared, now);
        self.settle(now);
    }

    /// When [`handle_timeout`](Endpoint::handle_timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        [
            self.shared.sessions.poll_timeout(),
            self.shared.transactions.requests().poll_timeout(),
            self.reporting.sessions.poll_timeout(),
            self.reporting.nodes.poll_timeout(),
            self.control.poll_timeout(),
            self.pfds.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.session_transfer.is_transferring {
            return None;
        }
        let changes = self.shared.changes();
        let next = self.shared.transactions.poll_transmit(changes)?;
        self.shared.counters.bundles += u64::from(next.is_bundle);
        Some(next.transmit)
    }

    /// The next command for a worker; see [`Effect`].
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.shared.sessions.poll_effect()
    }

    /// A worker has confirmed an operation of an [`Effect`].
    pub fn handle_applied(
        &mut self,
        now: Nanos,
        op: OpId,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        self.shared.sessions.applied(now, op, result);
        self.settle(now);
    }

    /// Moves a bucket of sessions to another worker; see [`Sessions::move_bucket`].
    ///
    /// # Errors
    /// When the move cannot begin.
    pub fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        let begun = self.shared.sessions.move_bucket(now, bucket, to);
        self.settle(now);
        begun
    }

    /// What came of a move.
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.shared.sessions.poll_moved()
    }

    /// A rate that sessions have in common, and that has changed; see [`Sessions::poll_shared_rate`].
    pub fn poll_shared_rate(&mut self) -> Option<SharedRate> {
        self.shared.sessions.poll_shared_rate()
    }

    /// Ends all associations, in order as far as [`Config::release_wait`](crate::Config::release_wait) allows. None
    /// begins from now on.
    pub fn end(&mut self, now: Nanos) {
        self.control.stop();
        for id in self.shared.associations.ids() {
            self.association_release().announce_release(now, id);
        }
        self.settle(now);
    }

    /// Whether no association is left.
    pub fn has_ended(&self) -> bool {
        self.shared.associations.len() == 0
    }

    /// Refuses new sessions with cause 75 (No resources available), or takes them again.
    pub fn refuse_new_sessions(&mut self, refused: bool) {
        self.shared.refuses_sessions = refused;
    }

    /// The load of control, 0 to 100 per cent: up to 80 the share of time in which its thread has work, above that what
    /// waits for it, as its caller measures. Default 0.
    pub fn set_load(&mut self, percent: u8) {
        self.shared.load.set_given(percent);
    }

    /// What has happened on N4, for a log, and how many of its kind were left out since the last of them.
    pub fn poll_log(&mut self, now: Nanos) -> Option<(LogEvent, u64)> {
        self.shared.log.poll(now)
    }

    /// The next usage report or end of a session, if [`session::Config::usage_records`] asks for them.
    pub fn poll_usage(&mut self) -> Option<UsageEntry> {
        self.shared.poll_usage()
    }

    /// Usage reports that control planes have not accepted since the last call, whether or not usage records are kept.
    pub fn take_unaccepted_usage(&mut self) -> Option<UnacceptedUsage> {
        self.shared.usage_record_owners.take_unaccepted()
    }

    /// Something has happened to a session that is to be reported. An unknown session is passed over: it has just
    /// ended.
    pub fn handle_session_event(&mut self, now: Nanos, session: SessionIndex, event: SessionEvent) {
        let reports = &mut self.reporting.sessions;
        reports.handle_session_event(&mut self.shared, now, session, event);
    }

    /// A worker has received the first downlink packet of a QoS flow for a FAR of this session that buffers and
    /// `notifies` (NOCP); or the first one of a PDR whose delivery status is reported (BDPN, DDPN), or both.
    pub fn handle_downlink_data(
        &mut self,
        now: Nanos,
        session: SessionIndex,
        far: FarId,
        notifies: bool,
        data: DownlinkData,
    ) {
        let reports = &mut self.reporting.sessions;
        reports.handle_downlink_data(&mut self.shared, now, session, far, notifies, data);
    }

    /// A GTP-U Error Indication was received: `peer` has no tunnel `teid` any more. It is reported to the session's
    /// control plane (TS 29.281 §7.3.1, TS 29.244 §7.5.8.4).
    pub fn handle_error_indication(&mut self, now: Nanos, peer: IpAddr, teid: Teid) {
        let reports = &mut self.reporting.sessions;
        reports.handle_error_indication(&mut self.shared, now, peer, teid);
    }

    /// A URR's counter has reached one of its bounds, in the session's worker (TS 29.244 §5.2.2.3).
    pub fn handle_counter_reached(&mut self, now: Nanos, session: SessionIndex, event: CounterReached) {
        self.shared.sessions.counter_reached(now, session, event);
        self.settle(now);
    }

    /// An End Marker has come for a PDR whose URRs report it (TS 29.244 §5.2.2.5).
    pub fn handle_end_marker(&mut self, now: Nanos, session: SessionIndex, pdr: PdrId) {
        self.shared.sessions.end_marker_received(session, pdr);
        self.settle(now);
    }

    /// The node downstream of a session has started a Pause of Charging (TS 29.244 §5.30).
    pub fn handle_pause_of_charging(&mut self, now: Nanos, session: SessionIndex) {
        let ticket = self.shared.new_ticket();
        self.shared.sessions.pause_charging(now, ticket, session);
        self.settle(now);
    }

    /// A session's worker lacks public ports for it.
    pub fn handle_port_block_wanted(&mut self, now: Nanos, session: SessionIndex) {
        self.shared.sessions.port_block_wanted(now, session);
        self.settle(now);
    }

    /// The next port block that a session got or gave back, if [`session::Config::port_block_log`] asks for them.
    pub fn poll_port_block_event(&mut self) -> Option<PortBlockEvent> {
        self.shared.sessions.poll_port_block_event()
    }

    /// A session's worker needs a port block of it no more.
    pub fn handle_port_block_returned(&mut self, now: Nanos, session: SessionIndex, block: BlockId) {
        self.shared.sessions.port_block_returned(now, session, block);
        self.settle(now);
    }

    /// What sessions have of each pool of public addresses, by its number.
    pub fn nat_status(&mut self, now: Nanos) -> Vec<NatPoolStatus> {
        self.shared.sessions.nat_status(now)
    }

    /// The dropped downlink packets of a URR have reached its threshold (TS 29.244 §5.2.2.2.1).
    pub fn handle_dropped_reached(&mut self, now: Nanos, session: SessionIndex, urr: UrrId) {
        self.shared.sessions.dropped_reached(session, urr);
        self.settle(now);
    }

    /// What a session's worker has counted of a content of predefined rules since the last event.
    pub fn handle_content_counted(&mut self, session: SessionIndex, usage: ContentUsage) {
        self.shared.sessions.content_counted(session, usage);
    }

    /// The next Echo Request to send.
    pub fn poll_echo(&mut self) -> Option<Echo> {
        self.reporting.nodes.poll_echo()
    }

    /// A GTP-U path that came into use or went out of use, for workers to know. To be polled until there is none: they
    /// are kept until then.
    pub fn poll_path(&mut self) -> Option<PathChange> {
        self.reporting.nodes.poll_path()
    }

    /// A GTP-U peer has answered an Echo Request.
    pub fn handle_echo_response(&mut self, now: Nanos, path: GtpuPath, sequence: u16) {
        let nodes = &mut self.reporting.nodes;
        nodes.handle_echo_response(&mut self.shared, now, path, sequence);
    }

    /// Makes a record of a session, given by [`poll_exported`](Self::poll_exported).
    pub fn export(&mut self, now: Nanos, seid: Seid, how: Export) {
        self.session_transfer
            .begin_export(&mut self.shared, now, seid, how);
        self.settle(now);
    }

    /// The sessions, for views.
    pub fn sessions(&self) -> &Sessions {
        &self.shared.sessions
    }

    /// The applications that PDRs may name, for views.
    pub fn applications(&self) -> impl Iterator<Item = ApplicationSummary<'_>> {
        self.pfds.pfds.summaries()
    }

    /// What it was configured with, for views.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The host's clock says how many nanoseconds after 1970 `now` is, read with an uncertainty of `slack` nanoseconds:
    /// dates follow it ([`session::WallClock`]). Returns what has changed.
    pub fn follow_wall(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        self.shared.sessions.follow_wall(now, host_unix, slack)
    }

    /// The associations, for views, in the order of their numbers.
    pub fn associations(&self) -> impl Iterator<Item = &Association> {
        self.shared.associations.iter()
    }

    /// The association with this number, for views.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.shared.associations.get(id)
    }

    /// The reference points that an association's peer speaks over, for views.
    pub fn interfaces_of(&self, association: &Association) -> Interfaces {
        self.shared.config.interfaces_of(association.peer.ip())
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// What was counted of messages, by type and by cause.
    pub fn message_counters(&self) -> &MessageCounters {
        self.shared.transactions.messages()
    }

    /// Octets that kept answers take, about; and how many answers went early for want of room.
    pub fn response_cache(&self) -> (usize, u64) {
        let responses = self.shared.transactions.responses();
        (responses.octets(), responses.evicted())
    }

    /// Requests that peers wait for, and requests of ours that peers have yet to answer.
    pub fn outstanding(&self) -> (usize, usize) {
        let requests = self.shared.transactions.requests().len();
        (self.shared.pending.len(), requests)
    }

    /// GTP-U paths that do not answer Echo Requests, of those whose failure an association has received.
    pub fn failed_paths(&self) -> usize {
        self.reporting.nodes.failed_paths()
    }

    /// Sessions that have something to report now or later, or that have reported of late.
    pub fn reporting(&self) -> usize {
        self.reporting.sessions.len()
    }

    /// Whether a datagram from `from` is taken; what is not is counted.
    pub(crate) fn admits(&mut self, now: Nanos, from: SocketAddr, datagram: &[u8]) -> bool {
        self.control.admits(&mut self.shared, now, from, datagram)
    }

    /// Whether requests from this address can be those of a peer.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        self.shared.config.any_source || self.shared.associations.knows(address)
    }

    /// What one peer may have of what waits, per cent; `None` where there is one peer only.
    pub(crate) fn share_percent(&self) -> Option<usize> {
        let shared = &self.shared;
        shared.has_several_peers().then(|| shared.share_percent())
    }

    /// What the header check found (TS 29.244 §7.6.2 to §7.6.5).
    fn handle_header_error(&mut self, now: Nanos, path: Path, error: HeaderError, datagram: &[u8]) {
        match error {
            HeaderError::Version { sequence, .. } => {
                self.shared.counters.other_version += 1;
                let message_type = datagram.get(1).map(|octet| MessageType(*octet));
                if message_type != Some(MessageType::VERSION_NOT_SUPPORTED_RESPONSE) {
                    let header = Header::node(MessageType::VERSION_NOT_SUPPORTED_RESPONSE, sequence);
                    self.shared
                        .send(path, &header, &pfcp::message::VersionNotSupportedResponse::new());
                }
            }
            HeaderError::Length { header, .. } if is_served(header.message_type) => {
                self.shared.reject(
                    now,
                    path,
                    &header,
                    None,
                    Reject::of(pfcp::ie::Cause::INVALID_LENGTH),
                );
            }
            HeaderError::Length { header, .. } => {
                self.shared.counters.malformed += 1;
                self.handle_unreadable_response(now, path, &header);
            }
            HeaderError::TooShort { .. } => self.shared.counters.malformed += 1,
            HeaderError::UnknownType { .. } => self.shared.counters.unexpected += 1,
            HeaderError::NoSeid { .. } => self.shared.counters.malformed += 1,
        }
    }

    fn handle_message(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        self.shared
            .transactions
            .messages_mut()
            .received(frame.header.message_type);
        match frame.header.message_type {
            MessageType::HEARTBEAT_REQUEST => {
                self.control.heartbeats.serve(&mut self.shared, now, path, frame)
            }
            response @ (MessageType::HEARTBEAT_RESPONSE
            | MessageType::ASSOCIATION_SETUP_RESPONSE
            | MessageType::ASSOCIATION_UPDATE_RESPONSE
            | MessageType::NODE_REPORT_RESPONSE
            | MessageType::SESSION_REPORT_RESPONSE) => {
                self.handle_response(now, path, response, frame);
            }
            request if is_served(request) => self.handle_request(now, path, frame),
            _ => self.shared.counters.unexpected += 1,
        }
    }

    fn handle_request(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        // With its session a response comes back that a repeated request gets.
        if let Some(failed) = self.restoring().prepare_session(now, &frame.header) {
            self.failed_restorations.push_back(failed);
        }
        match self.shared.transactions.receive(now, path, frame) {
            Received::Responded => self.shared.counters.replayed += 1,
            Received::Pending => self.shared.counters.in_work += 1,
            Received::New(request) => {
                match Message::decode(frame) {
                    Ok(message) => self.restore_and_serve(now, request, &message),
                    Err(error) => {
                        let reject = Reject::from(error);
                        self.shared
                            .reject(now, path, &frame.header, cp_seid(frame), reject);
                    }
                }
                self.shared.transactions.end_serving();
            }
        }
    }

    /// Begins the procedure of a request that is new, once what it is about has come back from a store.
    fn restore_and_serve(&mut self, now: Nanos, request: Request, message: &Message<'_>) {
        match self.restoring().prepare(now, message) {
            Service::Now => self.serve(now, request, message),
            Service::WithoutSession(seid, error) => {
                self.failed_restorations.push_back((seid, error));
                self.serve(now, request, message);
            }
            Service::Later => self.shared.counters.in_work += 1,
        }
    }

    fn restoring(&mut self) -> Restoring<'_> {
        Restoring {
            shared: &mut self.shared,
            transfer: &mut self.session_transfer,
            pfds: &self.pfds.pfds,
            absent: &mut self.absent,
        }
    }

    /// Begins the procedure of a request that is new.
    fn serve(&mut self, now: Nanos, request: Request, message: &Message<'_>) {
        let (shared, control, reporting) = (&mut self.shared, &mut self.control, &mut self.reporting);
        match message {
            Message::AssociationSetupRequest(setup) => {
                control.serve_setup(shared, reporting, now, request, setup);
            }
            Message::AssociationUpdateRequest(update) => {
                if let Some(id) = control.serve_update(shared, now, request, update) {
                    self.association_release().prepare_release(now, id);
                }
            }
            Message::AssociationReleaseRequest(release) => {
                match shared.association_of(release.node_id, request.path) {
                    Ok(association) => control.serve_release(shared, reporting, now, request, association),
                    Err(reject) => shared.reject_request(now, request, reject),
                }
            }
            Message::PfdManagementRequest(pfds) => self.pfds.serve_pfds(shared, now, request, pfds),
            Message::SessionSetDeletionRequest(set) => serve_set_deletion(shared, now, request, set),
            Message::SessionSetModificationRequest(set) => serve_set_modification(shared, now, request, set),
            Message::SessionEstablishmentRequest(establishment) => {
                self.session_procedures()
                    .serve_establishment(now, request, establishment);
            }
            Message::SessionModificationRequest(modification) => {
                self.session_procedures()
                    .serve_modification(now, request, modification);
            }
            Message::SessionDeletionRequest(_) => self.session_procedures().serve_deletion(now, request),
            _ => shared.counters.unexpected += 1,
        }
    }

    fn session_procedures(&mut self) -> SessionProcedures<'_> {
        SessionProcedures {
            shared: &mut self.shared,
            control: &mut self.control,
            reporting: &mut self.reporting,
            pfds: &mut self.pfds,
        }
    }

    fn association_release(&mut self) -> AssociationRelease<'_> {
        AssociationRelease {
            shared: &mut self.shared,
            control: &mut self.control,
            reporting: &mut self.reporting,
        }
    }

    fn handle_response(&mut self, now: Nanos, path: Path, response: MessageType, frame: &Frame<'_>) {
        let sequence = match response {
            MessageType::ASSOCIATION_SETUP_RESPONSE => {
                let setups = &self.control.setups;
                setups.asked(path.from, frame.header.sequence.get())
            }
            _ => frame.header.sequence.get(),
        };
        if self.is_of_another_session(path.from, sequence, frame) {
            self.shared.counters.unmatched_responses += 1;
            return;
        }
        let transactions = &mut self.shared.transactions;
        let Some(purpose) = transactions.responded(path.from, sequence, response) else {
            let (sources, config) = (&mut self.control.sources, &self.shared.config);
            let is_heartbeat = response == MessageType::HEARTBEAT_RESPONSE;
            let was_requested = is_heartbeat && sources.verify(config, now, path.from, sequence);
            self.shared.counters.unmatched_responses += u64::from(!was_requested);
            return;
        };
        let (shared, control, reporting) = (&mut self.shared, &mut self.control, &mut self.reporting);
        match purpose {
            Purpose::Heartbeat(association) => control.heartbeat_answered(shared, now, association, frame),
            Purpose::NodeReport(id) => reporting.nodes.answered(shared, now, id, frame),
            Purpose::Setup(place) => {
                if let Some(introduction) = control.setups.responded(shared, now, place, frame) {
                    control.take_up(shared, now, path, introduction);
                }
            }
            Purpose::Update(of) => self.association_release().update_answered(now, of, frame),
            Purpose::LastReport { release, usage } => {
                self.association_release()
                    .last_report_answered(now, release, usage, frame);
            }
            Purpose::Report(seid) => reporting.sessions.report_answered(shared, now, seid, frame),
            Purpose::Remainder(usage) => shared.last_usage_done(now, usage, verdict(frame)),
        }
        self.note_answer(now, path, frame);
        self.settle(now);
    }

    /// A response is discarded, because its length is another than it says. If a report waits for it, that is responded
    /// to all the same, and not sent again (TS 29.244 §7.6.1, §7.6.3).
    fn handle_unreadable_response(&mut self, now: Nanos, path: Path, header: &Header) {
        if header.message_type != MessageType::SESSION_REPORT_RESPONSE {
            return;
        }
        let transactions = &mut self.shared.transactions;
        let Some(purpose) = transactions.responded(path.from, header.sequence.get(), header.message_type)
        else {
            return;
        };
        self.shared.counters.reports_unreadable += 1;
        let why = Some(Unreported::Unreadable);
        match purpose {
            Purpose::Report(seid) => self.reporting.sessions.landed(&mut self.shared, now, seid, why),
            Purpose::LastReport { release, usage } => {
                self.association_release()
                    .last_report_over(now, release, usage, why);
            }
            Purpose::Remainder(usage) => self.shared.last_usage_done(now, usage, why),
            // A Session Report Response answers nothing else.
            Purpose::Heartbeat(_) | Purpose::NodeReport(_) | Purpose::Setup(_) | Purpose::Update(_) => {}
        }
    }

    /// A request of ours has failed: there is no response after N1 retransmissions.
    fn handle_failed_request(&mut self, now: Nanos, purpose: Purpose) {
        let (shared, control, reporting) = (&mut self.shared, &mut self.control, &mut self.reporting);
        shared.counters.unanswered += 1;
        match purpose {
            Purpose::Heartbeat(id) => control.heartbeat_unanswered(shared, now, id),
            Purpose::NodeReport(id) => reporting.nodes.unanswered(shared, now, id),
            Purpose::Setup(place) => control.setups.failed(now, place),
            Purpose::Update(of) => self.association_release().update_failed(now, of),
            Purpose::LastReport { release, usage } => {
                self.association_release()
                    .last_report_unanswered(now, release, usage);
            }
            Purpose::Report(seid) => reporting.sessions.report_failed(shared, now, seid),
            // The session is gone: the usage is not sent again.
            Purpose::Remainder(usage) => {
                shared.counters.events_dropped += 1;
                shared.last_usage_done(now, usage, Some(Unreported::Unanswered));
            }
        }
    }

    /// Logs a response that rejects an own request.
    fn note_answer(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        use pfcp::ie::{Cause, Ie};
        let mut tlvs = pfcp::tlv::Tlvs::new(frame.body).flatten();
        let cause = tlvs.find(|tlv| tlv.ie_type == pfcp::IeType::CAUSE);
        let cause = cause.and_then(|tlv| Cause::decode(tlv.value).ok());
        if let Some(cause) = cause.filter(|cause| !cause.is_accepted()) {
            self.shared.transactions.messages_mut().refused_by_peer(cause);
            let (peer, response) = (path.from, frame.header.message_type);
            self.shared.log.push(
                now,
                LogEvent::RejectedByPeer {
                    peer,
                    response,
                    cause,
                },
            );
        }
    }

    /// Whether a response to a report names another session than the report was about (TS 29.244 §7.2.2.4.2). A peer
    /// that does not know the session names none, and some give back their own SEID.
    fn is_of_another_session(&self, peer: SocketAddr, sequence: u32, frame: &Frame<'_>) -> bool {
        let Some(Purpose::Report(about)) = self.shared.transactions.requests().purpose(peer, sequence) else {
            return false;
        };
        let own = self
            .shared
            .sessions
            .session(about)
            .map(|session| session.cp().seid);
        let known = [Some(0), Some(about.0), own];
        let named = frame.header.seid.map_or(0, |seid| seid.0);
        own.is_some() && !known.contains(&Some(named))
    }

    /// Completes what the sessions have completed, and sends the reports whose turn it is.
    fn settle(&mut self, now: Nanos) {
        // Before a session's last response, which has what has not been sent.
        self.reporting.sessions.gather_usage(&mut self.shared, now);
        while let Some(outcome) = self.shared.sessions.poll_outcome() {
            self.handle_outcome(now, outcome);
        }
        self.control.answer_releases(&mut self.shared, now);
        self.reporting.nodes.follow_paths(&mut self.shared, now);
        if !self.session_transfer.is_transferring {
            self.reporting.sessions.send_reports(&mut self.shared, now);
            self.reporting.nodes.send(&mut self.shared, now);
        }
    }

    /// The sessions have completed a request: of a peer, or of our own.
    fn handle_outcome(&mut self, now: Nanos, outcome: Outcome) {
        let ticket = outcome.ticket;
        if let Some(pending) = self.shared.pending.remove(ticket) {
            self.session_procedures().complete(now, pending, outcome);
        } else if let Some(ending) = self.control.releases.left(ticket) {
            self.association_release()
                .session_left(now, ending, outcome.result);
        } else if let Some(seid) = self.pfds.followed(ticket) {
            self.pfds.follow_up(&mut self.shared, now, seid, outcome.result);
        } else {
            let reports = &mut self.reporting.sessions;
            self.session_transfer
                .transferred(&mut self.shared, reports, &mut self.pfds, now, outcome);
        }
    }
}

/// Requests that a control plane function may send to a user plane function. (Heartbeat is served apart.)
fn is_served(message_type: MessageType) -> bool {
    matches!(
        message_type,
        MessageType::PFD_MANAGEMENT_REQUEST
            | MessageType::ASSOCIATION_SETUP_REQUEST
            | MessageType::ASSOCIATION_UPDATE_REQUEST
            | MessageType::ASSOCIATION_RELEASE_REQUEST
            | MessageType::SESSION_SET_DELETION_REQUEST
            | MessageType::SESSION_SET_MODIFICATION_REQUEST
            | MessageType::SESSION_ESTABLISHMENT_REQUEST
            | MessageType::SESSION_MODIFICATION_REQUEST
            | MessageType::SESSION_DELETION_REQUEST
    )
}

/// The SEID to answer an Establishment with that could not be read to its end: from the first CP F-SEID in it.
fn cp_seid(frame: &Frame<'_>) -> Option<pfcp::Seid> {
    use pfcp::ie::{FSeid, Ie};
    if frame.header.message_type != MessageType::SESSION_ESTABLISHMENT_REQUEST {
        return None;
    }
    let tlvs = pfcp::tlv::Tlvs::new(frame.body);
    let found = tlvs.flatten().find(|tlv| tlv.ie_type == pfcp::IeType::F_SEID)?;
    FSeid::decode(found.value).ok().map(|f_seid| f_seid.seid)
}
