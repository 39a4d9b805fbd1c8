//! What becomes of packets from one UE to another: configured for each data network, by the prefixes that its UEs have.
//!
//! A prefix represents the sessions: a packet to an address of it that no session has is dropped, and not sent out
//! to a router that would send it back.

use std::net::IpAddr;

use flow::InstanceId;

use crate::prefix::IpPrefix;

/// Where packets go that are addressed to UEs, and framed routes behind them, of the same network instance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Hairpin {
    /// By the routes of the instance, as all others do: the data network decides.
    #[default]
    Router,
    /// To the other UE's session, here: they come in again as if the data network had sent them back. UEs have these
    /// prefixes.
    Local(Vec<IpPrefix>),
    /// Nowhere. UEs have these prefixes.
    Drop(Vec<IpPrefix>),
}

impl Hairpin {
    /// The prefixes whose packets do not go by the instance's routes.
    pub fn prefixes(&self) -> &[IpPrefix] {
        match self {
            Self::Router => &[],
            Self::Local(prefixes) | Self::Drop(prefixes) => prefixes,
        }
    }
}

/// The way to a UE of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UeRoute {
    /// Recirculated, by this own address on the instance's link.
    Ourselves(IpAddr),
    /// Nowhere.
    Nowhere,
}

/// The way of a plain packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlainRoute {
    /// Out by the instance, to the neighbour.
    Out(InstanceId, IpAddr),
    /// To a UE.
    ToUe(InstanceId, UeRoute),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Network, NetworkError, VrfId};
    use crate::testing;

    fn network(hairpin: Hairpin) -> Result<Network, NetworkError> {
        let mut instances = testing::network().instances().to_vec();
        instances[testing::N6.index()].hairpin = hairpin;
        Network::new(instances)
    }

    fn prefixes(all: &[&str]) -> Vec<IpPrefix> {
        all.iter().map(|one| one.parse().expect("a prefix")).collect()
    }

    #[test]
    fn ues_are_reached_by_the_longest_prefix() {
        let local = network(Hairpin::Local(prefixes(&[
            "10.45.0.0/16",
            "10.0.3.0/24",
            "2001:db8:45::/48",
        ])));
        let local = local.expect("no contradictions");
        let ue: IpAddr = IpAddr::from([10, 45, 0, 1]);
        let way = |to: &str| local.plain_route(VrfId(0), ue, to.parse().expect("an address"));
        let us = |own: &str| {
            Some(PlainRoute::ToUe(
                testing::N6,
                UeRoute::Ourselves(own.parse().expect("an address")),
            ))
        };
        assert_eq!(way("10.45.0.9"), us("10.0.6.1"));
        assert_eq!(way("2001:db8:45::9"), us("2001:db8:6::1"));
        let out = |id, hop: &str| Some(PlainRoute::Out(id, hop.parse().expect("an address")));
        assert_eq!(way("10.46.0.9"), out(testing::N6, "10.0.6.254"));
        assert_eq!(
            way("10.0.3.9"),
            out(testing::N3, "10.0.3.9"),
            "a link is before UEs"
        );
        let other = local.plain_route(VrfId(1), ue, "10.45.0.9".parse().expect("an address"));
        assert_eq!(other, out(testing::OTHER_N6, "10.1.6.254"));
        let none = network(Hairpin::Drop(prefixes(&["10.45.0.0/16"]))).expect("no contradictions");
        let way = none.plain_route(VrfId(0), ue, "10.45.0.9".parse().expect("an address"));
        assert_eq!(way, Some(PlainRoute::ToUe(testing::N6, UeRoute::Nowhere)));
    }

    #[test]
    fn an_address_of_ours_is_no_ues() {
        for prefix in ["10.0.6.0/28", "0.0.0.0/0", "2001:db8:6::/64"] {
            let prefix = prefixes(&[prefix]);
            let expected = NetworkError::UePrefix("internet".into(), prefix[0]);
            assert_eq!(network(Hairpin::Local(prefix)), Err(expected));
        }
        let mut instances = testing::network().instances().to_vec();
        let v6 = prefixes(&["2001:db8:46::/48"]);
        instances[testing::OTHER_N6.index()].hairpin = Hairpin::Local(v6.clone());
        assert_eq!(
            Network::new(instances),
            Err(NetworkError::UePrefix("ims".into(), v6[0]))
        );
    }

    #[test]
    fn tunnels_lead_to_us_within_their_address_space() {
        let network = testing::network();
        let owner = |vrf, to: &str| network.tunnel_to_ourselves(VrfId(vrf), to.parse().expect("an address"));
        assert_eq!(owner(0, "10.0.9.1"), Some(testing::N9));
        assert_eq!(owner(0, "2001:db8:3::1"), Some(testing::N3));
        assert_eq!(
            (owner(0, "10.0.6.1"), owner(1, "10.0.9.1"), owner(0, "10.0.9.2")),
            (None, None, None)
        );
    }
}
