//! Links of ports, as the ports say.

use flow::{Nanos, PortId};

use super::Control;
use crate::port_links::LinkEvent;

impl Control {
    /// The link of a port is up, or down; nothing happens if it was before.
    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        self.port_links.set_link(now, port, up, &self.neighbours);
    }

    /// There is contact with what a port is behind, or not: then its link stays as it was, and its neighbours are not
    /// asked; nothing happens if it was so before.
    pub fn set_contact(&mut self, now: Nanos, port: PortId, has_contact: bool) {
        self.neighbours
            .at(now)
            .neighbours
            .set_contact(now, port, has_contact);
    }

    /// What happened to links since the last call. The oldest events are dropped if they are not polled.
    pub fn poll_link_event(&mut self) -> Option<LinkEvent> {
        self.port_links.poll_event()
    }
}
