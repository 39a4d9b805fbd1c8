//! Rates of slices and data networks, for watermarks: means of the last seconds, from what workers have forwarded.

use std::collections::VecDeque;
use std::time::Duration;

use config::{Watermark, WatermarkCounter, WatermarkDirection};
use flow::{Nanos, SessionGroupId, SessionGroupTotal};

/// What a rate is the mean of.
const WINDOW: Duration = Duration::from_secs(10);

/// What was forwarded of each session group, now and some looks ago.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// The oldest first: one that is as old as the window, and those since.
    looks: VecDeque<(Nanos, Box<[SessionGroupTotal]>)>,
}

impl Rates {
    /// Notes what each worker has forwarded of each group, at each look.
    pub(super) fn note(&mut self, now: Nanos, workers: &[Vec<SessionGroupTotal>]) {
        let mut sums: Box<[_]> = [SessionGroupTotal::default(); SessionGroupId::NUMBERS].into();
        for worker in workers {
            for (sum, one) in sums.iter_mut().zip(worker) {
                for way in [0, 1] {
                    sum.packets[way] += one.packets[way];
                    sum.octets[way] += one.octets[way];
                }
            }
        }
        self.looks.push_back((now, sums));
        while let Some((second, _)) = self.looks.get(1)
            && now.since(*second) >= WINDOW
        {
            self.looks.pop_front();
        }
    }

    /// The mean rate of what a watermark measures, of these groups, in the watermark's unit; 0 until there have been
    /// looks for as long as that is the mean of.
    pub(super) fn of(&self, mark: &Watermark, groups: &[SessionGroupId]) -> u64 {
        let (Some((from, first)), Some((to, last))) = (self.looks.front(), self.looks.back()) else {
            return 0;
        };
        let elapsed = to.since(*from);
        if elapsed < WINDOW {
            return 0;
        }
        let measured = |totals: &[SessionGroupTotal]| -> u64 {
            let own = groups.iter().filter_map(|group| totals.get(group.index()));
            own.map(|total| measured(mark, total)).sum()
        };
        let more = measured(last).saturating_sub(measured(first));
        // Bits a second are a thousand of what a kilobit is.
        let in_units = match mark.of {
            WatermarkCounter::Throughput => u128::from(more) * 8 * 1_000_000,
            _ => u128::from(more) * 1_000_000_000,
        };
        u64::try_from(in_units / elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

fn measured(mark: &Watermark, total: &SessionGroupTotal) -> u64 {
    let [uplink, downlink] = match mark.of {
        WatermarkCounter::Throughput => total.octets,
        _ => total.packets,
    };
    match mark.direction {
        None => uplink.saturating_add(downlink),
        Some(WatermarkDirection::Uplink) => uplink,
        Some(WatermarkDirection::Downlink) => downlink,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_mean_of_ten_seconds_of_all_workers() {
        let mark = |of, direction| Watermark {
            of,
            at: 1,
            slice: None,
            dnn: None,
            direction,
        };
        let groups = [1, 2].map(|number| SessionGroupId::new(number).unwrap());
        let total = |octets: u64| SessionGroupTotal {
            packets: [octets / 100, octets / 1_000],
            octets: [octets, 10 * octets],
        };
        let mut rates = Rates::default();
        let throughput = mark(WatermarkCounter::Throughput, None);
        // 1,000 octets a second of each group in each of two workers, and ten times as much of downlink.
        for second in 0..=10 {
            assert_eq!(rates.of(&throughput, &groups), 0, "after {second} s");
            let worker = vec![total(7 * second), total(1_000 * second), total(1_000 * second)];
            rates.note(Nanos::from_secs(second), &[worker.clone(), worker, Vec::new()]);
        }
        assert_eq!(rates.of(&throughput, &groups), 352, "kbit/s");
        assert_eq!(rates.of(&throughput, &groups[..1]), 176);
        let uplink = Some(WatermarkDirection::Uplink);
        assert_eq!(rates.of(&mark(WatermarkCounter::Throughput, uplink), &groups), 32);
        assert_eq!(rates.of(&mark(WatermarkCounter::PacketRate, uplink), &groups), 40);
        let downlink = Some(WatermarkDirection::Downlink);
        assert_eq!(
            rates.of(&mark(WatermarkCounter::PacketRate, downlink), &groups),
            4
        );
        // Then nothing: the mean falls, and looks that are late change nothing of it.
        let last = vec![total(70), total(10_000), total(10_000)];
        for second in [13, 15, 19] {
            rates.note(Nanos::from_secs(second), &[last.clone(), last.clone()]);
        }
        assert_eq!(rates.of(&throughput, &groups), 35, "a second of the last ten");
        rates.note(Nanos::from_secs(30), &[last.clone(), last]);
        assert_eq!(rates.of(&throughput, &groups), 0);
        assert!(rates.looks.len() <= 3);
    }
}
