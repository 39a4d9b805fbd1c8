//! Downlink packets of FARs that buffer: reports, their delay, and what the answer to a report says.

use crate::support;

use std::time::Duration;

use flow::SessionIndex;
use n4::DownlinkData;
use packet::Qfi;
use pfcp::ie::ReportType;
use pfcp::message::Message;
use rules::image::DataStatus;
use rules::model::{Bar, FarId, PdrId};

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
/// BUFF and NOCP.
const BUFFER: [u8; 2] = [0x0c, 0];
const FORWARD: [u8; 2] = [0x02, 0];

/// A session that is idle, with this in its BAR.
fn idle(bar: &[Octets]) -> (World, u64, SessionIndex) {
    let mut world = World::associated();
    let seid = world.establish(0x77, UE);
    let bar = create_bar(&[&[bar_id(1)], bar].concat());
    let far = update_far(&[far_id(2), apply_action(&BUFFER), bar_id(1)]);
    world.ask(52, Some(seid), &[bar, far]).assert_accepted();
    let index = world.only_session().index();
    (world, seid, index)
}

/// A worker gets the first packet of a QoS flow.
fn comes(world: &mut World, session: SessionIndex, qfi: u8) -> Vec<Reply> {
    comes_with(world, session, (qfi, true), None)
}

/// The same of one whose FAR says NOCP or not, and whose delivery status is followed or not.
fn comes_with(
    world: &mut World,
    session: SessionIndex,
    (qfi, notifies): (u8, bool),
    status: Option<DataStatus>,
) -> Vec<Reply> {
    let data = DownlinkData {
        pdr: PdrId(2),
        ppi: Some(0),
        qfi: Qfi::new(qfi),
        status,
    };
    world
        .n4
        .handle_downlink_data(world.now, session, FarId(2), notifies, data);
    world.transmits()
}

/// The statuses of the Downlink Data Reports among what was sent, each with how many PDRs it is about.
fn statuses(sent: &[Reply]) -> Vec<(Option<u8>, usize)> {
    let data = sent.iter().filter_map(|reply| match reply.message() {
        Message::SessionReportRequest(report) => report.downlink_data_report,
        _ => None,
    });
    data.map(|data| {
        (
            data.dl_data_status.map(|status| status.0),
            data.pdr_id.iter().count(),
        )
    })
    .collect()
}

/// The Downlink Data Reports among what was sent, each as its QFIs.
fn reports(sent: &[Reply]) -> Vec<Vec<u8>> {
    let data = sent.iter().filter_map(|reply| match reply.message() {
        Message::SessionReportRequest(report) if report.report_type == ReportType::DLDR => {
            report.downlink_data_report
        }
        _ => None,
    });
    data.map(|data| {
        data.downlink_data_service_information
            .iter()
            .filter_map(|one| one.qfi)
            .collect()
    })
    .collect()
}

fn answer(world: &mut World, sent: &[Reply], ies: &[Octets]) -> Vec<Reply> {
    let report = sent
        .iter()
        .find(|reply| reply.header().message_type.0 == 56)
        .expect("a report");
    let sequence = report.header().sequence.get();
    let to = report.0.to;
    world.send(
        to,
        &message(57, Some(0), sequence, &[&[ie(19, [1])], ies].concat()),
    )
}

/// Update BAR within a Session Report Response.
fn update_bar(ies: &[Octets]) -> Octets {
    group(12, &[&[bar_id(1)], ies].concat())
}

fn bar(world: &World) -> Bar {
    world.only_session().rules().bars()[0]
}

fn discards(world: &mut World) -> usize {
    let workers = world.fleet.workers.iter_mut();
    let immediate_actions: Vec<_> = workers
        .flat_map(|worker| std::mem::take(&mut worker.immediate_actions))
        .collect();
    immediate_actions
        .iter()
        .filter(|immediate| immediate.discards_buffered)
        .count()
}

#[test]
fn a_packet_is_reported_at_once() {
    let (mut world, _, session) = idle(&[]);
    assert_eq!(reports(&comes(&mut world, session, 9)), [[9]]);
}

#[test]
fn a_report_waits_for_the_notification_delay_and_for_nothing_if_the_ue_wakes_up() {
    let (mut world, seid, session) = idle(&[ie(46, [10])]);
    assert!(comes(&mut world, session, 9).is_empty(), "500 ms");
    assert!(reports(&world.pass(SECOND / 4)).is_empty());
    assert!(comes(&mut world, session, 5).is_empty());
    let sent = world.pass(SECOND / 4);
    assert_eq!(reports(&sent), [[9]]);
    answer(&mut world, &sent, &[]);
    assert_eq!(reports(&world.pass(SECOND / 4)), [[5]]);

    let (mut world, seid_again, session) = (world, seid, session);
    comes(&mut world, session, 7);
    let far = update_far(&[far_id(2), apply_action(&FORWARD)]);
    world.ask(52, Some(seid_again), &[far]).assert_accepted();
    assert!(reports(&world.pass(SECOND)).iter().all(|qfis| !qfis.contains(&7)));
}

#[test]
fn extended_buffering_is_quiet_for_its_time_and_then_what_waits_is_thrown_away() {
    let (mut world, _, session) = idle(&[ie(140, [3])]);
    let sent = comes(&mut world, session, 9);
    // DL Buffering Duration 2 x 2 s, DL Buffering Suggested Packet Count 300, delay 50 ms.
    let advice = update_bar(&[ie(46, [1]), ie(47, [2]), ie(48, 300u16.to_be_bytes())]);
    answer(&mut world, &sent, &[advice]);
    let extended = bar(&world);
    assert_eq!(
        (extended.notification_delay, extended.suggested_packets),
        (Some(1), Some(3))
    );
    assert_eq!(extended.extended_packets, Some(300));
    assert!(comes(&mut world, session, 5).is_empty());
    assert!(reports(&world.pass(3 * SECOND)).is_empty());
    assert_eq!(discards(&mut world), 0);
    world.pass(SECOND);
    assert_eq!(discards(&mut world), 1);
    assert_eq!(bar(&world).extended_packets, None, "deleted without a request");
    assert!(comes(&mut world, session, 5).is_empty());
    assert_eq!(reports(&world.pass(SECOND)), [[5]]);
}

#[test]
fn a_duration_of_zero_stops_extended_buffering_and_one_without_end_does_not() {
    let (mut world, _, session) = idle(&[]);
    let sent = comes(&mut world, session, 9);
    answer(&mut world, &sent, &[update_bar(&[ie(47, [0xe0])])]);
    assert!(reports(&world.pass(3600 * SECOND)).is_empty());
    assert!(comes(&mut world, session, 5).is_empty());
    let (mut world, _, session) = idle(&[]);
    let sent = comes(&mut world, session, 9);
    answer(&mut world, &sent, &[update_bar(&[ie(47, [0])])]);
    assert_eq!(reports(&comes(&mut world, session, 5)), [[5]]);
}

#[test]
fn nothing_is_kept_of_a_session_that_is_gone_though_it_was_to_be_quiet_for_ever() {
    let ways: [fn(&mut World, u64); 3] = [
        |world, seid| world.ask(54, Some(seid), &[]).assert_accepted(),
        |world, _| world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted(),
        |world, _| {
            let restarted = [node_v4(SMF_ADDRESS), recovery(200)];
            world.ask(5, None, &restarted).assert_accepted();
        },
    ];
    for (number, end) in ways.into_iter().enumerate() {
        let (mut world, seid, session) = idle(&[]);
        let sent = comes(&mut world, session, 9);
        answer(&mut world, &sent, &[update_bar(&[ie(47, [0xe0])])]);
        world.pass(3600 * SECOND);
        assert!(world.n4.reporting() > 0, "way {number}: it is quiet still");
        end(&mut world, seid);
        world.pass(61 * SECOND);
        assert_eq!((world.sessions(), world.n4.reporting()), (0, 0), "way {number}");
    }
}

#[test]
fn the_answer_to_a_report_may_throw_the_packets_away() {
    let (mut world, _, session) = idle(&[]);
    let sent = comes(&mut world, session, 9);
    answer(&mut world, &sent, &[ie(50, [1])]);
    world.run();
    assert_eq!(discards(&mut world), 1);
    assert_eq!(world.n4.outstanding(), (0, 0));
}

#[test]
fn a_new_session_under_the_same_number_gets_no_events_of_the_old_one() {
    let (mut world, seid, session) = idle(&[ie(46, [10])]);
    comes(&mut world, session, 9);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.establish(0x78, UE);
    assert!(reports(&world.pass(SECOND)).is_empty());
    assert_eq!(world.n4.reporting(), 0);
}

#[test]
fn a_delivery_status_is_reported_with_and_without_notifications() {
    const BUFFERED: Option<DataStatus> = Some(DataStatus::Buffered);
    const DISCARDED: Option<DataStatus> = Some(DataStatus::Discarded);
    let (mut world, _, session) = idle(&[]);
    let sent = comes_with(&mut world, session, (9, true), BUFFERED);
    assert_eq!(statuses(&sent), [(Some(2), 1)], "both in one");
    // Quiet for a minute.
    answer(&mut world, &sent, &[update_bar(&[ie(47, [0x20 | 1])])]);
    assert!(comes_with(&mut world, session, (5, true), None).is_empty());
    let sent = comes_with(&mut world, session, (5, true), BUFFERED);
    assert_eq!(statuses(&sent), [(Some(2), 1)]);
    // One report has one status: what comes meanwhile goes in the order in which it came.
    comes_with(&mut world, session, (7, false), DISCARDED);
    comes_with(&mut world, session, (6, false), BUFFERED);
    comes_with(&mut world, session, (8, false), DISCARDED);
    let mut sent = answer(&mut world, &sent, &[]);
    sent.extend(world.pass(Duration::from_millis(600)));
    assert_eq!(statuses(&sent), [(Some(1), 2)]);
    let mut sent = answer(&mut world, &sent, &[]);
    sent.extend(world.pass(Duration::from_millis(600)));
    assert_eq!(statuses(&sent), [(Some(2), 1)]);
}

#[test]
fn a_notification_waits_for_its_delay_and_a_status_does_not() {
    let (mut world, _, session) = idle(&[ie(46, [10])]);
    let sent = comes_with(&mut world, session, (9, true), Some(DataStatus::Buffered));
    assert_eq!(statuses(&sent), [(Some(2), 1)]);
    let mut sent = answer(&mut world, &sent, &[]);
    sent.extend(world.pass(Duration::from_millis(600)));
    assert_eq!(statuses(&sent), [(None, 1)]);
}

#[test]
fn fars_may_ask_for_delivery_statuses() {
    let mut world = World::associated();
    let seid = world.establish(0x77, UE);
    // BUFF, NOCP, BDPN, DDPN; DROP, DDPN.
    for action in [[0x0c, 6], [0x01, 4]] {
        let far = update_far(&[far_id(2), apply_action(&action)]);
        world.ask(52, Some(seid), &[far]).assert_accepted();
        let image = world.n4.sessions().view(world.only_session().index());
        let far = image.and_then(|session| session.rules().far(FarId(2)).cloned());
        assert_eq!(far.map(|far| far.action.0), Some(u16::from_le_bytes(action)));
    }
}
