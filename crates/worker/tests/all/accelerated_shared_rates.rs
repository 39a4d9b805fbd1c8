//! Rates that sessions share at an accelerator: it keeps the leases that control gives it, for all sessions that are
//! away, and none is away before it has them.

use flow::meter::{Rate, SharedId};
use flow::{Direction, SessionIndex};
use rules::SessionRules;
use rules::image::SessionChange;
use rules::model::{BitRates, BitsPerSecond, CorrelationId, PdrId, PdrUpdate, Qer, QerId};
use worker::{Command, Event, LeaseHolder, Stays};

use crate::accelerated::{Link, Pair, SHARED_METERS, of, packet};

const SLICE: SharedId = SharedId(1);
const NETWORK: SharedId = SharedId(2);
/// A data network within a slice.
const BOTH: SharedId = SharedId(3);
/// Octets of the IP packets of these tests.
const OCTETS: u64 = 88;
/// Polls between two packets of a session.
const GAP: usize = 10;
/// Packets of a session in a second.
const PER_SECOND: u32 = 5_000;

/// What lets this number of packets pass in a second.
const fn rate_of(packets: u64) -> Rate {
    Rate::from_kbit(packets * OCTETS * 8 / 1_000)
}

fn tell(pair: &mut Pair, command: Command) {
    pair.control.commands.push(command).expect("there is room");
    pair.rest();
}

/// The accelerator's lease of a rate.
fn lease(pair: &mut Pair, id: SharedId, rate: Rate) {
    for direction in Direction::BOTH {
        let command = Command::SharedMeter {
            holder: LeaseHolder::Accelerator,
            id,
            direction,
            rate,
            burst: 10 * OCTETS,
        };
        tell(pair, command);
    }
}

fn install(pair: &mut Pair, index: u32, shared: SharedId) {
    let mut image = pair.image(index, of(index).2);
    image.block.get_or_insert_default().shared = shared;
    pair.apply(SessionChange::Install(image));
}

/// Lets packets of these UEs arrive for a second: how many pass.
fn pass(pair: &mut Pair, ues: &[u32]) -> usize {
    pair.take();
    let mut left = 0;
    for number in 0..PER_SECOND {
        for ue in ues {
            let (port, packet) = packet(*ue, 1, true, number);
            pair.arrive(port, &packet);
        }
        (0..GAP).for_each(|_| pair.step());
        left += pair.take().len();
    }
    left
}

/// The same a moment later, when bursts are used up, against what is allowed.
fn assert_passes(pair: &mut Pair, ues: &[u32], packets: usize) {
    pass(pair, ues);
    assert_eq!(pair.host.offload_stats().away, ues.len() as u64);
    let passed = pass(pair, ues);
    assert!(passed.abs_diff(packets) <= packets / 100, "{passed} of {packets}");
}

/// What the accelerator's meters were asked for since this was asked before, in uplink octets.
fn demand(pair: &mut Pair, id: SharedId) -> u64 {
    let command = Command::SharedDemand {
        holder: LeaseHolder::Accelerator,
        demand: [(id, [0; 2])].into(),
    };
    tell(pair, command);
    while let Ok(event) = pair.control.events.pop() {
        if let Event::SharedDemand { holder, demand } = event {
            assert_eq!((holder, demand.len()), (LeaseHolder::Accelerator, 1));
            return demand[0].1[0];
        }
    }
    panic!("no answer")
}

fn stays(pair: &Pair) -> u64 {
    pair.host.offload_stats().stays[Stays::SharedRate as usize]
}

#[test]
fn a_session_leaves_when_its_leases_are_there_and_passes_no_more_than_they_allow() {
    let mut pair = Pair::new(Link::Whole);
    let chain = [NETWORK, SLICE, SharedId::NONE, SharedId::NONE];
    tell(&mut pair, Command::SharedChain { id: BOTH, chain });
    install(&mut pair, 0, BOTH);
    lease(&mut pair, NETWORK, rate_of(2_000));
    assert_eq!(
        pass(&mut pair, &[0]),
        PER_SECOND as usize,
        "at home nothing limits it here"
    );
    assert_eq!(
        (pair.host.offload_stats().away, stays(&pair)),
        (0, PER_SECOND.into())
    );
    lease(&mut pair, SLICE, rate_of(1_000));
    assert_passes(&mut pair, &[0], 1_000);
    lease(&mut pair, SLICE, rate_of(500));
    assert_passes(&mut pair, &[0], 500);
    lease(&mut pair, SLICE, rate_of(4_000));
    assert_passes(&mut pair, &[0], 2_000);
    // What is asked of one is asked of the other, whichever has too little.
    for id in [SLICE, NETWORK] {
        demand(&mut pair, id);
        demand(&mut pair, id);
    }
    pass(&mut pair, &[0]);
    for id in [SLICE, NETWORK] {
        assert_eq!(demand(&mut pair, id), 0, "it is asked now");
        assert_eq!(demand(&mut pair, id), OCTETS * u64::from(PER_SECOND));
        assert_eq!(demand(&mut pair, id), 0);
    }
    pair.apply(SessionChange::Remove(SessionIndex(0)));
    assert_eq!(pair.host.offload_stats().away, 0);
}

#[test]
fn leases_are_given_anew_when_contact_is_back() {
    let mut pair = Pair::new(Link::Whole);
    install(&mut pair, 0, SLICE);
    lease(&mut pair, SLICE, rate_of(1_000));
    assert_passes(&mut pair, &[0], 1_000);
    pair.restart_node(11);
    pair.rest();
    assert_eq!(demand(&mut pair, SLICE), 0);
    lease(&mut pair, SLICE, rate_of(700));
    while !pair.node.is_served() {
        pair.step();
    }
    assert_passes(&mut pair, &[0], 700);
    assert_eq!(pair.host.offload_stats().lost, 1);
    assert_eq!(pair.host.offload_stats().network_refused, 0);
}

#[test]
fn sessions_with_a_rate_together_have_one_meter_there() {
    let mut pair = Pair::new(Link::LosesControl(9));
    lease(&mut pair, NETWORK, rate_of(1_000));
    for index in 0..2 {
        let mut image = pair.image(index, correlated(index));
        image.share_rates(|_| NETWORK);
        pair.apply(SessionChange::Install(image));
    }
    assert_passes(&mut pair, &[0, 1], 1_000);
    lease(&mut pair, NETWORK, Rate::UNLIMITED);
    assert_passes(&mut pair, &[0, 1], 2 * PER_SECOND as usize);
    lease(&mut pair, NETWORK, Rate::ZERO);
    assert_passes(&mut pair, &[0, 1], 0);
}

/// A session with a correlated QER beside one of its own.
fn correlated(index: u32) -> SessionRules {
    let (_, _, mut rules) = of(index);
    let rate = BitsPerSecond::from_kbit(1_000);
    let qer = Qer {
        mbr: Some(BitRates { ul: rate, dl: rate }),
        correlation: Some(CorrelationId(5)),
        ..Qer::new(QerId(10))
    };
    rules.create_qer(qer).expect("it is new");
    let update = PdrUpdate {
        qers: Some(vec![QerId(10)]),
        ..PdrUpdate::new(PdrId(1))
    };
    rules.update_pdr(update).expect("it is there");
    rules
}

#[test]
fn a_session_stays_whose_meter_the_accelerator_does_not_have() {
    let mut pair = Pair::new(Link::Whole);
    let beyond = SharedId(SHARED_METERS + 1);
    for (index, shared) in [(0, beyond), (1, SharedId(SHARED_METERS))] {
        lease(&mut pair, shared, rate_of(1_000));
        install(&mut pair, index, shared);
    }
    pass(&mut pair, &[0, 1]);
    assert_eq!(
        (pair.host.offload_stats().away, stays(&pair)),
        (1, PER_SECOND.into())
    );
    assert_eq!(pair.host.offload_stats().network_refused, 0);
}
