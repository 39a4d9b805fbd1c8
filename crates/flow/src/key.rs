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

    /// The address space of plain IP, or the address that a tunnel ends at.
    #[inline]
    pub const fn origin(self) -> Origin {
        match self.is_tunnel() {
            true => Origin::Tunnel(LocalId(self.0 as u16)),
            false => Origin::Plain(VrfId(self.0 as u16)),
        }
    }
}

/// What a [`Scope`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Plain IP in an address space.
    Plain(VrfId),
    /// A tunnel that ends at one of our addresses.
    Tunnel(LocalId),
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
        /// Both addresses, the protocol and both ports: of ESP and AH the SPI in their place, of others that have
        /// no ports zero.
        TUPLE = 1 << 1;
        /// The QFI of the PDU Session Container.
        QFI = 1 << 2;
        /// TOS or Traffic Class.
        TOS = 1 << 3;
        /// The IPv6 flow label.
        FLOW_LABEL = 1 << 5;
        /// Every bit: the key of one packet, with all that could take part, before it is cut down by a [`Shape`].
        WHOLE = 0xff;
    }
}

/// Which bits of a packet's whole key are in the keys of one shape: the fields that take part, seen from a tunnel or
/// from plain IP.
pub struct Shape<K: FlowKey> {
    fields: KeyFields,
    mask: K::Words,
}

impl<K: FlowKey> Shape<K> {
    /// The shape of keys with these fields.
    pub fn new(fields: KeyFields, is_tunnel: bool) -> Self {
        let mask = K::mask(fields, is_tunnel).words();
        Self { fields, mask }
    }

    /// The fields that take part.
    #[inline]
    pub const fn fields(&self) -> KeyFields {
        self.fields
    }

    /// A packet's whole key, cut down to this shape.
    #[inline(always)]
    pub fn cut(&self, whole: &K) -> K {
        whole.masked(&self.mask)
    }
}

impl<K: FlowKey> Clone for Shape<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: FlowKey> Copy for Shape<K> {}

impl<K: FlowKey> fmt::Debug for Shape<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shape").field(&self.fields).finish()
    }
}

/// What the table needs of a key. The octets are all there is to it: equal octets are equal keys.
pub trait FlowKey: Copy + Eq + Hash + Default + fmt::Debug + FromZeros + 'static {
    /// The octets as words, for hashing and comparing.
    type Words: AsRef<[u64]> + Copy;

    /// The octets.
    fn words(&self) -> Self::Words;

    /// The octets that are also in `mask`.
    fn masked(&self, mask: &Self::Words) -> Self;

    /// The key whose octets are all ones where `fields` are, and `fields` itself in its place: of tunnels ADDRESS is
    /// the source, of plain packets the destination.
    fn mask(fields: KeyFields, is_tunnel: bool) -> Self;
}

/// All ones if `fields` has `field`.
macro_rules! ones {
    ($fields:expr, $field:ident, $ones:expr) => {
        if $fields.contains(KeyFields::$field) {
            $ones
        } else {
            Default::default()
        }
    };
}

/// The key of an IPv4 flow, 24 octets. All zero: the widest key of scope 0.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
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
    /// Source and destination port, or the upper and lower half of the SPI.
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
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
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
    /// Source and destination port, or the upper and lower half of the SPI.
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

impl FlowKey4 {
    /// The same key, made as words: one that was just put together from a packet's fields is not written to memory in
    /// small pieces then, and read again in large ones, for which a processor waits.
    #[inline(always)]
    pub fn packed(self) -> Self {
        let (source, destination) = (
            u32::from_ne_bytes(self.source),
            u32::from_ne_bytes(self.destination),
        );
        let [first, second] = self.ports;
        let [a, b] = first.to_ne_bytes();
        let [c, d] = second.to_ne_bytes();
        let ports = u32::from_ne_bytes([a, b, c, d]);
        let rest = u32::from_ne_bytes([self.protocol, self.fields.bits(), self.tos, self.qfi]);
        // Not by `map` of an array, which is a call.
        let words = [
            two(self.scope.0, self.teid),
            two(source, destination),
            two(ports, rest),
        ];
        zerocopy::transmute!(words)
    }
}

/// Two numbers side by side, as they are in memory.
#[inline(always)]
const fn two(first: u32, second: u32) -> u64 {
    match cfg!(target_endian = "little") {
        true => first as u64 | (second as u64) << 32,
        false => (first as u64) << 32 | second as u64,
    }
}

impl FlowKey for FlowKey4 {
    type Words = [u64; 3];

    #[inline(always)]
    fn words(&self) -> [u64; 3] {
        zerocopy::transmute!(*self)
    }

    #[inline(always)]
    fn masked(&self, mask: &[u64; 3]) -> Self {
        let words: [u64; 3] = self.words();
        zerocopy::transmute!([words[0] & mask[0], words[1] & mask[1], words[2] & mask[2]])
    }

    fn mask(fields: KeyFields, is_tunnel: bool) -> Self {
        let address = ones!(fields, ADDRESS, [0xff; 4]);
        let tuple = ones!(fields, TUPLE, [0xff; 4]);
        Self {
            scope: Scope(u32::MAX),
            teid: u32::MAX,
            source: if is_tunnel { either(address, tuple) } else { tuple },
            destination: if is_tunnel { tuple } else { either(address, tuple) },
            ports: ones!(fields, TUPLE, [0xffff; 2]),
            protocol: ones!(fields, TUPLE, 0xff),
            fields,
            tos: ones!(fields, TOS, 0xff),
            qfi: ones!(fields, QFI, 0xff),
        }
    }
}

/// Equality and hashing by words: by fields they cost a comparison and a branch for each.
macro_rules! by_words {
    ($key:ident) => {
        impl PartialEq for $key {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                let pairs = self.words().into_iter().zip(other.words());
                pairs.fold(0, |difference, (own, other)| difference | own ^ other) == 0
            }
        }

        impl Hash for $key {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.words().hash(state);
            }
        }
    };
}

by_words!(FlowKey4);
by_words!(FlowKey6);

fn either<const N: usize>(a: [u8; N], b: [u8; N]) -> [u8; N] {
    core::array::from_fn(|place| a[place] | b[place])
}

impl FlowKey for FlowKey6 {
    type Words = [u64; 7];

    #[inline(always)]
    fn words(&self) -> [u64; 7] {
        zerocopy::transmute!(*self)
    }

    #[inline(always)]
    fn masked(&self, mask: &[u64; 7]) -> Self {
        let words: [u64; 7] = self.words();
        let words: [u64; 7] = core::array::from_fn(|place| words[place] & mask[place]);
        zerocopy::transmute!(words)
    }

    /// ADDRESS is the first 64 bits: a UE chooses the others itself.
    fn mask(fields: KeyFields, is_tunnel: bool) -> Self {
        let address = ones!(fields, ADDRESS, PREFIX);
        let tuple = ones!(fields, TUPLE, [0xff; 16]);
        Self {
            scope: Scope(u32::MAX),
            teid: u32::MAX,
            source: if is_tunnel { either(address, tuple) } else { tuple },
            destination: if is_tunnel { tuple } else { either(address, tuple) },
            ports: ones!(fields, TUPLE, [0xffff; 2]),
            protocol: ones!(fields, TUPLE, 0xff),
            fields,
            tos: ones!(fields, TOS, 0xff),
            qfi: ones!(fields, QFI, 0xff),
            flow_label: ones!(fields, FLOW_LABEL, u32::MAX),
            reserved: 0,
        }
    }
}

/// The bits of an IPv6 address that ADDRESS covers.
const PREFIX: [u8; 16] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
];

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
        assert_eq!(Scope::plain(VrfId(3)).origin(), Origin::Plain(VrfId(3)));
        assert_eq!(
            Scope::tunnel(LocalId(0xffff)).origin(),
            Origin::Tunnel(LocalId(0xffff))
        );
    }

    #[test]
    fn a_packed_key_is_the_same() {
        let key = FlowKey4 {
            scope: Scope::tunnel(LocalId(0x0102)),
            teid: 0x0304_0506,
            source: [7, 8, 9, 10],
            destination: [11, 12, 13, 14],
            ports: [0x0f10, 0x1112],
            protocol: 19,
            fields: KeyFields::TUPLE,
            tos: 20,
            qfi: 21,
        };
        assert_eq!(key.packed(), key);
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
