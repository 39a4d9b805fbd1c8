//! From domains of lists to the table.

use std::io::BufRead;

use foldhash::HashMap;
use foldhash::quality::SeedableRandomState;

use super::categories::{Categories, CategoryId};
use super::faults::{Full, InvalidDomain, LONGEST_TEXT, MOST_DOMAINS, MOST_SETS, NotAdded, NotBuilt};
use super::list::{self, Read, ReadError, ReadLimits};
use super::table::{DomainLists, Kinds, SameTag, Writer, seeded};
use crate::host_name::{HostKind, HostName};
use crate::suffixes::{MOST_LABELS, hash, labels};

/// How many seeds are tried. Two of 2.2 million domains are not distinct under one of them with a probability of 10⁻⁷.
const ATTEMPTS: u64 = 8;

/// A domain of a list.
#[derive(Clone, Copy, Debug)]
struct Listed {
    hash: u64,
    at: u32,
    len: u8,
    category: CategoryId,
}

impl Listed {
    fn name<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let at = self.at as usize;
        text.get(at..at + usize::from(self.len)).unwrap_or_default()
    }
}

/// Takes the domains of lists, and builds a table of them.
///
/// It has 16 octets and the name for each domain of each list, and [`build`](Self::build) adds the table to it: about
/// 120 MiB for 2.2 million domains, for as long as it takes.
#[derive(Debug)]
pub struct DomainListsBuilder {
    seed: u64,
    hasher: SeedableRandomState,
    listed: Vec<Listed>,
    text: Vec<u8>,
    kinds: Kinds,
    digest: u64,
}

impl DomainListsBuilder {
    /// Without domains; hashes are keyed by `seed`, which those that make lists or send packets must not know.
    pub fn new(seed: u64) -> DomainListsBuilder {
        DomainListsBuilder {
            seed,
            hasher: seeded(seed),
            listed: Vec::new(),
            text: Vec::new(),
            kinds: Kinds::default(),
            digest: 0,
        }
    }

    /// Adds that `domain` and all below it are of `category`; if it is an address, it alone is.
    ///
    /// # Errors
    ///
    /// [`NotAdded`], and nothing is added.
    pub fn add(&mut self, category: CategoryId, domain: &HostName) -> Result<(), NotAdded> {
        let name = domain.as_bytes();
        let labels = match domain.kind() {
            HostKind::Name => labels(name),
            HostKind::Ipv4 | HostKind::Ipv6 => 0,
        };
        match labels {
            1 => return Err(NotAdded::Invalid(InvalidDomain::OneLabel)),
            0 | 2..=MOST_LABELS => {}
            _ => return Err(NotAdded::Invalid(InvalidDomain::TooManyLabels)),
        }
        if self.listed.len() >= MOST_DOMAINS {
            return Err(NotAdded::Full(Full::Domains));
        }
        if self.text.len() + name.len() > LONGEST_TEXT {
            return Err(NotAdded::Full(Full::Text));
        }
        match labels {
            0 => self.kinds.has_addresses = true,
            _ => self.kinds.label_counts |= 1 << labels,
        }
        self.listed.push(Listed {
            hash: hash(&self.hasher, name),
            at: self.text.len() as u32,
            len: name.len() as u8,
            category,
        });
        self.text.extend_from_slice(name);
        self.digest = self.digest.wrapping_add(digest_of(category, name));
        Ok(())
    }

    /// Adds the domains that `reader` has a list of as those of `category`.
    ///
    /// A line has a domain, in any case, with or without `.` or `*.` before it, or an address; or, as files of hosts
    /// have it, an unspecified or a loopback address and one or more domains. What follows a `#` is a comment. Lines
    /// that have something else are counted and skipped, and so are those longer than the limit.
    ///
    /// # Errors
    ///
    /// [`ReadError`], and nothing is added.
    pub fn read_list(
        &mut self,
        category: CategoryId,
        reader: impl BufRead,
        limits: ReadLimits,
    ) -> Result<Read, ReadError> {
        let before = (self.listed.len(), self.text.len(), self.kinds, self.digest);
        let read = list::read(reader, limits, |domain| self.add(category, domain));
        if read.is_err() {
            self.listed.truncate(before.0);
            self.text.truncate(before.1);
            (self.kinds, self.digest) = (before.2, before.3);
        }
        read
    }

    /// The domains of the lists so far; one that is on two lists counts twice.
    pub fn domains(&self) -> usize {
        self.listed.len()
    }

    /// The table.
    ///
    /// # Errors
    ///
    /// [`NotBuilt`] if domains have too many different sets of categories, or were made to have one hash.
    pub fn build(mut self) -> Result<DomainLists, NotBuilt> {
        for attempt in 1..=ATTEMPTS {
            match self.attempt()? {
                Ok(lists) => return Ok(lists),
                Err(SameTag) => self.rekey(self.seed.wrapping_add(attempt)),
            }
        }
        Err(NotBuilt::Hashes)
    }

    fn attempt(&mut self) -> Result<Result<DomainLists, SameTag>, NotBuilt> {
        let text = &self.text;
        let name = |listed: &Listed| listed.name(text);
        let is_same = |one: &Listed, other: &Listed| one.hash == other.hash && name(one) == name(other);
        self.listed.sort_unstable_by(|one, other| {
            one.hash.cmp(&other.hash).then_with(|| name(one).cmp(name(other)))
        });

        let domains = self.listed.chunk_by(is_same).count();
        let mut writer = Writer::new(self.hasher.clone(), domains, (self.kinds, self.digest));
        let mut sets = Sets::default();
        for same in self.listed.chunk_by(is_same) {
            let Some(first) = same.first() else { continue };
            let set = sets.index(same.iter().map(|listed| listed.category).collect())?;
            if let Err(same) = writer.push(first.hash, set) {
                return Ok(Err(same));
            }
        }
        Ok(Ok(writer.finish(sets.sets)))
    }

    /// Keys the hashes by another seed.
    fn rekey(&mut self, seed: u64) {
        self.hasher = seeded(seed);
        for listed in &mut self.listed {
            listed.hash = hash(&self.hasher, listed.name(&self.text));
        }
    }
}

/// What a domain of a list adds to the digest of all, whatever seed keys the table.
fn digest_of(category: CategoryId, name: &[u8]) -> u64 {
    hash(&seeded(u64::from(category.number())), name)
}

/// The different sets of categories of domains, in the order in which they came.
#[derive(Default)]
struct Sets {
    sets: Vec<Categories>,
    indices: HashMap<Categories, u16>,
}

impl Sets {
    fn index(&mut self, set: Categories) -> Result<u16, NotBuilt> {
        if let Some(index) = self.indices.get(&set) {
            return Ok(*index);
        }
        if self.sets.len() >= MOST_SETS {
            return Err(NotBuilt::Sets);
        }
        let index = self.sets.len() as u16;
        self.sets.push(set);
        self.indices.insert(set, index);
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_sets_as_an_index_counts() {
        let mut sets = Sets::default();
        for bits in 0..MOST_SETS as u64 {
            assert_eq!(sets.index(Categories::from_bits(bits)), Ok(bits as u16));
        }
        assert_eq!(sets.index(Categories::from_bits(9)), Ok(9));
        assert_eq!(
            sets.index(Categories::from_bits(MOST_SETS as u64)),
            Err(NotBuilt::Sets)
        );
    }

    #[test]
    fn there_is_room_for_a_bounded_number_of_domains_and_octets() {
        let category = CategoryId::new(1).expect("a category");
        let domain = HostName::parse(b"a.example").expect("a name");
        let mut builder = DomainListsBuilder::new(1);
        builder.text = vec![b'a'; LONGEST_TEXT - 9];
        assert_eq!(builder.add(category, &domain), Ok(()));
        assert_eq!(builder.add(category, &domain), Err(NotAdded::Full(Full::Text)));
        builder.text = Vec::new();
        let listed = builder.listed[0];
        builder.listed = vec![listed; MOST_DOMAINS - 1];
        assert_eq!(builder.add(category, &domain), Ok(()));
        assert_eq!(builder.add(category, &domain), Err(NotAdded::Full(Full::Domains)));
    }

    #[test]
    fn domains_of_one_hash_have_another_under_another_seed() {
        let [one, other] = [1, 2].map(|number| CategoryId::new(number).expect("a category"));
        let host = |name: &str| HostName::parse(name.as_bytes()).expect("a name");
        let mut builder = DomainListsBuilder::new(1);
        for (category, name) in [(one, "a.example"), (other, "b.example"), (other, "a.example")] {
            assert_eq!(builder.add(category, &host(name)), Ok(()));
        }
        builder.listed.iter_mut().for_each(|listed| listed.hash = 7);
        let lists = builder.build().expect("lists");
        assert_eq!(
            lists.lookup(&host("a.example")),
            Categories::from_iter([one, other])
        );
        assert_eq!(lists.lookup(&host("b.example")), other.into());
        assert_eq!(lists.domains(), 2);
    }
}
