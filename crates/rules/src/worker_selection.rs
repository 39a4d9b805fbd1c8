//! Worker selection: which worker gets the packets of a tunnel or of a UE address.
//!
//! A packet belongs to the owner of the bucket of its TEID or UE address ([`flow::bucket`]), unless every worker has an
//! exception for its key: TEIDs that a control plane chose, and the second address of a dual-stack UE, have another
//! bucket than their session. An exception names the session's bucket and not its worker. Each worker finds the owner
//! in its own bucket table, so that an exception stays right when the bucket moves.

use flow::{Bucket, LocalId, VrfId, WorkerId, bucket};
use nat::pools::BlockId;
use packet::Teid;

use crate::prefix::IpPrefix;

/// What selects the worker of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkerSelectionKey {
    /// A GTP-U packet: the local address and the TEID.
    Tunnel(LocalId, Teid),
    /// A plain packet: the address space and the UE's address.
    Address(VrfId, IpPrefix),
}

impl WorkerSelectionKey {
    /// The bucket of the value itself.
    pub fn bucket(self) -> Bucket {
        match self {
            WorkerSelectionKey::Tunnel(_, teid) => bucket::of_teid(teid.0),
            WorkerSelectionKey::Address(_, prefix) => bucket::of_address(prefix.address()),
        }
    }

    /// Whether packets with this key reach the owner of `bucket` by an exception only: because the bucket of the value
    /// is another, or because the addresses of a prefix that is shorter than /32 (IPv6: /64) are in many buckets.
    pub fn needs_exception(self, bucket: Bucket) -> bool {
        let spans = match self {
            WorkerSelectionKey::Tunnel(..) => false,
            WorkerSelectionKey::Address(_, prefix) => prefix.len() < if prefix.is_ipv4() { 32 } else { 64 },
        };
        spans || self.bucket() != bucket
    }
}

/// A change of one worker's table for worker selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerSelectionChange {
    /// A bucket belongs to another worker from now on.
    Bucket {
        /// The bucket.
        bucket: Bucket,
        /// Its owner.
        owner: WorkerId,
    },
    /// Packets with this key belong to the owner of `bucket`, which replaces an earlier exception of the same key;
    /// `None` removes the exception.
    Exception {
        /// The key.
        key: WorkerSelectionKey,
        /// The bucket of the session.
        bucket: Option<Bucket>,
    },
    /// Packets to the public address and the ports of this block belong to the owner of `bucket`; `None`: no session
    /// has it.
    PortBlock {
        /// The block.
        block: BlockId,
        /// The bucket of the session.
        bucket: Option<Bucket>,
    },
}
