//! End Markers that come from another node, where packets of their session wait in several queues before a port: they
//! leave behind all that came before them.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use flow::{PortId, WorkerId};
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange};
use rules::model::{Pdi, PdrId, PdrUpdate, QerId, SourceInterface};
use rules::network::QueueManagement;
use rules::testing::{N3_ADDRESS, UE, UserPacket, f_teid, pdr, tunnelled};
use worker::EgressLimits;
use worker::mem::MemBuf;

use super::egress_queue_moves::{begin, remove, replace, select, shared};
use super::egress_queues::{Case, DEFAULT, FREE, VOICE, network, offer, packet, rules, waiting};
use common::one_session::REMOTE;
use common::{World, frame};

const END_MARKER: u8 = 254;

/// Octets behind the first 24 of the UDP header: of packets that come before the End Marker, and after it.
const EARLY: usize = 950;
const LATE: usize = 940;

/// Of a tunnel from another node, towards the UE.
const DOWNLINK_TEID: u32 = 0x5150;

/// What the default flow has, kbit/s: a packet of 1,000 octets in 80 ms.
const AMBR: u64 = 100;

/// The session of an I-UPF whose default flow has this Session-AMBR (kbit/s; 0: none). Messages of its downlink tunnel
/// are of QFI 1, which has a queue of its own.
fn intermediate(ambr: u64) -> SessionRules {
    let mut rules = rules(ambr, None);
    let mut from_peer = Pdi::new(SourceInterface::Core);
    from_peer.f_teid = Some(f_teid(DOWNLINK_TEID));
    let mut of_tunnel = pdr(3, 1, from_peer, 2);
    of_tunnel.qers.push(QerId(2));
    rules.create_pdr(of_tunnel).expect("its number is free");
    rules
}

fn world_of(workers: u16, management: QueueManagement) -> World {
    world_with(workers, &Case { management, ..FREE })
}

fn world_with(workers: u16, case: &Case) -> World {
    let mut world = World::with(network(case), workers, |config| {
        config.egress = EgressLimits {
            packets: 100,
            octets: 1 << 20,
            queues: 64,
        };
    });
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
        world.install(1, intermediate(AMBR));
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
    world.install(1, intermediate(AMBR));
    offer_marker(&mut world, 0);
    world.poll();
    assert_eq!(left(&world.take()), [Left::Marker]);
    world.assert_conserved();
}

/// A burst that takes the End Marker out of its queue may take the last of the packets before it out of another one,
/// too: their port lets several of both leave in one poll, after a pause.
#[test]
fn it_leaves_behind_packets_that_leave_other_queues_in_the_same_burst() {
    // 10,000 octets at once, and no more than that in 2 ms.
    let case = Case { port: 40_000, ..FREE };
    let mut waited = 0;
    for count in 1..=24 {
        let mut world = world_with(1, &case);
        world.install(1, intermediate(0));
        offer(&mut world, of_flow(count, EARLY, false));
        waited += usize::from(waiting(&world) > 0);
        offer_marker(&mut world, 0);
        world.now = world.now + Duration::from_millis(2);
        let expected: Vec<_> = vec![Left::Early; count]
            .into_iter()
            .chain([Left::Marker])
            .collect();
        assert_eq!(leaves(&mut world, Duration::from_millis(5)), expected);
        world.assert_conserved();
    }
    assert!(waited > 5, "{waited}");
}

/// What waits leaves at once when PDRs change, and when a session moves it goes along.
#[test]
fn it_stays_behind_them_when_they_are_let_go_or_move() {
    let mut world = world_of(1, QueueManagement::TailDrop);
    let image = world.install(1, intermediate(AMBR));
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
    let image = world.install(1, intermediate(AMBR));
    offer(&mut world, of_flow(12, EARLY, false));
    offer_marker(&mut world, 0);
    begin(&mut world, &image);
    remove(&mut world, 0);
    replace(&mut world, 1, shared(&image, MeterShare::Whole));
    assert_eq!(leaves(&mut world, Duration::from_secs(3)), expected);
    world.assert_conserved();
}

/// The new worker has other queues of a session than those that it gets: what has waited leaves there at once.
#[test]
fn it_stays_behind_them_where_they_do_not_wait_on() {
    let slow = Case { port: 800, ..FREE };
    let mut world = world_with(2, &slow);
    // Its messages are of the default flow, whose queue comes before the other one.
    let mut rules = intermediate(0);
    let update = PdrUpdate {
        qers: Some(vec![QerId(1)]),
        ..PdrUpdate::new(PdrId(3))
    };
    rules.update_pdr(update).expect("it is there");
    let image = world.install(1, rules);
    let other = world.image(1, &Arc::new(intermediate(AMBR)), None);
    let other = other.expect("it compiles");
    offer(&mut world, vec![packet(VOICE, EARLY + 16); 12]);
    offer_marker(&mut world, 0);
    replace(&mut world, 0, shared(&image, MeterShare::Leaving));
    let arriving = SessionChange::Install(shared(&other, MeterShare::Arriving));
    world.apply(1, arriving).expect("there is room");
    select(&mut world, WorkerId(1));
    let begun = left(&world.take());
    assert!(begun.len() < 6, "{begun:?}");
    remove(&mut world, 0);
    replace(&mut world, 1, shared(&other, MeterShare::Whole));
    world.poll();
    let all = [begun, left(&world.take())].concat();
    let expected: Vec<_> = [Left::Early; 12].into_iter().chain([Left::Marker]).collect();
    assert_eq!(all, expected);
    world.assert_conserved();
}
