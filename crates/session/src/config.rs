//! The configuration of [`Sessions`](crate::Sessions), and the network that rules are compiled for.

use flow::{BUCKETS, Bucket, WorkerId};
use rules::Adjacencies;
use rules::Predefined;
use rules::compile::{Previous, compile, compile_after};
use rules::image::SessionImage;
use rules::model::SessionRules;
use rules::network::Network;
use std::sync::Arc;
use std::time::Duration;

use crate::live_session::Live;
use crate::pools::Pool;
use crate::refusal::Refusal;
use crate::slice_workers::SliceWorkers;

/// What sessions are allowed and how long things take.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sessions at most.
    pub max_sessions: u32,
    /// How many workers there are, from number 0.
    pub workers: u16,
    /// The worker of each bucket at the start: 512 entries, each below `workers`.
    pub owners: Vec<WorkerId>,
    /// Slices that have workers of their own. Default: none.
    pub slice_workers: SliceWorkers,
    /// How long a released TEID is not given to another session.
    pub quarantine: Duration,
    /// How long a request may take, from its arrival, before it is refused and undone.
    pub deadline: Duration,
    /// How long a bucket may take to another worker before it is brought back.
    pub move_deadline: Duration,
    /// Whether the control plane may choose F-TEIDs (TS 29.244 §5.5.1 says no; many SMFs do).
    pub accept_cp_f_teids: bool,
    /// For how long after the start (moment 0) an establishment may name F-TEIDs that we may have given before it,
    /// without the indication that it restores a session (TS 23.527 §4.3.2). Default 0: never.
    pub restoration: Duration,
    /// Whether a CHOOSE ID means the same F-TEID in all messages of a session, not in one message only.
    pub choose_id_spans_session: bool,
    /// Tunnels that each worker has room for.
    pub worker_tunnels: usize,
    /// UE addresses, of IPv4 and of IPv6 each, that each worker has room for.
    pub worker_addresses: usize,
    /// Worker selection exceptions that workers have room for: tunnels and UE addresses that are not in their session's
    /// bucket, because control planes chose them or because they are second addresses.
    pub exceptions: usize,
    /// How much of these, and of the sessions, one association may take while there are others, 0 to 100 per cent;
    /// alone, it may take all.
    pub association_percent: u8,
    /// Where UE addresses are given from (TS 29.244 §5.21.3).
    pub pools: Vec<Pool>,
    /// How long a port block that a session has given back is not given to another (RFC 6888 REQ-8).
    pub port_block_quarantine: Duration,
    /// Whether there is an event for each port block that a session gets or gives back
    /// ([`poll_port_block_event`](crate::Sessions::poll_port_block_event)), which the caller must empty then.
    pub port_block_log: bool,
    /// What sessions may activate by name and by number.
    pub predefined: Arc<Predefined>,
    /// Correlations that QERs of several sessions may have at a time; 0: none. Default 1,024.
    pub max_correlations: u16,
    /// Room for waiting requests of one session, beside the one in progress.
    pub max_waiting: usize,
    /// Whether usage reports and ends of sessions make entries for usage records
    /// ([`poll_usage_record_entry`](crate::Sessions::poll_usage_record_entry)), which the caller must empty then.
    pub usage_records: bool,
    /// Seconds since 1970 when the clock that time is given by was 0, as far as the host's clock was right then; what
    /// it turns out to be: [`Sessions::follow_wall`](crate::Sessions::follow_wall).
    pub clock_unix: u64,
    /// How long no packet comes where traffic has stopped (STOPT, TS 29.244 §5.4.11), in whole seconds, at least one.
    /// Default 60 s.
    pub traffic_silence: Duration,
}

impl Config {
    /// For `workers` workers (at least 1) that share the buckets evenly.
    pub fn for_workers(workers: u16) -> Config {
        let workers = workers.max(1);
        Config {
            max_sessions: 1_000_000,
            worker_tunnels: 2_000_064,
            worker_addresses: 1_250_064,
            exceptions: 1_000_000,
            association_percent: 50,
            workers,
            owners: (0..BUCKETS)
                .map(|bucket| WorkerId((bucket % usize::from(workers)) as u16))
                .collect(),
            slice_workers: SliceWorkers::default(),
            quarantine: Duration::from_secs(60),
            deadline: Duration::from_secs(1),
            move_deadline: Duration::from_secs(5),
            accept_cp_f_teids: false,
            restoration: Duration::ZERO,
            choose_id_spans_session: true,
            pools: Vec::new(),
            port_block_quarantine: nat::blocks::QUARANTINE,
            port_block_log: false,
            predefined: Arc::default(),
            max_correlations: 1_024,
            max_waiting: 8,
            usage_records: false,
            clock_unix: 0,
            traffic_silence: Duration::from_secs(60),
        }
    }

    /// The worker that owns `bucket`.
    pub fn owner(&self, bucket: Bucket) -> WorkerId {
        self.owners.get(bucket.index()).copied().unwrap_or_default()
    }
}

/// The network that rules are compiled for.
pub(crate) struct Environment {
    pub(crate) network: Arc<Network>,
    pub(crate) adjacencies: Box<dyn Adjacencies + Send>,
}

impl Environment {
    /// The image of `rules`.
    pub(crate) fn compile(&self, rules: &Arc<SessionRules>) -> Result<SessionImage, Refusal> {
        Ok(compile(rules, &self.network, &*self.adjacencies)?)
    }

    /// The image of what is live. It may have been compiled for another network: a FAR that no route leads to the peer
    /// of any more drops.
    pub(crate) fn compile_live(&self, live: &Live) -> Result<SessionImage, Refusal> {
        let before = Previous {
            rules: &live.rules,
            classifier: &live.classifier,
        };
        Ok(compile_after(
            before,
            &live.rules,
            &self.network,
            &*self.adjacencies,
        )?)
    }
}
