//! Who is ready, and in the rings for it; who waits, and in a wheel for it.

use super::Manager;
use crate::node::Entry;
use crate::packets::Room;
use crate::ue::Ue;

impl<R: Room> Manager<R> {
    /// Puts a UE in the ring of the best class that it is ready for, if it is not there. In those of other classes it
    /// is put when it [leaves](Self::leave_ring) this one: what is above them sends nothing of theirs before.
    #[inline]
    pub(super) fn join(&mut self, ue: u32) {
        let of = &mut self.ues[ue as usize];
        let ready = of.ready_classes();
        let missing = ready & ready.wrapping_neg() & !of.joined;
        if missing != 0 {
            let is_first = of.joined == 0;
            of.joined |= missing;
            let node = of.node;
            if let Some(node) = &mut self.nodes[usize::from(node)] {
                node.ues += u32::from(is_first);
            }
            self.push(node, missing.trailing_zeros() as usize, Entry::Ue(ue));
        }
    }

    /// A UE is no longer in the ring of a class.
    pub(super) fn part(&mut self, ue: u32, class: usize) {
        let of = &mut self.ues[ue as usize];
        let before = of.joined;
        of.joined &= !(1 << class);
        let is_last = before != 0 && of.joined == 0;
        let node = of.node;
        if let Some(node) = self.nodes[usize::from(node)].as_mut().filter(|_| is_last) {
            node.ues -= 1;
        }
    }

    /// Puts it in a ring, and the node in its parent's if it was empty, and so on.
    fn push(&mut self, mut node: u16, class: usize, mut entry: Entry) {
        let bit = 1 << class;
        while let Some(of) = &mut self.nodes[usize::from(node)] {
            self.chunks.push(&mut of.rings[class], entry.number());
            of.ready |= bit;
            if of.waits != 0 || of.joined & bit != 0 {
                return;
            }
            let Some(parent) = of.parent else { return };
            of.joined |= bit;
            entry = Entry::Node(node);
            node = parent;
        }
    }

    /// Puts a node that may serve again in the rings of its parent.
    pub(super) fn rise(&mut self, node: u16) {
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        let Some(parent) = of.parent else { return };
        let mut missing = of.ready & !of.joined;
        of.joined |= missing;
        while missing != 0 {
            let class = missing.trailing_zeros() as usize;
            missing &= missing - 1;
            self.push(parent, class, Entry::Node(node));
        }
    }

    /// Has a UE wait that its shaper refuses now, if it has packets for it.
    #[inline]
    pub(super) fn hold_ue(&mut self, ue: u32, now: u64) {
        let of = &mut self.ues[ue as usize];
        if of.shaped() != 0 && of.waits == 0 && !of.bucket.conforms(of.since, now) {
            let due = of.bucket.due(of.since);
            of.waits = self
                .wheels
                .insert(&mut self.chunks, Entry::Ue(ue).number(), due, now);
        }
    }

    /// Sets a queue's class by its guaranteed rate, and has it wait for what its rates do not allow yet. Only for
    /// queues with packets, so that nothing waits without need.
    pub(super) fn settle_queue(&mut self, ue: u32, place: u8, now: u64) {
        let of = &mut self.ues[ue as usize];
        let queue = self.queues.of[of.line(place)];
        let Some(number) = queue.shaper.checked_sub(1) else {
            return;
        };
        let shaper = &mut self.shapers[number as usize];
        let may_send = shaper.maximum.conforms(shaper.since, now);
        let is_green = shaper.guarantees == 0 || shaper.guaranteed.conforms(shaper.since, now);
        let was_held = of.held >> place & 1 == 1;
        let class = if is_green {
            queue.class()
        } else {
            queue.excess_class()
        };
        of.set_class(place, class);
        of.held = of.held & !(1 << place) | u8::from(!may_send) << place;
        if shaper.waits != 0 && (was_held || !may_send) {
            self.wheels
                .remove(&mut self.chunks, Entry::Shaper(number).number(), shaper.waits);
            shaper.waits = 0;
        }
        if shaper.waits == 0 && !(may_send && is_green) {
            let bucket = if may_send {
                &shaper.guaranteed
            } else {
                &shaper.maximum
            };
            let due = bucket.due(shaper.since);
            shaper.waits = self
                .wheels
                .insert(&mut self.chunks, Entry::Shaper(number).number(), due, now);
        }
    }

    /// Whether there is such a UE.
    #[inline]
    pub(super) fn live(&self, ue: u32) -> Option<&Ue> {
        self.ues.get(ue as usize).filter(|of| of.is_live())
    }
}
