//! Usage reports in their three forms: in a modification response, a deletion response, and a report
//! (TS 29.244 §7.5.5.2, §7.5.7.2, §7.5.8.3).

use pfcp::Repeated;
use pfcp::group::{
    ApplicationDetectionInformation, UsageReportSessionDeletion, UsageReportSessionModification,
    UsageReportSessionReport,
};
use pfcp::ie::{
    ApplicationId, ApplicationInstanceId, DurationMeasurement, EndTime, FlowInformation, Octets16, PdrId,
    QueryUrrReference, StartTime, TimeOfFirstPacket, TimeOfLastPacket, TimeStamp, UrSeqn, UrrId,
    UsageInformation, UsageReportTrigger, VolumeMeasurement,
};
use rules::model::{MeasurementInformation, MeasurementMethod, Pdr, SessionRules, SourceInterface};
use session::{Moment, UsageReport, UsageTriggers, WallClock};
use std::sync::Arc;

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
    let is_measured =
        usage.method.contains(MeasurementMethod::VOLUM) && !is_only(usage, UsageTriggers::MEASURE_NOTHING);
    let packets = |packets| usage.reports_packets.then_some(packets);
    is_measured.then(|| VolumeMeasurement {
        total: Some(count.ul_octets.wrapping_add(count.dl_octets)),
        uplink: Some(count.ul_octets),
        downlink: Some(count.dl_octets),
        total_packets: packets(count.ul_packets.wrapping_add(count.dl_packets)),
        uplink_packets: packets(count.ul_packets),
        downlink_packets: packets(count.dl_packets),
    })
}

fn duration(usage: &UsageReport) -> Option<DurationMeasurement> {
    let is_measured = !is_only(usage, UsageTriggers::MEASURE_NOTHING);
    let seconds = usage.duration.filter(|_| is_measured);
    seconds.map(|seconds| DurationMeasurement(seconds.0))
}

/// A report, and what its form in a Session Report Request points to.
pub(crate) struct Dated {
    pub(crate) usage: UsageReport,
    /// When the event came that it is made for.
    event: Option<TimeStamp>,
}

impl Dated {
    fn new(usage: UsageReport, clock: &WallClock) -> Self {
        let event = event(&usage, clock);
        Self { usage, event }
    }
}

/// The parts of a report that are sent to a peer, for one that can read Usage Information or for one that cannot: to
/// the latter, without it, a report means usage after QoS enforcement (TS 29.244 §5.2.2.3.1), and the part before it is
/// left out. There is such a part only if the session began with a peer that could.
pub(crate) fn parts(
    usage: &UsageReport,
    reads_information: bool,
) -> impl Iterator<Item = UsageReport> + use<> {
    let is_before_qos = |part: &UsageReport| {
        part.information
            .is_some_and(|of| of.contains(session::UsageInformation::UBE))
    };
    let told = usage
        .parts()
        .filter(move |part| reads_information || !is_before_qos(part));
    told.map(move |part| UsageReport {
        information: part.information.filter(|_| reads_information),
        ..part
    })
}

/// The [`parts`] of reports, in their order.
pub(crate) fn dated<'a>(
    usage: impl IntoIterator<Item = &'a UsageReport>,
    clock: &WallClock,
    reads_information: bool,
) -> Vec<Dated> {
    let told = usage.into_iter().flat_map(|one| parts(one, reads_information));
    told.map(|part| Dated::new(part, clock)).collect()
}

/// When the event came that a report is made for: the report is made as soon as it is known.
fn event(usage: &UsageReport, clock: &WallClock) -> Option<TimeStamp> {
    let triggers = UsageTriggers::EVETH.with(UsageTriggers::EVEQU);
    let is_for_one = usage.triggers.intersects(triggers) && usage.count.events > 0;
    is_for_one.then(|| TimeStamp::from_unix(unix(clock, usage.end)))
}

/// Seconds since 1970 of a moment.
fn unix(clock: &WallClock, moment: Moment) -> u64 {
    clock.unix_seconds(moment)
}

/// Fills what all forms have.
macro_rules! filled {
    ($form:ident, $usage:expr, $clock:expr) => {{
        let (usage, clock): (&UsageReport, &WallClock) = ($usage, $clock);
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
    clock: &WallClock,
    reference: Option<QueryUrrReference>,
) -> UsageReportSessionModification<'static> {
    let mut report = filled!(UsageReportSessionModification, usage, clock);
    report.query_urr_reference = reference.filter(|_| answers_query(usage));
    report
}

/// For a Session Deletion Response.
pub(crate) fn deletion_report(usage: &UsageReport, clock: &WallClock) -> UsageReportSessionDeletion<'static> {
    filled!(UsageReportSessionDeletion, usage, clock)
}

/// For the last Session Report Request of a session that ends at our side.
pub(crate) fn final_report<'a>(one: &'a Dated, clock: &WallClock) -> UsageReportSessionReport<'a> {
    let mut report = session_report(one, clock, None);
    let triggers = one.usage.triggers;
    if triggers.contains(UsageTriggers::TERMR) {
        let others = UsageTriggers(triggers.0 & !UsageTriggers::TERMR.0);
        report.usage_report_trigger = trigger(others | UsageTriggers::TEBUR);
    }
    report
}

/// For a Session Report Request; `reference` is that of the query whose response it continues.
pub(crate) fn session_report<'a>(
    one: &'a Dated,
    clock: &WallClock,
    reference: Option<QueryUrrReference>,
) -> UsageReportSessionReport<'a> {
    let mut report = filled!(UsageReportSessionReport, &one.usage, clock);
    report.event_time_stamp = Repeated::new(one.event.as_slice());
    report.query_urr_reference = reference;
    report
}

/// The application whose traffic starts or stops, and what is known of that (TS 29.244 §5.4.11).
pub(crate) struct Detection {
    /// Application ID.
    id: Arc<[u8]>,
    /// Application Instance ID: the number of the URR.
    instance: Option<[u8; 4]>,
    /// Flow Direction and Flow Description.
    flow: Option<(u8, String)>,
    /// The PDR, if it can be no other.
    pdr: Option<PdrId>,
}

/// What a report says of the start or the stop of an application, by the first PDR of the URR that looks for one;
/// nothing for another report, and for service data flows that are no application's.
///
/// A counter does not say which flow of an application it was. So flows are deducible where all PDRs of the URR look
/// for one application that is known by one flow description.
pub(crate) fn application(usage: &UsageReport, rules: &SessionRules) -> Option<Detection> {
    if !usage.triggers.intersects(MOMENTARY) {
        return None;
    }
    let pdrs: Vec<&Pdr> = rules
        .pdrs()
        .iter()
        .filter(|pdr| pdr.urrs.contains(&usage.urr))
        .collect();
    let application = pdrs
        .iter()
        .find_map(|pdr| pdr.pdi.optional.application.as_ref())?;
    let mut detection = Detection {
        id: Arc::clone(&application.id),
        instance: None,
        flow: None,
        pdr: None,
    };
    let urr = rules.urr(usage.urr);
    if urr.is_some_and(|urr| urr.information.contains(MeasurementInformation::RADI)) {
        return Some(detection);
    }
    if let [pdr] = pdrs[..] {
        detection.pdr = Some(PdrId(pdr.id.0));
    }
    let is_same = |pdr: &&Pdr| pdr.pdi.optional.application.as_ref() == Some(application);
    let is_alone = application.named.all().is_empty() && pdrs.iter().all(is_same);
    if let ([flow], true) = (&application.flows[..], is_alone) {
        detection.instance = Some(usage.urr.0.to_be_bytes());
        let is_start = usage.triggers.contains(UsageTriggers::START);
        detection.flow = is_start.then(|| (direction(&pdrs), flow.to_string()));
    }
    Some(detection)
}

/// Flow Direction of what these PDRs detect (TS 29.244 Table 8.2.61-1).
fn direction(pdrs: &[&Pdr]) -> u8 {
    const DOWNLINK: u8 = 1;
    const UPLINK: u8 = 2;
    let of = |pdr: &&Pdr| match pdr.pdi.source_interface {
        SourceInterface::Access => UPLINK,
        _ => DOWNLINK,
    };
    pdrs.iter().map(of).fold(0, |all, one| all | one)
}

/// What a report says of the application.
pub(crate) fn detected(detection: &Option<Detection>) -> Option<ApplicationDetectionInformation<'_>> {
    let detection = detection.as_ref()?;
    let mut said = ApplicationDetectionInformation::new(ApplicationId(&detection.id));
    said.application_instance_id = detection
        .instance
        .as_ref()
        .map(|instance| ApplicationInstanceId(instance));
    said.flow_information = detection.flow.as_ref().map(|(direction, flow)| FlowInformation {
        direction: *direction,
        flow_description: Octets16(flow.as_bytes()),
    });
    said.pdr_id = detection.pdr;
    Some(said)
}

/// Whether a report is there because a request asked for it, or for one that it is linked to.
pub(crate) fn answers_query(usage: &UsageReport) -> bool {
    usage
        .triggers
        .intersects(UsageTriggers::IMMER.with(UsageTriggers::LIUSA))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{Nanos, UrrCount};
    use pfcp::ie::UsageReportTrigger as Trigger;
    use session::Seconds;

    /// The clock began in 2023.
    const CLOCK: u64 = 1_700_000_000;
    static WALL: std::sync::LazyLock<WallClock> = std::sync::LazyLock::new(|| WallClock::starting(CLOCK));

    fn usage(method: u8, triggers: UsageTriggers) -> UsageReport {
        let at = |seconds| Moment::from(Nanos::from_secs(seconds));
        UsageReport {
            urr: rules::model::UrrId(7),
            method: MeasurementMethod(method),
            sequence: 3,
            triggers,
            count: UrrCount {
                ul_packets: 2,
                ul_octets: 100,
                dl_packets: 3,
                dl_octets: 900,
                events: 4,
            },
            before_qos: None,
            reports_packets: false,
            duration: Some(Seconds(9)),
            start: at(1),
            end: at(11),
            first: Some(at(2)),
            last: Some(at(10)),
            information: Some(session::UsageInformation::BEF),
        }
    }

    #[test]
    fn a_report_has_the_octets_the_seconds_and_the_times() {
        let triggers = UsageTriggers::VOLTH | UsageTriggers::QUVTI;
        let one = Dated::new(usage(3, triggers), &WALL);
        let report = session_report(&one, &WALL, Some(QueryUrrReference(5)));
        assert_eq!((report.urr_id, report.ur_seqn), (UrrId(7), UrSeqn(3)));
        assert_eq!(report.usage_report_trigger, Trigger::VOLTH | Trigger::QUVTI);
        assert_eq!(report.usage_report_trigger.octets(), 3);
        let volume = report.volume_measurement.unwrap();
        assert_eq!(
            (volume.total, volume.uplink, volume.downlink),
            (Some(1000), Some(100), Some(900))
        );
        assert_eq!(volume.total_packets, None);
        let counted = UsageReport {
            reports_packets: true,
            ..usage(2, triggers)
        };
        let counted = Dated::new(counted, &WALL);
        let volume = session_report(&counted, &WALL, None).volume_measurement.unwrap();
        assert_eq!(
            (
                volume.total_packets,
                volume.uplink_packets,
                volume.downlink_packets
            ),
            (Some(5), Some(2), Some(3))
        );
        assert_eq!(report.duration_measurement, Some(DurationMeasurement(9)));
        assert_eq!(report.start_time, Some(StartTime::from_unix(CLOCK + 1)));
        assert_eq!(report.end_time, Some(EndTime::from_unix(CLOCK + 11)));
        assert_eq!(
            report.time_of_first_packet,
            Some(TimeOfFirstPacket::from_unix(CLOCK + 2))
        );
        assert_eq!(
            report.time_of_last_packet,
            Some(TimeOfLastPacket::from_unix(CLOCK + 10))
        );
        assert_eq!(report.usage_information, Some(UsageInformation::BEF));
        assert_eq!(report.query_urr_reference, Some(QueryUrrReference(5)));
    }

    #[test]
    fn what_is_not_measured_is_not_said() {
        let time = deletion_report(&usage(1, UsageTriggers::TERMR), &WALL);
        assert_eq!(time.volume_measurement, None);
        assert!(time.duration_measurement.is_some());
        let start = Dated::new(usage(3, UsageTriggers::START), &WALL);
        let start = session_report(&start, &WALL, None);
        assert_eq!(
            (start.volume_measurement, start.duration_measurement),
            (None, None)
        );
        assert_eq!((start.start_time, start.end_time), (None, None));
        let both = UsageTriggers::START | UsageTriggers::PERIO;
        let both = Dated::new(usage(3, both), &WALL);
        let both = session_report(&both, &WALL, None);
        assert!(both.volume_measurement.is_some() && both.start_time.is_some());
    }

    #[test]
    fn the_user_plane_that_ends_a_session_says_so() {
        let trigger = |triggers| {
            let one = Dated::new(usage(2, triggers), &WALL);
            final_report(&one, &WALL).usage_report_trigger
        };
        let last = trigger(UsageTriggers::TERMR | UsageTriggers::LIUSA);
        assert_eq!(last, Trigger::TEBUR | Trigger::LIUSA);
        assert_eq!(trigger(UsageTriggers::VOLTH), Trigger::VOLTH);
    }

    #[test]
    fn the_part_that_has_the_events_says_when_one_came() {
        let report = UsageReport {
            before_qos: Some(UrrCount::default()),
            ..usage(6, UsageTriggers::EVETH)
        };
        let parts = dated([&report], &WALL, true);
        let stamps = parts
            .iter()
            .map(|one| session_report(one, &WALL, None).event_time_stamp.len());
        assert_eq!(stamps.collect::<Vec<_>>(), [1, 0]);
        let other = dated([&usage(6, UsageTriggers::VOLTH)], &WALL, true);
        assert!(session_report(&other[0], &WALL, None).event_time_stamp.is_empty());
    }

    #[test]
    fn a_peer_that_cannot_read_usage_information_gets_usage_after_qos_alone() {
        let both = UsageReport {
            before_qos: Some(UrrCount::default()),
            ..usage(2, UsageTriggers::VOLTH)
        };
        let told = dated([&both, &usage(2, UsageTriggers::MONIT)], &WALL, false);
        let told = told.iter().map(|one| session_report(one, &WALL, None));
        let told = told.map(|report| {
            let total = report.volume_measurement.and_then(|volume| volume.total);
            (total, report.usage_information)
        });
        assert_eq!(told.collect::<Vec<_>>(), [(Some(1000), None); 2]);
    }

    #[test]
    fn only_answers_to_a_query_have_its_reference() {
        let reference = Some(QueryUrrReference(5));
        let of = |triggers| modification_report(&usage(2, triggers), &WALL, reference).query_urr_reference;
        assert_eq!(of(UsageTriggers::IMMER), reference);
        assert_eq!(of(UsageTriggers::LIUSA), reference);
        assert_eq!(of(UsageTriggers::TERMR), None);
    }
}
