//! Wake-ups between threads: a flag and an event file for each thread that waits in the kernel.
//!
//! Threads exchange work over queues. A producer calls [`Wakeup::wake`] after each push: it costs one load of a flag
//! unless the consumer waits, else a write to the event file. A consumer that is about to wait sets the flag
//! ([`Wakeup::prepare_wait`]) and looks at its queues once more: it sees what was pushed before, and a later push wakes
//! it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::{Registry, Token, Waker};

/// The token of a wake-up's events.
const WAKEUP: Token = Token(usize::MAX);

#[derive(Debug)]
struct Inner {
    waker: Waker,
    waits: AtomicBool,
}

/// What wakes one thread.
#[derive(Clone, Debug)]
pub struct Wakeup(Arc<Inner>);

impl Wakeup {
    /// A wake-up for the thread that waits with `registry`'s poll.
    ///
    /// # Errors
    /// When the system has no file left.
    pub fn new(registry: &Registry) -> io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            waker: Waker::new(registry, WAKEUP)?,
            waits: AtomicBool::new(false),
        })))
    }

    /// Wakes the thread if it waits. To be called after a push into one of its queues.
    pub fn wake(&self) {
        // After the push and before the load of the flag: either this load sees the flag, or the thread sees the push.
        fence(Ordering::SeqCst);
        if self.0.waits.load(Ordering::Relaxed) && self.0.waits.swap(false, Ordering::Relaxed) {
            // It fails only when the file's counter is full: then the thread is woken anyway.
            let _ = self.0.waker.wake();
        }
    }

    /// Says that the thread is about to wait. It has to look at its queues once more before it does.
    pub fn prepare_wait(&self) {
        self.0.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the thread no longer waits.
    pub fn end_wait(&self) {
        self.0.waits.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mio::{Events, Poll};

    use super::*;

    /// Nothing that is put into a queue is left there by a thread that waits: five hundred rounds of a number that goes
    /// to and fro, in which a lost wake-up would cost ten seconds.
    #[test]
    fn what_is_put_in_is_seen() {
        const ROUNDS: u32 = 500;
        let (mut to, from) = rtrb::RingBuffer::<u32>::new(1);
        let (back, mut answers) = rtrb::RingBuffer::<u32>::new(1);
        let polls = [Poll::new().unwrap(), Poll::new().unwrap()];
        let wakeups: Vec<_> = polls
            .iter()
            .map(|poll| Wakeup::new(poll.registry()).unwrap())
            .collect();
        let wait = |poll: &mut Poll, wakeup: &Wakeup, queue: &mut rtrb::Consumer<u32>| loop {
            if let Ok(number) = queue.pop() {
                return number;
            }
            wakeup.prepare_wait();
            if let Ok(number) = queue.pop() {
                wakeup.end_wait();
                return number;
            }
            let begin = Instant::now();
            let mut events = Events::with_capacity(4);
            poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            wakeup.end_wait();
            assert!(begin.elapsed() < Duration::from_secs(9), "a wake-up was lost");
        };
        let [mut here, mut there] = polls;
        let (own, others) = (wakeups[1].clone(), wakeups[0].clone());
        let thread = std::thread::spawn(move || {
            let (mut from, mut back) = (from, back);
            for _ in 0..ROUNDS {
                let number = wait(&mut there, &own, &mut from);
                back.push(number + 1).unwrap();
                others.wake();
            }
        });
        for round in 0..ROUNDS {
            to.push(round).unwrap();
            wakeups[1].wake();
            assert_eq!(wait(&mut here, &wakeups[0], &mut answers), round + 1);
        }
        thread.join().unwrap();
    }

    #[test]
    fn one_that_does_not_wait_is_not_woken() {
        let mut poll = Poll::new().unwrap();
        let wakeup = Wakeup::new(poll.registry()).unwrap();
        let mut events = Events::with_capacity(4);
        let mut is_woken = || {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        wakeup.wake();
        assert!(!is_woken());
        wakeup.prepare_wait();
        wakeup.wake();
        wakeup.wake();
        assert!(is_woken());
        wakeup.prepare_wait();
        wakeup.end_wait();
        wakeup.wake();
        assert!(!is_woken());
    }
}
