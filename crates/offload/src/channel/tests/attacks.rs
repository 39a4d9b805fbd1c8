//! What a peer without the key can do on the port: read, keep back, change, reflect and repeat frames, and invent them.

use std::time::Duration;

use flow::Nanos;
use proptest::prelude::*;

use super::world::{ACCELERATOR, Draw, HOST, MACS, World, config};
use crate::channel::{Discard, DownReason, Event, Key};

const MS: Duration = Duration::from_millis(1);

/// A world in which some messages go both ways, and `attack` happens between; all frames that both ends sent.
fn disturbed(seed: u64, mut attack: impl FnMut(&mut World)) -> (World, Vec<(usize, Vec<u8>)>) {
    let mut configs = [config(HOST, 1), config(ACCELERATOR, 2)];
    configs[HOST].peer_mac = Some(MACS[ACCELERATOR]);
    configs[ACCELERATOR].peer_mac = Some(MACS[HOST]);
    let mut world = World::of(configs, seed);
    world.faults.loss = 10;
    for step in 0..400u64 {
        world.run(MS / 4);
        attack(&mut world);
        if step % 10 == 3 {
            for end in &mut world.ends {
                let _ = end.send(&step.to_be_bytes());
            }
        }
    }
    world.check();
    let frames = world.recorded.clone();
    (world, frames)
}

/// The attack changes nothing: both ends send the same frames at the same time as without it.
fn changes_nothing(seed: u64, attack: impl FnMut(&mut World)) -> World {
    let (_, undisturbed) = disturbed(seed, |_| ());
    let (world, frames) = disturbed(seed, attack);
    assert!(undisturbed.len() > 30);
    assert!(frames == undisturbed, "other frames are sent");
    world
}

fn refused(world: &mut World, end: usize, frame: &[u8]) -> Discard {
    let now = world.now;
    world.ends[end]
        .channel
        .receive(frame, now)
        .expect_err("a forged frame")
}

#[test]
fn invented_frames_change_nothing() {
    let mut draw = Draw(77);
    changes_nothing(7, |world| {
        for _ in 0..20 {
            let end = draw.below(2) as usize;
            // As much of a frame as an observer knows, then anything.
            let known: Vec<&Vec<u8>> = world
                .recorded
                .iter()
                .filter(|(from, _)| *from != end)
                .map(|(_, f)| f)
                .collect();
            let Some(like) = known.get(draw.below(known.len().max(1) as u64) as usize) else {
                continue;
            };
            let mut frame = like[..draw.below(like.len() as u64) as usize].to_vec();
            let more = draw.below(1_500) as usize;
            frame.extend((0..more).map(|_| draw.next() as u8));
            refused(world, end, &frame);
        }
    });
}

#[test]
fn frames_with_another_key_change_nothing() {
    // The attacker has both ends' programs and another key, and sends what they would.
    let mut configs = [config(HOST, 1), config(ACCELERATOR, 2)];
    for config in &mut configs {
        config.key = Key::new(vec![9; 32]).expect("32 octets");
    }
    let mut own = World::of(configs, 3);
    let world = changes_nothing(8, |world| {
        own.run(MS / 4);
        for (from, frame) in own.recorded.drain(..) {
            refused(world, 1 - from, &frame);
        }
    });
    assert!(world.ends[ACCELERATOR].channel.stats().discarded(Discard::Mac) > 5);
}

#[test]
fn reflected_frames_change_nothing() {
    changes_nothing(9, |world| {
        for (from, frame) in world.recorded.clone().into_iter().rev().take(10) {
            let mut reflected = frame.clone();
            reflected[..6].copy_from_slice(&frame[6..12]);
            reflected[6..12].copy_from_slice(&MACS[1 - from].0);
            assert_eq!(refused(world, from, &reflected), Discard::Role);
            // With the other role, kind and boot.
            reflected[17] ^= 1;
            refused(world, from, &reflected);
            for kind in 1..=5 {
                reflected[15] = kind;
                reflected[22..30]
                    .copy_from_slice(&[[0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 1]][from]);
                refused(world, from, &reflected);
            }
        }
    });
}

#[test]
fn each_bit_of_a_frame_counts() {
    // A frame of each kind is kept back, and changed in each bit, before it arrives.
    let mut configs = [config(HOST, 1), config(ACCELERATOR, 2)];
    configs[HOST].peer_mac = Some(MACS[ACCELERATOR]);
    configs[ACCELERATOR].peer_mac = Some(MACS[HOST]);
    let mut world = World::of(configs, 1);
    let mut kinds = [0; 6];
    for step in 0..200u64 {
        world.now = world.now + MS / 4;
        for end in [HOST, ACCELERATOR] {
            let mut frame = Vec::new();
            while world.ends[end].channel.poll_transmit(world.now, &mut frame) {
                for bit in 0..frame.len() * 8 {
                    let mut changed = frame.clone();
                    changed[bit / 8] ^= 1 << (bit % 8);
                    refused(&mut world, 1 - end, &changed);
                }
                let now = world.now;
                assert_eq!(
                    world.ends[1 - end].channel.receive(&frame, now),
                    Ok(()),
                    "step {step}"
                );
                kinds[usize::from(frame[15])] += 1;
            }
            world.ends[end].take();
        }
        if step % 80 == 4 {
            world.ends[HOST].send(b"a message").expect("in contact");
        }
    }
    assert!(kinds[1..].iter().all(|count| *count > 0), "{kinds:?}");
    assert_eq!(world.ends[ACCELERATOR].contacts[0].received.len(), 3);
}

/// Gives all `frames` to the ends that they were for, and lets time pass.
fn replay(world: &mut World, frames: &[(usize, Vec<u8>)]) {
    for (from, frame) in frames {
        let now = world.now;
        let _ = world.ends[1 - from].channel.receive(frame, now);
        world.run(MS / 20);
    }
}

/// A contact in which messages went both ways.
fn conversation(seed: u64) -> World {
    let mut world = World::new(seed);
    world.connect(10 * MS);
    for number in 0..50u64 {
        for end in &mut world.ends {
            end.send(&number.to_be_bytes()).expect("room");
        }
        world.run(MS);
    }
    world
}

#[test]
fn frames_of_an_earlier_contact_change_nothing() {
    for restarted in [None, Some(HOST), Some(ACCELERATOR)] {
        let mut world = conversation(2);
        match restarted {
            Some(end) => world.restart(end),
            None => {
                let now = world.now;
                world.ends[HOST].channel.disconnect(now);
            }
        }
        let earlier = std::mem::take(&mut world.recorded);
        world.run(100 * MS);
        world.connect(MS);
        let events = world.ends.each_ref().map(|end| end.events.len());
        let contacts = world.ends.each_ref().map(|end| end.channel.contact_id());
        replay(&mut world, &earlier);
        replay(&mut world, &earlier);
        assert_eq!(
            world.ends.each_ref().map(|end| end.events.len()),
            events,
            "{restarted:?}"
        );
        assert_eq!(
            world.ends.each_ref().map(|end| end.channel.contact_id()),
            contacts
        );
        for end in &mut world.ends {
            assert!(end.contacts.last().expect("a contact").received.is_empty());
            end.send(b"still there").expect("in contact");
        }
        world.run(10 * MS);
        for end in &world.ends {
            assert_eq!(end.contacts.last().expect("a contact").received, [b"still there"]);
        }
        world.check();
    }
}

#[test]
fn frames_of_the_current_contact_arrive_once() {
    let mut world = conversation(3);
    let recorded = world.recorded.clone();
    let events = world.ends.each_ref().map(|end| end.events.len());
    replay(&mut world, &recorded);
    replay(&mut world, &recorded);
    world.check();
    assert_eq!(world.ends.each_ref().map(|end| end.events.len()), events);
    for end in &world.ends {
        assert_eq!(end.contacts[0].received.len(), 50);
    }
}

#[test]
fn replays_do_not_keep_a_contact_alive() {
    let mut world = conversation(4);
    let recorded = world.recorded.clone();
    world.faults.loss = 100;
    let cut = world.now;
    while world.now < cut + 60 * MS {
        replay(&mut world, &recorded);
    }
    for end in [HOST, ACCELERATOR] {
        let down = |event: &&Event| {
            matches!(
                event,
                Event::Down {
                    reason: DownReason::Silence,
                    ..
                }
            )
        };
        assert!(world.ends[end].events.iter().find(down).is_some(), "end {end}");
    }
}

#[test]
fn a_recorded_handshake_makes_no_contact() {
    let mut world = conversation(5);
    let recorded = world.recorded.clone();
    world.faults.loss = 100;
    world.run(100 * MS);
    assert!(world.ends.iter().all(|end| !end.channel.is_up()));
    replay(&mut world, &recorded);
    replay(&mut world, &recorded);
    assert!(world.ends.iter().all(|end| !end.channel.is_up()));
    // Nor with a new process that has the boot of the old one.
    let boots = [config(HOST, 0xa1), config(ACCELERATOR, 0xb1)];
    let mut world = World::of(boots, 6);
    world.faults.loss = 100;
    replay(&mut world, &recorded);
    replay(&mut world, &recorded);
    assert!(
        world
            .ends
            .iter()
            .all(|end| !end.channel.is_up() && end.events.is_empty())
    );
}

#[test]
fn responses_are_no_more_and_no_longer_than_what_they_respond_to() {
    let mut world = conversation(6);
    let recorded = std::mem::take(&mut world.recorded);
    let (mut now, mut frame) = (world.now, Vec::new());
    for (from, replayed) in &recorded {
        let end = &mut world.ends[1 - from].channel;
        while end.poll_transmit(now, &mut frame) {}
        // A thousand times the same frame, in 10 ms: heartbeats of the contact, and at most as many responses.
        let (begin, mut received, mut sent, mut welcomes) = (now, 0, 0, 0);
        for step in 1..=1_000u64 {
            now = Nanos(begin.0 + step * 10_000);
            let _ = end.receive(replayed, now);
            received += replayed.len();
            while end.poll_transmit(now, &mut frame) {
                sent += frame.len();
                welcomes += u32::from(frame[15] == 2);
                assert!(sent <= received);
            }
            while end.next_event().is_some() {}
        }
        assert!(welcomes <= 10, "{welcomes} responses to HELLO in 10 ms");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Octets of any kind are discarded by an end in any state.
    #[test]
    fn any_octets_are_discarded(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
        header in proptest::collection::vec((0usize..60, any::<u8>()), 0..6),
        time in 0u64..40_000,
        seed in 0u64..4,
    ) {
        let mut world = World::new(seed);
        world.faults.loss = 30;
        world.run(Duration::from_micros(time));
        for end in [HOST, ACCELERATOR] {
            let mut frame = [&MACS[end].0[..], &MACS[1 - end].0, &[0x88, 0xb5, 1, 4, 3, 1 - end as u8]].concat();
            frame.extend(&octets);
            for (at, octet) in &header {
                if let Some(place) = frame.get_mut(*at) {
                    *place = *octet;
                }
            }
            refused(&mut world, end, &frame);
            refused(&mut world, end, &octets);
        }
    }
}

#[test]
fn frames_of_an_earlier_contact_are_counted_by_reason() {
    for restart in [false, true] {
        let mut world = conversation(2);
        let earlier = std::mem::take(&mut world.recorded);
        let now = world.now;
        match restart {
            true => world.restart(HOST),
            false => world.ends[HOST].channel.disconnect(now),
        }
        world.run(100 * MS);
        let (data, welcome) = match restart {
            true => (Discard::Boot, Discard::Boot),
            false => (Discard::Handshake, Discard::Handshake),
        };
        for (kind, reason) in [(2, welcome), (3, Discard::Handshake), (4, data), (5, data)] {
            let from = usize::from(kind == 2);
            let frame = earlier.iter().find(|sent| sent.0 == from && sent.1[15] == kind);
            let (_, frame) = frame.expect("a frame of the kind");
            assert_eq!(
                refused(&mut world, 1 - from, frame),
                reason,
                "kind {kind}, restart {restart}"
            );
        }
    }
    // While a host calls, WELCOME is of another handshake; while it confirms, too.
    let mut world = World::new(1);
    world.hand_over(HOST);
    let welcome = world.outbox(ACCELERATOR).swap_remove(0);
    // The number of the handshake, and the host's nonce.
    for at in [21, 58 + 16] {
        let mut other = welcome.clone();
        other[at] ^= 1;
        assert_eq!(refused(&mut world, HOST, &other), Discard::Handshake);
    }
    let now = world.now;
    assert_eq!(world.ends[HOST].channel.receive(&welcome, now), Ok(()));
    assert_eq!(refused(&mut world, HOST, &welcome), Discard::Handshake);
}

/// A DATA frame of the host in its contact, as one that has the key would send it.
fn sealed(world: &World, sequence: u64, acknowledged: u64, bitmap: u64, payload: &[u8]) -> Vec<u8> {
    let (_, handshake) = world
        .recorded
        .iter()
        .find(|(from, frame)| *from == HOST && frame[15] == 3)
        .expect("CONFIRM");
    let mut frame = handshake[..30].to_vec();
    frame[15] = 4;
    for number in [sequence, acknowledged, bitmap] {
        frame.extend(number.to_be_bytes());
    }
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([0; 2]);
    frame.extend(payload);
    frame.extend([0; 16]);
    world.ends[HOST].channel.seal_frame(&mut frame);
    frame
}

#[test]
fn a_peer_with_the_key_that_is_faulty_ends_the_contact() {
    // The accelerator has sent nothing but an ACK.
    let cases: [(u64, u64, u64, &[u8]); 7] = [
        (1, 0, 0, &[0, 0]),
        (1, 0, 0, &[0]),
        (1, 0, 0, &[0, 2, 1]),
        (64, 0, 0, &[0, 1, 1, 0, 1]),
        (1, 1, 0, &[0, 1, 1]),
        (1, 0, 1, &[0, 1, 1]),
        (1, u64::MAX, u64::MAX, &[0, 1, 1]),
    ];
    for (sequence, acknowledged, bitmap, payload) in cases {
        let mut world = World::new(1);
        world.connect(MS);
        world.poll();
        let frame = sealed(&world, sequence, acknowledged, bitmap, payload);
        assert_eq!(refused(&mut world, ACCELERATOR, &frame), Discard::Fault);
        let down = Event::Down {
            reason: DownReason::Fault,
            given_up: 0,
        };
        assert_eq!(world.ends[ACCELERATOR].channel.next_event(), Some(down));
        assert!(!world.ends[ACCELERATOR].channel.is_up());
    }
}

#[test]
fn a_peer_with_the_key_stays_in_the_window() {
    let mut world = World::new(1);
    world.connect(MS);
    world.poll();
    let now = world.now;
    for sequence in [65, 66, u64::MAX] {
        let frame = sealed(&world, sequence, 0, 0, &[0, 1, 1]);
        assert_eq!(refused(&mut world, ACCELERATOR, &frame), Discard::Window);
    }
    let frame = sealed(&world, 0, 0, 0, &[0, 1, 1]);
    assert_eq!(refused(&mut world, ACCELERATOR, &frame), Discard::Duplicate);
    // The last of the window, which waits for those before; then the first, which is taken.
    for (sequence, taken) in [(64, 0), (1, 1)] {
        let frame = sealed(&world, sequence, 0, 0, &[0, 1, 1]);
        assert_eq!(world.ends[ACCELERATOR].channel.receive(&frame, now), Ok(()));
        assert_eq!(refused(&mut world, ACCELERATOR, &frame), Discard::Duplicate);
        world.ends[ACCELERATOR].take();
        assert_eq!(world.ends[ACCELERATOR].contacts[0].received.len(), taken);
    }
    // Longer than frames of the protocol.
    let frame = sealed(&world, 2, 0, 0, &[1; 9_157]);
    assert_eq!(refused(&mut world, ACCELERATOR, &frame), Discard::Length);
    let frame = sealed(&world, 2, 0, 0, &[&[0x23, 0xc2][..], &[1; 9_154]].concat());
    assert_eq!(world.ends[ACCELERATOR].channel.receive(&frame, now), Ok(()));
}

/// Octets beside the channel are authentic in one contact, one direction, and not as a frame of the channel.
#[test]
fn what_is_sealed_beside_the_channel_is_the_peers_alone() {
    let mut world = World::new(1);
    world.connect(Duration::from_millis(100));
    let octets = b"a header and a flow";
    let [host, accelerator] = [HOST, ACCELERATOR].map(|end| &world.ends[end].channel);
    let mac = host.seal(octets).unwrap();
    assert!(accelerator.verifies(octets, &mac));
    assert!(
        !host.verifies(octets, &mac),
        "it was not the accelerator that sent it"
    );
    assert_ne!(accelerator.seal(octets), Some(mac));
    for bit in 0..128 {
        let mut other = mac;
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!accelerator.verifies(octets, &other));
    }
    assert!(!accelerator.verifies(b"another header", &mac));
    let other = World::new(2);
    assert!(
        !other.ends[ACCELERATOR].channel.verifies(octets, &mac),
        "there is no contact"
    );
    assert_eq!(other.ends[HOST].channel.seal(octets), None);
}
