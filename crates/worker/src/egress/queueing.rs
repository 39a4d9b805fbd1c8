//! Queues before ports: packets of sessions wait where their network instance asks for it, and leave at their rates.
//!
//! Packets have passed their meters and counters and have their headers. [`choose`](Queueing::choose) gives those that
//! are to wait the fate to do so; stage `tx` puts them into queues ([`enqueue`](Queueing::enqueue)) and each poll takes
//! out what may leave ([`depart`](Queueing::depart)). Who is next, and when, is the traffic manager's
//! ([`tm::Manager`]); this module keeps the packets and what they have counted. A packet that is lost here is credited
//! back. What a port does not take stays here and leaves later, unless it takes nothing for long.
//!
//! The octets of a packet are those of its IP packet, as rates of QERs count. An instance adds the headers that its
//! packets have, a port also what a frame takes on the wire.

pub(crate) mod departures;
mod messages;
pub(crate) mod moved_queues;
mod moves;
mod nodes;
pub(crate) mod packets;
mod reporting;
pub(crate) mod reports;
mod session_queues;
mod sessions;
mod tally;
mod tokens;
pub(crate) mod told;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flow::meter::Colour;
use flow::slab::{OutOfMemory, in_huge_pages};
use flow::{Blocks, Direction, Nanos, PortId, SessionIndex, prefetch};
use packet::ip_fragmentation::FragmentSpec;
use packet::{PacketBuf, ecn};
use rules::image::EgressQueues;
use rules::network::{Egress, Network};
use tm::{AqmTimes, Arrival, Class, Departure, Ecn, Limits, LossReason, Manager, QueueId, QueueLine, Slot};

use self::moved_queues::{ArrivingSessions, MovedPacket, MovedQueues};
use self::nodes::Nodes;
use self::packets::{Lost, Output, Record, Room, WaitedIn, Waiting};
use self::reports::{Reports, drop_reason};
use self::session_queues::{NamedQueues, SessionQueues};
use self::tally::Tally;
use crate::burst::batch::{BURST, Batch};
use crate::burst::credit::Charge;
use crate::burst::descriptor::{Deferral, Descriptor, Fate};
use crate::control_channel::{EgressDemand, EgressLease};
use crate::io::PacketMetadata;
use crate::sessions::Sessions;
use crate::trace::report::QueueEnd;
use crate::view::EgressCounts;
use crate::{EgressLimits, WorkerConfig};

/// The longest IP packet that a manager counts.
const LARGEST: u16 = 16_383;

/// Ports, instances and policers below them: what the configuration is checked for.
const MOST_NODES: u16 = Egress::MOST_NODES;

/// What is worth a turn of a session or of a queue with weight 1, in octets.
const QUANTUM: u16 = 1_500;

/// Octets of a frame's new headers that are before those it came with, at most, without options.
const HEADERS: usize = 44;

/// A packet of the burst that is to wait.
#[derive(Clone, Copy)]
struct Chosen {
    queue: QueueLine,
    port: PortId,
    charge: Charge,
    session: SessionIndex,
    /// Where the user packet begins.
    user: u16,
    octets: u16,
    colour: Colour,
}

/// The queues of a worker.
pub(crate) struct Queueing<B> {
    manager: Manager<Room<B>>,
    nodes: Nodes,
    /// The longest packet that is counted as it is, in octets. Longer ones, which are reassembled here and leave in
    /// fragments, count as this.
    largest: u16,
    /// By session, for each direction.
    sessions: Box<[[SessionQueues; 2]]>,
    /// Those that leave in fragments, by slot: few.
    splits: HashMap<u32, FragmentSpec, foldhash::quality::RandomState>,
    /// Queues that sessions have, and may have.
    queues: usize,
    most_queues: usize,
    /// Directions of sessions that found no room for their queues.
    lacking: HashSet<(SessionIndex, Direction), foldhash::quality::RandomState>,
    /// By index in the burst.
    chosen: [Option<Chosen>; BURST],
    lost: Vec<Lost<B>>,
    /// Messages of tunnels that have left a queue, and may have to wait in others: none between bursts.
    messages: Vec<Waiting<B>>,
    /// What leaves next, by port; the last one is to ourselves.
    outputs: Vec<Output<B>>,
    /// How many of each port's node stand there.
    standing: Vec<usize>,
    /// Sessions whose queues another worker still has.
    arriving: ArrivingSessions<B>,
    /// Queues that other workers have given, of sessions that are not whole here yet.
    moved: Vec<MovedQueues<B>>,
    /// Of packets that trace requests have selected.
    reports: Reports,
    departures: [Departure; BURST],
    /// What is being sent, and the records of it: empty between bursts.
    batch: Batch<B>,
    records: Vec<Record>,
    /// What packets have counted that have not left yet, of an accelerator.
    tally: Option<Tally>,
}

/// A manager for these limits, for packets of up to `largest` octets; and how long those are that it counts as they
/// are.
fn manager<B>(
    limits: &EgressLimits,
    nodes: u16,
    largest: u16,
) -> Result<(Manager<Room<B>>, u16), OutOfMemory> {
    let most_queues = limits.queues.max(1);
    // Changes of sessions that are there find room, too: their undoing may not fail.
    let with_reserve = (most_queues + most_queues / 4 + 64).min(1 << 23) as u32;
    let largest = largest.clamp(QUANTUM, LARGEST);
    let limits = Limits {
        ues: with_reserve,
        // Those of one session and shaper lie side by side: their number is rounded up to a power of two.
        queues: 4 * with_reserve,
        shapers: with_reserve,
        nodes,
        packets: (limits.packets as u32).clamp(1, 1 << 28),
        pool: (limits.octets as u64).max(1),
        largest,
        quantum: QUANTUM,
        losses: 1_024,
        aqm: AqmTimes::STANDARD,
    };
    match Manager::with_rooms(limits) {
        Ok(manager) => Ok((manager, largest)),
        Err(tm::TmError::Memory(error)) => Err(error),
        Err(error) => unreachable!("limits are clamped: {error}"),
    }
}

/// What says where packets wait, beside lines: the blocks, and the plans of sessions.
pub(crate) trait Plans {
    /// The session blocks.
    fn blocks(&self) -> &Blocks;
    /// The same, to change.
    fn blocks_mut(&mut self) -> &mut Blocks;
    /// The queues of a session in a direction.
    fn plan(&self, session: SessionIndex, direction: Direction) -> Option<&EgressQueues>;
}

impl Plans for Sessions {
    fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    fn plan(&self, session: SessionIndex, direction: Direction) -> Option<&EgressQueues> {
        self.at(session)?.image.egress_queues(direction)
    }
}

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// The queues of a worker with this number of ports; `None` where its network has none.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: &WorkerConfig, ports: usize) -> Result<Option<Box<Self>>, OutOfMemory> {
        let Some(egress) = config.network.egress() else {
            return Ok(None);
        };
        let mtus = config.network.instances().iter().map(|instance| instance.mtu);
        let largest = mtus.max().unwrap_or(0);
        let (mut manager, largest) = manager(&config.egress, MOST_NODES, largest)?;
        let nodes = Nodes::new(&mut manager, &config.network, egress, config.workers);
        let queueing = Self::with(
            (manager, nodes),
            &config.egress,
            largest,
            ports,
            config.max_sessions,
        );
        Ok(Some(Box::new(queueing)))
    }

    fn with(
        (manager, nodes): (Manager<Room<B>>, Nodes),
        limits: &EgressLimits,
        largest: u16,
        ports: usize,
        sessions: usize,
    ) -> Self {
        let standing = nodes.ports.len();
        Self {
            manager,
            nodes,
            largest,
            sessions: in_huge_pages(sessions, |_| [SessionQueues::NONE; 2]),
            splits: HashMap::default(),
            queues: 0,
            most_queues: limits.queues.max(1),
            lacking: HashSet::default(),
            chosen: [None; BURST],
            lost: Vec::with_capacity(BURST),
            messages: Vec::with_capacity(BURST),
            outputs: (0..=ports).map(|_| Output::new()).collect(),
            standing: vec![0; standing],
            arriving: ArrivingSessions::default(),
            moved: Vec::new(),
            reports: Reports::default(),
            departures: [Departure::NONE; BURST],
            batch: Batch::new(),
            records: Vec::with_capacity(BURST),
            tally: None,
        }
    }

    /// Packets that wait, those of sessions on their way here among them, and those that have left their queue and not
    /// their port yet.
    pub fn len(&self) -> usize {
        let leaving = self.outputs.iter().map(|output| output.queue.len());
        let moved = self.moved.iter().map(|moved| moved.len());
        let elsewhere = self.arriving.packets() + moved.sum::<usize>();
        self.manager.packets() as usize + leaving.sum::<usize>() + elsewhere
    }

    /// The network is another one from now on.
    pub fn follow_network(&mut self, network: &Arc<Network>) {
        self.nodes.follow(network);
    }

    /// What each shared node has sent since this was asked last, and who waits for it.
    pub fn take_demands(&mut self) -> Box<[EgressDemand]> {
        self.nodes.take_demands(&mut self.manager)
    }

    /// Sets the parts that shared nodes have of their rates.
    pub fn set_leases(&mut self, leases: &[EgressLease], now: Nanos) {
        self.nodes.set_leases(&mut self.manager, leases, now);
    }

    /// What waits, and what became of packets.
    pub fn counts(&self) -> EgressCounts {
        EgressCounts {
            queues: self.queues,
            away: 0,
            queues_limit: self.most_queues,
            packets: self.len(),
            packets_limit: self.manager.limits().packets as usize,
            octets: self.manager.octets(),
            octets_limit: self.manager.limits().pool,
            lacking: self.lacking.len(),
            priorities: std::array::from_fn(|priority| *self.manager.class(Class::new(priority as u8))),
        }
    }

    /// Gives the packets of a burst that are to wait the fate to do so.
    #[inline(never)]
    pub fn choose(
        &mut self,
        packets: &[B],
        descriptors: &mut [Descriptor],
        yellow: u64,
        sessions: &mut impl Plans,
    ) {
        for (index, (packet, descriptor)) in packets.iter().zip(&mut *descriptors).enumerate() {
            self.chosen[index % BURST] = self.choice(packet, descriptor, sessions);
            if let Some(chosen) = &mut self.chosen[index % BURST] {
                chosen.charge.wait(sessions.blocks_mut());
                if let Some(tally) = &mut self.tally {
                    tally.add(chosen.session, &chosen.charge);
                }
                if yellow >> (index % BURST) & 1 == 1 {
                    chosen.colour = Colour::Yellow;
                }
                self.manager.prefetch_queue(chosen.queue);
            }
        }
        let chosen = || self.chosen[..packets.len().min(BURST)].iter().flatten();
        chosen().for_each(|one| self.manager.prefetch_tail(one.queue));
        self.manager.prefetch_rooms(chosen().count());
        for (descriptor, chosen) in descriptors.iter_mut().zip(&self.chosen) {
            if chosen.is_some() {
                let is_split = matches!(descriptor.fate, Fate::Split(_));
                descriptor.fate = Fate::Defer(Deferral::Queue { is_split });
            }
        }
    }

    /// Asks for the lines that say which queues sessions have, and for those that outer headers are written to: before
    /// rules are applied.
    #[inline(never)]
    pub fn look_ahead(&self, packets: &[B], descriptors: &[Descriptor], blocks: &Blocks) {
        for (packet, descriptor) in packets.iter().zip(descriptors) {
            let verdict = &descriptor.verdict;
            if !verdict.is_some() {
                continue;
            }
            let direction = verdict.direction();
            let Some(session) = blocks.session_in(verdict.block, direction) else {
                continue;
            };
            if let Some(lines) = self.sessions.get(session.index()) {
                prefetch::read(&lines[direction as usize]);
            }
            if direction == Direction::Downlink {
                prefetch::before_to_write(packet.data(), HEADERS);
            }
        }
    }

    /// Where a packet waits, if it does.
    #[inline(always)]
    fn choice(&self, packet: &B, descriptor: &Descriptor, sessions: &impl Plans) -> Option<Chosen> {
        let (Fate::Send(port) | Fate::Split(port)) = descriptor.fate else {
            return None;
        };
        let verdict = &descriptor.verdict;
        if !verdict.is_some() || packet.ingress().is_own() {
            return None;
        }
        let direction = verdict.direction();
        let (session, forward) =
            sessions
                .blocks()
                .session_and_forward(verdict.block, verdict.forward, direction)?;
        let line = &self.sessions.get(session.index())?[direction as usize];
        if line.is_none() || !self.nodes.takes(&forward) {
            return None;
        }
        // Where fewer packets wait than there are queues, most queues are empty.
        if (self.manager.packets() as usize) < self.queues {
            self.manager.prefetch_ue(line.ue());
        }
        // A message of the tunnel has no user packet, and waits behind those of its queue.
        let octets = descriptor.octets.max(1);
        let user = packet.len().checked_sub(octets.into())?;
        let queue = line
            .find(verdict)
            .unwrap_or_else(|| self.other_queue(session, descriptor, sessions));
        Some(Chosen {
            queue,
            port,
            charge: Charge::of(descriptor),
            session,
            user: u16::try_from(user).ok()?,
            octets: octets.min(self.largest),
            colour: Colour::Green,
        })
    }

    /// The queue of a packet that its session's plan does not foresee: one by a predefined rule, or of more QoS flows
    /// than there are queues.
    #[cold]
    fn other_queue(
        &self,
        session: SessionIndex,
        descriptor: &Descriptor,
        sessions: &impl Plans,
    ) -> QueueLine {
        let verdict = &descriptor.verdict;
        let direction = verdict.direction();
        let plan = sessions.plan(session, direction);
        let place = plan.map_or(0, |plan| plan.of(verdict.marking, verdict.qers));
        self.sessions[session.index()][direction as usize].at(place)
    }

    /// Where the queues of a direction are, if it has any.
    fn line(&self, session: SessionIndex, direction: Direction) -> Option<&SessionQueues> {
        let line = &self.sessions.get(session.index())?[direction as usize];
        (!line.is_none()).then_some(line)
    }

    /// Their names.
    fn queues_of(&self, session: SessionIndex, direction: Direction) -> Option<NamedQueues> {
        let line = self.line(session, direction)?;
        NamedQueues::new(line, |queue| self.manager.queue_at(queue))
    }

    /// Puts a packet of the burst into the queue that was [chosen](Self::choose), or among what is
    /// [lost](Self::take_lost).
    // It is a call, so that transmission has its registers where there are no queues.
    #[inline(never)]
    pub fn enqueue(&mut self, index: usize, packet: B, split: Option<FragmentSpec>, now: Nanos) {
        let Some(chosen) = self.chosen[index % BURST].take() else {
            return;
        };
        let arrival = Arrival {
            queue: chosen.queue,
            octets: chosen.octets,
            colour: chosen.colour,
            ecn: match chosen.charge.is_of_message() {
                true => Ecn::Ect0,
                false => Ecn::from_bits(ecn::of(packet.data(), chosen.user.into())),
            },
        };
        let waiting = Waiting {
            packet,
            charge: chosen.charge,
            session: chosen.session,
            port: chosen.port,
            user: chosen.user,
            waited_in: self.first_of_message(&chosen),
        };
        let is_reported = self.reports.selects(index);
        let named = is_reported.then(|| self.named(chosen.queue, now)).flatten();
        let queued = match self.arriving.is_empty() {
            true => Some(self.queue(&arrival, waiting, split, now)),
            false => self.queue_beside_arriving(&arrival, waiting, split, now),
        };
        if let Some((queue, before)) = named {
            self.reports
                .note(index, (queue, chosen.charge.direction()), before, queued);
        }
    }

    /// The name of a queue, and its octets.
    #[cold]
    fn named(&self, queue: QueueLine, now: Nanos) -> Option<(QueueId, u32)> {
        let queue = self.manager.queue_at(queue)?;
        Some((queue, self.manager.queue(queue, now)?.octets))
    }

    /// The queue that a message waits in first; nothing of a user packet.
    #[inline(always)]
    fn first_of_message(&self, chosen: &Chosen) -> WaitedIn {
        match chosen.charge.is_of_message() {
            true => self.noted_first(chosen),
            false => WaitedIn::default(),
        }
    }

    #[cold]
    fn noted_first(&self, chosen: &Chosen) -> WaitedIn {
        let mut waited_in = WaitedIn::default();
        let line = self.line(chosen.session, chosen.charge.direction());
        if let Some(place) = line.and_then(|line| line.place_of(chosen.queue)) {
            waited_in.insert(place, false);
        }
        waited_in
    }

    /// Puts a packet into its queue, or among what is lost.
    #[inline(always)]
    fn queue(
        &mut self,
        arrival: &Arrival<QueueLine>,
        waiting: Waiting<B>,
        split: Option<FragmentSpec>,
        now: Nanos,
    ) -> Result<Slot, LossReason> {
        let queued = self.manager.enqueue_at(arrival, now);
        self.note_queued(queued, waiting, split, now);
        queued
    }

    /// The same while sessions come from another worker, whose packets are held back: `None`. These and what waits have
    /// the room together.
    #[cold]
    #[inline(never)]
    fn queue_beside_arriving(
        &mut self,
        arrival: &Arrival<QueueLine>,
        waiting: Waiting<B>,
        split: Option<FragmentSpec>,
        now: Nanos,
    ) -> Option<Result<Slot, LossReason>> {
        let octets = self.manager.octets() + self.arriving.octets() + u64::from(arrival.octets);
        if self.len() >= self.manager.limits().packets as usize || octets > self.manager.limits().pool {
            self.lose(waiting, LossReason::PoolFull);
            return Some(Err(LossReason::PoolFull));
        }
        match self.arriving.has(waiting.session) {
            true => self.hold_back(arrival, waiting, split, now).err().map(Err),
            false => Some(self.queue(arrival, waiting, split, now)),
        }
    }

    /// Holds a packet back whose session's queues another worker still has: of a session as much as one queue may have.
    ///
    /// # Errors
    /// There is more, and the packet is lost.
    fn hold_back(
        &mut self,
        arrival: &Arrival<QueueLine>,
        waiting: Waiting<B>,
        split: Option<FragmentSpec>,
        now: Nanos,
    ) -> Result<(), LossReason> {
        let octets = self.arriving.octets_of(waiting.session) + u64::from(arrival.octets);
        let most = self.nodes.classes.iter().map(|class| class.octets).max();
        let has_room = octets <= most.unwrap_or_default().into();
        let direction = waiting.charge.direction();
        let place = self
            .line(waiting.session, direction)
            .and_then(|line| line.place_of(arrival.queue));
        let Some(place) = place.filter(|_| has_room) else {
            self.lose(waiting, LossReason::QueueFull);
            return Err(LossReason::QueueFull);
        };
        let packet = MovedPacket {
            direction,
            place,
            since: now,
            octets: arrival.octets,
            colour: arrival.colour,
            ecn: arrival.ecn,
            marks_ce: false,
            waiting,
            split,
        };
        self.arriving.push(packet.waiting.session, packet);
        Ok(())
    }

    /// A packet was given to the manager, with this result.
    #[inline(always)]
    fn note_queued(
        &mut self,
        queued: Result<Slot, LossReason>,
        waiting: Waiting<B>,
        split: Option<FragmentSpec>,
        now: Nanos,
    ) {
        // A packet that gives way to this one may have had the same slot.
        self.note_losses(now);
        match queued {
            Ok(slot) => {
                if let Some(room) = self.manager.room(slot) {
                    room.put(waiting);
                }
                if let Some(split) = split {
                    self.splits.insert(slot.0, split);
                }
            }
            Err(reason) => self.lose(waiting, reason),
        }
    }

    #[cold]
    fn lose(&mut self, waiting: Waiting<B>, reason: LossReason) {
        self.lost.push(waiting.lost(drop_reason(reason)));
    }

    /// Takes what the manager has given up.
    #[inline]
    fn note_losses(&mut self, now: Nanos) {
        while let Some(loss) = self.manager.pop_loss() {
            self.reports
                .end(loss.slot, QueueEnd::Lost(drop_reason(loss.reason)), now);
            if let Some(waiting) = self.take(loss.slot) {
                self.splits.remove(&loss.slot.0);
                self.lose(waiting, loss.reason);
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, slot: Slot) -> Option<Waiting<B>> {
        self.manager.room(slot)?.take()
    }

    /// Whether packets are lost, which the caller has to [take](Self::take_lost).
    #[inline]
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Takes a packet that is lost.
    pub fn take_lost(&mut self) -> Option<Lost<B>> {
        let lost = self.lost.pop()?;
        if let Some(tally) = &mut self.tally {
            tally.take(lost.session, &lost.charge);
        }
        Some(lost)
    }
}
