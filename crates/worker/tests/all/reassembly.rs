//! GTP-U packets that come in fragments, against what becomes of them when they come whole.

use std::net::Ipv6Addr;
use std::time::Duration;

use flow::{PortId, SessionIndex, WorkerId};
use packet::ip_fragmentation::{FragmentSpec, fragment};
use packet::{DropReason, VecBuf, checksum};
use proptest::prelude::*;
use rules::SessionRules;
use rules::model::{Edit, FTeid, OuterHeader, OuterHeaderRemoval, PdiUpdate, PdrId, PdrUpdate};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, tunnelled};
use worker::mem::MemBuf;
use worker::{ReassemblyLimits, WorkerConfig};

use crate::common::one_session::{REMOTE, TEID};
use crate::common::{World, frame, one_session};

const N3_PORT: u16 = 0;

fn world(limits: ReassemblyLimits) -> World {
    let mut world = World::with(testing::network(), 1, |config: &mut WorkerConfig| {
        config.reassembly = limits;
    });
    world.install(1, session());
    world
}

/// The session, whose tunnel is reached over both families.
pub fn session() -> SessionRules {
    let mut rules = one_session::session();
    let f_teid = FTeid {
        ipv6: Some("2001:db8:3::1".parse().expect("an address")),
        ..testing::f_teid(TEID)
    };
    let update = PdrUpdate {
        pdi: Some(PdiUpdate {
            f_teid: Edit::Set(f_teid),
            ..PdiUpdate::default()
        }),
        outer_header_removal: Edit::Set(OuterHeaderRemoval {
            header: OuterHeader::GtpuUdpIp,
            deletes_psc: false,
        }),
        ..PdrUpdate::new(PdrId(1))
    };
    rules.update_pdr(update).expect("it is there");
    rules
}

fn user(octets: usize) -> Vec<u8> {
    let mut user = UserPacket::udp(UE, REMOTE, 1000, 53);
    user.payload = (0..octets).map(|at| (at * 7 + at / 256) as u8).collect();
    user.bytes()
}

/// A user packet as a gNB sends it, over IPv4 or IPv6.
pub fn uplink(is_v4: bool, octets: usize) -> Vec<u8> {
    let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &user(octets));
    match is_v4 {
        true => packet,
        false => over_ipv6(&packet),
    }
}

/// The same UDP datagram over IPv6, with the checksum that it needs there.
fn over_ipv6(packet: &[u8]) -> Vec<u8> {
    let (gnb, ours): (Ipv6Addr, Ipv6Addr) = (
        "2001:db8:3::7".parse().expect("an address"),
        "2001:db8:3::1".parse().expect("an address"),
    );
    let mut datagram = packet[20..].to_vec();
    packet::udp::fill_checksum(&(gnb, ours).into(), &mut datagram, checksum::Sum::default()).expect("UDP");
    let mut header = [0x60, 0, 0, 0, 0, 0, 17, 64];
    header[4..6].copy_from_slice(&(datagram.len() as u16).to_be_bytes());
    [&header[..], &gnb.octets(), &ours.octets(), &datagram].concat()
}

/// The frames of the fragments of a packet.
fn fragments(packet: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
    let (mut whole, mut rest) = (VecBuf::new(&frame(N3_PORT, packet)), Vec::new());
    let cut = FragmentSpec {
        l3: 14,
        outer: 0,
        mtu,
        id: Some(id),
    };
    fragment(&mut whole, cut, &mut rest, || Some(VecBuf::new(&[]))).expect("it can be cut up");
    let all = std::iter::once(&whole).chain(&rest);
    all.map(|fragment| packet::PacketBuf::data(fragment).to_vec())
        .collect()
}

fn receive(world: &mut World, frame: &[u8]) -> Vec<Vec<u8>> {
    receive_buf(world, MemBuf::new(frame))
}

fn receive_buf(world: &mut World, buf: MemBuf) -> Vec<Vec<u8>> {
    let queue = world.wires.to(WorkerId(0), PortId(N3_PORT)).clone();
    queue.push(buf).expect("there is room");
    world.poll();
    world.poll();
    world.assert_conserved();
    world.take().into_iter().map(|(_, frame)| frame).collect()
}

fn dropped(world: &World, reason: DropReason) -> u64 {
    world
        .workers
        .iter()
        .map(|worker| worker.stats().dropped(reason))
        .sum()
}

/// The fragments of a packet and the order in which they come, with some of them twice.
fn any_arrival() -> impl Strategy<Value = (bool, usize, usize, Vec<prop::sample::Index>, usize)> {
    (
        any::<bool>(),
        100usize..8_000,
        576usize..1_500,
        prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        40usize..2_000,
    )
}

proptest! {
    /// In whatever order they come, and in whatever parts they lie, fragments make what the whole packet makes.
    #[test]
    fn fragments_make_the_packet((is_v4, octets, mtu, swaps, part) in any_arrival()) {
        let packet = uplink(is_v4, octets);
        let mut whole = world(ReassemblyLimits::default());
        let expected = receive(&mut whole, &frame(N3_PORT, &packet));
        prop_assert!(!expected.is_empty());
        let mut world = world(ReassemblyLimits::default());
        let mut frames = fragments(&packet, mtu, 77);
        for pair in swaps.chunks_exact(2) {
            let (from, to) = (pair[0].index(frames.len()), pair[1].index(frames.len()));
            frames.swap(from, to);
        }
        let mut out = Vec::new();
        for (number, frame) in frames.iter().enumerate() {
            prop_assert!(out.is_empty(), "before fragment {} of {}", number, frames.len());
            out = receive_buf(&mut world, MemBuf::chained(frame, part));
        }
        prop_assert_eq!(out, expected);
        let count = |world: &mut World| world.query(0, SessionIndex(1)).counters[0].1;
        prop_assert_eq!(count(&mut world), count(&mut whole));
        prop_assert_eq!(world.workers[0].holdings().waiting, 0);
        prop_assert_eq!(world.workers[0].stats().reassembled, u64::from(frames.len() > 1));
    }

    /// Whatever comes as fragments, against a model that remembers each octet.
    #[test]
    fn only_what_fits_together_is_put_together(
        pieces in prop::collection::vec((0u16..8, 1u16..5, any::<bool>()), 1..10)
    ) {
        let packet = uplink(true, 100);
        let mut world = world(ReassemblyLimits::default());
        let mut model = Model::default();
        for (units, length, more) in pieces {
            let (from, octets) = (usize::from(units) * 24, usize::from(length) * 24);
            let to = (from + octets).min(packet.len() - 20);
            if from >= to {
                continue;
            }
            let to = if more { from + (to - from) / 8 * 8 } else { to };
            let mut piece = packet[..20].to_vec();
            piece.extend(&packet[20 + from..20 + to]);
            let total = piece.len() as u16;
            piece[2..4].copy_from_slice(&total.to_be_bytes());
            piece[4..6].copy_from_slice(&[0, 9]);
            let field = (from / 8) as u16 | u16::from(more) << 13;
            piece[6..8].copy_from_slice(&field.to_be_bytes());
            piece[10..12].fill(0);
            let sum = checksum::of(&piece[..20]);
            piece[10..12].copy_from_slice(&sum.to_be_bytes());
            if (from, more) == (0, false) {
                // It is whole, or cut short: no fragment.
                continue;
            }
            let before = world.workers[0].stats().reassembled;
            receive(&mut world, &frame(N3_PORT, &piece));
            let is_whole = model.add(from, to, more);
            let reassembled = world.workers[0].stats().reassembled - before;
            prop_assert_eq!(reassembled, u64::from(is_whole));
        }
    }
}

/// One datagram, octet by octet.
#[derive(Default)]
struct Model {
    octets: Vec<bool>,
    ranges: Vec<(usize, usize)>,
    length: Option<usize>,
    is_dead: bool,
}

impl Model {
    /// Whether the datagram is together now; then it starts anew.
    fn add(&mut self, from: usize, to: usize, more: bool) -> bool {
        if from == to || from == 0 && to < 16 || more && !(to - from).is_multiple_of(8) {
            return false;
        }
        if self.ranges.contains(&(from, to)) || self.is_dead {
            return false;
        }
        self.octets.resize(self.octets.len().max(to), false);
        let overlaps = self.octets[from..to].contains(&true);
        let too_long = self.length.is_some_and(|length| to > length);
        let ends_before = !more && (self.length.is_some() || self.octets[to..].contains(&true));
        if overlaps || too_long || ends_before {
            self.is_dead = true;
            return false;
        }
        self.octets[from..to].fill(true);
        self.ranges.push((from, to));
        if !more {
            self.length = Some(to);
        }
        let is_whole = self.length == Some(self.octets.len()) && !self.octets.contains(&false);
        if is_whole {
            *self = Self::default();
        }
        is_whole
    }
}

#[test]
fn overlapping_fragments_end_their_datagram() {
    let mut world = world(ReassemblyLimits::default());
    let frames = fragments(&uplink(true, 3_000), 1_500, 5);
    assert_eq!(frames.len(), 3);
    let mut overlapping = frames[1].clone();
    let field = u16::from_be_bytes([overlapping[20], overlapping[21]]) - 1;
    overlapping[20..22].copy_from_slice(&field.to_be_bytes());
    overlapping[24..26].fill(0);
    let sum = checksum::of(&overlapping[14..34]);
    overlapping[24..26].copy_from_slice(&sum.to_be_bytes());
    for frame in [&frames[0], &frames[0], &overlapping, &frames[1], &frames[2]] {
        assert_eq!(receive(&mut world, frame), Vec::<Vec<u8>>::new());
    }
    // The first once more, both of the overlap, and what came then.
    assert_eq!(dropped(&world, DropReason::BadFragment), 5);
    assert_eq!(world.workers[0].holdings().waiting, 0);
    world.now = world.now + Duration::from_secs(3);
    (0..600).for_each(|_| world.poll());
    let out: Vec<_> = frames
        .iter()
        .flat_map(|frame| receive(&mut world, frame))
        .collect();
    assert!(!out.is_empty(), "the identification is free again");
}

#[test]
fn fragments_that_wait_for_too_long_are_dropped() {
    let mut world = world(ReassemblyLimits::default());
    let frames = fragments(&uplink(false, 3_000), 1_500, 5);
    assert!(receive(&mut world, &frames[0]).is_empty());
    assert_eq!(world.workers[0].stats().held, 1);
    world.now = world.now + Duration::from_secs(3);
    (0..600).for_each(|_| world.poll());
    assert_eq!(dropped(&world, DropReason::FragmentTimeout), 1);
    assert_eq!(
        (world.workers[0].stats().held, world.workers[0].holdings().waiting),
        (0, 0)
    );
    world.assert_conserved();
}

#[test]
fn one_source_does_not_take_all_the_room() {
    let limits = ReassemblyLimits {
        held: 64,
        ..ReassemblyLimits::default()
    };
    let mut world = world(limits);
    for id in 0..1_000 {
        receive(&mut world, &fragments(&uplink(true, 3_000), 1_500, id)[0]);
    }
    let held = world.workers[0].stats().held;
    assert!((10..20).contains(&held), "{held} of 64 by one source");
    assert_eq!(dropped(&world, DropReason::FragmentsFull), 1_000 - held);
    let other = fragments(&uplink(false, 3_000), 1_500, 1);
    let out: Vec<_> = other
        .iter()
        .flat_map(|frame| receive(&mut world, frame))
        .collect();
    assert!(!out.is_empty(), "another one's are put together");
}

#[test]
fn what_no_sender_makes_is_dropped() {
    let mut world = world(ReassemblyLimits::default());
    let edited = |at: usize, value: u16| {
        let mut frame = fragments(&uplink(true, 3_000), 1_500, 5)[1].clone();
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    // Not in units of 8 octets; behind the longest packet; a first one that is tiny; none at all.
    for (at, value) in [(16, 20 + 1_001), (20, 0x3fff), (20, 0x1fff)] {
        assert!(receive(&mut world, &edited(at, value)).is_empty());
    }
    let mut tiny = edited(20, 0x2000);
    tiny[16..18].copy_from_slice(&28u16.to_be_bytes());
    tiny[24..26].fill(0);
    let sum = checksum::of(&tiny[14..34]);
    tiny[24..26].copy_from_slice(&sum.to_be_bytes());
    assert!(receive(&mut world, &tiny).is_empty());
    assert_eq!(dropped(&world, DropReason::BadFragment), 4);
    // Of another protocol, and where nothing is put together.
    let mut icmp = edited(20, 0x2001);
    icmp[23] = 1;
    icmp[24..26].fill(0);
    let sum = checksum::of(&icmp[14..34]);
    icmp[24..26].copy_from_slice(&sum.to_be_bytes());
    receive(&mut world, &icmp);
    assert_eq!(dropped(&world, DropReason::Fragment), 1);
    let mut off = self::world(ReassemblyLimits::OFF);
    receive(&mut off, &fragments(&uplink(true, 3_000), 1_500, 5)[0]);
    assert_eq!(dropped(&off, DropReason::Fragment), 1);
}

#[test]
fn a_datagram_of_two_halves_that_do_not_belong_together_is_dropped() {
    let mut world = world(ReassemblyLimits::default());
    let frames = fragments(&uplink(false, 2_000), 1_500, 5);
    let mut other = frames[1].clone();
    *other.last_mut().expect("octets") ^= 1;
    assert!(receive(&mut world, &frames[0]).is_empty());
    assert!(receive(&mut world, &other).is_empty());
    assert_eq!(dropped(&world, DropReason::BadUdpChecksum), 1);
}

/// Fragments come in at any worker, the packet leaves at the one that has the session, and is handed over whole.
#[test]
fn fragments_meet_at_one_worker() {
    for owner in 0..4 {
        let mut world = World::with(testing::network(), 4, |config: &mut WorkerConfig| {
            config.reassembly = ReassemblyLimits::default();
        });
        let image = world.image(1, &session().into(), None).expect("it compiles");
        world
            .apply(owner, rules::image::SessionChange::Install(image))
            .expect("it is installed");
        let owner_id = WorkerId(owner as u16);
        for bucket in flow::Bucket::all() {
            let owner = owner_id;
            world.tell_all(|| {
                worker::Command::SelectWorker(worker::WorkerSelectionChange::Bucket { bucket, owner })
            });
        }
        for id in 0..20 {
            let frames = fragments(&uplink(id % 2 == 0, 3_000), 1_500, id);
            for (number, frame) in frames.iter().enumerate() {
                let at = WorkerId((number as u16 + id as u16) % 4);
                let queue = world.wires.to(at, PortId(N3_PORT)).clone();
                queue.push(MemBuf::new(frame)).expect("there is room");
                world.poll();
            }
            (0..4).for_each(|_| world.poll());
            let out = world.take();
            assert!(!out.is_empty(), "datagram {id}");
        }
        let counted = world.query(owner, SessionIndex(1)).counters[0].1;
        assert_eq!(counted.ul_packets, 20);
        world.assert_conserved();
    }
}
