//! Frames from hell: nothing that comes in by a port may panic or go unaccounted.

use crate::common;

use packet::Teid;
use proptest::prelude::*;
use rules::model::OuterHeaderCreation;
use rules::testing::{GNB, any_sent, pdu_session};

use common::{World, frame};

fn world() -> World {
    let mut world = World::new();
    world.install(
        1,
        pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB)),
    );
    world.install(2, pdu_session_elsewhere());
    world
}

/// A session of another UE, in the tunnel of which generated packets come too.
fn pdu_session_elsewhere() -> rules::SessionRules {
    let mut rules = pdu_session(0x1002, OuterHeaderCreation::gtpu_ipv4(Teid(78), GNB));
    rules.remove_pdr(rules::model::PdrId(2)).expect("it is there");
    rules
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_and_truncated_frames_are_accounted(
        frames in prop::collection::vec(
            (any_sent(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), any::<prop::sample::Index>(), prop::bool::weighted(0.3)),
            1..60,
        ),
    ) {
        let mut world = world();
        for (sent, mutations, cut, truncated) in &frames {
            let mut frame = frame(sent.ingress.0, &sent.bytes);
            for (at, octet) in mutations {
                let at = at.index(frame.len());
                frame[at] = *octet;
            }
            if *truncated {
                frame.truncate(cut.index(frame.len() + 1));
            }
            world.send_frame(0, sent.ingress.0, &frame);
        }
        world.assert_conserved();
    }

    #[test]
    fn random_octets_are_accounted(
        frames in prop::collection::vec((0u16..4, prop::collection::vec(any::<u8>(), 0..200), any::<bool>()), 1..60),
    ) {
        let mut world = world();
        for (port, octets, headed) in &frames {
            let octets = if *headed { frame(*port, octets) } else { octets.clone() };
            world.send_frame(0, *port, &octets);
        }
        world.assert_conserved();
    }
}
