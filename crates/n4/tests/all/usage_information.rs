//! Usage Information (TS 29.244 §5.2.2.3.1, §8.2.59) for peers that can read it, and for those that drop a message
//! which has it, as the SMF of free5GC does: it asks for measurement before QoS enforcement, and cannot read the
//! answer.

use crate::support;

use flow::{Reached, UrrCount};
use n4::{Config, Peers};
use pfcp::message::Message;
use pfcp::{MessageType, ie};
use rules::model::{MeasurementInformation, UrrId};
use rules::prefix::IpPrefix;
use std::net::Ipv4Addr;
use std::time::Duration;

use support::wire::*;
use support::*;

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const MBQE_MNOP: u8 = 0x11;
const MNOP: u8 = 0x10;
const BEF: u8 = 1;
const AFT: u8 = 2;
const UAE: u8 = 4;
const UBE: u8 = 8;

/// The SMF's own address can read Usage Information or not; its network can, or not, the other way round.
fn config(usage_information: bool) -> Config {
    let peers = |prefix, usage_information| Peers {
        usage_information,
        ..Peers::from(prefix)
    };
    let around: IpPrefix = "10.100.0.0/16".parse().expect("a prefix");
    Config {
        peers: vec![
            peers(around, !usage_information),
            peers(IpPrefix::host(SMF_ADDRESS.into()), usage_information),
        ],
        ..World::config(2)
    }
}

fn associated(usage_information: bool) -> World {
    let mut world = World::with(config(usage_information));
    world.associate();
    world
}

fn threshold() -> Octets {
    ie(31, [&[1][..], &1000u64.to_be_bytes()].concat())
}

/// Two URRs that differ in MBQE alone, as free5GC has them: URR 2 measures before QoS enforcement, too.
fn twins(world: &mut World) -> u64 {
    let seid = world.establish(1, UE);
    let changed = group(
        13,
        &[urr_id(1), triggers(&[2, 0, 0]), threshold(), ie(100, [MNOP])],
    );
    let urr = [
        urr_id(2),
        method(2),
        triggers(&[2, 0, 0]),
        threshold(),
        ie(100, [MBQE_MNOP]),
    ];
    let asked = [changed, create_urr(&urr)];
    world.ask(52, Some(seid), &asked).assert_accepted();
    seid
}

/// Octets after QoS enforcement, and before it.
fn count(world: &mut World, urr: u32, after: u64, before: u64) {
    let index = world.only_session().index();
    world.fleet.count(index, UrrId(urr), octets(after));
    world.fleet.count_before_qos(index, UrrId(urr), octets(before));
}

fn octets(ul_octets: u64) -> UrrCount {
    UrrCount {
        ul_packets: 1,
        ul_octets,
        ..UrrCount::default()
    }
}

/// What a message reports of URR 2: UR-SEQN, octets, and Usage Information.
fn usage(reply: &Reply) -> Vec<(u32, u64, Option<u8>)> {
    macro_rules! of {
        ($message:expr) => {{
            let reports = $message.usage_report.iter();
            let twin = reports.filter(|one| one.urr_id == ie::UrrId(2));
            let of_urr = twin.map(|one| {
                let volume = one.volume_measurement.and_then(|volume| volume.total);
                let information = one.usage_information.map(|part| part.0);
                (one.ur_seqn.0, volume.unwrap(), information)
            });
            of_urr.collect()
        }};
    }
    match reply.message() {
        Message::SessionReportRequest(message) => of!(message),
        Message::SessionModificationResponse(message) => of!(message),
        Message::SessionDeletionResponse(message) => of!(message),
        other => panic!("{other:?}"),
    }
}

fn query() -> Octets {
    group(77, &[urr_id(2)])
}

/// The worker reports that URR 2 has counted more than its threshold.
fn watermark(world: &mut World, counted: u64) -> Vec<Reply> {
    let reached = Reached {
        watermark: true,
        ..Reached::NOTHING
    };
    let index = world.only_session().index();
    let counted = (UrrId(2), octets(counted));
    world
        .n4
        .handle_counter_reached(world.now, index, counter_reached(counted, reached));
    world.run()
}

/// What is reported of URR 2 in a Session Modification Response, a Session Report Request and a Session Deletion
/// Response.
fn life(world: &mut World) -> [Vec<(u32, u64, Option<u8>)>; 3] {
    let seid = twins(world);
    count(world, 2, 60, 100);
    let queried = usage(&world.ask(52, Some(seid), &[query()]));
    count(world, 2, 1200, 1300);
    let sent = watermark(world, 1260);
    let reported = usage(&sent[0]);
    count(world, 2, 5, 7);
    let deleted = usage(&world.ask(54, Some(seid), &[]));
    [queried, reported, deleted]
}

#[test]
fn a_peer_that_reads_usage_information_gets_usage_before_qos_and_after() {
    let expected = [[60, 100], [1200, 1300], [5, 7]];
    let mut sequence = 0;
    for (reports, [after, before]) in life(&mut associated(true)).iter().zip(expected) {
        let both = [(sequence, after, Some(UAE)), (sequence + 1, before, Some(UBE))];
        assert_eq!(*reports, both);
        sequence += 2;
    }
}

#[test]
fn a_peer_that_cannot_read_usage_information_gets_one_report_without_it_in_every_message() {
    let mut world = associated(false);
    let reports = life(&mut world);
    assert_eq!(reports, [[(0, 60, None)], [(1, 1200, None)], [(2, 5, None)]]);
}

#[test]
fn what_such_a_peer_cannot_receive_is_not_measured() {
    let mut world = associated(false);
    let seid = twins(&mut world);
    let information = |world: &World| world.only_session().rules().urr(UrrId(2)).unwrap().information;
    assert_eq!(information(&world), MeasurementInformation::MNOP);
    let updated = group(13, &[urr_id(2), ie(100, [MBQE_MNOP])]);
    world.ask(52, Some(seid), &[updated]).assert_accepted();
    assert_eq!(information(&world), MeasurementInformation::MNOP);
}

#[test]
fn usage_before_and_after_a_monitoring_time_is_distinguished_by_numbers_alone() {
    for (usage_information, of) in [(true, [Some(BEF), Some(AFT)]), (false, [None; 2])] {
        let mut world = associated(usage_information);
        let seid = twins(&mut world);
        let now = ie::MonitoringTime::from_unix(UPF_START + world.now.0 / 1_000_000_000).0;
        let terms = [urr_id(2), ie(100, [MNOP]), ie(33, (now + 10).to_be_bytes())];
        world.ask(52, Some(seid), &[group(13, &terms)]).assert_accepted();
        let index = world.only_session().index();
        world.fleet.count(index, UrrId(2), octets(60));
        let sent = world.pass(Duration::from_secs(12));
        let reports = sent
            .iter()
            .filter(|one| one.header().message_type == MessageType::SESSION_REPORT_REQUEST);
        let reported: Vec<_> = reports.flat_map(usage).collect();
        assert_eq!(reported, [(0, 60, of[0]), (1, 0, of[1])]);
    }
}

#[test]
fn a_session_that_measures_before_qos_is_reported_without_it_once_the_peer_is_known_not_to_read_it() {
    let mut first = associated(true);
    let seid = twins(&mut first);
    let association = first.n4.export_associations().unwrap().concat();
    first
        .n4
        .export(first.now, session::Seid(seid), session::Export::Take);
    first.run();
    let record = first.n4.poll_exported(first.now).unwrap().record.unwrap();

    let mut second = World::with(config(false));
    second.n4.import(second.now, &association).unwrap();
    second.n4.import(second.now, &record).unwrap();
    second.run();
    count(&mut second, 2, 60, 100);
    let reply = second.ask(52, Some(seid), &[query()]);
    assert_eq!(usage(&reply), [(0, 60, None)]);
}
