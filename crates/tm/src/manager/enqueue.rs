//! Packets that come in.

use flow::meter::Colour;
use flow::{Nanos, prefetch};

use super::Manager;
use crate::aqm::wred::{RedVerdict, WredState};
use crate::ids::{Ecn, LossReason, QueueId, Slot};
use crate::packets::Packet;
use crate::queue::Kind;

/// A packet that is to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where.
    pub queue: QueueId,
    /// Its length, from the Ethernet header on.
    pub octets: u16,
    /// What is not green goes first where there is no room.
    pub colour: Colour,
    /// The ECN field of the inner IP header.
    pub ecn: Ecn,
}

impl Manager {
    /// Queues a packet. The caller keeps it under the slot until the manager gives that back: as a
    /// [`Departure`](super::Departure), or as a [`Loss`](super::Loss). Packets that were pushed out for this one are to
    /// be taken from [`pop_loss`](Self::pop_loss) before: its slot may be one of theirs.
    ///
    /// # Errors
    /// Why it is refused: the caller still has it then.
    #[inline]
    pub fn enqueue(&mut self, arrival: &Arrival, now: Nanos) -> Result<Slot, LossReason> {
        self.enqueue_as(arrival, now.0, None, now)
    }

    /// The same for a packet that came at `since`. `judged`: whether it is to be marked in a queue with WRED, if that
    /// was decided before.
    #[inline(always)]
    pub(super) fn enqueue_as(
        &mut self,
        arrival: &Arrival,
        since: u64,
        judged: Option<bool>,
        now: Nanos,
    ) -> Result<Slot, LossReason> {
        let now = self.at(now);
        let (ue, place, line, is_marked) = self.place_for(arrival, judged, now)?;
        let is_yellow = arrival.colour != Colour::Green;
        let packet = Packet::new(arrival.octets, is_yellow, arrival.ecn, since).marked(is_marked);
        let Some(slot) = self.packets.take(packet) else {
            self.count_loss(line, LossReason::PoolFull);
            return Err(LossReason::PoolFull);
        };
        self.count_in(self.queues.of[line].class(), arrival.octets);
        self.queues.of[line].push(&mut self.packets, slot);
        let of = &mut self.ues[ue as usize];
        if of.backlog >> place & 1 == 0 {
            of.backlog |= 1 << place;
            self.rouse(ue, place, line, now);
        }
        Ok(Slot(slot))
    }

    /// The UE, place and line of the queue for a packet, if there is room in it, and whether the packet is to be
    /// marked.
    #[inline]
    fn place_for(
        &mut self,
        arrival: &Arrival,
        judged: Option<bool>,
        now: u64,
    ) -> Result<(u32, u8, usize, bool), LossReason> {
        let QueueId { ue, place } = arrival.queue;
        let of = self.ues.get(ue.0 as usize).ok_or(LossReason::NoQueue)?;
        if place > 7 || of.places >> place & 1 == 0 {
            return Err(LossReason::NoQueue);
        }
        if arrival.octets == 0 || arrival.octets > self.limits.largest {
            return Err(LossReason::Length);
        }
        let (mut line, mut is_marked) = (of.line(place), false);
        match self.queues.of[line].kind {
            // What identifies a low latency packet (RFC 9331 §5.1).
            Kind::CLASSIC if matches!(arrival.ecn, Ecn::Ect1 | Ecn::Ce) => line += 1,
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
        Ok((ue.0, place, line, is_marked))
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
        arrival: &Arrival,
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
    fn push_out_for(&mut self, arrival: &Arrival, line: usize, reason: LossReason) -> Result<(), LossReason> {
        let yellow = self.queues.of[line].yellow_octets;
        if arrival.colour != Colour::Green || self.fits(line, arrival.octets, yellow).is_err() {
            return Err(reason);
        }
        while self.fits(line, arrival.octets, 0).is_err() {
            let gone = self
                .has_room_for_loss()
                .then(|| self.queues.of[line].push_out_yellow(&mut self.packets));
            let (slot, packet) = gone.flatten().ok_or(reason)?;
            self.lose(slot, &packet, arrival.queue, line, LossReason::PushedOut);
        }
        Ok(())
    }

    /// A queue was empty and has a packet now.
    #[inline]
    fn rouse(&mut self, ue: u32, place: u8, line: usize, now: u64) {
        if self.queues.of[line].shaper != 0 {
            self.settle_queue(ue, place, now);
        }
        self.hold_ue(ue, now);
        self.join(ue);
    }

    /// Asks for the node of a UE, ahead of a burst. First of three passes over it.
    #[inline]
    pub fn prefetch_ue(&self, queue: QueueId) {
        prefetch::nth_to_write(&self.ues, queue.ue.0 as usize);
    }

    /// Asks for the queue itself. Second of three passes.
    #[inline]
    pub fn prefetch_queue(&self, queue: QueueId) {
        if let Some(of) = self.ues.get(queue.ue.0 as usize) {
            prefetch::nth_to_write(&self.queues.of, of.line(queue.place));
        }
    }

    /// Asks for the descriptor of its last packet. Third of three passes.
    #[inline]
    pub fn prefetch_tail(&self, queue: QueueId) {
        let of = self.ues.get(queue.ue.0 as usize);
        if let Some(queue) = of.and_then(|of| self.queues.of.get(of.line(queue.place))) {
            prefetch::nth_to_write(&self.packets.of, queue.tail as usize);
        }
    }
}
