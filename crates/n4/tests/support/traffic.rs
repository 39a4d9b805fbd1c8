//! User packets through a session's rules, by the interpreter: whether what was accepted also forwards.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use flow::InstanceId;
use packet::Qfi;
use packet::build::packet::{addrs, g_pdu, udp};
use packet::build::{GtpuEncap, Marking};
use rules::model::SessionRules;
use rules::reference_interpreter::{Outcome, interpret};

use super::fleet::network;
use super::{GNB, N3};

const ACCESS: InstanceId = InstanceId(0);
const INTERNET: InstanceId = InstanceId(1);

/// What became of a packet, in short.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// Plain, out of this instance.
    Plain(InstanceId),
    /// In a tunnel with this TEID, and this QFI in a PDU Session Container.
    Tunnel(u32, Option<u8>),
    Dropped,
}

/// A UE's packet to a server, as a gNB sends it with this QFI.
pub fn uplink(rules: &SessionRules, teid: u32, ue: Ipv4Addr, to: Ipv4Addr, qfi: u8) -> Fate {
    let inner = udp(at(ue, 4000), at(to, 53), b"question").unwrap();
    let outer = addrs(IpAddr::V4(GNB), IpAddr::V4(N3)).unwrap();
    let encap = GtpuEncap::new(outer, packet::Teid(teid));
    let packet = g_pdu(&encap, Some(Marking::uplink(Qfi::new(qfi).unwrap())), &inner).unwrap();
    fate(rules, ACCESS, &packet)
}

/// A server's packet to a UE.
pub fn downlink(rules: &SessionRules, ue: Ipv4Addr, from: Ipv4Addr) -> Fate {
    let packet = udp(at(from, 53), at(ue, 4000), b"answer").unwrap();
    fate(rules, INTERNET, &packet)
}

fn at(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

fn fate(rules: &SessionRules, ingress: InstanceId, packet: &[u8]) -> Fate {
    match interpret(rules, &network(), ingress, packet).outcome {
        Outcome::Dropped(_) | Outcome::Consumed | Outcome::Recirculated { .. } => Fate::Dropped,
        Outcome::Forwarded { bytes, egress, .. } => {
            let (gtpu, port) = (bytes.get(28..).unwrap_or(&[]), bytes.get(22..24));
            if egress != ACCESS && egress != InstanceId(3) && egress != InstanceId(4)
                || port != Some(&[8, 104])
            {
                return Fate::Plain(egress);
            }
            let teid = u32::from_be_bytes(gtpu[4..8].try_into().unwrap());
            let is_marked = gtpu[0] & 4 != 0 && gtpu[11] == 0x85;
            Fate::Tunnel(teid, is_marked.then(|| gtpu[14] & 0x3f))
        }
    }
}
