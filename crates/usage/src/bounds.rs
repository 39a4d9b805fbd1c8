//! The bounds of counters: how far each may count until its worker notifies control, and until it stops.

use flow::{Bounds, UrrCount};
use rules::image::Counter;
use rules::model::{Urr, UrrId};

/// The bounds of the counters of one URR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UrrBounds {
    /// Of the counter of octets.
    pub(crate) volume: Bounds,
    /// Of the counter of events; none where there is no such counter.
    pub(crate) events: Bounds,
}

impl UrrBounds {
    pub(crate) const NONE: Self = Self {
        volume: Bounds::NONE,
        events: Bounds::NONE,
    };
}

/// The bounds of counters by their slots: of each URR that of octets, then of each that has one that of events.
pub(crate) fn by_slot(urrs: &[Urr], bounds: &[UrrBounds]) -> Vec<Bounds> {
    let events = urrs.iter().zip(bounds).filter(|(urr, _)| urr.counts_events());
    let events = events.map(|(_, bounds)| bounds.events);
    bounds.iter().map(|one| one.volume).chain(events).collect()
}

/// Each URR with the bounds of its counter of octets and of that of events, of bounds by slot; none where there are
/// none.
pub(crate) fn by_urr<'a>(
    urrs: &'a [Urr],
    bounds: &'a [Bounds],
) -> impl Iterator<Item = (&'a Urr, Option<UrrBounds>)> {
    let mut events = bounds.iter().skip(urrs.len()).copied();
    urrs.iter().zip(0..).map(move |(urr, slot)| {
        let events = match urr.counts_events() {
            true => events.next().unwrap_or_default(),
            false => Bounds::NONE,
        };
        (
            urr,
            bounds.get::<usize>(slot).map(|volume| UrrBounds {
                volume: *volume,
                events,
            }),
        )
    })
}

/// The bounds of a session's counters at a worker that has it for a while beside another one, where its counters begin
/// at 0: of what the limits allow, the other, which has `counted` so much, has kept half.
pub fn share_limits(counters: &[Counter], bounds: &mut [Bounds], counted: &[(UrrId, UrrCount)]) {
    for (counter, bounds) in counters.iter().zip(bounds) {
        let count = counted.iter().find(|(id, _)| *id == counter.urr());
        let count = count.map(|(_, count)| *count).unwrap_or_default();
        let [total, uplink, downlink] = match counter {
            Counter::Volume(_) => [
                count.ul_octets.saturating_add(count.dl_octets),
                count.ul_octets,
                count.dl_octets,
            ],
            Counter::Events(_) => [count.events, 0, 0],
        };
        let rest = |limit: Option<u64>, used: u64| {
            limit.map(|limit| {
                let left = limit.saturating_sub(used);
                left - left / 2
            })
        };
        if let Some(limit) = &mut bounds.limit {
            limit.octets.total = rest(limit.octets.total, total);
            limit.octets.uplink = rest(limit.octets.uplink, uplink);
            limit.octets.downlink = rest(limit.octets.downlink, downlink);
        }
    }
}
