//! `sluice log`: how much a running daemon logs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::{Config, LogLevel};
use oam::rest::{ask, default_path};
use oam::values::LogStatus;

/// `sluice log`.
#[derive(Args, Clone, Debug)]
pub struct LogArguments {
    /// The level from now on: off, error, warn, info, debug, trace. Without, the level is only printed.
    level: Option<LogLevel>,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long)]
    config: Option<PathBuf>,
}

/// Sets the level, if one is given, and prints it. Exit status 1 when no daemon answers or it refuses, 2 for a
/// configuration with a mistake.
#[must_use]
pub fn log(arguments: &LogArguments) -> ExitCode {
    let configured = match arguments.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config.and_then(|config| config.control.socket),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    let Some(socket) = arguments.socket.clone().or(configured).or_else(default_path) else {
        eprintln!("log: there is no default socket for this user: name one with --socket");
        return ExitCode::from(RUN_ERROR);
    };
    let asked = match arguments.level {
        Some(level) => ask::<LogStatus>(&socket, Method::PUT, &format!("/v1/log?level={level}")),
        None => ask::<LogStatus>(&socket, Method::GET, "/v1/log"),
    };
    match asked {
        Ok(status) => {
            print!("{}", status.text());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("log: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}
