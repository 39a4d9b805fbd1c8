//! A bucket moves from one worker to another, with all its sessions, without losing a packet or a count.
//!
//! 1. Every session of the bucket, once nothing is in progress in it, is installed at the new owner beside the old one,
//!    with counters that start at 0. From then on its requests wait. New sessions of the bucket wait, too. If it has
//!    meters, the old owner first gives up half of their bursts and all that they would earn; at the new owner they
//!    start empty, with the other half, and earn. So both never admit more than one meter would.
//!    Of packet rates it gives the new one half of what is left, and begins no unit of time any more. Queues before
//!    ports stay with the old owner, at their whole rates; the new one holds back what comes for them.
//! 2. All workers get the bucket's new owner, with a fence. Then no worker hands packets to the old owner any more.
//! 3. Packets that were handed to it before are in its inbox and are served there: it drains.
//! 4. The sessions are removed at the old owner. What they counted there is added to what control holds; their meters
//!    get their whole bursts back, and requests continue. What waits in queues goes from worker to worker, with what it
//!    has counted, before what was held back.
//!
//! When the new owner has no room, or the deadline passes before 3, the bucket goes back the same way: every packet
//! was served by one of the two, and both counts are kept. Packets of one flow may be served by both workers at the
//! same time for a moment, so they may leave in another order than they came in, unless they wait in queues.

use flow::{Bucket, Nanos, SessionIndex, WorkerId};
use rules::image::{
    DroppedCount, ImmediateActions, MeterShare, PacketsLeft, ReportedCongestion, SessionChange, SessionImage,
    UsageSnapshot,
};
use rules::worker_selection::WorkerSelectionChange;
use std::collections::VecDeque;
use std::fmt;

use crate::change_context::ChangeContext;
use crate::commands::{Op, Role};
use crate::effect::WorkerFault;
use crate::pending_change::{Phase, State};
use crate::port_block_changes::provide;

/// Sessions that are with a worker at the same time: what one poll has to do for a move is bounded by it.
const WINDOW: u32 = 64;

/// Why a bucket is where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveFault {
    /// There is no such worker.
    NoSuchWorker,
    /// The worker owns the bucket already.
    Owned,
    /// The worker does not serve all slices that the bucket is for.
    OtherSlices,
    /// Another bucket moves.
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
            MoveFault::OtherSlices => "the worker does not serve all slices that the bucket is for",
            MoveFault::Busy => "another bucket moves",
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
    /// All workers get the new owner.
    Flipping,
    /// The old owner serves what it was handed before.
    Draining,
    /// Sessions are removed at the old owner.
    Removing,
}

/// A new session whose change is applied when the owner of its bucket is decided: every worker selects the new owner,
/// or the move has failed.
#[derive(Debug)]
pub(crate) struct HeldSession {
    pub(crate) index: SessionIndex,
    /// The number of its change.
    pub(crate) change: u64,
    pub(crate) image: Option<Box<SessionImage>>,
}

/// What is to be done for a session that a move has released.
#[derive(Debug)]
pub(crate) enum Released {
    /// Apply its change.
    Apply(HeldSession),
    /// Begin its next request.
    Next(SessionIndex),
}

/// A move in progress.
#[derive(Debug)]
struct Move {
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
    /// Sessions that were sent to the new owner.
    installed: Vec<SessionIndex>,
    /// New sessions that wait until the owner is decided.
    held: VecDeque<HeldSession>,
}

impl Move {
    fn is_owner_undecided(&self) -> bool {
        matches!(self.stage, Stage::Installing | Stage::Flipping)
    }

    /// When the move is given up, unless it is too late for that.
    fn deadline(&self) -> Option<Nanos> {
        (self.fault.is_none() && self.is_owner_undecided()).then_some(self.deadline)
    }

    /// Begins a stage, with the sessions to go through.
    fn enter(&mut self, stage: Stage, epoch: u64, queue: VecDeque<SessionIndex>) {
        (self.stage, self.epoch, self.queue) = (stage, epoch, queue);
        self.pending = 0;
    }

    /// The operation of the stage on a session.
    fn op(&self, session: SessionIndex, role: Role) -> Op {
        Op::new(session, self.epoch, role)
    }
}

/// The move in progress, the results of those before it, and the sessions that they released.
#[derive(Debug, Default)]
pub(crate) struct BucketMoves {
    moving: Option<Box<Move>>,
    results: VecDeque<Moved>,
    released: VecDeque<Released>,
}

impl BucketMoves {
    /// Begins to move `bucket` to the worker `to`.
    ///
    /// # Errors
    /// When the move cannot begin.
    pub(crate) fn begin(
        &mut self,
        context: &mut ChangeContext,
        now: Nanos,
        bucket: Bucket,
        to: WorkerId,
    ) -> Result<(), MoveFault> {
        let buckets = &mut context.commands.buckets;
        let from = buckets.owner(bucket);
        if to.0 >= buckets.count() {
            return Err(MoveFault::NoSuchWorker);
        }
        if self.moving.is_some() {
            return Err(MoveFault::Busy);
        }
        if from == to {
            return Err(MoveFault::Owned);
        }
        if !buckets.may_own(to, bucket) {
            return Err(MoveFault::OtherSlices);
        }
        buckets.begin_move(bucket, [from, to]);
        let members: VecDeque<SessionIndex> = context.table.members(bucket).iter().copied().collect();
        for index in &members {
            context.table.set_phase(*index, Phase::Awaited);
        }
        self.moving = Some(Box::new(Move {
            bucket,
            from,
            to,
            stage: Stage::Installing,
            fault: None,
            deadline: now + context.config.move_deadline,
            epoch: context.commands.new_change(),
            pending: 0,
            queue: members,
            installed: Vec::new(),
            held: VecDeque::new(),
        }));
        Ok(())
    }

    /// The result of a move.
    pub(crate) fn poll_result(&mut self) -> Option<Moved> {
        self.results.pop_front()
    }

    /// The bucket that moves.
    pub(crate) fn moving_bucket(&self) -> Option<Bucket> {
        self.moving.as_deref().map(|moving| moving.bucket)
    }

    /// When the move in progress is to be given up.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.moving.as_deref().and_then(Move::deadline)
    }

    /// Gives the move up if its deadline has passed.
    pub(crate) fn handle_timeout(&mut self, context: &mut ChangeContext, now: Nanos) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.fail(context, MoveFault::TooLate);
        }
    }

    /// Keeps a new session until the owner of its bucket is decided. Returns it if it is.
    pub(crate) fn hold(&mut self, bucket: Bucket, session: HeldSession) -> Result<(), HeldSession> {
        match self.moving.as_deref_mut() {
            Some(moving) if moving.bucket == bucket && moving.is_owner_undecided() => {
                moving.held.push_back(session);
                Ok(())
            }
            _ => Err(session),
        }
    }

    /// A session that the move released.
    pub(crate) fn poll_released(&mut self) -> Option<Released> {
        self.released.pop_front()
    }

    /// Continues the move as far as it can, up to the next session that it releases.
    pub(crate) fn poll(&mut self, context: &mut ChangeContext) -> Option<Released> {
        loop {
            if let Some(released) = self.poll_released() {
                return Some(released);
            }
            let moving = self.moving.as_deref_mut()?;
            let has_room = moving.pending < WINDOW;
            match moving.stage {
                Stage::Installing | Stage::Removing if has_room && !moving.queue.is_empty() => {
                    let index = moving.queue.pop_front()?;
                    match moving.stage {
                        Stage::Installing => self.join(context, index),
                        _ => self.remove_at_old_owner(context, index),
                    }
                }
                _ if moving.pending > 0 || context.table.awaited() > 0 => return None,
                Stage::Installing => self.select_new_owner(context),
                Stage::Flipping if !moving.held.is_empty() => self.release_held(context),
                Stage::Flipping => self.drain(context),
                Stage::Draining => self.begin_removal(context),
                Stage::Removing => {
                    self.end(context);
                    return None;
                }
            }
        }
    }

    /// A session in which nothing is in progress is to move: it is installed at the new owner, if that is the stage of
    /// the move.
    pub(crate) fn join(&mut self, context: &mut ChangeContext, index: SessionIndex) {
        let Some(moving) = self.moving.as_deref_mut() else {
            return;
        };
        let Some(session) = context.table.get(index) else {
            return;
        };
        let is_ready = session.phase == Phase::Awaited && matches!(session.state, State::Settled);
        if !is_ready || moving.stage != Stage::Installing {
            return;
        }
        let quotas = &mut context.resources.quotas;
        let (association, counts) = (session.charged_to, session.counts().of_one_worker());
        if !quotas.allows(association, moving.to, counts) {
            return self.fail(context, MoveFault::NoResources);
        }
        let Some(mut image) = context.image_of(index) else {
            return self.fail(context, MoveFault::Failed);
        };
        image.comes_from_elsewhere();
        context.resources.quotas.add(association, moving.to, counts);
        context.table.set_phase(index, Phase::OnBoth);
        context.resources.correlations.mark_changed(index);
        moving.installed.push(index);
        if is_halved(&image) {
            moving.share_meters(context, moving.from, Role::MoveHalve, image, MeterShare::Leaving);
        } else {
            moving.send(
                context,
                index,
                Role::MoveIn,
                moving.to,
                SessionChange::Install(image),
            );
        }
    }

    /// A worker has answered an operation of a move.
    pub(crate) fn handle_answer(
        &mut self,
        context: &mut ChangeContext,
        now: Nanos,
        op: Op,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        let moving = self.moving.as_deref_mut();
        let Some(moving) = moving.filter(|moving| moving.epoch == op.change) else {
            return;
        };
        moving.pending -= 1;
        match (op.role, result) {
            (Role::MoveHalve, Ok(left)) => self.install_at_new_owner(context, op.session, left),
            (Role::MoveHalve | Role::MoveIn, Err(WorkerFault::NoSpace)) => {
                self.fail(context, MoveFault::NoResources);
            }
            (Role::MoveHalve | Role::MoveIn, Err(WorkerFault::Failed)) => {
                self.fail(context, MoveFault::Failed);
            }
            (Role::MoveOut, result) => self.removed_at_old_owner(context, now, op.session, result),
            _ => {}
        }
    }

    /// The old owner's meters have their half: the new owner gets the session with the other.
    fn install_at_new_owner(
        &mut self,
        context: &mut ChangeContext,
        index: SessionIndex,
        left: Option<UsageSnapshot>,
    ) {
        let on_both = context
            .table
            .get(index)
            .is_some_and(|session| session.phase == Phase::OnBoth);
        if !on_both {
            // It has ended since.
            return;
        }
        let (Some(moving), Some(image)) = (self.moving.as_deref_mut(), context.image_of(index)) else {
            return self.fail(context, MoveFault::Failed);
        };
        let mut image = Box::new(image.with_share(MeterShare::Arriving));
        let UsageSnapshot {
            counters,
            packets,
            mappings,
            congestion,
            ..
        } = left.unwrap_or_default();
        image.bring_congestion(congestion);
        image.bring_port_blocks(context.port_blocks.of(index), mappings);
        if let Some(session) = context.table.get_mut(index) {
            session.pending_measurement.set_packets_in_transit(&packets);
        }
        image.bring_packets(packets);
        image.comes_from_elsewhere();
        let slots = image.counters();
        usage::share_limits(&slots, &mut image.block.get_or_insert_default().bounds, &counters);
        moving.send(
            context,
            index,
            Role::MoveIn,
            moving.to,
            SessionChange::Install(image),
        );
    }

    /// Gives all workers the bucket's new owner.
    fn select_new_owner(&mut self, context: &mut ChangeContext) {
        let Some(moving) = self.moving.as_deref_mut() else {
            return;
        };
        let epoch = context.commands.new_change();
        moving.enter(Stage::Flipping, epoch, VecDeque::new());
        let (bucket, owner) = (moving.bucket, moving.to);
        let commands = &mut context.commands;
        commands.buckets.set_owner(bucket, owner);
        commands.select_workers(&[WorkerSelectionChange::Bucket { bucket, owner }]);
        // New sessions that wait count against the quota of the worker that they will be at.
        for held in &moving.held {
            let session = context.table.get(held.index);
            if let Some(session) = session.filter(|session| session.is_at(held.change)) {
                let (association, counts) = (session.charged_to, session.counts().of_one_worker());
                context.resources.quotas.remove(association, moving.from, counts);
                context.resources.quotas.add(association, moving.to, counts);
            }
        }
        moving.pending = commands.fence(moving.op(NO_SESSION, Role::MoveSelection));
    }

    fn drain(&mut self, context: &mut ChangeContext) {
        if let Some(moving) = self.moving.as_deref_mut() {
            moving.enter(Stage::Draining, context.commands.new_change(), VecDeque::new());
            moving.pending = 1;
            let op = moving.op(NO_SESSION, Role::MoveSelection);
            context.commands.drain(op, moving.from);
        }
    }

    fn begin_removal(&mut self, context: &mut ChangeContext) {
        if let Some(moving) = self.moving.as_deref_mut() {
            let installed = moving.installed.iter().copied().collect();
            moving.enter(Stage::Removing, context.commands.new_change(), installed);
        }
    }

    fn remove_at_old_owner(&mut self, context: &mut ChangeContext, index: SessionIndex) {
        let on_both = context
            .table
            .get(index)
            .is_some_and(|session| session.phase == Phase::OnBoth);
        if let Some(moving) = self.moving.as_deref_mut().filter(|_| on_both) {
            moving.send(
                context,
                index,
                Role::MoveOut,
                moving.from,
                SessionChange::Remove(index),
            );
        }
    }

    /// The old owner has a session no more: control adds what it counted there, and its requests continue.
    fn removed_at_old_owner(
        &mut self,
        context: &mut ChangeContext,
        now: Nanos,
        index: SessionIndex,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        let Some(moving) = self.moving.as_deref_mut() else {
            return;
        };
        let session = context.table.get(index);
        if session.is_none_or(|session| session.phase != Phase::OnBoth) {
            return;
        }
        context.table.set_phase(index, Phase::Stays);
        context.resources.correlations.mark_changed(index);
        let Some(session) = context.table.get_mut(index) else {
            return;
        };
        // A worker that never had the session has not used the packets that it was to get.
        let in_transit = session.pending_measurement.take_packets_in_transit();
        let packets = match &result {
            Ok(left) => left.as_ref().map(|left| left.packets.clone()).unwrap_or_default(),
            Err(_) => in_transit,
        };
        let left = result.as_ref().ok().and_then(Option::as_ref);
        let left_behind = LeftBehind {
            packets,
            dropped: left.map(|left| left.dropped.clone()).unwrap_or_default(),
            congestion: left.map(|left| left.congestion.clone()).unwrap_or_default(),
        };
        if moving.fault.is_some() {
            session.add(result);
        } else {
            session.carry(result);
        }
        let (association, counts) = (session.charged_to, session.counts().of_one_worker());
        context.resources.quotas.remove(association, moving.from, counts);
        moving.make_whole(context, index, left_behind);
        context.refresh_usage(now, index, true);
        // While it moved, it got none.
        provide(context, index, now);
        self.released.push_back(Released::Next(index));
    }

    /// Undoes the move: the worker that got sessions last loses them.
    fn fail(&mut self, context: &mut ChangeContext, fault: MoveFault) {
        let moving = self.moving.as_deref_mut();
        let Some(moving) = moving.filter(|moving| moving.deadline().is_some()) else {
            return;
        };
        moving.fault = Some(fault);
        std::mem::swap(&mut moving.from, &mut moving.to);
        if moving.stage == Stage::Flipping {
            return self.select_new_owner(context);
        }
        let bucket = moving.bucket;
        self.begin_removal(context);
        self.release_held(context);
        for index in context.table.members(bucket).to_vec() {
            let session = context.table.get(index);
            if session.is_some_and(|session| session.phase == Phase::Awaited) {
                context.table.set_phase(index, Phase::Stays);
                self.released.push_back(Released::Next(index));
            }
        }
    }

    /// New sessions of the bucket go to its owner.
    fn release_held(&mut self, context: &mut ChangeContext) {
        let held = self
            .moving
            .as_deref_mut()
            .map(|moving| std::mem::take(&mut moving.held));
        for held in held.into_iter().flatten() {
            context.resources.correlations.mark_changed(held.index);
            self.released.push_back(Released::Apply(held));
        }
    }

    fn end(&mut self, context: &mut ChangeContext) {
        let Some(moving) = self.moving.take() else { return };
        context.commands.buckets.end_move();
        let (from, to) = match moving.fault {
            None => (moving.from, moving.to),
            Some(_) => (moving.to, moving.from),
        };
        self.results.push_back(Moved {
            bucket: moving.bucket,
            from,
            to,
            result: moving.fault.map_or(Ok(moving.installed.len()), Err),
        });
    }
}

impl Move {
    /// Sends one change of a session to a worker, as a part of the move.
    fn send(
        &mut self,
        context: &mut ChangeContext,
        index: SessionIndex,
        role: Role,
        worker: WorkerId,
        change: SessionChange,
    ) {
        self.pending += 1;
        context.commands.apply(self.op(index, role), worker, change);
    }

    /// Leaves a session's meters this share in a worker that has it.
    fn share_meters(
        &mut self,
        context: &mut ChangeContext,
        worker: WorkerId,
        role: Role,
        image: Box<SessionImage>,
        share: MeterShare,
    ) {
        let index = image.session;
        let image = Box::new(image.with_share(share));
        let change = SessionChange::Replace(image, ImmediateActions::default());
        self.send(context, index, role, worker, change);
    }

    /// The only worker that has a session gets the whole of its meters, and what the other has left behind.
    fn make_whole(&mut self, context: &mut ChangeContext, index: SessionIndex, left_behind: LeftBehind) {
        let LeftBehind {
            packets,
            dropped,
            congestion,
        } = left_behind;
        // What is live has been compiled before, and keeps its next hops: there is an image.
        let image = context.image_of(index);
        if let Some(mut image) = image.filter(|image| is_halved(image) || !dropped.is_empty()) {
            image.bring_packets(packets);
            image.add_dropped(&dropped);
            image.bring_congestion(congestion);
            self.share_meters(context, self.to, Role::MoveWhole, image, MeterShare::Whole);
        }
    }
}

/// What a worker had of a session when it let it go, for the one that has it now.
struct LeftBehind {
    /// What was left of packet rates.
    packets: Vec<PacketsLeft>,
    /// What it had counted of dropped packets.
    dropped: Vec<DroppedCount>,
    /// What the RAN had reported to it.
    congestion: Vec<ReportedCongestion>,
}

/// Whether the workers of a session that moves have to know: the old one gives up half of its meters, or makes no more
/// mappings to public ports, of which the new owner makes them; or one has its queues, and the other holds back; or the
/// old one says what the RAN has reported.
fn is_halved(image: &SessionImage) -> bool {
    let marks = || image.rules.qers().iter().any(|qer| qer.optional.marks_l4s);
    image.is_shared_knowingly() || image.rules.nat().is_some() || marks()
}

/// The session of operations that are about none.
const NO_SESSION: SessionIndex = SessionIndex(u32::MAX);
