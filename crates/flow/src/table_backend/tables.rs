//! What a backend's requests change: the tables of packets, which another owns.

use crate::contract::{AnyKey, Flow, Object, ObjectId, QueueTokens, Queues, Refusal};
use crate::meter::SharedId;
use crate::{Blocks, Direction, FlowEntry, Installed, Nanos, SessionIndex, UrrCount};

/// Flow tables and session blocks, as requests change them.
pub trait BackendTables {
    /// The session blocks.
    fn blocks(&self) -> &Blocks;

    /// The same, to change.
    fn blocks_mut(&mut self) -> &mut Blocks;

    /// The session that a key leads to.
    fn owner(&self, key: &AnyKey) -> Option<SessionIndex>;

    /// Asks for the memory that [`put`](Self::put) reads for a flow of this key beside its session's block: a hint.
    fn prefetch_put(&self, _: SessionIndex, _key: &AnyKey) {}

    /// Adds a flow of a session, or changes the one of its key: its entry, whose extension means nothing.
    ///
    /// # Errors
    /// [`Refusal::Exists`] where the key leads to another session; [`Refusal::Full`], [`Refusal::Unsupported`].
    fn put(
        &mut self,
        session: SessionIndex,
        flow: &Flow,
        entry: &FlowEntry<AnyKey>,
        now: Nanos,
    ) -> Result<(), Refusal>;

    /// Whether a session has a flow that `is_it`, by all that a [`Flow`] has but its content and generation, which
    /// tables need not keep.
    fn any_flow(&self, session: SessionIndex, is_it: &dyn Fn(&Flow) -> bool) -> bool;

    /// The block of a session, which was `old`, is another from now on. Its flows continue.
    fn moved(&mut self, session: SessionIndex, old: Installed, installed: Installed);

    /// Removes the flow of a key, if the session has it.
    fn remove(&mut self, session: SessionIndex, key: &AnyKey, now: Nanos);

    /// Removes all flows of a session, whose block may have another generation after that.
    fn remove_all(&mut self, session: SessionIndex, installed: Installed, now: Nanos) -> Installed;

    /// Removes some entries that have idled for too long, and passes on whose they were.
    fn age(&mut self, now: Nanos, aged: &mut Vec<(AnyKey, SessionIndex)>);

    /// An object of the node comes, changes or goes (`None`).
    ///
    /// # Errors
    /// [`Refusal::Unsupported`]; then it stays as it was.
    fn change_node(&mut self, id: ObjectId, object: Option<&Object>) -> Result<(), Refusal>;

    /// Objects of the node that were changed before are what packets meet, from now on: a fence of the node is answered
    /// then.
    fn fence_node(&mut self) {}

    /// The octets that packets wanted to pass of a shared meter since this was asked last, by [`Direction`].
    fn take_demand(&mut self, id: SharedId) -> [u64; 2];

    /// A session gets queues in a direction, or others; what waits stays where they are the same but for their rates,
    /// and leaves at once where they are not.
    ///
    /// # Errors
    /// [`Refusal::Missing`] for a class or a shared node that is not there, [`Refusal::Full`],
    /// [`Refusal::Unsupported`]; then all stays as it was.
    fn put_queues(
        &mut self,
        _: SessionIndex,
        _: Direction,
        _: &Queues,
        _: Option<&QueueTokens>,
        _now: Nanos,
    ) -> Result<(), Refusal> {
        Err(Refusal::Unsupported)
    }

    /// A session has no queues in a direction any more: what waits leaves at once. What is left of their rates then.
    fn remove_queues(&mut self, _: SessionIndex, _: Direction, _now: Nanos) -> QueueTokens {
        QueueTokens::default()
    }

    /// What is left of the rates of a session's queues.
    fn queue_tokens(&self, _: SessionIndex, _: Direction, _now: Nanos) -> QueueTokens {
        QueueTokens::default()
    }

    /// All that waits of a session leaves at once, in order.
    fn empty_queues(&mut self, _: SessionIndex, _now: Nanos) {}

    /// What packets that wait have counted in a counter of a session.
    fn waiting(&self, _: SessionIndex, _counter: u8) -> UrrCount {
        UrrCount::default()
    }

    /// How many share the room for flows.
    fn share_among(&mut self, _sharers: usize) {}

    /// Flows of a session are one's of those that share the room.
    fn assign(&mut self, _: SessionIndex, _sharer: usize) {}

    /// All that waits is lost, and no session has queues: the state is lost.
    fn lose_queues(&mut self, _now: Nanos) {}
}
