//! Asking a running daemon.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::values::Problem;

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take that a document is stored and takes effect.
const SUBMISSION_PATIENCE: Duration = Duration::from_secs(60);
/// The most octets of an answer.
const LONGEST: usize = 16 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// No process listens at the socket.
    NoDaemon(PathBuf, io::Error),
    /// A process does, and does not answer as a daemon: what is wrong.
    NoAnswer(PathBuf, String),
    /// The daemon refuses.
    Problem(Problem),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDaemon(path, error) if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "this user may not use {}: it is for the user who runs the daemon, and for the group `control.group`",
                path.display()
            ),
            Self::NoDaemon(path, error) => write!(
                f,
                "no daemon is at {} ({error}); is `sluice run` running, with this as its `control.socket`?",
                path.display()
            ),
            Self::NoAnswer(path, words) => {
                write!(f, "{} does not answer as it should: {words}", path.display())
            }
            Self::Problem(problem) => f.write_str(&problem.detail),
        }
    }
}

impl std::error::Error for ClientError {}

/// What is asked of a daemon.
#[derive(Clone, Debug)]
pub struct ApiRequest<'a> {
    /// The method.
    pub method: Method,
    /// The path, with a query perhaps.
    pub target: &'a str,
}

/// A request with a document.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    /// What is asked.
    pub request: ApiRequest<'a>,
    /// The document: YAML, or nothing.
    pub document: Vec<u8>,
    /// The ETag of what it is about.
    pub if_match: Option<&'a str>,
}

impl<'a> From<ApiRequest<'a>> for Submission<'a> {
    fn from(request: ApiRequest<'a>) -> Self {
        Self {
            request,
            document: Vec::new(),
            if_match: None,
        }
    }
}

/// Bounds of an answer.
#[derive(Clone, Copy, Debug)]
pub struct ResponseLimits {
    /// The time that it may take.
    pub time: Duration,
    /// The octets that it may have.
    pub octets: usize,
}

/// What the daemon behind `socket` answers to a GET of `target`, which is a path with a query perhaps.
///
/// # Errors
/// [`ClientError`].
pub fn get<T: DeserializeOwned>(socket: &Path, target: &str) -> Result<T, ClientError> {
    ask(socket, Method::GET, target)
}

/// What the daemon behind `socket` answers to `target`, asked for by `method`.
///
/// # Errors
/// [`ClientError`].
pub fn ask<T: DeserializeOwned>(socket: &Path, method: Method, target: &str) -> Result<T, ClientError> {
    let limits = ResponseLimits {
        time: PATIENCE,
        octets: LONGEST,
    };
    let body = fetch(socket, ApiRequest { method, target }, limits)?;
    read(socket, &body)
}

/// What the daemon behind `socket` answers to a document.
///
/// # Errors
/// [`ClientError`].
pub fn submit<T: DeserializeOwned>(socket: &Path, submission: Submission<'_>) -> Result<T, ClientError> {
    let limits = ResponseLimits {
        time: SUBMISSION_PATIENCE,
        octets: LONGEST,
    };
    read(socket, &whole(socket, submission, limits)?)
}

fn read<T: DeserializeOwned>(socket: &Path, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::NoAnswer(socket.to_owned(), error.to_string()))
}

/// The octets that the daemon behind `socket` answers to a request, within `limits`.
///
/// # Errors
/// [`ClientError`].
pub fn fetch(socket: &Path, request: ApiRequest<'_>, limits: ResponseLimits) -> Result<Bytes, ClientError> {
    whole(socket, request.into(), limits)
}

fn whole(socket: &Path, sent: Submission<'_>, limits: ResponseLimits) -> Result<Bytes, ClientError> {
    let no_answer = |words: String| ClientError::NoAnswer(socket.to_owned(), words);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| no_answer(error.to_string()))?;
    let answer =
        runtime.block_on(async { timeout(limits.time, exchange(socket, sent, limits.octets)).await });
    let (status, body) = answer.map_err(|_| no_answer(format!("not within {:?}", limits.time)))??;
    if !status.is_success() {
        let problem = serde_json::from_slice(&body);
        return Err(problem.map_or_else(|_| no_answer(format!("status {status}")), ClientError::Problem));
    }
    Ok(body)
}

/// Gives each line that the daemon behind `socket` answers to a request to `take` as it comes, until that returns
/// false.
///
/// # Errors
/// [`ClientError`].
pub fn stream(
    socket: &Path,
    request: ApiRequest<'_>,
    take: impl FnMut(&str) -> bool,
) -> Result<(), ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ClientError::NoAnswer(socket.to_owned(), error.to_string()))?;
    runtime.block_on(lines(socket, request, take))
}

async fn lines(
    socket: &Path,
    request: ApiRequest<'_>,
    mut take: impl FnMut(&str) -> bool,
) -> Result<(), ClientError> {
    let no_answer = |words: String| ClientError::NoAnswer(socket.to_owned(), words);
    let answer = timeout(PATIENCE, send(socket, request.into())).await;
    let response = answer.map_err(|_| no_answer(format!("not within {PATIENCE:?}")))??;
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let whole = Limited::new(body, LONGEST).collect().await;
        let whole = whole.map_err(|error| no_answer(error.to_string()))?.to_bytes();
        let problem = serde_json::from_slice(&whole);
        return Err(problem.map_or_else(|_| no_answer(format!("status {status}")), ClientError::Problem));
    }
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| no_answer(error.to_string()))?;
        rest.extend(frame.into_data().unwrap_or_default());
        while let Some(end) = rest.iter().position(|octet| *octet == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = std::str::from_utf8(&line[..end]).map_err(|error| no_answer(error.to_string()))?;
            // An empty one says that the daemon lives.
            if !line.is_empty() && !take(line) {
                return Ok(());
            }
        }
        if rest.len() > LONGEST {
            return Err(no_answer("a line without an end".into()));
        }
    }
    Ok(())
}

async fn exchange(
    socket: &Path,
    sent: Submission<'_>,
    most: usize,
) -> Result<(hyper::StatusCode, Bytes), ClientError> {
    let response = send(socket, sent).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), most).collect().await;
    let no_answer = |error: &dyn fmt::Display| ClientError::NoAnswer(socket.to_owned(), error.to_string());
    let body = body.map_err(|error| no_answer(&error))?.to_bytes();
    Ok((status, body))
}

/// A connection. A daemon that has as many callers as its socket queues is asked again: callers bound the time.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            done => return done,
        }
    }
}

async fn send(socket: &Path, sent: Submission<'_>) -> Result<Response<Incoming>, ClientError> {
    let no_answer = |error: &dyn fmt::Display| ClientError::NoAnswer(socket.to_owned(), error.to_string());
    let stream = connect(socket).await;
    let stream = stream.map_err(|error| ClientError::NoDaemon(socket.to_owned(), error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| no_answer(&error))?;
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(sent.request.method)
        .uri(sent.request.target)
        .header(header::HOST, "sluice");
    if !sent.document.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/yaml");
    }
    if let Some(tag) = sent.if_match {
        request = request.header(header::IF_MATCH, tag);
    }
    let request = request.body(Full::<Bytes>::from(sent.document));
    let request = request.map_err(|error| no_answer(&error))?;
    sender
        .send_request(request)
        .await
        .map_err(|error| no_answer(&error))
}
