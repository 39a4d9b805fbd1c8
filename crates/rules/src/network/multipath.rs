//! Several next hops for one destination: which packets take which (ECMP).
//!
//! The next hops of one prefix are a [`Group`]. A group has [`PATHS`] paths, and each packet one of them by its
//! [`Spread`], for good. While every next hop answers the paths are dealt out in turn; the paths of one that falls
//! silent go to the others in about equal parts, and those of the others stay where they are. What must not be
//! reordered has one spread: the packets between two addresses, fragments included, and those of one tunnel. An
//! accelerator computes the spread of plain packets, too, which `docs/inband.md` specifies.

use std::net::IpAddr;

use flow::InstanceId;

/// Next hops of one prefix, at most.
pub const MOST_NEXT_HOPS: usize = 16;
/// Paths of a group.
pub const PATHS: u8 = 64;

/// Several next hops of one prefix: its number, dense from 0. Prefixes with the same next hops have one group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupId(pub u16);

/// Each next hop of a group with the instance on whose link it is: 2 to [`MOST_NEXT_HOPS`].
pub type Group = Box<[(InstanceId, IpAddr)]>;

/// The path of packets that may not overtake each other: below [`PATHS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread(u8);

impl Spread {
    /// Of plain packets between these addresses.
    #[inline]
    pub fn between(source: IpAddr, destination: IpAddr) -> Self {
        Self::of(mix(fold(source)).wrapping_add(fold(destination)))
    }

    /// Of what goes to `peer` in the tunnel with its TEID `teid`.
    #[inline]
    pub fn of_tunnel(peer: IpAddr, teid: u32) -> Self {
        Self::of(mix(fold(peer)).wrapping_add(u64::from(teid)))
    }

    const fn of(value: u64) -> Self {
        Self(mix(value) as u8 % PATHS)
    }

    /// The number of the path.
    #[inline]
    pub const fn path(self) -> u8 {
        self.0
    }
}

/// The place of the next hop that a path leads to, among `count` of which some are `alive`. `None` where none is.
pub fn next_of(path: u8, count: usize, alive: impl Fn(usize) -> bool) -> Option<usize> {
    let own = usize::from(path).checked_rem(count)?;
    if alive(own) {
        return Some(own);
    }
    let weight = |place: &usize| mix(u64::from(path) << 32 | *place as u64);
    (0..count).filter(|place| alive(*place)).max_by_key(weight)
}

fn fold(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mix((bits >> 64) as u64).wrapping_add(bits as u64)
        }
    }
}

/// Each bit of the answer hangs on each of the value (the finalizer of SplitMix64).
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Where packets to a destination go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// To this neighbour on the link of the instance.
    Neighbour(InstanceId, IpAddr),
    /// To one of these.
    Group(GroupId),
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::network::{Network, NetworkError, Route, VrfId};
    use crate::testing;

    /// How many paths lead to each of `count` next hops.
    fn shares(count: usize, alive: impl Fn(usize) -> bool + Copy) -> Vec<u8> {
        let mut shares = vec![0; count];
        for path in 0..PATHS {
            shares[next_of(path, count, alive).expect("one is alive")] += 1;
        }
        shares
    }

    #[test]
    fn paths_are_dealt_out_evenly() {
        for count in 1..=MOST_NEXT_HOPS {
            let shares = shares(count, |_| true);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(
                most.zip(least).is_some_and(|(most, least)| most - least <= 1),
                "{shares:?}"
            );
        }
    }

    #[test]
    fn packets_are_spread_over_all_paths() {
        let server = Ipv4Addr::new(203, 0, 113, 1);
        let ues = (0..4_096).map(|ue| Ipv4Addr::from_bits(0x0a2d_0000 + ue));
        let plain = ues.map(|ue| Spread::between(ue.into(), server.into()));
        let tunnels = (1..=4_096).map(|teid| Spread::of_tunnel(server.into(), teid));
        let six = (0..4_096).map(|ue: u128| Spread::between(IpAddr::V6((ue << 64).into()), server.into()));
        for spreads in [plain.collect::<Vec<_>>(), tunnels.collect(), six.collect()] {
            let mut counts = [0_usize; PATHS as usize];
            spreads
                .iter()
                .for_each(|spread| counts[usize::from(spread.path())] += 1);
            assert!(
                counts.iter().all(|count| (24..=110).contains(count)),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn the_specification_has_the_same_paths() {
        const SPECIFICATION: &str = include_str!("../../../../docs/inband.md");
        let (_, behind) = SPECIFICATION
            .split_once("| Source | Destination | Path |\n|---|---|---|\n")
            .expect("the examples");
        let rows: Vec<_> = behind
            .lines()
            .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
            .collect();
        assert!(rows.len() >= 5);
        for row in rows {
            let [source, destination, path] = row
                .split(" | ")
                .collect::<Vec<_>>()
                .try_into()
                .expect("three columns");
            let address = |text: &str| text.parse::<IpAddr>().expect("an address");
            let spread = Spread::between(address(source), address(destination));
            assert_eq!(path.parse(), Ok(spread.path()), "{row}");
        }
    }

    proptest! {
        #[test]
        fn only_what_silent_ones_had_moves(
            path in 0..PATHS,
            count in 1..=MOST_NEXT_HOPS,
            silent: u16,
        ) {
            let alive = |place: usize| silent >> place & 1 == 0;
            let (before, after) = (next_of(path, count, |_| true), next_of(path, count, alive));
            prop_assert!(before.is_some_and(|place| place < count));
            if before.is_some_and(alive) {
                prop_assert_eq!(after, before);
            } else {
                prop_assert_eq!(after.is_some(), (0..count).any(alive));
                prop_assert!(after.is_none_or(|place| place < count && alive(place)));
            }
        }
    }

    #[test]
    fn all_others_take_over_from_a_silent_one() {
        let (before, after) = (shares(4, |_| true), shares(4, |place| place != 2));
        assert_eq!(after[2], 0);
        for place in [0, 1, 3] {
            assert!(after[place] - before[place] >= 2, "{before:?} {after:?}");
        }
        assert_eq!((next_of(9, 3, |_| false), next_of(9, 0, |_| true)), (None, None));
    }

    /// The small network with routes of instance N6 and N9 in place of their own.
    fn network(n6: &[(&str, &str)], n9: &[(&str, &str)]) -> Result<Network, NetworkError> {
        let mut instances = testing::network().instances().to_vec();
        let route = |(prefix, hop): &(&str, &str)| Route {
            prefix: prefix.parse().expect("a prefix"),
            next_hop: hop.parse().expect("an address"),
        };
        for (id, routes) in [(testing::N6, n6), (testing::N9, n9)] {
            instances[id.index()].routes = routes.iter().map(route).collect();
        }
        Network::new(instances)
    }

    #[test]
    fn routes_of_one_prefix_are_a_group() {
        let network = network(
            &[
                ("0.0.0.0/0", "10.0.6.2"),
                ("198.51.100.0/24", "10.0.6.2"),
                ("0.0.0.0/0", "10.0.6.3"),
                ("203.0.113.0/24", "10.0.6.2"),
                ("203.0.113.0/24", "10.0.6.3"),
            ],
            &[],
        );
        let network = network.expect("no contradictions");
        let hop = |last| (testing::N6, IpAddr::from([10, 0, 6, last]));
        assert_eq!(
            network.groups(),
            [Group::from([hop(2), hop(3)])],
            "both prefixes have the same next hops"
        );
        let way = |to: [u8; 4]| network.next_hop(VrfId(0), to.into());
        assert_eq!(way([8, 8, 8, 8]), Some(NextHop::Group(GroupId(0))));
        assert_eq!(way([203, 0, 113, 9]), Some(NextHop::Group(GroupId(0))));
        let (instance, address) = hop(2);
        assert_eq!(
            way([198, 51, 100, 9]),
            Some(NextHop::Neighbour(instance, address))
        );
        let hops = (0..PATHS).map(|path| network.hop_of_path(GroupId(0), path));
        assert!(hops.clone().any(|of| of == Some(hop(2))) && hops.clone().any(|of| of == Some(hop(3))));
        assert_eq!(network.hop_of_path(GroupId(1), 0), None);
    }

    #[test]
    fn next_hops_that_cannot_share_are_named() {
        let twice = network(&[("0.0.0.0/0", "10.0.6.2"), ("0.0.0.0/0", "10.0.6.2")], &[]);
        assert!(matches!(twice, Err(NetworkError::RouteTwice { .. })), "{twice:?}");
        let mixed = network(&[("0.0.0.0/0", "10.0.6.2")], &[("0.0.0.0/0", "10.0.9.2")]);
        let all = "0.0.0.0/0".parse().expect("a prefix");
        assert_eq!(mixed, Err(NetworkError::MixedNextHops(VrfId(0), all)));
        let hops: Vec<String> = (2..=18).map(|last| format!("10.0.6.{last}")).collect();
        let many: Vec<_> = hops.iter().map(|hop| ("0.0.0.0/0", hop.as_str())).collect();
        assert_eq!(network(&many, &[]), Err(NetworkError::NextHops(VrfId(0), all)));
        assert!(network(&many[1..], &[]).is_ok());
    }
}
