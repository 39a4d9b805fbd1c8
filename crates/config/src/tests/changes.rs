//! The schema, the class of each field, and the differences of two configurations.

use serde_json::json;

use super::*;
use crate::change_class::RULES;
use crate::{ChangeClass, Differences, json_schema};

fn differences(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after].map(|text| Config::parse(text, "sluice.yaml").unwrap());
    let differences = Differences::between(&before, &after);
    differences.changes.iter().map(ToString::to_string).collect()
}

#[test]
fn every_field_has_a_class() {
    let classes = json_schema::classes();
    assert!(classes.len() > 150, "{}", classes.len());
    let without: Vec<_> = classes.iter().filter(|(_, class)| class.is_none()).collect();
    assert!(without.is_empty(), "no rule in change/class.rs: {without:?}");
}

#[test]
fn every_rule_is_of_a_field() {
    let classes = json_schema::classes();
    for (place, rule) in RULES.iter().enumerate() {
        let is_used = classes
            .iter()
            .any(|(path, _)| path == rule.path || rule.covers(path));
        assert!(is_used, "{}: no field has this path", rule.path);
        let others = RULES.iter().skip(place + 1);
        assert_eq!(
            others.filter(|other| other.path == rule.path).count(),
            0,
            "{}",
            rule.path
        );
        // What is new is not live by chance: each live field is named.
        assert!(
            !(rule.path.ends_with('*') && rule.change == ChangeClass::Live && !rule.path.contains("[]")),
            "{}",
            rule.path
        );
    }
}

#[test]
fn no_field_holds_a_secret() {
    let classes = json_schema::classes();
    for (path, _) in classes {
        let name = path.rsplit('.').next().unwrap_or_default();
        let sounds = ["password", "secret", "token", "passphrase", "private"];
        let is_secret = sounds.iter().any(|word| name.contains(word)) && !name.ends_with("_file");
        assert!(
            !is_secret,
            "{path}: a secret is in a file that the configuration names"
        );
    }
}

/// Run with `SLUICE_GOLDEN=write` to bring the document up to date.
#[test]
fn the_schema_in_the_repository_is_that_of_the_program() {
    for (name, text) in [
        ("sluice.schema.json", json_schema::text()),
        ("accelerator.schema.json", json_schema::text_of_accelerator()),
    ] {
        let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "{name}: run the test with SLUICE_GOLDEN=write");
    }
}

#[test]
fn a_field_says_what_it_is() {
    let schema = json_schema::schema();
    let field = |path: &str| {
        path.split('/')
            .try_fold(schema.clone(), |node, name| node.get(name).cloned())
    };
    let heartbeat = field("properties/n4/properties/heartbeat_s").unwrap();
    assert_eq!(heartbeat["type"], "integer");
    assert_eq!(
        (&heartbeat["minimum"], &heartbeat["maximum"]),
        (&json!(1), &json!(3_600))
    );
    assert_eq!(heartbeat["default"], 10);
    assert!(
        heartbeat["description"]
            .as_str()
            .unwrap()
            .starts_with("Seconds between heartbeats")
    );
    let level = field("properties/log/properties/level").unwrap();
    assert_eq!(level["x-sluice-change"], "live");
    assert_eq!(level["default"], "info");
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(field("properties/ports").unwrap()["minItems"], 1);
    let routes = field("properties/instances/items/properties/routes").unwrap();
    assert_eq!(routes["x-sluice-key"], json!(["to", "via"]));
    assert!(!json_schema::text().contains("](super"));
}

#[test]
fn the_same_in_other_words_is_no_difference() {
    let spelled = GOOD.replace(
        "addresses: [127.0.0.8]",
        "addresses: [127.0.0.8], heartbeat_s: 10",
    );
    let with_default = format!("{spelled}\nlog: {{level: info}}\nlimits: {{sessions: 10000}}\n");
    assert_eq!(differences(GOOD, &with_default), [""; 0]);
}

#[test]
fn a_value_says_both_and_its_class() {
    let after = format!("{GOOD}\nlog: {{level: debug}}\n");
    assert_eq!(differences(GOOD, &after), ["~ log.level: info -> debug (live)"]);
}

#[test]
fn elements_of_lists_are_known_by_their_names() {
    let route = "routes: [{to: 0.0.0.0/0, via: 10.200.0.254, mac: '02:00:00:00:00:fe'}]";
    let after = GOOD.replace(
        route,
        "routes: [{to: 192.0.2.0/24, via: 10.200.0.253}, {to: 0.0.0.0/0, via: 10.200.0.254}]",
    );
    assert_eq!(
        differences(GOOD, &after),
        [
            "~ instances[internet].routes[0.0.0.0/0 10.200.0.254].mac: 02:00:00:00:00:fe -> absent (CLASS)",
            "+ instances[internet].routes[192.0.2.0/24 10.200.0.253]: {\"mac\":null,\"to\":\"192.0.2.0/24\",\"via\":\"10.200.0.253\"} (CLASS)",
        ]
        .map(|line| line.replace("CLASS", class_of("instances[].routes").word()))
    );
}

fn class_of(path: &str) -> ChangeClass {
    let classes = json_schema::classes();
    let found = classes.iter().find(|(other, _)| other == path);
    found.and_then(|(_, class)| *class).unwrap()
}

const POOLS: &str = "
pools:
  - {name: a, instance: internet, ipv4: [10.45.0.0/24]}
  - {name: b, instance: internet, ipv4: [10.46.0.0/24]}
";

#[test]
fn less_may_be_of_another_class_than_more() {
    let with = format!("{GOOD}{POOLS}");
    let more = with.replace("[10.45.0.0/24]", "[10.45.0.0/24, 10.45.2.0/24]");
    let said = differences(&with, &more);
    let is_one = |said: &[String], begins: &str, ends: &str| {
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(begins) && said[0].ends_with(ends), "{said:?}");
    };
    is_one(&said, "~ pools[a].ipv4: [", "(live)");
    let one = with.replace("  - {name: b, instance: internet, ipv4: [10.46.0.0/24]}\n", "");
    is_one(&differences(&with, &one), "- pools[b]: {", "(live)");
    let third = "  - {name: third, roles: [n9], port: ran, vlan: 7, addresses: [10.101.0.1/24]}\n\npools:";
    let larger = with.replace("\npools:", third);
    is_one(&differences(&with, &larger), "+ instances[third]: {", "(restart)");
    is_one(&differences(&larger, &with), "- instances[third]: {", "(drain)");
}

#[test]
fn another_order_is_a_difference() {
    let with = format!("{GOOD}{POOLS}");
    let turned = with
        .replace("name: a,", "name: c,")
        .replace("name: b,", "name: a,")
        .replace("name: c,", "name: b,")
        .replace("10.45.0.0", "10.47.0.0")
        .replace("10.46.0.0", "10.45.0.0")
        .replace("10.47.0.0", "10.46.0.0");
    assert_eq!(
        differences(&with, &turned),
        ["~ pools: [\"a\",\"b\"] -> [\"b\",\"a\"] (live)"]
    );
}

#[test]
fn another_kind_of_value_is_one_change() {
    let after = GOOD.replace("pci: {address: '0000:3b:00.1'}", "af_packet: {interface: eth1}");
    assert_eq!(
        differences(GOOD, &after),
        [
            "~ ports[dn].driver: {\"pci\":{\"address\":\"0000:3b:00.1\"}} -> {\"af_packet\":{\"interface\":\"eth1\",\"leave_to_host\":false,\"udp_segmentation\":false}} (restart)"
        ]
    );
    let after = GOOD.replace("vlan: 200", "vlan: {outer: 200, inner: 3}");
    assert_eq!(
        differences(GOOD, &after),
        ["~ instances[internet].vlan: 200 -> {\"inner\":3,\"outer\":200,\"tpid\":34984} (restart)"]
    );
    let after = GOOD.replace("vlan: 200", "vlan: {outer: 200, tpid: 0x8100}");
    assert_eq!(differences(GOOD, &after), [""; 0]);
}

#[test]
fn a_section_that_comes_is_one_change() {
    let after = format!("{GOOD}\nrecords: {{directory: /var/spool/sluice}}\n");
    let said = differences(GOOD, &after);
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("+ records: {"), "{said:?}");
    let other = after.replace("/var/spool/sluice}", "/var/spool/sluice, held: 2000}");
    assert_eq!(
        differences(&after, &other),
        ["~ records.held: 100000 -> 2000 (restart)"]
    );
}
