//! Packets of sessions on their way between this node and an accelerator: they wait until the session has arrived.
//!
//! Each session has a queue, in order: what went to the accelerator and came back has come in before all that did not.
//! Sessions, packets, their octets and their time are bounded. Packets of a session
//! that has arrived come back as a burst, before packets that arrive later.

use std::collections::HashMap;
use std::time::Duration;

use flow::{Nanos, SessionIndex};
use packet::PacketBuf;

use crate::burst::batch::Batch;
use crate::deferred::packet_store::{PacketList, PacketStore};

/// The longest that a packet waits. Contact with an accelerator that does not answer ends sooner.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Sessions with packets that wait.
const SESSIONS: usize = 1024;
/// Packets that wait: of one session, and of all; and their octets.
const PACKETS_PER_SESSION: u16 = 512;
const PACKETS: usize = 4096;
const OCTETS: usize = 8 << 20;

/// The packets of a session.
struct Queue {
    /// Those that were given to the accelerator and came back.
    again: PacketList,
    first: PacketList,
    /// When they have waited for too long.
    until: Nanos,
}

/// All that wait.
pub(crate) struct AwaySessions<B> {
    queues: HashMap<SessionIndex, Queue>,
    held: PacketStore<B, ()>,
    ready: PacketList,
    expired: PacketList,
}

impl<B: PacketBuf> AwaySessions<B> {
    /// Nothing waits; nothing ever does where there is no accelerator.
    pub fn new(has_accelerator: bool) -> Self {
        let (sessions, packets) = if has_accelerator {
            (SESSIONS, PACKETS)
        } else {
            (0, 0)
        };
        Self {
            queues: HashMap::with_capacity(sessions),
            held: PacketStore::new(packets),
            ready: PacketList::EMPTY,
            expired: PacketList::EMPTY,
        }
    }

    /// Keeps a packet of a session, `is_again` one that came back from the accelerator.
    ///
    /// # Errors
    /// The packet, when there is no room for it.
    pub fn store(&mut self, session: SessionIndex, packet: B, is_again: bool, now: Nanos) -> Result<(), B> {
        if self.held.octets() + packet.len() > OCTETS {
            return Err(packet);
        }
        let is_full = self.queues.len() >= SESSIONS;
        let queue = match self.queues.get_mut(&session) {
            Some(queue) => queue,
            None if is_full => return Err(packet),
            None => self.queues.entry(session).or_insert(Queue {
                again: PacketList::EMPTY,
                first: PacketList::EMPTY,
                until: now + TIMEOUT,
            }),
        };
        if queue.again.len() + queue.first.len() >= PACKETS_PER_SESSION {
            return Err(packet);
        }
        let list = if is_again {
            &mut queue.again
        } else {
            &mut queue.first
        };
        self.held.push(list, packet, ())
    }

    /// Releases the packets of sessions that have arrived.
    pub fn meet(&mut self, has_arrived: impl Fn(SessionIndex) -> bool) {
        let (held, ready) = (&mut self.held, &mut self.ready);
        self.queues.retain(|session, queue| {
            let is_there = has_arrived(*session);
            if is_there {
                held.join(ready, queue.again);
                held.join(ready, queue.first);
            }
            !is_there
        });
    }

    /// Gives up packets that have waited for too long.
    pub fn sweep(&mut self, now: Nanos) {
        let (held, expired) = (&mut self.held, &mut self.expired);
        self.queues.retain(|_, queue| {
            let is_over = queue.until <= now;
            if is_over {
                held.join(expired, queue.again);
                held.join(expired, queue.first);
            }
            !is_over
        });
    }

    /// How many packets there are, those on their way out included.
    #[inline]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether packets of a session may be here.
    pub fn may_hold(&self, session: SessionIndex) -> bool {
        self.len() > 0 && (self.queues.contains_key(&session) || self.has_ready())
    }

    /// Whether there are released packets.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes released packets, as many as `out` has room for.
    pub fn take_ready(&mut self, out: &mut Batch<B>) {
        self.held.take_into(&mut self.ready, out);
    }

    /// Takes a packet that is given up.
    pub fn take_expired(&mut self) -> Option<B> {
        self.held.pop(&mut self.expired).map(|(packet, ())| packet)
    }
}

#[cfg(test)]
mod tests {
    use packet::VecBuf;

    use super::*;

    const NOW: Nanos = Nanos::from_secs(1);

    fn packet(number: u32) -> VecBuf {
        VecBuf::new(&number.to_be_bytes())
    }

    fn taken(away: &mut AwaySessions<VecBuf>) -> Vec<u32> {
        let mut all = Vec::new();
        while away.has_ready() {
            let mut out = Batch::new();
            away.take_ready(&mut out);
            all.extend(
                out.iter()
                    .map(|packet: &VecBuf| u32::from_be_bytes(packet.data().try_into().expect("4 octets"))),
            );
        }
        all
    }

    #[test]
    fn packets_of_a_session_follow_it_in_order() {
        let mut away = AwaySessions::new(true);
        for number in 0..100 {
            let session = SessionIndex(number % 2);
            let is_again = number >= 90;
            assert!(away.store(session, packet(number), is_again, NOW).is_ok());
        }
        away.meet(|session| session == SessionIndex(1));
        let odd: Vec<u32> = (90..100).chain(0..90).filter(|number| number % 2 == 1).collect();
        assert_eq!(taken(&mut away), odd);
        assert_eq!(away.len(), 50);
    }

    #[test]
    fn sessions_packets_and_time_are_bounded() {
        let mut away = AwaySessions::new(true);
        let of_one = (0..2_000).filter(|number| {
            away.store(SessionIndex(0), packet(*number), number % 2 == 0, NOW)
                .is_ok()
        });
        assert_eq!(of_one.count(), usize::from(PACKETS_PER_SESSION));
        let of_all = (1..10_000).filter(|index| {
            away.store(SessionIndex(*index), packet(*index), false, NOW)
                .is_ok()
        });
        assert_eq!(of_all.count(), SESSIONS - 1);
        away.sweep(NOW + Duration::from_millis(1_999));
        assert!(away.take_expired().is_none());
        away.sweep(NOW + TIMEOUT);
        let expired = std::iter::from_fn(|| away.take_expired()).count();
        assert_eq!(
            (expired, away.len()),
            (usize::from(PACKETS_PER_SESSION) + SESSIONS - 1, 0)
        );
        let mut none = AwaySessions::new(false);
        assert!(none.store(SessionIndex(0), packet(0), false, NOW).is_err());
    }
}
