//! Sessions whose packets wait in queues, with a worker and the accelerator's node that it drives: order, rates and
//! counts are those of one place, wherever packets wait.

use std::time::Duration;

use flow::SessionIndex;
use proptest::prelude::*;
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{BitRates, BitsPerSecond, PdrId, PdrUpdate, Qer, QerId};
use rules::network::QueueManagement;
use worker::accelerator::QueueLimits;
use worker::{Command, EgressLimits, OffloadPolicy, Stays};

use crate::accelerated::{Link, Pair, by_flow, counts, of, packet, with_option};
use crate::egress_queues::{Case, FREE, network};
use crate::offload::{HostParts, host_in};

/// Of each session in each direction, kbit/s.
const AMBR: u64 = 1_000;
const UES: u32 = 2;
/// Octets of the IP packets of these tests.
const OCTETS: u64 = 88;

const ROOM: QueueLimits = QueueLimits::new(EgressLimits {
    packets: 512,
    octets: 1 << 20,
    queues: 64,
});

/// The rules of a session with a Session-AMBR.
fn shaped(index: u32, kbit: u64) -> SessionRules {
    let (_, _, mut rules) = of(index);
    let rate = BitsPerSecond::from_kbit(kbit);
    let qer = Qer {
        mbr: Some(BitRates { ul: rate, dl: rate }),
        ..Qer::new(QerId(10))
    };
    rules.create_qer(qer).expect("it is new");
    for id in [PdrId(1), PdrId(2)] {
        let update = PdrUpdate {
            qers: Some(vec![QerId(1), QerId(10)]),
            ..PdrUpdate::new(id)
        };
        rules.update_pdr(update).expect("it is there");
    }
    rules
}

fn host(case: &Case) -> HostParts {
    host_in(&network(case), OffloadPolicy::default())
}

fn pair(link: Link, case: &Case) -> Pair {
    let mut pair = Pair::with_queues(host(case), link, Some(ROOM));
    for index in 0..UES {
        install(&mut pair, index);
    }
    pair
}

fn install(pair: &mut Pair, index: u32) {
    let image = pair.image(index, shaped(index, AMBR));
    pair.apply(SessionChange::Install(image));
}

fn arrive(pair: &mut Pair, ue: u32, flow: u16, number: u32) {
    let (port, packet) = packet(ue, flow, false, number);
    pair.arrive(port, &packet);
}

/// Lets this time pass.
fn wait(pair: &mut Pair, time: Duration) {
    let end = pair.now + time;
    while pair.now < end {
        pair.step();
    }
}

#[test]
fn a_shaped_session_gets_its_rate_at_the_accelerator_alone() {
    let mut pair = pair(Link::Whole, &FREE);
    for number in 0..3 {
        arrive(&mut pair, 0, 1, number);
        pair.rest();
    }
    let stats = pair.host.offload_stats();
    assert_eq!(stats.left, 1, "{stats:?}");
    pair.take();
    // What a pause has earned leaves at once.
    for number in 3..300 {
        arrive(&mut pair, 0, 1, number);
    }
    pair.step();
    wait(&mut pair, Duration::from_millis(10));
    let burst = pair.take().len() as u64;
    let before = pair.host.stats().ports.clone();
    wait(&mut pair, Duration::from_millis(100));
    let left = pair.take().len() as u64;
    // 12,500 octets in 100 ms.
    let due = AMBR * 100 / 8 / OCTETS;
    assert!(
        (due - 2..=due + 2).contains(&left),
        "{left} of {due}, behind {burst}"
    );
    assert_eq!(pair.host.stats().ports, before, "none is the host's");
    let usage = pair.query(0);
    assert_eq!(
        counts(&usage)[0][3],
        3 + burst + left,
        "what waits is not counted"
    );
    assert_eq!(pair.forwarded_of(0).packets[1], 3 + burst + left);
}

#[test]
fn sessions_below_a_rate_that_is_shared_or_without_queues_there_stay() {
    let shared = Case {
        instance: 10_000,
        ..FREE
    };
    let l4s = Case {
        management: QueueManagement::L4s,
        ..FREE
    };
    for (case, room, why) in [
        (&shared, Some(ROOM), Some(Stays::SharedShaper)),
        (&FREE, None, Some(Stays::Queues)),
        (&l4s, Some(ROOM), None),
    ] {
        let mut pair = Pair::with_queues(host(case), Link::Whole, room);
        install(&mut pair, 0);
        for number in 0..5 {
            arrive(&mut pair, 0, 1, number);
            pair.rest();
        }
        assert_eq!(pair.take().len(), 5);
        let stats = pair.host.offload_stats();
        assert_eq!(stats.left, u64::from(why.is_none()), "{why:?}");
        if let Some(why) = why {
            assert_eq!(stats.stays[why as usize], 5, "{why:?}");
        }
    }
}

#[test]
fn a_session_that_comes_home_has_used_what_left_at_once() {
    let mut pair = pair(Link::Whole, &FREE);
    for number in 0..3 {
        arrive(&mut pair, 0, 1, number);
        pair.rest();
    }
    for number in 3..303 {
        arrive(&mut pair, 0, 1, number);
    }
    wait(&mut pair, Duration::from_millis(2));
    // Flows are to be decided anew: the session comes home, and what waits leaves before.
    pair.control
        .commands
        .push(Command::Revalidate)
        .expect("there is room");
    wait(&mut pair, Duration::from_millis(5));
    let stats = pair.host.offload_stats();
    assert_eq!((stats.left, stats.returned), (1, 1), "{stats:?}");
    let left = by_flow(&pair.take()).into_values().flatten();
    assert_eq!(left.collect::<Vec<_>>(), (0..303).collect::<Vec<_>>());
    let usage = pair.query(0);
    assert_eq!(counts(&usage)[0][3], 303);
    // It leaves again. 303 packets are 213 ms of the rate, of which 50 may leave at once.
    arrive(&mut pair, 0, 1, 303);
    wait(&mut pair, Duration::from_millis(5));
    assert_eq!(pair.host.offload_stats().left, 2);
    let first = pair.take().len();
    for number in 304..320 {
        arrive(&mut pair, 0, 1, number);
    }
    wait(&mut pair, Duration::from_millis(100));
    assert_eq!(pair.take().len(), 0, "the rate is used up");
    wait(&mut pair, Duration::from_millis(100));
    assert_eq!(first + pair.take().len(), 17);
}

#[test]
fn without_its_accelerator_a_session_is_shaped_here() {
    let mut pair = pair(Link::Whole, &FREE);
    for number in 0..3 {
        arrive(&mut pair, 0, 1, number);
        pair.rest();
    }
    for number in 3..103 {
        arrive(&mut pair, 0, 1, number);
    }
    wait(&mut pair, Duration::from_millis(5));
    let left = pair.take().len() as u64;
    // Another process takes the place of the node: what waits there is lost, and not charged.
    let other = Pair::with_queues(host(&FREE), Link::Whole, Some(ROOM));
    (pair.node, pair.node_wires) = (other.node, other.node_wires);
    wait(&mut pair, Duration::from_secs(1));
    assert_eq!(pair.host.offload_stats().lost, 1);
    pair.take();
    let usage = pair.query(0);
    assert!(counts(&usage)[0][3] <= left, "what was lost is not charged");
    for number in 103..403 {
        arrive(&mut pair, 0, 1, number);
    }
    wait(&mut pair, Duration::from_millis(10));
    let burst = pair.take().len();
    wait(&mut pair, Duration::from_millis(100));
    let left = pair.take().len() as u64;
    let due = AMBR * 100 / 8 / OCTETS;
    assert!(left <= due + 2, "{left} of {due}, behind {burst}");
}

#[derive(Clone, Debug)]
enum Step {
    Packets {
        ue: u32,
        flow: u16,
        number: u8,
    },
    /// One that the accelerator does not read: the session comes home.
    WithOption(u32),
    Polls(u16),
    Query(u32),
    /// The session comes home for it.
    Replace(u32),
    /// It comes home, with queues at another rate.
    Rate(u32, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packets = (0..UES, 0..2_u16, 1..20_u8);
    let packets = packets.prop_map(|(ue, flow, number)| Step::Packets { ue, flow, number });
    let step = prop_oneof![
        8 => packets,
        1 => (0..UES).prop_map(Step::WithOption),
        6 => (0..300_u16).prop_map(Step::Polls),
        2 => (0..UES).prop_map(Step::Query),
        1 => (0..UES).prop_map(Step::Replace),
        1 => (0..UES, 500..5_000_u64).prop_map(|(ue, kbit)| Step::Rate(ue, kbit)),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The packets of UEs in what left, by UE.
fn of_ues(left: &[(flow::PortId, Vec<u8>)], sums: &mut [u64; UES as usize]) {
    for (_, frame) in left.iter().filter(|(port, _)| port.0 == 0) {
        // The user packet's destination, behind which are 68 octets of it.
        let at = frame.len() - 72;
        let ue = frame[at + 3];
        assert_eq!(frame[at], 10);
        sums[usize::from(ue - 10)] += 1;
    }
}

/// Whatever comes between: what leaves is in order, and charged, and nothing else is.
fn live(link: Link, octets: u32, all: &[Step]) -> Result<(), TestCaseError> {
    let case = Case { octets, ..FREE };
    let mut pair = pair(link, &case);
    let mut left = [0; UES as usize];
    let mut charged = [0; UES as usize];
    let mut all_left = Vec::new();
    let mut next = 0;
    for step in all {
        match *step {
            Step::Packets { ue, flow, number } => {
                for _ in 0..number {
                    arrive(&mut pair, ue, flow, next);
                    next += 1;
                }
            }
            Step::WithOption(ue) => {
                pair.arrive(0, &with_option(ue, next));
                next += 1;
            }
            Step::Polls(polls) => (0..polls).for_each(|_| pair.step()),
            Step::Query(ue) => {
                let usage = pair.query(ue);
                let out = pair.take();
                of_ues(&out, &mut left);
                all_left.extend(out);
                let now = counts(&usage)[0][3];
                prop_assert!(now >= charged[ue as usize], "no count falls");
                charged[ue as usize] = now;
            }
            Step::Replace(ue) => {
                let image = pair.image(ue, shaped(ue, AMBR));
                pair.apply(SessionChange::Replace(image, ImmediateActions::default()));
            }
            Step::Rate(ue, kbit) => {
                let image = pair.image(ue, shaped(ue, kbit));
                pair.apply(SessionChange::Replace(image, ImmediateActions::default()));
            }
        }
    }
    wait(&mut pair, Duration::from_secs(8));
    let out = pair.take();
    of_ues(&out, &mut left);
    all_left.extend(out);
    for ((port, name), numbers) in by_flow(&all_left) {
        let is_rising = numbers.is_sorted_by(|one, next| one < next);
        prop_assert!(is_rising, "port {} {:?}: {:?}", port, name, numbers);
    }
    for index in 0..UES {
        let usage = pair.apply(SessionChange::Remove(SessionIndex(index)));
        let counted = counts(&usage.expect("it has counted"))[0][3];
        prop_assert_eq!(counted, left[index as usize], "exactly what has left");
        prop_assert_eq!(pair.forwarded_of(index).packets[1], left[index as usize]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_leaves_is_in_order_and_charged_and_nothing_else(
        steps in steps(),
        octets in prop_oneof![Just(1_000_u32), Just(5_000), Just(1 << 20)],
        of in prop_oneof![Just(None), (2..10_u32).prop_map(Some)],
    ) {
        live(of.map_or(Link::Whole, Link::LosesControl), octets, &steps)?;
    }
}
