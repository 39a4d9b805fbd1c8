//! One burst from its source through the stages.

use flow::{Millisecond, Nanos, PortId, Tick, Verdict, cycles};
use packet::{DropReason, PacketBuf};

use super::state::Worker;
use crate::apply_rules::context::ApplyRules;
use crate::apply_rules::egress_context::EgressContext;
use crate::apply_rules::marking::EgressMark;
use crate::apply_rules::mss_clamping::MssClamping;
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Deferral, Descriptor, Fate, Keys, PacketFlags};
use crate::deferred::queues::DeferredSource;
use crate::deferred::unresolved_next_hops::{self, expect_unresolved};
use crate::deferred::{delivery_status, downlink_data_notification};
use crate::egress::duplicate::Copying;
use crate::egress::linearize::linearize_burst;
use crate::egress::tx_queues::Transmission;
use crate::ingress::new_flow_filter;
use crate::ingress::parse::{gather, parse};
use crate::ingress::rx_backlog::Look;
use crate::ingress::worker_selection::select_workers;
use crate::io::{Io, PacketMetadata};
use crate::local::discard_answers::DiscardAnswers;
use crate::local::error_indication;
use crate::local::own_address_packets::OwnAddressPackets;
use crate::local::redirect::Redirection;
use crate::lookup::flow_tables::SoftHits;
use crate::lookup::lookup;
use crate::nat::NatStage;
use crate::slow_path;
use crate::stats::Stage;
use crate::trace::observe::{self, Observed, TraceOrigin};
use crate::trace::report::TraceSource;

/// Where a burst comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Port(PortId),
    /// A port's queue of urgent packets.
    UrgentQueue(PortId),
    /// Packets of the port's backlog that go first.
    Urgent(PortId),
    /// The backlog of a port, in order.
    Backlog(PortId),
    /// Other workers.
    Inbox,
    /// Packets that were deferred.
    Deferred(DeferredSource),
    /// Packets that were sent to an address of our own.
    Recirculated,
}

impl Source {
    fn is_traced_as(self) -> TraceOrigin {
        let (source, is_first) = match self {
            Self::Port(_) | Self::UrgentQueue(_) | Self::Urgent(_) | Self::Backlog(_) => {
                (TraceSource::Port, true)
            }
            Self::Inbox => (TraceSource::Inbox, true),
            Self::Deferred(DeferredSource::Fragments) => (TraceSource::Held, false),
            Self::Deferred(DeferredSource::Reassembled) => (TraceSource::Reassembled, true),
            Self::Deferred(DeferredSource::Buffered | DeferredSource::Restored | DeferredSource::Away) => {
                (TraceSource::Waited, false)
            }
            Self::Recirculated => (TraceSource::Recirculated(0), false),
        };
        TraceOrigin { source, is_first }
    }
}

/// The state that reports about deferred packets need, but for the packets themselves.
macro_rules! deferred_context {
    ($worker:expr, $now:expr) => {
        $crate::deferred::context::Context {
            sessions: &mut $worker.sessions,
            events: &mut $worker.events,
            signals: &mut $worker.signals,
            relays: &mut $worker.apply_rules.relays,
            ports: &mut $worker.ports,
            adjacencies: &$worker.tables.adjacencies,
            stats: &mut $worker.stats,
            now: $now,
        }
    };
}
pub(super) use deferred_context;

impl<I: Io> Worker<I> {
    /// One burst from a port. If that was full there may be more than can be worked on: then urgent packets go first,
    /// and the rest in order. Where the port sorts packets itself, those that are too many stay in its queue.
    #[inline]
    pub(super) fn receive_from(&mut self, port: PortId, now: Nanos) {
        let sorts = self.ports.io.has_urgent_queue(port);
        if sorts && self.backlog.admits_urgent(port) {
            let urgent = self.receive(Source::UrgentQueue(port), now);
            if urgent > 0 {
                self.backlog.note_urgent(port, urgent);
                self.release(now);
            }
        }
        let is_behind =
            self.backlog.has_waiting(port) || (self.slow_path.budget.is_flooded(now) && self.backlog.is_on());
        let received = if is_behind {
            BURST
        } else {
            self.receive(Source::Port(port), now)
        };
        self.backlog.note_burst(port, received == BURST);
        if is_behind || (received == BURST && !sorts && self.backlog.is_on()) {
            self.look_ahead(port, is_behind, now);
        } else if received == 0 {
            self.backlog.note_empty(port);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_ahead(&mut self, port: PortId, is_behind: bool, now: Nanos) {
        let begun = cycles::now();
        let mut clock = begun;
        let tables = (&self.tables.interfaces, &self.ports.lags);
        let (filter, budget) = (&mut self.new_flow_filter, &mut self.slow_path.budget);
        let context = new_flow_filter::Context {
            interfaces: &self.tables.interfaces,
            flows: &self.flows,
            selection: (self.config.workers > 1).then_some((&self.worker_selection, self.config.id)),
            nat: self.nat.as_deref().map(|nat| (nat, now)),
        };
        let mut waits = self.backlog.has_waiting(port);
        let is_flooded = budget.is_flooded(now);
        let refuse = |packets: &[I::Buf]| {
            if !is_flooded {
                return None;
            }
            let filtered = filter.filter(&context, packets, budget.places_ahead(waits));
            waits = true;
            budget.admit_ahead(filtered.admitted);
            if filtered.refused != 0 {
                budget.note_flood(now);
            }
            Some(filtered)
        };
        let io = &mut self.ports.io;
        let look = Look {
            port,
            now,
            is_flooded,
        };
        let ahead = self.backlog.look_ahead(io, &mut self.stats, tables, look, refuse);
        if !ahead.is_emptied {
            self.slow_path.budget.note_behind(now);
        }
        self.end_stage(Stage::Rx, ahead.packets, &mut clock);
        self.slow_path.budget.earn(clock.wrapping_sub(begun), now);
        if self.backlog.has_urgent() {
            self.release(now);
            self.receive(Source::Urgent(port), now);
        }
        if is_flooded {
            while self.backlog.has_another(port, ahead.is_emptied) {
                self.receive_waiting(port, now);
            }
        } else if is_behind {
            self.receive_waiting(port, now);
        }
        self.deferred.count(&mut self.stats);
    }

    /// A burst of a port's packets that wait.
    fn receive_waiting(&mut self, port: PortId, now: Nanos) {
        self.release(now);
        let waiting = self.backlog.waiting(port);
        let taken = self.receive(Source::Backlog(port), now);
        self.slow_path.budget.take_ahead(taken, waiting);
    }

    /// Takes packets that are recirculated, and deferred ones that are ready, before the next burst: that may need
    /// their room. The number of recirculations is bounded
    /// ([`MAX_RECIRCULATIONS`](crate::egress::tx_queues::MAX_RECIRCULATIONS)), and so is this.
    #[inline]
    pub(super) fn release(&mut self, now: Nanos) {
        loop {
            if self.ports.tx.has_recirculated() {
                self.receive(Source::Recirculated, now);
            } else if let Some(queue) = self.deferred.next_ready() {
                self.receive(Source::Deferred(queue), now);
            } else {
                return;
            }
        }
    }

    /// Takes packets of our own that are recirculated.
    #[inline]
    pub(super) fn recirculate(&mut self, now: Nanos) {
        while self.ports.tx.has_recirculated() {
            self.receive(Source::Recirculated, now);
        }
    }

    /// One burst from its source through all stages. Gives how many packets that were.
    pub(super) fn receive(&mut self, source: Source, now: Nanos) -> usize {
        let mut clock = cycles::now();
        self.take(source);
        let packets = self.burst.len();
        if packets == 0 {
            return 0;
        }
        self.count_received(source);
        self.end_stage(Stage::Rx, packets, &mut clock);
        let (begun, hits) = (clock, self.stats.hits);
        let flags = self.parse(source);
        self.end_stage(Stage::Parse, packets, &mut clock);
        self.select_workers(flags, now);
        if let Some(nat) = &mut self.nat {
            let burst = &mut self.burst;
            let descriptors = &mut burst.descriptors[..packets];
            let is_awaited = self.deferred.fragments.is_on();
            nat.admit(&mut burst.packets, descriptors, &mut burst.keys, is_awaited, now);
        }
        self.end_stage(Stage::SelectWorker, packets, &mut clock);
        let soft = self.lookup(now);
        self.end_stage(Stage::Lookup, packets, &mut clock);
        let (asked, hits) = (clock, self.stats.hits - hits);
        let decided = self.decide(source, (hits, soft), flags, now);
        self.end_stage(Stage::Slow, decided, &mut clock);
        self.slow_path.budget.spend(clock.wrapping_sub(asked));
        if let Some(nat) = &mut self.nat {
            let blocks = &mut self.sessions.blocks;
            nat.map(&mut self.burst, blocks, (&mut self.events, &mut self.stats), now);
            nat.treat_unsolicited(&mut self.burst, blocks);
        }
        if self.offload.is_some() {
            self.divert(now);
        }
        if let Some(queueing) = &self.deferred.queueing {
            queueing.look_ahead(
                &self.burst.packets,
                &self.burst.descriptors,
                &self.sessions.blocks,
            );
        }
        let heeds_congestion = !self.ran_congestion.is_empty();
        if heeds_congestion {
            self.read_congestion(now);
        }
        self.apply_rules(flags, now);
        if let Some(nat) = &mut self.nat {
            nat.translate(&mut self.burst, &mut self.sessions.blocks);
        }
        if heeds_congestion {
            self.mark_congestion(now);
        }
        self.end_stage(Stage::ApplyRules, packets, &mut clock);
        self.send(source, now);
        self.end_stage(Stage::Tx, packets, &mut clock);
        self.slow_path.budget.earn(clock.wrapping_sub(begun), now);
        packets
    }

    /// Stage `rx`.
    #[inline]
    fn take(&mut self, source: Source) {
        let burst = &mut self.burst.packets;
        match source {
            Source::Port(port) => self.ports.io.rx(port, burst),
            Source::UrgentQueue(port) => self.ports.io.rx_urgent(port, burst),
            Source::Urgent(_) => self.backlog.take_urgent(burst),
            Source::Backlog(port) => self.backlog.take_waiting(&mut self.stats, port, burst),
            Source::Inbox => self.ports.io.inbox(burst),
            Source::Deferred(queue) => self.deferred.take_ready(queue, burst),
            Source::Recirculated => self.ports.tx.take_recirculated(burst),
        }
        if let Source::Port(port) | Source::Urgent(port) | Source::Backlog(port) = source {
            self.ports.io.complete_checksums(port, burst);
        }
    }

    #[inline]
    fn count_received(&mut self, source: Source) {
        let packets = self.burst.len() as u64;
        match source {
            Source::Port(port) | Source::UrgentQueue(port) => {
                if matches!(source, Source::UrgentQueue(_)) {
                    self.stats.urgent += packets;
                }
                let octets = self.burst.packets.iter().map(|buf| buf.len() as u64).sum();
                self.stats.received(port, packets, octets);
                if !self.ports.lags.is_empty() {
                    self.ports.lags.receive(port, &mut self.burst.packets);
                }
            }
            Source::Inbox => self.stats.inbox += packets,
            Source::Deferred(DeferredSource::Buffered) => self.stats.flushed += packets,
            Source::Deferred(_) | Source::Recirculated | Source::Urgent(_) | Source::Backlog(_) => {}
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.keep(&self.burst.packets);
        }
    }

    /// Counts a stage that ends, and the time since the one before ended.
    #[inline]
    fn end_stage(&mut self, stage: Stage, packets: usize, clock: &mut u64) {
        if !self.config.stage_clock {
            return;
        }
        let now = cycles::now();
        let stats = &mut self.stats.stages[stage as usize];
        stats.calls += u64::from(packets > 0);
        stats.packets += packets as u64;
        stats.ticks += now.wrapping_sub(*clock);
        *clock = now;
    }

    /// Stage `parse`. Gives the flags of all packets.
    #[inline]
    pub(super) fn parse(&mut self, source: Source) -> PacketFlags {
        let (burst, interfaces) = (&mut self.burst, &self.tables.interfaces);
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        // Where there are public addresses, a fragment may have waited at another worker than its session's.
        let is_owned = match source {
            Source::Inbox => true,
            Source::Deferred(DeferredSource::Fragments) => self.nat.is_none(),
            _ => false,
        };
        descriptors
            .iter_mut()
            .for_each(|descriptor| descriptor.reset(is_owned));
        let flags = parse(interfaces, &burst.packets, descriptors, &mut burst.keys);
        if !flags.any(PacketFlags::SCATTERED) {
            return flags;
        }
        flags.and(gather(
            interfaces,
            &mut burst.packets,
            descriptors,
            &mut burst.keys,
        ))
    }

    /// Stage `select_worker`, with packets for our own addresses and the ports of fragments.
    #[inline]
    fn select_workers(&mut self, flags: PacketFlags, now: Nanos) {
        let burst = &mut self.burst;
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        if self.config.workers > 1
            && flags.any(PacketFlags::FRAGMENT)
            && self.deferred.fragments.is_on()
            && let Some(nat) = &self.nat
        {
            // The worker is that of their first one's port.
            let is_public =
                |descriptor: &Descriptor, keys: &Keys, index| nat.is_to_public(descriptor, keys, index);
            let of = (&self.sessions, Some(nat.pools()), &mut self.stats);
            let (packets, keys) = (&burst.packets, &mut burst.keys);
            self.deferred
                .fragments
                .look_at(packets, (descriptors, keys), of, now, is_public);
            nat.hold_fragments(descriptors, keys);
        }
        if self.config.workers > 1 {
            let pools = self.nat.as_deref().map(NatStage::pools);
            let (me, keys) = (self.config.id, &burst.keys);
            select_workers(
                (&self.worker_selection, pools),
                me,
                &burst.packets,
                descriptors,
                keys,
            );
        }
        if descriptors
            .iter()
            .any(|descriptor| descriptor.is_open() && !descriptor.kind.is_user())
        {
            let mut own_packets = OwnAddressPackets {
                interfaces: &self.tables.interfaces,
                events: &mut self.events,
                stats: &mut self.stats,
                limits: &mut self.local,
                now,
            };
            own_packets.handle(&mut burst.packets, descriptors);
        }
        if flags.any(PacketFlags::OUTER_FRAGMENT) && self.config.workers > 1 {
            self.select_workers_of_fragments();
        }
        if flags.any(PacketFlags::FRAGMENT) && self.deferred.fragments.is_on() {
            let burst = &mut self.burst;
            let descriptors = &mut burst.descriptors[..burst.packets.len()];
            let pools = self.nat.as_deref().map(NatStage::pools);
            let of = (&self.sessions, pools, &mut self.stats);
            self.deferred
                .fragments
                .look(&burst.packets, (descriptors, &mut burst.keys), of, now);
        }
    }

    /// Fragments of one GTP-U packet are reassembled by one worker, whichever session they are for.
    #[cold]
    fn select_workers_of_fragments(&mut self) {
        let burst = &mut self.burst;
        for (packet, descriptor) in burst.packets.iter().zip(&mut burst.descriptors) {
            if descriptor.fate == Fate::Defer(Deferral::Reassembly)
                && !descriptor.from_inbox
                && let Some(owner) = self.deferred.reassembly.owner(packet, self.config.workers)
                && owner != self.config.id
            {
                descriptor.fate = Fate::HandOver(owner);
            }
        }
    }

    /// Stage `lookup`.
    #[inline]
    pub(super) fn lookup(&mut self, now: Nanos) -> SoftHits {
        let burst = &mut self.burst;
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        let soft = lookup(
            &mut self.flows,
            &mut self.sessions.blocks,
            &mut self.stats,
            descriptors,
            &burst.keys,
            Tick::of(now),
        );
        if let Some(tracer) = &mut self.tracer {
            observe::note_lookup(tracer, descriptors, soft.all());
        }
        soft
    }

    /// Stage `slow`. Gives how many packets were decided.
    #[inline]
    pub(super) fn decide(
        &mut self,
        source: Source,
        (hits, soft): (u64, SoftHits),
        flags: PacketFlags,
        now: Nanos,
    ) -> usize {
        let packets = self.burst.packets.len();
        let descriptors = &mut self.burst.descriptors[..packets];
        let may_be_own = matches!(source, Source::Recirculated | Source::Deferred(_) | Source::Inbox);
        let own = match may_be_own && self.access.has_rules() {
            true => own_messages(&self.burst.packets, descriptors),
            false => 0,
        };
        let mut tables = slow_path::Tables {
            sessions: &mut self.sessions,
            flows: &mut self.flows,
            stats: &mut self.stats,
            access: &mut self.access,
        };
        let mut burst = slow_path::Burst {
            packets: &self.burst.packets,
            descriptors,
            keys: &self.burst.keys,
            soft: soft.outdated,
            looked_into: 0,
            own,
        };
        if soft.provisional != 0 {
            slow_path::note_payloads(&mut burst, soft.provisional);
        }
        if flags.any(PacketFlags::OPENING) {
            self.slow_path.note_openings(&mut burst);
        }
        let decided = self.slow_path.decide(&mut tables, &mut burst, hits, now);
        if flags.any(PacketFlags::CLOSING) {
            let tables = (&self.sessions, &mut self.flows);
            let (descriptors, keys) = (self.burst.descriptors(), &self.burst.keys);
            self.slow_path
                .close(tables, &mut self.stats, descriptors, keys, now);
        }
        decided
    }

    /// What packets say of congestion in the RAN, as they were received.
    #[cold]
    fn read_congestion(&mut self, now: Nanos) {
        let burst = &mut self.burst;
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        let (sessions, stats) = (&self.sessions, &mut self.stats);
        self.ran_congestion
            .read_reports(&burst.packets, descriptors, sessions, stats, now);
    }

    /// Marks packets that leave, by what was said of congestion in the RAN.
    #[cold]
    fn mark_congestion(&mut self, now: Nanos) {
        let burst = &mut self.burst;
        let descriptors = &burst.descriptors[..burst.packets.len()];
        let blocks = &self.sessions.blocks;
        burst.outcome.congested =
            self.ran_congestion
                .mark(&mut burst.packets, descriptors, blocks, &mut self.stats, now);
    }

    /// Stage `apply_rules`, with what follows for packets that wait, are redirected, or open TCP connections.
    #[inline]
    fn apply_rules(&mut self, flags: PacketFlags, now: Nanos) {
        let burst = &mut self.burst;
        (burst.outcome.yellow, burst.outcome.congested) = (0, 0);
        let (blocks, images) = self.sessions.split();
        let state = &mut self.apply_rules;
        let mut stage = ApplyRules {
            egress: EgressContext {
                tables: &self.tables,
                events: &mut self.events,
                stats: &mut self.stats,
                access: &mut self.access,
                now,
                millisecond: Millisecond::of(now),
                outcome: &mut burst.outcome,
                fragmenter: &mut self.fragmenter,
            },
            blocks,
            images,
            chain: &mut state.chain,
            plans: &mut state.plans,
            shared: &mut state.shared,
            mark: EgressMark::default(),
            relays: &mut state.relays,
            checksum_offload: self.tracer.is_none().then_some(&state.checksum_offload),
        };
        let packets = burst.packets.len();
        if stage.apply(&mut burst.packets, &mut burst.descriptors[..packets], &burst.keys) {
            self.after_act(now);
        }
        if flags.any(PacketFlags::OPENING) && self.tables.interfaces.clamps {
            let mut clamping = MssClamping {
                tables: &self.tables,
                blocks: &self.sessions.blocks,
                stats: &mut self.stats,
            };
            clamping.clamp_burst(&mut self.burst);
        }
    }

    /// Packets that are buffered, lack a next hop, were discarded by FARs that report it, or are redirected.
    #[cold]
    #[inline(never)]
    fn after_act(&mut self, now: Nanos) {
        let burst = &mut self.burst;
        let buffers = &mut self.deferred.buffers;
        let unsolicited = self.nat.as_deref().map(NatStage::unsolicited);
        let unsolicited = unsolicited.unwrap_or_default();
        unsolicited.stop_paging(burst);
        let mut context = deferred_context!(self, now);
        downlink_data_notification::expect_buffered(&mut context, burst, buffers, unsolicited);
        let mut next_hops = unresolved_next_hops::Context {
            sessions: context.sessions,
            interfaces: &self.tables.interfaces,
            shared_meters: &mut self.apply_rules.shared,
            stats: context.stats,
            now,
        };
        expect_unresolved(&mut next_hops, burst, buffers, unsolicited);
        delivery_status::report_discarded(&mut context, burst, unsolicited);
        let mut redirection = Redirection {
            limit: &mut self.local.redirects,
            secret: self.config.network.redirect_secret(),
            sessions: &mut self.sessions,
            tables: &self.tables,
            events: &mut self.events,
            stats: &mut self.stats,
            access: &mut self.access,
            now,
        };
        redirection.redirect_burst(burst, &mut self.fragmenter);
    }

    /// Stage `tx`, with the messages and copies that packets of the burst cause.
    #[inline]
    fn send(&mut self, source: Source, now: Nanos) {
        self.notify_senders(now);
        let lost = self.stats.dropped(DropReason::TxFull);
        if self.tracer.is_some() {
            self.observe(source, now);
        }
        let burst = &mut self.burst;
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        if !self.ports.lags.is_empty() {
            self.ports
                .lags
                .distribute(&burst.packets, descriptors, &burst.keys);
        }
        if self.fragmenter.any() {
            self.fragmenter.settle(descriptors);
        }
        let blocks = &mut self.sessions.blocks;
        if self.ports.io.bounds_chains() {
            linearize_burst(&mut self.ports.io, blocks, &mut burst.packets, descriptors);
        }
        if let Some(queueing) = &mut self.deferred.queueing {
            queueing.choose(
                &burst.packets,
                descriptors,
                burst.outcome.yellow,
                &mut self.sessions,
            );
        }
        let transmission = Transmission {
            packets: &mut burst.packets,
            descriptors,
            yellow: burst.outcome.yellow,
            blocks: &mut self.sessions.blocks,
            deferred: &mut self.deferred,
            fragmenter: &mut self.fragmenter,
            now,
        };
        self.ports
            .tx
            .transmit(&mut self.ports.io, &mut self.stats, transmission);
        if self.tracer.is_some() {
            self.report(self.stats.dropped(DropReason::TxFull) > lost);
        }
        if self.deferred.queueing.is_some() {
            self.drop_lost_at_egress();
        }
        self.deferred.count(&mut self.stats);
        if self.deferred.buffers.has_refused() {
            let mut context = deferred_context!(self, now);
            delivery_status::report_refused(&mut context, &mut self.deferred.buffers);
        }
        if !self.copies.is_empty() {
            self.copies
                .send(&mut self.ports, &mut self.stats, &mut self.fragmenter);
        }
    }

    /// Makes the messages to senders of discarded packets, and the copies of those that leave.
    #[inline]
    fn notify_senders(&mut self, now: Nanos) {
        let unsolicited = self.nat.as_deref().map(NatStage::unsolicited);
        let mut drops = error_indication::Context {
            unsolicited: unsolicited.unwrap_or_default(),
            limits: &mut self.local.error_indications,
            interfaces: &self.tables.interfaces,
            sessions: &mut self.sessions,
            events: &mut self.events,
            ports: &mut self.ports,
            absent: &mut self.deferred.absent,
            stats: &mut self.stats,
            now,
        };
        drops.after_drops(&mut self.burst);
        if !self.burst.outcome.copied.is_empty() {
            let (blocks, images) = self.sessions.split();
            let mut copying = Copying {
                io: &mut self.ports.io,
                copies: &mut self.copies,
                fragmenter: &mut self.fragmenter,
                blocks,
                images,
                tables: &self.tables,
                stats: &mut self.stats,
            };
            copying.copy_burst(&mut self.burst);
        }
        if !self.burst.outcome.undelivered.is_empty() {
            let mut answers = DiscardAnswers {
                errors: &mut self.local.icmp_errors,
                answers: &mut self.local.denials,
                io: &mut self.ports.io,
                copies: &mut self.copies,
                interfaces: &self.tables.interfaces,
                sessions: &self.sessions,
                stats: &mut self.stats,
                nat: self.nat.as_deref(),
                now,
            };
            answers.answer_senders(&mut self.burst);
        }
    }

    /// Notes what trace requests select of the burst, whose fates are final.
    #[cold]
    #[inline(never)]
    fn observe(&mut self, source: Source, now: Nanos) {
        let observed = Observed {
            worker: self.config.id,
            burst: &self.burst,
            sessions: &self.sessions,
            flows: &self.flows,
            slow_path: &self.slow_path,
            fragmenter: &self.fragmenter,
            path_mtus: &self.tables.path_mtus,
            nat: self.nat.as_deref(),
            offload: self
                .offload
                .as_ref()
                .and_then(|offload| Some((&offload.homes, self.ports.io.accelerator_port()?))),
        };
        if let Some(tracer) = &mut self.tracer {
            observed.note(tracer, source.is_traced_as(), now);
            if let Some(queueing) = &mut self.deferred.queueing {
                queueing.select_reported(tracer.selected());
            }
        }
    }

    /// Reports the packets of the burst, which was sent; of those that wait in queues when they have left them.
    #[cold]
    #[inline(never)]
    fn report(&mut self, has_lost: bool) {
        self.keep_queue_reports();
        if let Some(tracer) = &mut self.tracer {
            let adjacencies = &self.tables.adjacencies;
            observe::finish(tracer, &mut self.ports, adjacencies, &mut self.stats, has_lost);
        }
    }
}

/// The messages of this node to UEs among packets: bit n is index n. They go by no verdict of others.
fn own_messages<B: PacketMetadata>(packets: &[B], descriptors: &mut [Descriptor]) -> u64 {
    let mut own = 0;
    for (index, (packet, descriptor)) in packets.iter().zip(descriptors).enumerate() {
        if packet.ingress().is_own() {
            own |= 1 << (index % BURST);
            descriptor.verdict = Verdict::NONE;
        }
    }
    own
}
