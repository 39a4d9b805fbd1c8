//! The API's Unix socket at a port of this host's loopback, for a browser (`sluice ui`).
//!
//! Every local user can connect to a port, and every page that a browser shows can have it send requests there. So a
//! request to the API needs the secret of this forwarder, which only the address that it prints has: behind `#`, where
//! no server and no log sees it; the page sends it as a bearer token. A request whose `Host` is another than this
//! listener (DNS rebinding), or which another origin makes, is refused. The page's own files need no secret: they say
//! nothing.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, IF_MATCH, IF_NONE_MATCH, ORIGIN,
};
use axum::http::{HeaderMap, HeaderName, Request, Response, StatusCode, request};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::client;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use session::Random;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Semaphore, oneshot};

use super::impatient::Impatient;
use crate::values::Problem;

/// How long a request may take to arrive, and a connection may be idle.
const PATIENCE: Duration = Duration::from_secs(10);
/// Octets of a request's head, at most.
const LONGEST_HEAD: usize = 16 << 10;
/// Connections at a time.
const CONNECTIONS: usize = 64;
/// Headers of requests that the daemon gets.
const PASSED: [HeaderName; 5] = [ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH];
/// Where a browser says what page makes a request (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The open port, until it is dropped.
pub struct Forwarder {
    address: SocketAddr,
    secret: Arc<str>,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Forwarder {
    /// Forwards requests at `port` of 127.0.0.1, or at a free port for 0, to the daemon behind `socket`.
    ///
    /// # Errors
    /// The system's: the port is taken, there are no random numbers, no threads.
    pub fn open(socket: &Path, port: u16) -> io::Result<Self> {
        let seed = Random::system_seed().map_err(io::Error::other)?;
        let secret: Arc<str> = seed
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect::<String>()
            .into();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let gate = Gate {
            port: address.port(),
            secret: Arc::clone(&secret),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let socket: Arc<Path> = socket.into();
        let body = move || runtime.block_on(serve(listener, gate, socket, stopped));
        let thread = thread::Builder::new().name("ui".into()).spawn(body)?;
        Ok(Self {
            address,
            secret,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address for a browser, with the secret.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.secret)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        // The thread ends when its end of the channel sees this one gone.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    gate: Gate,
    socket: Arc<Path>,
    mut stopped: oneshot::Receiver<Infallible>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
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
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (gate, socket) = (gate.clone(), Arc::clone(&socket));
        tokio::spawn(async move {
            serve_one(stream, gate, socket).await;
            drop(place);
        });
    }
}

async fn serve_one(stream: TcpStream, gate: Gate, socket: Arc<Path>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let (gate, socket) = (gate.clone(), Arc::clone(&socket));
        async move {
            let (parts, body) = request.into_parts();
            let answer = match gate.check(&parts) {
                Ok(()) => pass_on(&socket, parts, body)
                    .await
                    .unwrap_or_else(|why| unreachable_daemon(&socket, &why)),
                Err(problem) => problem.into_response(),
            };
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(Impatient::new(stream, PATIENCE)), answer);
    // A browser that goes away is its own affair.
    let _ = connection.await;
}

fn unreachable_daemon(socket: &Path, why: &dyn fmt::Display) -> Response<Body> {
    let words = format!("the daemon behind {} does not answer: {why}", socket.display());
    Problem::new(StatusCode::BAD_GATEWAY, words).into_response()
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Asks the daemon the same, over a connection of its own, and gives its answer as it comes.
async fn pass_on(socket: &Path, parts: request::Parts, body: Incoming) -> Result<Response<Body>, Fault> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer, or when that is dropped.
    tokio::spawn(connection);
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut request = Request::builder()
        .method(parts.method)
        .uri(target)
        .header(HOST, "sluice");
    for name in PASSED {
        for value in parts.headers.get_all(&name) {
            request = request.header(&name, value);
        }
    }
    let mut response = sender.send_request(request.body(body)?).await?;
    // What is of one connection is not of the other (RFC 9110 §7.6.1).
    response.headers_mut().remove(axum::http::header::CONNECTION);
    Ok(response.map(Body::new))
}

/// Which requests are let through.
#[derive(Clone)]
struct Gate {
    port: u16,
    secret: Arc<str>,
}

impl Gate {
    fn check(&self, parts: &request::Parts) -> Result<(), Problem> {
        let forbidden = |words: &str| Err(Problem::new(StatusCode::FORBIDDEN, words));
        let Some(host) = self.own_host(parts) else {
            return forbidden("the request is for another host than this one");
        };
        if let Some(origin) = parts.headers.get(ORIGIN)
            && origin.as_bytes() != format!("http://{host}").as_bytes()
        {
            return forbidden("another origin asks");
        }
        let site = parts.headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes());
        if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
            return forbidden("another site asks");
        }
        let path = parts.uri.path();
        if path == "/" || path.starts_with("/page/") || self.has_secret(&parts.headers) {
            return Ok(());
        }
        let words = "the token is that behind `#` in the address which `sluice ui` has printed";
        Err(Problem::new(StatusCode::UNAUTHORIZED, words))
    }

    /// The host that is asked, if it is this listener: a name that another has may lead here, too.
    fn own_host(&self, parts: &request::Parts) -> Option<String> {
        let mut hosts = parts.headers.get_all(HOST).iter();
        let host = hosts.next()?.to_str().ok()?;
        let is_own = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        let is_alone = hosts.next().is_none() && parts.uri.authority().is_none();
        (is_alone && is_own.iter().any(|own| own == host)).then(|| host.to_owned())
    }

    fn has_secret(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let token = given
            .next()
            .and_then(|given| given.as_bytes().strip_prefix(b"Bearer "));
        given.next().is_none() && token.is_some_and(|token| is_same(token, self.secret.as_bytes()))
    }
}

/// Whether two texts are the same, in a time that depends on their lengths alone.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::path::PathBuf;

    use super::*;
    use crate::rest::{Access, RestSocket, Service, query_channel};

    /// A daemon without workers, and a forwarder before it.
    struct Both {
        forwarder: Forwarder,
        _daemon: RestSocket,
        folder: PathBuf,
    }

    impl Both {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("sluice-ui-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            let (client, server) = query_channel();
            drop(server);
            let service = Service::new(client, Arc::new(Vec::new));
            let path = folder.join("control");
            let daemon = RestSocket::open(&path, Access::Owner, service).unwrap();
            Self {
                forwarder: Forwarder::open(&path, 0).unwrap(),
                _daemon: daemon,
                folder,
            }
        }

        fn ask(&self, target: &str, headers: &[(&str, &str)]) -> String {
            ask(&self.forwarder, target, headers)
        }

        fn status(&self, target: &str, headers: &[(&str, &str)]) -> u16 {
            let answer = self.ask(target, headers);
            let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
            status.unwrap_or_else(|| panic!("{answer}"))
        }
    }

    /// Sends this head and gives the answer.
    fn ask(forwarder: &Forwarder, target: &str, headers: &[(&str, &str)]) -> String {
        let mut stream = TcpStream::connect(forwarder.address()).unwrap();
        let mut head = format!("GET {target} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    impl Drop for Both {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn the_api_needs_the_secret_and_the_page_does_not() {
        let both = Both::new("secret");
        let host = both.forwarder.address().to_string();
        let bearer = format!("Bearer {}", both.forwarder.secret);
        assert_eq!(both.status("/", &[("Host", &host)]), 200);
        assert_eq!(both.status("/page/app.js", &[("Host", &host)]), 200);
        for path in [
            "/v1/caller",
            "/v1/runtime",
            "/openapi.json",
            "/page",
            "//",
            "/V1/caller",
        ] {
            assert_eq!(both.status(path, &[("Host", &host)]), 401, "{path}");
        }
        let wrong = format!("Bearer {}-", &both.forwarder.secret[..63]);
        let ask = |token: &str| both.status("/v1/runtime", &[("Host", &host), ("Authorization", token)]);
        assert_eq!(ask(&wrong), 401);
        assert_eq!(ask("Bearer "), 401);
        assert_eq!(ask(&both.forwarder.secret), 401);
        assert_eq!(ask(&bearer), 200);
        let answer = both.ask("/v1/caller", &[("Host", &host), ("Authorization", &bearer)]);
        assert!(answer.contains("\"role\":\"admin\""), "{answer}");
        assert!(
            both.forwarder
                .url()
                .ends_with(&format!("/#token={}", both.forwarder.secret))
        );
        assert!(!format!("{:?}", both.forwarder).contains(&*both.forwarder.secret));
    }

    #[test]
    fn another_host_or_origin_is_refused_even_with_the_secret() {
        let both = Both::new("origin");
        let port = both.forwarder.address().port();
        let (own, local) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
        let bearer = format!("Bearer {}", both.forwarder.secret);
        let ask = |headers: &[(&str, &str)]| {
            let with = [headers, &[("Authorization", bearer.as_str())]].concat();
            [both.status("/v1/runtime", &with), both.status("/", &with)]
        };
        let origin = format!("http://{own}");
        for headers in [
            &[("Host", own.as_str())][..],
            &[("Host", &local)],
            &[
                ("Host", &own),
                ("Origin", &origin),
                ("Sec-Fetch-Site", "same-origin"),
            ],
            &[("Host", &own), ("Sec-Fetch-Site", "none")],
        ] {
            assert_eq!(ask(headers), [200, 200], "{headers:?}");
        }
        for headers in [
            &[("Host", "rebound.example")][..],
            &[("Host", "127.0.0.1")],
            &[("Host", &own), ("Host", &own)],
            &[("Host", &own), ("Origin", "http://rebound.example")],
            &[("Host", &own), ("Origin", "null")],
            &[("Host", &local), ("Origin", &origin)],
            &[("Host", &own), ("Sec-Fetch-Site", "cross-site")],
            &[("Host", &own), ("Sec-Fetch-Site", "same-site")],
        ] {
            assert_eq!(ask(headers), [403, 403], "{headers:?}");
        }
        assert_eq!(
            both.status(&format!("http://{own}/v1/runtime"), &[("Host", &own)]),
            403
        );
    }

    #[test]
    fn without_a_daemon_it_says_so() {
        let forwarder = Forwarder::open(Path::new("/nonexistent/sluice"), 0).unwrap();
        let host = forwarder.address().to_string();
        let answer = ask(&forwarder, "/", &[("Host", &host)]);
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        assert!(answer.contains("/nonexistent/sluice does not answer"), "{answer}");
    }
}
