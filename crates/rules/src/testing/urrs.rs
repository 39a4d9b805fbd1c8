//! Usage Reporting Rules at random: any that a session can have.

use proptest::prelude::*;

use super::filters::any_filter;
use super::rules::any_application;
use crate::model::{
    Aggregated, DroppedDlThreshold, FarId, MeasurementInformation, MeasurementMethod, MonitoringTime,
    Multiplier, ReportingTriggers, Subsequent, UnixSeconds, Urr, UrrId, UrrTerms, Volume,
};

/// A URR with this number.
pub fn any_urr(id: UrrId) -> BoxedStrategy<Urr> {
    let flags = (0..8_u8, any::<u8>(), 0..1_u32 << 18);
    let volumes = (prop::option::of(any_volume()), prop::option::of(any_volume()));
    let seconds = any::<[Option<u32>; 3]>();
    (flags, volumes, seconds, prop::option::of(any_terms()))
        .prop_map(
            move |((method, information, triggers), (threshold, quota), seconds, terms)| {
                let [measurement_period, time_threshold, time_quota] = seconds;
                let mut urr = Urr {
                    id,
                    method: MeasurementMethod(method),
                    information: MeasurementInformation(information),
                    triggers: ReportingTriggers(triggers),
                    measurement_period,
                    volume_threshold: threshold.map(Box::new),
                    volume_quota: quota.map(Box::new),
                    time_threshold,
                    time_quota,
                    terms: terms.map(Box::new),
                };
                urr.drop_unmeasured();
                urr
            },
        )
        .boxed()
}

fn any_volume() -> BoxedStrategy<Volume> {
    any::<[Option<u64>; 3]>()
        .prop_map(|[total, uplink, downlink]| Volume {
            total,
            uplink,
            downlink,
        })
        .boxed()
}

fn any_subsequent() -> BoxedStrategy<Subsequent> {
    let volumes = (prop::option::of(any_volume()), prop::option::of(any_volume()));
    (volumes, any::<[Option<u32>; 4]>())
        .prop_map(|((volume_threshold, volume_quota), others)| {
            let [time_threshold, time_quota, event_threshold, event_quota] = others;
            Subsequent {
                volume_threshold,
                volume_quota,
                time_threshold,
                time_quota,
                event_threshold,
                event_quota,
            }
        })
        .boxed()
}

fn any_terms() -> BoxedStrategy<UrrTerms> {
    let dropped = any::<Option<[Option<u64>; 2]>>().prop_map(|sent| {
        let threshold = |[packets, octets]: [Option<u64>; 2]| DroppedDlThreshold { packets, octets };
        sent.map(threshold)
    });
    let monitoring = (any::<u64>(), any_subsequent()).prop_map(|(at, then)| MonitoringTime {
        at: UnixSeconds(at),
        then,
    });
    let later = (
        any::<Option<u64>>(),
        any_subsequent(),
        prop::collection::vec(monitoring, 0..3),
    );
    let member = (any::<u32>(), 1..=u64::MAX).prop_map(|(urr, billionths)| Aggregated {
        urr: UrrId(urr),
        multiplier: Multiplier::from_billionths(billionths).expect("from 1 on"),
    });
    let named = (
        (
            prop::collection::vec(any::<u32>().prop_map(UrrId), 0..3),
            prop::option::of(prop::collection::vec(member, 0..3)),
        ),
        any::<Option<u32>>(),
        any::<Option<u16>>(),
        (
            prop::collection::vec(any_application(), 0..2),
            prop::collection::vec(any_filter(), 0..2),
        ),
    );
    (any::<[Option<u32>; 5]>(), dropped, later, named)
        .prop_map(|(numbers, dropped, later, named)| {
            let (monitoring_time, subsequent, additional_monitoring_times) = later;
            let subsequent = monitoring_time.map(|_| subsequent).unwrap_or_default();
            let ((linked, pool), quota_action, number_of_reports, exempt) = named;
            UrrTerms {
                event_threshold: numbers[0],
                event_quota: numbers[1],
                quota_holding_time: numbers[2],
                quota_validity_time: numbers[3],
                inactivity_detection_time: numbers[4],
                dropped_dl_threshold: dropped,
                monitoring_time: monitoring_time.map(UnixSeconds),
                subsequent,
                additional_monitoring_times,
                linked,
                pool,
                quota_action: quota_action.map(FarId),
                exempt_applications: exempt.0,
                exempt_filters: exempt.1,
                number_of_reports,
            }
        })
        .boxed()
}
