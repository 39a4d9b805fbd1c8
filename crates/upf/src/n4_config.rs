//! What of the configuration the PFCP endpoint is made with.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, EchoConfig, UnknownInstance};
use worker::WorkerConfig;

/// One worker's share of a total, with a quarter and 64 on top where there are several.
pub(super) fn share(total: usize, workers: usize) -> usize {
    if workers == 1 {
        total
    } else {
        (total / workers * 5 / 4 + 64).min(total)
    }
}

/// Worker selection exceptions that there is room for: one for each session; and where slices have workers of their
/// own, so that a UE address which an SMF chooses may be in a bucket of others, one more.
pub(super) fn exceptions(config: &Config) -> usize {
    let sessions = config.limits.sessions.size();
    match config.slices.is_empty() {
        true => sessions,
        false => 2 * sessions,
    }
}

/// What the PFCP endpoint is made with.
pub(super) fn n4_config(config: &Config, clock_unix: u64) -> n4::Config {
    let mut made = n4::Config::new(config.node.id.0.clone(), config.workers.count.value() as u16);
    made.recovery_unix = clock_unix;
    made.clock_unix = clock_unix;
    made.t1 = config.n4.t1();
    // The configuration counts every sending, the endpoint those after the first.
    made.n1 = config.n4.n1.value() as u32 - 1;
    made.max_associations = config.n4.max_associations.size();
    made.max_associations_per_address = config.n4.max_associations_per_address.size();
    made.response_cache_octets = config.n4.response_cache();
    made.inspects = config.inspects();
    made.applications = config.applications();
    made.unknown_rate = config.n4.unknown_source_s.value() as u32;
    made.unverified_percent = config.n4.unverified_percent.value() as u8;
    made.smfs = config.n4.smfs().collect();
    made.setup_retry = Duration::from_secs(config.n4.setup_retry_s.value());
    made.setup_retry_most = Duration::from_secs(config.n4.setup_retry_most_s.value());
    made.release_wait = Duration::from_secs(config.n4.release_wait_s.value());
    made.heartbeat_interval = Some(Duration::from_secs(config.n4.heartbeat_s.value()));
    made.paths = config.gtpu.echo.as_ref().map(EchoConfig::supervision);
    made.any_source = config.n4.any_source;
    let peers = config.n4.peers.iter();
    made.peers = peers.filter_map(|peers| peers.value.peers()).collect();
    made.unknown_instance = match config.n4.unknown_instance {
        UnknownInstance::Refuse => n4::UnknownInstance::Refuse,
        UnknownInstance::Default => n4::UnknownInstance::Default,
    };
    made.sessions.max_sessions = config.limits.sessions.value() as u32;
    made.sessions.max_correlations = config.limits.correlations.value() as u16;
    let own = share(config.limits.sessions.size(), config.workers.count.size());
    made.sessions.worker_tunnels = WorkerConfig::tunnels(own);
    made.sessions.exceptions = exceptions(config);
    made.sessions.slice_workers = config.slice_workers();
    made.sessions.worker_addresses = WorkerConfig::addresses(own);
    made.sessions.association_percent = config.n4.association_share_percent.value() as u8;
    made.sessions.deadline = Duration::from_millis(config.n4.apply_deadline_ms.value());
    made.sessions.port_block_log = config.nat.log.is_some();
    made.sessions.port_block_quarantine = config.port_block_quarantine();
    made.sessions.traffic_silence = Duration::from_secs(config.n4.traffic_silence_s.value());
    made.sessions.accept_cp_f_teids = config.n4.accept_cp_f_teids;
    made.sessions.restoration = config.gtpu.restoration();
    made.sessions.pools = config.session_pools();
    made.sessions.usage_records = config.records.is_some();
    made.sessions.predefined = Arc::new(config.predefined());
    made
}
