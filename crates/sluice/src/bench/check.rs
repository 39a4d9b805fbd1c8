//! A sample of packets, as they came in and as they went out, held against the interpreter of the rules.

use std::net::IpAddr;
use std::sync::Arc;

use flow::{InstanceId, PortId};
use packet::IpTuple;
use rules::interpret::{Outcome, interpret};
use rules::network::Network;
use serde::Serialize;

use super::network::{ROUTER, Wire};
use super::rules::{Identity, session_rules};
use super::world::Setting;

/// Samples of one measurement at most.
const MOST: usize = 256;
/// One packet of so many is sampled.
const EVERY: u64 = 4_093;

/// One packet that was followed through the worker.
#[derive(Clone, Debug)]
pub struct Sample {
    port: PortId,
    /// The frame as received, with the part that lies elsewhere as zeros.
    received: Vec<u8>,
    end: End,
}

#[derive(Clone, Debug)]
enum End {
    Open,
    Dropped,
    Sent(PortId, Vec<u8>),
}

impl Sample {
    /// A frame received by `port`: the octets in one piece, and its length.
    #[must_use]
    pub fn new(port: PortId, data: &[u8], len: usize) -> Self {
        Self {
            port,
            received: whole(data, len),
            end: End::Open,
        }
    }
}

fn whole(data: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(len, 0);
    bytes
}

/// The samples of one measurement.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Whether the packet with this number is to be a sample.
    #[inline]
    #[must_use]
    pub fn wants(&self, number: u64) -> bool {
        number.is_multiple_of(EVERY) && self.0.len() < MOST
    }

    /// Adds one; its place, unless there are enough.
    pub fn add(&mut self, sample: Sample) -> Option<usize> {
        if self.0.len() >= MOST {
            return None;
        }
        self.0.push(sample);
        Some(self.0.len() - 1)
    }

    /// The sample at `place` was sent by `port`, or dropped.
    pub fn finish(&mut self, place: usize, port: Option<PortId>, data: &[u8], len: usize) {
        if let Some(sample) = self.0.get_mut(place) {
            sample.end = port.map_or(End::Dropped, |port| End::Sent(port, whole(data, len)));
        }
    }

    /// Holds them against the interpreter. A packet that meters, budgets or full queues may have dropped is no
    /// mistake; one that came out otherwise than the interpreter says is.
    #[must_use]
    pub fn check(&self, setting: &Setting, network: &Arc<Network>, identities: &[Identity]) -> Checked {
        let (model, wire) = (&setting.model, setting.wire);
        let mut checked = Checked::default();
        let of_ue = |address: IpAddr| {
            identities
                .iter()
                .position(|identity| IpAddr::V4(identity.ue) == address)
        };
        for sample in &self.0 {
            let link = wire.link(0, [ROUTER; 2]).len();
            let frame = sample.received.get(link..).unwrap_or_default();
            let ue = ue_address(sample.port, frame);
            let Some(session) = ue.and_then(of_ue) else {
                checked.different += 1;
                continue;
            };
            let Ok(rules) = session_rules(model, session as u32, identities[session]) else {
                continue;
            };
            let verdict = interpret(&rules, network, InstanceId(sample.port.0), frame);
            checked.add(wire, &sample.end, &verdict.outcome);
        }
        checked
    }
}

/// The UE's end of a received packet.
fn ue_address(port: PortId, packet: &[u8]) -> Option<IpAddr> {
    if port == PortId(1) {
        return IpTuple::parse(packet, packet.len())
            .ok()
            .map(|tuple| tuple.addrs.dst());
    }
    let inner = packet.get(44..)?;
    IpTuple::parse(inner, inner.len())
        .ok()
        .map(|tuple| tuple.addrs.src())
}

/// What came of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Packets that came out as the interpreter says, octet for octet.
    pub same: u64,
    /// Packets that did not.
    pub different: u64,
    /// Packets that were dropped where the interpreter, which knows no meter, budget or queue, lets them pass.
    pub dropped: u64,
    /// Packets that the worker still held.
    pub held: u64,
}

impl Checked {
    fn add(&mut self, wire: Wire, end: &End, outcome: &Outcome) {
        match (end, outcome) {
            (End::Open, _) => self.held += 1,
            (End::Dropped, Outcome::Dropped(_)) => self.same += 1,
            (End::Dropped, Outcome::Forwarded { .. }) => self.dropped += 1,
            // No FAR of a benchmark sends to ourselves.
            (End::Sent(..), Outcome::Dropped(_)) | (_, Outcome::Recirculated { .. }) => self.different += 1,
            (End::Sent(port, frame), Outcome::Forwarded { bytes, egress, .. }) => {
                let same = wire.may_leave_by(*port, *egress) && is_frame(wire, frame, *egress, bytes);
                self.same += u64::from(same);
                self.different += u64::from(!same);
            }
        }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            same: self.same + other.same,
            different: self.different + other.different,
            dropped: self.dropped + other.dropped,
            held: self.held + other.held,
        }
    }
}

/// Whether `frame` is `packet` on the way to the router of `egress`.
fn is_frame(wire: Wire, frame: &[u8], egress: InstanceId, packet: &[u8]) -> bool {
    let side = usize::from(egress.0);
    let link = wire.link(side, [ROUTER, wire.mac(side)]);
    frame.strip_prefix(&link[..]) == Some(packet)
}
