//! What an accelerator has sent, for this worker or another one.

use flow::{Nanos, PortId};

use super::receive::Source;
use super::state::Worker;
use crate::burst::batch::BURST;
use crate::burst::descriptor::Fate;
use crate::ingress::worker_selection::select_workers;
use crate::io::Io;
use crate::nat::NatStage;

/// Bursts that are sorted in one poll: sessions of this worker have their turn meanwhile.
const SORTED_BURSTS: usize = 8;

impl<I: Io> Worker<I> {
    /// Takes what the accelerator has sent, or other workers have passed on of that: how much, with what was sorted.
    #[cold]
    pub(super) fn receive_of_accelerator(&mut self, now: Nanos) -> u64 {
        let before = self.ports.io.taken_of_link();
        let backlog = &self.backlog;
        let waiting = |port| backlog.waiting(port);
        let selection = &self.worker_selection;
        let owner = |bucket| selection.of_bucket(bucket);
        self.ports.io.poll_accelerator(now, &waiting, &owner);
        if self.config.workers > 1 {
            self.sort_exchanged(now);
        }
        self.ports.io.taken_of_link() - before
    }

    /// Gives what has come from the accelerator to the workers that own the sessions, as far as this one receives for
    /// all. What is no user packet stays here, and fragments are handed over once more where their ports are known.
    /// What is more than some bursts waits for the next poll.
    fn sort_exchanged(&mut self, now: Nanos) {
        let mut owners = [self.config.id; BURST];
        for _ in 0..SORTED_BURSTS {
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
