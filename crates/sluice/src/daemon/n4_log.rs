//! What is logged of N4: associations, refusals, what is not taken. The endpoint says how much of it is told
//! ([`n4::News`]).

use std::fmt;

use n4::{Lost, News, NewsKind, NotTaken, PeerName};
use tracing::{info, warn};

/// Logs one of the endpoint's news. `suppressed`: how many of its kind were left out before it.
pub fn tell(news: &News, suppressed: u64) {
    let suppressed = (suppressed > 0).then_some(suppressed);
    match news {
        News::Up { peer, is_again } => {
            let (node, peer) = names(peer);
            let again = is_again.then_some(true);
            info!(node, peer, again, suppressed, "N4 association up");
        }
        News::Answers { peer, sessions } => {
            let (node, peer) = names(peer);
            info!(node, peer, sessions, suppressed, "N4 peer answers again");
        }
        News::Silent { peer, sessions } => {
            let (node, peer) = names(peer);
            warn!(node, peer, sessions, suppressed, "N4 peer silent");
        }
        News::Restarted { peer, sessions } => {
            let (node, peer) = names(peer);
            warn!(
                node,
                peer,
                sessions_removed = sessions,
                suppressed,
                "N4 peer restarted"
            );
        }
        News::Down { peer, why, sessions } => {
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
        News::Refused {
            peer,
            request,
            cause,
            ie,
            rule,
        } => {
            let ie = ie.map(|ie| format!("{} ({})", ie.name(), ie.0));
            let rule = rule.map(|rule| Rule(rule).to_string());
            warn!(
                %peer,
                %request,
                cause = cause.value(),
                meaning = cause.name(),
                ie,
                rule,
                suppressed,
                "N4 request refused"
            );
        }
        News::RefusedByPeer {
            peer,
            response,
            cause,
        } => warn!(
            %peer,
            %response,
            cause = cause.value(),
            meaning = cause.name(),
            suppressed,
            "N4 request of ours refused"
        ),
        News::NotTaken { source, why } => {
            warn!(%source, why = reason_not_taken(*why), suppressed, "N4 datagram not served");
        }
        News::Suppressed(kind) => {
            let kind = match kind {
                NewsKind::Associations => "associations",
                NewsKind::Refusals => "refusals",
                NewsKind::NotTaken => "datagrams not served",
            };
            warn!(of = kind, suppressed, "N4 lines suppressed");
        }
    }
}

fn names(peer: &PeerName) -> (String, String) {
    (peer.node.to_string(), peer.peer.to_string())
}

fn reason(why: Lost) -> &'static str {
    match why {
        Lost::Released => "released by the peer",
        Lost::Ended => "ended here",
        Lost::HandedOver => "handed over to another process",
        Lost::Evicted => "silent and without sessions, and in another's place",
    }
}

fn reason_not_taken(why: NotTaken) -> &'static str {
    match why {
        NotTaken::OutsidePeers => "outside n4.peers",
        NotTaken::UnknownSource => "over n4.unknown_source_s",
        NotTaken::Unverified => "wants more than n4.unverified_percent, and has answered no heartbeat yet",
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
