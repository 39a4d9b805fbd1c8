//! What is updated incrementally equals what is computed anew.

mod common;

use packet::checksum::{self, Sum};
use packet::rewrite::{Ends, Rewrite};
use packet::tuple::proto;
use packet::{DropReason, ipv4, ipv6};
use proptest::prelude::*;

/// A whole datagram before it is sent: what its octets are made of.
#[derive(Clone, Debug)]
struct Datagram {
    ends: Ends,
    protocol: u8,
    tos: u8,
    /// IPv4 options, 4 octets each.
    options: Vec<[u8; 4]>,
    /// Of UDP: without checksum.
    unsummed: bool,
    payload: Vec<u8>,
}

impl Datagram {
    /// All octets, with every sum computed over all that it covers.
    fn octets(&self) -> Vec<u8> {
        let header = self.header(self.transport().len(), 0);
        [header, self.transport()].concat()
    }

    /// The first `units` times 8 octets of the payload as one fragment, and the rest as another.
    fn fragments(&self, units: u16) -> [Vec<u8>; 2] {
        let transport = self.transport();
        let cut = usize::from(units) * 8;
        let (first, later) = transport.split_at(cut);
        [
            [&self.header(first.len(), ipv4::MORE_FRAGMENTS), first].concat(),
            [&self.header(later.len(), units), later].concat(),
        ]
    }

    fn header(&self, payload: usize, fragment: u16) -> Vec<u8> {
        let len = 20 + 4 * self.options.len();
        let mut header = vec![0x40 | (len / 4) as u8, self.tos];
        header.extend(((len + payload) as u16).to_be_bytes());
        header.extend([0x12, 0x34]);
        header.extend(fragment.to_be_bytes());
        header.extend([64, self.protocol, 0, 0]);
        header.extend(self.ends.source);
        header.extend(self.ends.destination);
        header.extend(self.options.concat());
        let sum = checksum::of(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    fn transport(&self) -> Vec<u8> {
        let ends = &self.ends;
        let ports = [
            ends.source_port.to_be_bytes(),
            ends.destination_port.to_be_bytes(),
        ]
        .concat();
        let (mut octets, at) = match self.protocol {
            proto::TCP => ([&ports[..], &[1; 14], &[0, 0, 9, 9]].concat(), 16),
            proto::UDP | proto::DCCP => ([&ports[..], &[0, 8, 0, 0]].concat(), 6),
            // The identifier is the source port here.
            proto::ICMP => ([&[8, 0, 0, 0], &ports[..2], &[0, 7]].concat(), 2),
            _ => ([&ports[..], &[0; 8]].concat(), 0),
        };
        octets.extend(&self.payload);
        if at == 0 || self.protocol == proto::UDP && self.unsummed {
            return octets;
        }
        octets[at..at + 2].fill(0);
        let len = octets.len() as u16;
        let sum = match self.protocol {
            proto::ICMP => Sum::default(),
            protocol => Sum::default().pseudo_v4(ends.source, ends.destination, protocol, len),
        };
        let sum = sum.bytes(&octets);
        let sum = if self.protocol == proto::UDP {
            sum.udp_checksum()
        } else {
            sum.checksum()
        };
        octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        octets
    }
}

fn any_ends() -> impl Strategy<Value = Ends> {
    (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<u16>()).prop_map(
        |(source, destination, source_port, destination_port)| Ends {
            source,
            destination,
            source_port,
            destination_port,
        },
    )
}

fn any_datagram() -> impl Strategy<Value = Datagram> {
    let protocols = vec![proto::TCP, proto::UDP, proto::DCCP, proto::ICMP, proto::ESP];
    let options = prop::collection::vec(any::<[u8; 4]>(), 0..=10);
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    (
        any_ends(),
        prop::sample::select(protocols),
        any::<u8>(),
        options,
        any::<bool>(),
        payload,
    )
        .prop_map(|(ends, protocol, tos, options, unsummed, payload)| Datagram {
            ends,
            protocol,
            tos,
            options,
            unsummed,
            payload,
        })
}

/// What the ends become: any of the four fields may stay.
fn rewritten(datagram: &Datagram, new: Ends, change: [bool; 4]) -> (Rewrite, Datagram) {
    let old = datagram.ends;
    let [source, destination, source_port, destination_port] = change;
    let mut to = Ends {
        source: if source { new.source } else { old.source },
        destination: if destination {
            new.destination
        } else {
            old.destination
        },
        source_port: if source_port {
            new.source_port
        } else {
            old.source_port
        },
        destination_port: if destination_port {
            new.destination_port
        } else {
            old.destination_port
        },
    };
    if datagram.protocol == proto::ICMP {
        // One identifier.
        to.destination_port = old.destination_port;
    }
    let mut after = datagram.clone();
    after.ends = to;
    if datagram.protocol == proto::ESP {
        // Ports that no service uses.
        (after.ends.source_port, after.ends.destination_port) = (old.source_port, old.destination_port);
    }
    (Rewrite::new(&old, &to), after)
}

proptest! {
    #![proptest_config(common::config(1000))]

    #[test]
    fn a_rewrite_equals_a_new_packet(datagram in any_datagram(), new in any_ends(), change: [bool; 4]) {
        let (rewrite, after) = rewritten(&datagram, new, change);
        let mut octets = datagram.octets();
        prop_assert_eq!(rewrite.apply(&mut octets), Ok(()));
        prop_assert_eq!(octets, after.octets());
    }

    #[test]
    fn rewritten_fragments_are_those_of_a_new_packet(
        datagram in any_datagram(), new in any_ends(), change: [bool; 4], units in 3..5u16
    ) {
        prop_assume!(datagram.transport().len() > usize::from(units) * 8);
        let (rewrite, after) = rewritten(&datagram, new, change);
        for (mut fragment, expected) in datagram.fragments(units).into_iter().zip(after.fragments(units)) {
            prop_assert_eq!(rewrite.apply(&mut fragment), Ok(()));
            prop_assert_eq!(fragment, expected);
        }
    }

    #[test]
    fn a_packet_that_cannot_be_rewritten_stays(datagram in any_datagram(), new in any_ends(), cut in 0..70usize) {
        let (rewrite, _) = rewritten(&datagram, new, [true; 4]);
        let mut octets = datagram.octets();
        octets.truncate(cut);
        let before = octets.clone();
        if rewrite.apply(&mut octets).is_err() {
            prop_assert_eq!(octets, before);
        }
    }

    #[test]
    fn no_octets_make_a_rewrite_panic(mut octets in prop::collection::vec(any::<u8>(), 0..80), new in any_ends()) {
        let _ = Rewrite::new(&Ends::default(), &new).apply(&mut octets);
    }

    #[test]
    fn a_marked_packet_equals_a_new_one(datagram in any_datagram(), dscp in 0..64u8, class: u8, label in 0..0x10_0000u32) {
        let mut octets = datagram.octets();
        prop_assert_eq!(ipv4::set_dscp(&mut octets, dscp), Ok(()));
        let tos = dscp << 2 | datagram.tos & 3;
        let after = Datagram { tos, ..datagram };
        prop_assert_eq!(octets, after.octets());
        let header = |traffic_class| {
            let (src, dst) = ([1; 16].into(), [2; 16].into());
            let fields = ipv6::Fields { src, dst, next_header: 17, hop_limit: 64, traffic_class, flow_label: label };
            zerocopy::IntoBytes::as_bytes(&fields.header(0).unwrap()).to_vec()
        };
        let mut marked = header(class);
        prop_assert_eq!(ipv6::set_dscp(&mut marked, dscp), Ok(()));
        prop_assert_eq!(marked, header(dscp << 2 | class & 3));
    }
}

const ENDS: Ends = Ends {
    source: [10, 45, 0, 2],
    destination: [192, 0, 2, 1],
    source_port: 1000,
    destination_port: 53,
};

fn datagram(protocol: u8) -> Datagram {
    Datagram {
        ends: ENDS,
        protocol,
        tos: 0,
        options: Vec::new(),
        unsummed: false,
        payload: vec![7; 9],
    }
}

#[test]
fn the_ports_of_sctp_stay_and_its_addresses_change() {
    let before = datagram(proto::SCTP).octets();
    let mut octets = before.clone();
    let other_port = Ends {
        source_port: 9,
        ..ENDS
    };
    let refused = Rewrite::new(&ENDS, &other_port).apply(&mut octets);
    assert_eq!((refused, &octets), (Err(DropReason::UnsupportedAction), &before));
    let other_address = Ends {
        source: [198, 51, 100, 1],
        ..ENDS
    };
    assert_eq!(Rewrite::new(&ENDS, &other_address).apply(&mut octets), Ok(()));
    assert_eq!(
        (octets[12..16].to_vec(), &octets[20..]),
        (vec![198, 51, 100, 1], &before[20..])
    );
    assert!(checksum::is_right(&octets[..20]));
}

#[test]
fn a_first_fragment_without_its_checksum_is_refused() {
    let mut octets = datagram(proto::TCP).octets();
    octets.truncate(28);
    let other = Ends {
        source: [198, 51, 100, 1],
        ..ENDS
    };
    assert_eq!(
        Rewrite::new(&ENDS, &other).apply(&mut octets),
        Err(DropReason::TruncatedTransport)
    );
}

#[test]
fn an_echo_reply_gets_its_identifier_back_and_an_error_keeps_what_it_quotes() {
    let mut octets = datagram(proto::ICMP).octets();
    octets[20] = 0;
    let sum = {
        octets[22..24].fill(0);
        checksum::of(&octets[20..])
    };
    octets[22..24].copy_from_slice(&sum.to_be_bytes());
    let back = Ends {
        destination: [10, 45, 0, 3],
        destination_port: 77,
        ..ENDS
    };
    Rewrite::new(&ENDS, &back)
        .apply(&mut octets)
        .expect("it is whole");
    assert_eq!(
        (&octets[16..20], &octets[24..26]),
        (&[10, 45, 0, 3][..], &[0, 77][..])
    );
    assert!(checksum::is_right(&octets[20..]));
    octets[20] = 3;
    let quoted = octets[20..].to_vec();
    Rewrite::new(&ENDS, &back)
        .apply(&mut octets)
        .expect("it is whole");
    assert_eq!(octets[20..], quoted);
}
