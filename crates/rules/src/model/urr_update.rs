//! Update URR (TS 29.244 Table 7.5.4.4-1).

use super::application::Application;
use super::credit_pool::Aggregated;
use super::edit::{Edit, replace};
use super::fault::{Bounds, EditFault};
use super::ids::{FarId, UrrId};
use super::measurement::{
    DroppedDlThreshold, MeasurementInformation, MeasurementMethod, MonitoringTime, ReportingTriggers,
    Subsequent, UnixSeconds, Volume,
};
use super::urr::{Urr, UrrTerms};
use crate::sdf::SdfFilter;

/// The thresholds and quotas of an Update URR that hold from the Monitoring Time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubsequentUpdate {
    /// Subsequent Volume Threshold.
    pub volume_threshold: Edit<Volume>,
    /// Subsequent Volume Quota.
    pub volume_quota: Edit<Volume>,
    /// Subsequent Time Threshold, seconds.
    pub time_threshold: Edit<u32>,
    /// Subsequent Time Quota, seconds.
    pub time_quota: Edit<u32>,
    /// Subsequent Event Threshold.
    pub event_threshold: Edit<u32>,
    /// Subsequent Event Quota.
    pub event_quota: Edit<u32>,
}

impl SubsequentUpdate {
    fn sets(&self) -> bool {
        self.volume_threshold.sets()
            || self.volume_quota.sets()
            || self.time_threshold.sets()
            || self.time_quota.sets()
            || self.event_threshold.sets()
            || self.event_quota.sets()
    }

    fn apply(self, subsequent: &mut Subsequent) {
        self.volume_threshold.apply(&mut subsequent.volume_threshold);
        self.volume_quota.apply(&mut subsequent.volume_quota);
        self.time_threshold.apply(&mut subsequent.time_threshold);
        self.time_quota.apply(&mut subsequent.time_quota);
        self.event_threshold.apply(&mut subsequent.event_threshold);
        self.event_quota.apply(&mut subsequent.event_quota);
    }
}

/// What an Update URR says of that which few URRs say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UrrTermsUpdate {
    /// Event Threshold.
    pub event_threshold: Edit<u32>,
    /// Event Quota.
    pub event_quota: Edit<u32>,
    /// Quota Holding Time, seconds.
    pub quota_holding_time: Edit<u32>,
    /// Quota Validity Time, seconds.
    pub quota_validity_time: Edit<u32>,
    /// Inactivity Detection Time, seconds.
    pub inactivity_detection_time: Edit<u32>,
    /// Dropped DL Traffic Threshold.
    pub dropped_dl_threshold: Edit<DroppedDlThreshold>,
    /// Monitoring Time. Where it goes, what was to hold from it on goes, too.
    pub monitoring_time: Edit<UnixSeconds>,
    /// What holds from the Monitoring Time on.
    pub subsequent: SubsequentUpdate,
    /// Additional Monitoring Times, all of them.
    pub additional_monitoring_times: Option<Vec<MonitoringTime>>,
    /// Linked URR IDs, all of them.
    pub linked: Option<Vec<UrrId>>,
    /// Aggregated URRs, all of them.
    pub pool: Edit<Vec<Aggregated>>,
    /// FAR ID for Quota Action.
    pub quota_action: Edit<FarId>,
    /// Exempted Application IDs for Quota Action, all of them.
    pub exempt_applications: Option<Vec<Application>>,
    /// Exempted SDF Filters for Quota Action, all of them.
    pub exempt_filters: Option<Vec<SdfFilter>>,
    /// Number of Reports.
    pub number_of_reports: Edit<u16>,
}

impl UrrTermsUpdate {
    fn apply(self, terms: &mut UrrTerms) {
        self.event_threshold.apply(&mut terms.event_threshold);
        self.event_quota.apply(&mut terms.event_quota);
        self.quota_holding_time.apply(&mut terms.quota_holding_time);
        self.quota_validity_time.apply(&mut terms.quota_validity_time);
        self.inactivity_detection_time
            .apply(&mut terms.inactivity_detection_time);
        self.dropped_dl_threshold.apply(&mut terms.dropped_dl_threshold);
        if self.monitoring_time == Edit::Clear {
            terms.subsequent = Subsequent::default();
        }
        self.monitoring_time.apply(&mut terms.monitoring_time);
        self.subsequent.apply(&mut terms.subsequent);
        replace(
            &mut terms.additional_monitoring_times,
            self.additional_monitoring_times,
        );
        replace(&mut terms.linked, self.linked);
        self.pool.apply(&mut terms.pool);
        self.quota_action.apply(&mut terms.quota_action);
        replace(&mut terms.exempt_applications, self.exempt_applications);
        replace(&mut terms.exempt_filters, self.exempt_filters);
        self.number_of_reports.apply(&mut terms.number_of_reports);
    }
}

/// An Update URR (TS 29.244 Table 7.5.4.4-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UrrUpdate {
    /// The rule.
    pub id: UrrId,
    /// Measurement Method.
    pub method: Option<MeasurementMethod>,
    /// Measurement Information, as it is sent.
    pub information: Option<MeasurementInformation>,
    /// Whether an absent Measurement Information has an inactive URR measure again (TS 29.244 Table 7.5.4.4-1), unless
    /// it is one for Pause of Charging, of which that alone says nothing (§8.2.68).
    pub resumes: bool,
    /// Reporting Triggers.
    pub triggers: Option<ReportingTriggers>,
    /// Measurement Period, seconds.
    pub measurement_period: Edit<u32>,
    /// Volume Threshold.
    pub volume_threshold: Edit<Box<Volume>>,
    /// Volume Quota.
    pub volume_quota: Edit<Box<Volume>>,
    /// Time Threshold, seconds.
    pub time_threshold: Edit<u32>,
    /// Time Quota, seconds.
    pub time_quota: Edit<u32>,
    /// What few rules say; absent where the update says none of it.
    pub terms: Option<Box<UrrTermsUpdate>>,
}

impl From<UrrTerms> for UrrTermsUpdate {
    fn from(terms: UrrTerms) -> Self {
        let then = terms.subsequent;
        Self {
            event_threshold: terms.event_threshold.into(),
            event_quota: terms.event_quota.into(),
            quota_holding_time: terms.quota_holding_time.into(),
            quota_validity_time: terms.quota_validity_time.into(),
            inactivity_detection_time: terms.inactivity_detection_time.into(),
            dropped_dl_threshold: terms.dropped_dl_threshold.into(),
            monitoring_time: terms.monitoring_time.into(),
            subsequent: SubsequentUpdate {
                volume_threshold: then.volume_threshold.into(),
                volume_quota: then.volume_quota.into(),
                time_threshold: then.time_threshold.into(),
                time_quota: then.time_quota.into(),
                event_threshold: then.event_threshold.into(),
                event_quota: then.event_quota.into(),
            },
            additional_monitoring_times: Some(terms.additional_monitoring_times),
            linked: Some(terms.linked),
            pool: terms.pool.into(),
            quota_action: terms.quota_action.into(),
            exempt_applications: Some(terms.exempt_applications),
            exempt_filters: Some(terms.exempt_filters),
            number_of_reports: terms.number_of_reports.into(),
        }
    }
}

impl UrrUpdate {
    /// Changes nothing yet.
    pub const fn new(id: UrrId) -> Self {
        Self {
            id,
            method: None,
            information: None,
            resumes: false,
            triggers: None,
            measurement_period: Edit::Keep,
            volume_threshold: Edit::Keep,
            volume_quota: Edit::Keep,
            time_threshold: Edit::Keep,
            time_quota: Edit::Keep,
            terms: None,
        }
    }

    pub(super) fn apply(self, urr: &mut Urr) {
        replace(&mut urr.method, self.method);
        let information = self.information.map(|sent| sent.sent_to(Some(urr.information)));
        let resumed = |held: MeasurementInformation| match held.contains(MeasurementInformation::ASPOC) {
            true => held,
            false => held.inactive(false),
        };
        let absent = self.resumes.then(|| resumed(urr.information));
        replace(&mut urr.information, information.or(absent));
        replace(&mut urr.triggers, self.triggers);
        self.measurement_period.apply(&mut urr.measurement_period);
        self.volume_threshold.apply(&mut urr.volume_threshold);
        self.volume_quota.apply(&mut urr.volume_quota);
        self.time_threshold.apply(&mut urr.time_threshold);
        self.time_quota.apply(&mut urr.time_quota);
        if let Some(update) = self.terms {
            urr.change_terms(|terms| update.apply(terms));
        }
        urr.drop_unmeasured();
    }

    /// What keeps it from being made to `urr`.
    pub(super) fn check(&self, urr: &Urr) -> Result<(), EditFault> {
        let method = self.method.unwrap_or(urr.method);
        if let Some(bound) = self.bounds().unmeasured(method) {
            return Err(EditFault::Unmeasured(bound));
        }
        let Some(terms) = &self.terms else {
            return Ok(());
        };
        let has_time = match terms.monitoring_time {
            Edit::Keep => urr.terms().monitoring_time.is_some(),
            Edit::Set(_) => true,
            Edit::Clear => false,
        };
        if has_time || !terms.subsequent.sets() {
            Ok(())
        } else {
            Err(EditFault::NoMonitoringTime)
        }
    }

    /// The bounds that it sets.
    fn bounds(&self) -> Bounds {
        let terms = self.terms.as_deref();
        let times = terms.and_then(|terms| terms.additional_monitoring_times.as_deref());
        let times = times.unwrap_or_default();
        let later = |at_first: fn(&SubsequentUpdate) -> bool, at: fn(&Subsequent) -> bool| {
            terms.is_some_and(|terms| at_first(&terms.subsequent)) || times.iter().any(|time| at(&time.then))
        };
        let events = |edit: fn(&UrrTermsUpdate) -> Edit<u32>| terms.is_some_and(|terms| edit(terms).sets());
        Bounds {
            volume: [
                self.volume_threshold.sets(),
                self.volume_quota.sets(),
                later(
                    |then| then.volume_threshold.sets(),
                    |then| then.volume_threshold.is_some(),
                ),
                later(
                    |then| then.volume_quota.sets(),
                    |then| then.volume_quota.is_some(),
                ),
            ],
            time: [
                self.time_threshold.sets(),
                self.time_quota.sets(),
                later(
                    |then| then.time_threshold.sets(),
                    |then| then.time_threshold.is_some(),
                ),
                later(|then| then.time_quota.sets(), |then| then.time_quota.is_some()),
            ],
            events: [
                events(|terms| terms.event_threshold),
                events(|terms| terms.event_quota),
                later(
                    |then| then.event_threshold.sets(),
                    |then| then.event_threshold.is_some(),
                ),
                later(|then| then.event_quota.sets(), |then| then.event_quota.is_some()),
            ],
        }
    }
}
