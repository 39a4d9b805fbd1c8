//! A sample of packets, as they came in and as they went out, held against the interpreter of the rules.

use std::net::IpAddr;
use std::sync::Arc;

use flow::{InstanceId, PortId};
use packet::IpTuple;
use rules::network::Network;
use rules::reference_interpreter::{Outcome, Verdict, interpret};
use serde::Serialize;

use super::network::{ROUTER, Wire};
use super::rules::{Identity, is_limited, session_rules};
use super::settings::Setting;

/// Samples of one measurement at most.
const MOST: usize = 256;
/// One of this number of packets is sampled.
const EVERY: u64 = 4_093;

/// One packet that was followed through the worker.
#[derive(Clone, Debug)]
pub struct Sample {
    port: PortId,
    /// The frame as received, with zeros for the octets that are only counted.
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

    /// Holds them against the interpreter, once the worker has nothing more to do. A packet that came out otherwise
    /// than the interpreter says is a mistake, and so is one that did not come out though the interpreter forwards it:
    /// only a meter that lets nothing of its bearer pass may have dropped it.
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
                checked
                    .first
                    .get_or_insert_with(|| "a packet of no session".into());
                continue;
            };
            let Ok(rules) = session_rules(model, session as u32, identities[session]) else {
                continue;
            };
            let verdict = interpret(&rules, network, InstanceId(sample.port.0), frame);
            let is_red = verdict.pdr.is_some_and(|pdr| is_limited(&rules, pdr));
            if let Some(fault) = checked.add(wire, &sample.end, &verdict, is_red) {
                let side = if sample.port == PortId(0) {
                    "uplink"
                } else {
                    "downlink"
                };
                let named = || format!("{fault}: {side} packet of UE {}", identities[session].ue);
                checked.first.get_or_insert_with(named);
            }
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

/// Results of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Packets that were sent as the interpreter requires, octet for octet.
    pub same: u64,
    /// Packets that did not.
    pub different: u64,
    /// Packets of bearers whose meter lets nothing pass, that were dropped.
    pub red: u64,
    /// Packets that were dropped where the interpreter forwards them and no meter is in the way.
    pub dropped: u64,
    /// Packets that never came out, nor were they given back.
    pub held: u64,
    /// The first mistake: the frame that was sent or dropped, and its session.
    pub first: Option<String>,
}

impl Checked {
    /// Counts one more sample; `fault` is its mistake.
    fn add(&mut self, wire: Wire, end: &End, verdict: &Verdict, is_red: bool) -> Option<&'static str> {
        match (end, &verdict.outcome) {
            (End::Open, _) => {
                self.held += 1;
                return Some("never came out");
            }
            (End::Dropped, Outcome::Dropped(_)) => self.same += 1,
            (End::Dropped, Outcome::Forwarded { .. }) if is_red => self.red += 1,
            (End::Dropped, Outcome::Forwarded { .. }) => {
                self.dropped += 1;
                return Some("dropped, and the interpreter forwards it");
            }
            (End::Sent(port, frame), Outcome::Forwarded { bytes, egress, .. })
                if !is_red && wire.may_leave_by(*port, *egress) && is_frame(wire, frame, *egress, bytes) =>
            {
                self.same += 1;
            }
            // No FAR of a benchmark sends to ourselves.
            _ => {
                self.different += 1;
                return Some("came out otherwise than the interpreter says");
            }
        }
        None
    }

    /// Whether every sample equals the interpreter's result.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.different == 0 && self.dropped == 0 && self.held == 0
    }

    /// The mistakes in words.
    #[must_use]
    pub fn fault(&self) -> String {
        format!(
            "of the samples {} differ from the interpreter's, {} were dropped, {} never came out; {}",
            self.different,
            self.dropped,
            self.held,
            self.first.as_deref().unwrap_or("none is known")
        )
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            same: self.same + other.same,
            different: self.different + other.different,
            red: self.red + other.red,
            dropped: self.dropped + other.dropped,
            held: self.held + other.held,
            first: self.first.or(other.first),
        }
    }
}

/// Whether `frame` is `packet` on the way to the router of `egress`.
fn is_frame(wire: Wire, frame: &[u8], egress: InstanceId, packet: &[u8]) -> bool {
    let side = usize::from(egress.0);
    let link = wire.link(side, [ROUTER, wire.mac(side)]);
    frame.strip_prefix(&link[..]) == Some(packet)
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::super::model::Model;
    use super::super::progress::Progress;
    use super::super::world::World;
    use super::*;

    /// The result of the checks after the end of each sent sample is changed.
    fn checked(end: Option<End>) -> Checked {
        let progress = Progress::silent();
        let model = Model::v(2, 1).unwrap().with_sessions(64);
        let mut world = World::new(Setting::new(model), &progress).unwrap();
        world.install_flows(0, model.flows(), &progress).unwrap();
        world.load(Load::saturated(&model, model.flows()));
        world.poll_until(|world| world.feed().counts().given > 500_000);
        world.settle();
        let end = &end;
        world.check_samples_with(|samples| {
            for sample in &mut samples.0 {
                if let (End::Sent(..), Some(end)) = (&sample.end, end) {
                    sample.end = end.clone();
                }
            }
        })
    }

    #[test]
    fn a_drop_that_the_interpreter_forwards_voids_the_figure() {
        let sound = checked(None);
        assert!(sound.is_sound() && sound.same > 50 && sound.red > 0, "{sound:?}");
        let dropped = checked(Some(End::Dropped));
        assert!(!dropped.is_sound() && dropped.dropped > 50, "{dropped:?}");
        assert!(
            dropped
                .fault()
                .contains("dropped, and the interpreter forwards it"),
            "{}",
            dropped.fault()
        );
        assert!(
            dropped.fault().contains("packet of UE 10.6"),
            "{}",
            dropped.fault()
        );
        let held = checked(Some(End::Open));
        assert!(!held.is_sound() && held.held > 50, "{held:?}");
    }
}
