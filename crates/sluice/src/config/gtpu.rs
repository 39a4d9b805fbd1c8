//! GTP-U as a whole: how paths are supervised, and when peers are told of unknown tunnels.

use std::time::Duration;

use serde::Deserialize;

use super::Bounded;

/// GTP-U (TS 29.281).
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GtpuConfig {
    /// Supervision of paths by echo; absent: peers are not asked.
    #[serde(default)]
    pub echo: Option<EchoConfig>,
    /// Seconds after the start in which G-PDUs of unknown tunnels get no Error Indication, so that SMFs can restore
    /// sessions under the F-TEIDs that they had (TS 23.527 §4.3.2); none.
    #[serde(default)]
    pub restoration_s: Option<Bounded<0, 3_600>>,
    /// Seconds for which it is believed that a path has a smaller MTU than our links, as routers tell; 600. 0: never.
    #[serde(default)]
    pub path_mtu_s: Option<Bounded<0, 86_400>>,
}

impl GtpuConfig {
    /// [`path_mtu_s`](Self::path_mtu_s) as a time; RFC 1191 §6.3 has ten minutes.
    #[must_use]
    pub fn path_mtu_age(&self) -> Duration {
        Duration::from_secs(self.path_mtu_s.map_or(600, Bounded::value))
    }

    /// [`restoration_s`](Self::restoration_s) as a time.
    #[must_use]
    pub fn restoration(&self) -> Duration {
        Duration::from_secs(self.restoration_s.map_or(0, Bounded::value))
    }
}

/// Echo Requests to the peers that sessions send to; failures and recoveries are told to the SMFs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoConfig {
    /// Seconds between two questions to a peer that answers; 60 (TS 29.281 §7.2.1: no fewer).
    #[serde(default = "EchoConfig::default_interval")]
    pub interval_s: Bounded<60, 3_600>,
    /// T3: seconds to wait for an answer; 3.
    #[serde(default = "EchoConfig::default_t3")]
    pub t3_s: Bounded<1, 20>,
    /// N3: questions without an answer until the path has failed; 5.
    #[serde(default = "EchoConfig::default_n3")]
    pub n3: Bounded<1, 10>,
    /// Paths that are supervised at most; 16384. More are counted.
    #[serde(default = "EchoConfig::default_paths")]
    pub max_paths: Bounded<1, 1_048_576>,
}

impl EchoConfig {
    const fn default_interval() -> Bounded<60, 3_600> {
        Bounded::new(60)
    }
    const fn default_t3() -> Bounded<1, 20> {
        Bounded::new(3)
    }
    const fn default_n3() -> Bounded<1, 10> {
        Bounded::new(5)
    }
    const fn default_paths() -> Bounded<1, 1_048_576> {
        Bounded::new(16_384)
    }

    /// As the endpoint takes it.
    #[must_use]
    pub fn supervision(&self) -> n4::PathSupervision {
        n4::PathSupervision {
            interval: Duration::from_secs(self.interval_s.value()),
            t3: Duration::from_secs(self.t3_s.value()),
            n3: self.n3.value() as u32,
            most: self.max_paths.size(),
        }
    }
}
