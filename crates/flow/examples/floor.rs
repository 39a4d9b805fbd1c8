//! Prints the floors: `cargo run --release -p flow --example floor -- [seconds] [flows ...]`.

use std::time::Duration;

use flow::floor::{Size, Work, World};

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u32>().expect("arguments are numbers"));
    let seconds = numbers.next().unwrap_or(2);
    let mut sizes: Vec<u32> = numbers.collect();
    if sizes.is_empty() {
        sizes = vec![10_000, 1_000_000, 8_388_608, 16_777_216];
    }
    for flows in sizes {
        print_size(
            Size {
                flows,
                sessions: (flows / 64).max(1),
            },
            Duration::from_secs(seconds.into()),
        );
    }
}

fn print_size(size: Size, duration: Duration) {
    let mut world = match World::new(size) {
        Ok(world) => world,
        Err(error) => return println!("{} flows: {error}", size.flows),
    };
    let built = world.built();
    println!(
        "{} flows, {} sessions: {}; inserted in {:.0} ns each, {} moves",
        size.flows,
        size.sessions,
        built.memory,
        built.insert_nanos as f64 / f64::from(size.flows),
        built.moves,
    );
    for work in [Work::Lookup, Work::LineBudget, Work::FarForward] {
        let floor = world.measure(work, duration);
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
}
