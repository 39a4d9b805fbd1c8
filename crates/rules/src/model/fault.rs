//! Why an edit of a session's rules is refused.

use core::fmt;

use super::ids::{FarId, RuleRef, TrafficEndpointId};
use super::measurement::MeasurementMethod;

/// An edit that cannot be made: which rule, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EditError {
    /// The rule that the request named.
    pub rule: RuleRef,
    /// What is wrong with it.
    pub fault: EditFault,
}

/// What is wrong with an edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EditFault {
    /// A rule to be created is there already.
    Exists,
    /// A rule to be changed or removed is not there.
    Unknown,
    /// A PDR names a Traffic Endpoint that is not there.
    NoEndpoint(TrafficEndpointId),
    /// A rule to be created or changed has the number of one that is predefined (TS 29.244 §5.4.9).
    Predefined,
    /// A URR is given a threshold or a quota of what it does not measure (TS 29.244 Table 7.5.4.4-1).
    Unmeasured(Bound),
    /// A FAR chooses other public addresses than another FAR of the session: a session has one pool.
    OtherNat(FarId),
    /// A URR has subsequent thresholds or quotas, and no Monitoring Time.
    NoMonitoringTime,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            EditFault::Exists => write!(f, "{} exists already", self.rule),
            EditFault::Unknown => write!(f, "{} does not exist", self.rule),
            EditFault::Predefined => write!(f, "{} is predefined", self.rule),
            EditFault::Unmeasured(bound) => {
                let kind = if bound.is_quota { "a quota" } else { "a threshold" };
                write!(f, "{} gets {kind} of what it does not measure", self.rule)
            }
            EditFault::OtherNat(other) => {
                write!(
                    f,
                    "{} chooses other public addresses than FAR {}",
                    self.rule, other.0
                )
            }
            EditFault::NoMonitoringTime => write!(f, "{} has no Monitoring Time", self.rule),
            EditFault::NoEndpoint(id) => {
                write!(
                    f,
                    "{} names Traffic Endpoint {id}, which does not exist",
                    self.rule
                )
            }
        }
    }
}

impl core::error::Error for EditError {}

/// A threshold or a quota of a URR: by what it is measured, and when it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bound {
    /// What it bounds: one of the three methods.
    pub of: MeasurementMethod,
    /// Whether it is a quota, and not a threshold.
    pub is_quota: bool,
    /// Whether it holds from a monitoring time on.
    pub is_subsequent: bool,
}

/// Which bounds there are: threshold, quota, and both from a monitoring time on.
pub(super) struct Bounds {
    pub(super) volume: [bool; 4],
    pub(super) time: [bool; 4],
    pub(super) events: [bool; 4],
}

impl Bounds {
    /// The first that a rule which measures by `method` cannot have (TS 29.244 Table 7.5.2.4-1).
    pub(super) fn unmeasured(&self, method: MeasurementMethod) -> Option<Bound> {
        let all = [
            (MeasurementMethod::VOLUM, self.volume),
            (MeasurementMethod::DURAT, self.time),
            (MeasurementMethod::EVENT, self.events),
        ];
        let mut unmeasured = all.into_iter().filter(|(of, _)| !method.contains(*of));
        unmeasured.find_map(|(of, there)| {
            let place = there.iter().position(|there| *there)?;
            Some(Bound {
                of,
                is_quota: place % 2 == 1,
                is_subsequent: place >= 2,
            })
        })
    }
}
