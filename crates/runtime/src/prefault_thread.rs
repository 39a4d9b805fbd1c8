//! The thread that touches (prefaults) the allocator's memory before control uses it for sessions.

use std::thread;

use dpdk::AllocatorPrefault;
use tracing::{debug, warn};

/// Octets of address space reserved per session: more than a session uses. Unused address space takes no memory.
const OCTETS_PER_SESSION: usize = 16 << 10;

/// Reserves address space for this number of sessions, and starts the thread `memory` that prefaults it. Without
/// kernel support a log line is written, and control's own page faults make new sessions slower.
pub fn spawn_prefault_thread(sessions: usize) {
    let prefault = match AllocatorPrefault::reserve(sessions.saturating_mul(OCTETS_PER_SESSION)) {
        Ok(prefault) => prefault,
        Err(error) => return debug!(why = %error, "memory not prefaulted"),
    };
    let body = move || {
        if let Err(error) = prefault.serve() {
            warn!(why = %error, "memory no longer prefaulted");
        }
    };
    if let Err(error) = thread::Builder::new().name("memory".into()).spawn(body) {
        warn!(why = %error, "memory not prefaulted");
    }
}
