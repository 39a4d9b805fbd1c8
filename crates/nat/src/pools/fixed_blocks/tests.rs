use std::sync::Arc;
use std::time::Duration;

use flow::{Bucket, InstanceId, Nanos, SessionIndex, VrfId};
use proptest::prelude::*;

use super::*;
use crate::blocks::{Exhausted, PortBlocks, Wish};
use crate::pools::fixed::Fixed;
use crate::pools::{Filtering, NatLimits, NatPools, UnsolicitedPolicy};

const POOL: NatPoolId = NatPoolId(0);
const VRF: VrfId = VrfId(3);

fn public(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(9, 0, 0, last)
}

fn ue(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 0, last)
}

/// Two addresses of 4 blocks of 16 ports; two blocks to a session.
fn pool(fixed: Fixed) -> NatPool {
    NatPool {
        name: "a".into(),
        instance: InstanceId(0),
        vrf: VRF,
        addresses: vec![public(1)..=public(2)],
        ports: 1_024..=1_087,
        block_bits: 4,
        filtering: Filtering::default(),
        unsolicited: UnsolicitedPolicy::default(),
        limits: NatLimits {
            blocks: 2,
            mappings: 100,
            mappings_per_second: 0,
        },
        fixed,
    }
}

fn forward((last, port): (u8, u16), (address, public_port): (u8, u16)) -> Forward {
    Forward {
        ue: ue(last),
        port,
        protocol: proto::TCP,
        public: public(address),
        public_port,
    }
}

fn with(forwards: &[Forward]) -> Result<NatPools, PoolError> {
    let forwards = forwards.to_vec();
    NatPools::new(vec![pool(Fixed {
        forwards,
        ..Fixed::default()
    })])
}

fn deterministic(len: u8, forwards: &[Forward]) -> Result<NatPools, PoolError> {
    NatPools::new(vec![pool(Fixed {
        deterministic: Some((ue(0), len)),
        forwards: forwards.to_vec(),
    })])
}

#[test]
fn forwards_that_contradict_each_other_are_refused() {
    let first = forward((5, 80), (1, 1_030));
    let refused = |second: Forward| match with(&[first, second]) {
        Err(PoolError::Forward(name, 1, error)) if name == "a" => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(first), ForwardError::PublicPort);
    assert_eq!(refused(forward((6, 80), (1, 1_030))), ForwardError::PublicPort);
    assert_eq!(refused(forward((5, 80), (1, 1_031))), ForwardError::Port);
    assert_eq!(
        refused(forward((6, 80), (1, 1_031))),
        ForwardError::Block(Some(ue(5)))
    );
    assert_eq!(
        refused(forward((5, 81), (2, 1_031))),
        ForwardError::Address(public(1))
    );
    for outside in [(1, 1_023), (1, 1_088), (3, 1_030)] {
        assert_eq!(refused(forward((5, 81), outside)), ForwardError::NoBlock);
    }
    let icmp = Forward {
        protocol: proto::ICMP,
        ..first
    };
    assert_eq!(refused(icmp), ForwardError::Protocol);
    let three = [(80, 1_030), (81, 1_040), (82, 1_060)].map(|(port, public)| forward((5, port), (1, public)));
    assert_eq!(
        with(&three),
        Err(PoolError::Forward("a".into(), 2, ForwardError::Blocks(2)))
    );
    // The same ports by another protocol, and a second port of the block.
    let udp = Forward {
        protocol: proto::UDP,
        ..first
    };
    let pools = with(&[udp, forward((5, 81), (1, 1_031)), first]).unwrap();
    assert_eq!(pools.forwards(), 3);
    let (other_block, block) = (BlockId(1), pools.block_of(VRF, public(1), 1_030).unwrap());
    assert_eq!(pools.forwards_of(block).count(), 3);
    assert_eq!(pools.forwards_of(other_block).count(), 0);
    assert_eq!(pools.reserved(POOL).collect::<Vec<_>>(), [block]);
}

#[test]
fn a_ue_with_forwards_has_one_public_address() {
    let pools = with(&[forward((5, 80), (2, 1_030)), forward((5, 81), (2, 1_060))]).unwrap();
    let own: Vec<BlockId> = pools.own_blocks(POOL, (VRF, ue(5))).collect();
    assert_eq!(own, [BlockId(4), BlockId(6)]);
    let may_hold = |last| {
        let held = (0..9).filter(|id| pools.may_hold(BlockId(*id), (VRF, ue(last))));
        held.collect::<Vec<u32>>()
    };
    assert_eq!(may_hold(5), [4, 5, 6, 7]);
    assert_eq!(may_hold(6), [0, 1, 2, 3, 5, 7]);
    // The same address in another address space is another UE's.
    let elsewhere = (VrfId(0), ue(5));
    assert_eq!(pools.own_blocks(POOL, elsewhere).count(), 0);
    assert!(!pools.may_hold(BlockId(4), elsewhere) && pools.may_hold(BlockId(0), elsewhere));
}

#[test]
fn a_deterministic_pool_has_the_forwards_of_its_own_ues() {
    let pools = deterministic(30, &[forward((1, 80), (1, 1_041))]).unwrap();
    assert_eq!(
        pools.own_blocks(POOL, (VRF, ue(1))).collect::<Vec<_>>(),
        [BlockId(1)]
    );
    assert_eq!(pools.own_blocks(POOL, (VRF, ue(4))).count(), 0);
    assert_eq!(pools.reserved(POOL).count(), 0);
    assert_eq!(pools.ue_of(BlockId(3)), Some(ue(3)));
    assert_eq!(pools.ue_of(BlockId(4)), None);
    assert!(!pools.may_hold(BlockId(4), (VRF, ue(4))), "none may");
    let refused = |forward| match deterministic(30, &[forward]) {
        Err(PoolError::Forward(_, 0, error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(forward((2, 80), (1, 1_041))),
        ForwardError::Block(Some(ue(1)))
    );
    assert_eq!(refused(forward((2, 80), (2, 1_041))), ForwardError::Block(None));
    let large = DeterministicError::TooSmall {
        addresses: 16,
        blocks: 8,
    };
    assert_eq!(
        deterministic(28, &[]),
        Err(PoolError::Deterministic("a".into(), large))
    );
}

fn wish(session: u32, paired: Option<Ipv4Addr>, random: u64) -> Wish {
    Wish {
        pool: POOL,
        session: SessionIndex(session),
        bucket: Bucket::new(0).unwrap(),
        paired,
        random,
    }
}

#[test]
fn blocks_that_follow_from_addresses_are_neither_drawn_nor_rest() {
    let mut blocks = PortBlocks::new(Arc::new(deterministic(29, &[]).unwrap()), Duration::from_secs(60));
    let now = Nanos::from_secs(1);
    assert_eq!(blocks.draw(wish(1, None, 7), now), Err(Exhausted::Deterministic));
    for session in [1, 2] {
        blocks.take(BlockId(5), SessionIndex(session)).unwrap();
        let used = blocks.use_of(POOL, now);
        assert_eq!((used.held, used.resting, used.reserved), (1, 0, 0));
        assert!(blocks.release(BlockId(5), SessionIndex(session), now));
    }
    let used = blocks.use_of(POOL, now);
    assert_eq!((used.held, used.resting, used.reserved), (0, 0, 0));
}

/// Forwards of three UEs, each of one address and of blocks that no other one has.
fn forwards() -> impl Strategy<Value = Vec<Forward>> {
    prop::collection::vec(prop::option::of((0u8..3, 0u16..16)), 8).prop_map(|blocks| {
        let mut forwards: Vec<Forward> = Vec::new();
        for (place, of_block) in blocks.into_iter().enumerate() {
            let Some((last, port)) = of_block else { continue };
            let (address, first) = (1 + place as u8 / 4, 1_024 + place as u16 % 4 * 16);
            let new = forward((last, 100 * place as u16 + port), (address, first + port));
            let own = || forwards.iter().filter(|other| other.ue == new.ue);
            if own().count() < 2 && own().all(|other| other.public == new.public) {
                forwards.push(new);
            }
        }
        forwards
    })
}

proptest! {
    #[test]
    fn a_reserved_block_is_of_nobody_but_its_ue(
        forwards in forwards(), steps in prop::collection::vec((0u32..5, 0u8..3, any::<u64>()), 1..80),
    ) {
        let pools = with(&forwards).unwrap();
        let mut blocks = PortBlocks::new(Arc::new(pools.clone()), Duration::from_secs(3));
        let mut held: Vec<(BlockId, u32)> = Vec::new();
        for (second, (session, kind, random)) in (0..).zip(steps) {
            let (now, who) = (Nanos::from_secs(second), ue(session as u8));
            let own = held.iter().find(|(_, holder)| *holder == session).copied();
            match kind {
                0 => if let Some(taken) = own {
                    prop_assert!(blocks.release(taken.0, SessionIndex(session), now));
                    held.retain(|other| *other != taken);
                },
                1 => for id in pools.own_blocks(POOL, (VRF, who)) {
                    blocks.take(id, SessionIndex(session)).unwrap();
                    if !held.contains(&(id, session)) {
                        held.push((id, session));
                    }
                },
                _ => {
                    let paired = own.and_then(|(id, _)| Some(pools.block(id)?.1.address));
                    if let Ok(drawn) = blocks.draw(wish(session, paired, random), now) {
                        prop_assert!(pools.ue_of(drawn.id).is_none(), "{:?} is another's", drawn.id);
                        held.push((drawn.id, session));
                    }
                }
            }
            // No two have one, and each forward's is its UE's.
            for id in (0..pools.blocks()).map(BlockId) {
                let holders: Vec<u32> = held.iter().filter(|(block, _)| *block == id).map(|(_, who)| *who).collect();
                prop_assert!(holders.len() <= 1);
                prop_assert_eq!(blocks.owner(id), holders.first().map(|who| SessionIndex(*who)));
                let owner = pools.ue_of(id);
                prop_assert!(holders.iter().all(|who| owner.is_none_or(|owner| owner == ue(*who as u8))));
                let of_forwards = forwards.iter().find(|one| pools.block_of(VRF, one.public, one.public_port) == Some(id));
                prop_assert_eq!(owner, of_forwards.map(|one| one.ue));
            }
            let used = blocks.use_of(POOL, now);
            let kept = pools.reserved(POOL).filter(|id| blocks.owner(*id).is_none()).count();
            prop_assert_eq!((used.held as usize, used.reserved as usize), (held.len(), kept));
        }
        // When all have gone and rested, all others are drawn.
        for (id, session) in held {
            blocks.release(id, SessionIndex(session), Nanos::from_secs(100));
        }
        let later = Nanos::from_secs(200);
        let drawn = (0..20).filter(|session| blocks.draw(wish(*session, None, 1), later).is_ok()).count();
        prop_assert_eq!(drawn, 8 - pools.reserved(POOL).count());
    }
}
