//! Requests that wait for their responses, and when they are sent again (TS 29.244 §6.4).

use super::Nanos;
use pfcp::{MessageType, Seid, SequenceNumber};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The SMF's SEID of the session with this index.
pub(super) fn cp_seid(index: u32) -> Seid {
    Seid(u64::from(index) + 1)
}

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Heartbeat,
    Associate,
    ReleaseAssociation,
    Establish(u32),
    Modify(u32),
    Delete(u32),
}

impl Request {
    fn response(self) -> MessageType {
        match self {
            Request::Heartbeat => MessageType::HEARTBEAT_RESPONSE,
            Request::Associate => MessageType::ASSOCIATION_SETUP_RESPONSE,
            Request::ReleaseAssociation => MessageType::ASSOCIATION_RELEASE_RESPONSE,
            Request::Establish(_) => MessageType::SESSION_ESTABLISHMENT_RESPONSE,
            Request::Modify(_) => MessageType::SESSION_MODIFICATION_RESPONSE,
            Request::Delete(_) => MessageType::SESSION_DELETION_RESPONSE,
        }
    }

    /// Whether a response may have this SEID: the SMF's of the session, or 0 from a UPF that knows no session.
    pub(super) fn is_answered_at(self, seid: Option<Seid>) -> bool {
        match self {
            Request::Establish(index) | Request::Modify(index) | Request::Delete(index) => {
                seid == Some(cp_seid(index)) || seid == Some(Seid(0))
            }
            _ => true,
        }
    }

    pub(super) fn is_session(self) -> bool {
        matches!(
            self,
            Request::Establish(_) | Request::Modify(_) | Request::Delete(_)
        )
    }
}

#[derive(Debug)]
struct Open {
    request: Request,
    octets: Vec<u8>,
    began: Nanos,
    deadline: Nanos,
    /// How often it may still be sent again.
    left: u8,
}

/// A request whose deadline has passed.
#[derive(Debug)]
pub(super) enum Expired {
    SendAgain(Vec<u8>),
    GaveUp(Request),
}

/// All open requests of one SMF.
#[derive(Debug)]
pub(super) struct Transactions {
    t1: Duration,
    n1: u8,
    next: SequenceNumber,
    open: HashMap<SequenceNumber, Open>,
    /// In their order, because T1 is the same for all. Those of requests that ended are skipped.
    deadlines: VecDeque<(Nanos, SequenceNumber)>,
    sessions: usize,
}

impl Transactions {
    pub(super) fn new(t1: Duration, n1: u8) -> Transactions {
        let next = SequenceNumber::new(1);
        Transactions {
            t1,
            n1,
            next,
            open: HashMap::new(),
            deadlines: VecDeque::new(),
            sessions: 0,
        }
    }

    /// The sequence number for the next request. Far fewer than 2^24 are open, so it is unique among them.
    pub(super) fn sequence(&self) -> SequenceNumber {
        self.next
    }

    /// A request with [the next sequence number](Self::sequence) has been sent.
    pub(super) fn begin(&mut self, now: Nanos, request: Request, octets: Vec<u8>) {
        let (sequence, deadline) = (self.next, now + self.t1);
        self.next = sequence.next();
        self.sessions += usize::from(request.is_session());
        self.open.insert(
            sequence,
            Open {
                request,
                octets,
                began: now,
                deadline,
                left: self.n1,
            },
        );
        self.deadlines.push_back((deadline, sequence));
    }

    /// Open requests for sessions.
    pub(super) fn sessions(&self) -> usize {
        self.sessions
    }

    /// Whether such a request is open.
    pub(super) fn is_open(&self, request: Request) -> bool {
        self.open.values().any(|open| open.request == request)
    }

    /// The request that this response answers, and how long that took. It is closed.
    pub(super) fn answered(
        &mut self,
        now: Nanos,
        sequence: SequenceNumber,
        response: MessageType,
    ) -> Option<(Request, Duration)> {
        let open = self
            .open
            .get(&sequence)
            .filter(|open| open.request.response() == response)?;
        let answered = (open.request, now.since(open.began));
        self.close(sequence);
        Some(answered)
    }

    /// A request whose deadline has passed. Call until there is none.
    pub(super) fn expire(&mut self, now: Nanos) -> Option<Expired> {
        loop {
            let (deadline, sequence) = *self.deadlines.front().filter(|(deadline, _)| *deadline <= now)?;
            self.deadlines.pop_front();
            let Some(open) = self
                .open
                .get_mut(&sequence)
                .filter(|open| open.deadline == deadline)
            else {
                continue;
            };
            let Some(left) = open.left.checked_sub(1) else {
                let request = open.request;
                self.close(sequence);
                return Some(Expired::GaveUp(request));
            };
            (open.left, open.deadline) = (left, now + self.t1);
            self.deadlines.push_back((open.deadline, sequence));
            return Some(Expired::SendAgain(open.octets.clone()));
        }
    }

    /// When the next deadline is.
    pub(super) fn deadline(&mut self) -> Option<Nanos> {
        while let Some((deadline, sequence)) = self.deadlines.front() {
            if self
                .open
                .get(sequence)
                .is_some_and(|open| open.deadline == *deadline)
            {
                return Some(*deadline);
            }
            self.deadlines.pop_front();
        }
        None
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.deadlines.clear();
        self.sessions = 0;
    }

    fn close(&mut self, sequence: SequenceNumber) {
        if let Some(open) = self.open.remove(&sequence) {
            self.sessions -= usize::from(open.request.is_session());
        }
    }
}
