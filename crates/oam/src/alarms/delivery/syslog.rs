//! Events as messages of syslog (RFC 5424), with the structured data of alarms (RFC 5674): over UDP (RFC 5426), TCP
//! with counted octets (RFC 6587 §3.4.1), or TLS (RFC 5425).
//!
//! Syslog has no acknowledgements. Over TCP a batch has a connection, which ends when the collector has closed it, too:
//! what was sent was received then.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use config::{SyslogConfig, SyslogTarget, SyslogTransport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UdpSocket, lookup_host};
use tokio::time::timeout;

use super::connection::connect;
use super::receiver::{Batch, Receiver};
use crate::alarms::kind::Kind;
use crate::values::{AlarmEvent, Severity};

/// Octets of a text, at most: a message fits a datagram that every collector takes (RFC 5424 §6.1).
const LONGEST_TEXT: usize = 1_024;
/// Characters of a host's name (RFC 5424 §6).
const LONGEST_HOST: usize = 255;
/// How long a collector may take to close a connection that has ended.
const CLOSE: Duration = Duration::from_secs(2);
/// The largest sequence number (RFC 5424 §7.3.1).
const MOST_SEQUENCE: u64 = 2_147_483_647;

/// A collector.
pub(super) struct Syslog {
    to: SyslogTarget,
    ca: Option<PathBuf>,
    facility: u8,
}

impl Syslog {
    pub(super) fn new(config: &SyslogConfig) -> Self {
        Self {
            to: config.to.value.clone(),
            ca: config.ca.as_ref().map(|ca| ca.value.clone()),
            facility: config.facility.value() as u8,
        }
    }

    fn messages(&self, batch: &Batch<'_>) -> Vec<String> {
        let host: String = batch.sources.node.chars().take(LONGEST_HOST).collect();
        let head = |severity: u8, unix_ms: u64, what: &str| {
            let date = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(unix_ms));
            let priority = 8 * u16::from(self.facility) + u16::from(severity);
            format!("<{priority}>1 {date} {host} sluice {} {what}", std::process::id())
        };
        let mut messages = Vec::new();
        if batch.is_first {
            let head = head(NOTICE, batch.sources.started_ms, "started");
            messages.push(format!("{head} - alarms of the process before are void"));
        }
        if batch.lost > 0 {
            let unix_ms = batch
                .events
                .first()
                .map_or(batch.sources.started_ms, |event| event.time_ms);
            let head = head(NOTICE, unix_ms, "lost");
            messages.push(format!("{head} - {} events are kept no more", batch.lost));
        }
        for event in &batch.events {
            let head = head(severity(event.alarm.severity), event.time_ms, &event.alarm.alarm);
            messages.push(format!(
                "{head} {} {}",
                structured(event),
                plain(&event.alarm.text)
            ));
        }
        messages
    }
}

/// Severities of syslog (RFC 5424 §6.2.1) for those of alarms (RFC 5674 §2).
const NOTICE: u8 = 5;

fn severity(of: Severity) -> u8 {
    match of {
        Severity::Critical => 1,
        Severity::Major => 2,
        Severity::Minor => 3,
        Severity::Warning => 4,
        Severity::Indeterminate | Severity::Cleared => NOTICE,
    }
}

/// The data of an alarm (RFC 5674 §3), and the number by which gaps are seen (RFC 5424 §7.3.1).
fn structured(event: &AlarmEvent) -> String {
    let alarm = &event.alarm;
    let object = match alarm.object.as_str() {
        "" => "upf",
        object => object,
    };
    let cause = match Kind::of_label(&alarm.alarm) {
        // The word of RFC 3877 for that of X.733; others are in the same words.
        Some(Kind::ClockStepped) => "timingProblemX733".to_owned(),
        _ => camel(&alarm.probable_cause),
    };
    format!(
        "[alarm resource=\"{}\" probableCause=\"{cause}\" perceivedSeverity=\"{}\" eventType=\"{}\"][meta sequenceId=\"{}\"]",
        escaped(object),
        alarm.severity.word(),
        camel(&alarm.event_type),
        event.id.clamp(1, MOST_SEQUENCE)
    )
}

/// `Loss of Signal` as `lossOfSignal`.
fn camel(words: &str) -> String {
    let mut out = String::new();
    for (place, word) in words.split(' ').enumerate() {
        let mut letters = word.chars();
        let first = letters.next();
        if place == 0 {
            out.extend(first.map(|letter| letter.to_ascii_lowercase()));
        } else {
            out.extend(first.map(|letter| letter.to_ascii_uppercase()));
        }
        out.extend(letters);
    }
    out
}

/// A value of structured data (RFC 5424 §6.3.3).
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for letter in plain(value).chars() {
        if matches!(letter, '"' | '\\' | ']') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// Text without what ends a line or moves a cursor, and not too long.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if out.len() + letter.len_utf8() > LONGEST_TEXT {
            break;
        }
        out.push(if letter.is_control() { ' ' } else { letter });
    }
    out
}

impl Receiver for Syslog {
    fn name(&self) -> String {
        self.to.to_string()
    }

    async fn send(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        let messages = self.messages(batch);
        let sent = match self.to.transport {
            SyslogTransport::Udp => self.send_datagrams(&messages).await,
            SyslogTransport::Tcp | SyslogTransport::Tls => self.send_stream(&messages).await,
        };
        sent.map_err(|error| error.to_string())
    }
}

impl Syslog {
    async fn send_datagrams(&self, messages: &[String]) -> std::io::Result<()> {
        let at = &self.to.at;
        let mut found = lookup_host((at.host.as_str(), at.port)).await?;
        let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        let address = found.next().ok_or_else(none)?;
        let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own).await?;
        socket.connect(address).await?;
        for message in messages {
            socket.send(message.as_bytes()).await?;
        }
        Ok(())
    }

    async fn send_stream(&self, messages: &[String]) -> std::io::Result<()> {
        let is_tls = self.to.transport == SyslogTransport::Tls;
        let mut stream = connect(&self.to.at, is_tls, self.ca.as_deref()).await?;
        let mut octets = Vec::new();
        for message in messages {
            octets.extend_from_slice(format!("{} {message}", message.len()).as_bytes());
        }
        stream.write_all(&octets).await?;
        stream.shutdown().await?;
        let mut rest = [0; 64];
        loop {
            match timeout(CLOSE, stream.read(&mut rest)).await {
                // One that keeps connections open has had its time to refuse this one.
                Ok(Ok(0)) | Err(_) => return Ok(()),
                Ok(Ok(_)) => {}
                // TLS without a last word: the peer has closed, which is all that is waited for.
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}
