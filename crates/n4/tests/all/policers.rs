//! Which policers a session passes: those of the slice and the data network that its establishment names.

use crate::support;

use std::net::Ipv4Addr;
use std::sync::Arc;

use flow::meter::{Rate, SharedId};
use rules::model::SNssai;
use rules::network::{Network, Policer, SessionScope};

use support::fleet::network;
use support::wire::*;
use support::*;

/// An SMF's world where slice 1-00000a, the data network of N6 and another one have rates.
fn policed() -> (World, Arc<Network>) {
    let policer = |name: &str, slice, dnn: Option<&str>| Policer {
        name: name.into(),
        scope: SessionScope {
            slice,
            dnn: dnn.map(Into::into),
        },
        rates: [Rate::from_kbit(1), Rate::UNLIMITED],
        shapes: false,
        weight: 1,
    };
    let slice = SNssai {
        sst: 1,
        sd: [0, 0, 10],
    };
    let network = Network::clone(&network());
    let first = network.first_with(rules::network::Roles::N6).expect("an N6");
    let own = first.name.clone();
    let policers = vec![
        policer("slice", Some(slice), None),
        policer("own", None, Some(&own)),
        policer("ims", None, Some("ims.example")),
    ];
    let network = Arc::new(network.with_policers(policers).expect("they differ"));
    let mut world = World::with_network(World::config(2), Arc::clone(&network));
    world.associate();
    (world, network)
}

fn names(world: &World, network: &Network) -> Vec<String> {
    let id = world.only_session().rules().policers();
    let names = network.policers().named(id);
    names.map(|policer| policer.name.clone()).collect()
}

#[test]
fn a_session_passes_the_policers_of_its_slice_and_data_network() {
    let slice = |sd: u8| ie(257, [1, 0, 0, sd]);
    let dnn = |labels: &[u8]| ie(159, labels);
    for (more, want) in [
        (vec![], vec!["own"]),
        (vec![slice(10)], vec!["own", "slice"]),
        (vec![slice(11)], vec!["own"]),
        (vec![slice(10), dnn(b"\x03ims\x07example")], vec!["ims", "slice"]),
        (vec![dnn(b"ims.example")], vec!["ims"]),
        (vec![dnn(b"\x05other"), slice(10)], vec!["slice"]),
        (vec![dnn(b"other")], vec![]),
    ] {
        let (mut world, network) = policed();
        let mut ies = plain_session(1, Ipv4Addr::new(10, 45, 0, 9));
        ies.extend(more);
        let seid = world.ask(50, Some(0), &ies).up_seid();
        assert_eq!(names(&world, &network), want);
        // Changes of rules leave it where it is.
        let gate = group(14, &[qer_id(1), gate(1, 1)]);
        world.ask(52, Some(seid), &[gate]).assert_accepted();
        assert_eq!(names(&world, &network), want);
        if want.is_empty() {
            assert_eq!(world.only_session().rules().policers(), SharedId::NONE);
        }
    }
}

/// A session may get into another slice (TS 29.244 Table 7.5.4.1-1, NOTE 5).
#[test]
fn a_session_passes_the_policers_of_the_slice_that_it_gets_into() {
    let slice = |sd: u8| ie(257, [1, 0, 0, sd]);
    for (more, outside, inside) in [
        (vec![], vec!["own"], vec!["own", "slice"]),
        (
            vec![ie(159, b"\x03ims\x07example")],
            vec!["ims"],
            vec!["ims", "slice"],
        ),
        (vec![ie(159, b"other"), slice(11)], vec![], vec!["slice"]),
    ] {
        let (mut world, network) = policed();
        let mut ies = plain_session(1, Ipv4Addr::new(10, 45, 0, 9));
        ies.extend(more);
        let seid = world.ask(50, Some(0), &ies).up_seid();
        assert_eq!(names(&world, &network), outside);
        for (sd, want) in [(10, &inside), (11, &outside), (10, &inside)] {
            world.ask(52, Some(seid), &[slice(sd)]).assert_accepted();
            assert_eq!(&names(&world, &network), want);
            let reported = world.only_session().subscriber().and_then(|one| one.s_nssai);
            let slice = SNssai {
                sst: 1,
                sd: [0, 0, sd],
            };
            assert_eq!(reported, Some(slice), "for its records");
        }
        // A request that is refused changes nothing.
        let refused = world.ask(52, Some(seid), &[slice(11), group(16, &[far_id(77)])]);
        assert!(!refused.cause().expect("a cause").is_accepted());
        assert_eq!(names(&world, &network), inside);
        let reported = world.only_session().subscriber().and_then(|one| one.s_nssai);
        let slice = SNssai {
            sst: 1,
            sd: [0, 0, 10],
        };
        assert_eq!(reported, Some(slice));
    }
}
