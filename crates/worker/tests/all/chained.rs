//! Packets in chained buffers: whatever a NIC spreads over several of them, the same comes out as of one.

use flow::{PortId, SessionIndex, WorkerId};
use packet::DropReason;
use proptest::prelude::*;
use rules::image::SessionChange;
use rules::network::{Fragmentation, Network};
use rules::testing::{
    self, N3_ADDRESS, Sent, UE, UserPacket, any_network, any_sent, runnable_rules, tunnelled,
};
use worker::mem::MemBuf;

use crate::common::one_session::{REMOTE, TEID, session};
use crate::common::{World, frame};

/// The network with links of 9,000 octets.
fn jumbo() -> Network {
    testing::network_with(|instance| instance.mtu = 9_000)
}

/// What comes out for a frame that comes in like this.
fn receive(world: &mut World, port: u16, buf: MemBuf) -> Vec<(PortId, Vec<u8>)> {
    let queue = world.wires.to(WorkerId(0), PortId(port));
    queue.push(buf).expect("there is room");
    world.poll();
    world.poll();
    world.assert_conserved();
    world.take()
}

/// Two worlds with the same session, if there can be one.
fn twins(rules: &rules::SessionRules, network: &Network) -> Option<[World; 2]> {
    let world = || {
        let mut world = World::with(network.clone(), 1, |config| {
            let unlimited = worker::PacketRates::new(u32::MAX, u32::MAX);
            (config.redirects, config.relays) = (unlimited, unlimited);
            (config.fragments, config.reassembly) = (<_>::default(), <_>::default());
        });
        let image = world.image(3, &rules.clone().into(), None).ok()?;
        world
            .apply(0, SessionChange::Install(image))
            .expect("there is room");
        Some(world)
    };
    Some([world()?, world()?])
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// Random rules, random packets, in parts of any length: the same octets, counts and drops.
    #[test]
    fn a_chain_is_what_its_octets_are(
        rules in runnable_rules(),
        network in any_network(),
        packets in prop::collection::vec((any_sent(), 1usize..200), 1..30),
    ) {
        let Some([mut linear, mut chained]) = twins(&rules, &network) else {
            return Err(TestCaseError::reject("no session"));
        };
        for (Sent { ingress, bytes }, part) in packets {
            let frame = frame(ingress.0, &bytes);
            let expected = receive(&mut linear, ingress.0, MemBuf::new(&frame));
            let before = chained.drops();
            let out = receive(&mut chained, ingress.0, MemBuf::chained(&frame, part));
            prop_assert_eq!(out, expected, "in parts of {}, dropped: {:?}", part, chained.dropped_since(&before));
            prop_assert_eq!(chained.drops(), linear.drops());
        }
        let counted = |world: &mut World| world.query(0, SessionIndex(3)).counters;
        prop_assert_eq!(counted(&mut chained), counted(&mut linear));
    }

    /// Long packets, both ways, up to the longest link.
    #[test]
    fn jumbo_packets_pass(octets in 1_400usize..9_100, part in 40usize..4_096, is_uplink: bool) {
        let (ue, host) = (UE.into(), REMOTE.into());
        let (from, to): (std::net::IpAddr, std::net::IpAddr) =
            if is_uplink { (ue, host) } else { (host, ue) };
        let mut user = UserPacket::udp(from, to, 1000, 53);
        user.payload = (0..octets).map(|at| (at * 7 + at / 256) as u8).collect();
        let user = user.bytes();
        let (port, packet) = match is_uplink {
            true => (0, tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &user)),
            false => (1, user.clone()),
        };
        let Some([mut linear, mut chained]) = twins(&session(), &jumbo()) else {
            return Err(TestCaseError::fail("a session"));
        };
        let expected = receive(&mut linear, port, MemBuf::new(&frame(port, &packet)));
        let out = receive(&mut chained, port, MemBuf::chained(&frame(port, &packet), part));
        prop_assert_eq!(&out, &expected);
        let head = if is_uplink { 14 } else { 14 + 44 };
        prop_assert!(out.iter().all(|(_, frame)| frame.len() <= 9_014));
        if head - 14 + user.len() <= 9_000 {
            prop_assert_eq!(out.len(), 1);
            prop_assert_eq!(&out[0].1[head + 20..], &user[20..]);
        }
    }
}

/// A frame that is longer than its parts say, or whose headers never come, is dropped as if it lay in one.
#[test]
fn what_is_malformed_stays_malformed() {
    let mut world = World::new();
    world.install(1, session());
    let packet = tunnelled(N3_ADDRESS, TEID, 255, None, &[], &[0x45, 0, 0, 20]);
    for part in [1, 14, 20, 50] {
        let before = world.drops();
        let out = receive(&mut world, 0, MemBuf::chained(&frame(0, &packet), part));
        assert!(out.is_empty());
        assert_eq!(
            world.dropped_since(&before),
            Some(DropReason::TruncatedIpv4),
            "in parts of {part}"
        );
    }
}

#[test]
fn a_port_that_sends_no_chains_gets_none() {
    for most in [1, 3] {
        let mut world = World::with(jumbo(), 1, |_| {});
        world.install(1, session());
        world.workers[0].io_mut().bound_chains(PortId(0), most);
        let user = UserPacket {
            payload: vec![7; 6_000],
            ..UserPacket::udp(REMOTE, UE, 53, 1000)
        };
        let frame = frame(1, &user.bytes());
        let mut twin = World::with(jumbo(), 1, |_| {});
        twin.install(1, session());
        let expected = receive(&mut twin, 1, MemBuf::new(&frame));
        assert_eq!(expected.len(), 1);
        for part in [2_048, 4_000, 9_000] {
            // The wires refuse what has more parts.
            assert_eq!(receive(&mut world, 1, MemBuf::chained(&frame, part)), expected);
        }
    }
}

/// What leaves in fragments as well: the first is made of the parts that came, however many.
#[test]
fn a_port_that_sends_no_chains_gets_none_in_fragments() {
    for (how, most) in [Fragmentation::Inner, Fragmentation::Outer]
        .into_iter()
        .zip([1, 3])
    {
        let network = testing::network_with(|instance| {
            instance.fragmentation = how;
            instance.mtu = if instance.port == PortId(0) { 4_000 } else { 9_000 };
        });
        let [mut world, mut twin] = [(); 2].map(|()| {
            let mut world = World::with(network.clone(), 1, |_| {});
            world.install(1, session());
            world
        });
        world.workers[0].io_mut().bound_chains(PortId(0), most);
        let user = UserPacket {
            payload: vec![7; 6_000],
            ..UserPacket::udp(REMOTE, UE, 53, 1000)
        };
        let frame = frame(1, &user.bytes());
        for part in [200, 700, 9_000] {
            let expected = receive(&mut twin, 1, MemBuf::new(&frame));
            let out = receive(&mut world, 1, MemBuf::chained(&frame, part));
            assert!(
                expected.len() == 2 && out == expected,
                "{how:?} in parts of {part}"
            );
        }
    }
}
