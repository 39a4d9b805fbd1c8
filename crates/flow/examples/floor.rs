//! Prints the floors: `cargo run --release -p flow --example floor -- [seconds] [flows[/sessions] ...]`.
//!
//! The sketch is taken twice: with the buffers of a self-fed port, and with 16,384 that are all filled before they are
//! worked on, to compare it with programs that do that.

use std::time::Duration;

use flow::floor::{Pool, Size, Sketch, Work, Workload};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(2, |text| number(&text));
    let mut sizes: Vec<Size> = arguments.map(|text| size(&text)).collect();
    if sizes.is_empty() {
        sizes = ["10000", "20000/10000", "1000000", "8388608", "16777216"]
            .map(size)
            .into();
    }
    for size in sizes {
        print_size(size, Duration::from_secs(seconds.into()));
    }
}

/// Flows and sessions; by default 64 flows a session.
fn size(text: impl AsRef<str>) -> Size {
    let (flows, sessions) = text.as_ref().split_once('/').unwrap_or((text.as_ref(), ""));
    let flows = number(flows);
    let sessions = if sessions.is_empty() {
        (flows / 64).max(1)
    } else {
        number(sessions)
    };
    Size { flows, sessions }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

fn print_size(size: Size, duration: Duration) {
    let mut workload = match Workload::new(size) {
        Ok(workload) => workload,
        Err(error) => return println!("{} flows: {error}", size.flows),
    };
    let built = workload.built();
    println!(
        "{} flows, {} sessions: {}; inserted in {:.0} ns each, {} moves",
        size.flows,
        size.sessions,
        built.memory,
        built.insert_nanos as f64 / f64::from(size.flows),
        built.moves,
    );
    for work in [Work::Lookup, Work::LineBudget, Work::FarForward] {
        let floor = workload.measure(work, duration);
        println!(
            "  {work:?}: best {:.1} ns, mean {:.1} ns ({:.0} ticks); {} packets, {} hits, {} green",
            floor.best_nanos_per_packet(),
            floor.nanos_per_packet(),
            floor.cycles_per_packet(),
            floor.packets,
            floor.hits,
            floor.green,
        );
    }
    drop(workload);
    for (buffers, window) in [(1_280, 512), (16_384, 16_384)] {
        let mut sketch = match Sketch::new(size, Pool { buffers, window }) {
            Ok(sketch) => sketch,
            Err(error) => return println!("{} flows: {error}", size.flows),
        };
        let floor = sketch.measure(duration);
        println!(
            "  Sketch, {buffers} buffers: best {:.1} ns, mean {:.1} ns ({:.0} ticks); {} packets, {} hits",
            floor.best_nanos_per_packet(),
            floor.nanos_per_packet(),
            floor.cycles_per_packet(),
            floor.packets,
            floor.hits,
        );
    }
}
