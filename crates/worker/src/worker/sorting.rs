//! What an accelerator has sent, for this worker or another one.

use flow::{Nanos, PortId};

use super::receive::Source;
use super::state::Worker;
use crate::burst::batch::BURST;
use crate::burst::descriptor::Fate;
use crate::ingress::worker_selection::select_workers;
use crate::io::Io;
use crate::nat::NatStage;

impl<I: Io> Worker<I> {
    /// Takes what the accelerator has sent.
    #[cold]
    pub(super) fn receive_of_accelerator(&mut self, now: Nanos) {
        let backlog = &self.backlog;
        let waiting = |port| backlog.waiting(port);
        self.ports.io.poll_accelerator(now, &waiting);
        if self.config.workers > 1 {
            self.sort_exchanged(now);
        }
    }

    /// Gives what has come from the accelerator to the workers that own the sessions, as far as this one receives for
    /// all. What is no user packet stays here, and fragments are handed over once more where their ports are known.
    fn sort_exchanged(&mut self, now: Nanos) {
        let mut owners = [self.config.id; BURST];
        loop {
            self.ports.io.take_unsorted(&mut self.burst.packets, now);
            let packets = self.burst.packets.len();
            if packets == 0 {
                return;
            }
            self.parse(Source::Port(PortId(0)));
            let (me, burst) = (self.config.id, &mut self.burst);
            let descriptors = &mut burst.descriptors[..packets];
            let pools = self.nat.as_deref().map(NatStage::pools);
            let selection = (&self.worker_selection, pools);
            select_workers(selection, me, &burst.packets, descriptors, &burst.keys);
            for (owner, descriptor) in owners.iter_mut().zip(&burst.descriptors) {
                *owner = match descriptor.fate {
                    Fate::HandOver(owner) => owner,
                    _ => me,
                };
            }
            self.ports
                .io
                .sort(&mut self.burst.packets, &owners[..packets], now);
        }
    }
}
