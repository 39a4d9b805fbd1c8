//! The backend that is driven in-band: [`InBand`] at the host, [`Agent`] at the accelerator, a channel between them.
//!
//! A contact is the life of what the accelerator holds of it: it begins with nothing, and says so
//! ([`Event::BackendReset`](flow::contract::Event::BackendReset)). So the host never has to find out what of its last
//! requests has arrived. A host with several workers has a channel for each of them: what one gave of
//! sessions ends with its contact.

mod agent;
mod host;
mod ownership;
mod said_of_node;
mod unanswered;

pub use agent::{Agent, AgentStats, greeting};
pub use host::{InBand, InBandStats, host_greeting};
