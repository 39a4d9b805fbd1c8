//! Forwarding and Buffering Action Rules (TS 29.244 §5.2.1A, Tables 7.5.2.3-1, 7.5.2.3-2 and 7.5.2.6-1).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use flow::InstanceId;
use nat::pools::NatPoolId;
use packet::{Teid, redirect};

use super::ids::{BarId, FarId, PolicyId};
use super::interfaces::DestinationInterface;
use crate::boxed_option::{Absent, BoxedOption};
use crate::sdf::TosTrafficClass;

/// What is done with a packet (TS 29.244 §8.2.26): the flags, octet 5 in the low byte, octet 6 in the high one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ApplyAction(pub u16);

impl ApplyAction {
    /// Drop the packet.
    pub const DROP: Self = Self(0x0001);
    /// Forward the packet.
    pub const FORW: Self = Self(0x0002);
    /// Buffer the packet.
    pub const BUFF: Self = Self(0x0004);
    /// Report the first buffered downlink packet to the control plane.
    pub const NOCP: Self = Self(0x0008);
    /// Duplicate the packet.
    pub const DUPL: Self = Self(0x0010);
    /// Accept requests to join an IP multicast group.
    pub const IPMA: Self = Self(0x0020);
    /// Deny requests to join an IP multicast group.
    pub const IPMD: Self = Self(0x0040);
    /// Duplicate for redundant transmission.
    pub const DFRT: Self = Self(0x0080);
    /// Eliminate the duplicates of redundant transmission.
    pub const EDRT: Self = Self(0x0100);
    /// Report the first buffered downlink packet, for the delivery status.
    pub const BDPN: Self = Self(0x0200);
    /// Report the first discarded downlink packet, for the delivery status.
    pub const DDPN: Self = Self(0x0400);
    /// Forward MBS data to a lower layer multicast address.
    pub const FSSM: Self = Self(0x0800);
    /// Forward and replicate MBS data over unicast.
    pub const MBSU: Self = Self(0x1000);

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags and those of `flags`.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// The one main action. `None` when none or several of DROP, FORW, BUFF, IPMA and IPMD are set, which a request
    /// must not do.
    pub const fn verb(self) -> Option<Verb> {
        const VERBS: u16 = 0x0001 | 0x0002 | 0x0004 | 0x0020 | 0x0040;
        match Self(self.0 & VERBS) {
            Self::DROP => Some(Verb::Drop),
            Self::FORW => Some(Verb::Forward),
            Self::BUFF => Some(Verb::Buffer),
            Self::IPMA => Some(Verb::MulticastAccept),
            Self::IPMD => Some(Verb::MulticastDeny),
            _ => None,
        }
    }
}

/// The main action: exactly one for each FAR (TS 29.244 §8.2.26).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verb {
    /// DROP.
    Drop,
    /// FORW.
    Forward,
    /// BUFF.
    Buffer,
    /// IPMA.
    MulticastAccept,
    /// IPMD.
    MulticastDeny,
}

/// Which outer headers to create (TS 29.244 Table 8.2.56-1): octet 5 in the low byte, octet 6 in the high one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OuterHeaderKind(pub u16);

impl OuterHeaderKind {
    /// GTP-U/UDP/IPv4.
    pub const GTPU_IPV4: Self = Self(0x0001);
    /// GTP-U/UDP/IPv6. Together with [`GTPU_IPV4`](Self::GTPU_IPV4): either, as this node likes.
    pub const GTPU_IPV6: Self = Self(0x0002);
    /// UDP/IPv4.
    pub const UDP_IPV4: Self = Self(0x0004);
    /// UDP/IPv6.
    pub const UDP_IPV6: Self = Self(0x0008);
    /// IPv4.
    pub const IPV4: Self = Self(0x0010);
    /// IPv6.
    pub const IPV6: Self = Self(0x0020);
    /// A customer VLAN tag.
    pub const C_TAG: Self = Self(0x0040);
    /// A service VLAN tag.
    pub const S_TAG: Self = Self(0x0080);
    /// Towards N19 (an indication, not a header).
    pub const N19: Self = Self(0x0100);
    /// Towards N6 (an indication, not a header).
    pub const N6: Self = Self(0x0200);
    /// Low layer source specific multicast and C-TEID.
    pub const LL_SSM: Self = Self(0x0400);

    /// Whether every flag of `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags and those of `flags`.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// Whether a GTP-U header is asked for, over whichever IP.
    pub const fn is_gtpu(self) -> bool {
        self.0 & (Self::GTPU_IPV4.0 | Self::GTPU_IPV6.0) != 0
    }
}

/// The outer header to put before a forwarded packet (TS 29.244 §8.2.56).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OuterHeaderCreation {
    /// Which headers.
    pub kind: OuterHeaderKind,
    /// The peer's TEID; 0 where no GTP-U header is created.
    pub teid: Teid,
    /// The peer's IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// The peer's IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// The peer's UDP port, for UDP without GTP-U.
    pub port: Option<u16>,
}

impl OuterHeaderCreation {
    /// GTP-U/UDP/IPv4 to this peer: what nearly every SMF sends.
    pub const fn gtpu_ipv4(teid: Teid, peer: Ipv4Addr) -> Self {
        Self {
            kind: OuterHeaderKind::GTPU_IPV4,
            teid,
            ipv4: Some(peer),
            ipv6: None,
            port: None,
        }
    }
}

/// Where and how a packet is forwarded (TS 29.244 Table 7.5.2.3-2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ForwardingParameters {
    /// The side that the packet goes to.
    pub destination: DestinationInterface,
    /// The network instance that the packet goes out of.
    pub instance: Option<InstanceId>,
    /// The outer header that it gets.
    pub outer_header_creation: Option<OuterHeaderCreation>,
    /// The Type of Service or Traffic Class of the outer header (TS 29.244 §8.2.12).
    pub transport_level_marking: Option<TosTrafficClass>,
    /// The configured treatment that it gets (TS 29.244 §8.2.23).
    pub policy: Option<PolicyId>,
}

impl ForwardingParameters {
    /// Forwards towards `destination` and leaves the rest to configuration.
    pub const fn new(destination: DestinationInterface) -> Self {
        Self {
            destination,
            instance: None,
            outer_header_creation: None,
            transport_level_marking: None,
            policy: None,
        }
    }
}

/// Which public addresses a session is to have, whatever the configuration has for its slice and data network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NatChoice {
    /// None: its packets keep its own.
    Untranslated,
    /// Those of this pool.
    Pool(NatPoolId),
}

/// What a FAR of a session chooses ([`NatChoice`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChosenNat {
    /// The first FAR that says it.
    pub far: FarId,
    /// The forwarding policy by which it does; none if it says it itself.
    pub policy: Option<PolicyId>,
    /// What it says.
    pub choice: NatChoice,
}

/// Where a user's HTTP requests are redirected to: a URL (TS 29.244 §5.4.7, §8.2.20).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Redirect(Arc<str>);

impl Redirect {
    /// To this URL. `None` when it is none: visible ASCII, 1 to 1,024 octets.
    pub fn new(url: &[u8]) -> Option<Self> {
        let url = std::str::from_utf8(url).ok().filter(|_| redirect::is_url(url));
        url.map(|url| Self(url.into()))
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.0
    }
}

/// A Forwarding Action Rule (TS 29.244 Table 7.5.2.3-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Far {
    /// Its number in the session.
    pub id: FarId,
    /// What is done with a packet.
    pub action: ApplyAction,
    /// Where to; kept while the action is another than FORW.
    pub forwarding: Option<ForwardingParameters>,
    /// What few FARs say.
    pub optional: BoxedOption<OptionalActions>,
    /// How to buffer.
    pub bar: Option<BarId>,
}

const _: () = assert!(size_of::<Far>() <= 64, "there are very many");

/// What few FARs say.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OptionalActions {
    /// Where a copy goes with DUPL (TS 29.244 Table 7.5.2.3-3); kept while the action is without. It names no network
    /// instance.
    pub duplicating: Option<ForwardingParameters>,
    /// With FORW: packets are not forwarded, but redirected.
    pub redirect: Option<Redirect>,
    /// The public addresses that the control plane wants for the session, by IEs of the Broadband Forum's (TR-459.2).
    pub nat: Option<NatChoice>,
}

impl Absent for OptionalActions {
    const ABSENT: &'static Self = &Self {
        duplicating: None,
        redirect: None,
        nat: None,
    };
}

impl From<OptionalActions> for BoxedOption<OptionalActions> {
    /// Nothing is absent.
    fn from(actions: OptionalActions) -> Self {
        let mut boxed = Self::NONE;
        if actions != OptionalActions::default() {
            *boxed.get_or_insert_default() = actions;
        }
        boxed
    }
}

/// A Buffering Action Rule (TS 29.244 Table 7.5.2.6-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bar {
    /// Its number in the session.
    pub id: BarId,
    /// Downlink Data Notification Delay, in units of 50 ms (TS 29.244 §8.2.28).
    pub notification_delay: Option<u8>,
    /// Suggested Buffering Packets Count (TS 29.244 §8.2.100).
    pub suggested_packets: Option<u8>,
    /// DL Buffering Suggested Packet Count (TS 29.244 §8.2.30), while extended buffering lasts.
    pub extended_packets: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_verb_counts() {
        assert_eq!(ApplyAction::FORW.verb(), Some(Verb::Forward));
        assert_eq!(
            ApplyAction::BUFF.with(ApplyAction::NOCP).verb(),
            Some(Verb::Buffer)
        );
        assert_eq!(ApplyAction::DROP.with(ApplyAction::FORW).verb(), None);
        assert_eq!(ApplyAction::NOCP.verb(), None);
        assert_eq!(ApplyAction::default().verb(), None);
    }
}
