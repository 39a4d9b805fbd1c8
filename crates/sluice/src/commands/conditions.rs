//! Which packets `sluice trace` and `sluice mirror` are about.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use clap::Args;
use flow::PortId;
use packet::Teid;
use session::Seid;
use worker::{TraceFilter, TraceFlow};

use trace::read_flow;
use upf::identifiers::{self, read_seid, read_teid};

/// Conditions that packets meet; several mean all of them, none every packet.
#[derive(Args, Clone, Debug)]
pub struct Conditions {
    /// Packets from or for this address, and those of the session that has it.
    #[arg(long)]
    pub(super) ue: Option<IpAddr>,
    /// Packets that come in a tunnel with this TEID or leave in one.
    #[arg(long, value_parser = read_teid)]
    pub(super) teid: Option<Teid>,
    /// Packets of the session with this local SEID.
    #[arg(long, value_parser = read_seid)]
    pub(super) seid: Option<Seid>,
    /// Packets of this flow, in either direction: `tcp 10.45.0.2:4000 192.0.2.1:443`.
    #[arg(long, value_parser = read_flow)]
    pub(super) flow: Option<TraceFlow>,
    /// Packets that come in by this port or leave by it.
    #[arg(long)]
    pub(super) port: Option<String>,
}

impl Conditions {
    /// For a user plane of this process.
    pub(super) fn filter(&self, port: Option<PortId>) -> TraceFilter {
        TraceFilter {
            ue: self.ue,
            teid: self.teid,
            seid: self.seid.map(|seid| seid.0),
            flow: self.flow,
            port,
        }
    }

    /// As the query of a daemon's API; each ends in `&`.
    pub(super) fn query(&self) -> String {
        let mut query = String::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(query, "{name}={value}&");
            }
        };
        add("ue", self.ue.map(|ue| ue.to_string()));
        add("teid", self.teid.map(identifiers::teid));
        add("seid", self.seid.map(|seid| identifiers::seid(seid.0)));
        add("flow", self.flow.map(flow_in_query));
        add("port", self.port.as_deref().map(escaped));
        query
    }
}

fn flow_in_query(flow: TraceFlow) -> String {
    let [one, other] = flow.ends.map(|(address, port)| match port {
        0 => address.to_string(),
        port => escaped(&SocketAddr::new(address, port).to_string()),
    });
    format!("{},{one},{other}", flow.proto)
}

/// A name in a query.
pub(super) fn escaped(name: &str) -> String {
    let octet = |octet: u8| match octet {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' => char::from(octet).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(octet).collect()
}
