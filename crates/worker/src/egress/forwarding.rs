//! The tables that lead a packet out: L3 interfaces, routes, adjacencies, path MTUs.

use transport::{Adjacencies, Routes};

use crate::egress::path_mtus::PathMtus;
use crate::ingress::l3_interfaces::L3Interfaces;

/// A worker's copy of them; Control's commands change it.
pub(crate) struct ForwardingTables {
    pub interfaces: L3Interfaces,
    pub adjacencies: Adjacencies,
    pub routes: Routes,
    pub path_mtus: PathMtus,
}
