//! An mbuf as a packet buffer. The ingress port travels in the mbuf.

use dpdk::{Mbuf, flags};
use flow::PortId;
use packet::{PacketBuf, ipv6};

use crate::{ChargeId, PacketMetadata};

/// An mbuf as the packet path uses it.
pub struct DpdkBuf(Mbuf);

impl DpdkBuf {
    /// The mbuf.
    pub fn into_mbuf(self) -> Mbuf {
        self.0
    }

    /// The mbuf.
    pub(super) fn mbuf(&self) -> &Mbuf {
        &self.0
    }

    /// The mbuf, to be changed.
    pub(super) fn mbuf_mut(&mut self) -> &mut Mbuf {
        &mut self.0
    }
}

impl From<Mbuf> for DpdkBuf {
    fn from(mbuf: Mbuf) -> Self {
        Self(mbuf)
    }
}

impl PacketBuf for DpdkBuf {
    #[inline]
    fn data(&self) -> &[u8] {
        self.0.data()
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        self.0.prepend(n)
    }

    #[inline]
    fn trim_front(&mut self, n: usize) -> bool {
        self.0.adj(n)
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        match self.0.len().checked_sub(len) {
            Some(0) => true,
            Some(surplus) if !self.0.is_chained() => self.0.trim(surplus),
            Some(_) => self.0.truncate(len),
            None => false,
        }
    }

    fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        self.0.append(n)
    }

    #[inline]
    fn headroom(&self) -> usize {
        self.0.headroom()
    }

    fn tailroom(&self) -> usize {
        self.0.tailroom()
    }

    fn link(&mut self, tail: Self) -> Result<(), Self> {
        self.0.chain(tail.0).map_err(Self)
    }

    fn gather(&mut self, n: usize) -> bool {
        self.0.pull_up(n)
    }

    fn for_each_part(&self, visit: &mut dyn FnMut(&[u8])) {
        self.0.segments().for_each(visit);
    }

    fn ask_udp_checksum(&mut self, l2: usize) -> bool {
        let fits = self.0.set_tx_lengths(l2, ipv6::HEADER_LEN);
        if fits {
            self.0.add_ol_flags(flags::TX_IPV6 | flags::TX_UDP_CKSUM);
        }
        fits
    }

    #[inline]
    fn asks_udp_checksum(&self) -> Option<usize> {
        // TCP's and SCTP's requests are other numbers in the same two bits.
        let asks = self.0.ol_flags() & flags::TX_UDP_CKSUM == flags::TX_UDP_CKSUM;
        asks.then(|| self.0.tx_lengths().l2)
    }
}

impl PacketMetadata for DpdkBuf {
    #[inline]
    fn ingress(&self) -> PortId {
        PortId(self.0.port())
    }

    #[inline]
    fn set_ingress(&mut self, port: PortId) {
        self.0.set_port(port.0);
    }

    #[inline]
    fn charge(&self) -> ChargeId {
        ChargeId(self.0.tag())
    }

    #[inline]
    fn set_charge(&mut self, charge: ChargeId) {
        self.0.set_tag(charge.0);
    }
}
