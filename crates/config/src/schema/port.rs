//! Ethernet ports.

use std::path::PathBuf;

use packet::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::policer::Kbit;
use super::{LagConfig, parse_mac};
use crate::bounded::Bounded;

/// One DPDK port, or several as one.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// What instances call it.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Where its packets come from; absent of a LAG.
    #[serde(default)]
    pub driver: Option<Driver>,
    /// The ports that it is made of.
    #[serde(default)]
    pub lag: Option<LagConfig>,
    /// Largest IP packet, octets; 1500.
    #[serde(default = "PortConfig::default_mtu")]
    pub mtu: Bounded<1280, 9_216>,
    /// Descriptors of each receive and transmit ring; absent: [as many as there is room
    /// for](super::Config::descriptors).
    #[serde(default)]
    pub descriptors: Option<Bounded<64, 32_768>>,
    /// Who computes the UDP checksums of GTP-U packets over IPv6 that leave by it; auto. Not of a LAG.
    #[serde(default)]
    #[schemars(with = "Option<ChecksumsConfig>")]
    pub checksums: Option<Spanned<ChecksumsConfig>>,
    /// The most that leaves by it from queues (`egress`), in kbit/s of frames; no limit. Not of a member of a LAG.
    #[serde(default)]
    pub egress_kbit: Option<Kbit>,
}

impl PortConfig {
    /// Whether it is a port of the accelerator.
    pub(crate) fn is_behind_accelerator(&self) -> bool {
        self.driver.as_ref().is_some_and(Driver::is_behind_accelerator)
    }

    const fn default_mtu() -> Bounded<1280, 9_216> {
        Bounded::new(1500)
    }
}

/// Who computes UDP checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumsConfig {
    /// The port, where it can, else the worker.
    Auto,
    /// The worker.
    Software,
}

/// The kinds of port.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Driver {
    /// Rings in this process, for tests and the demo; nothing outside can reach it.
    Memory {},
    /// A kernel interface through packet sockets; needs CAP_NET_RAW and CAP_NET_ADMIN.
    AfPacket {
        /// The interface's name.
        interface: String,
        /// Let the host's own network stack have every frame, too; false: an ingress drop keeps them from it.
        #[serde(default)]
        leave_to_host: bool,
        /// Send consecutive GTP-U packets to one peer as one datagram with segments.
        #[serde(default)]
        udp_segmentation: bool,
    },
    /// A kernel interface through AF_XDP (`net_af_xdp`); needs CAP_NET_ADMIN and CAP_BPF.
    AfXdp {
        /// The interface's name.
        interface: String,
        /// Copy packets even where the driver could lend its own memory; veth needs it.
        #[serde(default)]
        force_copy: bool,
        /// Let the host's own network stack have what comes by queues that no worker polls; false: an ingress drop
        /// keeps it from it.
        #[serde(default)]
        leave_to_host: bool,
    },
    /// Capture files (`net_pcap`): packets come from one and go to the other.
    Pcap {
        /// Capture to read.
        rx: PathBuf,
        /// Capture to write.
        tx: PathBuf,
    },
    /// A physical NIC, or a virtual function of one, bound to a user-space driver.
    Pci {
        /// Its address, such as `0000:3b:00.1`.
        address: String,
    },
    /// A port of the [accelerator](super::Config::accelerator). Those come behind all other ports, in the order in
    /// which the accelerator has them.
    Accelerator {
        /// Its MAC address, which `sluice accel` logs when it starts.
        mac: String,
    },
}

impl Driver {
    /// The kernel's interface, where it is one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::AfPacket { interface, .. } | Self::AfXdp { interface, .. } => Some(interface),
            Self::Memory {} | Self::Pcap { .. } | Self::Pci { .. } | Self::Accelerator { .. } => None,
        }
    }

    /// The kernel's interface whose frames are not for the host's own network stack.
    #[must_use]
    pub fn kept_from_host(&self) -> Option<&str> {
        match self {
            Self::AfPacket { leave_to_host, .. } | Self::AfXdp { leave_to_host, .. } if *leave_to_host => {
                None
            }
            _ => self.interface(),
        }
    }

    /// Whether it is a port of the accelerator.
    #[must_use]
    pub const fn is_behind_accelerator(&self) -> bool {
        matches!(self, Self::Accelerator { .. })
    }

    /// The MAC address that is configured for it.
    #[must_use]
    pub fn mac(&self) -> Option<MacAddr> {
        match self {
            Self::Accelerator { mac } => parse_mac(mac).map(MacAddr),
            _ => None,
        }
    }

    /// A PCI address as the kernel writes it: in lower case, with its domain.
    pub(crate) fn whole_pci_address(address: &str) -> String {
        let address = address.to_ascii_lowercase();
        match address.matches(':').count() {
            1 => format!("0000:{address}"),
            _ => address,
        }
    }

    /// Whether `address` is a PCI address: domain, bus, device, function in hexadecimal, the domain optional.
    pub(crate) fn is_pci_address(address: &str) -> bool {
        let hex =
            |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let Some((rest, function)) = address.rsplit_once('.') else {
            return false;
        };
        let parts: Vec<&str> = rest.split(':').collect();
        let (domain, bus, device) = match parts[..] {
            [bus, device] => ("0000", bus, device),
            [domain, bus, device] => (domain, bus, device),
            _ => return false,
        };
        hex(domain, 4) && hex(bus, 2) && hex(device, 2) && matches!(function.as_bytes(), [b'0'..=b'7'])
    }
}

impl Driver {
    /// Whether it is an interface of the kernel, with sockets that a thread can wait for.
    #[must_use]
    pub const fn is_of_kernel(&self) -> bool {
        matches!(self, Self::AfPacket { .. } | Self::AfXdp { .. })
    }
}
