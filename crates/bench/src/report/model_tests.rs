//! Models Z and Q: beside the published figures, with the frames that were measured; figures that are void.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::tests::{file, model, report, stored};
use super::*;
use crate::clock::{Passed, Spread};
use crate::published::Traffic;
use crate::{egress, inspection};

fn point<'a>(report: &'a Report, traffic: Traffic, name: &str) -> &'a PointReport {
    let points = &model(report, traffic).points;
    points.iter().find(|point| point.name == name).unwrap()
}

fn close(value: f64, wanted: f64) {
    assert!((value - wanted).abs() < 1e-3 * wanted, "{value} is not {wanted}");
}

const COUNTED: &str = "a QER and a URR with and without rules; with rules contents are counted, no usage records are \
                       written";
const WITHOUT: &str = "without rules, an entry for each tunnel";
const WITH: &str = "with rules, in turn with an entry for each tunnel";

#[test]
fn model_z_is_beside_the_published_figures_of_its_condition() {
    let made = report(vec![file("a.json", &stored())]);
    let published = &model(&made, Traffic::Z).published;
    let inspected: Vec<bool> = published
        .iter()
        .map(|one| one.figure.condition == crate::published::INSPECTED)
        .collect();
    assert_eq!(inspected, [false, true, false, true]);
    // 100 ns and 25 of a driver are 8 Mpps, 7.68 by the scaling of 0.96; with rules 225 and 25, 3.84 Mpps.
    let (without, with) = (point(&made, Traffic::Z, WITHOUT), point(&made, Traffic::Z, WITH));
    let of = |point: &PointReport| -> Vec<Option<f64>> {
        let ratios = point.of_published.iter();
        ratios.map(|ratio| Some(ratio.as_ref()?.value)).collect()
    };
    let ([Some(first), None, Some(second), None], [None, Some(third), None, Some(fourth)]) =
        (&of(without)[..], &of(with)[..])
    else {
        panic!("{without:?} {with:?}")
    };
    close(*first, 7.68 / (81.4 / 96.0));
    close(*second, 7.68 / (51.3 / 64.0));
    close(*third, 3.84 / (49.4 / 96.0));
    close(*fourth, 3.84 / (31.6 / 64.0));
    // Half of the frames have 150 octets, the others 1,250; published are 690.
    let derived = without.derived.as_ref().unwrap();
    assert_eq!(without.octets.value, 700.0);
    close(derived.gbps_per_core.value, 7.68 * 700.0 * 8.0 / 1e3);
    assert_eq!(
        without.notes,
        ["frames of 700 octets in the mean, published are 690", COUNTED]
    );
    assert_eq!(with.notes.last().map(String::as_str), Some(COUNTED));
    assert!(without.cores_for_card.iter().all(Option::is_none));
}

#[test]
fn the_share_kept_is_that_of_pairs_and_with_a_driver() {
    let made = report(vec![file("a.json", &stored())]);
    let [first, second, tunnel, tuple] = &model(&made, Traffic::Z).kept[..] else {
        panic!("two published systems and two bases")
    };
    close(first.kept.value, 49.4 / 81.4);
    close(second.kept.value, 31.6 / 51.3);
    assert!(first.file.is_none() && first.with_driver.is_none() && first.of_published.is_empty());
    assert_eq!((tunnel.kept.value, tuple.kept.value), (0.44, 0.66));
    let with_driver = tunnel.with_driver.as_ref().unwrap();
    assert_eq!(
        (with_driver.value, with_driver.formula.as_str()),
        (0.5, "(100 + 25) / (225 + 25)")
    );
    close(tunnel.of_published[0].value, 0.5 * 81.4 / 49.4);
    let text = text(&made);
    let line = text
        .lines()
        .find(|line| line.contains("Z: Sluice, an entry for each tunnel"));
    assert!(
        line.is_some_and(|line| line.contains("median of 5 pairs, 0.43 to 0.46")),
        "{text}"
    );
}

#[test]
fn model_q_is_beside_the_cores_of_a_cards_host() {
    let made = report(vec![file("a.json", &stored())]);
    let with = point(&made, Traffic::Q, "with queues, at 40 Gbit/s");
    // 375 ns and 25 are 2.5 Mpps, 2.4 by the scaling; downlink frames alone, of 1,038 octets.
    let derived = with.derived.as_ref().unwrap();
    assert_eq!(
        (with.octets.value, &with.of_published[..]),
        (1_038.0, &[None][..])
    );
    close(derived.gbps_per_core.value, 2.4 * 1_038.0 * 8.0 / 1e3);
    let [Some(cores)] = &with.cores_for_card[..] else {
        panic!("one card")
    };
    close(cores.value, 40.0 / (2.4 * 8.304));
    let text = text(&made);
    let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap();
    assert!(line("Q: egress traffic manager").contains("0.64 of its host"));
    assert!(line("Q: Sluice, with queues, at 40 Gbit/s").contains("2.007"));
    let names: Vec<&str> = model(&made, Traffic::Q)
        .points
        .iter()
        .map(|point| point.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "without queues, at 40 Gbit/s",
            "with queues, at 40 Gbit/s",
            "without queues, at 20 Gbit/s",
            "with queues, at 20 Gbit/s"
        ]
    );
    // The card of model V as well: 100 Gbit/s, beside two cores of its host.
    let v = point(&made, Traffic::V, "V2 256/256 B");
    assert!(matches!(&v.cores_for_card[..], [Some(cores)] if cores.value > 1.0));
    // Neither card's publication says how long frames were.
    for point in [with, v] {
        assert_eq!(
            point.notes,
            ["cores for card: the size of frames of its published Gbit/s is not known"]
        );
    }
}

#[test]
fn only_what_does_the_work_of_a_card_has_cores_for_it() {
    let made = report(vec![file("a.json", &stored())]);
    for name in [
        "without queues, at 40 Gbit/s",
        "without queues, at 20 Gbit/s",
        "with queues, at 20 Gbit/s",
    ] {
        let point = point(&made, Traffic::Q, name);
        assert!(point.derived.is_some(), "{name}");
        assert_eq!((&point.cores_for_card[..], point.notes.len()), (&[None][..], 0));
    }
}

#[test]
fn model_z_says_that_it_writes_no_records() {
    let made = report(vec![file("a.json", &stored())]);
    let what = model(&made, Traffic::Z).what;
    assert!(what.ends_with("contents of rules are counted, no usage records are written"));
    let text = text(&made);
    let shares = text
        .split("\n\n")
        .find(|table| table.starts_with("Share of the rate kept"));
    let note = "it counts contents and writes no usage records, published are DPI and offline billing";
    assert!(shares.is_some_and(|table| table.contains(note)), "{text}");
}

#[test]
fn a_file_without_frames_has_those_of_this_version() {
    let mut value = stored();
    for place in [0, 1] {
        let compared = &mut value["inspection"]["compared"][place];
        compared.as_object_mut().unwrap().remove("frames");
    }
    value["egress"]["in_worker"]
        .as_object_mut()
        .unwrap()
        .remove("frames");
    let made = report(vec![file("a.json", &value)]);
    let z = point(&made, Traffic::Z, WITH);
    assert!((z.octets.value - 683.0).abs() < 1.0, "{:?}", z.octets);
    let note = "the file does not say how long its frames were: those of this version";
    assert_eq!(z.notes[0], note);
    let q = point(&made, Traffic::Q, "without queues, at 20 Gbit/s");
    assert_eq!((q.octets.value, &q.notes[..]), (1_038.0, &[note.to_owned()][..]));
}

#[test]
fn what_was_lost_or_not_found_is_void() {
    let made = |change: &dyn Fn(&mut Value)| {
        let mut value = stored();
        change(&mut value);
        report(vec![file("a.json", &value)])
    };
    let dropped = made(&|value| value["inspection"]["compared"][0]["drops"] = json!({"overload": 7}));
    let with = point(&dropped, Traffic::Z, WITH);
    assert!(with.measured.is_some() && with.derived.is_none());
    assert_eq!(with.notes[0], "void: packets were dropped: 7 by overload");
    assert!(point(&dropped, Traffic::Z, WITHOUT).derived.is_some());
    assert_eq!(model(&dropped, Traffic::Z).kept.len(), 3);
    let warned = |report: &Report, words: &str| report.warnings.iter().any(|line| line.contains(words));
    assert!(warned(
        &dropped,
        "with rules, in turn with an entry for each tunnel: void"
    ));

    let unseen = made(&|value| value["inspection"]["compared"][0]["found_percent"] = json!(98.0));
    assert!(warned(&unseen, "void: of the hosts 98.0% were found"));

    let lost = made(&|value| value["egress"]["in_worker"]["costs"][1]["lost"] = json!(3));
    let with = point(&lost, Traffic::Q, "with queues, at 40 Gbit/s");
    assert!(with.derived.is_none() && with.cores_for_card == [None]);
    assert!(warned(&lost, "void: 3 of 27836416 packets were lost"));
}

#[test]
fn smaller_runs_and_lost_cores_are_said() {
    let mut value = stored();
    value["inspection"]["sessions"] = json!([600_000, 2_000]);
    value["egress"]["in_worker"]["sessions"] = json!(4_096);
    value["egress"]["in_worker"]["costs"][0]["passed"]["waited_nanos"] = json!(9_000_000_000_u64);
    let made = report(vec![file("a.json", &value)]);
    let notes = &point(&made, Traffic::Z, WITHOUT).notes;
    assert_eq!(
        notes[0],
        "16,000 flows of 48,000: smaller tables than the model's"
    );
    let notes = &point(&made, Traffic::Q, "with queues, at 40 Gbit/s").notes;
    assert_eq!(
        notes[0],
        "4,096 sessions of 65,536: smaller tables than the model's"
    );
    assert!(made.warnings.iter().any(|line| line.contains("others took")));
    let rounds = |report: &Report| {
        let found = &report.files[0].disturbance;
        (found.rounds, found.disturbed_rounds)
    };
    let all = rounds(&made);
    let mut fewer = value;
    fewer["egress"] = Value::Null;
    let fewer = rounds(&report(vec![file("a.json", &fewer)]));
    assert_eq!((all.0 - fewer.0, all.1 - fewer.1), (2 * 82, 2 * 2));
}

#[test]
fn what_inspection_and_egress_write_can_be_read() {
    let spread = |median| Spread::of(vec![median]);
    let compared = |name: &str| inspection::Compared {
        name: name.into(),
        rules: [40_000, 10_000],
        frames: inspection::frames(),
        with: spread(200.0),
        without: spread(100.0),
        kept: spread(0.5),
        found_percent: 100.0,
        inspected_percent: 8.0,
        drops: BTreeMap::new(),
        kept_rounds: 9,
        disturbed: 1,
        passed: Passed::default(),
    };
    let cost = |load| egress::WorkerCost {
        load,
        with: spread(300.0),
        without: spread(150.0),
        ..egress::WorkerCost::default()
    };
    let mut results = crate::results::Results::new(true);
    results.inspection = Some(inspection::Inspected {
        sessions: [600_000, 6_000],
        compared: inspection::COMPARISONS.map(compared).into(),
    });
    results.egress = Some(egress::Egress {
        in_worker: egress::InWorker {
            sessions: 65_536,
            frames: egress::frames(),
            costs: [0.5, 1.0].map(cost).into(),
            ..egress::InWorker::default()
        },
        ..egress::Egress::default()
    });
    let made = report(vec![file("run.json", &results.json())]);
    for traffic in [Traffic::Z, Traffic::Q] {
        for point in &model(&made, traffic).points {
            assert!(point.derived.is_some(), "{point:?}");
            let smaller = point.notes.iter().find(|note| note.contains("smaller tables"));
            assert_eq!(smaller, None);
        }
    }
    let file = &made.files[0];
    assert_eq!((file.points.len(), file.kept.len()), (8, 2));
    assert_eq!(file.disturbance.disturbed_rounds, 2);
}
