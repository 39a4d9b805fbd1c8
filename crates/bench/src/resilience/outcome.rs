//! All results.

use serde::Serialize;

use super::super::pfcp::Round;
use super::charging::Charging;
use super::establishments::Establishments;
use super::restart::Restart;
use super::storage::Storage;

/// Results of T17's part about the store.
#[derive(Clone, Debug, Serialize)]
pub struct Resilience {
    /// Sessions resident.
    pub sessions: u32,
    /// Sessions with traffic.
    pub active: u32,
    /// Packets a second that were to be sent, of all of them together.
    pub rate: u32,
    /// Octets of a user packet, as URRs count them.
    pub packet_octets: usize,
    /// Seconds between checkpoints.
    pub checkpoint_s: u32,
    /// Where the stores were.
    pub directory: String,
    /// Nanoseconds of a write and a sync of 64 KiB there, before the sessions: the median of 31.
    pub sync_nanos: u64,
    /// The establishment of all sessions.
    pub filling: Round,
    /// The store with all sessions.
    pub storage: Storage,
    /// Traffic without a kill: what is charged of it, and that nothing is lost.
    pub undisturbed: Charging,
    /// Each kill.
    pub restarts: Vec<Restart>,
    /// Establishments with a store and without.
    pub establishments: Option<Establishments>,
}
