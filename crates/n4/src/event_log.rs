//! Events of N4 for the log: associations that are set up and end, rejections, discarded datagrams.
//!
//! Peers cause them, so that each category has a rate. Events beyond it are counted; the count is given with the next
//! event of the category, or by itself when its token bucket has a token again.

use flow::{Nanos, TokenBucket, TokenRate};
use pfcp::ie::{Cause, FailedRuleId};
use pfcp::{IeType, MessageType};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::association::Association;
use crate::node::NodeName;

/// Events that are kept until they are polled.
const MOST_KEPT: usize = 256;

/// A peer that has, or had, an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName {
    /// Its Node ID.
    pub node: NodeName,
    /// Where its association was set up from.
    pub peer: SocketAddr,
}

impl From<&Association> for PeerName {
    fn from(association: &Association) -> PeerName {
        PeerName {
            node: association.node.clone(),
            peer: association.peer,
        }
    }
}

/// Why an association is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationEnd {
    /// Its peer released it.
    Released,
    /// It ended at our side.
    Ended,
    /// It was silent, without sessions, and made room for another.
    Evicted,
    /// It was transferred to another process, with its sessions.
    HandedOver,
}

/// Why a datagram is not taken, or a request not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReason {
    /// It is of none of the prefixes that peers are configured to speak from.
    OutsidePeers,
    /// It is of a source without an association that sends more than such may.
    UnknownSource,
    /// It wants more of what is scarce, and its sender has not yet answered a heartbeat.
    Unverified,
}

/// What has happened on N4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// An association was set up, for the first time or anew.
    AssociationUp {
        /// Whose.
        peer: PeerName,
        /// Whether it had one already.
        is_again: bool,
    },
    /// A peer does not answer heartbeats. Its sessions stay.
    PeerUnreachable {
        /// Which.
        peer: PeerName,
        /// Its sessions.
        sessions: usize,
    },
    /// A peer that was silent answers again.
    PeerReachable {
        /// Which.
        peer: PeerName,
        /// Its sessions.
        sessions: usize,
    },
    /// A peer has started anew, or has set its association up anew.
    PeerRestarted {
        /// Which.
        peer: PeerName,
        /// Its sessions, which it has lost, and which are removed.
        sessions: usize,
    },
    /// An association is gone.
    AssociationDown {
        /// Whose.
        peer: PeerName,
        /// Why.
        why: AssociationEnd,
        /// Its sessions, which are removed.
        sessions: usize,
    },
    /// A request was refused.
    RequestRejected {
        /// Whose.
        peer: SocketAddr,
        /// Which.
        request: MessageType,
        /// What it was answered.
        cause: Cause,
        /// The IE at fault.
        ie: Option<IeType>,
        /// The rule at fault.
        rule: Option<FailedRuleId>,
    },
    /// A peer refused a request of ours.
    RejectedByPeer {
        /// Which.
        peer: SocketAddr,
        /// Its answer.
        response: MessageType,
        /// What it answered.
        cause: Cause,
    },
    /// A datagram was not taken, or a request not served.
    Discarded {
        /// Whose.
        source: SocketAddr,
        /// Why.
        why: DiscardReason,
    },
    /// More events of a category than its rate allows.
    Suppressed(LogKind),
}

/// What shares an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Associations.
    Associations,
    /// Rejected requests.
    Rejections,
    /// Discarded datagrams and requests.
    Discards,
}

impl LogEvent {
    /// What it counts as.
    pub fn kind(&self) -> LogKind {
        match self {
            LogEvent::AssociationUp { .. }
            | LogEvent::PeerUnreachable { .. }
            | LogEvent::PeerReachable { .. }
            | LogEvent::PeerRestarted { .. }
            | LogEvent::AssociationDown { .. } => LogKind::Associations,
            LogEvent::RequestRejected { .. } | LogEvent::RejectedByPeer { .. } => LogKind::Rejections,
            LogEvent::Discarded { .. } => LogKind::Discards,
            LogEvent::Suppressed(kind) => *kind,
        }
    }
}

/// The rate of one kind.
#[derive(Debug)]
struct Limit {
    kind: LogKind,
    bucket: TokenBucket,
    suppressed: u64,
}

impl Limit {
    fn new(kind: LogKind, burst: u32, every: Duration) -> Limit {
        Limit {
            kind,
            bucket: TokenBucket::with_rate(TokenRate::new(every, burst)),
            suppressed: 0,
        }
    }
}

/// Events to be logged.
#[derive(Debug)]
pub(crate) struct EventLog {
    events: VecDeque<(LogEvent, u64)>,
    limits: [Limit; 3],
}

impl Default for EventLog {
    fn default() -> EventLog {
        let second = Duration::from_secs(1);
        EventLog {
            events: VecDeque::new(),
            limits: [
                Limit::new(LogKind::Associations, 64, Duration::from_millis(500)),
                Limit::new(LogKind::Rejections, 16, second),
                Limit::new(LogKind::Discards, 8, second * 5),
            ],
        }
    }
}

impl EventLog {
    pub(crate) fn push(&mut self, now: Nanos, event: LogEvent) {
        let kind = event.kind();
        let Some(limit) = self.limits.iter_mut().find(|one| one.kind == kind) else {
            return;
        };
        if self.events.len() >= MOST_KEPT || !limit.bucket.take(now) {
            limit.suppressed += 1;
            return;
        }
        let suppressed = std::mem::take(&mut limit.suppressed);
        self.events.push_back((event, suppressed));
    }

    /// The next event, and how many of its kind were left out before it.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<(LogEvent, u64)> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let mut limits = self.limits.iter_mut();
        let limit = limits.find_map(|one| (one.suppressed > 0 && one.bucket.take(now)).then_some(one))?;
        let suppressed = std::mem::take(&mut limit.suppressed);
        Some((LogEvent::Suppressed(limit.kind), suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal() -> LogEvent {
        LogEvent::RequestRejected {
            peer: "192.0.2.1:8805".parse().unwrap(),
            request: MessageType::SESSION_ESTABLISHMENT_REQUEST,
            cause: Cause::NO_RESOURCES_AVAILABLE,
            ie: None,
            rule: None,
        }
    }

    #[test]
    fn a_flood_of_events_is_logged_in_few_lines_with_their_number() {
        let mut log = EventLog::default();
        let mut logged = 0;
        let mut suppressed = 0;
        for millisecond in 0..20_000 {
            let now = Nanos(millisecond * 1_000_000);
            (0..3).for_each(|_| log.push(now, refusal()));
            while let Some((_, left_out)) = log.poll(now) {
                logged += 1;
                suppressed += left_out;
            }
        }
        assert_eq!(logged, 16 + 19);
        // The rest is given when no more events come.
        let (event, left_out) = log.poll(Nanos::from_secs(60)).unwrap();
        assert_eq!(event, LogEvent::Suppressed(LogKind::Rejections));
        let lines_of_refusals = 16 + 19;
        assert_eq!(suppressed + left_out + lines_of_refusals, 60_000);
        assert_eq!(log.poll(Nanos::from_secs(60)), None);
    }

    #[test]
    fn one_kind_does_not_keep_another_from_being_logged() {
        let mut log = EventLog::default();
        (0..1_000).for_each(|_| log.push(Nanos::ZERO, refusal()));
        let source = "192.0.2.1:8805".parse().unwrap();
        let why = DiscardReason::OutsidePeers;
        log.push(Nanos::ZERO, LogEvent::Discarded { source, why });
        let all: Vec<_> = std::iter::from_fn(|| log.poll(Nanos::ZERO)).collect();
        assert_eq!(all.len(), 17);
        assert_eq!(all[16], (LogEvent::Discarded { source, why }, 0));
    }
}
