//! Promises about the node's objects, whole sessions, and kinds of counters.

use std::net::{IpAddr, Ipv4Addr};

use super::driver::{A, Make, counter, flow, forward, key, octets, packets, passed, plain, qer};
use crate::contract::{
    Actions, Adjacency, CounterKind, CounterWeight, Fate, Flow, FlowOp, Instance, InstanceUses, Mss, Object,
    ObjectId, Outcome, PathMtu, Refusal, Route, RoutePrefix, RouteTarget, Subject, TooLong, Why,
};
use crate::meter::{Rate, SharedId};
use crate::{
    AdjacencyId, Bounds, ContentId, CounterLimit, Forward, InstanceId, LimitAction, OpId, PortId,
    SessionIndex, Volumes, VrfId,
};

fn adjacency(id: u32, mac: Option<[u8; 6]>) -> Object {
    Object::Adjacency {
        id: AdjacencyId(id),
        adjacency: Adjacency {
            instance: InstanceId(0),
            address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, id as u8))),
            mac,
        },
    }
}

pub(super) fn instance(id: u16) -> Object {
    let instance = Instance {
        port: PortId(0),
        vlans: [Some(100), None],
        tpid: 0x8100,
        vrf: VrfId(0),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        ipv4: None,
        ipv6: None,
        uses: InstanceUses::PLAIN,
        too_long: TooLong::Trap,
        mss: Mss::Off,
        marks: Vec::new(),
    };
    Object::Instance {
        id: InstanceId(id),
        instance: Box::new(instance),
    }
}

fn route(third: u8) -> Object {
    let prefix = RoutePrefix {
        vrf: VrfId(0),
        prefix: IpAddr::V4(Ipv4Addr::new(10, 0, third, 0)),
        length: 24,
    };
    let target = RouteTarget::Link(InstanceId(0));
    Object::Route(Route { prefix, target })
}

fn path_mtu() -> Object {
    Object::PathMtu(PathMtu {
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
        mtu: 1400,
    })
}

fn next_hop(id: u32) -> Object {
    let forward = Forward {
        adjacency: AdjacencyId(id),
        ..plain(id)
    };
    Object::Forward { slot: 0, forward }
}

/// Node requests keep their order with all others.
pub fn node_requests_keep_their_order_with_all(make: Make<'_>) {
    for seed in 1..20 {
        let mut driver = make(seed);
        driver.open(Bounds::NONE);
        driver.update(next_hop(7)).unwrap();
        let epoch = driver.backend.epoch();
        for round in 0..10u32 {
            // What the packets of the session meet follows from what was asked of the node and of it, in this order.
            driver.submit_of(epoch, Subject::Node, FlowOp::Put(adjacency(7, Some([2; 6]))));
            let mut asked: Vec<OpId> = (0..3)
                .map(|session| driver.submit(SessionIndex(session), FlowOp::Put(forward(round))))
                .collect();
            asked.push(driver.submit_of(
                epoch,
                Subject::Node,
                FlowOp::Remove(ObjectId::Adjacency(AdjacencyId(7))),
            ));
            let fence = driver.submit_of(epoch, Subject::Node, FlowOp::Fence);
            while !driver.replies.contains_key(&fence) {
                let fate = driver.send(key(0), 10);
                assert!(
                    matches!(fate, Fate::Passed { .. } | Fate::Trapped(Why::Adjacency)),
                    "{fate:?}"
                );
                driver.poll();
            }
            assert_eq!(
                driver.send(key(0), 10),
                Fate::Trapped(Why::Adjacency),
                "seed {seed}"
            );
            driver.settle();
            for id in asked {
                assert_eq!(driver.replies[&id], Ok(Outcome::Done), "seed {seed}");
            }
        }
    }
}

/// Objects have their subjects.
pub fn objects_have_their_subjects(make: Make<'_>) {
    let mut driver = make(31);
    let can = driver.backend.capabilities();
    for object in [adjacency(1, None), instance(1), route(1), path_mtu()] {
        let id = object.id();
        assert_eq!(
            driver.install(object.clone()),
            Err(Refusal::Unsupported),
            "no session has it"
        );
        for missing in [
            FlowOp::Update(object.clone()),
            FlowOp::Remove(id),
            FlowOp::Query(id),
        ] {
            assert_eq!(driver.ask_of_node(missing), Err(Refusal::Missing));
        }
        assert_eq!(
            driver.ask_of_node(FlowOp::Install(object.clone())),
            Ok(Outcome::Done)
        );
        assert_eq!(
            driver.ask_of_node(FlowOp::Install(object.clone())),
            Err(Refusal::Exists)
        );
        assert_eq!(driver.ask_of_node(FlowOp::Update(object)), Ok(Outcome::Done));
        assert_eq!(driver.ask_of_node(FlowOp::Query(id)), Ok(Outcome::Done));
        assert_eq!(driver.ask_of_node(FlowOp::Remove(id)), Ok(Outcome::Done));
    }
    for object in [forward(1), counter(0, Bounds::NONE)] {
        assert_eq!(
            driver.ask_of_node(FlowOp::Install(object)),
            Err(Refusal::Unsupported),
            "the node has none"
        );
    }
    for object in [adjacency(can.adjacencies, None), instance(can.instances)] {
        assert_eq!(
            driver.ask_of_node(FlowOp::Install(object)),
            Err(Refusal::Unsupported),
            "beyond its numbers"
        );
    }
    assert_eq!(driver.ask_of_node(FlowOp::Fence), Ok(Outcome::Done));
}

/// Instances clamp segment sizes, or are refused.
pub fn instances_clamp_or_are_refused(make: Make<'_>) {
    let mut driver = make(40);
    let can = driver.backend.capabilities();
    let clamps = match can.actions.contains(Actions::CLAMP_MSS) {
        true => Ok(Outcome::Done),
        false => Err(Refusal::Unsupported),
    };
    let with = |mss| {
        let Object::Instance { id, mut instance } = instance(1) else {
            panic!("an instance")
        };
        instance.mss = mss;
        Object::Instance { id, instance }
    };
    for mss in [Mss::Auto, Mss::AtMost(1400)] {
        assert_eq!(driver.ask_of_node(FlowOp::Put(with(mss))), clamps, "{mss:?}");
    }
    let without = driver.ask_of_node(FlowOp::Put(with(Mss::Off)));
    assert_eq!(without, Ok(Outcome::Done));
}

/// Put installs or updates.
pub fn put_installs_or_updates(make: Make<'_>) {
    let mut driver = make(32);
    for object in [forward(1), qer(0, [false; 2]), counter(0, Bounds::NONE)] {
        assert_eq!(driver.ask(A, FlowOp::Put(object)), Ok(Outcome::Done));
    }
    assert_eq!(
        driver.ask(A, FlowOp::Put(Object::Flow(flow(0)))),
        Ok(Outcome::Done)
    );
    assert_eq!(
        driver.ask(A, FlowOp::Put(Object::Flow(flow(0)))),
        Ok(Outcome::Done)
    );
    assert_eq!(driver.send(key(0), 10), passed(1));
    assert_eq!(driver.ask(A, FlowOp::Put(forward(2))), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 10), passed(2));
    let counts = driver.ask_counts(FlowOp::Put(counter(0, Bounds::NONE)));
    assert_eq!((packets(&counts), octets(&counts)), (2, 20), "as an update does");
}

/// A packet without a next hop traps.
pub fn a_packet_without_a_next_hop_traps(make: Make<'_>) {
    let mut driver = make(33);
    driver.open(Bounds::NONE);
    driver.update(next_hop(9)).unwrap();
    let traps = Fate::Trapped(Why::Adjacency);
    assert_eq!(driver.send(key(0), 10), traps, "it is not there");
    driver.ask_of_node(FlowOp::Install(adjacency(9, None))).unwrap();
    assert_eq!(driver.send(key(0), 10), traps, "it is not resolved");
    driver
        .ask_of_node(FlowOp::Update(adjacency(9, Some([2; 6]))))
        .unwrap();
    assert!(matches!(driver.send(key(0), 10), Fate::Passed { .. }));
    driver
        .ask_of_node(FlowOp::Remove(ObjectId::Adjacency(AdjacencyId(9))))
        .unwrap();
    assert_eq!(driver.send(key(0), 10), traps, "it is gone");
    let counts = driver.ask_counts(FlowOp::Query(ObjectId::Session));
    assert_eq!(packets(&counts), 1, "what traps is not counted");
}

/// All flows of a session go at once.
pub fn all_flows_of_a_session_go_at_once(make: Make<'_>) {
    let mut driver = make(34);
    driver.open(Bounds::NONE);
    let other = SessionIndex(4);
    for object in [
        forward(2),
        qer(0, [false; 2]),
        counter(0, Bounds::NONE),
        Object::Flow(flow(5)),
    ] {
        driver.ask(other, FlowOp::Install(object)).unwrap();
    }
    assert_eq!(driver.send(key(0), 10), passed(1));
    assert_eq!(driver.ask(A, FlowOp::Remove(ObjectId::Flows)), Ok(Outcome::Done));
    assert_eq!(
        [0, 1].map(|number| driver.send(key(number), 10)),
        [Fate::Missed; 2]
    );
    assert_eq!(driver.send(key(5), 10), passed(2), "those of others stay");
    // What they named stays, and is not in use.
    assert_eq!(driver.install(forward(3)), Err(Refusal::Exists));
    let counts = driver.ask_counts(FlowOp::Remove(ObjectId::Counter(0)));
    assert_eq!(packets(&counts), 1);
    driver.install(counter(0, Bounds::NONE)).unwrap();
    driver.install(Object::Flow(flow(0))).unwrap();
    assert_eq!(driver.send(key(0), 10), passed(1));
    let nobody = SessionIndex(9);
    assert_eq!(
        driver.ask(nobody, FlowOp::Remove(ObjectId::Flows)),
        Err(Refusal::Missing)
    );
}

/// Flows are of their session's generation.
pub fn flows_are_of_their_sessions_generation(make: Make<'_>) {
    let mut driver = make(39);
    driver.open(Bounds::NONE);
    let of = |number, generation| {
        Object::Flow(Flow {
            generation,
            ..flow(number)
        })
    };
    assert_eq!(
        driver.install(of(2, 7)),
        Err(Refusal::Stale),
        "without one it is 0"
    );
    assert_eq!(
        driver.ask(A, FlowOp::Query(ObjectId::Generation)),
        Err(Refusal::Missing)
    );
    assert_eq!(driver.install(Object::Generation(7)), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 10), Fate::Missed, "it was decided before");
    assert_eq!(driver.install(of(0, 0)), Err(Refusal::Stale));
    assert_eq!(driver.install(of(0, 7)), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 10), passed(1));
    assert_eq!(driver.update(Object::Generation(7)), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 10), passed(1), "it is the same");
    assert_eq!(driver.update(Object::Generation(8)), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 10), Fate::Missed);
    assert_eq!(
        driver.ask(A, FlowOp::Remove(ObjectId::Generation)),
        Ok(Outcome::Done)
    );
    assert_eq!(driver.install(of(0, 8)), Err(Refusal::Stale));
    assert_eq!(driver.install(of(0, 0)), Ok(Outcome::Done));
    let counts = driver.ask_counts(FlowOp::Query(ObjectId::Session));
    assert_eq!(packets(&counts), 2, "counters stay");
}

/// Counters are reported by themselves.
pub fn counters_are_reported_by_themselves(make: Make<'_>) {
    let mut driver = make(35);
    let every = driver.backend.capabilities().counts_every;
    driver.open(Bounds::NONE);
    for _ in 0..3 {
        driver.send(key(0), 100);
    }
    driver.settle();
    let reported = |driver: &super::Driver| driver.counts.get(&A).and_then(|counts| counts.get(&0)).copied();
    let Some(every) = every else {
        assert_eq!(reported(&driver), None);
        return;
    };
    driver.now = driver.now + every;
    driver.settle();
    let count = reported(&driver).expect("it is reported");
    assert_eq!((count.ul_packets, count.ul_octets), (3, 300));
    driver.send(key(0), 100);
    driver.now = driver.now + every;
    driver.settle();
    let count = reported(&driver).expect("it is reported");
    assert_eq!(
        (count.ul_packets, count.ul_octets),
        (4, 400),
        "all since it was installed"
    );
}

/// Counters of all kinds.
pub fn counters_of_all_kinds(make: Make<'_>) {
    let mut driver = make(36);
    let can = driver.backend.capabilities();
    driver.open(Bounds::NONE);
    let counter_of = |slot, kind| Object::Counter {
        slot,
        kind,
        bounds: Bounds::NONE,
    };
    let events = CounterKind {
        events: true,
        ..CounterKind::default()
    };
    let before = CounterKind {
        before_qos: true,
        ..CounterKind::default()
    };
    let weight = CounterKind {
        weight: Some(CounterWeight { of: 1, times: 3 }),
        ..before
    };
    for kind in [events, before] {
        if !can.can_count(kind) {
            assert_eq!(driver.install(counter_of(1, kind)), Err(Refusal::Unsupported));
        }
    }
    if ![events, before, weight]
        .into_iter()
        .all(|kind| can.can_count(kind))
    {
        return;
    }
    assert_eq!(
        driver.install(counter_of(4, weight)),
        Err(Refusal::Missing),
        "of what"
    );
    driver.install(counter_of(1, CounterKind::default())).unwrap();
    driver.install(counter_of(2, events)).unwrap();
    driver.install(counter_of(3, before)).unwrap();
    driver.install(counter_of(4, weight)).unwrap();
    assert_eq!(
        driver.install(counter_of(5, CounterKind::default())),
        Err(Refusal::Unsupported),
        "those before QoS are the last"
    );
    assert_eq!(
        driver.update(counter_of(2, CounterKind::default())),
        Err(Refusal::Unsupported)
    );
    assert_eq!(
        driver.ask(A, FlowOp::Remove(ObjectId::Counter(1))),
        Err(Refusal::InUse),
        "another weighs for it"
    );
    let counted = Flow {
        urrs: 0b1_1111,
        ..flow(0)
    };
    driver.update(Object::Flow(counted)).unwrap();
    assert_eq!(driver.send(key(0), 100), passed(1));
    let gate = Object::Qer {
        slot: 0,
        mark: crate::Mark::qfi_only(0),
        closed: [true; 2],
        metered: [false; 2],
    };
    driver.update(gate).unwrap();
    assert_eq!(driver.send(key(0), 50), Fate::Dropped(Why::Gate));
    let counts = driver.ask_counts(FlowOp::Query(ObjectId::Session));
    let of = |slot: u8| counts.iter().find(|(of, _)| *of == slot).expect("it is there").1;
    assert_eq!((of(0).ul_packets, of(0).ul_octets), (1, 100));
    assert_eq!(of(1).ul_octets, 300, "three times");
    assert_eq!(of(2).ul_octets, 1, "one for each packet, whatever its length");
    assert_eq!(
        (of(3).ul_packets, of(3).ul_octets),
        (2, 150),
        "also what the gate drops"
    );
}

/// Shared meters are shared.
pub fn shared_meters_are_shared(make: Make<'_>) {
    let mut driver = make(37);
    driver.open(Bounds::NONE);
    let shared = |id, burst| Object::SharedMeter {
        id: SharedId(id),
        rates: [Rate::ZERO; 2],
        bursts: [burst; 2],
    };
    if driver.backend.capabilities().shared_meters == 0 {
        assert_eq!(
            driver.ask_of_node(FlowOp::Install(shared(1, 1000))),
            Err(Refusal::Unsupported)
        );
        assert_eq!(
            driver.install(Object::Share(SharedId(1))),
            Err(Refusal::Unsupported)
        );
        return;
    }
    let other = SessionIndex(4);
    for object in [
        forward(2),
        qer(0, [false; 2]),
        counter(0, Bounds::NONE),
        Object::Flow(flow(4)),
    ] {
        driver.ask(other, FlowOp::Install(object)).unwrap();
    }
    driver.ask_of_node(FlowOp::Install(shared(1, 1000))).unwrap();
    for session in [A, other] {
        driver
            .ask(session, FlowOp::Install(Object::Share(SharedId(1))))
            .unwrap();
    }
    assert_eq!(driver.send(key(0), 600), passed(1));
    assert_eq!(
        driver.send(key(4), 401),
        Fate::Dropped(Why::Meter),
        "the others' tokens"
    );
    assert_eq!(driver.send(key(4), 400), passed(2));
    let id = ObjectId::SharedMeter(SharedId(1));
    assert_eq!(
        driver.ask_of_node(FlowOp::Query(id)),
        Ok(Outcome::Demand([1401, 0])),
        "what was refused was wanted, too"
    );
    assert_eq!(driver.ask_of_node(FlowOp::Query(id)), Ok(Outcome::Demand([0, 0])));
    // Two meters in the place of one.
    driver.ask_of_node(FlowOp::Install(shared(2, 300))).unwrap();
    driver.ask_of_node(FlowOp::Update(shared(1, 2500))).unwrap();
    assert_eq!(
        driver.send(key(0), 1),
        Fate::Dropped(Why::Meter),
        "a change is no gift"
    );
    driver.ask_of_node(FlowOp::Remove(id)).unwrap();
    driver.ask_of_node(FlowOp::Install(shared(1, 2500))).unwrap();
    let none = SharedId::NONE;
    let chain = Object::SharedChain {
        id: SharedId(3),
        chain: [SharedId(1), SharedId(2), none, none],
    };
    driver.ask_of_node(FlowOp::Install(chain)).unwrap();
    driver.update(Object::Share(SharedId(3))).unwrap();
    assert_eq!(driver.send(key(0), 301), Fate::Dropped(Why::Meter));
    assert_eq!(driver.send(key(0), 300), passed(1));
    assert_eq!(driver.ask(A, FlowOp::Remove(ObjectId::Share)), Ok(Outcome::Done));
    assert_eq!(driver.send(key(0), 3000), passed(1));
}

/// Contents are taken.
pub fn contents_are_taken(make: Make<'_>) {
    let mut driver = make(38);
    driver.open(Bounds::NONE);
    let of_content = |number, content| Flow {
        content: ContentId(content),
        ..flow(number)
    };
    if !driver
        .backend
        .capabilities()
        .actions
        .contains(Actions::COUNT_CONTENTS)
    {
        assert_eq!(
            driver.install(Object::Flow(of_content(2, 7))),
            Err(Refusal::Unsupported)
        );
        return;
    }
    driver.install(Object::Flow(of_content(2, 7))).unwrap();
    driver.install(Object::Flow(of_content(3, 8))).unwrap();
    driver.install(Object::Flow(of_content(4, 7))).unwrap();
    for (number, octets) in [(2, 100), (3, 20), (4, 3), (0, 3000)] {
        assert_eq!(driver.send(key(number), octets), passed(1));
        // What makes the session larger moves it.
        driver.install(qer(number + 1, [false; 2])).unwrap();
    }
    let mut take = |op| match driver.ask(A, op) {
        Ok(Outcome::Contents(mut contents)) => {
            contents.sort_by_key(|usage| usage.content);
            contents
                .iter()
                .map(|usage| (usage.content.0, usage.count.ul_octets, usage.count.dl_octets))
                .collect::<Vec<_>>()
        }
        other => panic!("no contents but {other:?}"),
    };
    assert_eq!(take(FlowOp::Query(ObjectId::Contents)), [(7, 103, 0), (8, 0, 20)]);
    let again = take(FlowOp::Query(ObjectId::Contents));
    assert!(again.iter().all(|(_, up, down)| up + down == 0), "{again:?}");
    // A packet that a limit does not let pass counts nowhere.
    let limit = CounterLimit {
        octets: Volumes::of_total(0),
        action: LimitAction::Drop,
    };
    let full = Bounds {
        watermarks: Volumes::NONE,
        limit: Some(limit),
    };
    driver.update(counter(0, full)).unwrap();
    assert_eq!(driver.send(key(2), 1), Fate::Dropped(Why::Limit));
    let Ok(Outcome::Contents(contents)) = driver.ask(A, FlowOp::Query(ObjectId::Contents)) else {
        panic!("no contents")
    };
    assert!(contents.iter().all(crate::ContentUsage::is_nothing));
}
