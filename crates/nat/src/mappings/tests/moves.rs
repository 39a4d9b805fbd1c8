//! Sessions that move to another worker.

use super::*;

#[test]
fn a_session_has_the_same_mappings_at_its_new_worker() {
    let filtering = SessionPolicy {
        filtering: Filtering::AddressDependent,
        ..policy()
    };
    let mut from = table_of(&config(), filtering, 2);
    let now = Nanos::from_secs(50);
    for (port, segment) in [
        (1, Segment::Opens),
        (2, Segment::Within),
        (3, Segment::Resets),
        (4, Segment::Finishes),
    ] {
        for remote in [REMOTE, THIRD] {
            from.leave(SESSION, inside(port, Protocol::Tcp), remote, segment, now)
                .unwrap();
        }
    }
    from.udp(9, Nanos::ZERO).unwrap();
    let then = Nanos::from_secs(200);
    let moved = from.export(SESSION, then);
    for mapping in &moved {
        let end = (mapping.block, mapping.port, mapping.inside.protocol);
        assert_eq!(from.at_public(SESSION, end, then).as_ref(), Some(mapping));
        assert_eq!(from.at_public(OTHER, end, then), None);
    }
    let mut to = table_of(&config(), filtering, 2);
    assert_eq!(to.import(SESSION, &moved, then), 5);
    to.check();
    assert_eq!(to.export(SESSION, then), moved);
    assert_eq!(to.import(SESSION, &moved, then), 0);
    assert_eq!((to.stats().imported, to.stats().made), (5, 0));
    // Dead ones stay behind.
    assert_eq!(from.export(SESSION, Nanos::from_secs(301)).len(), 1);
}

#[test]
fn what_there_is_no_place_for_is_left_out() {
    let mut from = table_of(&config(), policy(), 2);
    (0..20).for_each(|port| assert!(from.udp(port, Nanos::ZERO).is_ok()));
    let moved = from.export(SESSION, Nanos::ZERO);
    let mut one_block = table_of(&config(), policy(), 1);
    assert_eq!(one_block.import(SESSION, &moved, Nanos::ZERO), 16);
    one_block.check();
    let small = MappingsConfig {
        mappings: 7,
        ..config()
    };
    let mut small = table_of(&small, policy(), 2);
    assert_eq!(small.import(SESSION, &moved, Nanos::ZERO), 7);
    small.check();
    let mut others = table_of(&config(), policy(), 2);
    others.set_session(OTHER, policy());
    assert_eq!(others.import(OTHER, &moved, Nanos::ZERO), 0);
    let over = MovedMapping {
        remaining: Duration::ZERO,
        ..moved[0].clone()
    };
    assert_eq!(others.import(SESSION, &[over], Nanos::ZERO), 0);
    others.check();
}
