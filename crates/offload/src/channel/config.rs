//! What an end of a channel is configured with.

use std::fmt;
use std::time::Duration;

use packet::{MacAddr, VlanId};

use super::auth::{Key, MAC_LEN};
use super::frame::{HEADER_LEN, MAX_MTU, PREFIX_LEN};
use super::handshake::MAX_CAPABILITIES;

/// Frames in flight, at most: the bits of the bitmap.
pub const MAX_WINDOW: usize = 64;
/// The least MTU: the handshake's frames fit into it.
pub const MIN_MTU: usize = 576;

/// Which end of the channel this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The UPF's worker: it begins each contact.
    Host,
    /// What forwards for it: it responds.
    Accelerator,
}

impl Role {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Host => Self::Accelerator,
            Self::Accelerator => Self::Host,
        }
    }

    /// The octet of a frame's header.
    pub(super) const fn octet(self) -> u8 {
        match self {
            Self::Host => 0,
            Self::Accelerator => 1,
        }
    }
}

/// Intervals. All are finite and more than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// The first interval between two HELLOs without a response; each next one is twice as long. Default 10 ms.
    pub hello: Duration,
    /// The longest interval between two HELLOs. Default 500 ms.
    pub max_hello: Duration,
    /// An accelerator responds to one HELLO in this time, at most. Default 1 ms.
    pub welcome: Duration,
    /// An end that has sent no new DATA frame for this long sends one without messages. Default 10 ms.
    pub heartbeat: Duration,
    /// Contact is lost after this time without an authenticated frame that is new. Default 50 ms.
    pub lost_after: Duration,
    /// An acknowledgement waits this long, at most, for a DATA frame that takes it along. Default 200 us.
    pub ack_delay: Duration,
    /// The least time until an unacknowledged frame is sent again. Default 1 ms.
    pub min_retransmission: Duration,
    /// The longest time until an unacknowledged frame is sent again. Default 5 ms.
    pub max_retransmission: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            hello: Duration::from_millis(10),
            max_hello: Duration::from_millis(500),
            welcome: Duration::from_millis(1),
            heartbeat: Duration::from_millis(10),
            lost_after: Duration::from_millis(50),
            ack_delay: Duration::from_micros(200),
            min_retransmission: Duration::from_millis(1),
            max_retransmission: Duration::from_millis(5),
        }
    }
}

impl Timers {
    fn all(&self) -> [Duration; 8] {
        [
            self.hello,
            self.max_hello,
            self.welcome,
            self.heartbeat,
            self.lost_after,
            self.ack_delay,
            self.min_retransmission,
            self.max_retransmission,
        ]
    }
}

/// The configuration of one end of a channel.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    /// Which end this is.
    pub role: Role,
    /// The number of the channel: that of the host's worker.
    pub channel: u8,
    /// The port's own address.
    pub own_mac: MacAddr,
    /// The peer's address: others' frames are ignored. Without it, the host sends HELLO to the broadcast address, and
    /// an end sends to the address that the contact was made from.
    pub peer_mac: Option<MacAddr>,
    /// The VLAN of all frames, 1..=4094; without it frames have no tag.
    pub vlan: Option<VlanId>,
    /// The pre-shared key, the same at both ends.
    pub key: Key,
    /// A random number that is drawn when the process starts.
    pub boot: u64,
    /// What the upper layer reports to the peer as the generation of its state.
    pub epoch: u32,
    /// What the upper layer reports to the peer about itself: up to [`MAX_CAPABILITIES`] octets.
    pub capabilities: Vec<u8>,
    /// Octets of a frame behind the Ethernet header and its tag, at most: [`MIN_MTU`]..=[`MAX_MTU`]. Default 1,500.
    pub mtu: usize,
    /// DATA frames in flight, at most: 1..=[`MAX_WINDOW`]. Default 64.
    pub window: usize,
    /// Octets of messages that wait to be sent, at most; each has two more in the queue. It holds a longest message, at
    /// least. Default 256 KiB.
    pub queue: usize,
    /// Intervals.
    pub timers: Timers,
}

impl ChannelConfig {
    /// A configuration with defaults: no VLAN, the peer's address unknown, no capabilities.
    pub fn new(role: Role, channel: u8, own_mac: MacAddr, key: Key, boot: u64) -> Self {
        Self {
            role,
            channel,
            own_mac,
            peer_mac: None,
            vlan: None,
            key,
            boot,
            epoch: 0,
            capabilities: Vec::new(),
            mtu: 1_500,
            window: MAX_WINDOW,
            queue: 256 << 10,
            timers: Timers::default(),
        }
    }

    /// Octets of messages with their prefixes in a frame, at most.
    pub(super) fn max_payload(&self) -> usize {
        self.mtu.saturating_sub(HEADER_LEN + MAC_LEN)
    }

    /// Octets of a message, at most.
    pub fn max_message(&self) -> usize {
        self.max_payload().saturating_sub(PREFIX_LEN)
    }

    /// Whether all is in its range.
    pub(super) fn check(&self) -> Result<(), ConfigFault> {
        let stations = [Some(self.own_mac), self.peer_mac];
        if stations.iter().flatten().any(|mac| !mac.is_station()) {
            return Err(ConfigFault::Address);
        }
        if self.vlan.is_some_and(|vlan| !(1..=4094).contains(&vlan.get())) {
            return Err(ConfigFault::Vlan);
        }
        if self.capabilities.len() > MAX_CAPABILITIES {
            return Err(ConfigFault::Capabilities);
        }
        if !(MIN_MTU..=MAX_MTU).contains(&self.mtu) {
            return Err(ConfigFault::Mtu);
        }
        if !(1..=MAX_WINDOW).contains(&self.window) {
            return Err(ConfigFault::Window);
        }
        if self.queue < self.max_payload() {
            return Err(ConfigFault::Queue);
        }
        if self.timers.all().iter().any(Duration::is_zero)
            || self.timers.min_retransmission > self.timers.max_retransmission
        {
            return Err(ConfigFault::Timers);
        }
        Ok(())
    }
}

/// What is out of its range in a [`ChannelConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// `own_mac` or `peer_mac` is zero or a group's.
    Address,
    /// `vlan` is not of 1..=4094.
    Vlan,
    /// `capabilities` has more than 256 octets.
    Capabilities,
    /// `mtu` is not of 576..=9,216.
    Mtu,
    /// `window` is not of 1..=64.
    Window,
    /// `queue` has no room for a longest message.
    Queue,
    /// One of `timers` is zero, or the least retransmission time is more than the longest.
    Timers,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "own_mac or peer_mac is not a station's address",
            Self::Vlan => "vlan is not of 1..=4094",
            Self::Capabilities => "capabilities has more than 256 octets",
            Self::Mtu => "mtu is not of 576..=9216",
            Self::Window => "window is not of 1..=64",
            Self::Queue => "queue has no room for a longest message",
            Self::Timers => "timers: one is zero, or min_retransmission is more than max_retransmission",
        })
    }
}

impl std::error::Error for ConfigFault {}
