//! Domain lists from any text: reads keep to their limits, a list that is refused adds nothing, and each line that is a
//! domain is found, and so is what is below it.

use std::io::BufReader;

use dpi::domain_lists::{
    Categories, CategoryId, DomainLists, DomainListsBuilder, MOST_BAD_LINES, MOST_LABELS, ReadLimits,
};
use dpi::{HostKind, HostName};

/// What ends a list in the input.
const FORM_FEED: u8 = 12;

/// Reads a list: whether it was taken.
fn read(
    builder: &mut DomainListsBuilder,
    category: CategoryId,
    list: &[u8],
    limits: ReadLimits,
    piece: u8,
) -> bool {
    let before = builder.domains();
    let reader = BufReader::with_capacity(1 + usize::from(piece), list);
    match builder.read_list(category, reader, limits) {
        Ok(read) => {
            assert_eq!(builder.domains(), before + read.domains);
            assert!(read.domains <= limits.domains && read.bad_lines <= read.lines);
            assert_eq!(
                read.first_bad_lines.len() as u64,
                read.bad_lines.min(MOST_BAD_LINES as u64)
            );
            true
        }
        Err(error) => {
            assert_eq!(builder.domains(), before);
            assert!(error.line >= 1);
            false
        }
    }
}

/// The lines of a list that are a domain and nothing else.
fn domains(list: &[u8], longest: u16) -> impl Iterator<Item = HostName> {
    let lines = list.split(|octet| *octet == b'\n');
    let short = lines.filter(move |line| line.len() <= usize::from(longest));
    short.filter_map(|line| {
        let host = HostName::parse(line).ok()?;
        let labels = host.as_bytes().split(|octet| *octet == b'.').count();
        (host.kind() != HostKind::Name || (2..=MOST_LABELS).contains(&labels)).then_some(host)
    })
}

fn find(lists: &DomainLists, domain: &HostName, category: CategoryId) {
    assert!(lists.lookup(domain).contains(category), "{domain}");
    if domain.kind() == HostKind::Name
        && let Ok(below) = HostName::parse(&[b"a.", domain.as_bytes()].concat())
    {
        assert!(lists.lookup(&below).contains(category), "{below}");
    }
}

/// See the module. The first octets are the seed, the longest line, the most domains, and in which pieces the text is
/// read; a form feed ends a list.
pub fn run(input: &[u8]) {
    let Some(([seed, longest, domains_most, piece], text)) = input.split_first_chunk() else {
        return;
    };
    let limits = ReadLimits {
        longest_line: u16::from(*longest),
        domains: usize::from(*domains_most),
        octets: 2_048,
    };
    let mut builder = DomainListsBuilder::new(u64::from(*seed));
    let lists = text.split(|octet| *octet == FORM_FEED).take(CategoryId::COUNT);
    let numbered = lists.zip((0..).filter_map(CategoryId::new));
    let taken: Vec<_> = numbered
        .filter(|(list, category)| read(&mut builder, *category, list, limits, *piece))
        .collect();
    let lists = builder.build().expect("sets are no more than domains");
    for (list, category) in taken {
        domains(list, limits.longest_line).for_each(|domain| find(&lists, &domain, category));
    }
    for word in text.split(|octet| octet.is_ascii_whitespace()) {
        if let Ok(host) = HostName::parse(word) {
            let found = lists.lookup(&host);
            assert!(found == Categories::NONE || lists.domains() > 0);
        }
    }
}
