//! The operator's API and `sluice show` over a real Unix socket, with the one-thread world behind it.

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use session::Seid;
use sim::smf::State;
use sluice::daemon::rest::{Access, ClientError, Desk, RestSocket, Service, desk};
use sluice::daemon::{Published, get};
use sluice::upf::SessionQuery;

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
        let service = Service::new(inquiry, published.collect());
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
