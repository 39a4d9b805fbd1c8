//! End Markers and Tunnel Status on their way from tunnel to tunnel: of which form, how often, and where gates are
//! open.

use crate::common;

use std::net::Ipv4Addr;
use std::time::Duration;

use packet::{DropReason, Teid};
use rules::image::{ImmediateActions, SessionImage};
use rules::model::{
    DestinationInterface, Edit, FarId, FarUpdate, ForwardingParametersUpdate, Gate, OuterHeaderCreation,
    PdrId, QerId, QerUpdate, ReportingTriggers, UrrId, UrrUpdate,
};
use rules::testing::{self, N3_ADDRESS, tunnelled};
use worker::{Event, WorkerConfig};

use common::World;
use common::one_session::{TEID, events, session};

const END_MARKER: u8 = 254;
const TUNNEL_STATUS: u8 = 253;
/// The next node's tunnel.
const NEXT: (u32, Ipv4Addr) = (0x9001, Ipv4Addr::new(10, 209, 1, 1));

/// A session of an I-UPF in a world: its uplink is forwarded into a tunnel.
fn world(configure: impl Fn(&mut WorkerConfig)) -> (World, Box<SessionImage>) {
    let mut world = World::with(testing::network(), 1, configure);
    let mut rules = session();
    let next = OuterHeaderCreation::gtpu_ipv4(Teid(NEXT.0), NEXT.1);
    let update = FarUpdate {
        forwarding: Edit::Set(ForwardingParametersUpdate {
            destination: Some(DestinationInterface::Core),
            outer_header_creation: Edit::Set(next),
            ..ForwardingParametersUpdate::default()
        }),
        ..FarUpdate::new(FarId(1))
    };
    rules.update_far(update).expect("it is there");
    let image = world.install(1, rules);
    (world, image)
}

fn message(kind: u8, elements: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, TEID, kind, None, &[], elements)
}

/// The relayed message, from its GTP-U header on, or why there is none.
fn send(world: &mut World, kind: u8, elements: &[u8]) -> Result<Vec<u8>, DropReason> {
    let before = world.drops();
    let out = world.send(0, &message(kind, elements));
    match &out[..] {
        [(_, frame)] => Ok(frame[42..50 + elements.len()].to_vec()),
        [] => Err(world.dropped_since(&before).expect("it is accounted")),
        more => panic!("{} packets for one", more.len()),
    }
}

#[test]
fn what_is_well_formed_is_forwarded_unchanged_and_counted() {
    let (mut world, image) = world(|_| {});
    let long = [&[255, 0, 125, 0, 9][..], &[7; 123]].concat();
    let status = [230, 0, 1, 1];
    let sent: [(u8, &[u8]); 4] = [
        (END_MARKER, &[]),
        (END_MARKER, &[255, 0, 3, 0x28, 0xaf, 1]),
        (TUNNEL_STATUS, &status),
        (TUNNEL_STATUS, &long),
    ];
    for (kind, elements) in sent {
        let got = send(&mut world, kind, elements).expect("it is relayed");
        let length = elements.len() as u8;
        assert_eq!(got[..8], [0x30, kind, 0, length, 0, 0, 0x90, 0x01]);
        assert_eq!(&got[8..], elements);
    }
    assert_eq!(world.workers[0].stats().relayed, 4);
    let usage = world.query(0, image.session);
    assert!(usage.counters.iter().all(|(_, count)| count.ul_packets == 0));
    world.assert_conserved();
}

#[test]
fn what_other_messages_have_or_is_too_long_goes_no_further() {
    let (mut world, _) = world(|_| {});
    let user = common::one_session::from_ue();
    let long = [&[255, 0, 126, 0, 9][..], &[7; 124]].concat();
    let refused: [&[u8]; 6] = [
        &user,
        &long,
        &[14, 0],
        &[16, 0, 0, 0, 1],
        &[230, 0, 9, 1],
        &[255, 0, 1, 9],
    ];
    for elements in refused {
        for kind in [END_MARKER, TUNNEL_STATUS] {
            let got = send(&mut world, kind, elements);
            assert_eq!(got, Err(DropReason::BadGtpuIe), "{elements:?}");
        }
    }
    assert_eq!(world.workers[0].stats().relayed, 0);
    world.assert_conserved();
}

#[test]
fn a_closed_gate_closes_for_them_too() {
    let (mut world, image) = world(|_| {});
    world.change(&image, ImmediateActions::default(), |rules| {
        let update = QerUpdate {
            gates: Some((Gate::Closed, Gate::Open)),
            ..QerUpdate::new(QerId(1))
        };
        rules.update_qer(update).expect("it is there");
    });
    assert_eq!(send(&mut world, END_MARKER, &[]), Err(DropReason::GateClosed));
}

#[test]
fn an_end_marker_to_be_reported_ends_here_and_is_reported_at_a_bounded_rate() {
    let (mut world, image) = world(|config| config.relays = worker::PacketRates::new(100, 4));
    world.change(&image, ImmediateActions::default(), |rules| {
        let update = UrrUpdate {
            triggers: Some(ReportingTriggers::REEMR),
            ..UrrUpdate::new(UrrId(1))
        };
        rules.update_urr(update).expect("it is there");
    });
    let sent: Vec<_> = (0..6).map(|_| send(&mut world, END_MARKER, &[])).collect();
    assert_eq!(sent[..4], [const { Err(DropReason::EndMarkerReported) }; 4]);
    assert_eq!(sent[4..], [const { Err(DropReason::RelayLimit) }; 2]);
    let reported = events(&mut world);
    let reported = reported.iter().filter(|event| {
        matches!(event, Event::EndMarker { session, pdr } if (*session, *pdr) == (image.session, PdrId(1)))
    });
    assert_eq!(reported.count(), 4);
    // The status of a tunnel is another thing.
    world.now = world.now + Duration::from_secs(2);
    assert!(send(&mut world, TUNNEL_STATUS, &[230, 0, 1, 1]).is_ok());
    world.assert_conserved();
}

#[test]
fn a_session_and_a_worker_pass_on_so_many_a_second() {
    for limits in [(4, 100), (100, 4)] {
        let (mut world, _) = world(|config| config.relays = worker::PacketRates::new(limits.0, limits.1));
        let passed = |world: &mut World| {
            let sent = (0..10).map(|_| send(world, END_MARKER, &[]));
            let all: Vec<_> = sent.collect();
            let refused = all.iter().filter(|one| **one == Err(DropReason::RelayLimit));
            assert_eq!(refused.count(), all.iter().filter(|one| one.is_err()).count());
            all.iter().filter(|one| one.is_ok()).count()
        };
        assert_eq!(passed(&mut world), 4, "{limits:?}");
        world.now = world.now + Duration::from_secs(2);
        assert_eq!(passed(&mut world), 4, "{limits:?}");
        world.assert_conserved();
    }
}
