//! Golden cases: a configuration, a script of PFCP messages and frames in simulated time, and what must come of it to
//! the octet. `tests/golden/README.md` says what the files of a case are and how to write one.
//!
//! `SLUICE_GOLDEN=write` writes what comes out instead of comparing it, for review; `SLUICE_GOLDEN_CASE` names one
//! case to run alone.

mod answers;
mod case;
mod check;
mod frames;
mod pcapng;
mod pfcp_octets;
mod trace;
mod value;
mod world;

use std::path::{Path, PathBuf};

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let only = std::env::var("SLUICE_GOLDEN_CASE").ok();
    let entries = std::fs::read_dir(&root).expect("tests/golden is there");
    let mut folders: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_dir())
        .filter(|path| only.as_deref().is_none_or(|name| path.ends_with(name)))
        .collect();
    folders.sort();
    folders
}

#[test]
fn every_case_comes_out_to_the_octet() {
    let writes = std::env::var("SLUICE_GOLDEN").is_ok_and(|value| value == "write");
    let folders = folders();
    assert!(!folders.is_empty(), "no case");
    let mut faults = Vec::new();
    for folder in &folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let done = case::run(folder).and_then(|outcome| {
            if writes {
                check::write(folder, &outcome)?;
            } else {
                check::compare(folder, &outcome)?;
            }
            trace::check(folder, &outcome, writes)
        });
        if let Err(fault) = done {
            faults.push(format!("tests/golden/{name}: {fault}"));
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {} cases:\n\n{}\n",
        faults.len(),
        folders.len(),
        faults.join("\n\n")
    );
}
