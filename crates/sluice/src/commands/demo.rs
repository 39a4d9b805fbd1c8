//! `sluice demo`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::status::RUN_ERROR;
use crate::demo::{self, Options};

/// Seconds of the longest demo.
const DAY: u64 = 86_400;

/// What the demo does.
#[derive(Args)]
pub struct DemoArguments {
    /// Seconds of traffic: 10, or with `--ui` a day.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    seconds: Option<u64>,
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
    /// Show it in a browser, too, until ctrl-c: prints the address.
    #[arg(long)]
    ui: bool,
    /// End with one line of JSON.
    #[arg(long)]
    json: bool,
}

impl DemoArguments {
    fn options(&self) -> Options {
        Options {
            seconds: self.seconds.unwrap_or(if self.ui { DAY } else { 10 }),
            sessions: self.sessions,
            workers: self.workers.unwrap_or_else(default_workers),
            rate: (self.mpps.clamp(0.000_1, 1_000.0) * 1e6) as u64,
            size: self.size,
            scatter: self.scatter,
            ui: self.ui,
        }
    }
}

fn default_workers() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2) as u16)
}

/// Runs the demo; with `--json`, the last line on standard output is for machines. Exit status 1 when it failed.
#[must_use]
pub fn demo(arguments: &DemoArguments) -> ExitCode {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Without a handler the signal ends the program at once, which is as well.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    match demo::run(&arguments.options(), &stop) {
        Ok(outcome) => {
            println!("{}", outcome.text());
            if !arguments.ui {
                println!("to see it in a browser: {} demo --ui", demo::program());
            }
            if arguments.json {
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
