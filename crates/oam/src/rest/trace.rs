//! The trace route: a stream of lines, each one packet explained, as long as the client reads and packets are wanted.
//!
//! Packets come straight from the workers' rings. A client that goes away drops the rings, which ends the trace
//! requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use rtrb::Consumer;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use worker::{TraceEnd, TraceItem, TraceTerms, Traced};

use ::trace::{Explainer, TraceLine, TraceSummary};

/// Packets that each worker's ring holds.
pub(super) const ROOM: usize = 256;
/// How often rings are looked at.
const EVERY: Duration = Duration::from_millis(10);
/// Packets that are explained before others on this thread have a turn.
const PER_TURN: usize = 32;
/// Lines that wait for their reader.
const LINES: usize = 64;
/// How long workers may take to say that they are done.
const GRACE: Duration = Duration::from_secs(1);
/// The longest time in which nothing is said.
const SILENCE: Duration = Duration::from_secs(2);

/// What is asked of workers, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) filter: worker::TraceFilter,
    pub(super) count: u64,
    pub(super) seconds: u64,
    pub(super) rate: u32,
    pub(super) snap: u16,
    pub(super) octets: bool,
    /// Packets are copied, not reported.
    pub(super) copies: bool,
}

impl Wanted {
    /// As each worker gets it.
    pub(super) fn terms(&self) -> TraceTerms {
        TraceTerms {
            filter: self.filter,
            snap: self.snap,
            rate: self.rate,
            count: self.count,
            lasts: Duration::from_secs(self.seconds),
        }
    }
}

/// Lines as they come.
pub(super) struct Lines(mpsc::Receiver<Bytes>);

impl Lines {
    pub(super) const fn new(lines: mpsc::Receiver<Bytes>) -> Self {
        Self(lines)
    }
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Writes what comes out of these rings as lines, until it ends or the client goes away. `keep` is dropped then.
pub(super) fn stream(
    wanted: Wanted,
    rings: Vec<Consumer<TraceItem>>,
    explainer: Arc<Explainer>,
    keep: impl Send + 'static,
) -> Lines {
    let (lines, read) = mpsc::channel(LINES);
    tokio::spawn(async move {
        let mut stream = Stream {
            wanted,
            rings: rings.into_iter().map(Some).collect(),
            explainer,
            lines,
            summary: TraceSummary::default(),
            deadline: Instant::now() + Duration::from_secs(wanted.seconds) + GRACE,
            spoken: Instant::now(),
        };
        // A client that has gone away gets nothing more.
        let _ = stream.run().await;
        // Workers see that the rings are abandoned before their next hop may be another's.
        drop(stream);
        sleep(EVERY).await;
        drop(keep);
    });
    Lines(read)
}

/// The client has gone away.
struct Gone;

struct Stream {
    wanted: Wanted,
    /// Of the workers that have not said that they are done.
    rings: Vec<Option<Consumer<TraceItem>>>,
    explainer: Arc<Explainer>,
    lines: mpsc::Sender<Bytes>,
    summary: TraceSummary,
    /// When the answer ends at the latest.
    deadline: Instant,
    /// When something was said last.
    spoken: Instant,
}

impl Stream {
    async fn run(&mut self) -> Result<(), Gone> {
        while self.rings.iter().any(Option::is_some)
            && (self.wanted.copies || self.summary.told < self.wanted.count)
            && Instant::now() < self.deadline
        {
            if self.lines.is_closed() {
                return Err(Gone);
            }
            if !self.take().await? {
                self.show_life().await?;
                sleep(EVERY).await;
            }
        }
        let end = TraceLine::End(self.summary);
        self.line(&end).await
    }

    /// Reports a few packets of each worker, in the order of their times; returns whether there were any.
    async fn take(&mut self) -> Result<bool, Gone> {
        let mut taken = Vec::new();
        for worker in 0..self.rings.len() {
            self.take_of(worker, &mut taken);
        }
        let busy = !taken.is_empty();
        taken.sort_by_key(|traced| traced.time);
        for traced in taken {
            self.packet(&traced).await?;
        }
        Ok(busy)
    }

    fn take_of(&mut self, worker: usize, taken: &mut Vec<Traced>) {
        for _ in 0..PER_TURN {
            let Some(ring) = &mut self.rings[worker] else {
                return;
            };
            match ring.pop() {
                Ok(TraceItem::Packet(traced)) => taken.push(*traced),
                Ok(TraceItem::End(end)) => {
                    self.note(end);
                    self.rings[worker] = None;
                }
                // The worker has ended the trace request, or is gone.
                Err(_) if ring.is_abandoned() => self.rings[worker] = None,
                Err(_) => return,
            }
        }
    }

    async fn packet(&mut self, traced: &Traced) -> Result<(), Gone> {
        self.summary.wanted += 1;
        if self.summary.told >= self.wanted.count {
            self.summary.over_rate += 1;
            return Ok(());
        }
        self.summary.told += 1;
        let number = self.summary.told;
        let packet = match self.wanted.octets {
            true => self.explainer.explain_whole(traced, number),
            false => self.explainer.explain(traced, number),
        };
        self.summary.disagreements += u64::from(packet.disagreement.is_some());
        self.line(&TraceLine::Packet(Box::new(packet))).await
    }

    fn note(&mut self, end: TraceEnd) {
        let TraceEnd {
            wanted,
            over_rate,
            lost,
        } = end;
        self.summary.wanted += over_rate + lost;
        if self.wanted.copies {
            let sent = wanted.saturating_sub(over_rate + lost);
            self.summary.wanted += sent;
            self.summary.told += sent;
        }
        self.summary.over_rate += over_rate;
        self.summary.lost += lost;
    }

    async fn line(&mut self, line: &TraceLine) -> Result<(), Gone> {
        // Plain values always have a JSON form.
        let text = serde_json::to_string(line).unwrap_or_default() + "\n";
        self.say(text.into()).await
    }

    /// An empty line now and then: only who is written to is known to be gone.
    async fn show_life(&mut self) -> Result<(), Gone> {
        if self.spoken.elapsed() < SILENCE {
            return Ok(());
        }
        self.say(Bytes::from_static(b"\n")).await
    }

    async fn say(&mut self, text: Bytes) -> Result<(), Gone> {
        self.spoken = Instant::now();
        let sent = timeout_at(self.deadline + GRACE, self.lines.send(text)).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}
