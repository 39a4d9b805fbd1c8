//! The stream of alarm events, as long as the client reads.

use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::alarms::SharedAlarms;
use crate::values::{AlarmChange, AlarmEvent};

/// Streams at a time.
pub(super) const MOST_STREAMS: usize = 32;
/// How often it is looked for events.
const EVERY: Duration = Duration::from_millis(500);
/// Events that are written together.
const TOGETHER: usize = 100;
/// The longest time in which nothing is written.
const SILENCE: Duration = Duration::from_secs(15);

/// Octets as they come.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let octets = self.0.poll_recv(context);
        octets.map(|octets| octets.map(|octets| Ok(Frame::data(octets))))
    }
}

/// Writes the events behind the number `after`, and those to come, until the client goes away.
pub(super) fn stream(alarms: SharedAlarms, mut after: u64) -> Events {
    let (octets, read) = mpsc::channel(1);
    tokio::spawn(async move {
        // A client has the header at once.
        let mut text = String::from(": events\n\n");
        while octets.send(Bytes::from(std::mem::take(&mut text))).await.is_ok() {
            let said = Instant::now();
            while text.is_empty() {
                if octets.is_closed() {
                    return;
                }
                let found = alarms.lock().events(after, TOGETHER);
                for event in &found.events {
                    after = event.id;
                    push(&mut text, event);
                }
                if text.is_empty() && said.elapsed() >= SILENCE {
                    text.push_str(":\n\n");
                }
                if text.is_empty() {
                    sleep(EVERY).await;
                }
            }
        }
    });
    Events(read)
}

/// An event as HTML's server-sent events have it.
fn push(text: &mut String, event: &AlarmEvent) {
    let name = match event.change {
        AlarmChange::Raised => "raised",
        AlarmChange::Cleared => "cleared",
    };
    // Plain values always have a JSON form, which is on one line.
    let data = serde_json::to_string(event).unwrap_or_default();
    let _ = write!(text, "id: {}\nevent: {name}\ndata: {data}\n\n", event.id);
}

#[cfg(test)]
mod tests {
    use flow::Nanos;
    use http_body_util::BodyExt;
    use tokio::runtime::Builder;

    use super::*;
    use crate::alarms::{At, Condition, Kind, Level};

    fn raise(alarms: &SharedAlarms, second: u64, ports: &[&str]) {
        let at = At {
            now: Nanos::from_secs(second),
            unix_ms: 1_000 * second,
        };
        let condition = |port: &&str| Condition {
            kind: Kind::LinkDown,
            object: (*port).to_owned(),
            level: Level::Raises,
            text: "a\nb".into(),
        };
        alarms.lock().observe(at, ports.iter().map(condition).collect());
    }

    #[test]
    fn a_stream_has_what_came_behind_a_number_and_what_comes() {
        let alarms = SharedAlarms::default();
        raise(&alarms, 1, &["n3", "n6"]);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut events = stream(alarms.clone(), 1);
            let mut next = async || {
                let frame = events.frame().await.unwrap().unwrap();
                String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
            };
            assert_eq!(next().await, ": events\n\n");
            let second = next().await;
            assert!(
                second.starts_with("id: 2\nevent: raised\ndata: {\"id\":2,"),
                "{second}"
            );
            assert_eq!(second.lines().count(), 4);
            raise(&alarms, 2, &["n3", "n6", "n9"]);
            assert!(next().await.starts_with("id: 3\nevent: raised\n"));
        });
    }
}
