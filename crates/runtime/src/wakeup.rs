//! How threads that wait wake each other: a bell for each that waits in the kernel.
//!
//! Threads meet in queues. One that puts something into another's queue rings that thread's bell; it is a load of one
//! flag unless the other waits, and then a write to its event file. One that is about to wait says so first and looks
//! at its queues once more ([`Bell::announce`]): then whatever was put in before is seen, and what comes later rings.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::{Registry, Token, Waker};

/// The token of a bell's events.
const BELL: Token = Token(usize::MAX);

#[derive(Debug)]
struct Inner {
    waker: Waker,
    waits: AtomicBool,
}

/// What wakes one thread.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Inner>);

impl Bell {
    /// A bell for the thread that waits with `registry`'s poll.
    ///
    /// # Errors
    /// When the system has no file left.
    pub fn new(registry: &Registry) -> io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            waker: Waker::new(registry, BELL)?,
            waits: AtomicBool::new(false),
        })))
    }

    /// Something was put where the thread looks.
    pub fn ring(&self) {
        // Behind what was put in and before the flag: either this sees the flag, or the thread sees what was put in.
        fence(Ordering::SeqCst);
        if self.0.waits.load(Ordering::Relaxed) && self.0.waits.swap(false, Ordering::Relaxed) {
            // It fails only when the file's counter is full: then the thread is woken anyway.
            let _ = self.0.waker.wake();
        }
    }

    /// The thread is about to wait: it looks once more before it does.
    pub fn announce(&self) {
        self.0.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The thread does not wait any more.
    pub fn end(&self) {
        self.0.waits.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mio::{Events, Poll};

    use super::*;

    /// Nothing that is put into a queue is left there by a thread that waits: five hundred rounds of a number that goes
    /// to and fro, in which a bell that was not heard would cost ten seconds.
    #[test]
    fn what_is_put_in_is_seen() {
        const ROUNDS: u32 = 500;
        let (mut to, from) = rtrb::RingBuffer::<u32>::new(1);
        let (back, mut answers) = rtrb::RingBuffer::<u32>::new(1);
        let polls = [Poll::new().unwrap(), Poll::new().unwrap()];
        let bells: Vec<_> = polls
            .iter()
            .map(|poll| Bell::new(poll.registry()).unwrap())
            .collect();
        let wait = |poll: &mut Poll, bell: &Bell, queue: &mut rtrb::Consumer<u32>| loop {
            if let Ok(number) = queue.pop() {
                return number;
            }
            bell.announce();
            if let Ok(number) = queue.pop() {
                bell.end();
                return number;
            }
            let begin = Instant::now();
            let mut events = Events::with_capacity(4);
            poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            bell.end();
            assert!(begin.elapsed() < Duration::from_secs(9), "a bell was not heard");
        };
        let [mut here, mut there] = polls;
        let (own, others) = (bells[1].clone(), bells[0].clone());
        let thread = std::thread::spawn(move || {
            let (mut from, mut back) = (from, back);
            for _ in 0..ROUNDS {
                let number = wait(&mut there, &own, &mut from);
                back.push(number + 1).unwrap();
                others.ring();
            }
        });
        for round in 0..ROUNDS {
            to.push(round).unwrap();
            bells[1].ring();
            assert_eq!(wait(&mut here, &bells[0], &mut answers), round + 1);
        }
        thread.join().unwrap();
    }

    #[test]
    fn one_that_does_not_wait_is_not_woken() {
        let mut poll = Poll::new().unwrap();
        let bell = Bell::new(poll.registry()).unwrap();
        let mut events = Events::with_capacity(4);
        let mut is_woken = || {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        bell.ring();
        assert!(!is_woken());
        bell.announce();
        bell.ring();
        bell.ring();
        assert!(is_woken());
        bell.announce();
        bell.end();
        bell.ring();
        assert!(!is_woken());
    }
}
