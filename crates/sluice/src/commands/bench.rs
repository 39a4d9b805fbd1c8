//! `sluice bench`: how fast this machine forwards, beside what its memory allows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::status::RUN_ERROR;
use bench::floors::{FloorFigure, Floors};
use bench::model::Model;
use bench::plan::{Part, Plan};
use bench::progress::Progress;
use bench::report::{AssumptionArguments, Report, ResultFile};
use bench::results::Results;
use bench::runner::{run, run_egress, run_inspection, run_nat, run_offload, run_resilience, stage_table};
use bench::{NO_DRIVER, egress, fixed, html, inspection, nat, offload, published, report, resilience};

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
    /// The time per packet that memory alone takes: the sketch floor, and those of the product's own table.
    Floor(FloorArguments),
    /// Throughput of a worker: T1, T2, T3, and the sweeps of sizes, flows and sessions.
    Throughput,
    /// What QER and URR cost (T5), and the stages' accounting: with and without in turn.
    #[command(alias = "cost")]
    Qos,
    /// Loss and latency on two cores: T8.
    Latency,
    /// Goodput and GTP-U Echo under more load than a worker can process, on two cores: T14.
    Overload,
    /// Flow set-up alone and beside traffic: T4.
    Setup,
    /// Several workers against one: T11.
    Scaling,
    /// Memory of flows and sessions: T12.
    Memory,
    /// PFCP over UDP sockets, alone and beside traffic: T7, and memory of sessions with control's session state.
    Pfcp,
    /// The store of sessions: `sluice run` is killed under traffic and started again; what that costs in packets, in
    /// octets that are not charged and in establishments (T17). Needs root, for a network namespace of its own. No part
    /// of `sluice bench` without a part.
    Resilience(resilience::Arguments),
    /// Rules that name hosts, inspection and billing: model Z (T6). No part of `sluice bench` without a part.
    Inspection(inspection::Arguments),
    /// CG-NAT: packets with it and without, new mappings, their memory, hand-overs (T16). No part of `sluice bench`
    /// without a part.
    Nat(nat::Arguments),
    /// An accelerator that is driven in-band: new flows, established ones beside them, exact counts when control
    /// frames are lost, its end. No part of `sluice bench` without a part.
    Offload(offload::Arguments),
    /// The egress traffic manager alone: what a packet costs through up to 128K queues, beside rte_sched; rates of all
    /// UEs; what waits in overload (T9). No part of `sluice bench` without a part.
    Egress(egress::Arguments),
    /// Published models beside measured ones, and what follows for cores, servers, power and cost: from files that
    /// `sluice bench PART --json FILE` wrote. Measures nothing.
    Report(ReportArguments),
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
        Some(BenchPart::Report(of)) => return ended(write_report(of, arguments)),
        Some(BenchPart::Resilience(of)) => return ended(measure_resilience(of, arguments)),
        Some(BenchPart::Inspection(of)) => return ended(measure_inspection(of, arguments)),
        Some(BenchPart::Nat(of)) => return ended(measure_nat(of, arguments)),
        Some(BenchPart::Offload(of)) => return ended(measure_offload(of, arguments)),
        Some(BenchPart::Egress(of)) => return ended(measure_egress(of, arguments)),
        Some(BenchPart::Packets(fixed)) => return ended(fixed.run().map_err(|error| error.to_string())),
        Some(BenchPart::Throughput) => &[Part::Throughput],
        Some(BenchPart::Qos) => &[Part::Qos],
        Some(BenchPart::Latency) => &[Part::Latency],
        Some(BenchPart::Overload) => &[Part::Overload],
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
    for one in published::per_core() {
        println!("  {:>6.2}  {}", one.mpps_per_core, one.what);
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

/// Kills a daemon. What is not of the run's own namespace is left alone.
fn measure_resilience(of: &resilience::Arguments, arguments: &BenchArguments) -> Result<(), String> {
    if arguments.seconds.is_some() {
        return Err(
            "resilience: --seconds is for other parts; how long it takes follows from its sizes".into(),
        );
    }
    resilience::enter().map_err(|error| error.to_string())?;
    let progress = Progress::new();
    let measured = run_resilience(&of.clone().sized(arguments.quick), arguments.quick, &progress);
    progress.finish();
    print_and_write(arguments, measured.map_err(|error| error.to_string())?)
}

fn measure_inspection(of: &inspection::Arguments, arguments: &BenchArguments) -> Result<(), String> {
    let progress = Progress::new();
    let sized = of.clone().sized(arguments.quick, arguments.seconds);
    let measured = run_inspection(&sized, arguments.quick, &progress);
    progress.finish();
    print_and_write(arguments, measured.map_err(|error| error.to_string())?)
}

fn measure_nat(of: &nat::Arguments, arguments: &BenchArguments) -> Result<(), String> {
    let progress = Progress::new();
    let sized = of.clone().sized(arguments.quick, arguments.seconds);
    let measured = run_nat(&sized, arguments.quick, &progress);
    progress.finish();
    print_and_write(arguments, measured.map_err(|error| error.to_string())?)
}

fn measure_offload(of: &offload::Arguments, arguments: &BenchArguments) -> Result<(), String> {
    let progress = Progress::new();
    let sized = of.clone().sized(arguments.quick, arguments.seconds);
    let measured = run_offload(&sized, arguments.quick, &progress);
    progress.finish();
    print_and_write(arguments, measured.map_err(|error| error.to_string())?)
}

fn measure_egress(of: &egress::Arguments, arguments: &BenchArguments) -> Result<(), String> {
    let progress = Progress::new();
    let sized = of.clone().sized(arguments.quick, arguments.seconds);
    let measured = run_egress(&sized, arguments.quick, &progress);
    progress.finish();
    print_and_write(arguments, measured.map_err(|error| error.to_string())?)
}

fn print_and_write(arguments: &BenchArguments, results: Results) -> Result<(), String> {
    println!("\ntargets");
    for target in &results.targets {
        let parts = target.parts.iter().skip(1);
        [target]
            .into_iter()
            .chain(parts)
            .for_each(|one| println!("  {}", one.line()));
    }
    write(arguments, &results)
}

fn write(arguments: &BenchArguments, results: &Results) -> Result<(), String> {
    if let Some(path) = &arguments.json {
        write_file(path, &format!("{:#}\n", results.json()))?;
    }
    if let Some(path) = &arguments.html {
        write_file(path, &html::page(results).map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Options of `sluice bench report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArguments {
    /// Files that `sluice bench PART --json FILE` wrote; of a figure that several have, that of the last counts.
    #[arg(required = true, value_name = "RESULTS.json")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    assumptions: AssumptionArguments,
}

/// Prints a report, and writes it to the files of `--json` and `--html`.
fn write_report(of: &ReportArguments, arguments: &BenchArguments) -> Result<(), String> {
    if arguments.quick || arguments.seconds.is_some() {
        return Err("report: --quick and --seconds are for measurements; a report makes none".into());
    }
    let read = |path: &PathBuf| ResultFile::read(path).map_err(|error| error.to_string());
    let files: Result<Vec<ResultFile>, String> = of.files.iter().map(read).collect();
    let made = Report::new(files?, &of.assumptions).map_err(|error| error.to_string())?;
    print!("{}", report::text(&made));
    if let Some(path) = &arguments.json {
        write_file(path, &format!("{:#}\n", made.json()))?;
    }
    if let Some(path) = &arguments.html {
        write_file(path, &report::page(&made).map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

/// Sizes of the floor.
#[derive(Args, Clone, Debug)]
pub struct FloorArguments {
    /// Flows, several times for several sizes; without, one session, those of T3, T1 and T2.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=33_554_432))]
    flows: Vec<u32>,
    /// Flows of each session.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    flows_per_session: u32,
}

impl FloorArguments {
    /// Flows and sessions.
    fn sizes(&self) -> Vec<[u32; 2]> {
        if self.flows.is_empty() {
            let plan = Plan::new(false, &[], None);
            let models = [Some(Model::open()), plan.t1(), plan.t2()];
            let of_targets = models
                .iter()
                .flatten()
                .map(|model| [model.entries(), model.active]);
            return [[self.flows_per_session.max(2), 1]]
                .into_iter()
                .chain(of_targets)
                .collect();
        }
        let sessions = |flows: u32| (flows / self.flows_per_session).max(1);
        self.flows.iter().map(|&flows| [flows, sessions(flows)]).collect()
    }
}

/// Measures the floors. Exit status 1 when there is no memory for a size.
fn floor(arguments: &FloorArguments, common: &BenchArguments) -> ExitCode {
    println!("one core, packets in memory, {NO_DRIVER}; ns per packet: median round (fastest)");
    println!(
        "{:>12} {:>10} {:>16} {:>16} {:>16}  tables of the last two",
        "flows", "sessions", "sketch", "lookup", "line budget"
    );
    let mut all = Vec::new();
    for [flows, sessions] in arguments.sizes() {
        let floors = match Floors::measure(flows, sessions, common.seconds.unwrap_or(2.0)) {
            Ok(floors) => floors,
            Err(error) => {
                eprintln!("bench: {flows} flows: {error}");
                return ExitCode::from(RUN_ERROR);
            }
        };
        let shown = |floor: &FloorFigure| format!("{:.1} ({:.1})", floor.round.median, floor.round.min);
        println!(
            "{flows:>12} {sessions:>10} {:>16} {:>16} {:>16}  {:.1} MiB, {:.0}% in huge pages",
            shown(&floors.sketch),
            shown(&floors.lookup),
            shown(&floors.line_budget),
            floors.memory_octets as f64 / f64::from(1 << 20),
            floors.huge_octets as f64 * 100.0 / floors.memory_octets.max(1) as f64,
        );
        all.push(floors);
    }
    ended(common.json.as_ref().map_or(Ok(()), |path| {
        let text = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
        write_file(path, &(text + "\n"))
    }))
}
