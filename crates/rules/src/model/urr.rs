//! Usage Reporting Rules (TS 29.244 §5.2.2, Table 7.5.2.4-1), as values: what they ask for is done elsewhere.
//!
//! A plain rule is small, since there is one in each of very many sessions: what few rules say is behind one pointer
//! ([`UrrTerms`]).

use super::application::Application;
use super::credit_pool::{Aggregated, MAX_WEIGHT, Multiplier, PoolFault, greatest_common_divisor};
use super::fault::{Bounds, EditFault};
use super::ids::{FarId, UrrId};
use super::measurement::{
    DroppedDlThreshold, MeasurementInformation, MeasurementMethod, MonitoringTime, ReportingTriggers,
    Subsequent, UnixSeconds, Volume,
};
use crate::sdf::SdfFilter;

/// What few URRs say (TS 29.244 Table 7.5.2.4-1).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct UrrTerms {
    /// Events after which to report.
    pub event_threshold: Option<u32>,
    /// Events after which to stop.
    pub event_quota: Option<u32>,
    /// Seconds without a packet after which the quotas go, and are reported.
    pub quota_holding_time: Option<u32>,
    /// Seconds after which the quotas go, and are reported.
    pub quota_validity_time: Option<u32>,
    /// Seconds without a packet after which the measurement of time stops (§5.2.2.2.1).
    pub inactivity_detection_time: Option<u32>,
    /// Dropped DL Traffic Threshold.
    pub dropped_dl_threshold: Option<DroppedDlThreshold>,
    /// Monitoring Time.
    pub monitoring_time: Option<UnixSeconds>,
    /// What holds from the Monitoring Time on; says nothing without one.
    pub subsequent: Subsequent,
    /// Additional Monitoring Times, as given.
    pub additional_monitoring_times: Vec<MonitoringTime>,
    /// Linked URR IDs: this URR reports whenever one of these does.
    pub linked: Vec<UrrId>,
    /// Aggregated URRs: it is a credit pool of these.
    pub pool: Option<Vec<Aggregated>>,
    /// FAR ID for Quota Action: what becomes of packets when a quota is used up.
    pub quota_action: Option<FarId>,
    /// Exempted Application ID for Quota Action: packets of these go their own way although a quota is used up.
    pub exempt_applications: Vec<Application>,
    /// Exempted SDF Filter for Quota Action: so do those that one of these describes.
    pub exempt_filters: Vec<SdfFilter>,
    /// Number of Reports after which the rule is inactive.
    pub number_of_reports: Option<u16>,
}

impl UrrTerms {
    /// None of them.
    pub const NONE: Self = Self {
        event_threshold: None,
        event_quota: None,
        quota_holding_time: None,
        quota_validity_time: None,
        inactivity_detection_time: None,
        dropped_dl_threshold: None,
        monitoring_time: None,
        subsequent: Subsequent {
            volume_threshold: None,
            volume_quota: None,
            time_threshold: None,
            time_quota: None,
            event_threshold: None,
            event_quota: None,
        },
        additional_monitoring_times: Vec::new(),
        linked: Vec::new(),
        pool: None,
        quota_action: None,
        exempt_applications: Vec::new(),
        exempt_filters: Vec::new(),
        number_of_reports: None,
    };

    /// All monitoring times, the first one first, in the order given.
    pub fn monitoring_times(&self) -> impl Iterator<Item = MonitoringTime> + '_ {
        let first = self.monitoring_time.map(|at| MonitoringTime {
            at,
            then: self.subsequent,
        });
        first
            .into_iter()
            .chain(self.additional_monitoring_times.iter().copied())
    }
}

/// A Usage Reporting Rule (TS 29.244 Table 7.5.2.4-1). It has bounds only of what it measures.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Urr {
    /// Its number in the session.
    pub id: UrrId,
    /// What is measured.
    pub method: MeasurementMethod,
    /// How it is measured.
    pub information: MeasurementInformation,
    /// What calls for a report.
    pub triggers: ReportingTriggers,
    /// Seconds between periodic reports.
    pub measurement_period: Option<u32>,
    /// Octets after which to report.
    pub volume_threshold: Option<Box<Volume>>,
    /// Octets after which to stop.
    pub volume_quota: Option<Box<Volume>>,
    /// Seconds after which to report.
    pub time_threshold: Option<u32>,
    /// Seconds after which to stop.
    pub time_quota: Option<u32>,
    /// What few rules say; absent where this one says none of it.
    pub terms: Option<Box<UrrTerms>>,
}

const _: () = assert!(size_of::<Urr>() <= 64, "there are very many");

impl Urr {
    /// Counts octets and reports when asked.
    pub const fn volume(id: UrrId) -> Self {
        Self {
            id,
            method: MeasurementMethod::VOLUM,
            information: MeasurementInformation(0),
            triggers: ReportingTriggers(0),
            measurement_period: None,
            volume_threshold: None,
            volume_quota: None,
            time_threshold: None,
            time_quota: None,
            terms: None,
        }
    }

    /// What few rules say, of this one.
    pub fn terms(&self) -> &UrrTerms {
        static NONE: UrrTerms = UrrTerms::NONE;
        self.terms.as_deref().unwrap_or(&NONE)
    }

    /// What keeps it from being created.
    pub(super) fn fault(&self) -> Option<EditFault> {
        if let Some(bound) = self.bounds().unmeasured(self.method) {
            return Some(EditFault::Unmeasured(bound));
        }
        let terms = self.terms.as_deref()?;
        let says_later = terms.monitoring_time.is_none() && !terms.subsequent.is_empty();
        says_later.then_some(EditFault::NoMonitoringTime)
    }

    fn bounds(&self) -> Bounds {
        let terms = self.terms();
        let times = terms.additional_monitoring_times.iter().map(|time| &time.then);
        let later = times.chain([&terms.subsequent]);
        let any = |is_there: fn(&Subsequent) -> bool| later.clone().any(is_there);
        Bounds {
            volume: [
                self.volume_threshold.is_some(),
                self.volume_quota.is_some(),
                any(|then| then.volume_threshold.is_some()),
                any(|then| then.volume_quota.is_some()),
            ],
            time: [
                self.time_threshold.is_some(),
                self.time_quota.is_some(),
                any(|then| then.time_threshold.is_some()),
                any(|then| then.time_quota.is_some()),
            ],
            events: [
                terms.event_threshold.is_some(),
                terms.event_quota.is_some(),
                any(|then| then.event_threshold.is_some()),
                any(|then| then.event_quota.is_some()),
            ],
        }
    }

    /// There is no such FAR any more.
    pub(super) fn forget_quota_action(&mut self, far: FarId) {
        if self.terms().quota_action == Some(far) {
            self.change_terms(|terms| terms.quota_action = None);
        }
    }

    /// There is no such URR any more.
    pub(super) fn unlink(&mut self, other: UrrId) {
        if self.terms().linked.contains(&other) {
            self.change_terms(|terms| terms.linked.retain(|linked| *linked != other));
        }
    }

    /// Changes what few rules say, and keeps it only if it says something.
    pub(super) fn change_terms(&mut self, change: impl FnOnce(&mut UrrTerms)) {
        let mut terms = self.terms.take().unwrap_or_default();
        change(&mut terms);
        self.terms = Some(terms).filter(|terms| **terms != UrrTerms::NONE);
    }

    /// Drops the bounds of what the rule does not measure any more: peers change the method and leave them.
    pub(crate) fn drop_unmeasured(&mut self) {
        if self.bounds().unmeasured(self.method).is_none() {
            return;
        }
        let Self {
            method,
            volume_threshold,
            volume_quota,
            time_threshold,
            time_quota,
            ..
        } = self;
        if !method.contains(MeasurementMethod::VOLUM) {
            (*volume_threshold, *volume_quota) = (None, None);
        }
        if !method.contains(MeasurementMethod::DURAT) {
            (*time_threshold, *time_quota) = (None, None);
        }
        let method = *method;
        self.change_terms(|terms| {
            if !method.contains(MeasurementMethod::EVENT) {
                (terms.event_threshold, terms.event_quota) = (None, None);
            }
            terms.subsequent.drop_unmeasured(method);
            for time in &mut terms.additional_monitoring_times {
                time.then.drop_unmeasured(method);
            }
        });
    }

    /// How many dropped downlink packets are to be reported, if it asks for that and is not paused (TS 29.244
    /// §5.2.2.2.1): to the control plane, or to the nodes upstream.
    pub fn dropped_threshold(&self) -> Option<DroppedDlThreshold> {
        let asks = (self.reports_dropped() || self.sends_pause()) && !self.is_paused();
        self.terms().dropped_dl_threshold.filter(|_| asks)
    }

    /// Whether it counts events of applications.
    pub const fn counts_events(&self) -> bool {
        self.method.contains(MeasurementMethod::EVENT)
    }

    /// Whether dropped downlink packets are reported to the control plane (DROTH).
    pub const fn reports_dropped(&self) -> bool {
        self.triggers.contains(ReportingTriggers::DROTH)
    }

    /// Whether nodes upstream are requested to pause charging when as many downlink packets are dropped as its
    /// threshold says (SSPOC, TS 29.244 §5.30).
    pub const fn sends_pause(&self) -> bool {
        self.information.contains(MeasurementInformation::SSPOC)
    }

    /// Whether it is one for which charging is paused (ASPOC, TS 29.244 §5.30).
    pub const fn heeds_pause(&self) -> bool {
        self.information.contains(MeasurementInformation::ASPOC)
    }

    /// Whether its usage before QoS enforcement is reported, too: octets only (TS 29.244 §5.2.2.3.1).
    pub const fn measures_before_qos(&self) -> bool {
        self.method.contains(MeasurementMethod::VOLUM)
            && self.information.contains(MeasurementInformation::MBQE)
    }

    /// Whether it is paused: Inactive Measurement (TS 29.244 §5.2.2.2.1), or a Pause of Charging (§5.30).
    pub const fn is_paused(&self) -> bool {
        self.information.contains(MeasurementInformation::INAM)
    }

    pub(super) const fn set_paused(&mut self, is_paused: bool) {
        self.information = self.information.inactive(is_paused);
    }

    /// The members, if it is a credit pool.
    pub fn pool(&self) -> Option<&[Aggregated]> {
        self.terms.as_deref()?.pool.as_deref()
    }

    /// What an octet in its counter is, in billionths of an octet of its usage: one, but of a pool what the multipliers
    /// of all of its members are multiples of.
    pub fn unit(&self) -> u64 {
        let measures = self.method.contains(MeasurementMethod::VOLUM);
        let members = self.pool().filter(|_| measures).unwrap_or_default();
        let unit = members.iter().fold(0, |unit, one| {
            greatest_common_divisor(unit, one.multiplier.billionths())
        });
        if unit == 0 { Multiplier::ONE } else { unit }
    }

    /// Whether it is a pool that this one is a member of.
    pub fn has_member(&self, urr: UrrId) -> bool {
        self.pool()
            .is_some_and(|pool| pool.iter().any(|one| one.urr == urr))
    }

    /// There is no such URR any more.
    pub(super) fn leave(&mut self, member: UrrId) {
        if self.has_member(member) {
            self.change_terms(|terms| {
                if let Some(pool) = &mut terms.pool {
                    pool.retain(|one| one.urr != member);
                }
            });
        }
    }

    /// Why it cannot be a credit pool of these URRs, if it is one.
    pub(crate) fn pool_fault(&self, urrs: &[Self]) -> Option<PoolFault> {
        let pool = self.pool()?;
        let unit = self.unit();
        let of_members = pool.iter().enumerate().find_map(|(place, one)| {
            let Some(member) = urrs.iter().find(|urr| urr.id == one.urr) else {
                return Some(PoolFault::NoUrr(one.urr));
            };
            let is_known = pool.iter().take(place).any(|other| other.urr == one.urr);
            let faults = [
                (is_known, PoolFault::Twice(one.urr)),
                (member.pool().is_some(), PoolFault::Nested(one.urr)),
                (
                    self.method.contains(MeasurementMethod::VOLUM)
                        && one.multiplier.billionths() / unit > MAX_WEIGHT,
                    PoolFault::Uneven(one.urr),
                ),
            ];
            faults
                .into_iter()
                .find(|(is_there, _)| *is_there)
                .map(|(_, fault)| fault)
        });
        of_members.or_else(|| self.own_fault())
    }

    fn own_fault(&self) -> Option<PoolFault> {
        let informs = |flags| self.information.contains(flags);
        let is_more = informs(MeasurementInformation::MBQE)
            || informs(MeasurementInformation::ISTM)
            || informs(MeasurementInformation::SSPOC);
        let triggers = [ReportingTriggers::DROTH, ReportingTriggers::REEMR];
        let faults = [
            (self.counts_events(), PoolFault::Method),
            (is_more, PoolFault::Information),
            (
                triggers
                    .into_iter()
                    .any(|trigger| self.triggers.contains(trigger)),
                PoolFault::Triggers,
            ),
            (
                self.terms().inactivity_detection_time.is_some(),
                PoolFault::Inactivity,
            ),
        ];
        faults
            .into_iter()
            .find(|(is_there, _)| *is_there)
            .map(|(_, fault)| fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_counter_counts_is_what_all_multipliers_are_multiples_of() {
        let pool = |members: &[(i64, i32)]| {
            let member = |(urr, (digits, exponent)): (u32, &(i64, i32))| Aggregated {
                urr: UrrId(urr),
                multiplier: Multiplier::new(*digits, *exponent).unwrap(),
            };
            let mut urr = Urr::volume(UrrId(9));
            urr.change_terms(|terms| terms.pool = Some((1..).zip(members).map(member).collect()));
            urr
        };
        assert_eq!(Urr::volume(UrrId(1)).unit(), Multiplier::ONE);
        assert_eq!(pool(&[]).unit(), Multiplier::ONE);
        assert_eq!(pool(&[(1, -1), (5, -1)]).unit(), 100_000_000);
        assert_eq!(pool(&[(6, 0), (4, 0)]).unit(), 2 * Multiplier::ONE);
        assert_eq!(pool(&[(7, 3), (7, 3)]).unit(), 7000 * Multiplier::ONE);
    }
}
