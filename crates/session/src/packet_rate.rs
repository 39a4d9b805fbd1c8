//! The Packet Rate Status that control planes receive (TS 29.244 §5.4.15.2, §8.2.139).

use flow::meter::{PacketRate, PacketState, Window};
use flow::{Direction, Nanos};
use rules::image::PacketsLeft;
use rules::model::{QerId, SessionRules};

/// Packets that may pass yet: of the rate, and of the additional rate where there is one.
pub type PacketsAllowed = (u16, Option<u16>);

/// What is left of a QER's packet rates at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRateStatus {
    /// The QER.
    pub qer: QerId,
    /// What may pass, by [`Direction`]; `None` where there is no limit.
    pub left: [Option<PacketsAllowed>; 2],
    /// Until when no more may. Of several units of time it is the end of the last: a node that continues with these
    /// numbers until then never lets more pass than the rates. Now, if none is.
    pub until: Nanos,
}

/// The status at `now` of those packet rates of `rules` that are `wanted`, of what a worker says is left of all.
pub(crate) fn statuses(
    now: Nanos,
    rules: &SessionRules,
    left: &[PacketsLeft],
    wanted: impl Fn(QerId) -> bool,
) -> Vec<PacketRateStatus> {
    let rated = rules.packet_rated().filter(|(qer, _)| wanted(*qer));
    rated
        .map(|(qer, rates)| {
            let state = left.iter().find(|left| left.qer == qer);
            let state = state.map(|left| left.states).unwrap_or_default();
            let mut status = PacketRateStatus {
                qer,
                left: [None; 2],
                until: now,
            };
            for direction in Direction::BOTH {
                if let Some(rate) = rates.of(direction) {
                    status.add(now, direction, rate, state[direction as usize]);
                }
            }
            status
        })
        .collect()
}

impl PacketRateStatus {
    fn add(&mut self, now: Nanos, direction: Direction, rate: PacketRate, state: PacketState) {
        let mut left = |most: u16, window: Window| {
            if window.ends <= now {
                return most;
            }
            self.until = self.until.max(window.ends);
            window.left
        };
        let base = left(rate.base.packets, state.base);
        let additional = rate
            .additional
            .map(|additional| left(additional.packets, state.additional));
        self.left[direction as usize] = Some((base, additional));
    }
}

#[cfg(test)]
mod tests {
    use flow::meter::{PacketsPer, TimeUnit};
    use rules::model::{OptionalRates, PacketRates, Qer};

    use super::*;

    #[test]
    fn a_unit_that_is_over_has_everything_left_and_the_last_end_counts() {
        let per = |packets, unit| PacketsPer { packets, unit };
        let rate = PacketRate {
            base: per(10, TimeUnit::Minute),
            additional: Some(per(3, TimeUnit::Hour)),
        };
        let mut rules = SessionRules::new();
        rules
            .create_qer(Qer {
                optional: OptionalRates {
                    packet_rates: Some(PacketRates {
                        ul: Some(rate),
                        dl: None,
                    }),
                    ..OptionalRates::default()
                }
                .into(),
                ..Qer::new(QerId(4))
            })
            .unwrap();
        rules.create_qer(Qer::new(QerId(5))).unwrap();
        let window = |left, ends| Window {
            left,
            ends: Nanos(ends),
        };
        let state = PacketState {
            base: window(2, 50),
            additional: window(1, 70),
        };
        let left = [PacketsLeft {
            qer: QerId(4),
            states: [state, PacketState::default()],
        }];
        let at = |now| statuses(Nanos(now), &rules, &left, |_| true);
        let status = |packets, until| PacketRateStatus {
            qer: QerId(4),
            left: [Some(packets), None],
            until: Nanos(until),
        };
        assert_eq!(at(49), [status((2, Some(1)), 70)]);
        assert_eq!(at(50), [status((10, Some(1)), 70)]);
        assert_eq!(at(70), [status((10, Some(3)), 70)]);
        assert_eq!(at(99), [status((10, Some(3)), 99)]);
        assert_eq!(statuses(Nanos(1), &rules, &left, |_| false), []);
    }
}
