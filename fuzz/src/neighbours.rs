//! Any ARP or Neighbour Discovery frame at our addresses, and its effect on the table of neighbours, with links that
//! come and go, neighbours that are wanted, and time. The input is a list of event (1 octet), an argument (1 octet)
//! and, of frames, octets behind the Ethernet header. Checksums of ICMPv6 are made right, so that they keep nothing
//! out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::{InstanceId, Nanos, PortId};
use packet::buf::PacketBuf;
use packet::tuple::proto;
use packet::{IpTuple, MacAddr, VecBuf, icmp};
use transport::replies::{self, NeighbourReport, OwnIpv6};
use transport::{Interface, NeighbourMessage, Neighbours, NeighboursConfig, OwnAddressState};

const LINK: InstanceId = InstanceId(1);
const PORT: PortId = PortId(0);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OURS4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const CAPACITY: usize = 32;
const ETHERNET: usize = 14;

fn table() -> Neighbours {
    let interface = Interface {
        instance: LINK,
        port: PORT,
        vlan: None,
        mac: MAC,
        ipv4: Some(OURS4),
        broadcast: Some(Ipv4Addr::new(192, 0, 2, 255)),
        ipv6: Some(OURS6),
        mtu: 1500,
        fragmentation: rules::network::Fragmentation::Inner,
        tunnels: false,
    };
    let config = NeighboursConfig {
        capacity: CAPACITY,
        ..NeighboursConfig::default()
    };
    Neighbours::new(config, vec![interface])
}

fn frame(octets: &[u8], ether_type: u16) -> Vec<u8> {
    [&MAC.0[..], &[2, 0, 0, 0, 0, 9], &ether_type.to_be_bytes(), octets].concat()
}

/// An answer goes to a station, from ours.
fn verify_answer(frame: &[u8]) {
    assert_eq!(frame[6..12], MAC.0);
    assert_eq!(frame[0] & 1, 0, "an answer to a group");
}

fn arp(octets: &[u8]) -> Option<NeighbourReport> {
    let mut frame = frame(octets, 0x0806);
    let outcome = replies::arp(&mut frame, ETHERNET, OURS4, MAC).ok()?;
    if outcome.is_reply {
        verify_answer(&frame);
    }
    outcome.report
}

fn discovery(octets: &[u8], is_usable: bool) -> Option<NeighbourReport> {
    let mut packet = octets.to_vec();
    let tuple = IpTuple::parse_v6(&packet, packet.len()).ok()?;
    if tuple.proto != proto::ICMPV6 {
        return None;
    }
    let l4 = usize::from(tuple.l4_offset);
    let whole = usize::from(tuple.total_len);
    icmp::fill_checksum(&tuple.addrs, packet.get_mut(l4..whole)?)?;
    let mut buf = VecBuf::new(&frame(&packet, 0x86dd));
    let own = OwnIpv6 {
        address: OURS6,
        mac: MAC,
        is_usable,
    };
    let outcome = replies::discovery(&mut buf, ETHERNET, ETHERNET + l4, own).ok()?;
    if outcome.is_reply {
        verify_answer(buf.data());
        let answer = &buf.data()[ETHERNET..];
        let tuple = IpTuple::parse_v6(answer, answer.len()).expect("a packet of ours");
        let message = &answer[usize::from(tuple.l4_offset)..usize::from(tuple.total_len)];
        icmp::Header::parse(&tuple.addrs, message).expect("its checksum");
    }
    outcome.report
}

fn is_usable(table: &Neighbours) -> bool {
    let mut own = table.own_addresses();
    own.any(|own| own.address == OURS6 && own.state == OwnAddressState::Preferred)
}

fn address(which: u8) -> IpAddr {
    match which & 1 {
        0 => Ipv4Addr::new(192, 0, 2, which).into(),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, which.into()).into(),
    }
}

/// See the module.
pub fn run(input: &[u8]) {
    let mut table = table();
    let mut now = Nanos(1);
    let mut rest = input;
    while let Some((&[event, argument], tail)) = rest.split_first_chunk::<2>() {
        rest = tail;
        let report = match event % 6 {
            kind @ (0 | 1) => {
                let (octets, tail) = rest.split_at(usize::from(argument).min(rest.len()));
                rest = tail;
                if kind == 0 {
                    arp(octets)
                } else {
                    discovery(octets, is_usable(&table))
                }
            }
            2 => {
                let _ = table.resolve(now, LINK, address(argument));
                None
            }
            3 => {
                let _ = table.refer(now, LINK, address(argument));
                None
            }
            4 => {
                table.set_link(now, PORT, argument & 1 == 1);
                None
            }
            _ => {
                now = Nanos(now.0 + u64::from(argument) * 100_000_000);
                None
            }
        };
        if let Some(NeighbourReport {
            address,
            mac,
            message,
        }) = report
        {
            let is_ours = address == IpAddr::from(OURS4) || address == IpAddr::from(OURS6);
            assert_eq!(
                is_ours,
                message == NeighbourMessage::Claim,
                "we are our own neighbour"
            );
            table.handle_message(now, LINK, address, mac, message);
        }
        table.handle_timeout(now);
        while let Some(frame) = table.poll_transmit() {
            assert!(frame.bytes.len() >= 60);
        }
        while table.poll_change().is_some() {}
        while table.poll_own_address().is_some() {}
        assert!(table.len() <= CAPACITY);
        assert!(table.poll_timeout().is_none_or(|due| due > now));
    }
}
