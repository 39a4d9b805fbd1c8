//! What the access list of a session says of a packet, rule by rule.

use flow::Direction;
use packet::IpTuple;

use super::arrival::Arrival;
use super::detect::{fits, names};
use super::session::{Quotas, Session};
use crate::model::{
    AccessAction, AccessList, AccessRule, DestinationInterface, Pdr, SessionRules, SourceInterface,
};
use crate::network::{InstanceId, Network};
use crate::packet_view::FlowHost;

/// Whether a packet is dropped before any PDR is evaluated.
pub(super) fn is_denied(session: Session<'_>, arrival: &Arrival<'_>, tuple: &IpTuple) -> bool {
    let rule = deciding_rule(session, arrival, tuple).map(|(_, rule)| rule);
    rule.is_some_and(|rule| match rule.action {
        AccessAction::Permit => false,
        AccessAction::Deny | AccessAction::Reject => true,
        AccessAction::Solicited => matches!(arrival, Arrival::Plain { .. }) && !session.is_solicited,
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
}

/// The access list of a session, and its rule that decides about a packet; `None` without a list, or a user packet.
pub fn evaluate_access<'a>(
    rules: &'a SessionRules,
    network: &'a Network,
    ingress: InstanceId,
    packet: &[u8],
) -> Option<EvaluatedAccess<'a>> {
    let session = Session {
        rules,
        network,
        quotas: Quotas::default(),
        host: FlowHost::Undecided,
        is_solicited: false,
    };
    let arrival = Arrival::parse(network, ingress, packet).ok()?;
    let tuple = arrival.user_tuple().ok()?;
    let (list, rule) = deciding_rule(session, &arrival, &tuple)?;
    Some(EvaluatedAccess {
        list,
        rule,
        direction: match is_uplink(session, &arrival) {
            true => Direction::Uplink,
            false => Direction::Downlink,
        },
        tuple,
        is_plain: matches!(arrival, Arrival::Plain { .. }),
    })
}

fn deciding_rule<'a>(
    session: Session<'a>,
    arrival: &Arrival<'_>,
    tuple: &IpTuple,
) -> Option<(&'a AccessList, &'a AccessRule)> {
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
    let mut rules = list.rules().map(|(_, rule)| rule);
    let first = rules.find(|rule| rule.direction.is_none_or(|own| own == direction) && describes(rule));
    Some((list, first?))
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
