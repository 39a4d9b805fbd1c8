use proptest::prelude::*;

use flow::{BUCKETS, InstanceId, VrfId};

use super::*;
use crate::pools::fixed::Fixed;
use crate::pools::{Filtering, NatLimits, NatPool, UnsolicitedPolicy};

const POOL: NatPoolId = NatPoolId(0);

fn pool(name: &str, vrf: u16, ranges: &[(u32, u32)], ports: (u16, u16), block_bits: u8) -> NatPool {
    let range = |(first, last): &(u32, u32)| Ipv4Addr::from_bits(*first)..=Ipv4Addr::from_bits(*last);
    NatPool {
        name: name.into(),
        instance: InstanceId(0),
        vrf: VrfId(vrf),
        addresses: ranges.iter().map(range).collect(),
        ports: ports.0..=ports.1,
        block_bits,
        filtering: Filtering::default(),
        unsolicited: UnsolicitedPolicy::default(),
        limits: NatLimits {
            blocks: 4,
            mappings: 2_048,
            mappings_per_second: 0,
        },
        fixed: Fixed::default(),
    }
}

/// One pool with this number of consecutive addresses, and blocks of 512 ports from 1,024 on: 126 of each address.
fn one_pool(addresses: u32) -> PortBlocks {
    let pools = NatPools::new(vec![pool(
        "a",
        0,
        &[(0x0900_0000, 0x0900_0000 + addresses - 1)],
        (1_024, 65_535),
        9,
    )]);
    PortBlocks::new(Arc::new(pools.unwrap()), QUARANTINE)
}

fn wish(session: u32, random: u64) -> Wish {
    Wish {
        pool: POOL,
        session: SessionIndex(session),
        bucket: Bucket::new((session % 512) as u16).unwrap(),
        paired: None,
        random: random.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(session) << 32,
    }
}

/// How many blocks of each address are held, for addresses that follow each other.
fn loads(blocks: &PortBlocks) -> Vec<usize> {
    let all: Vec<u32> = (0..blocks.pools().blocks()).collect();
    let held = |id: &&u32| blocks.owner(BlockId(**id)).is_some();
    all.chunks(126)
        .map(|own| own.iter().filter(held).count())
        .collect()
}

fn spread(loads: &[usize]) -> usize {
    loads.iter().max().unwrap() - loads.iter().min().unwrap()
}

#[test]
fn addresses_are_used_alike() {
    let mut blocks = one_pool(64);
    let mut in_bucket = 0;
    for session in 0..4_000 {
        let wish = wish(session, 7);
        let drawn = blocks.draw(wish, Nanos::ZERO).unwrap();
        in_bucket += u32::from(bucket_of_block(drawn.block) == wish.bucket);
        let most = 126 / usize::from(NEAR_MOST) + 1;
        assert!(spread(&loads(&blocks)) <= most, "{:?}", loads(&blocks));
    }
    assert!(in_bucket > 3_600, "{in_bucket} of 4,000 are in the wanted bucket");
}

#[test]
fn sessions_that_come_and_go_leave_addresses_used_alike() {
    let mut blocks = one_pool(16);
    let mut held = VecDeque::new();
    for session in 0..20_000 {
        let now = Nanos::from_millis(u64::from(session) * 300);
        held.push_back((SessionIndex(session), blocks.draw(wish(session, 3), now).unwrap()));
        if held.len() > 1_000 {
            // Not always the eldest.
            held.rotate_left(session as usize * 7 % 50);
            let (session, drawn) = held.pop_front().unwrap();
            assert!(blocks.release(drawn.id, session, now));
        }
    }
    let used = blocks.use_of(POOL, Nanos::from_secs(6_000));
    assert_eq!((used.held, used.full_addresses), (1_000, 0));
    assert!(used.resting.abs_diff(400) <= 1, "{used:?}");
    assert!(spread(&loads(&blocks)) <= 24, "{:?}", loads(&blocks));
}

#[test]
fn the_same_random_numbers_give_the_same_blocks_and_others_give_others() {
    let drawn = |random: u64| {
        let mut blocks = one_pool(64);
        let ids = (0..100).map(|session| blocks.draw(wish(session, random), Nanos::ZERO).unwrap().id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(drawn(1), drawn(1));
    let alike = drawn(1).iter().zip(drawn(2)).filter(|(a, b)| *a == b).count();
    // Of 8,064 blocks 16 are in the wanted bucket: about 6 are the same by chance.
    assert!(alike < 20, "{alike} of 100 blocks are the same");
}

#[test]
fn a_session_keeps_its_address_and_is_refused_when_that_is_full() {
    let mut blocks = one_pool(2);
    let first = blocks.draw(wish(1, 0), Nanos::ZERO).unwrap();
    let paired = |session, random| Wish {
        paired: Some(first.block.address),
        ..wish(session, random)
    };
    for random in 1..126 {
        let next = blocks.draw(paired(1, random), Nanos::ZERO).unwrap();
        assert_eq!(next.block.address, first.block.address);
    }
    assert_eq!(
        blocks.draw(paired(1, 0), Nanos::ZERO),
        Err(Exhausted::Address),
        "the other address is free"
    );
    let used = blocks.use_of(POOL, Nanos::ZERO);
    assert_eq!((used.held, used.full_addresses, used.addresses), (126, 1, 2));
    for session in 2..128 {
        let other = blocks.draw(wish(session, 9), Nanos::ZERO).unwrap();
        assert_ne!(other.block.address, first.block.address);
    }
    assert_eq!(blocks.draw(wish(200, 0), Nanos::ZERO), Err(Exhausted::Pool));
    assert_eq!(
        blocks.owner(first.id),
        Some(SessionIndex(1)),
        "no block is taken from its session"
    );
    let elsewhere = Wish {
        paired: Some(Ipv4Addr::new(9, 9, 9, 9)),
        ..wish(1, 0)
    };
    assert_eq!(blocks.draw(elsewhere, Nanos::ZERO), Err(Exhausted::Address));
    let no_pool = Wish {
        pool: NatPoolId(1),
        ..wish(1, 0)
    };
    assert_eq!(blocks.draw(no_pool, Nanos::ZERO), Err(Exhausted::NoPool));
    assert_eq!(blocks.use_of(NatPoolId(1), Nanos::ZERO), PoolUse::default());
}

#[test]
fn a_released_block_rests_for_two_minutes() {
    let pools = NatPools::new(vec![pool("a", 0, &[(1, 1)], (512, 1_023), 9)]).unwrap();
    let mut blocks = PortBlocks::new(Arc::new(pools), QUARANTINE);
    let start = Nanos::from_millis(1_030);
    let only = blocks.draw(wish(1, 0), start).unwrap();
    assert!(!blocks.release(only.id, SessionIndex(2), start));
    assert!(blocks.release(only.id, SessionIndex(1), start));
    assert!(!blocks.release(only.id, SessionIndex(1), start), "twice");
    assert_eq!(blocks.owner(only.id), None);
    for early in [start, start + QUARANTINE, Nanos::from_millis(121_099)] {
        assert_eq!(blocks.use_of(POOL, early).resting, 1);
        for session in [1, 2] {
            assert_eq!(blocks.draw(wish(session, 0), early), Err(Exhausted::Pool));
        }
    }
    let end = Nanos::from_millis(121_100);
    assert_eq!(blocks.draw(wish(2, 0), end), Ok(only));
}

#[test]
fn a_block_that_was_taken_while_it_rested_rests_anew_when_it_is_released() {
    let mut blocks = one_pool(1);
    let (id, a, b) = (BlockId(5), SessionIndex(1), SessionIndex(2));
    let at = Nanos::from_secs;
    assert_eq!(blocks.take(id, a), Ok(()));
    assert_eq!(blocks.take(id, a), Ok(()), "twice");
    assert_eq!(blocks.take(id, b), Err(Taken::By(a)));
    assert_eq!(blocks.take(BlockId(126), b), Err(Taken::NoBlock));
    assert!(blocks.release(id, a, at(10)));
    assert_eq!(blocks.take(id, b), Ok(()));
    assert_eq!(
        blocks.use_of(POOL, at(130)).held,
        1,
        "the end of the first rest changes nothing"
    );
    assert_eq!(blocks.owner(id), Some(b));
    for now in [at(131), at(131)] {
        assert!(blocks.release(id, b, now));
        assert_eq!(blocks.take(id, b), Ok(()));
    }
    assert!(blocks.release(id, b, at(140)));
    let resting = |blocks: &mut PortBlocks, now| blocks.use_of(POOL, now).resting;
    assert_eq!(
        (resting(&mut blocks, at(259)), resting(&mut blocks, at(260))),
        (1, 0)
    );
    assert_eq!(blocks.owner(BlockId(u32::MAX)), None);
    assert!(!blocks.release(BlockId(u32::MAX), b, at(0)));
}

#[test]
fn buckets_of_consecutive_blocks_are_alike_in_number() {
    for (bits, addresses) in [(4, 4), (6, 16), (9, 128), (11, 512), (13, 2_048)] {
        let first = 0x0900_4000;
        let own = pool("a", 0, &[(first, first + addresses - 1)], (0, 65_535), bits);
        let pools = NatPools::new(vec![own]).unwrap();
        let mut seen = [0u32; BUCKETS];
        for id in 0..pools.blocks() {
            seen[bucket_of_block(pools.block(BlockId(id)).unwrap().1).index()] += 1;
        }
        let mean = f64::from(pools.blocks()) / BUCKETS as f64;
        let square = |count: &u32| (f64::from(*count) - mean).powi(2) / mean;
        let chi_square: f64 = seen.iter().map(square).sum();
        // Of random ones, one in a thousand would be above this.
        assert!(
            chi_square < 614.0,
            "{chi_square} for blocks of 2^{bits} ports: {seen:?}"
        );
    }
}

#[test]
fn blocks_of_one_address_are_in_many_buckets() {
    for (bits, most) in [(4, 8), (7, 1), (9, 1), (15, 1)] {
        let pools = NatPools::new(vec![pool("a", 0, &[(9, 9)], (0, 65_535), bits)]).unwrap();
        let mut seen = [0u32; BUCKETS];
        for id in 0..pools.blocks() {
            seen[bucket_of_block(pools.block(BlockId(id)).unwrap().1).index()] += 1;
        }
        assert!(
            seen.iter().all(|count| *count <= most),
            "blocks of 2^{bits} ports: {seen:?}"
        );
    }
}

/// What happens to the blocks.
#[derive(Clone, Debug)]
enum Step {
    /// A session draws: of the address that it has if it has one, or of that of a block by number if `elsewhere`; and
    /// wants the bucket of a block by number, or with `None` any.
    Draw {
        pool: u16,
        session: u32,
        bucket: Option<usize>,
        elsewhere: Option<usize>,
        random: u64,
    },
    /// A session releases the block with this number.
    Release { session: u32, block: usize },
    /// The owner of a held block releases it.
    ReleaseHeld { nth: usize },
    /// A session says that it holds the block with this number.
    Take { session: u32, block: usize },
    /// Milliseconds pass.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (session, block) = (0u32..6, 0usize..64);
    let draw = (
        0u16..3,
        session.clone(),
        prop::option::of(block.clone()),
        prop::option::weighted(0.1, block.clone()),
        any::<u64>(),
    );
    prop_oneof![
        6 => draw.prop_map(|(pool, session, bucket, elsewhere, random)| {
            Step::Draw { pool, session, bucket, elsewhere, random }
        }),
        1 => (session.clone(), block.clone()).prop_map(|(session, block)| Step::Release { session, block }),
        3 => block.clone().prop_map(|nth| Step::ReleaseHeld { nth }),
        1 => (session, block).prop_map(|(session, block)| Step::Take { session, block }),
        3 => (0u64..450).prop_map(Step::Pass),
    ]
}

/// A block of the model.
#[derive(Clone, Debug)]
struct Slot {
    pool: NatPoolId,
    block: PortBlock,
    owner: Option<SessionIndex>,
    free_from: u64,
}

impl Slot {
    const fn is_free(&self, now: u64) -> bool {
        self.owner.is_none() && self.free_from <= now
    }
}

/// The slow obvious model, and what it is compared with. Times are in milliseconds.
struct Pair {
    blocks: PortBlocks,
    slots: Vec<Slot>,
    now: u64,
    quarantine: u64,
}

impl Pair {
    fn new(quarantine: u64) -> Self {
        let pools = NatPools::new(vec![
            pool(
                "a",
                0,
                &[(0x0900_0010, 0x0900_0012), (0x0900_0001, 0x0900_0001)],
                (1_024, 65_535),
                13,
            ),
            pool("b", 1, &[(0x0900_0010, 0x0900_0011)], (1_025, 4_100), 9),
            pool("c", 0, &[(0x0900_0013, 0x0900_0018)], (0, 40_000), 15),
        ])
        .unwrap();
        let slot = |id| {
            let (pool, block) = pools.block(BlockId(id)).unwrap();
            Slot {
                pool,
                block,
                owner: None,
                free_from: 0,
            }
        };
        let slots = (0..pools.blocks()).map(slot).collect();
        let blocks = PortBlocks::new(Arc::new(pools), Duration::from_millis(quarantine));
        Self {
            blocks,
            slots,
            now: 0,
            quarantine,
        }
    }

    fn nanos(&self) -> Nanos {
        Nanos::from_millis(self.now)
    }

    fn free(&self, pool: NatPoolId, address: Option<Ipv4Addr>) -> impl Iterator<Item = &Slot> + Clone {
        let own = self
            .slots
            .iter()
            .filter(move |slot| slot.pool == pool && slot.is_free(self.now));
        own.filter(move |slot| address.is_none_or(|address| slot.block.address == address))
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let count = self.slots.len();
        match step {
            Step::Draw {
                pool,
                session,
                bucket,
                elsewhere,
                random,
            } => {
                let session = SessionIndex(session);
                let pool = NatPoolId(pool);
                let mut slots = self.slots.iter();
                let own = slots.find(|slot| (slot.pool, slot.owner) == (pool, Some(session)));
                let other = elsewhere.map(|number| &self.slots[number % count]);
                let bucket = bucket.map(|number| bucket_of_block(self.slots[number % count].block));
                let paired = other.or(own).map(|slot| slot.block.address);
                self.draw(Wish {
                    pool,
                    session,
                    bucket: bucket.unwrap_or_default(),
                    paired,
                    random,
                })?;
            }
            Step::Release { session, block } => self.release(block % count, SessionIndex(session))?,
            Step::ReleaseHeld { nth } => {
                let held = |slot: &(usize, &Slot)| slot.1.owner.is_some();
                let held: Vec<_> = self.slots.iter().enumerate().filter(held).collect();
                if let Some((number, slot)) = held.get(nth % held.len().max(1)) {
                    self.release(*number, slot.owner.unwrap())?;
                }
            }
            Step::Take { session, block } => {
                let (number, session) = (block % count, SessionIndex(session));
                let expected = match self.slots[number].owner {
                    Some(owner) if owner != session => Err(Taken::By(owner)),
                    _ => Ok(()),
                };
                prop_assert_eq!(self.blocks.take(BlockId(number as u32), session), expected);
                if expected.is_ok() {
                    self.slots[number].owner = Some(session);
                }
            }
            Step::Pass(millis) => self.now += millis,
        }
        self.compare()
    }

    fn draw(&mut self, wish: Wish) -> Result<(), TestCaseError> {
        let result = self.blocks.draw(wish, self.nanos());
        let Ok(drawn) = result else {
            let expected = wish.paired.map_or(Exhausted::Pool, |_| Exhausted::Address);
            prop_assert_eq!(result, Err(expected));
            prop_assert_eq!(self.free(wish.pool, wish.paired).count(), 0, "a block is free");
            return Ok(());
        };
        let slot = &self.slots[drawn.id.0 as usize];
        let address = slot.block.address;
        prop_assert_eq!((slot.pool, slot.block), (wish.pool, drawn.block));
        prop_assert!(slot.is_free(self.now), "{:?} at {}", slot, self.now);
        prop_assert!(wish.paired.is_none_or(|paired| paired == address));
        let in_bucket = |slot: &Slot| bucket_of_block(slot.block) == wish.bucket;
        let can_be = self.free(wish.pool, Some(address)).any(in_bucket);
        prop_assert_eq!(in_bucket(slot), can_be, "the bucket is met if it can be");
        if wish.paired.is_none() {
            let free_of = |address| self.free(wish.pool, Some(address)).count();
            let most = self
                .free(wish.pool, None)
                .map(|slot| free_of(slot.block.address))
                .max();
            // Of addresses with fewer than 32 blocks, one less than the most is near.
            prop_assert!(free_of(address) + 1 >= most.unwrap());
        }
        self.slots[drawn.id.0 as usize].owner = Some(wish.session);
        Ok(())
    }

    fn release(&mut self, number: usize, session: SessionIndex) -> Result<(), TestCaseError> {
        let is_owner = self.slots[number].owner == Some(session);
        let released = self.blocks.release(BlockId(number as u32), session, self.nanos());
        prop_assert_eq!(released, is_owner);
        if is_owner {
            let free_from = (self.now + self.quarantine).next_multiple_of(100);
            let slot = &mut self.slots[number];
            (slot.owner, slot.free_from) = (None, free_from);
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        for (id, slot) in (0..).map(BlockId).zip(&self.slots) {
            prop_assert_eq!(self.blocks.owner(id), slot.owner);
        }
        for pool in (0..3).map(NatPoolId) {
            let own: Vec<_> = self.slots.iter().filter(|slot| slot.pool == pool).collect();
            let held = own.iter().filter(|slot| slot.owner.is_some()).count();
            let free = own.iter().filter(|slot| slot.is_free(self.now)).count();
            let mut addresses: Vec<_> = own.iter().map(|slot| slot.block.address).collect();
            addresses.dedup();
            let is_full = |address: &&Ipv4Addr| self.free(pool, Some(**address)).next().is_none();
            let expected = PoolUse {
                blocks: own.len() as u32,
                held: held as u32,
                reserved: 0,
                resting: (own.len() - held - free) as u32,
                addresses: addresses.len() as u32,
                full_addresses: addresses.iter().filter(is_full).count() as u32,
            };
            prop_assert_eq!(self.blocks.use_of(pool, Nanos::from_millis(self.now)), expected);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn blocks_are_given_as_the_model_gives_them(
        steps in prop::collection::vec(step(), 1..300), quarantine in 0u64..3_000,
    ) {
        let mut pair = Pair::new(quarantine);
        for step in steps {
            pair.step(step)?;
        }
    }

    #[test]
    fn all_ports_of_a_block_are_in_its_bucket(address: u32, port: u16, bits in 4u8..=15) {
        let own = pool("a", 0, &[(address, address)], (0, 65_535), bits);
        let pools = NatPools::new(vec![own]).unwrap();
        let id = pools.block_of(VrfId(0), address.into(), port).unwrap();
        let (_, block) = pools.block(id).unwrap();
        let masked = port & u16::MAX << bits;
        prop_assert!(block.ports().contains(&port));
        prop_assert_eq!(bucket_of_block(block), bucket::of_endpoint(block.address.octets(), masked));
    }
}
