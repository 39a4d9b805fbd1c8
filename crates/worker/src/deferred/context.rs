//! What the reports and messages about deferred packets are made with.

use flow::Nanos;
use transport::Adjacencies;

use crate::control_channel::event_queue::EventQueue;
use crate::deferred::tunnel_signals::{SignalSender, TunnelSignals};
use crate::egress::ports::Ports;
use crate::io::Io;
use crate::local::generated_packet_rate_limit::GeneratedPacketRateLimit;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// State of the worker that they read and change.
pub(crate) struct Context<'a, I: Io> {
    pub sessions: &'a mut Sessions,
    pub events: &'a mut EventQueue,
    pub signals: &'a mut TunnelSignals,
    /// The rate of messages of tunnels.
    pub relays: &'a mut GeneratedPacketRateLimit,
    pub ports: &'a mut Ports<I>,
    pub adjacencies: &'a Adjacencies,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

impl<I: Io> Context<'_, I> {
    /// The same, for messages of our own.
    pub fn signals(&mut self) -> (&mut TunnelSignals, SignalSender<'_, I>) {
        let sender = SignalSender {
            ports: self.ports,
            adjacencies: self.adjacencies,
            stats: self.stats,
            now: self.now,
        };
        (self.signals, sender)
    }
}
