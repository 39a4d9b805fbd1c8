//! Addresses of IEs: of one family, of both, and as this node's types.

use pfcp::ie::FSeid;
use session::CpFSeid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Of the addresses of both families that of the family of `like`.
pub(crate) fn address_of(ipv4: Option<Ipv4Addr>, ipv6: Option<Ipv6Addr>, like: IpAddr) -> Option<IpAddr> {
    let (ipv4, ipv6) = (ipv4.map(IpAddr::V4), ipv6.map(IpAddr::V6));
    if like.is_ipv4() { ipv4 } else { ipv6 }
}

/// Whether the control plane's F-SEID is at `address`.
pub(crate) fn has_address(cp: CpFSeid, address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => cp.ipv4 == Some(address),
        IpAddr::V6(address) => cp.ipv6 == Some(address),
    }
}

/// A CP F-SEID as sessions keep it.
pub(crate) fn cp_f_seid(sent: FSeid) -> CpFSeid {
    CpFSeid {
        seid: sent.seid.0,
        ipv4: sent.ipv4,
        ipv6: sent.ipv6,
    }
}

/// The same as an IE.
pub(crate) fn f_seid(cp: CpFSeid) -> FSeid {
    FSeid {
        seid: pfcp::Seid(cp.seid),
        ipv4: cp.ipv4,
        ipv6: cp.ipv6,
    }
}

pub(crate) fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

pub(crate) fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(address),
    }
}
