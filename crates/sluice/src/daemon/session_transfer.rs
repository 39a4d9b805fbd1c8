//! Session transfer: the import of the sessions of another process at the start of the daemon.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use n4::ImportError;
use session::behind_record;
use tracing::{error, info, warn};

use config::bounded_file;
use runtime::ControlLoop;

/// Time in which workers have to confirm all sessions.
const CONFIRMATION: Duration = Duration::from_secs(60);
/// Octets of the file, at most: some two million sessions.
const LONGEST: u64 = 4 << 30;
/// Records that are not imported and are logged one by one.
const MAX_LOGGED: usize = 10;

/// Imports the records at `path` before the first datagram is served, and renames the file, so that no later start
/// imports the same sessions again. Without such a file there is nothing to import.
///
/// # Errors
/// What is wrong with the file: then nothing has been imported.
pub(super) fn import_sessions(turns: &mut ControlLoop, path: &Path) -> Result<(), String> {
    let fault = |words: String| format!("sessions in {}: {words}", path.display());
    let octets = match bounded_file::read(path, LONGEST) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            info!(file = %path.display(), "no sessions to import");
            return Ok(());
        }
        Err(error) => return Err(fault(error.to_string())),
    };
    check(&octets).map_err(fault)?;
    let now = turns.now();
    let mut failed = 0_u64;
    let mut other_node = None;
    let imported = turns
        .control()
        .session_transfer(now)
        .import_all(&octets, |error| {
            if matches!(error, ImportError::OtherNode(_)) {
                other_node = Some(error);
                return;
            }
            failed += 1;
            if failed <= MAX_LOGGED as u64 {
                error!(why = %error, "record not imported");
            }
        });
    if let Some(error) = other_node {
        return Err(fault(error.to_string()));
    }
    let live = settle(turns, imported.sessions, &mut failed);
    let done = taken_name(path);
    fs::rename(path, &done).map_err(|error| fault(format!("cannot be renamed: {error}")))?;
    info!(
        sessions = live,
        associations = imported.associations,
        applications = imported.applications,
        "sessions imported"
    );
    if failed > 0 {
        warn!(
            failed,
            "records not imported: their SMFs will find no such sessions"
        );
    }
    Ok(())
}

/// Waits for the workers to have this number of sessions. Returns how many they have.
fn settle(turns: &mut ControlLoop, sessions: u64, failed: &mut u64) -> u64 {
    let until = Instant::now() + CONFIRMATION;
    let (mut live, mut confirmed) = (0, 0);
    while confirmed < sessions && Instant::now() < until {
        let now = turns.now();
        turns.control().poll(now);
        while let Some((seid, result)) = turns.control().session_transfer(now).poll_imported() {
            confirmed += 1;
            match result {
                Ok(()) => live += 1,
                Err(refusal) => {
                    *failed += 1;
                    error!(
                        seid = upf::identifiers::seid(seid.0),
                        "session not imported: {refusal}"
                    );
                }
            }
        }
        std::thread::yield_now();
    }
    *failed += sessions - confirmed;
    live
}

/// Whether all records are complete and undamaged, and that of the node is the first: an import is of all or of none.
fn check(octets: &[u8]) -> Result<(), String> {
    const NODE: u8 = 3;
    if octets.get(4) != Some(&NODE) {
        return Err("they do not begin with the record of a node".into());
    }
    let mut rest = octets;
    while !rest.is_empty() {
        let at = octets.len() - rest.len();
        rest = behind_record(rest).map_err(|error| format!("octet {at}: {error}"))?;
    }
    Ok(())
}

fn taken_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".taken");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::NodeRecord;

    fn node() -> Vec<u8> {
        let record = NodeRecord {
            node: vec![0, 10, 0, 0, 1],
            recovery_unix: 1,
            version: "0".into(),
        };
        record.encode().unwrap()
    }

    #[test]
    fn a_file_is_whole_and_begins_with_the_node_or_nothing_of_it_is_used() {
        assert_eq!(check(&node()), Ok(()));
        assert_eq!(check(&[node(), node()].concat()), Ok(()));
        assert!(check(b"").is_err());
        let torn = [node(), node()].concat();
        let error = check(&torn[..torn.len() - 1]).unwrap_err();
        assert_eq!(error, format!("octet {}: the record is cut off", node().len()));
        let mut damaged = node();
        damaged[16] ^= 1;
        assert!(check(&damaged).unwrap_err().contains("check sum"));
        let mut other = node();
        other[4] = 2;
        assert!(check(&other).unwrap_err().contains("do not begin"));
    }
}
