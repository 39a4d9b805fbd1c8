//! Usage reports in their three forms: in a modification response, a deletion response, and a report
//! (TS 29.244 §7.5.5.2, §7.5.7.2, §7.5.8.3).

use pfcp::group::{UsageReportSessionDeletion, UsageReportSessionModification, UsageReportSessionReport};
use pfcp::ie::{EndTime, QueryUrrReference, StartTime, UrSeqn, UrrId, UsageReportTrigger, VolumeMeasurement};
use rules::model::MeasurementMethod;
use session::{Moment, UsageReport, UsageTriggers};

fn trigger(triggers: UsageTriggers) -> UsageReportTrigger {
    UsageReportTrigger::from_bits(triggers.0).on_octets(3)
}

fn volume(usage: &UsageReport) -> Option<VolumeMeasurement> {
    let count = usage.count;
    usage
        .method
        .contains(MeasurementMethod::VOLUM)
        .then(|| VolumeMeasurement {
            total: Some(count.ul_octets.wrapping_add(count.dl_octets)),
            uplink: Some(count.ul_octets),
            downlink: Some(count.dl_octets),
            ..VolumeMeasurement::default()
        })
}

/// Seconds since 1970 of a moment.
fn unix(clock: u64, moment: Moment) -> u64 {
    moment.unix_nanos(clock) / 1_000_000_000
}

/// For a Session Modification Response; `reference` is that of the query, if it was one.
pub(crate) fn modification_report(
    usage: &UsageReport,
    clock: u64,
    reference: Option<QueryUrrReference>,
) -> UsageReportSessionModification<'static> {
    let mut report = UsageReportSessionModification::new(
        UrrId(usage.urr.0),
        UrSeqn(usage.sequence),
        trigger(usage.triggers),
    );
    report.start_time = Some(StartTime::from_unix(unix(clock, usage.start)));
    report.end_time = Some(EndTime::from_unix(unix(clock, usage.end)));
    report.volume_measurement = volume(usage);
    report.query_urr_reference = reference.filter(|_| usage.triggers.contains(UsageTriggers::IMMER));
    report
}

/// For a Session Deletion Response.
pub(crate) fn deletion_report(usage: &UsageReport, clock: u64) -> UsageReportSessionDeletion<'static> {
    let mut report = UsageReportSessionDeletion::new(
        UrrId(usage.urr.0),
        UrSeqn(usage.sequence),
        trigger(usage.triggers),
    );
    report.start_time = Some(StartTime::from_unix(unix(clock, usage.start)));
    report.end_time = Some(EndTime::from_unix(unix(clock, usage.end)));
    report.volume_measurement = volume(usage);
    report
}

/// For the last Session Report Request of a session that ends at our side.
pub(crate) fn final_report(usage: &UsageReport, clock: u64) -> UsageReportSessionReport<'static> {
    let mut report = session_report(usage, clock);
    if usage.triggers == UsageTriggers::TERMR {
        report.usage_report_trigger = UsageReportTrigger::TEBUR.on_octets(3);
    }
    report
}

/// For a Session Report Request.
pub(crate) fn session_report(usage: &UsageReport, clock: u64) -> UsageReportSessionReport<'static> {
    let mut report = UsageReportSessionReport::new(
        UrrId(usage.urr.0),
        UrSeqn(usage.sequence),
        trigger(usage.triggers),
    );
    report.start_time = Some(StartTime::from_unix(unix(clock, usage.start)));
    report.end_time = Some(EndTime::from_unix(unix(clock, usage.end)));
    report.volume_measurement = volume(usage);
    report
}
