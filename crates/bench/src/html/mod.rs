//! The page: plots as SVG inside it, tables beside them, nothing from elsewhere.

pub(super) mod chart;
pub(super) mod escape;
pub(super) mod frame;

use std::collections::BTreeMap;

use self::chart::{Axis, PlotPoint, Series};
use self::escape::escape;
use self::frame::{document, pair, section, table};
use super::egress;
use super::error::BenchError;
use super::floors::{FloorFigure, Floors};
use super::latency::{DeviceLatency, Latencies};
use super::nat;
use super::offload;
use super::overload::Round;
use super::published;
use super::results::{Point, Results};
use super::runner::stage_table;
use super::search::RatedTrial;
use super::targets::{Target, short};
use super::twocore::StreamDelays;

/// The page of these results.
///
/// # Errors
/// The drawing's.
pub fn page(results: &Results) -> Result<String, BenchError> {
    let sections = [
        targets(results),
        floors(results),
        sizes(results)?,
        flows(results)?,
        sessions(results)?,
        published(results),
        setup(results),
        pfcp(results),
        scaling(results)?,
        latency(results)?,
        overload(results),
        translation(results),
        accelerator(results),
        egress_manager(results),
        stages(results),
        machine(results),
        settings(results),
    ];
    let quick = if results.quick {
        "<p class=\"warning\">A quick look: small tables and short runs. These are not the figures that count.</p>"
    } else {
        ""
    };
    let body = format!(
        "<p>Packets in memory, <b>{}</b> in any figure; net of the port's own work. {}</p>{quick}{}",
        escape(results.leaves_out),
        escape(&results.machine.line()),
        sections.concat()
    );
    Ok(document("sluice bench", &body))
}

fn targets(results: &Results) -> String {
    let row = |target: &Target| {
        let sign = if target.at_least { "&ge;" } else { "&le;" };
        let (class, word) = if target.met {
            ("met", "reached")
        } else {
            ("missed", "not reached")
        };
        let [sketch, budget] = target.floors.map_or([String::new(), String::new()], |ratios| {
            [ratios.sketch_ratio, ratios.line_budget_ratio].map(|ratio| format!("{ratio:.2}"))
        });
        format!(
            "<tr><td>{}</td><td>{} {}</td><td>{sign} {}</td><td class=\"{class}\">{word}</td><td>{sketch}</td><td>{budget}</td>\
             <td class=\"words\">{}</td><td class=\"words\">{}</td></tr>",
            escape(target.id),
            short(target.value),
            escape(target.unit),
            short(target.target),
            escape(target.what),
            escape(
                &target
                    .note
                    .iter()
                    .chain(&target.but)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join("; ")
            )
        )
    };
    let rows: Vec<String> = results
        .targets
        .iter()
        .flat_map(|target| std::iter::once(target).chain(target.parts.iter().skip(1)))
        .map(row)
        .collect();
    let head = "<tr><th>target</th><th>measured</th><th>asked</th><th></th><th>x sketch floor</th><th>x line-budget floor</th><th></th><th></th></tr>";
    section(
        "Targets",
        &format!(
            "<div style=\"overflow-x:auto\"><table>{head}{}</table></div>",
            rows.concat()
        ),
    )
}

fn floors(results: &Results) -> String {
    let row = |floors: &Floors| {
        let nanos = |floor: &FloorFigure| {
            let round = floor.round;
            format!("{:.1} ({:.1} to {:.1})", round.median, round.min, round.max)
        };
        vec![
            floors.flows.to_string(),
            floors.sessions.to_string(),
            nanos(&floors.sketch),
            nanos(&floors.lookup),
            nanos(&floors.line_budget),
        ]
    };
    let rows: Vec<Vec<String>> = results.floors.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["flows", "sessions", "sketch", "lookup", "line budget"];
    let note =
        "<p>The sketch has none of the product's code; the others run its table, blocks and meters.</p>";
    section(
        "Floors, ns per packet, median round (least to greatest)",
        &format!("{note}{}", table(&head, &rows)),
    )
}

fn point_rows(points: &[Point]) -> String {
    let row = |point: &Point| {
        let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let figure = &point.figure;
        vec![
            figure.name.clone(),
            format!("{:.1}", figure.net_nanos.median),
            format!("{:.1} to {:.1}", figure.net_nanos.min, figure.net_nanos.max),
            short(figure.mpps.median),
            ratio(point.sketch_ratio),
            ratio(point.lookup_ratio),
            ratio(point.line_budget_ratio),
            format!("{:.2}%", point.drop_share * 100.0),
        ]
    };
    let head = [
        "point",
        "ns/packet",
        "least to greatest",
        "Mpps",
        "x sketch",
        "x lookup",
        "x line budget",
        "dropped",
    ];
    table(&head, &points.iter().map(row).collect::<Vec<_>>())
}

fn sizes(results: &Results) -> Result<String, BenchError> {
    let points = &results.sweeps.sizes;
    if points.is_empty() {
        return Ok(String::new());
    }
    let mut names: Vec<&str> = points
        .iter()
        .filter_map(|point| point.figure.name.split(' ').next())
        .collect();
    names.dedup();
    let of = |name: &str| {
        let own = points.iter().filter(|point| point.figure.name.starts_with(name));
        let place = |point: &Point| PlotPoint::new(point.figure.sizes[0].into(), point.figure.mpps.median);
        Series::measured(format!("profile {name}"), own.map(place).collect())
    };
    let series: Vec<Series> = names.into_iter().map(of).collect();
    let axes = (
        Axis::linear("uplink frame, octets"),
        Axis::linear("Mpps per worker"),
    );
    let body = pair(axes.0, axes.1, &series, &point_rows(points))?;
    Ok(section("Profiles and frame sizes of model V", &body))
}

fn flows(results: &Results) -> Result<String, BenchError> {
    let points = &results.sweeps.flows;
    if points.is_empty() {
        return Ok(String::new());
    }
    let measured = |point: &Point| PlotPoint::new(point.figure.flows.into(), point.figure.round_nanos);
    let of_t1 = |floors: &&Floors| {
        points
            .iter()
            .any(|point| (point.figure.flows, point.figure.sessions) == (floors.flows, floors.sessions))
    };
    let mut floors: Vec<_> = results.floors.iter().filter(of_t1).collect();
    floors.sort_by_key(|floors| floors.flows);
    let line = |nanos: fn(&Floors) -> f64| {
        floors
            .iter()
            .map(|floors| PlotPoint::new(floors.flows.into(), nanos(floors)))
            .collect()
    };
    let series = [
        Series::measured("worker", points.iter().map(measured).collect()),
        Series::reference("sketch floor", line(|floors| floors.sketch.round.median)),
        Series::reference(
            "line-budget floor",
            line(|floors| floors.line_budget.round.median),
        ),
        Series::reference("lookup floor", line(|floors| floors.lookup.round.median)),
        Series::reference(
            "T1: 2x sketch floor",
            line(|floors| 2.0 * floors.sketch.round.median),
        ),
    ];
    let body = pair(
        Axis::log("flows"),
        Axis::linear("ns per packet, median round"),
        &series,
        &point_rows(points),
    )?;
    Ok(section("Flows, model V profile 2, 256 octets", &body))
}

fn sessions(results: &Results) -> Result<String, BenchError> {
    let points = &results.sweeps.sessions;
    if points.is_empty() {
        return Ok(String::new());
    }
    let measured = |point: &Point| PlotPoint::new(point.figure.sessions.into(), point.figure.round_nanos);
    let floor = |nanos: fn(&Floors) -> f64| {
        let place = |point: &Point| {
            let floors = results.floors_of(point.figure.flows, point.figure.sessions)?;
            Some(PlotPoint::new(point.figure.sessions.into(), nanos(floors)))
        };
        points.iter().filter_map(place).collect()
    };
    let bound = points
        .iter()
        .map(|point| PlotPoint::new(point.figure.sessions.into(), 33.0));
    let series = [
        Series::measured("worker", points.iter().map(measured).collect()),
        Series::reference("sketch floor", floor(|floors| floors.sketch.round.median)),
        Series::reference(
            "line-budget floor",
            floor(|floors| floors.line_budget.round.median),
        ),
        Series::reference("T3: 33 ns", bound.collect()),
    ];
    let body = pair(
        Axis::log("sessions"),
        Axis::linear("ns per packet, median round"),
        &series,
        &point_rows(points),
    )?;
    Ok(section("Sessions, an entry for each tunnel", &body))
}

fn published(results: &Results) -> String {
    let ours = results.throughput.iter().map(|point| {
        vec![
            format!("Sluice here, {}", point.figure.name),
            short(point.figure.mpps.median),
        ]
    });
    let theirs = published::per_core().into_iter();
    let theirs = theirs.map(|one| vec![one.what, short(one.mpps_per_core)]);
    let io = results
        .io_forwarding
        .map(|io| vec!["DPDK io forwarding here".to_owned(), short(io.mpps.median)]);
    let rows: Vec<Vec<String>> = ours.chain(io).chain(theirs).collect();
    let note =
        "<p>The published figures are of other machines, with their NICs; ours have no NIC driver.</p>";
    section(
        "Beside published figures, Mpps per core",
        &format!("{note}{}", table(&["", "Mpps"], &rows)),
    )
}

fn setup(results: &Results) -> String {
    let mut rows = Vec::new();
    if let Some(alone) = &results.setup_alone {
        for span in &alone.spans {
            let nanos = alone.nanos(span);
            rows.push(vec![
                format!("alone, {}", span.name),
                format!("{nanos:.0}"),
                short(1e9 / nanos),
                String::new(),
                String::new(),
            ]);
        }
    }
    if let Some(beside) = &results.setup_beside {
        for span in [&beside.moderate, &beside.half, &beside.flood] {
            rows.push(vec![
                span.name.clone(),
                format!("{:.0}", super::setup::own_nanos(span)),
                short(span.set_up()),
                format!("{:.4}%", span.established_lost() * 100.0),
                format!("{:.1}%", span.share_of(worker::Stage::Slow) * 100.0),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = [
        "",
        "ns/packet",
        "new flows/s",
        "established lost",
        "slow path's cycles",
    ];
    section("Flow set-up through the slow path", &table(&head, &rows))
}

fn pfcp(results: &Results) -> String {
    let Some(pfcp) = &results.pfcp else {
        return String::new();
    };
    let row = |(condition, span): (&str, &super::pfcp::Span)| {
        let ms = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
        let delays = span.round.delays;
        vec![
            format!("{}, {condition}", span.procedure.name()),
            span.offered.map_or("closed loop".into(), short),
            short(span.per_cpu_second()),
            short(span.per_second()),
            ms(delays.p50),
            ms(delays.p99),
            ms(delays.p999),
            (span.round.requests - span.round.accepted).to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = pfcp.spans().map(row).collect();
    let head = [
        "",
        "offered/s",
        "a CPU second",
        "/s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "not accepted",
    ];
    let [pdrs, fars, qers, urrs] = pfcp.rules;
    let note = format!(
        "<p>{} SMFs on UDP sockets of the kernel, {} sessions of {pdrs} PDR, {fars} FAR, {qers} QER, {urrs} URR \
         ({} octets of request), {:.0} octets of memory each with control's session state. Beside: {} Mpps.</p>",
        pfcp.smfs,
        pfcp.sessions,
        pfcp.request_octets,
        pfcp.per_session(),
        short(pfcp.traffic.packets as f64 / pfcp.traffic.seconds.max(1e-9) / 1e6)
    );
    section("PFCP", &format!("{note}{}", table(&head, &rows)))
}

fn scaling(results: &Results) -> Result<String, BenchError> {
    let Some(one) = results.scaling.first() else {
        return Ok(String::new());
    };
    let (one, one_sketch) = (one.mpps(), one.sketch_mpps());
    let points = || results.scaling.iter().map(|point| f64::from(point.workers));
    let series = [
        Series::measured(
            "workers together",
            points()
                .zip(results.scaling.iter().map(super::scaling::Scaling::mpps))
                .map(|(workers, mpps)| PlotPoint::new(workers, mpps))
                .collect(),
        ),
        Series::reference(
            "N times one",
            points().map(|n| PlotPoint::new(n, n * one)).collect(),
        ),
        Series::reference(
            "T11: 0.9",
            points().map(|n| PlotPoint::new(n, 0.9 * n * one)).collect(),
        ),
    ];
    let rows: Vec<Vec<String>> = results
        .scaling
        .iter()
        .map(|point| {
            let of_one =
                |together: f64, one: f64| format!("{:.3}", together / (f64::from(point.workers) * one));
            vec![
                point.workers.to_string(),
                short(point.mpps()),
                of_one(point.mpps(), one),
                of_one(point.sketch_mpps(), one_sketch),
            ]
        })
        .collect();
    let body = pair(
        Axis::linear("workers"),
        Axis::linear("Mpps together"),
        &series,
        &table(
            &["workers", "Mpps", "of N x one", "sketch floor, of N x one"],
            &rows,
        ),
    )?;
    Ok(section("Workers", &body))
}

fn latency(results: &Results) -> Result<String, BenchError> {
    let Some(latency) = &results.latency else {
        return Ok(String::new());
    };
    let mut rows = Vec::new();
    for (name, device) in [("worker", &latency.worker), ("io", &latency.plain)] {
        rows.extend(device.loads.iter().map(|point| latency_row(name, point)));
    }
    let head = [
        "load",
        "Mpps",
        "lost",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "PDV p99",
        "PDV p99.9",
        "IPDV p99",
        "all: lost",
        "all: p50",
        "all: p99.9",
        "intervals with absences",
        "void",
    ];
    let bound = if latency.worker.is_generator_bound {
        ", bounded by the generator and not by loss"
    } else {
        ""
    };
    let note = format!(
        "<p>What the worker can do: {} Mpps, without a backlog, of more than it can process. Greatest rate without loss, \
         of those tried: {}{bound}.</p><p>Delays and losses are those of intervals in which neither thread lost its core, by \
         gaps of their clocks; behind <i>all</i> are those of all packets. PDV and IPDV: RFC 5481.</p>",
        short(latency.capacity.rate / 1e6),
        latency.zero_loss()
    );
    let body = pair(
        Axis::linear("load, % of what the worker can do"),
        Axis::log("us"),
        &latency_series(latency),
        &format!("{note}{}", table(&head, &rows)),
    )?;
    Ok(section("Loss and latency, two cores", &body))
}

fn latency_series(latency: &Latencies) -> [Series; 6] {
    type Delay = fn(&StreamDelays) -> u64;
    let line = |device: &DeviceLatency, delay: Delay| {
        let place = |point: &RatedTrial| {
            let nanos = delay(&point.trial.intervals.undisturbed);
            PlotPoint::new(point.load.into(), nanos as f64 / 1_000.0)
        };
        device.loads.iter().map(place).collect()
    };
    let (worker, io) = (&latency.worker, &latency.plain);
    [
        Series::measured("worker p50", line(worker, |of| of.delays.p50)),
        Series::measured("worker p99", line(worker, |of| of.delays.p99)),
        Series::measured("worker p99.9", line(worker, |of| of.delays.p999)),
        Series::measured("worker PDV p99.9", line(worker, |of| of.variation.pdv_p999)),
        Series::reference("io p50", line(io, |of| of.delays.p50)),
        Series::reference("io p99.9", line(io, |of| of.delays.p999)),
    ]
}

fn latency_row(name: &str, point: &RatedTrial) -> Vec<String> {
    let us = |nanos: u64| format!("{:.1}", nanos as f64 / 1_000.0);
    let (trial, intervals) = (&point.trial, &point.trial.intervals);
    let of = &intervals.undisturbed;
    vec![
        format!("{name} {}%", point.load),
        short(trial.rate / 1e6),
        of.lost.to_string(),
        us(of.delays.p50),
        us(of.delays.p99),
        us(of.delays.p999),
        us(of.variation.pdv_p99),
        us(of.variation.pdv_p999),
        us(of.variation.ipdv_p99),
        (of.lost + intervals.beside_absences.lost).to_string(),
        us(trial.delays.p50),
        us(trial.delays.p999),
        format!("{} of {}", intervals.disturbed, intervals.intervals),
        point.void_intervals.clone().unwrap_or_default(),
    ]
}

fn overload(results: &Results) -> String {
    let Some(overload) = &results.overload else {
        return String::new();
    };
    let ms = |nanos: u64| format!("{:.3}", nanos as f64 / 1e6);
    let row = |round: &Round| {
        let echoes = &round.with.echoed.intervals.undisturbed;
        vec![
            format!("{:.2}", round.factor()),
            short(round.with.trial.rate / 1e6),
            short(round.without.goodput / 1e6),
            short(round.with.goodput / 1e6),
            format!("{:.3}", round.share()),
            format!("{:.1}", round.drop_nanos()),
            format!("{} of {}", echoes.lost, echoes.offered),
            ms(echoes.delays.p999),
            format!("{} of {}", round.with.echoed.answered, round.with.echoed.asked),
            ms(round.with.echoed.delays.p999),
            round.void().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = overload.rounds.iter().map(row).collect();
    let head = [
        "load",
        "Mpps offered",
        "Mpps without a backlog",
        "Mpps with it",
        "of that without",
        "ns a drop",
        "echoes lost",
        "p99.9 ms",
        "all: answered",
        "all: p99.9",
        "void",
    ];
    section("Overload, two cores", &table(&head, &rows))
}

fn translation(results: &Results) -> String {
    let Some(found) = &results.nat else {
        return String::new();
    };
    let head = ["point", "ns/packet", "least to greatest", "Mpps", "of without"];
    let memory = found.memory.map_or(String::new(), |memory| {
        format!(
            "<p>{:.1} octets a mapping by the resident set.</p>",
            memory.per_mapping()
        )
    });
    let body = format!("{}{memory}", table(&head, &nat::rows(found)));
    section("CG-NAT, with it and without", &body)
}

fn accelerator(results: &Results) -> String {
    let Some(found) = &results.offload else {
        return String::new();
    };
    let head = ["point", "ns", "least to greatest", "M/s", "of alone, or without"];
    let lines = offload::lines(found).join("\n");
    let body = format!(
        "{}<pre>{}</pre>",
        table(&head, &offload::rows(found)),
        escape(&lines)
    );
    section("An accelerator, driven in-band", &body)
}

fn egress_manager(results: &Results) -> String {
    let Some(found) = &results.egress else {
        return String::new();
    };
    let head = ["queues", "octets", "load", "ns/packet", "least to greatest"];
    let lines = egress::lines(found).join("\n");
    let body = format!(
        "{}<pre>{}</pre>",
        table(&head, &egress::rows(found)),
        escape(&lines)
    );
    section("The egress traffic manager", &body)
}

fn stages(results: &Results) -> String {
    let tables: Vec<String> = results
        .throughput
        .iter()
        .map(|point| {
            let lines = stage_table(&point.figure).join("\n");
            format!(
                "<h3>{}</h3><pre>{}</pre>",
                escape(&point.figure.name),
                escape(&lines)
            )
        })
        .collect();
    if tables.is_empty() {
        String::new()
    } else {
        section("Where the cycles go", &tables.concat())
    }
}

fn settings(results: &Results) -> String {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, differences) in &results.settings {
        let line = super::settings::line(differences);
        names.entry(line).or_default().push(name);
    }
    let rows: Vec<Vec<String>> = names
        .into_iter()
        .map(|(line, names)| vec![names.join("; "), line])
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    section("Settings", &table(&["figures", "workers have"], &rows))
}

fn machine(results: &Results) -> String {
    let mut lines = vec![results.machine.line()];
    if let Some(memory) = &results.memory {
        lines.push(format!(
            "{:.0} octets a flow, {:.0} octets a session, by the resident set",
            memory.per_flow(),
            memory.per_session()
        ));
    }
    lines.extend(results.left_out.iter().cloned());
    let items: Vec<String> = lines
        .iter()
        .map(|line| format!("<li>{}</li>", escape(line)))
        .collect();
    section(
        "Machine, memory, and what was left out",
        &format!("<ul>{}</ul>", items.concat()),
    )
}
