//! Sessions that an SMF restores after a restart of the user plane (RESTI, TS 29.244 §5.5.1, TS 23.527 §4.3.2), and
//! those that an SGW-C restores without saying so.

use crate::support;

use std::net::Ipv4Addr;
use std::time::Duration;

use flow::Nanos;
use flow::bucket::{adjust_teid, of_ipv4, of_teid};
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

const N9: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
const RESTORATION: Duration = Duration::from_secs(30);
const NOT_YOURS: (u8, Option<u16>) = (71, Some(21));

impl World {
    /// Of three workers, as it is for half a minute after the start, with the SMF's association.
    fn restarted() -> World {
        let mut config = World::config(3);
        config.sessions.restoration = RESTORATION;
        let mut world = World::with(config);
        world.associate();
        world
    }

    /// Sets a session up and answers what came of it. The session goes again, so that the next one finds none.
    fn tried(&mut self, request: &[Octets]) -> (u8, Option<u16>) {
        let reply = self.ask(50, Some(0), request);
        if reply.cause() == Some(Cause::REQUEST_ACCEPTED) {
            let seid = reply.up_seid();
            self.ask(54, Some(seid), &[]).assert_accepted();
        }
        reply.verdict()
    }
}

/// The user plane of a bearer as Open5GS' SGW-C has it set up, and set up again: no Precedence, no UE address, the
/// F-TEIDs that it was given where it had asked for CHOOSE, and no PFCPSEReq-Flags.
fn sgw_bearer(cp: u64, s1u: Octets, s5u: Octets) -> Vec<Octets> {
    let removal = || outer_header_removal(6);
    let header = |teid| outer_header_creation(teid, GNB);
    let far = |id, to, teid| {
        let forwarding = forwarding(&[destination_if(to), header(teid)]);
        create_far(&[far_id(id), apply_action(&[FORW, 0]), forwarding])
    };
    vec![
        node_v4(SMF_ADDRESS),
        f_seid(cp, SMF_ADDRESS.into()),
        create_pdr(&[pdr_id(1), pdi(&[source_if(CORE), s5u]), removal(), far_id(1)]),
        create_pdr(&[pdr_id(2), pdi(&[source_if(ACCESS), s1u]), removal(), far_id(2)]),
        far(1, ACCESS, 0x100 + cp as u32),
        far(2, CORE, 0x200 + cp as u32),
    ]
}

fn plain(teids: [u32; 2]) -> Vec<Octets> {
    let [s1u, s5u] = teids;
    sgw_bearer(7, f_teid(s1u, N3), f_teid(s5u, N9))
}

#[test]
fn an_sgw_c_that_does_not_say_that_it_restores_finds_its_tunnels_again() {
    let mut before = World::restarted();
    let chosen = sgw_bearer(7, choose(V4, None), choose(V4, None));
    let created = before.ask(50, Some(0), &chosen).created();
    let [(1, s5u, Some(N9)), (2, s1u, Some(N3))] = created[..] else {
        panic!("{created:?}");
    };

    let mut after = World::restarted();
    let reply = after.ask(50, Some(0), &plain([s1u, s5u]));
    reply.assert_accepted();
    assert!(reply.created().is_empty(), "nothing was chosen");
    let session = after.only_session();
    let mut teids: Vec<u32> = session.rules().f_teids().map(|own| own.teid.0).collect();
    teids.sort_unstable();
    assert_eq!(teids, [s1u.min(s5u), s1u.max(s5u)]);
    // As before the restart, no worker needs a command for each of them.
    assert_eq!(session.bucket(), of_teid(s1u));
    assert_eq!(of_teid(s5u), of_teid(s1u));

    // Half a minute after the start it is as it always was.
    let mut late = World::restarted();
    late.now = Nanos::ZERO + RESTORATION;
    assert_eq!(late.tried(&plain([s1u, s5u])), NOT_YOURS);
    // And where there is no such time.
    assert_eq!(World::associated().tried(&plain([s1u, s5u])), NOT_YOURS);
}

#[test]
fn an_sgw_c_that_has_lost_the_answer_restores_a_session_once_more() {
    let mut before = World::restarted();
    let chosen = sgw_bearer(7, choose(V4, None), choose(V4, None));
    let created = before.ask(50, Some(0), &chosen).created();
    let [(1, s5u, Some(N9)), (2, s1u, Some(N3))] = created[..] else {
        panic!("{created:?}");
    };
    let mut after = World::restarted();
    after.ask(50, Some(0), &plain([s1u, s5u])).assert_accepted();
    after.ask(50, Some(0), &plain([s1u, s5u])).assert_accepted();
    assert_eq!(after.sessions(), 1);
}

#[test]
fn a_restored_session_of_a_ue_has_its_bucket_and_its_lease() {
    let teid = adjust_teid(0x1234_5678, of_ipv4(UE.octets()));
    let mut request = restored(1, (teid, N3), UE);
    request.pop();
    let mut world = World::restarted();
    world.ask(50, Some(0), &request).assert_accepted();
    assert_eq!(world.only_session().bucket(), of_ipv4(UE.octets()));
}

#[test]
fn what_we_cannot_have_given_is_refused_after_a_restart_too() {
    let home = of_ipv4(UE.octets());
    let elsewhere = flow::Bucket::new(home.index() as u16 ^ 1).unwrap();
    let (ours, other) = (adjust_teid(0x1000, home), adjust_teid(0x1000, elsewhere));
    let one = |teid, address| {
        let mut request = restored(1, (teid, address), UE);
        request.pop();
        request
    };
    let mut world = World::restarted();
    assert_eq!(world.tried(&one(ours, N3)), (1, None));
    for (request, why) in [
        (one(other, N3), "not in the bucket of the UE"),
        (one(1, N3), "counted, not drawn"),
        (one(0, N3), "no TEID"),
        (one(ours, ELSEWHERE), "not our address"),
        (plain([ours, other]), "of two buckets"),
    ] {
        assert_eq!(world.tried(&request), NOT_YOURS, "{why}");
    }
    // Nor what a session has that is there already.
    world.ask(50, Some(0), &one(ours, N3)).assert_accepted();
    let mut taken = one(ours, N3);
    taken[1] = f_seid(2, SMF_ADDRESS.into());
    assert_eq!(world.tried(&taken), NOT_YOURS);
    assert_eq!(world.sessions(), 1);
}

#[test]
fn a_live_session_gets_no_f_teids_of_the_peers_choice_after_a_restart() {
    let mut world = World::restarted();
    let seid = world.establish(1, UE);
    let teid = adjust_teid(0x1000, of_ipv4(UE.octets()));
    let pdr = uplink_pdr(3, UE, f_teid(teid, N3));
    let reply = world.ask(52, Some(seid), &[pdr]);
    assert_eq!(reply.verdict(), NOT_YOURS);
}

/// No record is asked for.
struct NoRecords;

impl n4::StoredSessions for NoRecords {
    fn read(&mut self, _: usize) -> Result<n4::StoredSession, n4::RecordFault> {
        Err(n4::RecordFault::Unreadable)
    }
}

/// The first start with a store, as `sluice` makes it: there is nothing to wait for.
#[test]
fn a_store_without_sessions_holds_no_port_block_back() {
    use rules::network::Roles;

    let network = fleet::network();
    let instance = network.first_with(Roles::N6).expect("a data network");
    let addresses = Ipv4Addr::new(203, 0, 113, 101)..=Ipv4Addr::new(203, 0, 113, 102);
    let pool = rules::testing::public_pool(&network, instance.id, addresses);
    let network = std::sync::Arc::new((*network).clone().with_nat(vec![pool]).expect("a pool"));
    let mut held = Vec::new();
    for has_store in [false, true] {
        let mut world = World::with_network(World::config(1), network.clone());
        if has_store {
            let none = std::iter::empty::<Result<(session::SessionHead<'_>, bool), ()>>();
            let absent = n4::AbsentSessions::list(&network, none, 0, Box::new(NoRecords), 1);
            world.n4.begin_restoring(absent.expect("none"), 0);
            assert!(world.n4.restore_next(world.now).is_none());
        }
        world.associate();
        world.establish(1, UE);
        world.run();
        let index = world.only_session().index();
        world.n4.handle_port_block_wanted(world.now, index);
        held.push(world.n4.sessions().port_blocks(index).len());
    }
    assert_eq!(held, [2, 2], "without a store, with one");
}
