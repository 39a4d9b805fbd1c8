//! What the local backend needs of the node: meters that sessions share, and which next hops are there.

use std::collections::HashSet;

use crate::contract::{Object, ObjectId};
use crate::meter::{SharedId, SharedMeters};
use crate::{AdjacencyId, Direction};

pub(super) struct Node {
    /// Next hops that packets can leave by.
    resolved: HashSet<AdjacencyId>,
    pub(super) shared: SharedMeters,
}

impl Node {
    /// Nothing yet, with room for this many shared meters.
    pub(super) fn new(shared_meters: u16) -> Self {
        Self {
            resolved: HashSet::new(),
            shared: SharedMeters::new(shared_meters),
        }
    }

    /// An object comes, changes or goes. Instances and routes do not matter to who is given keys.
    pub(super) fn change(&mut self, id: ObjectId, object: Option<&Object>) {
        match (id, object) {
            (ObjectId::Adjacency(id), object) => {
                let is_resolved = |object: &Object| matches!(object, Object::Adjacency { adjacency, .. } if adjacency.mac.is_some());
                match object.is_some_and(is_resolved) {
                    true => self.resolved.insert(id),
                    false => self.resolved.remove(&id),
                };
            }
            (_, Some(&Object::SharedMeter { id, rates, bursts })) => {
                for (way, (rate, burst)) in Direction::BOTH.into_iter().zip(rates.into_iter().zip(bursts)) {
                    self.shared.set(id, way, rate, burst);
                }
            }
            (_, Some(&Object::SharedChain { id, chain })) => drop(self.shared.set_chain(id, chain)),
            // A meter that is not there lets everything pass; a number without a chain has its own meter.
            (ObjectId::SharedMeter(id), None) => self.shared.forget(id),
            (ObjectId::SharedChain(id), None) => {
                let none = SharedId::NONE;
                self.shared.set_chain(id, [id, none, none, none]);
            }
            _ => {}
        }
    }

    /// Whether packets can leave by a next hop.
    pub(super) fn leads_on(&self, id: AdjacencyId) -> bool {
        id == AdjacencyId::BY_DESTINATION || self.resolved.contains(&id)
    }
}
