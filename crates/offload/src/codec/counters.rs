//! Counters: what they count, where they act, and their counts.

use flow::contract::{CounterKind, CounterWeight};
use flow::{Bounds, ContentId, ContentUsage, CounterLimit, LimitAction, Nanos, UrrCount, Volumes};

use super::field::{CodecError, Field, Reader, Wire, Writer};
use super::slots::COUNTER_SLOT;

const FLAGS: Field = Field::bits("counter flags", 0b1111);
const BEFORE_QOS: u8 = 1;
const EVENTS: u8 = 1 << 1;
const WEIGHT: u8 = 1 << 2;
const LIMIT: u8 = 1 << 3;
const TIMES: Field = Field::any("times");
const ACTION: Field = Field::most("limit action", 2);
const ACTIONS: &[LimitAction] = &[LimitAction::Event, LimitAction::Trap, LimitAction::Drop];
const VOLUMES: Field = Field::bits("volumes", 0b11_1111);
const WATERMARKS: u64 = 0b111;
const VOLUME: Field = Field::any("volume");
const COUNT: Field = Field::any("count");
const CONTENT: Field = Field::any("content");
const MOMENT: Field = Field::any("moment");

/// Octets of a slot and its counts.
pub(super) const COUNTS_LEN: usize = 44;
/// Octets of what was counted of a content.
pub(super) const USAGE_LEN: usize = 60;

/// What a counter is, behind its slot.
pub(super) struct Counter {
    pub kind: CounterKind,
    pub bounds: Bounds,
}

const fn three(volumes: &Volumes) -> [Option<u64>; 3] {
    [volumes.total, volumes.uplink, volumes.downlink]
}

/// The bits of the volumes that are there, watermarks first.
fn volumes_of(all: &[Option<u64>]) -> u8 {
    let bit = |mask, (place, volume): (usize, &Option<u64>)| mask | u8::from(volume.is_some()) << place;
    all.iter().enumerate().fold(0, bit)
}

fn take_volumes(mask: u8, from: &mut Reader<'_>) -> Result<Volumes, CodecError> {
    let mut volume = |bit: u8| match mask >> bit & 1 {
        0 => Ok(None),
        _ => from.u64(&VOLUME).map(Some),
    };
    Ok(Volumes {
        total: volume(0)?,
        uplink: volume(1)?,
        downlink: volume(2)?,
    })
}

/// Without its slot, which is the octet before.
impl Wire for Counter {
    fn put(&self, to: &mut Writer<'_>) {
        let Self { kind, bounds } = self;
        let (weight, limit) = (kind.weight, bounds.limit);
        let flags = [
            (BEFORE_QOS, kind.before_qos),
            (EVENTS, kind.events),
            (WEIGHT, weight.is_some()),
            (LIMIT, limit.is_some()),
        ];
        let flag = |mask, (bit, is_set)| if is_set { mask | bit } else { mask };
        to.u8(&FLAGS, flags.into_iter().fold(0, flag));
        to.u8(
            &COUNTER_SLOT.only_if(weight.is_some()),
            weight.map_or(0, |weight| weight.of),
        );
        to.u8(
            &ACTION.only_if(limit.is_some()),
            limit.map_or(0, |limit| limit.action as u8),
        );
        to.u16(
            &TIMES.only_if(weight.is_some()),
            weight.map_or(0, |weight| weight.times),
        );
        let [of_watermarks, of_limit] = [
            bounds.watermarks,
            limit.map_or(Volumes::NONE, |limit| limit.octets),
        ]
        .map(|some| three(&some));
        let all = [of_watermarks, of_limit].concat();
        to.u8(&VOLUMES, volumes_of(&all));
        to.reserved(1);
        all.iter().flatten().for_each(|volume| to.u64(&VOLUME, *volume));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        const WITHOUT_LIMIT: Field = Field::bits("volumes", WATERMARKS);
        let flags = from.u8(&FLAGS)?;
        let [has_weight, has_limit] = [WEIGHT, LIMIT].map(|bit| flags & bit != 0);
        let of = from.u8(&COUNTER_SLOT.only_if(has_weight))?;
        let action = from.place(&ACTION.only_if(has_limit), ACTIONS)?;
        let times = from.u16(&TIMES.only_if(has_weight))?;
        let volumes = from.u8(if has_limit { &VOLUMES } else { &WITHOUT_LIMIT })?;
        from.reserved(1)?;
        let watermarks = take_volumes(volumes, from)?;
        let octets = take_volumes(volumes >> 3, from)?;
        Ok(Self {
            kind: CounterKind {
                before_qos: flags & BEFORE_QOS != 0,
                events: flags & EVENTS != 0,
                weight: has_weight.then_some(CounterWeight { of, times }),
            },
            bounds: Bounds {
                watermarks,
                limit: has_limit.then_some(CounterLimit { octets, action }),
            },
        })
    }
}

impl Wire for UrrCount {
    fn put(&self, to: &mut Writer<'_>) {
        let Self {
            ul_packets,
            ul_octets,
            dl_packets,
            dl_octets,
            events,
        } = *self;
        for count in [ul_packets, ul_octets, dl_packets, dl_octets, events] {
            to.u64(&COUNT, count);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            ul_packets: from.u64(&COUNT)?,
            ul_octets: from.u64(&COUNT)?,
            dl_packets: from.u64(&COUNT)?,
            dl_octets: from.u64(&COUNT)?,
            events: from.u64(&COUNT)?,
        })
    }
}

/// A slot and its counts.
impl Wire for (u8, UrrCount) {
    fn put(&self, to: &mut Writer<'_>) {
        to.u8(&COUNTER_SLOT, self.0);
        to.reserved(3);
        self.1.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let slot = from.u8(&COUNTER_SLOT)?;
        from.reserved(3)?;
        Ok((slot, UrrCount::take(from)?))
    }
}

impl Wire for ContentUsage {
    fn put(&self, to: &mut Writer<'_>) {
        to.u32(&CONTENT, self.content.0);
        self.count.put(to);
        to.u64(&MOMENT, self.first.0);
        to.u64(&MOMENT, self.last.0);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            content: ContentId(from.u32(&CONTENT)?),
            count: UrrCount::take(from)?,
            first: Nanos(from.u64(&MOMENT)?),
            last: Nanos(from.u64(&MOMENT)?),
        })
    }
}
