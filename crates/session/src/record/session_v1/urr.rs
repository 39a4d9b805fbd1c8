//! URRs, their checkpoints and reports, as a session's record has them.

use flow::UrrCount;
use rules::model;
use serde::{Deserialize, Serialize};
use usage::{Activity, PacketMoments, TrafficDetection, UrrCheckpoint, UrrState, UsageReport};

use super::convert::{Dates, Form, Result, form};

/// An application's identifier, and its flows.
pub(super) type Application = (Vec<u8>, Vec<String>);

form! {
    Filter = model::SdfFilter {
        /// As in an SDF Filter IE.
        flow_description: Option<String>,
        /// The octet, and its bits that count.
        tos_traffic_class: Option<(u8, u8)>,
        spi: Option<u32>,
        flow_label: Option<u32>,
        filter_id: Option<u32>,
    }
}

form! {
    Volume = model::Volume {
        total: Option<u64>,
        uplink: Option<u64>,
        downlink: Option<u64>,
    }
}

form! {
    Subsequent = model::Subsequent {
        volume_threshold: Option<Volume>,
        volume_quota: Option<Volume>,
        time_threshold: Option<u32>,
        time_quota: Option<u32>,
        event_threshold: Option<u32>,
        event_quota: Option<u32>,
    }
}

form! {
    MonitoringTime = model::MonitoringTime {
        at: u64,
        then: Subsequent,
    }
}

form! {
    DroppedDlThreshold = model::DroppedDlThreshold {
        packets: Option<u64>,
        octets: Option<u64>,
    }
}

form! {
    /// A member of a credit pool, and its multiplier in billionths.
    Aggregated = model::Aggregated {
        urr: u32,
        multiplier: u64,
    }
}

form! {
    UrrTerms = model::UrrTerms {
        event_threshold: Option<u32>,
        event_quota: Option<u32>,
        quota_holding_time: Option<u32>,
        quota_validity_time: Option<u32>,
        inactivity_detection_time: Option<u32>,
        dropped_dl_threshold: Option<DroppedDlThreshold>,
        /// Seconds since 1970.
        monitoring_time: Option<u64>,
        subsequent: Subsequent,
        additional_monitoring_times: Vec<MonitoringTime>,
        linked: Vec<u32>,
        pool: Option<Vec<Aggregated>>,
        quota_action: Option<u32>,
        exempt_applications: Vec<Application>,
        exempt_filters: Vec<Filter>,
        number_of_reports: Option<u16>,
    }
}

form! {
    Urr = model::Urr {
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
}

form! {
    Octets = UrrCount {
        ul_packets: u64,
        ul_octets: u64,
        dl_packets: u64,
        dl_octets: u64,
        events: u64,
    }
}

form! {
    Checkpoint = UrrCheckpoint {
        urr: u32,
        next: u32,
        /// Nanoseconds since 1970; so everywhere below.
        since: u64,
        /// As the counter counts it.
        count: Octets,
        /// What an octet in the count is, and what is left of whole octets, in billionths.
        unit: u64,
        rest: [u64; 2],
        times: Option<FirstAndLast>,
        before_qos: Option<Octets>,
        state: Option<MachineState>,
    }
}

form! {
    /// When the first and the last packet came.
    FirstAndLast = PacketMoments {
        first: u64,
        last: u64,
    }
}

form! {
    /// What is left until thresholds and quotas are reached, and times, in nanoseconds and dates.
    MachineState = UrrState {
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
        holding: Option<LastActivity>,
        active: Option<LastActivity>,
        is_idle: bool,
        monitoring: Option<u64>,
        traffic: TrafficState,
        packets: u64,
        seen: u64,
        pending: u32,
    }
}

form! {
    /// When packets were last known to come, how many had come, and when it was last checked.
    LastActivity = Activity {
        at: u64,
        packets: u64,
        checked: u64,
    }
}

/// The state of traffic whose start or stop is reported.
#[derive(Serialize, Deserialize)]
pub(super) enum TrafficState {
    Off,
    Awaited,
    Ongoing(LastActivity),
    Voided(LastActivity),
    Resumed(LastActivity),
}

impl Form<TrafficDetection> for TrafficState {
    fn write(value: &TrafficDetection, dates: Dates<'_>) -> TrafficState {
        match value {
            TrafficDetection::Off => TrafficState::Off,
            TrafficDetection::Awaited => TrafficState::Awaited,
            TrafficDetection::Ongoing(last) => TrafficState::Ongoing(Form::write(last, dates)),
            TrafficDetection::Voided(last) => TrafficState::Voided(Form::write(last, dates)),
            TrafficDetection::Resumed(last) => TrafficState::Resumed(Form::write(last, dates)),
        }
    }

    fn read(&self, dates: Dates<'_>) -> Result<TrafficDetection> {
        Ok(match self {
            TrafficState::Off => TrafficDetection::Off,
            TrafficState::Awaited => TrafficDetection::Awaited,
            TrafficState::Ongoing(last) => TrafficDetection::Ongoing(last.read(dates)?),
            TrafficState::Voided(last) => TrafficDetection::Voided(last.read(dates)?),
            TrafficState::Resumed(last) => TrafficDetection::Resumed(last.read(dates)?),
        })
    }
}

form! {
    Usage = UsageReport {
        urr: u32,
        method: u8,
        sequence: u32,
        triggers: u32,
        count: Octets,
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
}
