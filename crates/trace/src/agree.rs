//! Whether a worker did with a packet what the interpreter says of it.

use flow::meter::Colour;
use packet::DropReason;
use packet::eth::L2;
use rules::interpret::{Conditions, Metering, Outcome, Quotas, Verdict, interpret_with};
use rules::network::{InstanceId, Network};
use worker::{Traced, TracedEnd, TracedFrame, TracedSession};

/// What came of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The interpreter says the same.
    Same,
    /// It has no word in this: why.
    Unchecked(&'static str),
    /// It says something else: a mistake of one of the two. What each says.
    Differs(String),
}

/// Holds what a worker did against the interpreter, and gives what that says of the packet, if it has a session.
#[must_use]
pub fn agree(network: &Network, traced: &Traced) -> (Agreement, Option<Verdict>) {
    let (Some(session), Some(ingress)) = (&traced.session, traced.instance) else {
        return (Agreement::Unchecked("no session decides about it"), None);
    };
    let verdict = interpreted(network, ingress, traced, session, true);
    let free = (!session.exhausted.is_empty())
        .then(|| interpreted(network, ingress, traced, session, false))
        .filter(|free| *free != verdict);
    let agreement = match compare(network, traced, &verdict) {
        // Zeros stand for what was not kept, and the interpreter reads them.
        Agreement::Differs(_) if !is_whole(&traced.received) => {
            Agreement::Unchecked("it was cut short (--snap)")
        }
        agreement => agreement,
    };
    // Quotas are known as they are behind the packet; it may have been the last that had room.
    if let (Agreement::Differs(_), Some(free)) = (&agreement, free) {
        let other = compare(network, traced, &free);
        if !matches!(other, Agreement::Differs(_)) {
            return (other, Some(free));
        }
    }
    (agreement, Some(verdict))
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
        quotas,
    };
    interpret_with(&session.rules, network, ingress, &packet, conditions)
}

/// A frame behind its link layer, with zeros in place of what was not kept.
fn packet_of(frame: &TracedFrame) -> Vec<u8> {
    let start = L2::parse(&frame.octets).map_or(0, |l2| l2.len.into());
    let mut packet = frame.octets.get(start..).unwrap_or_default().to_vec();
    packet.resize((frame.len as usize).saturating_sub(start).max(packet.len()), 0);
    packet
}

fn is_whole(frame: &TracedFrame) -> bool {
    frame.octets.len() == frame.len as usize
}

fn compare(network: &Network, traced: &Traced, verdict: &Verdict) -> Agreement {
    if let Some(why) = out_of_sight(traced) {
        return Agreement::Unchecked(why);
    }
    let decided = traced.decision.as_ref().map(|decision| decision.pdr);
    if let (Some(decided), Some(pdr)) = (decided, verdict.pdr)
        && decided != pdr
    {
        return Agreement::Differs(format!(
            "the worker took PDR {decided}, the interpreter takes PDR {pdr}"
        ));
    }
    match (&traced.end, &verdict.outcome) {
        (TracedEnd::Dropped(did), Outcome::Dropped(says)) if did == says => Agreement::Same,
        (TracedEnd::Buffered, Outcome::Dropped(DropReason::FarBuffer)) => Agreement::Same,
        (TracedEnd::Buffered, Outcome::Forwarded { .. }) => Agreement::Unchecked("it waits for its next hop"),
        (TracedEnd::Sent { frame, .. }, Outcome::Recirculated { is_answer: true, .. })
            if !frame.octets.is_empty() =>
        {
            Agreement::Unchecked("it is answered, and answers are not compared")
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
        (did, says) => Agreement::Differs(format!(
            "the worker says: {}; the interpreter says: {}",
            worker_says(did),
            interpreter_says(network, says)
        )),
    }
}

/// What of a packet only the worker knows.
fn out_of_sight(traced: &Traced) -> Option<&'static str> {
    if traced.flow.is_postponed {
        return Some(
            "its flow goes by older rules that sessions share until there is time to decide it again",
        );
    }
    if traced.borrowed_ports {
        return Some(
            "it has the ports of the first fragment of its datagram, which the interpreter does not see",
        );
    }
    if traced.uses_path_mtus {
        return Some(
            "what it may tell of its segments depends on paths' MTUs, which the interpreter does not know",
        );
    }
    if traced
        .decision
        .as_ref()
        .is_some_and(|decision| decision.is_translated)
    {
        return Some("its flow is translated (NAT)");
    }
    match traced.end {
        TracedEnd::HandedOver(_) => Some("its owner decides about it"),
        TracedEnd::Consumed => Some("it has done its work here"),
        TracedEnd::ToHost => Some("it is for the host's own network stack"),
        TracedEnd::Reassembling => Some("it waits for the other fragments of its GTP-U packet"),
        TracedEnd::Held => Some("it waits for the first fragment of its datagram"),
        TracedEnd::Dropped(reason) => depends_on_more(reason),
        TracedEnd::Buffered | TracedEnd::Sent { .. } => None,
    }
}

/// Why a drop depends on more than rules and packet, if it does. Every reason has its place here.
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
        R::RedirectLimit | R::RelayLimit | R::RateLimited | R::HostRate => {
            Some("it depends on what came before in this second")
        }
        R::NotRedirected => Some("it depends on what is redirected"),
        R::BufferDiscarded | R::BufferExpired | R::FragmentTimeout => Some("it depends on time"),
        R::SlowPathBudget
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
) -> Agreement {
    let port = network.instance(instance).map(|instance| instance.port);
    // Of several routers, those that answer get the packets: the interpreter does not know which do.
    if port != Some(frame.port) && network.groups().is_empty() {
        return Agreement::Differs(format!(
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
        return Agreement::Differs(format!(
            "the worker sent {len} octets of IP, the interpreter says {}",
            bytes.len()
        ));
    }
    if !is_whole(&traced.received) {
        return Agreement::Unchecked("it was cut short: port and length agree");
    }
    let first = sent.iter().zip(bytes).position(|(did, says)| did != says);
    match first {
        None => Agreement::Same,
        Some(place) => Agreement::Differs(format!(
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
        TracedEnd::Held | TracedEnd::Reassembling | TracedEnd::Buffered => "it waits".into(),
    }
}

fn interpreter_says(network: &Network, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Forwarded { egress, .. } => format!("it is sent by {}", name_of(network, *egress)),
        Outcome::Recirculated { ingress, .. } => {
            format!("it comes in again by {}", name_of(network, *ingress))
        }
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
    use worker::{TraceSource, TracedDecision, TracedFlow, TracedLookup};

    use super::*;

    /// A packet that PDR 1 is for, of a flow whose entry says another.
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
                is_translated: false,
            }),
            is_yellow: false,
            is_answer: false,
            borrowed_ports: false,
            uses_path_mtus: false,
            end: TracedEnd::Dropped(DropReason::FarDrop),
        }
    }

    /// What goes by older rules cannot be held against the newer ones that the interpreter has.
    #[test]
    fn a_flow_that_was_put_off_is_no_disagreement() {
        let network = testing::network();
        let agreement = |is_postponed| agree(&network, &by_another_pdr(is_postponed)).0;
        assert!(matches!(agreement(false), Agreement::Differs(_)));
        assert!(matches!(agreement(true), Agreement::Unchecked(why) if why.contains("older rules")));
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
