//! `sluice run` as a child process: its configuration, its log with the time of each line, its API, and its end.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::super::error::BenchError;
use super::links::{DN, GNBS, Links, N3, N6, RAN};

/// What its log says when it is ready.
pub const READY: &str = "\"message\":\"ready\"";
/// What it says when all sessions are restored.
pub const RESTORED: &str = "\"message\":\"sessions restored\"";
/// What it says when the log of the store was read.
const OPENED: &str = "\"message\":\"session store read\"";

/// What a daemon is waited for at most.
const PATIENCE: Duration = Duration::from_secs(120);
const NAP: Duration = Duration::from_millis(1);
/// Lines of a log that results have.
const MOST_LINES: usize = 100;

/// Flow entries for IPv4: as many as there are sessions and directions, the default at least.
#[must_use]
pub fn flows(sessions: u32) -> u32 {
    (sessions * 2).max(65_536)
}

/// What distinguishes the daemons of a run.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// Its ports.
    pub links: Links,
    /// Its address on N4.
    pub n4: Ipv4Addr,
    /// Sessions that there is room for.
    pub sessions: u32,
    /// Seconds between checkpoints, when it has a store.
    pub checkpoint_s: Option<u32>,
}

impl DaemonConfig {
    /// The configuration as text, for a daemon whose files are in `directory`.
    #[must_use]
    pub fn text(&self, directory: &Path) -> String {
        let Self {
            links, n4, sessions, ..
        } = self;
        let (n3, n6) = (links.name("n3"), links.name("n6"));
        let flows = flows(*sessions);
        let store = self.checkpoint_s.map_or(String::new(), |seconds| {
            let store = directory.join("store");
            format!("store: {{directory: {store:?}, checkpoint_s: {seconds}}}\n")
        });
        format!(
            "node: {{id: {n4}}}
n4: {{addresses: [{n4}], heartbeat_s: 3600, release_wait_s: 0, unknown_source_s: 0, unverified_percent: 100}}
gtpu: {{restoration_s: 0}}
limits: {{sessions: {sessions}, flows_ipv4: {flows}}}
ports:
  - {{name: ran, driver: {{af_packet: {{interface: {n3}}}}}}}
  - {{name: dn, driver: {{af_packet: {{interface: {n6}}}}}}}
instances:
  - {{name: access, roles: [n3], port: ran, addresses: [{N3}/24], routes: [{{to: {GNBS}, via: {RAN}}}]}}
  - {{name: internet, roles: [n6], port: dn, addresses: [{N6}/24], routes: [{{to: 0.0.0.0/0, via: {DN}}}]}}
control: {{socket: {:?}}}
log: {{format: json}}
{store}",
            directory.join("control")
        )
    }
}

/// One line of a daemon's log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogLine {
    /// Milliseconds since the kill.
    pub ms: f64,
    /// What it says, without its fields.
    pub message: String,
}

/// Lines of a process's log, with the time when each was read.
type Lines = Arc<Mutex<Vec<(Instant, String)>>>;

/// A daemon that runs. It is killed when it is dropped.
pub struct Daemon {
    directory: PathBuf,
    child: Child,
    lines: Lines,
    /// When the process was started.
    pub started: Instant,
}

impl Daemon {
    /// Starts a daemon with its files in `directory`, which is made.
    ///
    /// # Errors
    /// The file of the configuration cannot be written; the program cannot be executed.
    pub fn start(config: &DaemonConfig, directory: &Path) -> Result<Self, BenchError> {
        let file = directory.join("sluice.yaml");
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&file, config.text(directory)))
            .map_err(|error| BenchError(format!("{}: {error}", directory.display())))?;
        Self::spawn(directory.to_owned())
    }

    fn spawn(directory: PathBuf) -> Result<Self, BenchError> {
        let failed = |error| BenchError(format!("the daemon cannot be started: {error}"));
        let program = env::current_exe().map_err(failed)?;
        let started = Instant::now();
        // It does not outlive this process, however that ends.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args([
                "run".as_ref(),
                "-c".as_ref(),
                directory.join("sluice.yaml").as_os_str(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let lines = Lines::default();
        if let Some(log) = child.stderr.take() {
            let lines = Arc::clone(&lines);
            thread::spawn(move || {
                for line in BufReader::new(log).lines().map_while(Result::ok) {
                    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                    lines.push((Instant::now(), line));
                }
            });
        }
        Ok(Self {
            directory,
            child,
            lines,
            started,
        })
    }

    /// Kills it (SIGKILL) and starts it again at once. When the signal was sent.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn kill_and_start(&mut self) -> Result<Instant, BenchError> {
        let killed = Instant::now();
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map_err(BenchError::of)?;
        *self = Self::spawn(self.directory.clone())?;
        Ok(killed)
    }

    /// The first line of the log that has these words, and when it was read.
    #[must_use]
    pub fn said(&self, words: &str) -> Option<(Instant, String)> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().find(|(_, line)| line.contains(words)).cloned()
    }

    /// What it has said, with the milliseconds since `when`.
    #[must_use]
    pub fn log_since(&self, when: Instant) -> Vec<LogLine> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(said, text): &(Instant, String)| {
            let read: Option<Value> = serde_json::from_str(text).ok();
            let message = read
                .as_ref()
                .and_then(|line| line.pointer("/fields/message")?.as_str());
            LogLine {
                ms: said.saturating_duration_since(when).as_secs_f64() * 1e3,
                message: message.unwrap_or(text).to_owned(),
            }
        };
        lines.iter().take(MOST_LINES).map(line).collect()
    }

    /// Waits for a line of the log with these words.
    ///
    /// # Errors
    /// The daemon ended, or does not say it within two minutes; with the end of its log.
    pub fn wait_for(&mut self, words: &str) -> Result<Instant, BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((when, _)) = self.said(words) {
                return Ok(when);
            }
            let ended = self.child.try_wait().map_err(BenchError::of)?;
            if let Some(status) = ended {
                return Err(self.fault(&format!("ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(self.fault(&format!("has not said {words:?}")));
            }
            thread::sleep(NAP);
        }
    }

    fn fault(&self, what: &str) -> BenchError {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last = lines
            .iter()
            .rev()
            .take(5)
            .rev()
            .map(|(_, line)| format!("\n  {line}"));
        BenchError(format!("the daemon {what}{}", last.collect::<String>()))
    }

    /// Its API begins shortly after it is ready.
    fn connect(&self) -> std::io::Result<UnixStream> {
        let begin = Instant::now();
        loop {
            match UnixStream::connect(self.directory.join("control")) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                        && begin.elapsed() < PATIENCE =>
                {
                    thread::sleep(Duration::from_millis(5));
                }
                done => return done,
            }
        }
    }

    /// A document of its API.
    ///
    /// # Errors
    /// No answer, or one that is no JSON.
    pub fn get(&self, path: &str) -> Result<Value, BenchError> {
        let failed = |error: std::io::Error| BenchError(format!("GET {path}: {error}"));
        let mut stream = self.connect().map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n"
        )
        .map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(failed)?;
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|error| BenchError(format!("GET {path}: {error}: {text:.200}")))
    }

    /// Milliseconds that reading the log of its store took, as it says.
    #[must_use]
    pub fn opening_ms(&self) -> Option<u64> {
        let (_, line) = self.said(OPENED)?;
        let line: Value = serde_json::from_str(&line).ok()?;
        line.get("ms").or_else(|| line.get("fields")?.get("ms"))?.as_u64()
    }

    /// Octets of it that are in memory.
    #[must_use]
    pub fn resident(&self) -> u64 {
        super::super::clock::resident_of(self.child.id())
    }

    /// Nanoseconds of processor time that its first thread, control, has had.
    #[must_use]
    pub fn control_nanos(&self) -> u64 {
        let pid = self.child.id();
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0)
    }

    /// Octets of the files of its store.
    #[must_use]
    pub fn store_octets(&self) -> u64 {
        let entries = fs::read_dir(self.directory.join("store"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| entry.metadata().ok())
            .map(|file| file.len())
            .sum()
    }

    /// Nanoseconds that a sync of 64 KiB takes on the disk of its store: the median of some.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync_nanos(&self) -> Result<u64, BenchError> {
        let path = self.directory.join("probe");
        let mut file = File::create(&path).map_err(BenchError::of)?;
        let mut one = || {
            let begin = Instant::now();
            file.write_all(&[1; 1 << 16])
                .and_then(|()| file.sync_data())
                .map_err(BenchError::of)?;
            Ok(begin.elapsed().as_nanos() as u64)
        };
        let mut times = (0..31).map(|_| one()).collect::<Result<Vec<_>, BenchError>>()?;
        times.sort_unstable();
        let _gone = fs::remove_file(path);
        Ok(times[times.len() / 2])
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _killed = self.child.kill().and_then(|()| self.child.wait());
    }
}
