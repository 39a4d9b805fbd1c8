//! Messages of tunnels among packets that wait: an End Marker or a Tunnel Status that comes from another node is to
//! leave behind all that came before it, whatever queues of its session that waits in.
//!
//! It waits in one queue of its session and direction after the other, in each once, behind what is there: what was
//! there before it came has left then. What it passes meanwhile is of later packets. A queue that is empty, or refuses
//! it, has it wait no longer, so a message waits as long as what is before it in each of the queues, one by one, and no
//! longer.

use flow::Nanos;
use flow::meter::Colour;
use packet::PacketBuf;
use tm::{Arrival, Ecn};

use super::Queueing;
use super::packets::Waiting;
use crate::io::PacketMetadata;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// The next queue that a message has to wait in: its place, and whether it is the low latency one there.
    fn next_of_message(&self, message: &Waiting<B>, now: Nanos) -> Option<(u8, bool)> {
        let line = self.line(message.session, message.charge.direction())?;
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
        let line = self.line(message.session, message.charge.direction());
        while let (Some(line), Some((place, is_low_latency))) = (line, self.next_of_message(&message, now)) {
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
                self.waiting[slot.index()].put(message);
                return None;
            }
        }
        Some(message)
    }
}
