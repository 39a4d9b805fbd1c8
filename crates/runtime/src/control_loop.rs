//! The control thread's loop: datagrams and the workers' events in, datagrams and commands out.
//!
//! Everything that has come is taken from the sockets before new sessions are served, a few in each turn, so that a
//! heartbeat or a deletion waits for those few and no more, and control knows what waits for it
//! ([`n4::AdmissionQueue`]).

use std::io;
use std::time::Duration;

use flow::Nanos;

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

/// Control, its sockets and its time.
pub struct ControlLoop {
    control: Control,
    sockets: Sockets,
    clock: Clock,
    /// Since when there has been nothing to do.
    idle_since: Option<Nanos>,
    wakeups: Option<Wakeups>,
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
        let received = self.sockets.receive(&mut self.control, begin);
        let served = (0..SERVED_PER_TURN)
            .take_while(|_| self.control.serve_waiting(self.clock.now()))
            .count();
        let polled = self.control.poll(self.clock.now());
        self.sockets.transmit(&mut self.control);
        let worked = received || served > 0 || polled;
        let end = self.clock.now();
        self.control.note_turn(begin, end, worked, served);
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
            return self.sockets.wait(LONGEST_WAIT);
        };
        if !std::mem::replace(&mut wakeups.is_prepared, true) {
            // The turn that follows sees what was sent before.
            wakeups.own.prepare_wait();
            return Ok(());
        }
        let waited = self.sockets.wait(LONGEST_WAIT_WITH_WAKEUP);
        wakeups.own.end_wait();
        wakeups.is_prepared = false;
        waited
    }
}
