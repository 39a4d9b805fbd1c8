//! Queues of an accelerator: classes, shared nodes and queues are as its host says.

use flow::contract::{Management, QueueClass, RedCurve};
use flow::slab::OutOfMemory;
use flow::{Direction, Installed, InstanceId, Nanos, SessionIndex, UrrCount};
use packet::{DropReason, PacketBuf};
use rules::image::EgressQueues;
use tm::{Aqm, Manager, NodeId, NodeSpec, Shaper, TmError, WredProfile};

use super::nodes::{NodeClass, Nodes};
use super::packets::OF_NO_SESSION;
use super::tally::Tally;
use super::{Queueing, manager};
use crate::EgressLimits;
use crate::burst::credit::Charge;
use crate::io::PacketMetadata;

/// Roots that there can be: packets name them by an octet.
const MOST_ROOTS: usize = 255;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// The queues of an accelerator with this number of ports, for packets of up to `largest` octets: there are no
    /// classes and no nodes yet.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn told(
        limits: &EgressLimits,
        nodes: u16,
        largest: u16,
        ports: usize,
        sessions: usize,
    ) -> Result<Self, OutOfMemory> {
        let (manager, largest) = manager(limits, nodes.max(1), largest)?;
        let mut queueing = Self::with((manager, Nodes::none()), limits, largest, ports, sessions);
        queueing.tally = Some(Tally::new(sessions));
        Ok(queueing)
    }

    /// These are the classes, by their numbers. No session has queues.
    ///
    /// # Errors
    /// A session has, or a curve of WRED is out of its bounds.
    pub fn set_classes(&mut self, classes: &[Option<QueueClass>]) -> Result<(), TmError> {
        self.manager.clear_wred()?;
        let end = classes
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        let mut all = Vec::with_capacity(end);
        for class in &classes[..end] {
            // One that is not there is named by no queue.
            let class = class.unwrap_or(QueueClass {
                priority: 0,
                weight: 1,
                octets: 0,
                management: Management::TailDrop,
            });
            all.push(NodeClass {
                priority: class.priority,
                weight: class.weight,
                octets: class.octets,
                aqm: aqm(&mut self.manager, &class.management)?,
            });
        }
        self.nodes.classes = all;
        Ok(())
    }

    /// Adds a shared node; one without a parent is a port.
    ///
    /// # Errors
    /// As [`Manager::add_node`].
    pub fn add_shared_node(&mut self, spec: NodeSpec) -> Result<NodeId, TmError> {
        if spec.parent.is_none() && self.nodes.ports.len() >= MOST_ROOTS {
            return Err(TmError::NodesFull);
        }
        let node = self.manager.add_node(spec)?;
        if spec.parent.is_none() {
            self.nodes.ports.push(node);
            self.standing.push(0);
        }
        Ok(node)
    }

    /// Sets the rate of a shared node, as of the last time that packets came or left.
    pub fn set_node(&mut self, node: NodeId, shaper: Shaper) {
        let _ = self.manager.set_node_rate(node, shaper, Nanos::ZERO);
    }

    /// Removes a shared node.
    ///
    /// # Errors
    /// Something is below it.
    pub fn remove_shared_node(&mut self, node: NodeId) -> Result<(), TmError> {
        self.manager.remove_node(node)?;
        let Some(place) = self.nodes.ports.iter().position(|port| *port == node) else {
            return Ok(());
        };
        self.nodes.ports.remove(place);
        self.standing.remove(place);
        // What has left its queues stands for no node any more; the others' places have moved up.
        let standing = self.outputs.iter_mut().flat_map(|output| &mut output.queue);
        for departing in standing {
            departing.node = match departing.node.map(usize::from) {
                Some(of) if of == place => None,
                Some(of) if of > place => Some(of as u8 - 1),
                _ => departing.node,
            };
        }
        Ok(())
    }

    /// Says whether packets that leave by an instance wait.
    pub fn set_instance(&mut self, instance: InstanceId, waits: bool) {
        self.nodes.set_instance(instance, waits);
    }

    /// Gives a direction of a session queues, where it has none. False, and there are none, where there is no room.
    pub fn put_plan(
        &mut self,
        session: SessionIndex,
        direction: Direction,
        plan: &EgressQueues,
        node: NodeId,
    ) -> bool {
        if self.queues + plan.queues.len() > self.most_queues {
            return false;
        }
        self.add_below(session, direction, plan, node);
        self.lacking.remove(&(session, direction));
        self.line(session, direction).is_some()
    }

    /// What waits of a session counts in this block from now on, in the same slots.
    pub fn move_charges(&mut self, session: SessionIndex, installed: Installed) {
        let slots: Vec<Option<u8>> = (0..64).map(Some).collect();
        self.for_each_charge(session, |charge| charge.arrive(installed, &slots));
    }

    /// What of a session stands before ports has left, for its counters; what waits in queues has not.
    pub fn settle_charges(&mut self, session: SessionIndex) {
        let standing = self.outputs.iter_mut().flat_map(|output| &mut output.queue);
        for departing in standing.filter(|departing| departing.session == session) {
            let charge = std::mem::replace(&mut departing.charge, Charge::NONE);
            if let Some(tally) = &mut self.tally {
                tally.take(session, &charge);
            }
        }
    }

    fn for_each_charge(&mut self, session: SessionIndex, mut change: impl FnMut(&mut Charge)) {
        for direction in Direction::BOTH {
            let Some(line) = self.queues_of(session, direction) else {
                continue;
            };
            for place in 0..line.len() {
                let held = self.manager.held(line.at(place), |room| {
                    if let Some(waiting) = room.get_mut() {
                        change(&mut waiting.charge);
                    }
                });
                debug_assert!(held.is_ok(), "{held:?}");
            }
        }
        let standing = self.outputs.iter_mut().flat_map(|output| &mut output.queue);
        for departing in standing.filter(|departing| departing.session == session) {
            change(&mut departing.charge);
        }
    }

    /// What packets of a session that have not left have counted in a counter.
    pub fn not_left(&self, session: SessionIndex, counter: u8) -> UrrCount {
        let tally = self.tally.as_ref();
        tally.map_or_else(UrrCount::default, |tally| tally.of(session, counter))
    }

    /// All that waits or stands of sessions is lost, and no session has queues.
    pub fn lose_all(&mut self, now: Nanos) {
        let with_queues: Vec<SessionIndex> = (0..)
            .map(SessionIndex)
            .zip(&self.sessions)
            .filter(|(_, lines)| lines.iter().any(|line| !line.is_none()))
            .map(|(session, _)| session)
            .collect();
        for session in with_queues {
            self.forget(session, now);
        }
        for place in 0..self.outputs.len() {
            for _ in 0..self.outputs[place].queue.len() {
                let Some(departing) = self.next_of(place) else {
                    break;
                };
                match departing.session {
                    OF_NO_SESSION => self.stand(departing),
                    _ => self.lost.push(departing.lost(DropReason::EgressReleased)),
                }
            }
        }
    }
}

fn aqm(manager: &mut Manager<impl tm::Room>, management: &Management) -> Result<Aqm, TmError> {
    Ok(match management {
        Management::TailDrop => Aqm::TailDrop,
        Management::CoDel => Aqm::CoDel,
        Management::DualQueue => Aqm::DualQueue,
        Management::Wred {
            green,
            yellow,
            weight_log2,
        } => {
            let curve = |of: &RedCurve| tm::RedCurve {
                min: of.min,
                max: of.max,
                one_in: of.one_in,
            };
            Aqm::Wred(manager.add_wred(&WredProfile {
                green: curve(green),
                yellow: curve(yellow),
                weight_log2: *weight_log2,
            })?)
        }
    })
}
