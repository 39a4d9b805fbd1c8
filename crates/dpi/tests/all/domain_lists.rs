//! Lists of domains: that the table gives what a walk up the labels of a host gives, and takes the memory that it may.

use std::collections::BTreeMap;

use dpi::HostName;
use dpi::domain_lists::{
    Categories, CategoryId, DomainLists, DomainListsBuilder, InvalidDomain, MOST_LABELS, NotAdded, ReadLimits,
};
use proptest::prelude::*;

fn host(name: &str) -> HostName {
    HostName::parse(name.as_bytes()).expect("a host")
}

fn category(number: u8) -> CategoryId {
    CategoryId::new(number).expect("a category")
}

fn built(domains: &[(String, u8)], seed: u64) -> DomainLists {
    let mut builder = DomainListsBuilder::new(seed);
    for (domain, number) in domains {
        builder.add(category(*number), &host(domain)).expect("a domain");
    }
    builder.build().expect("lists")
}

/// The sets of all names, and a walk up the labels.
#[derive(Default)]
struct Model(BTreeMap<String, Categories>);

impl Model {
    fn of(domains: &[(String, u8)]) -> Model {
        let mut model = Model::default();
        for (domain, number) in domains {
            *model.0.entry(domain.clone()).or_default() |= category(*number).into();
        }
        model
    }

    fn lookup(&self, host: &str) -> Categories {
        let own = self.0.get(host).copied().unwrap_or_default();
        match host.split_once('.') {
            Some((_, above)) => own | self.lookup(above),
            None => own,
        }
    }
}

fn lists(domains: &[(&str, u8)]) -> DomainLists {
    let owned = |(domain, number): &(&str, u8)| (domain.to_string(), *number);
    built(&domains.iter().map(owned).collect::<Vec<_>>(), 7)
}

fn numbers(lists: &DomainLists, name: &str) -> Vec<u8> {
    lists.lookup(&host(name)).iter().map(CategoryId::number).collect()
}

#[test]
fn a_host_is_of_the_categories_of_all_that_it_is_below() {
    let lists = lists(&[
        ("example.com", 0),
        ("www.example.com", 63),
        ("a.b.www.example.com", 5),
        ("EXAMPLE.com.", 9),
        ("192.0.2.1", 7),
        ("[2001:db8::1]", 8),
    ]);
    assert_eq!(lists.domains(), 5);
    assert_eq!(numbers(&lists, "example.com"), [0, 9]);
    assert_eq!(numbers(&lists, "a.example.com"), [0, 9]);
    assert_eq!(numbers(&lists, "www.example.com"), [0, 9, 63]);
    assert_eq!(numbers(&lists, "b.www.example.com"), [0, 9, 63]);
    assert_eq!(numbers(&lists, "x.a.b.www.example.com"), [0, 5, 9, 63]);
    assert_eq!(numbers(&lists, "com"), []);
    assert_eq!(numbers(&lists, "myexample.com"), []);
    assert_eq!(numbers(&lists, "example.com.example.org"), []);
    assert_eq!(numbers(&lists, "192.0.2.1"), [7]);
    assert_eq!(numbers(&lists, "192.0.2.2"), []);
    assert_eq!(numbers(&lists, "[2001:db8::1]"), [8]);
    assert_eq!(numbers(&lists, "[::ffff:192.0.2.1]"), []);
    assert_eq!(numbers(&DomainLists::empty(), "example.com"), []);
}

#[test]
fn hosts_may_have_more_labels_than_domains_do() {
    let deepest = "a.".repeat(MOST_LABELS - 1) + "example";
    let lists = lists(&[("example.com", 1), (&deepest, 2)]);
    assert_eq!(numbers(&lists, &("a.".repeat(120) + "example.com")), [1]);
    assert_eq!(numbers(&lists, &("a.".repeat(120) + "example")), [2]);
    assert_eq!(numbers(&lists, &deepest[2..]), []);
    let mut builder = DomainListsBuilder::new(1);
    let mut add = |name: &str| builder.add(category(1), &host(name));
    let refused = |why| Err(NotAdded::Invalid(why));
    assert_eq!(
        add(&format!("a.{deepest}")),
        refused(InvalidDomain::TooManyLabels)
    );
    assert_eq!(add("com"), refused(InvalidDomain::OneLabel));
    assert_eq!(add("com."), refused(InvalidDomain::OneLabel));
    assert_eq!(builder.domains(), 0);
}

#[test]
fn a_table_of_many_domains_finds_each_and_nothing_else() {
    const DOMAINS: u64 = 300_000;
    // Each number in the place of another, by a multiplication that can be undone.
    let mixed = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let name = |number: u64| format!("{:x}.example", mixed(number));
    let numbers_of = |number: u64| (number % 61, number.is_multiple_of(10).then_some(number % 7 + 57));
    let mut texts = vec![String::new(); CategoryId::COUNT];
    for number in 0..DOMAINS {
        let (one, other) = numbers_of(number);
        for category in other.into_iter().chain([one]) {
            texts[category as usize] += &(name(number) + "\n");
        }
    }
    let mut builder = DomainListsBuilder::new(11);
    for (number, text) in texts.iter().enumerate() {
        let read = builder.read_list(category(number as u8), text.as_bytes(), ReadLimits::default());
        assert_eq!(read.expect("a list").bad_lines, 0);
    }
    let lists = builder.build().expect("lists");
    assert_eq!(lists.domains(), DOMAINS as usize);
    for number in 0..DOMAINS {
        let (one, other) = numbers_of(number);
        let expected = other
            .into_iter()
            .chain([one])
            .map(|number| category(number as u8));
        let expected = Categories::from_iter(expected);
        assert_eq!(lists.lookup(&host(&name(number))), expected);
        assert_eq!(lists.lookup(&host(&format!("www.{}", name(number)))), expected);
        assert!(lists.lookup(&host(&name(number + DOMAINS))).is_empty());
    }
}

/// What the memory of 2.2 million domains is allowed to be: 64 MiB, which is 30 octets a domain.
#[test]
fn a_domain_takes_thirteen_octets() {
    const DOMAINS: usize = 50_000;
    let domains: Vec<_> = (0..DOMAINS)
        .map(|number| (format!("site-{number}.example"), (number % 64) as u8))
        .collect();
    let lists = built(&domains, 5);
    assert!(lists.octets() < DOMAINS * 13, "{} octets", lists.octets());
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab](\\.[ab]){1,5}",
        1 => "[ab]{1,3}\\.(com|net)",
        1 => "192\\.0\\.2\\.[1-3]",
    ]
}

proptest! {
    #[test]
    fn the_table_gives_what_a_walk_up_the_labels_gives(
        domains in prop::collection::vec((names(), 0u8..64), 0..200),
        hosts in prop::collection::vec(prop_oneof!["[ab](\\.[ab]){0,7}", names()], 1..50),
        seed: u64,
    ) {
        let (lists, model) = (built(&domains, seed), Model::of(&domains));
        prop_assert_eq!(lists.domains(), model.0.len());
        for name in hosts.iter().chain(domains.iter().map(|(domain, _)| domain)) {
            prop_assert_eq!(lists.lookup(&host(name)), model.lookup(name), "{}", name);
        }
    }

    #[test]
    fn a_list_as_text_is_the_list_of_its_domains(
        domains in prop::collection::vec(names(), 0..60),
        forms in prop::collection::vec(0usize..6, 60),
        seed: u64,
    ) {
        let mut builder = DomainListsBuilder::new(seed);
        let line = |(domain, form): (&String, &usize)| match *form {
            0 => format!("{}\r\n", domain.to_uppercase()),
            1 if !domain.starts_with("192") => format!("0.0.0.0 {domain}\n"),
            2 if !domain.starts_with("192") => format!(" .{domain}\n"),
            3 => format!("{domain} # {domain}\n\n"),
            4 => format!("!bad!\n{domain}.\n"),
            _ => format!("{domain}\n"),
        };
        let text: String = domains.iter().zip(&forms).map(line).collect();
        let read = builder.read_list(category(3), text.as_bytes(), ReadLimits::default()).expect("a list");
        prop_assert_eq!(read.domains, domains.len());
        let bad = text.matches("!bad!").count() as u64;
        prop_assert_eq!((read.bad_lines, read.lines), (bad, text.lines().count() as u64));
        let lists = builder.build().expect("lists");
        prop_assert!(domains.iter().all(|domain| lists.lookup(&host(domain)).contains(category(3))));
    }
}
