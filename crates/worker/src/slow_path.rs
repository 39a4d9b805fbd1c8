//! Stage `slow`: the first packets of flows, packets of flows whose rules changed, and messages that never have a flow.
//!
//! What has no verdict is compacted into a list and taken through in passes, each of which asks for the memory of the
//! next: find the sessions, deal the budgets out, match PDRs, write flow entries. Budgets are for each burst, of three
//! classes of work and fair over sessions ([`deficit_round_robin`]); over budget a packet is dropped and counted, never
//! queued. Finding the session is not in the budget: it is one look into a map, and unknown ones end there. Only where
//! the worker is busy, and the stage has no more than its [`budget`] of the time, not even that is done
//! for what has to wait.
//!
//! A flow whose entry is of an older *snapshot* keeps its verdict until the budget gets to it; one whose session
//! changed has none any more, and is decided before its packet passes. Which entries there may be is decided by
//! [`admission`]; a flow without one comes here with each of its packets.
//!
//! Decisions are `rules`'; nothing is cached that [`Classifier`](rules::classifier::Classifier) did not call correct
//! for the key. The worker owns the state; nothing is allocated after the start.

pub(crate) mod admission;
pub(crate) mod budget;
pub(crate) mod connections;
mod decision;
pub(crate) mod deficit_round_robin;
mod denial;
pub(crate) mod idle_time;
pub(crate) mod inspection;

use flow::slab::OutOfMemory;
use flow::{ContentId, Direction, FlowFlags, KeyFields, Nanos, SessionIndex, Tick, Verdict};
use packet::{DropReason, IpTuple, PacketBuf};
use rules::classifier::{Side, whole_key};

use crate::WorkerConfig;
use crate::access_counts::AccessCounts;
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Deferral, Descriptor, Fate, Keys, PacketFlags, PacketKey};
use crate::io::PacketMetadata;
use crate::lookup::flow_tables::{FlowAccounts, Flows, NewEntry, RemovedFlow};
use crate::lookup::validity::Validity;
use crate::sessions::Sessions;
use crate::slow_path::admission::{AdmissionLimits, FlowAdmission};
use crate::slow_path::budget::SlowPathBudget;
use crate::slow_path::connections::Connections;
use crate::slow_path::decision::{Answer, Home, Look, OfFlow, OtherDirection, Outcome, decide, shape};
use crate::slow_path::deficit_round_robin::{Class, DeficitRoundRobin, HashedRoundRobin, Turn};
use crate::slow_path::denial::DeniedEntries;
use crate::slow_path::idle_time::Idle;
use crate::slow_path::inspection::{EntryPlace, Inspected, Inspection};
use crate::stats::Stats;

/// The slow path's state.
pub(crate) struct SlowPath {
    pub budget: SlowPathBudget,
    by_hash: HashedRoundRobin,
    by_session: DeficitRoundRobin,
    limits: AdmissionLimits,
    idle: Idle,
    denied: DeniedEntries,
    pub inspection: Inspection,
    pub connections: Connections,
    /// Every entry has the 5-tuple in its key, for measurements.
    force_five_tuple: bool,
    /// Fragments behind the first follow it; else they are packets with ports 0.
    follows_fragments: bool,
    wanted: [Wanted; BURST],
    /// Packets of the last burst that went by a verdict of an older snapshot, for want of budget: bit n is index n.
    put_off: u64,
    /// Packets of the last burst that have shown what their flow is for.
    showing: u64,
}

/// A packet that needs a decision.
#[derive(Clone, Copy)]
struct Wanted {
    index: u8,
    turn: Turn,
    session: SessionIndex,
}

/// What the stage works on, beside its own state.
pub(crate) struct Tables<'a> {
    pub sessions: &'a mut Sessions,
    pub flows: &'a mut Flows,
    pub stats: &'a mut Stats,
    pub access: &'a mut AccessCounts,
}

impl Tables<'_> {
    /// Has packets with this verdict count as `content`: in a counter that is made if there is none yet, or with what
    /// else of the session has none.
    #[cold]
    fn bill(&mut self, session: SessionIndex, content: ContentId, verdict: &mut Verdict) {
        self.sessions.blocks.decided_content(content);
        if let Some(number) = self.sessions.blocks.content(session, content) {
            verdict.content = number;
            let direction = verdict.direction();
            self.sessions
                .blocks
                .prefetch_content(verdict.block, direction, number);
            return;
        }
        let rest = self
            .sessions
            .at(session)
            .and_then(|slot| slot.classifier.content_rest());
        verdict.urrs |= rest.map_or(0, |slot| 1 << slot);
        self.stats.contents_together += 1;
    }

    /// Removes the entry of a flow in use that is decided anew, unless the new entry replaces it.
    #[cold]
    fn revalidate(&mut self, packet: PacketKey<'_>, descriptor: &Descriptor, shape: Option<KeyFields>) {
        if shape != Some(descriptor.shape)
            && let Some(RemovedFlow { block, generation }) = self.flows.remove(packet, descriptor)
        {
            self.sessions.forget(descriptor.family, block, generation);
        }
    }
}

/// A burst as the slow path sees it: packets as they were received, what is known of them, their whole keys.
pub(crate) struct Burst<'a, B> {
    pub packets: &'a [B],
    pub descriptors: &'a mut [Descriptor],
    pub keys: &'a Keys,
    /// Bit n: the verdict of the packet at index n is to be made anew.
    pub soft: u64,
    /// Bit n: the same, for nothing but that the packet may show what its flow is for.
    pub looked_into: u64,
    /// Bit n: the packet at index n is a message of this node to a UE. No access list is asked about it, so that its
    /// decision is its own.
    pub own: u64,
}

/// Has the decisions about packets of `provisional` entries made anew that carry something to look at.
#[cold]
pub(crate) fn note_payloads<B: PacketBuf>(burst: &mut Burst<'_, B>, provisional: u64) {
    let mut left = provisional;
    while left != 0 {
        let index = left.trailing_zeros() as usize;
        left &= left - 1;
        if let (Some(descriptor), Some(packet)) = (burst.descriptors.get(index), burst.packets.get(index))
            && inspection::has_payload(packet.data(), descriptor)
        {
            burst.looked_into |= 1 << index;
        }
    }
}

impl SlowPath {
    pub fn new(config: &WorkerConfig) -> Result<Self, OutOfMemory> {
        let sources = (&config.resolvers, config.ndpi.as_ref());
        Ok(Self {
            budget: SlowPathBudget::new(config.slow_share_percent),
            by_hash: HashedRoundRobin::new(config.seed),
            by_session: DeficitRoundRobin::new(config.budgets),
            limits: AdmissionLimits::new(config.flow_limits),
            idle: Idle::new(config.idle),
            denied: DeniedEntries::new(config),
            inspection: Inspection::new(&config.inspection, sources, config.max_sessions)?,
            connections: Connections::new(config.connections, config.max_sessions),
            force_five_tuple: config.force_five_tuple,
            follows_fragments: config.fragments.datagrams > 0,
            wanted: [Wanted {
                index: 0,
                turn: Turn::NONE,
                session: SessionIndex(0),
            }; BURST],
            put_off: 0,
            showing: 0,
        })
    }

    /// Whether the packet at `index` of the last burst went by a verdict of an older snapshot.
    #[cold]
    pub fn has_put_off(&self, index: usize) -> bool {
        self.put_off >> (index % BURST) & 1 == 1
    }

    /// Whether the packet at `index` of the last burst has shown what its flow is for.
    #[cold]
    pub fn has_shown(&self, index: usize) -> bool {
        self.showing >> (index % BURST) & 1 == 1
    }

    /// Has the decisions about the segments of a burst that open connections made anew: these may be for something else
    /// than those before with the same ends, and are no part of them.
    #[cold]
    pub fn note_openings<B>(&self, burst: &mut Burst<'_, B>) {
        if !self.inspection.has_any() && !self.connections.is_on() {
            return;
        }
        for (index, descriptor) in burst.descriptors.iter().enumerate() {
            burst.soft |= u64::from(opens_again(descriptor)) << (index % BURST);
        }
    }

    /// Decides about every open user packet that has no verdict or a soft one, within budget; how many it was. `hits`
    /// packets of the burst have found their entry.
    pub fn decide<B: PacketBuf + PacketMetadata>(
        &mut self,
        tables: &mut Tables<'_>,
        burst: &mut Burst<'_, B>,
        hits: u64,
        now: Nanos,
    ) -> usize {
        let places = self.budget.places(burst.descriptors.len(), hits, now);
        let wanted = self.collect(burst);
        (self.put_off, self.showing) = (0, 0);
        self.inspection.begin_burst();
        let count = match wanted > places {
            true => self.admit_by_hash(tables.stats, burst, wanted, places),
            false => wanted,
        };
        self.budget.admit(count, wanted, now);
        if count == 0 {
            return 0;
        }
        let count = self.find(tables.sessions, burst, count);
        let count = self.admit(tables, burst, count);
        self.prefetch_rest(tables.sessions, burst, count);
        for index in 0..count {
            self.judge(tables, burst, self.wanted[index], now);
        }
        let mut admission = FlowAdmission {
            limits: &mut self.limits,
            sessions: tables.sessions,
            stats: tables.stats,
            now,
        };
        tables.flows.write(&mut admission, Tick::of(now));
        count
    }

    /// Cuts down the idle time of flows that a FIN or RST of this burst ends.
    #[cold]
    pub fn close(
        &mut self,
        (sessions, flows): (&Sessions, &mut Flows),
        stats: &mut Stats,
        descriptors: &[Descriptor],
        keys: &Keys,
        now: Nanos,
    ) {
        for (index, descriptor) in descriptors.iter().enumerate() {
            let ends = descriptor.flags.any(PacketFlags::CLOSING)
                && descriptor.is_open()
                && descriptor.verdict.is_some()
                && descriptor.shape.contains(KeyFields::TUPLE);
            if !ends {
                continue;
            }
            let (packet, idle) = (PacketKey { index, keys }, self.idle.tcp_transitory);
            stats.closed += u64::from(flows.shorten(packet, descriptor, idle, Tick::of(now)));
            if self.connections.is_on() {
                self.close_connection(sessions, packet, descriptor, now);
            }
        }
    }

    /// A segment with FIN or RST passes: its connection ends soon.
    #[cold]
    fn close_connection(
        &mut self,
        sessions: &Sessions,
        PacketKey { index, keys }: PacketKey<'_>,
        descriptor: &Descriptor,
        now: Nanos,
    ) {
        let slot = sessions
            .of(&descriptor.verdict)
            .and_then(|session| sessions.at(session));
        let owner = slot.and_then(decision::owner);
        let tuple = keys.tuple(index, descriptor.family, false);
        if let (Some(owner), Some(tuple)) = (owner, tuple)
            && !descriptor.verdict.flags.contains(FlowFlags::DENIED)
        {
            let is_uplink = matches!(descriptor.side, Side::Tunnel { .. });
            let sent = as_sent_by_ue(descriptor.side, tuple);
            self.connections.close(owner, &sent, is_uplink, now);
        }
    }

    /// Lists the packets that need a decision, and returns their number.
    fn collect<B>(&mut self, burst: &Burst<'_, B>) -> usize {
        let mut count = 0;
        for (index, descriptor) in burst.descriptors.iter().enumerate() {
            let anew = (burst.soft | burst.looked_into) >> (index % BURST) & 1;
            let has_one = descriptor.verdict.is_some() && anew == 0;
            if has_one || !descriptor.is_open_user() {
                continue;
            }
            self.wanted[count % BURST].index = index as u8;
            count += 1;
        }
        count
    }

    /// Admits `places` of them, before their sessions are looked up. What has a verdict is not dropped.
    #[cold]
    fn admit_by_hash<B>(
        &mut self,
        stats: &mut Stats,
        burst: &mut Burst<'_, B>,
        count: usize,
        places: usize,
    ) -> usize {
        let Self {
            by_hash,
            wanted,
            put_off,
            inspection,
            connections,
            ..
        } = self;
        let wanted = &mut wanted[..count.min(BURST)];
        let mut turns = [(Turn::NONE, 0); BURST];
        for (turn, wanted) in turns.iter_mut().zip(wanted.iter()) {
            let index = usize::from(wanted.index);
            let descriptor = &burst.descriptors[index];
            let destination = burst.keys.destination(index, descriptor.family);
            *turn = by_hash.ask(class(descriptor), descriptor.side, destination);
        }
        by_hash.close(places);
        let mut kept = 0;
        for number in 0..wanted.len() {
            let index = wanted[number].index;
            if by_hash.admits(turns[number]) {
                wanted[kept].index = index;
                kept += 1;
            } else {
                let descriptor = &mut burst.descriptors[usize::from(index)];
                *put_off |= refuse(
                    stats,
                    index,
                    descriptor,
                    turns[number].0.class,
                    inspection.has_any() || connections.is_on(),
                );
            }
        }
        by_hash.finish();
        kept
    }

    /// Finds their sessions, and keeps the packets that have one.
    fn find<B>(&mut self, sessions: &Sessions, burst: &mut Burst<'_, B>, count: usize) -> usize {
        for wanted in &self.wanted[..count.min(BURST)] {
            let index = usize::from(wanted.index);
            let descriptor = &burst.descriptors[index];
            sessions.prefetch_find(descriptor.side, burst.keys.destination(index, descriptor.family));
        }
        let mut kept = 0;
        for number in 0..count.min(BURST) {
            let index = usize::from(self.wanted[number].index);
            let descriptor = &mut burst.descriptors[index];
            match sessions.find(descriptor.side, burst.keys.destination(index, descriptor.family)) {
                Ok(session) => {
                    sessions.prefetch(session);
                    (self.wanted[kept].index, self.wanted[kept].session) = (index as u8, session);
                    kept += 1;
                }
                Err(reason) => descriptor.fate = Fate::Drop(reason),
            }
        }
        kept
    }

    /// Deals the budgets out, and keeps the packets that got a place. What has a verdict is not dropped.
    fn admit<B>(&mut self, tables: &mut Tables<'_>, burst: &mut Burst<'_, B>, count: usize) -> usize {
        let Self {
            by_session,
            wanted,
            put_off,
            inspection,
            connections,
            ..
        } = self;
        for wanted in &mut wanted[..count] {
            let descriptor = &burst.descriptors[usize::from(wanted.index)];
            if let Some(account) = tables.sessions.account_mut(wanted.session) {
                wanted.turn = by_session.ask(class(descriptor), &mut account.rounds);
            }
        }
        by_session.close();
        let mut kept = 0;
        for number in 0..count {
            let Wanted { index, turn, session } = wanted[number];
            let Some(account) = tables.sessions.account_mut(session) else {
                continue;
            };
            if by_session.admits(turn, &mut account.rounds) {
                wanted[kept] = wanted[number];
                kept += 1;
                let descriptor = &burst.descriptors[usize::from(index)];
                let is_looked_into = burst.looked_into >> (usize::from(index) % BURST) & 1 == 1;
                let packet = (descriptor.side, is_looked_into);
                prefetch(tables.sessions, session, packet, inspection);
                continue;
            }
            let descriptor = &mut burst.descriptors[usize::from(index)];
            *put_off |= refuse(
                tables.stats,
                index,
                descriptor,
                turn.class,
                inspection.has_any() || connections.is_on(),
            );
        }
        by_session.finish();
        kept
    }

    /// Asks for the memory that decisions by rulebases and about hosts read, beside that of all decisions.
    #[inline]
    fn prefetch_rest<B>(&self, sessions: &Sessions, burst: &Burst<'_, B>, count: usize) {
        for wanted in &self.wanted[..count.min(BURST)] {
            let Some(slot) = sessions.at(wanted.session) else {
                continue;
            };
            slot.classifier.prefetch_rest();
            sessions.blocks.prefetch_content_list(wanted.session);
            if self.connections.is_on() {
                let descriptor = &burst.descriptors[usize::from(wanted.index)];
                let tuple = burst.keys.tuple(wanted.index.into(), descriptor.family, false);
                if let (Some(owner), Some(tuple)) = (decision::owner(slot), tuple) {
                    let sent = as_sent_by_ue(descriptor.side, tuple);
                    self.connections.prefetch(owner, &sent);
                }
            }
            if self.inspection.is_on() && slot.classifier.may_read_detection() {
                let (index, family) = (
                    wanted.index.into(),
                    burst.descriptors[usize::from(wanted.index)].family,
                );
                let tuple = burst.keys.tuple(index, family, false);
                let owner = inspection::Owner {
                    session: wanted.session,
                    seid: slot.image.seid,
                };
                tuple.inspect(|tuple| self.inspection.prefetch(owner, tuple));
            }
        }
    }

    /// Decides about one packet.
    fn judge<B: PacketBuf + PacketMetadata>(
        &mut self,
        tables: &mut Tables<'_>,
        burst: &mut Burst<'_, B>,
        wanted: Wanted,
        now: Nanos,
    ) {
        let index = usize::from(wanted.index);
        let (descriptor, packet) = (&mut burst.descriptors[index], &burst.packets[index]);
        let Some(slot) = tables.sessions.at(wanted.session) else {
            return;
        };
        let lacks_ports = self.follows_fragments && descriptor.flags.lacks_ports();
        let known = burst.keys.tuple(index, descriptor.family, lacks_ports);
        let packet_key = PacketKey {
            index,
            keys: burst.keys,
        };
        let home = Home {
            slot,
            sessions: tables.sessions,
        };
        let mut of_flow = OfFlow::default();
        let mut look = Look {
            of_flow: &mut of_flow,
            inspection: &mut self.inspection,
            connections: &mut self.connections,
            stats: &mut *tables.stats,
            now,
            is_own: burst.own >> (index % BURST) & 1 == 1,
            is_recirculated: packet.ingress().recirculations() > 0,
            is_looked_into: (burst.looked_into & !burst.soft) >> (index % BURST) & 1 == 1,
            force_five_tuple: self.force_five_tuple,
        };
        let outcome = decide(home, descriptor, known, packet.data(), &mut look);
        let answer = match outcome {
            Ok(Outcome::AsBefore) => {
                tables.stats.inspected += 1;
                return self.note_entry(descriptor, of_flow.inspected.as_ref(), known);
            }
            Ok(Outcome::Decided(answer)) => Ok(answer),
            Err(reason) => Err(reason),
        };
        let shape = answer.as_ref().ok().and_then(|answer| {
            let is_put_off = lacks_ports && answer.key?.1;
            let may_add = is_put_off || self.denied.may_add(&answer.verdict, tables.stats, now);
            may_add.then_some(shape(answer.key?.0, self.force_five_tuple))
        });
        let inspected = of_flow.inspected.as_ref().filter(|_| answer.is_ok());
        if descriptor.verdict.is_some() {
            tables.stats.revalidated += u64::from(inspected.is_none());
            tables.revalidate(packet_key, descriptor, shape);
        }
        if let Some(inspected) = inspected {
            tables.stats.inspected += 1;
            self.showing |= u64::from(inspected.has_shown) << (index % BURST);
            match &of_flow.other {
                Some(other) if is_of(tables.sessions, other, wanted.session) => {
                    self.decide_other(tables, other, wanted.session);
                }
                _ => outdate_other(tables.flows, (packet_key, descriptor), inspected),
            }
        }
        match answer {
            Ok(Answer {
                key: Some((_, true)), ..
            }) if lacks_ports => {
                descriptor.fate = Fate::Defer(Deferral::FirstFragment(wanted.session));
            }
            Ok(answer) => self.heed(
                tables,
                (packet_key, descriptor),
                (&answer, shape, inspected),
                (wanted, known),
            ),
            Err(reason) => descriptor.fate = Fate::Drop(reason),
        }
    }

    /// The packet goes by what was decided, and so do others if there is to be an entry of this shape.
    #[inline]
    fn heed(
        &mut self,
        tables: &mut Tables<'_>,
        (packet_key, descriptor): (PacketKey<'_>, &mut Descriptor),
        (answer, shape, inspected): (&Answer, Option<KeyFields>, Option<&Inspected>),
        (wanted, known): (Wanted, Option<IpTuple>),
    ) {
        let mut verdict = answer.verdict;
        answer.access.inspect(|rule| tables.access.decided(*rule));
        if answer.content.is_some() {
            tables.bill(wanted.session, answer.content, &mut verdict);
        }
        descriptor.verdict = verdict;
        let Some(shape) = shape else {
            tables.stats.bypassed += 1;
            return;
        };
        descriptor.shape = shape;
        let Tables { sessions, flows, .. } = tables;
        let entry = NewEntry {
            idle: self.idle_of(descriptor, answer.protocol),
            session: wanted.session,
            validity: Validity {
                is_provisional: inspected.is_some_and(|inspected| inspected.is_provisional(shape)),
                is_periodic: answer.has_connection,
            },
        };
        flows.stage(&sessions.blocks, packet_key, descriptor, entry);
        self.note_entry(descriptor, inspected, known);
    }

    /// Notes the entry of a packet's direction where what is found of its flow may change it.
    #[inline]
    fn note_entry(&mut self, descriptor: &Descriptor, inspected: Option<&Inspected>, known: Option<IpTuple>) {
        if let Some(inspected) = inspected {
            let entry = EntryPlace::of(descriptor, known.as_ref());
            self.inspection.note_entry(inspected, entry);
        }
    }

    /// Others of a packet's flow go by what was decided about them because of it.
    #[inline]
    fn decide_other(&self, tables: &mut Tables<'_>, other: &OtherDirection, session: SessionIndex) {
        let mut verdict = other.verdict;
        other.access.inspect(|rule| tables.access.decided(*rule));
        if other.content.is_some() {
            tables.bill(session, other.content, &mut verdict);
        }
        let EntryPlace { side, shape, .. } = other.entry;
        let is_short = verdict.direction() == Direction::Downlink;
        let entry = NewEntry {
            idle: self.idle.of(shape, other.tuple.proto, is_short),
            session,
            validity: Validity::default(),
        };
        let Tables { sessions, flows, .. } = tables;
        let whole = whole_key(side, &other.tuple);
        flows.stage_key(&sessions.blocks, (&whole, shape), verdict, entry);
    }

    /// How long the entry of a packet that is decided may idle.
    #[inline]
    fn idle_of(&self, descriptor: &Descriptor, protocol: u8) -> u16 {
        let verdict = &descriptor.verdict;
        let is_short =
            descriptor.flags.any(PacketFlags::TRANSITORY) || verdict.direction() == Direction::Downlink;
        let idle = self.idle.of(descriptor.shape, protocol, is_short);
        match verdict.flags.contains(FlowFlags::DENIED) {
            true => idle.min(self.idle.denied),
            false => idle,
        }
    }
}

/// Whether what comes the other way in a packet's flow is for the same session still: another may have its address, or
/// its tunnel, since.
fn is_of(sessions: &Sessions, other: &OtherDirection, session: SessionIndex) -> bool {
    sessions.find(other.entry.side, Some(other.tuple.addrs.dst())) == Ok(session)
}

/// Has the decision about the other direction of a packet's flow made anew, if this packet outdates it.
#[cold]
fn outdate_other(
    flows: &mut Flows,
    (packet, descriptor): (PacketKey<'_>, &Descriptor),
    inspected: &Inspected,
) {
    let tuple = packet.keys.tuple(packet.index, descriptor.family, false);
    let outdated = tuple.and_then(|tuple| inspected.outdated(&tuple));
    if let Some((entry, theirs)) = outdated {
        flows.outdate(entry.side, &theirs, entry.shape);
    }
}

/// Prefetches the memory of a session that the decision about a packet of this side reads.
#[inline]
fn prefetch(
    sessions: &Sessions,
    session: SessionIndex,
    (side, is_looked_into): (Side, bool),
    inspection: &Inspection,
) {
    let Some(slot) = sessions.at(session) else { return };
    slot.classifier.prefetch();
    sessions.blocks.prefetch_contents_of(session);
    if inspection.has_any() {
        flow::prefetch::read(&slot.image.seid);
        inspection.prefetch_session(session);
    }
    // Mostly right, and no harm done if not.
    let likely = match side {
        Side::Tunnel { .. } => Direction::Uplink,
        Side::Plain { .. } => Direction::Downlink,
    };
    let block = slot.installed.block;
    sessions.blocks.prefetch_read_line(block, likely);
    if is_looked_into {
        // The other direction of its flow may be decided, too.
        sessions.blocks.prefetch_read_line(block, likely.reverse());
    }
}

/// The tuple of what the UE sends to the other end of a packet's connection.
fn as_sent_by_ue(side: Side, tuple: IpTuple) -> IpTuple {
    match side {
        Side::Tunnel { .. } => tuple,
        Side::Plain { .. } => tuple.reversed(),
    }
}

/// Whether a packet opens a connection between ends that have a flow.
fn opens_again(descriptor: &Descriptor) -> bool {
    let is_opening = descriptor.flags.any(PacketFlags::OPENING) && descriptor.verdict.is_some();
    is_opening && descriptor.shape.contains(KeyFields::TUPLE)
}

/// By where it came in: what comes in tunnels is uplink, also between user planes.
fn class(descriptor: &Descriptor) -> Class {
    match descriptor.side {
        _ if descriptor.verdict.is_some() || descriptor.flags.any(PacketFlags::STALE) => Class::Stale,
        Side::Tunnel { .. } => Class::NewUplink,
        Side::Plain { .. } => Class::NewDownlink,
    }
}

/// Refuses a packet for want of budget. One with a verdict is forwarded by it, and its bit is returned; another is
/// dropped, and so is one that opens a connection if it `tells_apart`: the verdict is about the one before.
#[inline]
fn refuse(stats: &mut Stats, index: u8, descriptor: &mut Descriptor, class: Class, tells_apart: bool) -> u64 {
    let is_of_one_before = tells_apart && opens_again(descriptor);
    if descriptor.verdict.is_some() && !is_of_one_before {
        stats.revalidations_put_off += 1;
        1 << (usize::from(index) % BURST)
    } else {
        descriptor.fate = Fate::Drop(over_budget(class));
        0
    }
}

fn over_budget(class: Class) -> DropReason {
    match class {
        Class::NewUplink | Class::NewDownlink => DropReason::SlowPathBudget,
        Class::Stale => DropReason::StaleBudget,
    }
}
