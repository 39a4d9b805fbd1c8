//! Our own requests: numbered, kept until they are answered, sent again by T1 and N1 (TS 29.244 §6.4).

use flow::Nanos;
use session::{AssociationId, Keyed, Seid, keyed};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::datagram::Transmit;

/// The release of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseId {
    pub(crate) association: AssociationId,
    /// Distinguishes it from an earlier release of an association with the same peer.
    pub(crate) number: u64,
}

/// What a request of ours was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Heartbeat(AssociationId),
    NodeReport(AssociationId),
    /// Of an association with the configured peer of this place.
    Setup(usize),
    /// A report about this session.
    Report(Seid),
    /// The last report about a session of an association that is being released.
    LastReport {
        release: ReleaseId,
        /// The number of its usage ([`UsageRecordOwners::keep`](crate::usage_record_owners::UsageRecordOwners::keep)).
        usage: u64,
    },
    /// Of an association that ends so.
    Update(ReleaseId),
    /// Usage of a session that its control plane has ended, and that did not fit into the response: what is kept
    /// under this number.
    Remainder(u64),
}

#[derive(Debug)]
struct Outstanding {
    transmit: Transmit,
    message_type: u8,
    purpose: Purpose,
    retries_left: u32,
    serial: u64,
}

/// A peer's address and a sequence number.
type Key = (SocketAddr, u32);

/// Requests without an answer.
#[derive(Debug)]
pub(crate) struct OwnRequests {
    outstanding: Keyed<Key, Outstanding>,
    /// T1 is the same for all, so that this is in order. An entry with an old serial is over.
    timers: VecDeque<(Nanos, Key, u64)>,
    t1: Duration,
    n1: u32,
    last_sequence: u32,
    serials: u64,
}

/// What is due by T1.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Requests to retransmit.
    pub(crate) retransmissions: Vec<Transmit>,
    /// Requests without a response after their last retransmission.
    pub(crate) failed: Vec<Purpose>,
}

const SEQUENCE_MASK: u32 = 0x00ff_ffff;

impl OwnRequests {
    /// The first number is 24 bits of `start`: a random one keeps a restart clear of answers that peers have cached.
    pub(crate) fn new(seed: u64, t1: Duration, n1: u32, start: u32) -> OwnRequests {
        OwnRequests {
            outstanding: keyed(seed),
            timers: VecDeque::new(),
            t1,
            n1,
            last_sequence: start & SEQUENCE_MASK,
            serials: 0,
        }
    }

    /// T1 and N1 are these from now on. What waits longer than T1 waits as long.
    pub(crate) fn set_times(&mut self, now: Nanos, t1: Duration, n1: u32) {
        (self.t1, self.n1) = (t1, n1);
        self.timers
            .iter_mut()
            .for_each(|(at, ..)| *at = (*at).min(now + t1));
    }

    /// A number that no outstanding request to `peer` has.
    pub(crate) fn next_sequence(&mut self, peer: SocketAddr) -> u32 {
        self.last_sequence = self.free_from(peer, self.last_sequence + 1);
        self.last_sequence
    }

    /// The first number from `wanted` on that no outstanding request to `peer` has.
    pub(crate) fn free_from(&self, peer: SocketAddr, wanted: u32) -> u32 {
        let mut numbers = (0..=SEQUENCE_MASK).map(|step| wanted.wrapping_add(step) & SEQUENCE_MASK);
        let free = numbers.find(|number| !self.outstanding.contains_key(&(peer, *number)));
        free.unwrap_or(wanted & SEQUENCE_MASK)
    }

    /// Keeps a request that is being sent now, under a number of [`next_sequence`](Self::next_sequence) or
    /// [`free_from`](Self::free_from).
    pub(crate) fn sent(
        &mut self,
        now: Nanos,
        sequence: u32,
        message_type: u8,
        purpose: Purpose,
        transmit: Transmit,
    ) {
        let key = (transmit.to, sequence);
        self.serials += 1;
        self.timers.push_back((now + self.t1, key, self.serials));
        let serial = self.serials;
        let retries_left = self.n1;
        self.outstanding.insert(
            key,
            Outstanding {
                transmit,
                message_type,
                purpose,
                retries_left,
                serial,
            },
        );
    }

    /// What the request was for that a response with this number may answer.
    pub(crate) fn purpose(&self, peer: SocketAddr, sequence: u32) -> Option<Purpose> {
        self.outstanding
            .get(&(peer, sequence))
            .map(|request| request.purpose)
    }

    /// The octets of a request that is outstanding.
    pub(crate) fn octets(&self, peer: SocketAddr, sequence: u32) -> Option<&[u8]> {
        let request = self.outstanding.get(&(peer, sequence))?;
        Some(&request.transmit.bytes)
    }

    /// Ends the request that this response answers. `None`: no such request is outstanding.
    pub(crate) fn answered(&mut self, peer: SocketAddr, sequence: u32, response_type: u8) -> Option<Purpose> {
        let key = (peer, sequence);
        let matches = |request: &Outstanding| request.message_type.checked_add(1) == Some(response_type);
        self.outstanding.get(&key).filter(|request| matches(request))?;
        self.outstanding.remove(&key).map(|request| request.purpose)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.timers.front().map(|(at, ..)| *at)
    }

    /// The retransmissions and the failures of this moment.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) -> Due {
        let mut due = Due::default();
        while let Some((_, key, serial)) = self.timers.front().copied().filter(|(at, ..)| *at <= now) {
            self.timers.pop_front();
            let Some(request) = self
                .outstanding
                .get_mut(&key)
                .filter(|request| request.serial == serial)
            else {
                continue;
            };
            match request.retries_left.checked_sub(1) {
                Some(left) => {
                    request.retries_left = left;
                    due.retransmissions.push(request.transmit.clone());
                    self.timers.push_back((now + self.t1, key, serial));
                }
                None => {
                    let request = self.outstanding.remove(&key);
                    due.failed.extend(request.map(|request| request.purpose));
                }
            }
        }
        due
    }

    /// How many wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.outstanding.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T1: Duration = Duration::from_secs(1);
    const BEAT: Purpose = Purpose::Heartbeat(AssociationId(1));

    fn peer() -> SocketAddr {
        "192.0.2.1:8805".parse().unwrap()
    }

    fn transmit() -> Transmit {
        Transmit {
            from: "192.0.2.9:8805".parse().unwrap(),
            to: peer(),
            bytes: vec![1, 2, 3].into(),
        }
    }

    #[test]
    fn a_request_is_sent_again_n1_times_the_same_and_then_fails() {
        let mut requests = OwnRequests::new(1, T1, 2, 0);
        let sequence = requests.next_sequence(peer());
        requests.sent(Nanos::ZERO, sequence, 1, BEAT, transmit());
        for second in 1..=2 {
            assert_eq!(requests.poll_timeout(), Some(Nanos::from_secs(second)));
            assert_eq!(
                requests.handle_timeout(Nanos::from_secs(second)),
                Due {
                    retransmissions: vec![transmit()],
                    failed: vec![]
                }
            );
        }
        let failed = Due {
            retransmissions: vec![],
            failed: vec![BEAT],
        };
        assert_eq!(requests.handle_timeout(Nanos::from_secs(3)), failed);
        assert_eq!((requests.len(), requests.poll_timeout()), (0, None));
    }

    #[test]
    fn only_the_right_response_ends_a_request_and_only_once() {
        let mut requests = OwnRequests::new(1, T1, 2, 0);
        let sequence = requests.next_sequence(peer());
        requests.sent(Nanos::ZERO, sequence, 1, BEAT, transmit());
        assert_eq!(requests.answered(peer(), sequence, 57), None, "of another type");
        assert_eq!(
            requests.answered(peer(), sequence + 1, 2),
            None,
            "of another number"
        );
        assert_eq!(
            requests.answered("192.0.2.2:8805".parse().unwrap(), sequence, 2),
            None,
            "of another peer"
        );
        assert_eq!(requests.answered(peer(), sequence, 2), Some(BEAT));
        assert_eq!(requests.answered(peer(), sequence, 2), None, "a duplicate");
        assert_eq!(requests.handle_timeout(Nanos::from_secs(9)), Due::default());
    }

    #[test]
    fn numbers_have_24_bits_and_outstanding_ones_are_skipped() {
        let mut requests = OwnRequests::new(1, T1, 2, 0x00ff_fffe);
        let first = requests.next_sequence(peer());
        requests.sent(Nanos::ZERO, first, 1, BEAT, transmit());
        assert_eq!((first, requests.next_sequence(peer())), (0x00ff_ffff, 0));
        requests.last_sequence = 0x00ff_fffe;
        assert_eq!(requests.next_sequence(peer()), 0, "0xffffff is outstanding");
        assert_eq!(requests.next_sequence("192.0.2.2:8805".parse().unwrap()), 1);
    }
}
