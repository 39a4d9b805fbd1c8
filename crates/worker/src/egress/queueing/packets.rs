//! Packets in queues, and behind them.

use std::collections::VecDeque;

use flow::PortId;
use packet::DropReason;
use packet::ip_fragmentation::FragmentSpec;

use crate::burst::batch::{BURST, Batch};
use crate::burst::credit::Charge;

/// A packet that waits, and what is done when it leaves or is lost.
pub(super) struct Waiting<B> {
    pub packet: B,
    pub charge: Charge,
    /// By which it leaves: a member of a LAG, or one of our own addresses.
    pub port: PortId,
    /// Where its user packet begins.
    pub user: u16,
}

impl<B> Waiting<B> {
    /// It waits no more.
    pub fn departing(self, split: Option<FragmentSpec>) -> Departing<B> {
        let Self {
            packet, charge, port, ..
        } = self;
        Departing {
            packet,
            charge,
            port,
            split,
        }
    }

    /// It is lost.
    pub fn lost(self, reason: DropReason) -> Lost<B> {
        let Self { packet, charge, .. } = self;
        Lost {
            packet,
            charge,
            reason,
        }
    }
}

/// A packet that is lost.
pub(crate) struct Lost<B> {
    pub packet: B,
    pub charge: Charge,
    pub reason: DropReason,
}

/// A packet that leaves a queue by other means than its port's output: in fragments, to one of our own addresses, or all
/// at once with others of its session.
pub(crate) struct Departing<B> {
    pub packet: B,
    pub charge: Charge,
    pub port: PortId,
    pub split: Option<FragmentSpec>,
}

/// What leaves next by one port: what the port has not taken yet.
pub(super) struct Output<B> {
    pub batch: Batch<B>,
    /// Of the packets of the batch.
    pub charges: VecDeque<Charge>,
}

impl<B> Output<B> {
    pub fn new() -> Self {
        Self {
            batch: Batch::new(),
            charges: VecDeque::with_capacity(BURST),
        }
    }
}
