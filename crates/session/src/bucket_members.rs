//! Which sessions live in which bucket: what a move of the bucket takes along.
//!
//! Owned by control. In no order that means anything, but the same in every run.

use flow::{BUCKETS, Bucket, SessionIndex};

/// The sessions of every bucket that peers can address.
#[derive(Debug)]
pub(crate) struct BucketMembers {
    lists: Vec<Vec<SessionIndex>>,
}

impl BucketMembers {
    /// None.
    pub(crate) fn new() -> BucketMembers {
        BucketMembers {
            lists: vec![Vec::new(); BUCKETS],
        }
    }

    /// The sessions of `bucket`.
    pub(crate) fn of(&self, bucket: Bucket) -> &[SessionIndex] {
        self.lists.get(bucket.index()).map_or(&[], Vec::as_slice)
    }

    /// Adds a session and answers its place, which the session remembers.
    pub(crate) fn add(&mut self, bucket: Bucket, session: SessionIndex) -> usize {
        let Some(list) = self.lists.get_mut(bucket.index()) else {
            return 0;
        };
        list.push(session);
        list.len() - 1
    }

    /// Takes out the session at `place`. Answers the one that has that place now, if there is one.
    pub(crate) fn remove(&mut self, bucket: Bucket, place: usize) -> Option<SessionIndex> {
        let list = self.lists.get_mut(bucket.index())?;
        if place < list.len() {
            list.swap_remove(place);
        }
        list.get(place).copied()
    }
}
