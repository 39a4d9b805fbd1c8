//! Packets of an engine that wait before ports, and what its host asks of queues.

use flow::contract::{QueueTokens, Queues, Refusal};
use flow::{Direction, Installed, Nanos, SessionIndex, UrrCount};

use super::engine::{Engine, exit};
use super::queues::EngineQueues;
use crate::egress::queueing::departures::Exit;
use crate::io::Io;
use crate::view::EgressCounts;

impl<I: Io> Engine<I> {
    /// What waits, and what became of packets; `None` where there are no queues.
    pub fn queue_counts(&self) -> Option<EgressCounts> {
        let queues = self.aside.queues.as_ref()?;
        Some(queues.queueing.counts())
    }

    pub(super) fn queues_mut(&mut self) -> Option<&mut EngineQueues<I::Buf>> {
        self.aside.queues.as_deref_mut()
    }

    /// A session gets queues in a direction, or others than it has.
    ///
    /// # Errors
    /// See [`flow::table_backend::BackendTables::put_queues`].
    pub(super) fn put_queues(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        (queues, tokens): (&Queues, Option<&QueueTokens>),
        now: Nanos,
    ) -> Result<(), Refusal> {
        self.pass_reinjected(now);
        let all = self.queues_mut().ok_or(Refusal::Unsupported)?;
        all.has_all_of(queues)?;
        if all.are_same(session, direction, queues) {
            all.change_rates(session, direction, queues, now);
        } else {
            let old = self.remove_queues(session, direction, now);
            let added = self
                .queues_mut()
                .map_or(Ok(()), |all| all.add(session, direction, queues));
            if let (Err(refusal), Some((queues, tokens))) = (added, old) {
                // What was there is there again.
                let all = self.queues_mut();
                let again = all.map_or(Ok(()), |all| all.add(session, direction, &queues));
                debug_assert_eq!(again, Ok(()));
                self.set_tokens(session, direction, &tokens, now);
                return Err(refusal);
            }
            added?;
        }
        if let Some(tokens) = tokens {
            self.set_tokens(session, direction, tokens, now);
        }
        Ok(())
    }

    fn set_tokens(&mut self, session: SessionIndex, direction: Direction, tokens: &QueueTokens, now: Nanos) {
        let Some(all) = self.queues_mut() else { return };
        if let Some(plan) = all.plan(session, direction).cloned() {
            all.queueing.set_tokens(session, direction, &plan, tokens, now);
        }
    }

    /// What waits leaves at once, and there are no queues any more: what they were, and what is left of their rates.
    pub(super) fn remove_queues(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        now: Nanos,
    ) -> Option<(Queues, QueueTokens)> {
        self.pass_reinjected(now);
        let removed = self.queues_mut()?.remove(session, direction, now)?;
        self.send_standing(session, now);
        Some(removed)
    }

    /// All that waits of a session leaves at once, in order; its queues stay.
    pub(super) fn empty_queues(&mut self, session: SessionIndex, now: Nanos) {
        if self.aside.queues.is_none() {
            return;
        }
        self.pass_reinjected(now);
        if let Some(all) = self.queues_mut() {
            for direction in Direction::BOTH {
                all.empty(session, direction, now);
            }
        }
        self.send_standing(session, now);
    }

    /// Sends what stands of a session, as far as ports take it at once. The rest has left for its counters.
    fn send_standing(&mut self, session: SessionIndex, now: Nanos) {
        let Some(queues) = &mut self.aside.queues else {
            return;
        };
        queues.queueing.send(&mut exit!(self), now);
        self.drop_lost_in_queues();
        if let Some(queues) = &mut self.aside.queues {
            queues.queueing.settle_charges(session);
        }
        self.recirculate_departed(now);
    }

    pub(super) fn queue_tokens(
        &self,
        session: SessionIndex,
        direction: Direction,
        now: Nanos,
    ) -> QueueTokens {
        let all = self.aside.queues.as_ref();
        let tokens = all.and_then(|all| {
            let plan = all.plan(session, direction)?;
            Some(all.queueing.tokens(session, direction, plan, now))
        });
        tokens.unwrap_or_default()
    }

    /// What packets that have not left have counted in a counter of a session.
    pub(super) fn not_left(&self, session: SessionIndex, counter: u8) -> UrrCount {
        let queues = self.aside.queues.as_ref();
        queues.map_or_else(UrrCount::default, |queues| {
            queues.queueing.not_left(session, counter)
        })
    }

    /// The block of a session is another: what waits counts there.
    pub(super) fn move_charges(&mut self, session: SessionIndex, installed: Installed) {
        if let Some(queues) = &mut self.aside.queues {
            queues.queueing.move_charges(session, installed);
        }
    }

    /// All that waits is lost, with all that the host has told of queues.
    pub(super) fn lose_queues(&mut self, now: Nanos) {
        if let Some(queues) = &mut self.aside.queues {
            queues.lose_all(now);
        }
        self.drop_lost_in_queues();
    }
}
