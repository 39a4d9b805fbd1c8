//! `Sketch`: the least that a packet of this design touches, with none of the code that forwards packets.
//!
//! For each packet: the headers are read, a bucket and an entry, three lines of a session block are touched and of them
//! two written (two counters, two meters), a third meter of eight that sessions share; 56 octets of the block's first
//! line are copied before the inner packet, its hop count and checksum are written, and a link header. A meter is plain
//! arithmetic: what came since, the least of that and the burst, a comparison, a subtraction, a store. All lines are
//! asked for a burst ahead, in passes.
//!
//! Sizes and places are those of this crate's layout ([`layout`](super::layout)): when an entry grows, so does this
//! one's. Beyond that it shares only instructions (prefetch, the counter) and memory in huge pages ([`Slab`]) with what
//! it is compared with: hash, tags, meters and frames are its own, so that it does not slow down with them.
//!
//! Every flow is in its first bucket: a flow whose bucket is full gets another port. The frames are made from numbers
//! and touch no entry, a window of each direction in turn, in buffers that go round.

use core::time::Duration;
use std::time::Instant;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::layout::{BUCKET, BlockLines, ENTRY, LINE, SLOTS, buckets};
use super::{Floor, ROUND, Size};
use crate::slab::{OutOfMemory, Slab};
use crate::{cycles, prefetch};

/// Packets of a burst.
const BURST: usize = 64;
/// Meters that sessions share.
const SHARED: usize = 8;
/// Octets of a buffer, and where a frame starts in it.
const ROOM: usize = 2_048;
const HEADROOM: usize = 128;
const ETHERNET: usize = 14;
/// IPv4, UDP, GTP-U, and the extension header with the QFI.
const OUTER: usize = 20 + 8 + 8 + 8;
/// Octets that are copied from a block before the inner packet.
const HEADER: usize = LINE - 8;
/// Octets of the inner IP packet.
const INNER: u16 = 212;
/// What is in the first word of a block that is in use.
const GENERATION: u64 = 7;
/// What a meter holds at most, octets.
const MOST: u64 = 1 << 20;

/// A full meter at this moment: octets, when it was looked at, octets that it gains in 1,024 ticks, octets at most.
fn meter() -> [u64; 4] {
    [MOST, cycles::now(), 1_000, MOST]
}

/// The buffers of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Buffers, which go round. At least a window.
    pub buffers: usize,
    /// Frames that are made ahead, outside the measured time; a multiple of 64.
    pub window: usize,
}

#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u16; SLOTS],
    entries: [u32; SLOTS],
    rest: [u8; BUCKET - 6 * SLOTS],
}

#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Entry {
    key: Key,
    block: u32,
    link: [u8; ETHERNET],
    rest: [u8; ENTRY - size_of::<Key>() - 4 - ETHERNET],
}

#[derive(Clone, Copy, PartialEq, Eq, FromZeros)]
#[repr(C)]
struct Key {
    /// Source and destination, then both ports, in packet order.
    addresses: [u8; 8],
    ports: [u8; 4],
}

#[derive(Clone, Copy, FromZeros, IntoBytes, Immutable)]
#[repr(C, align(64))]
struct Line([u64; LINE / 8]);

#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Frame([u8; ROOM]);

const _: () =
    assert!(size_of::<Bucket>() == BUCKET && size_of::<Entry>() == ENTRY && size_of::<Line>() == LINE);

/// Everything that the floor touches.
pub struct Sketch {
    size: Size,
    pool: Pool,
    buckets: Slab<Bucket>,
    entries: Slab<Entry>,
    lines: Slab<Line>,
    shape: BlockLines,
    frames: Slab<Frame>,
    shared: [[u64; 4]; SHARED],
    /// The UE's port of each flow.
    ports: Slab<u16>,
    /// The next buffer.
    next: usize,
    random: u64,
}

impl Sketch {
    /// A table with all its flows, and their sessions' blocks.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had.
    pub fn new(size: Size, pool: Pool) -> Result<Self, OutOfMemory> {
        let size = Size {
            flows: size.flows.max(2),
            sessions: size.sessions.max(1),
        };
        let window = pool.window.max(BURST).next_multiple_of(BURST);
        let pool = Pool {
            window,
            buffers: (pool.buffers.max(window) / BURST) * BURST,
        };
        let shape = BlockLines::of(&super::workload::image(0)).ok_or(OutOfMemory { octets: 0 })?;
        let mut sketch = Self {
            size,
            pool,
            buckets: Slab::new(buckets(size.flows as usize))?,
            entries: Slab::new(size.flows as usize)?,
            lines: Slab::new(size.sessions as usize * shape.stride)?,
            shape,
            frames: Slab::new(pool.buffers)?,
            shared: [meter(); SHARED],
            ports: Slab::new(size.flows as usize)?,
            next: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        sketch.make_blocks();
        (0..size.flows).for_each(|number| sketch.insert(number));
        Ok(sketch)
    }

    /// Measures for `duration`, in whole rounds of [`ROUND`] packets and at least one.
    pub fn measure(&mut self, duration: Duration) -> Floor {
        let mut floor = Floor {
            best_round_nanos: u64::MAX,
            ..Floor::default()
        };
        while Duration::from_nanos(floor.nanos) < duration || floor.packets == 0 {
            let (before, mut packets) = (floor.nanos, 0);
            let mut is_downlink = false;
            while packets < ROUND {
                let left = ROUND - packets;
                packets += self.window(is_downlink, left.min(self.pool.window), &mut floor);
                is_downlink = !is_downlink;
            }
            floor.packets += packets as u64;
            floor.best_round_nanos = floor.best_round_nanos.min(floor.nanos - before);
        }
        floor
    }

    fn make_blocks(&mut self) {
        let meter = meter();
        for block in self.lines.chunks_exact_mut(self.shape.stride) {
            for side in 0..2 {
                block[self.shape.read_line[side]].0[0] = GENERATION;
                block[self.shape.write_line[side]].0[..4].copy_from_slice(&meter);
                block[self.shape.further[side]].0[4 * side..][..4].copy_from_slice(&meter);
            }
        }
    }

    fn insert(&mut self, number: u32) {
        let block = self.session_of(number) * self.shape.stride as u32;
        for port in (0..=u16::MAX).map(|other| other.wrapping_add(number as u16)) {
            let key = self.key(number, port);
            let (bucket, tag) = home(&key, self.buckets.len());
            let bucket = &mut self.buckets[bucket as usize];
            let free = bucket.tags.iter().position(|&other| other == 0);
            let Some(slot) = free.filter(|_| !bucket.tags.contains(&tag)) else {
                continue;
            };
            (bucket.tags[slot], bucket.entries[slot]) = (tag, number);
            self.ports[number as usize] = port;
            self.entries[number as usize] = Entry {
                key,
                block,
                link: [2; ETHERNET],
                ..Entry::new_zeroed()
            };
            return;
        }
    }

    /// A session's flows are consecutive.
    fn session_of(&self, number: u32) -> u32 {
        (u64::from(number) * u64::from(self.size.sessions) / u64::from(self.size.flows)) as u32
    }

    fn key(&self, number: u32, port: u16) -> Key {
        let (ue, peer) = (
            0x0a00_0000 + self.session_of(number),
            0x0808_0808 + number % 64 * 7,
        );
        let (port, server) = (u32::from(port), 443);
        let (source, destination, ports) = match number % 2 {
            0 => (ue, peer, port << 16 | server),
            _ => (peer, ue, server << 16 | port),
        };
        Key {
            addresses: (u64::from(source) << 32 | u64::from(destination)).to_be_bytes(),
            ports: ports.to_be_bytes(),
        }
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Makes `packets` frames of random flows of a direction, and measures the work on them.
    fn window(&mut self, is_downlink: bool, packets: usize, floor: &mut Floor) -> usize {
        if self.next + packets > self.pool.buffers {
            self.next = 0;
        }
        let range = self.next..self.next + packets;
        for place in range.clone() {
            let number = self.random_below(self.size.flows / 2) * 2 + u32::from(is_downlink);
            let key = self.key(number, self.ports[number as usize]);
            self.frames[place].fill(&key, is_downlink);
        }
        let (start, ticks) = (Instant::now(), cycles::now());
        for first in range.clone().step_by(BURST) {
            floor.hits += self.burst(is_downlink as usize, first);
        }
        floor.cycles += cycles::now().wrapping_sub(ticks);
        floor.nanos += start.elapsed().as_nanos() as u64;
        // No meter of the sketch holds a packet back.
        floor.green += packets as u64;
        self.next = range.end;
        packets
    }

    /// The work on a burst; how many of its flows were found.
    #[inline(never)]
    fn burst(&mut self, side: usize, first: usize) -> u64 {
        let now = cycles::now();
        let frames = &mut self.frames[first..first + BURST];
        frames.iter().for_each(Frame::prefetch);
        let mut seen = [Seen::default(); BURST];
        for (seen, frame) in seen.iter_mut().zip(frames.iter()) {
            let key;
            (key, seen.at) = frame.parse();
            (seen.place, seen.tag) = home(&key, self.buckets.len());
            prefetch::nth(&self.buckets, seen.place as usize);
        }
        for seen in &mut seen {
            seen.place = self.buckets[seen.place as usize].find(seen.tag);
            prefetch::nth(&self.entries, seen.place as usize);
        }
        let [read_line, write_line, further] = [
            self.shape.read_line[side],
            self.shape.write_line[side],
            self.shape.further[side],
        ];
        for seen in &mut seen {
            seen.block = self.entries[seen.place as usize].block;
            let block = seen.block as usize;
            for line in [read_line, write_line, further] {
                prefetch::nth_to_write(&self.lines, block + line);
            }
        }
        let mut hits = 0;
        for (seen, frame) in seen.iter().zip(frames) {
            let entry = &self.entries[seen.place as usize];
            let block = seen.block as usize;
            let Some(rewrite) = frame.rewrite(seen.at) else {
                continue;
            };
            let length = rewrite.length();
            let octets = u64::from(length);
            let write_line = &mut self.lines[block + write_line].0;
            write_line[4] += 1;
            write_line[5] += octets;
            write_line[6] += 1;
            write_line[7] += octets;
            if let Some(meter) = write_line.first_chunk_mut() {
                update(meter, now, octets);
            }
            // Both directions may have theirs in one line.
            if let Some(meter) = self.lines[block + further].0[4 * side..].first_chunk_mut() {
                update(meter, now, octets);
            }
            update(&mut self.shared[block / 2 % SHARED], now, octets);
            let read_line = &self.lines[block + read_line];
            hits += u64::from(read_line.0[0] == GENERATION && entry.key == rewrite.key());
            rewrite.write(length, read_line, &entry.link);
        }
        hits
    }
}

impl core::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sketch")
            .field("size", &self.size)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// What the passes know of a packet.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The bucket, then the entry.
    place: u32,
    block: u32,
    tag: u16,
    /// Where its inner packet starts.
    at: u16,
}

/// A meter takes `octets`, if it has them: tokens, the time of the last packet, tokens in 1,024 ticks, tokens at most.
#[inline(always)]
fn update(meter: &mut [u64; 4], now: u64, octets: u64) {
    let [tokens, last, rate, most] = *meter;
    let passed = now.wrapping_sub(last);
    let tokens = tokens.wrapping_add(passed.wrapping_mul(rate) / 1_024).min(most);
    meter[0] = if tokens >= octets { tokens - octets } else { tokens };
    meter[1] = now;
}

/// The bucket and the tag of a key. A tag is never 0.
#[inline(always)]
fn home(key: &Key, buckets: usize) -> (u32, u16) {
    let addresses = u64::from_ne_bytes(key.addresses) ^ 0x2d35_8dcc_aa6c_78a5;
    let ports = u64::from(u32::from_ne_bytes(key.ports)) ^ 0x8bb8_4b93_962e_acc9;
    let product = u128::from(addresses) * u128::from(ports);
    let hash = (product as u64 ^ (product >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bucket = ((hash >> 32) * buckets as u64) >> 32;
    (bucket as u32, (hash >> 8) as u16 | 1)
}

impl Bucket {
    /// The number of the entry with this tag; 0 without one.
    #[inline(always)]
    fn find(&self, tag: u16) -> u32 {
        const ONES: u128 = u128::MAX / 0xffff;
        let tags: u128 = zerocopy::transmute!(self.tags);
        let other = tags ^ (ONES * u128::from(tag));
        // The lowest bit of these is that of the first equal tag: only what is above it can be wrong.
        let equal = other.wrapping_sub(ONES) & !other & (ONES << 15);
        let slot = equal.trailing_zeros() as usize / 16;
        self.entries[slot % SLOTS]
    }
}

impl Frame {
    #[inline(always)]
    fn prefetch(&self) {
        prefetch::read(&self.0[HEADROOM]);
        prefetch::read(&self.0[HEADROOM + 64]);
    }

    /// Makes this a packet of a flow: in a tunnel, or plain.
    fn fill(&mut self, key: &Key, is_downlink: bool) {
        let frame = &mut self.0[HEADROOM..];
        frame[..128].fill(0);
        [frame[12], frame[13]] = [0x08, 0x00];
        let at = if is_downlink {
            ETHERNET
        } else {
            [frame[14], frame[23]] = [0x45, 17];
            [frame[36], frame[37]] = 2152u16.to_be_bytes();
            [frame[42], frame[43]] = [0x34, 0xff];
            ETHERNET + OUTER
        };
        let inner = &mut frame[at..];
        [inner[0], inner[8], inner[9]] = [0x45, 64, 17];
        inner[2..4].copy_from_slice(&INNER.to_be_bytes());
        inner[12..20].copy_from_slice(&key.addresses);
        inner[20..24].copy_from_slice(&key.ports);
    }

    /// The key of the packet, and where its inner packet starts.
    #[inline(always)]
    fn parse(&self) -> (Key, u16) {
        const NONE: (Key, u16) = (
            Key {
                addresses: [0; 8],
                ports: [0; 4],
            },
            HEADROOM as u16,
        );
        let Some(frame) = self.0[HEADROOM..].first_chunk::<128>() else {
            return NONE;
        };
        let is_tunnel = frame[23] == 17 && frame[36..38] == [8, 104] && frame[42] & 0xf0 == 0x30;
        let at = if is_tunnel {
            let gtpu = ETHERNET + usize::from(frame[14] & 15) * 4 + 8;
            gtpu + 8 + if frame[gtpu] & 7 == 0 { 0 } else { 8 }
        } else {
            ETHERNET
        };
        match frame[at..].first_chunk() {
            Some(inner) => (key_of(inner), (HEADROOM + at) as u16),
            None => NONE,
        }
    }

    /// What is written of the packet whose inner packet starts at `at`.
    #[inline(always)]
    fn rewrite(&mut self, at: u16) -> Option<&mut Rewrite> {
        let start = usize::from(at).wrapping_sub(BEFORE);
        let octets: &mut [u8; size_of::<Rewrite>()] = self.0.get_mut(start..)?.first_chunk_mut()?;
        Some(zerocopy::transmute_mut!(octets))
    }
}

#[inline(always)]
fn key_of(inner: &[u8; 24]) -> Key {
    let [.., a, b, c, d, e, f, g, h, i, j, k, l] = *inner;
    Key {
        addresses: [a, b, c, d, e, f, g, h],
        ports: [i, j, k, l],
    }
}

/// Octets before an inner packet that are written.
const BEFORE: usize = ETHERNET + HEADER;

/// A link header, a header line, and the start of the inner packet.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Rewrite {
    link: [u8; ETHERNET],
    header: [u8; HEADER],
    inner: [u8; 24],
}

impl Rewrite {
    /// The octets that are counted.
    #[inline(always)]
    fn length(&self) -> u16 {
        u16::from_be_bytes([self.inner[2], self.inner[3]])
    }

    #[inline(always)]
    fn key(&self) -> Key {
        key_of(&self.inner)
    }

    /// Writes the link header and a header line before the inner packet, its hop count and its checksum.
    #[inline(always)]
    fn write(&mut self, length: u16, read_line: &Line, link: &[u8; ETHERNET]) {
        self.link = *link;
        self.header
            .copy_from_slice(&read_line.as_bytes()[LINE - HEADER..]);
        self.header[16..18].copy_from_slice(&length.to_be_bytes());
        self.inner[8] = self.inner[8].wrapping_sub(1);
        self.inner[10] = self.inner[10].wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Pool = Pool {
        buffers: 1_280,
        window: 512,
    };

    #[test]
    fn every_packet_finds_its_flow_at_any_size() {
        for (flows, sessions) in [(2, 1), (64, 1), (1_000, 10), (20_000, 10_000)] {
            let mut sketch = Sketch::new(Size { flows, sessions }, POOL).unwrap();
            let floor = sketch.measure(Duration::ZERO);
            assert_eq!(floor.packets, ROUND as u64);
            assert_eq!(floor.hits, floor.packets, "{flows} flows");
            assert_eq!(floor.best_round_nanos, floor.nanos);
        }
    }

    #[test]
    fn a_packet_writes_its_lines_its_meters_and_its_headers() {
        let size = Size {
            flows: 2,
            sessions: 1,
        };
        let mut sketch = Sketch::new(size, POOL).unwrap();
        let before = sketch.frames[0].0;
        let mut floor = Floor::default();
        for (side, is_downlink) in [(0, false), (1, true)] {
            // Full meters: what has come since the other direction's burst is the clock's affair.
            (sketch.next, sketch.shared) = (0, [meter(); SHARED]);
            sketch.window(is_downlink, BURST, &mut floor);
            let (write_line, further) = (
                sketch.lines[sketch.shape.write_line[side]].0,
                sketch.lines[sketch.shape.further[side]].0,
            );
            let octets = 64 * u64::from(INNER);
            assert_eq!(write_line[4..], [64, octets, 64, octets]);
            // All but the first packet of a burst come at one moment.
            for meter in [&write_line[..4], &further[4 * side..][..4], &sketch.shared[0][..]] {
                assert_eq!(meter[0], MOST - octets);
                assert_ne!(meter[1], 0);
            }
            assert_ne!(sketch.frames[0].0, before);
            assert_eq!(floor.hits, 64 * (side as u64 + 1));
        }
    }

    #[test]
    fn a_frame_gives_its_key_back() {
        let mut sketch = Sketch::new(
            Size {
                flows: 128,
                sessions: 2,
            },
            POOL,
        )
        .unwrap();
        for number in [0, 1, 77, 126] {
            let key = sketch.key(number, sketch.ports[number as usize]);
            sketch.frames[0].fill(&key, number % 2 == 1);
            let (parsed, at) = sketch.frames[0].parse();
            assert!(parsed == key);
            assert_eq!(sketch.frames[0].rewrite(at).unwrap().length(), INNER);
        }
    }
}
