//! The counters of the fake accelerator: bounds are compared for every packet.

use crate::{Bounds, CounterLimit, Direction, LimitAction, UrrCount, Volumes};

/// A counter. Bounds are total, uplink, downlink.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) bounds: Bounds,
    pub(super) count: UrrCount,
    pub(super) told: [bool; 3],
    pub(super) reached: [bool; 3],
    /// It has counted since it was reported.
    pub(super) is_new: bool,
}

impl Counter {
    fn limits(&self) -> [Option<u64>; 3] {
        list(
            self.bounds
                .limit
                .map_or(Volumes::NONE, |limit: CounterLimit| limit.octets),
        )
    }

    pub(super) fn action(&self) -> LimitAction {
        self.bounds.limit.map_or(LimitAction::Event, |limit| limit.action)
    }

    fn acts(&self) -> bool {
        self.action() != LimitAction::Event
    }

    pub(super) fn has_stopped(&self, way: Direction) -> bool {
        self.acts() && (self.reached[0] || self.reached[1 + way as usize])
    }

    fn sums(&self) -> [u64; 3] {
        let [ul, dl] = [self.count.ul_octets, self.count.dl_octets];
        [ul + dl, ul, dl]
    }

    /// Whether a packet is too much for the limit, which is reached then.
    pub(super) fn would_exceed(&mut self, way: Direction, octets: u64) -> bool {
        let (limits, sums, acts) = (self.limits(), self.sums(), self.acts());
        let mut is_too_much = false;
        for kind in [0, 1 + way as usize] {
            if acts && limits[kind].is_some_and(|most| sums[kind] + octets > most) {
                (self.reached[kind], is_too_much) = (true, true);
            }
        }
        is_too_much
    }

    /// Counts; gives `true` for a watermark and `false` for a limit that is reached now.
    pub(super) fn add(&mut self, way: Direction, octets: u64) -> impl Iterator<Item = bool> + use<> {
        let (packets, sum) = match way {
            Direction::Uplink => (&mut self.count.ul_packets, &mut self.count.ul_octets),
            Direction::Downlink => (&mut self.count.dl_packets, &mut self.count.dl_octets),
        };
        *packets += 1;
        *sum += octets;
        self.is_new = true;
        let (sums, watermarks, limits) = (self.sums(), list(self.bounds.watermarks), self.limits());
        let due = |bounds: [Option<u64>; 3], kind: usize| bounds[kind].is_some_and(|at| sums[kind] >= at);
        let mut new = [false; 2];
        for kind in [0, 1 + way as usize] {
            let is_due = [due(watermarks, kind), due(limits, kind)];
            new[0] |= is_due[0] && !self.told[kind];
            new[1] |= is_due[1] && !self.reached[kind];
            self.told[kind] |= is_due[0];
            self.reached[kind] |= is_due[1];
        }
        [(new[0], true), (new[1], false)]
            .into_iter()
            .filter_map(|(is_new, kind)| is_new.then_some(kind))
    }
}

fn list(volumes: Volumes) -> [Option<u64>; 3] {
    [volumes.total, volumes.uplink, volumes.downlink]
}
