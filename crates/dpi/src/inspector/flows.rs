//! The states of flows: a fixed number of slots, those in use in the order in which they were opened.

use super::flow::{Flow, FlowIndex};

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    flow: Option<Flow>,
    /// The neighbours in the order of those in use; of a free slot `newer` is the next free one.
    older: u32,
    newer: u32,
}

const _: () = assert!(size_of::<Slot>() <= 64);

/// The slots.
#[derive(Debug)]
pub(super) struct Flows {
    slots: Box<[Slot]>,
    free: u32,
    oldest: u32,
    newest: u32,
    in_use: u32,
}

impl Flows {
    pub(super) fn new(flows: u32) -> Flows {
        let slot = |number: u32| Slot {
            flow: None,
            older: NONE,
            newer: if number + 1 < flows { number + 1 } else { NONE },
        };
        Flows {
            slots: (0..flows).map(slot).collect(),
            free: if flows > 0 { 0 } else { NONE },
            oldest: NONE,
            newest: NONE,
            in_use: 0,
        }
    }

    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Takes a slot for `flow`, if one is free.
    pub(super) fn open(&mut self, flow: Flow) -> Option<FlowIndex> {
        let index = self.free;
        let newest = self.newest;
        let slot = self.slots.get_mut(index as usize)?;
        self.free = slot.newer;
        *slot = Slot {
            flow: Some(flow),
            older: newest,
            newer: NONE,
        };
        self.set_newer(newest, index);
        self.newest = index;
        self.in_use += 1;
        Some(FlowIndex(index))
    }

    pub(super) fn get(&self, index: FlowIndex) -> Option<&Flow> {
        self.slots.get(index.0 as usize)?.flow.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: FlowIndex) -> Option<&mut Flow> {
        self.slots.get_mut(index.0 as usize)?.flow.as_mut()
    }

    /// Frees a slot.
    pub(super) fn close(&mut self, index: FlowIndex) -> Option<Flow> {
        let free = self.free;
        let slot = self.slots.get_mut(index.0 as usize)?;
        let flow = slot.flow.take()?;
        let (older, newer) = (slot.older, slot.newer);
        slot.newer = free;
        self.free = index.0;
        self.set_newer(older, newer);
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        self.in_use -= 1;
        Some(flow)
    }

    /// Frees the slot of the oldest flow if it `is_over`.
    pub(super) fn close_oldest(&mut self, is_over: impl FnOnce(&Flow) -> bool) -> Option<Flow> {
        let oldest = self.slots.get(self.oldest as usize)?;
        if !oldest.flow.as_ref().is_some_and(is_over) {
            return None;
        }
        self.close(FlowIndex(self.oldest))
    }

    fn set_newer(&mut self, of: u32, newer: u32) {
        match self.slots.get_mut(of as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::packet::Transport;
    use super::*;

    proptest! {
        #[test]
        fn flows_are_in_the_order_in_which_they_were_opened(
            steps in prop::collection::vec((any::<bool>(), 0usize..8), 0..100),
        ) {
            let mut flows = Flows::new(6);
            let mut model = VecDeque::new();
            for (token, (opens, nth)) in steps.into_iter().enumerate() {
                let token = token as u32;
                if opens {
                    let opened = flows.open(Flow::new(0, token, Transport::Udp, 0));
                    prop_assert_eq!(opened.is_some(), model.len() < 6);
                    model.extend(opened.map(|index| (index, token)));
                } else if nth == 0 {
                    let closed = flows.close_oldest(|_| true).map(|flow| flow.token);
                    prop_assert_eq!(closed, model.pop_front().map(|(_, token)| token));
                } else if let Some((index, token)) = model.remove(nth) {
                    prop_assert_eq!(flows.close(index).map(|flow| flow.token), Some(token));
                    prop_assert!(flows.close(index).is_none());
                }
                prop_assert_eq!(flows.in_use() as usize, model.len());
            }
        }
    }
}
