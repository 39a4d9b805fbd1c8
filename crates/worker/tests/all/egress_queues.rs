//! Queues before ports: which packets wait, who leaves first and at what rate, and that each packet counts once.

use crate::common;

use std::time::Duration;

use flow::meter::Rate;
use flow::{Bucket, PortId, SessionIndex, WorkerId};
use packet::{DropReason, Qfi, Teid, VlanId, checksum};
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange, SessionImage};
use rules::model::{
    ApplyAction, BitRates, BitsPerSecond, DestinationInterface, Edit, Far, FarId, FarUpdate,
    ForwardingParametersUpdate, OptionalRates, OuterHeaderCreation, Pdi, PdrId, PdrUpdate, Qer, QerId,
    QerUpdate, SdfFilter, SourceInterface,
};
use rules::network::{
    Egress, EgressClass, EgressClasses, Fragmentation, InstanceEgress, Network, QueueManagement,
};
use rules::testing::{self, UE, UserPacket, pdr, ue_ip};
use worker::mem::MemBuf;
use worker::{ApplyError, Command, EgressLimits, WorkerSelectionChange};

use common::one_session::{REMOTE, TEID, hand_over, session, to_ue, uplink};
use common::{World, frame};

pub const SESSION: SessionIndex = SessionIndex(1);
/// The ports of the remote end: of the default flow, and of the one of QFI 1.
pub const DEFAULT: u16 = 53;
pub const VOICE: u16 = 80;

/// What is asked of the queues towards gNBs.
pub struct Case {
    /// Of the port, kbit/s.
    pub port: u64,
    /// Of the instance, kbit/s.
    pub instance: u64,
    pub octets: u32,
    pub management: QueueManagement,
}

pub const FREE: Case = Case {
    port: 0,
    instance: 0,
    octets: 1 << 20,
    management: QueueManagement::TailDrop,
};

fn rate(kbit: u64) -> Rate {
    match kbit {
        0 => Rate::UNLIMITED,
        kbit => Rate::from_kbit(kbit),
    }
}

pub fn network(case: &Case) -> Network {
    let class = |name: &str, qfis: &[u8], priority| EgressClass {
        name: name.into(),
        qfis: qfis.iter().map(|qfi| Qfi::new(*qfi).expect("a QFI")).collect(),
        priority,
        weight: 1,
        octets: case.octets,
        management: case.management,
    };
    let egress = InstanceEgress {
        rate: rate(case.instance),
    };
    let network = testing::network_with(|instance| {
        if instance.id.0 == 0 {
            instance.egress = Some(egress);
        }
    });
    network.with_egress(Some(Egress {
        classes: EgressClasses::new(vec![class("voice", &[1], 0), class("rest", &[], 1)])
            .expect("two classes"),
        ports: vec![rate(case.port)],
    }))
}

fn world(case: &Case) -> World {
    World::with(network(case), 1, |config| {
        config.egress = EgressLimits {
            packets: 1_024,
            octets: 1 << 20,
            queues: 64,
        };
    })
}

/// The session, whose default flow has this Session-AMBR (kbit/s; 0: none), and with a flow of QFI 1 that has these
/// rates.
pub fn rules(ambr: u64, voice: Option<(u64, u64)>) -> SessionRules {
    let kbit = |kbit| {
        let rate = BitsPerSecond::from_kbit(kbit);
        BitRates { ul: rate, dl: rate }
    };
    let mut rules = session();
    if ambr > 0 {
        let qer = Qer {
            mbr: Some(kbit(ambr)),
            ..Qer::new(QerId(10))
        };
        rules.create_qer(qer).expect("it is new");
        for id in [PdrId(1), PdrId(2)] {
            let update = PdrUpdate {
                qers: Some(vec![QerId(1), QerId(10)]),
                ..PdrUpdate::new(id)
            };
            rules.update_pdr(update).expect("it is there");
        }
    }
    let optional = OptionalRates {
        gbr: voice.map(|(gbr, _)| kbit(gbr)),
        ..OptionalRates::default()
    };
    let qer = Qer {
        qfi: Qfi::new(1),
        mbr: voice.map(|(_, mbr)| kbit(mbr)),
        optional: optional.into(),
        ..Qer::new(QerId(2))
    };
    rules.create_qer(qer).expect("it is new");
    let mut pdi = Pdi::new(SourceInterface::Core);
    pdi.ue_ip = vec![ue_ip()].into();
    let description = format!("permit out 17 from any {VOICE} to assigned");
    pdi.sdf_filters = [SdfFilter {
        flow_description: Some(description.parse().expect("a description")),
        ..SdfFilter::default()
    }]
    .into_iter()
    .collect();
    let mut flow = pdr(12, 10, pdi, 2);
    flow.qers = [QerId(2)].into_iter().collect();
    flow.urrs = rules.pdr(PdrId(2)).expect("it is there").urrs.clone();
    rules.create_pdr(flow).expect("it is new");
    rules
}

/// A packet to the UE of 28 octets of headers and at least 16 others.
pub fn packet(from: u16, payload: usize) -> Vec<u8> {
    let mut packet = UserPacket::udp(REMOTE, UE, from, 1000);
    packet.payload = vec![7; payload.saturating_sub(16)];
    packet.bytes()
}

/// Puts downlink packets on the wire, and polls once.
pub fn offer(world: &mut World, packets: impl IntoIterator<Item = Vec<u8>>) {
    let queue = world.wires.to(WorkerId(0), PortId(1));
    for packet in packets {
        queue
            .push(MemBuf::new(&frame(1, &packet)))
            .expect("there is room on the wire");
    }
    world.poll();
}

/// Lets time pass; what leaves in it, from the port of the remote end.
fn leaves(world: &mut World, time: Duration) -> Vec<u16> {
    let end = world.now + time;
    while world.now < end {
        world.poll();
    }
    sources(&world.take())
}

/// The source ports of user packets in tunnels.
fn sources(out: &[(PortId, Vec<u8>)]) -> Vec<u16> {
    let source = |(_, frame): &(PortId, Vec<u8>)| u16::from_be_bytes([frame[78], frame[79]]);
    out.iter().map(source).collect()
}

pub fn waiting(world: &World) -> u64 {
    world.workers[0].stats().queued
}

fn counted(world: &mut World) -> (u64, u64) {
    let usage = world.query(0, SESSION);
    (usage.counters[0].1.dl_packets, usage.counters[0].1.dl_octets)
}

#[test]
fn without_rates_packets_leave_at_once_as_they_would_without_queues() {
    let mut plain = World::new();
    plain.install(1, rules(0, None));
    let mut queued = world(&FREE);
    queued.install(1, rules(0, None));
    let packets: Vec<_> = (0..10)
        .map(|n| packet(if n % 3 == 0 { VOICE } else { DEFAULT }, n))
        .collect();
    let out =
        |world: &mut World| -> Vec<_> { packets.iter().flat_map(|packet| world.send(1, packet)).collect() };
    assert_eq!(out(&mut plain), out(&mut queued));
    assert_eq!(queued.send(0, &uplink()).len(), 1, "uplink does not wait");
    assert_eq!(waiting(&queued), 0);
    queued.assert_conserved();
}

#[test]
fn a_session_gets_its_rate_and_loses_nothing_that_fits() {
    let mut world = world(&FREE);
    world.install(1, rules(1_000, None));
    offer(&mut world, (0..100).map(|_| packet(DEFAULT, 972)));
    // 1000 octets a packet and 1 Mbit/s: those of 50 ms at once, and one every 8 ms.
    let out = [1, 400, 400].map(|time| leaves(&mut world, Duration::from_millis(time)).len());
    assert_eq!(out, [5, 50, 45]);
    assert_eq!((waiting(&world), world.drops().iter().sum::<u64>()), (0, 0));
    assert_eq!(counted(&mut world).0, 100);
    world.assert_conserved();
}

#[test]
fn an_urgent_class_goes_before_what_waits_already() {
    let case = Case { port: 8_000, ..FREE };
    let mut world = world(&case);
    world.install(1, rules(0, None));
    offer(&mut world, (0..60).map(|_| packet(DEFAULT, 900)));
    leaves(&mut world, Duration::from_millis(2));
    assert!(waiting(&world) > 20);
    offer(&mut world, (0..5).map(|_| packet(VOICE, 900)));
    let next = leaves(&mut world, Duration::from_millis(8));
    let of_voice = next
        .iter()
        .rposition(|source| *source == VOICE)
        .expect("they have left");
    assert!(of_voice <= 6, "at most one packet was on its way: {next:?}");
}

#[test]
fn a_port_and_an_instance_are_no_faster_than_their_rates() {
    for case in [
        Case { port: 8_000, ..FREE },
        Case {
            instance: 8_000,
            ..FREE
        },
    ] {
        let mut world = world(&case);
        world.install(1, rules(0, None));
        offer(&mut world, (0..64).map(|_| packet(DEFAULT, 972)));
        leaves(&mut world, Duration::from_millis(10));
        let out = leaves(&mut world, Duration::from_millis(20)).len() as u64;
        // 1000 octets of IP, 58 of headers, and on a port 24 on the wire.
        let octets = if case.port > 0 { 1_082 } else { 1_058 };
        let expected = 20_000 / octets;
        assert!(
            (expected..=expected + 1).contains(&out),
            "{out} at a million octets a second"
        );
    }
}

#[test]
fn each_worker_has_its_part_of_a_rate() {
    let case = Case {
        instance: 16_000,
        ..FREE
    };
    let mut world = World::with(network(&case), 2, |_| {});
    for bucket in Bucket::all() {
        let owner = WorkerId(0);
        world.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
    }
    world.install(1, rules(0, None));
    offer(&mut world, (0..64).map(|_| packet(DEFAULT, 972)));
    leaves(&mut world, Duration::from_millis(10));
    let out = leaves(&mut world, Duration::from_millis(20)).len();
    assert!((18..=19).contains(&out), "{out} at a million octets a second");
}

#[test]
fn a_guaranteed_flow_gets_its_rate_beside_a_full_session() {
    let case = Case { port: 2_000, ..FREE };
    let mut world = world(&case);
    world.install(1, rules(0, Some((400, 800))));
    let mut out = Vec::new();
    for _ in 0..200 {
        offer(
            &mut world,
            [packet(DEFAULT, 972), packet(DEFAULT, 972), packet(VOICE, 72)],
        );
        out.extend(leaves(&mut world, Duration::from_millis(5)));
    }
    // 100 octets in 5 ms are 160 kbit/s, and are guaranteed.
    let of_voice = out.iter().filter(|source| **source == VOICE).count();
    assert!((195..=200).contains(&of_voice), "{of_voice}");
    assert!(waiting(&world) > 100, "the others wait");
}

#[test]
fn what_finds_no_room_is_dropped_and_counts_not() {
    let case = Case {
        octets: 10_000,
        ..FREE
    };
    let mut world = world(&case);
    world.install(1, rules(1_000, None));
    offer(&mut world, (0..64).map(|_| packet(DEFAULT, 972)));
    leaves(&mut world, Duration::from_millis(500));
    let dropped = world.drops()[DropReason::EgressQueueFull.index()];
    let (packets, octets) = counted(&mut world);
    assert!(dropped > 20, "{dropped}");
    assert_eq!((packets + dropped, octets), (64, packets * 1_000));
    world.assert_conserved();
}

#[test]
fn the_last_usage_of_a_session_is_what_has_left() {
    let mut world = world(&FREE);
    world.install(1, rules(1_000, None));
    offer(&mut world, (0..64).map(|_| packet(DEFAULT, 972)));
    let left = leaves(&mut world, Duration::from_millis(80)).len() as u64;
    let usage = world
        .apply(0, SessionChange::Remove(SESSION))
        .expect("it is there");
    let more = world.take().len() as u64;
    let usage = usage.expect("it has counted");
    assert_eq!(usage.counters[0].1.dl_packets, left + more);
    assert_eq!(
        world.drops()[DropReason::EgressReleased.index()],
        64 - left - more
    );
    assert_eq!(waiting(&world), 0);
    world.assert_conserved();
    // The number is another's, whose queues are its own.
    world.install(1, rules(0, None));
    assert_eq!(world.send(1, &to_ue()).len(), 1);
}

/// The session with a change of rules.
fn changed(
    world: &mut World,
    before: &SessionImage,
    edit: impl FnOnce(&mut SessionRules),
) -> Box<SessionImage> {
    world.change(before, ImmediateActions::default(), edit)
}

/// A block of more lines lies elsewhere; what waits has counted in the one before.
#[test]
fn what_is_lost_is_credited_back_after_a_change_that_moves_the_counters() {
    let mut world = world(&FREE);
    let image = world.install(1, rules(1_000, None));
    offer(&mut world, (0..40).map(|_| packet(DEFAULT, 972)));
    let mut left = leaves(&mut world, Duration::from_millis(20)).len() as u64;
    // FARs that no PDR has, behind the others: flows stay as they are, and nothing leaves for that.
    let image = world.change(&image, ImmediateActions::default(), |rules| {
        for id in 100..110 {
            let far = rules.far(FarId(2)).expect("it is there").clone();
            rules.create_far(Far { id: FarId(id), ..far }).expect("it is new");
        }
    });
    assert!(waiting(&world) > 20, "it waits on: {image:?}");
    left += leaves(&mut world, Duration::from_millis(40)).len() as u64;
    let usage = world
        .apply(0, SessionChange::Remove(SESSION))
        .expect("it is there");
    left += world.take().len() as u64;
    assert_eq!(usage.expect("it has counted").counters[0].1.dl_packets, left);
    world.assert_conserved();
}

#[test]
fn a_rate_changes_for_what_waits() {
    let mut world = world(&FREE);
    let image = world.install(1, rules(100, None));
    offer(&mut world, (0..60).map(|_| packet(DEFAULT, 972)));
    leaves(&mut world, Duration::from_millis(10));
    let before = waiting(&world);
    changed(&mut world, &image, |rules| {
        let faster = BitsPerSecond::from_kbit(8_000);
        let update = QerUpdate {
            mbr: Edit::Set(BitRates {
                ul: faster,
                dl: faster,
            }),
            ..QerUpdate::new(QerId(10))
        };
        rules.update_qer(update).expect("it is there");
    });
    let out = leaves(&mut world, Duration::from_millis(20)).len() as u64;
    assert!((19..=22).contains(&out), "one a millisecond: {out}");
    assert_eq!(before - out, waiting(&world));
}

#[test]
fn an_end_marker_comes_behind_what_waited_for_its_tunnel() {
    let mut world = world(&FREE);
    let image = world.install(1, rules(100, None));
    offer(&mut world, (0..40).map(|_| packet(DEFAULT, 972)));
    world.take();
    assert!(waiting(&world) > 20);
    let immediate = ImmediateActions {
        end_markers: vec![FarId(2)],
        ..ImmediateActions::default()
    };
    world.change(&image, immediate, |rules| {
        let target = OuterHeaderCreation::gtpu_ipv4(Teid(99), "10.200.1.1".parse().expect("an address"));
        hand_over(rules, target);
    });
    world.poll();
    let out = world.take();
    let kinds: Vec<u8> = out.iter().map(|(_, frame)| frame[43]).collect();
    assert_eq!(kinds.iter().rposition(|kind| *kind == 255), Some(out.len() - 2));
    assert_eq!(kinds.last(), Some(&254));
    assert!(out.len() > 20);
    world.assert_conserved();
}

#[test]
fn a_change_of_pdrs_lets_nothing_be_overtaken_or_counted_twice() {
    let mut world = world(&FREE);
    let image = world.install(1, rules(100, None));
    offer(&mut world, (0..30).map(|n| packet(DEFAULT, 900 + n)));
    let mut lengths: Vec<_> = world.take().iter().map(|(_, frame)| frame.len()).collect();
    let image = changed(&mut world, &image, |rules| {
        rules.remove_pdr(PdrId(12)).expect("it is there");
        rules.remove_qer(QerId(2)).expect("it is there");
    });
    offer(&mut world, (30..40).map(|n| packet(DEFAULT, 900 + n)));
    for _ in 0..200_000 {
        world.poll();
    }
    lengths.extend(world.take().iter().map(|(_, frame)| frame.len()));
    assert_eq!(lengths, (0..40).map(|n| 900 + n + 28 + 58).collect::<Vec<_>>());
    assert_eq!(counted(&mut world).0, 40);
    assert_eq!(
        image
            .egress_queues(flow::Direction::Downlink)
            .map(|plan| plan.queues.len()),
        Some(1)
    );
    world.assert_conserved();
}

#[test]
fn a_session_that_leaves_keeps_its_queues_until_it_has_gone() {
    let mut world = world(&FREE);
    let image = world.install(1, rules(100, None));
    offer(&mut world, (0..20).map(|_| packet(DEFAULT, 972)));
    world.take();
    let before = waiting(&world);
    let leaving = (*image).clone().with_share(MeterShare::Leaving);
    let change = SessionChange::Replace(Box::new(leaving), ImmediateActions::default());
    world.apply(0, change).expect("it is there");
    assert!(before > 15 && waiting(&world) == before);
    offer(&mut world, (0..5).map(|_| packet(DEFAULT, 972)));
    assert_eq!(waiting(&world), before + 5);
    // 100 kbit/s: a packet in 80 ms.
    assert_eq!(leaves(&mut world, Duration::from_millis(800)).len(), 10);
    world.assert_conserved();
}

#[test]
fn sessions_without_room_for_queues_are_refused() {
    let mut world = World::with(network(&FREE), 1, |config| config.egress.queues = 3);
    world.install(1, rules(0, None));
    let image = world.image(2, &session().into(), None).expect("it compiles");
    let mut other = image.clone();
    other.tunnels.clear();
    other.ue_addresses.clear();
    assert_eq!(world.apply(0, SessionChange::Install(other.clone())), Ok(None));
    other.session = SessionIndex(3);
    assert_eq!(
        world.apply(0, SessionChange::Install(other.clone())),
        Err(ApplyError::TableFull)
    );
    world
        .apply(0, SessionChange::Remove(SessionIndex(2)))
        .expect("it is there");
    assert_eq!(world.apply(0, SessionChange::Install(other)), Ok(None));
}

#[test]
fn a_session_that_grows_beyond_the_reserve_has_no_queues_and_is_counted() {
    let mut world = World::with(network(&FREE), 1, |config| config.egress.queues = 1);
    let queued = world.image(1, &session().into(), None).expect("it compiles");
    let queued = |number: u32| {
        let mut image = queued.clone();
        image.session = SessionIndex(number);
        image.tunnels.clear();
        image.ue_addresses.clear();
        image
    };
    let plain = |number| {
        let mut image = queued(number);
        image.forward_extensions = rules::image::ForwardExtensions::default().into();
        image
    };
    // There is room for one, and 65 in all.
    for number in 1..=70 {
        assert_eq!(world.apply(0, SessionChange::Install(plain(number))), Ok(None));
    }
    let change = |world: &mut World, image: Box<SessionImage>| {
        let change = SessionChange::Replace(image, ImmediateActions::default());
        world.apply(0, change).expect("it is there");
        let counts = world.workers[0].egress_counts();
        (counts.queues, counts.lacking)
    };
    for number in 1..=65 {
        assert_eq!(change(&mut world, queued(number)), (number as usize, 0));
    }
    assert_eq!(change(&mut world, queued(66)), (65, 1));
    assert_eq!(change(&mut world, queued(67)), (65, 2));
    // One that needs no queues lacks none, and one that ends.
    assert_eq!(change(&mut world, plain(66)), (65, 1));
    world
        .apply(0, SessionChange::Remove(SessionIndex(67)))
        .expect("it is there");
    assert_eq!(world.workers[0].egress_counts().lacking, 0);
    assert_eq!(change(&mut world, queued(68)), (65, 1));
    // Its next change finds the room that another one has left.
    world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    assert_eq!(change(&mut world, queued(68)), (65, 0));
}

#[test]
fn what_is_too_long_leaves_in_fragments_when_its_turn_comes() {
    let mut network = network(&FREE).instances().to_vec();
    for instance in &mut network {
        (instance.mtu, instance.fragmentation) = (
            if instance.id.0 == 0 { 1_280 } else { 1_500 },
            Fragmentation::Inner,
        );
        instance.vlan = (instance.id.0 == 2).then(|| VlanId::new(5).expect("an id").into());
    }
    let egress = super::egress_queues::network(&FREE).egress().cloned();
    let network = Network::new(network).expect("as before").with_egress(egress);
    let mut world = World::with(network, 1, |_| {});
    world.install(1, rules(1_000, None));
    let mut long = packet(DEFAULT, 1_400);
    long[6] = 0;
    long[10..12].fill(0);
    let sum = checksum::of(&long[..20]).to_be_bytes();
    long[10..12].copy_from_slice(&sum);
    offer(&mut world, (0..30).map(|_| long.clone()));
    world.take();
    assert!(waiting(&world) > 15);
    for _ in 0..100_000 {
        world.poll();
    }
    assert_eq!(world.workers[0].stats().fragmented, 30);
    world.take();
    // What comes behind one stays behind it, also where all may leave at once.
    let short = packet(DEFAULT, 100);
    offer(&mut world, [long.clone(), short.clone(), long.clone(), short]);
    for _ in 0..20_000 {
        world.poll();
    }
    let lengths: Vec<_> = world.take().iter().map(|(_, frame)| frame.len() < 200).collect();
    let (last, is_short) = (lengths.len() - 1, |place: usize| lengths[place]);
    assert!(
        is_short(last) && !is_short(0) && lengths.len() >= 6,
        "{lengths:?}"
    );
    assert_eq!(counted(&mut world), (34, 32 * 1_428 + 2 * 128));
    world.assert_conserved();
}

#[test]
fn senders_that_heed_it_are_told_of_congestion_and_lose_nothing() {
    let case = Case {
        management: QueueManagement::CoDel,
        ..FREE
    };
    let mut world = world(&case);
    world.install(1, rules(1_000, None));
    let marked = |ecn: u8| {
        let mut packet = packet(DEFAULT, 972);
        packet::ipv4::set_ecn(&mut packet, ecn).expect("a header");
        packet
    };
    let mut seen = 0;
    for _ in 0..200 {
        offer(&mut world, [marked(2), marked(2)]);
        let end = world.now + Duration::from_millis(10);
        while world.now < end {
            world.poll();
        }
        for (_, frame) in world.take() {
            assert!(checksum::is_right(&frame[58..78]));
            seen += u32::from(frame[59] & 3 == 3);
        }
    }
    assert!(seen > 3, "{seen}");
    assert_eq!(world.drops()[DropReason::EgressDelay.index()], 0);
    // Others lose packets instead.
    for _ in 0..200 {
        offer(&mut world, [marked(0), marked(0)]);
        leaves(&mut world, Duration::from_millis(10));
    }
    assert!(world.drops()[DropReason::EgressDelay.index()] > 0);
    world.assert_conserved();
}

#[test]
fn what_is_buffered_is_shaped_when_it_is_released() {
    let mut world = World::with(network(&FREE), 1, |config| {
        config.buffers = common::buffering::LIMITS
    });
    let mut idle = rules(1_000, None);
    let buffers = FarUpdate {
        action: Some(ApplyAction::BUFF),
        ..FarUpdate::new(FarId(2))
    };
    idle.update_far(buffers).expect("it is there");
    let image = world.install(1, idle);
    offer(&mut world, (0..40).map(|_| packet(DEFAULT, 972)));
    assert_eq!(waiting(&world), 0);
    changed(&mut world, &image, |rules| {
        let forwards = FarUpdate {
            action: Some(ApplyAction::FORW),
            ..FarUpdate::new(FarId(2))
        };
        rules.update_far(forwards).expect("it is there");
    });
    world.poll();
    let kept = u64::from(common::buffering::LIMITS.per_queue);
    assert_eq!(waiting(&world), kept - 5);
    leaves(&mut world, Duration::from_millis(400));
    assert_eq!((waiting(&world), counted(&mut world).0), (0, kept));
    world.assert_conserved();
}

#[test]
fn a_worker_with_a_full_port_keeps_what_waits() {
    let mut world = world(&FREE);
    world.install(1, rules(0, None));
    // The wire has room for 1,024 frames.
    for _ in 0..20 {
        offer(&mut world, (0..64).map(|_| packet(DEFAULT, 100)));
    }
    for _ in 0..20 {
        world.poll();
    }
    assert_eq!(world.drops()[DropReason::TxFull.index()], 0);
    assert_eq!(world.take().len(), 1_024);
    for _ in 0..20 {
        world.poll();
    }
    assert_eq!(world.take().len(), 20 * 64 - 1_024);
    world.assert_conserved();
}

/// The session with what goes towards the data network in a tunnel, by N9.
fn between_tunnels(rules: &mut SessionRules) {
    let next = OuterHeaderCreation::gtpu_ipv4(Teid(0x9001), "10.209.1.1".parse().expect("an address"));
    let forwarding = Edit::Set(ForwardingParametersUpdate {
        destination: Some(DestinationInterface::Core),
        outer_header_creation: Edit::Set(next),
        ..ForwardingParametersUpdate::default()
    });
    let update = FarUpdate {
        forwarding,
        ..FarUpdate::new(FarId(1))
    };
    rules.update_far(update).expect("it is there");
}

/// Queues towards all instances.
fn everywhere(case: &Case) -> Network {
    let network = network(case);
    let mut instances = network.instances().to_vec();
    for instance in &mut instances {
        instance.egress = Some(InstanceEgress {
            rate: rate(case.instance),
        });
    }
    Network::new(instances)
        .expect("as before")
        .with_egress(network.egress().cloned())
}

#[test]
fn a_port_that_takes_nothing_stops_its_own_queues_alone() {
    let mut world = World::with(everywhere(&FREE), 1, |config| config.egress.packets = 4_096);
    world.install(1, rules(0, None));
    // The wire of port 0 has room for 1,024 frames, which nothing takes.
    for _ in 0..20 {
        offer(&mut world, (0..64).map(|_| packet(DEFAULT, 100)));
    }
    (0..20).for_each(|_| world.poll());
    assert_eq!(waiting(&world), 20 * 64 - 1_024);
    let queue = world.wires.to(WorkerId(0), PortId(0));
    queue
        .push(MemBuf::new(&frame(0, &uplink())))
        .expect("there is room on the wire");
    (0..3).for_each(|_| world.poll());
    assert!(
        world.wires.from(PortId(1)).pop().is_some(),
        "uplink is not held up"
    );
    // What has left its queue is lost after a while, a part at a time, and counts not.
    let end = world.now + Duration::from_millis(450);
    while world.now < end {
        world.poll();
    }
    let lost = world.drops()[DropReason::TxFull.index()];
    assert!((128..=256).contains(&lost), "{lost}");
    assert_eq!(counted(&mut world).0, 20 * 64 - lost);
    world.assert_conserved();
}

#[test]
fn packets_of_rules_that_lead_elsewhere_do_not_wait() {
    let mut world = world(&FREE);
    let mut rules = rules(100, None);
    // Towards the UE by N9, which has no queues.
    let mut far = rules.fars()[0].clone();
    far.id = FarId(9);
    rules.create_far(far).expect("it is new");
    let mut elsewhere = rules.pdr(PdrId(12)).expect("it is there").clone();
    (elsewhere.id, elsewhere.precedence.0, elsewhere.far) = (PdrId(13), 5, Some(FarId(9)));
    elsewhere.qers = [QerId(1)].into_iter().collect();
    rules.create_pdr(elsewhere).expect("it is new");
    world.install(1, rules);
    offer(&mut world, (0..40).map(|_| packet(DEFAULT, 972)));
    world.take();
    let held = waiting(&world);
    assert!(held > 30);
    offer(&mut world, [packet(VOICE, 100)]);
    let out = world.take();
    assert_eq!((out.len(), waiting(&world)), (1, held), "{out:?}");
    assert_eq!(out[0].0, PortId(1), "by its own instance");
}

#[test]
fn an_end_marker_of_another_node_comes_behind_what_waits() {
    let mut world = World::with(
        everywhere(&Case {
            instance: 8_000,
            ..FREE
        }),
        1,
        |_| {},
    );
    let mut rules = rules(0, None);
    between_tunnels(&mut rules);
    world.install(1, rules);
    let queue = world.wires.to(WorkerId(0), PortId(0));
    let push = |packet: &[u8]| queue.push(MemBuf::new(&frame(0, packet))).expect("there is room");
    (0..60).for_each(|_| push(&uplink()));
    push(&testing::tunnelled(
        testing::N3_ADDRESS,
        TEID,
        254,
        None,
        &[],
        &[],
    ));
    world.poll();
    let mut kinds: Vec<u8> = world.take().iter().map(|(_, frame)| frame[43]).collect();
    assert!(!kinds.contains(&254), "{kinds:?}");
    for _ in 0..10_000 {
        world.poll();
    }
    kinds.extend(world.take().iter().map(|(_, frame)| frame[43]));
    assert_eq!((kinds.len(), kinds.last()), (61, Some(&254)));
    let usage = world.query(0, SESSION);
    assert_eq!(usage.counters[0].1.ul_packets, 60);
    world.assert_conserved();
}
