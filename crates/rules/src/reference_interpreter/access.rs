//! What the access list of a session says of a packet, rule by rule.

use flow::Direction;
use packet::IpTuple;

use super::arrival::Arrival;
use super::detect::{fits, is_found, may_be_found, names};
use super::session::{Quotas, Session};
use crate::model::{
    AccessEffect, AccessList, AccessRule, DestinationInterface, Pdr, SessionRules, SourceInterface,
};
use crate::network::{InstanceId, Network};
use crate::packet_view::Detection;

/// Whether a packet is dropped before any PDR is evaluated.
pub(super) fn is_denied(session: Session<'_>, arrival: &Arrival<'_>, tuple: &IpTuple) -> bool {
    let decided = deciding_rule(session, arrival, tuple);
    decided.is_some_and(|decided| match decided.rule.action.effect() {
        AccessEffect::Permit => false,
        AccessEffect::Deny | AccessEffect::DenyAndAnswer => !decided.is_provisional,
        AccessEffect::Solicited => matches!(arrival, Arrival::Plain { .. }) && !session.is_solicited,
    })
}

/// What decides about a packet before any PDR does.
#[derive(Clone, Copy, Debug)]
pub struct EvaluatedAccess<'a> {
    /// The access list of its session.
    pub list: &'a AccessList,
    /// The rule.
    pub rule: &'a AccessRule,
    /// Which way it goes.
    pub direction: Direction,
    /// The headers of the user packet.
    pub tuple: IpTuple,
    /// It came in without a tunnel.
    pub is_plain: bool,
    /// The rule denies it, and it passes all the same until it is known what its flow is: a rule before may permit
    /// that.
    pub is_provisional: bool,
}

/// The access list of a session, and its rule that decides about a packet; `None` without a list, or a user packet.
pub fn evaluate_access<'a>(
    rules: &'a SessionRules,
    network: &'a Network,
    ingress: InstanceId,
    packet: &[u8],
    detection: Detection<'a>,
) -> Option<EvaluatedAccess<'a>> {
    let session = Session {
        rules,
        network,
        quotas: Quotas::default(),
        detection,
        is_solicited: false,
    };
    let arrival = Arrival::parse(network, ingress, packet).ok()?;
    let tuple = arrival.user_tuple().ok()?;
    let Decided {
        list,
        rule,
        is_provisional,
    } = deciding_rule(session, &arrival, &tuple)?;
    Some(EvaluatedAccess {
        list,
        rule,
        is_provisional,
        direction: match is_uplink(session, &arrival) {
            true => Direction::Uplink,
            false => Direction::Downlink,
        },
        tuple,
        is_plain: matches!(arrival, Arrival::Plain { .. }),
    })
}

/// The rule that decides about a packet.
struct Decided<'a> {
    list: &'a AccessList,
    rule: &'a AccessRule,
    is_provisional: bool,
}

fn deciding_rule<'a>(session: Session<'a>, arrival: &Arrival<'_>, tuple: &IpTuple) -> Option<Decided<'a>> {
    let session = Session {
        detection: session.detection.of_access_lists(),
        ..session
    };
    // What this node answers itself passes.
    let list = session
        .rules
        .access_list()
        .filter(|_| !session.quotas.is_answer)?;
    // Flow Descriptions are for the downlink, so the interface says which side is the UE's.
    let (direction, interface) = match is_uplink(session, arrival) {
        true => (Direction::Uplink, SourceInterface::Access),
        false => (Direction::Downlink, SourceInterface::Core),
    };
    let describes = |rule: &AccessRule| {
        let mut filters = rule.filters.iter();
        rule.filters.is_empty() || filters.any(|filter| fits(session, filter, interface, tuple))
    };
    let fits = |rule: &&AccessRule| rule.direction.is_none_or(|own| own == direction) && describes(rule);
    let mut rules = list.rules().map(|(_, rule)| rule).filter(fits);
    let mut may_be_permitted = false;
    let rule = rules.find(|rule| {
        let is_it = is_found(session, (&rule.detection, list.lists()), tuple);
        may_be_permitted |= !is_it && !rule.action.denies();
        is_it
    })?;
    let is_undecided = session.detection == Detection::Undecided && may_be_found(tuple);
    Some(Decided {
        list,
        rule,
        is_provisional: is_undecided && may_be_permitted && rule.action.denies(),
    })
}

/// Whether a UE has sent a packet, as a PDR for its tunnel says.
fn is_uplink(session: Session<'_>, arrival: &Arrival<'_>) -> bool {
    match arrival {
        Arrival::Plain { .. } => false,
        Arrival::Tunnel(tunnel) => {
            let mut pdrs = session.rules.pdrs().iter();
            pdrs.any(|pdr| {
                pdr.pdi.source_interface == SourceInterface::Access
                    && names(pdr, tunnel)
                    && !is_indirect(session, pdr)
            })
        }
    }
}

/// Whether a PDR for Access forwards downlink packets to another gNB (TS 29.244 §8.2.24, NOTE 3).
fn is_indirect(session: Session<'_>, pdr: &Pdr) -> bool {
    let far = pdr.far.and_then(|id| session.rules.far(id));
    let forwarding = far.and_then(|far| far.forwarding);
    forwarding.is_some_and(|parameters| parameters.destination == DestinationInterface::Access)
}
