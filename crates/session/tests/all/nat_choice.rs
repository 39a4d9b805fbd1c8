//! Which pool of public addresses a session has: what its FARs say comes before the configuration.

use crate::support;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use nat::blocks::QUARANTINE;
use nat::pools::{BlockId, NatPoolId};
use rules::model::*;
use rules::network::{ForwardingPolicy, Network, Roles};
use session::*;

use support::fleet;
use support::*;

/// For all sessions; and for those whose control plane says so.
const COMMON: NatPoolId = NatPoolId(0);
const CHOSEN: NatPoolId = NatPoolId(1);
/// The policies of [`network_with`].
const GAMERS: PolicyId = PolicyId(0);
const PLAIN: PolicyId = PolicyId(1);
const MARKED: PolicyId = PolicyId(2);

fn network_with(gamers: NatChoice) -> Arc<Network> {
    network_of(gamers, None)
}

fn network_of(gamers: NatChoice, marked: Option<NatChoice>) -> Arc<Network> {
    let network = fleet::network();
    let n6 = network.first_with(Roles::N6).expect("a data network").id;
    let pool = |name: &str, last: u8| {
        let address = Ipv4Addr::new(203, 0, 113, last);
        let mut bound = rules::testing::public_pool(&network, n6, address..=address);
        bound.pool.name = name.into();
        bound
    };
    let (common, mut chosen) = (pool("common", 101), pool("chosen", 102));
    chosen.scope = None;
    let policy = |name: &str, nat| ForwardingPolicy {
        name: name.into(),
        instance: None,
        next_hop: None,
        dscp: None,
        nat,
    };
    let policies = vec![
        policy("gamers", Some(gamers)),
        policy("plain", Some(NatChoice::Untranslated)),
        policy("marked", marked),
    ];
    let network = Arc::unwrap_or_clone(network).with_nat(vec![common, chosen]);
    let network = network.expect("two pools").with_policies(policies);
    Arc::new(network.expect("three policies"))
}

fn world() -> World {
    let config = Config {
        accept_cp_f_teids: true,
        port_block_log: true,
        ..Config::for_workers(2)
    };
    World::over(config, network_with(NatChoice::Pool(CHOSEN)))
}

/// What a FAR says.
#[derive(Clone, Copy)]
enum Says {
    Policy(PolicyId),
    Itself(NatChoice),
}

use Says::{Itself, Policy};

fn far(id: u32, to: DestinationInterface, says: Says) -> Far {
    let mut far = forward(FarId(id), to);
    match says {
        Policy(policy) => far.forwarding.as_mut().expect("parameters").policy = Some(policy),
        Itself(choice) => {
            far.optional = OptionalActions {
                nat: Some(choice),
                ..OptionalActions::default()
            }
            .into();
        }
    }
    far
}

/// A session in the common pool, with these FARs towards the data network besides.
fn session_with(says: &[Says]) -> Changes {
    let mut changes = Changes {
        local_policy: Some(LocalPolicy {
            nat: Some(COMMON),
            ..LocalPolicy::default()
        }),
        ..chosen_session(UE)
    };
    let fars = (10..).zip(says);
    let fars = fars.map(|(id, says)| far(id, DestinationInterface::Core, *says));
    changes.create_fars.extend(fars);
    changes
}

fn update(id: u32, says: Says) -> Changes {
    let mut far = FarUpdate::new(FarId(id));
    match says {
        Policy(policy) => {
            far.forwarding = Edit::Set(ForwardingParametersUpdate {
                policy: Edit::Set(policy),
                ..ForwardingParametersUpdate::default()
            });
        }
        Itself(choice) => far.nat = Edit::Set(choice),
    }
    Changes {
        update_fars: vec![far],
        ..Changes::default()
    }
}

fn remove(id: u32) -> Changes {
    Changes {
        remove_fars: vec![FarId(id)],
        ..Changes::default()
    }
}

/// The last octet of the public address that a session has, by control and by the workers' images.
fn public(world: &World, seid: Seid) -> Option<u8> {
    let view = world.sessions.session(seid).expect("a session");
    let image = world
        .fleet
        .images()
        .into_iter()
        .find(|image| image.seid == seid.0);
    assert_eq!(image.expect("an image").rules.nat(), view.rules().nat());
    let blocks = world.sessions.port_blocks(view.index());
    let pool = view
        .rules()
        .nat()
        .map(|NatPoolId(place)| 101 + u8::try_from(place).unwrap());
    let own = blocks.first().map(|block| block.address.octets()[3]);
    assert_eq!(own, pool);
    own
}

#[test]
fn a_far_towards_the_data_network_chooses_the_pool() {
    for (says, last) in [
        (&[][..], Some(101)),
        (&[Policy(MARKED)], Some(101)),
        (&[Policy(GAMERS)], Some(102)),
        (&[Policy(PLAIN)], None),
        (&[Itself(NatChoice::Pool(CHOSEN))], Some(102)),
        (&[Itself(NatChoice::Untranslated)], None),
        // The same twice, and one that says nothing.
        (
            &[Policy(MARKED), Policy(GAMERS), Itself(NatChoice::Pool(CHOSEN))],
            Some(102),
        ),
    ] {
        let mut world = world();
        let done = world.establish(1, session_with(says)).unwrap();
        assert_eq!(public(&world, done.seid), last);
        assert_eq!(done.port_block.map(|one| one.block.address.octets()[3]), last);
        world.delete(done.seid).unwrap();
        world.assert_clean();
    }
}

#[test]
fn a_far_says_more_than_its_policy_and_one_towards_the_ue_nothing() {
    let mut world = world();
    let mut changes = session_with(&[]);
    let mut both = far(10, DestinationInterface::SgiLan, Policy(PLAIN));
    both.optional = far(10, DestinationInterface::SgiLan, Itself(NatChoice::Pool(CHOSEN))).optional;
    changes.create_fars.push(both);
    changes
        .create_fars
        .push(far(11, DestinationInterface::Access, Policy(PLAIN)));
    let seid = world.establish(1, changes).unwrap().seid;
    assert_eq!(public(&world, seid), Some(102));
}

#[test]
fn fars_that_choose_different_pools_are_refused() {
    let mut world = world();
    let refusal = |rule: u32, other: u32| Refusal::Rule {
        rule: FarId(rule).into(),
        fault: RuleFault::Edit(EditFault::OtherNat(FarId(other))),
    };
    let differing = session_with(&[Policy(GAMERS), Policy(PLAIN)]);
    assert_eq!(world.establish(1, differing).unwrap_err(), refusal(11, 10));
    world.assert_clean();
    let seid = world
        .establish(1, session_with(&[Policy(GAMERS), Policy(GAMERS)]))
        .unwrap()
        .seid;
    let block = world
        .sessions
        .port_blocks(world.sessions.session(seid).unwrap().index());
    assert_eq!(
        world.modify(seid, update(11, Policy(PLAIN))),
        Err(refusal(11, 10))
    );
    let after = world
        .sessions
        .port_blocks(world.sessions.session(seid).unwrap().index());
    assert_eq!((public(&world, seid), after), (Some(102), block));
    // Both in one request.
    let mut both = update(10, Policy(PLAIN));
    both.update_fars.extend(update(11, Policy(PLAIN)).update_fars);
    world.modify(seid, both).unwrap();
    assert_eq!(public(&world, seid), None);
}

#[test]
fn a_modification_draws_from_the_new_pool_and_gives_back_what_was_of_the_old() {
    let mut world = world();
    let seid = world.establish(1, session_with(&[])).unwrap().seid;
    let changes = [
        // Removed, created, and changed one after the other; then what changes nothing.
        (
            Changes {
                create_fars: vec![far(10, DestinationInterface::Core, Policy(GAMERS))],
                ..Changes::default()
            },
            Some(102),
            true,
        ),
        (update(10, Policy(GAMERS)), Some(102), false),
        (update(10, Itself(NatChoice::Pool(COMMON))), Some(101), true),
        (update(10, Itself(NatChoice::Untranslated)), None, false),
        (remove(10), Some(101), true),
    ];
    for (changes, last, is_new) in changes {
        let before = world.sessions.nat_status(world.now);
        let done = world.modify(seid, changes).unwrap();
        assert_eq!(public(&world, seid), last);
        assert_eq!(done.port_block.is_some(), is_new);
        let held: Vec<u32> = world
            .sessions
            .nat_status(world.now)
            .iter()
            .map(|pool| pool.blocks.held)
            .collect();
        let expected = match last {
            Some(101) => [1, 0],
            Some(_) => [0, 1],
            None => [0, 0],
        };
        assert_eq!(held, expected, "before {before:?}");
    }
    let events: Vec<PortBlockEvent> = std::iter::from_fn(|| world.sessions.poll_port_block_event()).collect();
    let told: Vec<(u16, bool)> = events
        .iter()
        .map(|event| (event.pool.0, event.is_assigned))
        .collect();
    assert_eq!(
        told,
        [
            (0, true),
            (0, false),
            (1, true),
            (1, false),
            (0, true),
            (0, false),
            (0, true)
        ]
    );
    world.delete(seid).unwrap();
    world.pass(QUARANTINE + Duration::from_secs(1));
    assert!(
        world
            .sessions
            .nat_status(world.now)
            .iter()
            .all(|pool| pool.blocks.held + pool.blocks.resting == 0)
    );
    world.assert_clean();
}

#[test]
fn a_policy_that_changes_takes_its_sessions_along() {
    let mut world = world();
    let all: Vec<Seid> = (1..)
        .zip([&[][..], &[Policy(GAMERS)], &[Policy(GAMERS), Policy(MARKED)]])
        .map(|(cp, says)| {
            let mut changes = session_with(says);
            let ue = Ipv4Addr::from_bits(UE.to_bits() + cp as u32);
            for pdr in &mut changes.create_pdrs {
                pdr.pdi.ue_ip = vec![UeIpAddress {
                    ipv4: Some(ue),
                    ..pdr.pdi.ue_ip[0]
                }]
                .into();
            }
            world.establish(cp, changes).unwrap().seid
        })
        .collect();
    let publics =
        |world: &World| -> Vec<Option<u8>> { all.iter().map(|seid| public(world, *seid)).collect() };
    assert_eq!(publics(&world), [Some(101), Some(102), Some(102)]);
    let config = Config {
        accept_cp_f_teids: true,
        ..Config::for_workers(2)
    };
    let other = network_with(NatChoice::Untranslated);
    world.sessions.succeed(world.now, other, &config);
    while world.sessions.poll_recompilation(world.now, 100).is_none() {
        world.run();
    }
    assert_eq!(publics(&world), [Some(101), None, None]);
}

#[test]
fn a_session_whose_change_is_undone_has_its_blocks_again() {
    let mut world = world();
    let seid = world.establish(1, session_with(&[])).unwrap().seid;
    let index = world.sessions.session(seid).unwrap().index();
    let given = |world: &World| -> Vec<BlockId> {
        let workers = world.fleet.workers.iter();
        workers
            .filter_map(|worker| worker.blocks.get(&index))
            .flatten()
            .copied()
            .collect()
    };
    let first = given(&world);
    let before = world.sessions.port_blocks(index);
    // Its worker has the other pool already, and lets go of the blocks.
    let changes = Changes {
        create_fars: vec![far(10, DestinationInterface::Core, Policy(GAMERS))],
        ..Changes::default()
    };
    let ticket = world.ticket();
    world.sessions.modify(world.now, ticket, seid, None, changes);
    world.hand_over();
    world.pass(Duration::from_secs(1));
    world.assert_too_late(ticket);
    // Not by what is to come.
    world.sessions.port_block_wanted(world.now, index);
    world.run();
    assert_eq!(world.sessions.port_blocks(index), before);
    assert_eq!(given(&world), [&first[..], &first[..]].concat());
    assert_eq!(public(&world, seid), Some(101));
}

#[test]
fn fars_that_a_configuration_makes_choose_different_pools_may_be_modified() {
    let mut world = world();
    let says = [Policy(GAMERS), Policy(MARKED)];
    let seid = world.establish(1, session_with(&says)).unwrap().seid;
    let config = Config {
        accept_cp_f_teids: true,
        ..Config::for_workers(2)
    };
    let network = network_of(NatChoice::Pool(CHOSEN), Some(NatChoice::Untranslated));
    world.sessions.succeed(world.now, network, &config);
    while world.sessions.poll_recompilation(world.now, 100).is_none() {
        world.run();
    }
    assert_eq!(public(&world, seid), Some(102));
    world.modify(seid, update(1, Policy(GAMERS))).unwrap();
    // Without the conflict, none may be brought.
    world.modify(seid, remove(11)).unwrap();
    assert!(world.modify(seid, update(1, Policy(PLAIN))).is_err());
    assert_eq!(public(&world, seid), Some(102));
}

#[test]
fn a_record_says_what_was_chosen() {
    for says in [
        Policy(GAMERS),
        Policy(PLAIN),
        Itself(NatChoice::Pool(CHOSEN)),
        Itself(NatChoice::Untranslated),
    ] {
        let mut world = world();
        let seid = world.establish(1, session_with(&[says])).unwrap().seid;
        let kept = world.sessions.to_keep(seid).expect("it is live").1.record;
        let network = network_with(NatChoice::Pool(CHOSEN));
        let read = world.read_back(&kept, &network);
        assert_eq!(read.rules.chosen_nat(), kept.rules.chosen_nat());
        assert!(read.rules.chosen_nat().is_some());
        assert_eq!(read.rules.fars(), kept.rules.fars());
        assert_eq!(read.port_blocks, kept.port_blocks);
    }
}
