//! The tables of an engine keep the FlowOp contract, and its packets meet what the contract says: the suite of crate
//! `flow` over them, with real frames.
//!
//! Frames are to show what became of them. So each egress that the suite has forwards lead to is an instance with a
//! VLAN and a router of its own, and marks are the DSCP and PCP of frames. No packet is shorter than its IP header: an
//! octet of the suite is [`UNIT`] octets here.

use flow::conformance::{Driver, backends_agree, local};
use flow::contract::{
    Adjacency, AnyKey, Backend, Capabilities, Departed, Epoch, Event, Fate, FlowOp, Instance, InstanceUses,
    Mss, Notice, Object, Outcome, PacketPath, QfiMark, Refusal, Reply, Request, Route, RoutePrefix,
    RouteTarget, Subject, TooLong, Why,
};
use flow::meter::{Colour, MeterSpec, Offer, Rate};
use flow::table_backend::TableBackend;
use flow::{
    AdjacencyId, Bounds, CounterLimit, Forward, ForwardFlags, ForwardKind, InstanceId, KeyFields, Mark,
    Nanos, OpId, PortId, Seed, UrrCount, Volumes, VrfId, WorkerId,
};
use offload::channel::{ChannelConfig, Key, Role};
use packet::{DropReason, MacAddr, VlanId, checksum};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use worker::EgressLimits;
use worker::accelerator::{Engine, EngineConfig, EngineTables, NodeConfig, QueueLimits, Reason};
use worker::mem::{MemBuf, MemIo, Wires};

/// Octets of a packet for one of the suite's.
const UNIT: u32 = 20;
/// Ports of the network; the next is the host's.
const PORTS: u16 = 8;
/// The instance by which packets come in, in the suite's address space.
const INGRESS: u16 = 99;
/// The instance that takes the place of the suite's first.
const FIRST: u16 = 100;
/// How many there are.
const INSTANCES: u16 = 128;
/// The adjacency of the first instance's router.
const ROUTERS: u32 = 512;
/// VLANs are their instances' numbers and this.
const VLANS: u16 = 1000;
/// The bit of the numbers of own requests.
const OWN: u64 = 1 << 63;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// An engine whose frames are at hand.
struct EnginePath {
    backend: TableBackend<EngineTables<MemIo>>,
    wires: Wires,
    /// Own requests so far.
    asked: u64,
    /// Frames that have left queues.
    departed: Vec<Vec<u8>>,
}

impl EnginePath {
    fn new(seed: u64) -> Self {
        let (wires, mut ios) = Wires::new(1, usize::from(PORTS) + 1, 512);
        let macs = vec![MAC; usize::from(PORTS)];
        let mut config = EngineConfig::new(Arc::default(), macs, PortId(PORTS), Seed([seed, 1]));
        (config.max_sessions, config.max_adjacencies) = (16, 1024);
        (config.max_flows_v4, config.max_flows_v6) = (64, 0);
        config.content_counters = 1024;
        config.queues = Some(QueueLimits::new(EgressLimits {
            packets: 256,
            octets: 1 << 24,
            queues: 40,
        }));
        let channel = ChannelConfig::new(
            Role::Accelerator,
            1,
            MAC,
            Key::new(vec![7; 32]).expect("32 octets"),
            1,
        );
        let can = NodeConfig::new(config.clone(), channel).capabilities();
        let engine = Engine::new(config, ios.remove(0)).expect("there is memory");
        let mut path = Self {
            backend: TableBackend::new(can, Epoch(1), EngineTables::new(engine)),
            wires,
            asked: 0,
            departed: Vec::new(),
        };
        path.say_network();
        path
    }

    fn ask(&mut self, op: FlowOp) {
        self.asked += 1;
        self.backend.submit(Request {
            id: OpId(OWN | self.asked),
            epoch: self.backend.epoch(),
            subject: Subject::Node,
            op,
        });
    }

    /// Says what network there is.
    fn say_network(&mut self) {
        let ingress = instance(INGRESS, VrfId(1), InstanceUses::PLAIN);
        self.ask(FlowOp::Install(ingress));
        for number in 0..INSTANCES {
            let (id, vrf) = (InstanceId(FIRST + number), VrfId(2 + number));
            let router = AdjacencyId(ROUTERS + u32::from(number));
            let prefix = RoutePrefix {
                vrf,
                prefix: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)),
                length: 24,
            };
            let adjacency = Adjacency {
                instance: id,
                address: Some(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1))),
                mac: Some([2, 0, 0, 0, 9, number as u8]),
            };
            let target = RouteTarget::Router(id, Some(router));
            self.ask(FlowOp::Install(instance(id.0, vrf, InstanceUses::PLAIN)));
            self.ask(FlowOp::Install(Object::Adjacency {
                id: router,
                adjacency,
            }));
            self.ask(FlowOp::Install(Object::Route(Route { prefix, target })));
        }
        self.ask(FlowOp::Fence);
    }

    /// What the packet of a key that leaves is to look like: the colour that its meters give it, and its forward.
    fn foreseen(&self, key: &AnyKey, octets: u32, now: Nanos) -> Option<(Forward, Colour)> {
        let engine = self.backend.tables().engine();
        let verdict = engine.entry(key)?.verdict;
        let block = engine.session_block(verdict.block)?;
        let meters = (0..64).filter(|slot| verdict.qers >> slot & 1 == 1);
        let meters = meters.filter_map(|slot| block.meter(slot, verdict.direction()));
        let colours = meters.map(|mut meter| meter.offer(&Offer::new(octets, now)));
        Some((
            block.forward(verdict.forward),
            colours.max().unwrap_or(Colour::Green),
        ))
    }

    fn drops(&self) -> Vec<u64> {
        self.backend.tables().engine().stats().path.drops.to_vec()
    }

    /// Packets that queues have taken so far, less those that were taken out of them.
    fn queued(&self) -> u64 {
        let counts = self.backend.tables().engine().queue_counts();
        let classes = counts.expect("it has queues").priorities;
        classes.iter().map(|class| class.packets + class.departed).sum()
    }

    fn take(&self, port: u16) -> Vec<Vec<u8>> {
        let queue = self.wires.from(PortId(port));
        std::iter::from_fn(|| queue.pop())
            .map(|buf| buf.bytes().to_vec())
            .collect()
    }

    /// What became of the one packet since, when these had been dropped and queued.
    fn fate(
        &mut self,
        (drops, queued): (&[u64], u64),
        key: &AnyKey,
        foreseen: Option<(Forward, Colour)>,
    ) -> Fate {
        if let Some(exception) = self.backend.tables_mut().engine_mut().next_exception() {
            return match exception.reason {
                Reason::NoFlow | Reason::Stale => {
                    self.backend.tell_miss(*key);
                    Fate::Missed
                }
                Reason::Action => Fate::Trapped(Why::Action),
                Reason::Limit => Fate::Trapped(Why::Limit),
                Reason::Adjacency => Fate::Trapped(Why::Adjacency),
                other => panic!("an exception of the suite is {other:?}"),
            };
        }
        let now = self.drops();
        let mut reasons = DropReason::ALL.into_iter();
        if let Some(reason) = reasons.find(|reason| now[reason.index()] > drops[reason.index()]) {
            return Fate::Dropped(match reason {
                DropReason::FarDrop => Why::Action,
                DropReason::GateClosed => Why::Gate,
                DropReason::MeterRed => Why::Meter,
                DropReason::QuotaExhausted => Why::Limit,
                DropReason::EgressQueueFull | DropReason::EgressDelay => Why::Queue,
                other => panic!("a packet of the suite is dropped: {other:?}"),
            });
        }
        if self.queued() > queued {
            return Fate::Queued;
        }
        let (forward, colour) = foreseen.expect("a packet leaves by a flow");
        let is_its = |frame: &Vec<u8>| frame[18 + 16..18 + 20] == destination(key);
        let sent: Vec<Vec<u8>> = self
            .take(0)
            .into_iter()
            .chain(std::mem::take(&mut self.departed))
            .collect();
        let (sent, departed) = sent.into_iter().partition(is_its);
        let sent: Vec<Vec<u8>> = sent;
        self.departed = departed;
        let [frame] = sent.as_slice() else {
            panic!("{} frames leave for one", sent.len())
        };
        self.passed(frame, forward, colour)
    }

    /// Reads a frame that has left.
    fn passed(&self, frame: &[u8], forward: Forward, unmarked: Colour) -> Fate {
        let tag = u16::from_be_bytes([frame[14], frame[15]]);
        if forward.adjacency == AdjacencyId::BY_DESTINATION {
            assert_eq!(tag & 0xfff, VLANS + forward.egress.0, "it leaves by its instance");
        }
        if let Some(port) = forward.mirror {
            let copies = self.take(port.0);
            assert_eq!(copies.len(), 1, "one copy by its port");
        }
        let (pcp, dscp) = ((tag >> 13) as u8, frame[18 + 1] >> 2);
        let (mark, colour) = match pcp {
            0 => (Mark::NONE, unmarked),
            _ => {
                let half = pcp - 1;
                let colour = match dscp >> 5 == half {
                    true => Colour::Green,
                    false => Colour::Yellow,
                };
                (Mark::qfi_only(half << 5 | dscp & 31), colour)
            }
        };
        Fate::Passed {
            forward: Forward {
                egress: InstanceId(forward.egress.0 - FIRST),
                flags: ForwardFlags::NONE,
                ..forward
            },
            mark,
            colour,
            nat: None,
        }
    }
}

/// An instance with a VLAN of its own, whose marks tell QFIs and colours from each other.
fn instance(id: u16, vrf: VrfId, uses: InstanceUses) -> Object {
    let mark = |qfi: u8| QfiMark {
        qfi,
        green: qfi,
        yellow: qfi ^ 32,
        pcp: 1 + (qfi >> 5),
    };
    let instance = Instance {
        port: PortId(0),
        vlans: [Some(VLANS + id), None],
        tpid: 0x8100,
        vrf,
        mac: MAC.0,
        mtu: u16::MAX,
        ipv4: None,
        ipv6: None,
        uses,
        too_long: TooLong::Trap,
        mss: Mss::Off,
        marks: (0..64).map(mark).collect(),
    };
    Object::Instance {
        id: InstanceId(id),
        instance: Box::new(instance),
    }
}

fn destination(key: &AnyKey) -> [u8; 4] {
    match key {
        AnyKey::V4(key) if key.fields.contains(KeyFields::ADDRESS) => key.destination,
        _ => [10, 0, 0, 200],
    }
}

/// A frame with a packet of a key, with this ECN field.
fn frame(key: &AnyKey, octets: u32, ecn: u8) -> Vec<u8> {
    let mut packet = vec![0; octets as usize];
    packet[..4].copy_from_slice(&[0x45, ecn, (octets >> 8) as u8, octets as u8]);
    // A protocol without ports (RFC 3692).
    packet[8..10].copy_from_slice(&[64, 253]);
    packet[12..16].copy_from_slice(&[203, 0, 113, 1]);
    packet[16..20].copy_from_slice(&destination(key));
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let vlan = VlanId::new(VLANS + INGRESS).expect("a VLAN").get();
    let header = [
        &MAC.0[..],
        &[2, 0, 0, 0, 7, 7],
        &[0x81, 0],
        &vlan.to_be_bytes(),
        &[8, 0],
    ];
    [header.concat(), packet].concat()
}

impl Backend for EnginePath {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn epoch(&self) -> Epoch {
        self.backend.epoch()
    }

    fn submit(&mut self, mut request: Request) {
        if let FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) = &mut request.op {
            match object {
                Object::Forward { forward, .. } => {
                    forward.egress.0 += FIRST;
                    if forward.kind == ForwardKind::Plain {
                        forward.flags |= ForwardFlags::MARKS_DSCP;
                    }
                }
                Object::Adjacency { adjacency, .. } => adjacency.instance.0 += FIRST,
                Object::Instance { id, instance: told } if told.uses.contains(InstanceUses::QUEUES) => {
                    *object = instance(FIRST + id.0, VrfId(2 + id.0), told.uses);
                }
                _ => {}
            }
        }
        self.backend.submit(request);
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        let notice = self.backend.poll(now);
        self.backend.tables_mut().engine_mut().poll(now);
        self.departed.extend(self.take(0));
        let is_own = |id: OpId| id.0 & OWN != 0;
        notice.filter(|notice| match notice {
            Notice::Reply(Reply { id, outcome }) if is_own(*id) => {
                let is_old = *outcome == Err(Refusal::OtherEpoch);
                assert!(is_old || *outcome == Ok(Outcome::Done), "{outcome:?}");
                false
            }
            _ => true,
        })
    }

    fn reset(&mut self) {
        self.backend.reset();
        self.say_network();
    }
}

impl PacketPath for EnginePath {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.pass(key, (octets, 0), now)
    }

    fn process_ect(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.pass(key, (octets, 2), now)
    }

    fn departed(&mut self, now: Nanos) -> Vec<Departed> {
        self.backend.tables_mut().engine_mut().poll(now);
        self.departed.extend(self.take(0));
        let departed = |frame: Vec<u8>| Departed {
            octets: (frame.len() - 18) as u32,
            is_marked: frame[18 + 1] & 3 == 3,
        };
        std::mem::take(&mut self.departed)
            .into_iter()
            .map(departed)
            .collect()
    }
}

impl EnginePath {
    /// Passes a packet with these octets and this ECN field.
    fn pass(&mut self, key: &AnyKey, (octets, ecn): (u32, u8), now: Nanos) -> Fate {
        self.departed.extend(self.take(0));
        let (drops, foreseen) = (self.drops(), self.foreseen(key, octets, now));
        let queued = self.queued();
        let queue = self.wires.to(WorkerId(0), PortId(0));
        queue
            .push(MemBuf::new(&frame(key, octets, ecn)))
            .expect("there is room");
        self.backend.tables_mut().engine_mut().poll(now);
        let fate = self.fate((&drops, queued), key, foreseen);
        while let Some(session) = self.backend.tables_mut().engine_mut().next_reached() {
            self.backend.tell_reached(session);
        }
        fate
    }
}

/// A backend whose packets are [`UNIT`] times as long as they are asked for, with meters, bounds and counts to match.
struct InUnits(Box<dyn PacketPath>);

fn times(volumes: Volumes) -> Volumes {
    let times = |octets: Option<u64>| octets.map(|octets| octets * u64::from(UNIT));
    Volumes {
        total: times(volumes.total),
        uplink: times(volumes.uplink),
        downlink: times(volumes.downlink),
    }
}

/// The suite's octets: whole packets are counted.
fn units(octets: u64) -> u64 {
    assert_eq!(octets % u64::from(UNIT), 0, "a part of a packet was counted");
    octets / u64::from(UNIT)
}

fn units_of(count: UrrCount) -> UrrCount {
    UrrCount {
        ul_octets: units(count.ul_octets),
        dl_octets: units(count.dl_octets),
        ..count
    }
}

fn raise(rate: &mut Rate) {
    if *rate != Rate::UNLIMITED {
        *rate = Rate::from_kbit(rate.kbit() * u64::from(UNIT));
    }
}

fn lengthen(object: &mut Object) {
    let unit = u64::from(UNIT);
    match object {
        Object::Counter { bounds, .. } => {
            *bounds = Bounds {
                watermarks: times(bounds.watermarks),
                limit: bounds.limit.map(|limit| CounterLimit {
                    octets: times(limit.octets),
                    ..limit
                }),
            };
        }
        Object::Meter { spec, .. } => match spec {
            MeterSpec::Single { burst, .. } => *burst *= unit,
            MeterSpec::SrTcm { cbs, ebs, .. } => (*cbs, *ebs) = (*cbs * unit, *ebs * unit),
            other => panic!("the suite has no {other:?}"),
        },
        Object::SharedMeter { bursts, .. } => *bursts = bursts.map(|burst| burst * unit),
        Object::Queues { queues, .. } => {
            queues
                .shapers
                .iter_mut()
                .for_each(|shaper| raise(&mut shaper.maximum));
            for queue in &mut queues.queues {
                raise(&mut queue.maximum);
                raise(&mut queue.guaranteed);
            }
        }
        Object::QueueClass { class, .. } => class.octets *= UNIT,
        Object::SharedNode { node, .. } => {
            raise(&mut node.rate);
            node.burst *= UNIT;
        }
        _ => {}
    }
}

impl Backend for InUnits {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn epoch(&self) -> Epoch {
        self.0.epoch()
    }

    fn submit(&mut self, mut request: Request) {
        if let FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) = &mut request.op {
            lengthen(object);
        }
        self.0.submit(request);
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        let mut notice = self.0.poll(now)?;
        match &mut notice {
            Notice::Reply(Reply {
                outcome: Ok(Outcome::Counts(counts)),
                ..
            })
            | Notice::Event(Event::Counts { counts, .. } | Event::Aged { counts, .. }) => {
                counts.iter_mut().for_each(|(_, count)| *count = units_of(*count));
            }
            Notice::Reply(Reply {
                outcome: Ok(outcome), ..
            }) => match outcome {
                Outcome::Contents(contents) => {
                    contents
                        .iter_mut()
                        .for_each(|usage| usage.count = units_of(usage.count));
                }
                Outcome::Demand(octets) => *octets = octets.map(units),
                _ => {}
            },
            _ => {}
        }
        Some(notice)
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

impl PacketPath for InUnits {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.0.process(key, octets * UNIT, now)
    }

    fn process_ect(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        self.0.process_ect(key, octets * UNIT, now)
    }

    fn departed(&mut self, now: Nanos) -> Vec<Departed> {
        let mut all = self.0.departed(now);
        all.iter_mut()
            .for_each(|departed| departed.octets = units(departed.octets.into()) as u32);
        all
    }
}

fn engine(seed: u64) -> Box<dyn PacketPath> {
    Box::new(InUnits(Box::new(EnginePath::new(seed))))
}

flow::conformance! {
    engine_tables: super::engine;
}

#[test]
fn the_engine_agrees_with_the_local_backend() {
    let alone = |seed| Driver::new(Box::new(InUnits(local(seed))));
    backends_agree(48, [&alone, &|seed| Driver::new(engine(seed))]);
}
