//! Translated flows: a packet leaves as the interpreter says of the one that came, but for the end that a NAT gave it
//! and the checksums that follow from it.

use crate::common;

use flow::{FlowKey4, KeyFields, Nanos, Shape, VrfId};
use packet::frame::{self, Frame, GtpuFrame};
use packet::rewrite::{Ends, Rewrite};
use packet::tuple::proto;
use packet::{Addrs, Fragment, IpTuple, checksum};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rules::SessionRules;
use rules::classifier::{Key, Side, whole_key};
use rules::model::{ApplyAction, FarUpdate};
use rules::network::Network;
use rules::reference_interpreter::{Conditions, Metering, Outcome, Quotas, ReferenceMeters, interpret_with};
use rules::testing::{Sent, any_network, any_sent, runnable_rules};

use common::World;

/// The new address and port of the UE.
type Public = ([u8; 4], u16);

/// What is known of a packet that a NAT can translate.
struct User {
    side: Side,
    tuple: IpTuple,
    old: Ends,
}

/// `None` for packets whose flows cannot be translated.
fn user(sent: &Sent, network: &Network) -> Option<User> {
    let frame = common::frame(sent.ingress.0, &sent.bytes);
    let parsed = frame::parse(&frame, frame.len(), |_| true).ok()?;
    let (side, tuple) = match parsed {
        Frame::Gtpu(gtpu) => (tunnel(&gtpu, network)?, frame::parse_inner(&frame, &gtpu).ok()?),
        Frame::Ip(ip) => {
            let vrf = network
                .instance(sent.ingress)
                .map_or(VrfId(0), |instance| instance.vrf);
            (Side::Plain { vrf }, ip.tuple)
        }
        _ => return None,
    };
    let Addrs::V4 { src, dst } = tuple.addrs else {
        return None;
    };
    let old = Ends {
        source: src,
        destination: dst,
        source_port: tuple.src_port,
        destination_port: tuple.dst_port,
    };
    let is_whole = tuple.fragment == Fragment::None && tuple.proto != proto::SCTP;
    is_whole.then_some(User { side, tuple, old })
}

fn tunnel(gtpu: &GtpuFrame, network: &Network) -> Option<Side> {
    let (_, local) = network.local(gtpu.outer.addrs.dst())?;
    let (teid, qfi) = (gtpu.teid, gtpu.qfi);
    Some(Side::Tunnel { local, teid, qfi })
}

impl User {
    /// The end of the UE gets the public address: the source of what it sends.
    fn new_ends(&self, (address, port): Public) -> Ends {
        match self.side {
            Side::Tunnel { .. } => Ends {
                source: address,
                source_port: port,
                ..self.old
            },
            Side::Plain { .. } => Ends {
                destination: address,
                destination_port: port,
                ..self.old
            },
        }
    }

    /// The key of its flow entry with these fields.
    fn key(&self, fields: u8) -> Option<FlowKey4> {
        let Key::V4(mut key) = whole_key(self.side, &self.tuple) else {
            return None;
        };
        key.fields = KeyFields::from_bits(fields);
        Some(Shape::new(key.fields, key.scope.is_tunnel()).cut(&key))
    }

    /// Translates its flow, whichever fields its entry has beside the 5-tuple. False when it has no entry.
    fn translate(&self, world: &mut World, public: Public, now: Nanos) -> bool {
        let rewrite = Rewrite::new(&self.old, &self.new_ends(public));
        let tuple = KeyFields::TUPLE.bits();
        (0..=0x3f).filter(|fields| fields & tuple != 0).any(|fields| {
            self.key(fields)
                .is_some_and(|key| world.workers[0].translate(&key, key, &rewrite, now))
        })
    }

    /// Whether `sent` is `expected` but for the new ends, with checksums as right or wrong as they were.
    fn assert_translated(&self, sent: &[u8], expected: &[u8], public: Public) {
        let ends = self.new_ends(public);
        let length = expected.len();
        let start = length - usize::from(self.tuple.total_len);
        let mut head = expected[..start].to_vec();
        if expected[0] >> 4 == 6 {
            // The checksum of the outer UDP header covers the user packet.
            head[46..48].copy_from_slice(&sent[46..48]);
            let pseudo = sum(&sent[8..40]) + u64::from(proto::UDP) + (length - 40) as u64;
            assert_eq!((pseudo + sum(&sent[40..])) % 0xffff, 0);
        }
        assert_eq!((sent.len(), &sent[..start]), (length, &head[..]));
        let (sent, before) = (&sent[start..], &expected[start..]);
        assert!(checksum::is_right(&sent[..20]));
        let mut after = before.to_vec();
        after[10..12].copy_from_slice(&sent[10..12]);
        after[12..16].copy_from_slice(&ends.source);
        after[16..20].copy_from_slice(&ends.destination);
        let sum_at = match self.tuple.proto {
            proto::TCP => Some(36),
            proto::UDP => Some(26),
            _ => None,
        };
        if let Some(at) = sum_at {
            after[20..22].copy_from_slice(&ends.source_port.to_be_bytes());
            after[22..24].copy_from_slice(&ends.destination_port.to_be_bytes());
            after[at..at + 2].copy_from_slice(&sent[at..at + 2]);
            let had_none = self.tuple.proto == proto::UDP && before[at..at + 2] == [0; 2];
            if had_none {
                assert_eq!(sent[at..at + 2], [0; 2]);
            } else {
                assert_eq!(residue(sent), residue(before));
            }
        } else if self.tuple.proto == proto::ICMP && matches!(before[20], 0 | 8) {
            let id = if ends.source_port == self.old.source_port && ends.source == self.old.source {
                ends.destination_port
            } else {
                ends.source_port
            };
            after[24..26].copy_from_slice(&id.to_be_bytes());
            after[22..24].copy_from_slice(&sent[22..24]);
            assert_eq!(sum(&sent[20..]) % 0xffff, sum(&before[20..]) % 0xffff);
        }
        assert_eq!(sent, after);
    }
}

/// By how much the checksum of a TCP or UDP packet is wrong.
fn residue(packet: &[u8]) -> u64 {
    (sum(&packet[12..20]) + sum(&packet[20..])) % 0xffff
}

/// The sum of 16-bit words, without the carry around.
fn sum(octets: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    octets.chunks(2).map(word).sum()
}

/// What leaves is to be the packets alone.
fn without_duplicates(mut rules: SessionRules) -> SessionRules {
    for far in rules.fars().to_vec() {
        let action = Some(ApplyAction(far.action.0 & !ApplyAction::DUPL.0));
        let update = FarUpdate {
            action,
            ..FarUpdate::new(far.id)
        };
        rules.update_far(update).expect("it is there");
    }
    rules
}

/// Sends each packet, translates its flow, and sends it again. How many flows were translated.
fn run(rules: SessionRules, network: Network, packets: &[Sent], public: Public) -> usize {
    let mut world = World::with(network, 1, |config| {
        (config.error_indications, config.notifications) = (0, 0);
        (config.force_five_tuple, config.max_extensions) = (true, 64);
    });
    let rules = std::sync::Arc::new(without_duplicates(rules));
    let Ok(image) = world.image(3, &rules, None) else {
        return 0;
    };
    let installed = world.apply(0, rules::image::SessionChange::Install(image));
    installed.expect("there is room");
    let (mut meters, mut translated) = (ReferenceMeters::default(), 0);
    for sent in packets {
        let Some(user) = user(sent, &world.network) else {
            continue;
        };
        let mut send = |world: &mut World| {
            let taken = world.next_poll();
            let out = world.send(sent.ingress.0, &sent.bytes);
            let conditions = Conditions {
                metering: Metering::Meters(&mut meters, taken),
                quotas: Quotas::default(),
                detection: rules::Detection::Undetected,
                is_solicited: false,
            };
            let network = &world.network;
            let verdict = interpret_with(&rules, network, sent.ingress, &sent.bytes, conditions);
            match (verdict.outcome, out.into_iter().next()) {
                (Outcome::Forwarded { bytes, .. }, Some((_, frame))) => Some((frame[14..].to_vec(), bytes)),
                _ => None,
            }
        };
        if send(&mut world).is_none() || !user.translate(&mut world, public, Nanos::from_secs(1)) {
            continue;
        }
        let has_route = matches!(user.side, Side::Tunnel { .. });
        match send(&mut world) {
            Some((sent, expected)) => {
                user.assert_translated(&sent, &expected, public);
                translated += 1;
            }
            // From a data network to another one, a new destination may have no next hop.
            None => assert!(
                !has_route || world.workers[0].stats().drops[packet::DropReason::MeterRed.index()] > 0
            ),
        }
    }
    assert!(world.workers[0].translated_flows() <= 64);
    world.assert_conserved();
    translated
}

fn any_public() -> impl Strategy<Value = Public> {
    (any::<[u8; 4]>(), any::<u16>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_nat_changes_the_ends_and_nothing_else(
        rules in runnable_rules(),
        network in any_network(),
        packets in vec(any_sent(), 20),
        public in any_public(),
    ) {
        run(rules, network, &packets, public);
    }
}

/// What the random worlds are worth.
#[test]
fn random_worlds_translate() {
    let mut runner = TestRunner::deterministic();
    let mut translated = 0;
    for _ in 0..400 {
        let drawn = (runnable_rules(), any_network(), vec(any_sent(), 60), any_public());
        let drawn = drawn
            .new_tree(&mut runner)
            .expect("they are drawn without conditions");
        let (rules, network, packets, public) = drawn.current();
        translated += run(rules, network, &packets, public);
    }
    assert!(translated > 100, "{translated}");
}
