//! What a backend can do, and what a host.

use std::time::Duration;

use flow::KeyFields;
use flow::contract::{Actions, ByteBasis, Capabilities, Exactness, Managements, QueueRoom};

use super::field::{Bound, CodecError, Field, Reader, Wire, Writer};
use super::flows::KEY_FIELDS;

const FLAGS: Field = Field::bits("capability flags", 0b11_1111);
const LIMITS: u8 = 1;
const FENCE: u8 = 1 << 1;
const OF_FRAME: u8 = 1 << 2;
const BOUNDED: u8 = 1 << 3;
const COUNTS: u8 = 1 << 4;
const QUEUES: u8 = 1 << 5;
const ACTIONS: Field = Field::bits("actions", 0x3fff);
const A_FLOW: Field = Field::most("counters or QERs of a flow", 64);
const ROOM: Field = Field::any("room");
const LOSS: Field = Field::any("loss");
const MANAGEMENTS: Field = Field::bits("queue managements", 0b111);
const COUNTS_EVERY: Field = Field::new("interval of counts", Bound::Range(1, u64::MAX));

const HOST_FLAGS: Field = Field::any("host flags");
const MORE_CHANNELS: Field = Field::most("channels", HostCapabilities::MOST_CHANNELS as u64 - 1);

/// What a host can do. Flags that an end does not know mean nothing to it: a later host may have more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCapabilities {
    flags: u8,
    /// Channels beside the first one.
    more_channels: u8,
}

impl HostCapabilities {
    const ANSWERS: u8 = 1;
    const LINKS: u8 = 1 << 1;
    const STEERED: u8 = 1 << 2;
    const PARTIAL: u8 = 1 << 3;
    /// The most channels of a host.
    pub const MOST_CHANNELS: u8 = 64;

    /// Those of a host that answers [questions](crate::exception::Questions), or does not.
    pub const fn new(answers: bool) -> Self {
        let flags = if answers { Self::ANSWERS } else { 0 };
        Self::of_flags(flags)
    }

    /// Those with these flags.
    pub const fn of_flags(flags: u8) -> Self {
        Self {
            flags,
            more_channels: 0,
        }
    }

    /// The same of a host with this number of channels, 1 to 64.
    #[must_use]
    pub const fn with_channels(self, channels: u8) -> Self {
        Self {
            more_channels: channels.saturating_sub(1),
            ..self
        }
    }

    /// The same of a host that takes what is reported of the links of ports.
    #[must_use]
    pub const fn with_links(self) -> Self {
        Self {
            flags: self.flags | Self::LINKS,
            ..self
        }
    }

    /// The same of a host that takes [`Steered`](crate::exception::Steered).
    #[must_use]
    pub const fn with_steered(self) -> Self {
        Self {
            flags: self.flags | Self::STEERED,
            ..self
        }
    }

    /// The same of a host that gives no sessions, and answers no questions.
    #[must_use]
    pub const fn in_partial_mode(self) -> Self {
        Self {
            flags: self.flags & !Self::ANSWERS | Self::PARTIAL,
            ..self
        }
    }

    /// How many channels the host has.
    pub const fn channels(self) -> u8 {
        self.more_channels + 1
    }

    /// What both can do.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        Self {
            flags: self.flags & other.flags,
            more_channels: self.more_channels.max(other.more_channels),
        }
    }

    /// Whether it takes what is reported of the links of ports.
    pub const fn takes_links(self) -> bool {
        self.flags & Self::LINKS != 0
    }

    /// Whether it takes [`Steered`](crate::exception::Steered).
    pub const fn takes_steered(self) -> bool {
        self.flags & Self::STEERED != 0
    }

    /// Whether it gives no sessions.
    pub const fn is_partial(self) -> bool {
        self.flags & Self::PARTIAL != 0
    }

    /// Whether it answers questions.
    pub const fn answers(self) -> bool {
        self.flags & Self::ANSWERS != 0
    }
}

/// Two octets.
impl Wire for HostCapabilities {
    fn put(&self, to: &mut Writer<'_>) {
        to.u8(&HOST_FLAGS, self.flags);
        to.u8(&MORE_CHANNELS, self.more_channels);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let [flags, more_channels] = [from.u8(&HOST_FLAGS)?, from.u8(&MORE_CHANNELS)?];
        Ok(Self { flags, more_channels })
    }
}

impl Wire for Capabilities {
    fn put(&self, to: &mut Writer<'_>) {
        let loss = match self.exactness {
            Exactness::Exact => None,
            Exactness::Bounded { loss } => Some(loss),
        };
        let flags = [
            (LIMITS, self.limits),
            (FENCE, self.fence),
            (OF_FRAME, self.byte_basis == ByteBasis::Frame),
            (BOUNDED, loss.is_some()),
            (COUNTS, self.counts_every.is_some()),
            (QUEUES, self.queues.is_some()),
        ];
        let flag = |mask, (bit, is_set)| if is_set { mask | bit } else { mask };
        to.u8(&KEY_FIELDS, self.key_fields.bits());
        to.u8(&FLAGS, flags.into_iter().fold(0, flag));
        to.u16(&ACTIONS, self.actions.bits());
        to.u8(&A_FLOW, self.counters_per_flow);
        to.u8(&A_FLOW, self.qers_per_flow);
        for room in [
            self.ipv4_flows,
            self.ipv6_flows,
            self.sessions,
            self.routes,
            self.adjacencies,
        ] {
            to.u32(&ROOM, room);
        }
        to.u16(&ROOM, self.shared_meters);
        to.u16(&ROOM, self.instances);
        to.u32(&LOSS.only_if(loss.is_some()), loss.unwrap_or(0));
        let every = self.counts_every.map_or(0, |every| every.as_nanos());
        to.check(&Field::zero("high part of the interval"), (every >> 64) as u64);
        to.u64(&COUNTS_EVERY.only_if(self.counts_every.is_some()), every as u64);
        if let Some(room) = &self.queues {
            room.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let key_fields = KeyFields::from_bits(from.u8(&KEY_FIELDS)?);
        let flags = from.u8(&FLAGS)?;
        let has = |bit| flags & bit != 0;
        let actions = Actions::from_bits(from.u16(&ACTIONS)?);
        let [counters_per_flow, qers_per_flow] = [from.u8(&A_FLOW)?, from.u8(&A_FLOW)?];
        let mut room = || from.u32(&ROOM);
        let [ipv4_flows, ipv6_flows, sessions] = [room()?, room()?, room()?];
        let [routes, adjacencies] = [room()?, room()?];
        let [shared_meters, instances] = [from.u16(&ROOM)?, from.u16(&ROOM)?];
        let loss = from.u32(&LOSS.only_if(has(BOUNDED)))?;
        let every = from.u64(&COUNTS_EVERY.only_if(has(COUNTS)))?;
        Ok(Self {
            key_fields,
            actions,
            ipv4_flows,
            ipv6_flows,
            sessions,
            counters_per_flow,
            qers_per_flow,
            shared_meters,
            instances,
            routes,
            adjacencies,
            byte_basis: match has(OF_FRAME) {
                true => ByteBasis::Frame,
                false => ByteBasis::InnerIp,
            },
            limits: has(LIMITS),
            fence: has(FENCE),
            exactness: match has(BOUNDED) {
                true => Exactness::Bounded { loss },
                false => Exactness::Exact,
            },
            counts_every: has(COUNTS).then_some(Duration::from_nanos(every)),
            queues: has(QUEUES).then(|| QueueRoom::take(from)).transpose()?,
        })
    }
}

/// Twenty octets.
impl Wire for QueueRoom {
    fn put(&self, to: &mut Writer<'_>) {
        to.u32(&ROOM, self.queues);
        to.u32(&ROOM, self.packets);
        to.u64(&ROOM, self.octets);
        to.u16(&ROOM, self.nodes);
        to.u8(&MANAGEMENTS, self.managements.bits());
        to.reserved(1);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let room = Self {
            queues: from.u32(&ROOM)?,
            packets: from.u32(&ROOM)?,
            octets: from.u64(&ROOM)?,
            nodes: from.u16(&ROOM)?,
            managements: Managements::from_bits(from.u8(&MANAGEMENTS)?),
        };
        from.reserved(1)?;
        Ok(room)
    }
}
