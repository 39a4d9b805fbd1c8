//! Configuring and starting a port.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use dpdk_sys as sys;

use super::device::Device;
use super::queue::Sends;
use super::rss::{RssConfig, RssStatus};
use crate::error::Error;
use crate::mempool::Mempool;

/// Octets of an Ethernet header with one VLAN tag and the frame check sequence: what DPDK adds to an MTU.
const L2_OVERHEAD: u32 = 14 + 4 + 4;

/// How a port shall be set up. Start from [`PortConfig::new`].
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Receive queues, 1 to what the driver can.
    pub rx_queues: u16,
    /// Send queues, 1 to what the driver can.
    pub tx_queues: u16,
    /// Packets that a receive queue holds; adjusted to what the driver can (default 1024).
    pub rx_descriptors: u16,
    /// Packets that a send queue holds; adjusted to what the driver can (default 1024).
    pub tx_descriptors: u16,
    /// Where received packets are stored: one pool for all receive queues, or one for each.
    pub pools: Vec<Mempool>,
    /// Largest layer-3 packet in octets; None leaves the driver's.
    pub mtu: Option<u16>,
    /// Whether frames to other stations' addresses are received (default: no). Refused by some virtual ports.
    pub promiscuous: bool,
    /// Whether the port checks IPv4, UDP and TCP checksums of what it receives, where it can (default: no).
    pub rx_checksum: bool,
    /// Whether the port can be asked, packet by packet, to fill in UDP checksums, where it can (default: no).
    pub tx_udp_checksum: bool,
    /// Whether consecutive GTP-U packets to one peer are sent as one datagram with segments, where the port can: packet
    /// sockets (default: no).
    pub tx_udp_segmentation: bool,
    /// Whether each receive queue has another one beside it, for the packets that a program chooses
    /// ([`RxQueue::choose_queues`](super::RxQueue::choose_queues)), where the port can: packet sockets, and AF_XDP as
    /// long as nothing but its XDP program and packet sockets gets what comes in (default: no).
    pub urgent_queues: bool,
    /// Whether packets in several segments are sent, where the port can (default: yes).
    pub tx_chains: bool,
    /// How received packets are spread over the receive queues (default: not asked for).
    pub rss: Option<RssConfig>,
}

impl PortConfig {
    /// `queues` receive and as many send queues, with the defaults, all receiving into `pool`.
    pub fn new(queues: u16, pool: &Mempool) -> PortConfig {
        PortConfig {
            rx_queues: queues,
            tx_queues: queues,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            pools: vec![pool.clone()],
            mtu: None,
            promiscuous: false,
            rx_checksum: false,
            tx_udp_checksum: false,
            tx_udp_segmentation: false,
            urgent_queues: false,
            tx_chains: true,
            rss: None,
        }
    }

    /// The pool of receive queue `queue`; `check` has seen to it that there is one.
    pub(super) fn pool(&self, queue: u16) -> &Mempool {
        self.pools.get(usize::from(queue)).unwrap_or(&self.pools[0])
    }

    fn check(&self, info: &sys::rte_eth_dev_info) -> Result<(), Error> {
        let within = |field, value: u16, max: u16| match (1..=max).contains(&value) {
            true => Ok(()),
            false => Err(Error::config(field, value, format!("this port has 1 to {max}"))),
        };
        within("rx_queues", self.rx_queues, info.max_rx_queues)?;
        within("tx_queues", self.tx_queues, info.max_tx_queues)?;
        self.check_pools()?;
        match self.mtu {
            Some(mtu) if !(info.min_mtu..=info.max_mtu).contains(&mtu) => {
                let bound = format!("this port takes {} to {} octets", info.min_mtu, info.max_mtu);
                Err(Error::config("mtu", mtu, bound))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_pools(&self) -> Result<(), Error> {
        if self.pools.len() == 1 || self.pools.len() == usize::from(self.rx_queues) {
            return Ok(());
        }
        let bound = "one for all receive queues, or one for each";
        Err(Error::config("pools", self.pools.len(), bound))
    }

    /// Whether a frame of the MTU may need more than one buffer.
    fn scattered(&self, mtu: u16) -> bool {
        let frame = u32::from(mtu) + L2_OVERHEAD;
        self.pools
            .iter()
            .any(|pool| u32::from(pool.config().data_room) < frame)
    }

    /// What the port shall do to received packets by itself, as far as it can.
    fn rx_offloads(&self, info: &sys::rte_eth_dev_info, mtu: u16) -> u64 {
        const CHECKSUMS: u64 = sys::SHIM_ETH_RX_OFFLOAD_IPV4_CKSUM
            | sys::SHIM_ETH_RX_OFFLOAD_UDP_CKSUM
            | sys::SHIM_ETH_RX_OFFLOAD_TCP_CKSUM;
        let wanted = [
            (self.rx_checksum, CHECKSUMS),
            (self.rss.is_some(), sys::SHIM_ETH_RX_OFFLOAD_RSS_HASH),
            (self.scattered(mtu), sys::SHIM_ETH_RX_OFFLOAD_SCATTER),
        ];
        info.rx_offload_capa & chosen(&wanted)
    }

    /// What the port shall be ready to do to packets it sends, as far as it can.
    fn tx_offloads(&self, info: &sys::rte_eth_dev_info) -> u64 {
        let wanted = [
            (self.tx_udp_checksum, sys::SHIM_ETH_TX_OFFLOAD_UDP_CKSUM),
            (self.tx_chains, sys::SHIM_ETH_TX_OFFLOAD_MULTI_SEGS),
        ];
        info.tx_offload_capa & chosen(&wanted)
    }

    /// What may be sent by the port once it is started like this.
    pub(super) fn sends(&self, info: &sys::rte_eth_dev_info) -> Sends {
        let offloads = self.tx_offloads(info);
        let chains = offloads & sys::SHIM_ETH_TX_OFFLOAD_MULTI_SEGS != 0;
        Sends {
            most_segments: match info.tx_desc_lim.nb_mtu_seg_max {
                _ if !chains => 1,
                0 => u16::MAX,
                most => most,
            },
            fills_udp_checksums: offloads & sys::SHIM_ETH_TX_OFFLOAD_UDP_CKSUM != 0,
        }
    }
}

/// Whether a driver finds out in constant time how many packets wait. mlx5's goes through all of its queue.
pub(super) fn knows_waiting(info: &sys::rte_eth_dev_info) -> bool {
    // SAFETY: the driver's name, a constant of the driver or null.
    let name = (!info.driver_name.is_null()).then(|| unsafe { CStr::from_ptr(info.driver_name) });
    name.is_some_and(|name| !name.to_bytes().starts_with(b"mlx5"))
}

fn chosen(wanted: &[(bool, u64)]) -> u64 {
    wanted
        .iter()
        .filter(|(yes, _)| *yes)
        .fold(0, |bits, (_, bit)| bits | bit)
}

/// What came of a start.
pub(super) struct Started {
    pub(super) rss: RssStatus,
    /// The AF_XDP sockets that the driver has opened for the receive queues, in their order, where urgent queues are
    /// wanted.
    pub(super) xdp_sockets: Vec<RawFd>,
}

/// Configures the port and starts it.
pub(super) fn start(device: &Device, config: &PortConfig) -> Result<Started, Error> {
    let info = device.info()?;
    config.check(&info)?;
    let rss = RssStatus::resolve(config.rss.as_ref(), &info);
    configure(device, config, &info, &rss)?;
    let (rx, tx) = descriptors(device, config)?;
    let xdp_sockets = rx_queues(device, config, rx)?;
    tx_queues(device, config, tx)?;
    // SAFETY: the port and all its queues are configured.
    device.call("start", |id| unsafe { sys::rte_eth_dev_start(id) })?;
    if config.promiscuous {
        // SAFETY: the port is open.
        device.call("receive other stations' frames", |id| unsafe {
            sys::rte_eth_promiscuous_enable(id)
        })?;
    }
    Ok(Started { rss, xdp_sockets })
}

fn configure(
    device: &Device,
    config: &PortConfig,
    info: &sys::rte_eth_dev_info,
    rss: &RssStatus,
) -> Result<(), Error> {
    let mtu = match config.mtu {
        Some(mtu) => mtu,
        None => device.mtu()?,
    };
    // SAFETY: the structure is of integers, unions of such and pointers, for all of which zero is a value.
    let mut conf: sys::rte_eth_conf = unsafe { MaybeUninit::zeroed().assume_init() };
    conf.rxmode.mtu = mtu.into();
    conf.rxmode.offloads = config.rx_offloads(info, mtu);
    conf.txmode.offloads = config.tx_offloads(info);
    let mut key = config.rss.as_ref().and_then(|rss| rss.key.clone());
    if let RssStatus::Applied(fields) | RssStatus::Reduced { applied: fields, .. } = rss {
        conf.rxmode.mq_mode = sys::SHIM_ETH_MQ_RX_RSS as sys::rte_eth_rx_mq_mode;
        conf.rx_adv_conf.rss_conf.rss_hf = fields.bits();
        if let Some(key) = &mut key {
            super::rss::check_key(key, info)?;
            conf.rx_adv_conf.rss_conf.rss_key = key.as_mut_ptr();
            conf.rx_adv_conf.rss_conf.rss_key_len = key.len() as u8;
        }
    }
    let (rx, tx) = (config.rx_queues, config.tx_queues);
    // SAFETY: the port is open and not started; `conf` and the key it points to live through the call, which copies.
    device.call("configure", |id| unsafe {
        sys::rte_eth_dev_configure(id, rx, tx, &conf)
    })
}

/// The numbers of descriptors, adjusted to the driver's bounds.
fn descriptors(device: &Device, config: &PortConfig) -> Result<(u16, u16), Error> {
    let (mut rx, mut tx) = (config.rx_descriptors, config.tx_descriptors);
    // SAFETY: the port is open; both numbers may be written.
    device.call("size its queues", |id| unsafe {
        sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &mut rx, &mut tx)
    })?;
    Ok((rx, tx))
}

fn rx_queues(device: &Device, config: &PortConfig, descriptors: u16) -> Result<Vec<RawFd>, Error> {
    let mut held = device.control();
    let sockets = || match config.urgent_queues {
        true => crate::sockets::xdp_sockets().unwrap_or_default(),
        false => Vec::new(),
    };
    let mut opened = Vec::new();
    held.pools = config.pools.clone();
    for queue in 0..config.rx_queues {
        let pool = config.pool(queue).raw();
        let before = sockets();
        // SAFETY: the queue is within what was configured; the pool is kept in `held` until the port is closed. No
        // queue configuration: the driver's default, with the port's offloads.
        device.call_locked("set up a receive queue", |id| unsafe {
            let socket = sys::rte_eth_dev_socket_id(id) as u32;
            sys::rte_eth_rx_queue_setup(id, queue, descriptors, socket, std::ptr::null(), pool)
        })?;
        opened.extend(sockets().into_iter().find(|socket| !before.contains(socket)));
    }
    Ok(opened)
}

fn tx_queues(device: &Device, config: &PortConfig, descriptors: u16) -> Result<(), Error> {
    for queue in 0..config.tx_queues {
        // SAFETY: the queue is within what was configured.
        device.call("set up a send queue", |id| unsafe {
            let socket = sys::rte_eth_dev_socket_id(id) as u32;
            sys::rte_eth_tx_queue_setup(id, queue, descriptors, socket, std::ptr::null())
        })?;
    }
    Ok(())
}
