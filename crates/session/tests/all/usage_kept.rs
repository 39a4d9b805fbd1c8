//! What is counted is reported, whatever becomes of modifications: refused, late, half done or taken back.

use crate::support;

use std::collections::BTreeMap;
use std::time::Duration;

use flow::{SessionIndex, WorkerId};
use proptest::prelude::*;
use rules::model::*;
use session::*;

use support::*;

const URRS: u32 = 4;

fn two_workers() -> World {
    World::with(Config {
        accept_cp_f_teids: true,
        usage_records: true,
        ..Config::for_workers(2)
    })
}

/// A session whose PDRs count in all URRs.
fn with_all_urrs() -> Changes {
    let mut changes = chosen_session(UE);
    changes.create_urrs = (1..=URRS).map(|urr| Urr::volume(UrrId(urr))).collect();
    for pdr in &mut changes.create_pdrs {
        pdr.urrs = (1..=URRS).map(UrrId).collect();
    }
    changes
}

/// Adds a PDR with a tunnel that all workers must receive, so that the owner's confirmation is not the last one.
fn sent_to_all(mut changes: Changes, id: u16) -> Changes {
    let mut added = pdr(PdrId(id), SourceInterface::Access, FarId(1));
    added.pdi.f_teid = Some(given(stray_teid(UE) + u32::from(id) * 512));
    added.urrs.clear();
    changes.create_pdrs.push(added);
    changes
}

fn removal(urr: u32) -> Changes {
    Changes {
        remove_urrs: vec![UrrId(urr)],
        ..Changes::default()
    }
}

fn begun(world: &mut World) -> (Seid, SessionIndex) {
    let seid = world.establish(1, with_all_urrs()).expect("a session").seid;
    let index = world.sessions.session(seid).expect("it is there").index();
    (seid, index)
}

fn begin(world: &mut World, seid: Seid, changes: Changes) -> Ticket {
    let ticket = world.ticket();
    world.sessions.modify(world.now, ticket, seid, None, changes);
    world.hand_over();
    ticket
}

/// Lets only the worker that owns the session apply its effects.
fn owner_acts(world: &mut World) {
    let owner = world.sessions.owner(home(UE));
    while let Some(answer) = world.fleet.worker(owner).step() {
        if let Some((op, result)) = answer {
            world.sessions.applied(world.now, op, result);
        }
    }
}

fn of_urr(done: &Done, urr: u32) -> Vec<(u32, u64, UsageTriggers)> {
    let reports = done.usage.iter().filter(|report| report.urr == UrrId(urr));
    reports
        .map(|report| (report.sequence, report.count.ul_packets, report.triggers))
        .collect()
}

#[test]
fn a_change_that_one_worker_has_done_and_another_is_late_with_loses_nothing() {
    let mut world = two_workers();
    let (seid, index) = begun(&mut world);
    world.fleet.count(index, UrrId(2), uplink_count(5));
    let changes = sent_to_all(removal(2), 3);
    let ticket = begin(&mut world, seid, changes);
    owner_acts(&mut world);
    world.pass(Duration::from_secs(1));
    world.assert_too_late(ticket);
    assert_eq!(world.run(), []);
    world.fleet.count(index, UrrId(2), uplink_count(2));
    let deleted = world.delete(seid).expect("it goes");
    assert_eq!(of_urr(&deleted, 2), [(0, 7, UsageTriggers::TERMR)]);
    world.assert_clean();
}

#[test]
fn what_was_read_for_a_change_that_is_refused_is_reported_by_the_next() {
    let mut world = two_workers();
    let (seid, index) = begun(&mut world);
    world.fleet.count(index, UrrId(1), uplink_count(5));
    let query = |mut changes: Changes| {
        changes.query = Query::All(Vec::new());
        changes
    };
    let owner = world.sessions.owner(home(UE));
    world.fleet.worker(owner).refuses_replace = true;
    assert_eq!(
        world.modify(seid, query(drop_downlink())),
        Err(Refusal::NoResources)
    );
    world.fleet.worker(owner).refuses_replace = false;
    let done = world.modify(seid, query(Changes::default())).expect("a query");
    assert_eq!(of_urr(&done, 1), [(0, 5, UsageTriggers::IMMER)]);
    world.delete(seid).expect("it goes");
    world.assert_clean();
}

#[test]
fn a_change_that_cannot_be_sent_to_all_workers_is_taken_back_where_it_was_made() {
    let mut world = two_workers();
    let (seid, index) = begun(&mut world);
    world.fleet.count(index, UrrId(2), uplink_count(5));
    let owner = world.sessions.owner(home(UE));
    let other = WorkerId(1 - owner.0);
    world.fleet.worker(other).refuses_fence = true;
    let refused = world.modify(seid, sent_to_all(removal(2), 3));
    assert_eq!(refused, Err(Refusal::NoResources));
    let images = world.fleet.images();
    assert_eq!(
        *images[0].rules,
        *world.sessions.session(seid).expect("it lives").rules()
    );
    assert!(
        world
            .fleet
            .workers
            .iter()
            .all(|worker| worker.exceptions.is_empty())
    );
    let deleted = world.delete(seid).expect("it goes");
    assert_eq!(of_urr(&deleted, 2), [(0, 5, UsageTriggers::TERMR)]);
    world.assert_clean();
}

#[test]
fn a_session_that_cannot_be_sent_to_all_workers_leaves_no_ghost() {
    let mut world = two_workers();
    world.fleet.workers[0].refuses_fence = true;
    let refused = world.establish(1, sent_to_all(with_all_urrs(), 3));
    assert_eq!(refused, Err(Refusal::NoResources));
    world.assert_clean();
}

#[test]
fn a_urr_that_is_removed_and_created_in_one_request_is_reported_last_and_begins_anew() {
    let mut world = two_workers();
    let (seid, index) = begun(&mut world);
    world.fleet.count(index, UrrId(2), uplink_count(5));
    let first = world.modify(
        seid,
        Changes {
            query: Query::These(vec![UrrId(2)]),
            ..Changes::default()
        },
    );
    assert_eq!(
        of_urr(&first.expect("a query"), 2),
        [(0, 5, UsageTriggers::IMMER)]
    );
    world.fleet.count(index, UrrId(2), uplink_count(4));
    let anew = Changes {
        create_urrs: vec![Urr::volume(UrrId(2))],
        ..removal(2)
    };
    let done = world.modify(seid, anew).expect("it can");
    assert_eq!(of_urr(&done, 2), [(1, 4, UsageTriggers::TERMR)]);
    world.fleet.count(index, UrrId(2), uplink_count(3));
    let deleted = world.delete(seid).expect("it goes");
    assert_eq!(of_urr(&deleted, 2), [(0, 3, UsageTriggers::TERMR)]);
    world.assert_clean();
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    Remove(u32),
    Create(u32),
    Anew(u32),
    Query,
    /// A request with a tunnel that all workers receive.
    Widen(Option<u32>),
    Count(u32, u8),
    Step(u16, u8),
    Pass(u16),
    Trouble(u16, bool, bool),
    Delete,
}

fn event() -> impl Strategy<Value = Event> {
    let urr = || 1..=URRS;
    prop_oneof![
        3 => urr().prop_map(Event::Remove),
        3 => urr().prop_map(Event::Create),
        3 => urr().prop_map(Event::Anew),
        2 => Just(Event::Query),
        3 => prop::option::of(urr()).prop_map(Event::Widen),
        8 => (urr(), 1u8..9).prop_map(|(urr, packets)| Event::Count(urr, packets)),
        9 => (0u16..2, 1u8..4).prop_map(|(worker, steps)| Event::Step(worker, steps)),
        3 => (0u16..1_200).prop_map(Event::Pass),
        2 => (0u16..2, any::<bool>(), any::<bool>())
            .prop_map(|(worker, replace, fence)| Event::Trouble(worker, replace, fence)),
        1 => Just(Event::Delete),
    ]
}

struct Play {
    world: World,
    seid: Seid,
    index: SessionIndex,
    tunnels: u16,
    counted: BTreeMap<UrrId, u64>,
}

impl Play {
    fn new() -> Play {
        let mut world = two_workers();
        let (seid, index) = begun(&mut world);
        Play {
            world,
            seid,
            index,
            tunnels: 3,
            counted: BTreeMap::new(),
        }
    }

    fn act(&mut self, event: &Event) {
        match *event {
            Event::Remove(urr) => self.ask(removal(urr)),
            Event::Create(urr) => self.ask(Changes {
                create_urrs: vec![Urr::volume(UrrId(urr))],
                ..Changes::default()
            }),
            Event::Anew(urr) => self.ask(Changes {
                create_urrs: vec![Urr::volume(UrrId(urr))],
                ..removal(urr)
            }),
            Event::Query => self.ask(Changes {
                query: Query::All(Vec::new()),
                ..Changes::default()
            }),
            Event::Widen(urr) => {
                self.tunnels += 1;
                self.ask(sent_to_all(urr.map(removal).unwrap_or_default(), self.tunnels));
            }
            Event::Count(urr, packets) => self.count(UrrId(urr), u64::from(packets)),
            Event::Step(worker, steps) => {
                for _ in 0..steps {
                    if let Some(Some((op, result))) = self.world.fleet.worker(WorkerId(worker)).step() {
                        self.world.sessions.applied(self.world.now, op, result);
                    }
                }
            }
            Event::Pass(millis) => self.world.pass(Duration::from_millis(u64::from(millis))),
            Event::Trouble(worker, replace, fence) => {
                let worker = self.world.fleet.worker(WorkerId(worker));
                (worker.refuses_replace, worker.refuses_fence) = (replace, fence);
            }
            Event::Delete => {
                let ticket = self.world.ticket();
                self.world.sessions.delete(self.world.now, ticket, self.seid);
            }
        }
        self.world.hand_over();
    }

    fn ask(&mut self, changes: Changes) {
        let ticket = self.world.ticket();
        self.world
            .sessions
            .modify(self.world.now, ticket, self.seid, None, changes);
    }

    /// Packets of a URR that control says is live, at a worker that counts it.
    fn count(&mut self, urr: UrrId, packets: u64) {
        let session = self.world.sessions.session(self.seid);
        let is_live = session.is_some_and(|session| session.rules().urr(urr).is_some());
        let mut images = self.world.fleet.images().into_iter();
        if is_live && images.any(|image| image.urr_ids.contains(&urr)) {
            self.world.fleet.count(self.index, urr, uplink_count(packets));
            *self.counted.entry(urr).or_default() += packets;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn modifications_that_fail_anywhere_lose_no_octet(events in prop::collection::vec(event(), 1..60)) {
        let mut play = Play::new();
        events.iter().for_each(|event| play.act(event));
        for worker in 0..2 {
            play.act(&Event::Trouble(worker, false, false));
        }
        play.world.run();
        play.world.pass(Duration::from_secs(2));
        play.world.run();
        play.act(&Event::Delete);
        play.world.run();
        let mut reported: BTreeMap<UrrId, u64> = BTreeMap::new();
        while let Some(entry) = play.world.sessions.poll_usage_record_entry() {
            if let UsageRecordEvent::Usage(report) = entry.event
                && report.count.ul_packets > 0
            {
                *reported.entry(report.urr).or_default() += report.count.ul_packets;
                prop_assert_eq!(report.count.ul_octets, report.count.ul_packets * 100);
            }
        }
        prop_assert_eq!(reported, play.counted);
        play.world.assert_clean();
    }
}
