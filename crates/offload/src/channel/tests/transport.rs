//! Messages under loss, duplication, reordering and restarts.

use std::time::Duration;

use proptest::prelude::*;

use super::world::{ACCELERATOR, Draw, Faults, HOST, World, config};
use crate::channel::{Discard, DownReason, Event, MAX_WINDOW, Refused};

/// A message whose place is in it.
fn message(number: u64, draw: &mut Draw) -> Vec<u8> {
    let len = match draw.below(10) {
        0 => 1 + draw.below(1_438),
        _ => 1 + draw.below(80),
    };
    let mut octets = number.to_be_bytes().to_vec();
    octets.resize(len.max(8) as usize, number as u8);
    octets
}

/// Sends for a while in bursts, with restarts, then lets the network heal.
fn converse(seed: u64, faults: Faults, restarts: u64) {
    let mut world = World::new(seed);
    world.faults = faults;
    let mut draw = Draw(seed ^ 0x3333);
    let mut number = 0;
    for _ in 0..60 {
        for end in [HOST, ACCELERATOR] {
            for _ in 0..draw.below(120) {
                number += 1;
                let _ = world.ends[end].send(&message(number, &mut draw));
            }
            world.ends[end].idle = draw.percent(10);
        }
        if draw.percent(restarts) {
            let end = draw.below(2) as usize;
            world.restart(end);
        }
        world.run(Duration::from_micros(draw.below(5_000)));
    }
    for end in &mut world.ends {
        end.idle = false;
    }
    world.faults = Faults::NONE;
    world.run(Duration::from_secs(2));
    world.check();
    for from in [HOST, ACCELERATOR] {
        assert!(world.ends[from].channel.is_up(), "no contact over a good network");
        let load = world.ends[from].channel.load();
        assert!(load.queued == 0 && load.in_flight <= 1, "{load:?}");
        let last = world.ends[from].contacts.last().expect("a contact");
        let other = world.ends[1 - from].contacts.last().expect("a contact");
        assert_eq!(last.id, other.id);
        assert_eq!(last.sent, other.received, "a message is missing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Within a contact each message arrives once and in order; what may be missing at its end is reported.
    #[test]
    fn delivers_once_and_in_order(
        seed in any::<u64>(),
        loss in 0u64..=30,
        duplication in 0u64..=30,
        delay in 1u64..3_000,
        restarts in prop_oneof![Just(0), Just(10)],
    ) {
        let max_delay = Duration::from_micros(delay);
        converse(seed, Faults { loss, duplication, max_delay }, restarts);
    }
}

#[test]
fn contact_survives_loss() {
    // Of both ways: each tenth of a second has ten heartbeats, of which three are lost.
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.connect(Duration::from_millis(10));
        world.faults.loss = 30;
        world.run(Duration::from_secs(1));
        assert_eq!(
            world.ends[HOST].events.len(),
            1,
            "seed {seed}: {:?}",
            world.ends[HOST].events
        );
        assert_eq!(world.ends[ACCELERATOR].events.len(), 1, "seed {seed}");
    }
}

#[test]
fn small_messages_share_a_frame() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    world.recorded.clear();
    // 23 of 60 octets and their prefixes are 1,426 of 1,440 octets.
    for number in 0..46 {
        world.ends[HOST].send(&[number; 60]).expect("room");
    }
    world.run(Duration::from_micros(500));
    let from_host = world.recorded.iter().filter(|(from, _)| *from == HOST);
    let lengths: Vec<usize> = from_host.map(|(_, frame)| frame.len()).take(2).collect();
    assert_eq!(lengths, [14 + 44 + 23 * 62 + 16; 2]);
    assert_eq!(world.ends[ACCELERATOR].contacts[0].received.len(), 46);
    assert_eq!(world.ends[HOST].channel.stats().messages_acknowledged, 46);
}

#[test]
fn the_longest_message_fills_a_frame() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    assert_eq!(world.ends[HOST].send(&[1; 1_439]), Err(Refused::Length));
    assert_eq!(world.ends[HOST].send(&[]), Err(Refused::Length));
    world.ends[HOST].send(&[1; 1_438]).expect("room");
    world.run(Duration::from_micros(500));
    let longest = world.recorded.iter().map(|(_, frame)| frame.len()).max();
    assert_eq!(longest, Some(1_514));
    assert_eq!(world.ends[ACCELERATOR].contacts[0].received, [vec![1; 1_438]]);
}

#[test]
fn messages_are_refused_when_the_queue_is_full_or_there_is_no_contact() {
    let mut small = config(HOST, 1);
    small.queue = 2_000;
    let mut world = World::of([small, config(ACCELERATOR, 2)], 1);
    assert_eq!(world.ends[HOST].channel.send(&[1]), Err(Refused::NoContact));
    world.connect(Duration::from_millis(10));
    world.ends[HOST].send(&[1; 998]).expect("room");
    world.ends[HOST].send(&[1; 998]).expect("room");
    assert_eq!(world.ends[HOST].send(&[1]), Err(Refused::Full));
    world.run(Duration::from_micros(500));
    world.ends[HOST].send(&[1]).expect("room again");
}

#[test]
fn a_user_that_takes_nothing_stops_the_sender_and_loses_nothing() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    world.ends[ACCELERATOR].idle = true;
    let mut accepted = 0u64;
    for _ in 0..300 {
        accepted += u64::from(world.ends[HOST].send(&[7; 1_400]).is_ok());
        world.run(Duration::from_micros(100));
    }
    let load = world.ends[HOST].channel.load();
    assert_eq!(load.in_flight, MAX_WINDOW);
    assert!(load.queued > 100_000, "{load:?}");
    assert_eq!(world.ends[HOST].channel.stats().messages_acknowledged, 0);
    // All in flight has arrived, and is not sent again.
    let again = world.ends[HOST].channel.stats().retransmissions;
    world.run(Duration::from_millis(20));
    assert_eq!(world.ends[HOST].channel.stats().retransmissions, again);
    // The other's heartbeats are acknowledged: contact holds.
    world.run(Duration::from_secs(1));
    assert!(world.ends[HOST].channel.is_up() && world.ends[ACCELERATOR].channel.is_up());
    world.ends[ACCELERATOR].idle = false;
    world.run(Duration::from_millis(100));
    assert_eq!(
        world.ends[ACCELERATOR].contacts[0].received.len() as u64,
        accepted
    );
}

#[test]
fn no_more_frames_are_in_flight_than_the_window() {
    let mut config = [config(HOST, 1), config(ACCELERATOR, 2)];
    config[HOST].window = 4;
    let mut world = World::of(config, 1);
    world.connect(Duration::from_millis(10));
    world.recorded.clear();
    for _ in 0..10 {
        world.ends[HOST].send(&[7; 1_400]).expect("room");
    }
    world.poll();
    assert_eq!(world.recorded.iter().filter(|(from, _)| *from == HOST).count(), 4);
}

#[test]
fn a_lost_frame_is_sent_again_within_the_bounds() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    world.run(Duration::from_millis(30));
    world.faults.loss = 100;
    world.recorded.clear();
    world.ends[HOST].send(b"lost").expect("room");
    let mut sent_at = Vec::new();
    for step in 0..200 {
        world.run(Duration::from_micros(100));
        let is_it = |frame: &[u8]| frame.windows(4).any(|octets| octets == b"lost");
        if world.recorded.drain(..).any(|(_, frame)| is_it(&frame)) {
            sent_at.push(step);
        }
    }
    // After 1 ms, then 2, 4 and 5.
    assert_eq!(&sent_at[..5], [0, 9, 29, 69, 119], "{sent_at:?}");
}

#[test]
fn sequence_numbers_pass_the_bounds_of_32_bits() {
    let mut world = World::new(5);
    world.connect(Duration::from_millis(10));
    let start = u64::from(u32::MAX) - 100;
    // Frames of the handshake's end are through.
    for end in &mut world.ends {
        end.channel.start_at(start);
    }
    world.faults = Faults {
        loss: 20,
        duplication: 20,
        max_delay: Duration::from_millis(2),
    };
    let mut draw = Draw(6);
    for number in 0..3_000 {
        for end in &mut world.ends {
            end.send(&message(number, &mut draw)).expect("room");
        }
        world.run(Duration::from_micros(200));
    }
    world.faults = Faults::NONE;
    world.run(Duration::from_millis(100));
    world.check();
    assert_eq!(world.ends[HOST].contacts.len(), 1);
    assert_eq!(world.ends[ACCELERATOR].contacts[0].received.len(), 3_000);
    assert_eq!(world.ends[HOST].contacts[0].received.len(), 3_000);
}

#[test]
fn the_end_of_a_contact_reports_what_was_given_up() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    world.ends[HOST].send(b"taken").expect("room");
    world.run(Duration::from_millis(1));
    world.faults.loss = 100;
    for _ in 0..100 {
        world.ends[HOST].send(&[7; 1_400]).expect("room");
    }
    let cut = world.now;
    world.run(Duration::from_millis(49));
    assert!(world.ends[HOST].channel.is_up());
    world.run(Duration::from_millis(2));
    let down = Event::Down {
        reason: DownReason::Silence,
        given_up: 100,
    };
    assert_eq!(world.ends[HOST].events.last(), Some(&down), "since {cut:?}");
    assert!(!world.ends[ACCELERATOR].channel.is_up());
    assert_eq!(world.ends[HOST].channel.stats().messages_given_up, 100);
    assert_eq!(world.ends[HOST].channel.send(b"late"), Err(Refused::NoContact));
}

#[test]
fn an_idle_contact_costs_few_frames() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    world.run(Duration::from_millis(15));
    world.recorded.clear();
    world.run(Duration::from_secs(1));
    // Each end sends a hundred heartbeats a second, and acknowledges those of the other.
    assert!(
        (350..=410).contains(&world.recorded.len()),
        "{}",
        world.recorded.len()
    );
}

/// A contact on whose way nothing is.
fn quiet() -> World {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(10));
    world.run(Duration::from_millis(1));
    world
}

#[test]
fn what_is_taken_is_acknowledged_soon() {
    let mut world = quiet();
    world.ends[HOST].send(b"late").expect("room");
    world.hand_over(HOST);
    world.now = world.now + Duration::from_micros(200);
    assert_eq!(world.hand_over(ACCELERATOR), 1);
    // A heartbeat behind the message.
    world.now = world.now + Duration::from_millis(10);
    assert_eq!(world.hand_over(HOST), 1);
    world.now = world.now + Duration::from_micros(200);
    world.hand_over(ACCELERATOR);
    assert_eq!(world.ends[HOST].channel.load().in_flight, 2);
    // The user takes the message, and with it the frame behind it.
    world.ends[ACCELERATOR].take();
    assert_eq!(world.ends[ACCELERATOR].contacts[0].received, [b"late"]);
    assert_eq!(world.hand_over(ACCELERATOR), 0);
    world.now = world.now + Duration::from_micros(200);
    assert_eq!(world.hand_over(ACCELERATOR), 1);
    assert_eq!(world.ends[HOST].channel.load().in_flight, 0);
}

#[test]
fn a_lost_acknowledgement_is_sent_again() {
    let mut world = quiet();
    world.ends[HOST].send(b"once").expect("room");
    world.hand_over(HOST);
    world.ends[ACCELERATOR].take();
    world.now = world.now + Duration::from_micros(200);
    assert_eq!(world.outbox(ACCELERATOR).len(), 1, "which is lost");
    world.now = world.now + Duration::from_millis(1);
    let again = world.outbox(HOST);
    assert_eq!(again.len(), 1);
    let now = world.now;
    assert_eq!(
        world.ends[ACCELERATOR].channel.receive(&again[0], now),
        Err(Discard::Duplicate)
    );
    world.now = world.now + Duration::from_micros(200);
    assert_eq!(world.hand_over(ACCELERATOR), 1);
    assert_eq!(world.ends[HOST].channel.load().in_flight, 0);
    // A sample of that round trip would be of nothing.
    assert_eq!(world.ends[HOST].channel.load().round_trip, None);
}

#[test]
fn sixteen_frames_are_acknowledged_at_once() {
    for (frames, acknowledgements) in [(15, 0), (16, 1)] {
        let mut world = quiet();
        for _ in 0..frames {
            world.ends[HOST].send(&[7; 1_400]).expect("room");
        }
        assert_eq!(world.hand_over(HOST), frames);
        world.ends[ACCELERATOR].take();
        assert_eq!(world.hand_over(ACCELERATOR), acknowledgements);
    }
}

#[test]
fn a_frame_that_was_taken_in_part_leaves_nothing_to_the_next_contact() {
    let mut world = quiet();
    world.ends[HOST].send(b"taken").expect("room");
    world.ends[HOST].send(b"not taken").expect("room");
    world.hand_over(HOST);
    assert_eq!(
        world.ends[ACCELERATOR].channel.next_message(),
        Some(&b"taken"[..])
    );
    let now = world.now;
    for end in &mut world.ends {
        end.channel.disconnect(now);
        assert_eq!(end.channel.next_message(), None);
        end.take();
    }
    // What was taken in part is not acknowledged, and so reported.
    assert_eq!(world.ends[HOST].contacts[0].given_up, Some(2));
    world.connect(Duration::from_millis(10));
    world.ends[HOST].send(b"new").expect("room");
    world.ends[HOST].send(b"newer").expect("room");
    world.run(Duration::from_millis(1));
    assert_eq!(
        world.ends[ACCELERATOR].contacts[1].received,
        [&b"new"[..], b"newer"]
    );
}
