//! The conformance suite of the FlowOp contract: what [`contract`](crate::contract) promises, held against every
//! backend.
//!
//! A backend is added by one line of [`conformance!`](crate::conformance!), in a test of whatever crate. Everything
//! runs on simulated time from fixed seeds.

mod agreement;
mod beyond_flows;
mod driver;
mod queueing;

pub use self::agreement::backends_agree;
pub use self::beyond_flows::*;
pub use self::driver::{Driver, Make, fake, local};
pub use self::queueing::*;
use crate::contract::{
    Actions, AnyKey, Capabilities, Epoch, Event, Fate, Flow, FlowOp, Object, ObjectId, Outcome, Refusal, Why,
};
use crate::meter::{Colour, MeterSpec, Rate};
use crate::{
    Bounds, CounterLimit, Direction, FlowKey4, FlowKey6, Forward, ForwardKind, KeyFields, LimitAction, Mark,
    Nat, NatFlags, OpId, PortId, SessionIndex, Tick, UrrCount, Volumes,
};

use self::driver::{A, counter, flow, forward, key, meter, octets, packets, passed, plain, qer};

/// Makes a test of each promise of the contract, in a module of the name: `name: |seed: u64| -> Box<dyn PacketPath>`.
#[macro_export]
macro_rules! conformance {
    ($($name:ident: $make:expr;)*) => {$(
        mod $name {
            $crate::conformance!(@ $make; requests_of_a_session_keep_their_order
                after_a_fence_nothing_old_is_met
                requests_of_another_epoch_are_refused
                every_packet_is_counted_once
                what_a_flow_names_is_there_and_stays
                what_is_beyond_the_capabilities_is_refused
                idle_flows_age_and_used_ones_do_not
                watermarks_and_limits_act_at_the_packet
                limits_of_all_actions
                misses_are_reported
                gates_marks_and_buffers_act
                a_nat_goes_with_its_flow
                mirrors_are_taken_or_refused
                a_meter_has_one_home
                meters_are_charged_together
                node_requests_keep_their_order_with_all
                objects_have_their_subjects
                instances_clamp_or_are_refused
                put_installs_or_updates
                a_packet_without_a_next_hop_traps
                all_flows_of_a_session_go_at_once
                flows_are_of_their_sessions_generation
                counters_are_reported_by_themselves
                counters_of_all_kinds
                shared_meters_are_shared
                contents_are_taken
                queues_are_there_or_refused
                what_waits_keeps_order_and_rate
                urgent_classes_go_first_below_a_shared_node
                losses_in_queues_are_taken_back
                what_waits_leaves_before_its_session_goes
                a_counter_that_begins_anew_is_without_what_waits
                a_full_pool_takes_no_more
                a_reset_loses_what_waits
                what_waits_for_long_is_marked);
        }
    )*};
    (@ $make:expr; $($test:ident)*) => {$(
        #[test]
        fn $test() {
            $crate::conformance::$test(&|seed| $crate::conformance::Driver::new($make(seed)));
        }
    )*};
}

/// Requests of a session keep their order.
pub fn requests_of_a_session_keep_their_order(make: Make<'_>) {
    for seed in 1..20 {
        let mut driver = make(seed);
        let mut ids = Vec::new();
        for step in 0..30u32 {
            for session in 0..4 {
                let op = match step % 3 {
                    0 => FlowOp::Install(forward(step)),
                    1 => FlowOp::Update(forward(step)),
                    _ => FlowOp::Remove(ObjectId::Forward(0)),
                };
                ids.push(driver.submit(SessionIndex(session), op));
            }
        }
        driver.settle();
        for id in ids {
            assert_eq!(driver.replies[&id], Ok(Outcome::Done), "seed {seed}");
        }
    }
}

/// After a fence nothing old is met.
pub fn after_a_fence_nothing_old_is_met(make: Make<'_>) {
    for seed in 1..20 {
        let mut driver = make(seed);
        driver.open(Bounds::NONE);
        for round in 2..12u32 {
            driver.submit(A, FlowOp::Update(forward(round)));
            let fence = driver.submit(A, FlowOp::Fence);
            let mut last = round - 1;
            while !driver.replies.contains_key(&fence) {
                let Fate::Passed { forward, .. } = driver.send(key(0), 100) else {
                    panic!("a flow was lost")
                };
                let number = u32::from(forward.egress.0);
                assert!([round - 1, round].contains(&number) && number >= last);
                last = number;
                driver.poll();
            }
            assert_eq!(driver.send(key(0), 100), passed(round), "seed {seed}");
        }
    }
}

/// Requests of another epoch are refused.
pub fn requests_of_another_epoch_are_refused(make: Make<'_>) {
    for seed in 1..20 {
        let mut driver = make(seed);
        driver.open(Bounds::NONE);
        let old = driver.backend.epoch();
        let early = driver.submit_in(Epoch(old.0 + 1), A, FlowOp::Update(forward(9)));
        driver.settle();
        assert_eq!(driver.replies[&early], Err(Refusal::OtherEpoch));
        assert_eq!(driver.send(key(0), 1), passed(1));
        driver.take_events();
        let in_flight: Vec<OpId> = (0..5)
            .map(|_| driver.submit(A, FlowOp::Update(forward(2))))
            .collect();
        driver.backend.reset();
        let new = driver.backend.epoch();
        assert_ne!(new, old);
        assert_eq!(driver.send(key(0), 1), Fate::Missed);
        driver.settle();
        for id in in_flight {
            assert_eq!(driver.replies[&id], Err(Refusal::OtherEpoch));
        }
        assert!(driver.take_events().contains(&Event::BackendReset { epoch: new }));
        assert_eq!(
            driver.ask(A, FlowOp::Query(ObjectId::Session)),
            Err(Refusal::Missing)
        );
        driver.open(Bounds::NONE);
        assert_eq!(driver.send(key(0), 1), passed(1));
    }
}

/// Every packet is counted once.
pub fn every_packet_is_counted_once(make: Make<'_>) {
    for seed in 1..12 {
        let mut driver = make(seed);
        driver.open(Bounds::NONE);
        let (mut sent, mut finals) = ([0u64; 2], Vec::new());
        for step in 0..300u32 {
            let octets = 100 + step;
            assert!(matches!(
                driver.send(key((step % 2) as u8), octets),
                Fate::Passed { .. }
            ));
            sent = [sent[0] + 1, sent[1] + u64::from(octets)];
            match step % 23 {
                0 => finals.push(driver.submit(A, FlowOp::Update(counter(0, Bounds::NONE)))),
                // What makes the session larger moves it.
                5 => drop(driver.submit(A, FlowOp::Install(qer(1 + (step / 23) as u8, [false; 2])))),
                11 => drop(driver.submit(A, FlowOp::Query(ObjectId::Counter(0)))),
                _ => {}
            }
            driver.poll();
        }
        driver.settle();
        let mut sum = [0, 0];
        let mut add = |counts: &[(u8, UrrCount)]| {
            sum = [sum[0] + packets(counts), sum[1] + octets(counts)];
        };
        for id in finals {
            match &driver.replies[&id] {
                Ok(Outcome::Counts(counts)) => add(counts),
                other => panic!("no counts but {other:?}"),
            }
        }
        let passing = driver.ask_counts(FlowOp::Query(ObjectId::Session));
        let last = driver.ask_counts(FlowOp::Remove(ObjectId::Session));
        assert_eq!(passing, last);
        add(&last);
        assert_eq!(sum, sent, "seed {seed}");
        assert_eq!(driver.send(key(0), 1), Fate::Missed);
    }
}

/// What a flow names is there and stays.
pub fn what_a_flow_names_is_there_and_stays(make: Make<'_>) {
    let mut driver = make(5);
    let objects = [forward(1), qer(0, [false; 2]), counter(0, Bounds::NONE)];
    for object in &objects {
        assert_eq!(driver.install(Object::Flow(flow(0))), Err(Refusal::Missing));
        assert_eq!(driver.update(object.clone()), Err(Refusal::Missing));
        let id = object.id();
        assert_eq!(driver.ask(A, FlowOp::Remove(id)), Err(Refusal::Missing));
        assert_eq!(driver.ask(A, FlowOp::Query(id)), Err(Refusal::Missing));
        assert_eq!(driver.install(object.clone()), Ok(Outcome::Done));
        assert_eq!(driver.install(object.clone()), Err(Refusal::Exists));
    }
    assert_eq!(driver.install(Object::Flow(flow(0))), Ok(Outcome::Done));
    assert_eq!(driver.install(Object::Flow(flow(0))), Err(Refusal::Exists));
    for object in &objects {
        assert_eq!(driver.ask(A, FlowOp::Remove(object.id())), Err(Refusal::InUse));
    }
    assert_eq!(driver.send(key(0), 10), passed(1));
    assert_eq!(
        driver.ask(A, FlowOp::Remove(ObjectId::Flow(key(0)))),
        Ok(Outcome::Done)
    );
    assert_eq!(driver.send(key(0), 10), Fate::Missed);
    for object in &objects {
        assert!(driver.ask(A, FlowOp::Remove(object.id())).is_ok());
        assert_eq!(driver.ask(A, FlowOp::Query(object.id())), Err(Refusal::Missing));
    }
    // Another session cannot take a key, nor name what is not its own.
    driver.install(forward(1)).unwrap();
    let own = Flow {
        qers: 0,
        urrs: 0,
        ..flow(0)
    };
    driver.install(Object::Flow(own)).unwrap();
    let other = SessionIndex(4);
    assert_eq!(
        driver.ask(other, FlowOp::Install(Object::Flow(own))),
        Err(Refusal::Missing)
    );
    driver.ask(other, FlowOp::Install(forward(2))).unwrap();
    assert_eq!(
        driver.ask(other, FlowOp::Install(Object::Flow(own))),
        Err(Refusal::Exists)
    );
    assert_eq!(driver.send(key(0), 10), passed(1));
}

/// What is beyond the capabilities is refused.
pub fn what_is_beyond_the_capabilities_is_refused(make: Make<'_>) {
    let mut driver = make(6);
    driver.open(Bounds::NONE);
    let can: Capabilities = driver.backend.capabilities();
    let v4 = |fields| {
        AnyKey::V4(FlowKey4 {
            fields,
            ..FlowKey4::default()
        })
    };
    let mut beyond = Vec::new();
    for bit in 0..6 {
        let fields = KeyFields::from_bits(1 << bit);
        if !can.key_fields.contains(fields) {
            beyond.push(Flow {
                key: v4(fields),
                ..flow(0)
            });
        }
    }
    if can.ipv6_flows == 0 {
        beyond.push(Flow {
            key: AnyKey::V6(FlowKey6::default()),
            ..flow(0)
        });
    }
    let mask = |count: u8| (1u64 << count) - 1;
    if can.counters_per_flow < 64 {
        beyond.push(Flow {
            urrs: mask(can.counters_per_flow + 1),
            ..flow(2)
        });
    }
    if can.qers_per_flow < 64 {
        beyond.push(Flow {
            qers: mask(can.qers_per_flow + 1),
            ..flow(2)
        });
    }
    assert!(!beyond.is_empty());
    for flow in beyond {
        assert_eq!(
            driver.install(Object::Flow(flow)),
            Err(Refusal::Unsupported),
            "{flow:?}"
        );
        assert_eq!(driver.send(flow.key, 1), Fate::Missed);
    }
    let room = can.ipv4_flows - 2;
    for number in 0..room {
        assert_eq!(
            driver.install(Object::Flow(flow(2 + number as u8))),
            Ok(Outcome::Done)
        );
    }
    assert_eq!(driver.install(Object::Flow(flow(255))), Err(Refusal::Full));
}

/// Idle flows age and used ones do not.
pub fn idle_flows_age_and_used_ones_do_not(make: Make<'_>) {
    let mut driver = make(7);
    driver.open(Bounds::NONE);
    let short = Flow { idle: 4, ..flow(2) };
    driver.install(Object::Flow(short)).unwrap();
    driver.install(Object::Flow(Flow { idle: 4, ..flow(3) })).unwrap();
    for _ in 0..8 {
        driver.now = driver.now + Tick::LENGTH;
        assert_eq!(driver.send(key(3), 1), passed(1));
        (0..200).for_each(|_| driver.poll());
    }
    let aged = Event::Aged {
        session: A,
        key: key(2),
        counts: Vec::new(),
    };
    assert_eq!(driver.take_events(), [aged]);
    assert_eq!(driver.send(key(2), 1), Fate::Missed);
    assert_eq!(driver.send(key(3), 1), passed(1));
    assert_eq!(driver.install(Object::Flow(short)), Ok(Outcome::Done));
}

/// Watermarks and limits act at the packet.
pub fn watermarks_and_limits_act_at_the_packet(make: Make<'_>) {
    let mut driver = make(8);
    driver.open(Bounds {
        watermarks: Volumes {
            total: Some(1000),
            uplink: Some(300),
            downlink: None,
        },
        limit: Some(CounterLimit {
            octets: Volumes::of_total(2000),
            action: LimitAction::Drop,
        }),
    });
    let watermark = || Event::Watermark {
        session: A,
        counter: 0,
    };
    assert_eq!(driver.send(key(0), 299), passed(1));
    assert_eq!(driver.take_events(), []);
    assert_eq!(driver.send(key(0), 1), passed(1));
    assert_eq!(driver.take_events(), [watermark()]);
    assert_eq!(driver.send(key(1), 700), passed(1));
    assert_eq!(driver.take_events(), [watermark()]);
    assert_eq!(driver.send(key(1), 999), passed(1));
    assert_eq!(driver.take_events(), []);
    assert_eq!(driver.send(key(1), 2), Fate::Dropped(Why::Limit));
    let limit = Event::Limit {
        session: A,
        counter: 0,
        direction: Direction::Downlink,
    };
    assert_eq!(driver.take_events(), [limit]);
    assert_eq!(
        [0, 1].map(|number| driver.send(key(number), 1)),
        [Fate::Dropped(Why::Limit); 2]
    );
    assert_eq!(driver.take_events(), []);
    // Other objects change: the counter stays where it is, and stopped.
    driver.install(qer(2, [false; 2])).unwrap();
    assert_eq!(driver.update(forward(5)), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 1), Fate::Dropped(Why::Limit));
    let last = driver.ask_counts(FlowOp::Update(counter(0, Bounds::NONE)));
    assert_eq!((octets(&last), packets(&last)), (1999, 4));
    assert_eq!(driver.send(key(0), 1), passed(5));
    assert_eq!(octets(&driver.ask_counts(FlowOp::Query(ObjectId::Counter(0)))), 1);
}

/// Limits of all actions.
pub fn limits_of_all_actions(make: Make<'_>) {
    for (action, then) in [
        (LimitAction::Event, None),
        (LimitAction::Trap, Some(Fate::Trapped(Why::Limit))),
        (LimitAction::Drop, Some(Fate::Dropped(Why::Limit))),
    ] {
        let mut driver = make(9);
        let octets = Volumes {
            downlink: Some(100),
            ..Volumes::NONE
        };
        driver.open(Bounds {
            watermarks: Volumes::NONE,
            limit: Some(CounterLimit { octets, action }),
        });
        assert_eq!(driver.send(key(0), 1000), passed(1), "uplink has no limit");
        assert_eq!(driver.send(key(1), 100), passed(1), "it fits");
        assert_eq!(driver.take_events().len(), 1);
        assert_eq!(driver.send(key(1), 1), then.unwrap_or(passed(1)));
        assert_eq!(driver.send(key(0), 1), passed(1), "the other direction continues");
        assert_eq!(driver.take_events(), [], "it is reported once");
    }
}

/// Misses are reported.
pub fn misses_are_reported(make: Make<'_>) {
    let mut driver = make(10);
    assert_eq!(driver.send(key(9), 1), Fate::Missed);
    assert_eq!(driver.take_events(), [Event::Miss { key: key(9) }]);
}

/// Gates marks and buffers act.
pub fn gates_marks_and_buffers_act(make: Make<'_>) {
    let mut driver = make(11);
    driver.open(Bounds::NONE);
    let marked = Flow {
        marking: Some(0),
        ..flow(0)
    };
    assert_eq!(driver.update(Object::Flow(marked)), Ok(Outcome::Done));
    let gate = |closed| Object::Qer {
        slot: 0,
        mark: Mark::qfi_only(9),
        closed,
        metered: [false; 2],
    };
    driver.update(gate([false, true])).unwrap();
    let with_mark = Fate::Passed {
        forward: plain(1),
        mark: Mark::qfi_only(9),
        colour: Colour::Green,
        nat: None,
    };
    assert_eq!(driver.send(key(0), 10), with_mark);
    assert_eq!(driver.send(key(1), 10), Fate::Dropped(Why::Gate));
    driver.update(gate([false; 2])).unwrap();
    for (kind, fate) in [
        (ForwardKind::Buffer, Fate::Trapped(Why::Action)),
        (ForwardKind::Drop, Fate::Dropped(Why::Action)),
    ] {
        let forward = Forward {
            kind,
            ..Forward::DROP
        };
        driver.update(Object::Forward { slot: 0, forward }).unwrap();
        assert_eq!(driver.send(key(1), 10), fate);
    }
    assert_eq!(
        octets(&driver.ask_counts(FlowOp::Query(ObjectId::Session))),
        10,
        "only what left"
    );
}

/// A flow of one 5-tuple with a NAT.
fn translated(number: u8, port: u16) -> Flow {
    let AnyKey::V4(key) = key(number) else {
        panic!("an IPv4 key")
    };
    let fields = KeyFields::TUPLE;
    Flow {
        key: AnyKey::V4(FlowKey4 { fields, ..key }),
        nat: Some(Nat {
            source_port: port,
            ports_add: port.wrapping_mul(3),
            changes: NatFlags::SOURCE_PORT,
            ..Nat::default()
        }),
        ..flow(number)
    }
}

/// A nat goes with its flow.
pub fn a_nat_goes_with_its_flow(make: Make<'_>) {
    let mut driver = make(21);
    driver.open(Bounds::NONE);
    let [first, second] = [translated(2, 1000), translated(2, 2000)];
    if !driver.backend.capabilities().actions.contains(Actions::NAT) {
        assert_eq!(driver.install(Object::Flow(first)), Err(Refusal::Unsupported));
        return;
    }
    let nat = |fate| match fate {
        Fate::Passed { nat, .. } => nat,
        other => panic!("it passes, and not {other:?}"),
    };
    // As often as there is room for flows, and then again: nothing is left behind.
    for _ in 0..driver.backend.capabilities().ipv4_flows {
        driver.install(Object::Flow(first)).unwrap();
        assert_eq!(nat(driver.send(first.key, 10)), first.nat);
        driver.update(Object::Flow(second)).unwrap();
        assert_eq!(nat(driver.send(first.key, 10)), second.nat);
        // The session may have to lie elsewhere for it.
        driver.install(counter(1, Bounds::NONE)).unwrap();
        assert_eq!(nat(driver.send(first.key, 10)), second.nat);
        driver.update(Object::Flow(Flow { nat: None, ..first })).unwrap();
        assert_eq!(nat(driver.send(first.key, 10)), None);
        driver.update(Object::Flow(first)).unwrap();
        driver.ask(A, FlowOp::Remove(ObjectId::Counter(1))).unwrap();
        driver.ask(A, FlowOp::Remove(ObjectId::Flow(first.key))).unwrap();
        assert_eq!(driver.send(first.key, 10), Fate::Missed);
    }
    assert_eq!(nat(driver.send(key(0), 10)), None);
    let wide = Flow { key: key(3), ..first };
    assert_eq!(
        driver.install(Object::Flow(wide)),
        Err(Refusal::Unsupported),
        "one NAT is right for one 5-tuple"
    );
}

/// Mirrors are taken or refused.
pub fn mirrors_are_taken_or_refused(make: Make<'_>) {
    let mut driver = make(22);
    driver.open(Bounds::NONE);
    let mirrored = Forward {
        mirror: Some(PortId(7)),
        ..plain(1)
    };
    let answer = driver.update(Object::Forward {
        slot: 0,
        forward: mirrored,
    });
    let Fate::Passed { forward, .. } = driver.send(key(0), 10) else {
        panic!("it passes")
    };
    if driver.backend.capabilities().actions.contains(Actions::MIRROR) {
        assert_eq!((answer, forward), (Ok(Outcome::Done), mirrored));
    } else {
        assert_eq!((answer, forward), (Err(Refusal::Unsupported), plain(1)));
    }
}

/// A meter has one home.
pub fn a_meter_has_one_home(make: Make<'_>) {
    let mut driver = make(12);
    driver.open(Bounds::NONE);
    assert_eq!(
        driver.update(qer(0, [true, false])),
        Err(Refusal::Missing),
        "flows run without a meter"
    );
    driver.install(qer(1, [true, true])).unwrap();
    let policed = |number| Flow {
        qers: 0b11,
        ..flow(number)
    };
    driver.install(meter(1, Direction::Uplink, 1000)).unwrap();
    assert_eq!(
        driver.install(Object::Flow(policed(3))),
        Err(Refusal::Missing),
        "its meter is elsewhere"
    );
    assert_eq!(driver.install(Object::Flow(policed(2))), Ok(Outcome::Done));
    let up = ObjectId::Meter(1, Direction::Uplink);
    assert_eq!(
        driver.install(meter(1, Direction::Uplink, 9)),
        Err(Refusal::Exists)
    );
    assert_eq!(driver.ask(A, FlowOp::Remove(up)), Err(Refusal::InUse));
    assert_eq!(driver.send(key(2), 700), passed(1));
    let held = driver.ask(A, FlowOp::Query(up));
    driver.ask(A, FlowOp::Remove(ObjectId::Flow(key(2)))).unwrap();
    let last = driver.ask(A, FlowOp::Remove(up));
    assert_eq!(last, held);
    let Ok(Outcome::Meter(state)) = last else {
        panic!("a meter returns what it holds")
    };
    let mut home = make(13);
    home.open(Bounds::NONE);
    home.install(qer(1, [true, true])).unwrap();
    let spec = MeterSpec::Single {
        rate: Rate::ZERO,
        burst: 1000,
    };
    let moved = Object::Meter {
        qer: 1,
        direction: Direction::Uplink,
        spec,
        state: Some(state),
    };
    home.install(moved).unwrap();
    home.install(Object::Flow(policed(2))).unwrap();
    assert_eq!(home.send(key(2), 301), Fate::Dropped(Why::Meter));
    assert_eq!(
        home.send(key(2), 300),
        passed(1),
        "both homes together let the burst pass, and no more"
    );
    assert_eq!(home.update(meter(1, Direction::Uplink, 5000)), Ok(Outcome::Done));
    assert_eq!(
        home.send(key(2), 1),
        Fate::Dropped(Why::Meter),
        "a change is no gift"
    );
}

/// Meters are charged together.
pub fn meters_are_charged_together(make: Make<'_>) {
    let mut driver = make(14);
    driver.open(Bounds::NONE);
    for (slot, burst) in [(1, 1000), (2, 400)] {
        driver.install(qer(slot, [true, false])).unwrap();
        driver.install(meter(slot, Direction::Uplink, burst)).unwrap();
    }
    let flow_of = |number, qers| Object::Flow(Flow { qers, ..flow(number) });
    driver.install(flow_of(2, 0b110)).unwrap();
    driver.install(flow_of(4, 0b010)).unwrap();
    assert_eq!(driver.send(key(2), 400), passed(1));
    assert_eq!(driver.send(key(2), 1), Fate::Dropped(Why::Meter));
    assert_eq!(
        driver.send(key(4), 600),
        passed(1),
        "the other meter lost nothing"
    );
    assert_eq!(driver.send(key(4), 1), Fate::Dropped(Why::Meter));
    assert_eq!(
        octets(&driver.ask_counts(FlowOp::Query(ObjectId::Session))),
        1000,
        "dropped is not counted"
    );
}
