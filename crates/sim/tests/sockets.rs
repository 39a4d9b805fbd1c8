//! A run over loopback sockets against a user plane of a page: both are stepped in turn on one thread.

use pfcp::group::CreatedPdr;
use pfcp::ie::{Cause, FSeid, FTeid, NodeId, PdrId, RecoveryTimeStamp, Teid};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupResponse, Body, Message, SessionDeletionResponse,
    SessionEstablishmentResponse, SessionModificationResponse,
};
use pfcp::{Frames, Header, MessageType, Seid};
use sim::net::{Config, Error, Run};
use sim::smf::{self, SessionProfile, State};
use sim::traffic::{Sizes, Traffic};
use sim::{Nanos, schedule};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Loopback has all of 127.0.0.0/8: the UE's address is one that the user plane can send from.
const UE: Ipv4Addr = Ipv4Addr::new(127, 45, 0, 1);

fn socket(address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

fn received(socket: &UdpSocket) -> impl Iterator<Item = (Vec<u8>, SocketAddr)> {
    std::iter::from_fn(|| {
        let mut buffer = [0; 4096];
        let (length, from) = socket.recv_from(&mut buffer).ok()?;
        Some((buffer[..length].to_vec(), from))
    })
}

fn bytes<'a>(body: &impl Body<'a>, header: Header) -> Vec<u8> {
    let mut buf = [0; 1500];
    let length = body.encode(&header, &mut buf).unwrap();
    buf[..length].to_vec()
}

/// One session, one UE, which is a socket.
struct Upf {
    n4: UdpSocket,
    n3: UdpSocket,
    ue: UdpSocket,
    gnb: Option<SocketAddr>,
    /// Address in the F-TEID.
    f_teid: Ipv4Addr,
}

impl Upf {
    fn new() -> Upf {
        Upf {
            n4: socket(LOOPBACK),
            n3: socket(LOOPBACK),
            ue: socket(UE),
            gnb: None,
            f_teid: LOOPBACK,
        }
    }

    fn step(&mut self) {
        for (datagram, from) in received(&self.n4) {
            self.n4.send_to(&self.answer(&datagram), from).unwrap();
        }
        for (datagram, from) in received(&self.n3) {
            self.gnb = Some(from);
            // GTP-U with a PDU Session Container, IPv4, UDP.
            let inner = &datagram[16..];
            let to = SocketAddr::new(
                IpAddr::from(*inner[16..].first_chunk::<4>().unwrap()),
                u16::from_be_bytes([inner[22], inner[23]]),
            );
            self.ue.send_to(&inner[28..], to).unwrap();
        }
        for (payload, from) in received(&self.ue) {
            if let Some(gnb) = self.gnb {
                self.n3.send_to(&self.g_pdu(&payload, from), gnb).unwrap();
            }
        }
    }

    fn g_pdu(&self, payload: &[u8], from: SocketAddr) -> Vec<u8> {
        let IpAddr::V4(server) = from.ip() else {
            panic!("the server is IPv4")
        };
        let udp = (payload.len() as u16 + 8).to_be_bytes();
        let total = (payload.len() as u16 + 28).to_be_bytes();
        let length = (payload.len() as u16 + 28 + 8).to_be_bytes();
        let ports = [from.port().to_be_bytes(), port(&self.ue).to_be_bytes()].concat();
        [
            &[
                0x34, 255, length[0], length[1], 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0,
            ][..],
            &[0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 63, 17, 0, 0],
            &server.octets(),
            &UE.octets(),
            &ports,
            &udp,
            &[0, 0],
            payload,
        ]
        .concat()
    }

    fn answer(&self, datagram: &[u8]) -> Vec<u8> {
        let frame = Frames::new(datagram).next().unwrap().unwrap();
        let (node_id, ok) = (NodeId::Ipv4(LOOPBACK), Cause::REQUEST_ACCEPTED);
        let node = Header::node(MessageType(0), frame.header.sequence);
        let session = Header::session(MessageType(0), Seid(1), frame.header.sequence);
        match Message::decode(&frame).unwrap() {
            Message::AssociationSetupRequest(_) => {
                let recovery_time_stamp = Some(RecoveryTimeStamp::from_unix(1));
                bytes(
                    &AssociationSetupResponse {
                        recovery_time_stamp,
                        ..AssociationSetupResponse::new(node_id, ok)
                    },
                    node,
                )
            }
            Message::SessionEstablishmentRequest(_) => {
                let f_teid = FTeid::Endpoint {
                    teid: Teid(7),
                    ipv4: Some(self.f_teid),
                    ipv6: None,
                };
                let created = [CreatedPdr {
                    local_f_teid: Some(f_teid),
                    ..CreatedPdr::new(PdrId(1))
                }];
                let response = SessionEstablishmentResponse {
                    up_f_seid: Some(FSeid {
                        seid: Seid(9),
                        ipv4: Some(LOOPBACK),
                        ipv6: None,
                    }),
                    created_pdr: (&created).into(),
                    ..SessionEstablishmentResponse::new(node_id, ok)
                };
                bytes(&response, session)
            }
            Message::SessionModificationRequest(_) => bytes(&SessionModificationResponse::new(ok), session),
            Message::SessionDeletionRequest(_) => bytes(&SessionDeletionResponse::new(ok), session),
            _ => bytes(&AssociationReleaseResponse::new(node_id, ok), node),
        }
    }

    fn config(&self) -> Config {
        let profile = SessionProfile {
            ue_ipv4: UE,
            gnbs: vec![LOOPBACK.into()],
            ..SessionProfile::default()
        };
        let smf = smf::Config {
            profile,
            ..smf::Config::new(LOOPBACK.into(), 1)
        };
        let traffic = Traffic {
            rate: 2000,
            uplink_share: 500,
            uplink_sizes: Sizes::fixed(200),
            downlink_sizes: Sizes::fixed(900),
            limits: schedule::Limits {
                burst: 8,
                ..schedule::Limits::default()
            },
            seed: 1,
        };
        Config {
            upf_n4: SocketAddr::new(LOOPBACK.into(), port(&self.n4)),
            upf_gtpu_port: port(&self.n3),
            gnb_port: 0,
            server_ipv4: Some(LOOPBACK),
            server_port: 0,
            ue_port: port(&self.ue),
            traffic,
            time: Duration::from_millis(100),
            // Many steps: time is simulated here, and loopback takes real time.
            drain: Duration::from_secs(1),
            ..Config::new(smf, LOOPBACK.into(), LOOPBACK.into())
        }
    }
}

/// Time passes 50 us per step, independent of the machine.
fn run(upf: &mut Upf, config: Config) -> Result<sim::net::Outcome, Error> {
    let mut run = Run::new(config, Nanos(0))?;
    let patience = Instant::now();
    for step in 1.. {
        run.step(Nanos(step * 50_000))?;
        upf.step();
        if let Some(outcome) = run.outcome() {
            return Ok(outcome);
        }
        assert!(
            patience.elapsed() < Duration::from_secs(60),
            "the run does not end"
        );
    }
    unreachable!("the steps do not end")
}

#[test]
fn packets_go_both_ways_and_the_run_ends_by_itself() {
    let mut upf = Upf::new();
    let config = upf.config();
    let outcome = run(&mut upf, config).unwrap();
    let (up, down) = (outcome.report.uplink, outcome.report.downlink);
    assert_eq!(
        (up.offered.due, up.counts.sent, up.lost, up.foreign),
        (99, 99, 0, 0)
    );
    // The user plane does not know the gNB's port before the first uplink packet.
    assert!(down.counts.sent == 99 && down.lost <= 1, "{outcome:?}");
    assert_eq!((down.counts.misdirected, down.counts.corrupted), (0, 0));
    assert_eq!(
        (outcome.n4.state, outcome.n4.deletion.count),
        (State::Released, 1)
    );
    assert_eq!(outcome.report.sessions, 1);
}

#[test]
fn nothing_is_sent_to_an_address_that_was_not_given() {
    let mut upf = Upf::new();
    upf.f_teid = Ipv4Addr::new(127, 9, 9, 9);
    let config = upf.config();
    let error = run(&mut upf, config).unwrap_err();
    assert!(
        matches!(error, Error::ForeignTunnel(address) if address == IpAddr::from([127, 9, 9, 9])),
        "{error}"
    );
}

#[test]
fn what_is_out_of_bounds_is_refused_before_anything_is_sent() {
    let upf = Upf::new();
    let refused = |config| match Run::new(config, Nanos(0)) {
        Err(Error::Config(error)) => error.field,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(Config {
            time: Duration::from_secs(86_401),
            ..upf.config()
        }),
        "time"
    );
    assert_eq!(
        refused(Config {
            server_ipv4: None,
            ..upf.config()
        }),
        "server_ipv4"
    );
    let traffic = Traffic {
        rate: 10_000_001,
        ..Traffic::default()
    };
    assert_eq!(
        refused(Config {
            traffic,
            ..upf.config()
        }),
        "rate"
    );
    let taken = Config {
        n4: upf.n4.local_addr().unwrap(),
        ..upf.config()
    };
    assert!(matches!(Run::new(taken, Nanos(0)), Err(Error::Bind { .. })));
}
