//! What lists of 2.2 million domains cost: the time to build them, their memory, and ns for each lookup on one core,
//! the median of several runs. Beside them a map of the standard library with the same domains.
//!
//! `cargo run --release -p dpi --example domain_lists_bench`

use std::collections::HashMap;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use dpi::HostName;
use dpi::domain_lists::{Categories, CategoryId, DomainLists, DomainListsBuilder, ReadLimits};

const DOMAINS: usize = 2_200_000;
const CATEGORIES: usize = 60;
const RUNS: usize = 41;
/// More than the caches of a core and its share of the last level.
const CACHES: usize = 256 << 20;
/// Lookups of a run over the whole table.
const WHOLE: usize = 4_096;
/// Lookups of a run after which caches are written over.
const COLD: usize = 64;
/// Those of them that do not wait for each other.
const BATCH: usize = 32;
const HOT: usize = 20_000;
const MIB: f64 = (1 << 20) as f64;

/// Numbers that are drawn from a seed (xorshift64*).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(drawn) * bound as u128) >> 64) as usize
    }

    /// A domain as lists have them: the second label of 6 to 18 letters, one in six with a third.
    fn domain(&mut self) -> String {
        const ENDS: [&str; 12] = [
            "com", "com", "com", "com", "com", "net", "org", "ru", "de", "info", "co.uk", "com.br",
        ];
        let mut domain = String::new();
        if self.below(6) == 0 {
            let len = 2 + self.below(6);
            self.letters(&mut domain, len);
            domain.push('.');
        }
        let len = 6 + self.below(7) + self.below(7);
        self.letters(&mut domain, len);
        domain.push('.');
        domain.push_str(ENDS[self.below(ENDS.len())]);
        domain
    }

    fn letters(&mut self, to: &mut String, len: usize) {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        to.extend((0..len).map(|_| char::from(LETTERS[self.below(LETTERS.len())])));
    }
}

fn host(name: &str) -> HostName {
    HostName::parse(name.as_bytes()).expect("a name")
}

/// The lists' text, one for each category, most domains in a few of them; one domain in twenty is on two lists.
fn texts(draw: &mut Draw, domains: &[String]) -> Vec<Vec<u8>> {
    let mut texts = vec![Vec::new(); CATEGORIES];
    let category = |draw: &mut Draw| {
        let most = draw.below(CATEGORIES);
        draw.below(1 + most)
    };
    for domain in domains {
        let (first, second) = (category(draw), draw.below(20) == 0);
        writeln!(texts[first], "{domain}").expect("memory");
        if second {
            writeln!(texts[category(draw)], "{domain}").expect("memory");
        }
    }
    texts
}

fn build(texts: &[Vec<u8>]) -> DomainLists {
    let mut builder = DomainListsBuilder::new(0x5eed);
    let start = Instant::now();
    for (number, text) in texts.iter().enumerate() {
        let category = CategoryId::new(number as u8).expect("a category");
        let read = builder
            .read_list(category, &text[..], ReadLimits::default())
            .expect("a list");
        assert_eq!(read.bad_lines, 0);
    }
    let read = start.elapsed();
    let start = Instant::now();
    let lists = builder.build().expect("lists");
    print("read of the lists", read.as_secs_f64() * 1e3, "ms");
    print("build of the table", start.elapsed().as_secs_f64() * 1e3, "ms");
    lists
}

/// The same domains in a map, as one would write it first.
struct Plain(HashMap<Box<[u8]>, u64>);

impl Plain {
    fn of(texts: &[Vec<u8>]) -> Plain {
        let start = Instant::now();
        let mut map = HashMap::new();
        for (number, text) in texts.iter().enumerate() {
            let lines = text
                .split(|octet| *octet == b'\n')
                .filter(|line| !line.is_empty());
            lines.for_each(|line| *map.entry(line.into()).or_insert(0) |= 1 << number);
        }
        print("build of the map", start.elapsed().as_secs_f64() * 1e3, "ms");
        Plain(map)
    }

    /// What it takes: slots and control octets, and each name in a piece of memory of its own, of 16 octets' multiples
    /// less the 8 before it.
    fn octets(&self) -> usize {
        let slots = (self.0.capacity() * 8 / 7).next_power_of_two();
        let names = self
            .0
            .keys()
            .map(|name| (name.len() + 8).next_multiple_of(16).max(32));
        slots * (size_of::<(Box<[u8]>, u64)>() + 1) + names.sum::<usize>()
    }

    fn lookup(&self, host: &HostName) -> Categories {
        let name = host.as_bytes();
        let dots = name.iter().enumerate().filter(|(_, octet)| **octet == b'.');
        let starts = std::iter::once(0).chain(dots.map(|(at, _)| at + 1));
        let found = starts.filter_map(|start| self.0.get(&name[start..]));
        Categories::from_bits(found.fold(0, |all, categories| all | categories))
    }
}

fn print(what: &str, value: f64, unit: &str) {
    println!("{what:<50} {value:>10.1} {unit}");
}

/// The time of one of a run's `operations`: that of the median of the runs, and what nine in ten runs take at most.
fn measure(what: &str, operations: usize, mut run: impl FnMut(usize) -> Duration) {
    let mut times: Vec<_> = (0..RUNS).map(&mut run).collect();
    times.sort();
    let ns = |time: Duration| time.as_nanos() as f64 / operations as f64;
    let (median, most) = (ns(times[RUNS / 2]), ns(times[RUNS * 9 / 10]));
    println!("{what:<50} {median:>8.0} {most:>8.0} ns");
}

/// Brings hosts to the caches, as the packets that name them have.
fn touch(hosts: &[HostName]) {
    let octets = hosts.iter().flat_map(HostName::as_bytes);
    black_box(octets.fold(0, |all, octet| all ^ octet));
}

/// Writes over what caches have.
fn evict(other: &mut [u8]) {
    for octet in other.iter_mut().step_by(64) {
        *octet = octet.wrapping_add(1);
    }
}

/// Lookups, each of which begins when the one before has ended: the next host depends on what was found.
fn one_by_one(hosts: &[HostName], lookup: impl Fn(&HostName) -> Categories) -> Duration {
    let start = Instant::now();
    let mut next = 0;
    for _ in 0..hosts.len() {
        let found = lookup(&hosts[next]);
        next += 1 + usize::from(found.bits() == u64::MAX);
    }
    black_box(next);
    start.elapsed()
}

fn at_once(hosts: &[HostName], lookup: impl Fn(&HostName) -> Categories) -> Duration {
    let mut found = [Categories::NONE; BATCH];
    let start = Instant::now();
    for (found, host) in found.iter_mut().zip(hosts) {
        *found = lookup(host);
    }
    let time = start.elapsed();
    black_box(found);
    time
}

fn lookups(what: &str, hosts: &[HostName], other: &mut [u8], lookup: impl Fn(&HostName) -> Categories) {
    measure(&format!("{what}, hot"), HOT, |_| {
        let start = Instant::now();
        for nth in 0..HOT {
            black_box(lookup(black_box(&hosts[nth % 64])));
        }
        start.elapsed()
    });
    // As much of the table is in caches as they hold.
    measure(&format!("{what}, all over the table"), WHOLE, |run| {
        let hosts = &hosts[run * WHOLE..][..WHOLE];
        touch(hosts);
        one_by_one(hosts, &lookup)
    });
    measure(&format!("{what}, caches written over, one by one"), COLD, |run| {
        evict(other);
        let hosts = &hosts[run * WHOLE..][..COLD];
        touch(hosts);
        one_by_one(hosts, &lookup)
    });
    measure(
        &format!("{what}, caches written over, 32 at once"),
        BATCH,
        |run| {
            evict(other);
            let hosts = &hosts[run * WHOLE + COLD..][..BATCH];
            touch(hosts);
            at_once(hosts, &lookup)
        },
    );
}

/// What one read takes, in memory of `octets`: the least that a lookup takes that finds nothing in caches.
fn reads(octets: usize, other: &mut [u8]) {
    let memory = vec![2u8; octets];
    let one = |count: usize, run: usize| {
        let mut draw = Draw(run as u64 + 1);
        let start = Instant::now();
        let mut last = 0;
        for _ in 0..count {
            last = usize::from(memory[draw.below(octets - 2) + last] & 1);
        }
        black_box(last);
        start.elapsed()
    };
    measure("a read, all over as much memory", WHOLE, |run| one(WHOLE, run));
    measure("a read, caches written over", COLD, |run| {
        evict(other);
        one(COLD, run)
    });
}

fn main() {
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let domains: Vec<String> = (0..DOMAINS).map(|_| draw.domain()).collect();
    let octets: usize = domains.iter().map(String::len).sum();
    print("domains", DOMAINS as f64, "");
    print("a domain in the mean", octets as f64 / DOMAINS as f64, "octets");
    let texts = texts(&mut draw, &domains);
    let (lists, plain) = (build(&texts), Plain::of(&texts));
    assert_eq!(lists.domains(), plain.0.len());
    print("memory of the table", lists.octets() as f64 / MIB, "MiB");
    print("memory of the map", plain.octets() as f64 / MIB, "MiB");

    let count = RUNS * WHOLE;
    let below = |domain: &str| host(&format!("www.{domain}"));
    let listed: Vec<_> = (0..count).map(|_| below(&domains[draw.below(DOMAINS)])).collect();
    let unlisted: Vec<_> = (0..count).map(|_| below(&draw.domain())).collect();
    for host in listed.iter().chain(&unlisted) {
        assert_eq!(lists.lookup(host), plain.lookup(host));
    }

    let mut other = vec![0u8; CACHES];
    println!("\n{:<50} {:>8} {:>8}", "", "median", "9 in 10");
    reads(lists.octets(), &mut other);
    lookups("table, listed", &listed, &mut other, |host| lists.lookup(host));
    lookups("table, unlisted", &unlisted, &mut other, |host| {
        lists.lookup(host)
    });
    lookups("map, listed", &listed, &mut other, |host| plain.lookup(host));
    lookups("map, unlisted", &unlisted, &mut other, |host| plain.lookup(host));
}
