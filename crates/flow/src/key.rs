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
    #[inline]
    pub fn new(fields: KeyFields, is_tunnel: bool) -> Self {
        let mask = K::mask(fields, is_tunnel);
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

    /// The words whose octets are all ones where `fields` are, and `fields` itself in its place: of tunnels ADDRESS is
    /// the source, of plain packets the destination.
    fn mask(fields: KeyFields, is_tunnel: bool) -> Self::Words;
}

/// All ones if `fields` has `field`.
const fn ones(fields: KeyFields, field: KeyFields) -> u64 {
    if fields.contains(field) { u64::MAX } else { 0 }
}

/// All ones or zeros for the part of source and destination that ADDRESS covers, and for what TUPLE alone does.
const fn masks_of_addresses(fields: KeyFields, is_tunnel: bool) -> [u64; 3] {
    let tuple = ones(fields, KeyFields::TUPLE);
    let either = tuple | ones(fields, KeyFields::ADDRESS);
    if is_tunnel {
        [either, tuple, tuple]
    } else {
        [tuple, either, tuple]
    }
}

/// The word with ports, protocol, fields, TOS and QFI of a mask, an octet each from the lowest of them on.
const fn mask_of_ports(fields: KeyFields) -> u64 {
    let tuple = ones(fields, KeyFields::TUPLE) & 0xff_ffff_ffff;
    let tos = ones(fields, KeyFields::TOS) & 0xff;
    let qfi = ones(fields, KeyFields::QFI) & 0xff;
    u64::from_le(tuple | (fields.bits() as u64) << 40 | tos << 48 | qfi << 56)
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

    /// By words, in registers: what is written in parts is waited for when words of it are read.
    #[inline]
    fn mask(fields: KeyFields, is_tunnel: bool) -> [u64; 3] {
        let [source, destination, _] = masks_of_addresses(fields, is_tunnel);
        let addresses = u64::from_le(source & 0xffff_ffff | destination << 32);
        [u64::MAX, addresses, mask_of_ports(fields)]
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
            #[inline]
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                self.words()
                    .into_iter()
                    .for_each(|word| state.write_u64(word));
            }
        }
    };
}

by_words!(FlowKey4);
by_words!(FlowKey6);

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
    #[inline]
    fn mask(fields: KeyFields, is_tunnel: bool) -> [u64; 7] {
        let [source, destination, tuple] = masks_of_addresses(fields, is_tunnel);
        let flow_label = u64::from_le(ones(fields, KeyFields::FLOW_LABEL) & 0xffff_ffff);
        [
            u64::MAX,
            source,
            tuple,
            destination,
            tuple,
            mask_of_ports(fields),
            flow_label,
        ]
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

    /// Of every shape, by field: a key of ones is cut down to its fields.
    #[test]
    fn a_shape_keeps_its_fields_and_no_others() {
        const OF_V6: KeyFields = KeyFields::FLOW_LABEL;
        for (bits, is_tunnel) in (0..=u8::MAX).flat_map(|bits| [(bits, false), (bits, true)]) {
            let fields = KeyFields::from_bits(bits);
            let has = |field| fields.contains(field);
            let (tuple, address) = (has(KeyFields::TUPLE), has(KeyFields::ADDRESS));
            let (source, destination) = (tuple || address && is_tunnel, tuple || address && !is_tunnel);
            let octet = |is_there: bool| if is_there { 0xff } else { 0 };
            let port = if tuple { 0xffff } else { 0 };
            let all: FlowKey4 = zerocopy::transmute!([u64::MAX; 3]);
            let wanted = FlowKey4 {
                scope: Scope(u32::MAX),
                teid: u32::MAX,
                source: [octet(source); 4],
                destination: [octet(destination); 4],
                ports: [port; 2],
                protocol: octet(tuple),
                fields,
                tos: octet(has(KeyFields::TOS)),
                qfi: octet(has(KeyFields::QFI)),
            };
            assert_eq!(Shape::new(fields, is_tunnel).cut(&all), wanted);
            let all: FlowKey6 = zerocopy::transmute!([u64::MAX; 7]);
            // Of the UE's own address the first half is known.
            let halves = |is_there: bool| {
                let mut address = [octet(tuple); 16];
                address[..8].fill(octet(is_there));
                address
            };
            let wanted = FlowKey6 {
                scope: Scope(u32::MAX),
                teid: u32::MAX,
                source: halves(source),
                destination: halves(destination),
                ports: wanted.ports,
                protocol: wanted.protocol,
                fields,
                tos: wanted.tos,
                qfi: wanted.qfi,
                flow_label: if has(OF_V6) { u32::MAX } else { 0 },
                reserved: 0,
            };
            assert_eq!(Shape::new(fields, is_tunnel).cut(&all), wanted);
        }
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
