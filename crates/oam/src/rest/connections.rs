//! The connections to the API's socket, in bounds that slow peers do not use up for others.
//!
//! A connection has one request. Until that has come it waits, among a bounded number of others; when one more comes,
//! the connection that has waited longest gives way, of the user who has the most. So a peer that sends its request
//! when it connects is served whatever others do, and peers that send nothing, or an octet now and then, push out each
//! other. Requests that have come are answered a few at a time, in their order; of those whose answer is not read yet a
//! user has a bounded part.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Connections whose request has not come, at most.
const WAITING: usize = 64;
/// Connections whose request has come, at most; what exceeds it is refused.
const ARRIVED: usize = 256;
/// Those of one user.
const ARRIVED_OF_ONE: usize = 128;
/// Answers that are made at a time.
const ANSWERING: usize = 16;

/// All connections.
#[derive(Clone)]
pub(super) struct Connections {
    waiting: Arc<Mutex<Waiting>>,
    /// Connections whose request has come, by user.
    arrived: Arc<Mutex<BTreeMap<u32, usize>>>,
    answering: Arc<Semaphore>,
}

#[derive(Default)]
struct Waiting {
    /// By the order in which they came: whose they are, and what ends them once that is known.
    peers: BTreeMap<u64, (u32, Option<AbortHandle>)>,
    next: u64,
}

/// A connection's place. It is given back when it is dropped.
pub(super) struct Place {
    connections: Connections,
    number: u64,
    user: u32,
    has_arrived: AtomicBool,
}

/// The turn of a request, until it is dropped.
pub(super) struct Turn(
    #[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit,
);

/// There are too many requests.
pub(super) struct TooMany;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind them is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            waiting: Arc::default(),
            arrived: Arc::default(),
            answering: Arc::new(Semaphore::new(ANSWERING)),
        }
    }

    /// A place for a new connection of this user. Where none is left another connection ends.
    pub(super) fn enter(&self, user: u32) -> Place {
        let mut waiting = lock(&self.waiting);
        if waiting.peers.len() >= WAITING {
            waiting.end_one();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.peers.insert(number, (user, None));
        drop(waiting);
        Place {
            connections: self.clone(),
            number,
            user,
            has_arrived: AtomicBool::new(false),
        }
    }

    /// Says what ends the connection whose place has this number, if it still waits.
    pub(super) fn ends_by(&self, number: u64, end: AbortHandle) {
        if let Some((_, known)) = lock(&self.waiting).peers.get_mut(&number) {
            *known = Some(end);
        }
    }
}

impl Waiting {
    /// Ends the connection that has waited longest, of the user who has the most.
    fn end_one(&mut self) {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (user, _) in self.peers.values() {
            *counts.entry(*user).or_default() += 1;
        }
        let most = counts
            .iter()
            .max_by_key(|(_, count)| **count)
            .map(|(user, _)| *user);
        let oldest = self.peers.iter().find(|(_, (user, _))| Some(*user) == most);
        if let Some((_, end)) = oldest
            .map(|(number, _)| *number)
            .and_then(|number| self.peers.remove(&number))
            && let Some(end) = end
        {
            end.abort();
        }
    }
}

impl Place {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The connection's request has come: nothing ends it any more, and it waits for its turn.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(super) async fn arrived(&self) -> Result<Turn, TooMany> {
        lock(&self.connections.waiting).peers.remove(&self.number);
        if !self.has_arrived.load(Ordering::Relaxed) {
            let mut arrived = lock(&self.connections.arrived);
            let all: usize = arrived.values().sum();
            let own = arrived.entry(self.user).or_default();
            if all >= ARRIVED || *own >= ARRIVED_OF_ONE {
                return Err(TooMany);
            }
            *own += 1;
            self.has_arrived.store(true, Ordering::Relaxed);
        }
        // The semaphore is never closed.
        let turn = Arc::clone(&self.connections.answering).acquire_owned().await;
        turn.map(Turn).map_err(|_| TooMany)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.connections.waiting).peers.remove(&self.number);
        if *self.has_arrived.get_mut() {
            let mut arrived = lock(&self.connections.arrived);
            let own = arrived.entry(self.user).or_default();
            *own -= 1;
            if *own == 0 {
                arrived.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(connections: &Connections) -> Vec<(u64, u32)> {
        let waiting = lock(&connections.waiting);
        waiting
            .peers
            .iter()
            .map(|(number, (user, _))| (*number, *user))
            .collect()
    }

    #[test]
    fn the_oldest_of_the_user_with_the_most_gives_way() {
        let connections = Connections::new();
        let first = connections.enter(7);
        let others: Vec<Place> = (0..200).map(|_| connections.enter(8)).collect();
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
        let connections = Connections::new();
        drop(connections.enter(7));
        assert_eq!(waiting(&connections), []);
    }

    /// However slowly they read their answers.
    #[test]
    fn one_user_leaves_room_for_the_requests_of_others() {
        let connections = Connections::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let arrives = |user| {
            let place = connections.enter(user);
            let turn = runtime.block_on(place.arrived());
            (place, turn.is_ok())
        };
        let of_one: Vec<(Place, bool)> = (0..200).map(|_| arrives(8)).collect();
        assert_eq!(
            of_one.iter().filter(|(_, served)| *served).count(),
            ARRIVED_OF_ONE
        );
        assert!(arrives(7).1);
        drop(of_one);
        assert!(arrives(8).1);
        assert_eq!(lock(&connections.arrived).len(), 0);
    }
}
