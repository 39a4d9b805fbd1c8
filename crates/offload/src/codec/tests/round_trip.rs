//! Each message to octets and back, and how long messages are.

use flow::contract::{AnyKey, Event, Flow, FlowOp, Notice, Object, Outcome, Reply, Request, Subject};
use flow::{
    ContentId, FlowFlags, FlowKey4, FlowKey6, KeyFields, LocalId, OpId, Scope, SessionIndex, UrrCount,
};
use proptest::prelude::*;

use super::generate;
use crate::codec::{
    CodecError, JoinError, Joiner, MAX_MESSAGE, Message, decode, encode, encode_to, parts, parts_within,
};

fn octets(message: &Message) -> Vec<u8> {
    let mut octets = Vec::new();
    encode(message, &mut octets).unwrap();
    octets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_message_comes_back(message in generate::message()) {
        let octets = octets(&message);
        prop_assert!(octets.len() <= MAX_MESSAGE);
        prop_assert_eq!(decode(&octets), Ok(message));
    }

    #[test]
    fn a_message_that_is_cut_or_has_more_is_refused(message in generate::message(), at: prop::sample::Index) {
        let mut octets = octets(&message);
        let cut = &octets[..at.index(octets.len())];
        prop_assert!(matches!(decode(cut), Err(CodecError::Short { .. })), "{:?}", decode(cut));
        octets.push(0);
        let decoded = decode(&octets);
        let is_refused = matches!(decoded, Err(CodecError::Trailing { octets: 1 } | CodecError::TooLong { .. }));
        prop_assert!(is_refused, "{decoded:?}");
    }

    #[test]
    fn there_is_room_or_nothing(message in generate::message(), less in 1usize..200) {
        let whole = octets(&message);
        let mut exact = vec![0xff; whole.len()];
        prop_assert_eq!(encode_to(&message, &mut exact), Ok(whole.len()));
        prop_assert_eq!(&exact, &whole);
        let most = whole.len().saturating_sub(less);
        let octets = whole.len();
        prop_assert_eq!(encode_to(&message, &mut exact[..most]), Err(CodecError::TooLong { octets, most }));
    }

    #[test]
    fn a_list_is_divided_and_joined(notice in generate::notice(200), room in 212usize..2000) {
        let mut joiner = Joiner::default();
        let mut joined = None;
        for part in parts_within(notice.clone(), room) {
            prop_assert_eq!(joined, None, "nothing is behind the last part");
            let octets = octets(&part);
            prop_assert!(octets.len() <= room.min(MAX_MESSAGE));
            joined = joiner.join(decode(&octets).unwrap()).unwrap();
        }
        prop_assert_eq!(joined, Some(notice.into()));
    }
}

#[test]
fn nothing_is_left_of_a_message_that_is_too_long() {
    let outcome = Ok(Outcome::Counts(vec![(1, UrrCount::default()); 32]));
    let reply = Reply { id: OpId(1), outcome };
    let mut out = vec![7; 3];
    let fault = encode(&Message::Reply(reply.clone()), &mut out);
    let (octets, most) = (12 + 32 * 44, MAX_MESSAGE);
    assert_eq!(
        (fault, out),
        (Err(CodecError::TooLong { octets, most }), vec![7; 3])
    );
    let lengths: Vec<usize> = parts(Notice::Reply(reply))
        .map(|part| super::round_trip::octets(&part).len())
        .collect();
    assert_eq!(lengths, [12 + 31 * 44, 12 + 44]);
}

#[test]
fn parts_of_different_lists_are_not_joined() {
    let counts = || vec![(1, UrrCount::default())];
    let aged = |session, teid| {
        Notice::Event(Event::Aged {
            session: SessionIndex(session),
            key: AnyKey::V4(FlowKey4::tunnel(Scope::tunnel(LocalId(1)), teid)),
            counts: counts(),
        })
    };
    let event = |session| {
        Notice::Event(Event::Counts {
            session: SessionIndex(session),
            counts: counts(),
        })
    };
    let reply = |id| {
        Notice::Reply(Reply {
            id: OpId(id),
            outcome: Ok(Outcome::Counts(counts())),
        })
    };
    let done = Notice::Reply(Reply {
        id: OpId(1),
        outcome: Ok(Outcome::Done),
    });
    for (first, next) in [
        (aged(1, 1), aged(1, 2)),
        (aged(1, 1), aged(2, 1)),
        (aged(1, 1), event(1)),
        (event(1), event(2)),
        (reply(1), reply(2)),
        (reply(1), done),
        (reply(1), event(1)),
    ] {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.join(Message::Part(first.clone())), Ok(None));
        assert_eq!(
            joiner.join(next.clone().into()),
            Err(JoinError::Interrupted),
            "{first:?}, {next:?}"
        );
        assert_eq!(
            joiner.join(next.clone().into()),
            Ok(Some(next.into())),
            "it begins anew"
        );
    }
    let mut joiner = Joiner::default();
    let most = 1 + Joiner::MOST;
    let fault = (0..most).find_map(|_| joiner.join(Message::Part(event(1))).err());
    assert_eq!(fault, Some(JoinError::TooMany));
}

fn length_of_install(key: AnyKey) -> usize {
    let flow = Flow {
        key,
        qers: 0x8000,
        urrs: 0x8000_0000,
        idle: 100,
        flags: FlowFlags::DOWNLINK,
        forward: 249,
        marking: Some(63),
        nat: None,
        content: ContentId::NONE,
        generation: 0,
    };
    octets(&Message::Request(Request {
        id: OpId(u64::MAX),
        epoch: flow::contract::Epoch(u32::MAX),
        subject: Subject::Session(SessionIndex(u32::MAX)),
        op: FlowOp::Install(Object::Flow(flow)),
    }))
    .len()
}

/// A frame of 1,500 octets has 1,440 for messages, each with two more for its length.
#[test]
fn a_frame_has_room_for_23_flows() {
    let fields = KeyFields::TUPLE | KeyFields::QFI;
    let scope = Scope::tunnel(LocalId(1));
    let four = FlowKey4 {
        scope,
        fields,
        ..FlowKey4::default()
    };
    let six = FlowKey6 {
        scope,
        fields: fields | KeyFields::FLOW_LABEL,
        ..FlowKey6::default()
    };
    assert_eq!(length_of_install(AnyKey::V4(four)), 60);
    assert_eq!(length_of_install(AnyKey::V6(six)), 88);
    assert_eq!(1440 / (60 + 2), 23);
    let wide = FlowKey4::tunnel(scope, 7);
    assert_eq!(length_of_install(AnyKey::V4(wide)), 44);
}
