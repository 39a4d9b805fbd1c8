//! `sluice sim`: SMF, gNBs, UEs and data network against a running user plane, ours or another's, over the kernel's
//! sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use sim::net::{Config, Outcome};
use sim::smf;
use sim::traffic::{Sizes, Traffic};

use super::status::RUN_ERROR;

/// What the simulator does. It sends only to the addresses given here and to the UEs', and stops by itself.
#[derive(Args, Clone, Debug)]
pub struct SimArguments {
    /// The user plane's N4 address.
    #[arg(long)]
    upf_n4: IpAddr,
    /// The user plane's N4 port.
    #[arg(long, default_value_t = 8805)]
    upf_n4_port: u16,
    /// The user plane's N3 address: sessions with an F-TEID elsewhere end the run.
    #[arg(long)]
    upf_n3: IpAddr,
    /// This SMF's own address.
    #[arg(long)]
    smf: IpAddr,
    /// This gNB's own address.
    #[arg(long)]
    gnb: IpAddr,
    /// This data network's own address, which UEs talk to. It must route the UEs' addresses to the user plane's N6.
    #[arg(long)]
    server: Ipv4Addr,
    /// The first UE's address; the others follow.
    #[arg(long, default_value = "10.45.0.1")]
    ue: Ipv4Addr,
    /// Network instance of N3.
    #[arg(long, default_value = "access")]
    access_instance: String,
    /// Network instance of N6.
    #[arg(long, default_value = "internet")]
    core_instance: String,
    /// PDU sessions.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_000))]
    sessions: u32,
    /// Packets a second, both directions together.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: u64,
    /// Octets of each user packet.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u16).range(60..=1_400))]
    size: u16,
    /// Seconds of traffic.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// End with one line of JSON.
    #[arg(long)]
    json: bool,
}

impl SimArguments {
    fn config(&self) -> Config {
        let mut control = smf::Config::new(self.smf, self.sessions);
        control.profile.gnbs = vec![self.gnb];
        control.profile.ue_ipv4 = self.ue;
        control.profile.access_instance.clone_from(&self.access_instance);
        control.profile.core_instance.clone_from(&self.core_instance);
        let mut config = Config::new(control, self.upf_n4, self.upf_n3);
        config.upf_n4.set_port(self.upf_n4_port);
        config.server_ipv4 = Some(self.server);
        config.time = Duration::from_secs(self.seconds);
        config.traffic = Traffic {
            rate: self.rate,
            uplink_share: 500,
            uplink_sizes: Sizes::fixed(self.size),
            downlink_sizes: Sizes::fixed(self.size),
            ..Traffic::default()
        };
        config
    }
}

/// Runs the simulator. Exit status 1 when it could not run, or when a packet was lost.
#[must_use]
pub fn sim(arguments: &SimArguments) -> ExitCode {
    match sim::net::run(arguments.config()) {
        Ok(outcome) => {
            println!("{}", outcome.report);
            if arguments.json {
                println!("{}", json(&outcome));
            }
            let lost = outcome.report.uplink.lost + outcome.report.downlink.lost;
            ExitCode::from(if lost == 0 { 0 } else { RUN_ERROR })
        }
        Err(error) => {
            eprintln!("sim: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

fn json(outcome: &Outcome) -> serde_json::Value {
    let usage = outcome.n4.usage;
    json!({
        "sessions": outcome.report.sessions,
        "ul_sent": outcome.report.uplink.counts.sent,
        "dl_sent": outcome.report.downlink.counts.sent,
        "ul_lost": outcome.report.uplink.lost,
        "dl_lost": outcome.report.downlink.lost,
        "usage_octets": {"uplink": usage.uplink_octets, "downlink": usage.downlink_octets},
    })
}
