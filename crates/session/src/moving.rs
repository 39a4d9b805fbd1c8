//! A bucket moves from one worker to another, with all its sessions, without losing a packet or a count.
//!
//! 1. Every session of the bucket, once nothing is under way in it, is installed at the new owner beside the old one,
//!    with counters that start at 0. From then on its requests wait. New sessions of the bucket wait, too. If it has
//!    meters, the old owner first gives up half of their bursts and all that they would earn; at the new owner they
//!    start empty, with the other half, and earn. So both never admit more than one meter would.
//!    Of packet rates it gives the new one half of what is left, and begins no unit of time any more.
//! 2. All workers are told the bucket's new owner, with a fence. Then nobody hands packets to the old owner any more.
//! 3. What has been handed to it before lies in its inbox and is served there: it drains.
//! 4. The sessions are removed at the old owner. What they counted there is added to what control holds; their meters
//!    get their whole bursts back, and requests go on.
//!
//! When the new owner has no room, or the deadline passes before 3, the bucket goes back the same way: every packet
//! was served by one of the two, and both counts are kept. Packets of one flow may be served by both workers at the
//! same time for a moment, so they may leave in another order than they came in.

use flow::{Bucket, Nanos, SessionIndex, WorkerId};
use rules::image::{
    DroppedCount, ImmediateActions, MeterShare, PacketsLeft, SessionChange, SessionImage, UsageSnapshot,
};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::effect::{Effect, WorkerFault};
use crate::progress::{Op, Role};
use crate::session::{Phase, Session, State};
use crate::sessions::Sessions;
use rules::steering::SteerChange;

/// Sessions that are with a worker at the same time: what one poll has to do for a move is bounded by it.
const WINDOW: u32 = 64;

/// Why a bucket is where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveFault {
    /// There is no such worker.
    NoSuchWorker,
    /// The worker owns the bucket already.
    Owned,
    /// Another bucket is on its way.
    Busy,
    /// The new owner has no room for the sessions, or an association no share of it.
    NoResources,
    /// A session could not be brought to the new owner for another reason: a bug.
    Failed,
    /// The deadline passed.
    TooLate,
}

impl fmt::Display for MoveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MoveFault::NoSuchWorker => "there is no such worker",
            MoveFault::Owned => "the worker owns the bucket already",
            MoveFault::Busy => "another bucket is on its way",
            MoveFault::NoResources => "the new owner has no room for the bucket's sessions",
            MoveFault::Failed => "a session could not be installed at the new owner",
            MoveFault::TooLate => "the workers did not confirm in time",
        })
    }
}

impl core::error::Error for MoveFault {}

/// What came of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The bucket.
    pub bucket: Bucket,
    /// Who owned it.
    pub from: WorkerId,
    /// Who was to own it, and does if nothing went wrong.
    pub to: WorkerId,
    /// The sessions that moved, or why they are where they were.
    pub result: Result<usize, MoveFault>,
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Sessions are installed at the new owner.
    Installing,
    /// All workers are told.
    Flipping,
    /// The old owner serves what it was handed before.
    Draining,
    /// Sessions are removed at the old owner.
    Removing,
}

/// A move under way.
#[derive(Debug)]
pub(crate) struct Move {
    bucket: Bucket,
    /// Who has the bucket, and is to lose it. After a failure: the worker that it was to go to.
    from: WorkerId,
    to: WorkerId,
    stage: Stage,
    fault: Option<MoveFault>,
    deadline: Nanos,
    /// The number of the stage: answers to operations of earlier ones mean nothing.
    epoch: u64,
    /// Operations of the stage that were not yet answered.
    pending: u32,
    /// Sessions whose turn in the stage has not come.
    queue: VecDeque<SessionIndex>,
    /// Sessions that are not yet installed at the new owner.
    awaited: usize,
    /// Sessions that were sent to the new owner.
    twins: Vec<SessionIndex>,
    /// New sessions that wait until the steering is settled, each with the number of its change.
    held: Vec<(SessionIndex, u64, Option<Box<SessionImage>>)>,
}

impl Move {
    fn is_steering_unsettled(&self) -> bool {
        matches!(self.stage, Stage::Installing | Stage::Flipping)
    }

    /// When the move is given up, unless it is too late for that.
    fn deadline(&self) -> Option<Nanos> {
        (self.fault.is_none() && self.is_steering_unsettled()).then_some(self.deadline)
    }

    /// Begins a stage, with the sessions to go through.
    fn enter(&mut self, stage: Stage, epoch: u64, queue: VecDeque<SessionIndex>) {
        (self.stage, self.epoch, self.queue) = (stage, epoch, queue);
        self.pending = 0;
    }
}

impl Sessions {
    /// Moves `bucket` to the worker `to`; what came of it is told by [`poll_moved`](Sessions::poll_moved). One bucket
    /// moves at a time.
    ///
    /// # Errors
    /// When the move cannot begin.
    pub fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        let from = self.owner(bucket);
        if to.0 >= self.config.workers {
            return Err(MoveFault::NoSuchWorker);
        }
        if self.moving.is_some() {
            return Err(MoveFault::Busy);
        }
        if from == to {
            return Err(MoveFault::Owned);
        }
        let members: VecDeque<SessionIndex> = self.members.of(bucket).iter().copied().collect();
        for index in &members {
            self.set_phase(*index, Phase::Awaited);
        }
        self.last_change += 1;
        self.moving = Some(Box::new(Move {
            bucket,
            from,
            to,
            stage: Stage::Installing,
            fault: None,
            deadline: now + self.config.move_deadline,
            epoch: self.last_change,
            pending: 0,
            awaited: members.len(),
            queue: members,
            twins: Vec::new(),
            held: Vec::new(),
        }));
        self.advance_move(now);
        Ok(())
    }

    /// What came of a move.
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.moved.pop_front()
    }

    /// The bucket that is on its way.
    pub fn moving_bucket(&self) -> Option<Bucket> {
        self.moving.as_deref().map(|moving| moving.bucket)
    }

    /// How many sessions live in `bucket`.
    pub fn sessions_in(&self, bucket: Bucket) -> usize {
        self.members.of(bucket).len()
    }

    /// When the move under way is to be given up.
    pub(crate) fn move_deadline(&self) -> Option<Nanos> {
        self.moving.as_deref().and_then(Move::deadline)
    }

    /// Does what is due.
    pub(crate) fn expire_move(&mut self, now: Nanos) {
        if self.move_deadline().is_some_and(|at| at <= now) {
            self.fail_move(now, MoveFault::TooLate);
        }
        self.advance_move(now);
    }

    /// A session that nothing is under way in has a move before it: it goes, if that is what the move waits for.
    pub(crate) fn join_move(&mut self, now: Nanos, index: SessionIndex) {
        let Some(moving) = self.moving.as_deref() else {
            return;
        };
        let (from, to, stage) = (moving.from, moving.to, moving.stage);
        let is_ready =
            |session: &Session| session.phase == Phase::Awaited && matches!(session.state, State::Settled);
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let Some(session) = session.filter(|session| is_ready(session)) else {
            return;
        };
        if stage != Stage::Installing {
            return;
        }
        let (association, charged) = (session.payer, session.holding().of_one_worker());
        if !self.shares.allows(association, to, charged) {
            return self.fail_move(now, MoveFault::NoResources);
        }
        let Some(image) = self.image_of(index) else {
            return self.fail_move(now, MoveFault::Failed);
        };
        self.shares.add(association, to, charged);
        self.set_phase(index, Phase::Twin);
        self.correlations.touch(index);
        if let Some(moving) = self.moving.as_deref_mut() {
            moving.awaited -= 1;
            moving.twins.push(index);
        }
        if image.is_shared_knowingly() {
            self.share_meters(from, Role::MoveHalve, image, MeterShare::Leaving);
        } else {
            self.send_moved(index, Role::MoveIn, to, SessionChange::Install(image));
        }
    }

    /// Sends one change of a session to a worker, as a part of the move.
    fn send_moved(&mut self, index: SessionIndex, role: Role, worker: WorkerId, change: SessionChange) {
        if let Some(moving) = self.moving.as_deref_mut() {
            moving.pending += 1;
            let epoch = moving.epoch;
            self.send(index, epoch, role, worker, change);
        }
    }

    /// Leaves a session's meters this share in a worker that has it.
    fn share_meters(&mut self, worker: WorkerId, role: Role, image: Box<SessionImage>, share: MeterShare) {
        let index = image.session;
        let image = Box::new(image.with_share(share));
        self.send_moved(
            index,
            role,
            worker,
            SessionChange::Replace(image, ImmediateActions::default()),
        );
    }

    /// The old owner's meters have their half: the new one gets the session with the other.
    fn bring(&mut self, now: Nanos, index: SessionIndex, left: Option<UsageSnapshot>) {
        let is_here = |session: &Session| session.phase == Phase::Twin;
        if !self
            .slots
            .get(index.index())
            .and_then(Option::as_deref)
            .is_some_and(is_here)
        {
            // It has ended since.
            return;
        }
        let to = self.moving.as_deref().map(|moving| moving.to);
        match (to, self.image_of(index)) {
            (Some(to), Some(image)) => {
                let mut image = Box::new(image.with_share(MeterShare::Arriving));
                let (counters, packets) = left.map(|left| (left.counters, left.packets)).unwrap_or_default();
                if let Some(session) = self.session_mut(index) {
                    session.metering.lend(&packets);
                }
                image.packets = packets.into();
                let slots = image.counters();
                usage::share_limits(&slots, &mut image.block.get_or_insert_default().bounds, &counters);
                self.send_moved(index, Role::MoveIn, to, SessionChange::Install(image));
            }
            _ => self.fail_move(now, MoveFault::Failed),
        }
    }

    /// The only worker that has a session gets the whole of its meters, what the other had left of packet rates, and
    /// what it had counted of dropped packets.
    fn make_whole(&mut self, index: SessionIndex, packets: Vec<PacketsLeft>, dropped: &[DroppedCount]) {
        let worker = self.moving.as_deref().map(|moving| moving.to);
        // What is live has been compiled before, and keeps its next hops: there is an image.
        if let (Some(worker), Some(mut image)) = (
            worker,
            self.image_of(index)
                .filter(|image| image.is_shared_knowingly() || !dropped.is_empty()),
        ) {
            image.packets = packets.into();
            image.add_dropped(dropped);
            self.share_meters(worker, Role::MoveWhole, image, MeterShare::Whole);
        }
    }

    /// What is live in a session, compiled anew.
    pub(crate) fn image_of(&self, index: SessionIndex) -> Option<Box<SessionImage>> {
        let session = self.slots.get(index.index())?.as_deref()?;
        let mut image = self.compile(Arc::clone(&session.live.rules)).ok()?;
        image.session = index;
        image.seid = session.seid.0;
        image.bucket = session.bucket;
        image.classification_generation = session.live.generation;
        image.block.get_or_insert_default().bounds = session.usage.bounds(session.live.rules.urrs());
        image.share_rates(|correlation| self.correlations.meter(index, correlation));
        Some(Box::new(image))
    }

    /// Keeps a new session until the steering of its bucket is settled. Gives the image back if it is.
    pub(crate) fn hold(
        &mut self,
        bucket: Bucket,
        (index, id): (SessionIndex, u64),
        image: Option<Box<SessionImage>>,
    ) -> Result<(), Option<Box<SessionImage>>> {
        match self.moving.as_deref_mut() {
            Some(moving) if moving.bucket == bucket && moving.is_steering_unsettled() => {
                moving.held.push((index, id, image));
                Ok(())
            }
            _ => Err(image),
        }
    }

    /// A session that the move reckoned with is gone.
    pub(crate) fn drop_out(&mut self, index: SessionIndex) {
        let was = self.set_phase(index, Phase::Stays);
        if was == Phase::Awaited
            && let Some(moving) = self.moving.as_deref_mut()
        {
            moving.awaited -= 1;
        }
    }

    /// The worker beside the owner of its bucket that has the session, if there is one.
    pub(crate) fn other_owner(&self, session: &Session) -> Option<WorkerId> {
        let moving = self.moving.as_deref()?;
        let owner = self.owner(session.bucket);
        let other = if owner == moving.from {
            moving.to
        } else {
            moving.from
        };
        (session.phase == Phase::Twin).then_some(other)
    }

    fn set_phase(&mut self, index: SessionIndex, phase: Phase) -> Phase {
        let session = self.session_mut(index);
        session.map_or(Phase::Stays, |session| {
            std::mem::replace(&mut session.phase, phase)
        })
    }

    /// A worker has answered an operation of a move.
    pub(crate) fn move_answered(
        &mut self,
        now: Nanos,
        op: Op,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        let Some(moving) = self
            .moving
            .as_deref_mut()
            .filter(|moving| moving.epoch == op.change)
        else {
            return;
        };
        moving.pending -= 1;
        match (op.role, result) {
            (Role::MoveHalve, Ok(left)) => self.bring(now, op.session, left),
            (Role::MoveHalve | Role::MoveIn, Err(WorkerFault::NoSpace)) => {
                self.fail_move(now, MoveFault::NoResources);
            }
            (Role::MoveHalve | Role::MoveIn, Err(WorkerFault::Failed)) => {
                self.fail_move(now, MoveFault::Failed);
            }
            (Role::MoveOut, result) => self.has_left(now, op.session, result),
            _ => {}
        }
    }

    /// Goes on with the move as far as it can.
    pub(crate) fn advance_move(&mut self, now: Nanos) {
        while let Some(moving) = self.moving.as_deref_mut() {
            let has_room = moving.pending < WINDOW;
            match moving.stage {
                Stage::Installing | Stage::Removing if has_room && !moving.queue.is_empty() => {
                    let Some(index) = moving.queue.pop_front() else {
                        return;
                    };
                    match moving.stage {
                        Stage::Installing => self.join_move(now, index),
                        _ => self.leave(index),
                    }
                }
                _ if moving.pending > 0 || moving.awaited > 0 => return,
                Stage::Installing => self.flip(),
                Stage::Flipping => {
                    self.release_held(now);
                    self.drain();
                }
                Stage::Draining => self.begin_removal(),
                Stage::Removing => return self.end_move(),
            }
        }
    }

    /// Tells all workers whose the bucket is.
    fn flip(&mut self) {
        self.last_change += 1;
        let epoch = self.last_change;
        let Some(moving) = self.moving.as_deref_mut() else {
            return;
        };
        moving.enter(Stage::Flipping, epoch, VecDeque::new());
        moving.pending = u32::from(self.config.workers);
        let (bucket, owner) = (moving.bucket, moving.to);
        if let Some(entry) = self.config.owners.get_mut(bucket.index()) {
            *entry = owner;
        }
        self.steer(&[SteerChange::Bucket { bucket, owner }]);
        self.move_held_charges();
        for worker in (0..self.config.workers).map(WorkerId) {
            let op = self.new_op(NO_SESSION, epoch, Role::MoveSteering);
            self.effects.push_back(Effect::Fence { worker, op });
        }
    }

    /// New sessions that wait are charged for their tunnels where they will be.
    fn move_held_charges(&mut self) {
        let Some(moving) = self.moving.as_deref() else {
            return;
        };
        for (index, id, _) in &moving.held {
            let session = self.slots.get(index.index()).and_then(Option::as_deref);
            if let Some(session) = session.filter(|session| session.is_at(*id)) {
                let (association, charged) = (session.payer, session.holding().of_one_worker());
                self.shares.remove(association, moving.from, charged);
                self.shares.add(association, moving.to, charged);
            }
        }
    }

    fn drain(&mut self) {
        self.last_change += 1;
        let epoch = self.last_change;
        let Some(moving) = self.moving.as_deref_mut() else {
            return;
        };
        moving.enter(Stage::Draining, epoch, VecDeque::new());
        moving.pending = 1;
        let worker = moving.from;
        let op = self.new_op(NO_SESSION, epoch, Role::MoveSteering);
        self.effects.push_back(Effect::Drain { worker, op });
    }

    fn begin_removal(&mut self) {
        self.last_change += 1;
        let epoch = self.last_change;
        if let Some(moving) = self.moving.as_deref_mut() {
            let twins = moving.twins.iter().copied().collect();
            moving.enter(Stage::Removing, epoch, twins);
        }
    }

    /// Removes a session at the old owner.
    fn leave(&mut self, index: SessionIndex) {
        let is_twin = self
            .session_mut(index)
            .is_some_and(|session| session.phase == Phase::Twin);
        let from = self.moving.as_deref().map(|moving| moving.from);
        if let Some(from) = from.filter(|_| is_twin) {
            self.send_moved(index, Role::MoveOut, from, SessionChange::Remove(index));
        }
    }

    /// The old owner has a session no more: its counts are control's, and its requests go on.
    fn has_left(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        let Some((from, is_undone)) = self
            .moving
            .as_deref()
            .map(|moving| (moving.from, moving.fault.is_some()))
        else {
            return;
        };
        let Some(session) = self
            .session_mut(index)
            .filter(|session| session.phase == Phase::Twin)
        else {
            return;
        };
        session.phase = Phase::Stays;
        self.correlations.touch(index);
        // A worker that never had the session has not spent what was lent to it.
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let lent = session.metering.take_lent();
        let packets = match &result {
            Ok(left) => left.as_ref().map(|left| left.packets.clone()).unwrap_or_default(),
            Err(_) => lent,
        };
        let left = result.as_ref().ok().and_then(Option::as_ref);
        let dropped = left.map(|left| left.dropped.clone()).unwrap_or_default();
        if is_undone {
            session.add(result);
        } else {
            session.carry(result);
        }
        let (association, charged) = (session.payer, session.holding().of_one_worker());
        self.shares.remove(association, from, charged);
        self.make_whole(index, packets, &dropped);
        self.follow_usage(now, index, true);
        self.next_request(now, index);
    }

    /// Undoes the move: whoever has sessions twice loses those that it got last.
    fn fail_move(&mut self, now: Nanos, fault: MoveFault) {
        let Some(moving) = self
            .moving
            .as_deref_mut()
            .filter(|moving| moving.deadline().is_some())
        else {
            return;
        };
        moving.fault = Some(fault);
        std::mem::swap(&mut moving.from, &mut moving.to);
        moving.awaited = 0;
        if moving.stage == Stage::Flipping {
            return self.flip();
        }
        let bucket = moving.bucket;
        self.begin_removal();
        self.release_held(now);
        for index in self.members.of(bucket).to_vec() {
            let is_awaited = |session: &&mut Session| session.phase == Phase::Awaited;
            if let Some(session) = self.session_mut(index).filter(is_awaited) {
                session.phase = Phase::Stays;
                self.next_request(now, index);
            }
        }
    }

    /// New sessions of the bucket go to its owner.
    fn release_held(&mut self, now: Nanos) {
        let held = self
            .moving
            .as_deref_mut()
            .map(|moving| std::mem::take(&mut moving.held));
        for (index, id, image) in held.into_iter().flatten() {
            self.correlations.touch(index);
            if self.session_mut(index).is_some_and(|session| session.is_at(id)) {
                self.apply(now, index, image);
            }
        }
    }

    fn end_move(&mut self) {
        let Some(moving) = self.moving.take() else { return };
        let (from, to) = match moving.fault {
            None => (moving.from, moving.to),
            Some(_) => (moving.to, moving.from),
        };
        self.moved.push_back(Moved {
            bucket: moving.bucket,
            from,
            to,
            result: moving.fault.map_or(Ok(moving.twins.len()), Err),
        });
    }
}

/// What an operation that is about no session names.
const NO_SESSION: SessionIndex = SessionIndex(u32::MAX);
