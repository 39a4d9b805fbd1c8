//! What is unsolicited: packets through a live mapping from addresses that the UE has not sent to by it.

use super::*;
use flow::{Bounds, CounterLimit, LimitAction, Volumes};
use nat::pools::UnsolicitedPolicy;
use nat::pools::fixed::Forward;
use rules::image::{DataStatus, SessionImage};
use rules::model::{
    AccessAction, AccessList, AccessRule, ApplyAction, DestinationInterface, DroppedDlThreshold, Edit,
    FarUpdate, ForwardingParametersUpdate, Gate, MeasurementInformation, OuterHeaderCreation, PdrId,
    PdrUpdate, QerId, QerUpdate, ReportingTriggers, SdfFilter, Urr, UrrId, UrrTerms, UrrUpdate,
};
use rules::network::BoundAccessList;
use worker::{BufferLimits, TracedUnsolicited};

use crate::common::buffering::{BUFF, LIMITS, with};
use crate::common::one_session::events;

const NEITHER: UnsolicitedPolicy = UnsolicitedPolicy {
    pages: false,
    charged: false,
};
const ALL: [UnsolicitedPolicy; 4] = [
    NEITHER,
    UnsolicitedPolicy {
        pages: true,
        charged: false,
    },
    UnsolicitedPolicy {
        pages: false,
        charged: true,
    },
    UnsolicitedPolicy::AS_OTHERS,
];

/// A session of a pool, which has sent to [`REMOTE`] by a mapping, and not to [`ROUTER`].
struct Case {
    world: World,
    image: Box<SessionImage>,
    public: End,
}

fn network_of(policy: UnsolicitedPolicy) -> Network {
    let network = testing::network();
    let mut bound = testing::public_pool(&network, testing::N6, PUBLIC..=Ipv4Addr::new(198, 51, 100, 1));
    bound.pool.unsolicited = policy;
    bound.pool.limits = limits();
    bound.pool.fixed.forwards = vec![Forward {
        ue: UE,
        port: 8_080,
        protocol: proto::UDP,
        public: PUBLIC,
        public_port: 2_600,
    }];
    network.with_nat(vec![bound]).expect("a pool")
}

impl Case {
    fn new(policy: UnsolicitedPolicy) -> Self {
        Self::with(policy, LIMITS, |_| {})
    }

    fn with(policy: UnsolicitedPolicy, buffers: BufferLimits, edit: impl FnOnce(&mut SessionRules)) -> Self {
        Self::within(network_of(policy), buffers, edit)
    }

    fn within(network: Network, buffers: BufferLimits, edit: impl FnOnce(&mut SessionRules)) -> Self {
        let mut rules = translated(session());
        edit(&mut rules);
        let mut world = World::with(network, 1, |config| {
            config.buffers = buffers;
            config.fragments = FragmentLimits::default();
        });
        let image = world.install(1, rules);
        give(&mut world, 1, 3);
        let public = public(&mut world, proto::UDP, 1_000);
        Self { world, image, public }
    }

    fn act(&mut self, action: ApplyAction) {
        self.edit(|rules| *rules = with(rules, action));
    }

    fn edit(&mut self, edit: impl FnOnce(&mut SessionRules)) {
        self.image = self.world.change(&self.image, ImmediateActions::default(), edit);
    }

    fn from(&self, host: Ipv4Addr) -> Vec<u8> {
        packet(proto::UDP, (host, 53), self.public)
    }

    /// Why a packet of a host to the mapping is dropped, if it is.
    fn receives(&mut self, host: Ipv4Addr) -> Option<DropReason> {
        let packet = self.from(host);
        reason(&mut self.world, 1, &packet)
    }

    /// Downlink packets of the session's URR.
    fn counted(&mut self) -> u64 {
        self.world.query(0, SessionIndex(1)).counters[0].1.dl_packets
    }

    fn sends_to(&mut self, host: Ipv4Addr) {
        let sent = only(
            &mut self.world,
            0,
            &in_tunnel(&packet(proto::UDP, (UE, 1_000), (host, 9))),
        );
        assert_eq!(source(&sent), self.public);
    }

    /// How many Downlink Data Reports there are since.
    fn reported(&mut self) -> usize {
        let is_report = |event: &Event| matches!(event, Event::DownlinkData { .. });
        events(&mut self.world)
            .iter()
            .filter(|event| is_report(event))
            .count()
    }
}

#[test]
fn it_reaches_the_ue_and_counts_where_the_pool_says_so() {
    for policy in ALL {
        let mut case = Case::new(policy);
        assert_eq!((case.receives(REMOTE), case.counted()), (None, 1), "{policy:?}");
        let own = 1 + u64::from(policy.charged);
        assert_eq!((case.receives(ROUTER), case.counted()), (None, own), "{policy:?}");
        // Once the UE has sent to it, it is as all others.
        case.sends_to(ROUTER);
        assert_eq!(
            (case.receives(ROUTER), case.counted()),
            (None, own + 1),
            "{policy:?}"
        );
        // By another mapping it has not.
        case.public = public(&mut case.world, proto::UDP, 1_001);
        let last = own + 1 + u64::from(policy.charged);
        assert_eq!(
            (case.receives(ROUTER), case.counted()),
            (None, last),
            "{policy:?}"
        );
        let told = if policy == UnsolicitedPolicy::AS_OTHERS {
            0
        } else {
            2
        };
        let counts = case.world.workers[0].nat_counts().mappings;
        assert_eq!(counts.unsolicited_admitted, told, "{policy:?}");
        let stats = case.world.workers[0].stats().directions[1];
        assert_eq!((stats.matched.packets, stats.forwarded.packets), (4, 4));
        case.world.assert_conserved();
    }
}

#[test]
fn it_pages_an_idle_ue_where_the_pool_says_so() {
    for policy in ALL {
        let mut case = Case::new(policy);
        case.act(BUFF.with(ApplyAction::NOCP));
        let ends = (!policy.pages).then_some(DropReason::NatUnsolicited);
        assert_eq!(case.receives(ROUTER), ends, "{policy:?}");
        assert_eq!(case.reported(), usize::from(policy.pages), "{policy:?}");
        let waiting = case.world.workers[0].stats().buffered;
        assert_eq!(waiting, u64::from(policy.pages), "{policy:?}");
        // What the UE has asked for pages it, and waits.
        assert_eq!(case.receives(REMOTE), None, "{policy:?}");
        assert_eq!(case.reported(), usize::from(!policy.pages), "{policy:?}");
        assert_eq!(case.world.workers[0].stats().buffered, waiting + 1, "{policy:?}");
        assert_eq!(case.counted(), 0, "what waits is not counted");
        case.act(ApplyAction::FORW);
        assert_eq!(case.world.take().len() as u64, waiting + 1, "{policy:?}");
        let own = u64::from(policy.pages && policy.charged);
        assert_eq!(case.counted(), 1 + own, "{policy:?}");
        case.world.assert_conserved();
    }
}

/// A CP function that buffers itself pages the UE for what it gets (TS 29.244 §5.3.3.2).
#[test]
fn it_goes_to_no_cp_function_unless_it_may_page() {
    for policy in ALL {
        let mut case = Case::new(policy);
        case.edit(|rules| {
            let forwarding = ForwardingParametersUpdate {
                destination: Some(DestinationInterface::CpFunction),
                outer_header_creation: Edit::Set(OuterHeaderCreation::gtpu_ipv4(Teid(9), testing::GNB)),
                ..ForwardingParametersUpdate::default()
            };
            let update = FarUpdate {
                forwarding: Edit::Set(forwarding),
                ..FarUpdate::new(FarId(2))
            };
            rules.update_far(update).expect("it is there");
        });
        assert_eq!(case.receives(REMOTE), None, "{policy:?}");
        let ends = (!policy.pages).then_some(DropReason::NatUnsolicited);
        assert_eq!(case.receives(ROUTER), ends, "{policy:?}");
        case.world.assert_conserved();
    }
}

/// Without room for packets that wait the first one is reported all the same.
#[test]
fn it_pages_nobody_where_nothing_can_wait_either() {
    for policy in ALL {
        let mut case = Case::with(policy, BufferLimits { packets: 0, ..LIMITS }, |_| {});
        case.act(BUFF.with(ApplyAction::NOCP));
        let why = if policy.pages {
            DropReason::FarBuffer
        } else {
            DropReason::NatUnsolicited
        };
        assert_eq!(case.receives(ROUTER), Some(why));
        assert_eq!(case.reported(), usize::from(policy.pages), "{policy:?}");
        case.world.assert_conserved();
    }
}

#[test]
fn it_is_told_which_of_a_burst_it_is() {
    let mut case = Case::new(NEITHER);
    let frames: Vec<Vec<u8>> = (0..40)
        .map(|number| case.from(if number % 3 == 0 { ROUTER } else { REMOTE }))
        .collect();
    let wire = case.world.wires.to(flow::WorkerId(0), flow::PortId(1));
    for frame in &frames {
        let frame = common::frame(1, frame);
        wire.push(worker::mem::MemBuf::new(&frame))
            .expect("there is room");
    }
    case.world.poll();
    assert_eq!(case.world.take().len(), 40);
    assert_eq!(case.counted(), 26);
}

#[test]
fn errors_about_what_the_ue_has_sent_are_wanted_whoever_sends_them() {
    let mut case = Case::new(NEITHER);
    let public = case.public;
    let mut error_about = |to: Ipv4Addr, counted| {
        let quoted = packet(proto::UDP, public, (to, 53));
        let error = error(ROUTER, public.0, &quoted);
        assert_eq!(reason(&mut case.world, 1, &error), None);
        assert_eq!(case.counted(), counted);
    };
    error_about(REMOTE, 1);
    error_about(ROUTER, 1);
}

/// An attacker who knows where the UE has sent to may quote that, from an own address.
#[test]
fn errors_page_an_idle_ue_where_it_has_sent_to_their_senders() {
    for policy in ALL {
        let mut case = Case::new(policy);
        case.act(BUFF.with(ApplyAction::NOCP));
        let public = case.public;
        let of = |sender: Ipv4Addr, case: &mut Case| {
            let quoted = packet(proto::UDP, public, (REMOTE, 53));
            let why = reason(&mut case.world, 1, &error(sender, public.0, &quoted));
            (why, case.reported())
        };
        let ends = (!policy.pages).then_some(DropReason::NatUnsolicited);
        assert_eq!(
            of(ROUTER, &mut case),
            (ends, usize::from(policy.pages)),
            "{policy:?}"
        );
        assert_eq!(
            of(REMOTE, &mut case),
            (None, usize::from(!policy.pages)),
            "{policy:?}"
        );
        case.act(ApplyAction::FORW);
        let waited = 1 + u64::from(policy.pages);
        assert_eq!(case.counted(), waited, "{policy:?}: all are charged");
        case.world.assert_conserved();
    }
}

#[test]
fn fragments_count_as_their_first_one() {
    let mut case = Case::new(NEITHER);
    for (host, counted) in [(REMOTE, 2), (ROUTER, 2)] {
        for fragment in fragments((host, 53), case.public) {
            assert_eq!(reason(&mut case.world, 1, &fragment), None);
        }
        assert_eq!(case.counted(), counted);
    }
}

/// A datagram whose first fragment is lost is not answered: the others make no destination known.
#[test]
fn a_datagram_in_fragments_makes_its_destination_known_by_the_first_one() {
    for (order, counted) in [(&[0, 1][..], 1), (&[1, 0], 1), (&[1], 0)] {
        let mut case = Case::new(NEITHER);
        let pieces = fragments((UE, 1_000), (ROUTER, 9));
        let sent: usize = order
            .iter()
            .map(|piece| case.world.send(0, &in_tunnel(&pieces[*piece])).len())
            .sum();
        assert_eq!(sent, order.len());
        assert_eq!(
            (case.receives(ROUTER), case.counted()),
            (None, counted),
            "{order:?}"
        );
        case.world.assert_conserved();
    }
}

#[test]
fn pings_are_answered_by_whom_they_were_sent_to() {
    let mut case = Case::new(NEITHER);
    let ping = make::echo_request(UE.into(), REMOTE.into(), 5, 3, b"some payload").expect("short");
    let sent = only(&mut case.world, 0, &in_tunnel(&ping));
    let id = u16::from_be_bytes([sent[24], sent[25]]);
    for (host, counted) in [(ROUTER, 0), (REMOTE, 1)] {
        let mut answer =
            make::echo_request(host.into(), PUBLIC.into(), id, 3, b"some payload").expect("short");
        answer[20] = 0;
        answer[22..24].fill(0);
        let sum = checksum::of(&answer[20..]);
        answer[22..24].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(
            (reason(&mut case.world, 1, &answer), case.counted()),
            (None, counted)
        );
    }
}

/// No ping comes to a UE, so it has none to answer: a reply would answer what it gets for nothing.
#[test]
fn a_ue_answers_no_pings() {
    let mut case = Case::new(NEITHER);
    let ping = |from: Ipv4Addr, to: Ipv4Addr, id| {
        make::echo_request(from.into(), to.into(), id, 3, b"some payload").expect("short")
    };
    let sent = only(&mut case.world, 0, &in_tunnel(&ping(UE, REMOTE, 5)));
    let id = u16::from_be_bytes([sent[24], sent[25]]);
    assert_eq!(
        reason(&mut case.world, 1, &ping(ROUTER, PUBLIC, id)),
        Some(DropReason::NatNoMapping)
    );
    let mut reply = ping(UE, ROUTER, 5);
    reply[20] = 0;
    reply[22..24].fill(0);
    let sum = checksum::of(&reply[20..]);
    reply[22..24].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(
        reason(&mut case.world, 0, &in_tunnel(&reply)),
        Some(DropReason::NatNoMapping)
    );
}

#[test]
fn a_forwarded_port_is_there_for_all() {
    let mut case = Case::new(NEITHER);
    case.public = (PUBLIC, 2_600);
    assert_eq!((case.receives(ROUTER), case.counted()), (None, 1));
    case.act(BUFF.with(ApplyAction::NOCP));
    assert_eq!((case.receives(ROUTER), case.reported()), (None, 1));
}

#[test]
fn rates_and_gates_hold_for_it() {
    let mut case = Case::new(NEITHER);
    case.edit(|rules| {
        let update = QerUpdate {
            gates: Some((Gate::Open, Gate::Closed)),
            ..QerUpdate::new(QerId(1))
        };
        rules.update_qer(update).expect("it is there");
    });
    assert_eq!(case.receives(ROUTER), Some(DropReason::GateClosed));
}

/// What is free is not free beyond a quota.
#[test]
fn it_ends_where_a_quota_is_used_up() {
    for policy in ALL {
        let mut case = Case::new(policy);
        let mut image = case.image.clone();
        let octets = case.from(REMOTE).len() as u64 * 2;
        let quota = Bounds {
            limit: Some(CounterLimit {
                octets: Volumes::of_total(octets),
                action: LimitAction::Drop,
            }),
            ..Bounds::NONE
        };
        image.block.get_or_insert_default().bounds = vec![quota];
        let change = SessionChange::Replace(image, ImmediateActions::default());
        case.world.apply(0, change).expect("it is there");
        // The UE has sent one packet.
        assert_eq!(case.receives(ROUTER), None, "{policy:?}");
        while case.receives(REMOTE).is_none() {}
        assert_eq!(
            case.receives(REMOTE),
            Some(DropReason::QuotaExhausted),
            "{policy:?}"
        );
        let why = if policy.charged {
            DropReason::QuotaExhausted
        } else {
            DropReason::NatUnsolicited
        };
        assert_eq!(case.receives(ROUTER), Some(why), "{policy:?}");
        case.world.assert_conserved();
    }
}

#[test]
fn it_counts_before_qos_no_more_than_behind() {
    for (policy, counted) in [(NEITHER, 1), (UnsolicitedPolicy::AS_OTHERS, 2)] {
        let mut case = Case::with(policy, LIMITS, |rules| {
            let update = UrrUpdate {
                information: Some(MeasurementInformation::MBQE),
                ..UrrUpdate::new(UrrId(1))
            };
            rules.update_urr(update).expect("it is there");
        });
        assert_eq!((case.receives(REMOTE), case.receives(ROUTER)), (None, None));
        let usage = case.world.query(0, SessionIndex(1));
        let all = usage.counters.iter().chain(&usage.before_qos);
        let counts: Vec<u64> = all.map(|(_, count)| count.dl_packets).collect();
        assert_eq!(counts.iter().max(), Some(&counted), "{counts:?}");
    }
}

/// What ends since it pages no UE was not counted when it came.
#[test]
fn it_counts_before_qos_only_where_it_may_wait() {
    for policy in ALL {
        let mut case = Case::with(policy, LIMITS, |rules| {
            let update = UrrUpdate {
                information: Some(MeasurementInformation::MBQE),
                ..UrrUpdate::new(UrrId(1))
            };
            rules.update_urr(update).expect("it is there");
        });
        case.act(BUFF.with(ApplyAction::NOCP));
        let ends = (!policy.pages).then_some(DropReason::NatUnsolicited);
        assert_eq!(case.receives(ROUTER), ends, "{policy:?}");
        let usage = case.world.query(0, SessionIndex(1));
        let all = usage.counters.iter().chain(&usage.before_qos);
        let counted: u64 = all.map(|(_, count)| count.dl_packets).sum();
        assert_eq!(counted, u64::from(policy.pages && policy.charged), "{policy:?}");
    }
}

/// A Dropped DL Traffic Threshold is of what would have been charged.
#[test]
fn it_counts_as_dropped_where_it_is_charged() {
    for policy in ALL {
        let mut case = Case::with(policy, LIMITS, |rules| {
            let terms = UrrTerms {
                dropped_dl_threshold: Some(DroppedDlThreshold {
                    packets: Some(1),
                    octets: None,
                }),
                ..UrrTerms::NONE
            };
            let urr = Urr {
                triggers: ReportingTriggers::DROTH,
                terms: Some(Box::new(terms)),
                ..Urr::volume(UrrId(9))
            };
            rules.create_urr(urr).expect("it is new");
            let update = PdrUpdate {
                urrs: Some(vec![UrrId(1), UrrId(9)]),
                ..PdrUpdate::new(PdrId(2))
            };
            rules.update_pdr(update).expect("it is there");
        });
        case.act(ApplyAction::DROP);
        events(&mut case.world);
        for (host, reports) in [(ROUTER, usize::from(policy.charged)), (REMOTE, 1)] {
            assert_eq!(case.receives(host), Some(DropReason::FarDrop));
            let events = events(&mut case.world);
            let is_reached = |event: &&Event| matches!(event, Event::DroppedReached { .. });
            assert_eq!(
                events.iter().filter(is_reached).count(),
                reports,
                "{policy:?} {host}"
            );
        }
    }
}

#[test]
fn an_access_list_counts_what_it_denies_by_its_rule() {
    for policy in ALL {
        let rule = AccessRule {
            name: "router".into(),
            action: AccessAction::Deny,
            direction: None,
            filters: vec![SdfFilter {
                flow_description: format!("permit out 17 from {ROUTER} to assigned").parse().ok(),
                ..SdfFilter::default()
            }],
            detection: Default::default(),
        };
        let list = AccessList::new("list", vec![rule], AccessAction::Permit).expect("few");
        let bound = BoundAccessList {
            list: Arc::new(list),
            scope: SessionScope::default(),
        };
        let network = network_of(policy)
            .with_access_lists(vec![bound])
            .expect("one list");
        let list = network.access_lists().of(None, None).cloned();
        let mut case = Case::within(network, LIMITS, |rules| {
            rules.set_local_policy(LocalPolicy {
                nat: Some(NatPoolId(0)),
                access_list: list,
                ..LocalPolicy::default()
            });
        });
        for packets in 1..=3 {
            assert_eq!(case.receives(ROUTER), Some(DropReason::AccessList), "{policy:?}");
            let counts = case.world.workers[0].access_counts()[1];
            assert_eq!((counts.flows, counts.packets), (1, packets), "{policy:?}");
        }
        case.world.assert_conserved();
    }
}

#[test]
fn a_session_that_nothing_else_reaches_is_inactive() {
    for (policy, is_inactive) in [(NEITHER, true), (UnsolicitedPolicy::AS_OTHERS, false)] {
        for action in [ApplyAction::FORW, ApplyAction::DROP, BUFF] {
            let mut case = Case::with(policy, LIMITS, |rules| rules.set_inactivity_timer(10));
            case.act(action);
            events(&mut case.world);
            let mut reported = 0;
            for _ in 0..15 {
                case.world.now = case.world.now + Duration::from_secs(1);
                let packet = case.from(ROUTER);
                case.world.send(1, &packet);
                let events = events(&mut case.world);
                let is_it = |event: &&Event| matches!(event, Event::Inactive { .. });
                reported += events.iter().filter(is_it).count();
            }
            assert_eq!(reported, usize::from(is_inactive), "{policy:?} {action:?}");
        }
    }
}

/// Of what FARs drop, the first packet may be reported.
#[test]
fn that_it_is_dropped_is_no_news() {
    for policy in ALL {
        let mut case = Case::new(policy);
        case.act(ApplyAction::DROP.with(ApplyAction::DDPN));
        events(&mut case.world);
        assert_eq!(case.receives(ROUTER), Some(DropReason::FarDrop));
        assert_eq!(case.reported(), usize::from(policy.pages), "{policy:?}");
        assert_eq!(case.receives(REMOTE), Some(DropReason::FarDrop));
        let status = |event: Event| match event {
            Event::DownlinkData { status, .. } => status,
            _ => None,
        };
        let statuses: Vec<_> = events(&mut case.world).into_iter().filter_map(status).collect();
        let expected = if policy.pages {
            Vec::new()
        } else {
            vec![DataStatus::Discarded]
        };
        assert_eq!(statuses, expected, "{policy:?}");
    }
}

#[test]
fn another_ue_is_a_sender_as_any() {
    let mut case = Case::new(NEITHER);
    let mut other = translated(session());
    of_ue(&mut other, OTHER_TEID, OTHER_UE);
    let image = case.world.image(2, &Arc::new(other), None).expect("it compiles");
    case.world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    give(&mut case.world, 2, 130);
    let send = |world: &mut World, to: End| {
        let packet = packet(proto::UDP, (OTHER_UE, 7), to);
        only(
            world,
            0,
            &tunnelled(N3_ADDRESS, OTHER_TEID, 255, Some([0x10, 9]), &[], &packet),
        )
    };
    let theirs = source(&send(&mut case.world, (REMOTE, 53)));
    send(&mut case.world, case.public);
    assert_eq!(case.counted(), 0, "the UE has not sent to it");
    let counted = case.world.query(0, SessionIndex(2)).counters[0].1;
    assert_eq!(counted.ul_packets, 2, "what the other one sends is charged");
    only(
        &mut case.world,
        0,
        &in_tunnel(&packet(proto::UDP, (UE, 1_000), theirs)),
    );
    send(&mut case.world, case.public);
    assert_eq!(case.counted(), 1);
    // The other one was reached by a public address that it had sent to.
    assert_eq!(case.world.query(0, SessionIndex(2)).counters[0].1.dl_packets, 1);
}

#[test]
fn it_is_told_where_its_session_has_moved_to() {
    let mut case = Case::new(NEITHER);
    let leaving = Box::new((*case.image).clone().with_share(MeterShare::Leaving));
    let left = case
        .world
        .apply(0, SessionChange::Replace(leaving, ImmediateActions::default()));
    let left = left.expect("it is there").expect("what it has");
    let mut there = World::with(network_of(NEITHER), 1, |_| {});
    bring(&mut there, left.mappings.clone());
    let mut counts = |host| {
        assert_eq!(
            reason(&mut there, 1, &packet(proto::UDP, (host, 53), case.public)),
            None
        );
        there.query(0, SessionIndex(1)).counters[0].1.dl_packets
    };
    assert_eq!((counts(REMOTE), counts(ROUTER)), (1, 1));
    // Where that is as all else, what has come is for anyone.
    let mut there = World::with(network_of(UnsolicitedPolicy::AS_OTHERS), 1, |_| {});
    bring(&mut there, left.mappings);
    assert_eq!(
        reason(&mut there, 1, &packet(proto::UDP, (ROUTER, 53), case.public)),
        None
    );
    assert_eq!(there.query(0, SessionIndex(1)).counters[0].1.dl_packets, 1);
}

#[test]
fn a_trace_says_what_is_made_of_it() {
    for policy in ALL {
        let mut case = Case::new(policy);
        let mut reported = tracing::filtered(&mut case.world, TraceFilter::default());
        for host in [REMOTE, ROUTER] {
            case.receives(host);
            let translation = tracing::one(&mut reported)
                .translation
                .expect("it was translated");
            let told = TracedUnsolicited {
                pages: policy.pages,
                is_charged: policy.charged,
            };
            let is_told = host == ROUTER && policy != UnsolicitedPolicy::AS_OTHERS;
            assert_eq!(translation.unsolicited, is_told.then_some(told), "{policy:?}");
        }
    }
}
