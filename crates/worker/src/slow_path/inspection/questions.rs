//! What a UE has asked a resolver in one flow and was not answered yet.

use std::hash::BuildHasher;

use dpi::dns::Question;
use foldhash::quality::RandomState;

/// Questions of a flow that are remembered: clients ask for an IPv4 and an IPv6 address at once, and for more
/// of a server.
const MOST: usize = 3;

/// The last questions of a flow that wait for their answers, as hashes whose key is this process's own; zeros: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Questions([Hash; MOST]);

/// In two halves, which ask for less alignment.
type Hash = [u32; 2];

impl Questions {
    /// The UE asks. The same question again, as of one that gets no answer, is one.
    pub(super) fn ask(&mut self, question: &Question<'_>, hasher: &RandomState) {
        let hash = hash(question, hasher);
        let place = self.0.iter().position(|own| *own == hash);
        let given_up = place.unwrap_or(MOST - 1);
        self.0.copy_within(..given_up, 1);
        self.0[0] = hash;
    }

    /// An answer comes to this question: whether the UE has asked it. It counts once, as the first one does for the
    /// client.
    pub(super) fn answer(&mut self, question: &Question<'_>, hasher: &RandomState) -> bool {
        let hash = hash(question, hasher);
        let place = self.0.iter().position(|own| *own == hash);
        place.is_some_and(|place| {
            self.0[place] = Hash::default();
            true
        })
    }
}

fn hash(question: &Question<'_>, hasher: &RandomState) -> Hash {
    let hash = hasher.hash_one(question);
    [(hash >> 32) as u32, hash as u32 | 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_last_questions_is_answered_once() {
        let hasher = RandomState::default();
        let message = |number: u8| {
            [
                &[0, number, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..],
                b"\x01a\0\0\x01\0\x01",
            ]
            .concat()
        };
        let messages: Vec<Vec<u8>> = (0..5).map(message).collect();
        let question = |number: usize| Question::of(&messages[number]).expect("a question");
        let mut questions = Questions::default();
        assert!(!questions.answer(&question(0), &hasher), "nothing is asked");
        for number in [0, 1, 2, 3, 1] {
            questions.ask(&question(number), &hasher);
        }
        let mut answer = |number| questions.answer(&question(number), &hasher);
        let answered = [0, 1, 1, 3, 4, 2].map(&mut answer);
        assert_eq!(answered, [false, true, false, true, false, true]);
    }
}
