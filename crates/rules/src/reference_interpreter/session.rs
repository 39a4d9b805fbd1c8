//! The session whose rules are evaluated.

use flow::Direction;

use crate::model::{Pdr, Qer, SessionRules, SourceInterface, Urr, UrrId};
use crate::network::Network;
use crate::packet_view::Detection;

/// Which quotas are used up, and whether a packet is exempt from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas<'a> {
    /// The URRs whose quotas are.
    pub exhausted: &'a [UrrId],
    /// The packet is the answer to one that was redirected, which recirculates inside this node
    /// ([`Outcome::Recirculated`](super::Outcome::Recirculated)).
    pub is_answer: bool,
}

/// A session in its network.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    pub(super) rules: &'a SessionRules,
    pub(super) network: &'a Network,
    pub(super) quotas: Quotas<'a>,
    pub(super) detection: Detection<'a>,
    /// The packet belongs to a connection that the UE has begun.
    pub(super) is_solicited: bool,
}

impl<'a> Session<'a> {
    /// The QERs of a PDR.
    pub(super) fn qers<'p>(self, pdr: &'p Pdr) -> impl Iterator<Item = &'a Qer> + use<'a, 'p> {
        pdr.qers.iter().filter_map(move |&id| self.rules.qer(id))
    }

    /// Whether packets of a PDR may count in a URR: it names it, or one of its members that is not paused.
    pub(super) fn may_count_in(self, pdr: &Pdr, urr: &Urr) -> bool {
        match urr.pool() {
            None => pdr.urrs.contains(&urr.id),
            Some(members) => members.iter().any(|one| {
                let member = self.rules.urr(one.urr).filter(|member| !member.is_paused());
                member.is_some() && pdr.urrs.contains(&one.urr)
            }),
        }
    }
}

/// The direction of a PDR's packets.
pub(super) fn direction(pdr: &Pdr) -> Direction {
    match pdr.pdi.source_interface {
        SourceInterface::Access => Direction::Uplink,
        _ => Direction::Downlink,
    }
}
