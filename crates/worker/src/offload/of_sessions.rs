//! What sessions have that leave and come, and what is counted between.

use flow::contract::Capabilities;
use flow::meter::MeterSpec;
use flow::{BlockRef, Blocks, Direction, Nanos, SessionIndex, UrrCount};

use crate::sessions::Sessions;

/// Adds what was forwarded of a session to the total of its group.
pub(super) fn add_to_group(blocks: &mut Blocks, block: BlockRef, new: &UrrCount) {
    if let Some(group) = blocks.group(block) {
        let groups = blocks.groups_mut();
        groups.add(group, Direction::Uplink, new.ul_packets, new.ul_octets);
        groups.add(group, Direction::Downlink, new.dl_packets, new.dl_octets);
    }
}

/// The meters of a session that are its own.
pub(super) fn metered(session: SessionIndex, sessions: &Sessions) -> Vec<(u8, Direction)> {
    let Some(slot) = sessions.at(session) else {
        return Vec::new();
    };
    let pairs = (0..).zip(&slot.image.block.meters);
    let has = |(qer, pair): (u8, &[Option<MeterSpec>; 2])| {
        let pair = *pair;
        let is_own = |spec: MeterSpec| !matches!(spec, MeterSpec::Shared(_));
        let has = move |way: &Direction| pair[*way as usize].is_some_and(is_own);
        Direction::BOTH.into_iter().filter(has).map(move |way| (qer, way))
    };
    pairs.flat_map(has).collect()
}

/// The directions in which a session has queues.
pub(super) fn queued(session: SessionIndex, sessions: &Sessions) -> Vec<Direction> {
    let Some(slot) = sessions.at(session) else {
        return Vec::new();
    };
    let has = |direction: &Direction| slot.image.egress_queues(*direction).is_some();
    Direction::BOTH.into_iter().filter(has).collect()
}

/// How many queues a session has.
pub(super) fn number_of_queues(session: SessionIndex, sessions: &Sessions) -> usize {
    let Some(slot) = sessions.at(session) else {
        return 0;
    };
    let plans = Direction::BOTH
        .into_iter()
        .filter_map(|direction| slot.image.egress_queues(direction));
    plans.map(|plan| plan.queues.len()).sum()
}

/// Whether more queues are within a worker's share of the accelerator's, with those that are away. A worker that is
/// alone asks for them.
pub(super) fn are_in_share(more: usize, away: usize, can: &Capabilities, workers: usize) -> bool {
    let room = can.queues.filter(|_| workers > 1 && more > 0);
    room.is_none_or(|room| away + more <= (room.queues as usize / workers).max(1))
}

/// What was counted between two moments.
pub(super) const fn since(now: &UrrCount, before: &UrrCount) -> UrrCount {
    UrrCount {
        ul_packets: now.ul_packets.saturating_sub(before.ul_packets),
        ul_octets: now.ul_octets.saturating_sub(before.ul_octets),
        dl_packets: now.dl_packets.saturating_sub(before.dl_packets),
        dl_octets: now.dl_octets.saturating_sub(before.dl_octets),
        events: now.events.saturating_sub(before.events),
    }
}

/// Seconds of the clock.
pub(super) const fn seconds(moment: Nanos) -> u32 {
    (moment.0 / 1_000_000_000) as u32
}
