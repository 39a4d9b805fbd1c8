//! End Markers that come from another node, where packets of their session wait in several queues before a port: they
//! leave behind all that came before them.

use crate::common;

use std::time::Duration;

use flow::{PortId, WorkerId};
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange};
use rules::model::{Pdi, PdrId, QerId, SourceInterface};
use rules::network::QueueManagement;
use rules::testing::{N3_ADDRESS, UE, UserPacket, f_teid, pdr, tunnelled};
use worker::EgressLimits;
use worker::mem::MemBuf;

use super::egress_queue_moves::{begin, remove, select, shared};
use super::egress_queues::{Case, DEFAULT, FREE, VOICE, network, offer, packet, rules};
use common::one_session::REMOTE;
use common::{World, frame};

const END_MARKER: u8 = 254;

/// Octets behind the first 24 of the UDP header: of packets that come before the End Marker, and after it.
const EARLY: usize = 950;
const LATE: usize = 940;

/// Of a tunnel from another node, towards the UE.
const DOWNLINK_TEID: u32 = 0x5150;

/// The session of an I-UPF whose default flow has 100 kbit/s, a packet of 1,000 octets in 80 ms. Messages of its
/// downlink tunnel are of QFI 1, which has a queue of its own.
fn intermediate() -> SessionRules {
    let mut rules = rules(100, None);
    let mut from_peer = Pdi::new(SourceInterface::Core);
    from_peer.f_teid = Some(f_teid(DOWNLINK_TEID));
    let mut of_tunnel = pdr(3, 1, from_peer, 2);
    of_tunnel.qers.push(QerId(2));
    rules.create_pdr(of_tunnel).expect("its number is free");
    rules
}

fn world_of(workers: u16, management: QueueManagement) -> World {
    let world = World::with(network(&Case { management, ..FREE }), workers, |config| {
        config.egress = EgressLimits {
            packets: 100,
            octets: 1 << 20,
            queues: 64,
        };
    });
    let mut world = world;
    select(&mut world, WorkerId(0));
    world
}

fn offer_marker(world: &mut World, worker: u16) {
    let marker = tunnelled(N3_ADDRESS, DOWNLINK_TEID, END_MARKER, None, &[], &[]);
    let queue = world.wires.to(WorkerId(worker), PortId(0));
    queue
        .push(MemBuf::new(&frame(0, &marker)))
        .expect("there is room on the wire");
    world.poll();
}

/// What leaves: the End Marker, packets before and after it, and others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Marker,
    Early,
    Late,
    Other,
}

fn left(out: &[(PortId, Vec<u8>)]) -> Vec<Left> {
    let one = |(_, frame): &(PortId, Vec<u8>)| match (frame[43], frame.len().saturating_sub(58 + 44)) {
        (END_MARKER, _) => Left::Marker,
        (_, EARLY) => Left::Early,
        (_, LATE) => Left::Late,
        _ => Left::Other,
    };
    out.iter().map(one).collect()
}

fn leaves(world: &mut World, time: Duration) -> Vec<Left> {
    let end = world.now + time;
    while world.now < end {
        world.poll();
    }
    left(&world.take())
}

/// Packets of the default flow, of a scalable sender or not.
fn of_flow(count: usize, payload: usize, is_scalable: bool) -> Vec<Vec<u8>> {
    let mut user = UserPacket::udp(REMOTE, UE, DEFAULT, 1000);
    (user.tos, user.payload) = (u8::from(is_scalable), vec![7; payload]);
    vec![user.bytes(); count]
}

#[test]
fn an_end_marker_leaves_behind_what_waits_in_other_queues_and_before_what_comes_later() {
    for management in [QueueManagement::TailDrop, QueueManagement::L4s] {
        let mut world = world_of(1, management);
        world.install(1, intermediate());
        let is_dual = management == QueueManagement::L4s;
        offer(&mut world, of_flow(if is_dual { 3 } else { 8 }, EARLY, false));
        offer(&mut world, of_flow(4, EARLY, true));
        offer_marker(&mut world, 0);
        offer(&mut world, [packet(VOICE, 100)]);
        world.poll();
        let begun = left(&world.take());
        assert!(!begun.contains(&Left::Marker), "{begun:?}");
        offer(&mut world, of_flow(6, LATE, false));
        let all = [begun, leaves(&mut world, Duration::from_secs(3))].concat();
        let place = |wanted| all.iter().position(|one| *one == wanted);
        let marker = place(Left::Marker);
        // A dual queue that is overloaded drops messages as it does packets.
        let behind = marker.map_or(&[][..], |marker| &all[marker..]);
        assert!(!behind.contains(&Left::Early), "{management:?}: {all:?}");
        if !is_dual {
            assert!(marker.is_some() && marker < place(Left::Late), "{all:?}");
            assert_eq!(all.len(), 20);
        }
        world.assert_conserved();
    }
}

#[test]
fn where_nothing_waits_it_leaves_at_once() {
    let mut world = world_of(1, QueueManagement::TailDrop);
    world.install(1, intermediate());
    offer_marker(&mut world, 0);
    world.poll();
    assert_eq!(left(&world.take()), [Left::Marker]);
    world.assert_conserved();
}

/// What waits leaves at once when PDRs change, and when a session moves it goes along.
#[test]
fn it_stays_behind_them_when_they_are_let_go_or_move() {
    let mut world = world_of(1, QueueManagement::TailDrop);
    let image = world.install(1, intermediate());
    offer(&mut world, of_flow(12, EARLY, false));
    offer_marker(&mut world, 0);
    world.poll();
    world.change(&image, ImmediateActions::default(), |rules| {
        rules.remove_pdr(PdrId(12)).expect("it is there");
    });
    world.poll();
    let expected: Vec<_> = [Left::Early; 12].into_iter().chain([Left::Marker]).collect();
    assert_eq!(left(&world.take()), expected);
    world.assert_conserved();

    let mut world = world_of(2, QueueManagement::TailDrop);
    let image = world.install(1, intermediate());
    offer(&mut world, of_flow(12, EARLY, false));
    offer_marker(&mut world, 0);
    begin(&mut world, &image);
    remove(&mut world, 0);
    let whole = SessionChange::Replace(shared(&image, MeterShare::Whole), ImmediateActions::default());
    world.apply(1, whole).expect("it is there");
    assert_eq!(leaves(&mut world, Duration::from_secs(3)), expected);
    world.assert_conserved();
}
