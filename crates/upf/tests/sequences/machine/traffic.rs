//! Packets of sessions, and what the interpreter says of them over the model's rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rules::model::{FarId, SessionRules};
use rules::network::{InstanceId, Network};
use rules::reference_interpreter::{Counted, Outcome, interpret};
use rules::testing::{UserPacket, tunnelled};

use super::model::{Kept, Rules};
use super::upf::{ACCESS, INTERNET, N3};

const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
/// Ports of the far end, which filters distinguish.
const PORTS: [u16; 2] = [53, 80];

/// Octets before a packet's number.
const TAG: [u8; 16] = [0xab; 16];

/// A kind of packet that a session may get.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The tunnel that it comes in, if it comes in one.
    teid: Option<u32>,
    ue: IpAddr,
    port: u16,
}

/// Every kind that the rules could distinguish.
pub fn kinds(rules: &Rules) -> Vec<Kind> {
    let ue = rules
        .ue_prefixes()
        .into_iter()
        .map(|prefix| match prefix.address() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() | 7).into(),
        });
    let teids: Vec<u32> = rules.teids().iter().map(|teid| teid.0).collect();
    let mut all = Vec::new();
    for ue in ue {
        for port in PORTS {
            let ways = teids.iter().copied().map(Some).chain([None]);
            all.extend(ways.map(|teid| Kind { teid, ue, port }));
        }
    }
    all
}

impl Kind {
    pub fn is_up(self) -> bool {
        self.teid.is_some()
    }

    /// The packet of this number: where it comes in, and its octets from the outermost IP header on.
    pub fn packet(self, number: u32) -> Kept {
        let remote: IpAddr = if self.ue.is_ipv4() {
            REMOTE.into()
        } else {
            REMOTE_V6.into()
        };
        let mut user = match self.teid {
            Some(_) => UserPacket::udp(self.ue, remote, 1000, self.port),
            None => UserPacket::udp(remote, self.ue, self.port, 1000),
        };
        user.payload = [&TAG[..], &number.to_be_bytes()].concat();
        let (ingress, bytes) = match self.teid {
            Some(teid) => (
                ACCESS,
                tunnelled(N3, teid, 255, Some([0x10, 9]), &[], &user.bytes()),
            ),
            None => (INTERNET, user.bytes()),
        };
        Kept {
            number,
            ingress,
            bytes,
        }
    }
}

/// The number of the packet in a frame that left, if it is a user's.
pub fn number(frame: &[u8]) -> Option<u32> {
    let packet = frame.get(14..)?;
    let is_v6 = packet.first()? >> 4 == 6;
    let len = match is_v6 {
        true => 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])),
        false => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
    };
    let whole = packet.get(..len)?;
    let is_gtpu = !is_v6 && whole.get(9) == Some(&17) && whole.get(22..24) == Some(&[8, 0x68]);
    if is_gtpu && whole.get(29) != Some(&255) {
        return None;
    }
    let tagged: &[u8; 20] = whole.last_chunk()?;
    let (tag, number) = tagged.split_at(16);
    (*tag == TAG).then(|| number.iter().fold(0, |all, octet| all << 8 | u32::from(*octet)))
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Out(InstanceId, Vec<u8>),
    /// It waits for this FAR.
    Waits(FarId),
    Dropped(packet::DropReason),
}

/// What the interpreter says of a packet under these rules, and the URRs that count it.
pub fn fate(rules: &SessionRules, network: &Network, packet: &Kept) -> (Fate, Vec<Counted>) {
    let verdict = interpret(rules, network, packet.ingress, &packet.bytes);
    let fate = match verdict.outcome {
        Outcome::Forwarded { bytes, egress, .. } => Fate::Out(egress, bytes),
        Outcome::Recirculated { .. } => unreachable!("no plan leads to ourselves"),
        Outcome::Consumed => unreachable!("nothing is reported"),
        Outcome::Dropped(packet::DropReason::FarBuffer) => {
            let pdr = verdict.pdr.and_then(|id| rules.pdr(id));
            Fate::Waits(pdr.and_then(|pdr| pdr.far).expect("a FAR that buffers"))
        }
        Outcome::Dropped(reason) => Fate::Dropped(reason),
    };
    (fate, verdict.counted)
}
