//! The API: who may ask what of it.

use super::*;
use crate::{CallerRole, SubjectName, WhenUnaudited};

fn with(control: &str) -> String {
    format!("{GOOD}control: {control}\n")
}

#[test]
fn the_api_is_open_to_nothing_but_its_socket_unless_it_is_said() {
    let control = Config::parse(GOOD, "f").unwrap().control;
    assert!(control.https.is_none() && control.audit.is_none() && control.token_file.is_none());
    assert_eq!(control.group_role, CallerRole::Admin);
}

#[test]
fn clients_have_roles_by_the_names_in_their_certificates() {
    let https = "{addresses: ['192.0.2.1:8443', '[::1]:8443'], certificate: /c, key: /k, client_ca: /ca, clients: [\
                 {san: 'dns:Prometheus.example', role: viewer}, {san: 'ip:2001:db8::1', role: operator}, \
                 {san: 'uri:spiffe://example/noc', role: admin}, {san: 'email:a@b.example', role: viewer}]}";
    let parsed = Config::parse(&with(&format!("{{https: {https}}}")), "f").unwrap();
    let https = parsed.control.https.unwrap();
    let names: Vec<_> = https
        .clients
        .iter()
        .map(|client| client.san.to_string())
        .collect();
    assert_eq!(
        names,
        [
            "dns:prometheus.example",
            "ip:2001:db8::1",
            "uri:spiffe://example/noc",
            "email:a@b.example"
        ]
    );
    assert_eq!(https.clients[1].role, CallerRole::Operator);
    assert_eq!(
        "ip:2001:db8:0::1".parse(),
        Ok(SubjectName::Ip("2001:db8::1".parse().unwrap()))
    );
    assert_eq!((https.connections.value(), https.addresses.len()), (256, 2));
}

#[test]
fn an_audit_log_goes_on_unless_it_is_said() {
    let parsed = Config::parse(&with("{audit: {directory: /audit}}"), "f").unwrap();
    assert_eq!(parsed.control.audit.unwrap().when_full, WhenUnaudited::GoOn);
}

#[test]
fn mistakes_of_the_api_name_field_and_value() {
    let https = |rest: &str| format!("{{https: {{certificate: /c, key: /k, {rest}}}}}");
    for (control, words) in [
        (
            "{token_file: tokens}".to_owned(),
            "control.token_file: `tokens` is no absolute path",
        ),
        (
            "{audit: {directory: here}}".to_owned(),
            "control.audit.directory: `here` is no absolute path",
        ),
        ("{group_role: root}".to_owned(), "viewer"),
        (https("addresses: []"), "at least one"),
        (https("addresses: ['192.0.2.1']"), "address"),
        (https("addresses: ['192.0.2.1:0']"), "192.0.2.1:0 has no port"),
        (
            https("addresses: ['192.0.2.1:1', '192.0.2.1:1']"),
            "192.0.2.1:1 is there twice",
        ),
        (
            https("addresses: ['192.0.2.1:1'], clients: [{san: 'dns:a', role: viewer}]"),
            "without `client_ca`",
        ),
        (
            https("addresses: ['192.0.2.1:1'], client_crl: /crl"),
            "control.https.client_crl: without `client_ca`",
        ),
        (
            https("addresses: ['192.0.2.1:1'], client_ca: /ca, client_crl: crl"),
            "no absolute path",
        ),
        (
            https("addresses: ['192.0.2.1:1'], client_ca: /ca, clients: [{san: 'dns:*.a', role: viewer}]"),
            "`dns:*.a`: must be dns:, uri:, ip: or email:",
        ),
        (
            https(
                "addresses: ['192.0.2.1:1'], client_ca: /ca, clients: [{san: 'dns:a', role: viewer}, {san: 'dns:A', \
                 role: admin}]",
            ),
            "dns:a is there twice",
        ),
        (https("addresses: ['192.0.2.1:1'], connections: 1"), "8..=16384"),
    ] {
        assert_says(&refusal(&with(&control)), ["line 14", words]);
    }
}
