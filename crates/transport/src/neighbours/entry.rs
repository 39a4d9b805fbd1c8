//! One entry of the neighbour table: its state and what wants it.

use std::net::IpAddr;

use flow::{InstanceId, Nanos};
use packet::MacAddr;
use rules::AdjacencyRef;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Configured; it never changes.
    Static(MacAddr),
    /// An own address: packets to it come in again.
    Ourselves(MacAddr),
    /// Without a valid reply: requests go to all. `asked` requests so far; the next one, or the end, is due at `at`.
    Incomplete { asked: u8, at: Nanos },
    /// Did not reply: no request before `at`.
    Failed { at: Nanos },
    /// Valid until `at`. `conflict` is the earliest time at which another station's claim starts a check.
    Reachable {
        mac: MacAddr,
        at: Nanos,
        conflict: Nanos,
    },
    /// In use while it is checked: the first `attempts` requests go to the known station, the next to all.
    Checking { mac: MacAddr, asked: u8, at: Nanos },
}

/// What wants an entry; of several, the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WantedBy {
    /// Rules: the entry is removed when no image refers to it.
    Rules,
    /// Packets, or a neighbour that has asked for an own address: the entry is removed when it does not reply.
    Traffic,
    /// The configuration: the entry is never removed.
    Configuration,
}

impl WantedBy {
    /// How many there are.
    pub const COUNT: usize = 3;
}

pub(super) struct Entry {
    pub instance: InstanceId,
    pub address: IpAddr,
    pub wanted: WantedBy,
    /// Its key among the deadlines.
    pub due: Option<Nanos>,
    /// When it replied last.
    pub answered: Option<Nanos>,
    /// Copies are in the images that refer to the slot: until they are dropped, no other neighbour gets the slot.
    pub hold: AdjacencyRef,
    pub state: State,
}

impl Entry {
    /// Whether something refers to the slot.
    pub fn is_kept(&self) -> bool {
        self.wanted == WantedBy::Configuration || self.hold.is_shared()
    }

    /// Whether it may be removed before its time: nothing refers to it, and it is no longer in rules or does not reply.
    pub fn is_spare(&self) -> bool {
        !self.is_kept() && (self.wanted == WantedBy::Rules || matches!(self.state, State::Failed { .. }))
    }

    pub fn deadline(&self) -> Option<Nanos> {
        match self.state {
            State::Static(_) | State::Ourselves(_) => None,
            State::Incomplete { at, .. }
            | State::Failed { at }
            | State::Reachable { at, .. }
            | State::Checking { at, .. } => Some(at),
        }
    }

    /// The same state with its next request, or its end, at another time; `None` where it has none, or is to end.
    pub fn put_off(&self, at: Nanos) -> Option<State> {
        match self.state {
            State::Static(_) | State::Ourselves(_) => None,
            State::Incomplete { .. } | State::Failed { .. } if !self.is_kept() => None,
            State::Reachable { .. } if self.is_spare() => None,
            State::Incomplete { asked, .. } => Some(State::Incomplete { asked, at }),
            State::Failed { .. } => Some(State::Failed { at }),
            State::Reachable { mac, conflict, .. } => Some(State::Reachable { mac, at, conflict }),
            State::Checking { mac, asked, .. } => Some(State::Checking { mac, asked, at }),
        }
    }

    pub fn mac(&self) -> Option<MacAddr> {
        match self.state {
            State::Static(mac)
            | State::Ourselves(mac)
            | State::Reachable { mac, .. }
            | State::Checking { mac, .. } => Some(mac),
            State::Incomplete { .. } | State::Failed { .. } => None,
        }
    }

    /// Whether it is an own address.
    pub fn is_ourselves(&self) -> bool {
        matches!(self.state, State::Ourselves(_))
    }
}
