//! The API for other hosts: HTTP/1.1 over TLS 1.3, and nothing without it.
//!
//! A thread of its own serves it, so that handshakes of unknown sources take no time from the Unix socket. What these
//! can cost is bounded: connections and requests a second of its address ([`AddressLimits`]), connections at a time
//! ([`Connections`]), the time of a handshake, of a request's head and body, and of reading an answer.

mod address_limits;
mod authentication;
mod certificates;
mod subject_names;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use config::HttpsConfig;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use self::address_limits::{AddressGroup, AddressLimits};
use self::authentication::{Authentication, Credentials};
pub use self::certificates::{CertificateError, CertificateSummary, Certificates};
use super::connections::{Bounds, Connections, Place};
use super::ending::{EndWatch, Ending};
use super::impatient::Impatient;
use super::request_body::RequestBody;
use super::routes::router;
use super::screening::{self, Listener};
use super::service::Service;
use super::{Auditor, Caller, PeerAddress};
use crate::tokens::{TokenHash, TokenStore};
use crate::values::Problem;

/// How long a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a request's head may take to arrive, and a connection to ask for something.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// How long a peer may take to read a part of an answer.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Octets of a request's head, at most, and headers.
const LONGEST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// How long the answer to wrong credentials takes.
const WRONG_PAUSE: Duration = Duration::from_millis(250);
/// How often it is looked whether the credentials of a connection are still good.
const CREDENTIALS_LOOK: Duration = Duration::from_secs(2);
/// How often it is looked whether certificate or key have changed.
const FILES_LOOK: Duration = Duration::from_secs(1);

/// Who the callers are, and what they are served.
pub struct HttpsSources {
    /// The tokens that are taken.
    pub tokens: Option<Arc<TokenStore>>,
    /// Where answers come from.
    pub service: Service,
    /// Set to have certificate and key read again although their files look the same.
    pub reload: Arc<AtomicBool>,
}

/// The open listener, until it is dropped.
#[derive(Debug)]
pub struct HttpsListener {
    addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections have.
struct Shared {
    router: Router,
    authentication: Authentication,
    certificates: Certificates,
    connections: Connections<AddressGroup>,
    limits: AddressLimits,
    tokens: Option<Arc<TokenStore>>,
    auditor: Option<Auditor>,
    reload: Arc<AtomicBool>,
    ending: Ending,
}

impl HttpsListener {
    /// Serves on all addresses of `config`.
    ///
    /// # Errors
    /// The system's, with the address; [`io::ErrorKind::InvalidInput`] for certificates and keys that cannot be used.
    pub fn open(config: &HttpsConfig, sources: HttpsSources) -> io::Result<Self> {
        let certificates = Certificates::load(config)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let listeners = config.addresses.iter().map(|address| bind(*address));
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr);
        let addresses = addresses.collect::<io::Result<Vec<_>>>()?;
        let HttpsSources {
            tokens,
            service,
            reload,
        } = sources;
        let (all, of_one) = (config.connections.size(), config.connections_per_address.size());
        let bounds = Bounds {
            waiting: all / 2,
            waiting_of_one: of_one.min(all / 2),
            arrived: all - all / 2,
            arrived_of_one: of_one.min(all / 2),
        };
        let auditor = service.auditor.clone();
        let shared = Arc::new(Shared {
            router: router(service),
            authentication: Authentication::new(tokens.clone(), &config.clients),
            certificates,
            connections: Connections::new(bounds),
            limits: AddressLimits::new(config.requests_per_address_s.value()),
            tokens,
            auditor,
            reload,
            ending: Ending::new(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let body = move || runtime.block_on(serve(listeners, shared, stopped));
        let thread = thread::Builder::new().name("https".into()).spawn(body)?;
        Ok(Self {
            addresses,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for HttpsListener {
    fn drop(&mut self) {
        // The thread ends when its end of the channel sees this one gone.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the other end of `stopped` is gone. With the runtime all connections end that are left then.
async fn serve(listeners: Vec<TcpListener>, shared: Arc<Shared>, stopped: oneshot::Receiver<Infallible>) {
    for listener in listeners {
        if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
            tokio::spawn(accept(listener, Arc::clone(&shared)));
        }
    }
    tokio::spawn(look_after(Arc::clone(&shared)));
    let _ = stopped.await;
    shared.ending.end().await;
}

async fn accept(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of descriptors, perhaps: not to be asked again at once.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let group = AddressGroup::of(peer.ip());
        if !shared.limits.takes_connection(group, Instant::now()) {
            continue;
        }
        let place = shared.connections.enter(group);
        let number = place.number();
        let end = shared.ending.watch();
        let served = tokio::spawn(serve_one(stream, peer, place, Arc::clone(&shared), end));
        shared.connections.ends_by(number, served.abort_handle());
        // It is looked whether its request has come, before others come.
        tokio::task::yield_now().await;
    }
}

/// Reads certificate and key again when they change, and stores when tokens were used.
async fn look_after(shared: Arc<Shared>) {
    let mut ticks = interval(FILES_LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let shared = Arc::clone(&shared);
        // Files may wait for their disk.
        let _ = tokio::task::spawn_blocking(move || {
            let is_forced = shared.reload.swap(false, Ordering::Relaxed);
            match shared.certificates.follow(is_forced) {
                None => {}
                Some(Ok(summary)) => info!("API certificate read again: {summary}"),
                Some(Err(why)) => warn!(%why, "API certificate not taken; the one before stays"),
            }
            if let Some(Err(why)) = shared
                .tokens
                .as_ref()
                .map(|tokens| tokens.store_uses(SystemTime::now()))
            {
                warn!(%why, "times of last use of tokens not stored");
            }
            if let Some(auditor) = &shared.auditor {
                auditor.write_refused();
            }
        })
        .await;
    }
}

/// A connection whose handshake is done.
struct Peer {
    address: SocketAddr,
    group: AddressGroup,
    place: Place<AddressGroup>,
    /// Who it is by its certificate.
    certified: Option<Caller>,
    /// That, with those behind it; empty where the configuration does not have its names.
    shown: Vec<CertificateDer<'static>>,
    /// The token of its last request.
    token: Mutex<Option<TokenHash>>,
}

async fn serve_one(
    stream: TcpStream,
    address: SocketAddr,
    place: Place<AddressGroup>,
    shared: Arc<Shared>,
    end: EndWatch,
) {
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(shared.certificates.current());
    let stream = Impatient::new(stream, WRITE_PATIENCE);
    let Ok(Ok(stream)) = timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await else {
        return;
    };
    let shown = stream.get_ref().1.peer_certificates();
    let certified = shown.and_then(|shown| shared.authentication.certified(shown, address));
    let shown = shown.filter(|_| certified.is_some()).map(<[_]>::to_vec);
    let peer = Arc::new(Peer {
        address,
        group: AddressGroup::of(address.ip()),
        place,
        certified,
        shown: shown.unwrap_or_default(),
        token: Mutex::default(),
    });
    let (of_answers, of_all, their_end) = (Arc::clone(&peer), Arc::clone(&shared), end.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (peer, shared, end) = (Arc::clone(&of_answers), Arc::clone(&of_all), their_end.clone());
        async move {
            let mut response = end.bound(answer(&peer, &shared, request).await);
            screening::keep_to_tls(&mut response);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = end.serve(connection) => {}
        () = credentials_end(&peer, &shared) => {}
    }
}

/// Returns when the token that a connection's last request had is valid no more, or the certificate by which the caller
/// is known: an answer may be without end.
async fn credentials_end(peer: &Peer, shared: &Shared) {
    let mut taken = None;
    loop {
        sleep(CREDENTIALS_LOOK).await;
        let token = *peer.token.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = token
            .zip(shared.tokens.as_ref())
            .is_some_and(|(hash, tokens)| !tokens.is_valid(&hash, SystemTime::now()));
        let certificates = &shared.certificates;
        let mut has_end =
            || !peer.shown.is_empty() && !certificates.takes(&peer.shown, UnixTime::now(), &mut taken);
        if ends || has_end() {
            return;
        }
    }
}

async fn answer(peer: &Peer, shared: &Shared, mut request: Request<Incoming>) -> Response<Body> {
    if let Err(wait) = shared.limits.takes_request(peer.group, Instant::now()) {
        let words = "too many requests from this address";
        return screening::last(later(words, wait));
    }
    if let Err(problem) = screening::check(Listener::Tls, &request) {
        return screening::last(problem.into_response());
    }
    let service = TowerToHyperService::new(shared.router.clone());
    let credentials = shared
        .authentication
        .credentials(request.headers(), PeerAddress::Tcp(peer.address));
    let caller = match credentials {
        Credentials::None => peer.certified.clone(),
        Credentials::Token { caller, hash } => {
            *peer.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(hash);
            Some(caller)
        }
        Credentials::Wrong => return screening::last(refuse(peer, shared).await),
    };
    let Some(caller) = caller else {
        // What is for all, or a refusal. The connection still has to give way to others.
        let Ok(response) = service.call(request.map(RequestBody::new)).await;
        return response;
    };
    request.extensions_mut().insert(caller);
    if peer.place.arrived().is_err() {
        return screening::last(screening::too_many());
    }
    // The turn ends when the answer is made, not when it is read.
    let (request, _turn) = RequestBody::in_turn(request, peer.place.turns()).await;
    let Ok(response) = service.call(request).await;
    response
}

/// The answer to wrong credentials. Right ones are taken whatever came before from the same address: 256 random bits
/// are not found by trying, and so it is not possible to lock out others.
async fn refuse(peer: &Peer, shared: &Shared) -> Response<Body> {
    if let Some(auditor) = &shared.auditor {
        auditor.credentials_refused(&peer.group.to_string());
    }
    if let Err(wait) = shared.limits.takes_failure(peer.group, Instant::now()) {
        return later("too many wrong credentials from this address", wait);
    }
    sleep(WRONG_PAUSE).await;
    let words = "this is no valid token: it is unknown, has expired, or was revoked";
    Problem::new(StatusCode::UNAUTHORIZED, words).into_response()
}

fn later(words: &str, wait: Duration) -> Response<Body> {
    let mut response = Problem::new(StatusCode::TOO_MANY_REQUESTS, words).into_response();
    let seconds = HeaderValue::from(wait.as_secs().saturating_add(1));
    response.headers_mut().insert(RETRY_AFTER, seconds);
    response
}
