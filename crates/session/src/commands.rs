//! Commands to workers: the effects that are to be polled, and the operations that workers have yet to answer.

use flow::{OpId, SessionIndex, WorkerId};
use nat::pools::BlockId;
use rules::image::SessionChange;
use rules::worker_selection::WorkerSelectionChange;
use std::collections::VecDeque;

use crate::buckets::BucketTable;
use crate::effect::Effect;
use crate::keyed_map::{Keyed, keyed};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Install,
    Replace,
    Remove,
    Query,
    Fence,
    /// Sets the bounds of counters.
    SetBounds,
    /// Queries the counters for the usage accounts.
    QueryUsage,
    /// Replace at the bucket's old owner: its meters and limits keep half.
    MoveHalve,
    /// Install at the new owner.
    MoveIn,
    /// Remove at the old one.
    MoveOut,
    /// Replace at the only owner again: its meters get all.
    MoveWhole,
    /// Fence or drain of a move.
    MoveSelection,
}

/// An operation that a worker has yet to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) session: SessionIndex,
    /// The number of the change, rollback, removal or stage of a move that it belongs to; 0: none.
    pub(crate) change: u64,
    pub(crate) role: Role,
}

impl Op {
    pub(crate) fn new(session: SessionIndex, change: u64, role: Role) -> Op {
        Op {
            session,
            change,
            role,
        }
    }
}

/// The commands to all workers.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) buckets: BucketTable,
    ops: Keyed<OpId, Op>,
    last_op: u64,
    last_change: u64,
    effects: VecDeque<Effect>,
}

impl Commands {
    /// No commands. The seed is that of the hash table.
    pub(crate) fn new(buckets: BucketTable, seed: u64) -> Commands {
        Commands {
            buckets,
            ops: keyed(seed),
            last_op: 0,
            last_change: 0,
            effects: VecDeque::new(),
        }
    }

    /// The next command for a worker.
    pub(crate) fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Operations that workers have yet to answer.
    pub(crate) fn pending(&self) -> usize {
        self.ops.len()
    }

    /// A worker has answered an operation: which one it was.
    pub(crate) fn answered(&mut self, op: OpId) -> Option<Op> {
        self.ops.remove(&op)
    }

    /// A number for a change, a rollback, a removal or a stage of a move.
    pub(crate) fn new_change(&mut self) -> u64 {
        self.last_change += 1;
        self.last_change
    }

    /// Sends one change of a session to a worker.
    pub(crate) fn apply(&mut self, op: Op, worker: WorkerId, change: SessionChange) {
        let op = self.new_op(op);
        self.effects.push_back(Effect::Apply { worker, op, change });
    }

    /// Queries all counters of the operation's session at a worker.
    pub(crate) fn query(&mut self, op: Op, worker: WorkerId) {
        let session = op.session;
        let op = self.new_op(op);
        self.effects.push_back(Effect::Query { worker, op, session });
    }

    /// Sends a fence to each worker: one operation each. Answers how many.
    pub(crate) fn fence(&mut self, op: Op) -> u32 {
        for worker in self.buckets.workers() {
            let op = self.new_op(op);
            self.effects.push_back(Effect::Fence { worker, op });
        }
        u32::from(self.buckets.count())
    }

    /// Has a worker serve the packets that were handed over to it so far.
    pub(crate) fn drain(&mut self, op: Op, worker: WorkerId) {
        let op = self.new_op(op);
        self.effects.push_back(Effect::Drain { worker, op });
    }

    /// Sends changes of worker selection to each worker.
    pub(crate) fn select_workers(&mut self, changes: &[WorkerSelectionChange]) {
        for worker in self.buckets.workers() {
            self.effects
                .extend(changes.iter().map(|change| Effect::SelectWorker {
                    worker,
                    change: *change,
                }));
        }
    }

    /// Gives a session one more port block, at a worker that has it.
    pub(crate) fn give_port_block(&mut self, worker: WorkerId, session: SessionIndex, block: BlockId) {
        self.effects.push_back(Effect::PortBlock {
            worker,
            session,
            block,
        });
    }

    fn new_op(&mut self, op: Op) -> OpId {
        self.last_op += 1;
        let id = OpId(self.last_op);
        self.ops.insert(id, op);
        id
    }
}
