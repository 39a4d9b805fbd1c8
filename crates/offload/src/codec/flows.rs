//! Keys and flows.

use flow::contract::{AnyKey, Flow};
use flow::{
    ContentId, FlowFlags, FlowKey4, FlowKey6, KeyFields, LocalId, Nat, NatFlags, Origin, Scope, VrfId,
};

use super::field::{Bound, CodecError, Field, Reader, Wire, Writer};
use super::slots::{FORWARD_SLOT, MARKING_SLOT, NO_SLOT};

/// All fields of keys.
pub(super) const KEY_FIELDS: Field = Field::bits(
    "key fields",
    (KeyFields::ADDRESS.bits()
        | KeyFields::TUPLE.bits()
        | KeyFields::QFI.bits()
        | KeyFields::TOS.bits()
        | KeyFields::FLOW_LABEL.bits()) as u64,
);
const KEY_KIND: Field = Field::bits("key kind", 0b11);
const IPV6: u8 = 1;
const TUNNEL: u8 = 1 << 1;
const ORIGIN: Field = Field::any("VRF or local address");
const TEID: Field = Field::any("TEID");
const SOURCE: Field = Field::any("source address");
const DESTINATION: Field = Field::any("destination address");
const PORT: Field = Field::any("port");
const PROTOCOL: Field = Field::any("protocol");
const TOS: Field = Field::any("TOS");
const QFI: Field = Field::most_or("QFI", 63, 255);
const FLOW_LABEL: Field = Field::most("flow label", 0xf_ffff);

const QERS: Field = Field::any("QERs");
const URRS: Field = Field::any("URRs");
const HIGH_QERS: Field = Field::most("QERs from 16 on", u64::MAX >> 16);
const GENERATION: Field = Field::any("generation");
const IDLE: Field = Field::any("idle");
const FLAGS: Field = Field::bits("flow flags", 0x7f);
const PARTS: Field = Field::bits("flow parts", 0b111);
const NAT: u8 = 1;
const CONTENT: u8 = 1 << 1;
const HIGH_SLOTS: u8 = 1 << 2;
const CONTENT_ID: Field = Field::new("content", Bound::Range(1, u64::MAX));
const ADDRESS: Field = Field::any("NAT address");
const NAT_PORT: Field = Field::any("NAT port");
const SUM: Field = Field::any("NAT sum");
const CHANGES: Field = Field::bits("NAT changes", 0b1111);

/// What both kinds of keys have: addresses of `N` octets, of which `P` are covered by ADDRESS.
struct Parts<const N: usize> {
    scope: Scope,
    teid: u32,
    source: [u8; N],
    destination: [u8; N],
    ports: [u16; 2],
    protocol: u8,
    fields: KeyFields,
    tos: u8,
    qfi: u8,
}

impl<const N: usize> Parts<N> {
    fn has(&self, field: KeyFields) -> bool {
        self.fields.contains(field)
    }

    fn has_rest(&self) -> bool {
        self.fields
            .intersects(KeyFields::TUPLE | KeyFields::TOS | KeyFields::QFI)
    }

    /// Writes the key; `prefix`: how many octets of an address ADDRESS covers.
    fn put(&self, kind: u8, prefix: usize, to: &mut Writer<'_>) {
        let is_tunnel = self.scope.is_tunnel();
        to.u8(&KEY_FIELDS, self.fields.bits());
        to.u8(&KEY_KIND, kind | if is_tunnel { TUNNEL } else { 0 });
        let (origin, same) = match self.scope.origin() {
            Origin::Tunnel(local) => (local.0, Scope::tunnel(local)),
            Origin::Plain(vrf) => (vrf.0, Scope::plain(vrf)),
        };
        // A scope that was made from octets can have bits that mean nothing.
        to.check(&Field::zero("scope"), u64::from(same != self.scope));
        to.u16(&ORIGIN, origin);
        to.u32(&TEID.only_if(is_tunnel), self.teid);
        self.put_addresses(prefix, to);
        let [source, destination] = self.ports;
        let has_tuple = self.has(KeyFields::TUPLE);
        if has_tuple {
            to.u16(&PORT, source);
            to.u16(&PORT, destination);
        } else {
            to.check(&PORT.only_if(false), (source | destination).into());
        }
        let rest = [
            (PROTOCOL.only_if(has_tuple), self.protocol),
            (TOS.only_if(self.has(KeyFields::TOS)), self.tos),
            (QFI.only_if(self.has(KeyFields::QFI)), self.qfi),
        ];
        for (field, value) in &rest {
            match self.has_rest() {
                true => to.u8(field, *value),
                false => to.check(field, (*value).into()),
            }
        }
        if self.has_rest() {
            to.reserved(1);
        }
    }

    fn put_addresses(&self, prefix: usize, to: &mut Writer<'_>) {
        let addresses = [&self.source, &self.destination];
        if self.has(KeyFields::TUPLE) {
            to.array(&self.source);
            return to.array(&self.destination);
        }
        let [of_ue, other] = match self.scope.is_tunnel() {
            true => addresses,
            false => [addresses[1], addresses[0]],
        };
        to.check_zero("address beyond the UE's", other);
        let covered = if self.has(KeyFields::ADDRESS) { prefix } else { 0 };
        let (of_ue, host_part) = of_ue.split_at_checked(covered).unwrap_or((of_ue, &[]));
        to.array(of_ue);
        to.check_zero("address behind the prefix", host_part);
    }

    /// Reads what is behind fields and kind; `P`: how many octets of an address ADDRESS covers.
    fn take<const P: usize>(
        fields: KeyFields,
        is_tunnel: bool,
        from: &mut Reader<'_>,
    ) -> Result<Self, CodecError> {
        let origin = from.u16(&ORIGIN)?;
        let mut key = Self {
            scope: match is_tunnel {
                true => Scope::tunnel(LocalId(origin)),
                false => Scope::plain(VrfId(origin)),
            },
            teid: from.u32(&TEID.only_if(is_tunnel))?,
            source: [0; N],
            destination: [0; N],
            ports: [0; 2],
            protocol: 0,
            fields,
            tos: 0,
            qfi: 0,
        };
        let has_tuple = key.has(KeyFields::TUPLE);
        if has_tuple {
            key.source = from.array(&SOURCE)?;
            key.destination = from.array(&DESTINATION)?;
            key.ports = [from.u16(&PORT)?, from.u16(&PORT)?];
        } else if key.has(KeyFields::ADDRESS) {
            let covered: [u8; P] = from.array(&SOURCE)?;
            let of_ue = match is_tunnel {
                true => &mut key.source,
                false => &mut key.destination,
            };
            of_ue.iter_mut().zip(covered).for_each(|(to, from)| *to = from);
        }
        if key.has_rest() {
            key.protocol = from.u8(&PROTOCOL.only_if(has_tuple))?;
            key.tos = from.u8(&TOS.only_if(key.has(KeyFields::TOS)))?;
            key.qfi = from.u8(&QFI.only_if(key.has(KeyFields::QFI)))?;
            from.reserved(1)?;
        }
        Ok(key)
    }
}

/// Octets of an IPv4 address that ADDRESS covers.
const ADDRESS_V4: usize = 4;
/// Octets of an IPv6 address that ADDRESS covers.
const ADDRESS_V6: usize = 8;

macro_rules! parts_of {
    ($key:expr) => {
        Parts {
            scope: $key.scope,
            teid: $key.teid,
            source: $key.source,
            destination: $key.destination,
            ports: $key.ports,
            protocol: $key.protocol,
            fields: $key.fields,
            tos: $key.tos,
            qfi: $key.qfi,
        }
    };
}

impl Wire for AnyKey {
    fn put(&self, to: &mut Writer<'_>) {
        match self {
            Self::V4(key) => parts_of!(key).put(0, ADDRESS_V4, to),
            Self::V6(key) => {
                parts_of!(key).put(IPV6, ADDRESS_V6, to);
                match key.fields.contains(KeyFields::FLOW_LABEL) {
                    true => to.u32(&FLOW_LABEL, key.flow_label),
                    false => to.check(&FLOW_LABEL.only_if(false), key.flow_label.into()),
                }
                to.check(&Field::zero("key's reserved"), key.reserved.into());
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let fields = KeyFields::from_bits(from.u8(&KEY_FIELDS)?);
        let kind = from.u8(&KEY_KIND)?;
        let is_tunnel = kind & TUNNEL != 0;
        if kind & IPV6 == 0 {
            let parts = Parts::<4>::take::<ADDRESS_V4>(fields, is_tunnel, from)?;
            return Ok(Self::V4(FlowKey4 {
                scope: parts.scope,
                teid: parts.teid,
                source: parts.source,
                destination: parts.destination,
                ports: parts.ports,
                protocol: parts.protocol,
                fields,
                tos: parts.tos,
                qfi: parts.qfi,
            }));
        }
        let parts = Parts::<16>::take::<ADDRESS_V6>(fields, is_tunnel, from)?;
        let flow_label = match fields.contains(KeyFields::FLOW_LABEL) {
            true => from.u32(&FLOW_LABEL)?,
            false => 0,
        };
        Ok(Self::V6(FlowKey6 {
            scope: parts.scope,
            teid: parts.teid,
            source: parts.source,
            destination: parts.destination,
            ports: parts.ports,
            protocol: parts.protocol,
            fields,
            tos: parts.tos,
            qfi: parts.qfi,
            flow_label,
            reserved: 0,
        }))
    }
}

impl Wire for Nat {
    fn put(&self, to: &mut Writer<'_>) {
        to.array(&self.source);
        to.array(&self.destination);
        to.u16(&NAT_PORT, self.source_port);
        to.u16(&NAT_PORT, self.destination_port);
        to.u16(&SUM, self.addresses_add);
        to.u16(&SUM, self.ports_add);
        to.u8(&CHANGES, self.changes.bits());
        to.reserved(3);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let nat = Self {
            source: from.array(&ADDRESS)?,
            destination: from.array(&ADDRESS)?,
            source_port: from.u16(&NAT_PORT)?,
            destination_port: from.u16(&NAT_PORT)?,
            addresses_add: from.u16(&SUM)?,
            ports_add: from.u16(&SUM)?,
            changes: NatFlags::from_bits(from.u8(&CHANGES)?),
        };
        from.reserved(3)?;
        Ok(nat)
    }
}

impl Wire for Flow {
    fn put(&self, to: &mut Writer<'_>) {
        let high = (self.qers >> 16, (self.urrs >> 32) as u32);
        let parts = [
            (NAT, self.nat.is_some()),
            (CONTENT, self.content.is_some()),
            (HIGH_SLOTS, high != (0, 0)),
        ];
        let part = |mask, (bit, is_there)| if is_there { mask | bit } else { mask };
        self.key.put(to);
        to.u32(&URRS, self.urrs as u32);
        to.u16(&QERS, self.qers as u16);
        to.u16(&IDLE, self.idle);
        to.u8(&FLAGS, self.flags.bits());
        to.u8(&FORWARD_SLOT, self.forward);
        // A slot that says "none" would not come back.
        to.check(&Field::zero("marking"), (self.marking == Some(NO_SLOT)).into());
        to.u8(&MARKING_SLOT, self.marking.unwrap_or(NO_SLOT));
        to.u8(&PARTS, parts.into_iter().fold(0, part));
        to.u32(&GENERATION, self.generation);
        if high != (0, 0) {
            to.u64(&HIGH_QERS, high.0);
            to.u32(&URRS, high.1);
        }
        if let Some(nat) = &self.nat {
            nat.put(to);
        }
        if self.content.is_some() {
            to.u32(&CONTENT_ID, self.content.0);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut flow = Self {
            key: AnyKey::take(from)?,
            urrs: from.u32(&URRS)?.into(),
            qers: from.u16(&QERS)?.into(),
            generation: 0,
            idle: from.u16(&IDLE)?,
            flags: FlowFlags::from_bits(from.u8(&FLAGS)?),
            forward: from.u8(&FORWARD_SLOT)?,
            marking: Some(from.u8(&MARKING_SLOT)?).filter(|slot| *slot != NO_SLOT),
            nat: None,
            content: ContentId::NONE,
        };
        let parts = from.u8(&PARTS)?;
        flow.generation = from.u32(&GENERATION)?;
        if parts & HIGH_SLOTS != 0 {
            let (qers, urrs) = (from.u64(&HIGH_QERS)?, from.u32(&URRS)?);
            // Where there are none the part is left out.
            PARTS
                .only_if(qers != 0 || urrs != 0)
                .check((parts & HIGH_SLOTS).into())?;
            flow.qers |= qers << 16;
            flow.urrs |= u64::from(urrs) << 32;
        }
        if parts & NAT != 0 {
            flow.nat = Some(Nat::take(from)?);
        }
        if parts & CONTENT != 0 {
            flow.content = ContentId(from.u32(&CONTENT_ID)?);
        }
        Ok(flow)
    }
}
