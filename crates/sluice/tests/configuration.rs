//! `sluice config` against a daemon on memory ports: what it says, and what is in effect and on disk then.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A daemon with a directory of its own, which ends with the test.
struct Daemon {
    directory: PathBuf,
    process: Child,
}

impl Daemon {
    /// With N4 on this port of 127.0.0.8.
    fn start(name: &str, port: u16) -> Self {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("config-{name}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        let socket = directory.join("control.sock");
        let text = format!(
            "# as it was installed\n\
             node: {{id: 127.0.0.8}}\n\
             n4: {{addresses: [127.0.0.8], port: {port}, release_wait_s: 0}}\n\
             control: {{socket: {}}}\n\
             ports: [{{name: ran, driver: {{memory: {{}}}}}}]\n\
             instances: [{{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}]\n",
            socket.display()
        );
        fs::write(directory.join("sluice.yaml"), text).expect("a file");
        let process = run(&directory);
        let daemon = Self { directory, process };
        daemon.wait();
        daemon
    }

    fn path(&self, name: &str) -> String {
        self.directory
            .join(name)
            .to_str()
            .expect("a path in UTF-8")
            .to_owned()
    }

    fn file(&self) -> String {
        fs::read_to_string(self.path("sluice.yaml")).expect("a file")
    }

    /// A candidate: the file with more lines.
    fn candidate(&self, more: &str) -> String {
        let path = self.path("candidate.yaml");
        fs::write(&path, self.file() + more).expect("a file");
        path
    }

    fn wait(&self) {
        let asked = |_: &u32| {
            sleep(Duration::from_millis(100));
            self.config(&["versions"]).status.success()
        };
        assert!((0..300).any(|turn| asked(&turn)), "no daemon answers");
    }

    fn config(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sluice"))
            .arg("config")
            .args(arguments)
            .args(["--socket", &self.path("control.sock")])
            .output()
            .expect("the program starts")
    }

    /// What is said where it succeeds.
    #[track_caller]
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.config(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// What is said where it fails, and the status.
    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.config(arguments);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    fn level(&self) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["log", "--socket", &self.path("control.sock")])
            .output()
            .expect("the program starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Kills the process as the kernel does when memory is short, and starts another.
    fn killed_and_started(&mut self) {
        self.process.kill().expect("a process");
        self.process.wait().expect("a status");
        self.process = run(&self.directory);
        self.wait();
    }
}

fn run(directory: &Path) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(directory.join("log"))
        .expect("a file");
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["run", "-c"])
        .arg(directory.join("sluice.yaml"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the program starts")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_commit_is_shown_compared_and_rolled_back() {
    let daemon = Daemon::start("commit", 18_811);
    let first = daemon.file();
    let shown = daemon.said(&["show"]);
    assert!(
        shown.starts_with("# version 1 of ") && shown.ends_with(&first),
        "{shown}"
    );
    assert!(!Path::new(&daemon.path("sluice.yaml.versions")).exists());

    let candidate = daemon.candidate("log: {level: debug}\n");
    let checked = daemon.said(&["check", &candidate]);
    assert_eq!(
        checked,
        "good; 1 changes, all of which take effect at once\n~ log.level: info -> debug (live)\n"
    );
    assert_eq!(
        daemon.said(&["diff", &candidate]),
        "~ log.level: info -> debug (live)\n"
    );
    assert_eq!(daemon.level(), "log level info");

    let committed = daemon.said(&["commit", &candidate, "--comment", "more words & 100 %"]);
    assert!(
        committed.contains("more words & 100 %: in effect, and in the file\n~ log.level"),
        "{committed}"
    );
    assert_eq!(
        (daemon.level(), daemon.file()),
        ("log level debug".into(), first.clone() + "log: {level: debug}\n")
    );
    let (status, words) = daemon.refused(&["commit", &candidate]);
    assert!(
        status == Some(1) && words.contains("there is nothing to commit"),
        "{words}"
    );

    let versions = daemon.said(&["versions"]);
    let lines: Vec<&str> = versions.lines().collect();
    assert!(
        lines.len() == 2
            && lines[0].starts_with("* version 2 of ")
            && lines[1].starts_with("  version 1 of ")
    );
    assert_eq!(daemon.said(&["show", "--version", "1"]), first);
    assert_eq!(
        daemon.said(&["diff", "--version", "1"]),
        "~ log.level: debug -> info (live)\n"
    );

    let back = daemon.said(&["rollback"]);
    assert!(
        back.contains("rollback to 1: in effect, and in the file"),
        "{back}"
    );
    assert_eq!((daemon.level(), daemon.file()), ("log level info".into(), first));
    let (_, words) = daemon.refused(&["rollback", "9"]);
    assert!(words.contains("there is no version 9"), "{words}");
}

#[test]
fn what_is_not_confirmed_does_not_stay() {
    let mut daemon = Daemon::start("confirm", 18_812);
    let first = daemon.file();
    let candidate = daemon.candidate("log: {level: debug}\n");
    let said = daemon.said(&["commit", &candidate, "--confirm-within", "1"]);
    assert!(
        said.contains("rolled back in 1 s unless it is confirmed"),
        "{said}"
    );
    let is_back = |_| {
        sleep(Duration::from_millis(100));
        daemon.level() == "log level info"
    };
    assert!((0..300).any(is_back), "it is not rolled back");
    assert!(
        daemon
            .said(&["show"])
            .contains("# rolled back, it was not confirmed in time: version 2 of ")
    );
    let (_, words) = daemon.refused(&["confirm"]);
    assert!(words.contains("no version waits to be confirmed"), "{words}");

    daemon.said(&["commit", &candidate, "--confirm-within", "3600"]);
    assert_eq!(
        (daemon.level(), daemon.file()),
        ("log level debug".into(), first.clone())
    );
    assert!(
        daemon
            .said(&["show"])
            .contains("# not confirmed: it is rolled back in 3")
    );
    let (_, words) = daemon.refused(&["commit", &candidate]);
    assert!(
        words.contains("version 3 is in effect and waits to be confirmed"),
        "{words}"
    );
    daemon.killed_and_started();
    assert_eq!(
        (daemon.level(), daemon.file()),
        ("log level info".into(), first.clone())
    );
    let shown = daemon.said(&["show"]);
    assert!(
        shown.contains("# rolled back, the process ended before it was confirmed: version 3 of "),
        "{shown}"
    );

    daemon.said(&["commit", &candidate, "--confirm-within", "3600"]);
    let kept = daemon.said(&["confirm"]);
    assert!(kept.contains("in effect, and in the file"), "{kept}");
    daemon.killed_and_started();
    assert_eq!(
        (daemon.level(), daemon.file()),
        ("log level debug".into(), first + "log: {level: debug}\n")
    );
    assert!(daemon.said(&["versions"]).starts_with("* version 4 of "));
}

#[test]
fn what_needs_a_start_is_named_and_can_be_stored_for_it() {
    let mut daemon = Daemon::start("restart", 18_813);
    let first = daemon.file();
    let candidate = daemon.candidate("log: {level: debug}\nlimits: {sessions: 50}\n");
    let (status, words) = daemon.refused(&["commit", &candidate]);
    assert_eq!(status, Some(1));
    assert!(
        words.contains("~ limits.sessions: 10000 -> 50 (restart)"),
        "{words}"
    );
    assert!(!words.contains("log.level"), "{words}");
    assert_eq!((daemon.level(), daemon.file()), ("log level info".into(), first));
    let stored = daemon.said(&["commit", &candidate, "--at-restart"]);
    assert!(
        stored.contains("in the file, for the next start; nothing has changed now"),
        "{stored}"
    );
    assert_eq!(daemon.level(), "log level info");
    assert!(
        daemon
            .said(&["show"])
            .contains("# at the next start: version 2 of ")
    );
    daemon.killed_and_started();
    assert_eq!(daemon.level(), "log level debug");
    assert!(daemon.said(&["show"]).contains("limits: {sessions: 50}"));
}

#[test]
fn a_mistake_has_its_place_and_the_edited_file_is_not_replaced_unseen() {
    let daemon = Daemon::start("edited", 18_814);
    let candidate = daemon.candidate("log: {level: loud}\n");
    let (status, words) = daemon.refused(&["commit", &candidate]);
    assert_eq!(status, Some(2));
    assert!(
        words.contains("candidate.yaml") && words.contains("line 7"),
        "{words}"
    );

    let candidate = daemon.candidate("log: {level: debug}\n");
    let edited = daemon.file() + "log: {level: warn}\n";
    fs::write(daemon.path("sluice.yaml"), &edited).expect("a file");
    assert!(
        daemon
            .said(&["show"])
            .contains("has been edited since it was read")
    );
    let (status, words) = daemon.refused(&["commit", &candidate]);
    assert!(
        status == Some(1) && words.contains("has been edited since the daemon read it"),
        "{words}"
    );
    assert_eq!(
        (daemon.level(), daemon.file()),
        ("log level info".into(), edited.clone())
    );
    // The edited file itself is what a person commits.
    daemon.said(&["commit", &daemon.path("sluice.yaml")]);
    assert_eq!((daemon.level(), daemon.file()), ("log level warn".into(), edited));
    fs::write(daemon.path("sluice.yaml"), "lost: true\n").expect("a file");
    daemon.said(&["commit", &candidate, "--overwrite"]);
    assert_eq!(daemon.level(), "log level debug");
    let kept = daemon.path("sluice.yaml.versions/edited.yaml");
    assert_eq!(fs::read_to_string(kept).expect("a file"), "lost: true\n");
}

#[test]
fn the_schema_is_printed_without_a_daemon() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["config", "schema"])
        .output()
        .expect("the program starts");
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        schema["properties"]["log"]["properties"]["level"]["x-sluice-change"],
        "live"
    );
}
