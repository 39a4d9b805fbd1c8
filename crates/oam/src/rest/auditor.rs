//! The audit log of the API: a line before a request is served that changes something or shows what is private, and one
//! with how it was answered.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use audit::{AuditLog, Entry};
use axum::extract::Request;
use axum::http::StatusCode;
use config::{AuditConfig, WhenUnaudited};
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::Caller;
use crate::alarms::Fault;
use crate::values::Problem;

/// Octets of a target that are written.
const LONGEST_TARGET: usize = 2_048;
/// Sources of refused requests that are named in a time; the others are counted together.
const MOST_SOURCES: usize = 64;
/// How often refusals are written, and how often it is logged that lines are missed.
const EVERY: Duration = Duration::from_secs(60);
/// After this number of lines the daemon's log has the number and hash of the last one, as a copy elsewhere.
const HEAD_EVERY: u64 = 100;

/// Writes the audit log.
#[derive(Clone)]
pub struct Auditor(Arc<Inner>);

struct Inner {
    log: Mutex<AuditLog>,
    when_full: WhenUnaudited,
    refused: Mutex<Refused>,
    /// When it was last logged that no line can be written.
    logged: Mutex<Option<Instant>>,
    /// Why the last line was not written.
    fault: Mutex<Option<String>>,
    directory: String,
}

/// Refusals since the last lines about them.
#[derive(Default)]
struct Refused {
    by_source: BTreeMap<Source, u64>,
    /// When lines about them were written last.
    written: Option<Instant>,
}

/// Whose refusals are counted together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    from: String,
    what: &'static str,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind them is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Auditor {
    /// Opens the log of a configuration, and says how it was found.
    ///
    /// # Errors
    /// Those of [`AuditLog::open`].
    pub fn open(config: &AuditConfig) -> io::Result<Self> {
        let (path, octets) = (&config.directory.value, config.file_mib.value() << 20);
        let (log, found) = AuditLog::open(path, octets, env!("CARGO_PKG_VERSION"), now_ms())?;
        if found.torn_octets > 0 || found.missing > 0 {
            let (torn_octets, missing) = (found.torn_octets, found.missing);
            warn!(
                torn_octets,
                missing, "audit log: octets cut off; lines that are not there"
            );
        }
        info!(head = %log.head(), "audit log open");
        Ok(Self(Arc::new(Inner {
            log: Mutex::new(log),
            when_full: config.when_full,
            refused: Mutex::default(),
            logged: Mutex::new(None),
            fault: Mutex::new(None),
            directory: path.display().to_string(),
        })))
    }

    /// Why the last line could not be written, if it could not.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        let why = lock(&self.0.fault).clone()?;
        let object = self.0.directory.clone();
        Some(Fault { object, why })
    }

    /// Writes that a request has come; returns the number of its line, if it has one.
    ///
    /// # Errors
    /// No line can be written, and the configuration has such requests refused.
    pub(super) async fn request(&self, entry: Entry) -> Result<Option<u64>, Problem> {
        match self.write(entry).await {
            Ok(line) => Ok(Some(line)),
            Err(_) if self.0.when_full == WhenUnaudited::GoOn => Ok(None),
            Err(why) => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the audit log cannot be written: {why}"),
            )),
        }
    }

    /// Writes how a request was answered.
    pub(super) async fn result(&self, request: Option<u64>, status: StatusCode) {
        if let Some(request) = request {
            let status = status.as_u16();
            // A failure is logged and counted.
            let _ = self.write(Entry::Result { request, status }).await;
        }
    }

    /// Counts wrong credentials; lines of them come once a minute.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is no TLS"))]
    pub(super) fn credentials_refused(&self, from: &str) {
        self.0.count_refused(from, "credentials");
    }

    /// Counts a request of a caller whose role is less than the route needs; lines of them come once a minute.
    pub(super) async fn role_refused(&self, caller: &str) {
        self.0.count_refused(caller, "role");
        let auditor = self.clone();
        // A failure is logged and counted.
        let _ = spawn_blocking(move || auditor.write_refused()).await;
    }

    /// Writes of refusals what is due. It may wait for the disk.
    pub(super) fn write_refused(&self) {
        let mut refused = lock(&self.0.refused);
        let is_due = refused.written.is_none_or(|written| written.elapsed() >= EVERY);
        if !is_due || refused.by_source.is_empty() {
            return;
        }
        refused.written = Some(Instant::now());
        let by_source = std::mem::take(&mut refused.by_source);
        drop(refused);
        for (Source { from, what }, count) in by_source {
            let what = what.to_owned();
            // A failure is logged and counted.
            let _ = self.0.write(&Entry::Refused { from, what, count });
        }
    }

    async fn write(&self, entry: Entry) -> io::Result<u64> {
        let inner = Arc::clone(&self.0);
        let written = spawn_blocking(move || inner.write(&entry)).await;
        written.unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
    }
}

/// What is written of a request.
pub(super) fn request_entry(caller: &Caller, request: &Request) -> Entry {
    let target = request
        .uri()
        .path_and_query()
        .map_or("", |target| target.as_str());
    Entry::Request {
        caller: audit::Caller {
            name: caller.name.to_string(),
            role: caller.role.to_string(),
            from: caller.address.to_string(),
        },
        method: request.method().to_string(),
        target: target.chars().take(LONGEST_TARGET).collect(),
    }
}

impl Inner {
    fn count_refused(&self, from: &str, what: &'static str) {
        let mut refused = lock(&self.refused);
        let from = from.to_owned();
        let mut source = Source { from, what };
        if refused.by_source.len() >= MOST_SOURCES && !refused.by_source.contains_key(&source) {
            source.from = "others".to_owned();
        }
        *refused.by_source.entry(source).or_default() += 1;
    }

    fn write(&self, entry: &Entry) -> io::Result<u64> {
        let mut log = lock(&self.log);
        let written = log.append(now_ms(), entry);
        *lock(&self.fault) = written.as_ref().err().map(ToString::to_string);
        match &written {
            Ok(line) if line % HEAD_EVERY == 0 => info!(head = %log.head(), "audit log"),
            Ok(_) => {}
            Err(why) => {
                let mut logged = lock(&self.logged);
                if logged.is_none_or(|at| at.elapsed() >= EVERY) {
                    *logged = Some(Instant::now());
                    error!(%why, missed = log.missed(), "audit log not written");
                }
            }
        }
        written
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
