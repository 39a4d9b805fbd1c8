//! Load and overload control: the metrics that peers receive (TS 29.244 §6.2.3, §6.2.4), and which requests are
//! rejected.
//!
//! Load is the largest of: the figure that the caller gives ([`AdmissionQueue`](crate::AdmissionQueue) has it),
//! requests in work over the most there may be, and (for what peers receive) sessions over the most there may be. Under
//! overload new sessions are refused with cause 74, those of low message priority first; modifications only when
//! nothing more can be taken up; deletions and heartbeats never. While there are several peers, each may have its share
//! of the work and no more.

use flow::Nanos;
use pfcp::group::{LoadControlInformation, OverloadControlInformation};
use pfcp::ie::{CpFunctionFeatures, Metric, OciFlags, SequenceNumber, Timer};
use std::time::Duration;

/// Per cent from which on there is overload.
pub(crate) const OVERLOAD: u8 = 80;
/// Smaller changes are not sent (TS 29.244 §6.2.3.3.2.2).
const STEP: u8 = 5;
/// Seconds that overload is to be believed in.
const VALIDITY: u32 = 60;
/// The message priority of a request without one; 0 is the highest, 15 the lowest.
const DEFAULT_PRIORITY: u8 = 8;

/// A metric that peers receive, and its sequence number.
#[derive(Clone, Copy, Debug)]
struct Metrics {
    number: u32,
    metric: u8,
    since: Nanos,
}

impl Metrics {
    /// Takes a figure over if it differs enough, or begins or ends an overload.
    fn update(&mut self, now: Nanos, metric: u8) {
        let is_news = metric.abs_diff(self.metric) >= STEP || (metric == 0) != (self.metric == 0);
        if is_news {
            *self = Metrics {
                number: self.number.wrapping_add(1),
                metric,
                since: now,
            };
        }
    }
}

/// What is known of our load.
#[derive(Debug)]
pub(crate) struct Load {
    given: u8,
    load: Metrics,
    overload: Metrics,
}

/// The sequence numbers that one peer has received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SentLoad {
    load: Option<u32>,
    overload: Option<u32>,
}

impl Load {
    /// Numbers begin at a time, so that those after a restart are newer.
    pub(crate) fn new(start: u64) -> Load {
        let nothing = Metrics {
            number: start as u32,
            metric: 0,
            since: Nanos::ZERO,
        };
        Load {
            given: 0,
            load: nothing,
            overload: nothing,
        }
    }

    /// The load that the caller measures, 0 to 100 per cent.
    pub(crate) fn set_given(&mut self, percent: u8) {
        self.given = percent.min(100);
    }

    /// Per cent of what control can do, with `pending` requests of at most `max_pending`.
    pub(crate) fn overload(&self, pending: usize, max_pending: usize) -> u8 {
        self.given.max(percent(pending, max_pending))
    }

    /// Takes up the present figures: per cent of the time, and of the sessions there may be.
    pub(crate) fn update(&mut self, now: Nanos, busy: u8, full: u8) {
        self.load.update(now, busy.max(full));
        let reduction = busy
            .saturating_sub(OVERLOAD)
            .saturating_mul(100 / (100 - OVERLOAD));
        self.overload.update(now, reduction);
        let half = Duration::from_secs(u64::from(VALIDITY / 2));
        if reduction > 0 && now.since(self.overload.since) >= half {
            // The overload continues: a new number keeps it valid (§6.2.4.3.2.1, NOTE 1).
            self.overload.number = self.overload.number.wrapping_add(1);
            self.overload.since = now;
        }
    }

    /// What a peer with these features receives, unless it has received it before.
    pub(crate) fn information(&self, features: CpFunctionFeatures, sent: &mut SentLoad) -> LoadInformation {
        let (load, overload) = (&self.load, &self.overload);
        let sends_load = features.contains(CpFunctionFeatures::LOAD) && sent.load != Some(load.number);
        let is_old =
            sent.overload == Some(overload.number) || sent.overload.is_none() && overload.metric == 0;
        let sends_overload = features.contains(CpFunctionFeatures::OVRL) && !is_old;
        if sends_load {
            sent.load = Some(load.number);
        }
        if sends_overload {
            sent.overload = Some(overload.number);
        }
        LoadInformation {
            load: sends_load.then(|| self.load_information()),
            overload: sends_overload.then(|| self.overload_information()),
        }
    }

    fn load_information(&self) -> LoadControlInformation<'static> {
        LoadControlInformation::new(SequenceNumber(self.load.number), Metric(self.load.metric))
    }

    fn overload_information(&self) -> OverloadControlInformation<'static> {
        let validity = Timer::from_seconds(VALIDITY);
        let number = SequenceNumber(self.overload.number);
        let mut told = OverloadControlInformation::new(number, Metric(self.overload.metric), validity);
        told.overload_control_information_flags = Some(OciFlags::AOCI);
        told
    }
}

/// The IEs of a message about our load.
#[derive(Clone, Copy, Default)]
pub(crate) struct LoadInformation {
    pub(crate) load: Option<LoadControlInformation<'static>>,
    pub(crate) overload: Option<OverloadControlInformation<'static>>,
}

/// Whether a load leaves no room for a new session of this message priority.
pub(crate) fn is_turned_away(load: u8, priority: Option<u8>) -> bool {
    let priority = u32::from(priority.unwrap_or(DEFAULT_PRIORITY));
    // The room that is left above the threshold, for 16 priorities.
    let left = u32::from(100 - load.min(100)) * 16 / u32::from(100 - OVERLOAD);
    priority > left
}

pub(crate) fn percent(part: usize, whole: usize) -> u8 {
    (part.saturating_mul(100) / whole.max(1)).min(100) as u8
}
