//! Messages of tunnels among packets that wait: an End Marker or a Tunnel Status that comes from another node is to
//! leave behind all that came before it, whatever queues of its session that waits in.
//!
//! It waits in one queue of its session and direction after the other, in each once, behind what is there: what was
//! there before it came has left then. What it passes meanwhile is of later packets. A queue that is empty, or refuses
//! it, has it wait no longer, so a message waits as long as what is before it in each of the queues, one by one, and no
//! longer.

use std::ops::Range;

use flow::Nanos;
use flow::meter::Colour;
use packet::PacketBuf;
use tm::{Arrival, Ecn};

use super::Queueing;
use super::packets::{Room, Waiting};
use crate::io::PacketMetadata;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// Whether a message, the first packet of the rest of a burst, has to wait in another queue, or leaves behind
    /// packets further back in the burst: those of other queues that have waited longer than it has in its last one.
    #[cold]
    pub(super) fn has_to_wait_on(&mut self, message: &Waiting<B>, rest: Range<usize>, now: Nanos) -> bool {
        if self.next_of_message(message, now).is_some() {
            return true;
        }
        let Some((own, behind)) = self.departures[rest].split_first() else {
            return false;
        };
        let manager = &mut self.manager;
        let mut others = behind
            .iter()
            .filter(|other| other.queue != own.queue && other.sojourn >= own.sojourn);
        others.any(|other| {
            let other = manager.room(other.slot).and_then(Room::get_mut);
            other.is_some_and(|other| {
                other.session == message.session && other.charge.direction() == message.charge.direction()
            })
        })
    }

    /// The next queue that a message has to wait in: its place, and whether it is the low latency one there.
    fn next_of_message(&self, message: &Waiting<B>, now: Nanos) -> Option<(u8, bool)> {
        let line = self.queues_of(message.session, message.charge.direction())?;
        let queues = (0..line.len() as u8).flat_map(|place| [(place, false), (place, true)]);
        let mut others =
            queues.filter(|(place, is_low_latency)| !message.waited_in.has(*place, *is_low_latency));
        others.find(|(place, is_low_latency)| {
            let view = self.manager.queue(line.at(usize::from(*place)), now);
            let packets = view.map_or(0, |view| match is_low_latency {
                true => view.low_latency,
                false => view.packets - view.low_latency,
            });
            packets > 0
        })
    }

    /// Puts a message into the next queue that it has to wait in. Gives it back, if there is none.
    pub(super) fn wait_on(&mut self, mut message: Waiting<B>, now: Nanos) -> Option<Waiting<B>> {
        let line = self.queues_of(message.session, message.charge.direction());
        while let (Some(line), Some((place, is_low_latency))) = (&line, self.next_of_message(&message, now)) {
            message.waited_in.insert(place, is_low_latency);
            let arrival = Arrival {
                queue: line.at(usize::from(place)),
                octets: 1,
                colour: Colour::Green,
                // A queue that has grown marks it and does not drop it.
                ecn: if is_low_latency { Ecn::Ect1 } else { Ecn::Ect0 },
            };
            let queued = self.manager.enqueue(&arrival, now);
            // A packet that gives way may have had the same slot.
            self.note_losses(now);
            if let Ok(slot) = queued {
                if let Some(room) = self.manager.room(slot) {
                    room.put(message);
                }
                return None;
            }
        }
        Some(message)
    }
}
