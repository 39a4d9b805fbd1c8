//! Queues: their classes, the shared nodes above them, and what is left of their rates.

use flow::contract::{
    Management, Queue, QueueClass, QueueTokens, Queues, RedCurve, Shaper, SharedNode, SharedNodeId,
};
use flow::meter::Rate;
use flow::{Direction, Nanos};

use super::field::{Bound, CodecError, Field, Reader, Wire, Writer};
use super::slots::{DIRECTION, DIRECTIONS, MARKING_SLOT, NO_SLOT, QER_SLOT};

pub(super) const CLASS: Field = Field::most("queue class", QueueClass::MOST as u64 - 1);
pub(super) const NODE: Field = Field::any("shared node");
const PRIORITY: Field = Field::most("priority", QueueClass::LAST_PRIORITY as u64);
const WEIGHT: Field = Field::new("weight", Bound::Range(1, 255));
const MANAGEMENT: Field = Field::most("queue management", 3);
const OCTETS: Field = Field::any("octets of a queue");
const THRESHOLD: Field = Field::most("WRED threshold", (1 << 26) - 1);
const ONE_IN: Field = Field::new("WRED one in", Bound::Range(1, 255));
const WEIGHT_LOG2: Field = Field::new("WRED weight", Bound::Range(1, 12));
const RISING: Field = Field::zero("WRED thresholds that do not rise");
const HAS_PARENT: Field = Field::bits("shared node flags", 1);
const BURST: Field = Field::any("burst");
const OVERHEAD: Field = Field::any("overhead");
const SHAPERS: Field = Field::most("shapers", Queues::MOST as u64);
const QUEUES: Field = Field::new("queues", Bound::Range(1, Queues::MOST as u64));
const QUEUES_OF_TOKENS: Field = Field::most("queues", Queues::MOST as u64);
const HAS_TOKENS: Field = Field::bits("queue flags", 1);
const MILLIS: Field = Field::any("burst, milliseconds");
const TOKENS: Field = Field::any("tokens");
const MOMENT: Field = Field::any("moment");

/// The place of one of this number of shapers, or none.
const fn shaper_place(shapers: u8) -> Field {
    match shapers {
        0 => Field::new("shaper", Bound::Range(NO_SLOT as u64, NO_SLOT as u64)),
        some => Field::most_or("shaper", some as u64 - 1, NO_SLOT as u64),
    }
}

/// Twelve octets.
impl Wire for RedCurve {
    fn put(&self, to: &mut Writer<'_>) {
        to.u32(&THRESHOLD, self.min);
        to.u32(&THRESHOLD, self.max);
        to.u8(&ONE_IN, self.one_in);
        to.reserved(3);
        to.check(&RISING, (self.min >= self.max).into());
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (min, max) = (from.u32(&THRESHOLD)?, from.u32(&THRESHOLD)?);
        let one_in = from.u8(&ONE_IN)?;
        from.reserved(3)?;
        RISING.check((min >= max).into())?;
        Ok(Self { min, max, one_in })
    }
}

/// Eight octets, and curves behind them.
impl Wire for QueueClass {
    fn put(&self, to: &mut Writer<'_>) {
        let (management, weight_log2) = match self.management {
            Management::TailDrop => (0, None),
            Management::CoDel => (1, None),
            Management::DualQueue => (2, None),
            Management::Wred { weight_log2, .. } => (3, Some(weight_log2)),
        };
        to.u8(&PRIORITY, self.priority);
        to.u8(&WEIGHT, self.weight);
        to.u8(&MANAGEMENT, management);
        to.u8(
            &WEIGHT_LOG2.only_if(weight_log2.is_some()),
            weight_log2.unwrap_or(0),
        );
        to.u32(&OCTETS, self.octets);
        if let Management::Wred { green, yellow, .. } = &self.management {
            green.put(to);
            yellow.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (priority, weight) = (from.u8(&PRIORITY)?, from.u8(&WEIGHT)?);
        let management = from.u8(&MANAGEMENT)?;
        let weight_log2 = from.u8(&WEIGHT_LOG2.only_if(management == 3))?;
        let octets = from.u32(&OCTETS)?;
        Ok(Self {
            priority,
            weight,
            octets,
            management: match management {
                0 => Management::TailDrop,
                1 => Management::CoDel,
                2 => Management::DualQueue,
                _ => Management::Wred {
                    green: RedCurve::take(from)?,
                    yellow: RedCurve::take(from)?,
                    weight_log2,
                },
            },
        })
    }
}

/// Twenty octets.
impl Wire for SharedNode {
    fn put(&self, to: &mut Writer<'_>) {
        let has_parent = self.parent.is_some();
        to.u8(&HAS_PARENT, has_parent.into());
        to.u8(&WEIGHT, self.weight);
        to.u8(&OVERHEAD, self.overhead);
        to.reserved(1);
        to.u16(
            &NODE.only_if(has_parent),
            self.parent.map_or(0, |parent| parent.0),
        );
        to.reserved(2);
        to.u32(&BURST, self.burst);
        self.rate.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let has_parent = from.u8(&HAS_PARENT)? != 0;
        let (weight, overhead) = (from.u8(&WEIGHT)?, from.u8(&OVERHEAD)?);
        from.reserved(1)?;
        let parent = SharedNodeId(from.u16(&NODE.only_if(has_parent))?);
        from.reserved(2)?;
        Ok(Self {
            parent: has_parent.then_some(parent),
            weight,
            overhead,
            burst: from.u32(&BURST)?,
            rate: Rate::take(from)?,
        })
    }
}

fn put_shaper(shaper: &Shaper, to: &mut Writer<'_>) {
    to.u8(&QER_SLOT, shaper.qer);
    to.reserved(1);
    to.u16(&MILLIS, shaper.burst_millis);
    shaper.maximum.put(to);
}

fn take_shaper(from: &mut Reader<'_>) -> Result<Shaper, CodecError> {
    let qer = from.u8(&QER_SLOT)?;
    from.reserved(1)?;
    Ok(Shaper {
        qer,
        burst_millis: from.u16(&MILLIS)?,
        maximum: Rate::take(from)?,
    })
}

fn put_queue(queue: &Queue, shapers: u8, to: &mut Writer<'_>) {
    to.u8(&MARKING_SLOT, queue.marking.unwrap_or(NO_SLOT));
    // What says "none" is no place.
    to.check(&Field::zero("shaper"), (queue.shaper == Some(NO_SLOT)).into());
    to.u8(&shaper_place(shapers), queue.shaper.unwrap_or(NO_SLOT));
    to.check(&Field::zero("marking"), (queue.marking == Some(NO_SLOT)).into());
    to.u8(&CLASS, queue.class);
    to.reserved(1);
    to.u16(&MILLIS, queue.burst_millis);
    to.reserved(2);
    queue.guaranteed.put(to);
    queue.maximum.put(to);
}

fn take_queue(shapers: u8, from: &mut Reader<'_>) -> Result<Queue, CodecError> {
    let some = |slot: u8| (slot != NO_SLOT).then_some(slot);
    let marking = some(from.u8(&MARKING_SLOT)?);
    let shaper = some(from.u8(&shaper_place(shapers))?);
    let class = from.u8(&CLASS)?;
    from.reserved(1)?;
    let burst_millis = from.u16(&MILLIS)?;
    from.reserved(2)?;
    Ok(Queue {
        marking,
        shaper,
        class,
        burst_millis,
        guaranteed: Rate::take(from)?,
        maximum: Rate::take(from)?,
    })
}

/// A number, as far as it can be written: more than there may be is refused.
fn number(items: usize) -> u8 {
    u8::try_from(items).unwrap_or(u8::MAX)
}

/// Writes the queues of a direction.
pub(super) fn put_queues(
    direction: Direction,
    queues: &Queues,
    tokens: Option<&QueueTokens>,
    to: &mut Writer<'_>,
) {
    let shapers = number(queues.shapers.len());
    to.u8(&DIRECTION, direction as u8);
    to.u8(&SHAPERS, shapers);
    to.u8(&QUEUES, number(queues.queues.len()));
    to.u8(&HAS_TOKENS, tokens.is_some().into());
    to.u16(&NODE, queues.node.0);
    to.reserved(2);
    queues.shapers.iter().for_each(|shaper| put_shaper(shaper, to));
    queues
        .queues
        .iter()
        .for_each(|queue| put_queue(queue, shapers, to));
    if let Some(tokens) = tokens {
        to.check(
            &Field::zero("tokens of other queues"),
            (!tokens.fit(queues)).into(),
        );
        put_tokens(tokens, to);
    }
}

/// The queues of a direction.
pub(super) struct OfDirection {
    pub direction: Direction,
    pub queues: Queues,
    pub tokens: Option<QueueTokens>,
}

pub(super) fn take_queues(from: &mut Reader<'_>) -> Result<OfDirection, CodecError> {
    let direction = from.place(&DIRECTION, DIRECTIONS)?;
    let (shapers, queues) = (from.u8(&SHAPERS)?, from.u8(&QUEUES)?);
    let has_tokens = from.u8(&HAS_TOKENS)? != 0;
    let node = SharedNodeId(from.u16(&NODE)?);
    from.reserved(2)?;
    let all_shapers = (0..shapers)
        .map(|_| take_shaper(from))
        .collect::<Result<_, _>>()?;
    let all_queues = (0..queues)
        .map(|_| take_queue(shapers, from))
        .collect::<Result<_, _>>()?;
    Ok(OfDirection {
        direction,
        queues: Queues {
            node,
            shapers: all_shapers,
            queues: all_queues,
        },
        tokens: has_tokens
            .then(|| take_tokens(shapers, queues, from))
            .transpose()?,
    })
}

/// Two octets: of how many shapers and queues there are tokens.
pub(super) fn put_tokens_header(tokens: &QueueTokens, to: &mut Writer<'_>) {
    to.u8(&SHAPERS, number(tokens.shapers.len()));
    to.u8(&QUEUES_OF_TOKENS, number(tokens.queues.len()));
}

pub(super) fn take_tokens_header(from: &mut Reader<'_>) -> Result<(u8, u8), CodecError> {
    Ok((from.u8(&SHAPERS)?, from.u8(&QUEUES_OF_TOKENS)?))
}

/// Writes tokens, of as many shapers and queues as was said before.
pub(super) fn put_tokens(tokens: &QueueTokens, to: &mut Writer<'_>) {
    to.u64(&MOMENT, tokens.at.0);
    let all = tokens.shapers.iter().chain(tokens.queues.iter().flatten());
    all.for_each(|level| to.u64(&TOKENS, *level as u64));
}

pub(super) fn take_tokens(shapers: u8, queues: u8, from: &mut Reader<'_>) -> Result<QueueTokens, CodecError> {
    let at = Nanos(from.u64(&MOMENT)?);
    let mut level = || from.u64(&TOKENS).map(|level| level as i64);
    let shapers = (0..shapers).map(|_| level()).collect::<Result<_, _>>()?;
    let queues = (0..queues)
        .map(|_| Ok([level()?, level()?]))
        .collect::<Result<_, CodecError>>()?;
    Ok(QueueTokens { at, shapers, queues })
}
