//! How an account is kept: most say little, so that a word says which words there are.

use flow::{Bounds, CounterLimit, LimitAction, UrrCount, Volumes};
use rules::model::Volume;

use super::{ActiveRule, UrrAccount};
use crate::bounds::UrrBounds;
use crate::moment::{Moment, PacketMoments};
use crate::urr_state::{Activity, Exhausted, TrafficDetection, UrrState};
use crate::usage_report::UsageTriggers;

/// An account as it is kept: a word that says which of its words there are, and those. What is nothing takes no room:
/// an account with a volume threshold has 48 octets where the account itself has twelve times as many.
#[derive(Clone, Debug)]
pub(crate) struct Packed(Box<[u64]>);

/// Words of an account that says everything, and the one before them.
const MOST_WORDS: usize = 1 + 64;

/// The place of each word of an account. The words of one kind follow each other.
mod place {
    pub(super) const REPORTED: u32 = 0;
    pub(super) const CARRIED: u32 = REPORTED + 5;
    pub(super) const NEXT: u32 = CARRIED + 5;
    pub(super) const SINCE: u32 = NEXT + 1;
    pub(super) const TIMES: u32 = SINCE + 1;
    /// A word that says that there is a count, and the count.
    pub(super) const BEFORE_QOS: u32 = TIMES + 2;
    /// What an octet is, and what is left of each direction.
    pub(super) const UNIT: u32 = BEFORE_QOS + 6;
    /// The URR state: its small fields.
    pub(super) const STATE: u32 = UNIT + 3;
    pub(super) const THRESHOLD: u32 = STATE + 1;
    pub(super) const AGAIN: u32 = THRESHOLD + 3;
    pub(super) const QUOTA: u32 = AGAIN + 3;
    /// Threshold, again, quota.
    pub(super) const EVENTS: u32 = QUOTA + 3;
    /// Threshold, again, quota; measured, running, period, validity, monitoring, rate.
    pub(super) const CLOCK: u32 = EVENTS + 3;
    pub(super) const HOLDING: u32 = CLOCK + 9;
    pub(super) const ACTIVE: u32 = HOLDING + 3;
    pub(super) const TRAFFIC: u32 = ACTIVE + 3;
    /// Packets and octets.
    pub(super) const SEEN: u32 = TRAFFIC + 3;
    pub(super) const WATERMARKS: u32 = SEEN + 2;
    pub(super) const LIMIT: u32 = WATERMARKS + 3;
    /// Watermark and limit of the counter of events, of which only the sum is one.
    pub(super) const EVENTS_REPORTED: u32 = LIMIT + 3;
    pub(super) const END: u32 = EVENTS_REPORTED + 2;
}

const _: () = assert!(place::END <= u64::BITS && (place::END as usize) < MOST_WORDS);

/// The bits of `count` places from `first` on.
const fn places(first: u32, count: u32) -> u64 {
    ((1 << count) - 1) << first
}

impl Packed {
    pub(crate) fn new(account: &UrrAccount) -> Packed {
        Packed(Writer::of(account).words().into())
    }

    /// Whether the URR does anything by itself.
    pub(crate) fn acts(&self) -> bool {
        self.0
            .first()
            .is_some_and(|there| there & places(place::STATE, 1) != 0)
    }

    /// Whether time may make anything due. A URR of volumes alone waits for packets.
    pub(crate) fn has_times(&self) -> bool {
        let (there, words) = self.0.split_first().unwrap_or((&0, &[]));
        let before = there & places(0, place::STATE);
        let state = words.get(before.count_ones() as usize).filter(|_| self.acts());
        let pends = state.is_some_and(|small| small >> PENDING != 0);
        pends || there & (TIMES_OF_STATE | places(place::TRAFFIC, 3)) != 0
    }

    pub(crate) fn account(&self) -> UrrAccount {
        let (there, words) = self.0.split_first().unwrap_or((&0, &[]));
        Reader { there: *there, words }.account()
    }

    /// The same room, if it is enough and not more than that.
    pub(crate) fn set(&mut self, account: &UrrAccount) {
        let writer = Writer::of(account);
        let words = writer.words();
        if words.len() == self.0.len() {
            self.0.copy_from_slice(words);
        } else {
            self.0 = words.into();
        }
    }
}

/// Words in the order of their places.
struct Writer {
    words: [u64; MOST_WORDS],
    len: usize,
}

impl Writer {
    fn of(account: &UrrAccount) -> Writer {
        let mut writer = Writer {
            words: [0; MOST_WORDS],
            len: 1,
        };
        writer.count(place::REPORTED, account.reported);
        writer.count(place::CARRIED, account.carried);
        writer.number(place::NEXT, account.next.into());
        writer.number(place::SINCE, account.since.0 as u64);
        if let Some(times) = account.times {
            writer.put(place::TIMES, times.first.0 as u64);
            writer.put(place::TIMES + 1, times.last.0 as u64);
        }
        if let Some(count) = account.before_qos {
            writer.put(place::BEFORE_QOS, 0);
            writer.count(place::BEFORE_QOS + 1, count);
        }
        writer.number(place::UNIT, account.unit);
        writer.number(place::UNIT + 1, account.rest[0]);
        writer.number(place::UNIT + 2, account.rest[1]);
        if let Some(acting) = &account.acting {
            writer.acting(acting);
        }
        writer
    }

    fn words(&self) -> &[u64] {
        self.words.get(..self.len).unwrap_or_default()
    }

    fn put(&mut self, place: u32, word: u64) {
        self.words[0] |= 1 << place;
        if let Some(free) = self.words.get_mut(self.len) {
            *free = word;
            self.len += 1;
        }
    }

    fn option(&mut self, place: u32, word: Option<u64>) {
        if let Some(word) = word {
            self.put(place, word);
        }
    }

    /// Not if it is 0.
    fn number(&mut self, place: u32, word: u64) {
        if word != 0 {
            self.put(place, word);
        }
    }

    fn count(&mut self, place: u32, count: UrrCount) {
        if count == UrrCount::default() {
            return;
        }
        let UrrCount {
            ul_packets,
            ul_octets,
            dl_packets,
            dl_octets,
            events,
        } = count;
        let words = [ul_packets, ul_octets, dl_packets, dl_octets, events];
        for (place, word) in (place..).zip(words) {
            self.number(place, word);
        }
    }

    fn three(&mut self, place: u32, words: [Option<u64>; 3]) {
        for (place, word) in (place..).zip(words) {
            self.option(place, word);
        }
    }

    fn activity(&mut self, place: u32, activity: Option<Activity>) {
        if let Some(Activity { at, packets, checked }) = activity {
            self.three(place, [Some(at.0 as u64), Some(packets), Some(checked.0 as u64)]);
        }
    }

    fn acting(&mut self, ActiveRule { state, sent_bounds }: &ActiveRule) {
        let (limit, event_limit) =
            sent_bounds.map_or((None, None), |sent| (sent.volume.limit, sent.events.limit));
        self.put(
            place::STATE,
            small(state, sent_bounds.is_some(), limit, event_limit),
        );
        self.state(state);
        if let Some(sent) = sent_bounds {
            self.three(place::WATERMARKS, of_volumes(sent.volume.watermarks));
        }
        if let Some(limit) = limit {
            self.three(place::LIMIT, of_volumes(limit.octets));
        }
        self.option(
            place::EVENTS_REPORTED,
            sent_bounds.and_then(|sent| sent.events.watermarks.total),
        );
        self.option(
            place::EVENTS_REPORTED + 1,
            event_limit.and_then(|limit| limit.octets.total),
        );
    }

    fn state(&mut self, state: &UrrState) {
        let UrrState {
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
            period,
            validity,
            holding,
            active,
            monitoring,
            traffic,
            packets,
            seen,
            started: _,
            exhausted: _,
            is_idle: _,
            pending: _,
        } = state;
        self.three(place::THRESHOLD, of_volume(volume_threshold));
        self.three(place::AGAIN, of_volume(volume_again));
        self.three(place::QUOTA, of_volume(volume_quota));
        self.three(place::EVENTS, [*event_threshold, *event_again, *event_quota]);
        let nanos = |nanos: Option<i64>| nanos.map(|nanos| nanos as u64);
        let moment = |at: Option<Moment>| at.map(|at| at.0 as u64);
        let clock = [
            nanos(*time_threshold),
            nanos(*time_again),
            nanos(*time_quota),
            nanos(Some(*measured).filter(|measured| *measured != 0)),
            moment(*running),
            moment(*period),
            moment(*validity),
            moment(*monitoring),
            Some(*rate).filter(|rate| *rate != 0),
        ];
        for (place, word) in (place::CLOCK..).zip(clock) {
            self.option(place, word);
        }
        self.activity(place::HOLDING, *holding);
        self.activity(place::ACTIVE, *active);
        self.activity(place::TRAFFIC, split(*traffic).1);
        self.number(place::SEEN, *packets);
        self.number(place::SEEN + 1, *seen);
    }
}

/// Words in the order of their places.
struct Reader<'a> {
    there: u64,
    words: &'a [u64],
}

impl Reader<'_> {
    /// Fills in what there is: most of an account is not.
    fn account(mut self) -> UrrAccount {
        let mut account = UrrAccount {
            unit: 0,
            rest: [0; 2],
            reported: self.count(place::REPORTED),
            carried: self.count(place::CARRIED),
            next: self.number(place::NEXT) as u32,
            since: Moment(self.number(place::SINCE) as i64),
            times: self
                .moment(place::TIMES)
                .zip(self.moment(place::TIMES + 1))
                .map(|(first, last)| PacketMoments { first, last }),
            before_qos: None,
            acting: None,
        };
        if self.take(place::BEFORE_QOS).is_some() {
            account.before_qos = Some(self.count(place::BEFORE_QOS + 1));
        }
        if self.there & places(place::UNIT, 3) != 0 {
            account.unit = self.number(place::UNIT);
            account.rest = [self.number(place::UNIT + 1), self.number(place::UNIT + 2)];
        }
        if let Some(small) = self.take(place::STATE) {
            self.fill(account.acting.insert(ActiveRule::default()), small);
        }
        account
    }

    fn take(&mut self, place: u32) -> Option<u64> {
        if self.there & (1 << place) == 0 {
            return None;
        }
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*word)
    }

    fn number(&mut self, place: u32) -> u64 {
        self.take(place).unwrap_or(0)
    }

    fn moment(&mut self, place: u32) -> Option<Moment> {
        self.take(place).map(|at| Moment(at as i64))
    }

    fn count(&mut self, place: u32) -> UrrCount {
        if self.there & places(place, 5) == 0 {
            return UrrCount::default();
        }
        UrrCount {
            ul_packets: self.number(place),
            ul_octets: self.number(place + 1),
            dl_packets: self.number(place + 2),
            dl_octets: self.number(place + 3),
            events: self.number(place + 4),
        }
    }

    fn three(&mut self, place: u32) -> [Option<u64>; 3] {
        if self.there & places(place, 3) == 0 {
            return [None; 3];
        }
        [self.take(place), self.take(place + 1), self.take(place + 2)]
    }

    fn activity(&mut self, place: u32) -> Option<Activity> {
        let [at, packets, checked] = self.three(place);
        Some(Activity {
            at: Moment(at? as i64),
            packets: packets?,
            checked: Moment(checked? as i64),
        })
    }

    fn fill(&mut self, ActiveRule { state, sent_bounds }: &mut ActiveRule, small: u64) {
        state.started = small & STARTED != 0;
        state.is_idle = small & IDLE != 0;
        state.exhausted = Exhausted((small >> EXHAUSTED) as u8);
        state.pending = UsageTriggers((small >> PENDING) as u32);
        self.volume(place::THRESHOLD, &mut state.volume_threshold);
        self.volume(place::AGAIN, &mut state.volume_again);
        self.volume(place::QUOTA, &mut state.volume_quota);
        [state.event_threshold, state.event_again, state.event_quota] = self.three(place::EVENTS);
        if self.there & TIMES_OF_STATE != 0 {
            self.clock(state);
        }
        state.traffic = joined((small >> TRAFFIC) as u8, self.activity(place::TRAFFIC));
        (state.packets, state.seen) = (self.number(place::SEEN), self.number(place::SEEN + 1));
        if small & SENT != 0 {
            let watermarks = to_volumes(self.three(place::WATERMARKS));
            let octets = self.three(place::LIMIT);
            let limit = action((small >> ACTION) as u8).map(|action| CounterLimit {
                octets: to_volumes(octets),
                action,
            });
            let [watermark, stop] =
                [place::EVENTS_REPORTED, place::EVENTS_REPORTED + 1].map(|place| self.take(place));
            let event_limit = action((small >> EVENT_ACTION) as u8).map(|action| CounterLimit {
                octets: of_total(stop),
                action,
            });
            let events = Bounds {
                watermarks: of_total(watermark),
                limit: event_limit,
            };
            let volume = Bounds { watermarks, limit };
            *sent_bounds = Some(UrrBounds { volume, events });
        }
    }

    fn volume(&mut self, place: u32, volume: &mut Volume) {
        if self.there & places(place, 3) != 0 {
            *volume = to_volume(self.three(place));
        }
    }

    fn clock(&mut self, state: &mut UrrState) {
        let mut nanos = |kind| self.take(place::CLOCK + kind).map(|nanos| nanos as i64);
        state.time_threshold = nanos(0);
        state.time_again = nanos(1);
        state.time_quota = nanos(2);
        state.measured = nanos(3).unwrap_or(0);
        state.running = nanos(4).map(Moment);
        state.period = nanos(5).map(Moment);
        state.validity = nanos(6).map(Moment);
        state.monitoring = nanos(7).map(Moment);
        state.rate = nanos(8).unwrap_or(0) as u64;
        state.holding = self.activity(place::HOLDING);
        state.active = self.activity(place::ACTIVE);
    }
}

/// The words of a state that say when something is, or how long; but for traffic's.
const TIMES_OF_STATE: u64 = places(place::CLOCK, place::TRAFFIC - place::CLOCK);

/// In the word of a state: bits, and the first bits of what has several.
const STARTED: u64 = 1;
const IDLE: u64 = 1 << 1;
const SENT: u64 = 1 << 2;
const ACTION: u32 = 8;
const EVENT_ACTION: u32 = 12;
const EXHAUSTED: u32 = 16;
const TRAFFIC: u32 = 24;
const PENDING: u32 = 32;

/// What of a state, and of the bounds that its counter was sent, takes a few bits.
fn small(
    state: &UrrState,
    are_bounds_sent: bool,
    limit: Option<CounterLimit>,
    event_limit: Option<CounterLimit>,
) -> u64 {
    let [action, event_action] =
        [limit, event_limit].map(|limit| limit.map_or(0, |limit| number_of(limit.action)));
    let flags = [
        (state.started, STARTED),
        (state.is_idle, IDLE),
        (are_bounds_sent, SENT),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    flags.fold(0, |all, (_, flag)| all | flag)
        | u64::from(action) << ACTION
        | u64::from(event_action) << EVENT_ACTION
        | u64::from(state.exhausted.0) << EXHAUSTED
        | u64::from(split(state.traffic).0) << TRAFFIC
        | u64::from(state.pending.0) << PENDING
}

/// A number from 1 on, of 4 bits.
fn number_of(action: LimitAction) -> u8 {
    match action {
        LimitAction::Event => 1,
        LimitAction::Drop => 2,
        LimitAction::Trap => 3,
    }
}

fn action(number: u8) -> Option<LimitAction> {
    [LimitAction::Event, LimitAction::Drop, LimitAction::Trap]
        .into_iter()
        .find(|action| number_of(*action) == number & 0xf)
}

fn split(traffic: TrafficDetection) -> (u8, Option<Activity>) {
    match traffic {
        TrafficDetection::Off => (0, None),
        TrafficDetection::Awaited => (1, None),
        TrafficDetection::Ongoing(activity) => (2, Some(activity)),
        TrafficDetection::Voided(activity) => (3, Some(activity)),
        TrafficDetection::Resumed(activity) => (4, Some(activity)),
    }
}

fn joined(kind: u8, activity: Option<Activity>) -> TrafficDetection {
    match (kind, activity) {
        (2, Some(activity)) => TrafficDetection::Ongoing(activity),
        (3, Some(activity)) => TrafficDetection::Voided(activity),
        (4, Some(activity)) => TrafficDetection::Resumed(activity),
        (1, _) => TrafficDetection::Awaited,
        _ => TrafficDetection::Off,
    }
}

fn of_volume(volume: &Volume) -> [Option<u64>; 3] {
    [volume.total, volume.uplink, volume.downlink]
}

fn to_volume([total, uplink, downlink]: [Option<u64>; 3]) -> Volume {
    Volume {
        total,
        uplink,
        downlink,
    }
}

fn of_volumes(volumes: Volumes) -> [Option<u64>; 3] {
    [volumes.total, volumes.uplink, volumes.downlink]
}

/// As bounds of events are: of both directions together.
fn of_total(total: Option<u64>) -> Volumes {
    Volumes {
        total,
        ..Volumes::NONE
    }
}

fn to_volumes([total, uplink, downlink]: [Option<u64>; 3]) -> Volumes {
    Volumes {
        total,
        uplink,
        downlink,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;
    use proptest::prelude::*;
    use rules::model::{ReportingTriggers, Urr, UrrId, UrrTerms};

    /// Words that are there or not: nothing, the least, the greatest, anything.
    fn words() -> impl Strategy<Value = Vec<(bool, u64)>> {
        let word = prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()];
        prop::collection::vec((any::<bool>(), word), 100)
    }

    /// Makes something of words.
    struct Source<'a>(std::slice::Iter<'a, (bool, u64)>);

    impl Source<'_> {
        fn option(&mut self) -> Option<u64> {
            self.0
                .next()
                .filter(|(is_there, _)| *is_there)
                .map(|(_, word)| *word)
        }

        fn is_there(&mut self) -> bool {
            self.option().is_some()
        }

        fn number(&mut self) -> u64 {
            self.option().unwrap_or_default()
        }

        fn nanos(&mut self) -> Option<i64> {
            self.option().map(|nanos| nanos as i64)
        }

        fn at(&mut self) -> Option<Moment> {
            self.nanos().map(Moment)
        }

        fn moment(&mut self) -> Moment {
            self.at().unwrap_or_default()
        }

        fn count(&mut self) -> UrrCount {
            UrrCount {
                ul_packets: self.number(),
                ul_octets: self.number(),
                dl_packets: self.number(),
                dl_octets: self.number(),
                events: self.number(),
            }
        }

        fn three(&mut self) -> [Option<u64>; 3] {
            [self.option(), self.option(), self.option()]
        }

        fn activity(&mut self) -> Activity {
            Activity {
                at: self.moment(),
                packets: self.number(),
                checked: self.moment(),
            }
        }

        fn optional_activity(&mut self) -> Option<Activity> {
            let activity = self.activity();
            self.is_there().then_some(activity)
        }

        fn bounds(&mut self) -> Bounds {
            let watermarks = to_volumes(self.three());
            let octets = to_volumes(self.three());
            let limit = action((self.number() % 4) as u8).map(|action| CounterLimit { octets, action });
            Bounds { watermarks, limit }
        }

        fn event_bounds(&mut self) -> Bounds {
            let (watermark, stop) = (self.option(), self.option());
            let limit = action((self.number() % 4) as u8).map(|action| CounterLimit {
                octets: of_total(stop),
                action,
            });
            let watermarks = of_total(watermark);
            Bounds { watermarks, limit }
        }

        fn state(&mut self) -> UrrState {
            UrrState {
                volume_threshold: to_volume(self.three()),
                volume_again: to_volume(self.three()),
                volume_quota: to_volume(self.three()),
                time_threshold: self.nanos(),
                time_again: self.nanos(),
                time_quota: self.nanos(),
                event_threshold: self.option(),
                event_again: self.option(),
                event_quota: self.option(),
                measured: self.nanos().unwrap_or_default(),
                rate: self.number(),
                running: self.at(),
                started: self.is_there(),
                exhausted: Exhausted(self.number() as u8),
                period: self.at(),
                validity: self.at(),
                holding: self.optional_activity(),
                active: self.optional_activity(),
                is_idle: self.is_there(),
                monitoring: self.at(),
                traffic: joined((self.number() % 5) as u8, Some(self.activity())),
                packets: self.number(),
                seen: self.number(),
                pending: UsageTriggers(self.number() as u32),
            }
        }

        fn account(&mut self) -> UrrAccount {
            UrrAccount {
                unit: self.number(),
                rest: [self.number(), self.number()],
                reported: self.count(),
                carried: self.count(),
                next: self.number() as u32,
                since: self.moment(),
                times: self.at().map(|first| PacketMoments {
                    first,
                    last: self.moment(),
                }),
                before_qos: self.is_there().then(|| self.count()),
                acting: self.is_there().then(|| ActiveRule {
                    state: self.state(),
                    sent_bounds: self.is_there().then(|| UrrBounds {
                        volume: self.bounds(),
                        events: self.event_bounds(),
                    }),
                }),
            }
        }
    }

    /// A URR that reports all that time makes due.
    fn asking() -> Urr {
        let terms = UrrTerms {
            quota_holding_time: Some(1),
            inactivity_detection_time: Some(1),
            ..UrrTerms::default()
        };
        Urr {
            triggers: ReportingTriggers(u32::MAX),
            terms: Some(Box::new(terms)),
            ..Urr::volume(UrrId(1))
        }
    }

    proptest! {
        #[test]
        fn an_account_comes_back_as_it_was_kept(one in words(), other in words()) {
            let [one, other] = [one, other].map(|words| Source(words.iter()).account());
            let mut packed = Packed::new(&one);
            prop_assert_eq!(&packed.account(), &one);
            prop_assert_eq!(packed.acts(), one.acting.is_some());
            let deadline = one.acting.as_ref().and_then(|acting| {
                acting.state.deadline(&asking(), Setting::default())
            });
            prop_assert!(packed.has_times() || deadline.is_none());
            packed.set(&other);
            prop_assert_eq!(&packed.account(), &other);
        }
    }

    #[test]
    fn the_usual_account_is_small() {
        let threshold = Volume {
            total: Some(1 << 40),
            ..Volume::default()
        };
        let bounds = Bounds {
            watermarks: to_volumes(of_volume(&threshold)),
            limit: None,
        };
        let state = UrrState {
            volume_threshold: threshold,
            volume_again: threshold,
            ..UrrState::default()
        };
        let account = UrrAccount {
            since: Moment(1),
            acting: Some(ActiveRule {
                state,
                sent_bounds: Some(UrrBounds {
                    volume: bounds,
                    events: Bounds::NONE,
                }),
            }),
            ..UrrAccount::default()
        };
        let packed = Packed::new(&account);
        assert_eq!(size_of_val(&*packed.0), 48);
        assert!(packed.acts() && !packed.has_times());
        assert!(size_of::<UrrAccount>() > 12 * 48);
        assert_eq!(size_of_val(&*Packed::new(&UrrAccount::default()).0), 8);
    }
}
