use std::net::Ipv6Addr;

use packet::VecBuf;
use proptest::prelude::*;

use super::*;

const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn ours_v6() -> Ipv6Addr {
    "2001:db8::1".parse().expect("an address")
}

fn own_v6(is_usable: bool) -> OwnIpv6 {
    OwnIpv6 {
        address: ours_v6(),
        mac: OUR_MAC,
        is_usable,
    }
}

fn peer_v6() -> Ipv6Addr {
    "2001:db8::9".parse().expect("an address")
}

fn arp_frame(operation: u8, from: [u8; 4], about: [u8; 4]) -> Vec<u8> {
    let mut frame = [[0xff; 6], PEER.0].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(PEER.0);
    frame.extend(from);
    frame.extend([0; 6]);
    frame.extend(about);
    frame
}

#[test]
fn a_question_for_us_becomes_the_answer() {
    let mut frame = arp_frame(1, [192, 0, 2, 9], OURS.octets());
    let outcome = arp(&mut frame, 14, OURS, OUR_MAC).expect("a good question");
    let report = NeighbourReport {
        address: [192, 0, 2, 9].into(),
        mac: PEER,
        message: NeighbourMessage::Request,
    };
    assert_eq!(
        outcome,
        Outcome {
            is_reply: true,
            report: Some(report)
        }
    );
    let mut answer = [PEER.0, OUR_MAC.0].concat();
    answer.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1]);
    answer.extend([2, 0, 0, 0, 0, 9, 192, 0, 2, 9]);
    assert_eq!(frame, answer);
}

#[test]
fn an_arp_probe_is_answered_and_teaches_nothing() {
    let mut frame = arp_frame(1, [0; 4], OURS.octets());
    assert_eq!(
        arp(&mut frame, 14, OURS, OUR_MAC),
        Ok(Outcome {
            is_reply: true,
            report: None
        })
    );
}

#[test]
fn replies_and_announcements_are_distinguished() {
    let outcome_of = |operation, from, about| {
        let outcome = arp(&mut arp_frame(operation, from, about), 14, OURS, OUR_MAC)?;
        Ok((outcome.is_reply, outcome.report.map(|report| report.message)))
    };
    let (peer, other) = ([192, 0, 2, 9], [192, 0, 2, 7]);
    assert_eq!(
        outcome_of(2, peer, OURS.octets()),
        Ok((false, Some(NeighbourMessage::Reply)))
    );
    assert_eq!(
        outcome_of(2, peer, peer),
        Ok((false, Some(NeighbourMessage::Announcement)))
    );
    assert_eq!(
        outcome_of(1, peer, peer),
        Ok((false, Some(NeighbourMessage::Announcement)))
    );
    assert_eq!(outcome_of(1, peer, other), Err(DropReason::NotForUs));
    assert_eq!(outcome_of(3, peer, OURS.octets()), Err(DropReason::BadArp));
    assert_eq!(outcome_of(3, OURS.octets(), peer), Err(DropReason::BadArp));
}

#[test]
fn another_station_that_sends_from_our_ipv4_address_claims_it() {
    let claim = NeighbourReport {
        address: OURS.into(),
        mac: PEER,
        message: NeighbourMessage::Claim,
    };
    for (operation, about) in [(1, [192, 0, 2, 9]), (1, OURS.octets()), (2, [192, 0, 2, 9])] {
        let mut frame = arp_frame(operation, OURS.octets(), about);
        let before = frame.clone();
        let outcome = arp(&mut frame, 14, OURS, OUR_MAC).expect("it is well-formed");
        assert_eq!((outcome.is_reply, outcome.report), (false, Some(claim)));
        assert_eq!(frame, before);
    }
    // An announcement of our own that a switch sent back.
    let mut frame = arp_frame(1, OURS.octets(), OURS.octets());
    frame[22..28].copy_from_slice(&OUR_MAC.0);
    assert_eq!(arp(&mut frame, 14, OURS, OUR_MAC), Err(DropReason::BadArp));
}

fn icmp_frame(icmp: &[u8]) -> Vec<u8> {
    let mut frame = [OUR_MAC.0, PEER.0].concat();
    frame.extend([
        8,
        0,
        0x45,
        0,
        0,
        20 + icmp.len() as u8,
        0,
        7,
        0x40,
        0,
        3,
        1,
        0,
        0,
        192,
        0,
        2,
        9,
        192,
        0,
        2,
        1,
    ]);
    let sum = checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(icmp);
    let sum = checksum::of(&frame[34..]);
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn an_echo_request_becomes_the_reply() {
    let mut frame = icmp_frame(&[8, 0, 0, 0, 0x12, 0x34, 0, 1, 1, 2, 3]);
    echo_v4(&mut frame, 14, 34, OUR_MAC).expect("a good request");
    assert_eq!(frame[..12], [PEER.0, OUR_MAC.0].concat());
    assert_eq!(frame[26..34], [192, 0, 2, 1, 192, 0, 2, 9]);
    assert_eq!((frame[22], frame[34]), (64, 0));
    assert!(checksum::is_right(&frame[14..34]) && checksum::is_right(&frame[34..]));
    let mut other = icmp_frame(&[3, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(echo_v4(&mut other, 14, 34, OUR_MAC), Err(DropReason::NotForUs));
}

fn icmpv6_frame(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let mut frame = [OUR_MAC.0, PEER.0].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, message.len() as u8, 58, hop_limit]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(message);
    let sum = Sum::default().pseudo_v6(source.octets(), destination.octets(), 58, message.len() as u16);
    let sum = sum.bytes(message).checksum();
    frame[56..58].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn assert_checksum(frame: &[u8]) {
    let (source, destination) = (address(frame, 22), address(frame, 38));
    let sum = Sum::default().pseudo_v6(
        source.octets(),
        destination.octets(),
        58,
        (frame.len() - 54) as u16,
    );
    assert_eq!(sum.bytes(&frame[54..]).folded(), 0xffff);
}

#[test]
fn an_ipv6_echo_request_becomes_the_reply() {
    let mut frame = icmpv6_frame(peer_v6(), ours_v6(), 3, &[128, 0, 0, 0, 1, 2, 3, 4, 5]);
    echo_v6(&mut frame, 14, 54, OUR_MAC).expect("a good request");
    assert_eq!((address(&frame, 22), address(&frame, 38)), (ours_v6(), peer_v6()));
    assert_eq!(frame[54], 129);
    assert_checksum(&frame);
}

fn discovery_message(kind: u8, flags: u8, target: Ipv6Addr, option: Option<u8>) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    if let Some(option) = option {
        message.extend([option, 1]);
        message.extend(PEER.0);
    }
    message
}

fn discover(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hops: u8,
    message: &[u8],
) -> (VecBuf, Result<Outcome, DropReason>) {
    let mut buf = VecBuf::new(&icmpv6_frame(source, destination, hops, message));
    let outcome = discovery(&mut buf, 14, 54, own_v6(true));
    (buf, outcome)
}

#[test]
fn a_solicitation_for_us_becomes_the_advertisement() {
    for option in [Some(1), None] {
        let message = discovery_message(135, 0, ours_v6(), option);
        let (buf, outcome) = discover(peer_v6(), solicit::solicited_node(ours_v6()), 255, &message);
        let outcome = outcome.expect("a good question");
        assert_eq!(
            (outcome.is_reply, outcome.report.is_some()),
            (true, option.is_some())
        );
        let frame = buf.data();
        assert_eq!(frame.len(), 14 + 40 + 32);
        assert_eq!(frame[..12], [PEER.0, OUR_MAC.0].concat());
        assert_eq!((address(frame, 22), address(frame, 38)), (ours_v6(), peer_v6()));
        assert_eq!((frame[54], frame[58]), (136, 0x60));
        assert_eq!(frame[78..86], [2, 1, 2, 0, 0, 0, 0, 1]);
        assert_checksum(frame);
    }
}

#[test]
fn duplicate_address_detection_is_reported_to_all_nodes() {
    let message = discovery_message(135, 0, ours_v6(), None);
    let (buf, outcome) = discover(
        Ipv6Addr::UNSPECIFIED,
        solicit::solicited_node(ours_v6()),
        255,
        &message,
    );
    assert_eq!(
        outcome,
        Ok(Outcome {
            is_reply: true,
            report: None
        })
    );
    assert_eq!(buf.data()[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(buf.data()[58], 0x20);
    assert_checksum(buf.data());
}

/// RFC 4861 §4.6, §7.1.1, §7.1.2: the whole message is discarded.
#[test]
fn messages_with_an_option_of_a_bad_length_are_discarded() {
    let nonce = [14, 1, 0, 0, 0, 0, 0, 0];
    let bad: [&[u8]; 5] = [
        &[1, 0],
        &[0; 8],
        &[14, 0, 0, 0, 0, 0, 0, 0],
        &[14, 2, 0, 0, 0, 0, 0, 0],
        &[14],
    ];
    let group = solicit::solicited_node(ours_v6());
    for (kind, from, to, target, option) in [
        (135, peer_v6(), group, ours_v6(), Some(1)),
        (135, peer_v6(), group, ours_v6(), None),
        (135, Ipv6Addr::UNSPECIFIED, group, ours_v6(), None),
        (136, peer_v6(), ours_v6(), peer_v6(), Some(2)),
        (136, peer_v6(), ours_v6(), ours_v6(), Some(2)),
    ] {
        let message = discovery_message(kind, 0x60 * (kind - 135), target, option);
        let good = [&message[..], &nonce].concat();
        assert!(discover(from, to, 255, &good).1.is_ok(), "{good:?}");
        for bad in bad {
            let message = [&good[..], bad].concat();
            let discarded = discover(from, to, 255, &message).1;
            assert_eq!(discarded, Err(DropReason::BadIcmp), "{message:?}");
        }
    }
}

#[test]
fn advertisements_report_a_neighbour() {
    let (_, outcome) = discover(
        peer_v6(),
        ours_v6(),
        255,
        &discovery_message(136, 0x60, peer_v6(), Some(2)),
    );
    let report = outcome
        .expect("a good answer")
        .report
        .expect("it names a neighbour");
    assert_eq!(
        (report.address, report.mac, report.message),
        (peer_v6().into(), PEER, NeighbourMessage::Reply)
    );
    let (_, outcome) = discover(
        peer_v6(),
        ours_v6(),
        255,
        &discovery_message(136, 0x20, peer_v6(), Some(2)),
    );
    assert!(outcome.is_ok_and(|outcome| {
        outcome
            .report
            .is_some_and(|s| s.message == NeighbourMessage::Announcement)
    }));
}

#[test]
fn what_came_through_a_router_or_is_damaged_is_refused() {
    let message = discovery_message(135, 0, ours_v6(), Some(1));
    assert_eq!(
        discover(peer_v6(), ours_v6(), 64, &message).1,
        Err(DropReason::NotForUs)
    );
    let mut buf = VecBuf::new(&icmpv6_frame(peer_v6(), ours_v6(), 255, &message));
    buf.data_mut()[60] ^= 1;
    assert_eq!(
        discovery(&mut buf, 14, 54, own_v6(true)),
        Err(DropReason::TruncatedIcmp)
    );
    let (_, outcome) = discover(
        peer_v6(),
        ours_v6(),
        255,
        &discovery_message(135, 0, peer_v6(), Some(1)),
    );
    assert_eq!(outcome, Err(DropReason::NotForUs));
}

/// What becomes of a discovery message that `sender` sent.
fn received(
    sender: MacAddr,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    message: &[u8],
    is_usable: bool,
) -> Result<Outcome, DropReason> {
    let mut frame = icmpv6_frame(source, destination, 255, message);
    frame[6..12].copy_from_slice(&sender.0);
    let mut buf = VecBuf::new(&frame);
    discovery(&mut buf, 14, 54, own_v6(is_usable))
}

fn claim() -> Outcome {
    Outcome::claim(ours_v6().into(), PEER)
}

const SILENCE: Outcome = Outcome {
    is_reply: false,
    report: None,
};

#[test]
fn a_probe_for_a_tentative_address_is_a_claim() {
    let probe = discovery_message(135, 0, ours_v6(), None);
    let to_group = (Ipv6Addr::UNSPECIFIED, solicit::solicited_node(ours_v6()));
    assert_eq!(received(PEER, to_group, &probe, false), Ok(claim()));
    assert_eq!(
        received(OUR_MAC, to_group, &probe, false),
        Ok(SILENCE),
        "looped back"
    );
    assert_eq!(
        received(OUR_MAC, to_group, &probe, true),
        Ok(SILENCE),
        "looped back"
    );
    // RFC 4861 §7.1.1.
    let with_option = discovery_message(135, 0, ours_v6(), Some(1));
    let to_us = (Ipv6Addr::UNSPECIFIED, ours_v6());
    for is_usable in [false, true] {
        let refused = Err(DropReason::BadIcmp);
        assert_eq!(received(PEER, to_group, &with_option, is_usable), refused);
        assert_eq!(received(PEER, to_us, &probe, is_usable), refused);
    }
}

#[test]
fn a_tentative_address_is_not_answered_for() {
    let question = discovery_message(135, 0, ours_v6(), Some(1));
    let to_group = (peer_v6(), solicit::solicited_node(ours_v6()));
    assert_eq!(received(PEER, to_group, &question, false), Ok(SILENCE));
}

#[test]
fn an_advertisement_of_our_address_by_another_station_is_a_claim() {
    let all_nodes = "ff02::1".parse().expect("an address");
    for (option, is_usable) in [(Some(2), true), (Some(2), false), (None, true), (None, false)] {
        let message = discovery_message(136, 0x20, ours_v6(), option);
        let addresses = (ours_v6(), all_nodes);
        assert_eq!(received(PEER, addresses, &message, is_usable), Ok(claim()));
        assert_eq!(
            received(OUR_MAC, addresses, &message, is_usable),
            Err(DropReason::NotForUs)
        );
    }
}

#[test]
fn groups_are_listened_to() {
    assert!(listens_to(
        ours_v6(),
        "ff02::1:ff00:1".parse().expect("an address")
    ));
    assert!(listens_to(ours_v6(), "ff02::1".parse().expect("an address")));
    assert!(!listens_to(ours_v6(), "ff02::2".parse().expect("an address")));
}

proptest! {
    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), l3 in 0usize..30, l4 in 0usize..80) {
        let _ = arp(&mut bytes.clone(), l3, OURS, OUR_MAC);
        let _ = echo_v4(&mut bytes.clone(), l3, l4, OUR_MAC);
        let _ = echo_v6(&mut bytes.clone(), l3, l4, OUR_MAC);
        let _ = discovery(&mut VecBuf::new(&bytes), l3, l4, own_v6(true));
        let _ = discovery(&mut VecBuf::new(&bytes), l3, l4, own_v6(false));
    }

    #[test]
    fn damaged_questions_never_panic(at in 0usize..86, octet: u8, cut in 0usize..87) {
        let message = discovery_message(135, 0, ours_v6(), Some(1));
        let mut frame = icmpv6_frame(peer_v6(), ours_v6(), 255, &message);
        frame[at] = octet;
        frame.truncate(cut);
        let _ = discovery(&mut VecBuf::new(&frame), 14, 54, own_v6(true));
        let mut frame = arp_frame(1, [192, 0, 2, 9], OURS.octets());
        frame[at.min(41)] = octet;
        frame.truncate(cut);
        let _ = arp(&mut frame, 14, OURS, OUR_MAC);
    }
}
