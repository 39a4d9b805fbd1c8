//! Pools of public addresses for tests of CG-NAT.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use nat::pools::fixed::Fixed;
use nat::pools::{Filtering, NatLimits, NatPool, UnsolicitedPolicy};

use crate::network::{BoundPool, InstanceId, Network, SessionScope};

/// A pool for all sessions whose packets leave by `instance`: blocks of 512 ports of each of the addresses, two to a
/// session, and 100 mappings. Anyone may send to a mapping, and what is unsolicited
/// is as all else.
///
/// # Panics
/// The network has no such instance.
pub fn public_pool(
    network: &Network,
    instance: InstanceId,
    addresses: RangeInclusive<Ipv4Addr>,
) -> BoundPool {
    let instance = network.instance(instance).expect("an instance");
    BoundPool {
        pool: NatPool {
            name: "cgn".into(),
            instance: instance.id,
            vrf: instance.vrf,
            addresses: vec![addresses],
            ports: 1_024..=65_535,
            block_bits: 9,
            filtering: Filtering::EndpointIndependent,
            unsolicited: UnsolicitedPolicy::AS_OTHERS,
            limits: NatLimits {
                blocks: 2,
                mappings: 100,
                mappings_per_second: 0,
            },
            fixed: Fixed::default(),
        },
        scope: Some(SessionScope::default()),
        untranslated: Vec::new(),
    }
}
