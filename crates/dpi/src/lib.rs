//! Deep packet inspection: the host that a flow is for, from its first packets.
//!
//! [`Inspector`] looks at the first payloads of flows and gives one [`Verdict`] for each. Below it are parsers of
//! the protocols that name a host in clear or under keys that all can derive: [`tls`], [`quic`], [`http1`]. [`dns`]
//! gives the addresses of names, [`heuristics`] recognises protocols without names. [`hosts::HostTable`] says which
//! applications a host is of, [`domain_lists::DomainLists`] of which categories of content.
//!
//! It is sans-IO: payloads and the time are passed in. It knows no sessions, rules or flow tables; owners and flows are
//! numbers of the caller. Nothing is allocated for a packet: all memory is there from the start, and each owner has at
//! most its share of it. What comes from a network neither panics nor loops without bound.
//!
//! ```
//! use dpi::hosts::{ApplicationIndex, HostTableBuilder};
//! use dpi::{Inspector, Layer4, Sender, Settings, Transport, Verdict};
//!
//! let mut rules = HostTableBuilder::default();
//! rules.add(".example.com", "/video", ApplicationIndex(3)).unwrap();
//! let (rules, _) = rules.build(0x5eed);
//!
//! let mut inspector = Inspector::new(Settings::default());
//! let flow = inspector.open(0, 0, Transport::Tcp, 0).unwrap();
//! let payload = b"GET /video/1 HTTP/1.1\r\nHost: www.example.com\r\n\r\n";
//! let packet = Layer4::Tcp { sequence: 1, has_syn: false, payload };
//! let Verdict::Found(found) = inspector.inspect(flow, Sender::Initiator, &packet) else { panic!() };
//! let host = found.host.unwrap();
//! let path = found.path.as_ref().map(|path| path.as_bytes());
//! assert_eq!(rules.lookup(&host, path).next(), Some(ApplicationIndex(3)));
//! ```

#![forbid(unsafe_code)]

pub mod dns;
pub mod domain_lists;
mod fault;
pub mod heuristics;
mod host_name;
pub mod hosts;
pub mod http1;
mod inspector;
mod ndpi;
mod protocols;
pub mod quic;
mod reader;
pub mod reassembly;
pub mod shares;
mod suffixes;
pub mod tls;
mod verdict;

pub use fault::Fault;
pub use host_name::{HostKind, HostName, InvalidName, LONGEST_LABEL, LONGEST_NAME};
pub use inspector::{FlowIndex, Inspector, Layer4, NotOpened, Sender, Settings, Transport};
pub use ndpi::{NdpiId, NdpiProtocol};
pub use protocols::{NotAProtocol, Protocols};
pub use verdict::{Found, PathStart, Protocol, Reason, Verdict};
