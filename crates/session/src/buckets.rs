//! The bucket table: which worker owns each bucket, which two workers have the bucket that moves, and in which buckets
//! sessions of each slice may be.

use flow::{Bucket, WorkerId};
use rules::model::SNssai;

use crate::slice_workers::{AllowedBuckets, SliceBuckets, SliceWorkers};

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
    slices: SliceBuckets,
}

impl BucketTable {
    /// The table of `count` workers, of which slices may have some; no bucket moves.
    pub(crate) fn new(owners: Vec<WorkerId>, count: u16, slice_workers: SliceWorkers) -> BucketTable {
        let owner = |bucket: Bucket| owners.get(bucket.index()).copied().unwrap_or_default();
        let slices = SliceBuckets::new(slice_workers, owner);
        BucketTable {
            owners,
            count,
            moving: None,
            slices,
        }
    }

    /// The buckets that sessions of a slice may be in.
    pub(crate) fn allowed(&self, slice: Option<SNssai>) -> AllowedBuckets<'_> {
        self.slices.of(slice)
    }

    /// Whether a worker may own a bucket: it serves all slices whose sessions may be there.
    pub(crate) fn may_own(&self, worker: WorkerId, bucket: Bucket) -> bool {
        self.slices.may_own(worker, bucket)
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
