//! States, failures, response times and reported usage.

use crate::Nanos;
use crate::tracker::{Latency, histogram};
use hdrhistogram::Histogram;
use packet::Teid;
use pfcp::Seid;
use pfcp::ie::{Cause, FailedRuleId, OffendingIe, VolumeMeasurement};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Why the SMF, or one session, got no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The UPF rejected the request.
    Rejected {
        /// Why.
        cause: Cause,
        /// The IE it complained of.
        offending: Option<OffendingIe>,
        /// The rule it complained of.
        rule: Option<FailedRuleId>,
    },
    /// A request had no response, N1 times T1 long.
    NoResponse,
    /// A response could not be decoded, or lacked its F-SEID or the F-TEID that was to be chosen.
    BadResponse,
    /// The UPF's Recovery Time Stamp changed: it has lost the sessions.
    PeerRestarted,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Rejected {
                cause,
                offending,
                rule,
            } => {
                write!(f, "rejected: {cause:?}")?;
                offending.map_or(Ok(()), |ie| write!(f, ", offending IE {}", ie.0))?;
                rule.map_or(Ok(()), |rule| write!(f, ", failed rule {rule:?}"))
            }
            Failure::NoResponse => f.write_str("no response"),
            Failure::BadResponse => f.write_str("the response cannot be used"),
            Failure::PeerRestarted => f.write_str("the UPF restarted"),
        }
    }
}

/// Where the SMF is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not started.
    Idle,
    /// The association is being set up.
    Associating,
    /// Sessions are being established and modified.
    Establishing,
    /// Nothing is left to do but to stay.
    Established,
    /// Sessions are being deleted.
    Releasing,
    /// The association is being released.
    Disassociating,
    /// Sessions and association are released.
    Released,
    /// The association failed.
    Failed(Failure),
}

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Not asked for yet, or the response is outstanding.
    Pending,
    /// Established; its downlink FAR has no tunnel yet.
    HalfUp,
    /// As the profile wants it.
    Up,
    /// Deleted.
    Deleted,
    /// A request failed.
    Failed(Failure),
}

/// The UPF's part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Where it is.
    pub stage: Stage,
    /// The SEID of the UPF's F-SEID; 0 before it is established.
    pub up_seid: Seid,
    /// The TEID that the UPF chose for uplink.
    pub uplink_teid: Teid,
    /// The IPv4 address of the uplink F-TEID.
    pub uplink_ipv4: Option<Ipv4Addr>,
    /// The IPv6 address of the uplink F-TEID.
    pub uplink_ipv6: Option<Ipv6Addr>,
}

impl Session {
    pub(super) const PENDING: Session = Session {
        stage: Stage::Pending,
        up_seid: Seid(0),
        uplink_teid: Teid(0),
        uplink_ipv4: None,
        uplink_ipv6: None,
    };

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        match self.stage {
            Stage::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    pub(super) fn is_at_peer(&self) -> bool {
        matches!(self.stage, Stage::HalfUp | Stage::Up)
    }
}

/// Requests of one kind that were accepted, and how fast.
#[derive(Debug, Clone)]
pub(super) struct Stopwatch {
    first: Option<Nanos>,
    last: Nanos,
    times: Histogram<u64>,
}

impl Stopwatch {
    pub(super) fn new() -> Stopwatch {
        Stopwatch {
            first: None,
            last: Nanos(0),
            times: histogram(),
        }
    }

    pub(super) fn begin(&mut self, now: Nanos) {
        self.first.get_or_insert(now);
    }

    pub(super) fn end(&mut self, now: Nanos, took: Duration) {
        self.last = now;
        self.times.saturating_record(took.as_nanos() as u64);
    }

    pub(super) fn report(&self) -> Pace {
        let time = self.first.map_or(Duration::ZERO, |first| self.last.since(first));
        let count = self.times.len();
        let per_second = if time.is_zero() {
            0.0
        } else {
            count as f64 / time.as_secs_f64()
        };
        Pace {
            count,
            time,
            per_second,
            response: Latency::of(&self.times),
        }
    }
}

/// How fast requests of one kind were accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How many.
    pub count: u64,
    /// From the first request to the last response.
    pub time: Duration,
    /// `count / time`.
    pub per_second: f64,
    /// From a request's first transmission to its response, ns.
    pub response: Latency,
}

/// Sum of the usage that the UPF reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Usage reports.
    pub reports: u64,
    /// Octets uplink.
    pub uplink_octets: u64,
    /// Octets downlink.
    pub downlink_octets: u64,
    /// Packets uplink, where the UPF reports them.
    pub uplink_packets: u64,
    /// Packets downlink, where the UPF reports them.
    pub downlink_packets: u64,
}

impl Usage {
    pub(super) fn add(&mut self, volume: Option<VolumeMeasurement>) {
        let volume = volume.unwrap_or_default();
        self.reports += 1;
        self.uplink_octets += volume.uplink.unwrap_or(0);
        self.downlink_octets += volume.downlink.unwrap_or(0);
        self.uplink_packets += volume.uplink_packets.unwrap_or(0);
        self.downlink_packets += volume.downlink_packets.unwrap_or(0);
    }
}

/// Progress so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Where the SMF is.
    pub state: State,
    /// Sessions as the profile wants them, now.
    pub up: u32,
    /// Sessions that failed.
    pub failed: u32,
    /// Requests that wait for their responses.
    pub outstanding: u32,
    /// Requests sent again.
    pub retransmissions: u64,
    /// Datagrams and messages that could not be read, or that answer no request.
    pub ignored: u64,
    /// Establishments.
    pub establishment: Pace,
    /// Modifications.
    pub modification: Pace,
    /// Deletions.
    pub deletion: Pace,
    /// Usage that the UPF counted.
    pub usage: Usage,
}
