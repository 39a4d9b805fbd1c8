//! The bucket table: which worker owns each bucket, and which two workers have the bucket that moves.

use flow::{Bucket, WorkerId};

/// A bucket that moves from one worker to another.
#[derive(Clone, Copy, Debug)]
struct MovingBucket {
    bucket: Bucket,
    workers: [WorkerId; 2],
}

/// The owners of all buckets.
#[derive(Debug)]
pub(crate) struct BucketTable {
    /// By bucket; a bucket without an entry belongs to worker 0.
    owners: Vec<WorkerId>,
    /// Number of workers.
    count: u16,
    moving: Option<MovingBucket>,
}

impl BucketTable {
    /// The table of `count` workers; no bucket moves.
    pub(crate) fn new(owners: Vec<WorkerId>, count: u16) -> BucketTable {
        BucketTable {
            owners,
            count,
            moving: None,
        }
    }

    /// The number of workers.
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// All workers.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.count).map(WorkerId)
    }

    /// The worker that owns `bucket`.
    pub(crate) fn owner(&self, bucket: Bucket) -> WorkerId {
        self.owners.get(bucket.index()).copied().unwrap_or_default()
    }

    /// Makes a worker the owner of a bucket.
    pub(crate) fn set_owner(&mut self, bucket: Bucket, owner: WorkerId) {
        if let Some(entry) = self.owners.get_mut(bucket.index()) {
            *entry = owner;
        }
    }

    /// The bucket of a session some of whose keys may need worker selection exceptions: `None` with a single worker,
    /// where none do.
    pub(crate) fn with_exceptions(&self, bucket: Bucket) -> Option<Bucket> {
        Some(bucket).filter(|_| self.count > 1)
    }

    /// `bucket` begins to move between these workers.
    pub(crate) fn begin_move(&mut self, bucket: Bucket, workers: [WorkerId; 2]) {
        self.moving = Some(MovingBucket { bucket, workers });
    }

    /// No bucket moves any more.
    pub(crate) fn end_move(&mut self) {
        self.moving = None;
    }

    /// The worker beside the owner of `bucket` that is to have its sessions, if the bucket moves.
    pub(crate) fn other(&self, bucket: Bucket) -> Option<WorkerId> {
        let moving = self.moving.filter(|moving| moving.bucket == bucket)?;
        let [first, second] = moving.workers;
        Some(if self.owner(bucket) == first {
            second
        } else {
            first
        })
    }
}
