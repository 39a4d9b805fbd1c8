//! The Unix socket of the API, and the thread that serves it.
//!
//! Who may connect is the file system's matter: the daemon's own user, and a group where one is configured. Beyond that
//! everything is bounded: connections ([`Connections`]), the time that a request may take to arrive, and that which a
//! peer may take to read a part of the answer.

use std::convert::Infallible;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixStream as Stream;
use tokio::sync::oneshot;

use super::connections::{Bounds, Connections, Place};
use super::ending::{EndWatch, Ending};
use super::impatient::Impatient;
use super::request_body::RequestBody;
use super::routes::router;
use super::screening::{self, Listener};
use super::service::Service;
use super::{Caller, PeerAddress, Role};

/// How long a request may take to arrive, and a connection to ask for something.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets of a request's head, at most.
const LONGEST_HEAD: usize = 16 << 10;
/// How long a peer may take to read a part of an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// Connections of users.
const BOUNDS: Bounds = Bounds {
    waiting: 64,
    waiting_of_one: 64,
    arrived: 256,
    arrived_of_one: 128,
};

/// Who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The daemon's own user (mode 0600).
    Owner,
    /// Its members, too (mode 0660): the number of the group, and what they may do.
    Group(u32, Role),
}

impl Access {
    /// The group of this name, whose members have this role.
    ///
    /// # Errors
    /// When there is none, or the system does not report it.
    pub fn group(name: &str, role: Role) -> io::Result<Self> {
        let found = nix::unistd::Group::from_name(name).map_err(io::Error::from)?;
        let group = found
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group `{name}`")))?;
        Ok(Self::Group(group.gid.as_raw(), role))
    }

    /// What a user may do who could connect: the daemon's own and root everything, members of the group what they are
    /// allowed.
    fn role(self, user: u32) -> Role {
        match self {
            Self::Group(_, role) if user != 0 && user != nix::unistd::geteuid().as_raw() => role,
            _ => Role::Admin,
        }
    }

    /// Gives a file of ours to whom it is for: with the mode `alone` to our own user, with `shared` to the group, too.
    fn grant(self, path: &Path, alone: u32, shared: u32) -> io::Result<()> {
        let mode = match self {
            Self::Owner => alone,
            Self::Group(group, _) => {
                chown(path, None, Some(group))?;
                shared
            }
        };
        fs::set_permissions(path, Permissions::from_mode(mode))
    }
}

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
pub struct RestSocket {
    path: PathBuf,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl RestSocket {
    /// Serves `service` at `path`. A socket that no process serves any more is replaced.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AddrInUse`] when another process serves it.
    pub fn open(path: &Path, access: Access, service: Service) -> io::Result<Self> {
        Self::open_router(path, access, router(service))
    }

    /// The same with routes of their own.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_router(path: &Path, access: Access, router: Router) -> io::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process serves it",
            ));
        }
        let listener = bind(path, access)?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let body = move || runtime.block_on(serve(listener, access, router, stopped));
        let thread = thread::Builder::new().name("rest".into()).spawn(body)?;
        Ok(Self {
            path: path.to_owned(),
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for RestSocket {
    fn drop(&mut self) {
        // The thread ends when its end of the channel sees this one gone.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// A listener at `path` that no other user can connect to at any moment: it is made in a directory of our own.
fn bind(path: &Path, access: Access) -> io::Result<UnixListener> {
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut private = DirBuilder::new();
    private.mode(0o700);
    if !parent.as_os_str().is_empty() && !parent.exists() {
        private.recursive(true).create(parent)?;
        private.recursive(false);
        access.grant(parent, 0o700, 0o750)?;
    }
    let nursery = parent.join(format!(".sluice-{}", std::process::id()));
    private.create(&nursery)?;
    let made = nursery.join("s");
    let listener = UnixListener::bind(&made).and_then(|listener| {
        access.grant(&made, 0o600, 0o660)?;
        fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&nursery);
    listener
}

async fn serve(
    listener: UnixListener,
    access: Access,
    router: Router,
    mut stopped: oneshot::Receiver<Infallible>,
) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else {
        return;
    };
    let connections = Connections::new(BOUNDS);
    let ending = Ending::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, perhaps: not to be asked again at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let user = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        let place = connections.enter(user);
        let number = place.number();
        let caller = Caller {
            name: format!("uid:{user}").into(),
            role: access.role(user),
            address: PeerAddress::Unix,
        };
        let end = ending.watch();
        let served = tokio::spawn(serve_one(stream, place, caller, router.clone(), end));
        connections.ends_by(number, served.abort_handle());
        // It is looked whether its request has come, before others come.
        tokio::task::yield_now().await;
    }
    drop(listener);
    ending.end().await;
}

/// Serves the one request of a connection.
async fn serve_one(stream: Stream, place: Place<u32>, caller: Caller, router: Router, end: EndWatch) {
    let place = Arc::new(place);
    let of_answers = end.clone();
    let service = TowerToHyperService::new(router);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        let (place, service, end) = (Arc::clone(&place), service.clone(), of_answers.clone());
        async move {
            let refused = screening::check(Listener::Unix, &request);
            if let Err(problem) = refused {
                return Ok::<_, Infallible>(screening::last(problem.into_response()));
            }
            if place.arrived().is_err() {
                return Ok(screening::too_many());
            }
            // The turn ends when the answer is made, not when it is read.
            let (request, _turn) = RequestBody::in_turn(request, place.turns()).await;
            let Ok(response) = service.call(request).await;
            Ok(end.bound(response))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(Impatient::new(stream, WRITE_PATIENCE)), answer);
    end.serve(connection).await;
}
