//! Pause of Charging over GTP-U (NSPOC, TS 29.244 §5.30): which messages of the node downstream are heeded and reported
//! to control, and which messages the nodes upstream receive when downlink packets are dropped.

use crate::common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use packet::{DropReason, Teid};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange, SessionImage};
use rules::model::{
    ApplyAction, DestinationInterface, DroppedDlThreshold, Edit, Far, FarId, FarUpdate, ForwardingParameters,
    ForwardingParametersUpdate, MeasurementInformation, OuterHeaderCreation, PdrId, PdrUpdate,
    ReportingTriggers, SourceInterface, Urr, UrrId, UrrTerms, UrrUpdate,
};
use rules::testing::{self, N3_ADDRESS, tunnelled};
use worker::{Event, WorkerConfig};

use common::World;
use common::one_session::{TEID, events, session, to_ue};

const TUNNEL_STATUS: u8 = 253;
const PAUSE: [u8; 4] = [230, 0, 1, 1];
/// Tunnels of nodes upstream.
const UPSTREAM: [(u32, Ipv4Addr); 2] = [
    (0x9001, Ipv4Addr::new(10, 209, 1, 1)),
    (0x9002, Ipv4Addr::new(10, 209, 1, 2)),
];

fn inform(rules: &mut SessionRules, information: u8) {
    let update = UrrUpdate {
        information: Some(MeasurementInformation(information)),
        ..UrrUpdate::new(UrrId(1))
    };
    rules.update_urr(update).expect("it is there");
}

/// A session whose URR charging can be paused for.
fn pausable() -> SessionRules {
    let mut rules = session();
    inform(&mut rules, MeasurementInformation::ASPOC.0);
    rules
}

/// The same, or another, whose uplink is forwarded into the first of the tunnels upstream.
fn relaying(mut rules: SessionRules) -> SessionRules {
    let (teid, address) = UPSTREAM[0];
    let next = OuterHeaderCreation::gtpu_ipv4(Teid(teid), address);
    let update = FarUpdate {
        forwarding: Edit::Set(ForwardingParametersUpdate {
            destination: Some(DestinationInterface::Core),
            outer_header_creation: Edit::Set(next),
            ..ForwardingParametersUpdate::default()
        }),
        ..FarUpdate::new(FarId(1))
    };
    rules.update_far(update).expect("it is there");
    rules
}

struct Case {
    world: World,
    image: Box<SessionImage>,
}

impl Case {
    fn new(rules: SessionRules, configure: impl Fn(&mut WorkerConfig)) -> Self {
        let mut world = World::with(testing::network(), 1, configure);
        let image = world.install(1, rules);
        Self { world, image }
    }

    fn change(&mut self, edit: impl FnOnce(&mut SessionRules)) {
        let mut rules = (*self.image.rules).clone();
        edit(&mut rules);
        let image = self.world.image(1, &Arc::new(rules), Some(&self.image));
        self.image = image.expect("it compiles");
        let change = SessionChange::Replace(self.image.clone(), ImmediateActions::default());
        self.world.apply(0, change).expect("it is there");
    }

    /// The result of a message in the tunnel: whether it is forwarded, or why not.
    fn send(&mut self, kind: u8, elements: &[u8]) -> Result<(), DropReason> {
        let before = self.world.drops();
        let packet = tunnelled(N3_ADDRESS, TEID, kind, None, &[], elements);
        let out = self.world.send(0, &packet);
        match out.len() {
            1 => Ok(()),
            _ => Err(self.world.dropped_since(&before).expect("it is accounted")),
        }
    }

    /// How often control was notified of a pause.
    fn reported(&mut self) -> usize {
        let session = self.image.session;
        let is_pause =
            |event: &Event| matches!(event, Event::PauseOfCharging { session: of } if *of == session);
        events(&mut self.world)
            .iter()
            .filter(|event| is_pause(event))
            .count()
    }
}

#[test]
fn control_is_notified_once_until_charging_resumes() {
    let mut case = Case::new(pausable(), |_| {});
    for _ in 0..3 {
        assert_eq!(
            case.send(TUNNEL_STATUS, &PAUSE),
            Err(DropReason::PauseOfChargingHeeded)
        );
    }
    assert_eq!(case.reported(), 1);
    // It is paused: another message says nothing new.
    case.change(|rules| rules.pause_charging(true));
    assert_eq!(
        case.send(TUNNEL_STATUS, &PAUSE),
        Err(DropReason::PauseOfChargingHeeded)
    );
    assert_eq!(case.reported(), 0);
    case.change(|rules| rules.pause_charging(false));
    assert!(case.send(TUNNEL_STATUS, &PAUSE).is_err());
    assert_eq!(case.reported(), 1);
    case.world.assert_conserved();
}

#[test]
fn what_is_no_pause_or_without_a_session_is_not_reported() {
    let unsupported = Err(DropReason::UnsupportedGtpuMessage);
    let mut case = Case::new(pausable(), |_| {});
    let others: [(u8, &[u8]); 4] = [
        (TUNNEL_STATUS, &[]),
        (TUNNEL_STATUS, &[230, 0, 1, 2]),
        (TUNNEL_STATUS, &[230, 0, 0]),
        (254, &PAUSE),
    ];
    for (kind, elements) in others {
        assert_eq!(case.send(kind, elements), unsupported);
    }
    assert_eq!(
        case.send(TUNNEL_STATUS, &[230, 0, 9, 1]),
        Err(DropReason::BadGtpuIe)
    );
    assert_eq!(case.reported(), 0);
    case.change(|rules| inform(rules, 0));
    assert_eq!(case.send(TUNNEL_STATUS, &PAUSE), unsupported);
    // What comes from upstream is no word of a node downstream.
    case.change(|rules| {
        inform(rules, MeasurementInformation::ASPOC.0);
        let uplink = rules.remove_pdr(PdrId(1)).expect("it is there");
        let mut pdi = uplink.pdi.clone();
        pdi.source_interface = SourceInterface::Core;
        rules
            .create_pdr(rules::model::Pdr { pdi, ..uplink })
            .expect("it is new");
    });
    assert_eq!(case.send(TUNNEL_STATUS, &PAUSE), unsupported);
    assert_eq!(case.reported(), 0);
    case.world.assert_conserved();
}

#[test]
fn between_tunnels_it_is_heeded_and_relayed() {
    let mut case = Case::new(relaying(pausable()), |_| {});
    assert_eq!(case.send(TUNNEL_STATUS, &PAUSE), Ok(()));
    assert_eq!(case.send(TUNNEL_STATUS, &PAUSE), Ok(()));
    assert_eq!(case.reported(), 1);
    assert_eq!(case.world.workers[0].stats().relayed, 2);
    case.world.assert_conserved();
}

#[test]
fn a_session_reports_pauses_at_a_bounded_rate() {
    let mut case = Case::new(pausable(), |config| {
        config.relays = worker::PacketRates::new(100, 3)
    });
    let mut reported = 0;
    let mut refused = 0;
    for _ in 0..6 {
        case.change(|rules| rules.pause_charging(true));
        case.change(|rules| rules.pause_charging(false));
        refused += usize::from(case.send(TUNNEL_STATUS, &PAUSE) == Err(DropReason::RelayLimit));
        reported += case.reported();
    }
    assert_eq!((reported, refused), (3, 3));
    // What could not be reported is reported with the next message.
    case.world.now = case.world.now + Duration::from_secs(2);
    assert!(case.send(TUNNEL_STATUS, &PAUSE).is_err());
    assert_eq!(case.reported(), 1);
    case.world.assert_conserved();
}

/// A session of an SGW-U with two bearers upstream, that drops its downlink and notifies the nodes upstream with every
/// second packet, and control if it `reports`.
fn dropping(reports: bool) -> SessionRules {
    let mut rules = relaying(session());
    let (teid, address) = UPSTREAM[1];
    let mut parameters = ForwardingParameters::new(DestinationInterface::Core);
    parameters.outer_header_creation = Some(OuterHeaderCreation::gtpu_ipv4(Teid(teid), address));
    let far = Far {
        id: FarId(3),
        action: ApplyAction::FORW,
        forwarding: Some(parameters),
        optional: Default::default(),
        bar: None,
    };
    rules.create_far(far).expect("it is new");
    let first = rules.pdr(PdrId(1)).expect("it is there").clone();
    let mut pdi = first.pdi.clone();
    pdi.f_teid = Some(testing::f_teid(TEID + 1));
    let second = rules::model::Pdr {
        id: PdrId(3),
        far: Some(FarId(3)),
        pdi,
        ..first
    };
    rules.create_pdr(second).expect("it is new");
    let terms = UrrTerms {
        dropped_dl_threshold: Some(DroppedDlThreshold {
            packets: Some(2),
            octets: None,
        }),
        ..UrrTerms::NONE
    };
    let urr = Urr {
        information: MeasurementInformation::SSPOC,
        triggers: if reports {
            ReportingTriggers::DROTH
        } else {
            ReportingTriggers::default()
        },
        terms: Some(Box::new(terms)),
        ..Urr::volume(UrrId(9))
    };
    rules.create_urr(urr).expect("it is new");
    let update = PdrUpdate {
        urrs: Some(vec![UrrId(9)]),
        ..PdrUpdate::new(PdrId(2))
    };
    rules.update_pdr(update).expect("it is there");
    let update = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
    rules
}

#[test]
fn nodes_upstream_are_notified_in_each_tunnel_at_the_threshold_of_drops() {
    for reports in [false, true] {
        let mut case = Case::new(dropping(reports), |_| {});
        assert!(case.world.send(1, &to_ue()).is_empty());
        let out = case.world.send(1, &to_ue());
        let messages: Vec<_> = out.iter().map(|(_, frame)| &frame[30..]).collect();
        for (message, (teid, address)) in messages.iter().zip(UPSTREAM) {
            // TS 29.281 §5.1: no sequence number, no extension; §7.3.3 and §8.7.
            let expected = [
                &address.octets()[..],
                &[0x08, 0x68, 0x08, 0x68, 0, 20, 0, 0],
                &[0x30, 253, 0, 4],
                &teid.to_be_bytes(),
                &PAUSE,
            ]
            .concat();
            assert_eq!(message[..expected.len()], expected);
        }
        assert_eq!(messages.len(), 2);
        let reported = events(&mut case.world);
        let dropped = reported
            .iter()
            .filter(|event| matches!(event, Event::DroppedReached { .. }));
        assert_eq!(dropped.count(), usize::from(reports));
        // The threshold starts again, and with it the reports.
        let again = [0, 1].map(|_| case.world.send(1, &to_ue()).len());
        assert_eq!(again, [0, 2]);
        case.world.assert_conserved();
    }
}

#[test]
fn nodes_upstream_are_notified_at_a_bounded_rate() {
    let mut case = Case::new(dropping(true), |config| {
        config.relays = worker::PacketRates::new(100, 3)
    });
    let sent: usize = (0..20).map(|_| case.world.send(1, &to_ue()).len()).sum();
    assert_eq!(sent, 3 * 2);
    assert_eq!(case.world.drops()[DropReason::RelayLimit.index()], 7);
    case.world.now = case.world.now + Duration::from_secs(2);
    let sent: usize = (0..2).map(|_| case.world.send(1, &to_ue()).len()).sum();
    assert_eq!(sent, 2);
    case.world.assert_conserved();
}

#[test]
fn a_message_upstream_waits_for_its_next_hop() {
    let mut case = Case::new(dropping(true), |_| {});
    let hop = "10.0.9.254".parse().expect("an address");
    case.world.lose(flow::InstanceId(2), hop);
    assert_eq!([0, 1].map(|_| case.world.send(1, &to_ue()).len()), [0, 0]);
    case.world.meet(flow::InstanceId(2), hop);
    let out = case.world.take();
    assert!(out.len() == 2 && out.iter().all(|(_, frame)| frame[43] == TUNNEL_STATUS));
    case.world.assert_conserved();
}
