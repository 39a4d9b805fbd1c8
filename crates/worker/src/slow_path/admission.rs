//! Flow admission: limits of new flow entries, by session and by worker, applied while entries are written.

use flow::{BlockRef, Nanos, SessionIndex, TokenLevel, TokenRate};

use crate::FlowLimits;
use crate::burst::descriptor::Family;
use crate::lookup::flow_tables::{Admission, FlowAccounts};
use crate::sessions::Sessions;
use crate::stats::Stats;

/// The limits of [`FlowLimits`], made ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionLimits {
    /// Flow entries of one session, at most.
    per_session: u32,
    session_rate: TokenRate,
    rate: TokenRate,
    /// The worker's own rate.
    level: TokenLevel,
}

impl AdmissionLimits {
    pub fn new(limits: FlowLimits) -> Self {
        let FlowLimits {
            per_session,
            session_rate,
            rate,
        } = limits;
        Self {
            per_session: if per_session == 0 { u32::MAX } else { per_session },
            session_rate: TokenRate::per_second_or_unlimited(session_rate),
            rate: TokenRate::per_second_or_unlimited(rate),
            level: TokenLevel::default(),
        }
    }
}

/// The limits and what they are about, while a burst's entries are written.
pub(crate) struct FlowAdmission<'a> {
    pub limits: &'a mut AdmissionLimits,
    pub sessions: &'a mut Sessions,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

impl FlowAccounts for FlowAdmission<'_> {
    fn forget(&mut self, family: Family, block: BlockRef, generation: u32) -> bool {
        self.sessions.forget(family, block, generation)
    }
}

impl Admission for FlowAdmission<'_> {
    fn may_add(&mut self, _: Family, session: SessionIndex) -> bool {
        let Self {
            limits,
            sessions,
            stats,
            now,
        } = self;
        let Some(account) = sessions.account_mut(session) else {
            return false;
        };
        if account.flows >= limits.per_session {
            stats.over_session_flows += 1;
        } else if !account.rate.take(limits.session_rate, *now) {
            stats.over_session_rate += 1;
        } else if !limits.level.take(limits.rate, *now) {
            stats.over_rate += 1;
        } else {
            return true;
        }
        false
    }

    fn added(&mut self, _: Family, session: SessionIndex) {
        self.stats.installed += 1;
        if let Some(account) = self.sessions.account_mut(session) {
            account.flows += 1;
        }
    }

    fn refused(&mut self) {
        self.stats.not_installed += 1;
    }
}
