//! What the store takes of memory and disk.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::super::error::BenchError;
use super::daemon::Daemon;

/// How long records are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A store with its sessions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Storage {
    /// Sessions in it.
    pub sessions: u32,
    /// Records that count.
    pub records: u64,
    /// Octets of them.
    pub live_octets: u64,
    /// Octets of those that do not count any more.
    pub garbage_octets: u64,
    /// Octets of memory that the index takes.
    pub index_octets: u64,
    /// Octets of all files, the reserve included.
    pub disk_octets: u64,
    /// Octets of the reserve.
    pub reserve_octets: u64,
    /// Octets written, and syncs, for all changes so far.
    pub written_octets: u64,
    /// See [`written_octets`](Self::written_octets).
    pub syncs: u64,
    /// Octets of the daemon in memory.
    pub resident_octets: u64,
}

impl Storage {
    /// How the store of this daemon stands, as soon as what it says has a record of each session: that comes behind the
    /// responses to SMFs.
    ///
    /// # Errors
    /// The daemon does not say it, or has fewer records.
    pub fn of(daemon: &Daemon, sessions: u32) -> Result<Self, BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let storage = Self::at_once(daemon, sessions)?;
            if storage.records >= u64::from(sessions) {
                return Ok(storage);
            }
            if Instant::now() > deadline {
                let records = storage.records;
                return Err(BenchError(format!("{records} records for {sessions} sessions")));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn at_once(daemon: &Daemon, sessions: u32) -> Result<Self, BenchError> {
        let store = daemon.get("/v1/store")?;
        let of = |field| number(&store, &[field]);
        Ok(Self {
            sessions,
            records: of("records")?,
            live_octets: of("live_octets")?,
            garbage_octets: of("garbage_octets")?,
            index_octets: of("index_octets")?,
            disk_octets: daemon.store_octets(),
            reserve_octets: of("reserve_octets")?,
            written_octets: of("written_octets")?,
            syncs: of("syncs")?,
            resident_octets: daemon.resident(),
        })
    }

    /// Octets for each session, of this many.
    #[must_use]
    pub fn per_session(&self, octets: u64) -> f64 {
        octets as f64 / f64::from(self.sessions.max(1))
    }
}

/// A number in a document.
///
/// # Errors
/// There is none under this path.
pub fn number(document: &Value, path: &[&str]) -> Result<u64, BenchError> {
    let found = path.iter().try_fold(document, |value, field| value.get(field));
    let found = found.and_then(Value::as_u64);
    found.ok_or_else(|| BenchError(format!("the daemon does not say {}", path.join("."))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_found_by_its_path() {
        let document = json!({"sessions": {"restored": 7}});
        assert_eq!(number(&document, &["sessions", "restored"]), Ok(7));
        assert!(number(&document, &["sessions", "absent"]).is_err());
        assert!(number(&document, &["sessions"]).is_err());
    }
}
