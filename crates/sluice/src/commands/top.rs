//! `sluice top`.

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use signal_hook::consts::SIGTERM;

use super::status::RUN_ERROR;
use super::trace::socket_of;
use crate::top::run;
use oam::rest::get;
use oam::values::CallerStatus;

/// `sluice top`.
#[derive(Args, Clone, Debug)]
pub struct TopArguments {
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long)]
    config: Option<PathBuf>,
}

/// Shows a running daemon until `q`. Exit status 1 when none answers or there is no terminal, 2 for a configuration
/// with a mistake.
#[must_use]
pub fn top(arguments: &TopArguments) -> ExitCode {
    let fault = |words: &dyn std::fmt::Display| {
        eprintln!("top: {words}");
        ExitCode::from(RUN_ERROR)
    };
    let socket = match socket_of(arguments.socket.as_deref(), arguments.config.as_deref()) {
        Ok(socket) => socket,
        Err(failure) => return failure.exit("top"),
    };
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return fault(&"this is no terminal; `sluice show` prints the same figures");
    }
    if let Err(error) = get::<CallerStatus>(&socket, "/v1/caller") {
        return fault(&error);
    }
    let stop = Arc::new(AtomicBool::new(false));
    // Without a handler the signal ends the program at once and leaves the terminal as it is.
    let _ = signal_hook::flag::register(SIGTERM, Arc::clone(&stop));
    run(&socket, &stop).map_or_else(|error| fault(&error), |()| ExitCode::SUCCESS)
}
