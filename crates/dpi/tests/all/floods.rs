//! Floods: an owner has its share of states and blocks, and memory does not grow.

use dpi::{FlowIndex, Inspector, Layer4, NotOpened, Reason, Sender, Settings, Transport, Verdict};

use crate::messages::{client_hello, records};

fn settings() -> Settings {
    Settings {
        flows: 100,
        blocks: 20,
        owners: 10,
        flows_of_owner: 30,
        blocks_of_owner: 5,
        ..Settings::default()
    }
}

/// A flow with the first part of a ClientHello, which needs a block.
fn half_open(inspector: &mut Inspector, owner: u32, now: u64) -> (FlowIndex, Verdict<'_>) {
    let opened = inspector.open(owner, owner, Transport::Tcp, now);
    let flow = opened.expect("a state");
    (flow, send_half(inspector, flow))
}

fn send_half(inspector: &mut Inspector, flow: FlowIndex) -> Verdict<'_> {
    let stream = records(&client_hello("www.example.com", 0), 9_999);
    let packet = Layer4::Tcp {
        sequence: 1,
        has_syn: false,
        payload: &stream[..40],
    };
    inspector.inspect(flow, Sender::Initiator, &packet)
}

#[test]
fn a_flood_of_one_owner_leaves_the_others_their_states() {
    let mut inspector = Inspector::new(settings());
    let opened = (0..1_000)
        .filter(|_| inspector.open(3, 0, Transport::Udp, 0).is_ok())
        .count();
    assert_eq!((opened, inspector.flows()), (30, 30));
    assert_eq!(
        inspector.open(3, 0, Transport::Udp, 0),
        Err(NotOpened::OwnersShare)
    );
    assert!(inspector.open(4, 0, Transport::Udp, 0).is_ok());
    assert_eq!(
        inspector.open(10, 0, Transport::Udp, 0),
        Err(NotOpened::OwnersShare)
    );
}

#[test]
fn a_flood_of_all_owners_ends_at_the_states_there_are() {
    let mut inspector = Inspector::new(settings());
    let mut refused = Vec::new();
    for owner in 0..5 {
        refused.extend((0..30).filter_map(|_| inspector.open(owner, 0, Transport::Udp, 0).err()));
    }
    assert_eq!(refused, [NotOpened::NoState; 50]);
    assert_eq!(inspector.flows(), 100);
    // A state that was not there is not charged to the owner.
    while inspector.expire(u64::MAX).is_some() {}
    assert_eq!(
        (0..100)
            .filter(|_| inspector.open(4, 0, Transport::Udp, 0).is_ok())
            .count(),
        30
    );
}

#[test]
fn a_flood_of_half_messages_of_one_owner_leaves_the_others_their_blocks() {
    let mut inspector = Inspector::new(settings());
    for nth in 0..30 {
        let (_, verdict) = half_open(&mut inspector, 0, 0);
        match nth < 5 {
            true => assert_eq!(verdict, Verdict::Undecided),
            false => assert_eq!(verdict, Verdict::Undetected(Reason::OwnersShare)),
        }
    }
    assert_eq!((inspector.flows(), inspector.blocks()), (5, 5));
    for owner in 1..4 {
        for _ in 0..5 {
            assert_eq!(half_open(&mut inspector, owner, 0).1, Verdict::Undecided);
        }
    }
    assert_eq!(
        half_open(&mut inspector, 4, 0).1,
        Verdict::Undetected(Reason::NoBlock)
    );
    // A block that was not there is not charged to the owner.
    while inspector.expire(u64::MAX).is_some() {}
    assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
    for _ in 0..5 {
        assert_eq!(half_open(&mut inspector, 4, 0).1, Verdict::Undecided);
    }
}

#[test]
fn where_no_state_is_left_the_oldest_gives_way() {
    let mut inspector = Inspector::new(settings());
    assert_eq!(inspector.close_oldest(), None);
    for token in 0..100 {
        let opened = inspector.open(token / 25, token, Transport::Udp, 0);
        assert!(opened.is_ok());
    }
    for oldest in 0..30 {
        assert_eq!(inspector.close_oldest(), Some(oldest));
        assert!(inspector.open(9, 1_000, Transport::Udp, 0).is_ok());
    }
    assert_eq!(inspector.flows(), 100);
}

#[test]
fn where_no_block_is_left_one_of_who_has_many_gives_way() {
    let mut inspector = Inspector::new(settings());
    for owner in [0, 1, 2] {
        for _ in 0..5 {
            half_open(&mut inspector, owner, 0);
        }
    }
    for owner in [3, 4, 5, 6, 6] {
        half_open(&mut inspector, owner, 0);
    }
    let flow = inspector.open(7, 7, Transport::Tcp, 0).expect("a state");
    assert!(inspector.make_room_for(flow).is_some_and(|owner| owner < 3));
    assert_eq!(
        inspector.make_room_for(flow),
        None,
        "there is room for the next one"
    );
    assert_eq!(send_half(&mut inspector, flow), Verdict::Undecided);
    assert_eq!((inspector.flows(), inspector.blocks()), (20, 20));
    assert_eq!(inspector.make_room_for(flow), None, "it has one");
    // Who has its share takes nothing from others.
    let full = (0..3).find(|owner| {
        let flow = inspector.open(*owner, 8, Transport::Tcp, 0).expect("a state");
        inspector.make_room_for(flow).is_none()
    });
    assert!(full.is_some());
}

#[test]
fn flows_expire_from_the_oldest_on() {
    let mut inspector = Inspector::new(Settings {
        longest_ns: 100,
        ..settings()
    });
    let mut flows = Vec::new();
    for owner in 0..4 {
        flows.push(half_open(&mut inspector, owner, u64::from(owner) * 10).0);
    }
    inspector.close(flows[1]);
    assert_eq!(inspector.expire(99), None);
    assert_eq!(inspector.expire(120), Some(0));
    assert_eq!(inspector.expire(120), Some(2));
    assert_eq!(inspector.expire(120), None);
    assert_eq!(inspector.expire(130), Some(3));
    assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
}

#[test]
fn an_inspector_without_memory_refuses_all() {
    let mut inspector = Inspector::new(Settings {
        flows: 0,
        blocks: 0,
        ..settings()
    });
    assert_eq!(inspector.open(0, 0, Transport::Tcp, 0), Err(NotOpened::NoState));
    let mut inspector = Inspector::new(Settings {
        blocks: 0,
        ..settings()
    });
    assert_eq!(
        half_open(&mut inspector, 0, 0).1,
        Verdict::Undetected(Reason::NoBlock)
    );
}
