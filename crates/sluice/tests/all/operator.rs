//! The operator's API and `sluice show` over a real Unix socket, with the one-thread world behind it.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flow::{PortId, WorkerId};
use serde_json::Value;
use session::Seid;
use sim::smf::State;
use sluice::daemon::rest::{Access, ClientError, Desk, RestSocket, Service, desk};
use sluice::daemon::{Published, get};
use sluice::trace::Explainer;
use sluice::upf::SessionQuery;
use worker::mem::MemBuf;

use support::*;

#[test]
fn askers_who_go_away_take_no_room_from_others() {
    let mut operator = Operator::new("gone", 1, 1);
    let seid = operator
        .world
        .control
        .view_sessions(&SessionQuery::default(), None, 1)
        .sessions[0]
        .seid
        .clone();
    let seid = Seid(u64::from_str_radix(seid.trim_start_matches("0x"), 16).expect("a SEID"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let (inquiry, mut desk) = desk();
    let ask = |serve: &mut dyn FnMut()| {
        runtime.block_on(async {
            let mut asking = std::pin::pin!(inquiry.session(seid));
            let first = std::future::poll_fn(|context| std::task::Poll::Ready(asking.as_mut().poll(context)));
            assert!(first.await.is_pending());
            serve();
            std::future::poll_fn(|context| std::task::Poll::Ready(asking.as_mut().poll(context))).await
        })
    };
    // The workers say nothing meanwhile.
    for _ in 0..200 {
        assert!(
            ask(&mut || {
                desk.serve(&mut operator.world.control);
            })
            .is_pending()
        );
    }
    let shown = ask(&mut || {
        desk.serve(&mut operator.world.control);
        (0..10).for_each(|_| operator.world.step());
        desk.serve(&mut operator.world.control);
    });
    assert!(matches!(shown, std::task::Poll::Ready(Ok(Ok(_)))), "{shown:?}");
}

/// A world with a socket that answers for it.
struct Operator {
    world: World,
    desk: Desk,
    socket: RestSocket,
    path: PathBuf,
}

impl Operator {
    /// With so many sessions that have had a little traffic.
    fn new(name: &str, workers: u16, sessions: u32) -> Self {
        let mut world = World::new(workers, sessions, 51);
        world.smf.start(world.now);
        world.until(State::Established);
        let shards = world.shards();
        world.traffic(shards, Duration::from_millis(20));
        let path = path(name);
        let (inquiry, desk) = desk();
        let published = world.workers.iter().map(|worker| Published::new(worker.stats()));
        let ports = ["ran".to_owned(), "dn".to_owned()].into();
        let explainer = Explainer::new(Arc::clone(world.control.network()), ports, 0);
        let service = Service::new(inquiry, published.collect()).with_explainer(explainer);
        let socket = RestSocket::open(&path, Access::Owner, service).expect("a socket");
        Self {
            world,
            desk,
            socket,
            path,
        }
    }

    /// Runs the world until `ask`, which asks the socket, is done.
    fn while_asked<A: Send>(&mut self, ask: impl FnOnce(&Path) -> A + Send) -> A {
        let path = self.path.clone();
        thread::scope(|scope| {
            let asking = scope.spawn(move || ask(&path));
            while !asking.is_finished() {
                self.world.step();
                self.desk.serve(&mut self.world.control);
                thread::sleep(Duration::from_micros(100));
            }
            asking.join().expect("no panic")
        })
    }

    fn json(&mut self, target: &str) -> Value {
        let answer = self.while_asked(|path| get::<Value>(path, target));
        answer.unwrap_or_else(|error| panic!("{target}: {error}"))
    }

    /// The status, the field and the words of a problem.
    fn problem(&mut self, target: &str) -> (u16, Option<String>, String) {
        match self.while_asked(|path| get::<Value>(path, target)) {
            Err(ClientError::Problem(problem)) => (problem.status, problem.field, problem.detail),
            other => panic!("{target}: {other:?}"),
        }
    }

    /// What `sluice show` prints.
    fn show(&mut self, arguments: &[&str]) -> String {
        let output = self.while_asked(|path| show(path, arguments));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn path(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("sluice-{}-{name}", std::process::id()));
    directory.join("control.sock")
}

fn show(path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("show").args(arguments).arg("--socket").arg(path);
    command.output().expect("the program starts")
}

/// Compares with the file, or writes it (`SLUICE_GOLDEN=write`).
fn assert_golden(name: &str, text: &str) {
    let path = format!("{}/tests/operator/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("SLUICE_GOLDEN").is_some_and(|how| how == "write") {
        fs::create_dir_all(format!("{}/tests/operator", env!("CARGO_MANIFEST_DIR"))).expect("a directory");
        fs::write(&path, text).expect("a file");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{path}; SLUICE_GOLDEN=write writes it anew");
}

#[test]
fn a_person_reads_associations_and_sessions() {
    let mut operator = Operator::new("tables", 2, 3);
    assert_golden("associations.txt", &operator.show(&["associations"]));
    let sessions = operator.show(&["sessions"]);
    assert_golden("sessions.txt", &sessions);
    let seid = sessions
        .lines()
        .nth(1)
        .and_then(|line| line.split(' ').next())
        .expect("a SEID");
    assert_golden("session.txt", &operator.show(&["session", seid]));
    let runtime = operator.show(&["runtime"]);
    assert!(
        runtime.contains("worker 1: received") && runtime.contains("lookup"),
        "{runtime}"
    );
}

#[test]
fn a_person_reads_routes_and_neighbours() {
    let mut operator = Operator::new("network", 1, 2);
    let routes = operator.json("/v1/routes");
    let rows = routes["routes"].as_array().expect("rows");
    assert_eq!(routes["total"], 3);
    let row = |prefix: &str| rows.iter().find(|row| row["prefix"] == prefix).expect("a prefix");
    assert_eq!(row("10.100.0.0/24")["kind"], "connected");
    let hop = &row("0.0.0.0/0")["next_hops"][0];
    assert_eq!(
        (hop["instance"].as_str(), hop["alive"].as_bool()),
        (Some("internet"), Some(true))
    );
    assert_eq!(hop["state"], "reachable");
    let text = operator.show(&["routes"]);
    assert!(
        text.contains("on the link") && text.contains("reachable"),
        "{text}"
    );

    let neighbours = operator.json("/v1/neighbours");
    let rows = neighbours["neighbours"].as_array().expect("rows");
    assert_eq!(neighbours["total"], rows.len());
    let router = rows
        .iter()
        .find(|row| row["address"] == hop["address"])
        .expect("the router");
    assert_eq!(
        (&router["mac"], &router["port"]),
        (&hop["mac"], &Value::from("dn"))
    );
    assert_eq!(
        (&router["state"], &router["wanted_by"]),
        (&"reachable".into(), &"configuration".into())
    );
    assert!(
        rows.iter()
            .any(|row| row["wanted_by"] == "rules" && row["port"] == "ran"),
        "{rows:?}"
    );

    // Pages of one, which a person gets together.
    let first = operator.json("/v1/neighbours?limit=1");
    assert_eq!(first["neighbours"][0]["id"], rows[0]["id"]);
    let next = first["next"].as_u64().expect("more");
    let second = operator.json(&format!("/v1/neighbours?limit=1&after={next}"));
    assert_eq!(second["neighbours"][0]["id"], rows[1]["id"]);
    let text = operator.show(&["neighbours", "--limit", "1"]);
    assert!(text.ends_with(&format!("more behind --after {next}\n")), "{text}");
    let (status, field, _) = operator.problem("/v1/routes?after=x");
    assert_eq!((status, field.as_deref()), (400, Some("after")));
}

#[test]
fn sessions_come_in_pages_and_by_what_is_known_of_them() {
    let mut operator = Operator::new("pages", 1, 12);
    let all = operator.json("/v1/sessions");
    let seids = |list: &Value| -> Vec<String> {
        let rows = list["sessions"].as_array().expect("rows").iter();
        rows.map(|row| row["seid"].as_str().expect("a SEID").to_owned())
            .collect()
    };
    let expected = seids(&all);
    assert_eq!(
        (expected.len(), &all["total"], &all["next"]),
        (12, &12.into(), &Value::Null)
    );
    assert!(expected.is_sorted());

    let (mut found, mut after) = (Vec::new(), String::new());
    for _ in 0..3 {
        let page = operator.json(&format!("/v1/sessions?limit=5{after}"));
        found.extend(seids(&page));
        after = page["next"]
            .as_str()
            .map(|next| format!("&after={next}"))
            .unwrap_or_default();
    }
    assert_eq!((found, after), (expected.clone(), String::new()));

    let row = &all["sessions"][7];
    let ue = row["ue"][0].as_str().expect("an address");
    let teid = row["teids"][0].as_str().expect("a TEID");
    for condition in [
        format!("ue={ue}"),
        format!("teid={teid}"),
        format!("seid={}", expected[7]),
    ] {
        let found = operator.json(&format!("/v1/sessions?{condition}"));
        assert_eq!(seids(&found), expected[7..8], "{condition}");
    }
    let none = operator.json(&format!("/v1/sessions?ue={ue}&seid={}", expected[0]));
    assert_eq!(
        (none["sessions"].as_array().map(Vec::len), &none["total"]),
        (Some(0), &12.into())
    );
    let text = operator.show(&["sessions", "--limit", "5"]);
    let more = format!("5 of 12; the next with --after {}\n", expected[4]);
    assert!(text.ends_with(&more), "{text}");
    let json: Value = serde_json::from_str(&operator.show(&["sessions", "--json"])).expect("JSON");
    assert_eq!(json, all);
    let one: Value =
        serde_json::from_str(&operator.show(&["session", &expected[3], "--json"])).expect("JSON");
    assert!(
        one["urrs"][0]["since_last_report"]["uplink_octets"].as_u64() > Some(0),
        "{one}"
    );
}

#[test]
fn what_is_wrong_is_said() {
    let mut operator = Operator::new("problems", 1, 1);
    let unknown = operator.problem("/v1/sessions/0x5");
    assert_eq!(
        unknown,
        (
            404,
            None,
            "there is no session with SEID 0x0000000000000005".into()
        )
    );
    for (target, field) in [
        ("/v1/sessions?ue=10.45.0", "ue"),
        ("/v1/sessions?limit=100000", "limit"),
        ("/v1/sessions?imsi=1", "imsi"),
        ("/v1/sessions/five", "seid"),
        ("/v1/associations?after=x", "after"),
    ] {
        let (status, named, words) = operator.problem(target);
        assert_eq!((status, named.as_deref()), (400, Some(field)), "{words}");
        assert!(words.starts_with(field), "{words}");
    }
    assert_eq!(operator.problem("/v2/everything").0, 404);
    let output = operator.while_asked(|path| show(path, &["session", "5"]));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(words, "show: there is no session with SEID 0x0000000000000005\n");
    let openapi = operator.json("/openapi.json");
    assert!(
        openapi["paths"]["/v1/sessions/{seid}"]["get"].is_object(),
        "{openapi}"
    );
}

#[test]
fn the_socket_is_its_owners_and_goes_with_the_daemon() {
    let operator = Operator::new("socket", 1, 1);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let directory = operator.path.parent().expect("a directory").to_owned();
    assert_eq!((mode(&operator.path), mode(&directory)), (0o600, 0o700));
    let (inquiry, _desk) = desk();
    let second = RestSocket::open(&operator.path, Access::Owner, Service::new(inquiry, Vec::new()));
    assert_eq!(second.expect_err("taken").kind(), std::io::ErrorKind::AddrInUse);
    let Operator { socket, path, .. } = operator;
    drop(socket);
    assert!(!path.exists());

    let output = show(&path, &["associations"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words.starts_with("show: no daemon is at ") && words.contains("sluice run"),
        "{words}"
    );

    // A group of our own, as `control.group` names one; what was left behind by a process that is gone is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let group = std::os::unix::fs::MetadataExt::gid(&fs::metadata(&directory).expect("a directory"));
    let (inquiry, _desk) = desk();
    let service = Service::new(inquiry, Vec::new());
    let shared = RestSocket::open(&path, Access::Group(group), service).expect("a socket");
    assert_eq!(mode(&path), 0o660);
    assert!(get::<Value>(&path, "/v1/runtime").is_ok());
    drop(shared);
    let _ = fs::remove_dir(directory);
    assert!(Access::group("no such group").is_err());
}

/// Nobody answers for Control: the API says so and does not wait for ever.
#[test]
fn a_control_thread_without_time_is_a_problem_that_says_so() {
    let path = path("silent");
    let (inquiry, desk) = desk();
    let socket = RestSocket::open(&path, Access::Owner, Service::new(inquiry, Vec::new())).expect("a socket");
    drop(desk);
    match get::<Value>(&path, "/v1/associations") {
        Err(ClientError::Problem(problem)) => assert_eq!(problem.status, 503),
        other => panic!("{other:?}"),
    }
    drop(socket);
    let _ = fs::remove_dir(path.parent().expect("a directory"));
}

impl Operator {
    /// The address of a UE, and the SEID of its session.
    fn first_session(&mut self) -> (String, String) {
        let row = self.json("/v1/sessions?limit=1")["sessions"][0].clone();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        (text(&row["ue"][0]), text(&row["seid"]))
    }

    /// What `sluice` with these arguments says while packets for this UE come in at the first worker, one in each step.
    fn trace(&mut self, ue: &str, arguments: &[&str]) -> (Output, usize) {
        self.while_packets_come(ue, &[&["trace"], arguments].concat())
    }

    fn while_packets_come(&mut self, ue: &str, arguments: &[&str]) -> (Output, usize) {
        let ue: std::net::Ipv4Addr = ue.parse().expect("an IPv4 address");
        let packet = rules::testing::UserPacket::udp(SERVER, ue, 53, 4_000).bytes();
        let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 9, 9, 8, 0][..], &packet].concat();
        let path = self.path.clone();
        let mut sent = 0;
        let output = thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
                command.args(arguments).arg("--socket").arg(&path);
                command.output().expect("the program starts")
            });
            while !asking.is_finished() {
                let queue = self.world.wires.to(WorkerId(0), PortId(1));
                sent += usize::from(queue.push(MemBuf::new(&frame)).is_ok());
                // Faster than the teller's own time, so that orders end in time.
                (0..20).for_each(|_| self.world.step());
                self.desk.serve(&mut self.world.control);
                for port in [PortId(0), PortId(1)] {
                    while self.world.wires.from(port).pop().is_some() {}
                }
                thread::sleep(Duration::from_micros(200));
            }
            asking.join().expect("no panic")
        });
        (output, sent)
    }
}

#[test]
fn a_person_watches_the_packets_of_a_ue() {
    let mut operator = Operator::new("trace", 2, 3);
    let (ue, seid) = operator.first_session();
    let (output, _) = operator.trace(&ue, &["--ue", &ue, "--count", "6", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let packets: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(packets.len(), 6);
    let sent: Vec<_> = packets
        .iter()
        .filter(|packet| packet["end"]["outcome"] == "sent")
        .collect();
    assert!(!sent.is_empty(), "{lines}");
    for packet in &sent {
        assert_eq!(packet["seid"], seid.as_str());
        assert_eq!(
            (&packet["direction"], &packet["end"]["port"]),
            (&"downlink".into(), &"ran".into())
        );
        assert_eq!(
            (&packet["disagreement"], &packet["unchecked"]),
            (&Value::Null, &Value::Null)
        );
    }
    let is_told = |packet: &&Value| packet["end"]["outcome"] == "handed_over";
    let others: Vec<_> = packets.iter().filter(is_told).collect();
    assert_eq!(sent.len() + others.len(), 6, "{lines}");
    // Of packets that are cut short nobody says that they are wrong.
    let (output, _) = operator.trace(&ue, &["--ue", &ue, "--count", "4", "--snap", "64", "-v"]);
    let told = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && told.contains("SENT"), "{told}");
    // Nobody is traced any more, so nothing is told any more, and others may ask.
    for condition in [["--seid", &seid], ["--port", "ran"], ["--teid", "0x7fffffff"]] {
        let arguments = [&condition[..], &["--count", "1", "--seconds", "1"]].concat();
        let (output, _) = operator.trace(&ue, &arguments);
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stdout).expect("text");
        assert_eq!(told.contains("-> SENT"), condition[0] != "--teid", "{told}");
    }
}

#[test]
fn a_trace_is_bounded_and_says_what_is_missing() {
    let mut operator = Operator::new("bounded", 1, 1);
    let (ue, _) = operator.first_session();
    let (output, sent) = operator.trace(&ue, &["--ue", &ue, "--rate", "2", "--seconds", "1"]);
    let words = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success() && sent > 2, "{words}");
    assert!(
        words.contains("not told: beyond the rate or the number asked for"),
        "{words}"
    );
    assert_eq!(operator.problem("/v1/trace?port=nosuch").0, 400);
    assert_eq!(operator.problem("/v1/trace?flow=tcp").1.as_deref(), Some("flow"));
}

#[test]
fn a_person_has_packets_copied() {
    let mut operator = Operator::new("mirror", 1, 1);
    let (ue, _) = operator.first_session();
    let to_port = ["mirror", "--ue", &ue, "--to-port", "ran", "--count", "3"];
    let (output, _) = operator.while_packets_come(&ue, &to_port);
    let words = String::from_utf8(output.stderr).expect("text");
    assert!(
        output.status.success() && words.starts_with("3 of 3 packets"),
        "{words}"
    );
    assert_eq!(operator.world.workers[0].stats().mirrored, 3);
    // No way there, or nothing said of one: nothing is copied.
    for (arguments, words) in [
        (
            &["--to-gre", "2001:db8:ffff::9", "--by", "access"][..],
            "the network instance has no",
        ),
        (
            &["--to-gre", "192.0.2.9", "--by", "nosuch"],
            "by must be the name of a network instance",
        ),
        (&["--to-port", "nosuch"], "to_port must be the name of a port"),
    ] {
        let arguments = [&["mirror"], arguments].concat();
        let (output, _) = operator.while_packets_come(&ue, &arguments);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    assert_eq!(operator.world.workers[0].stats().mirrored, 3);
}

#[test]
fn what_is_captured_is_read_again() {
    let mut operator = Operator::new("capture", 1, 1);
    let (ue, _) = operator.first_session();
    let file = operator.path.with_file_name("ue.pcapng");
    let name = file.to_str().expect("text").to_owned();
    let (output, _) = operator.trace(&ue, &["--ue", &ue, "--count", "3", "--write", &name]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let octets = fs::read(&file).expect("a file");
    let mut reader = sluice::trace::Reader::new(&octets).expect("a capture");
    let mut packets = Vec::new();
    while let Some(packet) = reader.next().expect("it is whole") {
        packets.push((
            packet.interface,
            packet.is_outbound,
            packet.len,
            packet.octets.len(),
        ));
    }
    let names: Vec<_> = reader.interfaces().iter().map(|one| one.name.clone()).collect();
    assert_eq!(names, [Some("dn/internet".into()), Some("ran/access".into())]);
    assert_eq!(packets.len(), 6);
    for pair in packets.chunks(2) {
        assert_eq!((pair[0].0, pair[0].1), (0, Some(false)));
        assert_eq!((pair[1].0, pair[1].1), (1, Some(true)));
        assert_eq!((pair[0].2, pair[1].2), (pair[0].3, pair[1].3));
    }
    let _ = fs::remove_file(file);
}
