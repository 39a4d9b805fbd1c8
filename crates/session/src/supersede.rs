//! A session that takes the place of a live one: an establishment under an F-SEID that its owner has used already.
//!
//! The owner has lost the old session and does not know it; but as long as the new one can be refused, by its rules or
//! by the worker, the old one must live. So the new session is prepared beside it and takes over its index, bucket and
//! worker: one Replace removes the old image and puts the new one in, whole or not at all, and no key clashes. What
//! undoes a modification undoes this too. Only at the commit does the SEID change.

use flow::{Nanos, SessionIndex, UrrCount};
use rules::boxed_option::BoxedOption;
use rules::image::SessionImage;
use rules::model::UrrId;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::changes::Changes;
use crate::choose::Shared;
use crate::effect::{AssociationId, CpFSeid, Seid, Ticket};
use crate::ledger::{Account, Subscriber};
use crate::prepare::Subject;
use crate::refusal::Refusal;
use crate::session::{Live, Prepared, Session, Waiting, WaitingRequest, Work};
use crate::sessions::Sessions;
use usage::{UsageAccounts, UsageTriggers};

impl Sessions {
    /// Begins to put a session in the place of the settled one at `index`. If that one has got another name since the
    /// request came, the request is none of its business.
    pub(crate) fn supersede(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        cp: CpFSeid,
        mut changes: Changes,
    ) {
        let Some(session) = self.session_mut(index) else {
            return self.refuse(ticket, Refusal::Gone);
        };
        if session.cp != cp {
            let association = session.association;
            return self.establish(now, ticket, association, cp, changes);
        }
        match self.prepare_successor(index, &mut changes) {
            Ok((image, prepared, seid)) => {
                self.start(now, index, ticket, Work::Supersede(prepared, seid), Some(image));
            }
            Err(refusal) => self.refuse(ticket, refusal),
        }
    }

    /// Prepares as for a session without rules that holds what the old one holds.
    fn prepare_successor(
        &mut self,
        index: SessionIndex,
        changes: &mut Changes,
    ) -> Result<(Box<SessionImage>, Box<Prepared>, Seid), Refusal> {
        let seid = self.new_seid();
        let session = self.session_mut(index).ok_or(Refusal::Gone)?;
        let (bucket, association, owner) = (session.bucket, session.payer, session.association);
        let counting = session.live.rules.urrs().to_vec();
        let nothing = Live {
            // Whatever the rules, no flow of the old session is the new one's.
            generation: session.live.generation.wrapping_add(1),
            ..Live::default()
        };
        let subject = Subject {
            index,
            seid,
            bucket: Some(bucket),
            association,
            owner,
            live: &nothing,
            shared: Shared::default(),
        };
        let subscriber = changes.subscriber.clone();
        let (_, image, mut prepared) = self.prepare(subject, changes)?;
        prepared.subscriber = subscriber;
        let inherits = |urr: UrrId| counting.iter().any(|old| old.id == urr);
        let both = prepared.live.urrs().filter(|urr| inherits(*urr));
        prepared.queried = both.map(|urr| (urr, UsageTriggers::TERMR)).collect();
        // Packets that wait are the old session's, as if it were deleted.
        prepared.immediate.discards_buffered = true;
        Ok((image, prepared, seid))
    }

    /// The worker runs the new session: it gets its SEID, and what waits for the old one is refused.
    pub(crate) fn take_over(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        seid: Seid,
        (inherited, subscriber): (&[(UrrId, UrrCount)], Option<Arc<Subscriber>>),
    ) {
        let setting = self.usage_setting();
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let old = std::mem::replace(&mut session.seid, seid);
        session.usage = UsageAccounts::beginning_at(inherited, now, setting);
        session.sets = BoxedOption::NONE;
        session.account = Account::of(subscriber);
        let meant_old = session.take_waiting(|request| !matches!(request, WaitingRequest::Supersede { .. }));
        self.by_seid.remove(old);
        self.by_seid.insert(seid, index);
        self.store.remove(old);
        meant_old
            .iter()
            .for_each(|waiting| self.refuse(waiting.ticket, Refusal::NotFound));
    }

    /// What waited for a session that is gone: what was to take its place is a session of its own now, the rest is
    /// refused.
    pub(crate) fn outlive(&mut self, now: Nanos, association: AssociationId, waiting: VecDeque<Waiting>) {
        for Waiting { ticket, request } in waiting {
            match request {
                WaitingRequest::Supersede { changes, cp } => {
                    self.establish(now, ticket, association, cp, *changes)
                }
                WaitingRequest::Modify { .. }
                | WaitingRequest::Delete
                | WaitingRequest::Export(_)
                | WaitingRequest::Pause => self.refuse(ticket, Refusal::NotFound),
            }
        }
    }
}

impl Session {
    /// Takes out of the queue what `which` says of.
    fn take_waiting(&mut self, which: impl Fn(&WaitingRequest) -> bool) -> VecDeque<Waiting> {
        let all = self.waiting.take().into_iter();
        let (taken, left): (VecDeque<Waiting>, VecDeque<Waiting>) =
            all.partition(|waiting| which(&waiting.request));
        if !left.is_empty() {
            *self.waiting.get_or_insert_default() = left;
        }
        taken
    }
}
