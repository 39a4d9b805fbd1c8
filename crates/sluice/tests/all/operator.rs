//! The operator's API and `sluice show` over a real Unix socket, with the one-thread world behind it.

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flow::{PortId, WorkerId};
use oam::rest::{Access, ClientError, QueryServer, RestSocket, Role, Service, get, query_channel};
use oam::views::{self, SessionQuery};
use serde_json::Value;
use session::Seid;
use sim::smf::State;
use trace::Explainer;
use worker::mem::MemBuf;

use support::*;

#[test]
fn clients_that_leave_take_no_room_from_others() {
    let mut operator = Operator::new("gone", 1, 1);
    let seid = views::sessions(&operator.world.control, &SessionQuery::default(), None, 1).sessions[0]
        .seid
        .clone();
    let seid = Seid(u64::from_str_radix(seid.trim_start_matches("0x"), 16).expect("a SEID"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let (client, mut server) = query_channel();
    let ask = |serve: &mut dyn FnMut()| {
        runtime.block_on(async {
            let mut asking = std::pin::pin!(client.session(seid));
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
                server.serve(operator.world.now, &mut operator.world.control);
            })
            .is_pending()
        );
    }
    let shown = ask(&mut || {
        server.serve(operator.world.now, &mut operator.world.control);
        (0..10).for_each(|_| operator.world.step());
        server.serve(operator.world.now, &mut operator.world.control);
    });
    assert!(matches!(shown, std::task::Poll::Ready(Ok(Ok(_)))), "{shown:?}");
}

/// A world with a socket that answers for it.
struct Operator {
    world: World,
    server: QueryServer,
    socket: RestSocket,
    path: PathBuf,
}

impl Operator {
    /// With this number of sessions that have had a little traffic.
    fn new(name: &str, workers: u16, sessions: u32) -> Self {
        let mut world = World::new(workers, sessions, 51);
        world.smf.start(world.now);
        world.until(State::Established);
        let shards = world.shards();
        world.traffic(shards, Duration::from_millis(20));
        let path = path(name);
        let (client, server) = query_channel();
        let stats: Vec<_> = world
            .workers
            .iter()
            .map(|worker| worker.stats().clone())
            .collect();
        let ports = ["ran".to_owned(), "dn".to_owned()].into();
        let explainer = Explainer::new(Arc::clone(world.control.network()), ports, 0);
        let service = Service::new(client, Arc::new(move || stats.clone())).with_explainer(explainer);
        let socket = RestSocket::open(&path, Access::Owner, service).expect("a socket");
        Self {
            world,
            server,
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
                self.server.serve(self.world.now, &mut self.world.control);
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
    assert_eq!(operator.show(&["offload"]), "no accelerator is configured\n");
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

fn ie(ie_type: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len() as u16;
    [&ie_type.to_be_bytes()[..], &length.to_be_bytes(), value].concat()
}

/// A PFCP message about the session with this SEID.
fn pfcp(message_type: u8, seid: u64, sequence: u8, ies: &[u8]) -> Vec<u8> {
    let length = (12 + ies.len() as u16).to_be_bytes();
    let header = [0x21, message_type, length[0], length[1]];
    [&header[..], &seid.to_be_bytes(), &[0, 0, sequence, 0], ies].concat()
}

/// A session for the user with IMSI 001010000000001, whose packets are dropped.
fn session_of_a_user() -> Vec<u8> {
    let ue = [6, 10, 45, 0, 99];
    let pdi = [ie(20, &[1]), ie(22, b"internet"), ie(93, &ue)].concat();
    let rule = [
        ie(56, &[0, 1]),
        ie(29, &[0, 0, 0, 1]),
        ie(2, &pdi),
        ie(108, &[0, 0, 0, 1]),
    ]
    .concat();
    let far = [ie(108, &[0, 0, 0, 1]), ie(44, &[1])].concat();
    let f_seid = [&[2][..], &77u64.to_be_bytes(), &[127, 0, 0, 2]].concat();
    let user = [1, 8, 0x00, 0x01, 0x01, 0, 0, 0, 0, 0xf1];
    let ies = [
        ie(60, &[0, 127, 0, 0, 2]),
        ie(57, &f_seid),
        ie(1, &rule),
        ie(3, &far),
        ie(141, &user),
        ie(159, b"\x08internet"),
    ];
    pfcp(50, 0, 200, &ies.concat())
}

#[test]
fn a_session_is_found_by_its_users_imsi() {
    let mut operator = Operator::new("imsi", 1, 4);
    let rows = operator.json("/v1/sessions")["sessions"].clone();
    assert!(rows[0]["imsi"].is_null() && rows[0]["dnn"].is_null(), "{rows}");
    let (_, seid) = operator.first_session();
    let seid = u64::from_str_radix(seid.trim_start_matches("0x"), 16).expect("a SEID");
    let world = &mut operator.world;
    for request in [pfcp(54, seid, 199, &[]), session_of_a_user()] {
        world.control.handle_datagram(world.now, N4_SMF, N4_UPF, &request);
        (0..20).for_each(|_| world.step());
    }
    let found = operator.json("/v1/sessions?imsi=001010000000001");
    let rows = found["sessions"].as_array().expect("rows");
    assert_eq!(
        (rows.len(), &found["total"], &found["next"]),
        (1, &4.into(), &Value::Null)
    );
    assert_eq!(
        (&rows[0]["imsi"], &rows[0]["dnn"], &rows[0]["ue"][0]),
        (
            &"001010000000001".into(),
            &"internet".into(),
            &"10.45.0.99".into()
        )
    );
    let none = operator.json("/v1/sessions?imsi=001010000000002");
    assert_eq!(none["sessions"].as_array().map(Vec::len), Some(0));
    let text = operator.show(&["sessions", "--imsi", "001010000000001"]);
    assert!(
        text.contains("IMSI") && text.contains("  001010000000001  internet  "),
        "{text}"
    );
    let seid = rows[0]["seid"].as_str().expect("a SEID");
    let text = operator.show(&["session", seid]);
    assert!(
        text.contains("  IMSI        001010000000001\n  DNN         internet\n"),
        "{text}"
    );
}

#[test]
fn what_n4_did_is_reported_by_message_and_by_cause() {
    let mut operator = Operator::new("n4", 1, 3);
    let world = &mut operator.world;
    // A session that does not exist, twice the same; a fourth session; and an unknown user.
    let unknown = pfcp(54, 5, 201, &[]);
    let one_more = session_of_a_user();
    let elsewhere = "127.0.0.99:8805".parse().expect("an address");
    for (from, request) in [
        (N4_SMF, &unknown),
        (N4_SMF, &one_more),
        (N4_SMF, &one_more),
        (elsewhere, &one_more),
    ] {
        world.control.handle_datagram(world.now, from, N4_UPF, request);
    }
    while world.control.poll_transmit().is_some() {}
    let status = operator.json("/v1/n4");
    let message = |name: &str| {
        let all = status["messages"].as_array().expect("messages");
        let found = all.iter().find(|one| one["message"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {status}")).clone()
    };
    let establishments = message("Session Establishment Request");
    let counts = ["received", "duplicates", "refused", "sent"].map(|name| establishments[name].as_u64());
    assert_eq!(counts, [Some(6), Some(1), Some(2), Some(0)]);
    let answers = message("Session Establishment Response");
    let counts = ["received", "sent", "resent"].map(|name| answers[name].as_u64());
    assert_eq!(counts, [Some(0), Some(5), Some(1)]);
    let cause = |number: u64| {
        let all = status["refused"].as_array().expect("causes");
        let found = all.iter().find(|one| one["cause"] == number);
        found.and_then(|one| one["count"].as_u64())
    };
    assert_eq!((cause(65), cause(72), cause(75)), (Some(1), Some(1), Some(1)));
    assert_eq!(status["not_served"]["unauthorised"], 1);
    assert_eq!(
        (&status["associations"], &status["sessions"], &status["node"]),
        (&1.into(), &3.into(), &"127.0.0.8".into())
    );
    assert_eq!(status["addresses"], serde_json::json!(["127.0.0.8:8805"]));
    let text = operator.show(&["n4"]);
    for words in [
        "peers         ANY SOURCE",
        "Session Establishment Request",
        "No established PFCP Association",
        "unauthorised",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
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
    let (client, _server) = query_channel();
    let second = RestSocket::open(
        &operator.path,
        Access::Owner,
        Service::new(client, Arc::new(Vec::new)),
    );
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
    let (client, _server) = query_channel();
    let service = Service::new(client, Arc::new(Vec::new));
    let shared = RestSocket::open(&path, Access::Group(group, Role::Viewer), service).expect("a socket");
    assert_eq!(mode(&path), 0o660);
    assert!(get::<Value>(&path, "/v1/runtime").is_ok());
    drop(shared);
    let _ = fs::remove_dir(directory);
    assert!(Access::group("no such group", Role::Admin).is_err());
}

/// Control does not respond: the API says so and does not wait for ever.
#[test]
fn a_control_thread_without_time_is_a_problem_that_says_so() {
    let path = path("silent");
    let (client, server) = query_channel();
    let socket =
        RestSocket::open(&path, Access::Owner, Service::new(client, Arc::new(Vec::new))).expect("a socket");
    drop(server);
    match get::<Value>(&path, "/v1/associations") {
        Err(ClientError::Problem(problem)) => assert_eq!(problem.status, 503),
        other => panic!("{other:?}"),
    }
    drop(socket);
    let _ = fs::remove_dir(path.parent().expect("a directory"));
}

/// Five hundred connections that send nothing, or not all of a request, keep no other client from an answer: it is
/// there while those that came last are still open.
#[test]
fn slow_connections_are_in_the_way_of_no_other() {
    let path = path("slow");
    let (client, _server) = query_channel();
    let socket =
        RestSocket::open(&path, Access::Owner, Service::new(client, Arc::new(Vec::new))).expect("a socket");
    let slow = |number: usize| {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        let begun: &[u8] = if number.is_multiple_of(2) {
            b""
        } else {
            b"GET /v1/run"
        };
        stream.write_all(begun).expect("it is taken");
        stream
    };
    let slow: Vec<UnixStream> = (0..500).map(slow).collect();
    for _ in 0..3 {
        assert!(get::<Value>(&path, "/v1/runtime").is_ok());
    }
    let is_open = |mut stream: &UnixStream| {
        stream.set_nonblocking(true).expect("a socket");
        let read = stream.read(&mut [0; 100]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(
        is_open(&slow[499]),
        "the answer came after the end of the slow connections"
    );
    assert!(!is_open(&slow[0]), "there is no bound");
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
                self.server.serve(self.world.now, &mut self.world.control);
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
    let is_reported = |packet: &&Value| packet["end"]["outcome"] == "handed_over";
    let others: Vec<_> = packets.iter().filter(is_reported).collect();
    assert_eq!(sent.len() + others.len(), 6, "{lines}");
    // Packets that are cut short are not called wrong.
    let (output, _) = operator.trace(&ue, &["--ue", &ue, "--count", "4", "--snap", "64", "-v"]);
    let reported = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && reported.contains("SENT"), "{reported}");
    // No UE is traced any more, so nothing is reported any more, and other clients may trace.
    for condition in [["--seid", &seid], ["--port", "ran"], ["--teid", "0x7fffffff"]] {
        let arguments = [&condition[..], &["--count", "1", "--seconds", "1"]].concat();
        let (output, _) = operator.trace(&ue, &arguments);
        assert!(output.status.success(), "{output:?}");
        let reported = String::from_utf8(output.stdout).expect("text");
        assert_eq!(
            reported.contains("-> SENT"),
            condition[0] != "--teid",
            "{reported}"
        );
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
        words.contains("not reported: beyond the rate or the number asked for"),
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
    let mut reader = trace::Reader::new(&octets).expect("a capture");
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
