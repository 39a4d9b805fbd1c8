//! A slow model of a traffic manager: plain lists, token buckets in exact integers of unlimited range, no wheels and no
//! rings. It does not predict which packet leaves; it says whether one may, and whether one must.

use std::collections::VecDeque;

use flow::meter::Colour;
use tm::{Class, LossReason, QueueSpec, Shaper, Slot};

/// Millionths of a bit in an octet.
const OCTET: i128 = 8_000_000;

/// What a wheel may be late, in nanoseconds.
pub const LATE: u64 = 1_024;

/// A shaper, with all that it let pass since its rate was set.
#[derive(Clone)]
pub struct Tokens {
    shaper: Shaper,
    largest: u16,
    level: i128,
    at: u64,
    log: Vec<(u64, u32)>,
}

impl Tokens {
    pub fn new(shaper: Shaper, largest: u16, now: u64) -> Self {
        let mut tokens = Self {
            shaper,
            largest,
            level: 0,
            at: now,
            log: Vec::new(),
        };
        tokens.level = tokens.depth();
        tokens
    }

    const fn is_limited(&self) -> bool {
        self.shaper.rate.kbit() <= u32::MAX as u64
    }

    fn burst(&self) -> i128 {
        i128::from(self.shaper.effective_burst(self.largest)) * OCTET
    }

    fn depth(&self) -> i128 {
        self.burst() - i128::from(self.largest) * OCTET
    }

    fn settle(&mut self, now: u64) {
        let earned = i128::from(now - self.at) * i128::from(self.shaper.rate.kbit());
        self.level = (self.level + earned).min(self.depth());
        self.at = now;
    }

    /// From when on a packet may leave.
    pub fn due(&self) -> u64 {
        let rate = i128::from(self.shaper.rate.kbit());
        if !self.is_limited() || self.level >= 0 {
            return self.at;
        }
        if rate == 0 {
            return u64::MAX;
        }
        self.at + u64::try_from((-self.level + rate - 1) / rate).unwrap()
    }

    pub fn pass(&mut self, now: u64, octets: u32) {
        if self.is_limited() {
            assert!(
                self.due() <= now,
                "a packet at {now} that was due at {}",
                self.due()
            );
            self.settle(now);
            self.level -= i128::from(octets) * OCTET;
            self.log.push((now, octets));
        }
    }

    pub fn set(&mut self, shaper: Shaper, now: u64) {
        self.check_windows();
        let was_limited = self.is_limited();
        if was_limited {
            self.settle(now);
        }
        self.shaper = shaper;
        self.at = now;
        self.level = if was_limited {
            self.level.min(self.depth())
        } else {
            self.depth()
        };
        self.log.clear();
    }

    /// Every window has at most burst + rate x t.
    pub fn check_windows(&self) {
        for (from, (start, _)) in self.log.iter().enumerate() {
            let mut sum = 0;
            for (now, octets) in &self.log[from..] {
                sum += i128::from(*octets) * OCTET;
                let earned = i128::from(now - start) * i128::from(self.shaper.rate.kbit());
                assert!(
                    sum <= self.burst() + earned,
                    "more than burst + rate x t within {} ns",
                    now - start
                );
            }
        }
    }
}

/// A packet; `gone`: it was pushed out, and its slot is in use until those before it have left.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub slot: Slot,
    pub octets: u16,
    pub is_yellow: bool,
    pub since: u64,
    pub gone: bool,
}

#[derive(Clone)]
pub struct Queue {
    pub spec: QueueSpec,
    pub maximum: Option<Tokens>,
    pub packets: VecDeque<Packet>,
}

impl Queue {
    pub fn octets(&self) -> u64 {
        self.held().map(|packet| u64::from(packet.octets)).sum()
    }

    pub fn held(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| !packet.gone)
    }

    /// The first packet leaves, and the slots of those behind it that are gone are free.
    pub fn pop(&mut self) -> Option<Packet> {
        let first = self.packets.pop_front();
        self.skip_gone();
        first
    }

    fn skip_gone(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.gone) {
            self.packets.pop_front();
        }
    }

    /// Pushes out the oldest yellow packet.
    pub fn push_out(&mut self) -> Option<Packet> {
        let yellow = self
            .packets
            .iter_mut()
            .find(|packet| packet.is_yellow && !packet.gone)?;
        yellow.gone = true;
        let yellow = *yellow;
        self.skip_gone();
        Some(yellow)
    }

    /// Whether a packet fits, in words of the specification: cap, pool, share of what is left of it.
    pub fn fits(&self, octets: u16, pool: u64, in_pool: u64) -> Result<(), LossReason> {
        let left = pool - in_pool;
        let filled = self.octets() + u64::from(octets);
        if filled > u64::from(self.spec.cap) {
            return Err(LossReason::QueueFull);
        }
        if u64::from(octets) > left {
            return Err(LossReason::PoolFull);
        }
        if filled as f64 > left as f64 * f64::from(self.spec.share).exp2() {
            return Err(LossReason::PoolShare);
        }
        Ok(())
    }

    /// The best class that it may be served in; `None` where its guaranteed rate decides.
    pub fn class(&self) -> Option<Class> {
        let guaranteed = self.spec.rates.and_then(|rates| rates.guaranteed);
        guaranteed.is_none().then_some(self.spec.class)
    }
}

pub const fn colour(is_yellow: bool) -> Colour {
    if is_yellow { Colour::Yellow } else { Colour::Green }
}
