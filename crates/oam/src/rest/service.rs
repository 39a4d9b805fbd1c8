//! Where answers come from.

use std::sync::{Arc, Mutex};

use flow::{ContentTotal, SessionGroupTotal};
use worker::{AcceleratorView, AccessCount, EgressCounts, Holdings, MAX_TRACES, NatCounts, Stats};

use super::Auditor;
use super::alarm_stream::MOST_STREAMS;
use super::configuration::ConfigurationService;
use super::explainer_cell::ExplainerCell;
use super::live::{LISTENERS, LiveFeed};
use super::query::QueryClient;
use super::stream_places::StreamPlaces;
use crate::LogControl;
use crate::alarms::SharedAlarms;
use crate::configuration::Configuration;
use crate::metrics::{LoadWindow, PacketBuffers};
use crate::tokens::TokenStore;
use crate::values::{HostLink, RecordsStatus, StoreStatus, WorkerMemory};
use ::trace::Explainer;

/// Reads what another thread publishes, as of now.
pub type Reader<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// What metrics show of workers beside what they count.
#[derive(Clone)]
pub struct WorkerGauges {
    /// What each holds.
    pub holdings: Reader<Vec<Holdings>>,
    /// What the rules of access lists have decided in each, by their numbers.
    pub access_counts: Reader<Vec<Vec<AccessCount>>>,
    /// What each has counted of contents, by their numbers.
    pub content_totals: Reader<Vec<Vec<ContentTotal>>>,
    /// What each has forwarded of session groups, by their numbers.
    pub group_totals: Reader<Vec<Vec<SessionGroupTotal>>>,
    /// What CG-NAT has counted in each.
    pub nat_counts: Reader<Vec<NatCounts>>,
    /// What the queues of each hold, and what became of packets there.
    pub egress: Reader<Vec<EgressCounts>>,
    /// The accelerator of each, if it has one.
    pub accelerators: Reader<Vec<Option<AcceleratorView>>>,
    /// The packet buffers of each.
    pub buffers: Reader<Vec<PacketBuffers>>,
    /// Ticks of the processor's clock in a second.
    pub ticks_per_second: u64,
    /// Flow entries that each has room for.
    pub flow_entries_limit: u64,
}

/// Where answers come from.
#[derive(Clone)]
pub struct Service {
    pub(super) client: QueryClient,
    pub(super) workers: Reader<Vec<Stats>>,
    pub(super) records: Option<Reader<RecordsStatus>>,
    pub(super) store: Option<Reader<StoreStatus>>,
    pub(super) hosts: Option<Reader<Vec<HostLink>>>,
    /// By worker, as it was found at the start.
    pub(super) memory: Arc<[WorkerMemory]>,
    pub(super) explainer: Option<ExplainerCell>,
    pub(super) configuration: Option<ConfigurationService>,
    pub(super) log: Option<LogControl>,
    pub(super) tokens: Option<Arc<TokenStore>>,
    pub(super) auditor: Option<Auditor>,
    pub(super) alarms: SharedAlarms,
    /// Streams of alarm events that may begin.
    pub(super) event_streams: StreamPlaces,
    pub(super) gauges: Option<WorkerGauges>,
    pub(super) load: Arc<Mutex<LoadWindow>>,
    /// Traces that may begin.
    pub(super) traces: StreamPlaces,
    pub(super) live: LiveFeed,
    /// Listeners of it that may begin.
    pub(super) live_streams: StreamPlaces,
}

impl Service {
    /// Answers of Control at the far end of `client`, and of what `workers` publish.
    #[must_use]
    pub fn new(client: QueryClient, workers: Reader<Vec<Stats>>) -> Self {
        Self {
            client,
            workers,
            records: None,
            store: None,
            hosts: None,
            memory: Arc::default(),
            explainer: None,
            configuration: None,
            log: None,
            tokens: None,
            auditor: None,
            alarms: SharedAlarms::default(),
            event_streams: StreamPlaces::new(MOST_STREAMS, MOST_STREAMS / 4),
            gauges: None,
            load: Arc::default(),
            // An operator may trace and mirror at a time, and another one, too.
            traces: StreamPlaces::new(MAX_TRACES, MAX_TRACES / 2),
            live: LiveFeed::default(),
            live_streams: StreamPlaces::new(LISTENERS, LISTENERS / 4),
        }
    }

    /// The same, with the interfaces of the host's own network stack.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Reader<Vec<HostLink>>) -> Self {
        self.hosts = Some(hosts);
        self
    }

    /// The same, with the alarms of control's thread.
    #[must_use]
    pub fn with_alarms(mut self, alarms: SharedAlarms) -> Self {
        self.alarms = alarms;
        self
    }

    /// The same, with what metrics show of workers.
    #[must_use]
    pub fn with_gauges(mut self, gauges: WorkerGauges) -> Self {
        self.gauges = Some(gauges);
        self
    }

    /// The same, with where the workers' memory is.
    #[must_use]
    pub fn with_memory(mut self, memory: Vec<WorkerMemory>) -> Self {
        self.memory = memory.into();
        self
    }

    /// The same, with what there is to say of usage records.
    #[must_use]
    pub fn with_records(mut self, records: Option<Reader<RecordsStatus>>) -> Self {
        self.records = records;
        self
    }

    /// The same, with what there is to say of the store of sessions.
    #[must_use]
    pub fn with_store(mut self, store: Option<Reader<StoreStatus>>) -> Self {
        self.store = store;
        self
    }

    /// The same, with what says how much is logged.
    #[must_use]
    pub fn with_log(mut self, log: LogControl) -> Self {
        self.log = Some(log);
        self
    }

    /// The same, with what writes the audit log.
    #[must_use]
    pub fn with_auditor(mut self, auditor: Option<Auditor>) -> Self {
        self.auditor = auditor;
        self
    }

    /// The same, with the tokens of callers over TLS.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Option<Arc<TokenStore>>) -> Self {
        self.tokens = tokens;
        self
    }

    /// The same, with who explains packets.
    #[must_use]
    pub fn with_explainer(mut self, explainer: Explainer) -> Self {
        self.explainer = Some(ExplainerCell::new(explainer));
        self
    }

    /// The same, with the configuration that may change. To be said last: what changes with it is what was said before.
    #[must_use]
    pub fn with_configuration(mut self, configuration: Configuration) -> Self {
        self.configuration = Some(ConfigurationService::new(
            configuration,
            self.client.clone(),
            self.log.clone(),
            self.explainer.clone(),
        ));
        self
    }
}
