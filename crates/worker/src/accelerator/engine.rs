//! The engine: one poll of it, and what enters and leaves beside the stages that a burst passes.

mod origin;
mod stages;
mod state;

use flow::{Nanos, PortId, SessionIndex, Tick};
use offload::exception::Reason;
use packet::{DropReason, PacketBuf};
use rules::classifier::Key;

use self::origin::Origin;
pub use self::state::Engine;
pub(super) use self::state::exit;
use crate::accelerator::engine_stats::EngineStats;
use crate::accelerator::exceptions::Exception;
use crate::accelerator::put_error::PutError;
use crate::accelerator::settling::GivenFlow;
use crate::burst::batch::Batch;
use crate::egress::queueing::departures::Exit;
use crate::io::{Io, PacketMetadata};
use crate::lookup::flow_tables::NewEntry;
use crate::lookup::validity::Validity;
use crate::{ChargeId, PollReport};

impl<I: Io> Engine<I> {
    /// Passes what the host has given back through the stages, settles flows that have had their time, and takes one
    /// burst from each port of the network. Ages flows.
    pub fn poll(&mut self, now: Nanos) -> PollReport {
        let (rx, tx) = (self.stats.rx(), self.stats.tx());
        self.pass_reinjected(now);
        while let Some(slot) = self.aside.settling.next_due(now) {
            self.settle(slot, now);
        }
        self.aside.settling.forget_void(now);
        if self.aside.asking.is_on() {
            self.end_waits(now);
        }
        for port in (0..self.ports.io.ports()).map(|port| PortId(port as u16)) {
            if port != self.config.host_port {
                self.take_from(port);
                self.pass(Origin::Network, now);
            }
        }
        self.depart(now);
        let (buckets, now) = (self.config.aging_per_poll, Tick::of(now));
        let mut accounts = self.flow_counts.with(&self.blocks);
        self.stats.aged += self.flows.age(&mut accounts, now, buckets) as u64;
        self.stats.reaped += self.flows.reap(&self.blocks, buckets) as u64;
        self.ports.flush(&mut self.stats);
        PollReport {
            rx: self.stats.rx() - rx,
            tx: self.stats.tx() - tx,
            commands: 0,
            waiting: self.stats.held + (self.aside.exceptions.len() + self.queued()) as u64,
        }
    }

    /// Takes the next exception: urgent ones come first, all others in the order in which they came in.
    pub fn next_exception(&mut self) -> Option<Exception<I::Buf>> {
        self.aside.exceptions.pop()
    }

    /// Sends a packet of the host by a port or LAG, as it is, behind what has passed before.
    pub fn send(&mut self, port: PortId, packet: I::Buf, now: Nanos) {
        self.pass_reinjected(now);
        self.stats.from_host += 1;
        let port = self.ports.lags.way(port, &packet);
        if self.aside.is_full_before(port) {
            return self.ports.drop(&mut self.stats, packet, DropReason::TxFull);
        }
        let packet = match self.aside.stand_behind(port, packet) {
            Some(packet) => packet,
            None => return,
        };
        self.ports
            .tx
            .send(&mut self.ports.io, &mut self.stats, port, packet);
    }

    /// Takes a packet back that was an exception, with the ingress that it had, and is to pass by the flow that the
    /// host has given. It goes through the stages with others, in order, at the next poll at the latest; if it finds no
    /// flow it is an exception again, with these `hops`.
    pub fn reinject(&mut self, mut packet: I::Buf, hops: u8, now: Nanos) {
        // Nothing else is there before the packet is queued to be sent.
        packet.set_charge(ChargeId(hops.into()));
        if let Err(packet) = self.reinjected.push(packet) {
            self.pass_reinjected(now);
            let _ = self.reinjected.push(packet);
        }
    }

    /// Takes frames of the port towards the host, as many as `out` has room for.
    pub fn host_rx(&mut self, out: &mut Batch<I::Buf>) {
        let before = out.len();
        self.ports.io.rx(self.config.host_port, out);
        for frame in &out[before..] {
            self.host.rx.add(frame.len());
        }
    }

    /// Sends frames by the port towards the host. The last ones, if they found no room, stay in `out`, in order.
    pub fn host_tx(&mut self, out: &mut Batch<I::Buf>) {
        let octets = |out: &Batch<I::Buf>| out.iter().map(|frame| frame.len() as u64).sum::<u64>();
        let (frames, length) = (out.len() as u64, octets(out));
        self.ports.io.tx(self.config.host_port, out);
        self.host.tx.packets += frames - out.len() as u64;
        self.host.tx.octets += length - octets(out);
    }

    /// An empty buffer with headroom, for a frame to the host. `None` when the pool is empty.
    pub fn alloc(&mut self) -> Option<I::Buf> {
        self.ports.io.alloc()
    }

    /// Its packet I/O.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.ports.io
    }

    /// What it has counted, and holds.
    pub fn stats(&self) -> EngineStats<'_> {
        EngineStats {
            path: &self.stats,
            exceptions: self.aside.exceptions.counts(),
            exceptions_lost: self.aside.exceptions.lost(),
            exceptions_waiting: self.aside.exceptions.len(),
            host: self.host,
            settling: self.aside.settling.stats(),
            asking: self.aside.asking.stats(),
            queued: self.queued(),
            flows: self.flows.len(),
            dead_flows: self.flows.dead(),
        }
    }

    /// The next session with counters that have reached a watermark or a limit since it was last given: which, say
    /// [`flow::SessionBlock::reached`] of its block, whose bounds the caller sets anew.
    pub fn next_reached(&mut self) -> Option<SessionIndex> {
        while self.unheard.pop().is_ok() {}
        self.events.next_reached()
    }

    /// The next session that has counted as much as [`look_every`](flow::Blocks::look_every) says since it was last
    /// given.
    pub fn next_due(&mut self) -> Option<SessionIndex> {
        self.events.next_due()
    }

    /// Sends the packets whose turn it is.
    pub(super) fn depart(&mut self, now: Nanos) {
        let Some(queues) = &mut self.aside.queues else {
            return;
        };
        queues.queueing.depart(&mut exit!(self), now);
        self.drop_lost_in_queues();
        self.recirculate_departed(now);
    }

    pub(super) fn recirculate_departed(&mut self, now: Nanos) {
        if self.ports.tx.has_recirculated() {
            self.ports.tx.take_recirculated(&mut self.burst.packets);
            self.pass(Origin::Network, now);
        }
    }

    /// Passes what the host has given back through the stages.
    pub(super) fn pass_reinjected(&mut self, now: Nanos) {
        if !self.reinjected.is_empty() {
            self.stats.inbox += self.reinjected.len() as u64;
            std::mem::swap(&mut self.reinjected, &mut self.burst.packets);
            self.pass(Origin::Host, now);
        }
    }

    /// Writes a flow into the table.
    pub(super) fn write(&mut self, given: &GivenFlow, now: Nanos) -> Result<(), PutError> {
        let verdict = given.entry.verdict;
        if !self
            .blocks
            .is_live(verdict.block, verdict.generation, verdict.direction())
        {
            return Err(PutError::NoBlock);
        }
        let entry = NewEntry {
            idle: given.entry.idle,
            session: given.session,
            validity: Validity::default(),
        };
        let mut accounts = self.flow_counts.with(&self.blocks);
        let flow = (&given.key, verdict);
        let is_in = self
            .flows
            .put(&self.blocks, flow, entry, &mut accounts, Tick::of(now));
        if is_in {
            self.aside.asking.release(&given.key, given.fields());
        }
        is_in.then_some(()).ok_or(PutError::Full)
    }

    /// Moves the flow in a slot into the table, and passes what was held behind it. Without room in the table its
    /// marker is void; without its session block it is of no use.
    pub(super) fn settle(&mut self, slot: u32, now: Nanos) {
        let Some(given) = self.aside.settling.given(slot) else {
            return;
        };
        match self.write(&given, now) {
            Ok(()) => {
                self.pass_released(now);
                self.release(slot, now);
            }
            Err(PutError::Full) => {
                self.aside.settling.make_void(slot, now);
                self.aside.except_held(slot, &mut self.stats);
                self.drop_rejected();
            }
            Err(_) => self.give_up(slot),
        }
    }

    /// A flow is in the table: passes what was held of it.
    pub(super) fn release(&mut self, slot: u32, now: Nanos) {
        let mut held = self.aside.settling.take(slot);
        while !held.is_empty() {
            while !self.burst.packets.is_full()
                && let Some(packet) = self.aside.settling.pop(&mut held)
            {
                self.stats.held -= 1;
                let _ = self.burst.packets.push(packet);
            }
            self.pass(Origin::Network, now);
        }
    }

    /// What was kept too long goes to the host.
    pub(super) fn end_waits(&mut self, now: Nanos) {
        self.pass_released(now);
        while let Some(slot) = self.aside.asking.next_due(now) {
            self.except_asking(slot, now);
        }
    }

    /// What is kept in a slot goes to the host whole.
    pub(super) fn except_asking(&mut self, slot: u32, now: Nanos) {
        self.aside.except_asking(slot, &mut self.stats, now);
        self.drop_rejected();
    }

    /// Passes what was kept and has its flow by now.
    pub(super) fn pass_released(&mut self, now: Nanos) {
        while self.aside.asking.has_released() {
            while !self.burst.packets.is_full()
                && let Some(packet) = self.aside.asking.pop_released()
            {
                self.stats.held -= 1;
                let _ = self.burst.packets.push(packet);
            }
            self.pass(Origin::Answered, now);
        }
    }

    /// No flow settles any more: the host that has given them knows nothing of them. What was held goes to the host of
    /// now, before packets that arrive later.
    pub(super) fn give_up_settling(&mut self) {
        while let Some(slot) = self.aside.settling.first() {
            self.give_up(slot);
        }
    }

    /// A packet that the host gave back is an exception.
    pub(super) fn take_again(&mut self, packet: I::Buf, flow: &Key, reason: Reason, hops: u8) {
        self.stats.inbox += 1;
        self.aside.asking.note_whole(flow);
        self.stats.handed_over += u64::from(self.aside.exceptions.push(packet, (reason, None), hops));
        self.drop_rejected();
    }
}
