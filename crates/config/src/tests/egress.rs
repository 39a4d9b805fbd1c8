//! Queues before ports: what they are made of, and contradictions.

use flow::meter::Rate;
use packet::Qfi;
use rules::network::{QueueManagement, WredCurve};

use super::{Config, GOOD, refusal};

fn good(text: &str) -> Config {
    Config::parse(text, "sluice.yaml").unwrap_or_else(|error| panic!("{error}"))
}

const CLASSES: &str = "egress:\n  packets: 4096\n  classes:\n    - {name: voice, qfis: [1, 5], priority: 0, bytes: 20000, aqm: tail_drop}\n    - {name: rest, weight: 3}\n";

fn with(more: &str) -> String {
    let instance = GOOD.replacen("roles: [n3, n9],", "roles: [n3, n9], egress: {kbit: 500},", 1);
    format!("{instance}{more}")
}

#[test]
fn classes_and_rates_are_those_of_the_network() {
    let config = good(&with(CLASSES));
    let network = config.network().expect("a network");
    let egress = network.egress().expect("there are classes");
    let [voice, rest] = egress.classes.all() else {
        panic!("two classes")
    };
    assert_eq!(
        (voice.priority, voice.octets, voice.management),
        (0, 20_000, QueueManagement::TailDrop)
    );
    assert_eq!(
        (rest.priority, rest.weight, rest.management),
        (7, 3, QueueManagement::CoDel)
    );
    assert_eq!([1, 5, 9].map(|qfi| egress.classes.of(Qfi::new(qfi))), [0, 0, 1]);
    let with_queues: Vec<_> = network
        .instances()
        .iter()
        .filter_map(|instance| instance.egress)
        .collect();
    assert_eq!(
        with_queues.iter().map(|egress| egress.rate).collect::<Vec<_>>(),
        [Rate::from_kbit(500)]
    );
    let limits = config.egress_limits(2).expect("there are classes");
    assert_eq!((limits.packets, limits.queues), (2_048, 65_536));
}

#[test]
fn yellow_packets_have_half_of_the_thresholds_unless_they_have_their_own() {
    let of = |fields: &str| {
        let text = CLASSES.replace("aqm: tail_drop", &format!("aqm: {{wred: {{{fields}}}}}"));
        let network = good(&with(&text)).network().expect("a network");
        let egress = network.egress().expect("there are classes").clone();
        match egress.classes.all()[0].management {
            QueueManagement::Wred(wred) => wred,
            other => panic!("{other:?}"),
        }
    };
    let curve = |min, max, one_in| WredCurve { min, max, one_in };
    let wred = of("min_bytes: 8000, max_bytes: 20000");
    assert_eq!(
        (wred.green, wred.yellow, wred.weight_log2),
        (curve(8_000, 20_000, 10), curve(4_000, 10_000, 10), 9)
    );
    let wred = of("min_bytes: 0, max_bytes: 1, one_in: 5, weight_log2: 12");
    assert_eq!(
        (wred.green, wred.yellow, wred.weight_log2),
        (curve(0, 1, 5), curve(0, 1, 5), 12)
    );
    let wred = of("min_bytes: 8000, max_bytes: 20000, yellow: {min_bytes: 1, max_bytes: 2, one_in: 3}");
    assert_eq!(
        (wred.green, wred.yellow),
        (curve(8_000, 20_000, 10), curve(1, 2, 3))
    );
}

#[test]
fn without_classes_nothing_waits() {
    let config = good(GOOD);
    assert_eq!(config.egress_limits(1), None);
    assert!(config.network().expect("a network").egress().is_none());
}

#[test]
fn contradictions_are_told() {
    let told = |more: &str, what: &str| {
        let text = refusal(&with(more));
        assert!(text.contains(what), "{text}");
    };
    told("", "egress: there are no classes of queues");
    let port = GOOD.replacen("name: ran,", "name: ran, egress_kbit: 5,", 1);
    assert!(refusal(&port).contains("port `ran`: egress_kbit: there are no classes"));
    told("egress: {classes: []}\n", "classes");
    told(&CLASSES.replace("[1, 5]", "[1, 1]"), "QFI 1 is in two classes");
    told(&CLASSES.replace("rest", "voice"), "two classes are named `voice`");
    told(
        &CLASSES.replace("4096", "40960"),
        "more than half of dpdk.buffers",
    );
    told(
        &CLASSES.replace("priority: 0", "priority: 8"),
        "8 is outside 0..=7",
    );
    told(&CLASSES.replace("aqm: tail_drop", "aqm: red"), "red");
    let wred = |fields: &str| CLASSES.replace("aqm: tail_drop", &format!("aqm: {{wred: {{{fields}}}}}"));
    let out_of_bounds = "class `voice`: wred: min_bytes must be below max_bytes";
    told(&wred("min_bytes: 9000, max_bytes: 9000"), out_of_bounds);
    told(&wred("min_bytes: 9000, max_bytes: 20001"), out_of_bounds);
    let yellow = "min_bytes: 9000, max_bytes: 20000, yellow: {min_bytes: 5, max_bytes: 5}";
    told(&wred(yellow), out_of_bounds);
    told(
        &wred("min_bytes: 9000, max_bytes: 20000, one_in: 0"),
        "0 is outside 1..=255",
    );
    told(
        &wred("min_bytes: 9000, max_bytes: 20000, weight_log2: 13"),
        "13 is outside 1..=12",
    );
    told(&wred("min_bytes: 9000"), "max_bytes");
    told(&wred("min_bytes: 9000, max_bytes: 20000, red: 1"), "red");
}

#[test]
fn a_policer_shapes_where_all_of_its_packets_wait() {
    let everywhere = || with(CLASSES).replace("roles: [n6]\n", "roles: [n6]\n    egress: {}\n");
    let policer = "policers:\n  - {name: gold, dnn: internet, uplink_kbit: 5, shape: true, weight: 9}\n";
    let config = good(&format!("{}{policer}", everywhere()));
    let network = config.network().expect("a network");
    let [gold] = network.policers().all() else {
        panic!("one policer")
    };
    assert_eq!((gold.shapes, gold.weight), (true, 9));
    let told = |text: &str, what: &str| {
        let text = refusal(text);
        assert!(text.contains(what), "{text}");
    };
    told(
        &format!("{GOOD}{policer}"),
        "policer `gold`: shape: there are no classes",
    );
    told(
        &format!("{}{policer}", with(CLASSES)),
        "policer `gold`: shape: packets of its sessions may leave by instance `",
    );
    told(
        &format!("{}{}", everywhere(), policer.replace("shape: true, ", "")),
        "policer `gold`: weight: only with `shape`",
    );
    let many: Vec<_> = (0..64)
        .map(|n| {
            format!(
                "{{name: s{n}, slice: {{sst: {n}}}, shape: true}}, {{name: d{n}, dnn: d{n}, shape: true}}"
            )
        })
        .collect();
    told(
        &format!("{}policers: [{}]\n", everywhere(), many.join(", ")),
        "nodes of policers below instances are more than 4096",
    );
}
