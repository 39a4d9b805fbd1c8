//! What is bounded in an accelerator: tables, idle times, limits of counters, exceptions that wait, and what frames can
//! do to it.

use std::time::Duration;

use flow::contract::AnyKey;
use flow::{Bounds, CounterLimit, FlowFlags, KeyFields, LimitAction, PortId, Verdict, Volumes};
use packet::DropReason;
use proptest::prelude::*;
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, any_sent, tunnelled};
use worker::PacketMetadata;
use worker::accelerator::{PutError, Reason};
use worker::mem::MemBuf;

use crate::common::beside::{Accelerator, both, dropped, limited, reason, with};
use crate::common::frame;
use crate::common::one_session::{REMOTE, from_ue, session, to_ue, uplink, world};
use crate::world::arp;

#[test]
fn a_full_table_takes_no_more_and_what_is_in_it_passes() {
    let (_, mut beside, guest) = with(session(), testing::network(), |config| config.max_flows_v4 = 64);
    let to_port = |port: u16| UserPacket::udp(REMOTE, UE, 53, port).bytes();
    let mut taken = Vec::new();
    let refused = (2_000..4_000).find(|&port| {
        let mut entry = beside.entry_of(&guest, 1, &to_port(port));
        if let AnyKey::V4(key) = &mut entry.key {
            key.fields |= KeyFields::TUPLE;
            (key.source, key.destination) = (REMOTE.octets(), UE.octets());
            (key.ports, key.protocol) = ([53, port], 17);
        }
        match beside.engine.put(&entry, beside.now) {
            Ok(()) => taken.push(entry.key),
            Err(error) => assert_eq!(error, PutError::Full),
        }
        taken.last() != Some(&entry.key)
    });
    assert!(refused.is_some() && taken.len() >= 60, "{}", taken.len());
    assert!(taken.iter().all(|key| beside.engine.entry(key).is_some()));
    assert_eq!(reason(&mut beside, &guest, 1, &to_port(2_000)), None);
}

#[test]
fn idle_flows_age_and_are_counted() {
    let (_, mut beside, guest) = both();
    let mut after = |seconds, is_used| {
        beside.now = beside.now + Duration::from_secs(seconds);
        if is_used {
            reason(&mut beside, &guest, 0, &uplink());
        }
        (0..2_000).for_each(|_| beside.poll());
        let stats = beside.engine.stats();
        (stats.path.aged, stats.flows)
    };
    assert_eq!(after(400, true), (0, 2), "1,000 ticks are 537 s");
    assert_eq!(after(200, true), (1, 1));
    assert_eq!(after(600, false), (2, 0));
    let reason = reason(&mut beside, &guest, 1, &to_ue());
    assert_eq!(reason, Some(Reason::NoFlow));
}

/// Bounds of a counter that stops after this many octets, with a watermark at half of them.
fn stops_at(octets: u64, action: LimitAction) -> Bounds {
    Bounds {
        watermarks: Volumes::of_total(octets / 2),
        limit: Some(CounterLimit {
            octets: Volumes::of_total(octets),
            action,
        }),
    }
}

#[test]
fn limits_drop_here_or_trap_and_say_so() {
    for action in [LimitAction::Drop, LimitAction::Trap] {
        let octets = to_ue().len() as u64;
        let world = world();
        let mut beside = Accelerator::beside(&world);
        let mut image = { world }.image(1, &session().into(), None).expect("it compiles");
        image.block.get_or_insert_default().bounds = vec![stops_at(3 * octets + 10, action)];
        let guest = beside.install(&image);
        beside.give(&guest, 1, &to_ue());
        assert_eq!(beside.engine.next_reached(), None);
        assert_eq!(
            (dropped(&mut beside, 1, &to_ue()), beside.engine.next_reached()),
            (None, None)
        );
        assert_eq!(dropped(&mut beside, 1, &to_ue()), None);
        assert_eq!(
            beside.engine.next_reached(),
            Some(guest.image.session),
            "the watermark"
        );
        let reached = |beside: &Accelerator| {
            let block = beside
                .engine
                .session_block(guest.installed.block)
                .expect("it is there");
            block.reached(0)
        };
        assert!(reached(&beside).watermark && reached(&beside).limits == 0);
        assert_eq!(dropped(&mut beside, 1, &to_ue()), None);
        for _ in 0..2 {
            match action {
                LimitAction::Trap => {
                    assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::Limit));
                }
                _ => assert_eq!(
                    dropped(&mut beside, 1, &to_ue()),
                    Some(DropReason::QuotaExhausted)
                ),
            }
        }
        assert_eq!(
            beside.engine.next_reached(),
            Some(guest.image.session),
            "the limit"
        );
        assert_eq!(reached(&beside).limits, 1);
        assert_eq!(beside.engine.next_reached(), None);
        assert_eq!(beside.count(&guest, 0).dl_packets, 3);
        let (blocks, block) = (beside.engine.blocks_mut(), guest.installed.block);
        assert!(blocks.set_bounds(block, 0, &stops_at(1_000_000, action)));
        assert_eq!(dropped(&mut beside, 1, &to_ue()), None);
        beside.assert_conserved();
    }
}

#[test]
fn exceptions_that_nobody_takes_are_dropped_and_counted() {
    let (_, mut beside, _) = with(session(), testing::network(), |config| config.max_exceptions = 3);
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    for _ in 0..10 {
        beside.send(0, &stray);
        beside.send_frame(0, &arp(1, [10, 0, 3, 9], N3_ADDRESS.octets()));
    }
    let stats = beside.engine.stats();
    assert_eq!((stats.exceptions_waiting, stats.exceptions_lost), (6, 14));
    assert_eq!(stats.path.dropped(DropReason::Overload), 14);
    assert_eq!(stats.exceptions[Reason::NoFlow.index()], 3);
    assert_eq!(beside.exceptions().len(), 6);
    beside.assert_conserved();
}

/// What a verdict says beside its block: any bits.
fn any_verdict() -> impl Strategy<Value = Verdict> {
    let slots = (any::<u64>(), any::<u64>(), any::<[u16; 2]>(), any::<[u8; 4]>());
    slots.prop_map(
        |(qers, urrs, [pdr, content], [forward, marking, flags, meters])| Verdict {
            qers,
            urrs,
            pdr,
            content,
            forward: forward % 3,
            marking,
            flags: FlowFlags::from_bits(flags & 0x0f),
            meters,
            ..Verdict::NONE
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_host_may_give_any_verdict_and_key(
        verdicts in prop::collection::vec((any_verdict(), any::<u8>(), any::<bool>(), any::<u16>()), 1..20),
    ) {
        let (_, mut beside, guest) = with(limited(1_000), testing::network(), |_| {});
        for (number, (verdict, fields, is_uplink, idle)) in verdicts.into_iter().enumerate() {
            let (port, packet) = if is_uplink { (0, uplink()) } else { (1, to_ue()) };
            let mut entry = beside.entry_of(&guest, port, &packet);
            if fields < 128 && let AnyKey::V4(key) = &mut entry.key {
                key.fields = KeyFields::from_bits(fields);
            }
            let Verdict { block, generation, .. } = entry.verdict;
            entry.verdict = Verdict { block, generation, ..verdict };
            entry.idle = idle;
            match number % 2 {
                0 => drop(beside.engine.put(&entry, beside.now)),
                _ => drop(beside.engine.put_settling(&entry, number as u32, beside.now)),
            }
            beside.send(port, &packet);
            beside.engine.settled(number as u32, beside.now);
            beside.send(port, &packet);
            beside.exceptions();
            beside.assert_conserved();
            beside.engine.remove(&entry.key, beside.now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_from_hell_are_accounted_and_exceptions_are_as_received(
        frames in prop::collection::vec(
            (any_sent(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), any::<prop::sample::Index>(), prop::bool::weighted(0.3)),
            1..60,
        ),
        octets in prop::collection::vec((0u16..4, prop::collection::vec(any::<u8>(), 0..200), any::<bool>()), 0..30),
    ) {
        let (_, mut beside, _) = both();
        let mut all = Vec::new();
        for (sent, mutations, cut, truncated) in &frames {
            let mut frame = frame(sent.ingress.0, &sent.bytes);
            for (at, octet) in mutations {
                let at = at.index(frame.len());
                frame[at] = *octet;
            }
            if *truncated {
                frame.truncate(cut.index(frame.len() + 1));
            }
            all.push((sent.ingress.0, frame));
        }
        all.extend(octets.into_iter().map(|(port, octets, headed)| match headed {
            true => (port, frame(port, &octets)),
            false => (port, octets),
        }));
        for (number, (port, frame)) in all.iter().enumerate() {
            match number % 4 {
                3 => {
                    let mut packet = MemBuf::new(frame);
                    packet.set_ingress(PortId(*port));
                    beside.engine.reinject(packet, 0, beside.now);
                    beside.poll();
                }
                _ => drop(beside.send_frame(*port, frame)),
            }
            if let Some((_, ingress, octets)) = beside.exception()
                && ingress.recirculations() == 0
            {
                prop_assert_eq!((ingress.0, &octets), (*port, frame));
            }
        }
        beside.assert_conserved();
    }
}
