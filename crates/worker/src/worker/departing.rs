//! Packets that leave the queues before ports, and what becomes of those that are lost there.

use flow::{Nanos, SessionIndex, WorkerId};
use rules::image::{MeterShare, SessionChange, SessionImage};

use super::state::Worker;
use crate::ApplyError;
use crate::burst::credit::Charge;
use crate::control_channel::{EgressLease, Event};
use crate::egress::ports::OwnPacket;
use crate::egress::queueing::departures::Exit;
use crate::egress::queueing::moved_queues::MovedQueues;
use crate::egress::queueing::packets::Departing;
use crate::egress::queueing::reports::QueueReport;
use crate::io::Io;
use crate::trace::tracer::Pending;

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
        if self.config.workers > 1 {
            self.take_queues();
        }
        let Some(queueing) = &mut self.deferred.queueing else {
            return;
        };
        queueing.depart(&mut exit!(self), now);
        self.drop_lost_at_egress();
        self.deferred.count(&mut self.stats);
        self.release(now);
    }

    /// Lets reports of packets of the burst that wait be complete when these have left their queues.
    pub(super) fn keep_queue_reports(&mut self) {
        let (Some(queueing), Some(tracer)) = (&mut self.deferred.queueing, &mut self.tracer) else {
            return;
        };
        for pending in std::mem::take(&mut tracer.pending) {
            let Some(running) = tracer.running.get_mut(pending.request) else {
                continue;
            };
            let report = QueueReport {
                request: running.id,
                traced: pending.traced,
            };
            match queueing.keep_report(pending.index, report, &self.sessions) {
                Some(QueueReport { traced, .. }) => tracer.pending.push(Pending { traced, ..pending }),
                None => running.waiting += 1,
            }
        }
        queueing.forget_reported();
    }

    /// Reports packets that have left their queues; of requests that have ended also those that wait.
    #[cold]
    pub(super) fn report_left_queues(&mut self, now: Nanos) {
        let (Some(queueing), Some(tracer)) = (&mut self.deferred.queueing, &mut self.tracer) else {
            return;
        };
        tracer
            .late(now)
            .for_each(|request| queueing.give_up_reports(request, now));
        while let Some(report) = queueing.next_report() {
            tracer.complete(report);
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
            lost.charge.credit_back_waiting(&mut self.sessions.blocks);
            self.ports.drop(&mut self.stats, lost.packet, lost.reason);
        }
    }

    /// A session is about to change: packets that wait leave at once where the change would have others overtake them,
    /// or their counts could not be taken back any more. They go along with a session that another worker has from now
    /// on, and are lost with one that ends, so that its last counts are without them.
    ///
    /// # Errors
    /// [`ApplyError::TableFull`]: there is no room for the queues of a new session.
    pub(super) fn prepare_queues(&mut self, change: &SessionChange, now: Nanos) -> Result<(), ApplyError> {
        if self.deferred.queueing.is_none() {
            return Ok(());
        }
        match change {
            SessionChange::Install(image) => {
                let queueing = self.deferred.queueing.as_ref();
                if queueing.is_some_and(|queueing| !queueing.has_room(image)) {
                    return Err(ApplyError::TableFull);
                }
            }
            SessionChange::Replace(image, immediate) => {
                if image.meter_share == MeterShare::Whole {
                    self.settle_queues(image.session, now);
                }
                self.empty_queues(image, !immediate.end_markers.is_empty(), now);
            }
            SessionChange::Remove(session) => match self.next_owner(*session) {
                Some(owner) => self.give_queues(*session, owner, now),
                None => self.forget_queues(*session, now),
            },
            SessionChange::Bound(..) => {}
        }
        self.drop_lost_at_egress();
        Ok(())
    }

    /// Lets all packets of a session that wait leave at once, if `must_leave` or the change to an image asks for it.
    fn empty_queues(&mut self, image: &SessionImage, must_leave: bool, now: Nanos) {
        let Some(queueing) = &mut self.deferred.queueing else {
            return;
        };
        let before = self.sessions.at(image.session).map(|slot| &*slot.image);
        let changes = before.is_some_and(|before| queueing.must_empty(image, before));
        if changes || must_leave {
            for departing in queueing.empty(image.session, now) {
                queueing.stand(departing);
            }
            queueing.send(&mut exit!(self), now);
        }
    }

    fn forget_queues(&mut self, session: SessionIndex, now: Nanos) {
        if let Some(queueing) = &mut self.deferred.queueing {
            queueing.forget(session, now);
        }
    }

    /// The worker that has a session from now on, if that is another one.
    fn next_owner(&self, session: SessionIndex) -> Option<WorkerId> {
        let slot = self.sessions.at(session)?;
        let owner = self.worker_selection.of_bucket(slot.image.bucket);
        (owner != self.config.id).then_some(owner)
    }

    /// Gives what waits of a session to the worker that has it from now on.
    #[cold]
    fn give_queues(&mut self, session: SessionIndex, to: WorkerId, now: Nanos) {
        let (Some(queueing), Some(slot)) = (&mut self.deferred.queueing, self.sessions.at(session)) else {
            return;
        };
        let Some(mut moved) = queueing.give_away(&slot.image, now) else {
            return;
        };
        moved.counts = self.sessions.take_counts(session, moved.charges_mut());
        let packets = moved.len() as u64;
        match self.ports.io.give(to, Box::new(moved)) {
            Ok(()) => self.stats.moved_out += packets,
            Err(moved) => drop(moved.downcast().map(|moved| queueing.lose_moved(*moved))),
        }
    }

    /// Takes the queues that other workers have given. What waits in those of sessions that have ended is lost.
    #[inline]
    fn take_queues(&mut self) {
        while let Some(parcel) = self.ports.io.take_given() {
            let moved = parcel.downcast::<MovedQueues<I::Buf>>();
            let (Some(queueing), Ok(moved)) = (&mut self.deferred.queueing, moved) else {
                continue;
            };
            let moved = *moved;
            self.stats.moved_in += moved.len() as u64;
            let image = self.sessions.at(moved.session).map(|slot| &slot.image);
            let is_coming =
                |image: &SessionImage| image.seid == moved.seid && image.meter_share != MeterShare::Whole;
            match image.is_some_and(|image| is_coming(image)) {
                true => queueing.keep_moved(moved),
                false => queueing.lose_moved(moved),
            }
        }
    }

    /// A session is whole here from now on: its queues are, if another worker had it, too.
    #[cold]
    fn settle_queues(&mut self, session: SessionIndex, now: Nanos) {
        let slot = self.sessions.at(session);
        if slot.is_none_or(|slot| slot.image.meter_share == MeterShare::Whole) {
            return;
        }
        self.take_queues();
        let Some(queueing) = &mut self.deferred.queueing else {
            return;
        };
        let mut given: Vec<_> = std::iter::from_fn(|| queueing.next_moved(session)).collect();
        for moved in &mut given {
            self.sessions.add_counts(session, &mut moved.counts, now);
        }
        if let Some(slot) = self.sessions.at(session) {
            queueing.settle(&slot.image, slot.installed, given, now);
        }
    }

    /// Sends an End Marker of a session, behind what stands before its port.
    pub(super) fn send_marker(&mut self, session: SessionIndex, marker: OwnPacket<I::Buf>) {
        let OwnPacket { port, packet } = marker;
        let port = self.ports.lags.way(port, &packet);
        match &mut self.deferred.queueing {
            Some(queueing) if queueing.has_standing(port) => queueing.stand(Departing {
                packet,
                charge: Charge::NONE,
                session,
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
            if let Some(before) = before {
                queueing.recharge(&slot.image, before, slot.installed);
            }
        }
    }
}
