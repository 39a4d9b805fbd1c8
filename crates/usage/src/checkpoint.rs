//! Where the account of a URR is, for a session record.

use flow::UrrCount;
use rules::model::UrrId;

use crate::account::Account;
use crate::machine::Machine;
use crate::moment::Moment;

/// The state of the account of one URR: what a session record has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrrCheckpoint {
    /// The URR.
    pub urr: UrrId,
    /// UR-SEQN of its next report.
    pub next: u32,
    /// When the measurement under way began.
    pub since: Moment,
    /// What was counted since then, as the counter counts it.
    pub count: UrrCount,
    /// What an octet in the count is, in billionths of one of usage (`Urr::unit`).
    pub unit: u64,
    /// What is left of what was reported in whole octets: uplink and downlink, in billionths of one.
    pub rest: [u64; 2],
    /// When the first and the last packet of that came, as far as it is known.
    pub times: Option<(Moment, Moment)>,
    /// What came before QoS enforcement since then, of a URR that tells of it.
    pub before_qos: Option<UrrCount>,
    /// How far its thresholds, quotas and times are, if it has any.
    pub machine: Option<Machine>,
}

impl UrrCheckpoint {
    /// What was used since then, in whole octets.
    pub fn used(&self) -> UrrCount {
        let account = Account {
            unit: self.unit,
            rest: self.rest,
            ..Account::default()
        };
        account.used(self.count).count
    }
}
