//! The daemon that is killed.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::super::error::BenchError;
use super::super::pfcp::{Generator, Procedure, Round, WINDOW};
use super::super::progress::Progress;
use super::super::rules::Identity;
use super::arguments::Arguments;
use super::charging::Charging;
use super::daemon::{self, Daemon, DaemonConfig};
use super::links::Links;
use super::smfs::{generator, request_all};
use super::traffic::Traffic;
use super::work_directory::WorkDirectory;

/// The daemon that is killed, with its sessions and their traffic.
pub struct Run<'a> {
    pub arguments: &'a Arguments,
    pub daemon: Daemon,
    pub generator: Generator,
    /// The sessions with traffic.
    pub users: Arc<[Identity]>,
    pub progress: &'a Progress,
}

impl<'a> Run<'a> {
    pub fn start(
        arguments: &'a Arguments,
        work: &WorkDirectory,
        progress: &'a Progress,
    ) -> Result<Self, BenchError> {
        let links = Links::make(0)?;
        let (mut generator, n4) = generator(0, arguments.sessions)?;
        let config = DaemonConfig {
            links,
            n4,
            sessions: arguments.sessions,
            checkpoint_s: Some(arguments.checkpoint_s),
        };
        let mut daemon = Daemon::start(&config, &work.path("killed"))?;
        daemon.wait_for(daemon::READY)?;
        generator.associate()?;
        Ok(Self {
            arguments,
            daemon,
            generator,
            users: Arc::new([]),
            progress,
        })
    }

    /// A procedure for some sessions, all of which have to be accepted.
    pub fn request(
        &mut self,
        part: &'static str,
        procedure: Procedure,
        sessions: Range<u32>,
    ) -> Result<Round, BenchError> {
        self.progress.begin(part, sessions.len() as u64);
        request_all(&mut self.generator, procedure, sessions, WINDOW, self.progress)
    }

    pub fn traffic(&self) -> Result<Traffic, BenchError> {
        Traffic::start(Arc::clone(&self.users), f64::from(self.arguments.rate))
    }

    /// Some intervals of checkpoints.
    pub fn some_intervals(&self) -> Duration {
        Duration::from_secs(u64::from(self.arguments.checkpoint_s) * 3)
    }

    /// Traffic without a kill.
    pub fn undisturbed(&mut self) -> Result<Charging, BenchError> {
        self.progress.begin("traffic without a kill", 1);
        let traffic = self.traffic()?;
        thread::sleep(self.some_intervals());
        let tally = traffic.end()?;
        let charged = self.charged()?;
        Ok(Charging::of(&tally, &charged, 0))
    }

    /// What reports charge since the last time, by number of the session with traffic.
    pub fn charged(&mut self) -> Result<Vec<u64>, BenchError> {
        let before = self.generator.reported().to_vec();
        self.request("queries", Procedure::Query, 0..self.arguments.active)?;
        let now = self.generator.reported().iter();
        let passed = now.zip(before).map(|(now, before)| now - before);
        Ok(passed.take(self.users.len()).collect())
    }
}
