//! The sets of sessions that a message names: FQ-CSIDs and a Group Id (TS 29.244 §6.2.10, §6.2.11).

use pfcp::Repeated;
use pfcp::ie::{FqCsid, FqCsidNode, GroupId};
use session::{Seid, Sessions, SetId, SetNode};

/// Octets of the longest Group Id that is kept: longer than any node makes (a UUID, TS 29.571). A longer one is as if
/// it were not there.
const LONGEST_GROUP: usize = 255;
/// Sets of one session that are kept; more are as if they were not there.
const MOST_SETS: usize = 16;

/// What a message says of a session's sets.
#[derive(Debug)]
pub(crate) struct NamedSets {
    /// The kinds of node whose FQ-CSIDs it names: they take the place of those there were, and one without a CSID takes
    /// these away (TS 29.244 §8.2.43).
    kinds: Vec<Option<u8>>,
    /// The FQ-CSIDs of all kinds go (one with a null length).
    removes_all: bool,
    ids: Vec<SetId>,
    /// The Group Id; an empty one takes the session out of its group.
    group: Option<Box<[u8]>>,
}

/// The sets that a message names, if it names any.
pub(crate) fn named_sets(
    ids: Repeated<'_, FqCsid<'_>>,
    group: Option<GroupId<'_>>,
) -> Option<Box<NamedSets>> {
    let group = group.filter(|group| group.0.len() <= LONGEST_GROUP);
    let is_named = !ids.is_empty() || ids.removes_all() || group.is_some();
    is_named.then(|| {
        Box::new(NamedSets {
            kinds: ids.iter().map(|one| one.node_type).take(MOST_SETS).collect(),
            removes_all: ids.removes_all(),
            ids: ids.iter().flat_map(set_ids).take(MOST_SETS).collect(),
            group: group.map(|group| group.0.into()),
        })
    })
}

pub(crate) fn set_ids<'a>(set: FqCsid<'a>) -> impl Iterator<Item = SetId> + 'a {
    let node = match set.node {
        FqCsidNode::Ipv4(address) => SetNode::Ipv4(address),
        FqCsidNode::Ipv6(address) => SetNode::Ipv6(address),
        FqCsidNode::Operator(number) => SetNode::Operator(number),
    };
    set.csids.iter().map(move |number| SetId {
        kind: set.node_type,
        node,
        number: u16::from_be_bytes(*number),
    })
}

/// Enters the sets that a message names for a session.
pub(crate) fn assign(sessions: &mut Sessions, seid: Seid, named: NamedSets) {
    let Some(known) = sessions.sets_mut(seid) else {
        return;
    };
    let stays = |one: &SetId| !named.removes_all && !named.kinds.contains(&one.kind);
    known.ids.retain(stays);
    known.ids.extend(named.ids);
    known.ids.truncate(MOST_SETS);
    if let Some(group) = named.group {
        known.group = Some(group).filter(|group| !group.is_empty());
    }
}
