//! URRs in, as the rules take them (TS 29.244 Tables 7.5.2.4-1 and 7.5.4.4-1).

use pfcp::group::{AdditionalMonitoringTime, CreateUrr, UpdateUrr};
use pfcp::ie;
use rules::model::{
    DroppedDlThreshold, FarId, MeasurementInformation, MeasurementMethod, MonitoringTime, ReportingTriggers,
    Subsequent, SubsequentUpdate, UnixSeconds, Urr, UrrId, UrrTerms, UrrTermsUpdate, UrrUpdate, Volume,
};

use super::{edit, unsupported};
use crate::cause::Reject;

pub(super) fn create(urr: &CreateUrr<'_>) -> Result<Urr, Reject> {
    unsupported::create_urr(urr)?;
    let terms = terms(urr);
    Ok(Urr {
        id: UrrId(urr.urr_id.0),
        method: MeasurementMethod(urr.measurement_method.0),
        information: urr.measurement_information.map(information).unwrap_or_default(),
        triggers: ReportingTriggers(urr.reporting_triggers.bits()),
        measurement_period: urr.measurement_period.map(|seconds| seconds.0),
        volume_threshold: urr.volume_threshold.map(volume).map(Box::new),
        volume_quota: urr.volume_quota.map(volume).map(Box::new),
        time_threshold: urr.time_threshold.map(|seconds| seconds.0),
        time_quota: urr.time_quota.map(|seconds| seconds.0),
        terms: (terms != UrrTerms::NONE).then(|| Box::new(terms)),
    })
}

pub(super) fn update(urr: &UpdateUrr<'_>) -> Result<UrrUpdate, Reject> {
    unsupported::update_urr(urr)?;
    let terms = terms_update(urr);
    Ok(UrrUpdate {
        id: UrrId(urr.urr_id.0),
        method: urr.measurement_method.map(|method| MeasurementMethod(method.0)),
        information: urr
            .measurement_information
            .map(|sent| sent.value().map(information).unwrap_or_default()),
        triggers: urr
            .reporting_triggers
            .map(|triggers| ReportingTriggers(triggers.bits())),
        measurement_period: edit(urr.measurement_period, |seconds| seconds.0),
        volume_threshold: edit(urr.volume_threshold, |sent| Box::new(volume(sent))),
        volume_quota: edit(urr.volume_quota, |sent| Box::new(volume(sent))),
        time_threshold: edit(urr.time_threshold, |seconds| seconds.0),
        time_quota: edit(urr.time_quota, |seconds| seconds.0),
        terms: (terms != UrrTermsUpdate::default()).then(|| Box::new(terms)),
    })
}

fn terms(urr: &CreateUrr<'_>) -> UrrTerms {
    UrrTerms {
        event_threshold: urr.event_threshold.map(|events| events.0),
        event_quota: urr.event_quota.map(|events| events.0),
        quota_holding_time: urr.quota_holding_time.map(|seconds| seconds.0),
        quota_validity_time: urr.quota_validity_time.map(|seconds| seconds.0),
        inactivity_detection_time: urr.inactivity_detection_time.map(|seconds| seconds.0),
        dropped_dl_threshold: urr.dropped_dl_traffic_threshold.map(dropped),
        monitoring_time: urr.monitoring_time.map(date),
        subsequent: Subsequent {
            volume_threshold: urr.subsequent_volume_threshold.map(volume),
            volume_quota: urr.subsequent_volume_quota.map(volume),
            time_threshold: urr.subsequent_time_threshold.map(|seconds| seconds.0),
            time_quota: urr.subsequent_time_quota.map(|seconds| seconds.0),
            event_threshold: urr.subsequent_event_threshold.map(|events| events.0),
            event_quota: urr.subsequent_event_quota.map(|events| events.0),
        },
        additional_monitoring_times: urr
            .additional_monitoring_time
            .iter()
            .map(|time| monitoring_time(&time))
            .collect(),
        linked: urr.linked_urr_id.iter().map(|linked| UrrId(linked.0)).collect(),
        quota_action: urr.far_id_for_quota_action.map(|far| FarId(far.0)),
        number_of_reports: urr.number_of_reports.map(|reports| reports.0),
    }
}

fn terms_update(urr: &UpdateUrr<'_>) -> UrrTermsUpdate {
    let times = &urr.additional_monitoring_time;
    let linked = &urr.linked_urr_id;
    UrrTermsUpdate {
        event_threshold: edit(urr.event_threshold, |events| events.0),
        event_quota: edit(urr.event_quota, |events| events.0),
        quota_holding_time: edit(urr.quota_holding_time, |seconds| seconds.0),
        quota_validity_time: edit(urr.quota_validity_time, |seconds| seconds.0),
        inactivity_detection_time: edit(urr.inactivity_detection_time, |seconds| seconds.0),
        dropped_dl_threshold: edit(urr.dropped_dl_traffic_threshold, dropped),
        monitoring_time: edit(urr.monitoring_time, date),
        subsequent: SubsequentUpdate {
            volume_threshold: edit(urr.subsequent_volume_threshold, volume),
            volume_quota: edit(urr.subsequent_volume_quota, volume),
            time_threshold: edit(urr.subsequent_time_threshold, |seconds| seconds.0),
            time_quota: edit(urr.subsequent_time_quota, |seconds| seconds.0),
            event_threshold: edit(urr.subsequent_event_threshold, |events| events.0),
            event_quota: edit(urr.subsequent_event_quota, |events| events.0),
        },
        additional_monitoring_times: (!times.is_empty() || times.removes_all())
            .then(|| times.iter().map(|time| monitoring_time(&time)).collect()),
        linked: (!linked.is_empty() || linked.removes_all())
            .then(|| linked.iter().map(|linked| UrrId(linked.0)).collect()),
        quota_action: edit(urr.far_id_for_quota_action, |far| FarId(far.0)),
        number_of_reports: edit(urr.number_of_reports, |reports| reports.0),
    }
}

fn monitoring_time(time: &AdditionalMonitoringTime<'_>) -> MonitoringTime {
    MonitoringTime {
        at: date(time.monitoring_time),
        then: Subsequent {
            volume_threshold: time.subsequent_volume_threshold.map(volume),
            volume_quota: time.subsequent_volume_quota.map(volume),
            time_threshold: time.subsequent_time_threshold.map(|seconds| seconds.0),
            time_quota: time.subsequent_time_quota.map(|seconds| seconds.0),
            event_threshold: time.subsequent_event_threshold.map(|events| events.0),
            event_quota: time.subsequent_event_quota.map(|events| events.0),
        },
    }
}

/// The first octet: there are no flags in the second.
fn information(sent: ie::MeasurementInformation) -> MeasurementInformation {
    MeasurementInformation(sent.bits() as u8)
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
