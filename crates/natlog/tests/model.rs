//! The log says who had a port, at each instant around each event, or that events of that time were lost, and says that
//! of no other time: over changes of the period, ends of the process, lost events, and removed files.

mod common;

use std::time::Duration;

use common::{BEGIN, Scratch, assigned, assignment, block, released};
use flow::VrfId;
use nat::pools::PortBlock;
use natlog::{Assignment, Event, NatLog, NatLogReader, Settings};
use proptest::prelude::*;

/// What a test does next.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes, milliseconds.
    Wait(u64),
    /// A session gets a block; sessions whose blocks it overlaps give them back first.
    Assign { address: u8, place: u16, bits: u8 },
    /// A session gets the block that another has, of which no end is logged.
    TakeOver(prop::sample::Index),
    /// A session gives back a block.
    Release(prop::sample::Index),
    /// What happened is appended.
    Append,
    /// Nothing else happened.
    Mark,
    /// What happened and was not appended is lost.
    Lose,
    /// All blocks that are held are reported.
    Tell,
    /// All is known again, if all has been reported since.
    EndGap,
    /// The process starts again, with this period in minutes, behind an end in order, or without one, which loses what
    /// was not appended or does not.
    Restart {
        lose: bool,
        in_order: bool,
        minutes: u64,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let any_index = any::<prop::sample::Index>;
    prop_oneof![
        2 => prop_oneof![Just(0), Just(1), 1..100u64, 1..3_600_000u64].prop_map(Step::Wait),
        4 => (0..2u8, 0..4u16, 8..10u8).prop_map(|(address, place, bits)| Step::Assign { address, place, bits }),
        1 => any_index().prop_map(Step::TakeOver),
        3 => any_index().prop_map(Step::Release),
        3 => Just(Step::Append),
        1 => Just(Step::Mark),
        2 => Just(Step::Lose),
        2 => Just(Step::Tell),
        2 => Just(Step::EndGap),
        1 => (any::<bool>(), any::<bool>(), prop::sample::select(vec![1, 10, 60]))
            .prop_map(|(lose, in_order, minutes)| Step::Restart { lose, in_order, minutes }),
    ]
}

/// An assignment.
#[derive(Clone, Debug)]
struct Interval {
    block: PortBlock,
    seid: u64,
    from: u64,
    to: Option<u64>,
}

struct World {
    scratch: Scratch,
    settings: Settings,
    log: Option<NatLog>,
    now: u64,
    seids: u64,
    /// What is assigned.
    open: Vec<Assignment>,
    /// What happened and was not appended.
    waiting: Vec<Event>,
    /// All assignments.
    truth: Vec<Interval>,
    /// Times of which the log was not told all; the last may have no end yet.
    gaps: Vec<(u64, Option<u64>)>,
    /// All blocks that are held have been reported since the last loss.
    is_told: bool,
    /// The latest time that it has been given.
    last: u64,
    /// When something happened.
    instants: Vec<u64>,
}

impl World {
    fn new(retention: Duration) -> Self {
        let settings = Settings {
            retention,
            ..common::hourly()
        };
        let scratch = Scratch::new();
        let (log, _) = NatLog::open(scratch.path(), settings, BEGIN, &[]).unwrap();
        Self {
            scratch,
            settings,
            log: Some(log),
            now: BEGIN,
            seids: 0,
            open: Vec::new(),
            waiting: Vec::new(),
            truth: Vec::new(),
            gaps: Vec::new(),
            is_told: false,
            last: BEGIN,
            instants: vec![BEGIN],
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(millis) => self.now += millis,
            Step::Assign { address, place, bits } => {
                let new = block(*address, 1024 + (place << bits), *bits);
                let ports = new.ports();
                let overlaps = |is: &Assignment| {
                    let other = is.block.ports();
                    is.block.address == new.address
                        && other.start() <= ports.end()
                        && ports.start() <= other.end()
                };
                while let Some(place) = self.open.iter().position(overlaps) {
                    self.release(place);
                }
                self.assign(new);
            }
            Step::TakeOver(index) if !self.open.is_empty() => {
                let block = self.open.remove(index.index(self.open.len())).block;
                self.assign(block);
            }
            Step::Release(index) if !self.open.is_empty() => self.release(index.index(self.open.len())),
            Step::TakeOver(_) | Step::Release(_) => {}
            Step::Append => self.append(),
            Step::Mark => {
                self.append();
                self.log.as_mut().unwrap().mark(self.now).unwrap();
                self.last = self.last.max(self.now);
            }
            Step::Lose => self.lose(),
            Step::Tell => {
                let open = self.open.iter().cloned();
                let held = open.map(|open| {
                    Event::Held(Assignment {
                        since_ms: self.now,
                        ..open
                    })
                });
                self.waiting.extend(held);
                self.is_told = true;
            }
            Step::EndGap => self.end_gap(),
            Step::Restart {
                lose,
                in_order,
                minutes,
            } => self.restart(*lose, *in_order, *minutes),
        }
        self.instants.push(self.now);
    }

    fn assign(&mut self, block: PortBlock) {
        self.seids += 1;
        self.open.push(assignment(self.now, block, self.seids));
        self.waiting.push(assigned(self.now, block, self.seids));
        self.close(block);
        self.truth.push(Interval {
            block,
            seid: self.seids,
            from: self.now,
            to: None,
        });
    }

    fn release(&mut self, place: usize) {
        let block = self.open.remove(place).block;
        self.waiting.push(released(self.now, block));
        self.close(block);
    }

    fn close(&mut self, block: PortBlock) {
        let open = self
            .truth
            .iter_mut()
            .filter(|is| is.to.is_none() && is.block == block);
        open.for_each(|is| is.to = Some(self.now));
    }

    fn append(&mut self) {
        let events = std::mem::take(&mut self.waiting);
        self.log.as_mut().unwrap().append(&events).unwrap();
        let last = events.iter().map(Event::at_ms).max();
        self.last = self.last.max(last.unwrap_or(0));
    }

    /// The gap that has no end yet.
    fn open_gap(&mut self) -> Option<&mut (u64, Option<u64>)> {
        self.gaps.last_mut().filter(|gap| gap.1.is_none())
    }

    fn lose(&mut self) {
        let events = std::mem::take(&mut self.waiting);
        let Some(first) = events.first() else { return };
        let log = self.log.as_mut().unwrap();
        log.lose(first.at_ms(), events.len() as u64).unwrap();
        self.last = self.last.max(first.at_ms());
        self.is_told = false;
        if self.open_gap().is_none() {
            self.gaps.push((first.at_ms(), None));
        }
    }

    fn end_gap(&mut self) {
        if !self.is_told || self.open_gap().is_none() {
            return;
        }
        self.append();
        self.log.as_mut().unwrap().end_gap(self.now).unwrap();
        let now = self.now;
        let gap = self.open_gap().unwrap();
        // One that is over at once has its moment.
        let end = now.max(gap.0 + 1);
        gap.1 = Some(end);
        self.last = self.last.max(end);
    }

    fn restart(&mut self, lose: bool, in_order: bool, minutes: u64) {
        if lose && !in_order {
            self.waiting.clear();
        } else {
            self.append();
        }
        let log = self.log.take().unwrap();
        if in_order {
            log.end(self.now).unwrap();
            self.last = self.last.max(self.now);
        } else {
            drop(log);
        }
        // A clock that is not later then has a test of its own.
        self.now = self.now.max(self.last + 1);
        self.settings.period = Duration::from_mins(minutes);
        let opened = NatLog::open(self.scratch.path(), self.settings, self.now, &self.open);
        let (log, reconciled) = opened.unwrap();
        self.log = Some(log);
        let (now, last) = (self.now, self.last);
        if let Some(gap) = self.open_gap() {
            gap.1 = Some(now);
        } else if !in_order {
            self.gaps.push((last, Some(now)));
        } else {
            assert_eq!(reconciled.gap, None);
        }
        self.is_told = false;
        self.last = self.last.max(self.now);
    }

    /// Asks for all ports at which blocks begin or end.
    fn check(&mut self) {
        self.append();
        let mut reader = NatLogReader::open(self.scratch.path()).unwrap();
        let oldest = *reader.known().unwrap().unwrap().start();
        let mut instants: Vec<u64> = self
            .instants
            .iter()
            .flat_map(|at| [at - 1, *at, at + 1])
            .collect();
        instants.sort_unstable();
        instants.dedup();
        for at in instants {
            for address in 0..2 {
                for port in (1023..1024 + 5 * 512)
                    .step_by(128)
                    .flat_map(|port| [port, port + 1])
                {
                    self.ask(&mut reader, at, oldest, address, port);
                }
            }
        }
    }

    /// The gap that has a time.
    fn gap_at(&self, at: u64) -> Option<(u64, Option<u64>)> {
        let mut gaps = self.gaps.iter().rev().copied();
        gaps.find(|(from, to)| *from <= at && to.is_none_or(|to| at < to))
    }

    fn ask(&self, reader: &mut NatLogReader, at: u64, oldest: u64, address: u8, port: u16) {
        let public = block(address, 0, 0).address;
        let answer = reader.at(at, VrfId(3), public, port).unwrap();
        if at < oldest {
            assert_eq!(answer.and_then(|answer| answer.found), None);
            return;
        }
        let answer = answer.unwrap();
        let gap = answer.gap.map(|gap| (gap.from_ms, gap.to_ms));
        assert_eq!(gap, self.gap_at(at), "at {at}");
        if gap.is_some() {
            return;
        }
        let expected = self.truth.iter().find(|is| {
            is.block.address == public
                && is.block.ports().contains(&port)
                && is.from <= at
                && is.to.is_none_or(|to| at < to)
        });
        let told = answer.found.as_ref().map(|found| {
            let is = &found.assignment;
            (is.block, is.holder.seid)
        });
        let brief = |is: &Interval| (is.block, is.seid);
        assert_eq!(told, expected.map(brief), "at {at}, port {port} of {public}");
        let Some((found, is)) = answer.found.zip(expected) else {
            return;
        };
        match (found.assignment.since_ms, self.gap_at(is.from)) {
            (since, None) => assert_eq!(since, is.from),
            (since, Some(_)) => assert!(is.from <= since && since <= at),
        }
        let next = self.scratch.files().into_iter().filter_map(|name| {
            let start: u64 = name.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            (start > at).then_some(start)
        });
        match (found.until_ms, is.to, next.min()) {
            // An end whose event was lost, behind which not all is known yet, or is.
            (None, Some(to), _) if self.gap_at(to).is_some_and(|(_, end)| end.is_none()) => {}
            (Some(until), Some(to), _) if self.gap_at(to - 1).or(self.gap_at(to)).is_some() => {
                // What is behind the end is not certain: it may be that of the next session, whose beginning was lost.
                assert!(at < until && (until <= to || self.gap_at(until - 1).is_some()));
            }
            // An end in a later file is not known to this one.
            (None, to, Some(next)) => assert!(to.is_none_or(|to| to >= next || self.gap_at(to).is_some())),
            (until, to, _) => assert_eq!(until, to),
        }
    }
}

fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(cases).min(cases * 20),
        failure_persistence: None,
        ..default
    }
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn the_log_answers_as_a_list_of_intervals_does(
        steps in prop::collection::vec(any_step(), 1..60), hours in prop::sample::select(vec![1u64, 3, 10_000])
    ) {
        let mut world = World::new(Duration::from_hours(hours));
        for step in &steps {
            world.step(step);
        }
        world.check();
    }
}
