//! What the queues of a worker hold that has ports behind an accelerator.

use std::collections::VecDeque;

use flow::{Bucket, PortId};
use offload::exception::{AnswersWriter, Class};
use offload::in_band::InBand;

use crate::Batch;
use crate::io::accelerator_port::AcceleratorPort;
use crate::io::accelerator_port_stats::AcceleratorPortStats;
use crate::io::link_ends::{LinkEnds, Passed, Sorting};
use crate::io::waiting_questions::WaitingQuestions;
use crate::io::{Io, PacketMetadata};

/// Packets of a port that wait for the worker, by [`Class`]: each has room of its own, whatever there is of the others.
pub(super) const WAITING: [usize; 3] = [128, 128, 512];

/// A marker that is to be sent back when what came before it has been.
pub(super) struct Awaited {
    pub(super) number: u64,
    /// Packets that had come by each port before.
    pub(super) before: Vec<u64>,
}

/// Packets of a port that wait for the worker.
pub(super) struct Waiting<B> {
    pub(super) packets: VecDeque<(Class, B)>,
    /// How many of each class wait.
    pub(super) by_class: [usize; 3],
    /// Packets that have come, and that were taken.
    pub(super) came: u64,
    pub(super) taken: u64,
}

/// The queues of a worker, with ports behind an accelerator.
pub struct BehindAccelerator<I: Io> {
    pub(super) inner: I,
    pub(super) config: AcceleratorPort,
    pub(super) host: InBand,
    pub(super) waiting: Vec<Waiting<I::Buf>>,
    pub(super) markers: VecDeque<Awaited>,
    pub(super) raw: Batch<I::Buf>,
    pub(super) to_send: Batch<I::Buf>,
    /// Of packets that go back with their flow, in this contact.
    pub(super) counter: u64,
    pub(super) frame: Vec<u8>,
    pub(super) questions: WaitingQuestions<I::Buf>,
    pub(super) answers: AnswersWriter,
    pub(super) ends: LinkEnds<I::Buf>,
    /// Of several workers at the first one: packets, questions and markers in the order in which they came.
    pub(super) unsorted: VecDeque<Passed<I::Buf>>,
    /// Of several workers at the first one: packets that came with their bucket, until the end of the poll.
    pub(super) steered: Vec<(Bucket, Passed<I::Buf>)>,
    /// What the packets are that were given to be sorted.
    pub(super) sorting: Vec<Sorting>,
    /// Frames and packets that were taken of the port towards the accelerator, or of other workers, and that were
    /// sorted, since the start.
    pub(super) taken: u64,
    pub(super) stats: AcceleratorPortStats,
}

impl<I: Io> BehindAccelerator<I> {
    /// The queues of `inner`, and as many ports behind them as the accelerator has that is driven by `host`.
    pub fn new(inner: I, config: AcceleratorPort, host: InBand) -> Self {
        let queue = |_| Waiting {
            packets: VecDeque::with_capacity(WAITING.iter().sum()),
            by_class: [0; 3],
            came: 0,
            taken: 0,
        };
        Self {
            waiting: (0..config.ports).map(queue).collect(),
            questions: WaitingQuestions::new(config.ports.into()),
            inner,
            config,
            host,
            markers: VecDeque::new(),
            raw: Batch::new(),
            to_send: Batch::new(),
            counter: 0,
            frame: Vec::new(),
            answers: AnswersWriter::default(),
            ends: LinkEnds::alone(),
            unsorted: VecDeque::new(),
            steered: Vec::new(),
            sorting: Vec::new(),
            taken: 0,
            stats: AcceleratorPortStats::default(),
        }
    }

    /// The same of one of several workers. Its channel has the number of that of the first one and its own.
    #[must_use]
    pub fn with_ends(mut self, ends: LinkEnds<I::Buf>) -> Self {
        self.ends = ends;
        self
    }

    /// The queues themselves.
    pub fn inner_mut(&mut self) -> &mut I {
        &mut self.inner
    }

    /// What was counted.
    pub const fn port_stats(&self) -> &AcceleratorPortStats {
        &self.stats
    }

    /// The number that a port has at the accelerator; `None` for a port of this node's.
    pub(super) fn behind(&self, port: PortId) -> Option<u16> {
        let number = port.index().checked_sub(self.inner.ports())?;
        u16::try_from(number)
            .ok()
            .filter(|number| *number < self.config.ports)
    }

    /// The number of the first worker's channel, which all has that is no channel's.
    pub(super) fn first_channel(&self) -> u8 {
        self.channel().wrapping_sub(self.ends.worker as u8)
    }

    pub(super) fn channel(&self) -> u8 {
        self.host.channel().config().channel
    }

    /// The place, among the ports behind the accelerator, of the one that a packet came in by.
    pub(super) fn place_behind(&self, packet: &I::Buf) -> usize {
        packet.ingress().index().wrapping_sub(self.inner.ports())
    }
}
