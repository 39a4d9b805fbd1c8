//! `Ue`: a session's node, in one cache line: its shaper, and which of its queues have packets, are held, and are of
//! which class.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bucket::Bucket;
use crate::wheel::Waits;

/// A UE's node, or room for one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Ue {
    pub(crate) bucket: Bucket,
    /// Of what time the level is.
    pub(crate) since: u64,
    /// The line of its first queue.
    pub(crate) first: u32,
    /// Where it waits for its own shaper.
    pub(crate) waits: Waits,
    /// Bit n: queue n has packets.
    pub(crate) backlog: u8,
    /// Bit n: queue n waits for its own maximum rate.
    pub(crate) held: u8,
    /// Bit n: queue n is outside the UE's shaper.
    pub(crate) exempt: u8,
    /// Bit n: the UE is in the ring of class n of its node.
    pub(crate) joined: u8,
    /// By class: which queues are of it now.
    pub(crate) of_class: [u8; 8],
    /// By class: octets that are left of a turn.
    pub(crate) deficits: [i16; 8],
    /// The innermost shared node.
    pub(crate) node: u16,
    /// Bit n: there is a queue n.
    pub(crate) places: u8,
    /// The order of its run of queues, and [`Ue::LIVE`] or [`Ue::LEAVING`].
    pub(crate) state: u8,
}

const _: () = assert!(size_of::<Ue>() == 64);

const LOW: u64 = 0x0101_0101_0101_0101;

impl Ue {
    /// There is such a UE.
    pub(crate) const LIVE: u8 = 0x10;
    /// It was removed, and is in rings yet.
    pub(crate) const LEAVING: u8 = 0x20;

    pub(crate) const fn is_live(&self) -> bool {
        self.state & Self::LIVE != 0
    }

    pub(crate) const fn order(&self) -> u8 {
        self.state & 0xf
    }

    /// Queues that may send a packet, if their turn comes.
    #[inline(always)]
    pub(crate) const fn ready(&self) -> u8 {
        let allowed = if self.waits == 0 { u8::MAX } else { self.exempt };
        self.backlog & !self.held & allowed
    }

    /// Those of a class.
    #[inline(always)]
    pub(crate) const fn ready_of(&self, class: usize) -> u8 {
        self.ready() & self.of_class[class & 7]
    }

    /// Queues with packets that the UE's shaper is for.
    #[inline(always)]
    pub(crate) const fn shaped(&self) -> u8 {
        self.backlog & !self.exempt
    }

    /// Classes of which a queue is ready.
    #[inline]
    pub(crate) const fn ready_classes(&self) -> u8 {
        let queues = u64::from_le_bytes(self.of_class) & (self.ready() as u64 * LOW);
        // The top bit of each octet that is not zero, then these eight bits side by side.
        let tops = (((queues & (0x7f * LOW)) + 0x7f * LOW) | queues) & (0x80 * LOW);
        ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    }

    /// Sets of which class a queue is.
    pub(crate) fn set_class(&mut self, place: u8, class: u8) {
        self.of_class
            .iter_mut()
            .for_each(|queues| *queues &= !(1 << place));
        self.of_class[usize::from(class & 7)] |= 1 << place;
    }

    /// The line of a queue.
    #[inline(always)]
    pub(crate) const fn line(&self, place: u8) -> usize {
        self.first as usize + place as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromZeros;

    use super::*;

    proptest! {
        #[test]
        fn ready_classes_are_those_of_ready_queues(
            classes in prop::array::uniform8(0_u8..8), masks in any::<[u8; 3]>(), waits in 0_u32..2,
        ) {
            let mut ue = Ue::new_zeroed();
            (ue.backlog, ue.held, ue.exempt, ue.waits) = (masks[0], masks[1], masks[2], waits);
            (0..8).for_each(|place| ue.set_class(place, classes[usize::from(place)]));
            let expected = (0..8).filter(|place| ue.ready() >> place & 1 == 1);
            let expected = expected.fold(0, |mask, place: u8| mask | 1 << classes[usize::from(place)]);
            prop_assert_eq!(ue.ready_classes(), expected);
        }
    }
}
