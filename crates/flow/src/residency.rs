//! `Residency`: in pages of which size, and on which NUMA nodes, the kernel has put memory of this process.
//!
//! Read from `/proc/self/smaps` and `/proc/self/numa_maps`, which a process may read of itself without a privilege;
//! `move_pages(2)` and `get_mempolicy(2)` are denied in most containers. Reading takes milliseconds: for the start and
//! for views, not for the packet path.

use core::fmt;
use core::ops::Range;
use std::collections::{BTreeMap, HashMap};

/// Octets of a transparent huge page on the machines in use.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Where memory is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Octets of the areas asked about.
    pub octets: usize,
    /// Resident octets by the size of their pages, in octets.
    pub pages: BTreeMap<usize, usize>,
    /// Resident octets by NUMA node. Empty where the kernel was built without NUMA.
    pub nodes: BTreeMap<u16, usize>,
}

impl Residency {
    /// Octets in huge pages.
    #[must_use]
    pub fn huge(&self) -> usize {
        self.pages.range(HUGE_PAGE..).map(|(_, octets)| octets).sum()
    }

    /// Octets on other NUMA nodes than `node`.
    #[must_use]
    pub fn off_node(&self, node: u16) -> usize {
        let others = self.nodes.iter().filter(|(other, _)| **other != node);
        others.map(|(_, octets)| octets).sum()
    }

    /// The sizes of the pages with their shares, as "2 MiB", or "2 MiB 97%, 4 KiB 3%".
    #[must_use]
    pub fn pages_text(&self) -> String {
        let all: usize = self.pages.values().sum();
        let shares = self.pages.iter().rev().map(|(page, octets)| {
            let size = match page {
                0..0x10_0000 => format!("{} KiB", page >> 10),
                0x10_0000..0x4000_0000 => format!("{} MiB", page >> 20),
                _ => format!("{} GiB", page >> 30),
            };
            match self.pages.len() {
                1 => size,
                _ => format!("{size} {}%", octets * 100 / all.max(1)),
            }
        });
        listed(shares, "none")
    }

    /// The NUMA nodes with their shares, as "0", or "0 60%, 1 40%".
    #[must_use]
    pub fn nodes_text(&self) -> String {
        let all: usize = self.nodes.values().sum();
        let shares = self.nodes.iter().map(|(node, octets)| match self.nodes.len() {
            1 => node.to_string(),
            _ => format!("{node} {}%", octets * 100 / all.max(1)),
        });
        listed(shares, "unknown")
    }
}

fn listed(parts: impl Iterator<Item = String>, none: &str) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        none.to_owned()
    } else {
        parts.join(", ")
    }
}

impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.octets as f64 / f64::from(1 << 20);
        write!(
            f,
            "{mib:.1} MiB, pages {}, NUMA node {}",
            self.pages_text(),
            self.nodes_text()
        )
    }
}

/// The mappings of a process.
#[derive(Clone, Debug, Default)]
pub struct Mappings(Vec<Mapping>);

/// One mapping, as smaps and numa_maps describe it.
#[derive(Clone, Debug, Default)]
struct Mapping {
    addresses: Range<usize>,
    /// Octets of its ordinary pages (`KernelPageSize`).
    page: usize,
    /// Octets resident in ordinary pages and in transparent huge pages (`Rss`), without those of hugetlbfs.
    resident: usize,
    /// Octets in transparent huge pages (`AnonHugePages`).
    transparent: usize,
    /// Octets in pages of hugetlbfs, whose size is `page`.
    hugetlb: usize,
    /// Octets by NUMA node.
    nodes: Vec<NodeOctets>,
}

/// Resident octets on a NUMA node.
#[derive(Clone, Copy, Debug)]
struct NodeOctets {
    node: u16,
    octets: usize,
}

impl Mappings {
    /// Those of this process, now. Empty where the kernel does not list them.
    #[must_use]
    pub fn read() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/smaps"), &read("/proc/self/numa_maps"))
    }

    /// From the text of smaps and of numa_maps; the latter is empty where the kernel has no NUMA.
    #[must_use]
    pub fn parse(smaps: &str, numa_maps: &str) -> Self {
        let nodes: HashMap<usize, Vec<NodeOctets>> = numa_maps.lines().filter_map(nodes_of).collect();
        let mut mappings: Vec<Mapping> = Vec::new();
        for line in smaps.lines() {
            if let Some(addresses) = addresses_of(line) {
                mappings.push(Mapping {
                    nodes: nodes.get(&addresses.start).cloned().unwrap_or_default(),
                    addresses,
                    ..Mapping::default()
                });
            } else if let (Some(mapping), Some((name, octets))) = (mappings.last_mut(), figure_of(line)) {
                match name {
                    "KernelPageSize" => mapping.page = octets,
                    "Rss" => mapping.resident = octets,
                    "AnonHugePages" => mapping.transparent = octets,
                    "Private_Hugetlb" | "Shared_Hugetlb" => mapping.hugetlb += octets,
                    _ => {}
                }
            }
        }
        Self(mappings)
    }

    /// Where the memory of these areas is. Of a mapping of which an area is a part, the same part of its figures.
    #[must_use]
    pub fn residency(&self, areas: &[Range<usize>]) -> Residency {
        let mut found = Residency::default();
        for area in areas {
            found.octets += area.len();
            for mapping in &self.0 {
                mapping.add_to(&mut found, area);
            }
        }
        found
    }
}

impl Mapping {
    fn add_to(&self, found: &mut Residency, area: &Range<usize>) {
        let (start, end) = (
            area.start.max(self.addresses.start),
            area.end.min(self.addresses.end),
        );
        if start >= end {
            return;
        }
        let part =
            |octets: usize| (octets as u128 * (end - start) as u128 / self.addresses.len() as u128) as usize;
        let small = self.resident.saturating_sub(self.transparent);
        let by_page = [
            (self.page, part(small + self.hugetlb)),
            (HUGE_PAGE, part(self.transparent)),
        ];
        for (page, octets) in by_page.into_iter().filter(|(_, octets)| *octets > 0) {
            *found.pages.entry(page).or_default() += octets;
        }
        for &NodeOctets { node, octets } in &self.nodes {
            *found.nodes.entry(node).or_default() += part(octets);
        }
    }
}

/// The addresses of the mapping that `line` of smaps heads; `None` for the lines of its figures.
fn addresses_of(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

/// A figure of smaps in octets: `AnonHugePages:      2048 kB`.
fn figure_of(line: &str) -> Option<(&str, usize)> {
    let (name, value) = line.split_once(':')?;
    let kib: usize = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some((name, kib * 1024))
}

/// The start of the mapping that a line of numa_maps is about, and its octets by node: `N0=12` are 12 pages of
/// `kernelpagesize_kB` on node 0.
fn nodes_of(line: &str) -> Option<(usize, Vec<NodeOctets>)> {
    let start = usize::from_str_radix(line.split(' ').next()?, 16).ok()?;
    let words = || line.split_ascii_whitespace().skip(1);
    let page = words().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse().ok());
    let page: usize = page.unwrap_or(4) * 1024;
    let node = |word: &str| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some(NodeOctets {
            node: node.parse().ok()?,
            octets: pages.parse::<usize>().ok()? * page,
        })
    };
    Some((start, words().filter_map(node).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a machine with two nodes: a table in transparent huge pages on node 1, one that is half on each node and has
    /// both sizes of pages, packet buffers in hugetlbfs on node 1, and a file.
    const SMAPS: &str = "\
55d0c8a00000-55d0c8a42000 r--p 00000000 fd:01 1312 /usr/bin/sluice
Size:                264 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                 264 kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me sd
7f2a40000000-7f2a48000000 rw-p 00000000 00:00 0 
Size:             131072 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:              131072 kB
AnonHugePages:    131072 kB
ShmemPmdMapped:        0 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw me ac nr sd hg
7f2a50000000-7f2a50400000 rw-p 00000000 00:00 0 
KernelPageSize:        4 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
7f2a80000000-7f2a80800000 rw-s 00000000 00:0f 9021 /dev/hugepages/rtemap_0
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
Rss:                   0 kB
AnonHugePages:         0 kB
Shared_Hugetlb:     8192 kB
Private_Hugetlb:       0 kB
";

    const NUMA_MAPS: &str = "\
55d0c8a00000 default file=/usr/bin/sluice mapped=66 mapmax=2 N0=66 kernelpagesize_kB=4
7f2a40000000 default anon=32768 dirty=32768 active=0 N1=32768 kernelpagesize_kB=4
7f2a50000000 default anon=1024 dirty=1024 N0=512 N1=512 kernelpagesize_kB=4
7f2a80000000 default file=/dev/hugepages/rtemap_0 huge dirty=4 N1=4 kernelpagesize_kB=2048
";

    const MIB: usize = 1 << 20;

    fn residency(area: Range<usize>) -> Residency {
        Mappings::parse(SMAPS, NUMA_MAPS).residency(&[area])
    }

    #[test]
    fn a_table_in_huge_pages_is_on_its_node() {
        let found = residency(0x7f2a_4000_0000..0x7f2a_4800_0000);
        assert_eq!(found.octets, 128 * MIB);
        assert_eq!(found.pages, BTreeMap::from([(2 * MIB, 128 * MIB)]));
        assert_eq!(found.nodes, BTreeMap::from([(1, 128 * MIB)]));
        assert_eq!((found.off_node(1), found.off_node(0)), (0, 128 * MIB));
        assert_eq!(found.to_string(), "128.0 MiB, pages 2 MiB, NUMA node 1");
    }

    #[test]
    fn shares_of_pages_and_nodes_are_distinguished() {
        let found = residency(0x7f2a_5000_0000..0x7f2a_5040_0000);
        assert_eq!(found.pages, BTreeMap::from([(4096, 2 * MIB), (2 * MIB, 2 * MIB)]));
        assert_eq!(found.nodes, BTreeMap::from([(0, 2 * MIB), (1, 2 * MIB)]));
        assert_eq!(
            found.to_string(),
            "4.0 MiB, pages 2 MiB 50%, 4 KiB 50%, NUMA node 0 50%, 1 50%"
        );
    }

    #[test]
    fn pages_of_hugetlbfs_count_in_their_own_size() {
        let found = residency(0x7f2a_8000_0000..0x7f2a_8040_0000);
        assert_eq!(
            found.pages,
            BTreeMap::from([(2 * MIB, 4 * MIB)]),
            "half of the mapping"
        );
        assert_eq!(found.nodes, BTreeMap::from([(1, 4 * MIB)]));
        assert_eq!(found.huge(), 4 * MIB);
    }

    #[test]
    fn areas_add_up_and_other_mappings_do_not_count() {
        let areas = [
            0x7f2a_4000_0000..0x7f2a_4800_0000,
            0x7f2a_8000_0000..0x7f2a_8080_0000,
        ];
        let found = Mappings::parse(SMAPS, NUMA_MAPS).residency(&areas);
        assert_eq!((found.octets, found.huge()), (136 * MIB, 136 * MIB));
        assert_eq!(found.nodes, BTreeMap::from([(1, 136 * MIB)]));
        assert_eq!(residency(0..4096).pages, BTreeMap::new());
    }

    #[test]
    fn a_kernel_without_numa_says_pages_alone() {
        let areas = [0x7f2a_4000_0000..0x7f2a_4800_0000, 0..0];
        let found = Mappings::parse(SMAPS, "").residency(&areas);
        assert_eq!(found.to_string(), "128.0 MiB, pages 2 MiB, NUMA node unknown");
        let nothing = Mappings::parse("", "").residency(&areas);
        assert_eq!(nothing.to_string(), "128.0 MiB, pages none, NUMA node unknown");
    }
}
