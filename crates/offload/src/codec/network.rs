//! What a backend holds of the node's network.

use std::net::IpAddr;

use flow::contract::{
    Adjacency, Instance, InstanceUses, Mss, OwnAddress, PathMtu, QfiMark, Route, RoutePrefix, RouteTarget,
    TooLong,
};
use flow::{AdjacencyId, InstanceId, LocalId, PortId, VrfId};

use super::field::{Bound, CodecError, Field, Reader, Wire, Writer};

/// Ports have numbers below this.
const PORTS: u64 = 1_024;
pub(crate) const PORT: Field = Field::most("port", PORTS - 1);
/// The port that a copy is sent to, or the copies that the session defines.
pub(super) const MIRROR: Field = Field::most_or("mirror", PORTS - 1, 0xffff);
pub(super) const INSTANCE: Field = Field::any("instance");
pub(super) const ADJACENCY: Field = Field::any("adjacency");
const FAMILY: Field = Field::new("address family", Bound::OneOf(&[4, 6]));
const FAMILY_OR_NONE: Field = Field::new("address family", Bound::OneOf(&[0, 4, 6]));
const ADDRESS: Field = Field::any("address");
const VLAN: Field = Field::most("VLAN", 4_094);
const TPID: Field = Field::new("TPID", Bound::OneOf(&[0x8100, 0x88a8]));
const VRF: Field = Field::any("VRF");
const MAC: Field = Field::any("link layer address");
const MTU: Field = Field::any("MTU");
const USES: Field = Field::bits("instance uses", 0b111);
const TOO_LONG: Field = Field::most("too long", 2);
const TOO_LONG_ALL: &[TooLong] = &[TooLong::FragmentInner, TooLong::FragmentOuter, TooLong::Trap];
const PARTS: Field = Field::bits("parts of the instance", 0b111);
const HAS_IPV4: u8 = 1;
const HAS_IPV6: u8 = 1 << 1;
const HAS_MSS: u8 = 1 << 2;
/// 0: what fits.
const MSS: Field = Field::any("MSS");
const MARKS: Field = Field::most("marks", 64);
const QFI: Field = Field::most("QFI", 63);
const DSCP: Field = Field::most("DSCP", 63);
const PCP: Field = Field::most("PCP", 7);
const LOCAL: Field = Field::any("local address");
const TARGET: Field = Field::most("route target", 3);
const HAS_ADJACENCY: Field = Field::bits("route flags", 1);
const HAS_MAC: Field = Field::bits("adjacency flags", 1);

/// The length of a prefix of addresses with this number of bits.
const fn prefix_length(bits: u64) -> Field {
    Field::most("prefix length", bits)
}

const fn family_of(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }
}

/// Its octets alone: the family is in a field before.
fn put_address(address: &IpAddr, to: &mut Writer<'_>) {
    match address {
        IpAddr::V4(address) => to.array(&address.octets()),
        IpAddr::V6(address) => to.array(&address.octets()),
    }
}

fn take_address(family: u8, from: &mut Reader<'_>) -> Result<IpAddr, CodecError> {
    Ok(match family {
        4 => IpAddr::from(from.array::<4>(&ADDRESS)?),
        _ => IpAddr::from(from.array::<16>(&ADDRESS)?),
    })
}

fn put_own<A: Copy + Into<IpAddr>>(own: &OwnAddress<A>, to: &mut Writer<'_>) {
    let address = own.address.into();
    put_address(&address, to);
    to.u8(&prefix_length(bits_of(&address)), own.length);
    to.reserved(1);
    to.u16(&LOCAL, own.local.0);
}

const fn bits_of(address: &IpAddr) -> u64 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn take_own<const N: usize, A: From<[u8; N]>>(from: &mut Reader<'_>) -> Result<OwnAddress<A>, CodecError> {
    let address = from.array::<N>(&ADDRESS)?.into();
    let length = from.u8(&prefix_length(8 * N as u64))?;
    from.reserved(1)?;
    Ok(OwnAddress {
        address,
        length,
        local: LocalId(from.u16(&LOCAL)?),
    })
}

/// Nothing where segments are not clamped.
fn put_mss(mss: Mss, to: &mut Writer<'_>) {
    let octets = match mss {
        Mss::Off => return,
        Mss::Auto => 0,
        Mss::AtMost(octets) => {
            to.check(&Field::zero("MSS of no octets"), (octets == 0).into());
            octets
        }
    };
    to.u16(&MSS, octets);
    to.reserved(2);
}

fn take_mss(from: &mut Reader<'_>) -> Result<Mss, CodecError> {
    let octets = from.u16(&MSS)?;
    from.reserved(2)?;
    Ok(match octets {
        0 => Mss::Auto,
        octets => Mss::AtMost(octets),
    })
}

/// No QoS flow has two marks.
fn check_marks(marks: &[QfiMark]) -> Result<(), CodecError> {
    let twice = |seen: u64, mark: &QfiMark| match seen >> (mark.qfi & 63) & 1 {
        0 => Ok(seen | 1 << (mark.qfi & 63)),
        _ => Err(CodecError::Twice {
            field: "QFI",
            value: mark.qfi.into(),
        }),
    };
    marks.iter().try_fold(0, twice).map(drop)
}

impl Wire for QfiMark {
    fn put(&self, to: &mut Writer<'_>) {
        to.u8(&QFI, self.qfi);
        to.u8(&DSCP, self.green);
        to.u8(&DSCP, self.yellow);
        to.u8(&PCP, self.pcp);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            qfi: from.u8(&QFI)?,
            green: from.u8(&DSCP)?,
            yellow: from.u8(&DSCP)?,
            pcp: from.u8(&PCP)?,
        })
    }
}

impl Wire for Instance {
    fn put(&self, to: &mut Writer<'_>) {
        to.u16(&PORT, self.port.0);
        let [outer, inner] = self.vlans;
        for (vlan, may_be) in [(outer, true), (inner, outer.is_some())] {
            // 0 says that there is none.
            to.check(&Field::zero("VLAN"), (vlan == Some(0)).into());
            to.u16(&VLAN.only_if(may_be), vlan.unwrap_or(0));
        }
        to.u16(&TPID, self.tpid);
        to.u16(&VRF, self.vrf.0);
        to.u16(&MTU, self.mtu);
        to.array(&self.mac);
        to.u8(&USES, self.uses.bits());
        to.u8(&TOO_LONG, self.too_long as u8);
        let [has_ipv4, has_ipv6, has_mss] =
            [self.ipv4.is_some(), self.ipv6.is_some(), self.mss != Mss::Off].map(u8::from);
        to.u8(
            &PARTS,
            (HAS_IPV4 * has_ipv4) | (HAS_IPV6 * has_ipv6) | (HAS_MSS * has_mss),
        );
        to.u8(&MARKS, u8::try_from(self.marks.len()).unwrap_or(u8::MAX));
        if let Some(own) = &self.ipv4 {
            put_own(own, to);
        }
        if let Some(own) = &self.ipv6 {
            put_own(own, to);
        }
        put_mss(self.mss, to);
        to.verify(check_marks(&self.marks));
        self.marks.iter().for_each(|mark| mark.put(to));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let port = PortId(from.u16(&PORT)?);
        let outer = from.u16(&VLAN)?;
        let inner = from.u16(&VLAN.only_if(outer != 0))?;
        let mut instance = Self {
            port,
            vlans: [outer, inner].map(|vlan| (vlan != 0).then_some(vlan)),
            tpid: from.u16(&TPID)?,
            vrf: VrfId(from.u16(&VRF)?),
            mtu: from.u16(&MTU)?,
            mac: from.array(&MAC)?,
            uses: InstanceUses::from_bits(from.u8(&USES)?),
            too_long: from.place(&TOO_LONG, TOO_LONG_ALL)?,
            ipv4: None,
            ipv6: None,
            mss: Mss::Off,
            marks: Vec::new(),
        };
        let parts = from.u8(&PARTS)?;
        let marks = from.u8(&MARKS)?;
        if parts & HAS_IPV4 != 0 {
            instance.ipv4 = Some(take_own(from)?);
        }
        if parts & HAS_IPV6 != 0 {
            instance.ipv6 = Some(take_own(from)?);
        }
        if parts & HAS_MSS != 0 {
            instance.mss = take_mss(from)?;
        }
        instance.marks = (0..marks)
            .map(|_| QfiMark::take(from))
            .collect::<Result<_, _>>()?;
        check_marks(&instance.marks)?;
        Ok(instance)
    }
}

/// Behind the length of a prefix there are no bits.
fn check_host_bits(prefix: &RoutePrefix) -> Result<(), CodecError> {
    let length = u32::from(prefix.length);
    let host_bits = match prefix.prefix {
        IpAddr::V4(address) => address.to_bits() & u32::MAX.checked_shr(length).unwrap_or(0) != 0,
        IpAddr::V6(address) => address.to_bits() & u128::MAX.checked_shr(length).unwrap_or(0) != 0,
    };
    Field::zero("prefix behind its length").check(host_bits.into())
}

impl Wire for RoutePrefix {
    fn put(&self, to: &mut Writer<'_>) {
        to.u16(&VRF, self.vrf.0);
        to.u8(&FAMILY, family_of(&self.prefix));
        to.u8(&prefix_length(bits_of(&self.prefix)), self.length);
        put_address(&self.prefix, to);
        to.verify(check_host_bits(self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let vrf = VrfId(from.u16(&VRF)?);
        let family = from.u8(&FAMILY)?;
        let length = from.u8(&prefix_length(if family == 4 { 32 } else { 128 }))?;
        let prefix = Self {
            vrf,
            prefix: take_address(family, from)?,
            length,
        };
        check_host_bits(&prefix)?;
        Ok(prefix)
    }
}

impl Wire for Route {
    fn put(&self, to: &mut Writer<'_>) {
        self.prefix.put(to);
        let (kind, instance, adjacency) = match self.target {
            RouteTarget::Link(instance) => (0, instance, None),
            RouteTarget::Router(instance, adjacency) => (1, instance, adjacency),
            RouteTarget::Paths(instance, adjacency) => (2, instance, Some(adjacency)),
            RouteTarget::Host => (3, InstanceId(0), None),
        };
        to.u8(&TARGET, kind);
        to.u8(&HAS_ADJACENCY, adjacency.is_some().into());
        to.u16(&INSTANCE, instance.0);
        to.u32(&ADJACENCY, adjacency.map_or(0, |adjacency| adjacency.0));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        const ALWAYS: Field = Field::new("route flags", Bound::Range(1, 1));
        let prefix = RoutePrefix::take(from)?;
        let kind = from.u8(&TARGET)?;
        let has_adjacency = 0
            != from.u8(match kind {
                1 => &HAS_ADJACENCY,
                2 => &ALWAYS,
                _ => const { &HAS_ADJACENCY.only_if(false) },
            })?;
        let instance = InstanceId(from.u16(&INSTANCE.only_if(kind != 3))?);
        let adjacency = AdjacencyId(from.u32(&ADJACENCY.only_if(has_adjacency))?);
        let target = match kind {
            0 => RouteTarget::Link(instance),
            1 => RouteTarget::Router(instance, has_adjacency.then_some(adjacency)),
            2 => RouteTarget::Paths(instance, adjacency),
            _ => RouteTarget::Host,
        };
        Ok(Self { prefix, target })
    }
}

impl Wire for Adjacency {
    fn put(&self, to: &mut Writer<'_>) {
        to.u16(&INSTANCE, self.instance.0);
        to.u8(&FAMILY_OR_NONE, self.address.as_ref().map_or(0, family_of));
        to.u8(&HAS_MAC, self.mac.is_some().into());
        to.array(&self.mac.unwrap_or_default());
        to.reserved(2);
        if let Some(address) = &self.address {
            put_address(address, to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let instance = InstanceId(from.u16(&INSTANCE)?);
        let family = from.u8(&FAMILY_OR_NONE)?;
        let mac = match from.u8(&HAS_MAC)? {
            0 => from.reserved(6).map(|()| None)?,
            _ => Some(from.array(&MAC)?),
        };
        from.reserved(2)?;
        let address = match family {
            0 => None,
            _ => Some(take_address(family, from)?),
        };
        Ok(Self {
            instance,
            address,
            mac,
        })
    }
}

/// Two addresses of one family, behind the field of their family and an MTU, which their name leaves 0.
pub(super) fn put_path(local: &IpAddr, peer: &IpAddr, mtu: Option<u16>, to: &mut Writer<'_>) {
    let family = family_of(local);
    to.u8(&FAMILY, family);
    to.reserved(1);
    to.u16(&MTU.only_if(mtu.is_some()), mtu.unwrap_or(0));
    put_address(local, to);
    let same = Field::new(
        "peer's address family",
        Bound::Range(family.into(), family.into()),
    );
    to.check(&same, family_of(peer).into());
    put_address(peer, to);
}

pub(super) fn take_path(from: &mut Reader<'_>, has_mtu: bool) -> Result<PathMtu, CodecError> {
    let family = from.u8(&FAMILY)?;
    from.reserved(1)?;
    Ok(PathMtu {
        mtu: from.u16(&MTU.only_if(has_mtu))?,
        local: take_address(family, from)?,
        peer: take_address(family, from)?,
    })
}
