//! The connections to a listener, in bounds that slow peers do not use up for others.
//!
//! Until the first request of a known caller has come a connection waits, among a bounded number of others; when one
//! more comes, the connection that has waited longest gives way, of the source that has the most. So a peer that sends
//! its request when it connects is served whatever others do, and peers that send nothing, or an octet now and then,
//! push out each other. Requests that have come are answered a few at a time, in their order; of those whose answer is
//! not read yet a source has a bounded part; when all places are taken, the newest connection of the source that has
//! the most gives way to one of a source with fewer. A source is a user of the Unix socket, or an address.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Answers that are made at a time.
const ANSWERING: usize = 16;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Connections whose request has not come, at most.
    pub(super) waiting: usize,
    /// Those of one source.
    pub(super) waiting_of_one: usize,
    /// Connections whose request has come, at most.
    pub(super) arrived: usize,
    /// Those of one source.
    pub(super) arrived_of_one: usize,
}

/// All connections of a listener, by source.
#[derive(Clone)]
pub(super) struct Connections<S> {
    bounds: Bounds,
    waiting: Arc<Mutex<Waiting<S>>>,
    /// Connections whose request has come.
    arrived: Arc<Mutex<Arrived<S>>>,
    answering: Arc<Semaphore>,
}

/// By source, the numbers of its connections, and what ends them.
type Arrived<S> = BTreeMap<S, BTreeMap<u64, Option<AbortHandle>>>;

struct Waiting<S> {
    /// By the order in which they came: whose they are, and what ends them once that is known.
    peers: BTreeMap<u64, Peer<S>>,
    next: u64,
}

struct Peer<S> {
    source: S,
    end: Option<AbortHandle>,
}

/// A connection's place. It is given back when it is dropped.
pub(super) struct Place<S: Copy + Ord> {
    connections: Connections<S>,
    number: u64,
    source: S,
    has_arrived: AtomicBool,
}

/// The turn of a request, until it is dropped.
pub(super) struct Turn(
    #[expect(dead_code, reason = "it is given back when it is dropped")] Option<OwnedSemaphorePermit>,
);

/// Where turns come from.
#[derive(Clone)]
pub(super) struct Turns(Arc<Semaphore>);

impl Turns {
    /// The next turn.
    pub(super) async fn next(self) -> Turn {
        // The semaphore is never closed.
        Turn(self.0.acquire_owned().await.ok())
    }
}

/// There are too many requests.
pub(super) struct TooMany;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind them is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Copy + Ord> Connections<S> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let waiting = Waiting {
            peers: BTreeMap::new(),
            next: 0,
        };
        Self {
            bounds,
            waiting: Arc::new(Mutex::new(waiting)),
            arrived: Arc::default(),
            answering: Arc::new(Semaphore::new(ANSWERING)),
        }
    }

    /// A place for a new connection of this source. Where none is left another connection ends.
    pub(super) fn enter(&self, source: S) -> Place<S> {
        let mut waiting = lock(&self.waiting);
        if waiting.count(source) >= self.bounds.waiting_of_one {
            waiting.end_oldest(source);
        } else if waiting.peers.len() >= self.bounds.waiting {
            waiting.end_one();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.peers.insert(number, Peer { source, end: None });
        drop(waiting);
        Place {
            connections: self.clone(),
            number,
            source,
            has_arrived: AtomicBool::new(false),
        }
    }

    /// Says what ends the connection whose place has this number, if it still waits.
    pub(super) fn ends_by(&self, number: u64, end: AbortHandle) {
        if let Some(peer) = lock(&self.waiting).peers.get_mut(&number) {
            peer.end = Some(end);
        }
    }
}

impl<S: Copy + Ord> Waiting<S> {
    fn count(&self, source: S) -> usize {
        self.peers.values().filter(|peer| peer.source == source).count()
    }

    /// Ends the connection that has waited longest, of the source that has the most.
    fn end_one(&mut self) {
        let mut counts: BTreeMap<S, usize> = BTreeMap::new();
        for peer in self.peers.values() {
            *counts.entry(peer.source).or_default() += 1;
        }
        if let Some((source, _)) = counts.into_iter().max_by_key(|(_, count)| *count) {
            self.end_oldest(source);
        }
    }

    /// Ends the connection of this source that has waited longest.
    fn end_oldest(&mut self, source: S) {
        let oldest = self.peers.iter().find(|(_, peer)| peer.source == source);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return;
        };
        if let Some(end) = self.peers.remove(&number).and_then(|peer| peer.end) {
            end.abort();
        }
    }
}

/// Ends the newest connection of the source that has the most, if that is more than `fewer`.
fn end_newest<S: Copy + Ord>(arrived: &mut Arrived<S>, fewer: usize) -> bool {
    let most = arrived.values_mut().max_by_key(|own| own.len());
    let Some(own) = most.filter(|own| own.len() > fewer) else {
        return false;
    };
    let newest = own.keys().next_back().copied();
    if let Some(end) = newest.and_then(|number| own.remove(&number)).flatten() {
        end.abort();
    }
    true
}

impl<S: Copy + Ord> Place<S> {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The connection's request has come. Only a source with fewer connections ends it now, when there are as many as
    /// may be.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(super) fn arrived(&self) -> Result<(), TooMany> {
        let peer = lock(&self.connections.waiting).peers.remove(&self.number);
        if !self.has_arrived.load(Ordering::Relaxed) {
            let bounds = self.connections.bounds;
            let mut arrived = lock(&self.connections.arrived);
            let all: usize = arrived.values().map(BTreeMap::len).sum();
            let own = arrived.get(&self.source).map_or(0, BTreeMap::len);
            if own >= bounds.arrived_of_one || (all >= bounds.arrived && !end_newest(&mut arrived, own + 1)) {
                return Err(TooMany);
            }
            let end = peer.and_then(|peer| peer.end);
            arrived.entry(self.source).or_default().insert(self.number, end);
            self.has_arrived.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Where its requests get their turns.
    pub(super) fn turns(&self) -> Turns {
        Turns(Arc::clone(&self.connections.answering))
    }
}

impl<S: Copy + Ord> Drop for Place<S> {
    fn drop(&mut self) {
        lock(&self.connections.waiting).peers.remove(&self.number);
        if *self.has_arrived.get_mut() {
            let mut arrived = lock(&self.connections.arrived);
            if let Some(own) = arrived.get_mut(&self.source) {
                own.remove(&self.number);
                if own.is_empty() {
                    arrived.remove(&self.source);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITING: usize = 64;
    const ARRIVED_OF_ONE: usize = 128;
    const BOUNDS: Bounds = Bounds {
        waiting: WAITING,
        waiting_of_one: WAITING,
        arrived: 256,
        arrived_of_one: ARRIVED_OF_ONE,
    };

    fn waiting(connections: &Connections<u32>) -> Vec<(u64, u32)> {
        let waiting = lock(&connections.waiting);
        waiting
            .peers
            .iter()
            .map(|(number, peer)| (*number, peer.source))
            .collect()
    }

    #[test]
    fn a_source_at_its_bound_ends_its_own_oldest() {
        let connections = Connections::new(Bounds {
            waiting_of_one: 3,
            ..BOUNDS
        });
        let _other = connections.enter(7);
        let own: Vec<Place<u32>> = (0..5).map(|_| connections.enter(8)).collect();
        let left: Vec<u64> = waiting(&connections)
            .into_iter()
            .map(|(number, _)| number)
            .collect();
        assert_eq!(left, [0, own[2].number(), own[3].number(), own[4].number()]);
    }

    #[test]
    fn the_oldest_of_the_user_with_the_most_gives_way() {
        let connections = Connections::new(BOUNDS);
        let first = connections.enter(7);
        let others: Vec<Place<u32>> = (0..200).map(|_| connections.enter(8)).collect();
        let left = waiting(&connections);
        assert_eq!(left.len(), WAITING);
        assert_eq!(left[0], (first.number(), 7));
        let newest = others
            .iter()
            .rev()
            .take(WAITING - 1)
            .map(|place| (place.number(), 8));
        assert!(
            left[1..]
                .iter()
                .copied()
                .eq(newest.collect::<Vec<_>>().into_iter().rev())
        );
    }

    #[test]
    fn a_place_is_given_back() {
        let connections = Connections::new(BOUNDS);
        drop(connections.enter(7));
        assert_eq!(waiting(&connections), []);
    }

    /// However slowly they read their answers.
    #[test]
    fn one_user_leaves_room_for_the_requests_of_others() {
        let connections = Connections::new(BOUNDS);
        let arrives = |user| {
            let place = connections.enter(user);
            let is_served = place.arrived().is_ok();
            (place, is_served)
        };
        let of_one: Vec<(Place<u32>, bool)> = (0..200).map(|_| arrives(8)).collect();
        assert_eq!(
            of_one.iter().filter(|(_, served)| *served).count(),
            ARRIVED_OF_ONE
        );
        assert!(arrives(7).1);
        drop(of_one);
        assert!(arrives(8).1);
        assert_eq!(lock(&connections.arrived).len(), 0);
    }

    #[test]
    fn sources_with_many_connections_give_way_to_those_with_fewer() {
        let connections = Connections::new(BOUNDS);
        let arrives = |user| {
            let place = connections.enter(user);
            let is_served = place.arrived().is_ok();
            (place, is_served)
        };
        let _of_two: Vec<_> = (0..256).map(|number| arrives(number % 2)).collect();
        let mut of_others: Vec<_> = (2..12).map(arrives).collect();
        assert!(of_others.iter().all(|(_, is_served)| *is_served));
        let counts = || -> Vec<usize> { lock(&connections.arrived).values().map(BTreeMap::len).collect() };
        assert_eq!(counts()[..2], [123, 123]);
        assert_eq!(counts().iter().sum::<usize>(), 256);
        // A source that has as many as any other ends none.
        assert!(!arrives(0).1);
        of_others.clear();
        assert_eq!(counts(), [123, 123]);
        assert!(arrives(0).1);
    }
}
