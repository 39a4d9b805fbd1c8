//! Random lives of sessions, with workers that are slow, full or refuse: every request gets one outcome, what control
//! holds is what the workers run, and after the last deletion nothing is left.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::WorkerId;
use proptest::prelude::*;
use rules::model::*;
use session::*;

use support::fleet::Packets;
use support::*;

const WORKERS: u16 = 3;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A session of this CP F-SEID and UE, with a TEID of the peer's choice if one is given; some are `broken`.
    Establish {
        cp: u8,
        ue: u8,
        given: Option<u8>,
        broken: bool,
        slice: u8,
    },
    Modify(prop::sample::Index, Edited),
    Delete(prop::sample::Index),
    /// A worker performs this number of effects.
    Step(u16, u8),
    Pass(u16),
    /// A number of packets of a session come in at a worker.
    Count(prop::sample::Index, u16, u8),
    /// A worker takes what is in its inbox.
    Serve(u16),
    /// The bucket of a session moves.
    Move(prop::sample::Index, u16),
    RemoveAssociation,
    /// Whether workers refuse changes, and how many sessions fit in each.
    Trouble(bool, Option<u8>),
}

/// One kind of modification.
#[derive(Clone, Copy, Debug)]
enum Edited {
    Far(bool),
    AddPdr(u8, Option<u8>),
    RemovePdr(u8),
    Urr(u8, bool),
    Query,
    Rename,
    Nonsense,
    Slice(u8),
}

fn edited() -> impl Strategy<Value = Edited> {
    prop_oneof![
        any::<bool>().prop_map(Edited::Far),
        (3u8..6, prop::option::of(0u8..6)).prop_map(|(pdr, given)| Edited::AddPdr(pdr, given)),
        (3u8..6).prop_map(Edited::RemovePdr),
        (2u8..4, any::<bool>()).prop_map(|(urr, there)| Edited::Urr(urr, there)),
        Just(Edited::Query),
        Just(Edited::Rename),
        Just(Edited::Nonsense),
        (0u8..4).prop_map(Edited::Slice),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0u8..8, 0u8..8, prop::option::of(0u8..6), prop::bool::weighted(0.2), 0u8..4)
            .prop_map(|(cp, ue, given, broken, slice)| Event::Establish { cp, ue, given, broken, slice }),
        6 => (index(), edited()).prop_map(|(which, edited)| Event::Modify(which, edited)),
        2 => index().prop_map(Event::Delete),
        8 => (0..WORKERS, 1u8..8).prop_map(|(worker, steps)| Event::Step(worker, steps)),
        2 => (0u16..700).prop_map(Event::Pass),
        4 => (index(), 0..WORKERS, 1u8..9).prop_map(|(which, via, packets)| Event::Count(which, via, packets)),
        1 => (0..WORKERS).prop_map(Event::Serve),
        2 => (index(), 0..WORKERS).prop_map(|(which, to)| Event::Move(which, to)),
        1 => Just(Event::RemoveAssociation),
        1 => (any::<bool>(), prop::option::of(0u8..4)).prop_map(|(refuses, room)| Event::Trouble(refuses, room)),
    ]
}

/// UEs of two buckets in turn, so that a move takes several sessions along.
fn neighbour(number: u32) -> std::net::Ipv4Addr {
    ue_in(home([UE, UE2][number as usize % 2]), number / 2)
}

/// TEIDs of the peer's choice, of several buckets.
fn given_teid(number: u8) -> u32 {
    0x1000 + u32::from(number) * 0x0101
}

struct Play {
    world: World,
    asked: BTreeSet<Ticket>,
    /// Sessions that were accepted, by their SEID.
    seids: Vec<Seid>,
    /// Sessions that live if every refusal left all as it was, by the name of their owner.
    living: BTreeMap<u64, Seid>,
    deletions: BTreeSet<Ticket>,
    /// Packets reported of URR 1.
    reported: u64,
    /// Moves that have begun and whose result is pending.
    moves: usize,
}

impl Play {
    fn new() -> Play {
        Play::with(SliceWorkers::default())
    }

    fn with(slice_workers: SliceWorkers) -> Play {
        let config = Config {
            slice_workers,
            accept_cp_f_teids: true,
            max_waiting: 3,
            quarantine: Duration::from_millis(500),
            ..Config::for_workers(WORKERS)
        };
        Play {
            world: World::with(config),
            asked: BTreeSet::new(),
            seids: Vec::new(),
            living: BTreeMap::new(),
            deletions: BTreeSet::new(),
            reported: 0,
            moves: 0,
        }
    }

    /// Packets counted by workers.
    fn counted(&self) -> u64 {
        self.world.fleet.workers.iter().map(|worker| worker.served).sum()
    }

    fn ticket(&mut self) -> Ticket {
        let ticket = self.world.ticket();
        self.asked.insert(ticket);
        ticket
    }

    fn act(&mut self, event: &Event) {
        match event {
            Event::Establish {
                cp,
                ue,
                given,
                broken,
                slice,
            } => self.establish((*cp, *slice), *ue, *given, *broken),
            Event::Modify(which, edited) => self.modify(which, *edited),
            Event::Delete(which) => {
                if let Some(seid) = self.pick(which) {
                    let ticket = self.ticket();
                    self.deletions.insert(ticket);
                    self.world.sessions.delete(self.world.now, ticket, seid);
                }
            }
            Event::Step(worker, steps) => self.step(*worker, *steps),
            Event::Pass(millis) => self.world.pass(Duration::from_millis(u64::from(*millis))),
            Event::Count(which, via, packets) => self.count(which, *via, u64::from(*packets)),
            Event::Serve(worker) => self.world.fleet.worker(WorkerId(*worker)).serve_inbox(),
            Event::Move(which, to) => self.move_bucket(which, *to),
            Event::RemoveAssociation => {
                self.world
                    .sessions
                    .remove_association(SMF, EndCause::AssociationEnded, |cp| cp.seid % 2 == 0);
            }
            Event::Trouble(refuses, room) => {
                for worker in &mut self.world.fleet.workers {
                    worker.refuses_replace = *refuses;
                    worker.room = room.map(usize::from);
                }
            }
        }
        self.world.hand_over();
        self.collect();
    }

    fn pick(&self, which: &prop::sample::Index) -> Option<Seid> {
        (!self.seids.is_empty()).then(|| self.seids[which.index(self.seids.len())])
    }

    fn establish(&mut self, (cp, slice): (u8, u8), ue: u8, given_number: Option<u8>, broken: bool) {
        let ue = neighbour(u32::from(ue));
        let mut changes = chosen_session(ue);
        changes.subscriber = subscriber_of(slice);
        if let Some(number) = given_number {
            changes.choose.clear();
            changes.create_pdrs[0].pdi.f_teid = Some(given(given_teid(number)));
        }
        if broken {
            changes.create_pdrs[1].far = Some(FarId(99));
        }
        let ticket = self.ticket();
        self.world
            .sessions
            .establish(self.world.now, ticket, SMF, cp_f_seid(u64::from(cp)), changes);
    }

    fn modify(&mut self, which: &prop::sample::Index, edited: Edited) {
        let Some(seid) = self.pick(which) else { return };
        let ticket = self.ticket();
        let cp = match edited {
            Edited::Rename => Some(cp_f_seid(100 + ticket.0)),
            _ => None,
        };
        self.world
            .sessions
            .modify(self.world.now, ticket, seid, cp, changes_of(edited));
    }

    fn step(&mut self, worker: u16, steps: u8) {
        for _ in 0..steps {
            if let Some(Some((op, result))) = self.world.fleet.worker(WorkerId(worker)).step() {
                self.world.sessions.applied(self.world.now, op, result);
            }
        }
    }

    fn count(&mut self, which: &prop::sample::Index, via: u16, packets: u64) {
        let images = self.world.fleet.images();
        if !images.is_empty() {
            let image = images[which.index(images.len())];
            let bucket = image.bucket;
            let packets = Packets {
                session: image.session,
                seid: Seid(image.seid),
                count: uplink_count(packets),
            };
            self.world.fleet.receive(WorkerId(via), bucket, packets);
        }
    }

    fn move_bucket(&mut self, which: &prop::sample::Index, to: u16) {
        let view = self
            .pick(which)
            .and_then(|seid| self.world.sessions.session(seid));
        if let Some(bucket) = view.map(|view| view.bucket()) {
            let begun = self
                .world
                .sessions
                .move_bucket(self.world.now, bucket, WorkerId(to));
            self.moves += usize::from(begun.is_ok());
        }
    }

    /// That each session is where the workers of its slice have it, in control and in workers.
    fn check_slices(&self) {
        let sessions = &self.world.sessions;
        let workers = sessions.slice_workers();
        let slice = |view: &SessionView<'_>| view.subscriber().and_then(|of| of.s_nssai);
        for view in sessions.iter() {
            let owner = sessions.owner(view.bucket());
            assert!(workers.serves(owner, slice(&view)), "{owner:?}");
        }
        for (number, worker) in (0..).map(WorkerId).zip(&self.world.fleet.workers) {
            for image in worker.sessions.values() {
                if let Some(view) = sessions.session(Seid(image.seid)) {
                    assert!(workers.serves(number, slice(&view)), "{number:?}");
                }
            }
        }
    }

    /// Packets that found no session, although control says that there is one.
    fn check_astray(&mut self) {
        for worker in &mut self.world.fleet.workers {
            for packets in worker.astray.drain(..) {
                let session = self.world.sessions.session(packets.seid);
                let is_live = session.is_some_and(|session| !session.rules().pdrs().is_empty());
                assert!(!is_live, "lost {packets:?}");
            }
        }
    }

    fn collect(&mut self) {
        self.check_astray();
        while let Some(moved) = self.world.sessions.poll_moved() {
            self.moves -= 1;
            let owner = if moved.result.is_ok() {
                moved.to
            } else {
                moved.from
            };
            assert_eq!(self.world.sessions.owner(moved.bucket), owner);
        }
        while let Some(outcome) = self.world.sessions.poll_outcome() {
            self.outcome(outcome);
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        assert!(
            self.asked.remove(&outcome.ticket),
            "{outcome:?} was not asked for, or is the second"
        );
        let Ok(done) = outcome.result else { return };
        let urr = |report: &&UsageReport| report.urr == UrrId(1);
        self.reported += done
            .usage
            .iter()
            .filter(urr)
            .map(|report| report.count.ul_packets)
            .sum::<u64>();
        if !self.seids.contains(&done.seid) {
            self.seids.push(done.seid);
        }
        self.living.retain(|_, seid| *seid != done.seid);
        if !self.deletions.remove(&outcome.ticket) {
            self.living.insert(done.cp.seid, done.seid);
        }
    }

    /// Lets all workers finish, without faults.
    fn finish(&mut self) {
        self.act(&Event::Trouble(false, None));
        (0..WORKERS).for_each(|worker| self.act(&Event::Serve(worker)));
        for outcome in self.world.run() {
            self.outcome(outcome);
        }
        self.world.pass(Duration::from_secs(5));
        for outcome in self.world.run() {
            self.outcome(outcome);
        }
        self.collect();
        assert_eq!(self.moves, 0, "moves without end");
        assert!(self.asked.is_empty(), "without outcome: {:?}", self.asked);
    }

    /// That the workers run what control holds, and have the worker selection exceptions that it needs.
    fn compare(&mut self) {
        let sessions: BTreeMap<_, _> = self
            .world
            .sessions
            .iter()
            .map(|view| (view.index(), view))
            .collect();
        let images = self.world.fleet.images();
        assert_eq!(images.len(), sessions.len());
        for (number, worker) in (0..).map(WorkerId).zip(&self.world.fleet.workers) {
            let mut here = worker.sessions.values();
            assert!(here.all(|image| self.world.sessions.owner(image.bucket) == number));
            let mut table = worker.owners.iter();
            assert!(table.all(|(bucket, owner)| self.world.sessions.owner(*bucket) == *owner));
        }
        let mut exceptions = BTreeMap::new();
        for image in images {
            let view = sessions[&image.session];
            assert_eq!((image.seid, &*image.rules), (view.seid().0, view.rules()));
            assert_eq!(
                (&image.tunnels[..], &image.ue_addresses[..]),
                (&view.tunnels()[..], &view.ue_addresses()[..])
            );
            let tunnels = image
                .tunnels
                .iter()
                .map(|(local, teid)| WorkerSelectionKey::Tunnel(*local, *teid));
            let keys = tunnels.chain(
                image
                    .ue_addresses
                    .iter()
                    .map(|(vrf, ue)| WorkerSelectionKey::Address(*vrf, *ue)),
            );
            exceptions.extend(
                keys.filter(|key| key.bucket() != image.bucket)
                    .map(|key| (key, image.bucket)),
            );
        }
        for worker in &self.world.fleet.workers {
            assert_eq!(worker.exceptions, exceptions);
        }
        let tunnels: usize = sessions.values().map(|view| view.tunnels().len()).sum();
        let addresses: usize = sessions.values().map(|view| view.ue_addresses().len()).sum();
        let count = self.world.sessions.count();
        assert_eq!((count.indexes, count.ops), (count.sessions, 0));
        assert_eq!(self.world.sessions.sessions_of(SMF), count.sessions);
        assert_eq!(self.world.sessions.tunnels_of(SMF), tunnels);
        assert_eq!((count.tunnels, count.addresses), (tunnels, addresses));
    }
}

fn changes_of(edited: Edited) -> Changes {
    let mut changes = Changes::default();
    match edited {
        Edited::Far(drops) => {
            let action = if drops {
                ApplyAction::DROP
            } else {
                ApplyAction::FORW
            };
            changes.update_fars = vec![FarUpdate {
                action: Some(action),
                ..FarUpdate::new(FarId(2))
            }];
        }
        Edited::AddPdr(id, given_number) => {
            let id = PdrId(u16::from(id));
            let mut added = pdr(id, SourceInterface::Access, FarId(1));
            match given_number {
                Some(number) => added.pdi.f_teid = Some(given(given_teid(number))),
                None => changes.choose = vec![choose(id, (id.0 == 3).then_some(5))],
            }
            changes.create_pdrs = vec![added];
        }
        Edited::RemovePdr(id) => changes.remove_pdrs = vec![PdrId(u16::from(id))],
        Edited::Urr(id, true) => changes.create_urrs = vec![Urr::volume(UrrId(u32::from(id)))],
        Edited::Urr(id, false) => changes.remove_urrs = vec![UrrId(u32::from(id))],
        Edited::Query => changes.query = Query::All(Vec::new()),
        Edited::Rename => {}
        Edited::Slice(slice) => changes.subscriber = Some(subscriber_of(slice).unwrap_or_default()),
        Edited::Nonsense => changes.remove_fars = vec![FarId(1)],
    }
    changes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn workers_run_what_control_holds(events in prop::collection::vec(event(), 1..80)) {
        let mut play = Play::new();
        events.iter().for_each(|event| play.act(event));
        play.finish();
        play.compare();
        let left: Vec<Seid> = play.world.sessions.iter().map(|view| view.seid()).collect();
        for seid in left {
            let ticket = play.ticket();
            play.world.sessions.delete(play.world.now, ticket, seid);
        }
        play.finish();
        play.world.assert_clean();
        prop_assert!(play.reported <= play.counted(), "{} reported, {} counted", play.reported, play.counted());
    }

    #[test]
    fn sessions_are_with_the_workers_of_their_slice(
        events in prop::collection::vec(event(), 1..80),
        lists in (
            prop::collection::vec(1..WORKERS, 1..3),
            prop::option::of(prop::collection::vec(1..WORKERS, 1..3)),
        ),
    ) {
        let of = |slice: u8, own: &[u16]| (s_nssai(slice), own.iter().copied().map(WorkerId).collect());
        let first = of(1, &lists.0);
        let second = lists.1.as_ref().map(|own| of(2, own));
        let mut play = Play::with(SliceWorkers::new([first].into_iter().chain(second)));
        for event in &events {
            play.act(event);
            play.check_slices();
        }
        play.finish();
        play.check_slices();
        play.compare();
        let left: Vec<Seid> = play.world.sessions.iter().map(|view| view.seid()).collect();
        for seid in left {
            let ticket = play.ticket();
            play.world.sessions.delete(play.world.now, ticket, seid);
        }
        play.finish();
        play.world.assert_clean();
    }

    #[test]
    fn what_is_refused_changes_nothing_while_no_worker_is_late(events in prop::collection::vec(event(), 1..80)) {
        let mut play = Play::new();
        let in_time = |event: &&Event| !matches!(event, Event::Pass(_) | Event::RemoveAssociation);
        events.iter().filter(in_time).for_each(|event| play.act(event));
        play.finish();
        play.compare();
        let left: BTreeMap<u64, Seid> = play.world.sessions.iter().map(|view| (view.cp().seid, view.seid())).collect();
        prop_assert_eq!(left, play.living);
    }

    #[test]
    fn no_packet_is_lost_or_reported_twice_until_a_peer_gives_up(
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut play = Play::new();
        let mut names = 0u8;
        for event in &events {
            match event {
                Event::Pass(_) | Event::RemoveAssociation | Event::Trouble(..) => {}
                Event::Establish { ue, given, broken, .. } => {
                    names += 1;
                    play.act(&Event::Establish { cp: names, ue: *ue, given: *given, broken: *broken, slice: 0 });
                }
                other => play.act(other),
            }
        }
        play.finish();
        let left: Vec<Seid> = play.world.sessions.iter().map(|view| view.seid()).collect();
        for seid in left {
            let ticket = play.ticket();
            play.world.sessions.delete(play.world.now, ticket, seid);
        }
        play.finish();
        prop_assert_eq!(play.reported, play.counted());
    }
}
