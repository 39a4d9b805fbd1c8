//! Requests that a backend has not answered yet: whose they are.

use std::collections::VecDeque;

use flow::{OpId, SessionIndex};

/// A request, as its channel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The place of its channel.
    pub place: usize,
    /// Its number there.
    pub id: OpId,
    /// The session that is gone when it is done.
    pub ends: Option<SessionIndex>,
}

/// All of them, by numbers that follow each other.
#[derive(Debug, Default)]
pub struct Unanswered {
    /// The number of the first one.
    first: u64,
    /// `None` where the answer was given, or is wanted no more.
    asked: VecDeque<Option<Asked>>,
}

impl Unanswered {
    /// Adds one: its number here.
    pub fn add(&mut self, asked: Asked) -> u64 {
        self.asked.push_back(Some(asked));
        self.first + self.asked.len() as u64 - 1
    }

    /// Takes the one with this number, unless its answer is wanted no more.
    pub fn take(&mut self, number: u64) -> Option<Asked> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let asked = self.asked.get_mut(place)?.take();
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.first += 1;
        }
        asked
    }

    /// Answers of the channel at a place are wanted no more.
    pub fn forget(&mut self, place: usize) {
        let of_it = |asked: &&mut Option<Asked>| asked.is_some_and(|asked| asked.place == place);
        self.asked
            .iter_mut()
            .filter(of_it)
            .for_each(|asked| *asked = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(place: usize, id: u64) -> Asked {
        Asked {
            place,
            id: OpId(id),
            ends: None,
        }
    }

    #[test]
    fn each_is_taken_once_by_its_number_in_whatever_order() {
        let mut unanswered = Unanswered::default();
        let numbers = [7, 7, 9].map(|id| unanswered.add(asked(id as usize % 2, id)));
        assert_eq!(unanswered.take(numbers[1]), Some(asked(1, 7)));
        assert_eq!(unanswered.take(numbers[1]), None);
        assert_eq!(unanswered.take(numbers[0]), Some(asked(1, 7)));
        let next = unanswered.add(asked(0, 1));
        assert_eq!(unanswered.take(numbers[2]), Some(asked(1, 9)));
        assert_eq!(unanswered.take(next + 1), None);
        assert_eq!(unanswered.take(next), Some(asked(0, 1)));
        assert!(unanswered.asked.is_empty());
    }

    #[test]
    fn what_is_forgotten_is_not_answered() {
        let mut unanswered = Unanswered::default();
        let [a, b] = [asked(0, 1), asked(1, 2)].map(|asked| unanswered.add(asked));
        unanswered.forget(0);
        assert_eq!(unanswered.take(a), None);
        assert_eq!(unanswered.take(b), Some(asked(1, 2)));
        assert!(unanswered.asked.is_empty());
    }
}
