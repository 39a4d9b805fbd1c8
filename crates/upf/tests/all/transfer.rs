//! A UPF's sessions continue in another process: same SEIDs and TEIDs, packets flow, and the reports of both lives
//! together are every octet that was sent, numbered without a gap.

use crate::support;

use std::time::Duration;

use n4::Imported;
use pfcp::Frames;
use pfcp::message::Message;
use session::{Export, Seid};
use sim::report::{Report, Totals};
use sim::smf::State;

use support::*;

const SESSIONS: u32 = 40;
const TRAFFIC: Duration = Duration::from_millis(50);

/// Asks a session for usage (QAURR). Gives UR-SEQN and octets of each report.
fn query(world: &mut World, seid: Seid, sequence: u32) -> Vec<(u32, u64, u64)> {
    let mut request = vec![0x21, 52, 0, 17];
    request.extend(seid.0.to_be_bytes());
    request.extend(&sequence.to_be_bytes()[1..]);
    request.extend([0, 0, 49, 0, 1, 4]);
    world.control.handle_datagram(world.now, N4_SMF, N4_UPF, &request);
    for _ in 0..1_000 {
        world.now = world.now + STEP;
        world.control.poll(world.now);
        for worker in &mut world.workers {
            worker.poll(world.now);
        }
        if let Some(answer) = world.control.poll_transmit() {
            let frame = Frames::new(&answer.bytes)
                .next()
                .expect("a message")
                .expect("a good one");
            let Ok(Message::SessionModificationResponse(response)) = Message::decode(&frame) else {
                panic!("{frame:?}");
            };
            let reports = response.usage_report.iter();
            let volume = |volume: pfcp::ie::VolumeMeasurement| (volume.uplink, volume.downlink);
            return reports
                .map(|report| {
                    let (up, down) = report.volume_measurement.map(volume).unwrap_or_default();
                    (report.ur_seqn.0, up.unwrap_or(0), down.unwrap_or(0))
                })
                .collect();
        }
    }
    panic!("no answer");
}

/// Everything that this UPF has, as records one behind the other.
fn leave(world: &mut World) -> Vec<u8> {
    let mut records = world
        .control
        .session_transfer(world.now)
        .export_associations()
        .expect("associations")
        .concat();
    world.control.session_transfer(world.now).export_all(Export::Take);
    for _ in 0..10_000 {
        while let Some(exported) = world.control.session_transfer(world.now).poll_exported() {
            records.extend(exported.record.expect("a record"));
        }
        if !world.control.session_transfer(world.now).is_exporting() {
            return records;
        }
        world.step();
    }
    panic!("the export does not end");
}

fn arrive(world: &mut World, records: &[u8]) -> (usize, usize) {
    let (mut associations, mut sessions, mut live) = (0, 0, 0);
    let mut rest = records;
    while !rest.is_empty() {
        let (imported, behind) = world
            .control
            .session_transfer(world.now)
            .import(rest)
            .expect("an import");
        rest = behind;
        match imported {
            Imported::Association(_) => associations += 1,
            Imported::Session(_) => sessions += 1,
            Imported::Node(_) | Imported::Application(_) => {}
        }
    }
    for _ in 0..10_000 {
        while let Some((_, result)) = world.control.session_transfer(world.now).poll_imported() {
            result.expect("a live session");
            live += 1;
        }
        if live == sessions {
            return (associations, sessions);
        }
        world.step();
    }
    panic!("{live} of {sessions} sessions are live");
}

fn assert_lossless(totals: &Totals) {
    let report = Report::new(SESSIONS, TRAFFIC, totals);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.sent > 1_000 && direction.lost == 0, "{report}");
    }
}

#[test]
fn sessions_continue_in_another_process_and_every_octet_is_reported_once() {
    let mut world = World::new(2, SESSIONS, 45);
    world.smf.start(world.now);
    world.until(State::Established);
    let shards = world.shards();
    let first = world.traffic(shards, TRAFFIC);
    assert_lossless(&first);
    let seids: Vec<Seid> = world
        .control
        .endpoint()
        .sessions()
        .page(None)
        .map(|one| one.seid())
        .collect();
    let asked = query(&mut world, seids[0], 0x00ff_0001);
    assert_eq!(asked[0].0, 0);
    assert!(asked[0].1 > 0, "{asked:?}");

    let records = leave(&mut world);
    let left = world.control.endpoint().sessions().count();
    assert_eq!(
        (left.sessions, left.tunnels, left.addresses, left.ops),
        (0, 0, 0, 0)
    );
    assert_eq!(
        world.workers.iter().map(worker::Worker::sessions).sum::<usize>(),
        0
    );

    world.restart(3, 46);
    assert_eq!(arrive(&mut world, &records), (1, SESSIONS as usize));
    let after: Vec<Seid> = world
        .control
        .endpoint()
        .sessions()
        .page(None)
        .map(|one| one.seid())
        .collect();
    assert_eq!(after, seids);
    let shards = world.shards();
    let second = world.traffic(shards, TRAFFIC);
    assert_lossless(&second);
    let again = query(&mut world, seids[0], 0x00ff_0002);
    assert_eq!(again[0].0, 1, "the next number");

    world.smf.release(world.now);
    world.until(State::Released);
    let usage = world.smf.progress().usage;
    let queried = |read: fn(&(u32, u64, u64)) -> u64| read(&asked[0]) + read(&again[0]);
    assert_eq!(
        usage.uplink_octets + queried(|one| one.1),
        first.uplink.received_octets + second.uplink.received_octets
    );
    assert_eq!(
        usage.downlink_octets + queried(|one| one.2),
        first.downlink.received_octets + second.downlink.received_octets
    );
    let left = world.control.endpoint().sessions().count();
    assert_eq!(
        (left.sessions, left.tunnels, left.addresses, left.ops),
        (0, 0, 0, 0)
    );
}

#[test]
fn sessions_that_no_process_has_kept_come_back_and_lose_nothing() {
    let mut world = World::new(2, SESSIONS, 49);
    world.smf.start(world.now);
    world.until(State::Established);
    let shards = world.shards();
    let first = world.traffic(shards, TRAFFIC);
    assert_lossless(&first);
    let begun = world
        .control
        .session_transfer(world.now)
        .begin_node_export(Export::Take);
    begun.expect("records");
    let export = loop {
        world.step();
        if let Some(export) = world.control.session_transfer(world.now).poll_node_export() {
            break export;
        }
    };
    assert_eq!((export.sessions, export.failed.len()), (u64::from(SESSIONS), 0));
    assert_eq!(
        world.workers.iter().map(worker::Worker::sessions).sum::<usize>(),
        0
    );
    let failed = world.control.session_transfer(world.now).restore(&export.octets);
    assert_eq!(failed, []);
    for _ in 0..1_000 {
        world.step();
    }
    let shards = world.shards();
    let second = world.traffic(shards, TRAFFIC);
    assert_lossless(&second);
    world.smf.release(world.now);
    world.until(State::Released);
    let usage = world.smf.progress().usage;
    let sum = |one: fn(&Totals) -> u64| one(&first) + one(&second);
    assert_eq!(usage.uplink_octets, sum(|totals| totals.uplink.received_octets));
    assert_eq!(
        usage.downlink_octets,
        sum(|totals| totals.downlink.received_octets)
    );
}

#[test]
fn nothing_is_taken_in_of_another_node() {
    let mut world = World::new(1, 4, 51);
    world.smf.start(world.now);
    world.until(State::Established);
    let node = session::NodeRecord {
        node: vec![0, 192, 0, 2, 200],
        recovery_unix: 1,
        version: "0".into(),
    };
    let records = [node.encode().expect("a record"), leave(&mut world)].concat();
    let mut second = World::new(1, 4, 52);
    let mut failed = Vec::new();
    let taken = second
        .control
        .session_transfer(second.now)
        .import_all(&records, |error| failed.push(error));
    assert_eq!(taken, upf::ImportCounts::default());
    assert!(
        matches!(failed[..], [n4::ImportError::OtherNode(_)]),
        "{failed:?}"
    );
}

#[test]
fn a_second_import_is_refused_and_changes_nothing() {
    let mut world = World::new(1, 4, 47);
    world.smf.start(world.now);
    world.until(State::Established);
    let seid = world
        .control
        .endpoint()
        .sessions()
        .page(None)
        .next()
        .expect("a session")
        .seid();
    world
        .control
        .session_transfer(world.now)
        .export(seid, Export::Copy);
    let record = loop {
        if let Some(exported) = world.control.session_transfer(world.now).poll_exported() {
            break exported.record.expect("a record");
        }
        world.step();
    };
    let before = world.control.endpoint().sessions().count();
    let error = world
        .control
        .session_transfer(world.now)
        .import(&record)
        .expect_err("taken");
    assert_eq!(
        error.to_string(),
        format!("another session has SEID {:#018x}", seid.0)
    );
    assert_eq!(world.control.endpoint().sessions().count(), before);
    world.restart(1, 48);
    let error = world
        .control
        .session_transfer(world.now)
        .import(&record)
        .expect_err("of no session");
    assert_eq!(error.to_string(), "there is no association with 127.0.0.2");
}
