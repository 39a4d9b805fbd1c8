//! PFCP transactions (TS 29.244 §6.4): requests of peers and their responses, our own requests, and datagrams to send.
//!
//! A retransmission of a request gets the cached response, octet for octet, or is discarded while the request is
//! pending. Our own requests are retransmitted by T1 and N1. Datagrams are bundled for peers that take bundles.

use flow::Nanos;
use pfcp::message::Body;
use pfcp::{Frame, Header, MessageType, Seid, SequenceNumber};
use session::{ResponseRecord, Ticket};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::bundle::{Bundled, Bundling};
use crate::datagram::Transmit;
use crate::held_transmits::HeldTransmits;
use crate::message_counters::MessageCounters;
use crate::own_requests::{OwnRequests, Purpose};
use crate::response_cache::{Known, RequestKey, ResponseCache};

/// Octets of the longest PFCP message, and then some.
const SCRATCH: usize = 1 << 16;

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

/// How transactions are kept.
pub(crate) struct Limits {
    pub(crate) response_cache_octets: usize,
    pub(crate) response_cache_age: Duration,
    pub(crate) t1: Duration,
    pub(crate) n1: u32,
}

/// Seeds of hashes, and the first sequence number.
pub(crate) struct Seeds {
    pub(crate) responses: u64,
    pub(crate) requests: u64,
    pub(crate) digests: u64,
    pub(crate) sequence: u32,
}

/// What a request is, by its number and content.
pub(crate) enum Received {
    New(Request),
    /// A retransmission: the response has been sent again.
    Responded,
    /// A retransmission of a pending request.
    Pending,
}

/// All transactions.
pub(crate) struct Transactions {
    responses: ResponseCache,
    requests: OwnRequests,
    transmits: VecDeque<Transmit>,
    held: HeldTransmits,
    /// Whether messages go at once that tell of no change whatever their type.
    sends_at_once: bool,
    bundling: Bundling,
    messages: MessageCounters,
    /// The request that is being served, until something keeps its response.
    serving: Option<(RequestKey, u64)>,
    scratch: Box<[u8]>,
    digests: foldhash::quality::SeedableRandomState,
}

impl Transactions {
    pub(crate) fn new(seeds: &Seeds, limits: &Limits) -> Transactions {
        Transactions {
            responses: ResponseCache::new(
                seeds.responses,
                limits.response_cache_octets,
                limits.response_cache_age,
            ),
            requests: OwnRequests::new(seeds.requests, limits.t1, limits.n1, seeds.sequence),
            transmits: VecDeque::new(),
            held: HeldTransmits::default(),
            sends_at_once: false,
            bundling: Bundling::default(),
            messages: MessageCounters::default(),
            serving: None,
            scratch: vec![0; SCRATCH].into(),
            digests: foldhash::quality::SeedableRandomState::with_seed(
                seeds.digests,
                foldhash::SharedSeed::global_fixed(),
            ),
        }
    }

    pub(crate) fn messages(&self) -> &MessageCounters {
        &self.messages
    }

    pub(crate) fn messages_mut(&mut self) -> &mut MessageCounters {
        &mut self.messages
    }

    pub(crate) fn responses(&self) -> &ResponseCache {
        &self.responses
    }

    pub(crate) fn requests(&self) -> &OwnRequests {
        &self.requests
    }

    pub(crate) fn requests_mut(&mut self) -> &mut OwnRequests {
        &mut self.requests
    }

    pub(crate) fn bundling_mut(&mut self) -> &mut Bundling {
        &mut self.bundling
    }

    /// A request was received. Until [`end_serving`](Self::end_serving), a new one is the request that is being served.
    pub(crate) fn receive(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) -> Received {
        let key = RequestKey {
            peer: path.from,
            sequence: frame.header.sequence.get(),
            message_type: frame.header.message_type.0,
        };
        let digest = self
            .digests
            .hash_one((frame.header.seid.map(|seid| seid.0), frame.body));
        match self
            .responses
            .look_up(now, &key, digest, frame.header.seid.map_or(0, |seid| seid.0))
        {
            Known::Responded(bytes) => {
                self.messages.duplicate(frame.header.message_type);
                self.messages.resent(&bytes);
                self.push(path, bytes);
                Received::Responded
            }
            Known::Pending => {
                self.messages.duplicate(frame.header.message_type);
                Received::Pending
            }
            Known::New => {
                self.serving = Some((key, digest));
                Received::New(Request {
                    path,
                    header: frame.header,
                    key,
                    digest,
                })
            }
        }
    }

    /// The request has been served.
    pub(crate) fn end_serving(&mut self) {
        self.serving = None;
    }

    /// Notes that a request is pending.
    pub(crate) fn begin(&mut self, request: Request, ticket: Ticket) {
        self.responses.begin(request.key, request.digest, ticket);
    }

    /// Caches the response to the request that `ticket` began. `None`: it gets none, and a retransmission is a new
    /// request.
    pub(crate) fn finish(
        &mut self,
        now: Nanos,
        key: RequestKey,
        ticket: Ticket,
        response: Option<Arc<[u8]>>,
    ) {
        match response {
            Some(bytes) => self.responses.finish(now, key, ticket, bytes),
            None => self.responses.abandon(&key, ticket),
        }
    }

    /// Caches a response of the process before to a request about the session `seid`.
    pub(crate) fn restore(&mut self, now: Nanos, record: &ResponseRecord) {
        let key = RequestKey {
            peer: record.peer,
            sequence: record.sequence,
            message_type: record.message_type,
        };
        self.responses
            .restore(now, key, record.seid, record.octets.as_slice().into());
    }

    /// Caches the rejection of the request that is being served, if it is to be kept.
    pub(crate) fn finish_rejected(&mut self, now: Nanos, is_kept: bool, response: Option<Arc<[u8]>>) {
        if let (true, Some((key, digest)), Some(bytes)) = (is_kept, self.serving.take(), response) {
            self.responses.reject(now, key, digest, bytes);
        }
    }

    /// Forgets the responses to a peer that has restarted.
    pub(crate) fn forget_life_of(&mut self, peer: SocketAddr) {
        self.responses.forget_life_of(peer);
    }

    /// Retransmits requests whose T1 has expired, and gives how many and the purposes of those that have failed.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) -> (usize, Vec<Purpose>) {
        let due = self.requests.handle_timeout(now);
        let count = due.retransmissions.len();
        due.retransmissions
            .iter()
            .for_each(|sent| self.messages.resent(&sent.bytes));
        for transmit in due.retransmissions {
            self.enqueue(transmit);
        }
        (count, due.failed)
    }

    /// What waits for changes to be kept.
    pub(crate) fn held(&self) -> &HeldTransmits {
        &self.held
    }

    pub(crate) fn held_mut(&mut self) -> &mut HeldTransmits {
        &mut self.held
    }

    /// Whether messages wait for changes to be kept, which is so unless they tell of none.
    pub(crate) fn hold_back(&mut self, holds: bool) {
        self.sends_at_once = !holds;
    }

    /// The next datagram to send, where there have been `changes` changes that are to be kept.
    pub(crate) fn poll_transmit(&mut self, changes: u64) -> Option<Bundled> {
        while let Some(transmit) = self.held.poll(changes) {
            self.transmits.push_back(transmit);
        }
        let first = self.transmits.pop_front()?;
        Some(self.bundling.bundle(first, &mut self.transmits))
    }

    /// Forgets the datagrams that have not been sent.
    pub(crate) fn clear_transmits(&mut self) {
        self.transmits.clear();
        self.held.clear();
    }

    /// Encodes a message; `None` if it is longer than a message may be.
    pub(crate) fn encode<'m, B: Body<'m>>(&mut self, header: &Header, body: &B) -> Option<Arc<[u8]>> {
        let length = body.encode(header, &mut self.scratch).ok()?;
        let bytes = self.scratch.get(..length).map(Arc::from)?;
        self.messages.sent(header.message_type);
        Some(bytes)
    }

    /// Sends a message that the peer does not have to respond to.
    pub(crate) fn send<'m, B: Body<'m>>(
        &mut self,
        path: Path,
        header: &Header,
        body: &B,
    ) -> Option<Arc<[u8]>> {
        let bytes = self.encode(header, body)?;
        self.push(path, Arc::clone(&bytes));
        Some(bytes)
    }

    /// Sends a request under a number that no outstanding request to the peer has. Gives whether it could be encoded.
    pub(crate) fn send_request<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        path: Path,
        seid: Option<Seid>,
        sequence: u32,
        purpose: Purpose,
        body: &B,
    ) -> bool {
        let mut header = Header::node(B::MESSAGE_TYPE, SequenceNumber::new(sequence));
        header.seid = seid;
        let Some(bytes) = self.encode(&header, body) else {
            return false;
        };
        self.begin_request(now, path, (sequence, B::MESSAGE_TYPE), purpose, bytes);
        true
    }

    /// Sends a Session Report Request of the process before, whose number no outstanding request to the peer has.
    pub(crate) fn send_again(
        &mut self,
        now: Nanos,
        path: Path,
        sequence: u32,
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) {
        let message_type = MessageType::SESSION_REPORT_REQUEST;
        self.messages.sent(message_type);
        self.begin_request(now, path, (sequence, message_type), purpose, bytes);
    }

    fn begin_request(
        &mut self,
        now: Nanos,
        path: Path,
        (sequence, message_type): (u32, MessageType),
        purpose: Purpose,
        bytes: Arc<[u8]>,
    ) {
        let transmit = Transmit {
            from: path.to,
            to: path.from,
            bytes,
        };
        self.enqueue(transmit.clone());
        self.requests
            .sent(now, sequence, message_type.0, purpose, transmit);
    }

    /// Ends the request that this response answers; `None` if no request is outstanding.
    pub(crate) fn responded(
        &mut self,
        peer: SocketAddr,
        sequence: u32,
        response: MessageType,
    ) -> Option<Purpose> {
        self.requests.answered(peer, sequence, response.0)
    }

    fn push(&mut self, path: Path, bytes: Arc<[u8]>) {
        self.enqueue(Transmit {
            from: path.to,
            to: path.from,
            bytes,
        });
    }

    fn enqueue(&mut self, transmit: Transmit) {
        let free = match self.sends_at_once {
            true => Some(transmit),
            false => self.held.offer(transmit),
        };
        self.transmits.extend(free);
    }
}
