//! Any IP packet with ICMP or ICMPv6: read as an echo, an error about a long packet and a discovery message, answered
//! where it asks for an echo, quoted in errors, and translated where it is an error. The first octet says whether its
//! checksum is made right.

use std::net::IpAddr;

use packet::icmp::{self, IcmpError, Neighbour};
use packet::icmp_rewrite::{Endpoint, Outer, is_intact, quoted, rewrite_error};
use packet::too_big::TooBig;
use packet::tuple::proto;
use packet::{Addrs, IpTuple};

fn read(packet: &[u8], tuple: &IpTuple) {
    let len = packet.len();
    if let Ok(Some(long)) = TooBig::parse(packet, tuple) {
        assert!(long.mtu > 0);
    }
    if !tuple.addrs.is_v4() && tuple.proto == proto::ICMPV6 {
        let _ = Neighbour::parse(packet, tuple);
    }
    if icmp::is_echo_request(packet, tuple) {
        let mut reply = packet.to_vec();
        if icmp::echo_reply_in_place(&mut reply, tuple).is_ok() {
            let again = IpTuple::parse(&reply, len).expect("a reply");
            assert_eq!(
                (again.addrs.src(), again.addrs.dst()),
                (tuple.addrs.dst(), tuple.addrs.src())
            );
            assert!(!icmp::is_echo_request(&reply, &again));
        }
    }
}

fn quote(packet: &[u8], tuple: &IpTuple) {
    let (ours, errors): (IpAddr, [IcmpError; 2]) = match tuple.addrs {
        Addrs::V4 { .. } => (
            [192, 0, 2, 1].into(),
            [
                IcmpError::TTL_EXPIRED_V4,
                IcmpError::fragmentation_needed_v4(1_400),
            ],
        ),
        Addrs::V6 { .. } => {
            let ours = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];
            (
                ours.into(),
                [
                    IcmpError::HOP_LIMIT_EXPIRED_V6,
                    IcmpError::packet_too_big_v6(1_400),
                ],
            )
        }
    };
    let mut out = [0; 2_000];
    for error in errors {
        let Some(len) = error.write(&mut out, ours, packet, tuple) else {
            continue;
        };
        let written = IpTuple::parse(&out[..len], len).expect("an error of ours");
        assert_eq!(written.addrs.dst(), tuple.addrs.src());
        let message = &out[usize::from(written.l4_offset)..len];
        icmp::Header::parse(&written.addrs, message).expect("its checksum");
        // No error about an error (RFC 1122 §3.2.2, RFC 4443 §2.4).
        assert_eq!(error.write(&mut [0; 2_000], ours, &out[..len], &written), None);
    }
}

/// An error of IPv4 is translated from outside and from inside, or stays as it is.
fn translate(packet: &[u8]) {
    let (address, port) = ([192, 0, 2, 1], 2_000);
    for outer in [Outer::Destination([10, 45, 0, 2]), Outer::Source(address)] {
        let mut translated = packet.to_vec();
        let done = rewrite_error(&mut translated, outer, Endpoint { address, port });
        match quoted(packet) {
            Some(before) if done.is_ok() => {
                let ends = quoted(&translated).expect("an error still").ends;
                let (changed, kept, is_kept) = match outer {
                    Outer::Destination(_) => (
                        (ends.source, ends.source_port),
                        ends.destination,
                        before.ends.destination,
                    ),
                    Outer::Source(_) => (
                        (ends.destination, ends.destination_port),
                        ends.source,
                        before.ends.source,
                    ),
                };
                assert_eq!((changed, kept), ((address, port), is_kept));
                assert_eq!(is_intact(&translated), is_intact(packet));
            }
            Some(before) => assert_eq!((before.protocol, &translated[..]), (proto::SCTP, packet)),
            None => assert!(done.is_err() && translated == packet),
        }
    }
}

/// See the module.
pub fn run(input: &[u8]) {
    let Some((how, octets)) = input.split_first() else {
        return;
    };
    let mut packet = octets.to_vec();
    let Ok(tuple) = IpTuple::parse(&packet, packet.len()) else {
        return;
    };
    let message = usize::from(tuple.l4_offset)..usize::from(tuple.total_len);
    if how & 1 == 0
        && let Some(message) = packet.get_mut(message)
    {
        let _ = icmp::fill_checksum(&tuple.addrs, message);
    }
    read(&packet, &tuple);
    quote(&packet, &tuple);
    translate(&packet);
}
