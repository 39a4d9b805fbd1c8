//! Steering: which worker gets the packets of a tunnel or UE address whose own bucket is not the session's.
//!
//! A value that the user plane draws lies in the session's bucket, and the bucket table alone finds the owner. The
//! rest (TEIDs that a peer chose, the second address of a dual-stack UE) is told to every worker as an exception. An
//! exception names the session's bucket, not its worker: each worker looks the owner up in its own copy of the bucket
//! table, so that an exception stays right when the bucket moves.

use flow::{Bucket, LocalId, VrfId, WorkerId, bucket};
use packet::Teid;
use rules::prefix::IpPrefix;
use std::net::IpAddr;

use crate::addresses::UeAddress;
use crate::tunnels::Tunnel;

/// What a packet is steered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SteerKey {
    /// A GTP-U packet: our address and the TEID.
    Tunnel(LocalId, Teid),
    /// A plain packet: the address space and the UE's address.
    Address(VrfId, IpPrefix),
}

impl SteerKey {
    /// The bucket that the value itself lies in.
    pub fn bucket(self) -> Bucket {
        match self {
            SteerKey::Tunnel(_, teid) => bucket::of_teid(teid.0),
            SteerKey::Address(_, prefix) => prefix_bucket(prefix),
        }
    }
}

impl SteerKey {
    /// Whether packets with this key must be told to belong to `bucket`, because their own is, or may be, another: the
    /// addresses of a prefix that is wider than what a bucket is made from lie in many.
    pub(crate) fn strays_from(self, bucket: Bucket) -> bool {
        let spans = match self {
            SteerKey::Tunnel(..) => false,
            SteerKey::Address(_, prefix) => prefix.len() < if prefix.is_ipv4() { 32 } else { 64 },
        };
        spans || self.bucket() != bucket
    }
}

/// The keys of these tunnels and UE addresses.
pub(crate) fn keys<'a>(
    tunnels: &'a [Tunnel],
    addresses: &'a [UeAddress],
) -> impl Iterator<Item = SteerKey> + 'a {
    let tunnels = tunnels
        .iter()
        .map(|(local, teid)| SteerKey::Tunnel(*local, *teid));
    tunnels.chain(
        addresses
            .iter()
            .map(|(vrf, prefix)| SteerKey::Address(*vrf, *prefix)),
    )
}

/// The bucket of a UE address or prefix.
pub fn prefix_bucket(prefix: IpPrefix) -> Bucket {
    match prefix.address() {
        IpAddr::V4(v4) => bucket::of_ipv4(v4.octets()),
        IpAddr::V6(v6) => {
            let [a, b, c, d, e, f, g, h, ..] = v6.octets();
            bucket::of_ipv6_prefix([a, b, c, d, e, f, g, h])
        }
    }
}

/// A change of one worker's steering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerChange {
    /// A bucket belongs to another worker from now on.
    Bucket {
        /// The bucket.
        bucket: Bucket,
        /// Its owner.
        owner: WorkerId,
    },
    /// Packets with this key belong to the owner of `bucket`. Overrides an earlier exception of the same key.
    Add {
        /// What to look at.
        key: SteerKey,
        /// Whose owner gets the packet.
        bucket: Bucket,
    },
    /// The exception for this key is over.
    Remove {
        /// What to look at no more.
        key: SteerKey,
    },
}
