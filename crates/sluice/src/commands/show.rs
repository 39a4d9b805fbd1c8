//! `sluice show`: what a running daemon shows over its API.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use packet::Teid;
use serde::Serialize;
use session::Seid;

use super::in_query::in_query;
use super::nat_log::holder_at;
use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::{AcceleratorNodeConfig, Config};
use oam::rest::{ACCELERATOR_NODE, ClientError, default_path, get};
use oam::values::{
    AcceleratorNodeStatus, AccessLists, AlarmList, ApplicationList, AssociationList, ContentList,
    LONGEST_PAGE, N4Status, NatMappingList, NatOwner, NatStatus, NeighbourList, OffloadStatus, PathList,
    PortList, QueueList, RecordsStatus, RouteList, Runtime, SessionDetail, SessionList, SliceList,
    StoreStatus, USUAL_PAGE,
};
use upf::identifiers::{self, read_imsi, read_seid, read_teid};

/// `sluice show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    #[command(subcommand)]
    what: What,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long, global = true)]
    config: Option<PathBuf>,
    /// As JSON, as the API has it.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// What each stage of each worker has done: calls, packets, cycles per packet, packets per call.
    Runtime,
    /// The ports: their links, the members of LAGs and how they stand, packets.
    Ports,
    /// Paths to GTP-U peers whose MTU is less than our links', as routers have reported.
    Paths,
    /// Routes of each VRF: prefixes, their routers, whether these are there and why not.
    Routes {
        /// Behind this one, as the table before said.
        #[arg(long)]
        after: Option<u32>,
        /// Rows at most.
        #[arg(long, default_value_t = USUAL_PAGE, value_parser = limit)]
        limit: usize,
    },
    /// Neighbours on the links: how they stand, where they are, when they answered last.
    Neighbours {
        /// Behind this one, as the table before said.
        #[arg(long)]
        after: Option<u32>,
        /// Rows at most.
        #[arg(long, default_value_t = USUAL_PAGE, value_parser = limit)]
        limit: usize,
    },
    /// N4: who may speak, messages by type, refusals by cause, what was not served.
    N4,
    /// The SMFs: where they are, whether they answer, how many sessions they have.
    Associations {
        /// Behind this one, as the table before said.
        #[arg(long)]
        after: Option<u32>,
        /// Rows at most.
        #[arg(long, default_value_t = USUAL_PAGE, value_parser = limit)]
        limit: usize,
    },
    /// Access lists: what their rules have decided, and how much they have dropped.
    AccessLists,
    /// Applications that PDRs may name: how many flows, URLs and domain names they are known by.
    Applications,
    /// Contents of predefined rules: flows, packets and octets of all sessions, and flows without a host.
    Contents,
    /// CG-NAT: pools of public addresses and mappings; or who has a public address and port now.
    Nat(NatWanted),
    /// Accelerators of workers: contact, sessions that are away, why others stay, packets that come back.
    Offload,
    /// Slices and data networks: their sessions, and the packets that left.
    Slices,
    /// Queues before ports: what waits, has left, was marked and was dropped, by priority. Those of a session are with
    /// it (`sluice show session`).
    Queues,
    /// How `sluice accel` stands itself: contact, load, tables, exceptions. Its socket is that of `control.socket` in
    /// its own configuration.
    Accelerator,
    /// PFCP sessions in the order of their SEIDs; with several conditions, those that meet all.
    Sessions {
        /// With this address of the UE, or in a network behind it.
        #[arg(long)]
        ue: Option<IpAddr>,
        /// With this local SEID.
        #[arg(long, value_parser = read_seid)]
        seid: Option<Seid>,
        /// With this TEID at an address of ours.
        #[arg(long, value_parser = read_teid)]
        teid: Option<Teid>,
        /// Of the user with this IMSI.
        #[arg(long, value_parser = read_imsi)]
        imsi: Option<Box<str>>,
        /// With this DNN or APN.
        #[arg(long)]
        dnn: Option<String>,
        /// Behind this SEID, as the table before said.
        #[arg(long, value_parser = read_seid)]
        after: Option<Seid>,
        /// Rows at most.
        #[arg(long, default_value_t = USUAL_PAGE, value_parser = limit)]
        limit: usize,
    },
    /// What is wrong now: alarms, the worst first.
    Alarms,
    /// Usage records: whether they are written, how many wait in memory, how many are lost.
    Records,
    /// The store of sessions: whether it is written, what it has, how many sessions have been restored.
    Store,
    /// One session: its rules, what they do now, what was counted.
    Session {
        /// Its local SEID, decimal or hexadecimal.
        #[arg(value_parser = read_seid)]
        seid: Seid,
    },
}

/// What is wanted of CG-NAT: all, unless it is said.
#[derive(Args, Clone, Debug, Default)]
struct NatWanted {
    /// A public address and port, such as 198.51.100.1:2600: the session that has it.
    endpoint: Option<SocketAddrV4>,
    /// The protocol: with its mapping.
    #[arg(requires = "endpoint")]
    protocol: Option<NatProtocol>,
    /// The network instance of the address, where several have it.
    #[arg(long, requires = "endpoint")]
    instance: Option<String>,
    /// Who had it at this time (RFC 3339, as 2026-11-27T18:00:00Z), by the log of port blocks of the configuration; or
    /// by that alone, if the pool is deterministic.
    #[arg(long, value_name = "TIME", requires = "endpoint", value_parser = humantime::parse_rfc3339_weak)]
    at: Option<SystemTime>,
    /// The mappings of the session with this local SEID, 1,000 at most.
    #[arg(long, value_name = "SEID", value_parser = read_seid, conflicts_with = "endpoint")]
    mappings: Option<Seid>,
}

/// A protocol that CG-NAT maps.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NatProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP queries: the port is their identifier.
    Icmp,
}

impl NatProtocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }
}

fn limit(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|limit| *limit > 0)
        .ok_or("must be a number from 1 on")
}

/// Asks the daemon and prints its answer. Exit status 1 when none answers or it refuses, 2 for a configuration with a
/// mistake.
#[must_use]
pub fn show(arguments: &ShowArguments) -> ExitCode {
    if matches!(arguments.what, What::Accelerator) {
        return show_accelerator(arguments);
    }
    let config = match arguments.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    if let Some(answer) = of_log(arguments, config.as_ref()) {
        return printed(answer);
    }
    let configured = config.and_then(|config| config.control.socket);
    let socket = arguments.socket.clone().or(configured).or_else(default_path);
    let Some(socket) = socket else {
        eprintln!("show: there is no default socket for this user: name one with --socket");
        return ExitCode::from(RUN_ERROR);
    };
    printed(answer(&socket, arguments.what.clone(), arguments.json))
}

/// The same of an accelerator: its socket has no default, and its configuration is another.
fn show_accelerator(arguments: &ShowArguments) -> ExitCode {
    let config = arguments.config.as_deref().map(AcceleratorNodeConfig::load);
    let configured = match config.transpose() {
        Ok(config) => config.and_then(|config| config.control.socket),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    let configured = configured.map(|socket| socket.value);
    let Some(socket) = arguments.socket.clone().or(configured) else {
        eprintln!(
            "show: name the accelerator's socket with --socket, or its configuration, with control.socket, by -c"
        );
        return ExitCode::from(RUN_ERROR);
    };
    printed(answer(&socket, What::Accelerator, arguments.json))
}

fn printed(answer: Result<String, impl Display>) -> ExitCode {
    match answer {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("show: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

/// The answer to what files alone are asked about.
fn of_log(arguments: &ShowArguments, config: Option<&Config>) -> Option<Result<String, String>> {
    let What::Nat(NatWanted {
        endpoint: Some(endpoint),
        at: Some(at),
        instance,
        ..
    }) = &arguments.what
    else {
        return None;
    };
    Some(match config {
        Some(config) => holder_at(config, *endpoint, instance.as_deref(), *at, arguments.json),
        None => Err("--at needs the configuration, by -c: it has nat.log.directory".into()),
    })
}

fn answer(socket: &Path, what: What, json: bool) -> Result<String, ClientError> {
    match what {
        What::Runtime => whole(socket, "/v1/runtime", json, Runtime::text),
        What::Ports => whole(socket, "/v1/ports", json, PortList::text),
        What::Paths => whole(socket, "/v1/paths", json, PathList::text),
        What::AccessLists => whole(socket, "/v1/access-lists", json, AccessLists::text),
        What::Applications => whole(socket, "/v1/applications", json, ApplicationList::text),
        What::Contents => whole(socket, "/v1/contents", json, ContentList::text),
        What::Nat(wanted) => nat(socket, wanted, json),
        What::Slices => whole(socket, "/v1/slices", json, SliceList::text),
        What::Queues => whole(socket, "/v1/queues", json, QueueList::text),
        What::Offload => whole(socket, "/v1/offload", json, OffloadStatus::text),
        What::Accelerator => whole(socket, ACCELERATOR_NODE, json, AcceleratorNodeStatus::text),
        What::Routes { after, limit } => {
            let rows = |list: &mut RouteList| (std::mem::take(&mut list.routes), list.next);
            let (routes, mut last) = numbered(socket, "/v1/routes", after, limit, rows)?;
            last.routes = routes;
            Ok(written(&last, json, RouteList::text))
        }
        What::Neighbours { after, limit } => {
            let mut own_addresses = Vec::new();
            let rows = |list: &mut NeighbourList| {
                own_addresses.append(&mut list.own_addresses);
                (std::mem::take(&mut list.neighbours), list.next)
            };
            let (neighbours, mut last) = numbered(socket, "/v1/neighbours", after, limit, rows)?;
            (last.own_addresses, last.neighbours) = (own_addresses, neighbours);
            Ok(written(&last, json, NeighbourList::text))
        }
        What::N4 => whole(socket, "/v1/n4", json, N4Status::text),
        What::Associations { after, limit } => {
            let rows = |list: &mut AssociationList| (std::mem::take(&mut list.associations), list.next);
            let (associations, mut list) = numbered(socket, "/v1/associations", after, limit, rows)?;
            list.associations = associations;
            Ok(written(&list, json, AssociationList::text))
        }
        What::Sessions {
            ue,
            seid,
            teid,
            imsi,
            dnn,
            after,
            limit,
        } => {
            let conditions = [
                ue.map(|ue| format!("ue={ue}&")),
                seid.map(|seid| format!("seid={}&", identifiers::seid(seid.0))),
                teid.map(|teid| format!("teid={}&", identifiers::teid(teid))),
                imsi.map(|imsi| format!("imsi={imsi}&")),
                dnn.map(|dnn| format!("dnn={}&", in_query(&dnn))),
            ];
            let conditions: String = conditions.into_iter().flatten().collect();
            let list = sessions(socket, &conditions, after, limit)?;
            Ok(written(&list, json, SessionList::text))
        }
        What::Alarms => whole(socket, "/v1/alarms", json, AlarmList::text),
        What::Records => whole(socket, "/v1/records", json, RecordsStatus::text),
        What::Store => whole(socket, "/v1/store", json, StoreStatus::text),
        What::Session { seid } => whole(
            socket,
            &format!("/v1/sessions/{}", identifiers::seid(seid.0)),
            json,
            SessionDetail::text,
        ),
    }
}

fn nat(socket: &Path, wanted: NatWanted, json: bool) -> Result<String, ClientError> {
    if let Some(seid) = wanted.mappings {
        let path = format!("/v1/nat/mappings?seid={}", identifiers::seid(seid.0));
        return whole(socket, &path, json, NatMappingList::text);
    }
    let Some(endpoint) = wanted.endpoint else {
        return whole(socket, "/v1/nat", json, NatStatus::text);
    };
    let (protocol, instance) = (wanted.protocol, wanted.instance);
    let conditions = [
        protocol.map(|protocol| format!("&protocol={}", protocol.name())),
        instance.map(|instance| format!("&instance={}", in_query(&instance))),
    ];
    let conditions: String = conditions.into_iter().flatten().collect();
    let (address, port) = (endpoint.ip(), endpoint.port());
    let path = format!("/v1/nat/owner?address={address}&port={port}{conditions}");
    whole(socket, &path, json, NatOwner::text)
}

/// What `sluice show` has of one thing.
#[cfg(feature = "bundle")]
pub(super) struct Shown {
    /// The command's word.
    pub(super) name: &'static str,
    /// For people.
    pub(super) text: Result<String, ClientError>,
    /// As the API has it.
    pub(super) json: Result<String, ClientError>,
}

/// All that can be shown without naming a session; with subscribers, sessions too. Of long tables the first rows.
#[cfg(feature = "bundle")]
pub(super) fn everything(socket: &Path, with_subscribers: bool) -> impl Iterator<Item = Shown> + '_ {
    /// Rows of a table.
    const MOST: usize = 10_000;
    let (after, limit) = (None, MOST);
    let sessions = What::Sessions {
        ue: None,
        seid: None,
        teid: None,
        imsi: None,
        dnn: None,
        after: None,
        limit,
    };
    let whats = [
        ("runtime", What::Runtime),
        ("ports", What::Ports),
        ("paths", What::Paths),
        ("routes", What::Routes { after, limit }),
        ("neighbours", What::Neighbours { after, limit }),
        ("n4", What::N4),
        ("associations", What::Associations { after, limit }),
        ("access_lists", What::AccessLists),
        ("applications", What::Applications),
        ("contents", What::Contents),
        ("nat", What::Nat(NatWanted::default())),
        ("offload", What::Offload),
        ("slices", What::Slices),
        ("queues", What::Queues),
        ("records", What::Records),
        ("store", What::Store),
    ];
    let sessions = with_subscribers.then_some(("sessions", sessions));
    whats.into_iter().chain(sessions).map(move |(name, what)| Shown {
        name,
        text: answer(socket, what.clone(), false),
        json: answer(socket, what, true),
    })
}

/// All that there is at a path.
fn whole<T: Serialize + serde::de::DeserializeOwned>(
    socket: &Path,
    path: &str,
    json: bool,
    text: impl Fn(&T) -> String,
) -> Result<String, ClientError> {
    Ok(written(&get(socket, path)?, json, text))
}

fn written<T: Serialize>(value: &T, json: bool, text: impl Fn(&T) -> String) -> String {
    if json {
        // Plain values always have a JSON form.
        serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
    } else {
        text(value)
    }
}

/// As many rows as are wanted of what has numbers, page by page; and the last page, without its own. `rows` takes those
/// out of a page and returns where the next begins.
fn numbered<L: serde::de::DeserializeOwned, R>(
    socket: &Path,
    what: &str,
    after: Option<u32>,
    limit: usize,
    mut rows: impl FnMut(&mut L) -> (Vec<R>, Option<u32>),
) -> Result<(Vec<R>, L), ClientError> {
    let (mut all, mut after) = (Vec::new(), after);
    loop {
        let most = (limit - all.len()).min(LONGEST_PAGE);
        let behind = after.map(|after| format!("after={after}&")).unwrap_or_default();
        let mut list: L = get(socket, &format!("{what}?{behind}limit={most}"))?;
        let (more, next) = rows(&mut list);
        all.extend(more);
        if next.is_none() || all.len() >= limit {
            return Ok((all, list));
        }
        after = next;
    }
}

/// As many sessions as are wanted, page by page.
fn sessions(
    socket: &Path,
    conditions: &str,
    after: Option<Seid>,
    limit: usize,
) -> Result<SessionList, ClientError> {
    let page = |after: Option<&str>, most: usize| {
        let after = after.map(|after| format!("after={after}&")).unwrap_or_default();
        get::<SessionList>(socket, &format!("/v1/sessions?{conditions}{after}limit={most}"))
    };
    let after = after.map(|seid| identifiers::seid(seid.0));
    let mut list = page(after.as_deref(), limit.min(LONGEST_PAGE))?;
    while let Some(next) = list.next.take_if(|_| list.sessions.len() < limit) {
        let more = page(Some(&next), (limit - list.sessions.len()).min(LONGEST_PAGE))?;
        list.sessions.extend(more.sessions);
        list.next = more.next;
    }
    Ok(list)
}
