//! What is left of the rates of a session's queues, where they go elsewhere or let all packets leave at once.

use flow::contract::QueueTokens;
use flow::{Direction, Nanos, SessionIndex};
use packet::{DropReason, PacketBuf};
use rules::image::EgressQueues;
use tm::UeState;

use super::Queueing;
use super::packets::Room;
use super::session_queues::NamedQueues;
use crate::io::PacketMetadata;
use crate::trace::report::QueueEnd;

/// Packets that may stand before ports in any case.
const LEAST_STANDING: usize = 256;
/// Tokens of an octet: millionths of a bit.
const OCTET: i64 = 8_000_000;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// What is left of the rates of a direction's queues, which are those of this plan.
    pub fn tokens(
        &self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        now: Nanos,
    ) -> QueueTokens {
        let Some(line) = self.queues_of(session, direction) else {
            return QueueTokens::default();
        };
        read(&line, plan, now, |place| {
            self.manager.ue_state(line.at(usize::from(place)).ue, now)
        })
    }

    /// Lets all packets of a direction's queues stand before their ports, in order, and takes what they need of their
    /// rates. What finds no room there is lost. The queues are gone: what is left of their rates.
    pub fn let_all_leave(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        now: Nanos,
    ) -> QueueTokens {
        let Some(line) = self.queues_of(session, direction) else {
            return QueueTokens::default();
        };
        let (mut leaving, mut used) = (Vec::new(), Vec::new());
        let mut states = Vec::new();
        for place in line.first_of_ues() {
            let (splits, reports) = (&mut self.splits, &mut self.reports);
            let ue = line.at(usize::from(place)).ue;
            let removed = self.manager.remove_ue(ue, now, |held, room: &mut Room<B>| {
                let is_marked = held.marks_ce;
                reports.end(held.slot, QueueEnd::Left { is_marked }, now);
                let Some(mut waiting) = room.take() else {
                    return;
                };
                if is_marked {
                    waiting.mark();
                }
                leaving.push(waiting.departing(splits.remove(&held.slot.0)));
                used.extend(line.place_of(held.queue).map(|place| (place, held.octets)));
            });
            states.extend(removed.ok().map(|state| (place, state)));
        }
        let mut tokens = read(&line, plan, now, |place| {
            let state = states.iter().find(|(of, _)| *of == place);
            state.map(|(_, state)| *state)
        });
        used.into_iter()
            .for_each(|(place, octets)| spend(&mut tokens, plan, place, octets));
        self.forget_line(session, direction);
        for departing in leaving {
            match self.has_room_to_stand() {
                true => self.stand(departing),
                false => self.lost.push(departing.lost(DropReason::EgressReleased)),
            }
        }
        tokens
    }

    /// The same, but that the queues stay, empty.
    pub fn empty_at_once(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        now: Nanos,
    ) -> QueueTokens {
        if self.line(session, direction).is_none() {
            return QueueTokens::default();
        }
        let tokens = self.let_all_leave(session, direction, plan, now);
        self.add(session, direction, plan);
        self.set_tokens(session, direction, plan, &tokens, now);
        tokens
    }

    /// The greatest debt that what waits can have left by: one that comes from elsewhere is no greater.
    fn least_tokens(&self) -> i64 {
        let octets = i64::try_from(self.manager.limits().pool).unwrap_or(i64::MAX);
        octets.saturating_mul(-OCTET)
    }

    /// Whether one more may stand before ports that did not come there by a turn of its queue: a quarter of what may
    /// wait.
    pub fn has_room_to_stand(&self) -> bool {
        let standing = self.outputs.iter().map(|output| output.queue.len());
        standing.sum::<usize>() < LEAST_STANDING + self.manager.limits().packets as usize / 4
    }

    /// Whether something of a session stands before ports.
    pub fn has_standing_of(&self, session: SessionIndex) -> bool {
        let mut standing = self.outputs.iter().flat_map(|output| &output.queue);
        standing.any(|departing| departing.session == session)
    }

    /// The rates of a direction's queues, in which nothing waits, continue with what was left of them elsewhere.
    pub fn set_tokens(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        tokens: &QueueTokens,
        now: Nanos,
    ) {
        let fit = tokens.shapers.len() == plan.shapers.len() && tokens.queues.len() == plan.queues.len();
        let Some(line) = self.queues_of(session, direction).filter(|_| fit) else {
            return;
        };
        for first in line.first_of_ues() {
            let ue = line.at(usize::from(first)).ue;
            let mut queues = [[0; 2]; 8];
            let mut shaper = 0;
            for (place, levels) in tokens.queues.iter().enumerate() {
                let at = line.at(place);
                if at.ue == ue {
                    queues[usize::from(at.place & 7)] = *levels;
                    shaper = shaper_of(plan, place);
                }
            }
            let level = tokens.shapers.get(shaper).copied().unwrap_or_default();
            let least = self.least_tokens();
            let queues = queues.map(|levels| levels.map(|level: i64| level.max(least)));
            let state = UeState::new(level.max(least), queues, tokens.at);
            let continued = self.manager.continue_ue(ue, &state, now);
            debug_assert!(continued.is_ok(), "{continued:?}");
        }
    }
}

/// The shaper by whose node the queue at a place of a plan is.
fn shaper_of(plan: &EgressQueues, place: usize) -> usize {
    let queue = plan.queues.get(place);
    queue.and_then(|queue| queue.shaper).map_or(0, usize::from)
}

/// The tokens of a plan's queues. `state` gives those of the node whose first queue is at a place.
fn read(
    line: &NamedQueues,
    plan: &EgressQueues,
    now: Nanos,
    state: impl Fn(u8) -> Option<UeState>,
) -> QueueTokens {
    let mut tokens = QueueTokens {
        at: now,
        shapers: vec![0; plan.shapers.len()],
        queues: vec![[0; 2]; plan.queues.len()],
    };
    for first in line.first_of_ues() {
        let ue = line.at(usize::from(first)).ue;
        let Some(state) = state(first) else { continue };
        if let Some(level) = tokens.shapers.get_mut(shaper_of(plan, first.into())) {
            *level = state.ue();
        }
        for (place, levels) in tokens.queues.iter_mut().enumerate() {
            let at = line.at(place);
            if at.ue == ue {
                *levels = state.queue(at.place);
            }
        }
    }
    tokens
}

/// A packet takes of the rates that it has left by, whether they have allowed it or not.
fn spend(tokens: &mut QueueTokens, plan: &EgressQueues, place: u8, octets: u16) {
    let place = usize::from(place);
    let Some(queue) = plan.queues.get(place) else {
        return;
    };
    let cost = i64::from(octets) * OCTET;
    let shaper = queue
        .shaper
        .and_then(|shaper| tokens.shapers.get_mut(usize::from(shaper)));
    if let Some(level) = shaper {
        *level = level.saturating_sub(cost);
    }
    if let Some([guaranteed, maximum]) = tokens.queues.get_mut(place).filter(|_| queue.is_limited()) {
        if *guaranteed >= 0 {
            *guaranteed = guaranteed.saturating_sub(cost);
        }
        *maximum = maximum.saturating_sub(cost);
    }
}
