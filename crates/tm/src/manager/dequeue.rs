//! Who sends next: strict priority among classes, turns by octets among equals.

use flow::{Nanos, prefetch};

use super::active::Popped;
use super::{Departure, Manager};
use crate::chunks::Fifo;
use crate::ids::{NodeId, QueueId, Slot, UeId};
use crate::node::{Entry, Node};
use crate::packets::{Descriptor, Room};
use crate::queue::Kind;
use crate::spec::MOST_LEVELS;

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

/// What is done with the first of a ring, and the octets of the packet that was taken of it; 0: none was.
type Taken = (Turn, u32);

impl<R: Room> Manager<R> {
    /// Takes packets of a port that may leave now, as many as `out` holds; returns how many there were.
    #[inline]
    pub fn dequeue(&mut self, port: NodeId, now: Nanos, out: &mut [Departure]) -> usize {
        let now = self.at(now);
        self.wake_due(now);
        let mut count = 0;
        while count < out.len() && self.next(port.0, now, &mut out[count]) {
            count += 1;
        }
        count
    }

    /// Takes the next packet of a port; whether there is one.
    #[inline]
    fn next(&mut self, port: u16, now: u64, out: &mut Departure) -> bool {
        while let Some(node) = self.nodes.get(usize::from(port)).and_then(Option::as_ref) {
            if node.ready == 0 || node.parent.is_some() || !node.bucket.conforms(node.since, now) {
                return false;
            }
            let class = node.ready.trailing_zeros() as usize;
            if self.serve(port, class, now, out) {
                return true;
            }
        }
        false
    }

    /// Takes a packet of this class below a port. False: there is none, and the port's ring is empty.
    fn serve(&mut self, port: u16, class: usize, now: u64, out: &mut Departure) -> bool {
        let class = class & 7;
        // The nodes from the port down to that whose ring is looked at.
        let mut way = [port; MOST_LEVELS];
        let mut level = 0;
        loop {
            let node = way[level % MOST_LEVELS];
            let Some(of) = &mut self.nodes[usize::from(node)] else {
                return false;
            };
            let ring = of.rings[class];
            let Some(first) = self.chunks.front(ring) else {
                of.ready &= !(1 << class);
                if level == 0 {
                    return false;
                }
                leave(of, class);
                level -= 1;
                self.pass_on(way[level % MOST_LEVELS], class, Turn::Leaves, 0, now);
                continue;
            };
            match Entry::from_number(first) {
                Entry::Node(child) => match self.begin_turn(child, class) {
                    Turn::Front => {
                        level += 1;
                        way[level % MOST_LEVELS] = child;
                    }
                    turn => _ = self.pass_on(node, class, turn, 0, now),
                },
                Entry::Ue(ue) => {
                    if !ring.is_short(14) {
                        self.look_ahead(ring, class);
                    }
                    let (mut turn, octets) = self.serve_ue(ue, class, now, out);
                    if octets == 0 {
                        self.pass_on(node, class, turn, 0, now);
                        continue;
                    }
                    for node in way[..=level % MOST_LEVELS].iter().rev() {
                        turn = self.pass_on(*node, class, turn, octets, now);
                    }
                    return true;
                }
                Entry::Shaper(_) => _ = self.pass_on(node, class, Turn::Leaves, 0, now),
            }
        }
    }

    /// Whether it is a node's turn in its parent's ring: in front, if so.
    #[inline(always)]
    fn begin_turn(&mut self, node: u16, class: usize) -> Turn {
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return Turn::Leaves;
        };
        if of.waits != 0 || of.ready >> class & 1 == 0 {
            return leave(of, class);
        }
        if of.deficits[class] <= 0 {
            of.deficits[class] += of.quantum;
            if of.deficits[class] <= 0 {
                return Turn::Back;
            }
        }
        Turn::Front
    }

    /// The first of a node's ring has had its turn, and sent these octets, if any, which the node's rate pays for. The
    /// node's own turn in its parent's ring.
    #[inline(always)]
    fn pass_on(&mut self, node: u16, class: usize, turn: Turn, octets: u32, now: u64) -> Turn {
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return Turn::Leaves;
        };
        match turn {
            Turn::Front => {}
            Turn::Back => self.chunks.rotate(&mut of.rings[class]),
            Turn::Leaves => {
                self.chunks.pop_and_keep(&mut of.rings[class]);
                if of.rings[class].is_empty() {
                    of.ready &= !(1 << class);
                }
            }
        }
        if octets == 0 {
            return Turn::Front;
        }
        let cost = octets + u32::from(of.overhead);
        let may_send = of.bucket.charge(of.since, now, cost);
        of.since = now;
        of.passed += u64::from(cost);
        of.has_refused |= !may_send;
        // A port takes no turns, and needs no wheel: each call looks at it.
        if of.parent.is_none() {
            return Turn::Front;
        }
        if !may_send {
            let due = of.bucket.due(now);
            of.waits = self
                .wheels
                .insert(&mut self.chunks, Entry::Node(node).number(), due, now);
        }
        of.deficits[class] -= octets as i32;
        if of.waits != 0 || of.ready >> class & 1 == 0 {
            return leave(of, class);
        }
        if of.deficits[class] > 0 {
            Turn::Front
        } else {
            Turn::Back
        }
    }

    /// Asks for what the next ones of a ring need. Those of a short one were asked for when they came.
    #[inline(never)]
    fn look_ahead(&self, ring: Fifo, class: usize) {
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
                self.packets.prefetch(queue.head);
            }
        }
    }

    /// The turn of a UE in the ring of a class.
    #[inline(never)]
    fn serve_ue(&mut self, ue: u32, class: usize, now: u64, out: &mut Departure) -> Taken {
        let class = class & 7;
        let of = &mut self.ues[ue as usize];
        let mut ready = of.ready_of(class);
        if ready != 0 && of.deficits[class] <= 0 {
            of.deficits[class] += self.limits.quantum as i16;
            if of.deficits[class] <= 0 {
                return (Turn::Back, 0);
            }
        }
        while ready != 0 {
            // One alone takes no turns.
            let takes_turns = ready & (ready - 1) != 0;
            let place = match takes_turns {
                true => self.choose(ue, ready),
                false => ready.trailing_zeros() as u8,
            };
            let octets = self.take(ue, place, takes_turns, now, out);
            let of = &mut self.ues[ue as usize];
            ready = of.ready_of(class);
            // Where there are none, all of its packets were dropped.
            if octets != 0 {
                of.deficits[class] -= octets as i16;
                let turn = match of.deficits[class] {
                    _ if ready == 0 => self.leave_ring(ue, class),
                    1.. => Turn::Front,
                    _ => Turn::Back,
                };
                return (turn, octets);
            }
        }
        (self.leave_ring(ue, class), 0)
    }

    /// A UE leaves a ring, for that of the next class that it is ready for, if there is one. What it sent beyond its
    /// turn it has to make up for.
    fn leave_ring(&mut self, ue: u32, class: usize) -> Turn {
        self.part(ue, class);
        let of = &mut self.ues[ue as usize];
        of.deficits[class] = of.deficits[class].min(0);
        if of.ready() != 0 {
            self.join(ue);
        } else if !of.is_live() {
            self.leave_for_good(ue, class);
        }
        Turn::Leaves
    }

    /// The queue whose turn it is of several that are ready.
    fn choose(&mut self, ue: u32, ready: u8) -> u8 {
        let of = &self.ues[ue as usize];
        loop {
            let mut rest = ready;
            while rest != 0 {
                let place = rest.trailing_zeros() as u8;
                rest &= rest - 1;
                if self.queues.of[of.line(place)].deficit > 0 {
                    return place;
                }
            }
            // All have had their turns: another round.
            let mut rest = ready;
            while rest != 0 {
                let queue = &mut self.queues.of[of.line(rest.trailing_zeros() as u8)];
                let quantum = u32::from(queue.weight) * u32::from(self.limits.quantum);
                queue.deficit = queue.deficit.saturating_add_unsigned(quantum);
                rest &= rest - 1;
            }
        }
    }

    /// Takes the next packet of a queue that is ready, and charges its shapers. Its octets; 0: the queue is empty.
    #[inline]
    fn take(&mut self, ue: u32, place: u8, takes_turns: bool, now: u64, out: &mut Departure) -> u32 {
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
            let may_send = of.bucket.charge(of.since, now, octets);
            of.since = now;
            if !may_send && of.shaped() != 0 {
                let due = of.bucket.due(now);
                of.waits = self
                    .wheels
                    .insert(&mut self.chunks, Entry::Ue(ue).number(), due, now);
            }
        }
        if is_shaped {
            self.charge_queue(ue, place, octets, now);
        }
        self.count_departure(class, &packet, marks_ce, now);
        *out = Departure {
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
    fn count_departure(&mut self, class: u8, packet: &Descriptor, marks_ce: bool, now: u64) {
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
