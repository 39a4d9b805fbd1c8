//! The pool of public addresses, and the blocks that sessions have of it.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ::nat::blocks::{PortBlocks, Wish, bucket_of_block};
use ::nat::pools::fixed::Fixed;
use ::nat::pools::{BlockId, Filtering, NatLimits, NatPool, NatPoolId};
use flow::{Nanos, SessionIndex, VrfId, bucket};
use rules::network::{BoundPool, Network, SessionScope};

use super::super::error::BenchError;
use super::super::network::{self, N6_PORT};
use super::super::rules::Identity;
use super::arguments::Arguments;
use super::frames::WIRE;

/// The pool of all sessions.
pub const POOL: NatPoolId = NatPoolId(0);
/// Its first address, in the range for benchmarks (RFC 2544 appendix C.2.2), and how many there are.
const FIRST: u32 = 0xc613_0000;
pub const ADDRESSES: u32 = 1_024;

/// The addresses of the pool.
pub const fn public() -> RangeInclusive<u32> {
    FIRST..=FIRST + ADDRESSES - 1
}

/// The network of the benchmarks, with the pool or without.
///
/// # Errors
/// None that configuration could cause.
pub fn network(arguments: &Arguments, has_pool: bool) -> Result<Arc<Network>, BenchError> {
    let network = network::network(WIRE).map_err(BenchError::of)?;
    if !has_pool {
        return Ok(Arc::new(network));
    }
    let addresses = Ipv4Addr::from_bits(*public().start())..=Ipv4Addr::from_bits(*public().end());
    let pool = NatPool {
        name: "bench".into(),
        instance: flow::InstanceId(N6_PORT.0),
        vrf: VrfId(0),
        addresses: vec![addresses],
        ports: 1_024..=65_535,
        block_bits: arguments.block_bits,
        filtering: Filtering::EndpointIndependent,
        unsolicited: arguments.unsolicited(),
        limits: NatLimits {
            blocks: 4,
            mappings: 2_048,
            // What a UE may make a second is not what a worker can.
            mappings_per_second: 0,
        },
        fixed: Fixed::default(),
    };
    let bound = BoundPool {
        pool,
        scope: Some(SessionScope::default()),
        untranslated: Vec::new(),
    };
    let network = network
        .with_nat(vec![bound])
        .map_err(|error| BenchError::of(format!("{error:?}")))?;
    Ok(Arc::new(network))
}

/// The blocks of sessions, as control draws them.
pub struct Blocks {
    /// By session.
    pub ids: Vec<BlockId>,
    /// How many of them are in the bucket of their session.
    pub in_bucket: u32,
}

/// A number that looks like one at random, the same at each start: SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
const fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Blocks {
    /// A block for each session.
    ///
    /// # Errors
    /// When the pool has fewer.
    pub fn draw(network: &Network, identities: &[Identity]) -> Result<Self, BenchError> {
        let mut all = PortBlocks::new(Arc::clone(network.nat().pools()), Duration::ZERO);
        let mut blocks = Self {
            ids: Vec::with_capacity(identities.len()),
            in_bucket: 0,
        };
        for (session, identity) in (0..).zip(identities) {
            let bucket = bucket::of_ipv4(identity.ue.octets());
            let wish = Wish {
                pool: POOL,
                session: SessionIndex(session),
                bucket,
                paired: None,
                random: scattered(session.into()),
            };
            let drawn = all
                .draw(wish, Nanos::ZERO)
                .map_err(|error| BenchError::of(format!("a block for session {session}: {error:?}")))?;
            blocks.in_bucket += u32::from(bucket_of_block(drawn.block) == bucket);
            blocks.ids.push(drawn.id);
        }
        Ok(blocks)
    }

    /// The share of blocks that are in the bucket of their session.
    #[must_use]
    pub fn share_in_bucket(&self) -> f64 {
        f64::from(self.in_bucket) / self.ids.len().max(1) as f64
    }
}
