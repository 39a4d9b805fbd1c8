//! UDP checksums that ports fill in: what leaves is the same, to the octet, as where the worker computes them all. The
//! ports of these worlds refuse what is asked wrongly.

use std::fmt::Debug;
use std::net::Ipv6Addr;
use std::time::Duration;

use flow::{Bucket, PortId, WorkerId};
use packet::checksum::Sum;
use packet::{IpTuple, Teid, VlanId, VlanTags};
use proptest::prelude::*;
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{
    ApplyAction, DestinationInterface, Edit, FTeid, FarId, FarUpdate, ForwardingParameters,
    ForwardingParametersUpdate, OuterHeaderCreation, OuterHeaderKind, Pdi, QerId, QerUpdate, SourceInterface,
};
use rules::network::{Fragmentation, Mss, Network};
use rules::testing::{
    self, N3, N3_ADDRESS, Sent, UE, UE_V6, UserPacket, any_network, any_sent, pdu_session, runnable_rules,
    tunnelled,
};
use transport::lag::LagShare;
use worker::mem::MemBuf;
use worker::{
    Command, CopyTerms, CopyTo, LagHash, LagPorts, TraceTerms, WorkerConfig, WorkerSelectionChange, mirror,
};

use crate::common::buffering::{BUFF, LIMITS, numbered, with};
use crate::common::one_session::{REMOTE, TEID, hand_over, to_ue};
use crate::common::{World, frame};
use crate::tracing::TERMS;

const N3_PORT: u16 = 0;
const N6_PORT: u16 = 1;
/// What every port is, where all fill in checksums.
const ALL: [u16; 5] = [0, 1, 2, 3, 4];

/// Two worlds alike but for their ports: those of the second fill in checksums.
struct Twins([World; 2]);

impl Twins {
    fn new(network: &Network, ports: &[u16]) -> Self {
        Self::with(network, ports, 1, |_| {})
    }

    fn with(
        network: &Network,
        ports: &[u16],
        workers: u16,
        configure: impl Fn(&mut WorkerConfig) + Copy,
    ) -> Self {
        let world = |ports: &[u16]| {
            World::over(network.clone(), workers, configure, |io| {
                ports.iter().for_each(|port| io.fill_udp_checksums(PortId(*port)));
            })
        };
        Self([world(&[]), world(ports)])
    }

    /// What both do, which is the same.
    fn both<T: Debug + PartialEq>(&mut self, step: impl Fn(&mut World) -> T) -> T {
        let [ours, ports] = &mut self.0;
        let expected = step(ours);
        assert_eq!(step(ports), expected);
        expected
    }

    /// What leaves in both for a packet that comes in, with right checksums.
    fn send(&mut self, port: u16, packet: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let out = self.both(|world| world.send(port, packet));
        out.iter().for_each(|(_, frame)| assert_right(frame));
        out
    }

    /// The checksums that ports have filled in.
    fn filled(&mut self) -> u64 {
        let [ours, ports] = self.0.each_mut().map(|world| {
            world.assert_conserved();
            let filled = world
                .workers
                .iter_mut()
                .map(|worker| worker.io_mut().filled_udp_checksums());
            filled.sum::<u64>()
        });
        assert_eq!(ours, 0);
        ports
    }
}

/// That an untagged frame with GTP-U from our address has the right UDP checksum.
fn assert_right(frame: &[u8]) {
    let packet = &frame[14..];
    let ours: Ipv6Addr = "2001:db8:3::1".parse().expect("an address");
    if frame[12..14] == [0x86, 0xdd] && packet[6] == 17 && packet[8..24] == ours.octets() {
        let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
        packet::udp::verify_checksum(&tuple.addrs, &packet[40..], Sum::default(), false).expect("a checksum");
    }
}

/// A tunnel over IPv6.
fn to(teid: u32, peer: &str) -> OuterHeaderCreation {
    let peer: Ipv6Addr = peer.parse().expect("an address");
    OuterHeaderCreation {
        kind: OuterHeaderKind::GTPU_IPV6,
        teid: Teid(teid),
        ipv4: None,
        ipv6: Some(peer),
        port: None,
    }
}

/// A session whose gNB is reached over IPv6.
fn session() -> SessionRules {
    pdu_session(TEID, to(77, "2001:db8:200::1"))
}

/// A packet to the UE, with its payload in octets.
fn long(octets: usize) -> UserPacket {
    UserPacket {
        payload: (0..octets).map(|at| (at * 7 + at / 256) as u8).collect(),
        ..UserPacket::udp(REMOTE, UE, 53, 1000)
    }
}

#[test]
fn packets_that_are_marked_for_the_ran_leave_alike() {
    let mut twins = Twins::new(&testing::network(), &ALL);
    let mut rules = session();
    let update = QerUpdate {
        marks_l4s: Some(true),
        ..QerUpdate::new(QerId(1))
    };
    rules.update_qer(update).expect("it is there");
    twins.both(|world| drop(world.install(1, rules.clone())));
    // All of the downlink of QFI 9.
    let told = vec![0x10, 0x49, 0x04, 0x27, 0x10, 0];
    let report = tunnelled(N3_ADDRESS, TEID, 255, None, &[(0x85, told)], &[]);
    assert!(twins.both(|world| world.send(N3_PORT, &report)).is_empty());
    let host: Ipv6Addr = "2001:db8:ffff::1".parse().expect("an address");
    for packet in [
        UserPacket::udp(REMOTE, UE, 53, 1000),
        UserPacket::udp(host, UE_V6, 53, 1000),
    ] {
        let packet = UserPacket { tos: 1, ..packet }.bytes();
        let out = twins.send(N6_PORT, &packet);
        let [(_, frame)] = &out[..] else {
            panic!("one packet in, {} out", out.len())
        };
        assert_eq!(packet::ecn::of(frame, frame.len() - packet.len()), 3);
    }
}

#[test]
fn packets_of_every_length_leave_alike() {
    let mut twins = Twins::new(&testing::network(), &ALL);
    twins.both(|world| drop(world.install(1, session())));
    for octets in (0..64).chain(1_373..1_393) {
        assert_eq!(
            twins.send(N6_PORT, &long(octets).bytes()).len(),
            1,
            "{octets} octets"
        );
    }
    let host: Ipv6Addr = "2001:db8:ffff::1".parse().expect("an address");
    twins.send(N6_PORT, &UserPacket::udp(host, UE_V6, 53, 1000).bytes());
    assert_eq!(twins.filled(), 85);
    // What goes up leaves plain, and over IPv4 there is no checksum.
    let user = UserPacket::udp(UE, REMOTE, 1000, 53).bytes();
    twins.send(N3_PORT, &tunnelled(N3_ADDRESS, TEID, 255, None, &[], &user));
    let mut twins = Twins::new(&testing::network(), &ALL);
    twins.both(|world| drop(world.install(1, crate::common::one_session::session())));
    twins.send(N6_PORT, &to_ue());
    assert_eq!(twins.filled(), 0);
}

#[test]
fn a_port_that_cannot_is_not_asked() {
    let mut twins = Twins::new(&testing::network(), &[N6_PORT]);
    twins.both(|world| drop(world.install(1, session())));
    twins.send(N6_PORT, &to_ue());
    assert_eq!(twins.filled(), 0);
}

#[test]
fn tags_stand_before_the_headers() {
    let id = |id| VlanId::new(id).expect("an id");
    for tags in [
        VlanTags {
            outer: id(7),
            inner: None,
            tpid: 0x8100,
        },
        VlanTags::stacked(id(7), id(9)),
    ] {
        let network = testing::network_with(|instance| {
            if instance.id == N3 {
                instance.vlan = Some(tags);
            }
        });
        let mut twins = Twins::new(&network, &ALL);
        twins.both(|world| drop(world.install(1, session())));
        let out = twins.both(|world| world.send(N6_PORT, &to_ue()));
        assert_eq!((out.len(), twins.filled()), (1, 1));
    }
}

#[test]
fn what_leaves_in_fragments_is_summed_here() {
    for how in [Fragmentation::Inner, Fragmentation::Outer] {
        let network = testing::network_with(|instance| instance.fragmentation = how);
        let mut twins = Twins::new(&network, &ALL);
        twins.both(|world| drop(world.install(1, session())));
        let mut packet = long(3_000).bytes();
        packet[6] = 0;
        packet[10..12].fill(0);
        let sum = packet::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(twins.send(N6_PORT, &packet).len(), 3, "{how:?}");
        assert_eq!(twins.filled(), 0);
        // The next is whole again.
        twins.send(N6_PORT, &to_ue());
        assert_eq!(twins.filled(), 1);
    }
}

#[test]
fn a_syn_with_another_size_keeps_the_checksum_around_it() {
    let network = testing::network_with(|instance| {
        if instance.id == N3 {
            instance.mss = Mss::AtMost(1_200);
        }
    });
    let mut twins = Twins::new(&network, &ALL);
    twins.both(|world| drop(world.install(1, session())));
    let syn = crate::mss_clamping::user(false, true, packet::tcp::flags::SYN, &[2, 4, 0x05, 0xb4]);
    let out = twins.send(N6_PORT, &syn);
    assert_eq!(out[0].1[out[0].1.len() - 2..], 1_200u16.to_be_bytes());
    assert_eq!(
        (twins.filled(), twins.0[1].workers[0].stats().mss_clamped),
        (1, 1)
    );
}

#[test]
fn what_waits_and_end_markers_leave_alike() {
    let network = testing::network();
    let mut twins = Twins::with(&network, &ALL, 1, |config| config.buffers = LIMITS);
    let out = twins.both(|world| {
        let image = world.install(1, with(&session(), BUFF));
        (0..5).for_each(|number| drop(world.send(N6_PORT, &numbered(number))));
        assert!(world.take().is_empty());
        let image = world.change(&image, ImmediateActions::default(), |rules| {
            *rules = with(rules, ApplyAction::FORW)
        });
        let flushed = world.take();
        let immediate = ImmediateActions {
            end_markers: vec![FarId(2)],
            ..ImmediateActions::default()
        };
        world.change(&image, immediate, |rules| {
            hand_over(rules, to(99, "2001:db8:200::2"))
        });
        (flushed, world.take(), world.send(N6_PORT, &to_ue()))
    });
    assert_eq!((out.0.len(), out.1.len(), out.2.len()), (5, 1, 1));
    let all = [&out.0[..], &out.1, &out.2].concat();
    all.iter().for_each(|(_, frame)| assert_right(frame));
    // The End Marker is our own.
    assert_eq!(twins.filled(), 6);
}

#[test]
fn what_is_copied_is_summed_here() {
    let mut rules = session();
    let duplicating = ForwardingParametersUpdate {
        destination: Some(DestinationInterface::Access),
        outer_header_creation: Edit::Set(to(8, "2001:db8:200::9")),
        ..ForwardingParametersUpdate::default()
    };
    let update = FarUpdate {
        action: Some(ApplyAction::FORW.with(ApplyAction::DUPL)),
        duplicating: Edit::Set(duplicating),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
    let mut twins = Twins::new(&testing::network(), &ALL);
    twins.both(|world| drop(world.install(1, rules.clone())));
    assert_eq!((twins.send(N6_PORT, &to_ue()).len(), twins.filled()), (2, 0));

    let network = testing::network_with(|instance| {
        if instance.id == N3 {
            instance.mirror = Some(PortId(4));
        }
    });
    let mut twins = Twins::new(&network, &ALL);
    twins.both(|world| drop(world.install(1, session())));
    let out = twins.send(N6_PORT, &to_ue());
    assert_eq!((out.len(), twins.filled()), (2, 0));
    assert_eq!(out[0].1, out[1].1);
}

#[test]
fn what_is_looked_at_is_summed_here_as_long_as_it_is() {
    let mut twins = Twins::new(&testing::network(), &ALL);
    twins.both(|world| drop(world.install(1, session())));
    twins.send(N6_PORT, &to_ue());
    assert_eq!(twins.filled(), 1);
    let copies = |world: &mut World| {
        let to = CopyTo::Port(PortId(2));
        let (order, reported) = mirror(
            TraceTerms { count: 1, ..TERMS },
            CopyTerms {
                to,
                received: false,
                sent: true,
            },
        );
        let pushed = world.controls[0].commands.push(Command::Trace(Box::new(order)));
        assert!(pushed.is_ok());
        world.poll();
        let out = world.send(N6_PORT, &to_ue());
        drop(reported);
        world.poll();
        out
    };
    let out = twins.both(copies);
    assert_eq!((out.len(), twins.filled()), (2, 1));
    assert_eq!(out[0].1, out[1].1);
    assert_right(&out[0].1);
    twins.send(N6_PORT, &to_ue());
    assert_eq!(twins.filled(), 2);
}

#[test]
fn a_packet_that_is_brought_together_asks_as_before() {
    let network = testing::network_with(|instance| instance.mtu = 9_000);
    for most in [1, 3] {
        let mut twins = Twins::new(&network, &ALL);
        let bound = |world: &mut World| world.workers[0].io_mut().bound_chains(PortId(N3_PORT), most);
        bound(&mut twins.0[0]);
        bound(&mut twins.0[1]);
        twins.both(|world| drop(world.install(1, session())));
        let came = frame(N6_PORT, &long(6_000).bytes());
        for part in [61, 2_048, 4_000, 9_000] {
            let out = twins.both(|world| {
                let queue = world.wires.to(WorkerId(0), PortId(N6_PORT));
                queue.push(MemBuf::chained(&came, part)).expect("there is room");
                world.poll();
                world.poll();
                world.take()
            });
            assert_eq!(out.len(), 1);
            assert_right(&out[0].1);
        }
        assert_eq!(twins.filled(), 4);
    }
}

/// N3 on a LAG of ports 7 and 8, of which `able` fill in checksums.
fn on_a_lag(able: &[u16]) -> (Vec<PortId>, u64) {
    let mut instances = testing::network().instances().to_vec();
    if let Some(last) = instances.last_mut() {
        last.port = PortId(9);
    }
    let network = Network::new(instances).expect("a network");
    let mut twins = Twins::with(&network, able, 1, |config| {
        config.lags = vec![LagPorts {
            port: PortId(N3_PORT),
            members: vec![PortId(7), PortId(8)],
            lacp: false,
            hash: LagHash::L34,
        }];
    });
    twins.both(|world| {
        world.install(1, session());
        let share = LagShare {
            collecting: 3,
            distributing: 3,
        };
        world.tell_all(|| Command::Lag {
            port: PortId(N3_PORT),
            share,
        });
    });
    let mut by = Vec::new();
    for port in 0..16 {
        let out = twins.send(N6_PORT, &UserPacket::udp(REMOTE, UE, 4_000 + port, 1000).bytes());
        by.extend(out.iter().map(|(port, _)| *port));
    }
    (by, twins.filled())
}

#[test]
fn a_lag_fills_in_what_all_of_its_members_do() {
    for (able, filled) in [(&[7, 8][..], 16), (&[0, 7], 0), (&[8], 0), (&[], 0)] {
        let (by, got) = on_a_lag(able);
        assert_eq!(by.len(), 16);
        assert!(by.contains(&PortId(7)) && by.contains(&PortId(8)));
        assert_eq!(got, filled, "{able:?}");
    }
}

/// A session that takes the tunnel `teid` of ours and sends on in another.
fn relay(teid: u32, header: OuterHeaderCreation) -> SessionRules {
    let mut rules = SessionRules::new();
    let mut from = Pdi::new(SourceInterface::Access);
    from.f_teid = Some(FTeid {
        teid: Teid(teid),
        ipv4: Some(N3_ADDRESS),
        ipv6: Some("2001:db8:3::1".parse().expect("an address")),
    });
    let mut parameters = ForwardingParameters::new(DestinationInterface::Access);
    parameters.outer_header_creation = Some(header);
    rules
        .create_far(testing::forward(1, parameters))
        .expect("it is new");
    rules
        .create_pdr(testing::pdr(1, 255, from, 1))
        .expect("it is new");
    rules
}

#[test]
fn what_goes_round_is_summed_here_and_asks_when_it_leaves() {
    let mut twins = Twins::new(&testing::network(), &ALL);
    twins.both(|world| {
        world.install(1, pdu_session(TEID, to(0x9002, "2001:db8:3::1")));
        world.install(2, relay(0x9002, to(78, "2001:db8:200::2")));
    });
    let out = twins.send(N6_PORT, &to_ue());
    assert_eq!((out.len(), twins.filled()), (1, 1));
    assert_eq!(twins.0[1].workers[0].stats().recirculated, 1);
}

#[test]
fn messages_that_are_relayed_and_extension_headers_leave_alike() {
    let mut twins = Twins::new(&testing::network(), &ALL);
    twins.both(|world| drop(world.install(1, relay(0x9002, to(78, "2001:db8:200::2")))));
    let user = UserPacket::udp(UE, REMOTE, 1000, 53).bytes();
    let others = [(0x40, vec![8, 0x68])];
    for packet in [
        tunnelled(N3_ADDRESS, 0x9002, 255, Some([0x10, 9]), &others, &user),
        tunnelled(N3_ADDRESS, 0x9002, 255, None, &[], &user),
    ] {
        assert_eq!(twins.send(N3_PORT, &packet).len(), 1);
    }
    assert_eq!(twins.filled(), 2);
    let end_marker = tunnelled(N3_ADDRESS, 0x9002, 254, None, &[], &[]);
    assert_eq!(twins.send(N3_PORT, &end_marker).len(), 1);
    assert_eq!(twins.filled(), 2);
}

#[test]
fn answers_of_our_own_leave_alike() {
    let mut twins = Twins::new(&testing::network(), &ALL);
    let ours: Ipv6Addr = "2001:db8:3::1".parse().expect("an address");
    let peer: Ipv6Addr = "2001:db8:3::fe".parse().expect("an address");
    let echo = [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0];
    let lost = [0x30, 255, 0, 4, 0, 0, 0x77, 0x77, 1, 2, 3, 4];
    for message in [echo, lost] {
        let packet = packet::build::packet::udp((peer, 2152).into(), (ours, 2152).into(), &message);
        assert_eq!(twins.send(N3_PORT, &packet.expect("a packet")).len(), 1);
    }
    assert_eq!(twins.filled(), 0);
}

#[test]
fn what_is_handed_over_asks_at_its_owner() {
    let mut twins = Twins::with(&testing::network(), &ALL, 2, |_| {});
    twins.both(|world| {
        for bucket in Bucket::all() {
            world.tell_all(|| {
                Command::SelectWorker(WorkerSelectionChange::Bucket {
                    bucket,
                    owner: WorkerId(0),
                })
            });
        }
        world.install(1, session());
    });
    for worker in [0, 1] {
        let out = twins.both(|world| {
            let mut out = world.send_frame(worker, N6_PORT, &frame(N6_PORT, &to_ue()));
            world.poll();
            out.extend(world.take());
            out
        });
        assert_eq!(out.len(), 1);
        assert_right(&out[0].1);
    }
    assert_eq!(twins.filled(), 2);
}

/// The same rules, with every tunnel over IPv6.
fn over_ipv6(mut rules: SessionRules) -> SessionRules {
    for far in rules.fars().to_vec() {
        let header = far
            .forwarding
            .and_then(|forwarding| forwarding.outer_header_creation);
        let Some(header) = header.filter(|header| header.kind.contains(OuterHeaderKind::GTPU_IPV4)) else {
            continue;
        };
        let forwarding = ForwardingParametersUpdate {
            outer_header_creation: Edit::Set(to(header.teid.0, "2001:db8:200::1")),
            ..ForwardingParametersUpdate::default()
        };
        let update = FarUpdate {
            forwarding: Edit::Set(forwarding),
            ..FarUpdate::new(far.id)
        };
        rules.update_far(update).expect("it is there");
    }
    rules
}

/// Lets packets come in at both; how many checksums ports have filled in. `None` without a session.
fn run(rules: &SessionRules, network: &Network, packets: &[(Sent, usize)]) -> Option<u64> {
    let mut twins = Twins::with(network, &ALL, 1, |config| {
        let unlimited = worker::PacketRates::new(u32::MAX, u32::MAX);
        (config.redirects, config.relays) = (unlimited, unlimited);
        (config.fragments, config.reassembly) = (<_>::default(), <_>::default());
        config.buffers = LIMITS;
    });
    let installed = twins.both(|world| {
        let Ok(image) = world.image(3, &rules.clone().into(), None) else {
            return false;
        };
        world
            .apply(0, SessionChange::Install(image))
            .expect("there is room");
        true
    });
    for (Sent { ingress, bytes }, part) in packets.iter().filter(|_| installed) {
        let came = frame(ingress.0, bytes);
        let out = twins.both(|world| {
            let queue = world.wires.to(WorkerId(0), PortId(ingress.0));
            queue.push(MemBuf::chained(&came, *part)).expect("there is room");
            world.now = world.now + Duration::from_millis(5);
            world.poll();
            world.poll();
            (world.take(), world.drops())
        });
        out.0.iter().for_each(|(_, frame)| assert_right(frame));
    }
    installed.then(|| twins.filled())
}

fn any_run() -> impl Strategy<Value = (SessionRules, Network, Vec<(Sent, usize)>)> {
    let packets = prop::collection::vec((any_sent(), 40usize..2_000), 1..40);
    (runnable_rules(), any_network(), packets, any::<bool>()).prop_map(|(rules, network, packets, all)| {
        let rules = if all { over_ipv6(rules) } else { rules };
        (rules, network, packets)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random rules, random packets, in parts of any length.
    #[test]
    fn whatever_comes_leaves_alike((rules, network, packets) in any_run()) {
        run(&rules, &network, &packets);
    }
}

/// What the random runs are worth: ports fill in many checksums.
#[test]
fn random_runs_ask_ports() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut filled = 0;
    for _ in 0..2_000 {
        let drawn = any_run()
            .new_tree(&mut runner)
            .expect("it is drawn without conditions");
        let (rules, network, packets) = proptest::strategy::ValueTree::current(&drawn);
        filled += run(&rules, &network, &packets).unwrap_or(0);
    }
    assert!(filled > 100, "{filled}");
}
