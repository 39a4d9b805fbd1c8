//! `sluice demo`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::RUN_ERROR;
use crate::demo::{self, Options};

/// Runs the demo; with `json`, the last line on standard output is for machines. Exit status 1 when it failed.
#[must_use]
pub fn demo(options: &Options, json: bool) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Without a handler the signal ends the program at once, which is as well.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    match demo::run(options, &stop) {
        Ok(outcome) => {
            println!("{}", outcome.text());
            if json {
                println!("{}", outcome.json());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}
