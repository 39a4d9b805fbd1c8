//! The bounds of counters: how far each may count until the worker is to say so, and which of them it was told.

use flow::{Bounds, Nanos, Reached};
use rules::image::Counter;
use rules::model::{Urr, UrrId};

use super::UsageAccounts;
use crate::Moment;
use crate::account::{Account, ActiveRule, bounds_of};
use crate::machine::{Machine, Renewed};

/// The bounds of counters by their slots: of each URR that of octets, then of each that has one that of events.
fn by_slot(urrs: &[Urr], bounds: Vec<(Bounds, Bounds)>) -> Vec<Bounds> {
    let events = urrs.iter().zip(&bounds).filter(|(urr, _)| urr.counts_events());
    let events: Vec<Bounds> = events.map(|(_, (_, events))| *events).collect();
    bounds
        .into_iter()
        .map(|(octets, _)| octets)
        .chain(events)
        .collect()
}

/// Each URR with the bounds of its counter of octets and of that of events, of bounds by slot; none where there are none.
pub(super) fn by_urr<'a>(
    urrs: &'a [Urr],
    bounds: &'a [Bounds],
) -> impl Iterator<Item = (&'a Urr, Option<(Bounds, Bounds)>)> {
    let mut events = bounds.iter().skip(urrs.len()).copied();
    urrs.iter().zip(0..).map(move |(urr, slot)| {
        let of_events = match urr.counts_events() {
            true => events.next().unwrap_or_default(),
            false => Bounds::NONE,
        };
        (urr, bounds.get::<usize>(slot).map(|octets| (*octets, of_events)))
    })
}

impl UsageAccounts {
    /// The bounds of the counters of `urrs`, by slot; none at all where no URR does anything by itself.
    pub fn bounds(&self, urrs: &[Urr]) -> Vec<Bounds> {
        if !self.acts() {
            return Vec::new();
        }
        let bounds = |urr: &Urr| self.account(urr.id).map(|account| account.bounds(urr));
        let all = urrs.iter().map(|urr| bounds(urr).unwrap_or_default());
        by_slot(urrs, all.collect())
    }

    /// The bounds that [`update`](Self::update) would lead to.
    pub fn preview_bounds(&self, now: Nanos, urrs: &[Urr], renewed: &[(UrrId, Renewed)]) -> Vec<Bounds> {
        if !urrs.iter().any(Machine::is_needed) {
            return Vec::new();
        }
        let bounds = urrs
            .iter()
            .map(|urr| self.preview_account(now.into(), urr, renewed));
        by_slot(urrs, bounds.collect())
    }

    /// The same of one URR, without an account that is thrown away.
    fn preview_account(&self, now: Moment, urr: &Urr, renewed: &[(UrrId, Renewed)]) -> (Bounds, Bounds) {
        if !Machine::is_needed(urr) {
            return (Bounds::NONE, Bounds::NONE);
        }
        let account = self.account(urr.id);
        let known = account.as_ref().map(|account| account.base(urr.unit()));
        let mut base = known.unwrap_or_else(|| Account::default().base(urr.unit()));
        let machine = match account.and_then(|account| account.acting) {
            None => Machine::begin(urr, now, self.setting()),
            Some(ActiveRule { mut machine, .. }) => {
                let new = renewed.iter().find(|(id, _)| *id == urr.id);
                let what = new.map_or(Renewed::default(), |(_, what)| *what);
                machine.renew(urr, what, now, self.setting());
                machine
            }
        };
        if !urr.counts_events() {
            (base.reported.events, base.carried.events) = (0, 0);
        }
        bounds_of(&machine, urr, &base)
    }

    /// The worker was told these bounds of `urrs`, by slot.
    pub fn set_sent_bounds(&mut self, urrs: &[Urr], bounds: &[Bounds]) {
        for (urr, bounds) in by_urr(urrs, bounds) {
            if let Some(bounds) = bounds {
                self.set_sent(urr.id, bounds);
            }
        }
    }

    fn set_sent(&mut self, urr: UrrId, bounds: (Bounds, Bounds)) {
        self.change(urr, |account| {
            if let Some(acting) = &mut account.acting {
                acting.sent_bounds = Some(bounds);
            }
        });
    }

    /// What the worker is to be told: the bounds of all counters that have any, if one of them is not as it was told
    /// last, or if all are to be set again. They count as told then. `urrs` are those that were followed last.
    pub fn unsent_bounds(&mut self, urrs: &[Urr], again: bool) -> Vec<(Counter, Bounds)> {
        let are_bounds_sent = |urr: &Urr| {
            self.account(urr.id)
                .is_none_or(|account| account.are_bounds_sent(urr))
        };
        if self.are_bounds_sent && !again {
            debug_assert!(urrs.iter().all(are_bounds_sent), "an account has changed since");
            return Vec::new();
        }
        if !again && urrs.iter().all(are_bounds_sent) {
            self.are_bounds_sent = true;
            return Vec::new();
        }
        let wanted = |urr: &Urr| {
            let account = self.account(urr.id).filter(|account| account.acting.is_some())?;
            Some((urr.id, urr.counts_events(), account.bounds(urr)))
        };
        let wanted: Vec<_> = urrs.iter().filter_map(wanted).collect();
        for (urr, _, bounds) in &wanted {
            self.set_sent(*urr, *bounds);
        }
        let counters = |(urr, counts_events, (octets, events)): (UrrId, bool, (Bounds, Bounds))| {
            let events = counts_events.then_some((Counter::Events(urr), events));
            core::iter::once((Counter::Volume(urr), octets)).chain(events)
        };
        wanted.into_iter().flat_map(counters).collect()
    }

    /// Whether what a URR's counter tells is that its volume limits are reached, and that is known; or nothing stops
    /// for it.
    pub fn is_stop_known(&self, urr: UrrId, reached: Reached) -> bool {
        let acting = self.account(urr).and_then(|account| account.acting);
        let Reached { limits, trapped, .. } = reached;
        acting.is_none_or(|acting| !trapped && limits != 0 && acting.machine.exhausted.0 != 0)
    }
}
