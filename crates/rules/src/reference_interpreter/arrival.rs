//! How a packet came in: plain, or in a tunnel that ends here.

use std::net::IpAddr;

use packet::eth::{L2, ether_type};
use packet::frame::parse_inner;
use packet::gtpu::{ExtensionHeader, MessageType, Unknown};
use packet::{DropReason, GtpuFrame, IpFrame, IpTuple, Qfi, Teid};

use crate::network::{InstanceId, Network, VrfId};

/// A received packet.
pub(super) enum Arrival<'a> {
    /// In a tunnel.
    Tunnel(Tunnelled<'a>),
    /// As plain IP.
    Plain {
        vrf: VrfId,
        tuple: IpTuple,
        bytes: &'a [u8],
    },
}

/// A GTP-U message of a tunnel.
pub(super) struct Tunnelled<'a> {
    pub(super) local: IpAddr,
    pub(super) teid: Teid,
    pub(super) message_type: MessageType,
    pub(super) qfi: Option<Qfi>,
    pub(super) extensions: Vec<ExtensionHeader<'a>>,
    pub(super) unknown: Unknown,
    pub(super) payload: &'a [u8],
    /// Octets before the payload.
    pub(super) headers: usize,
    /// What the payload is, of a G-PDU.
    inner: Result<IpTuple, DropReason>,
}

impl<'a> Arrival<'a> {
    pub(super) fn parse(network: &Network, ingress: InstanceId, bytes: &'a [u8]) -> Result<Self, DropReason> {
        let ether_type = match bytes.first().map(|first| first >> 4) {
            Some(6) => ether_type::IPV6,
            _ => ether_type::IPV4,
        };
        let ip = IpFrame::parse(
            bytes,
            bytes.len(),
            &L2 {
                len: 0,
                ether_type,
                vlan: None,
            },
        )?;
        let local = ip.tuple.addrs.dst();
        let is_ours = network.gtpu_addresses().any(|(_, _, own)| own == local);
        if ip.may_be_gtpu() && is_ours {
            return Tunnelled::parse(local, bytes, &ip).map(Self::Tunnel);
        }
        let vrf = network.instance(ingress).ok_or(DropReason::NotForUs)?.vrf;
        Ok(Self::Plain {
            vrf,
            tuple: ip.tuple,
            bytes,
        })
    }

    pub(super) const fn is_tunnelled(&self) -> bool {
        matches!(self, Self::Tunnel(_))
    }

    /// What the user's packet says.
    pub(super) fn user_tuple(&self) -> Result<IpTuple, DropReason> {
        match self {
            Self::Tunnel(tunnel) => tunnel.inner,
            Self::Plain { tuple, .. } => Ok(*tuple),
        }
    }

    /// The user's packet, without padding.
    pub(super) fn user_packet(&self, tuple: &IpTuple) -> &'a [u8] {
        let bytes = match self {
            Self::Tunnel(tunnel) => tunnel.payload,
            Self::Plain { bytes, .. } => bytes,
        };
        bytes.get(..usize::from(tuple.total_len)).unwrap_or(bytes)
    }
}

impl<'a> Tunnelled<'a> {
    fn parse(local: IpAddr, bytes: &'a [u8], ip: &IpFrame) -> Result<Self, DropReason> {
        let gtpu = GtpuFrame::parse(bytes, ip)?;
        if !gtpu.message_type.is_of_a_tunnel() {
            return Err(DropReason::UnsupportedGtpuMessage);
        }
        let message = gtpu.message(bytes)?;
        Ok(Self {
            local,
            teid: gtpu.teid,
            message_type: gtpu.message_type,
            qfi: gtpu.qfi,
            extensions: message.extensions.into_iter().collect(),
            unknown: gtpu.unknown,
            payload: message.payload(),
            headers: gtpu.payload_offset.into(),
            inner: parse_inner(bytes, &gtpu),
        })
    }
}
