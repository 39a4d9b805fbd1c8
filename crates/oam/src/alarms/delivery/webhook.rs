//! Events as JSON, by HTTP/1.1 POST. A connection has one request; a redirection is not followed.

use std::path::{Path, PathBuf};

use config::{WebhookConfig, WebhookUrl};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;

use super::connection::connect;
use super::receiver::{Batch, Receiver};
use crate::values::AlarmNotification;

/// Octets of a file with a token, at most.
const LONGEST_TOKEN: u64 = 4_096;

/// A webhook.
pub(super) struct Webhook {
    url: WebhookUrl,
    ca: Option<PathBuf>,
    token_file: Option<PathBuf>,
}

impl Webhook {
    pub(super) fn new(config: &WebhookConfig) -> Self {
        Self {
            url: config.url.value.clone(),
            ca: config.ca.as_ref().map(|ca| ca.value.clone()),
            token_file: config.token_file.as_ref().map(|file| file.value.clone()),
        }
    }

    fn request(&self, batch: &Batch<'_>) -> Result<Request<Full<Bytes>>, String> {
        let notification = AlarmNotification {
            node: batch.sources.node.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_ms: batch.sources.started_ms,
            lost: batch.lost,
            events: batch.events.clone(),
        };
        let body = serde_json::to_vec(&notification).map_err(|error| error.to_string())?;
        let request = Request::post(&self.url.path)
            .header(header::HOST, self.url.at.to_string())
            .header(header::USER_AGENT, concat!("sluice/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONNECTION, "close");
        let request = match &self.token_file {
            None => request,
            Some(path) => request.header(header::AUTHORIZATION, format!("Bearer {}", token(path)?)),
        };
        request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())
    }
}

fn token(path: &Path) -> Result<String, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let octets = config::bounded_file::read(path, LONGEST_TOKEN).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(octets).map_err(|error| wrong(error.to_string()))?;
    Ok(text.trim().to_owned())
}

impl Receiver for Webhook {
    fn name(&self) -> String {
        // A query may have a secret: no alarm and no log line has it.
        let path = self.url.path.split('?').next().unwrap_or_default();
        let scheme = if self.url.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.url.at)
    }

    async fn send(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        let request = self.request(batch)?;
        let stream = connect(&self.url.at, self.url.is_tls, self.ca.as_deref()).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        let answer = sender.send_request(request);
        tokio::pin!(answer, connection);
        // The connection may end with the answer, which is there then.
        let answer = tokio::select! {
            answer = &mut answer => answer,
            _ = &mut connection => answer.await,
        };
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("status {status}")),
        }
    }
}
