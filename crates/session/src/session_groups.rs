//! How many sessions each slice and data network has and had, for metrics. Belongs to the session table.
//!
//! Control planes name slices and data networks, so their number is bounded: what comes when there is no room counts
//! with all others. A group that has been entered stays, so that its counts never go back. It has a number, by which
//! workers count its packets.

use std::collections::BTreeMap;

use flow::SessionGroupId;
use rules::model::SNssai;

use crate::session_accounting::Subscriber;

/// Groups with counts of their own.
const MOST_GROUPS: usize = 256;
const _: () = assert!(MOST_GROUPS < SessionGroupId::NUMBERS);

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
    /// Its number in workers.
    pub number: SessionGroupId,
    /// Sessions now.
    pub sessions: u64,
    /// Sessions that joined since the start: established, imported, or changed to this slice.
    pub joined: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// That of the others is 0.
    number: SessionGroupId,
    sessions: u64,
    joined: u64,
}

impl Counted {
    fn of(self, group: SessionGroup) -> GroupCount {
        let Counted {
            number,
            sessions,
            joined,
        } = self;
        GroupCount {
            group,
            number,
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
        let count = self.enter(subscriber);
        count.sessions += 1;
        count.joined += 1;
    }

    /// The number of this subscriber's group, which is entered if there is room.
    pub(crate) fn number(&mut self, subscriber: Option<&Subscriber>) -> SessionGroupId {
        self.enter(subscriber).number
    }

    /// The number of this subscriber's group.
    pub(crate) fn known_number(&self, subscriber: Option<&Subscriber>) -> SessionGroupId {
        let (slice, dnn) = names(subscriber);
        let count = self.groups.get(&slice).and_then(|of| of.get(dnn));
        count.unwrap_or(&self.others).number
    }

    fn enter(&mut self, subscriber: Option<&Subscriber>) -> &mut Counted {
        let (slice, dnn) = names(subscriber);
        let is_known = self.groups.get(&slice).is_some_and(|of| of.contains_key(dnn));
        if !is_known && self.entered >= MOST_GROUPS {
            return &mut self.others;
        }
        if !is_known {
            self.entered += 1;
            let number = SessionGroupId::new(self.entered as u16).unwrap_or_default();
            let counted = Counted {
                number,
                ..Counted::default()
            };
            self.groups.entry(slice).or_default().insert(dnn.into(), counted);
        }
        let known = self.groups.get_mut(&slice).and_then(|of| of.get_mut(dnn));
        known.unwrap_or(&mut self.others)
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
        let others = std::iter::once_with(|| self.others.of(SessionGroup::Others));
        // One without a session so far has no counts.
        named.chain(others).filter(|count| count.joined > 0)
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
            let mut numbers: Vec<_> = counts.iter().map(|count| count.number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), counts.len(), "each has its own number");
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
