//! A stored file of results and its report; files that do not belong together; bad input; the page.

use serde_json::{Value, json};

use super::*;
use crate::published::Traffic;

const RESULTS: &str = include_str!("golden/results.json");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/golden/report.json");

pub(super) fn stored() -> Value {
    serde_json::from_str(RESULTS).unwrap()
}

pub(super) fn file(name: &str, value: &Value) -> ResultFile {
    ResultFile::parse(name, &value.to_string()).unwrap()
}

pub(super) fn report(files: Vec<ResultFile>) -> Report {
    Report::new(files, &AssumptionArguments::default()).unwrap()
}

pub(super) fn model(report: &Report, traffic: Traffic) -> &ModelReport {
    report
        .models
        .iter()
        .find(|model| model.traffic == traffic)
        .unwrap()
}

/// Compares with the file, or writes it (`SLUICE_GOLDEN=write`).
#[test]
fn a_stored_file_has_its_report() {
    let made = report(vec![file("results.json", &stored())]);
    let text = format!("{:#}\n", made.json());
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    assert_eq!(text, golden, "run the test with SLUICE_GOLDEN=write");
}

#[test]
fn every_model_is_measured_or_said_not_to_be() {
    let made = report(vec![file("results.json", &stored())]);
    for model in &made.models {
        let is_measured = model.traffic != Traffic::E;
        assert_eq!(
            (model.points.is_empty(), model.not_measured.is_some()),
            (!is_measured, !is_measured)
        );
        assert!(!model.published.is_empty());
    }
    let v = model(&made, Traffic::V);
    assert_eq!(v.points.len(), 33);
    let point = |name: &str| v.points.iter().find(|point| point.name == name).unwrap();
    assert!(point("V2 256/256 B").derived.is_some());
    let absent = point("V1 128/128 B");
    assert!(absent.derived.is_none());
    assert_eq!(
        absent.notes,
        ["in none of the files: `sluice bench throughput --json FILE`"]
    );
    // A figure that is void has no arithmetic, and a warning.
    let void = point("V5 128/1408 B");
    assert!(void.measured.is_some() && void.derived.is_none());
    assert!(
        made.warnings
            .iter()
            .any(|line| line.starts_with("V5 128/1408 B: void"))
    );
    // Half of the packets of profile 5 are uplink, a quarter of those of profile 4.
    assert_eq!(void.octets.value, 768.0);
    assert_eq!(point("V4 128/1408 B").octets.value, 1_088.0);
}

#[test]
fn ratios_are_over_the_published_rate_of_a_core() {
    let made = report(vec![file("results.json", &stored())]);
    let i = model(&made, Traffic::I);
    // 75 ns and 25 of a driver are 10 Mpps, 9.6 by the measured scaling of 0.96; published is 1 Mpps a core.
    assert!((made.assumptions.scaling.value - 0.96).abs() < 1e-4);
    let [Some(ratio)] = &i.points[0].of_published[..] else {
        panic!("one ratio")
    };
    assert!((ratio.value - 9.6).abs() < 1e-3, "{ratio:?}");
    // What has no I/O is compared with what has none: 13.3 Mpps with 15.6 and 5.8.
    let open = &model(&made, Traffic::T3).points[0].of_published;
    let values: Vec<f64> = open.iter().flatten().map(|ratio| ratio.value).collect();
    assert!((values[0] - 13.3333 / 15.6).abs() < 1e-3 && (values[1] - 13.3333 / 5.8).abs() < 1e-3);
    // A card has no rate of cores.
    assert_eq!(model(&made, Traffic::V).points[7].of_published, [None]);
}

#[test]
fn files_that_do_not_belong_together_are_named() {
    let one = stored();
    let mut other = stored();
    other["machine"]["cpu"] = json!("Another");
    other["commit"] = Value::Null;
    other["quick"] = json!(true);
    other["machine"]["load_average"] = json!(3.5);
    let made = report(vec![file("a.json", &one), file("b.json", &other)]);
    let has = |words: &[&str]| {
        let found = |line: &String| words.iter().all(|word| line.contains(word));
        assert!(
            made.warnings.iter().any(found),
            "{words:?} in {:#?}",
            made.warnings
        );
    };
    has(&["different machines", "a.json: A processor", "b.json: Another"]);
    has(&["different versions or commits", "0123abc", "commit not recorded"]);
    has(&["b.json", "a quick look"]);
    has(&["b.json", "disturbed", "load average 3.5"]);
    has(&["a.json and in b.json", "the last file"]);
    assert_eq!(model(&made, Traffic::I).points[0].file.as_deref(), Some("b.json"));
    // One file alone has none of these.
    let alone = report(vec![file("a.json", &one)]);
    assert!(!alone.warnings.iter().any(|line| line.contains("different")));
    assert!(
        alone
            .warnings
            .iter()
            .any(|line| line.contains("1 of 2 trials are void"))
    );
}

#[test]
fn without_scaling_it_is_assumed_and_said_so() {
    let mut value = stored();
    value["scaling"] = json!([]);
    let made = report(vec![file("a.json", &value)]);
    assert_eq!(made.assumptions.scaling.value, 0.9);
    assert!(
        made.warnings
            .iter()
            .any(|line| line.starts_with("no file has T11"))
    );
}

#[test]
fn bad_input_names_the_file_the_field_and_the_value() {
    let error = |change: &dyn Fn(&mut Value)| {
        let mut value = stored();
        change(&mut value);
        ResultFile::parse("b.json", &value.to_string())
            .unwrap_err()
            .to_string()
    };
    let cases = [
        (
            error(&|value| value["throughput"][0]["net_nanos"]["median"] = json!(-1.0)),
            "b.json: throughput[0].net_nanos.median: -1.0: must be a number above 0",
        ),
        (
            error(&|value| value["policies"][1]["with"]["sessions"] = json!("many")),
            "b.json: policies[1].with.sessions: \"many\": must be a whole number from 0",
        ),
        (
            error(&|value| value["machine"] = Value::Null),
            "b.json: machine: is missing",
        ),
        (
            error(&|value| value["sweeps"]["sizes"] = json!(7)),
            "b.json: sweeps.sizes: 7: must be a list",
        ),
        (
            error(&|value| value["floors"][1]["sketch"]["round"]["median"] = Value::Null),
            "b.json: floors[1].sketch.round.median: is missing",
        ),
        (
            error(&|value| value["inspection"]["compared"][0]["with"]["median"] = json!("fast")),
            "b.json: inspection.compared[0].with.median: \"fast\": must be a number above 0",
        ),
        (
            error(&|value| value["inspection"]["sessions"] = json!([600_000])),
            "b.json: inspection.sessions: [600000]: must be two whole numbers",
        ),
        (
            error(&|value| value["inspection"]["compared"][1]["drops"]["x"] = json!(-1)),
            "b.json: inspection.compared[1].drops.x: -1: must be a whole number from 0",
        ),
        (
            error(&|value| value["inspection"]["compared"][1]["frames"]["uplink_share"] = json!(1.5)),
            "b.json: inspection.compared[1].frames.uplink_share: 1.5: must be a number from 0 to 1",
        ),
        (
            error(&|value| value["egress"]["in_worker"]["costs"][1]["without"] = Value::Null),
            "b.json: egress.in_worker.costs[1].without: is missing",
        ),
        (
            error(&|value| value["egress"]["in_worker"]["frames"]["octets"] = json!([0, 0])),
            "b.json: egress.in_worker.frames.octets: [0,0]: must be the octets of frames",
        ),
        (
            error(&|value| value["egress"]["in_worker"]["costs"][0]["load"] = json!(0)),
            "b.json: egress.in_worker.costs[0].load: 0: must be a number above 0",
        ),
        (
            error(&|value| value["quick"] = json!("no")),
            "b.json: quick: \"no\": must be true or false",
        ),
    ];
    for (error, wanted) in cases {
        assert_eq!(error, wanted);
    }
    let text = |text: &str| ResultFile::parse("b.json", text).unwrap_err().to_string();
    assert!(text("{\"a\":").starts_with("b.json: is not JSON: EOF"));
    assert_eq!(
        text("[1]"),
        "b.json: [1]: must be an object, as `sluice bench PART --json FILE` writes it"
    );
    let absent = std::path::Path::new("/nonexistent/b.json");
    let absent = ResultFile::read(absent).unwrap_err().to_string();
    assert!(
        absent.starts_with("/nonexistent/b.json: No such file"),
        "{absent}"
    );
    assert!(Report::new(Vec::new(), &AssumptionArguments::default()).is_err());
}

#[test]
fn more_sessions_than_there_can_be_are_refused() {
    let error = |change: &dyn Fn(&mut Value)| {
        let mut value = stored();
        change(&mut value);
        let read = ResultFile::parse("b.json", &value.to_string());
        read.unwrap_err().to_string()
    };
    assert_eq!(
        error(&|value| value["inspection"]["sessions"] = json!([600_000, 1_u64 << 62])),
        "b.json: inspection.sessions[1]: 4611686018427387904: must be a whole number from 0 to 4294967295"
    );
    assert_eq!(
        error(&|value| value["egress"]["in_worker"]["sessions"] = json!(1_u64 << 63)),
        "b.json: egress.in_worker.sessions: 9223372036854775808: must be a whole number from 0 to 4294967295"
    );
}

#[test]
fn a_sum_of_faults_ends_at_the_greatest_number() {
    let mut value = stored();
    for name in ["different", "dropped", "held"] {
        value["throughput"][0]["checked"][name] = json!(u64::MAX);
    }
    let read = file("b.json", &value);
    let void = read.points[0].void.as_deref();
    assert_eq!(
        void,
        Some("18446744073709551615 of the samples are not what the interpreter says")
    );
}

#[test]
fn any_part_may_be_missing() {
    for part in [
        "floors",
        "io_forwarding",
        "throughput",
        "sweeps",
        "policies",
        "scaling",
        "latency",
        "targets",
        "inspection",
        "egress",
    ] {
        let mut value = stored();
        value.as_object_mut().unwrap().remove(part);
        let made = report(vec![file("a.json", &value)]);
        assert!(page(&made).is_ok() && text(&made).contains("Formulas"), "{part}");
    }
}

#[test]
fn what_a_run_writes_can_be_read() {
    let results = crate::results::Results::new(true);
    let read = file("run.json", &results.json());
    assert!(read.quick && read.points.is_empty());
    assert_eq!(read.sluice, env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_page_is_whole_and_needs_no_other_file() {
    let mut value = stored();
    value["machine"]["cpu"] = json!("<b>&\"");
    let made = report(vec![file("a<b>.json", &value)]);
    let page = page(&made).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("<svg"));
    assert!(page.contains("a&lt;b&gt;.json") && !page.contains("a<b>.json"));
    for foreign in ["<script", "<link", "<img", "url(", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http"));
    for tag in ["table", "tr", "td", "th", "section", "details", "div", "figure"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    // Every derived number's formula is on the page, and no row of a server is without the word about NICs.
    for point in made.models.iter().flat_map(|model| &model.points) {
        for (_, number) in point.derived.iter().flat_map(DerivedFigures::named) {
            assert!(page.contains(&number.formula), "{} {number:?}", point.name);
        }
    }
    for table in tables::tables(&made) {
        assert!(
            table.rows.iter().all(|row| row.len() == table.head.len()),
            "{}",
            table.title
        );
        if table.title.contains("erver") {
            let last = |row: &Vec<String>| row.last().cloned().unwrap_or_default();
            assert!(
                table
                    .rows
                    .iter()
                    .map(last)
                    .all(|cell| cell == "none measured" || cell == "included")
            );
        }
    }
}

#[test]
fn the_text_has_every_table() {
    let made = report(vec![file("a.json", &stored())]);
    let text = text(&made);
    for table in tables::tables(&made) {
        assert!(text.contains(table.title), "{}", table.title);
    }
    assert!(text.contains("no NIC driver") && text.contains("WARNING: "));
    assert!(
        text.lines()
            .any(|line| line.contains("E: Sluice") && line.contains("not measured yet"))
    );
}
