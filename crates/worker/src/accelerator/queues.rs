//! Queues before the ports of an engine, as the host tells them: classes, shared nodes, and those of each session.

use std::collections::HashMap;

use flow::contract::{QueueClass, QueueTokens, Queues, Refusal, SharedNode, SharedNodeId};
use flow::meter::Chain;
use flow::slab::OutOfMemory;
use flow::{Blocks, Direction, InstanceId, Nanos, SessionIndex, Verdict};
use packet::PacketBuf;
use rules::image::{EgressQueue, EgressQueues, EgressShaper};
use rules::model::QerId;
use tm::{NodeId, NodeSpec, Shaper, TmError};

use crate::EgressLimits;
use crate::egress::queueing::{Plans, Queueing};
use crate::io::PacketMetadata;

/// Room for what waits in an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Packets, their octets, and queues of sessions.
    pub limits: EgressLimits,
    /// Shared nodes: their numbers are below this. Default 512: a worker numbers ports from 0 and instances from 256.
    pub nodes: u16,
    /// The longest IP packet, octets: longer ones, which leave in fragments, count as this. Default 1,500.
    pub largest: u16,
}

impl QueueLimits {
    /// The defaults.
    pub const fn new(limits: EgressLimits) -> Self {
        Self {
            limits,
            nodes: 512,
            largest: 1_500,
        }
    }
}

/// The queues of a session in a direction.
struct Told {
    queues: Queues,
    plan: EgressQueues,
}

/// The queues of an engine.
pub(super) struct EngineQueues<B> {
    pub queueing: Queueing<B>,
    classes: [Option<QueueClass>; QueueClass::MOST as usize],
    nodes: HashMap<SharedNodeId, (SharedNode, NodeId), foldhash::quality::RandomState>,
    plans: PlansOfHost,
}

#[derive(Default)]
struct PlansOfHost(HashMap<(SessionIndex, Direction), Told, foldhash::quality::RandomState>);

/// The plans, and the blocks that they are of.
pub(super) struct PlansAndBlocks<'a> {
    plans: &'a PlansOfHost,
    blocks: &'a mut Blocks,
}

impl Plans for PlansAndBlocks<'_> {
    fn blocks(&self) -> &Blocks {
        self.blocks
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        self.blocks
    }

    fn plan(&self, session: SessionIndex, direction: Direction) -> Option<&EgressQueues> {
        Some(&self.plans.0.get(&(session, direction))?.plan)
    }
}

impl<B: PacketBuf + PacketMetadata> EngineQueues<B> {
    /// There are no classes and no nodes yet.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(limits: &QueueLimits, ports: usize, sessions: usize) -> Result<Self, OutOfMemory> {
        Ok(Self {
            queueing: Queueing::told(&limits.limits, limits.nodes, limits.largest, ports, sessions)?,
            classes: [None; QueueClass::MOST as usize],
            nodes: HashMap::default(),
            plans: PlansOfHost::default(),
        })
    }

    /// The queueing, with what it is asked for.
    pub fn with_plans<'a>(&'a mut self, blocks: &'a mut Blocks) -> (&'a mut Queueing<B>, PlansAndBlocks<'a>) {
        let plans = PlansAndBlocks {
            plans: &self.plans,
            blocks,
        };
        (&mut self.queueing, plans)
    }

    /// A class comes, changes or goes.
    ///
    /// # Errors
    /// [`Refusal::InUse`] where sessions have queues, unless it stays as it is.
    pub fn change_class(&mut self, id: u8, class: Option<QueueClass>) -> Result<(), Refusal> {
        let Some(place) = self.classes.get(usize::from(id)) else {
            return Err(Refusal::Unsupported);
        };
        if *place == class {
            return Ok(());
        }
        if !self.plans.0.is_empty() {
            return Err(Refusal::InUse);
        }
        let old = std::mem::replace(&mut self.classes[usize::from(id)], class);
        self.queueing.set_classes(&self.classes).map_err(|error| {
            self.classes[usize::from(id)] = old;
            match error {
                TmError::WredFull => Refusal::Full,
                _ => Refusal::Unsupported,
            }
        })
    }

    /// A shared node comes, or its rate changes.
    ///
    /// # Errors
    /// [`Refusal::Missing`]: its parent. [`Refusal::Unsupported`]: too many above each other, or it would be below
    /// another one. [`Refusal::Full`].
    pub fn put_node(&mut self, id: SharedNodeId, node: &SharedNode) -> Result<(), Refusal> {
        let shaper = Shaper {
            rate: node.rate,
            burst: node.burst,
        };
        if let Some((old, known)) = self.nodes.get_mut(&id) {
            if !old.differs_in_rate_alone(node) {
                return Err(Refusal::Unsupported);
            }
            self.queueing.set_node(*known, shaper);
            *old = *node;
            return Ok(());
        }
        let parent = match node.parent {
            None => None,
            Some(parent) => Some(self.nodes.get(&parent).ok_or(Refusal::Missing)?.1),
        };
        if self.above(node.parent) >= SharedNode::MOST_LEVELS {
            return Err(Refusal::Unsupported);
        }
        let added = self.queueing.add_shared_node(NodeSpec {
            parent,
            shaper,
            weight: node.weight,
            overhead: node.overhead,
        });
        let added = added.map_err(|error| match error {
            TmError::NodesFull => Refusal::Full,
            _ => Refusal::Unsupported,
        })?;
        self.nodes.insert(id, (*node, added));
        Ok(())
    }

    /// How many nodes are at a node and above it.
    fn above(&self, node: Option<SharedNodeId>) -> usize {
        let parent = |id: &SharedNodeId| self.nodes.get(id)?.0.parent;
        std::iter::successors(node, parent).count()
    }

    /// A shared node goes.
    ///
    /// # Errors
    /// [`Refusal::InUse`].
    pub fn remove_node(&mut self, id: SharedNodeId) -> Result<(), Refusal> {
        if let Some((_, node)) = self.nodes.get(&id) {
            self.queueing
                .remove_shared_node(*node)
                .map_err(|_| Refusal::InUse)?;
            self.nodes.remove(&id);
        }
        Ok(())
    }

    /// The plan of a session's queues.
    pub fn plan(&self, session: SessionIndex, direction: Direction) -> Option<&EgressQueues> {
        Some(&self.plans.0.get(&(session, direction))?.plan)
    }

    /// Whether queues are those of a session, at whatever rates.
    pub fn are_same(&self, session: SessionIndex, direction: Direction, queues: &Queues) -> bool {
        let told = self.plans.0.get(&(session, direction));
        told.is_some_and(|told| told.queues.are_same(queues))
    }

    /// Whether all is there that queues name.
    ///
    /// # Errors
    /// [`Refusal::Missing`].
    pub fn has_all_of(&self, queues: &Queues) -> Result<(), Refusal> {
        let is_class = |class: u8| self.classes.get(usize::from(class)).is_some_and(Option::is_some);
        let is_there =
            self.nodes.contains_key(&queues.node) && queues.queues.iter().all(|queue| is_class(queue.class));
        is_there.then_some(()).ok_or(Refusal::Missing)
    }

    /// The same queues have other rates.
    pub fn change_rates(&mut self, session: SessionIndex, direction: Direction, queues: &Queues, now: Nanos) {
        let plan = plan_of(queues);
        self.queueing.set_rates(session, direction, &plan, now);
        let queues = queues.clone();
        self.plans.0.insert((session, direction), Told { queues, plan });
    }

    /// A session gets queues in a direction where it has none.
    ///
    /// # Errors
    /// [`Refusal::Full`], [`Refusal::Missing`].
    pub fn add(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        queues: &Queues,
    ) -> Result<(), Refusal> {
        let (_, node) = *self.nodes.get(&queues.node).ok_or(Refusal::Missing)?;
        let plan = plan_of(queues);
        if !self.queueing.put_plan(session, direction, &plan, node) {
            return Err(Refusal::Full);
        }
        let queues = queues.clone();
        self.plans.0.insert((session, direction), Told { queues, plan });
        Ok(())
    }

    /// Lets all that waits stand before ports, and removes the queues: what they were, and what is left of their rates.
    pub fn remove(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        now: Nanos,
    ) -> Option<(Queues, QueueTokens)> {
        let Told { queues, plan } = self.plans.0.remove(&(session, direction))?;
        let tokens = self.queueing.let_all_leave(session, direction, &plan, now);
        Some((queues, tokens))
    }

    /// Lets all that waits stand before ports. The queues stay.
    pub fn empty(&mut self, session: SessionIndex, direction: Direction, now: Nanos) {
        let Some((queues, tokens)) = self.remove(session, direction, now) else {
            return;
        };
        let is_added = self.add(session, direction, &queues);
        debug_assert_eq!(is_added, Ok(()), "they were there");
        if let Some(told) = self.plans.0.get(&(session, direction)) {
            let plan = &told.plan;
            self.queueing.set_tokens(session, direction, plan, &tokens, now);
        }
    }

    /// Says whether packets that leave by an instance wait.
    pub fn set_instance(&mut self, instance: InstanceId, waits: bool) {
        self.queueing.set_instance(instance, waits);
    }

    /// All is lost, with classes and nodes.
    pub fn lose_all(&mut self, now: Nanos) {
        self.queueing.lose_all(now);
        self.plans.0.clear();
        // Those that have none below them first.
        while !self.nodes.is_empty() {
            let before = self.nodes.len();
            let ids: Vec<SharedNodeId> = self.nodes.keys().copied().collect();
            for id in ids {
                let _ = self.remove_node(id);
            }
            if self.nodes.len() == before {
                debug_assert!(false, "a node is in use by nothing");
                break;
            }
        }
        self.classes = [None; QueueClass::MOST as usize];
        let is_empty = self.queueing.set_classes(&self.classes);
        debug_assert!(is_empty.is_ok(), "{is_empty:?}");
    }
}

/// Queues as a worker's session has them.
pub(crate) fn plan_of(queues: &Queues) -> EgressQueues {
    let shaper = |of: &flow::contract::Shaper| EgressShaper {
        qer: QerId(u32::from(of.qer)),
        slot: of.qer,
        maximum: of.maximum,
        burst_millis: of.burst_millis.into(),
    };
    let queue = |of: &flow::contract::Queue| EgressQueue {
        marking: of.marking.unwrap_or(Verdict::NO_MARK),
        qer: None,
        shaper: of.shaper,
        class: of.class,
        guaranteed: of.guaranteed,
        maximum: of.maximum,
        burst_millis: of.burst_millis.into(),
    };
    EgressQueues {
        instance: InstanceId(0),
        policers: Chain::default(),
        shapers: queues.shapers.iter().map(shaper).collect(),
        queues: queues.queues.iter().map(queue).collect(),
    }
}
