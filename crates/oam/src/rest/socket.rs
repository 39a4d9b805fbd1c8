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
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream as Stream;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::connections::{Connections, Place};
use super::routes::router;
use super::service::Service;
use super::{Caller, PeerAddress, Role};
use crate::values::Problem;

/// How long a request may take to arrive, and a connection to ask for something.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets of a request's head, at most.
const LONGEST_HEAD: usize = 16 << 10;
/// How long a peer may take to read a part of an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// Who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The daemon's own user (mode 0600).
    Owner,
    /// Its members, too (mode 0660): the number of the group.
    Group(u32),
}

impl Access {
    /// The group of this name.
    ///
    /// # Errors
    /// When there is none, or the system does not report it.
    pub fn group(name: &str) -> io::Result<Self> {
        let found = nix::unistd::Group::from_name(name).map_err(io::Error::from)?;
        let group = found
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no group `{name}`")))?;
        Ok(Self::Group(group.gid.as_raw()))
    }

    /// Gives a file of ours to whom it is for: with the mode `alone` to our own user, with `shared` to the group, too.
    fn grant(self, path: &Path, alone: u32, shared: u32) -> io::Result<()> {
        let mode = match self {
            Self::Owner => alone,
            Self::Group(group) => {
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

/// A stream that fails if it takes nothing for too long: its peer does not read, and holds a place meanwhile.
struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// When a write that waits has waited too long.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            until: None,
        }
    }

    /// Passes on how a write went, unless it has waited too long.
    fn bounded<T>(&mut self, done: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.until = None;
            return done;
        }
        let patience = self.patience;
        let until = self
            .until
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(done, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(done, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(done, context)
    }
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
        let body = move || runtime.block_on(serve(listener, router(service), stopped));
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

async fn serve(listener: UnixListener, router: Router, mut stopped: oneshot::Receiver<Infallible>) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else {
        return;
    };
    let connections = Connections::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut stopped => return,
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
        // Who may connect may do everything.
        let caller = Caller {
            name: format!("uid:{user}").into(),
            role: Role::Admin,
            address: PeerAddress::Unix,
        };
        let served = tokio::spawn(serve_one(stream, place, caller, router.clone()));
        connections.ends_by(number, served.abort_handle());
        // It is looked whether its request has come, before others come.
        tokio::task::yield_now().await;
    }
}

/// Serves the one request of a connection.
async fn serve_one(stream: Stream, place: Place, caller: Caller, router: Router) {
    let place = Arc::new(place);
    let service = TowerToHyperService::new(router);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        let (place, service) = (Arc::clone(&place), service.clone());
        async move {
            match place.arrived().await {
                // The turn ends when the answer is made, not when it is read.
                Ok(_turn) => service.call(request).await,
                Err(_) => Ok(too_many()),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(Impatient::new(stream, WRITE_PATIENCE)), answer);
    // A peer that goes away is its own affair.
    let _ = connection.await;
}

fn too_many() -> Response<Body> {
    let words = "too many requests wait for their answers; ask again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, words).into_response()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use tokio::net::UnixStream;

    use super::{AsyncWrite, Duration, Impatient, Pin, io};

    async fn write_all(stream: &mut Impatient<UnixStream>, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    async fn count_all(stream: UnixStream) -> usize {
        let (mut count, mut buffer) = (0, [0; 4096]);
        loop {
            stream.readable().await.expect("it can be read");
            match stream.try_read(&mut buffer) {
                Ok(0) => return count,
                Ok(octets) => count += octets,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    fn run<F: Future>(body: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(body)
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up() {
        run(async {
            let (ours, _theirs) = UnixStream::pair().expect("a pair");
            let mut ours = Impatient::new(ours, Duration::from_millis(20));
            let answer = vec![0; 16 << 20];
            let error = write_all(&mut ours, &answer).await.expect_err("not read");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_peer_that_reads_gets_all_of_it() {
        run(async {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let mut ours = Impatient::new(ours, Duration::from_secs(600));
            let reader = tokio::spawn(count_all(theirs));
            write_all(&mut ours, &vec![7; 4 << 20])
                .await
                .expect("it is written");
            drop(ours);
            assert_eq!(reader.await.expect("it ends"), 4 << 20);
        });
    }
}
