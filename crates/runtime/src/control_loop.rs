//! The control thread's loop: datagrams and the workers' events in, datagrams and commands out.
//!
//! Everything that has come is taken from the sockets before new sessions are served, a few in each turn, so that a
//! heartbeat or a deletion waits for those few and no more, and control knows what waits for it
//! ([`n4::AdmissionQueue`]).

use std::io;
use std::time::Duration;

use flow::Nanos;
use n4::Turn;
use rustix::time::{ClockId, clock_gettime};

use super::sockets::Sockets;
use super::wakeup::Wakeup;
use crate::clock::Clock;
use upf::Control;

/// Requests for new sessions served in one turn: about a third of a millisecond.
const SERVED_PER_TURN: usize = 16;
/// The longest the thread waits for datagrams before it looks at the workers' events.
const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// The longest wait where workers wake the thread after each event: how late a timer may be.
const LONGEST_WAIT_WITH_WAKEUP: Duration = Duration::from_millis(5);
/// How long it stays on its core for a worker's answer. A worker that polls answers within microseconds, one that
/// sleeps in between within a hundred of them; one that lost its core is not waited for like that.
const SPIN: Duration = Duration::from_micros(200);

/// Absences that are shorter do not count: two clocks are compared.
const LEAST_ABSENCE: Duration = Duration::from_millis(1);

/// Control, its sockets and its time.
pub struct ControlLoop {
    control: Control,
    sockets: Sockets,
    clock: Clock,
    /// Since when there has been nothing to do.
    idle_since: Option<Nanos>,
    presence: Presence,
    wakeups: Option<Wakeups>,
}

/// How long the thread had its core, from the end of one turn to the end of a later one.
#[derive(Default)]
struct Presence {
    /// When the first of them was over, and the thread's processor time then.
    last: Option<(Nanos, Duration)>,
    /// How long the thread has waited since because it had nothing to do.
    rested: Duration,
}

impl Presence {
    /// The time in which others had the core: that in which the thread neither ran nor rested. Nothing while it cannot
    /// be long enough to count: the processor's time is asked of the system, which takes as long as a small turn.
    fn take_absence(&mut self, end: Nanos) -> Duration {
        let is_short = |(last_end, _)| end.since(last_end) < LEAST_ABSENCE;
        if self.last.is_some_and(is_short) {
            return Duration::ZERO;
        }
        let ran = processor_time();
        let rested = std::mem::take(&mut self.rested);
        let Some((last_end, last_ran)) = self.last.replace((end, ran)) else {
            return Duration::ZERO;
        };
        let away = end
            .since(last_end)
            .saturating_sub(rested)
            .saturating_sub(ran.saturating_sub(last_ran));
        if away < LEAST_ABSENCE {
            Duration::ZERO
        } else {
            away
        }
    }

    /// The thread had nothing to do until now, and wanted to wait for `most` at most.
    fn rest(&mut self, begin: Nanos, now: Nanos, most: Duration) {
        self.rested += now.since(begin).min(most);
    }
}

/// The calling thread's processor time.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// How control and the workers wake each other.
struct Wakeups {
    own: Wakeup,
    is_prepared: bool,
    /// By worker.
    workers: Vec<WorkerWakeup>,
}

/// How a worker is woken.
struct WorkerWakeup {
    /// `None`: it does not wait.
    wakeup: Option<Wakeup>,
    /// Commands that it had been sent when it was last woken.
    commands_sent: u64,
}

impl Wakeups {
    /// Wakes the workers that were sent commands since.
    fn wake(&mut self, sent: impl Iterator<Item = u64>) {
        for (worker, sent) in self.workers.iter_mut().zip(sent) {
            if std::mem::replace(&mut worker.commands_sent, sent) != sent {
                worker.wakeup.iter().for_each(Wakeup::wake);
            }
        }
    }
}

impl ControlLoop {
    /// A loop that has not begun.
    #[must_use]
    pub fn new(control: Control, sockets: Sockets, clock: Clock) -> Self {
        Self {
            control,
            sockets,
            clock,
            idle_since: None,
            presence: Presence::default(),
            wakeups: None,
        }
    }

    /// The same with workers that wake this thread by `own` after each event, and that wait until their own wake-up,
    /// where they have one.
    #[must_use]
    pub fn with_wakeups(mut self, own: Wakeup, workers: Vec<Option<Wakeup>>) -> Self {
        self.wakeups = Some(Wakeups {
            own,
            is_prepared: false,
            workers: workers
                .into_iter()
                .map(|wakeup| WorkerWakeup {
                    wakeup,
                    commands_sent: 0,
                })
                .collect(),
        });
        self
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// What it drives.
    pub fn control(&mut self) -> &mut Control {
        &mut self.control
    }

    /// One turn. When it finds nothing to do it waits, a few milliseconds at most.
    ///
    /// # Errors
    /// The system's, when it cannot wait for datagrams.
    pub fn turn(&mut self) -> io::Result<()> {
        let begin = self.clock.now();
        // Requests wait in the sockets while the sessions that they may be about are not known yet.
        let is_listing = self.control.endpoint().is_listing();
        let received = !is_listing && self.sockets.receive(&mut self.control, begin);
        let served = (0..SERVED_PER_TURN)
            .take_while(|_| self.control.serve_waiting(self.clock.now()))
            .count();
        let polled = self.control.poll(self.clock.now());
        self.sockets.transmit(&mut self.control);
        let worked = received || served > 0 || polled;
        let end = self.clock.now();
        let away = self.presence.take_absence(end);
        self.control.note_turn(&Turn {
            begin,
            end,
            worked,
            served,
            away,
        });
        if let Some(wakeups) = &mut self.wakeups {
            wakeups.wake(self.control.commands_sent());
        }
        if worked {
            self.idle_since = None;
            if let Some(wakeups) = self.wakeups.as_mut().filter(|wakeups| wakeups.is_prepared) {
                wakeups.own.end_wait();
                wakeups.is_prepared = false;
            }
            return Ok(());
        }
        self.rest(end)
    }

    /// Begins to end all associations, and sends what that takes; turns continue until control says that it has ended.
    pub fn end(&mut self) {
        self.control.end(self.clock.now());
        self.sockets.transmit(&mut self.control);
    }

    fn rest(&mut self, now: Nanos) -> io::Result<()> {
        let since = *self.idle_since.get_or_insert(now);
        if self.control.is_waiting() && now.since(since) < SPIN {
            std::thread::yield_now();
            return Ok(());
        }
        let Some(wakeups) = &mut self.wakeups else {
            let waited = self.sockets.wait(LONGEST_WAIT);
            self.presence.rest(now, self.clock.now(), LONGEST_WAIT);
            return waited;
        };
        if !std::mem::replace(&mut wakeups.is_prepared, true) {
            // The turn that follows sees what was sent before.
            wakeups.own.prepare_wait();
            return Ok(());
        }
        let waited = self.sockets.wait(LONGEST_WAIT_WITH_WAKEUP);
        wakeups.own.end_wait();
        wakeups.is_prepared = false;
        self.presence
            .rest(now, self.clock.now(), LONGEST_WAIT_WITH_WAKEUP);
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_rests_is_not_away_and_one_that_is_kept_from_its_core_is() {
        let start = Nanos::from_secs(1);
        let mut presence = Presence::default();
        assert_eq!(
            presence.take_absence(start),
            Duration::ZERO,
            "nothing to compare with"
        );
        // Both clocks of the test: the wall's is made up, the processor's is far behind it.
        let second = Duration::from_secs(1);
        presence.rest(start, start + second, second);
        assert_eq!(presence.take_absence(start + second), Duration::ZERO);
        // Woken five seconds late.
        presence.rest(start + second, start + second * 7, second);
        let away = presence.take_absence(start + second * 7);
        assert!(away > second * 4 && away <= second * 5, "{away:?}");
        // In a turn.
        let away = presence.take_absence(start + second * 10);
        assert!(away > second * 2 && away <= second * 3, "{away:?}");
    }
}
