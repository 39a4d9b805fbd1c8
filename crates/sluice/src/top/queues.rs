//! The queues before ports, with what came of their packets a second.

use std::time::{Duration, Instant};

use oam::values::{QueueList, QueuePriority};

/// How often they are asked for while they are shown.
const REFRESH: Duration = Duration::from_secs(2);

/// What the daemon says of queues.
#[derive(Default)]
pub struct Queues {
    pub list: Option<QueueList>,
    pub rows: Vec<PriorityRates>,
    /// Why there is none.
    pub fault: Option<String>,
    /// When the list was made.
    at: Option<Instant>,
    asked: Option<Instant>,
}

/// A priority: what came of its packets a second, since the answer before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PriorityRates {
    pub left: f64,
    pub octets: f64,
    pub marked: f64,
    pub dropped: f64,
    /// Microseconds that those which left had waited, on average; `None`: none left.
    pub wait_us: Option<u64>,
}

impl Queues {
    /// Whether they are to be asked for again; then they have been.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self
            .asked
            .is_none_or(|asked| now.duration_since(asked) >= REFRESH);
        if is_due {
            self.asked = Some(now);
        }
        is_due
    }

    /// How many shared rates there are.
    pub fn shapers(&self) -> usize {
        self.list.as_ref().map_or(0, |list| list.shapers.len())
    }

    /// Takes in what the daemon has said at a time.
    pub fn take(&mut self, at: Instant, told: Result<QueueList, String>) {
        let list = match told {
            Ok(list) => list,
            Err(why) => return self.fault = Some(why),
        };
        let seconds = self
            .at
            .map_or(0.0, |before| at.duration_since(before).as_secs_f64());
        let before = self.list.take().unwrap_or_default();
        let rows = list.priorities.iter().map(|one| {
            let mut known = before.priorities.iter();
            let then = known.find(|then| then.priority == one.priority);
            rates(then.unwrap_or(one), one, seconds)
        });
        self.rows = rows.collect();
        (self.list, self.at, self.fault) = (Some(list), Some(at), None);
    }
}

fn rates(before: &QueuePriority, now: &QueuePriority, seconds: f64) -> PriorityRates {
    // A daemon that has started anew counts from nothing.
    let more = |of: fn(&QueuePriority) -> u64| of(now).saturating_sub(of(before));
    let per_s = |of| match seconds > 0.0 {
        true => more(of) as f64 / seconds,
        false => 0.0,
    };
    PriorityRates {
        left: per_s(|one| one.departed_packets),
        octets: per_s(|one| one.departed_octets),
        marked: per_s(|one| one.marked_packets),
        dropped: per_s(|one| one.dropped.values().sum()),
        wait_us: more(|one| one.waited_us).checked_div(more(|one| one.departed_packets)),
    }
}
