//! The links that neighbours are behind: which of them carry nothing.

use std::collections::BTreeSet;

use flow::PortId;

/// Ports that carry nothing at present.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Their link is down: their neighbours are unreachable.
    down: BTreeSet<PortId>,
    /// There is no contact with what they are behind: their neighbours cannot be asked.
    without_contact: BTreeSet<PortId>,
}

impl Links {
    pub fn is_down(&self, port: PortId) -> bool {
        self.down.contains(&port)
    }

    pub fn is_without_contact(&self, port: PortId) -> bool {
        self.without_contact.contains(&port)
    }

    /// Whether frames may leave by a port.
    pub fn carries(&self, port: PortId) -> bool {
        !self.is_down(port) && !self.is_without_contact(port)
    }

    /// Whether that is a change.
    pub fn set_link(&mut self, port: PortId, up: bool) -> bool {
        match up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        }
    }

    /// Whether that is a change.
    pub fn set_contact(&mut self, port: PortId, has_contact: bool) -> bool {
        match has_contact {
            true => self.without_contact.remove(&port),
            false => self.without_contact.insert(port),
        }
    }
}
