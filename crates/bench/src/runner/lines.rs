//! Figures as lines of text.

use super::super::clock::ticks_per_second;
use super::super::overload::{OverloadTrial, Round};
use super::super::pfcp::Span;
use super::super::results::Point;
use super::super::search::RatedTrial;
use super::super::selffed::Figure;
use super::super::targets::short;

/// One procedure under one condition in a line.
pub(super) fn pfcp_line(condition: &str, span: &Span) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let (round, delays) = (&span.round, span.round.delays);
    let offered = span
        .offered
        .map_or(String::new(), |rate| format!("  {} offered", short(rate)));
    let failed = if span.is_whole() {
        String::new()
    } else {
        format!("  REFUSED {:?}, {} unanswered", round.refused, round.unanswered)
    };
    format!(
        "  {condition:<15} {:<14} {:>7} a CPU second  {:>7}/s  p50 {:.2}  p99 {:.2}  p99.9 {:.2}{offered}{failed}",
        span.procedure.name(),
        short(span.per_cpu_second()),
        short(span.per_second()),
        ms(delays.p50),
        ms(delays.p99),
        ms(delays.p999)
    )
}

/// A load of a device in a line: undisturbed intervals, then all packets.
pub(super) fn latency_line(name: &str, point: &RatedTrial) -> String {
    let us = |nanos: u64| nanos as f64 / 1_000.0;
    let (trial, intervals) = (&point.trial, &point.trial.intervals);
    let of = &intervals.undisturbed;
    let void = point
        .void_intervals
        .as_ref()
        .map_or(String::new(), |why| format!("  void: {why}"));
    format!(
        "  {name:<7} {:>4}%  {:>6} Mpps  lost {}  p50 {:.1} us  p99 {:.1}  p99.9 {:.1}  PDV p99 {:.1}  p99.9 {:.1}  \
         IPDV p99 {:.1}  | all: lost {}  p50 {:.1}  p99.9 {:.1}  {} of {} intervals with absences{void}",
        point.load,
        short(trial.rate / 1e6),
        of.lost,
        us(of.delays.p50),
        us(of.delays.p99),
        us(of.delays.p999),
        us(of.variation.pdv_p99),
        us(of.variation.pdv_p999),
        us(of.variation.ipdv_p99),
        of.lost + intervals.beside_absences.lost,
        us(trial.delays.p50),
        us(trial.delays.p999),
        intervals.disturbed,
        intervals.intervals
    )
}

/// A round of an overload in lines: without a backlog, and with it.
pub(super) fn overload_lines(round: &Round) -> String {
    let drop = match round.with.dropped * 100.0 > round.with.goodput {
        true => format!(
            "  a drop costs {:.1} ns, {:.0} ticks",
            round.drop_nanos(),
            round.drop_ticks()
        ),
        false => String::new(),
    };
    let void = round.void().map_or(String::new(), |why| format!("  void: {why}"));
    format!(
        "{}\n{}\n           at {:.2} times the load {:.3} of the goodput{drop}{void}",
        overload_line("without", &round.without),
        overload_line("backlog", &round.with),
        round.factor(),
        round.share(),
    )
}

fn overload_line(name: &str, of: &OverloadTrial) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let (echoed, intervals) = (of.echoed, of.echoed.intervals);
    let stages = of.counted.stages.iter();
    let stages: Vec<_> = stages
        .filter(|stage| stage.calls > 0)
        .map(|stage| format!("{} {:.0}", stage.stage, of.ticks_of(stage)))
        .collect();
    format!(
        "  {name}  {:>6.2} of {:>6.2} Mpps  echoes: lost {} of {}  p50 {:.3} ms  p99.9 {:.3}  | all: {} of {} answered  p99.9 {:.3}  \
         {} of {} intervals with absences\n           ticks for each packet forwarded: {}",
        of.goodput / 1e6,
        of.trial.rate / 1e6,
        intervals.undisturbed.lost,
        intervals.undisturbed.offered,
        ms(intervals.undisturbed.delays.p50),
        ms(intervals.undisturbed.delays.p999),
        echoed.answered,
        echoed.asked,
        ms(echoed.delays.p999),
        intervals.disturbed,
        intervals.intervals,
        stages.join(", ")
    )
}

/// One figure in a line.
pub(super) fn line(point: &Point) -> String {
    let figure = &point.figure;
    let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.1}"));
    let sound = if figure.is_sound() {
        String::new()
    } else {
        format!("  VOID: {}", figure.checked.fault())
    };
    format!(
        "  {:<24} {:>6.1} ns ({:.1} to {:.1})  {:>6} Mpps  {:>4}x sketch {:>4}x lookup {:>4}x line budget  port {:.1} ns{sound}",
        figure.name,
        figure.net_nanos.median,
        figure.net_nanos.min,
        figure.net_nanos.max,
        short(figure.mpps.median),
        ratio(point.sketch_ratio),
        ratio(point.lookup_ratio),
        ratio(point.line_budget_ratio),
        figure.null.nanos_per_packet,
    )
}

/// The table of a worker's stages in a measurement.
#[must_use]
pub fn stage_table(figure: &Figure) -> Vec<String> {
    let mut lines = vec![format!(
        "  {:<8} {:>12} {:>14} {:>14} {:>14}",
        "stage", "calls", "packets", "cycles/packet", "packets/call"
    )];
    let rx = figure.counted.rx.max(1) as f64;
    // Making frames happens inside the stage `rx`.
    let port: u64 = figure.runs.iter().map(|run| run.port_ticks).sum();
    for stage in &figure.counted.stages {
        let own = if stage.stage == "rx" {
            stage.cycles.saturating_sub(port)
        } else {
            stage.cycles
        };
        lines.push(format!(
            "  {:<8} {:>12} {:>14} {:>14.1} {:>14.1}",
            stage.stage,
            stage.calls,
            stage.packets,
            own as f64 / rx,
            stage.packets as f64 / stage.calls.max(1) as f64
        ));
    }
    lines.push(format!(
        "  ticks at {:.2} GHz; of all packets, also where a stage saw few",
        ticks_per_second() / 1e9
    ));
    lines
}
