//! What the stages work on: the packets of a burst, one descriptor for each, their flow keys, and what `apply_rules`
//! leaves for later.

pub(crate) mod batch;
pub(crate) mod credit;
pub(crate) mod descriptor;
pub(crate) mod outcome;

use self::batch::{BURST, Batch};
use self::descriptor::{Descriptor, Keys};
use self::outcome::Outcome;

/// A burst of up to [`BURST`] packets on its way through the stages.
pub(crate) struct Burst<B> {
    pub packets: Batch<B>,
    /// By index in the burst; those behind the last packet mean nothing.
    pub descriptors: Box<[Descriptor]>,
    pub keys: Box<Keys>,
    pub outcome: Outcome,
}

impl<B> Burst<B> {
    /// No packets.
    pub fn new() -> Self {
        Self {
            packets: Batch::new(),
            descriptors: vec![Descriptor::NEW; BURST].into_boxed_slice(),
            keys: Box::new(Keys::new()),
            outcome: Outcome::new(),
        }
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// The descriptors of the packets.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors[..self.packets.len()]
    }
}
