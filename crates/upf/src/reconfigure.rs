//! A change of the configuration of a running UPF: why it is refused, what comes of it, and how far it is.
//!
//! [`Control::reconfigure`](crate::Control::reconfigure) carries it out.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use config::StaticNeighbour;
use flow::{InstanceId, Nanos};
use n4::LostPeer;
use rules::Predefined;
use rules::model::PredefinedError;
use rules::network::{Network, NetworkError, SuccessionError};
use session::{Departing, Search};
use transport::{NeighboursConfig, Routes};

/// Why a configuration does not take effect. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconfigureError {
    /// Another change has not ended.
    Busy,
    /// Sessions were in progress for so long that what is removed could not be searched for.
    Unsettled(Duration),
    /// The network contradicts itself.
    Network(NetworkError),
    /// The network cannot take the place of the one there is.
    Succession(SuccessionError),
    /// What is predefined contradicts itself.
    Predefined(PredefinedError),
    /// Rules have a content, and workers have no counters of contents.
    Contents,
    /// A peer with an association is not among the peers any more.
    Peer(LostPeer),
    /// A pool loses addresses that sessions hold.
    Pool {
        /// The pool.
        name: String,
        /// How many.
        held: usize,
    },
    /// What is removed is in use.
    InUse {
        /// What.
        name: String,
        /// How many sessions use it.
        sessions: u64,
    },
    /// There is no room for this next hop in the neighbour table.
    Neighbour(IpAddr),
}

impl fmt::Display for ReconfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another change of the configuration is in progress"),
            Self::Unsettled(time) => write!(
                f,
                "requests of sessions were in progress for {} s, so that it is not known whether what is removed is in use",
                time.as_secs()
            ),
            Self::Network(error) => error.fmt(f),
            Self::Succession(error) => error.fmt(f),
            Self::Predefined(error) => write!(f, "predefined: {error}"),
            Self::Contents => f.write_str(
                "predefined: rules have a content, and there were none at the start: a restart makes counters for them",
            ),
            Self::Peer(LostPeer { address, sessions }) => write!(
                f,
                "n4.peers: {address} has an association with {sessions} sessions, and is in none of the prefixes"
            ),
            Self::Pool { name, held } => {
                write!(f, "pools: {name}: sessions hold {held} addresses that it would not have any more")
            }
            Self::InUse { name, sessions } => write!(f, "{name} is removed, and {sessions} sessions use it"),
            Self::Neighbour(address) => write!(
                f,
                "instances: routes: there is no room for next hop {address} in the neighbour table"
            ),
        }
    }
}

impl std::error::Error for ReconfigureError {}

/// A configuration has taken effect, in all workers and sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// Sessions that something changed of.
    pub sessions: u64,
    /// Sessions that keep what they had of predefined rules: what these have become is more than there is room for.
    pub failed: u64,
}

/// Neighbours on links of instances.
pub(super) type NeighbourSet = BTreeSet<(InstanceId, IpAddr)>;

/// Neighbours whose link layer addresses are given.
#[derive(Debug, Default)]
pub(super) struct FixedNeighbours {
    /// In the configuration.
    pub configured: Vec<StaticNeighbour>,
    /// By [`Control::add_neighbour`](crate::Control::add_neighbour).
    others: NeighbourSet,
}

impl FixedNeighbours {
    pub fn of(configured: &[StaticNeighbour]) -> Self {
        Self {
            configured: configured.to_vec(),
            others: BTreeSet::new(),
        }
    }

    pub fn add(&mut self, instance: InstanceId, address: IpAddr) {
        self.others.insert((instance, address));
    }

    pub fn all(&self) -> NeighbourSet {
        let configured = self.configured.iter().map(|one| (one.instance, one.address));
        configured.chain(self.others.iter().copied()).collect()
    }
}

/// The next hops that routes of a network lead over.
pub(super) fn routers(network: &Network) -> NeighbourSet {
    let groups = network.groups().iter().flat_map(|group| group.iter().copied());
    Routes::new(network).gateways().chain(groups).collect()
}

/// What is to take effect.
pub(super) struct Next {
    pub network: Arc<Network>,
    pub n4: n4::Config,
    pub neighbours: NeighboursConfig,
    pub fixed: Vec<StaticNeighbour>,
    pub path_mtu_age: Duration,
    pub path_mtu_least: u16,
}

/// What had effect.
#[derive(Clone)]
pub(super) struct Before {
    pub network: Arc<Network>,
    pub predefined: Arc<Predefined>,
}

/// A configuration that is prepared.
pub(super) struct Preparation {
    pub next: Box<Next>,
    pub before: Before,
    /// What is removed, and hidden from requests.
    pub departing: Departing,
    pub search: Search,
    pub is_searched: bool,
    /// The next hops that are to be resolved first.
    pub next_hops: NeighbourSet,
    pub began: Nanos,
}

/// How far a change is.
#[derive(Default)]
pub(super) enum Stage {
    /// There is none.
    #[default]
    Idle,
    /// Nothing has taken effect.
    Preparing(Box<Preparation>),
    /// All has taken effect in control. Sessions follow, and this number of workers has yet to confirm the network.
    Following { unconfirmed: usize },
    /// Sessions have followed.
    Followed {
        result: Reconfigured,
        unconfirmed: usize,
    },
}

/// Changes of the configuration: one at a time.
#[derive(Default)]
pub(super) struct Reconfigurations {
    pub stage: Stage,
    pub results: VecDeque<Result<Reconfigured, ReconfigureError>>,
}

impl Reconfigurations {
    /// A worker has confirmed the network.
    pub fn confirm(&mut self) {
        if let Stage::Following { unconfirmed } | Stage::Followed { unconfirmed, .. } = &mut self.stage {
            *unconfirmed = unconfirmed.saturating_sub(1);
        }
    }

    /// Whether a change has begun and not ended.
    pub const fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    /// While there is a change, control has something to do every now and then.
    pub fn poll_timeout(&self, now: Nanos) -> Option<Nanos> {
        let pause = match self.stage {
            Stage::Idle => return None,
            Stage::Preparing(_) | Stage::Followed { .. } => Duration::from_millis(1),
            Stage::Following { .. } => Duration::from_micros(50),
        };
        Some(now + pause)
    }
}
