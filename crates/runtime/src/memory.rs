//! Memory for control's books: touched by a thread of its own before control comes to it.

use std::thread;

use dpdk::Ahead;
use tracing::{debug, warn};

/// Octets of addresses for each session: more than any takes. Addresses cost nothing.
const PER_SESSION: usize = 16 << 10;

/// Has memory ready for so many sessions. Where the system does not do that, control touches its memory itself, and is
/// slower.
pub fn keep_memory_ahead(sessions: usize) {
    let ahead = match Ahead::reserve(sessions.saturating_mul(PER_SESSION)) {
        Ok(ahead) => ahead,
        Err(error) => return debug!("no memory ahead of its use: {error}"),
    };
    let body = move || {
        if let Err(error) = ahead.serve() {
            warn!("memory is not touched ahead of its use any more: {error}");
        }
    };
    if let Err(error) = thread::Builder::new().name("memory".into()).spawn(body) {
        warn!("memory is not touched ahead of its use: {error}");
    }
}
