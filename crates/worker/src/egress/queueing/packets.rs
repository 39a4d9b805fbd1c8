//! Packets in queues, and behind them.

use std::collections::VecDeque;

use flow::{Nanos, PortId, SessionIndex};
use packet::ip_fragmentation::FragmentSpec;
use packet::{DropReason, PacketBuf, ecn};
use rules::image::EgressQueues;

use crate::burst::credit::Charge;

/// A packet that waits, and what is done when it leaves or is lost.
pub(super) struct Waiting<B> {
    pub packet: B,
    pub charge: Charge,
    pub session: SessionIndex,
    /// By which it leaves: a member of a LAG, or one of our own addresses.
    pub port: PortId,
    /// Where its user packet begins.
    pub user: u16,
    /// Of a message of a tunnel: the queues that it has waited in.
    pub waited_in: WaitedIn,
}

/// The queues of a session and direction that a message of a tunnel has waited in, or does: bit n is place n, and bit
/// n + 8 the low latency queue there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitedIn(u16);

const _: () = assert!(EgressQueues::MAX <= 8);

impl WaitedIn {
    const fn bit(place: u8, is_low_latency: bool) -> u16 {
        1 << (place % 8 + 8 * is_low_latency as u8)
    }

    /// Whether it has waited in this one, or does.
    pub const fn has(self, place: u8, is_low_latency: bool) -> bool {
        self.0 & Self::bit(place, is_low_latency) != 0
    }

    /// It waits in this one now.
    pub const fn insert(&mut self, place: u8, is_low_latency: bool) {
        self.0 |= Self::bit(place, is_low_latency);
    }
}

/// Room for a packet that waits: one cache line with what the manager knows of it, where buffers are pointers.
#[repr(C, align(64))]
pub(super) struct Room<B> {
    descriptor: tm::Descriptor,
    waiting: Option<Waiting<B>>,
}

const _: () = assert!(
    size_of::<Room<std::num::NonZero<u64>>>() == 64,
    "there are very many"
);

impl<B> Default for Room<B> {
    fn default() -> Self {
        Self {
            descriptor: tm::Descriptor::default(),
            waiting: None,
        }
    }
}

impl<B> tm::Room for Room<B> {
    #[inline(always)]
    fn descriptor(&self) -> &tm::Descriptor {
        &self.descriptor
    }

    #[inline(always)]
    fn descriptor_mut(&mut self) -> &mut tm::Descriptor {
        &mut self.descriptor
    }
}

impl<B> Room<B> {
    /// What waits there.
    pub const fn get_mut(&mut self) -> Option<&mut Waiting<B>> {
        self.waiting.as_mut()
    }

    /// Puts a packet there.
    #[inline(always)]
    pub fn put(&mut self, waiting: Waiting<B>) {
        self.waiting = Some(waiting);
    }

    /// Takes the packet out.
    #[inline(always)]
    pub const fn take(&mut self) -> Option<Waiting<B>> {
        self.waiting.take()
    }
}

impl<B> Waiting<B> {
    /// It waits no more.
    pub fn departing(self, split: Option<FragmentSpec>) -> Departing<B> {
        let Self {
            packet,
            charge,
            session,
            port,
            ..
        } = self;
        Departing {
            packet,
            charge,
            session,
            port,
            split,
            node: None,
        }
    }

    /// It is lost.
    pub fn lost(self, reason: DropReason) -> Lost<B> {
        self.departing(None).lost(reason)
    }
}

impl<B: PacketBuf> Waiting<B> {
    /// Its user packet, if it has one, says that congestion was experienced.
    pub fn mark(&mut self) {
        if self.charge.is_of_message() {
            return;
        }
        let asks = self.packet.asks_udp_checksum().is_some();
        // The field was read there when it came.
        let _ = ecn::mark(self.packet.data_mut(), self.user.into(), asks);
    }
}

/// A packet that is lost.
pub(crate) struct Lost<B> {
    pub packet: B,
    pub charge: Charge,
    pub session: SessionIndex,
    pub reason: DropReason,
}

/// The session of a packet that is of none: it is the host's.
pub(crate) const OF_NO_SESSION: SessionIndex = SessionIndex(u32::MAX);

/// A packet that has left its queue, and leaves by its port.
pub(crate) struct Departing<B> {
    pub packet: B,
    pub charge: Charge,
    /// Whose it is; of an End Marker, too.
    pub session: SessionIndex,
    pub port: PortId,
    /// It leaves in fragments.
    pub split: Option<FragmentSpec>,
    /// The place of the port's node whose turn it was; `None`: its session's queues were emptied.
    pub node: Option<u8>,
}

impl<B> Departing<B> {
    /// It is lost.
    pub fn lost(self, reason: DropReason) -> Lost<B> {
        let Self {
            packet,
            charge,
            session,
            ..
        } = self;
        Lost {
            packet,
            charge,
            session,
            reason,
        }
    }
}

/// What is known of a packet that is being sent.
pub(super) struct Record {
    pub charge: Charge,
    pub session: SessionIndex,
    pub node: Option<u8>,
}

/// What leaves next by one port, in order.
pub(super) struct Output<B> {
    pub queue: VecDeque<Departing<B>>,
    /// Since when its port has taken nothing.
    pub stuck: Option<Nanos>,
}

impl<B> Output<B> {
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            stuck: None,
        }
    }
}
