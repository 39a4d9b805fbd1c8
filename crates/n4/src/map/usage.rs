//! URRs in, usage reports out (TS 29.244 Tables 7.5.2.4-1, 7.5.4.4-1, 7.5.5.2-1 and 7.5.7.2-1).

use pfcp::group::{CreateUrr, UpdateUrr};
use pfcp::ie;
use rules::model::{MeasurementMethod, ReportingTriggers, Urr, UrrId, UrrUpdate, Volume};

use super::{edit, unsupported};
use crate::cause::Reject;

pub(super) fn create(urr: &CreateUrr<'_>) -> Result<Urr, Reject> {
    unsupported::create_urr(urr)?;
    Ok(Urr {
        id: UrrId(urr.urr_id.0),
        method: MeasurementMethod(urr.measurement_method.0),
        triggers: ReportingTriggers(urr.reporting_triggers.bits()),
        volume_threshold: urr.volume_threshold.map(threshold),
        volume_quota: urr.volume_quota.map(quota),
        time_threshold: urr.time_threshold.map(|seconds| seconds.0),
        time_quota: urr.time_quota.map(|seconds| seconds.0),
        is_paused: urr.measurement_information.is_some_and(is_inactive),
    })
}

pub(super) fn update(urr: &UpdateUrr<'_>) -> Result<UrrUpdate, Reject> {
    unsupported::update_urr(urr)?;
    Ok(UrrUpdate {
        id: UrrId(urr.urr_id.0),
        method: urr.measurement_method.map(|method| MeasurementMethod(method.0)),
        triggers: urr
            .reporting_triggers
            .map(|triggers| ReportingTriggers(triggers.bits())),
        volume_threshold: edit(urr.volume_threshold, threshold),
        volume_quota: edit(urr.volume_quota, quota),
        time_threshold: edit(urr.time_threshold, |seconds| seconds.0),
        time_quota: edit(urr.time_quota, |seconds| seconds.0),
        is_paused: urr
            .measurement_information
            .map(|sent| sent.value().is_some_and(is_inactive)),
    })
}

/// Inactive Measurement. Of URRs for Pause of Charging over GTP-U (ASPOC) it would count with CIAM alone, but those are of
/// the feature NSPOC, which nobody was told of (TS 29.244 §5.30).
fn is_inactive(sent: ie::MeasurementInformation) -> bool {
    sent.contains(ie::MeasurementInformation::INAM)
}

fn threshold(sent: ie::VolumeThreshold) -> Box<Volume> {
    Box::new(Volume {
        total: sent.total,
        uplink: sent.uplink,
        downlink: sent.downlink,
    })
}

fn quota(sent: ie::VolumeQuota) -> Box<Volume> {
    Box::new(Volume {
        total: sent.total,
        uplink: sent.uplink,
        downlink: sent.downlink,
    })
}
