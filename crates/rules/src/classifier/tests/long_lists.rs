//! Long lists of rules that overlap, as access lists and as rulebases, against `rte_acl`: it finds the same rule for
//! each packet. It cannot say which fields decided, so what flow tables would find is compared with its answers, too.

use super::*;
use crate::model::{AccessAction, AccessList, AccessRule, AccessRuleId, LocalPolicy, PdrId, Predefined};
use crate::testing::long_lists::{self, Draw, LongRule, long_list, packet_of, predefined_rules};
use crate::testing::rte_acl::RteAcl;
use flow::Direction;

/// Packets of each IP version and direction.
const PACKETS: usize = 4_000;

/// The list as an access list. Its rules have their places as numbers, from 1.
fn access_list(rules: &[LongRule]) -> AccessList {
    let actions = [AccessAction::Deny, AccessAction::Permit, AccessAction::Reject];
    let rules = rules.iter().enumerate().map(|(place, rule)| AccessRule {
        name: place.to_string().into(),
        action: actions[place % actions.len()].clone(),
        direction: rule.direction,
        filters: rule.filters(),
        detection: Default::default(),
    });
    let mut ids = (1..).map(AccessRuleId);
    let list = AccessList::new("long", rules.collect(), AccessAction::Permit).expect("few");
    list.numbered(|_| ids.next().expect("few"))
}

/// Sessions with the list: as an access list, and as a rulebase.
fn sessions(rules: &[LongRule]) -> (SessionImage, SessionImage, Predefined) {
    let network = testing::network();
    let mut with_list = session();
    with_list.set_local_policy(LocalPolicy {
        access_list: Some(Arc::new(access_list(rules))),
        ..LocalPolicy::default()
    });
    let mut predefined = Predefined::new([], [], []).unwrap();
    predefined.add(b"long", predefined_rules(rules)).unwrap();
    let mut with_rulebase = session();
    for id in [1, 2] {
        let mut update = PdrUpdate::new(PdrId(id));
        update.activate = predefined.rulebase(b"long").map(Arc::clone).into_iter().collect();
        with_rulebase.update_pdr(update).unwrap();
    }
    with_rulebase.instantiate(&predefined);
    let [list, rulebase] = [with_list, with_rulebase].map(|rules| image(rules, &network).expect("runnable"));
    (list, rulebase, predefined)
}

/// What `rte_acl` finds in the rules that are `own`.
fn found_by_rte_acl(
    rules: &[LongRule],
    own: impl Fn(&LongRule) -> bool,
    packets: &[UserPacket],
    (is_ipv4, direction): (bool, Direction),
) -> Vec<u32> {
    let own = (1..).zip(rules).filter(|(_, rule)| own(rule));
    let entries: Vec<_> = own
        .flat_map(|(id, rule)| rule.entries(id, is_ipv4, direction))
        .collect();
    // It builds no table of nothing.
    match entries.is_empty() {
        true => vec![0; packets.len()],
        false => RteAcl::new(&entries, packets, is_ipv4).matches(),
    }
}

/// Compares what the session's classifier finds with `expected`, packet by packet; and what a flow table would have
/// after them, under every key that is in use.
fn compare(
    image: &SessionImage,
    packets: &[UserPacket],
    direction: Direction,
    expected: &[u32],
    rule: impl Fn(&Match) -> u32,
) {
    let seen = packets.iter().map(|packet| long_lists::seen(packet, direction));
    let seen: Vec<(Side, IpTuple)> = seen.collect();
    let views = || seen.iter().map(|(side, tuple)| PacketView { side: *side, tuple });
    let mut table = HashMap::new();
    let mut shapes = Vec::new();
    for ((view, packet), expected) in views().zip(packets).zip(expected) {
        let found = image.classifier.classify(&view);
        assert_eq!(found.as_ref().map_or(0, &rule), *expected, "{packet:?}");
        if let Some(found) = found {
            table.insert(flow_key(found.key, &view), *expected);
            shapes.push(found.key);
        }
    }
    shapes.sort_unstable_by_key(|shape| shape.bits());
    shapes.dedup();
    for ((view, packet), expected) in views().zip(packets).zip(expected) {
        for shape in &shapes {
            let hit = table.get(&flow_key(*shape, &view));
            assert_eq!(hit.unwrap_or(expected), expected, "by {shape:?}: {packet:?}");
        }
    }
}

/// A list of this many rules.
fn check(seed: u64, count: usize) {
    let mut draw = Draw::new(seed);
    let rules = long_list(&mut draw, count);
    let (with_list, with_rulebase, predefined) = sessions(&rules);
    let mut matched = Vec::new();
    for is_ipv4 in [true, false] {
        for direction in Direction::BOTH {
            let mut packet = || packet_of(&mut draw, &rules, is_ipv4, direction);
            let packets: Vec<UserPacket> = (0..PACKETS).map(|_| packet()).collect();
            let about = (is_ipv4, direction);
            let is_own = |rule: &LongRule| rule.direction.is_none_or(|own| own == direction);
            let expected = found_by_rte_acl(&rules, is_own, &packets, about);
            compare(&with_list, &packets, direction, &expected, |found| {
                let place = found.access.map_or(0, |access| access.rule.0.into());
                // The last one is for what no other describes.
                if place > count as u32 { 0 } else { place }
            });
            let expected = found_by_rte_acl(&rules, |_| true, &packets, about);
            compare(&with_rulebase, &packets, direction, &expected, |found| {
                let content = predefined.content(found.decision.content);
                content.map_or(0, |content| content.name.parse().expect("a place"))
            });
            matched.extend(expected.into_iter().filter(|place| *place > 0));
        }
    }
    let packets = matched.len();
    matched.sort_unstable();
    matched.dedup();
    // It is a test of many rules.
    if count >= 1_000 {
        assert!(
            packets > PACKETS && matched.len() > count.min(packets) / 8,
            "{} rules, {packets}",
            matched.len()
        );
    }
}

fn any_seed() -> impl Strategy<Value = u64> {
    any::<u64>().no_shrink()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn rte_acl_finds_the_same_of_ten_rules(seed in any_seed()) {
        check(seed, 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1) })]

    #[test]
    fn rte_acl_finds_the_same_of_a_thousand_rules(seed in any_seed()) {
        check(seed, 1_000);
    }

    #[test]
    fn rte_acl_finds_the_same_of_ten_thousand_rules(seed in any_seed()) {
        check(seed, 10_000);
    }
}
