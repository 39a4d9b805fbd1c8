//! What metrics show of control.

use std::collections::BTreeMap;

use ::n4::Refusals;
use flow::{Nanos, PortId, WorkerId};
use rules::model::SNssai;
use rules::network::Roles;
use session::{GroupCount, PoolId, SessionGroup};
use upf::Control;

use super::{n4, ports};
use crate::metrics::{
    ControlLoad, ControlSnapshot, GroupCounts, NeighbourCount, PoolCount, PortNames, RefusalCount, SmfCount,
    type_label,
};
use crate::values::SliceWorkersRow;

/// SMFs with series of their own.
const MOST_SMFS: usize = 256;
/// Pools with series of their own.
const MOST_POOLS: usize = 1_024;
/// How what found no room is named.
const OTHER: &str = "other";

/// What control knows at `now`.
#[must_use]
pub fn metrics(now: Nanos, control: &Control) -> ControlSnapshot {
    let endpoint = control.endpoint();
    let count = endpoint.sessions().count();
    let admission = control.admission();
    let mut n4 = n4(control);
    // Types without a name have their number.
    for message in &mut n4.messages {
        message.message = type_label(message.number, &message.message);
    }
    ControlSnapshot {
        refusals: endpoint.message_counters().refusals().map(refusal).collect(),
        uptime: now.0 as f64 / 1e9,
        smfs: smfs(control),
        smfs_omitted: n4.associations.saturating_sub(MOST_SMFS) as u64,
        groups: session_groups(control).collect(),
        sessions_limit: endpoint.config().sessions.max_sessions.into(),
        tunnels: count.tunnels as u64,
        ue_addresses: count.addresses as u64,
        paths: count.paths as u64,
        failed_paths: endpoint.failed_paths() as u64,
        pools: pools(control),
        neighbours: neighbours(control),
        ports: ports(control),
        port_names: port_names(control),
        load: ControlLoad {
            waiting: admission.waiting() as u64,
            backlog: admission.backlog().as_secs_f64(),
            ratio: f64::from(admission.load()) / 100.0,
            is_overloaded: admission.is_overloaded(),
        },
        n4,
    }
}

fn refusal(one: Refusals) -> RefusalCount {
    RefusalCount {
        message: type_label(one.request.0, one.request.name()),
        cause: one.cause.value(),
        count: one.count,
    }
}

fn smfs(control: &Control) -> Vec<SmfCount> {
    let sessions = control.endpoint().sessions();
    let all = control.endpoint().associations().take(MOST_SMFS);
    all.map(|one| SmfCount {
        smf: one.node.to_string(),
        is_up: one.reachable,
        sessions: sessions.sessions_of(one.id) as u64,
        tunnels: sessions.tunnels_of(one.id) as u64,
    })
    .collect()
}

/// The sessions of each slice and DNN.
pub fn session_groups(control: &Control) -> impl Iterator<Item = GroupCounts> + '_ {
    control.endpoint().sessions().groups().map(group)
}

/// The workers of each slice that has some of its own, and at the end those of all other sessions.
#[must_use]
pub fn slice_workers(control: &Control) -> Vec<SliceWorkersRow> {
    let sessions = control.endpoint().sessions();
    let known = sessions.slice_workers();
    if known.is_empty() {
        return Vec::new();
    }
    let count = control.endpoint().config().sessions.workers;
    let serving = |slice| {
        let all = (0..count).map(WorkerId);
        all.filter(|worker| known.serves(*worker, slice))
            .map(|worker| worker.0)
            .collect()
    };
    let row = |slice: Option<SNssai>| SliceWorkersRow {
        slice: slice.map_or_else(|| OTHER.into(), |slice| slice.to_string()),
        workers: serving(slice),
    };
    known.slices().map(Some).chain([None]).map(row).collect()
}

fn group(of: GroupCount) -> GroupCounts {
    let (slice, dnn) = match of.group {
        SessionGroup::Of { s_nssai, dnn } => (
            s_nssai.map_or_else(String::new, |slice| slice.to_string()),
            dnn.map_or_else(String::new, String::from),
        ),
        SessionGroup::Others => (OTHER.into(), OTHER.into()),
    };
    GroupCounts {
        slice,
        dnn,
        number: of.number,
        sessions: of.sessions,
        joined: of.joined,
    }
}

fn pools(control: &Control) -> Vec<PoolCount> {
    let sessions = control.endpoint().sessions();
    let pools = control.endpoint().config().sessions.pools.iter().take(MOST_POOLS);
    pools
        .zip(0..)
        .map(|(pool, place)| {
            let (used, limit) = sessions.pool_usage(PoolId(place));
            PoolCount {
                pool: pool.name.clone(),
                used,
                limit,
            }
        })
        .collect()
}

fn neighbours(control: &Control) -> Vec<NeighbourCount> {
    let table = control.neighbour_table();
    let mut counts = BTreeMap::new();
    for one in table.neighbours.views(table.now, 0) {
        *counts.entry((one.instance.0, one.state.word())).or_insert(0) += 1;
    }
    let name = |instance| upf::format::instance(control.network(), flow::InstanceId(instance));
    counts
        .into_iter()
        .map(|((instance, state), count)| NeighbourCount {
            network_instance: name(instance),
            state,
            count,
        })
        .collect()
}

fn port_names(control: &Control) -> Vec<PortNames> {
    let ports = control.port_links().ports();
    ports
        .enumerate()
        .map(|(place, (port, _))| {
            let instances = control.network().instances().iter();
            let own: Vec<_> = instances
                .filter(|instance| instance.port == PortId(place as u16))
                .collect();
            PortNames {
                port: port.to_owned(),
                network_instance: match own[..] {
                    [instance] => instance.name.clone(),
                    _ => String::new(),
                },
                is_n6: !own.is_empty() && own.iter().all(|instance| instance.roles == Roles::N6),
            }
        })
        .collect()
}
