//! Packet rates (TS 29.244 §5.4.15, §8.2.63) and what is left of them (§8.2.139), in and out.

use flow::meter::{PacketRate, PacketState, PacketsPer, TimeUnit, Window};
use flow::{Direction, Nanos};
use pfcp::group::{CreateQer, PacketRateStatusReport, PacketRateStatusReportSessionModification};
use pfcp::ie::{self, Cause, PacketsPerUnit, QerControlIndications};
use pfcp::{IeType, Repeated};
use rules::image::PacketsLeft;
use rules::model::{PacketRates, QerId};
use session::{PacketRateStatus, WallClock};

use super::Context;
use crate::cause::Reject;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub(super) fn rates(sent: ie::PacketRate) -> PacketRates {
    let per = |sent: PacketsPerUnit| PacketsPer {
        packets: sent.packets,
        unit: TimeUnit::from_value(sent.time_unit),
    };
    let rate = |(base, additional): (PacketsPerUnit, Option<PacketsPerUnit>)| PacketRate {
        base: per(base),
        additional: additional.map(per),
    };
    PacketRates {
        ul: sent.uplink.map(rate),
        dl: sent.downlink.map(rate),
    }
}

/// Whether the status is to be reported when the session is released.
pub(super) fn reports(sent: QerControlIndications) -> bool {
    sent.contains(QerControlIndications::RCSR)
}

/// What is left of the packet rates of new QERs. What was valid until a time that is over says nothing any more.
pub(super) fn left<'a>(
    created: &Repeated<'a, CreateQer<'a>>,
    context: Context<'_>,
) -> Result<Vec<PacketsLeft>, Reject> {
    let mut all = Vec::new();
    for qer in created.iter() {
        let Some(status) = qer.packet_rate_status else {
            continue;
        };
        let id = QerId(qer.qer_id.0);
        if qer.packet_rate.is_none() {
            let reject = Reject::rule(id).because(Cause::CONDITIONAL_IE_MISSING);
            return Err(reject.offends(IeType::PACKET_RATE));
        }
        let ends = status
            .valid_until
            .map_or(Nanos::ZERO, |until| on_clock(until, context.wall));
        if ends > context.clock {
            let of = |numbers| state(numbers, ends);
            all.push(PacketsLeft {
                qer: id,
                states: [status.uplink, status.downlink].map(of),
            });
        }
    }
    Ok(all)
}

fn state(numbers: Option<(u16, Option<u16>)>, ends: Nanos) -> PacketState {
    let window = |left| Window { left, ends };
    numbers.map_or(PacketState::default(), |(base, additional)| PacketState {
        base: window(base),
        additional: window(additional.unwrap_or(0)),
    })
}

/// A Rate Control Status Validity Time on our clock, in whole nanoseconds.
fn on_clock(until: u64, wall: &WallClock) -> Nanos {
    let [seconds, fraction] = [until >> 32, until & 0xffff_ffff];
    let unix = ie::MonitoringTime(seconds as u32).unix();
    let nanos = (fraction * NANOS_PER_SECOND) >> 32;
    let date = unix.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos);
    wall.moment(date).on_clock()
}

/// The same as a date of ours, rounded up to the 2^-32 of a second.
fn validity(until: Nanos, wall: &WallClock) -> u64 {
    let date = wall.unix_nanos(until.into());
    let seconds = (date / NANOS_PER_SECOND).wrapping_add(ie::UNIX_EPOCH_IN_1900) & 0xffff_ffff;
    let fraction = ((date % NANOS_PER_SECOND) << 32).div_ceil(NANOS_PER_SECOND);
    (seconds << 32) + fraction
}

/// What is left, as an IE. The additional numbers stand beside both directions or none: where one has no
/// additional rate it is 0.
fn status_ie(status: &PacketRateStatus, wall: &WallClock) -> ie::PacketRateStatus {
    let has_more = |left: &Option<(u16, Option<u16>)>| left.is_some_and(|(_, more)| more.is_some());
    let additional = status.left.iter().any(has_more);
    let of = |direction: Direction| {
        let left = status.left[direction as usize];
        left.map(|(base, more)| (base, additional.then_some(more.unwrap_or(0))))
    };
    let [uplink, downlink] = Direction::BOTH.map(of);
    ie::PacketRateStatus {
        uplink,
        downlink,
        additional,
        valid_until: (uplink.is_some() || downlink.is_some()).then(|| validity(status.until, wall)),
    }
}

/// For a Session Modification Response (TS 29.244 Table 7.5.5.4-1).
pub(crate) fn modified_status(
    status: &PacketRateStatus,
    clock: &WallClock,
) -> PacketRateStatusReportSessionModification<'static> {
    PacketRateStatusReportSessionModification::new(ie::QerId(status.qer.0), status_ie(status, clock))
}

/// For a Session Deletion Response (TS 29.244 Table 7.5.7.1-2).
pub(crate) fn last_status(status: &PacketRateStatus, clock: &WallClock) -> PacketRateStatusReport<'static> {
    PacketRateStatusReport::new(ie::QerId(status.qer.0), status_ie(status, clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_comes_back_to_the_nanosecond() {
        let clock = &WallClock::starting(1_700_000_000);
        for nanos in [0, 1, 999_999_999, 1_000_000_000, 86_400_000_000_123] {
            assert_eq!(
                on_clock(validity(Nanos(nanos), clock), clock),
                Nanos(nanos),
                "{nanos}"
            );
        }
        assert_eq!(
            validity(Nanos(500_000_000), &WallClock::starting(0)),
            ie::UNIX_EPOCH_IN_1900 << 32 | 1 << 31
        );
    }

    #[test]
    fn additional_numbers_stand_in_both_directions_or_in_none() {
        let wall = WallClock::starting(0);
        let status = |left| PacketRateStatus {
            qer: QerId(1),
            left,
            until: Nanos::ZERO,
        };
        let told = status_ie(&status([Some((3, Some(2))), Some((4, None))]), &wall);
        assert_eq!(
            (told.uplink, told.downlink),
            (Some((3, Some(2))), Some((4, Some(0))))
        );
        let told = status_ie(&status([None, Some((4, None))]), &wall);
        assert_eq!(
            (told.uplink, told.downlink, told.additional),
            (None, Some((4, None)), false)
        );
        assert_eq!(status_ie(&status([None; 2]), &wall).valid_until, None);
    }
}
