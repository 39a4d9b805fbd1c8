//! `sluice show`: what a running daemon tells over its control socket.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{CONFIGURATION_ERROR, RUN_ERROR};
use crate::config::Config;
use crate::daemon::{ask, default_path};

/// `sluice show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    #[command(subcommand)]
    what: What,
    /// The daemon's control socket; else that of the configuration, else the default one.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long, global = true)]
    config: Option<PathBuf>,
    /// As JSON, with the raw counts.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Clone, Copy, Debug)]
enum What {
    /// What each stage of each worker has done: calls, packets, cycles per packet, packets per call.
    Runtime,
}

/// Asks the daemon and prints its answer. Exit status 1 when none answers, 2 for a configuration with a mistake.
#[must_use]
pub fn show(arguments: &ShowArguments) -> ExitCode {
    let configured = match arguments.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config.and_then(|config| config.control.socket),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    let socket = arguments.socket.clone().or(configured).or_else(default_path);
    let Some(socket) = socket else {
        eprintln!("show: there is no default socket for this user: name one with --socket");
        return ExitCode::from(RUN_ERROR);
    };
    let What::Runtime = arguments.what;
    let request = if arguments.json {
        "show runtime json"
    } else {
        "show runtime"
    };
    match ask(&socket, request) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("show: {}: {error}", socket.display());
            ExitCode::from(RUN_ERROR)
        }
    }
}
