//! What has waited until now: shapers that allow another packet.

use flow::{Nanos, prefetch};

use super::Manager;
use crate::ids::NodeId;
use crate::node::Entry;
use crate::packets::Room;
use crate::wheel::Soon;

/// UEs and queues that are asked for together, so that they come from memory at the same time.
const TOGETHER: usize = 32;

impl<R: Room> Manager<R> {
    /// Puts all that may send again in the rings.
    #[inline]
    pub(super) fn wake_due(&mut self, now: u64) {
        loop {
            let mut due = [0; TOGETHER];
            let mut count = 0;
            while count < TOGETHER {
                let Some(number) = self.wheels.pop(&mut self.chunks, now) else {
                    break;
                };
                match Entry::from_number(number) {
                    Entry::Ue(ue) => prefetch::nth_to_write(&self.ues, ue as usize),
                    Entry::Shaper(shaper) => prefetch::nth_to_write(&self.shapers, shaper as usize),
                    Entry::Node(_) => {}
                }
                due[count] = number;
                count += 1;
            }
            for number in &due[..count] {
                self.wake(Entry::from_number(*number), now);
            }
            for number in &due[..count] {
                if let Entry::Ue(ue) = Entry::from_number(*number) {
                    self.prefetch_first(ue);
                }
            }
            if count < TOGETHER {
                return self.foresee(now);
            }
        }
    }

    /// Asks for the first packet of a UE.
    #[inline(always)]
    fn prefetch_first(&self, ue: u32) {
        let of = &self.ues[ue as usize];
        if let Some(queue) = self.queues.of.get(of.line(of.ready().trailing_zeros() as u8 & 7)) {
            self.packets.prefetch(queue.head);
        }
    }

    /// Asks for what will wait no longer at the next calls, so that it comes from memory while the caller does
    /// something else.
    #[inline]
    fn foresee(&mut self, now: u64) {
        let (ues, queues, shapers) = (&self.ues, &self.queues.of, &self.shapers);
        self.wheels.look_ahead(&self.chunks, now, |soon, number| {
            match Entry::from_number(number) {
                Entry::Ue(ue) if soon == Soon::Later => prefetch::nth_to_write(ues, ue as usize),
                Entry::Ue(ue) => {
                    let of = &ues[ue as usize];
                    let place = of.backlog.trailing_zeros() as u8 & 7;
                    prefetch::nth_to_write(queues, of.line(place));
                }
                Entry::Shaper(shaper) => prefetch::nth_to_write(shapers, shaper as usize),
                Entry::Node(_) => {}
            }
        });
    }

    /// What waited for its time.
    fn wake(&mut self, entry: Entry, now: u64) {
        match entry {
            Entry::Ue(ue) => self.wake_ue(ue, now),
            Entry::Shaper(shaper) => {
                let of = &mut self.shapers[shaper as usize];
                let (ue, place) = (of.ue, of.place);
                of.waits = 0;
                self.wake_queue(ue, place, now);
            }
            Entry::Node(node) => self.wake_node(node, now),
        }
    }

    #[inline]
    pub(super) fn wake_ue(&mut self, ue: u32, now: u64) {
        self.ues[ue as usize].waits = 0;
        self.hold_ue(ue, now);
        self.join(ue);
        let of = &self.ues[ue as usize];
        prefetch::nth_to_write(&self.queues.of, of.line(of.ready().trailing_zeros() as u8 & 7));
    }

    pub(super) fn wake_queue(&mut self, ue: u32, place: u8, now: u64) {
        let of = &mut self.ues[ue as usize];
        if of.backlog >> place & 1 == 1 {
            self.settle_queue(ue, place, now);
            self.join(ue);
        } else {
            of.held &= !(1 << place);
        }
    }

    pub(super) fn wake_node(&mut self, node: u16, now: u64) {
        let Some(of) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        of.waits = 0;
        if of.bucket.conforms(of.since, now) {
            self.rise(node);
        } else {
            let due = of.bucket.due(of.since);
            of.waits = self
                .wheels
                .insert(&mut self.chunks, Entry::Node(node).number(), due, now);
        }
    }

    /// Whether a packet of a port may be able to leave at once.
    pub fn is_ready(&self, port: NodeId) -> bool {
        let node = self.nodes.get(usize::from(port.0)).and_then(Option::as_ref);
        node.is_some_and(|of| of.ready != 0 && of.bucket.conforms(of.since, self.now))
    }

    /// When [`dequeue`](Self::dequeue) should be called again for the ports of which none [is ready](Self::is_ready):
    /// [`Nanos::MAX`] if nothing waits. It may turn out that nothing can leave then.
    pub fn next_due(&self) -> Nanos {
        let nodes = self
            .ports
            .iter()
            .filter_map(|port| self.nodes[usize::from(*port)].as_ref());
        let ports = nodes.filter(|of| of.ready != 0).map(|of| of.bucket.due(of.since));
        let due = ports.chain(self.wheels.due()).min();
        due.map_or(Nanos::MAX, Nanos)
    }
}
