//! UE addresses from pools, and networks behind UEs.

use crate::support;

use std::net::Ipv4Addr;

use flow::{InstanceId, WorkerId};
use proptest::prelude::*;
use rules::model::*;
use rules::prefix::IpPrefix;
use session::*;

use support::*;

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn pools() -> Vec<Pool> {
    let v4 = |a: [u8; 4], b: [u8; 4]| PoolRange::ipv4(a.into(), b.into()).unwrap();
    vec![
        Pool {
            name: "all".into(),
            instance: InstanceId(1),
            ranges: vec![
                v4([10, 45, 0, 1], [10, 45, 255, 254]),
                PoolRange::ipv6(prefix("2001:db8:1000::/36"), 64).unwrap(),
                PoolRange::ipv6(prefix("2001:db8:2000::/36"), 56).unwrap(),
            ],
        },
        Pool {
            name: "two".into(),
            instance: InstanceId(2),
            ranges: vec![v4([10, 46, 0, 1], [10, 46, 0, 2])],
        },
    ]
}

fn world(workers: u16) -> World {
    World::with(Config {
        pools: pools(),
        ..Config::for_workers(workers)
    })
}

fn wish(to: PdrId, ipv4: bool, ipv6: Option<Option<u8>>) -> ChooseUeIp {
    ChooseUeIp {
        to: to.into(),
        ipv4,
        ipv6,
        is_delegated: false,
        is_destination: true,
        pools: Vec::new(),
    }
}

/// Both PDRs of a session want an address; the uplink one names the access network, as SMFs do.
fn session_to_address(ipv4: bool, ipv6: Option<Option<u8>>, dnn: InstanceId) -> Changes {
    let mut changes = chosen_session(UE);
    for pdr in &mut changes.create_pdrs {
        pdr.pdi.ue_ip.clear();
    }
    changes.create_pdrs[0].pdi.instance = Some(InstanceId(0));
    changes.create_pdrs[1].pdi.instance = Some(dnn);
    Changes {
        choose_ue_ip: vec![wish(UL, ipv4, ipv6), wish(DL, ipv4, ipv6)],
        ..changes
    }
}

const INTERNET: InstanceId = InstanceId(1);
const IMS: InstanceId = InstanceId(2);

#[test]
fn all_that_a_request_chooses_is_one_address_in_one_bucket() {
    let mut world = world(4);
    let done = world
        .establish(1, session_to_address(true, Some(Some(64)), INTERNET))
        .unwrap();
    let [first, second] = &done.assigned[..] else {
        panic!("{:?}", done.assigned)
    };
    assert_eq!((first.to, second.to), (UL.into(), DL.into()));
    assert_eq!(first.address, second.address);
    let (v4, (v6, len)) = (first.address.ipv4.unwrap(), first.address.ipv6.unwrap());
    assert!(prefix("10.45.0.0/16").contains(v4.into()) && prefix("2001:db8:1000::/36").contains(v6.into()));
    let session = world.sessions.session(done.seid).unwrap();
    assert_eq!((len, session.bucket()), (64, home(v4)));
    assert_eq!(session.rules().pdr(DL).unwrap().pdi.ue_ip[..], [first.address]);
    let pool = world.sessions.pool_usage(PoolId(0));
    assert_eq!((pool.0, world.sessions.count().addresses), (2, 2));
    for worker in &world.fleet.workers {
        assert!(
            worker.exceptions.is_empty(),
            "all is in the bucket: {:?}",
            worker.exceptions
        );
    }
    world.delete(done.seid).unwrap();
    assert_eq!(world.sessions.pool_usage(PoolId(0)).0, 0);
    world.assert_clean();
}

#[test]
fn a_pool_that_is_used_up_says_so_until_an_address_is_free() {
    let mut world = world(2);
    let [a, b] = [1, 2].map(|cp| world.establish(cp, session_to_address(true, None, IMS)).unwrap());
    assert_ne!(a.assigned[0].address, b.assigned[0].address);
    let before = world.sessions.count();
    assert_eq!(
        world.establish(3, session_to_address(true, None, IMS)),
        Err(Refusal::NoAddress)
    );
    assert_eq!(world.sessions.count(), before);
    world.delete(a.seid).unwrap();
    let c = world.establish(3, session_to_address(true, None, IMS)).unwrap();
    assert_eq!(c.assigned[0].address, a.assigned[0].address);
    for done in [b, c] {
        world.delete(done.seid).unwrap();
    }
    world.assert_clean();
}

#[test]
fn what_no_pool_has_is_refused_and_leaves_nothing() {
    let mut world = world(2);
    let refused = Err(Refusal::Rule {
        rule: UL.into(),
        fault: RuleFault::NoPool,
    });
    assert_eq!(
        world.establish(1, session_to_address(true, Some(Some(72)), INTERNET)),
        refused
    );
    assert_eq!(
        world.establish(1, session_to_address(false, Some(None), IMS)),
        refused
    );
    let mut broken = session_to_address(true, Some(Some(64)), INTERNET);
    broken.create_pdrs[1].far = Some(FarId(77));
    assert!(world.establish(1, broken).is_err());
    assert_eq!(world.sessions.pool_usage(PoolId(0)).0, 0);
    world.assert_clean();
}

#[test]
fn lengths_and_pools_are_chosen_by_the_request() {
    let mut world = world(2);
    let mut changes = session_to_address(true, Some(Some(56)), IMS);
    for wish in &mut changes.choose_ue_ip {
        wish.pools = vec![PoolId(1), PoolId(0)];
    }
    let done = world.establish(1, changes).unwrap();
    let address = done.assigned[0].address;
    assert!(prefix("10.46.0.0/30").contains(address.ipv4.unwrap().into()));
    let (v6, len) = address.ipv6.unwrap();
    assert!(prefix("2001:db8:2000::/36").contains(v6.into()) && len == 56);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn an_update_gets_another_prefix_and_keeps_its_ipv4_address() {
    let mut world = world(2);
    let done = world
        .establish(1, session_to_address(true, Some(Some(64)), INTERNET))
        .unwrap();
    let first = done.assigned[0].address;
    let update = PdrUpdate {
        pdi: Some(PdiUpdate {
            source_interface: Some(SourceInterface::Core),
            ue_ip: Some(Vec::new()),
            ..PdiUpdate::default()
        }),
        ..PdrUpdate::new(DL)
    };
    let changes = Changes {
        update_pdrs: vec![update],
        choose_ue_ip: vec![wish(DL, true, Some(Some(64)))],
        ..Changes::default()
    };
    let updated = world.modify(done.seid, changes).unwrap();
    let addresses: Vec<UeIpAddress> = updated.assigned.iter().map(|one| one.address).collect();
    assert!(
        updated
            .assigned
            .iter()
            .all(|one| one.is_update && one.to == DL.into())
    );
    assert_eq!((addresses.len(), addresses[0]), (2, first));
    assert!(addresses[1].ipv4.is_none() && addresses[1].ipv6 != first.ipv6);
    assert_eq!(world.ue_addresses(done.seid, DL), addresses);
    assert_eq!(world.sessions.pool_usage(PoolId(0)).0, 3);
    world.modify(done.seid, removed(DL)).unwrap();
    assert_eq!(
        world.sessions.pool_usage(PoolId(0)).0,
        2,
        "the uplink PDR has the first two"
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

fn removed(id: PdrId) -> Changes {
    Changes {
        remove_pdrs: vec![id],
        ..Changes::default()
    }
}

#[test]
fn a_later_request_may_name_the_address_that_the_session_has() {
    let mut world = world(2);
    let done = world
        .establish(1, session_to_address(true, None, INTERNET))
        .unwrap();
    let address = done.assigned[0].address;
    let mut again = pdr(PdrId(3), SourceInterface::Core, FarId(2));
    again.pdi.ue_ip = vec![address].into();
    let changes = Changes {
        create_pdrs: vec![again],
        ..Changes::default()
    };
    world.modify(done.seid, changes).unwrap();
    let mut foreign = chosen_session(address.ipv4.unwrap());
    foreign.create_pdrs[1].pdi.instance = Some(INTERNET);
    let taken = Refusal::Rule {
        rule: DL.into(),
        fault: RuleFault::AddressTaken,
    };
    assert_eq!(world.establish(2, foreign), Err(taken));
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_restored_session_has_the_address_of_the_pool_again() {
    let mut world = world(2);
    let given = world
        .establish(1, session_to_address(true, None, INTERNET))
        .unwrap();
    let own = given.assigned[0].address;
    world.delete(given.seid).unwrap();
    let with_address = |restores| {
        let mut changes = session_to_address(true, None, INTERNET);
        changes.choose_ue_ip.clear();
        for pdr in &mut changes.create_pdrs {
            pdr.pdi.ue_ip = vec![own].into();
        }
        Changes { restores, ..changes }
    };
    let restored = world.establish(2, with_address(true)).unwrap();
    assert!(restored.assigned.is_empty());
    assert_eq!(world.sessions.pool_usage(PoolId(0)).0, 1);
    let taken = world.establish(3, with_address(true)).unwrap_err();
    assert!(
        matches!(
            taken,
            Refusal::Rule {
                fault: RuleFault::AddressTaken,
                ..
            }
        ),
        "{taken}"
    );
    // It stays the session's while any of its rules names it.
    let removed_downlink = Changes {
        remove_pdrs: vec![DL],
        ..Changes::default()
    };
    world.modify(restored.seid, removed_downlink).unwrap();
    assert_eq!(world.sessions.pool_usage(PoolId(0)).0, 1);
    world.delete(restored.seid).unwrap();
    world.assert_clean();
}

#[test]
fn an_endpoint_is_given_addresses_too() {
    let mut world = world(2);
    let endpoint = TrafficEndpointId(4);
    let mut changes = session_to_address(true, None, INTERNET);
    changes.create_endpoints = vec![TrafficEndpoint {
        instance: Some(INTERNET),
        ..TrafficEndpoint::new(endpoint)
    }];
    changes.create_pdrs[1].pdi.endpoint = Some(endpoint);
    changes.choose_ue_ip[1].to = endpoint.into();
    let done = world.establish(1, changes).unwrap();
    assert_eq!(done.assigned[1].to, endpoint.into());
    let address = done.assigned[1].address;
    assert_eq!(world.ue_addresses(done.seid, DL), [address]);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_superseded_session_gives_its_addresses_back() {
    let mut world = world(2);
    let old = world.establish(1, session_to_address(true, None, IMS)).unwrap();
    let new = world.establish(1, session_to_address(true, None, IMS)).unwrap();
    assert_ne!(old.assigned[0].address, new.assigned[0].address);
    assert_eq!(world.sessions.pool_usage(PoolId(1)), (1, 2));
    world.delete(new.seid).unwrap();
    world.assert_clean();
}

fn with_route(ue: Ipv4Addr, route: &str) -> Changes {
    let mut changes = chosen_session(ue);
    for pdr in &mut changes.create_pdrs {
        pdr.pdi.optional.get_or_insert_default().framed_routes = vec![prefix(route)];
    }
    changes
}

#[test]
fn every_address_of_a_framed_route_selects_the_worker_of_the_session() {
    let mut world = World::new(2);
    let done = world.establish(1, with_route(UE, "10.60.0.0/16")).unwrap();
    let session = world.sessions.session(done.seid).unwrap();
    assert_eq!(session.bucket(), home(UE));
    assert_eq!(session.ue_addresses().len(), 2);
    for worker in &world.fleet.workers {
        let exceptions: Vec<_> = worker.exceptions.iter().collect();
        let key = WorkerSelectionKey::Address(flow::VrfId(1), prefix("10.60.0.0/16"));
        assert_eq!(exceptions, [(&key, &home(UE))]);
    }
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_packet_matches_the_rules_of_one_session_only() {
    let mut world = World::new(2);
    let behind = Ipv4Addr::new(10, 60, 7, 7);
    let taken = Err(Refusal::Rule {
        rule: DL.into(),
        fault: RuleFault::AddressTaken,
    });
    let done = world.establish(1, with_route(UE, "10.60.0.0/16")).unwrap();
    assert_eq!(world.establish(2, chosen_session(behind)), taken);
    assert_eq!(world.establish(2, with_route(UE2, "10.60.7.0/24")), taken);
    assert_eq!(world.establish(2, with_route(UE2, "10.0.0.0/8")), taken);
    world.delete(done.seid).unwrap();
    let other = world.establish(2, chosen_session(behind)).unwrap();
    assert_eq!(world.establish(1, with_route(UE, "10.60.0.0/16")), taken);
    let own = world.establish(3, with_route(UE, "10.45.0.0/30")).unwrap();
    for done in [other, own] {
        world.delete(done.seid).unwrap();
    }
    world.assert_clean();
}

proptest! {
    #[test]
    fn pools_hold_what_sessions_hold(steps in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4), 1..24)) {
        let mut world = world(3);
        let mut live: Vec<(Seid, usize)> = Vec::new();
        for (number, (which, kind)) in (1..).zip(steps) {
            match kind {
                0 | 1 => {
                    let ipv6 = (kind == 1).then_some(Some(56));
                    let done = world.establish(number, session_to_address(true, ipv6, INTERNET)).unwrap();
                    live.push((done.seid, 1 + usize::from(kind)));
                }
                2 if !live.is_empty() => {
                    let (seid, _) = live.swap_remove(which.index(live.len()));
                    world.delete(seid).unwrap();
                }
                _ => {
                    let (worker, done) = (WorkerId(0), session_to_address(true, None, INTERNET));
                    world.fleet.worker(worker).room = Some(0);
                    if let Ok(done) = world.establish(number, done) {
                        live.push((done.seid, 1));
                    }
                    world.fleet.worker(worker).room = None;
                }
            }
            let held: usize = live.iter().map(|(_, addresses)| addresses).sum();
            prop_assert_eq!(world.sessions.pool_usage(PoolId(0)).0 as usize, held);
            prop_assert_eq!(world.sessions.count().addresses, held);
        }
        for (seid, _) in live {
            world.delete(seid).unwrap();
        }
        world.assert_clean();
    }
}
