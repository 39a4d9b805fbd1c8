//! The simulator over the sockets of an operating system, against any user plane.
//!
//! The SMF is a UDP socket on N4, each gNB is one on its GTP-U address, each server is one in the data network, to
//! which the UEs' addresses are routed through the user plane. The operating system makes the outer headers uplink
//! and the IP headers downlink, so those are checked by addresses and ports; payloads are checked octet by octet.
//!
//! One thread, no unsafe code, no raw sockets. A run is bounded in rate and time, stops by itself, and sends to no
//! address but those in its [`Config`].

mod config;
mod error;
mod socket;
mod user_plane;

pub use config::{Config, MAX_DRAIN, MAX_GNB_SOCKETS, MAX_RATE, MAX_TIME};
pub use error::Error;

use crate::smf::{Progress, Servers, Smf, State};
use crate::{Nanos, Report};
use socket::{LONGEST, RECEIVE_MOST, bind, receive, send};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use user_plane::UserPlane;

/// How long to sleep when there is nothing to do.
const NAP: Duration = Duration::from_micros(100);

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The user plane.
    pub report: Report,
    /// N4, after the release.
    pub n4: Progress,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SettingUp,
    Sending { until: Nanos },
    Draining { until: Nanos },
    Releasing,
    Over,
}

/// A run, step by step. [`run`] does all of it.
#[derive(Debug)]
pub struct Run {
    config: Config,
    smf: Smf,
    n4: UdpSocket,
    user_plane: UserPlane,
    phase: Phase,
    /// How long traffic was sent.
    sent_for: Duration,
    buffer: Vec<u8>,
}

impl Run {
    /// Binds the sockets and sends the association request.
    pub fn new(config: Config, now: Nanos) -> Result<Run, Error> {
        config.validate().map_err(Error::Config)?;
        let n4 = bind(config.n4)?;
        let user_plane = UserPlane::bind(&config)?;
        let mut smf = Smf::new(config.smf.clone()).map_err(Error::Config)?;
        smf.start(now);
        let (phase, sent_for, buffer) = (Phase::SettingUp, Duration::ZERO, vec![0; LONGEST]);
        Ok(Run {
            config,
            smf,
            n4,
            user_plane,
            phase,
            sent_for,
            buffer,
        })
    }

    /// Does what can be done without waiting. Whether anything was done; the run is over when
    /// [`outcome`](Run::outcome) says so.
    pub fn step(&mut self, now: Nanos) -> Result<bool, Error> {
        let mut busy = self.step_n4(now)?;
        busy |= self.user_plane.receive(now, &mut self.buffer);
        match self.phase {
            Phase::SettingUp => self.set_up(now)?,
            Phase::Sending { until } if now < until => busy |= self.user_plane.send(now),
            Phase::Sending { .. } => {
                self.phase = Phase::Draining {
                    until: now + self.config.drain,
                }
            }
            Phase::Draining { until } if now < until => (),
            Phase::Draining { .. } => {
                self.smf.release(now);
                self.phase = Phase::Releasing;
            }
            Phase::Releasing if matches!(self.smf.state(), State::Released | State::Failed(_)) => {
                self.phase = Phase::Over;
            }
            Phase::Releasing | Phase::Over => (),
        }
        Ok(busy)
    }

    /// The result; `None` while the run continues.
    pub fn outcome(&self) -> Option<Outcome> {
        let over = self.phase == Phase::Over;
        over.then(|| Outcome {
            report: self.report(),
            n4: self.smf.progress(),
        })
    }

    /// The user plane so far.
    pub fn report(&self) -> Report {
        Report::new(
            self.user_plane.sessions(),
            self.sent_for,
            &self.user_plane.totals(),
        )
    }

    /// N4 so far.
    pub fn progress(&self) -> Progress {
        self.smf.progress()
    }

    fn step_n4(&mut self, now: Nanos) -> Result<bool, Error> {
        let mut busy = false;
        for _ in 0..RECEIVE_MOST {
            let Some((length, from)) = receive(&self.n4, &mut self.buffer).map_err(Error::N4)? else {
                break;
            };
            if from.ip() == self.config.upf_n4.ip() {
                self.smf.handle(now, &self.buffer[..length]);
                busy = true;
            }
        }
        if self.smf.poll_timeout().is_some_and(|at| at <= now) {
            self.smf.handle_timeout(now);
        }
        while let Some(datagram) = self.smf.poll_transmit() {
            // A datagram that cannot be sent now is lost like any other; it is sent again after T1.
            send(&self.n4, &datagram, self.config.upf_n4).map_err(Error::N4)?;
            busy = true;
        }
        Ok(busy)
    }

    fn set_up(&mut self, now: Nanos) -> Result<(), Error> {
        match self.smf.state() {
            State::Failed(failure) => return Err(Error::Association(failure)),
            State::Established => (),
            _ => return Ok(()),
        }
        let (ipv4, ipv6, port) = self.user_plane.servers();
        let (ue_port, ue_ports) = (self.config.ue_port, self.config.ue_ports);
        let paths = self.smf.paths(&Servers {
            ipv4,
            ipv6,
            port,
            ue_port,
            ue_ports,
        });
        if let Some(path) = paths.iter().find(|path| path.upf.address != self.config.upf_n3) {
            return Err(Error::ForeignTunnel(path.upf.address));
        }
        if paths.is_empty() {
            return Err(Error::NoSession(
                self.smf.sessions().iter().find_map(|session| session.failure()),
            ));
        }
        self.user_plane.start(&self.config, &paths, now)?;
        self.sent_for = self.config.time;
        self.phase = Phase::Sending {
            until: now + self.config.time,
        };
        Ok(())
    }
}

/// Sets sessions up, sends and checks traffic, releases all, and returns the outcome.
pub fn run(config: Config) -> Result<Outcome, Error> {
    let start = Instant::now();
    let now = || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut run = Run::new(config, now())?;
    loop {
        let busy = run.step(now())?;
        if let Some(outcome) = run.outcome() {
            return Ok(outcome);
        }
        if !busy {
            std::thread::sleep(NAP);
        }
    }
}
