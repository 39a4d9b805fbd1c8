use std::net::Ipv4Addr;

use packet::VecBuf;
use rtrb::{Consumer, RingBuffer};

use super::*;

const NOW: Nanos = Nanos::from_secs(5);

/// Sessions that are restored, and the events about them.
struct World {
    absent: AbsentSessions<VecBuf>,
    events: EventQueue,
    pushed: Consumer<Event>,
    stats: Stats,
}

impl World {
    fn new() -> Self {
        let (events, pushed) = RingBuffer::new(4096);
        let mut absent = AbsentSessions::new(false);
        absent.set_restoring(true);
        Self {
            absent,
            events: EventQueue::new(events, 8),
            pushed,
            stats: Stats::new(1),
        }
    }

    /// A packet to this address comes, with a number that says which it is. Whether it waits.
    fn arrive(&mut self, address: u32, number: u8, now: Nanos) -> bool {
        let packet = (3, Side::Plain { vrf: VrfId(0) }, Some(host(address)));
        let to = (&mut self.events, &mut self.stats);
        self.absent.expect(packet, to, now)
            && self
                .absent
                .store(3, VecBuf::with_headroom(&[number; 60], 0), now)
                .is_ok()
    }

    fn reports(&mut self) -> usize {
        std::iter::from_fn(|| self.pushed.pop().ok()).count()
    }

    /// The numbers of the packets that are ready.
    fn ready(&mut self) -> Vec<u8> {
        let mut out = Batch::new();
        self.absent.take_ready(&mut out);
        out.drain().map(|packet| packet.data()[0]).collect()
    }

    /// How many packets were given up in polls up to `now`.
    fn given_up(&mut self, now: Nanos) -> usize {
        (0..KEYS).for_each(|_| self.absent.sweep(now));
        std::iter::from_fn(|| self.absent.take_expired()).count()
    }
}

fn host(address: u32) -> IpAddr {
    Ipv4Addr::from_bits(address).into()
}

#[test]
fn a_key_is_reported_once_in_an_interval_and_its_packets_wait_in_order() {
    let mut world = World::new();
    let kept = (0..20).filter(|number| world.arrive(7, *number, NOW)).count();
    assert_eq!((kept, world.reports()), (usize::from(PACKETS_PER_KEY), 1));
    assert!(!world.arrive(7, 99, NOW + INTERVAL));
    assert_eq!(world.reports(), 1);
    world.absent.release(AbsentKey::Address(VrfId(1), host(7)));
    assert!(world.ready().is_empty(), "that is another address space");
    world.absent.release(AbsentKey::Address(VrfId(0), host(7)));
    assert_eq!(world.ready(), (0..PACKETS_PER_KEY as u8).collect::<Vec<_>>());
    assert_eq!(world.absent.len(), 0);
}

#[test]
fn a_scan_costs_no_more_than_the_bounds_and_leaves_no_packet_behind() {
    let mut world = World::new();
    let scan = 0..100_000;
    let kept = scan
        .clone()
        .filter(|address| world.arrive(*address, 1, NOW))
        .count();
    assert_eq!(world.reports(), REPORTS as usize);
    assert!(world.absent.len() <= PACKETS, "{} packets", world.absent.len());
    let later = NOW + Duration::from_millis(10);
    let again = scan.filter(|address| world.arrive(*address, 1, later)).count();
    assert!(again <= PACKETS, "{again} packets");
    assert_eq!(world.reports(), REPORTS as usize, "the bucket is full again");
    assert!(kept >= KEYS / 2, "{kept} packets");
    assert!(world.given_up(later + TIMEOUT) > 0);
    assert_eq!(world.absent.len(), 0);
}

#[test]
fn a_ue_keeps_its_place_in_a_scan() {
    let mut world = World::new();
    for number in 0..3 {
        assert!(world.arrive(u32::MAX, number, NOW));
    }
    for address in 0..100_000 {
        world.arrive(address, 9, NOW);
        // As the worker does after each poll.
        while world.absent.take_expired().is_some() {}
    }
    world.absent.release(AbsentKey::Address(VrfId(0), host(u32::MAX)));
    assert_eq!(world.ready(), [0, 1, 2]);
}

#[test]
fn a_report_that_found_no_room_is_made_for_the_next_packet() {
    let mut world = World::new();
    let (events, pushed) = RingBuffer::new(4);
    (world.events, world.pushed) = (EventQueue::new(events, 8), pushed);
    let waiting = (1..4).filter(|address| world.arrive(*address, 1, NOW)).count();
    assert_eq!((waiting, world.reports()), (3, 1));
    assert!(world.arrive(2, 1, NOW) && world.reports() == 1);
}

#[test]
fn a_prefix_releases_the_packets_to_its_addresses_alone() {
    let mut world = World::new();
    for (number, address) in [(0, 0x0a00_0001), (1, 0x0a00_00fe), (2, 0x0a00_0100)] {
        assert!(world.arrive(address, number, NOW));
    }
    let prefix: IpPrefix = "10.0.0.0/24".parse().expect("a prefix");
    world
        .absent
        .meet_key(WorkerSelectionKey::Address(VrfId(0), prefix));
    let mut ready = world.ready();
    ready.sort_unstable();
    assert_eq!(ready, [0, 1]);
    world.absent.set_restoring(false);
    assert_eq!(world.ready(), [2]);
}
