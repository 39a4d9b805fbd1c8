//! Domain lists: which categories of content a host is of, by lists of millions of domains.
//!
//! A list has the domains of one category, one on a line ([`DomainListsBuilder::read_list`] has the form). A domain
//! stands for itself and all below it; an address for itself alone. A host is of the categories of all of its suffixes
//! that are listed.
//!
//! [`DomainListsBuilder`] takes domains, [`DomainLists`] is what workers look up in: immutable, so that one table in an
//! `Arc` is for all workers and sessions, and another takes its place while they run. A profile is a set of categories
//! ([`Categories`]), which is a number: a session has its own without a table of its own.
//!
//! # The table
//!
//! It has no names, but 64 bits for each domain: 48 of its keyed hash, and the index of its set of categories. Eight
//! of them are a bucket, which is a cache line. A hash leads to a bucket by its high bits; a bucket has 5 domains in
//! the mean, and the next takes what a full one cannot (one in seven is full). A lookup hashes all suffixes in
//! question, and reads their buckets without a branch between them, so that the processor waits for all of them
//! together: once, as a rule. Suffixes of as many labels as no listed domain has are not in question.
//!
//! A domain that is listed is always found, with just its categories: no two are taken for each other, for
//! [`DomainListsBuilder::build`] takes another key where they would be. A suffix that is not listed is found all the
//! same with a probability of 2·10⁻¹⁴ (6 entries of 2⁻⁴⁸), so a host of four labels with less than 10⁻¹³. Of all
//! domains that are registered in the world, 4·10⁸, one is taken for another with a probability of 10⁻⁵.
//!
//! A table that keeps names and compares them was measured, too: it takes 52 MiB rather than 27 for 2.2 million
//! domains, and a host that is listed waits for memory twice, which takes twice as long.
//! `examples/domain_lists_bench.rs` measures.
//!
//! ```
//! use dpi::HostName;
//! use dpi::domain_lists::{Categories, CategoryId, DomainListsBuilder, ReadLimits};
//!
//! let [adult, gambling, news] = [0, 1, 2].map(|number| CategoryId::new(number).unwrap());
//! let mut builder = DomainListsBuilder::new(0x5eed);
//! let read = builder.read_list(gambling, &b"# casinos\ncasino.example\n"[..], ReadLimits::default()).unwrap();
//! assert_eq!((read.domains, read.bad_lines), (1, 0));
//! let lists = builder.build().unwrap();
//!
//! let host = HostName::parse(b"www.casino.example").unwrap();
//! let refused = Categories::from_iter([adult, gambling]);
//! assert!(lists.lookup(&host).contains_any(refused));
//! assert!(!lists.lookup(&host).contains(news));
//! ```

mod builder;
mod categories;
mod faults;
mod list;
mod table;

pub use builder::DomainListsBuilder;
pub use categories::{Categories, CategoryId};
pub use faults::{Full, InvalidDomain, LONGEST_TEXT, MOST_DOMAINS, MOST_SETS, NotAdded, NotBuilt};
pub use list::{BadLine, InvalidLine, MOST_BAD_LINES, Read, ReadError, ReadFault, ReadLimits};
pub use table::DomainLists;

pub use crate::suffixes::MOST_LABELS;
