//! Rates that several workers, and an accelerator, keep together: parts of each are leased to them, by what they need.

mod division;
mod egress_rates;
mod shared_rates;

use std::sync::Arc;

use flow::meter::Demand;
use flow::{Nanos, WorkerId};
use rules::network::Network;
use session::SharedRate;
use worker::{Command, EgressDemand, LeaseHolder};

use self::egress_rates::EgressRates;
pub use self::egress_rates::{EgressPart, EgressShaper};
use self::shared_rates::SharedRates;
use super::workers::Workers;

/// All rates that are leased: those of meters, and those of queues before ports.
#[derive(Debug)]
pub struct Leases {
    shared: SharedRates,
    egress: EgressRates,
}

impl Leases {
    /// Of this network, over this number of workers; of meters, over them and an accelerator, if there is one that
    /// holds sessions.
    #[must_use]
    pub fn new(network: &Arc<Network>, workers: usize, has_accelerator: bool) -> Self {
        Self {
            shared: SharedRates::new(network.policers(), workers, has_accelerator),
            egress: EgressRates::new(network, workers),
        }
    }

    /// The network is `newer` from now on, which succeeds `older`.
    pub fn change_network(&mut self, older: &Network, newer: &Arc<Network>, workers: &mut Workers) {
        let policers = (older.policers(), newer.policers());
        self.shared.change_policers(policers, |worker, command| {
            workers.send(WorkerId(worker as u16), command);
        });
        self.egress.change_network(newer);
    }

    /// When [`poll`](Self::poll) has something to do; `None`: never, as things are.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let timeouts = [self.shared.poll_timeout(), self.egress.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// The rate of a correlation, or the workers that own its sessions, have changed.
    pub fn set(&mut self, rate: &SharedRate, workers: &mut Workers) {
        self.shared.set(rate, |worker, command| {
            workers.send(WorkerId(worker as u16), command);
        });
    }

    /// Divides rates anew, and asks the workers what they need, if that is due. Whether it was.
    pub fn poll(&mut self, now: Nanos, workers: &mut Workers) -> bool {
        let mut send = |worker: usize, command: Command| workers.send(WorkerId(worker as u16), command);
        let is_busy = self.shared.poll(now, &mut send);
        is_busy | self.egress.poll(now, send)
    }

    /// The response of a worker: the octets that sessions sent through each of this holder's meters since the query
    /// before.
    pub fn handle_demand(&mut self, (worker, holder): (usize, LeaseHolder), demand: &[Demand]) {
        self.shared.handle_demand((worker, holder), demand);
    }

    /// The rates of queues before ports.
    #[must_use]
    pub fn egress_shapers(&self) -> Vec<EgressShaper> {
        self.egress.shapers()
    }

    /// The response of a worker: what its nodes before ports have sent, and who waits.
    pub fn handle_egress_demands(&mut self, worker: usize, demands: &[EgressDemand]) {
        self.egress.handle_demands(worker, demands);
    }
}
