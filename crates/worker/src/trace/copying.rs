//! Where the copies of a mirror request go ([`TraceRequest`](crate::TraceRequest)): whole frames, to a port as they
//! are, or in a tunnel to an analyser.

use flow::{AdjacencyId, PortId};
use packet::eth::{L2, ether_type};
use packet::overlay::Overlay;
use packet::{Addrs, IpFrame, PacketBuf};
use transport::Adjacencies;

use crate::trace::report::TracedFrame;

/// The most octets that are copied of a packet: they and a tunnel's headers fit one buffer.
pub const MOST_COPIED: u16 = 1_792;

/// Where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyTo {
    /// To a port, as they are.
    Port(PortId),
    /// Into a tunnel.
    Tunnel {
        /// Which one.
        overlay: Overlay,
        /// From an address of ours to its other end.
        addrs: Addrs,
        /// The slot of the next hop. While it is unresolved, there are no copies.
        next_hop: AdjacencyId,
        /// The longest IP packet on its way; copies are cut to what fits.
        mtu: u16,
    },
}

/// Which frames of an order's packets are copied, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyTerms {
    /// Where they go.
    pub to: CopyTo,
    /// As they came in.
    pub received: bool,
    /// As they leave, where they do.
    pub sent: bool,
}

impl CopyTo {
    /// Whether a frame is from or for the tunnel's far end: a packet about a copy, whose copy would cause another.
    pub(crate) fn is_end_of(&self, frame: &TracedFrame) -> bool {
        let Self::Tunnel { addrs, .. } = self else {
            return false;
        };
        let octets = &frame.octets;
        let ip = L2::parse(octets).and_then(|l2| IpFrame::parse(octets, frame.len as usize, &l2));
        ip.is_ok_and(|ip| [ip.tuple.addrs.src(), ip.tuple.addrs.dst()].contains(&addrs.dst()))
    }

    /// The port that a copy leaves by, and its octets in the buffer `copy`, which is empty. `None` without a next hop,
    /// or without room.
    pub(crate) fn fill<B: PacketBuf>(
        &self,
        adjacencies: &Adjacencies,
        copy: &mut B,
        frame: &[u8],
    ) -> Option<PortId> {
        match self {
            Self::Port(port) => {
                copy.append(frame.len())?.copy_from_slice(frame);
                Some(*port)
            }
            Self::Tunnel {
                overlay,
                addrs,
                next_hop,
                mtu,
            } => {
                let adjacency = adjacencies.resolved(*next_hop)?;
                let most = usize::from(*mtu).saturating_sub(overlay.len(addrs.is_v4()));
                let frame = frame.get(..most).unwrap_or(frame);
                let kind = match addrs.is_v4() {
                    true => ether_type::IPV4,
                    false => ether_type::IPV6,
                };
                let mut outer = [0; Overlay::MAX_LEN];
                let len = overlay.write(&mut outer, addrs, frame.len(), flow_of(frame))?;
                for part in [adjacency.header(), &kind.to_be_bytes(), &outer[..len], frame] {
                    copy.append(part.len())?.copy_from_slice(part);
                }
                Some(adjacency.port())
            }
        }
    }
}

/// 14 bits that packets of a flow have in common, more or less: of the octets that hold addresses and ports.
fn flow_of(frame: &[u8]) -> u16 {
    let octets = frame.iter().skip(26).take(16);
    let sum = octets.fold(0_u32, |sum, octet| {
        sum.wrapping_mul(31).wrapping_add((*octet).into())
    });
    (sum ^ sum >> 16) as u16 & 0x3fff
}
