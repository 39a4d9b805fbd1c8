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
