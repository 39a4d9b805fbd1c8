//! Sessions that an SMF restores after a restart of the user plane (RESTI, TS 29.244 §5.5.1, TS 23.527 §4.3.2).

use crate::support;

use std::net::Ipv4Addr;

use pfcp::ie::Cause;

use support::wire::*;
use support::*;

const OTHER_UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 3);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

/// A session that had the TEID and the UE address before.
fn restored(cp: u64, (teid, address): (u32, Ipv4Addr), ue: Ipv4Addr) -> Vec<Octets> {
    let mut request = plain_session(cp, ue);
    request[2] = uplink_pdr(1, ue, f_teid(teid, address));
    request.push(ie(186, [1]));
    request
}

#[test]
fn a_session_is_restored_under_its_own_f_teid_and_address() {
    let mut world = World::associated();
    let reply = world.ask(50, Some(0), &restored(1, (0x1234, N3), UE));
    reply.assert_accepted();
    assert!(reply.created().is_empty());
    let session = world.only_session();
    assert_eq!(
        session
            .rules()
            .f_teids()
            .map(|own| own.teid.0)
            .collect::<Vec<_>>(),
        [0x1234]
    );
    let seid = session.seid().0;
    // Chosen ones keep clear of it.
    let other = world.establish(2, OTHER_UE);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.ask(54, Some(other), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn what_another_session_has_cannot_be_restored() {
    let mut world = World::associated();
    let first = world.ask(50, Some(0), &restored(1, (0x1234, N3), UE)).up_seid();
    for request in [restored(2, (0x1234, N3), OTHER_UE), restored(2, (0x1235, N3), UE)] {
        let reply = world.ask(50, Some(0), &request);
        assert_eq!(reply.cause(), Some(Cause::RESTORATION_RESOURCE_NOT_AVAILABLE));
        assert_eq!(world.sessions(), 1);
    }
    world.ask(54, Some(first), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn an_address_that_is_no_longer_ours_cannot_be_restored() {
    let mut world = World::associated();
    let reply = world.ask(50, Some(0), &restored(1, (0x1234, ELSEWHERE), UE));
    assert_eq!(reply.cause(), Some(Cause::RESTORATION_RESOURCE_NOT_AVAILABLE));
    world.assert_clean();
}

#[test]
fn without_the_indication_a_chosen_f_teid_is_refused() {
    let mut world = World::associated();
    let mut request = restored(1, (0x1234, N3), UE);
    request.pop();
    let reply = world.ask(50, Some(0), &request);
    assert_eq!(reply.cause(), Some(Cause::INVALID_F_TEID_ALLOCATION_OPTION));
    world.assert_clean();
}
