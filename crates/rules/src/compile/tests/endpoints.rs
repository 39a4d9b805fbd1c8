//! Traffic Endpoints and framed routes.

use super::*;
use crate::image::SourceCheck;
use crate::model::{FramedRoutesUpdate, TrafficEndpoint, TrafficEndpointId, TrafficEndpointUpdate};

#[test]
fn an_endpoint_that_no_pdr_names_keeps_its_tunnel() {
    let mut rules = session();
    let endpoint = TrafficEndpoint {
        f_teid: Some(testing::f_teid(0x3003)),
        ..TrafficEndpoint::new(TrafficEndpointId(1))
    };
    rules.create_endpoint(endpoint.clone()).unwrap();
    let tunnels = image(&rules).tunnels;
    let teids: Vec<u32> = tunnels.iter().map(|(_, teid)| teid.0).collect();
    assert_eq!(teids, [0x1001, 0x3003]);
    assert!(
        image(&rules).is_classified_like(&image(&session()).rules, &image(&session()).classifier),
        "no flow is touched"
    );
    let foreign = TrafficEndpointUpdate {
        f_teid: Edit::Set(FTeid {
            ipv4: Some(GNB),
            ..testing::f_teid(0x3003)
        }),
        ..TrafficEndpointUpdate::new(endpoint.id)
    };
    rules.update_endpoint(foreign).unwrap();
    assert_eq!(
        refusal(&rules),
        (endpoint.id.into(), CompileFault::NotLocal(GNB.into()))
    );
}

#[test]
fn framed_routes_lead_to_the_session_and_are_its_sources() {
    let mut rules = session();
    let route: IpPrefix = "10.60.0.0/16".parse().unwrap();
    for id in [1, 2] {
        let pdi = PdiUpdate {
            framed_routes: FramedRoutesUpdate {
                ipv4: Some(vec![route]),
                ipv6: None,
            },
            ..PdiUpdate::default()
        };
        let update = PdrUpdate {
            pdi: Some(pdi),
            ..PdrUpdate::new(PdrId(id))
        };
        rules.update_pdr(update).unwrap();
    }
    let image = image(&rules);
    assert!(image.ue_addresses.iter().any(|(_, own)| *own == route));
    assert!(
        image
            .classifier
            .allows_source(SourceCheck::Ue, "10.60.7.7".parse().unwrap())
    );
    assert!(
        !image
            .classifier
            .allows_source(SourceCheck::Ue, "10.61.7.7".parse().unwrap())
    );
    let many = (0..=MAX_UE_PREFIXES as u32)
        .map(|net| IpPrefix::new(Ipv4Addr::from_bits(net << 8).into(), 24).unwrap());
    let update = PdrUpdate {
        pdi: Some(PdiUpdate {
            framed_routes: FramedRoutesUpdate {
                ipv4: Some(many.collect()),
                ipv6: None,
            },
            ..PdiUpdate::default()
        }),
        ..PdrUpdate::new(PdrId(2))
    };
    rules.update_pdr(update).unwrap();
    let max = MAX_UE_PREFIXES as u16;
    assert_eq!(refusal(&rules), (PdrId(2).into(), CompileFault::TooMany { max }));
}
