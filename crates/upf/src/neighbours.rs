//! The neighbour table as Control's two users see it: Control itself, and the compiler of session rules, which asks
//! for the next hop of a tunnel while Control is busy with a request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::{AdjacencyId, InstanceId, Nanos};
use rules::network::Network;
use rules::network::multipath::GroupId;
use rules::{Adjacencies, AdjacencyRef};
use transport::{Neighbours, Routes};

use config::StaticNeighbour;

/// A handle to the table. Both users are on Control's thread, so the lock never waits.
#[derive(Clone)]
pub(super) struct SharedNeighbours(Arc<Mutex<Table>>);

/// The table and the time of the current poll.
pub struct Table {
    /// The neighbours.
    pub neighbours: Neighbours,
    /// When Control was polled last.
    pub now: Nanos,
}

impl SharedNeighbours {
    /// A handle to this table.
    pub(super) fn new(neighbours: Neighbours) -> Self {
        Self(Arc::new(Mutex::new(Table {
            neighbours,
            now: Nanos(0),
        })))
    }

    /// Notes the time for what the compiler asks next.
    pub(super) fn set_time(&self, now: Nanos) {
        drop(self.at(now));
    }

    /// The table, for a poll at `now`.
    pub(super) fn at(&self, now: Nanos) -> MutexGuard<'_, Table> {
        let mut table = self.lock();
        table.now = now;
        table
    }

    /// The table as of the last poll, for views.
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adjacencies for SharedNeighbours {
    fn resolve(&self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        let mut table = self.lock();
        let now = table.now;
        table.neighbours.refer(now, instance, next_hop).ok()
    }

    fn path(&self, group: GroupId, path: u8) -> Option<AdjacencyId> {
        self.lock().neighbours.path(group, path)
    }

    /// The session's image has it until Control frees the image.
    fn hold(&self, next_hop: AdjacencyId) -> AdjacencyRef {
        self.lock().neighbours.hold(next_hop)
    }
}

/// Enters what is configured and asks for the gateways.
pub(super) fn prepare(
    now: Nanos,
    neighbours: &SharedNeighbours,
    network: &Network,
    fixed: &[StaticNeighbour],
) {
    let mut table = neighbours.at(now);
    let neighbours = &mut table.neighbours;
    for neighbour in fixed {
        // There is room: capacity is far above what a configuration can name.
        let _ = neighbours.add_static(neighbour.instance, neighbour.address, neighbour.mac);
    }
    neighbours.balance(now, network.groups());
    for (instance, gateway) in Routes::new(network).gateways() {
        if neighbours.find(instance, gateway).is_none() {
            let _ = neighbours.pin(now, instance, gateway);
        }
    }
    neighbours.announce();
}
