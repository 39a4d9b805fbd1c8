//! What a port reports about itself. Not for the packet path.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use dpdk_sys as sys;

use super::device::Device;
use super::rss::RssFields;
use super::sockets::{Interface, MTU_MAX, QUEUES_MAX};
use super::stats::PortStats;
use super::{Port, Side};
use crate::error::Error;

/// What a port's driver can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The driver's name: `net_ring`, `net_ice`.
    pub driver: String,
    /// The NUMA node that it is on; None where it is on none, or the kernel does not report it.
    pub numa_node: Option<u16>,
    /// The most receive queues.
    pub max_rx_queues: u16,
    /// The most send queues.
    pub max_tx_queues: u16,
    /// Smallest MTU in octets.
    pub min_mtu: u16,
    /// Largest MTU in octets.
    pub max_mtu: u16,
    /// What receive-side scaling can hash.
    pub rss: RssFields,
    /// Octets of the Toeplitz key; 0 when there is none to set.
    pub rss_key_size: u8,
    /// Entries of the table from hash to queue; 0 when there is none.
    pub rss_table_size: u16,
    /// Whether received IPv4 header, UDP and TCP checksums are all checked.
    pub rx_checksum: bool,
    /// Whether UDP checksums can be filled in.
    pub tx_udp_checksum: bool,
    /// Whether chained packets can be sent.
    pub chained_tx: bool,
    /// Whether a packet that is longer than a buffer is received in several.
    pub scattered_rx: bool,
}

/// The state of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether packets can pass.
    pub up: bool,
    /// Speed in Mbit/s; None when unknown.
    pub speed_mbps: Option<u32>,
    /// Whether both directions work at once.
    pub full_duplex: bool,
}

impl Port {
    /// What the driver can do.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when it does not report it.
    pub fn capabilities(&self) -> Result<Capabilities, Error> {
        let device = match &self.side {
            Side::Driver(device) => device,
            Side::Sockets(interface) => return Ok(of_sockets(interface)),
        };
        let info = device.info()?;
        let rx = sys::SHIM_ETH_RX_OFFLOAD_IPV4_CKSUM
            | sys::SHIM_ETH_RX_OFFLOAD_UDP_CKSUM
            | sys::SHIM_ETH_RX_OFFLOAD_TCP_CKSUM;
        Ok(Capabilities {
            driver: driver(&info),
            numa_node: numa_node(device),
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            min_mtu: info.min_mtu,
            max_mtu: info.max_mtu,
            rss: RssFields::of(&info),
            rss_key_size: info.hash_key_size,
            rss_table_size: info.reta_size,
            rx_checksum: info.rx_offload_capa & rx == rx,
            tx_udp_checksum: info.tx_offload_capa & sys::SHIM_ETH_TX_OFFLOAD_UDP_CKSUM != 0,
            chained_tx: info.tx_offload_capa & sys::SHIM_ETH_TX_OFFLOAD_MULTI_SEGS != 0,
            scattered_rx: info.rx_offload_capa & sys::SHIM_ETH_RX_OFFLOAD_SCATTER != 0,
        })
    }

    /// The port's Ethernet address when it was opened.
    pub fn mac(&self) -> [u8; 6] {
        match &self.side {
            Side::Driver(device) => device.mac,
            Side::Sockets(interface) => interface.mac,
        }
    }

    /// The link's state as the driver last knew it, without waiting.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when the driver does not report it.
    pub fn link(&self) -> Result<Link, Error> {
        let device = match &self.side {
            Side::Driver(device) => device,
            Side::Sockets(interface) => {
                return Ok(Link {
                    up: interface.has_carrier().unwrap_or_default(),
                    speed_mbps: None,
                    full_duplex: true,
                });
            }
        };
        let mut link = sys::shim_link {
            speed_mbps: 0,
            up: 0,
            full_duplex: 0,
        };
        // SAFETY: the port is open; the structure may be written.
        device.call("report its link state", |id| unsafe {
            sys::shim_link_state(id, &mut link)
        })?;
        let speed_mbps = (link.speed_mbps != 0 && link.speed_mbps != u32::MAX).then_some(link.speed_mbps);
        Ok(Link {
            up: link.up != 0,
            speed_mbps,
            full_duplex: link.full_duplex != 0,
        })
    }

    /// The port's counters.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when the driver does not report it.
    pub fn stats(&self) -> Result<PortStats, Error> {
        let device = match &self.side {
            Side::Driver(device) => device,
            Side::Sockets(interface) => return Ok(interface.stats()),
        };
        // SAFETY: the structure is of integers only, for which zero is a value.
        let mut raw: sys::rte_eth_stats = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the port is open; the structure may be written.
        let read = |id| unsafe { sys::rte_eth_stats_get(id, &mut raw) };
        device.call("count", read)?;
        // Of queues of urgent packets, which are not the driver's.
        let beside = self.xdp.as_ref().map(|xdp| xdp.interface.stats());
        let beside = beside.unwrap_or_default();
        Ok(PortStats {
            rx_packets: raw.ipackets + beside.rx_packets,
            rx_octets: raw.ibytes + beside.rx_octets,
            rx_missed: raw.imissed + beside.rx_missed,
            rx_errors: raw.ierrors + beside.rx_errors,
            rx_no_buffer: raw.rx_nombuf + beside.rx_no_buffer,
            tx_packets: raw.opackets,
            tx_octets: raw.obytes,
            tx_errors: raw.oerrors,
        })
    }

    /// Sets the port's counters to 0.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when the driver cannot.
    pub fn reset_stats(&self) -> Result<(), Error> {
        match &self.side {
            Side::Driver(device) => {
                if let Some(xdp) = &self.xdp {
                    xdp.interface.reset_stats();
                }
                // SAFETY: the port is open.
                device.call("reset its counters", |id| unsafe { sys::rte_eth_stats_reset(id) })
            }
            Side::Sockets(interface) => {
                interface.reset_stats();
                Ok(())
            }
        }
    }

    /// Largest layer-3 packet in octets.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when the driver does not report it.
    pub fn mtu(&self) -> Result<u16, Error> {
        match &self.side {
            Side::Driver(device) => device.mtu(),
            Side::Sockets(interface) => interface.mtu(),
        }
    }

    /// Sets the largest layer-3 packet in octets, where the driver can while it runs.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when it cannot.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), Error> {
        match &self.side {
            Side::Driver(device) => {
                // SAFETY: the port is open.
                device.call("set its MTU", |id| unsafe { sys::rte_eth_dev_set_mtu(id, mtu) })
            }
            Side::Sockets(interface) => interface.set_mtu(mtu),
        }
    }

    /// Whether frames to other stations' addresses are received.
    pub fn is_promiscuous(&self) -> bool {
        match &self.side {
            Side::Driver(device) => {
                let _held = device.control();
                // SAFETY: the port is open.
                unsafe { sys::rte_eth_promiscuous_get(device.id) == 1 }
            }
            Side::Sockets(interface) => interface.is_promiscuous(),
        }
    }

    /// Receives frames to other stations' addresses, or no longer.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] when the driver cannot.
    pub fn set_promiscuous(&self, yes: bool) -> Result<(), Error> {
        let device = match &self.side {
            Side::Driver(device) => device,
            Side::Sockets(interface) => return interface.set_promiscuous(yes),
        };
        device.call("change what it receives", |id| match yes {
            // SAFETY: the port is open.
            true => unsafe { sys::rte_eth_promiscuous_enable(id) },
            // SAFETY: the port is open.
            false => unsafe { sys::rte_eth_promiscuous_disable(id) },
        })
    }
}

/// What packet sockets can do.
fn of_sockets(interface: &Interface) -> Capabilities {
    Capabilities {
        driver: "packet sockets".into(),
        numa_node: interface.numa_node(),
        max_rx_queues: QUEUES_MAX,
        max_tx_queues: QUEUES_MAX,
        min_mtu: 68,
        max_mtu: MTU_MAX,
        rss: RssFields::NONE,
        rss_key_size: 0,
        rss_table_size: 0,
        rx_checksum: false,
        tx_udp_checksum: false,
        chained_tx: true,
        scattered_rx: true,
    }
}

fn numa_node(device: &Device) -> Option<u16> {
    let _held = device.control();
    // SAFETY: the port is open.
    let node = unsafe { sys::rte_eth_dev_socket_id(device.id) };
    u16::try_from(node).ok()
}

fn driver(info: &sys::rte_eth_dev_info) -> String {
    if info.driver_name.is_null() {
        return String::new();
    }
    // SAFETY: a driver's name is a NUL-terminated constant of the driver, which is loaded while its port is open.
    unsafe { CStr::from_ptr(info.driver_name) }
        .to_string_lossy()
        .into_owned()
}
