//! Charges and credits: what packets have counted that are on their way out, and its subtraction where they are lost.
//!
//! `apply_rules` counts a packet before it is sent. A packet that waits to be sent carries a [`ChargeId`] in its buffer's
//! metadata, which names the record of what it counted. Code that loses the packet, in the same burst or
//! later, credits it back by that id alone ([`Charges::lose`]).

use flow::{Blocks, Verdict};

use crate::burst::batch::{BURST, Batch};
use crate::burst::descriptor::{Descriptor, Kind};
use crate::io::ChargeId;

/// Packets that can be on their way out at a time: two bursts.
const IN_FLIGHT: usize = 2 * BURST;

/// What a packet has counted.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    verdict: Verdict,
    octets: u16,
    kind: Kind,
}

impl Charge {
    #[inline(always)]
    fn of(descriptor: &Descriptor) -> Self {
        Self {
            verdict: descriptor.verdict,
            octets: descriptor.octets,
            kind: descriptor.kind,
        }
    }

    /// Subtracts it from the counters of URRs and contents.
    fn credit_back(&self, blocks: &mut Blocks) {
        let verdict = &self.verdict;
        if !verdict.is_some() || self.kind == Kind::Relayed {
            return;
        }
        let (direction, octets) = (verdict.direction(), self.octets.into());
        blocks.uncount(verdict.block, verdict.generation, verdict.urrs, direction, octets);
        if verdict.content != 0 {
            let of = (verdict.block, verdict.generation);
            blocks.uncount_content(of.0, of.1, verdict.content, direction, octets);
        }
    }
}

/// Subtracts what a packet of the burst has counted, since it is dropped before it is queued.
#[cold]
pub(crate) fn credit_back(blocks: &mut Blocks, descriptor: &Descriptor) {
    Charge::of(descriptor).credit_back(blocks);
}

/// The records of packets on their way out.
pub(crate) struct Charges {
    records: Box<[Record; IN_FLIGHT]>,
    /// The last one given; odd, so that it is never [`ChargeId::NONE`].
    last: ChargeId,
    lost: Batch<Charge>,
}

#[derive(Clone, Copy)]
struct Record {
    id: ChargeId,
    charge: Charge,
}

impl Charges {
    /// No packets on their way.
    pub fn new() -> Self {
        let record = Record {
            id: ChargeId::NONE,
            charge: Charge::of(&Descriptor::NEW),
        };
        Self {
            records: Box::new([record; IN_FLIGHT]),
            last: ChargeId(u32::MAX),
            lost: Batch::new(),
        }
    }

    /// Records what a packet has counted that is queued to be sent.
    #[inline(always)]
    pub fn record(&mut self, descriptor: &Descriptor) -> ChargeId {
        self.last = ChargeId(self.last.0.wrapping_add(2));
        let id = self.last;
        self.records[place(id)] = Record {
            id,
            charge: Charge::of(descriptor),
        };
        id
    }

    /// The packet with this id, or a fragment of it, is lost.
    #[cold]
    pub fn lose(&mut self, id: ChargeId) {
        let record = &mut self.records[place(id)];
        if id != ChargeId::NONE && record.id == id {
            record.id = ChargeId::NONE;
            let _ = self.lost.push(record.charge);
        }
    }

    /// Credits back what was lost.
    #[inline]
    pub fn credit_back(&mut self, blocks: &mut Blocks) {
        if !self.lost.is_empty() {
            self.lost.drain().for_each(|charge| charge.credit_back(blocks));
        }
    }
}

#[inline(always)]
fn place(id: ChargeId) -> usize {
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
        assert_eq!(charges.lost.len(), 1);
        let second = charges.record(&Descriptor::NEW);
        let later: Vec<_> = (0..IN_FLIGHT).map(|_| charges.record(&Descriptor::NEW)).collect();
        charges.lose(second);
        assert_eq!(charges.lost.len(), 1, "its record is another packet's");
        later.into_iter().take(BURST - 1).for_each(|id| charges.lose(id));
        assert_eq!(charges.lost.len(), BURST);
    }
}
