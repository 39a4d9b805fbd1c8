//! The port: downlink packets of all queues in turn, in an order that was drawn once, on the worker's own core.

use std::collections::VecDeque;
use std::sync::Arc;

use flow::{Direction, PortId, WorkerId, cycles};
use worker::{Batch, Io};

use super::super::super::feed::Buf;
use super::super::super::frame::{HEADERS, LINK, MeanFrames, Template};
use super::super::super::load::{Counts, WINDOW};
use super::super::super::model::Flow;
use super::super::super::network::{N3_PORT, N6_PORT, Wire};
use super::super::super::rules::Identity;
use super::super::load::shuffle;

/// How the benchmark is wired: frames without VLANs.
pub const WIRE: Wire = Wire::Plain;
/// QoS flows of a session, each with a queue.
pub const BEARERS: u32 = 2;
/// The length of user packets.
pub const OCTETS: u16 = 1_024;

/// The frames that the port gives.
#[must_use]
pub fn frames() -> MeanFrames {
    let template = template();
    let octets = usize::from(template.size()) - template.start();
    MeanFrames::of([0, 1], [0, octets as u64])
}

fn template() -> Template {
    Template::on(WIRE, Direction::Downlink, LINK as u16 + OCTETS)
}

/// The port of the data network gives packets, that of gNBs takes them.
pub struct Port {
    identities: Arc<[Identity]>,
    template: Template,
    /// Numbers of queues, in the order of their packets.
    order: Vec<u32>,
    next: usize,
    /// Buffers that are free: those that were freed last are taken first, as from a mempool's cache.
    free: Vec<Buf>,
    /// Frames made ahead.
    window: VecDeque<Buf>,
    /// Packets that are still to be given.
    left: u64,
    counts: Counts,
    /// Octets of user packets that left, by session, while they are counted.
    octets: Option<Box<[u64]>>,
}

impl Port {
    /// A port for sessions with these identities that receives nothing yet.
    pub fn new(identities: Arc<[Identity]>) -> Self {
        let mut order: Vec<u32> = (0..identities.len() as u32 * BEARERS).collect();
        shuffle(&mut order);
        Self {
            identities,
            template: template(),
            order,
            next: 0,
            free: Vec::new(),
            window: VecDeque::with_capacity(WINDOW),
            left: 0,
            counts: Counts::default(),
            octets: None,
        }
    }

    /// Gives as many packets from now on, and no more.
    pub const fn give(&mut self, packets: u64) {
        self.left = packets;
    }

    /// What it did so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts the octets that leave, by session, from now on.
    pub fn count_octets(&mut self) {
        self.octets = Some(vec![0; self.identities.len()].into());
    }

    /// The octets that left by session since then. They are counted no more.
    pub fn take_octets(&mut self) -> Box<[u64]> {
        self.octets.take().unwrap_or_default()
    }

    fn refill(&mut self) {
        let before = cycles::now();
        while self.window.len() < WINDOW {
            let number = self.order[self.next];
            self.next = (self.next + 1) % self.order.len();
            let mut buf = self.free.pop().unwrap_or_else(Buf::new);
            self.make(&mut buf, number);
            self.window.push_back(buf);
        }
        self.counts.port_ticks += cycles::now().wrapping_sub(before);
    }

    /// A packet of the queue with this number.
    #[inline]
    fn make(&self, buf: &mut Buf, number: u32) {
        let (session, bearer) = (number / BEARERS, (number % BEARERS) as u8);
        let Some(identity) = self.identities.get(session as usize) else {
            return;
        };
        let flow = Flow {
            session,
            bearer,
            pair: 0,
            direction: Direction::Downlink,
        };
        let mut frame = [0; HEADERS];
        self.template.write(&mut frame, &flow, session, *identity);
        let start = self.template.start();
        let octets = usize::from(self.template.size()) - start;
        buf.fill(N6_PORT, &frame[start..], octets);
        buf.set_mark(session.into());
    }
}

impl Io for Port {
    type Buf = Buf;

    fn ports(&self) -> usize {
        2
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        if port != N6_PORT {
            return;
        }
        let wanted = (out.room() as u64).min(self.left);
        if (self.window.len() as u64) < wanted {
            self.refill();
        }
        for buf in self.window.drain(..wanted as usize) {
            let _ = out.push(buf);
        }
        self.left -= wanted;
        self.counts.given += wanted;
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        for buf in out.drain() {
            if let Some(octets) = &mut self.octets
                && let Some(octets) = octets.get_mut(buf.mark() as usize)
            {
                *octets += u64::from(OCTETS);
            }
            self.counts.sent[usize::from(port != N3_PORT)] += 1;
            self.free.push(buf);
        }
    }

    fn alloc(&mut self) -> Option<Buf> {
        let mut buf = self.free.pop()?;
        buf.renew();
        Some(buf)
    }

    fn hand_over(&mut self, _to: WorkerId, _out: &mut Batch<Buf>) {}

    fn inbox_len(&self) -> usize {
        0
    }

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        for buf in out.drain() {
            self.counts.freed[0] += 1;
            self.free.push(buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use packet::PacketBuf;

    use super::super::super::super::settings::WorkerOf;
    use super::super::super::super::world::identities;
    use super::*;

    #[test]
    fn the_frames_that_are_said_are_those_that_come() {
        let mut port = Port::new(identities(8, WorkerOf { id: 0, workers: 1 }).unwrap());
        port.give(16);
        let mut batch = Batch::new();
        port.rx(N6_PORT, &mut batch);
        let [uplink, downlink] = frames().octets;
        assert_eq!((batch.len(), uplink, frames().uplink_share), (16, 0.0, 0.0));
        assert!(batch.iter().all(|buf| buf.len() as f64 == downlink));
        assert_eq!(downlink, f64::from(OCTETS) + 14.0);
    }
}
