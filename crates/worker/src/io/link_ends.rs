//! What workers with one accelerator give each other of the frames that it sends.
//!
//! One worker, the first, receives all of them, in order: no NIC tells such frames apart. It gives each to the worker
//! that it is for, by a bounded ring to each. Another worker to whose queue a frame comes gives it to the first one.

use offload::exception::Class;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::io::exchange::{Asked, Exchange};

/// What is on the way from one worker to another, at most.
const DEPTH: usize = 2_048;
/// Places in it that packets and questions leave free: frames of a channel, without which contact ends, and markers
/// find room however many packets come.
const RESERVE: usize = 256;

/// Something that the accelerator has sent.
pub(super) enum Passed<B> {
    /// A frame as it was received: of a channel, or not looked at yet.
    Frame(B),
    /// A packet of one of its ports.
    Exception(Class, Exchange, B),
    /// A question, and the packet that it is about.
    Question(Asked, B),
    /// Behind what came before.
    Marker(u64),
}

/// What a packet is of which it is asked whose it is.
#[derive(Clone, Copy)]
pub(super) enum Sorting {
    Exception(Class, Exchange),
    Question(Asked),
}

impl Sorting {
    /// The same with the packet.
    pub fn passed<B>(self, buf: B) -> Passed<B> {
        match self {
            Self::Exception(class, exchange) => Passed::Exception(class, exchange, buf),
            Self::Question(asked) => Passed::Question(asked, buf),
        }
    }
}

/// One worker's ends.
pub struct LinkEnds<B> {
    /// The number of the worker, and how many there are.
    pub(super) worker: usize,
    pub(super) workers: usize,
    /// At the first worker those to all others, from the second on; at others that to the first one.
    to: Vec<Producer<Passed<B>>>,
    from: Vec<Consumer<Passed<B>>>,
    /// What was given to others, since the start.
    pub(super) given: u64,
}

impl<B> LinkEnds<B> {
    /// The ends of a worker that is alone.
    pub const fn alone() -> Self {
        Self {
            worker: 0,
            workers: 1,
            to: Vec::new(),
            from: Vec::new(),
            given: 0,
        }
    }

    /// The ends of this number of workers, in the order of their numbers.
    pub fn between(workers: usize) -> Vec<Self> {
        let end = |worker| Self {
            worker,
            workers,
            ..Self::alone()
        };
        let mut first = end(0);
        let mut others: Vec<Self> = (1..workers).map(end).collect();
        for other in &mut others {
            let (to_other, from_first) = RingBuffer::new(DEPTH);
            let (to_first, from_other) = RingBuffer::new(DEPTH);
            first.to.push(to_other);
            first.from.push(from_other);
            other.to.push(to_first);
            other.from.push(from_first);
        }
        others.insert(0, first);
        others
    }

    /// Whether this worker receives for all.
    pub const fn is_first(&self) -> bool {
        self.worker == 0
    }

    /// Whether there are others.
    pub const fn has_others(&self) -> bool {
        self.workers > 1
    }

    /// Gives something to a worker, which is the first one for all others. False, and it is dropped, where there is no
    /// room.
    pub(super) fn give(&mut self, to: usize, passed: Passed<B>) -> bool {
        let place = match self.is_first() {
            true => to.wrapping_sub(1),
            false => 0,
        };
        let leaves_free = match passed {
            Passed::Frame(_) | Passed::Marker(_) => 0,
            Passed::Exception(..) | Passed::Question(..) => RESERVE,
        };
        let ring = self.to.get_mut(place);
        let ring = ring.filter(|ring| ring.slots() > leaves_free);
        let is_given = ring.is_some_and(|ring| ring.push(passed).is_ok());
        self.given += u64::from(is_given);
        is_given
    }

    /// Takes what was given to this worker.
    pub(super) fn take(&mut self) -> Option<Passed<B>> {
        self.from.iter_mut().find_map(|ring| ring.pop().ok())
    }
}

#[cfg(test)]
mod tests {
    use offload::exception::Reason;

    use super::*;

    #[test]
    fn the_first_gives_to_each_in_order_and_all_give_to_the_first() {
        let mut ends = LinkEnds::between(3);
        for number in [1, 2] {
            assert!(ends[0].give(2, Passed::Frame(number)));
        }
        assert!(ends[1].give(0, Passed::Frame(3)));
        assert!(ends[2].give(0, Passed::Marker(4)));
        let taken = |end: &mut LinkEnds<i32>| match end.take() {
            Some(Passed::Frame(number)) => Some(number),
            Some(Passed::Marker(number)) => Some(number as i32),
            _ => None,
        };
        assert_eq!(taken(&mut ends[1]), None);
        let of_third = [taken(&mut ends[2]), taken(&mut ends[2]), taken(&mut ends[2])];
        assert_eq!(of_third, [Some(1), Some(2), None]);
        assert_eq!([taken(&mut ends[0]), taken(&mut ends[0])], [Some(3), Some(4)]);
        assert!(ends[0].is_first() && !ends[1].is_first());
        assert_eq!(ends[0].given, 2);
    }

    #[test]
    fn what_finds_no_room_is_dropped() {
        let mut ends = LinkEnds::between(2);
        assert!((0..DEPTH).all(|number| ends[0].give(1, Passed::Frame(number))));
        assert!(!ends[0].give(1, Passed::Frame(0)));
        assert!(!ends[0].give(2, Passed::Frame(0)), "there is no such worker");
        assert!(!LinkEnds::alone().give(1, Passed::Frame(0)));
    }

    #[test]
    fn packets_leave_room_for_frames_of_the_channel_and_markers() {
        let exchange = Exchange {
            reason: Reason::NoFlow,
            hops: 0,
        };
        let packet = || Passed::Exception(Class::Urgent, exchange, 0);
        let asked = Asked { number: 1, known: 0 };
        let mut ends = LinkEnds::between(2);
        let mut given = 0;
        while ends[0].give(1, packet()) {
            given += 1;
        }
        assert_eq!(given, DEPTH - RESERVE);
        assert!(!ends[0].give(1, Passed::Question(asked, 0)));
        for number in 0..RESERVE / 2 {
            assert!(ends[0].give(1, Passed::Frame(number)) && ends[0].give(1, Passed::Marker(0)));
        }
        assert!(!ends[0].give(1, Passed::Marker(0)));
        assert!(!ends[0].give(1, packet()));
        assert!(ends[1].take().is_some() && !ends[0].give(1, packet()));
        assert!(ends[0].give(1, Passed::Marker(0)));
    }
}
