//! Lookup of a burst in stages, so that each packet's memory is on its way while the others are worked on.

use core::hint::select_unpredictable;

use super::cuckoo::PrimaryBucket;
use super::{BURST, FlowTable, Hit, Prepared, Tick};
use crate::{FlowEntry, FlowKey, prefetch};

impl<K: FlowKey> FlowTable<K> {
    /// Finds each key of `keys`, puts off the aging of its flow, and writes its hit or miss to the same place of
    /// `hits`, which must not be shorter (keys beyond its length are left out). `found` is called for each hit, in
    /// order, while the entry is at hand: the place to prefetch what the entry names.
    #[inline]
    pub fn visit_bulk(
        &mut self,
        keys: &[K],
        hits: &mut [Hit],
        now: Tick,
        mut found: impl FnMut(usize, &FlowEntry<K>),
    ) {
        for (pass, (keys, hits)) in keys.chunks(BURST).zip(hits.chunks_mut(BURST)).enumerate() {
            self.visit_burst(keys, hits, now, |place, entry| found(pass * BURST + place, entry));
        }
    }

    /// The first half of [`may_hold`](Self::may_hold): asks for the memory that the second one reads.
    #[inline(always)]
    pub fn foretell(&self, key: &K) -> Prepared {
        let primary = self.primary(key);
        self.summaries.prefetch(primary.bucket);
        Prepared(primary)
    }

    /// Which of at most [`BURST`](Self::BURST) keys may be in the table, bit n for key n: all that are, and a few of
    /// the others, at random (one in thirty in a table that is half full, one in twelve in a full one).
    #[inline(always)]
    pub fn may_hold(&self, keys: &[Prepared]) -> u64 {
        let keys = keys.iter().take(BURST).enumerate();
        keys.fold(0, |held, (number, &Prepared(PrimaryBucket { bucket, tag }))| {
            let other = || self.candidates.other(bucket, tag);
            held | u64::from(self.summaries.may_hold(bucket, other, tag)) << number
        })
    }

    #[inline(always)]
    fn visit_burst(
        &mut self,
        keys: &[K],
        hits: &mut [Hit],
        now: Tick,
        mut found: impl FnMut(usize, &FlowEntry<K>),
    ) {
        let mut primaries = [PrimaryBucket::default(); BURST];
        for (primary, key) in primaries.iter_mut().zip(keys) {
            *primary = self.primary(key);
            prefetch::nth_to_write(&self.buckets, primary.bucket as usize);
        }
        self.probe_burst(&primaries, keys.len(), hits);
        for (place, ((hit, key), primary)) in hits.iter_mut().zip(keys).zip(&primaries).enumerate() {
            match self.entry(*hit) {
                None => {
                    *hit = Hit::MISS;
                    continue;
                }
                Some(entry) if entry.key == *key => {}
                // Another key with the same tag: rare, so the rest of the slots are tried one by one.
                Some(_) => *hit = self.find(key, *primary),
            }
            if let Some(entry) = self.visit(*hit, now) {
                found(place, entry);
            }
        }
    }

    /// Puts the first slot with the right tag into each hit: in the first bucket, else in the other one.
    #[inline]
    fn probe_burst(&self, primaries: &[PrimaryBucket; BURST], len: usize, hits: &mut [Hit]) {
        let mut elsewhere = [0u8; BURST];
        let mut count = 0;
        for (place, (primary, hit)) in primaries.iter().take(len).zip(hits.iter_mut()).enumerate() {
            *hit = self.probe(primary.bucket, primary.tag);
            // Which of the two comes next is hard to predict: no branch here.
            let other = self.candidates.other(primary.bucket, primary.tag);
            let entry = (&*self.entries, hit.entry as usize);
            prefetch::either(hit.is_hit(), entry, (&*self.buckets, other as usize));
            prefetch::nth_second_line(&self.entries, hit.entry as usize);
            elsewhere[count % BURST] = place as u8;
            count += usize::from(!hit.is_hit());
        }
        for &place in &elsewhere[..count.min(BURST)] {
            let primary = primaries[usize::from(place) % BURST];
            if let Some(hit) = hits.get_mut(usize::from(place)) {
                *hit = self.probe(self.candidates.other(primary.bucket, primary.tag), primary.tag);
                prefetch::nth(&self.entries, hit.entry as usize);
                prefetch::nth_second_line(&self.entries, hit.entry as usize);
            }
        }
    }

    #[inline(always)]
    fn probe(&self, bucket: u32, tag: u16) -> Hit {
        let Some(line) = self.buckets.get(bucket as usize) else {
            return Hit::MISS;
        };
        let matches = line.matches(tag);
        let slot = matches.trailing_zeros();
        let entry = select_unpredictable(matches != 0, line.entry(slot as usize), Hit::MISS.entry);
        Hit::new(bucket, slot, entry)
    }
}
