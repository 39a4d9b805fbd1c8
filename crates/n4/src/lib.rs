//! The N4 endpoint: PFCP associations, transactions, sessions and reports of a user plane function (TS 29.244).
//!
//! [`Endpoint`] belongs to control, one thread. Sans-IO: datagrams, time and the workers' answers go in by `handle_`
//! methods; datagrams, effects for the workers and the next moment of interest are polled out. It owns the
//! associations and, through [`session::Sessions`], all sessions; it has no sockets, threads or clock.
//!
//! What is accepted and not acted upon, since SMFs send it whether or not they need it, `docs/compliance/` tells. What
//! would let traffic pass otherwise than asked is refused: see [`RuleFault`](session::RuleFault) and the features.

#![forbid(unsafe_code)]

mod answers;
mod association;
mod bundle;
mod cause;
mod config;
mod counters;
mod descriptions;
mod downlink;
mod endpoint;
mod features;
mod heartbeat;
mod intake;
mod ledger;
mod load;
mod map;
mod news;
mod node;
mod node_report;
mod paths;
mod pfds;
mod release;
mod remainder;
mod reports;
mod requests;
mod serve;
mod serve_association;
mod serve_pfds;
mod serve_release;
mod serve_report;
mod serve_session;
mod sets;
mod setup;
mod sources;
mod traffic;
mod transfer;
mod transmit;
mod usage;

pub use association::Association;
pub use config::{Config, Peers, Smf, UnknownInstance};
pub use counters::Counters;
pub use endpoint::Endpoint;
pub use intake::{Intake, IntakeLimits};
pub use ledger::{Untaken, UsageEntry};
pub use news::{Lost, News, NewsKind, NotTaken, PeerName};
pub use node::NodeName;
pub use paths::{Echo, PathSupervision};
pub use pfcp::Interfaces;
pub use reports::{DownlinkData, ReportLimits, SessionEvent};
pub use traffic::{MessageCount, Traffic};
pub use transfer::{ExportError, Exported, ImportError, Imported};
pub use transmit::Transmit;
