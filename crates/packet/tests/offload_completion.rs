//! What a sender has left to a NIC, finished, and read by etherparse.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use packet::offload_completion::{Segmentation, fill_checksum};
use proptest::prelude::*;

/// How a packet is made.
#[derive(Clone, Copy, Debug)]
struct Made {
    v4: bool,
    tcp: bool,
    tagged: bool,
    payload: usize,
}

fn made() -> impl Strategy<Value = Made> {
    let shape = (any::<bool>(), any::<bool>(), any::<bool>(), 0..9_000_usize);
    shape.prop_map(|(v4, tcp, tagged, payload)| Made {
        v4,
        tcp,
        tagged,
        payload,
    })
}

/// The packet, with right checksums, as etherparse makes it.
fn build(made: Made) -> Vec<u8> {
    let payload: Vec<u8> = (0..made.payload).map(|n| (n * 7 + n / 256) as u8).collect();
    let addresses = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    macro_rules! with_transport {
        ($builder:expr) => {
            if made.tcp {
                let tcp = $builder
                    .tcp(443, 40_000, 0xffff_f000, 1_024)
                    .ack(7)
                    .psh()
                    .fin();
                tcp.options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2])
                    .unwrap()
                    .write(&mut frame, &payload)
            } else {
                $builder.udp(443, 40_000).write(&mut frame, &payload)
            }
        };
    }
    let link = PacketBuilder::ethernet2(addresses.0, addresses.1);
    match (made.tagged, made.v4) {
        (false, true) => with_transport!(link.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)),
        (false, false) => with_transport!(link.ipv6([1; 16], [2; 16], 64)),
        (true, true) => {
            let tagged = link.single_vlan(etherparse::VlanId::try_new(7).unwrap());
            with_transport!(tagged.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64))
        }
        (true, false) => {
            let tagged = link.single_vlan(etherparse::VlanId::try_new(7).unwrap());
            with_transport!(tagged.ipv6([1; 16], [2; 16], 64))
        }
    }
    .unwrap();
    frame
}

/// Where the TCP or UDP header begins, and its checksum.
fn transport(made: Made) -> (usize, usize) {
    let l3 = if made.tagged { 18 } else { 14 };
    let l4 = l3 + if made.v4 { 20 } else { 40 };
    (l4, l4 + if made.tcp { 16 } else { 6 })
}

/// Puts the sum of the pseudo header into the place of the checksum, computed plainly.
fn leave_checksum(frame: &mut [u8], made: Made) {
    let (l4, at) = transport(made);
    let l3 = if made.tagged { 18 } else { 14 };
    let addresses = if made.v4 {
        l3 + 12..l3 + 20
    } else {
        l3 + 8..l3 + 40
    };
    let mut sum: u32 = frame[addresses]
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    sum += (frame.len() - l4) as u32 + if made.tcp { 6 } else { 17 };
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[at..at + 2].copy_from_slice(&(sum as u16).to_be_bytes());
}

/// What etherparse reads of a whole packet: (id, sequence, FIN, PSH, payload); its checksums are right.
fn read(frame: &[u8]) -> (u16, u32, bool, bool, Vec<u8>) {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let net = sliced.net.unwrap();
    let (id, total) = match &net {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(
                header.header_checksum(),
                header.to_header().calc_header_checksum()
            );
            (header.identification(), usize::from(header.total_len()))
        }
        NetSlice::Ipv6(ip) => (0, 40 + usize::from(ip.header().payload_length())),
        other => panic!("{other:?}"),
    };
    let link = frame.len() - total;
    assert!(
        link == 14 || link == 18,
        "an IP length of {total} in {}",
        frame.len()
    );
    let payload;
    let (sequence, fin, psh, reported, right) = match sliced.transport.unwrap() {
        TransportSlice::Tcp(tcp) => {
            payload = tcp.payload().to_vec();
            let header = tcp.to_header();
            let right = match &net {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), &payload),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), &payload),
                other => panic!("{other:?}"),
            };
            (
                header.sequence_number,
                header.fin,
                header.psh,
                header.checksum,
                right.unwrap(),
            )
        }
        TransportSlice::Udp(udp) => {
            payload = udp.payload().to_vec();
            let header = udp.to_header();
            assert_eq!(usize::from(header.length), 8 + payload.len());
            let right = match &net {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), &payload),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), &payload),
                other => panic!("{other:?}"),
            };
            (0, false, false, header.checksum, right.unwrap())
        }
        other => panic!("{other:?}"),
    };
    assert!(
        reported == right || reported == 0xffff && right == 0,
        "checksum {reported:#x}, right is {right:#x}"
    );
    (id, sequence, fin, psh, payload)
}

proptest! {
    #[test]
    fn a_checksum_that_was_left_is_filled_in(made in made(), padding in 0..8_usize) {
        let right = build(made);
        let mut frame = right.clone();
        leave_checksum(&mut frame, made);
        // Octets behind the packet, as short Ethernet frames have them, are not summed up.
        frame.resize(right.len() + padding, 0xa5);
        prop_assert!(fill_checksum(&mut frame));
        frame.truncate(right.len());
        let (_, at) = transport(made);
        let is_zero = right[at..at + 2] == [0, 0];
        prop_assert!(frame == right || is_zero && frame[at..at + 2] == [0xff, 0xff]);
    }

    #[test]
    fn a_right_checksum_stays(made in made()) {
        let right = build(made);
        let mut frame = right.clone();
        fill_checksum(&mut frame);
        prop_assert_eq!(frame, right);
    }

    #[test]
    fn pieces_are_the_whole(made in made(), size in 1..3_000_u16) {
        let mut whole = build(made);
        leave_checksum(&mut whole, made);
        let (l4, _) = transport(made);
        let cut = Segmentation::of(&whole, whole.len(), l4, size).unwrap();
        prop_assert_eq!(Segmentation::of(&whole, whole.len(), 0, size), Some(cut));
        let pieces = made.payload.div_ceil(size.into()).max(1);
        prop_assert_eq!(cut.pieces(), pieces);
        let mut payload = Vec::new();
        let mut first_id = None;
        for place in 0..pieces {
            let mut piece = whole[..cut.header()].to_vec();
            piece.extend(&whole[cut.payload(place)]);
            prop_assert!(cut.finish(place, &mut piece));
            let (id, sequence, fin, psh, octets) = read(&piece);
            let first = *first_id.get_or_insert(id);
            let step = if made.v4 { place as u16 } else { 0 };
            prop_assert_eq!(id, first.wrapping_add(step));
            if made.tcp {
                prop_assert_eq!(sequence, 0xffff_f000_u32.wrapping_add(payload.len() as u32));
                prop_assert_eq!((fin, psh), (place + 1 == pieces, place + 1 == pieces));
            }
            prop_assert!(octets.len() == usize::from(size) || place + 1 == pieces);
            payload.extend(octets);
        }
        let (.., octets) = read(&build(made));
        prop_assert_eq!(payload, octets);
    }

    #[test]
    fn anything_is_taken(mut frame in prop::collection::vec(any::<u8>(), 0..200), layer4 in 0..100_usize, size in any::<u16>()) {
        fill_checksum(&mut frame);
        if let Some(cut) = Segmentation::of(&frame, frame.len(), layer4, size) {
            let mut piece = frame[..cut.header()].to_vec();
            piece.extend(&frame[cut.payload(0)]);
            prop_assert!(cut.finish(0, &mut piece));
        }
    }

    #[test]
    fn a_damaged_packet_is_taken(made in made(), place in any::<prop::sample::Index>(), octet in any::<u8>(), size in 1..3_000_u16) {
        let mut frame = build(made);
        let headers = frame.len().min(80);
        frame[place.index(headers)] = octet;
        fill_checksum(&mut frame.clone());
        if let Some(cut) = Segmentation::of(&frame, frame.len(), 0, size) {
            let last = cut.pieces() - 1;
            let mut piece = frame[..cut.header()].to_vec();
            piece.extend(&frame[cut.payload(last)]);
            prop_assert!(cut.finish(last, &mut piece));
        }
    }
}

#[test]
fn the_longest_packets_are_cut_up() {
    for (v4, payload) in [(true, 65_535 - 20 - 8), (false, 65_535 - 8)] {
        let made = Made {
            v4,
            tcp: false,
            tagged: false,
            payload,
        };
        let mut whole = build(made);
        leave_checksum(&mut whole, made);
        for size in [1_400, u16::MAX] {
            let cut = Segmentation::of(&whole, whole.len(), 0, size).unwrap();
            let mut octets = 0;
            for place in 0..cut.pieces() {
                let mut piece = whole[..cut.header()].to_vec();
                piece.extend(&whole[cut.payload(place)]);
                assert!(cut.finish(place, &mut piece));
                octets += read(&piece).4.len();
            }
            assert_eq!(octets, payload);
        }
        assert!(fill_checksum(&mut whole));
    }
}

#[test]
fn what_is_no_such_packet_stays() {
    let made = Made {
        v4: true,
        tcp: true,
        tagged: false,
        payload: 100,
    };
    let mut fragment = build(made);
    leave_checksum(&mut fragment, made);
    fragment[20] = 0x20;
    assert!(!fill_checksum(&mut fragment.clone()));
    assert_eq!(Segmentation::of(&fragment, fragment.len(), 0, 50), None);
    let whole = build(made);
    // The port says that it is the header of a packet in a tunnel.
    assert_eq!(Segmentation::of(&whole, whole.len(), 70, 50), None);
    assert_eq!(Segmentation::of(&whole, whole.len(), 0, 0), None);
    assert_eq!(Segmentation::of(&whole, whole.len() - 1, 0, 50), None);
}
