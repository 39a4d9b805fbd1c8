//! Who sends next: strict priority among classes, turns by octets among equals.

use flow::{Nanos, prefetch};

use super::active::Popped;
use super::{Departure, Manager};
use crate::chunks::Fifo;
use crate::ids::{NodeId, QueueId, Slot, UeId};
use crate::node::{Entry, Node};
use crate::packets::Packet;
use crate::queue::Kind;

/// What becomes of the first of a ring after it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Its turn is not over.
    Front,
    /// Others are next.
    Back,
    /// It has nothing for this ring.
    Leaves,
}

/// What is done with the first of a ring, and the octets of the packet that was taken of it; 0: none was. The packet
/// itself is the manager's `taken`.
type Taken = (Turn, u32);

impl Manager {
    /// Takes packets of a port that may leave now, as many as `out` holds; returns how many there were.
    #[inline]
    pub fn dequeue(&mut self, port: NodeId, now: Nanos, out: &mut [Departure]) -> usize {
        self.dequeue_ahead(port, now, out, |_| ())
    }

    /// The same. `ahead` gets slots whose packets may leave soon, for a caller that asks for the memory of what it
    /// keeps there: not all of them, some more than once, and some that are in no use.
    #[inline]
    pub fn dequeue_ahead(
        &mut self,
        port: NodeId,
        now: Nanos,
        out: &mut [Departure],
        mut ahead: impl FnMut(Slot),
    ) -> usize {
        let now = self.at(now);
        self.wake_due(now, &mut ahead);
        let mut count = 0;
        while count < out.len() {
            if !self.next(port.0, now, &mut ahead) {
                break;
            }
            out[count] = self.taken;
            count += 1;
        }
        count
    }

    /// Takes the next packet of a port; whether there is one.
    #[inline]
    fn next(&mut self, port: u16, now: u64, ahead: &mut impl FnMut(Slot)) -> bool {
        while let Some(node) = self.nodes.get(usize::from(port)).and_then(Option::as_ref) {
            if node.ready == 0 || node.parent.is_some() || !node.bucket.conforms(node.since, now) {
                return false;
            }
            let class = node.ready.trailing_zeros() as usize;
            if self.serve(port, class, now, ahead) != 0 {
                return true;
            }
        }
        false
    }

    /// Takes a packet of this class below a node, and returns its octets; 0: there is none, and its ring is empty.
    fn serve(&mut self, node: u16, class: usize, now: u64, ahead: &mut impl FnMut(Slot)) -> u32 {
        while let Some(of) = &mut self.nodes[usize::from(node)] {
            let Some(first) = self.chunks.front(of.rings[class]) else {
                of.ready &= !(1 << class);
                return 0;
            };
            let (turn, octets) = match Entry::from_number(first) {
                Entry::Node(child) => self.serve_node(child, class, now, ahead),
                Entry::Ue(ue) => {
                    let ring = of.rings[class];
                    if !ring.is_short(14) {
                        self.look_ahead(ring, class, ahead);
                    }
                    self.serve_ue(ue, class, now)
                }
                Entry::Shaper(_) => (Turn::Leaves, 0),
            };
            let Some(of) = &mut self.nodes[usize::from(node)] else {
                return 0;
            };
            if turn != Turn::Front {
                self.chunks.pop_and_keep(&mut of.rings[class]);
                if turn == Turn::Back {
                    self.chunks.push(&mut of.rings[class], first);
                } else if let Entry::Ue(_) = Entry::from_number(first) {
                    of.ues -= 1;
                }
                if of.rings[class].is_empty() {
                    of.ready &= !(1 << class);
                }
            }
            if octets != 0 {
                self.charge_node(node, octets, now);
                return octets;
            }
        }
        0
    }

    /// Asks for what the next ones of a ring need. Those of a short one were asked for when they came.
    #[inline(never)]
    fn look_ahead(&self, ring: Fifo, class: usize, ahead: &mut impl FnMut(Slot)) {
        if let Some(Entry::Ue(ue)) = self.chunks.ahead(ring, 14).map(Entry::from_number) {
            prefetch::nth_to_write(&self.ues, ue as usize);
        }
        if let Some(Entry::Ue(ue)) = self.chunks.ahead(ring, 9).map(Entry::from_number) {
            let of = &self.ues[ue as usize];
            prefetch::nth_to_write(
                &self.queues.of,
                of.line((of.ready() & of.of_class[class]).trailing_zeros() as u8),
            );
        }
        if let Some(Entry::Ue(ue)) = self.chunks.ahead(ring, 4).map(Entry::from_number) {
            let of = &self.ues[ue as usize];
            let line = of.line((of.ready() & of.of_class[class]).trailing_zeros() as u8);
            if let Some(queue) = self.queues.of.get(line) {
                prefetch::nth_to_write(&self.packets.of, queue.head as usize);
                ahead(Slot(queue.head));
            }
        }
    }

    /// A packet takes of a node's rate.
    #[inline]
    fn charge_node(&mut self, node: u16, octets: u32, now: u64) {
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        let octets = octets + u32::from(of.overhead);
        let may_send = of.bucket.charge(of.since, now, octets);
        of.since = now;
        of.passed += u64::from(octets);
        of.has_refused |= !may_send;
        // A port is looked at by each call, and needs no wheel.
        if !may_send && of.parent.is_some() {
            let due = of.bucket.due(now);
            of.waits = self
                .wheels
                .insert(&mut self.chunks, Entry::Node(node).number(), due, now);
        }
    }

    /// The turn of a node in its parent's ring.
    fn serve_node(&mut self, node: u16, class: usize, now: u64, ahead: &mut impl FnMut(Slot)) -> Taken {
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return (Turn::Leaves, 0);
        };
        if of.waits != 0 || of.ready >> class & 1 == 0 {
            return (leave(of, class), 0);
        }
        if of.deficits[class] <= 0 {
            of.deficits[class] += of.quantum;
            if of.deficits[class] <= 0 {
                return (Turn::Back, 0);
            }
        }
        let octets = self.serve(node, class, now, ahead);
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return (Turn::Leaves, octets);
        };
        of.deficits[class] -= octets as i32;
        if of.waits != 0 || of.ready >> class & 1 == 0 {
            return (leave(of, class), octets);
        }
        (
            if of.deficits[class] > 0 {
                Turn::Front
            } else {
                Turn::Back
            },
            octets,
        )
    }

    /// The turn of a UE in the ring of a class.
    #[inline(never)]
    fn serve_ue(&mut self, ue: u32, class: usize, now: u64) -> Taken {
        let of = &mut self.ues[ue as usize];
        if of.ready() & of.of_class[class] == 0 {
            return (self.leave_ring(ue, class), 0);
        }
        if of.deficits[class] <= 0 {
            of.deficits[class] += self.limits.quantum as i16;
            if of.deficits[class] <= 0 {
                return (Turn::Back, 0);
            }
        }
        let octets = loop {
            let (place, takes_turns) = self.choose(ue, class);
            let octets = self.take(ue, place, takes_turns, now);
            if octets != 0 {
                break octets;
            }
            // All of its packets were dropped.
            let of = &self.ues[ue as usize];
            if of.ready() & of.of_class[class] == 0 {
                return (self.leave_ring(ue, class), 0);
            }
        };
        let of = &mut self.ues[ue as usize];
        of.deficits[class] -= octets as i16;
        let ready = of.ready() & of.of_class[class];
        let turn = match of.deficits[class] {
            _ if ready == 0 => self.leave_ring(ue, class),
            1.. => Turn::Front,
            _ => Turn::Back,
        };
        (turn, octets)
    }

    /// A UE leaves a ring. What it sent beyond its turn it has to make up for.
    fn leave_ring(&mut self, ue: u32, class: usize) -> Turn {
        let of = &mut self.ues[ue as usize];
        of.joined &= !(1 << class);
        of.deficits[class] = of.deficits[class].min(0);
        if !of.is_live() {
            self.leave_for_good(ue, class);
        }
        Turn::Leaves
    }

    /// The queue of a class whose turn it is, and whether there are others that it takes turns with. There is one that
    /// is ready.
    #[inline]
    fn choose(&mut self, ue: u32, class: usize) -> (u8, bool) {
        let of = &self.ues[ue as usize];
        let ready = of.ready() & of.of_class[class];
        let first = ready.trailing_zeros() as u8 & 7;
        if ready & (ready - 1) == 0 {
            return (first, false);
        }
        loop {
            let mut rest = ready;
            while rest != 0 {
                let place = rest.trailing_zeros() as u8;
                rest &= rest - 1;
                if self.queues.of[of.line(place)].deficit > 0 {
                    return (place, true);
                }
            }
            // All have had their turns: another round.
            let mut rest = ready;
            while rest != 0 {
                let queue = &mut self.queues.of[of.line(rest.trailing_zeros() as u8)];
                queue.deficit = queue.deficit.saturating_add_unsigned(queue.quantum);
                rest &= rest - 1;
            }
        }
    }

    /// Takes the next packet of a queue that is ready, and charges its shapers. Its octets; 0: the queue is empty.
    #[inline]
    fn take(&mut self, ue: u32, place: u8, takes_turns: bool, now: u64) -> u32 {
        let id = QueueId { ue: UeId(ue), place };
        let line = self.ues[ue as usize].line(place);
        let (taken, is_empty) = match self.queues.of[line].kind {
            Kind::CODEL => self.pop_codel(id, line, now),
            Kind::CLASSIC => self.pop_dual(id, line, now),
            kind if kind.wred_profile().is_some() => self.pop_wred(line, now),
            _ => self.pop_tail_drop(line),
        };
        let of = &mut self.ues[ue as usize];
        if is_empty {
            of.backlog &= !(1 << place);
        }
        let Some((slot, packet, marks_ce)) = taken else {
            return 0;
        };
        let octets = u32::from(packet.octets);
        let queue = &mut self.queues.of[line];
        if takes_turns {
            queue.deficit -= octets as i32;
        }
        if is_empty {
            queue.deficit = queue.deficit.min(0);
        }
        queue.sojourn = packet.waited(now);
        let (is_shaped, class) = (queue.shaper != 0, queue.class());
        let is_exempt = of.exempt >> place & 1 == 1;
        if !is_exempt && of.bucket.is_limited() {
            of.bucket.charge(of.since, now, octets);
            of.since = now;
            self.hold_ue(ue, now);
        }
        if is_shaped {
            self.charge_queue(ue, place, octets, now);
        }
        self.count_departure(class, &packet, marks_ce, now);
        self.taken = Departure {
            slot: Slot(slot),
            queue: id,
            octets: packet.octets,
            marks_ce,
            sojourn: packet.sojourn(now),
        };
        octets
    }

    #[inline]
    fn pop_tail_drop(&mut self, line: usize) -> Popped {
        let queue = &mut self.queues.of[line];
        let taken = queue
            .pop(&mut self.packets)
            .map(|(slot, packet)| (slot, packet, false));
        (taken, queue.packets == 0)
    }

    #[inline]
    fn count_departure(&mut self, class: u8, packet: &Packet, marks_ce: bool, now: u64) {
        self.count_out(class, packet.octets);
        let of = &mut self.classes[usize::from(class)];
        of.departed += 1;
        of.departed_octets += u64::from(packet.octets);
        of.waited += packet.sojourn(now);
        of.marks += u64::from(marks_ce);
    }

    /// A packet takes of its queue's own rates.
    fn charge_queue(&mut self, ue: u32, place: u8, octets: u32, now: u64) {
        let of = self.ues[ue as usize];
        let queue = &self.queues.of[of.line(place)];
        let Some(number) = queue.shaper.checked_sub(1) else {
            return;
        };
        let shaper = &mut self.shapers[number as usize];
        // What left as excess takes nothing of the guaranteed rate (RFC 2698 §3).
        if of.of_class[usize::from(queue.class())] >> place & 1 == 1
            && shaper.guaranteed.conforms(shaper.since, now)
        {
            shaper.guaranteed.charge(shaper.since, now, octets);
        } else {
            shaper.guaranteed.settle(shaper.since, now);
        }
        shaper.maximum.charge(shaper.since, now, octets);
        shaper.since = now;
        if of.backlog >> place & 1 == 1 {
            self.settle_queue(ue, place, now);
            self.join(ue);
        }
    }
}

/// A node leaves a ring of its parent.
fn leave(node: &mut Node, class: usize) -> Turn {
    node.joined &= !(1 << class);
    node.deficits[class] = node.deficits[class].min(0);
    Turn::Leaves
}
