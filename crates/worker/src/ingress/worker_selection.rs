//! Worker selection: finds the worker that owns a packet's session, by the bucket of the packet's TEID or UE address,
//! or by an exception.
//!
//! An exception maps a TEID or UE address to the bucket of its session. Bucket moves leave exceptions as they are.
//!
//! Every worker has its own copy, which control changes by commands. A worker whose copy is not up to date hands a
//! packet to a worker that does not know its session; it never hands it to two.

use std::net::IpAddr;

use flow::{BUCKETS, Bucket, LocalId, VrfId, WorkerId, bucket};
use nat::pools::{BlockId, NatPools};
use packet::{PacketBuf, Teid};
use rules::classifier::Side;
use rules::worker_selection::{WorkerSelectionChange, WorkerSelectionKey};

use crate::burst::descriptor::{Descriptor, Fate, Keys};
use crate::nat::{PublicPacket, quoted};
use crate::sessions::fixed_map::{FixedMap, tunnel_key};
use crate::sessions::ue_map::UeMap;

/// The owner of each bucket, and the bucket of each exception.
pub(crate) struct WorkerSelection {
    buckets: [WorkerId; BUCKETS],
    tunnels: FixedMap<2>,
    addresses: UeMap,
    /// By port block: one more than the number of its session's bucket, 0 without one.
    port_blocks: Box<[u16]>,
}

impl WorkerSelection {
    /// Buckets dealt out to `workers` in turn; room for `exceptions` of each kind, and for the owners of `port_blocks`.
    pub fn new(workers: u16, exceptions: usize, port_blocks: u32) -> Self {
        let owner = |bucket: usize| WorkerId(bucket as u16 % workers.max(1));
        Self {
            buckets: std::array::from_fn(owner),
            tunnels: FixedMap::new(exceptions),
            addresses: UeMap::new(exceptions),
            port_blocks: vec![0; port_blocks as usize].into(),
        }
    }

    /// Number of exceptions, of TEIDs and of UE addresses.
    pub fn exceptions(&self) -> usize {
        self.tunnels.len() + self.addresses.len()
    }

    /// Applies a change. False when the table of exceptions is full.
    pub fn apply(&mut self, change: WorkerSelectionChange) -> bool {
        match change {
            WorkerSelectionChange::Bucket { bucket, owner } => self.buckets[bucket.index()] = owner,
            WorkerSelectionChange::Exception { key, bucket } => match (key, bucket) {
                (WorkerSelectionKey::Tunnel(local, teid), None) => {
                    self.tunnels.remove(&tunnel_key((local, teid)));
                }
                (WorkerSelectionKey::Tunnel(local, teid), Some(bucket)) => {
                    let key = tunnel_key((local, teid));
                    return self.tunnels.insert(key, value(bucket)).is_ok();
                }
                (WorkerSelectionKey::Address(vrf, prefix), None) => self.addresses.remove(vrf, prefix),
                (WorkerSelectionKey::Address(vrf, prefix), Some(bucket)) => {
                    return self.addresses.insert(vrf, prefix, value(bucket)).is_ok();
                }
            },
            WorkerSelectionChange::PortBlock { block, bucket } => {
                if let Some(place) = self.port_blocks.get_mut(block.0 as usize) {
                    *place = bucket.map_or(0, |bucket| bucket.index() as u16 + 1);
                }
            }
        }
        true
    }

    /// The owner of the session that has a port block; `None` where none has it.
    #[inline]
    pub fn of_port_block(&self, block: BlockId) -> Option<WorkerId> {
        let bucket = self.port_blocks.get(block.0 as usize)?.checked_sub(1)?;
        Some(self.of_bucket(Bucket::of_rss_hash(bucket.into())))
    }

    /// The owner of a tunnel.
    #[inline]
    pub fn of_tunnel(&self, local: LocalId, teid: Teid) -> WorkerId {
        if !self.tunnels.is_empty()
            && let Some(bucket) = self.tunnels.at(&tunnel_key((local, teid)))
        {
            return self.of_bucket(Bucket::of_rss_hash(bucket));
        }
        self.of_bucket(bucket::of_teid(teid.0))
    }

    /// The owner of a UE address.
    #[inline]
    pub fn of_address(&self, vrf: VrfId, address: IpAddr) -> WorkerId {
        if !self.addresses.is_empty()
            && let Some(bucket) = self.addresses.lookup(vrf, address)
        {
            return self.of_bucket(Bucket::of_rss_hash(bucket));
        }
        self.of_bucket(bucket::of_address(address))
    }

    #[inline]
    pub fn of_bucket(&self, bucket: Bucket) -> WorkerId {
        self.buckets[bucket.index()]
    }
}

/// A bucket as the maps hold it: [`Bucket::of_rss_hash`] gives it back.
fn value(bucket: Bucket) -> u32 {
    bucket.index() as u32
}

/// Stage `select_worker`: sets the fate [`Fate::HandOver`] of user packets whose session another worker than `me` owns.
///
/// A packet that another worker handed over is processed here, even if its session has moved since: packets do not
/// circulate between workers.
pub(crate) fn select_workers<B: PacketBuf>(
    (selection, pools): (&WorkerSelection, Option<&NatPools>),
    me: WorkerId,
    packets: &[B],
    descriptors: &mut [Descriptor],
    keys: &Keys,
) {
    for (index, descriptor) in descriptors.iter_mut().enumerate() {
        if !descriptor.is_open_user() || descriptor.from_inbox {
            continue;
        }
        let owner = match descriptor.side {
            Side::Tunnel { local, teid, .. } => selection.of_tunnel(local, teid),
            Side::Plain { vrf } => {
                let public = pools.and_then(|pools| {
                    let packet = PublicPacket::new(&packets[index], descriptor, keys, index)?;
                    let address = packet.public_address(pools, vrf)?;
                    Some(packet.block((pools, vrf, address), || quoted(&packets[index], descriptor)))
                });
                match (public, keys.destination(index, descriptor.family)) {
                    // What is for no session ends here.
                    (Some(block), _) => block
                        .and_then(|block| selection.of_port_block(block))
                        .unwrap_or(me),
                    (None, Some(address)) => selection.of_address(vrf, address),
                    (None, None) => me,
                }
            }
        };
        if owner != me {
            descriptor.fate = Fate::HandOver(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_come_before_buckets() {
        let mut selection = WorkerSelection::new(2, 8, 0);
        let (local, teid, vrf) = (LocalId(0), Teid(77), VrfId(0));
        let address = IpAddr::from([10, 45, 0, 1]);
        for owner in [WorkerId(1), WorkerId(0)] {
            selection.apply(WorkerSelectionChange::Bucket {
                bucket: bucket::of_teid(77),
                owner,
            });
            selection.apply(WorkerSelectionChange::Bucket {
                bucket: bucket::of_ipv4([10, 45, 0, 1]),
                owner,
            });
            assert_eq!(
                (
                    selection.of_tunnel(local, teid),
                    selection.of_address(vrf, address)
                ),
                (owner, owner)
            );
        }
        let elsewhere = a_bucket_of(WorkerId(1));
        let (bucket, prefix) = (Some(elsewhere), IpPrefix::host(address));
        assert!(selection.apply(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Tunnel(local, teid),
            bucket
        }));
        assert!(selection.apply(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Address(vrf, prefix),
            bucket
        }));
        assert_eq!(selection.of_tunnel(local, teid), WorkerId(1));
        assert_eq!(selection.of_tunnel(LocalId(1), teid), WorkerId(0));
        assert_eq!(selection.of_address(vrf, address), WorkerId(1));
        selection.apply(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Tunnel(local, teid),
            bucket: None,
        });
        selection.apply(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Address(vrf, prefix),
            bucket: None,
        });
        assert_eq!(selection.of_tunnel(local, teid), WorkerId(0));
        assert_eq!(selection.of_address(vrf, address), WorkerId(0));
    }

    /// A bucket that a new table of two workers gives to `worker`, and that is not the bucket of one of the test's
    /// values.
    fn a_bucket_of(worker: WorkerId) -> Bucket {
        let theirs = [bucket::of_teid(77), bucket::of_ipv4([10, 45, 0, 1])];
        let mut all = Bucket::all().filter(|bucket| bucket.index() % 2 == usize::from(worker.0));
        all.find(|bucket| !theirs.contains(bucket)).unwrap()
    }

    #[test]
    fn exceptions_follow_their_bucket() {
        let mut selection = WorkerSelection::new(2, 8, 0);
        let (local, teid, vrf) = (LocalId(0), Teid(77), VrfId(0));
        let address = IpAddr::from([10, 45, 0, 1]);
        let elsewhere = a_bucket_of(WorkerId(1));
        let (bucket, prefix) = (Some(elsewhere), IpPrefix::host(address));
        selection.apply(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Tunnel(local, teid),
            bucket,
        });
        selection.apply(WorkerSelectionChange::Exception {
            key: WorkerSelectionKey::Address(vrf, prefix),
            bucket,
        });
        for owner in [WorkerId(1), WorkerId(0), WorkerId(1)] {
            selection.apply(WorkerSelectionChange::Bucket {
                bucket: elsewhere,
                owner,
            });
            assert_eq!(
                (
                    selection.of_tunnel(local, teid),
                    selection.of_address(vrf, address)
                ),
                (owner, owner)
            );
        }
    }

    use rules::prefix::IpPrefix;

    #[test]
    fn buckets_are_dealt_out_to_all_workers() {
        let selection = WorkerSelection::new(3, 0, 0);
        let share = |worker: u16| selection.buckets.iter().filter(|owner| owner.0 == worker).count();
        assert_eq!([share(0), share(1), share(2)], [171, 171, 170]);
    }
}
