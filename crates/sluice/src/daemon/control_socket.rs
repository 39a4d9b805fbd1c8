//! The daemon's control socket: a Unix socket that answers `sluice show`.
//!
//! A thread of its own serves it, one connection after the other, from what the workers publish anyway: neither the
//! control thread nor a worker ever waits for a reader. A request is one line of at most 128 octets, and a peer has
//! a second for each step. Only the user who runs the daemon may connect (mode 0600).

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::threads::Published;
use crate::view;

/// The longest request, with its line end.
const LONGEST: usize = 128;
/// How long a peer may take to send its request, or to take its answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where the socket is unless the configuration says otherwise: `/run/sluice` for root, else the user's own runtime
/// directory. `None` for a user without one.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let directory = if is_root {
        Some(PathBuf::from("/run"))
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    directory.map(|directory| directory.join("sluice").join("control.sock"))
}

/// The open socket, until it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Serves what `workers` publish at `path`. A socket that nobody serves any more is replaced.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AddrInUse`] when another process serves it.
    pub fn open(path: &Path, workers: Vec<Published>) -> io::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process serves it",
            ));
        }
        let listener = bind(path)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || serve(&listener, &workers, &stopped);
        let thread = thread::Builder::new()
            .name("control-socket".into())
            .spawn(serve)?;
        Ok(Self {
            path: path.to_owned(),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread. If that fails, it ends with the process.
        if UnixStream::connect(&self.path).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// A listener at `path` that nobody else could connect to at any moment: it is made in a directory of our own.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut private = DirBuilder::new();
    private.mode(0o700);
    if !parent.as_os_str().is_empty() && !parent.exists() {
        private.recursive(true).create(parent)?;
        private.recursive(false);
    }
    let nursery = parent.join(format!(".sluice-{}", std::process::id()));
    private.create(&nursery)?;
    let made = nursery.join("s");
    let listener = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&nursery);
    listener
}

fn serve(listener: &UnixListener, workers: &[Published], stop: &AtomicBool) {
    for connection in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match connection {
            // A peer that goes away is its own affair.
            Ok(mut stream) => drop(answer(&mut stream, workers)),
            // Out of descriptors, perhaps: not to be asked again at once.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn answer(stream: &mut UnixStream, workers: &[Published]) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_line(stream)?;
    let stats = || workers.iter().map(Published::read).collect::<Vec<_>>();
    let text = match request.as_deref() {
        Some("show runtime") => view::runtime(&stats()),
        Some("show runtime json") => format!("{}\n", view::runtime_json(&stats())),
        _ => "error: unknown request\n".into(),
    };
    stream.write_all(text.as_bytes())
}

/// A line without its end; `None` when it is too long, not text, or never ends.
fn read_line(stream: &mut UnixStream) -> io::Result<Option<String>> {
    let mut line = [0; LONGEST];
    let mut length = 0;
    // Each read has a second; so many of them at most.
    for _ in 0..8 {
        let got = stream.read(&mut line[length..])?;
        length += got;
        if let Some(end) = line[..length].iter().position(|&octet| octet == b'\n') {
            return Ok(String::from_utf8(line[..end].to_vec()).ok());
        }
        if got == 0 || length == LONGEST {
            break;
        }
    }
    Ok(None)
}

/// Asks the daemon behind `path`; its answer.
///
/// # Errors
/// When nobody is there, or answers.
pub fn ask(path: &Path, request: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE * 4))?;
    stream.write_all(request.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut text = String::new();
    stream.take(16 << 20).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use worker::{Stage, Stats};

    fn path(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("sluice-{}-{name}", std::process::id()));
        directory.join("control.sock")
    }

    fn published() -> Vec<Published> {
        let mut stats = Stats::new(2);
        let lookup = &mut stats.stages[Stage::Lookup as usize];
        (lookup.calls, lookup.packets, lookup.ticks) = (2, 100, 5_000);
        vec![Published::new(&stats)]
    }

    #[test]
    fn it_answers_what_is_asked_and_goes_when_it_is_dropped() {
        let path = path("answers");
        let socket = ControlSocket::open(&path, published()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = ask(&path, "show runtime").unwrap();
        assert!(text.contains("lookup") && text.contains("50.0"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&ask(&path, "show runtime json").unwrap()).unwrap();
        assert_eq!(json["workers"][0]["stages"][3]["cycles_per_packet"], 50.0);
        assert_eq!(ask(&path, "drop table").unwrap(), "error: unknown request\n");
        // What is too long is not read to its end, which resets the connection.
        let too_long = ask(&path, &"x".repeat(1_000)).unwrap_or_default();
        assert!(!too_long.contains("worker"), "{too_long}");
        assert!(ask(&path, "show runtime").is_ok());
        assert_eq!(
            ControlSocket::open(&path, Vec::new()).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(socket);
        assert!(!path.exists());
        let _ = fs::remove_dir(path.parent().unwrap());
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let path = path("left");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let socket = ControlSocket::open(&path, published()).unwrap();
        assert!(ask(&path, "show runtime").is_ok());
        drop(socket);
        let _ = fs::remove_dir(path.parent().unwrap());
    }
}
