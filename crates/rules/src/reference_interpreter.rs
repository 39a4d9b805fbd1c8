//! The interpreter: what TS 29.244 says of one packet, with no cache, table or compiled form in between.
//!
//! It is a second implementation of the rules, on purpose. Tests compare the classifier, the compiler and the packet
//! path with it, so it shares the parsing of packets with them and nothing else: matching, forwarding, headers and
//! meters are written again, plainly, and a mistake in one implementation is a difference. Do not replace its code by
//! calls of `classifier` or `compile`, and do not use it there. It is slow; production code calls it to explain traced
//! packets only.
//!
//! It takes packets one by one: a fragment behind the first has ports 0 here. A worker that knows the first fragment
//! (`worker::FragmentLimits`) does with the others what the interpreter says of the whole datagram.
//!
//! It does not find the session, and it knows neither the link layer nor MTUs, nor the replies to dropped packets.

mod access;
mod arrival;
mod build;
mod congestion;
mod detect;
mod egress;
mod evaluated_pdrs;
mod events;
mod meters;
mod mss;
mod quotas;
mod redirect;
mod session;
mod verdict;

use std::net::IpAddr;

use flow::meter::Colour;
use flow::{Direction, Nanos};
use packet::gtpu::{ExtensionType, Ies, MessageType};
use packet::{DropReason, IpTuple, Qfi};

use self::access::is_denied;
pub use self::access::{EvaluatedAccess, evaluate_access};
use self::arrival::{Arrival, Tunnelled};
use self::build::Extension;
pub use self::congestion::{CongestionMarks, ReferenceCongestion};
use self::congestion::{heed_report, marked, note_left};
use self::detect::{check_source, detect, detect_signalling, owns_address, owns_tunnel};
use self::egress::{
    Egress, NextTunnel, Treatment, duplicate, egress, leave_in, leave_plain, leave_unchanged,
};
pub use self::evaluated_pdrs::{EvaluatedPdr, Mismatch, evaluate_pdrs};
use self::events::events;
pub use self::meters::ReferenceMeters;
use self::mss::clamp;
use self::quotas::{as_quotas_allow, exhausted_urrs};
use self::redirect::leave_redirected;
pub use self::session::Quotas;
use self::session::{Session, direction};
pub use self::verdict::{Billed, Counted, Duplicate, Outcome, Verdict};
use crate::model::{MeasurementMethod, Pdr, Qer, SessionRules, SourceInterface, Urr};
use crate::network::{InstanceId, Network};
use crate::packet_view::Detection;

/// Under which conditions a packet is evaluated.
pub struct Conditions<'a> {
    /// What meters its colour.
    pub metering: Metering<'a>,
    /// What says which packets are marked for L4S on behalf of the RAN.
    pub congestion: CongestionMarks<'a>,
    /// Which quotas are exhausted (TS 29.244 §5.2.2.2.1).
    pub quotas: Quotas<'a>,
    /// What the packet's flow is for.
    pub detection: Detection<'a>,
    /// The packet belongs to a connection that the UE has begun, as its access list asks.
    pub is_solicited: bool,
}

/// What meters a packet's colour.
pub enum Metering<'a> {
    /// Other meters did: every packet has this colour.
    Colour(Colour),
    /// These, now (TS 29.244 §5.4.4): a packet passes all meters, or takes nothing from any and is dropped. What is
    /// beyond a guaranteed bit rate is yellow.
    Meters(&'a mut ReferenceMeters, Nanos),
}

/// Evaluates the rules of the packet's session for it. `packet` starts with its outermost IP header and came in by
/// `ingress`; octets behind its IP length are padding.
///
/// No rate is enforced, and every packet is green: [`interpret_with`] has meters.
pub fn interpret(rules: &SessionRules, network: &Network, ingress: InstanceId, packet: &[u8]) -> Verdict {
    let conditions = Conditions {
        metering: Metering::Colour(Colour::Green),
        congestion: CongestionMarks::Turn(false),
        quotas: Quotas::default(),
        detection: Detection::Undecided,
        is_solicited: false,
    };
    interpret_with(rules, network, ingress, packet, conditions)
}

/// The same under other conditions.
pub fn interpret_with(
    rules: &SessionRules,
    network: &Network,
    ingress: InstanceId,
    packet: &[u8],
    mut conditions: Conditions<'_>,
) -> Verdict {
    let session = Session {
        rules,
        network,
        quotas: conditions.quotas,
        detection: conditions.detection,
        is_solicited: conditions.is_solicited,
    };
    let mut police = |qers: &[&Qer], direction, octets| match &mut conditions.metering {
        Metering::Colour(colour) => *colour,
        Metering::Meters(meters, now) => meters.pass(qers, direction, octets, *now),
    };
    let accounts = Accounts {
        police: &mut police,
        congestion: &mut conditions.congestion,
    };
    evaluate(session, ingress, packet, accounts)
}

/// The colour that the meters of these QERs give a packet of a number of octets.
type Police<'a> = &'a mut dyn FnMut(&[&Qer], Direction, u64) -> Colour;

/// What packets before have left, and this one changes.
struct Accounts<'a, 'b> {
    police: Police<'a>,
    congestion: &'a mut CongestionMarks<'b>,
}

fn evaluate(session: Session<'_>, ingress: InstanceId, packet: &[u8], accounts: Accounts<'_, '_>) -> Verdict {
    let mut verdict = Verdict {
        outcome: Outcome::Dropped(DropReason::NoMatchingPdr),
        counted: Vec::new(),
        events: Vec::new(),
        counted_before_qos: Vec::new(),
        billed: None,
        pdr: None,
        duplicate: None,
    };
    match walk(session, ingress, packet, accounts, &mut verdict) {
        Ok(forwarded) => verdict.outcome = forwarded,
        Err(reason) => verdict.outcome = Outcome::Dropped(reason),
    }
    verdict
}

fn walk(
    session: Session<'_>,
    ingress: InstanceId,
    packet: &[u8],
    accounts: Accounts<'_, '_>,
    verdict: &mut Verdict,
) -> Result<Outcome, DropReason> {
    let arrival = Arrival::parse(session.network, ingress, packet)?;
    check_ownership(session, &arrival)?;
    match &arrival {
        Arrival::Tunnel(tunnel) if tunnel.message_type != MessageType::G_PDU => {
            relay_signalling(session, tunnel, verdict)
        }
        _ => user_packet(session, ingress, &arrival, accounts, verdict),
    }
}

/// Whether the packet belongs to this session at all (TS 29.244 §5.2.1, first step).
fn check_ownership(session: Session<'_>, arrival: &Arrival<'_>) -> Result<(), DropReason> {
    match arrival {
        Arrival::Tunnel(tunnel) if owns_tunnel(session, tunnel) => Ok(()),
        Arrival::Tunnel(_) => Err(DropReason::UnknownTeid),
        Arrival::Plain { vrf, tuple, .. } if owns_address(session, *vrf, tuple.addrs.dst()) => Ok(()),
        Arrival::Plain { .. } => Err(DropReason::UnknownUeAddress),
    }
}

fn user_packet(
    session: Session<'_>,
    ingress: InstanceId,
    arrival: &Arrival<'_>,
    accounts: Accounts<'_, '_>,
    verdict: &mut Verdict,
) -> Result<Outcome, DropReason> {
    let tuple = match arrival.user_tuple() {
        Err(DropReason::EmptyTunnelPayload) => return report_alone(session, arrival, accounts),
        tuple => tuple?,
    };
    if is_denied(session, arrival, &tuple) {
        return Err(DropReason::AccessList);
    }
    let (pdr, content) = detect(session, arrival, &tuple).ok_or(DropReason::NoMatchingPdr)?;
    verdict.pdr = Some(pdr.id);
    check_source(session, &pdr, &tuple)?;
    check_destination(session, arrival, &pdr, &tuple)?;
    let direction = direction(&pdr);
    if direction == Direction::Uplink {
        heed_report(session, arrival, accounts.congestion);
    }
    let octets = u64::from(tuple.total_len);
    verdict.counted_before_qos = counts_in(session, &pdr, octets, direction, Urr::measures_before_qos);
    if session.qers(&pdr).any(|qer| gate_closed(qer, direction)) {
        return Err(DropReason::GateClosed);
    }
    let pdr = as_quotas_allow(session, pdr, &tuple)?;
    check_destination(session, arrival, &pdr, &tuple)?;
    let left = forward(session, ingress, arrival, &pdr, &tuple, accounts, verdict)?;
    verdict.counted = counts_in(session, &pdr, octets, direction, |_| true);
    verdict.events = events(session, &pdr, &tuple, arrival.user_packet(&tuple));
    verdict.billed = content.map(|content| Billed {
        content: content.clone(),
        octets,
        direction,
    });
    Ok(left)
}

/// A packet without a user packet, which a base station makes to report something.
fn report_alone(
    session: Session<'_>,
    arrival: &Arrival<'_>,
    accounts: Accounts<'_, '_>,
) -> Result<Outcome, DropReason> {
    let pdr = match arrival {
        Arrival::Tunnel(tunnel) => detect_signalling(session, tunnel),
        Arrival::Plain { .. } => None,
    };
    let is_uplink = pdr.is_some_and(|(pdr, _)| direction(&pdr) == Direction::Uplink);
    match is_uplink && heed_report(session, arrival, accounts.congestion) {
        true => Ok(Outcome::Consumed),
        false => Err(DropReason::EmptyTunnelPayload),
    }
}

/// What leaves of a packet whose gate is open, and what its FAR duplicates of it, also where the FAR drops it.
fn forward(
    session: Session<'_>,
    ingress: InstanceId,
    arrival: &Arrival<'_>,
    pdr: &Pdr,
    tuple: &IpTuple,
    accounts: Accounts<'_, '_>,
    verdict: &mut Verdict,
) -> Result<Outcome, DropReason> {
    let as_received = arrival.user_packet(tuple);
    let way = match egress(session, pdr) {
        Ok(way) => way,
        Err(reason) => {
            verdict.duplicate = duplicate(session, pdr, as_received);
            return Err(reason);
        }
    };
    check_extensions(arrival, &way)?;
    let user = hopped(arrival, &way, as_received)?;
    let treatment = treatment(session, arrival, pdr, tuple, accounts.police)?;
    let (direction, congestion) = (direction(pdr), accounts.congestion);
    let marked = marked(session, pdr, direction, &user, congestion);
    let as_marked = marked.unwrap_or_else(|| user.clone());
    let mut left = leave(session, arrival, pdr, tuple, way, treatment, as_marked);
    if let Ok(left) = &mut left {
        note_left(session, pdr, direction, &user, congestion);
        clamp(session, ingress, arrival, tuple, left);
    }
    // What is redirected is not duplicated.
    let as_sent = left.as_ref().ok().and_then(Outcome::bytes).map(|bytes| {
        let start = bytes.len().saturating_sub(tuple.total_len.into());
        &bytes[start..]
    });
    verdict.duplicate = duplicate(session, pdr, as_sent.unwrap_or(as_received));
    left
}

/// How the QERs have a packet that is within their rates treated.
fn treatment(
    session: Session<'_>,
    arrival: &Arrival<'_>,
    pdr: &Pdr,
    tuple: &IpTuple,
    police: Police<'_>,
) -> Result<Treatment, DropReason> {
    let acting = |qer: &Qer| Qer {
        correlation: session.rules.correlation(qer),
        ..qer.clone()
    };
    let qers: Vec<Qer> = session.qers(pdr).map(acting).collect();
    let qers: Vec<&Qer> = qers.iter().collect();
    match police(&qers, direction(pdr), tuple.total_len.into()) {
        Colour::Red => Err(DropReason::MeterRed),
        colour => Ok(Treatment {
            qfi: qfi(session, arrival, pdr),
            colour,
        }),
    }
}

/// The user's packet on its way.
fn leave(
    session: Session<'_>,
    arrival: &Arrival<'_>,
    pdr: &Pdr,
    tuple: &IpTuple,
    way: Egress,
    treatment: Treatment,
    user: Vec<u8>,
) -> Result<Outcome, DropReason> {
    match way {
        Egress::Plain(way) => leave_plain(session, &way, tuple, treatment, user),
        Egress::Tunnel(tunnel) => {
            let extensions = extensions(session, arrival, pdr, &tunnel);
            let message_type = MessageType::G_PDU;
            leave_in(
                session,
                &tunnel,
                message_type,
                &extensions,
                Some(treatment),
                &user,
            )
        }
        Egress::Unchanged(instance) => leave_unchanged(session, instance, tuple, user),
        Egress::Redirect(ingress, to) => leave_redirected(session, ingress, &to, tuple, &user),
    }
}

/// The PDR's URRs that a packet counts in, of those that are `wanted`.
fn counts_in(
    session: Session<'_>,
    pdr: &Pdr,
    octets: u64,
    direction: Direction,
    wanted: fn(&Urr) -> bool,
) -> Vec<Counted> {
    let is_open = |urr: &Urr| urr.pool().is_none() || !session.quotas.exhausted.contains(&urr.id);
    let counts =
        |urr: &Urr| session.may_count_in(pdr, urr) && !urr.is_paused() && is_open(urr) && wanted(urr);
    let in_pool = |pool: &Urr| {
        let members = pool.pool().unwrap_or_default().iter();
        let members = members.filter_map(|one| Some((session.rules.urr(one.urr)?, one.multiplier)));
        let members = members.filter(|(urr, _)| pdr.urrs.contains(&urr.id) && !urr.is_paused());
        let weights = members.map(
            |(urr, multiplier)| match urr.method.contains(MeasurementMethod::VOLUM) {
                true => multiplier.billionths() / pool.unit(),
                false => 0,
            },
        );
        octets * weights.sum::<u64>()
    };
    let urrs = session.rules.urrs().iter().filter(|urr| counts(urr));
    urrs.map(|urr| Counted {
        urr: urr.id,
        octets: match urr
            .pool()
            .filter(|_| urr.method.contains(MeasurementMethod::VOLUM))
        {
            Some(_) => in_pool(urr),
            None => octets,
        },
        direction,
    })
    .collect()
}

/// End Marker and Tunnel Status: passed on from tunnel to tunnel with their type (TS 29.244 Table 8.2.64-1, NOTE
/// 2), where the gates are open; not counted, since they are no user data. Their rate is not limited here.
fn relay_signalling(
    session: Session<'_>,
    tunnel: &Tunnelled<'_>,
    verdict: &mut Verdict,
) -> Result<Outcome, DropReason> {
    let (pdr, _) = detect_signalling(session, tunnel).ok_or(DropReason::NoMatchingPdr)?;
    let pdr = pdr.as_ref();
    verdict.pdr = Some(pdr.id);
    if !Ies::new(tunnel.payload).may_be_relayed() {
        return Err(DropReason::BadGtpuIe);
    }
    let own_pdr = session.rules.pdrs().iter().find(|own| own.id == pdr.id);
    let is_end = tunnel.message_type == MessageType::END_MARKER;
    if is_end && own_pdr.is_some_and(|own| session.rules.reports_end_markers(own).next().is_some()) {
        return Err(DropReason::EndMarkerReported);
    }
    // The message matches no predefined rule in particular: the QERs and URRs are those of the PDR itself.
    let own = own_pdr.unwrap_or(pdr);
    if heeds_pause(session, tunnel, own) && !matches!(egress(session, pdr), Ok(Egress::Tunnel(_))) {
        return Err(DropReason::PauseOfChargingHeeded);
    }
    if session.qers(own).any(|qer| gate_closed(qer, direction(own))) {
        return Err(DropReason::GateClosed);
    }
    if exhausted_urrs(session, own).next().is_some() {
        return Err(DropReason::QuotaExhausted);
    }
    let Egress::Tunnel(next) = egress(session, pdr)? else {
        return Err(DropReason::UnsupportedGtpuMessage);
    };
    if tunnel.unknown.refused_by_intermediate() {
        return Err(DropReason::UnknownGtpuExtension);
    }
    let extensions = build::kept_extensions(tunnel, keeps_psc(pdr, &next));
    leave_in(
        session,
        &next,
        tunnel.message_type,
        &extensions,
        None,
        tunnel.payload,
    )
}

/// Whether a message pauses charging (TS 29.244 §5.30): a Tunnel Status that says so, of the node downstream.
fn heeds_pause(session: Session<'_>, tunnel: &Tunnelled<'_>, pdr: &Pdr) -> bool {
    tunnel.message_type == MessageType::TUNNEL_STATUS
        && direction(pdr) == Direction::Uplink
        && session.rules.heeds_pause()
        && Ies::new(tunnel.payload).start_pause_of_charging()
}

/// The QER that says how packets are marked: the first that marks at all.
fn marking<'a>(session: Session<'a>, pdr: &Pdr) -> Option<&'a Qer> {
    session.qers(pdr).find(|qer| qer.marks())
}

/// The QoS flow of a user packet: that of the QER that marks, else the received one.
fn qfi(session: Session<'_>, arrival: &Arrival<'_>, pdr: &Pdr) -> Option<Qfi> {
    let received = match arrival {
        Arrival::Tunnel(tunnel) => tunnel.qfi,
        Arrival::Plain { .. } => None,
    };
    marking(session, pdr).and_then(|qer| qer.qfi).or(received)
}

/// The extension headers of a tunnel that a user packet leaves in: the PDU Session Container that the QER that
/// marks calls for, else the received one; then, downlink, that QER's service class; then the other received ones.
fn extensions(session: Session<'_>, arrival: &Arrival<'_>, pdr: &Pdr, next: &NextTunnel) -> Vec<Extension> {
    let is_uplink = next.is_uplink;
    let marking = marking(session, pdr);
    let mut extensions = Vec::new();
    extensions.extend(marking.and_then(|qer| build::container(qer, is_uplink)));
    if let Arrival::Tunnel(tunnel) = arrival {
        let keeps_psc = extensions.is_empty() && keeps_psc(pdr, next);
        extensions.extend(build::kept_extensions(tunnel, keeps_psc));
    }
    if let Some(sci) = marking.and_then(|qer| qer.sci).filter(|_| !is_uplink) {
        let (psc, class) = (
            ExtensionType::PDU_SESSION_CONTAINER.0,
            ExtensionType::SERVICE_CLASS_INDICATOR.0,
        );
        extensions.retain(|(kind, _)| *kind != class);
        let place = extensions.iter().take_while(|(kind, _)| *kind == psc).count();
        extensions.insert(place, (class, vec![sci, 0]));
    }
    extensions
}

/// Refuses packets to where no router sends any, if they come from a data network or leave to one. Between
/// tunnels they pass: router solicitations and the like are for the next node.
fn check_destination(
    session: Session<'_>,
    arrival: &Arrival<'_>,
    pdr: &Pdr,
    tuple: &IpTuple,
) -> Result<(), DropReason> {
    let is_routed = !arrival.is_tunnelled()
        || matches!(egress(session, pdr), Ok(Egress::Plain(_) | Egress::Unchanged(_)));
    if is_routed && !may_be_routed_to(tuple.addrs.dst()) {
        Err(DropReason::MartianDestination)
    } else {
        Ok(())
    }
}

/// Whether a router passes on packets to this address: no loopback, group, link-local or reserved one (RFC 1812
/// §5.3.7, RFC 6890 §2.2, RFC 4291 §2.4). Multicast routing is not for here.
fn may_be_routed_to(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let reserved = v4.octets()[0] == 0 || v4.octets()[0] >= 240;
            !(reserved || v4.is_loopback() || v4.is_link_local() || v4.is_multicast())
        }
        IpAddr::V6(v6) => {
            let reserved = v6.segments()[..4] == [0; 4];
            !(reserved || v6.is_unicast_link_local() || v6.is_multicast())
        }
    }
}

fn gate_closed(qer: &Qer, direction: Direction) -> bool {
    match direction {
        Direction::Uplink => qer.gate_ul.is_closed(),
        Direction::Downlink => qer.gate_dl.is_closed(),
    }
}

/// Whether a received PDU Session Container is put into the next tunnel as it is: not where the Outer Header Removal
/// deletes it (TS 29.244 §8.2.64), and not where a UE's packet goes to the CP function (§5.3.1, scenario 1), which this
/// node forwards as the end of the N3 tunnel. The CP function does get those of downlink packets, received over N9 to
/// be buffered there (§5.3.3.2) or for CIoT (§5.3.5.2), and what it sends back keeps them (§5.3.3.3).
fn keeps_psc(pdr: &Pdr, next: &NextTunnel) -> bool {
    let is_deleted = pdr
        .outer_header_removal
        .is_some_and(|removal| removal.deletes_psc);
    let ends_here = next.is_to_cp && pdr.pdi.source_interface == SourceInterface::Access;
    !(is_deleted || ends_here)
}

/// The user's packet as it is forwarded: with one hop less where it leaves a tunnel or enters one.
fn hopped(arrival: &Arrival<'_>, way: &Egress, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut user = packet.to_vec();
    let is_hop = match way {
        Egress::Plain(_) => true,
        Egress::Tunnel(_) => !arrival.is_tunnelled(),
        Egress::Unchanged(_) | Egress::Redirect(..) => false,
    };
    if is_hop {
        build::decrement_ttl(&mut user)?;
    }
    Ok(user)
}

/// Extension headers that are not known here and must be (TS 29.281 §5.2.1).
fn check_extensions(arrival: &Arrival<'_>, way: &Egress) -> Result<(), DropReason> {
    let Arrival::Tunnel(tunnel) = arrival else {
        return Ok(());
    };
    let refused = match way {
        Egress::Tunnel(_) => tunnel.unknown.refused_by_intermediate(),
        Egress::Plain(_) | Egress::Unchanged(_) | Egress::Redirect(..) => {
            tunnel.unknown.refused_by_endpoint()
        }
    };
    if refused {
        Err(DropReason::UnknownGtpuExtension)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
