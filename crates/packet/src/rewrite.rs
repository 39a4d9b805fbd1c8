//! The rewrite that a NAT makes (RFC 3022 §4.1): new addresses and ports in an IPv4 packet, with checksums updated by
//! what the change adds to them (RFC 1624), which is worked out once for a flow and not for each packet.
//!
//! Of fragments behind the first the addresses alone are rewritten: they have no ports, and the checksum that covers
//! the addresses is in the first one. Left alone: what an application carries of addresses in its payload, and the
//! packet that an ICMP error quotes, which [`icmp_rewrite`](crate::icmp_rewrite) is for.

use crate::tuple::proto;
use crate::{DropReason, checksum, icmp, ipv4};

/// The ends of a flow, of the fields that a NAT may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

/// New values for some fields of a flow's packets, and what they add to the checksums.
///
/// Both sums are right for packets whose old values are those that the rewrite was made from, and for no others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The new source address, if it changes.
    pub source: Option<[u8; 4]>,
    /// The new destination address, if it changes.
    pub destination: Option<[u8; 4]>,
    /// The new source port, if it changes.
    pub source_port: Option<u16>,
    /// The new destination port, if it changes.
    pub destination_port: Option<u16>,
    /// What the addresses add to a ones' complement sum that covers them.
    pub addresses_add: u16,
    /// What the ports add.
    pub ports_add: u16,
}

impl Rewrite {
    /// What makes packets with the ends `old` have the ends `new`. Fields that are the same in both do not change.
    #[inline(always)]
    pub fn new(old: &Ends, new: &Ends) -> Self {
        let address = |old: [u8; 4], new: [u8; 4]| {
            let (old, new) = (u32::from_be_bytes(old), u32::from_be_bytes(new));
            if old == new {
                0
            } else {
                checksum::u32_adds(old, new)
            }
        };
        let port = |old, new| {
            if old == new {
                0
            } else {
                checksum::word_adds(old, new)
            }
        };
        Self {
            source: (old.source != new.source).then_some(new.source),
            destination: (old.destination != new.destination).then_some(new.destination),
            source_port: (old.source_port != new.source_port).then_some(new.source_port),
            destination_port: (old.destination_port != new.destination_port).then_some(new.destination_port),
            addresses_add: checksum::both_add(
                address(old.source, new.source),
                address(old.destination, new.destination),
            ),
            ports_add: checksum::both_add(
                port(old.source_port, new.source_port),
                port(old.destination_port, new.destination_port),
            ),
        }
    }

    /// Rewrites the IPv4 packet that `packet` starts with. The identifier of an ICMP echo request or reply is its port
    /// (RFC 3022 §2.2): the new source port, else the new destination port, whatever it was before.
    ///
    /// # Errors
    /// [`TruncatedIpv4`](DropReason::TruncatedIpv4), [`BadIpv4Header`](DropReason::BadIpv4Header);
    /// [`TruncatedTransport`](DropReason::TruncatedTransport) when the checksum to be updated is not there, as in a
    /// very small first fragment of TCP; [`UnsupportedAction`](DropReason::UnsupportedAction) when ports are to change
    /// in SCTP, whose CRC cannot be updated by a sum. The packet has not changed then.
    #[inline]
    pub fn apply(&self, packet: &mut [u8]) -> Result<(), DropReason> {
        let header = packet
            .first_chunk::<{ ipv4::HEADER_LEN }>()
            .ok_or(DropReason::TruncatedIpv4)?;
        let (protocol, fragment) = (header[9], u16::from_be_bytes([header[6], header[7]]));
        let len = ipv4::header_len(header[0])?;
        let (header, transport) = packet
            .split_at_mut_checked(len)
            .ok_or(DropReason::TruncatedIpv4)?;
        if fragment & ipv4::FRAGMENT_OFFSET == 0 {
            self.transport(protocol, transport)?;
        }
        let header = header
            .first_chunk_mut::<{ ipv4::HEADER_LEN }>()
            .ok_or(DropReason::TruncatedIpv4)?;
        self.addresses(header);
        Ok(())
    }

    #[inline]
    fn addresses(&self, header: &mut [u8; ipv4::HEADER_LEN]) {
        if let Some(source) = self.source {
            header[12..16].copy_from_slice(&source);
        }
        if let Some(destination) = self.destination {
            header[16..20].copy_from_slice(&destination);
        }
        let sum = u16::from_be_bytes([header[10], header[11]]);
        [header[10], header[11]] = checksum::update_by(sum, self.addresses_add).to_be_bytes();
    }

    #[inline]
    fn transport(&self, protocol: u8, header: &mut [u8]) -> Result<(), DropReason> {
        match protocol {
            proto::TCP => self.with_ports::<18>(
                header,
                Sum {
                    at: 16,
                    zero_is_none: false,
                },
            ),
            proto::UDP | proto::UDP_LITE => self.with_ports::<8>(
                header,
                Sum {
                    at: 6,
                    zero_is_none: true,
                },
            ),
            proto::DCCP => self.with_ports::<8>(
                header,
                Sum {
                    at: 6,
                    zero_is_none: false,
                },
            ),
            proto::ICMP => self.echo(header),
            proto::SCTP if self.source_port.or(self.destination_port).is_some() => {
                Err(DropReason::UnsupportedAction)
            }
            _ => Ok(()),
        }
    }

    /// A header of at least `LEN` octets that starts with both ports, and whose checksum covers the addresses.
    #[inline]
    fn with_ports<const LEN: usize>(&self, header: &mut [u8], sum: Sum) -> Result<(), DropReason> {
        let header = header
            .first_chunk_mut::<LEN>()
            .ok_or(DropReason::TruncatedTransport)?;
        if let Some(port) = self.source_port {
            [header[0], header[1]] = port.to_be_bytes();
        }
        if let Some(port) = self.destination_port {
            [header[2], header[3]] = port.to_be_bytes();
        }
        let before = u16::from_be_bytes([header[sum.at], header[sum.at + 1]]);
        if sum.zero_is_none && before == 0 {
            return Ok(());
        }
        let adds = checksum::both_add(self.addresses_add, self.ports_add);
        let after = match checksum::update_by(before, adds) {
            0 if sum.zero_is_none => 0xffff,
            after => after,
        };
        [header[sum.at], header[sum.at + 1]] = after.to_be_bytes();
        Ok(())
    }

    /// ICMP, whose checksum covers no address.
    #[cold]
    fn echo(&self, header: &mut [u8]) -> Result<(), DropReason> {
        let header = header
            .first_chunk_mut::<8>()
            .ok_or(DropReason::TruncatedTransport)?;
        let is_echo = matches!(header[0], icmp::v4_type::ECHO_REQUEST | icmp::v4_type::ECHO_REPLY);
        let Some(id) = self.source_port.or(self.destination_port).filter(|_| is_echo) else {
            return Ok(());
        };
        let old = u16::from_be_bytes([header[4], header[5]]);
        let before = u16::from_be_bytes([header[2], header[3]]);
        [header[2], header[3]] = checksum::update_word(before, old, id).to_be_bytes();
        [header[4], header[5]] = id.to_be_bytes();
        Ok(())
    }
}

/// The checksum of a transport header.
struct Sum {
    /// Its octet.
    at: usize,
    /// 0 means that there is none, and is never sent for a sum (RFC 768, RFC 3828 §3.1).
    zero_is_none: bool,
}
