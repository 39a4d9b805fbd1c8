//! Rules of hosts: what they match, in which order, and that the table is what a walk over all rules gives.

use dpi::HostName;
use dpi::hosts::{ApplicationIndex, HostTable, HostTableBuilder, InvalidRule, Remarks};
use proptest::prelude::*;

type Rule = (String, String, u32);

fn built(rules: &[Rule]) -> (HostTable, Remarks) {
    let mut builder = HostTableBuilder::default();
    for (pattern, path, application) in rules {
        builder
            .add(pattern, path, ApplicationIndex(*application))
            .expect("a rule");
    }
    builder.build(7)
}

fn rules(rules: &[(&str, &str, u32)]) -> Vec<Rule> {
    let owned = |(pattern, path, application): &(&str, &str, u32)| {
        (pattern.to_string(), path.to_string(), *application)
    };
    rules.iter().map(owned).collect()
}

fn applications(table: &HostTable, host: &str, path: Option<&str>) -> Vec<u32> {
    let host = HostName::parse(host.as_bytes()).expect("a host");
    table
        .lookup(&host, path.map(str::as_bytes))
        .map(|application| application.0)
        .collect()
}

#[test]
fn the_most_specific_rules_are_first() {
    let (table, remarks) = built(&rules(&[
        (".example.com", "", 1),
        ("www.example.com", "", 2),
        ("*.www.example.com", "", 3),
        ("WWW.Example.com.", "/video", 4),
        (".example.com", "/video/hd", 5),
        (".com", "", 6),
        ("192.0.2.1", "", 7),
    ]));
    assert_eq!(remarks, Remarks::default());
    assert_eq!(
        applications(&table, "www.example.com", Some("/video/hd/1")),
        [4, 2, 3, 5, 1, 6]
    );
    assert_eq!(applications(&table, "www.example.com", Some("/")), [2, 3, 1, 6]);
    assert_eq!(applications(&table, "www.example.com", None), [2, 3, 1, 6]);
    assert_eq!(applications(&table, "a.www.example.com", None), [3, 1, 6]);
    assert_eq!(applications(&table, "example.com", None), [1, 6]);
    assert_eq!(applications(&table, "myexample.com", None), [6]);
    assert_eq!(applications(&table, "example.org", None), []);
    assert_eq!(applications(&table, "192.0.2.1", None), [7]);
    assert_eq!(applications(&table, "[::1]", None), []);
    assert_eq!(applications(&HostTable::empty(), "www.example.com", None), []);
}

#[test]
fn rules_that_are_there_before_are_remarked() {
    let (table, remarks) = built(&rules(&[
        ("a.example", "", 1),
        ("a.example", "", 2),
        (".a.example", "", 1),
        ("A.example", "", 1),
        ("*.a.example", "/x", 1),
        (".a.example", "/x", 1),
    ]));
    assert_eq!(
        remarks,
        Remarks {
            duplicates: vec![(3, 0), (5, 4)],
            shared: vec![(1, 0)]
        }
    );
    assert_eq!(applications(&table, "a.example", Some("/x")), [1, 2, 1, 1]);
    assert_eq!(table.rules(), 4);
}

#[test]
fn rules_that_are_none_are_refused() {
    let mut builder = HostTableBuilder::default();
    let mut add = |pattern: &str, path: &str| builder.add(pattern, path, ApplicationIndex(0)).err();
    assert!(matches!(add("a b", ""), Some(InvalidRule::Host(_))));
    assert!(matches!(add("www.*.example", ""), Some(InvalidRule::Host(_))));
    assert!(matches!(add("", ""), Some(InvalidRule::Host(_))));
    assert!(matches!(add(".", ""), Some(InvalidRule::Host(_))));
    assert_eq!(add(".192.0.2.1", ""), Some(InvalidRule::BelowAddress));
    assert_eq!(add(&"a.".repeat(17), ""), Some(InvalidRule::TooManyLabels));
    assert_eq!(add(&"a.".repeat(16), ""), None);
    assert_eq!(add("a.example", "video"), Some(InvalidRule::Path));
    assert_eq!(
        add("a.example", &format!("/{}", "x".repeat(255))),
        Some(InvalidRule::Path)
    );
}

#[test]
fn a_host_with_more_labels_than_rules_have_is_below_theirs() {
    let (table, _) = built(&rules(&[(".example.com", "", 1)]));
    assert_eq!(
        applications(&table, &format!("{}example.com", "a.".repeat(100)), None),
        [1]
    );
}

/// A walk over all rules, in the order that a lookup gives.
fn model(rules: &[Rule], host: &str, path: Option<&str>) -> Vec<u32> {
    let mut matching: Vec<_> = rules
        .iter()
        .filter_map(|(pattern, rule_path, application)| {
            let above = pattern.strip_prefix('.');
            let name = above.unwrap_or(pattern);
            let is_below = above.is_some() && host.ends_with(&format!(".{name}"));
            let has_path =
                rule_path.is_empty() || path.is_some_and(|path| path.starts_with(rule_path.as_str()));
            let matches = (host == name || is_below) && has_path;
            let labels = name.split('.').count();
            matches.then(|| {
                (
                    usize::MAX - labels,
                    above.is_some(),
                    usize::MAX - rule_path.len(),
                    rule_path,
                    *application,
                )
            })
        })
        .collect();
    matching.sort();
    matching.dedup();
    matching
        .into_iter()
        .map(|(.., application)| application)
        .collect()
}

proptest! {
    #[test]
    fn the_table_gives_what_a_walk_over_all_rules_gives(
        rules in prop::collection::vec(("\\.?[ab](\\.[ab]){0,3}", "(/[xy]{0,3})?", 0u32..4), 0..60),
        host in "[ab](\\.[ab]){0,5}", path in prop::option::of("/[xy]{0,4}"),
    ) {
        let (table, remarks) = built(&rules);
        prop_assert_eq!(table.rules() + remarks.duplicates.len(), rules.len());
        prop_assert_eq!(applications(&table, &host, path.as_deref()), model(&rules, &host, path.as_deref()));
    }
}
