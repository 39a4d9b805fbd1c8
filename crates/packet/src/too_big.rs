//! A router's ICMP error about an own GTP-U packet that was too long for it: ICMP "fragmentation needed" (RFC 1191 §4)
//! and ICMPv6 "packet too big" (RFC 4443 §3.2).
//!
//! Any host can send one. It is read here whether it can be true; whether the tunnel is one of ours is the caller's
//! question.

use core::net::IpAddr;

use crate::icmp::{self, v4_type, v6_type};
use crate::tuple::proto;
use crate::{DropReason, IpTuple, Teid, gtpu, ipv4, ipv6, udp};

/// The least MTU that is believed of an IPv4 path: what every host takes (RFC 791 §3.1). Less is taken for as much.
pub const LEAST_V4: u16 = 576;
/// The same of an IPv6 path (RFC 8200 §5). A smaller value is not believed (RFC 8201 §4).
pub const LEAST_V6: u16 = 1280;

/// MTUs of routers that do not report theirs (RFC 1191 §7.1).
const PLATEAUS: [u16; 8] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, LEAST_V4];
/// The type of IPv6's fragment header, and its octets.
const FRAGMENT: u8 = 44;
const FRAGMENT_HEADER: usize = 8;

/// The path to a GTP-U peer has a smaller MTU than we thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig {
    /// Our end of the tunnel: where the message came to.
    pub local: IpAddr,
    /// The peer.
    pub peer: IpAddr,
    /// The peer's tunnel that the packet was in.
    pub teid: Teid,
    /// The longest packet, octets.
    pub mtu: u16,
}

impl TooBig {
    /// Reads the ICMP message in the packet that starts with its IP header at `packet[0]`. `Ok(None)` for all other
    /// messages, for what no packet of GTP-U from the address is quoted in that the message came to, where the quote
    /// ends before the TEID, and where the quoted packet would have fitted.
    ///
    /// A router that quotes no more than RFC 792 asks for, the UDP header, is ignored: any host that knows the two
    /// addresses can make such a message. RFC 1812 §4.3.2.3 has routers quote as much as fits into 576 octets, RFC 4443
    /// §2.4 as much as fits into 1,280.
    ///
    /// # Errors
    /// [`DropReason::TruncatedIcmp`], [`DropReason::BadIcmp`].
    pub fn parse(packet: &[u8], tuple: &IpTuple) -> Result<Option<Self>, DropReason> {
        let message = packet.get(usize::from(tuple.l4_offset)..usize::from(tuple.total_len));
        let message = message.ok_or(DropReason::TruncatedIcmp)?;
        let header = icmp::Header::parse(&tuple.addrs, message)?;
        let is_it = match (tuple.proto, header.kind) {
            (proto::ICMP, v4_type::UNREACHABLE) => header.code == v4_type::CODE_FRAGMENTATION_NEEDED,
            (proto::ICMPV6, v6_type::PACKET_TOO_BIG) => true,
            _ => false,
        };
        let quoted = message.get(icmp::HEADER_LEN..).unwrap_or_default();
        Ok(Quoted::read(quoted, tuple.addrs.is_v4())
            .filter(|quoted| is_it && quoted.source == tuple.addrs.dst())
            .and_then(|quoted| quoted.told(header.rest.get())))
    }
}

/// The start of a packet of GTP-U.
struct Quoted {
    source: IpAddr,
    destination: IpAddr,
    teid: Teid,
    /// Octets that it had.
    len: usize,
}

impl Quoted {
    fn read(bytes: &[u8], is_v4: bool) -> Option<Self> {
        let (source, destination, len, l4): (IpAddr, IpAddr, usize, usize) =
            match (bytes.first()? >> 4, is_v4) {
                (4, true) => {
                    let start = bytes.first_chunk::<{ ipv4::HEADER_LEN }>()?;
                    let field = u16::from_be_bytes([start[6], start[7]]);
                    (field & ipv4::FRAGMENT_OFFSET == 0 && start[9] == proto::UDP).then_some(())?;
                    (
                        address::<4>(start, 12)?.into(),
                        address::<4>(start, 16)?.into(),
                        u16::from_be_bytes([start[2], start[3]]).into(),
                        ipv4::header_len(start[0]).ok()?,
                    )
                }
                (6, false) => {
                    let start = bytes.first_chunk::<{ ipv6::HEADER_LEN }>()?;
                    let payload = u16::from_be_bytes([start[4], start[5]]);
                    (
                        address::<16>(start, 8)?.into(),
                        address::<16>(start, 24)?.into(),
                        ipv6::HEADER_LEN + usize::from(payload),
                        udp_behind_v6(bytes, start[6])?,
                    )
                }
                _ => return None,
            };
        let datagram = bytes.get(l4..)?;
        let port = datagram.first_chunk::<4>()?;
        (u16::from_be_bytes([port[2], port[3]]) == gtpu::PORT).then_some(())?;
        Some(Self {
            source,
            destination,
            teid: teid(datagram)?,
            len,
        })
    }

    fn told(&self, rest: u32) -> Option<TooBig> {
        let mtu = match (self.source, rest) {
            (IpAddr::V4(_), rest) => match rest & 0xffff {
                0 => PLATEAUS.into_iter().find(|mtu| usize::from(*mtu) < self.len)?,
                mtu => (mtu as u16).max(LEAST_V4),
            },
            (IpAddr::V6(_), mtu) => u16::try_from(mtu).ok().filter(|mtu| *mtu >= LEAST_V6)?,
        };
        (usize::from(mtu) < self.len).then_some(TooBig {
            local: self.source,
            peer: self.destination,
            teid: self.teid,
            mtu,
        })
    }
}

/// Where UDP starts in a packet over IPv6, whole or a first fragment: our own have no other extension header.
fn udp_behind_v6(bytes: &[u8], next: u8) -> Option<usize> {
    match next {
        proto::UDP => Some(ipv6::HEADER_LEN),
        FRAGMENT => {
            let header = bytes.get(ipv6::HEADER_LEN..)?.first_chunk::<4>()?;
            let offset = u16::from_be_bytes([header[2], header[3]]) >> 3;
            (header[0] == proto::UDP && offset == 0).then_some(ipv6::HEADER_LEN + FRAGMENT_HEADER)
        }
        _ => None,
    }
}

fn teid(datagram: &[u8]) -> Option<Teid> {
    let message = datagram
        .get(udp::HEADER_LEN..)?
        .first_chunk::<{ gtpu::HEADER_LEN }>()?;
    let teid = message.last_chunk::<4>()?;
    let teid = Teid(u32::from_be_bytes(*teid));
    (message[0] >> 5 == 1 && teid != Teid::ZERO).then_some(teid)
}

fn address<const N: usize>(header: &[u8], at: usize) -> Option<[u8; N]> {
    header.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::packet as make;
    use crate::build::{GtpuEncap, GtpuTemplate};
    use crate::icmp::IcmpError;
    use proptest::prelude::*;

    /// Us, the peer, and a router on the way.
    fn ends(is_v4: bool) -> [IpAddr; 3] {
        match is_v4 {
            true => [
                [10, 0, 3, 1].into(),
                [10, 200, 0, 1].into(),
                [192, 0, 2, 254].into(),
            ],
            false => ["2001:db8:3::1", "2001:db8:200::1", "2001:db8:9::9"]
                .map(|text| text.parse().expect("an address")),
        }
    }

    fn tunnelled(is_v4: bool, octets: usize) -> Vec<u8> {
        let [us, peer, _] = ends(is_v4);
        let addrs = make::addrs(us, peer).expect("one family");
        let template = GtpuTemplate::new(&GtpuEncap::new(addrs, Teid(77)));
        let mut packet = vec![0; template.header_len(None)];
        template
            .apply(&mut packet, octets - template.header_len(None), None)
            .expect("it fits");
        packet.resize(octets, 7);
        packet
    }

    /// What a router reports of a packet.
    fn told_of(packet: &[u8], error: IcmpError) -> Vec<u8> {
        let [.., router] = ends(packet[0] >> 4 == 4);
        let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
        let mut out = vec![0; 1500];
        let len = error
            .write(&mut out, router, packet, &tuple)
            .expect("there is room");
        out.truncate(len);
        out
    }

    fn read(packet: &[u8]) -> Result<Option<TooBig>, DropReason> {
        let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
        TooBig::parse(packet, &tuple)
    }

    fn expected(is_v4: bool, mtu: u16) -> Option<TooBig> {
        let [local, peer, _] = ends(is_v4);
        Some(TooBig {
            local,
            peer,
            teid: Teid(77),
            mtu,
        })
    }

    #[test]
    fn a_router_reports_its_mtu() {
        for (mtu, read_as) in [(1400, 1400), (576, 576), (68, 576), (1, 576), (0, 1492)] {
            let told = told_of(&tunnelled(true, 1500), IcmpError::fragmentation_needed_v4(mtu));
            assert_eq!(read(&told), Ok(expected(true, read_as)), "{mtu}");
        }
        for (mtu, read_as) in [
            (1400, Some(1400)),
            (1280, Some(1280)),
            (1279, None),
            (0, None),
            (70_000, None),
        ] {
            let told = told_of(&tunnelled(false, 1500), IcmpError::packet_too_big_v6(mtu));
            let expected = read_as.and_then(|mtu| expected(false, mtu));
            assert_eq!(read(&told), Ok(expected), "{mtu}");
        }
    }

    #[test]
    fn what_cannot_be_true_is_nothing() {
        // It would have fitted.
        let fitting = told_of(&tunnelled(true, 1400), IcmpError::fragmentation_needed_v4(1400));
        assert_eq!(read(&fitting), Ok(None));
        let short = told_of(&tunnelled(true, 500), IcmpError::fragmentation_needed_v4(400));
        assert_eq!(read(&short), Ok(None));
        // Another's packet, another protocol, another port, a fragment behind the first.
        for (at, octet) in [(12 + 3, 9), (9, proto::TCP), (22, 0), (7, 1)] {
            let mut packet = tunnelled(true, 1500);
            let told = told_of(&packet, IcmpError::fragmentation_needed_v4(1400));
            packet[at] = octet;
            let mut changed = told.clone();
            let quoted = told.len() - 28;
            changed[28..].copy_from_slice(&packet[..quoted]);
            let tuple = IpTuple::parse(&changed, changed.len()).expect("a packet");
            icmp::fill_checksum(&tuple.addrs, &mut changed[20..]).expect("a message");
            assert_eq!(TooBig::parse(&changed, &tuple), Ok(None), "{at}");
        }
        let other = told_of(&tunnelled(true, 1500), IcmpError::TTL_EXPIRED_V4);
        assert_eq!(read(&other), Ok(None));
        let mut damaged = told_of(&tunnelled(true, 1500), IcmpError::fragmentation_needed_v4(1400));
        damaged[40] ^= 1;
        assert_eq!(read(&damaged), Err(DropReason::BadIcmp));
    }

    #[test]
    fn a_quote_without_a_teid_of_a_tunnel_is_nothing() {
        let mut packet = tunnelled(true, 1500);
        let [us, _, router] = ends(true);
        let addrs = make::addrs(router, us).expect("one family");
        let quoting = |quoted: &[u8]| {
            let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0];
            message.extend(quoted);
            icmp::fill_checksum(&addrs, &mut message).expect("a message");
            let packet = make::ip(&addrs, proto::ICMP, &make::IpOptions::default(), &message);
            read(&packet.expect("short")).expect("a right checksum")
        };
        // RFC 792 asks for the IP header and 8 octets; the TEID ends at 36.
        for octets in [28, 35] {
            assert_eq!(quoting(&packet[..octets]), None, "{octets}");
        }
        assert!(quoting(&packet[..36]).is_some_and(|told| told.teid == Teid(77)));
        // No tunnel has TEID 0.
        packet[32..36].fill(0);
        assert_eq!(quoting(&packet), None);
    }

    #[test]
    fn a_first_fragment_is_quoted_as_well() {
        let mut packet = tunnelled(false, 1500);
        packet.splice(40..40, [proto::UDP, 0, 0, 1, 0, 0, 0, 7]);
        packet[6] = FRAGMENT;
        let payload = packet.len() as u16 - 40;
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        let told = told_of(&packet, IcmpError::packet_too_big_v6(1300));
        assert_eq!(read(&told), Ok(expected(false, 1300)));
    }

    proptest! {
        #[test]
        fn any_quote_is_read_without_harm(is_v4: bool, quoted in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..120) {
            let [us, _, router] = ends(is_v4);
            let addrs = make::addrs(router, us).expect("one family");
            let packet = tunnelled(is_v4, 1500);
            let (proto, mut message) = match is_v4 {
                true => (proto::ICMP, vec![3, 4, 0, 0, 0, 0, 5, 0]),
                false => (proto::ICMPV6, vec![2, 0, 0, 0, 0, 0, 5, 0]),
            };
            message.extend(packet.iter().zip(quoted.iter().chain(std::iter::repeat(&0))).map(|(a, b)| a ^ (b & 1)).take(cut));
            icmp::fill_checksum(&addrs, &mut message).expect("a message");
            let packet = make::ip(&addrs, proto, &make::IpOptions::default(), &message).expect("short");
            let found = read(&packet).expect("a right checksum");
            if let Some(found) = found {
                prop_assert_eq!(found.local, us);
                let least = if is_v4 { LEAST_V4 } else { LEAST_V6 };
                prop_assert!(found.mtu >= least);
            }
        }
    }
}
