//! DPDK's side of a UPF: the environment, the packet pool and the configured ports, each with a queue for every worker.
//!
//! Made and owned by the thread that starts the program; queues move to the workers once, before packets flow.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;

use dpdk::{
    Capabilities, Eal, Errno, MemoryPeer, MemorySpec, Mempool, PciAddress, Port, PortConfig as StartConfig,
    PortSpec, Queues, RxQueue, TxQueue,
};
use flow::{PortId, WorkerId};
use packet::MacAddr;
use rules::network::Network;
use transport::Interface;
use worker::Parcels;
use worker::dpdk::DpdkIo;

use crate::kernel::ingress::Drops;
use crate::kernel::xdp;
use crate::nic::audit::{Place, Seen};
use crate::nic::checksums::UdpChecksums;
use crate::nic::{Report, RxDistribution, Traffic, UrgentPackets, plan};
use crate::numa_placement::{self, NumaPlacement, NumaTopology};
use config::{AcceleratorNodeConfig, Config, Descriptors, DpdkConfig, Driver, PortConfig};

/// Packets that an inbox holds: at a million packets handed over a second, what comes in while its owner is off its
/// core for 30 ms.
const INBOX_DEPTH: u32 = 32_768;

/// One worker's queues by port: a pair for each port but LAGs.
type WorkerQueues = Vec<Option<(RxQueue, TxQueue)>>;

/// A port that cannot be had, with the driver's own reason.
#[derive(Debug)]
pub struct PortError {
    port: String,
    reason: String,
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port `{}`: {}", self.port, self.reason)
    }
}

impl std::error::Error for PortError {}

/// The started ports.
pub struct Ports {
    /// What was asked of each port; its rules end before it does.
    distributions: Vec<Option<RxDistribution>>,
    /// By their ids; a LAG is none of its own.
    ports: Vec<Option<Port>>,
    /// What each can do.
    able: Vec<Option<Capabilities>>,
    /// By port, how its link is known.
    links: Vec<LinkSource>,
    /// By port, the first member of a LAG.
    first_members: Vec<Option<PortId>>,
    names: Vec<String>,
    /// The addresses of the accelerator's ports, which are the last.
    macs_behind_accelerator: Vec<MacAddr>,
    /// The far ends of the memory ports, in order, until they are taken.
    peers: Vec<MemoryPeer>,
    /// By worker, until the workers take them.
    queues: Vec<WorkerQueues>,
    /// By worker, where it belongs.
    placements: Vec<NumaPlacement>,
    /// By worker, where its packets are received and its own are made.
    pools: Vec<Mempool>,
    swept: Vec<String>,
    /// The interfaces that are kept from the host's network stack; they go back to it behind the ports.
    drops: Drops,
}

/// The CPUs for all threads but those that packets pass, which are pinned to `pinned`: the others of this process, so
/// that a thread that never rests does not keep PFCP waiting. All of them, where every one is taken.
fn other_cpus(pinned: &[u32]) -> Result<Vec<u32>, dpdk::Error> {
    let all = dpdk::thread_cpus()?;
    let free: Vec<u32> = all.iter().copied().filter(|cpu| !pinned.contains(cpu)).collect();
    Ok(if free.is_empty() { all } else { free })
}

/// Starts DPDK as the configuration has it. Once in a process. The calling thread, and those that it starts and that
/// are not pinned themselves, keep off the cores that workers are pinned to, as far as there are others.
///
/// # Errors
/// DPDK's own words.
pub fn start_eal(config: &Config) -> Result<&'static Eal, dpdk::Error> {
    let cores = config.workers.cores.iter().map(|core| core.value() as u32);
    start_eal_with(&config.dpdk, &cores.collect::<Vec<_>>(), &config.ports)
}

/// The same for an accelerator.
///
/// # Errors
/// DPDK's own words.
pub fn start_eal_of_accelerator(config: &AcceleratorNodeConfig) -> Result<&'static Eal, dpdk::Error> {
    let core: Vec<u32> = config.core().into_iter().collect();
    start_eal_with(&config.dpdk, &core, &config.ports)
}

fn start_eal_with(
    dpdk: &DpdkConfig,
    pinned: &[u32],
    ports: &[PortConfig],
) -> Result<&'static Eal, dpdk::Error> {
    let mut builder = Eal::builder()
        .hugepages(dpdk.huge_pages)
        .memory_mib(dpdk.memory_mib.value() as u32)
        .main_cpus(&other_cpus(pinned)?);
    for port in ports {
        if let Some(Driver::Pci { address }) = &port.driver {
            builder = builder.allow_pci(pci(address)?);
        }
    }
    builder.init()
}

fn pci(address: &str) -> Result<PciAddress, dpdk::Error> {
    address.parse()
}

/// A port of a configuration.
struct Planned<'a> {
    config: &'a PortConfig,
    /// It is a member of a LAG.
    is_member: bool,
    traffic: Traffic,
    checksums: UdpChecksums,
    descriptors: Descriptors,
}

/// The ports of a configuration, and the threads that they are for.
struct PortsPlan<'a> {
    ports: Vec<Planned<'a>>,
    /// By port, the first member of a LAG.
    first_members: Vec<Option<PortId>>,
    /// By worker, where it belongs.
    placements: Vec<NumaPlacement>,
    /// Packet buffers of each worker.
    buffers: Vec<u32>,
}

impl<'a> PortsPlan<'a> {
    /// A queue of each port for each worker.
    fn of(config: &'a Config) -> Self {
        let mut first_members = vec![None; config.ports.len()];
        for (port, _, members) in config.lags() {
            first_members[port.index()] = members.first().copied();
        }
        let planned = |port: &'a PortConfig| Planned {
            config: port,
            // Frames to the LAG's address, and to the group of LACP.
            is_member: config.lag_of(&port.name.value).is_some(),
            traffic: Traffic::of(config, port),
            checksums: UdpChecksums::of(config, port),
            descriptors: config.descriptors(port),
        };
        Self {
            ports: config.ports.iter().map(planned).collect(),
            first_members,
            placements: NumaPlacement::of_workers(&config.workers, &NumaTopology::read()),
            buffers: config.buffers_of_workers(),
        }
    }

    /// A queue of each port for the one thread of an accelerator.
    fn of_accelerator(config: &'a AcceleratorNodeConfig) -> Self {
        let planned = |port: &'a PortConfig| Planned {
            config: port,
            is_member: false,
            traffic: Traffic::default(),
            checksums: UdpChecksums::NotNeeded,
            descriptors: config.descriptors(port),
        };
        Self {
            ports: config.ordered_ports().map(planned).collect(),
            first_members: vec![None; config.ports.len()],
            placements: vec![NumaPlacement::of_core(config.core(), &NumaTopology::read())],
            buffers: vec![config.dpdk.buffers.value() as u32],
        }
    }
}

/// A port that is to be opened.
struct Opening<'a> {
    planned: &'a Planned<'a>,
    driver: &'a Driver,
    workers: u16,
    /// The interface has an XDP program that was there before.
    has_program: bool,
}

impl Ports {
    /// Opens and starts every port, with one pair of queues for each worker.
    ///
    /// # Errors
    /// The first port that cannot be opened or started.
    pub fn start(eal: &'static Eal, config: &Config) -> Result<Self, PortError> {
        Self::start_or(eal, PortsPlan::of(config), Err)
    }

    /// Opens and starts the ports of an accelerator, with one pair of queues for its thread: those of the network, and
    /// behind them the one towards the host.
    ///
    /// # Errors
    /// The first port that cannot be opened or started.
    pub fn start_of_accelerator(
        eal: &'static Eal,
        config: &AcceleratorNodeConfig,
    ) -> Result<Self, PortError> {
        Self::start_or(eal, PortsPlan::of_accelerator(config), Err)
    }

    /// The same, but for ports that cannot be opened or started, which come with the reasons.
    ///
    /// # Errors
    /// When there is no memory for packets.
    pub fn start_those_that_can(
        eal: &'static Eal,
        config: &Config,
    ) -> Result<(Self, Vec<PortError>), PortError> {
        let mut failed = Vec::new();
        let note = |error| {
            failed.push(error);
            Ok(())
        };
        let started = Self::start_or(eal, PortsPlan::of(config), note)?;
        Ok((started, failed))
    }

    /// Continues after a port that cannot be opened if `failed` returns `Ok`.
    fn start_or(
        eal: &'static Eal,
        plan: PortsPlan<'_>,
        mut failed: impl FnMut(PortError) -> Result<(), PortError>,
    ) -> Result<Self, PortError> {
        let workers = plan.placements.len() as u16;
        let pools = numa_placement::pools(eal, &plan.placements, &plan.buffers);
        let pools = pools.map_err(|error| PortError {
            port: "(packet memory)".into(),
            reason: error.to_string(),
        })?;
        let queues = (0..workers).map(|_| WorkerQueues::new()).collect();
        let mut started = Self {
            distributions: Vec::new(),
            names: Vec::new(),
            ports: Vec::new(),
            able: Vec::new(),
            links: Vec::new(),
            first_members: plan.first_members,
            macs_behind_accelerator: Vec::new(),
            peers: Vec::new(),
            queues,
            placements: plan.placements,
            pools,
            swept: Vec::new(),
            drops: Drops::default(),
        };
        let kept = |port: &Planned<'_>| port.config.driver.as_ref()?.kept_from_host().map(String::from);
        let kept: Vec<String> = plan.ports.iter().filter_map(kept).collect();
        started.swept = started.drops.sweep(&kept);
        for planned in &plan.ports {
            let name = &planned.config.name.value;
            let driver = match &planned.config.driver {
                None => {
                    started.add_without_queues(name);
                    continue;
                }
                Some(Driver::Accelerator { .. }) => {
                    let mac = planned.config.driver.as_ref().and_then(Driver::mac);
                    started.add_behind_accelerator(name, mac.unwrap_or(MacAddr::ZERO));
                    continue;
                }
                Some(driver) => driver,
            };
            let mut opening = Opening {
                planned,
                driver,
                workers,
                has_program: false,
            };
            if let Err(reason) = started.add_kept(eal, &mut opening) {
                let port = name.clone();
                failed(PortError { port, reason })?;
                started.add_without_queues(name);
            }
        }
        Ok(started)
    }

    /// As [`Self::add`], of an interface that is kept from the host's stack before anything comes in by the port.
    fn add_kept(&mut self, eal: &'static Eal, opening: &mut Opening<'_>) -> Result<(), String> {
        let driver = opening.driver;
        if let Some(interface) = driver.kept_from_host() {
            let kept = self.drops.install(interface);
            kept.map_err(|error| format!("{interface}: {error}"))?;
        }
        let Driver::AfXdp { interface, .. } = driver else {
            return self.add(eal, opening).map_err(|error| error.to_string());
        };
        let others = xdp::program(interface).ok().flatten();
        opening.has_program = others.is_some();
        match (self.add(eal, opening), others) {
            (Ok(()), None) => {
                if let Ok(Some(program)) = xdp::program(interface) {
                    self.drops.note_program(interface, program);
                }
                Ok(())
            }
            (Ok(()), Some(_)) => Ok(()),
            (Err(error), None) => Err(error.to_string()),
            (Err(error), Some(program)) => Err(format!(
                "{error}; {interface} has an XDP program of another process, number {program}: `ip link set dev {interface} xdp off` takes it off"
            )),
        }
    }

    /// Makes anew what keeps interfaces from the host's stack, where another process has removed it: the interfaces.
    pub fn renew_drops(&mut self) -> Vec<String> {
        self.drops.renew()
    }

    /// What was found of processes that did not end in order, and taken away: a line for each thing.
    pub fn swept(&self) -> &[String] {
        &self.swept
    }

    fn add(&mut self, eal: &'static Eal, opening: &Opening<'_>) -> Result<(), dpdk::Error> {
        let &Opening {
            planned,
            driver,
            workers,
            has_program,
        } = opening;
        let &Planned {
            config,
            is_member,
            traffic,
            checksums,
            descriptors,
        } = planned;
        let (mut port, peer) = match driver {
            Driver::Memory {} => {
                let spec = MemorySpec {
                    queues: workers,
                    depth: descriptors.receive.into(),
                };
                let (port, peer) = Port::memory(eal, &spec)?;
                (port, Some(peer))
            }
            other => (Port::open(eal, &spec(other, workers)?)?, None),
        };
        let mut start = StartConfig::new(workers, &self.pools[0]);
        start.pools.clone_from(&self.pools);
        start.rx_descriptors = descriptors.receive;
        start.tx_descriptors = descriptors.transmit;
        start.promiscuous = is_member && !matches!(driver, Driver::Memory {} | Driver::Pcap { .. });
        start.mtu = mtu(config);
        start.tx_udp_checksum = checksums.is_wanted();
        start.tx_udp_segmentation = matches!(
            driver,
            Driver::AfPacket {
                udp_segmentation: true,
                ..
            }
        );
        let urgent = UrgentPackets::wanted(driver, has_program);
        start.urgent_queues = urgent == UrgentPackets::Sorted;
        let able = port.capabilities()?;
        let plan = plan(&able, traffic, workers);
        start.rss.clone_from(&plan.rss);
        let mut queues = port.start(&start)?;
        put_program(driver, &mut port, &mut queues);
        let owners = session::Config::for_workers(workers).owners;
        let mut distribution = RxDistribution::ask(&port, &able, driver, &plan, traffic, workers, &owners);
        distribution.report.urgent = urgent;
        self.distributions.push(Some(distribution));
        self.names.push(config.name.value.clone());
        for (worker, pair) in self.queues.iter_mut().zip(queues.rx.into_iter().zip(queues.tx)) {
            worker.push(Some(pair));
        }
        self.ports.push(Some(port));
        self.able.push(Some(able));
        self.links.push(LinkSource::of(driver));
        self.peers.extend(peer);
        Ok(())
    }

    /// Adds a LAG, or a port that cannot be had.
    fn add_without_queues(&mut self, name: &str) {
        self.queues.iter_mut().for_each(|worker| worker.push(None));
        self.add_elsewhere(name);
    }

    /// Adds a port of the accelerator: to the queues, which are those of this process alone, it is none.
    fn add_behind_accelerator(&mut self, name: &str, mac: MacAddr) {
        self.macs_behind_accelerator.push(mac);
        self.add_elsewhere(name);
    }

    fn add_elsewhere(&mut self, name: &str) {
        self.distributions.push(None);
        self.names.push(name.to_owned());
        self.ports.push(None);
        self.able.push(None);
        self.links.push(LinkSource::Members);
    }

    /// The ports that have a link of their own, and whether it is up. Where the driver does not report it, it is.
    pub fn links(&self) -> impl Iterator<Item = (PortId, bool)> + '_ {
        let ports = self.links.iter().zip(&self.ports).enumerate();
        ports.filter_map(|(place, (source, port))| {
            let up = match (source, port) {
                (LinkSource::Kernel(carrier), _) => has_carrier(carrier),
                (LinkSource::Driver, Some(port)) => port.link().map_or(true, |link| link.up),
                (LinkSource::Unknown, _) => true,
                (LinkSource::Driver, None) | (LinkSource::Members, _) => return None,
            };
            Some((PortId(place as u16), up))
        })
    }

    /// The ports behind the accelerator, in the order in which it numbers them.
    pub fn behind_accelerator(&self) -> impl Iterator<Item = PortId> + use<> {
        let all = self.names.len();
        (all - self.macs_behind_accelerator.len()..all).map(|place| PortId(place as u16))
    }

    /// The name of a port.
    #[must_use]
    pub fn name(&self, port: PortId) -> &str {
        self.names.get(port.index()).map_or("", String::as_str)
    }

    /// By which headers each port places packets at workers, and whether it sorts urgent packets out, by its name. The
    /// latter is known when there are workers: they have the programs for it.
    pub fn rx_distributions(&self) -> impl Iterator<Item = (&str, Report)> {
        let names = self.names.iter().map(String::as_str);
        let ports = names.zip(self.distributions.iter().zip(&self.ports));
        ports.filter_map(|(name, (distribution, port))| {
            let mut report = distribution.as_ref()?.report.clone();
            report.urgent = report.urgent.found(port.as_ref()?.urgent_queues());
            Some((name, report))
        })
    }

    /// What each port can and cannot do, a line for each thing, by its name.
    pub fn audit<'a>(
        &'a self,
        config: &'a Config,
    ) -> impl Iterator<Item = (&'a str, Vec<(&'static str, String)>)> {
        let place = Place::of(&self.placements, &self.pools);
        let ports = config.ports.iter().enumerate();
        ports.filter_map(move |(number, port)| {
            let mut report = self.distributions.get(number)?.as_ref()?.report.clone();
            report.urgent = report
                .urgent
                .found(self.ports.get(number)?.as_ref()?.urgent_queues());
            let seen = Seen {
                able: self.able.get(number)?.as_ref()?,
                report: &report,
                driver: port.driver.as_ref()?,
                traffic: Traffic::of(config, port),
                checksums: UdpChecksums::of(config, port),
                mtu: port.mtu.value() as u16,
                buffer: self.pools[0].config().data_room,
                link: self.link(number),
                program: self.program(port),
                speed_mbps: self.speed(number),
                place: &place,
            };
            Some((port.name.value.as_str(), seen.lines()))
        })
    }

    /// The XDP program on a port's interface: its number, and whether this process has put it there.
    fn program(&self, port: &PortConfig) -> Option<(u32, bool)> {
        let interface = port.driver.as_ref()?.interface()?;
        let program = xdp::program(interface).ok()??;
        Some((program, self.drops.has_put(interface, program)))
    }

    /// Whether the link of a port is up, where its driver reports it.
    fn link(&self, number: usize) -> Option<bool> {
        match self.links.get(number)? {
            LinkSource::Kernel(carrier) => Some(has_carrier(carrier)),
            LinkSource::Driver => Some(self.ports.get(number)?.as_ref()?.link().ok()?.up),
            LinkSource::Unknown | LinkSource::Members => None,
        }
    }

    /// The speed of a port's link in Mbit/s, where its driver reports it. Those of kernel interfaces and of memory make
    /// one up.
    fn speed(&self, number: usize) -> Option<u32> {
        let is_told = matches!(self.links.get(number)?, LinkSource::Driver);
        let link = self.ports.get(number)?.as_ref()?.link().ok()?;
        link.speed_mbps.filter(|_| is_told)
    }

    /// A bucket has moved: the ports that place packets by buckets follow. One that does not hands them to the old
    /// owner, which hands them over.
    pub fn follow(&mut self, owners: &[WorkerId]) {
        for (distribution, port) in self.distributions.iter_mut().zip(&self.ports) {
            if let (Some(distribution), Some(port)) = (distribution, port) {
                distribution.follow(port, owners);
            }
        }
    }

    /// How this node looks on the link of each instance.
    #[must_use]
    pub fn interfaces(&self, network: &Network) -> Vec<Interface> {
        let macs = self.macs();
        network
            .instances()
            .iter()
            .map(|instance| worker::interface(instance, &macs))
            .collect()
    }

    /// The ports' link layer addresses. A memory port has none; it gets a locally administered one by its place. A LAG
    /// has that of its first member.
    #[must_use]
    pub fn macs(&self) -> Vec<MacAddr> {
        (0..self.ports.len()).map(|place| self.mac(place)).collect()
    }

    fn mac(&self, place: usize) -> MacAddr {
        let own_ports = self.ports.len() - self.macs_behind_accelerator.len();
        if let Some(behind) = place.checked_sub(own_ports) {
            return self.macs_behind_accelerator[behind];
        }
        let own = self.first_members[place].map_or(place, PortId::index);
        let port = self.ports.get(own).and_then(Option::as_ref);
        match port.map_or(MacAddr::ZERO, |port| MacAddr(port.mac())) {
            MacAddr::ZERO => MacAddr([2, 0, 0, 0, 0, own as u8 + 1]),
            mac => mac,
        }
    }

    /// The packet I/O of every worker, once.
    ///
    /// # Errors
    /// When there is no memory for an inbox.
    pub fn take_io(&mut self, eal: &'static Eal) -> Result<Vec<DpdkIo>, dpdk::Error> {
        let queues = std::mem::take(&mut self.queues);
        let inbox =
            |placement: &NumaPlacement| placement.make("inbox", |node| dpdk::mpsc_on(eal, INBOX_DEPTH, node));
        let inboxes = self.placements.iter().map(inbox).collect::<Result<Vec<_>, _>>()?;
        let (producers, consumers): (Vec<_>, Vec<_>) = inboxes.into_iter().unzip();
        let parcels = Parcels::between(consumers.len());
        let own = queues
            .into_iter()
            .zip(&self.pools)
            .zip(consumers.into_iter().zip(parcels));
        let io = |((queues, pool), (inbox, parcels))| {
            DpdkIo::new(queues, Mempool::clone(pool), Some(inbox), producers.clone()).with_parcels(parcels)
        };
        Ok(own.map(io).collect())
    }

    /// Where each worker belongs, by worker.
    #[must_use]
    pub fn placements(&self) -> &[NumaPlacement] {
        &self.placements
    }

    /// The packet buffers of each worker, by worker.
    #[must_use]
    pub fn pools(&self) -> &[Mempool] {
        &self.pools
    }

    /// The far ends of the memory ports in the order of the ports, once.
    pub fn take_peers(&mut self) -> Vec<MemoryPeer> {
        std::mem::take(&mut self.peers)
    }
}

/// Puts the XDP program on the interface that sorts urgent packets out, where the port has one.
fn put_program(driver: &Driver, port: &mut Port, queues: &mut Queues) {
    let (Driver::AfXdp { interface, .. }, Some(program)) = (driver, port.xdp_program()) else {
        return;
    };
    if let Err(error) = xdp::replace(interface, program) {
        port.without_xdp_program(queues, Errno(error.raw_os_error().unwrap_or_default()));
    }
}

/// How the link of a port is known.
enum LinkSource {
    /// The kernel's interface has it, whose DPDK driver does not report it: `/sys/class/net/NAME/carrier`.
    Kernel(File),
    /// The driver reports it.
    Driver,
    /// Neither does.
    Unknown,
    /// It is a LAG.
    Members,
}

impl LinkSource {
    fn of(driver: &Driver) -> Self {
        match driver {
            Driver::AfPacket { interface, .. } | Driver::AfXdp { interface, .. } => {
                let path = format!("/sys/class/net/{interface}/carrier");
                File::open(path).map_or(Self::Unknown, Self::Kernel)
            }
            Driver::Memory {} | Driver::Pcap { .. } | Driver::Accelerator { .. } => Self::Unknown,
            Driver::Pci { .. } => Self::Driver,
        }
    }
}

/// Whether an interface has a carrier: not one that is set down, of which the kernel gives an error.
fn has_carrier(carrier: &File) -> bool {
    let mut digit = [0];
    matches!(carrier.read_at(&mut digit, 0), Ok(1)) && digit == *b"1"
}

/// The MTU that a port is asked for. What nearly every port has is not asked for: not all drivers can be.
fn mtu(config: &PortConfig) -> Option<u16> {
    let mtu = config.mtu.value() as u16;
    (mtu != 1500).then_some(mtu)
}

fn spec(driver: &Driver, queues: u16) -> Result<PortSpec, dpdk::Error> {
    Ok(match driver {
        Driver::Memory {} => PortSpec::Null { packet_size: 64 },
        Driver::AfPacket { interface, .. } => PortSpec::AfPacket {
            interface: interface.clone(),
            queues,
        },
        Driver::AfXdp {
            interface,
            force_copy,
            ..
        } => PortSpec::AfXdp {
            interface: interface.clone(),
            start_queue: 0,
            queues,
            force_copy: *force_copy,
        },
        Driver::Pcap { rx, tx } => PortSpec::Pcap {
            rx: Some(rx.clone()),
            tx: Some(tx.clone()),
        },
        Driver::Pci { address } => PortSpec::Pci {
            address: pci(address)?,
        },
        Driver::Accelerator { .. } => {
            return Err(dpdk::Error::Config {
                field: "driver",
                value: "accelerator".into(),
                bound: "a port of this process".into(),
            });
        }
    })
}
