//! Packets that active queue management looks at when their turn comes.

use zerocopy::transmute;

use super::Manager;
use crate::aqm::codel::{Before, Codel, Front};
use crate::aqm::dual::Dual;
use crate::aqm::wred::WredState;
use crate::aqm::{UNIT_SHIFT, Verdict};
use crate::ids::{Ecn, LossReason, QueueId};
use crate::packets::{Descriptor, Room};
use crate::queue::Queue;

/// A packet with its slot, and whether it is to be marked, if there is one; and whether its queue is empty then.
pub(super) type Popped = (Option<(u32, Descriptor, bool)>, bool);

impl<R: Room> Manager<R> {
    /// Takes a packet of a queue with CoDel.
    pub(super) fn pop_codel(&mut self, id: QueueId, line: usize, now: u64) -> Popped {
        let mut before = Before::Nothing;
        while let Some((slot, packet)) = self.queues.of[line].pop(&mut self.packets) {
            let queue = &mut self.queues.of[line];
            let front = Front {
                now: (now >> UNIT_SHIFT) as u32,
                sojourn: packet.waited(now),
                octets_left: queue.octets,
                knows_ecn: packet.ecn() != Ecn::NotEct,
            };
            let mut is_dropping = u8::from(queue.classes & Queue::IS_DROPPING != 0);
            let was_dropping = is_dropping;
            let mut codel: Codel = transmute!(queue.aqm);
            let largest = u32::from(self.limits.largest);
            let verdict = codel.judge(&mut is_dropping, self.codel, &front, largest, before);
            queue.aqm = transmute!(codel);
            queue.classes = queue.classes & !Queue::IS_DROPPING | (is_dropping * Queue::IS_DROPPING);
            if verdict == Verdict::Drop && self.has_room_for_loss() {
                before = if was_dropping == 0 {
                    Before::Entry
                } else {
                    Before::Drop
                };
                self.lose(slot, &packet, id, line, LossReason::Aqm);
                continue;
            }
            return self.passed(slot, packet, verdict, line);
        }
        self.queues.of[line].aqm[0] = 0;
        (None, true)
    }

    /// Takes a packet of a dual queue, whose classic queue is in `line`.
    pub(super) fn pop_dual(&mut self, id: QueueId, line: usize, now: u64) -> Popped {
        loop {
            let waited = |line: usize| self.queues.of[line].first(&self.packets).map(|of| of.waited(now));
            let (classic, low_latency) = (waited(line), waited(line + 1));
            let is_classic = match (classic, low_latency) {
                (None, None) => return (None, true),
                (Some(classic), Some(low_latency)) => self.dual.is_classic_next(classic, low_latency),
                (classic, _) => classic.is_some(),
            };
            let mut dual = self.dual_of(line);
            let oldest = classic.into_iter().chain(low_latency).max().unwrap_or(0);
            dual.update(&self.dual, (now >> UNIT_SHIFT) as u32, oldest);
            let from = line + usize::from(!is_classic);
            let Some((slot, packet)) = self.queues.of[from].pop(&mut self.packets) else {
                return (None, true);
            };
            let verdict = if is_classic {
                dual.judge_classic(packet.ecn() != Ecn::NotEct)
            } else {
                let is_last = self.queues.of[from].packets == 0;
                dual.judge_low_latency(&self.dual, packet.waited(now), is_last)
            };
            self.set_dual(line, &dual);
            if verdict == Verdict::Drop && self.has_room_for_loss() {
                self.lose(slot, &packet, id, from, LossReason::Aqm);
                continue;
            }
            let (taken, is_empty) = self.passed(slot, packet, verdict, from);
            let other = if is_classic { line + 1 } else { line };
            return (taken, is_empty && self.queues.of[other].packets == 0);
        }
    }

    /// Takes a packet of a queue with WRED.
    pub(super) fn pop_wred(&mut self, line: usize, now: u64) -> Popped {
        let Some((slot, packet)) = self.queues.of[line].pop(&mut self.packets) else {
            return (None, true);
        };
        let verdict = if packet.is_marked() {
            Verdict::Mark
        } else {
            Verdict::Pass
        };
        let (taken, is_empty) = self.passed(slot, packet, verdict, line);
        if is_empty {
            let queue = &mut self.queues.of[line];
            let mut state = WredState::from_words(queue.aqm);
            state.note_empty(now);
            queue.aqm = state.words();
        }
        (taken, is_empty)
    }

    fn passed(&mut self, slot: u32, packet: Descriptor, verdict: Verdict, line: usize) -> Popped {
        let marks = verdict == Verdict::Mark;
        if marks {
            self.queues.counters[line].marks += 1;
        }
        (Some((slot, packet, marks)), self.queues.of[line].packets == 0)
    }

    /// What is remembered of a dual queue, in the lines of both.
    fn dual_of(&self, line: usize) -> Dual {
        let [base, last_delay, next_update] = self.queues.of[line].aqm;
        let [classic, low_latency, _] = self.queues.of[line + 1].aqm;
        Dual {
            base,
            last_delay,
            next_update,
            sums: [classic, low_latency],
        }
    }

    fn set_dual(&mut self, line: usize, dual: &Dual) {
        self.queues.of[line].aqm = [dual.base, dual.last_delay, dual.next_update];
        self.queues.of[line + 1].aqm = [dual.sums[0], dual.sums[1], 0];
    }
}
