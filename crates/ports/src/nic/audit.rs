//! What a port can and cannot do, line by line, and what is done instead, for `sluice check --ports`.
//!
//! It says what the driver says of itself, and what became of what it was asked for. Nothing here opens a port.

use std::collections::BTreeSet;
use std::fmt::Write;

use dpdk::{Capabilities, Mempool};
use flow::residency::Mappings;

use super::checksums::UdpChecksums;
use super::{Basis, Report, Traffic, UrgentPackets};
use crate::numa_placement::NumaPlacement;
use config::Driver;

/// Octets of an Ethernet header with one VLAN tag and the frame check sequence, which a driver adds to an MTU.
const LINK_OCTETS: u32 = 22;

/// Where workers and packets are, by NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The cores that workers are pinned to, with their nodes where the kernel reports them.
    pub cores: Vec<(u32, Option<u16>)>,
    /// The nodes of packet memory, as far as the kernel reports them.
    pub memory: BTreeSet<u16>,
}

impl Place {
    /// Of workers that are placed like this, and of packets in these pools.
    #[must_use]
    pub fn of(placements: &[NumaPlacement], pools: &[Mempool]) -> Self {
        let core = |placement: &NumaPlacement| Some((placement.core?, placement.node));
        let areas: Vec<_> = pools.iter().flat_map(Mempool::areas).collect();
        Self {
            cores: placements.iter().filter_map(core).collect(),
            memory: Mappings::read().residency(&areas).nodes.into_keys().collect(),
        }
    }
}

/// A port as it was found.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// What the driver says of itself.
    pub able: &'a Capabilities,
    /// What became of what it was asked for.
    pub report: &'a Report,
    /// As it is configured.
    pub driver: &'a Driver,
    /// What comes in by it.
    pub traffic: Traffic,
    /// Who computes UDP checksums of what leaves by it.
    pub checksums: UdpChecksums,
    /// The configured MTU.
    pub mtu: u16,
    /// Octets that a buffer holds.
    pub buffer: u16,
    /// The XDP program on its interface: its number, and whether this process has put it there.
    pub program: Option<(u32, bool)>,
    /// Whether its link is up; `None` where the driver does not report it.
    pub link: Option<bool>,
    /// Its speed in Mbit/s, where the driver reports it.
    pub speed_mbps: Option<u32>,
    /// Where workers and packets are.
    pub place: &'a Place,
}

impl Seen<'_> {
    /// A line for each thing that matters: its name and its state.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("driver", self.of_driver()),
            ("NUMA", self.numa()),
            ("link", self.of_link()),
            ("queues", self.queues()),
            ("MTU", self.mtus()),
            ("receiving in parts", self.scattered().into()),
            ("sending in parts", self.chained().into()),
            ("checksums", self.checksums()),
            ("RSS", self.rss()),
            ("rte_flow for GTP-U", self.rules()),
            ("placing", self.report.to_string()),
            ("urgent packets", self.urgent()),
            ("host", self.host()),
        ]
    }

    fn of_driver(&self) -> String {
        let name = &self.able.driver;
        match self.able.numa_node {
            Some(node) => format!("{name}, on NUMA node {node}"),
            None => format!("{name}, on no NUMA node"),
        }
    }

    /// What keeps its frames from the host's own network stack.
    fn host(&self) -> String {
        let kept = self.driver.kept_from_host();
        let words = match (self.driver, kept) {
            (Driver::Memory {} | Driver::Pcap { .. } | Driver::Accelerator { .. }, _) => "its network stack has no part in it".into(),
            (Driver::Pci { .. }, _) => "its network stack does not see the device".into(),
            (_, Some(interface)) => format!(
                "its network stack gets no frame: nf_tables drops them on ingress (`table netdev sluice-{interface}`)"
            ),
            (Driver::AfPacket { .. }, None) => {
                "leave_to_host: its network stack gets every frame, too; neighbours reach what listens there, and what it can route it forwards a second time".into()
            }
            (Driver::AfXdp { .. }, None) => {
                "leave_to_host: its network stack gets what comes by queues that no worker polls".into()
            }
        };
        match self.program {
            None => words,
            Some((program, true)) => format!("{words}; XDP program {program} is this port's"),
            Some((program, false)) => format!("{words}; XDP program {program} is another process's"),
        }
    }

    fn numa(&self) -> String {
        let Some(node) = self.able.numa_node else {
            return "the port is on no node: no core is nearer than another".into();
        };
        let mut text = self.cores(node);
        let memory = &self.place.memory;
        let nodes: Vec<String> = memory.iter().map(ToString::to_string).collect();
        let nodes = nodes.join(", ");
        let _ = match (memory.is_empty(), memory.iter().all(|other| *other == node)) {
            (true, _) => write!(text, "; the kernel does not report where packet memory is"),
            (_, true) => write!(text, "; packet memory is on it, too"),
            _ => write!(
                text,
                "; packet memory is on node {nodes}: each packet crosses nodes; node {node} wants huge pages of its own"
            ),
        };
        text
    }

    /// How near the workers' cores are to a port on `node`.
    fn cores(&self, node: u16) -> String {
        let cores = &self.place.cores;
        if cores.is_empty() {
            return format!(
                "workers are pinned to no cores and may run on any node: name cores of node {node} (workers.cores)"
            );
        }
        let far = cores.iter().filter(|(_, of)| of.is_some_and(|of| of != node));
        let far: Vec<String> = far.map(|(core, _)| core.to_string()).collect();
        if !far.is_empty() {
            return format!(
                "cores {} are on another node: each of their packets crosses nodes",
                far.join(", ")
            );
        }
        match cores.iter().all(|(_, of)| of.is_some()) {
            true => "the workers' cores are on the port's node".into(),
            false => "the kernel does not report on which node the workers' cores are".into(),
        }
    }

    fn of_link(&self) -> String {
        let speed = self.speed_mbps.map_or_else(
            || ", of unknown speed".into(),
            |speed| format!(", {speed} Mbit/s"),
        );
        match self.link {
            Some(true) => format!("up{speed}"),
            Some(false) => "down: its routers count as silent until it is up".into(),
            None => "unknown: it is taken for up".into(),
        }
    }

    fn queues(&self) -> String {
        let used = self.report.queues;
        format!(
            "{used} of {} to receive and {used} of {} to send: one of each for each worker",
            self.able.max_rx_queues, self.able.max_tx_queues
        )
    }

    fn urgent(&self) -> String {
        match self.report.urgent {
            UrgentPackets::Sorted | UrgentPackets::Expected => {
                "a receive queue of their own, beside that of each worker".into()
            }
            UrgentPackets::Ahead => {
                "in the queue with all others: a worker that has too many packets looks ahead".into()
            }
            why => why.to_string(),
        }
    }

    fn mtus(&self) -> String {
        let (min, max) = (self.able.min_mtu, self.able.max_mtu);
        format!("{}, of {min} to {max} that the driver takes", self.mtu)
    }

    fn scattered(&self) -> &'static str {
        let fits = u32::from(self.mtu) + LINK_OCTETS <= u32::from(self.buffer);
        match (self.able.scattered_rx, fits) {
            (true, true) => "yes; a frame of the MTU fits one buffer",
            (true, false) => "yes: a frame of the MTU takes several buffers",
            (false, true) => "no; a frame of the MTU fits one buffer",
            (false, false) => {
                "no, and a frame of the MTU does not fit one buffer: nothing is done instead, the driver loses it"
            }
        }
    }

    fn chained(&self) -> &'static str {
        if self.able.chained_tx {
            "yes: packets in several buffers leave without copying"
        } else {
            "the driver does not say so: packets that lie in several buffers are given to it all the same; it copies or loses them"
        }
    }

    fn checksums(&self) -> String {
        let checks = match self.able.rx_checksum {
            true => "it could check what it receives",
            false => "it could not check what it receives",
        };
        let filled = self.checksums.words(self.able.tx_udp_checksum);
        format!("UDP of GTP-U over IPv6: {filled}; all others in software ({checks})")
    }

    fn rss(&self) -> String {
        let able = self.able;
        let names = able.rss.names();
        if names.is_empty() {
            return "none".into();
        }
        let (key, table) = (able.rss_key_size, able.rss_table_size);
        format!(
            "{}; a key of {key} octets, a table of {table} entries",
            names.join(", ")
        )
    }

    fn rules(&self) -> String {
        let instead = "packets that come to another worker than that of their session are handed over";
        match self.report.tunnels {
            _ if !self.traffic.tunnels => "not wanted: no tunnels end on this port".into(),
            _ if self.report.queues < 2 => "not wanted with one worker".into(),
            Some(Basis::Teid) => "yes: by TEID".into(),
            Some(Basis::UeAddress) => "yes: by the UE's address inside".into(),
            _ if self.report.refused.is_empty() => format!("not asked for, as there is no RSS: {instead}"),
            _ => format!("no ({}): {instead}", self.report.refused.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use dpdk::RssFields;

    use super::*;

    fn nic() -> Capabilities {
        Capabilities {
            driver: "net_ice".into(),
            numa_node: Some(1),
            max_rx_queues: 256,
            max_tx_queues: 256,
            min_mtu: 68,
            max_mtu: 9_702,
            rss: RssFields::IPV4 | RssFields::IPV6 | RssFields::UDP | RssFields::GTPU,
            rss_key_size: 52,
            rss_table_size: 2_048,
            rx_checksum: true,
            tx_udp_checksum: true,
            chained_tx: true,
            scattered_rx: true,
        }
    }

    fn report(queues: u16, tunnels: Basis, refused: &[&str]) -> Report {
        Report {
            queues,
            tunnels: Some(tunnels),
            plain: None,
            refused: refused.iter().map(|&words| words.into()).collect(),
            urgent: UrgentPackets::Ahead,
        }
    }

    fn place(cores: &[(u32, Option<u16>)], memory: &[u16]) -> Place {
        Place {
            cores: cores.to_vec(),
            memory: memory.iter().copied().collect(),
        }
    }

    fn line(about: &str, able: &Capabilities, report: &Report, place: &Place, mtu: u16) -> String {
        let driver = Driver::Pci {
            address: "0000:3b:00.0".into(),
        };
        let seen = Seen {
            able,
            report,
            driver: &driver,
            traffic: Traffic {
                tunnels: true,
                plain: false,
            },
            checksums: UdpChecksums::Wanted,
            mtu,
            buffer: 2_048,
            program: None,
            link: Some(true),
            speed_mbps: Some(25_000),
            place,
        };
        let lines = seen.lines();
        let found = lines.into_iter().find(|(of, _)| *of == about);
        found.unwrap_or_else(|| panic!("no line about {about}")).1
    }

    #[test]
    fn cores_and_memory_of_another_node_are_reported() {
        let granted = report(2, Basis::Teid, &[]);
        let numa = |cores: &[_], memory: &[_]| line("NUMA", &nic(), &granted, &place(cores, memory), 1500);
        let near = numa(&[(4, Some(1)), (5, Some(1))], &[1]);
        assert_eq!(
            near,
            "the workers' cores are on the port's node; packet memory is on it, too"
        );
        let far = numa(&[(4, Some(1)), (6, Some(0))], &[0]);
        assert!(far.starts_with("cores 6 are on another node"), "{far}");
        assert!(
            far.contains("packet memory is on node 0: each packet crosses nodes"),
            "{far}"
        );
        assert!(numa(&[], &[]).contains("name cores of node 1 (workers.cores)"));
        assert!(numa(&[(4, None)], &[]).contains("does not report on which node"));
    }

    #[test]
    fn what_a_port_cannot_do_is_reported_with_what_is_done_instead() {
        let unable = Capabilities {
            scattered_rx: false,
            chained_tx: false,
            rx_checksum: false,
            tx_udp_checksum: false,
            rss: RssFields::NONE,
            numa_node: None,
            ..nic()
        };
        let refused = report(2, Basis::Outer, &["Gtpu: not supported"]);
        let of = |about, mtu| line(about, &unable, &refused, &Place::default(), mtu);
        assert_eq!(of("driver", 1500), "net_ice, on no NUMA node");
        assert!(of("receiving in parts", 1500).starts_with("no; a frame of the MTU fits"));
        assert!(of("receiving in parts", 9000).contains("does not fit one buffer"));
        assert!(of("sending in parts", 1500).contains("copies or loses them"));
        assert_eq!(
            of("checksums", 1500),
            "UDP of GTP-U over IPv6: in software: the port cannot; all others in software (it could not check what it \
             receives)"
        );
        assert_eq!(of("RSS", 1500), "none");
        let rules = of("rte_flow for GTP-U", 1500);
        assert!(
            rules.starts_with("no (Gtpu: not supported): packets that come to"),
            "{rules}"
        );
    }

    #[test]
    fn what_a_port_can_do_is_reported() {
        let granted = report(2, Basis::Teid, &[]);
        let of = |about, mtu| line(about, &nic(), &granted, &Place::default(), mtu);
        assert_eq!(of("link", 1500), "up, 25000 Mbit/s");
        assert!(of("queues", 1500).starts_with("2 of 256 to receive and 2 of 256 to send"));
        assert!(
            of("checksums", 1500).starts_with("UDP of GTP-U over IPv6: by the port; all others in software")
        );
        assert_eq!(of("MTU", 9000), "9000, of 68 to 9702 that the driver takes");
        assert!(of("receiving in parts", 9000).starts_with("yes: a frame of the MTU takes several"));
        assert!(of("RSS", 1500).starts_with("ipv4, ipv6, udp, gtpu; a key of 52 octets"));
        assert_eq!(of("rte_flow for GTP-U", 1500), "yes: by TEID");
        let one = report(1, Basis::Outer, &[]);
        let rules = line("rte_flow for GTP-U", &nic(), &one, &Place::default(), 1500);
        assert_eq!(rules, "not wanted with one worker");
    }
}
