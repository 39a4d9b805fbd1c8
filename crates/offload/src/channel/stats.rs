//! What an end of a channel counts.

/// Why a received frame is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Discard {
    /// Not a control frame: another EtherType, or shorter than the Ethernet header.
    EtherType,
    /// Not in the configured VLAN.
    Vlan,
    /// Not for this port, or not from the configured peer, or from no station's address.
    Address,
    /// Shorter or longer than its header says, or than its kind has to be.
    Length,
    /// Another version of the protocol.
    Version,
    /// Of another channel.
    Channel,
    /// Of this end's own role: reflected, or two ends are configured alike.
    Role,
    /// A kind that does not exist, or that the peer's role does not send.
    Kind,
    /// No contact that the frame could belong to.
    NoContact,
    /// Of another boot of the peer, or made for another boot of this end.
    Boot,
    /// Of another handshake than the current one.
    Handshake,
    /// The MAC is wrong.
    Mac,
    /// A DATA or CONFIRM frame that was received before.
    Duplicate,
    /// Its sequence number is beyond the window.
    Window,
    /// A HELLO sooner after the last one than [`Timers::welcome`](super::Timers::welcome).
    HelloRate,
    /// A new contact while the user has not taken all events of the last one.
    EventsPending,
    /// Authenticated, and against the specification: contact is given up.
    Fault,
}

impl Discard {
    /// How many there are.
    pub const COUNT: usize = Self::Fault as usize + 1;
    /// All, in the order of [`Stats::discards`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::EtherType,
        Self::Vlan,
        Self::Address,
        Self::Length,
        Self::Version,
        Self::Channel,
        Self::Role,
        Self::Kind,
        Self::NoContact,
        Self::Boot,
        Self::Handshake,
        Self::Mac,
        Self::Duplicate,
        Self::Window,
        Self::HelloRate,
        Self::EventsPending,
        Self::Fault,
    ];

    /// The label of a metric.
    pub const fn label(self) -> &'static str {
        match self {
            Self::EtherType => "ether_type",
            Self::Vlan => "vlan",
            Self::Address => "address",
            Self::Length => "length",
            Self::Version => "version",
            Self::Channel => "channel",
            Self::Role => "role",
            Self::Kind => "kind",
            Self::NoContact => "no_contact",
            Self::Boot => "boot",
            Self::Handshake => "handshake",
            Self::Mac => "mac",
            Self::Duplicate => "duplicate",
            Self::Window => "window",
            Self::HelloRate => "hello_rate",
            Self::EventsPending => "events_pending",
            Self::Fault => "fault",
        }
    }
}

/// Counters of an end since it was made. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames of all kinds that were sent.
    pub frames_sent: u64,
    /// Frames that were received and not discarded.
    pub frames_received: u64,
    /// DATA frames that were sent again.
    pub retransmissions: u64,
    /// DATA frames without messages that were sent for the first time.
    pub heartbeats_sent: u64,
    /// ACK frames that were sent.
    pub acks_sent: u64,
    /// HELLO, WELCOME and CONFIRM frames that were sent.
    pub handshakes_sent: u64,
    /// Messages that `send` accepted.
    pub messages_sent: u64,
    /// Messages that the peer's user has taken.
    pub messages_acknowledged: u64,
    /// Messages that were given up at the end of contacts.
    pub messages_given_up: u64,
    /// Messages that the user has taken.
    pub messages_received: u64,
    /// Contacts that were made.
    pub contacts: u64,
    /// Discarded frames by reason: [`Discard::ALL`] has the order.
    pub discards: [u64; Discard::COUNT],
}

impl Stats {
    /// Frames that were discarded for this reason.
    pub fn discarded(&self, reason: Discard) -> u64 {
        self.discards.get(reason as usize).copied().unwrap_or(0)
    }

    pub(super) fn count(&mut self, result: Result<(), Discard>) {
        match result {
            Ok(()) => self.frames_received += 1,
            Err(reason) => {
                if let Some(counter) = self.discards.get_mut(reason as usize) {
                    *counter += 1;
                }
            }
        }
    }
}
