//! A worker and the accelerator's node that it drives, on one thread: each end's time is taken by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::offload::channel::{ChannelConfig, Key, Random, Role};
use ::offload::codec::HostCapabilities;
use ::offload::in_band::{InBand, host_greeting};
use ::rules::compile::compile;
use ::rules::image::SessionChange;
use ::rules::network::Network;
use flow::{Nanos, OpId, Seed, SessionIndex, cycles};
use packet::MacAddr;
use worker::accelerator::{EngineConfig, Node, NodeConfig};
use worker::behind_accelerator::{AcceleratorPort, BehindAccelerator};
use worker::{Command, ControlEnd, Event, Io, OffloadPolicy, Worker, control_channel};

use super::super::error::BenchError;
use super::super::feed::Feed;
use super::super::load::Load;
use super::super::model::Model;
use super::super::network::{self, N6_PORT, Routers};
use super::super::progress::Progress;
use super::super::rules::{Identity, session_rules};
use super::super::settings::Setting;
use super::super::world::{identities, tell};
use super::link::{HostPort, Link, NodePorts};

/// The link layer addresses of both ends of the wire.
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 2, 1]);
const ACCELERATOR: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);
/// The longest step of time: an absence of the thread is none of the protocol's time.
const MOST_STEP: Duration = Duration::from_micros(200);
/// Polls within which everything that is under way has come to an end.
const PATIENCE: u32 = 1_000_000;

/// Ticks that were spent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticks {
    /// At the accelerator, less those of its port.
    pub node: u64,
    /// At the host.
    pub host: u64,
}

/// Both.
pub struct Pair {
    /// The host.
    pub host: Worker<BehindAccelerator<HostPort>>,
    /// The accelerator.
    pub node: Node<NodePorts>,
    /// The wire.
    pub link: Link,
    /// The model of the sessions.
    pub model: Model,
    identities: Arc<[Identity]>,
    control: ControlEnd,
    now: Nanos,
    last: Instant,
    next_op: u64,
}

impl Pair {
    /// A worker that has the sessions of the setting's model, all at home, and a node that it has contact with.
    ///
    /// # Errors
    /// When memory runs out, or there is no contact.
    pub fn new(setting: &Setting, progress: &Progress) -> Result<Self, BenchError> {
        Self::that(setting, true, progress)
    }

    /// The same; the node `asks` its host by first octets, or gives it all packets of unknown flows whole.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn that(setting: &Setting, asks: bool, progress: &Progress) -> Result<Self, BenchError> {
        let link = Link::default();
        let identities = identities(setting.model.sessions, setting.worker)?;
        let Ends { worker, control } =
            start_host(setting, HostPort::new(link.clone()), &identities, progress)?;
        let mut pair = Self {
            host: worker,
            node: start_node_that(setting, asks, ports(setting, Arc::clone(&identities), &link), 1)?,
            link,
            model: setting.model,
            identities,
            control,
            now: Nanos::from_secs(1),
            last: Instant::now(),
            next_op: 0,
        };
        pair.until("contact", |pair| pair.node.is_served())?;
        pair.rest();
        Ok(pair)
    }

    /// Another node in the place of this one, as if its process had been ended: packets on their way to it are lost.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn other_node(&self, setting: &Setting, boot: u64) -> Result<Node<NodePorts>, BenchError> {
        let ports = ports(setting, Arc::clone(&self.identities), &self.link);
        start_node(setting, ports, boot)
    }

    /// What N3 and N6 receive from now on.
    pub fn set_load(&mut self, load: Load) {
        self.feed().set_load(load);
    }

    /// N3 and N6.
    pub fn feed(&mut self) -> &mut Feed {
        &mut self.node.engine_mut().io_mut().feed
    }

    /// One poll of each end.
    pub fn poll(&mut self) -> Ticks {
        let step = self.last.elapsed().min(MOST_STEP);
        self.last = Instant::now();
        self.now = self.now + step;
        let port = self.feed().counts().port_ticks;
        let start = cycles::now();
        self.node.poll(self.now);
        let between = cycles::now();
        self.host.poll(self.now);
        let end = cycles::now();
        let port = self.feed().counts().port_ticks - port;
        // The host has a core of its own.
        self.feed().resume(end);
        Ticks {
            node: between.wrapping_sub(start).saturating_sub(port),
            host: end.wrapping_sub(between),
        }
    }

    /// Flows that the host has given, with their packets or by answers.
    pub fn given_flows(&self) -> u64 {
        self.node.stats().through + self.node.engine().stats().asking.installed
    }

    /// Polls until `is_done`.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn until(&mut self, what: &str, is_done: impl Fn(&mut Self) -> bool) -> Result<(), BenchError> {
        for _ in 0..PATIENCE {
            if is_done(self) {
                return Ok(());
            }
            self.poll();
        }
        Err(BenchError(format!("no {what}: {}", self.state())))
    }

    /// Polls until nothing is on its way, while nothing more comes in.
    pub fn rest(&mut self) {
        self.node.engine_mut().io_mut().is_paused = true;
        let mut quiet = 0;
        while quiet < 64 {
            self.poll();
            let stats = self.node.engine().stats();
            let is_quiet = stats.settling.held + stats.asking.held + stats.exceptions_waiting == 0
                && self.host.stats().held == 0;
            quiet = if is_quiet { quiet + 1 } else { 0 };
        }
        self.node.engine_mut().io_mut().is_paused = false;
    }

    /// How things stand, for errors.
    pub fn state(&self) -> String {
        format!(
            "{:?}; {:?}; {:?}; {:?}; {:?}; {:?}; {:?}",
            self.host.offload_stats(),
            self.node.stats(),
            self.node.engine().stats().settling,
            self.node.engine().stats().asking,
            self.now,
            self.node.agent().channel().stats(),
            self.host.stats().drops,
        )
    }

    /// Packets that the sessions have counted.
    ///
    /// # Errors
    /// When the host does not answer.
    pub fn counted(&mut self) -> Result<u64, BenchError> {
        let mut sum = 0;
        for session in 0..self.model.sessions {
            self.next_op += 1;
            let (op, session) = (OpId(self.next_op), SessionIndex(session));
            let full = |_| BenchError("the link to the worker is full".into());
            self.control
                .commands
                .push(Command::Query { op, session })
                .map_err(full)?;
            sum += self.answer()?;
        }
        Ok(sum)
    }

    fn answer(&mut self) -> Result<u64, BenchError> {
        for _ in 0..PATIENCE {
            self.poll();
            while let Ok(event) = self.control.events.pop() {
                if let Event::Queried { outcome, .. } = event {
                    let usage = outcome.map_err(BenchError::of)?;
                    let packets = usage.counters.iter();
                    return Ok(packets
                        .map(|(_, count)| count.ul_packets + count.dl_packets)
                        .sum());
                }
            }
        }
        Err(BenchError(format!("usage is not answered: {}", self.state())))
    }
}

/// The host's network: its own port, the one towards the accelerator, comes first.
fn shifted(network: &Network) -> Result<Network, BenchError> {
    let mut instances = network.instances().to_vec();
    for instance in &mut instances {
        instance.port.0 += 1;
    }
    Network::new(instances).map_err(BenchError::of)
}

/// The commands about the routers.
fn neighbours<'a>(network: &'a Arc<Network>, setting: &Setting) -> impl Iterator<Item = Command> + use<'a> {
    let macs = [vec![HOST], setting.wire.macs()].concat();
    network::neighbours_at(network, macs)
}

fn random(mut state: u64) -> Random {
    Box::new(move |octets: &mut [u8]| {
        for octet in octets {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *octet = (state >> 33) as u8;
        }
    })
}

fn channel(role: Role, mac: MacAddr, boot: u64) -> Result<ChannelConfig, BenchError> {
    let key = Key::new(vec![7; 32]).map_err(BenchError::of)?;
    Ok(ChannelConfig {
        capabilities: match role {
            Role::Host => host_greeting(HostCapabilities::new(true)),
            // The node says what it can do.
            Role::Accelerator => Vec::new(),
        },
        ..ChannelConfig::new(role, 0, mac, key, boot)
    })
}

/// A worker behind an accelerator, and the link to command it.
pub struct Ends<I: Io> {
    /// The worker.
    pub worker: Worker<BehindAccelerator<I>>,
    /// The link.
    pub control: ControlEnd,
}

/// A worker over the port towards an accelerator, with the sessions of the setting's model, all at home.
///
/// # Errors
/// When memory runs out.
pub fn start_host<I: Io>(
    setting: &Setting,
    port: I,
    identities: &[Identity],
    progress: &Progress,
) -> Result<Ends<I>, BenchError> {
    let network = Arc::new(shifted(&network::network(setting.wire).map_err(BenchError::of)?)?);
    let mut ends = host(setting, &network, port)?;
    for command in neighbours(&network, setting) {
        tell(&mut ends.worker, &mut ends.control, command)?;
    }
    install(&mut ends, (setting, &network), identities, progress)?;
    Ok(ends)
}

fn install<I: Io>(
    ends: &mut Ends<I>,
    (setting, network): (&Setting, &Arc<Network>),
    identities: &[Identity],
    progress: &Progress,
) -> Result<(), BenchError> {
    progress.begin("sessions", setting.model.sessions.into());
    for (session, identity) in (0..).zip(identities) {
        let rules = session_rules(&setting.model, session, *identity).map_err(BenchError::of)?;
        let mut image = compile(&Arc::new(rules), network, &Routers).map_err(BenchError::of)?;
        (image.session, image.seid) = (SessionIndex(session), u64::from(session) + 1);
        let change = SessionChange::Install(Box::new(image));
        let op = OpId(session.into());
        tell(
            &mut ends.worker,
            &mut ends.control,
            Command::Session { op, change },
        )?;
        if session % 1_024 == 0 {
            progress.at(session.into());
        }
    }
    Ok(())
}

fn host<I: Io>(setting: &Setting, network: &Arc<Network>, port: I) -> Result<Ends<I>, BenchError> {
    let channel = ::offload::channel::Channel::new(channel(Role::Host, HOST, 1)?, random(1));
    let towards = AcceleratorPort {
        port: flow::PortId(0),
        ports: N6_PORT.0 + 1,
        mac: HOST,
        vlan: None,
        mtu: 2_048,
    };
    let io = BehindAccelerator::new(port, towards, InBand::new(channel.map_err(BenchError::of)?));
    let mut config = setting.config(network)?;
    config.macs = [vec![HOST], setting.wire.macs()].concat();
    // First packets alone come at times: all of them are to be served.
    config.slow_share_percent = 100;
    config.offload = Some(OffloadPolicy::default());
    let (control, end) = control_channel(64, 256);
    let worker = Worker::new(config, io, end).map_err(BenchError::of)?;
    Ok(Ends { worker, control })
}

fn ports(setting: &Setting, identities: Arc<[Identity]>, link: &Link) -> NodePorts {
    NodePorts::new(Feed::new(setting.model, setting.wire, identities), link.clone())
}

/// A node over the ports of N3 and N6 and, behind them, the one towards the host.
///
/// # Errors
/// When memory runs out.
pub fn start_node<I: Io>(setting: &Setting, ports: I, boot: u64) -> Result<Node<I>, BenchError> {
    start_node_that(setting, true, ports, boot)
}

fn start_node_that<I: Io>(setting: &Setting, asks: bool, ports: I, boot: u64) -> Result<Node<I>, BenchError> {
    let towards_host = flow::PortId(N6_PORT.0 + 1);
    let macs = [setting.wire.macs(), vec![ACCELERATOR]].concat();
    let mut engine = EngineConfig::new(Default::default(), macs, towards_host, Seed([boot, 4]));
    engine.max_sessions = setting.model.sessions as usize;
    (engine.max_flows_v4, engine.max_flows_v6) = (setting.room as usize, 64);
    engine.max_adjacencies = 16;
    if !asks {
        engine.max_asking = 0;
    }
    let config = NodeConfig::new(engine, channel(Role::Accelerator, ACCELERATOR, boot)?);
    Node::new(config, ports, random(boot + 1)).map_err(BenchError::of)
}
