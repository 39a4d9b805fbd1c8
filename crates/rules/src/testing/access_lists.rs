//! Access lists at random.

use std::sync::Arc;

use flow::Direction;
use proptest::prelude::*;

use super::detections::{any_detection_pattern, domain_lists};
use super::filters::any_filter;
use crate::model::{AccessAction, AccessList, AccessRule, AccessRuleId, ConnectionPolicy, Filtering};
use crate::sdf::SdfFilter;

/// An access list, which permits many of the generated packets and denies many.
pub(super) fn any_access_list() -> BoxedStrategy<Arc<AccessList>> {
    let action = || {
        let (permit, solicited) = (AccessAction::Permit, AccessAction::Solicited);
        let (deny, reject) = (AccessAction::Deny, AccessAction::Reject);
        prop_oneof![5 => Just(permit), 1 => Just(solicited), 1 => Just(deny), 1 => Just(reject)]
    };
    let direction = prop::option::of(prop::sample::select(&Direction::BOTH[..]));
    let filters = prop::collection::vec(any_filter(), 0..3);
    let rule = (action(), direction, filters, any_detection_pattern());
    let rule = rule.prop_map(|(action, direction, mut filters, detection)| {
        // They are the configuration's: they have no numbers, and say something.
        filters.iter_mut().for_each(|filter| filter.filter_id = None);
        filters.retain(SdfFilter::has_pattern);
        AccessRule {
            name: "rule".into(),
            action,
            direction,
            filters,
            detection,
        }
    });
    let rules = prop::collection::vec(rule, 0..4);
    let filtering = prop::sample::select(vec![
        Filtering::EndpointIndependent,
        Filtering::AddressDependent,
        Filtering::AddressAndPortDependent,
    ]);
    let policy =
        (filtering, any::<bool>()).prop_map(|(filtering, rejects)| ConnectionPolicy { filtering, rejects });
    (rules, action(), policy)
        .prop_map(|(rules, otherwise, policy)| {
            let list = AccessList::with_categories("list", rules, otherwise, domain_lists()).expect("few");
            let list = list.with_policy(policy);
            let mut ids = (1..).map(AccessRuleId);
            Arc::new(list.numbered(|_| ids.next().unwrap_or_default()))
        })
        .boxed()
}
