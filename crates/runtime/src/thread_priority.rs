//! Threads that are less urgent than others.

use rustix::process::setpriority_process;
use tracing::debug;

/// What such a thread is nicer by: it gets about a quarter of what another one gets on the same core.
const NICE: i32 = 5;

/// From now on the calling thread, and those that it starts, leave cores to all others that want them. Where the system
/// does not allow it they go on as before.
pub fn lower_thread_priority() {
    // On Linux the priority is the thread's own.
    if let Err(error) = setpriority_process(None, NICE) {
        debug!(why = %error, "a thread's priority not lowered");
    }
}
