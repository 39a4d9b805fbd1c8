//! What a packet takes that has a mapping, in either direction, and one that makes a mapping: nanoseconds, the median
//! of several rounds, on one core. Endpoints come in random order, in bursts of which each line is asked for before.
//! Each session has a block of 512 ports and maps 64 of TCP and 64 of UDP. Without prefetch: one packet behind the
//! other. Once as where unsolicited packets are as all others, once where they are distinguished; there are none.
//!
//! `cargo run --release -p nat --example mapping_rate`

use std::error::Error;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use flow::{Nanos, SessionIndex};
use nat::mappings::{
    Expected, Inside, Mappings, MappingsConfig, Protocol, PublicEnd, PublicHash, Segment, SessionPolicy,
};
use nat::pools::{BlockId, Filtering, Lifetimes, NatLimits, PortBlock};

const SIZES: [usize; 2] = [10_000, 8_388_608];
/// Mappings of a session.
const EACH: usize = 128;
/// A block has 2 to the power of this ports.
const BITS: u8 = 9;
const BURST: usize = 64;
/// Packets of a round.
const PACKETS: usize = 1 << 20;
const ROUNDS: usize = 5;
const REMOTE: [u8; 4] = [198, 51, 100, 1];

type Outcome<T> = Result<T, Box<dyn Error>>;
type Endpoint = (SessionIndex, Inside);

/// Numbers at random, the same at each start.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * end as u128) >> 64) as usize
    }
}

fn main() -> Outcome<()> {
    println!("                          octets a          new     outbound, ns            inbound, ns");
    println!("senders       mappings   mapping  more a session  ns   prefetch  without   prefetch  without");
    for size in SIZES {
        for distinguishes_unsolicited in [false, true] {
            measure(size, distinguishes_unsolicited)?;
        }
    }
    Ok(())
}

fn endpoint(number: usize) -> Endpoint {
    let (session, place) = (number / EACH, number % EACH);
    let inside = Inside {
        address: (0x0a00_0000 + session as u32).to_be_bytes(),
        port: 20_000 + (place * 37) as u16,
        protocol: if place.is_multiple_of(2) {
            Protocol::Tcp
        } else {
            Protocol::Udp
        },
    };
    (SessionIndex(session as u32), inside)
}

fn block(number: usize) -> PortBlock {
    let each = (65_536 >> BITS) - 2;
    PortBlock {
        address: Ipv4Addr::from_bits(0xcb00_0000 + (number / each) as u32),
        first: ((2 + number % each) << BITS) as u16,
        bits: BITS,
    }
}

fn table(size: usize, distinguishes_unsolicited: bool) -> Outcome<Mappings> {
    let sessions = size.div_ceil(EACH);
    let mut table = Mappings::new(&MappingsConfig {
        mappings: size,
        sessions,
        blocks: u32::try_from(sessions)?,
        held_blocks: sessions,
        block_bits: BITS,
        remotes: if distinguishes_unsolicited { size / 4 } else { 0 },
        lifetimes: Lifetimes::default(),
        seed: 20_261_127,
    })?;
    let limits = NatLimits {
        blocks: 4,
        mappings: 2_048,
        mappings_per_second: 0,
    };
    for number in 0..sessions {
        let session = SessionIndex(number as u32);
        let filtering = Filtering::EndpointIndependent;
        table.set_session(
            session,
            SessionPolicy {
                filtering,
                distinguishes_unsolicited,
                limits,
            },
        );
        table
            .grant(session, BlockId(number as u32), block(number), Nanos::ZERO)
            .map_err(|error| format!("{error:?}"))?;
    }
    Ok(table)
}

fn measure(size: usize, distinguishes_unsolicited: bool) -> Outcome<()> {
    let mut draw = Draw(20_261_127);
    let mut table = table(size, distinguishes_unsolicited)?;
    let mut all: Vec<Endpoint> = (0..size).map(endpoint).collect();
    for last in (1..size).rev() {
        all.swap(last, draw.below(last + 1));
    }
    let start = Instant::now();
    send(&mut table, &all, true, Nanos::ZERO);
    let new = start.elapsed().as_nanos() as f64 / size as f64;
    assert_eq!(table.stats().mappings, size, "{:?}", table.stats());

    let packets: Vec<Endpoint> = (0..PACKETS).map(|_| all[draw.below(size)]).collect();
    let public: Option<Vec<PublicEnd>> = packets.iter().map(|packet| public(&table, packet)).collect();
    let public = public.ok_or("an endpoint without mapping")?;
    let mut times = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        let now = Nanos::from_secs(1 + round as u64);
        for (kind, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            match kind {
                0 | 1 => send(&mut table, &packets, kind == 0, now),
                _ => receive(&mut table, &public, kind == 2, now),
            }
            times.push(start.elapsed().as_nanos() as f64 / PACKETS as f64);
        }
    }
    let [sent, sent_alone, received, received_alone] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    let (octets, rest) = table.octets();
    let (each, more) = (octets as f64 / size as f64, rest / size.div_ceil(EACH));
    let senders = if distinguishes_unsolicited {
        "distinguished"
    } else {
        "anyone"
    };
    println!(
        "{senders:<13}{size:>9}  {each:>8.1}  {more:>14} {new:>5.1}  {sent:>8.1} {sent_alone:>8.1}  \
         {received:>8.1} {received_alone:>8.1}"
    );
    Ok(())
}

fn public(table: &Mappings, (session, inside): &Endpoint) -> Option<PublicEnd> {
    let (_, port) = table.lookup_inside(*session, inside, Nanos::ZERO)?;
    Some(PublicEnd {
        block: BlockId(session.0),
        port,
        protocol: inside.protocol,
    })
}

fn send(table: &mut Mappings, packets: &[Endpoint], prefetches: bool, now: Nanos) {
    for burst in packets.chunks(BURST) {
        if !prefetches {
            for (session, inside) in burst {
                let sent = table.outbound(*session, *inside, REMOTE, Segment::Within, now);
                assert!(black_box(sent).is_ok());
            }
            continue;
        }
        let mut all = [Expected::default(); BURST];
        for (expected, (session, inside)) in all.iter_mut().zip(burst) {
            *expected = table.seek(*session, inside);
        }
        for (expected, (session, _)) in all.iter().zip(burst) {
            table.prefetch_index(*session, expected);
        }
        for (expected, (session, inside)) in all.iter_mut().zip(burst) {
            table.expect(expected, *session, inside);
        }
        for (expected, (session, _)) in all.iter().zip(burst) {
            table.prefetch_outbound(*session, expected);
        }
        for (expected, (session, inside)) in all.iter().zip(burst) {
            let sent = table.outbound_as_expected(expected, (*session, inside), REMOTE, Segment::Within, now);
            let is_sent = black_box(sent).is_some()
                || table
                    .outbound(*session, *inside, REMOTE, Segment::Within, now)
                    .is_ok();
            assert!(is_sent);
        }
    }
}

fn receive(table: &mut Mappings, packets: &[PublicEnd], prefetches: bool, now: Nanos) {
    for burst in packets.chunks(BURST) {
        if !prefetches {
            for end in burst {
                let received = table.inbound(end.block, end.port, end.protocol, REMOTE, Segment::Within, now);
                assert!(black_box(received).is_ok());
            }
            continue;
        }
        let mut hashes = [PublicHash::default(); BURST];
        for (hash, end) in hashes.iter_mut().zip(burst) {
            *hash = table.public_hash(*end);
        }
        hashes[..burst.len()]
            .iter()
            .for_each(|hash| table.prefetch_inbound(*hash));
        for (hash, public) in hashes.iter().zip(burst) {
            let received = table.inbound_by(*hash, *public, REMOTE, Segment::Within, now);
            assert!(black_box(received).is_ok());
        }
    }
}
