//! What is charged of what was sent.

use serde::Serialize;

use super::frames::PACKET;
use super::traffic::Tally;

/// Octets of user packets: sent, forwarded, charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Charging {
    /// Octets that were sent to the daemon.
    pub sent_octets: u64,
    /// Octets that it forwarded to where they belong.
    pub forwarded_octets: u64,
    /// Octets that its URRs report.
    pub charged_octets: u64,
    /// Octets that it forwarded and did not charge, of all sessions.
    pub lost_octets: u64,
    /// The most of one session.
    pub most_of_a_session: u64,
    /// What it may lose by a kill at most.
    pub bound_octets: u64,
    /// Sessions of which more was charged than was sent.
    pub overcharged_sessions: u64,
}

impl Charging {
    /// Of these packets, and of the octets that were reported of each session.
    #[must_use]
    pub fn of(tally: &Tally, charged: &[u64], bound_octets: u64) -> Self {
        let octets = |packets: u64| packets * PACKET as u64;
        let sessions = tally
            .sent
            .by_session
            .iter()
            .zip(&tally.received.by_session)
            .zip(charged);
        sessions.fold(
            Self {
                bound_octets,
                ..Self::default()
            },
            |sum, ((&sent, &forwarded), &charged)| {
                let (sent, forwarded) = (octets(sent), octets(forwarded));
                let lost = forwarded.saturating_sub(charged);
                Self {
                    sent_octets: sum.sent_octets + sent,
                    forwarded_octets: sum.forwarded_octets + forwarded,
                    charged_octets: sum.charged_octets + charged,
                    lost_octets: sum.lost_octets + lost,
                    most_of_a_session: sum.most_of_a_session.max(lost),
                    overcharged_sessions: sum.overcharged_sessions + u64::from(charged > sent),
                    ..sum
                }
            },
        )
    }
}

/// What a kill may lose of sessions that share this rate: what they have sent since the last checkpoint, which comes
/// once in an interval, and before when a session has counted `checkpoint_octets`.
#[must_use]
pub fn bound(rate: u32, active: u32, checkpoint_s: u32, checkpoint_octets: u64) -> u64 {
    let of_all = u64::from(rate) * PACKET as u64 * u64::from(checkpoint_s);
    of_all.min(u64::from(active) * checkpoint_octets)
}

#[cfg(test)]
mod tests {
    use super::super::traffic::{Received, Sent};
    use super::*;

    #[test]
    fn losses_are_of_each_session_and_are_not_made_good_by_others() {
        let tally = Tally {
            sent: Sent {
                by_session: vec![10, 10, 10],
                refused: 0,
            },
            received: Received {
                by_session: vec![10, 9, 8],
                ..Received::default()
            },
        };
        let charging = Charging::of(&tally, &[700, 900, 1_001], 500);
        let expected = Charging {
            sent_octets: 3_000,
            forwarded_octets: 2_700,
            charged_octets: 2_601,
            lost_octets: 300,
            most_of_a_session: 300,
            bound_octets: 500,
            overcharged_sessions: 1,
        };
        assert_eq!(charging, expected);
    }

    #[test]
    fn the_bound_is_that_of_time_or_of_octets() {
        assert_eq!(bound(1_000, 10, 2, 1 << 20), 200_000);
        assert_eq!(bound(1_000, 10, 2, 1_000), 10_000);
    }
}
