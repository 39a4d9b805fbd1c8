//! Results of the packets of each flow in one direction: lost, duplicated, reordered, damaged, delayed.
//!
//! 72 octets per flow: counters, the next expected sequence number and a bitmap of the 128
//! before it. Reordering is counted as in RFC 4737 §3.3: a packet is reordered when a later one of its flow
//! arrived before it. What arrives more than 128 behind cannot be distinguished from a duplicate: it counts as stale.
//!
//! A tracker belongs to one thread. Trackers of several threads are merged when they are done; a flow that
//! arrived at two trackers then keeps its counts, but duplicates across them were not seen.

use hdrhistogram::Histogram;

/// How far behind the newest packet of its flow a packet may be, packets.
pub const WINDOW: u64 = 128;

/// Longest latency that is distinguished, ns; longer ones count as this.
pub const LONGEST: u64 = 60_000_000_000;

/// Counts of one flow or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived whole and where they belong, each sequence number once.
    pub received: u64,
    /// Packets received after a later packet of the flow.
    pub reordered: u64,
    /// Copies of packets that had been received.
    pub duplicated: u64,
    /// Packets too old to know whether they are duplicates. They are not in `received`.
    pub stale: u64,
    /// Packets that were damaged, or whose headers were not changed as they should.
    pub corrupted: u64,
    /// Whole packets in another tunnel, with another QFI, or for another address than they should.
    pub misdirected: u64,
}

impl Counts {
    /// Packets sent that did not arrive whole and where they belong. Packets on their way count as lost: ask
    /// when there are none.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    fn add(&mut self, other: &Counts) {
        self.sent += other.sent;
        self.received += other.received;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.stale += other.stale;
        self.corrupted += other.corrupted;
        self.misdirected += other.misdirected;
    }
}

/// Result of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Later than all before it.
    New,
    /// A gap was filled.
    Reordered,
    /// The packet had arrived before.
    Duplicate,
    /// More than [`WINDOW`] behind.
    Stale,
    /// The flow's number is out of range: nothing was counted but a foreign packet.
    Unknown,
}

/// One-way delays, in nanoseconds, exact to 1 %. All zero when nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latency {
    /// How many packets were measured.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// Half of them took at most this long.
    pub p50: u64,
    /// 99 % took at most this long.
    pub p99: u64,
    /// 99.9 % took at most this long.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    /// Percentiles of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        Latency {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// A histogram of nanoseconds up to [`LONGEST`], exact to 1 %.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 2).expect("1 <= longest / 2 and two digits are in range")
}

/// The receiver's state of one flow: one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Track {
    /// Bit n: sequence number `next - 1 - n` arrived.
    window: u128,
    /// One more than the highest sequence number that arrived.
    next: u64,
    received: u64,
    reordered: u64,
    duplicated: u64,
    stale: u64,
    corrupted: u32,
    misdirected: u32,
}

const _: () = assert!(size_of::<Track>() == 64);

impl Track {
    #[inline]
    fn arrive(&mut self, sequence: u64) -> Arrival {
        if sequence >= self.next {
            let ahead = sequence - self.next;
            // Two steps, because a shift by 128 is not defined.
            self.window = if ahead >= WINDOW { 0 } else { self.window << ahead };
            self.window = self.window << 1 | 1;
            self.next = sequence.saturating_add(1);
            self.received += 1;
            return Arrival::New;
        }
        self.arrive_behind(self.next - 1 - sequence)
    }

    #[cold]
    fn arrive_behind(&mut self, behind: u64) -> Arrival {
        if behind >= WINDOW {
            self.stale += 1;
            return Arrival::Stale;
        }
        if self.window >> behind & 1 == 1 {
            self.duplicated += 1;
            return Arrival::Duplicate;
        }
        self.window |= 1 << behind;
        self.received += 1;
        self.reordered += 1;
        Arrival::Reordered
    }

    fn counts(&self, sent: u64) -> Counts {
        Counts {
            sent,
            received: self.received,
            reordered: self.reordered,
            duplicated: self.duplicated,
            stale: self.stale,
            corrupted: u64::from(self.corrupted),
            misdirected: u64::from(self.misdirected),
        }
    }

    fn merge(&mut self, other: &Track) {
        if other.next > self.next {
            (self.window, self.next) = (other.window, other.next);
        }
        self.received += other.received;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.stale += other.stale;
        self.corrupted = self.corrupted.saturating_add(other.corrupted);
        self.misdirected = self.misdirected.saturating_add(other.misdirected);
    }
}

/// Sums over all flows of one direction, and their delays: small enough to be copied for a live view.
#[derive(Debug, Clone)]
pub struct Meter {
    /// Counts of all flows, and of damaged packets that belong to none.
    pub counts: Counts,
    /// Octets of the inner IP packets that were sent.
    pub sent_octets: u64,
    /// Octets of the inner IP packets that are in [`Counts::received`].
    pub received_octets: u64,
    /// Packets that no flow of ours can have sent.
    pub foreign: u64,
    latency: Histogram<u64>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            counts: Counts::default(),
            sent_octets: 0,
            received_octets: 0,
            foreign: 0,
            latency: histogram(),
        }
    }
}

impl Meter {
    /// Delays of the packets received since the start or [`Tracker::forget_latency`].
    pub fn latency(&self) -> Latency {
        Latency::of(&self.latency)
    }

    /// Adds the counts of another meter of the same direction.
    pub fn merge(&mut self, other: &Meter) {
        self.counts.add(&other.counts);
        self.sent_octets += other.sent_octets;
        self.received_octets += other.received_octets;
        self.foreign += other.foreign;
        self.latency
            .add(&other.latency)
            .expect("histograms of the same bounds add up");
    }
}

/// Sender's and receiver's view of all flows in one direction.
#[derive(Debug, Clone)]
pub struct Tracker {
    sent: Vec<u64>,
    tracks: Vec<Track>,
    meter: Meter,
}

impl Tracker {
    /// For flows 0 to `flows - 1`.
    pub fn new(flows: u32) -> Tracker {
        Tracker {
            sent: vec![0; flows as usize],
            tracks: vec![Track::default(); flows as usize],
            meter: Meter::default(),
        }
    }

    /// The sequence number of the next packet of `flow`; 0 for a flow out of range.
    #[inline]
    pub fn next_sequence(&self, flow: u32) -> u64 {
        self.sent.get(flow as usize).copied().unwrap_or(0)
    }

    /// Asks for the line that sending a packet of `flow` writes.
    #[inline]
    pub(crate) fn prefetch(&self, flow: u32) {
        if let Some(sent) = self.sent.get(flow as usize) {
            flow::prefetch::write(sent);
        }
    }

    /// The next packet of `flow` is on its way, with `octets` of inner IP packet.
    #[inline]
    pub fn sent(&mut self, flow: u32, octets: u32) {
        if let Some(sent) = self.sent.get_mut(flow as usize) {
            *sent += 1;
            self.meter.counts.sent += 1;
            self.meter.sent_octets += u64::from(octets);
        }
    }

    /// A whole packet arrived where it belongs, `octets` of inner IP packet, `latency` ns after it
    /// was sent.
    #[inline]
    pub fn received(&mut self, flow: u32, sequence: u64, octets: u32, latency: u64) -> Arrival {
        let Some(track) = self.tracks.get_mut(flow as usize) else {
            self.meter.foreign += 1;
            return Arrival::Unknown;
        };
        let arrival = track.arrive(sequence);
        match arrival {
            Arrival::New => self.meter.counts.received += 1,
            Arrival::Reordered => {
                self.meter.counts.received += 1;
                self.meter.counts.reordered += 1;
            }
            Arrival::Duplicate => self.meter.counts.duplicated += 1,
            Arrival::Stale | Arrival::Unknown => self.meter.counts.stale += 1,
        }
        if matches!(arrival, Arrival::New | Arrival::Reordered) {
            self.meter.received_octets += u64::from(octets);
            self.meter.latency.saturating_record(latency.min(LONGEST));
        }
        arrival
    }

    /// A damaged packet arrived; of which flow, if that is known.
    pub fn corrupted(&mut self, flow: Option<u32>) {
        self.meter.counts.corrupted += 1;
        if let Some(track) = flow.and_then(|flow| self.tracks.get_mut(flow as usize)) {
            track.corrupted = track.corrupted.saturating_add(1);
        }
    }

    /// A whole packet of `flow` arrived in the wrong tunnel, with the wrong QFI or for the wrong address.
    pub fn misdirected(&mut self, flow: u32) {
        self.meter.counts.misdirected += 1;
        if let Some(track) = self.tracks.get_mut(flow as usize) {
            track.misdirected = track.misdirected.saturating_add(1);
        }
    }

    /// A packet arrived that no flow of ours can have sent.
    pub fn foreign(&mut self) {
        self.meter.foreign += 1;
    }

    /// How many flows are tracked.
    pub fn flows(&self) -> u32 {
        self.tracks.len() as u32
    }

    /// The counts of one flow; `None` out of range.
    pub fn flow(&self, flow: u32) -> Option<Counts> {
        let at = flow as usize;
        Some(self.tracks.get(at)?.counts(*self.sent.get(at)?))
    }

    /// The sums over all flows.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Starts measuring delays anew: after a warm-up, or for each interval of a live view.
    pub fn forget_latency(&mut self) {
        self.meter.latency.reset();
    }

    /// Adds the counts of another thread's tracker. This tracker then has the flows of both.
    pub fn merge(&mut self, other: &Tracker) {
        if other.tracks.len() > self.tracks.len() {
            self.tracks.resize(other.tracks.len(), Track::default());
            self.sent.resize(other.sent.len(), 0);
        }
        self.tracks
            .iter_mut()
            .zip(&other.tracks)
            .for_each(|(track, other)| track.merge(other));
        self.sent
            .iter_mut()
            .zip(&other.sent)
            .for_each(|(sent, other)| *sent += other);
        self.meter.merge(&other.meter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Keeps every sequence number that arrived.
    #[derive(Default)]
    struct Naive {
        seen: HashSet<u64>,
        counts: Counts,
    }

    impl Naive {
        fn arrive(&mut self, sequence: u64) {
            let newest = self.seen.iter().max().copied();
            let behind = newest.map_or(0, |newest| newest.saturating_sub(sequence));
            if behind >= WINDOW {
                self.counts.stale += 1;
            } else if !self.seen.insert(sequence) {
                self.counts.duplicated += 1;
            } else {
                self.counts.received += 1;
                self.counts.reordered += u64::from(newest.is_some_and(|newest| newest > sequence));
            }
        }
    }

    #[test]
    fn loss_duplication_and_reordering() {
        let mut tracker = Tracker::new(2);
        (0..10).for_each(|_| tracker.sent(1, 100));
        assert_eq!(tracker.next_sequence(1), 10);
        let arrivals = [0, 1, 4, 3, 3, 9].map(|sequence| tracker.received(1, sequence, 100, 1000));
        use Arrival::{Duplicate, New, Reordered};
        assert_eq!(arrivals, [New, New, New, Reordered, Duplicate, New]);
        let counts = tracker.flow(1).unwrap();
        assert_eq!(
            (
                counts.received,
                counts.lost(),
                counts.reordered,
                counts.duplicated
            ),
            (5, 5, 1, 1)
        );
        assert_eq!(tracker.meter().counts, counts);
        assert_eq!(
            (tracker.meter().sent_octets, tracker.meter().received_octets),
            (1000, 500)
        );
        assert_eq!(tracker.flow(0), Some(Counts::default()));
    }

    #[test]
    fn flows_out_of_range_are_foreign() {
        let mut tracker = Tracker::new(1);
        assert_eq!(tracker.received(1, 0, 1, 1), Arrival::Unknown);
        tracker.sent(1, 1);
        tracker.misdirected(1);
        tracker.corrupted(Some(1));
        assert_eq!((tracker.meter().foreign, tracker.meter().counts.sent), (1, 0));
        assert_eq!(
            (
                tracker.meter().counts.misdirected,
                tracker.meter().counts.corrupted
            ),
            (1, 1)
        );
        assert_eq!(tracker.flow(1), None);
    }

    #[test]
    fn percentiles_are_exact_to_one_percent() {
        let mut tracker = Tracker::new(1);
        (0..1000).for_each(|n| {
            tracker.received(0, n, 1, (n + 1) * 1000);
        });
        let latency = tracker.meter().latency();
        let near = |found: u64, exact: u64| found.abs_diff(exact) * 100 <= exact;
        assert!(near(latency.p50, 500_000) && near(latency.p99, 990_000) && near(latency.p999, 999_000));
        assert_eq!(latency.count, 1000);
        tracker.received(0, 1000, 1, u64::MAX);
        assert!(near(tracker.meter().latency().max, LONGEST));
        tracker.forget_latency();
        assert_eq!(tracker.meter().latency(), Latency::default());
    }

    proptest! {
        #[test]
        fn agrees_with_a_model_that_keeps_everything(
            base in prop_oneof![Just(0u64), 0..1u64 << 60],
            steps in prop::collection::vec(prop_oneof![0..10u64, 0..300u64, 0..2000u64], 1..400),
        ) {
            let (mut tracker, mut naive) = (Tracker::new(1), Naive::default());
            for (at, step) in steps.iter().enumerate() {
                let sequence = base + at as u64 + step;
                tracker.received(0, sequence, 1, 1);
                naive.arrive(sequence);
            }
            prop_assert_eq!(tracker.flow(0), Some(naive.counts));
            prop_assert_eq!(tracker.meter().counts, naive.counts);
        }

        #[test]
        fn merging_adds_up(one in prop::collection::vec((0..4u32, 0..50u64), 0..100), two in prop::collection::vec((4..9u32, 0..50u64), 0..100)) {
            let mut whole = Tracker::new(9);
            let (mut left, mut right) = (Tracker::new(4), Tracker::new(9));
            for &(flow, sequence) in &one {
                left.received(flow, sequence, 10, 5);
                left.sent(flow, 10);
            }
            for &(flow, sequence) in &two {
                right.received(flow, sequence, 10, 7);
                right.sent(flow, 10);
            }
            for &(flow, sequence) in one.iter().chain(&two) {
                whole.received(flow, sequence, 10, 6);
                whole.sent(flow, 10);
            }
            left.merge(&right);
            prop_assert_eq!(left.meter().counts, whole.meter().counts);
            prop_assert_eq!(left.meter().received_octets, whole.meter().received_octets);
            prop_assert_eq!(left.meter().latency().count, whole.meter().latency().count);
            for flow in 0..9 {
                prop_assert_eq!(left.flow(flow), whole.flow(flow));
            }
        }
    }
}
