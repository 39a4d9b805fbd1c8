//! A daemon that starts with the sessions of another process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use n4::ImportError;
use session::behind_record;
use tracing::{error, info, warn};

use config::bounded_file;
use runtime::ControlLoop;

/// How long workers may take to have all sessions.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of the file, at most: some two million sessions.
const LONGEST: u64 = 4 << 30;
/// Records that become nothing and are logged one by one.
const TOLD: usize = 10;

/// Takes in the records at `path` before the first datagram is served, and renames the file, so that no later start takes
/// the same sessions in again. Without such a file there is nothing to take in.
///
/// # Errors
/// What is wrong with the file: then nothing has been taken in.
pub(super) fn take_in(turns: &mut ControlLoop, path: &Path) -> Result<(), String> {
    let fault = |words: String| format!("sessions in {}: {words}", path.display());
    let octets = match bounded_file::read(path, LONGEST) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            info!(file = %path.display(), "no sessions to take in");
            return Ok(());
        }
        Err(error) => return Err(fault(error.to_string())),
    };
    check(&octets).map_err(fault)?;
    let now = turns.now();
    let mut failed = 0_u64;
    let mut other_node = None;
    let taken = turns.control().transfer(now).take_in(&octets, |error| {
        if matches!(error, ImportError::OtherNode(_)) {
            other_node = Some(error);
            return;
        }
        failed += 1;
        if failed <= TOLD as u64 {
            error!(why = %error, "record not taken in");
        }
    });
    if let Some(error) = other_node {
        return Err(fault(error.to_string()));
    }
    let live = settle(turns, taken.sessions, &mut failed);
    let done = taken_name(path);
    fs::rename(path, &done).map_err(|error| fault(format!("cannot be renamed: {error}")))?;
    info!(
        sessions = live,
        associations = taken.associations,
        applications = taken.applications,
        "sessions taken in"
    );
    if failed > 0 {
        warn!(
            failed,
            "records not taken in: their SMFs will find no such sessions"
        );
    }
    Ok(())
}

/// Waits for the workers to have this number of sessions. Returns how many they have.
fn settle(turns: &mut ControlLoop, sessions: u64, failed: &mut u64) -> u64 {
    let until = Instant::now() + PATIENCE;
    let (mut live, mut told) = (0, 0);
    while told < sessions && Instant::now() < until {
        let now = turns.now();
        turns.control().poll(now);
        while let Some((seid, result)) = turns.control().transfer(now).poll_imported() {
            told += 1;
            match result {
                Ok(()) => live += 1,
                Err(refusal) => {
                    *failed += 1;
                    error!(
                        seid = upf::numbers::seid(seid.0),
                        "session not taken in: {refusal}"
                    );
                }
            }
        }
        std::thread::yield_now();
    }
    *failed += sessions - told;
    live
}

/// Whether all records are whole and undamaged, and the node's is the first: nothing is taken in by halves.
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
