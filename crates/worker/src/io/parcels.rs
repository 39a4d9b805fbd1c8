//! What workers give each other beside packets: a bounded ring from each to each other.
//!
//! It is for few and large things, such as the queues of a session that moves. Only the workers know what it is.

use std::any::Any;

use flow::WorkerId;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

/// Something that a worker gives to another.
pub type Parcel = Box<dyn Any + Send>;

/// Parcels on their way from one worker to another. Control has 64 sessions with workers at a time.
const DEPTH: usize = 128;

/// One worker's ends.
pub struct Parcels {
    /// By worker.
    to: Vec<Option<Producer<Parcel>>>,
    from: Vec<Consumer<Parcel>>,
}

impl Parcels {
    /// Those of a lone worker.
    pub const fn none() -> Self {
        Self {
            to: Vec::new(),
            from: Vec::new(),
        }
    }

    /// The ends of this number of workers, by worker.
    pub fn between(workers: usize) -> Vec<Self> {
        let mut all: Vec<_> = (0..workers).map(|_| Self::none()).collect();
        for from in 0..workers {
            for to in 0..workers {
                let ring = (from != to).then(|| RingBuffer::new(DEPTH));
                let (producer, consumer) = ring.unzip();
                all[from].to.push(producer);
                all[to].from.extend(consumer);
            }
        }
        all
    }

    /// Gives a parcel to another worker.
    ///
    /// # Errors
    /// The parcel, where there is no room, or no such worker.
    pub fn give(&mut self, to: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        match self.to.get_mut(to.index()).and_then(Option::as_mut) {
            Some(ring) => ring.push(parcel).map_err(|PushError::Full(parcel)| parcel),
            None => Err(parcel),
        }
    }

    /// Takes a parcel that another worker has given.
    #[inline]
    pub fn take(&mut self) -> Option<Parcel> {
        self.from.iter_mut().find_map(|ring| ring.pop().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_gives_comes_to_the_other_in_order_and_to_no_third() {
        let mut all = Parcels::between(3);
        let taken = |all: &mut [Parcels], worker: usize| {
            let parcel = all[worker].take()?.downcast::<usize>();
            Some(*parcel.expect("a number"))
        };
        for number in 0..DEPTH {
            assert!(all[2].give(WorkerId(1), Box::new(number)).is_ok());
        }
        assert!(all[2].give(WorkerId(1), Box::new(0)).is_err(), "it is full");
        assert!(all[2].give(WorkerId(2), Box::new(0)).is_err(), "itself");
        assert!(all[0].give(WorkerId(3), Box::new(0)).is_err(), "there is none");
        assert_eq!((taken(&mut all, 0), taken(&mut all, 2)), (None, None));
        let numbers: Vec<_> = std::iter::from_fn(|| taken(&mut all, 1)).collect();
        assert_eq!(numbers, (0..DEPTH).collect::<Vec<_>>());
        assert!(Parcels::none().give(WorkerId(1), Box::new(0)).is_err());
    }
}
