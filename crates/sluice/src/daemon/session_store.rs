//! Sessions that outlive the process: a queue from control's thread, a thread that writes them to the store, and what
//! was in the store when the daemon started.
//!
//! Control never waits for the disk. The writer encodes what control gives it, has the store make it durable, one sync
//! for all that has come, and notifies control how far that is.

mod boot;
mod opening;
mod queue;
mod restoration_log;
mod writer;

use std::time::Duration;

use config::{Config, StoreConfig};
use n4::ImportError;
use runtime::{Clock, Wakeup};
use tracing::{error, info};
use upf::Control;

use boot::Boot;
pub use opening::{OpenedStore, Opening};
pub use queue::StoreView;
pub use restoration_log::RestorationLog;
pub use writer::StoreThread;

/// Keeps sessions in the store, and has those come back that it had.
///
/// # Errors
/// The store is of another node, or the system gives no thread.
pub fn keep_sessions(
    config: &Config,
    control: &mut Control,
    clock: &Clock,
    wakeup: Wakeup,
    opened: OpenedStore,
) -> Result<(StoreThread, StoreView), String> {
    let OpenedStore {
        store,
        stored,
        absent,
    } = opened;
    let (now, boot) = (clock.now(), Boot::of(clock));
    if let Some(wall) = boot.decode(&stored.dates) {
        control.session_keeping(now).resume_wall(wall);
    }
    let mut other_node = None;
    let imported = control
        .session_transfer(now)
        .import_all(&stored.records, |why| match why {
            ImportError::OtherNode(_) => other_node = Some(why),
            why => error!(%why, "session store: record not imported"),
        });
    if let Some(why) = other_node {
        return Err(format!("session store: {why}"));
    }
    // Only now: the log of another node is left as it is.
    let settings = config.store.as_ref();
    let deadline = settings.map_or(Duration::from_secs(1), StoreConfig::deadline);
    let directory = settings.map(|store| store.directory.value.display().to_string());
    let started = StoreThread::start(store, directory.unwrap_or_default(), deadline, wakeup, boot);
    let (thread, feed, view) = started.map_err(|error| error.to_string())?;
    let sessions = absent.len();
    if imported.associations > 0 {
        info!(
            sessions,
            associations = imported.associations,
            "sessions being restored"
        );
    }
    let mut keeping = control.session_keeping(now);
    keeping.begin(Box::new(feed));
    keeping.restore(absent);
    keeping.restore_responses(stored.responses);
    Ok((thread, view))
}
