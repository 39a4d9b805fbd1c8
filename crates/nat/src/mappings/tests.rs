//! What a table does, by clause; and, against a model, at random.

mod forwards;
mod limits;
mod model;
mod moves;
mod properties;
mod tcp;

use std::net::Ipv4Addr;
use std::time::Duration;

use flow::{Nanos, SessionIndex};

use super::table::{MOST_LOOKS, MOST_TRIED};
use super::*;
use crate::pools::{BLOCK_BITS, BlockId, Filtering, Lifetimes, MOST_BLOCKS, NatLimits, PortBlock};

const SESSION: SessionIndex = SessionIndex(1);
const OTHER: SessionIndex = SessionIndex(2);
const REMOTE: [u8; 4] = [198, 51, 100, 1];
const THIRD: [u8; 4] = [198, 51, 100, 2];

fn config() -> MappingsConfig {
    MappingsConfig {
        mappings: 64,
        sessions: 4,
        blocks: 8,
        held_blocks: 8,
        block_bits: 7,
        remotes: 256,
        lifetimes: Lifetimes::default(),
        seed: 7,
    }
}

fn policy() -> SessionPolicy {
    SessionPolicy {
        filtering: Filtering::EndpointIndependent,
        distinguishes_unsolicited: false,
        limits: NatLimits {
            blocks: 4,
            mappings: 1_000,
            mappings_per_second: 0,
        },
    }
}

fn block(number: u32, bits: u8) -> (BlockId, PortBlock) {
    let block = PortBlock {
        address: Ipv4Addr::new(203, 0, 113, 1),
        first: 1_024 + (number << bits) as u16,
        bits,
    };
    (BlockId(number), block)
}

fn inside(port: u16, protocol: Protocol) -> Inside {
    Inside {
        address: [10, 0, 0, 1],
        port,
        protocol,
    }
}

/// A table with a session that holds the blocks 0 to `blocks` - 1, of 16 ports.
fn table_of(config: &MappingsConfig, policy: SessionPolicy, blocks: u32) -> Mappings {
    let mut table = Mappings::new(config).unwrap();
    table.set_session(SESSION, policy);
    for number in 0..blocks {
        let (id, block) = block(number, 4);
        table.grant(SESSION, id, block, Nanos::ZERO).unwrap();
    }
    table
}

impl Mappings {
    /// By what a packet leaves, in the steps of a worker.
    fn leave(
        &mut self,
        session: SessionIndex,
        inside: Inside,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let expected = self.expected(session, &inside);
        self.leave_by(&expected, (session, inside), remote, segment, now)
    }

    fn expected(&self, session: SessionIndex, inside: &Inside) -> Expected {
        let mut expected = self.seek(session, inside);
        self.expect(&mut expected, session, inside);
        expected
    }

    fn leave_by(
        &mut self,
        expected: &Expected,
        (session, inside): (SessionIndex, Inside),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        match self.outbound_as_expected(expected, (session, &inside), remote, segment, now) {
            Some((public, port)) => Ok(Outbound {
                public: public.to_be_bytes(),
                port,
                wants_block: false,
            }),
            None => self.outbound(session, inside, remote, segment, now),
        }
    }

    fn udp(&mut self, port: u16, now: Nanos) -> Result<Outbound, Refusal> {
        self.leave(SESSION, inside(port, Protocol::Udp), REMOTE, Segment::Within, now)
    }

    /// Panics unless all that is counted and found in several ways is the same in each.
    fn check(&self) {
        let mut by_session = std::collections::HashMap::<u32, (u32, [u32; 3], u32)>::new();
        let mut by_block = std::collections::HashMap::<u32, [u16; 3]>::new();
        let mut remotes = 0;
        for (number, mapping) in self.records.iter() {
            let session = self.session_of(&mapping).expect("a block that is held");
            let inside = mapping.inside();
            assert_eq!(self.find_inside(session, &inside), Some(number));
            assert_eq!(self.find_public(mapping.end()), Some(number));
            let (held, block) = self.held.of_id(mapping.block()).expect("it");
            let anywhere = self.find_anywhere(self.keys.inside(session, &inside), session, &inside);
            let public = anywhere.expect("a mapping of its session").2;
            assert_eq!((block.session(), block.address), (session, public));
            let offset = block.offset(mapping.port).expect("a port of the block");
            assert!(self.held.is_mapped(held, inside.protocol, offset));
            let sums = by_session.entry(session.0).or_default();
            sums.0 += 1;
            sums.1[inside.protocol as usize] += 1;
            let own = self.remotes.of(self.records.latest(number)).count();
            assert!(own == 0 || mapping.keeps_remotes());
            sums.2 += own.saturating_sub(1) as u32;
            remotes += own;
            by_block.entry(held).or_default()[inside.protocol as usize] += 1;
        }
        assert_eq!(self.by_inside.count(), self.records.len());
        assert_eq!(self.records.iter().count(), self.records.len());
        assert_eq!(remotes, self.remotes.len());
        for (number, held) in self.held.pool.iter() {
            assert_eq!(held.used, by_block.get(&number).copied().unwrap_or_default());
            assert_eq!(self.held.number(held.id()), Some(number));
            for protocol in Protocol::ALL {
                let ports = 0..held.ports() as u16;
                let mapped = ports.filter(|port| self.held.is_mapped(number, protocol, *port));
                assert_eq!(mapped.count(), usize::from(held.used[protocol as usize]));
            }
        }
        let mut blocks = 0;
        for session in 0..self.sessions.len() as u32 {
            let owner = &self.sessions[session as usize];
            let (mappings, used, remotes) = by_session.get(&session).copied().unwrap_or_default();
            assert_eq!(
                (owner.mappings, owner.used, owner.remotes),
                (mappings, used, remotes)
            );
            let own: Vec<_> = self.blocks(SessionIndex(session)).collect();
            assert_eq!(own.len(), usize::from(owner.blocks));
            let first = self.firsts[session as usize];
            let is_first = |port: u16| {
                own.first()
                    .is_some_and(|(_, block)| block.ports().contains(&port))
            };
            let ends = own
                .iter()
                .flat_map(|(_, block)| [block.first, *block.ports().end()]);
            assert!(
                ends.chain([0, u16::MAX])
                    .all(|port| first.has(port) == is_first(port))
            );
            if let Some((id, block)) = own.first() {
                assert_eq!((first.block, first.address), (id.0, block.address.octets()));
            }
            let ports: u32 = own.iter().map(|(_, block)| 1 << block.bits).sum();
            let free = self.use_of(SessionIndex(session)).ports_free;
            assert_eq!(free, used.map(|used| ports - used));
            blocks += own.len();
        }
        assert_eq!(blocks, self.held.pool.len());
    }
}

#[test]
fn an_endpoint_has_one_public_port_whatever_it_sends_to() {
    let mut table = table_of(&config(), policy(), 1);
    let first = table.udp(5_000, Nanos::ZERO).unwrap();
    let again = table.leave(
        SESSION,
        inside(5_000, Protocol::Udp),
        THIRD,
        Segment::Within,
        Nanos::ZERO,
    );
    assert_eq!(again, Ok(first));
    assert_ne!(table.udp(5_001, Nanos::ZERO).unwrap().port, first.port);
    assert!((1_024..1_040).contains(&first.port) && first.public == [203, 0, 113, 1]);
    let got = table.inbound(
        BlockId(0),
        first.port,
        Protocol::Udp,
        THIRD,
        Segment::Within,
        Nanos::ZERO,
    );
    let expected = Inbound {
        address: [10, 0, 0, 1],
        port: 5_000,
        is_unsolicited: false,
    };
    assert_eq!(got, Ok(expected));
    let owner = table.lookup_public(BlockId(0), first.port, Protocol::Udp, Nanos::ZERO);
    assert_eq!(owner, Some((SESSION, inside(5_000, Protocol::Udp))));
    assert_eq!(table.stats().made, 2);
    table.check();
}

#[test]
fn each_protocol_has_its_own_ports_and_number() {
    let mut table = table_of(&config(), policy(), 1);
    for port in 0..16 {
        for protocol in Protocol::ALL {
            let sent = table.leave(
                SESSION,
                inside(port, protocol),
                REMOTE,
                Segment::Within,
                Nanos::ZERO,
            );
            let sent = sent.unwrap();
            let found = table.lookup_public(BlockId(0), sent.port, protocol, Nanos::ZERO);
            assert_eq!(found, Some((SESSION, inside(port, protocol))));
            let found = table.lookup_inside(SESSION, &inside(port, protocol), Nanos::ZERO);
            assert_eq!(found, Some((sent.public, sent.port)));
        }
    }
    assert_eq!(table.use_of(SESSION).ports_free, [0; 3]);
    let numbers = [6, 17, 1, 58].map(Protocol::of);
    let known = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp].map(Some);
    assert!(numbers[..3] == known && numbers[3].is_none());
    table.check();
}

#[test]
fn inbound_packets_neither_make_nor_keep_a_mapping() {
    // RFC 4787 REQ-6 a).
    let mut table = table_of(&config(), policy(), 1);
    let port = table.udp(5_000, Nanos::ZERO).unwrap().port;
    let mut receives = |port, seconds| {
        let now = Nanos::from_secs(seconds);
        table.inbound(BlockId(0), port, Protocol::Udp, REMOTE, Segment::Within, now)
    };
    assert_eq!(receives(port ^ 1, 1), Err(Unsolicited::NoMapping));
    assert!((0..=300).all(|second| receives(port, second).is_ok()));
    assert_eq!(receives(port, 301), Err(Unsolicited::NoMapping));
    let stats = table.stats();
    assert_eq!((stats.unsolicited, stats.mappings, stats.expired), (2, 1, 0));
    assert_eq!(
        table.lookup_public(BlockId(0), port, Protocol::Udp, Nanos::from_secs(301)),
        None
    );
    assert_eq!(table.udp(5_000, Nanos::from_secs(301)).unwrap().port, port);
    assert_eq!((table.stats().made, table.stats().expired), (2, 1));
    table.check();
}

#[test]
fn each_protocol_has_its_lifetime_from_the_last_packet_on() {
    let lives = |protocol, life: Duration| {
        let mut table = table_of(&config(), policy(), 1);
        let (inside, start) = (inside(5_000, protocol), Nanos::from_secs(1_000));
        let sent = Nanos::from_secs(1_030);
        for now in [start, sent] {
            table
                .leave(SESSION, inside, REMOTE, Segment::Within, now)
                .unwrap();
        }
        let is_live = |now| table.lookup_inside(SESSION, &inside, now).is_some();
        assert!(is_live(sent + life) && !is_live(sent + life + TICK * 2));
    };
    lives(Protocol::Tcp, Duration::from_secs(7_440));
    lives(Protocol::Udp, Duration::from_secs(300));
    lives(Protocol::Icmp, Duration::from_secs(60));
}

#[test]
fn dead_mappings_go_within_a_round_and_their_ports_are_free() {
    let mut table = table_of(&config(), policy(), 2);
    for port in 0..32 {
        table.udp(port, Nanos::ZERO).unwrap();
    }
    table.age(Nanos::ZERO);
    let over = Nanos::from_secs(301);
    assert_eq!(table.udp(40, over), Err(Refusal::NoPort));
    for second in 301..=301 + 65 {
        table.age(Nanos::from_secs(second));
        table.check();
    }
    assert_eq!((table.stats().mappings, table.stats().expired), (0, 32));
    assert_eq!(table.use_of(SESSION).ports_free, [32; 3]);
}

#[test]
fn one_call_takes_out_a_bounded_number() {
    let config = MappingsConfig {
        mappings: 10_000,
        held_blocks: 200,
        blocks: 200,
        ..config()
    };
    let mut table = table_of(&config, policy(), 0);
    let limits = NatLimits {
        mappings: 10_000,
        ..policy().limits
    };
    table.set_session(SESSION, SessionPolicy { limits, ..policy() });
    for number in 0..200 {
        let (id, block) = block(number, 5);
        table.grant(SESSION, id, block, Nanos::ZERO).unwrap();
    }
    for port in 0..6_400 {
        table.udp(port, Nanos::ZERO).unwrap();
    }
    // A call looks at a number of places; not in each is a mapping.
    let calls = u64::from(table.records.slots()).div_ceil(MOST_LOOKS);
    for _ in 0..calls {
        let before = table.stats().mappings as u64;
        table.age(Nanos::from_secs(400));
        assert!(before - table.stats().mappings as u64 <= MOST_LOOKS);
    }
    assert_eq!(table.stats().mappings, 0);
    table.check();
}

#[test]
fn a_table_that_was_lost_gives_the_same_ports_again() {
    let ports = |seed| {
        let mut table = table_of(&MappingsConfig { seed, ..config() }, policy(), 0);
        let (id, block) = block(0, 7);
        table.grant(SESSION, id, block, Nanos::ZERO).unwrap();
        [5_000, 5_001, 6_000].map(|port| table.udp(port, Nanos::ZERO).unwrap().port)
    };
    assert_eq!(ports(7), ports(7));
    assert_ne!(ports(7), ports(8));
}

#[test]
fn addresses_that_were_not_sent_to_are_filtered() {
    // RFC 4787 §5, address-dependent filtering.
    let filtering = SessionPolicy {
        filtering: Filtering::AddressDependent,
        ..policy()
    };
    let mut table = table_of(&config(), filtering, 1);
    let now = Nanos::ZERO;
    let port = table.udp(5_000, now).unwrap().port;
    let receives = |table: &mut Mappings, remote| {
        table.inbound(BlockId(0), port, Protocol::Udp, remote, Segment::Within, now)
    };
    assert!(receives(&mut table, REMOTE).is_ok());
    assert_eq!(receives(&mut table, THIRD), Err(Unsolicited::Filtered));
    let own = inside(5_000, Protocol::Udp);
    table.leave(SESSION, own, THIRD, Segment::Within, now).unwrap();
    assert!(receives(&mut table, REMOTE).is_ok() && receives(&mut table, THIRD).is_ok());
    assert_eq!((table.stats().remotes, table.stats().filtered), (2, 1));
    table.check();
    // What is known goes with the mapping.
    assert_eq!(table.udp(5_000, Nanos::from_secs(400)).unwrap().port, port);
    assert_eq!(receives(&mut table, THIRD), Err(Unsolicited::Filtered));
    assert_eq!(table.stats().remotes, 1);
    table.forget(SESSION);
    assert_eq!(table.stats().remotes, 0);
    table.check();
}

fn telling() -> SessionPolicy {
    SessionPolicy {
        distinguishes_unsolicited: true,
        ..policy()
    }
}

#[test]
fn what_comes_from_addresses_that_were_not_sent_to_is_told() {
    let mut table = table_of(&config(), telling(), 1);
    let now = Nanos::ZERO;
    let port = table.udp(5_000, now).unwrap().port;
    let receives = |table: &mut Mappings, remote| {
        let received = table.inbound(BlockId(0), port, Protocol::Udp, remote, Segment::Within, now);
        let received = received.unwrap();
        assert_eq!((received.address, received.port), ([10, 0, 0, 1], 5_000));
        received.is_unsolicited
    };
    assert_eq!(
        (receives(&mut table, REMOTE), receives(&mut table, THIRD)),
        (false, true)
    );
    let own = inside(5_000, Protocol::Udp);
    table.leave(SESSION, own, THIRD, Segment::Within, now).unwrap();
    assert_eq!(
        (receives(&mut table, REMOTE), receives(&mut table, THIRD)),
        (false, false)
    );
    // Another mapping has not sent to it.
    let other = table.udp(5_001, now).unwrap().port;
    let received = table.inbound(BlockId(0), other, Protocol::Udp, THIRD, Segment::Within, now);
    assert!(received.unwrap().is_unsolicited);
    assert_eq!(
        (table.stats().unsolicited_admitted, table.stats().filtered),
        (2, 0)
    );
    assert_eq!(table.stats().remotes, 3);
    table.check();
    // A mapping that took the place of one that has ended has sent to no other address.
    assert_eq!(table.udp(5_000, Nanos::from_secs(400)).unwrap().port, port);
    let late = table.inbound(
        BlockId(0),
        port,
        Protocol::Udp,
        THIRD,
        Segment::Within,
        Nanos::from_secs(400),
    );
    assert!(late.unwrap().is_unsolicited);
    let is_known = |table: &Mappings, port, remote| {
        let end = PublicEnd {
            block: BlockId(0),
            port,
            protocol: Protocol::Udp,
        };
        table.counts_as_known((end, table.public_hash(end)), remote)
    };
    assert!(is_known(&table, port, REMOTE) && !is_known(&table, port, THIRD));
    // A port forward is for all.
    assert!(table.forward(SESSION, inside(80, Protocol::Udp), (BlockId(0), 1_024), now));
    assert!(is_known(&table, 1_024, THIRD));
    let wanted = table.inbound(BlockId(0), 1_024, Protocol::Udp, THIRD, Segment::Within, now);
    assert!(!wanted.unwrap().is_unsolicited);
    table.check();
}

/// The octets of a mapping that the guide has: without addresses, with a quarter as many beside the latest of each, and
/// with as many.
#[test]
fn addresses_take_what_the_guide_says() {
    let mappings = 1 << 20;
    for (remotes, octets) in [(0, 24.0), (mappings / 4, 24.0 + 13.5), (mappings, 24.0 + 26.6)] {
        let table = Mappings::new(&MappingsConfig {
            mappings,
            remotes,
            ..config()
        });
        let of_mapping = table.unwrap().octets().0 as f64 / mappings as f64;
        assert!((of_mapping - octets).abs() < 0.1, "{remotes}: {of_mapping}");
    }
}

#[test]
fn an_unsolicited_segment_changes_nothing_of_a_connection() {
    let mut table = table_of(&config(), telling(), 1);
    let (own, now) = (inside(5_000, Protocol::Tcp), Nanos::ZERO);
    let sent = table.leave(SESSION, own, REMOTE, Segment::Opens, now);
    let end = (BlockId(0), sent.unwrap().port, Protocol::Tcp);
    let state = |table: &Mappings| table.at_public(SESSION, end, now).unwrap();
    let before = state(&table);
    for segment in [
        Segment::Accepts,
        Segment::Within,
        Segment::Resets,
        Segment::Finishes,
    ] {
        let received = table.inbound(end.0, end.1, end.2, THIRD, segment, now);
        assert!(received.unwrap().is_unsolicited);
        assert_eq!(state(&table), before);
    }
    let received = table.inbound(end.0, end.1, end.2, REMOTE, Segment::Accepts, now);
    assert!(!received.unwrap().is_unsolicited);
    assert_eq!(state(&table).state, MappingState::Answered);
}

#[test]
fn where_addresses_have_no_room_none_is_unsolicited() {
    let config = MappingsConfig {
        remotes: 3,
        ..config()
    };
    let mut table = table_of(&config, telling(), 1);
    let sends = |table: &mut Mappings, port, last| {
        let own = inside(port, Protocol::Udp);
        let sent = table.leave(SESSION, own, [198, 51, 100, last], Segment::Within, Nanos::ZERO);
        sent.unwrap().port
    };
    let is_unsolicited = |table: &mut Mappings, port, last| {
        let remote = [198, 51, 100, last];
        let end = (BlockId(0), port, Protocol::Udp);
        let received = table.inbound(end.0, end.1, end.2, remote, Segment::Within, Nanos::ZERO);
        received.unwrap().is_unsolicited
    };
    let port = sends(&mut table, 1, 0);
    (1..4).for_each(|last| assert_eq!(sends(&mut table, 1, last), port));
    assert!(!is_unsolicited(&mut table, port, 3) && is_unsolicited(&mut table, port, 9));
    // One too many: what the mapping has sent to is not known as a whole. Its room is free for others.
    assert_eq!(sends(&mut table, 1, 4), port);
    assert!((0..10).all(|last| !is_unsolicited(&mut table, port, last)));
    assert_eq!(table.stats().remotes, 0);
    let moved = table.export(SESSION, Nanos::ZERO);
    assert_eq!((moved.len(), &moved[0].remotes), (1, &None));
    let other = sends(&mut table, 2, 0);
    sends(&mut table, 2, 1);
    assert!(!is_unsolicited(&mut table, other, 0) && is_unsolicited(&mut table, other, 9));
    table.check();
    // It stays so for as long as the mapping lives, also elsewhere.
    let mut there = table_of(&config, telling(), 1);
    assert_eq!(
        there.import(SESSION, &table.export(SESSION, Nanos::ZERO), Nanos::ZERO),
        2
    );
    assert!(!is_unsolicited(&mut there, port, 9));
    assert!(!is_unsolicited(&mut there, other, 0) && is_unsolicited(&mut there, other, 9));
    table.forget(SESSION);
    assert_eq!(table.stats().remotes, 0);
    table.check();
    // Nor is any where there is no table of addresses.
    let mut without = table_of(&MappingsConfig { remotes: 0, ..config }, telling(), 1);
    let port = sends(&mut without, 1, 0);
    assert!(!is_unsolicited(&mut without, port, 9));
    without.check();
}

#[test]
fn an_address_for_which_there_is_no_room_is_refused_and_no_other_forgotten() {
    let config = MappingsConfig {
        remotes: 3,
        ..config()
    };
    let filtering = SessionPolicy {
        filtering: Filtering::AddressDependent,
        ..policy()
    };
    let mut table = table_of(&config, filtering, 1);
    let mut sends = |port, last| {
        let own = inside(port, Protocol::Udp);
        table.leave(SESSION, own, [198, 51, 100, last], Segment::Within, Nanos::ZERO)
    };
    let full = Err(Refusal::TableFull);
    // One is with its mapping, and takes no room.
    assert!((0..4).all(|last| sends(1, last).is_ok()));
    assert_eq!(sends(1, 4), full);
    assert!(sends(2, 0).is_ok());
    assert_eq!(sends(2, 1), full);
    assert!((0..4).all(|last| sends(1, last).is_ok()) && sends(2, 0).is_ok());
    assert_eq!(table.stats().refused[Refusal::TableFull as usize], 2);
    table.check();
}

#[test]
fn a_session_has_no_more_than_its_share_of_addresses() {
    let sent = |remotes, mappings: u16| {
        let config = MappingsConfig { remotes, ..config() };
        let filtering = SessionPolicy {
            filtering: Filtering::AddressDependent,
            ..policy()
        };
        let mut table = table_of(&config, filtering, 1);
        table.set_session(OTHER, filtering);
        let (id, other) = block(7, 7);
        table.grant(OTHER, id, other, Nanos::ZERO).unwrap();
        let mut sends = |session, number: u32| {
            let own = inside(number as u16 % mappings, Protocol::Udp);
            table.leave(session, own, number.to_be_bytes(), Segment::Within, Nanos::ZERO)
        };
        let sent = (0..).take_while(|number| sends(SESSION, *number).is_ok()).count();
        assert!(sends(OTHER, 0).is_ok());
        table.check();
        sent
    };
    // A sixteenth of those that are left, and 64 where few are, beside one of each mapping.
    assert_eq!((sent(2_048, 1), sent(2_048, 3)), (121, 123));
    assert_eq!(sent(100, 2), 66);
    assert_eq!(sent(1 << 18, 2) as u32, MOST_REMOTES_OF_SESSION + 2);
}

#[test]
fn what_is_forgotten_leaves_nothing() {
    let mut table = table_of(&config(), policy(), 3);
    table.set_session(OTHER, policy());
    let (id, other) = block(7, 7);
    table.grant(OTHER, id, other, Nanos::ZERO).unwrap();
    for port in 0..20 {
        table.udp(port, Nanos::ZERO).unwrap();
        let own = inside(port, Protocol::Tcp);
        table
            .leave(OTHER, own, REMOTE, Segment::Opens, Nanos::ZERO)
            .unwrap();
    }
    table.check();
    table.forget(SESSION);
    table.check();
    assert_eq!((table.stats().mappings, table.stats().blocks), (20, 1));
    assert_eq!(table.use_of(SESSION), SessionUse::default());
    assert_eq!(table.udp(1, Nanos::ZERO), Err(Refusal::NoBlock));
    assert_eq!(
        table.grant(SESSION, BlockId(0), block(0, 4).1, Nanos::ZERO),
        Err(GrantError::UnknownSession)
    );
    table.forget(OTHER);
    table.forget(OTHER);
    table.check();
    assert_eq!((table.stats().mappings, table.stats().blocks), (0, 0));
}

#[test]
fn sizes_that_cannot_be_had_are_refused() {
    let refused = |config: MappingsConfig| Mappings::new(&config).is_err();
    assert!(refused(MappingsConfig {
        mappings: usize::MAX,
        ..config()
    }));
    assert!(refused(MappingsConfig {
        blocks: MOST_BLOCKS + 1,
        ..config()
    }));
    assert!(refused(MappingsConfig {
        block_bits: 16,
        ..config()
    }));
    let none = MappingsConfig {
        mappings: 0,
        remotes: 0,
        ..config()
    };
    let mut table = table_of(&none, policy(), 1);
    assert_eq!(table.udp(1, Nanos::ZERO), Err(Refusal::TableFull));
    table.age(Nanos::from_secs(9));
    table.check();
}

/// Sessions of several address spaces may have one address, and send from one port.
#[test]
fn one_endpoint_of_many_sessions_does_not_fill_one_place_of_the_index() {
    let sessions = 512;
    let config = MappingsConfig {
        mappings: 4_096,
        sessions,
        blocks: sessions as u32,
        held_blocks: sessions,
        remotes: 0,
        ..config()
    };
    let mut table = Mappings::new(&config).unwrap();
    for number in 0..sessions as u32 {
        let (session, (id, block)) = (SessionIndex(number), block(number, 4));
        table.set_session(session, policy());
        table.grant(session, id, block, Nanos::ZERO).unwrap();
        let inside = inside(123, Protocol::Udp);
        let sent = table.leave(session, inside, REMOTE, Segment::Within, Nanos::ZERO);
        assert!(sent.is_ok(), "{sent:?}");
    }
    assert_eq!(table.by_inside.passed(), 0);
    table.check();
}
