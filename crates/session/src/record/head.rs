//! The head of a stored session: what leads to it, to be read without its record.

use packet::Teid;
use rules::network::Network;
use rules::prefix::IpPrefix;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::error::RecordError;
use super::plain;
use super::types::SessionRecord;
use crate::ids::{CpFSeid, Seid};
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;

/// The version of the form, its first octet.
const VERSION: u8 = 1;

/// A session as it is to be kept: its record, and what leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSession {
    /// The record.
    pub record: SessionRecord,
    /// The tunnels that lead to it.
    pub tunnels: Vec<Tunnel>,
    /// The UE addresses that plain packets reach it by.
    pub addresses: Vec<UeAddress>,
}

/// What leads to a session, as it was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHead<'o> {
    /// Its SEID.
    pub seid: Seid,
    /// The octets of the Node ID of its association's peer (TS 29.244 §8.2.38).
    pub node: &'o [u8],
    /// The control plane's F-SEID.
    pub cp: CpFSeid,
    /// Our address and TEID of each of its tunnels.
    pub tunnels: SmallVec<[(IpAddr, Teid); 2]>,
    /// The UE addresses that plain packets reach it by, each with the name of a network instance of its address space.
    pub addresses: SmallVec<[(&'o str, IpPrefix); 2]>,
}

#[derive(Serialize, Deserialize)]
struct Form<'o> {
    seid: u64,
    node: &'o [u8],
    cp: (u64, Option<Ipv4Addr>, Option<Ipv6Addr>),
    // Of very many heads that are read after a start hardly one has more.
    tunnels: SmallVec<[(IpAddr, u32); 2]>,
    #[serde(borrow)]
    addresses: SmallVec<[(&'o str, IpAddr, u8); 2]>,
}

impl KeptSession {
    /// The octets of the session's head, in the terms of this network.
    ///
    /// # Errors
    /// None is known.
    pub fn encode_head(&self, network: &Network) -> Result<Vec<u8>, RecordError> {
        let SessionRecord {
            seid,
            association,
            cp,
            ..
        } = &self.record;
        let tunnel = |(local, teid): &Tunnel| {
            let (_, address) = network.local_addresses().get(local.index())?;
            Some((*address, teid.0))
        };
        let address = |(vrf, prefix): &UeAddress| {
            let instance = network.instances().iter().find(|one| one.vrf == *vrf)?;
            Some((&*instance.name, prefix.address(), prefix.len()))
        };
        let form = Form {
            seid: seid.0,
            node: association,
            cp: (cp.seid, cp.ipv4, cp.ipv6),
            tunnels: self.tunnels.iter().filter_map(tunnel).collect(),
            addresses: self.addresses.iter().filter_map(address).collect(),
        };
        plain::encode(&(VERSION, form), "head")
    }
}

impl<'o> SessionHead<'o> {
    /// Reads what [`KeptSession::encode_head`] has written.
    ///
    /// # Errors
    /// The octets are no head of a version that is known.
    pub fn decode(octets: &'o [u8]) -> Result<SessionHead<'o>, RecordError> {
        if octets.first() != Some(&VERSION) {
            return Err(RecordError::Malformed("version of head"));
        }
        let (_, form) = plain::borrow::<(u8, Form<'o>)>(octets, "head")?;
        let (seid, ipv4, ipv6) = form.cp;
        let tunnels = form.tunnels.iter();
        let prefix = |&(name, address, len): &(&'o str, IpAddr, u8)| {
            let prefix = IpPrefix::new(address, len).ok_or(RecordError::Malformed("prefix"))?;
            Ok((name, prefix))
        };
        Ok(SessionHead {
            seid: Seid(form.seid),
            node: form.node,
            cp: CpFSeid { seid, ipv4, ipv6 },
            tunnels: tunnels.map(|(address, teid)| (*address, Teid(*teid))).collect(),
            addresses: form
                .addresses
                .iter()
                .map(prefix)
                .collect::<Result<_, RecordError>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// As every build has written it: a store has very many of them.
    #[test]
    fn the_form_stays_as_it_is() {
        let octets = [
            &[VERSION, 5, 5, 0, 10, 0, 0, 1, 7, 1, 10, 4, 0, 2, 0][..],
            &[1, 0, 10, 0, 3, 1, 9],
            b"\x01\x08internet\x00\x0a\x2d\x00\x02\x20",
        ]
        .concat();
        let head = SessionHead::decode(&octets).unwrap();
        assert_eq!((head.seid, head.node), (Seid(5), &b"\0\x0a\0\0\x01"[..]));
        let (seid, ipv4) = (7, Some(Ipv4Addr::new(10, 4, 0, 2)));
        assert_eq!(
            head.cp,
            CpFSeid {
                seid,
                ipv4,
                ipv6: None
            }
        );
        assert_eq!(head.tunnels[..], [([10, 0, 3, 1].into(), Teid(9))]);
        let ue = IpPrefix::host([10, 45, 0, 2].into());
        assert_eq!(head.addresses[..], [("internet", ue)]);
    }
}
