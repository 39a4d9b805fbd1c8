//! What a control plane has yet to hear of a session goes along with it to another process, under the same numbers.

use crate::support;

use flow::{Nanos, UrrCount};
use n4::{ImportError, Imported, NodeName, SessionEvent};
use packet::Teid;
use pfcp::ie::ReportType;
use pfcp::message::{Message, SessionReportRequest};
use rules::model::{MeasurementMethod, UrrId};
use session::{Export, Seid, UsageReport, UsageTriggers};

use support::*;

fn used(sequence: u32, octets: u64) -> SessionEvent {
    SessionEvent::Usage(UsageReport {
        urr: UrrId(1),
        method: MeasurementMethod::VOLUM,
        sequence,
        triggers: UsageTriggers::IMMER,
        count: UrrCount {
            ul_packets: 1,
            ul_octets: octets,
            ..UrrCount::default()
        },
        start: Nanos::ZERO.into(),
        end: Nanos::from_secs(1).into(),
        duration: None,
        first: None,
        last: None,
        information: None,
        before_qos: None,
        tells_packets: false,
    })
}

fn report(reply: &Reply) -> SessionReportRequest<'_> {
    match reply.message() {
        Message::SessionReportRequest(report) => report,
        other => panic!("{other:?}"),
    }
}

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
    first.n4.handle_session_event(first.now, session, used(0, 60));
    let sent = first.transmits();
    assert_eq!(sent.len(), 1, "on its way, and never answered");
    let error = SessionEvent::ErrorIndication {
        peer: GNB.into(),
        teid: Teid(7),
    };
    first.n4.handle_session_event(first.now, session, error);
    first.n4.handle_session_event(first.now, session, used(1, 40));
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
    let all = report(&sent[0]);
    assert_eq!(all.report_type, ReportType::USAR | ReportType::ERIR);
    let usage = all.usage_report.iter();
    let usage: Vec<_> = usage
        .map(|one| (one.ur_seqn.0, one.volume_measurement.unwrap().total))
        .collect();
    assert_eq!(usage, [(0, Some(60)), (1, Some(40))]);
    let sequence = sent[0].header().sequence.get();
    let accepted = wire::message(57, Some(1), sequence, &[wire::ie(19, [1])]);
    assert!(second.send(sent[0].0.to, &accepted).is_empty());

    // The SMF goes on with the session as if nothing had been.
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
