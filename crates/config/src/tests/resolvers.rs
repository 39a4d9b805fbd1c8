//! Resolvers whose answers count, and their bounds.

use std::time::Duration;

use rules::IpPrefix;

use super::*;

fn with_inspection(fields: &str) -> String {
    let base = "node: {id: upf1.example.org}\nn4: {addresses: [127.0.0.8]}\nports:\n  \
                - {name: ran, driver: {memory: {}}}\ninstances:\n  \
                - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}\n";
    format!("{base}inspection: {{{fields}}}\n")
}

fn parse(fields: &str) -> Result<Config, String> {
    Config::parse(&with_inspection(fields), "sluice.yaml").map_err(|error| error.to_string())
}

#[test]
fn resolvers_are_prefixes_with_bounds_for_what_they_say() {
    let config = parse(
        "resolvers: [10.45.0.53/32, '2001:db8:53::/64'], addresses: 1000, addresses_per_session: 20, \
         address_lifetime_s: {least: 10}",
    );
    let limits = config.expect("it is right").inspection.resolver_limits();
    let prefix =
        |address: &str, len| IpPrefix::new(address.parse().expect("an address"), len).expect("a prefix");
    assert_eq!(
        limits.prefixes,
        [prefix("10.45.0.53", 32), prefix("2001:db8:53::", 64)]
    );
    assert_eq!((limits.addresses, limits.per_session), (1000, 20));
    assert_eq!(
        (limits.least, limits.most),
        (Duration::from_secs(10), Duration::from_secs(3_600))
    );
}

#[test]
fn resolvers_that_cannot_be_are_refused() {
    let many = vec!["10.0.0.0/8"; 65].join(", ");
    for (fields, words) in [
        (format!("resolvers: [{many}]"), "more than 64"),
        ("resolvers: [10.45.0.53/24]".into(), "10.45.0.0/24 is meant?"),
        ("resolvers: [10.45.0.53]".into(), "prefix length"),
        (
            "flows: 0, resolvers: [10.45.0.53/32]".into(),
            "nothing is inspected",
        ),
        (
            "address_lifetime_s: {least: 61, most: 60}".into(),
            "least, 61, is above most, 60",
        ),
        ("addresses: 1".into(), "64..=4194304"),
    ] {
        let error = parse(&fields).expect_err("it is wrong");
        assert!(error.contains(words) && error.contains("line 7"), "{error}");
    }
}

#[test]
fn hosts_are_confirmed_only_where_there_are_resolvers() {
    let with = |inspection: &str, rule: &str| {
        let text = format!(
            "{}predefined:\n  applications: [{{name: dns, flows: [permit out 17 from any 53 to assigned]}}]\n  \
             rulebases: [{{name: r, rules: [{{precedence: 1, {rule}}}]}}]\naccess_lists: [{{name: a, rules: [{{action: deny, \
             {rule}}}]}}]\n",
            with_inspection(inspection)
        );
        Config::parse(&text, "sluice.yaml").map_err(|error| error.to_string())
    };
    let resolvers = "resolvers: [10.45.0.53/32]";
    let config = with(resolvers, "hosts: [free.example], confirmed_by_dns: true").expect("it is right");
    let predefined = config.predefined();
    let rules = predefined.rulebase(b"r").expect("it is there").rules();
    assert!(rules[0].detection.is_confirmed);
    let network = config.network().expect("a network");
    let (_, rule) = network.access_lists().all()[0]
        .list
        .rules()
        .next()
        .expect("a rule");
    assert!(rule.detection.is_confirmed);
    assert!(with("", "hosts: [free.example], confirmed_by_dns: false").is_ok());
    for (inspection, rule, words) in [
        ("", "hosts: [free.example]", "inspection.resolvers names them"),
        (resolvers, "protocols: [tls]", "the rule has no hosts"),
        (resolvers, "applications: [dns]", "the rule has no hosts"),
        (
            resolvers,
            "protocols: [dns], hosts: [free.example]",
            "confirmed by nothing",
        ),
    ] {
        let error = with(inspection, &format!("{rule}, confirmed_by_dns: true")).expect_err("it is wrong");
        assert!(
            error.contains("confirmed_by_dns: ") && error.contains(words),
            "{error}"
        );
    }
}

/// A rule whose hosts have to be confirmed leaves flows to the rules behind it.
#[test]
fn a_host_behind_a_confirmed_one_is_reached() {
    let rules = |first: &str, second: &str| {
        let rulebase = format!(
            "predefined:\n  rulebases: [{{name: r, rules: [{{precedence: 1, hosts: [a.example]{first}}}, \
             {{precedence: 2, hosts: [a.example]{second}}}]}}]\n"
        );
        let text = with_inspection("resolvers: [10.45.0.53/32]") + &rulebase;
        let config = Config::parse(&text, "sluice.yaml").expect("it is right");
        config.unreachable_hosts().len()
    };
    let confirmed = ", confirmed_by_dns: true";
    assert_eq!(
        (rules("", ""), rules("", confirmed), rules(confirmed, "")),
        (1, 1, 0)
    );
}
