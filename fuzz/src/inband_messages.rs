//! Any octets as a message of the in-band protocol and as an exception frame of either side: what is read is written
//! again octet by octet, and what is read of a list is joined, or refused.

use flow::contract::{Event, Notice, Outcome, Reply};
use offload::codec::{Joiner, Message, decode, encode, parts_within};
use offload::exception::{
    AnswersWriter, FromAccelerator, FromHost, MAC_LEN, OpenError, QuestionsWriter, SealedAnswers, Through,
};

/// Octets that the longest entry of a list fits into, with all that is before it.
const LEAST_ROOM: usize = 112;

fn message(input: &[u8]) {
    let Ok(message) = decode(input) else {
        return;
    };
    let mut again = Vec::new();
    encode(&message, &mut again).expect("what was decoded");
    assert_eq!(again, input, "{message:?}");
    if let Message::Reply(Reply {
        outcome: Ok(Outcome::Counts(_) | Outcome::Contents(_)),
        ..
    })
    | Message::Event(Event::Counts { .. } | Event::Aged { .. }) = &message
    {
        divided(message);
    }
}

/// A list in parts, as small as can be, is joined to the same list.
fn divided(message: Message) {
    let notice = match message.clone() {
        Message::Reply(reply) => Notice::Reply(reply),
        Message::Event(event) => Notice::Event(event),
        _ => return,
    };
    let mut joiner = Joiner::default();
    let mut joined = None;
    for part in parts_within(notice, LEAST_ROOM) {
        let mut octets = Vec::new();
        encode(&part, &mut octets).expect("a part");
        assert!(octets.len() <= LEAST_ROOM);
        assert_eq!(joined, None);
        joined = joiner
            .join(decode(&octets).expect("a part"))
            .expect("the next part");
    }
    assert_eq!(joined, Some(message));
}

fn exception(input: &[u8]) {
    let mut again = [0; Through::MAX_LEN];
    let written = match FromAccelerator::read(input) {
        Ok(FromAccelerator::Exception(header, frame)) => {
            assert_eq!(frame.len(), usize::from(header.length));
            header.write(&mut again)
        }
        Ok(FromAccelerator::Steered(steered, frame)) => {
            assert_eq!(frame.len(), usize::from(steered.header.length));
            steered.write(&mut again)
        }
        Ok(FromAccelerator::Marker(marker)) => marker.write(&mut again),
        Ok(FromAccelerator::Questions(questions)) => {
            let (channel, mut writer) = (questions.channel, QuestionsWriter::default());
            for question in questions {
                let Ok(question) = question else { return };
                assert!(writer.add(channel, &question, usize::MAX));
            }
            assert_eq!(*writer.octets(), input[..writer.octets().len()]);
            return;
        }
        Err(_) => return,
    };
    let written = written.expect("what was read");
    assert_eq!(again[..written], input[..written]);
}

fn from_host(input: &[u8]) {
    let mut again = [0; Through::MAX_LEN];
    let written = match FromHost::read(input) {
        Ok(FromHost::Send(header, frame)) => {
            assert_eq!(frame.len(), usize::from(header.length));
            header.write(&mut again)
        }
        Ok(FromHost::Marker(marker)) => marker.write_back(&mut again),
        Ok(FromHost::Answers(sealed)) => return answers(&sealed, input),
        Ok(FromHost::Through(sealed)) => {
            assert_eq!(sealed.open(|_, _| false), Err(OpenError::Mac));
            let mut mac = [0; MAC_LEN];
            let opened = sealed.open(|_, received| {
                mac = *received;
                true
            });
            let Ok((header, frame)) = opened else {
                return;
            };
            assert_eq!(frame.len(), usize::from(header.length));
            header.write(&mut again, |_| mac)
        }
        Err(_) => return,
    };
    let written = written.expect("what was read");
    assert_eq!(again[..written], input[..written]);
}

fn answers(sealed: &SealedAnswers<'_>, input: &[u8]) {
    assert_eq!(sealed.open(|_, _| false).map(drop), Err(OpenError::Mac));
    let mut mac = [0; MAC_LEN];
    let opened = sealed.open(|_, received| {
        mac = *received;
        true
    });
    let (header, answers) = opened.expect("it is authentic");
    let mut writer = AnswersWriter::default();
    for answer in answers {
        let Ok((number, answer)) = answer else { return };
        assert_eq!(writer.add(number, &answer, usize::MAX), Ok(true));
    }
    let mut written = Vec::new();
    writer
        .finish(&header, |_| mac, &mut written)
        .expect("what was read");
    assert_eq!(written, input[..written.len()]);
}

/// See the module.
pub fn run(input: &[u8]) {
    message(input);
    exception(input);
    from_host(input);
}
