//! A capture through the real path: one worker and Control on one thread, with the capture's time, its PFCP and its
//! packets.
//!
//! It goes through twice. The first time shows which next hops are asked for; the second time they are all known, so
//! that no packet waits for an answer that a capture does not have. The first is a part of the capture ahead of the
//! second, so that both end when no more packets are wanted.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flow::{InstanceId, Nanos, PortId, WorkerId};
use packet::{IpFrame, MacAddr};
use pfcp::{IeType, MessageType};
use rtrb::Consumer;
use rules::model::SourceInterface;
use rules::network::{Instance, Network, Roles};
use session::Random;
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{TraceItem, TraceTerms, Traced, Worker};

use super::capture::ETHERNET;
use super::explain::Explainer;
use super::replay::{self, Asked, Chosen, Head};
use crate::values::PacketTrace;
use config::{Bounded, Config};
use upf::{Assembly, Control, Surroundings, assemble};

mod frames;

pub use frames::{Capture, OfflineError};
use frames::{
    Ends, Frame, LONGEST, NEIGHBOUR, PFCP, answers_of, asked_for, framed, our_mac, packet_of, pfcp_of,
    read_all, read_ip,
};

/// The world begins a while after its clock's 0.
const BEGIN: Nanos = Nanos::from_secs(1);
/// Steps in which time passes between two packets, so that no timer is missed.
const STEPS: u64 = 64;
/// The shortest step.
const STEP: Duration = Duration::from_micros(20);
/// Turns in which what there is to be said at first is said.
const TURNS: usize = 4;
/// Turns that a request may take.
const PATIENCE: u32 = 200;
/// Addresses whose data networks are kept.
const MOST_CORES: usize = 100_000;
/// Frames that the first pass is ahead of the second, at least, where there are that many.
const PART: usize = 32_768;
/// Frames whose times are remembered, for packets that are reported when they have left a queue.
const REMEMBERED: usize = 65_536;
/// How long packets may wait in queues at the end of the capture.
const LAST_WAIT: Duration = Duration::from_secs(60);
/// The longest step while packets wait in queues.
const QUEUE_STEP: Duration = Duration::from_micros(100);
/// What snaps nothing.
const WHOLE: u16 = u16::MAX;

/// What there is to say of a replay as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Frames of the capture that were looked at.
    pub frames: u64,
    /// Those that were not, since no more packets were wanted; `None`: it was replayed to its end.
    pub left: Option<u64>,
    /// Of them, PFCP requests that were sent again.
    pub requests: u64,
    /// Of them, packets that were received.
    pub packets: u64,
    /// Of them, those that this node sent itself, and responses.
    pub own: u64,
    /// Of them, all others.
    pub others: u64,
    /// Anomalies, as text.
    pub notes: Vec<String>,
}

/// Replays a capture through the user plane of `config`, and calls `tell` for each packet until it returns false.
///
/// # Errors
/// When the configuration cannot be set up, or there is no capture.
pub fn replay(
    config: Config,
    capture: &Capture<'_>,
    tell: impl FnMut(PacketTrace) -> bool,
) -> Result<Replayed, OfflineError> {
    replay_by(config, capture, tell, PART)
}

/// The same, in parts of `part` frames.
fn replay_by(
    mut config: Config,
    capture: &Capture<'_>,
    mut tell: impl FnMut(PacketTrace) -> bool,
    part: usize,
) -> Result<Replayed, OfflineError> {
    // One worker serves all slices.
    config.workers.count = Bounded::new(1);
    config.slices.clear();
    // Own IPv6 addresses are in use with the first frame.
    config.neighbours.dad_transmits = Bounded::new(0);
    let few = config.limits.sessions.value().min(20_000);
    config.limits.sessions = Bounded::new(few);
    config.limits.flows_ipv4 = Bounded::new(config.limits.flows_ipv4.value().min(65_536));
    config.limits.flows_ipv6 = Bounded::new(config.limits.flows_ipv6.value().min(65_536));
    let (frames, cut) = read_all(capture)?;
    let answers = answers_of(&frames);
    // The choices of the captured user plane are passed to this one.
    config.n4.accept_cp_f_teids |= answers.values().any(|answer| Chosen::of(answer).has_any());
    let network = Arc::new(config.network().map_err(OfflineError::of)?);
    let explainer = Explainer::of(&config, network, 0);
    // What came by a member came by its LAG, whatever the partner says.
    config.ports.iter_mut().for_each(|port| port.lag = None);
    let mut scout = Scout::new(World::new(&config, explainer.clone(), capture)?, &frames, part);
    let mut world = World::new(&config, explainer, capture)?;
    world.macs.clone_from(&scout.world.macs);
    world.meet(scout.explore(&answers), &mut tell);
    for part in frames.chunks(part) {
        if world.is_over {
            break;
        }
        world.meet(scout.explore(&answers), &mut tell);
        world.frames(part, &answers, &mut tell);
    }
    world.finish(frames.len() as u64, &mut tell);
    let mut replayed = world.replayed;
    replayed.left = world.is_over.then(|| frames.len() as u64 - replayed.frames);
    replayed.notes.extend(cut);
    Ok(replayed)
}

/// Who goes ahead, to see which next hops are asked for.
struct Scout<'a> {
    world: World,
    parts: std::slice::Chunks<'a, Frame<'a>>,
}

impl<'a> Scout<'a> {
    fn new(mut world: World, frames: &'a [Frame<'a>], part: usize) -> Self {
        world.macs = world.learn_macs(frames);
        Self {
            world,
            parts: frames.chunks(part),
        }
    }

    /// Goes through the next part, if there is one; the next hops that it asks for.
    fn explore(&mut self, answers: &HashMap<Asked, Vec<u8>>) -> HashSet<(InstanceId, IpAddr)> {
        if let Some(part) = self.parts.next() {
            self.world.frames(part, answers, &mut |_| true);
            self.world.wait_for(Duration::from_millis(10), 0, &mut |_| true);
        }
        std::mem::take(&mut self.world.asked)
    }
}

struct World {
    now: Nanos,
    /// The capture's time when the world began.
    begin_ns: Option<u64>,
    network: Arc<Network>,
    n4: Vec<IpAddr>,
    port: Option<PortId>,
    control: Control,
    worker: Worker<MemIo>,
    wires: Wires,
    told: Consumer<TraceItem>,
    explainer: Explainer,
    /// This node's link layer addresses as the capture has them.
    macs: HashMap<PortId, [u8; 6]>,
    /// The instances of the data networks of UEs, as far as they were looked for since the last request.
    cores: RefCell<HashMap<IpAddr, Option<InstanceId>>>,
    /// Next hops that were asked for.
    asked: HashSet<(InstanceId, IpAddr)>,
    /// Our SEID of each session, by the one that it had in the capture; and by the SMF's.
    seids: HashMap<u64, u64>,
    by_cp_seid: HashMap<u64, u64>,
    /// When the last frames were received, and their numbers.
    received: VecDeque<(Nanos, u64)>,
    /// No more packets are wanted.
    is_over: bool,
    /// Responses of the user plane that were not used.
    answers: Vec<Vec<u8>>,
    /// SMFs that have an association.
    smfs: HashSet<IpAddr>,
    replayed: Replayed,
}

impl World {
    fn new(config: &Config, explainer: Explainer, capture: &Capture<'_>) -> Result<Self, OfflineError> {
        let network = Arc::clone(explainer.network());
        let ports = config.ports.len();
        let macs: Vec<MacAddr> = (0..ports).map(our_mac).collect();
        let instances = network.instances().iter();
        let around = Surroundings {
            now: BEGIN,
            clock_unix: 1_700_000_000,
            random: Random::from_number(1),
            interfaces: instances.map(|one| worker::interface(one, &macs)).collect(),
            macs,
        };
        let Assembly {
            mut control,
            mut workers,
        } = assemble(config, &network, around);
        let (wires, mut ios) = Wires::new(1, ports, 1_024);
        let (Some((mut made, link)), Some(io)) = (workers.pop(), ios.pop()) else {
            return Err(OfflineError("there is no worker".into()));
        };
        // Results do not depend on the machine's speed.
        made.slow_share_percent = 100;
        let port = match capture.port {
            None => None,
            Some(name) => Some(
                explainer
                    .port(name)
                    .ok_or_else(|| OfflineError(format!("there is no port `{name}`")))?,
            ),
        };
        let terms = TraceTerms {
            filter: capture.filter,
            snap: WHOLE,
            rate: u32::MAX,
            count: u64::MAX,
            lasts: Duration::MAX,
        };
        let mut told = control.trace(&terms, 4_096);
        let told = told
            .pop()
            .ok_or_else(|| OfflineError("there is no worker".into()))?;
        let mut world = Self {
            now: BEGIN,
            begin_ns: None,
            network,
            n4: config.n4.addresses.iter().map(|address| address.value).collect(),
            port,
            control,
            worker: Worker::new(made, io, link).map_err(OfflineError::of)?,
            wires,
            told,
            explainer,
            macs: HashMap::new(),
            cores: RefCell::default(),
            asked: HashSet::new(),
            seids: HashMap::new(),
            by_cp_seid: HashMap::new(),
            received: VecDeque::new(),
            is_over: false,
            answers: Vec::new(),
            smfs: HashSet::new(),
            replayed: Replayed::default(),
        };
        for _ in 0..TURNS {
            world.turn(0, &mut |_| true);
        }
        Ok(world)
    }

    /// Knows these next hops from now on.
    fn meet(
        &mut self,
        neighbours: HashSet<(InstanceId, IpAddr)>,
        tell: &mut impl FnMut(PacketTrace) -> bool,
    ) {
        // A worker takes some commands each time.
        let turns = neighbours.len() / 8 + TURNS;
        for (instance, address) in neighbours {
            self.control.add_neighbour(self.now, instance, address, NEIGHBOUR);
        }
        (0..turns).for_each(|_| self.turn(self.replayed.frames, tell));
    }

    /// Deals with the next frames of the capture, as long as more packets are wanted.
    fn frames(
        &mut self,
        frames: &[Frame<'_>],
        answers: &HashMap<Asked, Vec<u8>>,
        tell: &mut impl FnMut(PacketTrace) -> bool,
    ) {
        for frame in frames {
            if self.is_over {
                return;
            }
            self.replayed.frames += 1;
            self.frame(self.replayed.frames, frame, answers, tell);
        }
    }

    /// Lets the capture's time come to a frame, and deals with it.
    fn frame(
        &mut self,
        number: u64,
        frame: &Frame<'_>,
        answers: &HashMap<Asked, Vec<u8>>,
        tell: &mut impl FnMut(PacketTrace) -> bool,
    ) {
        let begin = *self.begin_ns.get_or_insert_with(|| {
            let begin = frame.time_ns;
            self.explainer = self.explainer.clone().at(begin.saturating_sub(BEGIN.0));
            begin
        });
        let due = BEGIN + Duration::from_nanos(frame.time_ns.saturating_sub(begin));
        self.wait_for(due.since(self.now), number.saturating_sub(1), tell);
        let packet = packet_of(frame);
        let pfcp = packet.as_deref().and_then(pfcp_of);
        if let Some((ends, message)) = pfcp {
            return self.pfcp(ends, message, answers, number, tell);
        }
        match self.arrival(frame, packet.as_deref()) {
            Some((port, bytes)) => {
                self.replayed.packets += 1;
                self.part_times();
                self.received.truncate(REMEMBERED - 1);
                self.received.push_front((self.now, number));
                let queue = self.wires.to(WorkerId(0), port);
                let _ = queue.push(MemBuf::new(&bytes));
                self.turn(number, tell);
                self.turn(number, tell);
            }
            None if frame.captured.is_outbound == Some(true) => self.replayed.own += 1,
            None => self.count_other(packet.as_deref()),
        }
    }

    fn count_other(&mut self, packet: Option<&[u8]>) {
        match packet {
            Some(_) => self.replayed.own += 1,
            None => self.replayed.others += 1,
        }
    }

    fn wait_for(&mut self, time: Duration, number: u64, tell: &mut impl FnMut(PacketTrace) -> bool) {
        let end = self.now + time;
        let step = STEP.max(time / STEPS as u32);
        while self.now < end && !self.is_over {
            let step = match self.worker.stats().queued {
                0 => step,
                _ => step.min(QUEUE_STEP),
            };
            self.now = end.min(self.now + step);
            self.turn(number, tell);
        }
    }

    /// With queues packets are known by when they came: no two come at one time.
    fn part_times(&mut self) {
        let last = self.received.front().map(|(time, _)| *time);
        if self.network.egress().is_some() {
            self.now = last.map_or(self.now, |last| self.now.max(last + Duration::from_nanos(1)));
        }
    }

    /// Lets what waits leave.
    fn finish(&mut self, number: u64, tell: &mut impl FnMut(PacketTrace) -> bool) {
        self.wait_for(Duration::from_millis(10), number, tell);
        let end = self.now + LAST_WAIT;
        while self.worker.stats().queued > 0 && self.now < end && !self.is_over {
            self.wait_for(Duration::from_millis(10), number, tell);
        }
    }

    /// The number of a packet that is reported after frame `number`: that is its own, unless it has waited in a queue.
    fn number_of(&self, traced: &Traced, number: u64) -> u64 {
        let mut received = self.received.iter().filter(|_| traced.queueing.is_some());
        let found = received.find(|(time, _)| *time <= traced.time);
        found.map_or(number, |(_, number)| *number)
    }

    /// One turn at the present time.
    fn turn(&mut self, number: u64, tell: &mut impl FnMut(PacketTrace) -> bool) {
        self.control.poll(self.now);
        self.answer_requests();
        self.worker.poll(self.now);
        for port in (0..self.explainer.ports().len()).map(|port| PortId(port as u16)) {
            while let Some(frame) = self.wires.from(port).pop() {
                self.asked.extend(asked_for(&self.network, port, frame.bytes()));
            }
        }
        while let Ok(item) = self.told.pop() {
            if let TraceItem::Packet(traced) = item
                && !self.is_over
            {
                let number = self.number_of(&traced, number);
                self.is_over = !tell(self.explainer.explain_whole(&traced, number));
            }
        }
    }

    /// A PFCP message: a request to this node is said again, an answer was looked at already.
    fn pfcp(
        &mut self,
        ends: Ends,
        message: &[u8],
        answers: &HashMap<Asked, Vec<u8>>,
        number: u64,
        tell: &mut impl FnMut(PacketTrace) -> bool,
    ) {
        let Some(head) =
            Head::read(message).filter(|head| head.kind.is_request() && self.n4.contains(&ends.to.ip()))
        else {
            self.replayed.own += 1;
            return;
        };
        self.replayed.requests += 1;
        self.cores.borrow_mut().clear();
        if head.kind == MessageType::ASSOCIATION_SETUP_REQUEST {
            self.smfs.insert(ends.from.ip());
        } else if head.kind.is_session() && self.smfs.insert(ends.from.ip()) {
            self.associate(ends, message, number, tell);
        }
        let was = answers.get(&Asked {
            from: ends.from.ip(),
            kind: head.kind,
            sequence: head.sequence,
        });
        let seid = head.seid.and_then(|seid| self.seids.get(&seid).copied());
        let chosen = was.map(|answer| Chosen::of(answer)).unwrap_or_default();
        let request = chosen.fill(message, seid);
        let is = self.ask(ends, &request, number, tell);
        let cause = |answer: &[u8]| {
            replay::of_message(answer, IeType::CAUSE).and_then(|cause| cause.first().copied())
        };
        let up_seid = |answer: &[u8]| replay::seid_of(replay::of_message(answer, IeType::F_SEID)?);
        let Some(is) = is else {
            return self.note(number, "a PFCP request got no answer");
        };
        let cp_seid = replay::of_message(&request, IeType::F_SEID).and_then(replay::seid_of);
        if let (MessageType::SESSION_ESTABLISHMENT_REQUEST, Some(own)) = (head.kind, up_seid(&is)) {
            self.seids
                .extend(was.and_then(|was| up_seid(was)).map(|then| (then, own)));
            self.by_cp_seid.extend(cp_seid.map(|cp| (cp, own)));
        }
        match (was.and_then(|was| cause(was)), cause(&is)) {
            (Some(then), Some(now)) if then != now => {
                self.note(
                    number,
                    &format!("a PFCP request got cause {now}, and {then} when it was captured"),
                );
            }
            (None, Some(now)) if now != 1 => self.note(number, &format!("a PFCP request got cause {now}")),
            _ => {}
        }
    }

    fn note(&mut self, number: u64, words: &str) {
        if self.replayed.notes.len() < 100 {
            self.replayed.notes.push(format!("frame {number}: {words}"));
        }
    }

    /// The capture began behind the association's setup.
    fn associate(
        &mut self,
        ends: Ends,
        message: &[u8],
        number: u64,
        tell: &mut impl FnMut(PacketTrace) -> bool,
    ) {
        let octets = match ends.from.ip() {
            IpAddr::V4(address) => [&[0][..], &address.octets()].concat(),
            IpAddr::V6(address) => [&[1][..], &address.octets()].concat(),
        };
        let node = replay::of_message(message, IeType::NODE_ID).map_or(octets, <[u8]>::to_vec);
        let ies = [
            replay::ie(IeType::NODE_ID, &node),
            replay::ie(IeType::RECOVERY_TIME_STAMP, &3_900_000_000_u32.to_be_bytes()),
        ];
        let setup = replay::message(
            MessageType::ASSOCIATION_SETUP_REQUEST,
            None,
            0x00ff_ff00,
            &ies.concat(),
        );
        if self.ask(ends, &setup, number, tell).is_some() {
            self.note(
                number,
                "the association was set up before the capture began: set up here, too",
            );
        }
    }

    /// Says a request, and gives its answer.
    fn ask(
        &mut self,
        ends: Ends,
        request: &[u8],
        number: u64,
        tell: &mut impl FnMut(PacketTrace) -> bool,
    ) -> Option<Vec<u8>> {
        let sequence = Head::read(request)?.sequence;
        self.control
            .handle_datagram(self.now, ends.from, ends.to, request);
        self.answers.clear();
        for _ in 0..PATIENCE {
            self.answer_requests();
            let is_it = |answer: &Vec<u8>| Head::read(answer).is_some_and(|head| head.sequence == sequence);
            if let Some(place) = self.answers.iter().position(is_it) {
                return Some(self.answers.swap_remove(place));
            }
            self.now = self.now + Duration::from_micros(1);
            self.turn(number, tell);
        }
        None
    }

    /// Answers what the user plane asks of its own accord, as an SMF does that agrees.
    fn answer_requests(&mut self) {
        while let Some(said) = self.control.poll_transmit() {
            self.answer(said.to, &said.bytes);
        }
    }

    fn answer(&mut self, smf: SocketAddr, request: &[u8]) {
        let Some(head) = Head::read(request) else { return };
        let Some(response) = head.kind.response() else {
            return self.answers.push(request.to_vec());
        };
        let stamp = replay::ie(IeType::RECOVERY_TIME_STAMP, &3_900_000_000_u32.to_be_bytes());
        let accepted = replay::ie(IeType::CAUSE, &[1]);
        let (seid, ies) = match head.kind {
            MessageType::HEARTBEAT_REQUEST => (None, stamp),
            MessageType::SESSION_REPORT_REQUEST => {
                let seid = head.seid.and_then(|cp| self.by_cp_seid.get(&cp).copied());
                (Some(seid.unwrap_or(0)), accepted)
            }
            _ => return,
        };
        let answer = replay::message(response, seid, head.sequence, &ies);
        if let Some(own) = self.n4.first() {
            let to = SocketAddr::new(*own, PFCP);
            self.control.handle_datagram(self.now, smf, to, &answer);
        }
    }

    /// The port that a frame was captured at, if that is known.
    fn port_of(&self, frame: &Frame<'_>) -> Option<PortId> {
        let name = frame
            .interface
            .as_deref()
            .map(|name| name.split('/').next().unwrap_or(name));
        self.port.or_else(|| self.explainer.port(name?))
    }

    /// The link layer address that most of what came in by a port was for: this node's own there, unless some came for
    /// the address that it has here.
    fn learn_macs(&self, frames: &[Frame<'_>]) -> HashMap<PortId, [u8; 6]> {
        let mut counts: HashMap<PortId, HashMap<[u8; 6], usize>> = HashMap::new();
        for frame in frames.iter().filter(|frame| frame.link == ETHERNET) {
            let Some(to) = frame.captured.octets.first_chunk::<6>() else {
                continue;
            };
            let came = frame.captured.is_outbound != Some(true) && to[0] & 1 == 0;
            let own = packet_of(frame).as_deref().and_then(read_ip).is_some_and(|ip| {
                frame.captured.is_outbound.is_none() && self.network.local(ip.tuple.addrs.src()).is_some()
            });
            if let Some(port) = self.port_of(frame).filter(|_| came && !own) {
                *counts.entry(port).or_default().entry(*to).or_default() += 1;
            }
        }
        let most = |port: PortId, macs: HashMap<[u8; 6], usize>| {
            let ours = our_mac(port.index()).0;
            let most = macs
                .iter()
                .max_by_key(|(mac, count)| (**count, **mac))
                .map(|(mac, _)| *mac);
            macs.contains_key(&ours).then_some(ours).or(most)
        };
        let learnt = counts
            .into_iter()
            .filter_map(|(port, macs)| Some((port, most(port, macs)?)));
        learnt.collect()
    }

    /// Where a frame came in, and how it looks there; `None` for what did not come in.
    fn arrival(&self, frame: &Frame<'_>, packet: Option<&[u8]>) -> Option<(PortId, Vec<u8>)> {
        if frame.captured.is_outbound == Some(true) {
            return None;
        }
        let port = self.port_of(frame);
        let is_ours = || packet.and_then(read_ip).is_some_and(|ip| self.is_own(&ip));
        if let Some(port) = port
            && frame.link == ETHERNET
        {
            let is_told = frame.captured.is_outbound.is_some();
            if !is_told && is_ours() {
                return None;
            }
            let mut bytes = frame.captured.octets.to_vec();
            bytes.resize(frame.captured.len.min(LONGEST).max(bytes.len()), 0);
            let learnt = self.macs.get(&port);
            if let Some(to) = bytes.first_chunk_mut::<6>()
                && learnt == Some(&*to)
            {
                *to = our_mac(port.index()).0;
            }
            return Some((port, bytes));
        }
        let packet = packet?;
        let ip = read_ip(packet);
        if ip.as_ref().is_some_and(|ip| self.is_own(ip)) {
            return None;
        }
        let instance = match port {
            Some(port) => self.network.instances().iter().find(|one| one.port == port),
            None => self.instance_of(ip.as_ref()),
        };
        let instance = instance?;
        Some((instance.port, framed(instance, packet)))
    }

    /// Whether this node sent a packet: from one of its addresses, or, plain, from a UE.
    fn is_own(&self, ip: &IpFrame) -> bool {
        let (from, to) = (ip.tuple.addrs.src(), ip.tuple.addrs.dst());
        let is_local = |address| self.network.local(address).is_some();
        is_local(from) || !is_local(to) && self.core_of(from).is_some() && self.core_of(to).is_none()
    }

    /// The instance that a packet comes in by, from its addresses.
    fn instance_of(&self, ip: Option<&IpFrame>) -> Option<&Instance> {
        let to = ip.map(|ip| ip.tuple.addrs.dst());
        let local = to.and_then(|to| self.network.local(to));
        let by_address = local.map(|(instance, _)| instance);
        let by_ue = || to.and_then(|to| self.core_of(to));
        let id = by_address.or_else(by_ue);
        let first = || self.network.first_with(Roles::N6);
        id.and_then(|id| self.network.instance(id)).or_else(first)
    }

    /// The instance of the data network of the session with this UE address.
    fn core_of(&self, ue: IpAddr) -> Option<InstanceId> {
        if let Some(known) = self.cores.borrow().get(&ue) {
            return *known;
        }
        let core = self.find_core(ue);
        let mut cores = self.cores.borrow_mut();
        if cores.len() < MOST_CORES {
            cores.insert(ue, core);
        }
        core
    }

    fn find_core(&self, ue: IpAddr) -> Option<InstanceId> {
        let has = |rules: &rules::SessionRules| rules.ue_prefixes().iter().any(|own| own.contains(ue));
        let session = self.worker.session_views().find(|session| has(session.rules()))?;
        let from_core = session.rules().pdrs().iter().find(|pdr| {
            let interface = pdr.pdi.source_interface;
            pdr.pdi.f_teid.is_none()
                && (interface == SourceInterface::Core || interface == SourceInterface::SgiLan)
        });
        let named = from_core.and_then(|pdr| pdr.pdi.instance);
        let named = named.and_then(|id| self.network.instance(id));
        let fit = named.filter(|instance| instance.roles.intersects(Roles::N6));
        Some(fit.or_else(|| self.network.first_with(Roles::N6))?.id)
    }
}

#[cfg(test)]
mod tests;
