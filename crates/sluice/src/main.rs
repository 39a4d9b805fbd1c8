//! The program `sluice`: reads its arguments and runs a command.

#![forbid(unsafe_code)]

mod commands;
mod daemon;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "top")]
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "manual")]
use clap::CommandFactory;
use clap::{Parser, Subcommand};
use dpdk::Allocator;

/// What control allocates with: sessions are many small pieces. Workers allocate nothing once they run.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// A 5G/4G user plane: UPF, SGW-U and PGW-U.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the UPF of a configuration until SIGINT or SIGTERM.
    Run {
        /// The configuration.
        #[arg(short, long)]
        config: PathBuf,
        /// Continue the sessions of another process: the file that `sluice sessions export` made, if there is one.
        #[arg(long)]
        sessions: Option<PathBuf>,
        /// Print what was counted, as one line of JSON, at the end.
        #[arg(long)]
        json: bool,
    },
    /// Pass packets for a UPF as its accelerator: those of the flows that it gives.
    #[cfg(feature = "accelerator")]
    Accel(commands::AccelArguments),
    /// Forward packets between a simulated RAN and data network in this process, with a live view.
    #[cfg(feature = "demo")]
    Demo(commands::DemoArguments),
    /// Set sessions up and send traffic through a running user plane, over the kernel's sockets.
    #[cfg(feature = "sim")]
    Sim(commands::SimArguments),
    /// Measure this machine.
    #[cfg(feature = "bench")]
    Bench(commands::BenchArguments),
    /// Ask a running daemon.
    Show(commands::ShowArguments),
    /// Watch a running daemon in this terminal: throughput, workers, sessions, drops, SMFs.
    #[cfg(feature = "top")]
    Top(commands::TopArguments),
    /// Show the page of a running daemon to a browser on this host.
    Ui(commands::UiArguments),
    /// Print or set how much a running daemon logs.
    Log(commands::LogArguments),
    /// Show, compare and change the configuration of a running daemon.
    Config(commands::ConfigArguments),
    /// Explain packets one by one: of a capture, or of a running daemon.
    Trace(commands::TraceArguments),
    /// Copy packets of a running daemon to a port, or in GRE or VXLAN to a host.
    Mirror(commands::MirrorArguments),
    /// Read or verify usage records.
    Records(commands::RecordsArguments),
    /// Move the sessions of a running daemon to another process.
    Sessions(commands::SessionsArguments),
    /// Make, list or revoke tokens, by which callers of the API over TLS are known.
    Token(commands::TokenArguments),
    /// Check or print the audit log: who has changed what, and who has read what is private.
    Audit(commands::AuditArguments),
    /// Write a configuration, from answers or options.
    Init(commands::InitArguments),
    /// Collect configuration, state and log into a file for support, without subscribers.
    #[cfg(feature = "bundle")]
    Bundle(commands::BundleArguments),
    /// Write man pages and completions of shells.
    #[cfg(feature = "manual")]
    #[command(hide = true)]
    Manual(commands::ManualArguments),
    /// Validate a configuration and say what it makes.
    Check {
        /// The configuration.
        #[arg(short, long)]
        config: PathBuf,
        /// Open the ports, too, as `run` does, and say what each can and cannot do.
        #[arg(long)]
        ports: bool,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run {
            config,
            sessions,
            json,
        } => commands::run(&config, sessions.as_deref(), json),
        #[cfg(feature = "accelerator")]
        Command::Accel(arguments) => commands::accel(&arguments),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => commands::demo(&arguments),
        #[cfg(feature = "sim")]
        Command::Sim(arguments) => commands::sim(&arguments),
        #[cfg(feature = "bench")]
        Command::Bench(arguments) => commands::bench(&arguments),
        Command::Show(arguments) => commands::show(&arguments),
        #[cfg(feature = "top")]
        Command::Top(arguments) => commands::top(&arguments),
        Command::Ui(arguments) => commands::ui(&arguments),
        Command::Log(arguments) => commands::log(&arguments),
        Command::Config(arguments) => commands::config(&arguments),
        Command::Mirror(arguments) => commands::mirror(&arguments),
        Command::Trace(arguments) => commands::trace(&arguments),
        Command::Records(arguments) => commands::records(&arguments),
        Command::Sessions(arguments) => commands::sessions(&arguments),
        Command::Token(arguments) => commands::token(&arguments),
        Command::Audit(arguments) => commands::audit(&arguments),
        Command::Init(arguments) => commands::init(&arguments),
        #[cfg(feature = "bundle")]
        Command::Bundle(arguments) => commands::bundle(&arguments),
        #[cfg(feature = "manual")]
        Command::Manual(arguments) => commands::manual(&arguments, Arguments::command()),
        Command::Check { config, ports } => commands::check(&config, ports),
    }
}
