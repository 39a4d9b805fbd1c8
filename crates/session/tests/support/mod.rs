//! One thread with all sessions and a fake fleet, on simulated time.
#![allow(dead_code, reason = "each test uses its part")]

pub mod fleet;
pub mod names;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Bucket, Nanos, UrrCount, bucket};
use packet::{Qfi, Teid};
use rules::model::*;
use rules::network::Network;
use session::*;

use fleet::{EveryNextHop, Fleet, network};

pub const SMF: AssociationId = AssociationId(1);

pub struct World {
    pub now: Nanos,
    pub sessions: Sessions,
    pub fleet: Fleet,
    pub tickets: u64,
}

impl World {
    pub fn new(workers: u16) -> World {
        World::with(Config {
            accept_cp_f_teids: true,
            ..Config::for_workers(workers)
        })
    }

    pub fn with(config: Config) -> World {
        World::over(config, network())
    }

    /// The same in this network.
    pub fn over(config: Config, network: Arc<Network>) -> World {
        let fleet = Fleet::new(config.workers);
        let sessions = Sessions::new(config, network, Box::new(EveryNextHop), Random::from_number(7));
        World {
            now: Nanos::from_secs(1),
            sessions,
            fleet,
            tickets: 0,
        }
    }

    pub fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Hands effects over and lets the workers do them until nothing is left.
    pub fn run(&mut self) -> Vec<Outcome> {
        loop {
            self.hand_over();
            let answers = self.fleet.run();
            if answers.is_empty() {
                return std::iter::from_fn(|| self.sessions.poll_outcome()).collect();
            }
            for (op, result) in answers {
                self.sessions.applied(self.now, op, result);
            }
        }
    }

    /// Hands effects over to the workers, which do nothing yet.
    pub fn hand_over(&mut self) {
        while let Some(effect) = self.sessions.poll_effect() {
            self.fleet.push(effect);
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.sessions.handle_timeout(self.now);
    }

    pub fn establish(&mut self, cp: u64, changes: Changes) -> Result<Done, Refusal> {
        let ticket = self.ticket();
        self.sessions
            .establish(self.now, ticket, SMF, cp_f_seid(cp), changes);
        self.result(ticket)
    }

    pub fn modify(&mut self, seid: Seid, changes: Changes) -> Result<Done, Refusal> {
        let ticket = self.ticket();
        self.sessions.modify(self.now, ticket, seid, None, changes);
        self.result(ticket)
    }

    pub fn delete(&mut self, seid: Seid) -> Result<Done, Refusal> {
        let ticket = self.ticket();
        self.sessions.delete(self.now, ticket, seid);
        self.result(ticket)
    }

    /// Removes all sessions of [`SMF`] as at the end of its association: their number.
    pub fn end_association(&mut self) -> usize {
        self.sessions
            .remove_association(SMF, EndCause::AssociationEnded, |_| true)
    }

    /// The UE addresses of a PDR.
    pub fn ue_addresses(&self, seid: Seid, pdr: PdrId) -> Vec<UeIpAddress> {
        let session = self.sessions.session(seid).expect("a session");
        session.rules().pdr(pdr).expect("a PDR").pdi.ue_ip.to_vec()
    }

    /// A record as it is read from its octets, in a network.
    pub fn read_back(&self, record: &SessionRecord, network: &Network) -> Box<SessionRecord> {
        let frame = Frame {
            network,
            predefined: self.sessions.predefined(),
            wall: self.sessions.wall(),
        };
        let octets = record.encode(frame).unwrap();
        match Record::decode(&octets, frame).unwrap() {
            (Record::Session(read), _) => read,
            _ => panic!("a session"),
        }
    }

    /// That this request has just been refused for being late.
    #[track_caller]
    pub fn assert_too_late(&mut self, ticket: Ticket) {
        let result = Err(Refusal::TooLate);
        assert_eq!(self.sessions.poll_outcome(), Some(Outcome { ticket, result }));
    }

    fn result(&mut self, ticket: Ticket) -> Result<Done, Refusal> {
        let outcomes = self.run();
        let found = outcomes.into_iter().find(|outcome| outcome.ticket == ticket);
        found.expect("an outcome").result
    }

    /// That nothing is left of any session, in control or in a worker.
    pub fn assert_clean(&mut self) {
        assert_eq!(self.run(), []);
        self.fleet.assert_empty();
        assert_eq!(self.sessions.count(), Count::default());
        assert_eq!(
            (self.sessions.sessions_of(SMF), self.sessions.tunnels_of(SMF)),
            (0, 0)
        );
    }
}

pub fn cp_f_seid(seid: u64) -> CpFSeid {
    CpFSeid {
        seid,
        ipv4: Some(Ipv4Addr::new(10, 0, 0, 1)),
        ipv6: None,
    }
}

pub const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
pub const UE2: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 3);

/// The bucket that a session of `ue` lives in.
pub fn home(ue: Ipv4Addr) -> Bucket {
    bucket::of_ipv4(ue.octets())
}

/// The UE with this number among those that live in `bucket`.
pub fn ue_in(bucket: Bucket, number: u32) -> Ipv4Addr {
    let all = (0..).map(|host| Ipv4Addr::from_bits(0x0a2d_0000 + host));
    let mut there = all.filter(|ue| home(*ue) == bucket);
    there.nth(number as usize).unwrap()
}

/// A TEID in another bucket than `ue`.
pub fn stray_teid(ue: Ipv4Addr) -> u32 {
    (1..).find(|teid| bucket::of_teid(*teid) != home(ue)).unwrap()
}

/// A slice by its SST.
pub fn s_nssai(sst: u8) -> SNssai {
    SNssai {
        sst,
        sd: SNssai::NO_SD,
    }
}

/// Whom a session of this slice is for; 0: of none.
pub fn subscriber_of(sst: u8) -> Option<Arc<Subscriber>> {
    let subscriber = || Subscriber {
        s_nssai: Some(s_nssai(sst)),
        ..Subscriber::default()
    };
    (sst > 0).then(|| Arc::new(subscriber()))
}

pub const UL: PdrId = PdrId(1);
pub const DL: PdrId = PdrId(2);

/// An uplink and a downlink PDR of one UE, without F-TEID.
pub fn session(ue: Ipv4Addr) -> Changes {
    let ue = UeIpAddress {
        ipv4: Some(ue),
        ipv6: None,
        is_destination: true,
    };
    let mut uplink = pdr(UL, SourceInterface::Access, FarId(1));
    uplink.pdi.ue_ip = vec![ue].into();
    uplink.outer_header_removal = Some(OuterHeaderRemoval {
        header: OuterHeader::GtpuUdpIp,
        deletes_psc: false,
    });
    let mut downlink = pdr(DL, SourceInterface::Core, FarId(2));
    downlink.pdi.ue_ip = vec![ue].into();
    Changes {
        create_pdrs: vec![uplink, downlink],
        create_fars: vec![
            forward(FarId(1), DestinationInterface::Core),
            tunnel(FarId(2), 0x100),
        ],
        create_qers: vec![Qer {
            qfi: Qfi::new(9),
            ..Qer::new(QerId(1))
        }],
        create_urrs: vec![Urr::volume(UrrId(1))],
        ..Changes::default()
    }
}

/// The same with a CHOOSE for the uplink.
pub fn chosen_session(ue: Ipv4Addr) -> Changes {
    Changes {
        choose: vec![choose(UL, None)],
        ..session(ue)
    }
}

pub fn choose(pdr: PdrId, id: Option<u8>) -> Choose {
    Choose {
        to: pdr.into(),
        ipv4: true,
        ipv6: false,
        id,
    }
}

pub fn pdr(id: PdrId, source: SourceInterface, far: FarId) -> Pdr {
    Pdr {
        id,
        precedence: Precedence(100),
        pdi: Pdi::new(source),
        outer_header_removal: None,
        far: Some(far),
        qers: vec![QerId(1)].into(),
        urrs: vec![UrrId(1)].into(),
        rulebases: Default::default(),
    }
}

pub fn forward(id: FarId, to: DestinationInterface) -> Far {
    Far {
        id,
        action: ApplyAction::FORW,
        forwarding: Some(ForwardingParameters::new(to)),
        optional: Default::default(),
        bar: None,
    }
}

pub fn tunnel(id: FarId, teid: u32) -> Far {
    let header = OuterHeaderCreation::gtpu_ipv4(Teid(teid), Ipv4Addr::new(192, 0, 2, 20));
    let parameters = ForwardingParameters {
        outer_header_creation: Some(header),
        ..ForwardingParameters::new(DestinationInterface::Access)
    };
    Far {
        id,
        action: ApplyAction::FORW,
        forwarding: Some(parameters),
        optional: Default::default(),
        bar: None,
    }
}

pub fn given(teid: u32) -> FTeid {
    FTeid {
        teid: Teid(teid),
        ipv4: Some(Ipv4Addr::new(192, 0, 2, 10)),
        ipv6: None,
    }
}

pub fn uplink_count(packets: u64) -> UrrCount {
    UrrCount {
        ul_packets: packets,
        ul_octets: packets * 100,
        ..UrrCount::default()
    }
}

/// The downlink is to be dropped.
pub fn drop_downlink() -> Changes {
    let far = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    Changes {
        update_fars: vec![far],
        ..Changes::default()
    }
}

/// One more PDR of the uplink, with an F-TEID.
pub fn added_pdr(choose: Choose) -> Changes {
    let Recipient::Pdr(id) = choose.to else {
        panic!("not for a PDR")
    };
    Changes {
        create_pdrs: vec![pdr(id, SourceInterface::Access, FarId(1))],
        choose: vec![choose],
        ..Changes::default()
    }
}
