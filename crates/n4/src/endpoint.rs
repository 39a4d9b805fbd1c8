//! The PFCP endpoint of a user plane function: datagrams and time in, datagrams and effects out.
//!
//! Owned by control. It holds the associations, the answers for retransmissions, our own requests and the sessions.
//! The checks of a received message are made in the order of TS 29.244 §7.6: header, version, length, type, then
//! retransmission, then IEs, then association, then session.

use flow::{Bucket, Nanos, OpId, WorkerId};
use pfcp::message::{Body, Message};
use pfcp::{Frame, Frames, Header, HeaderError, Interfaces, MessageType, SequenceNumber};
use rules::Adjacencies;
use rules::image::UsageSnapshot;
use rules::network::Network;
use session::{
    AssociationId, Effect, Keyed, MoveFault, Moved, Persist, Random, Sessions, SharedRate, Ticket,
    WallChange, WorkerFault, keyed,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::association::{Association, Associations};
use crate::association_setup::AssociationSetups;
use crate::cause::Reject;
use crate::config::Config;
use crate::counters::Counters;
use crate::downlink::Downlink;
use crate::event_log::{EventLog, LogEvent};
use crate::features::up_function_features;
use crate::flow_descriptions::Descriptions;
use crate::load::Load;
use crate::message_counters::MessageCounters;
use crate::node_reports::NodeReports;
use crate::own_requests::{Purpose, Requests};
use crate::path_supervision::Paths;
use crate::pfds::Pfds;
use crate::release::{Released, Releases};
use crate::report_outbox::Reports;
use crate::response_cache::{Known, RequestKey, ResponseCache};
use crate::serve_pfds::Followers;
use crate::serve_report::verdict;
use crate::serve_session::PendingRequest;
use crate::source_filter::Sources;
use crate::transfer::Transfers;
use crate::transmit::Transmit;
use crate::usage_ledger::Ledger;

/// Octets of the longest PFCP message, and then some.
const SCRATCH: usize = 1 << 16;

/// The endpoint.
pub struct Endpoint {
    pub(crate) config: Config,
    pub(crate) network: Arc<Network>,
    pub(crate) sessions: Sessions,
    pub(crate) associations: Associations,
    pub(crate) responses: ResponseCache,
    pub(crate) requests: Requests,
    pub(crate) in_work: Keyed<Ticket, PendingRequest>,
    /// How many of `in_work` each association has; none is not entered.
    pub(crate) work_of: BTreeMap<AssociationId, usize>,
    pub(crate) load: Load,
    /// Addresses whose peers take several messages in one datagram.
    pub(crate) bundlers: BTreeSet<IpAddr>,
    pub(crate) last_ticket: u64,
    /// Associations by the time of their next heartbeat.
    pub(crate) heartbeats: VecDeque<(Nanos, AssociationId)>,
    pub(crate) reports: Reports,
    pub(crate) downlink: Downlink,
    pub(crate) paths: Paths,
    pub(crate) node_reports: NodeReports,
    pub(crate) setups: AssociationSetups,
    pub(crate) releases: Releases,
    /// Releases that are answered when the sessions have left the workers.
    pub(crate) released: VecDeque<Released>,
    pub(crate) pfds: Pfds,
    pub(crate) descriptions: Descriptions,
    pub(crate) followers: Followers,
    /// Whether no association begins any more.
    pub(crate) is_ending: bool,
    pub(crate) transfers: Transfers,
    pub(crate) ledger: Ledger,
    /// Whether new sessions are refused.
    pub(crate) no_new_sessions: bool,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) counters: Counters,
    pub(crate) messages: MessageCounters,
    pub(crate) news: EventLog,
    pub(crate) sources: Sources,
    /// The request that is being served, until something keeps its answer.
    pub(crate) serving: Option<(RequestKey, u64)>,
    scratch: Box<[u8]>,
    digests: foldhash::quality::SeedableRandomState,
}

/// The two ends of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The peer's.
    pub(crate) from: SocketAddr,
    /// Ours.
    pub(crate) to: SocketAddr,
}

/// A request on its way to its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) path: Path,
    pub(crate) header: Header,
    pub(crate) key: RequestKey,
    pub(crate) digest: u64,
}

impl Endpoint {
    /// An endpoint without associations. `random` decides every identifier and every hash.
    pub fn new(
        config: Config,
        network: Arc<Network>,
        adjacencies: Box<dyn Adjacencies + Send>,
        store: Box<dyn Persist + Send>,
        mut random: Random,
    ) -> Endpoint {
        let seeds = [0; 6].map(|_: u64| random.next_u64());
        let [a, b, c, d, e, f] = seeds;
        let start = random.next_u32();
        Endpoint {
            sessions: Sessions::new(
                session::Config {
                    clock_unix: config.clock_unix,
                    ..config.sessions.clone()
                },
                Arc::clone(&network),
                adjacencies,
                store,
                random.split(),
            ),
            associations: Associations::default(),
            responses: ResponseCache::new(a, config.response_cache_octets, config.response_cache_age),
            requests: Requests::new(b, config.t1, config.n1, start),
            in_work: keyed(c),
            work_of: BTreeMap::new(),
            load: Load::new(config.recovery_unix),
            bundlers: BTreeSet::new(),
            last_ticket: 0,
            heartbeats: VecDeque::new(),
            reports: Reports::new(d, config.reports),
            downlink: Downlink::new(f),
            paths: Paths::new(config.paths),
            node_reports: NodeReports::default(),
            setups: AssociationSetups::new(&config.smfs, config.setup_retry, config.setup_retry_most),
            releases: Releases::default(),
            released: VecDeque::new(),
            pfds: Pfds::default(),
            descriptions: Descriptions::new(c.rotate_left(32)),
            followers: Followers::default(),
            is_ending: false,
            transfers: Transfers::default(),
            ledger: Ledger::default(),
            no_new_sessions: false,
            transmits: VecDeque::new(),
            counters: Counters::default(),
            messages: MessageCounters::default(),
            news: EventLog::default(),
            sources: Sources::new(e.rotate_left(32)),
            serving: None,
            scratch: vec![0; SCRATCH].into(),
            digests: foldhash::quality::SeedableRandomState::with_seed(
                e,
                foldhash::SharedSeed::global_fixed(),
            ),
            network,
            config,
        }
    }

    /// A datagram has come from `from`, at our address `to` (that which the sender used, not a wildcard).
    pub fn handle_datagram(&mut self, now: Nanos, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        if self.is_handing_over() {
            return;
        }
        self.counters.datagrams += 1;
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
        self.sessions.handle_timeout(now);
        if self.is_handing_over() {
            return self.settle(now);
        }
        let (again, failed) = self.requests.handle_timeout(now);
        self.counters.retransmissions += again.len() as u64;
        again.iter().for_each(|sent| self.messages.resent(&sent.bytes));
        self.transmits.extend(again);
        failed
            .iter()
            .for_each(|request| self.unanswered(now, request.purpose));
        self.set_up_associations(now);
        self.end_releases(now);
        self.follow_pfds(now);
        self.send_heartbeats(now);
        self.tell_of_downlink(now);
        self.supervise_paths(now);
        self.settle(now);
    }

    /// When [`handle_timeout`](Endpoint::handle_timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let heartbeat = self.heartbeats.front().map(|(at, _)| *at);
        [
            self.sessions.poll_timeout(),
            self.requests.poll_timeout(),
            self.reports.poll_timeout(),
            self.downlink.poll_timeout(),
            self.paths.poll_timeout(),
            self.node_reports.poll_timeout(),
            self.setups.poll_timeout(),
            self.releases.poll_timeout(),
            self.released.front().map(|released| released.until),
            self.followers.poll_timeout(),
            heartbeat,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.is_handing_over() {
            return None;
        }
        let first = self.transmits.pop_front()?;
        Some(self.bundle(first))
    }

    /// The next command for a worker; see [`Effect`].
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.sessions.poll_effect()
    }

    /// A worker has answered an operation of an [`Effect`].
    pub fn handle_applied(
        &mut self,
        now: Nanos,
        op: OpId,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        self.sessions.applied(now, op, result);
        self.settle(now);
    }

    /// Moves a bucket of sessions to another worker; see [`Sessions::move_bucket`].
    ///
    /// # Errors
    /// When the move cannot begin.
    pub fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        let begun = self.sessions.move_bucket(now, bucket, to);
        self.settle(now);
        begun
    }

    /// What came of a move.
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.sessions.poll_moved()
    }

    /// A rate that sessions have in common, and that has changed; see [`Sessions::poll_shared_rate`].
    pub fn poll_shared_rate(&mut self) -> Option<SharedRate> {
        self.sessions.poll_shared_rate()
    }

    /// The sessions, for views.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What it was configured with, for views.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The host's clock says that `now` is so many nanoseconds after 1970, read with an uncertainty of `slack`
    /// nanoseconds: dates follow it ([`session::WallClock`]). Tells what has changed.
    pub fn follow_wall(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        self.sessions.follow_wall(now, host_unix, slack)
    }

    /// The associations, for views, in the order of their numbers.
    pub fn associations(&self) -> impl Iterator<Item = &Association> {
        self.associations.iter()
    }

    /// The association with this number, for views.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.associations.get(id)
    }

    /// The reference points that an association's peer speaks over, for views.
    pub fn interfaces_of(&self, association: &Association) -> Interfaces {
        self.config.interfaces_of(association.peer.ip())
    }

    /// Whether requests from this address can be those of a peer.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        self.config.any_source || self.associations.knows(address)
    }

    /// What a peer at `address` is told that we can do.
    pub(crate) fn features_for(&self, address: IpAddr) -> pfcp::ie::UpFunctionFeatures {
        let interfaces = self.config.interfaces_of(address);
        up_function_features(&self.config, &self.network, interfaces)
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What was counted of messages, by type and by cause.
    pub fn message_counters(&self) -> &MessageCounters {
        &self.messages
    }

    /// Octets that kept answers take, about; and how many answers went early for want of room.
    pub fn response_cache(&self) -> (usize, u64) {
        (self.responses.octets(), self.responses.evicted())
    }

    /// Requests that peers wait for, and requests of ours that peers have yet to answer.
    pub fn outstanding(&self) -> (usize, usize) {
        (self.in_work.len(), self.requests.len())
    }

    /// Sessions that have something to report now or later, or that have reported of late.
    pub fn reporting(&self) -> usize {
        self.reports.len() + self.downlink.len()
    }

    /// What the header check found (TS 29.244 §7.6.2 to §7.6.5).
    fn handle_header_error(&mut self, now: Nanos, path: Path, error: HeaderError, datagram: &[u8]) {
        match error {
            HeaderError::Version { sequence, .. } => {
                self.counters.other_version += 1;
                let message_type = datagram.get(1).map(|octet| MessageType(*octet));
                if message_type != Some(MessageType::VERSION_NOT_SUPPORTED_RESPONSE) {
                    let header = Header::node(MessageType::VERSION_NOT_SUPPORTED_RESPONSE, sequence);
                    self.send(path, &header, &pfcp::message::VersionNotSupportedResponse::new());
                }
            }
            HeaderError::Length { header, .. } if is_served(header.message_type) => {
                self.reject(
                    now,
                    path,
                    &header,
                    None,
                    Reject::of(pfcp::ie::Cause::INVALID_LENGTH),
                );
            }
            HeaderError::Length { header, .. } => {
                self.counters.malformed += 1;
                self.report_answered_unreadably(now, path, &header);
            }
            HeaderError::TooShort { .. } => self.counters.malformed += 1,
            HeaderError::UnknownType { .. } => self.counters.unexpected += 1,
            HeaderError::NoSeid { .. } => self.counters.malformed += 1,
        }
    }

    fn handle_message(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        self.messages.received(frame.header.message_type);
        match frame.header.message_type {
            MessageType::HEARTBEAT_REQUEST => self.serve_heartbeat(now, path, frame),
            response @ (MessageType::HEARTBEAT_RESPONSE
            | MessageType::ASSOCIATION_SETUP_RESPONSE
            | MessageType::ASSOCIATION_UPDATE_RESPONSE
            | MessageType::NODE_REPORT_RESPONSE
            | MessageType::SESSION_REPORT_RESPONSE) => {
                self.handle_response(now, path, response, frame);
            }
            request if is_served(request) => self.handle_request(now, path, frame),
            _ => self.counters.unexpected += 1,
        }
    }

    fn handle_request(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        let key = RequestKey {
            peer: path.from,
            sequence: frame.header.sequence.get(),
            message_type: frame.header.message_type.0,
        };
        let digest = self
            .digests
            .hash_one((frame.header.seid.map(|seid| seid.0), frame.body));
        match self.responses.look_up(now, &key, digest) {
            Known::Answered(bytes) => {
                self.counters.replayed += 1;
                self.messages.duplicate(frame.header.message_type);
                self.messages.resent(&bytes);
                self.transmits.push_back(Transmit {
                    from: path.to,
                    to: path.from,
                    bytes,
                });
            }
            Known::Pending => {
                self.counters.in_work += 1;
                self.messages.duplicate(frame.header.message_type);
            }
            Known::New => {
                let request = Request {
                    path,
                    header: frame.header,
                    key,
                    digest,
                };
                self.serving = Some((key, digest));
                match Message::decode(frame) {
                    Ok(message) => self.serve(now, request, &message),
                    Err(error) => self.reject(now, path, &frame.header, cp_seid(frame), Reject::from(error)),
                }
                self.serving = None;
            }
        }
    }

    fn handle_response(&mut self, now: Nanos, path: Path, response: MessageType, frame: &Frame<'_>) {
        let sequence = match response {
            MessageType::ASSOCIATION_SETUP_RESPONSE => {
                self.setups.asked(path.from, frame.header.sequence.get())
            }
            _ => frame.header.sequence.get(),
        };
        if self.is_of_another_session(path.from, sequence, frame) {
            self.counters.unmatched_responses += 1;
            return;
        }
        let Some(purpose) = self.requests.answered(path.from, sequence, response.0) else {
            let is_heartbeat = response == MessageType::HEARTBEAT_RESPONSE;
            let was_asked = is_heartbeat && self.verify(now, path.from, sequence);
            self.counters.unmatched_responses += u64::from(!was_asked);
            return;
        };
        match purpose {
            Purpose::Heartbeat(association) => self.heartbeat_answered(now, association, frame),
            Purpose::NodeReport(id) => self.node_report_answered(now, id, frame),
            Purpose::Setup(place) => self.setup_answered(now, path, place, frame),
            Purpose::Update(of) => self.update_answered(now, of, frame),
            Purpose::LastReport(of, usage) => self.last_report_answered(now, (of, usage), frame),
            Purpose::Report(seid) => self.report_answered(now, seid, frame),
            Purpose::Remainder(usage) => self.last_usage_over(now, usage, verdict(frame)),
        }
        self.note_answer(now, path, frame);
        self.settle(now);
    }

    /// Tells of a response that refuses what we asked.
    fn note_answer(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        use pfcp::ie::{Cause, Ie};
        let mut tlvs = pfcp::tlv::Tlvs::new(frame.body).flatten();
        let cause = tlvs.find(|tlv| tlv.ie_type == pfcp::IeType::CAUSE);
        let cause = cause.and_then(|tlv| Cause::decode(tlv.value).ok());
        if let Some(cause) = cause.filter(|cause| !cause.is_accepted()) {
            self.messages.refused_by_peer(cause);
            let (peer, response) = (path.from, frame.header.message_type);
            self.news.tell(
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
        let Some(Purpose::Report(about)) = self.requests.purpose(peer, sequence) else {
            return false;
        };
        let own = self.sessions.session(about).map(|session| session.cp().seid);
        let known = [Some(0), Some(about.0), own];
        let named = frame.header.seid.map_or(0, |seid| seid.0);
        own.is_some() && !known.contains(&Some(named))
    }

    /// Ends what sessions have come to an end with, and sends the reports whose turn it is.
    pub(crate) fn settle(&mut self, now: Nanos) {
        // Before a session's last answer, which has what it has not sent.
        self.gather_usage(now);
        while let Some(outcome) = self.sessions.poll_outcome() {
            self.serve_outcome(now, outcome);
        }
        self.answer_releases(now);
        self.follow_paths(now);
        if !self.is_handing_over() {
            self.send_reports(now);
            self.send_node_reports(now);
        }
    }

    /// A number for a request on a session.
    pub(crate) fn new_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    /// Encodes a message; `None`, and counted, if it is longer than a message may be.
    pub(crate) fn encode<'m, B: Body<'m>>(&mut self, header: &Header, body: &B) -> Option<Arc<[u8]>> {
        let length = body.encode(header, &mut self.scratch).ok();
        let bytes = length
            .and_then(|length| self.scratch.get(..length))
            .map(Arc::from);
        self.counters.unencodable += u64::from(bytes.is_none());
        if bytes.is_some() {
            self.messages.sent(header.message_type);
        }
        bytes
    }

    /// Sends an answer that is not kept: making it again gives the same.
    pub(crate) fn send<'m, B: Body<'m>>(
        &mut self,
        path: Path,
        header: &Header,
        body: &B,
    ) -> Option<Arc<[u8]>> {
        let bytes = self.encode(header, body)?;
        self.transmits.push_back(Transmit {
            from: path.to,
            to: path.from,
            bytes: Arc::clone(&bytes),
        });
        Some(bytes)
    }

    /// Sends a request of ours and answers its number.
    pub(crate) fn send_request<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        path: Path,
        seid: Option<pfcp::Seid>,
        purpose: Purpose,
        body: &B,
    ) -> u32 {
        let sequence = self.requests.next_sequence(path.from);
        self.send_request_as(now, path, (seid, sequence), purpose, body);
        sequence
    }

    /// The same under a number that no outstanding request to the peer has.
    pub(crate) fn send_request_as<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        path: Path,
        (seid, sequence): (Option<pfcp::Seid>, u32),
        purpose: Purpose,
        body: &B,
    ) {
        let mut header = Header::node(B::MESSAGE_TYPE, SequenceNumber::new(sequence));
        header.seid = seid;
        let Some(bytes) = self.encode(&header, body) else {
            return;
        };
        let transmit = Transmit {
            from: path.to,
            to: path.from,
            bytes,
        };
        self.transmits.push_back(transmit.clone());
        self.requests
            .sent(now, sequence, B::MESSAGE_TYPE.0, purpose, transmit);
        self.counters.requests += 1;
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
