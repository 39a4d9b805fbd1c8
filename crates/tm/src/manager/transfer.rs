//! Removal: the packets of a UE or queue are taken out in order, to be dropped, or to be queued at another worker.

use flow::Nanos;
use flow::meter::Colour;

use super::{Arrival, Manager};
use crate::ids::{Ecn, LossReason, QueueId, Slot, UeId};
use crate::node::Entry;
use crate::packets::{Descriptor, Room};
use crate::queue::{Kind, Queue};
use crate::spec::TmError;
use crate::ue::Ue;

/// A packet that was held and is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its slot, which is free from now on.
    pub slot: Slot,
    /// The queue that it was in.
    pub queue: QueueId,
    /// Its length in octets.
    pub octets: u16,
    /// Its colour; all that was not green is yellow.
    pub colour: Colour,
    /// Its ECN field, as it was when it came.
    pub ecn: Ecn,
    /// Whether that has to say that congestion was experienced.
    pub marks_ce: bool,
    /// Nanoseconds that it has waited, in steps of 64 and up to 275 s.
    pub sojourn: u64,
}

/// Tokens of a UE that moves, in millionths of a bit: where it continues it has sent as much as here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UeState {
    /// Of its shaper.
    ue: i64,
    /// Of the guaranteed and maximum rates of its queues.
    queues: [[i64; 2]; 8],
    /// When it had these: it has earned more since.
    at: u64,
}

impl UeState {
    /// Of these levels: the shaper's, and by place those of the guaranteed and maximum rate of each queue.
    pub const fn new(ue: i64, queues: [[i64; 2]; 8], at: Nanos) -> Self {
        Self { ue, queues, at: at.0 }
    }

    /// The level of its shaper.
    pub const fn ue(&self) -> i64 {
        self.ue
    }

    /// Those of the guaranteed and the maximum rate of the queue at a place.
    pub const fn queue(&self, place: u8) -> [i64; 2] {
        self.queues[(place & 7) as usize]
    }
}

impl<R: Room> Manager<R> {
    /// What a UE has of its tokens, whose queues stay.
    pub fn ue_state(&self, ue: UeId, now: Nanos) -> Option<UeState> {
        let at = self.now.max(now.0);
        let of = self.live(ue.0)?;
        let mut state = UeState {
            ue: of.bucket.level_at(of.since, at),
            at,
            ..UeState::default()
        };
        for place in (0..8).filter(|place| of.places >> place & 1 == 1) {
            let number = self.queues.of[of.line(place)].shaper;
            if let Some(number) = number.checked_sub(1) {
                let shaper = &self.shapers[number as usize];
                let level = |bucket: &crate::bucket::Bucket| bucket.level_at(shaper.since, at);
                state.queues[usize::from(place)] = [level(&shaper.guaranteed), level(&shaper.maximum)];
            }
        }
        Some(state)
    }

    /// Removes a UE with its queues, and gives out their packets with their rooms: queue after queue, in order. Its
    /// number is used again when no ring has it any more.
    ///
    /// # Errors
    /// [`TmError::NoUe`].
    pub fn remove_ue(
        &mut self,
        ue: UeId,
        now: Nanos,
        mut each: impl FnMut(Held, &mut R),
    ) -> Result<UeState, TmError> {
        let at = self.at(now);
        let mut of = *self.live(ue.0).ok_or(TmError::NoUe(ue))?;
        of.bucket.settle(of.since, at);
        let mut state = UeState {
            ue: of.bucket.level(),
            at,
            ..UeState::default()
        };
        for place in (0..8).filter(|place| of.places >> place & 1 == 1) {
            let queue = QueueId { ue, place };
            state.queues[usize::from(place)] = self.empty_queue(queue, at, &mut each);
        }
        if of.places != 0 {
            self.queues.give_back(of.first, of.order());
        }
        self.wheels
            .remove(&mut self.chunks, Entry::Ue(ue.0).number(), of.waits);
        let gone = &mut self.ues[ue.0 as usize];
        (gone.state, gone.waits, gone.places, gone.backlog) = (Ue::LEAVING, 0, 0, 0);
        self.leaving += 1;
        if gone.joined == 0 {
            self.leave_for_good(ue.0, 0);
        }
        if let Some(node) = &mut self.nodes[usize::from(of.node)] {
            node.children -= 1;
        }
        Ok(state)
    }

    /// Removes a queue of a UE, and gives out its packets in order; of a dual queue both.
    ///
    /// # Errors
    /// [`TmError::NoQueue`].
    pub fn remove_queue(
        &mut self,
        queue: QueueId,
        now: Nanos,
        mut each: impl FnMut(Held, &mut R),
    ) -> Result<(), TmError> {
        let at = self.at(now);
        let line = self.line(queue)?;
        let count = match self.queues.of[line].kind {
            Kind::CLASSIC => 2,
            Kind::LOW_LATENCY => return Err(TmError::NoQueue(queue)),
            _ => 1,
        };
        for place in queue.place..queue.place + count {
            self.empty_queue(QueueId { place, ..queue }, at, &mut each);
            let of = &mut self.ues[queue.ue.0 as usize];
            of.places &= !(1 << place);
            of.of_class.iter_mut().for_each(|queues| *queues &= !(1 << place));
        }
        let of = self.ues[queue.ue.0 as usize];
        if of.places == 0 {
            self.queues.give_back(of.first, of.order());
        }
        Ok(())
    }

    /// The rooms of what is in a queue, in order; of a dual queue in both, those of the classic one first.
    ///
    /// # Errors
    /// [`TmError::NoQueue`].
    pub fn held(&mut self, queue: QueueId, mut each: impl FnMut(&mut R)) -> Result<(), TmError> {
        let line = self.line(queue)?;
        let lines = match self.queues.of[line].kind {
            Kind::CLASSIC => line..line + 2,
            _ => line..line + 1,
        };
        for line in lines {
            let mut slot = self.queues.of[line].head;
            while let Some(room) = self.packets.room_mut(slot) {
                let packet = *room.descriptor();
                if !packet.is_gone() {
                    each(room);
                }
                slot = packet.next;
            }
        }
        Ok(())
    }

    /// Gives out the packets of a queue, and takes its shaper from it. The tokens that this had. Packets of a low
    /// latency queue are given out under the classic one that they were sent to.
    fn empty_queue(&mut self, queue: QueueId, now: u64, each: &mut impl FnMut(Held, &mut R)) -> [i64; 2] {
        let of = &mut self.ues[queue.ue.0 as usize];
        let line = of.line(queue.place);
        of.backlog &= !(1 << queue.place);
        of.held &= !(1 << queue.place);
        let below = u8::from(self.queues.of[line].kind == Kind::LOW_LATENCY);
        let name = QueueId {
            place: queue.place - below,
            ..queue
        };
        while let Some((slot, packet)) = self.queues.of[line].pop(&mut self.packets) {
            self.count_out(self.queues.of[line].class(), packet.octets);
            if let Some(room) = self.packets.room_mut(slot) {
                each(held(slot, name, &packet, now), room);
            }
        }
        let number = self.queues.of[line].shaper;
        self.queues.of[line] = Queue::EMPTY;
        let Some(number) = number.checked_sub(1) else {
            return [0; 2];
        };
        let mut shaper = self.shapers[number as usize];
        self.wheels
            .remove(&mut self.chunks, Entry::Shaper(number).number(), shaper.waits);
        self.free_shapers.push(number);
        shaper.guaranteed.settle(shaper.since, now);
        shaper.maximum.settle(shaper.since, now);
        [shaper.guaranteed.level(), shaper.maximum.level()]
    }

    /// Continues with the tokens that a UE had elsewhere, and has earned since by the same clock, after its queues were
    /// added at the same places and before packets are queued.
    ///
    /// # Errors
    /// [`TmError::NoUe`].
    pub fn continue_ue(&mut self, ue: UeId, state: &UeState, now: Nanos) -> Result<(), TmError> {
        let since = self.at(now).min(state.at);
        self.live(ue.0).ok_or(TmError::NoUe(ue))?;
        let of = &mut self.ues[ue.0 as usize];
        of.bucket.set_level(state.ue);
        of.since = since;
        for place in (0..8).filter(|place| of.places >> place & 1 == 1) {
            let number = self.queues.of[of.line(place)].shaper;
            if let Some(shaper) = number
                .checked_sub(1)
                .map(|number| &mut self.shapers[number as usize])
            {
                let [guaranteed, maximum] = state.queues[usize::from(place)];
                shaper.guaranteed.set_level(guaranteed);
                shaper.maximum.set_level(maximum);
                shaper.since = since;
            }
        }
        Ok(())
    }

    /// Queues a packet that was held elsewhere: it has waited as long as it says. WRED, which has let it in there,
    /// does not look at it again.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    pub fn enqueue_held(&mut self, queue: QueueId, held: &Held, now: Nanos) -> Result<Slot, LossReason> {
        let arrival = Arrival {
            queue,
            octets: held.octets,
            colour: held.colour,
            ecn: held.ecn,
        };
        let since = now.0.saturating_sub(held.sojourn);
        self.enqueue_as(&arrival, since, Some(held.marks_ce), now)
    }
}

fn held(slot: u32, queue: QueueId, packet: &Descriptor, now: u64) -> Held {
    Held {
        slot: Slot(slot),
        queue,
        octets: packet.octets,
        colour: if packet.is_yellow() {
            Colour::Yellow
        } else {
            Colour::Green
        },
        ecn: packet.ecn(),
        marks_ce: packet.is_marked(),
        sojourn: packet.sojourn(now),
    }
}
