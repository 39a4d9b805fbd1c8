//! Events for the log: states of associations, and refused requests.

use crate::support;

use std::time::Duration;

use n4::{AssociationEnd, Config, LogEvent};
use pfcp::ie::{Cause, FailedRuleId, PdrId};
use pfcp::{IeType, MessageType};

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    fn events(&mut self) -> Vec<LogEvent> {
        let now = self.now;
        std::iter::from_fn(|| self.n4.poll_log(now))
            .map(|(event, suppressed)| {
                assert_eq!(suppressed, 0);
                event
            })
            .collect()
    }

    /// Lets the next heartbeat come, and answers it if the peer has a Recovery Time Stamp.
    fn next_beat(&mut self, started: Option<u32>) {
        let sent = self.pass(SECOND * 10);
        let heartbeat = sent.iter().find(|one| one.header().message_type.0 == 1);
        let sequence = heartbeat.expect("a heartbeat").header().sequence.get();
        match started {
            Some(started) => drop(self.send(smf(), &message(2, None, sequence, &[recovery(started)]))),
            None => (0..4).for_each(|_| drop(self.pass(SECOND))),
        }
    }
}

#[test]
fn states_of_an_association_are_logged_with_the_number_of_its_sessions() {
    let mut world = World::with(Config {
        heartbeat_interval: Some(SECOND * 10),
        ..World::config(1)
    });
    world.associate();
    let events = world.events();
    let [
        LogEvent::AssociationUp {
            peer,
            is_again: false,
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(
        (peer.node.to_string(), peer.peer),
        (SMF_ADDRESS.to_string(), smf())
    );
    let peer = || peer.clone();
    world.establish(1, UE);
    world.next_beat(None);
    let (sessions, silent) = (1, world.events());
    assert_eq!(
        silent,
        [LogEvent::PeerUnreachable {
            peer: peer(),
            sessions
        }]
    );
    world.next_beat(Some(100));
    assert_eq!(
        world.events(),
        [LogEvent::PeerReachable {
            peer: peer(),
            sessions
        }]
    );
    world.next_beat(Some(100));
    assert_eq!(world.events(), []);
    world.next_beat(Some(200));
    assert_eq!(
        world.events(),
        [LogEvent::PeerRestarted {
            peer: peer(),
            sessions
        }]
    );
    // The peer sets up its known association anew; and once more, with a session that it has lost.
    world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(200)]);
    let up = || LogEvent::AssociationUp {
        peer: peer(),
        is_again: true,
    };
    assert_eq!(world.events(), [up()]);
    world.establish(1, UE);
    world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(300)]);
    assert_eq!(
        world.events(),
        [
            LogEvent::PeerRestarted {
                peer: peer(),
                sessions
            },
            up()
        ]
    );
    world.establish(1, UE);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]);
    let down = LogEvent::AssociationDown {
        peer: peer(),
        why: AssociationEnd::Released,
        sessions,
    };
    assert_eq!(world.events(), [down]);
}

#[test]
fn a_rejection_is_logged_with_its_cause_the_ie_and_the_rule_and_counted() {
    let mut world = World::associated();
    world.events();
    let mut session = plain_session(1, UE);
    session[2] = create_pdr(&[
        pdr_id(7),
        precedence(100),
        pdi(&[source_if(ACCESS), f_teid(0x77, N3), ue_ip(false, UE)]),
        outer_header_removal(0),
        far_id(1),
    ]);
    let sequence = world.next_sequence();
    let request = message(50, Some(0), sequence, &session);
    let refusal = world.datagram(&request);
    // The same again is answered the same, and is no other refusal.
    assert_eq!(world.datagram(&request), refusal);
    let refused = LogEvent::RequestRejected {
        peer: smf(),
        request: MessageType::SESSION_ESTABLISHMENT_REQUEST,
        cause: Cause::INVALID_F_TEID_ALLOCATION_OPTION,
        ie: Some(IeType::F_TEID),
        rule: Some(FailedRuleId::Pdr(PdrId(7))),
    };
    assert_eq!(world.events(), [refused]);
    let counts = world
        .n4
        .message_counters()
        .of(MessageType::SESSION_ESTABLISHMENT_REQUEST);
    assert_eq!((counts.received, counts.duplicates, counts.refused), (2, 1, 1));
    let answers = world
        .n4
        .message_counters()
        .of(MessageType::SESSION_ESTABLISHMENT_RESPONSE);
    assert_eq!((answers.sent, answers.resent), (1, 1));
    let causes: Vec<_> = world.n4.message_counters().refused().collect();
    assert_eq!(causes, [(Cause::INVALID_F_TEID_ALLOCATION_OPTION, 1)]);
}

#[test]
fn what_a_peer_refuses_is_reported_and_counted() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    world.events();
    world
        .n4
        .handle_error_indication(world.now, GNB.into(), packet::Teid(0x101));
    let sent = world.run();
    assert_eq!(sent[0].header().message_type, MessageType::SESSION_REPORT_REQUEST);
    let sequence = sent[0].header().sequence.get();
    world.send(smf(), &message(57, Some(seid), sequence, &[ie(19, [65])]));
    let refused = LogEvent::RejectedByPeer {
        peer: smf(),
        response: MessageType::SESSION_REPORT_RESPONSE,
        cause: Cause::SESSION_CONTEXT_NOT_FOUND,
    };
    assert_eq!(world.events(), [refused]);
    let causes: Vec<_> = world.n4.message_counters().refused_by_peers().collect();
    assert_eq!(causes, [(Cause::SESSION_CONTEXT_NOT_FOUND, 1)]);
}
