//! Heartbeats, both ways (TS 29.244 §6.2.2), and what Recovery Time Stamps tell (TS 23.007 §19A, TS 23.527 §4.3).
//!
//! A peer has restarted, and has lost its sessions, when it says that it started later than it said before. A heartbeat
//! comes from anybody; so what one says only makes us ask the peer, whose answer counts. An earlier time is a datagram
//! that was long on its way, one far ahead of our clock is nonsense: if it were believed, no later restart would be
//! seen. Sessions of an SMF set outlive the restart of a member (TS 29.244 §5.22). Nonsense changes nothing; an
//! association set-up alone sets the time whatever it is.

use flow::Nanos;
use pfcp::ie::RecoveryTimeStamp;
use pfcp::message::{Body, HeartbeatRequest, HeartbeatResponse};
use pfcp::{Frame, Header};
use session::{AssociationId, EndCause, Unreported};
use std::net::{IpAddr, SocketAddr};

use crate::association::Association;
use crate::endpoint::{Endpoint, Path};
use crate::event_log::{LogEvent, PeerName};
use crate::own_requests::Purpose;

/// Seconds that a peer's clock may be ahead of ours: a day.
const MOST_AHEAD: u32 = 86_400;

/// What a Recovery Time Stamp tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Nothing new.
    Same,
    /// The peer has restarted.
    Restarted,
    /// An earlier start, or one that is yet to come.
    Nonsense,
}

/// What `said` tells of a peer that said `before` before, at the time `now` of our clock.
fn told(before: RecoveryTimeStamp, said: RecoveryTimeStamp, now: RecoveryTimeStamp) -> Told {
    // The 32 bits begin again in 2036: of two stamps the later one is at most half their range ahead.
    let ahead = said.0.wrapping_sub(before.0);
    match ahead {
        0 => Told::Same,
        _ if ahead > u32::MAX / 2 || said.0 > now.0.saturating_add(MOST_AHEAD) => Told::Nonsense,
        _ => Told::Restarted,
    }
}

impl Endpoint {
    /// Answers a heartbeat, of anybody, at any time. A bad one shows that its sender lives, too.
    pub(crate) fn serve_heartbeat(&mut self, now: Nanos, path: Path, frame: &Frame<'_>) {
        let header = Header::node(HeartbeatResponse::TYPE, frame.header.sequence);
        self.counters.answered += 1;
        self.send(path, &header, &HeartbeatResponse::new(self.recovery()));
        let Ok(HeartbeatRequest {
            recovery_time_stamp, ..
        }) = HeartbeatRequest::decode(frame.body)
        else {
            return;
        };
        if let Some(id) = self.associations.by_source(path.from).map(|one| one.id)
            && self.judge(now, id, recovery_time_stamp) == Told::Restarted
        {
            self.send_heartbeat(now, id);
        }
    }

    /// Our Recovery Time Stamp.
    pub(crate) fn recovery(&self) -> RecoveryTimeStamp {
        RecoveryTimeStamp::from_unix(self.config.recovery_unix)
    }

    /// A peer itself says when it started.
    pub(crate) fn observe_recovery(&mut self, now: Nanos, id: AssociationId, recovery: RecoveryTimeStamp) {
        if self.judge(now, id, recovery) == Told::Restarted
            && let Some(association) = self.associations.get_mut(id)
        {
            association.recovery = recovery;
            self.forget_life(now, id);
            self.setups.restarted(now, id);
        }
    }

    /// A peer has restarted: its sessions are lost, but for those of a set, and so are answers about them.
    pub(crate) fn forget_life(&mut self, now: Nanos, id: AssociationId) {
        self.counters.peer_restarts += 1;
        let Some(association) = self.associations.get(id) else {
            return;
        };
        self.responses.forget_life_of(association.peer);
        let peer = PeerName::from(association);
        let sessions = if association.is_of_set() {
            0
        } else {
            self.sessions
                .remove_association(id, EndCause::CpRestarted, |_| true)
        };
        self.news.tell(now, LogEvent::PeerRestarted { peer, sessions });
    }

    fn judge(&mut self, now: Nanos, id: AssociationId, recovery: RecoveryTimeStamp) -> Told {
        let Some(association) = self.associations.get(id) else {
            return Told::Same;
        };
        let clock = self.sessions.wall().unix_seconds(now.into());
        let told = told(
            association.recovery,
            recovery,
            RecoveryTimeStamp::from_unix(clock),
        );
        self.counters.doubted_recoveries += u64::from(told == Told::Nonsense);
        told
    }

    /// Sends each peer its heartbeat when it is due.
    pub(crate) fn send_heartbeats(&mut self, now: Nanos) {
        let Some(interval) = self.config.heartbeat_interval else {
            return;
        };
        while let Some((_, id)) = self.heartbeats.front().copied().filter(|(at, _)| *at <= now) {
            self.heartbeats.pop_front();
            self.heartbeats.push_back((now + interval, id));
            self.send_heartbeat(now, id);
        }
    }

    /// Asks a peer whether it lives, and since when, unless it has yet to answer the last time. Of one that is not
    /// verified nobody can guess the number of the request by those of others.
    pub(crate) fn send_heartbeat(&mut self, now: Nanos, id: AssociationId) {
        let asked = self.associations.get_mut(id);
        let Some(association) = asked.filter(|association| !association.is_asked) else {
            return;
        };
        association.is_asked = true;
        let (peer, local, verified) = (association.peer.ip(), association.local, association.verified);
        let path = self.path_between(local, peer);
        let sequence = match verified {
            true => self.requests.next_sequence(path.from),
            false => self.requests.free_from(path.from, self.sources.unguessable(peer)),
        };
        let body = HeartbeatRequest::new(self.recovery());
        self.send_request_as(now, path, (None, sequence), Purpose::Heartbeat(id), &body);
    }

    /// The way of our own requests to `peer`, an address of the association's peer.
    pub(crate) fn path_to(&self, association: &Association, peer: IpAddr) -> Path {
        self.path_between(association.local, peer)
    }

    fn path_between(&self, local: SocketAddr, peer: IpAddr) -> Path {
        Path {
            from: SocketAddr::new(peer, self.config.peer_port),
            to: local,
        }
    }

    pub(crate) fn heartbeat_answered(&mut self, now: Nanos, id: AssociationId, frame: &Frame<'_>) {
        if let Some(association) = self.associations.get_mut(id) {
            (association.is_asked, association.verified) = (false, true);
            let was_silent = !std::mem::replace(&mut association.reachable, true);
            let peer = PeerName::from(&*association);
            if was_silent {
                let sessions = self.sessions.sessions_of(id);
                self.news.tell(now, LogEvent::PeerReachable { peer, sessions });
                self.share_out();
            }
        }
        if let Ok(HeartbeatResponse {
            recovery_time_stamp, ..
        }) = HeartbeatResponse::decode(frame.body)
        {
            self.observe_recovery(now, id, recovery_time_stamp);
        }
    }

    /// A request of ours was given up. Sessions stay: the peer may come back (TS 23.527 §4.3).
    pub(crate) fn unanswered(&mut self, now: Nanos, purpose: Purpose) {
        self.counters.unanswered += 1;
        match purpose {
            Purpose::Heartbeat(id) => {
                // If the peer has set up its association anew since, it lives.
                let asked = self.associations.get_mut(id).filter(|one| one.is_asked);
                if let Some(association) = asked {
                    association.is_asked = false;
                    let was_reachable = std::mem::replace(&mut association.reachable, false);
                    let peer = PeerName::from(&*association);
                    if was_reachable {
                        let sessions = self.sessions.sessions_of(id);
                        self.news.tell(now, LogEvent::PeerUnreachable { peer, sessions });
                    }
                    self.setups.silent(now, id);
                    self.share_out();
                }
            }
            Purpose::NodeReport(id) => self.node_report_failed(now, id),
            Purpose::Setup(place) => self.setup_unanswered(now, place),
            Purpose::Update(of) => self.update_failed(now, of),
            Purpose::LastReport(of, usage) => self.last_report_unanswered(now, (of, usage)),
            Purpose::Report(seid) => self.report_failed(now, seid),
            // The session is gone, and nobody is left to try it again for.
            Purpose::Remainder(usage) => {
                self.counters.events_dropped += 1;
                self.last_usage_over(now, usage, Some(Unreported::Unanswered));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_start_that_can_have_been_is_a_restart() {
        let now = 3_900_000_000;
        for (before, said, expected) in [
            (100, 100, Told::Same),
            (100, 101, Told::Restarted),
            (100, 99, Told::Nonsense),
            (now - 1_000, now - 10, Told::Restarted),
            (now - 1_000, now + MOST_AHEAD, Told::Restarted),
            (now - 1_000, now + MOST_AHEAD + 1, Told::Nonsense),
            (now - 1_000, u32::MAX, Told::Nonsense),
            (u32::MAX, now, Told::Nonsense),
            (now, 0, Told::Restarted),
        ] {
            let [before, said, now] = [before, said, now].map(RecoveryTimeStamp);
            assert_eq!(told(before, said, now), expected, "{before:?} {said:?}");
        }
    }
}
