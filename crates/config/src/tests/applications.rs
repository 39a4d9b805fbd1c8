//! Applications and hosts of rulebases.

use super::{GOOD, refusal};
use crate::Config;

const RULES: &str = "\
predefined:
  applications:
    - {name: video, hosts: ['*.video.example', cdn.example/video]}
    - {name: dns, flows: [permit out 17 from any 53 to assigned]}
    - {name: both, hosts: [both.example], flows: [permit out ip from 192.0.2.0/24 to assigned]}
  rulebases:
    - name: base
      rules:
        - {precedence: 1, applications: [video, dns]}
        - {precedence: 2, hosts: [shop.example], applications: [both], tos: [184, 252]}
        - {precedence: 3, hosts: [www.example], flows: [permit out 6 from 198.51.100.0/24 to assigned]}
        - {precedence: 9}
";

fn config(rules: &str) -> Config {
    Config::parse(&format!("{GOOD}{rules}"), "sluice.yaml").unwrap()
}

#[test]
fn a_rule_stands_for_the_hosts_and_for_the_flows_of_its_applications() {
    let config = config(RULES);
    let predefined = config.predefined();
    let rules: Vec<_> = predefined
        .rulebase(b"base")
        .unwrap()
        .rules()
        .iter()
        .map(|rule| {
            let hosts: Vec<_> = rule.detection.hosts.iter().map(ToString::to_string).collect();
            (rule.precedence.0, hosts.join(" "), rule.filters.len())
        })
        .collect();
    let line = |precedence, hosts: &str, filters| (precedence, hosts.to_owned(), filters);
    assert_eq!(
        rules,
        [
            line(1, "*.video.example cdn.example/video", 0),
            line(1, "", 1),
            line(2, "shop.example both.example", 1),
            line(2, "", 1),
            line(3, "www.example", 1),
            line(9, "", 0),
        ]
    );
    assert!(config.inspects() && config.unreachable_hosts().is_empty());
    let off = format!("{RULES}\ninspection: {{ flows: 0 }}\n");
    assert!(!self::config(&off).inspects());
}

#[test]
fn pdrs_may_name_the_applications() {
    let config = config(RULES);
    let applications = config.applications();
    let all: Vec<_> = applications
        .iter()
        .map(|one| {
            let names = one.named.all().iter().map(ToString::to_string);
            (
                one.id.escape_ascii().to_string(),
                one.flows.len(),
                names.collect::<Vec<_>>().join(","),
            )
        })
        .collect();
    let line = |id: &str, flows, names: &str| (id.to_owned(), flows, names.to_owned());
    assert_eq!(
        all,
        [
            line("video", 0, "url *.video.example\nurl cdn.example/video\n"),
            line("dns", 1, ""),
            line("both", 1, "url both.example\n"),
        ]
    );
}

#[test]
fn applications_that_contradict_something_are_refused() {
    for (from, to, part) in [
        (
            "'*.video.example'",
            "'*.192.0.2.1'",
            "`*.192.0.2.1`: there is nothing below an address",
        ),
        (
            "'*.video.example'",
            "'a b'",
            "`a b`: the host is none: an octet is no letter",
        ),
        (
            "cdn.example/video",
            "'/video'",
            "`/video`: the host is none: it is empty",
        ),
        (
            "name: dns,",
            "name: video,",
            "application `video` is configured twice",
        ),
        (
            "hosts: [both.example], flows: [permit out ip from 192.0.2.0/24 to assigned]",
            "",
            "application `both` has neither hosts nor flows",
        ),
        (
            "[video, dns]",
            "[video, games]",
            "no application is named `games`",
        ),
        (
            "hosts: [www.example], flows",
            "applications: [both], flows",
            "`both` has flows, which may not be beside those of the rule",
        ),
    ] {
        assert!(RULES.contains(from), "{from} is not in the rules");
        let message = refusal(&format!("{GOOD}{}", RULES.replace(from, to)));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn hosts_that_never_count_are_told() {
    let rules = RULES.replace(
        "hosts: [shop.example]",
        "hosts: [live.video.example, cdn.example/video/1, cdn.example]",
    );
    let told = config(&rules).unreachable_hosts();
    assert_eq!(
        told,
        [
            "rulebase `base`: `live.video.example` of precedence 2 is found by precedence 1 before",
            "rulebase `base`: `cdn.example/video/1` of precedence 2 is found by precedence 1 before"
        ]
    );
    // One with other conditions may let a flow through to the next.
    let rules = rules.replace("[video, dns]}", "[video], tos: [184, 252]}");
    assert!(config(&rules).unreachable_hosts().is_empty());
}
