//! GTP-U as a whole: how paths are supervised, and when peers receive Error Indications.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounded::Bounded;

/// GTP-U (TS 29.281).
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GtpuConfig {
    /// Supervision of paths by echo; absent: peers are not asked.
    #[serde(default)]
    pub echo: Option<EchoConfig>,
    /// Seconds after the start in which SMFs, SGW-Cs and PGW-Cs may restore sessions under the F-TEIDs that they had
    /// (TS 23.527 §4.3.2): G-PDUs of unknown tunnels get no Error Indication, and F-TEIDs that we may have given before
    /// are taken, also without the indication (RESTI) that a session is restored; 30. 0: neither.
    #[serde(default)]
    pub restoration_s: Option<Bounded<0, 3_600>>,
    /// Seconds for which it is believed that a path has a smaller MTU than our links, as routers report; 600. 0: never.
    #[serde(default)]
    pub path_mtu_s: Option<Bounded<0, 86_400>>,
    /// Octets: the least MTU of a path that is believed, less is taken for as much; 1280, which IPv6 has for its least.
    #[serde(default)]
    pub path_mtu_least: Option<Bounded<576, 9_216>>,
    /// Seconds after the last report of a QoS flow for which packets are marked for L4S on behalf of the RAN; 10.
    /// 0: until the next report, whenever that comes.
    #[serde(default)]
    pub ran_congestion_s: Option<Bounded<0, 3_600>>,
    /// Echo Requests of peers that are answered a second, by each worker.
    #[serde(default)]
    pub answers: AnswersConfig,
}

/// How many Echo Requests are answered a second, by each worker, and at once after a pause; others are dropped
/// (`rate_limited`). A peer asks once in 60 s (TS 29.281 §7.2.1).
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AnswersConfig {
    /// Those of one source; 10.
    #[serde(default)]
    pub per_source_s: Option<Bounded<1, 1_000_000>>,
    /// Those of all sources together that no session sends to; 1000. Peers that sessions send to come beside them.
    #[serde(default)]
    pub others_s: Option<Bounded<1, 1_000_000>>,
}

impl AnswersConfig {
    /// As a worker takes them: those of others together, and those of one source.
    #[must_use]
    pub fn rates(&self) -> (u32, u32) {
        let rate =
            |rate: Option<Bounded<1, 1_000_000>>, usual| rate.map_or(usual, |rate| rate.value() as u32);
        (rate(self.others_s, 1_000), rate(self.per_source_s, 10))
    }
}

impl GtpuConfig {
    /// [`path_mtu_s`](Self::path_mtu_s) as a time; RFC 1191 §6.3 has ten minutes.
    #[must_use]
    pub fn path_mtu_age(&self) -> Duration {
        Duration::from_secs(self.path_mtu_s.map_or(600, Bounded::value))
    }

    /// [`path_mtu_least`](Self::path_mtu_least) as a number.
    #[must_use]
    pub fn least_path_mtu(&self) -> u16 {
        self.path_mtu_least.map_or(1_280, |least| least.value() as u16)
    }

    /// [`ran_congestion_s`](Self::ran_congestion_s) as a time; `None`: no end.
    #[must_use]
    pub fn ran_congestion_age(&self) -> Option<Duration> {
        let seconds = self.ran_congestion_s.map_or(10, Bounded::value);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// [`restoration_s`](Self::restoration_s) as a time.
    #[must_use]
    pub fn restoration(&self) -> Duration {
        Duration::from_secs(self.restoration_s.map_or(30, Bounded::value))
    }
}

/// Echo Requests to the peers that sessions send to; failures and recoveries are reported to the SMFs.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
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
