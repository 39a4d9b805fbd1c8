//! Makes usage reports (TS 29.244 §5.2.2.3): what a URR measured since its last report, with the next UR-SEQN.

use flow::UrrCount;
use rules::model::{MeasurementInformation, Urr};

use crate::count::{combine, is_null};
use crate::moment::Moment;
use crate::urr_account::{UrrAccount, measures_time};
use crate::usage_report::{UsageReport, UsageTriggers};

/// A worker's count of one URR, since its slot began.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The URR.
    pub urr: &'a Urr,
    /// What its slot has counted.
    pub count: UrrCount,
}

/// Makes the report of what was counted since the last report, and begins the next measurement; unless `triggers` call
/// for no measurement ([`UsageTriggers::MEASURE_NOTHING`]), which then continues.
pub(crate) fn make_usage_report(
    account: &mut UrrAccount,
    now: Moment,
    counted: Counted<'_>,
    triggers: UsageTriggers,
) -> UsageReport {
    let Counted { urr, count } = counted;
    if UsageTriggers::MEASURE_NOTHING.contains(triggers) && !triggers.is_empty() {
        return report_without_measurement(account, urr, triggers, now);
    }
    account.detect_restart(count);
    let all = account.used(count);
    let mut used = all.count;
    let mut duration = None;
    if let Some(state) = account.state_mut() {
        used.events = state.events_to_report(used, triggers);
        duration = measures_time(urr).then(|| state.seconds(now));
        state.reported(used, duration.unwrap_or_default(), triggers, now);
    }
    let times = account.times.take().filter(|_| !is_null(used));
    let before_qos = account.before_qos.take();
    let report = UsageReport {
        urr: urr.id,
        method: urr.method,
        sequence: account.next,
        triggers,
        count: used,
        before_qos: urr.measures_before_qos().then(|| before_qos.unwrap_or_default()),
        reports_packets: urr.information.contains(MeasurementInformation::MNOP),
        start: account.since,
        end: now,
        duration,
        // The millisecond of a packet may have begun before the measurement.
        first: times.map(|times| times.first.max(account.since)),
        last: times.map(|times| times.last.max(account.since)),
        information: None,
    };
    account.rest = all.rest;
    // A report is never taken back: what was lost after it goes off the next ones.
    account.reported = combine(account.reported, count, u64::max);
    account.carried = UrrCount {
        events: all.count.events - used.events,
        ..UrrCount::default()
    };
    account.next = report.next_sequence();
    account.since = now;
    report
}

/// A report of an event, without usage: its measurement continues.
fn report_without_measurement(
    account: &mut UrrAccount,
    urr: &Urr,
    triggers: UsageTriggers,
    now: Moment,
) -> UsageReport {
    if let Some(state) = account.state_mut() {
        state.reported_moment(triggers);
    }
    let sequence = account.next;
    account.next = sequence.wrapping_add(1);
    UsageReport {
        urr: urr.id,
        method: urr.method,
        sequence,
        triggers,
        count: UrrCount::default(),
        reports_packets: false,
        before_qos: None,
        start: now,
        end: now,
        duration: None,
        first: None,
        last: None,
        information: None,
    }
}
