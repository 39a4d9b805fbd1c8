//! The ledger with names: whom a session is for, who controls it, and what a full spool makes of new sessions.

use crate::support;

use flow::UrrCount;
use n4::{NodeName, UsageEntry};
use pfcp::IeType;
use pfcp::ie::Cause;
use rules::model::UrrId;
use session::{EndCause, LedgerEvent, Seid};

use support::wire::*;
use support::*;

fn recorded() -> World {
    let mut config = World::config(2);
    config.sessions.ledger = true;
    let mut world = World::with(config);
    world.associate();
    world
}

fn entries(world: &mut World) -> Vec<UsageEntry> {
    std::iter::from_fn(|| world.n4.poll_usage()).collect()
}

/// A User ID with IMSI 001010123456789, MSISDN 491700000001 and an NAI.
fn user_id() -> Octets {
    let imsi = [8, 0x00, 0x01, 0x01, 0x21, 0x43, 0x65, 0x87, 0xf9];
    let msisdn = [6, 0x94, 0x71, 0x00, 0x00, 0x00, 0x10];
    let nai = b"\x06user@x";
    ie(141, [&[0x01 | 0x04 | 0x08][..], &imsi, &msisdn, nai].concat())
}

#[test]
fn the_subscriber_that_the_smf_names_is_in_the_ledger() {
    let mut world = recorded();
    let mut named = plain_session(1, UE);
    named.extend([user_id(), ie(159, *b"\x03ims\x04test"), ie(257, [1, 0, 0, 10])]);
    let seid = world.ask(50, Some(0), &named).up_seid();
    let index = world.n4.sessions().session(Seid(seid)).unwrap().index();
    let count = UrrCount {
        ul_packets: 1,
        ul_octets: 100,
        ..UrrCount::default()
    };
    world.fleet.count(index, UrrId(1), count);
    world.ask(54, Some(seid), &[]).assert_accepted();
    let entries = entries(&mut world);
    assert_eq!(entries.len(), 2);
    for one in &entries {
        assert_eq!(one.smf, Some(NodeName::Ipv4(SMF_ADDRESS)));
        let subscriber = one.entry.subscriber.as_deref().unwrap();
        assert_eq!(subscriber.imsi.as_deref(), Some("001010123456789"));
        assert_eq!(subscriber.msisdn.as_deref(), Some("491700000001"));
        assert_eq!(subscriber.nai.as_deref(), Some("user@x"));
        assert_eq!(subscriber.dnn.as_deref(), Some("ims.test"));
        assert_eq!(subscriber.s_nssai, Some((1, Some([0, 0, 10]))));
        assert_eq!((subscriber.supi.as_ref(), subscriber.imei.as_ref()), (None, None));
    }
    let LedgerEvent::Usage(report) = entries[0].entry.event else {
        panic!("{entries:?}");
    };
    assert_eq!((report.urr, report.count), (UrrId(1), count));
}

#[test]
fn what_is_used_of_an_association_that_is_released_is_in_the_ledger_with_its_name() {
    let mut world = recorded();
    world.establish(1, UE);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.n4.associations().count(), 0);
    let entries = entries(&mut world);
    assert_eq!(entries.len(), 2);
    assert!(
        entries
            .iter()
            .all(|one| one.smf == Some(NodeName::Ipv4(SMF_ADDRESS)))
    );
    let LedgerEvent::End { cause, .. } = entries[1].entry.event else {
        panic!("{entries:?}");
    };
    assert_eq!(cause, EndCause::AssociationEnded);
}

#[test]
fn without_room_for_records_new_sessions_get_cause_75_and_others_go_on() {
    let mut world = recorded();
    let seid = world.establish(1, UE);
    world.n4.refuse_new_sessions(true);
    let other = "10.45.0.77".parse().unwrap();
    let refused = world.ask(50, Some(0), &plain_session(2, other));
    assert_eq!(
        refused.verdict(),
        because(Cause::NO_RESOURCES_AVAILABLE, None::<IeType>)
    );
    world.ask(52, Some(seid), &[]).assert_accepted();
    world.n4.refuse_new_sessions(false);
    world.establish(2, other);
}
