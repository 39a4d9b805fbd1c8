//! `Workload`: a flow table, session blocks and frames, and the measured loop over them.

use core::time::Duration;
use std::time::Instant;

use super::frames::{self, Frame};
use super::{Built, Floor, ROUND, Size, Work};
use crate::meter::{MeterSpec, Offer, Rate, SharedId, SharedMeters};
use crate::residency::Mappings;
use crate::slab::{OutOfMemory, Slab};
use crate::{
    AdjacencyId, BlockImage, Blocks, Direction, FlowEntry, FlowFlags, FlowKey4, FlowTable, Forward,
    ForwardFlags, ForwardKind, Hit, InstanceId, Mark, Millisecond, Nanos, Seed, SessionIndex, Template, Tick,
    Verdict, cycles,
};

/// Packets of a burst.
const BURST: usize = 64;
/// Meters that sessions share, as slices do.
const SHARED_METERS: u16 = 8;
/// Next hops.
const LINKS: usize = 64;

/// Everything that the floors touch, made once for several measurements.
pub struct Workload {
    size: Size,
    table: FlowTable<FlowKey4>,
    blocks: Blocks,
    frames: Slab<Frame>,
    links: [[u8; 14]; LINKS],
    shared: SharedMeters,
    random: u64,
    built: Built,
}

impl Workload {
    /// A workload with all its flows inserted.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had.
    pub fn new(size: Size) -> Result<Self, OutOfMemory> {
        let size = Size {
            flows: size.flows.max(2),
            sessions: size.sessions.max(1),
        };
        let mut workload = Self {
            size,
            table: FlowTable::new(size.flows as usize, Seed([0x5eed, size.flows.into()]))?,
            blocks: Blocks::new(size.sessions as usize, BLOCK_LINES)?,
            frames: frames::pool(ROUND)?,
            links: [[2; 14]; LINKS],
            shared: shared_meters(),
            random: 0x9e37_79b9_7f4a_7c15,
            built: Built::default(),
        };
        workload.insert_all()?;
        Ok(workload)
    }

    /// What making it took.
    pub const fn built(&self) -> &Built {
        &self.built
    }

    /// Measures for `duration`, in whole rounds and at least one.
    pub fn measure(&mut self, work: Work, duration: Duration) -> Floor {
        let mut floor = Floor {
            best_round_nanos: u64::MAX,
            ..Floor::default()
        };
        while Duration::from_nanos(floor.nanos) < duration || floor.packets == 0 {
            self.fill();
            let (start, ticks) = (Instant::now(), cycles::now());
            for burst in 0..ROUND / BURST {
                self.burst(work, burst, &mut floor);
            }
            floor.cycles += cycles::now().wrapping_sub(ticks);
            let nanos = start.elapsed().as_nanos() as u64;
            floor.nanos += nanos;
            floor.best_round_nanos = floor.best_round_nanos.min(nanos);
            floor.packets += ROUND as u64;
        }
        floor
    }

    fn insert_all(&mut self) -> Result<(), OutOfMemory> {
        let out_of_memory = |_| OutOfMemory { octets: 0 };
        let mut installed = Vec::new();
        for session in 0..self.size.sessions {
            let image = image(session);
            let block = self.blocks.install(SessionIndex(session), &image);
            installed.push(block.map_err(|_| OutOfMemory {
                octets: 64 * BLOCK_LINES,
            })?);
        }
        let start = Instant::now();
        for number in 0..self.size.flows {
            let session = self.session_of(number);
            let mut entry = entry(number, session);
            let block = installed[session as usize].block;
            if let Some(view) = self.blocks.get(block) {
                view.fill_entry(block, &mut entry);
            }
            self.table.insert(entry, Tick::default()).map_err(out_of_memory)?;
        }
        let insert_nanos = start.elapsed().as_nanos() as u64;
        let areas = [self.table.areas().as_slice(), self.blocks.areas().as_slice()].concat();
        let memory = Mappings::read().residency(&areas);
        self.built = Built {
            insert_nanos,
            moves: self.table.moves(),
            memory,
        };
        Ok(())
    }

    /// A session's flows are consecutive.
    fn session_of(&self, number: u32) -> u32 {
        (u64::from(number) * u64::from(self.size.sessions) / u64::from(self.size.flows)) as u32
    }

    /// New packets of random flows: bursts of uplink and downlink in turn.
    fn fill(&mut self) {
        for place in 0..ROUND {
            let pair = self.random_below(self.size.flows / 2);
            let number = pair * 2 + (place / BURST % 2) as u32;
            let key = frames::key(number, self.session_of(number));
            self.frames[place].fill(&key, frames::direction(number));
        }
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * u64::from(bound)) >> 32) as u32
    }

    #[inline(never)]
    fn burst(&mut self, work: Work, burst: usize, floor: &mut Floor) {
        let now = cycles::now();
        let direction = if burst.is_multiple_of(2) {
            Direction::Uplink
        } else {
            Direction::Downlink
        };
        let frames = &mut self.frames[burst * BURST..(burst + 1) * BURST];
        frames.iter().for_each(Frame::prefetch);
        let mut keys = [FlowKey4::default(); BURST];
        for (key, frame) in keys.iter_mut().zip(frames.iter()) {
            *key = frame.parse(direction);
        }
        let mut hits = [Hit::MISS; BURST];
        let mut act = Act {
            links: &self.links,
            shared: &mut self.shared,
            now,
            millisecond: Millisecond::of(Nanos(now)),
            direction,
            work,
            hits: 0,
            green: 0,
        };
        if work == Work::Lookup {
            self.table
                .visit_bulk(&keys, &mut hits, tick(now), |_, _| act.hits += 1);
            for (hit, frame) in hits.iter().zip(frames) {
                frame.route(direction, &self.links[hit.entry_number() % LINKS]);
            }
        } else {
            self.table.visit_bulk(&keys, &mut hits, tick(now), |_, entry| {
                self.blocks.prefetch(entry);
                if work == Work::FarForward {
                    self.blocks.prefetch_line(
                        entry,
                        FORWARDS_AT + usize::from(on_own_line(entry.verdict.forward)),
                    );
                }
            });
            for (hit, frame) in hits.iter().zip(frames) {
                if let Some(entry) = self.table.entry(*hit) {
                    act.packet(&mut self.blocks, entry, frame);
                }
            }
        }
        floor.hits += act.hits;
        floor.green += act.green;
    }
}

impl core::fmt::Debug for Workload {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Workload")
            .field("size", &self.size)
            .field("built", &self.built)
            .finish_non_exhaustive()
    }
}

/// The last stage of a burst.
struct Act<'a> {
    links: &'a [[u8; 14]; LINKS],
    shared: &'a mut SharedMeters,
    now: u64,
    millisecond: Millisecond,
    direction: Direction,
    work: Work,
    hits: u64,
    green: u64,
}

impl Act<'_> {
    #[inline(always)]
    fn packet(&mut self, blocks: &mut Blocks, entry: &FlowEntry<FlowKey4>, frame: &mut Frame) {
        let Some(mut block) = blocks.live(entry) else {
            return;
        };
        self.hits += 1;
        if block.is_closed(entry.verdict.qers) {
            return;
        }
        let octets = frame.length(self.direction);
        let offer = Offer::new(octets as u32, Nanos(self.now));
        if block.meter(entry.verdict.qers, &offer, self.shared).is_err() {
            return;
        }
        self.green += 1;
        block.count(entry.verdict.urrs, octets, self.millisecond);
        let slot = if self.work == Work::FarForward {
            on_own_line(entry.verdict.forward)
        } else {
            entry.verdict.forward
        };
        let forward = block.forward(slot);
        let link = &self.links[forward.adjacency().index() % LINKS];
        match forward.kind() {
            ForwardKind::Tunnel => {
                frame.encapsulate(self.direction, &forward, block.mark(entry.verdict.marking), link)
            }
            ForwardKind::Plain => frame.route(self.direction, link),
            _ => {}
        }
    }
}

/// The first line of a block's forwards: after two read lines, one line of counters, and one of meters for each
/// direction.
const FORWARDS_AT: usize = 5;
/// Lines of a block with four forwards and what is rarely written of two URRs.
const BLOCK_LINES: usize = FORWARDS_AT + 4 + 1;

/// The slot of the forward that equals the one of a read line, and has a line of its own.
const fn on_own_line(inline: u8) -> u8 {
    inline + 2
}

/// Meters that hardly ever hold a packet back.
fn shared_meters() -> SharedMeters {
    let mut meters = SharedMeters::new(SHARED_METERS);
    for (number, direction) in (1..=SHARED_METERS).flat_map(|number| Direction::BOTH.map(|way| (number, way)))
    {
        meters.set(
            SharedId(number),
            direction,
            Rate::from_kbit(1_000_000_000),
            1 << 30,
        );
    }
    meters
}

pub(super) fn image(session: u32) -> BlockImage {
    let adjacency = AdjacencyId(session % LINKS as u32);
    let plain = Forward {
        kind: ForwardKind::Plain,
        adjacency,
        ..Forward::DROP
    };
    let template = Template::ipv4(session + 1, [10, 0, 0, 1], [10, 1, 0, (session % 200) as u8]);
    let tunnel = Forward {
        kind: ForwardKind::Tunnel,
        flags: ForwardFlags::NEEDS_MARKING,
        egress: InstanceId(1),
        adjacency,
        template: Some(template),
        dscp: None,
        mirror: None,
    };
    let meter = Some(MeterSpec::Single {
        rate: Rate::from_kbit(10_000_000),
        burst: 1 << 20,
    });
    BlockImage {
        forwards: vec![plain, tunnel, plain, tunnel],
        meters: vec![[meter; 2]; 2],
        shared: SharedId(1 + (session % u32::from(SHARED_METERS)) as u16),
        marks: vec![Mark::qfi_only(9), Mark::NONE],
        urrs: 2,
        inline: [0, 1],
        ..BlockImage::default()
    }
}

fn entry(number: u32, session: u32) -> FlowEntry<FlowKey4> {
    let direction = frames::direction(number);
    FlowEntry {
        key: frames::key(number, session),
        verdict: Verdict {
            qers: 0b11,
            urrs: 0b11,
            flags: FlowFlags::NONE.with_if(FlowFlags::DOWNLINK, direction == Direction::Downlink),
            forward: direction as u8,
            ..Verdict::NONE
        },
        idle: 100,
        ..FlowEntry::default()
    }
}

/// The tick of a time stamp, at the few GHz that counters run at.
#[inline(always)]
fn tick(now: u64) -> Tick {
    Tick::of(Nanos(now / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_a_small_world_is_a_hit_and_is_counted() {
        let mut workload = Workload::new(Size {
            flows: 1000,
            sessions: 10,
        })
        .unwrap();
        for work in [Work::Lookup, Work::LineBudget, Work::FarForward] {
            let floor = workload.measure(work, Duration::ZERO);
            assert_eq!((floor.packets, floor.hits), (ROUND as u64, ROUND as u64));
            assert_eq!(floor.best_round_nanos, floor.nanos);
            let green = if work == Work::Lookup { 0 } else { floor.packets };
            assert!(floor.green <= green && floor.green * 10 >= green * 9, "{floor:?}");
        }
    }
}
