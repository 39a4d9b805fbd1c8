//! What is in progress for the usage accounts of one session.

use flow::{Nanos, Reached};
use rules::boxed_option::{Absent, BoxedOption};
use rules::image::PacketsLeft;
use rules::model::UrrId;

/// The time of a timer that does not run.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// What is in progress for a session's usage accounts.
#[derive(Debug)]
pub(crate) struct PendingMeasurement {
    /// The session's timer, or [`NEVER`].
    pub(crate) timer: Nanos,
    /// The counts are queried.
    pub(crate) is_querying: bool,
    /// Bounds that the worker has yet to confirm.
    pub(crate) bounds_pending: u32,
    /// An event could not be evaluated: the bounds are to be set again, which causes it again.
    pub(crate) missed: bool,
    pub(crate) lists: BoxedOption<Lists>,
}

/// Lists that are empty most of the time.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// The remaining packets of packet rates that another worker gets.
    pub(crate) packets_in_transit: Vec<PacketsLeft>,
    /// What counters have reached of since the counts were asked for.
    pub(crate) reached: Vec<(UrrId, Reached)>,
    /// URRs that are to report an End Marker, each once.
    pub(crate) end_markers: Vec<UrrId>,
}

impl Absent for Lists {
    const ABSENT: &'static Self = &Lists {
        packets_in_transit: Vec::new(),
        reached: Vec::new(),
        end_markers: Vec::new(),
    };
}

impl Default for PendingMeasurement {
    /// Nothing.
    fn default() -> PendingMeasurement {
        PendingMeasurement {
            timer: NEVER,
            is_querying: false,
            bounds_pending: 0,
            missed: false,
            lists: BoxedOption::NONE,
        }
    }
}

impl PendingMeasurement {
    /// Another worker gets these remaining packets of packet rates.
    pub(crate) fn set_packets_in_transit(&mut self, left: &[PacketsLeft]) {
        self.take_packets_in_transit();
        if !left.is_empty() {
            self.lists.get_or_insert_default().packets_in_transit = left.to_vec();
        }
    }

    pub(crate) fn take_packets_in_transit(&mut self) -> Vec<PacketsLeft> {
        self.take(|lists| &mut lists.packets_in_transit)
    }

    /// Takes one of the lists, and frees them all when they are empty.
    pub(crate) fn take<T>(&mut self, of: impl FnOnce(&mut Lists) -> &mut Vec<T>) -> Vec<T> {
        let Some(lists) = self.lists.as_mut() else {
            return Vec::new();
        };
        let taken = std::mem::take(of(lists));
        let Lists {
            packets_in_transit,
            reached,
            end_markers,
        } = lists;
        if packets_in_transit.is_empty() && reached.is_empty() && end_markers.is_empty() {
            self.lists.clear();
        }
        taken
    }
}
