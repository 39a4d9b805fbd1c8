//! Queues of sessions that move to other workers: what waits goes along, in order, with what its rates have used.
//!
//! While two workers have a session, one of them lets its packets leave: the old one, which keeps the queues until the
//! session is removed there. The new one holds back what comes for them
//! ([`ArrivingSessions`](super::moved_queues::ArrivingSessions)). What waits at the old one is then given to the new
//! one ([`MovedQueues`]) before Control gets the response to the removal; so it is there when Control gives the new
//! one the whole of the session, and waits on before what was held back. A move that fails goes the same way back:
//! what was held back goes behind what waits.

use flow::{Direction, Installed, Nanos, SessionIndex};
use packet::PacketBuf;
use rules::image::SessionImage;
use tm::{Held, Slot, UeState};

use super::Queueing;
use super::moved_queues::{MovedPacket, MovedPlan, MovedQueues};
use super::packets::{Departing, Room};
use super::session_queues::NamedQueues;
use super::sessions::has_same_queues;
use crate::io::PacketMetadata;
use crate::sessions::moved_counts::MovedCounts;
use crate::trace::report::QueueEnd;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// Takes a session's queues out with all that waits in them or has left them and not their port yet: for the worker
    /// that the session goes to. `None`, if there is nothing of it.
    pub fn give_away(&mut self, image: &SessionImage, now: Nanos) -> Option<MovedQueues<B>> {
        let session = image.session;
        let held_back = self.arriving.end(session);
        let let_packets_leave = held_back.is_none();
        let mut moved = MovedQueues {
            session,
            seid: image.seid,
            counts: MovedCounts::default(),
            standing: self.take_standing(session),
            plans: [None, None],
            packets: Vec::new(),
        };
        for direction in Direction::BOTH {
            let (Some(line), Some(plan)) =
                (self.queues_of(session, direction), image.egress_queues(direction))
            else {
                self.lacking.remove(&(session, direction));
                continue;
            };
            let all = self.take_out(&line, direction, &mut moved.packets, now);
            let tokens = if let_packets_leave { all } else { Vec::new() };
            moved.plans[direction as usize] = Some(MovedPlan {
                plan: plan.clone(),
                tokens,
            });
            self.forget_line(session, direction);
        }
        moved.packets.extend(held_back.into_iter().flatten());
        let has_any = moved.len() > 0 || moved.plans.iter().any(Option::is_some);
        has_any.then_some(moved)
    }

    /// Takes the packets of a session's queues out, in order. Gives what is left of their rates.
    fn take_out(
        &mut self,
        line: &NamedQueues,
        direction: Direction,
        packets: &mut Vec<MovedPacket<B>>,
        now: Nanos,
    ) -> Vec<(u8, UeState)> {
        let (splits, manager) = (&mut self.splits, &mut self.manager);
        let reports = &mut self.reports;
        let mut take = |held: Held, room: &mut Room<B>| {
            reports.end(held.slot, QueueEnd::Moved, now);
            if let (Some(waiting), Some(place)) = (room.take(), line.place_of(held.queue)) {
                packets.push(MovedPacket {
                    direction,
                    place,
                    since: Nanos(now.0.saturating_sub(held.sojourn)),
                    octets: held.octets,
                    colour: held.colour,
                    ecn: held.ecn,
                    marks_ce: held.marks_ce,
                    waiting,
                    split: splits.remove(&held.slot.0),
                });
            }
        };
        let ues = line.first_of_ues();
        let states = ues.filter_map(|place| {
            let ue = line.at(usize::from(place)).ue;
            Some((place, manager.remove_ue(ue, now, &mut take).ok()?))
        });
        states.collect()
    }

    /// Takes what stands of a session before ports, in order.
    fn take_standing(&mut self, session: SessionIndex) -> Vec<Departing<B>> {
        let mut taken = Vec::new();
        for output in &mut self.outputs {
            if !output.queue.iter().any(|departing| departing.session == session) {
                continue;
            }
            for departing in std::mem::take(&mut output.queue) {
                if departing.session != session {
                    output.queue.push_back(departing);
                    continue;
                }
                if let Some(node) = departing.node {
                    self.standing[usize::from(node)] -= 1;
                }
                taken.push(Departing {
                    node: None,
                    ..departing
                });
            }
        }
        taken
    }

    /// A session that another worker had is whole here: what was given of it, whose counts are in this block now, waits
    /// on, before what was held back.
    pub fn settle(
        &mut self,
        image: &SessionImage,
        installed: Installed,
        given: Vec<MovedQueues<B>>,
        now: Nanos,
    ) {
        let held_back = self.arriving.end(image.session);
        for mut moved in given {
            moved.counts_here(image, installed);
            let MovedQueues {
                standing,
                plans,
                mut packets,
                ..
            } = moved;
            standing.into_iter().for_each(|departing| self.stand(departing));
            let fits = self.fits(image, &plans);
            let plans = plans.iter().zip(Direction::BOTH);
            for (plan, direction) in plans.filter(|_| held_back.is_some()) {
                let tokens = plan.as_ref().map_or(&[][..], |plan| &plan.tokens);
                self.continue_with(image.session, direction, tokens, fits, now);
            }
            // Messages of tunnels leave behind all queues that there are not here.
            packets.sort_by_key(|packet| {
                !fits[packet.direction as usize] && packet.waiting.charge.is_of_message()
            });
            for packet in packets {
                match fits[packet.direction as usize] {
                    true => self.enqueue_moved(packet, now),
                    // There are no such queues here, so nothing that it would overtake.
                    false => self.stand(packet.departing()),
                }
            }
        }
        for packet in held_back.into_iter().flatten() {
            self.enqueue_moved(packet, now);
        }
    }

    /// Whether the queues of each direction are those of a session here: they are, as its rules do not change while it
    /// moves.
    fn fits(&self, image: &SessionImage, plans: &[Option<MovedPlan>; 2]) -> [bool; 2] {
        Direction::BOTH.map(|direction| {
            let there = plans[direction as usize].as_ref();
            let here = image.egress_queues(direction);
            let both = there.zip(here.filter(|_| self.line(image.session, direction).is_some()));
            both.is_some_and(|(there, here)| has_same_queues(&there.plan, here))
        })
    }

    /// Rates continue with what was left of them.
    fn continue_with(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        tokens: &[(u8, UeState)],
        fits: [bool; 2],
        now: Nanos,
    ) {
        let line = self.queues_of(session, direction);
        let Some(line) = line.filter(|_| fits[direction as usize]) else {
            return;
        };
        for (place, state) in tokens {
            let continued = self
                .manager
                .continue_ue(line.at(usize::from(*place)).ue, state, now);
            debug_assert!(continued.is_ok(), "{continued:?}");
        }
    }

    /// Puts a packet that has waited elsewhere behind those of its queue here.
    fn enqueue_moved(&mut self, packet: MovedPacket<B>, now: Nanos) {
        let line = self.line(packet.waiting.session, packet.direction);
        let queue = line.map(|line| line.at(usize::from(packet.place)));
        let Some(queue) = queue.and_then(|queue| self.manager.queue_at(queue)) else {
            return self.stand(packet.departing());
        };
        let held = Held {
            slot: Slot(0),
            queue,
            octets: packet.octets,
            colour: packet.colour,
            ecn: packet.ecn,
            marks_ce: packet.marks_ce,
            sojourn: now.0.saturating_sub(packet.since.0),
        };
        let queued = self.manager.enqueue_held(queue, &held, now);
        self.note_queued(queued, packet.waiting, packet.split, now);
    }
}
