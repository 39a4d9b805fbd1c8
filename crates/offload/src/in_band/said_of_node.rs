//! Which channels have given an object of the node, which all of them give: it stays while one has not removed it. One
//! that was refused has given it, too: it is to be there for that channel, which does not say it again.

use std::collections::HashMap;

use flow::contract::ObjectId;

/// Objects that are remembered, at most: more than any node has. Those beyond stay until no channel is in contact.
const MOST: usize = 1 << 17;

/// The channels by which each object of the node was given, since it came.
#[derive(Debug, Default)]
pub struct SaidOfNode {
    /// A bit for each place, of which there are 64.
    by: HashMap<ObjectId, u64>,
}

impl SaidOfNode {
    /// The channel at a place gives an object.
    pub fn give(&mut self, id: ObjectId, place: usize) {
        if self.by.len() < MOST || self.by.contains_key(&id) {
            *self.by.entry(id).or_default() |= bit(place);
        }
    }

    /// The channel at a place removes an object. Whether others have given it, for whom it stays.
    pub fn remove(&mut self, id: ObjectId, place: usize) -> bool {
        let Some(by) = self.by.get_mut(&id) else {
            return false;
        };
        *by &= !bit(place);
        let stays = *by != 0;
        if !stays {
            self.by.remove(&id);
        }
        stays
    }

    /// The channel at a place is gone: the objects that no other has given, which are gone with it.
    pub fn end(&mut self, place: usize) -> Vec<ObjectId> {
        let mut alone = Vec::new();
        self.by.retain(|id, by| {
            let others = *by & !bit(place);
            if others == 0 && *by != 0 {
                alone.push(*id);
            }
            *by = others;
            others != 0
        });
        alone
    }

    /// All objects are gone.
    pub fn clear(&mut self) {
        self.by.clear();
    }
}

/// Places beyond the last bit share it: a host has no more channels than that.
const fn bit(place: usize) -> u64 {
    1 << if place < 63 { place } else { 63 }
}

#[cfg(test)]
mod tests {
    use flow::AdjacencyId;

    use super::*;

    #[test]
    fn an_object_is_there_while_one_of_those_is_that_have_given_it() {
        let mut said = SaidOfNode::default();
        let [one, other, third] = [1, 2, 3].map(|id| ObjectId::Adjacency(AdjacencyId(id)));
        for (id, place) in [(one, 0), (one, 63), (other, 0), (third, 1)] {
            said.give(id, place);
        }
        assert_eq!(said.end(0), [other]);
        assert_eq!(said.end(0), []);
        assert!(!said.remove(third, 1), "no other has given it");
        assert_eq!(said.end(1), []);
        assert_eq!(said.end(63), [one]);
    }

    #[test]
    fn an_object_that_one_removes_stays_for_the_others() {
        let mut said = SaidOfNode::default();
        let id = ObjectId::Adjacency(AdjacencyId(1));
        assert!(!said.remove(id, 0), "none has given it");
        for place in [0, 1, 2] {
            said.give(id, place);
        }
        assert!(said.remove(id, 0) && said.remove(id, 0));
        assert_eq!(said.end(2), []);
        said.give(id, 0);
        assert!(said.remove(id, 1));
        assert!(!said.remove(id, 0));
        assert_eq!(said.end(0), []);
    }
}
