//! An ICMP error that a NAT translates equals one that quotes the other packet, with all checksums computed anew.

mod common;

use packet::DropReason;
use packet::checksum::{self, Sum};
use packet::icmp_rewrite::{Endpoint, Outer, Quoted, is_intact, quoted, rewrite_error};
use packet::rewrite::Ends;
use packet::tuple::proto;
use proptest::prelude::*;

/// An IPv4 packet with an ICMP error: what its octets are made of.
#[derive(Clone, Debug)]
struct Message {
    source: [u8; 4],
    destination: [u8; 4],
    /// Options of its header, 4 octets each.
    options: usize,
    kind: u8,
    code: u8,
    rest: [u8; 4],
    about: Datagram,
    /// How much is quoted behind the quoted IPv4 header, at most.
    cut: usize,
    /// Extensions, behind a quote that is filled up to 128 octets (RFC 4884 §5).
    extensions: Option<Vec<u8>>,
}

/// The packet that the error is about.
#[derive(Clone, Debug)]
struct Datagram {
    ends: Ends,
    protocol: u8,
    options: usize,
    unsummed: bool,
    payload: Vec<u8>,
}

fn header(addresses: [[u8; 4]; 2], options: usize, protocol: u8, payload: usize) -> Vec<u8> {
    let len = 20 + 4 * options;
    let mut header = vec![0x40 | (len / 4) as u8, 0];
    header.extend(((len + payload) as u16).to_be_bytes());
    header.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
    header.extend(addresses.concat());
    header.extend([1, 1, 1, 0].repeat(options));
    let sum = checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

impl Datagram {
    fn transport(&self) -> Vec<u8> {
        let ends = &self.ends;
        let ports = [
            ends.source_port.to_be_bytes(),
            ends.destination_port.to_be_bytes(),
        ]
        .concat();
        let (mut octets, at) = match self.protocol {
            proto::TCP => ([&ports[..], &[1; 14], &[0, 0, 9, 9]].concat(), 16),
            // The identifier is both ports.
            proto::ICMP => ([&[8, 0, 0, 0], &ports[..2], &[0, 7]].concat(), 2),
            _ => ([&ports[..], &[0, 8, 0, 0]].concat(), 6),
        };
        octets.extend(&self.payload);
        let is_udp = matches!(self.protocol, proto::UDP | proto::UDP_LITE);
        if is_udp && self.unsummed || self.protocol == proto::SCTP {
            return octets;
        }
        let sum = match self.protocol {
            proto::ICMP => Sum::default(),
            protocol => {
                Sum::default().pseudo_v4(ends.source, ends.destination, protocol, octets.len() as u16)
            }
        };
        let sum = sum.bytes(&octets);
        let sum = if is_udp {
            sum.udp_checksum()
        } else {
            sum.checksum()
        };
        octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        octets
    }

    fn quote(&self, cut: usize) -> Vec<u8> {
        let transport = self.transport();
        let addresses = [self.ends.source, self.ends.destination];
        let header = header(addresses, self.options, self.protocol, transport.len());
        [&header, &transport[..cut.min(transport.len())]].concat()
    }
}

impl Message {
    fn octets(&self) -> Vec<u8> {
        let mut message = vec![self.kind, self.code, 0, 0];
        message.extend(self.rest);
        message.extend(self.about.quote(self.cut));
        if let Some(extensions) = &self.extensions {
            message.resize(message.len().max(136), 0);
            message[5] = (message.len() / 4) as u8;
            message.extend(extensions);
        }
        let sum = checksum::of(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let header = header(
            [self.source, self.destination],
            self.options,
            proto::ICMP,
            message.len(),
        );
        [header, message].concat()
    }

    /// What the message becomes, made anew.
    fn translated(&self, outer: Outer, embedded: Endpoint) -> Self {
        let mut after = self.clone();
        let ends = &mut after.about.ends;
        match outer {
            Outer::Destination(address) => {
                after.destination = address;
                (ends.source, ends.source_port) = (embedded.address, embedded.port);
            }
            Outer::Source(address) => {
                after.source = address;
                (ends.destination, ends.destination_port) = (embedded.address, embedded.port);
            }
        }
        if self.about.protocol == proto::ICMP {
            (ends.source_port, ends.destination_port) = (embedded.port, embedded.port);
        }
        after
    }
}

fn any_datagram() -> impl Strategy<Value = Datagram> {
    let protocols = vec![proto::TCP, proto::UDP, proto::UDP_LITE, proto::DCCP, proto::ICMP];
    (
        any::<[[u8; 4]; 2]>(),
        any::<[u16; 2]>(),
        prop::sample::select(protocols),
        0..=10usize,
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 0..80),
    )
        .prop_map(
            |(addresses, ports, protocol, options, unsummed, payload)| Datagram {
                ends: Ends {
                    source: addresses[0],
                    destination: addresses[1],
                    source_port: ports[0],
                    destination_port: ports[usize::from(protocol != proto::ICMP)],
                },
                protocol,
                options,
                unsummed,
                payload,
            },
        )
}

/// Errors that quote at least what RFC 792 asks for.
fn any_message() -> impl Strategy<Value = Message> {
    let extensions = prop::option::weighted(0.3, prop::collection::vec(any::<u8>(), 4..30));
    (
        any::<[[u8; 4]; 2]>(),
        0..=10usize,
        prop::sample::select(vec![3, 11, 12]),
        any::<(u8, [u8; 4])>(),
        any_datagram(),
        // Not within the checksum of TCP: the half that is quoted stays.
        (8..90usize).prop_filter("a checksum cut in two", |cut| *cut != 17),
        extensions,
    )
        .prop_map(
            |(addresses, options, kind, (code, rest), about, cut, extensions)| Message {
                source: addresses[0],
                destination: addresses[1],
                options,
                kind,
                code,
                rest,
                about,
                // RFC 4884 has extensions behind whole packets, or 128 octets of them.
                cut: extensions.as_ref().map_or(cut, |_| 200),
                extensions,
            },
        )
}

fn any_translation() -> impl Strategy<Value = (Outer, Endpoint)> {
    (any::<bool>(), any::<[[u8; 4]; 2]>(), any::<u16>()).prop_map(|(inwards, [outer, address], port)| {
        let outer = if inwards {
            Outer::Destination(outer)
        } else {
            Outer::Source(outer)
        };
        (outer, Endpoint { address, port })
    })
}

/// The translation that undoes any of the same way.
fn back(message: &Message, outer: Outer) -> (Outer, Endpoint) {
    let ends = &message.about.ends;
    match outer {
        Outer::Destination(_) => {
            let (address, port) = (ends.source, ends.source_port);
            (
                Outer::Destination(message.destination),
                Endpoint { address, port },
            )
        }
        Outer::Source(_) => {
            let (address, port) = (ends.destination, ends.destination_port);
            (Outer::Source(message.source), Endpoint { address, port })
        }
    }
}

proptest! {
    #![proptest_config(common::config(1000))]

    #[test]
    fn a_translated_error_equals_a_new_one_and_comes_back(
        message in any_message(), (outer, embedded) in any_translation(), behind in prop::collection::vec(any::<u8>(), 0..9)
    ) {
        let before = [&message.octets()[..], &behind].concat();
        let mut octets = before.clone();
        prop_assert!(is_intact(&octets));
        let read = Quoted { ends: message.about.ends, protocol: message.about.protocol };
        prop_assert_eq!(quoted(&octets), Some(read));
        prop_assert_eq!(rewrite_error(&mut octets, outer, embedded), Ok(()));
        let expected = [&message.translated(outer, embedded).octets()[..], &behind].concat();
        prop_assert_eq!(&octets, &expected);
        let (outer, embedded) = back(&message, outer);
        prop_assert_eq!(rewrite_error(&mut octets, outer, embedded), Ok(()));
        prop_assert_eq!(octets, before);
    }

    #[test]
    fn an_error_that_quotes_less_than_ports_stays(
        message in any_message(), (outer, embedded) in any_translation(), cut in 0..90usize
    ) {
        let len = 20 + 4 * message.options + 8 + 20 + 4 * message.about.options;
        let mut octets = message.octets();
        octets.truncate(cut.min(octets.len()));
        let before = octets.clone();
        let rewritten = rewrite_error(&mut octets, outer, embedded);
        prop_assert_eq!(quoted(&before).is_some(), cut >= len + 8);
        prop_assert_eq!(rewritten.is_ok(), cut >= len + 8);
        if rewritten.is_err() {
            prop_assert_eq!(octets, before);
        }
    }

    #[test]
    fn what_cannot_be_translated_stays_and_checksums_stay_right_or_wrong(
        octets in common::damaged(any_message().prop_map(|message| message.octets())), (outer, embedded) in any_translation()
    ) {
        let mut after = octets.clone();
        let rewritten = rewrite_error(&mut after, outer, embedded);
        if rewritten.is_ok() {
            prop_assert!(quoted(&octets).is_some());
            prop_assert_eq!(is_intact(&after), is_intact(&octets));
        } else {
            prop_assert_eq!(after, octets);
        }
    }

    #[test]
    fn no_octets_make_a_translation_panic(
        mut octets in prop::collection::vec(any::<u8>(), 0..120), (outer, embedded) in any_translation(), kind: u8
    ) {
        if octets.len() > 20 {
            (octets[0], octets[6], octets[7], octets[9], octets[20]) = (0x45, 0, 0, proto::ICMP, kind);
        }
        let read = quoted(&octets);
        let rewritten = rewrite_error(&mut octets, outer, embedded);
        prop_assert!(read.is_some() || rewritten.is_err());
    }
}

/// "Port unreachable" of 192.0.2.1 about what 198.51.100.1:2000 sent to its port 53.
fn port_unreachable(protocol: u8) -> Message {
    Message {
        source: [192, 0, 2, 1],
        destination: [198, 51, 100, 1],
        options: 0,
        kind: 3,
        code: 3,
        rest: [0; 4],
        about: Datagram {
            ends: Ends {
                source: [198, 51, 100, 1],
                destination: [192, 0, 2, 1],
                source_port: 2_000,
                destination_port: 53,
            },
            protocol,
            options: 0,
            unsummed: false,
            payload: vec![7; 4],
        },
        cut: 60,
        extensions: None,
    }
}

const INSIDE: [u8; 4] = [10, 45, 0, 2];
const MAPPED: Endpoint = Endpoint {
    address: INSIDE,
    port: 1_000,
};

/// The octets and checksums are those of another program, and tshark finds the checksums right.
#[test]
fn vectors_of_errors_in_both_directions() {
    let cases = [
        // "Port unreachable" from outside about a whole datagram of the UE.
        (
            Outer::Destination(INSIDE),
            MAPPED,
            "4500003c 43210000 3f014c6a c0000201 c6336401 0303e950 00000000 \
             45000020 12340000 40117c63 c6336401 c0000201 07d00035 000cfd8c 07070707",
            "4500003c 43210000 3f016c70 c0000201 0a2d0002 0303c94a 00000000 \
             45000020 12340000 40119c69 0a2d0002 c0000201 03e80035 000c217b 07070707",
        ),
        // "Reassembly time exceeded" from the UE about TCP, of which 8 octets are quoted.
        (
            Outer::Source([198, 51, 100, 1]),
            Endpoint {
                address: [198, 51, 100, 1],
                port: 2_000,
            },
            "45000038 43210000 3f016c74 0a2d0002 c0000201 0b00ef5b 00000000 \
             45000028 12340000 40069c6c c0000201 0a2d0002 01bb03e8 00000001",
            "45000038 43210000 3f014c6e c6336401 c0000201 0b00eb73 00000000 \
             45000028 12340000 40067c66 c0000201 c6336401 01bb07d0 00000001",
        ),
    ];
    for (outer, embedded, before, after) in cases {
        let mut octets = common::hex(before);
        assert!(is_intact(&octets));
        assert_eq!(rewrite_error(&mut octets, outer, embedded), Ok(()));
        assert_eq!(octets, common::hex(after));
    }
}

#[test]
fn types_and_quotes_that_are_not_translated_are_refused() {
    let refused = |message: &Message, change: &dyn Fn(&mut Vec<u8>)| {
        let mut octets = message.octets();
        change(&mut octets);
        let before = octets.clone();
        let reason = rewrite_error(&mut octets, Outer::Destination(INSIDE), MAPPED).unwrap_err();
        assert_eq!(octets, before);
        assert_eq!((quoted(&octets), is_intact(&octets)), (None, false));
        reason
    };
    let udp = port_unreachable(proto::UDP);
    let unsupported = DropReason::UnsupportedAction;
    for kind in [0, 4, 5, 8, 13] {
        assert_eq!(refused(&udp, &|octets| octets[20] = kind), unsupported);
    }
    // The error is of TCP, or a fragment behind the first.
    assert_eq!(refused(&udp, &|octets| octets[9] = proto::TCP), unsupported);
    assert_eq!(refused(&udp, &|octets| octets[7] = 1), unsupported);
    // What is quoted is a fragment behind the first, another error, or has no ports.
    assert_eq!(refused(&udp, &|octets| octets[28 + 7] = 1), unsupported);
    let echo = port_unreachable(proto::ICMP);
    assert_eq!(refused(&echo, &|octets| octets[28 + 20] = 11), unsupported);
    assert_eq!(refused(&udp, &|octets| octets[28 + 9] = proto::ESP), unsupported);
    // Headers that are none.
    assert_eq!(
        refused(&udp, &|octets| octets[0] = 0x44),
        DropReason::BadIpv4Header
    );
    assert_eq!(refused(&udp, &|octets| octets[3] = 19), DropReason::BadIpLength);
    assert_eq!(refused(&udp, &|octets| octets[28] = 0x65), DropReason::BadIcmp);
    // The quoted length leaves no room for ports.
    assert_eq!(
        refused(&udp, &|octets| octets[28 + 3] = 27),
        DropReason::TruncatedIcmp
    );
}

#[test]
fn the_port_of_quoted_sctp_stays_and_its_address_changes() {
    let message = port_unreachable(proto::SCTP);
    let mut octets = message.octets();
    let before = octets.clone();
    let refused = rewrite_error(&mut octets, Outer::Destination(INSIDE), MAPPED);
    assert_eq!((refused, &octets), (Err(DropReason::UnsupportedAction), &before));
    let same_port = Endpoint {
        port: 2_000,
        ..MAPPED
    };
    let outer = Outer::Destination(INSIDE);
    assert_eq!(rewrite_error(&mut octets, outer, same_port), Ok(()));
    assert_eq!(octets, message.translated(outer, same_port).octets());
}

/// The other UE of two behind one NAT reports an error: first its own address becomes public, then that of the UE that
/// the error is for becomes its inside one (RFC 5508 REQ-7).
#[test]
fn an_error_between_two_inside_addresses_is_translated_twice() {
    let other = [10, 45, 0, 3];
    let mut message = port_unreachable(proto::TCP);
    message.source = other;
    message.about.ends.destination = other;
    let mut octets = message.octets();
    let public = Endpoint {
        address: [198, 51, 100, 1],
        port: 3_000,
    };
    let outwards = Outer::Source(public.address);
    rewrite_error(&mut octets, outwards, public).expect("it is whole");
    rewrite_error(&mut octets, Outer::Destination(INSIDE), MAPPED).expect("it is whole");
    let expected = message
        .translated(outwards, public)
        .translated(Outer::Destination(INSIDE), MAPPED);
    assert_eq!(octets, expected.octets());
}
