//! What a worker with an accelerator has beside its own.

use flow::SessionIndex;
use packet::MacAddr;
use rules::network::Policers;

use super::homes::Homes;
use super::network::NetworkObjects;
use super::policy::OffloadPolicy;

/// A worker's sessions that an accelerator passes, or may.
pub(crate) struct Offload {
    pub homes: Homes,
    pub network: NetworkObjects,
    /// What a command waits for: the counts of a session, and whether they are there.
    pub awaited: Option<(SessionIndex, bool)>,
}

impl Offload {
    /// All sessions at home, of a worker that shares the accelerator with as many others as there are workers: with its
    /// own ports, the addresses of all ports, and room for neighbours.
    pub fn new(
        sessions: usize,
        policy: (OffloadPolicy, u16),
        ports: (usize, &[MacAddr], usize),
        policers: &Policers,
    ) -> Self {
        Self {
            homes: Homes::new(sessions, policy),
            network: NetworkObjects::new(ports, policers.chains()),
            awaited: None,
        }
    }
}
