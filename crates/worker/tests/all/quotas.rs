//! Exhausted quotas: what is redirected, what is forwarded, what is buffered; and what is counted before all of that.

use crate::common;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flow::{Bounds, CounterLimit, LimitAction, UrrCount, Volumes};
use packet::DropReason;
use packet::build::packet as build;
use packet::tcp::flags::{ACK, SYN};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange, SessionImage};
use rules::model::{
    Application, ApplyAction, DestinationInterface, Edit, Far, FarId, ForwardingParameters, Gate,
    MeasurementInformation, OptionalActions, PdrUpdate, QerId, QerUpdate, Redirect, SdfFilter, Urr, UrrId,
    UrrTerms, UrrTermsUpdate, UrrUpdate,
};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, tunnelled};
use worker::BufferLimits;

use common::World;
use common::one_session::{REMOTE, TEID, from_ue, reason, session, to_ue, uplink};

const URR: UrrId = UrrId(1);
/// The FAR for Quota Action.
const OTHER: FarId = FarId(3);
const PORTAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

/// A session whose URR has a quota.
struct Case {
    world: World,
    image: Box<SessionImage>,
}

impl Case {
    /// With a quota in octets, the rest as `edit` says.
    fn new(octets: u64, edit: impl FnOnce(&mut SessionRules)) -> Self {
        let mut world = World::with(testing::network(), 1, |config| {
            config.buffers = BufferLimits {
                queues: 16,
                packets: 12,
                octets: 100_000,
                per_queue: 8,
                per_session: 12,
                per_session_octets: 100_000,
                timeout: Duration::from_secs(10),
            };
        });
        let mut rules = session();
        edit(&mut rules);
        let mut image = world.image(1, &Arc::new(rules), None).expect("it compiles");
        image.block.get_or_insert_default().bounds = vec![quota(octets)];
        world
            .apply(0, SessionChange::Install(image.clone()))
            .expect("there is room");
        Self { world, image }
    }

    /// With this FAR for Quota Action.
    fn with_action(octets: u64, far: Far) -> Self {
        Self::new(octets, |rules| {
            rules.create_far(far).expect("it is new");
            set_terms(rules, |terms| terms.quota_action = Edit::Set(OTHER));
        })
    }

    fn change(&mut self, octets: u64, edit: impl FnOnce(&mut SessionRules)) {
        let mut rules = (*self.image.rules).clone();
        edit(&mut rules);
        let image = self.world.image(1, &Arc::new(rules), Some(&self.image));
        self.image = image.expect("it compiles");
        self.image.block.get_or_insert_default().bounds = vec![quota(octets)];
        let change = SessionChange::Replace(self.image.clone(), ImmediateActions::default());
        self.world.apply(0, change).expect("it is there");
    }

    fn grant(&mut self, octets: u64) {
        let change = SessionChange::Bound(self.image.session, vec![(URR.into(), quota(octets))]);
        self.world.apply(0, change).expect("it is there");
        self.world.poll();
    }

    fn counted(&mut self) -> UrrCount {
        self.world.query(0, self.image.session).counters[0].1
    }

    /// The ports that what becomes of a packet leaves by.
    fn send(&mut self, port: u16, packet: &[u8]) -> Vec<u16> {
        let sent = self.world.send(port, packet);
        sent.into_iter().map(|(port, _)| port.0).collect()
    }
}

fn quota(octets: u64) -> Bounds {
    Bounds {
        watermarks: Volumes::of_total(1 << 50),
        limit: Some(CounterLimit {
            octets: Volumes::of_total(octets),
            action: LimitAction::Drop,
        }),
    }
}

fn set_terms(rules: &mut SessionRules, edit: impl FnOnce(&mut UrrTermsUpdate)) {
    let mut terms = UrrTermsUpdate::default();
    edit(&mut terms);
    let update = UrrUpdate {
        terms: Some(Box::new(terms)),
        ..UrrUpdate::new(URR)
    };
    rules.update_urr(update).expect("it is there");
}

fn far(action: ApplyAction) -> Far {
    Far {
        action,
        forwarding: None,
        ..testing::forward(OTHER.0, ForwardingParameters::new(DestinationInterface::Core))
    }
}

fn redirecting() -> Far {
    Far {
        optional: OptionalActions {
            redirect: Redirect::new(b"http://portal.example/"),
            ..OptionalActions::default()
        }
        .into(),
        ..testing::forward(OTHER.0, ForwardingParameters::new(DestinationInterface::Access))
    }
}

fn filter(text: &str) -> SdfFilter {
    SdfFilter {
        flow_description: Some(text.parse().expect("a flow description")),
        ..SdfFilter::default()
    }
}

fn to_portal() -> Vec<u8> {
    let inner = UserPacket::udp(UE, PORTAL, 1000, 53).bytes();
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner)
}

fn syn() -> Vec<u8> {
    let [from, to] = [(IpAddr::V4(UE), 40_000), (IpAddr::V4(REMOTE), 80)].map(SocketAddr::from);
    let inner = build::tcp(from, to, 7, SYN, &[]).expect("it is short");
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner)
}

#[test]
fn the_packet_that_does_not_fit_and_those_behind_it_go_by_the_other_far_uncounted() {
    let octets = from_ue().len() as u64;
    // To another data network than the session's own.
    let mut elsewhere = ForwardingParameters::new(DestinationInterface::Core);
    elsewhere.instance = Some(testing::OTHER_N6);
    let mut case = Case::with_action(octets + 1, testing::forward(OTHER.0, elsewhere));
    assert_eq!(case.send(0, &uplink()), [1]);
    let meter = case.counted();
    assert_eq!(case.send(0, &uplink()), [testing::OTHER_N6.0]);
    assert_eq!(case.send(0, &uplink()), [testing::OTHER_N6.0]);
    assert_eq!(case.counted(), meter);
    let forwarded = case.world.workers[0].stats().directions[0];
    assert_eq!((forwarded.matched.packets, forwarded.forwarded.packets), (3, 3));
    case.grant(4 * octets);
    assert_eq!(case.send(0, &uplink()), [1]);
    assert_eq!(case.counted().ul_packets, 2);
    case.world.assert_conserved();
}

#[test]
fn of_two_quotas_the_first_urrs_far_acts_also_on_the_packet_that_uses_up_the_other() {
    const SECOND: UrrId = UrrId(2);
    const NOWHERE: FarId = FarId(4);
    let octets = from_ue().len() as u64;
    let to_core = ForwardingParameters::new(DestinationInterface::Core);
    let mut case = Case::new(0, |rules| {
        let fars = [
            testing::forward(OTHER.0, to_core),
            Far {
                id: NOWHERE,
                ..far(ApplyAction::DROP)
            },
        ];
        rules.create_fars(fars.into()).expect("they are new");
        set_terms(rules, |terms| terms.quota_action = Edit::Set(OTHER));
        let terms = UrrTerms {
            quota_action: Some(NOWHERE),
            ..UrrTerms::NONE
        };
        let second = Urr {
            terms: Some(Box::new(terms)),
            ..Urr::volume(SECOND)
        };
        rules.create_urr(second).expect("it is new");
        let pdrs: Vec<_> = rules.pdrs().iter().map(|pdr| pdr.id).collect();
        for id in pdrs {
            let both = PdrUpdate {
                urrs: Some(vec![URR, SECOND]),
                ..PdrUpdate::new(id)
            };
            rules.update_pdr(both).expect("it is there");
        }
    });
    let bounds = vec![(SECOND.into(), quota(octets + 1))];
    let change = SessionChange::Bound(case.image.session, bounds);
    case.world.apply(0, change).expect("it is there");
    // Nothing fits the first; the second packet does not fit the second either.
    for _ in 0..3 {
        assert_eq!(case.send(0, &uplink()), [1]);
    }
    let counted = case.world.query(0, case.image.session).counters;
    let packets: Vec<u64> = counted.iter().map(|(_, count)| count.ul_packets).collect();
    assert_eq!(packets, [0, 1]);
    case.world.assert_conserved();
}

#[test]
fn http_is_redirected_when_the_quota_is_over_and_the_answer_reaches_the_ue() {
    let mut case = Case::with_action(0, redirecting());
    let mut sent = case.world.send(0, &syn());
    let (port, frame) = sent.pop().expect("an answer");
    assert!(sent.is_empty() && port.0 == 0, "to the gNB");
    let flags = frame[frame.len() - 44 + 20 + 13];
    assert_eq!(flags, SYN | ACK);
    assert_eq!(case.counted(), UrrCount::default());
    assert_eq!(
        reason(&mut case.world, 0, &uplink()),
        Some(DropReason::NotRedirected)
    );
    // What comes from the data network is no answer of ours.
    assert_eq!(
        reason(&mut case.world, 1, &to_ue()),
        Some(DropReason::NotRedirected)
    );
    // A FAR that is changed acts as it is now; when it is gone there is no other way.
    case.change(0, |rules| {
        let mut drop = rules::model::FarUpdate::new(OTHER);
        drop.action = Some(ApplyAction::DROP);
        rules.update_far(drop).expect("it is there");
    });
    assert_eq!(reason(&mut case.world, 0, &syn()), Some(DropReason::FarDrop));
    case.change(0, |rules| {
        rules.remove_far(OTHER).expect("it is there");
    });
    assert_eq!(
        reason(&mut case.world, 0, &syn()),
        Some(DropReason::QuotaExhausted)
    );
    case.world.assert_conserved();
}

#[test]
fn what_is_exempt_is_forwarded_both_ways_and_nothing_else() {
    for as_application in [false, true] {
        let mut case = Case::new(0, |rules| {
            let text = "permit out ip from 192.0.2.99 to assigned";
            set_terms(rules, |terms| {
                if as_application {
                    terms.exempt_applications = Some(vec![Application {
                        id: b"portal"[..].into(),
                        flows: [text.parse().expect("a flow")].into(),
                        named: Arc::default(),
                    }]);
                } else {
                    terms.exempt_filters = Some(vec![filter(text)]);
                }
            });
        });
        assert_eq!(case.send(0, &to_portal()), [1]);
        let down = UserPacket::udp(PORTAL, UE, 53, 1000).bytes();
        assert_eq!(case.send(1, &down), [0]);
        assert_eq!(
            reason(&mut case.world, 0, &uplink()),
            Some(DropReason::QuotaExhausted)
        );
        assert_eq!(
            case.counted(),
            UrrCount::default(),
            "it measures nothing any more"
        );
        case.grant(10_000);
        assert_eq!(case.send(0, &to_portal()), [1]);
        assert_eq!(case.counted().ul_packets, 1, "while there is a quota it is used");
        case.world.assert_conserved();
    }
}

#[test]
fn what_waits_for_a_quota_goes_its_own_way_with_the_next() {
    let mut case = Case::with_action(0, far(ApplyAction::BUFF));
    assert!(case.send(1, &to_ue()).is_empty() && case.send(1, &to_ue()).is_empty());
    assert_eq!(case.world.workers[0].stats().buffered, 2);
    // A quota that is none lets nothing go.
    case.grant(0);
    assert!(case.world.take().is_empty());
    assert_eq!(case.world.workers[0].stats().buffered, 2);
    case.grant(10_000);
    assert_eq!(case.world.take().len(), 2);
    assert_eq!(case.counted().dl_packets, 2);
    case.world.assert_conserved();
}

#[test]
fn packets_count_before_qos_once_whatever_becomes_of_them() {
    let mut case = Case::new(1 << 40, |rules| {
        let update = UrrUpdate {
            information: Some(MeasurementInformation::MBQE),
            ..UrrUpdate::new(URR)
        };
        rules.update_urr(update).expect("it is there");
    });
    assert_eq!(case.send(0, &uplink()), [1]);
    let gates = |gate| {
        move |rules: &mut SessionRules| {
            let mut update = QerUpdate::new(QerId(1));
            update.gates = Some((gate, gate));
            rules.update_qer(update).expect("it is there");
        }
    };
    let before = |case: &mut Case| {
        let usage = case.world.query(0, case.image.session);
        usage.before_qos.first().map(|(urr, count)| {
            assert_eq!(*urr, URR);
            (count.ul_packets, count.ul_octets, count.dl_packets)
        })
    };
    let octets = from_ue().len() as u64;
    case.change(1 << 40, gates(Gate::Closed));
    assert_eq!(
        reason(&mut case.world, 0, &uplink()),
        Some(DropReason::GateClosed)
    );
    // What a change found was reported with it, and each is reported once.
    assert_eq!(before(&mut case), Some((1, octets, 0)));
    assert_eq!(before(&mut case), None);
    case.change(1 << 40, |rules| {
        gates(Gate::Open)(rules);
        let mut buffer = rules::model::FarUpdate::new(FarId(2));
        buffer.action = Some(ApplyAction::BUFF);
        rules.update_far(buffer).expect("it is there");
    });
    assert!(case.send(1, &to_ue()).is_empty());
    assert_eq!(before(&mut case), Some((0, 0, 1)));
    case.change(1 << 40, |rules| {
        let mut forward = rules::model::FarUpdate::new(FarId(2));
        forward.action = Some(ApplyAction::FORW);
        rules.update_far(forward).expect("it is there");
    });
    case.world.poll();
    assert_eq!(case.world.take().len(), 1);
    assert_eq!(before(&mut case), None, "it was counted when it came");
    assert_eq!((case.counted().ul_packets, case.counted().dl_packets), (1, 1));
    // A quota is no enforcement that this measurement stops for.
    case.grant(0);
    assert_eq!(
        reason(&mut case.world, 0, &uplink()),
        Some(DropReason::QuotaExhausted)
    );
    assert_eq!(before(&mut case), Some((1, octets, 0)));
    case.world.assert_conserved();
}
