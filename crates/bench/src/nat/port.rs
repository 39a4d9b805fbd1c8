//! The port: packets of UEs and answers to them, on the worker's own core.
//!
//! It keeps for each port of a UE by which end the data network knows it, as read from the first packet that left: with
//! NAT the public end of its mapping, without the UE's own. Answers go there. Each later packet that comes out must
//! have the end that is kept, with NAT and without: what making, keeping and checking take is the same.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use flow::{Direction, PortId, WorkerId, cycles};
use packet::{PacketBuf, checksum};
use worker::{Batch, Io};

use super::super::feed::{BUFFERS, Buf};
use super::super::load::{Counts, Load, WINDOW};
use super::super::model::Model;
use super::super::rules::Identity;
use super::frames::{End, Frames};

/// In the mark of a packet whose end is to be kept: the rest is the number of the UE's port.
const FIRST: u64 = 1 << 63;

/// The port.
pub struct Port {
    model: Model,
    frames: Frames,
    /// By number of a UE's port, all sessions' first ones first: its end as the data network knows it.
    ends: Vec<End>,
    /// Where those ends may be, as addresses.
    outside: RangeInclusive<u32>,
    free: VecDeque<Buf>,
    /// Frames made ahead, by direction.
    windows: [VecDeque<Buf>; 2],
    load: Load,
    /// Packets of UEs are the first ones.
    are_first: bool,
    counts: Counts,
    /// Packets that came out with another end than they should have.
    wrong: u64,
}

impl Port {
    /// A port for `model` that receives nothing yet. What leaves has a source in `outside`.
    pub fn new(model: Model, identities: Arc<[Identity]>, outside: RangeInclusive<u32>) -> Self {
        Self {
            frames: Frames::new(&model, identities),
            ends: vec![End::default(); (model.flows() / 2) as usize],
            outside,
            model,
            free: (0..BUFFERS).map(|_| Buf::new()).collect(),
            windows: Default::default(),
            load: Load::none(),
            are_first: false,
            counts: Counts::default(),
            wrong: 0,
        }
    }

    /// Receives other packets from now on; those of UEs `are_first` ones, or all ends are known. Frames that were made
    /// ahead are discarded.
    pub fn set_load(&mut self, load: Load, are_first: bool) {
        for window in &mut self.windows {
            self.free.extend(window.drain(..));
        }
        (self.load, self.are_first) = (load, are_first);
    }

    /// New flows that are still to come, both directions together.
    pub fn fresh_left(&self) -> u64 {
        self.load.fresh_left()
    }

    /// What it did so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Packets that came out with a wrong end since the last call.
    pub fn take_wrong(&mut self) -> u64 {
        std::mem::take(&mut self.wrong)
    }

    fn refill(&mut self, direction: Direction) {
        let before = cycles::now();
        let side = direction as usize;
        self.load.prepare();
        while self.windows[side].len() < WINDOW {
            let Some(drawn) = self.load.draw(&self.model, direction) else {
                break;
            };
            let Some(mut buf) = self.free.pop_front() else {
                break;
            };
            self.make(&mut buf, drawn.number / 2, direction);
            self.windows[side].push_back(buf);
        }
        self.counts.port_ticks += cycles::now().wrapping_sub(before);
    }

    /// A packet of, or to, the UE's port with this number.
    #[inline]
    fn make(&self, buf: &mut Buf, number: u32, direction: Direction) {
        let (session, place) = (
            number % self.model.sessions,
            (number / self.model.sessions) as u16,
        );
        let outside = self.ends.get(number as usize).copied().unwrap_or_default();
        let inside = self.frames.inside(session, place).unwrap_or_default();
        self.frames.make(buf, session, place, direction, outside);
        buf.set_mark(match direction {
            Direction::Uplink if self.are_first => FIRST | u64::from(number),
            Direction::Uplink => outside.bits(),
            Direction::Downlink => inside.bits(),
        });
    }

    /// Checks a packet that came out.
    #[inline]
    fn check(&mut self, buf: &Buf, direction: Direction) {
        let mark = buf.mark();
        if mark & FIRST != 0 {
            return self.keep(buf, (mark & !FIRST) as usize);
        }
        let end = self.frames.end(buf.data(), direction);
        self.wrong += u64::from(end.is_none_or(|end| end.bits() != mark));
    }

    /// Keeps the end by which the data network knows a UE's port.
    fn keep(&mut self, buf: &Buf, number: usize) {
        let end = self.frames.end(buf.data(), Direction::Uplink);
        let end = end.filter(|end| self.outside.contains(&end.address().to_bits()));
        let packet = self.frames.user_packet(buf.data(), Direction::Uplink);
        let header = packet.and_then(|packet| packet.get(..20));
        let end = end.filter(|_| header.is_some_and(checksum::is_right));
        match (end, self.ends.get_mut(number)) {
            (Some(end), Some(place)) => *place = end,
            _ => self.wrong += 1,
        }
    }
}

impl Io for Port {
    type Buf = Buf;

    fn ports(&self) -> usize {
        2
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
        let side = direction as usize;
        if self.windows[side].len() < wanted {
            self.refill(direction);
            self.load.resume(cycles::now());
        }
        for _ in 0..wanted {
            let Some(buf) = self.windows[side].pop_front() else {
                break;
            };
            self.counts.given += 1;
            let _ = out.push(buf);
        }
    }

    fn tx(&mut self, port: PortId, out: &mut Batch<Buf>) {
        let direction = match port.0 {
            0 => Direction::Downlink,
            _ => Direction::Uplink,
        };
        for buf in out.drain() {
            self.check(&buf, direction);
            self.counts.sent[0] += 1;
            self.free.push_back(buf);
        }
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
        for buf in out.drain() {
            self.counts.freed[0] += 1;
            self.free.push_back(buf);
        }
    }
}
