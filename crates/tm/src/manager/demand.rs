//! What shared nodes would send if they could: for who divides a rate among several managers.

use super::Manager;
use crate::ids::NodeId;
use crate::packets::Room;
use crate::views::NodeDemand;

impl<R: Room> Manager<R> {
    /// Gives what each shared node has sent since this was called last, and who waits for its shaper.
    pub fn take_demands(&mut self, mut each: impl FnMut(NodeId, NodeDemand)) {
        let waiting = self.waiting_ues();
        for (number, waiting) in (0..).zip(waiting) {
            let Some(of) = &mut self.nodes[usize::from(number)] else {
                continue;
            };
            // A slow one may have let nothing pass since then. A port waits in no wheel.
            let is_closed = of.ready != 0 && !of.bucket.conforms(of.since, self.now);
            let refuses = std::mem::take(&mut of.has_refused) || of.waits != 0 || is_closed;
            let demand = NodeDemand {
                octets: std::mem::take(&mut of.passed),
                waiting: refuses.then_some(waiting),
            };
            each(NodeId(number), demand);
        }
    }

    /// UEs in the rings of each node and of those below it, as far as these do not wait themselves.
    fn waiting_ues(&self) -> Vec<u32> {
        let of = |number: usize| self.nodes[number].as_ref();
        let mut ues: Vec<u32> = (0..self.nodes.len())
            .map(|number| of(number).map_or(0, |of| of.ues))
            .collect();
        let mut levels: Vec<(u8, usize)> = (0..self.nodes.len())
            .filter_map(|number| Some((of(number)?.level, number)))
            .collect();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        for (_, number) in levels {
            let Some(node) = of(number) else { continue };
            if let (0, Some(parent)) = (node.waits, node.parent) {
                ues[usize::from(parent)] = ues[usize::from(parent)].saturating_add(ues[number]);
            }
        }
        ues
    }
}
