//! Associations that end in order (TS 29.244 §5.18, §6.2.7): begun by either side, with sessions that were used, that
//! were not, and that another peer deletes meanwhile; with peers that take part, refuse, or say nothing.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use flow::UrrCount;
use n4::{Config, ReportLimits};
use pfcp::MessageType;
use pfcp::ie::{
    Cause, PfcpAssociationReleaseRequest, PfcpAuReqFlags, PfcpSrReqFlags, ReportType, UsageReportTrigger,
};
use pfcp::message::{AssociationUpdateRequest, Message};
use proptest::prelude::*;
use rules::model::UrrId;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
/// EPFAR among the CP Function Features.
const EPFAR: u8 = 0x04;
const OK: Cause = Cause::REQUEST_ACCEPTED;

fn prepare() -> Vec<Octets> {
    vec![node_v4(SMF_ADDRESS), ie(162, [1])]
}

fn ue(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 3, number)
}

impl World {
    /// With a peer of these features and this number of sessions, the first of which were used.
    fn with_sessions(config: Config, features: u8, sessions: u8, used: u8) -> World {
        let mut world = World::with(config);
        let ies = [node_v4(SMF_ADDRESS), recovery(100), cp_features(features)];
        world.ask(5, None, &ies).assert_accepted();
        for number in 0..sessions {
            let seid = world.establish(u64::from(number) + 1, ue(number));
            if number < used {
                world.use_up(seid, 10 * (u64::from(number) + 1));
            }
        }
        world
    }

    fn use_up(&mut self, seid: u64, octets: u64) {
        let session = self.n4.sessions().session(session::Seid(seid)).unwrap();
        let count = UrrCount {
            ul_packets: 1,
            ul_octets: octets,
            ..UrrCount::default()
        };
        self.fleet.count(session.index(), UrrId(1), count);
    }

    fn answer(&mut self, request: &Reply, cause: Cause) -> Vec<Reply> {
        let (message_type, seid) = match request.header().message_type {
            MessageType::SESSION_REPORT_REQUEST => (57, Some(0)),
            MessageType::ASSOCIATION_UPDATE_REQUEST => (8, None),
            other => panic!("{other:?}"),
        };
        let node = (message_type == 8).then(|| node_v4(SMF_ADDRESS));
        let ies: Vec<_> = node.into_iter().chain([ie(19, [cause.value()])]).collect();
        let sequence = request.header().sequence.get();
        self.send(smf(), &message(message_type, seid, sequence, &ies))
    }

    /// Answers everything until nothing more comes; all that came, in order.
    fn play_along(&mut self, mut sent: Vec<Reply>) -> Vec<Reply> {
        let mut all = Vec::new();
        while !sent.is_empty() {
            all.extend(sent.iter().cloned());
            sent = sent.iter().flat_map(|request| self.answer(request, OK)).collect();
        }
        all
    }

    fn end(&mut self) -> Vec<Reply> {
        self.n4.end(self.now);
        self.run()
    }

    /// The peer releases its association.
    fn released(&mut self) {
        self.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
        assert!(self.n4.has_ended());
        self.assert_clean();
    }
}

#[track_caller]
fn update<'m>(reply: &'m Reply) -> AssociationUpdateRequest<'m> {
    match reply.message() {
        Message::AssociationUpdateRequest(update) => update,
        other => panic!("{other:?}"),
    }
}

/// Of each session, by the peer's SEID, the octets of its last reports, and whether it is said to be gone.
fn last_reports<'m>(sent: impl IntoIterator<Item = &'m Reply>) -> BTreeMap<u64, (u64, bool)> {
    let mut all = BTreeMap::new();
    for reply in sent {
        let report = reply.session_report();
        let cp = reply.header().seid.unwrap().0;
        let (octets, gone) = all.entry(cp).or_insert((0, false));
        assert!(!*gone, "nothing follows on the last report");
        *gone = report
            .pfcpsrreq_flags
            .is_some_and(|flags| flags.contains(PfcpSrReqFlags::PSDBU));
        let kind = if report.usage_report.is_empty() {
            ReportType::UISR
        } else {
            ReportType::USAR
        };
        assert_eq!(report.report_type, kind);
        for usage in report.usage_report.iter() {
            assert!(usage.usage_report_trigger.contains(UsageReportTrigger::TEBUR));
            *octets += usage.volume_measurement.unwrap().total.unwrap();
        }
    }
    all
}

#[test]
fn a_peer_that_prepares_a_release_gets_all_usage_and_then_the_end_of_it() {
    let mut world = World::with_sessions(World::config(2), EPFAR, 5, 3);
    let sequence = world.next_sequence();
    let mut sent = world.send(smf(), &message(7, None, sequence, &prepare()));
    assert_eq!(sent.remove(0).cause(), Some(OK), "the answer comes first");
    assert_eq!(world.sessions(), 0);
    let all = world.play_along(sent);
    let (last, reports) = all.split_last().unwrap();
    let expected = [(1, 10), (2, 20), (3, 30), (4, 0), (5, 0)];
    assert_eq!(
        last_reports(reports),
        expected.map(|(cp, octets)| (cp, (octets, true))).into()
    );
    assert_eq!(
        update(last).pfcp_association_release_request,
        Some(PfcpAssociationReleaseRequest::URSS)
    );
    let refused = world.ask(50, Some(0), &plain_session(9, ue(9)));
    assert_eq!(refused.cause(), Some(Cause::NO_RESOURCES_AVAILABLE));
    world.released();
}

#[test]
fn urss_waits_for_the_answer_to_every_report() {
    let mut world = World::with_sessions(World::config(2), EPFAR, 2, 2);
    let sequence = world.next_sequence();
    let sent = world.send(smf(), &message(7, None, sequence, &prepare()));
    assert_eq!(world.answer(&sent[1], OK), []);
    let again = world.pass(SECOND);
    assert_eq!(again, [sent[2].clone()], "the other is sent again");
    let more = world.answer(&sent[2], Cause::SESSION_CONTEXT_NOT_FOUND);
    assert_eq!(more.len(), 1, "a refusal is an answer");
    assert!(update(&more[0]).pfcp_association_release_request.is_some());
    world.answer(&more[0], OK);
    world.released();
}

#[test]
fn a_peer_that_does_not_release_is_left_behind() {
    let mut world = World::with_sessions(World::config(2), EPFAR, 1, 1);
    let sequence = world.next_sequence();
    let sent = world.send(smf(), &message(7, None, sequence, &prepare()));
    world.play_along(sent[1..].to_vec());
    world.pass(SECOND * 10 - Duration::from_nanos(1));
    assert_eq!(world.n4.associations().count(), 1);
    world.pass(Duration::from_nanos(1));
    assert_eq!(world.n4.associations().count(), 0);
    world.assert_clean();
    world.associate();
    world.establish(1, UE);
}

#[test]
fn without_epfar_on_both_sides_the_flag_means_nothing() {
    let mut world = World::with_sessions(World::config(2), 0, 1, 1);
    world.ask(7, None, &prepare()).assert_accepted();
    assert_eq!(world.sessions(), 1);
    world.establish(7, ue(7));
}

#[test]
fn a_session_that_its_peer_deletes_meanwhile_is_reported_once() {
    let config = Config {
        reports: ReportLimits {
            window: 1,
            ..ReportLimits::default()
        },
        ..World::config(1)
    };
    let mut world = World::with_sessions(config, EPFAR, 3, 3);
    let seids: Vec<u64> = world.n4.sessions().iter().map(|one| one.seid().0).collect();
    let sequence = world.next_sequence();
    let sent = world.send(smf(), &message(7, None, sequence, &prepare()));
    assert_eq!((sent.len(), world.sessions()), (2, 2), "one at a time");
    let reply = world.ask(54, Some(seids[0]), &[]);
    assert_eq!(reply.usage(), [(1, 0, Some(10))]);
    let all = world.play_along(sent[1..].to_vec());
    let (_, reports) = all.split_last().unwrap();
    assert_eq!(last_reports(reports), [(3, (30, true)), (2, (20, true))].into());
    world.released();
}

#[test]
fn an_association_that_is_set_up_anew_does_not_end() {
    let mut world = World::with_sessions(World::config(2), EPFAR, 1, 1);
    let sequence = world.next_sequence();
    let sent = world.send(smf(), &message(7, None, sequence, &prepare()));
    world.associate();
    let seid = world.establish(5, ue(5));
    assert_eq!(world.answer(&sent[1], OK), []);
    world.pass(SECOND * 100);
    world.ask(54, Some(seid), &[]).assert_accepted();
}

#[test]
fn at_the_end_a_peer_with_epfar_gets_all_usage_before() {
    let mut world = World::with_sessions(World::config(2), EPFAR, 3, 2);
    let sent = world.end();
    assert_eq!(sent.len(), 1);
    assert_eq!(update(&sent[0]).pfcpaureq_flags, Some(PfcpAuReqFlags::PARPS));
    assert_eq!(update(&sent[0]).pfcp_association_release_request, None);
    assert_eq!(world.sessions(), 3, "not before it agrees");
    let all = world.play_along(sent);
    let [_, reports @ .., last] = &all[..] else {
        panic!("{all:?}")
    };
    let expected = [(1, (10, true)), (2, (20, true)), (3, (0, true))];
    assert_eq!(last_reports(reports), expected.into());
    assert_eq!(
        update(last).pfcp_association_release_request,
        Some(PfcpAssociationReleaseRequest::URSS)
    );
    let setup = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100)]);
    assert_eq!(
        setup.cause(),
        Some(Cause::NO_RESOURCES_AVAILABLE),
        "it is too late"
    );
    world.released();
}

#[test]
fn when_we_end_another_peer_is_asked_to_release_and_deletes_its_sessions_itself() {
    let mut world = World::with_sessions(World::config(2), 0, 1, 1);
    let seid = world.only_session().seid().0;
    let sent = world.end();
    assert_eq!(
        update(&sent[0]).pfcp_association_release_request,
        Some(PfcpAssociationReleaseRequest::SARR)
    );
    let period = update(&sent[0]).graceful_release_period.unwrap();
    assert_eq!(period.seconds(), Some(10));
    assert_eq!(world.answer(&sent[0], OK), []);
    let refused = world.ask(50, Some(0), &plain_session(9, ue(9)));
    assert_eq!(refused.cause(), Some(Cause::NO_RESOURCES_AVAILABLE));
    assert_eq!(world.ask(54, Some(seid), &[]).usage(), [(1, 0, Some(10))]);
    assert!(!world.n4.has_ended());
    world.released();
}

/// TS 29.244 Table 7.4.4.4-1: CP Function Features in a response of the control plane's.
#[test]
fn the_response_to_an_own_update_has_the_peers_features() {
    let mut world = World::with_sessions(World::config(2), 0, 1, 1);
    let sent = world.end();
    let sequence = sent[0].header().sequence.get();
    let ies = [
        node_v4(SMF_ADDRESS),
        ie(19, [OK.value()]),
        cp_features(EPFAR | 0x01),
    ];
    world.send(smf(), &message(8, None, sequence, &ies));
    let features = world.n4.associations().next().unwrap().features;
    assert_eq!(features.bits(), u64::from(EPFAR | 0x01));
}

#[test]
fn a_peer_that_refuses_or_is_silent_or_slow_does_not_keep_us() {
    for features in [0, EPFAR] {
        let mut world = World::with_sessions(World::config(2), features, 2, 1);
        let sent = world.end();
        world.answer(&sent[0], Cause::REQUEST_REJECTED);
        assert!(world.n4.has_ended());
        world.assert_clean();

        let mut world = World::with_sessions(World::config(2), features, 2, 1);
        world.end();
        for _ in 0..4 {
            assert!(!world.n4.has_ended());
            world.pass(SECOND);
        }
        assert!(world.n4.has_ended(), "T1 and N1 are over");
        world.assert_clean();

        let mut world = World::with_sessions(World::config(2), features, 2, 1);
        let sent = world.end();
        world.answer(&sent[0], OK);
        (0..10).for_each(|_| drop(world.pass(SECOND)));
        assert!(world.n4.has_ended());
        world.assert_clean();
    }
    let mut world = World::with_sessions(
        Config {
            release_wait: Duration::ZERO,
            ..World::config(2)
        },
        EPFAR,
        2,
        1,
    );
    assert_eq!(world.end(), []);
    assert!(world.n4.has_ended());
    world.assert_clean();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Over a network that loses: the usage that the peer has received, by whatever message, is what was used, once;
    /// and in the end nothing is left.
    #[test]
    fn every_octet_is_reported_once(
        sessions in 1u8..40,
        used in 0u8..40,
        window in 1usize..10,
        seed: u64,
        ours: bool,
    ) {
        let config = Config {
            reports: ReportLimits { window, ..ReportLimits::default() },
            release_wait: SECOND * 1000,
            n1: 60,
            ..World::config(2)
        };
        let used = used.min(sessions);
        let mut world = World::with_sessions(config, EPFAR, sessions, used);
        let mut sent = if ours {
            world.end()
        } else {
            let sequence = world.next_sequence();
            world.send(smf(), &message(7, None, sequence, &prepare())).split_off(1)
        };
        // Two in five are lost, without a period that could meet that of the messages for ever.
        let mut dice = seed;
        let mut is_lost = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % 5 < 2
        };
        let (mut received, mut numbers) = (Vec::new(), BTreeSet::new());
        for _ in 0..1000 {
            let mut next = Vec::new();
            for request in sent {
                if is_lost() {
                    continue;
                }
                if numbers.insert(request.header().sequence) {
                    received.push(request.clone());
                }
                if !is_lost() {
                    next.extend(world.answer(&request, OK));
                }
            }
            sent = if next.is_empty() { world.pass(SECOND) } else { next };
            if received.iter().any(|one| matches!(one.message(), Message::AssociationUpdateRequest(update)
                if update.pfcp_association_release_request.is_some())) {
                break;
            }
        }
        let reports = received.iter().filter(|one| one.header().message_type == MessageType::SESSION_REPORT_REQUEST);
        let reported = last_reports(reports);
        prop_assert_eq!(reported.len(), usize::from(sessions));
        for (cp, (octets, gone)) in reported {
            let expected = if cp <= u64::from(used) { 10 * cp } else { 0 };
            prop_assert_eq!((octets, gone), (expected, true));
        }
        world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
        world.assert_clean();
    }
}

#[test]
fn what_is_left_of_packet_rates_is_reported_with_the_last_report() {
    let mut world = World::with_sessions(World::config(2), EPFAR, 0, 0);
    let seid = world.establish(1, ue(1));
    // 7 packets a minute up; QER 41 is reported when the session is released (RCSR), 42 is not.
    let rated = |id, reported: &[Octets]| {
        let rate = ie(94, [1, 0, 0, 7]);
        create_qer(&[&[qer_id(id), gate(0, 0), rate], reported].concat())
    };
    let rates = [rated(41, &[ie(251, [1])]), rated(42, &[])];
    world.ask(52, Some(seid), &rates).assert_accepted();
    let sequence = world.next_sequence();
    let mut sent = world.send(smf(), &message(7, None, sequence, &prepare()));
    sent.remove(0);
    let all = world.play_along(sent);
    let statuses = all.iter().filter_map(|reply| match reply.message() {
        Message::SessionReportRequest(report) => Some(report.packet_rate_status_report),
        _ => None,
    });
    let statuses: Vec<_> = statuses
        .flat_map(|reports| {
            reports
                .iter()
                .map(|one| (one.qer_id.0, one.packet_rate_status.uplink))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(statuses, [(41, Some((7, None)))]);
    world.released();
}
