//! Receivers as they are met over loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use config::Config;
use flow::Nanos;

use super::*;
use crate::alarms::{At, Condition, Level, SharedAlarms};
use crate::values::AlarmNotification;

const BASE: &str = "node: {id: upf.example}\nn4: {addresses: [127.0.0.1]}\nports: [{name: a, driver: {memory: {}}}]\n\
                    instances: [{name: a, port: a, roles: [n3], addresses: [192.0.2.1/24]}]\n";

fn config(alarms: &str) -> AlarmsConfig {
    let text = format!("{BASE}alarms: {alarms}\n");
    Config::parse(&text, "f").unwrap().alarms
}

fn sources() -> DeliverySources {
    DeliverySources {
        alarms: SharedAlarms::default(),
        node: "upf.example".into(),
        started_ms: 1_700_000_000_000,
        directories: vec![std::env::temp_dir(), "/none".into()],
    }
}

fn observe(sources: &DeliverySources, second: u64, kinds: &[Kind]) {
    let at = At {
        now: Nanos::from_secs(second),
        unix_ms: 1_700_000_000_000 + 1_000 * second,
    };
    let condition = |kind: &Kind| Condition {
        kind: *kind,
        object: "a]\"b".into(),
        level: Level::Raises,
        text: "bad\nnews".into(),
    };
    sources
        .alarms
        .lock()
        .observe(at, kinds.iter().map(condition).collect());
}

/// Reads a request, and answers it.
fn serve(listener: &TcpListener, status: &str) -> (String, AlarmNotification) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = String::new();
    let body = loop {
        let mut octets = [0; 4_096];
        let count = stream.read(&mut octets).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&octets[..count]).unwrap());
        let parts = text.split_once("\r\n\r\n");
        if let Some(body) = parts.and_then(|(_, body)| serde_json::from_str(body).ok()) {
            break body;
        }
    };
    let head = text.split_once("\r\n\r\n").unwrap().0.to_owned();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
    (head, body)
}

fn alarms_of(body: &AlarmNotification) -> Vec<(&str, Severity)> {
    let events = body.events.iter();
    events
        .map(|event| (event.alarm.alarm.as_str(), event.alarm.severity))
        .collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_webhook_gets_all_events_in_order_and_again_what_it_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
    let token = std::env::temp_dir().join(format!("alarms-token-{}", std::process::id()));
    std::fs::write(&token, "secret\n").unwrap();
    let text = format!(
        "{{webhooks: [{{url: '{url}', least: minor, token_file: {}}}]}}",
        token.display()
    );
    let sources = sources();
    observe(&sources, 0, &[Kind::SmfLost, Kind::Watermark]);
    let delivery = Delivery::open(&config(&text), sources.clone()).unwrap();
    let (head, body) = serve(&listener, "503 Service Unavailable");
    assert!(head.starts_with("POST /hook?key=1 HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_lowercase().contains("authorization: bearer secret"),
        "{head}"
    );
    // A warning is less than what was asked for.
    assert_eq!(alarms_of(&body), [("smf_lost", Severity::Critical)]);
    assert_eq!(
        (body.node.as_str(), body.started_ms, body.lost),
        ("upf.example", 1_700_000_000_000, 0)
    );
    until("it is known that it takes none", || !delivery.read().0.is_empty());
    let fault = delivery.read().0.remove(0);
    assert!(fault.object.ends_with("/hook"), "{fault:?}");
    assert!(fault.why.contains("503"), "{fault:?}");
    observe(&sources, 1, &[Kind::LinkDown, Kind::SmfLost]);
    let (_, body) = serve(&listener, "204 No Content");
    assert_eq!(
        alarms_of(&body),
        [
            ("smf_lost", Severity::Critical),
            ("link_down", Severity::Critical)
        ]
    );
    until("it is known that it takes some again", || {
        delivery.read().0.is_empty()
    });
    (2..14).for_each(|second| observe(&sources, second, &[]));
    let (_, body) = serve(&listener, "200 OK");
    assert_eq!(
        alarms_of(&body),
        [("link_down", Severity::Cleared), ("smf_lost", Severity::Cleared)]
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
    );
    until("disks are looked at", || !delivery.read().1.is_empty());
    assert!(delivery.read().1.iter().all(|disk| disk.size_mib > 0));
    let _ = std::fs::remove_file(token);
}

#[test]
fn a_webhook_is_told_how_many_events_are_kept_no_more() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "{{webhooks: [{{url: 'http://{}/'}}]}}",
        listener.local_addr().unwrap()
    );
    let sources = sources();
    // Each of 600 alarms comes and goes: 1,200 events, of which 1,000 are kept.
    for turn in 0..600 {
        observe(&sources, 20 * turn, &[Kind::SmfLost]);
        observe(&sources, 20 * turn + 1, &[]);
        observe(&sources, 20 * turn + 12, &[]);
    }
    let _delivery = Delivery::open(&config(&text), sources).unwrap();
    let (_, body) = serve(&listener, "200 OK");
    assert_eq!(
        (body.lost, body.events.len(), body.events[0].id),
        (200, TOGETHER, 201)
    );
    let (_, body) = serve(&listener, "200 OK");
    assert_eq!((body.lost, body.events[0].id), (0, 201 + TOGETHER as u64));
}

fn expected(second: u64, priority: u8, alarm: &str, severity: &str, event: u64) -> String {
    format!(
        "<{priority}>1 2023-11-14T22:13:{:02}.000Z upf.example sluice {} {alarm} [alarm resource=\"a\\]\\\"b\" \
         probableCause=\"lossOfSignal\" perceivedSeverity=\"{severity}\" eventType=\"equipmentAlarm\"]\
         [meta sequenceId=\"{event}\"] bad news",
        20 + second,
        std::process::id()
    )
}

#[test]
fn syslog_has_a_datagram_for_each_event() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let text = format!(
        "{{syslog: [{{to: 'udp://{}', facility: 1}}]}}",
        socket.local_addr().unwrap()
    );
    let sources = sources();
    observe(&sources, 0, &[Kind::LinkDown]);
    let _delivery = Delivery::open(&config(&text), sources.clone()).unwrap();
    let next = || {
        let mut octets = [0; 2_048];
        let count = socket.recv(&mut octets).unwrap();
        String::from_utf8(octets[..count].to_vec()).unwrap()
    };
    assert!(next().starts_with("<13>1 2023-11-14T22:13:20.000Z upf.example sluice "));
    assert_eq!(next(), expected(0, 9, "link_down", "critical", 1));
    (1..13).for_each(|second| observe(&sources, second, &[]));
    assert_eq!(next(), expected(11, 13, "link_down", "cleared", 2));
}

#[test]
fn syslog_over_tcp_counts_octets_and_comes_again_when_it_was_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!("{{syslog: [{{to: 'tcp://{}'}}]}}", listener.local_addr().unwrap());
    let sources = sources();
    observe(&sources, 0, &[Kind::LinkDown, Kind::MemberDown]);
    let _delivery = Delivery::open(&config(&text), sources).unwrap();
    // One that ends with octets unread is reset, and has got nothing.
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut [0; 8]).unwrap();
    drop(stream);
    let (stream, _) = listener.accept().unwrap();
    let messages = read_counted(stream);
    assert!(messages[0].ends_with("started - alarms of the process before are void"));
    assert_eq!(messages[1], expected(0, 129, "link_down", "critical", 1));
    assert_eq!(messages[2], expected(0, 131, "lag_member_down", "minor", 2));
    assert_eq!(messages.len(), 3);
}

fn read_counted(mut stream: TcpStream) -> Vec<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut messages = Vec::new();
    let mut rest = text.as_str();
    while let Some((count, behind)) = rest.split_once(' ') {
        let (message, left) = behind.split_at(count.parse().unwrap());
        messages.push(message.to_owned());
        rest = left;
    }
    messages
}
