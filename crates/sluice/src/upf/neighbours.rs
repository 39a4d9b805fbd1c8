//! The neighbour table as Control's two users see it: Control itself, and the compiler of session rules, which asks
//! for the next hop of a tunnel while Control is busy with a request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::{AdjacencyId, InstanceId, Nanos};
use rules::compile::Adjacencies;
use transport::Neighbours;

/// A handle to the table. Both users are on Control's thread, so the lock never waits.
#[derive(Clone)]
pub(super) struct SharedNeighbours {
    table: Arc<Mutex<Table>>,
    /// Entries beyond which rules get no new ones: next hops that rules name stay for ever, and gateways and hosts on
    /// the link need theirs.
    most_for_rules: usize,
}

/// The table and the time of the current poll.
pub(super) struct Table {
    pub(super) neighbours: Neighbours,
    now: Nanos,
}

impl SharedNeighbours {
    /// A handle to a table for `capacity` neighbours.
    pub(super) fn new(neighbours: Neighbours, capacity: usize) -> Self {
        let table = Arc::new(Mutex::new(Table {
            neighbours,
            now: Nanos(0),
        }));
        Self {
            table,
            most_for_rules: capacity / 4 * 3,
        }
    }

    /// Notes the time for what the compiler asks next.
    pub(super) fn set_time(&self, now: Nanos) {
        drop(self.at(now));
    }

    /// The table, for a poll at `now`.
    pub(super) fn at(&self, now: Nanos) -> MutexGuard<'_, Table> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.now = now;
        table
    }
}

impl Adjacencies for SharedNeighbours {
    fn resolve(&self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let now = table.now;
        let known = table.neighbours.find(instance, next_hop).is_some();
        if !known && table.neighbours.len() >= self.most_for_rules {
            return None;
        }
        table.neighbours.pin(now, instance, next_hop).ok()
    }
}
