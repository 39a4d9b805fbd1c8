//! Flows: who may have how many, how long they stay, and what waits: fragments, packets for idle UEs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;
use worker::{BufferLimits, FlowLimits, FragmentLimits, IdleTimes, ReassemblyLimits};

use crate::bounded::Bounded;

/// Seconds that a flow entry may idle: up to 4.9 hours.
type IdleSeconds = Bounded<1, 17_590>;

/// Limits and idle times of flow entries. A flow over a limit is forwarded without an entry: each of its packets takes
/// the slow path, within its budget.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowsConfig {
    /// Flow entries of one session, both directions together; 0: no limit; 4096.
    #[serde(default = "FlowsConfig::default_per_session")]
    pub per_session: Bounded<0, 16_777_216>,
    /// Flow entries a second that one session may set up, and as many at once after a pause; 0: no limit; 1000.
    #[serde(default = "FlowsConfig::default_session_rate")]
    pub setups_per_session_s: Bounded<0, 10_000_000>,
    /// Flow entries a second that all sessions may set up, in equal shares of the workers; 0: no limit; 0.
    #[serde(default = "FlowsConfig::default_rate")]
    pub setups_s: Bounded<0, 1_000_000_000>,
    /// Seconds that entries may idle.
    #[serde(default)]
    pub idle_s: IdleConfig,
}

impl FlowsConfig {
    const fn default_per_session() -> Bounded<0, 16_777_216> {
        Bounded::new(4096)
    }
    const fn default_session_rate() -> Bounded<0, 10_000_000> {
        Bounded::new(1000)
    }
    const fn default_rate() -> Bounded<0, 1_000_000_000> {
        Bounded::new(0)
    }

    /// The limits of one of `workers` workers.
    #[must_use]
    pub fn limits(&self, workers: usize) -> FlowLimits {
        let rate = self.setups_s.value().div_ceil(workers.max(1) as u64);
        FlowLimits {
            per_session: self.per_session.value() as u32,
            session_rate: self.setups_per_session_s.value() as u32,
            rate: rate as u32,
        }
    }
}

impl Default for FlowsConfig {
    fn default() -> Self {
        Self {
            per_session: Self::default_per_session(),
            setups_per_session_s: Self::default_session_rate(),
            setups_s: Self::default_rate(),
            idle_s: IdleConfig::default(),
        }
    }
}

/// How long a flow entry may idle, in seconds. The first four are for entries of one 5-tuple.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IdleConfig {
    /// TCP connections; 7440 (RFC 5382 REQ-5).
    #[serde(default = "IdleConfig::default_tcp_established")]
    pub tcp_established: IdleSeconds,
    /// TCP connections that open or close, and TCP towards UEs; 240 (RFC 5382 REQ-5).
    #[serde(default = "IdleConfig::default_tcp_transitory")]
    pub tcp_transitory: IdleSeconds,
    /// UDP; 300 (RFC 4787 REQ-5).
    #[serde(default = "IdleConfig::default_udp")]
    pub udp: IdleSeconds,
    /// ICMP; 60 (RFC 5508 REQ-2).
    #[serde(default = "IdleConfig::default_icmp")]
    pub icmp: IdleSeconds,
    /// All else, and entries of whole tunnels or UE addresses; 300.
    #[serde(default = "IdleConfig::default_udp")]
    pub other: IdleSeconds,
}

impl IdleConfig {
    const fn default_tcp_established() -> IdleSeconds {
        Bounded::new(7440)
    }
    const fn default_tcp_transitory() -> IdleSeconds {
        Bounded::new(240)
    }
    const fn default_udp() -> IdleSeconds {
        Bounded::new(300)
    }
    const fn default_icmp() -> IdleSeconds {
        Bounded::new(60)
    }

    /// As times.
    #[must_use]
    pub fn times(&self) -> IdleTimes {
        let time = |seconds: IdleSeconds| Duration::from_secs(seconds.value());
        IdleTimes {
            tcp_established: time(self.tcp_established),
            tcp_transitory: time(self.tcp_transitory),
            udp: time(self.udp),
            icmp: time(self.icmp),
            other: time(self.other),
        }
    }
}

impl Default for IdleConfig {
    fn default() -> Self {
        Self {
            tcp_established: Self::default_tcp_established(),
            tcp_transitory: Self::default_tcp_transitory(),
            udp: Self::default_udp(),
            icmp: Self::default_icmp(),
            other: Self::default_udp(),
        }
    }
}

/// Fragments of user packets, in each worker. Those behind the first follow it, where rules read ports; those that come
/// before it wait.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentsConfig {
    /// Datagrams known at once; 0: each fragment is decided by itself, as a packet with ports 0; 1024.
    #[serde(default = "FragmentsConfig::default_datagrams")]
    pub datagrams: Bounded<0, 1_048_576>,
    /// Fragments that wait for their first one, at most a quarter of them of one session; 512.
    #[serde(default = "FragmentsConfig::default_held")]
    pub held: Bounded<0, 65_536>,
    /// Their octets; 1 MiB.
    #[serde(default = "FragmentsConfig::default_held_bytes")]
    pub held_bytes: Bounded<0, 1_073_741_824>,
    /// Fragments of one datagram that wait; 48.
    #[serde(default = "FragmentsConfig::default_held_per_datagram")]
    pub held_per_datagram: Bounded<1, 8192>,
    /// Milliseconds that a datagram is known, and a fragment waits; 5000.
    #[serde(default = "FragmentsConfig::default_timeout")]
    pub timeout_ms: Bounded<100, 60_000>,
}

impl FragmentsConfig {
    const fn default_datagrams() -> Bounded<0, 1_048_576> {
        Bounded::new(1024)
    }
    const fn default_held() -> Bounded<0, 65_536> {
        Bounded::new(512)
    }
    const fn default_held_bytes() -> Bounded<0, 1_073_741_824> {
        Bounded::new(1 << 20)
    }
    const fn default_held_per_datagram() -> Bounded<1, 8192> {
        Bounded::new(48)
    }
    const fn default_timeout() -> Bounded<100, 60_000> {
        Bounded::new(5000)
    }

    /// As a worker takes them.
    #[must_use]
    pub fn limits(&self) -> FragmentLimits {
        FragmentLimits {
            datagrams: self.datagrams.size(),
            held: self.held.size(),
            held_octets: self.held_bytes.size(),
            held_per_datagram: self.held_per_datagram.value() as u16,
            timeout: Duration::from_millis(self.timeout_ms.value()),
        }
    }
}

impl Default for FragmentsConfig {
    fn default() -> Self {
        Self {
            datagrams: Self::default_datagrams(),
            held: Self::default_held(),
            held_bytes: Self::default_held_bytes(),
            held_per_datagram: Self::default_held_per_datagram(),
            timeout_ms: Self::default_timeout(),
        }
    }
}

/// GTP-U packets that come in fragments, in each worker. They wait in `dpdk.buffers`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReassemblyConfig {
    /// Datagrams known at once; 0: fragments are dropped; 1024.
    #[serde(default = "ReassemblyConfig::default_datagrams")]
    pub datagrams: Bounded<0, 65_536>,
    /// Fragments that wait, at most a quarter of what is free of one source; 1024.
    #[serde(default = "ReassemblyConfig::default_held")]
    pub held: Bounded<0, 65_536>,
    /// Their octets; 2 MiB.
    #[serde(default = "ReassemblyConfig::default_held_bytes")]
    pub held_bytes: Bounded<0, 1_073_741_824>,
    /// Milliseconds that a datagram may take to come; 2000.
    #[serde(default = "ReassemblyConfig::default_timeout")]
    pub timeout_ms: Bounded<100, 60_000>,
}

impl ReassemblyConfig {
    const fn default_datagrams() -> Bounded<0, 65_536> {
        Bounded::new(1024)
    }
    const fn default_held() -> Bounded<0, 65_536> {
        Bounded::new(1024)
    }
    const fn default_held_bytes() -> Bounded<0, 1_073_741_824> {
        Bounded::new(2 << 20)
    }
    const fn default_timeout() -> Bounded<100, 60_000> {
        Bounded::new(2000)
    }

    /// As a worker takes them.
    #[must_use]
    pub fn limits(&self) -> ReassemblyLimits {
        ReassemblyLimits {
            datagrams: self.datagrams.size(),
            held: self.held.size(),
            held_octets: self.held_bytes.size(),
            timeout: Duration::from_millis(self.timeout_ms.value()),
        }
    }
}

impl Default for ReassemblyConfig {
    fn default() -> Self {
        Self {
            datagrams: Self::default_datagrams(),
            held: Self::default_held(),
            held_bytes: Self::default_held_bytes(),
            timeout_ms: Self::default_timeout(),
        }
    }
}

/// Packets of FARs that buffer, or whose next hop is not known yet, of all workers together; each gets its part. They
/// lie in `dpdk.buffers`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BufferingConfig {
    /// Packets, at most half of `dpdk.buffers`; 0: FARs that buffer drop, and no report is sent; a quarter of them.
    #[serde(default)]
    #[schemars(with = "Option<Bounded<0, 8_388_608>>")]
    pub packets: Option<Spanned<Bounded<0, 8_388_608>>>,
    /// Their octets; 16 MiB.
    #[serde(default = "BufferingConfig::default_bytes")]
    pub bytes: Bounded<0, 17_179_869_184>,
    /// Packets of one FAR, unless its BAR says fewer; 64.
    #[serde(default = "BufferingConfig::default_per_far")]
    pub per_far: Bounded<1, 65_535>,
    /// Packets of one session, of all of its FARs; 128. At most a quarter of a worker's part.
    #[serde(default = "BufferingConfig::default_per_session")]
    pub per_session: Bounded<1, 65_535>,
    /// Their octets; 256 KiB. At most a quarter of a worker's part.
    #[serde(default = "BufferingConfig::default_bytes_per_session")]
    pub bytes_per_session: Bounded<1, 1_073_741_824>,
    /// Seconds that a packet waits; 60.
    #[serde(default = "BufferingConfig::default_timeout")]
    pub timeout_s: Bounded<1, 86_400>,
}

impl BufferingConfig {
    const fn default_bytes() -> Bounded<0, 17_179_869_184> {
        Bounded::new(16 << 20)
    }
    const fn default_per_far() -> Bounded<1, 65_535> {
        Bounded::new(64)
    }
    const fn default_per_session() -> Bounded<1, 65_535> {
        Bounded::new(128)
    }
    const fn default_bytes_per_session() -> Bounded<1, 1_073_741_824> {
        Bounded::new(256 << 10)
    }
    const fn default_timeout() -> Bounded<1, 86_400> {
        Bounded::new(60)
    }

    /// The limits of one worker of a number of workers, each of which may own a number of sessions: each session can be
    /// idle. `buffers` is how many there are for everything.
    #[must_use]
    pub fn limits(&self, buffers: usize, workers: usize, sessions: usize) -> BufferLimits {
        let packets = self
            .packets
            .as_ref()
            .map_or(buffers / 4, |packets| packets.value.size());
        if packets == 0 {
            return BufferLimits::OFF;
        }
        let (packets, octets) = (packets.div_ceil(workers), self.bytes.size() / workers);
        BufferLimits {
            queues: sessions,
            packets,
            octets,
            per_queue: self.per_far.value() as u16,
            per_session: self.per_session.size().min(packets.div_ceil(4)),
            per_session_octets: self.bytes_per_session.size().min(octets.div_ceil(4)),
            timeout: Duration::from_secs(self.timeout_s.value()),
        }
    }
}

impl Default for BufferingConfig {
    fn default() -> Self {
        Self {
            packets: None,
            bytes: Self::default_bytes(),
            per_far: Self::default_per_far(),
            per_session: Self::default_per_session(),
            bytes_per_session: Self::default_bytes_per_session(),
            timeout_s: Self::default_timeout(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_worker() {
        assert_eq!(IdleConfig::default().times(), IdleTimes::default());
        assert_eq!(FragmentsConfig::default().limits(), FragmentLimits::default());
        assert_eq!(ReassemblyConfig::default().limits(), ReassemblyLimits::default());
    }

    #[test]
    fn no_session_gets_more_than_a_quarter_of_what_waits() {
        let usual = BufferingConfig::default().limits(32_768, 2, 1_000);
        let expected = BufferLimits {
            queues: 1_000,
            packets: 4_096,
            octets: 8 << 20,
            ..BufferLimits::default()
        };
        assert_eq!(usual, expected);
        let small = BufferingConfig {
            bytes: Bounded::new(100_000),
            ..BufferingConfig::default()
        };
        let small = small.limits(2_048, 4, 1_000);
        assert_eq!((small.packets, small.per_session), (128, 32));
        assert_eq!((small.octets, small.per_session_octets), (25_000, 6_250));
    }

    #[test]
    fn a_rate_for_all_is_shared_and_no_limit_stays_none() {
        let flows = FlowsConfig {
            setups_s: Bounded::new(10),
            ..FlowsConfig::default()
        };
        assert_eq!(
            (flows.limits(4).rate, FlowsConfig::default().limits(4).rate),
            (3, 0)
        );
    }
}
