//! The exception frames of the vectors in `docs/inband.md`.

use flow::{Nanos, PortId, SessionIndex, bucket};

use super::super::*;
use crate::codec::tests::{document, vectors};

/// An ARP request for 192.0.2.10.
const ARP: [u8; 42] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x20, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0,
    0x20, 192, 0, 2, 20, 0, 0, 0, 0, 0, 0, 192, 0, 2, 10,
];

/// UDP from 198.51.100.7:443 to 10.45.0.1:40000 with 4 octets, in a VLAN.
const USER_PACKET: [u8; 50] = [
    2, 0, 0, 0, 0, 0x16, 2, 0, 0, 0, 0, 0x20, 0x81, 0, 0, 100, 8, 0, 0x45, 0xb8, 0, 32, 0, 1, 0, 0, 64, 17,
    0x45, 0xac, 198, 51, 100, 7, 10, 45, 0, 1, 0x01, 0xbb, 0x9c, 0x40, 0, 12, 0, 0, 1, 2, 3, 4,
];

fn with_frame(frame: &[u8], write: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut octets = vec![0; Through::MAX_LEN];
    let len = write(&mut octets);
    octets.truncate(len);
    octets.extend_from_slice(frame);
    octets
}

fn user_packet() -> Exception {
    Exception {
        channel: 2,
        class: Class::High,
        reason: Reason::NoFlow,
        tags: 1,
        hops: 0,
        port: PortId(6),
        length: USER_PACKET.len() as u16,
        user_packet: Some(18),
        layer4: Some(38),
        hint: 0x1357_9bdf,
        received: Nanos(1_000_000_007),
    }
}

fn steered() -> Steered {
    Steered {
        header: user_packet(),
        bucket: bucket::of_ipv4([10, 45, 0, 1]),
    }
}

/// About the user's packet, of which 46 octets are shown.
fn question() -> Question<'static> {
    Question {
        number: 0x0001_0007,
        port: PortId(6),
        length: USER_PACKET.len() as u16,
        user_packet: 18,
        layer4: Some(38),
        head: &USER_PACKET[..46],
    }
}

fn questions() -> Vec<u8> {
    let mut asked = QuestionsWriter::default();
    assert!(asked.add(2, &question(), 1_500));
    let Ok(FromAccelerator::Questions(read)) = FromAccelerator::read(asked.octets()) else {
        panic!("not read");
    };
    assert_eq!(read.collect::<Vec<_>>(), [Ok(question())]);
    asked.octets().to_vec()
}

fn answers() -> Vec<u8> {
    let by_flow = Answer::ByFlow(SessionIndex(0x0105), vectors::flow_ipv4());
    let expected = [(0x0001_0007, by_flow), (8, Answer::Whole)];
    let mut writer = AnswersWriter::default();
    for (number, answer) in &expected {
        assert_eq!(writer.add(*number, answer, 1_500), Ok(true));
    }
    let header = AnswersHeader {
        channel: 2,
        counter: 13,
    };
    let mut octets = Vec::new();
    assert_eq!(writer.finish(&header, |_| [0xa5; 16], &mut octets), Ok(()));
    let Ok(FromHost::Answers(sealed)) = FromHost::read(&octets) else {
        panic!("not read");
    };
    let (read, answers) = sealed.open(|_, mac| *mac == [0xa5; 16]).unwrap();
    assert_eq!(read, header);
    assert_eq!(answers.collect::<Vec<_>>(), expected.map(Ok));
    octets
}

#[test]
fn the_document_has_the_vectors() {
    let arp = Exception {
        class: Class::Urgent,
        reason: Reason::NotUserPacket,
        tags: 0,
        length: ARP.len() as u16,
        user_packet: None,
        layer4: None,
        hint: 0,
        ..user_packet()
    };
    let send = Send {
        channel: 2,
        port: PortId(6),
        length: ARP.len() as u16,
    };
    let through = Through {
        channel: 2,
        hops: 1,
        session: SessionIndex(0x0105),
        counter: 12,
        port: PortId(6),
        length: USER_PACKET.len() as u16,
        flow: vectors::flow_ipv4(),
    };
    let marker = Marker {
        channel: 2,
        number: 0x1122_3344_5566,
    };
    let written = |result: Result<usize, _>| result.unwrap();
    let vectors = [
        (
            "exception-user-packet",
            with_frame(&USER_PACKET, |out| written(user_packet().write(out))),
        ),
        ("exception-arp", with_frame(&ARP, |out| written(arp.write(out)))),
        (
            "steered",
            with_frame(&USER_PACKET, |out| written(steered().write(out))),
        ),
        ("send", with_frame(&ARP, |out| written(send.write(out)))),
        (
            "through",
            with_frame(&USER_PACKET, |out| written(through.write(out, |_| [0xa5; 16]))),
        ),
        ("marker", with_frame(&[], |out| written(marker.write(out)))),
        (
            "marker-back",
            with_frame(&[], |out| written(marker.write_back(out))),
        ),
        ("questions", questions()),
        ("answers", answers()),
    ];
    let octets = |name| &vectors.iter().find(|(known, _)| *known == name).unwrap().1[..];
    for (header, frame, name) in [
        (user_packet(), &USER_PACKET[..], "exception-user-packet"),
        (arp, &ARP[..], "exception-arp"),
    ] {
        let read = FromAccelerator::read(octets(name));
        assert_eq!(read, Ok(FromAccelerator::Exception(header, frame)));
    }
    assert_eq!(
        FromAccelerator::read(octets("steered")),
        Ok(FromAccelerator::Steered(steered(), &USER_PACKET[..]))
    );
    assert_eq!(FromHost::read(octets("send")), Ok(FromHost::Send(send, &ARP[..])));
    let Ok(FromHost::Through(sealed)) = FromHost::read(octets("through")) else {
        panic!("not read");
    };
    let opened = sealed.open(|_, mac| *mac == [0xa5; 16]);
    assert_eq!(opened, Ok((through, &USER_PACKET[..])));
    assert_eq!(
        FromAccelerator::read(octets("marker")),
        Ok(FromAccelerator::Marker(marker))
    );
    assert_eq!(
        FromHost::read(octets("marker-back")),
        Ok(FromHost::Marker(marker))
    );
    document::check("Exception frames", &vectors);
}
