//! Questions of an accelerator that wait for the worker, by the port of their packets: ports take turns, and none has
//! all of the room.

use std::collections::VecDeque;

use crate::io::exchange::Asked;
use crate::shares::Shares;

/// Questions that wait, of all ports.
const QUESTIONS: usize = 1_024;

/// All of them.
pub(super) struct WaitingQuestions<B> {
    by_port: Vec<VecDeque<(Asked, B)>>,
    room: Shares,
    /// The port whose turn it is.
    turn: usize,
}

impl<B> WaitingQuestions<B> {
    /// None yet, of this number of ports.
    pub fn new(ports: usize) -> Self {
        Self {
            by_port: (0..ports).map(|_| VecDeque::new()).collect(),
            room: Shares::new(QUESTIONS, ports),
            turn: 0,
        }
    }

    /// Adds one of a port; false, and it is lost, where there is no room.
    pub fn push(&mut self, port: usize, asked: Asked, packet: B) -> bool {
        let Some(queue) = self.by_port.get_mut(port) else {
            return false;
        };
        let has_room = self.room.take(port);
        if has_room {
            queue.push_back((asked, packet));
        }
        has_room
    }

    /// Takes the next one, of each port in turn; when there was none, the first port begins again.
    pub fn pop(&mut self) -> Option<(Asked, B)> {
        let ports = self.by_port.len();
        let mut turns = (0..ports).map(|behind| (self.turn + behind) % ports);
        let Some(port) = turns.find(|port| !self.by_port[*port].is_empty()) else {
            self.turn = 0;
            return None;
        };
        self.turn = (port + 1) % ports;
        self.room.vacate(port, 1);
        self.by_port[port].pop_front()
    }

    /// None is left.
    pub fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked { number: 0, known: 0 };

    #[test]
    fn a_flood_by_one_port_delays_and_loses_its_own() {
        let mut questions = WaitingQuestions::new(2);
        let taken = (0..2_000)
            .filter(|number| questions.push(0, ASKED, *number))
            .count();
        assert_eq!(taken, 768, "a quarter is the other's");
        for number in [5_000, 5_001] {
            assert!(questions.push(1, ASKED, number));
        }
        assert!(!questions.push(2, ASKED, 1), "there is no such port");
        let next: Vec<_> = std::iter::from_fn(|| questions.pop()).take(5).collect();
        assert_eq!(
            next.iter().map(|(_, number)| *number).collect::<Vec<_>>(),
            [0, 5_000, 1, 5_001, 2]
        );
        questions.clear();
        assert!(questions.pop().is_none());
        assert!((0..768).all(|number| questions.push(0, ASKED, number)));
    }
}
