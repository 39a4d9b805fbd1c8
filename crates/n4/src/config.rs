//! What an operator sets.

use flow::TokenRate;
use pfcp::Interfaces;
use rules::model::Application;
use rules::prefix::IpPrefix;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::node::NodeName;
use crate::path_supervision::PathSupervision;

/// What a rule gets whose Network Instance names none that is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownInstance {
    /// The request is refused with cause 73: traffic does not go where no rule sends it.
    #[default]
    Refuse,
    /// The rule is served as if it named none.
    Default,
}

/// A control plane function that we set up an association with (TS 29.244 §6.2.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smf {
    /// Its address.
    pub address: IpAddr,
    /// The address of ours that it is asked from, of the same family.
    pub local: SocketAddr,
}

/// Where control plane functions speak from, and over which reference points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Their addresses.
    pub prefix: IpPrefix,
    /// The reference points, as far as they are known: neither Node IDs nor messages say (TS 29.244 §6.2.6).
    pub interfaces: Interfaces,
    /// Whether they can read a Usage Report that has a Usage Information IE (TS 29.244 §8.2.59). To others it is not
    /// sent, and usage before QoS enforcement (MBQE) is neither measured for them nor reported to them.
    pub usage_information: bool,
    /// Whether their sessions stay when they set up their association again with the same Recovery Time Stamp.
    pub retain_sessions: bool,
}

impl From<IpPrefix> for Peers {
    /// Of any reference point.
    fn from(prefix: IpPrefix) -> Peers {
        Peers {
            prefix,
            interfaces: Interfaces::ANY,
            usage_information: true,
            retain_sessions: false,
        }
    }
}

/// Limits of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLimits {
    /// Session Report Requests of one session. Default 4, then one in 250 ms.
    pub session: TokenRate,
    /// Session Report Requests to one association. Default 1,000, then one in 500 µs.
    pub association: TokenRate,
    /// Session Report Requests on their way to one association. Default 256.
    pub window: usize,
    /// After how long a report is tried again that was not answered. Default 10 s.
    pub retry: Duration,
}

impl Default for ReportLimits {
    fn default() -> ReportLimits {
        ReportLimits {
            session: TokenRate::new(Duration::from_millis(250), 4),
            association: TokenRate::new(Duration::from_micros(500), 1_000),
            window: 256,
            retry: Duration::from_secs(10),
        }
    }
}

/// The configuration of an endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who we are (TS 29.244 §8.2.38).
    pub node: NodeName,
    /// When this process started, seconds since 1970: the Recovery Time Stamp, the same for the life of the process.
    pub recovery_unix: u64,
    /// Seconds since 1970 when the clock was 0, as far as the host's clock was right at the start; later corrections
    /// come with [`Endpoint::follow_wall`](crate::Endpoint::follow_wall).
    pub clock_unix: u64,
    /// T1: how long a request of ours waits for its response before it is sent again. Default 1 s.
    pub t1: Duration,
    /// N1: how often it is sent again. Default 3.
    pub n1: u32,
    /// How long an answer is kept for retransmissions of the request: at least the peers' N1 times T1. Default 40 s.
    pub response_cache_age: Duration,
    /// Octets that kept answers may take. Default 64 MiB.
    pub response_cache_octets: usize,
    /// Whether flows are looked into for hosts, so that PFDs with URLs and domain names can be served. Default: no.
    pub inspects: bool,
    /// Applications that PDRs may name without PFDs: control planes cannot describe those. Default: none.
    pub applications: Arc<[Application]>,
    /// Requests about sessions that may be in work at a time; more are answered with cause 74. Default 20,000.
    pub max_in_work: usize,
    /// Associations at most; more are refused with cause 75, but for those that take the place of one that is silent
    /// and has no sessions. Default 1,000.
    pub max_associations: usize,
    /// Associations at most that were set up from one IP address; more are refused with cause 75. Default 32.
    pub max_associations_per_address: usize,
    /// Messages a second of a source that has no association, where [`peers`](Self::peers) is empty; twice as many at
    /// once; 0: no limit. Sources share allowances by a hash. Default 50.
    pub unknown_rate: u32,
    /// Where [`peers`](Self::peers) is empty, the part of associations, of sessions and of all that they take, in per
    /// cent, 0 to 100, and eight at least, up to which peers are served that have not answered a heartbeat. Default 10.
    pub unverified_percent: u8,
    /// Control plane functions that we set up associations with; all others do so themselves. Default: none.
    pub smfs: Vec<Smf>,
    /// The pause between an association set-up of ours that failed and the next; it doubles with each. Default 5 s.
    pub setup_retry: Duration,
    /// The longest such pause, and that after a peer's release. Default 5 min.
    pub setup_retry_most: Duration,
    /// How long a peer has to release its association after we have asked it to, or have reported all usage for it
    /// (TS 29.244 §6.2.7.3.1): the Graceful Release Period. Default 10 s; zero: associations end without a word.
    pub release_wait: Duration,
    /// How often each peer gets a Heartbeat Request; `None`: never. Default 10 s.
    pub heartbeat_interval: Option<Duration>,
    /// The port that our own requests go to (TS 29.244 §4.2.2). Default 8805.
    pub peer_port: u16,
    /// Whether requests in the name of a peer, or about its sessions, are served wherever they come from: for control
    /// planes with addresses that they do not name. Default false: only from addresses that are known to be the peer's.
    pub any_source: bool,
    /// Prefixes that peers speak from, where that is known. Addresses in one of them are believed to be of one
    /// operator's group: its SMFs may be of one set, and one may set up the association of another anew. What has no
    /// place on the reference points of the longest prefix that an association was set up from is discarded, and what
    /// is mandatory there is asked for; that prefix says, too, whether Usage Information is sent there. Datagrams from
    /// elsewhere are not read ([`AdmissionQueue`](crate::AdmissionQueue)). Default: none, and any sender is served.
    pub peers: Vec<Peers>,
    /// Network instances that are not configured.
    pub unknown_instance: UnknownInstance,
    /// How often sessions are reported about.
    pub reports: ReportLimits,
    /// Whether GTP-U paths in use are supervised by echo, and how. Default: they are not.
    pub paths: Option<PathSupervision>,
    /// Sessions.
    pub sessions: session::Config,
}

impl Config {
    /// Whether both addresses lie in one of the prefixes of [`peers`](Self::peers).
    pub(crate) fn are_one_group(&self, one: IpAddr, other: IpAddr) -> bool {
        let both = [one.to_canonical(), other.to_canonical()];
        let holds = |peers: &Peers| both.iter().all(|address| peers.prefix.contains(*address));
        both[0] == both[1] || self.peers.iter().any(holds)
    }

    /// The longest prefix around `address`.
    fn peers_around(&self, address: IpAddr) -> Option<&Peers> {
        let address = address.to_canonical();
        let around = self.peers.iter().filter(|peers| peers.prefix.contains(address));
        around.max_by_key(|peers| peers.prefix.len())
    }

    /// The reference points that a peer at `address` speaks over.
    pub(crate) fn interfaces_of(&self, address: IpAddr) -> Interfaces {
        self.peers_around(address)
            .map_or(Interfaces::ANY, |peers| peers.interfaces)
    }

    /// Whether a peer at `address` can read Usage Information.
    pub(crate) fn reads_usage_information(&self, address: IpAddr) -> bool {
        self.peers_around(address)
            .is_none_or(|peers| peers.usage_information)
    }

    /// Whether sessions of a peer at `address` stay when it sets up its association again without having restarted.
    pub(crate) fn retains_sessions(&self, address: IpAddr) -> bool {
        self.peers_around(address)
            .is_some_and(|peers| peers.retain_sessions)
    }

    /// The defaults, for a node with `workers` workers.
    pub fn new(node: NodeName, workers: u16) -> Config {
        Config {
            node,
            recovery_unix: 0,
            clock_unix: 0,
            t1: Duration::from_secs(1),
            n1: 3,
            response_cache_age: Duration::from_secs(40),
            response_cache_octets: 64 << 20,
            inspects: false,
            applications: Arc::default(),
            max_in_work: 20_000,
            max_associations: 1_000,
            max_associations_per_address: 32,
            unknown_rate: 50,
            unverified_percent: 10,
            smfs: Vec::new(),
            setup_retry: Duration::from_secs(5),
            setup_retry_most: Duration::from_secs(300),
            release_wait: Duration::from_secs(10),
            heartbeat_interval: Some(Duration::from_secs(10)),
            peer_port: pfcp::PORT,
            any_source: false,
            peers: Vec::new(),
            unknown_instance: UnknownInstance::Refuse,
            reports: ReportLimits::default(),
            paths: None,
            sessions: session::Config::for_workers(workers),
        }
    }
}
