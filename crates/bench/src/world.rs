//! One worker on a self-fed port, with the sessions of a model; and the way its flows get into the table.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::meter::SharedId;
use flow::{Nanos, OpId, SessionIndex, bucket};
use packet::DropReason;
use rules::compile::compile;
use rules::image::SessionChange;
use rules::network::Network;
use worker::{Command, ControlEnd, Event, Io, Stats, Worker, WorkerEnd, control_channel};

use super::check::{Checked, Samples};
use super::error::BenchError;
use super::feed::Feed;
use super::load::Load;
use super::network::{self, Routers};
use super::progress::Progress;
use super::rules::{Identity, session_rules};
use super::settings::{Setting, WorkerOf};

/// The first UE's address.
pub const UES: u32 = 0x0a40_0000;
/// Number of addresses in 10.64.0.0/10.
pub const MOST_UES: u32 = 1 << 22;

/// The identities of the sessions of `worker`: addresses and TEIDs in its own buckets, as the UPF
/// would draw them, so that nothing has to be handed over.
///
/// # Errors
/// When there are more sessions than addresses.
pub fn identities(sessions: u32, worker: WorkerOf) -> Result<Arc<[Identity]>, BenchError> {
    let owns = |bucket: flow::Bucket| bucket.index() as u16 % worker.workers.max(1) == worker.id;
    let ues = (0..MOST_UES)
        .map(|number| Ipv4Addr::from_bits(UES + number))
        .filter(|ue| owns(bucket::of_ipv4(ue.octets())));
    let teids = (1..u32::MAX)
        .map(|number| 0x1000_0000 | (number.wrapping_mul(0x9e37_79b1) & 0x0fff_ffff))
        .filter(|&teid| owns(bucket::of_teid(teid)));
    let identities: Arc<[Identity]> = ues
        .zip(teids)
        .take(sessions as usize)
        .map(|(ue, teid)| Identity { ue, teid })
        .collect();
    if identities.len() < sessions as usize {
        return Err(BenchError(format!(
            "{sessions} sessions: there are no more than {} addresses",
            identities.len()
        )));
    }
    Ok(identities)
}

/// A worker and control's end of its link.
struct Commanded<I: Io> {
    worker: Worker<I>,
    control: ControlEnd,
}

/// The network and the sessions of a worker with any I/O.
pub struct Bare {
    setting: Setting,
    network: Arc<Network>,
    identities: Arc<[Identity]>,
}

impl Bare {
    /// The network and the identities of a setting.
    ///
    /// # Errors
    /// When there are more sessions than addresses.
    pub fn new(setting: &Setting) -> Result<Self, BenchError> {
        let network = Arc::new(network::network(setting.wire).map_err(BenchError::of)?);
        let identities = identities(setting.model.sessions, setting.worker)?;
        Ok(Self {
            setting: *setting,
            network,
            identities,
        })
    }

    /// The identities of the sessions, by number.
    #[must_use]
    pub fn identities(&self) -> Arc<[Identity]> {
        Arc::clone(&self.identities)
    }

    /// A worker that has the sessions, and no link to command it further.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn worker<I: Io>(&self, io: I, progress: &Progress) -> Result<Worker<I>, BenchError> {
        Ok(self.with_control(io, progress)?.worker)
    }

    fn with_control<I: Io>(&self, io: I, progress: &Progress) -> Result<Commanded<I>, BenchError> {
        let (mut control, end): (ControlEnd, WorkerEnd) = control_channel(64, 256);
        let config = self.setting.config(&self.network)?;
        let mut worker = Worker::new(config, io, end).map_err(BenchError::of)?;
        let slices = network::slices(self.setting.model.policy.slices);
        let wire = self.setting.wire;
        let neighbours = network::neighbours(&self.network, wire);
        for command in slices.chain(neighbours).chain(wire.shares()) {
            tell(&mut worker, &mut control, command)?;
        }
        self.install_sessions(&mut worker, &mut control, progress)?;
        Ok(Commanded { worker, control })
    }

    fn install_sessions<I: Io>(
        &self,
        worker: &mut Worker<I>,
        control: &mut ControlEnd,
        progress: &Progress,
    ) -> Result<(), BenchError> {
        let model = self.setting.model;
        progress.begin("sessions", model.sessions.into());
        for (session, identity) in (0..model.sessions).zip(self.identities.iter()) {
            let rules = session_rules(&model, session, *identity).map_err(BenchError::of)?;
            let mut image = compile(&Arc::new(rules), &self.network, &Routers).map_err(BenchError::of)?;
            (image.session, image.seid) = (SessionIndex(session), u64::from(session) + 1);
            image.block.get_or_insert_default().shared = SharedId(model.policy.slice(session));
            let change = SessionChange::Install(Box::new(image));
            let op = OpId(session.into());
            tell(worker, control, Command::Session { op, change })?;
            if session % 1_024 == 0 {
                progress.at(session.into());
            }
        }
        if worker.sessions() == model.sessions as usize {
            Ok(())
        } else {
            Err(BenchError(format!(
                "{} of {} sessions installed",
                worker.sessions(),
                model.sessions
            )))
        }
    }
}

/// Sends a worker a command and lets the worker apply it.
pub(crate) fn tell<I: Io>(
    worker: &mut Worker<I>,
    control: &mut ControlEnd,
    command: Command,
) -> Result<(), BenchError> {
    let full = |_| BenchError("the link to the worker is full".into());
    control.commands.push(command).map_err(full)?;
    worker.poll(Nanos::ZERO);
    while let Ok(event) = control.events.pop() {
        if let Event::Applied {
            outcome: Err(error), ..
        } = event
        {
            return Err(BenchError::of(error));
        }
    }
    Ok(())
}

/// A worker and its port.
pub struct World {
    /// The worker.
    pub worker: Worker<Feed>,
    /// Its parameters.
    pub setting: Setting,
    network: Arc<Network>,
    identities: Arc<[Identity]>,
    control: ControlEnd,
    start: Instant,
}

impl World {
    /// A world with all sessions and no flow.
    ///
    /// # Errors
    /// When memory runs out, or the rules do not compile.
    pub fn new(setting: Setting, progress: &Progress) -> Result<Self, BenchError> {
        let bare = Bare::new(&setting)?;
        let feed = Feed::new(setting.model, setting.wire, bare.identities());
        let Commanded { worker, control } = bare.with_control(feed, progress)?;
        Ok(Self {
            worker,
            setting,
            network: bare.network,
            identities: bare.identities,
            control,
            start: Instant::now(),
        })
    }

    /// The time that the worker is polled with.
    #[inline]
    pub fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// The port.
    pub fn feed(&mut self) -> &mut Feed {
        self.worker.io_mut()
    }

    /// Octets of memory that are the port's, not the worker's.
    pub fn port_octets(&mut self) -> u64 {
        self.feed().octets()
    }

    /// Puts `load` on, forgetting the samples so far.
    pub fn load(&mut self, load: Load) {
        self.feed().set_load(load);
        self.feed().take_samples();
    }

    /// Polls until `done`, which is asked every 64 polls.
    pub fn poll_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            for _ in 0..64 {
                let now = self.now();
                self.worker.poll(now);
            }
        }
    }

    /// Ends the load and lets the worker finish its packets.
    pub fn settle(&mut self) {
        self.feed().set_load(Load::none());
        for poll in 0.. {
            let now = self.now();
            if self.worker.poll(now).waiting == 0 && poll >= 4 {
                return;
            }
        }
    }

    /// Lets as many packets of a port wait from now on, at most what the worker was made for.
    pub fn set_backlog(&mut self, packets: usize) {
        self.worker.set_backlog(packets);
        let ports = self.setting.wire.ports();
        self.feed().add_buffers(ports * packets);
    }

    /// Sends a packet of each flow from number `from` to `to` once, without measuring.
    ///
    /// # Errors
    /// When flows found no entry.
    pub fn install_flows(&mut self, from: u32, to: u32, progress: &Progress) -> Result<(), BenchError> {
        let model = self.setting.model;
        let before = self.worker.stats().clone();
        progress.begin("flows", (to - from).into());
        self.load(Load::saturated(&model, model.flows()).with_fresh(from, to, None));
        self.poll_until(|world| {
            let left = world.feed().load().fresh_left();
            progress.at(u64::from(to - from) - left);
            left == 0
        });
        // Frames that were made ahead are still to be received.
        self.drain();
        let after = self.worker.stats();
        let refused = after.not_installed - before.not_installed;
        let dropped = after.dropped(DropReason::SlowPathBudget) - before.dropped(DropReason::SlowPathBudget);
        if refused + dropped > 0 {
            return Err(BenchError(format!(
                "{refused} flows found no entry and {dropped} packets no budget, at {} entries of {}",
                self.worker.flows(),
                self.setting.room
            )));
        }
        Ok(())
    }

    /// Polls until no more packets arrive, for loads that end.
    pub fn drain(&mut self) {
        let mut given = u64::MAX;
        self.poll_until(|world| {
            let now = world.feed().counts().given;
            std::mem::replace(&mut given, now) == now
        });
    }

    /// Holds the samples against the interpreter.
    pub fn check_samples(&mut self) -> Checked {
        self.check_samples_with(|_| {})
    }

    /// As [`check_samples`](Self::check_samples), of samples that `change` has changed.
    pub fn check_samples_with(&mut self, change: impl FnOnce(&mut Samples)) -> Checked {
        let mut samples = self.feed().take_samples();
        change(&mut samples);
        samples.check(&self.setting, &self.network, &self.identities)
    }

    /// Packets that the URRs of all sessions have counted.
    ///
    /// # Errors
    /// When the worker does not answer.
    pub fn urr_packets(&mut self) -> Result<u64, BenchError> {
        let mut sum = 0;
        for session in 0..self.setting.model.sessions {
            let query = Command::Query {
                op: OpId(session.into()),
                session: SessionIndex(session),
            };
            self.control
                .commands
                .push(query)
                .map_err(|_| BenchError("the link to the worker is full".into()))?;
            self.worker.poll(self.now());
            while let Ok(event) = self.control.events.pop() {
                if let Event::Queried {
                    outcome: Ok(usage), ..
                } = event
                {
                    sum += usage
                        .counters
                        .iter()
                        .map(|(_, count)| count.ul_packets + count.dl_packets)
                        .sum::<u64>();
                }
            }
        }
        Ok(sum)
    }

    /// The worker's own counts.
    pub fn stats(&self) -> Stats {
        self.worker.stats().clone()
    }
}

/// A function that returns true after `seconds`.
pub fn deadline(seconds: f64) -> impl Fn() -> bool {
    let (start, length) = (Instant::now(), Duration::from_secs_f64(seconds));
    move || start.elapsed() >= length
}
