//! Which queue a packet of a session waits in: one line for each direction.

use flow::Verdict;
use rules::image::EgressQueues;
use tm::{QueueId, QueueLine, UeId};

/// No queue of this number has such a key.
const UNUSED: u16 = 0xfffe;
/// In a key: the packet shares no rate.
const ALONE: u8 = 0xff;

/// The queues of one direction of a session: one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct SessionQueues {
    /// The slots of the QERs whose rates queues share.
    shared: u64,
    /// By place: the slot of the QER that marks packets, and that of the one whose rate they share.
    keys: [u16; EgressQueues::MAX],
    /// By place: where the queue is.
    lines: [u32; EgressQueues::MAX],
    /// The node of the first queue, and mostly of all.
    ue: UeId,
}

const _: () = assert!(size_of::<SessionQueues>() == 64);

impl SessionQueues {
    /// Of a direction that has none.
    pub const NONE: Self = Self {
        shared: 0,
        keys: [UNUSED; EgressQueues::MAX],
        lines: [0; EgressQueues::MAX],
        ue: UeId(u32::MAX),
    };

    /// Those of a plan, which are here, in its order, the first below this node.
    pub fn new(plan: &EgressQueues, ue: UeId, queues: &[QueueLine]) -> Self {
        let mut all = Self {
            shared: plan.shared_slots(),
            ue,
            ..Self::NONE
        };
        for (place, (queue, line)) in plan.queues.iter().zip(queues).enumerate().take(EgressQueues::MAX) {
            let shaper = queue
                .shaper
                .and_then(|place| plan.shapers.get(usize::from(place)));
            all.keys[place] = key(queue.marking, shaper.map_or(ALONE, |shaper| shaper.slot));
            all.lines[place] = line.0;
        }
        all
    }

    /// Whether packets wait at all.
    #[inline(always)]
    pub const fn is_none(&self) -> bool {
        self.keys[0] == UNUSED
    }

    /// The node that most of its queues are below.
    #[inline(always)]
    pub const fn ue(&self) -> UeId {
        self.ue
    }

    /// How many queues it has.
    pub fn len(&self) -> usize {
        self.keys.iter().take_while(|key| **key != UNUSED).count()
    }

    /// The place of a queue in the plan.
    pub fn place_of(&self, queue: QueueLine) -> Option<u8> {
        let mut places = 0..self.len() as u8;
        places.find(|place| self.at(usize::from(*place)) == queue)
    }

    /// The queue for packets of a verdict, unless its plan does not foresee them.
    #[inline(always)]
    pub fn find(&self, verdict: &Verdict) -> Option<QueueLine> {
        let shared = verdict.qers & self.shared;
        let shaper = match shared {
            0 => ALONE,
            _ => shared.trailing_zeros() as u8,
        };
        let wanted = key(verdict.marking, shaper);
        let place = self.keys.iter().position(|key| *key == wanted)?;
        Some(self.at(place))
    }

    /// The queue at a place of the plan.
    #[inline(always)]
    pub const fn at(&self, place: usize) -> QueueLine {
        QueueLine(self.lines[place % EgressQueues::MAX])
    }
}

/// The queues of one direction of a session by their names, in the order of its plan.
pub(super) struct NamedQueues {
    of: [QueueId; EgressQueues::MAX],
    len: u8,
}

impl NamedQueues {
    /// Those of a line, where `name` says what is where; `None` where it does not know one.
    pub fn new(line: &SessionQueues, name: impl Fn(QueueLine) -> Option<QueueId>) -> Option<Self> {
        let none = QueueId {
            ue: UeId(u32::MAX),
            place: 0,
        };
        let len = line.len();
        let mut of = [none; EgressQueues::MAX];
        for (place, of) in of.iter_mut().enumerate().take(len) {
            *of = name(line.at(place))?;
        }
        Some(Self { of, len: len as u8 })
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// The queue at a place of the plan; one that is nowhere beyond the length.
    pub const fn at(&self, place: usize) -> QueueId {
        self.of[place % EgressQueues::MAX]
    }

    fn all(&self) -> &[QueueId] {
        self.of.get(..self.len()).unwrap_or_default()
    }

    /// The nodes of its queues, each once.
    pub fn ues(&self) -> Vec<UeId> {
        let mut all: Vec<_> = self.all().iter().map(|queue| queue.ue).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The place of a queue in the plan.
    pub fn place_of(&self, queue: QueueId) -> Option<u8> {
        let place = self.all().iter().position(|of| *of == queue)?;
        Some(place as u8)
    }

    /// The places of the first queue of each node, in the order of the plan.
    pub fn first_of_ues(&self) -> impl Iterator<Item = u8> + '_ {
        let is_first = |place: &u8| {
            let ue = self.at(usize::from(*place)).ue;
            self.all().iter().position(|of| of.ue == ue) == Some(usize::from(*place))
        };
        (0..self.len() as u8).filter(is_first)
    }
}

#[inline(always)]
const fn key(marking: u8, shaper: u8) -> u16 {
    (marking as u16) << 8 | shaper as u16
}

#[cfg(test)]
mod tests {
    use flow::meter::Rate;
    use proptest::prelude::*;
    use rules::image::{EgressQueue, EgressShaper};
    use rules::model::QerId;

    use super::*;

    fn plan(shapers: &[u8], queues: &[(u8, Option<u8>)]) -> EgressQueues {
        let queue = |&(marking, shaper): &(u8, Option<u8>)| EgressQueue {
            marking,
            qer: None,
            shaper,
            class: 0,
            guaranteed: Rate::ZERO,
            maximum: Rate::UNLIMITED,
            burst_millis: 50,
        };
        let shaper = |&slot: &u8| EgressShaper {
            qer: QerId(u32::from(slot)),
            slot,
            maximum: Rate::from_kbit(1000),
            burst_millis: 50,
        };
        EgressQueues {
            instance: flow::InstanceId(0),
            policers: flow::meter::Chain::default(),
            shapers: shapers.iter().map(shaper).collect(),
            queues: queues.iter().map(queue).collect(),
        }
    }

    proptest! {
        /// Where the line finds a queue it is the one that the plan says.
        #[test]
        fn the_line_agrees_with_the_plan(
            marks in proptest::collection::vec((0u8..5, proptest::option::of(0u8..2)), 1..8),
            marking in prop_oneof![0u8..6, Just(Verdict::NO_MARK)],
            qers: u64,
        ) {
            let plan = plan(&[7, 9], &marks);
            let ids: Vec<_> = (0..marks.len()).map(|place| QueueLine(8 + place as u32)).collect();
            let line = SessionQueues::new(&plan, UeId(3), &ids);
            // No PDR has two QERs whose rates are shared.
            let qers = if qers & 1 << 7 != 0 { qers & !(1 << 9) } else { qers };
            let verdict = Verdict { marking, qers, ..Verdict::NONE };
            let said = plan.of(marking, qers);
            match line.find(&verdict) {
                Some(found) => prop_assert_eq!(found, ids[said]),
                // Another queue stands in: that of another mark, or of another rate.
                None => {
                    let queue = plan.queues[said];
                    let shaper = queue.shaper.map(|place| plan.shapers[usize::from(place)].slot);
                    let wanted = (qers & plan.shared_slots() != 0)
                        .then(|| (qers & plan.shared_slots()).trailing_zeros() as u8);
                    prop_assert_ne!((queue.marking, shaper), (marking, wanted));
                }
            }
            prop_assert!(!line.is_none());
        }
    }

    #[test]
    fn a_direction_without_queues_has_none() {
        assert!(SessionQueues::NONE.is_none());
        let unmarked = Verdict {
            marking: Verdict::NO_MARK,
            ..Verdict::NONE
        };
        assert_eq!(SessionQueues::NONE.find(&unmarked), None);
    }
}
