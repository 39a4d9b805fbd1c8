//! The tables of an engine, as the backend of the FlowOp contract changes them.

use flow::contract::{
    AnyKey, Flow, InstanceUses, Object, ObjectId, PathMtu, QueueTokens, Queues, Refusal, Route,
};
use flow::meter::SharedId;
use flow::table_backend::BackendTables;
use flow::{Blocks, Direction, FlowEntry, Installed, Nanos, PortId, SessionIndex, UrrCount};

use crate::accelerator::engine::Engine;
use crate::accelerator::host_network::HostNetwork;
use crate::accelerator::put_error::PutError;
use crate::io::Io;

/// An engine, and the network as its host says it. Flows are in the engine alone, which ages them by itself.
pub struct EngineTables<I: Io> {
    engine: Engine<I>,
    network: HostNetwork,
    /// The marker with which flows settle that are put now: they came with a packet that was at the host.
    marker: Option<u32>,
}

impl<I: Io> EngineTables<I> {
    /// The tables of an engine that holds nothing.
    pub fn new(engine: Engine<I>) -> Self {
        Self {
            engine,
            network: HostNetwork::default(),
            marker: None,
        }
    }

    /// The engine.
    pub const fn engine(&self) -> &Engine<I> {
        &self.engine
    }

    /// The same, for packets.
    pub const fn engine_mut(&mut self) -> &mut Engine<I> {
        &mut self.engine
    }

    /// From now on flows that are put settle with this marker; `None`: no packet of theirs is at the host.
    pub const fn settle_with(&mut self, marker: Option<u32>) {
        self.marker = marker;
    }
}

impl<I: Io> BackendTables for EngineTables<I> {
    fn blocks(&self) -> &Blocks {
        self.engine.blocks()
    }

    fn blocks_mut(&mut self) -> &mut Blocks {
        self.engine.blocks_mut()
    }

    fn owner(&self, key: &AnyKey) -> Option<SessionIndex> {
        self.engine.owner(key)
    }

    fn prefetch_put(&self, session: SessionIndex, key: &AnyKey) {
        self.engine.prefetch_put(session, key);
    }

    fn put(
        &mut self,
        _: SessionIndex,
        _: &Flow,
        entry: &FlowEntry<AnyKey>,
        now: Nanos,
    ) -> Result<(), Refusal> {
        let put = match self.marker {
            Some(marker) => self.engine.put_settling(entry, marker, now),
            None => self.engine.put(entry, now),
        };
        put.map_err(|error| match error {
            PutError::NoBlock | PutError::NoForward => Refusal::Missing,
            PutError::Taken => Refusal::Exists,
            PutError::Full => Refusal::Full,
        })
    }

    fn any_flow(&self, session: SessionIndex, is_it: &dyn Fn(&Flow) -> bool) -> bool {
        self.engine.any_flow(session, is_it)
    }

    fn moved(&mut self, session: SessionIndex, old: Installed, installed: Installed) {
        self.engine.moved(session, old, installed);
    }

    fn remove(&mut self, _: SessionIndex, key: &AnyKey, now: Nanos) {
        self.engine.remove(key, now);
    }

    fn remove_all(&mut self, session: SessionIndex, installed: Installed, now: Nanos) -> Installed {
        self.engine.pass_reinjected(now);
        let revoked = self.engine.blocks_mut().revoke(installed.block);
        self.engine.revoked(session);
        revoked.unwrap_or(installed)
    }

    fn age(&mut self, _: Nanos, aged: &mut Vec<(AnyKey, SessionIndex)>) {
        self.engine.take_aged(aged);
    }

    fn change_node(&mut self, id: ObjectId, object: Option<&Object>) -> Result<(), Refusal> {
        let engine = &mut self.engine;
        match (id, object) {
            (ObjectId::Instance(id), None) => {
                self.network.change_instance(id, None, |_| true)?;
                if let Some(queues) = engine.queues_mut() {
                    queues.set_instance(id, false);
                }
            }
            (ObjectId::Instance(id), Some(Object::Instance { instance, .. })) => {
                let is_port = |port: PortId| engine.is_of_network(port);
                self.network.change_instance(id, Some(instance), is_port)?;
                if let Some(queues) = engine.queues_mut() {
                    queues.set_instance(id, instance.uses.contains(InstanceUses::QUEUES));
                }
            }
            (ObjectId::Route(prefix), None) => self.network.change_route(prefix, None)?,
            (ObjectId::Route(_), Some(Object::Route(Route { prefix, target }))) => {
                self.network.change_route(*prefix, Some(*target))?;
            }
            (ObjectId::Adjacency(id), None) => self.network.change_adjacency(engine, id, None),
            (ObjectId::Adjacency(id), Some(Object::Adjacency { adjacency, .. })) => {
                self.network.change_adjacency(engine, id, Some(*adjacency));
            }
            (ObjectId::PathMtu(local, peer), None) => engine.set_path_mtu(local, peer, None),
            (_, Some(&Object::PathMtu(PathMtu { local, peer, mtu }))) => {
                engine.set_path_mtu(local, peer, Some(mtu));
            }
            (ObjectId::SharedMeter(id), None) => engine.shared_meters_mut().forget(id),
            (_, Some(&Object::SharedMeter { id, rates, bursts })) => {
                for (way, (rate, burst)) in Direction::BOTH.into_iter().zip(rates.into_iter().zip(bursts)) {
                    engine.shared_meters_mut().set(id, way, rate, burst);
                }
            }
            (ObjectId::SharedChain(id), None) => {
                let none = SharedId::NONE;
                engine.shared_meters_mut().set_chain(id, [id, none, none, none]);
            }
            (_, Some(&Object::SharedChain { id, chain })) => {
                if !engine.shared_meters_mut().set_chain(id, chain) {
                    return Err(Refusal::Unsupported);
                }
            }
            _ => return self.change_queue_node(id, object),
        }
        Ok(())
    }

    fn fence_node(&mut self) {
        self.network.settle(&mut self.engine);
    }

    fn take_demand(&mut self, id: SharedId) -> [u64; 2] {
        let mut demand = [(id, [0; 2])];
        self.engine.shared_meters_mut().take_demand(&mut demand);
        demand[0].1
    }

    fn put_queues(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        queues: &Queues,
        tokens: Option<&QueueTokens>,
        now: Nanos,
    ) -> Result<(), Refusal> {
        self.engine.put_queues(session, direction, (queues, tokens), now)
    }

    fn remove_queues(&mut self, session: SessionIndex, direction: Direction, now: Nanos) -> QueueTokens {
        let removed = self.engine.remove_queues(session, direction, now);
        removed.map(|(_, tokens)| tokens).unwrap_or_default()
    }

    fn queue_tokens(&self, session: SessionIndex, direction: Direction, now: Nanos) -> QueueTokens {
        self.engine.queue_tokens(session, direction, now)
    }

    fn empty_queues(&mut self, session: SessionIndex, now: Nanos) {
        self.engine.empty_queues(session, now);
    }

    fn waiting(&self, session: SessionIndex, counter: u8) -> UrrCount {
        self.engine.not_left(session, counter)
    }

    fn share_among(&mut self, sharers: usize) {
        self.engine.flow_counts_mut().share_among(sharers);
    }

    fn assign(&mut self, session: SessionIndex, sharer: usize) {
        self.engine.flow_counts_mut().assign(session, sharer);
    }

    fn lose_queues(&mut self, now: Nanos) {
        self.engine.lose_queues(now);
    }
}

impl<I: Io> EngineTables<I> {
    /// A class of queues or a shared node comes, changes or goes.
    fn change_queue_node(&mut self, id: ObjectId, object: Option<&Object>) -> Result<(), Refusal> {
        let queues = self.engine.queues_mut().ok_or(Refusal::Unsupported)?;
        match (id, object) {
            (ObjectId::QueueClass(id), None) => queues.change_class(id, None),
            (_, Some(&Object::QueueClass { id, class })) => queues.change_class(id, Some(class)),
            (ObjectId::SharedNode(id), None) => queues.remove_node(id),
            (_, Some(Object::SharedNode { id, node })) => queues.put_node(*id, node),
            _ => Err(Refusal::Unsupported),
        }
    }
}
