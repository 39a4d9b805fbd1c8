//! Threads that are less urgent than others.

use rustix::process::{getpriority_process, setpriority_process};
use tracing::debug;

/// What such a thread is nicer by: it gets about a tenth of what another one gets on the same core.
const NICER_BY: i32 = 10;
/// The nicest that a thread can be.
const NICEST: i32 = 19;

/// From now on the calling thread, and those that it starts, leave cores to all others that want them. Where the system
/// does not allow it they have the priority that they had.
pub fn lower_thread_priority() {
    // On Linux the priority is the thread's own.
    let lowered = getpriority_process(None)
        .and_then(|nice| setpriority_process(None, nice.saturating_add(NICER_BY).min(NICEST)));
    if let Err(error) = lowered {
        debug!(why = %error, "a thread's priority not lowered");
    }
}
