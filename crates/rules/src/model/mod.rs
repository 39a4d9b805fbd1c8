//! The rules of a PFCP session as owned values, named as in TS 29.244 and free of its encoding.
//!
//! `n4` makes them from IEs, `session` keeps one [`SessionRules`] for each session and edits it, `compile` turns it
//! into what a worker runs. Nothing here knows the wire, a worker or a packet.

mod application;
mod counters;
mod edit;
mod endpoint;
mod far;
mod ids;
mod pdr;
mod pool;
mod qer;
mod rest;
mod s_nssai;
mod session_rules;
mod urr;

pub use application::Application;
pub use edit::{
    BarUpdate, Edit, FarUpdate, ForwardingParametersUpdate, PdiUpdate, PdrUpdate, QerUpdate,
    SubsequentUpdate, UrrTermsUpdate, UrrUpdate,
};
pub use endpoint::{FramedRoutesUpdate, TrafficEndpoint, TrafficEndpointUpdate};
pub use far::{
    ApplyAction, Bar, DestinationInterface, Far, ForwardingParameters, OuterHeaderCreation, OuterHeaderKind,
    Redirect, Verb,
};
pub use ids::{BarId, CorrelationId, FarId, PdrId, QerId, RuleRef, SdfFilterId, TrafficEndpointId, UrrId};
pub use pdr::{
    FTeid, OuterHeader, OuterHeaderRemoval, Pdi, Pdr, Precedence, QerIds, Qfis, SdfFilter, SourceInterface,
    TosTrafficClass, UeIpAddress, UeIpAddresses, UrrIds,
};
pub use pool::{Aggregated, MAX_WEIGHT, Multiplier, PoolFault, PoolSlots};
pub use qer::{BitRates, BitsPerSecond, Gate, PacketRates, Qer};
pub use s_nssai::SNssai;
pub use session_rules::{EditError, EditFault, InactivityTimer, SessionRules};
pub use urr::{
    Bound, DroppedDlThreshold, MeasurementInformation, MeasurementMethod, MonitoringTime, ReportingTriggers,
    Subsequent, UnixSeconds, Urr, UrrTerms, Volume,
};

#[cfg(test)]
mod tests;
