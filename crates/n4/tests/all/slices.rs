//! Slices that have workers of their own: what an SMF sees of it.

use crate::support;

use std::net::Ipv4Addr;

use flow::WorkerId;
use pfcp::ie::Cause;
use rules::model::SNssai;
use session::SliceWorkers;

use support::wire::*;
use support::*;

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 9);

/// An SMF's world with three workers, of which slice 1-000001 has the last, and slice 1-000002 the last two.
fn sliced() -> World {
    let list = |sd: u8, workers: &[u16]| {
        let slice = SNssai {
            sst: 1,
            sd: [0, 0, sd],
        };
        (slice, workers.iter().copied().map(WorkerId).collect())
    };
    let mut config = World::config(3);
    config.sessions.slice_workers = SliceWorkers::new([list(1, &[2]), list(2, &[1, 2])]);
    let mut world = World::with(config);
    world.associate();
    world
}

fn slice(sd: u8) -> Octets {
    ie(257, [1, 0, 0, sd])
}

fn of_slice(cp: u64, sd: Option<u8>) -> Vec<Octets> {
    let mut ies = plain_session(cp, UE);
    ies.extend(sd.map(slice));
    ies
}

fn owner(world: &World) -> u16 {
    let session = world.only_session();
    world.n4.sessions().owner(session.bucket()).0
}

#[test]
fn sessions_are_with_the_workers_of_the_slice_that_the_smf_names() {
    for (sd, workers) in [
        (Some(1), &[2][..]),
        (Some(2), &[1, 2]),
        (Some(3), &[0]),
        (None, &[0]),
    ] {
        let mut world = sliced();
        world.ask(50, Some(0), &of_slice(1, sd)).up_seid();
        assert!(workers.contains(&owner(&world)), "{sd:?}");
    }
}

#[test]
fn a_session_does_not_change_to_a_slice_of_other_workers() {
    let mut world = sliced();
    let seid = world.ask(50, Some(0), &of_slice(1, Some(1))).up_seid();
    let refused = world.ask(52, Some(seid), &[slice(3)]);
    assert_eq!(refused.cause(), Some(Cause::REQUEST_REJECTED));
    let named = |world: &World| world.only_session().subscriber().and_then(|one| one.s_nssai);
    assert_eq!(named(&world).map(|slice| slice.sd), Some([0, 0, 1]));
    world.ask(52, Some(seid), &[slice(2)]).assert_accepted();
    assert_eq!(named(&world).map(|slice| slice.sd), Some([0, 0, 2]));
    assert_eq!(owner(&world), 2);
}

#[test]
fn a_session_that_is_set_up_anew_comes_to_the_workers_of_its_new_slice() {
    let mut world = sliced();
    let old = world.ask(50, Some(0), &of_slice(1, Some(1))).up_seid();
    let new = world.ask(50, Some(0), &of_slice(1, None)).up_seid();
    assert!(old != new && world.only_session().seid().0 == new);
    assert_eq!(owner(&world), 0);
    let gate = group(14, &[qer_id(1), gate(1, 1)]);
    let unknown = world.ask(52, Some(old), std::slice::from_ref(&gate)).cause();
    assert_eq!(unknown, Some(Cause::SESSION_CONTEXT_NOT_FOUND));
    world.ask(52, Some(new), &[gate]).assert_accepted();
}
