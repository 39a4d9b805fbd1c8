//! Load and overload: what peers are told of it (TS 29.244 §6.2.3, §6.2.4), and whom we turn away.
//!
//! Load is the largest of: the figure that the caller gives ([`AdmissionQueue`](crate::AdmissionQueue) has it), requests in work over
//! the most there may be, and (for what peers are told) sessions over the most there may be. Under overload new
//! sessions are refused with cause 74, those of low message priority first; modifications only when nothing more can be
//! taken up; deletions and heartbeats never. While there are several peers, each may have its share of the work and no
//! more.

use flow::Nanos;
use pfcp::group::{LoadControlInformation, OverloadControlInformation};
use pfcp::ie::{Cause, CpFunctionFeatures, Metric, OciFlags, SequenceNumber, Timer};
use session::AssociationId;
use std::time::Duration;

use crate::cause::Reject;
use crate::endpoint::Endpoint;

/// Per cent from which on there is overload.
pub(crate) const OVERLOAD: u8 = 80;
/// Smaller changes are not told (TS 29.244 §6.2.3.3.2.2).
const STEP: u8 = 5;
/// Seconds that overload is to be believed in.
const VALIDITY: u32 = 60;
/// The message priority of a request without one; 0 is the highest, 15 the lowest.
const DEFAULT_PRIORITY: u8 = 8;

/// A figure that peers are told, and its number.
#[derive(Clone, Copy, Debug)]
struct Told {
    number: u32,
    metric: u8,
    since: Nanos,
}

impl Told {
    /// Takes a figure over if it differs enough, or begins or ends an overload.
    fn update(&mut self, now: Nanos, metric: u8) {
        let is_news = metric.abs_diff(self.metric) >= STEP || (metric == 0) != (self.metric == 0);
        if is_news {
            *self = Told {
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
    load: Told,
    overload: Told,
}

/// What one peer has been told: the numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerKnows {
    load: Option<u32>,
    overload: Option<u32>,
}

impl Load {
    /// Numbers begin at a time, so that those after a restart are newer.
    pub(crate) fn new(start: u64) -> Load {
        let nothing = Told {
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

/// What goes into a message about our load.
pub(crate) type LoadInformation = (
    Option<LoadControlInformation<'static>>,
    Option<OverloadControlInformation<'static>>,
);

impl Endpoint {
    /// How much is asked of control, 0 to 100 per cent: to 80 how busy its thread is, from there how much waits for it,
    /// as its caller measures. Default 0.
    pub fn set_load(&mut self, percent: u8) {
        self.load.given = percent.min(100);
    }

    /// Per cent of what control can do, now.
    fn overload(&self) -> u8 {
        self.load
            .given
            .max(percent(self.in_work.len(), self.config.max_in_work))
    }

    /// What to tell a peer, if it wants to hear it and has not heard it yet.
    pub(crate) fn load_information(&mut self, now: Nanos, peer: Option<AssociationId>) -> LoadInformation {
        let sessions = self.sessions.count().sessions;
        let busy = self.overload();
        let full = percent(sessions, self.config.sessions.max_sessions as usize);
        self.load.load.update(now, busy.max(full));
        let reduction = busy
            .saturating_sub(OVERLOAD)
            .saturating_mul(100 / (100 - OVERLOAD));
        self.load.overload.update(now, reduction);
        let half = Duration::from_secs(u64::from(VALIDITY / 2));
        if reduction > 0 && now.since(self.load.overload.since) >= half {
            // It goes on: a new number keeps it valid (§6.2.4.3.2.1, NOTE 1).
            self.load.overload.number = self.load.overload.number.wrapping_add(1);
            self.load.overload.since = now;
        }
        let Some(peer) = peer.and_then(|peer| self.associations.get_mut(peer)) else {
            return (None, None);
        };
        let (load, overload) = (&self.load.load, &self.load.overload);
        let knows = &mut peer.knows;
        let tells_load = peer.features.contains(CpFunctionFeatures::LOAD) && knows.load != Some(load.number);
        let is_old =
            knows.overload == Some(overload.number) || knows.overload.is_none() && overload.metric == 0;
        let tells_overload = peer.features.contains(CpFunctionFeatures::OVRL) && !is_old;
        if tells_load {
            knows.load = Some(load.number);
        }
        if tells_overload {
            knows.overload = Some(overload.number);
        }
        (
            tells_load.then(|| self.load.load_information()),
            tells_overload.then(|| self.load.overload_information()),
        )
    }

    /// Whether anything more may be taken up.
    pub(crate) fn check_load(&self) -> Result<(), Reject> {
        if self.in_work.len() < self.config.max_in_work {
            Ok(())
        } else {
            Err(Reject::of(Cause::PFCP_ENTITY_IN_CONGESTION))
        }
    }

    /// Whether a new session of this association and message priority may be taken up.
    pub(crate) fn admit(&mut self, association: AssociationId, priority: Option<u8>) -> Result<(), Reject> {
        self.check_load()?;
        let most = (self.config.max_in_work * self.share_percent() / 100).max(1);
        let work = self.work_of.get(&association).copied().unwrap_or_default();
        let is_greedy = work >= most && self.has_several_peers();
        if is_greedy || is_turned_away(self.overload(), priority) {
            self.counters.throttled += 1;
            return Err(Reject::of(Cause::PFCP_ENTITY_IN_CONGESTION));
        }
        Ok(())
    }

    /// Whether several peers are served, so that each may have its share and no more.
    pub(crate) fn has_several_peers(&self) -> bool {
        self.associations
            .iter()
            .filter(|one| one.reachable)
            .nth(1)
            .is_some()
    }

    /// What one peer may have of everything while there are others, per cent.
    pub(crate) fn share_percent(&self) -> usize {
        usize::from(self.config.sessions.association_percent.min(100))
    }

    /// A request of an association is in work, or not any more.
    pub(crate) fn count_work(&mut self, association: Option<AssociationId>, begins: bool) {
        let Some(association) = association else {
            return;
        };
        let work = self.work_of.entry(association).or_default();
        *work = if begins { *work + 1 } else { work.saturating_sub(1) };
        if *work == 0 {
            self.work_of.remove(&association);
        }
    }
}

/// Whether a load leaves no room for a new session of this message priority.
pub(crate) fn is_turned_away(load: u8, priority: Option<u8>) -> bool {
    let priority = u32::from(priority.unwrap_or(DEFAULT_PRIORITY));
    // The room that is left above the threshold, for 16 priorities.
    let left = u32::from(100 - load.min(100)) * 16 / u32::from(100 - OVERLOAD);
    priority > left
}

fn percent(part: usize, whole: usize) -> u8 {
    (part.saturating_mul(100) / whole.max(1)).min(100) as u8
}
