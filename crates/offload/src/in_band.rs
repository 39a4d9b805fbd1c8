//! The backend that is driven in-band: [`InBand`] at the host, [`Agent`] at the accelerator, a channel between them.
//!
//! A contact is the life of what the accelerator holds: with each new one it begins with nothing, and says so
//! ([`Event::BackendReset`](flow::contract::Event::BackendReset)). So the host never has to find out what of its last
//! requests has arrived.

mod agent;
mod host;

pub use agent::{Agent, AgentStats, greeting};
pub use host::{InBand, InBandStats, host_greeting};
