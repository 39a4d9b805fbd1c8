//! The table for views.

use std::net::IpAddr;
use std::time::Duration;

use flow::{AdjacencyId, InstanceId, Nanos};
use packet::MacAddr;

use super::Neighbours;
use super::entry::{Entry, State, WantedBy};

/// The state of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Configured; it never changes.
    Static,
    /// An own address.
    Own,
    /// It has replied, and the reply is valid.
    Reachable,
    /// Its reply is no longer valid: it is requested again, and packets are still sent to it.
    Checking,
    /// It is requested and has not replied yet.
    Incomplete,
    /// It has not replied, and is not requested for some time.
    Unreachable,
    /// Its port has no link.
    LinkDown,
    /// It cannot be asked: there is no contact with what its port is behind. What is known of it still holds.
    NoContact,
    /// The instance's own IPv6 address is tentative or a duplicate: there is no source address for a request.
    NoSource,
}

impl NeighbourState {
    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Own => "own",
            Self::Reachable => "reachable",
            Self::Checking => "checking",
            Self::Incomplete => "incomplete",
            Self::Unreachable => "unreachable",
            Self::LinkDown => "link down",
            Self::NoContact => "no contact",
            Self::NoSource => "no source address",
        }
    }

    /// Whether packets are sent there.
    #[must_use]
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Static | Self::Own | Self::Reachable | Self::Checking)
    }
}

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourView {
    /// Its slot.
    pub id: AdjacencyId,
    /// On whose link it is.
    pub instance: InstanceId,
    /// Its address.
    pub address: IpAddr,
    /// Its link layer address, if that is known.
    pub mac: Option<MacAddr>,
    /// Its state.
    pub state: NeighbourState,
    /// Time since its last reply; `None` if it never replied.
    pub age: Option<Duration>,
    /// Requests without a reply since then, or since the entry was made.
    pub asked: u8,
    /// What wants it: `configuration`, `traffic`, `rules`.
    pub wanted_by: &'static str,
}

impl Neighbours {
    /// All neighbours from slot `from` on, in the order of their slots.
    pub fn views(&self, now: Nanos, from: u32) -> impl Iterator<Item = NeighbourView> + '_ {
        let slots = self.table.slots().skip(from as usize);
        slots.filter_map(move |id| Some(self.view_of(now, id, self.table.get(id)?)))
    }

    /// One neighbour, if it is in the table.
    #[must_use]
    pub fn view(&self, now: Nanos, instance: InstanceId, address: IpAddr) -> Option<NeighbourView> {
        let id = self.find(instance, address)?;
        Some(self.view_of(now, id, self.table.get(id)?))
    }

    fn view_of(&self, now: Nanos, id: AdjacencyId, entry: &Entry) -> NeighbourView {
        let (state, asked) = match entry.state {
            State::Ourselves(_) => (NeighbourState::Own, 0),
            _ if self.is_link_down(entry) => (NeighbourState::LinkDown, 0),
            _ if self.is_cut_off(entry) => (NeighbourState::NoSource, 0),
            _ if self.is_without_contact(entry) => (NeighbourState::NoContact, 0),
            State::Static(_) => (NeighbourState::Static, 0),
            State::Reachable { .. } => (NeighbourState::Reachable, 0),
            State::Checking { asked, .. } => (NeighbourState::Checking, asked),
            State::Incomplete { asked, .. } => (NeighbourState::Incomplete, asked),
            State::Failed { .. } => (NeighbourState::Unreachable, 0),
        };
        NeighbourView {
            id,
            instance: entry.instance,
            address: entry.address,
            mac: entry.mac(),
            state,
            age: entry
                .answered
                .map(|at| Duration::from_nanos(now.0.saturating_sub(at.0))),
            asked,
            wanted_by: match entry.wanted {
                WantedBy::Rules => "rules",
                WantedBy::Traffic => "traffic",
                WantedBy::Configuration => "configuration",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use flow::PortId;

    use super::super::{NeighbourMessage, NeighboursConfig};
    use super::*;
    use crate::Interface;

    const N6: InstanceId = InstanceId(1);
    const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn table() -> Neighbours {
        let interface = Interface {
            instance: N6,
            port: PortId(0),
            vlan: None,
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            ipv4: Some([192, 0, 2, 1].into()),
            broadcast: None,
            ipv6: None,
            mtu: 1500,
            fragmentation: rules::network::Fragmentation::Inner,
            tunnels: false,
        };
        Neighbours::new(NeighboursConfig::default(), vec![interface])
    }

    const fn second(second: u64) -> Nanos {
        Nanos(second * 1_000_000_000)
    }

    #[test]
    fn a_neighbour_is_shown_through_its_life() {
        let (mut table, address) = (table(), IpAddr::from([192, 0, 2, 9]));
        let shown = |table: &Neighbours, at: u64| {
            let view = table.view(second(at), N6, address).expect("an entry");
            (view.state, view.asked, view.age.map(|age| age.as_secs()))
        };
        assert_eq!(table.view(second(0), N6, address), None);
        table.pin(second(0), N6, address).expect("room");
        assert_eq!(shown(&table, 0), (NeighbourState::Incomplete, 1, None));
        table.handle_message(second(1), N6, address, PEER, NeighbourMessage::Reply);
        assert_eq!(shown(&table, 1), (NeighbourState::Reachable, 0, Some(0)));
        // A router's reply is valid for a second; then it is requested six times.
        table.handle_timeout(second(2));
        assert_eq!(shown(&table, 2), (NeighbourState::Checking, 1, Some(1)));
        (3..9).for_each(|at| table.handle_timeout(second(at)));
        assert_eq!(shown(&table, 8), (NeighbourState::Unreachable, 0, Some(7)));
        assert_eq!(table.view(second(8), N6, address).and_then(|view| view.mac), None);
        table.set_link(second(8), PortId(0), false);
        assert_eq!(shown(&table, 8), (NeighbourState::LinkDown, 0, Some(7)));
        table.set_link(second(9), PortId(0), true);
        table.handle_timeout(second(9));
        table.handle_message(second(9), N6, address, PEER, NeighbourMessage::Reply);
        assert_eq!(shown(&table, 9), (NeighbourState::Reachable, 0, Some(0)));
        let fixed = IpAddr::from([192, 0, 2, 8]);
        table.add_static(N6, fixed, PEER).expect("room");
        let all: Vec<_> = table
            .views(second(9), 0)
            .map(|view| (view.address, view.state))
            .collect();
        assert_eq!(
            all,
            [
                (address, NeighbourState::Reachable),
                (fixed, NeighbourState::Static)
            ]
        );
        assert_eq!(table.views(second(9), 1).count(), 1);
    }
}
