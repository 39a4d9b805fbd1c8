//! The daemon: a UPF on its ports and sockets, until a signal ends it.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dpdk::Eal;
use flow::Nanos;
use flow::residency::Mappings;
use packet::redirect::Secret;
use session::{Moved, Random, Unreported};
use tracing::{debug, error, info, warn};
use transport::OwnAddressState;
use worker::Stats;
use worker::dpdk::HostEnd;

use config::{AtStop, Config, Driver};
use oam::LogControl;
use oam::alarms::SharedAlarms;
use oam::rest::{QueryServer, query_channel};
use oam::values::WorkerMemory;
use ports::{NumaPlacement, Ports};
use runtime::{Clock, ControlLoop, Sockets, WorkerThread, spawn_prefault_thread};
use trace::Explainer;
use upf::{Assembly, Control, LinkEvent, Surroundings, assemble};

use super::alarms::{AlarmSources, AlarmWatch, deliver};
use super::api::{self, ApiSources};
use super::configuration::{Source, open_configuration};
use super::dates::Dates;
use super::gauges::{flow_entries, worker_gauges};
use super::host::HostPath;
use super::links::LinkWatch;
use super::n4_log;
use super::service_manager::ServiceManager;
use super::session_store::{Listing, Opening, RestorationLog};
use super::session_transfer::import_sessions;
use super::worker_threads::{
    Made, TablesThread, Wakes, WorkerSurroundings, idle_workers, start_workers, unstarted_workers,
};
use super::writers::OpenedWriters;

/// How long workers have at the end to report the last usage of sessions.
const LAST_USAGE: Duration = Duration::from_secs(1);

/// How long all sessions may take to be kept at the end.
const KEEPING_ALL: Duration = Duration::from_secs(60);

/// How often it is logged at most that SMFs do not take usage reports.
const UNTAKEN_EVERY: Duration = Duration::from_secs(10);

/// How often it is looked at whether the ports' frames are kept from the host.
const DROP_POLL: Duration = Duration::from_secs(1);

/// Why the daemon could not start, or ended.
#[derive(Debug)]
pub struct RunError(String);

impl RunError {
    fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

/// Runs the UPF of `config` until `stop` is set and the associations have ended, or until its sessions have gone to
/// another process; gives the workers' statistics. With `sessions` it takes in the sessions of that file first.
/// `log` sets how much is logged; `source` is where `config` was read.
///
/// # Errors
/// What kept it from starting, or ended it: a socket, DPDK, a port, memory.
pub fn run(
    config: &Config,
    source: Source<'_>,
    sessions: Option<&Path>,
    stop: &AtomicBool,
    log: &LogControl,
) -> Result<Vec<Stats>, RunError> {
    let before = BeforeDpdk::start(config)?;
    let eal = ports::start_eal(config).map_err(RunError::of)?;
    let mut ports = Ports::start(eal, config).map_err(RunError::of)?;
    ports.swept().iter().for_each(|what| warn!("{what}"));
    warn_of_host(config);
    // Before the sockets: their addresses may be on its interfaces.
    let host = open_host(eal, config, &ports)?;
    let sockets = open_n4_sockets(config)?;
    let clock = Clock::starting_now(eal.tsc_hz());
    let (mut control, workers, explainer) = build(config, before.seed, &clock, &ports)?;
    let flow_entries = flow_entries(&workers);
    let ios = ports.take_io(eal).map_err(RunError::of)?;
    let halt = Arc::new(AtomicBool::new(false));
    let own = sockets.wakeup().map_err(RunError::of)?;
    let idles = idle_workers(config, &ios).map_err(RunError)?;
    let wakeups: Vec<_> = idles.iter().map(|idle| idle.wakeup().cloned()).collect();
    let (host, host_ends) = host.map_or((None, Vec::new()), |(host, ends)| (Some(host), ends));
    let host = host.map(|host| host.with_worker(wakeups.first().cloned().flatten()));
    let wakes = Wakes::new(own.clone(), wakeups.clone(), host.as_ref());
    let unstarted = unstarted_workers(workers, before.tables, ios, idles, host_ends);
    let around = WorkerSurroundings::new((config, &ports), wakes, &clock, &halt);
    let mut threads = start_workers(eal, &around, unstarted).map_err(RunError)?;
    let memory = workers_memory(&mut threads, &ports)?;
    // The store is read while workers are made.
    let opened = OpenedWriters::open(config, &clock, before.opening).map_err(RunError)?;
    let (client, server) = query_channel();
    let (writers, views, listing) = opened
        .start(config, &mut control, &clock, own.clone())
        .map_err(RunError)?;
    let hosts = host.as_ref().map(HostPath::view).unwrap_or_default();
    let host = host.map(|host| host.start(eal, Arc::clone(&halt)));
    let host = host.transpose().map_err(RunError::of)?;
    let alarms = SharedAlarms::default();
    let gauges = worker_gauges(eal, flow_entries, &ports, &threads);
    let of_alarms = gauges.clone();
    let sources = ApiSources {
        client,
        records: views.records.clone(),
        store: views.store.clone(),
        hosts,
        explainer: explainer.clone(),
        memory,
        alarms: alarms.clone(),
        gauges,
        log,
        configuration: open_configuration(config, source),
    };
    let api = api::open(config, sources, &threads).map_err(RunError::of)?;
    let restored = RestorationLog::new(views.store.clone());
    let watched = AlarmSources {
        writers: views,
        auditor: api.auditor.clone(),
        gauges: of_alarms,
        delivery: deliver(config, &alarms, &clock).map_err(RunError)?,
    };
    let watch = AlarmWatch::new(config, alarms, watched);
    log_ready(config, sockets.addresses(), &ports);

    let turns = ControlLoop::new(control, sockets, clock.clone()).with_wakeups(own, wakeups);
    let mut served = Served {
        server,
        turns,
        ports: &mut ports,
        threads: &threads,
        listing,
        logged: Logged {
            restored,
            ..Logged::default()
        },
        links: LinkWatch::new(&threads),
        drops_due: Nanos::ZERO,
        dates: Dates::new(clock, explainer),
        watch,
        service_manager: ServiceManager::of_environment(),
    };
    let outcome = served.run(sessions, stop, Ends::of(config));
    // With Control goes the records' source: what it could not state any more is stated at their end.
    drop(served);
    halt.store(true, Ordering::Relaxed);
    let stats = join(threads, host)?;
    writers.end();
    outcome.map(|()| stats)
}

/// What threads do that begin before DPDK, which takes its time and may leave this one on one core.
struct BeforeDpdk {
    /// What identifiers and the keys of hash functions are drawn from.
    seed: [u8; 32],
    /// The tables of the workers, in the order of their numbers.
    tables: Vec<TablesThread>,
    /// The store, if there is one.
    opening: Option<Opening>,
}

impl BeforeDpdk {
    fn start(config: &Config) -> Result<Self, RunError> {
        if let Some(accelerator) = &config.accelerator {
            // A mistake is found before any port is opened.
            accelerator.link.key().map_err(RunError::of)?;
        }
        spawn_prefault_thread(config.limits.sessions.size());
        let seed = Random::system_seed().map_err(RunError::of)?;
        let network = Arc::new(config.network().map_err(RunError::of)?);
        let opening = Opening::begin(config, &network).map_err(RunError::of)?;
        let tables = TablesThread::start_all(config, &network, seed).map_err(RunError::of)?;
        Ok(Self {
            seed,
            tables,
            opening,
        })
    }
}

/// Waits until the workers are made, and logs where the kernel has put their memory.
fn workers_memory(threads: &mut [WorkerThread], ports: &Ports) -> Result<Vec<WorkerMemory>, RunError> {
    let tables = threads.iter_mut().map(WorkerThread::ready);
    let tables = tables.collect::<Result<Vec<_>, _>>().map_err(RunError::of)?;
    let mappings = Mappings::read();
    let workers = tables.iter().zip(ports.pools()).zip(ports.placements());
    let mut memory = Vec::new();
    for (worker, ((tables, pool), &NumaPlacement { core, node })) in workers.enumerate() {
        let tables = mappings.residency(tables);
        let packet_buffers = mappings.residency(&pool.areas());
        for (what, found) in [("tables", &tables), ("packet buffers", &packet_buffers)] {
            let (pages, on_nodes) = (found.pages_text(), found.nodes_text());
            info!(
                worker,
                core,
                node,
                octets = found.octets,
                pages,
                on_nodes,
                "worker memory: {what}"
            );
            let octets = node.map_or(0, |node| found.off_node(node));
            // Small arrays share pages with what other threads have allocated.
            if octets > found.octets / 20 {
                warn!(
                    worker,
                    core, node, octets, "worker memory on another NUMA node: {what}"
                );
            }
        }
        memory.push(WorkerMemory {
            core,
            node,
            tables: (&tables).into(),
            packet_buffers: (&packet_buffers).into(),
        });
    }
    if memory.iter().all(|worker| worker.tables.nodes.is_empty()) {
        info!("NUMA not available: the kernel reports no nodes of memory");
    }
    Ok(memory)
}

/// Waits for the ends of the workers' threads, which give their statistics, and of the host's.
fn join(threads: Vec<WorkerThread>, host: Option<JoinHandle<()>>) -> Result<Vec<Stats>, RunError> {
    let stats = threads.into_iter().map(WorkerThread::join).collect();
    if let Some(host) = host {
        host.join()
            .map_err(|_| RunError("the host's thread panicked".into()))?;
    }
    Ok(stats)
}

/// Warns of interfaces whose frames the host's network stack gets, too, and of addresses of the host that cannot be
/// reached by those whose frames it does not.
fn warn_of_host(config: &Config) {
    let drivers = config.ports.iter().filter_map(|port| port.driver.as_ref());
    for interface in drivers.clone().filter_map(Driver::kept_from_host) {
        for address in ports::addresses_on(interface) {
            warn!(
                interface,
                %address, "the host has this address on an interface that is a port: nothing reaches it there"
            );
        }
    }
    for interface in drivers
        .filter(|driver| driver.kept_from_host().is_none())
        .filter_map(Driver::interface)
    {
        warn!(
            interface,
            "leave_to_host: neighbours on this link reach what listens on the host, and the host forwards what it can route"
        );
    }
}

fn open_n4_sockets(config: &Config) -> Result<Sockets, RunError> {
    let addresses = config.n4.addresses.iter().map(|address| address.value);
    let sockets = Sockets::open(addresses, config.n4.port.value() as u16).map_err(RunError::of)?;
    match &config.n4.device {
        Some(device) => sockets.bound_to_device(&device.value).map_err(RunError::of),
        None => Ok(sockets),
    }
}

/// Says how packets come to the workers, and all that [`log_start`] does; then that the daemon is ready.
fn log_ready(config: &Config, addresses: impl Iterator<Item = SocketAddr>, ports: &Ports) {
    for (port, report) in ports.rx_distributions() {
        info!(port, "{report}");
        report.refused.iter().for_each(|words| debug!(port, "{words}"));
    }
    log_start(config, addresses);
    let workers = config.workers.count.value();
    info!(workers, ports = config.ports.len(), "ready");
}

/// Says who this is, where N4 is reached, and what is left open.
fn log_start(config: &Config, addresses: impl Iterator<Item = SocketAddr>) {
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    let (version, node) = (env!("CARGO_PKG_VERSION"), config.node.id.0.to_string());
    info!(version, node, addresses = addresses.join(","), "N4 open");
    if config.n4.peers.is_empty() {
        warn!(
            unverified_percent = config.n4.unverified_percent.value(),
            unknown_source_s = config.n4.unknown_source_s.value(),
            "N4 accepts datagrams from any source: n4.peers names no prefixes"
        );
    }
}

/// The host's own network stack on the links of the instances that have one.
fn open_host(
    eal: &'static Eal,
    config: &Config,
    ports: &Ports,
) -> Result<Option<(HostPath, Vec<HostEnd>)>, RunError> {
    if !config.has_hosts() {
        return Ok(None);
    }
    let opened = HostPath::open(eal, config, &ports.macs(), ports.pools()[0].clone());
    opened.map(Some).map_err(RunError::of)
}

fn build(
    config: &Config,
    seed: [u8; 32],
    clock: &Clock,
    ports: &Ports,
) -> Result<(Control, Made, Explainer), RunError> {
    let mut secrets = Random::from_seed(Random::system_seed().map_err(RunError::of)?);
    let secret = Secret([secrets.next_u64(), secrets.next_u64()]);
    let network = config.network().map_err(RunError::of)?;
    let network = Arc::new(network.with_redirect_secret(secret));
    let (now, clock_unix) = (clock.now(), clock.unix_at_zero());
    let explainer = Explainer::of(config, Arc::clone(&network), clock_unix * 1_000_000_000);
    let around = Surroundings {
        now,
        clock_unix,
        random: Random::from_seed(seed),
        interfaces: ports.interfaces(&network),
        macs: ports.macs(),
    };
    let Assembly { control, workers } = assemble(config, &network, around);
    Ok((control, workers, explainer))
}

/// What is done when the daemon ends.
#[derive(Clone, Copy)]
struct Ends {
    has_records: bool,
    keeps_sessions: bool,
}

impl Ends {
    fn of(config: &Config) -> Self {
        let store = config.store.as_ref();
        Self {
            has_records: config.records.is_some(),
            keeps_sessions: store.is_some_and(|store| store.at_stop == AtStop::Keep),
        }
    }
}

/// What the control thread looks after.
struct Served<'a> {
    server: QueryServer,
    turns: ControlLoop,
    ports: &'a mut Ports,
    threads: &'a [WorkerThread],
    /// What the store had that control does not know yet.
    listing: Option<Listing>,
    logged: Logged,
    links: LinkWatch,
    /// When it is looked at again whether their frames are kept from the host.
    drops_due: Nanos,
    dates: Dates,
    watch: AlarmWatch,
    service_manager: ServiceManager,
}

/// Conditions that are logged once, or not often.
#[derive(Default)]
struct Logged {
    /// SMFs ask for rates above any possible rate.
    rates: bool,
    /// Packets arrive at other workers than their sessions'.
    misplaced: bool,
    /// The sessions are another process's, which ends the loop.
    export: bool,
    /// All sessions of the store have come back.
    restored: RestorationLog,
    /// When rejected usage reports may be logged again.
    untaken_due: Nanos,
}

/// The daemon's state in a few words.
fn status(control: &Control) -> String {
    let endpoint = control.endpoint();
    let reachable = endpoint.associations().filter(|one| one.reachable).count();
    let sessions = endpoint.sessions().count().sessions;
    format!("{reachable} SMFs, {sessions} sessions")
}

impl Served<'_> {
    /// Takes in the sessions of a file, serves until `stop`, and ends the associations in order.
    fn run(&mut self, sessions: Option<&Path>, stop: &AtomicBool, ends: Ends) -> Result<(), RunError> {
        let now = self.turns.now();
        self.links.look(now, self.ports, self.turns.control());
        // Datagrams wait in the sockets meanwhile: peers see the Recovery Time Stamp of the file, and no other.
        sessions.map_or(Ok(()), |path| {
            import_sessions(&mut self.turns, path).map_err(RunError)
        })?;
        self.service_manager.ready();
        self.serve(|_| stop.load(Ordering::Relaxed))?;
        self.service_manager.stopping();
        if ends.keeps_sessions && !self.logged.export {
            return self.keep_all();
        }
        self.end()?;
        if ends.has_records {
            self.end_usage()
        } else {
            Ok(())
        }
    }

    /// The control thread's loop.
    fn serve(&mut self, is_over: impl Fn(&Control) -> bool) -> Result<(), RunError> {
        while !is_over(self.turns.control()) {
            let now = self.turns.now();
            self.links.look(now, self.ports, self.turns.control());
            self.look_at_drops();
            let now = self.turns.now();
            self.dates.follow(now, self.turns.control(), &mut self.watch);
            self.watch.look(now, self.turns.control(), self.threads);
            self.follow_listing()?;
            self.turns.turn().map_err(RunError::of)?;
            self.log_links();
            self.log_own_addresses();
            self.log_n4();
            let now = self.turns.now();
            self.server.serve(now, self.turns.control());
            if self.server.has_left() && !std::mem::replace(&mut self.logged.export, true) {
                return Ok(());
            }
            self.follow_moves();
            self.log_rates();
            self.log_misplaced();
            self.log_untaken();
            self.logged.restored.log(now, self.turns.control());
            let workers = self.threads.iter().map(|thread| thread.published().times());
            self.service_manager
                .turn(now, workers, || status(self.turns.control()));
            if self.threads.iter().any(WorkerThread::is_finished) {
                return Err(RunError("a worker's thread ended".into()));
            }
        }
        Ok(())
    }

    /// Gives control the other sessions of the store, once they are listed.
    fn follow_listing(&mut self) -> Result<(), RunError> {
        let now = self.turns.now();
        if let Some(listing) = self.listing.take() {
            let left = listing.end(now, self.turns.control());
            self.listing = left.map_err(RunError)?;
        }
        Ok(())
    }

    /// Lets the associations end, for as long as the configuration allows.
    fn end(&mut self) -> Result<(), RunError> {
        let associations = self.turns.control().endpoint().associations().count();
        if associations > 0 {
            info!(associations, "associations being released");
        }
        self.turns.end();
        self.serve(|control| control.endpoint().has_ended())
    }

    /// Keeps all sessions in the store, as they are.
    fn keep_all(&mut self) -> Result<(), RunError> {
        let now = self.turns.now();
        self.turns.control().session_keeping(now).begin_keeping_all();
        let deadline = Instant::now() + KEEPING_ALL;
        while !self.turns.control().session_keeping(now).has_kept_all() && Instant::now() < deadline {
            self.turns.turn().map_err(RunError::of)?;
            let now = self.turns.now();
            let workers = self.threads.iter().map(|thread| thread.published().times());
            self.service_manager
                .turn(now, workers, || "keeping sessions".into());
        }
        let sessions = self.turns.control().endpoint().sessions().count().sessions;
        info!(sessions, "sessions kept for the next start");
        Ok(())
    }

    /// Lets the workers report the last usage of sessions that ended without a request, which only records have.
    fn end_usage(&mut self) -> Result<(), RunError> {
        let deadline = Instant::now() + LAST_USAGE;
        self.serve(|control| !control.is_waiting() || Instant::now() > deadline)
    }

    /// Logs once, not for each session, that bit rates of SMFs are beyond what any meter reaches.
    fn log_rates(&mut self) {
        let counters = self.turns.control().endpoint().counters();
        if !self.logged.rates && counters.unreachable_rates > 0 {
            self.logged.rates = true;
            warn!("bit rates above 1 Tbit/s in rules of an SMF: not enforced");
        }
    }

    /// Logs once that a peer sends what has no place on the interface that it is configured to speak (TS 29.244
    /// §7.6.9).
    fn log_misplaced(&mut self) {
        let counters = self.turns.control().endpoint().counters();
        if !self.logged.misplaced && counters.misplaced_ies > 0 {
            self.logged.misplaced = true;
            warn!("IEs of another interface than n4.peers says: discarded");
        }
    }

    /// Logs usage reports that SMFs have not taken since the last such line.
    fn log_untaken(&mut self) {
        let now = self.turns.now();
        if now < self.logged.untaken_due {
            return;
        }
        let Some(untaken) = self.turns.control().take_unaccepted_usage() else {
            return;
        };
        self.logged.untaken_due = now + UNTAKEN_EVERY;
        let smf = untaken
            .smf
            .map_or_else(|| "unknown".to_owned(), |smf| smf.to_string());
        let seid = upf::identifiers::seid(untaken.seid.0);
        let why = match untaken.why {
            Unreported::Refused(cause) => {
                let name = pfcp::ie::Cause::new(cause).map_or("reserved", pfcp::ie::Cause::name);
                format!("refused with cause {cause} ({name})")
            }
            Unreported::Unreadable => "answered unreadably".to_owned(),
            Unreported::Unanswered => {
                "not answered before the session or its association was gone".to_owned()
            }
        };
        warn!(
            reports = untaken.reports,
            smf, seid, "usage reports not taken, the last one {why}"
        );
    }

    fn log_n4(&mut self) {
        let now = self.turns.now();
        while let Some((event, suppressed)) = self.turns.control().poll_n4_log(now) {
            n4_log::log_event(&event, suppressed);
        }
    }

    /// Sees to it that what comes in by the ports is kept from the host's network stack, whatever others do to the
    /// tables of nf_tables.
    fn look_at_drops(&mut self) {
        let now = self.turns.now();
        if now < self.drops_due {
            return;
        }
        self.drops_due = now + DROP_POLL;
        for interface in self.ports.renew_drops() {
            warn!(
                interface,
                "ingress drop restored: another process had removed it, and the host's network stack got every frame meanwhile"
            );
        }
    }

    fn log_links(&mut self) {
        while let Some(event) = self.turns.control().poll_link_event() {
            let name = |port| self.ports.name(port);
            match event {
                LinkEvent::Up(port) => info!(port = name(port), "link up"),
                LinkEvent::Down(port) => warn!(port = name(port), "link down"),
                LinkEvent::Member {
                    lag,
                    member,
                    distributing: true,
                    ..
                } => info!(port = name(lag), member = name(member), "LAG member up"),
                LinkEvent::Member {
                    lag, member, state, ..
                } => warn!(port = name(lag), member = name(member), state, "LAG member down"),
            }
        }
    }

    fn log_own_addresses(&mut self) {
        while let Some(event) = self.turns.control().poll_own_address() {
            let network = self.turns.control().network();
            let instance = network.instance(event.instance);
            let instance = instance.map_or_else(String::new, |instance| instance.name.to_string());
            let (address, state) = (event.address, event.state);
            match (state, event.claimant) {
                (OwnAddressState::Duplicate, Some(station)) => error!(
                    instance,
                    %address,
                    %station,
                    "own address duplicate"
                ),
                (_, Some(station)) => {
                    warn!(instance, %address, %station, "own address claimed by another station");
                }
                (OwnAddressState::Preferred, None) => info!(instance, %address, "own address preferred"),
                (_, None) => debug!(instance, %address, "own address {}", state.name()),
            }
        }
    }

    /// Logs buckets that have moved, and lets the ports follow.
    fn follow_moves(&mut self) {
        while let Some(Moved {
            bucket,
            from,
            to,
            result,
        }) = self.turns.control().poll_moved()
        {
            match result {
                Ok(sessions) => {
                    info!(%bucket, from = from.0, to = to.0, sessions, "bucket moved");
                    self.ports.follow(&self.turns.control().owners());
                }
                Err(fault) => warn!(%bucket, from = from.0, to = to.0, why = %fault, "bucket not moved"),
            }
        }
    }
}
