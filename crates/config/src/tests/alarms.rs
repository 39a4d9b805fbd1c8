//! Alarms: what raises one beside faults, and where they are sent.

use super::*;
use crate::{SyslogTarget, SyslogTransport, WebhookUrl};

fn with(alarms: &str) -> String {
    format!("{GOOD}alarms: {alarms}\n")
}

#[test]
fn counts_that_raise_an_alarm_say_of_what() {
    let text = "{watermarks: [{of: flows, at: 900000}, {of: sessions, at: 5, slice: {sst: 1, sd: 00000a}}, \
                {of: sessions, at: 7, slice: {sst: 1}, dnn: internet}, {of: sessions, at: 9}, \
                {of: throughput, at: 10, dnn: ims, direction: uplink}, {of: throughput, at: 11}, \
                {of: packet_rate, at: 12, direction: downlink}]}";
    let marks = Config::parse(&with(text), "f").unwrap().watermarks();
    let names: Vec<_> = marks.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "flows",
            "sessions slice=1-00000a",
            "sessions slice=1 dnn=internet",
            "sessions",
            "throughput dnn=ims direction=uplink",
            "throughput",
            "packet_rate direction=downlink"
        ]
    );
    assert_eq!(
        marks.iter().map(|mark| mark.at).collect::<Vec<_>>(),
        [900_000, 5, 7, 9, 10, 11, 12]
    );
}

#[test]
fn a_webhook_is_reached_over_tls_or_on_this_host() {
    let parsed = |text: &str| text.parse::<WebhookUrl>().map(|url| url.to_string());
    for (text, expected) in [
        ("https://noc.example", "https://noc.example:443/"),
        (
            "https://[2001:db8::1]:8443/a?b=c",
            "https://[2001:db8::1]:8443/a?b=c",
        ),
        ("http://127.0.0.1:9093/x", "http://127.0.0.1:9093/x"),
        ("http://[::1]/x", "http://[::1]:80/x"),
    ] {
        assert_eq!(parsed(text).as_deref(), Ok(expected));
        assert_eq!(parsed(expected).as_deref(), Ok(expected));
    }
    for text in [
        "http://noc.example/x",
        "http://127.0.0.1.noc.example/x",
        "https://user:secret@noc.example/",
        "https://noc.example:0/",
        "https://noc.example:65536/",
        "https://noc.example/a b",
        "https://noc.example/#a",
        "https:///x",
        "https://[1::2/x",
        "ftp://noc.example/",
        "noc.example",
    ] {
        assert!(parsed(text).is_err(), "{text}");
    }
}

#[test]
fn syslog_has_three_ways_and_their_usual_ports() {
    for (text, transport, expected) in [
        ("udp://192.0.2.5", SyslogTransport::Udp, "udp://192.0.2.5:514"),
        (
            "tcp://log.example:10514",
            SyslogTransport::Tcp,
            "tcp://log.example:10514",
        ),
        ("tcp://log.example", SyslogTransport::Tcp, "tcp://log.example:601"),
        (
            "tls://[2001:db8::5]",
            SyslogTransport::Tls,
            "tls://[2001:db8::5]:6514",
        ),
    ] {
        let target: SyslogTarget = text.parse().unwrap();
        assert_eq!(
            (target.transport, target.to_string().as_str()),
            (transport, expected)
        );
    }
    for text in [
        "log.example:514",
        "unix:///dev/log",
        "udp://log.example:514/x",
        "udp://:514",
    ] {
        assert!(text.parse::<SyslogTarget>().is_err(), "{text}");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let hook = |rest: &str| format!("{{webhooks: [{{url: 'https://noc.example/', {rest}}}]}}");
    let many = |one: &str| vec![one; 65].join(", ");
    for (text, words) in [
        (
            "{watermarks: [{of: flows, at: 5, dnn: a}]}".to_owned(),
            "flows are not counted by slice or DNN",
        ),
        (
            "{watermarks: [{of: sessions, at: 5, slice: {sst: 1, sd: zz}}]}".to_owned(),
            "six hexadecimal digits",
        ),
        (
            "{watermarks: [{of: sessions, at: 5, direction: uplink}]}".to_owned(),
            "direction: only rates have one",
        ),
        ("{watermarks: [{of: sessions, at: 0}]}".to_owned(), "outside 1..="),
        (
            "{watermarks: [{of: sessions, at: 5}, {of: sessions, at: 6}]}".to_owned(),
            "alarms.watermarks: sessions is configured twice",
        ),
        (
            format!("{{watermarks: [{}]}}", many("{of: flows, at: 5}")),
            "alarms.watermarks: there are 64 at most",
        ),
        (
            hook("ca: here"),
            "alarms.webhooks: ca: `here` is no absolute path",
        ),
        (
            hook("token_file: t"),
            "alarms.webhooks: token_file: `t` is no absolute path",
        ),
        (
            "{webhooks: [{url: 'https://a/'}, {url: 'https://a:443'}]}".to_owned(),
            "https://a:443/ is configured twice",
        ),
        (
            "{syslog: [{to: 'udp://a', facility: 24}]}".to_owned(),
            "outside 0..=23",
        ),
        (
            "{syslog: [{to: 'udp://a'}, {to: 'udp://a:514'}]}".to_owned(),
            "udp://a:514 is configured twice",
        ),
    ] {
        let error = Config::parse(&with(&text), "f").unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
