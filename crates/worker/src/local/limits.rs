//! The rates of packets for our own addresses and of messages of our own that packets cause.

use crate::WorkerConfig;
use crate::local::echo::{EchoRateLimit, SourceRateLimit};
use crate::local::error_indication::ErrorIndications;
use crate::local::generated_packet_rate_limit::GeneratedPacketRateLimit;
use crate::local::host::HostRateLimits;
use flow::TokenBucket;

/// All of them, of one worker.
pub(crate) struct LocalLimits {
    pub hosts: HostRateLimits,
    /// Frames of slow protocols, by port.
    pub slow_protocols: Vec<TokenBucket>,
    /// Echo Requests of GTP-U.
    pub echoes: EchoRateLimit,
    /// ICMP Echo Requests.
    pub pings: SourceRateLimit,
    pub error_indications: ErrorIndications,
    /// Responses to redirected packets.
    pub redirects: GeneratedPacketRateLimit,
    /// Answers in the name of others to what UEs send and access lists deny.
    pub denials: GeneratedPacketRateLimit,
    /// ICMP errors to the senders of user packets.
    pub icmp_errors: GeneratedPacketRateLimit,
}

impl LocalLimits {
    /// As configured, for `ports` ports.
    pub fn new(config: &WorkerConfig, ports: usize) -> Self {
        Self {
            hosts: HostRateLimits::new(&config.host),
            slow_protocols: vec![TokenBucket::new(config.slow_protocols); ports],
            echoes: EchoRateLimit::new(config.echoes),
            pings: SourceRateLimit::new(config.pings),
            error_indications: ErrorIndications {
                rate: TokenBucket::new(config.error_indications),
                from: config.error_indications_from,
                notifications: TokenBucket::new(config.notifications),
            },
            redirects: GeneratedPacketRateLimit::new(config.redirects),
            denials: GeneratedPacketRateLimit::new(config.redirects),
            icmp_errors: GeneratedPacketRateLimit::new(config.icmp_errors),
        }
    }
}
