//! What changes from second to second, sampled once for all who listen, and sent to each as Server-Sent Events.
//!
//! Sampling begins with the first listener and ends with the last: a daemon without one does nothing for it. A listener
//! that reads slowly misses objects; it holds up neither the sampling nor other listeners.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flow::cycles;
use hyper::body::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::query::QueryClient;
use super::trace::Lines;
use crate::values::{Live, LiveControl, LiveMoment};
use worker::Stats;

/// How often there is an object.
const EVERY: Duration = Duration::from_secs(1);
/// The first object has the rates of this time, so that the first listener does not wait for long.
const FIRST: Duration = Duration::from_millis(250);
/// Those that listen at most.
pub(super) const LISTENERS: usize = 64;

/// What is sampled.
#[derive(Clone)]
pub(super) struct LiveSources {
    /// Control.
    pub(super) client: QueryClient,
    /// What workers publish, as of now.
    pub(super) workers: Arc<dyn Fn() -> Vec<Stats> + Send + Sync>,
}

/// The sampling, while anyone listens.
#[derive(Clone, Default)]
pub(super) struct LiveFeed(Arc<Mutex<Option<watch::Sender<Bytes>>>>);

/// As many listen as may.
#[derive(Debug)]
pub(super) struct TooManyListeners;

impl LiveFeed {
    fn lock(&self) -> MutexGuard<'_, Option<watch::Sender<Bytes>>> {
        // It is whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events from now on; the last one at once, where there is one already.
    ///
    /// # Errors
    /// [`TooManyListeners`].
    pub(super) fn listen(&self, sources: LiveSources) -> Result<Lines, TooManyListeners> {
        self.attach(|| drop(tokio::spawn(self.clone().sample(sources))))
    }

    /// The same; the first listener begins what makes events.
    fn attach(&self, begin: impl FnOnce()) -> Result<Lines, TooManyListeners> {
        let mut events = {
            let mut running = self.lock();
            let sender = running.get_or_insert_with(|| {
                begin();
                watch::channel(Bytes::new()).0
            });
            if sender.receiver_count() >= LISTENERS {
                return Err(TooManyListeners);
            }
            let mut events = sender.subscribe();
            if !events.borrow().is_empty() {
                events.mark_changed();
            }
            events
        };
        let (lines, read) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    // Also while there is nothing to send.
                    () = lines.closed() => return,
                    changed = events.changed() => if changed.is_err() { return },
                }
                let event = events.borrow_and_update().clone();
                if lines.send(event).await.is_err() {
                    return;
                }
            }
        });
        Ok(Lines::new(read))
    }

    /// Gives an event to all listeners; false, and it is over, when there is none.
    fn offer(&self, event: Bytes) -> bool {
        let mut running = self.lock();
        let Some(sender) = running.as_ref().filter(|sender| sender.receiver_count() > 0) else {
            *running = None;
            return false;
        };
        sender.send_replace(event);
        true
    }

    /// Makes an object a second until none listens.
    async fn sample(self, sources: LiveSources) {
        let mut sampler = Sampler::new(sources);
        let mut before = sampler.take().await;
        sleep(FIRST).await;
        let mut seconds = interval_at(Instant::now(), EVERY);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            seconds.tick().await;
            let now = sampler.take().await;
            let rated = now.clone().rated(&mem::replace(&mut before, now));
            if !self.offer(event(&rated)) {
                return;
            }
        }
    }
}

fn event(live: &Live) -> Bytes {
    // Plain values always have a JSON form.
    let json = serde_json::to_string(live).unwrap_or_default();
    format!("data: {json}\n\n").into()
}

/// Where objects are made.
struct Sampler {
    sources: LiveSources,
    /// What control has said last.
    control: LiveControl,
}

impl Sampler {
    fn new(sources: LiveSources) -> Self {
        Self {
            sources,
            control: LiveControl::default(),
        }
    }

    async fn take(&mut self) -> Live {
        let answer = self.sources.client.live().await;
        let is_answered = answer.is_ok();
        if let Ok(control) = answer {
            self.control = control;
        }
        let moment = LiveMoment {
            time_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            clock: cycles::now(),
        };
        let mut live = Live::of(moment, &(self.sources.workers)(), &self.control);
        live.control = is_answered;
        live
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    use super::*;
    use crate::rest::query::query_channel;

    fn run<F: Future>(body: F) -> F::Output {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(body)
    }

    async fn next(lines: &mut Lines) -> Bytes {
        lines.frame().await.unwrap().unwrap().into_data().unwrap()
    }

    fn attach(feed: &LiveFeed, begun: &mut usize) -> Lines {
        feed.attach(|| *begun += 1).unwrap()
    }

    #[test]
    fn all_listeners_have_one_sampling_that_ends_with_the_last() {
        run(async {
            let (feed, mut begun) = (LiveFeed::default(), 0);
            let mut listeners: Vec<Lines> = (0..9).map(|_| attach(&feed, &mut begun)).collect();
            assert_eq!(begun, 1);
            for event in ["first", "second"] {
                assert!(feed.offer(event.into()));
                for lines in &mut listeners {
                    assert_eq!(next(lines).await, event);
                }
            }
            // The last one is there at once.
            let mut late = attach(&feed, &mut begun);
            assert_eq!((next(&mut late).await, begun), ("second".into(), 1));
            drop((listeners, late));
            while feed.offer("unheard".into()) {
                yield_now().await;
            }
            assert!(feed.lock().is_none());
            let mut again = attach(&feed, &mut begun);
            assert_eq!(begun, 2);
            feed.offer("again".into());
            assert_eq!(next(&mut again).await, "again");
        });
    }

    #[test]
    fn a_listener_that_does_not_read_holds_up_no_other() {
        run(async {
            let (feed, mut begun) = (LiveFeed::default(), 0);
            let mut slow = attach(&feed, &mut begun);
            let mut fast = attach(&feed, &mut begun);
            for number in 0..100 {
                feed.offer(number.to_string().into());
                assert_eq!(next(&mut fast).await, number.to_string());
            }
            // Those in between are gone: the first waited in its channel, the second at its end, then comes the last.
            assert_eq!(next(&mut slow).await, "0");
            assert_eq!(next(&mut slow).await, "1");
            assert_eq!(next(&mut slow).await, "99");
        });
    }

    #[test]
    fn listeners_are_bounded() {
        run(async {
            let (feed, mut begun) = (LiveFeed::default(), 0);
            let all: Vec<_> = (0..LISTENERS).map(|_| attach(&feed, &mut begun)).collect();
            assert!(feed.attach(|| ()).is_err());
            drop(all);
            while feed.offer("unheard".into()) {
                yield_now().await;
            }
            attach(&feed, &mut begun);
        });
    }

    #[test]
    fn without_control_the_workers_are_shown() {
        let (client, server) = query_channel();
        drop(server);
        let sources = LiveSources {
            client,
            workers: Arc::new(|| vec![Stats::new(1)]),
        };
        let live = run(async {
            let mut lines = LiveFeed::default().listen(sources).unwrap();
            next(&mut lines).await
        });
        let text = std::str::from_utf8(&live).unwrap();
        let json = text
            .strip_prefix("data: ")
            .and_then(|text| text.strip_suffix("\n\n"));
        let live: Live = serde_json::from_str(json.unwrap()).unwrap();
        assert_eq!((live.control, live.workers.len()), (false, 1));
        assert!(live.interval_s > 0.0);
    }
}
