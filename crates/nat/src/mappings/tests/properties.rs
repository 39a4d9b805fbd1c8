//! Two tables, between which sessions move, and their models at random.

use proptest::prelude::*;

use super::model::{Key, Model};
use super::*;
use crate::mappings::lifetime::ticks;

/// Of a session and an endpoint, to a remote end.
type Packet = (u32, Inside, u8, Segment);

#[derive(Clone, Debug)]
enum Step {
    Set(u32, (bool, bool), (u8, u32, u32)),
    Grant(u32, u32),
    Forget(u32),
    MayMap(u32, bool),
    /// Of which it is known where their mappings are before the first one is sent.
    Burst(Vec<Packet>),
    /// To a port of a mapping, or of a block.
    Receives(bool, u16, Protocol, u8, Segment),
    Asks(u32),
    Advance(u64),
    Age,
    Return(u64),
    Move(u32),
}

fn protocols() -> impl Strategy<Value = Protocol> {
    prop_oneof![3 => Just(Protocol::Tcp), 2 => Just(Protocol::Udp), 1 => Just(Protocol::Icmp)]
}

fn segments() -> impl Strategy<Value = Segment> {
    prop_oneof![
        4 => Just(Segment::Within),
        3 => Just(Segment::Opens),
        1 => Just(Segment::Accepts),
        1 => Just(Segment::Finishes),
        1 => Just(Segment::Resets),
    ]
}

fn insides() -> impl Strategy<Value = Inside> {
    (0_u8..2, 0_u16..24, protocols()).prop_map(|(last, port, protocol)| Inside {
        address: [10, 0, 0, last],
        port,
        protocol,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let session = || 0_u32..3;
    let limits = (1_u8..4, 1_u32..50, prop_oneof![Just(0), Just(3), Just(40)]);
    // Whole ticks, so that moments fall on the first one of a tick, too.
    let advances = prop_oneof![
        (0..40_u64).prop_map(|ticks| ticks << 27),
        (0..8_u64).prop_map(|halves| halves * 500_000_000),
        0..400_000_000_000_u64,
        Just(7_500_000_000_000_u64),
    ];
    let idle = prop_oneof![
        (0..40_u64).prop_map(|ticks| ticks << 27),
        (1..500_u64).prop_map(|secs| secs * 1_000_000_000)
    ];
    let to = prop_oneof![3 => 0..4_u8, 1 => any::<u8>()];
    prop_oneof![
        2 => (session(), any::<(bool, bool)>(), limits)
            .prop_map(|(session, senders, most)| Step::Set(session, senders, most)),
        4 => (session(), 0..8_u32).prop_map(|(session, block)| Step::Grant(session, block)),
        1 => session().prop_map(Step::Forget),
        1 => (session(), any::<bool>()).prop_map(|(session, may)| Step::MayMap(session, may)),
        15 => prop::collection::vec((session(), insides(), to, segments()), 1..5).prop_map(Step::Burst),
        15 => (any::<bool>(), any::<u16>(), protocols(), 0..4_u8, segments())
            .prop_map(|(known, port, protocol, remote, segment)| Step::Receives(known, port, protocol, remote, segment)),
        1 => session().prop_map(Step::Asks),
        6 => advances.prop_map(Step::Advance),
        3 => Just(Step::Age),
        2 => idle.prop_map(Step::Return),
        1 => session().prop_map(Step::Move),
    ]
}

/// Tables and models of two workers, and which of them each session is of.
struct World {
    tables: [Mappings; 2],
    models: [Model; 2],
    place: [usize; 3],
    policies: [SessionPolicy; 3],
    now: Nanos,
}

/// Blocks 0 to 7: of 16, 32 and 128 ports.
fn sized(number: u32) -> (BlockId, PortBlock) {
    let (id, block) = block(number, 7);
    let bits = [4, 4, 4, 5, 4, 5, 4, 7][number as usize];
    (id, PortBlock { bits, ..block })
}

fn far(last: u8) -> [u8; 4] {
    [198, 51, 100, last]
}

impl World {
    fn new() -> Self {
        let small = MappingsConfig {
            mappings: 40,
            remotes: 70,
            ..config()
        };
        Self {
            tables: [Mappings::new(&config()).unwrap(), Mappings::new(&small).unwrap()],
            models: [Model::new(&config()), Model::new(&small)],
            place: [0; 3],
            policies: [policy(); 3],
            now: Nanos::from_secs(1_000),
        }
    }

    fn run(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Set(session, senders, most) => self.set(session, senders, most),
            Step::Grant(session, number) => self.grant(session, number),
            Step::Forget(session) => {
                let place = self.place[session as usize];
                self.tables[place].forget(SessionIndex(session));
                self.models[place].forget(session);
            }
            Step::MayMap(session, may) => {
                let place = self.place[session as usize];
                self.tables[place].may_map(SessionIndex(session), may);
                self.models[place].may_map(session, may);
            }
            Step::Burst(ref packets) => {
                let all: Vec<_> = packets.iter().map(|packet| self.expect(packet)).collect();
                packets
                    .iter()
                    .zip(&all)
                    .for_each(|(packet, expected)| self.send(*packet, expected));
            }
            Step::Receives(known, port, protocol, remote, segment) => {
                self.receives((known, port, protocol), far(remote), segment);
            }
            Step::Asks(session) => {
                let place = self.place[session as usize];
                let asks = self.tables[place].takes_request(SessionIndex(session), now);
                assert_eq!(asks, self.models[place].takes_request(session, now));
            }
            Step::Advance(nanos) => self.now = now + Duration::from_nanos(nanos),
            Step::Age => self.age(),
            Step::Return(nanos) => self.return_idle(Duration::from_nanos(nanos)),
            Step::Move(session) => self.move_over(session),
        }
    }

    fn expect(&self, &(session, inside, ..): &Packet) -> Expected {
        let table = &self.tables[self.place[session as usize]];
        table.expected(SessionIndex(session), &inside)
    }

    fn send(&mut self, (session, inside, remote, segment): Packet, expected: &Expected) {
        let (now, place, index) = (self.now, self.place[session as usize], SessionIndex(session));
        let (table, model) = (&mut self.tables[place], &mut self.models[place]);
        let start = table.keys.port(&inside);
        // A dead mapping of the endpoint makes room before a port is chosen.
        if let Some(number) = table.find_inside(index, &inside)
            && table.lookup_inside(index, &inside, now).is_none()
        {
            table.expire(number, ticks(now));
        }
        let has_room = |(block, port, protocol)| {
            let end = PublicEnd {
                block,
                port,
                protocol,
            };
            table.records.has_room_at(table.keys.public(end))
        };
        let search = ((session, inside), start, &has_room as &dyn Fn(_) -> bool);
        let wanted = model.outbound(search, far(remote), segment, now);
        let sent = table.leave_by(expected, (index, inside), far(remote), segment, now);
        assert_eq!(sent, wanted);
    }

    fn set(
        &mut self,
        session: u32,
        (filters, distinguishes_unsolicited): (bool, bool),
        (blocks, mappings, mappings_per_second): (u8, u32, u32),
    ) {
        let filtering = match filters {
            true => Filtering::AddressDependent,
            false => Filtering::EndpointIndependent,
        };
        let limits = NatLimits {
            blocks,
            mappings,
            mappings_per_second,
        };
        let policy = SessionPolicy {
            filtering,
            distinguishes_unsolicited,
            limits,
        };
        let place = self.place[session as usize];
        self.policies[session as usize] = policy;
        self.tables[place].set_session(SessionIndex(session), policy);
        self.models[place].set_session(session, policy);
    }

    fn grant(&mut self, session: u32, number: u32) {
        let (place, (id, block)) = (self.place[session as usize], sized(number));
        // Control gives a block to one worker.
        if self.models[1 - place].holder(id).is_none() {
            let granted = self.tables[place].grant(SessionIndex(session), id, block, self.now);
            let expected = self.models[place].grant(session, id, block, self.now);
            assert_eq!(granted, expected);
        }
    }

    fn receives(
        &mut self,
        (known, port, protocol): (bool, u16, Protocol),
        remote: [u8; 4],
        segment: Segment,
    ) {
        for place in 0..2 {
            let (table, model) = (&mut self.tables[place], &mut self.models[place]);
            let mut to = (BlockId(u32::from(port % 8)), 1_024 + port % 1_024, protocol);
            if known && !model.entries.is_empty() {
                let (key, entry) = model
                    .entries
                    .iter()
                    .nth(usize::from(port) % model.entries.len())
                    .unwrap();
                to = (entry.block, entry.port, key.1.protocol);
            }
            let expected = model.inbound(to, remote, segment, self.now);
            let received = table.inbound(to.0, to.1, to.2, remote, segment, self.now);
            assert_eq!(received, expected);
        }
    }

    /// Only what is dead goes, but not all of it at once.
    fn age(&mut self) {
        for (table, model) in self.tables.iter_mut().zip(&mut self.models) {
            table.age(self.now);
            for key in model.dead(self.now) {
                if table.find_inside(SessionIndex(key.0), &key.1).is_none() {
                    model.remove(key, self.now);
                }
            }
        }
    }

    fn return_idle(&mut self, idle: Duration) {
        for (table, model) in self.tables.iter_mut().zip(&mut self.models) {
            loop {
                let expected = model.idle(self.now, idle);
                let Some(returned) = table.next_idle_block(self.now, idle) else {
                    assert_eq!(expected, []);
                    break;
                };
                assert!(expected.contains(&returned), "{returned:?} of {expected:?}");
                model.drop_block(returned.0.0, returned.1);
            }
        }
    }

    fn move_over(&mut self, session: u32) {
        let (from, now) = (self.place[session as usize], self.now);
        let (to, index) = (1 - from, SessionIndex(session));
        let Some(owner) = self.models[from].owners.get(&session).cloned() else {
            return;
        };
        let policy = self.policies[session as usize];
        let moved = self.tables[from].export(index, now);
        let keys: Vec<Key> = moved.iter().map(|moved| (session, moved.inside)).collect();
        let live = self.models[from]
            .entries
            .keys()
            .filter(|key| key.0 == session && self.models[from].is_live(key, now));
        assert_eq!(live.count(), keys.len());
        self.tables[to].set_session(index, policy);
        self.models[to].set_session(session, policy);
        for (id, block) in owner.blocks {
            self.tables[to].grant(index, id, block, now).unwrap();
            self.models[to].grant(session, id, block, now).unwrap();
        }
        let added = self.tables[to].import(index, &moved, now);
        let [first, second] = &mut self.models;
        let (other, own) = if from == 0 {
            (first, second)
        } else {
            (second, first)
        };
        assert_eq!(added, own.import(other, &keys, now));
        self.tables[from].forget(index);
        other.forget(session);
        self.place[session as usize] = to;
    }

    fn check(&self) {
        for (table, model) in self.tables.iter().zip(&self.models) {
            table.check();
            let mut ports = std::collections::HashSet::new();
            for (key, entry) in &model.entries {
                let (session, inside) = (SessionIndex(key.0), &key.1);
                assert!(ports.insert((entry.block, entry.port, inside.protocol)));
                let is_live = model.is_live(key, self.now);
                let public = is_live.then_some((entry.address, entry.port));
                assert_eq!(table.lookup_inside(session, inside, self.now), public);
                let found = table.lookup_public(entry.block, entry.port, inside.protocol, self.now);
                assert_eq!(found, is_live.then_some((session, *inside)));
                let number = table.find_inside(session, inside).unwrap();
                assert_eq!(u64::from(table.records.get(number).unwrap().until), entry.until);
                let known = entry.remotes.iter().flatten().rev().copied();
                assert!(table.remotes.of(table.records.latest(number)).eq(known));
            }
            assert_eq!(table.stats().mappings, model.entries.len());
            for (session, owner) in &model.owners {
                let index = SessionIndex(*session);
                assert!(table.blocks(index).eq(owner.blocks.iter().copied()));
                let free = Protocol::ALL.map(|protocol| model.ports(*session, protocol).1 as u32);
                assert_eq!(table.use_of(index).ports_free, free);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_answers_as_its_model_does(steps in prop::collection::vec(steps(), 1..400)) {
        let mut world = World::new();
        for (session, number) in [(0, 0), (0, 1), (1, 3), (1, 7), (2, 2)] {
            world.set(session, (session == 1, session == 2), (4, 60, 0));
            world.grant(session, number);
        }
        for step in &steps {
            world.run(step);
            world.check();
        }
    }
}
