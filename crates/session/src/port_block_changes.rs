//! Sessions get port blocks and give them back: what control does then, and what workers get.

use flow::{Nanos, SessionIndex};
use nat::pools::BlockId;
use rules::worker_selection::WorkerSelectionChange;
use smallvec::SmallVec;
use std::sync::Arc;

use crate::change_context::ChangeContext;
use crate::outcome::AssignedBlock;
use crate::pending_change::Phase;
use crate::port_blocks::{PortBlockHolders, Subject};
use crate::record::SessionRecord;
use crate::session::Session;
use crate::ue_addresses::UeAddress;

/// A session is live, or has changed: it has a block of the pool that is for it, those that are its UE's before any
/// other, and none of another. Gives the first block, if it had none of that pool before.
pub(crate) fn provide(context: &mut ChangeContext, index: SessionIndex, now: Nanos) -> Option<AssignedBlock> {
    let holders = &context.port_blocks;
    if holders.pools().is_empty() {
        return None;
    }
    let session = context.table.get(index);
    let subject = session.and_then(|session| Subject::of(session, holders.pools()));
    if holders.holds_otherwise(index, subject.as_ref()) {
        release(context, index, None, now);
    }
    let misheld = subject
        .as_ref()
        .map(|subject| context.port_blocks.misheld(subject));
    for block in misheld.into_iter().flatten() {
        release(context, index, Some(block), now);
    }
    let had_any = !context.port_blocks.of(index).is_empty();
    let lacks_own = |holders: &PortBlockHolders| {
        let own = subject.as_ref().and_then(|subject| holders.lacks(subject));
        own.filter(|block| holders.owner(*block).is_none())
    };
    while lacks_own(&context.port_blocks).is_some() && extend(context, index, now) {}
    if context.port_blocks.of(index).is_empty() {
        extend(context, index, now);
    }
    if had_any {
        return None;
    }
    first_block(context, index)
}

/// The first of the blocks that a session holds.
pub(crate) fn first_block(context: &ChangeContext, index: SessionIndex) -> Option<AssignedBlock> {
    let id = context.port_blocks.of(index).first().copied()?;
    let (pool, block) = context.port_blocks.pools().block(id)?;
    Some(AssignedBlock { pool, block })
}

/// The worker has what a session had before a change that was undone, and may have let go of its blocks meanwhile: it
/// has them again.
pub(crate) fn give_again(context: &mut ChangeContext, index: SessionIndex, now: Nanos) {
    let Some(session) = context.table.get(index) else {
        return;
    };
    let owner = context.commands.buckets.owner(session.bucket);
    for block in context.port_blocks.of(index) {
        context.commands.give_port_block(owner, index, *block);
    }
    provide(context, index, now);
}

/// A session gets one more block, if it may have one and there is one. Whether it got one.
pub(crate) fn extend(context: &mut ChangeContext, index: SessionIndex, now: Nanos) -> bool {
    let session = context.table.live_mut(index);
    let session = session.filter(|session| session.phase == Phase::Stays);
    let Some(subject) = session.and_then(|session| Subject::of(session, context.port_blocks.pools())) else {
        return false;
    };
    let drawn = context.port_blocks.draw(&subject, now);
    if let Some(block) = drawn {
        bring(context, &subject, block);
        context.journal.mark(subject.holder.seid);
    }
    drawn.is_some()
}

/// All workers know whose a block is, and the session's own has it.
fn bring(context: &mut ChangeContext, subject: &Subject, block: BlockId) {
    let bucket = Some(subject.bucket);
    let commands = &mut context.commands;
    commands.select_workers(&[WorkerSelectionChange::PortBlock { block, bucket }]);
    let owner = commands.buckets.owner(subject.bucket);
    commands.give_port_block(owner, subject.index, block);
}

/// A session has these blocks no more, or all.
pub(crate) fn release(context: &mut ChangeContext, index: SessionIndex, only: Option<BlockId>, now: Nanos) {
    let gone = context.port_blocks.release(index, only, now);
    let changes = gone.iter().map(|block| WorkerSelectionChange::PortBlock {
        block: *block,
        bucket: None,
    });
    let changes: SmallVec<[_; 2]> = changes.collect();
    context.commands.select_workers(&changes);
}

/// Takes the blocks of a session that comes with its record, those of them that no other session has, and tells all
/// workers. Gives them for its image.
pub(crate) fn take(
    context: &mut ChangeContext,
    session: &Session,
    of_record: (&SessionRecord, &[UeAddress]),
    now: Nanos,
) -> Vec<BlockId> {
    let (record, addresses) = of_record;
    let pools = Arc::clone(context.port_blocks.pools());
    let Some(subject) = Subject::new(session, record.rules.nat(), addresses, &pools) else {
        return Vec::new();
    };
    let ids = record
        .port_blocks
        .iter()
        .filter_map(|block| pools.id_of(subject.pool, *block));
    let mut taken = Vec::with_capacity(record.port_blocks.len());
    for id in ids {
        if context.port_blocks.take(&subject, id, now) {
            let bucket = Some(subject.bucket);
            let change = WorkerSelectionChange::PortBlock { block: id, bucket };
            context.commands.select_workers(&[change]);
            taken.push(id);
        }
    }
    taken
}
