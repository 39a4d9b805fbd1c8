//! Headers to octets and back, and what is refused.

mod vectors;

use std::collections::HashSet;

use flow::{Bucket, Nanos, PortId, SessionIndex};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::codec::CodecError;
use crate::codec::tests::generate;

/// A header and a frame of its length.
type Framed<T> = (T, Vec<u8>);

fn frame() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 14..200)
}

fn port() -> impl Strategy<Value = PortId> {
    (0u16..1024).prop_map(PortId)
}

fn exception() -> impl Strategy<Value = Framed<Exception>> {
    let class = prop::sample::select(vec![Class::Urgent, Class::High, Class::Normal]);
    let reason = prop::sample::select(vec![
        Reason::NoFlow,
        Reason::Stale,
        Reason::NotUserPacket,
        Reason::Action,
        Reason::Limit,
        Reason::Adjacency,
        Reason::TooLong,
        Reason::Ttl,
        Reason::NeedsReassembly,
        Reason::OtherHeaders,
        Reason::NoSession,
    ]);
    let offsets = (option::of(14u16..400), option::of(15u16..400));
    let numbers = any::<(u8, u32, u64)>();
    (class, reason, (0u8..3, 0u8..8), port(), frame(), offsets, numbers).prop_map(
        |(class, reason, (tags, hops), port, frame, (user_packet, layer4), (channel, hint, received))| {
            let length = frame.len() as u16;
            let user_packet = user_packet.filter(|begin| *begin < length);
            let layer4 =
                layer4.filter(|begin| user_packet.is_some_and(|user| user < *begin) && *begin < length);
            let header = Exception {
                channel,
                class,
                reason,
                tags,
                hops,
                port,
                length,
                user_packet,
                layer4,
                hint,
                received: Nanos(received),
            };
            (header, frame)
        },
    )
}

fn through() -> impl Strategy<Value = Framed<Through>> {
    let numbers = (any::<(u8, u32)>(), 0u8..8, 1..=u64::MAX);
    (numbers, port(), generate::flow(), frame()).prop_map(
        |(((channel, session), hops, counter), port, flow, frame)| {
            let header = Through {
                channel,
                hops,
                session: SessionIndex(session),
                counter,
                port,
                length: frame.len() as u16,
                flow,
            };
            (header, frame)
        },
    )
}

/// No code that anyone would use: it has to see every octet.
fn sum(octets: &[u8]) -> [u8; MAC_LEN] {
    let mut sum = [octets.len() as u8; MAC_LEN];
    for (at, octet) in octets.iter().enumerate() {
        sum[at % MAC_LEN] = sum[at % MAC_LEN].rotate_left(1) ^ octet;
    }
    sum
}

fn with_frame(
    len: usize,
    frame: &[u8],
    write: impl FnOnce(&mut [u8]) -> Result<usize, CodecError>,
) -> Vec<u8> {
    let mut octets = vec![0xaa; len];
    assert_eq!(write(&mut octets), Ok(len));
    assert_eq!(len % 4, 0);
    octets.extend_from_slice(frame);
    octets
}

/// What reads is written again octet by octet, up to the padding.
fn is_canonical(octets: &[u8]) -> bool {
    let mut again = [0; Through::MAX_LEN];
    let written = match (FromAccelerator::read(octets), FromHost::read(octets)) {
        (Ok(FromAccelerator::Exception(header, frame)), Err(_)) => {
            assert_eq!(frame.len(), usize::from(header.length));
            header.write(&mut again)
        }
        (Ok(FromAccelerator::Steered(steered, frame)), Err(_)) => {
            assert_eq!(frame.len(), usize::from(steered.header.length));
            steered.write(&mut again)
        }
        (Ok(FromAccelerator::Marker(marker)), Err(_)) => marker.write(&mut again),
        (Ok(FromAccelerator::Questions(questions)), Err(_)) => {
            let channel = questions.channel;
            return questions_are_canonical(channel, questions, octets);
        }
        (Err(_), Ok(FromHost::Answers(sealed))) => return answers_are_canonical(&sealed, octets),
        (Err(_), Ok(FromHost::Send(header, frame))) => {
            assert_eq!(frame.len(), usize::from(header.length));
            header.write(&mut again)
        }
        (Err(_), Ok(FromHost::Marker(marker))) => marker.write_back(&mut again),
        (Err(_), Ok(FromHost::Through(sealed))) => {
            let mut mac = [0; MAC_LEN];
            let opened = sealed.open(|_, received| {
                mac = *received;
                true
            });
            let Ok((header, _)) = opened else {
                return false;
            };
            header.write(&mut again, |_| mac)
        }
        (Err(_), Err(_)) => return false,
        both => panic!("{both:?} are one frame"),
    };
    let written = written.unwrap();
    assert_eq!(again[..written], octets[..written]);
    true
}

fn questions_are_canonical(channel: u8, questions: Questions<'_>, octets: &[u8]) -> bool {
    let mut writer = QuestionsWriter::default();
    for question in questions {
        let Ok(question) = question else { return false };
        assert!(writer.add(channel, &question, usize::MAX));
    }
    let written = writer.octets();
    assert_eq!(*written, octets[..written.len()]);
    true
}

fn answers_are_canonical(sealed: &SealedAnswers<'_>, octets: &[u8]) -> bool {
    let mut mac = [0; MAC_LEN];
    let opened = sealed.open(|_, received| {
        mac = *received;
        true
    });
    let (header, answers) = opened.unwrap();
    let mut writer = AnswersWriter::default();
    for answer in answers {
        let Ok((number, answer)) = answer else {
            return false;
        };
        assert_eq!(writer.add(number, &answer, usize::MAX), Ok(true));
    }
    let mut written = Vec::new();
    assert_eq!(writer.finish(&header, |_| mac, &mut written), Ok(()));
    assert_eq!(written, octets[..written.len()]);
    true
}

/// A question, with the octets that it shows.
type Asked = (u32, PortId, u16, u16, Option<u16>, Vec<u8>);

fn asked() -> impl Strategy<Value = Asked> {
    let offsets = (14u16..100, option::of(1u16..60), 0u16..1400);
    (any::<u32>(), port(), offsets, vec(any::<u8>(), 1..150)).prop_map(
        |(number, port, (user_packet, layer4, more), mut head)| {
            head.splice(0..0, vec![7; usize::from(user_packet)]);
            head.truncate(Question::MAX_HEAD);
            let length = head.len() as u16 + more;
            let layer4 = layer4
                .map(|offset| user_packet + offset)
                .filter(|offset| *offset < length);
            (number, port, length, user_packet, layer4, head)
        },
    )
}

fn question_of(asked: &Asked) -> Question<'_> {
    let (number, port, length, user_packet, layer4, head) = asked;
    Question {
        number: *number,
        port: *port,
        length: *length,
        user_packet: *user_packet,
        layer4: *layer4,
        head,
    }
}

fn answer() -> impl Strategy<Value = (u32, Answer)> {
    let answer = prop_oneof![
        Just(Answer::Whole),
        (any::<u32>(), generate::flow())
            .prop_map(|(session, flow)| Answer::ByFlow(SessionIndex(session), flow)),
    ];
    (any::<u32>(), answer)
}

fn answers_of(channel: u8, counter: u64, answers: &[(u32, Answer)]) -> Vec<u8> {
    let mut writer = AnswersWriter::default();
    for (number, answer) in answers {
        assert_eq!(writer.add(*number, answer, usize::MAX), Ok(true));
    }
    let mut octets = Vec::new();
    assert_eq!(
        writer.finish(&AnswersHeader { channel, counter }, sum, &mut octets),
        Ok(())
    );
    assert!(writer.is_empty());
    octets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn questions_come_back(channel: u8, all in vec(asked(), 1..9), padding in vec(any::<u8>(), 0..50)) {
        let mut writer = QuestionsWriter::default();
        let fit = all.iter().take_while(|asked| writer.add(channel, &question_of(asked), 1_000)).count();
        prop_assert!(fit > 0 && writer.octets().len() <= 1_000);
        let mut octets = [writer.octets(), &padding].concat();
        prop_assert!(is_canonical(&octets));
        let Ok(FromAccelerator::Questions(read)) = FromAccelerator::read(&octets) else {
            return Err(TestCaseError::fail("not read"));
        };
        prop_assert_eq!(read.channel, channel);
        let read: Vec<_> = read.collect();
        let expected: Vec<_> = all[..fit].iter().map(|asked| Ok(question_of(asked))).collect();
        prop_assert_eq!(read, expected);
        octets.truncate(writer.octets().len() - 1);
        prop_assert!(!is_canonical(&octets));
    }

    #[test]
    fn answers_come_back(channel: u8, counter in 1..=u64::MAX, all in vec(answer(), 1..20)) {
        let octets = answers_of(channel, counter, &all);
        prop_assert!(is_canonical(&octets));
        let Ok(FromHost::Answers(sealed)) = FromHost::read(&octets) else {
            return Err(TestCaseError::fail("not read"));
        };
        prop_assert_eq!(sealed.channel(), channel);
        let (header, read) = sealed.open(|octets, mac| sum(octets) == *mac).unwrap();
        prop_assert_eq!(header, AnswersHeader { channel, counter });
        let read: Vec<_> = read.collect();
        let expected: Vec<_> = all.into_iter().map(Ok).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn changed_questions_and_answers(
        asked in vec(asked(), 1..4),
        all in vec(answer(), 1..4),
        is_answer: bool,
        changes in vec(any::<(prop::sample::Index, u8)>(), 1..4),
    ) {
        let mut writer = QuestionsWriter::default();
        asked.iter().for_each(|asked| assert!(writer.add(3, &question_of(asked), 9_000)));
        let octets = if is_answer { answers_of(3, 7, &all) } else { writer.octets().to_vec() };
        let mut changed = octets.clone();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            changed[at] = octet;
        }
        is_canonical(&changed);
        if is_answer && changed != octets && let Ok(FromHost::Answers(sealed)) = FromHost::read(&changed) {
            let opened = sealed.open(|octets, mac| sum(octets) == *mac);
            prop_assert_eq!(opened.map(drop), Err(OpenError::Mac));
        }
    }

    #[test]
    fn an_exception_comes_back((header, frame) in exception(), padding in vec(any::<u8>(), 0..50)) {
        let mut octets = with_frame(Exception::LEN, &frame, |out| header.write(out));
        octets.extend_from_slice(&padding);
        prop_assert_eq!(FromAccelerator::read(&octets), Ok(FromAccelerator::Exception(header, &frame[..])));
        prop_assert!(is_canonical(&octets));
        octets.truncate(Exception::LEN + frame.len() - 1);
        prop_assert_eq!(FromAccelerator::read(&octets), Err(CodecError::Short { field: "frame" }));
        prop_assert!(header.write(&mut octets[..Exception::LEN - 1]).is_err());
    }

    #[test]
    fn a_steered_packet_comes_back((header, frame) in exception(), bucket in 0..512_u16) {
        let steered = Steered { header, bucket: Bucket::new(bucket).expect("it is one") };
        let mut octets = with_frame(Steered::LEN, &frame, |out| steered.write(out));
        prop_assert_eq!(FromAccelerator::read(&octets), Ok(FromAccelerator::Steered(steered, &frame[..])));
        prop_assert!(is_canonical(&octets));
        octets.truncate(Steered::LEN + frame.len() - 1);
        prop_assert_eq!(FromAccelerator::read(&octets), Err(CodecError::Short { field: "frame" }));
        prop_assert!(steered.write(&mut octets[..Steered::LEN - 1]).is_err());
    }

    #[test]
    fn a_frame_to_send_comes_back(channel: u8, port in port(), frame in frame()) {
        let header = Send { channel, port, length: frame.len() as u16 };
        let octets = with_frame(Send::LEN, &frame, |out| header.write(out));
        prop_assert_eq!(FromHost::read(&octets), Ok(FromHost::Send(header, &frame[..])));
        prop_assert!(is_canonical(&octets));
    }

    #[test]
    fn a_marker_comes_back(channel: u8, number: u64) {
        let marker = Marker { channel, number };
        let there = with_frame(Marker::LEN, &[0; 34], |out| marker.write(out));
        let back = with_frame(Marker::LEN, &[0; 34], |out| marker.write_back(out));
        prop_assert_eq!(FromAccelerator::read(&there), Ok(FromAccelerator::Marker(marker)));
        prop_assert_eq!(FromHost::read(&back), Ok(FromHost::Marker(marker)));
        prop_assert!(is_canonical(&there) && is_canonical(&back));
    }

    #[test]
    fn a_packet_and_its_flow_come_back((header, frame) in through()) {
        let len = header.header_len();
        prop_assert!(len <= Through::MAX_LEN);
        let octets = with_frame(len, &frame, |out| header.write(out, sum));
        let Ok(FromHost::Through(sealed)) = FromHost::read(&octets) else {
            return Err(TestCaseError::fail("not read"));
        };
        prop_assert_eq!(sealed.channel(), header.channel);
        let verifies = |octets: &[u8], mac: &[u8; MAC_LEN]| sum(octets) == *mac;
        prop_assert_eq!(sealed.open(verifies), Ok((header, &frame[..])));
        prop_assert!(is_canonical(&octets));
    }

    #[test]
    fn a_changed_header_of_a_flow_is_not_authentic((header, frame) in through(), bit: prop::sample::Index) {
        let len = header.header_len();
        let mut octets = with_frame(len, &frame, |out| header.write(out, sum));
        let bit = bit.index(8 * len);
        octets[bit / 8] ^= 1 << (bit % 8);
        if let Ok(FromHost::Through(sealed)) = FromHost::read(&octets) {
            let opened = sealed.open(|octets, mac| sum(octets) == *mac);
            prop_assert_eq!(opened, Err(OpenError::Mac));
        }
    }

    #[test]
    fn any_octets(octets in vec(prop_oneof![Just(0), Just(1), any::<u8>()], 0..300)) {
        is_canonical(&octets);
    }

    #[test]
    fn changed_headers(
        (header, frame) in exception(),
        through in through(),
        kind in 0..3_u8,
        changes in vec(any::<(prop::sample::Index, u8)>(), 1..4),
    ) {
        let steered = Steered { header, bucket: Bucket::default() };
        let mut octets = match kind {
            0 => with_frame(through.0.header_len(), &through.1, |out| through.0.write(out, sum)),
            1 => with_frame(Steered::LEN, &frame, |out| steered.write(out)),
            _ => with_frame(Exception::LEN, &frame, |out| header.write(out)),
        };
        for (at, octet) in changes {
            let at = at.index(octets.len().min(140));
            octets[at] = octet;
        }
        is_canonical(&octets);
    }

    #[test]
    fn a_counter_is_taken_once(steps in vec(prop_oneof![0u64..9, 0u64..70], 1..300)) {
        let (mut window, mut model, mut highest) = (ReplayWindow::default(), HashSet::new(), 0u64);
        for (place, step) in steps.into_iter().enumerate() {
            // Some ahead, some behind.
            let counter = if place % 2 == 0 { highest + step } else { highest.saturating_sub(step) };
            let is_new = counter != 0 && highest.saturating_sub(counter) < 64 && model.insert(counter);
            prop_assert_eq!(window.take(counter), is_new, "{} at {}", counter, highest);
            highest = highest.max(counter);
        }
    }
}

fn plain() -> Exception {
    Exception {
        channel: 1,
        class: Class::Normal,
        reason: Reason::NoFlow,
        tags: 0,
        hops: 0,
        port: PortId(1),
        length: 60,
        user_packet: Some(14),
        layer4: Some(34),
        hint: 0,
        received: Nanos(0),
    }
}

#[test]
fn a_field_says_what_it_can_be() {
    let octets = with_frame(Exception::LEN, &[0; 60], |out| plain().write(out));
    let with = |at: usize, octet| {
        let mut octets = octets.clone();
        octets[at] = octet;
        FromAccelerator::read(&octets).unwrap_err().to_string()
    };
    assert_eq!(with(0, 2), "version is 2, not 1");
    assert_eq!(with(1, 5), "frame type is 5, not one of [1, 2, 3, 4]");
    assert_eq!(with(3, 3), "class is 3, not in 0..=2");
    assert_eq!(with(4, 11), "reason is 11, not in 0..=10");
    assert_eq!(with(5, 3), "VLAN tags is 3, not in 0..=2");
    assert_eq!(with(6, 8), "hops is 8, not in 0..=7");
    assert_eq!(with(7, 1), "reserved is 1, not 0");
    assert_eq!(with(8, 4), "port is 1025, not in 0..=1023");
    assert_eq!(with(11, 13), "frame length is 13, not in 14..=65535");
    assert_eq!(with(13, 60), "user packet is 60, not in 14..=59 or 0");
    assert_eq!(with(13, 13), "user packet is 13, not in 14..=59 or 0");
    assert_eq!(with(13, 0), "layer 4 is 34, not 0");
    assert_eq!(with(15, 14), "layer 4 is 14, not in 15..=59 or 0");
    let steered = Steered {
        header: plain(),
        bucket: Bucket::default(),
    };
    let mut octets = with_frame(Steered::LEN, &[0; 60], |out| steered.write(out));
    octets[28] = 2;
    let words = FromAccelerator::read(&octets).unwrap_err().to_string();
    assert_eq!(words, "bucket is 512, not in 0..=511");
    for header in [
        Exception { hops: 8, ..plain() },
        Exception { tags: 3, ..plain() },
        Exception {
            length: 34,
            ..plain()
        },
        Exception {
            user_packet: Some(0),
            layer4: None,
            ..plain()
        },
        Exception {
            user_packet: None,
            ..plain()
        },
    ] {
        assert!(header.write(&mut [0; 40]).is_err(), "{header:?}");
    }
    let send = Send {
        channel: 1,
        port: PortId(1024),
        length: 60,
    };
    assert!(send.write(&mut [0; 8]).is_err());
}

#[test]
fn the_inner_ip_header_is_aligned() {
    // Behind the Ethernet header of the exception frame, its header, and the Ethernet header of the inner frame.
    for len in [Exception::LEN, Steered::LEN, Send::LEN, Through::MAX_LEN] {
        assert_eq!((14 + len + 14) % 4, 0);
    }
}
