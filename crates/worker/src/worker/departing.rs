//! Packets that leave the queues before ports, and what becomes of those that are lost there.

use flow::{Nanos, SessionIndex};
use rules::image::{SessionChange, SessionImage};

use super::state::Worker;
use crate::ApplyError;
use crate::egress::queueing::packets::Departing;
use crate::io::Io;

impl<I: Io> Worker<I> {
    /// Sends the packets whose turn it is.
    #[inline(never)]
    pub(super) fn depart(&mut self, now: Nanos) {
        let Some(queueing) = &mut self.deferred.queueing else {
            return;
        };
        let mut others = std::mem::take(&mut self.departing);
        queueing.depart(
            &mut self.ports.io,
            &self.ports.tx,
            &mut self.stats,
            &mut others,
            now,
        );
        self.drop_lost_at_egress();
        self.send_departing(&mut others);
        self.departing = others;
        self.deferred.count(&mut self.stats);
        self.release(now);
    }

    /// Sends packets that leave by themselves.
    fn send_departing(&mut self, departing: &mut Vec<Departing<I::Buf>>) {
        for one in departing.drain(..) {
            self.ports.tx.send_departing(
                &mut self.ports.io,
                &mut self.stats,
                &mut self.sessions.blocks,
                one,
                &mut self.fragmenter,
            );
        }
    }

    /// Drops what was lost in queues, and takes back what it has counted.
    #[inline]
    pub(super) fn drop_lost_at_egress(&mut self) {
        let Some(queueing) = &mut self.deferred.queueing else {
            return;
        };
        while queueing.has_lost()
            && let Some(lost) = queueing.take_lost()
        {
            lost.charge.credit_back(&mut self.sessions.blocks);
            self.ports.drop(&mut self.stats, lost.packet, lost.reason);
        }
    }

    /// A session is about to change: packets that wait leave at once where the change would have others overtake them,
    /// or their counts could not be taken back any more; and they are lost with a session that ends, so that its last
    /// counts are without them.
    ///
    /// # Errors
    /// [`ApplyError::TableFull`]: there is no room for its queues.
    pub(super) fn prepare_queues(&mut self, change: &SessionChange, now: Nanos) -> Result<(), ApplyError> {
        let Some(queueing) = &mut self.deferred.queueing else {
            return Ok(());
        };
        let before = |session: SessionIndex| self.sessions.at(session).map(|slot| &*slot.image);
        let mut leaving = Vec::new();
        match change {
            SessionChange::Install(image) => {
                if !queueing.has_room(image) {
                    return Err(ApplyError::TableFull);
                }
            }
            SessionChange::Replace(image, immediate) => {
                if !queueing.has_room(image) {
                    return Err(ApplyError::TableFull);
                }
                let changes = before(image.session).is_some_and(|before| queueing.must_empty(image, before));
                if changes || !immediate.end_markers.is_empty() {
                    leaving = queueing.empty(image.session, now);
                }
            }
            SessionChange::Remove(session) => queueing.forget(*session, now),
            SessionChange::Bound(..) => {}
        }
        self.drop_lost_at_egress();
        self.send_departing(&mut leaving);
        Ok(())
    }

    /// A session may have another image than before, which is given.
    pub(super) fn follow_with_queues(
        &mut self,
        session: SessionIndex,
        before: Option<&SessionImage>,
        now: Nanos,
    ) {
        if let (Some(queueing), Some(slot)) = (&mut self.deferred.queueing, self.sessions.at(session)) {
            queueing.follow(&slot.image, before, now);
        }
    }
}
