//! What the headers of a frame say, as far as they can be read.

use std::net::IpAddr;

use flow::PortId;
use packet::eth::{L2, Vlan, ether_type};
use packet::gtpu::MessageType;
use packet::{DropReason, Fragment, GtpuFrame, IpFrame, IpTuple, Qfi, Teid, VlanTags, frame};
use rules::network::{Instance, Network};

/// The network instance on a port and the VLANs of a frame.
pub(super) fn instance_at(network: &Network, port: PortId, vlan: Option<Vlan>) -> Option<&Instance> {
    let key = vlan.map_or(0, Vlan::key);
    let is_there = |one: &&Instance| one.port == port && one.vlan.map_or(0, VlanTags::key) == key;
    network.instances().iter().find(is_there)
}

/// The VLANs as a person writes them: `100`, or `200.30`.
pub(super) fn vlan(vlan: Vlan) -> String {
    let outer = vlan.outer.vid().get();
    match vlan.inner {
        None => outer.to_string(),
        Some(inner) => format!("{outer}.{}", inner.vid().get()),
    }
}

/// A frame taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Parsed {
    /// Octets of the link layer.
    pub l2_len: usize,
    /// The VLAN tags, if it has any.
    pub vlan: Option<Vlan>,
    /// What follows the link layer.
    pub ether_type: u16,
    /// The GTP-U message around the user packet.
    pub tunnel: Option<Outer>,
    /// The user packet, or the packet itself where it is in no tunnel.
    pub user: Option<IpTuple>,
    /// Why no more of it can be read.
    pub fault: Option<DropReason>,
}

/// The headers of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The sender's end.
    pub source: IpAddr,
    /// The receiver's end.
    pub destination: IpAddr,
    /// DSCP and ECN.
    pub tos: u8,
    /// The message.
    pub message_type: MessageType,
    /// The tunnel.
    pub teid: Teid,
    /// The QoS flow.
    pub qfi: Option<Qfi>,
    /// Reflective QoS is asked for.
    pub rqi: bool,
}

impl Parsed {
    /// Reads the frame of `len` octets of which `octets` are the first. UDP to port 2152 is GTP-U where one of
    /// `network`'s addresses is at either end; without a network, always.
    #[must_use]
    pub fn read(octets: &[u8], len: usize, network: Option<&Network>) -> Self {
        let mut parsed = Self {
            l2_len: 0,
            vlan: None,
            ether_type: 0,
            tunnel: None,
            user: None,
            fault: None,
        };
        parsed.fault = parsed.take_apart(octets, len, network).err();
        parsed
    }

    /// Whether its headers continue behind what there is of it. That its lengths say more than there is does not count.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        use DropReason as R;
        let fault = self.fault;
        fault.is_some_and(|fault| !matches!(fault, R::BadIpLength | R::BadUdpLength | R::BadGtpuLength))
    }

    fn take_apart(&mut self, octets: &[u8], len: usize, network: Option<&Network>) -> Result<(), DropReason> {
        let l2 = L2::parse(octets)?;
        (self.l2_len, self.ether_type) = (l2.len.into(), l2.ether_type);
        self.vlan = l2.vlan;
        if l2.ether_type != ether_type::IPV4 && l2.ether_type != ether_type::IPV6 {
            return Ok(());
        }
        let ip = IpFrame::parse(octets, len, &l2)?;
        let ours = |address| network.is_none_or(|network| network.local(address).is_some());
        let (source, destination) = (ip.tuple.addrs.src(), ip.tuple.addrs.dst());
        if !ip.may_be_gtpu() || !(ours(source) || ours(destination)) {
            self.user = Some(ip.tuple);
            return Ok(());
        }
        let gtpu = GtpuFrame::parse(octets, &ip)?;
        self.tunnel = Some(Outer {
            source,
            destination,
            tos: gtpu.outer.tos,
            message_type: gtpu.message_type,
            teid: gtpu.teid,
            qfi: gtpu.qfi,
            rqi: gtpu.psc.is_some_and(|psc| psc.rqi()),
        });
        if gtpu.message_type == MessageType::G_PDU {
            self.user = Some(frame::parse_inner(octets, &gtpu)?);
        }
        Ok(())
    }
}

/// The protocol by its name.
pub(super) fn protocol(number: u8) -> String {
    match number {
        1 => "ICMP".into(),
        2 => "IGMP".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        47 => "GRE".into(),
        50 => "ESP".into(),
        51 => "AH".into(),
        58 => "ICMPv6".into(),
        132 => "SCTP".into(),
        136 => "UDP-Lite".into(),
        other => format!("protocol {other}"),
    }
}

/// A user packet in one line.
pub(super) fn user(tuple: &IpTuple) -> String {
    let end = |address: IpAddr, port: u16| match (port, address) {
        (0, address) => address.to_string(),
        (port, IpAddr::V4(address)) => format!("{address}:{port}"),
        (port, IpAddr::V6(address)) => format!("[{address}]:{port}"),
    };
    let mut words = format!(
        "{} > {}  {}",
        end(tuple.addrs.src(), tuple.src_port),
        end(tuple.addrs.dst(), tuple.dst_port),
        protocol(tuple.proto)
    );
    if tuple.spi != 0 {
        words += &format!(" SPI {:#010x}", tuple.spi);
    }
    words += &format!("  {} octets  TTL {}", tuple.total_len, tuple.ttl);
    if tuple.tos >> 2 != 0 {
        words += &format!("  DSCP {}", tuple.tos >> 2);
    }
    match tuple.fragment {
        Fragment::None => {}
        Fragment::First => words += "  first fragment",
        Fragment::Later => words += "  later fragment",
    }
    words
}

/// A tunnel's headers in one line.
pub(super) fn tunnel(outer: &Outer) -> String {
    let mut words = format!(
        "{}  {} > {}  TEID {}",
        outer.message_type.name().unwrap_or("message"),
        outer.source,
        outer.destination,
        outer.teid
    );
    if let Some(qfi) = outer.qfi {
        words += &format!("  QFI {qfi}");
    }
    if outer.rqi {
        words += "  RQI";
    }
    if outer.tos >> 2 != 0 {
        words += &format!("  DSCP {}", outer.tos >> 2);
    }
    words
}
