//! A small run of all parts that need no second core: sums hold, samples equal the interpreter's results.

use super::capacity::Capacity;
use super::floors::{FloorFigure, Floors};
use super::latency::{DeviceLatency, Latencies};
use super::load::Load;
use super::model::Model;
use super::network::Wire;
use super::progress::Progress;
use super::results::{CostInTurn, Point, Results};
use super::search::RatedTrial;
use super::selffed::{Effort, Figure, measure};
use super::settings::{Setting, WorkerOf};
use super::twocore::{Delays, IntervalReport, StreamDelays, Trial, Variation};
use super::verdict;
use super::world::World;

const TINY: Effort = Effort {
    runs: 1,
    seconds: 0.02,
};

fn tiny(model: Model) -> Figure {
    tiny_on(Wire::Tagged, model)
}

fn tiny_on(wire: Wire, model: Model) -> Figure {
    let progress = Progress::silent();
    let setting = Setting {
        wire,
        ..Setting::new(model)
    };
    let mut world = World::new(setting, &progress).unwrap();
    world.install_flows(0, model.flows(), &progress).unwrap();
    let load = Load::saturated(&model, model.flows());
    measure(&mut world, "tiny", load, TINY, &progress).unwrap()
}

#[test]
fn every_model_forwards_what_it_is_given() {
    let models = [
        Model::v(2, 1).unwrap().with_sessions(64),
        Model::v(5, 4).unwrap().with_sessions(64),
        Model::v(1, 0).unwrap().with_sessions(1),
        Model::i().with_sessions(100),
        Model::open().with_sessions(100),
        Model {
            sessions: 600,
            active: 10,
            ..Model::s()
        },
    ];
    for model in models {
        let figure = tiny(model);
        assert!(figure.is_sound(), "{figure:#?}");
        assert!(
            figure.checked.same > 0 || figure.counted.rx < 5_000,
            "{figure:#?}"
        );
        assert_eq!(figure.counted.hits, figure.counted.rx, "{figure:#?}");
        assert_eq!(figure.entries as u32, model.entries(), "{figure:#?}");
    }
}

#[test]
fn every_wire_carries_the_same_packets() {
    let model = Model::v(2, 1).unwrap().with_sessions(64);
    for wire in [Wire::Tagged, Wire::Plain, Wire::Bundle] {
        let figure = tiny_on(wire, model);
        assert!(figure.is_sound(), "{wire:?} {figure:#?}");
        assert!(
            figure.checked.same > 0 || figure.counted.rx < 5_000,
            "{wire:?} {figure:#?}"
        );
        assert_eq!(figure.counted.hits, figure.counted.rx, "{wire:?} {figure:#?}");
    }
}

#[test]
fn what_links_cost_is_a_target() {
    let model = Model::v(2, 1).unwrap().with_sessions(64);
    let mut results = Results::new(true);
    let point = |wire| Point::new(tiny_on(wire, model), None);
    let mut cost = CostInTurn {
        ratio: super::clock::Spread::of(vec![1.0, 1.02, 1.5]),
        with: point(Wire::Bundle),
        without: point(Wire::Plain),
    };
    for (ratio, is_reached) in [(1.02, true), (1.04, false)] {
        cost.ratio.median = ratio;
        results.links = Some(cost.clone());
        let targets = verdict::targets(&results);
        let target = targets.iter().find(|target| target.id == "T1.links").unwrap();
        assert!((target.value - 1.0 / ratio).abs() < 1e-9);
        assert_eq!(target.value >= target.target, is_reached);
        assert!(!target.met, "64 sessions are too few");
    }
    assert!((results.json()["links"]["ratio"]["median"].as_f64().unwrap() - 1.04).abs() < 1e-9);
}

/// A load of a device: undisturbed intervals with this p50 and p99.9, and an absence beside them.
fn load(percent: u32, nanos: [u64; 2]) -> RatedTrial {
    let [p50, p999] = nanos;
    let delays = Delays {
        min: 300,
        p50,
        p99: 2_300,
        p999,
        ..Delays::default()
    };
    let undisturbed = StreamDelays {
        offered: 1_000,
        delays,
        variation: Variation {
            pdv_p99: delays.p99 - delays.min,
            ..Variation::default()
        },
        ..StreamDelays::default()
    };
    let intervals = IntervalReport {
        intervals: 100,
        disturbed: 4,
        undisturbed,
        beside_absences: StreamDelays {
            lost: 7,
            ..StreamDelays::default()
        },
        ..IntervalReport::default()
    };
    let trial = Trial {
        rate: 5e6,
        intervals,
        delays: Delays {
            p999: 2_000_000,
            ..delays
        },
        ..Trial::default()
    };
    RatedTrial::new(percent, trial, Some("others took 2.6% of a thread's time".into()))
}

#[test]
fn delays_are_judged_at_half_of_the_capacity_by_undisturbed_intervals() {
    let device = |loads| DeviceLatency {
        generator_most: 30e6,
        zero_loss_rate: None,
        is_generator_bound: false,
        search: Vec::new(),
        loads,
    };
    let mut results = Results::new(true);
    let mut latencies = Latencies {
        flows: 8_388_608,
        sessions: 131_072,
        sizes: [256; 2],
        backlog: 1_024,
        trial_seconds: 1.0,
        capacity: Capacity {
            rate: 10e6,
            is_generator_bound: false,
            trials: Vec::new(),
        },
        worker: device(vec![load(10, [9_000; 2]), load(50, [1_900, 4_000])]),
        plain: device(vec![load(50, [400, 1_500])]),
    };
    let mut t8 = |latencies: &Latencies| {
        results.latency = Some(latencies.clone());
        verdict::targets(&results).remove(0)
    };
    let target = t8(&latencies);
    assert!(target.id == "T8" && target.met, "{}", target.line());
    assert!((target.value - 1.9).abs() < 1e-9);
    let tail = &target.parts[1];
    assert!((tail.value - 4.0).abs() < 1e-9 && (tail.target - 4.5).abs() < 1e-9);
    let note = target.note.clone().unwrap();
    for words in [
        "at 5.00 Mpps of 10.00",
        "PDV p99 2.00 us",
        "4 of 100 intervals",
        "p99.9 2000, lost 7",
    ] {
        assert!(note.contains(words), "{words} in {note}");
    }
    // A loss beside no absence, too many absences, or a generator that makes too little stand against it.
    let mut lossy = latencies.clone();
    lossy.worker.loads[1].trial.intervals.undisturbed.lost = 1;
    assert_eq!(t8(&lossy).but, ["1 packets lost without an absence"]);
    let mut void = latencies.clone();
    void.plain.loads[0].void_intervals = Some("absences".into());
    assert_eq!(t8(&void).but, ["bare forwarding: absences"]);
    latencies.capacity.is_generator_bound = true;
    assert!(!t8(&latencies).met);
}

#[test]
fn urrs_count_each_packet() {
    let progress = Progress::silent();
    let model = Model::v(2, 1).unwrap().with_sessions(16);
    let mut world = World::new(Setting::new(model), &progress).unwrap();
    world.install_flows(0, model.flows(), &progress).unwrap();
    assert_eq!(world.feed().counts().given, u64::from(model.flows()));
    let counts = world.feed().counts();
    let sent: u64 = counts.sent.iter().sum();
    // One bearer in 32 lets nothing pass.
    assert_eq!(counts.freed.iter().sum::<u64>(), u64::from(model.flows()) / 32);
    assert_eq!(world.urr_packets().unwrap(), sent * u64::from(model.policy.urrs));
}

#[test]
fn workers_of_a_pair_keep_to_their_own_packets() {
    let progress = Progress::silent();
    let model = Model::v(2, 1).unwrap().with_sessions(32);
    for id in 0..2 {
        let setting = Setting {
            worker: WorkerOf { id, workers: 2 },
            ..Setting::new(model)
        };
        let mut world = World::new(setting, &progress).unwrap();
        world.install_flows(0, model.flows(), &progress).unwrap();
        assert_eq!(world.stats().handed_over, 0);
        assert_eq!(world.worker.flows() as u32, model.flows());
    }
}

/// Floors that are nothing but numbers.
fn floors(model: &Model) -> Floors {
    let floor = |nanos| FloorFigure {
        round: super::clock::Spread::of(vec![nanos]),
        ..FloorFigure::default()
    };
    Floors {
        flows: model.entries(),
        sessions: model.active,
        sketch: floor(8.0),
        lookup: floor(10.0),
        line_budget: floor(20.0),
        memory_octets: 0,
        huge_octets: 0,
    }
}

fn results() -> Results {
    let model = Model::v(2, 1).unwrap().with_sessions(64);
    let mut results = Results::new(true);
    results.floors.push(floors(&model));
    for name in ["T1", "T2", "T3"] {
        let mut figure = tiny(model);
        figure.name = name.into();
        let point = Point::new(figure, results.floors_of(model.entries(), model.active));
        results.throughput.push(point);
    }
    results.targets = verdict::targets(&results);
    results
}

#[test]
fn the_json_has_the_targets_and_what_they_are_computed_from() {
    let results = results();
    let json = results.json();
    let targets = json["targets"].as_array().unwrap();
    let ids: Vec<&str> = targets
        .iter()
        .filter_map(|target| target["id"].as_str())
        .collect();
    assert_eq!(ids, ["T1", "T2", "T3"]);
    for target in targets {
        assert!(target["value"].is_number() && target["target"].is_number());
        assert!(target["unit"].is_string() && target["met"].is_boolean());
        let ratios = ["sketch_ratio", "line_budget_ratio"].map(|name| target[name].as_f64().unwrap());
        assert!((ratios[0] / ratios[1] - 20.0 / 8.0).abs() < 1e-9, "{target:#}");
    }
    // T1 is compared with the sketch, not with the floors of the product's own code.
    assert_eq!(targets[0]["target"], 16.0);
    // Tables this small reach no target, though all three meters act.
    assert_eq!(
        (&targets[0]["met"], &targets[0]["meters"]),
        (&false.into(), &3.into())
    );
    assert_eq!(json["leaves_out"], "no NIC driver");
    for field in ["cpu", "cores", "huge_pages", "ticks_per_second", "load_average"] {
        assert!(!json["machine"][field].is_null(), "{field}");
    }
    let point = &json["throughput"][0];
    let run = &point["runs"][0];
    for field in [
        "packets",
        "ticks",
        "port_ticks",
        "wall_nanos",
        "busy_nanos",
        "waited_nanos",
    ] {
        assert!(run[field].is_u64(), "{field} in {run:#}");
    }
    assert_eq!(point["counted"]["stages"].as_array().map(Vec::len), Some(7));
    let counted = |field: &str| point["counted"][field].as_u64().unwrap_or(u64::MAX);
    assert_eq!(
        counted("rx"),
        counted("tx") + results.throughput[0].figure.counted.dropped()
    );
    // The value of T3 can be recomputed from the raw counts.
    let null = &json["throughput"][2]["null"]["nanos_per_packet"];
    let run = &json["throughput"][2]["runs"][0];
    let gross = run["busy_nanos"].as_f64().unwrap() / run["packets"].as_f64().unwrap();
    let value = targets[2]["value"].as_f64().unwrap();
    assert!((gross - null.as_f64().unwrap() - value).abs() < 1e-6);
}

#[test]
fn a_report_reads_what_a_run_writes() {
    let results = results();
    let json = results.json().to_string();
    let file = super::report::ResultFile::parse("run.json", &json).unwrap();
    assert_eq!(
        (file.points.len(), file.floors.len(), file.targets.len()),
        (3, 1, 3)
    );
    let read = file.point("T3").unwrap();
    let figure = &results.throughput[2].figure;
    assert!((read.nanos - figure.net_nanos.median).abs() < 1e-9);
    assert_eq!(read.sessions, u64::from(figure.sessions));
    assert_eq!(file.disturbance.spans, 3);
}

#[test]
fn the_page_needs_no_other_file() {
    let page = super::html::page(&results()).unwrap();
    assert!(page.contains("<th>x sketch floor</th><th>x line-budget floor</th>"));
    assert!(page.contains("<h2>Targets</h2>") && page.contains("prefers-color-scheme:dark"));
    for foreign in ["<script", "<link", "<img", "url(", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http"));
}

#[test]
fn new_flows_beside_established_ones_are_counted_apart() {
    let model = Model::v(2, 1).unwrap().with_sessions(256);
    let beside = super::setup::beside(model, TINY, &Progress::silent()).unwrap();
    for span in [&beside.moderate, &beside.half, &beside.flood] {
        assert!(span.sums_hold, "{span:#?}");
    }
    for span in [&beside.moderate, &beside.half] {
        assert_eq!(
            span.counted.misses,
            span.port.fresh[..2].iter().sum::<u64>(),
            "{span:#?}"
        );
    }
    // In the flood packets are dropped before they are looked up: those that find no room in the backlog, of either
    // kind, and first packets over the slow path's budget.
    let flood = &beside.flood;
    let overload = flood.counted.drops.get(packet::DropReason::Overload.label());
    let [_, established_dropped, _] = flood.port.established;
    let taken = flood.port.fresh[..2].iter().sum::<u64>() + established_dropped;
    let looked_up_or_full = flood.counted.misses + overload.copied().unwrap_or_default();
    assert!(
        looked_up_or_full <= taken && taken - looked_up_or_full <= flood.over_budget(),
        "{flood:#?}"
    );
    assert_eq!(beside.half.port.fresh, [0; 3]);
}
