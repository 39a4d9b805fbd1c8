//! Which peers may have an association and act on it, which peers have room, and when a peer has restarted.

use crate::support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use n4::{Config, Peers};
use pfcp::ie::Cause;
use pfcp::message::Message;
use rules::prefix::IpPrefix;

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
    /// With heartbeats every ten seconds and room for this number of associations, in all and of one address.
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

    /// Leaves heartbeats to all but the peers at `answering` without response until they are given up.
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
    assert_eq!(world.set_up(at(9), 9), NO_ROOM, "no peer is silent yet");
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
fn an_evicted_peer_is_unknown_and_may_come_back() {
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
fn a_known_peer_finds_room_among_a_thousand_silent_unknown_peers() {
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

const UNKNOWN_PEER: Option<Cause> = Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);

/// Alternative SMF IP Address.
fn alternative(last: u8) -> Octets {
    ie(178, [2, 10, 100, 9, last])
}

impl World {
    /// The cause that a request from `from` is answered with.
    fn cause_from(
        &mut self,
        from: SocketAddr,
        message_type: u8,
        seid: Option<u64>,
        ies: &[Octets],
    ) -> Option<Cause> {
        let sequence = self.next_sequence();
        let replies = self.send(from, &message(message_type, seid, sequence, ies));
        assert_eq!((replies.len(), replies[0].0.to), (1, from));
        replies[0].cause()
    }
}

#[test]
fn a_peer_is_its_node_id_in_every_spelling_and_from_every_port() {
    let mut world = World::new();
    let name = node_name(&labels("smf.example"));
    world
        .ask(5, None, &[name.clone(), recovery(100)])
        .assert_accepted();
    let port = SocketAddr::new(SMF_ADDRESS.into(), 33_333);
    let mut ies = plain_session(1, UE);
    ies[0] = node_name(b"SMF.example");
    assert_eq!(world.cause_from(port, 50, Some(0), &ies), ACCEPTED);
    world.ask(5, None, &[name, recovery(100)]).assert_accepted();
    assert_eq!(world.n4.associations().count(), 1);
    world.assert_clean();
}

#[test]
fn a_sender_that_names_another_peer_is_unauthorised() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let node = node_v4(SMF_ADDRESS);
    let other_ue = Ipv4Addr::new(10, 45, 0, 3);
    for (message_type, seid, ies) in [
        (7, None, vec![node.clone(), cp_features(1)]),
        (9, None, vec![node.clone()]),
        (14, None, vec![node]),
        (50, Some(0), plain_session(2, other_ue)),
        (52, Some(seid), vec![]),
        (54, Some(seid), vec![]),
    ] {
        let cause = world.cause_from(at(1), message_type, seid, &ies);
        assert_eq!(cause, UNKNOWN_PEER, "message type {message_type}");
    }
    assert_eq!(world.n4.counters().unauthorised, 6);
    assert_eq!(world.sessions(), 1);
    assert_eq!(world.n4.associations().next().unwrap().features.bits(), 0);

    assert_eq!(world.set_up(at(1), 1), ACCEPTED);
    let not_yours = Some(Cause::SESSION_CONTEXT_NOT_FOUND);
    assert_eq!(world.cause_from(at(1), 54, Some(seid), &[]), not_yours);
    world.ask(54, Some(seid), &[]).assert_accepted();
}

#[test]
fn a_peer_has_the_addresses_that_it_names() {
    let mut world = World::new();
    let name = named(1);
    let setup = [name.clone(), recovery(100), alternative(1), alternative(2)];
    world.ask(5, None, &setup).assert_accepted();
    let mut ies = plain_session(1, UE);
    ies[0] = name.clone();
    ies[1] = f_seid(1, at(7).ip());
    assert_eq!(world.cause_from(at(7), 50, Some(0), &ies), UNKNOWN_PEER);
    assert_eq!(world.cause_from(at(2), 50, Some(0), &ies), ACCEPTED);
    let seid = world.only_session().seid().0;
    assert_eq!(
        world.cause_from(at(7), 52, Some(seid), &[]),
        ACCEPTED,
        "the CP F-SEID's"
    );

    let update = [name.clone(), alternative(3)];
    assert_eq!(world.cause_from(at(1), 7, None, &update), ACCEPTED);
    assert_eq!(
        world.cause_from(at(1), 7, None, &update),
        UNKNOWN_PEER,
        "no longer named"
    );
    assert_eq!(world.cause_from(at(3), 54, Some(seid), &[]), ACCEPTED);
    assert_eq!(world.cause_from(at(3), 9, None, &[name]), ACCEPTED);
    world.assert_clean();
}

#[test]
fn a_node_id_that_is_an_address_is_the_peers() {
    let mut world = World::new();
    let setup = [node_v4(SMF_ADDRESS), recovery(100)];
    assert_eq!(world.cause_from(at(1), 5, None, &setup), ACCEPTED);
    world.establish(1, UE);
}

#[test]
fn every_address_is_the_peers_if_so_configured() {
    let mut world = World::with(Config {
        any_source: true,
        ..World::config(1)
    });
    world.associate();
    assert_eq!(
        world.cause_from(at(1), 50, Some(0), &plain_session(1, UE)),
        ACCEPTED
    );
    let seid = world.only_session().seid().0;
    assert_eq!(world.cause_from(at(2), 54, Some(seid), &[]), ACCEPTED);
    world.assert_clean();
}

impl World {
    /// Sends a heartbeat with this Recovery Time Stamp and answers the request of ours that it calls forth.
    fn beat(&mut self, from: SocketAddr, start: u32) -> Option<Reply> {
        let sequence = self.next_sequence();
        let mut replies = self.send(from, &message(1, None, sequence, &[recovery(start)]));
        assert!(matches!(replies[0].message(), Message::HeartbeatResponse(_)));
        assert!(replies.len() < 3);
        replies.drain(1..).next()
    }

    fn answer_heartbeat(&mut self, asked: &Reply, start: u32) {
        assert!(matches!(asked.message(), Message::HeartbeatRequest(_)));
        let sequence = asked.header().sequence.get();
        assert_eq!(
            self.send(asked.0.to, &message(2, None, sequence, &[recovery(start)])),
            []
        );
    }
}

#[test]
fn a_restart_shown_by_a_heartbeat_is_believed_when_the_peer_confirms_it() {
    let mut world = World::associated();
    world.establish(1, UE);
    assert_eq!(world.beat(smf(), 100), None);
    assert_eq!(world.beat(smf(), 99), None, "an old datagram");
    let neighbour = SocketAddr::new(SMF_ADDRESS.into(), 40_000);
    let asked = world.beat(neighbour, 101).expect("the peer is asked");
    assert_eq!(asked.0.to, smf());
    assert_eq!(world.beat(neighbour, 102), None, "once at a time");
    world.answer_heartbeat(&asked, 100);
    assert_eq!(world.sessions(), 1, "it was another node at that address");

    let asked = world.beat(smf(), 101).unwrap();
    world.answer_heartbeat(&asked, 101);
    assert_eq!(world.sessions(), 0);
    assert_eq!(world.n4.counters().peer_restarts, 1);
    assert_eq!(world.beat(at(1), 500), None, "of no association");
}

#[test]
fn a_start_in_the_future_hides_no_later_restart() {
    const IN_1900: u64 = 2_208_988_800;
    let now = u32::try_from(UPF_START + IN_1900).unwrap();
    let mut world = World::new();
    let setup = |world: &mut World, start| {
        let setup = [node_v4(SMF_ADDRESS), recovery(start)];
        world.ask(5, None, &setup).assert_accepted();
        world.establish(1, UE);
    };
    setup(&mut world, now - 1_000);
    assert_eq!(world.beat(smf(), u32::MAX), None);
    let mut ies = plain_session(2, Ipv4Addr::new(10, 45, 0, 9));
    ies.push(recovery(u32::MAX));
    world.ask(50, Some(0), &ies).assert_accepted();
    assert_eq!(world.sessions(), 2);
    let asked = world.beat(smf(), now - 10).expect("a real restart is seen");
    world.answer_heartbeat(&asked, now - 10);
    assert_eq!(world.sessions(), 0);

    setup(&mut world, u32::MAX);
    assert_eq!(world.beat(smf(), now), None, "earlier than it said");
    setup(&mut world, now - 5);
    let asked = world.beat(smf(), now).expect("the set-up put it right");
    world.answer_heartbeat(&asked, now);
    assert_eq!(world.sessions(), 0);
    assert_eq!(world.n4.counters().doubted_recoveries, 3);
}

#[test]
fn a_peer_that_came_back_is_not_silent_for_what_its_past_left_unanswered() {
    let mut world = World::roomy(1, 1);
    world.set_up(at(1), 1);
    world.pass(SECOND * 10);
    (0..3).for_each(|_| drop(world.pass(SECOND)));
    world.set_up(at(1), 1);
    world.pass(SECOND);
    assert!(world.n4.associations().next().unwrap().reachable);
}

#[test]
fn a_peer_that_takes_more_than_its_share_among_others_gets_cause_75() {
    let mut config = World::config(1);
    config.heartbeat_interval = Some(SECOND * 10);
    config.sessions.worker_tunnels = 4;
    let mut world = World::with(config);
    world.associate();
    world.set_up(at(1), 1);
    let ue = |host| Ipv4Addr::new(10, 45, 0, host);
    world.establish(1, ue(1));
    world.establish(2, ue(2));
    let refused = |world: &mut World| world.ask(50, Some(0), &plain_session(3, ue(3))).cause();
    assert_eq!(refused(&mut world), NO_ROOM);
    world.fall_silent(&[smf()]);
    world.establish(3, ue(3));
    world.establish(4, ue(4));
    assert_eq!(world.set_up(at(1), 1), ACCEPTED);
    assert_eq!(world.sessions(), 4, "what it has, it keeps");
    assert_eq!(refused(&mut world), NO_ROOM);
}

#[test]
fn a_host_with_several_node_ids_has_one_share_and_alone_all_that_there_is() {
    let mut config = World::config(1);
    config.sessions.worker_tunnels = 4;
    let mut world = World::with(config);
    world.associate();
    assert_eq!(world.set_up(smf(), 2), ACCEPTED);
    let ue = |host| Ipv4Addr::new(10, 45, 0, host);
    let of_the_other_name = |cp, host| {
        let mut session = plain_session(cp, ue(host));
        session[0] = named(2);
        session
    };
    world.establish(1, ue(1));
    world.ask(50, Some(0), &of_the_other_name(2, 2)).assert_accepted();
    world.establish(3, ue(3));
    world.set_up(at(1), 1);
    for session in [plain_session(4, ue(4)), of_the_other_name(4, 4)] {
        assert_eq!(world.ask(50, Some(0), &session).cause(), NO_ROOM);
    }
    assert_eq!(world.sessions(), 3);
}

/// It counts sequence numbers and SEIDs from the beginning again: its first requests are those of its last life.
#[test]
fn a_restarted_peer_that_repeats_itself_to_the_octet_gets_a_new_session() {
    let mut world = World::new();
    let establishment = message(50, Some(0), 2, &plain_session(1, UE));
    let mut begin = |started| {
        let setup = message(5, None, 1, &[node_v4(SMF_ADDRESS), recovery(started)]);
        world.datagram(&setup).assert_accepted();
        let first = world.datagram(&establishment);
        assert_eq!(world.datagram(&establishment), first, "a retransmission");
        assert_eq!(world.only_session().seid().0, first.up_seid());
        first.up_seid()
    };
    assert_ne!(begin(100), begin(101));
}

#[test]
fn a_restarted_peer_that_releases_as_in_its_last_life_is_released() {
    let mut world = World::new();
    for started in [100, 101] {
        let setup = message(5, None, 1, &[node_v4(SMF_ADDRESS), recovery(started)]);
        world.datagram(&setup).assert_accepted();
        let release = message(9, None, 2, &[node_v4(SMF_ADDRESS)]);
        world.datagram(&release).assert_accepted();
        assert_eq!(world.n4.associations().count(), 0);
    }
}

#[test]
fn a_live_peer_is_not_displaced_by_an_unknown_one() {
    let mut world = World::roomy(9, 9);
    world.associate();
    world.establish(1, Ipv4Addr::new(10, 45, 0, 1));
    let claim = |world: &mut World, from| {
        let sequence = world.next_sequence();
        let setup = message(5, None, sequence, &[node_v4(SMF_ADDRESS), recovery(200)]);
        world.send(from, &setup)
    };
    let sent = claim(&mut world, at(1));
    let refused = sent.iter().find(|sent| sent.0.to == at(1)).expect("an answer");
    assert_eq!(refused.cause(), Some(Cause::REQUEST_REJECTED));
    let asked = sent.iter().filter(|sent| sent.0.to == smf()).count();
    assert_eq!((asked, world.sessions()), (1, 1), "it is asked whether it lives");
    assert_eq!(world.n4.counters().unauthorised, 1);
    // The peer itself may.
    world.associate();
    world.establish(1, Ipv4Addr::new(10, 45, 0, 1));
    // It falls silent: it may have moved.
    claim(&mut world, at(1));
    world.fall_silent(&[]);
    let sent = claim(&mut world, at(1));
    assert_eq!(sent[0].cause(), ACCEPTED);
    assert_eq!(world.sessions(), 0);
}

#[test]
fn a_peer_may_move_within_its_prefix() {
    let mut config = World::config(1);
    config.heartbeat_interval = Some(SECOND * 10);
    config.peers = vec![Peers::from(
        "10.100.0.0/16".parse::<IpPrefix>().expect("a prefix"),
    )];
    let mut world = World::with(config);
    world.associate();
    let setup = message(5, None, 77, &[node_v4(SMF_ADDRESS), recovery(200)]);
    assert_eq!(world.send(at(1), &setup)[0].cause(), ACCEPTED);
}
