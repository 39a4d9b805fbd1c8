//! A control core that is asked for more than it can do, on simulated time: what waits, what is turned away, and what
//! goes through all the same.

use crate::support;

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use flow::Nanos;
use n4::{AdmissionLimits, AdmissionQueue, Turn};
use pfcp::ie::Cause;

use support::wire::*;
use support::*;

/// What things take on the simulated core: a new session, anything else that is served, an answer that says no.
const SESSION: Duration = Duration::from_millis(1);
const OTHER: Duration = Duration::from_micros(300);
const REFUSAL: Duration = Duration::from_micros(50);
/// New sessions in one turn.
const PER_TURN: usize = 16;

/// A datagram on its way.
struct Sent {
    at: Nanos,
    from: SocketAddr,
    octets: Octets,
}

/// What came of a request, by the sender and the number of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    cause: Option<Cause>,
    /// From when it was sent.
    after: Duration,
    /// Place in the order of the answers.
    place: usize,
}

type Answers = BTreeMap<(SocketAddr, u32), Answer>;

/// One core: an endpoint, what waits before it, and time that passes with work.
struct Core {
    world: World,
    intake: AdmissionQueue,
    sent: BTreeMap<(SocketAddr, u32), Nanos>,
    answers: Answers,
    most_waiting: usize,
    /// What a new session takes.
    session: Duration,
    /// When the core is taken away next, in a turn that serves, and for how long.
    absences: VecDeque<(Nanos, Duration)>,
    /// Whether the system says so.
    reports_absences: bool,
}

impl Core {
    fn new(limits: AdmissionLimits) -> Core {
        let mut world = World::with(World::config(1));
        world.associate();
        Core {
            world,
            intake: AdmissionQueue::new(limits),
            sent: BTreeMap::new(),
            answers: Answers::new(),
            most_waiting: 0,
            session: SESSION,
            absences: VecDeque::new(),
            reports_absences: false,
        }
    }

    /// Serves everything that is sent until nothing is left, turn after turn.
    fn serve(&mut self, mut sent: Vec<Sent>) {
        sent.sort_by_key(|one| one.at);
        let mut coming = sent.into_iter().peekable();
        loop {
            let begin = self.world.now;
            let mut worked = false;
            while let Some(one) = coming.next_if(|one| one.at <= begin) {
                self.take(&one);
                worked = true;
            }
            let served = (0..PER_TURN).take_while(|_| self.serve_one()).count();
            let is_away = |(at, _): &mut (Nanos, Duration)| served > 0 && *at <= begin;
            let away = self.absences.pop_front_if(is_away);
            let away = away.map_or(Duration::ZERO, |(_, away)| away);
            self.world.now = self.world.now + away;
            self.intake.note_turn(&Turn {
                begin,
                end: self.world.now,
                worked: worked || served > 0,
                served,
                away: if self.reports_absences {
                    away
                } else {
                    Duration::ZERO
                },
            });
            if !worked && served == 0 {
                let Some(next) = coming.peek() else { return };
                self.world.now = next.at;
            }
        }
    }

    fn take(&mut self, one: &Sent) {
        let key = (one.from, sequence_of(&one.octets));
        self.sent.insert(key, one.at);
        let before = self.world.n4.counters().rejected;
        let path = (one.from, upf());
        self.intake
            .offer(self.world.now, &mut self.world.n4, path.0, path.1, &one.octets);
        self.most_waiting = self.most_waiting.max(self.intake.waiting());
        let refused = self.world.n4.counters().rejected > before;
        let answered = self.settle(if refused { REFUSAL } else { OTHER });
        if answered == 0 {
            // It waits, which takes no time to speak of.
            self.world.now = Nanos(self.world.now.0 - OTHER.as_nanos() as u64);
        }
    }

    fn serve_one(&mut self) -> bool {
        let served = self.intake.serve(self.world.now, &mut self.world.n4);
        if served {
            self.settle(self.session);
        }
        served
    }

    /// Lets the time pass that something took, and notes the answers.
    fn settle(&mut self, cost: Duration) -> usize {
        self.world.now = self.world.now + cost;
        let replies = self.world.run();
        for reply in &replies {
            let key = (reply.0.to, reply.header().sequence.get());
            let is_heartbeat = reply.header().message_type.0 == 2;
            let answer = Answer {
                cause: if is_heartbeat { None } else { reply.cause() },
                after: self.world.now.since(self.sent[&key]),
                place: self.answers.len(),
            };
            assert_eq!(self.answers.insert(key, answer), None, "answered twice");
        }
        replies.len()
    }

    fn answers(&self, of: impl Fn(u32) -> bool) -> Vec<Answer> {
        let theirs = self.answers.iter().filter(|((_, sequence), _)| of(*sequence));
        theirs.map(|(_, answer)| *answer).collect()
    }
}

fn sequence_of(octets: &[u8]) -> u32 {
    let at = if octets[0] & 1 == 1 { 12 } else { 4 };
    u32::from_be_bytes([0, octets[at], octets[at + 1], octets[at + 2]])
}

fn ue(cp: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a40_0000 + cp)
}

fn establishment(cp: u32, sequence: u32) -> Octets {
    message(50, Some(0), sequence, &plain_session(u64::from(cp), ue(cp)))
}

/// A message every so often from a second in, numbered from `first`.
fn stream(count: u32, every: Duration, first: u32, octets: impl Fn(u32, u32) -> Octets) -> Vec<Sent> {
    let start = Nanos::from_secs(1).0;
    (0..count)
        .map(|place| Sent {
            at: Nanos(start + u64::from(place) * every.as_nanos() as u64),
            from: smf(),
            octets: octets(place, first + place),
        })
        .collect()
}

const FLOOD: u32 = 100_000;
const DELETIONS: u32 = 200_000;
const MODIFICATIONS: u32 = 300_000;
const HEARTBEATS: u32 = 400_000;

fn accepted(answers: &[Answer]) -> usize {
    let is_accepted = |answer: &&Answer| answer.cause == Some(Cause::REQUEST_ACCEPTED);
    answers.iter().filter(is_accepted).count()
}

fn slowest(answers: &[Answer]) -> Duration {
    answers
        .iter()
        .map(|answer| answer.after)
        .max()
        .unwrap_or_default()
}

/// Four times what the core can do, for two seconds, with everything else that a UPF is asked meanwhile.
fn flooded() -> Core {
    let mut core = Core::new(AdmissionLimits::default());
    let seids: Vec<u64> = (0..100)
        .map(|cp| core.world.establish(900_000 + cp, ue(900_000 + cp as u32)))
        .collect();
    let mut sent = stream(8_000, Duration::from_micros(250), FLOOD, |place, sequence| {
        establishment(place, sequence)
    });
    sent.extend(stream(
        50,
        Duration::from_millis(40),
        DELETIONS,
        |place, sequence| message(54, Some(seids[place as usize]), sequence, &[]),
    ));
    sent.extend(stream(
        50,
        Duration::from_millis(40),
        MODIFICATIONS,
        |place, sequence| message(52, Some(seids[place as usize + 50]), sequence, &[]),
    ));
    sent.extend(stream(
        20,
        Duration::from_millis(100),
        HEARTBEATS,
        |_, sequence| message(1, None, sequence, &[recovery(100)]),
    ));
    core.serve(sent);
    core
}

#[test]
fn new_sessions_beyond_what_can_be_done_are_refused_in_time() {
    let core = flooded();
    let flood = core.answers(|sequence| (FLOOD..DELETIONS).contains(&sequence));
    assert_eq!(flood.len(), 8_000, "each is answered once");
    let taken = accepted(&flood);
    let refused = flood
        .iter()
        .filter(|answer| answer.cause == Some(Cause::PFCP_ENTITY_IN_CONGESTION));
    assert_eq!(taken + refused.count(), 8_000);
    // Two seconds are 2,000 new sessions, less what all the refusals take.
    assert!((1_200..2_100).contains(&taken), "{taken} of 8000");
    // Far below any T1: no request waits longer than the patience and a turn.
    assert!(
        slowest(&flood) < Duration::from_millis(150),
        "{:?}",
        slowest(&flood)
    );
    let places: Vec<usize> = flood
        .iter()
        .filter(|answer| answer.cause == Some(Cause::REQUEST_ACCEPTED))
        .map(|answer| answer.place)
        .collect();
    assert!(places.is_sorted(), "those that wait are served in their order");
}

#[test]
fn deletions_modifications_and_heartbeats_pass_what_waits() {
    let core = flooded();
    let most = Duration::from_millis(50);
    for (first, count) in [(DELETIONS, 50), (MODIFICATIONS, 50)] {
        let answers = core.answers(|sequence| (first..first + 1_000).contains(&sequence));
        assert_eq!((answers.len(), accepted(&answers)), (count, count));
        assert!(slowest(&answers) < most, "{:?}", slowest(&answers));
    }
    let heartbeats = core.answers(|sequence| sequence >= HEARTBEATS);
    assert_eq!(heartbeats.len(), 20);
    assert!(slowest(&heartbeats) < most, "{:?}", slowest(&heartbeats));
}

#[test]
fn when_the_flood_is_over_no_request_is_refused() {
    let mut core = flooded();
    assert_eq!(
        (core.intake.waiting(), core.intake.backlog()),
        (0, Duration::ZERO)
    );
    let start = core.world.now;
    let calm = (0..100)
        .map(|place| Sent {
            at: start + Duration::from_millis(5) * place,
            from: smf(),
            octets: establishment(500_000 + place, 500_000 + place),
        })
        .collect();
    core.serve(calm);
    let calm = core.answers(|sequence| sequence >= 500_000);
    assert_eq!((calm.len(), accepted(&calm)), (100, 100));
    assert!(core.intake.load() < 80, "{}", core.intake.load());
}

#[test]
fn a_core_that_is_taken_away_for_a_while_rejects_no_request_that_it_can_serve() {
    // Half of what the core can do, as long as it has it: 25,000 a second at 20 us each. Every 100 ms it is away for
    // 20 ms, in which 500 come.
    let mut core = Core::new(AdmissionLimits::default());
    core.session = Duration::from_micros(20);
    let second = Nanos::from_secs(1);
    core.absences = (1..4)
        .map(|place| {
            (
                second + Duration::from_millis(100) * place,
                Duration::from_millis(20),
            )
        })
        .collect();
    core.serve(stream(10_000, Duration::from_micros(40), FLOOD, establishment));
    assert!(core.absences.is_empty() && core.most_waiting > 400);
    let answers = core.answers(|_| true);
    assert_eq!((answers.len(), accepted(&answers)), (10_000, 10_000));
    assert!(
        slowest(&answers) < Duration::from_millis(50),
        "{:?}",
        slowest(&answers)
    );
}

/// A core that does 45,000 new sessions a second.
fn slow_host() -> Core {
    let mut core = Core::new(AdmissionLimits::default());
    core.session = Duration::from_micros(22);
    core
}

/// Requests for a number of milliseconds, with this number in each.
fn rate(each: u32, milliseconds: u32, octets: impl Fn(u32, u32) -> Octets) -> Vec<Sent> {
    let every = Duration::from_millis(1) / each;
    stream(each * milliseconds, every, FLOOD, octets)
}

#[test]
fn an_absence_of_200_ms_refuses_no_request() {
    // 25,000 a second, more than half of what the core can do: 5,000 come in the absence.
    for reports_absences in [true, false] {
        let mut core = slow_host();
        core.reports_absences = reports_absences;
        let away = Duration::from_millis(200);
        core.absences = [(Nanos::from_secs(1) + Duration::from_millis(100), away)].into();
        core.serve(rate(25, 600, establishment));
        assert!(core.absences.is_empty() && core.most_waiting >= 4_800);
        let answers = core.answers(|_| true);
        assert_eq!((answers.len(), accepted(&answers)), (15_000, 15_000));
        // Nothing waits longer than the absence, and what came in it takes.
        assert!(slowest(&answers) < away * 2, "{:?}", slowest(&answers));
        assert!(!core.intake.is_overloaded());
        assert_eq!(core.world.n4.counters().throttled, 0);
    }
}

#[test]
fn a_burst_of_senders_that_were_away_themselves_is_served() {
    // They send nothing for 120 ms, and all of it then.
    let mut core = slow_host();
    let mut sent = rate(25, 500, establishment);
    let from = Nanos::from_secs(1) + Duration::from_millis(100);
    let until = from + Duration::from_millis(120);
    for one in sent.iter_mut().filter(|one| (from..until).contains(&one.at)) {
        one.at = until;
    }
    core.serve(sent);
    assert!(core.most_waiting >= 3_000);
    let answers = core.answers(|_| true);
    assert_eq!((answers.len(), accepted(&answers)), (12_500, 12_500));
}

/// What is offered, in new sessions of a millisecond each a second, for four seconds; the requests accepted of those
/// sent after the first, and their longest wait.
fn served_of(offered: u32, absences: &[Nanos], away: Duration) -> (usize, Duration) {
    let mut core = Core::new(AdmissionLimits::default());
    core.reports_absences = true;
    core.absences = absences.iter().map(|at| (*at, away)).collect();
    let every = Duration::from_secs(1) / offered;
    core.serve(stream(offered * 4, every, FLOOD, establishment));
    let late = core.answers(|sequence| sequence >= FLOOD + offered);
    assert_eq!(late.len(), offered as usize * 3, "each is answered once");
    let late = late
        .into_iter()
        .filter(|one| one.cause == Some(Cause::REQUEST_ACCEPTED));
    let late: Vec<_> = late.collect();
    (late.len(), slowest(&late))
}

#[test]
fn standing_overload_keeps_what_the_core_can_do_and_bounds_the_wait() {
    // 1,000 a second are what it can do. Refusals take time of it, a twentieth of a session's each.
    let rates = [900, 1_000, 1_100, 2_000];
    let served = rates.map(|offered| served_of(offered, &[], Duration::ZERO));
    let most = served.iter().map(|(count, _)| *count).max().unwrap_or_default();
    assert!(most >= 2_900, "{served:?}");
    let (twice, longest) = served[3];
    assert!(twice * 10 >= most * 9, "{served:?}");
    assert!(longest < Duration::from_millis(100), "{served:?}");
}

#[test]
fn absences_do_not_make_the_queue_of_standing_overload_longer() {
    // A fifth of the time it is away: 800 a second are what it can do.
    let away = Duration::from_millis(20);
    let absences: Vec<_> = (0..40)
        .map(|place| Nanos::from_secs(1) + Duration::from_millis(100) * place)
        .collect();
    let (served, longest) = served_of(2_000, &absences, away);
    assert!(served >= 2_000, "{served}");
    assert!(longest < Duration::from_millis(150), "{longest:?}");
}

#[test]
fn a_core_that_turns_slow_for_good_soon_takes_no_more_than_it_can_serve_in_time() {
    // From a tenth of what it can do to twice as much, in the middle.
    let every = Duration::from_micros(200);
    let mut core = Core::new(AdmissionLimits::default());
    core.session = Duration::from_micros(20);
    core.serve(stream(1_000, every, 0, establishment));
    core.session = Duration::from_micros(400);
    let begin = core.world.now;
    let sent = (0..4_000_u32).map(|place| Sent {
        at: begin + every * place,
        from: smf(),
        octets: establishment(FLOOD + place, FLOOD + place),
    });
    core.serve(sent.collect());
    let answers = core.answers(|sequence| sequence >= FLOOD);
    let late = core.answers(|sequence| sequence >= FLOOD + 2_000);
    assert_eq!(answers.len(), 4_000);
    assert!(
        slowest(&answers) < Duration::from_millis(250),
        "{:?}",
        slowest(&answers)
    );
    assert!(
        slowest(&late) < Duration::from_millis(100),
        "{:?}",
        slowest(&late)
    );
}

#[test]
fn one_peers_flood_does_not_turn_another_away() {
    let mut core = Core::new(AdmissionLimits::default());
    let other: SocketAddr = "10.100.0.3:8805".parse().unwrap();
    let setup = message(5, None, 1, &[node_v4(Ipv4Addr::new(10, 100, 0, 3)), recovery(1)]);
    core.world.send(other, &setup);
    let mut sent = stream(8_000, Duration::from_micros(250), FLOOD, |place, sequence| {
        establishment(place, sequence)
    });
    let theirs = stream(200, Duration::from_millis(10), 10, |place, sequence| {
        let mut ies = plain_session(u64::from(place) + 1, ue(700_000 + place));
        ies[0] = node_v4(Ipv4Addr::new(10, 100, 0, 3));
        ies[1] = f_seid(u64::from(place) + 1, other.ip());
        message(50, Some(0), sequence, &ies)
    });
    sent.extend(theirs.into_iter().map(|one| Sent { from: other, ..one }));
    core.serve(sent);
    let quiet = core.answers(|sequence| sequence < 1_000);
    assert_eq!((quiet.len(), accepted(&quiet)), (200, 200));
    let flood = core.answers(|sequence| sequence >= FLOOD);
    assert!(accepted(&flood) < 4_000, "{}", accepted(&flood));
}

#[test]
fn the_highest_priority_gets_in_whatever_waits() {
    let mut core = Core::new(AdmissionLimits::default());
    let mut sent = stream(8_000, Duration::from_micros(250), FLOOD, |place, sequence| {
        establishment(place, sequence)
    });
    sent.extend(stream(20, Duration::from_millis(100), 10, |place, sequence| {
        let mut octets = establishment(800_000 + place, sequence);
        (octets[0], octets[15]) = (octets[0] | 0x02, 0);
        octets
    }));
    core.serve(sent);
    let urgent = core.answers(|sequence| sequence < 1_000);
    assert_eq!((urgent.len(), accepted(&urgent)), (20, 20));
}

#[test]
fn unknown_sources_do_not_wait_and_room_is_bounded() {
    let limits = AdmissionLimits {
        max_waiting: 10,
        ..AdmissionLimits::default()
    };
    let mut core = Core::new(limits);
    let unknown: SocketAddr = "10.100.9.9:8805".parse().unwrap();
    let mut sent = stream(100, Duration::ZERO, FLOOD, |place, sequence| {
        establishment(place, sequence)
    });
    sent.extend(
        stream(100, Duration::ZERO, 10, |place, sequence| {
            establishment(place, sequence)
        })
        .into_iter()
        .map(|one| Sent { from: unknown, ..one }),
    );
    core.serve(sent);
    assert_eq!(core.most_waiting, 10);
    let strange = core.answers(|sequence| sequence < 1_000);
    assert_eq!(strange.len(), 100);
    let is_stranger = |answer: &Answer| answer.cause == Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
    assert!(strange.iter().all(is_stranger));
    let flood = core.answers(|sequence| sequence >= FLOOD);
    assert_eq!((flood.len(), accepted(&flood)), (100, 10));
}

#[test]
fn in_a_bundle_new_sessions_wait_each_and_the_rest_is_served() {
    let mut core = Core::new(AdmissionLimits::default());
    let seid = core.world.establish(77, ue(77));
    let mut octets = message(54, Some(seid), 900, &[]);
    octets[0] |= 4;
    for place in 0..3 {
        let mut next = establishment(place, 901 + place);
        next[0] |= if place < 2 { 4 } else { 0 };
        octets.extend(next);
    }
    let World { n4, now, .. } = &mut core.world;
    core.intake.offer(*now, n4, smf(), upf(), &octets);
    assert_eq!(core.intake.waiting(), 3);
    let deleted = core.world.run();
    assert_eq!((deleted.len(), deleted[0].header().sequence.get()), (1, 900));
    while core.intake.serve(core.world.now, &mut core.world.n4) {}
    let established = core.world.run();
    established.iter().for_each(Reply::assert_accepted);
    assert_eq!((established.len(), core.world.sessions()), (3, 3));
}
