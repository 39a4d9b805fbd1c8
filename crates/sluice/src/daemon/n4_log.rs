//! What is logged of N4: associations, refusals, what is not taken. The endpoint bounds how much of it is logged
//! ([`n4::LogEvent`]).

use std::fmt;

use n4::{AssociationEnd, DiscardReason, LogEvent, LogKind, PeerName};
use tracing::{info, warn};

/// Logs an event of the endpoint. `suppressed`: the number of events of its kind that were left out before it.
pub fn log_event(event: &LogEvent, suppressed: u64) {
    let suppressed = (suppressed > 0).then_some(suppressed);
    match event {
        LogEvent::AssociationUp { peer, is_again } => {
            let (node, peer) = names(peer);
            let again = is_again.then_some(true);
            info!(node, peer, again, suppressed, "N4 association up");
        }
        LogEvent::PeerReachable { peer, sessions } => {
            let (node, peer) = names(peer);
            info!(node, peer, sessions, suppressed, "N4 peer reachable");
        }
        LogEvent::PeerUnreachable { peer, sessions } => {
            let (node, peer) = names(peer);
            warn!(node, peer, sessions, suppressed, "N4 peer unreachable");
        }
        LogEvent::PeerRestarted { peer, sessions } => {
            let (node, peer) = names(peer);
            warn!(
                node,
                peer,
                sessions_removed = sessions,
                suppressed,
                "N4 peer restarted"
            );
        }
        LogEvent::AssociationDown { peer, why, sessions } => {
            let (node, peer) = names(peer);
            let why = reason(*why);
            info!(
                node,
                peer,
                why,
                sessions_removed = sessions,
                suppressed,
                "N4 association down"
            );
        }
        LogEvent::RequestRejected {
            peer,
            request,
            cause,
            ie,
            rule,
        } => {
            let ie = ie.map(|ie| format!("{} ({})", ie.name(), ie.0));
            let rule = rule.map(|rule| Rule(rule).to_string());
            let (cause, meaning) = (cause.value(), cause.name());
            warn!(%peer, %request, cause, meaning, ie, rule, suppressed, "N4 request rejected");
        }
        LogEvent::RejectedByPeer {
            peer,
            response,
            cause,
        } => {
            let (cause, meaning) = (cause.value(), cause.name());
            warn!(%peer, %response, cause, meaning, suppressed, "N4 request rejected by peer");
        }
        LogEvent::Discarded { source, why } => {
            warn!(%source, why = reason_not_taken(*why), suppressed, "N4 datagram discarded");
        }
        LogEvent::Suppressed(kind) => {
            let kind = match kind {
                LogKind::Associations => "associations",
                LogKind::Rejections => "rejections",
                LogKind::Discards => "discarded datagrams",
            };
            warn!(of = kind, suppressed, "N4 lines suppressed");
        }
    }
}

fn names(peer: &PeerName) -> (String, String) {
    (peer.node.to_string(), peer.peer.to_string())
}

fn reason(why: AssociationEnd) -> &'static str {
    match why {
        AssociationEnd::Released => "released by the peer",
        AssociationEnd::Ended => "released by this node",
        AssociationEnd::HandedOver => "handed over to another process",
        AssociationEnd::Evicted => "evicted: unreachable and without sessions",
    }
}

fn reason_not_taken(why: DiscardReason) -> &'static str {
    match why {
        DiscardReason::OutsidePeers => "outside n4.peers",
        DiscardReason::UnknownSource => "over n4.unknown_source_s",
        DiscardReason::Unverified => "over n4.unverified_percent without a heartbeat response",
    }
}

/// A Failed Rule ID.
struct Rule(pfcp::ie::FailedRuleId);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use pfcp::ie::FailedRuleId;
        match self.0 {
            FailedRuleId::Pdr(id) => write!(f, "PDR {}", id.0),
            FailedRuleId::Far(id) => write!(f, "FAR {}", id.0),
            FailedRuleId::Qer(id) => write!(f, "QER {}", id.0),
            FailedRuleId::Urr(id) => write!(f, "URR {}", id.0),
            FailedRuleId::Bar(id) => write!(f, "BAR {}", id.0),
            FailedRuleId::Mar(id) => write!(f, "MAR {}", id.0),
            FailedRuleId::Srr(id) => write!(f, "SRR {}", id.0),
        }
    }
}
