//! Shards on both sides of a user plane of 80 lines that loses, doubles, swaps and damages packets on order.

use packet::{MacAddr, Qfi, Teid};
use proptest::prelude::*;
use sim::path::{Path, PathConfig, TunnelEnd};
use sim::station::StationConfig;
use sim::traffic::{Sizes, Traffic};
use sim::{FramePort, Nanos, Report, Shard, ShardConfig, Side};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

const UPF_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GNB_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const DN_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Frames in memory, at most `room` in each direction, and no UPF between them.
struct Wires {
    room: usize,
    from_access: VecDeque<Vec<u8>>,
    from_core: VecDeque<Vec<u8>>,
    to_access: VecDeque<Vec<u8>>,
    to_core: VecDeque<Vec<u8>>,
}

impl Wires {
    fn new() -> Wires {
        let queue = VecDeque::new;
        Wires {
            room: 1024,
            from_access: queue(),
            from_core: queue(),
            to_access: queue(),
            to_core: queue(),
        }
    }
}

impl FramePort for Wires {
    fn send(&mut self, side: Side, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let queue = if side == Side::Access {
            &mut self.from_access
        } else {
            &mut self.from_core
        };
        if queue.len() >= self.room {
            return false;
        }
        let mut frame = vec![0xee; length];
        write(&mut frame);
        queue.push_back(frame);
        true
    }

    fn receive(&mut self, side: Side, most: usize, mut see: impl FnMut(&[u8])) -> usize {
        let queue = if side == Side::Access {
            &mut self.to_access
        } else {
            &mut self.to_core
        };
        let count = most.min(queue.len());
        queue.drain(..count).for_each(|frame| see(&frame));
        count
    }
}

fn words_sum(octets: &[u8]) -> u16 {
    let words = octets
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let sum = words.sum::<u32>();
    !(((sum >> 16) + (sum & 0xffff)) as u16 + ((((sum >> 16) + (sum & 0xffff)) >> 16) as u16))
}

/// Lowers the TTL as a router does, and asserts that the packet is sound before and after.
fn route(packet: &mut [u8]) {
    match packet[0] >> 4 {
        4 => {
            assert_eq!(words_sum(&packet[..20]), 0, "the header's checksum holds");
            assert_eq!(
                usize::from(u16::from_be_bytes([packet[2], packet[3]])),
                packet.len()
            );
            packet[8] -= 1;
            packet[10..12].fill(0);
            let sum = words_sum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {
            assert_eq!(
                usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40,
                packet.len()
            );
            packet[7] -= 1;
        }
    }
}

fn link(to: MacAddr, packet: &[u8]) -> Vec<u8> {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&to.0[..], &UPF_MAC.0, &ethertype, packet].concat()
}

/// A user plane that does not check received packets.
struct Upf {
    paths: Arc<[Path]>,
}

impl Upf {
    fn uplink(&self, frame: &[u8]) -> Vec<u8> {
        assert_eq!((&frame[..6], &frame[6..12]), (&UPF_MAC.0[..], &GNB_MAC.0[..]));
        let outer = if frame[14] >> 4 == 4 { 20 } else { 40 };
        let gtpu = &frame[14 + outer + 8..];
        assert_eq!(gtpu[..2], [0x34, 255]);
        assert_eq!(gtpu[11..16], [0x85, 1, 0x10, 9, 0]);
        assert_eq!(
            usize::from(u16::from_be_bytes([gtpu[2], gtpu[3]])),
            gtpu.len() - 8
        );
        let teid = u32::from_be_bytes(*gtpu[4..].first_chunk().unwrap());
        assert!(self.paths.iter().any(|path| path.config().upf.teid == Teid(teid)));
        let mut inner = gtpu[16..].to_vec();
        route(&mut inner);
        link(DN_MAC, &inner)
    }

    fn downlink(&self, frame: &[u8], qfi: u8) -> Vec<u8> {
        assert_eq!((&frame[..6], &frame[6..12]), (&UPF_MAC.0[..], &DN_MAC.0[..]));
        let mut inner = frame[14..].to_vec();
        route(&mut inner);
        let ue: IpAddr = match inner[0] >> 4 {
            4 => Ipv4Addr::from(*inner[16..].first_chunk::<4>().unwrap()).into(),
            _ => Ipv6Addr::from(*inner[24..].first_chunk::<16>().unwrap()).into(),
        };
        let path = self
            .paths
            .iter()
            .find(|path| path.config().ue == ue)
            .unwrap()
            .config();
        let length = inner.len() as u16;
        let teid = path.gnb.teid.0.to_be_bytes();
        let gtpu = [
            &[0x34, 255][..],
            &(length + 8).to_be_bytes(),
            &teid,
            &[0, 0, 0, 0x85, 1, 0, qfi, 0],
        ]
        .concat();
        let udp = [&[8, 104, 8, 104][..], &(length + 24).to_be_bytes(), &[0, 0]].concat();
        let mut outer = match (path.upf.address, path.gnb.address) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total = (length + 44).to_be_bytes();
                let fixed = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0];
                [&fixed[..], &from.octets(), &to.octets()].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let total = (length + 24).to_be_bytes();
                [
                    &[0x60, 0, 0, 0, total[0], total[1], 17, 64][..],
                    &from.octets(),
                    &to.octets(),
                ]
                .concat()
            }
            _ => unreachable!("paths have outer addresses of one family"),
        };
        if outer.len() == 20 {
            let sum = words_sum(&outer);
            outer[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        link(GNB_MAC, &[outer, udp, gtpu, inner].concat())
    }

    fn carry(&self, wires: &mut Wires) {
        while let Some(frame) = wires.from_access.pop_front() {
            wires.to_core.push_back(self.uplink(&frame));
        }
        while let Some(frame) = wires.from_core.pop_front() {
            wires.to_access.push_back(self.downlink(&frame, 9));
        }
    }
}

fn path(index: u32, ipv6: bool, outer_ipv6: bool) -> Path {
    let low = index as u8;
    let inner = |v4: [u8; 4], v6: &str| match ipv6 {
        true => {
            Ipv6Addr::from_bits(v6.parse::<Ipv6Addr>().unwrap().to_bits() + (u128::from(index) << 64)).into()
        }
        false => IpAddr::from(v4),
    };
    let outer = |v4: &str, v6: &str| if outer_ipv6 { ip(v6) } else { ip(v4) };
    Path::new(PathConfig {
        session: index,
        ue: inner([10, 45, 0, low], "2001:db8:45::1"),
        server: if ipv6 {
            ip("2001:db8:8::8")
        } else {
            ip("198.51.100.8")
        },
        server_port: 5001,
        ue_port: 40_000,
        ue_ports: 4,
        upf: TunnelEnd {
            address: outer("192.0.2.1", "2001:db8::1"),
            teid: Teid(0x1000 + index),
        },
        gnb: TunnelEnd {
            address: outer("192.0.2.2", "2001:db8::2"),
            teid: Teid(0x2000 + index),
        },
        qfi: Qfi::new(9),
    })
    .unwrap()
}

fn station(mac: MacAddr, addresses: &[&str], gateway: Option<MacAddr>) -> StationConfig {
    StationConfig {
        mac,
        vlan: None,
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        gateway_ipv4: Some(Ipv4Addr::new(192, 0, 2, 1)),
        gateway_ipv6: Some("2001:db8::1".parse().unwrap()),
        gateway_mac: gateway,
    }
}

fn config(paths: Arc<[Path]>, rate: u64) -> ShardConfig {
    let share = 0..paths.len() as u32;
    let sizes = Sizes::mix(&[(60, 1), (129, 1), (577, 1), (1400, 1)]).unwrap();
    let traffic = Traffic {
        rate,
        uplink_share: 500,
        uplink_sizes: sizes.clone(),
        downlink_sizes: sizes,
        ..Traffic::default()
    };
    ShardConfig {
        access: station(GNB_MAC, &["192.0.2.2", "2001:db8::2"], Some(UPF_MAC)),
        core: station(DN_MAC, &["192.0.2.3", "2001:db8::3"], Some(UPF_MAC)),
        paths,
        share,
        traffic,
        hops: 1,
    }
}

fn paths() -> Arc<[Path]> {
    (0..8)
        .map(|index| path(index, index & 1 == 1, index & 2 == 2))
        .collect()
}

fn micros(us: u64) -> Nanos {
    Nanos(us * 1000)
}

/// Runs 10 ms of simulated time at 10 us per poll; `spoil` may do anything to the wires after each.
fn run(shard: &mut Shard, upf: &Upf, mut spoil: impl FnMut(u64, &mut Wires)) -> Report {
    let mut wires = Wires::new();
    assert!(shard.start(Nanos(0)));
    for step in 1..=1000 {
        shard.poll(micros(step * 10), &mut wires);
        upf.carry(&mut wires);
        spoil(step, &mut wires);
    }
    shard.stop();
    for step in 1001..1010 {
        shard.poll(micros(step * 10), &mut wires);
        upf.carry(&mut wires);
    }
    Report::new(8, Duration::from_millis(10), &shard.totals())
}

fn world() -> (Shard, Upf) {
    let paths = paths();
    (
        Shard::new(config(paths.clone(), 1_000_000)).unwrap(),
        Upf { paths },
    )
}

#[test]
fn nothing_is_lost_where_nothing_is_spoilt() {
    let (mut shard, upf) = world();
    let report = run(&mut shard, &upf, |_, _| ());
    for direction in [report.uplink, report.downlink] {
        assert_eq!(
            (direction.counts.sent, direction.counts.received, direction.lost),
            (5000, 5000, 0)
        );
        assert_eq!(
            (
                direction.counts.reordered,
                direction.counts.corrupted,
                direction.foreign
            ),
            (0, 0, 0)
        );
        assert_eq!(
            (
                direction.offered.due,
                direction.offered.late,
                direction.offered.given_up
            ),
            (5000, 0, 0)
        );
        assert_eq!(direction.latency.count, 5000);
        assert!(
            direction.latency.p50.abs_diff(10_000) <= 100,
            "{:?}",
            direction.latency
        );
        assert!((direction.mpps - 0.5).abs() < 1e-9);
    }
    assert!((0..8).all(|flow| shard.trackers().0.flow(flow).unwrap().received > 400));
    assert_eq!(report.events.unexpected, 0);
}

#[test]
fn loss_duplication_and_reordering_are_distinguished() {
    let (mut shard, upf) = world();
    let report = run(&mut shard, &upf, |step, wires| match step {
        100 => drop(wires.to_core.pop_front()),
        200 => wires.to_core.push_back(wires.to_core[0].clone()),
        300 => {
            wires.to_access.pop_back();
        }
        400 => {
            let frame = wires.to_access.pop_front().unwrap();
            wires.to_access.push_back(frame.clone());
            wires.to_access.push_back(frame);
        }
        _ => (),
    });
    let (up, down) = (report.uplink, report.downlink);
    assert_eq!((up.lost, up.counts.duplicated, up.counts.reordered), (1, 1, 0));
    assert_eq!((down.lost, down.counts.duplicated), (1, 1));
}

#[test]
fn a_wrong_tunnel_or_qfi_is_misdirected() {
    let (mut shard, upf) = world();
    let report = run(&mut shard, &upf, |step, wires| {
        let Some(frame) = wires.to_access.front_mut() else {
            return;
        };
        let outer = if frame[14] >> 4 == 4 { 20 } else { 40 };
        match step {
            // The TEID, the QFI.
            100 => frame[14 + outer + 8 + 7] ^= 1,
            200 => frame[14 + outer + 8 + 14] ^= 1,
            _ => (),
        }
    });
    assert_eq!((report.downlink.counts.misdirected, report.downlink.lost), (2, 2));
    assert_eq!(report.uplink.lost, 0);
}

#[test]
fn a_ttl_that_was_not_lowered_is_corruption() {
    let paths = paths();
    let mut shard = Shard::new(ShardConfig {
        hops: 0,
        ..config(paths.clone(), 100_000)
    })
    .unwrap();
    let report = run(&mut shard, &Upf { paths }, |_, _| ());
    assert_eq!(
        (report.uplink.counts.corrupted, report.uplink.counts.received),
        (500, 0)
    );
    assert_eq!(
        (report.downlink.counts.corrupted, report.downlink.counts.received),
        (500, 0)
    );
}

#[test]
fn a_full_link_delays_and_loses_nothing() {
    let (mut shard, upf) = world();
    let mut wires = Wires {
        room: 3,
        ..Wires::new()
    };
    shard.start(Nanos(0));
    for step in 1..=100 {
        shard.poll(micros(step * 10), &mut wires);
        assert!(wires.from_access.len() <= 3);
        upf.carry(&mut wires);
    }
    shard.stop();
    shard.poll(micros(1010), &mut wires);
    let totals = shard.totals();
    assert_eq!((totals.uplink.counts.lost(), totals.uplink.counts.sent), (0, 300));
    assert_eq!(
        (totals.uplink_offered.due, totals.uplink_offered.backlog),
        (500, 200)
    );
    assert!(totals.events.link_full >= 190);
}

/// As with one session and two workers: packets of a shard without flows would be of another's flow with other numbers.
#[test]
fn a_shard_without_flows_sends_nothing() {
    let paths = paths();
    let mut shard = Shard::new(ShardConfig {
        share: 0..0,
        ..config(paths.clone(), 100_000)
    })
    .unwrap();
    shard.change_rate(200_000, Nanos(0));
    let report = run(&mut shard, &Upf { paths }, |_, _| ());
    for direction in [report.uplink, report.downlink] {
        assert_eq!((direction.counts.sent, direction.counts.received), (0, 0));
        assert_eq!((direction.offered.due, direction.lost), (0, 0));
    }
}

#[test]
fn shards_that_receive_each_others_packets_merge() {
    let paths = paths();
    let make = |share| {
        Shard::new(ShardConfig {
            share,
            ..config(paths.clone(), 100_000)
        })
        .unwrap()
    };
    let (mut one, mut two) = (make(0..3), make(3..8));
    let upf = Upf { paths: paths.clone() };
    let (mut left, mut right) = (Wires::new(), Wires::new());
    assert!(one.start(Nanos(0)) && two.start(Nanos(0)));
    for step in 1..=1000 {
        one.poll(micros(step * 10), &mut left);
        two.poll(micros(step * 10), &mut right);
        upf.carry(&mut left);
        upf.carry(&mut right);
        std::mem::swap(&mut left.to_core, &mut right.to_core);
    }
    one.stop();
    two.stop();
    one.poll(micros(10_010), &mut left);
    two.poll(micros(10_010), &mut right);
    assert!(one.totals().uplink.counts.received > 0);
    let mut totals = one.totals();
    totals.merge(&two.totals());
    assert_eq!(
        (
            totals.uplink.counts.sent,
            totals.uplink.counts.lost(),
            totals.uplink.counts.reordered
        ),
        (1000, 0, 0)
    );
    assert_eq!(
        (totals.downlink.counts.sent, totals.downlink.counts.lost()),
        (1000, 0)
    );
}

#[test]
fn stations_ask_for_their_gateways_and_answer_for_themselves() {
    let paths = paths();
    let mut config = config(paths, 1000);
    config.access.gateway_mac = None;
    let mut asking = Shard::new(config.clone()).unwrap();
    // The station that answers has the gateway's addresses.
    config.access = station(
        UPF_MAC,
        &["192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2"],
        Some(GNB_MAC),
    );
    let mut answering = Shard::new(config).unwrap();
    let (mut left, mut right) = (Wires::new(), Wires::new());
    assert!(!asking.is_ready() && !asking.start(Nanos(0)));
    for step in 0..3 {
        asking.poll(micros(step), &mut left);
        std::mem::swap(&mut left.from_access, &mut right.to_access);
        answering.poll(micros(step), &mut right);
        std::mem::swap(&mut right.from_access, &mut left.to_access);
    }
    assert!(asking.is_ready() && asking.start(Nanos(3000)));
    assert_eq!(answering.totals().events.answered, 2);
}

#[test]
fn a_gnb_answers_echo_requests_and_counts_the_rest() {
    let (mut shard, _) = world();
    let mut wires = Wires::new();
    let message = |message: &[u8]| {
        let length = (message.len() as u16 + 8).to_be_bytes();
        let total = (message.len() as u16 + 28).to_be_bytes();
        let mut head = [
            0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ];
        let sum = words_sum(&head).to_be_bytes();
        head[10..12].copy_from_slice(&sum);
        link(
            GNB_MAC,
            &[
                &head[..],
                &[0x77, 0x77, 8, 104, length[0], length[1], 0, 0],
                message,
            ]
            .concat(),
        )
    };
    wires
        .to_access
        .push_back(message(&[0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]));
    wires.to_access.push_back(message(&[0x30, 254, 0, 0, 0, 0, 0, 7]));
    wires.to_access.push_back(message(&[0x30, 26, 0, 0, 0, 0, 0, 0]));
    wires
        .to_access
        .push_back(message(&[0x30, 255, 0xff, 0, 0, 0, 0, 0]));
    wires.to_access.push_back(vec![1, 2, 3]);
    shard.poll(Nanos(0), &mut wires);
    let answer = wires.from_access.pop_front().unwrap();
    // From 2152 to the port that asked, the same sequence number, a Recovery IE.
    assert_eq!(answer[34..38], [8, 104, 0x77, 0x77]);
    assert_eq!(answer[42..], [0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0]);
    let events = shard.totals().events;
    assert_eq!(
        (events.echo_requests, events.end_markers, events.error_indications),
        (1, 1, 1)
    );
    assert_eq!((events.unexpected, events.not_for_us), (1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_damaged_bit_of_a_packet_is_found(at in any::<prop::sample::Index>(), bit in 0..8u32, step in 1..999u64) {
        let (mut shard, upf) = world();
        let report = run(&mut shard, &upf, |now, wires| {
            if now == step && let Some(frame) = wires.to_core.front_mut() {
                // The link header is another matter.
 let at = 14 + at.index(frame.len() - 14);
                frame[at] ^= 1 << bit;
            }
        });
        prop_assert_eq!(report.uplink.lost, 1);
        prop_assert_eq!(report.downlink.lost, 0);
    }

    #[test]
    fn foreign_frames_do_no_harm(frames in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..120)), 0..50)) {
        let (mut shard, _) = world();
        let mut wires = Wires::new();
        for (ours, mut frame) in frames {
            for to in [GNB_MAC, DN_MAC] {
                if ours && frame.len() > 14 {
                    frame[..6].copy_from_slice(&to.0);
let kind = usize::from(frame[0] & 3);
 frame[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0]][kind]);
                    frame[14] = if frame[12] == 8 { 0x45 } else { 0x60 };
                }
                let queue = if to == GNB_MAC { &mut wires.to_access } else { &mut wires.to_core };
                queue.push_back(frame.clone());
            }
        }
        shard.poll(Nanos(0), &mut wires);
        prop_assert_eq!(shard.totals().uplink.counts.received, 0);
    }
}
