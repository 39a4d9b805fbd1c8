//! nDPI as it is configured, and its protocols in rules, access lists and applications. The tests need Debian's package
//! libndpi4.2.

use dpi::Protocol;

use super::*;

/// A configuration with these fields of `inspection`, and of rules and applications with these protocols.
fn text(inspection: &str, of_rule: &str, of_list: &str, of_application: &str) -> String {
    format!(
        "node: {{id: upf1.example.org}}\nn4: {{addresses: [127.0.0.8]}}\nports:\n  \
         - {{name: ran, driver: {{memory: {{}}}}}}\ninstances:\n  \
         - {{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}\ninspection: {{{inspection}}}\n\
         predefined:\n  applications: [{{name: share, protocols: [{of_application}]}}]\n  \
         rulebases: [{{name: r, rules: [{{precedence: 1, protocols: [{of_rule}]}}, {{precedence: 2, applications: [share]}}]}}]\n\
         access_lists: [{{name: a, rules: [{{action: deny, protocols: [{of_list}]}}]}}]\n"
    )
}

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "sluice.yaml").map_err(|error| error.to_string())
}

#[test]
fn rules_lists_and_applications_name_what_ndpi_knows() {
    let text = text(
        "ndpi: {}",
        "ndpi.BitTorrent, tls",
        "ndpi.ssh",
        "ndpi.edonkey, ndpi.gnutella",
    );
    let config = parse(&text).expect("it is right");
    let limits = config.ndpi_limits().expect("it is configured");
    assert_eq!((limits.flows, limits.packets), (4_096, 16));
    let known = |names: &[&str]| -> dpi::Protocols {
        let of = |name: &&str| match name.strip_prefix("ndpi.") {
            Some(name) => Protocol::Ndpi(limits.library.protocol(name).expect("it knows it").into()),
            None => Protocol::named(name).expect("it is recognised"),
        };
        names.iter().map(of).collect()
    };
    let predefined = config.predefined();
    let rules = predefined.rulebase(b"r").expect("it is there").rules();
    let protocols: Vec<_> = rules.iter().map(|rule| rule.detection.protocols).collect();
    assert_eq!(
        protocols,
        [
            known(&["tls", "ndpi.bittorrent"]),
            known(&["ndpi.edonkey", "ndpi.gnutella"])
        ]
    );
    let application = config.applications();
    assert_eq!(
        application[0].named.all()[0].protocols,
        known(&["ndpi.edonkey", "ndpi.gnutella"])
    );
    let network = network(&text);
    let rules: Vec<_> = network.access_lists().all()[0]
        .list
        .rules()
        .map(|(_, rule)| rule.detection.protocols)
        .collect();
    assert_eq!(rules, [known(&["ndpi.ssh"]), dpi::Protocols::NONE]);
}

#[test]
fn protocols_that_nothing_knows_are_refused() {
    let on = "ndpi: {library: libndpi.so.4.2}";
    for (inspection, name, words) in [
        (
            "",
            "ndpi.bittorrent",
            "nothing looks for it without `inspection.ndpi`",
        ),
        (on, "ndpi.bittorent", "nDPI 4.2.0 has no protocol of this name"),
        (on, "ndpi.Unknown", "nDPI 4.2.0 has no protocol of this name"),
        (
            on,
            "ndpi.TLS",
            "`ndpi.TLS`: Sluice recognises it by itself, as `tls`",
        ),
        (on, "bittorrent", "`bittorrent` is none of tls, quic"),
        (on, "'ndpi.'", "is none of tls, quic"),
    ] {
        for (rule, list, application) in [(name, "tls", "tls"), ("tls", name, "tls"), ("tls", "tls", name)] {
            let error = parse(&text(inspection, rule, list, application)).expect_err("it is wrong");
            assert!(
                error.contains(words) && error.contains("protocols"),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn a_library_that_cannot_be_is_refused() {
    for (inspection, words) in [
        (
            "ndpi: {library: libndpi.so.0}",
            "inspection.ndpi.library: `libndpi.so.0`: libndpi.so.0: cannot open",
        ),
        (
            "ndpi: {library: libc.so.6}",
            "it is no nDPI that is known: it has no function `ndpi_get_api_version`",
        ),
        (
            "ndpi: {library: ./libndpi.so.4.2}",
            "the name of a file without a folder, or begin with a slash",
        ),
        ("ndpi: {}, flows: 0", "nothing is inspected with `flows: 0`"),
        ("ndpi: {packets: 33}", "1..=32"),
        ("ndpi: {flows: 1}", "16..=1048576"),
    ] {
        let error = parse(&text(inspection, "tls", "tls", "tls")).expect_err("it is wrong");
        assert!(error.contains(words) && error.contains("line 7"), "{error}");
    }
}

#[test]
fn ndpi_is_off_unless_it_is_configured() {
    let config = parse(&text("", "tls", "tls", "tls")).expect("it is right");
    assert!(config.ndpi_limits().is_none());
}
