//! The one mapping from errors to what a rejection says: Cause, Offending IE, Failed Rule ID.

use pfcp::ie::{Cause, FailedRuleId};
use pfcp::{IeType, ie};
use rules::image::CompileFault;
use rules::model::{Bound, EditFault, MeasurementMethod, PoolFault, RuleRef};
use session::{Refusal, RuleFault};

/// A rejection, ready to be put into a response (TS 29.244 §7.6, §8.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    pub(crate) cause: Cause,
    pub(crate) offending: Option<IeType>,
    pub(crate) rule: Option<FailedRuleId>,
}

impl Reject {
    pub(crate) const fn of(cause: Cause) -> Reject {
        Reject {
            cause,
            offending: None,
            rule: None,
        }
    }

    pub(crate) const fn ie(cause: Cause, offending: IeType) -> Reject {
        Reject {
            cause,
            offending: Some(offending),
            rule: None,
        }
    }

    /// A rule that asks for what this node does not do, or that cannot be applied.
    pub(crate) fn rule(rule: impl Into<RuleRef>) -> Reject {
        let cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;
        Reject {
            cause,
            offending: None,
            rule: failed(rule.into()),
        }
    }

    /// The same with another cause.
    pub(crate) const fn because(mut self, cause: Cause) -> Reject {
        self.cause = cause;
        self
    }

    /// The same with an offending IE.
    pub(crate) const fn offends(mut self, offending: IeType) -> Reject {
        self.offending = Some(offending);
        self
    }
}

impl From<pfcp::Error> for Reject {
    fn from(error: pfcp::Error) -> Reject {
        Reject {
            cause: error.cause,
            offending: error.offending,
            rule: None,
        }
    }
}

/// What a refused request on a session is answered with. A restoration (RESTI) has a cause of its own.
pub(crate) fn reject(refusal: Refusal, restores: bool) -> Reject {
    match refusal {
        Refusal::NotFound | Refusal::Gone => Reject::of(Cause::SESSION_CONTEXT_NOT_FOUND),
        Refusal::NoResources => Reject::of(Cause::NO_RESOURCES_AVAILABLE),
        Refusal::NoAddress => Reject::of(Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED),
        // The session cannot leave its workers; one that is set up anew comes to others.
        Refusal::OtherWorkers => Reject::of(Cause::REQUEST_REJECTED),
        Refusal::Busy => Reject::of(Cause::PFCP_ENTITY_IN_CONGESTION),
        Refusal::TooLate | Refusal::Worker => Reject::of(Cause::SYSTEM_FAILURE),
        Refusal::Rule { rule, fault } => rule_fault(rule, fault, restores),
    }
}

fn rule_fault(rule: RuleRef, fault: RuleFault, restores: bool) -> Reject {
    let rejected = Reject::rule(rule);
    match fault {
        RuleFault::ChosenByPeer => rejected
            .because(Cause::INVALID_F_TEID_ALLOCATION_OPTION)
            .offends(IeType::F_TEID),
        RuleFault::TunnelTaken | RuleFault::AddressTaken | RuleFault::Compile(CompileFault::NotLocal(_))
            if restores =>
        {
            rejected.because(Cause::RESTORATION_RESOURCE_NOT_AVAILABLE)
        }
        RuleFault::Compile(fault) => compile_fault(rejected, fault),
        RuleFault::Edit(EditFault::NoEndpoint(_)) => rejected.offends(IeType::TRAFFIC_ENDPOINT_ID),
        RuleFault::Edit(EditFault::Unmeasured(bound)) => rejected.offends(bound_ie(bound)),
        RuleFault::Edit(EditFault::OtherNat(_)) => rejected.offends(IeType::FORWARDING_PARAMETERS),
        RuleFault::Edit(EditFault::NoMonitoringTime) => rejected
            .because(Cause::CONDITIONAL_IE_MISSING)
            .offends(IeType::MONITORING_TIME),
        RuleFault::Edit(_) if matches!(rule, RuleRef::Endpoint(_)) => {
            Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::TRAFFIC_ENDPOINT_ID)
        }
        RuleFault::ChosenElsewhere => rejected.offends(IeType::F_TEID),
        RuleFault::NoPool => rejected.offends(IeType::UE_IP_ADDRESS),
        RuleFault::Edit(_)
        | RuleFault::TunnelTaken
        | RuleFault::AddressTaken
        | RuleFault::NoLocalAddress
        | RuleFault::ChooseInUpdate
        | RuleFault::UnknownUrr
        | RuleFault::UnknownQer => rejected,
    }
}

fn compile_fault(rejected: Reject, fault: CompileFault) -> Reject {
    match fault {
        CompileFault::NoFar => rejected
            .because(Cause::CONDITIONAL_IE_MISSING)
            .offends(IeType::FAR_ID),
        CompileFault::ApplyAction => rejected
            .because(Cause::MANDATORY_IE_INCORRECT)
            .offends(IeType::APPLY_ACTION),
        CompileFault::FTeidIncomplete | CompileFault::NotLocal(_) => rejected
            .because(Cause::MANDATORY_IE_INCORRECT)
            .offends(IeType::F_TEID),
        CompileFault::NoDuplicate => rejected
            .because(Cause::CONDITIONAL_IE_MISSING)
            .offends(IeType::DUPLICATING_PARAMETERS),
        CompileFault::HeaderIncomplete => rejected
            .because(Cause::MANDATORY_IE_INCORRECT)
            .offends(IeType::OUTER_HEADER_CREATION),
        CompileFault::UnsupportedHeader => rejected.offends(IeType::OUTER_HEADER_CREATION),
        CompileFault::UnsupportedRemoval => rejected.offends(IeType::OUTER_HEADER_REMOVAL),
        CompileFault::NoLinkedUrr(_) => rejected.offends(IeType::LINKED_URR_ID),
        CompileFault::NoQuotaAction(_) => rejected.offends(IeType::FAR_ID),
        CompileFault::Pool(fault) => rejected.offends(match fault {
            PoolFault::NoUrr(_) | PoolFault::Twice(_) | PoolFault::Nested(_) => IeType::AGGREGATED_URRS,
            PoolFault::Uneven(_) => IeType::MULTIPLIER,
            PoolFault::Method => IeType::MEASUREMENT_METHOD,
            PoolFault::Information => IeType::MEASUREMENT_INFORMATION,
            PoolFault::Triggers => IeType::REPORTING_TRIGGERS,
            PoolFault::Inactivity => IeType::INACTIVITY_DETECTION_TIME,
        }),
        CompileFault::NoEvents(_) => rejected.offends(IeType::MEASUREMENT_METHOD),
        CompileFault::TwoMarks => rejected.offends(IeType::DL_FLOW_LEVEL_MARKING),
        CompileFault::GbrAboveMbr => rejected.offends(IeType::GBR),
        CompileFault::Correlated => rejected.offends(IeType::QER_CORRELATION_ID),
        CompileFault::UndefinedFilter(_) => rejected.offends(IeType::SDF_FILTER),
        CompileFault::Missing(rule) if rule.is_predefined() => {
            rejected.because(Cause::UNKNOWN_PREDEFINED_RULE)
        }
        fault if fault.is_resource() => rejected.because(Cause::NO_RESOURCES_AVAILABLE),
        _ => rejected,
    }
}

/// The IE that a threshold or a quota is.
fn bound_ie(bound: Bound) -> IeType {
    let all = match bound.of {
        MeasurementMethod::VOLUM => [
            IeType::VOLUME_THRESHOLD,
            IeType::VOLUME_QUOTA,
            IeType::SUBSEQUENT_VOLUME_THRESHOLD,
            IeType::SUBSEQUENT_VOLUME_QUOTA,
        ],
        MeasurementMethod::DURAT => [
            IeType::TIME_THRESHOLD,
            IeType::TIME_QUOTA,
            IeType::SUBSEQUENT_TIME_THRESHOLD,
            IeType::SUBSEQUENT_TIME_QUOTA,
        ],
        _ => [
            IeType::EVENT_THRESHOLD,
            IeType::EVENT_QUOTA,
            IeType::SUBSEQUENT_EVENT_THRESHOLD,
            IeType::SUBSEQUENT_EVENT_QUOTA,
        ],
    };
    all[usize::from(bound.is_quota) + 2 * usize::from(bound.is_subsequent)]
}

/// What a Failed Rule ID says; it does not know of Traffic Endpoints.
fn failed(rule: RuleRef) -> Option<FailedRuleId> {
    Some(match rule {
        RuleRef::Pdr(id) => FailedRuleId::Pdr(ie::PdrId(id.0)),
        RuleRef::Far(id) => FailedRuleId::Far(ie::FarId(id.0)),
        RuleRef::Qer(id) => FailedRuleId::Qer(ie::QerId(id.0)),
        RuleRef::Urr(id) => FailedRuleId::Urr(ie::UrrId(id.0)),
        RuleRef::Bar(id) => FailedRuleId::Bar(ie::BarId(id.0)),
        RuleRef::Endpoint(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::model::{FarId, PdrId};

    #[test]
    fn a_rule_that_fails_is_named() {
        let refusal = Refusal::Rule {
            rule: FarId(7).into(),
            fault: RuleFault::Edit(EditFault::Unknown),
        };
        let expected = Reject {
            cause: Cause::RULE_CREATION_MODIFICATION_FAILURE,
            offending: None,
            rule: Some(FailedRuleId::Far(ie::FarId(7))),
        };
        assert_eq!(reject(refusal, false), expected);
    }

    #[test]
    fn restoration_has_its_own_cause() {
        let refusal = Refusal::Rule {
            rule: PdrId(1).into(),
            fault: RuleFault::TunnelTaken,
        };
        assert_eq!(
            reject(refusal, true).cause,
            Cause::RESTORATION_RESOURCE_NOT_AVAILABLE
        );
        assert_eq!(
            reject(refusal, false).cause,
            Cause::RULE_CREATION_MODIFICATION_FAILURE
        );
    }

    #[test]
    fn every_rejection_rejects() {
        for refusal in [
            Refusal::NotFound,
            Refusal::Gone,
            Refusal::NoResources,
            Refusal::Busy,
            Refusal::OtherWorkers,
            Refusal::TooLate,
            Refusal::Worker,
            Refusal::Rule {
                rule: PdrId(1).into(),
                fault: RuleFault::ChosenByPeer,
            },
            Refusal::Rule {
                rule: PdrId(1).into(),
                fault: RuleFault::Compile(CompileFault::NoFar),
            },
        ] {
            assert!(!reject(refusal, false).cause.is_accepted(), "{refusal}");
        }
    }
}
