//! What all sessions of a worker have counted of each content since its start, for those who watch the node.

use super::UrrCount;
use crate::{ContentId, Direction};

/// Contents that have a total: those with lower numbers.
const CONTENTS: usize = 65_536;

/// What was counted of one content. A cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct ContentTotal {
    /// Flows that were decided to be of it, in each direction by itself; a flow that is decided anew counts again.
    pub flows: u64,
    /// Packets to data networks, and to UEs.
    pub packets: [u64; 2],
    /// Their octets.
    pub octets: [u64; 2],
}

const _: () = assert!(size_of::<ContentTotal>() == 64);

/// The totals of one worker.
#[derive(Debug, Default)]
pub(super) struct ContentTotals {
    totals: Box<[ContentTotal]>,
    /// Those from here on are 0.
    end: usize,
}

impl ContentTotals {
    /// With room for 65,536 contents, 4 MiB.
    pub(super) fn new() -> Self {
        Self {
            totals: vec![ContentTotal::default(); CONTENTS].into(),
            end: 0,
        }
    }

    /// By the content's number, up to the last that there were flows of.
    pub(super) fn all(&self) -> &[ContentTotal] {
        self.totals.get(..self.end).unwrap_or_default()
    }

    /// A flow is decided to be of a content.
    pub(super) fn decided(&mut self, content: ContentId) {
        if let Some(total) = self.totals.get_mut(content.index()) {
            total.flows += 1;
            self.end = self.end.max(content.index() + 1);
        }
    }

    /// Counts a packet.
    #[inline]
    pub(super) fn count(&mut self, content: ContentId, direction: Direction, octets: u64) {
        if let Some(total) = self.totals.get_mut(content.index()) {
            let way = direction as usize;
            total.packets[way] = total.packets[way].wrapping_add(1);
            total.octets[way] = total.octets[way].wrapping_add(octets);
        }
    }

    /// Counts what another worker has counted, and counts no longer.
    pub(super) fn add(&mut self, content: ContentId, count: &UrrCount) {
        let Some(total) = self.totals.get_mut(content.index()) else {
            return;
        };
        let ways = [
            (count.ul_packets, count.ul_octets),
            (count.dl_packets, count.dl_octets),
        ];
        for (way, (packets, octets)) in ways.into_iter().enumerate() {
            total.packets[way] = total.packets[way].wrapping_add(packets);
            total.octets[way] = total.octets[way].wrapping_add(octets);
        }
        if *count != UrrCount::default() {
            self.end = self.end.max(content.index() + 1);
        }
    }

    /// Takes a packet back that was counted.
    pub(super) fn take_back(&mut self, content: ContentId, direction: Direction, octets: u64) {
        if let Some(total) = self.totals.get_mut(content.index()) {
            let way = direction as usize;
            total.packets[way] = total.packets[way].saturating_sub(1);
            total.octets[way] = total.octets[way].saturating_sub(octets);
        }
    }
}
