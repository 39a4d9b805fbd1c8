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
use flow::Nanos;
use n4::ImportError;
use runtime::{Clock, Wakeup};
use session::{ResponseRecord, UnacknowledgedUsage};
use store::Key;
use tracing::{error, info};
use upf::Control;

use boot::Boot;
use opening::RestOfSessions;
pub use opening::{OpenedStore, Opening};
pub use queue::StoreView;
pub use restoration_log::RestorationLog;
pub use writer::StoreThread;

/// Keeps sessions in the store, and has those come back that it had. Gives also what control does not know yet, if
/// there is something.
///
/// # Errors
/// The store is of another node, or the system gives no thread.
pub fn keep_sessions(
    config: &Config,
    control: &mut Control,
    clock: &Clock,
    wakeup: Wakeup,
    opened: OpenedStore,
) -> Result<(StoreThread, StoreView, Option<Listing>), String> {
    let OpenedStore {
        mut store,
        stored,
        first,
        unlisted,
        rest,
    } = opened;
    let (now, boot) = (clock.now(), Boot::of(clock));
    if let Some(wall) = boot.decode(&stored.dates) {
        control.session_keeping(now).resume_wall(wall);
    }
    let mut damaged = stored.damaged;
    let last_usage = read_last_usage(control, stored.last_usage, &mut damaged);
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
    for key in &damaged {
        store.remove(Duration::ZERO, key);
    }
    let settings = config.store.as_ref();
    let deadline = settings.map_or(Duration::from_secs(1), StoreConfig::deadline);
    let directory = settings.map(|store| store.directory.value.display().to_string());
    let started = StoreThread::start(store, directory.unwrap_or_default(), deadline, wakeup, boot);
    let (thread, feed, view) = started.map_err(|error| error.to_string())?;
    let sessions = first.len() + unlisted;
    if imported.associations > 0 {
        info!(
            sessions,
            associations = imported.associations,
            "sessions being restored"
        );
    }
    let mut keeping = control.session_keeping(now);
    keeping.begin(Box::new(feed));
    keeping.restore(first, unlisted);
    let responses = stored.responses;
    if unlisted == 0 {
        keeping.restore_responses(responses);
        keeping.restore_last_usage(last_usage);
        return Ok((thread, view, None));
    }
    let listing = Listing {
        rest,
        responses,
        last_usage,
    };
    Ok((thread, view, Some(listing)))
}

/// Usage of sessions that are gone, when the dates of moments are known; what cannot be read is `damaged`, too.
fn read_last_usage(
    control: &Control,
    records: Vec<(Key, Vec<u8>)>,
    damaged: &mut Vec<Key>,
) -> Vec<UnacknowledgedUsage> {
    let wall = control.endpoint().sessions().wall();
    let read = |(key, octets): (Key, Vec<u8>)| {
        let read = UnacknowledgedUsage::decode(&octets, wall);
        if let Err(error) = &read {
            error!("session store: {key:?} passed over: {error}");
            damaged.push(key);
        }
        read.ok()
    };
    records.into_iter().filter_map(read).collect()
}

/// What a store had that control does not know yet: the sessions that are being listed, and what needs all sessions.
pub struct Listing {
    rest: RestOfSessions,
    responses: Vec<ResponseRecord>,
    last_usage: Vec<UnacknowledgedUsage>,
}

impl Listing {
    /// Gives control what is left of the store, once it is listed; or this again.
    ///
    /// # Errors
    /// What is wrong with the store.
    pub fn end(self, now: Nanos, control: &mut Control) -> Result<Option<Self>, String> {
        if !self.rest.is_listed() {
            return Ok(Some(self));
        }
        let rest = self.rest.end()?;
        let mut keeping = control.session_keeping(now);
        keeping.restore_rest(rest);
        keeping.restore_responses(self.responses);
        keeping.restore_last_usage(self.last_usage);
        Ok(None)
    }
}
