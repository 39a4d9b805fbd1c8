//! Replies of gNBs and of the data network's router on their links.

use packet::checksum::Sum;
use packet::{MacAddr, VlanId};
use sim::station::{MAX_QUEUED, StationConfig};
use sim::traffic::Traffic;
use sim::{FramePort, Nanos, Shard, ShardConfig, Side};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const UPF: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GNB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const UPF_IPV4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const GNB_IPV4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const UPF_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const GNB_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// The access link; nothing happens on the other.
#[derive(Default)]
struct Link {
    to: Vec<Vec<u8>>,
    from: Vec<Vec<u8>>,
    is_full: bool,
}

impl FramePort for Link {
    fn send(&mut self, side: Side, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if side == Side::Access && !self.is_full {
            let mut frame = vec![0xee; length];
            write(&mut frame);
            self.from.push(frame);
        }
        !self.is_full
    }

    fn receive(&mut self, side: Side, most: usize, mut see: impl FnMut(&[u8])) -> usize {
        let frames = if side == Side::Access {
            std::mem::take(&mut self.to)
        } else {
            Vec::new()
        };
        assert!(frames.len() <= most);
        frames.iter().for_each(|frame| see(frame));
        frames.len()
    }
}

fn shard(vlan: Option<VlanId>) -> Shard {
    let station = |addresses: Vec<IpAddr>, gateway_mac| StationConfig {
        mac: GNB,
        vlan,
        addresses,
        gateway_ipv4: Some(UPF_IPV4),
        gateway_ipv6: Some(UPF_IPV6),
        gateway_mac,
    };
    Shard::new(ShardConfig {
        access: station(vec![GNB_IPV4.into(), GNB_IPV6.into()], None),
        core: station(vec![GNB_IPV4.into()], Some(UPF)),
        paths: Arc::new([]),
        share: 0..0,
        traffic: Traffic::default(),
        hops: 1,
    })
    .unwrap()
}

fn frame(to: MacAddr, ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&to.0[..], &UPF.0, &ethertype, packet].concat()
}

/// Replies of the station to `frame`, without its own solicitations.
fn answers(shard: &mut Shard, frame: Vec<u8>) -> Vec<Vec<u8>> {
    let mut link = Link::default();
    shard.poll(Nanos(0), &mut link);
    link.from.clear();
    link.to.push(frame);
    shard.poll(Nanos(0), &mut link);
    link.from
}

fn arp(operation: u8, sender: MacAddr, sender_ip: Ipv4Addr, target: MacAddr, target_ip: Ipv4Addr) -> Vec<u8> {
    let fixed = [0, 1, 8, 0, 6, 4, 0, operation];
    [
        &fixed[..],
        &sender.0,
        &sender_ip.octets(),
        &target.0,
        &target_ip.octets(),
    ]
    .concat()
}

fn icmpv6(from: Ipv6Addr, to: Ipv6Addr, hops: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let sum = Sum::default()
        .pseudo_v6(from.octets(), to.octets(), 58, message.len() as u16)
        .bytes(&message);
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    let head = [0x60, 0, 0, 0, 0, message.len() as u8, 58, hops];
    [&head[..], &from.octets(), &to.octets(), &message].concat()
}

fn icmpv4_echo(to: Ipv4Addr) -> Vec<u8> {
    let mut head = [0x45, 0, 0, 40, 7, 7, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0];
    head[16..].copy_from_slice(&to.octets());
    let sum = Sum::default().bytes(&head).checksum().to_be_bytes();
    head[10..12].copy_from_slice(&sum);
    let mut message = [8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    let sum = Sum::default().bytes(&message).checksum().to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    [&head[..], &message].concat()
}

#[test]
fn arp_requests_for_own_addresses_are_answered() {
    let ask = |target| {
        frame(
            MacAddr::BROADCAST,
            [8, 6],
            &arp(1, UPF, UPF_IPV4, MacAddr::ZERO, target),
        )
    };
    let sent = answers(&mut shard(None), ask(GNB_IPV4));
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (&sent[0][..6], &sent[0][6..14]),
        (&UPF.0[..], &[2, 0, 0, 0, 0, 2, 8, 6][..])
    );
    assert_eq!(sent[0][14..], arp(2, GNB, GNB_IPV4, UPF, UPF_IPV4));
    assert!(answers(&mut shard(None), ask(Ipv4Addr::new(192, 0, 2, 3))).is_empty());
}

#[test]
fn neighbour_solicitations_are_answered() {
    let group: Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
    let message = [
        &[135, 0, 0, 0, 0, 0, 0, 0][..],
        &GNB_IPV6.octets(),
        &[1, 1],
        &UPF.0,
    ]
    .concat();
    let to = MacAddr([0x33, 0x33, 0xff, 0, 0, 2]);
    let sent = answers(
        &mut shard(None),
        frame(to, [0x86, 0xdd], &icmpv6(UPF_IPV6, group, 255, &message)),
    );
    let reply = [
        &[136, 0, 0, 0, 0x60, 0, 0, 0][..],
        &GNB_IPV6.octets(),
        &[2, 1],
        &GNB.0,
    ]
    .concat();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][14..], icmpv6(GNB_IPV6, UPF_IPV6, 255, &reply));
    // From beyond a router: RFC 4861 §7.1.1.
    let routed = icmpv6(UPF_IPV6, group, 254, &message);
    assert!(answers(&mut shard(None), frame(to, [0x86, 0xdd], &routed)).is_empty());
    let mut damaged = icmpv6(UPF_IPV6, group, 255, &message);
    damaged[50] ^= 1;
    assert!(answers(&mut shard(None), frame(to, [0x86, 0xdd], &damaged)).is_empty());
}

#[test]
fn pings_are_answered() {
    let sent = answers(&mut shard(None), frame(GNB, [8, 0], &icmpv4_echo(GNB_IPV4)));
    let packet = &sent[0][14..];
    assert_eq!(
        (packet.len(), &packet[12..20]),
        (40, &[192, 0, 2, 2, 192, 0, 2, 1][..])
    );
    assert_eq!((packet[20], &packet[24..]), (0, &icmpv4_echo(GNB_IPV4)[24..]));
    assert!(packet::checksum::is_right(&packet[..20]) && packet::checksum::is_right(&packet[20..]));
    assert!(answers(&mut shard(None), frame(GNB, [8, 0], &icmpv4_echo(UPF_IPV4))).is_empty());

    let message = [128, 0, 0, 0, 1, 2, 3, 4, 5, 6];
    let sent = answers(
        &mut shard(None),
        frame(GNB, [0x86, 0xdd], &icmpv6(UPF_IPV6, GNB_IPV6, 64, &message)),
    );
    let reply = [129, 0, 0, 0, 1, 2, 3, 4, 5, 6];
    assert_eq!(sent[0][14..], icmpv6(GNB_IPV6, UPF_IPV6, 64, &reply));
}

#[test]
fn a_station_keeps_to_its_vlan() {
    let vlan = VlanId::new(42);
    let tagged = |id| {
        let request = arp(1, UPF, UPF_IPV4, MacAddr::ZERO, GNB_IPV4);
        [
            &MacAddr::BROADCAST.0[..],
            &UPF.0,
            &[0x81, 0, 0xe0, id, 8, 6],
            &request,
        ]
        .concat()
    };
    let sent = answers(&mut shard(vlan), tagged(42));
    assert_eq!(sent[0][12..18], [0x81, 0, 0, 42, 8, 6]);
    assert!(answers(&mut shard(vlan), tagged(43)).is_empty());
    assert!(answers(&mut shard(None), tagged(42)).is_empty());
}

#[test]
fn gateways_are_asked_for_until_they_answer() {
    let mut shard = shard(None);
    let mut link = Link::default();
    let mut asked = |shard: &mut Shard, ms: u64| {
        shard.poll(Nanos::from_millis(ms), &mut link);
        std::mem::take(&mut link.from).len()
    };
    assert_eq!(
        [0, 1, 999, 1000, 1500, 2000].map(|ms| asked(&mut shard, ms)),
        [2, 0, 0, 2, 0, 2]
    );
    let advert = [
        &[136, 0, 0, 0, 0x60, 0, 0, 0][..],
        &UPF_IPV6.octets(),
        &[2, 1],
        &UPF.0,
    ]
    .concat();
    link.to.push(frame(
        GNB,
        [0x86, 0xdd],
        &icmpv6(UPF_IPV6, GNB_IPV6, 255, &advert),
    ));
    shard.poll(Nanos::from_millis(3000), &mut link);
    assert_eq!(
        (std::mem::take(&mut link.from).len(), shard.is_ready()),
        (1, false)
    );
    link.to
        .push(frame(GNB, [8, 6], &arp(2, UPF, UPF_IPV4, GNB, GNB_IPV4)));
    shard.poll(Nanos::from_millis(4000), &mut link);
    assert!(link.from.is_empty() && shard.is_ready());
}

#[test]
fn answers_wait_for_room_in_bounded_number() {
    let mut shard = shard(None);
    let mut link = Link {
        is_full: true,
        ..Link::default()
    };
    for _ in 0..2 * MAX_QUEUED {
        link.to.push(frame(GNB, [8, 0], &icmpv4_echo(GNB_IPV4)));
        shard.poll(Nanos(0), &mut link);
    }
    link.is_full = false;
    shard.poll(Nanos(0), &mut link);
    assert_eq!(link.from.len(), MAX_QUEUED);
}
