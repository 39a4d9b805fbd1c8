//! Sends alarms to webhooks and collectors of syslog, and looks how full disks are. A thread of its own does it: names
//! that are not resolved, receivers that do not answer and disks that hang hold up nothing else.
//!
//! Each receiver gets all events in their order. What it does not take is sent again until it takes it, or until the
//! event is kept no more ([`Alarms::events`](super::Alarms::events)): how many those were is said with the next.

mod connection;
mod receiver;
mod syslog;
#[cfg(test)]
mod tests;
mod webhook;

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use config::{AlarmsConfig, LeastSeverity, SyslogTransport};
use nix::sys::statvfs::statvfs;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

pub use self::receiver::DeliverySources;
use self::receiver::{Batch, Receiver};
use self::syslog::Syslog;
use self::webhook::Webhook;
use super::kind::Kind;
use super::seen::{Disk, Fault};
use crate::values::{AlarmEvent, AlarmEventList, Severity};

/// How often it is looked for events.
const EVERY: Duration = Duration::from_millis(500);
/// Events that are sent together.
const TOGETHER: usize = 50;
/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failure it is tried again; each time after twice as long, up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How often it is looked how full disks are.
const DISKS_EVERY: Duration = Duration::from_secs(30);

/// What the thread says to control's.
#[derive(Default)]
struct State {
    undelivered: Vec<Fault>,
    disks: Vec<Disk>,
}

type Shared = Arc<Mutex<State>>;

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    // It is whole between any two statements.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread, until it is dropped.
pub struct Delivery {
    shared: Shared,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Delivery {
    /// Starts it for the receivers of `config`.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] when a receiver is reached over TLS, and the program was built
    /// without.
    pub fn open(config: &AlarmsConfig, sources: DeliverySources) -> io::Result<Self> {
        let hooks_want_tls = config.webhooks.iter().any(|hook| hook.url.value.is_tls);
        let mut syslogs = config.syslog.iter();
        let syslogs_want_tls = syslogs.any(|one| one.to.value.transport == SyslogTransport::Tls);
        if (hooks_want_tls || syslogs_want_tls) && !cfg!(feature = "tls") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this program was built without TLS (feature `tls`)",
            ));
        }
        let hooks: Vec<_> = config
            .webhooks
            .iter()
            .map(|hook| (Webhook::new(hook), hook.least))
            .collect();
        let syslogs: Vec<_> = config
            .syslog
            .iter()
            .map(|one| (Syslog::new(one), one.least))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = Shared::default();
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let of_thread = Arc::clone(&shared);
        let body = move || {
            runtime.block_on(async move {
                tokio::spawn(watch_disks(sources.directories.clone(), Arc::clone(&of_thread)));
                for (hook, least) in hooks {
                    tokio::spawn(deliver(hook, least, sources.clone(), Arc::clone(&of_thread)));
                }
                for (syslog, least) in syslogs {
                    tokio::spawn(deliver(syslog, least, sources.clone(), Arc::clone(&of_thread)));
                }
                let _ = stopped.await;
            });
            // A disk or a resolver that hangs does not hold up the end.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("alarms".into()).spawn(body)?;
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Receivers that take nothing, and the disks as they were found last.
    #[must_use]
    pub fn read(&self) -> (Vec<Fault>, Vec<Disk>) {
        let state = lock(&self.shared);
        (state.undelivered.clone(), state.disks.clone())
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        // The thread ends when its end of the channel sees this one gone.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends events as they come, and again what is not taken.
async fn deliver(
    mut receiver: impl Receiver,
    least: LeastSeverity,
    sources: DeliverySources,
    shared: Shared,
) {
    let name = receiver.name();
    let (mut after, mut is_first, mut wait) = (0, true, RETRY);
    loop {
        let AlarmEventList { events, lost } = sources.alarms.lock().events(after, TOGETHER);
        let last = events.last().map_or(after, |event| event.id);
        let events: Vec<_> = events.into_iter().filter(|event| is_sent(event, least)).collect();
        if events.is_empty() && !is_first {
            after = last;
            sleep(EVERY).await;
            continue;
        }
        let batch = Batch {
            sources: &sources,
            events,
            lost,
            is_first,
        };
        let sent = timeout(PATIENCE, receiver.send(&batch)).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
        note(&shared, &name, sent.as_ref().err());
        match sent {
            Ok(()) => (after, is_first, wait) = (last, false, RETRY),
            Err(_) => {
                sleep(wait).await;
                wait = (2 * wait).min(LONGEST_RETRY);
            }
        }
    }
}

/// Whether an event is as bad as a receiver wants; that an alarm is over is as bad as the alarm was.
fn is_sent(event: &AlarmEvent, least: LeastSeverity) -> bool {
    let was = Kind::of_label(&event.alarm.alarm).map_or(event.alarm.severity, Kind::severity);
    let least = match least {
        LeastSeverity::Critical => Severity::Critical,
        LeastSeverity::Major => Severity::Major,
        LeastSeverity::Minor => Severity::Minor,
        LeastSeverity::Warning => Severity::Warning,
    };
    was <= least
}

/// Notes whether a receiver takes events.
fn note(shared: &Shared, name: &str, why: Option<&String>) {
    let mut state = lock(shared);
    let known = state.undelivered.iter().position(|fault| fault.object == name);
    match (known, why) {
        (None, None) => {}
        (Some(place), None) => {
            state.undelivered.remove(place);
            info!(receiver = name, "alarms delivered again");
        }
        // The first reason stays: an alarm's text does not change with each attempt.
        (Some(_), Some(_)) => {}
        (None, Some(why)) => {
            warn!(receiver = name, why, "alarms not delivered");
            state.undelivered.push(Fault {
                object: name.to_owned(),
                why: why.clone(),
            });
        }
    }
}

/// Looks now and then how full the file systems of these directories are.
async fn watch_disks(directories: Vec<PathBuf>, shared: Shared) {
    if directories.is_empty() {
        return;
    }
    loop {
        let directories = directories.clone();
        let look = move || directories.into_iter().filter_map(disk_of).collect();
        if let Ok(disks) = tokio::task::spawn_blocking(look).await {
            lock(&shared).disks = disks;
        }
        sleep(DISKS_EVERY).await;
    }
}

fn disk_of(directory: PathBuf) -> Option<Disk> {
    let found = statvfs(&directory).ok()?;
    let mib = |blocks: u64| ((u128::from(blocks) * u128::from(found.fragment_size())) >> 20) as u64;
    // As df(1) has it: what is kept for root, or not backed by the disk below, is neither used nor to be had.
    let used_mib = mib(found.blocks().saturating_sub(found.blocks_free()));
    Some(Disk {
        directory,
        used_mib,
        size_mib: used_mib + mib(found.blocks_available()),
    })
}
