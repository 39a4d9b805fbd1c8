//! The tables that a worker has of the configured network. Control makes them, also those of a changed configuration:
//! the worker only swaps them.

use core::fmt;
use std::sync::Arc;

use packet::MacAddr;
use rules::network::Network;
use transport::{Neighbours, OwnAddressState, Routes};

use crate::access_counts::AccessCounts;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::local::host::HostRates;
use crate::{LagPorts, WorkerConfig};

/// The tables of a network for one worker.
pub struct NetworkTables {
    pub(crate) network: Arc<Network>,
    pub(crate) interfaces: L3Interfaces,
    pub(crate) routes: Routes,
    pub(crate) access: AccessCounts,
}

/// What of a worker's interfaces the network does not say, and what does not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct InterfaceSettings {
    /// [`WorkerConfig::macs`].
    pub macs: Vec<MacAddr>,
    /// [`WorkerConfig::lags`].
    pub lags: Vec<LagPorts>,
    /// [`WorkerConfig::host`].
    pub host: Vec<Option<HostRates>>,
    /// [`WorkerConfig::urgent_dscps`].
    pub urgent_dscps: Vec<u64>,
}

impl InterfaceSettings {
    /// Those of this configuration.
    pub fn of(config: &WorkerConfig) -> Self {
        Self {
            macs: config.macs.clone(),
            lags: config.lags.clone(),
            host: config.host.clone(),
            urgent_dscps: config.urgent_dscps.clone(),
        }
    }
}

impl NetworkTables {
    /// The tables of `network`; no router has an adjacency, and all own addresses are usable.
    pub(crate) fn new(network: &Arc<Network>, settings: &InterfaceSettings) -> Self {
        let InterfaceSettings {
            macs,
            lags,
            host,
            urgent_dscps,
        } = settings;
        Self {
            interfaces: L3Interfaces::new(network, macs)
                .with_lags(lags, macs)
                .with_host(host, urgent_dscps),
            routes: Routes::new(network),
            access: AccessCounts::new(network),
            network: Arc::clone(network),
        }
    }

    /// The tables of `network` as of now: with the adjacencies of routers, and the own addresses that are usable.
    pub fn at_present(network: &Arc<Network>, settings: &InterfaceSettings, neighbours: &Neighbours) -> Self {
        let mut tables = Self::new(network, settings);
        let gateways: Vec<_> = tables.routes.gateways().collect();
        for (instance, gateway) in gateways {
            let known = neighbours.find(instance, gateway);
            tables.routes.bind(instance, gateway, known);
        }
        for own in neighbours.own_addresses() {
            let is_usable = own.state == OwnAddressState::Preferred;
            if let std::net::IpAddr::V6(address) = own.address {
                tables.interfaces.set_usable(own.instance, address, is_usable);
            }
        }
        tables
    }

    /// The network that they are of.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }
}

impl fmt::Debug for NetworkTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkTables").finish_non_exhaustive()
    }
}
