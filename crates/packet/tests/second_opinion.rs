//! What we read, read by others: etherparse for Ethernet to TCP, oxirush-gtp-u for GTP-U.

mod common;

use etherparse::{IpSlice, Ipv6ExtensionSlice, Ipv6Slice, NetSlice, SlicedPacket, TransportSlice};
use oxirush_gtp_u::{ExtensionHeader, Packet, PduSessionContainer as Theirs};
use packet::eth::L2;
use packet::gtpu::Message;
use packet::psc::PduSessionContainer;
use packet::{Addrs, Fragment, Frame, IpFrame, checksum, frame};
use proptest::prelude::*;

use common::{damaged, frame_around, g_pdu, good_frame, hex};

/// What etherparse reads of the IP headers, up to where our chain of IPv6 headers ends: it walks on through AH (which
/// ends ours, in IPv6 as in IPv4) and through what a fragment behind the first holds (RFC 8200 §4.5: not headers).
struct ChainEnd {
    proto: u8,
    offset: usize,
    fragmented: bool,
}

fn chain_end(theirs: &Ipv6Slice<'_>) -> ChainEnd {
    let mut end = ChainEnd {
        proto: theirs.header().next_header().0,
        offset: 40,
        fragmented: false,
    };
    for header in theirs.extensions().clone() {
        let (next, len) = match &header {
            Ipv6ExtensionSlice::Authentication(_) => break,
            Ipv6ExtensionSlice::Fragment(fragment) => (fragment.next_header(), 8),
            Ipv6ExtensionSlice::HopByHop(raw)
            | Ipv6ExtensionSlice::Routing(raw)
            | Ipv6ExtensionSlice::DestinationOptions(raw) => (raw.next_header(), raw.slice().len()),
        };
        end.proto = next.0;
        end.offset += len;
        if let Ipv6ExtensionSlice::Fragment(fragment) = &header {
            end.fragmented |= fragment.is_fragmenting_payload();
            if fragment.fragment_offset().value() != 0 {
                break;
            }
        }
    }
    end
}

fn compare_ip(ip: &IpFrame, theirs: &IpSlice<'_>) -> Result<(), TestCaseError> {
    let tuple = &ip.tuple;
    let is_fragment = tuple.fragment != Fragment::None;
    match (theirs, tuple.addrs) {
        (IpSlice::Ipv4(theirs), Addrs::V4 { src, dst }) => {
            let header = theirs.header();
            prop_assert_eq!((src, dst), (header.source(), header.destination()));
            prop_assert_eq!(tuple.tos, header.dcp().value() << 2 | header.ecn().value());
            prop_assert_eq!((tuple.ttl, tuple.total_len), (header.ttl(), header.total_len()));
            prop_assert_eq!(tuple.proto, header.protocol().0);
            prop_assert_eq!(usize::from(tuple.l4_offset), header.slice().len());
            prop_assert_eq!(is_fragment, header.is_fragmenting_payload());
        }
        (IpSlice::Ipv6(theirs), Addrs::V6 { src, dst }) => {
            let header = theirs.header();
            prop_assert_eq!((src, dst), (header.source(), header.destination()));
            prop_assert_eq!(
                (tuple.tos, tuple.ttl),
                (header.traffic_class(), header.hop_limit())
            );
            prop_assert_eq!(tuple.flow_label, header.flow_label().value());
            prop_assert_eq!(tuple.total_len, header.payload_length() + 40);
            let end = chain_end(theirs);
            prop_assert_eq!(tuple.proto, end.proto);
            prop_assert_eq!(usize::from(tuple.l4_offset), end.offset);
            prop_assert_eq!(is_fragment, end.fragmented);
        }
        (theirs, _) => return Err(TestCaseError::fail(format!("{theirs:?}"))),
    }
    Ok(())
}

/// `packet` starts with the IP header that `ip` was read from.
fn compare(ip: &IpFrame, packet: &[u8]) -> Result<(), TestCaseError> {
    let tuple = &ip.tuple;
    // Only the end refuses what is behind our chain.
    let chain_goes_on = tuple.proto == 51 || tuple.fragment == Fragment::Later;
    match IpSlice::from_slice(packet) {
        Ok(theirs) => compare_ip(ip, &theirs)?,
        Err(error) => prop_assert!(chain_goes_on, "{:?} {:?}", error, tuple),
    }
    let ours = (tuple.src_port, tuple.dst_port);
    match SlicedPacket::from_ip(packet).map(|theirs| theirs.transport) {
        _ if chain_goes_on => prop_assert_eq!(ours, (0, 0)),
        Ok(Some(TransportSlice::Udp(udp))) => {
            prop_assert_eq!(ours, (udp.source_port(), udp.destination_port()));
        }
        Ok(Some(TransportSlice::Tcp(tcp))) => {
            prop_assert_eq!(ours, (tcp.source_port(), tcp.destination_port()));
        }
        Ok(_) => {}
        // A router forwards what only the end refuses: lengths and offsets of ICMP, IGMP, TCP and UDP.
        Err(error) => prop_assert!(
            matches!(tuple.proto, 1 | 2 | 6 | 17 | 58),
            "{:?} {:?}",
            error,
            tuple
        ),
    }
    Ok(())
}

fn compare_frame(bytes: &[u8]) -> Result<(), TestCaseError> {
    let Ok(Frame::Ip(ip)) = frame::parse(bytes, bytes.len(), |_| false) else {
        return Ok(());
    };
    compare(&ip, &bytes[ip.ip_offset()..])
}

/// An IPv6 frame: the type of what is behind the fixed header, and the octets there.
fn ipv6_frame(next_header: u8, rest: &str) -> Vec<u8> {
    let rest = hex(rest);
    let fixed = [
        &[0x60, 0, 0, 0, 0, rest.len() as u8, next_header, 64][..],
        &[0x20; 32],
    ]
    .concat();
    frame_around(None, &[fixed, rest].concat())
}

/// What the property below has found.
#[test]
fn named_frames_are_read_the_same() {
    let short_igmp = ipv6_frame(60, "0200010400000000 16000000000000");
    let fragment_behind_ah = ipv6_frame(
        43,
        "3300000000000001 2c020000010203040000000900000000 11007f8000000000",
    );
    let later_fragment_of_hop_by_hop = ipv6_frame(44, "000000d100000001 0600000000000001");
    for (bytes, proto, fragment) in [
        // IGMP has eight octets: a host refuses seven, and a router forwards them.
        (short_igmp, 2, Fragment::None),
        // AH ends the chain. What is behind it is the end's to read.
        (fragment_behind_ah, 51, Fragment::None),
        // What a fragment behind the first holds is no chain of headers.
        (later_fragment_of_hop_by_hop, 0, Fragment::Later),
    ] {
        let Ok(Frame::Ip(ip)) = frame::parse(&bytes, bytes.len(), |_| false) else {
            panic!("a good chain");
        };
        let end = (ip.tuple.proto, ip.tuple.l4_offset, ip.tuple.fragment);
        assert_eq!(end, (proto, 48, fragment));
        compare_frame(&bytes).unwrap();
    }
}

proptest! {
    #![proptest_config(common::config(2000))]

    #[test]
    fn good_frames_are_read_as_etherparse_reads_them(bytes in good_frame()) {
        let theirs = SlicedPacket::from_ethernet(&bytes).expect("a good frame");
        let l2 = L2::parse(&bytes).expect("a good frame");
        let ids: Vec<u16> = theirs.vlan_ids().into_iter().map(u16::from).collect();
        let ours: Vec<u16> = l2.vlan.into_iter()
            .flat_map(|vlan| [Some(vlan.outer), vlan.inner]).flatten().map(|tci| tci.vid().get()).collect();
        prop_assert_eq!(ours, ids);
        let ip = IpFrame::parse(&bytes, bytes.len(), &l2).expect("a good frame");
        compare(&ip, &bytes[ip.ip_offset()..])?;
    }

    /// What we accept, etherparse accepts, and reads the same.
    #[test]
    fn damaged_frames_that_we_accept_are_read_the_same(bytes in damaged(good_frame())) {
        compare_frame(&bytes)?;
    }

    #[test]
    fn good_ipv4_checksums_are_etherparse_s(bytes in good_frame()) {
        let theirs = SlicedPacket::from_ethernet(&bytes).expect("a good frame");
        if let Some(NetSlice::Ipv4(ip)) = theirs.net {
            prop_assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
            prop_assert!(checksum::is_right(ip.header().slice()));
            if let Some(TransportSlice::Tcp(tcp)) = theirs.transport {
                let header = ip.header().to_header();
                prop_assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(header.source, header.destination).unwrap());
            }
        }
    }

    #[test]
    fn gtpu_is_read_as_oxirush_reads_it(bytes in prop_oneof![g_pdu(), damaged(g_pdu())]) {
        let start = if bytes.first().is_some_and(|first| first >> 4 == 6) { 48 } else { 28 };
        let Some(message) = bytes.get(start..) else { return Ok(()) };
        compare_gtpu(message)?;
    }

    /// Chains of extension headers with every flag, length and type.
    #[test]
    fn extension_chains_are_read_as_oxirush_reads_them(
        flags in 0x30..0x40u8, message_type in any::<u8>(), teid: [u8; 4], optional: [u8; 3],
        chain in prop::collection::vec(
            (prop::sample::select(vec![0x85u8, 0x85, 0x40, 0x20, 0x03, 0x81, 0xc0, 0x41, 0x91, 0xd0]), 1..4usize, any::<[u8; 14]>()), 0..4),
        payload in prop::collection::vec(any::<u8>(), 0..30), excess in -3..3i32,
    ) {
        let mut body = Vec::new();
        if flags & 7 != 0 {
            body.extend(optional);
            for (kind, units, content) in chain.iter().filter(|_| flags & 4 != 0) {
                body.push(*kind);
                body.push(*units as u8);
                body.extend(&content[..4 * units - 2]);
            }
            body.push(0);
        }
        body.extend(payload);
        let length = (body.len() as i32 + excess).max(0) as u16;
        let message = [&[flags, message_type][..], &length.to_be_bytes(), &teid, &body].concat();
        compare_gtpu(&message)?;
    }
}

fn compare_gtpu(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (ours, theirs) = match (Message::parse(bytes, bytes.len()), Packet::decode(bytes)) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        // They read the container of every message, and refuse octets behind the message.
        (Ok(ours), Err(_)) => {
            let refused = ours.payload_offset + ours.payload_len != bytes.len()
                || ours.extensions.iter().any(|header| {
                    header.kind.0 != 0x85 || PduSessionContainer::parse(header.content).is_err()
                });
            prop_assert!(refused, "{:02x?}", bytes);
            return Ok(());
        }
        (Err(reason), Ok(theirs)) => {
            return Err(TestCaseError::fail(format!("{reason:?} {theirs:?}")));
        }
        (Err(_), Err(_)) => return Ok(()),
    };
    prop_assert_eq!(ours.teid.0, theirs.teid);
    prop_assert_eq!(ours.message_type.0, theirs.message_type.0);
    prop_assert_eq!(ours.sequence, theirs.sequence);
    prop_assert_eq!(ours.payload(), &theirs.payload[..]);
    prop_assert_eq!(ours.extensions.iter().count(), theirs.extension_headers.len());
    for (ours, theirs) in ours.extensions.iter().zip(&theirs.extension_headers) {
        prop_assert_eq!(ours.kind.0, theirs.kind().0);
        if let ExtensionHeader::PduSessionContainer(theirs) = theirs {
            compare_containers(PduSessionContainer::parse(ours.content).ok(), theirs)?;
        }
    }
    Ok(())
}

fn compare_containers(ours: Option<PduSessionContainer>, theirs: &Theirs) -> Result<(), TestCaseError> {
    match (ours, theirs) {
        (Some(PduSessionContainer::Downlink(ours)), Theirs::Downlink(theirs)) => {
            prop_assert_eq!((ours.qfi.get(), ours.rqi), (theirs.qfi, theirs.rqi));
            prop_assert_eq!(ours.ppi.map(|ppi| ppi.get()), theirs.ppi);
            prop_assert_eq!(ours.sending_time.map(|time| time.0), theirs.dl_sending_time_stamp);
            prop_assert_eq!(ours.sequence, theirs.dl_qfi_sequence_number);
            prop_assert_eq!(ours.mbs_sequence, theirs.dl_mbs_qfi_sequence_number);
            prop_assert_eq!(ours.burst_size, theirs.burst_size);
            prop_assert_eq!(ours.time_to_next_burst, theirs.time_to_next_burst);
        }
        (Some(PduSessionContainer::Uplink(ours)), Theirs::Uplink(theirs)) => {
            prop_assert_eq!(ours.qfi.get(), theirs.qfi);
            let times = ours.times.map(|times| times.ul_sending.0);
            prop_assert_eq!(times, theirs.time_stamps.as_ref().map(|times| times.ul_sending));
            prop_assert_eq!(ours.dl_delay, theirs.dl_delay_result);
            prop_assert_eq!(ours.ul_delay, theirs.ul_delay_result);
            prop_assert_eq!(ours.sequence, theirs.ul_qfi_sequence_number);
            prop_assert_eq!(ours.n3_n9_delay, theirs.n3_n9_delay_result);
            prop_assert_eq!(ours.new.d1_ul_pdcp_delay, theirs.d1_ul_pdcp_delay_result_ind);
            prop_assert_eq!(ours.new.ul_congestion, theirs.ul_congestion_information);
            prop_assert_eq!(ours.new.dl_congestion, theirs.dl_congestion_information);
            prop_assert_eq!(ours.new.ul_available_bitrate, theirs.ul_available_bitrate);
            prop_assert_eq!(ours.new.dl_available_bitrate, theirs.dl_available_bitrate);
        }
        (None, Theirs::Other(_)) => {}
        (ours, theirs) => return Err(TestCaseError::fail(format!("{ours:?} {theirs:?}"))),
    }
    Ok(())
}
