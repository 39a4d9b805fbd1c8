//! The payload of HELLO, WELCOME and CONFIRM: one layout, so that a response is as long as what it responds to.

use flow::Nanos;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::auth::Nonce;

/// Octets that an upper layer reports about itself, at most.
pub const MAX_CAPABILITIES: usize = 256;

/// The payload of a handshake's frames, in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Greeting {
    /// Of the sender.
    pub nonce: Nonce,
    /// Of the receiver; 0 in HELLO.
    pub peer_nonce: Nonce,
    /// Boot of the receiver; 0 in HELLO.
    pub peer_boot: U64,
    /// The sender's clock when it sent this, ns.
    pub clock: U64,
    /// The clock in the frame that this responds to; 0 in HELLO.
    pub echoed_clock: U64,
    /// The generation of the sender's state.
    pub epoch: U32,
    /// Octets of capabilities.
    pub length: U16,
    /// 0, and ignored.
    pub reserved: U16,
    /// Padded with zeros.
    pub capabilities: [u8; MAX_CAPABILITIES],
}

const _: () = assert!(size_of::<Greeting>() == 320);

impl Greeting {
    /// A HELLO's; the other kinds set the fields of the receiver. Of `capabilities` the first 256 octets are taken.
    pub fn new(nonce: Nonce, clock: Nanos, epoch: u32, capabilities: &[u8]) -> Self {
        let mut padded = [0; MAX_CAPABILITIES];
        let length = capabilities.len().min(MAX_CAPABILITIES);
        for (to, from) in padded.iter_mut().zip(capabilities) {
            *to = *from;
        }
        Self {
            nonce,
            peer_nonce: [0; 16],
            peer_boot: U64::ZERO,
            clock: clock.0.into(),
            echoed_clock: U64::ZERO,
            epoch: epoch.into(),
            length: (length as u16).into(),
            reserved: U16::ZERO,
            capabilities: padded,
        }
    }

    /// The payload in `octets`; nothing when their number is another.
    pub fn read(octets: &[u8]) -> Option<&Self> {
        let greeting = Self::ref_from_bytes(octets).ok()?;
        (usize::from(greeting.length.get()) <= MAX_CAPABILITIES).then_some(greeting)
    }

    /// As it is on the wire.
    pub fn as_octets(&self) -> &[u8] {
        self.as_bytes()
    }

    /// Fills in what the receiver sent, whose boot and nonce these are.
    pub fn responding(mut self, nonce: Nonce, boot: u64, clock: u64) -> Self {
        self.peer_nonce = nonce;
        self.peer_boot = boot.into();
        self.echoed_clock = clock.into();
        self
    }

    /// What the sender reports about itself.
    pub fn peer(&self, boot: u64, boot_change: BootChange, now: Nanos) -> Peer {
        let length = usize::from(self.length.get());
        let sent = Nanos(self.echoed_clock.get());
        Peer {
            boot,
            boot_change,
            epoch: self.epoch.get(),
            capabilities: self.capabilities.get(..length).unwrap_or_default().to_vec(),
            clock: ClockSample {
                peer: Nanos(self.clock.get()),
                sent,
                received: now,
            },
        }
    }
}

/// Whether the peer has kept its state since the last contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootChange {
    /// The first contact of this end.
    First,
    /// The peer is the process that it was.
    Same,
    /// The peer was started anew: what it had is lost (`flow::contract`'s BackendReset).
    New,
}

/// The other end, as the handshake shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Random number of the peer's start.
    pub boot: u64,
    /// Compared to the last contact.
    pub boot_change: BootChange,
    /// The generation of its state.
    pub epoch: u32,
    /// What it reports about itself: up to 256 octets, opaque to the channel.
    pub capabilities: Vec<u8>,
    /// Relates its clock to that of this end.
    pub clock: ClockSample,
}

/// Three moments of the handshake, which relate the clocks of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// By the peer's clock: when it responded.
    pub peer: Nanos,
    /// By the own clock: when the frame was sent that the peer responded to.
    pub sent: Nanos,
    /// By the own clock: when the response was received.
    pub received: Nanos,
}

impl ClockSample {
    /// The moment of the peer's clock that is `own` on the own: [`own`](Self::own) of it is `own` again, but for
    /// moments before either clock began.
    pub fn peers(&self, own: Nanos) -> Nanos {
        let middle = self.middle();
        if own.0 >= middle {
            Nanos(self.peer.0.saturating_add(own.0 - middle))
        } else {
            Nanos(self.peer.0.saturating_sub(middle - own.0))
        }
    }

    /// When the peer responded, by the own clock.
    fn middle(&self) -> u64 {
        self.sent.0 + self.received.since(self.sent).as_nanos() as u64 / 2
    }

    /// The moment of the own clock that is `peer` on the peer's, as far as both clocks run alike and both ways take
    /// equally long: the error is at most half of the round trip.
    pub fn own(&self, peer: Nanos) -> Nanos {
        let middle = self.middle();
        if peer >= self.peer {
            Nanos(middle.saturating_add(peer.0 - self.peer.0))
        } else {
            Nanos(middle.saturating_sub(self.peer.0 - peer.0))
        }
    }
}
