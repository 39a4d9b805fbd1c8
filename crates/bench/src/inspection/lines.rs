//! What is printed.

use super::outcome::{Compared, Inspected};

/// The results in words.
#[must_use]
pub fn lines(results: &Inspected) -> Vec<String> {
    let [sessions, active] = results.sessions;
    let head = format!("inspection: {sessions} sessions, {active} with four connections each of 40 packets");
    std::iter::once(head)
        .chain(results.compared.iter().flat_map(of))
        .collect()
}

fn of(one: &Compared) -> Vec<String> {
    let [hosts, prefixes] = one.rules;
    vec![
        format!("\n{}: {hosts} hosts, {prefixes} prefixes", one.name),
        format!(
            "  {:.1} ns a packet with, {:.1} without; {:.3} of the rate ({:.3} to {:.3}); {:.2} Mpps",
            one.with.median,
            one.without.median,
            one.kept.median,
            one.kept.min,
            one.kept.max,
            1_000.0 / one.with.median.max(0.001)
        ),
        format!(
            "  a connection costs {:.0} ns more; {:.1}% of packets inspected, {:.1}% of hosts found; dropped {:?}",
            (one.with.median - one.without.median) * 40.0,
            one.inspected_percent,
            one.found_percent,
            one.drops
        ),
    ]
}
