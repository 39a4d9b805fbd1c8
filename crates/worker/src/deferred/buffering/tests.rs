use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use flow::{AdjacencyId, InstanceId, PortId};
use packet::{MacAddr, VecBuf};
use proptest::prelude::*;
use transport::{Adjacency, Interface};

use super::*;

const LIMITS: BufferLimits = BufferLimits {
    queues: 4,
    packets: 10,
    octets: 600,
    per_queue: 4,
    per_session: 6,
    per_session_octets: 400,
    timeout: Duration::from_secs(1),
};

fn interface() -> Interface {
    Interface {
        instance: InstanceId(0),
        port: PortId(0),
        vlan: None,
        mac: MacAddr([2; 6]),
        ipv4: None,
        broadcast: None,
        ipv6: None,
        mtu: 1500,
        fragmentation: rules::network::Fragmentation::Inner,
        tunnels: false,
    }
}

const FLOW: Flow = Flow {
    session: SessionIndex(7),
    pdr: PdrId(2),
    octets: 100,
    urrs: 5,
    generation: 3,
};

fn ended(take: impl FnMut() -> Option<(VecBuf, Flow)>) -> Vec<u8> {
    let all = std::iter::from_fn(take);
    all.inspect(|(_, flow)| assert_eq!(*flow, FLOW))
        .map(|(packet, _)| packet.data()[0])
        .collect()
}

#[test]
fn a_queue_that_has_nothing_finds_room_beside_any_number_of_long_ones() {
    let limits = BufferLimits {
        queues: 64,
        packets: 160,
        octets: 160 * 100,
        per_queue: 64,
        per_session: 160,
        per_session_octets: 160 * 100,
        timeout: Duration::from_secs(60),
    };
    let mut buffers = Buffers::new(limits);
    let store = |buffers: &mut Buffers<VecBuf>, session: u32| {
        let owner = QueueKey {
            session: SessionIndex(session),
            far: FarId(1),
        };
        buffers.expect(0, owner, FLOW, None, 0, Nanos(0));
        let may = buffers.may_store(0, 90);
        let is_stored = buffers.store(0, VecBuf::new(&[0; 90]), Nanos(0)).is_ok();
        assert_eq!(may, is_stored);
        is_stored
    };
    let mut refused = 0;
    for session in (0..5).cycle().take(1_000) {
        refused += usize::from(!store(&mut buffers, session));
    }
    assert!(refused > 800 && buffers.len() >= 150);
    assert!((5..9).all(|session| store(&mut buffers, session)));
}

#[test]
fn a_session_with_many_fars_leaves_others_their_room() {
    let limits = BufferLimits {
        queues: 64,
        packets: 160,
        octets: 160 * 100,
        per_queue: 64,
        per_session: 40,
        per_session_octets: 2_000,
        timeout: Duration::from_secs(60),
    };
    let mut buffers = Buffers::new(limits);
    let owner = |session: u32, number: u32| QueueKey {
        session: SessionIndex(session),
        far: FarId(number % 20),
    };
    let store = |buffers: &mut Buffers<VecBuf>, owner: QueueKey, octets: usize| {
        buffers.expect(0, owner, FLOW, None, 0, Nanos(0));
        let may = buffers.may_store(0, octets);
        let stored = buffers.store(0, VecBuf::new(&vec![0; octets]), Nanos(0));
        assert_eq!(may, stored.is_ok());
        stored.map_err(|_| buffers.why_not(0)).err()
    };
    // Short packets to the bound of packets, long ones to that of octets.
    for (session, octets, most) in [(1, 10, 40), (2, 500, 4)] {
        let refused: Vec<DropReason> = (0..1_000)
            .filter_map(|number| store(&mut buffers, owner(session, number), octets))
            .collect();
        assert_eq!(refused.len(), 1_000 - most);
        assert!(refused.iter().all(|reason| *reason == DropReason::BufferLimit));
    }
    assert_eq!(
        std::iter::from_fn(|| buffers.take_refused()).count(),
        64,
        "as many as a burst has"
    );
    assert_eq!(store(&mut buffers, owner(3, 0), 500), None);
    // What goes makes room for as much again.
    buffers.flush(owner(1, 0));
    buffers.discard(owner(1, 1));
    let room = (0..10).filter(|number| store(&mut buffers, owner(1, *number), 10).is_none());
    assert_eq!(room.count(), 4);
    assert_eq!(
        buffers.accounts.of(SessionIndex(1)),
        Account {
            packets: 40,
            octets: 400
        }
    );
}

#[test]
fn long_packets_of_some_leave_room_for_the_first_of_others() {
    let limits = BufferLimits {
        queues: 64,
        packets: 1_000,
        octets: 20_000,
        per_queue: 64,
        per_session: 1_000,
        per_session_octets: 20_000,
        timeout: Duration::from_secs(60),
    };
    let mut buffers = Buffers::new(limits);
    let mut store = |session: u32, octets: usize| {
        let owner = QueueKey {
            session: SessionIndex(session),
            far: FarId(1),
        };
        buffers.expect(0, owner, FLOW, None, 0, Nanos(0));
        buffers.store(0, VecBuf::new(&vec![0; octets]), Nanos(0)).is_ok()
    };
    let long = (0..1_000).filter(|_| store(1, 500)).count();
    assert!((37..40).contains(&long), "{long}");
    assert!(
        store(2, 300),
        "the last sixteenth is for those that have nothing yet"
    );
}

fn numbers(mut packets: Batch<VecBuf>) -> Vec<u8> {
    packets.drain().map(|packet| packet.data()[0]).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Store(u32, usize, Option<u16>),
    /// Of a FAR whose next hop is this one.
    Park(u32, usize, u32),
    Meet(u32),
    Flush(u32),
    Discard(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let far = 0..8u32;
    prop_oneof![
        6 => (0..5u32, 1..120usize, prop::option::of(0..6u16)).prop_map(|(far, octets, most)| Step::Store(far, octets, most)),
        2 => (5..8u32, 1..120usize, 0..2u32).prop_map(|(far, octets, hop)| Step::Park(far, octets, hop)),
        1 => (0..2u32).prop_map(Step::Meet),
        1 => far.clone().prop_map(Step::Flush),
        1 => far.prop_map(Step::Discard),
        1 => (0..900u64).prop_map(Step::Wait),
    ]
}

/// By FAR: the number and octets of each packet that waits, and until when.
type Model = BTreeMap<u32, (VecDeque<(u8, usize)>, Nanos)>;

proptest! {
    /// Against queues that are lists: what was stored is what was flushed, discarded, expired and is held.
    #[test]
    fn every_packet_is_somewhere(steps in prop::collection::vec(step(), 1..80)) {
        let mut buffers = Buffers::new(LIMITS);
        let mut model: Model = BTreeMap::new();
        let mut hops: BTreeMap<u32, Option<NextHop>> = BTreeMap::new();
        let mut now = Nanos(0);
        for (number, step) in (0u8..).zip(steps) {
            let owner = |far| QueueKey { session: SessionIndex(7 + far % 2), far: FarId(far) };
            let model_fits = |model: &Model, far: u32, octets: usize, most: u16| {
                let count = |wanted: &dyn Fn(u32) -> bool| {
                    let queues = model.iter().filter(|(other, _)| wanted(**other));
                    let packets = queues.flat_map(|(_, (queue, _))| queue);
                    packets.fold((0, 0), |(all, sum), (_, octets)| (all + 1, sum + octets))
                };
                let (all, session, own) = (count(&|_| true), count(&|other| other % 2 == far % 2), count(&|other| other == far));
                let free = (LIMITS.packets - all.0, LIMITS.octets - all.1);
                let is_plenty = free.0 * RESERVE >= LIMITS.packets && free.1 * RESERVE >= LIMITS.octets;
                free.0 > 0
                    && octets <= free.1
                    && own.0 < usize::from(most)
                    && (is_plenty || own.0 * 2 <= free.0 && own.1 * 2 <= free.1)
                    && session.0 < LIMITS.per_session
                    && session.1 + octets <= LIMITS.per_session_octets
            };
            match step {
                Step::Store(far, octets, most) => {
                    let is_first = !model.contains_key(&far);
                    let has_queue = !is_first || model.len() < LIMITS.queues;
                    prop_assert_eq!(buffers.expect(3, owner(far), FLOW, most, 9, now), is_first && has_queue);
                    if has_queue {
                        model.entry(far).or_insert((VecDeque::new(), now));
                    }
                    let fits = has_queue && model_fits(&model, far, octets, most.unwrap_or(4).min(4));
                    let packet = VecBuf::new(&vec![number; octets]);
                    prop_assert_eq!(buffers.store(3, packet, now).is_ok(), fits);
                    if fits && let Some((queue, until)) = model.get_mut(&far) {
                        if queue.is_empty() {
                            *until = now + LIMITS.timeout;
                        }
                        queue.push_back((number, octets));
                    }
                }
                Step::Park(far, octets, hop) => {
                    let hop = NextHop::Slot(AdjacencyId(hop));
                    let has_queue = model.contains_key(&far) || model.len() < LIMITS.queues;
                    prop_assert_eq!(buffers.park(4, owner(far), FLOW, UnresolvedHop { next_hop: hop, is_named: true }, now), has_queue);
                    if has_queue {
                        model.entry(far).or_insert((VecDeque::new(), now + NEXT_HOP_TIMEOUT));
                        let awaited = hops.entry(far).or_insert(Some(hop));
                        *awaited = awaited.filter(|awaited| *awaited == hop);
                    }
                    let fits = has_queue && model_fits(&model, far, octets, 4);
                    let stored = !has_queue || buffers.store(4, VecBuf::new(&vec![number; octets]), now).is_ok();
                    prop_assert_eq!(stored, !has_queue || fits);
                    if fits && let Some((queue, until)) = model.get_mut(&far) {
                        if queue.is_empty() {
                            *until = now + LIMITS.timeout.min(NEXT_HOP_TIMEOUT);
                        }
                        queue.push_back((number, octets));
                    }
                    if has_queue {
                        prop_assert_eq!(buffers.why_not(4), DropReason::NoNeighbour);
                    }
                }
                Step::Meet(hop) => {
                    let is_met = |awaited: &Option<NextHop>| awaited.is_none_or(|awaited| awaited == NextHop::Slot(AdjacencyId(hop)));
                    let met: Vec<u32> = hops.iter().filter(|(_, awaited)| is_met(awaited)).map(|(far, _)| *far).collect();
                    let change = AdjacencyChange {
                        id: AdjacencyId(hop),
                        neighbour: Some((InstanceId(0), Ipv4Addr::LOCALHOST.into())),
                        adjacency: Some(Adjacency::resolved(&interface(), MacAddr([2; 6]))),
                    };
                    prop_assert_eq!(buffers.meet(&change), met.len());
                    let mut gone: Vec<u8> = Vec::new();
                    for far in met {
                        hops.remove(&far);
                        gone.extend(model.remove(&far).into_iter().flat_map(|(queue, _)| queue).map(|(number, _)| number));
                    }
                    let mut out = Batch::new();
                    buffers.take_flushed(&mut out);
                    let mut out = numbers(out);
                    out.sort_unstable();
                    gone.sort_unstable();
                    prop_assert_eq!(out, gone);
                }
                Step::Flush(far) | Step::Discard(far) => {
                    hops.remove(&far);
                    let gone = model.remove(&far).map(|(queue, _)| queue).unwrap_or_default();
                    let gone: Vec<u8> = gone.into_iter().map(|(number, _)| number).collect();
                    let out = if matches!(step, Step::Flush(_)) {
                        let mut out = Batch::new();
                        buffers.flush(owner(far));
                        buffers.take_flushed(&mut out);
                        numbers(out)
                    } else {
                        buffers.discard(owner(far));
                        ended(|| buffers.take_discarded())
                    };
                    prop_assert_eq!(out, gone);
                }
                Step::Wait(millis) => {
                    now = now + Duration::from_millis(millis);
                    buffers.sweep(now);
                    let late = model.values_mut().filter(|(_, until)| *until <= now);
                    let mut late: Vec<u8> = late.flat_map(|(queue, _)| queue.drain(..)).map(|(number, _)| number).collect();
                    // A parked queue ends with its packets.
                    hops.retain(|far, _| model.get(far).is_some_and(|(_, until)| *until > now));
                    model.retain(|far, _| *far < 5 || hops.contains_key(far));
                    let mut expired = ended(|| buffers.take_expired());
                    expired.sort_unstable();
                    late.sort_unstable();
                    prop_assert_eq!(expired, late);
                }
            }
            prop_assert_eq!(buffers.len(), model.values().map(|(queue, _)| queue.len()).sum::<usize>());
            prop_assert_eq!(buffers.queues(), model.len());
            let accounts: usize = [7, 8].map(|session| buffers.accounts.of(SessionIndex(session)).packets).iter().sum();
            prop_assert_eq!(accounts, model.values().map(|(queue, _)| queue.len()).sum::<usize>());
            let parked = model.iter().filter(|(far, _)| **far >= 5).map(|(_, (queue, _))| queue.len());
            prop_assert_eq!((buffers.packets_parked, buffers.parked.len()), (parked.sum::<usize>(), hops.len()));
        }
    }
}

#[test]
fn control_is_notified_once_of_each_qos_flow_until_it_is_to_be_notified_again() {
    let mut buffers: Buffers<VecBuf> = Buffers::new(LIMITS);
    let owner = QueueKey {
        session: SessionIndex(1),
        far: FarId(1),
    };
    let expect = |buffers: &mut Buffers<VecBuf>, qfi| buffers.expect(0, owner, FLOW, None, qfi, Nanos(0));
    assert_eq!(
        [5, 5, 9, 5, 0].map(|qfi| expect(&mut buffers, qfi)),
        [true, false, true, false, true]
    );
    buffers.untell(owner, 9);
    assert_eq!([5, 9].map(|qfi| expect(&mut buffers, qfi)), [false, true]);
    buffers.tell_again(owner);
    assert_eq!(
        [5, 9, 9].map(|qfi| expect(&mut buffers, qfi)),
        [true, true, false]
    );
}
