//! The rules of a PFCP session as owned values, named as in TS 29.244 and independent of its encoding.
//!
//! `n4` makes them from IEs, `session` keeps one [`SessionRules`] for each session and edits it, `compile` turns it
//! into what a worker runs. Nothing here knows the wire, a worker, the compiler or the classifier.

mod access_list;
mod application;
mod credit_pool;
mod detection_pattern;
mod edit;
mod endpoint;
mod far;
mod fault;
mod host_rule;
mod ids;
mod interfaces;
mod measurement;
mod name_pattern;
mod pdr;
mod predefined;
mod qer;
mod qfis;
mod rule_ids;
mod rule_list;
mod rule_table;
mod rulebase;
mod s_nssai;
mod session_rules;
mod shadowed_rules;
mod shared_rules;
mod update;
mod urr;
mod urr_update;

pub use self::access_list::{
    AccessAction, AccessDecision, AccessEffect, AccessList, AccessRule, AccessRuleId, ConnectionPolicy,
    Filtering, TooManyFilters,
};
pub use self::application::{Application, NamedPfd, NamedPfds, NotAPfd};
pub use self::credit_pool::{Aggregated, MAX_WEIGHT, Multiplier, PoolFault};
pub use self::detection_pattern::{DetectionPattern, DetectionReads};
pub use self::edit::Edit;
pub use self::endpoint::{FramedRoutesUpdate, TrafficEndpoint, TrafficEndpointUpdate};
pub use self::far::{
    ApplyAction, Bar, ChosenNat, Far, ForwardingParameters, NatChoice, OptionalActions, OuterHeaderCreation,
    OuterHeaderKind, Redirect, Verb,
};
pub use self::fault::{Bound, EditError, EditFault};
pub use self::host_rule::HostRule;
pub use self::ids::{
    BarId, CorrelationId, FarId, PdrId, PolicyId, Precedence, QerId, RuleRef, TrafficEndpointId, UrrId,
};
pub use self::interfaces::{DestinationInterface, SourceInterface};
pub use self::measurement::{
    DroppedDlThreshold, MeasurementInformation, MeasurementMethod, MonitoringTime, ReportingTriggers,
    Subsequent, UnixSeconds, Volume,
};
pub use self::name_pattern::{InvalidName, NameKind, NamePattern};
pub use self::pdr::{
    FTeid, OptionalPdi, OuterHeader, OuterHeaderRemoval, Pdi, Pdr, UeIpAddress, UeIpAddresses,
};
pub use self::predefined::{Predefined, PredefinedError, Removed, RemovedName};
pub use self::qer::{BitRates, BitsPerSecond, Gate, OptionalRates, PacketRates, Qer};
pub use self::qfis::Qfis;
pub use self::rule_ids::RuleIds;
pub(crate) use self::rulebase::RuleAction;
pub use self::rulebase::{Content, PredefinedRule, Rulebase};
pub use self::s_nssai::SNssai;
pub use self::session_rules::{InactivityTimer, LocalPolicy, SessionRules};
pub use self::shadowed_rules::ShadowedRule;
pub use self::update::{BarUpdate, FarUpdate, ForwardingParametersUpdate, PdiUpdate, PdrUpdate, QerUpdate};
pub use self::urr::{Urr, UrrTerms};
pub use self::urr_update::{SubsequentUpdate, UrrTermsUpdate, UrrUpdate};
pub use crate::sdf::{SdfFilter, SdfFilterId, TosTrafficClass};

#[cfg(test)]
mod tests;
