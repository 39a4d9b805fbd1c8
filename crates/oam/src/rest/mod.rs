//! The operator's API: REST over HTTP/1.1 on a Unix socket, and over TLS (feature `tls`).
//!
//! A thread of its own serves it, with an async runtime that no other thread uses. It reads what workers publish
//! itself; it queries the control thread for the rest over a bounded channel ([`QueryServer`]), a page or a session at
//! a time, so that neither packets nor PFCP wait for a client. The router is independent of the socket.

mod accelerator_node;
mod alarm_stream;
mod answer;
mod auditor;
mod authorization;
mod caller;
mod client;
mod configuration;
mod connections;
mod document;
mod ending;
mod explainer_cell;
mod forward;
#[cfg(feature = "tls")]
mod https;
mod impatient;
mod inspections;
mod live;
mod parameters;
mod problem;
mod query;
mod request;
mod request_body;
mod routes;
mod screening;
mod service;
mod session_transfer;
mod socket;
mod stream_places;
mod trace;

pub use accelerator_node::{ACCELERATOR_NODE, accelerator_node_router};
pub use auditor::Auditor;
pub use caller::{Caller, PeerAddress};
pub use client::{ApiRequest, ClientError, ResponseLimits, Submission, ask, fetch, get, stream, submit};
pub use config::CallerRole as Role;
pub use forward::Forwarder;
#[cfg(feature = "tls")]
pub use https::{CertificateError, CertificateSummary, Certificates, HttpsListener, HttpsSources};
pub use query::{QueryClient, QueryServer, query_channel};
pub use routes::{document, router};
pub use service::{Reader, Service, WorkerGauges};
pub use socket::{Access, RestSocket, default_path};
