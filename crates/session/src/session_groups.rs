//! How many sessions each slice and data network has and had, for metrics. Belongs to the session table.
//!
//! Control planes name slices and data networks, so their number is bounded: what comes when there is no room counts
//! with all others. A group that has been entered stays, so that its counts never go back.

use std::collections::BTreeMap;

use rules::model::SNssai;

use crate::session_accounting::Subscriber;

/// Groups with counts of their own.
const MOST_GROUPS: usize = 256;

/// A slice and a data network, as the control plane named them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionGroup {
    /// These; what was not said is absent.
    Of {
        /// The slice.
        s_nssai: Option<SNssai>,
        /// DNN or APN, with dots.
        dnn: Option<Box<str>>,
    },
    /// All that found no room.
    Others,
}

/// The sessions of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCount {
    /// Which group.
    pub group: SessionGroup,
    /// Sessions now.
    pub sessions: u64,
    /// Sessions that joined since the start: established, imported, or changed to this slice.
    pub joined: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    sessions: u64,
    joined: u64,
}

impl Counted {
    fn of(self, group: SessionGroup) -> GroupCount {
        let Counted { sessions, joined } = self;
        GroupCount {
            group,
            sessions,
            joined,
        }
    }
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct SessionGroups {
    /// By slice, and by DNN, which is empty where there is none.
    groups: BTreeMap<Option<[u8; 4]>, BTreeMap<Box<str>, Counted>>,
    entered: usize,
    others: Counted,
}

fn slice_key(slice: SNssai) -> [u8; 4] {
    let [a, b, c] = slice.sd;
    [slice.sst, a, b, c]
}

impl SessionGroups {
    /// A session of this subscriber joins its group.
    pub(crate) fn join(&mut self, subscriber: Option<&Subscriber>) {
        let has_room = self.entered < MOST_GROUPS;
        let (slice, dnn) = names(subscriber);
        let count = match self.groups.get_mut(&slice).and_then(|of| of.get_mut(dnn)) {
            Some(count) => count,
            None if has_room => {
                self.entered += 1;
                self.groups
                    .entry(slice)
                    .or_default()
                    .entry(dnn.into())
                    .or_default()
            }
            None => &mut self.others,
        };
        count.sessions += 1;
        count.joined += 1;
    }

    /// A session of this subscriber leaves its group.
    pub(crate) fn leave(&mut self, subscriber: Option<&Subscriber>) {
        let (slice, dnn) = names(subscriber);
        let count = self.groups.get_mut(&slice).and_then(|of| of.get_mut(dnn));
        // A name that found no room finds none later: groups stay.
        let count = count.unwrap_or(&mut self.others);
        count.sessions = count.sessions.saturating_sub(1);
    }

    /// All groups, the others last if there are any.
    pub(crate) fn counts(&self) -> impl Iterator<Item = GroupCount> + '_ {
        let named = self.groups.iter().flat_map(|(slice, of)| {
            let s_nssai = slice.map(|[sst, a, b, c]| SNssai { sst, sd: [a, b, c] });
            of.iter().map(move |(dnn, count)| {
                let dnn = (!dnn.is_empty()).then(|| dnn.clone());
                count.of(SessionGroup::Of { s_nssai, dnn })
            })
        });
        let others = (self.others.joined > 0).then(|| self.others.of(SessionGroup::Others));
        named.chain(others)
    }
}

fn names(subscriber: Option<&Subscriber>) -> (Option<[u8; 4]>, &str) {
    let slice = subscriber
        .and_then(|subscriber| subscriber.s_nssai)
        .map(slice_key);
    let dnn = subscriber.and_then(|subscriber| subscriber.dnn.as_deref());
    (slice, dnn.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subscriber(slice: u8, dnn: u16) -> Option<Subscriber> {
        (dnn > 0).then(|| Subscriber {
            dnn: Some(format!("dnn{dnn}").into()),
            s_nssai: (slice > 0).then_some(SNssai {
                sst: slice,
                sd: SNssai::NO_SD,
            }),
            ..Subscriber::default()
        })
    }

    proptest! {
        #[test]
        fn groups_are_counted_as_a_list_of_sessions_is(
            joins in proptest::collection::vec((0_u8..3, 0_u16..200, any::<bool>()), 0..1_000)
        ) {
            let mut groups = SessionGroups::default();
            let mut model: Vec<(u8, u16)> = Vec::new();
            let mut joined = 0;
            for (slice, dnn, leaves) in joins {
                groups.join(subscriber(slice, dnn).as_ref());
                model.push((slice, dnn));
                joined += 1;
                if leaves {
                    let (slice, dnn) = model.swap_remove(model.len() / 2);
                    groups.leave(subscriber(slice, dnn).as_ref());
                }
            }
            let counts: Vec<_> = groups.counts().collect();
            prop_assert!(counts.len() <= MOST_GROUPS + 1);
            prop_assert_eq!(counts.iter().map(|count| count.joined).sum::<u64>(), joined);
            let mut named = 0;
            for count in &counts {
                let SessionGroup::Of { s_nssai, dnn } = &count.group else { continue };
                let is_of = |one: &&(u8, u16)| {
                    let subscriber = subscriber(one.0, one.1).unwrap_or_default();
                    subscriber.s_nssai == *s_nssai && subscriber.dnn == *dnn
                };
                let expected = model.iter().filter(is_of).count() as u64;
                prop_assert_eq!(count.sessions, expected);
                named += expected;
            }
            let others = counts.iter().find(|count| count.group == SessionGroup::Others);
            let others = others.map_or(0, |count| count.sessions);
            prop_assert_eq!(named + others, model.len() as u64);
        }
    }
}
