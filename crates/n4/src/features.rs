//! The UP Function Features that peers receive (TS 29.244 §8.2.25): exactly what is implemented.

use pfcp::ie::{BbfUpFunctionFeatures, CpFunctionFeatures, UpFunctionFeatures as Features};
use pfcp::{Interface, Interfaces};

use rules::network::Network;

use crate::config::Config;

/// What is done here whatever the configuration: F-TEIDs are allocated (FTUP) and End Markers sent (EMPU), both
/// mandatory on N4; packets are buffered, for as long and as many as BARs say (DDND, DLBD, UDBC), and what becomes of
/// them is reported (DDDS); Traffic Endpoints are known (PDIU), framed routes followed (FRRT), IPv6 prefixes of any
/// length and several UE addresses taken (IP6PL); sessions of a set go to another control plane (RESPS); several
/// messages go in one datagram (BUNDL); associations end with the last usage of their sessions reported (EPFAR);
/// packets are reported beside octets (MNOP), quotas lose their validity (VTIME); applications are known by the flow
/// descriptions of PFDs (PFDM, PFDE); what a used-up quota stops may go another way (QUOAC), or its own if it is exempt
/// (QUASF); charging is paused, and nodes upstream are notified of it (NSPOC); HTTP is redirected to URLs (TREU);
/// packets go to the CP function to wait there, and come back (BUCP); packets are marked for L4S on behalf of the RAN
/// (EML4S).
const ALWAYS: [Features; 22] = [
    Features::BUCP,
    Features::FTUP,
    Features::EMPU,
    Features::DDND,
    Features::DLBD,
    Features::UDBC,
    Features::DDDS,
    Features::PDIU,
    Features::FRRT,
    Features::IP6PL,
    Features::RESPS,
    Features::BUNDL,
    Features::EPFAR,
    Features::MNOP,
    Features::VTIME,
    Features::QUOAC,
    Features::QUASF,
    Features::NSPOC,
    Features::PFDM,
    Features::PFDE,
    Features::TREU,
    Features::EML4S,
];

/// UP Function Features, on eight octets; UE addresses are allocated where there are pools (UEIP), traffic is steered
/// where there are forwarding policies (TRST), predefined PDRs activated where there are rulebases (ADPDP). Sets of
/// SMFs control sessions in turn (SSET, MPAS): to say so calls for UEIP (TS 29.244 §5.22.2 item 8, §5.22.3 item 9).
/// Packets are counted against the packet rates of a session (CIOT). A peer receives the features of the reference
/// points that it uses. PFDs are accepted partially for peers that take that (PAPFD); others do not receive the bit: it
/// makes the IE longer than some have room for.
pub(crate) fn up_function_features(
    config: &Config,
    network: &Network,
    on: Interfaces,
    peer: CpFunctionFeatures,
) -> Features {
    let of = |feature, is_there| if is_there { feature } else { Features::empty() };
    let by_pools = Features::UEIP | Features::SSET | Features::MPAS;
    let pools = of(by_pools, !config.sessions.pools.is_empty());
    let policies = of(Features::TRST, network.has_policies());
    let has_rulebases = config.sessions.predefined.rulebases().next().is_some();
    let rulebases = of(Features::ADPDP, has_rulebases);
    // On Sxb packet rates are those of all PDN connections to an APN (§5.4.15.3), which are not kept together here.
    let packet_rates = of(Features::CIOT, on.has(Interface::N4));
    let partial_pfds = of(Features::PAPFD, peer.contains(CpFunctionFeatures::PAPFD));
    let all = ALWAYS.into_iter().fold(
        pools | policies | rulebases | packet_rates | partial_pfds,
        |all, one| all | one,
    );
    let all = Features::from_bits(all.bits() & of_interfaces(on));
    // Octets come in pairs from the eleventh on (figure 8.2.25-1).
    all.on_octets(if all.octets() > 8 { 12 } else { 8 })
}

/// What the Broadband Forum's part of it is (TR-459.2), where there are pools of public addresses.
pub(crate) fn bbf_up_function_features(network: &Network) -> Option<BbfUpFunctionFeatures> {
    (!network.nat().is_empty()).then_some(BbfUpFunctionFeatures::NAT_UP)
}

/// The features that are of one of these reference points (the table of §8.2.25, column "Interface"), as bits.
fn of_interfaces(on: Interfaces) -> u128 {
    let not_of_n4 = bits(&[Features::DDND, Features::MT_EDT]);
    let of_sxa = bits(&[
        Features::BUCP,
        Features::DDND,
        Features::DLBD,
        Features::FTUP,
        Features::EMPU,
        Features::PDIU,
        Features::TRACE,
        Features::EPFAR,
        Features::ADPDP,
        Features::MNOP,
        Features::BUNDL,
        Features::NORP,
        Features::MT_EDT,
        Features::NSPOC,
    ]);
    let of_sxb = bits(&[
        Features::TRST,
        Features::FTUP,
        Features::PFDM,
        Features::HEEU,
        Features::TREU,
        Features::EMPU,
        Features::PDIU,
        Features::UDBC,
        Features::QUOAC,
        Features::TRACE,
        Features::FRRT,
        Features::PFDE,
        Features::EPFAR,
        Features::DPDRA,
        Features::ADPDP,
        Features::UEIP,
        Features::MNOP,
        Features::BUNDL,
        Features::VTIME,
        Features::NORP,
        Features::CIOT,
        Features::RDS,
        Features::QUASF,
        Features::NSPOC,
        Features::L2TP,
        Features::RESPS,
        Features::RATP,
        Features::PAPFD,
    ]);
    let places = [
        (Interface::N4, !not_of_n4),
        (Interface::Sxa, of_sxa),
        (Interface::Sxb, of_sxb),
    ];
    let there = places.into_iter().filter(|(interface, _)| on.has(*interface));
    there.fold(0, |all, (_, features)| all | features)
}

fn bits(features: &[Features]) -> u128 {
    features.iter().fold(0, |all, one| all | one.bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeName;
    use rules::network::ForwardingPolicy;

    #[test]
    fn a_peer_gets_the_features_of_its_interface() {
        let config = Config::new(NodeName::from(std::net::IpAddr::from([192, 0, 2, 1])), 1);
        let network = Network::default();
        let none = CpFunctionFeatures::empty();
        let told = |on| up_function_features(&config, &network, on, none);
        let has = |on, feature| told(on).contains(feature);
        for (feature, on_n4, on_sxa, on_sxb) in [
            (Features::FTUP, true, true, true),
            (Features::DDND, false, true, false),
            (Features::DLBD, true, true, false),
            (Features::TREU, true, false, true),
            (Features::DDDS, true, false, false),
            (Features::CIOT, true, false, false),
            (Features::NSPOC, true, true, true),
            (Features::EML4S, true, false, false),
        ] {
            assert_eq!(has(Interfaces::N4, feature), on_n4, "{feature:?}");
            assert_eq!(has(Interfaces::SXA, feature), on_sxa, "{feature:?}");
            assert_eq!(has(Interfaces::SXB, feature), on_sxb, "{feature:?}");
            assert_eq!(has(Interfaces::SXA_SXB, feature), on_sxa || on_sxb, "{feature:?}");
            assert!(has(Interfaces::ANY, feature), "{feature:?}");
        }
    }

    #[test]
    fn nothing_is_promised_that_is_not_done() {
        let node = NodeName::from(std::net::IpAddr::from([192, 0, 2, 1]));
        let mut config = Config::new(node, 1);
        let steering = ForwardingPolicy {
            name: "gold".into(),
            instance: None,
            next_hop: None,
            dscp: None,
            nat: None,
        };
        let network = Network::default();
        let none = CpFunctionFeatures::empty();
        let of = |config: &Config, network: &Network, peer| {
            up_function_features(config, network, Interfaces::ANY, peer)
        };
        let bits = |config: &Config| of(config, &network, none).bits();
        let always = bits(&config);
        let downlink = Features::DDND | Features::DLBD | Features::UDBC | Features::DDDS;
        let sessions = Features::PDIU | Features::FRRT | Features::IP6PL;
        let node = Features::RESPS | Features::BUNDL | Features::EPFAR | Features::PFDM | Features::PFDE;
        let mandatory = Features::FTUP | Features::EMPU;
        let usage = Features::MNOP | Features::VTIME | Features::CIOT | Features::TREU | Features::BUCP;
        let quotas = Features::QUOAC | Features::QUASF | Features::NSPOC;
        let all = mandatory | downlink | sessions | node | usage | quotas | Features::EML4S;
        assert_eq!(always, all.bits());
        config.sessions.pools.push(session::Pool {
            name: "a".into(),
            instance: flow::InstanceId(0),
            ranges: Vec::new(),
        });
        let by_pools = Features::UEIP | Features::SSET | Features::MPAS;
        assert_eq!(bits(&config), always | by_pools.bits());
        let partial = of(&config, &network, CpFunctionFeatures::PAPFD);
        assert_eq!(partial.bits(), bits(&config) | Features::PAPFD.bits());
        assert_eq!((partial.octets(), of(&config, &network, none).octets()), (12, 8));
        let on_sxa = up_function_features(&config, &network, Interfaces::SXA, CpFunctionFeatures::PAPFD);
        assert!(!on_sxa.contains(Features::PAPFD) && on_sxa.octets() == 8);
        let steers = Network::default().with_policies(vec![steering]).unwrap();
        let steers = of(&config, &steers, none).bits();
        assert_eq!(steers, bits(&config) | Features::TRST.bits());
        let mut predefined = rules::Predefined::default();
        let rule = rules::model::PredefinedRule {
            precedence: rules::model::Precedence(1),
            filters: Vec::new(),
            detection: Default::default(),
            far: None,
            qers: Vec::new(),
            urrs: Vec::new(),
            content: None,
        };
        predefined.add(b"all", vec![rule]).unwrap();
        config.sessions.predefined = predefined.into();
        assert_eq!(bits(&config), always | (by_pools | Features::ADPDP).bits());
    }
}
