//! What the daemon, or an accelerator, says to the service manager that started it: systemd, or another that has a
//! notify socket (sd_notify(3)). The control thread owns it, or the accelerator's main thread.
//!
//! The socket never blocks: control does not wait for the service manager. A state that it does not take is offered
//! again, a sign of life is simply followed by the next. Without the environment of a service nothing is said.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use flow::Nanos;
use tracing::warn;

/// How often the status is brought up to date.
const STATUS_EVERY: Duration = Duration::from_secs(2);
/// Signs of life in the time that the service manager allows.
const SIGNS: u32 = 4;

/// The service manager.
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
    status_due: Nanos,
    status: String,
    /// What it has not taken.
    unsent: Option<&'static str>,
}

impl ServiceManager {
    /// The one that this process's environment names.
    pub fn of_environment() -> Self {
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let allowed = number("WATCHDOG_USEC").filter(|usec| *usec > 0 && is_ours);
        Self::new(env::var_os("NOTIFY_SOCKET"), allowed.map(Duration::from_micros))
    }

    /// The one that receives at `socket`, a path, or a name after `@`; `allowed` is the longest time without a sign of
    /// life, if it wants any.
    fn new(socket: Option<OsString>, allowed: Option<Duration>) -> Self {
        let socket = socket.and_then(|name| {
            connect(&name)
                .inspect_err(
                    |error| warn!(socket = %name.display(), why = %error, "notify socket not reached"),
                )
                .ok()
        });
        Self {
            watchdog: allowed.filter(|_| socket.is_some()).map(Watchdog::new),
            socket,
            status_due: Nanos::ZERO,
            status: String::new(),
            unsent: None,
        }
    }

    /// The daemon serves.
    pub fn ready(&mut self) {
        self.state("READY=1\n");
    }

    /// The process ends, in order, and has nothing to release.
    #[cfg_attr(
        not(feature = "accelerator"),
        expect(dead_code, reason = "an accelerator alone has nothing to release")
    )]
    pub fn ending(&mut self) {
        self.state("STOPPING=1\n");
    }

    /// The daemon ends, in order.
    pub fn stopping(&mut self) {
        self.state("STOPPING=1\nSTATUS=associations being released\n");
    }

    /// After each turn of the loop that owns it: a sign of life if all workers have made progress since the last, by
    /// their counts of `progress`, and what `status` says from time to time.
    pub fn turn(&mut self, now: Nanos, progress: impl Iterator<Item = u64>, status: impl FnOnce() -> String) {
        if self.socket.is_none() {
            return;
        }
        if let Some(state) = self.unsent {
            self.state(state);
        }
        if self
            .watchdog
            .as_mut()
            .is_some_and(|watchdog| watchdog.is_alive(now, progress))
        {
            self.send("WATCHDOG=1\n");
        }
        if now >= self.status_due {
            self.status_due = now + STATUS_EVERY;
            let status = format!("STATUS={}\n", status());
            if status != self.status && self.send(&status) {
                self.status = status;
            }
        }
    }

    fn state(&mut self, state: &'static str) {
        self.unsent = (!self.send(state)).then_some(state);
    }

    /// Whether there is none, or it has taken `words`.
    fn send(&self, words: &str) -> bool {
        let send = |socket: &UnixDatagram| socket.send(words.as_bytes()).is_ok();
        self.socket.as_ref().is_none_or(send)
    }
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// When there is a sign of life.
struct Watchdog {
    every: Duration,
    due: Nanos,
    /// By worker, the count of its progress at the last sign of life.
    seen: Vec<u64>,
}

impl Watchdog {
    fn new(allowed: Duration) -> Self {
        Self {
            every: allowed / SIGNS,
            due: Nanos::ZERO,
            seen: Vec::new(),
        }
    }

    fn is_alive(&mut self, now: Nanos, progress: impl Iterator<Item = u64>) -> bool {
        if now < self.due {
            return false;
        }
        let progress: Vec<u64> = progress.collect();
        let mut pairs = progress.iter().zip(&self.seen);
        if pairs.any(|(count, seen)| count == seen) {
            // Not before a worker could have made some.
            self.due = now + self.every / SIGNS;
            return false;
        }
        self.seen = progress;
        self.due = now + self.every;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service manager's socket, and a daemon's end of it.
    fn pair(name: &str, allowed: Option<Duration>) -> (UnixDatagram, ServiceManager) {
        let name = format!("sluice-notify-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let stub = UnixDatagram::bind_addr(&address).unwrap();
        stub.set_nonblocking(true).unwrap();
        (
            stub,
            ServiceManager::new(Some(format!("@{name}").into()), allowed),
        )
    }

    fn received(stub: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 512];
        std::iter::from_fn(|| {
            stub.recv(&mut buffer)
                .ok()
                .map(|octets| buffer[..octets].to_vec())
        })
        .map(|message| String::from_utf8(message).unwrap())
        .collect()
    }

    #[test]
    fn a_service_manager_sees_the_start_the_status_and_the_end() {
        let (stub, mut manager) = pair("states", None);
        manager.ready();
        manager.turn(Nanos::from_secs(10), [1].into_iter(), || "2 sessions".into());
        manager.turn(Nanos::from_secs(11), [1].into_iter(), || unreachable!());
        // The same again is not said.
        manager.turn(Nanos::from_secs(13), [1].into_iter(), || "2 sessions".into());
        manager.turn(Nanos::from_secs(16), [1].into_iter(), || "3 sessions".into());
        manager.stopping();
        let expected = [
            "READY=1\n",
            "STATUS=2 sessions\n",
            "STATUS=3 sessions\n",
            "STOPPING=1\nSTATUS=associations being released\n",
        ];
        assert_eq!(received(&stub), expected);
    }

    #[test]
    fn signs_of_life_stop_with_a_worker() {
        let (stub, mut manager) = pair("watchdog", Some(Duration::from_secs(8)));
        let mut signs = |tenths: std::ops::Range<u64>, second_worker: &dyn Fn(u64) -> u64| {
            for tenth in tenths {
                let now = Nanos(tenth * 100_000_000);
                manager.turn(now, [tenth, second_worker(tenth)].into_iter(), String::new);
            }
            let said = received(&stub);
            said.iter().filter(|message| *message == "WATCHDOG=1\n").count()
        };
        // Every two seconds.
        assert_eq!(signs(100..200, &|tenth| tenth), 5);
        assert_eq!(signs(200..300, &|_| 199), 1, "the progress until then");
        assert_eq!(signs(300..400, &|_| 199), 0);
        // It is back: a sign at once, within a sixteenth of what is allowed.
        assert_eq!(signs(400..406, &|tenth| tenth), 1);
    }

    #[test]
    fn a_service_manager_that_does_not_read_blocks_nothing_and_misses_no_state() {
        let (stub, mut manager) = pair("full", Some(Duration::from_secs(1)));
        let mut tenth = 0_u64;
        let mut turns = |manager: &mut ServiceManager, times| {
            for _ in 0..times {
                tenth += 1;
                manager.turn(Nanos(tenth * 300_000_000), [tenth].into_iter(), || {
                    tenth.to_string()
                });
            }
        };
        turns(&mut manager, 10_000);
        manager.stopping();
        assert!(
            received(&stub)
                .iter()
                .all(|message| !message.starts_with("STOPPING"))
        );
        turns(&mut manager, 1);
        assert!(
            received(&stub)
                .iter()
                .any(|message| message.starts_with("STOPPING=1\n"))
        );
    }

    #[test]
    fn without_a_service_manager_nothing_is_said() {
        let mut manager = ServiceManager::new(None, Some(Duration::from_secs(1)));
        manager.ready();
        manager.turn(Nanos::from_secs(1), [1].into_iter(), || unreachable!());
        // A socket that is not there.
        let mut manager = ServiceManager::new(Some("/nonexistent/notify".into()), None);
        manager.ready();
        manager.turn(Nanos::from_secs(1), [1].into_iter(), || unreachable!());
    }
}
