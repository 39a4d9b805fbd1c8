//! CG-NAT (T16): the same packets with NAT and without, in turn; new mappings beside new flow entries (T4); memory of
//! mappings; hand-overs of downlink packets that come by their public end.
//!
//! 131,072 sessions send by UDP from 64 ports each, and get an answer to each: 8,388,608 mappings. Half of the packets
//! go each way, in uniformly random order, of 256 octets. The pool has 1,024 addresses; each session has a block of 128
//! ports. The port reads the public ends from the packets that leave, and checks each packet that comes out.

mod arguments;
mod dealing;
mod frames;
mod lines;
mod outcome;
mod pool;
mod port;
mod side;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ::nat::mappings::{Mappings, MappingsConfig};
use ::nat::pools::{Lifetimes, NatPools};
use ::rules::network::Network;

use super::clock::{Spread, available_memory, resident};
use super::error::BenchError;
use super::progress::Progress;
use super::rules::Identity;
use super::settings::WorkerOf;
use super::world::identities;
pub use arguments::Arguments;
pub use lines::{lines, rows};
pub use outcome::{Compared, HandOvers, Kind, NatMemory, Run, Runs, SetUp, Spent, Translated};
use pool::Blocks;
use side::{Sessions, Side};
pub use target::targets;

/// The comparisons that T16 asks for.
const OF_TUNNEL: &str = "an entry for each tunnel and UE address";
const OF_TUPLE: &str = "an entry for each 5-tuple";
/// The other parts, by which they are asked for.
const MEMORY: &str = "memory of mappings";
const SET_UP: &str = "set-up of mappings";
const HAND_OVERS: &str = "hand-overs by public end";

/// The sessions of a run, with blocks of the pool.
struct Drawn {
    networks: [Arc<Network>; 2],
    identities: Arc<[Identity]>,
    blocks: Blocks,
}

impl Drawn {
    fn new(arguments: &Arguments) -> Result<Self, BenchError> {
        let networks = [pool::network(arguments, false)?, pool::network(arguments, true)?];
        let identities = identities(arguments.sessions, WorkerOf { id: 0, workers: 1 })?;
        let blocks = Blocks::draw(&networks[1], &identities)?;
        Ok(Self {
            networks,
            identities,
            blocks,
        })
    }

    fn side(&self, arguments: &Arguments, kind: Kind) -> Result<Side, BenchError> {
        let sessions = Sessions {
            network: &self.networks[usize::from(kind.has_nat)],
            identities: &self.identities,
            blocks: kind.has_nat.then_some(&self.blocks.ids),
        };
        Side::new(arguments, kind, &sessions)
    }

    /// A worker whose flows have all begun.
    fn begun(&self, arguments: &Arguments, kind: Kind) -> Result<Side, BenchError> {
        let mut side = self.side(arguments, kind)?;
        side.begin(0, arguments.all_mappings())?;
        side.measure_null(arguments.seconds);
        Ok(side)
    }
}

/// Measures it.
///
/// # Errors
/// When there is too little memory, or a packet came out otherwise than it should have.
pub fn measure(arguments: &Arguments, progress: &Progress) -> Result<Translated, BenchError> {
    check_memory(arguments)?;
    let drawn = Drawn::new(arguments)?;
    let mut results = Translated {
        sessions: arguments.sessions,
        mappings: arguments.mappings,
        pool: [pool::ADDRESSES, 1 << arguments.block_bits],
        compared: Vec::new(),
        set_up: None,
        memory: None,
        hand_overs: None,
    };
    // Memory first, before any that was given back could be used again.
    if arguments.wants(MEMORY) || arguments.wants(OF_TUNNEL) {
        progress.stage(OF_TUNNEL);
        let (compared, memory) = compare(arguments, &drawn, (OF_TUNNEL, false), progress)?;
        results.compared.push(compared);
        results.memory = Some(memory);
    }
    if arguments.wants(OF_TUPLE) {
        progress.stage(OF_TUPLE);
        let (compared, _) = compare(arguments, &drawn, (OF_TUPLE, true), progress)?;
        results.compared.push(compared);
    }
    if arguments.wants(SET_UP) {
        progress.stage(SET_UP);
        results.set_up = Some(set_up(arguments, &drawn, progress)?);
    }
    if arguments.wants(HAND_OVERS) {
        progress.stage(HAND_OVERS);
        results.hand_overs = Some(dealing::measure(arguments)?);
    }
    Ok(results)
}

/// Two workers with the largest tables have to fit.
fn check_memory(arguments: &Arguments) -> Result<(), BenchError> {
    let mappings = u64::from(arguments.all_mappings());
    let needed = 2 * (mappings * 2 * 80 + u64::from(arguments.sessions) * 4_096) + mappings * 80;
    let there = available_memory();
    if needed <= there {
        return Ok(());
    }
    Err(BenchError(format!(
        "{} sessions need {} MiB; there are {}: --sessions",
        arguments.sessions,
        needed >> 20,
        there >> 20
    )))
}

/// The same packets with NAT and without, in turn, and what the process grew by.
fn compare(
    arguments: &Arguments,
    drawn: &Drawn,
    (name, is_tuple): (&str, bool),
    progress: &Progress,
) -> Result<(Compared, NatMemory), BenchError> {
    let kind = |has_nat| Kind { has_nat, is_tuple };
    let at_first = resident();
    let mut without = drawn.begun(arguments, kind(false))?;
    let between = resident();
    let mut with = drawn.begun(arguments, kind(true))?;
    let memory = NatMemory {
        grown: [
            resident().saturating_sub(between),
            between.saturating_sub(at_first),
        ],
        mappings: arguments.all_mappings(),
        of_table: octets_of_table(arguments, drawn.networks[1].nat().pools())?,
    };
    let (mut on, mut off) = (Vec::new(), Vec::new());
    progress.begin("pairs", arguments.pairs.into());
    for pair in 0..arguments.pairs {
        progress.at(pair.into());
        if pair % 2 == 0 {
            on.push(with.run(arguments.seconds));
            off.push(without.run(arguments.seconds));
        } else {
            off.push(without.run(arguments.seconds));
            on.push(with.run(arguments.seconds));
        }
    }
    let compared = Compared {
        name: name.into(),
        kept: ratios(&off, &on),
        with: Runs::of(&on, with.null(), with.entries()),
        without: Runs::of(&off, without.null(), without.entries()),
    };
    Ok((compared, memory))
}

/// The time of one run over that of the other, in pairs.
fn ratios(one: &[Run], other: &[Run]) -> Spread {
    let pairs = one.iter().zip(other);
    Spread::of(
        pairs
            .map(|(one, other)| one.nanos / other.nanos.max(0.001))
            .collect(),
    )
}

/// Octets of the table of mappings, its indexes and the addresses that they have sent to, for each mapping.
fn octets_of_table(arguments: &Arguments, pools: &NatPools) -> Result<f64, BenchError> {
    let table = Mappings::new(&MappingsConfig {
        mappings: arguments.all_mappings() as usize,
        sessions: 1,
        blocks: 1,
        held_blocks: 1,
        block_bits: arguments.block_bits,
        remotes: pools.remotes(arguments.all_mappings() as usize),
        lifetimes: Lifetimes::default(),
        seed: 0,
    });
    let (octets, _) = table.map_err(BenchError::of)?.octets();
    Ok(octets as f64 / f64::from(arguments.all_mappings()))
}

/// First packets of UEs' ports, in empty tables: what makes a mapping, what makes a flow entry, and what makes both, in
/// turn. The first packet of each session, which is about its tunnel as well, comes before.
fn set_up(arguments: &Arguments, drawn: &Drawn, progress: &Progress) -> Result<SetUp, BenchError> {
    let kinds = [(true, false), (false, true), (true, true)];
    let mut runs = [const { Vec::new() }; 3];
    let (mut nulls, mut entries) = ([0.0; 3], [0; 3]);
    progress.begin("fills", u64::from(arguments.fills) * 3);
    for fill in 0..arguments.fills {
        for (place, (has_nat, is_tuple)) in kinds.into_iter().enumerate() {
            progress.at(u64::from(fill) * 3 + place as u64);
            let mut side = drawn.side(arguments, Kind { has_nat, is_tuple })?;
            side.fill(0, arguments.sessions)?;
            side.measure_null(arguments.seconds.min(0.5));
            runs[place].push(side.fill(arguments.sessions, arguments.all_mappings())?);
            (nulls[place], entries[place]) = (side.null(), side.entries());
        }
    }
    let [mappings, tuples, both] = &runs;
    let of = |place: usize, runs: &[Run]| Runs::of(runs, nulls[place], entries[place]);
    Ok(SetUp {
        ratio: ratios(tuples, mappings),
        mappings: of(0, mappings),
        entries: of(1, tuples),
        both: of(2, both),
    })
}
