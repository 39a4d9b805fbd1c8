//! What a worker's thread does between polls that find nothing (`workers.idle`).
//!
//! `busy` continues to poll. `adaptive` sleeps, for longer and longer. `interrupt` waits in the kernel for the sockets
//! under the ports ([`DpdkIo::sockets`], [`dpdk::xdp_sockets`]) and for the thread's [`Wakeup`], which control, other
//! workers and the host's thread wake it by; it polls at least every [`LONGEST_WAIT`], for what a worker does by the
//! clock.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use dpdk::{clear_error, xdp_sockets};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use worker::dpdk::DpdkIo;

use super::wakeup::Wakeup;
use config::{Config, Driver};

/// Polls without a packet before an adaptive worker sleeps: some ten microseconds.
const ADAPTIVE_POLLS: u32 = 256;
/// The first sleep of an adaptive worker. Kernels make at least 50 microseconds of it.
const FIRST_SLEEP: Duration = Duration::from_micros(10);
/// Sleeps after which the next is twice as long.
const SLEEPS: u32 = 8;
/// Polls without a packet before a worker waits for its sockets: what comes in bursts finds it awake, and what ages
/// with polls (flow entries) continues to.
const INTERRUPT_POLLS: u32 = 16;
/// The longest that a worker waits: how late what it does by the clock may be.
pub const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// The sockets that a worker waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSockets {
    /// Those of its own queues.
    pub own: Vec<RawFd>,
    /// Those of which it is not known whose they are: several workers wait for them.
    pub shared: Vec<RawFd>,
}

/// What a thread waits with.
///
/// Own sockets are registered only while it waits: a socket with a waiter wakes it for every packet that is received
/// and, with AF_XDP, for every packet that is sent, which costs as much as a tenth of the kernel's work on the packet.
pub struct Waiter {
    poll: Poll,
    events: Events,
    wakeup: Wakeup,
    own: Vec<RawFd>,
}

impl Waiter {
    /// One for these sockets.
    ///
    /// # Errors
    /// The system's.
    pub fn new(sockets: WorkerSockets) -> io::Result<Self> {
        let poll = Poll::new()?;
        let wakeup = Wakeup::new(poll.registry())?;
        let waiter = Self {
            poll,
            events: Events::with_capacity(16),
            wakeup,
            own: sockets.own,
        };
        for (place, socket) in sockets.shared.iter().enumerate() {
            // Edges: a socket that a thread shares with others does not keep it awake.
            waiter.register(waiter.own.len() + place, *socket)?;
        }
        // An error shows at the start.
        waiter.register_own()?;
        waiter.deregister_own();
        Ok(waiter)
    }

    fn register(&self, place: usize, socket: RawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&socket), Token(place), Interest::READABLE)
    }

    fn register_own(&self) -> io::Result<()> {
        let mut own = self.own.iter().enumerate();
        own.try_for_each(|(place, socket)| self.register(place, *socket))
    }

    fn deregister_own(&self) {
        for socket in &self.own {
            // It is not registered where that has failed.
            let _ = self.poll.registry().deregister(&mut SourceFd(socket));
        }
    }

    /// What wakes it.
    #[must_use]
    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    fn wait(&mut self, most: Duration) {
        // A signal ends a wait as an event does. Where a socket cannot be registered, the wait takes its whole time.
        let _ = self.register_own();
        let _ = self.poll.poll(&mut self.events, Some(most));
        self.deregister_own();
        for event in self.events.iter().filter(|event| event.is_error()) {
            // An interface that is set down leaves an error, which would end every later wait.
            if let Some(socket) = self.own.get(event.token().0) {
                clear_error(*socket);
            }
        }
    }
}

/// What a worker's thread does with its time, and where it is.
pub struct Idle {
    kind: Kind,
    /// Polls that found nothing since the last that did, or since the last wait.
    polls: u32,
}

enum Kind {
    Busy,
    Adaptive { most: Duration, sleeps: u32 },
    Interrupt { waiter: Waiter, is_prepared: bool },
}

impl Idle {
    fn of(kind: Kind) -> Self {
        Self { kind, polls: 0 }
    }

    /// It never rests.
    #[must_use]
    pub fn busy() -> Self {
        Self::of(Kind::Busy)
    }

    /// It sleeps, for so long at most.
    #[must_use]
    pub fn adaptive(most: Duration) -> Self {
        Self::of(Kind::Adaptive { most, sleeps: 0 })
    }

    /// It waits for sockets.
    #[must_use]
    pub fn interrupt(waiter: Waiter) -> Self {
        Self::of(Kind::Interrupt {
            waiter,
            is_prepared: false,
        })
    }

    /// What wakes the thread, if it is one that can be woken.
    #[must_use]
    pub fn wakeup(&self) -> Option<&Wakeup> {
        match &self.kind {
            Kind::Interrupt { waiter, .. } => Some(waiter.wakeup()),
            _ => None,
        }
    }

    /// After a poll: rests, if it and those before found nothing to do.
    pub fn after(&mut self, found: bool) {
        if found {
            self.polls = 0;
            match &mut self.kind {
                Kind::Interrupt { waiter, is_prepared } if *is_prepared => {
                    *is_prepared = false;
                    waiter.wakeup.end_wait();
                }
                Kind::Adaptive { sleeps, .. } => *sleeps = 0,
                _ => {}
            }
            return;
        }
        self.polls = self.polls.saturating_add(1);
        match &mut self.kind {
            Kind::Busy => {}
            Kind::Adaptive { most, sleeps } if self.polls >= ADAPTIVE_POLLS => {
                let doubled = (*sleeps / SLEEPS).min(16);
                std::thread::sleep((FIRST_SLEEP * (1 << doubled)).min(*most));
                *sleeps = sleeps.saturating_add(1);
            }
            Kind::Adaptive { .. } => {}
            Kind::Interrupt { waiter, is_prepared } if *is_prepared => {
                waiter.wait(LONGEST_WAIT);
                waiter.wakeup.end_wait();
                (*is_prepared, self.polls) = (false, 0);
            }
            Kind::Interrupt { waiter, is_prepared } if self.polls >= INTERRUPT_POLLS => {
                // The poll that follows sees all that was put in before.
                waiter.wakeup.prepare_wait();
                *is_prepared = true;
            }
            Kind::Interrupt { .. } => {}
        }
    }
}

/// Which sockets each worker is to wait for: those of its own queues, and all of AF_XDP, whose owner is not known where
/// there are several workers.
///
/// # Errors
/// The port of AF_XDP whose socket is not there, or what kept it from being found.
pub fn sockets_of_workers(config: &Config, ios: &[DpdkIo]) -> Result<Vec<WorkerSockets>, String> {
    let is_xdp = |driver: &Option<Driver>| matches!(driver, Some(Driver::AfXdp { .. }));
    let xdp = match config.ports.iter().find(|port| is_xdp(&port.driver)) {
        None => Vec::new(),
        Some(port) => match xdp_sockets().map_err(|error| error.to_string())? {
            none if none.is_empty() => {
                return Err(format!("port `{}` has no socket to wait for", port.name.value));
            }
            sockets => sockets,
        },
    };
    let of_worker = |io: &DpdkIo| {
        let mut sockets = WorkerSockets {
            own: io.sockets().map(|socket| socket.as_raw_fd()).collect(),
            shared: Vec::new(),
        };
        match ios.len() {
            1 => sockets.own.extend(&xdp),
            _ => sockets.shared.clone_from(&xdp),
        }
        sockets
    };
    Ok(ios.iter().map(of_worker).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    use super::*;

    /// Polls until it waits, and returns for how long that was.
    fn wait(idle: &mut Idle) -> Duration {
        let begin = Instant::now();
        (0..=INTERRUPT_POLLS).for_each(|_| idle.after(false));
        begin.elapsed()
    }

    #[test]
    fn a_worker_waits_until_something_comes_or_rings() {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = WorkerSockets {
            own: vec![here.as_raw_fd()],
            shared: Vec::new(),
        };
        let mut idle = Idle::interrupt(Waiter::new(own).unwrap());
        let wakeup = idle.wakeup().unwrap().clone();
        assert!(wait(&mut idle) >= LONGEST_WAIT);
        let woken = |idle: &mut Idle, wake: &dyn Fn()| {
            // Between the announcement and the wait, which then is none. Not asserted against the clock alone: a busy
            // machine may be late, but not ten times in a row.
            (0..10).any(|_| {
                (0..INTERRUPT_POLLS).for_each(|_| idle.after(false));
                wake();
                let begin = Instant::now();
                idle.after(false);
                begin.elapsed() < LONGEST_WAIT / 2
            })
        };
        assert!(woken(&mut idle, &|| wakeup.wake()));
        assert!(woken(&mut idle, &|| {
            let _ = (&there).write(b"x");
        }));
        // What has not been read ends the next wait as well.
        assert!((0..10).any(|_| wait(&mut idle) < LONGEST_WAIT / 2));
        let _ = (&here).read(&mut [0; 64]).unwrap();
        // What is found before the wait ends the wait: no wake-up is needed.
        (0..INTERRUPT_POLLS).for_each(|_| idle.after(false));
        idle.after(true);
        wakeup.wake();
        assert!(wait(&mut idle) >= LONGEST_WAIT);
    }

    #[test]
    fn sleeps_grow_to_the_longest() {
        let mut idle = Idle::adaptive(Duration::from_millis(2));
        (0..ADAPTIVE_POLLS).for_each(|_| idle.after(false));
        let slept = |idle: &mut Idle, times| {
            let begin = Instant::now();
            (0..times).for_each(|_| idle.after(false));
            begin.elapsed()
        };
        slept(&mut idle, SLEEPS * 9);
        assert!(slept(&mut idle, 2) >= Duration::from_millis(4));
        let mut busy = Idle::busy();
        assert!(busy.wakeup().is_none());
        slept(&mut busy, 1_000_000);
    }
}
