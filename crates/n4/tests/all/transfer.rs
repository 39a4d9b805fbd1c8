//! What a control plane has yet to receive of a session is transferred with it to another process, under the same
//! numbers.

use crate::support;

use n4::{ImportError, Imported, NodeName, SessionEvent};
use packet::Teid;
use pfcp::ie::ReportType;
use pfcp::message::Message;
use session::{Export, Seid, UsageTriggers};

use support::*;

/// The one record that comes of an export.
fn export(world: &mut World, seid: u64, how: Export) -> Vec<u8> {
    world.n4.export(world.now, Seid(seid), how);
    let sent = world.run();
    assert!(sent.is_empty(), "an export is no peer's business: {sent:?}");
    let exported = world.n4.poll_exported(world.now).expect("a record");
    assert_eq!(exported.seid, Seid(seid));
    assert!(!world.n4.is_exporting());
    exported.record.expect("a record")
}

fn import(world: &mut World, octets: &[u8]) -> Result<Imported, ImportError> {
    let (imported, rest) = world.n4.import(world.now, octets)?;
    assert!(rest.is_empty());
    Ok(imported)
}

#[test]
fn reports_that_were_not_acknowledged_are_sent_by_the_next_process_under_their_numbers() {
    let mut first = World::associated();
    let seid = first.establish(0x77, UE);
    let session = first.only_session().index();
    first
        .n4
        .handle_session_event(first.now, session, used(1, 0, 60, UsageTriggers::IMMER));
    let sent = first.transmits();
    assert_eq!(sent.len(), 1, "on its way, and never answered");
    let error = SessionEvent::ErrorIndication {
        peer: GNB.into(),
        teid: Teid(7),
    };
    first.n4.handle_session_event(first.now, session, error);
    first
        .n4
        .handle_session_event(first.now, session, used(1, 1, 40, UsageTriggers::IMMER));
    let association = first.n4.export_associations().unwrap().concat();
    let record = export(&mut first, seid, Export::Take);
    assert_eq!(first.sessions(), 0);

    let mut second = World::new();
    let node = NodeName::Ipv4(SMF_ADDRESS);
    assert_eq!(
        import(&mut second, &record),
        Err(ImportError::NoAssociation(node.clone()))
    );
    let again = import(&mut second, &association);
    assert_eq!(again, Ok(Imported::Association(node.clone())));
    assert_eq!(
        import(&mut second, &association),
        Ok(Imported::Association(node)),
        "it stays as it is"
    );
    assert_eq!(second.n4.associations().count(), 1);
    assert_eq!(import(&mut second, &record), Ok(Imported::Session(Seid(seid))));
    let sent = second.run();
    assert_eq!(second.n4.poll_imported(), Some((Seid(seid), Ok(()))));
    assert_eq!(sent[0].header().seid, Some(pfcp::Seid(0x77)));
    let all = sent[0].session_report();
    assert_eq!(all.report_type, ReportType::USAR | ReportType::ERIR);
    let usage = all.usage_report.iter();
    let usage: Vec<_> = usage
        .map(|one| (one.ur_seqn.0, one.volume_measurement.unwrap().total))
        .collect();
    assert_eq!(usage, [(0, Some(60)), (1, Some(40))]);
    let sequence = sent[0].header().sequence.get();
    let accepted = wire::message(57, Some(1), sequence, &[wire::ie(19, [1])]);
    assert!(second.send(sent[0].0.to, &accepted).is_empty());

    // The SMF continues the session without noticing.
    second.ask(54, Some(seid), &[]).assert_accepted();
    assert_eq!(second.sessions(), 0);
}

#[test]
fn the_record_of_one_session_does_not_disturb_it() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let record = export(&mut world, seid, Export::Copy);
    let taken = ImportError::Session(session::ImportError::Seid(Seid(seid)));
    assert_eq!(import(&mut world, &record), Err(taken));
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.n4.export(world.now, Seid(seid), Export::Copy);
    let gone = world.n4.poll_exported(world.now).expect("an answer");
    assert_eq!(gone.record.unwrap_err().to_string(), "no such session");
}

/// What comes back for a request.
fn deliver(world: &mut World, message_type: u8, seid: Option<u64>, ies: &[wire::Octets]) -> Vec<Reply> {
    world.send(smf(), &wire::message(message_type, seid, 0x77, ies))
}

/// PFDs of an application with one flow description.
fn provision(world: &mut World, id: &str, flow: &str) {
    let contents = [&[1, 0][..], &(flow.len() as u16).to_be_bytes(), flow.as_bytes()].concat();
    let context = wire::group(59, &[wire::ie(61, contents)]);
    let application = wire::group(58, &[wire::ie(24, id), context]);
    world.ask(3, None, &[application]).assert_accepted();
}

#[test]
fn the_recovery_time_stamp_and_applications_are_kept() {
    let mut first = World::associated();
    provision(&mut first, "video", "permit out 17 from 198.51.100.7 to assigned");
    let records = first.n4.export_node().unwrap();
    assert_eq!(records.len(), 2);
    let associations = first.n4.export_associations().unwrap().concat();

    let mut config = World::config(2);
    config.recovery_unix = UPF_START + 3_600;
    let mut second = World::with(config);
    assert_eq!(import(&mut second, &records[0]), Ok(Imported::Node(UPF_START)));
    let known = import(&mut second, &records[1]);
    assert_eq!(known, Ok(Imported::Application(b"video".to_vec())));
    import(&mut second, &associations).unwrap();
    // An SMF that asks whether the UPF lives sees no restart (TS 23.527 §4).
    let beat = second.ask(1, None, &[wire::recovery(100)]);
    let Message::HeartbeatResponse(beat) = beat.message() else {
        panic!("{beat:?}")
    };
    let started = pfcp::ie::RecoveryTimeStamp::from_unix(UPF_START);
    assert_eq!(beat.recovery_time_stamp, started);
    // The same again is what the first process would write.
    assert_eq!(second.n4.export_node().unwrap(), records);
}

#[test]
fn the_record_of_a_node_is_for_that_node_before_its_peers_know_another_start() {
    let first = World::associated();
    let node = first.n4.export_node().unwrap().concat();
    let mut late = World::associated();
    assert_eq!(import(&mut late, &node), Err(ImportError::TooLate));
    let mut config = World::config(2);
    config.node = NodeName::Ipv4(std::net::Ipv4Addr::new(192, 0, 2, 200));
    let mut other = World::with(config);
    let own = NodeName::Ipv4(UPF_ADDRESS);
    assert_eq!(import(&mut other, &node), Err(ImportError::OtherNode(own)));
}

#[test]
fn an_smf_that_we_ask_for_associations_is_not_asked_for_one_that_came_along() {
    let first = World::associated();
    let association = first.n4.export_associations().unwrap().concat();
    let mut config = World::config(2);
    config.smfs = vec![n4::Smf {
        address: SMF_ADDRESS.into(),
        local: std::net::SocketAddr::new(UPF_ADDRESS.into(), 8805),
    }];
    let mut second = World::with(config);
    import(&mut second, &association).unwrap();
    assert!(second.pass(std::time::Duration::from_secs(60)).is_empty());
}

#[test]
fn peers_receive_nothing_while_sessions_are_handed_over_and_all_again_if_they_come_back() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let session = world.only_session().index();
    world.n4.begin_transfer();
    world
        .n4
        .handle_session_event(world.now, session, used(1, 0, 60, UsageTriggers::IMMER));
    assert!(world.run().is_empty());
    assert!(
        deliver(&mut world, 54, Some(seid), &[]).is_empty(),
        "the SMF repeats it"
    );
    assert_eq!(world.sessions(), 1);
    let record = export(&mut world, seid, Export::Take);
    world.n4.cancel_transfer();
    assert_eq!(import(&mut world, &record), Ok(Imported::Session(Seid(seid))));
    let sent = world.run();
    assert_eq!(sent[0].session_report().usage_report.iter().count(), 1);
    world.ask(54, Some(seid), &[]).assert_accepted();
    // And nothing at all when another process has them.
    world.n4.complete_transfer(world.now);
    assert!(world.n4.has_ended());
    assert!(world.pass(std::time::Duration::from_secs(60)).is_empty());
    assert!(deliver(&mut world, 1, None, &[wire::recovery(100)]).is_empty());
}
