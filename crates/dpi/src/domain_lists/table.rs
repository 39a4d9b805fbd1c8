//! The table of domains, and lookups in it.

use core::fmt;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use super::categories::Categories;
use crate::host_name::{HostKind, HostName};
use crate::suffixes::{MOST_LABELS, hash, suffixes};

/// The most domains of a bucket.
const SLOTS: usize = 8;
/// Domains of a bucket in the mean. At 5 a bucket in seven is full; at 6 it is one in three, for 4 MiB less in 2.2
/// million domains.
const MEAN: usize = 5;
/// Bits of an entry that are the index of its set.
const SET_BITS: u32 = u16::BITS;

/// What the table has of a domain: the low 48 bits of its hash, then the index of its set. One without a domain is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const NONE: Entry = Entry(0);

    fn new(hash: u64, set: u16) -> Entry {
        Entry(tag(hash) | u64::from(set))
    }

    fn set(self) -> usize {
        usize::from(self.0 as u16)
    }
}

/// Of a hash, what an entry has: never 0.
fn tag(hash: u64) -> u64 {
    (hash << SET_BITS).max(1 << SET_BITS)
}

/// Domains with neighbouring hashes, one cache line. Entries are used from the first. If all are, the next bucket may
/// have more.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
struct Bucket([Entry; SLOTS]);

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    fn is_full(&self) -> bool {
        self.0[SLOTS - 1] != Entry::NONE
    }

    /// Takes an entry, unless it is full.
    fn push(&mut self, entry: Entry) {
        if let Some(slot) = self.0.iter_mut().find(|slot| **slot == Entry::NONE) {
            *slot = entry;
        }
    }

    /// The entry with this tag, or [`Entry::NONE`]. Without a branch, so that the processor continues with the next
    /// bucket before this one is there.
    #[inline]
    fn entry(&self, tag: u64) -> Entry {
        let same = |entry: &Entry| (entry.0 ^ tag) >> SET_BITS == 0;
        let all = self.0.iter().map(|entry| if same(entry) { entry.0 } else { 0 });
        Entry(all.fold(0, |found, entry| found | entry))
    }
}

/// The domains of all lists, compiled.
pub struct DomainLists {
    hasher: SeedableRandomState,
    /// Those that hashes lead to, and as many more as the last of them are full.
    buckets: Box<[Bucket]>,
    /// How many hashes lead to.
    homes: u64,
    sets: Box<[Categories]>,
    domains: usize,
    kinds: Kinds,
    digest: u64,
}

/// Which kinds of domains are listed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    /// Bit `n` of it: whether a name of `n` labels is.
    pub(super) label_counts: u32,
    pub(super) has_addresses: bool,
}

impl DomainLists {
    /// Lists without domains.
    pub fn empty() -> DomainLists {
        Writer::new(seeded(0), 0, (Kinds::default(), 0)).finish(Vec::new())
    }

    /// Domains of the table. One that is on several lists is one.
    pub fn domains(&self) -> usize {
        self.domains
    }

    /// Whether both are of the same lists: whether the domains that were added have the same digest of 64 bits.
    pub fn say_the_same_as(&self, other: &DomainLists) -> bool {
        (self.digest, self.domains) == (other.digest, other.domains)
    }

    /// Memory of the table, octets.
    pub fn octets(&self) -> usize {
        size_of::<DomainLists>() + size_of_val(&*self.buckets) + size_of_val(&*self.sets)
    }

    /// The categories that `host` is of: those of itself, and of all domains that it is below.
    ///
    /// It allocates nothing, and looks up at most [`MOST_LABELS`] suffixes.
    pub fn lookup(&self, host: &HostName) -> Categories {
        let name = host.as_bytes();
        let mut hashes = [0; MOST_LABELS];
        let mut count = 0;
        let mut ask = |from: usize| {
            if let (Some(slot), Some(suffix)) = (hashes.get_mut(count), name.get(from..)) {
                *slot = hash(&self.hasher, suffix);
                count += 1;
            }
        };
        match host.kind() {
            HostKind::Name => suffixes(name)
                .filter(|(_, labels)| self.kinds.label_counts >> labels & 1 != 0)
                .for_each(|(from, _)| ask(from)),
            HostKind::Ipv4 | HostKind::Ipv6 if self.kinds.has_addresses => ask(0),
            HostKind::Ipv4 | HostKind::Ipv6 => {}
        }
        let hashes = hashes.get(..count).unwrap_or_default();
        let mut found = [(Entry::NONE, false); MOST_LABELS];
        for (found, hash) in found.iter_mut().zip(hashes) {
            if let Some(bucket) = self.buckets.get(home(*hash, self.homes)) {
                *found = (bucket.entry(tag(*hash)), bucket.is_full());
            }
        }
        let mut categories = Categories::NONE;
        for ((entry, is_full), hash) in found.iter().zip(hashes) {
            let entry = match (*entry, is_full) {
                (Entry::NONE, true) => self.behind(*hash),
                (entry, _) => entry,
            };
            if entry != Entry::NONE {
                categories |= self.sets.get(entry.set()).copied().unwrap_or_default();
            }
        }
        categories
    }

    /// The entry of a domain in the buckets behind its own, which is full.
    fn behind(&self, hash: u64) -> Entry {
        let buckets = self.buckets.get(home(hash, self.homes) + 1..).unwrap_or_default();
        for bucket in buckets {
            let entry = bucket.entry(tag(hash));
            if entry != Entry::NONE || !bucket.is_full() {
                return entry;
            }
        }
        Entry::NONE
    }
}

impl fmt::Debug for DomainLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainLists")
            .field("domains", &self.domains)
            .field("sets", &self.sets.len())
            .field("octets", &self.octets())
            .finish_non_exhaustive()
    }
}

/// Two domains are not distinct under this seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SameTag;

/// Makes a table of domains that come in the order of their hashes.
pub(super) struct Writer {
    lists: DomainLists,
    buckets: Vec<Bucket>,
}

impl Writer {
    /// For as many `domains`, of these kinds and with this digest.
    pub(super) fn new(hasher: SeedableRandomState, domains: usize, (kinds, digest): (Kinds, u64)) -> Writer {
        let homes = domains.div_ceil(MEAN);
        Writer {
            lists: DomainLists {
                hasher,
                buckets: Box::default(),
                homes: homes as u64,
                sets: Box::default(),
                domains: 0,
                kinds,
                digest,
            },
            buckets: Vec::with_capacity(homes + 1),
        }
    }

    /// Writes a domain, which has the set of index `set`.
    ///
    /// # Errors
    ///
    /// [`SameTag`] if a lookup of it could find another.
    pub(super) fn push(&mut self, hash: u64, set: u16) -> Result<(), SameTag> {
        let home = home(hash, self.lists.homes);
        let on_the_way = self.buckets.get(home..).unwrap_or_default();
        if on_the_way
            .iter()
            .any(|bucket| bucket.entry(tag(hash)) != Entry::NONE)
        {
            return Err(SameTag);
        }
        if self.buckets.len() <= home {
            self.buckets.resize(home + 1, Bucket::default());
        }
        if self.buckets.last().is_none_or(Bucket::is_full) {
            self.buckets.push(Bucket::default());
        }
        if let Some(bucket) = self.buckets.last_mut() {
            bucket.push(Entry::new(hash, set));
            self.lists.domains += 1;
        }
        Ok(())
    }

    /// The table, with the sets that indices are of.
    pub(super) fn finish(self, sets: Vec<Categories>) -> DomainLists {
        DomainLists {
            buckets: self.buckets.into(),
            sets: sets.into(),
            ..self.lists
        }
    }
}

/// The bucket of a hash: from its high bits, so that the order of hashes is that of buckets.
fn home(hash: u64, homes: u64) -> usize {
    ((u128::from(hash) * u128::from(homes)) >> 64) as usize
}

pub(super) fn seeded(seed: u64) -> SeedableRandomState {
    SeedableRandomState::with_seed(seed, SharedSeed::global_fixed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The set that an entry of this hash has.
    fn found(lists: &DomainLists, hash: u64) -> Option<usize> {
        let entry = match lists.buckets[home(hash, lists.homes)].entry(tag(hash)) {
            Entry::NONE => lists.behind(hash),
            entry => entry,
        };
        (entry != Entry::NONE).then(|| entry.set())
    }

    #[test]
    fn what_a_full_bucket_cannot_take_is_in_the_next() {
        let mut writer = Writer::new(seeded(1), 3 * MEAN, (Kinds::default(), 0));
        let hashes = (0..2 * SLOTS as u64 + 3).chain([u64::MAX - 1, u64::MAX]);
        for (nth, hash) in hashes.clone().enumerate().skip(2) {
            assert_eq!(writer.push(hash, nth as u16), Ok(()));
        }
        let lists = writer.finish(Vec::new());
        assert_eq!((lists.buckets.len(), lists.domains()), (3, 2 * SLOTS + 3));
        for (nth, hash) in hashes.enumerate() {
            assert_eq!(found(&lists, hash), (nth >= 2).then_some(nth));
        }
        assert_eq!(found(&lists, 2 * SLOTS as u64 + 3), None);
        assert_eq!(found(&lists, u64::MAX - 2), None);
    }

    #[test]
    fn the_last_bucket_may_be_behind_those_of_hashes() {
        let mut writer = Writer::new(seeded(1), MEAN, (Kinds::default(), 0));
        for nth in 0..2 * SLOTS as u64 {
            assert_eq!(writer.push(nth + 1, nth as u16), Ok(()));
        }
        let lists = writer.finish(Vec::new());
        assert_eq!(lists.buckets.len(), 2);
        assert!((0..2 * SLOTS).all(|nth| found(&lists, nth as u64 + 1) == Some(nth)));
        assert_eq!(found(&lists, 100), None);
    }

    #[test]
    fn domains_that_a_lookup_confuses_are_refused() {
        let mut writer = Writer::new(seeded(1), MEAN, (Kinds::default(), 0));
        assert_eq!(writer.push(0, 0), Ok(()));
        // No entry has a tag of 0.
        assert_eq!(writer.push(1, 0), Err(SameTag));
        // The same in the low bits.
        assert_eq!(writer.push(2 << 48 | 7, 0), Ok(()));
        assert_eq!(writer.push(3 << 48 | 7, 0), Err(SameTag));
    }

    /// The probability of a false match that the module states needs bits that are even and independent.
    #[test]
    fn pairs_of_names_share_bits_as_seldom_as_those_drawn_at_random() {
        const NAMES: usize = 300_000;
        let hasher = seeded(3);
        let hashes: Vec<u64> = (0..NAMES)
            .map(|number| hash(&hasher, format!("site-{number}.example").as_bytes()))
            .collect();
        for shift in [0, 16, 32] {
            let mut bits: Vec<u32> = hashes.iter().map(|hash| (hash >> shift) as u32).collect();
            bits.sort_unstable();
            let pairs = bits.windows(2).filter(|pair| pair[0] == pair[1]).count();
            // 10.5 in the mean.
            assert!((2..25).contains(&pairs), "{pairs} pairs from bit {shift}");
        }
    }
}
