//! URRs, their checkpoints and reports in a session's record, in both directions.

use rules::model;
use serde::{Deserialize, Serialize};
use usage::{
    Activity, Exhausted, Machine, Moment, Seconds, TrafficDetection, UrrCheckpoint, UsageInformation,
    UsageReport, UsageTriggers,
};

use flow::UrrCount;
use usage::WallClock;

use super::super::error::{RecordError, bad};
use super::filters::{Application, Filter, read_application, read_filter, write_application, write_filter};
use rules::compile::MAX_PDRS;

type Result<T> = std::result::Result<T, RecordError>;

/// Moments as dates, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Dates<'a> {
    pub(super) wall: &'a WallClock,
}

/// A count as it is written: of uplink packets and octets, of downlink packets and octets, and events.
pub(super) type Octets = ([u64; 4], u64);

pub(super) fn octets(count: UrrCount) -> Octets {
    let UrrCount {
        ul_packets,
        ul_octets,
        dl_packets,
        dl_octets,
        events,
    } = count;
    ([ul_packets, ul_octets, dl_packets, dl_octets], events)
}

pub(super) fn count(([ul_packets, ul_octets, dl_packets, dl_octets], events): Octets) -> UrrCount {
    UrrCount {
        ul_packets,
        ul_octets,
        dl_packets,
        dl_octets,
        events,
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Urr {
    id: u32,
    method: u8,
    information: u8,
    triggers: u32,
    measurement_period: Option<u32>,
    volume_threshold: Option<Volume>,
    volume_quota: Option<Volume>,
    time_threshold: Option<u32>,
    time_quota: Option<u32>,
    terms: Option<UrrTerms>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct UrrTerms {
    event_threshold: Option<u32>,
    event_quota: Option<u32>,
    quota_holding_time: Option<u32>,
    quota_validity_time: Option<u32>,
    inactivity_detection_time: Option<u32>,
    /// Packets, octets.
    dropped_dl_threshold: Option<(Option<u64>, Option<u64>)>,
    /// Seconds since 1970.
    monitoring_time: Option<u64>,
    subsequent: Subsequent,
    /// Each with its time in seconds since 1970.
    additional_monitoring_times: Vec<(u64, Subsequent)>,
    linked: Vec<u32>,
    /// Members of a credit pool, and their multipliers in billionths.
    pool: Option<Vec<(u32, u64)>>,
    quota_action: Option<u32>,
    exempt_applications: Vec<Application>,
    exempt_filters: Vec<Filter>,
    number_of_reports: Option<u16>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Subsequent {
    volume_threshold: Option<Volume>,
    volume_quota: Option<Volume>,
    time_threshold: Option<u32>,
    time_quota: Option<u32>,
    event_threshold: Option<u32>,
    event_quota: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Volume {
    total: Option<u64>,
    uplink: Option<u64>,
    downlink: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Checkpoint {
    urr: u32,
    next: u32,
    /// Nanoseconds since 1970; so everywhere below.
    since: u64,
    /// As the counter counts it.
    count: Octets,
    /// What an octet in the count is, and what is left of whole octets, in billionths.
    unit: u64,
    rest: [u64; 2],
    /// The first packet, the last one.
    times: Option<(u64, u64)>,
    /// What came before QoS enforcement.
    before_qos: Option<Octets>,
    machine: Option<MachineState>,
}

/// What is left until thresholds and quotas are reached, and times, in nanoseconds and dates.
#[derive(Serialize, Deserialize)]
pub(super) struct MachineState {
    volume_threshold: Volume,
    volume_again: Volume,
    volume_quota: Volume,
    time_threshold: Option<i64>,
    time_again: Option<i64>,
    time_quota: Option<i64>,
    event_threshold: Option<u64>,
    event_again: Option<u64>,
    event_quota: Option<u64>,
    measured: i64,
    rate: u64,
    running: Option<u64>,
    started: bool,
    exhausted: u8,
    period: Option<u64>,
    validity: Option<u64>,
    /// When packets were last known to come, how many had come, and when it was last checked.
    heard: Option<(u64, u64, u64)>,
    active: Option<(u64, u64, u64)>,
    is_idle: bool,
    monitoring: Option<u64>,
    traffic: TrafficState,
    packets: u64,
    seen: u64,
    pending: u32,
}

/// The state of traffic whose start or stop is reported; activity as in `heard`.
#[derive(Serialize, Deserialize)]
enum TrafficState {
    Unwatched,
    Awaited,
    On((u64, u64, u64)),
    Voided((u64, u64, u64)),
    Again((u64, u64, u64)),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Usage {
    urr: u32,
    method: u8,
    sequence: u32,
    triggers: u32,
    count: Octets,
    /// What came before QoS enforcement.
    before_qos: Option<Octets>,
    reports_packets: bool,
    /// Seconds.
    duration: Option<u32>,
    start: u64,
    end: u64,
    first: Option<u64>,
    last: Option<u64>,
    information: Option<u8>,
}

impl Dates<'_> {
    /// The date of a moment.
    pub(super) fn date(self, moment: Moment) -> u64 {
        self.wall.unix_nanos(moment)
    }

    /// The moment of a date.
    pub(super) fn moment(self, date: u64) -> Moment {
        self.wall.moment(date)
    }

    pub(super) fn write_checkpoint(self, checkpoint: &UrrCheckpoint) -> Checkpoint {
        let UrrCheckpoint {
            urr,
            next,
            since,
            count,
            unit,
            rest,
            times,
            before_qos,
            machine,
        } = *checkpoint;
        Checkpoint {
            urr: urr.0,
            next,
            since: self.date(since),
            count: octets(count),
            unit,
            rest,
            times: times.map(|(first, last)| (self.date(first), self.date(last))),
            before_qos: before_qos.map(octets),
            machine: machine.as_ref().map(|machine| self.write_machine(machine)),
        }
    }

    fn write_machine(self, machine: &Machine) -> MachineState {
        let Machine {
            volume_threshold,
            volume_again,
            volume_quota,
            time_threshold,
            time_again,
            time_quota,
            event_threshold,
            event_again,
            event_quota,
            measured,
            rate,
            running,
            started,
            exhausted,
            period,
            validity,
            holding,
            active,
            is_idle,
            monitoring,
            traffic,
            packets,
            seen,
            pending,
        } = machine;
        let date = |moment: &Option<Moment>| moment.map(|moment| self.date(moment));
        let silence = |heard: Activity| {
            let Activity { at, packets, checked } = heard;
            (self.date(at), packets, self.date(checked))
        };
        MachineState {
            volume_threshold: write_volume(volume_threshold),
            volume_again: write_volume(volume_again),
            volume_quota: write_volume(volume_quota),
            time_threshold: *time_threshold,
            time_again: *time_again,
            time_quota: *time_quota,
            event_threshold: *event_threshold,
            event_again: *event_again,
            event_quota: *event_quota,
            measured: *measured,
            rate: *rate,
            running: date(running),
            started: *started,
            exhausted: exhausted.0,
            period: date(period),
            validity: date(validity),
            heard: holding.map(silence),
            active: active.map(silence),
            is_idle: *is_idle,
            monitoring: date(monitoring),
            traffic: match *traffic {
                TrafficDetection::Off => TrafficState::Unwatched,
                TrafficDetection::Awaited => TrafficState::Awaited,
                TrafficDetection::Ongoing(heard) => TrafficState::On(silence(heard)),
                TrafficDetection::Voided(heard) => TrafficState::Voided(silence(heard)),
                TrafficDetection::Resumed(heard) => TrafficState::Again(silence(heard)),
            },
            packets: *packets,
            seen: *seen,
            pending: pending.0,
        }
    }

    pub(super) fn write_usage(self, report: &UsageReport) -> Usage {
        let UsageReport {
            urr,
            method,
            sequence,
            triggers,
            count,
            before_qos,
            reports_packets,
            duration,
            start,
            end,
            first,
            last,
            information,
        } = *report;
        Usage {
            urr: urr.0,
            method: method.0,
            sequence,
            triggers: triggers.0,
            count: octets(count),
            before_qos: before_qos.map(octets),
            reports_packets,
            duration: duration.map(|seconds| seconds.0),
            start: self.date(start),
            end: self.date(end),
            first: first.map(|first| self.date(first)),
            last: last.map(|last| self.date(last)),
            information: information.map(|information| information.0),
        }
    }
}

impl Dates<'_> {
    pub(super) fn read_checkpoint(self, checkpoint: &Checkpoint) -> UrrCheckpoint {
        UrrCheckpoint {
            urr: model::UrrId(checkpoint.urr),
            next: checkpoint.next,
            since: self.moment(checkpoint.since),
            count: count(checkpoint.count),
            unit: checkpoint.unit,
            rest: checkpoint.rest,
            times: checkpoint
                .times
                .map(|(first, last)| (self.moment(first), self.moment(last))),
            before_qos: checkpoint.before_qos.map(count),
            machine: checkpoint
                .machine
                .as_ref()
                .map(|machine| self.read_machine(machine)),
        }
    }

    fn read_machine(self, machine: &MachineState) -> Machine {
        let moment = |date: Option<u64>| date.map(|date| self.moment(date));
        let silence = |(at, packets, checked)| Activity {
            at: self.moment(at),
            packets,
            checked: self.moment(checked),
        };
        Machine {
            volume_threshold: read_volume(&machine.volume_threshold),
            volume_again: read_volume(&machine.volume_again),
            volume_quota: read_volume(&machine.volume_quota),
            time_threshold: machine.time_threshold,
            time_again: machine.time_again,
            time_quota: machine.time_quota,
            event_threshold: machine.event_threshold,
            event_again: machine.event_again,
            event_quota: machine.event_quota,
            measured: machine.measured,
            rate: machine.rate,
            running: moment(machine.running),
            started: machine.started,
            exhausted: Exhausted(machine.exhausted),
            period: moment(machine.period),
            validity: moment(machine.validity),
            holding: machine.heard.map(silence),
            active: machine.active.map(silence),
            is_idle: machine.is_idle,
            monitoring: moment(machine.monitoring),
            traffic: match machine.traffic {
                TrafficState::Unwatched => TrafficDetection::Off,
                TrafficState::Awaited => TrafficDetection::Awaited,
                TrafficState::On(heard) => TrafficDetection::Ongoing(silence(heard)),
                TrafficState::Voided(heard) => TrafficDetection::Voided(silence(heard)),
                TrafficState::Again(heard) => TrafficDetection::Resumed(silence(heard)),
            },
            packets: machine.packets,
            seen: machine.seen,
            pending: UsageTriggers(machine.pending),
        }
    }

    pub(super) fn read_usage(self, report: &Usage) -> UsageReport {
        UsageReport {
            urr: model::UrrId(report.urr),
            method: model::MeasurementMethod(report.method),
            sequence: report.sequence,
            triggers: UsageTriggers(report.triggers),
            count: count(report.count),
            before_qos: report.before_qos.map(count),
            reports_packets: report.reports_packets,
            duration: report.duration.map(Seconds),
            start: self.moment(report.start),
            end: self.moment(report.end),
            first: report.first.map(|first| self.moment(first)),
            last: report.last.map(|last| self.moment(last)),
            information: report.information.map(UsageInformation),
        }
    }
}

pub(super) fn write_urr(urr: &model::Urr) -> Urr {
    let model::Urr {
        id,
        method,
        information,
        triggers,
        measurement_period,
        volume_threshold,
        volume_quota,
        time_threshold,
        time_quota,
        terms,
    } = urr;
    Urr {
        id: id.0,
        method: method.0,
        information: information.0,
        triggers: triggers.0,
        measurement_period: *measurement_period,
        volume_threshold: volume_threshold.as_deref().map(write_volume),
        volume_quota: volume_quota.as_deref().map(write_volume),
        time_threshold: *time_threshold,
        time_quota: *time_quota,
        terms: terms.as_deref().map(write_terms),
    }
}

fn write_terms(terms: &model::UrrTerms) -> UrrTerms {
    let model::UrrTerms {
        event_threshold,
        event_quota,
        quota_holding_time,
        quota_validity_time,
        inactivity_detection_time,
        dropped_dl_threshold,
        monitoring_time,
        subsequent: then,
        additional_monitoring_times,
        linked,
        pool,
        quota_action,
        exempt_applications,
        exempt_filters,
        number_of_reports,
    } = terms;
    let dropped = |threshold: model::DroppedDlThreshold| {
        let model::DroppedDlThreshold { packets, octets } = threshold;
        (packets, octets)
    };
    let additional = |time: &model::MonitoringTime| {
        let model::MonitoringTime { at, then } = time;
        (at.0, write_subsequent(then))
    };
    let member = |one: &model::Aggregated| (one.urr.0, one.multiplier.billionths());
    UrrTerms {
        event_threshold: *event_threshold,
        event_quota: *event_quota,
        quota_holding_time: *quota_holding_time,
        quota_validity_time: *quota_validity_time,
        inactivity_detection_time: *inactivity_detection_time,
        dropped_dl_threshold: dropped_dl_threshold.map(dropped),
        monitoring_time: monitoring_time.map(|at| at.0),
        subsequent: write_subsequent(then),
        additional_monitoring_times: additional_monitoring_times.iter().map(additional).collect(),
        linked: linked.iter().map(|id| id.0).collect(),
        pool: pool.as_ref().map(|pool| pool.iter().map(member).collect()),
        quota_action: quota_action.map(|id| id.0),
        exempt_applications: exempt_applications.iter().map(write_application).collect(),
        exempt_filters: exempt_filters.iter().map(write_filter).collect(),
        number_of_reports: *number_of_reports,
    }
}

fn write_subsequent(subsequent: &model::Subsequent) -> Subsequent {
    let model::Subsequent {
        volume_threshold,
        volume_quota,
        time_threshold,
        time_quota,
        event_threshold,
        event_quota,
    } = subsequent;
    Subsequent {
        volume_threshold: volume_threshold.as_ref().map(write_volume),
        volume_quota: volume_quota.as_ref().map(write_volume),
        time_threshold: *time_threshold,
        time_quota: *time_quota,
        event_threshold: *event_threshold,
        event_quota: *event_quota,
    }
}

fn write_volume(volume: &model::Volume) -> Volume {
    let model::Volume {
        total,
        uplink,
        downlink,
    } = *volume;
    Volume {
        total,
        uplink,
        downlink,
    }
}

pub(super) fn read_urr(urr: &Urr) -> Result<model::Urr> {
    let boxed = |sent: &Volume| Box::new(read_volume(sent));
    Ok(model::Urr {
        id: model::UrrId(urr.id),
        method: model::MeasurementMethod(urr.method),
        information: model::MeasurementInformation(urr.information),
        triggers: model::ReportingTriggers(urr.triggers),
        measurement_period: urr.measurement_period,
        volume_threshold: urr.volume_threshold.as_ref().map(boxed),
        volume_quota: urr.volume_quota.as_ref().map(boxed),
        time_threshold: urr.time_threshold,
        time_quota: urr.time_quota,
        terms: urr.terms.as_ref().map(read_terms).transpose()?.map(Box::new),
    })
}

fn read_terms(terms: &UrrTerms) -> Result<model::UrrTerms> {
    let lists = [
        terms.linked.len(),
        terms.pool.as_ref().map_or(0, Vec::len),
        terms.additional_monitoring_times.len(),
        terms.exempt_applications.len(),
        terms.exempt_filters.len(),
    ];
    if lists.iter().any(|length| *length > MAX_PDRS) {
        return Err(bad("URR"));
    }
    let applications = terms.exempt_applications.iter().map(read_application);
    let dropped = |(packets, octets)| model::DroppedDlThreshold { packets, octets };
    let additional = |(at, then): &(u64, Subsequent)| model::MonitoringTime {
        at: model::UnixSeconds(*at),
        then: read_subsequent(then),
    };
    Ok(model::UrrTerms {
        event_threshold: terms.event_threshold,
        event_quota: terms.event_quota,
        quota_holding_time: terms.quota_holding_time,
        quota_validity_time: terms.quota_validity_time,
        inactivity_detection_time: terms.inactivity_detection_time,
        dropped_dl_threshold: terms.dropped_dl_threshold.map(dropped),
        monitoring_time: terms.monitoring_time.map(model::UnixSeconds),
        subsequent: read_subsequent(&terms.subsequent),
        additional_monitoring_times: terms.additional_monitoring_times.iter().map(additional).collect(),
        linked: terms.linked.iter().copied().map(model::UrrId).collect(),
        pool: terms.pool.as_deref().map(read_pool).transpose()?,
        quota_action: terms.quota_action.map(model::FarId),
        exempt_applications: applications.collect::<Result<_>>()?,
        exempt_filters: terms
            .exempt_filters
            .iter()
            .map(read_filter)
            .collect::<Result<_>>()?,
        number_of_reports: terms.number_of_reports,
    })
}

fn read_pool(pool: &[(u32, u64)]) -> Result<Vec<model::Aggregated>> {
    let member = |(urr, billionths): &(u32, u64)| {
        let multiplier = model::Multiplier::from_billionths(*billionths).ok_or(bad("URR"))?;
        let urr = model::UrrId(*urr);
        Ok(model::Aggregated { urr, multiplier })
    };
    pool.iter().map(member).collect()
}

fn read_subsequent(subsequent: &Subsequent) -> model::Subsequent {
    model::Subsequent {
        volume_threshold: subsequent.volume_threshold.as_ref().map(read_volume),
        volume_quota: subsequent.volume_quota.as_ref().map(read_volume),
        time_threshold: subsequent.time_threshold,
        time_quota: subsequent.time_quota,
        event_threshold: subsequent.event_threshold,
        event_quota: subsequent.event_quota,
    }
}

fn read_volume(volume: &Volume) -> model::Volume {
    model::Volume {
        total: volume.total,
        uplink: volume.uplink,
        downlink: volume.downlink,
    }
}
