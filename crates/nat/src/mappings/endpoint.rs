//! What mappings are of: endpoints of sessions.

use packet::tuple::proto;

/// The protocols that have mappings. The public ports of each are its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// TCP (RFC 5382).
    #[default]
    Tcp = 0,
    /// UDP (RFC 4787).
    Udp = 1,
    /// ICMP queries (RFC 5508). Their identifier takes the place of the port.
    Icmp = 2,
}

impl Protocol {
    /// All of them, in the order of their numbers here.
    pub const ALL: [Self; Self::COUNT] = [Self::Tcp, Self::Udp, Self::Icmp];
    /// How many there are.
    pub const COUNT: usize = 3;

    /// The protocol with this number of the IANA registry.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            proto::TCP => Some(Self::Tcp),
            proto::UDP => Some(Self::Udp),
            proto::ICMP => Some(Self::Icmp),
            _ => None,
        }
    }

    /// Its name for operators.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }
}

/// An endpoint of a session, as the session knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inside {
    /// Its address.
    pub address: [u8; 4],
    /// Its port, or the identifier of its ICMP queries.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
}
