//! DPDK's side of a UPF: the environment, the packet pool and the configured ports, each with a queue for every worker.
//!
//! Made and owned by the thread that starts the program; queues move to the workers once, before packets flow.

use std::fmt;

use dpdk::{
    Eal, MemoryPeer, MemorySpec, Mempool, PciAddress, PoolConfig, Port, PortConfig as StartConfig, PortSpec,
    RxQueue, TxQueue,
};
use flow::WorkerId;
use packet::MacAddr;
use rules::network::Network;
use transport::Interface;
use worker::dpdk::{DpdkIo, inboxes};

use crate::config::{Config, Driver, PortConfig};
use crate::nic::{Report, Steered, Traffic, plan};

/// Packets that an inbox holds: at a million packets handed over a second, what comes in while its owner is off its
/// core for 30 ms.
const INBOX_DEPTH: u32 = 32_768;

/// One worker's queues, a pair for each port.
type Queues = Vec<(RxQueue, TxQueue)>;

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
    steered: Vec<Steered>,
    ports: Vec<Port>,
    names: Vec<String>,
    /// The far ends of the memory ports, in order, until somebody takes them.
    peers: Vec<MemoryPeer>,
    /// By worker, until the workers take them.
    queues: Vec<Queues>,
    /// Where packets lie.
    pub pool: Mempool,
}

/// The CPUs for all threads but the workers': those of this process that no worker is pinned to, so that a worker that
/// never rests does not keep PFCP waiting. All of them, where the workers have every one.
fn other_cpus(config: &Config) -> Result<Vec<u32>, dpdk::Error> {
    let is_free = |cpu: &u32| {
        config
            .workers
            .cores
            .iter()
            .all(|core| core.value() != u64::from(*cpu))
    };
    let all = dpdk::thread_cpus()?;
    let free: Vec<u32> = all.iter().copied().filter(is_free).collect();
    Ok(if free.is_empty() { all } else { free })
}

/// Starts DPDK as the configuration has it. Once in a process. The calling thread, and those that it starts and that
/// are not pinned themselves, keep off the cores that workers are pinned to, as far as there are others.
///
/// # Errors
/// DPDK's own words.
pub fn start_eal(config: &Config) -> Result<&'static Eal, dpdk::Error> {
    let mut builder = Eal::builder()
        .hugepages(config.dpdk.huge_pages)
        .memory_mib(config.dpdk.memory_mib.value() as u32)
        .main_cpus(&other_cpus(config)?);
    for port in &config.ports {
        if let Driver::Pci { address } = &port.driver {
            builder = builder.allow_pci(pci(address)?);
        }
    }
    builder.init()
}

fn pci(address: &str) -> Result<PciAddress, dpdk::Error> {
    address.parse()
}

impl Ports {
    /// Opens and starts every port, with one pair of queues for each worker.
    ///
    /// # Errors
    /// The first port that cannot be opened or started.
    pub fn start(eal: &'static Eal, config: &Config) -> Result<Self, PortError> {
        let workers = config.workers.count.value() as u16;
        let pool = Mempool::new(eal, PoolConfig::with_buffers(config.dpdk.buffers.value() as u32)).map_err(
            |error| PortError {
                port: "(packet memory)".into(),
                reason: error.to_string(),
            },
        )?;
        let queues = (0..workers).map(|_| Queues::new()).collect();
        let mut started = Self {
            steered: Vec::new(),
            names: Vec::new(),
            ports: Vec::new(),
            peers: Vec::new(),
            queues,
            pool,
        };
        for port in &config.ports {
            let traffic = Traffic::of(config, port);
            started
                .add(eal, port, (traffic, workers))
                .map_err(|error| PortError {
                    port: port.name.value.clone(),
                    reason: error.to_string(),
                })?;
        }
        Ok(started)
    }

    fn add(
        &mut self,
        eal: &'static Eal,
        config: &PortConfig,
        (traffic, workers): (Traffic, u16),
    ) -> Result<(), dpdk::Error> {
        let descriptors = config.descriptors.value();
        let (mut port, peer) = match &config.driver {
            Driver::Memory {} => {
                let spec = MemorySpec {
                    queues: workers,
                    depth: descriptors as u32,
                };
                let (port, peer) = Port::memory(eal, &spec)?;
                (port, Some(peer))
            }
            other => (Port::open(eal, &spec(other, workers)?)?, None),
        };
        let mut start = StartConfig::new(workers, &self.pool);
        start.rx_descriptors = descriptors as u16;
        start.tx_descriptors = descriptors as u16;
        start.mtu = mtu(config);
        let able = port.capabilities()?;
        let plan = plan(&able, traffic, workers);
        start.rss.clone_from(&plan.rss);
        let queues = port.start(&start)?;
        let owners = session::Config::for_workers(workers).owners;
        let asked = (&config.driver, &plan);
        self.steered
            .push(Steered::ask(&port, &able, asked, (traffic, workers), &owners));
        self.names.push(config.name.value.clone());
        for (worker, pair) in self.queues.iter_mut().zip(queues.rx.into_iter().zip(queues.tx)) {
            worker.push(pair);
        }
        self.ports.push(port);
        self.peers.extend(peer);
        Ok(())
    }

    /// By which headers each port places packets at workers, by its name.
    pub fn steering(&self) -> impl Iterator<Item = (&str, &Report)> {
        let reports = self.steered.iter().map(|steered| &steered.report);
        self.names.iter().map(String::as_str).zip(reports)
    }

    /// A bucket has moved: the ports that place packets by buckets follow. One that does not hands them to the old
    /// owner, which hands them over.
    pub fn follow(&mut self, owners: &[WorkerId]) {
        for (steered, port) in self.steered.iter_mut().zip(&self.ports) {
            steered.follow(port, owners);
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

    /// The ports' link layer addresses. A memory port has none; it gets a locally administered one by its place.
    #[must_use]
    pub fn macs(&self) -> Vec<MacAddr> {
        let mac = |(place, port): (usize, &Port)| match MacAddr(port.mac()) {
            MacAddr::ZERO => MacAddr([2, 0, 0, 0, 0, place as u8 + 1]),
            mac => mac,
        };
        self.ports.iter().enumerate().map(mac).collect()
    }

    /// The packet I/O of every worker, once.
    ///
    /// # Errors
    /// When there is no memory for an inbox.
    pub fn take_io(&mut self, eal: &'static Eal) -> Result<Vec<DpdkIo>, dpdk::Error> {
        let queues = std::mem::take(&mut self.queues);
        let (producers, consumers) = inboxes(eal, queues.len() as u16, INBOX_DEPTH)?;
        let io = |(queues, inbox)| DpdkIo::new(queues, self.pool.clone(), Some(inbox), producers.clone());
        Ok(queues.into_iter().zip(consumers).map(io).collect())
    }

    /// The far ends of the memory ports in the order of the ports, once.
    pub fn take_peers(&mut self) -> Vec<MemoryPeer> {
        std::mem::take(&mut self.peers)
    }
}

/// The MTU that a port is asked for. Packet sockets have none: their frames are of one size, which the configuration
/// heeds. What nearly every port has is not asked for: not all drivers can be.
fn mtu(config: &PortConfig) -> Option<u16> {
    let mtu = config.mtu.value() as u16;
    let is_asked = mtu != 1500 && !matches!(config.driver, Driver::AfPacket { .. });
    is_asked.then_some(mtu)
}

fn spec(driver: &Driver, queues: u16) -> Result<PortSpec, dpdk::Error> {
    Ok(match driver {
        Driver::Memory {} => PortSpec::Null { packet_size: 64 },
        Driver::AfPacket { interface } => PortSpec::AfPacket {
            interface: interface.clone(),
            queues,
        },
        Driver::AfXdp {
            interface,
            force_copy,
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
    })
}
