//! The state of the account of one URR, for a session record.

use flow::UrrCount;
use rules::model::UrrId;

use crate::moment::{Moment, PacketMoments};
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

impl UrrCheckpoint {
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
