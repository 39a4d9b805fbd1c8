//! One association cannot take all the tunnels of a worker while there are others.

use crate::support;

use std::net::Ipv4Addr;

use rules::model::*;
use session::*;

use support::*;

const OTHER: AssociationId = AssociationId(2);

/// A session of this number of tunnels.
fn wide(host: u8, tunnels: u16) -> Changes {
    let mut changes = chosen_session(Ipv4Addr::new(10, 45, 0, host));
    for id in 100..100 + tunnels - 1 {
        changes
            .create_pdrs
            .push(pdr(PdrId(id), SourceInterface::Access, FarId(1)));
        changes.choose.push(choose(PdrId(id), None));
    }
    changes
}

fn establish(world: &mut World, association: AssociationId, host: u8, tunnels: u16) -> Result<Done, Refusal> {
    let ticket = world.ticket();
    let cp = cp_f_seid(u64::from(host));
    world
        .sessions
        .establish(world.now, ticket, association, cp, wide(host, tunnels));
    world.run().remove(0).result
}

fn world() -> World {
    World::with(Config {
        worker_tunnels: 100,
        association_percent: 60,
        ..Config::for_workers(1)
    })
}

#[test]
fn among_others_an_association_has_its_share_and_alone_all() {
    let mut world = world();
    world.sessions.share_among(2);
    establish(&mut world, SMF, 1, 60).unwrap();
    assert_eq!(establish(&mut world, SMF, 2, 1), Err(Refusal::NoResources));
    let others = establish(&mut world, OTHER, 3, 40).unwrap();
    world.delete(others.seid).unwrap();
    world.sessions.share_among(1);
    let more = establish(&mut world, SMF, 2, 40).unwrap();
    assert_eq!(establish(&mut world, SMF, 4, 1), Err(Refusal::NoResources));
    world.sessions.share_among(2);
    world.modify(more.seid, drop_downlink()).expect("takes nothing");
    let with_one = added_pdr(choose(PdrId(3), None));
    assert_eq!(world.modify(more.seid, with_one), Err(Refusal::NoResources));
    assert_eq!(world.sessions.tunnels_of(SMF), 100);
    assert_eq!(world.sessions.count().tunnels, 100, "the refused ones left none");
}

#[test]
fn what_a_session_gives_back_may_be_taken_again() {
    let mut world = world();
    world.sessions.share_among(2);
    for host in 1..20 {
        let done = establish(&mut world, SMF, host, 60).unwrap();
        match host % 3 {
            0 => assert_eq!(world.end_association(), 1),
            1 => drop(world.delete(done.seid).unwrap()),
            _ => {
                let ids = (100..159).map(PdrId).collect();
                let narrower = Changes {
                    remove_pdrs: ids,
                    ..Changes::default()
                };
                world.modify(done.seid, narrower).unwrap();
                assert_eq!(world.sessions.tunnels_of(SMF), 1);
                world.delete(done.seid).unwrap();
            }
        }
    }
    world.assert_clean();
}

#[test]
fn a_tunnel_that_is_taken_over_from_a_dying_session_counts_once() {
    let mut world = World::new(1);
    let mut changes = session(Ipv4Addr::new(10, 45, 0, 1));
    changes.create_pdrs[0].pdi.f_teid = Some(given(0x1234));
    let ticket = world.ticket();
    world.establish(1, changes.clone()).unwrap();
    world.end_association();
    assert_eq!(world.sessions.tunnels_of(SMF), 0);
    world
        .sessions
        .establish(world.now, ticket, OTHER, cp_f_seid(1), changes);
    let done = world.run().remove(0).result.unwrap();
    let of = |world: &World| (world.sessions.tunnels_of(SMF), world.sessions.tunnels_of(OTHER));
    assert_eq!(of(&world), (0, 1));
    world.delete(done.seid).unwrap();
    assert_eq!(of(&world), (0, 0));
    world.assert_clean();
}

#[test]
fn among_others_an_association_has_its_share_of_sessions_and_of_ue_addresses() {
    let mut world = World::with(Config {
        max_sessions: 4,
        worker_addresses: 6,
        association_percent: 50,
        ..Config::for_workers(1)
    });
    let ask = |world: &mut World, association, host: u8, more: u8| {
        let mut changes = chosen_session(Ipv4Addr::new(10, 45, 0, host));
        for other in 0..more {
            let ue_ip = UeIpAddress {
                ipv4: Some(Ipv4Addr::new(10, 45, 1 + other, host)),
                ipv6: None,
                is_destination: true,
            };
            changes.create_pdrs[1].pdi.ue_ip.push(ue_ip);
        }
        let ticket = world.ticket();
        let cp = cp_f_seid(u64::from(host));
        world
            .sessions
            .establish(world.now, ticket, association, cp, changes);
        world.run().remove(0).result
    };
    world.sessions.share_among(2);
    assert_eq!(
        ask(&mut world, SMF, 1, 3),
        Err(Refusal::NoResources),
        "4 addresses of 6"
    );
    let wide = ask(&mut world, SMF, 1, 2).expect("half of the addresses").seid;
    assert_eq!(ask(&mut world, SMF, 2, 0), Err(Refusal::NoResources));
    world.delete(wide).expect("it goes");
    ask(&mut world, SMF, 1, 0).expect("a session");
    ask(&mut world, SMF, 2, 0).expect("half of the sessions");
    assert_eq!(ask(&mut world, SMF, 3, 0), Err(Refusal::NoResources));
    ask(&mut world, OTHER, 3, 0).expect("another's share");
    world.sessions.share_among(1);
    ask(&mut world, SMF, 4, 0).expect("alone, it may have all");
}

/// Addresses that SMFs chose are in any bucket: those in another than their session's are sent to every worker.
#[test]
fn one_association_cannot_take_all_room_for_keys_that_stray() {
    let mut world = World::with(Config {
        exceptions: 8,
        association_percent: 50,
        ..Config::for_workers(2)
    });
    world.sessions.share_among(2);
    // A UE address of each session is in another bucket: its bucket is that of the first.
    let stray = |host: u8| {
        let mut changes = chosen_session(Ipv4Addr::new(10, 45, 0, host));
        let second = Ipv4Addr::new(10, 46, 0, host);
        let pdr = changes.create_pdrs.last_mut().expect("the downlink PDR");
        let mut more = pdr.pdi.ue_ip[0];
        more.ipv4 = Some(second);
        pdr.pdi.ue_ip.push(more);
        changes
    };
    let mut establish = |association, host: u8| {
        let ticket = world.ticket();
        let cp = cp_f_seid(u64::from(host));
        world
            .sessions
            .establish(world.now, ticket, association, cp, stray(host));
        world.run().remove(0).result.map(|done| done.seid)
    };
    let mut taken = Vec::new();
    let refused = (1..20).find_map(|host| match establish(SMF, host) {
        Ok(seid) => {
            taken.push(seid);
            None
        }
        Err(refusal) => Some(refusal),
    });
    assert_eq!(refused, Some(Refusal::NoResources));
    assert!(
        (4..8).contains(&taken.len()),
        "some lie in their bucket by chance: {}",
        taken.len()
    );
    let other = establish(OTHER, 30).expect("half is left");
    taken.push(other);
    taken.into_iter().for_each(|seid| drop(world.delete(seid)));
    world.assert_clean();
    world.sessions.share_among(2);
    (1..5).for_each(|host| {
        drop(
            world
                .establish(u64::from(host), stray(host))
                .expect("all was given back"),
        )
    });
}
