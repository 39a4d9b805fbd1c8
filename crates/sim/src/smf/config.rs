//! Configuration of the simulated SMF: number, rate and profile of its sessions.

use crate::path::TunnelEnd;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The PDU session type (TS 23.501 §5.6.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PduType {
    /// One IPv4 address.
    Ipv4,
    /// One IPv6 /64 prefix.
    Ipv6,
    /// Both.
    Ipv4v6,
}

impl PduType {
    pub(crate) fn has_ipv4(self) -> bool {
        self != PduType::Ipv6
    }

    pub(crate) fn has_ipv6(self) -> bool {
        self != PduType::Ipv4
    }
}

/// How the downlink FAR comes to its tunnel: real SMFs know the gNB's F-TEID only after the establishment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownlinkSetup {
    /// The establishment has the gNB's F-TEID; no modification follows.
    AtOnce,
    /// Established as DROP, then modified to FORW with the tunnel.
    FromDrop,
    /// Established as BUFF and NOCP without forwarding parameters, then modified.
    FromBuffer,
    /// Established as FORW without an outer header, then modified.
    FromNoTunnel,
}

/// Which address families an uplink F-TEID is chosen with: the flags beside CHOOSE (TS 29.244 §8.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChooseFlags {
    /// The gNBs' family.
    Matching,
    /// V4 and V6.
    Both,
    /// Neither.
    Neither,
}

/// Profile of the sessions. Session n (from 0) is at gNB n modulo the number of gNBs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionProfile {
    /// Which addresses its UE has.
    pub pdu_type: PduType,
    /// The IPv4 address of session 0's UE; session n has the n-th after it.
    pub ue_ipv4: Ipv4Addr,
    /// The /64 prefix of session 0's UE; session n has the n-th after it. The UE's address in it ends in 1.
    pub ue_ipv6: Ipv6Addr,
    /// Network instance of N3, at most [`MAX_NAME`] octets.
    pub access_instance: String,
    /// Network instance of N6, at most [`MAX_NAME`] octets.
    pub core_instance: String,
    /// The gNBs' GTP-U addresses: 1 to [`MAX_GNBS`], of one family.
    pub gnbs: Vec<IpAddr>,
    /// The downlink TEID of session 0; session n has the n-th after it. Not 0.
    pub first_teid: u32,
    /// How the uplink F-TEID is chosen.
    pub choose: ChooseFlags,
    /// CHOOSE ID of the uplink F-TEID, if one is sent.
    pub choose_id: Option<u8>,
    /// How the downlink tunnel is set up.
    pub downlink: DownlinkSetup,
    /// QFI of the QER and of the uplink PDI, 0 to 63.
    pub qfi: u8,
    /// Maximum bit rates of the QER, uplink and downlink, in kbit/s; `None`: no MBR IE.
    pub mbr: Option<(u64, u64)>,
    /// The QER Correlation ID of all QERs: the sessions keep the rates together. They mark no QoS flow then, as where
    /// UEs are in EPC.
    pub correlation: Option<u32>,
    /// An SDF filter of both PDRs, as flow description written for downlink; at most [`MAX_SDF`] octets.
    pub sdf: Option<String>,
    /// Volume threshold of the URR in octets; `None`: no URR.
    pub volume_threshold: Option<u64>,
    /// A second QoS flow in the same tunnel, with PDRs, FARs, QER and URR of its own, before the first in precedence.
    pub second_flow: Option<QosFlow>,
    /// Whom the sessions are for; `None`: neither User ID nor APN/DNN.
    pub subscribers: Option<Subscribers>,
}

/// Whom sessions are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribers {
    /// The IMSI of session 0, a number of at most 15 digits; session n has the n-th after it.
    pub first_imsi: u64,
    /// The DNN, at most [`MAX_NAME`] octets, each label 1 to 63 octets.
    pub dnn: String,
}

/// A QoS flow of a session beside its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosFlow {
    /// Its QFI, 0 to 63.
    pub qfi: u8,
    /// The SDF filter of its PDRs, as [`SessionProfile::sdf`].
    pub sdf: String,
}

impl Default for SessionProfile {
    fn default() -> SessionProfile {
        SessionProfile {
            pdu_type: PduType::Ipv4,
            ue_ipv4: Ipv4Addr::new(10, 45, 0, 1),
            ue_ipv6: Ipv6Addr::new(0x2001, 0xdb8, 0x45, 0, 0, 0, 0, 0),
            access_instance: "access".into(),
            core_instance: "internet".into(),
            gnbs: vec![Ipv4Addr::new(192, 0, 2, 2).into()],
            first_teid: 1,
            choose: ChooseFlags::Matching,
            choose_id: None,
            downlink: DownlinkSetup::FromDrop,
            qfi: 9,
            mbr: None,
            correlation: None,
            sdf: None,
            volume_threshold: Some(1 << 40),
            second_flow: None,
            subscribers: None,
        }
    }
}

impl SessionProfile {
    /// The IPv4 address of the UE of session `index`, if it has one.
    pub fn ue_ipv4(&self, index: u32) -> Option<Ipv4Addr> {
        let address = Ipv4Addr::from_bits(self.ue_ipv4.to_bits().wrapping_add(index));
        self.pdu_type.has_ipv4().then_some(address)
    }

    /// The IPv6 address of the UE of session `index`, if it has one. The UPF receives its /64 prefix.
    pub fn ue_ipv6(&self, index: u32) -> Option<Ipv6Addr> {
        let prefix = (self.ue_ipv6.to_bits() >> 64).wrapping_add(u128::from(index));
        self.pdu_type
            .has_ipv6()
            .then_some(Ipv6Addr::from_bits(prefix << 64 | 1))
    }

    /// The gNB's end of the downlink tunnel of session `index`.
    pub fn gnb(&self, index: u32) -> TunnelEnd {
        TunnelEnd {
            address: self.gnbs[index as usize % self.gnbs.len()],
            teid: packet::Teid(self.first_teid.wrapping_add(index)),
        }
    }
}

/// How the SMF names itself (TS 29.244 §8.2.38).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    /// By an address.
    Address(IpAddr),
    /// By a dotted name, at most [`MAX_NAME`] octets, each label 1 to 63 octets.
    Fqdn(String),
}

/// Configuration of an SMF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its Node ID.
    pub node_name: NodeName,
    /// The address in its F-SEIDs.
    pub address: IpAddr,
    /// When it started, seconds since 1970-01-01: its Recovery Time Stamp.
    pub started: u64,
    /// How many sessions, 1 to [`MAX_SESSIONS`].
    pub sessions: u32,
    /// Most session requests that wait for their responses, 1 to [`MAX_WINDOW`].
    pub window: u16,
    /// Time until a request is sent again (T1, TS 29.244 §6.4), 1 ms to 60 s.
    pub t1: Duration,
    /// How often a request is sent again (N1), 0 to 20.
    pub n1: u8,
    /// How often a heartbeat is sent while associated; `None`: never.
    pub heartbeat: Option<Duration>,
    /// Profile of the sessions.
    pub profile: SessionProfile,
}

impl Config {
    /// An SMF at `address` that wants `sessions` of the default profile, 32 requests at a time.
    pub fn new(address: IpAddr, sessions: u32) -> Config {
        Config {
            node_name: NodeName::Address(address),
            address,
            started: 1_700_000_000,
            sessions,
            window: 32,
            t1: Duration::from_secs(1),
            n1: 3,
            heartbeat: None,
            profile: SessionProfile::default(),
        }
    }
}

/// Most sessions of one SMF.
pub const MAX_SESSIONS: u32 = 1 << 22;
/// Most outstanding session requests.
pub const MAX_WINDOW: u16 = 1024;
/// Longest name, octets.
pub const MAX_NAME: usize = 100;
/// Longest flow description, octets.
pub const MAX_SDF: usize = 400;
/// Most gNBs.
pub const MAX_GNBS: usize = 1024;

/// A field of a [`Config`] that is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigError {
    /// Which.
    pub field: &'static str,
    /// The bound.
    pub must: &'static str,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} must be {}", self.field, self.must)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Checks all bounds.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |holds: bool, field, must| {
            if holds {
                Ok(())
            } else {
                Err(ConfigError { field, must })
            }
        };
        let timer = Duration::from_millis(1)..=Duration::from_secs(60);
        check(
            (1..=MAX_SESSIONS).contains(&self.sessions),
            "sessions",
            "1 to 4194304",
        )?;
        check((1..=MAX_WINDOW).contains(&self.window), "window", "1 to 1024")?;
        check(timer.contains(&self.t1), "t1", "1 ms to 60 s")?;
        check(self.n1 <= 20, "n1", "0 to 20")?;
        check(
            self.heartbeat.is_none_or(|every| timer.contains(&every)),
            "heartbeat",
            "1 ms to 60 s",
        )?;
        check(
            self.node_name_fits(),
            "node_name",
            "at most 100 octets, in labels of 1 to 63",
        )?;
        self.profile.validate(self.sessions)
    }

    fn node_name_fits(&self) -> bool {
        match &self.node_name {
            NodeName::Address(_) => true,
            NodeName::Fqdn(name) => labels_fit(name),
        }
    }
}

/// Whether a name can be written in DNS labels.
fn labels_fit(name: &str) -> bool {
    name.len() <= MAX_NAME && name.split('.').all(|label| (1..=63).contains(&label.len()))
}

/// The greatest IMSI (TS 23.003 §2.2).
const LAST_IMSI: u64 = 999_999_999_999_999;

impl SessionProfile {
    fn validate(&self, sessions: u32) -> Result<(), ConfigError> {
        let check = |holds: bool, field, must| {
            if holds {
                Ok(())
            } else {
                Err(ConfigError { field, must })
            }
        };
        let last = sessions.saturating_sub(1);
        let name_fits = |name: &str| name.len() <= MAX_NAME;
        if let Some(Subscribers { first_imsi, dnn }) = &self.subscribers {
            let end = first_imsi.saturating_add(last.into());
            check(
                end <= LAST_IMSI,
                "first_imsi",
                "15 digits at most, for all sessions",
            )?;
            check(labels_fit(dnn), "dnn", "at most 100 octets, in labels of 1 to 63")?;
        }
        check(
            name_fits(&self.access_instance),
            "access_instance",
            "at most 100 octets",
        )?;
        check(
            name_fits(&self.core_instance),
            "core_instance",
            "at most 100 octets",
        )?;
        check(
            (1..=MAX_GNBS).contains(&self.gnbs.len()),
            "gnbs",
            "1 to 1024 addresses",
        )?;
        let one_family = self
            .gnbs
            .iter()
            .all(|gnb| gnb.is_ipv4() == self.gnbs[0].is_ipv4());
        check(one_family, "gnbs", "of one address family")?;
        let teids = self.first_teid != 0 && self.first_teid.checked_add(last).is_some();
        check(teids, "first_teid", "at least 1 and leave room for all sessions")?;
        let room = self.ue_ipv4.to_bits().checked_add(last).is_some();
        check(room, "ue_ipv4", "low enough for all sessions")?;
        check(self.qfi <= 63, "qfi", "0 to 63")?;
        let sdf_fits = self.sdf.as_ref().is_none_or(|sdf| sdf.len() <= MAX_SDF);
        check(sdf_fits, "sdf", "at most 400 octets")?;
        let second = self.second_flow.as_ref();
        let second_fits = second.is_none_or(|flow| flow.qfi <= 63 && flow.sdf.len() <= MAX_SDF);
        check(
            second_fits,
            "second_flow",
            "of a QFI of 0 to 63 and at most 400 octets",
        )
    }
}
