//! The worker: its state, and one poll of it.

mod control;
mod copies;
mod inspect;
mod redirect;
mod segments;
mod strangers;
mod tracing;
mod undelivered;
mod waits;

use core::ops::Range;

use flow::memory::OutOfMemory;
use flow::meter::SharedMeters;
use flow::{FlowKey4, Millisecond, Nanos, PortId, SessionIndex, Tick, TokenBucket, cycles};
use packet::rewrite::Rewrite;
use packet::{DropReason, PacketBuf};
use rtrb::Consumer;
use transport::{Adjacencies, Routes};

use self::waits::LateMarkers;
use crate::act::encap::Chain;
use crate::act::{Act, EgressContext, NextHop, Plan, Undelivered};
use crate::burst::batch::{BURST, Batch};
use crate::burst::descriptor::{Descriptor, Fate, Keys, PacketFlags};
use crate::deferred::buffers::Buffers;
use crate::deferred::fragments::Fragments;
use crate::deferred::reassembly::Reassembly;
use crate::egress::checksum_offload::ChecksumOffload;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::lags::Lags;
use crate::egress::linearize::linearize_burst;
use crate::egress::mirror::Copies;
use crate::egress::path_mtus::PathMtus;
use crate::egress::tx_queues::{TxQueues, Waiting};
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::parse::{gather, parse};
use crate::ingress::rx_backlog::RxBacklog;
use crate::ingress::steer::steer;
use crate::ingress::steering::Steering;
use crate::io::{Ingress, Io};
use crate::link::drain::Drains;
use crate::link::event_queue::EventQueue;
use crate::local::echo::{EchoRateLimit, SourceRateLimit};
use crate::local::exception::Exceptions;
use crate::local::host::HostRateLimits;
use crate::lookup::flow_tables::Flows;
use crate::lookup::lookup;
use crate::session_rate_limit::SessionRateLimit;
use crate::sessions::Sessions;
use crate::sessions::inactivity::Found;
use crate::slow_path::{self, SlowPath};
use crate::stats::{Stage, Stats};
use crate::trace::Tracer;
use crate::view::{Holdings, SessionView};
use crate::{Command, Event, Link, WorkerConfig};

/// Bursts taken from the inbox in one poll.
const INBOX_BURSTS: usize = 4;
/// Sessions with inactivity timers that are looked at in one poll.
const INACTIVITY_TIMERS_PER_POLL: usize = 16;

/// One worker: everything that a packet's way needs, owned by one thread.
pub struct Worker<I: Io> {
    config: WorkerConfig,
    io: I,
    commands: Consumer<Command>,
    events: EventQueue,
    drains: Drains,
    interfaces: L3Interfaces,
    hosts: HostRateLimits,
    backlog: RxBacklog<I::Buf>,
    steering: Steering,
    lags: Lags,
    /// By port.
    slow_protocols: Vec<TokenBucket>,
    /// An exception has found no room since the last fence.
    exceptions_lost: bool,
    adjacencies: Adjacencies,
    routes: Routes,
    sessions: Sessions,
    flows: Flows,
    slow: SlowPath,
    fragments: Fragments<I::Buf>,
    reassembly: Reassembly<I::Buf>,
    buffers: Buffers<I::Buf>,
    error_indications: TokenBucket,
    error_indications_from: Nanos,
    notifications: TokenBucket,
    echoes: EchoRateLimit,
    pings: SourceRateLimit,
    redirects: SessionRateLimit,
    icmp_errors: SessionRateLimit,
    relays: SessionRateLimit,
    stats: Stats,
    burst: Batch<I::Buf>,
    descriptors: Vec<Descriptor>,
    keys: Box<Keys>,
    tx: TxQueues<I::Buf>,
    chain: Chain,
    plans: Box<[Plan; BURST]>,
    shared: SharedMeters,
    copies: Copies<I::Buf>,
    /// What packets of this burst lack; empty between bursts.
    missing: Batch<NextHop>,
    undelivered: Batch<Undelivered>,
    fragmenter: Fragmenter<I::Buf>,
    path_mtus: PathMtus,
    /// Packets of this burst that FARs drop which may tell of it; empty between bursts.
    discarded: Batch<u8>,
    /// Packets of the burst that are beyond their guaranteed rates: bit n is place n.
    yellow: u64,
    late_markers: LateMarkers,
    checksum_offload: ChecksumOffload,
    /// Orders to tell of packets, if there are any.
    tracer: Option<Box<Tracer>>,
    /// When content counters are looked at again.
    contents_due: Nanos,
}

/// Where a burst comes from.
#[derive(Clone, Copy)]
enum Source {
    Port(PortId),
    /// It may not wait behind what came in before it.
    Urgent,
    /// It has waited for its turn.
    Backlog(PortId),
    /// Other workers handed it over.
    Inbox,
    /// It was put together from fragments.
    Reassembled,
    /// It has been received, and waited for its first fragment.
    Held,
    /// It has been received, and waited for its FAR.
    Flushed,
    /// It was sent to an address of our own.
    Round,
}

/// What one poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollReport {
    /// Packets taken from ports, the inbox and the host.
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

/// The meters that sessions share, without limits; Control sets them.
fn shared_meters(config: &WorkerConfig) -> SharedMeters {
    let mut shared = SharedMeters::new(config.shared_meters);
    for (id, chain) in config.network.policers().chains() {
        shared.set_chain(id, chain);
    }
    shared
}

impl<I: Io> Worker<I> {
    /// A worker with no sessions. All of its memory is allocated and touched here: a thread that runs on the worker's
    /// core gets it on the NUMA node of that core.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: WorkerConfig, io: I, link: Link) -> Result<Self, OutOfMemory> {
        let exceptions = if config.workers > 1 {
            config.max_exceptions
        } else {
            0
        };
        Ok(Self {
            commands: link.commands,
            events: EventQueue::new(link.events, config.max_sessions),
            drains: Drains::new(),
            interfaces: L3Interfaces::new(&config.network, &config.macs)
                .with_lags(&config.lags, &config.macs)
                .with_host(&config.host, &config.urgent_dscps),
            hosts: HostRateLimits::new(&config.host),
            backlog: RxBacklog::new(io.ports(), config.backlog),
            lags: Lags::new(io.ports(), &config.lags),
            slow_protocols: vec![TokenBucket::new(config.slow_protocols); io.ports()],
            steering: Steering::new(config.workers, exceptions),
            exceptions_lost: false,
            adjacencies: Adjacencies::new(config.max_adjacencies, config.network.groups().len()),
            routes: Routes::new(&config.network),
            sessions: Sessions::new(config.max_sessions, config.own_sessions, config.content_counters)?,
            contents_due: Nanos::ZERO,
            flows: Flows::new(
                (config.max_flows_v4, config.max_flows_v6),
                config.max_extensions,
                config.seed,
            )?,
            slow: SlowPath::new(&config),
            fragments: Fragments::new(config.fragments),
            reassembly: Reassembly::new(config.reassembly, config.seed),
            buffers: Buffers::new(config.buffers),
            error_indications: TokenBucket::new(config.error_indications),
            error_indications_from: config.error_indications_from,
            notifications: TokenBucket::new(config.notifications),
            echoes: EchoRateLimit::new(config.echoes),
            pings: SourceRateLimit::new(config.pings),
            redirects: SessionRateLimit::new(config.redirects),
            icmp_errors: SessionRateLimit::new(config.icmp_errors),
            relays: SessionRateLimit::new(config.relays),
            stats: Stats::new(io.ports()),
            burst: Batch::new(),
            descriptors: vec![Descriptor::NEW; BURST],
            keys: Box::new(Keys::new()),
            tx: TxQueues::new(io.ports(), config.workers.into()).with_lags(&config.lags),
            chain: Chain::new(),
            plans: Box::new([Plan::NONE; BURST]),
            shared: shared_meters(&config),
            copies: Copies::new(),
            missing: Batch::new(),
            undelivered: Batch::new(),
            fragmenter: Fragmenter::new((config.id.0, config.workers)),
            path_mtus: PathMtus::new(),
            discarded: Batch::new(),
            yellow: 0,
            late_markers: LateMarkers::new(),
            checksum_offload: ChecksumOffload::new(&io, &config.lags),
            tracer: None,
            io,
            config,
        })
    }

    /// The addresses of the flow tables and of the session blocks.
    pub fn table_areas(&self) -> Vec<Range<usize>> {
        let mut areas = self.flows.areas();
        areas.extend(self.sessions.blocks.areas());
        areas
    }

    /// Applies waiting commands, then takes what waits in the inbox, bounded, and one burst from each port all the way.
    pub fn poll(&mut self, now: Nanos) -> PollReport {
        let (rx, tx) = (self.entered(), self.stats.tx());
        let commands = self.apply_commands(now);
        self.release(now);
        self.empty_inbox(now);
        self.drains.answer(&mut self.events, &mut self.stats);
        if self.hosts.has_any() {
            self.send_for_host();
        }
        for port in 0..self.io.ports() {
            self.receive_from(PortId(port as u16), now);
            self.release(now);
        }
        self.tidy(now);
        self.tell_reached();
        if now >= self.contents_due {
            self.tell_contents(now);
        }
        if self.tracer.is_some() {
            self.tidy_traces(now);
        }
        self.tx.flush(&mut self.io, &mut self.stats);
        PollReport {
            rx: self.entered() - rx,
            tx: self.stats.tx() - tx,
            commands,
            waiting: self.stats.backlog,
        }
    }

    fn entered(&self) -> u64 {
        self.stats.rx() + self.stats.inbox + self.stats.from_host
    }

    /// What it has counted since its start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How many events it has told control.
    pub fn told(&self) -> u64 {
        self.events.pushed()
    }

    /// Flow entries in its tables.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Sessions that it owns.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The sessions that it owns, for views, in the order of their indexes.
    pub fn session_views(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.iter().map(|slot| SessionView::new(&slot.image))
    }

    /// What it holds now.
    pub fn holdings(&self) -> Holdings {
        let (tunnels, addresses) = self.sessions.keys();
        Holdings {
            sessions: self.sessions.len(),
            blocks: self.sessions.blocks.in_use(),
            tunnels,
            addresses,
            exceptions: self.steering.exceptions(),
            queues: self.buffers.queues(),
            waiting: self.buffers.len() + self.fragments.len() + self.reassembly.len(),
            contents: self.sessions.blocks.contents_in_use(),
            flows: self.flows.len(),
        }
    }

    /// Its packet I/O.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.io
    }

    /// Flow entries that a session has; `None` without such a session.
    pub fn flows_of(&self, session: SessionIndex) -> Option<usize> {
        Some(self.sessions.at(session)?.account.flows as usize)
    }

    /// Adds or replaces the flow entry of `key`, which has the 5-tuple in it: what the entry of `like` says, and then
    /// `rewrite`, made for packets of `key`. It counts among the session's entries and is subject to the same limits.
    /// It lives as long as any entry; a flow that is decided anew is no longer translated. Tells whether it is there
    /// now.
    pub fn translate(&mut self, like: &FlowKey4, key: FlowKey4, rewrite: &Rewrite, now: Nanos) -> bool {
        let mut tables = slow_path::Tables {
            sessions: &mut self.sessions,
            flows: &mut self.flows,
            stats: &mut self.stats,
        };
        self.slow.translate(&mut tables, (like, key), rewrite, now)
    }

    /// Flow entries that are translated.
    pub fn translated_flows(&self) -> usize {
        self.flows.extensions()
    }

    /// Flow entries that no packet can use any more, because their sessions changed or went.
    pub fn dead_flows(&self) -> usize {
        self.flows.dead()
    }

    /// One burst from a port. If that was full there may be more than can be worked on: then what may not wait goes
    /// first, and the rest in turn.
    #[inline]
    fn receive_from(&mut self, port: PortId, now: Nanos) {
        let has_waiting = self.backlog.has_waiting(port);
        if has_waiting || (self.receive(Source::Port(port), now) == BURST && self.backlog.is_on()) {
            self.look_ahead(port, has_waiting, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn look_ahead(&mut self, port: PortId, has_waiting: bool, now: Nanos) {
        let mut clock = cycles::now();
        let packets = self.backlog.look_ahead(
            &mut self.io,
            &mut self.stats,
            (&self.interfaces, &self.lags),
            port,
        );
        self.lap(Stage::Rx, packets, &mut clock);
        if self.backlog.has_urgent() {
            self.release(now);
            self.receive(Source::Urgent, now);
        }
        if has_waiting {
            self.release(now);
            self.receive(Source::Backlog(port), now);
        }
        self.count_waiting();
    }

    /// Sends what the host's own network stack sends: frames as they are.
    #[cold]
    fn send_for_host(&mut self) {
        self.io.take_host(&mut self.burst);
        for buf in self.burst.drain() {
            self.stats.from_host += 1;
            let port = self.lags.way(buf.ingress(), &buf);
            self.tx.send(&mut self.io, &mut self.stats, port, buf);
        }
    }

    /// One burst from where it comes, all the way. Gives how many packets that were.
    fn receive(&mut self, source: Source, now: Nanos) -> usize {
        let mut clock = cycles::now();
        match source {
            Source::Port(port) => self.io.rx(port, &mut self.burst),
            Source::Urgent => self.backlog.take_urgent(&mut self.burst),
            Source::Backlog(port) => self.backlog.take_waiting(&mut self.stats, port, &mut self.burst),
            Source::Inbox => self.io.inbox(&mut self.burst),
            Source::Reassembled => self.reassembly.take_ready(&mut self.burst),
            Source::Held => self.fragments.take_ready(&mut self.burst),
            Source::Flushed => self.buffers.take_flushed(&mut self.burst),
            Source::Round => self.tx.take_recirculated(&mut self.burst),
        }
        let packets = self.burst.len();
        if packets == 0 {
            return 0;
        }
        self.count_received(source);
        if let Source::Port(port) = source
            && !self.lags.is_empty()
        {
            self.lags.receive(port, &mut self.burst);
        }
        let is_traced = self.tracer.is_some();
        if is_traced {
            self.trace_received();
        }
        self.lap(Stage::Rx, packets, &mut clock);
        let (begun, hits) = (clock, self.stats.hits);
        let tick = Tick::of(now);
        let descriptors = &mut self.descriptors[..packets];
        descriptors
            .iter_mut()
            .for_each(|descriptor| descriptor.reset(matches!(source, Source::Inbox | Source::Held)));
        let mut flags = parse(&self.interfaces, &self.burst, descriptors, &mut self.keys);
        if flags.any(PacketFlags::SCATTERED) {
            let more = gather(&self.interfaces, &mut self.burst, descriptors, &mut self.keys);
            flags = flags.and(more);
        }
        self.lap(Stage::Parse, packets, &mut clock);
        self.steer(packets, now);
        if flags.any(PacketFlags::OUTER_FRAGMENT) && self.config.workers > 1 {
            self.steer_fragments(packets);
        }
        if flags.any(PacketFlags::FRAGMENT) && self.fragments.is_on() {
            self.look_at_fragments(packets, now);
        }
        self.lap(Stage::Steer, packets, &mut clock);
        let descriptors = &mut self.descriptors[..packets];
        let soft = lookup(
            &mut self.flows,
            &mut self.sessions.blocks,
            &mut self.stats,
            (descriptors, &self.keys),
            tick,
        );
        if is_traced {
            self.trace_looked_up(packets, soft);
        }
        self.lap(Stage::Lookup, packets, &mut clock);
        let (asked, hits) = (clock, self.stats.hits - hits);
        let decided = self.decide((packets, hits), soft, flags, now);
        self.lap(Stage::Slow, decided, &mut clock);
        self.slow.budget.spend(clock.wrapping_sub(asked));
        if self.act(packets, now) {
            self.expect_buffered(packets, now);
            self.expect_neighbours(packets, now);
            self.tell_of_dropped(now);
            self.redirect_wanted(packets, now);
        }
        if flags.any(PacketFlags::OPENING) && self.interfaces.clamps {
            self.clamp_segments(packets);
        }
        self.lap(Stage::Act, packets, &mut clock);
        self.answer_strangers(packets, now);
        if !self.copies.wanted.is_empty() {
            self.copy_wanted();
        }
        if !self.undelivered.is_empty() {
            self.tell_senders(now);
        }
        let lost = self.stats.dropped(DropReason::TxFull);
        if is_traced {
            self.trace_settled(packets, source, now);
        }
        let descriptors = &mut self.descriptors[..packets];
        if !self.lags.is_empty() {
            self.lags.distribute(&self.burst, descriptors, &self.keys);
        }
        if self.fragmenter.any() {
            self.fragmenter.settle(descriptors);
        }
        let blocks = &mut self.sessions.blocks;
        if self.io.bounds_chains() {
            linearize_burst(&mut self.io, blocks, &mut self.burst, descriptors);
        }
        let descriptors = &*descriptors;
        let waiting = Waiting {
            fragmenter: &mut self.fragmenter,
            fragments: &mut self.fragments,
            reassembly: &mut self.reassembly,
            buffers: &mut self.buffers,
            now,
        };
        self.tx.transmit(
            &mut self.io,
            &mut self.stats,
            blocks,
            &mut self.burst,
            (descriptors, self.yellow),
            waiting,
        );
        if is_traced {
            self.trace_left(self.stats.dropped(DropReason::TxFull) - lost);
        }
        self.count_waiting();
        if self.buffers.has_refused() {
            self.tell_of_refused(now);
        }
        if !self.copies.is_empty() {
            let (io, stats) = (&mut self.io, &mut self.stats);
            let ways = (&self.lags, &mut self.fragmenter);
            self.copies.send(io, stats, &mut self.tx, ways);
        }
        self.lap(Stage::Tx, packets, &mut clock);
        self.slow.budget.earn(clock.wrapping_sub(begun));
        packets
    }

    fn look_at_fragments(&mut self, packets: usize, now: Nanos) {
        let descriptors = &mut self.descriptors[..packets];
        let of = (&self.sessions, &mut self.stats);
        self.fragments
            .look(&self.burst, (descriptors, &mut self.keys), of, now);
    }

    fn decide(&mut self, (packets, hits): (usize, u64), soft: u64, flags: PacketFlags, now: Nanos) -> usize {
        let mut tables = slow_path::Tables {
            sessions: &mut self.sessions,
            flows: &mut self.flows,
            stats: &mut self.stats,
        };
        let mut burst = slow_path::Burst {
            packets: &self.burst,
            descriptors: &mut self.descriptors[..packets],
            keys: &self.keys,
            soft,
        };
        let decided = self.slow.decide(&mut tables, &mut burst, hits, now);
        if flags.any(PacketFlags::CLOSING) {
            let (flows, stats) = (&mut self.flows, &mut self.stats);
            self.slow.close(
                flows,
                stats,
                &self.descriptors[..packets],
                &self.keys,
                Tick::of(now),
            );
        }
        decided
    }

    /// Lets packets go on that have waited for long enough, and those that go round: these before the next burst, which
    /// may fill their place. A lap has its end ([`MAX_RECIRCULATIONS`](crate::egress::tx_queues::MAX_RECIRCULATIONS)), and so has this.
    #[inline]
    fn release(&mut self, now: Nanos) {
        loop {
            if self.tx.has_recirculated() {
                self.receive(Source::Round, now);
            } else if self.fragments.has_ready() {
                self.receive(Source::Held, now);
            } else if self.reassembly.has_ready() {
                self.receive(Source::Reassembled, now);
            } else if self.buffers.has_flushed() {
                self.receive(Source::Flushed, now);
            } else {
                return;
            }
        }
    }

    /// Lets packets of our own to ourselves go round.
    #[inline]
    fn recirculate(&mut self, now: Nanos) {
        while self.tx.has_recirculated() {
            self.receive(Source::Round, now);
        }
    }

    fn count_waiting(&mut self) {
        self.stats.buffered = self.buffers.len() as u64;
        let fragments = self.fragments.len() + self.reassembly.len();
        self.stats.held = fragments as u64 + self.stats.buffered + self.stats.backlog;
    }

    /// Small steps of what is to be done now and then: aging, and fragments that waited too long.
    fn tidy(&mut self, now: Nanos) {
        let buckets = self.config.aging_per_poll;
        self.stats.aged += self.flows.age(&mut self.sessions, Tick::of(now), buckets) as u64;
        self.stats.reaped += self.flows.reap(&self.sessions.blocks, buckets) as u64;
        if !self.sessions.inactivity_timers.is_empty() {
            self.look_for_inactivity(now);
        }
        if self.fragments.len() > 0 {
            self.fragments.sweep(&mut self.burst, now);
            self.give_up_fragments();
        }
        if self.reassembly.has_any() {
            self.reassembly.sweep(&mut self.burst, now);
            self.give_up_fragments();
        }
        if self.buffers.len() > 0 {
            self.buffers.sweep(now);
            self.give_up_buffered(false, now);
        }
        if self.late_markers.has_any() {
            self.give_up_markers(now);
        }
    }

    /// Drops the fragments of the burst that have waited for too long.
    #[cold]
    fn give_up_fragments(&mut self) {
        let (io, stats) = (&mut self.io, &mut self.stats);
        self.tx
            .give_up(io, stats, &mut self.burst, DropReason::FragmentTimeout);
        self.count_waiting();
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

    fn count_received(&mut self, source: Source) {
        let packets = self.burst.len() as u64;
        match source {
            Source::Port(port) => {
                let octets = self.burst.iter().map(|buf| buf.len() as u64).sum();
                self.stats.received(port, packets, octets);
            }
            Source::Inbox => self.stats.inbox += packets,
            Source::Held | Source::Reassembled | Source::Round | Source::Urgent | Source::Backlog(_) => {}
            Source::Flushed => self.stats.flushed += packets,
        }
    }

    /// The time since the last lap belongs to `stage`.
    #[inline]
    fn lap(&mut self, stage: Stage, packets: usize, clock: &mut u64) {
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

    fn steer(&mut self, packets: usize, now: Nanos) {
        let descriptors = &mut self.descriptors[..packets];
        if self.config.workers > 1 {
            steer(&self.steering, self.config.id, descriptors, &self.keys);
        }
        if descriptors
            .iter()
            .any(|descriptor| descriptor.is_open() && !descriptor.kind.is_user())
        {
            let mut exceptions = Exceptions {
                interfaces: &self.interfaces,
                events: &mut self.events,
                stats: &mut self.stats,
                hosts: &mut self.hosts,
                slow: &mut self.slow_protocols,
                echoes: &mut self.echoes,
                pings: &mut self.pings,
                now,
            };
            exceptions.handle(&mut self.burst, descriptors);
        }
    }

    /// Fragments of one datagram meet at one worker, whichever session it is for.
    #[cold]
    fn steer_fragments(&mut self, packets: usize) {
        let descriptors = &mut self.descriptors[..packets];
        for (packet, descriptor) in self.burst.iter().zip(descriptors) {
            if descriptor.fate == Fate::Reassemble
                && !descriptor.from_inbox
                && let Some(owner) = self.reassembly.owner(packet, self.config.workers)
                && owner != self.config.id
            {
                descriptor.fate = Fate::HandOver(owner);
            }
        }
    }

    fn act(&mut self, packets: usize, now: Nanos) -> bool {
        let egress = EgressContext {
            interfaces: &self.interfaces,
            adjacencies: &self.adjacencies,
            routes: &self.routes,
            events: &mut self.events,
            stats: &mut self.stats,
            now,
            millisecond: Millisecond::of(now),
            missing: &mut self.missing,
            undelivered: &mut self.undelivered,
            fragmenter: &mut self.fragmenter,
            path_mtus: &self.path_mtus,
        };
        let (blocks, images) = self.sessions.split();
        let mut act = Act {
            egress,
            blocks,
            images,
            chain: &mut self.chain,
            plans: &mut self.plans,
            shared: &mut self.shared,
            extended: self.flows.extended(),
            mark: crate::act::marking::EgressMark::default(),
            mirrored: &mut self.copies.wanted,
            discarded: &mut self.discarded,
            yellow: 0,
            relays: &mut self.relays,
            checksum_offload: self.tracer.is_none().then_some(&self.checksum_offload),
        };
        let told = act.act(&mut self.burst, &mut self.descriptors[..packets], &self.keys);
        self.yellow = act.yellow;
        told
    }
}
