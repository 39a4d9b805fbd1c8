//! The warm fast path allocates nothing and frees nothing: counted by a global allocator, around polls alone.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

use flow::{PortId, WorkerId};
use packet::Teid;
use rules::model::OuterHeaderCreation;
use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, pdu_session, tunnelled};
use worker::mem::MemBuf;
use worker::{COUNTS_BUFFERS, Command, Event, LEAST_COUNTS, PacketMetadata};

use common::beside::both;
use common::one_session::{from_ue, to_ue, uplink};
use common::{World, frame};

thread_local! {
    /// Calls of the allocator by this thread while it is being watched.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, with its calls counted.
struct Counting;

fn count() {
    if WATCHED.get() {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: every call is the system allocator's own, with the same arguments; counting touches no memory but two
// constant-initialised thread locals without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: `memory` came from `System.alloc` with this layout, as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocator's calls during `work`.
fn calls_during(work: impl FnOnce()) -> u64 {
    CALLS.set(0);
    WATCHED.set(true);
    work();
    WATCHED.set(false);
    CALLS.get()
}

#[test]
fn the_counter_counts() {
    assert!(calls_during(|| drop(vec![1_u8; 100])) >= 2);
}

#[test]
fn the_warm_fast_path_calls_no_allocator() {
    let mut world = World::with(testing::network(), 1, |config| {
        config.checkpoint_interval = Some(Duration::from_millis(1));
    });
    for _ in 0..COUNTS_BUFFERS {
        world.tell_all(|| Command::CountsRoom(Vec::with_capacity(LEAST_COUNTS)));
    }
    world.install(
        1,
        pdu_session(0x1001, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB)),
    );
    let remote = Ipv4Addr::new(192, 0, 2, 1);
    let user = UserPacket::udp(UE, remote, 1000, 53).bytes();
    let uplink = frame(
        0,
        &tunnelled(N3_ADDRESS, 0x1001, 255, Some([0x10, 9]), &[], &user),
    );
    let downlink = frame(1, &UserPacket::udp(remote, UE, 53, 1000).bytes());
    let unknown = frame(0, &tunnelled(N3_ADDRESS, 0x9999, 255, None, &[], &user));
    let packets = [(0, &uplink), (1, &downlink), (0, &unknown), (0, &uplink)];
    let mut checkpoints = 0;
    for round in 0..50 {
        for (port, packet) in packets.iter().cycle().take(40) {
            let queue = world.wires.to(WorkerId(0), PortId(*port));
            queue.push(MemBuf::new(packet)).expect("there is room");
        }
        world.now = world.now + Duration::from_micros(300);
        let calls = calls_during(|| world.poll());
        // The first rounds fill the pool that freed buffers and our own messages come from.
        assert!(round < 5 || calls == 0, "round {round}: {calls} calls");
        world.take();
        // Control's part: lists of counts go back as they came.
        while let Ok(event) = world.controls[0].events.pop() {
            if let Event::Counted { mut counts } = event {
                checkpoints += counts.drain(..).count();
                let commands = &mut world.controls[0].commands;
                commands.push(Command::CountsRoom(counts)).expect("there is room");
            }
        }
    }
    assert!(checkpoints > 10, "{checkpoints} counts were pushed");
    let stats = world.workers[0].stats();
    assert!(stats.hits > 1000, "the path was warm: {stats:?}");
    world.assert_conserved();
}

#[test]
fn an_accelerator_calls_no_allocator_also_for_exceptions_and_flows_that_settle() {
    let (world, mut beside, guest) = both();
    drop(world);
    let moving = beside.entry_of(&guest, 1, &to_ue());
    let stray = frame(0, &tunnelled(N3_ADDRESS, 0x9999, 255, None, &[], &from_ue()));
    let packets = [(0, frame(0, &uplink())), (1, frame(1, &to_ue())), (0, stray)];
    let mut taken = Vec::with_capacity(200);
    for round in 0..50 {
        assert!(beside.engine.remove(&moving.key, beside.now));
        for (port, packet) in packets.iter().cycle().take(90) {
            beside.arrive(*port, packet);
        }
        let calls = calls_during(|| {
            beside.poll();
            while let Some(exception) = beside.engine.next_exception() {
                taken.push(exception.packet);
            }
            let marker = round;
            beside
                .engine
                .put_settling(&moving, marker, beside.now)
                .expect("there is room");
        });
        assert_eq!(calls, 0, "round {round}");
        assert_eq!(taken.len(), 60, "those without a flow");
        for (port, packet) in packets.iter().cycle().take(90) {
            beside.arrive(*port, packet);
        }
        taken.retain(|packet| packet.ingress() == PortId(1));
        let calls = calls_during(|| {
            beside.poll();
            for packet in taken.drain(..) {
                beside.engine.reinject(packet, 0, beside.now);
            }
        });
        assert_eq!(calls, 0, "round {round}");
        assert_eq!(beside.engine.stats().settling.held, 30);
        let calls = calls_during(|| {
            beside.engine.settled(round, beside.now);
            beside.poll();
        });
        assert_eq!(calls, 0, "round {round}");
        beside.exceptions();
        beside.take();
    }
    let stats = beside.engine.stats();
    assert_eq!((stats.settling.settled, stats.settling.voided), (50, 0));
    beside.assert_conserved();
}
