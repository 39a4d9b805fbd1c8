//! Sessions follow a changed configuration: each is compiled anew for the network as it is now, with what is predefined
//! now, if that changes anything of it. A few at a time, each as a change of its own behind the requests that wait for
//! it, so that PFCP is served meanwhile.

use flow::SessionIndex;
use rules::Predefined;
use rules::compile::leads_alike;
use rules::network::Network;
use std::sync::Arc;

use crate::rule_changes::{Changes, Follow};
use crate::session::Session;
use crate::session_accounting::Subscriber;

/// Sessions that are on their way at a time: with the workers, or behind a request that is.
pub(crate) const MOST_ON_THEIR_WAY: u64 = 1_024;

/// What came of the sessions that were to follow a changed configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recompiled {
    /// Those that something changed of.
    pub changed: u64,
    /// Those that could not take over what is predefined: it has become more than there is room for. They keep what
    /// they had of it.
    pub failed: u64,
}

/// The sessions that are on their way, and those that have arrived.
#[derive(Debug, Default)]
pub(crate) struct RecompiledSessions {
    begun: u64,
    ended: u64,
    result: Recompiled,
}

impl RecompiledSessions {
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
    }

    /// Nothing is to be changed of a session.
    pub(crate) fn unchanged(&mut self) {
        self.ended += 1;
    }

    pub(crate) fn done(&mut self) {
        self.ended += 1;
        self.result.changed += 1;
    }

    /// A session could not follow, or is gone.
    pub(crate) fn refused(&mut self) {
        self.ended += 1;
    }

    /// A session that could not follow in all follows the network.
    pub(crate) fn begin_again(&mut self) {
        self.begun += 1;
        self.result.failed += 1;
    }

    pub(crate) fn on_their_way(&self) -> u64 {
        self.begun.saturating_sub(self.ended)
    }

    pub(crate) fn result(&self) -> Recompiled {
        self.result
    }
}

/// How far the sessions have come.
#[derive(Debug)]
pub(crate) struct Recompilation {
    /// The network of before.
    older: Arc<Network>,
    /// Whether sessions may pass other policers than before, or have other access lists.
    has_other_policies: bool,
    /// The first session that it has not come to.
    next: u32,
}

impl Recompilation {
    pub(crate) fn new(older: Arc<Network>, newer: &Network) -> Recompilation {
        Recompilation {
            has_other_policies: older.policers() != newer.policers()
                || older.access_lists().all() != newer.access_lists().all(),
            older,
            next: 0,
        }
    }

    /// The next index, of those below `end`.
    pub(crate) fn next_of(&mut self, end: u32) -> Option<SessionIndex> {
        if self.is_through(end) {
            return None;
        }
        self.next += 1;
        Some(SessionIndex(self.next - 1))
    }

    pub(crate) fn is_through(&self, end: u32) -> bool {
        self.next >= end
    }

    /// What changes of a session that follows, if anything does.
    pub(crate) fn changes_of(
        &self,
        session: &Session,
        newer: &Network,
        predefined: &Predefined,
        follow: Follow,
    ) -> Option<Changes> {
        let rules = &session.live.rules;
        let policy = match self.has_other_policies {
            true => Subscriber::local_policy(session.accounting.subscriber.as_deref(), rules, newer),
            false => rules.local_policy(),
        };
        let is_same = policy == rules.local_policy()
            && (follow == Follow::Network || rules.are_up_to_date(predefined))
            && newer.nat_choice(rules).0 == rules.chosen_nat()
            && leads_alike(rules, &self.older, newer);
        (!is_same).then(|| Changes {
            local_policy: Some(policy),
            follow,
            ..Changes::default()
        })
    }
}
