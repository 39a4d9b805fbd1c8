//! An SMF that drives N4: it associates, sets sessions up and modifies them, keeps them, and releases all.
//!
//! Sans-IO: [`Smf::handle`] takes datagrams, [`Smf::poll_transmit`] gives them, [`Smf::poll_timeout`] says when to
//! call [`Smf::handle_timeout`]. One peer, one association. Requests are pipelined up to a window, sent again after
//! T1 up to N1 times, and each response counts once. The UPF's own requests (heartbeats, reports) are answered.
//!
//! Owned by one thread. It does not decide anything a real SMF decides about subscribers: the profile does.

mod config;
mod outcome;
mod requests;
mod templates;
mod transactions;

pub use config::{
    ChooseFlags, Config, ConfigError, DownlinkSetup, MAX_GNBS, MAX_NAME, MAX_SDF, MAX_SESSIONS, MAX_WINDOW,
    NodeName, PduType, QosFlow, SessionProfile, Subscribers,
};

pub use outcome::{Failure, Pace, Progress, Session, Stage, State, Usage};

use crate::Nanos;
use crate::path::{PathConfig, TunnelEnd};
use outcome::Stopwatch;
use packet::Teid;
use pfcp::ie::{Cause, FTeid, FailedRuleId, OffendingIe, RecoveryTimeStamp};
use pfcp::message::{Message, SessionEstablishmentResponse, SessionModificationResponse};
use pfcp::{Frame, Frames, Seid};
pub use requests::Requests;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
pub use templates::{EstablishedSession, RequestTemplates, ResponseSummary, SessionValues, reported_octets};
use transactions::{Expired, Request, Transactions};

/// Most responses to the UPF's requests that wait to be sent. Further requests get no response; the UPF retransmits.
pub const MAX_ANSWERS: usize = 1024;

/// Servers and ports of paths, which the SMF does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    /// The server that IPv4 UEs talk to.
    pub ipv4: Ipv4Addr,
    /// The server that IPv6 UEs talk to.
    pub ipv6: Ipv6Addr,
    /// Their UDP port.
    pub port: u16,
    /// The first UDP port of each UE.
    pub ue_port: u16,
    /// How many ports each UE uses in turn.
    pub ue_ports: u16,
}

/// The simulated SMF.
#[derive(Debug)]
pub struct Smf {
    config: Config,
    requests: Requests,
    state: State,
    leaving: bool,
    sessions: Vec<Session>,
    /// The next session to establish, or to delete.
    next: u32,
    to_modify: VecDeque<u32>,
    transactions: Transactions,
    out: VecDeque<Vec<u8>>,
    peer: Option<RecoveryTimeStamp>,
    heartbeat_at: Option<Nanos>,
    retransmissions: u64,
    ignored: u64,
    establishment: Stopwatch,
    modification: Stopwatch,
    deletion: Stopwatch,
    usage: Usage,
}

impl Smf {
    /// An SMF that waits for [`start`](Smf::start).
    pub fn new(config: Config) -> Result<Smf, ConfigError> {
        config.validate()?;
        Ok(Smf {
            requests: Requests::new(&config),
            state: State::Idle,
            leaving: false,
            sessions: vec![Session::PENDING; config.sessions as usize],
            next: 0,
            to_modify: VecDeque::new(),
            transactions: Transactions::new(config.t1, config.n1),
            out: VecDeque::new(),
            peer: None,
            heartbeat_at: None,
            retransmissions: 0,
            ignored: 0,
            establishment: Stopwatch::new(),
            modification: Stopwatch::new(),
            deletion: Stopwatch::new(),
            usage: Usage::default(),
            config,
        })
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sets the association up, and then the sessions.
    pub fn start(&mut self, now: Nanos) {
        if self.state == State::Idle {
            self.state = State::Associating;
            self.request(now, Request::Associate);
        }
    }

    /// Deletes all sessions and releases the association.
    pub fn release(&mut self, now: Nanos) {
        match self.state {
            State::Idle => self.state = State::Released,
            State::Failed(_) | State::Released => (),
            _ => {
                self.leaving = true;
                self.go_on(now);
            }
        }
    }

    /// Takes a datagram from the UPF.
    pub fn handle(&mut self, now: Nanos, datagram: &[u8]) {
        for frame in Frames::new(datagram) {
            match frame {
                Ok(frame) if frame.header.message_type.is_request() => self.handle_request(&frame),
                Ok(frame) => self.handle_response(now, &frame),
                Err(_) => self.ignored += 1,
            }
        }
        self.go_on(now);
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(expired) = self.transactions.expire(now) {
            match expired {
                Expired::SendAgain(octets) => {
                    self.retransmissions += 1;
                    self.out.push_back(octets);
                }
                Expired::GaveUp(request) => self.fail(request, Failure::NoResponse),
            }
        }
        if self.heartbeat_at.is_some_and(|at| at <= now) {
            self.heartbeat_at = self.config.heartbeat.map(|every| now + every);
            if !self.transactions.is_open(Request::Heartbeat) {
                self.request(now, Request::Heartbeat);
            }
        }
        self.go_on(now);
    }

    /// When [`handle_timeout`](Smf::handle_timeout) is to be called; `None`: not before the next datagram.
    pub fn poll_timeout(&mut self) -> Option<Nanos> {
        [self.transactions.deadline(), self.heartbeat_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next datagram for the UPF's N4 address.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// The SMF's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Progress so far.
    pub fn progress(&self) -> Progress {
        let count =
            |is: fn(&Session) -> bool| self.sessions.iter().filter(|session| is(session)).count() as u32;
        Progress {
            state: self.state,
            up: count(|session| session.stage == Stage::Up),
            failed: count(|session| matches!(session.stage, Stage::Failed(_))),
            outstanding: self.transactions.sessions() as u32,
            retransmissions: self.retransmissions,
            ignored: self.ignored,
            establishment: self.establishment.report(),
            modification: self.modification.report(),
            deletion: self.deletion.report(),
            usage: self.usage,
        }
    }

    /// All sessions, by number.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The ways of the UE addresses of all sessions that are up. A dual-stack UE has two.
    pub fn paths(&self, servers: &Servers) -> Vec<PathConfig> {
        let up = (0..)
            .zip(&self.sessions)
            .filter(|(_, session)| session.stage == Stage::Up);
        up.flat_map(|(index, session)| self.session_paths(index, session, servers))
            .collect()
    }

    fn session_paths(&self, index: u32, session: &Session, servers: &Servers) -> Vec<PathConfig> {
        let profile = &self.config.profile;
        let gnb = profile.gnb(index);
        let upf: Option<IpAddr> = match gnb.address {
            IpAddr::V4(_) => session.uplink_ipv4.map(IpAddr::V4),
            IpAddr::V6(_) => session.uplink_ipv6.map(IpAddr::V6),
        };
        let ipv4 = profile.ue_ipv4(index).map(|ue| (ue.into(), servers.ipv4.into()));
        let ipv6 = profile.ue_ipv6(index).map(|ue| (ue.into(), servers.ipv6.into()));
        let ends: Vec<(IpAddr, IpAddr)> = ipv4.into_iter().chain(ipv6).collect();
        let path = |(ue, server), upf| PathConfig {
            session: index,
            ue,
            server,
            server_port: servers.port,
            ue_port: servers.ue_port,
            ue_ports: servers.ue_ports,
            upf: TunnelEnd {
                address: upf,
                teid: session.uplink_teid,
            },
            gnb,
            qfi: packet::Qfi::new(profile.qfi),
        };
        upf.into_iter()
            .flat_map(|upf| ends.iter().map(move |ends| path(*ends, upf)))
            .collect()
    }

    fn request(&mut self, now: Nanos, request: Request) {
        let sequence = self.transactions.sequence();
        let up = |sessions: &[Session], index: u32| sessions[index as usize].up_seid;
        let octets = match request {
            Request::Heartbeat => self.requests.heartbeat(sequence),
            Request::Associate => self.requests.associate(sequence),
            Request::ReleaseAssociation => self.requests.release_association(sequence),
            Request::Establish(index) => {
                self.establishment.begin(now);
                self.requests
                    .establish(&self.config, index, transactions::cp_seid(index), sequence)
            }
            Request::Modify(index) => {
                self.modification.begin(now);
                self.requests
                    .modify(&self.config, index, up(&self.sessions, index), sequence)
            }
            Request::Delete(index) => {
                self.deletion.begin(now);
                self.requests.delete(up(&self.sessions, index), sequence)
            }
        };
        self.out.push_back(octets.clone());
        self.transactions.begin(now, request, octets);
    }

    /// Sends as many requests as the window allows, and goes to the next state when nothing is left to do.
    fn go_on(&mut self, now: Nanos) {
        while self.transactions.sessions() < usize::from(self.config.window) {
            match self.next_request() {
                Some(request) => self.request(now, request),
                None => break,
            }
        }
        if self.transactions.sessions() > 0 {
            return;
        }
        match self.state {
            State::Establishing | State::Established if self.leaving => {
                (self.state, self.next) = (State::Releasing, 0);
                self.go_on(now);
            }
            State::Establishing => self.state = State::Established,
            State::Releasing => {
                self.state = State::Disassociating;
                self.request(now, Request::ReleaseAssociation);
            }
            _ => (),
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        match self.state {
            State::Establishing if !self.leaving => {
                if let Some(index) = self.to_modify.pop_front() {
                    return Some(Request::Modify(index));
                }
                let index = self.next;
                self.next += u32::from(index < self.config.sessions);
                (index < self.config.sessions).then_some(Request::Establish(index))
            }
            State::Releasing => {
                let rest = self.sessions.get(self.next as usize..)?;
                let index = self.next + rest.iter().position(Session::is_at_peer)? as u32;
                self.next = index + 1;
                Some(Request::Delete(index))
            }
            _ => None,
        }
    }

    fn handle_request(&mut self, frame: &Frame) {
        let sequence = frame.header.sequence;
        let answer = match Message::decode(frame) {
            Ok(Message::HeartbeatRequest(request)) => {
                self.see_recovery(request.recovery_time_stamp);
                self.requests.answer_heartbeat(sequence)
            }
            Ok(Message::AssociationSetupRequest(request)) => {
                self.see_recovery(request.recovery_time_stamp);
                self.requests.accept_association(sequence)
            }
            Ok(Message::NodeReportRequest(_)) => self.requests.answer_node_report(sequence),
            Ok(Message::SessionReportRequest(request)) => {
                request
                    .usage_report
                    .iter()
                    .for_each(|report| self.usage.add(report.volume_measurement));
                self.requests
                    .answer_report(self.up_seid(frame.header.seid), sequence)
            }
            _ => {
                self.ignored += 1;
                return;
            }
        };
        if self.out.len() < MAX_ANSWERS {
            self.out.push_back(answer);
        }
    }

    /// The UPF's SEID of the session that has this SEID here.
    fn up_seid(&self, seid: Option<Seid>) -> Option<Seid> {
        let index = usize::try_from(seid?.0.checked_sub(1)?).ok()?;
        self.sessions
            .get(index)
            .filter(|session| session.is_at_peer())
            .map(|session| session.up_seid)
    }

    fn handle_response(&mut self, now: Nanos, frame: &Frame) {
        let header = &frame.header;
        let Some((request, took)) = self
            .transactions
            .answered(now, header.sequence, header.message_type)
        else {
            self.ignored += 1;
            return;
        };
        let result = match (request, Message::decode(frame)) {
            _ if !request.is_answered_at(header.seid) => Err(Failure::BadResponse),
            (_, Err(_)) => Err(Failure::BadResponse),
            (Request::Heartbeat, Ok(Message::HeartbeatResponse(response))) => {
                self.see_recovery(response.recovery_time_stamp);
                Ok(())
            }
            (Request::Associate, Ok(Message::AssociationSetupResponse(response))) => {
                accepted(response.cause, None, None)
                    .map(|()| self.associated(now, response.recovery_time_stamp))
            }
            (Request::ReleaseAssociation, Ok(_)) => {
                self.state = State::Released;
                self.heartbeat_at = None;
                Ok(())
            }
            (Request::Establish(index), Ok(Message::SessionEstablishmentResponse(response))) => self
                .established(index, &response)
                .map(|()| self.establishment.end(now, took)),
            (Request::Modify(index), Ok(Message::SessionModificationResponse(response))) => self
                .modified(index, &response)
                .map(|()| self.modification.end(now, took)),
            (Request::Delete(index), Ok(Message::SessionDeletionResponse(response))) => {
                response
                    .usage_report
                    .iter()
                    .for_each(|report| self.usage.add(report.volume_measurement));
                accepted(response.cause, response.offending_ie, None).map(|()| {
                    self.sessions[index as usize].stage = Stage::Deleted;
                    self.deletion.end(now, took);
                })
            }
            (_, Ok(_)) => Err(Failure::BadResponse),
        };
        if let Err(failure) = result {
            self.fail(request, failure);
        }
    }

    fn associated(&mut self, now: Nanos, recovery: Option<RecoveryTimeStamp>) {
        self.peer = recovery;
        self.state = State::Establishing;
        self.heartbeat_at = self.config.heartbeat.map(|every| now + every);
    }

    fn established(&mut self, index: u32, response: &SessionEstablishmentResponse) -> Result<(), Failure> {
        accepted(response.cause, response.offending_ie, response.failed_rule_id)?;
        let f_seid = response.up_f_seid.ok_or(Failure::BadResponse)?;
        let created = response
            .created_pdr
            .iter()
            .find(|pdr| pdr.pdr_id == requests::UPLINK);
        let Some(FTeid::Endpoint { teid, ipv4, ipv6 }) = created.and_then(|pdr| pdr.local_f_teid) else {
            return Err(Failure::BadResponse);
        };
        let wants_ipv4 = self.config.profile.gnbs[0].is_ipv4();
        if (wants_ipv4 && ipv4.is_none()) || (!wants_ipv4 && ipv6.is_none()) {
            return Err(Failure::BadResponse);
        }
        let at_once = self.config.profile.downlink == DownlinkSetup::AtOnce;
        self.sessions[index as usize] = Session {
            stage: if at_once { Stage::Up } else { Stage::HalfUp },
            up_seid: f_seid.seid,
            uplink_teid: Teid(teid.0),
            uplink_ipv4: ipv4,
            uplink_ipv6: ipv6,
        };
        if !at_once {
            self.to_modify.push_back(index);
        }
        Ok(())
    }

    fn modified(&mut self, index: u32, response: &SessionModificationResponse) -> Result<(), Failure> {
        response
            .usage_report
            .iter()
            .for_each(|report| self.usage.add(report.volume_measurement));
        accepted(response.cause, response.offending_ie, response.failed_rule_id)?;
        self.sessions[index as usize].stage = Stage::Up;
        Ok(())
    }

    fn fail(&mut self, request: Request, failure: Failure) {
        match request {
            Request::Establish(index) | Request::Modify(index) | Request::Delete(index) => {
                self.sessions[index as usize].stage = Stage::Failed(failure);
            }
            Request::ReleaseAssociation => {
                self.state = State::Failed(failure);
                self.heartbeat_at = None;
            }
            Request::Heartbeat | Request::Associate => self.lose_peer(failure),
        }
    }

    fn see_recovery(&mut self, recovery: RecoveryTimeStamp) {
        if self.peer.is_some_and(|known| known != recovery) {
            self.lose_peer(Failure::PeerRestarted);
        }
    }

    /// Without its peer the SMF ends; the sessions it had are lost.
    fn lose_peer(&mut self, failure: Failure) {
        self.state = State::Failed(failure);
        self.peer = None;
        self.heartbeat_at = None;
        self.transactions.clear();
        self.to_modify.clear();
        let lost = self
            .sessions
            .iter_mut()
            .filter(|session| session.stage != Stage::Deleted);
        lost.for_each(|session| session.stage = Stage::Failed(failure));
    }
}

fn accepted(cause: Cause, offending: Option<OffendingIe>, rule: Option<FailedRuleId>) -> Result<(), Failure> {
    if cause.is_accepted() {
        Ok(())
    } else {
        Err(Failure::Rejected {
            cause,
            offending,
            rule,
        })
    }
}

#[cfg(test)]
mod tests;
