use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use flow::{AdjacencyId, InstanceId, PortId};
use packet::{MacAddr, VecBuf};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
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

/// The queue of one FAR.
struct Queue {
    /// Number and octets of each packet.
    packets: VecDeque<(u8, usize)>,
    /// When the packets expire.
    until: Nanos,
}

/// The queues as lists.
#[derive(Default)]
struct Model {
    now: Nanos,
    /// By FAR.
    queues: BTreeMap<u32, Queue>,
    /// The next hop that the packets of a FAR wait for; `None`: of several.
    hops: BTreeMap<u32, Option<NextHop>>,
}

const fn owner(far: u32) -> QueueKey {
    QueueKey {
        session: SessionIndex(7 + far % 2),
        far: FarId(far),
    }
}

fn sorted(mut numbers: Vec<u8>) -> Vec<u8> {
    numbers.sort_unstable();
    numbers
}

impl Model {
    /// Whether a packet fits the limits, of which `most` is the one of packets in its queue.
    fn fits(&self, far: u32, octets: usize, most: u16) -> bool {
        let count = |wanted: &dyn Fn(u32) -> bool| {
            let queues = self.queues.iter().filter(|(other, _)| wanted(**other));
            let packets = queues.flat_map(|(_, queue)| &queue.packets);
            packets.fold((0, 0), |(all, sum), (_, octets)| (all + 1, sum + octets))
        };
        let (all, session) = (count(&|_| true), count(&|other| other % 2 == far % 2));
        let own = count(&|other| other == far);
        let free = (LIMITS.packets - all.0, LIMITS.octets - all.1);
        let is_plenty = free.0 * RESERVE >= LIMITS.packets && free.1 * RESERVE >= LIMITS.octets;
        free.0 > 0
            && octets <= free.1
            && own.0 < usize::from(most)
            && (is_plenty || own.0 * 2 <= free.0 && own.1 * 2 <= free.1)
            && session.0 < LIMITS.per_session
            && session.1 + octets <= LIMITS.per_session_octets
    }

    fn has_queue(&self, far: u32) -> bool {
        self.queues.contains_key(&far) || self.queues.len() < LIMITS.queues
    }

    fn open(&mut self, far: u32, until: Nanos) {
        let packets = VecDeque::new();
        self.queues.entry(far).or_insert(Queue { packets, until });
    }

    fn push(&mut self, far: u32, packet: (u8, usize), timeout: Duration) {
        let until = self.now + timeout;
        if let Some(queue) = self.queues.get_mut(&far) {
            if queue.packets.is_empty() {
                queue.until = until;
            }
            queue.packets.push_back(packet);
        }
    }

    /// Removes the queue of a FAR: the numbers of its packets.
    fn remove(&mut self, far: u32) -> Vec<u8> {
        self.hops.remove(&far);
        let packets = self.queues.remove(&far).map(|queue| queue.packets);
        packets
            .unwrap_or_default()
            .into_iter()
            .map(|(number, _)| number)
            .collect()
    }

    fn store(
        &mut self,
        buffers: &mut Buffers<VecBuf>,
        far: u32,
        packet: (u8, usize),
        most: Option<u16>,
    ) -> TestCaseResult {
        let (is_first, has_queue) = (!self.queues.contains_key(&far), self.has_queue(far));
        prop_assert_eq!(
            buffers.expect(3, owner(far), FLOW, most, 9, self.now),
            is_first && has_queue
        );
        if has_queue {
            self.open(far, self.now);
        }
        let (number, octets) = packet;
        let fits = has_queue && self.fits(far, octets, most.unwrap_or(4).min(4));
        prop_assert_eq!(
            buffers
                .store(3, VecBuf::new(&vec![number; octets]), self.now)
                .is_ok(),
            fits
        );
        if fits {
            self.push(far, packet, LIMITS.timeout);
        }
        Ok(())
    }

    fn park(
        &mut self,
        buffers: &mut Buffers<VecBuf>,
        far: u32,
        packet: (u8, usize),
        hop: u32,
    ) -> TestCaseResult {
        let next_hop = NextHop::Slot(AdjacencyId(hop));
        let (unresolved, has_queue) = (
            UnresolvedHop {
                next_hop,
                is_named: true,
            },
            self.has_queue(far),
        );
        prop_assert_eq!(buffers.park(4, owner(far), FLOW, unresolved, self.now), has_queue);
        if !has_queue {
            return Ok(());
        }
        self.open(far, self.now + NEXT_HOP_TIMEOUT);
        let awaited = self.hops.entry(far).or_insert(Some(next_hop));
        *awaited = awaited.filter(|awaited| *awaited == next_hop);
        let (number, octets) = packet;
        let fits = self.fits(far, octets, 4);
        prop_assert_eq!(
            buffers
                .store(4, VecBuf::new(&vec![number; octets]), self.now)
                .is_ok(),
            fits
        );
        if fits {
            self.push(far, packet, LIMITS.timeout.min(NEXT_HOP_TIMEOUT));
        }
        prop_assert_eq!(buffers.why_not(4), DropReason::NoNeighbour);
        Ok(())
    }

    fn meet(&mut self, buffers: &mut Buffers<VecBuf>, hop: u32) -> TestCaseResult {
        let id = AdjacencyId(hop);
        let is_met = |awaited: &Option<NextHop>| awaited.is_none_or(|awaited| awaited == NextHop::Slot(id));
        let met = self.hops.iter().filter(|(_, awaited)| is_met(awaited));
        let met: Vec<u32> = met.map(|(far, _)| *far).collect();
        let change = AdjacencyChange {
            id,
            neighbour: Some((InstanceId(0), Ipv4Addr::LOCALHOST.into())),
            adjacency: Some(Adjacency::resolved(&interface(), MacAddr([2; 6]))),
        };
        prop_assert_eq!(buffers.meet(&change), met.len());
        let gone = met.into_iter().flat_map(|far| self.remove(far)).collect();
        let mut out = Batch::new();
        buffers.take_flushed(&mut out);
        prop_assert_eq!(sorted(numbers(out)), sorted(gone));
        Ok(())
    }

    fn flush(&mut self, buffers: &mut Buffers<VecBuf>, far: u32) -> TestCaseResult {
        let mut out = Batch::new();
        buffers.flush(owner(far));
        buffers.take_flushed(&mut out);
        prop_assert_eq!(numbers(out), self.remove(far));
        Ok(())
    }

    fn discard(&mut self, buffers: &mut Buffers<VecBuf>, far: u32) -> TestCaseResult {
        buffers.discard(owner(far));
        prop_assert_eq!(ended(|| buffers.take_discarded()), self.remove(far));
        Ok(())
    }

    fn wait(&mut self, buffers: &mut Buffers<VecBuf>, time: Duration) -> TestCaseResult {
        self.now = self.now + time;
        let now = self.now;
        buffers.sweep(now);
        let late = self.queues.values_mut().filter(|queue| queue.until <= now);
        let late = late
            .flat_map(|queue| queue.packets.drain(..))
            .map(|(number, _)| number)
            .collect();
        // A parked queue ends with its packets.
        let queues = &mut self.queues;
        self.hops
            .retain(|far, _| queues.get(far).is_some_and(|queue| queue.until > now));
        let hops = &self.hops;
        queues.retain(|far, _| *far < 5 || hops.contains_key(far));
        prop_assert_eq!(sorted(ended(|| buffers.take_expired())), sorted(late));
        Ok(())
    }

    /// Compares what is held.
    fn compare(&self, buffers: &Buffers<VecBuf>) -> TestCaseResult {
        let packets = |least: u32| {
            self.queues
                .range(least..)
                .map(|(_, queue)| queue.packets.len())
                .sum::<usize>()
        };
        prop_assert_eq!(buffers.len(), packets(0));
        prop_assert_eq!(buffers.queues(), self.queues.len());
        let accounts = [7, 8].map(|session| buffers.accounts.of(SessionIndex(session)).packets);
        prop_assert_eq!(accounts.iter().sum::<usize>(), packets(0));
        prop_assert_eq!(
            (buffers.packets_parked, buffers.parked.len()),
            (packets(5), self.hops.len())
        );
        Ok(())
    }
}

proptest! {
    /// Against queues that are lists: stored packets are those flushed, discarded, expired and held.
    #[test]
    fn every_packet_is_somewhere(steps in prop::collection::vec(step(), 1..80)) {
        let (mut buffers, mut model) = (Buffers::new(LIMITS), Model::default());
        for (number, step) in (0u8..).zip(steps) {
            match step {
                Step::Store(far, octets, most) => model.store(&mut buffers, far, (number, octets), most),
                Step::Park(far, octets, hop) => model.park(&mut buffers, far, (number, octets), hop),
                Step::Meet(hop) => model.meet(&mut buffers, hop),
                Step::Flush(far) => model.flush(&mut buffers, far),
                Step::Discard(far) => model.discard(&mut buffers, far),
                Step::Wait(millis) => model.wait(&mut buffers, Duration::from_millis(millis)),
            }?;
            model.compare(&buffers)?;
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
    buffers.clear_reported(owner, 9);
    assert_eq!([5, 9].map(|qfi| expect(&mut buffers, qfi)), [false, true]);
    buffers.report_again(owner);
    assert_eq!(
        [5, 9, 9].map(|qfi| expect(&mut buffers, qfi)),
        [true, true, false]
    );
}
