//! Which worker owns a session, and the worker selection exceptions that every worker receives.

use crate::support;

use std::net::Ipv4Addr;

use flow::{Bucket, WorkerId, bucket};
use session::*;

use support::*;

#[test]
fn a_teid_of_the_peers_choice_has_a_worker_selection_exception() {
    let mut world = World::new(4);
    let teid = stray_teid(UE);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(teid));
    let done = world.establish(1, changes).unwrap();
    assert_eq!(done.created, []);
    for worker in &world.fleet.workers {
        assert_eq!(
            worker.exceptions.values().copied().collect::<Vec<_>>(),
            [home(UE)]
        );
    }
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn accepted_means_that_every_worker_has_the_exception() {
    let mut world = World::new(2);
    let teid = stray_teid(UE);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(teid));
    let ticket = world.ticket();
    world
        .sessions
        .establish(world.now, ticket, SMF, cp_f_seid(1), changes);
    world.hand_over();
    let owner = WorkerId((home(UE).index() % 2) as u16);
    let answers: Vec<_> = std::iter::from_fn(|| world.fleet.worker(owner).step())
        .flatten()
        .collect();
    for (op, result) in answers {
        world.sessions.applied(world.now, op, result);
    }
    assert_eq!(
        world.sessions.poll_outcome(),
        None,
        "the other worker does not have it yet"
    );
    assert_eq!(world.run().len(), 1);
}

#[test]
fn a_second_address_has_an_exception_too() {
    let mut world = World::new(4);
    let mut changes = chosen_session(UE);
    for pdr in &mut changes.create_pdrs {
        pdr.pdi.ue_ip[0].ipv6 = Some(("2001:db8:45::".parse().unwrap(), 64));
    }
    let done = world.establish(1, changes).unwrap();
    let keys: Vec<WorkerSelectionKey> = world.fleet.workers[0].exceptions.keys().copied().collect();
    assert!(
        matches!(keys[..], [WorkerSelectionKey::Address(_, prefix)] if !prefix.is_ipv4()),
        "{keys:?}"
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_session_without_addresses_lives_where_its_first_tunnel_does() {
    let mut world = World::new(4);
    let mut changes = chosen_session(UE);
    changes
        .create_pdrs
        .iter_mut()
        .for_each(|pdr| pdr.pdi.ue_ip.clear());
    changes.choose = vec![choose(UL, None), choose(DL, None)];
    let done = world.establish(1, changes).unwrap();
    let buckets: Vec<Bucket> = done
        .created
        .iter()
        .map(|(_, f_teid)| bucket::of_teid(f_teid.teid.0))
        .collect();
    assert_eq!(buckets[0], buckets[1]);
    assert_eq!(world.sessions.session(done.seid).unwrap().bucket(), buckets[0]);
    assert_eq!(
        done.created[1].1.ipv4,
        Some(Ipv4Addr::new(203, 0, 113, 10)),
        "the core side is N9"
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}
