//! The configuration changes while the UPF runs.
//!
//! 1. *Prepare.* All that can be refused is refused before anything changes: the network is numbered as the successor
//!    of the one there is, pools keep what is held, what is removed is hidden from requests and not in use. Next hops
//!    that routes have not led over are resolved.
//! 2. *Take effect.* In control at once; in each worker by one command, between two bursts.
//! 3. *Follow.* Sessions whose images change are compiled anew, a few in each poll, in order with their requests. Next
//!    hops and groups of before stay meanwhile.
//! 4. *Give up* what only the configuration of before had.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, StaticNeighbour};
use flow::Nanos;
use n4::Endpoint;
use rules::Predefined;
use rules::network::Network;
use rules::network::multipath::GroupId;
use session::{Departed, Departing, Pool, Search};
use transport::{NeighbourError, NeighboursConfig};
use worker::{Command, InterfaceSettings, NetworkTables};

use super::leases::Leases;
use super::n4_config::n4_config;
use super::neighbours::SharedNeighbours;
use super::path_mtus::PathMtus;
use super::reconfigure::{
    Before, FixedNeighbours, NeighbourSet, Next, Preparation, Reconfigurations, ReconfigureError,
    Reconfigured, Stage, routers,
};
use super::workers::Workers;

/// Session indexes that are searched in one poll.
const SEARCHED_PER_POLL: usize = 4_096;
/// Session indexes whose sessions follow in one poll.
const FOLLOWING_PER_POLL: usize = 256;
/// How long requests that are in progress may delay the search for users of what is removed.
const SEARCH_TIME: Duration = Duration::from_secs(10);
/// How long a change waits for next hops that are silent. Packets to them wait then, as those to any other do.
const NEXT_HOP_TIME: Duration = Duration::from_secs(10);
/// Results that are kept until they are polled.
const RESULTS_KEPT: usize = 16;

/// What a change of the configuration works on: the parts of control.
pub(super) struct Reconfiguration<'a> {
    pub endpoint: &'a mut Endpoint,
    pub neighbours: &'a SharedNeighbours,
    pub workers: &'a mut Workers,
    pub leases: &'a mut Leases,
    pub path_mtus: &'a mut PathMtus,
    pub network: &'a mut Arc<Network>,
    pub fixed_neighbours: &'a mut FixedNeighbours,
    pub interface_settings: &'a InterfaceSettings,
    /// Whether workers have counters of contents.
    pub has_content_counters: bool,
    pub changes: &'a mut Reconfigurations,
}

impl Reconfiguration<'_> {
    /// Begins to change the configuration; see [`Control::reconfigure`](crate::Control::reconfigure).
    ///
    /// # Errors
    /// What can be said at once. Nothing has changed then.
    pub fn reconfigure(&mut self, now: Nanos, new: &Config) -> Result<(), ReconfigureError> {
        if !matches!(self.changes.stage, Stage::Idle) {
            return Err(ReconfigureError::Busy);
        }
        if new.has_contents() && !self.has_content_counters {
            return Err(ReconfigureError::Contents);
        }
        let before = Before {
            network: Arc::clone(self.network),
            predefined: Arc::clone(&self.endpoint.config().sessions.predefined),
        };
        let next = self.next(&before, new)?;
        self.check(&next)?;
        let departing = departing(&before, &next);
        let next_hops = routers(&next.network)
            .difference(&routers(&before.network))
            .copied()
            .chain(policy_next_hops(&next.network))
            .collect();
        let preparation = Preparation {
            is_searched: departing.is_empty(),
            next: Box::new(next),
            before,
            departing,
            search: Search::default(),
            next_hops,
            began: now,
        };
        if let Err(error) = self.enter_next_hops(now, &preparation) {
            self.give_up_next_hops(now);
            return Err(error);
        }
        if !preparation.departing.is_empty() {
            let Before { network, predefined } = &preparation.before;
            let network = network.hiding(&preparation.departing.policies);
            let predefined = predefined.hiding(&preparation.departing.predefined);
            self.endpoint
                .find_names_in(&Arc::new(network), &Arc::new(predefined));
        }
        self.changes.stage = Stage::Preparing(Box::new(preparation));
        Ok(())
    }

    /// What is to take effect, numbered as the successor of what has.
    fn next(&self, before: &Before, new: &Config) -> Result<Next, ReconfigureError> {
        let network = new.network().map_err(ReconfigureError::Network)?;
        let network = network.succeeding(&before.network);
        let network = network.map_err(ReconfigureError::Succession)?;
        let mut n4 = n4_config(new, 0);
        let predefined = Predefined::clone(&n4.sessions.predefined).succeeding(&before.predefined);
        n4.sessions.predefined = Arc::new(predefined.map_err(ReconfigureError::Predefined)?);
        let pools = std::mem::take(&mut n4.sessions.pools);
        n4.sessions.pools = Pool::succeeding(pools, &self.endpoint.config().sessions.pools);
        Ok(Next {
            network: Arc::new(network),
            n4,
            neighbours: new.neighbours.with(&new.routers),
            fixed: new.static_neighbours().collect(),
            path_mtu_age: new.gtpu.path_mtu_age(),
            path_mtu_least: new.gtpu.least_path_mtu(),
        })
    }

    /// That nothing is lost that peers and sessions have.
    fn check(&self, next: &Next) -> Result<(), ReconfigureError> {
        if let Some(lost) = self.endpoint.lost_peer(&next.n4.peers) {
            return Err(ReconfigureError::Peer(lost));
        }
        match self.endpoint.sessions().lost_addresses(&next.n4.sessions.pools) {
            Some((name, held)) => Err(ReconfigureError::Pool { name, held }),
            None => Ok(()),
        }
    }

    /// Has the next hops of a network that is to take effect resolved, and its groups known to the workers.
    fn enter_next_hops(&mut self, now: Nanos, preparation: &Preparation) -> Result<(), ReconfigureError> {
        let mut table = self.neighbours.at(now);
        let neighbours = &mut table.neighbours;
        let next = &preparation.next;
        for fixed in &next.fixed {
            // What has been resolved so far is resolved until the change takes effect.
            let is_new = neighbours.find(fixed.instance, fixed.address).is_none();
            if is_new
                && neighbours.add_static(fixed.instance, fixed.address, fixed.mac)
                    == Err(NeighbourError::Full)
            {
                return Err(ReconfigureError::Neighbour(fixed.address));
            }
        }
        for (instance, address) in &preparation.next_hops {
            let entered = neighbours.pin(now, *instance, *address);
            if entered == Err(NeighbourError::Full) {
                return Err(ReconfigureError::Neighbour(*address));
            }
        }
        for (id, group) in (0..).map(GroupId).zip(next.network.groups()) {
            if !group.is_empty() && !neighbours.has_group(id) {
                neighbours.add_group(now, id, group);
            }
        }
        Ok(())
    }

    /// Gives up the next hops and groups that the configuration that has effect does not have.
    fn give_up_next_hops(&mut self, now: Nanos) {
        let mut table = self.neighbours.at(now);
        let fixed = self.fixed_neighbours.all();
        let network = &self.network;
        table
            .neighbours
            .keep(now, network.groups(), &routers(network), &fixed);
    }

    /// Continues the change of the configuration, if there is one.
    pub fn poll(&mut self, now: Nanos) -> bool {
        match std::mem::take(&mut self.changes.stage) {
            Stage::Idle => return false,
            Stage::Preparing(preparation) => return self.prepare_further(now, preparation),
            Stage::Following { unconfirmed } => {
                let followed = self.endpoint.poll_recompilation(now, FOLLOWING_PER_POLL);
                self.changes.stage = match followed {
                    Some(all) => Stage::Followed {
                        result: Reconfigured {
                            sessions: all.changed,
                            failed: all.failed,
                        },
                        unconfirmed,
                    },
                    None => Stage::Following { unconfirmed },
                };
            }
            Stage::Followed {
                result,
                unconfirmed: 0,
            } => {
                self.give_up_next_hops(now);
                self.end_reconfiguration(Ok(result));
            }
            stage @ Stage::Followed { .. } => self.changes.stage = stage,
        }
        true
    }

    fn end_reconfiguration(&mut self, result: Result<Reconfigured, ReconfigureError>) {
        let results = &mut self.changes.results;
        if results.len() >= RESULTS_KEPT {
            results.pop_front();
        }
        results.push_back(result);
    }

    /// Searches for users of what is removed, waits for next hops, and has all take effect when both are done.
    fn prepare_further(&mut self, now: Nanos, mut preparation: Box<Preparation>) -> bool {
        let was_searched = preparation.is_searched;
        if !preparation.is_searched {
            let Preparation {
                search, departing, ..
            } = &mut *preparation;
            let sessions = self.endpoint.sessions();
            preparation.is_searched = sessions.search(search, departing, SEARCHED_PER_POLL);
        }
        if preparation.is_searched && !preparation.search.users.is_empty() {
            let error = in_use(&preparation);
            self.abandon(now, &preparation, error);
        } else if !preparation.is_searched && now >= preparation.began + SEARCH_TIME {
            self.abandon(now, &preparation, ReconfigureError::Unsettled(SEARCH_TIME));
        } else if preparation.is_searched
            && (self.are_next_hops_settled(now, &preparation) || now >= preparation.began + NEXT_HOP_TIME)
        {
            // Peers and sessions have changed since it began.
            match self.check(&preparation.next) {
                Ok(()) => self.take_effect(now, *preparation),
                Err(error) => self.abandon(now, &preparation, error),
            }
        } else {
            self.changes.stage = Stage::Preparing(preparation);
            return !was_searched;
        }
        true
    }

    /// All is as it was.
    fn abandon(&mut self, now: Nanos, preparation: &Preparation, error: ReconfigureError) {
        let Before { network, predefined } = &preparation.before;
        self.endpoint.find_names_in(network, predefined);
        self.give_up_next_hops(now);
        self.end_reconfiguration(Err(error));
    }

    /// Whether every next hop that is new is resolved, or does not reply: its packets wait then, as those of any other.
    fn are_next_hops_settled(&self, now: Nanos, preparation: &Preparation) -> bool {
        let table = self.neighbours.at(now);
        let mut next_hops = preparation.next_hops.iter();
        next_hops.all(|(instance, address)| table.neighbours.is_settled(*instance, *address))
    }

    /// Everything changes that is not of single sessions: in control now, in workers when they come to the command.
    fn take_effect(&mut self, now: Nanos, preparation: Preparation) {
        let Next {
            network,
            n4,
            neighbours,
            fixed,
            path_mtu_age,
            path_mtu_least,
        } = *preparation.next;
        self.path_mtus.set_bounds(path_mtu_age, path_mtu_least);
        self.change_neighbours(now, &neighbours, &fixed);
        let count = self.workers.count();
        self.leases
            .change_network(&preparation.before.network, &network, self.workers);
        self.endpoint.reconfigure(now, &network, n4);
        let table = self.neighbours.at(now);
        let tables = || {
            let settings = self.interface_settings;
            Box::new(NetworkTables::at_present(&network, settings, &table.neighbours))
        };
        self.workers.send_all(|| Command::Network(tables()));
        drop(table);
        *self.network = network;
        self.fixed_neighbours.configured = fixed;
        self.changes.stage = Stage::Following { unconfirmed: count };
    }

    /// Neighbours have these times, and these link layer addresses. Workers know of all changes.
    fn change_neighbours(&mut self, now: Nanos, times: &NeighboursConfig, fixed: &[StaticNeighbour]) {
        let mut table = self.neighbours.at(now);
        table.neighbours.set_times(now, times);
        for one in fixed {
            // It is in the table already.
            let _ = table.neighbours.add_static(one.instance, one.address, one.mac);
        }
        while let Some(change) = table.neighbours.poll_change() {
            self.workers.send_all(|| Command::Adjacency(change));
        }
    }
}

/// What sessions may have of the configuration that had effect, and not of the next.
fn departing(before: &Before, next: &Next) -> Departing {
    let has = |name: &str| next.network.policy_by_name(name.as_bytes()).is_some();
    let policies = before.network.policies();
    Departing {
        policies: policies
            .filter(|(_, one)| !has(&one.name))
            .map(|(id, _)| id)
            .collect(),
        predefined: before.predefined.without(&next.n4.sessions.predefined),
    }
}

/// The neighbours that forwarding policies send to.
fn policy_next_hops(network: &Network) -> NeighbourSet {
    let policies = network.policies();
    policies
        .filter_map(|(_, policy)| Some((policy.instance?, policy.next_hop?)))
        .collect()
}

/// What most sessions use of what is removed.
fn in_use(preparation: &Preparation) -> ReconfigureError {
    let most = preparation
        .search
        .users
        .iter()
        .max_by_key(|(_, sessions)| **sessions);
    let (name, sessions) = match most {
        Some((Departed::Policy(id), sessions)) => {
            let policy = preparation.before.network.policy(*id);
            let name = policy.map_or("", |policy| policy.name.as_str());
            (format!("forwarding policy `{name}`"), *sessions)
        }
        Some((other, sessions)) => (other.to_string(), *sessions),
        None => (String::new(), 0),
    };
    ReconfigureError::InUse { name, sessions }
}
