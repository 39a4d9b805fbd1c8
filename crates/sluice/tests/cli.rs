//! The program as a person calls it: exit status, and what it says.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// A configuration file of this test's own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a file");
    path
}

const GOOD: &str = "\
node: {id: 127.0.0.8}
n4: {addresses: [127.0.0.8], port: 18805}
ports: [{name: ran, driver: {af_packet: {interface: nosuch0}}}]
instances: [{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}]
";

#[test]
fn check_says_what_a_configuration_makes() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sluice.yaml");
    let output = sluice(&["check", "-c", example]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for words in [
        "127.0.0.8",
        "AF_PACKET on n3",
        "internet: N6 on dn untagged",
        "0.0.0.0/0 via 10.200.0.254",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

#[test]
fn a_mistake_ends_with_status_2_and_its_place() {
    let path = file("mistake.yaml", &GOOD.replace("10.100.0.1/24", "10.100.0.1/40"));
    for command in ["check", "run"] {
        let output = sluice(&[command, "-c", path.to_str().expect("a path in UTF-8")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text.contains("mistake.yaml") && text.contains("line 4"), "{text}");
        assert!(text.contains("prefix length 40 is outside 0..=32"), "{text}");
    }
}

/// Neither takes more memory or time than a bound.
#[test]
fn a_file_without_end_and_one_that_grows_by_aliases_are_refused() {
    let tenfold: String = (1..9).fold("a0: &a0 [x]\n".to_owned(), |text, level| {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        format!("{text}a{level}: &a{level} [{aliases}]\n")
    });
    let tenfold = file("tenfold.yaml", &tenfold);
    let whole = sluice(&["check", "-c", "/dev/zero"]);
    let words = String::from_utf8_lossy(&whole.stderr);
    assert_eq!(words, "/dev/zero: cannot be read: longer than 16 MiB\n");
    for output in [
        whole,
        sluice(&["check", "-c", tenfold.to_str().expect("a path in UTF-8")]),
    ] {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn a_port_that_cannot_be_opened_ends_with_its_drivers_reason() {
    let path = file("port.yaml", GOOD);
    let output = sluice(&["run", "-c", path.to_str().expect("a path in UTF-8")]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("port `ran`") && text.contains("nosuch0"), "{text}");
}

#[test]
fn ports_are_opened_and_explained_when_that_is_asked_for() {
    let memory = GOOD.replace("af_packet: {interface: nosuch0}", "memory: {}");
    let path = file("memory.yaml", &memory);
    let path = path.to_str().expect("a path in UTF-8");
    let output = sluice(&["check", "--ports", "-c", path]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for (about, words) in [
        ("driver", "net_ring, on "),
        ("queues", "1 of "),
        ("link", "unknown: it is taken for up"),
        ("MTU", "1500, of "),
        ("receiving in parts", "a frame of the MTU fits one buffer"),
        ("RSS", "none"),
        ("rte_flow for GTP-U", "not wanted with one worker"),
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(about));
        assert!(
            line.is_some_and(|line| line.contains(words)),
            "{about}: {words} is not in:\n{text}"
        );
    }
    let plain = sluice(&["check", "-c", path]);
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("net_ring"));
}

#[test]
fn ports_that_cannot_be_had_are_named_beside_those_that_can() {
    let both = GOOD.replace("ports: [", "ports: [{name: spare, driver: {memory: {}}}, ");
    let path = file("both.yaml", &both);
    let output = sluice(&["check", "--ports", "-c", path.to_str().expect("a path in UTF-8")]);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(out.contains("port       spare\n"), "{out}");
    assert!(
        err.contains("check: port `ran`") && err.contains("nosuch0"),
        "{err}"
    );
}

/// The last line of the output of a demo with this number of sessions.
fn demo(sessions: &str, arguments: &[&str]) -> serde_json::Value {
    let small = [
        "demo",
        "--seconds",
        "1",
        "--sessions",
        sessions,
        "--mpps",
        "0.02",
        "--json",
    ];
    let output = sluice(&[&small[..], arguments].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().expect("a last line")).expect("one line of JSON")
}

fn assert_all_arrived(summary: &serde_json::Value, sessions: u32) {
    assert_eq!(summary["sessions"], sessions, "{summary}");
    assert_eq!(
        (&summary["ul_lost"], &summary["dl_lost"]),
        (&0.into(), &0.into()),
        "{summary}"
    );
    assert_eq!(summary["drops"], serde_json::json!({}), "{summary}");
    for direction in ["uplink", "downlink"] {
        let (reported, counted) = (
            &summary["usage_octets"][direction],
            &summary["counters"][direction]["octets"],
        );
        assert!(
            reported.as_u64() > Some(1_000_000) && reported == counted,
            "{summary}"
        );
    }
    for key in ["p50", "p99", "p999"] {
        assert!(summary["latency_us"][key].is_number(), "{summary}");
    }
}

#[test]
fn the_demo_loses_nothing_and_charges_every_octet() {
    let summary = demo("200", &["--workers", "2"]);
    assert_all_arrived(&summary, 200);
    assert_eq!(summary["counters"]["handed_over"], 0, "{summary}");
}

/// One of the workers has no session: nothing is sent on its account.
#[test]
fn one_session_is_enough_for_two_workers() {
    let summary = demo("1", &["--workers", "2"]);
    assert_all_arrived(&summary, 1);
}

#[test]
fn scattered_packets_are_handed_over_between_threads() {
    let summary = demo("200", &["--workers", "2", "--scatter"]);
    assert_all_arrived(&summary, 200);
    assert!(
        summary["counters"]["handed_over"].as_u64() > Some(1_000),
        "{summary}"
    );
}

/// A PFCP message about a node.
fn pfcp(message_type: u8, sequence: u8, ies: &[u8]) -> Vec<u8> {
    let length = 4 + ies.len() as u8;
    [&[0x20, message_type, 0, length, 0, 0, sequence, 0][..], ies].concat()
}

/// Receives a message of this type.
fn receive(smf: &UdpSocket, message_type: u8) -> Option<Vec<u8>> {
    let mut octets = [0; 2_000];
    let length = smf.recv(&mut octets).ok()?;
    let octets = octets[..length].to_vec();
    (octets[1] == message_type).then_some(octets)
}

#[test]
fn a_daemon_that_ends_requests_a_release_of_its_smf_and_waits_for_it() {
    const NODE: [u8; 9] = [0, 60, 0, 5, 0, 127, 0, 0, 77];
    const STARTED: [u8; 8] = [0, 96, 0, 4, 0, 0, 0, 100];
    const ACCEPTED: [u8; 5] = [0, 19, 0, 1, 1];
    const SARR: [u8; 5] = [0, 111, 0, 1, 1];
    let path = file(
        "ending.yaml",
        &GOOD
            .replace("port: 18805", "port: 18806, peers: [127.0.0.77/32]")
            .replace("af_packet: {interface: nosuch0}", "memory: {}"),
    );
    let smf = UdpSocket::bind("127.0.0.77:8805").expect("a socket");
    smf.connect("127.0.0.8:18806").expect("an address");
    smf.set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a time");
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["run", "-c", path.to_str().expect("a path in UTF-8")])
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let patiently = |mut ask: Box<dyn FnMut() -> Option<Vec<u8>>>| {
        let answer = (0..300).find_map(|_| ask());
        answer.expect("an answer within a minute")
    };
    let setup = pfcp(5, 1, &[&NODE[..], &STARTED].concat());
    let (asks, monitor) = (
        smf.try_clone().expect("a socket"),
        smf.try_clone().expect("a socket"),
    );
    patiently(Box::new(move || {
        // Refused until the daemon listens.
        std::thread::sleep(Duration::from_millis(50));
        asks.send(&setup).ok().and_then(|_| receive(&asks, 6))
    }));
    let killed = Command::new("kill")
        .args(["-TERM", &daemon.id().to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    let update = patiently(Box::new(move || receive(&monitor, 7)));
    assert!(update.windows(SARR.len()).any(|ie| ie == SARR), "{update:?}");
    assert_eq!(daemon.try_wait().expect("a state"), None, "it waits");
    smf.send(&pfcp(8, update[6], &[&NODE[..], &ACCEPTED].concat()))
        .expect("sent");
    smf.send(&pfcp(9, 2, &NODE)).expect("sent");
    let released = smf.try_clone().expect("a socket");
    patiently(Box::new(move || receive(&released, 10)));
    assert!(daemon.wait().expect("a status").success());
}

/// Ends a daemon.
fn end(mut daemon: std::process::Child) {
    let killed = Command::new("kill")
        .args(["-TERM", &daemon.id().to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    assert!(daemon.wait().expect("a status").success());
}

#[test]
fn the_log_has_n4_events_in_plain_text_at_the_configured_level() {
    const NODE: [u8; 9] = [0, 60, 0, 5, 0, 127, 0, 0, 78];
    const STARTED: [u8; 8] = [0, 96, 0, 4, 0, 0, 0, 100];
    let socket = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("log-control.sock");
    let path = file(
        "log.yaml",
        &GOOD
            .replace(
                "port: 18805",
                "port: 18807, peers: [127.0.0.78/32], release_wait_s: 0",
            )
            .replace("af_packet: {interface: nosuch0}", "memory: {}")
            .replace(
                "ports:",
                &format!("control: {{socket: {}}}\nports:", socket.display()),
            ),
    );
    let path = path.to_str().expect("a path in UTF-8");
    let log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("log.txt");
    let daemon = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["run", "-c", path])
        .stderr(fs::File::create(&log).expect("a file"))
        .spawn()
        .expect("the program starts");
    let socket_of = |address: &str| {
        let socket = UdpSocket::bind(address).expect("a socket");
        socket.connect("127.0.0.8:18807").expect("an address");
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("a time");
        socket
    };
    let (smf, unknown) = (socket_of("127.0.0.78:8805"), socket_of("127.0.0.79:8805"));
    let patiently = |what: &str, ask: &dyn Fn() -> bool| {
        let is_done = (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            ask()
        });
        assert!(
            is_done,
            "{what}: {}",
            fs::read_to_string(&log).unwrap_or_default()
        );
    };
    let setup = pfcp(5, 1, &[&NODE[..], &STARTED].concat());
    let exchange = |request: &[u8], answer: u8| smf.send(request).is_ok() && receive(&smf, answer).is_some();
    patiently("a set-up", &|| exchange(&setup, 6));
    unknown.send(&setup).expect("sent");
    let says = |words: &str| fs::read_to_string(&log).is_ok_and(|text| text.contains(words));
    patiently("an unauthorised peer", &|| says("outside n4.peers"));
    // A session that does not exist.
    let deletion = [&[0x21, 54, 0, 12][..], &[0; 7], &[9, 0, 0, 2, 0]].concat();
    patiently("a refusal", &|| {
        exchange(&deletion, 55) && says("N4 request rejected")
    });
    let sluice_log = |level: &[&str]| {
        let output = sluice(&[&["log", "-c", path], level].concat());
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    assert_eq!(sluice_log(&[]), "log level info\n");
    assert_eq!(sluice_log(&["warn"]), "log level warn\n");
    assert!(sluice_log(&["loud"]).contains("must be one of off, error"));
    patiently("a release", &|| exchange(&pfcp(9, 3, &NODE), 10));
    end(daemon);
    let text = fs::read_to_string(&log).expect("a log");
    let version = env!("CARGO_PKG_VERSION");
    for words in [
        format!("N4 open version=\"{version}\" node=\"127.0.0.8\" addresses=\"127.0.0.8:18807\""),
        "INFO N4 association up node=\"127.0.0.78\" peer=\"127.0.0.78:8805\"".into(),
        "WARN N4 datagram discarded source=127.0.0.79:8805 why=\"outside n4.peers\"".into(),
        "cause=65 meaning=\"Session context not found\"".into(),
    ] {
        assert!(text.contains(&words), "{words} is not in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours: {text:?}");
    assert!(
        !text.contains("association down") && !text.contains("stopped"),
        "{text}"
    );
}
