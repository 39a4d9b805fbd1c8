//! What is known about a packet of the burst, filled in from stage to stage.
//!
//! Small on purpose: a burst of them stays in the first level of cache. What only rare packets need is read again
//! from the packet ([`parse::read_again`](crate::ingress::parse::read_again)).

use std::net::IpAddr;

use flow::{
    FlowKey4, FlowKey6, InstanceId, KeyFields, LocalId, PortId, SessionIndex, Verdict, VrfId, WorkerId,
};
use packet::gtpu::{MessageType, Unknown};
use packet::tuple::proto;
use packet::{DropReason, Fragment, GtpuFrame, IpTuple, tcp};
use rules::classifier::{Key, Side, tuple_of_v4, tuple_of_v6, whole_key};

use crate::{BURST, Urgency};
use offload::exception::Reason;

/// What becomes of a packet. A stage acts on those that are `Open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Not decided yet.
    Open,
    /// Freed and counted.
    Drop(DropReason),
    /// It has done its work: freed.
    Consumed,
    /// To the inbox of its owner.
    HandOver(WorkerId),
    /// Sent.
    Send(PortId),
    /// To the host's own network stack.
    Host(Urgency),
    /// Sent in fragments.
    Split(PortId),
    /// Stored, and comes back later.
    Defer(Deferral),
    /// Answered, as its FAR redirects it.
    Redirect,
}

/// What a packet waits for that leaves the burst and comes back later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// The other fragments of its GTP-U packet.
    Reassembly,
    /// The first fragment of its datagram; it belongs to this session.
    FirstFragment(SessionIndex),
    /// A change of its FAR, or its next hop.
    Buffer,
    /// Its session, which is still restored.
    Session,
    /// Its turn to leave, in the queue that was chosen.
    Queue {
        /// It leaves in fragments.
        is_split: bool,
    },
    /// This session, which is on its way between here and an accelerator.
    Away(SessionIndex),
    /// The host of this accelerator.
    Host(Reason),
    /// The packets of its flow that are on their way to the host and back; the flow is in this slot of those that
    /// settle at this accelerator.
    Settling(u32),
    /// The host's answer to what this accelerator has asked about the first packet of its ends, which is in this slot.
    Asking(u32),
}

/// What kind of packet it is, as far as the stages go separate ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing that has a way.
    None,
    /// ARP.
    Arp,
    /// A slow protocol's frame at a member of a LAG: LACP, markers.
    Slow,
    /// IP for one of our addresses.
    Host,
    /// IP for a group that we might listen to.
    Group,
    /// What is neither ARP nor IP, for the host's own network stack.
    Foreign,
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

/// What `apply_rules` has to know of the tunnel that a message came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunnel {
    pub message_type: MessageType,
    pub unknown: Unknown,
    pub has_psc: bool,
    pub has_other_extensions: bool,
}

impl From<&GtpuFrame> for Tunnel {
    #[inline]
    fn from(gtpu: &GtpuFrame) -> Self {
        Self {
            message_type: gtpu.message_type,
            unknown: gtpu.unknown,
            has_psc: gtpu.qfi.is_some(),
            has_other_extensions: gtpu.has_other_extensions,
        }
    }
}

/// Which of the two key arrays of the burst has a packet's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Family {
    /// None: there is no user packet, or none that can have a flow.
    None,
    V4,
    V6,
}

/// A packet of a burst, by its index, with the keys of the burst.
#[derive(Clone, Copy)]
pub(crate) struct PacketKey<'a> {
    /// Index of the packet in the burst.
    pub index: usize,
    pub keys: &'a Keys,
}

/// Source and destination of a user packet, as received.
#[derive(Clone, Copy)]
pub(crate) struct AddressPair {
    pub source: IpAddr,
    pub destination: IpAddr,
}

/// Protocol and ports in a flow key.
pub(crate) struct TransportFields<'a> {
    pub protocol: &'a mut u8,
    /// Source and destination port.
    pub ports: &'a mut [u16; 2],
}

/// The flow keys of a burst's user packets, with all fields, by index.
pub(crate) struct Keys {
    pub v4: [FlowKey4; BURST],
    pub v6: [FlowKey6; BURST],
}

impl Keys {
    pub fn new() -> Self {
        Self {
            v4: [FlowKey4::default(); BURST],
            v6: [FlowKey6::default(); BURST],
        }
    }

    /// Writes the key of the packet at `index`. Gives the family whose array has it.
    #[inline(always)]
    pub fn put(&mut self, index: usize, side: Side, tuple: &IpTuple) -> Family {
        match whole_key(side, tuple) {
            Key::V4(key) => {
                self.v4[index % BURST] = key;
                Family::V4
            }
            Key::V6(key) => {
                self.v6[index % BURST] = key;
                Family::V6
            }
        }
    }

    /// The whole key of the user packet at `index`.
    #[inline]
    pub fn whole(&self, index: usize, family: Family) -> Option<Key> {
        match family {
            Family::None => None,
            Family::V4 => Some(Key::V4(self.v4[index % BURST])),
            Family::V6 => Some(Key::V6(self.v6[index % BURST])),
        }
    }

    /// What rules read of the user packet at `index`. Of a fragment behind the first without ports if `lacks_ports`.
    #[inline]
    pub fn tuple(&self, index: usize, family: Family, lacks_ports: bool) -> Option<IpTuple> {
        let mut tuple = match family {
            Family::None => return None,
            Family::V4 => tuple_of_v4(&self.v4[index % BURST]),
            Family::V6 => tuple_of_v6(&self.v6[index % BURST]),
        };
        if lacks_ports {
            tuple.fragment = Fragment::Later;
            (tuple.proto, tuple.src_port, tuple.dst_port) = (tuple.src_port as u8, 0, 0);
        }
        Some(tuple)
    }

    /// Protocol and ports of the user packet at `index`. Those of fragments are changed.
    pub fn transport_mut(&mut self, index: usize, family: Family) -> Option<TransportFields<'_>> {
        match family {
            Family::None => None,
            Family::V4 => {
                let key = &mut self.v4[index % BURST];
                Some(TransportFields {
                    protocol: &mut key.protocol,
                    ports: &mut key.ports,
                })
            }
            Family::V6 => {
                let key = &mut self.v6[index % BURST];
                Some(TransportFields {
                    protocol: &mut key.protocol,
                    ports: &mut key.ports,
                })
            }
        }
    }

    /// Source and destination of the user packet at `index`.
    #[inline(always)]
    pub fn between(&self, index: usize, family: Family) -> Option<AddressPair> {
        match family {
            Family::None => None,
            Family::V4 => {
                let key = &self.v4[index % BURST];
                Some(AddressPair {
                    source: key.source.into(),
                    destination: key.destination.into(),
                })
            }
            Family::V6 => {
                let key = &self.v6[index % BURST];
                Some(AddressPair {
                    source: key.source.into(),
                    destination: key.destination.into(),
                })
            }
        }
    }

    /// The destination of the user packet at `index`.
    #[inline(always)]
    pub fn destination(&self, index: usize, family: Family) -> Option<IpAddr> {
        match family {
            Family::None => None,
            Family::V4 => Some(self.v4[index % BURST].destination.into()),
            Family::V6 => Some(self.v6[index % BURST].destination.into()),
        }
    }
}

/// What few packets have and the fast path does not care for: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketFlags(u8);

impl PacketFlags {
    /// Nothing of the kind.
    pub const NONE: Self = Self(0);
    /// The user packet is the first fragment of a datagram.
    pub const FIRST_FRAGMENT: Self = Self(1);
    /// The user packet is another fragment of a datagram.
    pub const LATER_FRAGMENT: Self = Self(1 << 1);
    /// Either.
    pub const FRAGMENT: Self = Self(0b11);
    /// The user packet is a TCP segment with FIN or RST.
    pub const CLOSING: Self = Self(1 << 2);
    /// Its flow entry was of another generation than its block.
    pub const STALE: Self = Self(1 << 3);
    /// A fragment behind the first, in whose key are the ports of the first.
    pub const RESOLVED: Self = Self(1 << 4);

    /// The user packet is a TCP segment with SYN.
    pub const OPENING: Self = Self(1 << 5);
    /// The packet is a fragment for one of our addresses.
    pub const OUTER_FRAGMENT: Self = Self(1 << 6);
    /// It was not understood, and its headers may be in more than one part of a chained buffer.
    pub const SCATTERED: Self = Self(1 << 7);
    /// The user packet is a TCP segment of a connection that opens or closes.
    pub const TRANSITORY: Self = Self(Self::OPENING.0 | Self::CLOSING.0);

    /// What `tuple` and the octets of its packet, which starts at `offset` of `bytes`, say. Cheap for what is no TCP
    /// segment and no fragment.
    #[inline(always)]
    pub fn of(tuple: &IpTuple, bytes: &[u8], offset: u16) -> Self {
        if tuple.proto != proto::TCP && tuple.fragment == Fragment::None {
            return Self::NONE;
        }
        let flags = bytes.get(usize::from(offset) + usize::from(tuple.l4_offset) + tcp::FLAGS_AT);
        let Some(flags) = flags else {
            return Self::of_rare(tuple, 0).and(Self::SCATTERED);
        };
        let flags = flags & (tcp::flags::FIN | tcp::flags::SYN | tcp::flags::RST);
        if flags == 0 && tuple.fragment == Fragment::None {
            Self::NONE
        } else {
            Self::of_rare(tuple, flags)
        }
    }

    #[cold]
    fn of_rare(tuple: &IpTuple, flags: u8) -> Self {
        let has_flags = tuple.proto == proto::TCP && tuple.fragment != Fragment::Later && flags != 0;
        let tcp = match flags & tcp::flags::SYN {
            _ if !has_flags => Self::NONE,
            0 => Self::CLOSING,
            _ => Self::OPENING,
        };
        tcp.and(match tuple.fragment {
            Fragment::None => Self::NONE,
            Fragment::First => Self::FIRST_FRAGMENT,
            Fragment::Later => Self::LATER_FRAGMENT,
        })
    }

    /// Whether any bit of `other` is set.
    #[inline(always)]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// With the bits of `other`.
    #[inline(always)]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the user packet is a fragment behind the first whose ports are not known.
    #[inline(always)]
    pub const fn lacks_ports(self) -> bool {
        self.0 & (Self::LATER_FRAGMENT.0 | Self::RESOLVED.0) == Self::LATER_FRAGMENT.0
    }
}

/// One packet of the burst.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub fate: Fate,
    pub kind: Kind,
    /// Another worker handed it over: it goes no further from here.
    pub from_inbox: bool,
    /// What few packets have.
    pub flags: PacketFlags,
    /// Which key it has: that of its user packet.
    pub family: Family,
    /// TTL or hop limit of the user packet.
    pub ttl: u8,
    /// Octets before the user packet, or before the ARP or IP header of what is for ourselves.
    pub offset: u16,
    /// Octets of the user packet as its header says.
    pub octets: u16,
    /// Where it came in; meaningful unless `kind` is `None`.
    pub instance: InstanceId,
    /// The fields of the key by which the flow entry was found.
    pub shape: KeyFields,
    /// What is wrong with the user packet in the tunnel: it has no flow. A `MartianDestination` is wrong only where
    /// it would be routed; a tunnel may lead to receivers of groups.
    pub defect: Option<DropReason>,
    /// Our address, of what came to one.
    pub local: Option<LocalId>,
    /// Of `Tunnelled` and `Relayed`.
    pub tunnel: Option<Tunnel>,
    /// Of `Tunnelled`, `Relayed`, `Plain`.
    pub side: Side,
    /// The decision, of user packets behind `lookup` or `slow`.
    pub verdict: Verdict,
}

impl Descriptor {
    /// Before anything is known.
    pub const NEW: Self = Self {
        fate: Fate::Open,
        kind: Kind::None,
        from_inbox: false,
        flags: PacketFlags::NONE,
        family: Family::None,
        ttl: 0,
        offset: 0,
        octets: 0,
        instance: InstanceId(0),
        shape: KeyFields::NONE,
        defect: None,
        local: None,
        tunnel: None,
        side: Side::Plain { vrf: VrfId(0) },
        verdict: Verdict::NONE,
    };

    /// Forgets the packet before: only what says that the rest means something is written.
    #[inline(always)]
    pub fn reset(&mut self, from_inbox: bool) {
        (self.fate, self.kind, self.from_inbox) = (Fate::Open, Kind::None, from_inbox);
        (self.flags, self.family) = (PacketFlags::NONE, Family::None);
        (self.defect, self.local, self.tunnel) = (None, None, None);
        self.verdict.generation = 0;
    }

    /// Whether the fate is still open.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.fate == Fate::Open
    }

    /// Whether sessions still have to decide about it.
    #[inline(always)]
    pub fn is_open_user(&self) -> bool {
        self.is_open() && self.kind.is_user()
    }

    /// Octets before layer 4 of a user packet without options and extension headers, which begins with `bytes`; `None`
    /// of another.
    pub fn plain_layer4(&self, bytes: &[u8]) -> Option<u16> {
        let ip = usize::from(self.offset);
        match self.family {
            Family::V4 if *bytes.get(ip)? == 0x45 => self.offset.checked_add(20),
            Family::V6 if matches!(*bytes.get(ip + 6)?, proto::TCP | proto::UDP | proto::ICMPV6) => {
                self.offset.checked_add(40)
            }
            _ => None,
        }
    }

    /// What the headers of the user packet, or of a packet for ourselves, say: read again from `bytes`, the packet
    /// as it was received, for the few that need more than their key.
    ///
    /// # Errors
    /// The reasons for malformed IP packets; none for one that was read before.
    #[cold]
    pub fn tuple(&self, bytes: &[u8]) -> Result<IpTuple, DropReason> {
        let packet = bytes.get(usize::from(self.offset)..).unwrap_or_default();
        IpTuple::parse(packet, usize::from(self.octets))
    }
}

// Two cache lines; a burst is 8 KiB.
const _: () = assert!(size_of::<Descriptor>() <= 88);
