//! The state of the account of one URR, for a session record.

use flow::UrrCount;
use rules::model::UrrId;

use crate::count::combine;
use crate::moment::{Moment, NANOS, PacketMoments};
use crate::urr_account::UrrAccount;
use crate::urr_state::UrrState;

/// What a session record has of the account of one URR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrrCheckpoint {
    /// The URR.
    pub urr: UrrId,
    /// UR-SEQN of its next report.
    pub next: u32,
    /// When the current measurement began.
    pub since: Moment,
    /// What was counted since then, as the counter counts it.
    pub count: UrrCount,
    /// What an octet in the count is, in billionths of one of usage (`Urr::unit`).
    pub unit: u64,
    /// What is left of what was reported in whole octets: uplink and downlink, in billionths of one.
    pub rest: [u64; 2],
    /// When its packets came, if that is known.
    pub times: Option<PacketMoments>,
    /// What was counted before QoS enforcement since then, of a URR that reports it (MBQE).
    pub before_qos: Option<UrrCount>,
    /// The state of its thresholds, quotas and times, if it has any.
    pub state: Option<UrrState>,
}

/// What a URR has counted since its measurement began, of a moment behind its last checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrrProgress {
    /// The URR.
    pub urr: UrrId,
    /// UR-SEQN of its next report.
    pub next: u32,
    /// When the current measurement began.
    pub since: Moment,
    /// What was counted since then, as the counter counts it.
    pub count: UrrCount,
    /// What an octet in the count is, in billionths of one of usage (`Urr::unit`).
    pub unit: u64,
}

impl UrrCheckpoint {
    /// Takes over what the URR has counted since, if `progress` is of the same measurement: its next report has the
    /// same number, and it began at the same time. Dates follow the host's clock, so that one moment may have two that
    /// differ a little.
    pub fn advance(&mut self, progress: &UrrProgress) {
        let is_same = (self.urr, self.next, self.unit) == (progress.urr, progress.next, progress.unit);
        if is_same && self.since.since(progress.since).abs() < NANOS {
            self.count = combine(self.count, progress.count, u64::max);
        }
    }

    /// What was used since then, in whole octets.
    pub fn used(&self) -> UrrCount {
        let account = UrrAccount {
            unit: self.unit,
            rest: self.rest,
            ..UrrAccount::default()
        };
        account.used(self.count).count
    }
}
