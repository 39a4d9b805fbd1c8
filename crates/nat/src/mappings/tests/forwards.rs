//! Port forwards.

use super::*;

const LONG: Nanos = Nanos::from_secs(10_000_000);

fn forwarded(config: &MappingsConfig, policy: SessionPolicy) -> Mappings {
    let mut table = table_of(config, policy, 2);
    assert!(table.forward(
        SESSION,
        inside(80, Protocol::Tcp),
        (BlockId(1), 1_044),
        Nanos::ZERO
    ));
    table.check();
    table
}

fn from(table: &mut Mappings, remote: [u8; 4], segment: Segment, now: Nanos) -> Option<(SessionIndex, u16)> {
    let end = (BlockId(1), 1_044, Protocol::Tcp);
    let found = table.inbound(end.0, end.1, end.2, remote, segment, now);
    let owner = table.lookup_public(end.0, end.1, end.2, now);
    let same = owner.map(|(_, inside)| (inside.address, inside.port));
    assert_eq!(found.ok().map(|found| (found.address, found.port)), same);
    owner.map(|(session, inside)| (session, inside.port))
}

#[test]
fn a_forward_has_no_end_and_lets_anyone_in() {
    let filtering = SessionPolicy {
        filtering: Filtering::AddressDependent,
        ..policy()
    };
    let mut table = forwarded(&config(), filtering);
    let own = Some((SESSION, 80));
    assert_eq!(from(&mut table, REMOTE, Segment::Opens, Nanos::ZERO), own);
    for segment in [Segment::Accepts, Segment::Finishes, Segment::Resets] {
        let sent = table.leave(SESSION, inside(80, Protocol::Tcp), REMOTE, segment, Nanos::ZERO);
        assert_eq!(sent.map(|sent| sent.port), Ok(1_044));
        assert_eq!(from(&mut table, THIRD, segment, Nanos::ZERO), own);
    }
    for second in 0..100 {
        table.age(LONG + Duration::from_secs(second));
    }
    assert_eq!(from(&mut table, THIRD, Segment::Opens, LONG), own);
    assert_eq!(
        table
            .next_idle_block(LONG, Duration::from_secs(1))
            .map(|(_, id)| id),
        Some(BlockId(0))
    );
    assert_eq!(table.next_idle_block(LONG, Duration::from_secs(1)), None);
    let shown: Vec<_> = table
        .live(SESSION, LONG)
        .map(|mapping| mapping.remaining)
        .collect();
    assert_eq!(shown, [Duration::MAX]);
    assert_eq!(table.export(SESSION, LONG), []);
    table.check();
    table.forget(SESSION);
    assert_eq!(from(&mut table, THIRD, Segment::Opens, LONG), None);
    table.check();
}

#[test]
fn a_forward_takes_the_place_of_what_had_its_ports() {
    let mut table = table_of(&config(), policy(), 1);
    // All 16 ports of the block, and the endpoint has one.
    let ports: Vec<u16> = (80..96)
        .map(|port| table.udp(port, Nanos::ZERO).unwrap().port)
        .collect();
    let wanted = *ports.iter().find(|port| **port != ports[0]).unwrap();
    let end = (BlockId(0), wanted);
    for _ in 0..2 {
        assert!(table.forward(SESSION, inside(80, Protocol::Udp), end, Nanos::ZERO));
        table.check();
    }
    assert_eq!(table.udp(80, Nanos::ZERO).unwrap().port, wanted);
    assert_eq!(table.stats().mappings, 15);
    // Neither of a block that the session does not hold, nor of a port that the block does not have.
    for end in [(BlockId(1), 1_044), (BlockId(0), 1_044)] {
        assert!(!table.forward(SESSION, inside(81, Protocol::Udp), end, Nanos::ZERO));
    }
    assert!(!table.forward(OTHER, inside(81, Protocol::Udp), (BlockId(0), 1_025), Nanos::ZERO));
    table.check();
}

#[test]
fn there_is_room_for_forwards_in_a_full_table() {
    let small = MappingsConfig {
        mappings: 3,
        ..config()
    };
    let mut table = table_of(&small, policy(), 2);
    table.keep_room(1);
    let made = (0..5).map(|port| table.udp(port, Nanos::ZERO));
    assert_eq!(made.filter(Result::is_ok).count(), 2);
    for _ in 0..2 {
        let end = (BlockId(1), 1_044);
        assert!(table.forward(SESSION, inside(80, Protocol::Tcp), end, Nanos::ZERO));
        table.check();
        assert_eq!(table.udp(9, Nanos::ZERO), Err(Refusal::TableFull));
        table.forget(SESSION);
        table.set_session(SESSION, policy());
        for number in 0..2 {
            let (id, block) = block(number, 4);
            table.grant(SESSION, id, block, Nanos::ZERO).unwrap();
        }
        let made = (0..5).map(|port| table.udp(port, Nanos::ZERO));
        assert_eq!(
            made.filter(Result::is_ok).count(),
            2,
            "room is kept for the next session"
        );
    }
}
