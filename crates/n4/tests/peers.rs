//! Who may have an association, and for whom there is room.

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use n4::Config;
use pfcp::ie::Cause;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const ACCEPTED: Option<Cause> = Some(Cause::REQUEST_ACCEPTED);
const NO_ROOM: Option<Cause> = Some(Cause::NO_RESOURCES_AVAILABLE);

fn at(last: u8) -> SocketAddr {
    SocketAddr::new([10, 100, 9, last].into(), 8805)
}

fn named(name: u32) -> Octets {
    node_name(format!("smf{name}").as_bytes())
}

impl World {
    /// With heartbeats every ten seconds and room for so many associations, in all and of one address.
    fn roomy(all: usize, of_one_address: usize) -> World {
        World::with(Config {
            heartbeat_interval: Some(SECOND * 10),
            max_associations: all,
            max_associations_per_address: of_one_address,
            ..World::config(1)
        })
    }

    fn set_up(&mut self, from: SocketAddr, name: u32) -> Option<Cause> {
        let sequence = self.next_sequence();
        self.send(from, &message(5, None, sequence, &[named(name), recovery(100)]))[0].cause()
    }

    fn names(&self) -> Vec<String> {
        self.n4
            .associations()
            .map(|association| association.node.to_string())
            .collect()
    }

    /// Lets our heartbeats to everybody but the peers at `answering` go unanswered until they are given up.
    fn fall_silent(&mut self, answering: &[SocketAddr]) {
        for sent in self.pass(SECOND * 10) {
            if answering.contains(&sent.0.to) {
                let answer = message(2, None, sent.header().sequence.get(), &[recovery(100)]);
                self.send(sent.0.to, &answer);
            }
        }
        (0..4).for_each(|_| drop(self.pass(SECOND)));
    }
}

#[test]
fn the_oldest_silent_association_without_sessions_makes_room() {
    let mut world = World::roomy(4, 9);
    for name in 0..4 {
        assert_eq!(world.set_up(at(name as u8), name), ACCEPTED);
        world.now = world.now + SECOND;
    }
    let mut session = plain_session(1, UE);
    session[0] = named(1);
    world.send(at(1), &message(50, Some(0), 77, &session))[0].assert_accepted();
    assert_eq!(world.set_up(at(9), 9), NO_ROOM, "nobody is silent yet");
    world.fall_silent(&[at(0)]);
    assert_eq!(world.set_up(at(9), 9), ACCEPTED);
    assert_eq!(
        world.names(),
        ["smf0", "smf1", "smf3", "smf9"],
        "0 answers, 1 has a session, 2 is the oldest of the rest"
    );
    assert_eq!(world.set_up(at(8), 8), ACCEPTED);
    assert_eq!(world.names(), ["smf0", "smf1", "smf9", "smf8"]);
    assert_eq!(world.set_up(at(7), 7), NO_ROOM);
    assert_eq!(world.n4.counters().evicted_associations, 2);
    assert_eq!(world.sessions(), 1);
}

#[test]
fn what_has_made_room_is_a_stranger_and_may_come_back() {
    let mut world = World::roomy(1, 1);
    world.set_up(at(1), 1);
    world.fall_silent(&[]);
    assert_eq!(world.set_up(at(2), 2), ACCEPTED);
    let mut session = plain_session(1, UE);
    session[0] = named(1);
    let reply = world.send(at(1), &message(50, Some(0), 77, &session));
    assert_eq!(reply[0].cause(), Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION));
    let beats = world.pass(SECOND * 10);
    assert!(beats.iter().all(|beat| beat.0.to == at(2)), "{beats:?}");
    world.fall_silent(&[]);
    assert_eq!(world.set_up(at(1), 1), ACCEPTED);
}

#[test]
fn one_address_cannot_take_all_places() {
    let mut world = World::roomy(100, 3);
    for name in 0..3 {
        assert_eq!(world.set_up(at(1), name), ACCEPTED);
    }
    assert_eq!(world.set_up(at(1), 3), NO_ROOM);
    assert_eq!(world.set_up(at(1), 2), ACCEPTED, "not a new one");
    assert_eq!(world.set_up(at(2), 4), ACCEPTED, "another address");
    world.fall_silent(&[]);
    assert_eq!(world.set_up(at(1), 3), ACCEPTED);
    assert_eq!(
        world.names(),
        ["smf1", "smf2", "smf4", "smf3"],
        "its own oldest went"
    );
}

#[test]
fn a_known_peer_finds_room_among_a_thousand_silent_strangers() {
    let mut world = World::roomy(1_000, 32);
    for name in 0..1_000u32 {
        let from = SocketAddr::new([10, 200, (name / 100) as u8, (name % 100) as u8].into(), 8805);
        assert_eq!(world.set_up(from, name), ACCEPTED);
    }
    world.fall_silent(&[]);
    world.associate();
    world.establish(1, UE);
    assert_eq!(world.n4.associations().count(), 1_000);
}
