//! An accelerator beside a world: the same network and next hops, and session blocks and flow entries as the worker
//! would make them.

use std::sync::Arc;

use flow::contract::AnyKey;
use flow::{
    Direction, FlowEntry, FlowFlags, Installed, InstanceId, KeyFields, Nanos, PortId, Seed, UrrCount,
    Verdict, WorkerId,
};
use packet::eth::L2;
use packet::frame::parse_inner;
use packet::gtpu::MessageType;
use packet::{DropReason, GtpuFrame, IpFrame, IpTuple, MacAddr};
use rules::SessionRules;
use rules::classifier::{Key, Match, PacketView, Side, flow_key};
use rules::image::SessionImage;
use rules::model::{BitRates, BitsPerSecond, PdrId, PdrUpdate, Qer, QerId};
use rules::network::Network;
use rules::testing;
use worker::PacketMetadata;
use worker::accelerator::{Engine, EngineConfig, Exception, Reason};
use worker::mem::{MemBuf, MemIo, Wires};

use super::one_session::{session, to_ue, uplink};
use super::{World, frame, our_mac, ports};

/// An engine with its wires.
pub struct Accelerator {
    pub engine: Engine<MemIo>,
    pub wires: Wires,
    network: Arc<Network>,
    ports: u16,
    pub now: Nanos,
}

/// A session in an engine.
pub struct Guest {
    pub image: Box<SessionImage>,
    pub installed: Installed,
}

impl Accelerator {
    /// An accelerator in the network of `world`, with its next hops.
    pub fn beside(world: &World) -> Self {
        Self::with(world, |_| {}, |_| {})
    }

    /// The same, configured by `configure`, over ports of which `able` says what they can do.
    pub fn with(world: &World, configure: impl Fn(&mut EngineConfig), able: impl Fn(&mut MemIo)) -> Self {
        let ports = ports(&world.network);
        let (wires, mut ios) = Wires::new(1, usize::from(ports) + 1, 1024);
        let mut io = ios.remove(0);
        able(&mut io);
        let macs: Vec<MacAddr> = (0..ports).map(our_mac).collect();
        let network = Arc::clone(&world.network);
        let mut config = EngineConfig::new(Arc::clone(&network), macs, PortId(ports), Seed([3, 5]));
        (config.max_sessions, config.max_adjacencies) = (4096, 1024);
        (config.max_flows_v4, config.max_flows_v6) = (4096, 4096);
        configure(&mut config);
        let mut engine = Engine::new(config, io).expect("there is memory");
        for change in &world.adjacencies {
            assert!(engine.change_adjacency(change));
        }
        Self {
            engine,
            wires,
            network,
            ports,
            now: world.now,
        }
    }

    /// Its port towards the host.
    pub const fn host_port(&self) -> u16 {
        self.ports
    }

    /// Installs the block of a session.
    pub fn install(&mut self, image: &SessionImage) -> Guest {
        let block = (*image.block).clone();
        let blocks = self.engine.blocks_mut();
        let installed = blocks.install(image.session, &block).expect("there is room");
        for slot in 0..block.urrs {
            blocks.look_at_bounds(installed.block, slot);
        }
        Guest {
            image: Box::new(image.clone()),
            installed,
        }
    }

    /// The flow entry for the packets of this one, if their session has one that an accelerator may have.
    pub fn entry(&self, guest: &Guest, ingress: InstanceId, frame: &[u8]) -> Option<FlowEntry<AnyKey>> {
        let (side, tuple) = seen(&self.network, ingress, frame)?;
        let image = &guest.image;
        let is_owned = match side {
            Side::Tunnel { local, teid, .. } => image.tunnels.contains(&(local, teid)),
            Side::Plain { vrf } => {
                let mut own = image.ue_addresses.iter();
                own.any(|(own, prefix)| *own == vrf && prefix.contains(tuple.addrs.dst()))
            }
        };
        let view = PacketView { side, tuple: &tuple };
        let found = image.classifier.classify(&view).filter(|_| is_owned)?;
        let decision = &found.decision;
        let may_be_given = found.is_decided()
            && !decision.is_denied()
            && !found.reads_detection
            && found.access.is_none_or(|access| access.connections.is_none())
            && image
                .classifier
                .allows_source(decision.source_check, tuple.addrs.src())
            && !tuple.addrs.has_unforwardable_destination();
        may_be_given.then(|| self.entry_by(guest, &found, found.key, view))
    }

    fn entry_by(
        &self,
        guest: &Guest,
        found: &Match,
        fields: KeyFields,
        view: PacketView<'_>,
    ) -> FlowEntry<AnyKey> {
        let decision = &found.decision;
        let is_downlink = decision.direction == Direction::Downlink;
        let verdict = Verdict {
            qers: decision.qers,
            urrs: decision.urrs,
            pdr: decision.pdr,
            forward: decision.forward,
            marking: decision.marking,
            flags: FlowFlags::NONE
                .with_if(FlowFlags::DOWNLINK, is_downlink)
                .with_if(FlowFlags::REMOVES_OUTER, decision.removes_outer)
                .with_if(FlowFlags::DELETES_PSC, decision.deletes_psc),
            ..Verdict::NONE
        };
        let key = match flow_key(fields, &view) {
            Key::V4(key) => AnyKey::V4(key),
            Key::V6(key) => AnyKey::V6(key),
        };
        let mut entry = FlowEntry {
            key,
            verdict,
            extension: flow::ExtensionId::NONE,
            idle: 1000,
            snapshot: 0,
        };
        let block = self.engine.session_block(guest.installed.block);
        block
            .expect("it is installed")
            .fill_entry(guest.installed.block, &mut entry);
        entry
    }

    /// The entry of a packet, from its IP header on, that comes in by `port`.
    pub fn entry_of(&self, guest: &Guest, port: u16, packet: &[u8]) -> FlowEntry<AnyKey> {
        let entry = self.entry(guest, InstanceId(port), &frame(port, packet));
        entry.expect("the session has a decision that holds")
    }

    /// Gives the flow of a packet.
    pub fn give(&mut self, guest: &Guest, port: u16, packet: &[u8]) {
        let entry = self.entry_of(guest, port, packet);
        self.engine.put(&entry, self.now).expect("there is room");
    }

    /// Lets a frame come in.
    pub fn arrive(&mut self, port: u16, frame: &[u8]) {
        let queue = self.wires.to(WorkerId(0), PortId(port));
        queue.push(MemBuf::new(frame)).expect("there is room on the wire");
    }

    /// Polls it; time passes.
    pub fn poll(&mut self) {
        self.now = self.now + std::time::Duration::from_micros(10);
        self.engine.poll(self.now);
    }

    /// Lets `packet`, from its IP header on, come in by `port`, and what goes out for it.
    pub fn send(&mut self, port: u16, packet: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        self.send_frame(port, &frame(port, packet))
    }

    /// The same of a frame.
    pub fn send_frame(&mut self, port: u16, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        self.arrive(port, frame);
        self.poll();
        self.take()
    }

    /// Whatever has gone out since, by ports of the network.
    pub fn take(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let mut out = Vec::new();
        for port in (0..self.ports).map(PortId) {
            while let Some(buf) = self.wires.from(port).pop() {
                out.push((port, buf.bytes().to_vec()));
            }
        }
        out
    }

    /// The exceptions since.
    pub fn exceptions(&mut self) -> Vec<Exception<MemBuf>> {
        std::iter::from_fn(|| self.engine.next_exception()).collect()
    }

    /// The one exception since: its reason, ingress and octets.
    pub fn exception(&mut self) -> Option<(Reason, PortId, Vec<u8>)> {
        let mut exceptions = self.exceptions();
        assert!(
            exceptions.len() < 2,
            "one packet, several exceptions: {exceptions:?}"
        );
        let Exception { packet, reason, .. } = exceptions.pop()?;
        Some((reason, packet.ingress(), packet.bytes().to_vec()))
    }

    /// What the URR in a slot of a session has counted.
    pub fn count(&self, guest: &Guest, slot: u8) -> UrrCount {
        let block = self.engine.session_block(guest.installed.block);
        block
            .and_then(|block| block.urr(slot))
            .expect("there is a counter")
    }

    /// What all URRs of a session have counted, by slot.
    pub fn counts(&self, guest: &Guest) -> Vec<UrrCount> {
        (0..guest.image.urr_ids.len() as u8)
            .map(|slot| self.count(guest, slot))
            .collect()
    }

    /// Why packets were dropped: a count by reason.
    pub fn drops(&self) -> Vec<u64> {
        self.engine.stats().path.drops.to_vec()
    }

    /// Asserts that every packet that came in is accounted exactly once.
    pub fn assert_conserved(&self) {
        let stats = self.engine.stats().path;
        assert_eq!(stats.unaccounted(), 0, "{stats:?}");
    }
}

/// The session in an accelerator beside the worker that has it, with both of its flows.
pub fn both() -> (World, Accelerator, Guest) {
    with(session(), testing::network(), |_| {})
}

pub fn with(
    rules: SessionRules,
    network: Network,
    configure: impl Fn(&mut EngineConfig),
) -> (World, Accelerator, Guest) {
    let mut world = World::with(network, 1, |_| {});
    let image = world.install(1, rules);
    let mut beside = Accelerator::with(&world, configure, |_| {});
    let guest = beside.install(&image);
    beside.give(&guest, 0, &uplink());
    beside.give(&guest, 1, &to_ue());
    (world, beside, guest)
}

/// Why a packet that comes in alone is the host's: it is as it was received, and counted nowhere.
pub fn reason(beside: &mut Accelerator, guest: &Guest, port: u16, packet: &[u8]) -> Option<Reason> {
    reason_of_frame(beside, guest, port, &frame(port, packet))
}

pub fn reason_of_frame(beside: &mut Accelerator, guest: &Guest, port: u16, frame: &[u8]) -> Option<Reason> {
    let before = (
        beside.counts(guest),
        beside.drops(),
        beside.engine.stats().path.directions,
    );
    let tokens = tokens(beside, guest);
    let out = beside.send_frame(port, frame);
    let (reason, ingress, octets) = beside.exception()?;
    assert!(out.is_empty(), "it is the host's");
    assert_eq!((ingress, octets), (PortId(port), frame.to_vec()));
    let after = (
        beside.counts(guest),
        beside.drops(),
        beside.engine.stats().path.directions,
    );
    assert_eq!(after, before, "{reason:?} is counted nowhere");
    for (before, after) in tokens.iter().zip(self::tokens(beside, guest)) {
        assert!(after >= *before, "{reason:?} took tokens: {before} {after}");
    }
    beside.assert_conserved();
    Some(reason)
}

/// What the first meters of the session hold, by direction.
fn tokens(beside: &Accelerator, guest: &Guest) -> Vec<u64> {
    let block = beside.engine.session_block(guest.installed.block);
    let tokens = |direction| block.as_ref().and_then(|block| block.tokens(1, direction));
    Direction::BOTH
        .map(|direction| tokens(direction).unwrap_or_default().left[0])
        .to_vec()
}

/// The reason why a packet is dropped that comes in alone.
pub fn dropped(beside: &mut Accelerator, port: u16, packet: &[u8]) -> Option<DropReason> {
    let before = beside.drops();
    beside.send(port, packet);
    assert_eq!(beside.exception(), None);
    let after = beside.drops();
    let mut reasons = DropReason::ALL.into_iter();
    reasons.find(|reason| after[reason.index()] > before[reason.index()])
}

/// The session with a QER of this rate in both PDRs.
pub fn limited(kbit: u64) -> SessionRules {
    let mut rules = session();
    let rate = BitsPerSecond::from_kbit(kbit);
    let qer = Qer {
        mbr: Some(BitRates { ul: rate, dl: rate }),
        ..Qer::new(QerId(2))
    };
    rules.create_qer(qer).expect("it is new");
    for id in [PdrId(1), PdrId(2)] {
        let update = PdrUpdate {
            qers: Some(vec![QerId(1), QerId(2)]),
            ..PdrUpdate::new(id)
        };
        rules.update_pdr(update).expect("it is there");
    }
    rules
}

/// Where a frame came in and what it is; `None` for malformed ones and messages without a user packet.
fn seen(network: &Network, ingress: InstanceId, frame: &[u8]) -> Option<(Side, IpTuple)> {
    let l2 = L2::parse(frame).ok()?;
    let ip = IpFrame::parse(frame, frame.len(), &l2).ok()?;
    let Some((_, local)) = network.local(ip.tuple.addrs.dst()).filter(|_| ip.may_be_gtpu()) else {
        let vrf = network.instance(ingress)?.vrf;
        return Some((Side::Plain { vrf }, ip.tuple));
    };
    let gtpu = GtpuFrame::parse(frame, &ip).ok()?;
    let tuple = parse_inner(frame, &gtpu).ok()?;
    let side = Side::Tunnel {
        local,
        teid: gtpu.teid,
        qfi: gtpu.qfi,
    };
    (gtpu.message_type == MessageType::G_PDU).then_some((side, tuple))
}
