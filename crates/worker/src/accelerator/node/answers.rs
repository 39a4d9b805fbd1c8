//! Questions of a node, and the answers of its host.

use flow::Nanos;
use offload::exception::{Answer, Answers, Question};
use packet::PacketBuf;

use super::frames::Envelope;
use super::{HostLink, Node};
use crate::Batch;
use crate::accelerator::asking::Questions;
use crate::io::Io;

/// The most octets of a frame with questions, behind its EtherType: a control frame's.
const MOST: usize = 1_500;

impl<I: Io> Node<I> {
    /// A frame that finds no room is lost: what it asks about goes to the host when its time is over.
    pub(super) fn send_questions(&mut self) -> u64 {
        if !self.link.engine_mut().has_questions() {
            return 0;
        }
        let envelope = self.link.envelope();
        let questions = self.link.engine_mut().take_questions();
        let sent = envelope.map_or(0, |envelope| {
            self.link.ask_about(&questions, &envelope, &mut self.out)
        });
        self.link.engine_mut().questions_sent(questions);
        sent
    }
}

impl<I: Io> HostLink<I> {
    fn ask_about(&mut self, asked: &Questions, envelope: &Envelope, out: &mut Batch<I::Buf>) -> u64 {
        let (channel, most) = (self.agent.channel().config().channel, self.host_mtu.min(MOST));
        let mut sent = 0;
        for (asked, head) in asked.all() {
            let question = Question {
                number: asked.number,
                port: asked.port,
                length: asked.length,
                user_packet: asked.user_packet,
                layer4: (asked.layer4 != 0).then_some(asked.layer4),
                head,
            };
            if !self.questions.add(channel, &question, most) {
                sent += self.end_questions(envelope, out);
                let _ = self.questions.add(channel, &question, most);
            }
        }
        self.end_questions(envelope, out);
        sent + self.transmit_questions(out)
    }

    /// The frame of questions has no room for more.
    fn end_questions(&mut self, envelope: &Envelope, out: &mut Batch<I::Buf>) -> u64 {
        let octets = envelope.len() + self.questions.octets().len();
        let frame = self.engine_mut().alloc().and_then(|mut frame| {
            let room = frame.append(octets)?;
            envelope.write(room);
            room.get_mut(envelope.len()..)?
                .copy_from_slice(self.questions.octets());
            Some(frame)
        });
        self.questions.clear();
        match frame {
            Some(frame) => drop(out.push(frame)),
            None => self.stats.questions_lost += 1,
        }
        if out.is_full() {
            self.transmit_questions(out)
        } else {
            0
        }
    }

    fn transmit_questions(&mut self, out: &mut Batch<I::Buf>) -> u64 {
        let (sent, left) = self.transmit(out);
        self.stats.questions += sent;
        self.stats.questions_lost += left as u64;
        sent
    }

    /// Follows the answers of an authentic frame: flows are put, and what was kept for them passes behind all of them.
    pub(super) fn take_answers(&mut self, counter: u64, answers: Answers<'_>, now: Nanos) {
        if !self.is_new(counter) {
            return;
        }
        self.stats.answers += 1;
        self.engine_mut().pass_reinjected(now);
        self.engine_mut().set_answering(true, now);
        for answer in answers {
            match answer {
                Ok((number, Answer::Whole)) => self.engine_mut().answer_whole(number, now),
                Ok((number, Answer::ByFlow(session, flow))) => {
                    if self.engine_mut().may_put_answered(number, &flow, now) {
                        match self.agent.backend_mut().put_now(session, &flow, now) {
                            Ok(()) => self.engine_mut().note_answered(),
                            Err(_) => self.engine_mut().answer_whole(number, now),
                        }
                    }
                }
                Err(_) => self.stats.malformed += 1,
            }
        }
        self.engine_mut().set_answering(false, now);
    }
}
