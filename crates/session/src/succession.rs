//! A changed configuration takes the place of the one that sessions were made with.
//!
//! What is removed is hidden first, so that no request uses it from then on; then the sessions are searched for users
//! of it ([`Search`]). The new configuration takes its place at once ([`Requests::succeed`]), and sessions follow one
//! after the other ([`recompilation`](crate::recompilation)).

use flow::{Nanos, SessionIndex};
use rules::Predefined;
use rules::model::{PolicyId, Removed, RemovedName, SessionRules};
use rules::network::Network;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::config::Config;
use crate::pending_change::State;
use crate::pools::{Pool, PoolId};
use crate::request_queue::Requests;

/// What sessions may have that is removed from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Departing {
    /// Forwarding policies.
    pub policies: BTreeSet<PolicyId>,
    /// What was predefined.
    pub predefined: Removed,
}

/// One of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Departed {
    /// A forwarding policy.
    Policy(PolicyId),
    /// A rulebase, by name.
    Rulebase(Box<[u8]>),
    /// A predefined FAR, QER or URR.
    Rule(String),
}

impl fmt::Display for Departed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departed::Policy(PolicyId(place)) => write!(f, "forwarding policy {place}"),
            Departed::Rulebase(name) => write!(f, "rulebase `{}`", name.escape_ascii()),
            Departed::Rule(rule) => write!(f, "predefined {rule}"),
        }
    }
}

impl Departing {
    /// Whether nothing is removed.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.predefined.is_empty()
    }

    /// The first of it that a session uses.
    fn first_used(&self, rules: &SessionRules) -> Option<Departed> {
        let policy = |policy: Option<PolicyId>| policy.filter(|policy| self.policies.contains(policy));
        let policies = rules
            .fars()
            .iter()
            .flat_map(|far| [far.forwarding, far.optional.duplicating]);
        let mut named = policies.flatten().filter_map(|to| policy(to.policy));
        let predefined = || match rules.first_used(&self.predefined)? {
            RemovedName::Rulebase(name) => Some(Departed::Rulebase(name.into())),
            RemovedName::Rule(rule) => Some(Departed::Rule(rule.to_string())),
        };
        named.next().map(Departed::Policy).or_else(predefined)
    }
}

/// A search for the sessions that use what is removed.
#[derive(Clone, Debug, Default)]
pub struct Search {
    next: u32,
    /// How many sessions use each.
    pub users: BTreeMap<Departed, u64>,
}

impl Requests {
    /// Continues a search with up to `most` more indexes. Whether it is over; it is not while requests are in progress
    /// in the next session that came before what is removed was hidden.
    pub(crate) fn search(&self, search: &mut Search, departing: &Departing, most: usize) -> bool {
        let table = &self.context.table;
        let end = self.context.config.max_sessions;
        for _ in 0..most {
            if search.next >= end {
                break;
            }
            let session = table.get(SessionIndex(search.next));
            if let Some(session) = session.filter(|session| !session.is_dying()) {
                if !matches!(session.state, State::Settled) || !session.waiting.is_empty() {
                    // A request that waits may make a session in a place that was searched before.
                    (search.next, search.users) = Default::default();
                    return false;
                }
                if let Some(used) = departing.first_used(&session.live.rules) {
                    *search.users.entry(used).or_default() += 1;
                }
            }
            search.next += 1;
        }
        search.next >= end
    }

    /// The first pool that would lose addresses that sessions hold, and how many, if the pools were these, which
    /// [succeed](Pool::succeeding) the ones there are.
    pub(crate) fn lost_addresses(&self, pools: &[Pool]) -> Option<(String, usize)> {
        let network = &self.context.environment.network;
        let addresses = &self.context.resources.addresses;
        let mut older = (0..).map(PoolId).zip(&self.context.config.pools);
        older.find_map(|(id, old)| {
            let next = pools.get(usize::from(id.0)).filter(|next| next.name == old.name);
            let instance = next.and_then(|next| network.instance(next.instance));
            let lost = addresses.lost(id, next, instance.map(|instance| instance.vrf));
            (lost > 0).then(|| (old.name.clone(), lost))
        })
    }

    /// Requests find what is named in these from now on, and nothing else changes.
    pub(crate) fn find_names_in(&mut self, network: Arc<Network>, predefined: Arc<Predefined>) {
        self.context.environment.network = network;
        self.context.config.predefined = predefined;
    }

    /// From now on all is as these say: `network` succeeds the one there is, and the pools of `config` those there are.
    /// Sessions follow.
    pub(crate) fn succeed(&mut self, now: Nanos, network: Arc<Network>, config: &Config) {
        let Config {
            deadline,
            accept_cp_f_teids,
            pools,
            predefined,
            ..
        } = config;
        let context = &mut self.context;
        context.config.deadline = *deadline;
        context.config.accept_cp_f_teids = *accept_cp_f_teids;
        if context.config.pools != *pools {
            context.resources.addresses.set_pools(pools, &network);
            context.config.pools.clone_from(pools);
        }
        context.config.predefined = Arc::clone(predefined);
        let older = std::mem::replace(&mut context.environment.network, network);
        self.shorten_deadlines(now);
        self.begin_recompilation(older);
    }
}
