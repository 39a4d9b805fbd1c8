//! `sluice bench`: what this machine allows. So far the floors that every later figure is a ratio to.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flow::floor::{Floor, Size, Work, World};
use serde_json::{Value, json};

use super::RUN_ERROR;

/// Sizes of the floor.
#[derive(Args, Clone, Debug)]
pub struct FloorArguments {
    /// Flows, several times for several sizes.
    #[arg(long, default_values_t = [10_000, 1_000_000, 8_388_608], value_parser = clap::value_parser!(u32).range(2..=33_554_432))]
    flows: Vec<u32>,
    /// Flows of each session.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    flows_per_session: u32,
    /// Seconds for each figure.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// End with one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Measures the lookup floor and the line-budget floor. Exit status 1 when there is no memory for a size.
#[must_use]
pub fn floor(arguments: &FloorArguments) -> ExitCode {
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
        let time = Duration::from_secs(arguments.seconds);
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
    if arguments.json {
        println!("{}", Value::Array(lines));
    }
    ExitCode::SUCCESS
}

/// The counts that a reader can compute every rate from.
fn raw(floor: &Floor) -> Value {
    json!({
        "packets": floor.packets, "hits": floor.hits, "cycles": floor.cycles, "nanos": floor.nanos,
        "best_nanos_per_packet": floor.best_nanos_per_packet(),
    })
}
