//! Fragments, against a reference that puts them together octet by octet.

use packet::ip_fragmentation::{FragmentSpec, MAX_FRAGMENTS, fragment};
use packet::{DropReason, PacketBuf, VecBuf, checksum};
use proptest::prelude::*;

#[path = "common/reassembled.rs"]
mod reassembled;

use reassembled::reassembled;

/// An IPv4 packet with these options, or an IPv6 one.
fn packet(is_v4: bool, options: &[u8], octets: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..octets).map(|at| (at * 7 + at / 256) as u8).collect();
    let mut header = if is_v4 {
        let total = (20 + options.len() + octets) as u16;
        let mut header = vec![
            0x45 + options.len() as u8 / 4,
            0xb8,
            0,
            0,
            0x12,
            0x34,
            0,
            0,
            63,
            17,
            0,
            0,
        ];
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        header.extend(options);
        header
    } else {
        let mut header = vec![0x60, 0, 0, 0, 0, 0, 17, 63];
        header[4..6].copy_from_slice(&(octets as u16).to_be_bytes());
        header.extend([0x20; 32]);
        header
    };
    if is_v4 {
        let sum = checksum::of(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    [header, payload].concat()
}

/// The fragments of a frame, without the octets before the outermost IP header.
fn fragments(frame: &[u8], cut: FragmentSpec) -> Result<Vec<Vec<u8>>, DropReason> {
    let (mut whole, mut rest) = (VecBuf::new(frame), Vec::new());
    fragment(&mut whole, cut, &mut rest, || Some(VecBuf::new(&[])))?;
    let all = std::iter::once(&whole).chain(&rest);
    Ok(all
        .map(|fragment| {
            assert_eq!(fragment.data()[..cut.l3], frame[..cut.l3]);
            fragment.data()[cut.l3..].to_vec()
        })
        .collect())
}

proptest! {
    #[test]
    fn what_is_put_together_is_what_was_cut_up(
        is_v4: bool, octets in 0usize..20_000, mtu in 576usize..9_300, words in 0usize..10, l3 in 14usize..23
    ) {
        // A record route of which the first fragment alone has a copy.
        let options = [&[7, 3, 4, 1][..], &[1; 40]].concat();
        let options = if is_v4 { &options[..words * 4] } else { &[] };
        let whole = packet(is_v4, options, octets);
        let id = (!is_v4).then_some(0x1234_5678);
        let cut = FragmentSpec { l3, outer: 0, mtu, id };
        let frame = [vec![9; l3], whole.clone()].concat();
        let fragments = fragments(&frame, cut).expect("it can be cut up");
        prop_assert!(fragments.iter().all(|fragment| fragment.len() <= mtu));
        prop_assert_eq!(reassembled(&fragments), whole);
        for later in &fragments[1..] {
            prop_assert!(!is_v4 || later[20..20 + options.len()].iter().all(|octet| *octet == 1));
        }
    }

    #[test]
    fn each_fragment_of_a_user_packet_has_the_tunnel_s_headers(
        octets in 0usize..20_000, mtu in 1_280usize..9_300, over_v4: bool, optional: bool
    ) {
        let inner = packet(true, &[], octets);
        let gtpu = if optional { 16 } else { 8 };
        let datagram = 8 + gtpu + inner.len();
        let mut message = vec![0x08, 0x68, 0x08, 0x68, 0, 0, 0, 0, 0x30, 255, 0, 0, 0, 0, 0, 77];
        message[4..6].copy_from_slice(&(datagram as u16).to_be_bytes());
        message[10..12].copy_from_slice(&((datagram - 16) as u16).to_be_bytes());
        if optional {
            message[8] |= 4;
            message.extend([0, 0, 0, 0x85, 1, 0, 9, 0]);
        }
        let mut outer = packet(over_v4, &[], 0);
        let total = outer.len() + datagram;
        let (at, length) = if over_v4 { (2, total) } else { (4, datagram) };
        outer[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        let headers = [outer, message].concat();
        let mut headers_and_sum = headers.clone();
        if !over_v4 {
            let sum = VecBuf::new(&inner).sum_from(0);
            packet::build::fill_udp_checksum(&mut headers_and_sum, sum).expect("headers");
        }
        let frame = [vec![9; 14], headers_and_sum, inner.clone()].concat();
        let cut = FragmentSpec { l3: 14, outer: headers.len(), mtu, id: None };
        let fragments = fragments(&frame, cut).expect("it can be cut up");
        let mut users = Vec::new();
        for fragment in &fragments {
            prop_assert!(fragment.len() <= mtu);
            let parsed = packet::IpTuple::parse(fragment, fragment.len()).expect("IP");
            prop_assert_eq!(usize::from(parsed.total_len), fragment.len());
            prop_assert!(!over_v4 || checksum::is_right(&fragment[..20]));
            let udp = &fragment[usize::from(parsed.l4_offset)..];
            packet::udp::verify_checksum(&parsed.addrs, udp, checksum::Sum::default(), false).expect("UDP");
            prop_assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
            prop_assert_eq!(usize::from(u16::from_be_bytes([udp[10], udp[11]])), udp.len() - 16);
            prop_assert_eq!(&udp[16..8 + gtpu], &headers[headers.len() + 8 - gtpu..]);
            users.push(udp[8 + gtpu..].to_vec());
        }
        prop_assert_eq!(reassembled(&users), inner);
    }
}

#[test]
fn a_fragment_is_cut_up_further() {
    let mut first = packet(true, &[], 1_600);
    first[6..8].copy_from_slice(&(0x2000 | 100u16).to_be_bytes());
    let cut = FragmentSpec {
        l3: 0,
        outer: 0,
        mtu: 820,
        id: None,
    };
    let fields = |fragments: &[Vec<u8>]| -> Vec<u16> {
        let field = |fragment: &Vec<u8>| u16::from_be_bytes([fragment[6], fragment[7]]);
        fragments.iter().map(field).collect()
    };
    let more = fragments(&first, cut).expect("it can be cut up");
    assert_eq!(fields(&more), [0x2000 | 100, 0x2000 | 200]);
    first[6] = 0;
    let last = fragments(&first, cut).expect("it can be cut up");
    assert_eq!(fields(&last), [0x2000 | 100, 200]);
}

#[test]
fn what_cannot_be_cut_up_is_refused() {
    let whole = packet(true, &[], 40_000);
    let with = |mtu| FragmentSpec {
        l3: 0,
        outer: 0,
        mtu,
        id: None,
    };
    assert_eq!(fragments(&whole, with(27)), Err(DropReason::TooBig));
    assert_eq!(
        fragments(&whole, with(576)),
        Err(DropReason::TooBig),
        "more than {MAX_FRAGMENTS}"
    );
    let mut behind = whole.clone();
    behind[6..8].copy_from_slice(&0x1000u16.to_be_bytes());
    assert_eq!(fragments(&behind, with(1_500)), Err(DropReason::BadIpLength));
    assert_eq!(
        fragments(&whole[..19], with(1_500)),
        Err(DropReason::TruncatedIpv4)
    );
    let (mut buf, mut rest) = (VecBuf::new(&whole), Vec::new());
    let mut left = 2;
    let two = || {
        left -= 1;
        (left >= 0).then(|| VecBuf::new(&[]))
    };
    assert_eq!(
        fragment(&mut buf, with(1_500), &mut rest, two),
        Err(DropReason::NoBuffer)
    );
    assert!(rest.is_empty());
}
