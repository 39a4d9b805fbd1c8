//! The SMF against a UPF of a page, over a network that loses, doubles and delays.

use super::*;
use crate::traffic::Random;
use pfcp::group::CreatedPdr;
use pfcp::group::UsageReportSessionDeletion;
use pfcp::ie::{
    ApplyAction, FSeid, NodeId, UpFunctionFeatures, UrSeqn, UrrId, UsageReportTrigger, VolumeMeasurement,
};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupResponse, Body, HeartbeatRequest, HeartbeatResponse,
    SessionDeletionResponse, SessionEstablishmentRequest,
};
use pfcp::{Header, MessageType, SequenceNumber};
use std::collections::HashMap;
use std::time::Duration;

const UPF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STARTED: RecoveryTimeStamp = RecoveryTimeStamp(0xe000_0000);

/// Answers each request once, and repeats the answer to a request that comes again.
struct Upf {
    recovery: RecoveryTimeStamp,
    answers: HashMap<SequenceNumber, Vec<u8>>,
    /// By UP SEID: CP SEID, and whether the downlink FAR forwards into a tunnel.
    sessions: HashMap<u64, (Seid, bool)>,
    established: u64,
    refuse: fn(u64) -> Option<Cause>,
}

impl Upf {
    fn new() -> Upf {
        let (answers, sessions) = (HashMap::new(), HashMap::new());
        Upf {
            recovery: STARTED,
            answers,
            sessions,
            established: 0,
            refuse: |_| None,
        }
    }

    fn handle(&mut self, datagram: &[u8]) -> Vec<u8> {
        let frame = Frames::new(datagram).next().unwrap().unwrap();
        let sequence = frame.header.sequence;
        if let Some(answer) = self.answers.get(&sequence) {
            return answer.clone();
        }
        let answer = self.answer(&frame);
        self.answers.insert(sequence, answer.clone());
        answer
    }

    fn answer(&mut self, frame: &Frame) -> Vec<u8> {
        let (sequence, node_id, ok) = (frame.header.sequence, NodeId::Ipv4(UPF), Cause::REQUEST_ACCEPTED);
        let node = Header::node(MessageType(0), sequence);
        let seid = frame.header.seid.unwrap_or(Seid(0)).0;
        match Message::decode(frame).unwrap() {
            Message::AssociationSetupRequest(_) => {
                let features = Some(UpFunctionFeatures::FTUP);
                let recovery_time_stamp = Some(self.recovery);
                let response = AssociationSetupResponse {
                    recovery_time_stamp,
                    up_function_features: features,
                    ..AssociationSetupResponse::new(node_id, ok)
                };
                bytes(&response, node)
            }
            Message::AssociationReleaseRequest(_) => {
                bytes(&AssociationReleaseResponse::new(node_id, ok), node)
            }
            Message::HeartbeatRequest(_) => bytes(&HeartbeatResponse::new(self.recovery), node),
            Message::SessionEstablishmentRequest(request) => self.establish(&request, sequence),
            Message::SessionModificationRequest(request) => {
                let far = request.update_far.first().unwrap();
                let parameters = far.update_forwarding_parameters.unwrap();
                let Some(session) = self.sessions.get_mut(&seid) else {
                    return unknown(sequence);
                };
                session.1 =
                    far.apply_action == Some(ApplyAction::FORW) && parameters.outer_header_creation.is_some();
                let header = Header::session(MessageType(0), session.0, sequence);
                bytes(&SessionModificationResponse::new(ok), header)
            }
            Message::SessionDeletionRequest(_) => {
                let Some((cp, forwards)) = self.sessions.remove(&seid) else {
                    return unknown(sequence);
                };
                assert!(forwards, "a session was deleted before its tunnel was known");
                let volume = VolumeMeasurement {
                    uplink: Some(10),
                    downlink: Some(20),
                    ..VolumeMeasurement::default()
                };
                let report = [UsageReportSessionDeletion {
                    volume_measurement: Some(volume),
                    ..UsageReportSessionDeletion::new(UrrId(1), UrSeqn(0), UsageReportTrigger::empty())
                }];
                let response = SessionDeletionResponse {
                    usage_report: (&report).into(),
                    ..SessionDeletionResponse::new(ok)
                };
                bytes(&response, Header::session(MessageType(0), cp, sequence))
            }
            other => panic!("the SMF sent {other:?}"),
        }
    }

    fn establish(&mut self, request: &SessionEstablishmentRequest, sequence: SequenceNumber) -> Vec<u8> {
        assert_eq!(
            (
                request.create_pdr.len(),
                request.create_far.len(),
                request.create_qer.len()
            ),
            (2, 2, 1)
        );
        let header = Header::session(MessageType(0), request.cp_f_seid.seid, sequence);
        if let Some(cause) = (self.refuse)(request.cp_f_seid.seid.0) {
            return bytes(
                &SessionEstablishmentResponse::new(NodeId::Ipv4(UPF), cause),
                header,
            );
        }
        self.established += 1;
        let seid = 0x1000 + self.established;
        let far = request.create_far.iter().nth(1).unwrap();
        let tunnel = far
            .forwarding_parameters
            .and_then(|parameters| parameters.outer_header_creation);
        self.sessions
            .insert(seid, (request.cp_f_seid.seid, tunnel.is_some()));
        let teid = pfcp::ie::Teid(0x8000_0000 + self.established as u32);
        let uplink = FTeid::Endpoint {
            teid,
            ipv4: Some(UPF),
            ipv6: None,
        };
        let created = [CreatedPdr {
            local_f_teid: Some(uplink),
            ..CreatedPdr::new(requests::UPLINK)
        }];
        let response = SessionEstablishmentResponse {
            up_f_seid: Some(FSeid {
                seid: Seid(seid),
                ipv4: Some(UPF),
                ipv6: None,
            }),
            created_pdr: (&created).into(),
            ..SessionEstablishmentResponse::new(NodeId::Ipv4(UPF), Cause::REQUEST_ACCEPTED)
        };
        bytes(&response, header)
    }
}

fn unknown(sequence: SequenceNumber) -> Vec<u8> {
    let cause = Cause::SESSION_CONTEXT_NOT_FOUND;
    let header = Header::session(MessageType(0), Seid(0), sequence);
    bytes(&SessionModificationResponse::new(cause), header)
}

fn bytes<'a>(body: &impl Body<'a>, header: Header) -> Vec<u8> {
    let mut buf = [0; 1500];
    let length = body.encode(&header, &mut buf).unwrap();
    buf[..length].to_vec()
}

/// Both ends and the datagrams between them, on simulated time.
struct World {
    now: Nanos,
    smf: Smf,
    upf: Upf,
    random: Random,
    /// Percent.
    loss: u32,
    duplication: u32,
    /// To the SMF, by time of arrival.
    on_its_way: Vec<(Nanos, Vec<u8>)>,
    most_outstanding: u32,
}

impl World {
    fn new(config: Config, loss: u32, duplication: u32) -> World {
        World {
            now: Nanos(0),
            smf: Smf::new(config).unwrap(),
            upf: Upf::new(),
            random: Random::new(7),
            loss,
            duplication,
            on_its_way: Vec::new(),
            most_outstanding: 0,
        }
    }

    /// How many copies of a datagram arrive.
    fn copies(&mut self) -> u32 {
        let lost = self.random.below(100) < self.loss;
        let doubled = self.random.below(100) < self.duplication;
        u32::from(!lost) + u32::from(doubled)
    }

    fn deliver(&mut self) {
        while let Some(datagram) = self.smf.poll_transmit() {
            for _ in 0..self.copies() {
                let answer = self.upf.handle(&datagram);
                for _ in 0..self.copies() {
                    let delay = Duration::from_micros(u64::from(100 + self.random.below(900)));
                    self.on_its_way.push((self.now + delay, answer.clone()));
                }
            }
        }
    }

    /// Runs until the SMF reaches a state or a minute has passed.
    fn run_until(&mut self, is: impl Fn(State) -> bool) {
        while !is(self.smf.state()) && self.now < Nanos::from_secs(60) {
            self.deliver();
            self.most_outstanding = self.most_outstanding.max(self.smf.transactions.sessions() as u32);
            let arrival = self.on_its_way.iter().map(|(at, _)| *at).min();
            let Some(next) = [arrival, self.smf.poll_timeout()].into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            if let Some(at) = self.on_its_way.iter().position(|(at, _)| *at <= self.now) {
                let (_, datagram) = self.on_its_way.swap_remove(at);
                self.smf.handle(self.now, &datagram);
            }
            self.smf.handle_timeout(self.now);
        }
    }
}

fn config(sessions: u32) -> Config {
    Config::new(Ipv4Addr::new(192, 0, 2, 9).into(), sessions)
}

fn with(downlink: DownlinkSetup) -> Config {
    let profile = SessionProfile {
        downlink,
        ..SessionProfile::default()
    };
    Config {
        profile,
        ..config(20)
    }
}

#[test]
fn sessions_come_up_and_go() {
    for downlink in [
        DownlinkSetup::AtOnce,
        DownlinkSetup::FromDrop,
        DownlinkSetup::FromBuffer,
        DownlinkSetup::FromNoTunnel,
    ] {
        let mut world = World::new(with(downlink), 0, 0);
        world.smf.start(world.now);
        world.run_until(|state| state == State::Established);
        let progress = world.smf.progress();
        assert_eq!(
            (progress.state, progress.up, progress.failed),
            (State::Established, 20, 0)
        );
        assert!(world.upf.sessions.values().all(|(_, forwards)| *forwards));
        let modifications = if downlink == DownlinkSetup::AtOnce { 0 } else { 20 };
        assert_eq!(
            (progress.establishment.count, progress.modification.count),
            (20, modifications)
        );
        assert!(progress.establishment.response.max <= 1_010_000, "{progress:?}");
        world.smf.release(world.now);
        world.run_until(|state| state == State::Released);
        let progress = world.smf.progress();
        assert_eq!(
            (progress.state, progress.up, progress.deletion.count),
            (State::Released, 0, 20)
        );
        assert!(world.upf.sessions.is_empty());
        assert_eq!(
            progress.usage,
            Usage {
                reports: 20,
                uplink_octets: 200,
                downlink_octets: 400,
                ..Usage::default()
            }
        );
        assert_eq!((progress.retransmissions, progress.ignored), (0, 0));
    }
}

#[test]
fn loss_and_duplication_change_nothing_but_time() {
    let mut world = World::new(
        Config {
            n1: 20,
            ..config(300)
        },
        20,
        20,
    );
    world.smf.start(world.now);
    world.run_until(|state| state == State::Established);
    let progress = world.smf.progress();
    assert_eq!(
        (progress.up, progress.failed, world.upf.established),
        (300, 0, 300)
    );
    assert!(progress.retransmissions > 0 && progress.ignored > 0);
    assert_eq!(world.most_outstanding, 32);
    world.smf.release(world.now);
    world.run_until(|state| state == State::Released);
    assert_eq!(world.smf.state(), State::Released);
    assert!(world.upf.sessions.is_empty());
}

#[test]
fn paths_have_what_both_sides_chose() {
    let profile = SessionProfile {
        pdu_type: PduType::Ipv4v6,
        ..SessionProfile::default()
    };
    let mut world = World::new(Config { profile, ..config(3) }, 0, 0);
    world.smf.start(world.now);
    world.run_until(|state| state == State::Established);
    let (ipv4, ipv6) = (Ipv4Addr::new(198, 51, 100, 8), "2001:db8:8::8".parse().unwrap());
    let servers = Servers {
        ipv4,
        ipv6,
        port: 5001,
        ue_port: 40_000,
        ue_ports: 1,
    };
    let paths = world.smf.paths(&servers);
    assert_eq!(paths.len(), 6);
    let ues: Vec<String> = paths.iter().map(|path| path.ue.to_string()).collect();
    assert_eq!(ues[..3], ["10.45.0.1", "2001:db8:45::1", "10.45.0.2"]);
    assert_eq!(ues[5], "2001:db8:45:2::1");
    let end = |address: Ipv4Addr, teid| TunnelEnd {
        address: address.into(),
        teid,
    };
    assert_eq!(paths[2].upf, end(UPF, world.smf.sessions()[1].uplink_teid));
    assert_eq!(paths[2].gnb, end(Ipv4Addr::new(192, 0, 2, 2), Teid(2)));
}

#[test]
fn a_refused_session_fails_alone() {
    let mut world = World::new(config(10), 0, 0);
    world.upf.refuse = |seid| (seid == 4).then_some(Cause::NO_RESOURCES_AVAILABLE);
    world.smf.start(world.now);
    world.run_until(|state| state == State::Established);
    let cause = Cause::NO_RESOURCES_AVAILABLE;
    let failure = Failure::Rejected {
        cause,
        offending: None,
        rule: None,
    };
    assert_eq!(world.smf.sessions()[3].stage, Stage::Failed(failure));
    assert_eq!((world.smf.progress().up, world.smf.progress().failed), (9, 1));
    world.smf.release(world.now);
    world.run_until(|state| state == State::Released);
    assert!(world.upf.sessions.is_empty());
}

#[test]
fn a_silent_upf_is_given_up() {
    let mut world = World::new(config(10), 100, 0);
    world.smf.start(world.now);
    world.run_until(|state| matches!(state, State::Failed(_)));
    assert_eq!(world.smf.state(), State::Failed(Failure::NoResponse));
    // N1 + 1 transmissions, T1 apart.
    assert_eq!(
        (world.now, world.smf.progress().retransmissions),
        (Nanos::from_secs(4), 3)
    );
}

#[test]
fn heartbeats_go_both_ways_and_show_a_restart() {
    let mut world = World::new(
        Config {
            heartbeat: Some(Duration::from_secs(5)),
            ..config(2)
        },
        0,
        0,
    );
    world.smf.start(world.now);
    world.run_until(|state| state == State::Established);
    let sequence = SequenceNumber::new(77);
    let request = bytes(
        &HeartbeatRequest::new(STARTED),
        Header::node(MessageType(0), sequence),
    );
    world.smf.handle(world.now, &request);
    let answer = world.smf.poll_transmit().unwrap();
    let frame = Frames::new(&answer).next().unwrap().unwrap();
    assert_eq!(
        (frame.header.message_type, frame.header.sequence),
        (MessageType::HEARTBEAT_RESPONSE, sequence)
    );
    world.upf.recovery = RecoveryTimeStamp(STARTED.0 + 1);
    world.run_until(|state| matches!(state, State::Failed(_)));
    assert_eq!(world.smf.state(), State::Failed(Failure::PeerRestarted));
    assert_eq!(world.smf.progress().up, 0);
}

#[test]
fn leaving_early_deletes_what_is_there() {
    let mut world = World::new(config(200), 0, 0);
    world.smf.start(world.now);
    world.run_until(|state| state == State::Establishing);
    (0..3).for_each(|_| world.deliver());
    world.smf.release(world.now);
    world
        .upf
        .sessions
        .values_mut()
        .for_each(|session| session.1 = true);
    world.run_until(|state| state == State::Released);
    assert_eq!(world.smf.state(), State::Released);
    assert!(world.upf.established < 200 && world.upf.sessions.is_empty());
}

#[test]
fn bounds_are_checked() {
    let field = |config: Config| Smf::new(config).unwrap_err().field;
    assert_eq!(field(config(0)), "sessions");
    assert_eq!(
        field(Config {
            window: 0,
            ..config(1)
        }),
        "window"
    );
    assert_eq!(
        field(Config {
            node_name: NodeName::Fqdn("a..b".into()),
            ..config(1)
        }),
        "node_name"
    );
    let profile = |profile| Config { profile, ..config(2) };
    assert_eq!(
        field(profile(SessionProfile {
            gnbs: Vec::new(),
            ..SessionProfile::default()
        })),
        "gnbs"
    );
    assert_eq!(
        field(profile(SessionProfile {
            first_teid: u32::MAX,
            ..SessionProfile::default()
        })),
        "first_teid"
    );
    let of = |first_imsi, dnn: &str| {
        field(profile(SessionProfile {
            subscribers: Some(Subscribers {
                first_imsi,
                dnn: dnn.into(),
            }),
            ..SessionProfile::default()
        }))
    };
    assert_eq!(of(999_999_999_999_999, "internet"), "first_imsi");
    assert_eq!(of(1, "a..b"), "dnn");
    let error = Smf::new(profile(SessionProfile {
        qfi: 64,
        ..SessionProfile::default()
    }))
    .unwrap_err();
    assert_eq!(error.to_string(), "qfi must be 0 to 63");
}

#[test]
fn the_longest_configuration_fits_a_message() {
    let name = ["a".repeat(63), "b".repeat(36)].join(".");
    let profile = SessionProfile {
        access_instance: "n".repeat(MAX_NAME),
        core_instance: "n".repeat(MAX_NAME),
        sdf: Some("x".repeat(MAX_SDF)),
        pdu_type: PduType::Ipv4v6,
        mbr: Some((u64::MAX, u64::MAX)),
        choose_id: Some(1),
        choose: ChooseFlags::Both,
        ..SessionProfile::default()
    };
    let node_name = NodeName::Fqdn(name);
    let mut world = World::new(
        Config {
            profile,
            node_name,
            ..config(1)
        },
        0,
        0,
    );
    world.smf.start(world.now);
    world.run_until(|state| state == State::Established);
    assert_eq!(world.smf.progress().up, 1);
}

mod foreign {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn octets_do_no_harm(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20),
            mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        ) {
            let mut world = World::new(config(4), 0, 0);
            world.smf.start(world.now);
            for mut datagram in datagrams {
                if let Some(first) = datagram.first_mut() {
                    *first = 0x20 | (*first & 1);
                }
                world.smf.handle(world.now, &datagram);
            }
            for (at, value) in mutations {
                while let Some(request) = world.smf.poll_transmit() {
                    let Some(Ok(frame)) = Frames::new(&request).next() else { continue };
                    if frame.header.message_type.is_request() {
                        let mut answer = world.upf.handle(&request);
                        let at = at.index(answer.len());
                        answer[at] = value;
                        world.smf.handle(world.now, &answer);
                    }
                }
            }
        }
    }
}

#[test]
fn subscribers_are_named() {
    let profile = SessionProfile {
        subscribers: Some(Subscribers {
            first_imsi: 1_010_000_000_009,
            dnn: "internet.example".into(),
        }),
        ..SessionProfile::default()
    };
    let config = Config { profile, ..config(2) };
    let octets = Requests::new(&config).establish(&config, 1, Seid(7), SequenceNumber::new(1));
    // User ID with IMSI 001010000000010 (TS 29.244 §8.2.101), APN/DNN (§8.2.117).
    for ie in [
        &b"\x00\x8d\x00\x0a\x01\x08\x00\x01\x01\x00\x00\x00\x10\xf0"[..],
        b"\x00\x9f\x00\x11\x08internet\x07example",
    ] {
        assert_eq!(octets.windows(ie.len()).filter(|window| *window == ie).count(), 1);
    }
}
