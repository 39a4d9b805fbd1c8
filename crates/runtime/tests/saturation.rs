//! The daemon's control loop over UDP sockets of the kernel, asked for more new sessions in each turn than a turn
//! serves: what is too much is refused at once, and everything else passes what waits. Counts and order are asserted;
//! how long anything takes is not.

#[path = "../../n4/tests/support/wire.rs"]
#[allow(dead_code, reason = "each test uses its part")]
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use config::Config;
use packet::MacAddr;
use pfcp::message::Message;
use pfcp::{Frames, ie::Cause};
use runtime::Clock;
use runtime::{ControlLoop, Sockets};
use session::Random;
use upf::{Assembly, Surroundings, assemble};
use wire::*;
use worker::Worker;
use worker::mem::{MemIo, Wires};

const CONFIGURATION: &str = "
node: {id: 127.0.0.8}
n4: {addresses: [127.0.0.1], peers: [127.0.0.0/8], heartbeat_s: 3600, apply_deadline_ms: 10000}
limits: {sessions: 200000}
ports: [{name: ran, driver: {memory: {}}}, {name: dn, driver: {memory: {}}}]
instances:
  - {name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}
  - {name: internet, roles: [n6], port: dn, addresses: [10.200.0.1/24]}
";
const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const HEARTBEAT: u8 = 1;
const ESTABLISHMENT: u8 = 50;
const MODIFICATION: u8 = 52;
const DELETION: u8 = 54;

/// New sessions asked for in each turn: four times what a turn serves, and less than the smallest buffer of a socket.
const EACH_TURN: u32 = 64;
/// Turns of the flood at most. On the fastest of machines refusals begin after a few hundred.
const MOST_TURNS: u32 = 2_500;

/// What an answer said: the cause, and the user plane's SEID.
#[derive(Clone, Copy, Debug)]
struct Answer {
    cause: Option<Cause>,
    seid: Option<u64>,
}

/// A UPF whose control loop and worker take turns on one thread, and the socket of an SMF.
struct World {
    turns: ControlLoop,
    worker: Worker<MemIo>,
    _wires: Wires,
    clock: Clock,
    smf: UdpSocket,
    upf: SocketAddr,
    sequence: u32,
    sent: BTreeMap<u32, u8>,
    answers: BTreeMap<u32, Answer>,
}

impl World {
    fn new() -> World {
        let config = Config::parse(CONFIGURATION, "saturation").expect("a good configuration");
        let network = Arc::new(config.network().expect("a network"));
        let macs = vec![MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
        let clock = Clock::starting_now(0);
        let instances = network.instances().iter();
        let around = Surroundings {
            now: clock.now(),
            clock_unix: 1_700_000_000,
            random: Random::from_number(7),
            interfaces: instances.map(|one| worker::interface(one, &macs)).collect(),
            macs,
        };
        let Assembly { control, workers } = assemble(&config, &network, around);
        let (wires, ios) = Wires::new(1, 2, 4_096);
        let mut made = workers.into_iter().zip(ios);
        let ((worker, link), io) = made.next().expect("a worker");
        let sockets = Sockets::open([LOCALHOST.into()].into_iter(), 0).expect("a socket");
        let upf = sockets.addresses().next().expect("its address");
        let smf = UdpSocket::bind((LOCALHOST, 0)).expect("a socket");
        smf.set_nonblocking(true).expect("a socket that does not block");
        World {
            turns: ControlLoop::new(control, sockets, clock.clone()),
            worker: Worker::new(worker, io, link).expect("memory"),
            _wires: wires,
            clock,
            smf,
            upf,
            sequence: 0,
            sent: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Sends a request; returns its number.
    fn send(&mut self, message_type: u8, seid: Option<u64>, ies: &[Octets]) -> u32 {
        self.sequence += 1;
        let octets = message(message_type, seid, self.sequence, ies);
        self.smf.send_to(&octets, self.upf).expect("sent");
        self.sent.insert(self.sequence, message_type);
        self.sequence
    }

    fn establish(&mut self) -> u32 {
        let number = self.sequence + 1;
        self.send(ESTABLISHMENT, Some(0), &session(number))
    }

    /// A turn of control, one of the worker, and the answers that came of them.
    fn turn(&mut self) {
        self.turns.turn().expect("a turn");
        self.worker.poll(self.clock.now());
        let mut room = [0; 4_096];
        while let Ok(length) = self.smf.recv(&mut room) {
            let frame = Frames::new(&room[..length]).next().expect("a message");
            let frame = frame.expect("a header");
            let (cause, seid) = match Message::decode(&frame).expect("a body") {
                Message::AssociationSetupResponse(one) => (Some(one.cause), None),
                Message::SessionEstablishmentResponse(one) => {
                    (Some(one.cause), one.up_f_seid.map(|own| own.seid.0))
                }
                Message::SessionModificationResponse(one) => (Some(one.cause), None),
                Message::SessionDeletionResponse(one) => (Some(one.cause), None),
                _ => (None, None),
            };
            let number = frame.header.sequence.get();
            let before = self.answers.insert(number, Answer { cause, seid });
            assert!(before.is_none(), "{number} is answered twice");
        }
    }

    fn waiting(&mut self) -> usize {
        self.turns.control().admission().waiting()
    }

    fn answered(&self, number: u32) -> bool {
        self.answers.contains_key(&number)
    }

    /// The answer to a request when nothing else is asked.
    fn calm(&mut self, number: u32) -> Answer {
        for _ in 0..10_000 {
            if let Some(answer) = self.answers.get(&number) {
                return *answer;
            }
            self.turn();
        }
        panic!("{number} is not answered");
    }

    fn with_cause(&self, cause: Cause) -> usize {
        let theirs = self
            .answers
            .iter()
            .filter(|(_, answer)| answer.cause == Some(cause));
        theirs
            .filter(|(number, _)| self.sent[*number] == ESTABLISHMENT)
            .count()
    }
}

/// A session of two PDRs, named after a number.
fn session(number: u32) -> Vec<Octets> {
    let ue = Ipv4Addr::from_bits(0x0a40_0000 + number);
    let pdr = |id: u16, parts: &[Octets]| {
        let far = far_id(u32::from(id));
        create_pdr(&[&[pdr_id(id), precedence(100)], parts, &[far]].concat())
    };
    let uplink = [
        pdi(&[source_if(ACCESS), choose(V4, None), ue_ip(false, ue)]),
        outer_header_removal(0),
    ];
    let downlink = [pdi(&[source_if(CORE), ue_ip(true, ue)])];
    let tunnel = outer_header_creation(number, Ipv4Addr::new(10, 100, 0, 2));
    vec![
        node_v4(LOCALHOST),
        f_seid(number.into(), LOCALHOST.into()),
        pdr(1, &uplink),
        pdr(2, &downlink),
        create_far(&[
            far_id(1),
            apply_action(&[FORW]),
            forwarding(&[destination_if(CORE)]),
        ]),
        create_far(&[
            far_id(2),
            apply_action(&[FORW]),
            forwarding(&[destination_if(ACCESS), tunnel]),
        ]),
    ]
}

#[test]
fn a_flood_of_new_sessions_is_refused_and_everything_else_goes_through() {
    let mut world = World::new();
    let setup = world.send(5, None, &[node_v4(LOCALHOST), recovery(100)]);
    assert_eq!(world.calm(setup).cause, Some(Cause::REQUEST_ACCEPTED));
    let mut seids: Vec<u64> = Vec::new();
    for _ in 0..100 {
        let number = world.establish();
        seids.push(world.calm(number).seid.expect("a session"));
    }

    let (mut passed, mut turns) = (0, 0);
    while world.with_cause(Cause::PFCP_ENTITY_IN_CONGESTION) < 1_000 && turns < MOST_TURNS {
        turns += 1;
        for _ in 0..EACH_TURN {
            world.establish();
        }
        world.turn();
        // Clients that are neither accepted nor waiting have been refused by now.
        let open = world.sent.len() - world.answers.len();
        assert!(
            open <= world.waiting() + 2 * 16,
            "{open} of turn {turns} are open"
        );
        if turns % 20 == 0 && seids.len() > 1 {
            passed += everything_else(&mut world, &mut seids);
        }
    }
    // By now there is no room even for what has waited long: it still passes.
    passed += everything_else(&mut world, &mut seids);
    assert!(
        world.with_cause(Cause::PFCP_ENTITY_IN_CONGESTION) >= 1_000,
        "{turns} turns"
    );
    assert!(passed > 0, "nothing was asked while others waited");

    // What was let in is served, each request is answered once, and then there is room again.
    while world.waiting() > 0 {
        world.turn();
    }
    let last = world.establish();
    assert_eq!(world.calm(last).cause, Some(Cause::REQUEST_ACCEPTED));
    assert_eq!(world.answers.len(), world.sent.len());
    let refused = world.with_cause(Cause::PFCP_ENTITY_IN_CONGESTION);
    let accepted = world.with_cause(Cause::REQUEST_ACCEPTED);
    let asked = world.sent.values().filter(|one| **one == ESTABLISHMENT).count();
    assert_eq!(accepted + refused, asked);
    let sessions = world.turns.control().endpoint().sessions().count().sessions;
    assert_eq!(sessions, accepted - (100 - seids.len()));
}

/// Sends a heartbeat, a modification and a deletion, which are answered before earlier requests that wait. One if a
/// client was waiting.
fn everything_else(world: &mut World, seids: &mut Vec<u64>) -> usize {
    let before = world.waiting();
    let deleted = seids.pop().expect("a session");
    let modified = *seids.last().expect("a session");
    let heartbeat = world.send(HEARTBEAT, None, &[recovery(100)]);
    let modification = world.send(MODIFICATION, Some(modified), &[]);
    let deletion = world.send(DELETION, Some(deleted), &[]);
    // One turn to take them, two for the messages between control and the worker.
    for _ in 0..3 {
        world.turn();
    }
    for number in [heartbeat, modification, deletion] {
        assert!(world.answered(number), "{} waits", world.sent[&number]);
    }
    for number in [modification, deletion] {
        assert_eq!(world.answers[&number].cause, Some(Cause::REQUEST_ACCEPTED));
    }
    assert!(
        world.waiting() + 3 * 16 >= before,
        "no more than three turns' worth was served"
    );
    usize::from(before > 3 * 16)
}
