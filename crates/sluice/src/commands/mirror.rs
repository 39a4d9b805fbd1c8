//! `sluice mirror`: copies of packets of a running daemon, to a port or to a host that analyses them, as long as this
//! runs.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};
use hyper::Method;
use worker::MOST_COPIED;

use super::conditions::{Conditions, escaped};
use super::trace::{Failure, socket_of};
use oam::rest::{ApiRequest, stream};
use trace::{TraceLine, TraceSummary};

/// `sluice mirror`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("to").required(true).args(["to_port", "to_gre", "to_vxlan"])))]
pub struct MirrorArguments {
    /// The configuration.
    #[arg(short, long)]
    config: Option<PathBuf>,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long)]
    socket: Option<PathBuf>,
    #[command(flatten)]
    conditions: Conditions,
    /// Copies go to this port as they are.
    #[arg(long)]
    to_port: Option<String>,
    /// Copies go to this address in GRE.
    #[arg(long, requires = "by")]
    to_gre: Option<IpAddr>,
    /// GRE's key.
    #[arg(long, requires = "to_gre")]
    key: Option<u32>,
    /// Copies go to this address in VXLAN.
    #[arg(long, requires_all = ["by", "vni"])]
    to_vxlan: Option<IpAddr>,
    /// VXLAN's network identifier.
    #[arg(long, requires = "to_vxlan", value_parser = clap::value_parser!(u32).range(0..=16_777_215))]
    vni: Option<u32>,
    /// The network instance whose address copies come from, and whose routes lead to the other end.
    #[arg(long, conflicts_with = "to_port")]
    by: Option<String>,
    /// Which packets: as they came in, as they leave, or both.
    #[arg(long, value_enum, default_value_t = Which::Received)]
    which: Which,
    /// Packets of each worker at most.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Seconds at most.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Packets a second at most, of each worker.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Octets of each packet that are copied.
    #[arg(long, default_value_t = MOST_COPIED, value_parser = clap::value_parser!(u16).range(64..=i64::from(MOST_COPIED)))]
    snap: u16,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Received,
    Sent,
    Both,
}

/// Mirrors. Exit status 1 when that cannot be done, 2 for a configuration with a mistake.
#[must_use]
pub fn mirror(arguments: &MirrorArguments) -> ExitCode {
    match run(arguments) {
        Ok(summary) => {
            eprint!("{}", summary.text());
            ExitCode::SUCCESS
        }
        Err(failure) => failure.exit("mirror"),
    }
}

fn run(arguments: &MirrorArguments) -> Result<TraceSummary, Failure> {
    let socket = socket_of(arguments.socket.as_deref(), arguments.config.as_deref())?;
    let mut summary = None;
    let request = ApiRequest {
        method: Method::POST,
        target: &target(arguments),
    };
    let told = stream(&socket, request, |line| {
        if let Ok(TraceLine::End(end)) = serde_json::from_str(line) {
            summary = Some(end);
        }
        summary.is_none()
    });
    told.map_err(Failure::run)?;
    summary.ok_or_else(|| Failure::Run("the daemon ended before the mirror".into()))
}

fn target(arguments: &MirrorArguments) -> String {
    let which = match arguments.which {
        Which::Received => "received",
        Which::Sent => "sent",
        Which::Both => "both",
    };
    let given = [
        arguments
            .to_port
            .as_deref()
            .map(|port| format!("to_port={}&", escaped(port))),
        arguments.to_gre.map(|address| format!("to_gre={address}&")),
        arguments.key.map(|key| format!("key={key}&")),
        arguments.to_vxlan.map(|address| format!("to_vxlan={address}&")),
        arguments.vni.map(|vni| format!("vni={vni}&")),
        arguments.by.as_deref().map(|by| format!("by={}&", escaped(by))),
        arguments.count.map(|count| format!("count={count}&")),
    ];
    let given: String = given.into_iter().flatten().collect();
    format!(
        "/v1/mirror?{}{given}which={which}&seconds={}&rate={}&snap={}",
        arguments.conditions.query(),
        arguments.seconds,
        arguments.rate,
        arguments.snap
    )
}
