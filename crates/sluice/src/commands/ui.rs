//! `sluice ui`: the page of a running daemon, for a browser on this host.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::status::RUN_ERROR;
use super::trace::socket_of;
use oam::rest::{Forwarder, get};
use oam::values::CallerStatus;

/// `sluice ui`.
#[derive(Args, Clone, Debug)]
pub struct UiArguments {
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long)]
    config: Option<PathBuf>,
    /// The port of 127.0.0.1; else a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

/// Forwards until SIGINT or SIGTERM. Exit status 1 when no daemon answers or the port is taken, 2 for a configuration
/// with a mistake.
#[must_use]
pub fn ui(arguments: &UiArguments) -> ExitCode {
    let fault = |words: &dyn std::fmt::Display| {
        eprintln!("ui: {words}");
        ExitCode::from(RUN_ERROR)
    };
    let socket = match socket_of(arguments.socket.as_deref(), arguments.config.as_deref()) {
        Ok(socket) => socket,
        Err(failure) => return failure.exit("ui"),
    };
    if let Err(error) = get::<CallerStatus>(&socket, "/v1/caller") {
        return fault(&error);
    }
    let forwarder = match Forwarder::open(&socket, arguments.port) {
        Ok(forwarder) => forwarder,
        Err(error) => return fault(&error),
    };
    let mut signals = match Signals::new([SIGINT, SIGTERM]) {
        Ok(signals) => signals,
        Err(error) => return fault(&error),
    };
    println!("{}", forwarder.url());
    let port = forwarder.address().port();
    eprintln!(
        "Open this address in a browser on this host; ctrl-c ends it. Who has it has your rights.\n\
         From another host: ssh -L {port}:127.0.0.1:{port} THIS_HOST, and the same address there."
    );
    let _ = signals.forever().next();
    ExitCode::SUCCESS
}
