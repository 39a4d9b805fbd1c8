//! Promises about queues. A backend without them refuses what is about them.

use core::time::Duration;

use super::beyond_flows::instance;
use super::driver::{A, Driver, Make, counter, flow, forward, key, octets, packets, passed, qer};
use crate::contract::{
    Departed, Fate, FlowOp, InstanceUses, Management, Managements, Object, ObjectId, Outcome, Queue,
    QueueClass, QueueRoom, QueueTokens, Queues, Refusal, Shaper, SharedNode, SharedNodeId, Why,
};
use crate::meter::Rate;
use crate::{Bounds, Direction, Nanos, SessionIndex};

/// The octets of most packets.
const PACKET: u32 = 50;
/// What a window may have beyond its rate and burst, or lack: the longest packets that come and go.
const SLACK: u64 = 160;
const OTHER: SessionIndex = SessionIndex(4);
/// 100 kbit/s: 12.5 octets in a millisecond.
const RATE: Rate = Rate::from_kbit(100);

const PORT: SharedNode = SharedNode {
    parent: None,
    rate: Rate::UNLIMITED,
    burst: 0,
    weight: 1,
    overhead: 0,
};

/// The class of a number: its priority, too.
fn class(id: u8, octets: u32, management: Management) -> Object {
    let class = QueueClass {
        priority: id,
        weight: 1,
        octets,
        management,
    };
    Object::QueueClass { id, class }
}

const fn node(id: u16, node: SharedNode) -> Object {
    Object::SharedNode {
        id: SharedNodeId(id),
        node,
    }
}

/// One queue below a shared node, for all packets of a direction.
fn one_queue(direction: Direction, below: u16, class: u8, maximum: Rate) -> Object {
    let queue = Queue {
        marking: None,
        shaper: Some(0),
        class,
        guaranteed: Rate::ZERO,
        maximum: Rate::UNLIMITED,
        burst_millis: 1,
    };
    queues(direction, below, maximum, vec![queue])
}

fn queues(direction: Direction, below: u16, maximum: Rate, queues: Vec<Queue>) -> Object {
    let shaper = Shaper {
        qer: 0,
        maximum,
        burst_millis: 1,
    };
    let queues = Queues {
        node: SharedNodeId(below),
        shapers: vec![shaper],
        queues,
    };
    Object::Queues {
        direction,
        queues: Box::new(queues),
        tokens: None,
    }
}

/// The instance that the suite's packets leave by has queues; it is [`InstanceUses::QUEUES`] that says so.
fn queueing_instance() -> Object {
    let Object::Instance { id, mut instance } = instance(1) else {
        unreachable!("it is an instance")
    };
    instance.uses |= InstanceUses::QUEUES;
    Object::Instance { id, instance }
}

/// A backend with classes 0 and 1 and a port, and a session that has no queues yet; `None` where there can be none.
fn with_classes(make: Make<'_>, octets: u32, management: Management) -> Option<(Driver, QueueRoom)> {
    let mut driver = make(51);
    let room = driver.backend.capabilities().queues?;
    if !room.managements.contains(management.needs()) {
        return None;
    }
    for object in [
        class(0, octets, management),
        class(1, octets, management),
        node(0, PORT),
        queueing_instance(),
    ] {
        assert_eq!(driver.ask_of_node(FlowOp::Put(object)), Ok(Outcome::Done));
    }
    assert_eq!(driver.ask_of_node(FlowOp::Fence), Ok(Outcome::Done));
    driver.open(Bounds::NONE);
    Some((driver, room))
}

/// Another session, with the flow `key(number)`.
fn open_other(driver: &mut Driver, number: u8) {
    let objects = [
        forward(1),
        qer(0, [false; 2]),
        counter(0, Bounds::NONE),
        Object::Flow(flow(number)),
    ];
    for object in objects {
        assert_eq!(driver.ask(OTHER, FlowOp::Install(object)), Ok(Outcome::Done));
    }
}

impl Driver {
    /// Lets this time pass, and gives what has left meanwhile.
    fn wait(&mut self, time: Duration) -> Vec<Departed> {
        let end = self.now + time;
        let mut all = Vec::new();
        while self.now < end {
            self.now = Nanos((self.now.0 + 50_000).min(end.0));
            self.poll();
            all.extend(self.backend.departed(self.now));
        }
        all
    }

    fn reported(&self, session: SessionIndex) -> u64 {
        let counts = self.counts.get(&session);
        let count = counts.and_then(|counts| counts.get(&0)).copied();
        count.map_or(0, |count| count.ul_octets + count.dl_octets)
    }
}

fn sum(departed: &[Departed]) -> u64 {
    departed.iter().map(|packet| u64::from(packet.octets)).sum()
}

/// What is about queues is refused where there are none, and what names what is not there.
pub fn queues_are_there_or_refused(make: Make<'_>) {
    let mut driver = make(50);
    let up = Direction::Uplink;
    driver.open(Bounds::NONE);
    if driver.backend.capabilities().queues.is_none() {
        for object in [
            class(0, 1000, Management::TailDrop),
            node(0, PORT),
            queueing_instance(),
        ] {
            assert_eq!(
                driver.ask_of_node(FlowOp::Install(object)),
                Err(Refusal::Unsupported)
            );
        }
        let refused = driver.install(one_queue(up, 0, 0, RATE));
        assert_eq!(refused, Err(Refusal::Unsupported));
        return;
    }
    assert_eq!(driver.install(one_queue(up, 0, 0, RATE)), Err(Refusal::Missing));
    let mut of_node = |object| driver.ask_of_node(FlowOp::Put(object));
    let below = |parent| SharedNode {
        parent: Some(SharedNodeId(parent)),
        ..PORT
    };
    assert_eq!(of_node(node(1, below(0))), Err(Refusal::Missing), "below what");
    assert_eq!(of_node(node(0, PORT)), Ok(Outcome::Done));
    for id in 1..4 {
        assert_eq!(of_node(node(id, below(id - 1))), Ok(Outcome::Done));
    }
    assert_eq!(of_node(node(4, below(3))), Err(Refusal::Unsupported), "too deep");
    assert_eq!(
        of_node(node(3, PORT)),
        Err(Refusal::Unsupported),
        "it stays below"
    );
    let one = class(0, 1000, Management::TailDrop);
    let beyond = class(9, 1000, Management::TailDrop);
    assert_eq!(of_node(beyond), Err(Refusal::Unsupported));
    assert_eq!(of_node(one.clone()), Ok(Outcome::Done));
    assert_eq!(driver.install(one_queue(up, 9, 0, RATE)), Err(Refusal::Missing));
    assert_eq!(driver.install(one_queue(up, 3, 7, RATE)), Err(Refusal::Missing));
    let none = queues(up, 3, RATE, Vec::new());
    assert_eq!(driver.install(none), Err(Refusal::Unsupported));
    assert_eq!(driver.install(one_queue(up, 3, 0, RATE)), Ok(Outcome::Done));
    assert_eq!(driver.install(one_queue(up, 3, 0, RATE)), Err(Refusal::Exists));
    // What a session has queues by stays.
    let other = class(0, 2000, Management::TailDrop);
    for op in [
        FlowOp::Update(other.clone()),
        FlowOp::Remove(ObjectId::QueueClass(0)),
        FlowOp::Remove(ObjectId::SharedNode(SharedNodeId(3))),
        FlowOp::Remove(ObjectId::SharedNode(SharedNodeId(0))),
    ] {
        assert_eq!(driver.ask_of_node(op), Err(Refusal::InUse));
    }
    assert_eq!(
        driver.ask_of_node(FlowOp::Put(one)),
        Ok(Outcome::Done),
        "the same"
    );
    let id = ObjectId::Queues(up);
    assert!(matches!(
        driver.ask(A, FlowOp::Remove(id)),
        Ok(Outcome::Tokens(_))
    ));
    assert_eq!(driver.ask(A, FlowOp::Remove(id)), Err(Refusal::Missing));
    for op in [
        FlowOp::Update(other),
        FlowOp::Remove(ObjectId::SharedNode(SharedNodeId(3))),
        FlowOp::Remove(ObjectId::QueueClass(0)),
    ] {
        assert_eq!(driver.ask_of_node(op), Ok(Outcome::Done));
    }
}

/// What waits keeps its order, and leaves at its rate.
pub fn what_waits_keeps_order_and_rate(make: Make<'_>) {
    let Some((mut driver, _)) = with_classes(make, 10_000, Management::TailDrop) else {
        return;
    };
    let up = Direction::Uplink;
    assert_eq!(
        driver.send(key(0), PACKET),
        passed(1),
        "without queues none waits"
    );
    driver.install(one_queue(up, 0, 0, RATE)).unwrap();
    let mut sent = Vec::new();
    for number in 0..60 {
        let octets = PACKET + number % 20;
        assert_eq!(driver.send(key(0), octets), Fate::Queued);
        sent.push(octets);
    }
    assert_eq!(driver.send(key(1), PACKET), passed(1), "the other direction");
    let mut left = driver.wait(Duration::from_millis(100));
    let due = 1_250;
    assert!(
        (due - SLACK..=due + SLACK).contains(&sum(&left)),
        "{}",
        sum(&left)
    );
    // The same queues at twice the rate: what waits stays where it is.
    let twice = one_queue(up, 0, 0, Rate::from_kbit(200));
    driver.update(twice).unwrap();
    let faster = driver.wait(Duration::from_millis(40));
    let due = 1_000;
    assert!(
        (due - SLACK..=due + SLACK).contains(&sum(&faster)),
        "{}",
        sum(&faster)
    );
    left.extend(faster);
    left.extend(driver.wait(Duration::from_secs(1)));
    let octets: Vec<u32> = left.iter().map(|packet| packet.octets).collect();
    assert_eq!(octets, sent, "all of them, in order");
}

/// Urgent classes go first, and a shared node holds the sum of what is below it.
pub fn urgent_classes_go_first_below_a_shared_node(make: Make<'_>) {
    let Some((mut driver, _)) = with_classes(make, 10_000, Management::TailDrop) else {
        return;
    };
    let up = Direction::Uplink;
    let shared = SharedNode {
        parent: Some(SharedNodeId(0)),
        rate: RATE,
        ..PORT
    };
    driver.ask_of_node(FlowOp::Install(node(1, shared))).unwrap();
    open_other(&mut driver, 4);
    driver.install(one_queue(up, 1, 1, Rate::UNLIMITED)).unwrap();
    let urgent = one_queue(up, 1, 0, Rate::UNLIMITED);
    driver.ask(OTHER, FlowOp::Install(urgent)).unwrap();
    for _ in 0..40 {
        assert_eq!(driver.send(key(0), PACKET), Fate::Queued);
    }
    for _ in 0..10 {
        assert_eq!(driver.send(key(4), PACKET + 10), Fate::Queued);
    }
    let left = driver.wait(Duration::from_millis(100));
    let due = 1_250;
    assert!(
        (due - SLACK..=due + SLACK).contains(&sum(&left)),
        "{}",
        sum(&left)
    );
    let of_urgent: Vec<usize> = (0..left.len())
        .filter(|place| left[*place].octets == PACKET + 10)
        .collect();
    assert_eq!(of_urgent.len(), 10, "all of the urgent ones");
    let last = of_urgent.last().copied().unwrap_or_default();
    assert!(last < 14, "few of the others left before: {last}");
    let faster = SharedNode {
        rate: Rate::from_kbit(400),
        ..shared
    };
    driver.ask_of_node(FlowOp::Update(node(1, faster))).unwrap();
    let left = driver.wait(Duration::from_millis(20));
    let due = 1_000;
    assert!(
        (due - SLACK..=due + SLACK).contains(&sum(&left)),
        "{}",
        sum(&left)
    );
}

/// A packet that finds no room is taken back, and what is reported has left.
pub fn losses_in_queues_are_taken_back(make: Make<'_>) {
    let Some((mut driver, _)) = with_classes(make, 500, Management::TailDrop) else {
        return;
    };
    driver.install(one_queue(Direction::Uplink, 0, 0, RATE)).unwrap();
    let (mut left, mut reported, mut lost) = (Vec::new(), 0, 0);
    for _ in 0..100 {
        match driver.send(key(0), PACKET) {
            Fate::Queued => {}
            Fate::Dropped(Why::Queue) => lost += 1,
            other => panic!("{other:?}"),
        }
        left.extend(driver.wait(Duration::from_millis(1)));
        let now = driver.reported(A);
        assert!(now >= reported, "no count falls");
        assert!(now <= sum(&left), "what waits is not reported");
        reported = now;
        let passing = octets(&driver.ask_counts(FlowOp::Query(ObjectId::Counter(0))));
        left.extend(driver.backend.departed(driver.now));
        assert!(passing <= sum(&left));
    }
    assert!(lost > 20, "{lost} are lost");
    left.extend(driver.wait(Duration::from_millis(200)));
    assert_eq!(left.len() + lost, 100);
    let last = driver.ask_counts(FlowOp::Remove(ObjectId::Session));
    assert_eq!(
        (octets(&last), packets(&last)),
        (sum(&left), left.len() as u64),
        "exactly what has left"
    );
}

/// A session that goes while packets wait lets them leave first, in order and at the expense of its rates.
pub fn what_waits_leaves_before_its_session_goes(make: Make<'_>) {
    let up = Direction::Uplink;
    for id in [
        ObjectId::Generation,
        ObjectId::Flows,
        ObjectId::Queues(up),
        ObjectId::Session,
    ] {
        let Some((mut driver, _)) = with_classes(make, 10_000, Management::TailDrop) else {
            return;
        };
        for number in [0, 1] {
            driver
                .ask(A, FlowOp::Remove(ObjectId::Flow(key(number))))
                .unwrap();
        }
        driver.install(Object::Generation(3)).unwrap();
        let of_three = crate::contract::Flow {
            generation: 3,
            ..flow(0)
        };
        driver.install(Object::Flow(of_three)).unwrap();
        driver.install(one_queue(up, 0, 0, RATE)).unwrap();
        let sent: Vec<u32> = (0..40).map(|number| PACKET + number % 20).collect();
        for &octets in &sent {
            assert_eq!(driver.send(key(0), octets), Fate::Queued);
        }
        let before = driver.backend.departed(driver.now);
        let outcome = driver.ask(A, FlowOp::Remove(id)).unwrap();
        let mut left = before;
        left.extend(driver.wait(Duration::from_millis(1)));
        let octets_left: Vec<u32> = left.iter().map(|packet| packet.octets).collect();
        assert_eq!(octets_left, sent, "{id:?}: all of them, in order");
        match outcome {
            Outcome::Counts(counts) => assert_eq!(octets(&counts), sum(&left)),
            Outcome::Tokens(tokens) => {
                assert!(tokens.shapers[0] < 0, "they have used more than there was");
                continues_with(&mut driver, tokens);
            }
            _ => {
                let counts = driver.ask_counts(FlowOp::Query(ObjectId::Session));
                assert_eq!(octets(&counts), sum(&left));
            }
        }
    }
}

/// Queues that come with tokens below zero let nothing leave before these are earned.
fn continues_with(driver: &mut Driver, tokens: QueueTokens) {
    let mut object = one_queue(Direction::Uplink, 0, 0, RATE);
    if let Object::Queues { tokens: given, .. } = &mut object {
        *given = Some(Box::new(tokens));
    }
    driver.install(object).unwrap();
    assert_eq!(driver.send(key(0), PACKET), Fate::Queued);
    assert_eq!(driver.wait(Duration::from_millis(80)), [], "more had left before");
    assert_eq!(driver.wait(Duration::from_millis(200)).len(), 1);
}

/// A counter that begins anew does not count what has waited before.
pub fn a_counter_that_begins_anew_is_without_what_waits(make: Make<'_>) {
    let Some((mut driver, _)) = with_classes(make, 10_000, Management::TailDrop) else {
        return;
    };
    driver.install(one_queue(Direction::Uplink, 0, 0, RATE)).unwrap();
    for _ in 0..20 {
        assert_eq!(driver.send(key(0), PACKET), Fate::Queued);
    }
    let last = driver.ask_counts(FlowOp::Update(counter(0, Bounds::NONE)));
    assert_eq!(octets(&last), 20 * u64::from(PACKET));
    assert_eq!(driver.wait(Duration::from_millis(1)).len(), 20);
    assert_eq!(octets(&driver.ask_counts(FlowOp::Query(ObjectId::Counter(0)))), 0);
}

/// A full pool takes no more, of whichever session.
pub fn a_full_pool_takes_no_more(make: Make<'_>) {
    let Some((mut driver, room)) = with_classes(make, u32::MAX >> 8, Management::TailDrop) else {
        return;
    };
    let up = Direction::Uplink;
    open_other(&mut driver, 4);
    let slow = Rate::from_kbit(1);
    driver.install(one_queue(up, 0, 0, slow)).unwrap();
    driver
        .ask(OTHER, FlowOp::Install(one_queue(up, 0, 1, slow)))
        .unwrap();
    let (mut waiting, mut lost) = (0, 0);
    for number in 0..room.packets + 40 {
        let by = key(if number % 2 == 0 { 0 } else { 4 });
        match driver.send(by, PACKET) {
            Fate::Queued => waiting += 1,
            Fate::Dropped(Why::Queue) => lost += 1,
            other => panic!("{other:?}"),
        }
        waiting -= driver.backend.departed(driver.now).len() as u32;
    }
    assert!(
        lost > 0 && waiting <= room.packets,
        "{waiting} wait, {lost} are lost"
    );
    // There is room for as many sessions as it says, and no more.
    let queue = Queue {
        marking: Some(0),
        shaper: None,
        class: 0,
        guaranteed: Rate::ZERO,
        maximum: Rate::UNLIMITED,
        burst_millis: 1,
    };
    let eight = queues(up, 0, slow, vec![queue; Queues::MOST]);
    let mut refused = 0;
    for session in 5..15 {
        let session = SessionIndex(session);
        match driver.ask(session, FlowOp::Install(eight.clone())) {
            Ok(Outcome::Done) => {}
            Err(Refusal::Full) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    let has_all = u64::from(room.queues) >= 2 + 10 * Queues::MOST as u64;
    assert_eq!(refused == 0, has_all, "{refused} are refused");
}

/// What waits is lost with the backend's state.
pub fn a_reset_loses_what_waits(make: Make<'_>) {
    let Some((mut driver, _)) = with_classes(make, 10_000, Management::TailDrop) else {
        return;
    };
    driver.install(one_queue(Direction::Uplink, 0, 0, RATE)).unwrap();
    for _ in 0..30 {
        assert_eq!(driver.send(key(0), PACKET), Fate::Queued);
    }
    let left = driver.wait(Duration::from_millis(20));
    assert!(left.len() < 30 && driver.reported(A) <= sum(&left));
    driver.backend.reset();
    driver.settle();
    assert_eq!(driver.wait(Duration::from_secs(1)), [], "nothing would count it");
    assert!(driver.reported(A) <= sum(&left), "nor was it reported");
    // All begins anew.
    for object in [
        class(0, 1000, Management::TailDrop),
        node(0, PORT),
        queueing_instance(),
    ] {
        assert_eq!(driver.ask_of_node(FlowOp::Put(object)), Ok(Outcome::Done));
    }
    driver.ask_of_node(FlowOp::Fence).unwrap();
    driver.open(Bounds::NONE);
    driver.install(one_queue(Direction::Uplink, 0, 0, RATE)).unwrap();
    assert_eq!(driver.send(key(0), PACKET), Fate::Queued);
    assert_eq!(driver.wait(Duration::from_millis(10)).len(), 1);
}

/// What stands in a queue for too long is marked, where its sender heeds that.
pub fn what_waits_for_long_is_marked(make: Make<'_>) {
    let Some((mut driver, room)) = with_classes(make, 10_000, Management::CoDel) else {
        return;
    };
    assert!(room.managements.contains(Managements::CODEL));
    driver.install(one_queue(Direction::Uplink, 0, 0, RATE)).unwrap();
    let (mut left, mut sent) = (Vec::new(), 0);
    for _ in 0..200 {
        driver.now.0 += 1000;
        if driver.backend.process_ect(&key(0), PACKET, driver.now) == Fate::Queued {
            sent += 1;
        }
        left.extend(driver.wait(Duration::from_millis(3)));
    }
    left.extend(driver.wait(Duration::from_secs(2)));
    let marked = left.iter().filter(|packet| packet.is_marked).count();
    assert!(marked > 3, "{marked} of {} are marked", left.len());
    assert_eq!(left.len(), sent, "and none of these dropped");
}
