//! Packets that leave their queues, and wait for nothing but their port.
//!
//! All packets of a port stand in one line, those that leave in fragments among them, so that none overtakes another. A
//! node gives packets as long as few of its own stand there: a port that takes nothing stops its own queues and no
//! others. What a port does not take for [`GIVEN_UP_AFTER`] is lost.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use flow::{Blocks, Nanos, PortId, SessionIndex};
use packet::{DropReason, PacketBuf};

use super::Queueing;
use super::packets::{Departing, Record};
use crate::burst::batch::{BURST, Batch};
use crate::burst::credit::Charge;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::lags::Lags;
use crate::egress::tx_queues::TxQueues;
use crate::io::{Io, PacketMetadata};
use crate::stats::Stats;
use crate::trace::report::QueueEnd;

/// Bursts of one port that leave in a poll, beside one for each port: as many as may have come in.
const BURSTS: usize = 4;

/// How long a port may take nothing before what stands before it is lost.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(100);

/// Where packets leave, and what is counted.
pub(crate) struct Exit<'a, I: Io> {
    pub io: &'a mut I,
    pub tx: &'a mut TxQueues<I::Buf>,
    pub lags: &'a Lags,
    pub stats: &'a mut Stats,
    pub blocks: &'a mut Blocks,
    pub fragmenter: &'a mut Fragmenter<I::Buf>,
}

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// Sends what may leave now by ports that take it.
    pub fn depart<I: Io<Buf = B>>(&mut self, exit: &mut Exit<'_, I>, now: Nanos) {
        self.send(exit, now);
        for _ in 0..BURSTS + self.outputs.len() {
            if !self.take_turns(exit, now) {
                break;
            }
            self.send(exit, now);
        }
        self.note_losses(now);
    }

    /// Takes a burst of each port's node out of its queues, where few of it wait for the port, and sends what has
    /// nothing before it. Whether there were any.
    fn take_turns<I: Io<Buf = B>>(&mut self, exit: &mut Exit<'_, I>, now: Nanos) -> bool {
        let mut any = false;
        for place in 0..self.nodes.ports.len() {
            let room = BURST.saturating_sub(self.standing[place]);
            let node = self.nodes.ports[place];
            let taken = self.manager.dequeue(node, now, &mut self.departures[..room]);
            any |= taken > 0;
            let mut port = None;
            for index in 0..taken {
                self.depart_one(index..taken, place, &mut port, now);
            }
            if !self.messages.is_empty() {
                self.pass_messages_on(place, now);
            }
            if let Some(port) = port {
                self.send_gathered(port, exit.lags.carrier(port), exit, now);
            }
        }
        any
    }

    /// Moves the first packet of the rest of a burst from its queue into the batch, if that is for its port, or empty,
    /// and nothing stands before the port; else behind what stands there.
    #[inline]
    fn depart_one(&mut self, rest: Range<usize>, place: usize, port: &mut Option<PortId>, now: Nanos) {
        let departure = self.departures[rest.start];
        let Some(mut waiting) = self.take(departure.slot) else {
            return;
        };
        let is_marked = departure.marks_ce;
        self.reports
            .end(departure.slot, QueueEnd::Left { is_marked }, now);
        if waiting.charge.is_of_message() && self.has_to_wait_on(&waiting, rest, now) {
            return self.messages.push(waiting);
        }
        if is_marked {
            waiting.mark();
        }
        let split = match self.splits.is_empty() {
            true => None,
            false => self.splits.remove(&departure.slot.0),
        };
        self.standing[place] += 1;
        if split.is_none() && self.is_next(waiting.port) && port.is_none_or(|port| port == waiting.port) {
            *port = Some(waiting.port);
            self.records.push(Record {
                charge: waiting.charge,
                session: waiting.session,
                node: Some(place as u8),
            });
            let _ = self.batch.push(waiting.packet);
            return;
        }
        let departing = waiting.departing(split);
        self.stand(Departing {
            node: Some(place as u8),
            ..departing
        });
    }

    /// Messages have left a queue below the node at a place: each waits in the next one that has packets, or leaves
    /// behind the burst that it has left its queue in.
    #[cold]
    #[inline(never)]
    fn pass_messages_on(&mut self, place: usize, now: Nanos) {
        let mut messages = std::mem::take(&mut self.messages);
        for message in messages.drain(..) {
            let Some(message) = self.wait_on(message, now) else {
                continue;
            };
            self.standing[place] += 1;
            let departing = message.departing(None);
            self.stand(Departing {
                node: Some(place as u8),
                ..departing
            });
        }
        self.messages = messages;
    }

    /// Puts a packet behind those that stand before its port; those to ourselves have a line of their own.
    pub fn stand(&mut self, departing: Departing<B>) {
        let ourselves = self.outputs.len() - 1;
        let place = match departing.port.recirculations() {
            0 => departing.port.index().min(ourselves),
            _ => ourselves,
        };
        self.outputs[place].queue.push_back(departing);
    }

    /// Whether a packet would be the next one of a port that it has come for.
    #[inline]
    fn is_next(&self, port: PortId) -> bool {
        let ourselves = self.outputs.len() - 1;
        port.recirculations() == 0 && port.index() < ourselves && self.outputs[port.index()].queue.is_empty()
    }

    /// Whether packets stand before a port.
    pub fn has_standing(&self, port: PortId) -> bool {
        let output = self.outputs.get(port.index());
        output.is_some_and(|output| !output.queue.is_empty())
    }

    /// Sends what ports take.
    pub fn send<I: Io<Buf = B>>(&mut self, exit: &mut Exit<'_, I>, now: Nanos) {
        let ourselves = self.outputs.len() - 1;
        for place in 0..ourselves {
            if !self.outputs[place].queue.is_empty() {
                self.send_by(PortId(place as u16), exit, now);
            }
        }
        while exit.tx.has_room_to_recirculate()
            && let Some(departing) = self.next_of(ourselves)
        {
            self.note_left(departing.session, &departing.charge);
            exit.tx
                .send_departing(exit.io, exit.stats, exit.blocks, departing, exit.fragmenter);
        }
    }

    /// A packet has left, for who keeps what has not.
    #[inline(always)]
    fn note_left(&mut self, session: SessionIndex, charge: &Charge) {
        if let Some(tally) = &mut self.tally {
            tally.take(session, charge);
        }
    }

    pub(super) fn next_of(&mut self, place: usize) -> Option<Departing<B>> {
        let departing = self.outputs[place].queue.pop_front()?;
        if let Some(node) = departing.node {
            self.standing[usize::from(node)] -= 1;
        }
        Some(departing)
    }

    /// Sends what stands before a port, as long as it takes any.
    fn send_by<I: Io<Buf = B>>(&mut self, port: PortId, exit: &mut Exit<'_, I>, now: Nanos) {
        let way = exit.lags.carrier(port);
        while !self.outputs[port.index()].queue.is_empty() {
            let queue = &mut self.outputs[port.index()].queue;
            let is_split = gather(queue, &mut self.batch, &mut self.records);
            if !self.send_gathered(port, way, exit, now) {
                return;
            }
            if let Some(departing) = is_split.then(|| self.next_of(port.index())).flatten() {
                self.note_left(departing.session, &departing.charge);
                let departing = Departing {
                    port: way,
                    ..departing
                };
                exit.tx
                    .send_departing(exit.io, exit.stats, exit.blocks, departing, exit.fragmenter);
            }
        }
    }

    /// Sends the batch, whose packets are for a port and leave by `way`. What that does not take stands before the
    /// port, in front. Whether it took all.
    fn send_gathered<I: Io<Buf = B>>(
        &mut self,
        port: PortId,
        way: PortId,
        exit: &mut Exit<'_, I>,
        now: Nanos,
    ) -> bool {
        let (output, batch) = (&mut self.outputs[port.index()], &mut self.batch);
        let gathered = batch.len();
        let can = exit.tx.send_batch(exit.io, exit.stats, way, batch);
        let left = batch.len();
        for record in self.records.drain(..gathered - left) {
            record.charge.count_group(exit.blocks);
            if let Some(tally) = &mut self.tally {
                tally.take(record.session, &record.charge);
            }
            if let Some(node) = record.node {
                self.standing[usize::from(node)] -= 1;
            }
        }
        put_back(&mut output.queue, batch, &mut self.records, port);
        if gathered > left {
            output.stuck = None;
        }
        let took_all = can && left == 0;
        if !took_all {
            self.note_stuck(port, !can, now);
        }
        took_all
    }

    /// A port has not taken all: what stands before it is lost if that is so for long, or if it is down.
    #[cold]
    fn note_stuck(&mut self, port: PortId, is_down: bool, now: Nanos) {
        let output = &mut self.outputs[port.index()];
        let since = *output.stuck.get_or_insert(now);
        if !is_down && now.since(since) < GIVEN_UP_AFTER {
            return;
        }
        output.stuck = None;
        let reason = match is_down {
            true => DropReason::PortDown,
            false => DropReason::TxFull,
        };
        while let Some(departing) = self.next_of(port.index()) {
            self.lost.push(departing.lost(reason));
        }
    }
}

/// Moves packets from the front of a line into a batch, up to one that leaves in fragments, and notes what else is
/// known of them. Whether there is such a one.
fn gather<B>(queue: &mut VecDeque<Departing<B>>, batch: &mut Batch<B>, records: &mut Vec<Record>) -> bool {
    while !batch.is_full()
        && let Some(front) = queue.pop_front()
    {
        if front.split.is_some() {
            queue.push_front(front);
            return true;
        }
        records.push(Record {
            charge: front.charge,
            session: front.session,
            node: front.node,
        });
        let _ = batch.push(front.packet);
    }
    false
}

/// Those of a batch that were not sent stand in front again.
fn put_back<B>(
    queue: &mut VecDeque<Departing<B>>,
    batch: &mut Batch<B>,
    records: &mut Vec<Record>,
    port: PortId,
) {
    for (record, packet) in records.drain(..).zip(batch.drain()).rev() {
        let Record {
            charge,
            session,
            node,
        } = record;
        queue.push_front(Departing {
            packet,
            charge,
            session,
            port,
            split: None,
            node,
        });
    }
}
