//! What is printed, and rows for the page.

use super::super::targets::short;
use super::outcome::{Compared, Runs, SetUp, Translated};

/// The results in words.
#[must_use]
pub fn lines(results: &Translated) -> Vec<String> {
    let [addresses, ports] = results.pool;
    let mut lines = vec![format!(
        "NAT: {} sessions with {} mappings each, blocks of {ports} ports of {addresses} addresses",
        results.sessions, results.mappings
    )];
    lines.extend(results.compared.iter().flat_map(of));
    if let Some(memory) = &results.memory {
        lines.push(format!(
            "\nmemory: {:.1} octets a mapping by the resident set, {:.1} of them table and indexes by their sizes",
            memory.per_mapping(),
            memory.of_table
        ));
    }
    lines.extend(results.set_up.iter().flat_map(of_set_up));
    if let Some(found) = &results.hand_overs {
        lines.push(format!(
            "\nhand-overs: {} of {} packets that came by the bucket of their block; {:.2}% of the blocks are in the \
             bucket of their session",
            found.handed_over,
            found.packets,
            found.in_bucket * 100.0
        ));
    }
    lines
}

fn of(one: &Compared) -> Vec<String> {
    vec![
        format!("\n{}", one.name),
        side("with NAT", &one.with),
        side("without", &one.without),
        format!(
            "  {:.3} of the rate ({:.3} to {:.3}, {} pairs); NAT costs {:.1} ns a packet",
            one.kept.median,
            one.kept.min,
            one.kept.max,
            one.kept.count,
            one.with.nanos.median - one.without.nanos.median
        ),
    ]
}

fn of_set_up(one: &SetUp) -> Vec<String> {
    vec![
        "\nfirst packets of UEs' ports, in empty tables".into(),
        side("a mapping", &one.mappings),
        side("a flow entry", &one.entries),
        side("both", &one.both),
        format!(
            "  mappings at {:.3} of the rate of flow entries ({:.3} to {:.3}, {} fills)",
            one.ratio.median, one.ratio.min, one.ratio.max, one.ratio.count
        ),
    ]
}

/// Packets a second in millions.
pub fn mpps(runs: &Runs) -> f64 {
    1_000.0 / runs.nanos.median.max(0.001)
}

fn side(name: &str, runs: &Runs) -> String {
    let counts = &runs.counts;
    let void = match runs.is_sound() {
        true => String::new(),
        false => format!(
            "  VOID: {} with a wrong end, {} dropped {:?}",
            counts.wrong, counts.dropped, runs.drops
        ),
    };
    format!(
        "  {name:<14} {:>6.1} ns ({:.1} to {:.1})  {:>6} Mpps  {} entries  port {:.1} ns  {} of {} rounds disturbed{void}",
        runs.nanos.median,
        runs.nanos.min,
        runs.nanos.max,
        short(mpps(runs)),
        runs.entries,
        runs.null,
        counts.disturbed,
        counts.rounds + counts.disturbed,
    )
}

/// The figures as rows: name, nanoseconds, least to greatest, millions a second, ratio.
#[must_use]
pub fn rows(results: &Translated) -> Vec<Vec<String>> {
    let row = |name: String, runs: &Runs, ratio: Option<f64>| {
        let nanos = runs.nanos;
        vec![
            name,
            format!("{:.1}", nanos.median),
            format!("{:.1} to {:.1}", nanos.min, nanos.max),
            short(mpps(runs)),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
        ]
    };
    let mut rows = Vec::new();
    for one in &results.compared {
        let kept = Some(one.kept.median);
        rows.push(row(format!("{}, with NAT", one.name), &one.with, kept));
        rows.push(row(format!("{}, without", one.name), &one.without, None));
    }
    if let Some(one) = &results.set_up {
        let ratio = Some(one.ratio.median);
        rows.push(row("a new mapping".into(), &one.mappings, ratio));
        rows.push(row("a new flow entry".into(), &one.entries, None));
        rows.push(row("a new mapping and flow entry".into(), &one.both, None));
    }
    rows
}
