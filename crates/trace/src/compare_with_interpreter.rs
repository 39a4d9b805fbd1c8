//! Comparison of what a worker did with a packet and what the interpreter decides for the same packet, rules and
//! network.
//!
//! The two share no decision code, so a difference is a mistake of one of them. The interpreter sees one packet: it
//! knows no budgets, tables, neighbours, MTUs or earlier packets. What depends on those is [`Comparison::Unchecked`].

use flow::meter::Colour;
use packet::DropReason;
use packet::eth::L2;
use rules::network::{InstanceId, Network};
use rules::reference_interpreter::{
    Conditions, CongestionMarks, Metering, Outcome, Quotas, Verdict, interpret_with,
};
use rules::{Detection, NameSource};
use worker::{Traced, TracedDetection, TracedEnd, TracedFrame, TracedLookup, TracedSession};

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The interpreter and the worker decided the same.
    Same,
    /// The interpreter cannot decide this packet: why.
    Unchecked(&'static str),
    /// The interpreter and the worker decided differently: both decisions, as text.
    Differs(String),
}

/// A compared packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Result of the comparison.
    pub comparison: Comparison,
    /// The interpreter's decision; `None` for a packet without a session.
    pub verdict: Option<Verdict>,
}

/// Interprets a traced packet and compares the result with what the worker did.
#[must_use]
pub fn compare_with_interpreter(network: &Network, traced: &Traced) -> Compared {
    let (Some(session), Some(ingress)) = (&traced.session, traced.instance) else {
        return Compared {
            comparison: Comparison::Unchecked("no session decides about it"),
            verdict: None,
        };
    };
    let verdict = interpreted(network, ingress, traced, session, true);
    let unlimited = (!session.exhausted.is_empty())
        .then(|| interpreted(network, ingress, traced, session, false))
        .filter(|unlimited| *unlimited != verdict);
    let comparison = match compare(network, traced, &verdict) {
        Comparison::Differs(_) if may_have_forgotten(traced) => {
            Comparison::Unchecked("what its flow is for is not remembered")
        }
        // The interpreter reads zeros in place of octets that the trace did not keep.
        Comparison::Differs(_) if !is_whole(&traced.received) => {
            Comparison::Unchecked("it was cut short (--snap)")
        }
        comparison => comparison,
    };
    // A trace has the quotas as they are after the packet. This packet may have been the last within them.
    if let (Comparison::Differs(_), Some(unlimited)) = (&comparison, unlimited) {
        let comparison = compare(network, traced, &unlimited);
        if !matches!(comparison, Comparison::Differs(_)) {
            return Compared {
                comparison,
                verdict: Some(unlimited),
            };
        }
    }
    Compared {
        comparison,
        verdict: Some(verdict),
    }
}

fn interpreted(
    network: &Network,
    ingress: InstanceId,
    traced: &Traced,
    session: &TracedSession,
    are_exhausted: bool,
) -> Verdict {
    let colour = match traced.end {
        TracedEnd::Dropped(DropReason::MeterRed) => Colour::Red,
        _ if traced.is_yellow => Colour::Yellow,
        _ => Colour::Green,
    };
    let quotas = Quotas {
        exhausted: if are_exhausted { &session.exhausted } else { &[] },
        is_answer: traced.is_answer,
    };
    let packet = packet_of(&traced.received);
    let conditions = Conditions {
        metering: Metering::Colour(colour),
        // What was reported before is as the worker knows it.
        congestion: CongestionMarks::Turn(traced.is_congested),
        quotas,
        detection: detection_of(traced),
        // The UE's connections are as the worker knows them.
        is_solicited: !matches!(traced.end, TracedEnd::Dropped(DropReason::AccessList)),
    };
    interpret_with(&session.rules, network, ingress, &packet, conditions)
}

/// What is known of the packet's flow.
pub(crate) fn detection_of(traced: &Traced) -> Detection<'_> {
    let known = traced.flow.detection.as_deref();
    // Nothing passes because of what a flow may turn out to be that is not looked into.
    known.map_or(Detection::Undetected, TracedDetection::as_detection)
}

/// Whether the worker may have decided by something that it has forgotten since, or had not known yet: what the flow
/// is. Answers of resolvers come and end while a flow has its entry.
fn may_have_forgotten(traced: &Traced) -> bool {
    let session = traced.session.as_ref();
    let mut rulebases = session.iter().flat_map(|session| {
        let pdrs = session.rules.pdrs();
        pdrs.iter().flat_map(|pdr| pdr.rulebases.iter())
    });
    let list = session.and_then(|session| session.rules.access_list());
    let list_asks = list.is_some_and(|list| list.asks());
    let mut any_asks = || list_asks || rulebases.any(|rulebase| rulebase.asks());
    let is_shown = |name: &Option<_>, source: &NameSource| name.is_some() && *source != NameSource::Resolver;
    let may_be = match traced.flow.detection.as_deref() {
        None => any_asks(),
        Some(TracedDetection::Unseen) => false,
        Some(TracedDetection::Found { name, source, .. }) if is_shown(name, source) => false,
        Some(_) if traced.flow.heeds_resolvers => any_asks(),
        // What carries nothing passes by the entry of before, when a rule might still have permitted its flow.
        Some(TracedDetection::Undetected) => list_asks,
        Some(_) => false,
    };
    may_be && matches!(traced.flow.lookup, TracedLookup::Hit { .. })
}

/// A frame without its link layer header, with zeros in place of octets that the trace did not keep.
fn packet_of(frame: &TracedFrame) -> Vec<u8> {
    let start = L2::parse(&frame.octets).map_or(0, |l2| l2.len.into());
    let mut packet = frame.octets.get(start..).unwrap_or_default().to_vec();
    packet.resize((frame.len as usize).saturating_sub(start).max(packet.len()), 0);
    packet
}

fn is_whole(frame: &TracedFrame) -> bool {
    frame.octets.len() == frame.len as usize
}

fn compare(network: &Network, traced: &Traced, verdict: &Verdict) -> Comparison {
    if let Some(why) = out_of_sight(traced) {
        return Comparison::Unchecked(why);
    }
    let decided = traced.decision.as_ref().map(|decision| decision.pdr);
    if let (Some(decided), Some(pdr)) = (decided, verdict.pdr)
        && decided != pdr
    {
        return Comparison::Differs(format!(
            "the worker took PDR {decided}, the interpreter takes PDR {pdr}"
        ));
    }
    match (&traced.end, &verdict.outcome) {
        (TracedEnd::Dropped(did), Outcome::Dropped(says)) if did == says => Comparison::Same,
        (TracedEnd::Buffered, Outcome::Dropped(DropReason::FarBuffer)) => Comparison::Same,
        (TracedEnd::Buffered, Outcome::Forwarded { .. }) => {
            Comparison::Unchecked("it waits for its next hop")
        }
        (TracedEnd::Sent { frame, .. }, Outcome::Recirculated { is_answer: true, .. })
            if !frame.octets.is_empty() =>
        {
            Comparison::Unchecked("it is answered, and answers are not compared")
        }
        (
            TracedEnd::Sent {
                frame,
                recirculates: false,
                ..
            },
            Outcome::Forwarded { bytes, egress, .. },
        ) => compare_frames(network, traced, frame, bytes, *egress),
        (
            TracedEnd::Sent {
                frame,
                recirculates: true,
                ..
            },
            Outcome::Recirculated { bytes, ingress, .. },
        ) => compare_frames(network, traced, frame, bytes, *ingress),
        (did, says) => Comparison::Differs(format!(
            "the worker says: {}; the interpreter says: {}",
            worker_says(did),
            interpreter_says(network, says)
        )),
    }
}

/// Why the interpreter lacks what the worker decided this packet by; `None` if it lacks nothing.
fn out_of_sight(traced: &Traced) -> Option<&'static str> {
    if traced.flow.is_postponed {
        return Some(
            "its flow goes by older rules that sessions share until there is time to decide it again",
        );
    }
    let has_list = |session: &TracedSession| session.rules.access_list().is_some();
    if traced.is_own && traced.session.as_ref().is_some_and(has_list) {
        return Some("it is a message of this node, about which no access list is asked");
    }
    if traced.borrowed_ports {
        return Some(
            "it has the ports of the first fragment of its datagram, which the interpreter does not see",
        );
    }
    if traced.uses_path_mtus {
        return Some(
            "the segment size that it may announce depends on paths' MTUs, which the interpreter does not know",
        );
    }
    if traced.translation.is_some() {
        return Some("its flow is translated (NAT)");
    }
    match traced.end {
        TracedEnd::HandedOver(_) => Some("its owner decides about it"),
        TracedEnd::Consumed => Some("it has done its work here"),
        TracedEnd::ToHost => Some("it is for the host's own network stack"),
        TracedEnd::Reassembling => Some("it waits for the other fragments of its GTP-U packet"),
        TracedEnd::AwaitsSession => Some("its session is still restored"),
        TracedEnd::AwaitsMove => Some("its session is on its way between worker and accelerator"),
        TracedEnd::GoesBack { .. } => Some("the accelerator passes it"),
        TracedEnd::Held => Some("it waits for the first fragment of its datagram"),
        TracedEnd::Dropped(reason) => depends_on_more(reason),
        TracedEnd::Buffered | TracedEnd::Sent { .. } => None,
    }
}

/// Why a drop with this reason depends on more than rules and packet; `None` if it does not. The match is exhaustive.
fn depends_on_more(reason: DropReason) -> Option<&'static str> {
    use DropReason as R;
    match reason {
        R::TruncatedEthernet
        | R::UnknownEtherType
        | R::VlanNotConfigured
        | R::MemberNotCollecting
        | R::BadSlowProtocol
        | R::TruncatedArp
        | R::BadArp
        | R::NotForUs
        | R::MartianSource
        | R::Fragment
        | R::BadFragment
        | R::ForeignErrorIndication => Some("no rule is asked about it"),
        R::NoNeighbour | R::PortDown => Some("it depends on who answers on the link"),
        R::TooBig => Some("it depends on the MTU of the way out"),
        R::QuotaExhausted => Some("it depends on what was counted before"),
        R::RedirectLimit | R::RelayLimit | R::RateLimited | R::HostRate => Some("a rate is used up"),
        R::NatNoMapping | R::NatUnsolicited | R::NatNoPort => Some("NAT is not interpreted"),
        R::NatProtocol | R::NatBypassed => Some("NAT is not interpreted"),
        R::NotRedirected => Some("it depends on what is redirected"),
        R::AbsentSession | R::Away | R::FragmentTimeout => Some("it depends on time"),
        R::BufferDiscarded | R::BufferExpired => Some("it depends on time"),
        R::ConnectionLimit
        | R::SlowPathBudget
        | R::StaleBudget
        | R::Overload
        | R::HostQueueFull
        | R::BufferLimit
        | R::FragmentsFull
        | R::FlowTableFull
        | R::InboxFull
        | R::NoBuffer
        | R::NoHeadroom
        | R::TxFull
        | R::RecirculationLimit => Some("it depends on room"),
        R::EgressQueueFull | R::EgressDelay | R::EgressReleased => Some("it depends on what waits"),
        R::TruncatedIpv4
        | R::BadIpv4Header
        | R::BadIpv4Checksum
        | R::TruncatedIpv6
        | R::BadIpv6Header
        | R::Ipv6ExtensionChain
        | R::BadIpLength
        | R::TruncatedUdp
        | R::BadUdpLength
        | R::BadUdpChecksum
        | R::TruncatedTcp
        | R::TruncatedIcmp
        | R::BadIcmp
        | R::TruncatedTransport
        | R::TruncatedGtpu
        | R::BadGtpuVersion
        | R::BadGtpuLength
        | R::BadGtpuExtension
        | R::UnknownGtpuExtension
        | R::UnsupportedGtpuMessage
        | R::BadGtpuIe
        | R::BadPduSessionContainer
        | R::EmptyTunnelPayload
        | R::UnknownInnerProtocol
        | R::MartianDestination
        | R::TtlExpired
        | R::NoRoute
        | R::UnknownTeid
        | R::UnknownUeAddress
        | R::NoMatchingPdr
        | R::AccessList
        | R::SpoofedSource
        | R::UeToUe
        | R::GateClosed
        | R::FarDrop
        | R::FarNoTunnel
        | R::FarBuffer
        | R::EndMarkerReported
        | R::PauseOfChargingHeeded
        | R::MissingQfi
        | R::MeterRed
        | R::UnsupportedAction => None,
    }
}

fn compare_frames(
    network: &Network,
    traced: &Traced,
    frame: &TracedFrame,
    bytes: &[u8],
    instance: InstanceId,
) -> Comparison {
    let port = network.instance(instance).map(|instance| instance.port);
    // Packets to a group of routers go to those that are reachable. The interpreter does not know which are.
    if port != Some(frame.port) && network.groups().is_empty() {
        return Comparison::Differs(format!(
            "the worker sent by port {}, the interpreter says by {}",
            frame.port,
            name_of(network, instance)
        ));
    }
    let start = L2::parse(&frame.octets).map_or(0, |l2| usize::from(l2.len));
    let (sent, len) = (
        frame.octets.get(start..).unwrap_or_default(),
        (frame.len as usize).saturating_sub(start),
    );
    if len != bytes.len() {
        return Comparison::Differs(format!(
            "the worker sent {len} octets of IP, the interpreter says {}",
            bytes.len()
        ));
    }
    if !is_whole(&traced.received) {
        return Comparison::Unchecked("it was cut short: port and length agree");
    }
    let first = sent.iter().zip(bytes).position(|(did, says)| did != says);
    match first {
        None => Comparison::Same,
        Some(place) => Comparison::Differs(format!(
            "octet {place} behind the link layer is {:#04x}, the interpreter says {:#04x}",
            sent[place], bytes[place]
        )),
    }
}

fn name_of(network: &Network, instance: InstanceId) -> &str {
    network
        .instance(instance)
        .map_or("an unknown instance", |one| one.name.as_str())
}

fn worker_says(end: &TracedEnd) -> String {
    match end {
        TracedEnd::Sent {
            recirculates: true, ..
        } => "it comes in again".into(),
        TracedEnd::Sent { .. } => "it is sent".into(),
        TracedEnd::Dropped(reason) => format!("it is dropped ({reason})"),
        TracedEnd::HandedOver(worker) => format!("it goes to worker {worker}"),
        TracedEnd::Consumed => "it has done its work".into(),
        TracedEnd::ToHost => "it goes to the host".into(),
        TracedEnd::GoesBack { .. } => "it goes back to the accelerator".into(),
        TracedEnd::Held
        | TracedEnd::Reassembling
        | TracedEnd::Buffered
        | TracedEnd::AwaitsSession
        | TracedEnd::AwaitsMove => "it waits".into(),
    }
}

fn interpreter_says(network: &Network, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Forwarded { egress, .. } => format!("it is sent by {}", name_of(network, *egress)),
        Outcome::Recirculated { ingress, .. } => {
            format!("it comes in again by {}", name_of(network, *ingress))
        }
        Outcome::Consumed => "it has done its work".into(),
        Outcome::Dropped(reason) => format!("it is dropped ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flow::{Direction, Nanos, PortId, SessionIndex, WorkerId};
    use packet::Teid;
    use rules::model::{OuterHeaderCreation, PdrId};
    use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, pdu_session, tunnelled};
    use worker::{TraceSource, TracedDecision, TracedFlow};

    use super::*;

    /// A packet that matches PDR 1, of a flow whose entry has another PDR.
    fn by_another_pdr(is_postponed: bool) -> Traced {
        const TEID: u32 = 0x1001;
        let packet = UserPacket::udp(UE, [192, 0, 2, 1], 1000, 53).bytes();
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &packet);
        let octets = [&[2; 12][..], &[8, 0], &packet].concat();
        let rules = pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
        Traced {
            worker: WorkerId(0),
            number: 1,
            time: Nanos::ZERO,
            source: TraceSource::Port,
            received: TracedFrame {
                port: PortId(0),
                len: octets.len() as u32,
                octets,
            },
            instance: Some(testing::N3),
            flow: TracedFlow {
                lookup: TracedLookup::Hit { outdated: true },
                is_postponed,
                entry: None,
                detection: None,
                shows_detection: false,
                heeds_resolvers: false,
            },
            session: Some(TracedSession {
                session: SessionIndex(1),
                seid: 2,
                rules: Arc::new(rules),
                counters: Vec::new(),
                exhausted: Vec::new(),
            }),
            decision: Some(TracedDecision {
                pdr: PdrId(7),
                direction: Direction::Uplink,
                qers: Vec::new(),
                urrs: Vec::new(),
            }),
            place: None,
            translation: None,
            is_yellow: false,
            is_congested: false,
            is_answer: false,
            is_own: false,
            borrowed_ports: false,
            uses_path_mtus: false,
            end: TracedEnd::Dropped(DropReason::FarDrop),
            queueing: None,
        }
    }

    /// A packet that was forwarded by older rules is not compared with the newer rules.
    #[test]
    fn a_flow_that_was_put_off_is_no_disagreement() {
        let network = testing::network();
        let comparison =
            |is_postponed| compare_with_interpreter(&network, &by_another_pdr(is_postponed)).comparison;
        assert!(matches!(comparison(false), Comparison::Differs(_)));
        assert!(matches!(comparison(true), Comparison::Unchecked(why) if why.contains("older rules")));
    }

    #[test]
    fn every_reason_has_words_a_clause_and_a_place() {
        for reason in DropReason::ALL {
            assert!(!reason.clause().is_empty() && reason.explain().ends_with('.'));
            if let Some(words) = depends_on_more(reason) {
                assert!(!words.is_empty());
            }
        }
    }
}
