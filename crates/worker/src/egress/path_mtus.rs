//! The MTUs of paths to GTP-U peers from ICMP messages that Control has validated.
//!
//! No packet is held against them that is shorter than the least of them: adjacencies that tunnels leave by have that
//! for their bound (`transport::Adjacencies::narrow`), and only what is beyond it is looked up here.

use std::net::IpAddr;

use flow::{OuterAddresses, Template};

use crate::sessions::fixed_map::FixedMap;

/// The most paths of which an MTU is known.
pub const MOST_PATH_MTUS: usize = 4_096;

/// A path: our address and the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub local: IpAddr,
    pub peer: IpAddr,
}

/// What is known.
pub(crate) struct PathMtus {
    known: FixedMap<8>,
    /// MTUs that paths have, and how many paths each: rarely more than a few.
    sizes: Vec<(u16, u32)>,
}

impl PathMtus {
    /// Nothing yet. All of its memory is allocated here.
    pub fn new() -> Self {
        Self {
            known: FixedMap::new(MOST_PATH_MTUS),
            sizes: Vec::with_capacity(MOST_PATH_MTUS),
        }
    }

    /// Sets the MTU of a path, or forgets it. Gives the least of all; `u16::MAX` where none is known.
    pub fn set(&mut self, path: Path, mtu: Option<u16>) -> u16 {
        let key = key(path);
        if let Some(old) = self.known.remove(&key) {
            self.uncount(old as u16);
        }
        if let Some(mtu) = mtu
            && self.known.insert(key, mtu.into()).is_ok()
        {
            self.count(mtu);
        }
        self.sizes.iter().map(|(mtu, _)| *mtu).min().unwrap_or(u16::MAX)
    }

    /// The MTU of a path over a link with this MTU.
    #[cold]
    pub fn of(&self, path: Option<Path>, link: u16) -> u16 {
        match path.filter(|_| !self.known.is_empty()) {
            Some(path) => self.known.at(&key(path)).map_or(link, |mtu| link.min(mtu as u16)),
            None => link,
        }
    }

    /// Whether anything is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn count(&mut self, mtu: u16) {
        match self.sizes.iter_mut().find(|(size, _)| *size == mtu) {
            Some((_, paths)) => *paths += 1,
            None => self.sizes.push((mtu, 1)),
        }
    }

    fn uncount(&mut self, mtu: u16) {
        if let Some(index) = self.sizes.iter().position(|(size, _)| *size == mtu) {
            self.sizes[index].1 -= 1;
            if self.sizes[index].1 == 0 {
                self.sizes.swap_remove(index);
            }
        }
    }
}

/// The path of a tunnel.
pub(crate) fn path_of(template: &Template) -> Path {
    let (local, peer) = match template.addresses {
        OuterAddresses::V4 { source, destination } => (source.into(), destination.into()),
        OuterAddresses::V6 { source, destination } => (source.into(), destination.into()),
    };
    Path { local, peer }
}

/// Both addresses; IPv4 as mapped ones.
pub(crate) fn key(Path { local, peer }: Path) -> [u32; 8] {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let word = |bits: u128, index: u32| (bits >> (32 * index)) as u32;
    let (local, peer) = (octets(local), octets(peer));
    std::array::from_fn(|index| match index as u32 {
        index @ 0..4 => word(local, index),
        index => word(peer, index - 4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(last: u8) -> Path {
        Path {
            local: [10, 0, 3, 1].into(),
            peer: [10, 200, 0, last].into(),
        }
    }

    #[test]
    fn the_least_bounds_and_each_path_has_its_own() {
        let mut paths = PathMtus::new();
        assert_eq!(paths.of(Some(ends(1)), 1500), 1500);
        assert_eq!(paths.set(ends(1), Some(1400)), 1400);
        assert_eq!(paths.set(ends(2), Some(1300)), 1300);
        assert_eq!(paths.set(ends(3), Some(1300)), 1300);
        assert_eq!(
            [1, 2, 4].map(|last| paths.of(Some(ends(last)), 1500)),
            [1400, 1300, 1500]
        );
        assert_eq!(
            (paths.of(Some(ends(1)), 1350), paths.of(None, 1500)),
            (1350, 1500)
        );
        assert_eq!(paths.set(ends(2), None), 1300);
        assert_eq!(paths.set(ends(3), Some(1450)), 1400);
        assert_eq!(paths.set(ends(3), None), 1400);
        assert_eq!(paths.set(ends(3), None), 1400);
        assert_eq!(paths.set(ends(1), None), u16::MAX);
        assert!(paths.is_empty());
    }

    #[test]
    fn no_more_are_known_than_there_is_room_for() {
        let mut paths = PathMtus::new();
        for number in 0..2 * MOST_PATH_MTUS as u32 {
            let peer = IpAddr::from((0x0a00_0000 + number).to_be_bytes());
            paths.set(Path { peer, ..ends(1) }, Some(1000 + (number % 500) as u16));
        }
        assert_eq!(paths.known.len(), MOST_PATH_MTUS);
        assert_eq!(
            paths
                .sizes
                .iter()
                .map(|(_, paths)| *paths as usize)
                .sum::<usize>(),
            MOST_PATH_MTUS
        );
    }
}
