//! Which worker owns a packet: the bucket of its TEID or UE address, and exceptions.
//!
//! An exception names the bucket of its session, so that it is right wherever the bucket goes.
//!
//! Every worker has its own copy, changed by Control's commands; a copy that lags sends a packet to a worker that
//! does not know its session, never to two.

use std::net::IpAddr;

use flow::{BUCKETS, Bucket, LocalId, VrfId, WorkerId, bucket};
use packet::Teid;
use rules::steering::{SteerChange, SteerKey};

use crate::sessions::fixed_map::{FixedMap, tunnel_key};
use crate::sessions::ue_map::UeMap;

/// The table of buckets, and the exceptions.
pub(crate) struct Steering {
    buckets: [WorkerId; BUCKETS],
    tunnels: FixedMap<2>,
    addresses: UeMap,
}

impl Steering {
    /// Buckets dealt out to `workers` in turn; room for `exceptions` of each kind.
    pub fn new(workers: u16, exceptions: usize) -> Self {
        let owner = |bucket: usize| WorkerId(bucket as u16 % workers.max(1));
        Self {
            buckets: std::array::from_fn(owner),
            tunnels: FixedMap::new(exceptions),
            addresses: UeMap::new(exceptions),
        }
    }

    /// Exceptions of both kinds.
    pub fn exceptions(&self) -> usize {
        self.tunnels.len() + self.addresses.len()
    }

    /// Carries out a change. False when there is no room for an exception.
    pub fn apply(&mut self, change: SteerChange) -> bool {
        match change {
            SteerChange::Bucket { bucket, owner } => self.buckets[bucket.index()] = owner,
            SteerChange::Exception { key, bucket } => match (key, bucket) {
                (SteerKey::Tunnel(local, teid), None) => {
                    self.tunnels.remove(&tunnel_key((local, teid)));
                }
                (SteerKey::Tunnel(local, teid), Some(bucket)) => {
                    let key = tunnel_key((local, teid));
                    return self.tunnels.insert(key, value(bucket)).is_ok();
                }
                (SteerKey::Address(vrf, prefix), None) => self.addresses.remove(vrf, prefix),
                (SteerKey::Address(vrf, prefix), Some(bucket)) => {
                    return self.addresses.insert(vrf, prefix, value(bucket)).is_ok();
                }
            },
        }
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_come_before_buckets() {
        let mut steering = Steering::new(2, 8);
        let (local, teid, vrf) = (LocalId(0), Teid(77), VrfId(0));
        let address = IpAddr::from([10, 45, 0, 1]);
        for owner in [WorkerId(1), WorkerId(0)] {
            steering.apply(SteerChange::Bucket {
                bucket: bucket::of_teid(77),
                owner,
            });
            steering.apply(SteerChange::Bucket {
                bucket: bucket::of_ipv4([10, 45, 0, 1]),
                owner,
            });
            assert_eq!(
                (steering.of_tunnel(local, teid), steering.of_address(vrf, address)),
                (owner, owner)
            );
        }
        let elsewhere = a_bucket_of(WorkerId(1));
        let (bucket, prefix) = (Some(elsewhere), IpPrefix::host(address));
        assert!(steering.apply(SteerChange::Exception {
            key: SteerKey::Tunnel(local, teid),
            bucket
        }));
        assert!(steering.apply(SteerChange::Exception {
            key: SteerKey::Address(vrf, prefix),
            bucket
        }));
        assert_eq!(steering.of_tunnel(local, teid), WorkerId(1));
        assert_eq!(steering.of_tunnel(LocalId(1), teid), WorkerId(0));
        assert_eq!(steering.of_address(vrf, address), WorkerId(1));
        steering.apply(SteerChange::Exception {
            key: SteerKey::Tunnel(local, teid),
            bucket: None,
        });
        steering.apply(SteerChange::Exception {
            key: SteerKey::Address(vrf, prefix),
            bucket: None,
        });
        assert_eq!(steering.of_tunnel(local, teid), WorkerId(0));
        assert_eq!(steering.of_address(vrf, address), WorkerId(0));
    }

    /// A bucket that a new table of two workers gives to `worker`, and in which the test's values do not lie.
    fn a_bucket_of(worker: WorkerId) -> Bucket {
        let theirs = [bucket::of_teid(77), bucket::of_ipv4([10, 45, 0, 1])];
        let mut all = Bucket::all().filter(|bucket| bucket.index() % 2 == usize::from(worker.0));
        all.find(|bucket| !theirs.contains(bucket)).unwrap()
    }

    #[test]
    fn exceptions_follow_their_bucket() {
        let mut steering = Steering::new(2, 8);
        let (local, teid, vrf) = (LocalId(0), Teid(77), VrfId(0));
        let address = IpAddr::from([10, 45, 0, 1]);
        let elsewhere = a_bucket_of(WorkerId(1));
        let (bucket, prefix) = (Some(elsewhere), IpPrefix::host(address));
        steering.apply(SteerChange::Exception {
            key: SteerKey::Tunnel(local, teid),
            bucket,
        });
        steering.apply(SteerChange::Exception {
            key: SteerKey::Address(vrf, prefix),
            bucket,
        });
        for owner in [WorkerId(1), WorkerId(0), WorkerId(1)] {
            steering.apply(SteerChange::Bucket {
                bucket: elsewhere,
                owner,
            });
            assert_eq!(
                (steering.of_tunnel(local, teid), steering.of_address(vrf, address)),
                (owner, owner)
            );
        }
    }

    use rules::prefix::IpPrefix;

    #[test]
    fn buckets_are_dealt_out_to_all_workers() {
        let steering = Steering::new(3, 0);
        let share = |worker: u16| steering.buckets.iter().filter(|owner| owner.0 == worker).count();
        assert_eq!([share(0), share(1), share(2)], [171, 171, 170]);
    }
}
