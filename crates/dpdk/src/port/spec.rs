//! The kinds of ports, and how each is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys as sys;

use super::device::Device;
use crate::eal::{Eal, PciAddress};
use crate::error::Error;

/// Octets of the longest interface name in Linux.
const IFNAME_MAX: usize = 15;

/// What a port is opened on. Ports in memory are made by [`Port::memory`](super::Port::memory).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpec {
    /// Receives zeroes without end and throws away what is sent: for measurements.
    Null {
        /// Octets of each packet received, 1 to 65535.
        packet_size: u16,
    },
    /// A kernel interface through packet sockets of our own: works everywhere, needs CAP_NET_RAW. Checksums that its
    /// senders leave to a NIC are filled in; what they leave to it to cut up comes as
    /// [coalesced](crate::Mbuf::coalesced) packets.
    AfPacket {
        /// The interface, in this process's network namespace.
        interface: String,
        /// Queues each way, 1 to 16. The kernel spreads received packets over them by their flow hash.
        queues: u16,
    },
    /// A kernel interface through `AF_XDP` sockets: faster; needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and a kernel
    /// of 5.4 or later. Each queue keeps 2048 buffers of its pool for good, even when closed. Checksums that senders
    /// leave to a NIC are not filled in ([`RxQueue::leaves_checksums`](super::RxQueue::leaves_checksums)).
    AfXdp {
        /// The interface, in this process's network namespace.
        interface: String,
        /// The interface's first queue to use.
        start_queue: u16,
        /// Queues, one socket each, as many as the interface has combined channels (a veth: 1). Packets that arrive
        /// on other queues of the interface go to the kernel.
        queues: u16,
        /// Copy even where the interface's driver could do without. So it is without hugepages in any case: the
        /// driver cannot take a buffer that spans two small pages.
        force_copy: bool,
    },
    /// Packets from and to capture files, at least one of the two.
    Pcap {
        /// Packets received come from here; None: none come.
        rx: Option<PathBuf>,
        /// Packets sent go here, over what was there; None: they are thrown away.
        tx: Option<PathBuf>,
    },
    /// Any other virtual device of DPDK's, such as `net_memif0` with `role=server,id=0`.
    Virtual {
        /// The driver's name and something that makes it unique in this process: letters, digits and underscores.
        name: String,
        /// The driver's arguments, as DPDK documents them; passed on as they are.
        arguments: String,
    },
    /// A physical NIC or a virtual function, bound to a driver that DPDK can use.
    Pci {
        /// Where it is; also to be named in [`EalBuilder::allow_pci`](crate::EalBuilder::allow_pci).
        address: PciAddress,
    },
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or("none".into(), |path| path.display().to_string())
        };
        match self {
            PortSpec::Null { .. } => f.write_str("null"),
            PortSpec::AfPacket { interface, .. } => write!(f, "af_packet {interface}"),
            PortSpec::AfXdp { interface, .. } => write!(f, "af_xdp {interface}"),
            PortSpec::Pcap { rx, tx } => write!(f, "pcap rx {}, tx {}", path(rx), path(tx)),
            PortSpec::Virtual { name, .. } => f.write_str(name),
            PortSpec::Pci { address } => write!(f, "pci {address}"),
        }
    }
}

impl PortSpec {
    /// Whether the values can be handed to a driver.
    pub(super) fn check(&self, eal: &Eal) -> Result<(), Error> {
        match self {
            PortSpec::Null { packet_size: 0 } => Err(Error::config("packet_size", 0, "1 to 65535 octets")),
            PortSpec::Null { .. } => Ok(()),
            PortSpec::AfPacket { interface, queues } => {
                check_interface(interface)?;
                check_queues(*queues, super::sockets::QUEUES_MAX)
            }
            PortSpec::AfXdp {
                interface, queues, ..
            } => {
                check_interface(interface)?;
                check_queues(*queues, 1024)
            }
            PortSpec::Pcap { rx: None, tx: None } => {
                Err(Error::config("path", "none", "a file to read or to write"))
            }
            PortSpec::Pcap { rx, tx } => [rx, tx]
                .into_iter()
                .flatten()
                .try_for_each(|path| check_path(path)),
            PortSpec::Virtual { name, .. } => check_name(name),
            PortSpec::Pci { address } if !eal.has_pci() => Err(Error::config(
                "pci",
                address,
                "DPDK was started without PCI: allow the address at start",
            )),
            PortSpec::Pci { .. } => Ok(()),
        }
    }

    /// Opens its device, after `check`; packet sockets have none.
    pub(super) fn open(&self, eal: &Eal) -> Result<Device, Error> {
        let label = self.to_string();
        match self {
            PortSpec::Null { packet_size } => {
                virtual_device("net_null", format!("size={packet_size}"), label)
            }
            PortSpec::AfPacket { .. } => Err(Error::config("port", label, "no device of DPDK's")),
            PortSpec::AfXdp {
                interface,
                start_queue,
                queues,
                force_copy,
            } => {
                let force = if *force_copy || !eal.has_hugepages() {
                    ",force_copy=1"
                } else {
                    ""
                };
                let arguments =
                    format!("iface={interface},start_queue={start_queue},queue_count={queues}{force}");
                virtual_device("net_af_xdp", arguments, label)
            }
            PortSpec::Pcap { rx, tx } => virtual_device("net_pcap", pcap_arguments(rx, tx), label),
            PortSpec::Virtual { name, arguments } => {
                Device::plug(c"vdev", name.clone(), arguments.clone(), label)
            }
            // One that EAL found at its start is plugged in already.
            PortSpec::Pci { address } => Device::find_or_plug(c"pci", address.to_string(), label),
        }
    }
}

/// Names a virtual device after its driver, as DPDK asks, and plugs it in.
fn virtual_device(driver: &str, arguments: String, label: String) -> Result<Device, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{driver}_s{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Device::plug(c"vdev", name, arguments, label)
}

fn pcap_arguments(rx: &Option<PathBuf>, tx: &Option<PathBuf>) -> String {
    let argument =
        |key: &str, path: &Option<PathBuf>| path.as_ref().map(|path| format!("{key}={}", path.display()));
    [argument("rx_pcap", rx), argument("tx_pcap", tx)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(",")
}

fn check_interface(name: &str) -> Result<(), Error> {
    // What the kernel allows, less what DPDK's arguments are separated by.
    let allowed = |c: char| c.is_ascii_graphic() && !"/:,=[]\"'".contains(c);
    if (1..=IFNAME_MAX).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(Error::config(
        "interface",
        name,
        "a kernel interface's name of 1 to 15 characters",
    ))
}

fn check_name(name: &str) -> Result<(), Error> {
    let longest = sys::SHIM_ETH_NAME_MAX_LEN as usize - 1;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match (1..=longest).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => Err(Error::config(
            "name",
            name,
            format!("1 to {longest} letters, digits and underscores"),
        )),
    }
}

fn check_queues(queues: u16, max: u16) -> Result<(), Error> {
    match (1..=max).contains(&queues) {
        true => Ok(()),
        false => Err(Error::config("queues", queues, format!("1 to {max}"))),
    }
}

fn check_path(path: &Path) -> Result<(), Error> {
    // DPDK's arguments have no way to quote these.
    match path.to_str() {
        Some(text) if !text.is_empty() && !text.contains([',', '=', '[', ']', '"', '\'', '\0']) => Ok(()),
        _ => Err(Error::config(
            "path",
            path.display(),
            "UTF-8 without quotes, commas, brackets and equals signs",
        )),
    }
}
