//! The worker: one poll of it.

mod answering;
mod commands;
mod departing;
mod offloading;
mod receive;
mod sorting;
mod state;

use flow::{Nanos, PortId, Tick};
use packet::DropReason;

use self::receive::{Source, deferred_context};
pub use self::state::{Worker, WorkerTables};
use crate::Event;
use crate::burst::batch::BURST;
use crate::deferred::delivery_status;
use crate::io::{Io, PacketMetadata};
use crate::sessions::checkpoints::Outlet;
use crate::sessions::inactivity::Found;

/// Bursts taken from the inbox in one poll.
const INBOX_BURSTS: usize = 4;
/// Sessions with inactivity timers that are looked at in one poll.
const INACTIVITY_TIMERS_PER_POLL: usize = 16;

/// What one poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollReport {
    /// Packets taken from ports, the inbox and the host; of the link with an accelerator also frames of its channels,
    /// and what was passed on to other workers.
    pub rx: u64,
    /// Packets sent by ports.
    pub tx: u64,
    /// Commands applied.
    pub commands: usize,
    /// Packets that have been taken from ports and wait for their turn, when it ended.
    pub waiting: u64,
}

impl PollReport {
    /// Whether the poll found nothing to do, and leaves nothing: what is dropped is neither taken nor sent.
    pub fn is_idle(&self) -> bool {
        self.rx == 0 && self.tx == 0 && self.commands == 0 && self.waiting == 0
    }
}

impl<I: Io> Worker<I> {
    /// Applies waiting commands, then takes what waits in the inbox, bounded, and one burst from each port through all
    /// stages.
    pub fn poll(&mut self, now: Nanos) -> PollReport {
        let (rx, tx) = (self.entered(), self.stats.tx());
        let mut of_link = 0;
        if self.offload.is_some() {
            of_link = self.receive_of_accelerator(now);
            self.work_offload(now);
        }
        let commands = self.apply_commands(now);
        self.release(now);
        self.empty_inbox(now);
        self.drains.answer(&mut self.events, &mut self.stats);
        if self.local.hosts.has_any() {
            self.send_for_host();
        }
        for port in 0..self.ports.io.ports() {
            self.receive_from(PortId(port as u16), now);
            self.release(now);
        }
        let mut answered = 0;
        if self.offload.is_some() {
            answered = self.answer_questions(now);
        }
        if self.deferred.queueing.is_some() {
            self.depart(now);
        }
        self.tidy(now);
        self.report_reached();
        self.make_checkpoints(now);
        if now >= self.contents_due {
            self.report_contents(now);
        }
        if self.tracer.is_some() {
            self.tidy_traces(now);
        }
        self.ports.flush(&mut self.stats);
        if self.offload.is_some() {
            self.ports.io.flush_accelerator(now);
        }
        let rx = self.entered() - rx + answered;
        if rx == 0 && self.stats.backlog == 0 {
            self.slow_path.budget.end_flood();
        }
        PollReport {
            rx: rx + of_link,
            tx: self.stats.tx() - tx,
            commands,
            waiting: self.stats.backlog + self.stats.queued,
        }
    }

    fn entered(&self) -> u64 {
        self.stats.rx() + self.stats.inbox + self.stats.from_host
    }

    /// Sends what the host's own network stack sends: frames as they are.
    #[cold]
    fn send_for_host(&mut self) {
        self.ports.io.take_host(&mut self.burst.packets);
        for buf in self.burst.packets.drain() {
            self.stats.from_host += 1;
            let port = self.ports.lags.way(buf.ingress(), &buf);
            self.ports.tx.send(&mut self.ports.io, &mut self.stats, port, buf);
        }
    }

    /// Packets that were handed over come first and several bursts at a time: each of the other workers can hand over
    /// as much in a poll as a burst from every port.
    fn empty_inbox(&mut self, now: Nanos) {
        for _ in 0..INBOX_BURSTS {
            let before = self.stats.inbox;
            self.receive(Source::Inbox, now);
            self.release(now);
            if self.stats.inbox - before < BURST as u64 {
                return;
            }
        }
    }

    /// Small steps of what is due now and then: aging, inactivity timers, deferred packets that have expired.
    fn tidy(&mut self, now: Nanos) {
        let buckets = self.config.aging_per_poll;
        self.stats.aged += self.flows.age(&mut self.sessions, Tick::of(now), buckets) as u64;
        self.stats.reaped += self.flows.reap(&self.sessions.blocks, buckets) as u64;
        if self.slow_path.inspection.is_on() {
            self.slow_path.inspection.expire(now, &mut self.stats);
        }
        if self.slow_path.inspection.heeds_resolvers() {
            self.slow_path.inspection.age(now);
        }
        if self.slow_path.connections.is_on() {
            self.flows.set_time(now);
            self.slow_path.connections.age(now);
        }
        if let Some(nat) = &mut self.nat {
            nat.tidy(&mut self.events, &mut self.stats, now);
        }
        if !self.sessions.inactivity_timers.is_empty() {
            self.look_for_inactivity(now);
        }
        if self.deferred.fragments.len() > 0 {
            self.deferred.fragments.sweep(&mut self.burst.packets, now);
            self.drop_expired_fragments();
        }
        if self.deferred.reassembly.has_any() {
            self.deferred.reassembly.sweep(&mut self.burst.packets, now);
            self.drop_expired_fragments();
        }
        if self.deferred.buffers.len() > 0 {
            self.deferred.buffers.sweep(now);
            delivery_status::drop_buffered(
                &mut deferred_context!(self, now),
                &mut self.deferred.buffers,
                false,
            );
            self.deferred.count(&mut self.stats);
        }
        if self.deferred.absent.len() > 0 {
            self.give_up_absent(now);
        }
        if self.deferred.away.len() > 0 {
            self.give_up_away(now);
        }
        if self.signals.has_any() {
            self.signals.expire(&mut self.stats, now);
        }
    }

    /// Drops the fragments of the burst that have waited for too long.
    #[cold]
    fn drop_expired_fragments(&mut self) {
        for packet in self.burst.packets.drain() {
            self.ports
                .drop(&mut self.stats, packet, DropReason::FragmentTimeout);
        }
        self.deferred.count(&mut self.stats);
    }

    /// Drops packets whose sessions have been on their way for too long.
    #[cold]
    fn give_up_away(&mut self, now: Nanos) {
        self.deferred.away.sweep(now);
        while let Some(packet) = self.deferred.away.take_expired() {
            self.ports.drop(&mut self.stats, packet, DropReason::Away);
        }
        self.deferred.count(&mut self.stats);
    }

    /// Drops packets whose sessions have not come in time.
    #[cold]
    fn give_up_absent(&mut self, now: Nanos) {
        self.deferred.absent.sweep(now);
        while let Some(packet) = self.deferred.absent.take_expired() {
            self.ports
                .drop(&mut self.stats, packet, DropReason::AbsentSession);
        }
        self.deferred.count(&mut self.stats);
    }

    /// Looks at the counters of the sessions whose turn it is, where that is wanted.
    #[inline]
    fn make_checkpoints(&mut self, now: Nanos) {
        if let Some(checkpoints) = &mut self.checkpoints
            && checkpoints.is_due(&self.events, now)
        {
            let mut outlet = Outlet {
                events: &mut self.events,
                stats: &mut self.stats,
            };
            checkpoints.look(&self.sessions, &mut outlet, now);
        }
    }

    /// Looks at some of the sessions with inactivity timers whose turn it is.
    #[cold]
    fn look_for_inactivity(&mut self, now: Nanos) {
        for _ in 0..INACTIVITY_TIMERS_PER_POLL {
            let Some(session) = self.sessions.inactivity_timers.next(now) else {
                return;
            };
            let counted = self.sessions.activity(session);
            let found = self.sessions.inactivity_timers.look(session, counted, now);
            let event = Event::Inactive { session };
            if found == Found::Inactive && !self.events.push(&mut self.stats, event) {
                self.sessions.inactivity_timers.unreport(session);
            }
        }
    }
}
