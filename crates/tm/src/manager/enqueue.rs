//! Packets that come in.

use flow::meter::Colour;
use flow::{Nanos, prefetch};

use super::Manager;
use crate::aqm::wred::{RedVerdict, WredState};
use crate::ids::{Ecn, LossReason, QueueId, QueueLine, Slot, UeId};
use crate::packets::{Descriptor, Room};
use crate::queue::Kind;

/// A packet that is to be queued: by the name of its queue, or by where this [is](super::Manager::line_of).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<Q = QueueId> {
    /// Where.
    pub queue: Q,
    /// Its length, from the Ethernet header on.
    pub octets: u16,
    /// What is not green goes first where there is no room.
    pub colour: Colour,
    /// The ECN field of the inner IP header.
    pub ecn: Ecn,
}

impl<R: Room> Manager<R> {
    /// Queues a packet. The caller keeps it under the slot until the manager gives that back: as a
    /// [`Departure`](super::Departure), or as a [`Loss`](super::Loss). Packets that were pushed out for this one are to
    /// be taken from [`pop_loss`](Self::pop_loss) before: its slot may be one of theirs.
    ///
    /// # Errors
    /// Why it is refused: the caller still has it then.
    pub fn enqueue(&mut self, arrival: &Arrival, now: Nanos) -> Result<Slot, LossReason> {
        self.enqueue_as(arrival, now.0, None, now)
    }

    /// The same where it is known where the queue is: of one that is not empty its UE is not looked at.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    #[inline]
    pub fn enqueue_at(&mut self, arrival: &Arrival<QueueLine>, now: Nanos) -> Result<Slot, LossReason> {
        self.enqueue_in(arrival, now.0, None, now)
    }

    /// As [`enqueue`](Self::enqueue) for a packet that came at `since`. `judged`: whether it is to be marked in a queue
    /// with WRED, if that was decided before.
    pub(super) fn enqueue_as(
        &mut self,
        arrival: &Arrival,
        since: u64,
        judged: Option<bool>,
        now: Nanos,
    ) -> Result<Slot, LossReason> {
        let Arrival {
            queue,
            octets,
            colour,
            ecn,
        } = *arrival;
        let queue = self.line_of(queue).ok_or(LossReason::NoQueue)?;
        let arrival = Arrival {
            queue,
            octets,
            colour,
            ecn,
        };
        self.enqueue_in(&arrival, since, judged, now)
    }

    #[inline(always)]
    fn enqueue_in(
        &mut self,
        arrival: &Arrival<QueueLine>,
        since: u64,
        judged: Option<bool>,
        now: Nanos,
    ) -> Result<Slot, LossReason> {
        let now = self.at(now);
        let (line, is_marked) = self.place_for(arrival, judged, now)?;
        let is_yellow = arrival.colour != Colour::Green;
        let packet = Descriptor::new(arrival.octets, is_yellow, arrival.ecn, since).marked(is_marked);
        let Some(slot) = self.packets.take(packet) else {
            self.count_loss(line, LossReason::PoolFull);
            return Err(LossReason::PoolFull);
        };
        let queue = &mut self.queues.of[line];
        let (class, was_empty) = (queue.class(), queue.packets == 0);
        queue.push(&mut self.packets, slot, &packet);
        self.count_in(class, arrival.octets);
        if was_empty {
            self.rouse(line, now);
        }
        Ok(Slot(slot))
    }

    /// The line of the queue for a packet, if there is room in it, and whether the packet is to be marked.
    #[inline(always)]
    fn place_for(
        &mut self,
        arrival: &Arrival<QueueLine>,
        judged: Option<bool>,
        now: u64,
    ) -> Result<(usize, bool), LossReason> {
        let (mut line, mut is_marked) = (arrival.queue.0 as usize, false);
        let kind = self.queues.of.get(line).map_or(Kind::NONE, |queue| queue.kind);
        if kind == Kind::NONE {
            return Err(LossReason::NoQueue);
        }
        if arrival.octets == 0 || arrival.octets > self.limits.largest {
            return Err(LossReason::Length);
        }
        match kind {
            Kind::TAIL_DROP | Kind::CODEL => {}
            // What identifies a low latency packet (RFC 9331 §5.1).
            Kind::CLASSIC => line += usize::from(matches!(arrival.ecn, Ecn::Ect1 | Ecn::Ce)),
            Kind::LOW_LATENCY => return Err(LossReason::NoQueue),
            kind => {
                if let Some(profile) = kind.wred_profile() {
                    is_marked = match judged {
                        Some(is_marked) => is_marked,
                        None => self.judge_arrival(line, profile, arrival, now)?,
                    };
                }
            }
        }
        if let Err(reason) = self.fits(line, arrival.octets, 0) {
            self.push_out_for(arrival, line, reason)
                .inspect_err(|reason| self.count_loss(line, *reason))?;
        }
        Ok((line, is_marked))
    }

    /// Whether a packet that comes to a queue with WRED is to be marked.
    ///
    /// # Errors
    /// It is to be dropped.
    #[inline(never)]
    fn judge_arrival(
        &mut self,
        line: usize,
        profile: usize,
        arrival: &Arrival<QueueLine>,
        now: u64,
    ) -> Result<bool, LossReason> {
        let (Some(wred), random) = (self.wred.get(profile), self.random.draw()) else {
            return Ok(false);
        };
        let queue = &mut self.queues.of[line];
        let mut state = WredState::from_words(queue.aqm);
        let is_green = arrival.colour == Colour::Green;
        let verdict = wred.judge(&mut state, is_green, queue.octets, now, random);
        queue.aqm = state.words();
        match verdict {
            RedVerdict::Pass => Ok(false),
            RedVerdict::Early if arrival.ecn != Ecn::NotEct => Ok(true),
            RedVerdict::Early | RedVerdict::Above => {
                self.count_loss(line, LossReason::Aqm);
                Err(LossReason::Aqm)
            }
        }
    }

    /// Whether a packet fits if this many octets of its queue were not there: in the queue's cap, in its share of what
    /// is left of the pool (the dynamic threshold of Choudhury and Hahne), and in the pool.
    #[inline]
    fn fits(&self, line: usize, octets: u16, without: u32) -> Result<(), LossReason> {
        let queue = &self.queues.of[line];
        let filled = queue.octets - without + u32::from(octets);
        let left = self.limits.pool - self.octets + u64::from(without);
        let share = if queue.share >= 0 {
            left << queue.share
        } else {
            left >> -queue.share
        };
        if filled > queue.cap {
            Err(LossReason::QueueFull)
        } else if u64::from(octets) > left {
            Err(LossReason::PoolFull)
        } else if u64::from(filled) > share {
            Err(LossReason::PoolShare)
        } else {
            Ok(())
        }
    }

    /// Makes room for a green packet, if that takes no more than yellow ones of its queue, the oldest first.
    #[cold]
    fn push_out_for(
        &mut self,
        arrival: &Arrival<QueueLine>,
        line: usize,
        reason: LossReason,
    ) -> Result<(), LossReason> {
        let name = self.queue_at(arrival.queue).ok_or(LossReason::NoQueue)?;
        let yellow = self.queues.of[line].yellow_octets;
        if arrival.colour != Colour::Green || self.fits(line, arrival.octets, yellow).is_err() {
            return Err(reason);
        }
        while self.fits(line, arrival.octets, 0).is_err() {
            let gone = self
                .has_room_for_loss()
                .then(|| self.queues.of[line].push_out_yellow(&mut self.packets));
            let (slot, packet) = gone.flatten().ok_or(reason)?;
            self.lose(slot, &packet, name, line, LossReason::PushedOut);
        }
        Ok(())
    }

    /// A queue was empty and has a packet now; of a dual queue one of both was.
    #[inline]
    fn rouse(&mut self, line: usize, now: u64) {
        let queue = &self.queues.of[line];
        let (ue, place, is_shaped) = (queue.ue(), queue.place(), queue.shaper != 0);
        let of = &mut self.ues[ue as usize];
        if of.backlog >> place & 1 == 1 {
            return;
        }
        of.backlog |= 1 << place;
        if is_shaped {
            self.settle_queue(ue, place, now);
        }
        self.hold_ue(ue, now);
        self.join(ue);
    }

    /// Asks for the node of a UE, ahead of a burst, where its queue may be empty.
    #[inline]
    pub fn prefetch_ue(&self, ue: UeId) {
        prefetch::nth_to_write(&self.ues, ue.0 as usize);
    }

    /// Asks for a queue, ahead of a burst. First of two passes over it.
    #[inline]
    pub fn prefetch_queue(&self, line: QueueLine) {
        prefetch::nth_to_write(&self.queues.of, line.0 as usize);
    }

    /// Asks for what a packet of the queue is linked with: the last one, or the UE's node. Second of two passes.
    #[inline]
    pub fn prefetch_tail(&self, line: QueueLine) {
        if let Some(queue) = self.queues.of.get(line.0 as usize) {
            if queue.packets == 0 {
                prefetch::nth_to_write(&self.ues, queue.ue() as usize);
            } else {
                self.packets.prefetch(queue.tail);
            }
        }
    }

    /// Asks for the rooms of as many packets as come next.
    #[inline]
    pub fn prefetch_rooms(&self, packets: usize) {
        self.packets.prefetch_free(packets);
    }
}
