//! Counters with watermarks and limits against a plain model, and what stops when a limit is reached.

use flow::{
    BlockImage, BlockRef, Blocks, Bounds, Counted, CounterLimit, Direction, Flows, LimitAction, LiveBlock,
    Millisecond, Nanos, ReplaceMap, SessionIndex, UrrCount, Volumes, Weight,
};
use proptest::prelude::*;

const UP: Direction = Direction::Uplink;
const DOWN: Direction = Direction::Downlink;

struct World {
    blocks: Blocks,
    installed: flow::Installed,
    image: BlockImage,
}

impl World {
    fn new(bounds: &[Bounds]) -> Self {
        Self::looking_every(bounds, None)
    }

    fn looking_every(bounds: &[Bounds], octets: Option<u64>) -> Self {
        let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).unwrap();
        if let Some(octets) = octets {
            blocks.look_every(octets);
        }
        let image = BlockImage {
            urrs: bounds.len() as u8,
            bounds: bounds.to_vec(),
            ..BlockImage::default()
        };
        let installed = blocks.install(SessionIndex(0), &image).unwrap();
        Self {
            blocks,
            installed,
            image,
        }
    }

    fn live(&mut self, direction: Direction) -> LiveBlock<'_> {
        let flow::Installed { block, generation } = self.installed;
        self.blocks.live_at(block, generation, direction).unwrap()
    }

    fn count(&mut self, urrs: u64, direction: Direction, octets: u64) -> Counted {
        self.live(direction)
            .count(urrs, octets, Millisecond::of(Nanos::ZERO))
    }

    fn octets(&self, slot: u8) -> [u64; 2] {
        let count = self.blocks.get(self.installed.block).unwrap().urr(slot).unwrap();
        [count.ul_octets, count.dl_octets]
    }

    fn replace(&mut self, carry: &ReplaceMap) {
        let replaced = self
            .blocks
            .replace(self.installed.block, &self.image, carry, Flows::Keep);
        self.installed = replaced.unwrap();
    }
}

fn watermark(octets: u64) -> Bounds {
    Bounds {
        watermarks: Volumes::of_total(octets),
        limit: None,
    }
}

fn limit(octets: Volumes, action: LimitAction) -> Bounds {
    Bounds {
        watermarks: Volumes::NONE,
        limit: Some(CounterLimit { octets, action }),
    }
}

#[test]
fn a_watermark_is_reported_once_at_the_packet_that_reaches_it() {
    let mut world = World::new(&[watermark(1000), Bounds::NONE]);
    for (direction, octets, reported) in [(UP, 400, 0), (DOWN, 599, 0), (UP, 1, 1), (DOWN, 5000, 0)] {
        let counted = world.count(0b11, direction, octets);
        assert_eq!((counted.watermarks, counted.action), (reported, None));
    }
    assert_eq!([world.octets(0), world.octets(1)], [[401, 5599]; 2]);
    world.replace(&ReplaceMap::SAME);
    assert_eq!(
        world.count(0b11, UP, 1),
        Counted::PASSED,
        "the same watermark is not reported again"
    );
    assert!(
        world
            .blocks
            .set_bounds(world.installed.block, 0, &watermark(6002))
    );
    assert_eq!(world.count(0b11, UP, 1).watermarks, 1);
    assert_eq!([world.octets(0), world.octets(1)], [[403, 5599]; 2]);
}

#[test]
fn a_limit_lets_pass_what_fits_and_stops_the_rest_uncounted() {
    let mut world = World::new(&[limit(Volumes::of_total(1000), LimitAction::Drop), Bounds::NONE]);
    assert_eq!(world.count(0b11, UP, 900), Counted::PASSED);
    let counted = world.count(0b11, DOWN, 101);
    assert_eq!(
        (counted.action, counted.limits, counted.watermarks),
        (Some(LimitAction::Drop), 1, 0)
    );
    assert_eq!(
        [world.octets(0), world.octets(1)],
        [[900, 0]; 2],
        "if one stops, none counts"
    );
    for direction in Direction::BOTH {
        let live = world.live(direction);
        assert!(live.is_stopped(0b01) && !live.is_stopped(0b10));
        assert_eq!(live.stop_action(0b01), LimitAction::Drop);
    }
    world.replace(&ReplaceMap::SAME);
    assert!(world.live(UP).is_stopped(0b11), "the same limit stays reached");
    let more = limit(Volumes::of_total(2000), LimitAction::Trap);
    world.image.bounds[0] = more;
    world.replace(&ReplaceMap::SAME);
    assert!(!world.live(UP).is_stopped(0b11));
    let counted = world.count(0b11, DOWN, 1100);
    assert_eq!(
        (counted.action, counted.limits),
        (None, 1),
        "it is reached and nothing more"
    );
    assert_eq!(world.live(UP).stop_action(0b11), LimitAction::Trap);
    assert_eq!(world.octets(0), [900, 1100]);
}

#[test]
fn a_limit_of_one_direction_stops_that_one() {
    let octets = Volumes {
        downlink: Some(0),
        ..Volumes::NONE
    };
    let mut world = World::new(&[limit(octets, LimitAction::Drop)]);
    assert_eq!(world.count(1, UP, 100), Counted::PASSED);
    assert_eq!(world.count(1, DOWN, 1).limits, 1);
    assert!(world.live(DOWN).is_stopped(1) && !world.live(UP).is_stopped(1));
    assert_eq!(world.octets(0), [100, 0]);
}

#[test]
fn an_event_limit_is_reported_once_and_stops_nothing() {
    let mut world = World::new(&[limit(Volumes::of_total(10), LimitAction::Event)]);
    let reported: Vec<u64> = (0..4).map(|_| world.count(1, UP, 6).limits).collect();
    assert_eq!((reported, world.octets(0)), (vec![0, 1, 0, 0], [24, 0]));
    assert!(!world.live(UP).is_stopped(1));
}

#[test]
fn control_stops_and_starts() {
    let mut world = World::new(&[Bounds::NONE, Bounds::NONE]);
    let block = world.installed.block;
    assert!(world.blocks.set_stopped(block, 0b10, 0));
    assert!(world.live(UP).is_stopped(0b11) && !world.live(UP).is_stopped(0b01));
    assert_eq!(world.live(UP).stop_action(0b11), LimitAction::Drop);
    assert!(!world.live(DOWN).is_stopped(0b11));
    world.replace(&ReplaceMap::SAME);
    assert!(world.live(UP).is_stopped(0b10));
    world.replace(&ReplaceMap::NONE);
    assert!(!world.live(UP).is_stopped(0b10));
    assert!(
        !world.blocks.set_bounds(block, 0, &watermark(1)),
        "there is no line for it"
    );
    assert!(!world.blocks.set_stopped(BlockRef(9999), 0, 0));
}

#[test]
fn stages_count_apart() {
    let mut world = World::new(&[Bounds::NONE; 3]);
    world.image.before_qos = 1;
    world.replace(&ReplaceMap::NONE);
    let millisecond = Millisecond::of(Nanos::ZERO);
    world.live(UP).count_before_qos(0b111, 70, millisecond);
    world.live(UP).count(0b111, 50, millisecond);
    let octets: Vec<_> = (0..3).map(|slot| world.octets(slot)[0]).collect();
    assert_eq!(octets, [50, 50, 70]);
}

#[test]
fn a_packet_lost_later_is_taken_back_where_it_counted() {
    let mut world = World::new(&[watermark(1000), Bounds::NONE, Bounds::NONE]);
    world.image.before_qos = 1;
    world.replace(&ReplaceMap::SAME);
    let flow::Installed { block, generation } = world.installed;
    world
        .live(DOWN)
        .count_before_qos(0b111, 300, Millisecond::of(Nanos::ZERO));
    world.count(0b111, DOWN, 300);
    assert!(!world.blocks.uncount(block, generation + 1, 0b111, DOWN, 300));
    assert!(!world.blocks.uncount(BlockRef(77), generation, 0b111, DOWN, 300));
    assert!(
        !world.blocks.uncount(block, generation, 0b111, UP, 300),
        "nothing to take back"
    );
    assert!(world.blocks.uncount(block, generation, 0b111, DOWN, 300));
    assert!(!world.blocks.uncount(block, generation, 0b111, DOWN, 300));
    assert_eq!(
        [0, 1, 2].map(|slot| world.octets(slot)),
        [[0, 0], [0, 0], [0, 300]]
    );
    assert_eq!(world.count(0b111, DOWN, 999), Counted::PASSED);
    assert_eq!(
        world.count(0b111, DOWN, 1).watermarks,
        1,
        "the watermark is where it was"
    );
}

#[test]
fn a_counter_by_weight_counts_what_all_slots_of_a_packet_weigh() {
    // Two that count octets, and what both weigh for: at most 8000.
    let mut world = World::new(&[watermark(100_000), watermark(100_000), limit_of(8000)]);
    let weight = |(slot, times)| Weight { slot, of: 2, times };
    world.image.urrs = 5;
    world.image.before_qos = 2;
    world.image.weights = [(3, 1), (4, 5)].map(weight).to_vec();
    world.replace(&ReplaceMap::NONE);
    let millisecond = Millisecond::of(Nanos::ZERO);
    let count = |world: &mut World, urrs| world.live(UP).count_with_units(urrs, 500, millisecond);
    let octets = |world: &World| [0, 1, 2].map(|slot| world.octets(slot)[0]);
    assert_eq!(count(&mut world, 0b01101), Counted::PASSED);
    assert_eq!(count(&mut world, 0b10110), Counted::PASSED);
    assert_eq!(count(&mut world, 0b11111), Counted::PASSED);
    assert_eq!(octets(&world), [1000, 1000, 500 + 2500 + 3000]);
    assert!(world.live(UP).has_before_qos(0b10110) && !world.live(UP).has_before_qos(0b00110));
    // One is lost, and counting continues where the block is another.
    let flow::Installed { block, generation } = world.installed;
    assert!(world.blocks.uncount(block, generation, 0b10110, UP, 500));
    assert_eq!(octets(&world), [1000, 500, 3500]);
    world.image.forwards = vec![flow::Forward::DROP; 9];
    world.replace(&ReplaceMap::SAME);
    assert_eq!(count(&mut world, 0b11111), Counted::PASSED);
    // What does not fit counts nowhere.
    let counted = count(&mut world, 0b10110);
    assert_eq!((counted.action, counted.limits), (Some(LimitAction::Drop), 0b100));
    assert_eq!(octets(&world), [1500, 1000, 6500]);
    assert!(world.live(DOWN).is_stopped(0b00100) && !world.live(UP).is_stopped(0b00011));
}

#[test]
fn a_counter_of_units_counts_one_for_each_packet_and_its_limit_stops_all() {
    // Octets, and what is one each: at most three.
    let mut world = World::new(&[watermark(10_000), limit_of(3)]);
    world.image.units = 0b10;
    world.replace(&ReplaceMap::NONE);
    let millisecond = Millisecond::of(Nanos::ZERO);
    let count = |world: &mut World, urrs| world.live(UP).count_with_units(urrs, 500, millisecond);
    assert_eq!(count(&mut world, 0b11), Counted::PASSED);
    assert_eq!(count(&mut world, 0b01), Counted::PASSED);
    assert_eq!(count(&mut world, 0b11), Counted::PASSED);
    assert_eq!([0, 1].map(|slot| world.octets(slot)[0]), [1500, 2]);
    // One is lost, and counting continues where the block is another.
    let flow::Installed { block, generation } = world.installed;
    assert!(world.blocks.uncount(block, generation, 0b11, UP, 500));
    assert_eq!([0, 1].map(|slot| world.octets(slot)[0]), [1000, 1]);
    world.image.forwards = vec![flow::Forward::DROP; 9];
    world.replace(&ReplaceMap::SAME);
    assert_eq!(count(&mut world, 0b11), Counted::PASSED);
    assert_eq!(count(&mut world, 0b11).limits, 0b10, "the third is the last");
    assert!(world.live(UP).is_stopped(0b11) && world.live(DOWN).is_stopped(0b10));
    assert!(!world.live(UP).is_stopped(0b01));
    // What does not fit counts nowhere.
    world.image.bounds = vec![watermark(10_000), limit_of(3)];
    let block = world.installed.block;
    assert!(world.blocks.set_bounds(block, 1, &limit_of(3)));
    let counted = count(&mut world, 0b11);
    assert_eq!(counted.action, Some(LimitAction::Drop));
    assert_eq!([0, 1].map(|slot| world.octets(slot)[0]), [2000, 3]);
}

fn limit_of(most: u64) -> Bounds {
    Bounds {
        watermarks: Volumes::NONE,
        limit: Some(CounterLimit {
            octets: Volumes::of_total(most),
            action: LimitAction::Drop,
        }),
    }
}

/// The plain model of one URR.
struct Model {
    bounds: Bounds,
    count: UrrCount,
    reported: [bool; 3],
    reached: [bool; 3],
    stopped: [bool; 2],
}

impl Model {
    fn sums(&self, direction: Direction, octets: u64) -> [u64; 3] {
        let mut each = [self.count.ul_octets, self.count.dl_octets];
        each[direction as usize] += octets;
        [each[0] + each[1], each[0], each[1]]
    }

    fn limits(&self) -> ([Option<u64>; 3], LimitAction) {
        self.bounds
            .limit
            .map_or(([None; 3], LimitAction::Event), |limit| {
                (list(limit.octets), limit.action)
            })
    }

    fn stop(&mut self, kind: usize) {
        self.reached[kind] = true;
        if self.limits().1 != LimitAction::Event {
            self.stopped = [self.stopped[0] || kind != 2, self.stopped[1] || kind != 1];
        }
    }

    /// Whether a packet does not fit under the limit.
    fn is_exceeded(&mut self, direction: Direction, octets: u64) -> bool {
        let ((limits, action), sums) = (self.limits(), self.sums(direction, octets));
        let mut is_exceeded = false;
        for kind in [0, 1 + direction as usize] {
            if action != LimitAction::Event
                && !self.reached[kind]
                && limits[kind].is_some_and(|most| sums[kind] > most)
            {
                is_exceeded = true;
            }
        }
        if is_exceeded {
            for kind in [0, 1 + direction as usize] {
                if limits[kind].is_some_and(|most| sums[kind] > most) {
                    self.stop(kind);
                }
            }
        }
        is_exceeded
    }

    /// Counts; returns whether a watermark, and a limit, is newly reached.
    fn count(&mut self, direction: Direction, octets: u64) -> [bool; 2] {
        let sums = self.sums(direction, octets);
        (self.count.ul_octets, self.count.dl_octets) = (sums[1], sums[2]);
        let (watermarks, (limits, _)) = (list(self.bounds.watermarks), self.limits());
        let mut new = [false; 2];
        // What was beyond the other direction's bound from the start is reported by a packet of that direction.
        for kind in [0, 1 + direction as usize] {
            if !self.reported[kind] && watermarks[kind].is_some_and(|at| sums[kind] >= at) {
                (self.reported[kind], new[0]) = (true, true);
            }
            if !self.reached[kind] && limits[kind].is_some_and(|at| sums[kind] >= at) {
                self.stop(kind);
                new[1] = true;
            }
        }
        new
    }
}

fn list(volumes: Volumes) -> [Option<u64>; 3] {
    [volumes.total, volumes.uplink, volumes.downlink]
}

#[test]
fn a_counter_that_is_looked_at_often_reports_nothing_twice_over_a_change() {
    let mut world = World::looking_every(&[watermark(100)], Some(64));
    let first = world.count(1, UP, 120);
    assert_eq!((first.watermarks, first.is_due), (1, true));
    world.replace(&ReplaceMap::SAME);
    let after: Vec<Counted> = (0..4).map(|_| world.count(1, UP, 31)).collect();
    assert!(after.iter().all(|counted| counted.watermarks == 0));
    let due: Vec<bool> = after.iter().map(|counted| counted.is_due).collect();
    assert_eq!(due, [false, true, false, true]);
    assert_eq!(world.octets(0), [244, 0]);
    // A block without bounds has room for them, too.
    let mut plain = World::looking_every(&[Bounds::NONE], Some(64));
    let block = plain.installed.block;
    assert!(plain.blocks.set_bounds(block, 0, &watermark(10)));
    assert_eq!(plain.count(1, DOWN, 10).watermarks, 1);
}

/// Bounds that nothing has reached at the start.
fn bounds() -> impl Strategy<Value = Bounds> {
    let volumes = || {
        let octets = || prop::option::of((0u32..20).prop_flat_map(|magnitude| 1u64..2 << magnitude));
        (octets(), octets(), octets()).prop_map(|(total, uplink, downlink)| Volumes {
            total,
            uplink,
            downlink,
        })
    };
    let action = prop::sample::select(vec![LimitAction::Event, LimitAction::Trap, LimitAction::Drop]);
    (volumes(), prop::option::of((volumes(), action))).prop_map(|(watermarks, limit)| Bounds {
        watermarks,
        limit: limit.map(|(octets, action)| CounterLimit { octets, action }),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn bounds_act_at_the_very_packet(
        bounds in prop::collection::vec(bounds(), 1..4),
        every in prop::option::of(4u64..1 << 20),
        packets in prop::collection::vec((any::<bool>(), 0u64..8, 1u64..3000), 1..300),
    ) {
        let mut world = World::looking_every(&bounds, every);
        // What each slot has counted since it was looked at last.
        let mut since = [0; 3];
        let mut mark = world.blocks.marked(world.installed.block);
        let fresh = |&bounds: &Bounds| Model {
            bounds, count: UrrCount::default(), reported: [false; 3], reached: [false; 3], stopped: [false; 2],
        };
        let mut models: Vec<Model> = bounds.iter().map(fresh).collect();
        for (downlink, urrs, octets) in packets {
            let direction = Direction::BOTH[usize::from(downlink)];
            let mine = |slot: usize| urrs >> slot & 1 == 1;
            let stopped = (0..models.len()).any(|slot| mine(slot) && models[slot].stopped[direction as usize]);
            prop_assert_eq!(world.live(direction).is_stopped(urrs), stopped);
            if stopped {
                continue;
            }
            let exceeded = (0..models.len()).filter(|&slot| mine(slot) && models[slot].is_exceeded(direction, octets));
            let exceeded = exceeded.fold(0, |mask, slot| mask | 1u64 << slot);
            let mut want = Counted { limits: exceeded, ..Counted::PASSED };
            if exceeded != 0 {
                let actions = models.iter().enumerate().filter(|(slot, _)| exceeded >> slot & 1 == 1);
                want.action = actions.map(|(_, model)| model.limits().1).max();
            } else {
                for slot in (0..models.len()).filter(|&slot| mine(slot)) {
                    let [watermark, limit] = models[slot].count(direction, octets);
                    want.watermarks |= u64::from(watermark) << slot;
                    want.limits |= u64::from(limit) << slot;
                }
            }
            let got = world.count(urrs, direction, octets);
            prop_assert_eq!(Counted { is_due: false, ..got }, want);
            for slot in (0..models.len()).filter(|&slot| mine(slot)) {
                let is_looked_at = got.is_due || got.action.is_some();
                since[slot] = if is_looked_at { 0 } else { since[slot] + octets };
                prop_assert!(every.is_none_or(|every| since[slot] < every), "{} octets", since[slot]);
            }
            prop_assert!(every.is_some() || !got.is_due);
            let is_counted = got.action.is_none() && (0..models.len()).any(mine);
            let before = std::mem::replace(&mut mark, world.blocks.marked(world.installed.block));
            prop_assert!(!is_counted || before != mark);
            for (slot, model) in (0..).zip(&models) {
                prop_assert_eq!(world.octets(slot), [model.count.ul_octets, model.count.dl_octets]);
            }
        }
    }
}

/// What was counted elsewhere counts as if it had been counted here.
fn adds_as_if_counted_here(packets: &[(bool, u64)], bounds: Bounds, moments: [u64; 2]) {
    let [mut here, mut elsewhere] = [World::new(&[bounds, bounds]), World::new(&[bounds, bounds])];
    let mut there = UrrCount::default();
    let at = moments.map(|moment| Nanos::from_millis(moment.min(1 << 40)));
    for (place, &(is_down, octets)) in packets.iter().enumerate() {
        let direction = [UP, DOWN][usize::from(is_down)];
        let now = if place == 0 { at[0] } else { at[1].max(at[0]) };
        let _ = here.live(direction).count(0b10, octets, Millisecond::of(now));
        if place == 0 {
            let _ = elsewhere
                .live(direction)
                .count(0b10, octets, Millisecond::of(now));
            continue;
        }
        let (packets, sum) = match direction {
            Direction::Uplink => (&mut there.ul_packets, &mut there.ul_octets),
            Direction::Downlink => (&mut there.dl_packets, &mut there.dl_octets),
        };
        (*packets, *sum) = (*packets + 1, *sum + octets);
    }
    let block = elsewhere.installed.block;
    assert!(elsewhere.blocks.add_count(block, 1, &there, at[1].max(at[0])));
    assert!(!elsewhere.blocks.add_count(block, 2, &there, at[1]));
    let of = |world: &World| {
        let view = world.blocks.get(world.installed.block).unwrap();
        (view.urr(1), view.urr(0), view.times(1))
    };
    assert_eq!(of(&elsewhere), of(&here));
    let reached =
        [&mut here, &mut elsewhere].map(|world| world.blocks.look_at_bounds(world.installed.block, 1));
    assert_eq!(reached[0], reached[1]);
}

proptest! {
    #[test]
    fn counts_of_elsewhere_are_added(
        packets in prop::collection::vec((any::<bool>(), 0u64..3000), 2..40),
        octets in prop::option::of(0u64..60_000),
        moments: [u64; 2],
    ) {
        let bounds = octets.map_or(Bounds::NONE, watermark);
        adds_as_if_counted_here(&packets, bounds, moments);
    }
}

#[test]
fn very_many_packets_of_elsewhere_run_over_into_what_is_rare() {
    let mut world = World::new(&[Bounds::NONE]);
    let block = world.installed.block;
    let count = UrrCount {
        ul_packets: (1 << 40) + 5,
        ul_octets: 1 << 50,
        ..UrrCount::default()
    };
    for _ in 0..3 {
        assert!(world.blocks.add_count(block, 0, &count, Nanos::from_secs(1)));
        world.count(1, UP, 7);
    }
    let sum = world.blocks.get(block).unwrap().urr(0).unwrap();
    assert_eq!(
        (sum.ul_packets, sum.ul_octets),
        (3 * ((1 << 40) + 6), 3 * ((1 << 50) + 7))
    );
    assert_eq!((sum.dl_packets, sum.dl_octets), (0, 0));
}
