//! Meters: what they police to, and what they hold.

use flow::Nanos;
use flow::meter::{
    MeterSpec, MeterState, PacketRate, PacketState, PacketsPer, Rate, SharedId, TimeUnit, Window,
};

use super::field::{CodecError, Field, Reader, Wire, Writer};

const KIND: Field = Field::most("meter kind", 4);
const FLAGS: Field = Field::bits("meter flags", 0b111);
const AWARE: u8 = 1;
const RENEWS: u8 = 1 << 1;
const ADDITIONAL: u8 = 1 << 2;
const RATE: Field = Field::most_or("rate", Rate::MAX.kbit(), Rate::UNLIMITED.kbit());
const BURST: Field = Field::any("burst");
const PACKETS: Field = Field::any("packets");
const UNIT: Field = Field::most("unit of time", 4);
const UNITS: &[TimeUnit] = &[
    TimeUnit::Minute,
    TimeUnit::SixMinutes,
    TimeUnit::Hour,
    TimeUnit::Day,
    TimeUnit::Week,
];
pub(super) const SHARED: Field = Field::any("shared meter");
const TOKENS: Field = Field::any("tokens");
const MOMENT: Field = Field::any("moment");

impl Wire for Rate {
    fn put(&self, to: &mut Writer<'_>) {
        to.u64(&RATE, self.kbit());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self::from_kbit(from.u64(&RATE)?))
    }
}

/// Four octets.
fn put_packets(per: Option<PacketsPer>, to: &mut Writer<'_>) {
    to.u16(&PACKETS.only_if(per.is_some()), per.map_or(0, |per| per.packets));
    to.u8(&UNIT.only_if(per.is_some()), per.map_or(0, |per| per.unit as u8));
    to.reserved(1);
}

fn take_packets(from: &mut Reader<'_>, is_there: bool) -> Result<PacketsPer, CodecError> {
    let per = PacketsPer {
        packets: from.u16(&PACKETS.only_if(is_there))?,
        unit: from.place(&UNIT.only_if(is_there), UNITS)?,
    };
    from.reserved(1)?;
    Ok(per)
}

/// The kind and the flags of a meter, which are in front of it.
fn kind_of(spec: &MeterSpec) -> (u8, u8) {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    match spec {
        MeterSpec::Single { .. } => (0, 0),
        MeterSpec::SrTcm { aware, .. } => (1, flag(*aware, AWARE)),
        MeterSpec::TrTcm { aware, .. } => (2, flag(*aware, AWARE)),
        MeterSpec::Packets { rate, renews } => (
            3,
            flag(*renews, RENEWS) | flag(rate.additional.is_some(), ADDITIONAL),
        ),
        MeterSpec::Shared(_) => (4, 0),
    }
}

/// The flags that a meter of a kind can have.
const fn flags_of(kind: u8) -> Field {
    Field::bits(
        "meter flags",
        match kind {
            1 | 2 => AWARE as u64,
            3 => (RENEWS | ADDITIONAL) as u64,
            _ => 0,
        },
    )
}

/// Two octets of kind and flags, two that are reserved, and what belongs to the kind.
impl Wire for MeterSpec {
    fn put(&self, to: &mut Writer<'_>) {
        let (kind, flags) = kind_of(self);
        to.u8(&KIND, kind);
        to.u8(&FLAGS, flags);
        to.reserved(2);
        let mut put = |rate: &Rate, burst| {
            rate.put(to);
            to.u64(&BURST, burst);
        };
        match self {
            Self::Single { rate, burst } => put(rate, *burst),
            Self::SrTcm { cir, cbs, ebs, .. } => {
                put(cir, *cbs);
                to.u64(&BURST, *ebs);
            }
            Self::TrTcm {
                cir, cbs, pir, pbs, ..
            } => {
                put(cir, *cbs);
                put(pir, *pbs);
            }
            Self::Packets { rate, .. } => {
                put_packets(Some(rate.base), to);
                put_packets(rate.additional, to);
            }
            Self::Shared(id) => {
                to.u16(&SHARED, id.0);
                to.reserved(2);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let kind = from.u8(&KIND)?;
        let flags = from.u8(&flags_of(kind))?;
        let aware = flags & AWARE != 0;
        from.reserved(2)?;
        Ok(match kind {
            0 => Self::Single {
                rate: Rate::take(from)?,
                burst: from.u64(&BURST)?,
            },
            1 => Self::SrTcm {
                cir: Rate::take(from)?,
                cbs: from.u64(&BURST)?,
                ebs: from.u64(&BURST)?,
                aware,
            },
            2 => Self::TrTcm {
                cir: Rate::take(from)?,
                cbs: from.u64(&BURST)?,
                pir: Rate::take(from)?,
                pbs: from.u64(&BURST)?,
                aware,
            },
            3 => {
                let has_additional = flags & ADDITIONAL != 0;
                let base = take_packets(from, true)?;
                let additional = take_packets(from, has_additional)?;
                Self::Packets {
                    rate: PacketRate {
                        base,
                        additional: has_additional.then_some(additional),
                    },
                    renews: flags & RENEWS != 0,
                }
            }
            _ => {
                let id = SharedId(from.u16(&SHARED)?);
                from.reserved(2)?;
                Self::Shared(id)
            }
        })
    }
}

impl Wire for MeterState {
    fn put(&self, to: &mut Writer<'_>) {
        let PacketState { base, additional } = self.packets;
        self.tokens.iter().for_each(|tokens| to.u64(&TOKENS, *tokens));
        to.u64(&MOMENT, self.at.0);
        to.u16(&PACKETS, base.left);
        to.u16(&PACKETS, additional.left);
        to.reserved(4);
        to.u64(&MOMENT, base.ends.0);
        to.u64(&MOMENT, additional.ends.0);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let tokens = [from.u64(&TOKENS)?, from.u64(&TOKENS)?];
        let at = Nanos(from.u64(&MOMENT)?);
        let left = [from.u16(&PACKETS)?, from.u16(&PACKETS)?];
        from.reserved(4)?;
        let mut window = |left| {
            Ok(Window {
                left,
                ends: Nanos(from.u64(&MOMENT)?),
            })
        };
        let packets = PacketState {
            base: window(left[0])?,
            additional: window(left[1])?,
        };
        Ok(Self { tokens, at, packets })
    }
}
