//! URRs in, as the rules take them (TS 29.244 Tables 7.5.2.4-1 and 7.5.4.4-1).
//!
//! Refused is what cannot be measured or would report without end: bounds of what is not measured, thresholds and
//! periods of nothing, times that are over. A Volume Threshold of 0 is none, since Open5GS sends it. Not refused are
//! triggers without the IE that they are about, since free5GC sends PERIO and VOLTH whatever is configured: they call
//! for nothing.

use pfcp::group::{AdditionalMonitoringTime, AggregatedUrrs, CreateUrr, UpdateUrr};
use pfcp::ie::{self, Cause};
use pfcp::{IeType, Repeated};
use rules::model::{
    Aggregated, Application, DroppedDlThreshold, FarId, MeasurementInformation, MeasurementMethod,
    MonitoringTime, Multiplier, ReportingTriggers, SdfFilter, Subsequent, SubsequentUpdate, UnixSeconds, Urr,
    UrrId, UrrTerms, UrrTermsUpdate, UrrUpdate, Volume,
};

use super::pdr::sdf_filters;
use super::{Context, edit, unsupported};
use crate::cause::Reject;

pub(super) fn create(urr: &CreateUrr<'_>, context: Context<'_>) -> Result<Urr, Reject> {
    urr.check_values()?;
    for time in &urr.additional_monitoring_time {
        time.check_values()?;
    }
    unsupported::create_urr(urr)?;
    let (reject, now) = (Reject::rule(UrrId(urr.urr_id.0)), context.now);
    let (applications, filters) = (
        &urr.exempted_application_id_for_quota_action,
        &urr.exempted_sdf_filter_for_quota_action,
    );
    let terms = UrrTerms {
        exempt_applications: exempt_applications(applications.iter(), context, reject)?,
        exempt_filters: exempt_filters(filters, context, reject)?,
        pool: (!urr.aggregated_urrs.is_empty())
            .then(|| pool(&urr.aggregated_urrs, reject))
            .transpose()?,
        ..terms(urr, context)
    };
    let made = Urr {
        id: UrrId(urr.urr_id.0),
        method: MeasurementMethod(urr.measurement_method.0),
        information: urr
            .measurement_information
            .map(|sent| information(sent, context).sent_to(None))
            .unwrap_or_default(),
        triggers: ReportingTriggers(urr.reporting_triggers.bits()),
        measurement_period: urr.measurement_period.map(|seconds| seconds.0),
        volume_threshold: urr.volume_threshold.map(volume).map(Box::new),
        volume_quota: urr.volume_quota.map(volume).map(Box::new),
        time_threshold: urr.time_threshold.map(|seconds| seconds.0),
        time_quota: urr.time_quota.map(|seconds| seconds.0),
        terms: (terms != UrrTerms::NONE).then(|| Box::new(terms)),
    };
    check(&made, now, reject)?;
    Ok(made)
}

pub(super) fn update(urr: &UpdateUrr<'_>, context: Context<'_>) -> Result<UrrUpdate, Reject> {
    urr.check_removals()?;
    for time in &urr.additional_monitoring_time {
        time.check_values()?;
    }
    unsupported::update_urr(urr)?;
    let (reject, now) = (Reject::rule(UrrId(urr.urr_id.0)), context.now);
    let (applications, filters) = (
        &urr.exempted_application_id_for_quota_action,
        &urr.exempted_sdf_filter_for_quota_action,
    );
    let names_applications = !applications.is_empty() || applications.removes_all();
    let names_filters = !filters.is_empty() || filters.removes_all();
    let terms = UrrTermsUpdate {
        exempt_applications: names_applications
            .then(|| exempt_applications(applications.iter(), context, reject))
            .transpose()?,
        exempt_filters: names_filters
            .then(|| exempt_filters(filters, context, reject))
            .transpose()?,
        pool: match urr.aggregated_urrs.removes_all() {
            true => rules::model::Edit::Clear,
            false if urr.aggregated_urrs.is_empty() => rules::model::Edit::Keep,
            false => rules::model::Edit::Set(pool(&urr.aggregated_urrs, reject)?),
        },
        ..terms_update(urr, context)
    };
    let made = UrrUpdate {
        id: UrrId(urr.urr_id.0),
        method: urr.measurement_method.map(|method| MeasurementMethod(method.0)),
        information: urr.measurement_information.map(|sent| {
            sent.value()
                .map(|sent| information(sent, context))
                .unwrap_or_default()
        }),
        resumes: urr.measurement_information.is_none(),
        triggers: urr
            .reporting_triggers
            .map(|triggers| ReportingTriggers(triggers.bits())),
        measurement_period: edit(urr.measurement_period, |seconds| seconds.0),
        volume_threshold: edit(urr.volume_threshold, |sent| Box::new(volume(sent))),
        volume_quota: edit(urr.volume_quota, |sent| Box::new(volume(sent))),
        time_threshold: edit(urr.time_threshold, |seconds| seconds.0),
        time_quota: edit(urr.time_quota, |seconds| seconds.0),
        terms: (terms != UrrTermsUpdate::default()).then(|| Box::new(terms)),
    };
    check_update(&made, now, reject)?;
    Ok(made)
}

/// What holds from a monitoring time on, of an IE that says so; `$of` takes a parameter as it is sent there.
macro_rules! subsequent {
    ($shape:ident, $of:ident, $ie:expr) => {
        $shape {
            volume_threshold: $of($ie.subsequent_volume_threshold, volume),
            volume_quota: $of($ie.subsequent_volume_quota, volume),
            time_threshold: $of($ie.subsequent_time_threshold, |seconds| seconds.0),
            time_quota: $of($ie.subsequent_time_quota, |seconds| seconds.0),
            event_threshold: $of($ie.subsequent_event_threshold, |events| events.0),
            event_quota: $of($ie.subsequent_event_quota, |events| events.0),
        }
    };
}

/// What few URRs say, of an IE that creates or updates one. `$some` takes a parameter whose value may be as good as
/// none.
macro_rules! terms {
    (($shape:ident, $subsequent:ident), ($of:ident, $some:ident), $urr:expr, $now:expr, { $($lists:tt)* }) => {
        $shape {
            event_threshold: $of($urr.event_threshold, |events| events.0),
            event_quota: $of($urr.event_quota, |events| events.0),
            quota_holding_time: $some($urr.quota_holding_time, |seconds| not_zero(seconds.0)),
            quota_validity_time: $some($urr.quota_validity_time, |sent| validity(sent, $now)),
            inactivity_detection_time: $some($urr.inactivity_detection_time, |seconds| not_zero(seconds.0)),
            dropped_dl_threshold: $of($urr.dropped_dl_traffic_threshold, dropped),
            monitoring_time: $of($urr.monitoring_time, date),
            subsequent: subsequent!($subsequent, $of, $urr),
            quota_action: $of($urr.far_id_for_quota_action, |far| FarId(far.0)),
            number_of_reports: $of($urr.number_of_reports, |reports| reports.0),
            $($lists)*
        }
    };
}

fn terms(urr: &CreateUrr<'_>, context: Context<'_>) -> UrrTerms {
    let times = urr.additional_monitoring_time.iter();
    terms!((UrrTerms, Subsequent), (given, given_some), urr, context.now, {
        additional_monitoring_times: times.map(|time| monitoring_time(&context.peer.own(&time))).collect(),
        linked: urr.linked_urr_id.iter().map(|linked| UrrId(linked.0)).collect(),
        pool: None,
        exempt_applications: Vec::new(),
        exempt_filters: Vec::new(),
    })
}

fn terms_update(urr: &UpdateUrr<'_>, context: Context<'_>) -> UrrTermsUpdate {
    let times = &urr.additional_monitoring_time;
    let linked = &urr.linked_urr_id;
    terms!((UrrTermsUpdate, SubsequentUpdate), (edit, edit_some), urr, context.now, {
        additional_monitoring_times: (!times.is_empty() || times.removes_all())
            .then(|| times.iter().map(|time| monitoring_time(&context.peer.own(&time))).collect()),
        linked: (!linked.is_empty() || linked.removes_all())
            .then(|| linked.iter().map(|linked| UrrId(linked.0)).collect()),
        pool: rules::model::Edit::Keep,
        exempt_applications: None,
        exempt_filters: None,
    })
}

/// The members of a credit pool. A multiplier must be positive, and a whole number of billionths of 64 bits.
fn pool(sent: &Repeated<'_, AggregatedUrrs<'_>>, reject: Reject) -> Result<Vec<Aggregated>, Reject> {
    let member = |one: AggregatedUrrs<'_>| {
        let ie::Multiplier { digits, exponent } = one.multiplier;
        let multiplier = Multiplier::new(digits, exponent).ok_or(reject.offends(IeType::MULTIPLIER))?;
        let urr = UrrId(one.aggregated_urr_id.0);
        Ok(Aggregated { urr, multiplier })
    };
    sent.iter().map(member).collect()
}

/// The applications whose packets a quota does not stop: those that are known.
fn exempt_applications<'a>(
    sent: impl Iterator<Item = ie::ApplicationId<'a>>,
    context: Context<'_>,
    reject: Reject,
) -> Result<Vec<Application>, Reject> {
    let known = sent.map(|id| context.application(Some(id), reject));
    known.filter_map(Result::transpose).collect()
}

/// The SDF filters whose packets a quota does not stop.
fn exempt_filters(
    sent: &Repeated<'_, ie::SdfFilter<'_>>,
    context: Context<'_>,
    reject: Reject,
) -> Result<Vec<SdfFilter>, Reject> {
    let bad = reject
        .because(Cause::MANDATORY_IE_INCORRECT)
        .offends(IeType::SDF_FILTER);
    sdf_filters(sent, context).map_err(|_| bad)
}

fn monitoring_time(time: &AdditionalMonitoringTime<'_>) -> MonitoringTime {
    MonitoringTime {
        at: date(time.monitoring_time),
        then: subsequent!(Subsequent, given, time),
    }
}

/// The parameter of a Create.
fn given<T, U>(sent: Option<T>, map: impl FnOnce(T) -> U) -> Option<U> {
    sent.map(map)
}

/// The same, whose value may be as good as none.
fn given_some<T, U>(sent: Option<T>, map: impl FnOnce(T) -> Option<U>) -> Option<U> {
    sent.and_then(map)
}

/// A time of 0 is none: it is never over (TS 29.244 §5.2.2.2.1 on the Inactivity Detection Time, TS 32.299 §7.2 on the
/// Quota Holding Time).
fn not_zero(seconds: u32) -> Option<u32> {
    (seconds > 0).then_some(seconds)
}

/// The seconds for which a quota holds. free5GC sends a date, in seconds since 1900, and where it has none 0, or a date
/// of long ago: none is meant. No duration is of 68 years.
fn validity(sent: ie::QuotaValidityTime, now: UnixSeconds) -> Option<u32> {
    const FIRST_DATE: u32 = 1 << 31;
    if sent.0 < FIRST_DATE {
        return not_zero(sent.0);
    }
    let until = ie::MonitoringTime(sent.0).unix();
    let left = until.checked_sub(now.0).filter(|left| *left > 0);
    left.and_then(|left| u32::try_from(left).ok())
}

/// The parameter of an Update, whose value may be as good as none.
fn edit_some<T, U>(sent: Option<pfcp::Edit<T>>, map: impl FnOnce(T) -> Option<U>) -> rules::model::Edit<U> {
    match edit(sent, map) {
        rules::model::Edit::Keep => rules::model::Edit::Keep,
        rules::model::Edit::Set(Some(value)) => rules::model::Edit::Set(value),
        rules::model::Edit::Set(None) | rules::model::Edit::Clear => rules::model::Edit::Clear,
    }
}

/// What a rule that is created says must be something.
fn check(urr: &Urr, now: UnixSeconds, reject: Reject) -> Result<(), Reject> {
    let volumes = [urr.volume_threshold.as_deref(), urr.volume_quota.as_deref()];
    check_plain(volumes, [urr.measurement_period, urr.time_threshold], reject)?;
    match &urr.terms {
        Some(terms) => check_terms(&UrrTerms::clone(terms).into(), now, reject),
        None => Ok(()),
    }
}

/// What an update sets must be something.
fn check_update(urr: &UrrUpdate, now: UnixSeconds, reject: Reject) -> Result<(), Reject> {
    let volumes = [&urr.volume_threshold, &urr.volume_quota].map(|sent| set(sent).map(|volume| &**volume));
    let seconds = [&urr.measurement_period, &urr.time_threshold].map(|sent| set(sent).copied());
    check_plain(volumes, seconds, reject)?;
    match &urr.terms {
        Some(terms) => check_terms(terms, now, reject),
        None => Ok(()),
    }
}

/// What many rules say.
fn check_plain(
    [threshold, quota]: [Option<&Volume>; 2],
    [period, time_threshold]: [Option<u32>; 2],
    reject: Reject,
) -> Result<(), Reject> {
    refuse_first(
        &[
            (period == Some(0), IeType::MEASUREMENT_PERIOD),
            (threshold == Some(&Volume::default()), IeType::VOLUME_THRESHOLD),
            (quota == Some(&Volume::default()), IeType::VOLUME_QUOTA),
            (time_threshold == Some(0), IeType::TIME_THRESHOLD),
        ],
        reject,
    )
}

/// What few rules say.
fn check_terms(terms: &UrrTermsUpdate, now: UnixSeconds, reject: Reject) -> Result<(), Reject> {
    let then = &terms.subsequent;
    let nothing = [
        (
            set(&terms.event_threshold).is_some_and(|events| *events == 0),
            IeType::EVENT_THRESHOLD,
        ),
        (
            set(&terms.dropped_dl_threshold).is_some_and(|dropped| is_no_drop(*dropped)),
            IeType::DROPPED_DL_TRAFFIC_THRESHOLD,
        ),
        (
            set(&terms.number_of_reports).is_some_and(|reports| *reports == 0),
            IeType::NUMBER_OF_REPORTS,
        ),
        (
            set(&terms.monitoring_time).is_some_and(|at| *at < now),
            IeType::MONITORING_TIME,
        ),
        (
            set(&then.volume_threshold).is_some_and(is_no_threshold),
            IeType::SUBSEQUENT_VOLUME_THRESHOLD,
        ),
        (
            set(&then.volume_quota).is_some_and(|volume| *volume == Volume::default()),
            IeType::SUBSEQUENT_VOLUME_QUOTA,
        ),
        (
            set(&then.time_threshold).is_some_and(|seconds| *seconds == 0),
            IeType::SUBSEQUENT_TIME_THRESHOLD,
        ),
        (
            set(&then.event_threshold).is_some_and(|events| *events == 0),
            IeType::SUBSEQUENT_EVENT_THRESHOLD,
        ),
    ];
    refuse_first(&nothing, reject)?;
    let times = terms.additional_monitoring_times.as_deref().unwrap_or_default();
    let is_wrong = |time: &MonitoringTime| time.at < now || says_nothing(&time.then);
    refuse_first(
        &[(times.iter().any(is_wrong), IeType::ADDITIONAL_MONITORING_TIME)],
        reject,
    )
}

/// The new value, if there is one.
fn set<T>(sent: &rules::model::Edit<T>) -> Option<&T> {
    match sent {
        rules::model::Edit::Set(value) => Some(value),
        rules::model::Edit::Keep | rules::model::Edit::Clear => None,
    }
}

/// Whether one of what holds from a monitoring time on is nothing.
fn says_nothing(then: &Subsequent) -> bool {
    then.volume_threshold.as_ref().is_some_and(is_no_threshold)
        || then.volume_quota == Some(Volume::default())
        || then.time_threshold == Some(0)
        || then.event_threshold == Some(0)
}

/// Whether no part of it is one that can be reached by going on: peers that set one part may leave the others 0. A
/// Volume Threshold that is 0 altogether is as good as none: so Open5GS writes that a report is due when all of the
/// quota is used.
fn is_no_threshold(volume: &Volume) -> bool {
    [volume.total, volume.uplink, volume.downlink]
        .into_iter()
        .all(|part| part.unwrap_or(0) == 0)
}

fn is_no_drop(dropped: DroppedDlThreshold) -> bool {
    dropped.packets.unwrap_or(0) == 0 && dropped.octets.unwrap_or(0) == 0
}

fn refuse_first(wrong: &[(bool, IeType)], reject: Reject) -> Result<(), Reject> {
    let found = wrong.iter().find(|(is_wrong, _)| *is_wrong);
    found.map_or(Ok(()), |(_, ie_type)| Err(reject.offends(*ie_type)))
}

/// The first octet: there are no flags in the second.
fn information(sent: ie::MeasurementInformation, context: Context<'_>) -> MeasurementInformation {
    let sent = MeasurementInformation(sent.bits() as u8);
    // Two reports that cannot say which is which would be added up.
    match context.peer.reads_usage_information {
        true => sent,
        false => MeasurementInformation(sent.0 & !MeasurementInformation::MBQE.0),
    }
}

fn date(sent: ie::MonitoringTime) -> UnixSeconds {
    UnixSeconds(sent.unix())
}

fn dropped(sent: ie::DroppedDlTrafficThreshold) -> DroppedDlThreshold {
    DroppedDlThreshold {
        packets: sent.packets,
        octets: sent.octets,
    }
}

/// The four IEs that are a volume each.
trait Octets {
    /// Total, uplink, downlink.
    fn parts(self) -> [Option<u64>; 3];
}

macro_rules! octets {
    ($($ie:ident),*) => {
        $(impl Octets for ie::$ie {
            fn parts(self) -> [Option<u64>; 3] {
                [self.total, self.uplink, self.downlink]
            }
        })*
    };
}

octets!(
    VolumeThreshold,
    VolumeQuota,
    SubsequentVolumeThreshold,
    SubsequentVolumeQuota
);

fn volume(sent: impl Octets) -> Volume {
    let [total, uplink, downlink] = sent.parts();
    Volume {
        total,
        uplink,
        downlink,
    }
}
