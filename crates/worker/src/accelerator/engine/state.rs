//! What an engine holds, and what of it is dropped or is of no use any more.

use flow::slab::OutOfMemory;
use flow::{Blocks, Tick};
use rtrb::Consumer;
use transport::Adjacencies;

use crate::accelerator::aside::Aside;
use crate::accelerator::asking::{Asking, AskingLimits};
use crate::accelerator::config::{EngineConfig, PartialMode};
use crate::accelerator::exceptions::Exceptions;
use crate::accelerator::flow_accounts::FlowCounts;
use crate::accelerator::queues::EngineQueues;
use crate::accelerator::settling::{Settling, SettlingLimits};
use crate::access_counts::AccessCounts;
use crate::apply_rules::context::ApplyRulesState;
use crate::burst::Burst;
use crate::burst::batch::Batch;
use crate::control_channel::event_queue::EventQueue;
use crate::deferred::packet_store::{Deferrals, Rejected};
use crate::egress::checksum_offload::ChecksumOffload;
use crate::egress::copies::Copies;
use crate::egress::forwarding::ForwardingTables;
use crate::egress::fragmentation::Fragmenter;
use crate::egress::lags::Lags;
use crate::egress::network_tables::NetworkTables;
use crate::egress::path_mtus::PathMtus;
use crate::egress::ports::Ports;
use crate::egress::tx_queues::TxQueues;
use crate::io::Io;
use crate::lookup::flow_tables::{FlowCapacity, Flows};
use crate::stats::{PortStats, Stats};
use crate::{Event, PacketRates};

/// Events that stages push: they are the host's to cause, which sees the packet as an exception.
const UNHEARD: usize = 64;

/// What packets need to leave, of an engine.
macro_rules! exit {
    ($engine:expr) => {
        Exit {
            io: &mut $engine.ports.io,
            tx: &mut $engine.ports.tx,
            lags: &$engine.ports.lags,
            stats: &mut $engine.stats,
            blocks: &mut $engine.blocks,
            fragmenter: &mut $engine.fragmenter,
        }
    };
}
pub(in crate::accelerator) use exit;

/// An accelerator's fast path: what it holds, and its ports.
pub struct Engine<I: Io> {
    pub(in crate::accelerator) config: EngineConfig,
    pub(in crate::accelerator) stats: Stats,
    pub(super) access: AccessCounts,
    pub(super) burst: Burst<I::Buf>,
    /// What becomes of user packets in partial mode; `None` in full mode.
    pub(in crate::accelerator) partial: Option<PartialMode>,
    /// What the host gave back and is not passed through the stages yet.
    pub(super) reinjected: Batch<I::Buf>,
    pub(in crate::accelerator) blocks: Blocks,
    pub(in crate::accelerator) flows: Flows,
    pub(in crate::accelerator) flow_counts: FlowCounts,
    pub(in crate::accelerator) apply_rules: ApplyRulesState,
    pub(in crate::accelerator) tables: ForwardingTables,
    pub(super) copies: Copies<I::Buf>,
    pub(in crate::accelerator) fragmenter: Fragmenter<I::Buf>,
    pub(in crate::accelerator) ports: Ports<I>,
    pub(in crate::accelerator) aside: Aside<I::Buf>,
    /// Which sessions have counters that have reached something, is all that is taken of it.
    pub(super) events: EventQueue,
    pub(super) unheard: Consumer<Event>,
    pub(super) tcp_transitory: u16,
    pub(super) host: PortStats,
}

impl<I: Io> Engine<I> {
    /// An engine that holds nothing. All of its memory is allocated here.
    ///
    /// # Errors
    /// When the memory of the tables cannot be had.
    pub fn new(config: EngineConfig, io: I) -> Result<Self, OutOfMemory> {
        let ports = io.ports();
        let NetworkTables {
            interfaces,
            routes,
            access,
            ..
        } = NetworkTables::new(&config.network, &config.interfaces());
        let capacity = FlowCapacity {
            v4: config.max_flows_v4,
            v6: config.max_flows_v6,
        };
        let (events, unheard) = rtrb::RingBuffer::new(UNHEARD);
        Ok(Self {
            stats: Stats::new(ports),
            access,
            burst: Burst::new(),
            partial: None,
            reinjected: Batch::new(),
            // Sessions bring the counter of all that is forwarded of them.
            blocks: Blocks::new(config.max_sessions, Blocks::TYPICAL_LINES_WITH_COUNTER)?
                .with_contents(config.max_sessions, config.content_counters)?,
            flows: Flows::new(capacity, config.seed)?,
            flow_counts: FlowCounts::new(config.max_sessions, [config.max_flows_v4, config.max_flows_v6]),
            apply_rules: ApplyRulesState::new(
                (config.shared_meters, &config.network),
                PacketRates::new(0, 0),
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
                tx: TxQueues::new(ports, 0).with_lags(&config.lags),
                lags: Lags::new(ports, &config.lags),
                io,
            },
            aside: Aside {
                exceptions: Exceptions::new(config.max_exceptions, config.most_at_once()),
                settling: Settling::new(SettlingLimits {
                    flows: config.max_settling,
                    packets: config.held_packets,
                    packets_per_flow: config.held_packets_per_flow,
                    time: config.settling_time,
                }),
                asking: Asking::new(AskingLimits {
                    keys: config.max_asking,
                    packets: config.asked_packets,
                    packets_per_key: config.asked_packets_per_key,
                    time: config.asking_time,
                    ports: (ports, config.host_port),
                }),
                is_answering: false,
                excepted: Vec::with_capacity(2 * crate::BURST),
                buckets: [None; crate::BURST],
                queues: match &config.queues {
                    Some(limits) => Some(Box::new(EngineQueues::new(limits, ports, config.max_sessions)?)),
                    None => None,
                },
                is_from_host: false,
            },
            events: EventQueue::new(events, config.max_sessions),
            unheard,
            tcp_transitory: Tick::idle(config.tcp_transitory),
            host: PortStats::default(),
            config,
        })
    }

    /// A flow that settles is of no use: what is held of it goes to the host.
    pub(in crate::accelerator) fn give_up(&mut self, slot: u32) {
        // What was held came from the wire.
        let is_from_host = std::mem::take(&mut self.aside.is_from_host);
        self.aside.except_held(slot, &mut self.stats);
        self.aside.settling.take(slot);
        self.drop_rejected();
        self.aside.is_from_host = is_from_host;
    }

    /// Drops exceptions that found no room.
    pub(in crate::accelerator) fn drop_rejected(&mut self) {
        while let Some(Rejected { packet, reason }) = self.aside.take_rejected() {
            self.ports.drop(&mut self.stats, packet, reason);
        }
    }

    /// Drops what was lost in queues, and takes back what it has counted.
    pub(in crate::accelerator) fn drop_lost_in_queues(&mut self) {
        let Some(queues) = &mut self.aside.queues else {
            return;
        };
        while queues.queueing.has_lost()
            && let Some(lost) = queues.queueing.take_lost()
        {
            lost.charge.credit_back_waiting(&mut self.blocks);
            self.ports.drop(&mut self.stats, lost.packet, lost.reason);
        }
    }

    /// Packets that wait.
    pub(in crate::accelerator) fn queued(&self) -> usize {
        let queues = self.aside.queues.as_ref();
        queues.map_or(0, |queues| queues.queueing.len())
    }
}
