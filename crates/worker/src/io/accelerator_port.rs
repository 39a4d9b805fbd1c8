//! The port towards an accelerator, and the Ethernet headers of frames between both.

use flow::PortId;
use offload::exception;
use packet::{MacAddr, VlanId};

/// The port towards the accelerator, and what is behind it.
#[derive(Clone, Copy, Debug)]
pub struct AcceleratorPort {
    /// The port, of this node.
    pub port: PortId,
    /// The ports that the accelerator has, from 0.
    pub ports: u16,
    /// Its own address.
    pub mac: MacAddr,
    /// The VLAN of frames between both.
    pub vlan: Option<VlanId>,
    /// The longest frame without its Ethernet header and tag, octets.
    pub mtu: u16,
}

impl AcceleratorPort {
    /// Octets in front of what is behind the EtherType.
    pub(super) const fn ethernet_len(&self) -> usize {
        match self.vlan {
            None => 14,
            Some(_) => 18,
        }
    }

    /// Writes the Ethernet header of an exception frame.
    pub(super) fn put_ethernet(&self, to: MacAddr, out: &mut [u8]) -> Option<()> {
        let (addresses, rest) = out.split_at_mut_checked(12)?;
        addresses.get_mut(..6)?.copy_from_slice(&to.0);
        addresses.get_mut(6..)?.copy_from_slice(&self.mac.0);
        let rest = match self.vlan {
            None => rest,
            Some(vlan) => {
                let (tag, rest) = rest.split_at_mut_checked(4)?;
                tag.get_mut(..2)?.copy_from_slice(&0x8100u16.to_be_bytes());
                tag.get_mut(2..)?.copy_from_slice(&vlan.get().to_be_bytes());
                rest
            }
        };
        rest.get_mut(..2)?
            .copy_from_slice(&exception::ETHER_TYPE.to_be_bytes());
        Some(())
    }

    /// Whether a frame is for this port, of the VLAN, and from this peer.
    pub(super) fn is_from(&self, peer: Option<MacAddr>, octets: &[u8]) -> bool {
        let from = octets.get(6..12);
        let is_of_vlan = match self.vlan {
            None => true,
            Some(vlan) => {
                let tag = octets.get(12..16).and_then(|tag| <[u8; 4]>::try_from(tag).ok());
                tag.is_some_and(|[a, b, c, d]| {
                    u16::from_be_bytes([a, b]) == 0x8100 && u16::from_be_bytes([c, d]) & 0x0fff == vlan.get()
                })
            }
        };
        let is_to_us = octets.get(..6) == Some(&self.mac.0);
        is_to_us && is_of_vlan && peer.is_some_and(|peer| from == Some(&peer.0))
    }
}
