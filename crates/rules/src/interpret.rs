//! The interpreter: what TS 29.244 says of one packet, with no cache, table or compiled form in between.
//!
//! It is the oracle. It shares the parsing of packets with the fast path and nothing else: matching, choosing the way
//! out and building headers are written again, plainly, so that a mistake there shows as a difference. Slow on
//! purpose; nothing in production calls it for traffic.
//!
//! It takes packets one by one: a fragment behind the first has ports 0 here. A worker that knows the first one
//! (`worker::FragmentLimits`) does with it what the interpreter says of the datagram in one piece.
//!
//! What it leaves to others: finding the session, the link layer, packets that are longer than the MTU, and who answers a
//! packet that is dropped.

mod arrival;
mod build;
mod detect;
mod egress;
mod events;
mod mss;
mod police;
mod quotas;
mod redirect;
mod tried;

use std::net::IpAddr;

use flow::meter::Colour;
use flow::{Direction, Nanos, PortId};
use packet::gtpu::{ExtensionType, Ies, MessageType};
use packet::{DropReason, IpTuple, Qfi};

use self::arrival::{Arrival, Tunnelled};
use self::egress::{NextTunnel, Treatment, Way};
pub use self::police::Policers;
pub use self::quotas::Quotas;
pub use self::tried::{Mismatch, Tried, tried};
use crate::model::Content;
use crate::model::{MeasurementMethod, Pdr, PdrId, Qer, SessionRules, SourceInterface, Urr, UrrId};
use crate::network::{InstanceId, Network};

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Where it goes, or why it does not.
    pub outcome: Outcome,
    /// The URRs that it counts in, in the order of their slots; none for a packet that is dropped.
    pub counted: Vec<Counted>,
    /// Those of them that count events, if it is one.
    pub events: Vec<UrrId>,
    /// The URRs that it counts in before QoS enforcement, whatever becomes of it then.
    pub counted_before_qos: Vec<Counted>,
    /// What it is billed as, if it is of a predefined rule that says so; nothing for a packet that is dropped.
    pub billed: Option<Billed>,
    /// The PDR that detected it.
    pub pdr: Option<PdrId>,
    /// Its duplicate (DUPL), whatever becomes of itself. It counts in no URR.
    pub duplicate: Option<Duplicate>,
}

/// A packet of this node's own, made of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// The whole packet, from its outermost IP header on.
    pub bytes: Vec<u8>,
    /// The network instance that it leaves by.
    pub egress: InstanceId,
    /// The neighbour that it is handed to.
    pub next_hop: IpAddr,
}

/// Where a packet goes, or why it does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It leaves.
    Forwarded {
        /// The whole packet, from its outermost IP header on.
        bytes: Vec<u8>,
        /// The network instance that it leaves by.
        egress: InstanceId,
        /// The neighbour that it is handed to.
        next_hop: IpAddr,
        /// The port that gets a copy.
        mirror: Option<PortId>,
    },
    /// It is sent to an address of this node's own: it comes in again, and what becomes of it then is the session's
    /// that it belongs to there. How often it may do so is for who carries it.
    Recirculated {
        /// The whole packet, from its outermost IP header on.
        bytes: Vec<u8>,
        /// The network instance that it comes in by.
        ingress: InstanceId,
        /// The port that gets a copy.
        mirror: Option<PortId>,
        /// Whether it is what the UE of a redirected packet is told, and no packet of anyone's.
        is_answer: bool,
    },
    /// It is dropped.
    Dropped(DropReason),
}

impl Outcome {
    /// The whole packet, if it goes on.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Forwarded { bytes, .. } | Self::Recirculated { bytes, .. } => Some(bytes),
            Self::Dropped(_) => None,
        }
    }
}

/// A packet in a URR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The rule.
    pub urr: UrrId,
    /// The length of the user's IP packet as received; in a credit pool times the multipliers of those of its members
    /// that it counts in, in units of [`Urr::unit`].
    pub octets: u64,
    /// Uplink if the PDR's source interface is Access.
    pub direction: Direction,
}

/// A packet in a content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Billed {
    /// What it is billed as.
    pub content: Content,
    /// The length of the user's IP packet as received.
    pub octets: u64,
    /// Uplink if the PDR's source interface is Access.
    pub direction: Direction,
}

/// Evaluates the rules of the packet's session for it. `packet` starts with its outermost IP header and came in by
/// `ingress`; octets behind its IP length are padding.
///
/// No rate is enforced, and every packet is green: [`interpret_policed`] has meters.
pub fn interpret(rules: &SessionRules, network: &Network, ingress: InstanceId, packet: &[u8]) -> Verdict {
    let session = Session::new(rules, network, Quotas::default());
    session.evaluate(ingress, packet, &mut |_, _, _| Colour::Green)
}

/// The same at `now`, with maximum bit rates enforced (TS 29.244 §5.4.4): a packet passes all meters, or takes nothing
/// from any and is dropped. What is beyond a guaranteed bit rate is yellow.
pub fn interpret_policed(
    rules: &SessionRules,
    network: &Network,
    ingress: InstanceId,
    packet: &[u8],
    (policers, now): (&mut Policers, Nanos),
) -> Verdict {
    interpret_exhausted(
        rules,
        network,
        ingress,
        packet,
        (policers, now, Quotas::default()),
    )
}

/// The same where some quotas are used up (TS 29.244 §5.2.2.2.1).
pub fn interpret_exhausted(
    rules: &SessionRules,
    network: &Network,
    ingress: InstanceId,
    packet: &[u8],
    (policers, now, quotas): (&mut Policers, Nanos, Quotas<'_>),
) -> Verdict {
    let session = Session::new(rules, network, quotas);
    session.evaluate(ingress, packet, &mut |qers, direction, octets| {
        policers.pass(qers, direction, octets, now)
    })
}

/// The same where the meters, which somebody else has, have given the packet this colour.
pub fn interpret_coloured(
    rules: &SessionRules,
    network: &Network,
    ingress: InstanceId,
    packet: &[u8],
    (colour, quotas): (Colour, Quotas<'_>),
) -> Verdict {
    let session = Session::new(rules, network, quotas);
    session.evaluate(ingress, packet, &mut |_, _, _| colour)
}

/// Asked for the colour that the meters of these QERs give a packet of so many octets.
type Police<'a> = &'a mut dyn FnMut(&[&Qer], Direction, u64) -> Colour;

/// A session in its network.
#[derive(Clone, Copy)]
struct Session<'a> {
    rules: &'a SessionRules,
    network: &'a Network,
    quotas: Quotas<'a>,
}

impl<'a> Session<'a> {
    const fn new(rules: &'a SessionRules, network: &'a Network, quotas: Quotas<'a>) -> Self {
        Self {
            rules,
            network,
            quotas,
        }
    }

    fn evaluate(self, ingress: InstanceId, packet: &[u8], police: Police<'_>) -> Verdict {
        let mut verdict = Verdict {
            outcome: Outcome::Dropped(DropReason::NoMatchingPdr),
            counted: Vec::new(),
            events: Vec::new(),
            counted_before_qos: Vec::new(),
            billed: None,
            pdr: None,
            duplicate: None,
        };
        match self.walk(ingress, packet, police, &mut verdict) {
            Ok(forwarded) => verdict.outcome = forwarded,
            Err(reason) => verdict.outcome = Outcome::Dropped(reason),
        }
        verdict
    }

    fn walk(
        self,
        ingress: InstanceId,
        packet: &[u8],
        police: Police<'_>,
        verdict: &mut Verdict,
    ) -> Result<Outcome, DropReason> {
        let arrival = Arrival::parse(self.network, ingress, packet)?;
        self.check_ownership(&arrival)?;
        match &arrival {
            Arrival::Tunnel(tunnel) if tunnel.message_type != MessageType::G_PDU => {
                self.relay_signalling(tunnel, verdict)
            }
            _ => self.user_packet((ingress, &arrival), police, verdict),
        }
    }

    /// Whether the packet belongs to this session at all (TS 29.244 §5.2.1, first step).
    fn check_ownership(self, arrival: &Arrival<'_>) -> Result<(), DropReason> {
        match arrival {
            Arrival::Tunnel(tunnel) if self.owns_tunnel(tunnel) => Ok(()),
            Arrival::Tunnel(_) => Err(DropReason::UnknownTeid),
            Arrival::Plain { vrf, tuple, .. } if self.owns_address(*vrf, tuple.addrs.dst()) => Ok(()),
            Arrival::Plain { .. } => Err(DropReason::UnknownUeAddress),
        }
    }

    fn user_packet(
        self,
        (ingress, arrival): (InstanceId, &Arrival<'_>),
        police: Police<'_>,
        verdict: &mut Verdict,
    ) -> Result<Outcome, DropReason> {
        let tuple = arrival.user_tuple()?;
        let (pdr, content) = self.detect(arrival, &tuple).ok_or(DropReason::NoMatchingPdr)?;
        verdict.pdr = Some(pdr.id);
        self.check_source(&pdr, &tuple)?;
        self.check_destination(arrival, &pdr, &tuple)?;
        let direction = direction(&pdr);
        let octets = u64::from(tuple.total_len);
        verdict.counted_before_qos = self.counts_in(&pdr, (octets, direction), Urr::measures_before_qos);
        if self.qers(&pdr).any(|qer| gate_closed(qer, direction)) {
            return Err(DropReason::GateClosed);
        }
        let pdr = self.as_quotas_allow(pdr, &tuple)?;
        self.check_destination(arrival, &pdr, &tuple)?;
        let left = self.forward((ingress, arrival), (&pdr, &tuple), police, verdict)?;
        verdict.counted = self.counts_in(&pdr, (octets, direction), |_| true);
        verdict.events = self.events(&pdr, &tuple, arrival.user_packet(&tuple));
        verdict.billed = content.map(|content| Billed {
            content: content.clone(),
            octets,
            direction,
        });
        Ok(left)
    }

    /// What leaves of a packet whose gate is open, and what its FAR duplicates of it, also where the FAR drops it.
    fn forward(
        self,
        (ingress, arrival): (InstanceId, &Arrival<'_>),
        (pdr, tuple): (&Pdr, &IpTuple),
        police: Police<'_>,
        verdict: &mut Verdict,
    ) -> Result<Outcome, DropReason> {
        let as_received = arrival.user_packet(tuple);
        let way = match self.way(pdr) {
            Ok(way) => way,
            Err(reason) => {
                verdict.duplicate = self.duplicate(pdr, as_received);
                return Err(reason);
            }
        };
        check_extensions(arrival, &way)?;
        let user = hopped(arrival, &way, as_received)?;
        let treatment = self.treatment(arrival, (pdr, tuple), police)?;
        let mut left = self.leave(arrival, (pdr, tuple), way, treatment, user);
        if let Ok(left) = &mut left {
            self.clamp((ingress, arrival), tuple, left);
        }
        // What is redirected is not duplicated.
        let as_sent = left.as_ref().ok().and_then(Outcome::bytes).map(|bytes| {
            let start = bytes.len().saturating_sub(tuple.total_len.into());
            &bytes[start..]
        });
        verdict.duplicate = self.duplicate(pdr, as_sent.unwrap_or(as_received));
        left
    }

    /// How the QERs have a packet that is within their rates treated.
    fn treatment(
        self,
        arrival: &Arrival<'_>,
        (pdr, tuple): (&Pdr, &IpTuple),
        police: Police<'_>,
    ) -> Result<Treatment, DropReason> {
        let acting = |qer: &Qer| Qer {
            correlation: self.rules.correlation(qer),
            ..*qer
        };
        let qers: Vec<Qer> = self.qers(pdr).map(acting).collect();
        let qers: Vec<&Qer> = qers.iter().collect();
        match police(&qers, direction(pdr), tuple.total_len.into()) {
            Colour::Red => Err(DropReason::MeterRed),
            colour => Ok(Treatment {
                qfi: self.qfi(arrival, pdr),
                colour,
            }),
        }
    }

    /// The user's packet on its way.
    fn leave(
        self,
        arrival: &Arrival<'_>,
        (pdr, tuple): (&Pdr, &IpTuple),
        way: Way,
        treatment: Treatment,
        user: Vec<u8>,
    ) -> Result<Outcome, DropReason> {
        let between = (tuple.addrs.src(), tuple.addrs.dst());
        match way {
            Way::Plain(way) => self.leave_plain(&way, between, treatment, user),
            Way::Tunnel(tunnel) => {
                let extensions = self.extensions(arrival, pdr, &tunnel);
                let extensions = (&extensions[..], Some(treatment));
                self.leave_in(&tunnel, MessageType::G_PDU, extensions, &user)
            }
            Way::Unchanged(instance) => self.leave_unchanged(instance, between, user),
            Way::Redirect(ingress, to) => self.leave_redirected(ingress, &to, tuple, &user),
        }
    }

    /// Whether packets of a PDR may count in a URR: it names it, or one of its members that is not paused.
    fn may_count_in(self, pdr: &Pdr, urr: &Urr) -> bool {
        match urr.pool() {
            None => pdr.urrs.contains(&urr.id),
            Some(members) => members.iter().any(|one| {
                let member = self.rules.urr(one.urr).filter(|member| !member.is_paused());
                member.is_some() && pdr.urrs.contains(&one.urr)
            }),
        }
    }

    /// The PDR's URRs that a packet counts in, of those that are `wanted`.
    fn counts_in(
        self,
        pdr: &Pdr,
        (octets, direction): (u64, Direction),
        wanted: fn(&Urr) -> bool,
    ) -> Vec<Counted> {
        let is_open = |urr: &Urr| urr.pool().is_none() || !self.quotas.exhausted.contains(&urr.id);
        let counts =
            |urr: &Urr| self.may_count_in(pdr, urr) && !urr.is_paused() && is_open(urr) && wanted(urr);
        let in_pool = |pool: &Urr| {
            let members = pool.pool().unwrap_or_default().iter();
            let members = members.filter_map(|one| Some((self.rules.urr(one.urr)?, one.multiplier)));
            let members = members.filter(|(urr, _)| pdr.urrs.contains(&urr.id) && !urr.is_paused());
            let weights =
                members.map(
                    |(urr, multiplier)| match urr.method.contains(MeasurementMethod::VOLUM) {
                        true => multiplier.billionths() / pool.unit(),
                        false => 0,
                    },
                );
            octets * weights.sum::<u64>()
        };
        let urrs = self.rules.urrs().iter().filter(|urr| counts(urr));
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
    /// 2), where the gates are open; not counted, since they are no user data. How many of them is for who carries it.
    fn relay_signalling(self, tunnel: &Tunnelled<'_>, verdict: &mut Verdict) -> Result<Outcome, DropReason> {
        let (pdr, _) = self.detect_signalling(tunnel).ok_or(DropReason::NoMatchingPdr)?;
        let pdr = pdr.as_ref();
        verdict.pdr = Some(pdr.id);
        if !Ies::new(tunnel.payload).may_be_relayed() {
            return Err(DropReason::BadGtpuIe);
        }
        let own_pdr = self.rules.pdrs().iter().find(|own| own.id == pdr.id);
        let is_end = tunnel.message_type == MessageType::END_MARKER;
        if is_end && own_pdr.is_some_and(|own| self.rules.reports_end_markers(own).next().is_some()) {
            return Err(DropReason::EndMarkerReported);
        }
        // Of which predefined rule it is nobody can say, so those of the PDR itself.
        let own = own_pdr.unwrap_or(pdr);
        if self.heeds_pause(tunnel, own) && !matches!(self.way(pdr), Ok(Way::Tunnel(_))) {
            return Err(DropReason::PauseOfChargingHeeded);
        }
        if self.qers(own).any(|qer| gate_closed(qer, direction(own))) {
            return Err(DropReason::GateClosed);
        }
        if self.spent(own).next().is_some() {
            return Err(DropReason::QuotaExhausted);
        }
        let Way::Tunnel(next) = self.way(pdr)? else {
            return Err(DropReason::UnsupportedGtpuMessage);
        };
        if tunnel.unknown.refused_by_intermediate() {
            return Err(DropReason::UnknownGtpuExtension);
        }
        let extensions = build::kept_extensions(tunnel, keeps_psc(pdr, &next));
        self.leave_in(&next, tunnel.message_type, (&extensions, None), tunnel.payload)
    }

    /// Whether a message pauses charging (TS 29.244 §5.30): a Tunnel Status that says so, of the node downstream.
    fn heeds_pause(self, tunnel: &Tunnelled<'_>, pdr: &Pdr) -> bool {
        tunnel.message_type == MessageType::TUNNEL_STATUS
            && direction(pdr) == Direction::Uplink
            && self.rules.heeds_pause()
            && Ies::new(tunnel.payload).start_pause_of_charging()
    }

    fn qers<'p>(self, pdr: &'p Pdr) -> impl Iterator<Item = &'a Qer> + use<'a, 'p> {
        pdr.qers.iter().filter_map(move |&id| self.rules.qer(id))
    }

    /// The QER that says how packets are marked: the first that marks at all.
    fn marking(self, pdr: &Pdr) -> Option<&'a Qer> {
        self.qers(pdr).find(|qer| qer.marks())
    }

    /// The QoS flow of a user packet: that of the QER that marks, else the received one.
    fn qfi(self, arrival: &Arrival<'_>, pdr: &Pdr) -> Option<Qfi> {
        let received = match arrival {
            Arrival::Tunnel(tunnel) => tunnel.qfi,
            Arrival::Plain { .. } => None,
        };
        self.marking(pdr).and_then(|qer| qer.qfi).or(received)
    }

    /// The extension headers of a tunnel that a user packet leaves in: the PDU Session Container that the QER that
    /// marks calls for, else the received one; then, downlink, that QER's service class; then the other received ones.
    fn extensions(self, arrival: &Arrival<'_>, pdr: &Pdr, next: &NextTunnel) -> Vec<build::Extension> {
        let is_uplink = next.is_uplink;
        let marking = self.marking(pdr);
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
}

fn direction(pdr: &Pdr) -> Direction {
    match pdr.pdi.source_interface {
        SourceInterface::Access => Direction::Uplink,
        _ => Direction::Downlink,
    }
}

fn gate_closed(qer: &Qer, direction: Direction) -> bool {
    match direction {
        Direction::Uplink => qer.gate_ul.is_closed(),
        Direction::Downlink => qer.gate_dl.is_closed(),
    }
}

/// Whether a PDU Session Container goes on into the next tunnel as it was received: not where the Outer Header Removal
/// deletes it (TS 29.244 §8.2.64), and not where a UE's packet goes to the CP function (§5.3.1, scenario 1), which this
/// node forwards as the end of the N3 tunnel. The CP function does get those of downlink packets, received over N9 to be
/// buffered there (§5.3.3.2) or for CIoT (§5.3.5.2), and what it sends back goes on with them (§5.3.3.3).
fn keeps_psc(pdr: &Pdr, next: &NextTunnel) -> bool {
    let is_deleted = pdr
        .outer_header_removal
        .is_some_and(|removal| removal.deletes_psc);
    let ends_here = next.is_to_cp && pdr.pdi.source_interface == SourceInterface::Access;
    !(is_deleted || ends_here)
}

/// The user's packet as it goes on: with one hop less where it leaves a tunnel or enters one.
fn hopped(arrival: &Arrival<'_>, way: &Way, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut user = packet.to_vec();
    let is_hop = match way {
        Way::Plain(_) => true,
        Way::Tunnel(_) => !arrival.is_tunnelled(),
        Way::Unchanged(_) | Way::Redirect(..) => false,
    };
    if is_hop {
        build::decrement_ttl(&mut user)?;
    }
    Ok(user)
}

/// Extension headers that are not known here and must be (TS 29.281 §5.2.1).
fn check_extensions(arrival: &Arrival<'_>, way: &Way) -> Result<(), DropReason> {
    let Arrival::Tunnel(tunnel) = arrival else {
        return Ok(());
    };
    let refused = match way {
        Way::Tunnel(_) => tunnel.unknown.refused_by_intermediate(),
        Way::Plain(_) | Way::Unchanged(_) | Way::Redirect(..) => tunnel.unknown.refused_by_endpoint(),
    };
    if refused {
        Err(DropReason::UnknownGtpuExtension)
    } else {
        Ok(())
    }
}

/// The tuple's end of the UE: the source of what comes from Access.
fn ue_end(interface: SourceInterface, tuple: &IpTuple) -> IpAddr {
    match interface {
        SourceInterface::Access => tuple.addrs.src(),
        _ => tuple.addrs.dst(),
    }
}

#[cfg(test)]
mod tests;
