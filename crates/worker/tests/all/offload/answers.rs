//! A worker that is asked about first packets by an accelerator that is driven by hand.

use offload::exception::{Question, QuestionsWriter, SealedAnswers};
use rules::model::{QerId, QerUpdate};

use super::*;

impl Case {
    pub(super) fn marker(&mut self, number: u64) {
        let marker = Marker { channel: 0, number };
        let mut octets = [&HOST.0[..], &ACCELERATOR.0, &[0x88, 0xb6], &[0; Marker::LEN]].concat();
        marker.write(&mut octets[14..]).expect("a header");
        self.push(&octets);
    }

    pub(super) fn read_answers(&self, sealed: &SealedAnswers<'_>) -> Sent {
        let verifies = |octets: &[u8], mac: &[u8; 16]| self.agent.channel().verifies(octets, mac);
        let (header, answers) = sealed.open(verifies).expect("it is authentic");
        assert!(header.counter > 0);
        Sent::Answers(answers.map(|answer| answer.expect("an answer")).collect())
    }

    /// The accelerator asks about frames that it keeps, showing a number of octets of each; what the host sends.
    fn ask_about(&mut self, frames: &[(u32, u16, &[u8], usize)]) -> Vec<Sent> {
        let mut writer = QuestionsWriter::default();
        for &(number, port, frame, shown) in frames {
            let question = Question {
                number,
                port: PortId(port),
                length: frame.len() as u16,
                user_packet: if port == 0 { 58 } else { 14 },
                layer4: None,
                head: &frame[..shown.min(frame.len())],
            };
            assert!(writer.add(0, &question, 1_500));
        }
        let octets = [&HOST.0[..], &ACCELERATOR.0, &[0x88, 0xb6], writer.octets()].concat();
        self.push(&octets);
        let mut sent = self.step();
        sent.extend(self.step());
        sent
    }
}

fn answers(sent: Vec<Sent>) -> Vec<(u32, Answer)> {
    match <[Sent; 1]>::try_from(sent) {
        Ok([Sent::Answers(answers)]) => answers,
        other => panic!("one frame of answers, and not {other:?}"),
    }
}

const SHOWN: usize = 128;

#[test]
fn flows_of_sessions_that_are_away_are_answered_and_all_else_is_to_come_whole() {
    let mut case = Case::new(OffloadPolicy::default());
    case.install(session());
    let [up, down] = [frame(1, &uplink()), frame(2, &to_ue())];
    let whole = |number| (number, Answer::Whole);
    // At home.
    assert_eq!(answers(case.ask_about(&[(7, 0, &up, SHOWN)])), [whole(7)]);
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    case.settle();
    let answered = answers(case.ask_about(&[(8, 0, &up, SHOWN), (9, 1, &down, SHOWN)]));
    let [
        (8, Answer::ByFlow(SESSION, up_flow)),
        (9, Answer::ByFlow(SESSION, down_flow)),
    ] = answered[..]
    else {
        panic!("{answered:?}")
    };
    // What comes whole has the same flow.
    let (header, _) = one_through(case.miss(0, &up));
    assert_eq!(header.flow, up_flow);
    assert_eq!(header.counter, 3);
    let (header, _) = one_through(case.miss(1, &down));
    assert_eq!(header.flow, down_flow);
    // No session, no user packet, too little to see, an option.
    let mut unknown = up.clone();
    unknown[14 + 28 + 4..][..4].copy_from_slice(&[9; 4]);
    let mut option = up.clone();
    option[58] = 0x46;
    let asked = [
        (10, 0, &unknown[..], SHOWN),
        (11, 0, &option[..], SHOWN),
        (12, 0, &up[..], 70),
        (13, 0, &up[..], SHOWN),
    ];
    let answered = answers(case.ask_about(&asked));
    assert_eq!(
        answered,
        [
            whole(10),
            whole(11),
            whole(12),
            (13, Answer::ByFlow(SESSION, up_flow))
        ]
    );
    // A question counts in nothing.
    assert_eq!(case.worker.stats().unaccounted(), 0);
    assert_eq!(octets(&case.remove()), [from_ue().len() as u64, 0]);
}

#[test]
fn no_answer_overtakes_packets_that_wait_for_their_session() {
    let mut case = Case::new(OffloadPolicy::default());
    away(&mut case, session());
    let up = frame(1, &uplink());
    // One that needs this node has the session come home.
    case.except(0, Reason::OtherHeaders, 0, &up);
    let sent = case.ask_about(&[(1, 0, &up, SHOWN)]);
    assert!(
        sent.contains(&Sent::Answers(vec![(1, Answer::Whole)])),
        "{sent:?}"
    );
    case.settle_anyhow();
    assert_eq!(
        answers(case.ask_about(&[(2, 0, &up, SHOWN)])),
        [(2, Answer::Whole)]
    );
}

#[test]
fn questions_that_cannot_be_read_are_counted() {
    let mut case = Case::new(OffloadPolicy::default());
    case.settle();
    let header = [&HOST.0[..], &ACCELERATOR.0, &[0x88, 0xb6]].concat();
    for octets in [
        &[1, 3, 0, 1][..],
        &[1, 3, 0, 0],
        &[1, 3, 0, 2, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 0, 50, 0, 0, 1, 1, 0, 0],
    ] {
        case.push(&[&header, octets].concat());
        assert_eq!(case.step(), []);
    }
    let io = case.worker.io_mut();
    assert_eq!((io.port_stats().foreign, io.port_stats().questions), (3, 0));
}

#[test]
fn a_session_that_is_marked_for_the_ran_stays() {
    let mut case = Case::new(OffloadPolicy::default());
    let mut rules = session();
    let update = QerUpdate {
        marks_l4s: Some(true),
        ..QerUpdate::new(QerId(1))
    };
    rules.update_qer(update).expect("it is there");
    case.install(rules);
    let sent = case.miss(0, &frame(1, &uplink()));
    assert!(matches!(&sent[..], [Sent::By(1, _)]));
    assert_eq!(case.worker.offload_stats().stays[Stays::Capability as usize], 1);
    assert_eq!(case.agent.backend().sessions(), 0);
}
