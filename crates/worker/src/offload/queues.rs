//! Queues of sessions that an accelerator passes: what it has to know of classes and shared nodes, which queues it
//! can have, and what the queues here do while a session leaves and comes.
//!
//! A rate that sessions share, of a port, an instance or a policer, is kept in one place: by the queues here. Sessions
//! below one of these stay.

use flow::contract::{
    Management, Object, QueueClass, QueueRoom, QueueTokens, Queues, RedCurve, SharedNode, SharedNodeId,
};
use flow::meter::{Rate, SharedId};
use flow::{Direction, Nanos, SessionIndex, Verdict};
use rules::image::{EgressQueue, EgressQueues, EgressShaper, SessionImage};
use rules::network::{EgressClass, Instance, Network, QueueManagement, WredCurve};

use super::stays::Stays;

/// Nodes of instances have numbers from here on, below it those of ports.
const OF_INSTANCES: u16 = 256;

/// The node of a port of the accelerator; `None`: it has no number.
fn of_port(number: usize) -> Option<SharedNodeId> {
    let number = u16::try_from(number).ok()?;
    (number < OF_INSTANCES).then_some(SharedNodeId(number))
}

fn of_instance(instance: &Instance) -> Option<SharedNodeId> {
    instance.id.0.checked_add(OF_INSTANCES).map(SharedNodeId)
}

fn class(class: &EgressClass) -> QueueClass {
    let curve = |of: &WredCurve| RedCurve {
        min: of.min,
        max: of.max,
        one_in: of.one_in,
    };
    QueueClass {
        priority: class.priority,
        weight: class.weight,
        octets: class.octets,
        management: match &class.management {
            QueueManagement::TailDrop => Management::TailDrop,
            QueueManagement::CoDel => Management::CoDel,
            QueueManagement::L4s => Management::DualQueue,
            QueueManagement::Wred(wred) => Management::Wred {
                green: curve(&wred.green),
                yellow: curve(&wred.yellow),
                weight_log2: wred.weight_log2,
            },
        },
    }
}

/// The classes of a network.
fn classes(network: &Network) -> impl Iterator<Item = (u8, QueueClass)> + '_ {
    let all = network.egress().map(|egress| egress.classes.all());
    (0..).zip(all.unwrap_or_default().iter().map(class))
}

/// Whether an accelerator can have queues of all classes.
fn has_all_classes(network: &Network, room: &QueueRoom) -> bool {
    classes(network).all(|(_, class)| room.can_be(&class))
}

/// What an accelerator with this room has to know of queues: classes, ports and instances, of those behind `own_ports`.
/// Nothing where it cannot have queues of all classes.
pub(super) fn of_node(network: &Network, own_ports: usize, room: &QueueRoom) -> Vec<Object> {
    if !has_all_classes(network, room) {
        return Vec::new();
    }
    let class = |(id, class)| Object::QueueClass { id, class };
    let mut objects: Vec<Object> = classes(network).map(class).collect();
    let behind = || {
        let with_queues = network.instances().iter().filter(|of| of.egress.is_some());
        with_queues.filter_map(|of| Some((of, of_port(of.port.index().checked_sub(own_ports)?)?)))
    };
    // Without a rate there is nothing that headers count for.
    let node = |id, parent| Object::SharedNode {
        id,
        node: SharedNode {
            parent,
            rate: Rate::UNLIMITED,
            burst: 0,
            weight: 1,
            overhead: 0,
        },
    };
    let mut ports: Vec<SharedNodeId> = behind().map(|(_, port)| port).collect();
    ports.sort_unstable();
    ports.dedup();
    objects.extend(ports.into_iter().map(|id| node(id, None)));
    let instances = behind().filter_map(|(of, port)| Some(node(of_instance(of)?, Some(port))));
    objects.extend(instances);
    objects
}

/// The shared node that a session's queues are below, at an accelerator with this room.
///
/// # Errors
/// Why the session stays.
pub(super) fn node_of(
    network: &Network,
    plan: &EgressQueues,
    room: Option<&QueueRoom>,
) -> Result<SharedNodeId, Stays> {
    let room = room.ok_or(Stays::Queues)?;
    let is_limited = |rate: Rate| rate != Rate::UNLIMITED;
    let instance = network.instance(plan.instance).ok_or(Stays::Queues)?;
    let ports = network.egress().map(|egress| &egress.ports);
    let of_port = ports.and_then(|ports| ports.get(instance.port.index()));
    let shares = plan.policers.iter().any(|policer| *policer != SharedId::NONE)
        || instance.egress.is_some_and(|egress| is_limited(egress.rate))
        || of_port.is_some_and(|rate| is_limited(*rate));
    if shares {
        return Err(Stays::SharedShaper);
    }
    let node = of_instance(instance).filter(|node| node.0 < room.nodes);
    node.filter(|_| has_all_classes(network, room))
        .ok_or(Stays::Queues)
}

/// A session's queues in the words of the contract, below a shared node.
pub(super) fn queues_of(plan: &EgressQueues, node: SharedNodeId) -> Queues {
    let millis = |millis: u64| u16::try_from(millis).unwrap_or(u16::MAX);
    let shaper = |of: &EgressShaper| flow::contract::Shaper {
        qer: of.slot,
        maximum: of.maximum,
        burst_millis: millis(of.burst_millis),
    };
    let queue = |of: &EgressQueue| flow::contract::Queue {
        marking: (of.marking != Verdict::NO_MARK).then_some(of.marking),
        shaper: of.shaper,
        class: of.class,
        guaranteed: of.guaranteed,
        maximum: of.maximum,
        burst_millis: millis(of.burst_millis),
    };
    Queues {
        node,
        shapers: plan.shapers.iter().map(shaper).collect(),
        queues: plan.queues.iter().map(queue).collect(),
    }
}

/// The queues here, as sessions leave and come.
pub(crate) trait HomeQueues {
    /// Lets all that waits of a session leave at once, and its queues stay empty. What is left of their rates.
    fn let_leave(&mut self, image: &SessionImage, now: Nanos) -> [Option<QueueTokens>; 2];

    /// Whether something of a session stands before ports.
    fn stands(&self, session: SessionIndex) -> bool;

    /// The rates of a session's queues, which are empty, continue with what was left of them elsewhere.
    fn go_on(&mut self, image: &SessionImage, direction: Direction, tokens: &QueueTokens, now: Nanos);
}

#[cfg(test)]
mod tests {
    use flow::InstanceId;
    use flow::meter::Chain;
    use rules::model::QerId;

    use super::*;
    use crate::accelerator::plan_of;

    #[test]
    fn queues_come_back_as_they_were_given() {
        let plan = EgressQueues {
            instance: InstanceId(3),
            policers: Chain::default(),
            shapers: vec![EgressShaper {
                qer: QerId(9),
                slot: 4,
                maximum: Rate::from_kbit(1_000),
                burst_millis: 50,
            }],
            queues: vec![
                EgressQueue {
                    marking: Verdict::NO_MARK,
                    qer: None,
                    shaper: Some(0),
                    class: 2,
                    guaranteed: Rate::ZERO,
                    maximum: Rate::UNLIMITED,
                    burst_millis: 20,
                },
                EgressQueue {
                    marking: 7,
                    qer: Some(QerId(8)),
                    shaper: None,
                    class: 1,
                    guaranteed: Rate::from_kbit(10),
                    maximum: Rate::from_kbit(20),
                    burst_millis: 30,
                },
            ],
        };
        let told = queues_of(&plan, SharedNodeId(5));
        assert!(told.is_valid());
        let back = plan_of(&told);
        assert_eq!(
            (back.shapers[0].slot, back.shapers[0].maximum),
            (4, Rate::from_kbit(1_000))
        );
        for (was, is) in plan.queues.iter().zip(&back.queues) {
            assert_eq!(EgressQueue { qer: None, ..*was }, *is);
        }
        for (marking, qers) in [(Verdict::NO_MARK, 1 << 4), (7, 0), (7, 1 << 4), (9, 0)] {
            let slot = (marking != Verdict::NO_MARK).then_some(marking);
            assert_eq!(plan.of(marking, qers), told.of(slot, qers));
        }
    }
}
