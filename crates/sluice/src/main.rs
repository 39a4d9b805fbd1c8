//! The program `sluice`: reads its arguments and calls the library.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dpdk::Allocator;
use sluice::commands;
use sluice::demo::Options;

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
    /// Run the UPF of a configuration until it is told to stop.
    Run {
        /// The configuration.
        #[arg(short, long)]
        config: PathBuf,
        /// Go on with the sessions of another process: the file that `sluice sessions export` made, if there is one.
        #[arg(long)]
        sessions: Option<PathBuf>,
        /// Print what was counted, as one line of JSON, at the end.
        #[arg(long)]
        json: bool,
    },
    /// Forward packets between a simulated RAN and data network in this process, with a live view.
    Demo {
        /// Seconds of traffic.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
        seconds: u64,
        /// PDU sessions.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=600_000))]
        sessions: u32,
        /// Workers, each on a core of its own; the default is 2, or 1 where there is one core.
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
        workers: Option<u16>,
        /// Million packets offered a second, both directions together.
        #[arg(long, default_value_t = 1.0)]
        mpps: f64,
        /// Octets of each user packet, 60 to 1500.
        #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u16).range(60..=1_500))]
        size: u16,
        /// Let packets come in at any worker, which hands them over to their owner.
        #[arg(long)]
        scatter: bool,
        /// End with one line of JSON.
        #[arg(long)]
        json: bool,
    },
    /// Set sessions up and send traffic through a running user plane, over the kernel's sockets.
    Sim(commands::SimArguments),
    /// Measure this machine.
    Bench(commands::BenchArguments),
    /// Ask a running daemon.
    Show(commands::ShowArguments),
    /// Tell or set how much a running daemon logs.
    Log(commands::LogArguments),
    /// Explain packets one by one: of a capture, or of a running daemon.
    Trace(commands::TraceArguments),
    /// Copy packets of a running daemon to a port, or in GRE or VXLAN to a host.
    Mirror(commands::MirrorArguments),
    /// Read or verify usage records.
    Records(commands::RecordsArguments),
    /// Let the sessions of a running daemon go on in another process.
    Sessions(commands::SessionsArguments),
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

fn default_workers() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2) as u16)
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run {
            config,
            sessions,
            json,
        } => commands::run(&config, sessions.as_deref(), json),
        Command::Demo {
            seconds,
            sessions,
            workers,
            mpps,
            size,
            scatter,
            json,
        } => {
            let rate = (mpps.clamp(0.000_1, 1_000.0) * 1e6) as u64;
            let workers = workers.unwrap_or_else(default_workers);
            commands::demo(
                &Options {
                    seconds,
                    sessions,
                    workers,
                    rate,
                    size,
                    scatter,
                },
                json,
            )
        }
        Command::Sim(arguments) => commands::sim(&arguments),
        Command::Bench(arguments) => commands::bench(&arguments),
        Command::Show(arguments) => commands::show(&arguments),
        Command::Log(arguments) => commands::log(&arguments),
        Command::Mirror(arguments) => commands::mirror(&arguments),
        Command::Trace(arguments) => commands::trace(&arguments),
        Command::Records(arguments) => commands::records(&arguments),
        Command::Sessions(arguments) => commands::sessions(&arguments),
        Command::Check { config, ports } => commands::check(&config, ports),
    }
}
