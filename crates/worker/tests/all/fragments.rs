//! Fragments of user packets, against a reference that reassembles: what becomes of each is what the interpreter says
//! of the whole datagram.

use crate::common;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use flow::{PortId, SessionIndex, WorkerId};
use packet::tuple::proto;
use packet::{DropReason, Teid, checksum};
use proptest::prelude::*;
use rules::SessionRules;
use rules::model::{Far, OuterHeaderCreation, Pdi, QerId, SdfFilter, SourceInterface, Urr, UrrId};
use rules::reference_interpreter::{Outcome, Verdict, interpret};
use rules::testing::{
    self, GNB, N3, N3_ADDRESS, N6, UE, UE_V6, UserPacket, f_teid, pdr, pdu_session, tunnelled, ue_ip,
};
use worker::mem::MemBuf;
use worker::{FragmentLimits, WorkerConfig};

use common::one_session::REMOTE;
use common::{World, frame, mac_of};

const TEID: u32 = 0x1001;

/// A session whose packets to and from port 53 count elsewhere, and whose packets to and from port 80 are dropped.
fn rules() -> SessionRules {
    let mut rules = pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
    rules.create_urr(Urr::volume(UrrId(2))).expect("it is new");
    let drop = Far {
        action: rules::model::ApplyAction::DROP,
        ..testing::forward(
            9,
            rules::model::ForwardingParameters::new(rules::model::DestinationInterface::Core),
        )
    };
    rules.create_far(drop).expect("it is new");
    let filter = |text: &str| SdfFilter {
        flow_description: Some(text.parse().expect("a description")),
        ..SdfFilter::default()
    };
    for (id, interface, port, far) in [
        (11, SourceInterface::Access, 53, 1),
        (12, SourceInterface::Core, 53, 2),
        (13, SourceInterface::Access, 80, 9),
        (14, SourceInterface::Core, 80, 9),
    ] {
        let mut pdi = Pdi::new(interface);
        pdi.sdf_filters = [filter(&format!("permit out 17 from any {port} to assigned"))].into();
        match interface {
            SourceInterface::Access => pdi.f_teid = Some(f_teid(TEID)),
            _ => pdi.ue_ip = vec![ue_ip()].into(),
        }
        let mut pdr = pdr(id, 10 + u32::from(id), pdi, far);
        (pdr.qers, pdr.urrs) = (vec![QerId(1)].into(), vec![UrrId(2)].into());
        rules.create_pdr(pdr).expect("it is new");
    }
    rules
}

fn world(limits: FragmentLimits, configure: impl Fn(&mut WorkerConfig)) -> World {
    let mut world = World::with(testing::network(), 1, |config| {
        config.fragments = limits;
        configure(config);
    });
    world.install(1, rules());
    world
}

/// A datagram of a UE, or to it.
#[derive(Clone, Debug)]
struct Datagram {
    user: UserPacket,
    is_uplink: bool,
    id: u32,
    /// Octets of each fragment but the last, in units of 8.
    cut: u16,
}

impl Datagram {
    fn new(is_uplink: bool, is_v4: bool, port: u16, id: u32) -> Self {
        let (ue, remote): (IpAddr, IpAddr) = if is_v4 {
            (UE.into(), REMOTE.into())
        } else {
            (UE_V6.into(), "2001:db8:ffff::1".parse().expect("an address"))
        };
        let mut user = if is_uplink {
            UserPacket::udp(ue, remote, 2000, port)
        } else {
            UserPacket::udp(remote, ue, port, 2000)
        };
        user.payload = (0..100).collect();
        Self {
            user,
            is_uplink,
            id,
            cut: 4,
        }
    }

    /// Its fragments, as they come in by [`port`](Self::port), and the octets of each user packet and its payload.
    fn fragments(&self) -> Vec<(Vec<u8>, usize, Vec<u8>)> {
        let whole = self.user.bytes();
        let head = if whole[0] >> 4 == 4 { 20 } else { 40 };
        let (header, body) = whole.split_at(head);
        let parts: Vec<&[u8]> = body.chunks(usize::from(self.cut) * 8).collect();
        let count = parts.len();
        let part = |(number, part): (usize, &&[u8])| {
            let offset = number as u16 * self.cut;
            let packet = self.fragment(header, part, offset, number + 1 < count);
            (self.arriving(&packet), packet.len(), part.to_vec())
        };
        parts.iter().enumerate().map(part).collect()
    }

    fn fragment(&self, header: &[u8], part: &[u8], offset: u16, more: bool) -> Vec<u8> {
        let mut packet = header.to_vec();
        if header.len() == 20 {
            packet[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            packet[4..6].copy_from_slice(&(self.id as u16).to_be_bytes());
            packet[6..8].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
            packet[10..12].fill(0);
            let sum = checksum::of(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
            let next = std::mem::replace(&mut packet[6], 44);
            packet.extend([next, 0]);
            packet.extend((offset << 3 | u16::from(more)).to_be_bytes());
            packet.extend(self.id.to_be_bytes());
        }
        packet.extend(part);
        packet
    }

    /// A user packet as it reaches us, from the outermost IP header on.
    fn arriving(&self, user: &[u8]) -> Vec<u8> {
        if self.is_uplink {
            tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], user)
        } else {
            user.to_vec()
        }
    }

    fn port(&self) -> u16 {
        if self.is_uplink { N3.0 } else { N6.0 }
    }

    /// What the interpreter says of the datagram in one piece.
    fn verdict(&self, world: &World) -> Verdict {
        let ingress = if self.is_uplink { N3 } else { N6 };
        interpret(
            &rules(),
            &world.network,
            ingress,
            &self.arriving(&self.user.bytes()),
        )
    }
}

fn push(world: &mut World, port: u16, packet: &[u8]) {
    let queue = world.wires.to(WorkerId(0), PortId(port));
    queue
        .push(MemBuf::new(&frame(port, packet)))
        .expect("there is room on the wire");
}

/// Sends one packet; the payloads that leave.
fn send(world: &mut World, port: u16, packet: &[u8]) -> usize {
    push(world, port, packet);
    world.poll();
    world.take().len()
}

fn held(world: &World) -> u64 {
    world.workers[0].stats().held
}

fn dropped(world: &World, reason: DropReason) -> u64 {
    world.workers[0].stats().dropped(reason)
}

#[test]
fn fragments_follow_the_first_one_in_either_order() {
    for is_v4 in [true, false] {
        for is_uplink in [true, false] {
            let mut world = world(FragmentLimits::default(), |_| {});
            let datagram = Datagram::new(is_uplink, is_v4, 53, 7);
            let fragments = datagram.fragments();
            let port = datagram.port();
            assert_eq!(fragments.len(), 4);
            // The second and the last come first, and wait.
            assert_eq!(send(&mut world, port, &fragments[1].0), 0);
            assert_eq!(send(&mut world, port, &fragments[3].0), 0);
            assert_eq!(held(&world), 2);
            world.assert_conserved();
            assert_eq!(send(&mut world, port, &fragments[0].0), 3);
            assert_eq!(send(&mut world, port, &fragments[2].0), 1);
            assert_eq!(held(&world), 0);
            let counters = world.query(0, SessionIndex(1)).counters;
            let octets: usize = fragments.iter().map(|(_, octets, _)| octets).sum();
            let counted = (
                counters[1].1.ul_packets + counters[1].1.dl_packets,
                counters[1].1.ul_octets + counters[1].1.dl_octets,
            );
            assert_eq!(counted, (4, octets as u64));
            assert_eq!(world.workers[0].flows(), 1, "one flow, whatever its fragments");
            world.assert_conserved();
        }
    }
}

#[test]
fn fragments_pass_by_themselves_where_rules_read_no_ports() {
    let mut world = World::with(testing::network(), 1, |config| {
        config.fragments = FragmentLimits::default()
    });
    world.install(
        1,
        pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB)),
    );
    let fragments = Datagram::new(true, true, 53, 7).fragments();
    for (packet, ..) in fragments[1..].iter().chain(&fragments[..1]) {
        assert_eq!(send(&mut world, N3.0, packet), 1);
    }
    assert_eq!((world.workers[0].flows(), world.workers[0].stats().hits), (1, 3));
}

#[test]
fn a_fragment_without_its_first_one_waits_for_its_time_and_no_longer() {
    let mut world = world(FragmentLimits::default(), |_| {});
    let datagram = Datagram::new(true, true, 80, 7);
    let fragments = datagram.fragments();
    send(&mut world, N3.0, &fragments[1].0);
    for _ in 0..200 {
        world.poll();
    }
    assert_eq!(held(&world), 1);
    world.now = world.now + Duration::from_secs(5);
    for _ in 0..200 {
        world.poll();
    }
    assert_eq!(
        (held(&world), dropped(&world, DropReason::FragmentTimeout)),
        (0, 1)
    );
    // Its first one comes too late for it, but not for the next.
    send(&mut world, N3.0, &fragments[0].0);
    send(&mut world, N3.0, &fragments[1].0);
    assert_eq!(dropped(&world, DropReason::FarDrop), 2);
    world.now = world.now + Duration::from_secs(6);
    send(&mut world, N3.0, &fragments[2].0);
    assert_eq!(held(&world), 1, "what was known is forgotten");
    world.assert_conserved();
}

#[test]
fn another_tunnels_fragments_are_another_matter() {
    let mut world = world(FragmentLimits::default(), |_| {});
    let fragments = Datagram::new(true, true, 80, 7).fragments();
    // The same datagram from elsewhere, in a tunnel that is not there.
    let alien = {
        let mut packet = fragments[0].0.clone();
        packet[20 + 8 + 4..][..4].copy_from_slice(&0x9999u32.to_be_bytes());
        packet
    };
    send(&mut world, N3.0, &alien);
    send(&mut world, N3.0, &fragments[1].0);
    assert_eq!((dropped(&world, DropReason::UnknownTeid), held(&world)), (1, 1));
}

#[test]
fn first_packets_of_port_0_say_nothing_about_fragments() {
    let mut world = world(FragmentLimits::default(), |config| config.force_five_tuple = true);
    let mut zero = UserPacket::udp(UE, REMOTE, 0, 0);
    zero.proto = proto::UDP;
    let plain = tunnelled(N3_ADDRESS, TEID, 255, None, &[], &zero.bytes());
    assert_eq!(send(&mut world, N3.0, &plain), 1);
    let fragments = Datagram::new(true, true, 53, 7).fragments();
    assert_eq!(send(&mut world, N3.0, &fragments[1].0), 0);
    assert_eq!(held(&world), 1);
}

fn any_datagram() -> impl Strategy<Value = (bool, bool, u16, u16)> {
    let port = prop::sample::select(vec![53u16, 80, 1500]);
    (any::<bool>(), any::<bool>(), port, 1..10u16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// In whatever order and bursts fragments come, each meets the fate of its datagram.
    #[test]
    fn every_fragment_meets_the_fate_of_its_datagram(
        datagrams in prop::collection::vec(any_datagram(), 1..12),
        order in any::<u64>(),
        burst in 1..40usize,
        force_five_tuple: bool,
    ) {
        let mut world = world(FragmentLimits::default(), |config| config.force_five_tuple = force_five_tuple);
        let mut packets = Vec::new();
        let mut expected: BTreeMap<(u16, Vec<u8>), usize> = BTreeMap::new();
        let (mut drops, mut urrs) = (0, [0, 0]);
        for (number, &(is_uplink, is_v4, port, cut)) in datagrams.iter().enumerate() {
            let mut datagram = Datagram::new(is_uplink, is_v4, port, number as u32);
            datagram.cut = cut;
            // Payloads distinguish datagrams.
            datagram.user.payload[0] = number as u8;
            let verdict = datagram.verdict(&world);
            for (packet, octets, payload) in datagram.fragments() {
                packets.push((datagram.port(), packet));
                match &verdict.outcome {
                    Outcome::Forwarded { egress, next_hop, .. } => {
                        let start = [&mac_of(*egress, *next_hop).0[..], &payload].concat();
                        *expected.entry((egress.0, start)).or_default() += 1;
                    }
                    Outcome::Dropped(reason) => {
                        prop_assert_eq!(*reason, DropReason::FarDrop);
                        drops += 1;
                    }
                    Outcome::Recirculated { .. } => prop_assert!(false, "no rule sends to ourselves"),
                    Outcome::Consumed => prop_assert!(false, "nothing is reported"),
                }
                for counted in &verdict.counted {
                    urrs[usize::from(counted.urr == UrrId(2))] += octets as u64;
                }
            }
        }
        let mut random = order | 1;
        packets.sort_by_cached_key(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        });
        let mut out = Vec::new();
        for packets in packets.chunks(burst) {
            packets.iter().for_each(|(port, packet)| push(&mut world, *port, packet));
            world.poll();
            out.extend(world.take());
            world.assert_conserved();
        }
        prop_assert_eq!(held(&world), 0);
        prop_assert_eq!(dropped(&world, DropReason::FarDrop), drops);
        for (port, frame) in out {
            // One payload may be another's end: the longest is meant.
            let matches = expected.iter_mut().filter(|((egress, start), left)| {
                let is_whole = frame.starts_with(&start[..6]) && frame.ends_with(&start[6..]);
                **left > 0 && *egress == port.0 && is_whole
            });
            let found = matches.max_by_key(|((_, start), _)| start.len());
            prop_assert!(found.is_some(), "not sent: {frame:?}");
            *found.expect("it is some").1 -= 1;
        }
        prop_assert!(expected.values().all(|left| *left == 0), "{expected:?}");
        let counters = world.query(0, SessionIndex(1)).counters;
        let octets = |place: usize| counters[place].1.ul_octets + counters[place].1.dl_octets;
        prop_assert_eq!([octets(0), octets(1)], urrs);
    }

    /// Fragments of which most never get together: nothing is held beyond its bounds, and nothing for ever.
    #[test]
    fn fragment_bombs_stay_within_bounds(
        bomb in prop::collection::vec((any_datagram(), 0..400u32, any::<prop::sample::Index>(), 0..300u64), 1..300),
        (datagrams, held_most, octets, each) in (1..40usize, 0..40usize, 0..4000usize, 0..8u16),
    ) {
        let limits = FragmentLimits {
            datagrams,
            held: held_most,
            held_octets: octets,
            held_per_datagram: each,
            timeout: Duration::from_secs(2),
        };
        let mut world = world(limits, |_| {});
        for ((is_uplink, is_v4, port, cut), id, which, milliseconds) in &bomb {
            let mut datagram = Datagram::new(*is_uplink, *is_v4, *port, *id % 60);
            datagram.cut = *cut;
            let fragments = datagram.fragments();
            send(&mut world, datagram.port(), &which.get(&fragments).0);
            prop_assert!(held(&world) <= held_most.div_ceil(4) as u64, "one session's share");
            world.assert_conserved();
            world.now = world.now + Duration::from_millis(*milliseconds);
        }
        world.now = world.now + limits.timeout;
        for _ in 0..limits.datagrams {
            world.poll();
        }
        prop_assert_eq!(held(&world), 0);
        world.assert_conserved();
    }
}
