//! ICMP and Neighbour Discovery: what is asked, answered and refused.

mod common;

use std::net::{IpAddr, Ipv6Addr};

use packet::build::packet as make;
use packet::icmp::{self, Header, IcmpError, Neighbour};
use packet::{Addrs, DropReason, IpTuple, MacAddr, ipv4};

use common::hex;

fn tuple(packet: &[u8]) -> IpTuple {
    IpTuple::parse(packet, packet.len()).expect("a whole packet")
}

fn pairs() -> [(IpAddr, IpAddr); 2] {
    [
        ([10, 45, 0, 2].into(), [10, 0, 0, 1].into()),
        ("2001:db8::2".parse().unwrap(), "2001:db8::1".parse().unwrap()),
    ]
}

#[test]
fn an_echo_request_becomes_its_reply() {
    for (asker, node) in pairs() {
        let mut packet = make::echo_request(asker, node, 0x1234, 7, b"payload").expect("one family");
        let request = tuple(&packet);
        assert!(icmp::is_echo_request(&packet, &request));
        assert_eq!(icmp::echo_reply_in_place(&mut packet, &request), Ok(()));
        let reply = tuple(&packet);
        assert_eq!(
            (reply.addrs.src(), reply.addrs.dst(), reply.ttl),
            (node, asker, 64)
        );
        if node.is_ipv4() {
            assert_eq!(ipv4::verify_header(&packet), Ok(20));
        }
        let message = &packet[usize::from(reply.l4_offset)..];
        let header = Header::parse(&reply.addrs, message).expect("right checksum");
        assert_eq!(
            (header.kind, header.code, header.echo()),
            (
                if node.is_ipv4() { 0 } else { 129 },
                0,
                icmp::EchoId {
                    identifier: 0x1234,
                    sequence: 7
                }
            )
        );
        assert!(message.ends_with(b"payload"));
        let before = packet.clone();
        assert_eq!(
            icmp::echo_reply_in_place(&mut packet, &reply),
            Err(DropReason::TruncatedIcmp)
        );
        assert_eq!(packet, before);
    }
}

#[test]
fn a_message_with_a_wrong_checksum_is_refused() {
    for (asker, node) in pairs() {
        let mut packet = make::echo_request(asker, node, 1, 1, b"odd").expect("one family");
        *packet.last_mut().unwrap() ^= 1;
        let request = tuple(&packet);
        let message = &packet[usize::from(request.l4_offset)..];
        assert_eq!(Header::parse(&request.addrs, message), Err(DropReason::BadIcmp));
        assert_eq!(
            Header::parse(&request.addrs, &message[..7]),
            Err(DropReason::TruncatedIcmp)
        );
    }
}

#[test]
fn errors_quote_the_packet_within_their_bound() {
    for ((sender, node), error, bound, ip_len) in pairs()
        .into_iter()
        .zip([
            (IcmpError::fragmentation_needed_v4(1400), 576, 20),
            (IcmpError::packet_too_big_v6(1400), 1280, 40),
        ])
        .map(|(pair, (error, bound, len))| (pair, error, bound, len))
    {
        let addrs = make::addrs(sender, node).expect("one family");
        for size in [10, 1300] {
            let original = make::ip(&addrs, 17, &make::IpOptions::default(), &vec![7; size]).expect("short");
            let mut out = [0xee; 1500];
            let len = error
                .write(&mut out, node, &original, &tuple(&original))
                .expect("there is room");
            assert_eq!(len, (ip_len + 8 + original.len()).min(bound));
            let read = tuple(&out[..len]);
            assert_eq!((read.addrs.src(), read.addrs.dst()), (node, sender));
            let message = &out[ip_len..len];
            let header = Header::parse(&read.addrs, message).expect("right checksum");
            assert_eq!((header.kind, header.rest.get()), (error.kind, 1400));
            assert_eq!(message[8..], original[..len - ip_len - 8]);
            assert_eq!(
                error.write(&mut out[..len - 1], node, &original, &tuple(&original)),
                None
            );
            let other = if node.is_ipv4() {
                IpAddr::from([1; 16])
            } else {
                [10, 0, 0, 1].into()
            };
            assert_eq!(
                error.write(&mut [0; 1500], other, &original, &tuple(&original)),
                None
            );
        }
    }
}

#[test]
fn no_error_about_errors_groups_and_later_fragments() {
    let write = |packet: &[u8]| {
        let mut out = [0; 1500];
        let node = if packet[0] == 0x45 {
            IpAddr::from([10, 0, 0, 1])
        } else {
            [1; 16].into()
        };
        IcmpError::TTL_EXPIRED_V4
            .write(&mut out, node, packet, &tuple(packet))
            .is_some()
    };
    let v4 = |src, dst, proto, first: u8| {
        make::ip(
            &Addrs::V4 { src, dst },
            proto,
            &make::IpOptions::default(),
            &[first; 20],
        )
        .unwrap()
    };
    let v6 = |dst, first: u8| {
        make::ip(
            &Addrs::V6 { src: [2; 16], dst },
            58,
            &make::IpOptions::default(),
            &[first; 20],
        )
        .unwrap()
    };
    let (ue, dn) = ([10, 45, 0, 2], [8, 8, 8, 8]);
    assert!(write(&v4(ue, dn, 1, 8)));
    assert!(!write(&v4(ue, dn, 1, 3)));
    assert!(!write(&v4(ue, [224, 0, 0, 1], 17, 0)));
    assert!(!write(&v4([0; 4], dn, 17, 0)));
    let mut fragment = v4(ue, dn, 17, 0);
    fragment[7] = 1;
    assert!(!write(&fragment));
    assert!(write(&v6([3; 16], 128)));
    assert!(!write(&v6([3; 16], 1)));
    assert!(!write(&v6([0xff; 16], 128)));
}

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn solicitation() -> (Neighbour, Vec<u8>) {
    let target: Ipv6Addr = "fe80::abcd:1234".parse().unwrap();
    let asked = Neighbour {
        is_advertisement: false,
        flags: 0,
        target,
        mac: Some(MAC),
    };
    let mut out = [0; 128];
    let group = Neighbour::solicited_node(target);
    let len = asked
        .write(&mut out, "fe80::1".parse().unwrap(), group)
        .expect("there is room");
    (asked, out[..len].to_vec())
}

#[test]
fn neighbours_request_and_reply() {
    let (asked, packet) = solicitation();
    assert_eq!(packet.len(), Neighbour::PACKET_LEN);
    assert_eq!(packet[..8], hex("60000000 00203aff"));
    assert_eq!(packet[24..40], hex("ff02 0000 0000 0000 0000 0001 ffcd 1234"));
    assert_eq!(packet[64..], hex("0101 020000000001"));
    assert_eq!(Neighbour::parse(&packet, &tuple(&packet)), Ok(Some(asked)));
    assert_eq!(asked.write(&mut [0; 71], [0; 16].into(), [0; 16].into()), None);
    let group = Neighbour::solicited_node(asked.target);
    assert_eq!(
        Neighbour::multicast_mac(group),
        MacAddr([0x33, 0x33, 0xff, 0xcd, 0x12, 0x34])
    );

    let flags = Neighbour::SOLICITED | Neighbour::OVERRIDE;
    let reported = Neighbour {
        is_advertisement: true,
        flags,
        ..asked
    };
    let mut out = [0; 72];
    assert_eq!(
        reported.write(&mut out, asked.target, "fe80::1".parse().unwrap()),
        Some(72)
    );
    assert_eq!(Neighbour::parse(&out, &tuple(&out)), Ok(Some(reported)));
    assert_eq!((out[40], out[44], out[64]), (136, 0x60, 2));
}

#[test]
fn neighbours_are_checked() {
    let (asked, good) = solicitation();
    let parse = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        let tuple = tuple(&packet);
        icmp::fill_checksum(&tuple.addrs, &mut packet[40..]).expect("a whole message");
        Neighbour::parse(&packet, &tuple)
    };
    let bad = Err(DropReason::BadIcmp);
    assert_eq!(parse(&|_| {}), Ok(Some(asked)));
    assert_eq!(parse(&|packet| packet[7] = 254), bad, "hop limit");
    assert_eq!(parse(&|packet| packet[41] = 1), bad, "code");
    assert_eq!(parse(&|packet| packet[48] = 0xff), bad, "target");
    assert_eq!(parse(&|packet| packet[65] = 0), bad, "option length 0");
    assert_eq!(parse(&|packet| packet[65] = 2), bad, "option too long");
    assert_eq!(
        parse(&|packet| packet[64] = 14),
        Ok(Some(Neighbour { mac: None, ..asked }))
    );
    assert_eq!(parse(&|packet| packet[40] = 128), Ok(None));
    let mut wrong = good.clone();
    wrong[42] ^= 1;
    assert_eq!(Neighbour::parse(&wrong, &tuple(&wrong)), bad);
}
