//! The self-fed port: packet I/O that generates received packets and counts sent packets, on the worker's own core.
//!
//! Frames are made some hundreds ahead, as many as a NIC's ring holds, so that a worker finds their headers where
//! a NIC would have left them: in the cache, but not in the registers. The buffers go round in the order in which
//! they are freed. The time that this takes is counted apart ([`Counts::port_ticks`]).

use std::collections::VecDeque;
use std::sync::Arc;

use flow::{Direction, PortId, WorkerId, cycles};
use packet::{DropReason, PacketBuf};
use worker::{BURST, Batch, ChargeId, Io, PacketMetadata};

use super::check::{Sample, Samples};
use super::frame::{HEADERS, Template};
use super::load::{Counts, Load, WINDOW};
use super::model::Model;
use super::network::Wire;
use super::rules::Identity;

/// Octets of a buffer, as in a packet pool.
const ROOM: usize = 2_048;
/// Where a frame starts in it.
const HEADROOM: usize = 128;
/// Octets of a frame that are stored; the rest of a longer frame is only counted, as that of a chain.
const CONTIGUOUS: usize = 1_600;
/// Buffers in all: both windows, those that the worker holds, those that it has just freed.
pub const BUFFERS: usize = 2 * WINDOW + 4 * BURST;

/// The memory of a buffer.
#[repr(align(64))]
struct Room([u8; ROOM]);

/// A buffer like an mbuf. What is in the first line of an mbuf is beside the pointer here: a worker that moves buffers
/// moves more octets than it would move of pointers.
pub struct Buf {
    room: Box<Room>,
    start: u16,
    end: u16,
    /// Octets of the payload that are elsewhere.
    tail: u16,
    port: PortId,
    charge: ChargeId,
    /// One more than the index of the sample, 0: not a sample; and [`FRESH`].
    sample: u32,
    /// What a port remembers of the packet.
    mark: u64,
}

/// In what a buffer has of its sample: the packet is the first of its flow.
const FRESH: u32 = 1 << 31;

const _: () = assert!(size_of::<Buf>() == 32);

impl Buf {
    pub(crate) fn new() -> Self {
        Self {
            room: Box::new(Room([0; ROOM])),
            start: HEADROOM as u16,
            end: HEADROOM as u16,
            tail: 0,
            port: PortId(0),
            charge: ChargeId::NONE,
            sample: 0,
            mark: 0,
        }
    }

    /// What the port remembers of the packet.
    #[inline]
    pub(crate) const fn mark(&self) -> u64 {
        self.mark
    }

    #[inline]
    pub(crate) const fn set_mark(&mut self, mark: u64) {
        self.mark = mark;
    }

    fn contiguous(&self) -> usize {
        usize::from(self.end - self.start)
    }

    /// A frame that a port has received: `octets` of which these are the first ones; others are what was there before.
    pub(crate) fn fill(&mut self, port: PortId, contents: &[u8], octets: usize) {
        self.renew();
        let end = HEADROOM + octets.min(CONTIGUOUS);
        self.end = end as u16;
        self.port = port;
        if let Some(room) = self.room.0.get_mut(HEADROOM..HEADROOM + contents.len()) {
            room.copy_from_slice(contents);
        }
    }

    pub(crate) fn renew(&mut self) {
        (self.start, self.end) = (HEADROOM as u16, HEADROOM as u16);
        (self.tail, self.sample) = (0, 0);
    }

    const fn is_fresh(&self) -> bool {
        self.sample & FRESH != 0
    }

    const fn sample(&self) -> u32 {
        self.sample & !FRESH
    }
}

impl PacketBuf for Buf {
    #[inline]
    fn data(&self) -> &[u8] {
        self.room
            .0
            .get(self.start.into()..self.end.into())
            .unwrap_or_default()
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        self.room
            .0
            .get_mut(self.start.into()..self.end.into())
            .unwrap_or_default()
    }

    #[inline]
    fn len(&self) -> usize {
        self.contiguous() + usize::from(self.tail)
    }

    #[inline]
    fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let start = usize::from(self.start).checked_sub(n)?;
        self.start = start as u16;
        self.room.0.get_mut(start..start + n)
    }

    #[inline]
    fn trim_front(&mut self, n: usize) -> bool {
        let fits = n <= self.contiguous();
        self.start += if fits { n as u16 } else { 0 };
        fits
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        let (whole, contiguous) = (self.len(), self.contiguous());
        if len > whole {
            return false;
        }
        self.tail = len.saturating_sub(contiguous) as u16;
        self.end = self.start + len.min(contiguous) as u16;
        true
    }

    fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        let (from, to) = (usize::from(self.end), usize::from(self.end) + n);
        if self.tail > 0 || to > ROOM {
            return None;
        }
        self.end = to as u16;
        self.room.0.get_mut(from..to)
    }

    fn headroom(&self) -> usize {
        self.start.into()
    }

    fn tailroom(&self) -> usize {
        if self.tail > 0 {
            0
        } else {
            ROOM - usize::from(self.end)
        }
    }

    /// No frame of the load is put together from others.
    fn link(&mut self, tail: Self) -> Result<(), Self> {
        Err(tail)
    }

    #[inline]
    fn reframe(&mut self, offset: usize, len: usize, head: usize) -> Result<&mut [u8], DropReason> {
        let whole = self.len();
        if offset > self.contiguous() || offset + len > whole {
            return Err(DropReason::BadIpLength);
        }
        let start = usize::from(self.start) + offset;
        let contiguous = (usize::from(self.end) - start).min(len);
        self.tail = (len - contiguous) as u16;
        self.end = (start + contiguous) as u16;
        self.start = start.checked_sub(head).ok_or(DropReason::NoHeadroom)? as u16;
        self.room
            .0
            .get_mut(self.start.into()..self.end.into())
            .ok_or(DropReason::NoHeadroom)
    }
}

impl PacketMetadata for Buf {
    fn ingress(&self) -> PortId {
        self.port
    }

    fn set_ingress(&mut self, port: PortId) {
        self.port = port;
    }

    #[inline]
    fn charge(&self) -> ChargeId {
        self.charge
    }

    #[inline]
    fn set_charge(&mut self, charge: ChargeId) {
        self.charge = charge;
    }
}

/// The port.
pub struct Feed {
    model: Model,
    wire: Wire,
    identities: Arc<[Identity]>,
    templates: [Template; 2],
    free: VecDeque<Buf>,
    /// Frames made ahead, by direction.
    windows: [VecDeque<Buf>; 2],
    load: Load,
    counts: Counts,
    samples: Samples,
}

impl Feed {
    /// A port for the flows of `model`, whose sessions have these identities, that receives nothing yet.
    #[must_use]
    pub fn new(model: Model, wire: Wire, identities: Arc<[Identity]>) -> Self {
        let template = |direction| Template::on(wire, direction, model.size(direction));
        Self {
            templates: Direction::BOTH.map(template),
            model,
            wire,
            identities,
            free: (0..BUFFERS).map(|_| Buf::new()).collect(),
            windows: [VecDeque::with_capacity(WINDOW), VecDeque::with_capacity(WINDOW)],
            load: Load::none(),
            counts: Counts::default(),
            samples: Samples::default(),
        }
    }

    /// Receives other packets from now on. Frames that were made ahead are discarded.
    pub fn set_load(&mut self, load: Load) {
        for window in &mut self.windows {
            self.free.extend(window.drain(..));
        }
        self.load = load;
    }

    /// Frames of other sizes from the next load on.
    pub fn set_sizes(&mut self, model: &Model) {
        self.model.sizes = model.sizes;
        let template = |direction| Template::on(self.wire, direction, model.size(direction));
        self.templates = Direction::BOTH.map(template);
    }

    /// Adds buffers, for a worker that keeps some.
    pub fn add_buffers(&mut self, buffers: usize) {
        self.free.extend((0..buffers).map(|_| Buf::new()));
    }

    /// Has at least as many free buffers, where some have been dropped instead of freed.
    pub fn replace_buffers(&mut self, buffers: usize) {
        let missing = buffers.saturating_sub(self.free.len());
        self.add_buffers(missing);
    }

    /// Octets of memory that the port itself takes.
    #[must_use]
    pub fn octets(&self) -> u64 {
        (BUFFERS * ROOM + self.identities.len() * size_of::<Identity>()) as u64
    }

    /// The present load.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// The time since the worker last looked at the port is not the worker's.
    pub fn resume(&mut self, now: u64) {
        self.load.resume(now);
    }

    /// The port's counts.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The samples, which start anew.
    pub fn take_samples(&mut self) -> Samples {
        std::mem::take(&mut self.samples)
    }

    fn refill(&mut self, direction: Direction) {
        let before = cycles::now();
        let side = direction as usize;
        let (window, template) = (&mut self.windows[side], &self.templates[side]);
        let size = usize::from(template.size());
        self.load.prepare();
        while window.len() < WINDOW && self.free.len() > BURST {
            let Some(drawn) = self.load.draw(&self.model, direction) else {
                break;
            };
            let Some(mut buf) = self.free.pop_front() else {
                break;
            };
            let flow = self.model.flow(drawn.number);
            let Some(identity) = self.identities.get(flow.session as usize) else {
                break;
            };
            buf.renew();
            buf.start = (HEADROOM + template.start()) as u16;
            buf.end = (HEADROOM + size.min(CONTIGUOUS)) as u16;
            buf.tail = size.saturating_sub(CONTIGUOUS) as u16;
            buf.port = PortId(side as u16);
            buf.sample = if drawn.fresh { FRESH } else { 0 };
            if let Some(room) = buf.room.0.get_mut(HEADROOM..HEADROOM + HEADERS) {
                template.write(room, &flow, flow.session, *identity);
            }
            window.push_back(buf);
        }
        self.counts.port_ticks += cycles::now().wrapping_sub(before);
    }

    /// What the port does from `before` on, which moves packets, is not the worker's time where that decides what
    /// arrives.
    #[inline]
    fn moved(&mut self, before: u64) {
        if self.load.is_open_loop() {
            let ticks = cycles::now().wrapping_sub(before);
            self.load.exclude(ticks);
            self.counts.port_ticks += ticks;
        }
    }

    #[cold]
    fn take_sample(&mut self, buf: &mut Buf) {
        let place = self.samples.add(Sample::new(buf.port, buf.data(), buf.len()));
        buf.sample = buf.sample & FRESH | place.map_or(0, |place| place as u32 + 1);
    }

    fn give_back(&mut self, out: &mut Batch<Buf>, port: Option<PortId>) {
        let before = cycles::now();
        for buf in out.drain() {
            if buf.sample() != 0 {
                self.samples
                    .finish(buf.sample() as usize - 1, port, buf.data(), buf.len());
            }
            let class = usize::from(buf.is_fresh());
            match port {
                Some(_) => self.counts.sent[class] += 1,
                None => self.counts.freed[class] += 1,
            }
            self.free.push_back(buf);
        }
        self.moved(before);
    }
}

impl Io for Feed {
    type Buf = Buf;

    fn ports(&self) -> usize {
        self.wire.ports()
    }

    fn rx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        let direction = match port.0 {
            0 => Direction::Uplink,
            1 => Direction::Downlink,
            _ => return,
        };
        let wanted = self
            .load
            .arrived(direction, out.room(), cycles::now(), &mut self.counts);
        if wanted == 0 {
            return;
        }
        let side = direction as usize;
        if self.windows[side].len() < wanted {
            self.refill(direction);
            self.load.resume(cycles::now());
        }
        let before = cycles::now();
        for _ in 0..wanted {
            let Some(mut buf) = self.windows[side].pop_front() else {
                break;
            };
            self.counts.given += 1;
            if self.samples.wants(self.counts.given) {
                self.take_sample(&mut buf);
            }
            let _ = out.push(buf);
        }
        self.moved(before);
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        self.give_back(out, Some(port));
    }

    fn alloc(&mut self) -> Option<Buf> {
        let mut buf = self.free.pop_front()?;
        buf.renew();
        Some(buf)
    }

    fn hand_over(&mut self, _to: WorkerId, _out: &mut Batch<Buf>) {}

    fn inbox_len(&self) -> usize {
        0
    }

    fn inbox(&mut self, _out: &mut Batch<Buf>) {}

    fn free(&mut self, out: &mut Batch<Buf>) {
        self.give_back(out, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_frame_keeps_its_length_through_a_rewrite() {
        let mut buf = Buf::new();
        (buf.end, buf.tail) = ((HEADROOM + CONTIGUOUS) as u16, 6_650);
        assert_eq!(buf.len(), 8_250);
        assert_eq!(buf.reframe(18, 8_232, 62).map(|data| data.len()), Ok(1_644));
        assert_eq!(buf.len(), 8_294);
        assert!(buf.truncate(100) && buf.len() == 100 && buf.tail == 0);
        assert!(!buf.truncate(101));
        assert!(buf.reframe(90, 20, 0).is_err());
    }
}
