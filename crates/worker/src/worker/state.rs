//! The state of a worker, by the parts of the packet path that it belongs to.

use core::ops::Range;

use flow::contract::Backend;
use flow::slab::OutOfMemory;
use flow::{ContentTotal, Nanos, PortId, SessionGroupTotal, SessionIndex};
use rtrb::Consumer;
use transport::Adjacencies;

use crate::access_counts::{AccessCount, AccessCounts};
use crate::apply_rules::context::ApplyRulesState;
use crate::apply_rules::ran_congestion::RanCongestion;
use crate::burst::Burst;
use crate::control_channel::drain::Drains;
use crate::control_channel::event_queue::EventQueue;
use crate::deferred::queues::Deferred;
use crate::deferred::tunnel_signals::TunnelSignals;
use crate::egress::checksum_offload::ChecksumOffload;
use crate::egress::copies::Copies;
use crate::egress::forwarding::ForwardingTables;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::lags::Lags;
use crate::egress::network_tables::{InterfaceSettings, NetworkTables};
use crate::egress::path_mtus::PathMtus;
use crate::egress::ports::Ports;
use crate::egress::tx_queues::TxQueues;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::new_flow_filter::NewFlowFilter;
use crate::ingress::queue_choice::queue_program;
use crate::ingress::rx_backlog::RxBacklog;
use crate::ingress::worker_selection::WorkerSelection;
use crate::io::{Asked, Io};
use crate::local::limits::LocalLimits;
use crate::lookup::flow_tables::{FlowCapacity, Flows};
use crate::nat::NatStage;
use crate::offload::state::Offload;
use crate::sessions::Sessions;
use crate::sessions::checkpoints::Checkpoints;
use crate::slow_path::SlowPath;
use crate::slow_path::deficit_round_robin::HashedRoundRobin;
use crate::stats::Stats;
use crate::trace::tracer::Tracer;
use crate::view::{AcceleratorView, EgressCounts, Holdings, NatCounts, SessionView};
use crate::{Command, OffloadStats, WorkerConfig, WorkerEnd};

/// One worker: everything that the packet path needs, owned by one thread.
pub struct Worker<I: Io> {
    pub(super) config: WorkerConfig,
    pub(super) stats: Stats,
    /// What rules of access lists have decided.
    pub(super) access: AccessCounts,
    pub(super) burst: Burst<I::Buf>,
    /// Packets received that wait for a later burst.
    pub(super) backlog: RxBacklog<I::Buf>,
    pub(super) new_flow_filter: NewFlowFilter,
    pub(super) worker_selection: WorkerSelection,
    /// A worker selection exception has found no room since the last fence.
    pub(super) exceptions_lost: bool,
    pub(super) local: LocalLimits,
    pub(super) sessions: Sessions,
    pub(super) flows: Flows,
    pub(super) slow_path: SlowPath,
    /// Where the network has pools of public addresses.
    pub(super) nat: Option<Box<NatStage>>,
    pub(super) apply_rules: ApplyRulesState,
    /// The QoS flows that are marked on behalf of the RAN.
    pub(super) ran_congestion: RanCongestion,
    pub(super) tables: ForwardingTables,
    pub(super) copies: Copies<I::Buf>,
    pub(super) fragmenter: Fragmenter<I::Buf>,
    pub(super) ports: Ports<I>,
    pub(super) deferred: Deferred<I::Buf>,
    /// Messages of our own that wait for next hops.
    pub(super) signals: TunnelSignals,
    pub(super) commands: Consumer<Command>,
    pub(super) events: EventQueue,
    pub(super) drains: Drains,
    /// Trace requests, if there are any.
    pub(super) tracer: Option<Box<Tracer>>,
    /// What the accelerator asks about the packets of the burst.
    pub(super) asked: Vec<Asked>,
    /// The number of the next trace request.
    pub(super) next_trace: u64,
    /// Which counts control has, if it is to have any by itself.
    pub(super) checkpoints: Option<Box<Checkpoints>>,
    /// When content counters are reported again.
    pub(super) contents_due: Nanos,
    /// Where an accelerator passes sessions.
    pub(super) offload: Option<Box<Offload>>,
}

/// Has the ports sort urgent packets out that can.
fn choose_queues<I: Io>(io: &mut I, interfaces: &L3Interfaces, config: &WorkerConfig) {
    for port in (0..io.ports()).map(|port| PortId(port as u16)) {
        let workers = if io.is_placed_by_port(port) {
            1
        } else {
            config.workers
        };
        let program = queue_program(interfaces, (port, &config.lags), workers);
        io.choose_queues(port, &program);
    }
}

/// The large tables of a worker, which take the most time to be made and need nothing but their sizes: they can be made
/// before there are ports. A thread that runs on the worker's core gets their memory on the NUMA node of that core.
pub struct WorkerTables {
    sessions: Sessions,
    flows: Flows,
}

impl WorkerTables {
    /// The tables of a worker that is to be made with `config`, of which ports and network are not looked at.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(config: &WorkerConfig) -> Result<Self, OutOfMemory> {
        let flows = FlowCapacity {
            v4: config.max_flows_v4,
            v6: config.max_flows_v6,
        };
        Ok(Self {
            sessions: Sessions::new(config.max_sessions, config.own_sessions, config.content_counters)?,
            flows: Flows::new(flows, config.seed)?,
        })
    }
}

impl<I: Io> Worker<I> {
    /// A worker with no sessions. All of its memory is allocated and touched here: a thread that runs on the worker's
    /// core gets it on the NUMA node of that core.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: WorkerConfig, io: I, channel: WorkerEnd) -> Result<Self, OutOfMemory> {
        let tables = WorkerTables::new(&config)?;
        Self::with_tables(config, tables, io, channel)
    }

    /// The same, with tables that were made for `config` before.
    ///
    /// # Errors
    /// When the memory of its other tables cannot be had.
    pub fn with_tables(
        config: WorkerConfig,
        tables: WorkerTables,
        mut io: I,
        channel: WorkerEnd,
    ) -> Result<Self, OutOfMemory> {
        let WorkerTables { mut sessions, flows } = tables;
        let exceptions = match config.workers {
            0 | 1 => 0,
            _ => config.max_exceptions,
        };
        let port_blocks = match config.workers {
            0 | 1 => 0,
            _ => config.network.nat().pools().blocks(),
        };
        let (ports, own_ports) = (io.ports(), io.ports_of_its_own());
        let NetworkTables {
            interfaces,
            routes,
            access,
            ..
        } = NetworkTables::new(&config.network, &InterfaceSettings::of(&config));
        choose_queues(&mut io, &interfaces, &config);
        sessions.keep_blocks(config.offload.is_some());
        if config.checkpoint_interval.is_some() {
            sessions.blocks.look_every(config.checkpoint_octets);
        }
        Ok(Self {
            stats: Stats::new(ports),
            access,
            burst: Burst::new(),
            backlog: RxBacklog::new(ports, config.backlog, interfaces.urgent_dscps != 0),
            new_flow_filter: NewFlowFilter::new(HashedRoundRobin::new(config.seed)),
            worker_selection: WorkerSelection::new(config.workers, exceptions, port_blocks),
            exceptions_lost: false,
            local: LocalLimits::new(&config, ports),
            flows,
            slow_path: SlowPath::new(&config)?,
            nat: NatStage::new(&config)?,
            ran_congestion: RanCongestion::new(config.ran_congestion_age),
            apply_rules: ApplyRulesState::new(
                (config.shared_meters, &config.network),
                config.relays,
                ChecksumOffload::new(&io, &config.lags),
            ),
            tables: ForwardingTables {
                interfaces,
                adjacencies: Adjacencies::new(config.max_adjacencies, config.network.group_room()),
                routes,
                path_mtus: PathMtus::new(),
            },
            copies: Copies::new(),
            fragmenter: Fragmenter::new(config.id, config.workers),
            ports: Ports {
                tx: TxQueues::new(ports, config.workers.into()).with_lags(&config.lags),
                lags: Lags::new(ports, &config.lags),
                io,
            },
            deferred: Deferred::new(&config, ports)?,
            signals: TunnelSignals::new(),
            commands: channel.commands,
            events: EventQueue::new(channel.events, config.max_sessions),
            drains: Drains::new(),
            tracer: None,
            asked: Vec::new(),
            next_trace: 0,
            checkpoints: Checkpoints::new(&config, &sessions),
            sessions,
            contents_due: Nanos::ZERO,
            offload: config.offload.clone().map(|policy| {
                Box::new(Offload::new(
                    config.max_sessions,
                    (policy, config.workers),
                    (own_ports, &config.macs, config.max_adjacencies),
                    config.network.policers(),
                ))
            }),
            config,
        })
    }

    /// The addresses of the flow tables and of the session blocks.
    pub fn table_areas(&self) -> Vec<Range<usize>> {
        let mut areas = self.flows.areas();
        areas.extend(self.sessions.blocks.areas());
        areas
    }

    /// What it has counted since its start.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Events that it has pushed to Control.
    pub fn events_pushed(&self) -> u64 {
        self.events.pushed()
    }

    /// Changes how many packets of each port may wait when more arrive than can be processed, up to
    /// [`WorkerConfig::backlog`]; 0: none.
    pub fn set_backlog(&mut self, packets: usize) {
        self.backlog.limit(packets.min(self.config.backlog));
    }

    /// Flow entries in its tables.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Sessions that it owns.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The sessions that it owns, for views, in the order of their indexes.
    pub fn session_views(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.iter().map(|slot| SessionView::new(&slot.image))
    }

    /// What it holds now.
    pub fn holdings(&self) -> Holdings {
        let (tunnels, addresses) = self.sessions.keys();
        let (ndpi_flows, ndpi_octets) = self.slow_path.inspection.ndpi_holdings();
        Holdings {
            sessions: self.sessions.len(),
            blocks: self.sessions.blocks.in_use(),
            tunnels,
            addresses,
            exceptions: self.worker_selection.exceptions(),
            queues: self.deferred.buffers.queues(),
            waiting: self.deferred.len(),
            contents: self.sessions.blocks.contents_in_use(),
            flows: self.flows.len(),
            inspected: self.slow_path.inspection.undecided(),
            connections: self.slow_path.connections.len(),
            resolved_addresses: self.slow_path.inspection.addresses(),
            ndpi_flows,
            ndpi_octets,
        }
    }

    /// What each rule of the access lists has decided here, by the rule's number.
    pub fn access_counts(&self) -> &[AccessCount] {
        self.access.all()
    }

    /// What it has counted of each content, by its number.
    pub fn content_totals(&self) -> &[ContentTotal] {
        self.sessions.blocks.content_totals()
    }

    /// What it has forwarded of each session group, by its number.
    pub fn group_totals(&self) -> &[SessionGroupTotal] {
        self.sessions.blocks.groups().all()
    }

    /// What was counted of sessions that an accelerator passes; zeros without one.
    pub fn offload_stats(&self) -> OffloadStats {
        let Some(offload) = &self.offload else {
            return OffloadStats::default();
        };
        OffloadStats {
            network_refused: offload.network.refused(),
            ..offload.homes.stats()
        }
    }

    /// What it has given to other workers beside packets that it has handed over, since its start.
    pub fn passed_on(&self) -> u64 {
        self.ports.io.passed_on()
    }

    /// The accelerator behind which some of its ports are, if there is one.
    pub fn accelerator_view(&self) -> Option<AcceleratorView> {
        let (host, port) = self.ports.io.accelerator_state()?;
        let channel = host.channel();
        Some(AcceleratorView {
            is_ready: host.is_ready(),
            is_partial: self
                .offload
                .as_ref()
                .is_some_and(|offload| offload.homes.is_partial()),
            mac: channel.peer_mac(),
            links_down: host.links_down(),
            capabilities: host.is_ready().then(|| host.capabilities()),
            outstanding: host.outstanding(),
            load: channel.load(),
            offload: self.offload_stats(),
            port: *port,
            in_band: *host.stats(),
            channel: *channel.stats(),
        })
    }

    /// What CG-NAT has counted here, and holds.
    pub fn nat_counts(&self) -> NatCounts {
        self.nat
            .as_ref()
            .map_or_else(NatCounts::default, |nat| nat.counts())
    }

    /// What waits in queues before ports, and what became of packets there.
    pub fn egress_counts(&self) -> EgressCounts {
        let queueing = self.deferred.queueing.as_ref();
        let away = self
            .offload
            .as_ref()
            .map_or(0, |offload| offload.homes.queues_away());
        queueing.map_or_else(EgressCounts::default, |queueing| EgressCounts {
            away,
            ..queueing.counts()
        })
    }

    /// Its packet I/O.
    pub fn io_mut(&mut self) -> &mut I {
        &mut self.ports.io
    }

    /// Flow entries that a session has; `None` without such a session.
    pub fn flows_of(&self, session: SessionIndex) -> Option<usize> {
        Some(self.sessions.at(session)?.account.flows as usize)
    }

    /// Flow entries that no packet can use any more, because their sessions changed or went.
    pub fn dead_flows(&self) -> usize {
        self.flows.dead()
    }
}
