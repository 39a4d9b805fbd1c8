//! What a change of a session does to its buffered packets: they are released, discarded, or wait on.

use flow::{Direction, SessionIndex};
use rules::image::{Buffering, ImmediateActions, SessionImage};

use crate::deferred::buffering::{Buffers, QueueKey};
use crate::io::PacketMetadata;
use crate::sessions::Sessions;
use packet::PacketBuf;

/// Releases the packets that wait since a quota was exhausted, if there may be a new one (TS 29.244 §5.2.2.3.1). Those
/// without one wait again.
pub(crate) fn release_granted<B: PacketBuf + PacketMetadata>(
    sessions: &Sessions,
    buffers: &mut Buffers<B>,
    session: SessionIndex,
) {
    let Some(slot) = sessions.at(session) else {
        return;
    };
    let Some(block) = sessions.blocks.get(slot.installed.block) else {
        return;
    };
    let image = &slot.image;
    for action in image.quota_actions.iter() {
        let events = image.event_slots().filter(|event| event.urr == action.urr);
        let counters = events.fold(1u64 << action.urr, |all, event| all | 1 << event.slot);
        let is_stopped = |direction| block.stopped(direction) & counters != 0;
        let waiting = action.forward.and_then(|forward| image.buffering(forward));
        if let Some(Buffering { far, .. }) = waiting
            && !Direction::BOTH.into_iter().all(is_stopped)
            && !image.rules.pdrs().iter().any(|pdr| pdr.may_follow(far))
        {
            buffers.flush(QueueKey { session, far });
        }
    }
}

/// Packets of a FAR that buffers no longer, or that wait for a next hop, are released, unless the change discards them.
/// So are packets of a session that has moved: they go to its new worker.
pub(crate) fn settle_buffered<B: PacketBuf + PacketMetadata>(
    sessions: &Sessions,
    buffers: &mut Buffers<B>,
    old: &SessionImage,
    immediate: &ImmediateActions,
    is_other_workers: bool,
) {
    let discards = immediate.discards_buffered;
    let new = sessions.at(old.session).map(|slot| &slot.image);
    let has_moved = new.is_none() && is_other_workers;
    for (slot, far) in (0..).zip(old.rules.fars()) {
        let owner = QueueKey {
            session: old.session,
            far: far.id,
        };
        if buffers.has_parked() && buffers.is_parked(owner) {
            match new {
                _ if discards => buffers.discard(owner),
                None if !has_moved => buffers.discard(owner),
                _ => buffers.flush(owner),
            }
            continue;
        }
        let Some(Buffering { far, .. }) = old.buffering(slot) else {
            continue;
        };
        let still = new.and_then(|new| {
            let slot = new.rules.fars().iter().position(|other| other.id == far)?;
            new.buffering(slot as u8).map(|_| new.rules.fars().get(slot))
        });
        match still {
            _ if discards => buffers.discard(owner),
            Some(new) if new == old.rules.fars().get(usize::from(slot)) => {}
            Some(_) => buffers.report_again(owner),
            None if new.is_some() || has_moved => buffers.flush(owner),
            None => buffers.discard(owner),
        }
    }
}
