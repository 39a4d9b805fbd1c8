//! Usage reports in their three forms: in a modification response, a deletion response, and a report
//! (TS 29.244 §7.5.5.2, §7.5.7.2, §7.5.8.3).

use pfcp::group::{UsageReportSessionDeletion, UsageReportSessionModification, UsageReportSessionReport};
use pfcp::ie::{
    DurationMeasurement, EndTime, QueryUrrReference, StartTime, TimeOfFirstPacket, TimeOfLastPacket, UrSeqn,
    UrrId, UsageInformation, UsageReportTrigger, VolumeMeasurement,
};
use rules::model::MeasurementMethod;
use session::{Moment, UsageReport, UsageTriggers};

/// Reports that are made of these alone have no measurement (TS 29.244 §5.2.2.3.1).
const MEASURE_NOTHING: UsageTriggers = UsageTriggers::START.with(UsageTriggers::DROTH);
/// Reports that are made of these alone are of a moment, and not of a time.
const MOMENTARY: UsageTriggers = UsageTriggers::START.with(UsageTriggers::STOPT);

/// Whether a report is made for no other reason than `these`.
fn is_only(usage: &UsageReport, these: UsageTriggers) -> bool {
    these.contains(usage.triggers)
}

/// On three octets, as peers of all releases take it.
fn trigger(triggers: UsageTriggers) -> UsageReportTrigger {
    UsageReportTrigger::from_bits(triggers.0).on_octets(3)
}

fn volume(usage: &UsageReport) -> Option<VolumeMeasurement> {
    let count = usage.count;
    let is_measured = usage.method.contains(MeasurementMethod::VOLUM) && !is_only(usage, MEASURE_NOTHING);
    is_measured.then(|| VolumeMeasurement {
        total: Some(count.ul_octets.wrapping_add(count.dl_octets)),
        uplink: Some(count.ul_octets),
        downlink: Some(count.dl_octets),
        ..VolumeMeasurement::default()
    })
}

fn duration(usage: &UsageReport) -> Option<DurationMeasurement> {
    let is_measured = !is_only(usage, MEASURE_NOTHING);
    let seconds = usage.duration.filter(|_| is_measured);
    seconds.map(|seconds| DurationMeasurement(seconds.0))
}

/// Seconds since 1970 of a moment.
fn unix(clock: u64, moment: Moment) -> u64 {
    moment.unix_nanos(clock) / 1_000_000_000
}

/// Fills what all forms have.
macro_rules! filled {
    ($form:ident, $usage:expr, $clock:expr) => {{
        let (usage, clock): (&UsageReport, u64) = ($usage, $clock);
        let mut report = $form::new(
            UrrId(usage.urr.0),
            UrSeqn(usage.sequence),
            trigger(usage.triggers),
        );
        if !is_only(usage, MOMENTARY) {
            report.start_time = Some(StartTime::from_unix(unix(clock, usage.start)));
            report.end_time = Some(EndTime::from_unix(unix(clock, usage.end)));
        }
        report.volume_measurement = volume(usage);
        report.duration_measurement = duration(usage);
        let first = |moment| TimeOfFirstPacket::from_unix(unix(clock, moment));
        report.time_of_first_packet = usage.first.map(first);
        let last = |moment| TimeOfLastPacket::from_unix(unix(clock, moment));
        report.time_of_last_packet = usage.last.map(last);
        report.usage_information = usage.information.map(|part| UsageInformation(part.0));
        report
    }};
}

/// For a Session Modification Response; `reference` is that of the query, if it was one.
pub(crate) fn modification_report(
    usage: &UsageReport,
    clock: u64,
    reference: Option<QueryUrrReference>,
) -> UsageReportSessionModification<'static> {
    let mut report = filled!(UsageReportSessionModification, usage, clock);
    report.query_urr_reference = reference.filter(|_| answers_query(usage));
    report
}

/// For a Session Deletion Response.
pub(crate) fn deletion_report(usage: &UsageReport, clock: u64) -> UsageReportSessionDeletion<'static> {
    filled!(UsageReportSessionDeletion, usage, clock)
}

/// For the last Session Report Request of a session that ends at our side.
pub(crate) fn final_report(usage: &UsageReport, clock: u64) -> UsageReportSessionReport<'static> {
    let mut usage = *usage;
    if usage.triggers.contains(UsageTriggers::TERMR) {
        usage.triggers = UsageTriggers(usage.triggers.0 & !UsageTriggers::TERMR.0) | UsageTriggers::TEBUR;
    }
    session_report(&usage, clock, None)
}

/// For a Session Report Request; `reference` is that of the query that it goes on to answer.
pub(crate) fn session_report(
    usage: &UsageReport,
    clock: u64,
    reference: Option<QueryUrrReference>,
) -> UsageReportSessionReport<'static> {
    let mut report = filled!(UsageReportSessionReport, usage, clock);
    report.query_urr_reference = reference;
    report
}

/// Whether a report is there because a request asked for it, or for one that it is linked to.
pub(crate) fn answers_query(usage: &UsageReport) -> bool {
    usage
        .triggers
        .intersects(UsageTriggers::IMMER.with(UsageTriggers::LIUSA))
}
