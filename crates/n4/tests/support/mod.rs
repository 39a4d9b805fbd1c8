//! One thread with an endpoint, a fake fleet of workers and control plane functions that send octets.
#![allow(dead_code, reason = "each test uses its part")]

#[path = "../../../session/tests/support/fleet.rs"]
pub mod fleet;
pub mod keeping;
pub mod traffic;
pub mod wire;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flow::{Nanos, Reached, UrrCount};
use n4::{Config, Endpoint, NodeName, SessionEvent, Transmit};
use pfcp::ie::{Cause, FTeid, FailedRuleId};
use pfcp::message::{Message, SessionReportRequest};
use pfcp::{Frames, Header, IeType};
use rules::model::{MeasurementMethod, UrrId};
use rules::network::Network;
use session::{Count, CounterReached, Random, SessionView, UsageReport, UsageTriggers};

use fleet::{EveryNextHop, Fleet, network};
use wire::*;

pub const UPF_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 1);
pub const SMF_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 2);
pub const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
pub const GNB: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
pub const N3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
pub const UPF_START: u64 = 1_700_000_000;

pub fn upf() -> SocketAddr {
    SocketAddr::new(UPF_ADDRESS.into(), 8805)
}

pub fn smf() -> SocketAddr {
    SocketAddr::new(SMF_ADDRESS.into(), 8805)
}

/// Usage of one packet, in the report with this number, in the second that begins at `sequence`.
pub fn used(urr: u32, sequence: u32, octets: u64, triggers: UsageTriggers) -> SessionEvent {
    SessionEvent::Usage(UsageReport {
        urr: UrrId(urr),
        method: MeasurementMethod::VOLUM,
        sequence,
        triggers,
        count: UrrCount {
            ul_packets: 1,
            ul_octets: octets,
            ..UrrCount::default()
        },
        start: Nanos::from_secs(u64::from(sequence)).into(),
        end: Nanos::from_secs(u64::from(sequence) + 1).into(),
        duration: None,
        first: None,
        last: None,
        information: None,
        before_qos: None,
        reports_packets: false,
    })
}

/// A worker's counter of a URR has reached a bound.
pub fn counter_reached((urr, count): (UrrId, UrrCount), reached: Reached) -> CounterReached {
    CounterReached {
        urr,
        count,
        times: None,
        reached,
    }
}

pub struct World {
    pub now: Nanos,
    pub n4: Endpoint,
    pub fleet: Fleet,
    sequence: u32,
}

impl World {
    pub fn new() -> World {
        World::with(World::config(2))
    }

    /// With an association of the SMF.
    pub fn associated() -> World {
        let mut world = World::new();
        world.associate();
        world
    }

    pub fn config(workers: u16) -> Config {
        let mut config = Config::new(NodeName::Ipv4(UPF_ADDRESS), workers);
        config.recovery_unix = UPF_START;
        config.clock_unix = UPF_START;
        config.heartbeat_interval = None;
        // Floods are tested in `floods`.
        config.unverified_percent = 100;
        config
    }

    pub fn with(config: Config) -> World {
        World::with_network(config, network())
    }

    pub fn with_network(config: Config, network: Arc<Network>) -> World {
        let fleet = Fleet::new(config.sessions.workers);
        let random = Random::from_number(11);
        let n4 = Endpoint::new(config, network, Box::new(EveryNextHop), random);
        World {
            now: Nanos::from_secs(1),
            n4,
            fleet,
            sequence: 0,
        }
    }

    pub fn associate(&mut self) {
        let reply = self.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100)]);
        assert_eq!(reply.cause(), Some(Cause::REQUEST_ACCEPTED));
    }

    pub fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    /// Sends a request of the SMF and answers the response to it, which there must be.
    pub fn ask(&mut self, message_type: u8, seid: Option<u64>, ies: &[Octets]) -> Reply {
        let sequence = self.next_sequence();
        let reply = self.datagram(&message(message_type, seid, sequence, ies));
        assert_eq!(reply.header().sequence.get(), sequence);
        assert_eq!(reply.header().message_type.0, message_type + 1);
        reply
    }

    /// Sends a datagram of the SMF and answers the one datagram that comes back.
    pub fn datagram(&mut self, datagram: &[u8]) -> Reply {
        let mut replies = self.send(smf(), datagram);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }

    /// Sends a datagram and acknowledges all requests that come back once the workers are done.
    pub fn send(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<Reply> {
        self.n4.handle_datagram(self.now, from, upf(), datagram);
        self.run()
    }

    pub fn run(&mut self) -> Vec<Reply> {
        loop {
            self.hand_over();
            let answers = self.fleet.run();
            if answers.is_empty() {
                return self.transmits();
            }
            for (op, result) in answers {
                self.n4.handle_applied(self.now, op, result);
            }
        }
    }

    pub fn hand_over(&mut self) {
        while let Some(effect) = self.n4.poll_effect() {
            self.fleet.push(effect);
        }
    }

    pub fn transmits(&mut self) -> Vec<Reply> {
        std::iter::from_fn(|| self.n4.poll_transmit())
            .map(Reply)
            .collect()
    }

    pub fn pass(&mut self, time: Duration) -> Vec<Reply> {
        self.now = self.now + time;
        self.n4.handle_timeout(self.now);
        self.run()
    }

    /// Establishes a plain session and answers its local SEID.
    /// The SMF accepts a report.
    pub fn accept(&mut self, report: &Reply) -> Vec<Reply> {
        let sequence = report.header().sequence.get();
        self.send(smf(), &message(57, Some(0), sequence, &[ie(19, [1])]))
    }

    pub fn establish(&mut self, cp: u64, ue: Ipv4Addr) -> u64 {
        self.ask(50, Some(0), &plain_session(cp, ue)).up_seid()
    }

    pub fn only_session(&self) -> SessionView<'_> {
        let mut all = self.n4.sessions().iter();
        let session = all.next().expect("a session");
        assert!(all.next().is_none());
        session
    }

    /// That nothing is left of any session, in control or in a worker.
    pub fn assert_clean(&mut self) {
        assert!(self.run().is_empty());
        self.fleet.assert_empty();
        assert_eq!(self.n4.sessions().count(), Count::default());
        assert_eq!(self.n4.outstanding().0, 0);
    }

    pub fn sessions(&self) -> usize {
        self.n4.sessions().count().sessions
    }
}

/// A datagram that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub Transmit);

impl Reply {
    pub fn header(&self) -> Header {
        Frames::new(&self.0.bytes).next().unwrap().unwrap().header
    }

    pub fn message(&self) -> Message<'_> {
        Message::decode(&Frames::new(&self.0.bytes).next().unwrap().unwrap()).unwrap()
    }

    #[track_caller]
    pub fn session_report(&self) -> SessionReportRequest<'_> {
        match self.message() {
            Message::SessionReportRequest(report) => report,
            other => panic!("{other:?}"),
        }
    }

    pub fn cause(&self) -> Option<Cause> {
        match self.message() {
            Message::AssociationSetupResponse(response) => Some(response.cause),
            Message::AssociationUpdateResponse(response) => Some(response.cause),
            Message::AssociationReleaseResponse(response) => Some(response.cause),
            Message::PfdManagementResponse(response) => Some(response.cause),
            Message::SessionSetDeletionResponse(response) => Some(response.cause),
            Message::SessionSetModificationResponse(response) => Some(response.cause),
            Message::SessionEstablishmentResponse(response) => Some(response.cause),
            Message::SessionModificationResponse(response) => Some(response.cause),
            Message::SessionDeletionResponse(response) => Some(response.cause),
            _ => None,
        }
    }

    /// Cause and Offending IE.
    pub fn verdict(&self) -> (u8, Option<u16>) {
        let offending = match self.message() {
            Message::PfdManagementResponse(response) => response.offending_ie,
            Message::SessionEstablishmentResponse(response) => response.offending_ie,
            Message::SessionModificationResponse(response) => response.offending_ie,
            Message::SessionDeletionResponse(response) => response.offending_ie,
            _ => None,
        };
        (self.cause().unwrap().value(), offending.map(|ie| ie.0))
    }

    pub fn failed_rule(&self) -> Option<FailedRuleId> {
        match self.message() {
            Message::SessionEstablishmentResponse(response) => response.failed_rule_id,
            Message::SessionModificationResponse(response) => response.failed_rule_id,
            _ => None,
        }
    }

    /// The UP F-SEID's SEID of an accepted establishment.
    #[track_caller]
    pub fn up_seid(&self) -> u64 {
        match self.message() {
            Message::SessionEstablishmentResponse(response) if response.cause.is_accepted() => {
                response.up_f_seid.unwrap().seid.0
            }
            other => panic!("{other:?}"),
        }
    }

    /// PDR, TEID and IPv4 address of every Created PDR.
    pub fn created(&self) -> Vec<(u16, u32, Option<Ipv4Addr>)> {
        let created = match self.message() {
            Message::SessionEstablishmentResponse(response) => response.created_pdr,
            Message::SessionModificationResponse(response) => response.created_pdr,
            other => panic!("{other:?}"),
        };
        let endpoint = |f_teid| match f_teid {
            Some(FTeid::Endpoint { teid, ipv4, .. }) => (teid.0, ipv4),
            other => panic!("{other:?}"),
        };
        let each = created
            .iter()
            .map(|pdr| (pdr.pdr_id.0, endpoint(pdr.local_f_teid)));
        each.map(|(pdr, (teid, ipv4))| (pdr, teid, ipv4)).collect()
    }

    /// The TEID of the first Created PDR, whatever else it and others have.
    pub fn created_teid(&self) -> u32 {
        let created = match self.message() {
            Message::SessionEstablishmentResponse(response) => response.created_pdr,
            Message::SessionModificationResponse(response) => response.created_pdr,
            other => panic!("{other:?}"),
        };
        match created.iter().next().and_then(|pdr| pdr.local_f_teid) {
            Some(FTeid::Endpoint { teid, .. }) => teid.0,
            other => panic!("{other:?}"),
        }
    }

    /// URR, number and total octets of every usage report.
    pub fn usage(&self) -> Vec<(u32, u32, Option<u64>)> {
        // The two groups differ only in their type.
        macro_rules! reported {
            ($reports:expr) => {
                $reports
                    .iter()
                    .map(|one| {
                        let total = one.volume_measurement.and_then(|volume| volume.total);
                        (one.urr_id.0, one.ur_seqn.0, total)
                    })
                    .collect()
            };
        }
        match self.message() {
            Message::SessionModificationResponse(response) => reported!(response.usage_report),
            Message::SessionDeletionResponse(response) => reported!(response.usage_report),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub fn assert_accepted(&self) {
        assert_eq!(
            self.cause(),
            Some(Cause::REQUEST_ACCEPTED),
            "{:?}",
            self.message()
        );
    }
}

/// What a rejection says: the cause, and the IE that offends.
pub fn because(cause: Cause, offending: Option<IeType>) -> (u8, Option<u16>) {
    (cause.value(), offending.map(|ie| ie.0))
}

/// A session of two PDRs with CHOOSE, two FARs, a QER and a URR.
pub fn plain_session(cp: u64, ue: Ipv4Addr) -> Vec<Octets> {
    vec![
        node_v4(SMF_ADDRESS),
        f_seid(cp, IpAddr::V4(SMF_ADDRESS)),
        uplink_pdr(1, ue, choose(V4, None)),
        downlink_pdr(2, ue),
        create_far(&[
            far_id(1),
            apply_action(&[FORW]),
            forwarding(&[destination_if(CORE)]),
        ]),
        downlink_far(2, 0x100 + cp as u32),
        create_qer(&[qer_id(1), gate(0, 0), qfi(9)]),
        create_urr(&[urr_id(1), method(2), triggers(&[2, 0, 0])]),
    ]
}

pub fn uplink_pdr(id: u16, ue: Ipv4Addr, f_teid: Octets) -> Octets {
    create_pdr(&[
        pdr_id(id),
        precedence(100),
        pdi(&[source_if(ACCESS), f_teid, ue_ip(false, ue)]),
        outer_header_removal(0),
        far_id(1),
        urr_id(1),
        qer_id(1),
    ])
}

pub fn downlink_pdr(id: u16, ue: Ipv4Addr) -> Octets {
    create_pdr(&[
        pdr_id(id),
        precedence(100),
        pdi(&[source_if(CORE), ue_ip(true, ue)]),
        far_id(2),
        urr_id(1),
        qer_id(1),
    ])
}

pub fn downlink_far(id: u32, teid: u32) -> Octets {
    create_far(&[
        far_id(id),
        apply_action(&[FORW]),
        forwarding(&[destination_if(ACCESS), outer_header_creation(teid, GNB)]),
    ])
}
