//! Memory for control's books: touched by a thread of its own before control comes to it.

use std::thread;

use dpdk::Ahead;
use tracing::{debug, warn};

/// Octets of addresses for each session: more than any takes. Addresses cost nothing.
const PER_SESSION: usize = 16 << 10;

/// Has memory ready for this number of sessions. Where the system does not do that, control touches its memory itself, and is
/// slower.
pub fn keep_memory_ahead(sessions: usize) {
    let ahead = match Ahead::reserve(sessions.saturating_mul(PER_SESSION)) {
        Ok(ahead) => ahead,
        Err(error) => return debug!(why = %error, "memory not prefaulted"),
    };
    let body = move || {
        if let Err(error) = ahead.serve() {
            warn!(why = %error, "memory no longer prefaulted");
        }
    };
    if let Err(error) = thread::Builder::new().name("memory".into()).spawn(body) {
        warn!(why = %error, "memory not prefaulted");
    }
}
