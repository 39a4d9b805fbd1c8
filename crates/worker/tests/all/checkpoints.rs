//! Checkpoints: the counts that a worker pushes by itself, once in an interval and only where they have changed.

use crate::common;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::meter::{PacketRate, PacketsPer, TimeUnit};
use flow::{OpId, SessionIndex, UrrCount};
use rules::SessionRules;
use rules::image::{ImmediateActions, PacketsLeft, SessionChange};
use rules::model::{OptionalRates, PacketRates, PdrUpdate, Qer, QerId, UrrId};
use rules::testing::{self, N3_ADDRESS, UserPacket, tunnelled};
use worker::{COUNTS_BUFFERS, Command, Counted, Event, LEAST_COUNTS, SessionCount};

use common::World;
use common::one_session::{REMOTE, events, of_ue, session};

const INTERVAL: Duration = Duration::from_secs(1);
const SESSIONS: u32 = 600;

fn ue(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a2d_0100 + number)
}

/// The session with this number.
fn rules_of(number: u32) -> SessionRules {
    let mut rules = session();
    of_ue(&mut rules, 0x2000 + number, ue(number));
    rules
}

/// The same with a QER that lets ten packets a minute pass uplink.
fn rated_rules_of(number: u32, has_urrs: bool) -> SessionRules {
    let mut rules = rules_of(number);
    let base = PacketsPer {
        packets: 10,
        unit: TimeUnit::Minute,
    };
    let rate = PacketRate {
        base,
        additional: None,
    };
    let optional = OptionalRates {
        packet_rates: Some(PacketRates {
            ul: Some(rate),
            dl: None,
        }),
        ..OptionalRates::default()
    };
    let qer = Qer {
        optional: optional.into(),
        ..Qer::new(QerId(7))
    };
    rules.create_qer(qer).expect("it is new");
    let ids: Vec<_> = rules.pdrs().iter().map(|pdr| pdr.id).collect();
    for id in ids {
        let update = PdrUpdate {
            qers: Some(vec![QerId(7)]),
            urrs: (!has_urrs).then(Vec::new),
            ..PdrUpdate::new(id)
        };
        rules.update_pdr(update).expect("it is there");
    }
    if !has_urrs {
        rules.remove_urr(UrrId(1)).expect("it is there");
    }
    rules
}

/// A worker that makes checkpoints, with sessions, and what it has pushed of them.
struct Case {
    world: World,
    counts: BTreeMap<SessionIndex, UrrCount>,
    packets: BTreeMap<SessionIndex, PacketsLeft>,
    /// Events with counts.
    pushed: usize,
    /// Lists that are with control.
    lists: Vec<Vec<SessionCount>>,
}

/// The interval that is configured for a look at all sessions in this time: what is looked at has the rest to get into
/// a store.
fn configured(look: Duration) -> Duration {
    look * 8 / 7
}

impl Case {
    fn new(sessions: u32) -> Self {
        Self::with(sessions, INTERVAL, 64 << 20)
    }

    fn with(sessions: u32, interval: Duration, octets: u64) -> Self {
        let mut world = World::with(testing::network(), 1, |config| {
            (config.max_sessions, config.own_sessions) = (SESSIONS as usize + 8, SESSIONS as usize + 8);
            (config.checkpoint_interval, config.checkpoint_octets) = (Some(configured(interval)), octets);
        });
        for number in 0..sessions {
            world.install(number, rules_of(number));
        }
        Self {
            world,
            counts: BTreeMap::new(),
            packets: BTreeMap::new(),
            pushed: 0,
            lists: (0..COUNTS_BUFFERS)
                .map(|_| Vec::with_capacity(LEAST_COUNTS))
                .collect(),
        }
    }

    /// The same, whose worker has its lists.
    fn ready(sessions: u32) -> Self {
        let mut case = Self::new(sessions);
        case.give();
        case
    }

    /// Gives the worker the lists that control has.
    fn give(&mut self) {
        for list in std::mem::take(&mut self.lists) {
            let list = if list.capacity() == 0 {
                Vec::with_capacity(LEAST_COUNTS)
            } else {
                list
            };
            let commands = &mut self.world.controls[0].commands;
            commands.push(Command::CountsRoom(list)).expect("there is room");
        }
        self.world.poll();
    }

    fn send(&mut self, number: u32) {
        let user = UserPacket::udp(ue(number), REMOTE, 1000, 53).bytes();
        let packet = tunnelled(N3_ADDRESS, 0x2000 + number, 255, Some([0x10, 9]), &[], &user);
        assert_eq!(self.world.send(0, &packet).len(), 1);
    }

    /// Takes the counts that were pushed.
    fn take(&mut self) {
        for event in events(&mut self.world) {
            let Event::Counted { mut counts } = event else {
                continue;
            };
            self.pushed += 1;
            for count in counts.drain(..) {
                match count.counted {
                    Counted::Urr(urr, counted) => {
                        assert_eq!(urr, UrrId(1));
                        self.counts.insert(count.session, counted);
                    }
                    Counted::Packets(left) => drop(self.packets.insert(count.session, left)),
                }
            }
            self.lists.push(counts);
        }
    }

    /// Lets time pass, with a poll each 10 ms. Control reads events, and gives lists back if `gives`.
    fn pass(&mut self, time: Duration, gives: bool) {
        for _ in 0..time.as_millis() / 10 {
            self.world.now = self.world.now + Duration::from_millis(10);
            self.world.poll();
            self.take();
            if gives && !self.lists.is_empty() {
                self.give();
            }
        }
    }

    /// What a session has counted.
    fn counted(&mut self, number: u32) -> UrrCount {
        self.world.query(0, SessionIndex(number)).counters[0].1
    }
}

#[test]
fn counts_that_have_changed_are_pushed_within_the_interval_and_no_others() {
    let mut case = Case::ready(SESSIONS);
    assert!(INTERVAL + INTERVAL / 16 < configured(INTERVAL));
    case.pass(3 * INTERVAL, true);
    assert_eq!((case.counts.len(), case.pushed), (0, 0));
    for round in 0..3 {
        let active = [3 + round, 77, 599];
        active.into_iter().for_each(|number| case.send(number));
        case.pass(INTERVAL + INTERVAL / 16, true);
        let told = std::mem::take(&mut case.counts);
        assert_eq!(told.keys().map(|session| session.0).collect::<Vec<_>>(), active);
        for (session, count) in told {
            assert_eq!(case.counted(session.0), count);
        }
    }
    let pushed = case.pushed;
    case.pass(3 * INTERVAL, true);
    assert_eq!((case.counts.len(), case.pushed), (0, pushed));
    case.world.assert_conserved();
}

#[test]
fn one_event_has_the_counts_of_many_sessions() {
    let mut case = Case::ready(SESSIONS);
    (0..SESSIONS).for_each(|number| case.send(number));
    case.take();
    case.give();
    case.pass(INTERVAL + INTERVAL / 16, true);
    assert_eq!(case.counts.len(), SESSIONS as usize);
    assert!(case.pushed <= 64, "{} events", case.pushed);
    for number in 0..SESSIONS {
        let counted = case.counted(number);
        assert_eq!(case.counts[&SessionIndex(number)], counted);
    }
}

#[test]
fn without_lists_the_look_pauses_and_misses_nothing() {
    let mut case = Case::new(SESSIONS);
    (0..SESSIONS).for_each(|number| case.send(number));
    case.pass(2 * INTERVAL, false);
    assert_eq!(case.pushed, 0);
    case.give();
    case.pass(2 * INTERVAL, false);
    assert_eq!(case.pushed, COUNTS_BUFFERS, "until they are all used");
    assert_eq!(case.counts.len(), COUNTS_BUFFERS * LEAST_COUNTS);
    case.pass(2 * INTERVAL, true);
    assert_eq!(case.counts.len(), SESSIONS as usize);
}

#[test]
fn without_room_for_events_nothing_is_lost() {
    let mut case = Case::ready(SESSIONS);
    (0..SESSIONS).for_each(|number| case.send(number));
    let queries = 140;
    for op in 0..queries {
        let session = SessionIndex(op % SESSIONS);
        let op = OpId(u64::from(op));
        let query = Command::Query { op, session };
        case.world.controls[0]
            .commands
            .push(query)
            .expect("there is room");
    }
    for _ in 0..200 {
        case.world.now = case.world.now + Duration::from_millis(10);
        case.world.poll();
    }
    let lost = case.world.workers[0].stats().events_lost;
    assert_eq!(lost, 0);
    case.take();
    case.give();
    case.pass(2 * INTERVAL, true);
    assert_eq!(case.counts.len(), SESSIONS as usize);
    assert_eq!(case.world.workers[0].stats().events_lost, 0);
}

/// Wherever the look is when sessions are removed: not yet there, their counts in a list, or pushed.
#[test]
fn counts_do_not_come_behind_the_response_to_a_change() {
    let mut before = 0;
    for wait in 0..=60 {
        let mut case = Case::ready(8);
        (0..8).for_each(|number| case.send(number));
        case.pass(Duration::from_millis(10) * wait, false);
        before += usize::from(case.counts.len() == 8);
        remove_four(&mut case);
        assert!((4..8).all(|number| case.counts.contains_key(&SessionIndex(number))));
    }
    assert!(
        (1..60).contains(&before),
        "{before} times their counts came before"
    );
}

/// What a URR has counted, of a session without packet rates.
fn urr_of(counted: Counted) -> UrrCount {
    match counted {
        Counted::Urr(_, count) => count,
        Counted::Packets(left) => panic!("{left:?}"),
    }
}

/// Removes sessions 0 to 3, and takes the events of two intervals.
fn remove_four(case: &mut Case) {
    for number in 0..4 {
        let command = Command::Session {
            op: OpId(number),
            change: SessionChange::Remove(SessionIndex(number as u32)),
        };
        let commands = &mut case.world.controls[0].commands;
        commands.push(command).expect("there is room");
    }
    let mut removed = Vec::new();
    for _ in 0..200 {
        case.world.now = case.world.now + Duration::from_millis(10);
        case.world.poll();
        for event in events(&mut case.world) {
            match event {
                Event::Applied { op, .. } => removed.push(op.0 as u32),
                Event::Counted { counts } => {
                    assert!(counts.iter().all(|count| !removed.contains(&count.session.0)));
                    let counts = counts.iter().map(|count| (count.session, urr_of(count.counted)));
                    case.counts.extend(counts);
                }
                _ => {}
            }
        }
    }
    assert_eq!(removed, [0, 1, 2, 3]);
}

#[test]
fn lists_that_are_too_short_or_too_many_come_back() {
    let mut case = Case::ready(1);
    let mut come_back = |list: Vec<SessionCount>| {
        let commands = &mut case.world.controls[0].commands;
        commands.push(Command::CountsRoom(list)).expect("there is room");
        case.world.poll();
        let back = events(&mut case.world);
        back.iter()
            .filter(|event| matches!(event, Event::Counted { counts } if counts.is_empty()))
            .count()
    };
    assert_eq!(come_back(Vec::with_capacity(LEAST_COUNTS)), 1, "it has four");
    let mut plain = World::new();
    plain.tell_all(|| Command::CountsRoom(Vec::with_capacity(LEAST_COUNTS)));
    let back = events(&mut plain);
    assert!(matches!(&back[..], [Event::Counted { counts }] if counts.capacity() >= LEAST_COUNTS));
    let mut case = Case::new(1);
    case.lists.clear();
    case.lists.push(Vec::with_capacity(1));
    case.give();
    case.take();
    assert_eq!((case.pushed, case.counts.len()), (1, 0));
}

#[test]
fn after_an_absence_one_round_follows_and_not_many() {
    let mut case = Case::ready(4);
    case.send(2);
    case.world.now = case.world.now + 100 * INTERVAL;
    case.pass(3 * INTERVAL, true);
    assert_eq!((case.pushed, case.counts.len()), (1, 1));
}

#[test]
fn a_session_that_counts_much_is_pushed_before_its_turn() {
    let most = 8 << 10;
    let mut case = Case::with(4, Duration::from_secs(1_000_000), most);
    case.give();
    let octets = |count: UrrCount| count.ul_octets + count.dl_octets;
    let mut user = UserPacket::udp(ue(2), REMOTE, 1000, 53);
    user.payload = vec![0; 1000];
    let user = user.bytes();
    let up = tunnelled(N3_ADDRESS, 0x2002, 255, Some([0x10, 9]), &[], &user);
    let up = (0, &up, user.len() as u64);
    let mut user = UserPacket::udp(REMOTE, ue(2), 53, 1000);
    user.payload = vec![0; 900];
    let down = user.bytes();
    let down = (1, &down, down.len() as u64);
    let mut sent = 0;
    for number in 0..100 {
        let (port, packet, length) = match number % 3 {
            0 => down,
            _ => up,
        };
        assert_eq!(case.world.send(port, packet).len(), 1);
        sent += length;
        case.take();
        case.give();
        let known = case.counts.get(&SessionIndex(2)).copied().unwrap_or_default();
        assert!(
            octets(known) <= sent && octets(known) + most > sent,
            "{known:?} of {sent}"
        );
    }
    assert!((10..60).contains(&case.pushed), "{} events", case.pushed);
    assert_eq!(case.counts.len(), 1);
    case.world.assert_conserved();
}

#[test]
fn what_is_left_of_packet_rates_is_pushed_after_a_change_and_when_packets_pass() {
    const RATED: u32 = 9;
    for has_urrs in [false, true] {
        let mut case = Case::ready(4);
        let rules = rated_rules_of(RATED, has_urrs);
        case.world.install(RATED, rules.clone());
        let pushed = |case: &mut Case| {
            case.pass(INTERVAL + INTERVAL / 16, true);
            (
                case.counts.remove(&SessionIndex(RATED)).is_some(),
                case.packets.remove(&SessionIndex(RATED)),
            )
        };
        let left_of = |left: Option<PacketsLeft>| left.map(|left| left.states[0].base.left);
        let (is_counted, left) = pushed(&mut case);
        assert_eq!((is_counted, left_of(left)), (has_urrs, Some(10)), "installed");
        assert_eq!(pushed(&mut case), (false, None), "nothing has passed");
        for left in [9, 8] {
            case.send(RATED);
            let (is_counted, told) = pushed(&mut case);
            assert_eq!((is_counted, left_of(told)), (has_urrs, Some(left)));
            assert_eq!(
                told,
                case.world.query(0, SessionIndex(RATED)).packets.first().copied()
            );
        }
        let image = case
            .world
            .image(RATED, &Arc::new(rules), None)
            .expect("it compiles");
        let change = SessionChange::Replace(image, ImmediateActions::default());
        case.world.apply(0, change).expect("it is there");
        let (is_counted, left) = pushed(&mut case);
        assert_eq!((is_counted, left_of(left)), (has_urrs, Some(8)), "changed");
        assert_eq!(
            (case.counts.len(), case.packets.len()),
            (0, 0),
            "of no other session"
        );
    }
}

#[test]
fn a_place_that_another_session_takes_is_looked_at_as_that_one_is() {
    let mut case = Case::ready(0);
    case.world.install(1, rated_rules_of(1, true));
    case.pass(2 * INTERVAL, true);
    assert_eq!((case.counts.len(), case.packets.len()), (1, 1));
    case.world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    case.world.install(2, rules_of(2));
    case.counts.clear();
    case.packets.clear();
    case.pass(2 * INTERVAL, true);
    assert_eq!((case.counts.len(), case.packets.len()), (0, 0));
    case.send(2);
    case.pass(2 * INTERVAL, true);
    assert_eq!((case.counts.len(), case.packets.len()), (1, 0));
}

#[test]
fn counts_that_control_gives_back_are_pushed_again() {
    let mut case = Case::ready(4);
    case.send(2);
    let mut lists = counted_within(&mut case, 2 * INTERVAL);
    assert_eq!(lists.len(), 1);
    let list = lists.remove(0);
    assert_eq!(sessions_of(&list), [2]);
    let commands = &mut case.world.controls[0].commands;
    commands.push(Command::CountsRoom(list)).expect("there is room");
    let lists = counted_within(&mut case, 4 * INTERVAL);
    assert_eq!(
        lists.iter().map(|list| sessions_of(list)).collect::<Vec<_>>(),
        [[2]],
        "once"
    );
}

/// The lists that are pushed meanwhile.
fn counted_within(case: &mut Case, time: Duration) -> Vec<Vec<SessionCount>> {
    let mut lists = Vec::new();
    for _ in 0..time.as_millis() / 10 {
        case.world.now = case.world.now + Duration::from_millis(10);
        case.world.poll();
        lists.extend(
            events(&mut case.world)
                .into_iter()
                .filter_map(|event| match event {
                    Event::Counted { counts } => Some(counts),
                    _ => None,
                }),
        );
    }
    lists
}

fn sessions_of(list: &[SessionCount]) -> Vec<u32> {
    list.iter().map(|count| count.session.0).collect()
}
