//! Sessions that come from another process: an import takes a session's numbers as they are, or says which one another
//! session has, and changes nothing then.

use flow::meter::TimeUnit;
use flow::{Nanos, SessionIndex};
use packet::Teid;
use rules::image::{PacketsLeft, SessionImage};
use rules::network::Network;
use rules::prefix::IpPrefix;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use usage::UsageAccounts;

use crate::change_context::ChangeContext;
use crate::correlations::Parties;
use crate::ids::{AssociationId, CpFSeid, Seid};
use crate::live_session::Live;
use crate::pending_change::Prepared;
use crate::port_block_changes::take;
use crate::quotas::ResourceCounts;
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use crate::resources::{ABSENT, Held, Resources};
use crate::session::{Identity, Session};
use crate::session_table::SessionTable;

/// Why a record does not become a session here. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// Another session has its SEID.
    Seid(Seid),
    /// Another session of the association has its CP F-SEID.
    CpFSeid(CpFSeid),
    /// Another session has its F-TEID.
    Tunnel {
        /// Our address.
        address: IpAddr,
        /// The TEID.
        teid: Teid,
    },
    /// Another session has its UE address, or one in or around it.
    UeAddress(IpPrefix),
    /// Its rules cannot be applied here, or there is no room.
    Refused(Refusal),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Seid(seid) => write!(f, "another session has SEID {:#018x}", seid.0),
            ImportError::CpFSeid(cp) => write!(
                f,
                "another session of the association has the CP F-SEID {:#018x}",
                cp.seid
            ),
            ImportError::Tunnel { address, teid } => {
                write!(f, "another session has TEID {teid} at {address}")
            }
            ImportError::UeAddress(prefix) => write!(f, "another session has UE address {prefix}"),
            ImportError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for ImportError {}

impl From<Refusal> for ImportError {
    fn from(refusal: Refusal) -> ImportError {
        ImportError::Refused(refusal)
    }
}

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Another process: what is imported has changed here.
    OtherProcess,
    /// The store that keeps the sessions of this node: it has the session already.
    Store,
}

/// What is left of a session's packet rates. A window that ends later than the longest unit of time lasts was dated by
/// a clock that was set back since: it lasts no longer than that.
fn packets_left(record: &SessionRecord, now: Nanos) -> Vec<PacketsLeft> {
    let latest = now + Duration::from_nanos(TimeUnit::Week.nanos());
    let mut left = record.packets.clone();
    for state in left.iter_mut().flat_map(|left| &mut left.states) {
        for window in [&mut state.base, &mut state.additional] {
            window.ends = window.ends.min(latest);
        }
    }
    left
}

/// A session that is to be established from a record.
pub(crate) struct Arriving {
    pub(crate) session: Box<Session>,
    pub(crate) image: Box<SessionImage>,
    pub(crate) prepared: Box<Prepared>,
}

/// Takes what a session of a record holds.
pub(crate) fn import(
    context: &mut ChangeContext,
    association: AssociationId,
    record: &SessionRecord,
    origin: Origin,
    now: Nanos,
) -> Result<Arriving, ImportError> {
    let ChangeContext {
        environment,
        table,
        resources,
        commands,
        usage_measurement,
        ..
    } = context;
    if table.seids.get(record.seid).is_some() {
        return Err(ImportError::Seid(record.seid));
    }
    if table.by_owner(association, record.cp).is_some() {
        return Err(ImportError::CpFSeid(record.cp));
    }
    let mut image = environment.compile(&record.rules)?;
    // The workers of its slice may be others than where the record was made.
    let allowed = commands.buckets.allowed(record.accounting.slice());
    let bucket = allowed.nearest(record.bucket).ok_or(Refusal::NoResources)?;
    image.bucket = bucket;
    image.seid = record.seid.0;
    image.bring_packets(packets_left(record, now));
    image.bring_tokens(record.tokens.clone());
    image.comes_from_elsewhere();
    image.add_dropped(&record.dropped);
    let live = Live::of(&image, record.leases.clone());
    let (tunnels, addresses) = (live.tunnels.get(), live.addresses.get());
    let held = Held::of(&tunnels, &addresses);
    check_free(table, resources, &environment.network, held)?;
    let worker = commands.buckets.owner(bucket);
    let with_exceptions = commands.buckets.with_exceptions(bucket);
    let taken = ResourceCounts::of(&tunnels, &addresses, with_exceptions);
    // What an association held above its quota it holds here, too.
    if !resources.quotas.has_room(association, worker, taken) {
        return Err(Refusal::NoResources.into());
    }
    let index = table.indexes.take().ok_or(Refusal::NoResources)?;
    let parties = Parties {
        owner: association,
        charged_to: association,
        is_limited: false,
    };
    if let Err(refusal) = resources.correlate(index, parties, &image.rules, &mut Vec::new()) {
        resources.correlations.leave_all(index);
        table.indexes.give_back(index);
        return Err(refusal.into());
    }
    image.session = index;
    image.share_rates(|correlation| resources.correlations.meter(index, correlation));
    resources.give(index, held);
    let prepared = Prepared {
        claimed: tunnels.to_vec(),
        addresses: addresses.to_vec(),
        shared: record.shared.clone(),
        live,
        is_kept: origin == Origin::Store,
        ..Prepared::default()
    };
    let identity = Identity {
        index,
        seid: record.seid,
        association,
        cp: record.cp,
        bucket,
    };
    let usage = UsageAccounts::resuming(&record.checkpoints, usage_measurement.setting());
    let mut session = Session::new(identity, usage, record.accounting.clone());
    session.sets = record.sets.clone().into();
    session.shared = record.shared.clone();
    if record.rules.nat().is_some() {
        let blocks = take(context, &session, (record, &image.ue_addresses), now);
        image.bring_port_blocks(&blocks, record.mappings.clone());
    }
    Ok(Arriving {
        session: Box::new(session),
        image: Box::new(image),
        prepared: Box::new(prepared),
    })
}

/// That no other session holds any of these.
fn check_free(
    table: &SessionTable,
    resources: &Resources,
    network: &Network,
    held: Held<'_>,
) -> Result<(), ImportError> {
    let is_foreign = |holder: SessionIndex| holder != ABSENT && !table.has_lost(holder);
    let is_held = |holder: Option<SessionIndex>| holder.is_some_and(is_foreign);
    let mut tunnels = held.tunnels.iter();
    if let Some((local, teid)) = tunnels.find(|one| is_held(resources.tunnels.holder(**one))) {
        let address = address_of(network, local.index());
        return Err(ImportError::Tunnel { address, teid: *teid });
    }
    let mut addresses = held.addresses.iter();
    match addresses.find(|one| resources.addresses.is_taken(**one, is_foreign)) {
        Some((_, prefix)) => Err(ImportError::UeAddress(*prefix)),
        None => Ok(()),
    }
}

/// The address of ours with this number.
fn address_of(network: &Network, local: usize) -> IpAddr {
    let known = network.local_addresses().get(local);
    known.map_or(IpAddr::from([0, 0, 0, 0]), |(_, address)| *address)
}
