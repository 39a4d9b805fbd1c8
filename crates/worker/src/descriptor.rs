//! What is known about a packet of the burst, filled in from stage to stage.
//!
//! Small on purpose: a burst of them stays in the first level of cache. What only rare packets need is read again
//! from the packet ([`parse::read_again`](crate::parse::read_again)).

use flow::{
    BlockRef, Direction, FlowEntry, FlowFlags, InstanceId, KeyFields, LocalId, PortId, VrfId, WorkerId,
};
use packet::gtpu::{MessageType, Unknown};
use packet::{DropReason, GtpuFrame, IpTuple};
use rules::classifier::{PacketView, Side};

/// What becomes of a packet. A stage acts on those that are `Open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Not settled yet.
    Open,
    /// Freed and counted.
    Drop(DropReason),
    /// It has done its work: freed.
    Consumed,
    /// To the inbox of its owner.
    HandOver(WorkerId),
    /// Sent.
    Send(PortId),
}

/// What kind of packet it is, as far as the stages go separate ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing that has a way.
    None,
    /// ARP.
    Arp,
    /// IP for one of our addresses.
    Host,
    /// IP for a group that we might listen to.
    Group,
    /// GTP-U path management and the like, for ourselves.
    Signalling,
    /// A user packet in a tunnel.
    Tunnelled,
    /// A message of a tunnel without a user packet: End Marker, Tunnel Status.
    Relayed,
    /// A user packet as it is.
    Plain,
}

impl Kind {
    /// Whether sessions decide about it.
    #[inline]
    pub fn is_user(self) -> bool {
        matches!(self, Self::Tunnelled | Self::Relayed | Self::Plain)
    }
}

/// What `act` has to know of the tunnel that a message came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunnel {
    pub message_type: MessageType,
    pub unknown: Unknown,
    pub has_psc: bool,
    pub has_other_extensions: bool,
    /// Octets of what it carries.
    pub payload_len: u16,
}

impl From<&GtpuFrame> for Tunnel {
    #[inline]
    fn from(gtpu: &GtpuFrame) -> Self {
        Self {
            message_type: gtpu.message_type,
            unknown: gtpu.unknown,
            has_psc: gtpu.qfi.is_some(),
            has_other_extensions: gtpu.has_other_extensions,
            payload_len: gtpu.payload_len,
        }
    }
}

/// A decision about a packet: what a flow entry says, without key and housekeeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub qers: u64,
    pub urrs: u64,
    pub block: BlockRef,
    pub generation: u32,
    pub pdr: u16,
    pub forward: u8,
    pub marking: u8,
    pub flags: FlowFlags,
}

impl Verdict {
    /// What `entry` says.
    #[inline]
    pub fn of<K>(entry: &FlowEntry<K>) -> Self {
        let &FlowEntry {
            qers,
            urrs,
            block,
            generation,
            pdr,
            forward,
            marking,
            flags,
            ..
        } = entry;
        Self {
            qers,
            urrs,
            block,
            generation,
            pdr,
            forward,
            marking,
            flags,
        }
    }

    /// The flow entry that says so for packets with this key, and may idle for so many ticks.
    pub fn entry<K: Default>(&self, key: K, idle: u16) -> FlowEntry<K> {
        let &Self {
            qers,
            urrs,
            block,
            generation,
            pdr,
            forward,
            marking,
            flags,
        } = self;
        FlowEntry {
            key,
            qers,
            urrs,
            block,
            generation,
            idle,
            pdr,
            forward,
            marking,
            flags,
            ..FlowEntry::default()
        }
    }

    /// The direction of the packet.
    #[inline]
    pub fn direction(&self) -> Direction {
        if self.flags.contains(FlowFlags::DOWNLINK) {
            Direction::Downlink
        } else {
            Direction::Uplink
        }
    }
}

/// One packet of the burst.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub fate: Fate,
    pub kind: Kind,
    /// Another worker handed it over: it goes no further from here.
    pub from_inbox: bool,
    /// The fields of the key by which the flow entry was found.
    pub shape: KeyFields,
    /// Where it came in; meaningful unless `kind` is `None`.
    pub instance: InstanceId,
    /// Octets before the user packet, or before the ARP or IP header of what is for ourselves.
    pub offset: u16,
    /// Our address, of what came to one.
    pub local: Option<LocalId>,
    /// Of `Tunnelled`, `Relayed`, `Plain`.
    pub side: Side,
    /// Of `Tunnelled` and `Relayed`.
    pub tunnel: Option<Tunnel>,
    /// What is wrong with the user packet in the tunnel: it has no flow. A `MartianDestination` is wrong only where
    /// it would be routed; a tunnel may lead to who hears groups.
    pub defect: Option<DropReason>,
    /// The user packet, of `Tunnelled` and `Plain`; the whole packet, of `Host` and `Group`.
    pub tuple: Option<IpTuple>,
    /// The decision, of user packets behind `lookup` or `slow`.
    pub verdict: Option<Verdict>,
}

impl Descriptor {
    /// Before anything is known.
    pub const NEW: Self = Self {
        fate: Fate::Open,
        kind: Kind::None,
        from_inbox: false,
        shape: KeyFields::NONE,
        instance: InstanceId(0),
        offset: 0,
        local: None,
        side: Side::Plain { vrf: VrfId(0) },
        tunnel: None,
        defect: None,
        tuple: None,
        verdict: None,
    };

    /// Forgets the packet before: only what says that the rest means something is written.
    #[inline]
    pub fn reset(&mut self, from_inbox: bool) {
        (self.fate, self.kind, self.from_inbox) = (Fate::Open, Kind::None, from_inbox);
        (self.local, self.tunnel, self.defect, self.tuple, self.verdict) = (None, None, None, None, None);
    }

    /// Whether the fate is still open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.fate == Fate::Open
    }

    /// Whether sessions still have to decide about it.
    #[inline]
    pub fn is_open_user(&self) -> bool {
        self.is_open() && self.kind.is_user()
    }

    /// The user packet as rules see it.
    #[inline]
    pub fn view(&self) -> Option<PacketView<'_>> {
        Some(PacketView {
            side: self.side,
            tuple: self.tuple.as_ref()?,
        })
    }
}

// Three cache lines; a burst is 12 KiB.
const _: () = assert!(size_of::<Descriptor>() <= 192);
