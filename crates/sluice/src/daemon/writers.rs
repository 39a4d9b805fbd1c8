//! What writes to disks beside control: usage records and the session store.

use std::io;
use std::time::Duration;

use records::{Directory, Entry, ProcessStart, Recovered, Spool};
use session::Moment;
use tracing::{error, info, warn};

use config::{Config, RecordsConfig};
use runtime::{Clock, Wakeup};
use upf::{Control, RecordSink};

use super::nat_log::NatLogThread;
use super::records::{Feed, RecordsThread, RecordsView};
use super::session_store::{self, Listing, OpenedStore, Opening, StoreThread, StoreView};

/// How what writes to disks stands, for the API and alarms.
#[derive(Clone)]
pub(super) struct WriterViews {
    /// The usage records, where there are any.
    pub(super) records: Option<RecordsView>,
    /// The store of sessions, where there is one.
    pub(super) store: Option<StoreView>,
}

/// What writes to disks beside control, opened and not started.
pub(super) struct OpenedWriters {
    records: Option<(RecordsThread, Feed, RecordsView)>,
    store: Option<OpenedStore>,
}

impl OpenedWriters {
    /// Opens what the configuration has; the store is being opened already.
    ///
    /// # Errors
    /// What keeps one from being opened.
    pub fn open(config: &Config, clock: &Clock, store: Option<Opening>) -> Result<Self, String> {
        let records = config.records.as_ref();
        let records = records.map(|records| open_records(records, clock));
        Ok(Self {
            records: records.transpose()?,
            store: store.map(Opening::end).transpose()?,
        })
    }

    /// Starts the threads, and has control give them what they write. Gives also what the store had that control does
    /// not know yet.
    ///
    /// # Errors
    /// The store is of another node, or the system gives no thread.
    pub fn start(
        self,
        config: &Config,
        control: &mut Control,
        clock: &Clock,
        wakeup: Wakeup,
    ) -> Result<(Writers, WriterViews, Option<Listing>), String> {
        let (records, records_view) = self.records.map_or((None, None), |(thread, feed, view)| {
            keep_records(config, control, clock, feed);
            (Some(thread), Some(view))
        });
        let store = self
            .store
            .map(|store| session_store::keep_sessions(config, control, clock, wakeup, store));
        let (store, store_view, listing) = match store.transpose()? {
            Some((store, view, listing)) => (Some(store), Some(view), listing),
            None => (None, None, None),
        };
        let views = WriterViews {
            records: records_view,
            store: store_view,
        };
        let nat_log = log_port_blocks(config, control, clock)?;
        let writers = Writers {
            records,
            store,
            nat_log,
        };
        Ok((writers, views, listing))
    }
}

/// What writes to disks beside control.
pub(super) struct Writers {
    records: Option<RecordsThread>,
    store: Option<StoreThread>,
    nat_log: Option<NatLogThread>,
}

impl Writers {
    /// Has what is left written.
    pub fn end(self) {
        if let Some(lost) = self.records.map(RecordsThread::end).filter(|lost| *lost > 0) {
            error!(lost, "usage records: the disk took these no more");
        }
        if self.store.is_some_and(|store| !store.end()) {
            error!("session store: the disk did not take the last changes");
        }
        if self.nat_log.is_some_and(|log| !log.end()) {
            error!("log of port blocks: not all of it was written");
        }
    }
}

/// Has Control log port blocks, where the configuration asks for it.
fn log_port_blocks(
    config: &Config,
    control: &mut Control,
    clock: &Clock,
) -> Result<Option<NatLogThread>, String> {
    let Some(log) = &config.nat.log else {
        return Ok(None);
    };
    let now_ms = control.wall().unix_nanos(Moment::from(clock.now())) / 1_000_000;
    let (thread, feed) = NatLogThread::start(log, now_ms)?;
    control.log_port_blocks(Box::new(feed));
    Ok(Some(thread))
}

/// Has Control make usage records, the first of which is that of the process.
fn keep_records(config: &Config, control: &mut Control, clock: &Clock, mut feed: Feed) {
    let node = config.node.id.0.to_string();
    let now_ms = control.wall().unix_nanos(Moment::from(clock.now())) / 1_000_000;
    feed.put(process_start(node.clone(), now_ms));
    control.keep_records(node, Box::new(feed));
}

/// Opens the spool of usage records, says how it was found, and starts its writer.
fn open_records(config: &RecordsConfig, clock: &Clock) -> Result<(RecordsThread, Feed, RecordsView), String> {
    let path = &config.directory.value;
    let fault = |error: io::Error| {
        let reason = match error.kind() {
            io::ErrorKind::WouldBlock => "another process has it".into(),
            _ => error.to_string(),
        };
        format!("usage records in {}: {reason}", path.display())
    };
    let directory = Directory::open(path).map_err(fault)?;
    let time_ms = clock.host().unix / 1_000_000;
    let opened = Spool::open(directory, config.settings(), Duration::ZERO, time_ms);
    let (spool, found) = opened.map_err(fault)?;
    log_recovery(&found);
    let name = path.display().to_string();
    RecordsThread::start(spool, name, config.held.size(), config.when_full).map_err(fault)
}

/// The record that says that the sessions of the process before are not this one's.
fn process_start(node: String, time_ms: u64) -> Entry {
    Entry::ProcessStart(ProcessStart {
        time_ms,
        node,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn log_recovery(found: &Recovered) {
    let Recovered {
        unfinished,
        records,
        torn_octets,
        damaged,
        lost,
        ..
    } = *found;
    if unfinished > 0 {
        info!(
            unfinished,
            records, "usage records: files of a process that did not end in order are finished"
        );
    }
    if torn_octets > 0 || damaged > 0 {
        warn!(
            torn_octets,
            damaged, "usage records: cut off behind the last whole record; lines that are none"
        );
    }
    if let Some((first, lost)) = lost {
        warn!(
            first,
            lost, "usage records: the process before had taken these and not written them: they are lost"
        );
    }
}
