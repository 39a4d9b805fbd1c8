//! The lifetimes of TCP (RFC 5382 §5, RFC 7857 §2).

use super::*;

/// A table in which one endpoint speaks TCP, and the mapping's port.
struct Speaker(Mappings, u16);

const TRANSITORY: u64 = 240;
const ESTABLISHED: u64 = 7_440;

impl Speaker {
    fn new(first: Segment) -> Self {
        let mut own = Self(table_of(&config(), policy(), 1), 0);
        own.sends(first, 0);
        own
    }

    fn sends(&mut self, segment: Segment, second: u64) {
        let (own, now) = (inside(80, Protocol::Tcp), Nanos::from_secs(second));
        self.1 = self.0.leave(SESSION, own, REMOTE, segment, now).unwrap().port;
    }

    fn receives(&mut self, segment: Segment, second: u64) {
        let now = Nanos::from_secs(second);
        let received = self
            .0
            .inbound(BlockId(0), self.1, Protocol::Tcp, REMOTE, segment, now);
        assert!(received.is_ok());
    }

    fn is_dead_from(&self, second: u64) {
        let at = Nanos::from_secs(second);
        let lives = |now| {
            self.0
                .lookup_inside(SESSION, &inside(80, Protocol::Tcp), now)
                .is_some()
        };
        assert!(lives(at) && !lives(at + TICK * 2), "not dead from {second} s on");
    }

    fn established() -> Self {
        let mut own = Self::new(Segment::Opens);
        own.receives(Segment::Accepts, 1);
        own.sends(Segment::Within, 2);
        own
    }
}

#[test]
fn a_connection_that_is_not_answered_is_transitory() {
    // RFC 5382 REQ-5.
    let mut own = Speaker::new(Segment::Opens);
    own.is_dead_from(TRANSITORY);
    own.sends(Segment::Opens, 3);
    own.sends(Segment::Within, 4);
    own.is_dead_from(4 + TRANSITORY);
}

#[test]
fn a_connection_that_is_answered_and_sends_again_is_established() {
    let mut own = Speaker::new(Segment::Opens);
    own.receives(Segment::Accepts, 1);
    own.is_dead_from(TRANSITORY);
    own.sends(Segment::Opens, 2);
    own.is_dead_from(2 + TRANSITORY);
    own.sends(Segment::Within, 3);
    own.is_dead_from(3 + ESTABLISHED);
    own.receives(Segment::Within, 9);
    own.is_dead_from(3 + ESTABLISHED);
    own.sends(Segment::Within, 20);
    own.is_dead_from(20 + ESTABLISHED);
}

#[test]
fn a_connection_that_the_other_end_opens_is_established_too() {
    // RFC 5382 REQ-2: simultaneous open.
    let mut own = Speaker::new(Segment::Opens);
    own.receives(Segment::Opens, 1);
    own.sends(Segment::Accepts, 2);
    own.is_dead_from(2 + TRANSITORY);
    own.sends(Segment::Within, 3);
    own.is_dead_from(3 + ESTABLISHED);
}

#[test]
fn a_segment_of_an_unknown_connection_is_taken_for_one_of_an_established() {
    Speaker::new(Segment::Within).is_dead_from(ESTABLISHED);
    for first in [Segment::Accepts, Segment::Finishes, Segment::Resets] {
        Speaker::new(first).is_dead_from(TRANSITORY);
    }
}

#[test]
fn a_reset_does_not_take_a_mapping_out_at_once() {
    // RFC 7857 §2.
    let mut own = Speaker::established();
    own.receives(Segment::Resets, 1_000);
    own.is_dead_from(1_000 + TRANSITORY);
    own.sends(Segment::Within, 1_001);
    own.is_dead_from(1_001 + ESTABLISHED);
    own.sends(Segment::Resets, 2_000);
    own.is_dead_from(2_000 + TRANSITORY);
}

#[test]
fn what_comes_never_lengthens_a_life() {
    let mut own = Speaker::established();
    for segment in [Segment::Finishes, Segment::Resets] {
        own.receives(segment, ESTABLISHED - 100);
        own.is_dead_from(2 + ESTABLISHED);
    }
}

#[test]
fn the_acknowledgement_of_a_finish_does_not_establish_again() {
    let mut own = Speaker::established();
    own.sends(Segment::Finishes, 1_000);
    own.receives(Segment::Finishes, 1_001);
    own.sends(Segment::Within, 1_001);
    own.sends(Segment::Within, 1_003);
    own.is_dead_from(1_000 + TRANSITORY);
    // Another connection of the same endpoint.
    own.sends(Segment::Within, 1_010);
    own.is_dead_from(1_010 + ESTABLISHED);
}

#[test]
fn a_new_connection_does_not_shorten_the_life_that_another_has() {
    let mut own = Speaker::established();
    own.sends(Segment::Opens, 10);
    own.is_dead_from(2 + ESTABLISHED);
    own.sends(Segment::Opens, ESTABLISHED);
    own.is_dead_from(ESTABLISHED + TRANSITORY);
}

#[test]
fn a_connection_behind_one_that_ended_starts_anew() {
    let mut own = Speaker::established();
    own.sends(Segment::Finishes, 100);
    own.sends(Segment::Opens, 110);
    own.sends(Segment::Within, 111);
    own.is_dead_from(111 + TRANSITORY);
    own.receives(Segment::Accepts, 112);
    own.sends(Segment::Within, 113);
    own.is_dead_from(113 + ESTABLISHED);
}

#[test]
fn a_finish_that_is_filtered_does_not_count() {
    let filtering = SessionPolicy {
        filtering: Filtering::AddressDependent,
        ..policy()
    };
    let mut own = Speaker(table_of(&config(), filtering, 1), 0);
    own.sends(Segment::Within, 0);
    let now = Nanos::from_secs(1);
    let received = own
        .0
        .inbound(BlockId(0), own.1, Protocol::Tcp, THIRD, Segment::Resets, now);
    assert_eq!(received, Err(Unsolicited::Filtered));
    own.is_dead_from(ESTABLISHED);
}
