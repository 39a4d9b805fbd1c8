//! Where the sockets are, and how much is sent for how long.

use crate::path::GTPU_PORT;
use crate::smf;
use crate::traffic::Traffic;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Highest rate, packets per second.
pub const MAX_RATE: u64 = 10_000_000;
/// Longest run.
pub const MAX_TIME: Duration = Duration::from_secs(86_400);
/// Longest wait for packets in transit at the end.
pub const MAX_DRAIN: Duration = Duration::from_secs(60);
/// Most gNB sockets.
pub const MAX_GNB_SOCKETS: usize = 64;

/// A run against a user plane over sockets. Nothing is sent but to [`upf_n4`](Config::upf_n4),
/// [`upf_n3`](Config::upf_n3), and the UEs' addresses of the [profile](smf::SessionProfile).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The SMF. Its profile's gNB addresses are those of the gNBs' sockets.
    pub smf: smf::Config,
    /// Where the SMF's socket is bound; port 0 takes any.
    pub n4: SocketAddr,
    /// The user plane's N4 address.
    pub upf_n4: SocketAddr,
    /// The user plane's N3 address: sessions whose F-TEID has another one end the run.
    pub upf_n3: IpAddr,
    /// The user plane's GTP-U port. Default 2152.
    pub upf_gtpu_port: u16,
    /// The gNBs' GTP-U port. Default 2152; 0 takes any.
    pub gnb_port: u16,
    /// The server that IPv4 UEs talk to, if there are any: bound here, in the data network.
    pub server_ipv4: Option<Ipv4Addr>,
    /// The server that IPv6 UEs talk to, if there are any.
    pub server_ipv6: Option<Ipv6Addr>,
    /// The servers' UDP port; 0 takes any.
    pub server_port: u16,
    /// The first UDP port of each UE.
    pub ue_port: u16,
    /// How many ports each UE uses in turn.
    pub ue_ports: u16,
    /// How much is sent; the rate at most [`MAX_RATE`].
    pub traffic: Traffic,
    /// For how long, at most [`MAX_TIME`].
    pub time: Duration,
    /// Wait for packets in transit at the end, at most [`MAX_DRAIN`].
    pub drain: Duration,
}

impl Config {
    /// A run against the user plane at `upf_n4` and `upf_n3`, with the usual ports: 8805 for the user plane's N4, any
    /// for the SMF's, 2152 for GTP-U; ten seconds of the default traffic.
    pub fn new(smf: smf::Config, upf_n4: IpAddr, upf_n3: IpAddr) -> Config {
        Config {
            n4: SocketAddr::new(smf.address, 0),
            upf_n4: SocketAddr::new(upf_n4, pfcp::PORT),
            upf_n3,
            upf_gtpu_port: GTPU_PORT,
            gnb_port: GTPU_PORT,
            server_ipv4: None,
            server_ipv6: None,
            server_port: 5001,
            ue_port: 40_000,
            ue_ports: 1,
            traffic: Traffic {
                rate: 1000,
                ..Traffic::default()
            },
            time: Duration::from_secs(10),
            drain: Duration::from_millis(500),
            smf,
        }
    }

    pub(super) fn validate(&self) -> Result<(), smf::ConfigError> {
        let check = |holds: bool, field, must| {
            if holds {
                Ok(())
            } else {
                Err(smf::ConfigError { field, must })
            }
        };
        self.smf.validate()?;
        let profile = &self.smf.profile;
        let gnbs = profile.gnbs.len() <= MAX_GNB_SOCKETS;
        check(gnbs, "gnbs", "at most 64 addresses")?;
        check(
            self.traffic.rate <= MAX_RATE,
            "rate",
            "at most 10000000 packets per second",
        )?;
        check(self.time <= MAX_TIME, "time", "at most 24 hours")?;
        check(self.drain <= MAX_DRAIN, "drain", "at most 60 s")?;
        let (ipv4, ipv6) = (profile.pdu_type.has_ipv4(), profile.pdu_type.has_ipv6());
        check(
            !ipv4 || self.server_ipv4.is_some(),
            "server_ipv4",
            "given for IPv4 UEs",
        )?;
        check(
            !ipv6 || self.server_ipv6.is_some(),
            "server_ipv6",
            "given for IPv6 UEs",
        )?;
        let same = profile
            .gnbs
            .first()
            .is_some_and(|gnb| gnb.is_ipv4() == self.upf_n3.is_ipv4());
        check(same, "upf_n3", "of the gNBs' address family")
    }
}
