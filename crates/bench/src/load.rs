//! Received packets of a self-fed port: flow and time of each.
//!
//! *Saturated*: there is always a burst. *Open loop*: packets arrive at a rate, wait in a ring of fixed depth, and are
//! lost when it is full. Time is the worker's own: that of making and moving frames does not count, and an absence from
//! the core of more than a quarter of a millisecond is counted as an absence, not as the worker's time.

use flow::Direction;

use super::clock::ticks_per_second;
use super::model::{Model, Scattered};

/// Frames of each direction that are made ahead.
pub const WINDOW: usize = 512;
/// Packets that a ring holds before it loses some: a port's descriptors by default.
pub const RING: u64 = 8_192;
/// An interval between two looks at a port that is this many seconds long was not the worker's.
const LONGEST_INTERVAL: f64 = 0.000_25;

/// Counts of the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets given to the worker.
    pub given: u64,
    /// Packets that came out, of established flows and of new ones.
    pub sent: [u64; 2],
    /// Packets that the worker freed, as dropped; of established flows and of new ones.
    pub freed: [u64; 2],
    /// Packets that a full ring lost before the worker could take them; of established flows and of new ones.
    pub lost: [u64; 2],
    /// Ticks spent in making frames, and in an open loop in moving them.
    pub port_ticks: u64,
    /// Ticks in which the worker was not on its core, as far as the port can detect.
    pub absent_ticks: u64,
}

impl Counts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let pair = |now: [u64; 2], then: [u64; 2]| [now[0] - then[0], now[1] - then[1]];
        Self {
            given: self.given - before.given,
            sent: pair(self.sent, before.sent),
            freed: pair(self.freed, before.freed),
            lost: pair(self.lost, before.lost),
            port_ticks: self.port_ticks - before.port_ticks,
            absent_ticks: self.absent_ticks - before.absent_ticks,
        }
    }
}

/// The next packet's flow.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// The flow's number.
    pub number: u32,
    /// Whether the flow is new.
    pub fresh: bool,
}

/// New flows among the packets: each once.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    /// Pairs not met yet, by direction.
    order: [Scattered; 2],
    left: [u32; 2],
    /// The first pair that is new.
    from: u32,
    /// New flows a second; `None`: nothing but new flows.
    rate: Option<f64>,
    issued: u64,
    /// How likely the next packet is one of a new flow, of 2^32.
    chance: u64,
}

/// When packets arrive.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    Never,
    /// A burst whenever it is a direction's turn; credits in thousandths of a burst.
    Saturated {
        turn: [u32; 2],
        credit: [u32; 2],
    },
    /// At a rate, packets a second by direction.
    Rate {
        rate: [f64; 2],
        taken: [u64; 2],
    },
}

/// The received packets of a port.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    arrivals: Arrivals,
    /// Pairs of flows that are established.
    pairs: u32,
    fresh: Option<Fresh>,
    random: u64,
    /// Ticks of the worker's own time since the start.
    own: u64,
    last: Option<u64>,
}

impl Load {
    /// Nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            arrivals: Arrivals::Never,
            pairs: 1,
            fresh: None,
            random: 0x9e37_79b9_7f4a_7c15,
            own: 0,
            last: None,
        }
    }

    /// As many packets as the worker takes, of the first `flows` flows in uniformly random order.
    #[must_use]
    pub fn saturated(model: &Model, flows: u32) -> Self {
        let (uplink, downlink) = (model.uplink_per_mille, 1_000 - model.uplink_per_mille);
        let most = uplink.max(downlink).max(1);
        Self {
            arrivals: Arrivals::Saturated {
                turn: [uplink * 1_000 / most, downlink * 1_000 / most],
                credit: [0; 2],
            },
            pairs: (flows / 2).max(1),
            ..Self::none()
        }
    }

    /// Packets of the first `flows` flows at `rate` a second, both directions together.
    #[must_use]
    pub fn open_loop(model: &Model, flows: u32, rate: f64) -> Self {
        let uplink = rate * f64::from(model.uplink_per_mille) / 1_000.0;
        Self {
            arrivals: Arrivals::Rate {
                rate: [uplink, rate - uplink],
                taken: [0; 2],
            },
            ..Self::saturated(model, flows)
        }
    }

    /// Besides, each flow from number `from` to `to` once, at `rate` a second; with `None`, as fast as can be and
    /// nothing else. In an open loop the rate is on top of that of the established flows.
    #[must_use]
    pub fn with_fresh(mut self, from: u32, to: u32, rate: Option<f64>) -> Self {
        let pairs = (to.saturating_sub(from) / 2).max(1);
        let left = if to > from { [pairs; 2] } else { [0; 2] };
        if let (Arrivals::Rate { rate: arrivals, .. }, Some(fresh)) = (&mut self.arrivals, rate) {
            arrivals.iter_mut().for_each(|rate| *rate += fresh / 2.0);
        }
        self.fresh = Some(Fresh {
            order: [Scattered::new(pairs); 2],
            left,
            from: from / 2,
            rate,
            issued: 0,
            chance: if rate.is_none() { u64::MAX } else { 0 },
        });
        self
    }

    /// New flows that are still to come.
    #[must_use]
    pub fn fresh_left(&self) -> u64 {
        self.fresh
            .map_or(0, |fresh| u64::from(fresh.left[0]) + u64::from(fresh.left[1]))
    }

    /// Seconds of the worker's own time since the start.
    #[must_use]
    pub fn own_seconds(&self) -> f64 {
        self.own as f64 / ticks_per_second()
    }

    /// How many packets of a direction the worker can take now, at most `most`.
    #[inline]
    pub fn arrived(&mut self, direction: Direction, most: usize, now: u64, counts: &mut Counts) -> usize {
        self.advance(now, counts);
        let side = direction as usize;
        match &mut self.arrivals {
            Arrivals::Never => 0,
            Arrivals::Saturated { turn, credit } => {
                credit[side] += turn[side];
                if credit[side] < 1_000 {
                    return 0;
                }
                credit[side] -= 1_000;
                most
            }
            Arrivals::Rate { rate, taken } => {
                let due = (rate[side] * self.own as f64 / ticks_per_second()) as u64;
                let mut waiting = due.saturating_sub(taken[side]);
                if waiting > RING {
                    let lost = waiting - RING;
                    taken[side] += lost;
                    waiting = RING;
                    let fresh = self.fresh_share(side, lost);
                    counts.lost[1] += fresh;
                    counts.lost[0] += lost - fresh;
                }
                let some = waiting.min(most as u64);
                if let Arrivals::Rate { taken, .. } = &mut self.arrivals {
                    taken[side] += some;
                }
                some as usize
            }
        }
    }

    /// Whether packets arrive at a rate.
    #[inline]
    #[must_use]
    pub const fn is_open_loop(&self) -> bool {
        matches!(self.arrivals, Arrivals::Rate { .. })
    }

    /// As many ticks of the last ones are not the worker's.
    #[inline]
    pub fn exclude(&mut self, ticks: u64) {
        self.last = self.last.map(|last| last.wrapping_add(ticks));
    }

    /// Continues the worker's time at `now`: the time before was the port's.
    #[inline]
    pub fn resume(&mut self, now: u64) {
        self.last = Some(now);
    }

    #[inline]
    fn advance(&mut self, now: u64, counts: &mut Counts) {
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let interval = now.wrapping_sub(last);
        if interval as f64 > LONGEST_INTERVAL * ticks_per_second() {
            counts.absent_ticks += interval;
        } else {
            self.own += interval;
        }
    }

    /// How many of `lost` packets were of new flows, by the rates.
    fn fresh_share(&self, side: usize, lost: u64) -> u64 {
        match (&self.arrivals, self.fresh.and_then(|fresh| fresh.rate)) {
            (Arrivals::Rate { rate, .. }, Some(fresh)) if rate[side] > 0.0 => {
                (lost as f64 * fresh / 2.0 / rate[side]).round() as u64
            }
            _ => 0,
        }
    }

    /// Sets how likely new flows are among the next frames that are made.
    pub fn prepare(&mut self) {
        let seconds = self.own_seconds();
        let Some(fresh) = &mut self.fresh else { return };
        let Some(rate) = fresh.rate else { return };
        fresh.chance = match &self.arrivals {
            // Shares of the arrivals, not of the packets that the worker takes.
            Arrivals::Rate { rate: all, .. } => (rate / (all[0] + all[1]) * 4_294_967_296.0) as u64,
            _ => {
                let due = (rate * seconds) as u64;
                let missing = due.saturating_sub(fresh.issued);
                (missing << 32) / WINDOW as u64
            }
        };
    }

    /// The flow of the next packet of a direction; `None` when there is none left.
    #[inline]
    pub fn draw(&mut self, model: &Model, direction: Direction) -> Option<Drawn> {
        let side = direction as usize;
        let random = self.next_random();
        if let Some(fresh) = &mut self.fresh {
            let wanted = (random & 0xffff_ffff) < fresh.chance;
            if wanted && fresh.left[side] > 0 {
                fresh.left[side] -= 1;
                fresh.issued += 1;
                let pair = fresh.from + fresh.order[side].draw();
                return Some(Drawn {
                    number: pair * 2 + side as u32,
                    fresh: true,
                });
            }
            // Without a rate there is nothing but new flows.
            fresh.rate?;
        }
        let pair = ((random >> 32) * u64::from(self.pairs)) >> 32;
        debug_assert!((pair as u32) * 2 < model.flows().max(2));
        Some(Drawn {
            number: pair as u32 * 2 + side as u32,
            fresh: false,
        })
    }

    #[inline(always)]
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn turns_are_in_the_ratio_of_the_model() {
        for profile in 1..=3 {
            let model = Model::v(profile, 0).unwrap();
            let mut load = Load::saturated(&model, 64);
            let mut counts = Counts::default();
            let mut given = [0, 0];
            for tick in 0..30_000 {
                for direction in Direction::BOTH {
                    given[direction as usize] += load.arrived(direction, 64, tick, &mut counts);
                }
            }
            let share = given[0] as f64 / (given[0] + given[1]) as f64;
            let wanted = f64::from(model.uplink_per_mille) / 1_000.0;
            assert!((share - wanted).abs() < 0.001, "profile {profile}: {share}");
        }
    }

    #[test]
    fn new_flows_come_once_each_and_then_no_more() {
        let model = Model::v(2, 0).unwrap().with_flows(1_024);
        let mut load = Load::saturated(&model, model.flows()).with_fresh(0, model.flows(), None);
        let mut seen = HashSet::new();
        for direction in Direction::BOTH {
            while let Some(drawn) = load.draw(&model, direction) {
                assert!(drawn.fresh && seen.insert(drawn.number));
                assert_eq!(drawn.number % 2, direction as u32);
            }
        }
        assert_eq!((seen.len() as u32, load.fresh_left()), (model.flows(), 0));
    }

    #[test]
    fn a_full_ring_loses_what_is_too_much() {
        let model = Model::v(2, 0).unwrap();
        let mut load = Load::open_loop(&model, 64, 20e6);
        let mut counts = Counts::default();
        let a_fifth_of_a_millisecond = (ticks_per_second() / 5_000.0) as u64;
        assert_eq!(load.arrived(Direction::Uplink, 64, 0, &mut counts), 0);
        for fifth in 1..=4 {
            let now = fifth * a_fifth_of_a_millisecond;
            assert_eq!(load.arrived(Direction::Uplink, 0, now, &mut counts), 0);
        }
        assert_eq!(counts.lost, [0, 0]);
        let now = 5 * a_fifth_of_a_millisecond;
        assert_eq!(load.arrived(Direction::Uplink, 64, now, &mut counts), 64);
        // 10000 arrived, 8192 wait.
        assert!((1_800..=1_810).contains(&counts.lost[0]), "{counts:?}");
        assert_eq!(counts.lost[1], 0);
    }
}
