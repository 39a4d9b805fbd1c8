//! Traffic Endpoints: what several PDRs look for in common (TS 29.244 §5.2.1A.2, Tables 7.5.2.7-1 and 7.5.4.13-1).
//!
//! A PDI that names one holds a copy of what the endpoint says, so that readers of a PDI need not know
//! endpoints; [`SessionRules`](super::SessionRules) keeps the copies alike.

use flow::InstanceId;
use packet::Qfi;

use super::edit::{Edit, replace, replace_list};
use super::ids::TrafficEndpointId;
use super::pdr::{FTeid, Pdi, UeIpAddress, UeIpAddresses};
use super::qfis::Qfis;
use crate::prefix::IpPrefix;

/// A Traffic Endpoint (TS 29.244 Table 7.5.2.7-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrafficEndpoint {
    /// Its number in the session.
    pub id: TrafficEndpointId,
    /// The tunnel that packets come in.
    pub f_teid: Option<FTeid>,
    /// The network instance that packets come from.
    pub instance: Option<InstanceId>,
    /// The UE's addresses.
    pub ue_ip: UeIpAddresses,
    /// The networks behind the UE.
    pub framed_routes: Vec<IpPrefix>,
    /// QoS flows; where there are any, the PDIs that name the endpoint have none of their own.
    pub qfis: Qfis,
}

impl TrafficEndpoint {
    /// Says nothing yet.
    pub const fn new(id: TrafficEndpointId) -> Self {
        Self {
            id,
            f_teid: None,
            instance: None,
            ue_ip: UeIpAddresses::new_const(),
            framed_routes: Vec::new(),
            qfis: Qfis::NONE,
        }
    }

    /// Copies what the endpoint says into a PDI that names it. `before` is what it said so far.
    pub(super) fn fill(&self, pdi: &mut Pdi, before: Option<&Self>) {
        pdi.f_teid = self.f_teid;
        pdi.instance = self.instance;
        pdi.ue_ip.clone_from(&self.ue_ip);
        if self.framed_routes != pdi.optional.framed_routes {
            let mut optional = pdi.optional.take();
            optional.framed_routes.clone_from(&self.framed_routes);
            pdi.optional = optional.into();
        }
        if !self.qfis.is_empty() || before.is_some_and(|before| !before.qfis.is_empty()) {
            pdi.qfis = self.qfis;
        }
    }
}

/// An Update Traffic Endpoint (TS 29.244 Table 7.5.4.13-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficEndpointUpdate {
    /// The endpoint.
    pub id: TrafficEndpointId,
    /// Local F-TEID.
    pub f_teid: Edit<FTeid>,
    /// Network Instance.
    pub instance: Edit<InstanceId>,
    /// UE IP Addresses, all of them.
    pub ue_ip: Option<Vec<UeIpAddress>>,
    /// Framed-Routes and Framed-IPv6-Routes.
    pub framed_routes: FramedRoutesUpdate,
    /// QFIs, all of them.
    pub qfis: Option<Vec<Qfi>>,
}

impl TrafficEndpointUpdate {
    /// Changes nothing yet.
    pub const fn new(id: TrafficEndpointId) -> Self {
        Self {
            id,
            f_teid: Edit::Keep,
            instance: Edit::Keep,
            ue_ip: None,
            framed_routes: FramedRoutesUpdate {
                ipv4: None,
                ipv6: None,
            },
            qfis: None,
        }
    }

    pub(super) fn apply(self, endpoint: &mut TrafficEndpoint) {
        self.f_teid.apply(&mut endpoint.f_teid);
        self.instance.apply(&mut endpoint.instance);
        replace_list(&mut endpoint.ue_ip, self.ue_ip);
        self.framed_routes.apply(&mut endpoint.framed_routes);
        replace(&mut endpoint.qfis, self.qfis.map(Qfis::from));
    }
}

/// What an update says of framed routes: each family stays (`None`) or is replaced as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FramedRoutesUpdate {
    /// Framed-Routes, all of them.
    pub ipv4: Option<Vec<IpPrefix>>,
    /// Framed-IPv6-Routes, all of them.
    pub ipv6: Option<Vec<IpPrefix>>,
}

impl FramedRoutesUpdate {
    /// All of them, where there were none.
    pub fn all(self) -> Vec<IpPrefix> {
        let mut routes = Vec::new();
        self.apply(&mut routes);
        routes
    }

    pub(super) fn apply(self, routes: &mut Vec<IpPrefix>) {
        if let Some(ipv4) = self.ipv4 {
            routes.retain(|route| !route.is_ipv4());
            routes.extend(ipv4);
        }
        if let Some(ipv6) = self.ipv6 {
            routes.retain(IpPrefix::is_ipv4);
            routes.extend(ipv6);
        }
    }
}
