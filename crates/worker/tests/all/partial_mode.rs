//! Partial mode: what workers forward and count with an accelerator that holds no sessions, however both ends have
//! come to it, is what one worker does alone; and the end of the accelerator loses nothing but packets on their way.

use offload::codec::HostCapabilities;
use proptest::prelude::*;
use rules::image::SessionChange;
use worker::{AcceleratorView, OffloadPolicy, Stays};

use crate::accelerated::{self, Link, Pair, counts, of, packet};
use crate::accelerated_workers::{self, Lossy, Team, UES};

/// Which of both ends is in partial mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Full,
    Host,
    Accelerator,
    Both,
    /// The accelerator, whose host is one of before.
    OfOldHost,
    /// The host, whose accelerator is one of before.
    OfOldAccelerator,
}

const PARTIAL: [Mode; 5] = [
    Mode::Host,
    Mode::Accelerator,
    Mode::Both,
    Mode::OfOldHost,
    Mode::OfOldAccelerator,
];

impl Mode {
    pub fn is_of_accelerator(self) -> bool {
        matches!(self, Self::Accelerator | Self::Both | Self::OfOldHost)
    }

    pub fn policy(self) -> OffloadPolicy {
        OffloadPolicy {
            is_partial: matches!(self, Self::Host | Self::Both | Self::OfOldAccelerator),
            ..OffloadPolicy::default()
        }
    }

    /// What a host says of itself.
    pub fn host(self, host: HostCapabilities) -> HostCapabilities {
        match self {
            Self::Full | Self::OfOldHost => host,
            Self::Accelerator => host.with_steered(),
            Self::Host | Self::Both => host.with_steered().in_partial_mode(),
            // One of before takes flags that it does not know for nothing.
            Self::OfOldAccelerator => HostCapabilities::new(false).with_channels(host.channels()),
        }
    }

    fn steers(self) -> bool {
        matches!(self, Self::Host | Self::Accelerator | Self::Both)
    }
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(PARTIAL.to_vec())
}

/// Uplink packets of one flow of each session, which have these numbers.
fn numbered(numbers: std::ops::Range<u32>) -> impl Iterator<Item = (u16, Vec<u8>)> {
    numbers.map(|number| packet(number % 3, 1, number % 2 == 0, number))
}

#[test]
fn nothing_leaves_and_nothing_is_asked_and_it_is_said_why() {
    for mode in PARTIAL {
        let mut pair = Pair::new(Link::Partial(mode, u32::MAX));
        for index in 0..3 {
            let image = pair.image(index, of(index).2);
            pair.apply(SessionChange::Install(image));
        }
        for (port, packet) in numbered(0..60) {
            pair.arrive(port, &packet);
            pair.step();
        }
        pair.rest();
        assert_eq!(pair.take().len(), 60, "{mode:?}");
        let (stats, node) = (pair.host.offload_stats(), pair.node.view());
        assert_eq!(
            (stats.away, stats.left, stats.lost, stats.refused),
            (0, 0, 0, 0),
            "{mode:?}"
        );
        assert_eq!(
            (node.sessions, node.flows, node.node.questions, node.node.markers),
            (0, 0, 0, 0)
        );
        let why = stats.stays[Stays::PartialMode as usize];
        let view = pair.host.accelerator_view().expect("there is one");
        // With one worker nothing has to be steered.
        assert_eq!(
            (view.is_partial, why, view.port.hinted, view.port.steered),
            (true, 60, 60, 0),
            "{mode:?}"
        );
        assert_eq!(node.is_partial, mode != Mode::OfOldAccelerator, "{mode:?}");
    }
}

#[test]
fn the_end_of_the_accelerator_loses_no_count() {
    for mode in [Mode::Host, Mode::Accelerator] {
        let mut pair = Pair::new(Link::Partial(mode, u32::MAX));
        for index in 0..3 {
            let image = pair.image(index, of(index).2);
            pair.apply(SessionChange::Install(image));
        }
        let mut sent = Vec::new();
        for round in 0..4 {
            for (port, packet) in numbered(round * 90..(round + 1) * 90) {
                pair.arrive(port, &packet);
                pair.step();
                sent.extend(pair.take());
            }
            // In the midst of it: what is on its way to it, and in it, is lost.
            pair.restart_node(20 + u64::from(round));
            (0..20).for_each(|_| pair.rest());
            assert!(pair.node.is_served(), "{mode:?}: contact is made again");
        }
        sent.extend(pair.take());
        assert!(sent.len() >= 4 * 80, "{mode:?}: {} of 360", sent.len());
        // What was on its way back is charged as what a NIC loses is.
        let counted: u64 = (0..3)
            .map(|index| {
                let last = pair.apply(SessionChange::Remove(flow::SessionIndex(index)));
                let [_, _, uplink, downlink] = counts(&last.expect("it has counted"))[0];
                uplink + downlink
            })
            .sum();
        let processed = pair.host.stats().tx();
        assert_eq!(counted, processed, "{mode:?}");
        assert!(
            counted - sent.len() as u64 <= 4 * 4,
            "{mode:?}: {counted} {}",
            sent.len()
        );
        assert_eq!(pair.host.offload_stats().lost, 0, "{mode:?}");
    }
}

fn views(team: &Team) -> Vec<AcceleratorView> {
    let views = team.hosts.iter().map(|host| host.accelerator_view());
    views.map(|view| view.expect("there is one")).collect()
}

#[test]
fn packets_are_steered_by_their_bucket_and_a_wrong_one_costs_a_hand_over() {
    for mode in PARTIAL {
        let mut team = Team::in_mode(3, Lossy::None, mode);
        // The bucket of a destination is its session's.
        for number in 0..120 {
            let (port, packet) = packet(number % UES, 1, false, number);
            team.arrive(port, &packet);
            team.step();
        }
        team.rest();
        let handed_over = |team: &Team| {
            team.hosts
                .iter()
                .map(|host| host.stats().handed_over)
                .sum::<u64>()
        };
        let steered = |team: &Team| views(team).iter().map(|view| view.port.steered).sum::<u64>();
        assert_eq!(team.take().len(), 120, "{mode:?}");
        assert_eq!(handed_over(&team), 0, "{mode:?}");
        assert_eq!(steered(&team), if mode.steers() { 120 } else { 0 }, "{mode:?}");
        assert_eq!(team.node.view().node.steered, steered(&team));
        // That of a TEID is not, in this world: the worker that reads the packet gives it to its owner.
        for number in 120..240 {
            let (port, packet) = packet(number % UES, 1, true, number);
            team.arrive(port, &packet);
            team.step();
        }
        team.rest();
        assert_eq!(team.take().len(), 120, "{mode:?}");
        assert_eq!(handed_over(&team) > 0, mode.steers(), "{mode:?}");
        for ue in 0..UES {
            let [_, _, uplink, downlink] = team.query(ue)[0];
            assert_eq!((uplink, downlink), (20, 20), "{mode:?}");
        }
        assert_eq!(team.away(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_worker_forwards_and_counts_what_one_does_alone(
        all in accelerated::steps(),
        mode in any_mode(),
        of in prop_oneof![Just(u32::MAX), 3..8_u32],
    ) {
        accelerated::compare(Link::Partial(mode, of), &all)?;
    }

    #[test]
    fn several_do_so(
        all in accelerated_workers::steps(0),
        mode in any_mode(),
        (workers, receives) in (2..4_usize, 0..2_u16),
        is_lossy: bool,
    ) {
        let lossy = if is_lossy { Lossy::Control(4) } else { Lossy::None };
        accelerated_workers::compare(Team::in_mode(workers, lossy, mode), receives, &all)?;
    }

    #[test]
    fn no_packet_is_lost_or_counted_twice_while_buckets_move(
        all in accelerated_workers::steps(3),
        mode in any_mode(),
        workers in 2..4_usize,
    ) {
        accelerated_workers::compare(Team::in_mode(workers, Lossy::None, mode), 0, &all)?;
    }
}
