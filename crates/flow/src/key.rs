//! The exact-match keys of flows.
//!
//! A key starts with what a UE cannot forge: the interned address space or local tunnel address ([`Scope`]) and the
//! TEID. Wide keys leave the tuple zero. Everything that takes part is in the key, so two keys are the same flow if
//! and only if their octets are equal.

use core::fmt;
use core::hash::Hash;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::flags::flags;
use crate::{LocalId, VrfId};

/// Where a packet came in: an address space for plain IP, one of our own addresses for a tunnel (top bit set).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct Scope(u32);

impl Scope {
    const TUNNEL: u32 = 1 << 31;

    /// Plain IP in an address space.
    #[inline]
    pub const fn plain(vrf: VrfId) -> Self {
        Self(vrf.0 as u32)
    }

    /// A tunnel that ends at one of our addresses.
    #[inline]
    pub const fn tunnel(local: LocalId) -> Self {
        Self(Self::TUNNEL | local.0 as u32)
    }

    /// Whether this is a tunnel's scope.
    #[inline]
    pub const fn is_tunnel(self) -> bool {
        self.0 & Self::TUNNEL != 0
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, id) = if self.is_tunnel() {
            ("tunnel", self.0 ^ Self::TUNNEL)
        } else {
            ("vrf", self.0)
        };
        write!(f, "{name} {id}")
    }
}

flags! {
    /// Which fields take part in a key; those that do not are zero in it.
    KeyFields(u8) {
        /// The UE's address alone: `destination` of downlink packets.
        ADDRESS = 1;
        /// Both addresses, the protocol and both ports (zero where the protocol has none).
        TUPLE = 1 << 1;
        /// The QFI of the PDU Session Container.
        QFI = 1 << 2;
        /// TOS or Traffic Class.
        TOS = 1 << 3;
        /// The SPI of ESP or AH, in the place of the ports.
        SPI = 1 << 4;
        /// The IPv6 flow label.
        FLOW_LABEL = 1 << 5;
    }
}

/// What the table needs of a key. The octets are all there is to it: equal octets are equal keys.
pub trait FlowKey: Copy + Eq + Hash + Default + fmt::Debug + FromZeros + 'static {
    /// The octets as words, for hashing and comparing.
    type Words: AsRef<[u64]>;

    /// The octets.
    fn words(&self) -> Self::Words;
}

/// The key of an IPv4 flow, 24 octets. All zero: the widest key of scope 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FlowKey4 {
    /// Where it came in.
    pub scope: Scope,
    /// The TEID it came in with; 0 for plain IP.
    pub teid: u32,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
    /// Source and destination port, or the SPI in the order of the wire.
    pub ports: [u16; 2],
    /// IP protocol.
    pub protocol: u8,
    /// Which fields take part.
    pub fields: KeyFields,
    /// TOS.
    pub tos: u8,
    /// QFI.
    pub qfi: u8,
}

/// The key of an IPv6 flow, 56 octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FlowKey6 {
    /// Where it came in.
    pub scope: Scope,
    /// The TEID it came in with; 0 for plain IP.
    pub teid: u32,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
    /// Source and destination port, or the SPI in the order of the wire.
    pub ports: [u16; 2],
    /// The last header of the chain.
    pub protocol: u8,
    /// Which fields take part.
    pub fields: KeyFields,
    /// Traffic Class.
    pub tos: u8,
    /// QFI.
    pub qfi: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Always 0.
    pub reserved: u32,
}

impl FlowKey for FlowKey4 {
    type Words = [u64; 3];

    #[inline]
    fn words(&self) -> [u64; 3] {
        zerocopy::transmute!(*self)
    }
}

impl FlowKey for FlowKey6 {
    type Words = [u64; 7];

    #[inline]
    fn words(&self) -> [u64; 7] {
        zerocopy::transmute!(*self)
    }
}

impl FlowKey4 {
    /// The key of everything in one tunnel.
    #[inline]
    pub fn tunnel(scope: Scope, teid: u32) -> Self {
        Self {
            scope,
            teid,
            ..Self::default()
        }
    }

    /// The key of everything to one UE address.
    #[inline]
    pub fn address(scope: Scope, destination: [u8; 4]) -> Self {
        Self {
            scope,
            destination,
            fields: KeyFields::ADDRESS,
            ..Self::default()
        }
    }
}

impl FlowKey6 {
    /// The key of everything to one UE prefix, whose host part is zero.
    #[inline]
    pub fn address(scope: Scope, destination: [u8; 16]) -> Self {
        Self {
            scope,
            destination,
            fields: KeyFields::ADDRESS,
            ..Self::default()
        }
    }

    /// The key of everything in one tunnel whose inner packets are IPv6.
    #[inline]
    pub fn tunnel(scope: Scope, teid: u32) -> Self {
        Self {
            scope,
            teid,
            ..Self::default()
        }
    }
}

const _: () = assert!(size_of::<FlowKey4>() == 24 && size_of::<FlowKey6>() == 56);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_tunnels_and_address_spaces_differ() {
        assert_ne!(Scope::plain(VrfId(3)), Scope::tunnel(LocalId(3)));
        assert_eq!(
            format!("{:?} {:?}", Scope::plain(VrfId(3)), Scope::tunnel(LocalId(4))),
            "vrf 3 tunnel 4"
        );
    }

    #[test]
    fn wide_keys_differ_by_what_they_are_wide_over() {
        let scope = Scope::plain(VrfId(0));
        assert_ne!(
            FlowKey4::tunnel(scope, 0).words(),
            FlowKey4::address(scope, [0; 4]).words()
        );
        assert_ne!(
            FlowKey6::tunnel(scope, 0).words(),
            FlowKey6::address(scope, [0; 16]).words()
        );
    }
}
