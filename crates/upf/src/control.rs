//! Control: the PFCP endpoint and the neighbour table, tied to the workers by their links.
//!
//! Owned by one thread, which hands it datagrams and polls it. It never waits: commands that a worker's link has no
//! room for are kept, in order, and go with a later poll; while many are kept, no new effects are taken.

mod links;
mod record_sinks;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use flow::{Bucket, InstanceId, LocalId, Nanos, OpId, SessionIndex, WorkerId};
use n4::{AdmissionLimits, AdmissionQueue, DownlinkData, Endpoint, LogEvent, SessionEvent, Transmit, Turn};
use packet::MacAddr;
use packet::too_big::TooBig;
use rtrb::Consumer;
use rules::AdjacencyRef;
use rules::image::UsageSnapshot;
use rules::network::Network;
use session::{
    CounterReached, GtpuPath, MoveFault, Moved, NatPoolStatus, PathChange, Random, Seid, WallChange,
    WallClock,
};
use transport::lag::LagConfig;
use transport::{Interface, Neighbours, NeighboursConfig, OwnAddressEvent, OwnAddressState};
use worker::{
    ApplyError, Command, ControlEnd, Event, InterfaceSettings, MappingsWanted, TraceItem, TraceRequest,
    TraceTerms, mirror, trace,
};

use super::balance::{Balancer, Load};
use super::convert::{command, fault};
use super::echo;
use super::inspect::{InspectError, Inspection, Inspections, inspect};
use super::leases::{EgressShaper, Leases};
use super::mirror::{MirrorFault, MirrorWanted};
use super::neighbours::{SharedNeighbours, Table, prepare};
use super::path_mtus::PathMtus;
use super::port_block_log::PortBlockLog;
use super::port_links::PortLinks;
use super::reconfiguration::Reconfiguration;
use super::reconfigure::{FixedNeighbours, Reconfigurations, ReconfigureError, Reconfigured};
use super::session_keeping::SessionKeeping;
use super::session_store::SessionKeeper;
use super::session_transfer::{NodeExport, SessionTransfer};
use super::usage_record_writer::UsageRecordWriter;
use super::workers::Workers;
use config::{Config, StaticNeighbour};

/// Events taken from one worker in one poll; the rest waits for the next.
const EVENTS_PER_POLL: usize = 1_024;
/// Results of moves that are kept until they are polled.
const MOVES_KEPT: usize = 512;

/// Changes of own addresses that are kept for the log.
const OWN_ADDRESS_EVENTS_KEPT: usize = 256;

/// What Control is made of.
pub struct ControlConfig {
    /// The PFCP endpoint's configuration.
    pub n4: n4::Config,
    /// Where N4 is reached, for views.
    pub addresses: Vec<SocketAddr>,
    /// The configured world.
    pub network: Arc<Network>,
    /// How this node looks on each instance's link, by instance.
    pub interfaces: Vec<Interface>,
    /// Neighbours that are not to be resolved.
    pub static_neighbours: Vec<StaticNeighbour>,
    /// How neighbours are found; the workers' mirrors must have room for as many.
    pub neighbours: NeighboursConfig,
    /// How long it is believed that a path to a GTP-U peer has a small MTU; zero: never.
    pub path_mtu_age: Duration,
    /// The least MTU of a path that is believed.
    pub path_mtu_least: u16,
    /// The names of the ports, by their ids.
    pub ports: Vec<String>,
    /// The ports that are made of others.
    pub lags: Vec<LagConfig>,
    /// What of workers' interfaces the network does not say.
    pub interface_settings: InterfaceSettings,
    /// Whether workers have counters of contents.
    pub has_content_counters: bool,
    /// Whether workers have an accelerator that may hold sessions.
    pub has_accelerator: bool,
    /// Where identifiers come from.
    pub random: Random,
    /// Who moves buckets from busy workers to idle ones; `None`: they move by hand only.
    pub balancer: Option<Balancer>,
}

/// The control part of a UPF.
pub struct Control {
    endpoint: Endpoint,
    addresses: Vec<SocketAddr>,
    network: Arc<Network>,
    neighbours: SharedNeighbours,
    port_links: PortLinks,
    path_mtus: PathMtus,
    admission: AdmissionQueue,
    workers: Workers,
    balancer: Option<Balancer>,
    leases: Leases,
    moved: VecDeque<Moved>,
    inspections: Inspections,
    record_writer: Option<UsageRecordWriter>,
    port_block_log: Option<PortBlockLog>,
    session_keeper: Option<SessionKeeper>,
    /// The export that [`SessionTransfer::begin_node_export`] has begun.
    node_export: Option<NodeExport>,
    own_addresses: VecDeque<OwnAddressEvent>,
    /// Neighbours with link layer addresses that are not to be resolved: those of the configuration, and others.
    fixed_neighbours: FixedNeighbours,
    interface_settings: InterfaceSettings,
    has_content_counters: bool,
    reconfigurations: Reconfigurations,
}

impl Control {
    /// Control over the workers at the far ends of `links`, in the order of their ids. Gateways and static neighbours
    /// are sent to the workers, and our addresses to the links, with the first poll.
    #[must_use]
    pub fn new(now: Nanos, config: ControlConfig, links: Vec<ControlEnd>) -> Self {
        let neighbours = SharedNeighbours::new(Neighbours::new(config.neighbours, config.interfaces));
        prepare(now, &neighbours, &config.network, &config.static_neighbours);
        let endpoint = Endpoint::new(
            config.n4,
            Arc::clone(&config.network),
            Box::new(neighbours.clone()),
            config.random,
        );
        let workers = Workers::new(links);
        let leases = Leases::new(&config.network, workers.count(), config.has_accelerator);
        let mut control = Self {
            leases,
            endpoint,
            addresses: config.addresses,
            admission: AdmissionQueue::new(AdmissionLimits::default()),
            network: config.network,
            port_links: PortLinks::new(config.ports, config.lags),
            path_mtus: PathMtus::new(config.path_mtu_age, config.path_mtu_least),
            neighbours,
            workers,
            balancer: config.balancer,
            moved: VecDeque::new(),
            inspections: Inspections::default(),
            record_writer: None,
            port_block_log: None,
            session_keeper: None,
            node_export: None,
            own_addresses: VecDeque::new(),
            fixed_neighbours: FixedNeighbours::of(&config.static_neighbours),
            interface_settings: config.interface_settings,
            has_content_counters: config.has_content_counters,
            reconfigurations: Reconfigurations::default(),
        };
        // Before the workers run: none answers for a tentative address.
        control.send_own_addresses(now);
        control
    }

    /// Moves a bucket of sessions to another worker, without losing a packet or a count; the result comes from
    /// [`poll_moved`](Self::poll_moved). One bucket moves at a time.
    ///
    /// # Errors
    /// When the move cannot begin.
    pub fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        self.neighbours.set_time(now);
        self.endpoint.move_bucket(now, bucket, to)
    }

    /// The result of a move, by hand or by the balancer. Old ones are dropped if they are not polled.
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.moved.pop_front()
    }

    /// Ends all associations, in order where the SMFs take part; see [`Endpoint::end`] and [`Endpoint::has_ended`].
    pub fn end(&mut self, now: Nanos) {
        self.neighbours.set_time(now);
        self.endpoint.end(now);
    }

    /// A datagram that reached our address `to`: served now, or, if it asks for a new session, when
    /// [`serve_waiting`](Self::serve_waiting) comes to it.
    pub fn receive(&mut self, now: Nanos, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        self.neighbours.set_time(now);
        self.admission.offer(now, &mut self.endpoint, from, to, datagram);
    }

    /// Serves the request for a new session that has waited longest; false when none waits.
    pub fn serve_waiting(&mut self, now: Nanos) -> bool {
        self.neighbours.set_time(now);
        self.admission.serve(now, &mut self.endpoint)
    }

    /// Records how a turn of the thread went, from which its load is known; see [`AdmissionQueue::note_turn`].
    pub fn note_turn(&mut self, turn: &Turn) {
        self.admission.note_turn(turn);
    }

    /// What waits, for views.
    #[must_use]
    pub fn admission(&self) -> &AdmissionQueue {
        &self.admission
    }

    /// A datagram that reached our address `to`, served now whatever waits.
    pub fn handle_datagram(&mut self, now: Nanos, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        self.neighbours.set_time(now);
        self.endpoint.handle_datagram(now, from, to, datagram);
    }

    /// The host's clock says that `now` is `host_unix` nanoseconds after 1970, read with an uncertainty of `slack`
    /// nanoseconds: the times in reports and records follow it, and never go back. Returns what has changed.
    pub fn follow_wall(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        self.endpoint.follow_wall(now, host_unix, slack)
    }

    /// How many commands each worker was sent, in the order of their ids.
    pub fn commands_sent(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.sent()
    }

    /// Which dates moments have.
    #[must_use]
    pub fn wall(&self) -> &WallClock {
        self.endpoint.sessions().wall()
    }

    /// Takes the workers' events, does what is due at `now` and sends commands. Returns whether there was anything.
    pub fn poll(&mut self, now: Nanos) -> bool {
        let mut busy = self.take_events(now);
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
            busy = true;
        }
        self.note_moves(now);
        self.balance(now);
        busy |= self.lease(now);
        busy |= self.reconfiguration().poll(now);
        busy |= self.send_effects();
        busy |= self.make_records(now);
        if self.session_keeper.is_some() {
            busy |= self.session_keeping(now).poll();
        }
        busy |= self.port_links.poll(now, &mut self.workers, &self.neighbours);
        busy |= self.path_mtus.poll(now, &mut self.workers);
        busy |= self.send_echoes(now);
        busy |= self.send_paths();
        busy |= self.send_neighbours(now);
        busy |= self.send_own_addresses(now);
        self.workers.flush();
        busy
    }

    /// When the next poll has something to do, if no datagram or event comes before.
    #[must_use]
    pub fn poll_timeout(&self, now: Nanos) -> Option<Nanos> {
        let neighbours = self.neighbours.at(now).neighbours.poll_timeout();
        let balancer = self.balancer.as_ref().map(Balancer::poll_timeout);
        let leases = self.leases.poll_timeout();
        let lags = self.port_links.poll_timeout();
        let paths = self.path_mtus.poll_timeout();
        let endpoint = self.endpoint.poll_timeout();
        let reconfiguration = self.reconfigurations.poll_timeout(now);
        [
            endpoint,
            neighbours,
            balancer,
            leases,
            lags,
            paths,
            reconfiguration,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether an answer of a worker is waited for, so that the next poll should come soon.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.endpoint.sessions().count().ops > 0
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.endpoint.poll_transmit()
    }

    /// What has happened on N4; see [`Endpoint::poll_log`].
    pub fn poll_n4_log(&mut self, now: Nanos) -> Option<(LogEvent, u64)> {
        self.endpoint.poll_log(now)
    }

    /// Begins a trace at every worker. Each writes the trace items of its packets into a ring of its own with `room`
    /// items; a dropped consumer ends the trace at its worker.
    #[must_use]
    pub fn trace(&mut self, terms: &TraceTerms, room: usize) -> Vec<Consumer<TraceItem>> {
        self.order_traces(|| trace(*terms, room))
    }

    /// Has every worker copy packets; as with [`trace`](Self::trace), its ring shows when that ends. The copies find
    /// their next hop as long as what is given beside the rings is kept.
    ///
    /// # Errors
    /// Why there is no way for the copies.
    pub fn mirror(
        &mut self,
        terms: &TraceTerms,
        wanted: &MirrorWanted,
    ) -> Result<(Vec<Consumer<TraceItem>>, AdjacencyRef), MirrorFault> {
        let (copies, hold) = wanted.resolve(&self.network, &self.neighbours)?;
        Ok((self.order_traces(|| mirror(*terms, copies.clone())), hold))
    }

    fn order_traces(
        &mut self,
        make: impl Fn() -> (TraceRequest, Consumer<TraceItem>),
    ) -> Vec<Consumer<TraceItem>> {
        let mut rings = Vec::new();
        self.workers.send_all(|| {
            let (order, ring) = make();
            rings.push(ring);
            Command::Trace(Box::new(order))
        });
        rings
    }

    /// Begins to change the configuration to `new`. Whether it took effect comes from
    /// [`poll_reconfigured`](Self::poll_reconfigured): all of it, or nothing.
    ///
    /// These fields are live, in the terms of the configuration file; a change of any other is the caller's to refuse,
    /// and is without effect here:
    ///
    /// - `instances[]`: `routes` (`to`, `via`, `mac`), `dscp`, `mirror`, `hairpin`, `ue_prefixes`, `mss`
    /// - `neighbours`: all; `routers`: all
    /// - `n4`: `peers`, `smfs`, `setup_retry_s`, `setup_retry_most_s`, `release_wait_s`, `t1_ms`, `n1`, `heartbeat_s`,
    ///   `max_associations`, `max_associations_per_address`, `unknown_source_s`, `unverified_percent`,
    ///   `apply_deadline_ms`, `accept_cp_f_teids`, `any_source`, `unknown_instance`
    /// - `gtpu`: `echo` (all, also with or without it), `path_mtu_s`, `path_mtu_least`
    /// - `policers`, `forwarding_policies`, `pools`, `predefined`: all
    ///
    /// Instances and ports keep their number, order and all other fields. What sessions use is not removed: the change
    /// is refused, with the number of sessions (a forwarding policy, a rulebase, a predefined FAR, QER or URR; a pool's
    /// addresses that are held; the prefix of a peer with an association). A policer may always be removed: its
    /// sessions lose it. A route may always be removed: packets that need it are dropped as `no_route`.
    ///
    /// # Errors
    /// What can be said at once. Nothing has changed then.
    pub fn reconfigure(&mut self, now: Nanos, new: &Config) -> Result<(), ReconfigureError> {
        self.neighbours.set_time(now);
        self.reconfiguration().reconfigure(now, new)
    }

    /// What came of a change of the configuration that was begun: it has effect in control, in all workers and in all
    /// sessions; or nothing of it has. [`network`](Self::network) is the one that has effect.
    pub fn poll_reconfigured(&mut self) -> Option<Result<Reconfigured, ReconfigureError>> {
        self.reconfigurations.results.pop_front()
    }

    /// Whether a change of the configuration has begun and not ended.
    #[must_use]
    pub fn is_reconfiguring(&self) -> bool {
        self.reconfigurations.is_busy()
    }

    fn reconfiguration(&mut self) -> Reconfiguration<'_> {
        Reconfiguration {
            endpoint: &mut self.endpoint,
            neighbours: &self.neighbours,
            workers: &mut self.workers,
            leases: &mut self.leases,
            path_mtus: &mut self.path_mtus,
            network: &mut self.network,
            fixed_neighbours: &mut self.fixed_neighbours,
            interface_settings: &self.interface_settings,
            has_content_counters: self.has_content_counters,
            changes: &mut self.reconfigurations,
        }
    }

    /// Enters a neighbour as if it were configured.
    pub fn add_neighbour(&mut self, now: Nanos, instance: InstanceId, address: IpAddr, mac: MacAddr) {
        self.fixed_neighbours.add(instance, address);
        // Without room it has to be asked for like any other.
        let _ = self
            .neighbours
            .at(now)
            .neighbours
            .add_static(instance, address, mac);
    }

    /// The configured world.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The rates of queues before ports, and what each worker has of them.
    #[must_use]
    pub fn egress_shapers(&self) -> Vec<EgressShaper> {
        self.leases.egress_shapers()
    }

    /// Where N4 is reached.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The links of the ports, and the LAGs.
    #[must_use]
    pub fn port_links(&self) -> &PortLinks {
        &self.port_links
    }

    /// The paths to GTP-U peers of which routers said an MTU.
    #[must_use]
    pub fn path_mtus(&self) -> &PathMtus {
        &self.path_mtus
    }

    /// The neighbour table as of the last poll.
    pub fn neighbour_table(&self) -> impl Deref<Target = Table> + '_ {
        self.neighbours.lock()
    }

    /// What sessions have of each pool of public addresses, by its number.
    pub fn nat_status(&mut self, now: Nanos) -> Vec<NatPoolStatus> {
        self.endpoint.nat_status(now)
    }

    /// Asks the worker of a session for its status, with these mappings; [`poll_inspected`](Self::poll_inspected) gives
    /// it, by the number that this returns.
    ///
    /// # Errors
    /// [`InspectError`].
    pub fn inspect(&mut self, seid: Seid, mappings: MappingsWanted) -> Result<u64, InspectError> {
        let found = self.endpoint.sessions().session(seid);
        let session = found.ok_or(InspectError::UnknownSession)?;
        let (session, owner) = (session.index(), self.owner(session.bucket()));
        let question = self.inspections.begin(seid)?;
        self.workers.send(owner, inspect(question, session, mappings));
        Ok(question)
    }

    /// Forgets the inspection with this number: its result is not wanted any more.
    pub fn cancel_inspection(&mut self, number: u64) {
        self.inspections.cancel(number);
    }

    /// A session whose worker has given its status.
    pub fn poll_inspected(&mut self) -> Option<Inspection> {
        self.inspections.poll()
    }

    /// The PFCP endpoint, for views.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Next hops in the neighbour table, for views.
    #[must_use]
    pub fn neighbours(&self, now: Nanos) -> usize {
        self.neighbours.at(now).neighbours.len()
    }

    /// Sessions that are kept beyond the process, and come back from a store, at `now`.
    pub fn session_keeping(&mut self, now: Nanos) -> SessionKeeping<'_> {
        self.neighbours.set_time(now);
        SessionKeeping {
            endpoint: &mut self.endpoint,
            workers: &mut self.workers,
            network: &self.network,
            keeper: &mut self.session_keeper,
            now,
        }
    }

    /// Sessions that go to another process, or come from one, at `now`.
    pub fn session_transfer(&mut self, now: Nanos) -> SessionTransfer<'_> {
        self.neighbours.set_time(now);
        SessionTransfer {
            endpoint: &mut self.endpoint,
            node_export: &mut self.node_export,
            now,
        }
    }

    fn note_moves(&mut self, now: Nanos) {
        while let Some(moved) = self.endpoint.poll_moved() {
            if let (Err(_), Some(balancer)) = (moved.result, &mut self.balancer) {
                balancer.failed(now, moved.to);
            }
            if self.moved.len() >= MOVES_KEPT {
                self.moved.pop_front();
            }
            self.moved.push_back(moved);
        }
    }

    /// Begins a move if the workers' numbers of sessions are too uneven.
    fn balance(&mut self, now: Nanos) {
        let sessions = self.endpoint.sessions();
        let Some(balancer) = self
            .balancer
            .as_mut()
            .filter(|_| sessions.moving_bucket().is_none())
        else {
            return;
        };
        let load = |bucket| Load {
            load: sessions.sessions_in(bucket) as u64,
            owner: sessions.owner(bucket),
        };
        let may_own = |worker, bucket| sessions.may_own(worker, bucket);
        if let Some((bucket, to)) = balancer.poll(now, load, may_own) {
            // It cannot be refused: it is no other move's time, and the worker is another one that may have it.
            let _ = self.move_bucket(now, bucket, to);
        }
    }

    /// Divides the rates that workers keep together among them, and asks them what they need. A worker
    /// has its share before it gets the session that needs it.
    fn lease(&mut self, now: Nanos) -> bool {
        let mut busy = false;
        while let Some(rate) = self.endpoint.poll_shared_rate() {
            self.leases.set(&rate, &mut self.workers);
            busy = true;
        }
        busy | self.leases.poll(now, &mut self.workers)
    }

    fn take_events(&mut self, now: Nanos) -> bool {
        let mut busy = false;
        for place in 0..self.workers.count() {
            for _ in 0..EVENTS_PER_POLL {
                let Some(event) = self.workers.poll_event(place) else {
                    break;
                };
                self.handle_event(now, place, event);
                busy = true;
            }
        }
        busy
    }

    /// Makes records of what has been counted, and of port blocks. Whether there was anything.
    fn make_records(&mut self, now: Nanos) -> bool {
        let (endpoint, network) = (&mut self.endpoint, &self.network);
        let record_writer = self.record_writer.as_mut();
        let is_busy = record_writer.is_some_and(|record_writer| record_writer.poll(now, endpoint, network));
        let log = self.port_block_log.as_mut();
        log.is_some_and(|log| log.poll(now, endpoint, network)) || is_busy
    }

    fn handle_event(&mut self, now: Nanos, worker: usize, event: Event) {
        match event {
            // The retired image is freed here, not on the worker's thread; its next hops are let go.
            Event::Applied {
                op,
                outcome,
                retired: _,
                spent: _,
            } => self.applied(now, op, outcome),
            Event::Fenced { op, outcome } => self.applied(now, op, outcome.map(|()| None)),
            Event::SharedDemand { holder, demand } => self.leases.handle_demand((worker, holder), &demand),
            Event::EgressDemands { demands } => self.leases.handle_egress_demands(worker, &demands),
            Event::Inspected { question, status } => self.inspections.handle_status(question, status),
            Event::Queried { op, outcome } => self.applied(now, op, outcome.map(Some)),
            Event::Neighbour {
                instance,
                address,
                mac,
                message,
            } => {
                let neighbours = &mut self.neighbours.at(now).neighbours;
                neighbours.handle_message(now, instance, address, mac, message);
            }
            Event::Lacp { member, pdu } => self.port_links.handle_lacp(now, member, &pdu),
            Event::Resolve { instance, address } => {
                // A full table has its own count in the worker: the packets wait in vain, or are dropped as
                // `no_neighbour`.
                let _ = self.neighbours.at(now).neighbours.resolve(now, instance, address);
            }
            Event::ErrorIndication { peer, teid } => self.endpoint.handle_error_indication(now, peer, teid),
            Event::TooBig(said) => self.handle_too_big(now, &said),
            Event::DownlinkData {
                session,
                pdr,
                far,
                qfi,
                dscp,
                notifies,
                status,
            } => {
                let data = DownlinkData {
                    pdr,
                    ppi: dscp,
                    qfi,
                    status,
                };
                self.endpoint
                    .handle_downlink_data(now, session, far, notifies, data);
            }
            Event::PortBlockWanted { session } => self.endpoint.handle_port_block_wanted(now, session),
            Event::PortBlockReturned { session, block } => {
                self.endpoint.handle_port_block_returned(now, session, block);
            }
            Event::Inactive { session } => self.inactive(now, session),
            Event::Counted { counts } => self.session_keeping(now).keep_counts(worker, counts),
            Event::AbsentSession { key } => self.session_keeping(now).restore_for(key),
            Event::EndMarker { session, pdr } => self.endpoint.handle_end_marker(now, session, pdr),
            Event::DroppedReached { session, urr } => self.endpoint.handle_dropped_reached(now, session, urr),
            Event::PauseOfCharging { session } => self.endpoint.handle_pause_of_charging(now, session),
            Event::Content { session, usage } => self.endpoint.handle_content_counted(session, usage),
            Event::TraceOver { ring } => drop(ring),
            // The tables of before are freed here.
            Event::Network(_) => self.reconfigurations.confirm(),
            Event::EchoResponse {
                peer,
                local,
                sequence,
            } => self.handle_echo_response(now, peer, local, sequence),
            Event::CounterReached {
                session,
                urr,
                count,
                times,
                reached,
            } => {
                let event = CounterReached {
                    urr,
                    count,
                    times,
                    reached,
                };
                self.endpoint.handle_counter_reached(now, session, event);
            }
        }
    }

    /// A router on the way to a GTP-U peer says how long packets may be.
    fn handle_too_big(&mut self, now: Nanos, said: &TooBig) {
        let sessions = self.endpoint.sessions();
        self.path_mtus
            .handle_too_big(now, said, sessions, &mut self.workers);
    }

    fn handle_echo_response(&mut self, now: Nanos, peer: IpAddr, local: LocalId, sequence: u16) {
        if let Some((_, local)) = self.network.local_addresses().get(usize::from(local.0)) {
            let path = GtpuPath { local: *local, peer };
            self.endpoint.handle_echo_response(now, path, sequence);
        }
    }

    /// A session is inactive, unless its timer has just been removed.
    fn inactive(&mut self, now: Nanos, session: SessionIndex) {
        let known = self.endpoint.sessions().view(session);
        if known.is_some_and(|known| known.rules().inactivity_timer().is_some()) {
            self.endpoint
                .handle_session_event(now, session, SessionEvent::Inactivity);
        }
    }

    fn applied(&mut self, now: Nanos, op: OpId, outcome: Result<Option<UsageSnapshot>, ApplyError>) {
        self.neighbours.set_time(now);
        self.endpoint.handle_applied(now, op, outcome.map_err(fault));
    }

    fn send_effects(&mut self) -> bool {
        let mut busy = false;
        while self.workers.has_room() {
            let Some(effect) = self.endpoint.poll_effect() else {
                break;
            };
            let to = effect.worker();
            let command = command(effect);
            self.workers.send(to, command);
            busy = true;
        }
        busy
    }

    /// The worker of each bucket.
    #[must_use]
    pub fn owners(&self) -> Vec<WorkerId> {
        Bucket::all().map(|bucket| self.owner(bucket)).collect()
    }

    /// The worker that owns a bucket.
    #[must_use]
    pub fn owner(&self, bucket: Bucket) -> WorkerId {
        self.endpoint.sessions().owner(bucket)
    }

    /// Echo Requests go out by the first worker. One that has no way to its peer is not sent: the path is silent. A
    /// path to an address of our own is as alive as we are.
    fn send_echoes(&mut self, now: Nanos) -> bool {
        let mut busy = false;
        while let Some(echo) = self.endpoint.poll_echo() {
            if self.network.local(echo.path.peer).is_some() {
                self.endpoint.handle_echo_response(now, echo.path, echo.sequence);
                busy = true;
                continue;
            }
            let neighbours = &mut self.neighbours.at(now).neighbours;
            let frame = echo::frame(now, &self.network, neighbours, &echo);
            if let Some((port, bytes)) = frame {
                let bytes = bytes.into();
                self.workers.send_first(Command::Transmit { port, bytes });
            }
            busy = true;
        }
        busy
    }

    /// Which GTP-U paths are in use goes to every worker.
    fn send_paths(&mut self) -> bool {
        let mut busy = false;
        while self.workers.has_room()
            && let Some(change) = self.endpoint.poll_path()
        {
            let (GtpuPath { local, peer }, is_used) = match change {
                PathChange::Used(path) => (path, true),
                PathChange::Unused(path) => (path, false),
            };
            self.workers.send_all(|| Command::Path { local, peer, is_used });
            busy = true;
        }
        busy
    }

    /// Which own IPv6 addresses may be used goes to every worker.
    fn send_own_addresses(&mut self, now: Nanos) -> bool {
        let mut busy = false;
        loop {
            let event = self.neighbours.at(now).neighbours.poll_own_address();
            let Some(event) = event else { return busy };
            let is_usable = event.state == OwnAddressState::Preferred;
            let is_change = !(is_usable && event.claimant.is_some());
            if let IpAddr::V6(address) = event.address
                && is_change
            {
                self.workers.send_all(|| Command::OwnAddress {
                    instance: event.instance,
                    address,
                    is_usable,
                });
            }
            if self.own_addresses.len() >= OWN_ADDRESS_EVENTS_KEPT {
                self.own_addresses.pop_front();
            }
            self.own_addresses.push_back(event);
            busy = true;
        }
    }

    /// The next change of an own address, for the log. Old ones are forgotten if they are not polled.
    pub fn poll_own_address(&mut self) -> Option<OwnAddressEvent> {
        self.own_addresses.pop_front()
    }

    /// Neighbour changes go to every worker, frames of our own out by the first.
    fn send_neighbours(&mut self, now: Nanos) -> bool {
        let mut table = self.neighbours.at(now);
        let neighbours = &mut table.neighbours;
        neighbours.handle_timeout(now);
        let mut busy = false;
        while let Some(change) = neighbours.poll_change() {
            self.workers.send_all(|| Command::Adjacency(change));
            busy = true;
        }
        while let Some(frame) = neighbours.poll_transmit() {
            self.workers.send_first(Command::Transmit {
                port: frame.port,
                bytes: frame.bytes.into(),
            });
            busy = true;
        }
        busy
    }
}
