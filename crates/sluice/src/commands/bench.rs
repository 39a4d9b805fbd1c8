//! `sluice bench`: how fast this machine forwards, beside what its memory allows.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use flow::floor::{Floor, Size, Work, World};
use serde_json::{Value, json};

use super::RUN_ERROR;
use crate::bench::plan::{Part, Plan};
use crate::bench::progress::Progress;
use crate::bench::results::Results;
use crate::bench::runner::{run, stage_table};
use crate::bench::targets::PUBLISHED;
use crate::bench::{fixed, html};

/// `sluice bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArguments {
    #[command(subcommand)]
    part: Option<BenchPart>,
    /// Small tables and short runs: the first thing to try, in less than two minutes.
    #[arg(long, global = true)]
    quick: bool,
    /// Seconds of each run, instead of 10 (and 2 in sweeps), or of 0.7 with --quick.
    #[arg(long, global = true, value_parser = seconds)]
    seconds: Option<f64>,
    /// Write everything that was measured, with the raw counts, to this file.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    /// Write a page with plots to this file.
    #[arg(long, global = true)]
    html: Option<PathBuf>,
}

/// The parts of the benchmark; without one, all of them.
#[derive(Subcommand, Clone, Debug)]
enum BenchPart {
    /// The time per packet that memory alone takes.
    Floor(FloorArguments),
    /// Throughput of a worker: T1, T2, T3, and the sweeps of sizes, flows and sessions.
    Throughput,
    /// What QER and URR cost (T5), and the stages' accounting: with and without in turn.
    #[command(alias = "cost")]
    Qos,
    /// Loss and latency on two cores: T8.
    Latency,
    /// Flow set-up alone and beside traffic: T4.
    Setup,
    /// Several workers against one: T11.
    Scaling,
    /// Memory of flows and sessions: T12.
    Memory,
    /// PFCP over UDP sockets, alone and beside traffic: T7, and memory of sessions with control's books.
    Pfcp,
    /// A fixed number of packets through a worker, without a clock: for instruction counts.
    #[command(hide = true)]
    Packets(fixed::Fixed),
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.01..=600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("must be 0.01 to 600".into())
    }
}

/// Runs the benchmark. Exit status 1 for what could not be measured or written; targets that are not reached are no
/// error.
#[must_use]
pub fn bench(arguments: &BenchArguments) -> ExitCode {
    let parts: &[Part] = match &arguments.part {
        Some(BenchPart::Floor(floors)) => return floor(floors, arguments),
        Some(BenchPart::Packets(fixed)) => return ended(fixed.run().map_err(|error| error.to_string())),
        Some(BenchPart::Throughput) => &[Part::Throughput],
        Some(BenchPart::Qos) => &[Part::Qos],
        Some(BenchPart::Latency) => &[Part::Latency],
        Some(BenchPart::Setup) => &[Part::Setup],
        Some(BenchPart::Scaling) => &[Part::Scaling],
        Some(BenchPart::Memory) => &[Part::Memory],
        Some(BenchPart::Pfcp) => &[Part::Pfcp],
        None => &[],
    };
    let plan = Plan::new(arguments.quick, parts, arguments.seconds);
    let progress = Progress::new();
    let measured = run(&plan, &progress);
    progress.finish();
    ended(match measured {
        Ok(results) => {
            summary(&results);
            write(arguments, &results)
        }
        Err(error) => Err(error.to_string()),
    })
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

fn summary(results: &Results) {
    if let Some(point) = results.point("T1").or(results.point("T3")) {
        println!("\nstages of {}", point.figure.name);
        stage_table(&point.figure)
            .iter()
            .for_each(|line| println!("{line}"));
    }
    println!("\npublished, on other machines, Mpps per core:");
    for (what, mpps) in PUBLISHED {
        println!("  {mpps:>6.2}  {what}");
    }
    println!("\ntargets ({} in any figure)", results.leaves_out);
    for target in &results.targets {
        println!("  {}", target.line());
        target
            .parts
            .iter()
            .skip(1)
            .for_each(|part| println!("  {}", part.line()));
    }
    for line in &results.left_out {
        println!("  {line}");
    }
    if results.quick {
        println!(
            "\nThis was a quick look: small tables, short runs. `sluice bench` takes the figures that count."
        );
    }
}

fn write(arguments: &BenchArguments, results: &Results) -> Result<(), String> {
    let failed = |path: &PathBuf, error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", results.json());
        fs::write(path, text).map_err(|error| failed(path, error))?;
    }
    if let Some(path) = &arguments.html {
        let page = html::page(results).map_err(|error| error.to_string())?;
        fs::write(path, page).map_err(|error| failed(path, error))?;
    }
    Ok(())
}

/// Sizes of the floor.
#[derive(Args, Clone, Debug)]
pub struct FloorArguments {
    /// Flows, several times for several sizes.
    #[arg(long, default_values_t = [10_000, 1_000_000, 8_388_608], value_parser = clap::value_parser!(u32).range(2..=33_554_432))]
    flows: Vec<u32>,
    /// Flows of each session.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    flows_per_session: u32,
}

/// Measures the lookup floor and the line-budget floor. Exit status 1 when there is no memory for a size.
fn floor(arguments: &FloorArguments, common: &BenchArguments) -> ExitCode {
    println!("one core, packets in memory, no NIC driver; ns per packet: fastest round, mean");
    println!(
        "{:>12} {:>10} {:>16} {:>16}  memory",
        "flows", "sessions", "lookup", "line budget"
    );
    let mut lines = Vec::new();
    for &flows in &arguments.flows {
        let size = Size {
            flows,
            sessions: (flows / arguments.flows_per_session).max(1),
        };
        let mut world = match World::new(size) {
            Ok(world) => world,
            Err(error) => {
                eprintln!("bench: {flows} flows: {error}");
                return ExitCode::from(RUN_ERROR);
            }
        };
        let time = Duration::from_secs_f64(common.seconds.unwrap_or(2.0));
        let (lookup, budget) = (
            world.measure(Work::Lookup, time),
            world.measure(Work::LineBudget, time),
        );
        let shown = |floor: &Floor| {
            format!(
                "{:.1} {:.1}",
                floor.best_nanos_per_packet(),
                floor.nanos_per_packet()
            )
        };
        let memory = world.built().memory;
        println!(
            "{flows:>12} {:>10} {:>16} {:>16}  {memory}",
            size.sessions,
            shown(&lookup),
            shown(&budget)
        );
        lines.push(json!({
            "flows": flows, "sessions": size.sessions, "lookup": raw(&lookup), "line_budget": raw(&budget),
        }));
    }
    let written = common.json.as_ref().map_or(Ok(()), |path| {
        fs::write(path, format!("{:#}\n", Value::Array(lines)))
            .map_err(|error| format!("{}: {error}", path.display()))
    });
    ended(written)
}

/// The counts that a reader can compute every rate from.
fn raw(floor: &Floor) -> Value {
    json!({
        "packets": floor.packets, "hits": floor.hits, "cycles": floor.cycles, "nanos": floor.nanos,
        "best_nanos_per_packet": floor.best_nanos_per_packet(),
    })
}
