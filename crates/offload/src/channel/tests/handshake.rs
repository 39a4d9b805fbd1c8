//! How contacts begin, end and begin again.

use std::time::Duration;

use flow::Nanos;
use packet::{MacAddr, VlanId};

use super::world::{ACCELERATOR, Draw, Faults, HOST, MACS, World, config, key};
use crate::channel::{
    BootChange, Channel, ConfigFault, Discard, DownReason, Event, Key, Peer, Role, ShortKey, channel_of,
};

const MS: Duration = Duration::from_millis(1);

fn peers(world: &World, end: usize) -> Vec<&Peer> {
    let events = &world.ends[end].events;
    let peers = events.iter().map(|event| match event {
        Event::Up(peer) => Some(peer),
        Event::Down { .. } => None,
    });
    peers.flatten().collect()
}

#[test]
fn both_ends_learn_of_each_other() {
    let mut configs = [config(HOST, 11), config(ACCELERATOR, 22)];
    configs[HOST].epoch = 5;
    configs[HOST].capabilities = b"host".to_vec();
    configs[ACCELERATOR].epoch = 6;
    configs[ACCELERATOR].capabilities = vec![9; 256];
    let mut world = World::of(configs, 1);
    world.connect(MS);
    world.poll();
    let [accelerator] = peers(&world, HOST)[..] else {
        panic!("one contact")
    };
    assert_eq!((accelerator.boot, accelerator.epoch), (22, 6));
    assert_eq!(accelerator.capabilities, [9; 256]);
    let [host] = peers(&world, ACCELERATOR)[..] else {
        panic!("one contact")
    };
    assert_eq!(
        (host.boot, host.epoch, host.boot_change),
        (11, 5, BootChange::First)
    );
    assert_eq!(host.capabilities, b"host");
    // HELLO, WELCOME, CONFIRM, ACK: all of a handshake are equally long.
    let lengths: Vec<usize> = world.recorded.iter().map(|(_, frame)| frame.len()).collect();
    assert_eq!(lengths, [394, 394, 394, 74]);
}

#[test]
fn clocks_are_related() {
    let mut world = World::new(4);
    world.connect(MS);
    for end in [HOST, ACCELERATOR] {
        // Both read one clock here, and a frame takes 11 us at most.
        let sample = peers(&world, end)[0].clock;
        let moment = Nanos(world.now.0 + 5_000_000);
        let error = sample.own(moment).0.abs_diff(moment.0);
        assert!(error <= 11_000, "{error} ns");
        let before = Nanos(sample.peer.0 - 900_000);
        assert!(sample.own(before).0.abs_diff(before.0) <= 11_000);
    }
}

#[test]
fn contact_is_made_under_loss() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        world.faults = Faults {
            loss: 30,
            duplication: 30,
            max_delay: Duration::from_millis(2),
        };
        world.connect(Duration::from_secs(2));
    }
}

#[test]
fn hello_is_repeated_at_growing_intervals() {
    let mut world = World::new(1);
    world.faults.loss = 100;
    let mut sent = Vec::new();
    while world.now < Nanos::from_secs(3) {
        world.poll();
        if !world.recorded.is_empty() {
            assert_eq!(world.recorded.len(), 1);
            world.recorded.clear();
            sent.push(world.now.0 / 1_000_000);
        }
        world.pass(Nanos::from_secs(3));
    }
    assert_eq!(sent, [1, 11, 31, 71, 151, 311, 631, 1_131, 1_631, 2_131, 2_631]);
}

#[test]
fn another_key_makes_no_contact() {
    let mut configs = [config(HOST, 1), config(ACCELERATOR, 2)];
    configs[HOST].key = Key::new(vec![7; 32]).expect("32 octets");
    let mut world = World::of(configs, 1);
    world.run(Duration::from_secs(1));
    assert!(world.ends.iter().all(|end| end.events.is_empty()));
    let refused = world.ends[ACCELERATOR].channel.stats().discarded(Discard::Mac);
    assert_eq!(refused, world.ends[HOST].channel.stats().handshakes_sent);
    assert_eq!(world.ends[ACCELERATOR].channel.stats().frames_sent, 0);
}

#[test]
fn a_restarted_peer_is_reported_as_new() {
    for end in [HOST, ACCELERATOR] {
        let mut world = World::new(1);
        world.connect(MS);
        world.run(5 * MS);
        world.restart(end);
        world.run(100 * MS);
        let changes: Vec<BootChange> = peers(&world, 1 - end)
            .iter()
            .map(|peer| peer.boot_change)
            .collect();
        assert_eq!(changes, [BootChange::First, BootChange::New]);
        let first = peers(&world, end)[0];
        assert_eq!(first.boot_change, BootChange::First);
        // A host makes the new contact at once, before the accelerator has missed it.
        let reason = if end == HOST {
            DownReason::Replaced
        } else {
            DownReason::Silence
        };
        assert_eq!(world.ends[1 - end].events[1], Event::Down { reason, given_up: 0 });
    }
}

#[test]
fn the_same_process_is_reported_as_such() {
    let mut world = World::new(1);
    world.connect(MS);
    world.faults.loss = 100;
    world.run(80 * MS);
    world.faults.loss = 0;
    world.run(100 * MS);
    for end in [HOST, ACCELERATOR] {
        let changes: Vec<BootChange> = peers(&world, end).iter().map(|peer| peer.boot_change).collect();
        assert_eq!(changes, [BootChange::First, BootChange::Same]);
    }
}

#[test]
fn the_user_can_end_a_contact() {
    for end in [HOST, ACCELERATOR] {
        let mut world = World::new(1);
        world.connect(MS);
        world.run(MS);
        world.ends[end].send(b"given up").expect("room");
        let now = world.now;
        world.ends[end].channel.disconnect(now);
        world.ends[end].channel.disconnect(now);
        world.run(100 * MS);
        let down = Event::Down {
            reason: DownReason::Local,
            given_up: 1,
        };
        assert_eq!(world.ends[end].events[1], down);
        assert!(world.ends[HOST].channel.is_up() && world.ends[ACCELERATOR].channel.is_up());
        world.check();
    }
}

#[test]
fn no_contact_is_made_before_the_end_of_the_last_one_is_known() {
    let mut world = World::new(1);
    world.connect(MS);
    world.run(MS);
    let now = world.now;
    // The user of the accelerator does not look; its host starts anew.
    let mut waiting = Vec::new();
    world.ends[ACCELERATOR].channel.disconnect(now);
    world.ends[HOST].channel.disconnect(now);
    let mut frame = Vec::new();
    for step in 0..20 {
        let now = now + step * 5 * MS;
        while world.ends[HOST].channel.poll_transmit(now, &mut frame) {
            waiting.push(world.ends[ACCELERATOR].channel.receive(&frame, now));
            while world.ends[ACCELERATOR].channel.poll_transmit(now, &mut frame) {
                let _ = world.ends[HOST].channel.receive(&frame, now);
            }
        }
        world.ends[HOST].take();
    }
    assert!(waiting.contains(&Err(Discard::EventsPending)), "{waiting:?}");
    assert!(!world.ends[ACCELERATOR].channel.is_up());
    world.now = now + 100 * MS;
    world.run(200 * MS);
    assert!(world.ends[ACCELERATOR].channel.is_up());
}

#[test]
fn frames_of_others_are_ignored_and_counted() {
    let mut tagged = [config(HOST, 1), config(ACCELERATOR, 2)];
    for config in &mut tagged {
        config.vlan = VlanId::new(100);
    }
    let mut world = World::of(tagged.clone(), 1);
    world.connect(MS);
    let (_, hello) = world.recorded[0].clone();
    assert_eq!(
        hello[..18],
        [&[255; 6][..], &MACS[HOST].0, &[0x81, 0, 0xe0, 100, 0x88, 0xb5]].concat()
    );
    assert_eq!(channel_of(&hello), Some(3));
    assert_eq!(channel_of(&hello[..17]), None);

    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut end = Channel::new(tagged[ACCELERATOR].clone(), Draw(1).octets()).expect("valid");
        let mut frame = hello.clone();
        change(&mut frame);
        let result = end.receive(&frame, Nanos::from_secs(1));
        if let Err(reason) = result {
            assert_eq!(end.stats().discarded(reason), 1);
        }
        assert_eq!(end.stats().frames_received, u64::from(result.is_ok()));
        result
    };
    assert_eq!(refusal(&|_| ()), Ok(()));
    // Another priority is still the VLAN, and octets behind the MAC are of no frame.
    assert_eq!(refusal(&|frame| frame[14] = 0), Ok(()));
    assert_eq!(refusal(&|frame| frame.extend([0; 4])), Ok(()));
    assert_eq!(refusal(&|frame| frame[15] = 101), Err(Discard::Vlan));
    assert_eq!(refusal(&|frame| drop(frame.drain(12..16))), Err(Discard::Vlan));
    assert_eq!(refusal(&|frame| frame[17] = 0xb6), Err(Discard::EtherType));
    assert_eq!(refusal(&|frame| frame[13] = 0xa8), Err(Discard::EtherType));
    assert_eq!(refusal(&|frame| frame.truncate(13)), Err(Discard::EtherType));
    assert_eq!(
        refusal(&|frame| frame[..6].copy_from_slice(&MACS[HOST].0)),
        Err(Discard::Address)
    );
    // A group would get the response.
    assert_eq!(refusal(&|frame| frame[6..12].fill(255)), Err(Discard::Address));
    assert_eq!(refusal(&|frame| frame.truncate(40)), Err(Discard::Length));
    assert_eq!(
        refusal(&|frame| frame.truncate(frame.len() - 1)),
        Err(Discard::Length)
    );
    assert_eq!(refusal(&|frame| frame[18] = 2), Err(Discard::Version));
    assert_eq!(refusal(&|frame| frame[19] = 6), Err(Discard::Kind));
    assert_eq!(refusal(&|frame| frame[19] = 2), Err(Discard::Kind));
    assert_eq!(refusal(&|frame| frame[19] = 5), Err(Discard::NoContact));
    assert_eq!(refusal(&|frame| frame[20] = 4), Err(Discard::Channel));
    assert_eq!(refusal(&|frame| frame[21] = 1), Err(Discard::Role));
}

#[test]
fn an_untagged_channel_takes_priority_tags() {
    // IEEE 802.1Q §9.6: a tag whose identifier is 0 is of no VLAN.
    let mut world = World::new(1);
    world.poll();
    let (_, mut hello) = world.recorded[0].clone();
    hello.splice(12..12, [0x81, 0, 0xe0, 0]);
    assert_eq!(world.ends[ACCELERATOR].channel.receive(&hello, world.now), Ok(()));
    hello[15] = 1;
    assert_eq!(
        world.ends[ACCELERATOR].channel.receive(&hello, world.now),
        Err(Discard::Vlan)
    );
}

#[test]
fn only_the_configured_peer_is_spoken_to() {
    let mut configs = [config(HOST, 1), config(ACCELERATOR, 2)];
    configs[HOST].peer_mac = Some(MACS[ACCELERATOR]);
    configs[ACCELERATOR].peer_mac = Some(MacAddr([2, 0, 0, 0, 0, 9]));
    let mut world = World::of(configs.clone(), 1);
    world.run(50 * MS);
    assert_eq!(world.recorded[0].1[..6], MACS[ACCELERATOR].0);
    assert!(
        world.ends[ACCELERATOR]
            .channel
            .stats()
            .discarded(Discard::Address)
            > 1
    );
    configs[ACCELERATOR].peer_mac = Some(MACS[HOST]);
    World::of(configs, 1).connect(MS);
}

#[test]
fn configurations_are_checked() {
    type Change = fn(&mut crate::channel::ChannelConfig);
    let cases: [(Change, ConfigFault); 10] = [
        (|config| config.own_mac = MacAddr::BROADCAST, ConfigFault::Address),
        (
            |config| config.peer_mac = Some(MacAddr::ZERO),
            ConfigFault::Address,
        ),
        (
            |config| config.capabilities = vec![0; 257],
            ConfigFault::Capabilities,
        ),
        (|config| config.mtu = 575, ConfigFault::Mtu),
        (|config| config.mtu = 9_217, ConfigFault::Mtu),
        (|config| config.window = 0, ConfigFault::Window),
        (|config| config.window = 65, ConfigFault::Window),
        (|config| config.queue = 1_439, ConfigFault::Queue),
        (
            |config| config.timers.heartbeat = Duration::ZERO,
            ConfigFault::Timers,
        ),
        (
            |config| config.timers.min_retransmission = 6 * MS,
            ConfigFault::Timers,
        ),
    ];
    for (change, fault) in cases {
        let mut config = config(HOST, 1);
        change(&mut config);
        let refused = Channel::new(config, Draw(1).octets()).expect_err("out of range");
        assert_eq!(refused, fault);
    }
    assert_eq!(Key::new(vec![1; 31]).expect_err("short"), ShortKey(31));
}

#[test]
fn keys_are_not_shown() {
    let shown = format!(
        "{:?} {:?}",
        config(HOST, 1),
        Channel::new(config(HOST, 1), Draw(1).octets())
    );
    assert!(shown.contains("Key(..)"));
    assert!(
        !shown.contains("1, 2, 3, 4") && !format!("{:?}", key()).contains('3'),
        "{shown}"
    );
}

#[test]
fn two_hosts_do_not_speak_to_each_other() {
    let mut other = config(ACCELERATOR, 2);
    other.role = Role::Host;
    let mut world = World::of([config(HOST, 1), other], 1);
    world.run(50 * MS);
    assert!(
        world
            .ends
            .iter()
            .all(|end| end.channel.stats().discarded(Discard::Role) > 1)
    );
    assert!(
        world
            .ends
            .iter()
            .all(|end| end.channel.stats().frames_received == 0)
    );
}

#[test]
fn a_repeated_confirmation_is_acknowledged_at_once() {
    let mut world = World::new(1);
    world.hand_over(HOST);
    world.hand_over(ACCELERATOR);
    world.hand_over(HOST);
    assert_eq!(world.outbox(ACCELERATOR).len(), 1, "which is lost");
    world.now = world.now + 5 * MS;
    let again = world.outbox(HOST);
    let now = world.now;
    assert_eq!(
        world.ends[ACCELERATOR].channel.receive(&again[0], now),
        Err(Discard::Duplicate)
    );
    assert_eq!(world.hand_over(ACCELERATOR), 1);
    assert!(world.ends[HOST].channel.is_up());
}

#[test]
fn a_nonce_that_is_used_up_is_not_offered() {
    let mut world = World::new(1);
    world.hand_over(HOST);
    let welcome = world.outbox(ACCELERATOR).swap_remove(0);
    // The host repeats HELLO before WELCOME arrives, and both its frames arrive together.
    world.now = world.now + 10 * MS;
    let hello = world.outbox(HOST).swap_remove(0);
    let now = world.now;
    assert_eq!(world.ends[HOST].channel.receive(&welcome, now), Ok(()));
    let confirm = world.outbox(HOST).swap_remove(0);
    for frame in [hello, confirm] {
        assert_eq!(world.ends[ACCELERATOR].channel.receive(&frame, now), Ok(()));
    }
    let frames = world.outbox(ACCELERATOR);
    let kinds: Vec<u8> = frames.iter().map(|frame| frame[15]).collect();
    assert_eq!(kinds, [5, 2]);
    assert_ne!(frames[1][58..74], welcome[58..74]);
}
