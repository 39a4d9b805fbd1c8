//! Session reports: gathered, limited in pace, kept until they are acknowledged, never lost in silence.

use crate::support;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use flow::SessionIndex;
use flow::TokenRate;
use n4::{Config, DownlinkData, ReportLimits, SessionEvent};
use packet::{Qfi, Teid};
use pfcp::ie::{self, Cause, PfcpSdRspFlags, ReportType};
use pfcp::message::Message;
use proptest::prelude::*;
use rules::model::PdrId;
use session::UsageTriggers;

use support::wire::*;
use support::*;

const IMMER: UsageTriggers = UsageTriggers::IMMER;
const SECOND: Duration = Duration::from_secs(1);
const GATEWAY: IpAddr = IpAddr::V4(GNB);

fn paced(session: TokenRate, association: TokenRate, window: usize) -> Config {
    Config {
        reports: ReportLimits {
            session,
            association,
            window,
            retry: 10 * SECOND,
        },
        ..World::config(1)
    }
}

fn pace(millis: u64, burst: u32) -> TokenRate {
    let every = Duration::from_millis(millis);
    TokenRate::new(every, burst)
}

fn gone(teid: u32) -> SessionEvent {
    SessionEvent::ErrorIndication {
        peer: GATEWAY,
        teid: Teid(teid),
    }
}

fn downlink(pdr: u16) -> SessionEvent {
    SessionEvent::DownlinkData(DownlinkData {
        pdr: PdrId(pdr),
        ppi: Some(46),
        qfi: Qfi::new(9),
        status: None,
    })
}

fn happens(world: &mut World, session: SessionIndex, event: SessionEvent) -> Vec<Reply> {
    world.n4.handle_session_event(world.now, session, event);
    world.transmits()
}

fn acknowledge(world: &mut World, sent: &Reply, cause: Cause) -> Vec<Reply> {
    let sequence = sent.header().sequence.get();
    let to = sent.0.to;
    world.send(to, &message(57, Some(0), sequence, &[ie(19, [cause.value()])]))
}

fn index(world: &World) -> SessionIndex {
    world.only_session().index()
}

#[test]
fn an_answer_about_another_session_acknowledges_nothing() {
    let mut world = World::associated();
    let up = world.establish(0x77, UE);
    let session = index(&world);
    for answered_with in [0, 0x77, up] {
        world.n4.handle_session_event(world.now, session, gone(1));
        let sent = world.transmits();
        let answer = |seid| {
            let sequence = sent[0].header().sequence.get();
            message(57, Some(seid), sequence, &[ie(19, [1])])
        };
        world.send(smf(), &answer(up ^ 1));
        assert_eq!(world.pass(SECOND), sent, "it is sent again");
        world.send(smf(), &answer(answered_with));
        assert!(world.pass(SECOND).is_empty());
    }
    assert_eq!(world.n4.counters().unmatched_responses, 3);
}

#[test]
fn every_kind_of_report_says_what_happened() {
    let mut world = World::associated();
    world.establish(0x77, UE);
    let session = index(&world);
    let sent = happens(&mut world, session, downlink(2));
    let data = sent[0].session_report().downlink_data_report.unwrap();
    assert_eq!(sent[0].session_report().report_type, ReportType::DLDR);
    assert_eq!(sent[0].header().seid, Some(pfcp::Seid(0x77)));
    assert_eq!(data.pdr_id.first(), Some(ie::PdrId(2)));
    let service = data.downlink_data_service_information.first().unwrap();
    assert_eq!(
        (service.paging_policy_indication, service.qfi),
        (Some(46), Some(9))
    );

    assert!(happens(&mut world, session, SessionEvent::Inactivity).is_empty());
    assert!(happens(&mut world, session, used(1, 0, 60, IMMER)).is_empty());
    assert!(happens(&mut world, session, gone(7)).is_empty());
    let sent = acknowledge(&mut world, &sent[0], Cause::REQUEST_ACCEPTED);
    assert_eq!(sent.len(), 1, "what happened meanwhile goes in one message");
    let kinds = ReportType::UPIR | ReportType::USAR | ReportType::ERIR;
    assert_eq!(sent[0].session_report().report_type, kinds);
    let usage = sent[0].session_report().usage_report.first().unwrap();
    assert_eq!((usage.urr_id.0, usage.ur_seqn.0), (1, 0));
    assert_eq!(usage.volume_measurement.unwrap().total, Some(60));
    let remote = sent[0]
        .session_report()
        .error_indication_report
        .unwrap()
        .remote_f_teid;
    assert_eq!(remote.len(), 1);
    assert!(acknowledge(&mut world, &sent[0], Cause::REQUEST_ACCEPTED).is_empty());
    assert_eq!(world.n4.outstanding(), (0, 0));
}

#[test]
fn equal_events_are_one_while_they_wait_and_while_they_are_on_their_way() {
    let mut world = World::associated();
    world.establish(1, UE);
    let session = index(&world);
    let sent = happens(&mut world, session, gone(7));
    for _ in 0..100 {
        assert!(happens(&mut world, session, gone(7)).is_empty(), "on its way");
        assert!(happens(&mut world, session, gone(8)).is_empty(), "waits");
    }
    let counters = *world.n4.counters();
    assert_eq!((counters.events, counters.events_merged), (201, 199));
    let sent = acknowledge(&mut world, &sent[0], Cause::REQUEST_ACCEPTED);
    assert_eq!(
        sent[0]
            .session_report()
            .error_indication_report
            .unwrap()
            .remote_f_teid
            .len(),
        1
    );
}

#[test]
fn usage_that_waits_is_added_up_under_one_number_without_a_gap() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let session = index(&world);
    let sent = happens(&mut world, session, SessionEvent::Inactivity);
    for sequence in 0..3 {
        // The number of an absorbed report is given again, so that the second and third have the same.
        let event = used(1, sequence.min(1), 100, IMMER);
        assert!(happens(&mut world, session, event).is_empty());
    }
    let sent = acknowledge(&mut world, &sent[0], Cause::REQUEST_ACCEPTED);
    let usage = sent[0].session_report().usage_report;
    assert_eq!(usage.len(), 1);
    let usage = usage.first().unwrap();
    assert_eq!(usage.ur_seqn.0, 0);
    assert_eq!(usage.volume_measurement.unwrap().total, Some(300));
    assert_eq!(usage.start_time, Some(ie::StartTime::from_unix(UPF_START)));
    assert_eq!(usage.end_time, Some(ie::EndTime::from_unix(UPF_START + 2)));
    // On its way it grows no more.
    assert!(happens(&mut world, session, used(1, 1, 5, IMMER)).is_empty());
    let reply = world.ask(54, Some(seid), &[]);
    let Message::SessionDeletionResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(
        response.pfcpsdrsp_flags,
        Some(PfcpSdRspFlags::PURU),
        "a report is unacknowledged"
    );
    assert_eq!(
        reply.usage(),
        [(1, 1, Some(5)), (1, 0, Some(0))],
        "what was not sent goes with the end"
    );
}

#[test]
fn nothing_is_added_to_usage_that_a_peer_may_have_received() {
    let mut world = World::associated();
    world.establish(1, UE);
    let session = index(&world);
    let sent = happens(&mut world, session, used(1, 0, 60, IMMER));
    for _ in 0..4 {
        world.pass(SECOND);
    }
    assert_eq!(world.n4.counters().reports_retried, 1, "given up for now");
    assert!(happens(&mut world, session, used(1, 1, 5, IMMER)).is_empty());
    assert!(happens(&mut world, session, used(1, 2, 7, IMMER)).is_empty());
    let again = world.pass(10 * SECOND);
    let usage: Vec<_> = again[0].session_report().usage_report.iter().collect();
    assert_eq!(Some(usage[0]), sent[0].session_report().usage_report.first());
    let reported = usage
        .iter()
        .map(|one| (one.ur_seqn.0, one.volume_measurement.unwrap().total));
    assert_eq!(reported.collect::<Vec<_>>(), [(0, Some(60)), (1, Some(12))]);
}

#[test]
fn usage_that_finds_no_room_becomes_one_report_for_all_its_reasons() {
    const EVENTS: u32 = 1000;
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let session = index(&world);
    happens(&mut world, session, SessionEvent::Inactivity);
    for number in 0..EVENTS {
        let mut event = used(1, number, 1, IMMER);
        let SessionEvent::Usage(report) = &mut event else {
            panic!()
        };
        report.triggers = [UsageTriggers::VOLTH, UsageTriggers::PERIO][number as usize % 2];
        assert!(happens(&mut world, session, event).is_empty());
    }
    assert_eq!(world.n4.counters().events_dropped, 0);
    let reply = world.ask(54, Some(seid), &[]);
    let Message::SessionDeletionResponse(response) = reply.message() else {
        panic!()
    };
    let usage: Vec<_> = response.usage_report.iter().collect();
    assert!(usage.len() < 150, "{}", usage.len());
    let octets = usage
        .iter()
        .map(|one| one.volume_measurement.unwrap().total.unwrap());
    assert_eq!(octets.sum::<u64>(), EVENTS.into());
    let both = ie::UsageReportTrigger::VOLTH | ie::UsageReportTrigger::PERIO;
    assert!(usage.iter().any(|one| one.usage_report_trigger == both));
}

#[test]
fn a_report_is_sent_again_to_the_octet_and_then_anew_while_its_session_lives() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let session = index(&world);
    let sent = happens(&mut world, session, used(1, 0, 60, IMMER));
    for _ in 0..3 {
        assert_eq!(world.pass(SECOND), sent);
    }
    assert!(world.pass(SECOND).is_empty(), "given up for now");
    assert_eq!(world.n4.counters().reports_retried, 1);
    assert!(world.pass(9 * SECOND).is_empty());
    let again = world.pass(SECOND);
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].header().sequence, sent[0].header().sequence);
    assert_eq!(
        again[0].session_report().usage_report,
        sent[0].session_report().usage_report
    );
    let busy = acknowledge(&mut world, &again[0], Cause::PFCP_ENTITY_IN_CONGESTION);
    assert!(busy.is_empty());
    let again = world.pass(10 * SECOND);
    assert_eq!(again.len(), 1, "a peer in congestion has not listened");
    for _ in 0..4 {
        world.pass(SECOND);
    }
    let usage = world.ask(54, Some(seid), &[]).usage();
    assert_eq!(usage[0], (1, 0, Some(60)), "it goes with the end of the session");
    assert!(world.pass(60 * SECOND).is_empty());
    assert_eq!((world.n4.reporting(), world.n4.outstanding()), (0, (0, 0)));
}

#[test]
fn a_rejection_is_received_and_counted() {
    let mut world = World::associated();
    world.establish(1, UE);
    let session = index(&world);
    let sent = happens(&mut world, session, gone(7));
    assert!(acknowledge(&mut world, &sent[0], Cause::REQUEST_REJECTED).is_empty());
    assert_eq!(world.n4.counters().reports_refused, 1);
    assert!(world.pass(60 * SECOND).is_empty());
    assert_eq!(world.n4.reporting(), 0);
}

#[test]
fn a_session_keeps_to_its_pace() {
    let mut world = World::with(paced(pace(1_000, 2), pace(0, 1), 100));
    world.associate();
    world.establish(1, UE);
    let session = index(&world);
    let mut sent = Vec::new();
    for step in 0..100 {
        let mut now = happens(&mut world, session, used(1, step, 1, IMMER));
        now.extend(world.pass(Duration::from_millis(100)));
        for reply in &now {
            acknowledge(&mut world, reply, Cause::REQUEST_ACCEPTED);
        }
        sent.extend(now);
    }
    assert!((11..=12).contains(&sent.len()), "{}", sent.len());
    sent.extend(world.pass(SECOND));
    let total: u64 = sent
        .iter()
        .flat_map(|reply| reply.session_report().usage_report.iter())
        .map(|usage| usage.volume_measurement.unwrap().total.unwrap())
        .sum();
    assert_eq!(total, 100, "nothing is lost by waiting");
}

#[test]
fn what_finds_no_room_is_counted() {
    let mut world = World::associated();
    world.establish(1, UE);
    let session = index(&world);
    happens(&mut world, session, SessionEvent::Inactivity);
    for teid in 0..100 {
        happens(&mut world, session, gone(teid));
        happens(&mut world, session, downlink(teid as u16));
    }
    assert_eq!(world.n4.counters().events_dropped, 2 * (100 - 16));
}

/// An SMF at `address` with a session of its own.
fn another(world: &mut World, address: Ipv4Addr, cp: u64) -> SocketAddr {
    let at = SocketAddr::new(address.into(), 8805);
    let setup = message(5, None, 1, &[node_v4(address), recovery(1)]);
    assert_eq!(world.send(at, &setup).len(), 1);
    let [.., low] = address.octets();
    let mut ies = plain_session(cp, Ipv4Addr::new(10, 46, low, cp as u8));
    ies[0] = node_v4(address);
    ies[1] = f_seid(cp, at.ip());
    world.send(at, &message(50, Some(0), 1 + cp as u32, &ies))[0].up_seid();
    at
}

#[test]
fn one_associations_flood_and_silence_leave_the_others_in_peace() {
    let mut world = World::with(paced(pace(0, 1), pace(0, 1), 4));
    world.associate();
    for cp in 1..=50 {
        world.establish(cp, Ipv4Addr::new(10, 45, 0, cp as u8));
    }
    let other = another(&mut world, Ipv4Addr::new(10, 100, 0, 3), 99);
    let sessions: Vec<_> = world
        .n4
        .sessions()
        .iter()
        .map(|one| (one.index(), one.cp().seid))
        .collect();
    let mut sent = Vec::new();
    for (session, _) in &sessions {
        sent.extend(happens(&mut world, *session, SessionEvent::Inactivity));
    }
    let to = |sent: &[Reply], whom| sent.iter().filter(|reply| reply.0.to == whom).count();
    assert_eq!(
        (to(&sent, smf()), to(&sent, other)),
        (4, 1),
        "no more on their way than the window"
    );
    let next = acknowledge(&mut world, &sent[0], Cause::REQUEST_ACCEPTED);
    assert_eq!(next.len(), 1, "an answer makes room for one");
    // All reach their end in the end, none twice.
    let mut received: Vec<_> = [sent[0].header().seid].into();
    let mut open: Vec<_> = sent.drain(1..).chain(next).collect();
    while let Some(reply) = open.pop() {
        received.push(reply.header().seid);
        open.extend(acknowledge(&mut world, &reply, Cause::REQUEST_ACCEPTED));
    }
    received.sort();
    let expected: Vec<_> = (1..=50).chain([99]).map(|seid| Some(pfcp::Seid(seid))).collect();
    assert_eq!(received, expected);
}

#[test]
fn an_association_keeps_to_its_pace() {
    let mut world = World::with(paced(pace(0, 1), pace(100, 3), 100));
    world.associate();
    for cp in 1..=20 {
        world.establish(cp, Ipv4Addr::new(10, 45, 0, cp as u8));
    }
    let sessions: Vec<_> = world.n4.sessions().iter().map(|one| one.index()).collect();
    let mut sent = 0;
    for session in sessions {
        sent += happens(&mut world, session, SessionEvent::Inactivity).len();
    }
    assert_eq!(sent, 3);
    for _ in 0..5 {
        assert_eq!(world.pass(Duration::from_millis(100)).len(), 1);
    }
}

#[test]
fn a_released_association_gets_no_more_messages() {
    let mut world = World::associated();
    world.establish(1, UE);
    let session = index(&world);
    happens(&mut world, session, SessionEvent::Inactivity);
    happens(&mut world, session, gone(7));
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]);
    assert_eq!(world.n4.reporting(), 0);
    assert_eq!(world.n4.counters().events_dropped, 1);
    world.assert_clean();
}

/// A control plane function behind a bad line: receives and acknowledges some of what is sent, and knows usage that it
/// has received by its number.
#[derive(Default)]
struct Receiver {
    known: BTreeMap<(u64, u32), u64>,
}

impl Receiver {
    /// `luck`: 0 the report is lost, 1 its answer is.
    fn receive(&mut self, world: &mut World, sent: Vec<Reply>, luck: u8) {
        let mut sent = sent;
        while let Some(reply) = sent.pop() {
            if luck == 0 {
                continue;
            }
            let seid = reply.header().seid.unwrap().0;
            for usage in reply.session_report().usage_report.iter() {
                let octets = usage.volume_measurement.unwrap().total.unwrap();
                let known = self.known.insert((seid, usage.ur_seqn.0), octets);
                assert!(
                    known.is_none_or(|known| known == octets),
                    "a number belongs to one report"
                );
            }
            if luck > 1 {
                sent.extend(acknowledge(world, &reply, Cause::REQUEST_ACCEPTED));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Whatever is lost on the way: usage comes to be known, all of it and once.
    #[test]
    fn usage_is_reported_exactly_once(steps in prop::collection::vec((any::<bool>(), 0usize..3, 1u64..100, 0u8..4), 1..120)) {
        let mut world = World::with(paced(pace(300, 2), pace(50, 2), 2));
        world.associate();
        for cp in 1..=3 {
            world.establish(cp, Ipv4Addr::new(10, 45, 0, cp as u8));
        }
        let sessions: Vec<_> = world.n4.sessions().iter().map(|one| (one.index(), one.cp().seid)).collect();
        let (mut happened, mut receiver, mut next) = (0, Receiver::default(), [0; 3]);
        for (is_event, whom, amount, luck) in steps {
            let sent = if is_event {
                happened += amount;
                let merged = world.n4.counters().events_merged;
                let sent = happens(&mut world, sessions[whom].0, used(1, next[whom], amount, IMMER));
                // The number of what became one with a report before is given again.
                next[whom] += u32::from(world.n4.counters().events_merged == merged);
                sent
            } else {
                world.pass(Duration::from_millis(amount * 100))
            };
            receiver.receive(&mut world, sent, luck);
        }
        for _ in 0..400 {
            let sent = world.pass(Duration::from_millis(500));
            receiver.receive(&mut world, sent, 2);
        }
        prop_assert_eq!(receiver.known.values().sum::<u64>(), happened);
        prop_assert_eq!((world.n4.reporting(), world.n4.outstanding()), (0, (0, 0)));
    }
}

#[test]
fn an_inactivity_timer_is_provisioned_changed_and_stopped() {
    let mut world = World::associated();
    let mut ies = plain_session(1, UE);
    ies.push(ie(117, 30u32.to_be_bytes()));
    let seid = world.ask(50, Some(0), &ies).up_seid();
    let seconds = |world: &World| {
        let timer = world.only_session().rules().inactivity_timer();
        timer.map(|timer| (timer.seconds.get(), timer.number))
    };
    assert_eq!(seconds(&world), Some((30, 1)));
    let modify = |world: &mut World, ies: &[Vec<u8>]| world.ask(52, Some(seid), ies).cause();
    assert_eq!(modify(&mut world, &[]), Some(Cause::REQUEST_ACCEPTED));
    assert_eq!(seconds(&world), Some((30, 1)), "it is not named");
    let timer = |seconds: u32| [ie(117, seconds.to_be_bytes())];
    assert_eq!(modify(&mut world, &timer(30)), Some(Cause::REQUEST_ACCEPTED));
    assert_eq!(seconds(&world), Some((30, 2)), "it begins anew");
    assert_eq!(modify(&mut world, &timer(7)), Some(Cause::REQUEST_ACCEPTED));
    assert_eq!(seconds(&world), Some((7, 3)));
    assert_eq!(modify(&mut world, &timer(0)), Some(Cause::REQUEST_ACCEPTED));
    assert_eq!(seconds(&world), None);
    world.ask(54, Some(seid), &[]);
    world.assert_clean();
}
