//! A session as objects of the FlowOp contract, as it is now.

use flow::contract::{CounterKind, CounterWeight, Object, QueueTokens, SharedNodeId};
use flow::meter::{MeterSpec, SharedId};
use flow::{BlockImage, Bounds, Direction, SessionBlock, UrrCount, Verdict, Volumes};
use rules::image::{EgressQueues, SessionImage};

use super::counter_places::CounterPlaces;
use super::queues::queues_of;
use crate::sessions::{Sessions, Slot};

/// What each counter of a block counts, by slot.
pub(super) fn counter_kinds(block: &BlockImage) -> impl Iterator<Item = (u8, CounterKind)> + '_ {
    let first_before = block.urrs.saturating_sub(block.before_qos);
    (0..block.urrs).map(move |slot| {
        let weight = block.weights.iter().find(|weight| weight.slot == slot);
        let kind = CounterKind {
            before_qos: slot >= first_before,
            events: block.units >> slot & 1 == 1,
            weight: weight.map(|weight| CounterWeight {
                of: weight.of,
                times: weight.times,
            }),
        };
        (slot, kind)
    })
}

/// How many slots of QERs a session has: those of packet rates have no mark, and those whose rates queues keep no
/// meter.
pub(super) fn qers(image: &SessionImage) -> u8 {
    let block = &image.block;
    let plans = Direction::BOTH
        .into_iter()
        .filter_map(|direction| image.egress_queues(direction));
    let of_queues = plans.map(|plan| {
        let markings = plan.queues.iter().map(|queue| queue.marking);
        let slots = markings.chain(plan.shapers.iter().map(|shaper| shaper.slot));
        let slots = slots.filter(|slot| *slot != Verdict::NO_MARK);
        slots.map(|slot| usize::from(slot) + 1).max().unwrap_or(0)
    });
    let of_queues = of_queues.max().unwrap_or(0);
    block.marks.len().max(block.meters.len()).max(of_queues) as u8
}

/// The objects of a session but for its flows and their generation, in the order in which they need each other. Meters
/// hold what they hold now; counters begin from zero, with what their bounds still allow.
pub(super) fn objects(
    sessions: &Sessions,
    slot: &Slot,
    node: impl Fn(&EgressQueues) -> Option<SharedNodeId>,
) -> Vec<Object> {
    let block = &*slot.image.block;
    let Some(view) = sessions.blocks.get(slot.installed.block) else {
        return Vec::new();
    };
    let mut objects = Vec::new();
    objects.extend((0..).zip(&block.forwards).map(|(slot, forward)| Object::Forward {
        slot,
        forward: *forward,
    }));
    objects.extend((block.shared != SharedId::NONE).then_some(Object::Share(block.shared)));
    objects.extend(meters(block, &view));
    objects.extend((0..qers(&slot.image)).map(|slot| {
        let pair = block.meters.get(usize::from(slot)).copied().unwrap_or_default();
        Object::Qer {
            slot,
            mark: block.marks.get(usize::from(slot)).copied().unwrap_or_default(),
            closed: Direction::BOTH.map(|way| view.closed(way) >> slot & 1 == 1),
            metered: pair.map(|meter| meter.is_some()),
        }
    }));
    let mut counters: Vec<_> = counters(block, &view).collect();
    counters.insert(CounterPlaces::of(block).all().into(), counter_of_all(block));
    objects.extend(counters);
    let queues = Direction::BOTH.into_iter().filter_map(|direction| {
        let plan = slot.image.egress_queues(direction)?;
        Some(queues_object(direction, plan, node(plan)?, None))
    });
    objects.extend(queues);
    objects
}

/// The queues of a direction, with what is left of their rates.
pub(super) fn queues_object(
    direction: Direction,
    plan: &EgressQueues,
    node: SharedNodeId,
    tokens: Option<QueueTokens>,
) -> Object {
    Object::Queues {
        direction,
        queues: Box::new(queues_of(plan, node)),
        tokens: tokens.map(Box::new),
    }
}

/// The counters of a session, which begin from zero: with what their bounds still allow.
fn counters<'a>(block: &'a BlockImage, view: &'a SessionBlock<'_>) -> impl Iterator<Item = Object> + 'a {
    let places = CounterPlaces::of(block);
    counter_kinds(block).map(move |(slot, kind)| {
        let bounds = block.bounds.get(usize::from(slot)).copied().unwrap_or_default();
        let counted = view.urr(slot).unwrap_or_default();
        let weight = kind.weight.map(|weight| CounterWeight {
            of: places.of_slot(weight.of),
            ..weight
        });
        Object::Counter {
            slot: places.of_slot(slot),
            kind: CounterKind { weight, ..kind },
            bounds: left_of(&bounds, counted),
        }
    })
}

/// The counter of all that is forwarded.
fn counter_of_all(block: &BlockImage) -> Object {
    Object::Counter {
        slot: CounterPlaces::of(block).all(),
        kind: CounterKind::default(),
        bounds: Bounds::NONE,
    }
}

/// Those of them that have bounds.
pub(super) fn bounded_counters<'a>(
    block: &'a BlockImage,
    view: &'a SessionBlock<'_>,
) -> impl Iterator<Item = Object> + 'a {
    let has_bounds =
        |object: &Object| matches!(object, Object::Counter { bounds, .. } if *bounds != Bounds::NONE);
    counters(block, view).filter(has_bounds)
}

/// The meters of a session, with what they hold now, and where it shares the rate, which ones it passes instead.
fn meters<'a>(block: &'a BlockImage, view: &'a SessionBlock<'_>) -> impl Iterator<Item = Object> + 'a {
    let pairs = (0..).zip(&block.meters);
    pairs.flat_map(move |(qer, pair)| {
        let both = Direction::BOTH.into_iter().zip(pair);
        both.filter_map(move |(direction, spec)| {
            Some(Object::Meter {
                qer,
                direction,
                spec: (*spec)?,
                state: view
                    .meter(qer, direction)
                    .filter(|meter| meter.shared().is_none())
                    .map(|meter| meter.state()),
            })
        })
    })
}

/// Those of them that are its own.
pub(super) fn own_meters<'a>(
    block: &'a BlockImage,
    view: &'a SessionBlock<'_>,
) -> impl Iterator<Item = Object> + 'a {
    let is_shared = |object: &Object| {
        matches!(
            object,
            Object::Meter {
                spec: MeterSpec::Shared(_),
                ..
            }
        )
    };
    meters(block, view).filter(move |object| !is_shared(object))
}

/// The bounds of a counter that begins anew, of which `counted` is taken off. What has been reported is not reported
/// again.
fn left_of(bounds: &Bounds, counted: UrrCount) -> Bounds {
    let [ul, dl] = [counted.ul_octets, counted.dl_octets];
    let is_ahead = |mark: Option<u64>, octets: u64| mark.filter(|mark| *mark > octets);
    let watermarks = Volumes {
        total: is_ahead(bounds.watermarks.total, ul.saturating_add(dl)),
        uplink: is_ahead(bounds.watermarks.uplink, ul),
        downlink: is_ahead(bounds.watermarks.downlink, dl),
    };
    let ahead = Bounds {
        watermarks,
        limit: bounds.limit,
    };
    ahead.lowered(counted, 1, 1)
}

#[cfg(test)]
mod tests {
    use flow::{CounterLimit, LimitAction};

    use super::*;

    #[test]
    fn what_is_left_of_bounds_is_what_may_still_be_counted() {
        let counted = UrrCount {
            ul_octets: 600,
            dl_octets: 500,
            ..UrrCount::default()
        };
        let limit = CounterLimit {
            octets: Volumes {
                total: Some(2000),
                uplink: Some(600),
                downlink: Some(400),
            },
            action: LimitAction::Drop,
        };
        let bounds = Bounds {
            watermarks: Volumes {
                total: Some(1100),
                uplink: Some(601),
                downlink: None,
            },
            limit: Some(limit),
        };
        let left = left_of(&bounds, counted);
        let watermarks = Volumes {
            total: None,
            uplink: Some(1),
            downlink: None,
        };
        assert_eq!(left.watermarks, watermarks, "that of both was reported");
        let octets = Volumes {
            total: Some(900),
            uplink: Some(0),
            downlink: Some(0),
        };
        assert_eq!(left.limit, Some(CounterLimit { octets, ..limit }));
    }
}
