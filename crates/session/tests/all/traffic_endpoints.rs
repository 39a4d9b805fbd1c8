//! Traffic Endpoints: what they get, and what they take along.

use crate::support;

use flow::InstanceId;
use rules::model::*;
use session::*;

use support::*;

const ENDPOINT: TrafficEndpointId = TrafficEndpointId(5);

fn choose_for_endpoint() -> Choose {
    Choose {
        to: ENDPOINT.into(),
        ..choose(UL, None)
    }
}

/// The uplink PDR of a session names an endpoint with an F-TEID to choose.
fn session_with_endpoint() -> Changes {
    let mut changes = session(UE);
    let uplink = &mut changes.create_pdrs[0];
    let endpoint = TrafficEndpoint {
        ue_ip: std::mem::take(&mut uplink.pdi.ue_ip),
        ..TrafficEndpoint::new(ENDPOINT)
    };
    uplink.pdi.endpoint = Some(ENDPOINT);
    Changes {
        create_endpoints: vec![endpoint],
        choose: vec![choose_for_endpoint()],
        ..changes
    }
}

fn uplink_f_teid(world: &World, seid: Seid) -> Option<FTeid> {
    world
        .sessions
        .session(seid)
        .unwrap()
        .rules()
        .pdr(UL)
        .unwrap()
        .pdi
        .f_teid
}

#[test]
fn an_endpoint_gets_an_f_teid_that_its_pdrs_use() {
    let mut world = World::new(2);
    let done = world.establish(1, session_with_endpoint()).unwrap();
    let (to, f_teid) = done.created[0];
    assert_eq!((done.created.len(), to), (1, ENDPOINT.into()));
    assert_eq!(uplink_f_teid(&world, done.seid), Some(f_teid));
    assert_eq!(
        f_teid.ipv4,
        given(0).ipv4,
        "of N3: an access PDR names the endpoint"
    );
    assert_eq!(flow::bucket::of_teid(f_teid.teid.0), home(UE));
    let mut more = pdr(PdrId(9), SourceInterface::Access, FarId(1));
    more.pdi.endpoint = Some(ENDPOINT);
    let changes = Changes {
        create_pdrs: vec![more],
        ..Changes::default()
    };
    assert_eq!(world.modify(done.seid, changes).unwrap().created, []);
    assert_eq!(world.sessions.count().tunnels, 1);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn an_update_that_chooses_brings_another_f_teid_and_frees_the_old_one() {
    let mut world = World::new(2);
    let done = world.establish(1, session_with_endpoint()).unwrap();
    let changes = Changes {
        update_endpoints: vec![TrafficEndpointUpdate::new(ENDPOINT)],
        choose: vec![choose_for_endpoint()],
        ..Changes::default()
    };
    let updated = world.modify(done.seid, changes).unwrap();
    assert_ne!(updated.created[0].1.teid, done.created[0].1.teid);
    assert_eq!(uplink_f_teid(&world, done.seid), Some(updated.created[0].1));
    assert_eq!(world.sessions.count().tunnels, 1);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn an_endpoint_without_pdrs_holds_its_f_teid_until_it_goes() {
    let mut world = World::new(2);
    let done = world.establish(1, session(UE)).unwrap();
    let changes = Changes {
        create_endpoints: vec![TrafficEndpoint {
            instance: Some(InstanceId(3)),
            ..TrafficEndpoint::new(ENDPOINT)
        }],
        choose: vec![choose_for_endpoint()],
        ..Changes::default()
    };
    let created = world.modify(done.seid, changes).unwrap().created;
    assert_eq!(
        created[0].1.ipv4,
        Some([203, 0, 113, 10].into()),
        "of N9: the endpoint names it"
    );
    world.modify(done.seid, drop_downlink()).unwrap();
    assert_eq!(world.sessions.count().tunnels, 1);
    let removal = Changes {
        remove_endpoints: vec![ENDPOINT],
        ..Changes::default()
    };
    world.modify(done.seid, removal).unwrap();
    assert_eq!(world.sessions.count().tunnels, 0);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn an_endpoint_takes_its_pdrs_along_and_their_usage_is_reported() {
    let mut world = World::new(2);
    let mut changes = session_with_endpoint();
    changes.create_pdrs[1].urrs.clear();
    let done = world.establish(1, changes).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(3));
    let removal = Changes {
        remove_endpoints: vec![ENDPOINT],
        ..Changes::default()
    };
    let removed = world.modify(done.seid, removal).unwrap();
    assert_eq!(removed.usage.len(), 1);
    assert_eq!(
        (removed.usage[0].triggers, removed.usage[0].count),
        (UsageTriggers::TERMR, uplink_count(3))
    );
    assert!(
        world
            .sessions
            .session(done.seid)
            .unwrap()
            .rules()
            .pdr(UL)
            .is_none()
    );
    assert_eq!(world.sessions.count().tunnels, 0);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn endpoints_that_are_not_there_or_chosen_by_the_peer_are_refused_and_change_nothing() {
    let mut world = World::with(Config::for_workers(1));
    let mut changes = session_with_endpoint();
    changes.choose.clear();
    changes.create_endpoints[0].f_teid = Some(given(7));
    let refused = Err(Refusal::Rule {
        rule: ENDPOINT.into(),
        fault: RuleFault::ChosenByPeer,
    });
    assert_eq!(world.establish(1, changes), refused);
    let mut changes = session_with_endpoint();
    changes.create_endpoints.clear();
    changes.choose.clear();
    let refused = Err(Refusal::Rule {
        rule: UL.into(),
        fault: RuleFault::Edit(EditFault::NoEndpoint(ENDPOINT)),
    });
    assert_eq!(world.establish(1, changes), refused);
    world.assert_clean();
}
