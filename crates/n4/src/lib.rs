//! The N4 endpoint: PFCP associations, transactions, sessions and reports of a user plane function (TS 29.244).
//!
//! [`Endpoint`] belongs to control, one thread. Sans-IO: datagrams, time and the workers' answers go in by `handle_`
//! methods; datagrams, effects for the workers and the next moment of interest are polled out. It owns the
//! associations and, through [`session::Sessions`], all sessions; it has no sockets, threads or clock.
//!
//! What is accepted and not acted upon, since SMFs send it whether or not they need it, is listed in
//! `docs/compliance/`. What would let traffic pass otherwise than asked is refused: see
//! [`RuleFault`](session::RuleFault) and the features.

#![forbid(unsafe_code)]

mod absent_lists;
mod absent_sessions;
mod admission_queue;
mod association;
mod association_control;
mod association_release;
mod association_setup;
mod bundle;
mod cause;
mod config;
mod datagram;
mod datagram_counters;
mod downlink_notifications;
mod endpoint;
mod endpoint_state;
mod event_log;
mod features;
mod flow_descriptions;
mod heartbeat;
mod held_transmits;
mod ie_addresses;
mod journal;
mod kept_responses;
mod kept_usage;
mod last_usage;
mod load;
mod map;
mod message_counters;
mod named_sets;
mod node;
mod node_records;
mod node_reports;
mod own_requests;
mod path_supervision;
mod pending_requests;
mod pfd_management;
mod pfds;
mod releases;
mod report_outbox;
mod reporting;
mod response_cache;
mod restoring;
mod session_procedures;
mod session_reports;
mod session_responses;
mod session_sets;
mod session_transfer;
mod smf_sets;
mod source_filter;
mod standing_overload;
mod transactions;
mod usage_record_owners;
mod usage_report_ies;

pub use absent_lists::SessionKey;
pub use absent_sessions::{AbsentSessions, RecordFault, StoredSession, StoredSessions};
pub use admission_queue::{AdmissionLimits, AdmissionQueue, Turn};
pub use association::{Association, LostPeer};
pub use config::{Config, Peers, ReportLimits, Smf, UnknownInstance};
pub use datagram::Transmit;
pub use datagram_counters::Counters;
pub use endpoint::Endpoint;
pub use event_log::{AssociationEnd, DiscardReason, LogEvent, LogKind, PeerName};
pub use journal::Kept;
pub use message_counters::{MessageCount, MessageCounters, Refusals};
pub use node::NodeName;
pub use path_supervision::{Echo, PathSupervision};
pub use pfcp::Interfaces;
pub use pfds::ApplicationSummary;
pub use report_outbox::{DownlinkData, SessionEvent};
pub use session_transfer::{ExportError, Exported, ImportError, Imported};
pub use usage_record_owners::{UnacceptedUsage, UsageEntry};
