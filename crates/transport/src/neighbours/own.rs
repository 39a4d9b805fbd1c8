//! The state of own addresses on their links. IPv6: Duplicate Address Detection (RFC 4862 §5.4). IPv4: defence of the
//! address against another station that uses it (RFC 5227 §2.4 (c)).
//!
//! An IPv6 address is tentative from the start, and each time its link comes up, until as many probes as configured
//! have had no reply for RetransTimer. Sluice does not reply for a tentative address and does not use it as a source. A
//! claim of another station makes it a duplicate until its link comes up again. A claim of a preferred address leaves
//! the address in use: RFC 4862 §5.4.4 leaves that open, and one forged frame could end the use of the address
//! otherwise.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use flow::{InstanceId, Nanos, PortId};
use packet::MacAddr;

use crate::Interface;
use crate::solicit::{self, Transmit};

/// The least time between two announcements that defend an address (RFC 5227 §1.1, `DEFEND_INTERVAL`).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The state of an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnAddressState {
    /// Being verified, or waiting for the link to come up: not used.
    Tentative,
    /// In use.
    Preferred,
    /// Another station has it: not used.
    Duplicate,
}

impl OwnAddressState {
    /// The name of the state in views and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tentative => "tentative",
            Self::Preferred => "preferred",
            Self::Duplicate => "duplicate",
        }
    }
}

/// An own address, for views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddressView {
    /// The instance on whose link it is.
    pub instance: InstanceId,
    /// The address.
    pub address: IpAddr,
    /// Its link layer address.
    pub mac: MacAddr,
    /// Its state.
    pub state: OwnAddressState,
    /// Claims of other stations since the start.
    pub conflicts: u64,
}

/// A change of an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddressEvent {
    /// The instance on whose link it is.
    pub instance: InstanceId,
    /// The address.
    pub address: IpAddr,
    /// Its state from now on.
    pub state: OwnAddressState,
    /// The other station, where a claim is the cause. A preferred address stays in use, and has been announced in
    /// defence.
    pub claimant: Option<MacAddr>,
}

struct OwnAddress {
    interface: Interface,
    address: IpAddr,
    state: OwnAddressState,
    /// Probes sent in this verification.
    probes: u8,
    /// When the next probe or the end of the verification is due; `None` without verification.
    due: Option<Nanos>,
    conflicts: u64,
    defended: Option<Nanos>,
}

impl OwnAddress {
    fn announcement(&self) -> Transmit {
        match self.address {
            IpAddr::V4(ours) => solicit::gratuitous_arp(&self.interface, ours),
            IpAddr::V6(ours) => solicit::unsolicited_advertisement(&self.interface, ours),
        }
    }

    const fn event(&self, claimant: Option<MacAddr>) -> OwnAddressEvent {
        OwnAddressEvent {
            instance: self.interface.instance,
            address: self.address,
            state: self.state,
            claimant,
        }
    }
}

/// The own addresses of all instances.
pub(super) struct OwnAddresses {
    all: Vec<OwnAddress>,
    /// Probes in one verification; 0: addresses are preferred without one.
    dad_transmits: u8,
    /// RetransTimer (RFC 4861 §10).
    retrans_timer: Duration,
    transmits: VecDeque<Transmit>,
    events: VecDeque<OwnAddressEvent>,
}

impl OwnAddresses {
    /// The addresses of these interfaces. The verification of IPv6 addresses is due at once.
    pub fn new(interfaces: &[Interface], dad_transmits: u8, retrans_timer: Duration) -> Self {
        let mut all = Vec::new();
        for interface in interfaces {
            let ipv4 = interface.ipv4.map(IpAddr::V4);
            let ipv6 = interface.ipv6.map(IpAddr::V6);
            all.extend(ipv4.into_iter().chain(ipv6).map(|address| OwnAddress {
                interface: interface.clone(),
                address,
                state: OwnAddressState::Preferred,
                probes: 0,
                due: None,
                conflicts: 0,
                defended: None,
            }));
        }
        let mut made = Self {
            all,
            dad_transmits,
            retrans_timer,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        };
        made.verify(Nanos::ZERO, |_| true);
        made
    }

    /// Verifications that begin from now on have these probes, this far apart.
    pub fn set_times(&mut self, dad_transmits: u8, retrans_timer: Duration) {
        (self.dad_transmits, self.retrans_timer) = (dad_transmits, retrans_timer);
    }

    /// The link of a port came up: verification begins anew. Or it went down: verification stops.
    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        if up {
            self.verify(now, |own| own.interface.port == port);
            return;
        }
        let on_port = self.all.iter_mut().filter(|own| own.interface.port == port);
        on_port.for_each(|own| own.due = None);
    }

    /// A port is behind something that there is contact with: addresses that are not in use are verified. Or there is
    /// none: verification stops.
    pub fn set_contact(&mut self, now: Nanos, port: PortId, has_contact: bool) {
        if has_contact {
            let is_in_use = |own: &OwnAddress| own.state == OwnAddressState::Preferred;
            return self.verify(now, |own| own.interface.port == port && !is_in_use(own));
        }
        self.set_link(now, port, false);
    }

    fn verify(&mut self, now: Nanos, wanted: impl Fn(&OwnAddress) -> bool) {
        if self.dad_transmits == 0 {
            return;
        }
        let ipv6 = self.all.iter_mut().filter(|own| own.address.is_ipv6());
        for own in ipv6.filter(|own| wanted(own)) {
            (own.probes, own.due) = (0, Some(now));
            if own.state != OwnAddressState::Tentative {
                own.state = OwnAddressState::Tentative;
                self.events.push_back(own.event(None));
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.all.iter().filter_map(|own| own.due).min()
    }

    /// Sends probes that are due; makes addresses preferred whose verification is over, and announces them.
    pub fn handle_timeout(&mut self, now: Nanos) {
        for own in self
            .all
            .iter_mut()
            .filter(|own| own.due.is_some_and(|due| due <= now))
        {
            if let IpAddr::V6(address) = own.address
                && own.probes < self.dad_transmits
            {
                own.probes += 1;
                own.due = Some(now + self.retrans_timer);
                self.transmits.push_back(solicit::probe(&own.interface, address));
                continue;
            }
            (own.due, own.state) = (None, OwnAddressState::Preferred);
            self.transmits.push_back(own.announcement());
            self.events.push_back(own.event(None));
        }
    }

    /// The station `mac` claims an own address of an instance.
    pub fn handle_claim(&mut self, now: Nanos, instance: InstanceId, address: IpAddr, mac: MacAddr) {
        let is_claimed = |own: &&mut OwnAddress| own.interface.instance == instance && own.address == address;
        let Some(own) = self.all.iter_mut().find(is_claimed) else {
            return;
        };
        own.conflicts += 1;
        match own.state {
            OwnAddressState::Tentative => {
                (own.due, own.state) = (None, OwnAddressState::Duplicate);
                self.events.push_back(own.event(Some(mac)));
            }
            OwnAddressState::Preferred if own.defended.is_none_or(|at| at + DEFEND_INTERVAL <= now) => {
                own.defended = Some(now);
                self.transmits.push_back(own.announcement());
                self.events.push_back(own.event(Some(mac)));
            }
            OwnAddressState::Preferred | OwnAddressState::Duplicate => {}
        }
    }

    /// Announces the addresses in use on the links of one port, or of all.
    pub fn announce(&mut self, on: Option<PortId>) {
        let is_on = |own: &&OwnAddress| on.is_none_or(|port| port == own.interface.port);
        let preferred = self.all.iter().filter(is_on);
        let preferred = preferred.filter(|own| own.state == OwnAddressState::Preferred);
        self.transmits.extend(preferred.map(OwnAddress::announcement));
    }

    /// Whether neighbours of this family may be asked for: the instance's own address is not tentative or a duplicate.
    pub fn may_request(&self, instance: InstanceId, is_ipv6: bool) -> bool {
        let is_source =
            |own: &&OwnAddress| own.interface.instance == instance && own.address.is_ipv6() == is_ipv6;
        let own = self.all.iter().find(is_source);
        own.is_none_or(|own| own.state == OwnAddressState::Preferred)
    }

    /// The next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next change, in order.
    pub fn poll_event(&mut self) -> Option<OwnAddressEvent> {
        self.events.pop_front()
    }

    /// All addresses, for views.
    pub fn views(&self) -> impl Iterator<Item = OwnAddressView> + '_ {
        self.all.iter().map(|own| OwnAddressView {
            instance: own.interface.instance,
            address: own.address,
            mac: own.interface.mac,
            state: own.state,
            conflicts: own.conflicts,
        })
    }
}

#[cfg(test)]
mod tests;
