//! Objects and their names: each kind has a number.

use flow::contract::{
    Adjacency, AnyKey, Flow, Instance, Object, ObjectId, PathMtu, QueueClass, Route, RoutePrefix, SharedNode,
    SharedNodeId,
};
use flow::meter::{MeterSpec, MeterState, Rate, SharedId};
use flow::{AdjacencyId, Forward, InstanceId, Mark};

use super::counters::Counter;
use super::field::{Bound, CodecError, Field, Reader, Wire, Writer};
use super::meters::SHARED;
use super::network::{ADJACENCY, INSTANCE, put_path, take_path};
use super::queues::{CLASS, NODE, put_queues, take_queues};
use super::slots::{COUNTER_SLOT, DIRECTION, DIRECTIONS, FORWARD_SLOT, QER_SLOT};

const FLOW: u8 = 1;
const FORWARD: u8 = 2;
const QER: u8 = 3;
const METER: u8 = 4;
const COUNTER: u8 = 5;
const SHARE: u8 = 6;
const FLOWS: u8 = 7;
const CONTENTS: u8 = 8;
const SESSION: u8 = 9;
const GENERATION_KIND: u8 = 10;
const QUEUES: u8 = 11;
const INSTANCE_KIND: u8 = 16;
const ROUTE: u8 = 17;
const ADJACENCY_KIND: u8 = 18;
const PATH_MTU: u8 = 19;
const SHARED_METER: u8 = 20;
const SHARED_CHAIN: u8 = 21;
const QUEUE_CLASS: u8 = 22;
const SHARED_NODE: u8 = 23;

/// The kinds that objects are of.
pub(super) const OBJECT_KIND: Field = Field::new(
    "object kind",
    Bound::OneOf(&[1, 2, 3, 4, 5, 6, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]),
);
/// The kinds that names are of.
pub(super) const NAME_KIND: Field = Field::new(
    "object kind",
    Bound::OneOf(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]),
);

const GATES: Field = Field::bits("gates and meters", 0b1111);
const STATE: Field = Field::most("meter state", 1);
const BURST: Field = Field::any("burst");
const GENERATION: Field = Field::any("generation");

/// The number of its kind.
pub(super) const fn kind_of(id: &ObjectId) -> u8 {
    match id {
        ObjectId::Flow(_) => FLOW,
        ObjectId::Forward(_) => FORWARD,
        ObjectId::Qer(_) => QER,
        ObjectId::Meter(..) => METER,
        ObjectId::Counter(_) => COUNTER,
        ObjectId::Share => SHARE,
        ObjectId::Flows => FLOWS,
        ObjectId::Contents => CONTENTS,
        ObjectId::Session => SESSION,
        ObjectId::Generation => GENERATION_KIND,
        ObjectId::Instance(_) => INSTANCE_KIND,
        ObjectId::Route(_) => ROUTE,
        ObjectId::Adjacency(_) => ADJACENCY_KIND,
        ObjectId::PathMtu(..) => PATH_MTU,
        ObjectId::SharedMeter(_) => SHARED_METER,
        ObjectId::SharedChain(_) => SHARED_CHAIN,
        ObjectId::Queues(_) => QUEUES,
        ObjectId::QueueClass(_) => QUEUE_CLASS,
        ObjectId::SharedNode(_) => SHARED_NODE,
    }
}

/// Writes an object without its kind.
pub(super) fn put_object(object: &Object, to: &mut Writer<'_>) {
    match object {
        Object::Flow(flow) => flow.put(to),
        Object::Forward { slot, forward } => {
            to.u8(&FORWARD_SLOT, *slot);
            forward.put(to);
        }
        Object::Qer {
            slot,
            mark,
            closed,
            metered,
        } => {
            let bits = [closed[0], closed[1], metered[0], metered[1]];
            let bit = |mask, (place, is_set)| mask | u8::from(is_set) << place;
            to.u8(&QER_SLOT, *slot);
            to.u8(&GATES, bits.into_iter().enumerate().fold(0, bit));
            mark.put(to);
        }
        Object::Meter {
            qer,
            direction,
            spec,
            state,
        } => {
            to.u8(&QER_SLOT, *qer);
            to.u8(&DIRECTION, *direction as u8);
            to.u8(&STATE, state.is_some().into());
            to.reserved(1);
            spec.put(to);
            if let Some(state) = state {
                state.put(to);
            }
        }
        Object::Counter { slot, kind, bounds } => {
            to.u8(&COUNTER_SLOT, *slot);
            let (kind, bounds) = (*kind, *bounds);
            Counter { kind, bounds }.put(to);
        }
        Object::Generation(generation) => to.u32(&GENERATION, *generation),
        Object::Share(id) => put_shared(*id, to),
        Object::Instance { id, instance } => {
            to.u16(&INSTANCE, id.0);
            instance.put(to);
        }
        Object::Route(route) => route.put(to),
        Object::Adjacency { id, adjacency } => {
            to.u32(&ADJACENCY, id.0);
            adjacency.put(to);
        }
        Object::PathMtu(PathMtu { local, peer, mtu }) => put_path(local, peer, Some(*mtu), to),
        Object::SharedMeter { id, rates, bursts } => {
            put_shared(*id, to);
            rates.iter().for_each(|rate| rate.put(to));
            bursts.iter().for_each(|burst| to.u64(&BURST, *burst));
        }
        Object::SharedChain { id, chain } => {
            put_shared(*id, to);
            chain.iter().for_each(|id| to.u16(&SHARED, id.0));
        }
        Object::Queues {
            direction,
            queues,
            tokens,
        } => put_queues(*direction, queues, tokens.as_deref(), to),
        Object::QueueClass { id, class } => {
            put_class(*id, to);
            class.put(to);
        }
        Object::SharedNode { id, node } => {
            put_node(*id, to);
            node.put(to);
        }
    }
}

/// Four octets.
fn put_class(id: u8, to: &mut Writer<'_>) {
    to.u8(&CLASS, id);
    to.reserved(3);
}

fn take_class(from: &mut Reader<'_>) -> Result<u8, CodecError> {
    let id = from.u8(&CLASS)?;
    from.reserved(3)?;
    Ok(id)
}

/// Four octets.
fn put_node(id: SharedNodeId, to: &mut Writer<'_>) {
    to.u16(&NODE, id.0);
    to.reserved(2);
}

fn take_node(from: &mut Reader<'_>) -> Result<SharedNodeId, CodecError> {
    let id = SharedNodeId(from.u16(&NODE)?);
    from.reserved(2)?;
    Ok(id)
}

/// Four octets.
fn put_shared(id: SharedId, to: &mut Writer<'_>) {
    to.u16(&SHARED, id.0);
    to.reserved(2);
}

fn take_shared(from: &mut Reader<'_>) -> Result<SharedId, CodecError> {
    let id = SharedId(from.u16(&SHARED)?);
    from.reserved(2)?;
    Ok(id)
}

/// Reads an object of this kind.
pub(super) fn take_object(kind: u8, from: &mut Reader<'_>) -> Result<Object, CodecError> {
    Ok(match kind {
        FLOW => Object::Flow(Flow::take(from)?),
        FORWARD => Object::Forward {
            slot: from.u8(&FORWARD_SLOT)?,
            forward: Forward::take(from)?,
        },
        QER => {
            let (slot, gates) = (from.u8(&QER_SLOT)?, from.u8(&GATES)?);
            let bits = |places: [u8; 2]| places.map(|place| gates >> place & 1 != 0);
            Object::Qer {
                slot,
                mark: Mark::take(from)?,
                closed: bits([0, 1]),
                metered: bits([2, 3]),
            }
        }
        METER => {
            let qer = from.u8(&QER_SLOT)?;
            let direction = from.place(&DIRECTION, DIRECTIONS)?;
            let has_state = from.u8(&STATE)? != 0;
            from.reserved(1)?;
            let spec = MeterSpec::take(from)?;
            let state = has_state.then(|| MeterState::take(from)).transpose()?;
            Object::Meter {
                qer,
                direction,
                spec,
                state,
            }
        }
        COUNTER => {
            let slot = from.u8(&COUNTER_SLOT)?;
            let Counter { kind, bounds } = Counter::take(from)?;
            Object::Counter { slot, kind, bounds }
        }
        GENERATION_KIND => Object::Generation(from.u32(&GENERATION)?),
        SHARE => Object::Share(take_shared(from)?),
        QUEUES => {
            let of = take_queues(from)?;
            Object::Queues {
                direction: of.direction,
                queues: Box::new(of.queues),
                tokens: of.tokens.map(Box::new),
            }
        }
        _ => take_of_node(kind, from)?,
    })
}

fn take_of_node(kind: u8, from: &mut Reader<'_>) -> Result<Object, CodecError> {
    Ok(match kind {
        INSTANCE_KIND => Object::Instance {
            id: InstanceId(from.u16(&INSTANCE)?),
            instance: Box::new(Instance::take(from)?),
        },
        ROUTE => Object::Route(Route::take(from)?),
        ADJACENCY_KIND => Object::Adjacency {
            id: AdjacencyId(from.u32(&ADJACENCY)?),
            adjacency: Adjacency::take(from)?,
        },
        PATH_MTU => Object::PathMtu(take_path(from, true)?),
        SHARED_METER => Object::SharedMeter {
            id: take_shared(from)?,
            rates: [Rate::take(from)?, Rate::take(from)?],
            bursts: [from.u64(&BURST)?, from.u64(&BURST)?],
        },
        QUEUE_CLASS => Object::QueueClass {
            id: take_class(from)?,
            class: QueueClass::take(from)?,
        },
        SHARED_NODE => Object::SharedNode {
            id: take_node(from)?,
            node: SharedNode::take(from)?,
        },
        _ => {
            OBJECT_KIND.check(kind.into())?;
            let id = take_shared(from)?;
            let mut next = || from.u16(&SHARED).map(SharedId);
            Object::SharedChain {
                id,
                chain: [next()?, next()?, next()?, next()?],
            }
        }
    })
}

/// Writes a name without its kind.
pub(super) fn put_name(name: &ObjectId, to: &mut Writer<'_>) {
    let mut slot = |field, slot| {
        to.u8(field, slot);
        to.reserved(3);
    };
    match name {
        ObjectId::Flow(key) => key.put(to),
        ObjectId::Forward(number) => slot(&FORWARD_SLOT, *number),
        ObjectId::Qer(number) => slot(&QER_SLOT, *number),
        ObjectId::Counter(number) => slot(&COUNTER_SLOT, *number),
        ObjectId::Meter(qer, direction) => {
            to.u8(&QER_SLOT, *qer);
            to.u8(&DIRECTION, *direction as u8);
            to.reserved(2);
        }
        ObjectId::Generation | ObjectId::Share | ObjectId::Flows | ObjectId::Contents | ObjectId::Session => {
        }
        ObjectId::Instance(id) => {
            to.u16(&INSTANCE, id.0);
            to.reserved(2);
        }
        ObjectId::Route(prefix) => prefix.put(to),
        ObjectId::Adjacency(id) => to.u32(&ADJACENCY, id.0),
        ObjectId::PathMtu(local, peer) => put_path(local, peer, None, to),
        ObjectId::SharedMeter(id) | ObjectId::SharedChain(id) => put_shared(*id, to),
        ObjectId::Queues(direction) => {
            to.u8(&DIRECTION, *direction as u8);
            to.reserved(3);
        }
        ObjectId::QueueClass(id) => put_class(*id, to),
        ObjectId::SharedNode(id) => put_node(*id, to),
    }
}

/// Reads a name of this kind.
pub(super) fn take_name(kind: u8, from: &mut Reader<'_>) -> Result<ObjectId, CodecError> {
    let slot = |field: &Field, from: &mut Reader<'_>| {
        let slot = from.u8(field)?;
        from.reserved(3)?;
        Ok(slot)
    };
    Ok(match kind {
        FLOW => ObjectId::Flow(AnyKey::take(from)?),
        FORWARD => ObjectId::Forward(slot(&FORWARD_SLOT, from)?),
        QER => ObjectId::Qer(slot(&QER_SLOT, from)?),
        METER => {
            let (qer, direction) = (from.u8(&QER_SLOT)?, from.place(&DIRECTION, DIRECTIONS)?);
            from.reserved(2)?;
            ObjectId::Meter(qer, direction)
        }
        COUNTER => ObjectId::Counter(slot(&COUNTER_SLOT, from)?),
        SHARE => ObjectId::Share,
        FLOWS => ObjectId::Flows,
        CONTENTS => ObjectId::Contents,
        SESSION => ObjectId::Session,
        GENERATION_KIND => ObjectId::Generation,
        INSTANCE_KIND => {
            let id = InstanceId(from.u16(&INSTANCE)?);
            from.reserved(2)?;
            ObjectId::Instance(id)
        }
        ROUTE => ObjectId::Route(RoutePrefix::take(from)?),
        ADJACENCY_KIND => ObjectId::Adjacency(AdjacencyId(from.u32(&ADJACENCY)?)),
        PATH_MTU => {
            let PathMtu { local, peer, .. } = take_path(from, false)?;
            ObjectId::PathMtu(local, peer)
        }
        SHARED_METER => ObjectId::SharedMeter(take_shared(from)?),
        QUEUES => {
            let direction = from.place(&DIRECTION, DIRECTIONS)?;
            from.reserved(3)?;
            ObjectId::Queues(direction)
        }
        QUEUE_CLASS => ObjectId::QueueClass(take_class(from)?),
        SHARED_NODE => ObjectId::SharedNode(take_node(from)?),
        _ => {
            NAME_KIND.check(kind.into())?;
            ObjectId::SharedChain(take_shared(from)?)
        }
    })
}
