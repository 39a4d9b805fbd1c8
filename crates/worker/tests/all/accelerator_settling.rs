//! Flows that move to an accelerator while packets of them are on their way to the host and back: none is overtaken,
//! lost or sent twice.

use crate::common;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use flow::KeyFields;
use flow::contract::{AnyKey, Flow};
use flow::{FlowEntry, Flows, PortId, ReplaceMap, SessionIndex};
use proptest::collection::vec;
use proptest::prelude::*;
use rules::testing::{UE, UserPacket};
use worker::PacketMetadata;
use worker::accelerator::{EngineConfig, Exception, PutError, Reason};
use worker::mem::MemBuf;

use common::beside::{Accelerator, Guest};
use common::frame;
use common::one_session::{REMOTE, session, world};

/// The port that packets of the flows come in by.
const N6: u16 = 1;
/// The port that they leave by.
const N3: PortId = PortId(0);

/// The frame with this number of a flow, which has a 5-tuple of its own.
fn numbered(flow: u16, number: u32) -> Vec<u8> {
    let mut packet = UserPacket::udp(REMOTE, UE, 53, 1000 + flow).bytes();
    let end = packet.len();
    packet[end - 4..].copy_from_slice(&number.to_be_bytes());
    packet[26..28].fill(0);
    frame(N6, &packet)
}

/// The flow and number of a frame, which are in its last octets.
fn number_of(octets: &[u8]) -> (u16, u32) {
    let end = octets.len();
    let number = u32::from_be_bytes(octets[end - 4..].try_into().expect("four octets"));
    let user = octets.len() - USER;
    let port = u16::from_be_bytes(octets[user + 22..user + 24].try_into().expect("two octets"));
    (port - 1000, number)
}

/// Octets of the user packets.
const USER: usize = 60;

fn accelerator(configure: impl Fn(&mut EngineConfig)) -> (Accelerator, Guest) {
    let mut world = world();
    let image = world.image(1, &session().into(), None).expect("it compiles");
    let mut beside = Accelerator::with(&world, configure, |_| {});
    let guest = beside.install(&image);
    (beside, guest)
}

/// The entry of a flow, with its 5-tuple.
fn entry(beside: &Accelerator, guest: &Guest, flow: u16) -> FlowEntry<AnyKey> {
    let packet = &numbered(flow, 0)[14..];
    let mut entry = beside.entry_of(guest, N6, packet);
    if let AnyKey::V4(key) = &mut entry.key {
        key.fields |= KeyFields::TUPLE;
        (key.source, key.destination) = (REMOTE.octets(), UE.octets());
        (key.ports, key.protocol) = ([53, 1000 + flow], 17);
    }
    entry
}

fn arrive(beside: &mut Accelerator, flow: u16, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        beside.arrive(N6, &numbered(flow, number));
    }
    beside.poll();
}

/// The numbers of what has left, of one flow.
fn sent(beside: &mut Accelerator) -> Vec<u32> {
    let out = beside.take();
    out.iter().map(|(_, frame)| number_of(frame).1).collect()
}

/// The exceptions since, with their numbers.
fn excepted(beside: &mut Accelerator) -> Vec<(Reason, u32)> {
    let taken = beside.exceptions();
    let one = |taken: &Exception<MemBuf>| (taken.reason, number_of(taken.packet.bytes()).1);
    taken.iter().map(one).collect()
}

fn no_flow(numbers: impl IntoIterator<Item = u32>) -> Vec<(Reason, u32)> {
    numbers
        .into_iter()
        .map(|number| (Reason::NoFlow, number))
        .collect()
}

fn give_back(beside: &mut Accelerator, flow: u16, number: u32) {
    let mut packet = MemBuf::new(&numbered(flow, number));
    packet.set_ingress(PortId(N6));
    beside.engine.reinject(packet, 0, beside.now);
}

#[test]
fn flows_follow_the_block_of_their_session_also_while_they_settle() {
    let (mut beside, mut guest) = accelerator(|_| {});
    let [settling, settled] = [1, 2].map(|flow| entry(&beside, &guest, flow));
    beside
        .engine
        .put_settling(&settling, 1, beside.now)
        .expect("there is room");
    beside.engine.put(&settled, beside.now).expect("there is room");
    let (old, mut image) = (guest.installed, (*guest.image.block).clone());
    image.urrs += 20;
    let blocks = beside.engine.blocks_mut();
    let carry = ReplaceMap::SAME;
    guest.installed = blocks
        .replace(old.block, &image, &carry, Flows::Keep)
        .expect("there is room");
    assert_ne!(guest.installed, old, "it has moved");
    beside.engine.moved(guest.image.session, old, guest.installed);
    arrive(&mut beside, 1, [5]);
    assert_eq!(sent(&mut beside), [], "it waits for the marker");
    give_back(&mut beside, 1, 4);
    beside.engine.settled(1, beside.now);
    assert_eq!(sent(&mut beside), [4, 5]);
    arrive(&mut beside, 2, [6]);
    assert_eq!(sent(&mut beside), [6]);
    assert_eq!(beside.count(&guest, 0).dl_packets, 3);
    let has = |flow: &Flow| flow.forward == settled.verdict.forward;
    assert!(beside.engine.any_flow(guest.image.session, has));
    assert!(!beside.engine.any_flow(SessionIndex(4000), has));
    beside.assert_conserved();
}

#[test]
fn a_key_is_of_one_session_as_long_as_its_flow_holds() {
    let mut world = world();
    let images = [1, 2].map(|number| world.image(number, &session().into(), None).expect("it compiles"));
    let mut beside = Accelerator::with(&world, |_| {}, |_| {});
    let guests = images.map(|image| beside.install(&image));
    let [of_one, of_other] = [&guests[0], &guests[1]].map(|guest| entry(&beside, guest, 1));
    let now = beside.now;
    let refused = |beside: &mut Accelerator| {
        assert_eq!(
            beside.engine.put_settling(&of_other, 9, now),
            Err(PutError::Taken)
        );
        assert_eq!(beside.engine.put(&of_other, now), Err(PutError::Taken));
    };
    beside
        .engine
        .put_settling(&of_one, 1, now)
        .expect("there is room");
    refused(&mut beside);
    beside.engine.settled(1, now);
    assert_eq!(beside.engine.owner(&of_one.key), Some(guests[0].image.session));
    refused(&mut beside);
    // Its entry stays in the table, and holds no more: the key is another's, also where the block is.
    let block = guests[0].installed.block;
    beside.engine.blocks_mut().remove(block);
    let mut image = guests[1].image.clone();
    image.session = SessionIndex(3);
    let third = beside.install(&image);
    assert_eq!(third.installed.block, block, "the test means one in its place");
    assert_eq!(beside.engine.owner(&of_one.key), None);
    beside
        .engine
        .put_settling(&of_other, 2, now)
        .expect("there is room");
    assert_eq!(beside.engine.owner(&of_other.key), Some(guests[1].image.session));
    beside.engine.settled(2, now);
    assert_eq!(beside.engine.owner(&of_other.key), Some(guests[1].image.session));
    beside
        .engine
        .blocks_mut()
        .revoke(guests[1].installed.block)
        .expect("it is there");
    assert_eq!(beside.engine.owner(&of_other.key), None);
}

#[test]
fn what_arrives_waits_for_what_comes_back() {
    let (mut beside, guest) = accelerator(|_| {});
    arrive(&mut beside, 1, 0..3);
    assert_eq!(excepted(&mut beside), no_flow(0..3));
    let given = entry(&beside, &guest, 1);
    beside
        .engine
        .put_settling(&given, 7, beside.now)
        .expect("there is room");
    assert_eq!(beside.engine.entry(&given.key), None);
    arrive(&mut beside, 1, 3..5);
    arrive(&mut beside, 2, 100..101);
    assert_eq!(
        (sent(&mut beside), excepted(&mut beside)),
        (vec![], no_flow([100]))
    );
    assert_eq!(
        (
            beside.engine.stats().settling.held,
            beside.engine.stats().path.held
        ),
        (2, 2)
    );
    (0..3).for_each(|number| give_back(&mut beside, 1, number));
    beside.engine.settled(6, beside.now);
    beside.poll();
    assert_eq!(sent(&mut beside), [0, 1, 2], "another's marker settles nothing");
    arrive(&mut beside, 1, 5..6);
    beside.engine.settled(7, beside.now);
    arrive(&mut beside, 1, 6..7);
    assert_eq!(sent(&mut beside), [3, 4, 5, 6]);
    assert!(beside.engine.entry(&given.key).is_some());
    assert_eq!(beside.count(&guest, 0).dl_packets, 7);
    let settling = beside.engine.stats().settling;
    assert_eq!(
        (
            settling.flows,
            settling.held,
            settling.settled,
            settling.timed_out
        ),
        (0, 0, 1, 0)
    );
    beside.assert_conserved();
}

#[test]
fn a_marker_settles_earlier_ones_across_the_wrap_of_their_numbers() {
    let (mut beside, guest) = accelerator(|_| {});
    for (flow, marker) in [(1, u32::MAX - 1), (2, u32::MAX), (3, 1)] {
        let given = entry(&beside, &guest, flow);
        beside
            .engine
            .put_settling(&given, marker, beside.now)
            .expect("there is room");
    }
    let is_there = |beside: &Accelerator| {
        [1, 2, 3].map(|flow| beside.engine.entry(&entry(beside, &guest, flow).key).is_some())
    };
    beside.engine.settled(0, beside.now);
    assert_eq!(is_there(&beside), [true, true, false]);
    beside.engine.settled(1, beside.now);
    assert_eq!(is_there(&beside), [true; 3]);
}

#[test]
fn a_flow_settles_anyhow_in_time() {
    let (mut beside, guest) = accelerator(|config| config.settling_time = Duration::from_millis(5));
    let given = entry(&beside, &guest, 1);
    beside
        .engine
        .put_settling(&given, 1, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 0..2);
    beside.now = beside.now + Duration::from_micros(4_970);
    beside.poll();
    assert_eq!(sent(&mut beside), []);
    beside.poll();
    beside.poll();
    assert_eq!(sent(&mut beside), [0, 1]);
    let settling = beside.engine.stats().settling;
    assert_eq!((settling.settled, settling.timed_out), (0, 1));
    beside.engine.settled(1, beside.now);
    assert_eq!(beside.engine.stats().settling, settling, "it came too late");
}

#[test]
fn without_room_the_flow_is_void_until_it_is_given_again() {
    let (mut beside, guest) = accelerator(|config| config.held_packets_per_flow = 2);
    let given = entry(&beside, &guest, 1);
    beside
        .engine
        .put_settling(&given, 1, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 0..5);
    assert_eq!(
        (sent(&mut beside), excepted(&mut beside)),
        (vec![], no_flow(0..5))
    );
    assert_eq!(beside.engine.stats().settling.voided, 1);
    give_back(&mut beside, 1, 0);
    beside.engine.settled(1, beside.now);
    arrive(&mut beside, 1, 5..6);
    assert_eq!(
        (sent(&mut beside), excepted(&mut beside)),
        (vec![0], no_flow([5]))
    );
    assert_eq!(beside.engine.entry(&given.key), None, "its marker was void");
    beside
        .engine
        .put_settling(&given, 2, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 6..7);
    (1..6).for_each(|number| give_back(&mut beside, 1, number));
    beside.engine.settled(2, beside.now);
    beside.poll();
    assert_eq!(sent(&mut beside), [1, 2, 3, 4, 5, 6]);
    assert_eq!(beside.engine.stats().settling.flows, 0);
    beside.assert_conserved();
}

#[test]
fn void_flows_that_nothing_uses_are_forgotten() {
    let (mut beside, guest) = accelerator(|config| {
        (config.held_packets, config.max_settling) = (0, 2);
    });
    for flow in [1, 2] {
        let given = entry(&beside, &guest, flow);
        beside
            .engine
            .put_settling(&given, 1, beside.now)
            .expect("there is room");
        arrive(&mut beside, flow, 0..1);
    }
    let third = entry(&beside, &guest, 3);
    assert_eq!(
        beside.engine.put_settling(&third, 1, beside.now),
        Err(PutError::Full)
    );
    beside.now = beside.now + Duration::from_millis(900);
    give_back(&mut beside, 1, 0);
    beside.poll();
    beside.now = beside.now + Duration::from_millis(200);
    beside.poll();
    assert_eq!(beside.engine.stats().settling.flows, 1, "one was used");
    beside
        .engine
        .put_settling(&third, 1, beside.now)
        .expect("there is room");
}

#[test]
fn a_flow_that_finds_no_room_in_the_table_is_void() {
    let (mut beside, guest) = accelerator(|config| config.max_flows_v4 = 16);
    let mut flow = 10;
    while beside
        .engine
        .put(&entry(&beside, &guest, flow), beside.now)
        .is_ok()
    {
        flow += 1;
        assert!(flow < 200, "the table is full at some time");
    }
    let given = entry(&beside, &guest, flow);
    beside
        .engine
        .put_settling(&given, 1, beside.now)
        .expect("there is room to settle");
    arrive(&mut beside, flow, 0..2);
    beside.engine.settled(1, beside.now);
    assert_eq!(
        (sent(&mut beside), excepted(&mut beside)),
        (vec![], no_flow(0..2))
    );
    give_back(&mut beside, flow, 0);
    beside.poll();
    assert_eq!((sent(&mut beside), excepted(&mut beside)), (vec![0], vec![]));
    assert_eq!(beside.engine.put(&given, beside.now), Err(PutError::Full));
    beside.assert_conserved();
}

#[test]
fn a_flow_that_is_removed_or_revoked_gives_what_it_holds_to_the_host() {
    let (mut beside, guest) = accelerator(|_| {});
    let given = entry(&beside, &guest, 1);
    beside
        .engine
        .put_settling(&given, 1, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 0..2);
    assert!(beside.engine.remove(&given.key, beside.now));
    assert_eq!(excepted(&mut beside), no_flow(0..2));
    beside
        .engine
        .put_settling(&given, 2, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 2..4);
    beside
        .engine
        .blocks_mut()
        .revoke(guest.installed.block)
        .expect("it is there");
    arrive(&mut beside, 1, 4..5);
    let mut expected = no_flow(2..4);
    expected.push((Reason::Stale, 4));
    assert_eq!(excepted(&mut beside), expected);
    assert_eq!(
        beside.engine.put_settling(&given, 3, beside.now),
        Err(PutError::NoBlock)
    );
    assert_eq!(beside.engine.stats().settling.flows, 0);
    beside.assert_conserved();
}

#[test]
fn a_flow_that_is_put_for_good_releases_what_it_holds() {
    let (mut beside, guest) = accelerator(|_| {});
    let given = entry(&beside, &guest, 1);
    beside
        .engine
        .put_settling(&given, 1, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 0..2);
    beside.engine.put(&given, beside.now).expect("there is room");
    arrive(&mut beside, 1, 2..3);
    assert_eq!(sent(&mut beside), [0, 1, 2]);
    beside
        .engine
        .put_settling(&given, 2, beside.now)
        .expect("there is room");
    arrive(&mut beside, 1, 3..4);
    assert_eq!(sent(&mut beside), [3], "it is in the table already");
}

#[test]
fn flows_that_are_given_again_and_again_take_no_more_room() {
    let (mut beside, guest) = accelerator(|config| config.max_settling = 2);
    for marker in 0..10_000 {
        let given = entry(&beside, &guest, (marker % 2) as u16);
        beside
            .engine
            .put_settling(&given, marker, beside.now)
            .expect("there is room");
    }
    beside.engine.settled(9_999, beside.now);
    let settling = beside.engine.stats().settling;
    assert_eq!((settling.flows, settling.settled), (0, 2));
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Packets of a flow arrive.
    Arrive(u16, u8),
    /// The accelerator is polled.
    Poll,
    /// The host takes as many messages of the accelerator.
    Host(u8),
    /// The accelerator takes as many messages of the host.
    Accelerator(u8),
    /// The host takes a flow away, if it has given it.
    Remove(u16),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3u16, 1..4u8).prop_map(|(flow, packets)| Step::Arrive(flow, packets)),
        4 => Just(Step::Poll),
        4 => (1..6u8).prop_map(Step::Host),
        4 => (1..6u8).prop_map(Step::Accelerator),
        1 => (0..3u16).prop_map(Step::Remove),
    ]
}

/// What the accelerator sends to the host.
enum ToHost {
    Exception(MemBuf),
    Marker(u32),
}

/// What the host sends to the accelerator.
enum ToAccelerator {
    /// The host has passed the packet itself.
    Send(MemBuf),
    /// The packet passes by the flow that the host has given.
    Reinject(MemBuf),
    Give(u16, u32),
    Remove(u16),
    Echo(u32),
}

/// An accelerator and a model of its host, between which messages take any time and keep their order.
struct Moving {
    beside: Accelerator,
    guest: Guest,
    to_host: VecDeque<ToHost>,
    to_accelerator: VecDeque<ToAccelerator>,
    /// By flow, how the host decides: bit n is its decision number n, whether it gives the flow.
    choices: u64,
    /// Flows that the host has given, and exceptions of each since.
    given: BTreeMap<u16, u32>,
    marker: u32,
    arrived: BTreeMap<u16, u32>,
    left: BTreeMap<u16, u32>,
    voided: u64,
}

impl Moving {
    fn new(choices: u64) -> Self {
        let (beside, guest) = accelerator(|config| {
            (config.held_packets, config.held_packets_per_flow) = (10, 5);
            config.settling_time = Duration::from_secs(1_000);
        });
        Self {
            beside,
            guest,
            to_host: VecDeque::new(),
            to_accelerator: VecDeque::new(),
            choices,
            given: BTreeMap::new(),
            marker: u32::MAX - 3,
            arrived: BTreeMap::new(),
            left: BTreeMap::new(),
            voided: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(flow, packets) => {
                for _ in 0..packets {
                    let number = self.arrived.entry(flow).or_default();
                    self.beside.arrive(N6, &numbered(flow, *number));
                    *number += 1;
                }
            }
            Step::Poll => self.beside.poll(),
            Step::Host(messages) => (0..messages).for_each(|_| self.host()),
            Step::Accelerator(messages) => (0..messages).for_each(|_| self.accelerator()),
            Step::Remove(flow) => {
                if self.given.remove(&flow).is_some() {
                    self.to_accelerator.push_back(ToAccelerator::Remove(flow));
                }
            }
        }
        self.collect();
    }

    fn choose(&mut self) -> bool {
        let choice = self.choices & 1 == 1;
        self.choices = self.choices.rotate_right(1);
        choice
    }

    fn give(&mut self, flow: u16) {
        self.marker = self.marker.wrapping_add(1);
        self.given.insert(flow, 0);
        self.to_accelerator
            .push_back(ToAccelerator::Give(flow, self.marker));
    }

    /// The host takes a message. It passes what is of no flow that it has given, or gives the flow; what is of one goes
    /// back, after the flow is given again now and then: it may be void.
    fn host(&mut self) {
        let packet = match self.to_host.pop_front() {
            None => return,
            Some(ToHost::Marker(marker)) => {
                return self.to_accelerator.push_back(ToAccelerator::Echo(marker));
            }
            Some(ToHost::Exception(packet)) => packet,
        };
        let (flow, _) = number_of(packet.bytes());
        let is_given = match self.given.get_mut(&flow) {
            None => self.choose().then(|| self.give(flow)).is_some(),
            Some(exceptions) => {
                *exceptions += 1;
                if *exceptions > 6 {
                    self.give(flow);
                }
                true
            }
        };
        self.to_accelerator.push_back(match is_given {
            true => ToAccelerator::Reinject(packet),
            false => ToAccelerator::Send(packet),
        });
    }

    /// The accelerator takes a message.
    fn accelerator(&mut self) {
        let now = self.beside.now;
        let engine = &mut self.beside.engine;
        match self.to_accelerator.pop_front() {
            None => return,
            Some(ToAccelerator::Send(packet)) => engine.send(N3, packet, now),
            Some(ToAccelerator::Reinject(packet)) => engine.reinject(packet, 0, now),
            Some(ToAccelerator::Echo(marker)) => engine.settled(marker, now),
            Some(ToAccelerator::Remove(flow)) => {
                let key = entry(&self.beside, &self.guest, flow).key;
                self.beside.engine.remove(&key, now);
            }
            Some(ToAccelerator::Give(flow, marker)) => {
                let given = entry(&self.beside, &self.guest, flow);
                self.collect();
                let taken = self.beside.engine.put_settling(&given, marker, now);
                taken.expect("there is room");
                self.to_host.push_back(ToHost::Marker(marker));
            }
        }
        self.collect();
    }

    /// Sends exceptions on, and looks at the order of what has left.
    fn collect(&mut self) {
        for Exception { packet, .. } in self.beside.exceptions() {
            self.to_host.push_back(ToHost::Exception(packet));
        }
        for (port, octets) in self.beside.take() {
            let (flow, number) = number_of(&octets);
            let next = self.left.entry(flow).or_default();
            assert_eq!((port, number), (N3, *next), "flow {flow}");
            *next += 1;
        }
        self.voided = self.beside.engine.stats().settling.voided;
    }

    /// Lets everything arrive, and looks for what is missing.
    fn finish(&mut self) {
        for _ in 0..2_000 {
            self.step(Step::Poll);
            self.step(Step::Host(10));
            self.step(Step::Accelerator(10));
        }
        assert_eq!(self.left, self.arrived, "all have left");
        let stats = self.beside.engine.stats();
        assert_eq!((stats.settling.held, stats.settling.timed_out), (0, 0));
        self.beside.assert_conserved();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_of_a_flow_that_moves_keep_their_order(steps in vec(any_step(), 1..200), choices: u64) {
        let mut moving = Moving::new(choices);
        steps.into_iter().for_each(|step| moving.step(step));
        moving.finish();
    }
}

/// Flows are voided and settle in what is drawn.
#[test]
fn random_interleavings_reach_every_way() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut voided, mut settled, mut hits) = (0, 0, 0);
    for _ in 0..100 {
        let drawn = (vec(any_step(), 150), any::<u64>()).new_tree(&mut runner);
        let (steps, choices) = drawn.expect("they are drawn without conditions").current();
        let mut moving = Moving::new(choices);
        steps.into_iter().for_each(|step| moving.step(step));
        moving.finish();
        let stats = moving.beside.engine.stats();
        (voided, settled, hits) = (
            voided + moving.voided,
            settled + stats.settling.settled,
            hits + stats.path.hits,
        );
    }
    assert!(
        voided > 20 && settled > 200 && hits > 500,
        "{voided} {settled} {hits}"
    );
}
