//! Heartbeats, both ways (TS 29.244 §6.2.2), and what Recovery Time Stamps mean (TS 23.007 §19A, TS 23.527 §4.3).
//!
//! A peer has restarted, and has lost its sessions, when its Recovery Time Stamp is later than before. Any sender can
//! send a heartbeat; so a later time stamp in a request only causes a heartbeat to the peer, whose response counts. An
//! earlier time stamp is that of a delayed datagram. One far ahead of our clock is implausible: if it were accepted, no
//! later restart would be detected. Both change nothing; only an association setup sets the time stamp unconditionally.
//! Sessions of an SMF set outlive the restart of a member (TS 29.244 §5.22).

use flow::Nanos;
use pfcp::ie::RecoveryTimeStamp;
use pfcp::message::{Body, HeartbeatRequest, HeartbeatResponse};
use pfcp::{Frame, Header};
use session::AssociationId;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::endpoint_state::Shared;
use crate::own_requests::Purpose;
use crate::transactions::Path;

/// Seconds that a peer's clock may be ahead of ours: a day.
const MOST_AHEAD: u32 = 86_400;

/// What a Recovery Time Stamp means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryChange {
    /// Nothing new.
    Same,
    /// The peer has restarted.
    Restarted,
    /// An earlier start, or one that is yet to come.
    Implausible,
}

/// What the Recovery Time Stamp `said` means after `before`, at the time `now` of our clock.
fn recovery_change(
    before: RecoveryTimeStamp,
    said: RecoveryTimeStamp,
    now: RecoveryTimeStamp,
) -> RecoveryChange {
    // The 32 bits begin again in 2036: of two stamps the later one is at most half their range ahead.
    let ahead = said.0.wrapping_sub(before.0);
    match ahead {
        0 => RecoveryChange::Same,
        _ if ahead > u32::MAX / 2 || said.0 > now.0.saturating_add(MOST_AHEAD) => RecoveryChange::Implausible,
        _ => RecoveryChange::Restarted,
    }
}

/// A heartbeat that is to be sent.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Nanos,
    association: AssociationId,
}

/// The heartbeats of all associations, in the order of time.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    due: VecDeque<Due>,
    hasher: foldhash::quality::SeedableRandomState,
    /// Sequence numbers made by hash.
    numbers: u64,
}

impl Heartbeats {
    pub(crate) fn new(seed: u64) -> Heartbeats {
        Heartbeats {
            due: VecDeque::new(),
            hasher: foldhash::quality::SeedableRandomState::with_seed(
                seed,
                foldhash::SharedSeed::global_fixed(),
            ),
            numbers: 0,
        }
    }

    /// The next heartbeat of an association is sent at `at`, which is later than all others.
    pub(crate) fn start(&mut self, at: Nanos, association: AssociationId) {
        self.due.push_back(Due { at, association });
    }

    /// No heartbeat waits longer than an interval of this length.
    pub(crate) fn set_interval(&mut self, now: Nanos, interval: Duration) {
        self.due
            .iter_mut()
            .for_each(|due| due.at = due.at.min(now + interval));
    }

    /// An association has ended.
    pub(crate) fn stop(&mut self, association: AssociationId) {
        self.due.retain(|due| due.association != association);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.due.front().map(|due| due.at)
    }

    /// A number of 24 bits, another each time, for a Heartbeat Request whose response is to show that the peer receives
    /// it: a sender that receives requests of ours at an address of its own does not know the number by them.
    fn unguessable(&mut self, address: IpAddr) -> u32 {
        self.numbers += 1;
        (self.hasher.hash_one(("association", address, self.numbers)) & 0x00ff_ffff) as u32
    }

    /// Responds to a heartbeat of any sender, also to one that cannot be decoded.
    pub(crate) fn serve(&mut self, shared: &mut Shared, now: Nanos, path: Path, frame: &Frame<'_>) {
        let header = Header::node(HeartbeatResponse::TYPE, frame.header.sequence);
        shared.counters.answered += 1;
        shared.send(path, &header, &HeartbeatResponse::new(shared.recovery()));
        let Ok(HeartbeatRequest {
            recovery_time_stamp, ..
        }) = HeartbeatRequest::decode(frame.body)
        else {
            return;
        };
        if let Some(id) = shared.associations.by_source(path.from).map(|one| one.id)
            && self.judge(shared, now, id, recovery_time_stamp) == RecoveryChange::Restarted
        {
            self.send(shared, now, id);
        }
    }

    pub(crate) fn judge(
        &self,
        shared: &mut Shared,
        now: Nanos,
        id: AssociationId,
        recovery: RecoveryTimeStamp,
    ) -> RecoveryChange {
        let Some(association) = shared.associations.get(id) else {
            return RecoveryChange::Same;
        };
        let clock = shared.sessions.wall().unix_seconds(now.into());
        let change = recovery_change(
            association.recovery,
            recovery,
            RecoveryTimeStamp::from_unix(clock),
        );
        shared.counters.doubted_recoveries += u64::from(change == RecoveryChange::Implausible);
        change
    }

    /// Sends each peer its heartbeat when it is due.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Nanos) {
        let Some(interval) = shared.config.heartbeat_interval else {
            return;
        };
        while let Some(due) = self.due.pop_front_if(|due| due.at <= now) {
            self.start(now + interval, due.association);
            self.send(shared, now, due.association);
        }
    }

    /// Sends a Heartbeat Request to a peer, unless one is outstanding. The sequence number for a peer that is not
    /// verified cannot be derived from those that others receive.
    pub(crate) fn send(&mut self, shared: &mut Shared, now: Nanos, id: AssociationId) {
        let asked = shared.associations.get_mut(id);
        let Some(association) = asked.filter(|association| !association.is_asked) else {
            return;
        };
        association.is_asked = true;
        let (peer, verified) = (association.peer.ip(), association.verified);
        let path = Path {
            from: SocketAddr::new(peer, shared.config.peer_port),
            to: association.local,
        };
        let requests = shared.transactions.requests_mut();
        let sequence = match verified {
            true => requests.next_sequence(path.from),
            false => requests.free_from(path.from, self.unguessable(peer)),
        };
        let body = HeartbeatRequest::new(shared.recovery());
        shared.send_request_as(now, path, None, sequence, Purpose::Heartbeat(id), &body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_start_that_can_have_been_is_a_restart() {
        let now = 3_900_000_000;
        for (before, said, expected) in [
            (100, 100, RecoveryChange::Same),
            (100, 101, RecoveryChange::Restarted),
            (100, 99, RecoveryChange::Implausible),
            (now - 1_000, now - 10, RecoveryChange::Restarted),
            (now - 1_000, now + MOST_AHEAD, RecoveryChange::Restarted),
            (now - 1_000, now + MOST_AHEAD + 1, RecoveryChange::Implausible),
            (now - 1_000, u32::MAX, RecoveryChange::Implausible),
            (u32::MAX, now, RecoveryChange::Implausible),
            (now, 0, RecoveryChange::Restarted),
        ] {
            let [before, said, now] = [before, said, now].map(RecoveryTimeStamp);
            assert_eq!(
                recovery_change(before, said, now),
                expected,
                "{before:?} {said:?}"
            );
        }
    }
}
