//! Charges and credits: the counts of packets that are queued to be sent, and their subtraction where a packet is lost.
//!
//! Stage `apply_rules` counts a packet before it is sent. A queued packet carries a [`ChargeId`] in its buffer's
//! metadata. The id names the record of the packet's counts. Code that loses the packet marks the record by that id
//! alone ([`Charges::lose`]); the counts of marked records are subtracted before and after each transmission
//! ([`Charges::credit_back`]). A mark is a bit of the record itself, so no loss is without room, and a burst has fewer
//! packets than there are records, so no marked record is overwritten.

use flow::{BlockRef, Blocks, Direction, Installed, SessionGroupId};

use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Kind};
use crate::io::ChargeId;

/// Number of records: the packets of two bursts, one for each bit of [`Charges::lost`].
const IN_FLIGHT: usize = 2 * BURST;
const _: () = assert!(IN_FLIGHT == u128::BITS as usize);

/// The counts of one packet: what is needed of its verdict to take them back.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    /// As the fields of a [`Verdict`](flow::Verdict) of these names.
    urrs: u64,
    block: BlockRef,
    /// 0: it has counted nothing.
    generation: u32,
    content: u16,
    octets: u16,
    group: CountedIn,
    direction: Direction,
    /// It is no user packet, but a message of a tunnel.
    is_relayed: bool,
}

const _: () = assert!(size_of::<Charge>() == 24, "there are very many");

/// In the total of which session group a packet counts, one of its octets and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountedIn(u16);

impl CountedIn {
    /// In that of its session, which has its block: the packet leaves with the burst in which it was counted.
    const BY_BLOCK: Self = Self(u16::MAX);
    /// In none: it has no user packet.
    const NOTHING: Self = Self(u16::MAX - 1);

    const fn of(group: SessionGroupId, direction: Direction) -> Self {
        Self(((group.index() as u16) << 1) | direction as u16)
    }

    fn get(self) -> Option<(SessionGroupId, Direction)> {
        let group = SessionGroupId::new(self.0 >> 1)?;
        Some((group, Direction::BOTH[usize::from(self.0 & 1)]))
    }
}

/// Where packets of a content are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentPlace {
    /// The number of its counter; 0: it has none.
    pub number: u16,
    /// Bit n: in the counter of slot n, with what else has none.
    pub rest: u64,
}

impl Charge {
    /// Nothing.
    pub const NONE: Self = Self {
        urrs: 0,
        block: BlockRef(0),
        generation: 0,
        content: 0,
        octets: 0,
        group: CountedIn::NOTHING,
        direction: Direction::Uplink,
        is_relayed: false,
    };

    /// What a packet has counted.
    #[inline(always)]
    pub fn of(descriptor: &Descriptor) -> Self {
        let verdict = &descriptor.verdict;
        Self {
            urrs: verdict.urrs,
            block: verdict.block,
            generation: verdict.generation,
            content: verdict.content,
            octets: descriptor.octets,
            group: CountedIn::BY_BLOCK,
            direction: verdict.direction(),
            is_relayed: descriptor.kind == Kind::Relayed,
        }
    }

    /// The packet waits: it counts in the total of its session's group when it [leaves](Self::count_group) the worker,
    /// and not before, wherever its session is then.
    pub fn wait(&mut self, blocks: &mut Blocks) {
        self.group = match self.counted_in(blocks) {
            Some((group, direction)) => {
                let groups = blocks.groups_mut();
                groups.take_back(group, direction, self.octets.into());
                CountedIn::of(group, direction)
            }
            None => CountedIn::NOTHING,
        };
    }

    /// Counts a packet that has waited in the total of its session's group: it leaves.
    pub fn count_group(&self, blocks: &mut Blocks) {
        if let Some((group, direction)) = self.group.get() {
            blocks.groups_mut().count(group, direction, self.octets.into());
        }
    }

    fn counted_in(&self, blocks: &Blocks) -> Option<(SessionGroupId, Direction)> {
        match self.group {
            CountedIn::BY_BLOCK if self.is_of_user() => {
                let group = blocks.group_in(self.block, self.direction)?;
                Some((group, self.direction))
            }
            known => known.get(),
        }
    }

    /// Whether it is a user packet of a session.
    const fn is_of_user(&self) -> bool {
        self.generation != 0 && !self.is_relayed
    }

    /// What it has counted: in which slots of its block, as which direction, how many octets. `None`: nothing.
    pub fn counted(&self) -> Option<(u64, Direction, u16)> {
        self.is_of_user()
            .then_some((self.urrs, self.direction, self.octets))
    }

    /// Whether it is no user packet, but a message of a tunnel.
    pub const fn is_of_message(&self) -> bool {
        self.is_relayed
    }

    /// The direction of the packet.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Takes back what is in the counters in these slots, and in that of its content: the packet goes to another
    /// worker, to count there. What was reported of its content already stays counted here.
    pub fn leave(&mut self, blocks: &mut Blocks, slots: u64) {
        if self.is_relayed {
            return;
        }
        let (block, generation) = (self.block, self.generation);
        let (direction, octets) = (self.direction, self.octets.into());
        let is_of_user = self.is_of_user();
        let has_content = self.content != 0
            && is_of_user
            && blocks.withdraw_content(block, generation, self.content, direction, octets);
        if !has_content {
            self.content = 0;
        }
        self.urrs &= slots;
        if !is_of_user || !blocks.uncount(block, generation, self.urrs, direction, octets) {
            self.urrs = 0;
        }
        if self.urrs == 0 && !has_content {
            (self.block, self.generation) = (BlockRef(0), 0);
            self.direction = Direction::Uplink;
        }
    }

    /// Its content, which had counter n at the worker that it comes from, is counted in `contents[n - 1]` from now on.
    pub fn arrive_content(&mut self, contents: &[ContentPlace]) {
        let number = usize::from(self.content);
        let place = number.checked_sub(1).and_then(|place| contents.get(place));
        let place = place.copied().unwrap_or_default();
        (self.content, self.urrs) = (place.number, self.urrs | place.rest);
    }

    /// It counts in this block from now on: where the worker that it comes from had the counter in slot n, that in
    /// `slots[n]`.
    pub fn arrive(&mut self, installed: Installed, slots: &[Option<u8>]) {
        if self.generation == 0 {
            return;
        }
        let counted = slots
            .iter()
            .enumerate()
            .filter(|(slot, _)| self.urrs >> slot & 1 == 1);
        self.urrs = counted.fold(0, |urrs, (_, slot)| {
            urrs | slot.map_or(0, |slot| 1 << (slot & 63))
        });
        (self.block, self.generation) = (installed.block, installed.generation);
    }

    /// Subtracts the counts from the counters of URRs and contents, and from the total of its session's group.
    pub fn credit_back(&self, blocks: &mut Blocks) {
        if let Some((group, direction)) = self.counted_in(blocks) {
            let groups = blocks.groups_mut();
            groups.take_back(group, direction, self.octets.into());
        }
        self.credit_back_waiting(blocks);
    }

    /// The same of a packet that [waits](Self::wait).
    pub fn credit_back_waiting(&self, blocks: &mut Blocks) {
        if !self.is_of_user() {
            return;
        }
        let (direction, octets) = (self.direction, self.octets.into());
        blocks.uncount(self.block, self.generation, self.urrs, direction, octets);
        if self.content != 0 {
            blocks.uncount_content(self.block, self.generation, self.content, direction, octets);
        }
    }
}

/// Subtracts the counts of a packet of the burst that is dropped before it is queued.
#[cold]
pub(crate) fn credit_back(blocks: &mut Blocks, descriptor: &Descriptor) {
    Charge::of(descriptor).credit_back(blocks);
}

/// The records of the packets that were queued last.
pub(crate) struct Charges {
    records: Box<[Record; IN_FLIGHT]>,
    /// The id of the last record; odd, so that it is never [`ChargeId::NONE`].
    last: ChargeId,
    /// Records of packets that were lost and not credited back yet: bit n is record n.
    lost: u128,
}

#[derive(Clone, Copy)]
struct Record {
    id: ChargeId,
    charge: Charge,
}

impl Charges {
    /// No records.
    pub fn new() -> Self {
        let record = Record {
            id: ChargeId::NONE,
            charge: Charge::of(&Descriptor::NEW),
        };
        Self {
            records: Box::new([record; IN_FLIGHT]),
            last: ChargeId(u32::MAX),
            lost: 0,
        }
    }

    /// Records the counts of a packet that is queued. At most [`IN_FLIGHT`] records are made between two calls of
    /// [`credit_back`](Self::credit_back).
    #[inline(always)]
    pub fn record(&mut self, descriptor: &Descriptor) -> ChargeId {
        self.record_charge(Charge::of(descriptor))
    }

    /// The same of a packet that has waited.
    #[inline(always)]
    pub fn record_charge(&mut self, charge: Charge) -> ChargeId {
        self.last = ChargeId(self.last.0.wrapping_add(2));
        let id = self.last;
        debug_assert!(self.lost >> index(id) & 1 == 0, "a lost record is overwritten");
        self.records[index(id)] = Record { id, charge };
        id
    }

    /// Marks the record of a packet that is lost, whole or a fragment of it. An id without a record marks none.
    #[cold]
    pub fn lose(&mut self, id: ChargeId) {
        if id != ChargeId::NONE && self.records[index(id)].id == id {
            self.lost |= 1 << index(id);
        }
    }

    /// Subtracts the counts of marked records, and removes these records.
    #[inline]
    pub fn credit_back(&mut self, blocks: &mut Blocks) {
        if self.lost != 0 {
            self.credit_back_lost(blocks);
        }
    }

    #[cold]
    #[inline(never)]
    fn credit_back_lost(&mut self, blocks: &mut Blocks) {
        while self.lost != 0 {
            let record = &mut self.records[self.lost.trailing_zeros() as usize];
            self.lost &= self.lost - 1;
            record.id = ChargeId::NONE;
            record.charge.credit_back(blocks);
        }
    }
}

#[inline(always)]
fn index(id: ChargeId) -> usize {
    (id.0 >> 1) as usize % IN_FLIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_in_several_fragments_is_lost_once_and_an_old_id_names_nothing() {
        let mut charges = Charges::new();
        let first = charges.record(&Descriptor::NEW);
        for id in [first, first, ChargeId::NONE] {
            charges.lose(id);
        }
        assert_eq!(charges.lost.count_ones(), 1);
        charges.lost = 0;
        let second = charges.record(&Descriptor::NEW);
        let later: Vec<_> = (0..IN_FLIGHT).map(|_| charges.record(&Descriptor::NEW)).collect();
        charges.lose(second);
        assert_eq!(charges.lost, 0, "its record is another packet's");
        later.into_iter().for_each(|id| charges.lose(id));
        assert_eq!(
            charges.lost.count_ones() as usize,
            IN_FLIGHT,
            "no loss is forgotten"
        );
    }
}
