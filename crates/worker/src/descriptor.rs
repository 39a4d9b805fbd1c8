//! What is known about a packet of the burst, filled in from stage to stage.

use flow::{FlowEntry, InstanceId, KeyFields, PortId, VrfId, WorkerId};
use packet::{DropReason, GtpuFrame, IpFrame, IpTuple};
use rules::classifier::{PacketView, Side};

use crate::places::Local;

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
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Nothing that has a way.
    None,
    /// ARP, at this octet.
    Arp(u16),
    /// IP for ourselves, or to a group that we might listen to (then without an address of ours).
    Host(IpFrame, Option<Local>),
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

/// A decision about a packet: a flow entry, its key left behind.
pub(crate) type Verdict = FlowEntry<()>;

/// One packet of the burst.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub fate: Fate,
    pub kind: Kind,
    /// Another worker handed it over: it goes no further from here.
    pub from_inbox: bool,
    /// Where it came in; meaningful unless `kind` is `None`.
    pub instance: InstanceId,
    /// Octets before the user packet, from the frame's start.
    pub user_offset: u16,
    /// Of `Tunnelled`, `Relayed`, `Plain`.
    pub side: Side,
    /// Our address, of what came to one.
    pub local: Option<Local>,
    /// Of `Signalling`, `Tunnelled`, `Relayed`.
    pub gtpu: Option<GtpuFrame>,
    /// The user packet, of `Tunnelled` and `Plain`.
    pub tuple: Option<IpTuple>,
    /// What is wrong with the user packet in the tunnel.
    pub defect: Option<DropReason>,
    /// The decision, of user packets behind `lookup` or `slow`.
    pub verdict: Option<Verdict>,
    /// The fields of the key by which the flow entry was found.
    pub shape: KeyFields,
}

impl Descriptor {
    /// Before anything is known.
    pub const NEW: Self = Self {
        fate: Fate::Open,
        kind: Kind::None,
        from_inbox: false,
        instance: InstanceId(0),
        user_offset: 0,
        side: Side::Plain { vrf: VrfId(0) },
        local: None,
        gtpu: None,
        tuple: None,
        defect: None,
        verdict: None,
        shape: KeyFields::NONE,
    };

    /// Forgets the packet before: only what says that the rest means something is written.
    #[inline]
    pub fn reset(&mut self, from_inbox: bool) {
        (self.fate, self.kind, self.from_inbox) = (Fate::Open, Kind::None, from_inbox);
        (self.local, self.gtpu, self.tuple, self.defect, self.verdict) = (None, None, None, None, None);
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
