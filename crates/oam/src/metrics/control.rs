//! The metrics of control: sessions, SMFs, N4, ports, neighbours, pools.

use flow::SessionGroupId;

use crate::values::{N4Status, PortList};

use super::exposition::{Exposition, Metric, Reading};
use super::worker::PortNames;

/// What control knows at one moment.
#[derive(Clone, Debug)]
pub struct ControlSnapshot {
    /// N4.
    pub n4: N4Status,
    /// Requests that were refused, by type and cause.
    pub refusals: Vec<RefusalCount>,
    /// Seconds since the start of the process.
    pub uptime: f64,
    /// The SMFs, by Node ID.
    pub smfs: Vec<SmfCount>,
    /// SMFs that found no room there.
    pub smfs_omitted: u64,
    /// Sessions by slice and DNN.
    pub groups: Vec<GroupCounts>,
    /// Sessions that there may be.
    pub sessions_limit: u64,
    /// Tunnels of sessions.
    pub tunnels: u64,
    /// UE addresses of sessions.
    pub ue_addresses: u64,
    /// Paths to GTP-U peers in use.
    pub paths: u64,
    /// Those of them that do not answer.
    pub failed_paths: u64,
    /// The pools of UE addresses.
    pub pools: Vec<PoolCount>,
    /// Neighbours by network instance and state.
    pub neighbours: Vec<NeighbourCount>,
    /// The ports, without what workers count.
    pub ports: PortList,
    /// How metrics name the ports.
    pub port_names: Vec<PortNames>,
    /// What control has to do.
    pub load: ControlLoad,
}

/// What control has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlLoad {
    /// Establishment requests in the admission queue.
    pub waiting: u64,
    /// Seconds that it takes to serve them.
    pub backlog: f64,
    /// The load, 0 to 1: from 0.8 on there is overload.
    pub ratio: f64,
    /// Whether overload stands.
    pub is_overloaded: bool,
}

/// Refused requests of one type and cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalCount {
    /// The type.
    pub message: String,
    /// The number of the cause.
    pub cause: u8,
    /// How many.
    pub count: u64,
}

/// An SMF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmfCount {
    /// Its Node ID.
    pub smf: String,
    /// Whether it answered the last heartbeat.
    pub is_up: bool,
    /// Its sessions.
    pub sessions: u64,
    /// Their tunnels.
    pub tunnels: u64,
}

/// The sessions of a slice and DNN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCounts {
    /// The S-NSSAI; empty: none was named; `other`: with the DNN `other`, all that found no room.
    pub slice: String,
    /// The DNN or APN.
    pub dnn: String,
    /// By which workers know them.
    pub number: SessionGroupId,
    /// Sessions now.
    pub sessions: u64,
    /// Sessions that joined since the start.
    pub joined: u64,
}

/// A pool of UE addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolCount {
    /// Its name.
    pub pool: String,
    /// Addresses and prefixes in use.
    pub used: u64,
    /// All.
    pub limit: u64,
}

/// Neighbours of one state on the link of one network instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourCount {
    /// The network instance.
    pub network_instance: String,
    /// The state.
    pub state: &'static str,
    /// How many.
    pub count: u64,
}

const BUILD: Metric = Metric::info("sluice_build", &["version"], "The version of Sluice.");
const UPTIME: Metric = Metric::gauge(
    "sluice_uptime_seconds",
    &[],
    "Time since the start of the process.",
);
const SESSIONS: Metric = Metric::gauge("sluice_sessions", &[], "PFCP sessions.");
const SESSIONS_LIMIT: Metric =
    Metric::gauge("sluice_sessions_limit", &[], "PFCP sessions that there may be.");
const TUNNELS: Metric = Metric::gauge("sluice_tunnels", &[], "Local F-TEIDs of sessions.");
const UE_ADDRESSES: Metric = Metric::gauge(
    "sluice_ue_addresses",
    &[],
    "UE addresses and prefixes of sessions.",
);
const GROUP_SESSIONS: Metric = Metric::gauge(
    "sluice_slice_sessions",
    &["slice", "dnn"],
    "PFCP sessions by S-NSSAI and DNN, as far as the SMF has named them.",
);
const GROUP_JOINED: Metric = Metric::counter(
    "sluice_slice_sessions_joined",
    &["slice", "dnn"],
    "PFCP sessions that were established, imported, or changed to this S-NSSAI and DNN.",
);
const SMF_UP: Metric = Metric::gauge("sluice_smf_up", SMF, "1 if the SMF answered the last heartbeat.");
const SMF_SESSIONS: Metric = Metric::gauge("sluice_smf_sessions", SMF, "PFCP sessions of an SMF.");
const SMF_TUNNELS: Metric = Metric::gauge("sluice_smf_tunnels", SMF, "Local F-TEIDs of an SMF's sessions.");
const SMF: &[&str] = &["smf"];
const ASSOCIATIONS: Metric = Metric::gauge("sluice_associations", &[], "PFCP associations.");
const RECEIVED: Metric = Metric::counter(
    "sluice_pfcp_received_messages",
    MESSAGE,
    "PFCP messages received, retransmissions among them.",
);
const DUPLICATES: Metric = Metric::counter(
    "sluice_pfcp_received_retransmissions",
    MESSAGE,
    "Retransmissions among the PFCP requests received.",
);
const SENT: Metric = Metric::counter(
    "sluice_pfcp_sent_messages",
    MESSAGE,
    "PFCP messages sent for the first time.",
);
const RESENT: Metric = Metric::counter(
    "sluice_pfcp_sent_retransmissions",
    MESSAGE,
    "PFCP messages sent again.",
);
const MESSAGE: &[&str] = &["message"];
const REFUSED: Metric = Metric::counter(
    "sluice_pfcp_refused_requests",
    &["message", "cause"],
    "PFCP requests that were refused, by the cause of the response.",
);
const REFUSED_BY_PEERS: Metric = Metric::counter(
    "sluice_pfcp_refused_by_peers",
    &["cause"],
    "PFCP requests of our own that peers refused, by the cause of the response.",
);
const DISCARDED: Metric = Metric::counter(
    "sluice_pfcp_discarded",
    &["reason"],
    "PFCP datagrams and messages that were not served.",
);
const EVENTS: Metric = Metric::counter(
    "sluice_pfcp_events",
    &["event"],
    "Everything else that is counted of N4, as in `sluice show n4`.",
);
const IN_WORK: Metric = Metric::gauge(
    "sluice_pfcp_requests_in_work",
    &[],
    "PFCP requests of peers that are not responded to yet.",
);
const UNANSWERED: Metric = Metric::gauge(
    "sluice_pfcp_requests_unanswered",
    &[],
    "PFCP requests of our own that wait for a response.",
);
const RESPONSE_CACHE: Metric = Metric::gauge(
    "sluice_pfcp_response_cache_bytes",
    &[],
    "Octets of responses that are kept for retransmissions.",
);
const ADMISSION_QUEUE: Metric = Metric::gauge(
    "sluice_admission_queue_requests",
    &[],
    "Session Establishment Requests in the admission queue.",
);
const ADMISSION_BACKLOG: Metric = Metric::gauge(
    "sluice_admission_queue_seconds",
    &[],
    "Time that it takes to serve the admission queue.",
);
const CONTROL_LOAD: Metric = Metric::gauge(
    "sluice_control_load_ratio",
    &[],
    "The load of control, 0 to 1; from 0.8 on it is overloaded.",
);
const OVERLOADED: Metric = Metric::gauge("sluice_control_overloaded", &[], "1 while overload stands.");
const PATHS: Metric = Metric::gauge("sluice_gtpu_paths", &[], "Paths to GTP-U peers in use.");
const FAILED_PATHS: Metric = Metric::gauge(
    "sluice_gtpu_paths_failed",
    &[],
    "Paths to GTP-U peers that do not answer Echo Requests.",
);
const PORT_UP: Metric = Metric::gauge(
    "sluice_port_up",
    &["port", "network_instance"],
    "1 if the link of a port is up.",
);
const MEMBER_UP: Metric = Metric::gauge(
    "sluice_lag_member_up",
    &["lag", "member"],
    "1 if a member carries frames of its LAG.",
);
const NEIGHBOURS: Metric = Metric::gauge(
    "sluice_neighbours",
    &["network_instance", "state"],
    "Neighbours on the link of a network instance.",
);
const POOL_USED: Metric = Metric::gauge(
    "sluice_pool_addresses_used",
    &["pool"],
    "Addresses and prefixes of a UE address pool in use.",
);
const POOL_LIMIT: Metric = Metric::gauge(
    "sluice_pool_addresses_limit",
    &["pool"],
    "Addresses and prefixes of a UE address pool.",
);

/// Writes the metrics of control.
pub(super) fn write(to: &mut Exposition, control: &ControlSnapshot) {
    let n4 = &control.n4;
    to.family(&BUILD).sample(&[&n4.version], true);
    to.single(&UPTIME, control.uptime);
    to.single(&SESSIONS, n4.sessions);
    to.single(&SESSIONS_LIMIT, control.sessions_limit);
    to.single(&TUNNELS, control.tunnels);
    to.single(&UE_ADDRESSES, control.ue_addresses);
    write_groups(to, control);
    write_n4(to, control);
    to.single(&ADMISSION_QUEUE, control.load.waiting);
    to.single(&ADMISSION_BACKLOG, control.load.backlog);
    to.single(&CONTROL_LOAD, control.load.ratio);
    to.single(&OVERLOADED, control.load.is_overloaded);
    to.single(&PATHS, control.paths);
    to.single(&FAILED_PATHS, control.failed_paths);
    write_network(to, control);
}

fn write_groups(to: &mut Exposition, control: &ControlSnapshot) {
    let families: [(&Metric, Reading<GroupCounts>); 2] = [
        (&GROUP_SESSIONS, |group| group.sessions),
        (&GROUP_JOINED, |group| group.joined),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for group in &control.groups {
            family.sample(&[&group.slice, &group.dnn], value(group));
        }
    }
    let families: [(&Metric, Reading<SmfCount>); 3] = [
        (&SMF_UP, |smf| smf.is_up.into()),
        (&SMF_SESSIONS, |smf| smf.sessions),
        (&SMF_TUNNELS, |smf| smf.tunnels),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for smf in &control.smfs {
            family.sample(&[&smf.smf], value(smf));
        }
        family.omit(control.smfs_omitted);
    }
}

fn write_n4(to: &mut Exposition, control: &ControlSnapshot) {
    let n4 = &control.n4;
    to.single(&ASSOCIATIONS, n4.associations);
    let families: [(&Metric, Reading<crate::values::N4Message>); 4] = [
        (&RECEIVED, |message| message.received),
        (&DUPLICATES, |message| message.duplicates),
        (&SENT, |message| message.sent),
        (&RESENT, |message| message.resent),
    ];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for message in &n4.messages {
            family.sample(&[&type_label(message.number, &message.message)], value(message));
        }
    }
    let mut refused = to.family(&REFUSED);
    for one in &control.refusals {
        refused.sample(&[&one.message, &one.cause.to_string()], one.count);
    }
    let mut refused = to.family(&REFUSED_BY_PEERS);
    for one in &n4.refused_by_peers {
        refused.sample(&[&one.cause.to_string()], one.count);
    }
    for (metric, counts) in [(&DISCARDED, &n4.not_served), (&EVENTS, &n4.counts)] {
        let mut family = to.family(metric);
        for (name, count) in counts {
            family.sample(&[name], *count);
        }
    }
    to.single(&IN_WORK, n4.in_work);
    to.single(&UNANSWERED, n4.unanswered);
    to.single(&RESPONSE_CACHE, n4.answers_bytes);
}

/// The name of a message type; its number where the names of several are alike.
pub(crate) fn type_label(number: u8, name: &str) -> String {
    let is_known = !name.is_empty() && !name.starts_with("unknown") && !name.starts_with("reserved");
    if is_known {
        name.to_owned()
    } else {
        number.to_string()
    }
}

fn write_network(to: &mut Exposition, control: &ControlSnapshot) {
    let mut family = to.family(&PORT_UP);
    for (row, names) in control.ports.ports.iter().zip(&control.port_names) {
        family.sample(&[&names.port, &names.network_instance], row.link);
    }
    let mut family = to.family(&MEMBER_UP);
    for row in &control.ports.ports {
        if let Some(lag) = &row.member_of {
            family.sample(&[lag, &row.port], row.state == "distributing");
        }
    }
    let mut family = to.family(&NEIGHBOURS);
    for one in &control.neighbours {
        family.sample(&[&one.network_instance, one.state], one.count);
    }
    let families: [(&Metric, Reading<PoolCount>); 2] =
        [(&POOL_USED, |pool| pool.used), (&POOL_LIMIT, |pool| pool.limit)];
    for (metric, value) in families {
        let mut family = to.family(metric);
        for pool in &control.pools {
            family.sample(&[&pool.pool], value(pool));
        }
    }
}
