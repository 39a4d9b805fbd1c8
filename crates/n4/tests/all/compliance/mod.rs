//! Checks of the documents in docs/compliance: they are complete, what they call refused is refused, features that they
//! call announced are announced, and the tests and files that they name exist.

mod clauses;
mod codec;
mod document;
mod refused;
mod sources;
mod specification;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::wire::*;
use crate::support::*;
use document::{Feature, Named, Status};
use rules::network::ForwardingPolicy;
use sources::Sources;

/// The type of UP Function Features.
const UP_FUNCTION_FEATURES: u16 = 43;

#[test]
fn every_ie_of_the_codec_has_a_row_and_no_other_has() {
    let mut listed: BTreeMap<String, Vec<(u16, char)>> = BTreeMap::new();
    for table in document::tables() {
        let ies = table.rows.iter().flat_map(|row| &row.ies);
        let ies = ies.map(|ie| (ie.number, ie.presence));
        listed.entry(table.place).or_default().extend(ies);
    }
    for table in codec::tables() {
        let mut listed = listed.remove(&table.place);
        let listed = listed
            .as_mut()
            .unwrap_or_else(|| panic!("{} is not there", table.place));
        let mut known = table.rows;
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(*listed, known, "{}", table.place);
    }
    for place in codec::OPAQUE {
        assert!(listed.remove(place).is_some(), "{place} is not there, or decoded");
    }
    assert!(listed.is_empty(), "no such tables: {:?}", listed.keys());
}

/// The tables are compared only where the file of them is; in CI it has to be.
#[test]
fn the_rows_have_the_names_types_and_presence_of_the_specifications_tables() {
    let mut listed: BTreeMap<String, specification::Rows> = BTreeMap::new();
    for table in document::tables() {
        for ie in table.rows.iter().flat_map(|row| &row.ies) {
            let is_called = specification::is_called(ie.number, &ie.name);
            assert!(
                is_called,
                "{}: {} is no name of {}",
                table.place, ie.name, ie.number
            );
            let row = (specification::plain(&ie.name), ie.presence);
            listed.entry(table.place.clone()).or_default().insert(row);
        }
    }
    for (place, table) in specification::tables().into_iter().flatten() {
        if table.is_empty() {
            continue;
        }
        let rows = listed
            .get(&place)
            .unwrap_or_else(|| panic!("{place} is not there"));
        let unlike = specification::unlike(&place, &table, rows);
        assert!(unlike.is_empty(), "{place}: {unlike:?}");
    }
}

#[test]
fn what_is_refused_gets_its_cause_and_changes_nothing() {
    let mut world = World::associated();
    let seid = world.ask(50, Some(0), &refused::establishment(1, UE)).up_seid();
    let mut tried = 0;
    for table in document::tables() {
        for row in &table.rows {
            let Status::Refused(cause) = row.status else {
                continue;
            };
            for ie in &row.ies {
                for place in refused::places(&table.place) {
                    tried += 1;
                    let what = format!("{} {} in {}", ie.number, ie.name, table.place);
                    let reply = refused::ask(&mut world, seid, *place, ie.number);
                    assert_eq!(reply.cause().map(|cause| cause.value()), Some(cause), "{what}");
                    assert_eq!(reply.failed_rule().is_some(), cause != 76, "{what}");
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    let change = refused::modification();
    world.ask(52, Some(seid), &change).assert_accepted();
}

#[test]
fn sessions_that_are_not_ip_are_refused() {
    let mut world = World::associated();
    for (pdn_type, cause) in [(1, 1), (2, 1), (3, 1), (4, 76), (5, 76)] {
        let mut session = plain_session(1, UE);
        session.push(ie(113, [pdn_type]));
        let reply = world.ask(50, Some(0), &session);
        let offending = (cause != 1).then_some(113);
        assert_eq!(reply.verdict(), (cause, offending), "{pdn_type}");
    }
}

#[test]
fn actions_that_are_not_done_are_refused() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    // IPMA, IPMD, DFRT; EDRT, FSSM, MBSU.
    for action in [
        [0x20, 0],
        [0x40, 0],
        [0x80 | FORW, 0],
        [FORW, 1],
        [FORW, 8],
        [FORW, 16],
    ] {
        let before = refused::rules(&world);
        let created = create_far(&[far_id(9), apply_action(&action)]);
        let updated = update_far(&[far_id(2), apply_action(&action)]);
        for far in [created, updated] {
            let reply = world.ask(52, Some(seid), &[far]);
            assert_eq!(reply.verdict(), (73, None), "{action:?}");
            assert!(reply.failed_rule().is_some());
        }
        assert_eq!(refused::rules(&world), before);
    }
}

#[test]
fn a_policy_that_is_not_configured_is_refused() {
    let mut world = with_a_policy("gold");
    world.associate();
    let seid = world.establish(1, UE);
    for (name, cause) in [("gold", 1), ("silver", 70), ("", 70)] {
        let name = ie(41, [&[name.len() as u8], name.as_bytes()].concat());
        let parameters = [destination_if(CORE), name.clone()];
        let created = create_far(&[far_id(9), apply_action(&[FORW]), forwarding(&parameters)]);
        let updated = update_far(&[far_id(1), update_forwarding(&[name])]);
        for far in [created, updated] {
            let reply = world.ask(52, Some(seid), &[far]);
            let offending = (cause != 1).then_some(41);
            assert_eq!(reply.verdict(), (cause, offending));
        }
    }
}

/// A node whose configuration has a forwarding policy of this name.
fn with_a_policy(name: &str) -> World {
    let policy = ForwardingPolicy {
        name: name.into(),
        instance: None,
        next_hop: None,
        dscp: None,
        nat: None,
    };
    let network = Arc::unwrap_or_clone(fleet::network());
    let network = network.with_policies(vec![policy]).unwrap();
    World::with_network(World::config(2), Arc::new(network))
}

#[test]
fn usage_that_is_not_measured_is_refused() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    // Methods: DURAT, VOLUM, EVENT, of packets that are no application's.
    let methods = [(0x01, 1), (0x02, 1), (0x03, 1), (0x04, 73), (0x06, 73)];
    for (bits, cause) in methods {
        let update = group(13, &[urr_id(1), method(bits)]);
        let reply = world.ask(52, Some(seid), &[update]);
        assert_eq!(reply.verdict().0, cause, "method {bits:#x}");
    }
    // In the order of the bits: ENVCL, MACAR, IPMJL; UPINT.
    let not_made = [10, 11, 14, 17];
    for bit in 0..18 {
        let octets = (1u32 << bit).to_le_bytes();
        let wanted = triggers(&octets[..3]);
        let update = group(13, &[urr_id(1), wanted.clone()]);
        let create = group(6, &[urr_id(100 + bit), method(2), wanted]);
        for rule in [update, create] {
            let reply = world.ask(52, Some(seid), &[rule]);
            let cause = if not_made.contains(&bit) { 73 } else { 1 };
            assert_eq!(reply.verdict().0, cause, "trigger {bit}");
            assert_eq!(reply.failed_rule().is_some(), cause == 73, "trigger {bit}");
        }
    }
}

#[test]
fn announced_features_are_those_documented_as_set() {
    let features = document::features();
    assert_eq!(features.len(), 7 * 8 - 2 + 2, "from 5/1 to 11/6, 12/8, and 15/7");
    let mut with_pools = World::config(2);
    with_pools.sessions.pools.push(session::Pool {
        name: "pool".into(),
        instance: flow::InstanceId(1),
        ranges: Vec::new(),
    });
    let worlds = [
        ("nothing", World::new()),
        ("pools", World::with(with_pools)),
        ("rulebases", World::with(with_a_rulebase())),
        ("policies", with_a_policy("gold")),
        (PARTIAL_PFDS, World::new()),
    ];
    let known = worlds.each_ref().map(|(with, _)| *with);
    for (with, mut world) in worlds {
        let is_set = |feature: &Feature| match feature {
            Feature::Set => true,
            Feature::SetWith(what) => {
                assert!(known.contains(&what.as_str()), "{what}");
                what == with
            }
            Feature::NotSet => false,
        };
        let said = features.iter().filter(|(_, feature)| is_set(feature));
        let said: BTreeSet<_> = said.map(|(bit, _)| *bit).collect();
        // CP Function Features: PAPFD.
        let own = (with == PARTIAL_PFDS).then(|| ie(89, [0, 0x04]));
        assert_eq!(announced_features(&mut world, own), said, "with {with}");
    }
}

fn with_a_rulebase() -> n4::Config {
    let everything = rules::model::PredefinedRule {
        precedence: rules::model::Precedence(1),
        filters: Vec::new(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: None,
    };
    let mut predefined = rules::Predefined::default();
    predefined.add(b"all", vec![everything]).unwrap();
    let mut config = World::config(2);
    config.sessions.predefined = predefined.into();
    config
}

/// What a peer has that gets PAPFD.
const PARTIAL_PFDS: &str = "PAPFD";

/// Octet and bit of each feature that an Association Setup Response has.
fn announced_features(world: &mut World, own: Option<Octets>) -> BTreeSet<(usize, usize)> {
    let setup = [node_v4(SMF_ADDRESS), recovery(100)].into_iter().chain(own);
    let reply = world.ask(5, None, &setup.collect::<Vec<_>>());
    let mut ies = refused::tlvs(&reply.0.bytes[8..]).into_iter();
    let (_, octets) = ies.find(|(ie_type, _)| *ie_type == UP_FUNCTION_FEATURES).unwrap();
    let bits = (0..octets.len() * 8).filter(|bit| octets[bit / 8] & 1 << (bit % 8) != 0);
    bits.map(|bit| (bit / 8 + 5, bit % 8 + 1)).collect()
}

#[test]
fn the_tests_and_the_code_that_are_named_exist() {
    let sources = Sources::read();
    for row in document::tables().iter().flat_map(|table| &table.rows) {
        for (place, test) in &row.tests {
            assert!(sources.has_test(place, test), "{place}: {test}");
        }
        if row.status == Status::Done {
            assert!(!row.tests.is_empty(), "no test: {:?}", row.ies);
        }
    }
    for name in ["ts29244.md", "ts29281.md", "ts38415.md", "tr459.md"] {
        for cell in document::clause_rows(name).iter().flat_map(|cells| &cells[1..]) {
            for file in document::files(cell) {
                assert!(sources.has_file(&file), "{name}: {file}");
            }
            for (test, of) in document::identifiers(cell) {
                let is_there = match of {
                    Named::Code => sources.has_function(&test),
                    Named::Test { is_begun } => sources.has_evidence(&test, is_begun),
                };
                assert!(is_there, "{name}: {test}");
            }
        }
    }
}

#[test]
fn every_clause_has_a_row() {
    let covered = clauses::Covered::of(document::clause_rows("ts29244.md").iter().map(|cells| &cells[0]));
    let missing: Vec<_> = clauses::ALL
        .split_ascii_whitespace()
        .filter(|clause| !covered.has(clause))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
