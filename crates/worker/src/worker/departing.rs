//! Packets that leave the queues before ports, and what becomes of those that are lost there.

use flow::{Nanos, SessionIndex};
use rules::image::{SessionChange, SessionImage};

use super::state::Worker;
use crate::ApplyError;
use crate::burst::credit::Charge;
use crate::control_channel::{EgressLease, Event};
use crate::egress::ports::OwnPacket;
use crate::egress::queueing::departures::Exit;
use crate::egress::queueing::packets::Departing;
use crate::io::Io;

/// What packets need to leave, of a worker.
macro_rules! exit {
    ($worker:expr) => {
        Exit {
            io: &mut $worker.ports.io,
            tx: &mut $worker.ports.tx,
            lags: &$worker.ports.lags,
            stats: &mut $worker.stats,
            blocks: &mut $worker.sessions.blocks,
            fragmenter: &mut $worker.fragmenter,
        }
    };
}

impl<I: Io> Worker<I> {
    /// Sends the packets whose turn it is.
    #[inline(never)]
    pub(super) fn depart(&mut self, now: Nanos) {
        let Some(queueing) = &mut self.deferred.queueing else {
            return;
        };
        queueing.depart(&mut exit!(self), now);
        self.drop_lost_at_egress();
        self.deferred.count(&mut self.stats);
        self.release(now);
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
    /// [`ApplyError::TableFull`]: there is no room for the queues of a new session.
    pub(super) fn prepare_queues(&mut self, change: &SessionChange, now: Nanos) -> Result<(), ApplyError> {
        let Some(queueing) = &mut self.deferred.queueing else {
            return Ok(());
        };
        match change {
            SessionChange::Install(image) => {
                if !queueing.has_room(image) {
                    return Err(ApplyError::TableFull);
                }
            }
            SessionChange::Replace(image, immediate) => {
                let before = self.sessions.at(image.session).map(|slot| &*slot.image);
                let changes = before.is_some_and(|before| queueing.must_empty(image, before));
                if changes || !immediate.end_markers.is_empty() {
                    for departing in queueing.empty(image.session, now) {
                        queueing.stand(departing);
                    }
                    queueing.send(&mut exit!(self), now);
                }
            }
            SessionChange::Remove(session) => queueing.forget(*session, now),
            SessionChange::Bound(..) => {}
        }
        self.drop_lost_at_egress();
        Ok(())
    }

    /// Sends an End Marker, behind what stands before its port.
    pub(super) fn send_marker(&mut self, marker: OwnPacket<I::Buf>) {
        let OwnPacket { port, packet } = marker;
        let port = self.ports.lags.way(port, &packet);
        match &mut self.deferred.queueing {
            Some(queueing) if queueing.has_standing(port) => queueing.stand(Departing {
                packet,
                charge: Charge::NONE,
                port,
                split: None,
                node: None,
            }),
            _ => self.ports.send_own(&mut self.stats, OwnPacket { port, packet }),
        }
    }

    /// What nodes before ports have sent, and who waits.
    pub(super) fn report_egress_demands(&mut self) {
        let queueing = self.deferred.queueing.as_mut();
        let demands = queueing.map_or_else(Box::default, |queueing| queueing.take_demands());
        self.events
            .push_response(&mut self.stats, Event::EgressDemands { demands });
    }

    /// Nodes before ports have these parts of their rates from now on.
    pub(super) fn set_egress_leases(&mut self, leases: &[EgressLease], now: Nanos) {
        if let Some(queueing) = &mut self.deferred.queueing {
            queueing.set_leases(leases, now);
        }
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
