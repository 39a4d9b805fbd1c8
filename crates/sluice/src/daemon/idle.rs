//! What a worker's thread does between polls that find nothing (`workers.idle`).
//!
//! `busy` goes on polling. `adaptive` sleeps, for longer and longer. `interrupt` waits in the kernel for the sockets
//! under the ports ([`dpdk::port_sockets`]) and for the thread's [`Bell`], which control, other workers and the host's
//! thread ring; it polls at least every [`LONGEST_WAIT`], for what a worker does by the clock.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use dpdk::{PortSocket, SocketKind, port_sockets};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::bell::Bell;
use crate::config::{Config, Driver};

/// Polls without a packet before an adaptive worker sleeps: some ten microseconds.
const ADAPTIVE_POLLS: u32 = 256;
/// The first sleep of an adaptive worker. Kernels make at least 50 microseconds of it.
const FIRST_SLEEP: Duration = Duration::from_micros(10);
/// Sleeps after which the next is twice as long.
const SLEEPS: u32 = 8;
/// Polls without a packet before a worker waits for its sockets: what comes in bursts finds it awake, and what ages
/// with polls (flow entries) goes on.
const INTERRUPT_POLLS: u32 = 16;
/// The longest that a worker waits: how late what it does by the clock may be.
pub const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// What a thread waits with.
pub struct Waiter {
    poll: Poll,
    events: Events,
    bell: Bell,
}

impl Waiter {
    /// One for these sockets.
    ///
    /// # Errors
    /// The system's.
    pub fn new(sockets: &[RawFd]) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (place, socket) in sockets.iter().enumerate() {
            // Edges: a socket that a thread shares with others does not keep it awake, and one whose interface is
            // down says so once.
            let registry = poll.registry();
            registry.register(&mut SourceFd(socket), Token(place), Interest::READABLE)?;
        }
        let bell = Bell::new(poll.registry())?;
        Ok(Self {
            poll,
            events: Events::with_capacity(16),
            bell,
        })
    }

    /// What wakes it.
    #[must_use]
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    fn wait(&mut self, most: Duration) {
        // An interruption by a signal is as good as an event; another error would come again and again, and cost as much
        // as a poll.
        let _ = self.poll.poll(&mut self.events, Some(most));
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
    Interrupt { waiter: Waiter, announced: bool },
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
            announced: false,
        })
    }

    /// What wakes the thread, if it is one that can be woken.
    #[must_use]
    pub fn bell(&self) -> Option<&Bell> {
        match &self.kind {
            Kind::Interrupt { waiter, .. } => Some(waiter.bell()),
            _ => None,
        }
    }

    /// After a poll: rests, if it and those before found nothing to do.
    pub fn after(&mut self, found: bool) {
        if found {
            self.polls = 0;
            match &mut self.kind {
                Kind::Interrupt { waiter, announced } if *announced => {
                    *announced = false;
                    waiter.bell.end();
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
            Kind::Interrupt { waiter, announced } if *announced => {
                waiter.wait(LONGEST_WAIT);
                waiter.bell.end();
                (*announced, self.polls) = (false, 0);
            }
            Kind::Interrupt { waiter, announced } if self.polls >= INTERRUPT_POLLS => {
                // The poll that follows sees all that was put in before.
                waiter.bell.announce();
                *announced = true;
            }
            Kind::Interrupt { .. } => {}
        }
    }
}

/// Which sockets each of so many workers is to wait for.
///
/// # Errors
/// The port that has none, or what kept them from being found.
pub fn sockets_of_workers(config: &Config, workers: usize) -> Result<Vec<Vec<RawFd>>, String> {
    let sockets = port_sockets().map_err(|error| error.to_string())?;
    let mut wanted = Vec::new();
    for port in &config.ports {
        match &port.driver {
            Some(Driver::AfPacket { interface, .. }) => {
                let index = nix::net::if_::if_nametoindex(interface.as_str());
                let index = index.map_err(|error| format!("interface {interface}: {error}"))?;
                wanted.push((port.name.value.as_str(), SocketKind::Packet(index)));
            }
            Some(Driver::AfXdp { .. }) => wanted.push((port.name.value.as_str(), SocketKind::Xdp)),
            _ => {}
        }
    }
    share_out(&sockets, &wanted, workers)
}

/// Gives each worker the sockets of its queues: that of its place, of a port that has one for each; all of them where
/// that cannot be told.
fn share_out(
    sockets: &[PortSocket],
    wanted: &[(&str, SocketKind)],
    workers: usize,
) -> Result<Vec<Vec<RawFd>>, String> {
    let mut of_workers = vec![Vec::new(); workers];
    let mut by_kind = BTreeMap::new();
    for (name, kind) in wanted {
        let key = match kind {
            SocketKind::Packet(index) => Some(*index),
            SocketKind::Xdp => None,
        };
        by_kind.entry(key).or_insert((*name, *kind));
    }
    for (name, kind) in by_kind.into_values() {
        let of_port = sockets.iter().filter(|socket| socket.kind == kind);
        let of_port: Vec<_> = of_port.map(|socket| socket.fd).collect();
        if of_port.is_empty() {
            return Err(format!("port `{name}` has no socket to wait for"));
        }
        let is_known = kind != SocketKind::Xdp && of_port.len() == workers;
        for (place, mine) in of_workers.iter_mut().enumerate() {
            match of_port.get(place) {
                Some(socket) if is_known => mine.push(*socket),
                _ => mine.extend(&of_port),
            }
        }
    }
    Ok(of_workers)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    use super::*;

    #[test]
    fn workers_wait_for_their_own_sockets() {
        let socket = |fd, kind| PortSocket { fd, kind };
        let [n3, n6] = [SocketKind::Packet(7), SocketKind::Packet(9)];
        let sockets = [
            socket(11, n3),
            socket(12, n6),
            socket(14, n3),
            socket(15, SocketKind::Xdp),
            socket(16, SocketKind::Xdp),
            socket(17, n6),
            socket(18, SocketKind::Packet(1)),
        ];
        let wanted = [
            ("n3", n3),
            ("n6", n6),
            ("x", SocketKind::Xdp),
            ("y", SocketKind::Xdp),
        ];
        let shares = share_out(&sockets, &wanted, 2).unwrap();
        assert_eq!(shares, [[15, 16, 11, 12], [15, 16, 14, 17]]);
        // With more workers than sockets each waits for all.
        assert_eq!(
            share_out(&sockets, &wanted[..1], 3).unwrap(),
            vec![vec![11, 14]; 3]
        );
        let error = share_out(&sockets, &[("n9", SocketKind::Packet(8))], 1).unwrap_err();
        assert_eq!(error, "port `n9` has no socket to wait for");
    }

    /// Polls until it waits, and tells for how long that was.
    fn wait(idle: &mut Idle) -> Duration {
        let begin = Instant::now();
        (0..=INTERRUPT_POLLS).for_each(|_| idle.after(false));
        begin.elapsed()
    }

    #[test]
    fn a_worker_waits_until_something_comes_or_rings() {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut idle = Idle::interrupt(Waiter::new(&[here.as_raw_fd()]).unwrap());
        let bell = idle.bell().unwrap().clone();
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
        assert!(woken(&mut idle, &|| bell.ring()));
        assert!(woken(&mut idle, &|| {
            let _ = (&there).write(b"x");
        }));
        // What is found before the wait ends the announcement: nobody has to ring.
        (0..INTERRUPT_POLLS).for_each(|_| idle.after(false));
        idle.after(true);
        bell.ring();
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
        assert!(busy.bell().is_none());
        slept(&mut busy, 1_000_000);
    }
}
