//! The admission queue: requests for new sessions that wait while control is busy, and the load that follows from it.
//!
//! Requests for new sessions wait in the order of their arrival; all other messages are served as they come:
//! heartbeats, so that peers do not count this node as failed, deletions, which free resources, modifications of
//! sessions in use, and responses. The time that it takes to serve the queue is the backlog. It is measured, by the
//! time that turns of control take for each new session. The time in which the system took the thread's core away
//! ([`Turn::away`]) is no cost, and a turn that took many times longer than those before it counts in part only.
//!
//! The load that [`Endpoint::set_load`] gets is up to 80 the share of the time in which the thread has work. What is
//! above is overload: the backlog as a share of the longest wait of a request ([`AdmissionLimits::patience`]). It
//! counts once overload stands (`standing_overload.rs`): not while what waits came in an absence of the thread, or in a
//! burst. Each request is judged by the load at its arrival. A rejected one is responded to at once (cause 74), long
//! before its sender would retransmit it; an admitted one is not judged again. While there are several peers, the
//! requests of one peer count against it as if it had no more than its share of the patience, and those of others only
//! as far as it has as many.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use flow::Nanos;
use pfcp::{Frames, MessageType};

use crate::bundle::FOLLOW_ON;
use crate::endpoint::Endpoint;
use crate::load::{OVERLOAD, is_turned_away};
use crate::standing_overload::StandingOverload;

/// Limits of what waits.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLimits {
    /// The longest wait of a request for a new session, in time that the thread has its core; well below the T1 of
    /// peers. Default 100 ms.
    pub patience: Duration,
    /// Room for waiting datagrams. Default 16,384.
    pub max_waiting: usize,
    /// Octets that they may have. Default 32 MiB.
    pub max_octets: usize,
}

impl Default for AdmissionLimits {
    fn default() -> AdmissionLimits {
        AdmissionLimits {
            patience: Duration::from_millis(100),
            max_waiting: 16_384,
            max_octets: 32 << 20,
        }
    }
}

/// What a new session is taken to cost before any has been served.
const FIRST_COST: u64 = 20_000;
/// What one is taken to cost at most until a whole mean of them has been served. The first of a process says little: it
/// finds its memory cold, and the host busy with the start of its threads.
const MOST_AT_FIRST: u64 = 2_000_000;
/// New sessions over which their cost is a mean, about.
const COST_MEAN: u64 = 64;
/// A turn counts as no more than this multiple of what it should have taken by that mean. A core that is slower for
/// good is detected all the same, within some turns.
const MOST_OF_MEAN: u64 = 4;
/// What a turn takes longer than this by the thread's own clock was taken from it by a host that the system does not
/// see, as long as that is rare ([`BETWEEN_ABSENCES`]).
const LONGEST_TURN: Duration = Duration::from_millis(20);
/// Turns between two such absences at least. Where long turns follow closer upon each other, their requests take as
/// long.
const BETWEEN_ABSENCES: u32 = 16;
/// Over how long the share of time with work is taken.
const BUSY_WINDOW: Duration = Duration::from_millis(100);

/// A turn of control's thread.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// When it began.
    pub begin: Nanos,
    /// When it was over.
    pub end: Nanos,
    /// Whether there was anything to do.
    pub worked: bool,
    /// The requests served that had waited.
    pub served: usize,
    /// Time since the end of the turn before in which the thread had no core although it wanted it, as far as the
    /// system says.
    pub away: Duration,
}

/// A datagram with a request for a new session.
#[derive(Debug)]
struct Waiting {
    from: SocketAddr,
    to: SocketAddr,
    octets: Box<[u8]>,
    /// The load that it came upon.
    load: u8,
}

/// What waits of one address.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    requests: usize,
    octets: usize,
}

/// The datagrams before the endpoint.
#[derive(Debug)]
pub struct AdmissionQueue {
    limits: AdmissionLimits,
    waiting: VecDeque<Waiting>,
    octets: usize,
    /// What each address has of that; none is not entered.
    by_peer: BTreeMap<IpAddr, Own>,
    /// Nanoseconds for each new session.
    cost: u64,
    /// Over how many of them that is a mean, at most [`COST_MEAN`].
    costed: u64,
    busy: Busy,
    overload: StandingOverload,
    /// Turns since the last one that was longer than [`LONGEST_TURN`].
    since_long: u32,
    /// When the last turn was over.
    last_end: Option<Nanos>,
}

impl AdmissionQueue {
    /// Nothing waits.
    pub fn new(limits: AdmissionLimits) -> AdmissionQueue {
        AdmissionQueue {
            limits,
            waiting: VecDeque::new(),
            octets: 0,
            by_peer: BTreeMap::new(),
            cost: FIRST_COST,
            costed: 0,
            busy: Busy::default(),
            overload: StandingOverload::new(),
            since_long: BETWEEN_ABSENCES,
            last_end: None,
        }
    }

    /// A datagram has come from `from`, at our address `to`: it is served, or waits. One whose source is not accepted
    /// is not read ([`Config::peers`](crate::Config::peers), [`Config::unknown_rate`](crate::Config::unknown_rate)). Of
    /// several messages in it (TS 29.244 §6.5) each goes its own way, so that no request overtakes waiting ones by a
    /// bundle.
    pub fn offer(
        &mut self,
        now: Nanos,
        endpoint: &mut Endpoint,
        from: SocketAddr,
        to: SocketAddr,
        octets: &[u8],
    ) {
        if !endpoint.admits(now, from, octets) {
            return;
        }
        let Some(messages) = bundle(octets) else {
            return self.offer_one(now, endpoint, from, to, octets);
        };
        for message in messages {
            self.offer_one(now, endpoint, from, to, &message);
        }
    }

    fn offer_one(
        &mut self,
        now: Nanos,
        endpoint: &mut Endpoint,
        from: SocketAddr,
        to: SocketAddr,
        octets: &[u8],
    ) {
        let has_room = self.has_room(endpoint, from.ip(), octets.len());
        let load = match has_room {
            true => self.load_for(endpoint, from.ip()),
            false => 100,
        };
        match new_session(octets) {
            Some(priority) if has_room && self.may_wait(endpoint, from, load, priority) => {
                self.octets += octets.len();
                let own = self.by_peer.entry(from.ip()).or_default();
                own.requests += 1;
                own.octets += octets.len();
                self.waiting.push_back(Waiting {
                    from,
                    to,
                    octets: octets.into(),
                    load,
                });
            }
            _ => {
                endpoint.set_load(load);
                endpoint.handle_datagram(now, from, to, octets);
            }
        }
    }

    /// Whether a request is let in and can wait. One that is rejected, or from an unknown source, is responded to at
    /// once; so is one for which there is no room, which the load says then.
    fn may_wait(&self, endpoint: &Endpoint, from: SocketAddr, load: u8, priority: Option<u8>) -> bool {
        let is_peer = self.by_peer.contains_key(&from.ip()) || endpoint.knows(from.ip());
        is_peer && !is_turned_away(load, priority)
    }

    /// Whether there is room for a datagram of this peer: while there are several, each has its share and no more.
    fn has_room(&self, endpoint: &Endpoint, peer: IpAddr, octets: usize) -> bool {
        let has_own = endpoint.share_percent().is_none_or(|share| {
            let own = self.by_peer.get(&peer).copied().unwrap_or_default();
            let of = |most: usize| most.saturating_mul(share) / 100;
            own.requests < of(self.limits.max_waiting) && own.octets + octets <= of(self.limits.max_octets)
        });
        has_own
            && self.waiting.len() < self.limits.max_waiting
            && self.octets + octets <= self.limits.max_octets
    }

    /// Serves the request that has waited longest; false when none waits.
    pub fn serve(&mut self, now: Nanos, endpoint: &mut Endpoint) -> bool {
        let Some(one) = self.waiting.pop_front() else {
            return false;
        };
        self.octets -= one.octets.len();
        if let Some(own) = self.by_peer.get_mut(&one.from.ip()) {
            own.requests -= 1;
            own.octets -= one.octets.len();
            if own.requests == 0 {
                self.by_peer.remove(&one.from.ip());
            }
        }
        endpoint.set_load(one.load);
        endpoint.handle_datagram(now, one.from, one.to, &one.octets);
        true
    }

    /// A turn of control's is over.
    pub fn note_turn(&mut self, turn: &Turn) {
        let took = turn.end.since(turn.begin);
        let away = turn.away + self.unseen_absence(took.saturating_sub(turn.away));
        let passed = turn.end.since(self.last_end.unwrap_or(turn.begin));
        self.last_end = Some(turn.end);
        let (own, own_turn) = (passed.saturating_sub(away), took.saturating_sub(away));
        self.busy.add(own, own_turn, turn.worked);
        // A turn that was an absence for the most part says little of the cost.
        if turn.served > 0 && own_turn >= away {
            self.note_cost(own_turn.as_nanos() as u64, turn.served as u64);
        }
        self.overload.note(own, away, self.backlog());
    }

    /// What is taken for an absence, of a turn that took as long but for what the system says.
    fn unseen_absence(&mut self, took: Duration) -> Duration {
        let beyond = took.saturating_sub(LONGEST_TURN);
        if beyond.is_zero() {
            self.since_long = self.since_long.saturating_add(1);
            return Duration::ZERO;
        }
        let is_rare = std::mem::take(&mut self.since_long) >= BETWEEN_ABSENCES;
        if is_rare { beyond } else { Duration::ZERO }
    }

    fn note_cost(&mut self, took: u64, served: u64) {
        let most = match self.costed {
            COST_MEAN => self.cost.saturating_mul(MOST_OF_MEAN).max(1),
            _ => MOST_AT_FIRST,
        };
        let took = took.min(served.saturating_mul(most));
        self.cost = (self.cost * self.costed + took).div_ceil(self.costed + served);
        self.costed = (self.costed + served).min(COST_MEAN);
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How long the last one of them will wait, about, in time that the thread has its core.
    pub fn backlog(&self) -> Duration {
        self.backlog_of(self.waiting.len())
    }

    fn backlog_of(&self, waiting: usize) -> Duration {
        Duration::from_nanos(self.cost.saturating_mul(waiting as u64))
    }

    /// Whether more comes than control can serve, and not for a moment only.
    pub fn is_overloaded(&self) -> bool {
        self.overload.stands()
    }

    /// The load that a new request of any peer comes upon, 0 to 100 per cent.
    pub fn load(&self) -> u8 {
        self.load_of(self.waiting.len())
    }

    /// The load that a request of this peer comes upon.
    fn load_for(&mut self, endpoint: &Endpoint, peer: IpAddr) -> u8 {
        let all = self.waiting.len();
        if self.overload.beyond_absences(self.backlog()) > self.limits.patience {
            self.overload.begin();
        }
        let own = self.by_peer.get(&peer).map(|own| own.requests);
        let peers = self.by_peer.len() + usize::from(own.is_none());
        let own = own.unwrap_or_default();
        let counted = endpoint
            .share_percent()
            .map_or(own, |share| own.saturating_mul(100) / share.max(1));
        // Who has no more than others waits behind them, and is not refused for what they send.
        self.load_of(counted.max(all.min((own + 1) * peers)))
    }

    /// The load if this many wait.
    fn load_of(&self, waiting: usize) -> u8 {
        let backlog = self.overload.beyond_absences(self.backlog_of(waiting));
        let patience = self.limits.patience.as_nanos().max(1);
        let backlog = (backlog.as_nanos() * 100 / patience).min(u64::MAX.into()) as u64;
        let threshold = u64::from(OVERLOAD);
        let busy = u64::from(self.busy.percent) * threshold / 100;
        // Who waits, waits because the thread has no time, whatever it had a moment ago.
        let busy = busy.max(threshold.min(backlog * threshold / 10));
        let is_overload = self.overload.stands() || backlog > 100;
        let above = if is_overload { backlog.min(100) } else { 0 };
        (busy + above * (100 - threshold) / 100).min(100) as u8
    }
}

/// The messages of a datagram that has several, each as if it had come alone; if it has no new session, or if one of
/// them cannot be separated from the next, it is taken as it is.
fn bundle(octets: &[u8]) -> Option<Vec<Vec<u8>>> {
    if octets.first()? & FOLLOW_ON == 0 {
        return None;
    }
    let (mut messages, mut rest, mut begins) = (Vec::new(), octets, false);
    for frame in Frames::new(octets) {
        let header = frame.ok()?.header;
        begins |= header.message_type == MessageType::SESSION_ESTABLISHMENT_REQUEST;
        let length = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
        let (message, behind) = rest.split_at_checked(4 + length)?;
        let mut message = message.to_vec();
        *message.first_mut()? &= !FOLLOW_ON;
        messages.push(message);
        rest = behind;
    }
    begins.then_some(messages)
}

/// Whether a message is a request for a new session; then its message priority, if it has one.
fn new_session(octets: &[u8]) -> Option<Option<u8>> {
    let header = Frames::new(octets).next()?.ok()?.header;
    (header.message_type == MessageType::SESSION_ESTABLISHMENT_REQUEST).then_some(header.priority)
}

/// The share of the thread's own time in which there was something to do.
#[derive(Debug, Default)]
struct Busy {
    /// Of the last whole window.
    percent: u8,
    whole: Duration,
    busy: Duration,
}

impl Busy {
    /// Own time has passed, the last part of it in a turn.
    fn add(&mut self, own: Duration, turn: Duration, worked: bool) {
        self.whole += own.max(turn);
        if worked {
            self.busy += turn;
        }
        if self.whole >= BUSY_WINDOW {
            self.percent = (self.busy.as_nanos() * 100 / self.whole.as_nanos().max(1)).min(100) as u8;
            (self.whole, self.busy) = (Duration::ZERO, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: u64 = 1_000;

    fn waiting(count: usize) -> AdmissionQueue {
        let mut intake = AdmissionQueue::new(AdmissionLimits::default());
        let address = "192.0.2.1:8805".parse().unwrap();
        intake.waiting = (0..count)
            .map(|_| Waiting {
                from: address,
                to: address,
                octets: [0].into(),
                load: 0,
            })
            .collect();
        intake
    }

    fn turn(begin: Nanos, end: Nanos, worked: bool, served: usize) -> Turn {
        Turn {
            begin,
            end,
            worked,
            served,
            away: Duration::ZERO,
        }
    }

    #[test]
    fn the_load_is_the_share_of_time_with_work_up_to_the_threshold() {
        for (worked, load) in [(0, 0), (50, 40), (100, 80)] {
            let mut intake = waiting(0);
            for part in 0..100 {
                let begin = Nanos(part * 1_000 * MICROSECOND);
                let end = Nanos((part + 1) * 1_000 * MICROSECOND);
                intake.note_turn(&turn(begin, end, part < worked, 0));
            }
            assert_eq!(intake.load(), load, "{worked} per cent");
        }
    }

    #[test]
    fn above_it_is_the_backlog_of_the_patience_once_overload_stands() {
        // 20 us each before any was served: 5,000 are the whole patience.
        for (count, before, load) in [
            (0, 0, 0),
            (500, 80, 82),
            (2_500, 80, 90),
            (3_750, 80, 95),
            (5_000, 80, 100),
            (9_000, 100, 100),
        ] {
            let mut intake = waiting(count);
            assert_eq!(intake.load(), before, "{count} wait for a moment");
            intake.overload.begin();
            assert_eq!(intake.load(), load, "{count} wait");
        }
    }

    #[test]
    fn what_came_in_an_absence_is_no_load() {
        // 5,000 of 20 us each came in 200 ms.
        let away = Duration::from_millis(200);
        for told in [Duration::ZERO, away] {
            let mut intake = waiting(5_000);
            let end = Nanos::ZERO + Duration::from_micros(320) + away;
            intake.note_turn(&Turn {
                away: told,
                ..turn(Nanos::ZERO, end, true, 16)
            });
            assert_eq!(intake.cost, FIRST_COST, "an absence is no cost");
            assert_eq!(intake.load(), 0, "{told:?} of it told");
            assert!(!intake.is_overloaded());
        }
    }

    #[test]
    fn the_backlog_is_what_serving_takes_as_it_was_measured() {
        let mut intake = waiting(100);
        assert_eq!(intake.backlog(), Duration::from_millis(2));
        let mut now = Nanos::ZERO;
        for _ in 0..100 {
            let end = now + Duration::from_micros(1_600);
            intake.note_turn(&turn(now, end, true, 16));
            now = end;
        }
        let backlog = intake.backlog().as_micros();
        assert!((9_900..=10_000).contains(&backlog), "{backlog} us");
    }

    #[test]
    fn an_absence_in_a_turn_is_no_cost_and_a_slower_core_is() {
        let mut intake = waiting(500);
        let mut now = Nanos::ZERO;
        let mut pass = |intake: &mut AdmissionQueue, took, served| {
            let end = now + Duration::from_micros(took);
            intake.note_turn(&turn(now, end, true, served));
            now = end;
            intake.backlog().as_micros()
        };
        (0..100).for_each(|_| {
            pass(&mut intake, 320, 16);
        });
        // 20 ms away from the core, with one request and with sixteen.
        let backlog = pass(&mut intake, 20_020, 1);
        assert!((10_000..11_000).contains(&backlog), "{backlog} us");
        let backlog = pass(&mut intake, 20_320, 16);
        assert!((15_000..18_000).contains(&backlog), "{backlog} us");
        (0..20).for_each(|_| {
            pass(&mut intake, 320, 16);
        });
        let backlog = pass(&mut intake, 320, 16);
        assert!((9_900..11_000).contains(&backlog), "{backlog} us");
        // Ten times slower from now on.
        (0..10).for_each(|_| {
            pass(&mut intake, 3_200, 16);
        });
        let backlog = pass(&mut intake, 3_200, 16);
        assert!((80_000..=100_000).contains(&backlog), "{backlog} us");
    }

    #[test]
    fn a_slow_first_turn_refuses_nobody() {
        let mut intake = waiting(9);
        let end = Nanos::ZERO + LONGEST_TURN;
        intake.note_turn(&turn(Nanos::ZERO, end, true, 1));
        let backlog = intake.backlog();
        assert!(backlog < Duration::from_millis(20), "{backlog:?}");
        assert!(intake.load() <= OVERLOAD && !intake.is_overloaded());
    }

    #[test]
    fn long_turns_one_after_the_other_are_work() {
        // Sixteen requests of 6.25 ms each, every turn or every other, for 20 us each before.
        for every in [1, 2] {
            let mut intake = waiting(1_000);
            let mut now = Nanos::ZERO;
            for number in 0..400 {
                let is_long = number >= 100 && number % every == 0;
                let end = now + Duration::from_micros(if is_long { 100_000 } else { 320 });
                intake.note_turn(&turn(now, end, true, 16));
                now = end;
            }
            let backlog = intake.backlog();
            assert!(backlog > Duration::from_millis(200), "every {every}: {backlog:?}");
            assert_eq!(intake.load(), 100, "every {every}");
        }
    }

    #[test]
    fn only_requests_for_new_sessions_wait() {
        let message = |message_type, flags: u8| {
            let mut octets = vec![0x21 | flags, message_type, 0, 12];
            octets.extend([0; 8]);
            octets.extend([0, 0, 1, 0x30]);
            octets
        };
        assert_eq!(new_session(&message(50, 0)), Some(None));
        assert_eq!(new_session(&message(50, 2)), Some(Some(3)));
        for other in [51, 52, 54] {
            assert_eq!(new_session(&message(other, 0)), None);
        }
        assert_eq!(new_session(&[]), None);
    }

    #[test]
    fn a_bundle_comes_apart_if_a_session_begins_in_it() {
        let message = |message_type: u8, flags: u8, number: u8| {
            let mut octets = vec![0x21 | flags, message_type, 0, 12];
            octets.extend([0; 8]);
            octets.extend([0, 0, number, 0]);
            octets
        };
        let both = |first: u8, second: u8| [message(first, FOLLOW_ON, 1), message(second, 0, 2)].concat();
        let apart = |first, second| Some(vec![message(first, 0, 1), message(second, 0, 2)]);
        assert_eq!(bundle(&both(52, 50)), apart(52, 50));
        assert_eq!(bundle(&both(50, 54)), apart(50, 54));
        assert_eq!(bundle(&both(52, 54)), None, "nothing to wait for");
        assert_eq!(bundle(&message(50, 0, 1)), None);
        let cut = both(50, 50);
        assert_eq!(bundle(&cut[..cut.len() - 3]), None);
        assert_eq!(bundle(&[]), None);
    }
}
