//! What sessions may have, and their blocks.

use super::*;

fn limited(change: impl FnOnce(&mut NatLimits)) -> SessionPolicy {
    let mut policy = policy();
    change(&mut policy.limits);
    policy
}

#[test]
fn all_ports_of_all_blocks_are_used_in_the_order_of_the_blocks() {
    let mut table = table_of(&config(), policy(), 3);
    let mut seen = Vec::new();
    for port in 0..48 {
        seen.push(table.udp(port, Nanos::ZERO).unwrap().port);
    }
    for (number, ports) in seen.chunks_mut(16).enumerate() {
        ports.sort_unstable();
        assert!(ports.iter().copied().eq(block(number as u32, 4).1.ports()));
    }
    assert_eq!(table.udp(48, Nanos::ZERO), Err(Refusal::NoPort));
    assert_eq!(table.stats().refused[Refusal::NoPort as usize], 1);
    table.check();
}

#[test]
fn a_session_has_no_more_mappings_than_it_may() {
    let mut table = table_of(&config(), limited(|limits| limits.mappings = 5), 1);
    assert!((0..5).all(|port| table.udp(port, Nanos::ZERO).is_ok()));
    assert_eq!(table.udp(5, Nanos::ZERO), Err(Refusal::TooManyMappings));
    assert!(table.udp(4, Nanos::ZERO).is_ok());
}

#[test]
fn a_session_makes_mappings_no_faster_than_it_may() {
    let mut table = table_of(&config(), limited(|limits| limits.mappings_per_second = 10), 2);
    let made = |table: &mut Mappings, from, millis| {
        let ports = from..from + 16;
        ports
            .filter(|port| table.udp(*port, Nanos::from_millis(millis)).is_ok())
            .count()
    };
    assert_eq!(made(&mut table, 0, 1_000), 10);
    assert_eq!(table.udp(99, Nanos::from_millis(1_000)), Err(Refusal::TooFast));
    assert_eq!(made(&mut table, 100, 1_500), 5);
}

#[test]
fn a_full_table_refuses() {
    let config = MappingsConfig {
        mappings: 3,
        ..config()
    };
    let mut table = table_of(&config, policy(), 1);
    assert!((0..3).all(|port| table.udp(port, Nanos::ZERO).is_ok()));
    assert_eq!(table.udp(3, Nanos::ZERO), Err(Refusal::TableFull));
    table.check();
}

#[test]
fn a_session_that_moves_away_keeps_what_it_has_and_gets_no_more() {
    let mut table = table_of(&config(), policy(), 2);
    table.udp(1, Nanos::ZERO).unwrap();
    table.may_map(SESSION, false);
    assert!(table.udp(1, Nanos::ZERO).is_ok());
    assert_eq!(table.udp(2, Nanos::ZERO), Err(Refusal::Moving));
    let later = Nanos::from_secs(100_000);
    assert!(!table.takes_request(SESSION, later));
    assert_eq!(table.next_idle_block(later, Duration::from_secs(1)), None);
    table.may_map(SESSION, true);
    assert!(table.udp(2, Nanos::ZERO).is_ok());
}

#[test]
fn a_block_is_asked_for_once_a_second_when_few_ports_are_free() {
    let mut table = table_of(&config(), limited(|limits| limits.blocks = 3), 2);
    let wants: Vec<u16> = (0..32)
        .filter(|port| {
            table
                .udp(*port, Nanos::from_millis(u64::from(*port) * 300))
                .unwrap()
                .wants_block
        })
        .collect();
    // With the 29th mapping 3 of 32 are free.
    assert_eq!(wants, [28]);
    assert_eq!(table.udp(32, Nanos::from_millis(9_399)), Err(Refusal::NoPort));
    assert!(!table.takes_request(SESSION, Nanos::from_millis(9_399)));
    assert!(table.takes_request(SESSION, Nanos::from_millis(9_400)));
    assert!(!table.takes_request(SESSION, Nanos::from_millis(10_399)));
    let (id, other) = block(2, 4);
    table.grant(SESSION, id, other, Nanos::ZERO).unwrap();
    assert!(!table.takes_request(SESSION, Nanos::from_secs(99)));
    assert!(!table.takes_request(OTHER, Nanos::from_secs(99)));
}

#[test]
fn a_session_without_block_can_ask_for_one() {
    let mut table = table_of(&config(), policy(), 0);
    assert_eq!(table.udp(1, Nanos::ZERO), Err(Refusal::NoBlock));
    assert!(table.takes_request(SESSION, Nanos::ZERO));
    assert!(!table.takes_request(SESSION, Nanos::from_millis(999)));
    assert!(table.takes_request(SESSION, Nanos::from_secs(1)));
}

#[test]
fn a_block_is_one_sessions_and_granted_once() {
    let mut table = table_of(&config(), policy(), 1);
    table.set_session(OTHER, policy());
    let (id, own) = block(0, 4);
    let mut grant = |session, id, block| table.grant(session, id, block, Nanos::ZERO);
    assert_eq!(grant(SESSION, id, own), Ok(()));
    assert_eq!(grant(OTHER, id, own), Err(GrantError::Held(SESSION)));
    assert_eq!(grant(SESSION, id, block(1, 4).1), Err(GrantError::Differs));
    assert_eq!(grant(SESSION, BlockId(8), own), Err(GrantError::UnknownBlock));
    for bits in [3, 8] {
        let block = PortBlock { bits, ..own };
        assert_eq!(grant(SESSION, BlockId(1), block), Err(GrantError::UnknownBlock));
    }
    let unknown = SessionIndex(3);
    assert_eq!(grant(unknown, id, own), Err(GrantError::UnknownSession));
    assert_eq!(table.use_of(SESSION).blocks, 1);
    table.check();
}

#[test]
fn a_session_holds_no_more_blocks_than_can_be_counted() {
    let config = MappingsConfig {
        blocks: 300,
        held_blocks: 257,
        ..config()
    };
    let mut table = table_of(&config, policy(), 255);
    let grant = |table: &mut Mappings, session, number| {
        let (id, block) = block(number, 4);
        table.grant(session, id, block, Nanos::ZERO)
    };
    assert_eq!(grant(&mut table, SESSION, 255), Err(GrantError::TooManyBlocks));
    table.set_session(OTHER, policy());
    assert!((255..257).all(|number| grant(&mut table, OTHER, number).is_ok()));
    assert_eq!(grant(&mut table, OTHER, 257), Err(GrantError::TableFull));
    table.check();
}

#[test]
fn idle_blocks_are_returned_but_for_the_last_one() {
    let mut table = table_of(&config(), policy(), 3);
    table.set_session(OTHER, policy());
    let idle = Duration::from_secs(600);
    // 17 ports: the last one is of the second block. The third block has none.
    (0..17).for_each(|port| assert!(table.udp(port, Nanos::ZERO).is_ok()));
    assert_eq!(table.next_idle_block(Nanos::from_secs(599), idle), None);
    let later = Nanos::from_secs(601);
    assert_eq!(table.next_idle_block(later, idle), Some((SESSION, BlockId(2))));
    table.check();
    assert_eq!(table.next_idle_block(later, idle), None);
    (0..70).for_each(|second| table.age(Nanos::from_secs(601 + second)));
    assert_eq!(table.stats().mappings, 0);
    assert_eq!(table.next_idle_block(Nanos::from_secs(700), idle), None);
    let returned = table.next_idle_block(Nanos::from_secs(1_400), idle);
    assert!(returned.is_some());
    assert_eq!(table.next_idle_block(Nanos::from_secs(9_999), idle), None);
    assert_eq!((table.use_of(SESSION).blocks, table.stats().blocks), (1, 1));
    table.check();
    // What was returned can be another session's.
    let id = returned.unwrap().1;
    table.grant(OTHER, id, block(id.0, 4).1, Nanos::ZERO).unwrap();
    assert!(table.udp(1, Nanos::from_secs(9_999)).is_ok());
    table.check();
}

#[test]
fn blocks_of_every_size_have_all_their_ports() {
    for bits in BLOCK_BITS {
        let config = MappingsConfig {
            mappings: 1 << bits,
            block_bits: 15,
            ..config()
        };
        let mut table = table_of(&config, limited(|limits| limits.mappings = 1 << 16), 0);
        let block = PortBlock {
            address: Ipv4Addr::new(203, 0, 113, 1),
            first: ((1_u32 << 16) - (1 << bits)) as u16,
            bits,
        };
        table.grant(SESSION, BlockId(0), block, Nanos::ZERO).unwrap();
        assert!((0..1 << bits).all(|port| table.udp(port, Nanos::ZERO).is_ok()));
        assert_eq!(table.udp(1 << bits, Nanos::ZERO), Err(Refusal::NoPort));
        table.check();
        table.forget(SESSION);
        table.check();
    }
}

#[test]
fn blocks_of_two_addresses_with_the_same_ports_are_told_apart() {
    let mut table = table_of(&config(), policy(), 0);
    for (number, last) in [(0, 1), (1, 2), (2, 1)] {
        let (id, own) = block(number, 4);
        let ports = block(number % 2, 4).1;
        let address = Ipv4Addr::new(203, 0, 113, last);
        // Blocks 0 and 1 have other ports of other addresses; block 2 has those of block 0 at the address of block 1.
        let (first, address) = match number {
            2 => (ports.first, Ipv4Addr::new(203, 0, 113, 2)),
            _ => (own.first, address),
        };
        let block = PortBlock {
            address,
            first,
            ..own
        };
        table.grant(SESSION, id, block, Nanos::ZERO).unwrap();
    }
    let mut ends = std::collections::HashSet::new();
    for _ in 0..2 {
        for port in 0..48 {
            let sent = table.udp(port, Nanos::ZERO).unwrap();
            ends.insert((sent.public, sent.port));
        }
        // Each has its own, and has it again.
        assert_eq!(ends.len(), 48);
        table.check();
    }
    assert_eq!(table.udp(48, Nanos::ZERO), Err(Refusal::NoPort));
}

#[test]
fn nearly_all_mappings_of_a_full_table_are_in_their_home_lines() {
    let config = MappingsConfig {
        mappings: 8_192,
        sessions: 128,
        blocks: 128,
        held_blocks: 128,
        ..config()
    };
    let mut table = Mappings::new(&config).unwrap();
    for number in 0..128 {
        let session = SessionIndex(number);
        table.set_session(session, policy());
        let block = PortBlock {
            address: Ipv4Addr::from_bits(0xcb00_7100 + number),
            first: 1_024,
            bits: 7,
        };
        table.grant(session, BlockId(number), block, Nanos::ZERO).unwrap();
    }
    for port in 0..64 {
        for number in 0..128 {
            let inside = Inside {
                address: [10, 0, 0, number],
                ..inside(port, Protocol::Udp)
            };
            let session = SessionIndex(number.into());
            let sent = table.leave(session, inside, REMOTE, Segment::Within, Nanos::ZERO);
            assert!(sent.is_ok());
        }
    }
    assert_eq!(table.stats().mappings, 8_192);
    let away = table.records.iter().filter(|(number, mapping)| {
        let home = table.records.home(table.keys.public(mapping.end()));
        home != *number as usize / 4
    });
    assert!(away.count() < 8_192 / 50);
    table.check();
}
