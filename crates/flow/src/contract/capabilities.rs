//! What a backend can do.

use core::time::Duration;

use super::network::{InstanceUses, Mss};
use super::objects::{AnyKey, CounterKind, Flow, Object};
use super::queues::{QueueClass, QueueRoom, Queues};
use super::refusal::Refusal;
use crate::flags::flags;
use crate::meter::SharedId;
use crate::{Forward, KeyFields};

flags! {
    /// What a backend can do with a packet.
    Actions(u16) {
        /// Removes the outer GTP-U, UDP and IP header.
        DECAPSULATE = 1;
        /// Adds an outer header over IPv4.
        ENCAPSULATE_V4 = 1 << 1;
        /// Adds an outer header over IPv6.
        ENCAPSULATE_V6 = 1 << 2;
        /// Adds a PDU Session Container.
        MARK = 1 << 3;
        /// From tunnel to tunnel, with extension headers created again.
        KEEP_EXTENSIONS = 1 << 4;
        /// Drops at closed gates.
        GATE = 1 << 5;
        /// Polices to a rate.
        METER = 1 << 6;
        /// Copies to the mirror of a forward.
        MIRROR = 1 << 7;
        /// Rewrites addresses and ports.
        NAT = 1 << 8;
        /// Has counters that count before QoS.
        COUNT_BEFORE_QOS = 1 << 9;
        /// Has counters of events.
        COUNT_EVENTS = 1 << 10;
        /// Has counters that weigh others.
        WEIGH = 1 << 11;
        /// Counts contents.
        COUNT_CONTENTS = 1 << 12;
        /// Lowers the segment sizes of SYNs, as instances say.
        CLAMP_MSS = 1 << 13;
    }
}

/// Which octets a backend counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteBasis {
    /// The inner IP packet, as charging wants it.
    InnerIp,
    /// The frame as it came or went: the difference per packet has to be known and taken off.
    Frame,
}

/// How exactly a backend counts when it loses its state, or a flow moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// Every packet is counted once.
    Exact,
    /// At most this many packets may be lost from the counts.
    Bounded {
        /// Packets.
        loss: u32,
    },
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Fields that may take part in a key.
    pub key_fields: KeyFields,
    /// What it can do with a packet.
    pub actions: Actions,
    /// IPv4 flows that it can hold.
    pub ipv4_flows: u32,
    /// IPv6 flows that it can hold.
    pub ipv6_flows: u32,
    /// Sessions that it can hold.
    pub sessions: u32,
    /// URRs that one flow may count in.
    pub counters_per_flow: u8,
    /// QERs that one flow may pass.
    pub qers_per_flow: u8,
    /// Meters that sessions share: numbers are from 1 up to this.
    pub shared_meters: u16,
    /// Instances: numbers are below this.
    pub instances: u16,
    /// Routes that it can hold.
    pub routes: u32,
    /// Adjacencies: numbers are below this.
    pub adjacencies: u32,
    /// What octets mean.
    pub byte_basis: ByteBasis,
    /// Whether counters can have watermarks and limits.
    pub limits: bool,
    /// Whether `Fence` is answered.
    pub fence: bool,
    /// How exactly it counts.
    pub exactness: Exactness,
    /// How often it reports counters by itself; `None`: never.
    pub counts_every: Option<Duration>,
    /// What it has for queues; `None`: no packet waits.
    pub queues: Option<QueueRoom>,
}

impl Capabilities {
    const SHARED_METERS: u16 = 64;

    /// Those of a backend that is not there.
    pub const NOTHING: Self = Self {
        key_fields: KeyFields::NONE,
        actions: Actions::NONE,
        ipv4_flows: 0,
        ipv6_flows: 0,
        sessions: 0,
        counters_per_flow: 0,
        qers_per_flow: 0,
        shared_meters: 0,
        instances: 0,
        routes: 0,
        adjacencies: 0,
        byte_basis: ByteBasis::InnerIp,
        limits: false,
        fence: false,
        exactness: Exactness::Exact,
        counts_every: None,
        queues: None,
    };

    /// Those of a backend in partial mode: it is given the network, of which it has room for so much, and no session.
    pub const fn partial(instances: u16, routes: u32, adjacencies: u32) -> Self {
        Self {
            instances,
            routes,
            adjacencies,
            fence: true,
            ..Self::NOTHING
        }
    }

    /// Whether it can hold sessions: one that cannot is in partial mode.
    pub const fn holds_sessions(&self) -> bool {
        self.sessions > 0
    }

    /// What the local backend can do when its tables have these sizes.
    pub const fn local(ipv4_flows: u32, ipv6_flows: u32, sessions: u32) -> Self {
        Self {
            key_fields: KeyFields::from_bits(0x2f),
            actions: Actions::from_bits(0x1fff),
            ipv4_flows,
            ipv6_flows,
            sessions,
            counters_per_flow: 64,
            qers_per_flow: 64,
            shared_meters: Self::SHARED_METERS,
            instances: 256,
            routes: 16_384,
            adjacencies: 16_384,
            byte_basis: ByteBasis::InnerIp,
            limits: true,
            fence: true,
            exactness: Exactness::Exact,
            counts_every: None,
            queues: None,
        }
    }

    /// Whether an object of the node can be given to it, which holds `held` of them.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unsupported`] for numbers beyond its own, [`Refusal::Full`] where there is no room.
    pub(crate) fn allows_of_node(&self, object: &Object, held: usize) -> Result<(), Refusal> {
        let is_shared = |id: &SharedId| (1..=self.shared_meters).contains(&id.0);
        let has_number = match object {
            Object::Instance { id, instance } => {
                let can_clamp = self.actions.contains(Actions::CLAMP_MSS);
                let can_wait = self.queues.is_some() || !instance.uses.contains(InstanceUses::QUEUES);
                id.0 < self.instances && (can_clamp || instance.mss == Mss::Off) && can_wait
            }
            Object::Adjacency { id, .. } => id.0 < self.adjacencies,
            Object::SharedMeter { id, .. } => is_shared(id),
            Object::SharedChain { id, chain } => {
                let mut named = chain.iter().filter(|id| **id != SharedId::NONE);
                is_shared(id) && named.all(is_shared)
            }
            Object::QueueClass { id, class } => self
                .queues
                .is_some_and(|room| *id < QueueClass::MOST && room.can_be(class)),
            Object::SharedNode { id, node } => self
                .queues
                .is_some_and(|room| id.0 < room.nodes && node.weight > 0),
            _ => true,
        };
        // Each number of a shared meter may have a meter and a chain.
        let most = self.routes as usize + self.adjacencies as usize + 2 * usize::from(self.shared_meters);
        match has_number {
            false => Err(Refusal::Unsupported),
            true if held >= most => Err(Refusal::Full),
            true => Ok(()),
        }
    }

    /// Whether these queues can be given to it, as far as there is room.
    pub fn can_queue(&self, queues: &Queues) -> bool {
        self.queues.is_some() && queues.is_valid()
    }

    /// Whether it has counters of this kind.
    pub const fn can_count(&self, kind: CounterKind) -> bool {
        (!kind.before_qos || self.actions.contains(Actions::COUNT_BEFORE_QOS))
            && (!kind.events || self.actions.contains(Actions::COUNT_EVENTS))
            && (kind.weight.is_none() || self.actions.contains(Actions::WEIGH))
    }

    /// Whether `forward` can be given to it, as far as its mirror goes.
    pub const fn can_mirror(&self, forward: &Forward) -> bool {
        forward.mirror.is_none() || self.actions.contains(Actions::MIRROR)
    }

    /// Whether `flow`, which needs `actions` beside a NAT, can be given to it.
    pub const fn can_hold(&self, flow: &Flow, actions: Actions) -> bool {
        let room = match flow.key {
            AnyKey::V4(_) => self.ipv4_flows > 0,
            AnyKey::V6(_) => self.ipv6_flows > 0,
        };
        let can_translate = match flow.key {
            AnyKey::V4(key) => key.fields.contains(KeyFields::TUPLE) && self.actions.contains(Actions::NAT),
            AnyKey::V6(_) => false,
        };
        let counts = !flow.content.is_some() || self.actions.contains(Actions::COUNT_CONTENTS);
        room && counts
            && (flow.nat.is_none() || can_translate)
            && self.key_fields.contains(flow.key.fields())
            && self.actions.contains(actions)
            && flow.urrs.count_ones() <= self.counters_per_flow as u32
            && flow.qers.count_ones() <= self.qers_per_flow as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContentId, FlowFlags, FlowKey4, FlowKey6, Nat};

    #[test]
    fn a_flow_that_needs_more_stays_in_software() {
        let flow = Flow {
            key: AnyKey::V4(FlowKey4 {
                fields: KeyFields::TUPLE | KeyFields::QFI,
                ..FlowKey4::default()
            }),
            qers: 0b11,
            urrs: 0b101,
            idle: 1,
            flags: FlowFlags::DOWNLINK,
            forward: 0,
            marking: Some(0),
            nat: None,
            content: ContentId::NONE,
            generation: 0,
        };
        let actions = Actions::ENCAPSULATE_V4 | Actions::MARK | Actions::GATE;
        let local = Capabilities::local(1000, 1000, 10);
        assert!(local.can_hold(&flow, actions));
        assert!(local.can_hold(&flow, actions | Actions::METER));
        let translated = Flow {
            nat: Some(Nat::default()),
            ..flow
        };
        let without_nat = Capabilities {
            actions: Actions::from_bits(local.actions.bits() & !Actions::NAT.bits()),
            ..local
        };
        assert!(local.can_hold(&translated, actions) && without_nat.can_hold(&flow, actions));
        assert!(!without_nat.can_hold(&translated, actions));
        assert!(!without_nat.can_hold(&flow, actions | Actions::NAT));
        for key in [
            AnyKey::V4(FlowKey4 {
                fields: KeyFields::ADDRESS,
                ..FlowKey4::default()
            }),
            AnyKey::V6(FlowKey6 {
                fields: KeyFields::TUPLE,
                ..FlowKey6::default()
            }),
        ] {
            assert!(!local.can_hold(&Flow { key, ..translated }, actions));
        }
        assert!(
            !Capabilities {
                counters_per_flow: 1,
                ..local
            }
            .can_hold(&flow, actions)
        );
        assert!(
            !Capabilities {
                qers_per_flow: 1,
                ..local
            }
            .can_hold(&flow, actions)
        );
        assert!(
            !Capabilities {
                key_fields: KeyFields::TUPLE,
                ..local
            }
            .can_hold(&flow, actions)
        );
        assert!(
            !Capabilities {
                ipv4_flows: 0,
                ..local
            }
            .can_hold(&flow, actions)
        );
    }
}
