//! The engine: its state, one poll of it, and one burst through the stages.

use flow::slab::OutOfMemory;
use flow::{Blocks, KeyFields, Millisecond, Nanos, PortId, SessionIndex, Tick};
use packet::{DropReason, PacketBuf};
use rtrb::Consumer;
use rules::classifier::Key;
use transport::Adjacencies;

use crate::accelerator::aside::Aside;
use crate::accelerator::asking::{Asking, AskingLimits};
use crate::accelerator::config::{EngineConfig, PartialMode};
use crate::accelerator::engine_stats::EngineStats;
use crate::accelerator::exceptions::{Exception, Exceptions};
use crate::accelerator::flow_accounts::FlowCounts;
use crate::accelerator::partial_mode::{set_strangers_aside, set_users_aside};
use crate::accelerator::put_error::PutError;
use crate::accelerator::queues::EngineQueues;
use crate::accelerator::screening::{Taken, review, screen};
use crate::accelerator::settling::{GivenFlow, Settling, SettlingLimits};
use crate::access_counts::AccessCounts;
use crate::apply_rules::context::{ApplyRules, ApplyRulesState};
use crate::apply_rules::egress_context::EgressContext;
use crate::apply_rules::marking::EgressMark;
use crate::apply_rules::mss_clamping::MssClamping;
use crate::burst::Burst;
use crate::burst::batch::Batch;
use crate::burst::descriptor::{Deferral, Descriptor, Fate, PacketFlags, PacketKey};
use crate::control_channel::event_queue::EventQueue;
use crate::deferred::packet_store::{Deferrals, Rejected};
use crate::egress::checksum_offload::ChecksumOffload;
use crate::egress::copies::Copies;
use crate::egress::duplicate::Copying;
use crate::egress::forwarding::ForwardingTables;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::lags::Lags;
use crate::egress::linearize::linearize_burst;
use crate::egress::network_tables::NetworkTables;
use crate::egress::path_mtus::PathMtus;
use crate::egress::ports::Ports;
use crate::egress::queueing::departures::Exit;
use crate::egress::tx_queues::{Transmission, TxQueues};
use crate::ingress::parse::{gather, parse};
use crate::io::{Io, PacketMetadata};
use crate::lookup::flow_tables::{FlowCapacity, Flows, NewEntry};
use crate::lookup::lookup;
use crate::lookup::validity::Validity;
use crate::sessions::Images;
use crate::stats::{PortStats, Stats};
use crate::{ChargeId, Event, PacketRates, PollReport};
use offload::exception::Reason;

/// Events that stages push: they are the host's to cause, which sees the packet as an exception.
const UNHEARD: usize = 64;

/// What packets need to leave, of an engine.
macro_rules! exit {
    ($engine:expr) => {
        Exit {
            io: &mut $engine.ports.io,
            tx: &mut $engine.ports.tx,
            lags: &$engine.ports.lags,
            stats: &mut $engine.stats,
            blocks: &mut $engine.blocks,
            fragmenter: &mut $engine.fragmenter,
        }
    };
}
pub(super) use exit;

/// An accelerator's fast path: what it holds, and its ports.
pub struct Engine<I: Io> {
    pub(super) config: EngineConfig,
    pub(super) stats: Stats,
    access: AccessCounts,
    burst: Burst<I::Buf>,
    /// What becomes of user packets in partial mode; `None` in full mode.
    pub(super) partial: Option<PartialMode>,
    /// What the host gave back and is not passed through the stages yet.
    reinjected: Batch<I::Buf>,
    pub(super) blocks: Blocks,
    pub(super) flows: Flows,
    pub(super) flow_counts: FlowCounts,
    pub(super) apply_rules: ApplyRulesState,
    pub(super) tables: ForwardingTables,
    copies: Copies<I::Buf>,
    pub(super) fragmenter: Fragmenter<I::Buf>,
    pub(super) ports: Ports<I>,
    pub(super) aside: Aside<I::Buf>,
    /// Which sessions have counters that have reached something, is all that is taken of it.
    events: EventQueue,
    unheard: Consumer<Event>,
    tcp_transitory: u16,
    host: PortStats,
}

impl<I: Io> Engine<I> {
    /// An engine that holds nothing. All of its memory is allocated here.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: EngineConfig, io: I) -> Result<Self, OutOfMemory> {
        let ports = io.ports();
        let NetworkTables {
            interfaces,
            routes,
            access,
            ..
        } = NetworkTables::new(&config.network, &config.interfaces());
        let capacity = FlowCapacity {
            v4: config.max_flows_v4,
            v6: config.max_flows_v6,
        };
        let (events, unheard) = rtrb::RingBuffer::new(UNHEARD);
        Ok(Self {
            stats: Stats::new(ports),
            access,
            burst: Burst::new(),
            partial: None,
            reinjected: Batch::new(),
            // Sessions bring the counter of all that is forwarded of them.
            blocks: Blocks::new(config.max_sessions, Blocks::TYPICAL_LINES_WITH_COUNTER)?
                .with_contents(config.max_sessions, config.content_counters)?,
            flows: Flows::new(capacity, config.seed)?,
            flow_counts: FlowCounts::new(config.max_sessions),
            apply_rules: ApplyRulesState::new(
                (config.shared_meters, &config.network),
                PacketRates::new(0, 0),
                ChecksumOffload::new(&io, &config.lags),
            ),
            tables: ForwardingTables {
                interfaces,
                adjacencies: Adjacencies::new(config.max_adjacencies, config.network.group_room()),
                routes,
                path_mtus: PathMtus::new(),
            },
            copies: Copies::new(),
            fragmenter: Fragmenter::new(config.id, config.workers),
            ports: Ports {
                tx: TxQueues::new(ports, 0).with_lags(&config.lags),
                lags: Lags::new(ports, &config.lags),
                io,
            },
            aside: Aside {
                exceptions: Exceptions::new(config.max_exceptions, config.most_at_once()),
                settling: Settling::new(SettlingLimits {
                    flows: config.max_settling,
                    packets: config.held_packets,
                    packets_per_flow: config.held_packets_per_flow,
                    time: config.settling_time,
                }),
                asking: Asking::new(AskingLimits {
                    keys: config.max_asking,
                    packets: config.asked_packets,
                    packets_per_key: config.asked_packets_per_key,
                    time: config.asking_time,
                }),
                is_answering: false,
                excepted: Vec::with_capacity(2 * crate::BURST),
                buckets: [None; crate::BURST],
                queues: match &config.queues {
                    Some(limits) => Some(Box::new(EngineQueues::new(limits, ports, config.max_sessions)?)),
                    None => None,
                },
                is_from_host: false,
            },
            events: EventQueue::new(events, config.max_sessions),
            unheard,
            tcp_transitory: Tick::idle(config.tcp_transitory),
            host: PortStats::default(),
            config,
        })
    }

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

    /// The next session that has counted as much as [`Blocks::look_every`] says since it was last given.
    pub fn next_due(&mut self) -> Option<SessionIndex> {
        self.events.next_due()
    }

    /// Packets that wait.
    pub(super) fn queued(&self) -> usize {
        let queues = self.aside.queues.as_ref();
        queues.map_or(0, |queues| queues.queueing.len())
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

    /// Drops what was lost in queues, and takes back what it has counted.
    pub(super) fn drop_lost_in_queues(&mut self) {
        let Some(queues) = &mut self.aside.queues else {
            return;
        };
        while queues.queueing.has_lost()
            && let Some(lost) = queues.queueing.take_lost()
        {
            lost.charge.credit_back_waiting(&mut self.blocks);
            self.ports.drop(&mut self.stats, lost.packet, lost.reason);
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

    /// Stage `rx`.
    fn take_from(&mut self, port: PortId) {
        let packets = &mut self.burst.packets;
        self.ports.io.rx(port, packets);
        self.ports.io.complete_checksums(port, packets);
        let octets = packets.iter().map(|buf| buf.len() as u64).sum();
        self.stats.received(port, packets.len() as u64, octets);
        if !self.ports.lags.is_empty() {
            self.ports.lags.receive(port, packets);
        }
    }

    /// Passes the packets of the burst through all stages, and what of them recirculates.
    fn pass(&mut self, origin: Origin, now: Nanos) {
        self.process(origin, now);
        while self.ports.tx.has_recirculated() {
            self.ports.tx.take_recirculated(&mut self.burst.packets);
            self.process(Origin::Network, now);
        }
    }

    fn process(&mut self, origin: Origin, now: Nanos) {
        if self.burst.len() == 0 {
            return;
        }
        self.aside.is_from_host = origin == Origin::Host;
        let flags = self.parse();
        let descriptors = &mut self.burst.descriptors[..self.burst.packets.len()];
        set_strangers_aside(descriptors, self.tables.interfaces.is_empty());
        match self.partial {
            Some(partial) => {
                let buckets = &mut self.aside.buckets;
                set_users_aside(partial, descriptors, &self.burst.keys, buckets);
            }
            None => {
                self.lookup(origin, now);
                self.screen(flags, now);
            }
        }
        if let Some(queues) = &self.aside.queues {
            let queueing = &queues.queueing;
            queueing.look_ahead(&self.burst.packets, &self.burst.descriptors, &self.blocks);
        }
        self.apply_rules(flags, now);
        self.send_burst(now);
    }

    /// Stage `parse`.
    fn parse(&mut self) -> PacketFlags {
        let (burst, interfaces) = (&mut self.burst, &self.tables.interfaces);
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        descriptors
            .iter_mut()
            .for_each(|descriptor| descriptor.reset(false));
        let flags = parse(interfaces, &burst.packets, descriptors, &mut burst.keys);
        if !flags.any(PacketFlags::SCATTERED) {
            return flags;
        }
        let again = gather(interfaces, &mut burst.packets, descriptors, &mut burst.keys);
        flags.and(again)
    }

    /// Stage `lookup`, also among flows that settle.
    fn lookup(&mut self, origin: Origin, now: Nanos) {
        let packets = self.burst.packets.len();
        let descriptors = &mut self.burst.descriptors[..packets];
        let misses = self.stats.misses + self.stats.stale;
        // The host says when a decision holds no longer.
        let _ = lookup(
            &mut self.flows,
            &mut self.blocks,
            &mut self.stats,
            descriptors,
            &self.burst.keys,
            Tick::of(now),
        );
        if self.stats.misses + self.stats.stale != misses {
            self.set_misses_aside(origin, now);
        }
    }

    /// Packets without an entry are the host's, unless their flow settles: then they wait, or pass by what the host
    /// gave if they come back from there.
    #[cold]
    fn set_misses_aside(&mut self, origin: Origin, now: Nanos) {
        for index in 0..self.burst.packets.len() {
            let descriptor = &self.burst.descriptors[index];
            if !descriptor.is_open() || descriptor.verdict.is_some() {
                continue;
            }
            let reason = match descriptor.flags {
                flags if flags.any(PacketFlags::FRAGMENT) => Reason::NeedsReassembly,
                flags if flags.any(PacketFlags::STALE) => Reason::Stale,
                _ => Reason::NoFlow,
            };
            // What is kept of its ends came before it.
            let kept = match origin {
                Origin::Network => self.aside.kept_or_not(&self.burst, index),
                _ => None,
            };
            let fate = match kept.or_else(|| self.settle_or_not(index, origin, reason, now)) {
                Some(fate) => fate,
                None if origin == Origin::Network && self.aside.asking.is_on() => {
                    let asked = self.aside.ask_or_not(&self.burst, index, now);
                    asked.unwrap_or(host(reason))
                }
                None => host(reason),
            };
            self.burst.descriptors[index].fate = fate;
        }
    }

    /// What becomes of a packet whose flow settles: open, with the verdict of its flow, if the host has given it back.
    fn settle_or_not(&mut self, index: usize, origin: Origin, reason: Reason, now: Nanos) -> Option<Fate> {
        if self.aside.settling.is_empty() {
            return None;
        }
        let (keys, descriptor) = (&self.burst.keys, &mut self.burst.descriptors[index]);
        let packet = PacketKey { index, keys };
        let (slot, given) = self.aside.settling.find(packet, descriptor.family)?;
        let needs_ports = given.fields().contains(KeyFields::TUPLE);
        if descriptor.flags.any(PacketFlags::FRAGMENT) && needs_ports {
            return None;
        }
        if self.aside.settling.is_stale(slot, &self.blocks) {
            self.give_up(slot);
            return Some(host(Reason::Stale));
        }
        match origin {
            Origin::Host => {
                (descriptor.verdict, descriptor.shape) = (given.entry.verdict, given.fields());
                self.aside.settling.touch(slot, now);
                Some(Fate::Open)
            }
            _ if self.aside.settling.holds(slot) => Some(Fate::Defer(Deferral::Settling(slot))),
            // Those before it have gone to the host.
            _ => Some(host(reason)),
        }
    }

    /// A flow that settles is of no use: what is held of it goes to the host.
    pub(super) fn give_up(&mut self, slot: u32) {
        // What was held came from the wire.
        let is_from_host = std::mem::take(&mut self.aside.is_from_host);
        self.aside.except_held(slot, &mut self.stats);
        self.aside.settling.take(slot);
        self.drop_rejected();
        self.aside.is_from_host = is_from_host;
    }

    /// No flow settles any more: the host that has given them knows nothing of them. What was held goes to the host of
    /// now, before packets that arrive later.
    pub(super) fn give_up_settling(&mut self) {
        while let Some(slot) = self.aside.settling.first() {
            self.give_up(slot);
        }
    }

    /// Drops exceptions that found no room.
    pub(super) fn drop_rejected(&mut self) {
        while let Some(Rejected { packet, reason }) = self.aside.take_rejected() {
            self.ports.drop(&mut self.stats, packet, reason);
        }
    }

    /// A packet that the host gave back is an exception.
    pub(super) fn take_again(&mut self, packet: I::Buf, flow: &Key, reason: Reason, hops: u8) {
        self.stats.inbox += 1;
        self.aside.asking.note_whole(flow);
        self.stats.handed_over += u64::from(self.aside.exceptions.push(packet, (reason, None), hops));
        self.drop_rejected();
    }

    /// Sets aside what has found its entry and is the host's all the same, before anything is counted.
    fn screen(&mut self, flags: PacketFlags, now: Nanos) {
        let packets = self.burst.packets.len();
        for descriptor in &mut self.burst.descriptors[..packets] {
            if descriptor.is_open()
                && let Some(reason) = screen(&mut self.blocks, &descriptor.verdict)
            {
                descriptor.fate = host(reason);
            }
        }
        if flags.any(PacketFlags::FRAGMENT) {
            self.set_fragments_aside();
        }
        if flags.any(PacketFlags::CLOSING) {
            self.close(Tick::of(now));
        }
    }

    /// Fragments pass where ports decide nothing, as all fragments of their datagrams do. The others need each other.
    #[cold]
    fn set_fragments_aside(&mut self) {
        let packets = self.burst.packets.len();
        for descriptor in &mut self.burst.descriptors[..packets] {
            if descriptor.is_open()
                && descriptor.flags.any(PacketFlags::FRAGMENT)
                && descriptor.shape.contains(KeyFields::TUPLE)
            {
                descriptor.fate = host(Reason::NeedsReassembly);
            }
        }
    }

    /// Segments with FIN or RST pass: the entries of their connections idle for less long.
    #[cold]
    fn close(&mut self, now: Tick) {
        let packets = self.burst.packets.len();
        let keys = &self.burst.keys;
        for (index, descriptor) in self.burst.descriptors[..packets].iter().enumerate() {
            if descriptor.is_open()
                && descriptor.flags.any(PacketFlags::CLOSING)
                && descriptor.shape.contains(KeyFields::TUPLE)
            {
                let packet = PacketKey { index, keys };
                let is_shorter = self.flows.shorten(packet, descriptor, self.tcp_transitory, now);
                self.stats.closed += u64::from(is_shorter);
            }
        }
    }

    /// Stage `apply_rules`, with a look at what it does not let go.
    fn apply_rules(&mut self, flags: PacketFlags, now: Nanos) {
        let burst = &mut self.burst;
        burst.outcome.yellow = 0;
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
            blocks: &mut self.blocks,
            images: Images::none(),
            chain: &mut state.chain,
            plans: &mut state.plans,
            shared: &mut state.shared,
            mark: EgressMark::default(),
            relays: &mut state.relays,
            checksum_offload: Some(&state.checksum_offload),
        };
        let descriptors = &mut burst.descriptors[..burst.packets.len()];
        stage.apply(&mut burst.packets, descriptors, &burst.keys);
        for descriptor in descriptors {
            // One that was dropped before has no verdict.
            if let Fate::Drop(reason) = descriptor.fate
                && descriptor.verdict.is_some()
            {
                set_aside(&mut stage, descriptor, reason);
            }
        }
        // The host answers and resolves: it has these packets.
        burst.outcome.missing.clear();
        burst.outcome.undelivered.clear();
        burst.outcome.discarded.clear();
        if flags.any(PacketFlags::OPENING) && self.tables.interfaces.clamps {
            let mut clamping = MssClamping {
                tables: &self.tables,
                blocks: &self.blocks,
                stats: &mut self.stats,
            };
            clamping.clamp_burst(&mut self.burst);
        }
    }

    /// Stage `tx`, with the copies of what leaves.
    fn send_burst(&mut self, now: Nanos) {
        if !self.burst.outcome.copied.is_empty() {
            let mut copying = Copying {
                io: &mut self.ports.io,
                copies: &mut self.copies,
                fragmenter: &mut self.fragmenter,
                blocks: &self.blocks,
                images: Images::none(),
                tables: &self.tables,
                stats: &mut self.stats,
            };
            copying.copy_burst(&mut self.burst);
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
        let blocks = &mut self.blocks;
        if self.ports.io.bounds_chains() {
            linearize_burst(&mut self.ports.io, blocks, &mut burst.packets, descriptors);
        }
        if let Some(queues) = &mut self.aside.queues {
            let (queueing, mut plans) = queues.with_plans(blocks);
            queueing.choose(&burst.packets, descriptors, burst.outcome.yellow, &mut plans);
        }
        let transmission = Transmission {
            packets: &mut burst.packets,
            descriptors,
            yellow: burst.outcome.yellow,
            blocks: &mut self.blocks,
            deferred: &mut self.aside,
            fragmenter: &mut self.fragmenter,
            now,
        };
        self.ports
            .tx
            .transmit(&mut self.ports.io, &mut self.stats, transmission);
        if !self.aside.excepted.is_empty() {
            self.aside.note_excepted(&self.burst);
        }
        if self.aside.queues.is_some() {
            self.drop_lost_in_queues();
        }
        if !self.copies.is_empty() {
            self.copies
                .send(&mut self.ports, &mut self.stats, &mut self.fragmenter);
        }
    }
}

/// Where the packets of a burst come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A port, or a recirculation; or they were held behind what the host gave back.
    Network,
    /// The host gives them back.
    Host,
    /// They were kept until the host had answered: what finds no flow all the same goes to it.
    Answered,
}

const fn host(reason: Reason) -> Fate {
    Fate::Defer(Deferral::Host(reason))
}

/// A packet that stage `apply_rules` drops is the host's, if that may do more for it: it gives back what it has taken.
#[cold]
fn set_aside<B>(stage: &mut ApplyRules<'_, B>, descriptor: &mut Descriptor, reason: DropReason)
where
    B: PacketBuf + PacketMetadata,
{
    let (verdict, octets) = (&descriptor.verdict, usize::from(descriptor.octets));
    let Some((reason, taken)) = review(stage.blocks, verdict, reason) else {
        return;
    };
    stage.unmatch(verdict, octets);
    if taken == Taken::MatchAndTokens {
        stage.unmeter(verdict, octets);
    }
    descriptor.fate = host(reason);
}
