//! What is printed, and rows for the page.

use super::super::clock::Spread;
use super::super::targets::short;
use super::delay::DeviceDelay;
use super::outcome::{Ended, Offloaded};

/// The results in words.
#[must_use]
pub fn lines(results: &Offloaded) -> Vec<String> {
    let (installs, beside) = (&results.installs, &results.beside);
    let mut lines = vec![
        format!(
            "accelerator: {} sessions away, {} flow entries; both ends on one thread, each end's time by itself",
            results.sessions, results.flows
        ),
        "\nfirst packets of flows of sessions that are away".into(),
        of("accelerator", &installs.accelerator),
        of("host", &installs.host),
        of("a worker alone", &installs.local),
        format!(
            "  {} new flows a second, each end on a core of its own; {:.2} of a worker alone; {} a second take {:.0}% \
             of the accelerator's core",
            short(installs.rate() / 1e6) + " M",
            installs.of_local(),
            results.asked_rate,
            installs.share_at(results.asked_rate) * 100.0
        ),
        "\nthe same, each first packet to the host and back".into(),
        of("accelerator", &results.installs_whole.accelerator),
        of("host", &results.installs_whole.host),
        format!(
            "\nestablished flows, {:.0} new ones a second beside them in turn",
            beside.rate
        ),
        of("without new", &beside.without),
        of("with new", &beside.with),
        of("a worker alone", &beside.alone),
        format!(
            "  {:.3} of the rate ({:.3} to {:.3}, {} pairs); {} packets dropped",
            beside.kept.median, beside.kept.min, beside.kept.max, beside.kept.count, beside.dropped
        ),
        format!(
            "\none control frame of 100 lost, {} in all, {} contact: {} packets passed, {} are counted",
            results.lossy.control_lost, results.lossy.contacts, results.lossy.passed, results.lossy.counted
        ),
    ];
    if !results.ended.is_empty() {
        lines.push(format!(
            "\nthe accelerator's process ends under traffic; another one is there at once. Counts of {} packets may be \
             lost",
            results.bound
        ));
    }
    lines.extend(results.ended.iter().map(of_end));
    let delay = &results.delay;
    if delay.flows > 0 {
        lines.push(format!(
            "\ndelays at {} Mpps, on two cores: {} sessions with {} flows; the host is idle, and on the accelerator's core",
            short(delay.rate / 1e6),
            delay.sessions,
            delay.flows
        ));
        lines.push(of_delay("accelerator", &delay.accelerator));
        lines.push(of_delay("a worker alone", &delay.alone));
    }
    lines
}

fn of(name: &str, spread: &Spread) -> String {
    format!(
        "  {name:<14} {:>7.1} ns ({:.1} to {:.1}, {} rounds)",
        spread.median, spread.min, spread.max, spread.count
    )
}

fn of_delay(name: &str, DeviceDelay { delays, loss, void }: &DeviceDelay) -> String {
    let us = |nanos: u64| short(nanos as f64 / 1e3);
    let void = void
        .as_ref()
        .map_or_else(String::new, |why| format!("; VOID: {why}"));
    format!(
        "  {name:<14} half within {} us, 99% {}, 99.9% {}, the longest {}; {:.4}% lost{void}",
        us(delays.p50),
        us(delays.p99),
        us(delays.p999),
        us(delays.max),
        loss * 100.0
    )
}

fn of_end(end: &Ended) -> String {
    format!(
        "  a packet passes after {:.1} ms, nine of ten after {:.1} ms; counts of {} packets of {} lost",
        end.first_ms,
        end.most_ms,
        end.passed.saturating_sub(end.counted),
        end.passed
    )
}

/// The figures as rows: name, nanoseconds, least to greatest, millions a second, ratio.
#[must_use]
pub fn rows(results: &Offloaded) -> Vec<Vec<String>> {
    let row = |name: &str, spread: &Spread, ratio: Option<f64>| {
        vec![
            name.to_owned(),
            format!("{:.1}", spread.median),
            format!("{:.1} to {:.1}", spread.min, spread.max),
            short(1_000.0 / spread.median.max(0.001)),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.3}")),
        ]
    };
    let (installs, beside) = (&results.installs, &results.beside);
    vec![
        row(
            "a new flow, at the accelerator",
            &installs.accelerator,
            Some(installs.of_local()),
        ),
        row("a new flow, at the host", &installs.host, None),
        row("a new flow, at a worker alone", &installs.local, None),
        row(
            "a new flow whose packet goes to the host, at the accelerator",
            &results.installs_whole.accelerator,
            Some(results.installs_whole.of_local()),
        ),
        row(
            "a packet, while new flows come",
            &beside.with,
            Some(beside.kept.median),
        ),
        row("a packet, without new flows", &beside.without, None),
        row("a packet, at a worker alone", &beside.alone, None),
    ]
}
