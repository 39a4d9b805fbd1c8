//! Which ports have a link, for control.

use flow::Nanos;
use ports::Ports;
use runtime::{PublishedAccelerator, WorkerThread};
use transport::lag::LINK_POLL;
use upf::Control;

/// Looks at the links of all ports, every few milliseconds.
pub struct LinkWatch {
    due: Nanos,
    /// What the first worker knows of it, to which its links are reported.
    accelerator: PublishedAccelerator,
}

impl LinkWatch {
    /// Of a node with these workers.
    pub fn new(threads: &[WorkerThread]) -> Self {
        let accelerator = threads.first().map(|thread| thread.accelerator().clone());
        Self {
            due: Nanos::ZERO,
            accelerator: accelerator.unwrap_or_default(),
        }
    }

    /// Tells control how links are.
    pub fn look(&mut self, now: Nanos, ports: &Ports, control: &mut Control) {
        if now < self.due {
            return;
        }
        self.due = now + LINK_POLL;
        for (port, up) in ports.links() {
            control.set_link(now, port, up);
        }
        self.look_behind(now, ports, control);
    }

    /// Without contact nothing is known of the links of an accelerator's ports.
    fn look_behind(&self, now: Nanos, ports: &Ports, control: &mut Control) {
        let mut behind = ports.behind_accelerator().enumerate().peekable();
        if behind.peek().is_none() {
            return;
        }
        let view = self.accelerator.read().filter(|view| view.mac.is_some());
        let down = view.as_ref().and_then(|view| view.links_down);
        for (place, port) in behind {
            if let Some(down) = down {
                // More ports than it has bits for are up.
                let is_down = place < 64 && down >> place & 1 == 1;
                control.set_link(now, port, !is_down);
            }
            control.set_contact(now, port, view.is_some());
        }
    }
}
