//! Paths to GTP-U peers whose MTU is less than that of our links, as routers on the way report (RFC 1191, RFC 8201).
//!
//! Any host can send such a message, so little is believed: of a tunnel that a session sends into, on the path that it
//! takes; never less than the operator says that paths have, never more than is known; of a bounded number of paths,
//! for a bounded time. Workers are notified of what is believed, and again when it expires.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::Nanos;
use packet::too_big::TooBig;
use session::{GtpuPath, Sessions};
use worker::{Command, MOST_PATH_MTUS};

use super::workers::Workers;

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
struct Learnt {
    mtu: u16,
    until: Nanos,
}

/// The MTU of a path to a GTP-U peer, as a router on the path said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// The path.
    pub path: GtpuPath,
    /// The longest outer packet, octets.
    pub mtu: u16,
    /// How long it is valid yet.
    pub left: Duration,
}

/// What was learnt of paths.
#[derive(Debug)]
pub struct PathMtus {
    /// How long it is believed; zero: nothing is.
    age: Duration,
    /// The least that is believed: less is taken for as much.
    least: u16,
    known: BTreeMap<GtpuPath, Learnt>,
    due: BTreeSet<(Nanos, GtpuPath)>,
    /// The time of the last poll.
    now: Nanos,
}

impl PathMtus {
    pub(super) const fn new(age: Duration, least: u16) -> Self {
        Self {
            age,
            least,
            known: BTreeMap::new(),
            due: BTreeSet::new(),
            now: Nanos::ZERO,
        }
    }

    /// What is reported from now on is valid for this long, and no less than this.
    pub(super) const fn set_bounds(&mut self, age: Duration, least: u16) {
        (self.age, self.least) = (age, least);
    }

    /// Notes that a path has this MTU; gives what is believed, if that changes: a larger one changes nothing, and the
    /// same one does not last longer for being reported again, so that a larger one is tried in the end (RFC 1191
    /// §6.3).
    fn learn(&mut self, now: Nanos, path: GtpuPath, mtu: u16) -> Option<u16> {
        let mtu = mtu.max(self.least);
        let before = self.known.get(&path).copied();
        let is_less = before.is_none_or(|before| mtu < before.mtu);
        let has_room = before.is_some() || self.known.len() < MOST_PATH_MTUS;
        if self.age.is_zero() || !is_less || !has_room {
            return None;
        }
        if let Some(before) = before {
            self.due.remove(&(before.until, path));
        }
        let until = now + self.age;
        self.known.insert(path, Learnt { mtu, until });
        self.due.insert((until, path));
        Some(mtu)
    }

    /// A path of which nothing is known any more: its time is over.
    fn expire(&mut self, now: Nanos) -> Option<GtpuPath> {
        self.now = now;
        let (_, path) = self.due.first().copied().filter(|(until, _)| *until <= now)?;
        self.due.pop_first();
        self.known.remove(&path);
        Some(path)
    }

    /// The paths of which an MTU is known, in the order of their addresses.
    pub fn known(&self) -> impl Iterator<Item = PathMtu> {
        self.known.iter().map(|(path, learnt)| PathMtu {
            path: *path,
            mtu: learnt.mtu,
            left: learnt.until.since(self.now),
        })
    }

    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.due.first().map(|(until, _)| *until)
    }

    /// A router says that a packet was too long for its path. It is believed of a tunnel that a session sends into, on
    /// the path that the session takes.
    pub(super) fn handle_too_big(
        &mut self,
        now: Nanos,
        said: &TooBig,
        sessions: &Sessions,
        workers: &mut Workers,
    ) {
        let &TooBig {
            local,
            peer,
            teid,
            mtu,
        } = said;
        let path = GtpuPath { local, peer };
        let is_credible = sessions.uses_path(&path) && sessions.session_by_remote(peer, teid).is_some();
        if is_credible && let Some(mtu) = self.learn(now, path, mtu) {
            let mtu = Some(mtu);
            workers.send_all(|| Command::PathMtu { local, peer, mtu });
        }
    }

    /// Forgets what has expired. Whether there was anything.
    pub(super) fn poll(&mut self, now: Nanos, workers: &mut Workers) -> bool {
        let mut busy = false;
        while let Some(GtpuPath { local, peer }) = self.expire(now) {
            workers.send_all(|| Command::PathMtu {
                local,
                peer,
                mtu: None,
            });
            busy = true;
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(600);

    fn path(number: u32) -> GtpuPath {
        GtpuPath {
            local: [10, 0, 3, 1].into(),
            peer: (0x0a00_0000 + number).to_be_bytes().into(),
        }
    }

    #[test]
    fn only_less_is_news_and_all_of_it_ends() {
        let mut mtus = PathMtus::new(AGE, 576);
        let now = Nanos::from_secs(1);
        assert_eq!(mtus.learn(now, path(1), 1400), Some(1400));
        let later = now + Duration::from_secs(100);
        assert_eq!(
            [1400, 1450].map(|mtu| mtus.learn(later, path(1), mtu)),
            [None, None]
        );
        assert_eq!(mtus.poll_timeout(), Some(now + AGE));
        assert_eq!(mtus.learn(later, path(1), 1300), Some(1300));
        assert_eq!(
            (mtus.poll_timeout(), mtus.expire(now + AGE)),
            (Some(later + AGE), None)
        );
        assert_eq!(mtus.expire(later + AGE), Some(path(1)));
        assert_eq!((mtus.expire(later + AGE), mtus.poll_timeout()), (None, None));
        assert_eq!(PathMtus::new(Duration::ZERO, 576).learn(now, path(1), 1400), None);
    }

    #[test]
    fn no_path_is_narrower_than_the_operator_says() {
        let mut mtus = PathMtus::new(AGE, 1280);
        let now = Nanos::from_secs(1);
        assert_eq!(mtus.learn(now, path(1), 576), Some(1280));
        assert_eq!(mtus.learn(now, path(1), 600), None);
        assert_eq!(mtus.learn(now, path(2), 1400), Some(1400));
    }

    #[test]
    fn a_late_peer_displaces_no_other() {
        let mut mtus = PathMtus::new(AGE, 576);
        let now = Nanos::from_secs(1);
        let most = MOST_PATH_MTUS as u32;
        assert!((0..most).all(|number| mtus.learn(now, path(number), 1400).is_some()));
        assert_eq!(mtus.learn(now, path(most), 1300), None);
        assert!(
            mtus.learn(now, path(0), 1300).is_some(),
            "what is known may become less"
        );
        assert_eq!(
            (mtus.known.len(), mtus.due.len()),
            (MOST_PATH_MTUS, MOST_PATH_MTUS)
        );
    }
}
